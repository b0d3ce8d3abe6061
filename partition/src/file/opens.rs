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
//! Oplocks are no part of it yet. They are broken before anything is asked here, and once more when the answer is a
//! sharing violation and a handle that is only cached may be its cause; then everything is asked again.

mod range_lock;
mod share_mode;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use contract::limits::FILE_HANDLES_MAX;
use contract::{ErrorCode, Refusal};
use engine::GroupId;
use env::Timestamp;
use tokio::sync::oneshot;

pub use range_lock::{ByteRange, LockKind, RangeUse};
pub use share_mode::{Access, Claim, RestAccess, ShareMode, conflicts};

use crate::record::FileId;
use crate::turns::lock;
use range_lock::RangeLock;

/// Locks on one file. The service names no number; this one keeps the list short enough to be gone through.
const LOCKS_MAX: usize = 10_000;

const SHARDS: usize = 64;

/// Unique in this process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HandleId(pub u64);

/// What an opener says of a handle.
#[derive(Clone, PartialEq, Eq, Debug)]
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
    pub opened: Timestamp,
    /// When a client last came back to it over another connection.
    pub reconnected: Option<Timestamp>,
}

impl Opening {
    /// The directory it is in; for the root, itself.
    pub fn parent(&self) -> FileId {
        self.above.last().copied().unwrap_or(FileId::ROOT)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Handle {
    pub id: HandleId,
    pub opening: Opening,
}

/// What stands in a handle's way.
#[derive(Debug)]
pub enum Conflict {
    /// It is not open any more, if it ever was.
    NotOpen,
    /// Another handle denies it, or has what it would deny.
    Sharing,
    DeletePending,
    TooManyHandles,
    /// Another lock. Over when a lock on the file is given back.
    Locked(Wait),
    TooManyLocks,
    InvalidLockRange,
    RangeNotLocked,
    /// A REST operation is at work. Clients are told nothing of it: ask again when it is over. Another may have begun
    /// by then; how often to ask is the caller's to say.
    WithShortOpen(Wait),
}

/// Until something was given back.
#[derive(Debug)]
pub struct Wait(oneshot::Receiver<()>);

impl Wait {
    pub async fn over(self) {
        // Dropped or sent means the same.
        let _ = self.0.await;
    }
}

/// Which handles are meant: those on a file or directory, or those below it too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scope {
    pub file: FileId,
    pub is_recursive: bool,
}

/// Handles in the order of their ids.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
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
    hasher: RandomState,
    shards: Vec<Mutex<HashMap<GroupId, Share>>>,
    last_handle: AtomicU64,
}

impl Default for Shards {
    fn default() -> Self {
        Shards {
            hasher: RandomState::new(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            last_handle: AtomicU64::new(0),
        }
    }
}

/// What is open in one share. A short open or a handle is always in `files`, a handle in `handles` too.
#[derive(Default)]
struct Share {
    files: HashMap<FileId, OpenFile>,
    handles: BTreeMap<HandleId, Arc<Handle>>,
}

/// What is open on a file or directory, and of a directory what is open below it.
#[derive(Default)]
struct OpenFile {
    handles: BTreeMap<HandleId, Claim>,
    /// Handles on it and below it.
    within: BTreeSet<HandleId>,
    short_opens: BTreeMap<u64, RestAccess>,
    locks: Vec<RangeLock>,
    is_delete_pending: bool,
    waiting: Vec<oneshot::Sender<()>>,
}

impl OpenFile {
    /// May a REST operation go on?
    fn judge(&self, access: RestAccess) -> Result<(), ErrorCode> {
        if self.is_delete_pending {
            return Err(ErrorCode::SMBDeletePending);
        }
        match access {
            RestAccess::DeleteDirectory if !self.handles.is_empty() => Err(ErrorCode::CannotDeleteFileOrDirectory),
            RestAccess::RenameDirectory if !self.within.is_empty() => Err(ErrorCode::SharingViolation),
            RestAccess::Delete if !self.handles.is_empty() => Err(ErrorCode::SharingViolation),
            _ if self.is_denied(access.claim()) => Err(ErrorCode::SharingViolation),
            RestAccess::Read(range) if self.is_locked(None, RangeUse::Read, range) => Err(ErrorCode::FileLockConflict),
            _ if access.writes_content() && !self.locks.is_empty() => Err(ErrorCode::FileLockConflict),
            _ => Ok(()),
        }
    }

    fn is_denied(&self, wanted: Claim) -> bool {
        self.handles.values().any(|open| conflicts(*open, wanted))
    }

    fn is_locked(&self, by: Option<HandleId>, usage: RangeUse, range: ByteRange) -> bool {
        self.locks.iter().any(|lock| lock.blocks(by, usage, range))
    }

    /// Is a REST operation at work that could not go on if there were this open?
    fn is_used_against(&self, wanted: Claim) -> bool {
        self.short_opens.values().any(|access| conflicts(access.claim(), wanted))
    }

    fn is_being_taken_away(&self) -> bool {
        self.short_opens.values().any(|access| access.takes_name())
    }

    /// Is a REST operation at work that could not go on if there were this lock?
    fn is_used_against_lock(&self, wanted: &RangeLock) -> bool {
        self.short_opens.values().any(|access| match access {
            RestAccess::Read(range) => wanted.blocks(None, RangeUse::Read, *range),
            access => access.writes_content(),
        })
    }

    fn wait(&mut self) -> Wait {
        let (sender, receiver) = oneshot::channel();
        self.waiting.retain(|sender| !sender.is_closed());
        self.waiting.push(sender);
        Wait(receiver)
    }

    fn wake(&mut self) {
        self.waiting.clear();
    }

    /// Those who wait need not be counted: there is always something that they wait for.
    fn is_unused(&self) -> bool {
        self.within.is_empty() && self.short_opens.is_empty() && !self.is_delete_pending
    }
}

impl Share {
    fn file_of(&mut self, handle: HandleId) -> Result<&mut OpenFile, Conflict> {
        let file = self.handles.get(&handle).map(|handle| handle.opening.file);
        file.and_then(|file| self.files.get_mut(&file)).ok_or(Conflict::NotOpen)
    }

    /// Enters a handle that may be, with every directory above it.
    fn enter(&mut self, handle: Arc<Handle>) {
        let Opening { file, above, claim, .. } = &handle.opening;
        self.files.entry(*file).or_default().handles.insert(handle.id, *claim);
        for id in above.iter().chain([file]) {
            self.files.entry(*id).or_default().within.insert(handle.id);
        }
        self.handles.insert(handle.id, handle);
    }

    /// The opposite, but for the locks and what is pending, which are the file's.
    fn leave(&mut self, handle: HandleId) -> Option<Arc<Handle>> {
        let handle = self.handles.remove(&handle)?;
        let Opening { file, above, .. } = &handle.opening;
        for id in above.iter().chain([file]) {
            if let Some(open) = self.files.get_mut(id) {
                open.within.remove(&handle.id);
                open.handles.remove(&handle.id);
            }
        }
        Some(handle)
    }

    fn forget_unused(&mut self, files: impl IntoIterator<Item = FileId>) {
        for file in files {
            if self.files.get(&file).is_some_and(OpenFile::is_unused) {
                self.files.remove(&file);
            }
        }
    }

    /// Takes a handle away. True if the file is to go with it.
    fn close(&mut self, handle: HandleId) -> Option<(Arc<Handle>, bool)> {
        let handle = self.leave(handle)?;
        let mut is_last_of_pending = false;
        if let Some(open) = self.files.get_mut(&handle.opening.file) {
            open.locks.retain(|lock| lock.owner != handle.id);
            open.wake();
            is_last_of_pending = open.is_delete_pending && open.handles.is_empty();
        }
        self.forget_unused(handle.opening.above.iter().copied().chain([handle.opening.file]));
        Some((handle, is_last_of_pending))
    }

    /// At most `max` handles in the order of their ids, and after which to go on if there are more.
    fn in_scope(&self, scope: Scope, after: Option<HandleId>, max: usize) -> (Vec<HandleId>, Option<HandleId>) {
        let Some(open) = self.files.get(&scope.file) else { return Default::default() };
        let after = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let and_one_more = max.saturating_add(1);
        let mut ids: Vec<_> = match scope.is_recursive {
            true => open.within.range(after).copied().take(and_one_more).collect(),
            false => open.handles.range(after).map(|(id, _)| *id).take(and_one_more).collect(),
        };
        let is_more = ids.len() > max;
        ids.truncate(max);
        let next = ids.last().copied().filter(|_| is_more);
        (ids, next)
    }
}

impl OpenFiles {
    fn shard(&self, share: &GroupId) -> MutexGuard<'_, HashMap<GroupId, Share>> {
        lock(&self.0.shards[self.0.hasher.hash_one(share) as usize % SHARDS])
    }

    /// Changes what is open in a share. One with nothing open is not kept.
    fn change<T>(&self, share: &GroupId, change: impl FnOnce(&mut Share) -> T) -> T {
        let mut shard = self.shard(share);
        let opens = shard.entry(share.clone()).or_default();
        let outcome = change(opens);
        if opens.files.is_empty() {
            shard.remove(share);
        }
        outcome
    }

    /// Begins a REST operation on a file or directory: to be asked once it was found, and held until the operation is
    /// committed.
    pub fn short_open(&self, share: &GroupId, file: FileId, access: RestAccess) -> Result<ShortOpen, Refusal> {
        self.change(share, |opens| {
            let open = opens.files.entry(file).or_default();
            let judged = open.judge(access);
            let mut number = None;
            // What touches nothing keeps nobody from opening.
            if judged.is_ok() && access != RestAccess::Nothing {
                let free = open.short_opens.last_key_value().map_or(0, |(last, _)| last + 1);
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

    /// Gives a handle on something that was found, or is about to be made.
    pub fn open(&self, share: &GroupId, opening: Opening) -> Result<Arc<Handle>, Conflict> {
        self.change(share, |opens| {
            for id in opening.above.iter().chain([&opening.file]) {
                if let Some(open) = opens.files.get_mut(id).filter(|open| open.is_being_taken_away()) {
                    return Err(Conflict::WithShortOpen(open.wait()));
                }
            }
            if opens.files.get(&opening.parent()).is_some_and(|parent| parent.is_delete_pending) {
                return Err(Conflict::DeletePending);
            }
            if let Some(open) = opens.files.get_mut(&opening.file) {
                if open.is_delete_pending {
                    return Err(Conflict::DeletePending);
                }
                if open.is_denied(opening.claim) {
                    return Err(Conflict::Sharing);
                }
                if open.is_used_against(opening.claim) {
                    return Err(Conflict::WithShortOpen(open.wait()));
                }
                if open.handles.len() >= FILE_HANDLES_MAX {
                    return Err(Conflict::TooManyHandles);
                }
            }
            let id = HandleId(self.0.last_handle.fetch_add(1, Ordering::Relaxed) + 1);
            let handle = Arc::new(Handle { id, opening });
            opens.enter(handle.clone());
            Ok(handle)
        })
    }

    /// `None` if it was not open.
    pub fn close(&self, share: &GroupId, handle: HandleId) -> Option<Closed> {
        let (handle, is_last_of_pending) = self.change(share, |opens| opens.close(handle))?;
        Some(self.closed(share, handle, is_last_of_pending))
    }

    fn closed(&self, share: &GroupId, handle: Arc<Handle>, is_last_of_pending: bool) -> Closed {
        let file = handle.opening.file;
        let removal = is_last_of_pending.then(|| Removal { opens: self.clone(), share: share.clone(), file });
        Closed { handle, removal }
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

    /// Gives locks back, each just as it was taken (MS-FSA 2.1.5.9). Those before one that was not held are given back.
    pub fn unlock(&self, share: &GroupId, handle: HandleId, ranges: &[ByteRange]) -> Result<(), Conflict> {
        self.change(share, |opens| {
            let open = opens.file_of(handle)?;
            ranges.iter().try_for_each(|range| {
                let held = open.locks.iter().position(|lock| lock.owner == handle && lock.range == *range);
                open.locks.remove(held.ok_or(Conflict::RangeNotLocked)?);
                open.wake();
                Ok(())
            })
        })
    }

    /// May a handle read or write there?
    pub fn check_range(
        &self,
        share: &GroupId,
        handle: HandleId,
        usage: RangeUse,
        range: ByteRange,
    ) -> Result<(), Conflict> {
        self.change(share, |opens| {
            let open = opens.file_of(handle)?;
            if open.is_locked(Some(handle), usage, range) { Err(Conflict::Locked(open.wait())) } else { Ok(()) }
        })
    }

    /// Makes the file go with its last handle, or stay after all. That the handle may delete is the caller's to know.
    pub fn set_delete_pending(&self, share: &GroupId, handle: HandleId, is_pending: bool) -> Result<(), Conflict> {
        self.change(share, |opens| {
            opens.file_of(handle)?.is_delete_pending = is_pending;
            Ok(())
        })
    }

    pub fn list(&self, share: &GroupId, scope: Scope, after: Option<HandleId>, max: usize) -> Page {
        let shard = self.shard(share);
        let Some(opens) = shard.get(share) else { return Page::default() };
        let (ids, next) = opens.in_scope(scope, after, max);
        Page { handles: ids.iter().filter_map(|id| opens.handles.get(id)).cloned().collect(), next }
    }

    /// Closes one handle, if it is in the scope. Later requests on it find that it is not open; none can fail to close.
    pub fn force_close(&self, share: &GroupId, scope: Scope, handle: HandleId) -> Option<Closed> {
        let (handle, is_last_of_pending) = self.change(share, |opens| {
            let open = opens.files.get(&scope.file)?;
            let is_in_scope = open.handles.contains_key(&handle) || scope.is_recursive && open.within.contains(&handle);
            if is_in_scope { opens.close(handle) } else { None }
        })?;
        Some(self.closed(share, handle, is_last_of_pending))
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
            (ids.into_iter().filter_map(|id| opens.close(id)).collect::<Vec<_>>(), next)
        });
        let closed = closed.into_iter().map(|(handle, is_last)| self.closed(share, handle, is_last)).collect();
        (closed, next)
    }
}

/// A REST operation that is at work on a file or directory.
#[must_use = "it lasts as long as this is held"]
pub struct ShortOpen {
    opens: OpenFiles,
    share: GroupId,
    file: FileId,
    /// `None` if it keeps nobody off.
    number: Option<u64>,
}

impl ShortOpen {
    /// A rename is committed: handles on the file follow it. There are none below what is renamed.
    pub fn moved(&self, path: &str, above: &[FileId]) {
        self.opens.change(&self.share, |opens| {
            let handles: Vec<_> =
                opens.files.get(&self.file).into_iter().flat_map(|open| open.handles.keys()).copied().collect();
            for handle in handles {
                let Some(old) = opens.leave(handle) else { continue };
                let mut opening = old.opening.clone();
                opening.path = path.to_string();
                opening.above = above.to_vec();
                opens.enter(Arc::new(Handle { id: handle, opening }));
                opens.forget_unused(old.opening.above.iter().copied());
            }
        });
    }
}

impl Drop for ShortOpen {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        self.opens.change(&self.share, |opens| {
            if let Some(open) = opens.files.get_mut(&self.file) {
                open.short_opens.remove(&number);
                open.wake();
            }
            opens.forget_unused([self.file]);
        });
    }
}

/// The duty to remove a file whose last handle is closed. Until it is dropped the file counts as pending.
pub struct Removal {
    opens: OpenFiles,
    share: GroupId,
    file: FileId,
}

impl std::fmt::Debug for Removal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Removal of {:?}", self.file)
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        self.opens.change(&self.share, |opens| {
            if let Some(open) = opens.files.get_mut(&self.file) {
                open.is_delete_pending = false;
                open.wake();
            }
            opens.forget_unused([self.file]);
        });
    }
}

#[cfg(test)]
mod tests;
