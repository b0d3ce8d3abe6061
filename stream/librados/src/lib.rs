//! The part of RADOS that is used, as plain values; `Objects` is the door to it.
//!
//! 1. An operation is a list of steps on one object: all are applied, or none. Guards among them are judged by the
//!    object as it was before the operation, whatever their place in the list.
//! 2. A write is acknowledged when it is on the disks of all replicas that are up.
//! 3. What an operation reads is of one moment of its object.
//! 4. `OpError::Unknown` is said of a write that may have happened, may not have, and may still happen. Every other
//!    error says that nothing happened.
//! 5. An answer comes within the time limit, whatever the cluster does.

mod connect;
mod errno;
mod flight;
mod library;
mod lock;
mod operate;
mod slot;
mod watch;

pub use connect::{Librados, Settings};
pub use library::{end_process, is_loaded};
pub use lock::Holder;
pub use watch::{Handler, NotifyError, OnStanding, Standing, Watch};

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The two pools of a Lazuli cluster.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Pool {
    /// Small and replicated: objects with records (`omap`).
    Records,
    /// Bodies, replicated or erasure coded: objects with bytes and attributes.
    Bodies,
}

/// A step of a write. Names of objects and attributes are ASCII; keys hold no zero byte (a scan could not begin at
/// one).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// The object is there; if not, `Missing`.
    Exists,
    /// Makes the object if it is not there; if it must not be there, `Exists`.
    Create {
        exclusive: bool,
    },
    /// The object's version is this one. `Missing` without the object.
    Version(u64),
    /// The attribute has this value; an attribute that is not there counts as empty. `Missing` without the object.
    AttributeIs {
        name: &'static str,
        value: Bytes,
    },
    /// What is stored under the key compares so with the value, by bytes; nothing stored counts as empty. `Missing`
    /// without the object.
    Compare {
        key: Bytes,
        order: Order,
        value: Bytes,
    },
    SetAttribute {
        name: String,
        value: Bytes,
    },
    RemoveAttribute {
        name: String,
    },
    Put(Vec<(Bytes, Bytes)>),
    Delete(Vec<Bytes>),
    /// Replaces the object's bytes.
    WriteAll(Bytes),
    /// Removes the object and all that is in it.
    Remove,
}

/// How what is stored must compare with a value. OSDs take bytes for C's `char` when they ask which is less, and where
/// that has a sign, 0x80 comes before 0x00. So a value to be less or greater than holds bytes up to 0x7f only (others
/// are refused), and so should what is stored, as far as the value goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    Equal,
    Less,
    Greater,
}

/// A step of a read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Look {
    /// Those of the keys that are there.
    Keys(Vec<Bytes>),
    /// At most `limit` entries after a key (from the first on if it is empty) that begin with `prefix`. The cluster may
    /// give fewer.
    Range {
        after: Bytes,
        prefix: Bytes,
        limit: u64,
    },
    /// At most so many bytes from an offset on.
    Bytes {
        offset: u64,
        bytes: usize,
    },
    Attributes,
}

/// What one step of a read found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// Of `Keys`.
    Entries(Vec<(Bytes, Bytes)>),
    /// Of `Range`; `more` says that there are entries after the last.
    Page {
        entries: Vec<(Bytes, Bytes)>,
        more: bool,
    },
    Bytes(Bytes),
    /// By name.
    Attributes(Vec<(String, Bytes)>),
}

/// The answer to a read: one `Found` for each step, and the version of the object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    pub version: u64,
    pub found: Vec<Found>,
}

/// Why an operation did not do its work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OpError {
    /// There is no such object.
    Missing,
    /// There is one already.
    Exists,
    /// A guard did not hold.
    Guard,
    /// No answer in time: a write may have happened, or may happen yet.
    Unknown { why: String },
    /// The pool, or the cluster, is full.
    Full,
    /// Anything else, in words.
    Failed { why: String },
}

pub trait Objects: Send + Sync {
    /// Applies all steps to the object or none; gives the object's new version.
    fn write(&self, pool: Pool, object: &str, steps: Vec<Step>) -> BoxFuture<'static, Result<u64, OpError>>;

    fn read(&self, pool: Pool, object: &str, steps: Vec<Look>) -> BoxFuture<'static, Result<Seen, OpError>>;
}
