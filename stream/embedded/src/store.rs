//! The synchronous core over fjall: checks guards, stages changes, applies them as one batch. It belongs to
//! whoever has the desk, one at a time (`thread.rs`); nobody else writes to fjall.
//!
//! 1. Changes are staged in order, each against the state the ones before it would leave, and applied as ONE fjall batch
//!    with its durability set: fjall writes and syncs its journal before anything of the batch can be seen. Buffered commits
//!    stay on the stage, seen through `buffered.rs`, until something is applied; then all that is staged is one batch.
//!    A batch of nothing but what everybody sees already is written while others stage (`Leaving`): what they stage comes
//!    after it, and is written after it. No other batch is: a commit must not be seen before one with a smaller number.
//! 2. fjall's own `get` may show half a batch. Everything here and in views reads through snapshots.
//! 3. No key is written twice in a fjall batch (all writes of one batch have one sequence number, so two would be in no
//!    order): the stage keeps the last value of each key.
//! 4. A record and its rows in `refs` change in the same batch. So liveness is exact, whatever a crash cuts off.
//! 5. Every accepted commit has a number, one more than the last; the newest is kept in `meta`, in the same batch.
//! 6. The segments that buffered commits name are synced before the batch is written. (Those of synced commits were, before
//!    they were queued.) So what a crash leaves is all commits up to one batch, each with its bodies.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use engine::measure::{Histogram, SIZES};
use engine::{
    Batch, CommitError, Durability, Extent, ExtentSlice, Family, Fault, GroupId, Guard, PartitionId, Revision, Write,
};
use env::Stopwatch;
use fjall::{Database, Keyspace, PersistMode, Readable, Snapshot};

use crate::alive::{Alive, State};
use crate::buffered::Buffered;
use crate::fault;
use crate::key::{self, Address};
use crate::late::Alarm;
use crate::lineage::SEGMENT_KEY;
use crate::segments::Segments;

/// The newest commit number, in `meta`.
pub const COMMIT_KEY: &[u8] = b"commit";
/// Groups whose records are still to be removed, in `meta`.
pub const SWEEP_PREFIX: &[u8] = b"sweep/";

/// Slots of the table behind `Guard::Unchanged`. Two partitions in one slot cost a needless retry, never a wrong pass.
const SLOTS: usize = 65_536;
/// When buffered commits have written this much they are written out, while others go on.
const LEAVING_BYTES: usize = 8 * 1024 * 1024;
/// With this much waiting behind what is being written, everybody waits for it: it is memory.
const BUFFERED_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Groups known not to be fenced. Only this thread fences, so what it has once read stays true until it writes.
const UNFENCED_MAX: usize = 4096;

/// fjall and its keyspaces. Shared with views, which only read.
pub struct Store {
    pub db: Database,
    pub records: Keyspace,
    pub refs: Keyspace,
    pub fences: Keyspace,
    pub meta: Keyspace,
}

impl Store {
    /// The newest commit that a snapshot shows.
    pub fn number_in(&self, snapshot: &Snapshot) -> Result<u64, Fault> {
        match snapshot.get(&self.meta, COMMIT_KEY).map_err(|error| fault("reading the number", error))? {
            None => Ok(0),
            Some(stored) => {
                key::u64_at(&stored, 0).ok_or(Fault::Corrupt { what: "the newest commit number".to_owned() })
            }
        }
    }
}

/// One thing for the commit thread to do.
pub enum Change {
    Commit {
        partition: PartitionId,
        batch: Batch,
        durability: Durability,
    },
    /// Writes what is buffered.
    Sync,
    Fence {
        group: GroupId,
    },
    /// Removes records of a fenced group.
    Remove {
        keys: Vec<Bytes>,
    },
    /// A fenced group has no record left.
    Swept {
        group: GroupId,
    },
    /// Lets the records that name extents name the same bytes elsewhere. Of those that a record by now names other bytes of, or
    /// none at all, nothing is moved; if that is all of them it is a conflict.
    Move {
        moves: Vec<Move>,
    },
}

impl Change {
    /// Whether it is answered only when it is durable.
    pub fn is_synced(&self) -> bool {
        !matches!(self, Change::Commit { durability: Durability::Buffered, .. })
    }
}

/// An extent, what was copied of it, and to where.
pub struct Move {
    pub from: Address,
    pub to: Extent,
    pub copied: Vec<Copied>,
}

/// A run of bytes copied from one extent to another.
#[derive(Clone, Copy)]
pub struct Copied {
    pub from: u64,
    pub to: u64,
    pub bytes: u64,
}

pub type Outcome = Result<Revision, CommitError>;

/// A record to be put, as it is stored, and what it names.
struct NewRecord {
    stored: Bytes,
    slices: Vec<ExtentSlice>,
}

/// Keys with what is to be put there, or `None` to delete.
type Writes = Vec<(Bytes, Option<NewRecord>)>;

/// What the core shares with others.
pub struct Shared {
    pub store: Arc<Store>,
    pub alive: Arc<Alive>,
    pub segments: Arc<Segments>,
    pub buffered: Arc<Buffered>,
    pub numbers: Arc<Numbers>,
}

/// How far commits have come.
pub struct Numbers {
    /// What views may show: set after a batch was applied, or can be seen.
    pub published: AtomicU64,
    /// What fjall has.
    pub applied: AtomicU64,
    /// How many batches were applied.
    pub batches: AtomicU64,
    /// How long each took to be written, and synced where it was to be; and how many changes shared it.
    pub writing: Histogram,
    pub sharing: Histogram,
}

impl Numbers {
    pub fn new(newest: u64) -> Self {
        Numbers {
            published: AtomicU64::new(newest),
            applied: AtomicU64::new(newest),
            batches: AtomicU64::new(0),
            writing: Histogram::of_durations(),
            sharing: Histogram::new(&SIZES),
        }
    }
}

pub struct Core {
    shared: Arc<Shared>,
    persist: PersistMode,
    alarm: Alarm,
    number: u64,
    /// What is buffered.
    stage: Option<Stage>,
    /// What is being written, under the stage.
    leaving: Option<Arc<Leaving>>,
    /// The newest commit number of the partitions that hash to each slot.
    newest: Vec<u64>,
    unfenced: HashSet<GroupId>,
    /// Extents that lost a reference and kept another: candidates for moving.
    shrunk: Vec<Address>,
    /// The highest segment that a commit named so far.
    segment: Option<u64>,
}

impl Core {
    pub fn new(shared: Shared, persist: PersistMode, alarm: Alarm, segment: Option<u64>) -> Self {
        let shared = Arc::new(shared);
        let number = shared.numbers.published.load(Ordering::Acquire);
        // No commit before the start is remembered, so every slot claims the newest: a view's number from before the
        // start passes for nobody.
        let newest = vec![number; SLOTS];
        let (unfenced, shrunk) = (HashSet::new(), Vec::new());
        Core { shared, persist, alarm, number, stage: None, leaving: None, newest, unfenced, shrunk, segment }
    }

    /// Does what can be done; what is left to be written then, by `write`, while others go on. An error means that the outcome is
    /// unknown and nothing may follow.
    pub fn apply(
        &mut self,
        changes: impl Iterator<Item = Change>,
    ) -> Result<(Vec<Outcome>, Option<Arc<Leaving>>), Fault> {
        let mut stage = self.take_stage();
        let mut outcomes = Vec::with_capacity(changes.size_hint().0);
        for change in changes {
            outcomes.push(self.stage(&mut stage, change)?);
        }
        if !stage.changed {
            return Ok((outcomes, None));
        }
        if stage.is_synced {
            self.shared.buffered.begin_write();
            let leaving = self.leave(stage);
            leaving.write()?;
            self.landed(&leaving);
            self.shared.numbers.sharing.add(outcomes.len() as u64);
            return Ok((outcomes, None));
        }
        let is_due = stage.is_asked || stage.buffered_bytes >= LEAVING_BYTES;
        self.show(stage);
        let leaving = self.stage.take_if(|_| is_due).map(|stage| self.leave(stage));
        if leaving.is_some() {
            self.shared.numbers.sharing.add(outcomes.len() as u64);
        }
        self.leaving = leaving.clone();
        Ok((outcomes, leaving))
    }

    /// May a buffered commit be added to what is staged, so that nothing has to be waited for?
    pub fn has_room(&self) -> bool {
        let bytes = self.stage.as_ref().map_or(0, |stage| stage.buffered_bytes);
        self.persist != PersistMode::Buffer && bytes < BUFFERED_BYTES_MAX
    }

    /// Is something being written while others go on?
    pub fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    /// Stages one buffered commit and shows it, where there is room; and tells, once, that it is time to write what is
    /// staged. An error means what it means to `apply`.
    pub fn apply_buffered(&mut self, change: Change) -> Result<(Outcome, bool), Fault> {
        let mut stage = self.take_stage();
        let outcome = self.stage(&mut stage, change)?;
        if !stage.changed {
            return Ok((outcome, false));
        }
        let is_due = !stage.is_asked && stage.buffered_bytes >= LEAVING_BYTES;
        stage.is_asked |= is_due;
        self.show(stage);
        Ok((outcome, is_due))
    }

    fn take_stage(&mut self) -> Stage {
        self.stage.take().unwrap_or_else(|| Stage::new(&self.shared.store, self.leaving.clone()))
    }

    /// Lets everybody see what is staged.
    fn show(&mut self, mut stage: Stage) {
        self.shared.buffered.show(self.number, stage.take_news());
        self.shared.numbers.published.store(self.number, Ordering::Release);
        self.alarm.set();
        self.stage = Some(stage);
    }

    /// Ends the stage: nothing is added to it any more.
    fn leave(&mut self, stage: Stage) -> Arc<Leaving> {
        let named = stage.refs.iter().rev().find(|(_, value)| value.is_some());
        let highest = named.and_then(|(key, _)| key::u64_at(key, 0)).max(self.segment);
        let segment = highest.filter(|_| highest != self.segment);
        self.segment = highest;
        self.shared.alive.announce(stage.dying.iter().map(|(address, (bytes, _))| (*address, *bytes)));
        let Stage { records, refs, fenced, swept, claimed, dying, shrunk, buffered_segments, .. } = stage;
        let records = records.into_iter().filter(|(_, staged)| staged.dirty).map(|(key, staged)| (key, staged.value));
        Arc::new(Leaving {
            shared: Arc::clone(&self.shared),
            persist: self.persist,
            number: self.number,
            records: records.collect(),
            refs,
            fenced,
            swept,
            claimed,
            dying,
            shrunk,
            segment,
            buffered_segments,
        })
    }

    /// What was being written is in fjall.
    pub fn landed(&mut self, leaving: &Leaving) {
        let Shared { store, alive, buffered, numbers, .. } = self.shared.as_ref();
        buffered.clear(leaving.number);
        // What lost its last reference there and was named again since is claimed, and lives by that.
        let named_again: HashSet<&Address> = self.stage.iter().flat_map(|stage| &stage.claimed).collect();
        let dying = leaving.dying.iter().filter(|(address, _)| !named_again.contains(address));
        alive.settle(&leaving.claimed, dying.map(|(address, (bytes, at))| (*address, *bytes, *at)));
        numbers.batches.fetch_add(1, Ordering::Relaxed);
        numbers.applied.store(leaving.number, Ordering::Release);
        numbers.published.store(self.number, Ordering::Release);
        self.shrunk.extend(&leaving.shrunk);
        self.leaving = None;
        if let Some(stage) = &mut self.stage {
            (stage.snapshot, stage.below) = (store.db.snapshot(), None);
        }
    }

    /// Extents that may be mostly dead by now.
    pub fn take_shrunk(&mut self) -> Vec<Address> {
        std::mem::take(&mut self.shrunk)
    }

    /// Writes what is buffered, at the end.
    pub fn finish(&mut self) -> Result<(), Fault> {
        let (_, leaving) = self.apply(std::iter::once(Change::Sync))?;
        let Some(leaving) = leaving else { return Ok(()) };
        leaving.write()?;
        self.landed(&leaving);
        Ok(())
    }

    /// Stages one change. What it needs is read before anything is staged, so that a record that cannot be read fails the
    /// one change that needs it and leaves the others alone; an error from here is one that came too late for that.
    fn stage(&mut self, stage: &mut Stage, change: Change) -> Result<Outcome, Fault> {
        let mut claims = Claims::default();
        let staged = match &change {
            Change::Commit { partition, batch, .. } => self.prepare_commit(stage, &mut claims, partition, batch),
            Change::Sync => {
                stage.is_asked = true;
                return Ok(Ok(Revision(self.number)));
            }
            // A group that is fenced already is fenced again, which changes nothing.
            Change::Fence { .. } | Change::Swept { .. } => Ok(Vec::new()),
            Change::Remove { keys } => prepare_removal(stage, keys),
            Change::Move { moves } => self.prepare_moves(stage, &mut claims, moves),
        };
        let writes = match staged {
            Ok(writes) => writes,
            Err(error) => {
                claims.give_back(stage, &self.shared.alive);
                return Ok(Err(error));
            }
        };
        stage.claimed.extend(claims.kept());
        stage.changed = true;
        if change.is_synced() || self.persist == PersistMode::Buffer {
            // Where a sync is never waited for, there is nothing to be won by writing later.
            stage.is_synced = true;
        } else {
            stage.note_buffered(&writes);
        }
        self.number += 1;
        for (key, value) in writes {
            stage.write(key, value, self.number)?;
        }
        match change {
            Change::Commit { partition, .. } => self.newest[slot(&partition)] = self.number,
            Change::Fence { group } => {
                self.unfenced.remove(&group);
                stage.fenced.insert(group);
            }
            Change::Swept { group } => drop(stage.swept.insert(group)),
            Change::Remove { .. } | Change::Move { .. } | Change::Sync => {}
        }
        Ok(Ok(Revision(self.number)))
    }

    fn prepare_commit(
        &mut self,
        stage: &mut Stage,
        claims: &mut Claims,
        partition: &PartitionId,
        batch: &Batch,
    ) -> Result<Writes, CommitError> {
        if self.is_fenced(stage, &partition.group)? {
            return Err(CommitError::Fenced);
        }
        // Nothing came after what was read, so it is as it was.
        let newest = self.newest[slot(partition)];
        let read_at = batch.guards.iter().filter_map(|guard| match guard {
            Guard::ReadAt(revision) => Some(revision.0),
            _ => None,
        });
        let is_as_read = read_at.min().is_some_and(|revision| newest <= revision);
        for guard in &batch.guards {
            let holds = match guard {
                Guard::At { .. } | Guard::Absent { .. } if is_as_read => true,
                Guard::At { family, key, revision } => {
                    let stored = stage.read(&Bytes::from(key::record_key(partition, *family, key)))?;
                    stored.is_some_and(|stored| key::decode_revision(&stored) == Some(*revision))
                }
                Guard::Absent { family, key } => {
                    stage.read(&Bytes::from(key::record_key(partition, *family, key)))?.is_none()
                }
                Guard::Unchanged(revision) => newest <= revision.0,
                Guard::ReadAt(_) => true,
            };
            if !holds {
                return Err(CommitError::Conflict);
            }
        }
        let revision = Revision(self.number + 1);
        let mut writes = Vec::with_capacity(batch.writes.len());
        for write in &batch.writes {
            let (family, key, stored) = match write {
                Write::Delete { family, key } => (family, key, None),
                Write::Put { family, key, value, slices } => {
                    let stored = key::encode_record(revision, slices, value);
                    (family, key, Some(NewRecord { stored, slices: slices.clone() }))
                }
            };
            let is_new = is_as_read && was_absent(&batch.guards, *family, key);
            let key = Bytes::from(key::record_key(partition, *family, key));
            if is_new {
                stage.know_absent(&key);
            }
            let old = stage.slices(&key)?;
            for address in stored.iter().flat_map(|stored| distinct(&stored.slices)) {
                // What the record named before is alive by that; only what it names anew is in question.
                if !names(&old, address) && !claims.claim(stage, &self.shared.alive, address)? {
                    return Err(CommitError::Conflict);
                }
            }
            writes.push((key, stored));
        }
        Ok(writes)
    }

    fn prepare_moves(&mut self, stage: &mut Stage, claims: &mut Claims, moves: &[Move]) -> Result<Writes, CommitError> {
        // A record may name parts of several extents: what one of them moved is told to the next.
        let mut moved: HashMap<Bytes, NewRecord> = HashMap::new();
        for one in moves {
            let Some(records) = stage.moved_records(one, &moved)?.filter(|records| !records.is_empty()) else {
                continue;
            };
            if claims.claim(stage, &self.shared.alive, Address::of(one.to))? {
                moved.extend(records);
            }
        }
        if moved.is_empty() {
            return Err(CommitError::Conflict);
        }
        Ok(moved.into_iter().map(|(key, record)| (key, Some(record))).collect())
    }

    fn is_fenced(&mut self, stage: &Stage, group: &GroupId) -> Result<bool, Fault> {
        if stage.fenced.contains(group) {
            return Ok(true);
        }
        if self.unfenced.contains(group) {
            return Ok(false);
        }
        let fenced = stage.is_fenced_in_store(group)?;
        if !fenced {
            if self.unfenced.len() >= UNFENCED_MAX {
                self.unfenced.clear();
            }
            self.unfenced.insert(group.clone());
        }
        Ok(fenced)
    }
}

pub fn sweep_key(group: &GroupId) -> Vec<u8> {
    [SWEEP_PREFIX, &group.0].concat()
}

fn slot(partition: &PartitionId) -> usize {
    let mut hasher = DefaultHasher::new();
    partition.hash(&mut hasher);
    hasher.finish() as usize % SLOTS
}

/// Guards that are looked through for what they say of one record; behind more of them it is read instead.
const GUARDS_SEARCHED_MAX: usize = 16;

/// Whoever read it found no such record.
fn was_absent(guards: &[Guard], family: Family, key: &[u8]) -> bool {
    let says_so = |guard: &Guard| matches!(guard, Guard::Absent { family: f, key: k } if *f == family && *k == key);
    guards.len() <= GUARDS_SEARCHED_MAX && guards.iter().any(says_so)
}

/// The old records are read into the stage, where writing will look for them.
fn prepare_removal(stage: &mut Stage, keys: &[Bytes]) -> Result<Writes, CommitError> {
    for key in keys {
        stage.slices(key)?;
    }
    Ok(keys.iter().map(|key| (key.clone(), None)).collect())
}

fn distinct(slices: &[ExtentSlice]) -> Vec<Address> {
    let mut addresses: Vec<Address> = slices.iter().map(|slice| Address::of(slice.extent)).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

fn names(slices: &[ExtentSlice], address: Address) -> bool {
    slices.iter().any(|slice| Address::of(slice.extent) == address)
}

/// A record as the stage has it. Records that were only read are kept too: guard and write ask for the same one.
struct Staged {
    value: Option<Bytes>,
    dirty: bool,
}

/// A stage that nothing is added to any more, on its way to fjall as one batch.
pub struct Leaving {
    shared: Arc<Shared>,
    persist: PersistMode,
    /// Of the newest commit in it.
    number: u64,
    records: HashMap<Bytes, Option<Bytes>>,
    refs: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    fenced: HashSet<GroupId>,
    swept: HashSet<GroupId>,
    claimed: Vec<Address>,
    dying: HashMap<Address, (u32, u64)>,
    shrunk: Vec<Address>,
    /// The highest segment it names, if none was as high before.
    segment: Option<u64>,
    buffered_segments: BTreeSet<u64>,
}

impl Leaving {
    /// Writes it, and syncs it where that is waited for. After a failure nobody knows what the disk has.
    pub fn write(&self) -> Result<(), Fault> {
        let Shared { store, segments, numbers, .. } = self.shared.as_ref();
        for segment in segments.unsynced(self.buffered_segments.iter().copied()) {
            segments.make_durable_now(&segment).map_err(|error| Fault::io("syncing a segment", error))?;
        }
        let mut batch = store.db.batch().durability(Some(self.persist));
        for (key, value) in &self.records {
            match value {
                Some(value) => batch.insert(&store.records, key.clone(), value.clone()),
                None => batch.remove(&store.records, key.clone()),
            }
        }
        if let Some(segment) = self.segment {
            batch.insert(&store.meta, SEGMENT_KEY, segment.to_be_bytes());
        }
        for (key, value) in &self.refs {
            match value {
                Some(value) => batch.insert(&store.refs, key.as_slice(), value.as_slice()),
                None => batch.remove(&store.refs, key.as_slice()),
            }
        }
        for group in &self.fenced {
            batch.insert(&store.fences, group.0.clone(), []);
            batch.insert(&store.meta, sweep_key(group), []);
        }
        for group in &self.swept {
            batch.remove(&store.meta, sweep_key(group));
        }
        batch.insert(&store.meta, COMMIT_KEY, self.number.to_be_bytes());
        let watch = Stopwatch::start();
        batch.commit().map_err(|error| fault("writing a commit", error))?;
        numbers.writing.add(watch.ticks());
        Ok(())
    }
}

/// What changes would leave, over the state fjall has.
struct Stage {
    store: Arc<Store>,
    snapshot: Snapshot,
    /// What is being written, and in the snapshot or not.
    below: Option<Arc<Leaving>>,
    records: HashMap<Bytes, Staged>,
    refs: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    fenced: HashSet<GroupId>,
    swept: HashSet<GroupId>,
    claimed: Vec<Address>,
    dying: HashMap<Address, (u32, u64)>,
    shrunk: Vec<Address>,
    changed: bool,
    /// Something in it is not to be seen before it is durable.
    is_synced: bool,
    /// What is buffered in it is to be made durable.
    is_asked: bool,
    /// Records that were touched since the last time that readers were shown any.
    touched: Vec<Bytes>,
    /// Segments that buffered commits name, and how much these have written.
    buffered_segments: BTreeSet<u64>,
    buffered_bytes: usize,
}

impl Stage {
    fn new(store: &Arc<Store>, below: Option<Arc<Leaving>>) -> Self {
        Stage {
            store: Arc::clone(store),
            snapshot: store.db.snapshot(),
            below,
            records: HashMap::new(),
            refs: BTreeMap::new(),
            fenced: HashSet::new(),
            swept: HashSet::new(),
            claimed: Vec::new(),
            dying: HashMap::new(),
            shrunk: Vec::new(),
            changed: false,
            is_synced: false,
            is_asked: false,
            touched: Vec::new(),
            buffered_segments: BTreeSet::new(),
            buffered_bytes: 0,
        }
    }

    fn note_buffered(&mut self, writes: &Writes) {
        for (key, record) in writes {
            let slices = record.as_ref().map_or(&[][..], |record| &record.slices);
            self.buffered_segments.extend(slices.iter().map(|slice| Address::of(slice.extent).segment));
            self.buffered_bytes += key.len() + record.as_ref().map_or(0, |record| record.stored.len());
        }
    }

    /// What was written since the last time. What was only read is forgotten: the stage may stay for long.
    fn take_news(&mut self) -> impl Iterator<Item = (Bytes, Option<Bytes>)> {
        std::mem::take(&mut self.touched).into_iter().filter_map(|key| match self.records.get(&key) {
            Some(Staged { dirty: true, value }) => Some((key, value.clone())),
            _ => {
                self.records.remove(&key);
                None
            }
        })
    }

    fn is_fenced_in_store(&self, group: &GroupId) -> Result<bool, Fault> {
        self.snapshot.contains_key(&self.store.fences, &group.0).map_err(|error| fault("reading a fence", error))
    }

    fn read(&mut self, key: &Bytes) -> Result<Option<Bytes>, Fault> {
        if let Some(staged) = self.records.get(key) {
            return Ok(staged.value.clone());
        }
        let value = match self.below.as_ref().and_then(|below| below.records.get(key)) {
            Some(leaving) => leaving.clone(),
            None => {
                let stored = self.snapshot.get(&self.store.records, key);
                stored.map_err(|error| fault("reading a record", error))?.map(Bytes::from)
            }
        };
        self.records.insert(key.clone(), Staged { value: value.clone(), dirty: false });
        self.touched.push(key.clone());
        Ok(value)
    }

    /// There is no such record in the store, as is known without reading it.
    fn know_absent(&mut self, key: &Bytes) {
        if !self.records.contains_key(key) {
            self.records.insert(key.clone(), Staged { value: None, dirty: false });
            self.touched.push(key.clone());
        }
    }

    fn slices(&mut self, key: &Bytes) -> Result<Vec<ExtentSlice>, Fault> {
        match self.read(key)? {
            None => Ok(Vec::new()),
            Some(stored) => match key::decode_header(&stored) {
                Some((_, slices)) => Ok(slices),
                None => Err(Fault::Corrupt { what: format!("the header of record {key:?}") }),
            },
        }
    }

    /// Puts or deletes a record and keeps `refs` in step.
    fn write(&mut self, key: Bytes, record: Option<NewRecord>, number: u64) -> Result<(), Fault> {
        let old = self.slices(&key)?;
        let new = record.as_ref().map_or(&[][..], |record| &record.slices);
        if !old.is_empty() || !new.is_empty() {
            self.write_refs(&key, &old, new, number)?;
        }
        let value = record.map(|record| record.stored);
        let staged = self.records.get_mut(&key).expect("reading the record's slices put it on the stage");
        // Deleting what is not there would only leave a tombstone; deleting what this group wrote must still be written,
        // for the record may be in the store.
        staged.dirty |= value.is_some() || staged.value.is_some();
        staged.value = value;
        self.touched.push(key);
        Ok(())
    }

    fn write_refs(&mut self, key: &[u8], old: &[ExtentSlice], new: &[ExtentSlice], number: u64) -> Result<(), Fault> {
        let (old, new) = (by_extent(old), by_extent(new));
        for (address, (bytes, ranges)) in &new {
            if old.get(address).is_some_and(|(_, before)| before == ranges) {
                continue;
            }
            self.refs.insert(key::ref_key(*address, key), Some(key::encode_ref(*bytes, ranges.iter().copied())));
            self.dying.remove(address);
            if old.contains_key(address) {
                self.shrunk.push(*address);
            }
        }
        for (address, (bytes, _)) in &old {
            if new.contains_key(address) {
                continue;
            }
            self.refs.insert(key::ref_key(*address, key), None);
            if self.is_named(*address)? {
                self.shrunk.push(*address);
            } else {
                self.dying.insert(*address, (*bytes as u32, number));
            }
        }
        Ok(())
    }

    /// Whether any record names the extent.
    fn is_named(&self, address: Address) -> Result<bool, Fault> {
        let prefix = address.bytes();
        let below = self.below.as_ref().map(|below| &below.refs);
        let is_in = |refs: &BTreeMap<Vec<u8>, Option<Vec<u8>>>, over: Option<&BTreeMap<_, _>>| {
            let mut named = refs.range(prefix.to_vec()..).take_while(|(key, _)| key.starts_with(&prefix));
            named.any(|(key, value)| value.is_some() && over.is_none_or(|over| !over.contains_key(key)))
        };
        if is_in(&self.refs, None) || below.is_some_and(|below| is_in(below, Some(&self.refs))) {
            return Ok(true);
        }
        for row in self.snapshot.prefix(&self.store.refs, prefix) {
            let key = row.key().map_err(|error| fault("reading references", error))?;
            if !self.refs.contains_key(&*key) && below.is_none_or(|below| !below.contains_key(&*key)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The records that name an extent, rewritten to name what was copied of it; `None` if one of them needs what was not.
    /// `moved` are records that are being rewritten already.
    fn moved_records(
        &mut self,
        Move { from, to, copied }: &Move,
        moved: &HashMap<Bytes, NewRecord>,
    ) -> Result<Option<Vec<(Bytes, NewRecord)>>, Fault> {
        debug_assert!(self.below.is_none(), "only buffered commits are staged over what is being written");
        let prefix = from.bytes();
        let mut keys = HashSet::new();
        for row in self.snapshot.prefix(&self.store.refs, prefix) {
            let key = row.key().map_err(|error| fault("reading references", error))?;
            if !matches!(self.refs.get(&*key), Some(None)) {
                keys.insert(Bytes::copy_from_slice(&key[key::ADDRESS_BYTES..]));
            }
        }
        for (key, value) in self.refs.range(prefix.to_vec()..).take_while(|(key, _)| key.starts_with(&prefix)) {
            if value.is_some() {
                keys.insert(Bytes::copy_from_slice(&key[key::ADDRESS_BYTES..]));
            }
        }
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            let stored = match moved.get(&key) {
                Some(record) => Some(record.stored.clone()),
                None => self.read(&key)?,
            };
            let Some(mut record) = stored.and_then(key::decode_record) else {
                return Err(Fault::Corrupt {
                    what: format!("a reference to {from:?} from a record that is not there"),
                });
            };
            for slice in record.slices.iter_mut().filter(|slice| Address::of(slice.extent) == *from) {
                let inside =
                    |run: &&Copied| run.from <= slice.offset && slice.offset + slice.bytes <= run.from + run.bytes;
                let Some(run) = copied.iter().find(inside) else { return Ok(None) };
                *slice = ExtentSlice { extent: *to, offset: slice.offset - run.from + run.to, bytes: slice.bytes };
            }
            let stored = key::encode_record(record.revision, &record.slices, &record.value);
            found.push((key, NewRecord { stored, slices: record.slices }));
        }
        Ok(Some(found))
    }
}

/// An extent's length and the ranges of it that a record names, per extent.
pub fn by_extent(slices: &[ExtentSlice]) -> BTreeMap<Address, (u64, Vec<(u64, u64)>)> {
    let mut found: BTreeMap<Address, (u64, Vec<(u64, u64)>)> = BTreeMap::new();
    for slice in slices {
        let entry = found.entry(Address::of(slice.extent)).or_insert((slice.extent.bytes, Vec::new()));
        entry.1.push((slice.offset, slice.bytes));
    }
    found
}

/// What one commit claimed so far, to be given back if it comes to nothing.
#[derive(Default)]
struct Claims {
    taken: Vec<(Address, State)>,
    revived: Vec<(Address, (u32, u64))>,
}

impl Claims {
    /// Whether the extent is alive; if so, it stays so until the commit is settled.
    fn claim(&mut self, stage: &mut Stage, alive: &Alive, address: Address) -> Result<bool, Fault> {
        if let Some(was) = stage.dying.remove(&address) {
            // It lost its last reference in this very group: nobody can have condemned it yet.
            self.revived.push((address, was));
            return Ok(true);
        }
        if let Some(was) = alive.claim(address) {
            self.taken.push((address, was));
            return Ok(true);
        }
        stage.is_named(address)
    }

    fn give_back(self, stage: &mut Stage, alive: &Alive) {
        stage.dying.extend(self.revived);
        for (address, was) in self.taken.into_iter().rev() {
            alive.unclaim(address, was);
        }
    }

    fn kept(self) -> impl Iterator<Item = Address> {
        self.taken.into_iter().map(|(address, _)| address)
    }
}
