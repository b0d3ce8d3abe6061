//! What lies beside a state of a blob and can be set without making another: tags, tier, immutability. The ETag stays, and earlier
//! versions have them too.

use contract::names::BlobName;
use contract::{ErrorCode, Refusal};
use engine::{Fault, GroupId, PartitionId, Write};
use env::Timestamp;

use super::find;
use super::state::{PastId, State, Which, load_state, put_head, put_past};
use crate::checks::Expectation;
use crate::execute::{Command, Moment, Reader};
use crate::immutability;
use crate::key;
use crate::lease::after_write;
use crate::record::BlobHead;
use crate::record::blob::Immutability;
use crate::record::past::PastBlob;
use crate::tags::Tags;
use crate::tier::{self, TierChange};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Attribute {
    Tags(Tags),
    Tier(TierChange),
    /// `None` takes the policy away.
    Immutability(Option<Immutability>),
    LegalHold(bool),
}

pub struct SetAttribute {
    partition: PartitionId,
    which: Which,
    expectation: Expectation,
    attribute: Attribute,
}

impl SetAttribute {
    pub fn new(group: &GroupId, blob: &BlobName, which: Which, expectation: Expectation, attribute: Attribute) -> Self {
        SetAttribute { partition: key::blob_partition(group, blob), which, expectation, attribute }
    }
}

impl Command for SetAttribute {
    type Records = Option<State>;
    type Outcome = BlobHead;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        load_state(reader, self.which).await
    }

    fn check(&self, state: &Self::Records, now: Timestamp) -> Result<(), Refusal> {
        self.expectation.judge(state.as_ref().map(|state| state.head.current()), now)
    }

    fn decide(&self, state: Self::Records, moment: Moment) -> Result<(Vec<Write>, BlobHead), Refusal> {
        self.check(&state, moment.now)?;
        let State { mut head, is_current, .. } = state.ok_or(ErrorCode::BlobNotFound)?;
        let mut writes = Vec::new();
        match &self.attribute {
            Attribute::Tags(tags) => {
                head.lease = after_write(head.lease.take(), moment.now);
                writes.extend(find::index(&head.tags, tags).filter(|_| is_current));
                head.tags = tags.clone();
            }
            Attribute::Tier(change) => head.tier = Some(tier::set(head.tier, head.kind, *change, moment.now)?),
            Attribute::Immutability(Some(asked)) => {
                head.immutability = Some(immutability::set(head.immutability, *asked)?);
            }
            Attribute::Immutability(None) => {
                immutability::remove(head.immutability)?;
                head.immutability = None;
            }
            Attribute::LegalHold(hold) => head.legal_hold = *hold,
        }
        writes.push(match self.which {
            Which::Snapshot(ticks) => put(PastId { ticks, is_version: false }, &head),
            Which::Version(ticks) if !is_current => put(PastId { ticks, is_version: true }, &head),
            Which::Current | Which::Version(_) => put_head(&head),
        });
        Ok((writes, *head))
    }
}

/// A past state that is there: what is deleted was not loaded.
fn put(id: PastId, head: &BlobHead) -> Write {
    put_past(id, &PastBlob { head: head.clone(), was_base: false, deleted: None })
}
