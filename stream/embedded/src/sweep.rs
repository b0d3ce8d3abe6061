//! The housekeeper: one thread that wakes about once a second. It notes the newest durable commit, watches the room on
//! the disk, removes the records of fenced groups, gives the space of dead extents back, moves what little is left of
//! mostly dead ones, and after a start looks once through the old segments for what a crash left behind.
//!
//! 1. All changes of records go through the commit thread, in bounded batches; nothing here writes to fjall.
//! 2. Nothing here is needed for correctness: whatever is not done before a crash is found again after it. What remains
//!    of a fenced group is listed in `meta`; what no row of `refs` covers is garbage.
//! 3. Space is given back only when `Alive::condemn` gave an extent out, or a survey found a range with no reference and
//!    no entry.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use engine::{CommitError, ExtentSlice, Fault, GroupId, Pin};
use fjall::{PersistMode, Readable};

use crate::alive::{Alive, PinHold};
use crate::key::{self, Address};
use crate::note::{Note, Noted};
use crate::room::Room;
use crate::segments::Segments;
use crate::store::{Change, Copied, Move, Numbers, SWEEP_PREFIX, Store};
use crate::thread::{Queue, Stop};
use crate::{extents, fault};

const TICK: Duration = Duration::from_secs(1);
/// Records removed in one batch: little enough that a commit waiting behind it hardly notices.
const REMOVE_MAX: usize = 256;
/// Old segments looked through per wake-up.
const SURVEYS_PER_TICK: usize = 16;
/// An extent is moved when less than a quarter of it is named, and when that frees at least two blocks.
const LIVE_DIVISOR: u64 = 4;
const GAIN_BYTES_MIN: u64 = 2 * 4096;
/// Extents moved together, and their bytes: one sync and one commit for all of them, and what is copied is in memory for a moment.
const MOVES_MAX: usize = 256;
const MOVED_BYTES_MAX: u64 = 4 << 20;
/// Ranges of which the space is given back per wake-up: some tenths of a second, where others write to the same disk.
const PUNCHES_PER_TICK: usize = 4096;

pub enum Wake {
    Fenced(GroupId),
    /// Do everything there is to do, then answer.
    Now(SyncSender<Result<(), Fault>>),
    Close,
}

pub struct Sweeper {
    pub store: Arc<Store>,
    pub segments: Arc<Segments>,
    pub alive: Arc<Alive>,
    pub queue: Queue,
    pub stop: Arc<Stop>,
    pub room: Arc<Room>,
    pub numbers: Arc<Numbers>,
    /// Set before `Wake::Close` is sent, so that long work ends early.
    pub closing: Arc<AtomicBool>,
    /// Whether commits are durable when they are acknowledged: only then are they noted.
    pub durable: bool,
    /// Extents that lost a reference and kept another, as the commit thread saw them.
    pub shrunk: Arc<Mutex<HashSet<Address>>>,
    pub note: Note,
}

/// What is still to be done.
#[derive(Default)]
struct Work {
    groups: VecDeque<(GroupId, Option<Bytes>)>,
    old_segments: VecDeque<u64>,
    shrunk: HashSet<Address>,
    /// Segments in which something died since they were last looked at.
    touched: BTreeSet<u64>,
    /// Ranges of which space may still be given back in this round.
    punches: usize,
}

/// What lives in a segment.
struct Survey {
    /// Start and end of live extents, checksums included, in order.
    live: Vec<(u64, u64)>,
    /// Extents of which little is named.
    sparse: Vec<Address>,
    extents: Vec<Address>,
}

impl Sweeper {
    /// Runs until it is closed; gives the note back for the last word.
    pub fn run(mut self, wakes: &Receiver<Wake>) -> Note {
        let mut work = Work::default();
        work.old_segments.extend(self.segments.sealed().into_iter().map(|(number, _)| number));
        let mut begun = false;
        loop {
            let mut answers = Vec::new();
            let mut wake = match wakes.recv_timeout(TICK) {
                Ok(wake) => Some(wake),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return self.note,
            };
            while let Some(message) = wake {
                match message {
                    Wake::Fenced(group) => work.groups.push_back((group, None)),
                    Wake::Now(answer) => answers.push(answer),
                    Wake::Close => return self.note,
                }
                wake = wakes.try_recv().ok();
            }
            let mut outcome = self.stop.check();
            if outcome.is_ok() && !begun {
                outcome = self.find_groups(&mut work);
                begun = outcome.is_ok();
            }
            if outcome.is_ok() {
                work.shrunk.extend(self.shrunk.lock().unwrap_or_else(PoisonError::into_inner).drain());
                outcome = self.round(&mut work, !answers.is_empty());
                if let Err(fault) = &outcome {
                    // What is not cleaned now is cleaned later; whoever reads damaged data is told by the read itself.
                    tracing::warn!(%fault, "cleaning up did not succeed");
                }
            }
            for answer in answers {
                // Whoever asked may have gone.
                let _ = answer.send(outcome.clone());
            }
        }
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    fn find_groups(&self, work: &mut Work) -> Result<(), Fault> {
        for row in self.store.db.snapshot().prefix(&self.store.meta, SWEEP_PREFIX) {
            let key = row.key().map_err(|error| fault("reading the groups to sweep", error))?;
            work.groups.push_back((GroupId(Bytes::copy_from_slice(&key[SWEEP_PREFIX.len()..])), None));
        }
        Ok(())
    }

    fn round(&mut self, work: &mut Work, all: bool) -> Result<(), Fault> {
        if all {
            // What buffered commits took away can go only when they are on the disk.
            self.queue.run_blocking(Change::Sync).map_err(broken)?;
        }
        work.punches = if all { usize::MAX } else { PUNCHES_PER_TICK };
        self.note()?;
        self.room.measure().map_err(|error| Fault::io("asking how much room the disk has", error))?;
        self.remove_groups(work)?;
        let surveys = if all { usize::MAX } else { SURVEYS_PER_TICK };
        for _ in 0..surveys {
            let Some(number) = work.old_segments.pop_front() else { break };
            if self.is_closing() {
                return Ok(());
            }
            self.clean_segment(number, work)?;
        }
        self.bury(work)?;
        if !self.segments.can_punch() {
            self.rewrite_half_dead(work)?;
        }
        let shrunk = std::mem::take(&mut work.shrunk);
        self.move_extents(shrunk.into_iter(), false)?;
        // What was moved left its old place, unless a view or a pin still holds it there.
        self.bury(work)
    }

    fn note(&mut self) -> Result<(), Fault> {
        let number = self.numbers.applied.load(Ordering::Acquire);
        if !self.durable || number == self.note.last.number {
            return Ok(());
        }
        self.note.write(Noted { number, ..self.note.last }).map_err(|error| {
            self.stop.set(format!("writing the durable note: {error}"));
            Fault::io("writing the durable note", error)
        })
    }

    /// Removes the records of fenced groups. Each batch begins where the last one ended: walking over the tombstones it
    /// left would take longer with every batch.
    fn remove_groups(&self, work: &mut Work) -> Result<(), Fault> {
        while let Some((group, mut after)) = work.groups.pop_front() {
            loop {
                if self.is_closing() {
                    return Ok(());
                }
                let prefix = key::group_prefix(&group);
                let end = key::after_prefix(prefix.clone()).map_or(Bound::Unbounded, Bound::Excluded);
                let start = match &after {
                    Some(key) => Bound::Excluded(key.to_vec()),
                    None => Bound::Included(prefix),
                };
                let mut keys = Vec::new();
                let snapshot = self.store.db.snapshot();
                for row in snapshot.range::<Vec<u8>, _>(&self.store.records, (start, end)).take(REMOVE_MAX) {
                    let key = row.key().map_err(|error| fault("reading a fenced group", error))?;
                    keys.push(Bytes::from(key));
                }
                drop(snapshot);
                let change = match keys.last().cloned() {
                    None => Change::Swept { group: group.clone() },
                    Some(last) => {
                        after = Some(last);
                        Change::Remove { keys }
                    }
                };
                let done = matches!(change, Change::Swept { .. });
                if let Err(error) = self.queue.run_blocking(change) {
                    work.groups.push_front((group, after));
                    return Err(broken(error));
                }
                if done {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Gives back what nobody can reach any more.
    fn bury(&self, work: &mut Work) -> Result<(), Fault> {
        let condemned = self.alive.condemn();
        if !condemned.is_empty() {
            self.make_removals_durable()?;
        }
        for (address, bytes) in condemned {
            let start = u64::from(address.offset);
            self.segments.free(address.segment, start, start + extents::stored_bytes(u64::from(bytes)));
            work.touched.insert(address.segment);
        }
        self.punch(work)?;
        for (number, used) in self.segments.sealed() {
            if work.touched.contains(&number) && self.segments.dead_bytes(number) >= used {
                work.touched.remove(&number);
                self.clean_segment(number, work)?;
            }
        }
        Ok(())
    }

    /// Space may be given back only when the removal of what named it is on the disk, or a power cut would bring back
    /// records whose bytes are gone. With full durability it always is.
    fn make_removals_durable(&self) -> Result<(), Fault> {
        if self.durable {
            return Ok(());
        }
        self.store.db.persist(PersistMode::SyncData).map_err(|error| fault("syncing the journal", error))
    }

    /// Looks through a segment that is not written to: what no record names is given back, and if that is all, the file
    /// goes.
    fn clean_segment(&self, number: u64, work: &mut Work) -> Result<(), Fault> {
        let Some(used) = self.segments.used_bytes(number) else { return Ok(()) };
        let Some(survey) = self.survey(number)? else {
            // An extent came back to life in the meantime. The next time will do.
            work.old_segments.push_back(number);
            return Ok(());
        };
        self.make_removals_durable()?;
        if survey.live.is_empty() {
            return self.segments.remove(number).map_err(|error| Fault::io("removing an empty segment", error));
        }
        let mut from = 0;
        for (start, end) in survey.live {
            self.segments.free(number, from, start);
            from = from.max(end);
        }
        self.segments.free(number, from, used);
        work.shrunk.extend(survey.sparse);
        self.punch(work)
    }

    fn punch(&self, work: &mut Work) -> Result<(), Fault> {
        let punched = self.segments.punch_dead(work.punches).map_err(|error| Fault::io("giving space back", error))?;
        work.punches = work.punches.saturating_sub(punched);
        Ok(())
    }

    /// What lives in a segment: the extents `refs` has, and those it does not have yet or has no more. Entries are read
    /// before and after the snapshot, so that one on its way between the two is seen; one that went there and back shows
    /// in the count of revivals, and then there is no answer.
    fn survey(&self, number: u64) -> Result<Option<Survey>, Fault> {
        let (before, revivals) = self.alive.entries_of(number);
        let snapshot = self.store.db.snapshot();
        let mut found: BTreeMap<Address, (u32, Vec<(u32, u32)>)> = BTreeMap::new();
        for row in snapshot.prefix(&self.store.refs, number.to_be_bytes()) {
            let (key, value) = row.into_inner().map_err(|error| fault("reading references", error))?;
            let row = key::decode_ref_key(&key).zip(key::decode_ref(&value));
            let Some(((address, _), (bytes, ranges))) = row else {
                return Err(Fault::Corrupt { what: format!("a reference to segment {number}") });
            };
            let entry = found.entry(address).or_insert((bytes, Vec::new()));
            entry.1.extend(ranges);
        }
        drop(snapshot);
        let (after, revivals_after) = self.alive.entries_of(number);
        if revivals != revivals_after {
            return Ok(None);
        }
        let whole = |address: &Address, bytes: u32| {
            let start = u64::from(address.offset);
            (start, start + extents::stored_bytes(u64::from(bytes)))
        };
        let mut live: Vec<(u64, u64)> = found.iter().map(|(address, (bytes, _))| whole(address, *bytes)).collect();
        live.extend(before.iter().chain(&after).map(|(address, bytes)| whole(address, *bytes)));
        live.sort_unstable();
        let mut sparse = Vec::new();
        for (address, (bytes, ranges)) in &found {
            if is_worth_moving(u64::from(*bytes), total(&merged(ranges))) {
                sparse.push(*address);
            }
        }
        Ok(Some(Survey { live, sparse, extents: found.into_keys().collect() }))
    }

    /// Where holes cannot be punched, the living leave segments that are half dead.
    fn rewrite_half_dead(&self, work: &mut Work) -> Result<(), Fault> {
        for (number, used) in self.segments.sealed() {
            if self.segments.dead_bytes(number).saturating_mul(2) <= used || !work.touched.contains(&number) {
                continue;
            }
            let Some(survey) = self.survey(number)? else { continue };
            self.move_extents(survey.extents.into_iter(), true)?;
        }
        self.bury(work)
    }

    /// Moves extents, as many together as are small: `always`, or where little of them is named.
    fn move_extents(&self, mut extents: impl Iterator<Item = Address>, always: bool) -> Result<(), Fault> {
        loop {
            let (mut copies, mut bytes, mut is_last) = (Vec::new(), 0, false);
            while copies.len() < MOVES_MAX && bytes < MOVED_BYTES_MAX && !is_last {
                let next = extents.next().filter(|_| !self.is_closing());
                is_last = next.is_none();
                if let Some(copy) = next.map(|address| self.copy_extent(address, always)).transpose()?.flatten() {
                    bytes += copy.to.extent().bytes;
                    copies.push(copy);
                }
            }
            if !copies.is_empty() {
                self.name_copies(&copies)?;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Copies the named parts of an extent to a new one, if that is worth it.
    fn copy_extent(&self, address: Address, always: bool) -> Result<Option<Copy>, Fault> {
        // The view keeps what the snapshot names alive until the pin is taken.
        let view = self.alive.open_view(self.numbers.published.load(Ordering::Acquire));
        let snapshot = self.store.db.snapshot();
        let (mut extent_bytes, mut ranges) = (0, Vec::new());
        for row in snapshot.prefix(&self.store.refs, address.bytes()) {
            let value = row.value().map_err(|error| fault("reading references", error))?;
            let Some((bytes, named)) = key::decode_ref(&value) else {
                return Err(Fault::Corrupt { what: format!("a reference to {address:?}") });
            };
            extent_bytes = bytes;
            ranges.extend(named);
        }
        drop(snapshot);
        let runs = merged(&ranges);
        let live = total(&runs);
        if live == 0 || !(always || is_worth_moving(u64::from(extent_bytes), live)) {
            return Ok(None);
        }
        let pin = self.alive.pin(address);
        drop(view);
        self.room.admit(live)?;
        let (mut parts, mut copied) = (Vec::new(), Vec::new());
        let mut to = 0;
        for (offset, bytes) in runs {
            let (from, bytes) = (u64::from(offset), u64::from(bytes));
            let extent = address.extent(extent_bytes);
            parts.extend(extents::read_now(&self.segments, ExtentSlice { extent, offset: from, bytes })?);
            copied.push(Copied { from, to, bytes });
            to += bytes;
        }
        let to = extents::write_now(&self.segments, &self.alive, parts);
        let to = to.map_err(|error| Fault::io(MOVING, error))?;
        Ok(Some(Copy { from: address, _pin: pin, to, copied }))
    }

    /// Lets the records name the copies, which are on the disk by then.
    fn name_copies(&self, copies: &[Copy]) -> Result<(), Fault> {
        if self.durable {
            let segments: BTreeSet<u64> = copies.iter().map(|copy| Address::of(copy.to.extent()).segment).collect();
            for segment in self.segments.unsynced(segments.into_iter()) {
                self.segments.make_durable_now(&segment).map_err(|error| {
                    self.stop.set(format!("syncing a segment: {error}"));
                    Fault::io(MOVING, error)
                })?;
            }
        }
        let moves = copies.iter().map(|Copy { from, to, copied, .. }| Move {
            from: *from,
            to: to.extent(),
            copied: copied.clone(),
        });
        match self.queue.run_blocking(Change::Move { moves: moves.collect() }) {
            // Other records named other parts of them in the meantime, or none does any more: they stay where they are.
            Ok(_) | Err(CommitError::Conflict) => Ok(()),
            Err(error) => Err(broken(error)),
        }
    }
}

const MOVING: &str = "moving what is left of an extent";

/// What is left of an extent, in its new place. Both stay while this exists.
struct Copy {
    from: Address,
    _pin: PinHold,
    to: Pin,
    copied: Vec<Copied>,
}

/// Tells the sweeper something; if it is gone there is nothing to tell.
pub fn tell(wakes: &Sender<Wake>, wake: Wake) {
    let _ = wakes.send(wake);
}

fn broken(error: CommitError) -> Fault {
    match error {
        CommitError::Fault(fault) => fault,
        other => Fault::Other { doing: "sweeping".to_owned(), detail: format!("{other:?}") },
    }
}

fn is_worth_moving(bytes: u64, live: u64) -> bool {
    live < bytes / LIVE_DIVISOR && bytes - live >= GAIN_BYTES_MIN
}

/// Ranges in order, those that touch or overlap made one.
fn merged(ranges: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let mut sorted: Vec<(u32, u32)> = ranges.to_vec();
    sorted.sort_unstable();
    let mut out: Vec<(u32, u32)> = Vec::new();
    for (offset, bytes) in sorted {
        match out.last_mut() {
            Some((start, length)) if *start + *length >= offset => {
                *length = (*length).max((offset + bytes) - *start);
            }
            _ => out.push((offset, bytes)),
        }
    }
    out
}

fn total(ranges: &[(u32, u32)]) -> u64 {
    ranges.iter().map(|(_, bytes)| u64::from(*bytes)).sum()
}
