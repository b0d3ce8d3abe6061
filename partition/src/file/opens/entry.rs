//! What is open in one share, and on one file of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use contract::{ErrorCode, Refusal};
use env::Timestamp;

use super::caching::{
    self, Beside, BreakNotice, BreakOf, Caching, CachingGranted, CachingWanted, LeaseKey, Left, Listener, Rights, Told,
};
use super::range_lock::{ByteRange, RangeLock, RangeUse};
use super::share_mode::{Claim, RestAccess, conflicts};
use super::{Blocked, Conflict, Handle, HandleId, Opening, Scope, Wait, Waited};
use crate::record::FileId;

/// A short open or a handle is always in `files`, a handle in `handles` too.
#[derive(Default)]
pub(super) struct Share {
    pub files: BTreeMap<FileId, OpenFile>,
    pub handles: BTreeMap<HandleId, Arc<Handle>>,
    /// What is to be said once nothing is locked.
    pub notices: Notices,
}

/// What came of looking at what clients keep.
#[derive(Default)]
pub(super) struct Notices {
    /// What they are to be told, each on its way.
    pub told: Vec<(Arc<dyn Listener>, BreakNotice)>,
    /// Rights were taken from somebody who did not answer in time, but may have written back what it kept.
    pub has_expired: bool,
}

/// What is open on a file or directory, and of a directory what is open below it.
#[derive(Default)]
pub(super) struct OpenFile {
    pub handles: BTreeMap<HandleId, Arc<Handle>>,
    /// Handles on it and below it.
    pub within: BTreeSet<HandleId>,
    pub short_opens: BTreeMap<u64, RestAccess>,
    pub uses: BTreeMap<u64, Usage>,
    pub locks: Vec<RangeLock>,
    /// Of each lease that a handle has, and of each plain oplock that is not broken to nothing.
    pub caching: BTreeMap<BreakOf, Caching>,
    pub is_delete_pending: bool,
    /// Where it was when its last handle was closed, of one that goes with it: the path, and the directories on the way.
    pub leaves: Option<(String, Vec<FileId>)>,
    waiting: Option<Waited>,
}

/// A read or write of a handle that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    pub by: HandleId,
    pub usage: RangeUse,
    pub range: ByteRange,
}

/// A number that is not taken.
pub(super) fn next_number<T>(taken: &BTreeMap<u64, T>) -> u64 {
    taken.last_key_value().map_or(0, |(last, _)| last + 1)
}

impl OpenFile {
    /// May a REST operation go on beside the handles that there are?
    fn judge_handles(&self, access: RestAccess) -> Result<(), Refusal> {
        let first = || self.handles.values().next().map(|open| open.opening.shown()).unwrap_or_default();
        match access {
            RestAccess::DeleteDirectory if !self.handles.is_empty() => {
                Err(ErrorCode::CannotDeleteFileOrDirectory.because(first()))
            }
            RestAccess::RenameDirectory if !self.within.is_empty() => {
                let there = format!("SMB clients have {} files open in the directory.", self.within.len());
                Err(ErrorCode::SharingViolation.because(there))
            }
            _ => match self.handles.values().find(|open| access.conflicts(open.opening.claim)) {
                Some(open) => Err(ErrorCode::SharingViolation.because(open.opening.shown())),
                None => Ok(()),
            },
        }
    }

    fn judge_locks(&self, access: RestAccess) -> Result<(), Refusal> {
        let lock = match access {
            RestAccess::Read(range) => self.locks.iter().find(|lock| lock.blocks(None, RangeUse::Read, range)),
            _ if access.writes_content() => self.locks.first(),
            _ => None,
        };
        let Some(lock) = lock else { return Ok(()) };
        let by = self.handles.get(&lock.owner).map_or("an SMB client", |open| open.opening.client_address.as_str());
        let (offset, length) = (lock.range.offset, lock.range.length);
        Err(ErrorCode::FileLockConflict.because(format!("{length} bytes at {offset} are locked by {by} over SMB.")))
    }

    /// Breaks what stands in the way of a REST operation, and says what still does.
    pub fn judge(&mut self, access: RestAccess, now: Timestamp, notices: &mut Notices) -> Result<(), Blocked> {
        self.expire(now, notices);
        if self.is_delete_pending {
            let handles = self.handles.len();
            let there = format!("It goes when the last of {handles} handles that SMB clients have is closed.");
            return Err(ErrorCode::SMBDeletePending.because(there).into());
        }
        let beside = self.judge_handles(access);
        let against = self.holders_where(|open| access.conflicts(open));
        let rule = |holder, held: &_| match &beside {
            Ok(()) => Some(access.left(held)),
            // It may be that nobody uses the handle any more.
            Err(_) => against.contains(&holder).then(|| Left::taking(held, Rights::H, Rights::H)),
        };
        if self.lower(rule, now, notices) {
            return Err(Blocked::Breaking(self.wait()));
        }
        beside?;
        Ok(self.judge_locks(access)?)
    }

    pub fn is_locked(&self, by: Option<HandleId>, usage: RangeUse, range: ByteRange) -> bool {
        self.locks.iter().any(|lock| lock.blocks(by, usage, range))
    }

    /// Is a REST operation at work that could not go on if there were this open?
    pub fn is_used_against(&self, wanted: Claim) -> bool {
        self.short_opens.values().any(|access| access.conflicts(wanted))
    }

    pub fn is_being_taken_away(&self) -> bool {
        self.short_opens.values().any(|access| access.takes_name())
    }

    /// Is somebody else at work who could not go on if there were this lock?
    pub fn is_used_against_lock(&self, wanted: &RangeLock) -> bool {
        let by_rest = self.short_opens.values().any(|access| match access {
            RestAccess::Read(range) => wanted.blocks(None, RangeUse::Read, *range),
            access => access.writes_content(),
        });
        let is_against = |used: &Usage| wanted.blocks(Some(used.by), used.usage, used.range);
        by_rest || self.uses.values().any(|used| used.by != wanted.owner && is_against(used))
    }

    /// Lowers what others hold as a rule says. True if somebody's answer has to be waited for.
    pub fn lower(
        &mut self,
        rule: impl Fn(BreakOf, &Caching) -> Option<Left>,
        now: Timestamp,
        notices: &mut Notices,
    ) -> bool {
        let mut waits = false;
        for (holder, caching) in &mut self.caching {
            let Some(left) = rule(*holder, caching) else { continue };
            waits |= left.waits;
            if let Some(told) = caching.lower(left.rights, now) {
                tell(&self.handles, *holder, told, notices);
            }
        }
        self.forget_broken();
        waits
    }

    /// The holder is told through its oldest handle.
    pub fn tell(&self, holder: BreakOf, told: Told, notices: &mut Notices) {
        tell(&self.handles, holder, told, notices);
    }

    /// A plain oplock that is broken to nothing is none. A lease stays one.
    pub fn forget_broken(&mut self) {
        self.caching.retain(|_, caching| caching.is_lease() || caching.rights() != Rights::NONE);
    }

    /// Takes the rights of those who did not answer in time.
    pub fn expire(&mut self, now: Timestamp, notices: &mut Notices) {
        let expired = self.caching.values_mut().map(|caching| caching.expire(now)).filter(|expired| *expired).count();
        if expired > 0 {
            notices.has_expired = true;
            self.forget_broken();
            self.wake();
        }
    }

    /// Who has handles like that.
    fn holders_where(&self, is_like_that: impl Fn(Claim) -> bool) -> BTreeSet<BreakOf> {
        let those = self.handles.values().filter(|open| is_like_that(open.opening.claim));
        those.map(|open| open.holder()).collect()
    }

    /// Breaks what stands in the way of an open, and says what still does.
    pub fn judge_open(&mut self, opening: &Opening, now: Timestamp, notices: &mut Notices) -> Result<(), Conflict> {
        self.expire(now, notices);
        let (claim, opener) = (opening.judged_claim(), opening.opener());
        let own = opening.caching.lease().map(|key| BreakOf::Lease { key });
        let against = self.holders_where(|open| conflicts(open, claim));
        let violates = !against.is_empty();
        let waits = self.lower(
            |holder, held| {
                // While the open is not to be, only those are asked who could make it be.
                let is_concerned = Some(holder) != own && (!violates || against.contains(&holder));
                is_concerned.then(|| caching::left_by_open(held, opener, violates))
            },
            now,
            notices,
        );
        match () {
            () if waits => Err(Conflict::Breaking(self.wait())),
            () if violates => Err(Conflict::Sharing),
            () if self.is_used_against(claim) => Err(Conflict::WithShortOpen(self.wait())),
            () => Ok(()),
        }
    }

    /// What others have and do, for who is about to open it and asks for caching.
    pub fn beside(&self, opening: &Opening) -> Beside {
        let own = opening.caching.lease().map(|key| BreakOf::Lease { key });
        let mut beside = Beside { has_locks: !opening.overwrites && !self.locks.is_empty(), ..Beside::NOBODY };
        for open in self.handles.values().filter(|open| Some(open.holder()) != own) {
            let caching = self.caching.get(&open.holder());
            beside.is_shared |= caching.is_some() || !open.opening.opener().is_stat();
            beside.has_oplock |= caching.is_some_and(|caching| !caching.is_lease());
            beside.has_handle_caching |= caching.is_some_and(|caching| caching.rights().handle);
        }
        for access in self.short_opens.values() {
            beside.left = beside.left.without(access.takes().0);
        }
        for usage in self.uses.values() {
            let by_other = self.handles.get(&usage.by).is_none_or(|user| Some(user.holder()) != own);
            if by_other && usage.usage == RangeUse::Write {
                beside.left = Rights::NONE;
            }
        }
        beside
    }

    /// Gives a handle that is entered what it asked for, as far as that can be.
    pub fn grant(&mut self, handle: &Handle, beside: Beside) -> CachingGranted {
        let (opening, holder) = (&handle.opening, handle.holder());
        let grantable = caching::grantable(&opening.caching, opening.opener(), beside);
        match (opening.caching, self.caching.get_mut(&holder)) {
            (CachingWanted::Lease { rights, .. }, Some(held)) => held.reopen(rights, grantable),
            (CachingWanted::Lease { epoch, .. }, None) => {
                self.caching.insert(holder, Caching::lease(grantable, epoch));
            }
            (CachingWanted::Oplock(_), _) if grantable != Rights::NONE => {
                self.caching.insert(holder, Caching::oplock(grantable));
            }
            (CachingWanted::Oplock(_) | CachingWanted::Nothing, _) => {}
        }
        self.granted(handle)
    }

    /// What a handle has now.
    pub fn granted(&self, handle: &Handle) -> CachingGranted {
        self.caching.get(&handle.holder()).map(Caching::granted).unwrap_or_default()
    }

    pub fn wait(&mut self) -> Wait {
        Wait(self.waiting.get_or_insert_default().0.clone())
    }

    pub fn wake(&mut self) {
        self.waiting = None;
    }

    /// Those who wait need not be counted: there is always something that they wait for.
    fn is_unused(&self) -> bool {
        self.within.is_empty() && self.short_opens.is_empty() && self.uses.is_empty() && !self.is_delete_pending
    }
}

fn tell(handles: &BTreeMap<HandleId, Arc<Handle>>, of: BreakOf, told: Told, notices: &mut Notices) {
    let Told { from, to, epoch, needs_answer } = told;
    if let Some(oldest) = handles.values().find(|open| open.holder() == of) {
        notices.told.push((oldest.opening.listener.clone(), BreakNotice { of, from, to, epoch, needs_answer }));
    }
}

/// A handle that was taken away.
pub(super) struct Closing {
    pub handle: Arc<Handle>,
    /// The file is to go with it.
    pub is_last_of_pending: bool,
    /// The lease that it was the last handle of.
    pub ended: Option<LeaseKey>,
}

impl Share {
    pub fn file_of(&mut self, handle: HandleId) -> Result<&mut OpenFile, Conflict> {
        let file = self.handles.get(&handle).map(|handle| handle.opening.file);
        file.and_then(|file| self.files.get_mut(&file)).ok_or(Conflict::NotOpen)
    }

    /// Enters a handle that may be, with every directory above it.
    pub fn enter(&mut self, handle: Arc<Handle>) {
        let Opening { file, above, .. } = &handle.opening;
        self.files.entry(*file).or_default().handles.insert(handle.id, handle.clone());
        for id in above.iter().chain([file]) {
            self.files.entry(*id).or_default().within.insert(handle.id);
        }
        self.handles.insert(handle.id, handle);
    }

    /// The opposite, but for the locks, the caching and what is pending, which are the file's.
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

    /// Says something else of a handle that is open.
    pub fn reenter(&mut self, handle: HandleId, change: impl FnOnce(&mut Opening)) -> Option<()> {
        let old = self.leave(handle)?;
        let mut opening = old.opening.clone();
        change(&mut opening);
        self.enter(Arc::new(Handle { id: handle, opening }));
        self.forget_unused(old.opening.above.iter().copied());
        Some(())
    }

    pub fn forget_unused(&mut self, files: impl IntoIterator<Item = FileId>) {
        for file in files {
            if self.files.get(&file).is_some_and(OpenFile::is_unused) {
                self.files.remove(&file);
            }
        }
    }

    pub fn close(&mut self, handle: HandleId) -> Option<Closing> {
        let handle = self.leave(handle)?;
        let (mut is_last_of_pending, mut ended) = (false, None);
        if let Some(open) = self.files.get_mut(&handle.opening.file) {
            open.locks.retain(|lock| lock.owner != handle.id);
            if open.handles.values().all(|other| other.holder() != handle.holder()) {
                open.caching.remove(&handle.holder());
                ended = handle.opening.caching.lease();
            }
            open.is_delete_pending |= handle.opening.deletes_on_close;
            open.wake();
            is_last_of_pending = open.is_delete_pending && open.handles.is_empty();
            if is_last_of_pending {
                open.leaves = Some((handle.opening.path.clone(), handle.opening.above.clone()));
            }
        }
        self.forget_unused(handle.opening.above.iter().copied().chain([handle.opening.file]));
        Some(Closing { handle, is_last_of_pending, ended })
    }

    /// At most `max` handles in the order of their ids, and after which to go on if there are more.
    pub fn in_scope(&self, scope: Scope, after: Option<HandleId>, max: usize) -> (Vec<HandleId>, Option<HandleId>) {
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
