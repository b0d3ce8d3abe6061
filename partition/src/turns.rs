//! The partitions' turns: who may decide, the writes decided and not yet committed, and who waits for them.
//!
//! A partition has at most two batches: one *in flight*, which the engine is committing, and one *open*, which commands join. Where the
//! engine chains commits, commands decide over both while the first is in flight; elsewhere nobody decides then. The open batch departs
//! when the one before it has landed; if that failed, those in the open one decide again. What a command read of the batch in flight
//! is guarded by the revision that batch got; what it judged of the whole partition by there being nothing else since
//! (`OpenBatch::rest_on`).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::ops::{Bound, Deref};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use bytes::Bytes;
use engine::{
    Batch, CommitError, Durability, Engine, Family, Fault, Guard, KeyRange, PartitionId, Record, Revision, View, Write,
};
use tokio::sync::{MutexGuard, oneshot};

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
    /// Held while a batch is committed. Waited for by nobody who has the turn.
    runway: tokio::sync::Mutex<()>,
    waiting: AtomicUsize,
    holders: AtomicUsize,
    /// How many came so far, and up to which of them it was in vain.
    arrivals: AtomicU64,
    in_vain: AtomicU64,
}

impl Line {
    /// A number for whoever comes, before it waits for the turn.
    pub fn arrive(&self) -> u64 {
        self.arrivals.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The partition could not be looked at. Whoever waits by now need not find that out for itself, one after another, each for as
    /// long as storage is waited for.
    pub fn give_up(&self) {
        self.in_vain.store(self.arrivals.load(Ordering::Acquire), Ordering::Release);
    }

    /// It came before somebody gave up.
    pub fn is_in_vain(&self, arrival: u64) -> bool {
        arrival <= self.in_vain.load(Ordering::Acquire)
    }

    pub async fn enter(&self) -> MutexGuard<'_, Turn> {
        struct Waiting<'a>(&'a AtomicUsize);
        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::AcqRel);
            }
        }
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let _waiting = Waiting(&self.waiting);
        let mut turn = self.turn.lock().await;
        turn.settle();
        turn
    }

    /// The turn, with nothing in flight: while this is held nothing of the partition is decided or committed here.
    pub async fn hold(&self) -> (MutexGuard<'_, ()>, MutexGuard<'_, Turn>) {
        let runway = self.runway.lock().await;
        (runway, self.enter().await)
    }

    /// Commits the batch of this number, if nobody has, when the one before it has landed and all who wait for the turn now have joined.
    pub async fn commit(&self, engine: &dyn Engine, partition: &PartitionId, number: u64) {
        let (runway, turn) = self.hold().await;
        if turn.open.number == number {
            depart(turn, runway, engine, partition).await;
        }
    }

    /// Commits what is open without waiting for anybody; gives the turn back if another batch is in flight.
    pub async fn commit_now<'a>(
        &'a self,
        turn: MutexGuard<'a, Turn>,
        engine: &dyn Engine,
        partition: &PartitionId,
    ) -> Result<(), MutexGuard<'a, Turn>> {
        match self.runway.try_lock() {
            Ok(runway) => {
                depart(turn, runway, engine, partition).await;
                Ok(())
            }
            Err(_) => Err(turn),
        }
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

/// Commits what is open and tells everybody in it.
async fn depart(
    mut turn: MutexGuard<'_, Turn>,
    _runway: MutexGuard<'_, ()>,
    engine: &dyn Engine,
    partition: &PartitionId,
) {
    let Some(Departure { flight, batch, durability, rests, waiters }) = turn.close(engine.chains()) else { return };
    // Others decide meanwhile, unless it is over at once.
    let is_quick = durability == Durability::Buffered && engine.buffers();
    let turn = if engine.chains() && !is_quick {
        drop(turn);
        None
    } else {
        Some(turn)
    };
    let landing = Landing(&flight);
    let (landed, answer) = match batch.writes.is_empty() {
        // Nothing is sent whose guards would be looked at, and others may have come after the flight: decided again, over what is
        // committed.
        true if rests => (Landed::Failed, Answer::Conflict),
        true => (Landed::Committed(None), Answer::Committed),
        false => match engine.commit(partition, batch, durability).await {
            Ok(revision) => (Landed::Committed(Some(revision)), Answer::Committed),
            Err(CommitError::Conflict) => (Landed::Failed, Answer::Conflict),
            Err(CommitError::Fenced) => (Landed::Failed, Answer::Fenced),
            Err(CommitError::Fault(fault)) => (Landed::Failed, Answer::Fault(fault)),
        },
    };
    landing.land(landed);
    if let Some(mut turn) = turn {
        turn.settle();
    }
    tell(waiters, &answer);
}

fn tell(waiters: Vec<oneshot::Sender<Answer>>, answer: &Answer) {
    for waiter in waiters {
        let _ = waiter.send(answer.clone()); // whoever left needs no answer
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
            turn.renew();
        }
    }
}

/// A batch that the engine was given.
struct Flight {
    overlay: Overlay,
    /// It commits only if nothing was committed to the partition after this.
    unchanged_since: Option<Revision>,
    landed: OnceLock<Landed>,
}

enum Landed {
    /// With the revision that its records have, if it has any.
    Committed(Option<Revision>),
    /// Or nobody knows.
    Failed,
}

/// Sees to it that every flight lands: whoever is torn down on the way leaves an outcome that is not known.
struct Landing<'a>(&'a Flight);

impl Landing<'_> {
    fn land(self, landed: Landed) {
        let _ = self.0.landed.set(landed); // nobody else does
    }
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        let _ = self.0.landed.set(Landed::Failed); // unless it has landed
    }
}

/// What is closed, on its way to the engine.
struct Departure {
    flight: Arc<Flight>,
    batch: Batch,
    durability: Durability,
    /// It was decided over a flight.
    rests: bool,
    waiters: Vec<oneshot::Sender<Answer>>,
}

#[derive(Default)]
pub(crate) struct Turn {
    /// What was closed last, until nothing rests on it.
    below: Option<Arc<Flight>>,
    pub open: OpenBatch,
}

impl Turn {
    /// Nothing is decided that is not committed.
    pub fn is_settled(&self) -> bool {
        self.below.is_none() && self.open.is_empty()
    }

    /// What is decided and not committed yet.
    pub fn pending(&self) -> Pending<'_> {
        Pending { open: &self.open.overlay, below: self.below.as_ref().map(|flight| &flight.overlay) }
    }

    /// Takes note of what became of the batch in flight. If it failed, those in the open one, of which the engine knows nothing yet,
    /// decide again.
    fn settle(&mut self) {
        let Some(landed) = self.below.as_ref().and_then(|flight| flight.landed.get()) else { return };
        match landed {
            Landed::Committed(_) if self.open.is_empty() => {}
            Landed::Committed(_) => return, // what is open rests on it
            Landed::Failed => tell(self.renew().waiters, &Answer::Conflict),
        }
        self.below = None;
    }

    /// Another batch is open.
    fn renew(&mut self) -> OpenBatch {
        let next = OpenBatch { number: self.open.number + 1, ..OpenBatch::default() };
        std::mem::replace(&mut self.open, next)
    }

    /// Ends the open batch, if anybody is in it. What was in flight has landed.
    fn close(&mut self, chains: bool) -> Option<Departure> {
        self.settle();
        if self.open.is_empty() {
            return None;
        }
        let mut open = self.renew();
        let below = self.below.take();
        if let Some(below) = &below {
            open.rest_on(below);
        }
        if chains {
            open.guard_the_whole();
        }
        let (unchanged_since, durability) = (open.unchanged_since(), open.durability());
        let batch = Batch { guards: open.guards, writes: open.overlay.writes() };
        let flight = Arc::new(Flight { overlay: open.overlay, unchanged_since, landed: OnceLock::new() });
        self.below = Some(flight.clone());
        Some(Departure { flight, batch, durability, rests: below.is_some(), waiters: open.waiters })
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
    pub fn batch_number(&self) -> u64 {
        self.batch_number
    }

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
    /// What is committed, as the commands in it saw it; the next one looks at the same.
    pub view: Option<Box<dyn View>>,
    pub overlay: Overlay,
    guards: Vec<Guard>,
    guarded: HashSet<(Family, Bytes)>,
    /// Of the writes that joined it.
    bytes: usize,
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

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn number(&self) -> u64 {
        self.number
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
        self.bytes += writes.iter().map(write_bytes).sum::<usize>();
        self.is_synced |= !writes.is_empty() && durability == Durability::Synced;
        let (sender, answer) = oneshot::channel();
        self.waiters.push(sender);
        Ticket { batch_number: self.number, leader: self.leader.clone(), answer }
    }

    /// Lets what was read over a batch in flight, which was committed since, be guarded by what it is now. What was read of that
    /// batch has its revision. If nothing was committed between the views of this batch and that one, the partition as they saw it and
    /// as it was when that one was committed are the same; otherwise the guards stay, and the engine refuses them.
    fn rest_on(&mut self, below: &Flight) {
        let Some(Landed::Committed(Some(committed))) = below.landed.get() else { return };
        let is_same = |seen: Revision| seen < *committed && below.unchanged_since.is_some_and(|since| since <= seen);
        for guard in &mut self.guards {
            match guard {
                Guard::At { revision, .. } if *revision == PENDING => *revision = *committed,
                Guard::Unchanged(seen) | Guard::ReadAt(seen) if is_same(*seen) => *seen = *committed,
                _ => {}
            }
        }
    }

    /// Others will decide over this batch before it is committed: then nothing else may come between.
    fn guard_the_whole(&mut self) {
        let read_at = self.guards.iter().find_map(|guard| match guard {
            Guard::ReadAt(revision) => Some(*revision),
            _ => None,
        });
        if let Some(revision) = read_at.filter(|_| self.unchanged_since().is_none()) {
            self.guards.push(Guard::Unchanged(revision));
        }
    }

    fn unchanged_since(&self) -> Option<Revision> {
        let revisions = self.guards.iter().filter_map(|guard| match guard {
            Guard::Unchanged(revision) => Some(*revision),
            _ => None,
        });
        revisions.min()
    }
}

fn write_bytes(write: &Write) -> usize {
    match write {
        Write::Put { key, value, .. } => key.len() + value.len(),
        Write::Delete { key, .. } => key.len(),
    }
}

/// What a command in its turn sees over the committed state: what is open, over what is in flight.
#[derive(Clone, Copy)]
pub(crate) struct Pending<'a> {
    open: &'a Overlay,
    below: Option<&'a Overlay>,
}

/// A record that is not committed.
pub(crate) enum Found<'a> {
    Open(&'a Option<Record>),
    /// Of the batch in flight: to be guarded by what that becomes.
    Below(&'a Option<Record>),
}

impl<'a> Pending<'a> {
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.below.is_none_or(Overlay::is_empty)
    }

    pub fn get(&self, family: Family, key: &[u8]) -> Option<Found<'a>> {
        if self.is_empty() {
            return None;
        }
        let key = (family, Bytes::copy_from_slice(key));
        let open = self.open.0.get(&key).map(Found::Open);
        open.or_else(|| self.below?.0.get(&key).map(Found::Below))
    }

    /// In order; `None` where a record was deleted.
    pub fn range(&self, family: Family, range: &KeyRange) -> BTreeMap<Bytes, Option<Record>> {
        let overlays = [self.below, Some(self.open)].into_iter().flatten();
        let rows = overlays.flat_map(|overlay| overlay.range(family, range));
        rows.map(|(key, record)| (key.clone(), record.clone())).collect()
    }
}

/// Writes that are decided and not yet committed; `None` is a deletion.
#[derive(Default)]
pub(crate) struct Overlay(BTreeMap<(Family, Bytes), Option<Record>>);

/// The revision of what has no revision yet.
pub(crate) const PENDING: Revision = Revision(u64::MAX);

impl Overlay {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn range<'a>(&'a self, family: Family, range: &KeyRange) -> impl Iterator<Item = (&'a Bytes, &'a Option<Record>)> {
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
