//! An engine that counts what a reader steps over, in the manner of a log-structured tree that is never cleaned: what was deleted stays
//! in the way for ever. The worst case of every real one.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use engine::{
    Batch, BoxFuture, CommitError, Durability, Engine, Extent, ExtentError, ExtentSlice, Family, Fault, GroupId,
    GroupRange, KeyRange, Page, PartitionId, Pin, Record, Revision, Row, ScanStart, Source, View, Write,
};

type Rows = BTreeMap<(PartitionId, Family, Bytes), Option<Record>>;

#[derive(Default)]
pub struct CrossingEngine {
    rows: Arc<Mutex<Rows>>,
    touched: Arc<AtomicU64>,
    commits: AtomicU64,
}

impl CrossingEngine {
    /// Rows read or stepped over since the last call.
    pub fn touched(&self) -> u64 {
        self.touched.swap(0, Ordering::SeqCst)
    }

    /// Commits to queues since the beginning.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::SeqCst)
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().expect("no test panics under it")
    }
}

/// One test, one task: nothing commits while a view is open, so the newest state is the view's.
struct CrossingView {
    partition: PartitionId,
    rows: Arc<Mutex<Rows>>,
    touched: Arc<AtomicU64>,
}

impl View for CrossingView {
    fn revision(&self) -> Revision {
        Revision(0)
    }

    fn get<'a>(&'a self, family: Family, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Record>, Fault>> {
        self.touched.fetch_add(1, Ordering::SeqCst);
        let rows = self.rows.lock().expect("no test panics under it");
        let found = rows.get(&(self.partition.clone(), family, Bytes::copy_from_slice(key))).cloned().flatten();
        Box::pin(std::future::ready(Ok(found)))
    }

    fn scan<'a>(
        &'a self,
        family: Family,
        range: &'a KeyRange,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<(Bytes, Record)>, Fault>> {
        let at = |key: &Bytes| (self.partition.clone(), family, key.clone());
        let start = match &range.start {
            Bound::Included(key) => Bound::Included(at(key)),
            Bound::Excluded(key) => Bound::Excluded(at(key)),
            Bound::Unbounded => Bound::Included(at(&Bytes::new())),
        };
        let inside = |key: &Bytes| match &range.end {
            Bound::Included(end) => key <= end,
            Bound::Excluded(end) => key < end,
            Bound::Unbounded => true,
        };
        let mut found = Vec::new();
        for ((partition, of, key), record) in
            self.rows.lock().expect("no test panics under it").range((start, Bound::Unbounded))
        {
            if found.len() == limit || *partition != self.partition || *of != family || !inside(key) {
                break;
            }
            self.touched.fetch_add(1, Ordering::SeqCst);
            found.extend(record.as_ref().map(|record| (key.clone(), record.clone())));
        }
        Box::pin(std::future::ready(Ok(found)))
    }
}

impl Engine for CrossingEngine {
    fn view<'a>(&'a self, partition: &'a PartitionId) -> BoxFuture<'a, Result<Box<dyn View>, Fault>> {
        let (partition, rows, touched) = (partition.clone(), self.rows.clone(), self.touched.clone());
        Box::pin(std::future::ready(Ok(Box::new(CrossingView { partition, rows, touched }) as Box<dyn View>)))
    }

    fn scan<'a>(&'a self, range: &'a GroupRange, limit: usize) -> BoxFuture<'a, Result<Page, Fault>> {
        let ScanStart::AtPartition(first) = &range.start else { panic!("no test lists so many queues") };
        let rows = self.rows();
        let of_group = rows.iter().filter(|((partition, family, _), _)| {
            partition.group == range.group && *family == range.family && partition.key >= *first
        });
        let alive = of_group.filter_map(|((partition, _, key), record)| {
            Some(Row { partition: partition.key.clone(), key: key.clone(), record: record.clone()? })
        });
        let rows = alive.take(limit).collect();
        Box::pin(std::future::ready(Ok(Page { rows, more: false })))
    }

    fn commit<'a>(
        &'a self,
        partition: &'a PartitionId,
        batch: Batch,
        _: Durability,
    ) -> BoxFuture<'a, Result<Revision, CommitError>> {
        let revision = Revision(1);
        if partition.group.0.starts_with(b"q") {
            self.commits.fetch_add(1, Ordering::SeqCst);
        }
        let mut rows = self.rows();
        for write in batch.writes {
            match write {
                Write::Put { family, key, value, slices } => {
                    rows.insert((partition.clone(), family, key), Some(Record { revision, value, slices }));
                }
                Write::Delete { family, key } => {
                    rows.insert((partition.clone(), family, key), None);
                }
            }
        }
        Box::pin(std::future::ready(Ok(revision)))
    }

    fn sync(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn write_extent<'a>(
        &'a self,
        _source: &'a mut dyn Source,
        _bytes_max: u64,
    ) -> BoxFuture<'a, Result<Option<Pin>, ExtentError>> {
        unreachable!("queues have no extents")
    }

    fn read_extent(&self, _slice: ExtentSlice) -> BoxFuture<'_, Result<Bytes, Fault>> {
        unreachable!("queues have no extents")
    }

    fn pin(&self, _extent: Extent) -> Pin {
        unreachable!("queues have no extents")
    }

    fn fence<'a>(&'a self, _group: &'a GroupId) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
