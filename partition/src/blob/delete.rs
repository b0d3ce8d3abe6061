//! Delete Blob: the blob with or without its snapshots, or one past state of it; and clearing what was kept long enough.

use std::ops::Bound;

use bytes::Bytes;
use contract::names::{AccountName, BlobName};
use contract::operations::Effect;
use contract::{ErrorCode, Refusal};
use engine::{BoxFuture, Family, Fault, GroupId, KeyRange, PartitionId, Write};
use env::Timestamp;

use super::body::{self, Stored};
use super::state::{
    KEY, Keeping, PastId, Which, Whole, delete_head, earliest, load_head, load_mark, load_staging_of, put_mark,
    put_past,
};
use crate::checks::Expectation;
use crate::events::{self, Announcement};
use crate::execute::{Command, Failure, Moment, Reader, Shell};
use crate::gate;
use crate::housekeeping::RowChore;
use crate::key::{self, container};
use crate::record::BlobHead;
use crate::record::past::{Deleted, Mark, PastBlob};

/// What is to become of a blob's snapshots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Snapshots {
    /// There must not be any.
    Refuse,
    Include,
    /// They alone are deleted.
    Only,
}

pub struct DeleteBlob {
    partition: PartitionId,
    expectation: Expectation,
    keeping: Keeping,
    snapshots: Snapshots,
    /// What is told of it, and to whom.
    pub announcement: Option<Announcement>,
}

impl DeleteBlob {
    pub fn new(
        group: &GroupId,
        blob: &BlobName,
        expectation: Expectation,
        keeping: Keeping,
        snapshots: Snapshots,
    ) -> Self {
        DeleteBlob { partition: key::blob_partition(group, blob), expectation, keeping, snapshots, announcement: None }
    }
}

/// A past state as it lies there.
pub(super) struct Past {
    pub id: PastId,
    pub blob: PastBlob,
    pub body: Stored,
    has_blocks: bool,
}

impl Past {
    pub(super) async fn load(reader: &Reader<'_>, id: PastId, value: &[u8], whole: bool) -> Result<Past, Fault> {
        let blob = PastBlob::decode(value)?;
        let body = body::load(reader, &id.place(), Some(&blob.head), whole).await?;
        let has_blocks = blob.head.in_runs && blob.head.kind.is_block();
        Ok(Past { id, blob, body, has_blocks })
    }

    /// Somebody took it, and it is there.
    pub(super) fn is_snapshot(&self) -> bool {
        !self.id.is_version && self.blob.deleted.is_none()
    }

    /// Removes it for good.
    pub(super) fn remove(&self) -> Vec<Write> {
        let mut writes = vec![Write::Delete { family: container::PAST, key: self.id.key() }];
        writes.extend(self.body.replace(&self.id.place(), Vec::new()));
        writes.extend(self.has_blocks.then(|| body::delete_block_list(&self.id.place())));
        writes
    }

    /// Deleted, to be kept for a while or not.
    fn delete(&self, deleted: Option<Deleted>) -> Vec<Write> {
        match deleted {
            None => self.remove(),
            Some(_) => vec![put_past(self.id, &PastBlob { deleted, ..self.blob.clone() })],
        }
    }
}

/// All past states, oldest first.
pub(super) async fn load_past(reader: &Reader<'_>, whole: bool) -> Result<Vec<Past>, Fault> {
    let everything = KeyRange { start: Bound::Unbounded, end: Bound::Unbounded };
    let mut states = Vec::new();
    for (key, record) in reader.scan(container::PAST, &everything, usize::MAX).await? {
        let id = PastId::parse(&key).ok_or_else(|| crate::record::corrupt("the key of a past state", &key))?;
        states.push(Past::load(reader, id, &record.value, whole).await?);
    }
    Ok(states)
}

/// The mark of what is left; none if nothing is.
pub(super) fn put_mark_of<'a>(before: Mark, past: impl Iterator<Item = &'a PastBlob>, has_head: bool) -> Vec<Write> {
    let (mut due, mut any) = (None, false);
    for blob in past {
        any = true;
        due = earliest(due, blob.deleted.map(|deleted| deleted.until));
    }
    match any || has_head {
        true => vec![put_mark(&Mark { due, ..before })],
        false => vec![Write::Delete { family: container::HAS_PAST, key: KEY }],
    }
}

pub struct AroundDelete {
    whole: Whole,
    past: Vec<Past>,
}

/// Is anything of what was deleted kept?
pub struct DeletedBlob {
    pub is_kept: bool,
}

impl Command for DeleteBlob {
    type Records = AroundDelete;
    type Outcome = DeletedBlob;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<AroundDelete, Fault> {
        let mut whole = Whole::load(reader, self.keeping, false).await?;
        whole.mark = load_mark(reader).await?;
        let past = if whole.mark.is_some() { load_past(reader, false).await? } else { Vec::new() };
        Ok(AroundDelete { whole, past })
    }

    fn check(&self, around: &AroundDelete, now: Timestamp) -> Result<(), Refusal> {
        let old = &around.whole;
        // What was only staged can be deleted, too.
        let is_staged = old.there(now).is_none() && old.staged.is_live(now);
        if is_staged && self.expectation.conditions.is_empty() {
            return self.expectation.judge_lease(old.staged.lease(now), now);
        }
        self.expectation.judge(old.head.as_ref().map(BlobHead::current), now)?;
        let mut snapshots = around.past.iter().filter(|state| state.is_snapshot());
        if self.snapshots == Snapshots::Refuse && snapshots.next().is_some() {
            let count = snapshots.count() + 1;
            let there = format!("The blob has {count} snapshots, and the request does not say x-ms-delete-snapshots.");
            return Err(ErrorCode::SnapshotsPresent.because(there));
        }
        // What is deleted along with the blob may be held on its own.
        snapshots.try_for_each(|state| gate::judge(Effect::Deletes, state.blob.head.held().at(now), false))
    }

    fn decide(&self, around: AroundDelete, moment: Moment) -> Result<(Vec<Write>, DeletedBlob), Refusal> {
        self.check(&around, moment.now)?;
        let (old, deleted) = (around.whole, self.keeping.deleted(moment.now));
        let (mut mark, mut is_kept) = (old.mark.unwrap_or_default(), deleted.is_some());
        let takes_base = self.snapshots != Snapshots::Only;
        let takes_head = takes_base && old.head.is_some();
        let (mut writes, mut left) = (Vec::new(), Vec::new());
        for state in &around.past {
            match state.is_snapshot() {
                true => {
                    writes.extend(state.delete(deleted));
                    left.extend(deleted.map(|_| PastBlob { deleted, ..state.blob.clone() }));
                }
                // From here on it is a snapshot among others: another is the blob that was deleted last.
                false if state.blob.was_base && takes_head => {
                    let blob = PastBlob { was_base: false, ..state.blob.clone() };
                    writes.push(put_past(state.id, &blob));
                    left.push(blob);
                }
                false => left.push(state.blob.clone()),
            }
        }
        if takes_base {
            if let Some(head) = &old.head {
                writes.extend(delete_head(head));
                // One whose time has run out was gone before.
                if head.is_there(moment.now) {
                    writes.extend(events::deleted(self.announcement.as_ref(), head, moment));
                }
                let kept = if head.is_versioned(self.keeping) {
                    Some((head.version_id(), PastBlob { head: head.clone(), was_base: false, deleted: None }))
                } else {
                    deleted
                        .map(|_| (mark.next_snapshot(moment), PastBlob { head: head.clone(), was_base: true, deleted }))
                };
                if let Some((id, past)) = kept {
                    writes.extend(old.set_aside(id, past.clone(), &mut mark));
                    left.push(past);
                    is_kept = true;
                }
            }
            writes.extend(old.replace(Vec::new(), None));
        }
        let has_head = !takes_base && old.head.is_some();
        if old.mark.is_some() || !left.is_empty() {
            writes.extend(put_mark_of(mark, left.iter(), has_head));
        }
        Ok((writes, DeletedBlob { is_kept }))
    }

    fn announcement(&self) -> Option<&Announcement> {
        self.announcement.as_ref()
    }
}

/// Deletes one snapshot or one earlier version.
pub struct DeletePast {
    partition: PartitionId,
    expectation: Expectation,
    keeping: Keeping,
    which: Which,
    /// For good, of something that was deleted before.
    permanent: bool,
}

impl DeletePast {
    pub fn new(
        group: &GroupId,
        blob: &BlobName,
        expectation: Expectation,
        keeping: Keeping,
        which: Which,
        permanent: bool,
    ) -> Self {
        DeletePast { partition: key::blob_partition(group, blob), expectation, keeping, which, permanent }
    }

    fn is_meant(&self, id: PastId) -> bool {
        match self.which {
            Which::Current => false,
            Which::Snapshot(ticks) => id == PastId { ticks, is_version: false },
            Which::Version(ticks) => id == PastId { ticks, is_version: true },
        }
    }
}

pub struct AroundPast {
    head: Option<BlobHead>,
    is_staged: bool,
    mark: Option<Mark>,
    past: Vec<Past>,
}

impl AroundPast {
    async fn load(reader: &Reader<'_>) -> Result<AroundPast, Fault> {
        let (head, mark) = (load_head(reader).await?, load_mark(reader).await?);
        let past = if mark.is_some() { load_past(reader, false).await? } else { Vec::new() };
        Ok(AroundPast { is_staged: load_staging_of(reader).await?, head, mark, past })
    }
}

impl Command for DeletePast {
    type Records = AroundPast;
    type Outcome = DeletedBlob;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<AroundPast, Fault> {
        AroundPast::load(reader).await
    }

    fn check(&self, around: &AroundPast, now: Timestamp) -> Result<(), Refusal> {
        let version = around.head.as_ref().and_then(|head| head.version);
        if version.is_some_and(|version| self.which == Which::Version(version)) {
            return Err(ErrorCode::OperationNotAllowedOnRootBlob.into());
        }
        let state = around.past.iter().find(|state| self.is_meant(state.id));
        let is_gone = state.and_then(|state| state.blob.deleted).is_some_and(|deleted| deleted.is_gone(now));
        match state.filter(|_| !is_gone) {
            Some(state) if state.blob.deleted.is_some() == self.permanent => {
                self.expectation.judge(Some(state.blob.head.current()), now)
            }
            // Only what was deleted can be deleted for good.
            Some(_) if self.permanent => Err(ErrorCode::PermanentDeleteNotAllowed.into()),
            _ => Err(ErrorCode::BlobNotFound.into()),
        }
    }

    fn decide(&self, around: AroundPast, moment: Moment) -> Result<(Vec<Write>, DeletedBlob), Refusal> {
        self.check(&around, moment.now)?;
        let deleted = if self.permanent { None } else { self.keeping.deleted(moment.now) };
        let (mut writes, mut left) = (Vec::new(), Vec::new());
        for state in &around.past {
            match self.is_meant(state.id) {
                true => {
                    writes.extend(state.delete(deleted));
                    left.extend(deleted.map(|_| PastBlob { deleted, ..state.blob.clone() }));
                }
                false => left.push(state.blob.clone()),
            }
        }
        let has_head = around.head.is_some() || around.is_staged;
        writes.extend(put_mark_of(around.mark.unwrap_or_default(), left.iter(), has_head));
        Ok((writes, DeletedBlob { is_kept: deleted.is_some() }))
    }
}

/// Removes the past states of a blob that were deleted and kept long enough.
struct ClearGone {
    partition: PartitionId,
}

impl Command for ClearGone {
    type Records = AroundPast;
    type Outcome = ();

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<AroundPast, Fault> {
        AroundPast::load(reader).await
    }

    fn check(&self, _around: &AroundPast, _now: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, around: AroundPast, moment: Moment) -> Result<(Vec<Write>, ()), Refusal> {
        let is_gone = |state: &&Past| state.blob.deleted.is_some_and(|deleted| deleted.is_gone(moment.now));
        let (gone, left): (Vec<&Past>, Vec<&Past>) = around.past.iter().partition(is_gone);
        let mut writes: Vec<Write> = gone.iter().flat_map(|state| state.remove()).collect();
        if let Some(mark) = around.mark.filter(|_| !writes.is_empty()) {
            let has_head = around.head.is_some() || around.is_staged;
            writes.extend(put_mark_of(mark, left.iter().map(|state| &state.blob), has_head));
        }
        Ok((writes, ()))
    }
}

/// Clears what was deleted and is not to be kept any longer.
pub struct DeletedStates;

impl RowChore for DeletedStates {
    fn family(&self) -> Family {
        container::HAS_PAST
    }

    fn is_due(&self, _key: &[u8], value: &[u8], now: Timestamp) -> Result<bool, Fault> {
        Ok(Mark::decode(value)?.due.is_some_and(|due| now >= due))
    }

    fn clear<'a>(
        &'a self,
        shell: &'a Shell,
        _account: &'a AccountName,
        partition: &'a PartitionId,
        _key: &'a Bytes,
    ) -> BoxFuture<'a, Result<bool, Failure>> {
        Box::pin(async move {
            shell.execute(&ClearGone { partition: partition.clone() }).await?;
            Ok(false)
        })
    }
}
