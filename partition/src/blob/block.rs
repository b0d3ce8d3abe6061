//! Put Blob.

use bytes::Bytes;
use contract::names::{BlobName, Metadata};
use contract::{ErrorCode, Refusal};
use engine::{Fault, GroupId, PartitionId, Write};
use env::Timestamp;

use super::body::{self, Run};
use super::staging::{Staged, load_staged};
use crate::checks::Expectation;
use crate::content::Content;
use crate::etag::ETag;
use crate::execute::{Command, Moment, Reader};
use crate::key::{self, container};
use crate::lease::after_write;
use crate::record::{BlobHead, BlobKind, ContentProperties};

pub(super) const KEY: Bytes = Bytes::new();

pub(super) async fn load_head(reader: &Reader<'_>) -> Result<Option<BlobHead>, Fault> {
    let record = reader.get(container::HEAD, &KEY).await?;
    record.map(|record| BlobHead::decode(&record.value)).transpose()
}

pub(super) fn put_head(head: &BlobHead) -> Write {
    Write::Put { family: container::HEAD, key: KEY, value: head.encode(), slices: Vec::new() }
}

/// Put Blob, of a block blob or an append blob. Admitted before its content has come, decided when it has.
pub struct PutBlob {
    partition: PartitionId,
    pub expectation: Expectation,
    kind: BlobKind,
    pub properties: ContentProperties,
    pub metadata: Metadata,
    /// False for a SAS that may create but not overwrite.
    pub may_overwrite: bool,
    /// Empty until the body has arrived.
    pub content: Content,
}

impl PutBlob {
    pub fn new(
        group: &GroupId,
        blob: &BlobName,
        expectation: Expectation,
        kind: BlobKind,
        properties: ContentProperties,
        metadata: Metadata,
        may_overwrite: bool,
    ) -> Self {
        let content = Content::Inline(Bytes::new());
        let partition = key::blob_partition(group, blob);
        PutBlob { partition, expectation, kind, properties, metadata, may_overwrite, content }
    }
}

/// A blob with everything that putting it anew takes away.
pub struct Whole {
    pub(super) head: Option<BlobHead>,
    pub(super) keys: Vec<Bytes>,
    pub(super) staged: Staged,
}

impl Whole {
    pub(super) async fn load(reader: &Reader<'_>) -> Result<Whole, Fault> {
        let head = load_head(reader).await?;
        let keys = body::keys(reader, head.as_ref()).await?;
        Ok(Whole { keys, staged: load_staged(reader).await?, head })
    }

    /// Whether there is a list of committed blocks, too.
    pub(super) fn has_blocks(&self) -> bool {
        self.head.as_ref().is_some_and(|head| head.in_runs && head.kind.is_block())
    }
}

impl Command for PutBlob {
    type Records = Whole;
    type Outcome = BlobHead;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Whole, Fault> {
        Whole::load(reader).await
    }

    fn check(&self, old: &Whole, now: Timestamp) -> Result<(), Refusal> {
        if old.head.is_some() && !self.may_overwrite {
            return Err(ErrorCode::UnauthorizedBlobOverwrite.into());
        }
        self.expectation.judge(old.head.as_ref().map(BlobHead::current), now)?;
        let same_kind = |kind: BlobKind| kind.is_block() == self.kind.is_block();
        old.head.as_ref().map_or(Ok(()), |head| head.must_be(same_kind))
    }

    fn decide(&self, old: Whole, moment: Moment) -> Result<(Vec<Write>, BlobHead), Refusal> {
        self.check(&old, moment.now)?;
        let before = old.head.as_ref();
        let head = BlobHead {
            etag: ETag::next(before.map(|old| old.etag), moment.tick),
            last_modified: moment.now,
            created: before.map_or(moment.now, |old| old.created),
            content_bytes: self.content.bytes(),
            kind: self.kind,
            in_runs: !self.kind.is_block(),
            properties: self.properties.clone(),
            metadata: self.metadata.clone(),
            lease: after_write(before.and_then(|old| old.lease.clone()), moment.now),
        };
        let new = if head.content_bytes > 0 { vec![Run::single(self.content.stored())] } else { Vec::new() };
        let mut writes = vec![put_head(&head)];
        writes.extend(body::replace(&old.keys, new));
        if old.has_blocks() {
            writes.push(Write::Delete { family: container::BLOCKS, key: KEY });
        }
        writes.extend(old.staged.clear());
        Ok((writes, head))
    }
}
