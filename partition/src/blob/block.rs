//! Put Blob for block blobs.

use bytes::Bytes;
use contract::names::{BlobName, Metadata};
use contract::{ErrorCode, Refusal};
use engine::{Fault, GroupId, PartitionId, Write};
use env::Timestamp;

use crate::checks::Expectation;
use crate::content::Content;
use crate::etag::ETag;
use crate::execute::{Command, Moment, Reader};
use crate::key::{self, container};
use crate::lease::after_write;
use crate::record::{BlobHead, ContentProperties};

pub(super) const KEY: Bytes = Bytes::new();

pub(super) async fn load_head(reader: &Reader<'_>) -> Result<Option<BlobHead>, Fault> {
    let record = reader.get(container::HEAD, &KEY).await?;
    record.map(|record| BlobHead::decode(&record.value)).transpose()
}

pub(super) fn put_head(head: &BlobHead) -> Write {
    Write::Put { family: container::HEAD, key: KEY, value: head.encode(), slices: Vec::new() }
}

/// Put Blob. Admitted before its content has come, decided when it has.
pub struct PutBlockBlob {
    partition: PartitionId,
    pub expectation: Expectation,
    pub properties: ContentProperties,
    pub metadata: Metadata,
    /// False for a SAS that may create but not overwrite.
    pub may_overwrite: bool,
    /// Empty until the body has arrived.
    pub content: Content,
}

impl PutBlockBlob {
    pub fn new(
        group: &GroupId,
        blob: &BlobName,
        expectation: Expectation,
        properties: ContentProperties,
        metadata: Metadata,
        may_overwrite: bool,
    ) -> Self {
        let content = Content::Inline(Bytes::new());
        PutBlockBlob {
            partition: key::blob_partition(group, blob),
            expectation,
            properties,
            metadata,
            may_overwrite,
            content,
        }
    }
}

impl Command for PutBlockBlob {
    type Records = Option<BlobHead>;
    type Outcome = BlobHead;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        load_head(reader).await
    }

    fn check(&self, old: &Self::Records, now: Timestamp) -> Result<(), Refusal> {
        if old.is_some() && !self.may_overwrite {
            return Err(ErrorCode::UnauthorizedBlobOverwrite.into());
        }
        self.expectation.judge(old.as_ref().map(BlobHead::current), now)
    }

    fn decide(&self, old: Self::Records, moment: Moment) -> Result<(Vec<Write>, BlobHead), Refusal> {
        self.check(&old, moment.now)?;
        let head = BlobHead {
            etag: ETag::next(old.as_ref().map(|old| old.etag), moment.tick),
            last_modified: moment.now,
            created: old.as_ref().map_or(moment.now, |old| old.created),
            content_bytes: self.content.bytes(),
            properties: self.properties.clone(),
            metadata: self.metadata.clone(),
            lease: after_write(old.as_ref().and_then(|old| old.lease.clone()), moment.now),
        };
        let mut writes = vec![put_head(&head)];
        if head.content_bytes > 0 {
            let (value, slices) = self.content.stored();
            writes.push(Write::Put { family: container::BODY, key: KEY, value, slices });
        } else if old.is_some_and(|old| old.content_bytes > 0) {
            writes.push(Write::Delete { family: container::BODY, key: KEY });
        }
        Ok((writes, head))
    }
}
