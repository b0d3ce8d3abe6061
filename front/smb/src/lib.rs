//! The SMB front end: frames to commands, outcomes to frames.
//!
//! `wire` knows what messages look like, `security` how they are kept from others, `connection` and `chain` how they come
//! and go, `handlers` what each command does with the files that REST serves as well.

pub mod chain;
pub mod command;
pub mod connection;
pub mod credits;
pub mod dialect;
pub mod durable;
pub mod handlers;
pub mod keeper;
pub mod listen;
pub mod memory;
pub mod negotiate;
pub mod notify;
pub mod open;
pub mod persistent;
pub mod security;
pub mod server;
pub mod session;
pub mod setup;
pub mod status;
pub mod wire;

pub use listen::Listener;
pub use server::{Accounts, Server, Tasks};
