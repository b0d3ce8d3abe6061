//! The checks every operation on a blob, container or share has in common, in their order: the container is there, the blob is there, the lease
//! agrees, the conditions hold, those on tags last, and the blob's state lets the operation do what it does. What each operation asks of them stands in its row.

use contract::names::LeaseId;
use contract::operations::{Access, Conditions as Rule, Operation, Resource};
use contract::{ApiVersion, ErrorCode, Refusal};
use env::Timestamp;

use crate::condition::{Conditions, Current, judge_read, judge_write};
use crate::gate;
use crate::lease::{self, Lease};

/// What a request says of the resource it wants to find.
#[derive(Clone, Debug)]
pub struct Expectation {
    pub operation: &'static Operation,
    pub version: ApiVersion,
    pub conditions: Conditions,
    pub lease_id: Option<LeaseId>,
    /// What the operation replaces or deletes stays as a version.
    pub keeps_versions: bool,
}

impl Expectation {
    /// Does the request expect nothing in particular?
    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty() && self.lease_id.is_none()
    }

    /// Judges what is there. `None` is nothing: refused with `missing`, unless the operation may create.
    pub fn judge(&self, current: Option<Current<'_>>, now: Timestamp) -> Result<(), Refusal> {
        self.judge_beside(current, None, now)
    }

    /// Judges the lease alone, of what is no blob yet.
    pub fn judge_lease(&self, lease: Option<&Lease>, now: Timestamp) -> Result<(), Refusal> {
        lease::judge_use(lease, self.lease_id.as_ref(), self.operation.lease, lease::OF_BLOB, now)
    }

    /// The same where there may be staged blocks instead of a blob, and a lease on them.
    pub fn judge_beside(
        &self,
        current: Option<Current<'_>>,
        staged: Option<&Lease>,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let row = self.operation;
        let (missing, exists, codes) = match row.on {
            Resource::Blob => (ErrorCode::BlobNotFound, ErrorCode::BlobAlreadyExists, lease::OF_BLOB),
            // Quirk: what is wrong with a share's lease the service says in the words of containers.
            Resource::Share => (ErrorCode::ShareNotFound, ErrorCode::ShareAlreadyExists, lease::OF_CONTAINER),
            _ => (ErrorCode::ContainerNotFound, ErrorCode::ContainerAlreadyExists, lease::OF_CONTAINER),
        };
        let current = current.filter(|current| !current.held.is_expired(now));
        if current.is_none() && row.conditions != Rule::OnCreate {
            return Err(missing.into());
        }
        let lease = current.map_or(staged, |current| current.lease);
        lease::judge_use(lease, self.lease_id.as_ref(), row.lease, codes, now)?;
        match (row.conditions, current) {
            // Tables judge their own.
            (Rule::Never | Rule::OnTags | Rule::IfMatchRequired, _) => Ok(()),
            (Rule::OnTagsOrBlob, Some(current)) if row.access == Access::Read => {
                judge_read(&self.conditions, self.version, current)
            }
            (Rule::OnRead, Some(current)) => judge_read(&self.conditions, self.version, current),
            (Rule::OnRead, None) => Err(missing.into()),
            (Rule::OnWrite | Rule::OnTagsOrBlob, current) => judge_write(&self.conditions, current, None),
            (Rule::OnCreate, current) => judge_write(&self.conditions, current, Some(exists)),
        }?;
        // What is not there has no tags.
        let tags = current.map_or(&[][..], |current| current.tags);
        if self.conditions.if_tags.as_ref().is_some_and(|expression| !expression.holds(tags)) {
            let shown: Vec<String> = tags.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let there = if shown.is_empty() { "none".to_string() } else { shown.join(", ") };
            return Err(
                ErrorCode::ConditionNotMet.because(format!("x-ms-if-tags does not hold; the tags are: {there}."))
            );
        }
        current.map_or(Ok(()), |current| gate::judge(row.effect, current.held.at(now), self.keeps_versions))
    }
}
