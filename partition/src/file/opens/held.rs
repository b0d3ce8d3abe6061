//! What lasts as long as it is held: operations at work, and the duty to remove a file.

use std::fmt;

use engine::GroupId;

use super::OpenFiles;
use crate::record::FileId;

/// A REST operation that is at work on a file or directory.
#[must_use = "it lasts as long as this is held"]
pub struct ShortOpen {
    pub(super) opens: OpenFiles,
    pub(super) share: GroupId,
    pub(super) file: FileId,
    /// `None` if it keeps nobody off.
    pub(super) number: Option<u64>,
}

impl ShortOpen {
    /// A rename is committed: handles on the file follow it, and so does its removal. There are no handles below what is renamed.
    pub fn moved(&self, path: &str, above: &[FileId]) {
        self.opens.change(&self.share, |opens| {
            if let Some(leaves) = opens.files.get_mut(&self.file).and_then(|open| open.leaves.as_mut()) {
                *leaves = (path.to_string(), above.to_vec());
            }
            let handles: Vec<_> =
                opens.files.get(&self.file).into_iter().flat_map(|open| open.handles.keys()).copied().collect();
            for handle in handles {
                opens.reenter(handle, |opening| {
                    opening.path = path.to_string();
                    opening.above = above.to_vec();
                });
            }
        });
    }
}

impl Drop for ShortOpen {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        self.opens.change(&self.share, |opens| {
            if let Some(open) = opens.files.get_mut(&self.file) {
                open.short_opens.remove(&number);
                open.wake();
            }
            opens.forget_unused([self.file]);
        });
    }
}

/// A rename through a handle that is at work. What it renames and what it replaces is opened by nobody meanwhile.
#[must_use = "it lasts as long as this is held"]
pub struct Renaming {
    pub(super) source: ShortOpen,
    pub(super) _target: Option<ShortOpen>,
}

impl Renaming {
    /// It is committed: handles follow.
    pub fn moved(&self, path: &str, above: &[FileId]) {
        self.source.moved(path, above);
    }
}

/// A read or write of a handle that is at work.
#[must_use = "it lasts as long as this is held"]
pub struct InUse {
    pub(super) opens: OpenFiles,
    pub(super) share: GroupId,
    pub(super) file: FileId,
    pub(super) number: u64,
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.opens.change(&self.share, |opens| {
            if let Some(open) = opens.files.get_mut(&self.file) {
                open.uses.remove(&self.number);
                open.wake();
            }
            opens.forget_unused([self.file]);
        });
    }
}

/// The duty to remove a file whose last handle is closed. Until it is dropped the file counts as pending.
pub struct Removal {
    pub(super) opens: OpenFiles,
    pub(super) share: GroupId,
    pub(super) file: FileId,
}

impl Removal {
    /// Where the file is: its path, and the directories on the way. REST operations that were let in before are over first, for a rename
    /// may be one of them.
    pub async fn place(&self) -> (String, Vec<FileId>) {
        loop {
            let place = self.opens.change(&self.share, |opens| {
                let open = opens.files.entry(self.file).or_default();
                if open.short_opens.is_empty() { Ok(open.leaves.clone().unwrap_or_default()) } else { Err(open.wait()) }
            });
            match place {
                Ok(place) => return place,
                Err(wait) => wait.over().await,
            }
        }
    }
}

impl fmt::Debug for Removal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Removal of {:?}", self.file)
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        self.opens.change(&self.share, |opens| {
            if let Some(open) = opens.files.get_mut(&self.file) {
                (open.is_delete_pending, open.leaves) = (false, None);
                self.opens.note_pending_change(&self.share);
                open.wake();
            }
            opens.forget_unused([self.file]);
        });
    }
}
