//! The commands of SMB2, one line each: a request with everything it needs, and what it is answered.

pub mod create;
pub mod directory;
pub mod info;
pub mod io;
pub mod ioctl;
pub mod lock;
pub mod oplock;
pub mod set;
pub mod tree;
pub mod watch;

use partition::file::handle::{Error, Refused};
use partition::file::opens::Conflict;

use crate::chain::{Reply, Request};
use crate::command::Command;
use crate::status::Status;
use crate::wire::session::empty_response;

pub async fn handle(request: &Request) -> Result<Reply, Status> {
    match request.row.command {
        Command::Logoff => tree::logoff(request).await,
        Command::TreeConnect => tree::connect(request).await,
        Command::TreeDisconnect => tree::disconnect(request).await,
        Command::Create => create::create(request).await,
        Command::Close => io::close(request).await,
        Command::Flush => io::flush(request).await,
        Command::Read => io::read(request).await,
        Command::Write => io::write(request).await,
        Command::Lock => lock::lock(request).await,
        Command::Ioctl => ioctl::ioctl(request).await,
        Command::Echo => Ok(Reply::of(empty_response())),
        Command::QueryDirectory => directory::query(request).await,
        Command::ChangeNotify => watch::notify(request).await,
        Command::QueryInfo => info::query(request).await,
        Command::SetInfo => set::set(request).await,
        Command::OplockBreak => oplock::acknowledge(request).await,
        // They never come here.
        Command::Negotiate | Command::SessionSetup | Command::Cancel => Err(Status::INVALID_PARAMETER),
    }
}

impl From<Refused> for Status {
    fn from(refused: Refused) -> Status {
        match refused {
            Refused::NoPath => Status::OBJECT_PATH_NOT_FOUND,
            Refused::NotFound => Status::OBJECT_NAME_NOT_FOUND,
            Refused::AlreadyThere => Status::OBJECT_NAME_COLLISION,
            Refused::IsDirectory => Status::FILE_IS_A_DIRECTORY,
            Refused::IsNotDirectory => Status::NOT_A_DIRECTORY,
            Refused::Denied => Status::ACCESS_DENIED,
            Refused::CannotDelete => Status::CANNOT_DELETE,
            Refused::NotEmpty => Status::DIRECTORY_NOT_EMPTY,
            Refused::HeldByRest => Status::SHARING_VIOLATION,
            Refused::Full => Status::DISK_FULL,
            // Who resizes asks again until it is not so.
            Refused::Resized => Status::FILE_LOCK_CONFLICT,
            Refused::TooLarge | Refused::Invalid => Status::INVALID_PARAMETER,
            Refused::Opened(conflict) => conflict.into(),
        }
    }
}

impl From<Conflict> for Status {
    fn from(conflict: Conflict) -> Status {
        match conflict {
            Conflict::NotOpen => Status::FILE_CLOSED,
            Conflict::Sharing | Conflict::Leased => Status::SHARING_VIOLATION,
            Conflict::DeletePending => Status::DELETE_PENDING,
            Conflict::TooManyHandles | Conflict::TooManyLocks => Status::INSUFFICIENT_RESOURCES,
            Conflict::Locked(_) => Status::FILE_LOCK_CONFLICT,
            Conflict::InvalidLockRange => Status::INVALID_LOCK_RANGE,
            Conflict::RangeNotLocked => Status::RANGE_NOT_LOCKED,
            Conflict::LeaseOfAnother => Status::INVALID_PARAMETER,
            Conflict::TargetOpen => Status::ACCESS_DENIED,
            // Who waited long enough.
            Conflict::WithShortOpen(_) | Conflict::Breaking(_) => Status::SHARING_VIOLATION,
        }
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Status {
        match error {
            Error::Refused(refused) => refused.into(),
            Error::Gone => Status::NETWORK_NAME_DELETED,
            // Nothing is wrong, and nothing was done: others were faster every time.
            Error::Fault(engine::Fault::Moved) => {
                tracing::warn!("gave up: the partition changes all the time");
                Status::INSUFFICIENT_RESOURCES
            }
            // Another gateway has the share since a moment ago, or nobody.
            Error::Fault(engine::Fault::Elsewhere) => {
                tracing::warn!("gave up: another gateway owns the share");
                Status::NETWORK_NAME_DELETED
            }
            Error::Fault(fault) => {
                tracing::error!(%fault, "storage failed");
                match fault {
                    engine::Fault::Full => Status::DISK_FULL,
                    _ => Status::UNEXPECTED_IO_ERROR,
                }
            }
        }
    }
}
