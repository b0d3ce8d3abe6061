//! Delete Blob.

use contract::Refusal;
use contract::names::BlobName;
use engine::{Fault, GroupId, PartitionId, Write};
use env::Timestamp;

use super::block::{KEY, Whole};
use super::body;
use crate::checks::Expectation;
use crate::execute::{Command, Moment, Reader};
use crate::key::{self, container};
use crate::record::BlobHead;

pub struct DeleteBlob {
    partition: PartitionId,
    expectation: Expectation,
}

impl DeleteBlob {
    pub fn new(group: &GroupId, blob: &BlobName, expectation: Expectation) -> Self {
        DeleteBlob { partition: key::blob_partition(group, blob), expectation }
    }
}

impl Command for DeleteBlob {
    type Records = Whole;
    type Outcome = ();

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Whole, Fault> {
        Whole::load(reader).await
    }

    fn check(&self, old: &Whole, now: Timestamp) -> Result<(), Refusal> {
        // What was only staged can be deleted, too.
        if old.head.is_none() && old.staged.is_live(now) && self.expectation.is_empty() {
            return Ok(());
        }
        self.expectation.judge(old.head.as_ref().map(BlobHead::current), now)
    }

    fn decide(&self, old: Whole, moment: Moment) -> Result<(Vec<Write>, ()), Refusal> {
        self.check(&old, moment.now)?;
        let mut writes = body::replace(&old.keys, Vec::new());
        writes.extend(old.head.as_ref().map(|_| Write::Delete { family: container::HEAD, key: KEY }));
        if old.has_blocks() {
            writes.push(Write::Delete { family: container::BLOCKS, key: KEY });
        }
        writes.extend(old.staged.clear());
        Ok((writes, ()))
    }
}
