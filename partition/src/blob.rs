//! Containers and blobs.

pub mod block;
pub mod container;
pub mod delete;
pub mod lease;
pub mod list;
pub mod read;
