//! The File service: shares, and the trees in them.

pub mod body;
pub mod security;
pub mod share;
pub mod tree;
pub mod versions;
