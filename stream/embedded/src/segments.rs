//! Segment files: append-only, many extents each, one of them open for writing.
//!
//! 1. A range of a segment is reserved by one writer and written once. A range that was handed out as an extent is never
//!    written again, so an address names the same bytes for all time.
//! 2. A segment found at start is never appended to: what a crash left at its end is unknown.
//! 3. Nothing is punched or unlinked that `free` was not told of, or that a survey did not prove dead (`sweep.rs`).
//! 4. `synced >= completed at the time of asking` is what makes an extent durable; after a failed sync the engine stops,
//!    since the kernel may have dropped the pages it could not write.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::measure::Histogram;
use env::Stopwatch;
use tokio::sync::Notify;

use crate::disk::{Disk, DiskFile};
use crate::key::Address;

/// Blocks of this size are given back; smaller rests wait for their neighbours to die.
const BLOCK_BYTES: u64 = 4096;
/// Open files kept for reading. Others are opened again when they are read.
const OPEN_FILES_MAX: usize = 256;

pub struct Segments {
    disk: Box<dyn Disk>,
    segment_bytes_max: u64,
    state: Mutex<State>,
    can_punch: AtomicBool,
    /// How long each sync took.
    pub syncing: Histogram,
}

struct State {
    active: Option<Active>,
    next_number: u64,
    /// Every segment there is.
    known: BTreeMap<u64, Known>,
    open: HashMap<u64, Arc<Segment>>,
}

struct Active {
    segment: Arc<Segment>,
    next: u64,
}

#[derive(Default)]
struct Known {
    /// Bytes that were handed out; for a segment found at start, the length of its file.
    used: u64,
    /// Dead ranges by their start, neighbours merged.
    dead: BTreeMap<u64, Dead>,
    dead_bytes: u64,
    /// Starts of dead ranges that grew since they were last looked at.
    grown: Vec<u64>,
}

#[derive(Clone, Copy)]
struct Dead {
    end: u64,
    /// How much of it came since it was last punched.
    unpunched: u64,
}

/// One segment file.
pub struct Segment {
    pub number: u64,
    file: Box<dyn DiskFile>,
    /// Extents written to their end.
    completed: AtomicU64,
    /// How many of these the last sync covered.
    synced: AtomicU64,
    syncing: AtomicBool,
    /// A sync failed. The kernel may have dropped what it could not write, so a later success would prove nothing.
    sync_failed: AtomicBool,
    sync_ended: Notify,
    /// Whether the directory is known to hold the file's name for good.
    name_durable: AtomicBool,
    /// Reservations not yet given up.
    writers: AtomicUsize,
}

pub fn file_name(number: u64) -> String {
    format!("{number:016x}.seg")
}

fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".seg")?;
    if digits.len() != 16 || digits.bytes().any(|digit| !matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}

impl Segments {
    /// `named_max` is the highest segment any record names: its number is not given out again even if its file is gone.
    pub fn open(disk: Box<dyn Disk>, segment_bytes_max: u64, named_max: Option<u64>) -> io::Result<Self> {
        let mut known = BTreeMap::new();
        for (name, bytes) in disk.list()? {
            // A name that is none of ours is left alone: someone else's file is not ours to judge.
            if let Some(number) = number_of(&name) {
                known.insert(number, Known { used: bytes, ..Known::default() });
            }
        }
        let highest = known.keys().next_back().copied().max(named_max);
        let next_number = highest.map_or(1, |highest| highest + 1);
        let state = State { active: None, next_number, known, open: HashMap::new() };
        let (state, can_punch) = (Mutex::new(state), AtomicBool::new(true));
        Ok(Segments { disk, segment_bytes_max, state, can_punch, syncing: Histogram::of_durations() })
    }

    /// Numbers and lengths of all segments that are not written to any more.
    pub fn sealed(&self) -> Vec<(u64, u64)> {
        let state = self.lock();
        let active = state.active.as_ref().map(|active| active.segment.number);
        let written_to = |number: u64| {
            Some(number) == active
                || state.open.get(&number).is_some_and(|segment| segment.writers.load(Ordering::Acquire) > 0)
        };
        state.known.iter().filter(|(number, _)| !written_to(**number)).map(|(number, of)| (*number, of.used)).collect()
    }

    pub fn used_bytes(&self, number: u64) -> Option<u64> {
        self.lock().known.get(&number).map(|known| known.used)
    }

    pub fn dead_bytes(&self, number: u64) -> u64 {
        self.lock().known.get(&number).map_or(0, |known| known.dead_bytes)
    }

    /// How many there are, how many bytes were handed out in them, and how many of those are dead.
    pub fn totals(&self) -> (u64, u64, u64) {
        let add = |(count, used, dead), known: &Known| (count + 1, used + known.used, dead + known.dead_bytes);
        self.lock().known.values().fold((0, 0, 0), add)
    }

    pub fn can_punch(&self) -> bool {
        self.can_punch.load(Ordering::Relaxed)
    }

    pub fn path(&self, number: u64) -> String {
        self.disk.path(&file_name(number))
    }

    /// A range of its own for one writer.
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> io::Result<Reservation> {
        let mut state = self.lock();
        let fits = |active: &Active| active.next + bytes <= self.segment_bytes_max;
        if !state.active.as_ref().is_some_and(fits) {
            let number = state.next_number;
            let file = self.disk.create(&file_name(number))?;
            state.next_number += 1;
            let segment = Arc::new(Segment::new(number, file, false));
            self.make_room(&mut state);
            state.open.insert(number, Arc::clone(&segment));
            state.known.insert(number, Known::default());
            state.active = Some(Active { segment, next: 0 });
        }
        let active = state.active.as_mut().expect("just made if there was none");
        let start = active.next;
        active.next += bytes;
        let next = active.next;
        let segment = Arc::clone(&active.segment);
        segment.writers.fetch_add(1, Ordering::AcqRel);
        if let Some(known) = state.known.get_mut(&segment.number) {
            known.used = next;
        }
        Ok(Reservation { segments: Arc::clone(self), segment, start, bytes, kept: AtomicU64::new(0) })
    }

    /// The segment, opened if it is not.
    pub fn segment(&self, number: u64) -> io::Result<Arc<Segment>> {
        let mut state = self.lock();
        if let Some(segment) = state.open.get(&number) {
            return Ok(Arc::clone(segment));
        }
        let file = self.disk.open(&file_name(number))?;
        let segment = Arc::new(Segment::new(number, file, true));
        self.make_room(&mut state);
        state.open.insert(number, Arc::clone(&segment));
        Ok(segment)
    }

    /// Segments among these that hold written but unsynced extents.
    pub fn unsynced(&self, numbers: impl Iterator<Item = u64>) -> Vec<Arc<Segment>> {
        let state = self.lock();
        // A segment that is not open has nothing unsynced: `make_room` keeps those that have.
        let open = numbers.filter_map(|number| state.open.get(&number));
        open.filter(|segment| !segment.is_synced()).cloned().collect()
    }

    /// Notes a dead range.
    pub fn free(&self, number: u64, start: u64, end: u64) {
        let mut state = self.lock();
        if let Some(known) = state.known.get_mut(&number) {
            known.free(start, end);
        }
    }

    /// Gives the blocks of dead ranges back to the file system: of so many at most, those first that give back most. The others grow
    /// meanwhile, and so does what one call gives back. Where small bodies die faster than that they wait for their neighbours, or for
    /// the whole segment. Tells how many were punched.
    pub fn punch_dead(&self, ranges_max: usize) -> io::Result<usize> {
        let mut work = Vec::new();
        {
            let mut state = self.lock();
            for (number, known) in &mut state.known {
                for start in std::mem::take(&mut known.grown) {
                    // One that merged into one before it is punched with that one; one that came twice, once.
                    let Some(Dead { end, unpunched }) = known.dead.get(&start).filter(|dead| dead.unpunched > 0) else {
                        continue;
                    };
                    if start.next_multiple_of(BLOCK_BYTES) < end / BLOCK_BYTES * BLOCK_BYTES {
                        work.push((*unpunched, *number, start));
                    }
                }
            }
        }
        work.sort_unstable_by(|one, other| other.cmp(one));
        work.dedup();
        let mut punched = 0;
        let outcome = work.iter().take(ranges_max).try_for_each(|(_, number, start)| {
            self.punch(*number, *start)?;
            punched += 1;
            Ok(())
        });
        // The next time, also after one that failed.
        let mut state = self.lock();
        for (_, number, start) in work.into_iter().skip(punched) {
            if let Some(known) = state.known.get_mut(&number) {
                known.grown.push(start);
            }
        }
        outcome.map(|()| punched)
    }

    /// Punches the dead range that begins there.
    fn punch(&self, number: u64, start: u64) -> io::Result<()> {
        if !self.can_punch() {
            return Ok(());
        }
        let dead = |state: &State| state.known.get(&number)?.dead.get(&start).copied();
        let Some(Dead { end, unpunched }) = dead(&self.lock()) else { return Ok(()) };
        let (from, to) = (start.next_multiple_of(BLOCK_BYTES), end / BLOCK_BYTES * BLOCK_BYTES);
        if !self.segment(number)?.file.punch(from, to - from)? {
            self.can_punch.store(false, Ordering::Relaxed);
        }
        // It may have grown meanwhile, by what is not punched yet.
        let mut state = self.lock();
        if let Some(dead) = state.known.get_mut(&number).and_then(|known| known.dead.get_mut(&start)) {
            dead.unpunched = dead.unpunched.saturating_sub(unpunched);
        }
        Ok(())
    }

    /// Removes a segment in which nothing lives. The caller has proved that.
    pub fn remove(&self, number: u64) -> io::Result<()> {
        let mut state = self.lock();
        state.open.remove(&number);
        state.known.remove(&number);
        match self.disk.remove(&file_name(number)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Waits until all that was completed in the segment before the call is durable. One sync runs at a time; it serves
    /// all who waited when it began, and the next serves the rest.
    pub async fn make_durable(self: &Arc<Self>, segment: &Arc<Segment>) -> io::Result<()> {
        let wanted = segment.completed.load(Ordering::Acquire);
        loop {
            let mut ended = std::pin::pin!(segment.sync_ended.notified());
            ended.as_mut().enable();
            if segment.sync_failed.load(Ordering::Acquire) {
                return Err(io::Error::other("an earlier sync of this segment failed"));
            }
            if segment.synced.load(Ordering::Acquire) >= wanted {
                return Ok(());
            }
            if !segment.syncing.swap(true, Ordering::AcqRel) {
                let (segments, segment) = (Arc::clone(self), Arc::clone(segment));
                // The sync goes on if the caller goes away: others wait for it.
                let sync = tokio::task::spawn_blocking(move || segments.sync(&segment));
                sync.await.map_err(io::Error::other)??;
                continue;
            }
            ended.await;
        }
    }

    /// All segments that hold written but unsynced extents.
    pub fn all_unsynced(&self) -> Vec<Arc<Segment>> {
        self.lock().open.values().filter(|segment| !segment.is_synced()).cloned().collect()
    }

    /// Syncs every segment that needs it; for threads of our own.
    pub fn sync_all(&self) -> io::Result<()> {
        self.all_unsynced().iter().try_for_each(|segment| self.make_durable_now(segment))
    }

    /// The same for threads of our own. It does not wait its turn: a second sync at the same time is only a little work.
    pub fn make_durable_now(&self, segment: &Segment) -> io::Result<()> {
        let covers = segment.completed.load(Ordering::Acquire);
        if segment.sync_failed.load(Ordering::Acquire) {
            return Err(io::Error::other("an earlier sync of this segment failed"));
        }
        self.sync_file(segment, covers)
    }

    fn sync(&self, segment: &Segment) -> io::Result<()> {
        let covers = segment.completed.load(Ordering::Acquire);
        let outcome = self.sync_file(segment, covers);
        segment.syncing.store(false, Ordering::Release);
        segment.sync_ended.notify_waiters();
        outcome
    }

    fn sync_file(&self, segment: &Segment, covers: u64) -> io::Result<()> {
        let watch = Stopwatch::start();
        let outcome = segment.file.sync().and_then(|()| {
            if !segment.name_durable.load(Ordering::Acquire) {
                self.disk.sync()?;
                segment.name_durable.store(true, Ordering::Release);
            }
            Ok(())
        });
        self.syncing.add(watch.ticks());
        match outcome {
            Ok(()) => drop(segment.synced.fetch_max(covers, Ordering::AcqRel)),
            Err(_) => segment.sync_failed.store(true, Ordering::Release),
        }
        outcome
    }

    fn make_room(&self, state: &mut State) {
        if state.open.len() < OPEN_FILES_MAX {
            return;
        }
        let idle = |segment: &Arc<Segment>| Arc::strong_count(segment) == 1 && segment.is_synced();
        let idle: Vec<u64> = state.open.values().filter(|segment| idle(segment)).map(|of| of.number).collect();
        for number in idle.into_iter().take(OPEN_FILES_MAX / 4) {
            state.open.remove(&number);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under this lock panics half way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Segment {
    fn new(number: u64, file: Box<dyn DiskFile>, name_durable: bool) -> Self {
        Segment {
            number,
            file,
            completed: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            syncing: AtomicBool::new(false),
            sync_failed: AtomicBool::new(false),
            sync_ended: Notify::new(),
            name_durable: AtomicBool::new(name_durable),
            writers: AtomicUsize::new(0),
        }
    }

    pub fn file(&self) -> &dyn DiskFile {
        self.file.as_ref()
    }

    fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire) >= self.completed.load(Ordering::Acquire)
    }
}

impl Known {
    fn free(&mut self, mut start: u64, mut end: u64) {
        if start >= end {
            return;
        }
        if let Some((before, dead)) = self.dead.range(..=start).next_back()
            && dead.end >= start
        {
            start = *before;
        }
        let (mut merged, mut unpunched) = (0, 0);
        while let Some(from) = self.dead.range(start..=end).next().map(|(from, _)| *from) {
            let Some(dead) = self.dead.remove(&from) else { break };
            merged += dead.end - from;
            unpunched += dead.unpunched;
            end = end.max(dead.end);
        }
        let new = end - start - merged;
        self.dead_bytes += new;
        self.dead.insert(start, Dead { end, unpunched: unpunched + new });
        self.grown.push(start);
    }
}

/// A range of a segment that one writer owns. Given up when the last holder drops it, so a write still under way in
/// another thread never meets a new owner.
pub struct Reservation {
    segments: Arc<Segments>,
    pub segment: Arc<Segment>,
    pub start: u64,
    bytes: u64,
    /// How much of it became an extent.
    kept: AtomicU64,
}

impl Reservation {
    pub fn address(&self) -> Address {
        // Segments are far shorter than 4 GiB (`segment_bytes_max` is checked at open).
        Address { segment: self.segment.number, offset: self.start as u32 }
    }

    /// The first `bytes` are an extent, written to their end.
    pub fn keep(&self, bytes: u64) {
        self.kept.store(bytes, Ordering::Release);
        self.segment.completed.fetch_add(1, Ordering::AcqRel);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let (from, to) = (self.start + self.kept.load(Ordering::Acquire), self.start + self.bytes);
        let mut state = self.segments.lock();
        let last = state.active.as_mut().filter(|active| active.segment.number == self.segment.number);
        let last = last.filter(|active| active.next == to);
        let given_back = last.map(|active| active.next = from).is_some();
        if let Some(known) = state.known.get_mut(&self.segment.number) {
            if given_back {
                known.used = from;
            } else {
                known.free(from, to);
            }
        }
        drop(state);
        self.segment.writers.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_ranges_merge_and_know_what_was_not_punched() {
        let mut known = Known::default();
        let shown = |known: &Known| {
            let ranges = known.dead.iter().map(|(start, dead)| format!("{start}-{}:{}", dead.end, dead.unpunched));
            format!("{} {}", ranges.collect::<Vec<_>>().join(" "), known.dead_bytes)
        };
        for (start, end, expected) in [
            (10, 20, "10-20:10 10"),
            (30, 40, "10-20:10 30-40:10 20"),
            (5, 5, "10-20:10 30-40:10 20"),
            (40, 45, "10-20:10 30-45:15 25"),
            (12, 18, "10-20:10 30-45:15 25"), // it was dead already
            (18, 32, "10-45:35 35"),
            (0, 50, "0-50:50 50"),
        ] {
            known.free(start, end);
            assert_eq!(shown(&known), expected, "after {start}-{end}");
        }
        known.dead.get_mut(&0).expect("the only one").unpunched = 0;
        known.free(45, 60);
        assert_eq!(shown(&known), "0-60:10 60");
    }

    #[test]
    fn what_gives_back_most_is_punched_first() {
        let dir = tempfile::tempdir().expect("a directory");
        let disk = crate::disk::Directory::open(dir.path()).expect("a disk");
        let segments = Arc::new(Segments::open(Box::new(disk), 1 << 20, None).expect("opened"));
        let reservation = segments.reserve(64 * BLOCK_BYTES).expect("reserved");
        let body = bytes::Bytes::from(vec![7; 64 * BLOCK_BYTES as usize]);
        reservation.segment.file().write_at(0, &[body]).expect("written");
        let blocks = || {
            use std::os::unix::fs::MetadataExt;
            let path = dir.path().join(file_name(1));
            std::fs::metadata(path).expect("a file").blocks() * 512 / BLOCK_BYTES
        };
        for (block, count) in [(0, 1), (10, 4), (20, 2)] {
            segments.free(1, block * BLOCK_BYTES, (block + count) * BLOCK_BYTES);
        }
        let before = blocks();
        let mut given_back = Vec::new();
        for expected in [1, 1, 1, 0] {
            assert_eq!(segments.punch_dead(1).expect("punched"), expected);
            given_back.push(before - blocks());
        }
        // Where the file system cannot, nothing is given back.
        assert!(given_back == [4, 6, 7, 7] || !segments.can_punch(), "{given_back:?}");
    }
}
