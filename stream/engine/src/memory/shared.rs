//! The reference engine as several processes share it.
//!
//! Each handle stands for a process. What an engine on a network does, and a single process never sees, is done here as often as it can be:
//!
//! 1. A view's state is chosen by its first read, and every later commit to the partition moves the view.
//! 2. Revisions are ticks, and each process counts them for itself: they grow in a partition, and in a process, and not across both.
//! 3. Every call lets others go first.
//! 4. No two processes draw the same tick: its low bits tell them apart.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use super::*;
use crate::around::Around;

/// One process's handle on a memory that others share.
pub struct SharedMemory {
    memory: MemoryEngine,
    /// The last tick that was drawn, and no smaller than any revision seen.
    last: Arc<AtomicU64>,
    /// The low bits of its ticks.
    number: u64,
}

/// So many processes are told apart.
const PROCESSES_MAX: u64 = 64;

impl SharedMemory {
    pub fn new(memory: MemoryEngine) -> Self {
        let mut state = memory.lock();
        state.processes += 1;
        let number = state.processes % PROCESSES_MAX;
        drop(state);
        SharedMemory { memory, last: Arc::default(), number }
    }
}

/// Lets others go first, once.
async fn give_way() {
    let mut is_second = false;
    std::future::poll_fn(|context| {
        if is_second {
            return Poll::Ready(());
        }
        is_second = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl Around for SharedMemory {
    fn inner(&self) -> &dyn Engine {
        &self.memory
    }

    fn view<'a>(&'a self, partition: &'a PartitionId) -> BoxFuture<'a, Result<Box<dyn View>, Fault>> {
        let (memory, last) = (self.memory.clone(), self.last.clone());
        let view = MovingView { memory, last, partition: partition.clone(), chosen: OnceLock::new() };
        Box::pin(std::future::ready(Ok(Box::new(view) as Box<dyn View>)))
    }

    fn scan<'a>(&'a self, range: &'a GroupRange, limit: usize) -> BoxFuture<'a, Result<Page, Fault>> {
        Box::pin(async move {
            give_way().await;
            let page = self.memory.scan(range, limit).await?;
            for row in &page.rows {
                self.last.fetch_max(row.record.revision.0, Ordering::AcqRel);
            }
            Ok(page)
        })
    }

    fn commit<'a>(
        &'a self,
        partition: &'a PartitionId,
        batch: Batch,
        _: Durability,
    ) -> BoxFuture<'a, Result<Revision, CommitError>> {
        check(partition, &batch);
        Box::pin(async move {
            give_way().await;
            let drawn = self.last.fetch_add(1, Ordering::AcqRel) + 1;
            let revision = self.memory.lock().commit(partition, batch, drawn)?;
            self.last.fetch_max(revision.0, Ordering::AcqRel);
            Ok(revision)
        })
    }

    fn draw_tick(&self, now: u64) -> Option<u64> {
        let next = |last: u64| {
            let least = now.max(last + 1);
            least + (PROCESSES_MAX + self.number - least % PROCESSES_MAX) % PROCESSES_MAX
        };
        let before = self.last.fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| Some(next(last)));
        Some(next(before.unwrap_or_else(|last| last)))
    }
}

struct MovingView {
    memory: MemoryEngine,
    last: Arc<AtomicU64>,
    partition: PartitionId,
    chosen: OnceLock<MemoryView>,
}

impl MovingView {
    async fn look(&self) -> Result<&MemoryView, Fault> {
        give_way().await;
        if let Some(chosen) = self.chosen.get() {
            let newest = self.memory.lock().newest(&self.partition);
            return if newest > chosen.revision.0 { Err(Fault::Moved) } else { Ok(chosen) };
        }
        let chosen = self.chosen.get_or_init(|| self.memory.look(&self.partition));
        self.last.fetch_max(chosen.revision.0, Ordering::AcqRel);
        Ok(chosen)
    }
}

impl View for MovingView {
    fn revision(&self) -> Revision {
        self.chosen.get().map_or(Revision(0), |chosen| chosen.revision)
    }

    fn get<'a>(&'a self, family: Family, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Record>, Fault>> {
        Box::pin(async move { self.look().await?.get(family, key).await })
    }

    fn scan<'a>(
        &'a self,
        family: Family,
        range: &'a KeyRange,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<(Bytes, Record)>, Fault>> {
        Box::pin(async move { self.look().await?.scan(family, range, limit).await })
    }
}
