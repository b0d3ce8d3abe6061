//! What gives space back: extents nobody needs, groups that were fenced, partitions that became empty, and what dead processes left.
//! None of it is needed for a right answer.
//!
//! Every process sweeps what it did itself, from memory. What a process had not done when it left or died is in the cluster: its intents,
//! the drops in the shards, the list of fenced groups. Processes note in a list that they live; when one has been silent for long the
//! others go through its intents. Drops that nobody remembers are found by the great sweep (`great.rs`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use engine::{Fault, GroupId, PartitionId};
use librados::{Found, Look, OpError, Order, Pool, Step};

use crate::alive::Dropped;
use crate::extents::{INTENT_NUMBERS, extent_id, intent_key, intents};
use crate::groups::{FENCED_GROUPS, SWEPT_GROUPS};
use crate::value::Group;
use crate::{Core, fault, key, value};

/// The list of processes, each with when it was heard of last.
pub const PROCESSES: &str = "processes";

const PAGE: u64 = 500;

/// A fenced group is forgotten after so long: no operation is under way for days.
const FORGET_TICKS: u64 = 30 * 24 * 3600 * env::TICKS_PER_SECOND;

/// In one of so many rounds what is not urgent is done as well.
const RARE_ROUNDS: u64 = 360;

/// A process is taken for dead when its silence was looked at so often. After an hour in which the cluster stood still everybody was
/// silent, and must have time to say otherwise.
pub const LOOKS: u32 = 6;

/// What was seen of other processes: when each was heard of last, and in how many looks.
#[derive(Default)]
pub struct Watch(HashMap<u64, (u64, u32)>);

impl Watch {
    fn is_dead(&mut self, process: u64, heard: u64, silent_before: u64) -> bool {
        if heard > silent_before {
            self.0.remove(&process);
            return false;
        }
        let seen = self.0.entry(process).or_insert((heard, 0));
        *seen = if seen.0 == heard { (heard, seen.1.saturating_add(1)) } else { (heard, 1) };
        seen.1 >= LOOKS
    }
}

fn listed_group(listed: &Bytes) -> Result<GroupId, Fault> {
    key::split_group(listed).ok_or_else(|| Fault::Corrupt { what: "a list of fenced groups".into() })
}

fn process_key(process: u64) -> Bytes {
    Bytes::from(format!("{process:016x}"))
}

impl Core {
    /// Notes that this process is there.
    pub async fn enter(&self) -> Result<(), Fault> {
        self.put_listed(PROCESSES, vec![(process_key(self.process), value::number(self.now()))]).await
    }

    /// Notes that this process lives. One that was taken for dead meanwhile enters itself and its intents again.
    pub async fn beat(&self) -> Result<(), Fault> {
        let key = process_key(self.process);
        let is_listed = Step::Compare { key: key.clone(), order: Order::Greater, value: Bytes::new() };
        let steps = vec![is_listed, Step::Put(vec![(key, value::number(self.now()))])];
        match self.write_surely(Pool::Records, PROCESSES, steps).await {
            Ok(_) => Ok(()),
            Err(OpError::Guard | OpError::Missing) => {
                tracing::warn!("this process was silent for so long that others took it for dead");
                self.cover_again().await?;
                self.enter().await
            }
            Err(error) => Err(fault("noting that this process lives", error)),
        }
    }

    /// All that is due now.
    pub async fn sweep(&self) -> Result<(), Fault> {
        let mut watch = self.sweeping.lock().await;
        self.sweep_orphans().await?;
        self.sweep_drops().await?;
        self.sweep_intents().await?;
        self.sweep_fenced().await?;
        if self.rounds.fetch_add(1, Ordering::Relaxed).is_multiple_of(RARE_ROUNDS) {
            self.forget_swept().await?;
        }
        self.sweep_dead(&mut watch).await
    }

    /// What is not done because something failed is put back, here and below: it is in memory alone.
    async fn sweep_orphans(&self) -> Result<(), Fault> {
        let mut failed = None;
        for orphan in self.alive.take_orphans() {
            let is_settled = match failed {
                None => self.remove_unneeded(orphan, None).await.unwrap_or_else(|fault| {
                    failed = Some(fault);
                    false
                }),
                Some(_) => false,
            };
            if !is_settled {
                self.alive.requeue_orphan(orphan);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    async fn sweep_drops(&self) -> Result<(), Fault> {
        let mut due = self.alive.due_drops(self.now().saturating_sub(self.options.grace_ticks())).into_iter();
        while let Some(dropped) = due.next() {
            let is_over = self.sweep_drop(&dropped).await;
            if is_over.is_err() {
                due.by_ref().for_each(|rest| self.alive.requeue_drop(rest));
            }
            // Behind the others, so that one that always fails does not keep them back.
            if !matches!(is_over, Ok(true)) {
                self.alive.requeue_drop(dropped);
            }
            is_over?;
        }
        Ok(())
    }

    async fn sweep_drop(&self, dropped: &Dropped) -> Result<bool, Fault> {
        let Some(group) = self.find_group(&dropped.partition.group).await? else { return Ok(true) };
        let shard = self.shard(&dropped.partition, group.shards);
        self.finish_drop(&dropped.partition, &shard, dropped.extent).await
    }

    async fn sweep_intents(&self) -> Result<(), Fault> {
        let done = self.alive.take_done_intents();
        if done.is_empty() {
            return Ok(());
        }
        let keys = done.iter().copied().map(intent_key).collect();
        let deleted = self.delete_listed(&intents(self.process), keys).await;
        if deleted.is_err() {
            self.alive.requeue_done_intents(done);
        }
        deleted
    }

    pub async fn delete_listed(&self, object: &str, keys: Vec<Bytes>) -> Result<(), Fault> {
        match self.write_surely(Pool::Records, object, vec![Step::Exists, Step::Delete(keys)]).await {
            Ok(_) | Err(OpError::Missing) => Ok(()),
            Err(error) => Err(fault(format!("tidying {object}"), error)),
        }
    }

    /// A page of an object's entries after a key, and whether there are more.
    pub async fn page(&self, object: &str, prefix: Bytes, after: Bytes) -> Result<(Vec<(Bytes, Bytes)>, bool), Fault> {
        match self.objects.read(Pool::Records, object, vec![Look::Range { after, prefix, limit: PAGE }]).await {
            Ok(mut seen) => match seen.found.pop() {
                Some(Found::Page { entries, more }) => Ok((entries, more)),
                _ => Err(Fault::Corrupt { what: format!("an answer of {object}") }),
            },
            Err(OpError::Missing) => Ok((Vec::new(), false)),
            Err(error) => Err(fault(format!("reading {object}"), error)),
        }
    }

    /// All entries with a prefix, page by page, until the work on one fails.
    pub async fn each<F>(
        &self,
        object: &str,
        prefix: Bytes,
        mut work: impl FnMut(Bytes, Bytes) -> F,
    ) -> Result<(), Fault>
    where
        F: Future<Output = Result<(), Fault>>,
    {
        let mut after = prefix.clone();
        loop {
            let (page, more) = self.page(object, prefix.clone(), after.clone()).await?;
            for (key, value) in page {
                after = key.clone();
                work(key, value).await?;
            }
            if !more {
                return Ok(());
            }
        }
    }

    async fn sweep_fenced(&self) -> Result<(), Fault> {
        self.each(FENCED_GROUPS, Bytes::new(), |listed, since| async move {
            let id = listed_group(&listed)?;
            let stored = self.entry(&key::registry_of(&id), key::group(&id)).await?;
            let Some(Group { shards, fenced: Some(fenced) }) = stored.and_then(|stored| Group::decode(&stored)) else {
                return Ok(()); // the fence is on its way
            };
            if fenced.saturating_add(self.options.grace_ticks()) > self.now() {
                return Ok(());
            }
            // Whoever fenced it may have died on the way: nothing is emptied that still takes commits.
            self.fence_shards(&id, shards).await?;
            if !self.empty_group(&id, shards).await? {
                return Ok(());
            }
            self.put_listed(SWEPT_GROUPS, vec![(listed.clone(), since)]).await?;
            self.delete_listed(FENCED_GROUPS, vec![listed]).await
        })
        .await
    }

    /// Empties the shards of a fenced group. False if some of its extents are still in use here.
    async fn empty_group(&self, id: &GroupId, shards: u16) -> Result<bool, Fault> {
        let is_whole = AtomicBool::new(true);
        for number in 0..shards {
            let object = key::shard_object(id, number);
            for prefix in [key::all_namings(), key::all_drops()] {
                self.each(&object, prefix, |named, _| {
                    let is_whole = &is_whole;
                    async move {
                        let (partition, extent) = key::split_naming(&named)
                            .ok_or_else(|| Fault::Corrupt { what: format!("the entry {named:?} of a fenced group") })?;
                        // No commit can come between: nothing needs to be claimed.
                        let partition = PartitionId { group: id.clone(), key: partition };
                        if !self.remove_unneeded(extent, Some(&partition)).await? {
                            is_whole.store(false, Ordering::Relaxed);
                        }
                        Ok(())
                    }
                })
                .await?;
            }
            if is_whole.load(Ordering::Relaxed) {
                self.empty(&object).await?;
            }
        }
        Ok(is_whole.into_inner())
    }

    /// Forgets the groups that were fenced long ago.
    async fn forget_swept(&self) -> Result<(), Fault> {
        self.each(SWEPT_GROUPS, Bytes::new(), |listed, since| async move {
            if value::read_number(&since).is_none_or(|since| since.saturating_add(FORGET_TICKS) > self.now()) {
                return Ok(());
            }
            let id = listed_group(&listed)?;
            let stored = self.entry(&key::registry_of(&id), key::group(&id)).await?;
            let shards = stored.and_then(|stored| Group::decode(&stored)).map_or(0, |group| group.shards);
            for number in 0..shards {
                self.remove(&key::shard_object(&id, number)).await?;
            }
            self.delete_listed(&key::registry_of(&id), vec![key::group(&id)]).await?;
            self.delete_listed(SWEPT_GROUPS, vec![listed]).await
        })
        .await
    }

    /// Removes all entries of an object.
    async fn empty(&self, object: &str) -> Result<(), Fault> {
        loop {
            let (page, _) = self.page(object, Bytes::new(), Bytes::new()).await?;
            if page.is_empty() {
                return Ok(());
            }
            self.delete_listed(object, page.into_iter().map(|(key, _)| key).collect()).await?;
        }
    }

    async fn remove(&self, object: &str) -> Result<(), Fault> {
        match self.write_surely(Pool::Records, object, vec![Step::Remove]).await {
            Ok(_) | Err(OpError::Missing) => Ok(()),
            Err(error) => Err(fault(format!("removing {object}"), error)),
        }
    }

    /// Goes through the intents of processes that are silent.
    async fn sweep_dead(&self, watch: &mut Watch) -> Result<(), Fault> {
        let silent_before = self.now().saturating_sub(self.options.silence_ticks());
        let mut dead = Vec::new();
        let (page, _) = self.page(PROCESSES, Bytes::new(), Bytes::new()).await?;
        for (key, heard) in page {
            let process = std::str::from_utf8(&key).ok().and_then(|hex| u64::from_str_radix(hex, 16).ok());
            let heard = value::read_number(&heard);
            if let (Some(process), Some(heard)) = (process, heard)
                && process != self.process
                && watch.is_dead(process, heard, silent_before)
            {
                dead.push((process, key));
            }
        }
        for (process, listed) in &dead {
            tracing::info!(process = format!("{process:016x}"), "a process is gone; clearing up after it");
            let mut is_settled = true;
            let object = intents(*process);
            let (blocks, more) = self.page(&object, Bytes::new(), Bytes::new()).await?;
            for (block, _) in blocks {
                let number = std::str::from_utf8(&block).ok().and_then(|hex| u64::from_str_radix(hex, 16).ok());
                let first =
                    number.ok_or_else(|| Fault::Corrupt { what: format!("an intent of {object}") })? * INTENT_NUMBERS;
                let mut is_block_settled = true;
                for number in first..first + INTENT_NUMBERS {
                    is_block_settled &= self.remove_unneeded(extent_id(*process, number), None).await?;
                }
                if is_block_settled {
                    self.delete_listed(&object, vec![block]).await?;
                }
                is_settled &= is_block_settled;
            }
            if is_settled && !more {
                self.remove(&object).await?;
                self.delete_listed(PROCESSES, vec![listed.clone()]).await?;
            }
        }
        Ok(())
    }

    /// Leaves in order: of this process's own nothing is left to others but drops, which the great sweep finds.
    pub async fn leave(&self) -> Result<(), Fault> {
        for orphan in self.alive.take_orphans() {
            self.remove_unneeded(orphan, None).await?;
        }
        if !self.alive.has_fresh() {
            self.remove(&intents(self.process)).await?;
            self.delete_listed(PROCESSES, vec![process_key(self.process)]).await?;
        }
        Ok(())
    }
}
