//! What every command on something in a share begins with: where it is, whether it is there, who has it open, and whether its lease
//! agrees.

use std::sync::{Arc, Mutex};

use contract::names::FilePath;
use contract::operations::{Access, Effect, Resource};
use contract::{ErrorCode, Refusal};
use engine::{Fault, GroupId, PartitionId};
use env::{Clock, Timestamp};

use super::opens::{Blocked, ByteRange, OpenFiles, RestAccess, ShortOpen};
use super::share;
use super::tree::{self, Found, Place, parent};
use crate::checks::Expectation;
use crate::execute::{Reader, Shell};
use crate::key;
use crate::lease::{self, Lease};
use crate::record::{FileId, Node, ShareHead, ShareState};
use crate::turns::lock;

const GIB: u64 = 1 << 30;

/// Something in a share that a command is about.
pub struct Target {
    partition: PartitionId,
    share: ShareHead,
    pub path: FilePath,
    pub expectation: Expectation,
    opens: OpenFiles,
    clock: Arc<dyn Clock>,
    /// From the decision until the command is over: nobody opens what it is at work on in a way that it would break.
    held: Mutex<Vec<ShortOpen>>,
}

/// The tree around it.
pub struct Around {
    pub state: ShareState,
    pub place: Place,
    /// Do those who have it open let the operation do what it does?
    opened: Result<(), Refusal>,
}

impl Target {
    pub fn new(shell: &Shell, share: &share::Found, path: FilePath, expectation: Expectation) -> Target {
        let (partition, share) = (key::tree_partition(share.group()), share.head.clone());
        let (opens, clock, held) = (shell.open_files.clone(), shell.clock.clone(), Mutex::default());
        Target { partition, share, path, expectation, opens, clock, held }
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
        self.load_as(reader, |node| access(self.expectation.operation.effect, node)).await
    }

    /// The same for an operation whose row does not tell what it does.
    pub async fn load_as(&self, reader: &Reader<'_>, as_what: impl Fn(&Node) -> RestAccess) -> Result<Around, Fault> {
        let state = tree::state(reader).await?;
        let place = tree::find(reader, &self.share, &self.path).await?;
        self.let_go();
        let opened = self.open(reader, &place, as_what);
        Ok(Around { state, place, opened })
    }

    /// Opens what is at a place for as long as the command lasts, or asks whether it could be, if only a look is taken in advance. The
    /// reader learns if SMB clients have to give up something first.
    pub fn open(
        &self,
        reader: &Reader<'_>,
        place: &Place,
        as_what: impl Fn(&Node) -> RestAccess,
    ) -> Result<(), Refusal> {
        let (file, access) = match place {
            Place::NoParent => return Ok(()),
            // What is to go cannot get anything new in it.
            Place::Free { above } => (parent(above), RestAccess::Nothing),
            Place::Taken(found) => (found.node.id, as_what(&found.node)),
        };
        match self.opens.short_open(self.group(), file, access, self.clock.now()) {
            Ok(opened) if reader.is_in_turn() => {
                lock(&self.held).push(opened);
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(Blocked::Refused(refusal)) => Err(refusal),
            Err(Blocked::Breaking(wait)) => {
                // Nobody waits for one who waits.
                self.let_go();
                reader.wait_for(wait);
                Err(ErrorCode::ClientCacheFlushDelay.into())
            }
        }
    }

    /// What an earlier attempt held.
    pub fn let_go(&self) {
        lock(&self.held).clear();
    }

    /// What it held first was moved here: handles on it follow.
    pub fn moved(&self, path: &str, above: &[FileId]) {
        if let Some(first) = lock(&self.held).first() {
            first.moved(path, above);
        }
    }

    /// What is there, if the operation may be done to it.
    pub fn judge<'a>(&self, around: &'a Around, now: Timestamp) -> Result<&'a Found, Refusal> {
        let found = must_be_there(&around.place)?;
        judge_kind(&self.expectation, &found.node)?;
        around.judge_opened()?;
        judge_lease(&self.expectation, found.node.lease.as_ref(), now)?;
        Ok(found)
    }

    /// The share's state after a file of `old` bytes has `new`; refused if that is more than the share may hold and more than it was.
    pub fn resized(&self, state: &ShareState, old: u64, new: u64) -> Result<ShareState, Refusal> {
        resized(state, self.share.quota_gib, old, new)
    }
}

/// The same where the share itself is not at hand.
pub fn resized(state: &ShareState, quota_gib: u32, old: u64, new: u64) -> Result<ShareState, Refusal> {
    let used_bytes = state.used_bytes.saturating_sub(old).saturating_add(new);
    if new > old && used_bytes > u64::from(quota_gib) * GIB {
        return Err(ErrorCode::ShareSizeLimitReached.into());
    }
    Ok(ShareState { used_bytes, ..state.clone() })
}

impl Around {
    pub fn judge_opened(&self) -> Result<(), Refusal> {
        self.opened.clone()
    }
}

/// What an operation takes of a file or directory, by what its row says it does.
pub fn access(effect: Effect, node: &Node) -> RestAccess {
    match (effect, node.is_directory()) {
        (Effect::Reads, false) => RestAccess::Read(ByteRange::ALL),
        (Effect::Marks, false) => RestAccess::WriteProperties,
        (Effect::Alters, false) => RestAccess::Write,
        (Effect::Replaces, false) => RestAccess::Replace,
        (Effect::Deletes, false) => RestAccess::Delete,
        (Effect::Deletes, true) => RestAccess::DeleteDirectory,
        (Effect::Renames, false) => RestAccess::Rename,
        (Effect::Renames, true) => RestAccess::RenameDirectory,
        (Effect::Nothing, false) => RestAccess::Look,
        (_, true) | (Effect::Leases | Effect::Snapshots | Effect::Stages, false) => RestAccess::Nothing,
    }
}

pub fn must_be_there(place: &Place) -> Result<&Found, Refusal> {
    match place {
        Place::NoParent => Err(ErrorCode::ParentNotFound.into()),
        Place::Free { .. } => Err(ErrorCode::ResourceNotFound.into()),
        Place::Taken(found) => Ok(found),
    }
}

/// Is it a file or a directory, as the operation wants it?
pub fn judge_kind(expectation: &Expectation, node: &Node) -> Result<(), Refusal> {
    let row = expectation.operation;
    match (node.is_directory() == (row.on == Resource::Directory), row.access) {
        (true, _) => Ok(()),
        (false, Access::Read) => Err(ErrorCode::ResourceNotFound.into()),
        (false, Access::Write) => Err(ErrorCode::ResourceTypeMismatch.into()),
    }
}

pub fn judge_lease(expectation: &Expectation, lease: Option<&Lease>, now: Timestamp) -> Result<(), Refusal> {
    let Expectation { operation, lease_id, .. } = expectation;
    lease::judge_use(lease, lease_id.as_ref(), operation.lease, lease::OF_FILE, now)
}
