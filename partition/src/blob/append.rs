//! Append blobs: each append adds a run behind the last, and touches nothing that is there.

use bytes::Bytes;
use contract::limits::BLOCKS_MAX;
use contract::names::BlobName;
use contract::{ErrorCode, Refusal};
use engine::{Fault, GroupId, PartitionId, Write};
use env::Timestamp;

use super::body::{Place, Run};
use super::state::{load_head, put_head};
use crate::checks::Expectation;
use crate::content::Content;
use crate::etag::ETag;
use crate::execute::{Command, Moment, Reader};
use crate::key;
use crate::lease::after_write;
use crate::record::{BlobHead, BlobKind};

/// Append Block.
pub struct AppendBlock {
    partition: PartitionId,
    expectation: Expectation,
    /// The length the blob must have before.
    position: Option<u64>,
    /// The length it may have after.
    bytes_max: Option<u64>,
    /// Empty until the body has arrived; what it will be is known before.
    pub content: Content,
}

impl AppendBlock {
    pub fn new(
        group: &GroupId,
        blob: &BlobName,
        expectation: Expectation,
        position: Option<u64>,
        bytes_max: Option<u64>,
    ) -> Self {
        let partition = key::blob_partition(group, blob);
        AppendBlock { partition, expectation, position, bytes_max, content: Content::Inline(Bytes::new()) }
    }
}

/// What an append did: the head after it, and where it began.
pub struct Appended {
    pub head: BlobHead,
    pub offset: u64,
    pub blocks: u32,
}

/// The condition on the position does not hold.
pub(super) fn position_refused(position: u64, head: &BlobHead) -> Refusal {
    let there =
        format!("x-ms-blob-condition-appendpos: {position} was asked for; the blob ends at {}.", head.content_bytes);
    ErrorCode::AppendPositionConditionNotMet.because(there)
}

impl Command for AppendBlock {
    type Records = Option<BlobHead>;
    type Outcome = Appended;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        load_head(reader).await
    }

    fn check(&self, head: &Self::Records, now: Timestamp) -> Result<(), Refusal> {
        self.expectation.judge(head.as_ref().map(BlobHead::current), now)?;
        let head = head.as_ref().ok_or(ErrorCode::BlobNotFound)?;
        let BlobKind::Append { blocks, sealed } = head.kind else { return Err(ErrorCode::InvalidBlobType.into()) };
        if sealed {
            return Err(ErrorCode::BlobIsSealed.into());
        }
        if let Some(position) = self.position.filter(|position| *position != head.content_bytes) {
            return Err(position_refused(position, head));
        }
        let after = head.content_bytes.saturating_add(self.content.bytes());
        if self.bytes_max.is_some_and(|bytes_max| after > bytes_max) {
            let there = format!(
                "The blob has {} bytes and would have {after}, more than the request allows.",
                head.content_bytes
            );
            return Err(ErrorCode::MaxBlobSizeConditionNotMet.because(there));
        }
        if blocks as usize >= BLOCKS_MAX {
            return Err(ErrorCode::BlockCountExceedsLimit.into());
        }
        Ok(())
    }

    fn decide(&self, head: Self::Records, moment: Moment) -> Result<(Vec<Write>, Appended), Refusal> {
        self.check(&head, moment.now)?;
        let mut head = head.ok_or(ErrorCode::BlobNotFound)?;
        let BlobKind::Append { blocks, sealed } = head.kind else { return Err(ErrorCode::InvalidBlobType.into()) };
        let (offset, bytes, blocks) = (head.content_bytes, self.content.bytes(), blocks + 1);
        head.etag = ETag::next(Some(head.etag), moment.tick);
        head.last_modified = moment.now;
        head.copy = None;
        head.content_bytes += bytes;
        head.kind = BlobKind::Append { blocks, sealed };
        head.lease = after_write(head.lease.take(), moment.now);
        let run = Run::behind(offset, bytes, self.content.stored());
        Ok((vec![put_head(&head), run.put(&Place::CURRENT)], Appended { head, offset, blocks }))
    }
}
