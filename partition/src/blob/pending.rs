//! Copies of what is outside this server: begun, under way for a while, and finished, failed or aborted.
//!
//! A destination whose copy is pending is empty and refuses writes. What has arrived so far belongs to nobody until the copy is finished in
//! one commit, so a crash leaves the destination pending and no half of it. A note in a partition of its own names every pending
//! copy: it is there before the destination is, and goes after the destination is settled, so that a start finds each of them without
//! looking through all blobs. A note too many is harmless.

use std::ops::Bound;

use bytes::Bytes;
use contract::names::{AccountName, BlobName};
use contract::{ErrorCode, Refusal};
use engine::{Fault, GroupId, KeyRange, PartitionId, Write};
use env::{Id, Timestamp};

use super::body::Run;
use super::copy::check_destination;
use super::state::{Attributes, Keeping, Whole, load_head, put_head, put_made};
use crate::checks::Expectation;
use crate::content::Content;
use crate::etag::ETag;
use crate::execute::{Command, Failure, Moment, Reader, Shell};
use crate::key;
use crate::record::blob::{CopyState, CopyStatus};
use crate::record::note::PendingCopy;
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

/// What happens to a pending copy.
pub enum Step {
    /// So many bytes have arrived. ETag and dates stay.
    Arrived(u64),
    Finished {
        content: Content,
        md5: [u8; 16],
    },
    Failed(String),
    /// By its owner, who shows the lease's id if there is one.
    Aborted(Box<Expectation>),
}

/// Abort Copy Blob, and what the one who copies reports.
pub struct SettleCopy {
    partition: PartitionId,
    id: Id,
    step: Step,
}

impl SettleCopy {
    pub fn new(group: &GroupId, blob: &BlobName, id: Id, step: Step) -> Self {
        SettleCopy { partition: key::blob_partition(group, blob), id, step }
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
        if let Step::Aborted(expectation) = &self.step {
            expectation.judge(head.as_ref().map(BlobHead::current), now)?;
        }
        let copy = head.as_ref().and_then(|head| head.copy.as_ref());
        match copy.filter(|copy| copy.status == CopyStatus::Pending) {
            None => Err(ErrorCode::NoPendingCopyOperation.into()),
            Some(copy) if copy.id != self.id => Err(ErrorCode::CopyIdMismatch.into()),
            Some(_) => Ok(()),
        }
    }

    fn decide(&self, head: Self::Records, moment: Moment) -> Result<(Vec<Write>, BlobHead), Refusal> {
        self.check(&head, moment.now)?;
        let mut head = head.ok_or(ErrorCode::NoPendingCopyOperation)?;
        let copy = head.copy.as_mut().ok_or(ErrorCode::NoPendingCopyOperation)?;
        let (mut writes, mut bytes) = (Vec::new(), 0);
        match &self.step {
            Step::Arrived(arrived) => {
                copy.bytes_done = *arrived;
                return Ok((vec![put_head(&head)], head));
            }
            Step::Finished { content, md5 } => {
                bytes = content.bytes();
                (copy.status, copy.bytes_done, copy.bytes) = (CopyStatus::Success, bytes, bytes);
                head.properties.content_md5 = Some(*md5);
                if bytes > 0 {
                    writes.push(Run::single(content.stored()).put(&super::body::Place::CURRENT));
                }
            }
            Step::Failed(description) => {
                (copy.status, copy.description) = (CopyStatus::Failed, Some(description.clone()));
            }
            Step::Aborted(_) => copy.status = CopyStatus::Aborted,
        }
        copy.completed = Some(moment.now);
        head.content_bytes = bytes;
        head.etag = ETag::next(Some(head.etag), moment.tick);
        head.last_modified = moment.now;
        writes.push(put_head(&head));
        Ok((writes, head))
    }
}

/// Puts or removes the note on a pending copy.
pub struct NoteCopy {
    partition: PartitionId,
    id: Id,
    note: Option<PendingCopy>,
}

impl NoteCopy {
    pub fn put(account: &AccountName, id: Id, note: PendingCopy) -> Self {
        NoteCopy { partition: key::copies_partition(account), id, note: Some(note) }
    }

    pub fn remove(account: &AccountName, id: Id) -> Self {
        NoteCopy { partition: key::copies_partition(account), id, note: None }
    }
}

impl Command for NoteCopy {
    type Records = ();
    type Outcome = ();

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, _reader: &Reader<'_>) -> Result<(), Fault> {
        Ok(())
    }

    fn check(&self, _records: &(), _now: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, _records: (), _moment: Moment) -> Result<(Vec<Write>, ()), Refusal> {
        let (family, key) = (key::account::PENDING_COPIES, Bytes::copy_from_slice(&self.id.0.to_be_bytes()));
        let write = match &self.note {
            Some(note) => Write::Put { family, key, value: note.encode(), slices: Vec::new() },
            None => Write::Delete { family, key },
        };
        Ok((vec![write], ()))
    }
}

/// The copies that an account has noted.
pub async fn noted(shell: &Shell, account: &AccountName) -> Result<Vec<(Id, PendingCopy)>, Failure> {
    let view = shell.engine.view(&key::copies_partition(account)).await?;
    let all = KeyRange { start: Bound::Unbounded, end: Bound::Unbounded };
    let mut copies = Vec::new();
    for (key, record) in view.scan(key::account::PENDING_COPIES, &all, usize::MAX).await? {
        let id = key.as_ref().try_into().map_err(|_| crate::record::corrupt("the id of a copy", &key))?;
        copies.push((Id(u128::from_be_bytes(id)), PendingCopy::decode(&record.value)?));
    }
    Ok(copies)
}

/// Is the copy still wanted?
pub async fn is_pending(shell: &Shell, group: &GroupId, blob: &BlobName, id: Id) -> Result<bool, Failure> {
    let view = shell.engine.view(&key::blob_partition(group, blob)).await?;
    let head = load_head(&Reader::committed(view.as_ref())).await?;
    let copy = head.and_then(|head| head.copy);
    Ok(copy.is_some_and(|copy| copy.id == id && copy.status == CopyStatus::Pending))
}
