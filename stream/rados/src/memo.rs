//! What this process has seen of records lately: which extents each names at which revision. A commit that writes over a record it has
//! just loaded needs no look at what it replaces.

use std::collections::HashMap;
use std::sync::Mutex;

use bytes::Bytes;
use engine::Revision;

/// Entries of each of the two halves.
const HALF_ENTRIES_MAX: usize = 32 * 1024;

/// Two halves: when the younger is full the older is forgotten.
#[derive(Default)]
pub struct Memo(Mutex<Halves>);

#[derive(Default)]
struct Halves {
    young: HashMap<(u64, Bytes), Revision>,
    old: HashMap<(u64, Bytes), Revision>,
}

impl Memo {
    fn halves(&self) -> std::sync::MutexGuard<'_, Halves> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The record of this revision names no extent.
    pub fn note_plain(&self, shard: u64, key: Bytes, revision: Revision) {
        let mut halves = self.halves();
        if halves.young.len() >= HALF_ENTRIES_MAX {
            halves.old = std::mem::take(&mut halves.young);
        }
        halves.young.insert((shard, key), revision);
    }

    /// Is it known that the record of this revision names no extent?
    pub fn is_plain(&self, shard: u64, key: &Bytes, revision: Revision) -> bool {
        let halves = self.halves();
        let id = (shard, key.clone());
        halves.young.get(&id).or_else(|| halves.old.get(&id)) == Some(&revision)
    }
}
