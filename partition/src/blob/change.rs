//! What is changed of a blob without touching its content: metadata, properties, the seal of an append blob.

use contract::names::{BlobName, Metadata};
use contract::{ErrorCode, Refusal};
use engine::{Fault, GroupId, PartitionId, Write};
use env::Timestamp;

use super::append::position_refused;
use super::expiry;
use super::state::{Keeping, Whole, load_head, put_head};
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
    /// From when on it is not there.
    Expires(Expiry),
    /// No more appends, if the blob has this length.
    Seal { position: Option<u64> },
}

/// When a blob is to be gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expiry {
    Never,
    /// Milliseconds from now.
    AfterNow(u64),
    /// Milliseconds from when it was created.
    AfterCreation(u64),
    At(Timestamp),
}

impl Expiry {
    /// A moment that has passed already is refused.
    pub fn due(self, created: Timestamp, now: Timestamp) -> Result<Option<Timestamp>, Refusal> {
        const TICKS_PER_MILLISECOND: u64 = env::TICKS_PER_SECOND / 1000;
        let after = |from: Timestamp, milliseconds: u64| {
            let ticks = from.ticks().saturating_add(milliseconds.saturating_mul(TICKS_PER_MILLISECOND));
            Timestamp::from_ticks(ticks.min(Timestamp::MAX.ticks()))
        };
        let due = match self {
            Expiry::Never => return Ok(None),
            Expiry::AfterNow(milliseconds) => after(now, milliseconds),
            Expiry::AfterCreation(milliseconds) => after(created, milliseconds),
            Expiry::At(moment) => moment,
        };
        match due > now {
            true => Ok(Some(due)),
            false => Err(Refusal::from(ErrorCode::InvalidHeaderValue).with("HeaderName", "x-ms-expiry-time")),
        }
    }
}

pub struct ChangeBlob {
    partition: PartitionId,
    expectation: Expectation,
    change: Change,
    keeping: Keeping,
}

impl ChangeBlob {
    pub fn new(group: &GroupId, blob: &BlobName, expectation: Expectation, change: Change, keeping: Keeping) -> Self {
        ChangeBlob { partition: key::blob_partition(group, blob), expectation, change, keeping }
    }

    /// Of these changes only one ends a version.
    fn ends_version(&self, head: Option<&BlobHead>) -> bool {
        matches!(self.change, Change::Metadata(_)) && head.is_some_and(|head| head.is_versioned(self.keeping))
    }
}

impl Command for ChangeBlob {
    /// With its content, if that stays as a version.
    type Records = (Option<BlobHead>, Option<Whole>);
    type Outcome = BlobHead;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        let head = load_head(reader).await?;
        let whole = match self.ends_version(head.as_ref()) {
            true => Some(Whole::load(reader, self.keeping, true).await?),
            false => None,
        };
        Ok((head, whole))
    }

    fn check(&self, (head, _): &Self::Records, now: Timestamp) -> Result<(), Refusal> {
        self.expectation.judge(head.as_ref().map(BlobHead::current), now)?;
        match (&self.change, head) {
            (Change::Seal { position }, Some(head)) => {
                head.must_be(|kind| matches!(kind, BlobKind::Append { .. }))?;
                if let Some(position) = position.filter(|position| *position != head.content_bytes) {
                    return Err(position_refused(position, head));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn decide(&self, records: Self::Records, moment: Moment) -> Result<(Vec<Write>, BlobHead), Refusal> {
        self.check(&records, moment.now)?;
        let mut head = records.0.ok_or(ErrorCode::BlobNotFound)?;
        let mut writes = Vec::new();
        head.lease = after_write(head.lease.take(), moment.now);
        match (&self.change, head.kind) {
            // A seal is no part of the content: the ETag stays.
            (Change::Seal { .. }, BlobKind::Append { blocks, .. }) => {
                head.kind = BlobKind::Append { blocks, sealed: true };
                return Ok((vec![put_head(&head)], head));
            }
            (Change::Seal { .. }, _) => return Err(ErrorCode::InvalidBlobType.into()),
            (Change::Expires(expiry), _) => {
                let due = expiry.due(head.created, moment.now)?;
                writes.extend(expiry::index(head.expires, due));
                head.expires = due;
            }
            (Change::Metadata(metadata), _) => head.metadata = metadata.clone(),
            (Change::Properties(properties), _) => head.properties = properties.clone(),
        }
        head.copy = None;
        head.etag = ETag::next(Some(head.etag), moment.tick);
        head.last_modified = moment.now;
        if let Some(whole) = records.1 {
            writes.extend(whole.keep_overwritten(self.keeping, moment));
            head.version = self.keeping.versions.then_some(head.etag.0);
        }
        writes.push(put_head(&head));
        Ok((writes, head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_blobs_are_gone() {
        let second = |seconds| Timestamp::from_ticks(0).plus_seconds(seconds);
        for (expiry, expected) in [
            (Expiry::Never, Ok(None)),
            (Expiry::AfterNow(1500), Ok(Some(second(11).plus_ticks(env::TICKS_PER_SECOND / 2)))),
            (Expiry::AfterNow(0), Err(())),
            (Expiry::AfterNow(u64::MAX), Ok(Some(Timestamp::MAX))),
            (Expiry::AfterCreation(10_000), Ok(Some(second(14)))),
            (Expiry::AfterCreation(6_000), Err(())),
            (Expiry::At(second(11)), Ok(Some(second(11)))),
            (Expiry::At(second(10)), Err(())),
        ] {
            assert_eq!(expiry.due(second(4), second(10)).map_err(|_| ()), expected, "{expiry:?}");
        }
    }
}
