//! Containers and blobs.

pub mod access;
pub mod append;
pub mod attribute;
pub mod block;
pub mod body;
pub mod change;
pub mod container;
pub mod copy;
pub mod delete;
pub mod expiry;
pub mod find;
pub mod incremental;
pub mod lease;
pub mod list;
pub mod page;
pub mod pending;
pub mod read;
pub mod snapshot;
pub mod staging;
pub mod state;

pub use state::{Attributes, Keeping, Which};
