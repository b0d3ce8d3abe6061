//! Incremental Copy Blob: a page blob that follows the snapshots of another, with a snapshot of its own for each.
//!
//! What the source's snapshot shares with the one before, the copies share too: extents are named, and what changed between two snapshots
//! of the copy is what changed between those of the source. The copy itself is not read or written; its snapshots are read.

use contract::names::BlobName;
use contract::{ErrorCode, Refusal};
use engine::{Fault, GroupId, PartitionId, Write};
use env::Timestamp;

use super::copy::{Making, Taken};
use super::state::{Keeping, Whole, put_made, put_mark, put_past};
use crate::checks::Expectation;
use crate::events::{self, Announcement};
use crate::execute::{Command, Moment, Reader};
use crate::key;
use crate::record::blob::{CopyState, Incremental};
use crate::record::past::PastBlob;
use crate::record::{BlobHead, BlobKind};

pub struct IncrementalCopy {
    partition: PartitionId,
    expectation: Expectation,
    /// A snapshot of a page blob.
    taken: Taken,
    snapshot: u64,
    /// As it is shown, without its snapshot.
    source: String,
    may_overwrite: bool,
    /// What is told of it, and to whom.
    pub announcement: Option<Announcement>,
}

impl IncrementalCopy {
    pub fn new(
        group: &GroupId,
        blob: &BlobName,
        expectation: Expectation,
        (taken, snapshot): (Taken, u64),
        source: String,
        may_overwrite: bool,
    ) -> Self {
        let partition = key::blob_partition(group, blob);
        IncrementalCopy { partition, expectation, taken, snapshot, source, may_overwrite, announcement: None }
    }
}

/// Which snapshot of which blob an incremental copy has followed last.
fn followed(head: &BlobHead) -> Option<(&str, Incremental)> {
    let copy = head.copy.as_ref()?;
    let (source, _) = copy.source.split_once('?').unwrap_or((&copy.source, ""));
    Some((source, copy.incremental?))
}

impl Command for IncrementalCopy {
    type Records = Whole;
    type Outcome = BlobHead;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Whole, Fault> {
        Whole::load(reader, Keeping::default(), true).await
    }

    fn check(&self, old: &Whole, now: Timestamp) -> Result<(), Refusal> {
        let there = old.there(now);
        if there.is_some() && !self.may_overwrite {
            return Err(ErrorCode::UnauthorizedBlobOverwrite.into());
        }
        let mut current = there.map(BlobHead::current);
        if let Some(current) = &mut current {
            // Others may not write to it; this is what does.
            current.held.incremental = false;
        }
        let by_etag = self.expectation.conditions.if_match.is_some();
        self.expectation.judge(current, now).map_err(|refusal| match refusal.code {
            ErrorCode::ConditionNotMet if by_etag => refusal.as_code(ErrorCode::TargetConditionNotMet),
            _ => refusal,
        })?;
        match there.map(followed) {
            None => Ok(()),
            Some(Some((source, last))) if source == self.source => {
                if self.snapshot < last.source {
                    return Err(ErrorCode::IncrementalCopyOfEarlierSnapshotNotAllowed.into());
                }
                Ok(())
            }
            Some(_) => Err(ErrorCode::IncrementalCopyBlobMismatch.into()),
        }
    }

    fn decide(&self, old: Whole, moment: Moment) -> Result<(Vec<Write>, BlobHead), Refusal> {
        self.check(&old, moment.now)?;
        let (before, source) = (old.there(moment.now), &self.taken.head);
        let BlobKind::Page { sequence, .. } = source.kind else { return Err(ErrorCode::InvalidSourceBlobType.into()) };
        // Its snapshots can be compared with each other for as long as it follows the same blob.
        let made = match before.map(|before| before.kind) {
            Some(BlobKind::Page { made, .. }) => made,
            _ => moment.tick,
        };
        let mut mark = old.mark.unwrap_or_default();
        let id = mark.next_snapshot(moment);
        let attributes = Making { tags: Some(Vec::new()), ..Making::default() }.of(source);
        let (kind, bytes) = (BlobKind::Page { sequence, made }, source.content_bytes);
        let mut head = BlobHead::made(old.head.as_ref(), &attributes, kind, bytes, true, Keeping::default(), moment);
        let snapshot = Timestamp::from_ticks(self.snapshot).iso8601();
        let copy = CopyState::success(moment.id, format!("{}?snapshot={snapshot}", self.source), bytes, moment.now);
        let mut past = PastBlob { head: head.clone(), was_base: false, deleted: None };
        (past.head.lease, past.head.copy) = (None, Some(copy.clone()));
        let incremental = Incremental { source: self.snapshot, snapshot: id.ticks };
        head.copy = Some(CopyState { incremental: Some(incremental), ..copy });
        let mut writes = put_made(old.head.as_ref(), &head);
        writes.extend(old.replace(self.taken.runs.clone(), None));
        writes.push(put_past(id, &past));
        writes.extend(self.taken.runs.iter().map(|run| run.clone().put(&id.place())));
        mark.last_id = mark.last_id.max(id.ticks);
        writes.push(put_mark(&mark));
        writes.extend(events::created(self.announcement.as_ref(), &head, moment));
        Ok((writes, head))
    }

    fn announcement(&self) -> Option<&Announcement> {
        self.announcement.as_ref()
    }
}
