//! Lease operations on a blob. ETag and Last-Modified stay.

use contract::names::BlobName;
use contract::{ErrorCode, Refusal};
use engine::{Fault, GroupId, PartitionId, Write};
use env::Timestamp;

use super::state::{load_head, put_head};
use crate::checks::Expectation;
use crate::execute::{Command, Moment, Reader};
use crate::key;
use crate::lease::{self, Acted, LeaseAction};
use crate::record::BlobHead;

pub struct LeaseBlob {
    partition: PartitionId,
    expectation: Expectation,
    action: LeaseAction,
}

impl LeaseBlob {
    pub fn new(group: &GroupId, blob: &BlobName, expectation: Expectation, action: LeaseAction) -> Self {
        LeaseBlob { partition: key::blob_partition(group, blob), expectation, action }
    }
}

impl Command for LeaseBlob {
    type Records = Option<BlobHead>;
    type Outcome = (BlobHead, Acted);

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        load_head(reader).await
    }

    fn check(&self, head: &Self::Records, now: Timestamp) -> Result<(), Refusal> {
        self.expectation.judge(head.as_ref().map(BlobHead::current), now)
    }

    fn decide(&self, head: Self::Records, moment: Moment) -> Result<(Vec<Write>, Self::Outcome), Refusal> {
        self.check(&head, moment.now)?;
        let mut head = head.ok_or(ErrorCode::BlobNotFound)?;
        let acted = lease::act(head.lease.as_ref(), &self.action, moment.now, moment.id)?;
        head.lease = acted.lease.clone();
        Ok((vec![put_head(&head)], (head, acted)))
    }
}
