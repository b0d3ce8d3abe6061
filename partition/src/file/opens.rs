//! Which files and directories are open: the handles of SMB clients, and REST operations while they run.
//!
//! The table is this process's memory, known by share and file id and never by path. A handle stays until it is closed;
//! a REST operation is a short open that lasts from its check to its commit. Nothing here waits: who has to is given a
//! `Wait`, and asks again when it is over.
//!
//! 1. What a handle was granted holds until it is closed: no short open begins, and no handle is given out, that its
//!    share mode denies. What a short open was granted holds until it is dropped, likewise.
//! 2. Delete pending is of a file, not of a handle. It ends when a handle takes it back, or after the last handle, once
//!    the file is gone (`Removal`): in between nobody sees the file as if it were to stay.
//! 3. Every handle is known to each directory above it, so what is open below a directory is found without a walk.
//! 4. A file that nothing is open on takes no memory.
//!
//! 5. What a client was granted to keep of a file (`caching`) it has until it is told: nobody reads, writes or opens
//!    past it without breaking it first, and no caching is granted that somebody at work would have to break.
//!
//! Clients are told with nothing locked.

mod breaks;
mod caching;
mod entry;
mod held;
mod look;
mod range_lock;
mod share_mode;

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use contract::limits::FILE_HANDLES_MAX;
use contract::{ErrorCode, Refusal};
use engine::GroupId;
use env::Timestamp;
use tokio::sync::Semaphore;

pub use caching::{
    AcknowledgeError, BREAK_SECONDS, BreakNotice, BreakOf, CachingGranted, CachingWanted, Io, LeaseKey, Listener,
    Oplock, Rights,
};
pub use held::{InUse, Removal, Renaming, ShortOpen};
pub use look::{Counts, OpenNow};
pub use range_lock::{ByteRange, LockKind, RangeUse};
pub use share_mode::{Access, Claim, RestAccess, ShareMode, conflicts};

use crate::record::FileId;
use crate::turns::lock;
use caching::Opener;
use entry::{Closing, Notices, Share, Usage, next_number};
use range_lock::RangeLock;

/// Locks on one file. The service names no number; this one keeps the list short enough to be gone through.
const LOCKS_MAX: usize = 10_000;

const SHARDS: usize = 64;

/// Unique in this process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HandleId(pub u64);

/// What an opener says of a handle.
#[derive(Clone)]
pub struct Opening {
    pub session: u64,
    /// With its port, as listings show it.
    pub client_address: String,
    pub client_name: String,
    /// From the root, without a slash before it.
    pub path: String,
    pub file: FileId,
    /// Every directory on the way, the root first; nothing for the root.
    pub above: Vec<FileId>,
    pub claim: Claim,
    /// All that was granted (MS-SMB2 2.2.13.1.1).
    pub mask: u32,
    /// Of a directory, nothing.
    pub caching: CachingWanted,
    /// It was not there.
    pub is_new: bool,
    /// Content that is there goes.
    pub overwrites: bool,
    /// The file is to go with this handle, or with the last one after it.
    pub deletes_on_close: bool,
    pub is_directory: bool,
    /// A REST client has a lease on it: to be looked up in the turn in which it is opened.
    pub is_leased: bool,
    pub opened: Timestamp,
    /// When a client last came back to it over another connection.
    pub reconnected: Option<Timestamp>,
    /// Under what it may be written down, so that its client finds it again after a restart.
    pub kept_as: Option<u64>,
    /// Where it is told that caching is broken. Of handles that share a lease, the oldest one's is asked.
    pub listener: Arc<dyn Listener>,
}

impl Opening {
    /// The directory it is in; for the root, itself.
    pub fn parent(&self) -> FileId {
        self.above.last().copied().unwrap_or(FileId::ROOT)
    }

    /// Who has what open, in words.
    pub fn shown(&self) -> String {
        let Claim { access, share } = self.claim;
        format!("{} has it open over SMB for {} and shares {}.", self.client_address, access.shown(), share.shown())
    }

    fn opener(&self) -> Opener {
        Opener { mask: self.mask, overwrites: self.overwrites, is_new: self.is_new }
    }

    /// Who overwrites writes, if only once.
    fn judged_claim(&self) -> Claim {
        let mut claim = self.claim;
        claim.access.write |= self.overwrites;
        claim
    }
}

#[derive(Clone)]
pub struct Handle {
    pub id: HandleId,
    pub opening: Opening,
}

impl Handle {
    /// As whom it would hold caching.
    fn holder(&self) -> BreakOf {
        match self.opening.caching.lease() {
            Some(key) => BreakOf::Lease { key },
            None => BreakOf::Oplock(self.id),
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} on {:?}", self.id, self.opening.file)
    }
}

/// A handle, and what its client may keep of the file.
#[derive(Debug)]
pub struct Opened {
    pub handle: Arc<Handle>,
    pub caching: CachingGranted,
}

/// What stands in a handle's way.
#[derive(Debug)]
pub enum Conflict {
    /// It is not open any more, if it ever was.
    NotOpen,
    /// Another handle denies it, or has what it would deny.
    Sharing,
    DeletePending,
    /// A REST client's lease keeps writers out.
    Leased,
    /// The lease key is in use with another file.
    LeaseOfAnother,
    /// What a rename would replace is open.
    TargetOpen,
    /// Somebody keeps what stands in the way, and was told to give it up: ask again when that is over, or after
    /// `BREAK_SECONDS`. Whoever asks then takes it from those who did not answer.
    Breaking(Wait),
    TooManyHandles,
    /// Another lock. Over when a lock on the file is given back.
    Locked(Wait),
    TooManyLocks,
    InvalidLockRange,
    RangeNotLocked,
    /// Somebody is at work, for a moment. Clients are told nothing of it: ask again when it is over. Another may have
    /// begun by then; how often to ask is the caller's to say.
    WithShortOpen(Wait),
}

/// What stands in a REST operation's way.
#[derive(Debug)]
pub enum Blocked {
    Refused(Refusal),
    /// Clients keep what it needs, and were told to give it up: ask again when that is over.
    Breaking(Wait),
}

impl From<Refusal> for Blocked {
    fn from(refusal: Refusal) -> Self {
        Blocked::Refused(refusal)
    }
}

impl From<ErrorCode> for Blocked {
    fn from(code: ErrorCode) -> Self {
        Blocked::Refused(code.into())
    }
}

/// Refused for what others have open, which is not in the records?
pub fn is_opened(refusal: &Refusal) -> bool {
    use ErrorCode::{FileLockConflict, SMBDeletePending, SharingViolation};
    matches!(refusal.code, FileLockConflict | SMBDeletePending | SharingViolation)
}

/// Until something was given back. Of several who wait the first goes on first.
#[derive(Clone, Debug)]
pub struct Wait(Arc<Semaphore>);

impl Wait {
    pub async fn over(self) {
        // It has no permits: it only ends.
        let _ = self.0.acquire().await;
    }
}

/// What is waited for. It is over when this goes.
#[derive(Debug)]
struct Waited(Arc<Semaphore>);

impl Default for Waited {
    fn default() -> Self {
        Waited(Arc::new(Semaphore::new(0)))
    }
}

impl Drop for Waited {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Which handles are meant: those on a file or directory, or those below it too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scope {
    pub file: FileId,
    pub is_recursive: bool,
}

/// Handles in the order of their ids.
#[derive(Clone, Default, Debug)]
pub struct Page {
    pub handles: Vec<Arc<Handle>>,
    /// Go on after this one. `None` at the end.
    pub next: Option<HandleId>,
}

/// A handle that is no more.
#[derive(Debug)]
pub struct Closed {
    pub handle: Arc<Handle>,
    /// The file was to go with its last handle, and this was it.
    pub removal: Option<Removal>,
}

/// The handles of a process, shared by all who serve clients.
#[derive(Clone, Default)]
pub struct OpenFiles(Arc<Shards>);

struct Shards {
    hasher: BuildHasherDefault<DefaultHasher>,
    shards: Vec<Mutex<HashMap<GroupId, Share>>>,
    /// For each shard: how often something began or ceased to be delete pending. Changed under its lock.
    pending_changes: Vec<AtomicU64>,
    /// For each shard: how often something was given back that kept others off. Changed under its lock.
    given_back: Vec<AtomicU64>,
    /// Which file each lease is on. Taken after a shard, never before one.
    leases: Mutex<HashMap<LeaseKey, (GroupId, FileId)>>,
    last_handle: AtomicU64,
}

impl Default for Shards {
    fn default() -> Self {
        Shards {
            hasher: BuildHasherDefault::default(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            pending_changes: (0..SHARDS).map(|_| AtomicU64::new(0)).collect(),
            given_back: (0..SHARDS).map(|_| AtomicU64::new(0)).collect(),
            leases: Mutex::default(),
            last_handle: AtomicU64::new(0),
        }
    }
}

impl OpenFiles {
    fn shard(&self, share: &GroupId) -> MutexGuard<'_, HashMap<GroupId, Share>> {
        lock(&self.0.shards[self.shard_of(share)])
    }

    fn shard_of(&self, share: &GroupId) -> usize {
        self.0.hasher.hash_one(share) as usize % SHARDS
    }

    /// Changes what is open in a share, and tells those who have to know. A share with nothing open is not kept.
    fn change<T>(&self, share: &GroupId, change: impl FnOnce(&mut Share) -> T) -> T {
        let mut shard = self.shard(share);
        let opens = shard.entry(share.clone()).or_default();
        let outcome = change(opens);
        let Notices { told, has_expired } = mem::take(&mut opens.notices);
        if has_expired {
            self.note_given_back(share);
        }
        if opens.files.is_empty() {
            shard.remove(share);
        }
        drop(shard);
        told.into_iter().for_each(|(listener, notice)| listener.broken(notice));
        outcome
    }

    /// Begins a REST operation on a file or directory: to be asked once it was found, and held until the operation is
    /// committed.
    pub fn short_open(
        &self,
        share: &GroupId,
        file: FileId,
        access: RestAccess,
        now: Timestamp,
    ) -> Result<ShortOpen, Blocked> {
        self.change(share, |opens| {
            if access == RestAccess::RenameDirectory {
                breaks::break_below(opens, file, now).map_err(Blocked::Breaking)?;
            }
            let open = opens.files.entry(file).or_default();
            let judged = open.judge(access, now, &mut opens.notices);
            let mut number = None;
            if judged.is_ok() && !access.is_harmless() {
                let free = next_number(&open.short_opens);
                open.short_opens.insert(free, access);
                number = Some(free);
            }
            opens.forget_unused([file]);
            judged?;
            Ok(ShortOpen { opens: self.clone(), share: share.clone(), file, number })
        })
    }

    /// Is it to go with its last handle? Listings leave it out then.
    pub fn is_delete_pending(&self, share: &GroupId, file: FileId) -> bool {
        let shard = self.shard(share);
        shard.get(share).and_then(|opens| opens.files.get(&file)).is_some_and(|open| open.is_delete_pending)
    }

    /// Another number whenever something begins or ceases to be delete pending, here or in another share. Who looks at the tree and at
    /// this table and finds the number as it was saw one state of both: what was pending may be gone from both by now, or from neither.
    pub fn pending_changes(&self, share: &GroupId) -> u64 {
        self.0.pending_changes[self.shard_of(share)].load(Ordering::SeqCst)
    }

    fn note_pending_change(&self, share: &GroupId) {
        self.0.pending_changes[self.shard_of(share)].fetch_add(1, Ordering::SeqCst);
        self.note_given_back(share);
    }

    /// Another number whenever a handle was closed, a range unlocked, what a client kept of a file given up, or something ceased to be delete
    /// pending, here or in another share.
    /// Who looks at the tree, is let in here and finds the number as it was would have been let in when it looked.
    pub fn given_back(&self, share: &GroupId) -> u64 {
        self.0.given_back[self.shard_of(share)].load(Ordering::SeqCst)
    }

    fn note_given_back(&self, share: &GroupId) {
        self.0.given_back[self.shard_of(share)].fetch_add(1, Ordering::SeqCst);
    }

    /// Gives a handle on something that was found, or is about to be made.
    pub fn open(&self, share: &GroupId, opening: Opening, now: Timestamp) -> Result<Opened, Conflict> {
        let key = opening.caching.lease();
        self.change(share, |opens| {
            let mut leases = key.map(|_| lock(&self.0.leases));
            let home = key.zip(leases.as_ref()).and_then(|(key, leases)| leases.get(&key));
            if home.is_some_and(|home| *home != (share.clone(), opening.file)) {
                return Err(Conflict::LeaseOfAnother);
            }
            for id in opening.above.iter().chain([&opening.file]) {
                if let Some(open) = opens.files.get_mut(id).filter(|open| open.is_being_taken_away()) {
                    return Err(Conflict::WithShortOpen(open.wait()));
                }
            }
            if opens.files.get(&opening.parent()).is_some_and(|parent| parent.is_delete_pending) {
                return Err(Conflict::DeletePending);
            }
            if opens.files.get(&opening.file).is_some_and(|open| open.is_delete_pending) {
                return Err(Conflict::DeletePending);
            }
            let access = opening.judged_claim().access;
            if opening.is_leased && (access.write || access.delete) {
                return Err(Conflict::Leased);
            }
            if let Some(open) = opens.files.get_mut(&opening.file) {
                open.judge_open(&opening, now, &mut opens.notices)?;
                if open.handles.len() >= FILE_HANDLES_MAX {
                    return Err(Conflict::TooManyHandles);
                }
            }
            let beside = opens.files.entry(opening.file).or_default().beside(&opening);
            let id = HandleId(self.0.last_handle.fetch_add(1, Ordering::Relaxed) + 1);
            let handle = Arc::new(Handle { id, opening });
            opens.enter(handle.clone());
            let caching = opens.file_of(id)?.grant(&handle, beside);
            if let Some((key, leases)) = key.zip(leases.as_mut()) {
                leases.insert(key, (share.clone(), handle.opening.file));
            }
            Ok(Opened { handle, caching })
        })
    }

    /// Is there a file that is open with this lease?
    pub fn is_leased_by(&self, key: &LeaseKey) -> bool {
        lock(&self.0.leases).contains_key(key)
    }

    /// Takes back a handle that nobody was given: it was never there.
    pub fn abandon(&self, share: &GroupId, handle: HandleId) {
        self.change(share, |opens| opens.reenter(handle, |opening| opening.deletes_on_close = false));
        self.close(share, handle);
    }

    /// `None` if it was not open.
    pub fn close(&self, share: &GroupId, handle: HandleId) -> Option<Closed> {
        let closing = self.change(share, |opens| self.take(share, opens, handle))?;
        Some(self.closed(share, closing))
    }

    /// Takes a handle away, and its lease if it was the last one of it.
    fn take(&self, share: &GroupId, opens: &mut Share, handle: HandleId) -> Option<Closing> {
        let closing = opens.close(handle)?;
        self.note_given_back(share);
        if closing.handle.opening.deletes_on_close {
            self.note_pending_change(share);
        }
        if let Some(key) = closing.ended {
            lock(&self.0.leases).remove(&key);
        }
        Some(closing)
    }

    fn closed(&self, share: &GroupId, closing: Closing) -> Closed {
        let Closing { handle, is_last_of_pending, .. } = closing;
        let file = handle.opening.file;
        let removal = is_last_of_pending.then(|| Removal { opens: self.clone(), share: share.clone(), file });
        Closed { handle, removal }
    }

    /// Is it still open? What is said of it now: renames move it.
    pub fn handle(&self, share: &GroupId, handle: HandleId) -> Option<Arc<Handle>> {
        self.shard(share).get(share)?.handles.get(&handle).cloned()
    }

    /// The client came back to a handle, over another connection.
    pub fn set_listener(
        &self,
        share: &GroupId,
        handle: HandleId,
        session: u64,
        client_address: String,
        listener: Arc<dyn Listener>,
        reconnected: Option<Timestamp>,
    ) -> Result<(), Conflict> {
        let change = |opening: &mut Opening| {
            opening.session = session;
            opening.client_address = client_address;
            opening.listener = listener;
            opening.reconnected = reconnected.or(opening.reconnected);
        };
        self.change(share, |opens| opens.reenter(handle, change)).ok_or(Conflict::NotOpen)
    }

    /// Takes locks, all of them or none (MS-FSA 2.1.5.8, MS-SMB2 3.3.5.14.2).
    pub fn lock(&self, share: &GroupId, handle: HandleId, wanted: &[(ByteRange, LockKind)]) -> Result<(), Conflict> {
        self.change(share, |opens| {
            let open = opens.file_of(handle)?;
            let held = open.locks.len();
            let outcome = wanted.iter().try_for_each(|(range, kind)| {
                let lock = RangeLock { range: *range, kind: *kind, owner: handle };
                if !range.is_valid() {
                    Err(Conflict::InvalidLockRange)
                } else if open.is_locked(Some(handle), RangeUse::Lock(*kind), *range) {
                    Err(Conflict::Locked(open.wait()))
                } else if open.is_used_against_lock(&lock) {
                    Err(Conflict::WithShortOpen(open.wait()))
                } else if open.locks.len() >= LOCKS_MAX {
                    Err(Conflict::TooManyLocks)
                } else {
                    open.locks.push(lock);
                    Ok(())
                }
            });
            if outcome.is_err() {
                open.locks.truncate(held);
            }
            outcome
        })
    }

    /// What a handle has locked.
    pub fn locks_of(&self, share: &GroupId, handle: HandleId) -> Vec<(ByteRange, LockKind)> {
        self.change(share, |opens| {
            let open = opens.file_of(handle).ok();
            let locks = open.into_iter().flat_map(|open| open.locks.iter()).filter(|lock| lock.owner == handle);
            locks.map(|lock| (lock.range, lock.kind)).collect()
        })
    }

    /// Gives locks back, each just as it was taken (MS-FSA 2.1.5.9). Those before one that was not held are given back.
    pub fn unlock(&self, share: &GroupId, handle: HandleId, ranges: &[ByteRange]) -> Result<(), Conflict> {
        self.change(share, |opens| {
            let open = opens.file_of(handle)?;
            self.note_given_back(share);
            ranges.iter().try_for_each(|range| {
                let held = open.locks.iter().position(|lock| lock.owner == handle && lock.range == *range);
                open.locks.remove(held.ok_or(Conflict::RangeNotLocked)?);
                open.wake();
                Ok(())
            })
        })
    }

    /// Begins a read or write of a handle: no lock is given to another that it would not get past, and no caching that
    /// would be wrong when it is over.
    pub fn use_range(
        &self,
        share: &GroupId,
        handle: HandleId,
        usage: RangeUse,
        range: ByteRange,
    ) -> Result<InUse, Conflict> {
        self.change(share, |opens| {
            let file = opens.handles.get(&handle).ok_or(Conflict::NotOpen)?.opening.file;
            let open = opens.file_of(handle)?;
            if open.is_locked(Some(handle), usage, range) {
                return Err(Conflict::Locked(open.wait()));
            }
            let number = next_number(&open.uses);
            open.uses.insert(number, Usage { by: handle, usage, range });
            Ok(InUse { opens: self.clone(), share: share.clone(), file, number })
        })
    }

    /// Is something still at work by way of a handle that was closed? Then until when: what it does may come after that.
    pub fn still_at_work(&self, share: &GroupId, handle: &Handle) -> Option<Wait> {
        self.change(share, |opens| {
            let open = opens.files.get_mut(&handle.opening.file)?;
            let is_at_work = open.uses.values().any(|used| used.by == handle.id);
            is_at_work.then(|| open.wait())
        })
    }

    /// Makes the file go with its last handle, or stay after all. That the handle may delete is the caller's to know. REST operations
    /// that were let in before are over first: none of them takes effect on what is pending.
    pub fn set_delete_pending(&self, share: &GroupId, handle: HandleId, is_pending: bool) -> Result<(), Conflict> {
        self.change(share, |opens| {
            let open = opens.file_of(handle)?;
            if is_pending && !open.short_opens.is_empty() {
                return Err(Conflict::WithShortOpen(open.wait()));
            }
            open.is_delete_pending = is_pending;
            self.note_pending_change(share);
            Ok(())
        })
    }

    pub fn list(&self, share: &GroupId, scope: Scope, after: Option<HandleId>, max: usize) -> Page {
        let shard = self.shard(share);
        let Some(opens) = shard.get(share) else { return Page::default() };
        let (ids, next) = opens.in_scope(scope, after, max);
        Page { handles: ids.iter().filter_map(|id| opens.handles.get(id)).cloned().collect(), next }
    }

    /// Closes one handle, if it is in the scope. Later requests on it find that it is not open; none can fail to close. What is at work by
    /// way of it goes on (`still_at_work`).
    pub fn force_close(&self, share: &GroupId, scope: Scope, handle: HandleId) -> Option<Closed> {
        let closing = self.change(share, |opens| {
            let open = opens.files.get(&scope.file)?;
            let is_in_scope = open.handles.contains_key(&handle) || scope.is_recursive && open.within.contains(&handle);
            if is_in_scope { self.take(share, opens, handle) } else { None }
        })?;
        closing.handle.opening.listener.closed();
        Some(self.closed(share, closing))
    }

    /// Closes handles in the order of their ids, at most `max`, and says after which to go on if there are more.
    pub fn force_close_all(
        &self,
        share: &GroupId,
        scope: Scope,
        after: Option<HandleId>,
        max: usize,
    ) -> (Vec<Closed>, Option<HandleId>) {
        let (closed, next) = self.change(share, |opens| {
            let (ids, next) = opens.in_scope(scope, after, max);
            (ids.into_iter().filter_map(|id| self.take(share, opens, id)).collect::<Vec<_>>(), next)
        });
        closed.iter().for_each(|closing| closing.handle.opening.listener.closed());
        let closed = closed.into_iter().map(|closing| self.closed(share, closing)).collect();
        (closed, next)
    }
}

#[cfg(test)]
mod tests;
