//! The partition layer: the object model and its rules.
//!
//! A rule is a pure function: values in, values out, no engine, no clock, no request. `execute` is the one loop that loads what
//! a rule needs, lets it decide, and commits what it decided. There is no HTTP and no runtime here.

pub mod account;
pub mod audit;
pub mod blob;
pub mod checks;
pub mod condition;
pub mod content;
pub mod copying;
pub mod directory;
pub mod etag;
pub mod events;
pub mod execute;
pub mod file;
pub mod gate;
pub mod housekeeping;
pub mod immutability;
pub mod kept;
pub mod key;
pub mod lease;
pub mod list;
pub mod look;
pub mod queue;
pub mod record;
pub mod service;
pub mod table;
pub mod tags;
pub mod tier;
mod turns;

pub use condition::{Conditions, EtagTest};
pub use content::{Content, ContentReader};
pub use etag::ETag;
pub use execute::{Failure, Moment, Patience, Shell, patiently};
