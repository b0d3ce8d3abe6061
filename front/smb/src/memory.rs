//! What requests and their answers take in memory: of one connection, and of all of them together.
//!
//! 1. Every connection has a little of its own, whoever its client is and whatever others do. Strangers have nothing else; to those who are
//!    known it is the way for small requests, on which others may wait: to close, to unlock, to give up what was cached.
//! 2. All else comes from a budget that every connection shares, and one has no more of it than `CONNECTION_KIB`.
//! 3. Nobody fails for want of room. Who needs some waits for it before it reads on, and what its client sends waits in the socket.
//! 4. Who holds some never waits for more of the same. A long frame has its room before it is read, its answers have theirs, from another half
//!    of the budget, before it begins; from there on it waits for no room, and gives back all of it when it is answered. What may wait for
//!    other clients for ever holds none meanwhile (`Request::answer_later`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::command::{Command, Row};
use crate::connection::TRANSFER_BYTES_MAX;
use crate::handlers::ioctl;
use crate::wire::header::Header;

/// What a connection has for itself, in KiB: room for the longest frame of a stranger and its answer.
const OWN_KIB: u32 = 72;
/// What it may have of the budget.
const CONNECTION_KIB: u32 = 64 << 10;
/// The longest frame that there is (MS-SMB2 2.1): its length has three bytes.
pub const FRAME_OUT_BYTES_MAX: usize = (1 << 24) - 1;
/// No chain is answered with more: what would not fit into its frame is refused when it is there.
const ANSWERS_KIB_MAX: u32 = ((FRAME_OUT_BYTES_MAX as u32 + TRANSFER_BYTES_MAX) >> 10) + 1;
/// Requests that wait for something, of all connections.
const PENDING_MAX: usize = 65_536;
/// A frame that is no longer than this is read without asking for room: it comes in one read, and who reads it has a buffer as long.
pub const SMALL_FRAME_BYTES: usize = 16 << 10;
/// What is kept of a request that may wait for ever. It has no more, whatever comes behind it.
const WAITING_BYTES_MAX: usize = 4 << 10;

/// As much as there is where nobody says otherwise, and the least that is of use: half of it holds what the longest chain is answered.
pub const BUDGET_MIB_DEFAULT: usize = 512;
pub const BUDGET_MIB_LEAST: usize = 64;

/// What all connections may hold together.
pub struct Budget {
    /// Each half of it, in KiB.
    half_kib: u32,
    frames: Arc<Semaphore>,
    answers: Arc<Semaphore>,
    pending: Arc<Semaphore>,
}

impl Budget {
    pub fn new(mib: usize) -> Arc<Budget> {
        let half_kib = u32::try_from(mib.saturating_mul(512)).unwrap_or(u32::MAX);
        let half = || Arc::new(Semaphore::new(half_kib as usize));
        Arc::new(Budget { half_kib, frames: half(), answers: half(), pending: Arc::new(Semaphore::new(PENDING_MAX)) })
    }

    /// A place for a request that may wait, if there is one.
    pub fn pending(&self) -> Option<OwnedSemaphorePermit> {
        self.pending.clone().try_acquire_owned().ok()
    }

    /// How many KiB are taken, of frames and of answers.
    pub fn taken_kib(&self) -> (usize, usize) {
        let taken = |half: &Semaphore| self.half_kib as usize - half.available_permits();
        (taken(&self.frames), taken(&self.answers))
    }
}

/// What one connection may hold.
pub struct Memory {
    own: Arc<Semaphore>,
    of_connection: Arc<Semaphore>,
    budget: Arc<Budget>,
    is_known: AtomicBool,
}

/// Room that is held, until it is dropped.
#[derive(Default, Debug)]
#[must_use = "it is given back when it is dropped"]
pub struct Room {
    own: Option<OwnedSemaphorePermit>,
    of_connection: Option<OwnedSemaphorePermit>,
    frames: Option<OwnedSemaphorePermit>,
    answers: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// Of the same connection.
    pub fn merge(&mut self, more: Room) {
        let join = |held: &mut Option<OwnedSemaphorePermit>, more: Option<OwnedSemaphorePermit>| match (held, more) {
            (Some(held), Some(more)) => held.merge(more),
            (held, more @ Some(_)) => *held = more,
            (_, None) => {}
        };
        join(&mut self.own, more.own);
        join(&mut self.of_connection, more.of_connection);
        join(&mut self.frames, more.frames);
        join(&mut self.answers, more.answers);
    }

    fn is_none(&self) -> bool {
        self.own.is_none() && self.of_connection.is_none()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    Frames,
    Answers,
}

fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes >> 10).unwrap_or(u32::MAX - 1) + 1
}

impl Memory {
    pub fn new(budget: Arc<Budget>) -> Memory {
        Memory {
            own: Arc::new(Semaphore::new(OWN_KIB as usize)),
            of_connection: Arc::new(Semaphore::new(CONNECTION_KIB as usize)),
            budget,
            is_known: AtomicBool::new(false),
        }
    }

    /// Its client has said who it is.
    pub fn grow(&self) {
        self.is_known.store(true, Ordering::Relaxed);
    }

    /// Room for a frame that is about to be read.
    pub async fn for_frame(&self, bytes: usize) -> Option<Room> {
        self.take(kib(bytes), Half::Frames).await
    }

    /// Room for what a frame is answered, and for itself if it has none.
    pub async fn for_answers(&self, frame: &mut Room, requests: &[(Header, Bytes)]) -> Option<()> {
        let mut needed = answers_kib(requests);
        if frame.is_none() {
            needed += requests.iter().map(|(_, message)| kib(message.len())).sum::<u32>();
        }
        frame.merge(self.take(needed, Half::Answers).await?);
        Some(())
    }

    /// Room for an answer that nothing was set aside for, if there is some now.
    pub fn now(&self, bytes: usize) -> Option<Room> {
        let needed = kib(bytes);
        if let Some(own) = self.own_now(needed) {
            return Some(own);
        }
        if !self.is_known.load(Ordering::Relaxed) {
            return None;
        }
        let of_connection = self.of_connection.clone().try_acquire_many_owned(needed).ok()?;
        let answers = self.budget.answers.clone().try_acquire_many_owned(needed).ok()?;
        Some(Room { of_connection: Some(of_connection), answers: Some(answers), ..Room::default() })
    }

    fn own_now(&self, needed: u32) -> Option<Room> {
        let own = self.own.clone().try_acquire_many_owned(needed).ok()?;
        Some(Room { own: Some(own), ..Room::default() })
    }

    /// Waits until there is room. What is more than there ever is takes all of it.
    async fn take(&self, needed: u32, half: Half) -> Option<Room> {
        if let Some(own) = self.own_now(needed) {
            return Some(own);
        }
        if !self.is_known.load(Ordering::Relaxed) {
            let own = self.own.clone().acquire_many_owned(needed.min(OWN_KIB)).await.ok()?;
            return Some(Room { own: Some(own), ..Room::default() });
        }
        let of_connection = self.of_connection.clone().acquire_many_owned(needed.min(CONNECTION_KIB)).await.ok()?;
        let shared = match half {
            Half::Frames => &self.budget.frames,
            Half::Answers => &self.budget.answers,
        };
        let shared = shared.clone().acquire_many_owned(needed.min(self.budget.half_kib)).await.ok()?;
        let mut room = Room { of_connection: Some(of_connection), ..Room::default() };
        match half {
            Half::Frames => room.frames = Some(shared),
            Half::Answers => room.answers = Some(shared),
        }
        Some(room)
    }
}

/// What the requests of a frame work with, one after the other, and what they may be answered.
fn answers_kib(requests: &[(Header, Bytes)]) -> u32 {
    let (mut answers, mut work) = (0, 0);
    for (header, message) in requests {
        let row = Row::of(header.command);
        answers += if row.answers_much { u32::from(header.credit_charge.max(1)) * 64 } else { 0 };
        work = work.max(if row.command == Command::Ioctl { ioctl::work_kib(message) } else { 0 });
    }
    answers.min(ANSWERS_KIB_MAX) + work
}

/// How long a client may take for a frame, in either direction: who holds room for it has to move.
pub fn pace(stall: Duration, bytes: usize) -> Duration {
    stall + Duration::from_secs(60) * u32::try_from(bytes >> 20).unwrap_or(u32::MAX - 1).saturating_add(1)
}

/// May it wait for other clients for as long as those like?
pub fn may_wait_for_ever(command: Command) -> bool {
    matches!(command, Command::Lock | Command::ChangeNotify)
}

/// A request as it is kept: what may wait for ever keeps nothing else of its frame in memory.
pub fn kept(row: &Row, message: Bytes) -> Bytes {
    match may_wait_for_ever(row.command) {
        true => Bytes::copy_from_slice(&message[..message.len().min(WAITING_BYTES_MAX)]),
        false => message,
    }
}

#[cfg(test)]
mod tests;
