//! Files that go with their last handle.

use contract::names::FilePath;
use contract::{ErrorCode, Refusal};
use engine::{Fault, GroupId, PartitionId, Write};
use env::Timestamp;

use super::body::{self, Met};
use super::delete::{is_empty, unlink};
use super::opens::Closed;
use super::tree::{self, Place};
use super::versions::Edit;
use crate::execute::{Command, Failure, Moment, Reader, Shell};
use crate::key;
use crate::record::{FileId, ShareHead, ShareState};

/// Removes what was to go with a handle that is closed now. Until that is done it counts as pending.
pub async fn after_close(shell: &Shell, group: &GroupId, share: &ShareHead, closed: Closed) -> Result<(), Failure> {
    let Closed { handle, removal: Some(removal) } = closed else { return Ok(()) };
    let (path, above) = removal.place().await;
    let command = Remove {
        partition: key::tree_partition(group),
        share: share.clone(),
        // Handles hold names that were found.
        path: FilePath::parse(&path, true).unwrap_or_default(),
        above,
        file: handle.opening.file,
    };
    let done = shell.execute(&command).await;
    drop(removal);
    match done {
        // It has gone another way, or cannot go: nobody waits for an answer.
        Err(Failure::Refused(_) | Failure::Gone) => Ok(()),
        done => done,
    }
}

struct Remove {
    partition: PartitionId,
    share: ShareHead,
    path: FilePath,
    above: Vec<FileId>,
    file: FileId,
}

struct Leaving {
    state: ShareState,
    place: Place,
    runs: Option<Vec<Met>>,
    is_empty: bool,
}

impl Command for Remove {
    type Records = Leaving;
    type Outcome = ();

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Leaving, Fault> {
        let state = tree::state(reader).await?;
        // By the directory that it is in: what that is called does not matter, and may change.
        let place = match self.path.names().last() {
            Some(name) => tree::find_in(reader, &self.share, &self.above, name).await?,
            None => tree::find(reader, &self.share, &self.path).await?,
        };
        let runs = body::load_few(reader, place.node()).await?;
        Ok(Leaving { state, place, runs, is_empty: is_empty(reader, self.file).await? })
    }

    fn check(&self, leaving: &Leaving, _now: Timestamp) -> Result<(), Refusal> {
        match leaving.place.node() {
            Some(node) if node.id == self.file && leaving.is_empty => Ok(()),
            _ => Err(ErrorCode::ResourceNotFound.into()),
        }
    }

    fn decide(&self, leaving: Leaving, moment: Moment) -> Result<(Vec<Write>, ()), Refusal> {
        self.check(&leaving, moment.now)?;
        let Leaving { state, place, runs, .. } = leaving;
        let found = place.found().ok_or(ErrorCode::ResourceNotFound)?;
        let mut edit = Edit::new(&state);
        edit.unname(&found);
        if unlink(&mut edit, &found, runs) == 0 && found.node.bytes() > 0 {
            edit.put_state(&ShareState {
                used_bytes: state.used_bytes.saturating_sub(found.node.bytes()),
                ..state.clone()
            });
        }
        Ok((edit.finish(), ()))
    }
}
