//! A directory in which fjall can open the records of another without touching that one.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use env::{Ids, SystemIds};

use crate::recover::{FJALL_DIRECTORY, OpenError, end_of_content};

/// Tables are written once: linked. The rest is small: copied.
const TABLES_DIRECTORY: &str = "tables";
const JOURNAL_EXTENSION: &str = "jnl";

/// Removed when it is dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Made below `parent`.
    pub fn new(dir: &Path, parent: &Path) -> Result<Scratch, OpenError> {
        let scratch = Scratch(parent.join(format!("lazuli-check-{}", SystemIds::new().next())));
        let failed = |source| OpenError::Io { doing: format!("copying journals to {}", scratch.0.display()), source };
        fs::create_dir_all(parent).and_then(|()| fs::create_dir(&scratch.0)).map_err(failed)?;
        let from = dir.canonicalize().map_err(failed)?.join(FJALL_DIRECTORY);
        mirror(&from, &scratch.0.join(FJALL_DIRECTORY)).map_err(failed)?;
        Ok(scratch)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Words about what is in here, as if they were about the directory it stands for.
    pub fn as_in(&self, dir: &Path, words: &str) -> String {
        words.replace(&self.0.display().to_string(), &dir.display().to_string())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0); // temporary files go sooner or later
    }
}

fn mirror(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    let are_tables = from.file_name().is_some_and(|name| name == TABLES_DIRECTORY);
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            mirror(&path, &target)?;
        } else if are_tables {
            symlink(&path, &target)?;
        } else if path.extension().is_some_and(|of| of == JOURNAL_EXTENSION) {
            copy_journal(&path, &target)?;
        } else {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

/// Without writing the zeros that it was made with.
fn copy_journal(from: &Path, to: &Path) -> io::Result<()> {
    let (from, mut to) = (File::open(from)?, File::create(to)?);
    let content = end_of_content(&from)?;
    io::copy(&mut (&from).take(content), &mut to)?;
    to.set_len(from.metadata()?.len())
}
