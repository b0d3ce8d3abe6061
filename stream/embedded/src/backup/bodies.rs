//! Bodies written to where they are copied: extents at their addresses, one segment after another.

use std::io;
use std::path::Path;

use bytes::Bytes;

use super::BackupError;
use crate::disk::{Directory, Disk, DiskFile};
use crate::extents;
use crate::key::Address;
use crate::segments::file_name;

/// Extents come in order, so one file is open at a time, and is synced when the next begins.
pub struct Bodies {
    disk: Directory,
    open: Option<(u64, Box<dyn DiskFile>)>,
}

impl Bodies {
    /// Makes the directory where it is missing.
    pub fn open(path: &Path) -> Result<Bodies, BackupError> {
        let disk = Directory::open(path);
        let disk = disk.map_err(|source| BackupError::io(format!("making {}", path.display()), source))?;
        Ok(Bodies { disk, open: None })
    }

    /// Writes an extent with its checksums, and gives these.
    pub fn write(&mut self, address: Address, parts: Vec<Bytes>) -> Result<Bytes, BackupError> {
        if self.open.as_ref().is_none_or(|(open, _)| *open != address.segment) {
            self.sync_open()?;
        }
        let file = match self.open.take() {
            Some((_, file)) => file,
            None => self.file(address.segment)?,
        };
        let sums = extents::write_copy(file.as_ref(), address, parts);
        self.open = Some((address.segment, file));
        sums.map_err(|source| self.failed("writing", address.segment, source))
    }

    fn file(&self, number: u64) -> Result<Box<dyn DiskFile>, BackupError> {
        let name = file_name(number);
        let file = match self.disk.open(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.disk.create(&name),
            other => other,
        };
        file.map_err(|source| self.failed("writing", number, source))
    }

    fn sync_open(&mut self) -> Result<(), BackupError> {
        let Some((number, file)) = self.open.take() else { return Ok(()) };
        file.sync().map_err(|source| self.failed("syncing", number, source))
    }

    /// All that was written is on the disk, with the names of the files.
    pub fn finish(mut self) -> Result<(), BackupError> {
        self.sync_open()?;
        self.disk.sync().map_err(|source| BackupError::io("syncing the names of segments", source))
    }

    fn failed(&self, doing: &str, number: u64, source: io::Error) -> BackupError {
        BackupError::io(format!("{doing} {}", self.disk.path(&file_name(number))), source)
    }
}
