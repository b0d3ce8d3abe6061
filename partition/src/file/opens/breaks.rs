//! Taking back what clients keep: who has to be told, and what they answer.

use engine::GroupId;
use env::Timestamp;

use super::caching::{AcknowledgeError, BreakOf, CachingGranted, Io, LeaseKey, Left, Oplock, Rights};
use super::entry::{OpenFile, Share, next_number};
use super::held::{Renaming, ShortOpen};
use super::share_mode::{Access, Claim, RestAccess, ShareMode, conflicts};
use super::{Conflict, HandleId, OpenFiles, Wait};
use crate::record::FileId;
use crate::turns::lock;

impl OpenFiles {
    /// What a handle has now. `None` if it is not open.
    pub fn caching(&self, share: &GroupId, handle: HandleId) -> Option<CachingGranted> {
        let shard = self.shard(share);
        let opens = shard.get(share)?;
        let handle = opens.handles.get(&handle)?;
        Some(opens.files.get(&handle.opening.file)?.granted(handle))
    }

    /// The holder of a plain oplock answers with the level that it keeps.
    pub fn acknowledge_oplock(
        &self,
        share: &GroupId,
        handle: HandleId,
        level: Oplock,
    ) -> Result<Oplock, AcknowledgeError> {
        self.change(share, |opens| {
            let open = opens.file_of(handle).map_err(|_| AcknowledgeError::NotFound)?;
            let held = open.caching.get_mut(&BreakOf::Oplock(handle)).ok_or(AcknowledgeError::NotBreaking)?;
            let kept = held.acknowledge_oplock(level)?;
            self.note_given_back(share);
            open.forget_broken();
            open.wake();
            Ok(kept)
        })
    }

    /// The holder of a lease answers with the rights that it keeps: as many of them as there can be. It may be told at once to give up more.
    pub fn acknowledge_lease(&self, key: &LeaseKey, rights: Rights) -> Result<Rights, AcknowledgeError> {
        let home = lock(&self.0.leases).get(key).cloned();
        let (share, file) = home.ok_or(AcknowledgeError::NotFound)?;
        self.change(&share, |opens| {
            let holder = BreakOf::Lease { key: *key };
            let Share { files, notices, .. } = opens;
            let open = files.get_mut(&file).ok_or(AcknowledgeError::NotFound)?;
            let held = open.caching.get_mut(&holder).ok_or(AcknowledgeError::NotFound)?;
            let told = held.acknowledge(rights)?;
            self.note_given_back(&share);
            if let Some(told) = told {
                open.tell(holder, told, notices);
            }
            open.wake();
            Ok(rights.legal())
        })
    }

    /// Breaks what others keep against what a handle is about to do. Its own lease stays, and so does what is granted
    /// to write; but a plain oplock that is good for reading alone goes even when its own handle writes.
    pub fn break_for(&self, share: &GroupId, handle: HandleId, io: Io, now: Timestamp) -> Result<(), Conflict> {
        self.change(share, |opens| {
            let Share { files, handles, notices } = opens;
            let handle = handles.get(&handle).ok_or(Conflict::NotOpen)?;
            let open = files.get_mut(&handle.opening.file).ok_or(Conflict::NotOpen)?;
            let own = handle.holder();
            open.expire(now, notices);
            let writes_alone = open.caching.get(&own).is_some_and(|held| held.rights().write);
            let is_spared = |holder| match holder {
                BreakOf::Lease { .. } => holder == own,
                BreakOf::Oplock(_) => holder == own && (writes_alone || !io.is_change()),
            };
            let waits = open.lower(|holder, held| (!is_spared(holder)).then(|| io.left(held)), now, notices);
            if waits { Err(Conflict::Breaking(open.wait())) } else { Ok(()) }
        })
    }

    /// Begins a rename through a handle, over a `target` or to a name that is free. Nothing may be open below what is
    /// renamed, nor on what is replaced; handles that are only cached are asked for first.
    pub fn begin_rename(
        &self,
        share: &GroupId,
        handle: HandleId,
        parent: FileId,
        target: Option<FileId>,
        now: Timestamp,
    ) -> Result<Renaming, Conflict> {
        self.change(share, |opens| {
            let source = opens.handles.get(&handle).ok_or(Conflict::NotOpen)?.clone();
            let file = source.opening.file;
            let target = target.filter(|target| *target != file);
            for id in source.opening.above.iter().chain([&file]).chain(&target) {
                if let Some(open) = opens.files.get_mut(id).filter(|open| open.is_being_taken_away()) {
                    return Err(Conflict::WithShortOpen(open.wait()));
                }
            }
            // Nothing new in a directory that is to go: it would not go.
            if opens.files.get(&parent).is_some_and(|parent| parent.is_delete_pending) {
                return Err(Conflict::DeletePending);
            }
            // The directory it goes to is opened to write a name in it, and not shared with who may delete it.
            let writing = Claim { access: Access { write: true, ..Access::NONE }, share: ShareMode::UNDELETED };
            let is_against =
                |open: &OpenFile| open.handles.values().any(|handle| conflicts(handle.opening.claim, writing));
            if opens.files.get(&parent).is_some_and(is_against) {
                return Err(Conflict::Sharing);
            }
            if let Some(target) = target {
                break_handles(opens, target, None, now).map_err(Conflict::Breaking)?;
                if opens.files.get(&target).is_some_and(|open| !open.handles.is_empty()) {
                    return Err(Conflict::TargetOpen);
                }
            }
            break_handles(opens, file, Some(source.holder()), now).map_err(Conflict::Breaking)?;
            if break_below(opens, file, now).map_err(Conflict::Breaking)? {
                return Err(Conflict::Sharing);
            }
            let mut take = |file, access| {
                let open = opens.files.entry(file).or_default();
                let number = next_number(&open.short_opens);
                open.short_opens.insert(number, access);
                ShortOpen { opens: self.clone(), share: share.clone(), file, number: Some(number) }
            };
            Ok(Renaming {
                source: take(file, RestAccess::Rename),
                _target: target.map(|target| take(target, RestAccess::Delete)),
            })
        })
    }
}

/// Asks for handles below a directory that clients may only keep. Tells whether there are handles below it that they
/// use.
pub(super) fn break_below(opens: &mut Share, directory: FileId, now: Timestamp) -> Result<bool, Wait> {
    // All at once, though only one is waited for at a time.
    let below: Vec<_> =
        files_below(opens, directory).into_iter().map(|below| break_handles(opens, below, None, now)).collect();
    let is_open = !below.is_empty();
    below.into_iter().collect::<Result<(), _>>().map(|()| is_open)
}

/// Asks for handles on a file that others may only keep.
fn break_handles(opens: &mut Share, file: FileId, own: Option<BreakOf>, now: Timestamp) -> Result<(), Wait> {
    let Share { files, notices, .. } = opens;
    let Some(open) = files.get_mut(&file) else { return Ok(()) };
    open.expire(now, notices);
    let rule = |holder, held: &_| (Some(holder) != own).then(|| Left::taking(held, Rights::H, Rights::H));
    match open.lower(rule, now, notices) {
        true => Err(open.wait()),
        false => Ok(()),
    }
}

/// What is open below a directory.
fn files_below(opens: &Share, directory: FileId) -> Vec<FileId> {
    let Some(open) = opens.files.get(&directory) else { return Vec::new() };
    let below = open.within.iter().filter(|handle| !open.handles.contains_key(handle));
    let mut files: Vec<_> =
        below.filter_map(|handle| opens.handles.get(handle)).map(|open| open.opening.file).collect();
    files.sort_unstable();
    files.dedup();
    files
}

#[cfg(test)]
mod tests;
