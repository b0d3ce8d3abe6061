//! Lease operations on a blob, also on one that is nothing but staged blocks. ETag and Last-Modified stay.

use contract::names::BlobName;
use contract::{ErrorCode, Refusal};
use engine::{Fault, GroupId, PartitionId, Write};
use env::Timestamp;

use super::staging::{load_staging, put_staging};
use super::state::{load_head, put_head};
use crate::checks::Expectation;
use crate::execute::{Command, Moment, Reader};
use crate::key;
use crate::lease::{self, Acted, LeaseAction};
use crate::record::BlobHead;
use crate::record::blocks::Staging;

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

/// What a lease may be on.
pub enum Leased {
    Blob(Box<BlobHead>),
    Staged(Staging),
    Nothing,
}

impl Command for LeaseBlob {
    type Records = Leased;
    /// What is only staged has no ETag.
    type Outcome = (Option<BlobHead>, Acted);

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Leased, Fault> {
        if let Some(head) = load_head(reader).await? {
            return Ok(Leased::Blob(Box::new(head)));
        }
        Ok(load_staging(reader).await?.map_or(Leased::Nothing, Leased::Staged))
    }

    fn check(&self, leased: &Leased, now: Timestamp) -> Result<(), Refusal> {
        match leased {
            Leased::Blob(head) => self.expectation.judge(Some(head.current()), now),
            // A condition asks for a blob that is there.
            Leased::Staged(staging) if staging.is_live(now) && self.expectation.conditions.is_empty() => Ok(()),
            Leased::Staged(_) | Leased::Nothing => Err(ErrorCode::BlobNotFound.into()),
        }
    }

    fn decide(&self, leased: Leased, moment: Moment) -> Result<(Vec<Write>, Self::Outcome), Refusal> {
        self.check(&leased, moment.now)?;
        match leased {
            Leased::Blob(mut head) => {
                let acted = lease::act(head.lease.as_ref(), &self.action, moment.now, moment.id)?;
                head.lease = acted.lease.clone();
                Ok((vec![put_head(&head)], (Some(*head), acted)))
            }
            Leased::Staged(mut staging) => {
                let acted = lease::act(staging.lease.as_ref(), &self.action, moment.now, moment.id)?;
                staging.lease = acted.lease.clone();
                Ok((vec![put_staging(&staging)], (None, acted)))
            }
            Leased::Nothing => Err(ErrorCode::BlobNotFound.into()),
        }
    }
}
