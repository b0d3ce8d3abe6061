//! Engines that break their contract, each in one way, and servers that do. A simulation that does not find them out is worth
//! nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use engine::around::Around;
use engine::{
    Batch, BoxFuture, CommitError, Durability, Engine, ExtentSlice, Family, Fault, GroupId, KeyRange, PartitionId,
    Record, Revision, View, Write,
};

use super::chance::Chance;
use super::executor::Pace;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Breakage {
    /// Acknowledges a commit and does not apply it (invariant 2).
    LosesCommits,
    /// Applies a commit whose guards do not hold (invariant 1).
    IgnoresGuards,
    /// Shows a commit, then takes it back and reports a fault (invariant 3).
    TakesBackWhatItShowed,
    /// Applies the writes of a batch one after another (invariants 1 and 3).
    CommitsInPieces,
    /// A view shows each record as it is when asked for (invariant 4).
    ShowsMovingViews,
    /// A view is at times that of a while ago (invariant 3).
    ShowsOldViews,
    /// Applies a commit and answers Conflict, so that it is made again.
    CommitsTwice,
    /// A fence fences nothing (invariant 7).
    ForgetsFences,
    /// Reads the wrong bytes of an extent (invariant 8).
    ReadsOtherBytes,
    /// Loses the ceiling under which ETags are drawn.
    LosesTheCeiling,
    /// No engine's fault: the servers go by clocks that run ten times as fast as they should.
    RunsFast,
    /// Nor this: a second server on the same share, which does not know what is open at the first.
    ServesSharesTwice,
}

impl Breakage {
    pub const OF_ENGINES: [Breakage; 10] = [
        Breakage::LosesCommits,
        Breakage::IgnoresGuards,
        Breakage::TakesBackWhatItShowed,
        Breakage::CommitsInPieces,
        Breakage::ShowsMovingViews,
        Breakage::ShowsOldViews,
        Breakage::CommitsTwice,
        Breakage::ForgetsFences,
        Breakage::ReadsOtherBytes,
        Breakage::LosesTheCeiling,
    ];
}

pub struct BrokenEngine {
    inner: Arc<dyn Engine>,
    how: Breakage,
    pace: Pace,
    chance: Mutex<Chance>,
    old_views: Mutex<HashMap<PartitionId, Arc<dyn View>>>,
}

impl BrokenEngine {
    pub fn new(inner: Arc<dyn Engine>, how: Breakage, pace: Pace, chance: Chance) -> BrokenEngine {
        BrokenEngine { inner, how, pace, chance: Mutex::new(chance), old_views: Mutex::default() }
    }

    /// Is it this breakage, and is it its time? Rarely enough that the rest of the run looks right.
    fn strikes(&self, how: Breakage, of_thousand: u32) -> bool {
        self.how == how && self.chance.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).permille(of_thousand)
    }

    /// What undoes the batch.
    async fn inverse(view: &dyn View, batch: &Batch) -> Result<Batch, CommitError> {
        let mut writes = Vec::new();
        for write in &batch.writes {
            let (Write::Put { family, key, .. } | Write::Delete { family, key }) = write;
            let (family, key) = (*family, key.clone());
            writes.push(match view.get(family, &key).await.map_err(CommitError::Fault)? {
                Some(Record { value, slices, .. }) => Write::Put { family, key, value, slices },
                None => Write::Delete { family, key },
            });
        }
        Ok(Batch { guards: Vec::new(), writes })
    }
}

impl Around for BrokenEngine {
    fn inner(&self) -> &dyn Engine {
        self.inner.as_ref()
    }

    fn view<'a>(&'a self, partition: &'a PartitionId) -> BoxFuture<'a, Result<Box<dyn View>, Fault>> {
        Box::pin(async move {
            let view = self.inner.view(partition).await?;
            match self.how {
                Breakage::ShowsMovingViews => {
                    let (inner, partition) = (self.inner.clone(), partition.clone());
                    Ok(Box::new(MovingView { inner, partition, views: Mutex::new(vec![view.into()]) }) as Box<dyn View>)
                }
                Breakage::ShowsOldViews => {
                    let fresh: Arc<dyn View> = Arc::from(view);
                    let old = self.strikes(Breakage::ShowsOldViews, 20);
                    let mut views = self.old_views.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    let shown = views.get(partition).filter(|_| old).cloned().unwrap_or(fresh);
                    views.insert(partition.clone(), shown.clone());
                    Ok(Box::new(SharedView(shown)) as Box<dyn View>)
                }
                _ => Ok(view),
            }
        })
    }

    fn commit<'a>(
        &'a self,
        partition: &'a PartitionId,
        mut batch: Batch,
        durability: Durability,
    ) -> BoxFuture<'a, Result<Revision, CommitError>> {
        Box::pin(async move {
            let is_system = partition.group == partition::key::system_group();
            if self.how == Breakage::LosesTheCeiling && is_system {
                return Ok(Revision(1));
            }
            if is_system {
                return self.inner.commit(partition, batch, durability).await;
            }
            if self.strikes(Breakage::LosesCommits, 5) {
                return Ok(Revision(1));
            }
            if self.how == Breakage::IgnoresGuards {
                batch.guards.clear();
            }
            if self.strikes(Breakage::TakesBackWhatItShowed, 30) {
                let before = self.inner.view(partition).await.map_err(CommitError::Fault)?; // keeps the old extents
                let inverse = Self::inverse(before.as_ref(), &batch).await?;
                self.inner.commit(partition, batch, durability).await?;
                self.pace.steps(60).await;
                self.inner.commit(partition, inverse, durability).await?;
                return Err(CommitError::Fault(Fault::Other {
                    doing: "committing".into(),
                    detail: "taken back".into(),
                }));
            }
            if self.how == Breakage::CommitsInPieces {
                let mut guards = std::mem::take(&mut batch.guards);
                let mut revision = Revision(0);
                for write in batch.writes {
                    let piece = Batch { guards: std::mem::take(&mut guards), writes: vec![write] };
                    revision = self.inner.commit(partition, piece, durability).await?;
                    self.pace.steps(5).await;
                }
                return Ok(revision);
            }
            let has_guards = !batch.guards.is_empty();
            let committed = self.inner.commit(partition, batch, durability).await;
            if committed.is_ok() && has_guards && self.strikes(Breakage::CommitsTwice, 20) {
                return Err(CommitError::Conflict);
            }
            committed
        })
    }

    fn read_extent(&self, slice: ExtentSlice) -> BoxFuture<'_, Result<Bytes, Fault>> {
        if slice.offset > 0 && self.strikes(Breakage::ReadsOtherBytes, 50) {
            return self.inner.read_extent(ExtentSlice { offset: slice.offset - 1, ..slice });
        }
        self.inner.read_extent(slice)
    }

    fn fence<'a>(&'a self, group: &'a GroupId) -> BoxFuture<'a, Result<(), Fault>> {
        if self.how == Breakage::ForgetsFences {
            return Box::pin(std::future::ready(Ok(())));
        }
        self.inner.fence(group)
    }
}

struct SharedView(Arc<dyn View>);

impl View for SharedView {
    fn revision(&self) -> Revision {
        self.0.revision()
    }

    fn get<'a>(&'a self, family: Family, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Record>, Fault>> {
        self.0.get(family, key)
    }

    fn scan<'a>(
        &'a self,
        family: Family,
        range: &'a KeyRange,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<(Bytes, Record)>, Fault>> {
        self.0.scan(family, range, limit)
    }
}

struct MovingView {
    inner: Arc<dyn Engine>,
    partition: PartitionId,
    /// All that were looked at, so that the extents they named stay.
    views: Mutex<Vec<Arc<dyn View>>>,
}

impl MovingView {
    async fn newest(&self) -> Result<Arc<dyn View>, Fault> {
        let view: Arc<dyn View> = Arc::from(self.inner.view(&self.partition).await?);
        self.views.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(view.clone());
        Ok(view)
    }
}

impl View for MovingView {
    fn revision(&self) -> Revision {
        self.views.lock().unwrap_or_else(|poisoned| poisoned.into_inner())[0].revision()
    }

    fn get<'a>(&'a self, family: Family, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Record>, Fault>> {
        Box::pin(async move { self.newest().await?.get(family, key).await })
    }

    fn scan<'a>(
        &'a self,
        family: Family,
        range: &'a KeyRange,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<(Bytes, Record)>, Fault>> {
        Box::pin(async move { self.newest().await?.scan(family, range, limit).await })
    }
}
