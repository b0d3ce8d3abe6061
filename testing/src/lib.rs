//! The server in a box: the real front end, rules and turns over any engine, with a clock and ids that a test scripts. A request goes
//! in as bytes and its answer comes out as bytes, through the same connection code that a socket would have.

mod request;
pub mod sim;
mod world;

pub use request::{AccountSas, Answer, Request};
pub use world::World;
