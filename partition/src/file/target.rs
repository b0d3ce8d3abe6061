//! What every command on something in a share begins with: where it is, whether it is there, and whether its lease agrees.

use contract::names::FilePath;
use contract::operations::{Access, Resource};
use contract::{ErrorCode, Refusal};
use engine::{Fault, GroupId, PartitionId};
use env::Timestamp;

use super::share;
use super::tree::{self, Found, Place};
use crate::checks::Expectation;
use crate::execute::Reader;
use crate::key;
use crate::lease::{self, Lease};
use crate::record::{Node, ShareHead, ShareState};

const GIB: u64 = 1 << 30;

/// Something in a share that a command is about.
#[derive(Clone, Debug)]
pub struct Target {
    partition: PartitionId,
    share: ShareHead,
    pub path: FilePath,
    pub expectation: Expectation,
}

/// The tree around it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Around {
    pub state: ShareState,
    pub place: Place,
}

impl Target {
    pub fn new(share: &share::Found, path: FilePath, expectation: Expectation) -> Target {
        let partition = key::tree_partition(share.group());
        Target { partition, share: share.head.clone(), path, expectation }
    }

    pub fn partition(&self) -> &PartitionId {
        &self.partition
    }

    pub fn group(&self) -> &GroupId {
        &self.partition.group
    }

    pub fn share(&self) -> &ShareHead {
        &self.share
    }

    pub async fn load(&self, reader: &Reader<'_>) -> Result<Around, Fault> {
        let state = tree::state(reader).await?;
        Ok(Around { state, place: tree::find(reader, &self.share, &self.path).await? })
    }

    /// What is there, if it is what the operation is about and its lease lets it.
    pub fn judge<'a>(&self, place: &'a Place, now: Timestamp) -> Result<&'a Found, Refusal> {
        let found = must_be_there(place)?;
        self.judge_kind(&found.node)?;
        self.judge_lease(found.node.lease.as_ref(), now)?;
        Ok(found)
    }

    fn judge_kind(&self, node: &Node) -> Result<(), Refusal> {
        let row = self.expectation.operation;
        let is_right = match row.on {
            Resource::Directory => node.is_directory(),
            _ => !node.is_directory(),
        };
        match (is_right, row.access) {
            (true, _) => Ok(()),
            (false, Access::Read) => Err(ErrorCode::ResourceNotFound.into()),
            (false, Access::Write) => Err(ErrorCode::ResourceTypeMismatch.into()),
        }
    }

    pub fn judge_lease(&self, lease: Option<&Lease>, now: Timestamp) -> Result<(), Refusal> {
        let Expectation { operation, lease_id, .. } = &self.expectation;
        lease::judge_use(lease, lease_id.as_ref(), operation.lease, lease::OF_FILE, now)
    }

    /// The share's state after a file of `old` bytes has `new`; refused if that is more than the share may hold and more than it was.
    pub fn resized(&self, state: &ShareState, old: u64, new: u64) -> Result<ShareState, Refusal> {
        let used_bytes = state.used_bytes.saturating_sub(old).saturating_add(new);
        if new > old && used_bytes > u64::from(self.share.quota_gib) * GIB {
            return Err(ErrorCode::ShareSizeLimitReached.into());
        }
        Ok(ShareState { used_bytes, ..state.clone() })
    }
}

pub fn must_be_there(place: &Place) -> Result<&Found, Refusal> {
    match place {
        Place::NoParent => Err(ErrorCode::ParentNotFound.into()),
        Place::Free { .. } => Err(ErrorCode::ResourceNotFound.into()),
        Place::Taken(found) => Ok(found),
    }
}
