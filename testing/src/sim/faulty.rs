//! An engine that is slow, fails and races, but never lies: whatever it does, the contract of `engine` allows. It wraps any other.
//!
//! 1. Every call waits for a number of steps before and after its work, so that any two calls can meet in any order.
//! 2. A commit fails before it is applied, or is applied and reported as failed. Both are `Fault`: the caller cannot tell.
//! 3. A commit that has guards is refused with `Conflict` although they hold, as if somebody had been faster.
//! 4. Views, their records, scans, extents and fences fail.
//! 5. Scans end early, reads give few bytes, and extents are cut short, so that bodies of several extents are cheap. (An extent
//!    shorter than asked for is the one liberty taken; a caller that asks until there is no more does not notice.)

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use engine::around::Around;
use engine::{
    Batch, BoxFuture, CommitError, Durability, Engine, ExtentError, ExtentSlice, Family, Fault, GroupId, GroupRange,
    KeyRange, Page, PartitionId, Pin, Record, Revision, Source, View,
};

use super::chance::Chance;
use super::executor::Pace;

/// How often each fault strikes, of a thousand calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Faults {
    pub slow: u32,
    pub slow_steps_max: u64,
    pub commit_not_applied: u32,
    pub commit_applied: u32,
    pub conflict: u32,
    pub view: u32,
    pub scan: u32,
    pub write_extent: u32,
    pub read_extent: u32,
    pub fence: u32,
    pub short_pages: u32,
    pub short_reads: u32,
    pub extent_bytes_max: u64,
}

impl Faults {
    /// Fast and without a fault.
    pub const NONE: Faults = Faults {
        slow: 0,
        slow_steps_max: 0,
        commit_not_applied: 0,
        commit_applied: 0,
        conflict: 0,
        view: 0,
        scan: 0,
        write_extent: 0,
        read_extent: 0,
        fence: 0,
        short_pages: 0,
        short_reads: 0,
        extent_bytes_max: engine::EXTENT_BYTES_MAX,
    };
}

/// What has struck so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Struck {
    pub faults: u64,
    /// Commits that were applied and reported as failed.
    pub applied_in_secret: u64,
    /// Refused although the guards held.
    pub invented_conflicts: u64,
    /// Refused because the guards did not hold, or the group was fenced.
    pub real_conflicts: u64,
    pub fenced: u64,
}

/// Clones are the same engine.
#[derive(Clone)]
pub struct FaultyEngine {
    inner: Arc<dyn Engine>,
    whims: Arc<Whims>,
}

struct Whims {
    pace: Pace,
    state: Mutex<(Chance, Faults, Struck)>,
}

impl Whims {
    fn with<T>(&self, f: impl FnOnce(&mut Chance, &Faults, &mut Struck) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (chance, faults, struck) = &mut *state;
        f(chance, faults, struck)
    }

    async fn dawdle(&self) {
        let steps = self.with(|chance, faults, _| {
            if !chance.permille(faults.slow) {
                return 0;
            }
            // Mostly a little, at times as long as several whole requests take.
            let most = if chance.below(8) == 0 { faults.slow_steps_max } else { faults.slow_steps_max.div_ceil(10) };
            chance.between(1, most.max(1))
        });
        if steps > 0 {
            self.pace.steps(steps).await;
        }
    }

    fn strikes(&self, how_often: fn(&Faults) -> u32) -> Result<(), Fault> {
        self.with(|chance, faults, struck| {
            if !chance.permille(how_often(faults)) {
                return Ok(());
            }
            struck.faults += 1;
            Err(match chance.below(4) {
                0 => Fault::Full,
                1 => Fault::Stopped { why: "simulated".into() },
                2 => Fault::io("simulating", std::io::Error::other("simulated")),
                _ => Fault::Other { doing: "simulating".into(), detail: "simulated".into() },
            })
        })
    }
}

impl FaultyEngine {
    pub fn new(inner: Arc<dyn Engine>, chance: Chance, pace: Pace, faults: Faults) -> FaultyEngine {
        let state = Mutex::new((chance, faults, Struck::default()));
        FaultyEngine { inner, whims: Arc::new(Whims { pace, state }) }
    }

    /// The same whims over another handle on what is stored.
    pub fn over(&self, inner: Arc<dyn Engine>) -> FaultyEngine {
        FaultyEngine { inner, whims: self.whims.clone() }
    }

    pub fn set_faults(&self, to: Faults) {
        let mut state = self.whims.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        state.1 = to;
    }

    pub fn struck(&self) -> Struck {
        self.whims.with(|_, _, struck| *struck)
    }
}

impl Around for FaultyEngine {
    fn inner(&self) -> &dyn Engine {
        self.inner.as_ref()
    }

    fn view<'a>(&'a self, partition: &'a PartitionId) -> BoxFuture<'a, Result<Box<dyn View>, Fault>> {
        Box::pin(async move {
            self.whims.dawdle().await;
            self.whims.strikes(|faults| faults.view)?;
            let inner = self.inner.view(partition).await?;
            self.whims.dawdle().await;
            Ok(Box::new(FaultyView { inner, whims: self.whims.clone() }) as Box<dyn View>)
        })
    }

    fn scan<'a>(&'a self, range: &'a GroupRange, limit: usize) -> BoxFuture<'a, Result<Page, Fault>> {
        Box::pin(async move {
            self.whims.dawdle().await;
            self.whims.strikes(|faults| faults.scan)?;
            let limit = self.whims.with(|chance, faults, _| match chance.permille(faults.short_pages) {
                true => limit.min(chance.between(1, 3) as usize),
                false => limit,
            });
            let page = self.inner.scan(range, limit).await?;
            self.whims.dawdle().await;
            Ok(page)
        })
    }

    fn commit<'a>(
        &'a self,
        partition: &'a PartitionId,
        batch: Batch,
        durability: Durability,
    ) -> BoxFuture<'a, Result<Revision, CommitError>> {
        Box::pin(async move {
            self.whims.dawdle().await;
            self.whims.strikes(|faults| faults.commit_not_applied).map_err(CommitError::Fault)?;
            let invented = self.whims.with(|chance, faults, struck| {
                let invented = !batch.guards.is_empty() && chance.permille(faults.conflict);
                struck.invented_conflicts += u64::from(invented);
                invented
            });
            if invented {
                return Err(CommitError::Conflict);
            }
            let committed = self.inner.commit(partition, batch, durability).await;
            self.whims.dawdle().await;
            match &committed {
                Ok(_) => {
                    self.whims.strikes(|faults| faults.commit_applied).map_err(|fault| {
                        self.whims.with(|_, _, struck| struck.applied_in_secret += 1);
                        CommitError::Fault(fault)
                    })?;
                }
                Err(CommitError::Conflict) => self.whims.with(|_, _, struck| struck.real_conflicts += 1),
                Err(CommitError::Fenced) => self.whims.with(|_, _, struck| struck.fenced += 1),
                Err(CommitError::Fault(_)) => {}
            }
            committed
        })
    }

    fn sync(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move {
            self.whims.dawdle().await;
            self.whims.strikes(|faults| faults.commit_not_applied)?;
            self.inner.sync().await
        })
    }

    fn write_extent<'a>(
        &'a self,
        source: &'a mut dyn Source,
        bytes_max: u64,
    ) -> BoxFuture<'a, Result<Option<Pin>, ExtentError>> {
        Box::pin(async move {
            self.whims.dawdle().await;
            self.whims.strikes(|faults| faults.write_extent).map_err(ExtentError::Fault)?;
            let bytes_max = self.whims.with(|_, faults, _| bytes_max.min(faults.extent_bytes_max));
            let pin = self.inner.write_extent(source, bytes_max).await?;
            self.whims.dawdle().await;
            self.whims.strikes(|faults| faults.write_extent).map_err(ExtentError::Fault)?;
            Ok(pin)
        })
    }

    fn read_extent(&self, slice: ExtentSlice) -> BoxFuture<'_, Result<Bytes, Fault>> {
        Box::pin(async move {
            self.whims.dawdle().await;
            self.whims.strikes(|faults| faults.read_extent)?;
            let bytes = self.inner.read_extent(slice).await?;
            Ok(self.whims.with(|chance, faults, _| match chance.permille(faults.short_reads) && !bytes.is_empty() {
                true => bytes.slice(..chance.between(1, bytes.len() as u64) as usize),
                false => bytes,
            }))
        })
    }

    fn fence<'a>(&'a self, group: &'a GroupId) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            self.whims.dawdle().await;
            self.whims.strikes(|faults| faults.fence)?;
            self.inner.fence(group).await?;
            self.whims.dawdle().await;
            self.whims.strikes(|faults| faults.fence)
        })
    }
}

struct FaultyView {
    inner: Box<dyn View>,
    whims: Arc<Whims>,
}

impl View for FaultyView {
    fn revision(&self) -> Revision {
        self.inner.revision()
    }

    fn get<'a>(&'a self, family: Family, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Record>, Fault>> {
        Box::pin(async move {
            self.whims.dawdle().await;
            self.whims.strikes(|faults| faults.view)?;
            self.inner.get(family, key).await
        })
    }

    fn scan<'a>(
        &'a self,
        family: Family,
        range: &'a KeyRange,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<(Bytes, Record)>, Fault>> {
        Box::pin(async move {
            self.whims.dawdle().await;
            self.whims.strikes(|faults| faults.view)?;
            self.inner.scan(family, range, limit).await
        })
    }
}
