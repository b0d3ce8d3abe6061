//! From a batch to entries of its shard.
//!
//! 1. A batch that writes only records it has seen, none of which names an extent, is sent at once: each guard is a comparison in the
//!    operation itself.
//! 2. Any other batch is preceded by one look at its shard: the head, the records it guards and writes, and how often the partition
//!    names each extent that comes or goes. The batch is judged here and sent under the guard that the head, and so all that was
//!    seen, is still the same.
//! 3. A batch that is handed back because a guard failed is judged again after a look. Only its own guards make it a conflict.
//! 4. Before a partition names an extent for the first time the extent is told (`alive.rs`), and it must be there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use engine::{Batch, CommitError, ExtentSlice, Fault, Guard, PartitionId, Record, Revision, Write};
use librados::{Look, OpError, Order, Pool};
use tokio::time::Instant;

use crate::shard::{Compare, Prepared, Shard, Verdict};
use crate::value::Drop;
use crate::{Core, RETRY_PAUSE, entries, fault, key, value};

/// With more guards than this a look costs less than the comparisons.
const COMPARED_GUARDS_MAX: usize = 32;

/// What a look at the shard showed.
#[derive(Default, Debug)]
struct Looked {
    head: Option<Revision>,
    records: HashMap<Bytes, Record>,
    namings: HashMap<u128, Naming>,
}

/// What a partition's shard says of an extent.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Naming {
    records: u64,
    drop: Option<Drop>,
}

/// What a batch does, once it is judged.
#[derive(Debug, Default)]
struct Plan {
    prepared: Prepared,
    /// Extents to be told first.
    named: Vec<u128>,
    /// Extents that no record of the partition names afterwards.
    dropped: Vec<u128>,
}

#[derive(Debug)]
enum Judged {
    Plan(Plan),
    Conflict,
    /// These extents must be looked at as well.
    Look(BTreeSet<u128>),
    /// The extent is just being told that it is not named any more.
    Wait(u128),
}

pub async fn commit(core: Arc<Core>, partition: PartitionId, batch: Batch) -> Result<Revision, CommitError> {
    let deadline = Instant::now() + core.options.deadline;
    let group = core.enter_group(&partition.group).await?;
    if group.fenced.is_some() {
        return Err(CommitError::Fenced);
    }
    let shard = core.shard(&partition, group.shards);
    let generation = core.owners.generation(&partition.group);
    let mut plan = core.plan_unseen(&shard, &partition.key, &batch);
    loop {
        let chosen = match plan.take() {
            Some(plan) => plan,
            None => core.plan_seen(&shard, &partition, &batch, deadline).await?,
        };
        core.tell_named(&partition, &chosen.named).await?;
        let prepared = Prepared { generation: generation.clone(), ..chosen.prepared };
        match core.submit(&shard, prepared, deadline).await {
            Verdict::Done(revision) => {
                core.remember(&shard, &partition.key, &batch, revision);
                core.alive.settle(&chosen.named);
                core.alive.queue_drops(&partition, &chosen.dropped, core.now());
                return Ok(revision);
            }
            Verdict::Guard if Instant::now() >= deadline => {
                let detail = "others were always faster; nothing was written".into();
                return Err(Fault::Other { doing: "committing".into(), detail }.into());
            }
            Verdict::Guard => {}
            Verdict::Fenced => return Err(CommitError::Fenced),
            Verdict::Elsewhere => return Err(Fault::Elsewhere.into()),
            Verdict::Fault(fault) => return Err(fault.into()),
        }
    }
}

impl Core {
    /// The plan of a batch that needs no look.
    fn plan_unseen(&self, shard: &Shard, partition: &Bytes, batch: &Batch) -> Option<Plan> {
        let compared = batch.guards.iter().filter(|guard| !matches!(guard, Guard::ReadAt(_)));
        if compared.count() > COMPARED_GUARDS_MAX {
            return None;
        }
        let (mut known, mut read_at) = (HashMap::new(), None);
        let mut guards = Vec::with_capacity(batch.guards.len() * 2);
        for guard in &batch.guards {
            match guard {
                Guard::At { family, key, revision } => {
                    let key = key::record(*family, partition, key);
                    // A record's value begins with its revision and goes on.
                    for (order, bound) in [(Order::Greater, revision.0), (Order::Less, revision.0 + 1)] {
                        guards.push(Compare { key: key.clone(), order, value: value::revision(Revision(bound)) });
                    }
                    known.insert(key, Some(*revision));
                }
                Guard::Absent { family, key } => {
                    let key = key::record(*family, partition, key);
                    guards.push(Compare::equal(key.clone(), Bytes::new()));
                    known.insert(key, None);
                }
                Guard::Unchanged(revision) => guards.push(head_is(partition, *revision)),
                Guard::ReadAt(revision) => read_at = Some(*revision),
            }
        }
        // What came with the view that it was decided upon, and was not asked for. It holds as long as the partition is the same.
        let opening = read_at.and_then(|revision| self.memo.opening(shard.hash, partition, revision));
        let mut rests_on_opening = false;
        for write in &batch.writes {
            let key = write_key(partition, write);
            let is_plain = match known.get(&key) {
                Some(None) => true,
                Some(Some(revision)) => self.memo.is_plain(shard.hash, &key, *revision),
                None => {
                    rests_on_opening = true;
                    let (Write::Put { family, key, .. } | Write::Delete { family, key }) = write;
                    key.is_empty() && opening.is_some_and(|opening| opening.has(*family))
                }
            };
            let names_nothing = matches!(write, Write::Delete { .. }) || slices(write).is_empty();
            if !is_plain || !names_nothing {
                return None;
            }
        }
        if let Some(opening) = opening.filter(|_| rests_on_opening) {
            guards.push(head_is(partition, opening.revision));
        }
        let mut prepared = Prepared { partition: partition.clone(), guards, ..Prepared::default() };
        add_writes(&mut prepared, batch, self.now());
        Some(Plan { prepared, ..Plan::default() })
    }

    /// The plan of a batch after a look; a conflict if its guards do not hold.
    async fn plan_seen(
        &self,
        shard: &Shard,
        partition: &PartitionId,
        batch: &Batch,
        deadline: Instant,
    ) -> Result<Plan, CommitError> {
        let mut extents: BTreeSet<u128> = batch.writes.iter().flat_map(slices).map(|slice| slice.extent.id).collect();
        loop {
            let looked = self.look(shard, &partition.key, batch, &extents).await?;
            match judge(&looked, &partition.key, batch, &extents, self.now()) {
                Judged::Plan(plan) => return Ok(plan),
                Judged::Conflict => return Err(CommitError::Conflict),
                Judged::Look(more) => extents.extend(more),
                Judged::Wait(extent) => {
                    if Instant::now() >= deadline {
                        let detail = "an extent is just being swept; nothing was written".into();
                        return Err(Fault::Other { doing: "committing".into(), detail }.into());
                    }
                    self.free_stale_claim(partition, shard, extent).await?;
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    async fn look(
        &self,
        shard: &Shard,
        partition: &Bytes,
        batch: &Batch,
        extents: &BTreeSet<u128>,
    ) -> Result<Looked, Fault> {
        let head = key::head(partition);
        let mut keys: BTreeSet<Bytes> = batch.writes.iter().map(|write| write_key(partition, write)).collect();
        for guard in &batch.guards {
            if let Guard::At { family, key, .. } | Guard::Absent { family, key } = guard {
                keys.insert(key::record(*family, partition, key));
            }
        }
        let mut all: Vec<Bytes> = keys.iter().cloned().collect();
        all.push(head.clone());
        for extent in extents {
            all.extend([key::naming(partition, *extent), key::drop(partition, *extent)]);
        }
        let seen = match self.objects.read(Pool::Records, &shard.object, vec![Look::Keys(all)]).await {
            Ok(seen) => seen,
            Err(OpError::Missing) => return Ok(Looked::default()),
            Err(error) => return Err(fault("reading a shard", error)),
        };
        let mut looked = Looked::default();
        for (key, stored) in entries(seen, 0)? {
            if key == head {
                let revision = value::read_revision(stored).ok_or_else(|| corrupt(&shard.object, &key))?;
                self.hlc.observe(revision.0);
                looked.head = Some(revision);
            } else if keys.contains(&key) {
                let record = value::read_record(stored).ok_or_else(|| corrupt(&shard.object, &key))?;
                looked.records.insert(key, record);
            } else {
                let (_, extent) = key::split_naming(&key).ok_or_else(|| corrupt(&shard.object, &key))?;
                let naming = looked.namings.entry(extent).or_default();
                if key == key::naming(partition, extent) {
                    naming.records = value::read_number(&stored).ok_or_else(|| corrupt(&shard.object, &key))?;
                } else {
                    naming.drop = Some(Drop::decode(&stored).ok_or_else(|| corrupt(&shard.object, &key))?);
                }
            }
        }
        Ok(looked)
    }

    fn remember(&self, shard: &Shard, partition: &Bytes, batch: &Batch, revision: Revision) {
        for write in &batch.writes {
            if matches!(write, Write::Put { slices, .. } if slices.is_empty()) {
                self.memo.note_plain(shard.hash, write_key(partition, write), revision);
            }
        }
    }
}

fn corrupt(object: &str, key: &Bytes) -> Fault {
    Fault::Corrupt { what: format!("the entry {key:?} of {object}") }
}

fn head_is(partition: &Bytes, revision: Revision) -> Compare {
    let value = if revision.0 == 0 { Bytes::new() } else { value::revision(revision) };
    Compare::equal(key::head(partition), value)
}

fn write_key(partition: &Bytes, write: &Write) -> Bytes {
    let (Write::Put { family, key, .. } | Write::Delete { family, key }) = write;
    key::record(*family, partition, key)
}

fn slices(write: &Write) -> &[ExtentSlice] {
    match write {
        Write::Put { slices, .. } => slices,
        Write::Delete { .. } => &[],
    }
}

fn add_writes(prepared: &mut Prepared, batch: &Batch, now: u64) {
    let partition = prepared.partition.clone();
    for write in &batch.writes {
        let key = write_key(&partition, write);
        match write {
            Write::Put { value, slices, .. } => prepared.records.push((key, value.clone(), slices.clone())),
            Write::Delete { .. } => prepared.deletes.push(key),
        }
    }
    // It may be empty now; the sweep looks, much later.
    if prepared.records.is_empty() && !prepared.deletes.is_empty() {
        prepared.puts.push((key::emptied(&partition), value::number(now)));
    }
}

/// The rule: what a batch does to what was seen.
fn judge(looked: &Looked, partition: &Bytes, batch: &Batch, seen: &BTreeSet<u128>, now: u64) -> Judged {
    let head = looked.head.unwrap_or(Revision(0));
    let holds = |guard: &Guard| match guard {
        Guard::At { family, key, revision } => {
            looked.records.get(&key::record(*family, partition, key)).is_some_and(|found| found.revision == *revision)
        }
        Guard::Absent { family, key } => !looked.records.contains_key(&key::record(*family, partition, key)),
        Guard::Unchanged(revision) => head == *revision,
        Guard::ReadAt(_) => true,
    };
    if !batch.guards.iter().all(holds) {
        return Judged::Conflict;
    }

    let (mut changes, mut unseen) = (BTreeMap::<u128, i64>::new(), BTreeSet::new());
    for write in &batch.writes {
        let old = looked.records.get(&write_key(partition, write)).map_or(&[][..], |record| &record.slices);
        for (slices, by) in [(old, -1), (slices(write), 1)] {
            // A record counts once, however many slices of the extent it names.
            for extent in slices.iter().map(|slice| slice.extent.id).collect::<BTreeSet<_>>() {
                *changes.entry(extent).or_default() += by;
                if !seen.contains(&extent) {
                    unseen.insert(extent);
                }
            }
        }
    }
    if !unseen.is_empty() {
        return Judged::Look(unseen);
    }

    let guards = vec![head_is(partition, head)];
    let mut plan =
        Plan { prepared: Prepared { partition: partition.clone(), guards, ..Prepared::default() }, ..Plan::default() };
    add_writes(&mut plan.prepared, batch, now);
    for (extent, change) in changes {
        let Naming { records, drop } = looked.namings.get(&extent).copied().unwrap_or_default();
        let after = records.saturating_add_signed(change);
        if change == 0 {
            continue;
        }
        if records == 0 && after > 0 {
            if drop.is_some_and(|drop| drop.claim.is_some()) {
                return Judged::Wait(extent);
            }
            plan.named.push(extent);
        }
        let (naming_key, drop_key) = (key::naming(partition, extent), key::drop(partition, extent));
        if let Some(drop) = drop {
            // The one thing here that changes without the head: the sweep takes it up.
            plan.prepared.guards.push(Compare::equal(drop_key.clone(), drop.encode()));
        }
        if after > 0 {
            plan.prepared.puts.push((naming_key, value::number(after)));
            if drop.is_some() {
                plan.prepared.deletes.push(drop_key);
            }
        } else {
            plan.prepared.deletes.push(naming_key);
            plan.prepared.puts.push((drop_key, Drop { since: now, claim: None }.encode()));
            plan.dropped.push(extent);
        }
    }
    Judged::Plan(plan)
}
