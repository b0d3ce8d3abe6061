//! Delete File and Delete Directory: gone at once, never pending (promise F5).

use contract::{ErrorCode, Refusal};
use engine::{Fault, PartitionId, Write};
use env::Timestamp;

use super::body::{self, Met};
use super::pending;
use super::range::refuse_pending;
use super::settings::refuse_read_only;
use super::target::{Around, Target};
use super::tree::Found;
use super::versions::Edit;
use crate::execute::{Command, Moment, Reader};
use crate::key::{beginning_with, share};
use crate::record::FileId;

/// Deletes what the row's operation is about.
pub struct Delete {
    pub target: Target,
}

/// What there is to know of something before it goes.
pub struct Leaving {
    around: Around,
    runs: Option<Vec<Met>>,
    is_empty: bool,
}

/// Is there no name in the directory?
pub async fn is_empty(reader: &Reader<'_>, directory: FileId) -> Result<bool, Fault> {
    let names = beginning_with(&directory.0.to_be_bytes());
    Ok(reader.scan(share::ENTRY, &names, 1).await?.is_empty())
}

impl Command for Delete {
    type Records = Leaving;
    /// How many names what was deleted still has.
    type Outcome = u32;

    fn partition(&self) -> &PartitionId {
        self.target.partition()
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Leaving, Fault> {
        let around = self.target.load(reader).await?;
        let node = around.place.node();
        let is_empty = match node.filter(|node| node.is_directory()) {
            Some(node) => is_empty(reader, node.id).await?,
            None => true,
        };
        let runs = body::load_few(reader, node).await?;
        Ok(Leaving { around, runs, is_empty })
    }

    fn check(&self, leaving: &Leaving, now: Timestamp) -> Result<(), Refusal> {
        let found = self.target.judge(&leaving.around, now)?;
        if found.node.id == FileId::ROOT {
            return Err(ErrorCode::InvalidInput.into());
        }
        refuse_read_only(&found.node)?;
        refuse_pending(&found.node)?;
        match leaving.is_empty {
            true => Ok(()),
            false => Err(ErrorCode::DirectoryNotEmpty.into()),
        }
    }

    fn decide(&self, leaving: Leaving, moment: Moment) -> Result<(Vec<Write>, u32), Refusal> {
        self.check(&leaving, moment.now)?;
        let Leaving { around: Around { state, place, .. }, runs, .. } = leaving;
        let found = place.found().ok_or(ErrorCode::ResourceNotFound)?;
        let mut edit = Edit::new(&state);
        edit.unname(&found);
        let links = unlink(&mut edit, &found, runs);
        if links == 0 && found.node.bytes() > 0 {
            edit.put_state(&self.target.resized(&state, found.node.bytes(), 0)?);
        }
        Ok((edit.finish(), links))
    }
}

/// Takes one name's worth away from what was found: all of it if that was its last. Tells how many names are left.
pub fn unlink(edit: &mut Edit<'_>, found: &Found, runs: Option<Vec<Met>>) -> u32 {
    let mut node = found.node.clone();
    match &mut node.posix {
        Some(posix) if posix.links > 1 => {
            posix.links -= 1;
            let links = posix.links;
            edit.change(found, &node);
            links
        }
        _ => {
            edit.drop_content(&found.node, runs);
            pending::forget(edit, &found.node);
            edit.remove(found);
            0
        }
    }
}
