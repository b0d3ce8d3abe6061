//! Marking for deletion by way of a handle (MS-FSA 2.1.5.15.3): in a turn, so that nothing comes into a directory between the look at it and the mark.

use std::mem;
use std::sync::Mutex;

use contract::Refusal;
use contract::attributes::FileAttributes;
use engine::{Fault, GroupId, PartitionId, Write};
use env::Timestamp;

use super::{Error, Refused, settled};
use crate::execute::{Command, Moment, Reader, Shell};
use crate::file::delete::is_empty;
use crate::file::opens::{HandleId, OpenFiles};
use crate::file::share;
use crate::file::tree;
use crate::key;
use crate::record::{FileId, Node};
use crate::turns::lock;

/// Makes a file or an empty directory go with its last handle.
pub async fn mark(
    shell: &Shell,
    share: &share::Found,
    handle: HandleId,
    file: FileId,
    ignores_read_only: bool,
) -> Result<(), Error> {
    let command = Mark {
        partition: key::tree_partition(share.group()),
        group: share.group().clone(),
        handle,
        file,
        ignores_read_only,
        opens: shell.open_files.clone(),
        is_marked: Mutex::default(),
    };
    let outcome = shell.execute(&command).await;
    if !matches!(outcome, Ok(Ok(()))) {
        command.take_back();
    }
    Ok(outcome??)
}

struct Mark {
    partition: PartitionId,
    group: GroupId,
    handle: HandleId,
    file: FileId,
    ignores_read_only: bool,
    opens: OpenFiles,
    /// By an earlier attempt, and by nobody else before.
    is_marked: Mutex<bool>,
}

struct Found {
    node: Option<Node>,
    is_empty: bool,
}

impl Mark {
    fn take_back(&self) {
        if mem::take(&mut *lock(&self.is_marked)) {
            // Unless it is closed already, and marked with that.
            let _ = self.opens.set_delete_pending(&self.group, self.handle, false);
        }
    }

    fn make(&self, found: Found) -> Result<(Vec<Write>, ()), Refused> {
        let Found { node, is_empty } = found;
        if self.file == FileId::ROOT {
            return Err(Refused::Denied);
        }
        let node = node.ok_or(Refused::NotFound)?;
        if node.attributes.has(FileAttributes::READ_ONLY) && !self.ignores_read_only {
            return Err(Refused::CannotDelete);
        }
        if node.is_directory() && !is_empty {
            return Err(Refused::NotEmpty);
        }
        let is_news = !self.opens.is_delete_pending(&self.group, self.file);
        self.opens.set_delete_pending(&self.group, self.handle, true)?;
        *lock(&self.is_marked) = is_news;
        Ok((Vec::new(), ()))
    }
}

impl Command for Mark {
    type Records = Found;
    type Outcome = Result<(), Refused>;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Found, Fault> {
        let node = tree::find_node(reader, self.file).await?.map(|(node, _)| node);
        let is_empty = match &node {
            Some(node) if node.is_directory() => is_empty(reader, node.id).await?,
            _ => true,
        };
        Ok(Found { node, is_empty })
    }

    fn check(&self, _: &Found, _: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, found: Found, _: Moment) -> Result<(Vec<Write>, Self::Outcome), Refusal> {
        self.take_back();
        Ok(settled(self.make(found)))
    }
}
