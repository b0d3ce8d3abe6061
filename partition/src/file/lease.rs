//! Leases on files: without end, and gone at once when they are broken.

use contract::{ErrorCode, Refusal};
use engine::{Fault, PartitionId, Write};
use env::Timestamp;

use super::opens::RestAccess;
use super::range::refuse_pending;
use super::target::{Around, Target};
use super::versions::Edit;
use crate::execute::{Command, Moment, Reader};
use crate::lease::{self, Acted, LeaseAction};
use crate::record::Node;

/// A lease operation on a file. Its ETag stays.
pub struct LeaseFile {
    pub target: Target,
    pub action: LeaseAction,
}

impl Command for LeaseFile {
    type Records = Around;
    type Outcome = (Node, Acted);

    fn partition(&self) -> &PartitionId {
        self.target.partition()
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Around, Fault> {
        let access = match self.action {
            LeaseAction::Acquire { .. } => RestAccess::Lease,
            _ => RestAccess::Nothing,
        };
        self.target.load_as(reader, |_| access).await
    }

    fn check(&self, around: &Around, now: Timestamp) -> Result<(), Refusal> {
        refuse_pending(&self.target.judge(around, now)?.node)
    }

    fn decide(&self, around: Around, moment: Moment) -> Result<(Vec<Write>, Self::Outcome), Refusal> {
        self.check(&around, moment.now)?;
        let found = around.place.found().ok_or(ErrorCode::ResourceNotFound)?;
        let acted = lease::act(found.node.lease.as_ref(), &self.action, moment.now, moment.id)?;
        let node = Node { lease: acted.lease.clone(), ..found.node.clone() };
        let mut edit = Edit::new(&around.state);
        edit.change(&found, &node);
        Ok((edit.finish(), (node, acted)))
    }
}
