//! The engine on Ceph RADOS: any number of processes share one cluster and keep nothing of their own.
//!
//! A group has a fixed number of shard objects, in whose omap its records lie; a partition is in one of them. A commit is one compound
//! operation on one shard (`shard.rs`), a body is an object of its own (`extents.rs`). docs/decisions/0019 says why so and not
//! otherwise, docs/cluster.md what an operator needs to know.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::Bytes;
use engine::{
    Batch, BoxFuture, CommitError, Durability, Engine, Extent, ExtentError, ExtentSlice, Fault, GroupId, GroupRange,
    Page, PartitionId, Pin, Revision, Source, Tenure, View,
};
use env::{Clock, Ids, TICKS_PER_SECOND};
use librados::{Found, Objects, OpError, Seen};

mod alive;
mod commit;
mod extents;
#[cfg(feature = "fake")]
pub mod fake;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod gather;
mod great;
mod groups;
mod hlc;
mod key;
mod memo;
mod owners;
mod shard;
mod sweep;
mod value;
mod view;

/// Between two tries of the same thing.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Between two rounds of sweeping, and between two notes that this process lives.
const SWEEP_PAUSE: Duration = Duration::from_secs(10);

/// Objects that the great sweep looks at in one round.
const ROUND_OBJECTS: usize = 32;

pub struct Options {
    /// How many shards a new group gets. A group keeps the number it was made with.
    pub shards: Arc<dyn Fn(&GroupId) -> u16 + Send + Sync>,
    /// How long a commit may take, waiting included.
    pub deadline: Duration,
    /// How long an extent that nobody names any more is kept for readers in other processes.
    pub grace: Duration,
    /// A process that was not heard of for so long is taken for dead.
    pub silence: Duration,
    /// Between two great sweeps of the same shards.
    pub pass: Duration,
    /// So many processes are told apart by what they draw their ticks from. More, and a busy one draws them faster than time goes.
    pub processes: u64,
}

impl Options {
    pub fn new(shards: impl Fn(&GroupId) -> u16 + Send + Sync + 'static) -> Self {
        Options {
            shards: Arc::new(shards),
            deadline: Duration::from_secs(28),
            grace: Duration::from_secs(3600),
            silence: Duration::from_secs(3600),
            pass: Duration::from_secs(6 * 3600),
            processes: 256,
        }
    }

    fn grace_ticks(&self) -> u64 {
        ticks(self.grace)
    }

    fn silence_ticks(&self) -> u64 {
        ticks(self.silence)
    }
}

fn ticks(duration: Duration) -> u64 {
    (duration.as_nanos() * u128::from(TICKS_PER_SECOND) / 1_000_000_000) as u64
}

struct Core {
    objects: Arc<dyn Objects>,
    clock: Arc<dyn Clock>,
    options: Options,
    /// Tells this process from every other, of all time.
    process: u64,
    hlc: hlc::Hlc,
    memo: memo::Memo,
    known: groups::Known,
    alive: alive::Alive,
    owners: owners::Owners,
    openings: view::Openings,
    reads: extents::Reads,
    /// Rounds of sweeping so far.
    rounds: AtomicU64,
    /// Held by the round under way: when one is over, so is what those before it had taken up.
    sweeping: tokio::sync::Mutex<sweep::Watch>,
    /// Held by whoever goes on with the great sweep.
    pass: tokio::sync::Mutex<great::Pass>,
    intents: tokio::sync::Mutex<extents::Intents>,
}

impl Core {
    fn now(&self) -> u64 {
        self.clock.now().ticks()
    }
}

pub struct Rados {
    core: Arc<Core>,
}

impl Rados {
    /// Begins to work on the cluster, and to sweep it now and then. Must be called in a runtime.
    pub async fn open(
        objects: Arc<dyn Objects>,
        clock: Arc<dyn Clock>,
        ids: &dyn Ids,
        options: Options,
    ) -> Result<Arc<Rados>, Fault> {
        let starts = hlc::count_start(objects.as_ref(), options.deadline).await?;
        let hlc = hlc::Hlc::new(starts, options.processes);
        let core = Arc::new(Core {
            objects,
            clock,
            options,
            process: ids.next().0 as u64,
            hlc,
            memo: memo::Memo::default(),
            known: groups::Known::default(),
            alive: alive::Alive::default(),
            owners: owners::Owners::default(),
            openings: view::Openings::default(),
            reads: extents::Reads::default(),
            rounds: AtomicU64::default(),
            sweeping: tokio::sync::Mutex::default(),
            pass: tokio::sync::Mutex::default(),
            intents: tokio::sync::Mutex::default(),
        });
        core.enter().await?;
        // Apart: a sweep may take as long as there is much to do.
        repeat(&core, "noting that this process lives", |core| Box::pin(async move { core.beat().await }));
        repeat(&core, "sweeping the cluster", |core| Box::pin(async move { core.sweep().await }));
        repeat(&core, "the great sweep", |core| Box::pin(async move { core.sweep_some(ROUND_OBJECTS).await }));
        Ok(Arc::new(Rados { core }))
    }

    /// How other processes reach this one, so that it can own groups; and who is told when it owns one no more.
    pub fn introduce(&self, address: String, on_loss: Arc<dyn Fn(GroupId) + Send + Sync>) {
        self.core.owners.introduce(address, on_loss);
    }

    /// Sweeps now what is due, to the end.
    pub async fn sweep_now(&self) -> Result<(), Fault> {
        for _ in 0..sweep::LOOKS {
            self.core.sweep().await?;
        }
        self.core.sweep_some(usize::MAX).await
    }

    /// Leaves the cluster in order. Not needed: what a process leaves undone others do, later.
    pub async fn close(&self) -> Result<(), Fault> {
        for group in self.core.owned_groups() {
            self.core.disown(&group).await?;
        }
        self.core.leave().await
    }
}

/// Does something again and again for as long as there is an engine.
fn repeat(core: &Arc<Core>, what: &'static str, work: fn(Arc<Core>) -> BoxFuture<'static, Result<(), Fault>>) {
    let weak = Arc::downgrade(core);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(SWEEP_PAUSE).await;
            let Some(core) = weak.upgrade() else { return };
            if let Err(fault) = work(core).await {
                tracing::warn!(%fault, "{what} failed; it is tried again");
            }
        }
    });
}

/// What one step of a read found, where that is entries.
fn entries(seen: Seen, step: usize) -> Result<Vec<(Bytes, Bytes)>, Fault> {
    match seen.found.into_iter().nth(step) {
        Some(Found::Entries(entries)) => Ok(entries),
        _ => Err(Fault::Corrupt { what: "an answer of the cluster".into() }),
    }
}

fn fault(doing: impl Into<String>, error: OpError) -> Fault {
    let doing = doing.into();
    match error {
        OpError::Full => Fault::Full,
        OpError::Unknown { why } | OpError::Failed { why } => Fault::Other { doing, detail: why },
        OpError::Missing => Fault::Other { doing, detail: "there is no such object".into() },
        OpError::Exists => Fault::Other { doing, detail: "the object is there already".into() },
        OpError::Guard => Fault::Other { doing, detail: "a guard did not hold".into() },
    }
}

impl Engine for Rados {
    fn view<'a>(&'a self, partition: &'a PartitionId) -> BoxFuture<'a, Result<Box<dyn View>, Fault>> {
        Box::pin(async move { Ok(Box::new(self.core.open_view(partition).await?) as Box<dyn View>) })
    }

    fn scan<'a>(&'a self, range: &'a GroupRange, limit: usize) -> BoxFuture<'a, Result<Page, Fault>> {
        Box::pin(self.core.scan_group(range, limit))
    }

    /// Buffered or not: RADOS acknowledges what is durable.
    fn commit<'a>(
        &'a self,
        partition: &'a PartitionId,
        batch: Batch,
        _durability: Durability,
    ) -> BoxFuture<'a, Result<Revision, CommitError>> {
        Box::pin(async move {
            // A task of its own: a batch that began goes on whoever stops waiting.
            let committed = tokio::spawn(commit::commit(Arc::clone(&self.core), partition.clone(), batch)).await;
            committed.unwrap_or_else(|_| {
                let detail = "the commit's task died; its outcome is not known".into();
                Err(Fault::Other { doing: "committing".into(), detail }.into())
            })
        })
    }

    fn draw_tick(&self, now: u64) -> Option<u64> {
        Some(self.core.hlc.draw(now))
    }

    fn sync(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn write_extent<'a>(
        &'a self,
        source: &'a mut dyn Source,
        bytes_max: u64,
    ) -> BoxFuture<'a, Result<Option<Pin>, ExtentError>> {
        Box::pin(self.core.write_extent(source, bytes_max))
    }

    fn read_extent(&self, slice: ExtentSlice) -> BoxFuture<'_, Result<Bytes, Fault>> {
        Box::pin(self.core.read_extent(slice))
    }

    fn pin(&self, extent: Extent) -> Pin {
        self.core.alive.pin(extent)
    }

    fn own<'a>(&'a self, group: &'a GroupId) -> BoxFuture<'a, Result<Tenure, Fault>> {
        Box::pin(self.core.own(group))
    }

    fn disown<'a>(&'a self, group: &'a GroupId) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.core.disown(group))
    }

    fn fence<'a>(&'a self, group: &'a GroupId) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.core.fence(group))
    }
}
