//! What is changed of a blob without touching its content: metadata, properties, the seal of an append blob.

use contract::names::{BlobName, Metadata};
use contract::{ErrorCode, Refusal};
use engine::{Fault, GroupId, PartitionId, Write};
use env::Timestamp;

use super::state::{load_head, put_head};
use crate::checks::Expectation;
use crate::etag::ETag;
use crate::execute::{Command, Moment, Reader};
use crate::key;
use crate::lease::after_write;
use crate::record::{BlobHead, BlobKind, ContentProperties};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Replaced as a whole.
    Metadata(Metadata),
    /// Replaced as a whole, too.
    Properties(ContentProperties),
    /// No more appends, if the blob has this length.
    Seal { position: Option<u64> },
}

pub struct ChangeBlob {
    partition: PartitionId,
    expectation: Expectation,
    change: Change,
}

impl ChangeBlob {
    pub fn new(group: &GroupId, blob: &BlobName, expectation: Expectation, change: Change) -> Self {
        ChangeBlob { partition: key::blob_partition(group, blob), expectation, change }
    }
}

impl Command for ChangeBlob {
    type Records = Option<BlobHead>;
    type Outcome = BlobHead;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        load_head(reader).await
    }

    fn check(&self, head: &Self::Records, now: Timestamp) -> Result<(), Refusal> {
        self.expectation.judge(head.as_ref().map(BlobHead::current), now)?;
        match (&self.change, head) {
            (Change::Seal { position }, Some(head)) => {
                head.must_be(|kind| matches!(kind, BlobKind::Append { .. }))?;
                if position.is_some_and(|position| position != head.content_bytes) {
                    return Err(ErrorCode::AppendPositionConditionNotMet.into());
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn decide(&self, head: Self::Records, moment: Moment) -> Result<(Vec<Write>, BlobHead), Refusal> {
        self.check(&head, moment.now)?;
        let mut head = head.ok_or(ErrorCode::BlobNotFound)?;
        head.lease = after_write(head.lease.take(), moment.now);
        match (&self.change, head.kind) {
            // A seal is no part of the content: the ETag stays.
            (Change::Seal { .. }, BlobKind::Append { blocks, .. }) => {
                head.kind = BlobKind::Append { blocks, sealed: true };
                return Ok((vec![put_head(&head)], head));
            }
            (Change::Seal { .. }, _) => return Err(ErrorCode::InvalidBlobType.into()),
            (Change::Metadata(metadata), _) => head.metadata = metadata.clone(),
            (Change::Properties(properties), _) => head.properties = properties.clone(),
        }
        head.etag = ETag::next(Some(head.etag), moment.tick);
        head.last_modified = moment.now;
        Ok((vec![put_head(&head)], head))
    }
}
