//! Symbolic and hard links: of NFS shares alone.

use contract::limits::HARD_LINKS_MAX;
use contract::names::{FilePath, Metadata};
use contract::{ErrorCode, Refusal};
use engine::{Fault, PartitionId, Write};
use env::Timestamp;

use super::create::{Made, new_node};
use super::settings::{Settings, stamp};
use super::target::{Around, Target, judge_lease, must_be_there};
use super::tree::{self, Place, parent};
use super::versions::Edit;
use crate::execute::{Command, Moment, Reader};
use crate::record::share::Protocol;
use crate::record::{NodeKind, ShareHead};

/// Shares that are mounted by SMB have no links.
pub fn refuse_smb(share: &ShareHead) -> Result<(), Refusal> {
    match share.protocol {
        Protocol::Smb => Err(ErrorCode::UnsupportedShareProtocol.into()),
        Protocol::Nfs => Ok(()),
    }
}

fn must_be_free(target: &Target, around: &Around, now: Timestamp) -> Result<(), Refusal> {
    judge_lease(&target.expectation, None, now)?;
    match around.place {
        Place::NoParent => Err(ErrorCode::ParentNotFound.into()),
        Place::Taken(_) => Err(ErrorCode::ResourceAlreadyExists.into()),
        Place::Free { .. } => around.judge_opened(),
    }
}

pub struct CreateSymbolicLink {
    pub target: Target,
    pub settings: Settings,
    pub metadata: Metadata,
    /// What it points at, which nobody looks at.
    pub text: String,
}

impl Command for CreateSymbolicLink {
    type Records = Around;
    type Outcome = Made;

    fn partition(&self) -> &PartitionId {
        self.target.partition()
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Around, Fault> {
        self.target.load(reader).await
    }

    fn check(&self, around: &Around, now: Timestamp) -> Result<(), Refusal> {
        refuse_smb(self.target.share())?;
        must_be_free(&self.target, around, now)
    }

    fn decide(&self, around: Around, moment: Moment) -> Result<(Vec<Write>, Made), Refusal> {
        self.check(&around, moment.now)?;
        let (Place::Free { above }, Some(name)) = (around.place, self.target.path.names().last()) else {
            return Err(ErrorCode::ResourceAlreadyExists.into());
        };
        let kind = NodeKind::SymbolicLink { target: self.text.clone() };
        let mut node = new_node(self.target.share(), kind, moment);
        node.metadata = self.metadata.clone();
        let mut edit = Edit::new(&around.state);
        self.settings.apply_to_new(&mut node, moment.now, &Default::default(), &mut edit);
        edit.add(parent(&above), name, &node);
        Ok((edit.finish(), Made { node, above }))
    }
}

/// Another name for a file that is there.
pub struct CreateHardLink {
    pub target: Target,
    pub existing: FilePath,
}

impl Command for CreateHardLink {
    type Records = (Around, Place);
    type Outcome = Made;

    fn partition(&self) -> &PartitionId {
        self.target.partition()
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        let around = self.target.load(reader).await?;
        Ok((around, tree::find(reader, self.target.share(), &self.existing).await?))
    }

    fn check(&self, (around, existing): &Self::Records, now: Timestamp) -> Result<(), Refusal> {
        refuse_smb(self.target.share())?;
        must_be_free(&self.target, around, now)?;
        let node = &must_be_there(existing)?.node;
        if node.is_directory() {
            return Err(ErrorCode::ResourceTypeMismatch.into());
        }
        match node.posix {
            Some(posix) if posix.links >= HARD_LINKS_MAX => Err(ErrorCode::HardLinkCountExceeded.into()),
            _ => Ok(()),
        }
    }

    fn decide(&self, records: Self::Records, moment: Moment) -> Result<(Vec<Write>, Made), Refusal> {
        self.check(&records, moment.now)?;
        let (around, existing) = records;
        let (Place::Free { above }, Some(name)) = (around.place, self.target.path.names().last()) else {
            return Err(ErrorCode::ResourceAlreadyExists.into());
        };
        let existing = existing.found().ok_or(ErrorCode::ResourceNotFound)?;
        let mut node = existing.node.clone();
        if let Some(posix) = &mut node.posix {
            posix.links += 1;
        }
        stamp(&mut node, moment);
        node.changed = moment.now;
        let mut edit = Edit::new(&around.state);
        edit.change(&existing, &node);
        edit.name(parent(&above), name, &node, None);
        Ok((edit.finish(), Made { node, above }))
    }
}
