//! Copies of what is outside this server to blobs: begun, under way for a while, and finished, failed or aborted (`copying.rs`).

use contract::names::BlobName;
use contract::{ErrorCode, Refusal};
use engine::{Fault, GroupId, PartitionId, Write};
use env::{Id, Timestamp};

use super::body::{self, Place};
use super::copy::check_destination;
use super::state::{Attributes, Keeping, Whole, load_head, put_head, put_made};
use crate::checks::Expectation;
use crate::copying::{Step, must_be_pending};
use crate::etag::ETag;
use crate::events::{self, Announcement};
use crate::execute::{Command, Failure, Moment, Reader, Shell};
use crate::key;
use crate::record::blob::CopyState;
use crate::record::{BlobHead, BlobKind};

/// Begins a copy: the destination is there, empty, with all that is known of it.
pub struct StartCopy {
    partition: PartitionId,
    expectation: Expectation,
    attributes: Attributes,
    keeping: Keeping,
    may_overwrite: bool,
    copy: CopyState,
}

impl StartCopy {
    pub fn new(
        group: &GroupId,
        blob: &BlobName,
        expectation: Expectation,
        attributes: Attributes,
        (keeping, may_overwrite): (Keeping, bool),
        copy: CopyState,
    ) -> Self {
        let partition = key::blob_partition(group, blob);
        StartCopy { partition, expectation, attributes, keeping, may_overwrite, copy }
    }
}

impl Command for StartCopy {
    type Records = Whole;
    type Outcome = BlobHead;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Whole, Fault> {
        Whole::load(reader, self.keeping, false).await
    }

    fn check(&self, old: &Whole, now: Timestamp) -> Result<(), Refusal> {
        check_destination(&self.expectation, old, self.may_overwrite, now)?;
        old.there(now).map_or(Ok(()), |head| head.must_be(BlobKind::is_block))
    }

    fn decide(&self, old: Whole, moment: Moment) -> Result<(Vec<Write>, BlobHead), Refusal> {
        self.check(&old, moment.now)?;
        let before = old.head.as_ref();
        let mut head = old.made(&self.attributes, BlobKind::Block, 0, false, self.keeping, moment);
        head.copy = Some(self.copy.clone());
        let mut writes = put_made(before, &head);
        writes.extend(old.keep_overwritten(self.keeping, moment));
        writes.extend(old.replace(Vec::new(), None));
        Ok((writes, head))
    }
}

/// Abort Copy Blob, and what the one who copies reports.
pub struct SettleCopy {
    partition: PartitionId,
    id: Id,
    step: Step,
    /// Of the client who aborts it.
    expectation: Option<Expectation>,
    /// What is told of it when it is whole, and to whom.
    pub announcement: Option<Announcement>,
}

impl SettleCopy {
    pub fn new(group: &GroupId, blob: &BlobName, id: Id, step: Step) -> Self {
        SettleCopy { partition: key::blob_partition(group, blob), id, step, expectation: None, announcement: None }
    }

    pub fn abort(group: &GroupId, blob: &BlobName, id: Id, expectation: Expectation) -> Self {
        SettleCopy { expectation: Some(expectation), ..SettleCopy::new(group, blob, id, Step::Aborted) }
    }
}

impl Command for SettleCopy {
    type Records = Option<BlobHead>;
    type Outcome = BlobHead;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        load_head(reader).await
    }

    fn check(&self, head: &Self::Records, now: Timestamp) -> Result<(), Refusal> {
        if let Some(expectation) = &self.expectation {
            expectation.judge(head.as_ref().map(BlobHead::current), now)?;
        }
        must_be_pending(head.as_ref().and_then(|head| head.copy.as_ref()), self.id).map(|_| ())
    }

    fn decide(&self, head: Self::Records, moment: Moment) -> Result<(Vec<Write>, BlobHead), Refusal> {
        self.check(&head, moment.now)?;
        let mut head = head.ok_or(ErrorCode::NoPendingCopyOperation)?;
        head.copy = head.copy.map(|copy| copy.after(&self.step, moment.now));
        if let Step::Arrived(_) = self.step {
            return Ok((vec![put_head(&head)], head));
        }
        let mut writes = Vec::new();
        if let Step::Finished { content, md5 } = &self.step {
            let runs = body::whole(content);
            (head.content_bytes, head.in_runs) = (content.bytes(), body::is_in_runs(&runs));
            head.properties.content_md5 = Some(*md5);
            writes.extend(runs.into_iter().map(|run| run.put(&Place::CURRENT)));
        }
        head.etag = ETag::next(Some(head.etag), moment.tick);
        head.last_modified = moment.now;
        writes.push(put_head(&head));
        if let Step::Finished { .. } = self.step {
            writes.extend(events::created(self.announcement.as_ref(), &head, moment));
        }
        Ok((writes, head))
    }

    fn announcement(&self) -> Option<&Announcement> {
        self.announcement.as_ref()
    }
}

/// Is the copy still wanted?
pub async fn is_pending(shell: &Shell, group: &GroupId, blob: &BlobName, id: Id) -> Result<bool, Failure> {
    let view = shell.engine.view(&key::blob_partition(group, blob)).await?;
    let head = load_head(&Reader::committed(view.as_ref())).await?;
    Ok(must_be_pending(head.and_then(|head| head.copy).as_ref(), id).is_ok())
}
