//! What this process has seen lately: records that name no extent, by their revision; and of partitions which of the records that come
//! with a view name none or are not there, by the partition's revision. A commit that writes over what was just loaded, or came with
//! it, needs no look at what it replaces.

use std::collections::HashMap;
use std::sync::Mutex;

use bytes::Bytes;
use engine::{Family, Revision};

/// Entries of each of the two halves.
const HALF_ENTRIES_MAX: usize = 32 * 1024;

#[derive(Default)]
pub struct Memo {
    records: Mutex<Halves<Revision>>,
    openings: Mutex<Halves<Plain>>,
}

/// By shard and key. When the younger half is full the older is forgotten.
struct Halves<T> {
    young: HashMap<(u64, Bytes), T>,
    old: HashMap<(u64, Bytes), T>,
}

impl<T> Default for Halves<T> {
    fn default() -> Self {
        Halves { young: HashMap::new(), old: HashMap::new() }
    }
}

impl<T: Copy> Halves<T> {
    fn note(&mut self, shard: u64, key: Bytes, seen: T) {
        if self.young.len() >= HALF_ENTRIES_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert((shard, key), seen);
    }

    fn get(&self, shard: u64, key: &Bytes) -> Option<T> {
        let id = (shard, key.clone());
        self.young.get(&id).or_else(|| self.old.get(&id)).copied()
    }
}

/// Of a partition at this revision: the families whose record with an empty key names no extent, or is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plain {
    pub revision: Revision,
    families: u16,
}

impl Plain {
    pub fn of(revision: Revision, families: impl Iterator<Item = u8>) -> Plain {
        Plain { revision, families: families.fold(0, |all, family| all | bit(Family(family))) }
    }

    pub fn has(&self, family: Family) -> bool {
        self.families & bit(family) != 0
    }
}

/// None for those that come with no view.
fn bit(family: Family) -> u16 {
    1u16.checked_shl(u32::from(family.0)).unwrap_or(0)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Memo {
    /// The record of this revision names no extent.
    pub fn note_plain(&self, shard: u64, key: Bytes, revision: Revision) {
        lock(&self.records).note(shard, key, revision);
    }

    /// Is it known that the record of this revision names no extent?
    pub fn is_plain(&self, shard: u64, key: &Bytes, revision: Revision) -> bool {
        lock(&self.records).get(shard, key) == Some(revision)
    }

    pub fn note_opening(&self, shard: u64, partition: Bytes, plain: Plain) {
        lock(&self.openings).note(shard, partition, plain);
    }

    /// What came with the last view of a partition, if that was of this revision.
    pub fn opening(&self, shard: u64, partition: &Bytes, revision: Revision) -> Option<Plain> {
        lock(&self.openings).get(shard, partition).filter(|plain| plain.revision == revision)
    }
}
