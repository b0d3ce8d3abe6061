//! Makes a data directory of a backup.
//!
//! While it is made it has the file `RESTORING` and no `FORMAT`, so nothing opens it. Every checksum is verified on the way, and
//! `FORMAT` is written when all of them were right and all is on the disk. What a failed restore made is removed.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use engine::ExtentSlice;
use fjall::PersistMode;
use xxhash_rust::xxh3::Xxh3;

use super::block::{self, Block, Part, Rows};
use super::bodies::Bodies;
use super::copy::{MANIFEST_FILE, read_manifest};
use super::manifest::{Manifest, SegmentSums};
use super::{BackupError, Distinct, keyspace};
use crate::disk::{self, Directory};
use crate::lineage::IDENTITY_KEY;
use crate::note::{Note, Noted};
use crate::recover::{
    self, FJALL_DIRECTORY, FORMAT, FORMAT_FILE, LOCK_FILE, NOTE_FILE, Opening, RESTORING_FILE, SEGMENTS_DIRECTORY,
    sync_directory, write_durably,
};
use crate::segments::Segments;
use crate::store::Store;
use crate::{Options, extents, fault};

/// How much was brought back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Restored {
    /// Everything up to this commit.
    pub commit: u64,
    pub records: u64,
    pub extents: u64,
    pub bytes: u64,
}

/// Brings the backup in `from` back into `dir`, which is empty or not there.
pub fn restore(from: &Path, dir: &Path, progress: &mut dyn FnMut(&Restored)) -> Result<Restored, BackupError> {
    let manifest = read_manifest(from).map_err(|error| match error {
        BackupError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            let words = format!(
                "{} has no {MANIFEST_FILE}: it is no backup, or one that did not come to its end",
                from.display()
            );
            BackupError::Refused { words }
        }
        other => other,
    })?;
    refuse_filled(dir)?;
    let failed = |source| BackupError::io(format!("making {}", dir.display()), source);
    disk::make_private(dir).map_err(failed)?;
    let _lock = recover::lock(dir).map_err(|error| BackupError::Refused { words: error.to_string() })?;
    write_durably(&dir.join(RESTORING_FILE), b"").and_then(|()| sync_directory(dir)).map_err(failed)?;
    let restored = fill(from, dir, &manifest, progress);
    if restored.is_err() {
        empty(dir);
    }
    restored
}

fn refuse_filled(dir: &Path) -> Result<(), BackupError> {
    let names = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other,
    };
    let failed = |source| BackupError::io(format!("reading {}", dir.display()), source);
    for entry in names.map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if name != "lost+found" {
            let (dir, name) = (dir.display(), name.to_string_lossy().into_owned());
            let words =
                format!("{dir} is not empty (it has {name}): a backup is restored into an empty directory only");
            return Err(BackupError::Refused { words });
        }
    }
    Ok(())
}

/// Takes away what was made; the mark goes last, so that a rest of it is known for what it is.
fn empty(dir: &Path) {
    for name in [FJALL_DIRECTORY, SEGMENTS_DIRECTORY] {
        let _ = std::fs::remove_dir_all(dir.join(name)); // whatever stays is refused at the next start
    }
    for name in [NOTE_FILE, FORMAT_FILE, LOCK_FILE, RESTORING_FILE] {
        let _ = std::fs::remove_file(dir.join(name)); // likewise
    }
}

fn fill(
    from: &Path,
    dir: &Path,
    manifest: &Manifest,
    progress: &mut dyn FnMut(&Restored),
) -> Result<Restored, BackupError> {
    let store = recover::open_store(&Options::new(dir), Opening::Creating);
    let store = store.map_err(|error| BackupError::Damaged { words: error.to_string() })?;
    let restored = Filling::begin(from, dir, manifest, &store)?.run(progress)?;
    let synced = store.db.persist(PersistMode::SyncAll);
    synced.map_err(|error| BackupError::from(fault("syncing the journal", error)))?;
    drop(store);
    let failed = |source| BackupError::io(format!("writing in {}", dir.display()), source);
    let mut note = Note::create(&dir.join(NOTE_FILE), false).map_err(failed)?;
    note.write(Noted { number: manifest.head.commit, closed: true, relaxed: false }).map_err(failed)?;
    sync_directory(&dir.join(SEGMENTS_DIRECTORY))
        .and_then(|()| sync_directory(dir))
        .and_then(|()| write_durably(&dir.join(FORMAT_FILE), FORMAT.as_bytes()))
        .and_then(|()| std::fs::remove_file(dir.join(RESTORING_FILE)))
        .and_then(|()| sync_directory(dir))
        .map_err(failed)?;
    Ok(restored)
}

/// Hashes what is read.
struct Hashed {
    file: BufReader<File>,
    sum: Box<Xxh3>,
    bytes: u64,
}

impl Read for Hashed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.sum.update(&buffer[..read]);
        self.bytes += read as u64;
        Ok(read)
    }
}

/// A directory that is being filled.
struct Filling<'a> {
    manifest: &'a Manifest,
    store: &'a Store,
    path: String,
    file: Hashed,
    from: Segments,
    bodies: Bodies,
    rows: Option<(Part, Rows)>,
    end: Option<[u64; Part::ALL.len()]>,
    distinct: Distinct,
    sums: SegmentSums,
    counts: [u64; Part::ALL.len()],
    restored: Restored,
}

impl<'a> Filling<'a> {
    fn begin(from: &Path, dir: &Path, manifest: &'a Manifest, store: &'a Store) -> Result<Self, BackupError> {
        let path = from.join(&manifest.records);
        let reading = |source| BackupError::io(format!("reading {}", path.display()), source);
        let file = BufReader::new(File::open(&path).map_err(reading)?);
        let (segments, own) = (from.join(SEGMENTS_DIRECTORY), dir.join(SEGMENTS_DIRECTORY));
        let opened = Segments::open(Box::new(Directory::read_only(&segments)), u64::MAX, None);
        let opened = opened.map_err(|source| BackupError::io(format!("reading {}", segments.display()), source))?;
        Ok(Filling {
            manifest,
            store,
            path: path.display().to_string(),
            file: Hashed { file, sum: Box::new(Xxh3::new()), bytes: 0 },
            from: opened,
            bodies: Bodies::open(&own)?,
            rows: None,
            end: None,
            distinct: Distinct::default(),
            sums: SegmentSums::default(),
            counts: [0; Part::ALL.len()],
            restored: Restored { commit: manifest.head.commit, ..Restored::default() },
        })
    }

    fn damaged(&self, words: &str) -> BackupError {
        BackupError::Damaged { words: format!("{}: {words}", self.path) }
    }

    fn run(mut self, progress: &mut dyn FnMut(&Restored)) -> Result<Restored, BackupError> {
        while let Some(part) = self.next_part(progress)? {
            self.part(part, progress)?;
        }
        let is_whole = self.end == Some(self.counts)
            && self.file.bytes == self.manifest.records_bytes
            && self.file.sum.digest128() == self.manifest.records_sum;
        if !is_whole {
            return Err(self.damaged("it is not the file that the manifest names: its length or checksum is another"));
        }
        self.bodies.finish()?;
        if self.sums.finish() != self.manifest.segments {
            let words = format!("{}: bodies are not those that the manifest names: a checksum is another", self.path);
            return Err(BackupError::Damaged { words });
        }
        Ok(self.restored)
    }

    /// Reads on until there are rows, and tells of which part; `None` at the end.
    fn next_part(&mut self, progress: &mut dyn FnMut(&Restored)) -> Result<Option<Part>, BackupError> {
        loop {
            match &self.rows {
                Some((part, rows)) if !rows.is_empty() => return Ok(Some(*part)),
                _ => self.rows = None,
            }
            progress(&self.restored);
            let block = block::read(&mut self.file).map_err(|error| self.damaged(&error.to_string()))?;
            let Some(block) = block else { return Ok(None) };
            match block::decode(&block) {
                Some(Block::Head(head)) if head == self.manifest.head => {}
                Some(Block::Rows(part, rows)) if self.end.is_none() => self.rows = Some((part, rows)),
                Some(Block::End(counts)) => self.end = Some(counts),
                _ => return Err(self.damaged("its blocks are not those of this backup")),
            }
        }
    }

    /// All rows of a part: they come in the order of their keys, as tables want them.
    fn part(&mut self, part: Part, progress: &mut dyn FnMut(&Restored)) -> Result<(), BackupError> {
        let failed = |error| BackupError::from(fault("writing records", error));
        let mut ingestion = keyspace(self.store, part).start_ingestion().map_err(failed)?;
        while self.next_part(progress)? == Some(part) {
            let Some((key, value)) = self.rows.as_mut().and_then(|(_, rows)| rows.next()) else { continue };
            self.counts[part as usize] += 1;
            // From here on it is another directory than the one that was copied.
            if part == Part::Meta && key == IDENTITY_KEY {
                continue;
            }
            match part {
                Part::Meta | Part::Fences => {}
                Part::Records => self.restored.records += 1,
                Part::Refs => self.extent(&key, &value)?,
            }
            ingestion.write(key, value).map_err(failed)?;
        }
        ingestion.finish().map_err(failed)
    }

    fn extent(&mut self, key: &[u8], value: &[u8]) -> Result<(), BackupError> {
        let Some((address, bytes)) = self.distinct.take(key, value)? else { return Ok(()) };
        let parts = extents::read_now(&self.from, ExtentSlice::whole(address.extent(bytes)))?;
        let sums = self.bodies.write(address, parts)?;
        self.sums.take(address, bytes, &sums);
        self.restored.extents += 1;
        self.restored.bytes += u64::from(bytes);
        Ok(())
    }
}
