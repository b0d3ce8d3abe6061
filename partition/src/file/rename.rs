//! Rename File and Rename Directory: one commit, whatever is below.

use contract::attributes::FileAttributes;
use contract::names::{FileName, FilePath, LeaseId, Metadata};
use contract::operations::{Effect, LeaseCheck, Resource};
use contract::{ErrorCode, Refusal};
use engine::{Fault, PartitionId, Write};
use env::Timestamp;

use super::body::{self, Met};
use super::create::Made;
use super::delete::{is_empty, unlink};
use super::range::refuse_pending;
use super::settings::{Known, Settings, stamp};
use super::target::{Target, access, must_be_there};
use super::tree::{self, Found, Place};
use super::versions::Edit;
use crate::execute::{Command, Moment, Reader};
use crate::lease;
use crate::record::{FileId, Node, NodeKind, ShareState};

pub struct Rename {
    /// Where to. Its lease is the destination's.
    pub target: Target,
    pub source: FilePath,
    pub source_lease: Option<LeaseId>,
    pub destination_lease: Option<LeaseId>,
    pub replaces: bool,
    /// May what is replaced be read-only?
    pub ignores_read_only: bool,
    pub settings: Settings,
    pub metadata: Option<Metadata>,
    pub content_type: Option<String>,
}

/// What was renamed, and its path as it is stored now.
pub struct Moved {
    pub made: Made,
    pub path: String,
}

pub struct Both {
    state: ShareState,
    source: Place,
    destination: Place,
    path: String,
    known: Known,
    opened: Result<(), Refusal>,
    /// Of what is replaced.
    runs: Option<Vec<Met>>,
    is_empty: bool,
}

impl Rename {
    fn judge_source<'a>(&self, source: &'a Place, now: Timestamp) -> Result<&'a Found, Refusal> {
        let found = must_be_there(source)?;
        let is_directory = self.target.expectation.operation.on == Resource::Directory;
        if found.node.is_directory() != is_directory {
            return Err(ErrorCode::ResourceTypeMismatch.into());
        }
        if found.node.id == FileId::ROOT {
            return Err(ErrorCode::InvalidInput.into());
        }
        refuse_pending(&found.node)?;
        let (lease, given) = (found.node.lease.as_ref(), self.source_lease.as_ref());
        lease::judge_use(lease, given, LeaseCheck::IfLeased, lease::OF_FILE, now)?;
        Ok(found)
    }

    fn judge_destination(&self, both: &Both, source: &Found, now: Timestamp) -> Result<(), Refusal> {
        let found = match &both.destination {
            Place::NoParent => return Err(ErrorCode::ParentNotFound.into()),
            Place::Free { above } => return refuse_below_itself(above, source),
            Place::Taken(found) => found,
        };
        // The same file under another spelling of its name.
        if found.node.id == source.node.id {
            return Ok(());
        }
        refuse_below_itself(&found.above, source)?;
        if !self.replaces || found.node.id == FileId::ROOT {
            return Err(ErrorCode::ResourceAlreadyExists.into());
        }
        if found.node.is_directory() != source.node.is_directory() {
            return Err(ErrorCode::ResourceTypeMismatch.into());
        }
        if !both.is_empty {
            return Err(ErrorCode::DirectoryNotEmpty.into());
        }
        if found.node.attributes.has(FileAttributes::READ_ONLY) && !self.ignores_read_only {
            return Err(ErrorCode::ReadOnlyAttribute.into());
        }
        refuse_pending(&found.node)?;
        let (lease, given) = (found.node.lease.as_ref(), self.destination_lease.as_ref());
        lease::judge_use(lease, given, LeaseCheck::IfLeased, lease::OF_FILE, now)
    }
}

/// A directory below itself would be below nothing.
fn refuse_below_itself(above: &[FileId], source: &Found) -> Result<(), Refusal> {
    match above.contains(&source.node.id) {
        true => Err(ErrorCode::InvalidInput.into()),
        false => Ok(()),
    }
}

impl Command for Rename {
    type Records = Both;
    type Outcome = Moved;

    fn partition(&self) -> &PartitionId {
        self.target.partition()
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Both, Fault> {
        let share = self.target.share();
        let source = tree::find(reader, share, &self.source).await?;
        let (destination, spelled) = tree::find_spelled(reader, share, &self.target.path).await?;
        let path = spelled.of(&destination, self.target.path.names().last());
        let runs = body::load_few(reader, destination.node()).await?;
        let is_empty = match destination.node().filter(|node| node.is_directory()) {
            Some(node) => is_empty(reader, node.id).await?,
            None => true,
        };
        self.target.let_go();
        let opened = self.target.open(reader, &source, |node| access(Effect::Renames, node));
        let is_itself = source.node().map(|node| node.id) == destination.node().map(|node| node.id);
        let opened = match is_itself {
            true => opened,
            false => opened.and_then(|()| self.target.open(reader, &destination, |node| access(Effect::Deletes, node))),
        };
        let (state, known) = (tree::state(reader).await?, self.settings.load(reader, None).await?);
        Ok(Both { state, source, destination, path, known, opened, runs, is_empty })
    }

    fn check(&self, both: &Both, now: Timestamp) -> Result<(), Refusal> {
        let source = self.judge_source(&both.source, now)?;
        self.judge_destination(both, source, now)?;
        both.opened.clone()?;
        self.settings.check(&both.known)
    }

    fn decide(&self, both: Both, moment: Moment) -> Result<(Vec<Write>, Moved), Refusal> {
        self.check(&both, moment.now)?;
        let Both { state, source, destination, path, runs, .. } = both;
        let source = source.found().ok_or(ErrorCode::ResourceNotFound)?;
        let name = self.target.path.names().last().ok_or(ErrorCode::InvalidInput)?;
        let mut node = source.node.clone();
        if let Some(metadata) = &self.metadata {
            node.metadata = metadata.clone();
        }
        if self.content_type.is_some() && matches!(node.kind, NodeKind::File { .. }) {
            node.properties.content_type.clone_from(&self.content_type);
        }
        let mut edit = Edit::new(&state);
        self.settings.apply_to_old(&mut node, moment.now, &mut edit);
        stamp(&mut node, moment);
        let above = relocate(&mut edit, &state, &source, destination, name, &mut node, runs)?;
        Ok((edit.finish(), Moved { made: Made { node, above }, path }))
    }
}

/// Takes a name from something and gives it another, in the place of what has it. Tells which directories it is below now.
pub fn relocate(
    edit: &mut Edit<'_>,
    state: &ShareState,
    source: &Found,
    destination: Place,
    name: &FileName,
    node: &mut Node,
    replaced_runs: Option<Vec<Met>>,
) -> Result<Vec<FileId>, Refusal> {
    edit.unname(source);
    let above = match destination {
        Place::NoParent => return Err(ErrorCode::ParentNotFound.into()),
        Place::Free { above } => {
            edit.name(tree::parent(&above), name, node, None);
            above
        }
        Place::Taken(found) if found.node.id == node.id => {
            // Two names of one file become one.
            if let Some(posix) = node.posix.as_mut().filter(|_| !found.is_same_name(source)) {
                posix.links -= 1;
            }
            edit.rename(&found, name, node);
            found.above
        }
        Place::Taken(found) => {
            let links = unlink(edit, &found, replaced_runs);
            edit.rename(&found, name, node);
            if links == 0 && found.node.bytes() > 0 {
                let used_bytes = state.used_bytes.saturating_sub(found.node.bytes());
                edit.put_state(&ShareState { used_bytes, ..state.clone() });
            }
            found.above
        }
    };
    edit.change(source, node);
    Ok(above)
}
