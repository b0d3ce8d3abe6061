//! Snapshot Blob and Undelete Blob.

use contract::names::{BlobName, Metadata};
use contract::{ErrorCode, Refusal};
use engine::{Fault, GroupId, PartitionId, Write};
use env::Timestamp;

use super::body::{self, Place};
use super::delete::{Past, load_past, put_mark_of};
use super::state::{Keeping, PastId, Whole, load_mark, put_head, put_made, put_mark, put_past};
use crate::checks::Expectation;
use crate::execute::{Command, Moment, Reader};
use crate::key;
use crate::record::BlobHead;
use crate::record::past::PastBlob;

pub struct SnapshotBlob {
    partition: PartitionId,
    expectation: Expectation,
    keeping: Keeping,
    /// In the place of the blob's own.
    metadata: Option<Metadata>,
}

impl SnapshotBlob {
    pub fn new(
        group: &GroupId,
        blob: &BlobName,
        expectation: Expectation,
        keeping: Keeping,
        metadata: Option<Metadata>,
    ) -> Self {
        SnapshotBlob { partition: key::blob_partition(group, blob), expectation, keeping, metadata }
    }
}

/// A snapshot was taken: the blob, and the snapshot's id.
pub struct Snapshot {
    pub head: BlobHead,
    pub id: PastId,
}

impl Command for SnapshotBlob {
    type Records = Whole;
    type Outcome = Snapshot;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Whole, Fault> {
        Whole::load(reader, self.keeping, true).await
    }

    fn check(&self, whole: &Whole, now: Timestamp) -> Result<(), Refusal> {
        self.expectation.judge(whole.head.as_ref().map(BlobHead::current), now)
    }

    fn decide(&self, whole: Whole, moment: Moment) -> Result<(Vec<Write>, Snapshot), Refusal> {
        self.check(&whole, moment.now)?;
        let mut head = whole.head.clone().ok_or(ErrorCode::BlobNotFound)?;
        let mut mark = whole.mark.unwrap_or_default();
        let id = mark.next_snapshot(moment);
        let mut taken = head.clone();
        // It is no version of its own.
        taken.version = None;
        // What holds the blob, or ends it, is about the blob alone.
        (taken.immutability, taken.legal_hold, taken.expires) = (None, false, None);
        if let Some(metadata) = &self.metadata {
            taken.metadata = metadata.clone();
        }
        let mut writes = whole.set_aside(id, PastBlob { head: taken, was_base: false, deleted: None }, &mut mark);
        if self.keeping.versions {
            // Taking a snapshot ends a version, and the next begins with the same content.
            let past = PastBlob { head: head.clone(), was_base: false, deleted: None };
            writes.extend(whole.set_aside(head.version_id(), past, &mut mark));
            head.version = Some(id.ticks);
            writes.push(put_head(&head));
        }
        writes.push(put_mark(&mark));
        Ok((writes, Snapshot { head, id }))
    }
}

/// Undelete Blob: whatever was deleted and is not gone yet is there again.
pub struct UndeleteBlob {
    partition: PartitionId,
}

impl UndeleteBlob {
    pub fn new(group: &GroupId, blob: &BlobName) -> Self {
        UndeleteBlob { partition: key::blob_partition(group, blob) }
    }
}

pub struct AroundUndelete {
    whole: Whole,
    past: Vec<(Past, Option<bytes::Bytes>)>,
}

impl Command for UndeleteBlob {
    type Records = AroundUndelete;
    type Outcome = ();

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<AroundUndelete, Fault> {
        let mut whole = Whole::load(reader, Keeping::default(), false).await?;
        whole.mark = load_mark(reader).await?;
        let mut past = Vec::new();
        if whole.mark.is_some() {
            for state in load_past(reader, true).await? {
                let blocks = body::load_block_list(reader, &state.id.place(), Some(&state.blob.head)).await?;
                past.push((state, blocks.map(|record| record.value)));
            }
        }
        Ok(AroundUndelete { whole, past })
    }

    fn check(&self, around: &AroundUndelete, now: Timestamp) -> Result<(), Refusal> {
        let is_there = |past: &PastBlob| past.deleted.is_none_or(|deleted| !deleted.is_gone(now));
        let any = around.whole.head.is_some() || around.past.iter().any(|(state, _)| is_there(&state.blob));
        if any { Ok(()) } else { Err(ErrorCode::BlobNotFound.into()) }
    }

    fn decide(&self, around: AroundUndelete, moment: Moment) -> Result<(Vec<Write>, ()), Refusal> {
        self.check(&around, moment.now)?;
        let is_deleted = |past: &PastBlob| past.deleted.is_some_and(|deleted| !deleted.is_gone(moment.now));
        let is_base = |(state, _): &&(Past, _)| state.blob.was_base && is_deleted(&state.blob);
        // The newest of what the blob was is the blob again, unless there is another by now.
        let base = around.past.iter().rev().find(is_base).filter(|_| around.whole.head.is_none());
        let (mut writes, mut left) = (Vec::new(), Vec::new());
        for (state, _) in &around.past {
            if base.is_some_and(|(base, _)| base.id == state.id) {
                writes.extend(state.remove());
            } else if is_deleted(&state.blob) {
                let restored = PastBlob { deleted: None, was_base: false, ..state.blob.clone() };
                writes.push(put_past(state.id, &restored));
                left.push(restored);
            } else {
                left.push(state.blob.clone());
            }
        }
        if let Some((state, blocks)) = base {
            // What was staged meanwhile is staged for the blob that is back.
            writes.extend(put_made(None, &state.blob.head));
            writes.extend(state.body.copy(&state.id.place(), &Place::CURRENT));
            writes.extend(blocks.iter().map(|value| body::put_block_list(&Place::CURRENT, value.clone())));
        }
        if writes.is_empty() {
            return Ok((writes, ()));
        }
        let has_head = base.is_some() || around.whole.head.is_some();
        writes.extend(put_mark_of(around.whole.mark.unwrap_or_default(), left.iter(), has_head));
        Ok((writes, ()))
    }
}
