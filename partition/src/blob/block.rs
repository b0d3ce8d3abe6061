//! Put Blob.

use bytes::Bytes;
use contract::names::BlobName;
use contract::{ErrorCode, Refusal};
use engine::{Fault, GroupId, PartitionId, Write};
use env::Timestamp;

use super::body::Run;
use super::state::{Attributes, Keeping, Whole, put_made};
use crate::checks::Expectation;
use crate::content::Content;
use crate::events::{self, Announcement};
use crate::execute::{Command, Moment, Reader};
use crate::key;
use crate::record::{BlobHead, BlobKind};

/// Put Blob, of any type. Admitted before its content has come, decided when it has.
pub struct PutBlob {
    partition: PartitionId,
    expectation: Expectation,
    kind: BlobKind,
    pub attributes: Attributes,
    keeping: Keeping,
    /// False for a SAS that may create but not overwrite.
    may_overwrite: bool,
    /// The size of a page blob, which begins with nothing but zeros.
    pub page_bytes: u64,
    /// Empty until the body has arrived.
    pub content: Content,
    /// What is told of it, and to whom.
    pub announcement: Option<Announcement>,
}

impl PutBlob {
    pub fn new(
        group: &GroupId,
        blob: &BlobName,
        expectation: Expectation,
        kind: BlobKind,
        attributes: Attributes,
        keeping: Keeping,
        may_overwrite: bool,
    ) -> Self {
        let content = Content::Inline(Bytes::new());
        let partition = key::blob_partition(group, blob);
        let (page_bytes, announcement) = (0, None);
        PutBlob { partition, expectation, kind, attributes, keeping, may_overwrite, page_bytes, content, announcement }
    }
}

impl Command for PutBlob {
    type Records = Whole;
    type Outcome = BlobHead;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Whole, Fault> {
        Whole::load(reader, self.keeping, false).await
    }

    fn check(&self, old: &Whole, now: Timestamp) -> Result<(), Refusal> {
        let there = old.there(now);
        if there.is_some() && !self.may_overwrite {
            return Err(ErrorCode::UnauthorizedBlobOverwrite.into());
        }
        old.judge(&self.expectation, now)?;
        there.map_or(Ok(()), |head| head.must_be(|kind| kind.is_like(self.kind)))
    }

    fn decide(&self, old: Whole, moment: Moment) -> Result<(Vec<Write>, BlobHead), Refusal> {
        self.check(&old, moment.now)?;
        let (before, in_runs) = (old.head.as_ref(), !self.kind.is_block());
        let (bytes, keeping) = (self.content.bytes().max(self.page_bytes), self.keeping);
        let mut head = old.made(&self.attributes, self.kind, bytes, in_runs, keeping, moment);
        if let BlobKind::Page { made, .. } = &mut head.kind {
            *made = head.etag.0;
        }
        let new = if self.content.bytes() > 0 { vec![Run::single(self.content.stored())] } else { Vec::new() };
        let mut writes = put_made(before, &head);
        writes.extend(old.keep_overwritten(self.keeping, moment));
        writes.extend(old.replace(new, None));
        writes.extend(events::created(self.announcement.as_ref(), &head, moment));
        Ok((writes, head))
    }

    fn announcement(&self) -> Option<&Announcement> {
        self.announcement.as_ref()
    }
}
