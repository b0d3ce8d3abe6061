//! The File service: shares, and the trees in them.
//!
//! A share's tree is one partition: commands on it take turns, share commits, and each is all or nothing, a rename of a directory with
//! everything in it included.

pub mod body;
pub mod change;
pub mod copy;
pub mod create;
pub mod delete;
pub mod handle;
pub mod lease;
pub mod link;
pub mod list;
pub mod opens;
pub mod pending;
pub mod permission;
pub mod range;
pub mod ranges;
pub mod read;
pub mod removal;
pub mod rename;
pub mod security;
pub mod settings;
pub mod share;
pub mod shares;
pub mod snapshot;
pub mod sweep;
pub mod target;
pub mod tenure;
pub mod tree;
pub mod versions;
