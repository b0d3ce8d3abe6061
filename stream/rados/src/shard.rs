//! One shard object: the commits that wait for it, packed into one operation at a time.
//!
//! 1. A guarded operation locks its object in the cluster until it is durable, so this process keeps one in flight for each shard, and
//!    what waits meanwhile goes together in the next. One operation carries at most one batch of a partition: guards are judged by
//!    the state before the operation.
//! 2. Every operation also writes its number into this process's slot of the shard, and is guarded by the number before. When no
//!    answer came, the next number is written under the same guard: if that works the operation was not applied and never will be; if
//!    not, the slot tells that it was. Nothing else is sent to the shard before that is known, and nobody is told of success or
//!    failure before, except by running out of time.
//! 3. When a guard fails the stored entries are read and each batch's guards are judged here: those that hold go again, the others are
//!    handed back to be judged by their own rules (`commit.rs`).

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use engine::{Fault, GroupId, Revision};
use librados::{Found, Look, OpError, Order, Pool, Step};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::groups::{FENCED, GENERATION};
use crate::{Core, RETRY_PAUSE, entries, fault, key, value};

/// What one operation carries at most; a single batch may be greater.
const OPERATION_BATCHES_MAX: usize = 512;
const OPERATION_BYTES_MAX: usize = 4 << 20;

/// What a stored entry must compare like.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compare {
    pub key: Bytes,
    pub order: Order,
    pub value: Bytes,
}

impl Compare {
    pub fn equal(key: Bytes, value: Bytes) -> Compare {
        Compare { key, order: Order::Equal, value }
    }

    fn holds(&self, stored: &[u8]) -> bool {
        match self.order {
            Order::Equal => stored == self.value,
            Order::Less => stored < self.value.as_ref(),
            Order::Greater => stored > self.value.as_ref(),
        }
    }

    pub fn step(&self) -> Step {
        Step::Compare { key: self.key.clone(), order: self.order, value: self.value.clone() }
    }
}

/// A batch as entries of its shard. Records get their revision when they are sent.
#[derive(Clone, Debug, Default)]
pub struct Prepared {
    pub partition: Bytes,
    /// What `gen` must be: what it was when the batch was handed in, for what it was decided upon may be another owner's since.
    pub generation: Bytes,
    pub guards: Vec<Compare>,
    pub records: Vec<(Bytes, Bytes, Vec<engine::ExtentSlice>)>,
    pub puts: Vec<(Bytes, Bytes)>,
    pub deletes: Vec<Bytes>,
}

impl Prepared {
    fn bytes(&self) -> usize {
        let records: usize = self
            .records
            .iter()
            .map(|(key, value, slices)| key.len() + value.len() + slices.len() * value::SLICE_BYTES)
            .sum();
        let puts: usize = self.puts.iter().map(|(key, value)| key.len() + value.len()).sum();
        let deletes: usize = self.deletes.iter().map(Bytes::len).sum();
        let guards: usize = self.guards.iter().map(|guard| guard.key.len() + guard.value.len()).sum();
        records + puts + deletes + guards
    }
}

/// What became of a prepared batch.
#[derive(Clone, Debug)]
pub enum Verdict {
    Done(Revision),
    /// A guard did not hold. Nothing happened.
    Guard,
    /// The shard takes no commits any more. Nothing happened.
    Fenced,
    /// Another process owns the shard. Nothing happened.
    Elsewhere,
    Fault(Fault),
}

const QUEUED: u8 = 0;
const TAKEN: u8 = 1;
const GIVEN_UP: u8 = 2;

struct Pending {
    prepared: Prepared,
    deadline: Instant,
    /// Whoever moves it away from QUEUED decides: the worker takes it, or its owner gives up.
    state: Arc<AtomicU8>,
    tell: oneshot::Sender<Verdict>,
}

impl Pending {
    fn answer(self, verdict: Verdict) {
        let _ = self.tell.send(verdict); // its owner may be gone
    }
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Pending>,
    is_worked: bool,
}

pub struct Shard {
    pub group: GroupId,
    pub object: String,
    /// Tells shards apart in this process's memory.
    pub hash: u64,
    queue: Mutex<Queue>,
    /// What this process's slot holds, as far as is known; only the worker touches it.
    slot: Mutex<Option<u64>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Shard {
    pub fn new(group: GroupId, object: String) -> Shard {
        let hash = xxhash_rust::xxh3::xxh3_64(object.as_bytes());
        Shard { group, object, hash, queue: Mutex::default(), slot: Mutex::default() }
    }

    /// Takes what goes into the next operation; none ends the worker.
    fn take(&self) -> Vec<Pending> {
        let mut queue = lock(&self.queue);
        let (mut taken, mut left) = (Vec::new(), VecDeque::new());
        let (mut bytes, mut partitions) = (0, HashSet::new());
        while let Some(pending) = queue.waiting.pop_front() {
            if pending.state.load(Ordering::Acquire) == GIVEN_UP {
                continue;
            }
            let size = pending.prepared.bytes();
            let fits = taken.is_empty() || bytes + size <= OPERATION_BYTES_MAX && taken.len() < OPERATION_BATCHES_MAX;
            if !fits || !partitions.insert(pending.prepared.partition.clone()) {
                left.push_back(pending);
                if !fits {
                    break;
                }
                continue;
            }
            if pending.state.compare_exchange(QUEUED, TAKEN, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                bytes += size;
                taken.push(pending);
            }
        }
        // What was passed over was first in its partition, and stays first.
        while let Some(pending) = left.pop_back() {
            queue.waiting.push_front(pending);
        }
        queue.is_worked = !taken.is_empty();
        taken
    }
}

impl Core {
    /// Sends a batch with whatever else waits for its shard.
    pub async fn submit(self: &Arc<Self>, shard: &Arc<Shard>, prepared: Prepared, deadline: Instant) -> Verdict {
        let (tell, mut told) = oneshot::channel();
        let state = Arc::new(AtomicU8::new(QUEUED));
        let is_worked = {
            let mut queue = lock(&shard.queue);
            queue.waiting.push_back(Pending { prepared, deadline, state: Arc::clone(&state), tell });
            std::mem::replace(&mut queue.is_worked, true)
        };
        if !is_worked {
            let (core, shard) = (Arc::clone(self), Arc::clone(shard));
            tokio::spawn(async move {
                loop {
                    let taken = shard.take();
                    if taken.is_empty() {
                        return;
                    }
                    core.round(&shard, taken).await;
                }
            });
        }
        let gone = || Verdict::Fault(unanswered("the worker of a shard is gone"));
        if let Ok(verdict) = tokio::time::timeout_at(deadline, &mut told).await {
            return verdict.unwrap_or_else(|_| gone());
        }
        if state.compare_exchange(QUEUED, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return Verdict::Fault(unanswered("the cluster did not answer in time; nothing was written"));
        }
        told.await.unwrap_or_else(|_| gone())
    }

    /// Sends batches until each has its verdict.
    async fn round(&self, shard: &Shard, mut pending: Vec<Pending>) {
        while !pending.is_empty() {
            let now = Instant::now();
            for late in pending.extract_if(.., |pending| pending.deadline <= now) {
                late.answer(Verdict::Fault(unanswered("the cluster did not answer in time; nothing was written")));
            }
            if pending.is_empty() {
                return;
            }
            let revision = Revision(self.hlc.draw(self.clock.now().ticks()));
            let before = *lock(&shard.slot);
            let number = before.unwrap_or(0) + 1;
            let steps = self.operation(before, number, revision, &pending);
            match self.write_until(last_deadline(&pending), shard, steps).await {
                Ok(_) => {
                    *lock(&shard.slot) = Some(number);
                    return answer_all(pending, &Verdict::Done(revision));
                }
                Err(OpError::Guard) => pending = self.sort_out(shard, pending).await,
                Err(OpError::Missing) => match self.make_shard(shard).await {
                    Ok(true) => {}
                    Ok(false) => return answer_all(pending, &Verdict::Fenced),
                    Err(fault) => return answer_all(pending, &Verdict::Fault(fault)),
                },
                Err(OpError::Unknown { why }) => {
                    tracing::warn!(object = shard.object, why, "a commit was not answered; asking what became of it");
                    if self.resolve(shard, before, number, &mut pending).await {
                        return answer_all(pending, &Verdict::Done(revision));
                    }
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                Err(error) => return answer_all(pending, &Verdict::Fault(fault("committing", error))),
            }
        }
    }

    /// Does not wait for an answer longer than anybody waits for it.
    async fn write_until(&self, deadline: Option<Instant>, shard: &Shard, steps: Vec<Step>) -> Result<u64, OpError> {
        let write = self.objects.write(Pool::Records, &shard.object, steps);
        let Some(deadline) = deadline else { return write.await };
        let unknown = |_| OpError::Unknown { why: "no answer in time".into() };
        tokio::time::timeout_at(deadline, write).await.map_err(unknown)?
    }

    fn operation(&self, before: Option<u64>, number: u64, revision: Revision, pending: &[Pending]) -> Vec<Step> {
        let slot = key::slot(self.process);
        let mut steps = vec![Compare::equal(slot.clone(), before.map_or(Bytes::new(), value::number)).step()];
        let generations: HashSet<&Bytes> = pending.iter().map(|pending| &pending.prepared.generation).collect();
        steps.extend(generations.into_iter().map(|value| Step::AttributeIs { name: GENERATION, value: value.clone() }));
        let (mut puts, mut deletes) = (vec![(slot, value::number(number))], Vec::new());
        let stored_revision = value::revision(revision);
        for Pending { prepared, .. } in pending {
            let head = key::head(&prepared.partition);
            // Revisions of a partition only grow, whoever makes them.
            steps.push(Step::Compare { key: head.clone(), order: Order::Less, value: stored_revision.clone() });
            steps.extend(prepared.guards.iter().map(Compare::step));
            puts.push((head, stored_revision.clone()));
            puts.extend(prepared.puts.iter().cloned());
            let records = prepared.records.iter();
            puts.extend(records.map(|(key, value, slices)| (key.clone(), value::record(revision, value, slices))));
            deletes.extend(prepared.deletes.iter().cloned());
        }
        steps.push(Step::Put(puts));
        if !deletes.is_empty() {
            steps.push(Step::Delete(deletes));
        }
        steps
    }

    /// Some guard did not hold: finds out whose. Those whose guards hold now go again.
    async fn sort_out(&self, shard: &Shard, mut pending: Vec<Pending>) -> Vec<Pending> {
        let slot = key::slot(self.process);
        let mut keys = vec![slot.clone()];
        for Pending { prepared, .. } in &pending {
            keys.push(key::head(&prepared.partition));
            keys.extend(prepared.guards.iter().map(|guard| guard.key.clone()));
        }
        let looks = vec![Look::Attributes, Look::Keys(keys)];
        let stored = match self.objects.read(Pool::Records, &shard.object, looks).await {
            Ok(seen) => {
                let generation = match seen.found.first() {
                    Some(Found::Attributes(attributes)) => attributes.iter().find(|(name, _)| name == GENERATION),
                    _ => None,
                };
                let generation = generation.map_or(Bytes::new(), |(_, value)| value.clone());
                let verdict = if generation == FENCED { Verdict::Fenced } else { Verdict::Elsewhere };
                for other in pending.extract_if(.., |pending| pending.prepared.generation != generation) {
                    other.answer(verdict.clone());
                }
                match entries(seen, 1) {
                    Ok(entries) => entries.into_iter().collect::<std::collections::HashMap<_, _>>(),
                    Err(fault) => {
                        answer_all(pending, &Verdict::Fault(fault));
                        return Vec::new();
                    }
                }
            }
            Err(OpError::Missing) => return pending,
            Err(error) => {
                answer_all(pending, &Verdict::Fault(fault("reading a shard", error)));
                return Vec::new();
            }
        };
        // The slot is another only if it was tidied away, or if this process knew and forgot it: nothing of ours is in flight here.
        *lock(&shard.slot) = stored.get(&slot).and_then(|stored| value::read_number(stored));
        let mut again = Vec::new();
        for one in pending {
            let head = stored.get(&key::head(&one.prepared.partition)).cloned();
            if let Some(seen) = head.and_then(value::read_revision) {
                self.hlc.observe(seen.0);
            }
            let guards = &one.prepared.guards;
            if guards.iter().all(|guard| guard.holds(stored.get(&guard.key).map_or(b"".as_slice(), |found| found))) {
                again.push(one);
            } else {
                one.answer(Verdict::Guard);
            }
        }
        again
    }

    /// Finds out whether an unanswered operation was applied, and sees to it that it will not be if it was not. Batches whose time runs
    /// out meanwhile are told that nobody knows.
    async fn resolve(&self, shard: &Shard, before: Option<u64>, number: u64, pending: &mut Vec<Pending>) -> bool {
        let slot = key::slot(self.process);
        let steps = vec![
            Compare::equal(slot.clone(), before.map_or(Bytes::new(), value::number)).step(),
            Step::Put(vec![(slot.clone(), value::number(number + 1))]),
        ];
        loop {
            match self.write_until(last_deadline(pending), shard, steps.clone()).await {
                Ok(_) => {
                    *lock(&shard.slot) = Some(number + 1);
                    return false;
                }
                // Nothing was applied to a shard that is not there; but the operation may still come, so it is made and asked again.
                Err(OpError::Missing) => match self.make_shard(shard).await {
                    Ok(true) => continue,
                    Ok(false) => return false, // fenced, for what comes late as well
                    Err(error) => tracing::warn!(object = shard.object, %error, "asking again what became of a commit"),
                },
                Err(OpError::Guard) => match self.entry(&shard.object, slot.clone()).await {
                    Ok(stored) => {
                        let stored = stored.and_then(|stored| value::read_number(&stored));
                        *lock(&shard.slot) = stored;
                        match stored {
                            Some(applied) if applied == number => return true,
                            // An earlier try of this loop was applied although nobody answered it.
                            Some(skipped) if skipped == number + 1 => return false,
                            _ => {
                                let words = "a commit was not answered and its trace is gone";
                                answer_all(std::mem::take(pending), &Verdict::Fault(unanswered(words)));
                                return false;
                            }
                        }
                    }
                    Err(error) => tracing::warn!(object = shard.object, %error, "asking again what became of a commit"),
                },
                Err(error) => {
                    tracing::warn!(object = shard.object, ?error, "asking again what became of a commit");
                }
            }
            let now = Instant::now();
            for late in pending.extract_if(.., |pending| pending.deadline <= now) {
                late.answer(Verdict::Fault(unanswered("the cluster did not answer in time; the outcome is not known")));
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }
}

/// When the last of those who wait stops waiting.
fn last_deadline(pending: &[Pending]) -> Option<Instant> {
    pending.iter().map(|pending| pending.deadline).max()
}

fn unanswered(words: &str) -> Fault {
    Fault::Other { doing: "committing".into(), detail: words.into() }
}

fn answer_all(pending: Vec<Pending>, verdict: &Verdict) {
    for one in pending {
        one.answer(verdict.clone());
    }
}
