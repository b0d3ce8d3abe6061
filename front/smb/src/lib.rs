//! The SMB front end: frames to commands, outcomes to frames.

pub mod dialect;
pub mod security;
