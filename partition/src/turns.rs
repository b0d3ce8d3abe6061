//! The partitions' turns: who may decide, the writes decided and not yet committed, and who waits for them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::ops::{Bound, Deref};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use engine::{
    Batch, CommitError, Durability, Engine, Family, Fault, Guard, KeyRange, PartitionId, Record, Revision, Write,
};
use tokio::sync::oneshot;

/// The lines that somebody stands in. A line with nobody in it is not kept.
pub(crate) struct Turns {
    hasher: RandomState,
    shards: Vec<Mutex<HashMap<PartitionId, Arc<Line>>>>,
}

const SHARDS: usize = 64;

impl Default for Turns {
    fn default() -> Self {
        Turns { hasher: RandomState::new(), shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }
}

impl Turns {
    /// The partition's line, kept while anybody holds it.
    pub fn line(&self, partition: &PartitionId) -> InLine<'_> {
        let shard = &self.shards[self.hasher.hash_one(partition) as usize % SHARDS];
        let mut lines = lock(shard);
        let line = match lines.get(partition) {
            Some(line) => line.clone(),
            None => {
                let line = Arc::new(Line::default());
                lines.insert(partition.clone(), line.clone());
                line
            }
        };
        line.holders.fetch_add(1, Ordering::Relaxed); // counted under the shard's lock
        InLine { shard, partition: partition.clone(), line }
    }

    #[cfg(test)]
    pub fn lines(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A place in a line.
pub(crate) struct InLine<'a> {
    shard: &'a Mutex<HashMap<PartitionId, Arc<Line>>>,
    partition: PartitionId,
    line: Arc<Line>,
}

impl Deref for InLine<'_> {
    type Target = Line;

    fn deref(&self) -> &Line {
        &self.line
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        let mut lines = lock(self.shard);
        if self.line.holders.fetch_sub(1, Ordering::Relaxed) == 1 {
            lines.remove(&self.partition);
        }
    }
}

#[derive(Default)]
pub(crate) struct Line {
    /// Fair: whoever asks first is let in first.
    turn: tokio::sync::Mutex<Turn>,
    waiting: AtomicUsize,
    holders: AtomicUsize,
}

impl Line {
    pub async fn enter(&self) -> tokio::sync::MutexGuard<'_, Turn> {
        struct Waiting<'a>(&'a AtomicUsize);
        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::AcqRel);
            }
        }
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let _waiting = Waiting(&self.waiting);
        self.turn.lock().await
    }

    /// Makes the caller the leader of the batch that is about to open.
    pub fn lead(&self, open: &mut OpenBatch) -> Leadership<'_> {
        let alive = Arc::new(());
        open.leader = Arc::downgrade(&alive);
        Leadership { line: self, batch_number: open.number, alive: Some(alive) }
    }

    pub fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }
}

/// The duty to commit a batch. A leader that goes away without doing it (a panic, a task torn down) leaves nobody waiting: those in
/// its batch are told that it came to nothing, or, if somebody has the turn at that moment, that one finds the batch orphaned and
/// commits it.
pub(crate) struct Leadership<'a> {
    line: &'a Line,
    batch_number: u64,
    alive: Option<Arc<()>>,
}

impl Drop for Leadership<'_> {
    fn drop(&mut self) {
        // In this order: whoever has the turn now looks at the leader again after giving the turn up.
        self.alive = None;
        if let Ok(mut turn) = self.line.turn.try_lock()
            && turn.open.number == self.batch_number
        {
            turn.open = OpenBatch { number: self.batch_number + 1, ..OpenBatch::default() };
        }
    }
}

#[derive(Default)]
pub(crate) struct Turn {
    pub open: OpenBatch,
}

impl Turn {
    /// Commits what is open, in this turn (nobody decides meanwhile), and tells everybody in it.
    pub async fn commit(&mut self, engine: &dyn Engine, partition: &PartitionId) {
        let open = std::mem::take(&mut self.open);
        self.open.number = open.number + 1;
        let answer = if open.overlay.is_empty() {
            Answer::Committed
        } else {
            match engine.commit(partition, open.batch(), open.durability()).await {
                Ok(_) => Answer::Committed,
                Err(CommitError::Conflict) => Answer::Conflict,
                Err(CommitError::Fenced) => Answer::Fenced,
                Err(CommitError::Fault(fault)) => Answer::Fault(fault),
            }
        };
        for waiter in open.waiters {
            let _ = waiter.send(answer.clone()); // whoever left needs no answer
        }
    }
}

/// What became of a batch.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// As durable as its commands asked for.
    Committed,
    Conflict,
    Fenced,
    Fault(Fault),
}

/// A claim to a batch's answer.
pub(crate) struct Ticket {
    batch_number: u64,
    leader: Weak<()>,
    answer: oneshot::Receiver<Answer>,
}

impl Ticket {
    /// Nobody is left whose duty it is to commit the batch. (It may be committed already.)
    pub fn is_orphaned(&self) -> bool {
        self.leader.strong_count() == 0
    }

    pub async fn answer(self) -> Answer {
        // A leader that vanished (its task was torn down) leaves the outcome unknown.
        let abandoned = |_| Answer::Fault(Fault::Stopped { why: "the commit was abandoned".into() });
        self.answer.await.unwrap_or_else(abandoned)
    }
}

/// The batch that commands may still join.
#[derive(Default)]
pub(crate) struct OpenBatch {
    number: u64,
    leader: Weak<()>,
    pub overlay: Overlay,
    guards: Vec<Guard>,
    guarded: HashSet<(Family, Bytes)>,
    /// A command whose writes are in it wants them durable.
    is_synced: bool,
    waiters: Vec<oneshot::Sender<Answer>>,
}

impl OpenBatch {
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    pub fn commands(&self) -> usize {
        self.waiters.len()
    }

    pub fn is_batch_of(&self, ticket: &Ticket) -> bool {
        self.number == ticket.batch_number
    }

    /// May all that is written in it be buffered?
    pub fn is_buffered(&self) -> bool {
        !self.is_synced
    }

    fn durability(&self) -> Durability {
        if self.is_buffered() { Durability::Buffered } else { Durability::Synced }
    }

    pub fn join(&mut self, guards: Vec<Guard>, writes: &[Write], durability: Durability) -> Ticket {
        // All commands of a batch see the same committed state, so the first guard on a record says what all of them need.
        for guard in guards {
            let new = match &guard {
                Guard::At { family, key, .. } | Guard::Absent { family, key } => {
                    self.guarded.insert((*family, key.clone()))
                }
                Guard::Unchanged(_) => !self.guards.contains(&guard),
                Guard::ReadAt(revision) => {
                    let earliest = self.guards.iter_mut().find_map(|other| match other {
                        Guard::ReadAt(earliest) => Some(earliest),
                        _ => None,
                    });
                    earliest.map(|earliest| *earliest = (*earliest).min(*revision)).is_none()
                }
            };
            if new {
                self.guards.push(guard);
            }
        }
        writes.iter().for_each(|write| self.overlay.apply(write));
        self.is_synced |= !writes.is_empty() && durability == Durability::Synced;
        let (sender, answer) = oneshot::channel();
        self.waiters.push(sender);
        Ticket { batch_number: self.number, leader: self.leader.clone(), answer }
    }

    fn batch(&self) -> Batch {
        Batch { guards: self.guards.clone(), writes: self.overlay.writes() }
    }
}

/// Writes that are decided and not yet committed; `None` is a deletion.
#[derive(Default)]
pub(crate) struct Overlay(BTreeMap<(Family, Bytes), Option<Record>>);

/// The revision of what has no revision yet. No guard is made from it.
const PENDING: Revision = Revision(u64::MAX);

impl Overlay {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, family: Family, key: &[u8]) -> Option<&Option<Record>> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&(family, Bytes::copy_from_slice(key)))
    }

    pub fn range<'a>(
        &'a self,
        family: Family,
        range: &KeyRange,
    ) -> impl Iterator<Item = (&'a Bytes, &'a Option<Record>)> {
        let start = match &range.start {
            Bound::Included(key) => Bound::Included((family, key.clone())),
            Bound::Excluded(key) => Bound::Excluded((family, key.clone())),
            Bound::Unbounded => Bound::Included((family, Bytes::new())),
        };
        let end = range.end.clone();
        self.0
            .range((start, Bound::Unbounded))
            .take_while(move |((in_family, key), _)| {
                *in_family == family
                    && match &end {
                        Bound::Included(end) => key <= end,
                        Bound::Excluded(end) => key < end,
                        Bound::Unbounded => true,
                    }
            })
            .map(|((_, key), record)| (key, record))
    }

    fn apply(&mut self, write: &Write) {
        let (family, key, record) = match write {
            Write::Put { family, key, value, slices } => {
                (family, key, Some(Record { revision: PENDING, value: value.clone(), slices: slices.clone() }))
            }
            Write::Delete { family, key } => (family, key, None),
        };
        self.0.insert((*family, key.clone()), record);
    }

    fn writes(&self) -> Vec<Write> {
        let write = |((family, key), record): (&(Family, Bytes), &Option<Record>)| match record {
            Some(record) => Write::Put {
                family: *family,
                key: key.clone(),
                value: record.value.clone(),
                slices: record.slices.clone(),
            },
            None => Write::Delete { family: *family, key: key.clone() },
        };
        self.0.iter().map(write).collect()
    }
}
