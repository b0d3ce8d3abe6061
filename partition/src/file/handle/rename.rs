//! A rename by way of a handle (MS-FSA 2.1.5.15.12): the file, or the directory with everything in it.

use std::sync::{Arc, Mutex};

use contract::Refusal;
use contract::attributes::FileAttributes;
use contract::names::FilePath;
use engine::{Fault, GroupId, PartitionId, Write};
use env::Timestamp;

use super::{Error, Refused, settled};
use crate::execute::{Command, Moment, Reader, Shell};
use crate::file::body::{self, Met};
use crate::file::create::Made;
use crate::file::opens::{Handle, OpenFiles, Renaming};
use crate::file::range::refuse_pending;
use crate::file::rename::{Moved, relocate};
use crate::file::settings::stamp;
use crate::file::share;
use crate::file::tree::{self, Place};
use crate::file::versions::Edit;
use crate::key;
use crate::lease::LeaseState;
use crate::record::{FileId, Node, ShareHead, ShareState};
use crate::turns::lock;

/// Renames what a handle is on. Handles follow. Tells what it is called now, with what its directories are called.
pub async fn rename(
    shell: &Shell,
    share: &share::Found,
    handle: Arc<Handle>,
    to: FilePath,
    replaces: bool,
) -> Result<(Node, String), Error> {
    let command = RenameFile {
        partition: key::tree_partition(share.group()),
        group: share.group().clone(),
        head: share.head.clone(),
        from: FilePath::parse(&handle.opening.path, true).map_err(|_| Refused::Invalid)?,
        handle,
        to,
        replaces,
        opens: shell.open_files.clone(),
        renaming: Mutex::default(),
    };
    let Moved { made: Made { node, above }, path } = shell.execute(&command).await??;
    if let Some(renaming) = lock(&command.renaming).take() {
        renaming.moved(&path, &above);
    }
    Ok((node, path))
}

struct RenameFile {
    partition: PartitionId,
    group: GroupId,
    head: ShareHead,
    handle: Arc<Handle>,
    from: FilePath,
    to: FilePath,
    replaces: bool,
    opens: OpenFiles,
    /// From the decision until it is committed nobody opens what is on its way.
    renaming: Mutex<Option<Renaming>>,
}

struct Both {
    state: ShareState,
    source: Place,
    destination: Place,
    /// As it will be stored.
    path: String,
    /// Of what is replaced.
    runs: Option<Vec<Met>>,
}

impl RenameFile {
    fn judge_destination(&self, source: &Node, destination: &Place, now: Timestamp) -> Result<Option<FileId>, Refused> {
        let found = match destination {
            Place::NoParent => return Err(Refused::NoPath),
            Place::Free { above } if above.contains(&source.id) => return Err(Refused::Invalid),
            Place::Free { .. } => return Ok(None),
            Place::Taken(found) => found,
        };
        if found.node.id == source.id {
            return Ok(None);
        }
        if !self.replaces {
            return Err(Refused::AlreadyThere);
        }
        if LeaseState::of(found.node.lease.as_ref(), now).is_locked() || refuse_pending(&found.node).is_err() {
            return Err(Refused::HeldByRest);
        }
        let is_read_only = found.node.attributes.has(FileAttributes::READ_ONLY);
        if source.is_directory() || found.node.is_directory() || is_read_only {
            return Err(Refused::Denied);
        }
        Ok(Some(found.node.id))
    }

    fn make(&self, both: Both, moment: Moment) -> Result<(Vec<Write>, Moved), Refused> {
        let Both { state, source, destination, path, runs } = both;
        let source =
            source.found().filter(|found| found.node.id == self.handle.opening.file).ok_or(Refused::NotFound)?;
        if source.node.id == FileId::ROOT {
            return Err(Refused::Denied);
        }
        refuse_pending(&source.node).map_err(|_| Refused::HeldByRest)?;
        let replaced = self.judge_destination(&source.node, &destination, moment.now)?;
        let parent = match &destination {
            Place::Taken(found) => found.parent,
            other => other.new_in().ok_or(Refused::NoPath)?,
        };
        let renaming = self.opens.begin_rename(&self.group, self.handle.id, parent, replaced, moment.now)?;
        let mut node = source.node.clone();
        node.changed = moment.now;
        stamp(&mut node, moment);
        let name = self.to.names().last().ok_or(Refused::Invalid)?;
        let mut edit = Edit::new(&state);
        let above =
            relocate(&mut edit, &state, &source, destination, name, &mut node, runs).map_err(|_| Refused::NoPath)?;
        *lock(&self.renaming) = Some(renaming);
        Ok((edit.finish(), Moved { made: Made { node, above }, path }))
    }
}

impl Command for RenameFile {
    type Records = Both;
    type Outcome = Result<Moved, Refused>;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Both, Fault> {
        let source = tree::find(reader, &self.head, &self.from).await?;
        let (destination, spelled) = tree::find_spelled(reader, &self.head, &self.to).await?;
        let path = spelled.of(&destination, self.to.names().last());
        let runs = body::load_few(reader, destination.node()).await?;
        Ok(Both { state: tree::state(reader).await?, source, destination, path, runs })
    }

    fn check(&self, _: &Both, _: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, both: Both, moment: Moment) -> Result<(Vec<Write>, Self::Outcome), Refusal> {
        lock(&self.renaming).take();
        Ok(settled(self.make(both, moment)))
    }
}
