//! Delete Blob.

use contract::names::BlobName;
use contract::{ErrorCode, Refusal};
use engine::{Fault, GroupId, PartitionId, Write};
use env::Timestamp;

use super::block::{KEY, load_head};
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
    type Records = Option<BlobHead>;
    type Outcome = ();

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        load_head(reader).await
    }

    fn check(&self, old: &Self::Records, now: Timestamp) -> Result<(), Refusal> {
        self.expectation.judge(old.as_ref().map(BlobHead::current), now)
    }

    fn decide(&self, old: Self::Records, moment: Moment) -> Result<(Vec<Write>, ()), Refusal> {
        self.check(&old, moment.now)?;
        let old = old.ok_or(ErrorCode::BlobNotFound)?;
        let mut writes = vec![Write::Delete { family: container::HEAD, key: KEY }];
        if old.content_bytes > 0 {
            writes.push(Write::Delete { family: container::BODY, key: KEY });
        }
        Ok((writes, ()))
    }
}
