//! Looks through a directory that nothing has open, and changes nothing in it: every checksum, and every invariant that this engine
//! promises. What the records mean is for others to judge; they get at them with `scan` and `get`.
//!
//! fjall changes a directory when it opens it. So it is given another one (`scratch`): links to its tables, which are never written
//! again, and copies of everything else, which is small.
//!
//! Memory is bounded: rows are read in the order of their keys, and what must agree with them is looked up.

mod rules;
mod scratch;
mod tables;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use bytes::Bytes;
use engine::{ExtentSlice, Family, Fault, GroupId, GroupRange, Page, PartitionId, Record};
use fjall::Readable;
use rustix::fs::FlockOperation;

use crate::buffered::Buffered;
use crate::disk::Directory;
use crate::key::{self, Address};
use crate::note::{self, Noted, Slots};
use crate::recover::{self, LOCK_FILE, NOTE_FILE, OpenError, Opening, SEGMENTS_DIRECTORY};
use crate::segments::Segments;
use crate::store::{Store, by_extent};
use crate::{Options, extents, fault, view};
use scratch::Scratch;

/// Something that is not as it should be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    pub words: String,
    /// The record that it is about.
    pub record: Option<Place>,
}

impl Finding {
    fn new(words: impl Into<String>) -> Self {
        Finding { words: words.into(), record: None }
    }

    fn of(record: Option<Place>, words: impl Into<String>) -> Self {
        Finding { words: words.into(), record }
    }
}

/// Where a record is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    pub partition: PartitionId,
    pub family: Family,
    pub key: Bytes,
}

/// What was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    pub records: u64,
    pub references: u64,
    pub extents: u64,
    pub extent_bytes: u64,
    pub segments: u64,
    /// Bytes in segments that no record names: what a crash left, or what is about to be given back. Not damage.
    pub unnamed_bytes: u64,
}

/// Who hears what is found.
pub trait Listener {
    fn finding(&mut self, finding: Finding);
    fn progress(&mut self, seen: &Seen);
    /// Why there can be no record in this place; for those who know which there are.
    fn judge_place(&self, _place: &Place) -> Option<String> {
        None
    }
}

/// A directory that nobody else has meanwhile, open to be read.
pub struct Inspection {
    store: Store,
    segments: Segments,
    /// The newest commit.
    number: u64,
    /// After the store, which is in it.
    _scratch: Scratch,
    _lock: Option<File>,
}

impl Inspection {
    /// `None` if the records cannot be read at all; why, the listener was told. An error means that nothing could be looked at.
    pub fn open(dir: &Path, scratch: &Path, to: &mut dyn Listener) -> Result<Option<Inspection>, OpenError> {
        let lock = lock(dir)?;
        recover::check_usable(dir)?;
        for refusal in [recover::check_damaged(dir).err()].into_iter().flatten() {
            to.finding(Finding::new(damage(refusal)?));
        }
        let noted = look_at_note(dir, to)?;
        let mut is_readable = tables::look(dir, &mut |words| to.finding(Finding::new(words)))?;
        let scratch = Scratch::new(dir, scratch)?;
        let options = Options::new(scratch.path());
        let store = if is_readable { Some(recover::open_existing(&options, noted, Opening::Looking)) } else { None };
        let store = match store {
            Some(Ok(opened)) => Some(opened),
            Some(Err(refusal)) => {
                is_readable = false;
                to.finding(Finding::new(scratch.as_in(dir, &damage(refusal)?)));
                None
            }
            None => None,
        };
        let Some((store, number)) = store.filter(|_| is_readable) else {
            to.finding(Finding::new("the records cannot be read, so nothing else was looked at"));
            return Ok(None);
        };
        let segments = Segments::open(Box::new(Directory::read_only(&dir.join(SEGMENTS_DIRECTORY))), u64::MAX, None);
        let segments = match segments {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                to.finding(Finding::new(format!("{} is missing", dir.join(SEGMENTS_DIRECTORY).display())));
                return Ok(None);
            }
            other => other.map_err(|source| OpenError::Io { doing: "reading the segments".to_owned(), source })?,
        };
        Ok(Some(Inspection { store, segments, number, _scratch: scratch, _lock: lock }))
    }

    /// Looks through everything this engine promises.
    pub fn verify(&self, to: &mut dyn Listener) -> Result<Seen, Fault> {
        let mut seen = Seen::default();
        let named = self.verify_records(&mut seen, to)?;
        let live = self.verify_references(&mut seen, to)?;
        if named != seen.references {
            self.find_stray_references(to)?;
        }
        self.verify_rest(to)?;
        let files = self.segments.sealed();
        seen.segments = files.len() as u64;
        for (number, bytes) in files {
            // Holes take no room.
            let taken = std::fs::metadata(self.segments.path(number)).map_or(0, |of| of.blocks() * 512);
            seen.unnamed_bytes += bytes.min(taken);
        }
        seen.unnamed_bytes = seen.unnamed_bytes.saturating_sub(live);
        Ok(seen)
    }

    /// Records of a group, in the order of partitions.
    pub fn scan(&self, range: &GroupRange, limit: usize) -> Result<Page, Fault> {
        view::scan_group(&self.store, &Buffered::default(), range, limit)
    }

    pub fn get(&self, partition: &PartitionId, family: Family, key: &[u8]) -> Result<Option<Record>, Fault> {
        let stored = self.store.db.snapshot().get(&self.store.records, key::record_key(partition, family, key));
        let stored = stored.map_err(|error| fault("reading a record", error))?;
        // One that cannot be read was told of by `verify`.
        Ok(stored.and_then(|stored| key::decode_record(stored.into())))
    }

    /// The first group after this one that has records and is not fenced.
    pub fn next_group(&self, after: Option<&GroupId>) -> Result<Option<GroupId>, Fault> {
        let mut start = after.and_then(|group| key::after_prefix(key::group_prefix(group))).unwrap_or_default();
        let snapshot = self.store.db.snapshot();
        loop {
            let Some(row) = snapshot.range::<Vec<u8>, _>(&self.store.records, start.clone()..).next() else {
                return Ok(None);
            };
            let key = Bytes::from(row.key().map_err(|error| fault("reading records", error))?);
            let Some(place) = key::parse_record_key(&key) else {
                // It was told of by `verify`; the next key is the one after it.
                start = [key.as_ref(), &[0]].concat();
                continue;
            };
            let group = place.partition.group;
            if !self.is_fenced(&group)? {
                return Ok(Some(group));
            }
            match key::after_prefix(key::group_prefix(&group)) {
                Some(next) => start = next,
                None => return Ok(None),
            }
        }
    }

    fn is_fenced(&self, group: &GroupId) -> Result<bool, Fault> {
        let found = self.store.db.snapshot().contains_key(&self.store.fences, &group.0);
        found.map_err(|error| fault("reading fences", error))
    }

    /// How many rows of references there should be.
    fn verify_records(&self, seen: &mut Seen, to: &mut dyn Listener) -> Result<u64, Fault> {
        let snapshot = self.store.db.snapshot();
        let (mut named, mut last_group) = (0, None);
        for row in snapshot.range::<&[u8], _>(&self.store.records, ..) {
            let (key, stored) = row.into_inner().map_err(|error| fault("reading records", error))?;
            let (key, stored) = (Bytes::from(key), Bytes::from(stored));
            seen.records += 1;
            to.progress(seen);
            let place = key::parse_record_key(&key);
            let (slices, words) = rules::record(place.as_ref(), &stored, self.number);
            let words = words.into_iter().chain(place.as_ref().and_then(|place| to.judge_place(place)));
            words.collect::<Vec<_>>().into_iter().for_each(|words| to.finding(Finding::of(place.clone(), words)));
            for (address, (bytes, ranges)) in by_extent(&slices) {
                named += 1;
                let found = snapshot.get(&self.store.refs, key::ref_key(address, &key));
                let found = found.map_err(|error| fault("reading references", error))?;
                if let Some(words) = rules::reference(address, bytes, &ranges, found.as_deref()) {
                    to.finding(Finding::of(place.clone(), words));
                }
            }
            let group = place.map(|place| place.partition.group);
            if group != last_group {
                self.verify_group(group.as_ref(), to)?;
                last_group = group;
            }
        }
        Ok(named)
    }

    /// What is left of a fenced group is on the list of what is removed.
    fn verify_group(&self, group: Option<&GroupId>, to: &mut dyn Listener) -> Result<(), Fault> {
        let Some(group) = group else { return Ok(()) };
        if !self.is_fenced(group)? {
            return Ok(());
        }
        let listed = self.store.db.snapshot().contains_key(&self.store.meta, crate::store::sweep_key(group));
        if !listed.map_err(|error| fault("reading the groups to sweep", error))? {
            to.finding(Finding::new(format!(
                "the group {group:?} was deleted, has records, and nothing will remove them"
            )));
        }
        Ok(())
    }

    /// Every extent that is named, once. Gives how many bytes of segments they are.
    fn verify_references(&self, seen: &mut Seen, to: &mut dyn Listener) -> Result<u64, Fault> {
        let snapshot = self.store.db.snapshot();
        let mut last: Option<(Address, u32)> = None;
        let (mut told_missing, mut live) = (None, 0);
        for row in snapshot.range::<&[u8], _>(&self.store.refs, ..) {
            let (key, value) = row.into_inner().map_err(|error| fault("reading references", error))?;
            seen.references += 1;
            to.progress(seen);
            let row = key::decode_ref_key(&key).zip(key::decode_ref(&value));
            let Some(((address, record), (bytes, _))) = row else {
                to.finding(Finding::new("a reference cannot be read"));
                continue;
            };
            let place = key::parse_record_key(&Bytes::copy_from_slice(record));
            if let Some(words) = rules::neighbours(last, (address, bytes)) {
                to.finding(Finding::of(place.clone(), words));
            }
            if last.is_some_and(|(last, _)| last == address) || told_missing == Some(address.segment) {
                continue;
            }
            last = Some((address, bytes));
            let path = self.segments.path(address.segment);
            if self.segments.used_bytes(address.segment).is_none() {
                told_missing = Some(address.segment);
                to.finding(Finding::of(place, format!("{path} is missing, and records name it; this is the first")));
                continue;
            }
            seen.extents += 1;
            seen.extent_bytes += u64::from(bytes);
            live += extents::stored_bytes(u64::from(bytes));
            match extents::read_now(&self.segments, ExtentSlice::whole(address.extent(bytes))) {
                Ok(_) => {}
                Err(Fault::Corrupt { what }) => to.finding(Finding::of(place, what)),
                Err(other) => return Err(other),
            }
        }
        Ok(live)
    }

    /// There are more or fewer rows than records name: which are the ones too many.
    fn find_stray_references(&self, to: &mut dyn Listener) -> Result<(), Fault> {
        let snapshot = self.store.db.snapshot();
        for row in snapshot.range::<&[u8], _>(&self.store.refs, ..) {
            let key = row.key().map_err(|error| fault("reading references", error))?;
            let Some((address, record)) = key::decode_ref_key(&key) else { continue };
            let stored = snapshot.get(&self.store.records, record).map_err(|error| fault("reading a record", error))?;
            let slices = stored.and_then(|stored| key::decode_header(&stored)).map(|(_, slices)| slices);
            if let Some(words) = rules::stray_reference(address, slices.as_deref()) {
                to.finding(Finding::of(key::parse_record_key(&Bytes::copy_from_slice(record)), words));
            }
        }
        Ok(())
    }

    fn verify_rest(&self, to: &mut dyn Listener) -> Result<(), Fault> {
        let snapshot = self.store.db.snapshot();
        for row in snapshot.range::<&[u8], _>(&self.store.meta, ..) {
            let (key, value) = row.into_inner().map_err(|error| fault("reading what is kept of the whole", error))?;
            let highest = snapshot.last_key_value(&self.store.refs);
            let highest =
                highest.map(|row| row.key()).transpose().map_err(|error| fault("reading references", error))?;
            let highest = highest.and_then(|key| key::u64_at(&key, 0));
            if let Some(words) = rules::meta(&key, &value, highest) {
                to.finding(Finding::new(words));
            }
            if let Some(group) = key.strip_prefix(crate::store::SWEEP_PREFIX)
                && !self.is_fenced(&GroupId(Bytes::copy_from_slice(group)))?
            {
                to.finding(Finding::new("a group is to be removed that was never deleted"));
            }
        }
        for row in snapshot.range::<&[u8], _>(&self.store.fences, ..) {
            let (group, value) = row.into_inner().map_err(|error| fault("reading fences", error))?;
            if !(1..=engine::GROUP_BYTES_MAX).contains(&group.len()) || !value.is_empty() {
                to.finding(Finding::new(format!("the fence of {:?} cannot be read", Bytes::copy_from_slice(&group))));
            }
        }
        Ok(())
    }
}

/// Nobody else may have it. A directory without the file was never open.
fn lock(dir: &Path) -> Result<Option<File>, OpenError> {
    let path = dir.join(LOCK_FILE);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(OpenError::Io { doing: format!("opening {}", path.display()), source }),
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(OpenError::Locked { dir: dir.to_owned() }),
        Err(error) => Err(OpenError::Io { doing: format!("locking {}", path.display()), source: error.into() }),
    }
}

/// What a start would call damage is what is looked for; anything else keeps us from looking.
fn damage(refusal: OpenError) -> Result<String, OpenError> {
    match refusal {
        OpenError::Damaged { words } => Ok(words),
        other => Err(other),
    }
}

fn look_at_note(dir: &Path, to: &mut dyn Listener) -> Result<Noted, OpenError> {
    let path = dir.join(NOTE_FILE);
    let slots = match note::look(&path) {
        Ok(slots) => slots,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Slots::default(),
        Err(source) => return Err(OpenError::Io { doing: format!("reading {}", path.display()), source }),
    };
    let (noted, words) = rules::note(&slots);
    words.into_iter().for_each(|words| to.finding(Finding::new(format!("{}: {words}", path.display()))));
    Ok(noted)
}
