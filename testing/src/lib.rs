//! The server in a box: the real front end, rules and turns over any engine, with a clock and ids that a test scripts. A request goes
//! in as bytes and its answer comes out as bytes, through the same connection code that a socket would have.

pub mod cluster;
mod counting;
pub mod fuzz;
mod issuer;
mod outside;
pub mod raw;
mod request;
mod sas;
pub mod shapes;
pub mod sim;
mod webhook;
mod world;

pub use counting::Counting;
pub use issuer::{Issuer, PRINCIPAL, TENANT};
pub use outside::Outside;
pub use request::{ACCOUNT, Answer, KEY, Request, query, sign};
pub use sas::{AccountSas, DelegationKey, ServiceSas};
pub use webhook::{Called, Webhook};
pub use world::World;
