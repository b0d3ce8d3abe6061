//! Writes a backup into a directory, beside the one that may be there already.
//!
//! ```text
//! DEST/
//!   BACKUP                      the line "lazuli backup 1"; flock(2), exclusive, while a backup is written
//!   MANIFEST                    what the backup is (`manifest`); replaced as a whole when all else is on the disk
//!   records-0000000000000001    blocks (`block`)
//!   segments/                   extents at their addresses, as in a data directory; zeros or rubbish between them
//! ```
//! 1. What the manifest that is there names is never changed: a new file of records gets a new name, and new extents are
//!    written where the old backup has none. So a backup that is broken off leaves the one before as it was.
//! 2. What the new manifest does not name is removed after it was written.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use engine::{ExtentSlice, Fault};
use rustix::fs::FlockOperation;
use xxhash_rust::xxh3::Xxh3;

use super::block::{self, Block, Head, Part};
use super::bodies::Bodies;
use super::manifest::{FORMAT_LINE, Manifest, SegmentSums};
use super::{BackupError, CopyOut, Distinct};
use crate::disk::{self, Directory};
use crate::extents;
use crate::key::Address;
use crate::recover::{SEGMENTS_DIRECTORY, sync_directory, write_durably};
use crate::segments::{Segments, file_name};

const MARK_FILE: &str = "BACKUP";
pub(super) const MANIFEST_FILE: &str = "MANIFEST";
const NEW_MANIFEST_FILE: &str = "MANIFEST.new";
const RECORDS_PREFIX: &str = "records-";

/// Where the blocks of a copy come from.
pub trait Source {
    /// The next one, its checksum verified; `None` at the end.
    fn next_block(&mut self) -> Result<Option<Bytes>, BackupError>;
}

impl Source for CopyOut {
    fn next_block(&mut self) -> Result<Option<Bytes>, BackupError> {
        CopyOut::next_block(self).map_err(BackupError::from)
    }
}

/// Blocks from another process.
pub struct Stream<R>(pub R);

impl<R: Read> Source for Stream<R> {
    fn next_block(&mut self) -> Result<Option<Bytes>, BackupError> {
        block::read(&mut self.0).map_err(|source| BackupError::io("reading from the server", source))
    }
}

/// How much was copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Copied {
    pub commit: u64,
    pub records: u64,
    /// Bodies that were copied now.
    pub extents: u64,
    pub bytes: u64,
    /// Those that the backup before had already.
    pub kept_extents: u64,
    pub kept_bytes: u64,
}

/// Copies what the source gives, and the extents of `data` that it names, into `to`.
pub fn copy(
    source: &mut dyn Source,
    data: &Path,
    to: &Path,
    progress: &mut dyn FnMut(&Copied),
) -> Result<Copied, BackupError> {
    let destination = Destination::open(data, to)?;
    let head = match next(source)? {
        Some((_, Block::Head(head))) => head,
        _ => return Err(BackupError::damaged("the copy does not begin as one")),
    };
    destination.check_history(head)?;
    let mut writing = Writing::begin(&destination, data, head)?;
    loop {
        match next(source)? {
            Some((bytes, Block::Rows(part, rows))) => {
                writing.block(&bytes, part)?;
                for (key, value) in rows {
                    writing.row(part, &key, &value)?;
                }
            }
            Some((bytes, Block::End(counts))) => {
                writing.block(&bytes, Part::Refs)?;
                if counts != writing.counts {
                    return Err(BackupError::damaged("rows are missing from the copy"));
                }
                break;
            }
            _ => return Err(BackupError::damaged("the copy ends before its end")),
        }
        progress(&writing.copied);
    }
    let copied = writing.copied;
    let manifest = writing.finish()?;
    destination.put_manifest(&manifest)?;
    destination.remove_unnamed(&manifest)?;
    Ok(copied)
}

fn next(source: &mut dyn Source) -> Result<Option<(Bytes, Block)>, BackupError> {
    let Some(bytes) = source.next_block()? else { return Ok(None) };
    match block::decode(&bytes) {
        Some(Block::Failure(words)) => Err(BackupError::Refused { words }),
        Some(block) => Ok(Some((bytes, block))),
        None => Err(BackupError::damaged("a block makes no sense: is the server of another version?")),
    }
}

/// The directory that backups are kept in.
struct Destination {
    path: PathBuf,
    before: Option<Manifest>,
    /// Held while it is written.
    _lock: File,
}

impl Destination {
    fn open(data: &Path, to: &Path) -> Result<Destination, BackupError> {
        let failed = |source| BackupError::io(format!("opening {}", to.display()), source);
        disk::make_private(to).map_err(failed)?;
        let path = to.canonicalize().map_err(failed)?;
        if path.starts_with(data.canonicalize().map_err(failed)?) {
            let words =
                format!("{} is inside the data directory: name a place outside, best on another disk", to.display());
            return Err(BackupError::Refused { words });
        }
        let mark = path.join(MARK_FILE);
        if !mark.try_exists().map_err(failed)? {
            if let Some(found) = first_name(&path).map_err(failed)? {
                let words = format!(
                    "{} is not empty and holds no backup (it has {found}): name an empty directory",
                    to.display()
                );
                return Err(BackupError::Refused { words });
            }
            write_durably(&mark, format!("{FORMAT_LINE}\n").as_bytes()).map_err(failed)?;
        }
        let lock = File::open(&mark).map_err(failed)?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let words = format!("another backup is being written to {}", to.display());
                return Err(BackupError::Refused { words });
            }
            Err(error) => return Err(failed(error.into())),
        }
        let before = match read_manifest(&path) {
            Ok(before) => Some(before),
            Err(BackupError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(Destination { path, before, _lock: lock })
    }

    /// Adding to a backup makes sense only if what it has is a part of the same history.
    fn check_history(&self, head: Head) -> Result<(), BackupError> {
        match &self.before {
            Some(before) if before.head.identity != head.identity || before.head.commit > head.commit => {
                Err(self.other_history())
            }
            _ => Ok(()),
        }
    }

    fn other_history(&self) -> BackupError {
        let words = format!(
            "{} holds a backup of another data directory, or of this one before it was restored or rolled back: name an \
             empty directory",
            self.path.display()
        );
        BackupError::Refused { words }
    }

    /// From here on the new backup counts.
    fn put_manifest(&self, manifest: &Manifest) -> Result<(), BackupError> {
        let (new, path) = (self.path.join(NEW_MANIFEST_FILE), self.path.join(MANIFEST_FILE));
        let put = write_durably(&new, manifest.encode().as_bytes())
            .and_then(|()| std::fs::rename(&new, &path))
            .and_then(|()| sync_directory(&self.path));
        put.map_err(|source| BackupError::io(format!("writing {}", path.display()), source))
    }

    /// What belonged to earlier backups, whole or not.
    fn remove_unnamed(&self, manifest: &Manifest) -> Result<(), BackupError> {
        let segments = self.path.join(SEGMENTS_DIRECTORY);
        let failed = |source| BackupError::io(format!("cleaning up in {}", self.path.display()), source);
        if let Some(before) = &self.before {
            self.punch(before, manifest)?;
        }
        let removed = || -> io::Result<()> {
            for entry in std::fs::read_dir(&self.path)? {
                let name = entry?.file_name();
                let is_records = name.to_str().is_some_and(|name| name.starts_with(RECORDS_PREFIX));
                if is_records && name != manifest.records.as_str() {
                    std::fs::remove_file(self.path.join(name))?;
                }
            }
            let named: Vec<String> = manifest.segments.iter().map(|line| file_name(line.number)).collect();
            for entry in std::fs::read_dir(&segments)? {
                let name = entry?.file_name();
                // They are in the order of their numbers, and so of their names.
                if name.to_str().is_some_and(|name| named.binary_search_by(|named| named.as_str().cmp(name)).is_err()) {
                    std::fs::remove_file(segments.join(name))?;
                }
            }
            Ok(())
        };
        removed().map_err(failed)
    }

    /// Gives back the space of extents that only the backup before had.
    fn punch(&self, before: &Manifest, manifest: &Manifest) -> Result<(), BackupError> {
        let segments = open_segments(Directory::open(&self.path.join(SEGMENTS_DIRECTORY)), &self.path)?;
        let mut new = OldExtents::open(&self.path, manifest)?;
        let mut old = OldExtents::open(&self.path, before)?;
        while let Some((address, bytes)) = old.next()? {
            new.skip_to(address)?;
            if new.peek()? != Some((address, bytes)) {
                let start = u64::from(address.offset);
                segments.free(address.segment, start, start + extents::stored_bytes(u64::from(bytes)));
            }
        }
        segments.punch_dead(usize::MAX).map(drop).map_err(|source| BackupError::io("giving space back", source))
    }
}

fn first_name(path: &Path) -> io::Result<Option<String>> {
    for entry in std::fs::read_dir(path)? {
        let name = entry?.file_name();
        if name != "lost+found" {
            return Ok(Some(name.to_string_lossy().into_owned()));
        }
    }
    Ok(None)
}

pub(super) fn read_manifest(path: &Path) -> Result<Manifest, BackupError> {
    let path = path.join(MANIFEST_FILE);
    let text = std::fs::read(&path).map_err(|source| BackupError::io(format!("reading {}", path.display()), source))?;
    let manifest = Manifest::parse(&String::from_utf8_lossy(&text));
    manifest.map_err(|words| BackupError::Damaged { words: format!("{} {words}", path.display()) })
}

fn open_segments(disk: io::Result<Directory>, of: &Path) -> Result<Segments, BackupError> {
    let opened = disk.and_then(|disk| Segments::open(Box::new(disk), u64::MAX, None));
    opened.map_err(|source| BackupError::io(format!("opening the segments of {}", of.display()), source))
}

/// A backup that is being written.
struct Writing<'a> {
    destination: &'a Destination,
    head: Head,
    name: String,
    records: BufWriter<File>,
    written: u64,
    sum: Box<Xxh3>,
    refs_at: Option<u64>,
    counts: [u64; Part::ALL.len()],
    from: Segments,
    bodies: Bodies,
    /// The same, to read in.
    there: Segments,
    before: Option<OldExtents>,
    distinct: Distinct,
    sums: SegmentSums,
    copied: Copied,
}

impl<'a> Writing<'a> {
    fn begin(destination: &'a Destination, data: &Path, head: Head) -> Result<Self, BackupError> {
        let path = &destination.path;
        let number = destination
            .before
            .as_ref()
            .and_then(|before| u64::from_str_radix(before.records.strip_prefix(RECORDS_PREFIX)?, 16).ok());
        let name = format!("{RECORDS_PREFIX}{:016x}", number.map_or(1, |number| number + 1));
        let records = File::create(path.join(&name));
        let records =
            records.map_err(|source| BackupError::io(format!("writing {}", path.join(&name).display()), source))?;
        let segments = path.join(SEGMENTS_DIRECTORY);
        let bodies = Bodies::open(&segments)?;
        let before = destination.before.as_ref().map(|before| OldExtents::open(path, before)).transpose()?;
        Writing {
            destination,
            head,
            name,
            records: BufWriter::new(records),
            written: 0,
            sum: Box::new(Xxh3::new()),
            refs_at: None,
            counts: [0; Part::ALL.len()],
            from: open_segments(Ok(Directory::read_only(&data.join(SEGMENTS_DIRECTORY))), data)?,
            bodies,
            there: open_segments(Ok(Directory::read_only(&segments)), path)?,
            before,
            distinct: Distinct::default(),
            sums: SegmentSums::default(),
            copied: Copied { commit: head.commit, ..Copied::default() },
        }
        .with_head()
    }

    fn with_head(mut self) -> Result<Self, BackupError> {
        let head = self.head.encode();
        self.append(&head)?;
        Ok(self)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), BackupError> {
        self.sum.update(bytes);
        self.written += bytes.len() as u64;
        let path = self.destination.path.join(&self.name);
        self.records.write_all(bytes).map_err(|source| BackupError::io(format!("writing {}", path.display()), source))
    }

    fn block(&mut self, bytes: &[u8], part: Part) -> Result<(), BackupError> {
        if part == Part::Refs {
            self.refs_at.get_or_insert(self.written);
        }
        self.append(bytes)
    }

    fn row(&mut self, part: Part, key: &[u8], value: &[u8]) -> Result<(), BackupError> {
        self.counts[part as usize] += 1;
        match part {
            Part::Meta | Part::Fences => Ok(()),
            Part::Records => {
                self.copied.records += 1;
                Ok(())
            }
            Part::Refs => match self.distinct.take(key, value)? {
                Some((address, bytes)) => self.extent(address, bytes),
                None => Ok(()),
            },
        }
    }

    /// One extent: it is there already, or it is copied.
    fn extent(&mut self, address: Address, bytes: u32) -> Result<(), BackupError> {
        let extent = address.extent(bytes);
        let is_kept = match &mut self.before {
            Some(before) => before.has(address, bytes)?.ok_or_else(|| self.destination.other_history())?,
            None => false,
        };
        let sums = if is_kept {
            let sums = extents::read_sums(&self.from, extent)?;
            if extents::read_sums(&self.there, extent)? != sums {
                return Err(self.destination.other_history());
            }
            (self.copied.kept_extents, self.copied.kept_bytes) =
                (self.copied.kept_extents + 1, self.copied.kept_bytes + u64::from(bytes));
            sums
        } else {
            let parts = extents::read_now(&self.from, ExtentSlice::whole(extent))?;
            let sums = self.bodies.write(address, parts)?;
            (self.copied.extents, self.copied.bytes) = (self.copied.extents + 1, self.copied.bytes + u64::from(bytes));
            sums
        };
        self.sums.take(address, bytes, &sums);
        Ok(())
    }

    /// Everything is on the disk when this returns.
    fn finish(mut self) -> Result<Manifest, BackupError> {
        self.bodies.finish()?;
        let path = self.destination.path.join(&self.name);
        let synced = self.records.flush().and_then(|()| self.records.get_ref().sync_all());
        synced
            .and_then(|()| sync_directory(&self.destination.path))
            .map_err(|source| BackupError::io(format!("syncing {}", path.display()), source))?;
        Ok(Manifest {
            head: self.head,
            records: self.name,
            records_bytes: self.written,
            records_sum: self.sum.digest128(),
            refs_at: self.refs_at.unwrap_or(self.written),
            segments: self.sums.finish(),
        })
    }
}

/// The extents of a backup, in order.
struct OldExtents {
    path: PathBuf,
    file: io::BufReader<File>,
    rows: Option<block::Rows>,
    distinct: Distinct,
    peeked: Option<(Address, u32)>,
}

impl OldExtents {
    fn open(path: &Path, manifest: &Manifest) -> Result<OldExtents, BackupError> {
        let path = path.join(&manifest.records);
        let open = || -> io::Result<File> {
            let mut file = File::open(&path)?;
            file.seek(SeekFrom::Start(manifest.refs_at))?;
            Ok(file)
        };
        let file = open().map_err(|source| BackupError::io(format!("reading {}", path.display()), source))?;
        let (rows, distinct, peeked) = (None, Distinct::default(), None);
        Ok(OldExtents { path, file: io::BufReader::new(file), rows, distinct, peeked })
    }

    fn next(&mut self) -> Result<Option<(Address, u32)>, BackupError> {
        if let Some(peeked) = self.peeked.take() {
            return Ok(Some(peeked));
        }
        loop {
            if let Some((key, value)) = self.rows.as_mut().and_then(Iterator::next) {
                if let Some(extent) = self.distinct.take(&key, &value)? {
                    return Ok(Some(extent));
                }
                continue;
            }
            let damaged = |words: &str| BackupError::Damaged { words: format!("{}: {words}", self.path.display()) };
            let block = block::read(&mut self.file).map_err(|error| damaged(&error.to_string()))?;
            match block.as_ref().and_then(block::decode) {
                Some(Block::Rows(Part::Refs, rows)) => self.rows = Some(rows),
                Some(Block::End(_)) | None => return Ok(None),
                Some(_) => return Err(damaged("its blocks are out of order")),
            }
        }
    }

    fn peek(&mut self) -> Result<Option<(Address, u32)>, BackupError> {
        if self.peeked.is_none() {
            self.peeked = self.next()?;
        }
        Ok(self.peeked)
    }

    /// Past everything that lies before the address.
    fn skip_to(&mut self, address: Address) -> Result<(), BackupError> {
        while self.peek()?.is_some_and(|(old, _)| old < address) {
            self.peeked = None;
        }
        Ok(())
    }

    /// Whether the extent is one of them; `None` if it lies over others, which cannot be in one history. To be asked in order.
    fn has(&mut self, address: Address, bytes: u32) -> Result<Option<bool>, BackupError> {
        let end = |(of, bytes): (Address, u32)| u64::from(of.offset) + extents::stored_bytes(u64::from(bytes));
        let mut overlaps = false;
        while let Some(old) = self.peek()? {
            let is_before = old.0 < address;
            if !is_before {
                break;
            }
            overlaps |= old.0.segment == address.segment && end(old) > u64::from(address.offset);
            self.peeked = None;
        }
        if let Some(old) = self.peek()? {
            if old == (address, bytes) {
                return Ok(Some(true));
            }
            overlaps |= old.0.segment == address.segment && u64::from(old.0.offset) < end((address, bytes));
        }
        Ok((!overlaps).then_some(false))
    }
}

impl From<Fault> for BackupError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Io { doing, source } => BackupError::Io { doing, source: io::Error::new(source.kind(), source) },
            other => BackupError::Damaged { words: other.to_string() },
        }
    }
}
