//! The great sweep: through all shards of all groups, for what no process has in its memory any more. Drops of processes that left or
//! died, or that were too many to remember; partitions that became empty; slots of processes that are gone.
//!
//! It goes on for ever, and slowly. The registry is divided into stretches; the cluster knows when each was begun last, so that gateways
//! share the work and a restart does not begin it anew. What one pass could not do is left to the next.

use std::collections::VecDeque;

use bytes::Bytes;
use engine::{Family, Fault, GroupId, PartitionId};
use librados::{Found, Look, OpError, Pool, Step};

use crate::shard::{Compare, Shard};
use crate::sweep::PROCESSES;
use crate::value::Group;
use crate::{Core, entries, fault, key, ticks, value};

/// The list of stretches, each with when it was begun last.
const STRETCHES: &str = "stretches";

const STRETCH_REGISTRIES: u64 = 16;

/// How far a pass has come in its stretch.
#[derive(Default)]
pub struct Pass {
    registries: VecDeque<u64>,
    /// The group that was read last, of the first registry.
    after: Bytes,
    shards: VecDeque<(GroupId, u16)>,
}

fn stretch_key(stretch: u64) -> Bytes {
    Bytes::from(format!("{stretch:02x}"))
}

impl Core {
    /// Goes on with the great sweep for so many objects.
    pub async fn sweep_some(&self, objects_max: usize) -> Result<(), Fault> {
        let mut pass = self.pass.lock().await;
        let due = self.now().saturating_sub(ticks(self.options.pass));
        for _ in 0..objects_max {
            if let Some((group, number)) = pass.shards.pop_front() {
                let object = key::shard_object(&group, number);
                self.sweep_shard(&Shard::new(group, object)).await?;
            } else if let Some(registry) = pass.registries.front().copied() {
                self.read_registry(&mut pass, registry).await?;
            } else {
                let Some(stretch) = self.claim_stretch(due).await? else { return Ok(()) };
                let first = stretch * STRETCH_REGISTRIES;
                pass.registries = (first..first + STRETCH_REGISTRIES).collect();
            }
        }
        Ok(())
    }

    /// The next groups of a registry.
    async fn read_registry(&self, pass: &mut Pass, registry: u64) -> Result<(), Fault> {
        let (groups, more) = self.page(&key::registry(registry), Bytes::new(), pass.after.clone()).await?;
        pass.after = groups.last().map_or(Bytes::new(), |(entered, _)| entered.clone());
        if !more {
            pass.registries.pop_front();
            pass.after = Bytes::new();
        }
        for (entered, stored) in groups {
            let (Some(id), Some(group)) = (key::split_group(&entered), Group::decode(&stored)) else {
                return Err(Fault::Corrupt { what: "the registry of groups".into() });
            };
            if group.fenced.is_none() {
                pass.shards.extend((0..group.shards).map(|shard| (id.clone(), shard)));
            }
        }
        Ok(())
    }

    /// The stretch that was begun longest ago, and before this, for this process to go through.
    async fn claim_stretch(&self, before: u64) -> Result<Option<u64>, Fault> {
        let (begun, _) = self.page(STRETCHES, Bytes::new(), Bytes::new()).await?;
        let begun_last = |stretch: u64| {
            let stored = begun.iter().find(|(key, _)| *key == stretch_key(stretch)).map(|(_, stored)| stored.clone());
            let last = stored.as_ref().and_then(|stored| value::read_number(stored)).unwrap_or(0);
            (last, stretch, stored.unwrap_or_default())
        };
        let mut due: Vec<_> = (0..key::REGISTRIES / STRETCH_REGISTRIES).map(begun_last).collect();
        due.retain(|(last, ..)| *last < before);
        due.sort_by_key(|(last, ..)| *last);
        for (_, stretch, stored) in due {
            if self.exchange_listed(STRETCHES, stretch_key(stretch), stored, value::number(self.now())).await? {
                return Ok(Some(stretch));
            }
        }
        Ok(None)
    }

    /// Replaces an entry of a list if it is still what it was. True if that was done, once.
    async fn exchange_listed(&self, object: &str, key: Bytes, from: Bytes, to: Bytes) -> Result<bool, Fault> {
        loop {
            let steps =
                vec![Compare::equal(key.clone(), from.clone()).step(), Step::Put(vec![(key.clone(), to.clone())])];
            match self.objects.write(Pool::Records, object, steps).await {
                Ok(_) => return Ok(true),
                Err(OpError::Guard) => return Ok(false),
                Err(OpError::Missing) => self.make_object(object).await?,
                Err(error) => return Err(fault(format!("adding to {object}"), error)),
            }
        }
    }

    /// What is left to do in one shard: drops, emptied partitions, slots of processes that are gone.
    async fn sweep_shard(&self, shard: &Shard) -> Result<(), Fault> {
        let due = self.now().saturating_sub(self.options.grace_ticks());
        // What this process remembers it does itself: it knows who reads here.
        let remembered = &self.alive.remembered_drops(&shard.group);
        self.each(&shard.object, key::all_drops(), |key, stored| async move {
            let (Some((partition, extent)), Some(drop)) = (key::split_naming(&key), value::Drop::decode(&stored))
            else {
                return Err(Fault::Corrupt { what: format!("the entry {key:?} of {}", shard.object) });
            };
            if drop.since <= due && !remembered.contains(&(partition.clone(), extent)) {
                let partition = PartitionId { group: shard.group.clone(), key: partition };
                self.finish_drop(&partition, shard, extent).await?;
            }
            Ok(())
        })
        .await?;
        self.each(&shard.object, key::all_emptied(), |key, since| async move {
            let Some(partition) = key::split_emptied(&key) else {
                return Err(Fault::Corrupt { what: format!("the entry {key:?} of {}", shard.object) });
            };
            if value::read_number(&since).is_some_and(|since| since <= due) {
                self.forget_emptied(shard, &partition, key, since).await?;
            }
            Ok(())
        })
        .await?;
        self.forget_slots(shard).await
    }

    /// Slots of processes that are gone. A process is in the list before it has a slot, and the list is read after the slots.
    async fn forget_slots(&self, shard: &Shard) -> Result<(), Fault> {
        let (slots, _) = self.page(&shard.object, key::all_slots(), key::all_slots()).await?;
        let (processes, more) = self.page(PROCESSES, Bytes::new(), Bytes::new()).await?;
        let is_alive = |slot: &Bytes| processes.iter().any(|(process, _)| slot.ends_with(process));
        let gone: Vec<Bytes> = slots.into_iter().map(|(slot, _)| slot).filter(|slot| !is_alive(slot)).collect();
        if more || gone.is_empty() {
            return Ok(());
        }
        self.delete_listed(&shard.object, gone).await
    }

    /// A partition without records is forgotten with its revision once no clock is that far behind.
    async fn forget_emptied(&self, shard: &Shard, partition: &Bytes, mark: Bytes, since: Bytes) -> Result<(), Fault> {
        let head = key::head(partition);
        let mut looks = vec![Look::Keys(vec![head.clone()])];
        for family in 0..=u8::MAX {
            let prefix = key::records(Family(family), partition);
            looks.push(Look::Range { after: prefix.clone(), prefix, limit: 1 });
        }
        let seen = match self.objects.read(Pool::Records, &shard.object, looks).await {
            Ok(seen) => seen,
            Err(OpError::Missing) => return Ok(()),
            Err(error) => return Err(fault("reading a shard", error)),
        };
        let is_empty =
            !seen.found[1..].iter().any(|found| matches!(found, Found::Page { entries, .. } if !entries.is_empty()));
        let stored = entries(seen, 0)?.pop().map_or(Bytes::new(), |(_, stored)| stored);
        let mut gone = vec![mark.clone()];
        if is_empty {
            gone.push(head.clone());
        }
        let steps = vec![Compare::equal(head, stored).step(), Compare::equal(mark, since).step(), Step::Delete(gone)];
        match self.write_surely(Pool::Records, &shard.object, steps).await {
            Ok(_) | Err(OpError::Guard | OpError::Missing) => Ok(()),
            Err(error) => Err(fault("forgetting an empty partition", error)),
        }
    }
}
