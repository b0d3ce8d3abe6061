//! An open: what a client holds when CREATE succeeded, until it closes it, or somebody closes it for the client.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use partition::execute::Failure;
use partition::file::handle::Error;
use partition::file::handle::open::Done;
use partition::file::opens::{Handle, HandleId};
use partition::file::removal;
use partition::record;
use tokio::sync::Notify;

use crate::connection::{Cancel, lock};
use crate::durable::{CreateName, Durable};
use crate::handlers::directory::Search;
use crate::notify::{Watch, action, filter};
use crate::server::Server;
use crate::session::Share;
use crate::status::Status;
use crate::wire::create::FileId;

/// Numbers of lock requests that are remembered (MS-SMB2 3.3.5.14).
const LOCK_SEQUENCES: usize = 64;

pub struct Open {
    pub id: FileId,
    pub share: Arc<Share>,
    /// `None` in a snapshot: nobody can change what was.
    pub handle: Option<HandleId>,
    pub file: record::FileId,
    pub is_directory: bool,
    /// The rights it has.
    pub mask: u32,
    /// What of the options of its creation FileModeInformation tells.
    pub mode: u32,
    pub is_through: bool,
    /// Where it was in a snapshot; otherwise the table of opens knows better.
    pub path: String,
    pub lease: Option<[u8; 16]>,
    /// What its creation was.
    pub done: Done,
    /// The client, and its name for the creation, until it uses what it was given.
    pub create: Mutex<Option<CreateName>>,
    tree: AtomicU32,
    session: AtomicU64,
    /// Said when it ends: whoever waits on it is not to wait any longer.
    pub closing: Cancel,
    is_closed: AtomicBool,
    pub state: Mutex<State>,
    pub durable: Mutex<Option<Durable>>,
    pub watch: Mutex<Option<Arc<Watch>>>,
    arrivals: Arrivals,
}

/// Requests that are at work, in the order they arrived: who closes waits for those before it.
#[derive(Default)]
struct Arrivals {
    /// The last number, and who is at work: may it pend?
    at_work: Mutex<(u64, BTreeMap<u64, bool>)>,
    one_less: Notify,
}

/// A request at work on an open.
pub struct Arrival {
    open: Arc<Open>,
    number: u64,
}

impl Arrival {
    /// Waits until those that arrived before are done.
    pub async fn is_first(&self) {
        self.wait_for(|_| true).await;
    }

    /// The same, but for those that wait for others themselves: closing ends their waiting.
    async fn is_first_but_for_pending(&self) {
        self.wait_for(|may_pend| !may_pend).await;
    }

    async fn wait_for(&self, is_waited_for: impl Fn(bool) -> bool) {
        let arrivals = &self.open.arrivals;
        loop {
            let mut one_less = std::pin::pin!(arrivals.one_less.notified());
            one_less.as_mut().enable();
            if lock(&arrivals.at_work).1.range(..self.number).all(|(_, may_pend)| !is_waited_for(*may_pend)) {
                return;
            }
            one_less.await;
        }
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        lock(&self.open.arrivals.at_work).1.remove(&self.number);
        self.open.arrivals.one_less.notify_waiters();
    }
}

/// What changes while it is open.
#[derive(Default)]
pub struct State {
    pub position: u64,
    pub search: Option<Search>,
    /// Times that are not to be updated by what is done here.
    pub keeps_write_time: bool,
    pub keeps_change_time: bool,
    channel_sequence: u16,
    /// How often the client has begun to try anew, and requests at work of this try and of those before.
    tries: u64,
    requests: u64,
    earlier_requests: u64,
    /// By their index; zero for none.
    lock_sequences: Vec<u8>,
}

/// What an open is made of.
pub struct NewOpen {
    pub id: FileId,
    pub share: Arc<Share>,
    pub handle: Option<HandleId>,
    pub file: record::FileId,
    pub is_directory: bool,
    pub mask: u32,
    pub mode: u32,
    pub is_through: bool,
    pub path: String,
    pub lease: Option<[u8; 16]>,
    pub tree: u32,
    pub session: u64,
    pub channel_sequence: u16,
    pub done: Done,
    pub create: Option<CreateName>,
}

impl Open {
    pub fn new(new: NewOpen) -> Open {
        let NewOpen {
            id, share, handle, file, is_directory, mask, mode, is_through, path, lease, tree, session, ..
        } = new;
        Open {
            id,
            share,
            handle,
            file,
            is_directory,
            mask,
            mode,
            is_through,
            path,
            lease,
            done: new.done,
            create: Mutex::new(new.create),
            tree: AtomicU32::new(tree),
            session: AtomicU64::new(session),
            closing: Cancel::default(),
            is_closed: AtomicBool::new(false),
            state: Mutex::new(State { channel_sequence: new.channel_sequence, ..State::default() }),
            durable: Mutex::default(),
            watch: Mutex::default(),
            arrivals: Arrivals::default(),
        }
    }

    /// A request arrives.
    pub fn arrive(self: &Arc<Open>, may_pend: bool) -> Arrival {
        let mut at_work = lock(&self.arrivals.at_work);
        at_work.0 += 1;
        let number = at_work.0;
        at_work.1.insert(number, may_pend);
        Arrival { open: self.clone(), number }
    }

    pub fn tree(&self) -> u32 {
        self.tree.load(Ordering::Acquire)
    }

    pub fn session(&self) -> u64 {
        self.session.load(Ordering::Acquire)
    }

    /// It is found again by another session.
    pub fn move_to(&self, session: u64, tree: u32) {
        self.session.store(session, Ordering::Release);
        self.tree.store(tree, Ordering::Release);
    }

    pub fn has(&self, right: u32) -> bool {
        self.mask & right != 0
    }

    /// Refused unless it has one of these rights.
    pub fn needs(&self, right: u32) -> Result<(), Status> {
        if self.has(right) { Ok(()) } else { Err(Status::ACCESS_DENIED) }
    }

    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// The handle, unless it was closed from outside.
    pub fn handle(&self, server: &Server) -> Result<Arc<Handle>, Status> {
        let id = self.handle.ok_or(Status::MEDIA_WRITE_PROTECTED)?;
        let handle = server.shell.open_files.handle(self.share.found.group(), id);
        handle.ok_or(Status::FILE_CLOSED)
    }

    /// Where its file is now, from the root, with slashes.
    pub fn path(&self, server: &Server) -> Result<String, Status> {
        match self.handle {
            None => Ok(self.path.clone()),
            Some(_) => Ok(self.handle(server)?.opening.path.clone()),
        }
    }

    /// Does it still hold what it was given? Somebody may have closed it by force.
    pub fn still_open(&self, server: &Server) -> Result<(), Status> {
        match self.handle {
            None => Ok(()),
            Some(_) => self.handle(server).map(|_| ()),
        }
    }

    /// Begins a request. One of an earlier try of the client's changes nothing any more, and one that is asked again does
    /// not while the first may still be at work (MS-SMB2 3.3.5.2.10). Tells under which try it is counted, if it is.
    pub fn begin(&self, sequence: u16, changes: bool, is_replay: bool) -> Result<Option<u64>, Status> {
        let mut state = lock(&self.state);
        let ahead = sequence.wrapping_sub(state.channel_sequence);
        let is_known = ahead <= 0x7FFF && !(is_replay && state.earlier_requests > 0);
        if !is_known {
            return if changes { Err(Status::FILE_NOT_AVAILABLE) } else { Ok(None) };
        }
        if ahead > 0 {
            state.channel_sequence = sequence;
            state.earlier_requests += std::mem::take(&mut state.requests);
            state.tries += 1;
        }
        state.requests += 1;
        Ok(Some(state.tries))
    }

    pub fn end(&self, counted: u64) {
        let mut state = lock(&self.state);
        let count = if counted == state.tries { &mut state.requests } else { &mut state.earlier_requests };
        *count = count.saturating_sub(1);
    }

    /// Has a lock request with this number been done already?
    pub fn was_locked(&self, index: usize, number: u8) -> bool {
        let mut state = lock(&self.state);
        let Some(known) = index.checked_sub(1).and_then(|at| state.lock_sequences.get_mut(at)) else { return false };
        let is_same = *known == number + 1;
        if !is_same {
            *known = 0;
        }
        is_same
    }

    pub fn note_locked(&self, index: usize, number: u8) {
        let mut state = lock(&self.state);
        state.lock_sequences.resize(LOCK_SEQUENCES, 0);
        if let Some(known) = index.checked_sub(1).and_then(|at| state.lock_sequences.get_mut(at)) {
            *known = number + 1;
        }
    }

    pub fn is_persistent(&self) -> bool {
        lock(&self.durable).as_ref().is_some_and(Durable::is_persistent)
    }

    /// Another gateway has the share: nothing of it is this one's to close, and what is written down stays.
    pub fn vanish(&self, server: &Server) {
        self.end_here(server);
    }

    /// False if it had ended before.
    fn end_here(&self, server: &Server) -> bool {
        if self.is_closed.swap(true, Ordering::AcqRel) {
            return false;
        }
        self.closing.cancel();
        server.durables.forget(self);
        if let Some(watch) = lock(&self.watch).take() {
            server.watches.remove(self.share.found.group(), &watch);
        }
        true
    }

    /// Ends it, once, whatever is answered. What was to be deleted with it is deleted before this returns, or storage failed.
    pub async fn close_asked(&self, server: &Server) -> Result<(), Status> {
        if !self.end_here(server) {
            return Ok(());
        }
        let Some(handle) = self.handle else { return Ok(()) };
        self.cross_out(server).await;
        let (shell, share) = (&server.shell, &self.share.found);
        let Some(closed) = shell.open_files.close(share.group(), handle) else { return Ok(()) };
        let path = closed.handle.opening.path.clone();
        let is_removed = closed.removal.is_some();
        if let Err(failure) = removal::after_close(shell, share.group(), &share.head, closed).await {
            tracing::error!(?failure, "what was to be deleted with its last handle could not be");
            return Err(match failure {
                Failure::Fault(fault) => Error::Fault(fault).into(),
                _ => Status::UNEXPECTED_IO_ERROR,
            });
        }
        if !is_removed && shell.open_files.is_delete_pending(share.group(), self.file) {
            // Others have it open, and it will not be for long.
            server.watches.wake(share.group(), self.file);
        }
        if is_removed {
            let what = if self.is_directory { filter::DIRECTORY_NAME } else { filter::FILE_NAME };
            server.watches.tell(share.group(), &path, action::REMOVED, what);
        }
        Ok(())
    }

    /// The same where nobody waits for an answer. What is read or written through it is done first: its locks hold until then.
    pub async fn close(self: &Arc<Open>, server: &Server) {
        self.arrive(false).is_first_but_for_pending().await;
        let _ = self.close_asked(server).await; // the log has it
    }
}
