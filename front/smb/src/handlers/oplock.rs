//! Breaks of oplocks and leases: told to clients, and acknowledged by them (MS-SMB2 3.3.4.6, 3.3.4.7, 3.3.5.22).

use std::sync::Weak;

use partition::file::opens::{AcknowledgeError, BreakNotice, BreakOf, LeaseKey, Listener, Oplock, Rights};

use crate::chain::{self, Reply, Request};
use crate::connection::lock;
use crate::server::Server;
use crate::status::Status;
use crate::wire::create::{FileId, lease, oplock};
use crate::wire::io::{Acknowledgment, lease_break, lease_break_response, oplock_break};

pub fn rights(state: u32) -> Rights {
    Rights { read: state & lease::READ != 0, write: state & lease::WRITE != 0, handle: state & lease::HANDLE != 0 }
}

pub fn state(rights: Rights) -> u32 {
    let bit = |is_held, bit| if is_held { bit } else { 0 };
    bit(rights.read, lease::READ) | bit(rights.write, lease::WRITE) | bit(rights.handle, lease::HANDLE)
}

/// `None` for a level nobody knows.
pub fn level(number: u8) -> Option<Oplock> {
    match number {
        oplock::NONE => Some(Oplock::None),
        oplock::LEVEL_II => Some(Oplock::LevelII),
        oplock::EXCLUSIVE => Some(Oplock::Exclusive),
        oplock::BATCH => Some(Oplock::Batch),
        _ => None,
    }
}

pub fn number(level: Oplock) -> u8 {
    match level {
        Oplock::None => oplock::NONE,
        Oplock::LevelII => oplock::LEVEL_II,
        Oplock::Exclusive => oplock::EXCLUSIVE,
        Oplock::Batch => oplock::BATCH,
    }
}

/// Tells a client of breaks, on whatever connection of its session there is.
pub struct Client {
    pub server: Weak<Server>,
    pub session: u64,
    pub file: FileId,
}

impl Listener for Client {
    fn broken(&self, notice: BreakNotice) {
        let Some(server) = self.server.upgrade() else { return };
        let body = match notice.of {
            BreakOf::Oplock(_) => oplock_break(number(Oplock::of(notice.to)), self.file),
            BreakOf::Lease { key } => {
                lease_break(key.key, notice.epoch, notice.needs_answer, state(notice.from), state(notice.to))
            }
        };
        // An oplock is an open's, and its session's; a lease is the client's, on whatever connection it is heard.
        let heard = match notice.of {
            BreakOf::Oplock(_) => server.session(self.session).and_then(|session| {
                let connection = session.connections().first().cloned()?;
                Some((connection, session))
            }),
            BreakOf::Lease { key } => server.oldest_connection(&key),
        };
        if let Some((connection, session)) = heard {
            chain::tell(&connection, &session, body);
        }
    }

    /// Who waits for something by way of it waits no longer. Locks are waited for in the table, which knows.
    fn closed(&self) {
        let session = self.server.upgrade().and_then(|server| server.session(self.session));
        if let Some(open) = session.and_then(|session| session.open(self.file))
            && let Some(watch) = lock(&open.watch).as_ref()
        {
            watch.changed.notify_waiters();
        }
    }
}

pub async fn acknowledge(request: &Request) -> Result<Reply, Status> {
    let server = &request.connection.server;
    let files = &server.shell.open_files;
    match Acknowledgment::decode(&request.message).ok_or(Status::INVALID_PARAMETER)? {
        Acknowledgment::Oplock { level: asked, file } => {
            let open = request.session()?.open(file).ok_or(Status::FILE_CLOSED)?;
            let handle = open.handle.ok_or(Status::FILE_CLOSED)?;
            let asked = level(asked).filter(|level| matches!(level, Oplock::None | Oplock::LevelII));
            let asked = asked.ok_or(Status::INVALID_PARAMETER)?;
            let acknowledged = files.acknowledge_oplock(open.share.found.group(), handle, asked);
            let level = acknowledged.map_err(|error| match error {
                AcknowledgeError::NotFound => Status::FILE_CLOSED,
                AcknowledgeError::NotBreaking => Status::INVALID_OPLOCK_PROTOCOL,
                AcknowledgeError::TooMuch => Status::INVALID_OPLOCK_PROTOCOL,
            })?;
            Ok(Reply::of(oplock_break(number(level), file)))
        }
        Acknowledgment::Lease { key, state: asked } => {
            let session = request.session()?;
            let lease = LeaseKey::new(&session.account, session.agreed.client, key);
            let acknowledged = files.acknowledge_lease(&lease, rights(asked));
            let kept = acknowledged.map_err(|error| match error {
                AcknowledgeError::NotFound => Status::OBJECT_NAME_NOT_FOUND,
                AcknowledgeError::NotBreaking => Status::UNSUCCESSFUL,
                AcknowledgeError::TooMuch => Status::REQUEST_NOT_ACCEPTED,
            })?;
            Ok(Reply::of(lease_break_response(key, state(kept))))
        }
    }
}
