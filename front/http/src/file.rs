//! The File service on the wire: requests to commands, outcomes to answers.

pub mod change;
pub mod copy;
pub mod create;
pub mod handles;
pub mod headers;
pub mod lease;
pub mod link;
pub mod list;
pub mod permission;
pub mod range;
pub mod ranges;
pub mod read;
pub mod rename;
pub mod share;
pub mod shares;
pub mod wait;
