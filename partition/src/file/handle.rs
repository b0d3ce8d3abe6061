//! What is done by way of a handle: the commands of SMB, on files that stay what they are whatever they are called.
//!
//! A handle was entered in the open-file table in the turn that found or made its file, so between the judgement and the
//! handle nobody takes the file away. From there on the file is known by its id. REST and SMB write the same records by the
//! same edits; they differ in who may do what when, and in the words for it.

pub mod kept;
pub mod look;
pub mod mark;
pub mod open;
pub mod rename;
pub mod set;
pub mod write;

use engine::{Fault, Write};

use super::opens::Conflict;
use crate::execute::{Failure, MayMove};

/// Why a handle was not given, or did not do what it was asked to.
#[derive(Debug)]
pub enum Refused {
    /// A directory on the way is missing.
    NoPath,
    NotFound,
    AlreadyThere,
    IsDirectory,
    IsNotDirectory,
    /// Read-only, hidden or in use in a way that permits no such thing.
    Denied,
    CannotDelete,
    NotEmpty,
    /// A REST lease, or a copy that REST began, keeps writers out.
    HeldByRest,
    /// The share holds as much as it may.
    Full,
    TooLarge,
    Invalid,
    /// It has another size than it was judged by: it is to be judged again.
    Resized,
    /// Others that have it open.
    Opened(Conflict),
}

impl From<Conflict> for Refused {
    fn from(conflict: Conflict) -> Refused {
        Refused::Opened(conflict)
    }
}

/// What a command of a handle decided: a refusal writes nothing, and is its outcome.
fn settled<T>(made: Result<(Vec<Write>, T), Refused>) -> (Vec<Write>, Result<T, Refused>) {
    match made {
        Ok((writes, outcome)) => (writes, Ok(outcome)),
        Err(refused) => (Vec::new(), Err(refused)),
    }
}

/// Why a command of a handle came to nothing.
#[derive(Debug)]
pub enum Error {
    Refused(Refused),
    /// The share went away.
    Gone,
    Fault(Fault),
}

impl MayMove for Error {
    fn is_moved(&self) -> bool {
        matches!(self, Error::Fault(fault) if fault.is_moved())
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        Error::Refused(refused)
    }
}

impl From<Conflict> for Error {
    fn from(conflict: Conflict) -> Error {
        Error::Refused(conflict.into())
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        Error::Fault(fault)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        use contract::ErrorCode::{ShareNotFound, ShareSizeLimitReached};
        match failure {
            Failure::Gone => Error::Gone,
            Failure::Fault(fault) => Error::Fault(fault),
            Failure::Waits(wait) => Conflict::Breaking(wait).into(),
            Failure::Refused(refusal) if refusal.code == ShareNotFound => Error::Gone,
            Failure::Refused(refusal) if refusal.code == ShareSizeLimitReached => Refused::Full.into(),
            Failure::Refused(_) => Refused::Invalid.into(),
        }
    }
}
