//! The reference engine: plain maps under one mutex, nothing on disk.
//!
//! It is stricter than the contract asks, so that what leans on a luxury fails here first:
//!
//! 1. A batch that writes one record twice, a slice outside its extent, a key too long, a pin on a dead extent are bugs
//!    of the caller and panic.
//! 2. An extent that nothing keeps alive is removed at once, not some time later.
//! 3. A read gives back fewer bytes than asked for whenever the slice is long.
//! 4. `Guard::Unchanged` is exact, and a fenced group is empty when `fence` returns.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};

use crate::{
    Batch, BoxFuture, CommitError, Durability, EXTENT_BYTES_MAX, Engine, Extent, ExtentError, ExtentSlice, Family,
    Fault, GROUP_BYTES_MAX, GroupId, GroupRange, Guard, KEY_BYTES_MAX, KeyRange, Page, PartitionId, Pin, Record,
    Revision, Row, ScanStart, Source, View, Write,
};

#[cfg(feature = "suite")]
pub mod shared;

/// No read returns more than this, so that callers learn to ask again. A prime, so that nobody comes to expect whole
/// pages.
const READ_BYTES_MAX: u64 = 65_521;

/// The reference engine. Clones are the same store.
#[derive(Clone, Default)]
pub struct MemoryEngine {
    state: Arc<Mutex<State>>,
}

/// (partition key, record key) inside a group's family.
type Place = (Bytes, Bytes);

#[derive(Default)]
struct State {
    families: HashMap<(GroupId, Family), BTreeMap<Place, Record>>,
    /// The newest commit of each partition.
    newest: HashMap<PartitionId, u64>,
    commits: u64,
    fenced: HashSet<GroupId>,
    extents: HashMap<u128, Bytes>,
    /// How many records, pins and open views keep an extent. An extent that falls to zero is removed.
    holders: HashMap<u128, usize>,
    extents_made: u128,
    /// How many processes share it.
    #[cfg(feature = "suite")]
    processes: u64,
}

impl State {
    fn hold(&mut self, id: u128) {
        *self.holders.entry(id).or_insert(0) += 1;
    }

    fn release(&mut self, id: u128) {
        let count = self.holders.get_mut(&id).expect("whoever releases an extent held it");
        *count -= 1;
        if *count == 0 {
            self.holders.remove(&id);
            self.extents.remove(&id);
        }
    }

    fn record(&self, partition: &PartitionId, family: Family, key: &Bytes) -> Option<&Record> {
        let records = self.families.get(&(partition.group.clone(), family))?;
        records.get(&(partition.key.clone(), key.clone()))
    }

    fn holds(&self, partition: &PartitionId, guard: &Guard) -> bool {
        match guard {
            Guard::At { family, key, revision } => {
                self.record(partition, *family, key).is_some_and(|record| record.revision == *revision)
            }
            Guard::Absent { family, key } => self.record(partition, *family, key).is_none(),
            Guard::Unchanged(revision) => self.newest(partition) <= revision.0,
            Guard::ReadAt(_) => true,
        }
    }

    /// The revision of the newest commit of a partition.
    fn newest(&self, partition: &PartitionId) -> u64 {
        self.newest.get(partition).copied().unwrap_or(0)
    }

    fn put(&mut self, partition: &PartitionId, family: Family, key: Bytes, record: Option<Record>) {
        for id in record.iter().flat_map(|record| ids(&record.slices)).collect::<Vec<_>>() {
            self.hold(id);
        }
        let records = self.families.entry((partition.group.clone(), family)).or_default();
        let place = (partition.key.clone(), key);
        let old = match record {
            Some(record) => records.insert(place, record),
            None => records.remove(&place),
        };
        for id in old.iter().flat_map(|record| ids(&record.slices)).collect::<Vec<_>>() {
            self.release(id);
        }
    }

    /// The revision is `at_least` this.
    fn commit(&mut self, partition: &PartitionId, batch: Batch, at_least: u64) -> Result<Revision, CommitError> {
        if self.fenced.contains(&partition.group) {
            return Err(CommitError::Fenced);
        }
        if !batch.guards.iter().all(|guard| self.holds(partition, guard)) {
            return Err(CommitError::Conflict);
        }
        for write in &batch.writes {
            let Write::Put { slices, .. } = write else { continue };
            for slice in slices {
                match self.extents.get(&slice.extent.id) {
                    None => return Err(CommitError::Conflict),
                    Some(bytes) => assert_eq!(bytes.len() as u64, slice.extent.bytes, "an extent's length is its own"),
                }
            }
        }
        self.commits += 1;
        let revision = Revision(at_least.max(self.newest(partition) + 1));
        self.newest.insert(partition.clone(), revision.0);
        // The batch is one step: what one write takes away and another names was never gone.
        let named: BTreeSet<u128> = batch
            .writes
            .iter()
            .flat_map(|write| match write {
                Write::Put { slices, .. } => ids(slices),
                Write::Delete { .. } => BTreeSet::new(),
            })
            .collect();
        for id in &named {
            self.hold(*id);
        }
        for write in batch.writes {
            match write {
                Write::Put { family, key, value, slices } => {
                    self.put(partition, family, key, Some(Record { revision, value, slices }));
                }
                Write::Delete { family, key } => self.put(partition, family, key, None),
            }
        }
        for id in named {
            self.release(id);
        }
        Ok(revision)
    }
}

impl MemoryEngine {
    pub fn new() -> Self {
        Self::default()
    }

    /// How many extents are alive; for tests of those who make and drop them.
    pub fn extents(&self) -> usize {
        self.lock().extents.len()
    }

    /// How many batches were committed; for tests that nothing was.
    pub fn commits(&self) -> u64 {
        self.lock().commits
    }

    /// The newest state of a partition.
    fn look(&self, partition: &PartitionId) -> MemoryView {
        let mut state = self.lock();
        let mut families = BTreeMap::new();
        for ((group, family), records) in &state.families {
            if *group == partition.group {
                let start = (partition.key.clone(), Bytes::new());
                let own = records.range(start..).take_while(|(place, _)| place.0 == partition.key);
                families.insert(*family, own.map(|(place, record)| (place.1.clone(), record.clone())).collect());
            }
        }
        let ids: BTreeSet<u128> = families
            .values()
            .flat_map(|records: &BTreeMap<Bytes, Record>| records.values())
            .flat_map(|record| ids(&record.slices))
            .collect();
        for id in &ids {
            state.hold(*id);
        }
        let revision = Revision(state.newest(partition));
        drop(state);
        let held = Held { engine: self.clone(), ids: ids.into_iter().collect() };
        MemoryView { revision, families, _held: held }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock is an assertion about the caller's batch, made before anything changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pin_locked(&self, state: &mut State, extent: Extent) -> Pin {
        assert!(state.extents.contains_key(&extent.id), "a pin is taken while something keeps the extent alive");
        state.hold(extent.id);
        Pin::new(extent, Arc::new(Held { engine: self.clone(), ids: vec![extent.id] }))
    }
}

impl Engine for MemoryEngine {
    fn view<'a>(&'a self, partition: &'a PartitionId) -> BoxFuture<'a, Result<Box<dyn View>, Fault>> {
        Box::pin(std::future::ready(Ok(Box::new(self.look(partition)) as Box<dyn View>)))
    }
    fn scan<'a>(&'a self, range: &'a GroupRange, limit: usize) -> BoxFuture<'a, Result<Page, Fault>> {
        let state = self.lock();
        let mut rows = Vec::new();
        if let Some(records) = state.families.get(&(range.group.clone(), range.family)) {
            let start = match &range.start {
                ScanStart::AtPartition(partition) => Bound::Included((partition.clone(), Bytes::new())),
                ScanStart::After { partition, key } => Bound::Excluded((partition.clone(), key.clone())),
            };
            let inside = records
                .range((start, Bound::Unbounded))
                .take_while(|(place, _)| range.before_partition.as_ref().is_none_or(|before| place.0 < *before));
            rows.extend(inside.take(limit.saturating_add(1)).map(|(place, record)| Row {
                partition: place.0.clone(),
                key: place.1.clone(),
                record: record.clone(),
            }));
        }
        let more = rows.len() > limit;
        rows.truncate(limit);
        Box::pin(std::future::ready(Ok(Page { rows, more })))
    }

    fn commit<'a>(
        &'a self,
        partition: &'a PartitionId,
        batch: Batch,
        _: Durability,
    ) -> BoxFuture<'a, Result<Revision, CommitError>> {
        check(partition, &batch);
        Box::pin(async move {
            let mut state = self.lock();
            let next = state.commits + 1;
            state.commit(partition, batch, next)
        })
    }

    fn chains(&self) -> bool {
        true
    }

    /// Nothing outlives this engine: what can be seen is as durable as anything in it.
    fn sync(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn write_extent<'a>(
        &'a self,
        source: &'a mut dyn Source,
        bytes_max: u64,
    ) -> BoxFuture<'a, Result<Option<Pin>, ExtentError>> {
        assert!(bytes_max > 0 && bytes_max <= EXTENT_BYTES_MAX, "an extent has 1 to EXTENT_BYTES_MAX bytes");
        Box::pin(async move {
            let mut taken = BytesMut::new();
            while (taken.len() as u64) < bytes_max {
                let wanted = (bytes_max - taken.len() as u64) as usize;
                match source.next(wanted).await.map_err(ExtentError::Source)? {
                    None => break,
                    Some(part) => {
                        assert!(!part.is_empty() && part.len() <= wanted, "a source gives what it is asked for");
                        taken.extend_from_slice(&part);
                    }
                }
            }
            if taken.is_empty() {
                return Ok(None);
            }
            let mut state = self.lock();
            state.extents_made += 1;
            let extent = Extent { id: state.extents_made, bytes: taken.len() as u64 };
            state.extents.insert(extent.id, taken.freeze());
            Ok(Some(self.pin_locked(&mut state, extent)))
        })
    }

    fn read_extent(&self, slice: ExtentSlice) -> BoxFuture<'_, Result<Bytes, Fault>> {
        check_slice(&slice);
        let bytes = match self.lock().extents.get(&slice.extent.id) {
            None => Err(Fault::Corrupt { what: format!("extent {} is not alive", slice.extent.id) }),
            Some(bytes) => {
                let end = slice.offset + slice.bytes.min(READ_BYTES_MAX);
                Ok(bytes.slice(slice.offset as usize..end as usize))
            }
        };
        Box::pin(std::future::ready(bytes))
    }

    fn pin(&self, extent: Extent) -> Pin {
        let mut state = self.lock();
        self.pin_locked(&mut state, extent)
    }

    fn fence<'a>(&'a self, group: &'a GroupId) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            let mut state = self.lock();
            state.fenced.insert(group.clone());
            let families: Vec<_> = state.families.keys().filter(|(of, _)| of == group).cloned().collect();
            for family in families {
                for record in state.families.remove(&family).unwrap_or_default().into_values() {
                    for id in ids(&record.slices) {
                        state.release(id);
                    }
                }
            }
            Ok(())
        })
    }
}

struct MemoryView {
    revision: Revision,
    families: BTreeMap<Family, BTreeMap<Bytes, Record>>,
    _held: Held,
}

impl View for MemoryView {
    fn revision(&self) -> Revision {
        self.revision
    }

    fn get<'a>(&'a self, family: Family, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Record>, Fault>> {
        let record = self.families.get(&family).and_then(|records| records.get(key)).cloned();
        Box::pin(std::future::ready(Ok(record)))
    }

    fn scan<'a>(
        &'a self,
        family: Family,
        range: &'a KeyRange,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<(Bytes, Record)>, Fault>> {
        // A filter rather than `range`, which panics where the bounds cross: an empty range is no mistake.
        let inside = |key: &Bytes| {
            (match &range.start {
                Bound::Included(start) => key >= start,
                Bound::Excluded(start) => key > start,
                Bound::Unbounded => true,
            }) && (match &range.end {
                Bound::Included(end) => key <= end,
                Bound::Excluded(end) => key < end,
                Bound::Unbounded => true,
            })
        };
        let records = self.families.get(&family).into_iter().flatten();
        let found = records.filter(|(key, _)| inside(key)).take(limit);
        let found = found.map(|(key, record)| (key.clone(), record.clone())).collect();
        Box::pin(std::future::ready(Ok(found)))
    }
}

/// Extents kept alive by a pin or a view.
struct Held {
    engine: MemoryEngine,
    ids: Vec<u128>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.engine.lock();
        for id in &self.ids {
            state.release(*id);
        }
    }
}

/// The distinct extents a record names.
fn ids(slices: &[ExtentSlice]) -> BTreeSet<u128> {
    slices.iter().map(|slice| slice.extent.id).collect()
}

/// What every caller owes an engine; see the documentation of `Batch` and the limits beside it.
fn check(partition: &PartitionId, batch: &Batch) {
    assert!((1..=GROUP_BYTES_MAX).contains(&partition.group.0.len()), "a group id has 1 to 255 bytes");
    assert!(partition.key.len() <= KEY_BYTES_MAX, "a partition key is at most KEY_BYTES_MAX long");
    let mut written = HashSet::new();
    for write in &batch.writes {
        let (family, key) = match write {
            Write::Put { family, key, slices, .. } => {
                slices.iter().for_each(check_slice);
                (family, key)
            }
            Write::Delete { family, key } => (family, key),
        };
        assert!(key.len() <= KEY_BYTES_MAX, "a record key is at most KEY_BYTES_MAX long");
        assert!(written.insert((family, key)), "a batch writes each record once");
    }
}

fn check_slice(slice: &ExtentSlice) {
    let end = slice.offset.checked_add(slice.bytes);
    assert!(end.is_some_and(|end| end <= slice.extent.bytes), "a slice lies inside its extent");
}
