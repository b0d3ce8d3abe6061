//! Which extents are needed.
//!
//! 1. A partition's shard counts how many of its records name an extent, in the same operation as the records. The extent's object has
//!    an attribute for each partition that names it, set before the first record that does commits.
//! 2. When the last record of a partition that names an extent goes, the same operation enters a *drop* in the shard. After a while
//!    (`Options::grace`: others may still be reading) the drop is claimed, the attribute removed, and the object with it if it was the
//!    last; then the drop goes. A drop is claimed by one process; a partition that names the extent again before cancels it, and
//!    one that comes later waits for its end.
//! 3. The object is removed under the guard of its version, so an attribute set meanwhile keeps it; an attribute set afterwards finds
//!    no object, and the commit is a conflict.
//! 4. An attribute without a count is what a commit left that failed, or is yet to come: it is believed for `Options::grace`.
//! 5. An extent that was never named is removed when its pins are gone, or, after a crash, by its intent.
//! 6. What is pinned here, or may be seen in a view that is open here, stays. For readers in other processes there is the grace.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use engine::{CommitError, Extent, Fault, GroupId, PartitionId, Pin};
use librados::{Found, Look, OpError, Pool, Step};

use crate::extents::INTENT_NUMBERS;
use crate::shard::{Compare, Shard};
use crate::value::{Claim, Drop};
use crate::{Core, fault, key, value};

/// How many extents are told at once that they are named.
const TOLD_AT_ONCE: usize = 64;

/// Drops that are remembered; the others wait in their shards for the great sweep.
const DROPS_MAX: usize = 100_000;

/// A claim of a process that died is taken over after this many ticks: far longer than an operation can be under way.
const CLAIM_TICKS: u64 = 600 * env::TICKS_PER_SECOND;

/// A write that was not answered has not come after this many ticks either.
const LATE_TICKS: u64 = 600 * env::TICKS_PER_SECOND;

#[derive(Default)]
pub struct Alive(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    pins: HashMap<u128, usize>,
    /// Written here and not known to be named, with when that began.
    fresh: HashMap<u128, u64>,
    /// How many numbers of each intent are fresh, and whether all its numbers were given out.
    intents: BTreeMap<u64, Intent>,
    /// Intents that cover nothing any more.
    done_intents: Vec<u64>,
    /// Those that perhaps nobody needs: fresh ones whose pins are gone.
    orphans: HashSet<u128>,
    /// Open views by the number they were opened with.
    views: BTreeMap<u64, usize>,
    views_opened: u64,
    drops: VecDeque<Dropped>,
}

#[derive(Default)]
struct Intent {
    fresh: u64,
    given: u64,
}

/// An extent that a partition does not name any more.
#[derive(Clone, Debug)]
pub struct Dropped {
    pub partition: PartitionId,
    pub extent: u128,
    pub since: u64,
    /// Views with lower numbers may still show it.
    views_before: u64,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Counts as one open view while it exists.
pub struct OpenView(Arc<Mutex<State>>, u64);

impl std::ops::Drop for OpenView {
    fn drop(&mut self) {
        let mut state = lock(&self.0);
        if let Some(count) = state.views.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                state.views.remove(&self.1);
            }
        }
    }
}

/// Counts as one pin while it exists.
struct Pinned(Arc<Mutex<State>>, u128);

impl std::ops::Drop for Pinned {
    fn drop(&mut self) {
        let mut state = lock(&self.0);
        let Some(count) = state.pins.get_mut(&self.1) else { return };
        *count -= 1;
        if *count == 0 {
            state.pins.remove(&self.1);
            if state.fresh.contains_key(&self.1) {
                state.orphans.insert(self.1);
            }
        }
    }
}

impl State {
    fn settle(&mut self, extent: u128) {
        if self.fresh.remove(&extent).is_some() {
            let block = extent as u64 / INTENT_NUMBERS; // the lower half is the number
            let Some(intent) = self.intents.get_mut(&block) else { return };
            intent.fresh -= 1;
            if intent.fresh == 0 && intent.given == INTENT_NUMBERS {
                self.intents.remove(&block);
                self.done_intents.push(block);
            }
        }
    }
}

impl Alive {
    pub fn open_view(&self) -> OpenView {
        let mut state = lock(&self.0);
        state.views_opened += 1;
        let number = state.views_opened;
        *state.views.entry(number).or_default() += 1;
        OpenView(Arc::clone(&self.0), number)
    }

    pub fn pin(&self, extent: Extent) -> Pin {
        *lock(&self.0).pins.entry(extent.id).or_default() += 1;
        Pin::new(extent, Arc::new(Pinned(Arc::clone(&self.0), extent.id)))
    }

    /// Pins an extent that is about to be written under this number.
    pub fn pin_fresh(&self, extent: Extent, number: u64, now: u64) -> Pin {
        {
            let mut state = lock(&self.0);
            state.fresh.insert(extent.id, now);
            let intent = state.intents.entry(number / INTENT_NUMBERS).or_default();
            intent.fresh += 1;
            intent.given += 1;
        }
        self.pin(extent)
    }

    /// These are named now: they are no longer this process's own affair.
    pub fn settle(&self, extents: &[u128]) {
        let mut state = lock(&self.0);
        extents.iter().for_each(|extent| state.settle(*extent));
    }

    pub fn queue_drops(&self, partition: &PartitionId, extents: &[u128], since: u64) {
        let mut state = lock(&self.0);
        let views_before = state.views_opened + 1;
        for extent in extents {
            if state.drops.len() < DROPS_MAX {
                state.drops.push_back(Dropped { partition: partition.clone(), extent: *extent, since, views_before });
            }
        }
    }

    /// The drops that are due: as old as this, and nobody here reads the extent.
    pub fn due_drops(&self, not_after: u64) -> Vec<Dropped> {
        let mut state = lock(&self.0);
        let first_view = state.views.first_key_value().map_or(u64::MAX, |(number, _)| *number);
        let drops = std::mem::take(&mut state.drops);
        let is_due = |drop: &Dropped| {
            drop.since <= not_after && drop.views_before <= first_view && !state.pins.contains_key(&drop.extent)
        };
        let (due, later) = drops.into_iter().partition(is_due);
        state.drops = later;
        Vec::from(due)
    }

    pub fn requeue_drop(&self, dropped: Dropped) {
        lock(&self.0).drops.push_back(dropped);
    }

    /// The drops in a group that this process remembers.
    pub fn remembered_drops(&self, group: &GroupId) -> HashSet<(Bytes, u128)> {
        let state = lock(&self.0);
        let of_group = state.drops.iter().filter(|drop| drop.partition.group == *group);
        of_group.map(|drop| (drop.partition.key.clone(), drop.extent)).collect()
    }

    pub fn take_orphans(&self) -> Vec<u128> {
        let mut state = lock(&self.0);
        let orphans = std::mem::take(&mut state.orphans);
        let (pinned, free) = orphans.into_iter().partition(|orphan| state.pins.contains_key(orphan));
        state.orphans = pinned;
        Vec::from_iter::<HashSet<u128>>(free)
    }

    pub fn requeue_orphan(&self, orphan: u128) {
        lock(&self.0).orphans.insert(orphan);
    }

    pub fn take_done_intents(&self) -> Vec<u64> {
        std::mem::take(&mut lock(&self.0).done_intents)
    }

    pub fn requeue_done_intents(&self, blocks: Vec<u64>) {
        lock(&self.0).done_intents.extend(blocks);
    }

    /// Is anything written here not named yet?
    pub fn has_fresh(&self) -> bool {
        !lock(&self.0).fresh.is_empty()
    }

    /// Intents that cover something, or may yet.
    pub fn open_intents(&self) -> Vec<u64> {
        lock(&self.0).intents.keys().copied().collect()
    }

    /// Is the extent one that was sent from here a short while ago? Nobody has seen it, but it may still come.
    fn may_come(&self, extent: u128, now: u64) -> bool {
        lock(&self.0).fresh.get(&extent).is_some_and(|sent| sent.saturating_add(LATE_TICKS) > now)
    }

    fn is_pinned(&self, extent: u128) -> bool {
        lock(&self.0).pins.contains_key(&extent)
    }
}

/// A claim on a drop, as it stands in its shard.
struct Claimed<'a> {
    object: &'a str,
    key: &'a Bytes,
    value: &'a Bytes,
}

/// Whether an extent is needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// A partition names it, or has yet to drop it; the version it was seen with.
    Named(u64),
    /// An attribute without a count that is too young to judge.
    Doubtful,
    /// Nobody names it; the version it was seen with.
    Nobody(u64),
    /// It is gone.
    Gone,
}

impl Core {
    /// Tells extents that this partition names them. A conflict if one is gone.
    pub async fn tell_named(self: &Arc<Self>, partition: &PartitionId, extents: &[u128]) -> Result<(), CommitError> {
        let (name, value) = (key::name_attribute(partition), value::name(self.now(), partition));
        let tell = |extent: &u128| {
            let (core, object) = (Arc::clone(self), key::extent_object(*extent));
            let steps = vec![Step::Exists, Step::SetAttribute { name: name.clone(), value: value.clone() }];
            tokio::spawn(async move { core.write_surely(Pool::Bodies, &object, steps).await })
        };
        for some in extents.chunks(TOLD_AT_ONCE) {
            let told: Vec<_> = some.iter().map(tell).collect();
            for one in told {
                let died = |_| Fault::Other { doing: "naming an extent".into(), detail: "a task died".into() };
                match one.await.map_err(died)? {
                    Ok(_) => {}
                    Err(OpError::Missing) => return Err(CommitError::Conflict),
                    Err(error) => return Err(fault("naming an extent", error).into()),
                }
            }
        }
        Ok(())
    }

    /// Who needs an extent, besides one partition.
    pub async fn need(&self, extent: u128, besides: Option<&PartitionId>) -> Result<Need, Fault> {
        let object = key::extent_object(extent);
        let seen = match self.objects.read(Pool::Bodies, &object, vec![Look::Attributes]).await {
            Ok(seen) => seen,
            Err(OpError::Missing) => return Ok(Need::Gone),
            Err(error) => return Err(fault("reading an extent's attributes", error)),
        };
        let Some(Found::Attributes(attributes)) = seen.found.into_iter().next() else {
            return Err(Fault::Corrupt { what: format!("the attributes of {object}") });
        };
        let mut need = Need::Nobody(seen.version);
        for (name, stored) in attributes {
            if !name.starts_with(key::NAME_ATTRIBUTE) {
                continue;
            }
            let (at, partition) = value::read_name(stored)
                .ok_or_else(|| Fault::Corrupt { what: format!("the attribute {name} of {object}") })?;
            if besides == Some(&partition) {
                continue;
            }
            if self.is_named_by(&partition, extent).await? {
                return Ok(Need::Named(seen.version));
            }
            if at.saturating_add(self.options.grace_ticks()) > self.now() {
                need = Need::Doubtful;
            }
        }
        Ok(need)
    }

    async fn is_named_by(&self, partition: &PartitionId, extent: u128) -> Result<bool, Fault> {
        let Some(group) = self.find_group(&partition.group).await? else { return Ok(false) };
        let keys = vec![key::naming(&partition.key, extent), key::drop(&partition.key, extent)];
        let shard = self.shard(partition, group.shards);
        match self.objects.read(Pool::Records, &shard.object, vec![Look::Keys(keys)]).await {
            Ok(seen) => Ok(!crate::entries(seen, 0)?.is_empty()),
            Err(OpError::Missing) => Ok(false),
            Err(error) => Err(fault("reading a shard", error)),
        }
    }

    /// Removes an extent that nobody needs, besides one partition that does not need it any more. True if that is settled, false if
    /// it must be looked at again later.
    pub async fn remove_unneeded(&self, extent: u128, besides: Option<&PartitionId>) -> Result<bool, Fault> {
        self.remove_claimed(extent, besides, None).await
    }

    /// The same, under a claim on the partition's drop: nothing is changed after another took the claim over, for the partition may name
    /// the extent again since. The claim is looked at after the version was read, and a new name changes the version.
    async fn remove_claimed(
        &self,
        extent: u128,
        mut besides: Option<&PartitionId>,
        claim: Option<&Claimed<'_>>,
    ) -> Result<bool, Fault> {
        loop {
            if self.alive.is_pinned(extent) {
                return Ok(false);
            }
            let (version, leaving) = match self.need(extent, besides).await? {
                Need::Gone if self.alive.may_come(extent, self.now()) => return Ok(false),
                Need::Gone => break,
                Need::Doubtful => return Ok(false),
                Need::Nobody(version) => (version, None),
                // The others may be leaving at the same time: whoever takes its name away last finds none, and removes the extent.
                Need::Named(version) => match besides {
                    Some(partition) => (version, Some(partition)),
                    None => break,
                },
            };
            if let Some(claim) = claim
                && self.entry(claim.object, claim.key.clone()).await?.as_ref() != Some(claim.value)
            {
                return Ok(false);
            }
            let change = match leaving {
                Some(partition) => Step::RemoveAttribute { name: key::name_attribute(partition) },
                None => Step::Remove,
            };
            let steps = vec![Step::Version(version), change];
            match self.objects.write(Pool::Bodies, &key::extent_object(extent), steps).await {
                Ok(_) if leaving.is_some() => besides = None,
                Ok(_) | Err(OpError::Missing) => break,
                Err(OpError::Guard | OpError::Unknown { .. }) => {} // look again
                Err(error) => return Err(fault("removing an extent", error)),
            }
        }
        self.alive.settle(&[extent]);
        Ok(true)
    }

    /// Ends a drop. False if it must be tried again later.
    pub async fn finish_drop(&self, partition: &PartitionId, shard: &Shard, extent: u128) -> Result<bool, Fault> {
        let drop_key = key::drop(&partition.key, extent);
        let Some(stored) = self.entry(&shard.object, drop_key.clone()).await? else { return Ok(true) };
        let drop =
            Drop::decode(&stored).ok_or_else(|| Fault::Corrupt { what: format!("a drop of {}", shard.object) })?;
        let now = self.now();
        if drop.claim.is_some_and(|claim| claim.process != self.process && claim.at.saturating_add(CLAIM_TICKS) > now) {
            return Ok(true); // another process is at it
        }
        // A claim keeps others waiting, so none is made in vain.
        if self.alive.is_pinned(extent) || self.need(extent, Some(partition)).await? == Need::Doubtful {
            return Ok(false);
        }
        let claimed = Drop { claim: Some(Claim { process: self.process, at: now }), ..drop }.encode();
        let exchange = |from: &Bytes, to: Option<Bytes>| {
            let change = match to {
                Some(to) => Step::Put(vec![(drop_key.clone(), to)]),
                None => Step::Delete(vec![drop_key.clone()]),
            };
            vec![Compare::equal(drop_key.clone(), from.clone()).step(), change]
        };
        match self.objects.write(Pool::Records, &shard.object, exchange(&stored, Some(claimed.clone()))).await {
            Ok(_) => {}
            Err(OpError::Guard | OpError::Missing) => return Ok(true),
            Err(OpError::Unknown { .. }) => return Ok(false), // claimed or not: the next try tells
            Err(error) => return Err(fault("claiming a drop", error)),
        }
        let claim = Claimed { object: &shard.object, key: &drop_key, value: &claimed };
        let is_over = self.remove_claimed(extent, Some(partition), Some(&claim)).await?;
        let left = (!is_over).then(|| Drop { claim: None, ..drop }.encode());
        match self.write_surely(Pool::Records, &shard.object, exchange(&claimed, left)).await {
            Ok(_) | Err(OpError::Guard | OpError::Missing) => Ok(is_over),
            Err(error) => Err(fault("ending a drop", error)),
        }
    }

    /// Takes a claim away that stands in the way of a commit, if its process died. One that wakes up later finds that it has none.
    pub async fn free_stale_claim(&self, partition: &PartitionId, shard: &Shard, extent: u128) -> Result<(), Fault> {
        let drop_key = key::drop(&partition.key, extent);
        let Some(stored) = self.entry(&shard.object, drop_key.clone()).await? else { return Ok(()) };
        let Some(drop) = Drop::decode(&stored) else {
            return Err(Fault::Corrupt { what: format!("a drop of {}", shard.object) });
        };
        if drop.claim.is_none_or(|claim| claim.at.saturating_add(CLAIM_TICKS) > self.now()) {
            return Ok(());
        }
        let free = Drop { claim: None, ..drop }.encode();
        let steps = vec![Compare::equal(drop_key.clone(), stored).step(), Step::Put(vec![(drop_key, free)])];
        match self.write_surely(Pool::Records, &shard.object, steps).await {
            Ok(_) | Err(OpError::Guard | OpError::Missing) => Ok(()),
            Err(error) => Err(fault("freeing a drop", error)),
        }
    }
}
