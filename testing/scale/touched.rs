//! The embedded engine, and how many records pass through it: each that is looked for, listed, written or deleted counts one. Of the
//! blocks that records lie in, each that is looked into.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use embedded::{Embedded, Options};
use engine::around::Around;
use engine::{
    Batch, BoxFuture, CommitError, Durability, Engine, Family, Fault, GroupRange, KeyRange, Page, PartitionId, Record,
    Revision, View,
};

pub struct Touched {
    inner: Arc<Embedded>,
    records: Arc<AtomicU64>,
    blocks_before: AtomicU64,
}

impl Touched {
    /// On an empty directory. What is counted does not depend on when it is synced.
    pub fn on(directory: &Path) -> Touched {
        let options = Options { durability: embedded::Durability::Relaxed, ..Options::new(directory) };
        let inner = Embedded::open(options).expect("opens");
        Touched { inner, records: Arc::default(), blocks_before: AtomicU64::default() }
    }

    /// Has all that is stored in blocks: in memory nothing of it would be counted.
    pub fn settle(&self) {
        self.inner.flush_to_blocks().expect("flushed");
    }

    /// Records and blocks touched since the last call.
    pub fn take(&self) -> (u64, u64) {
        let blocks = self.inner.blocks();
        (self.records.swap(0, Ordering::SeqCst), blocks - self.blocks_before.swap(blocks, Ordering::SeqCst))
    }
}

struct TouchedView {
    inner: Box<dyn View>,
    records: Arc<AtomicU64>,
}

impl View for TouchedView {
    fn revision(&self) -> Revision {
        self.inner.revision()
    }

    fn get<'a>(&'a self, family: Family, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Record>, Fault>> {
        self.records.fetch_add(1, Ordering::SeqCst);
        self.inner.get(family, key)
    }

    fn scan<'a>(
        &'a self,
        family: Family,
        range: &'a KeyRange,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<(Bytes, Record)>, Fault>> {
        Box::pin(async move {
            let found = self.inner.scan(family, range, limit).await?;
            // Finding nothing is looking, too.
            self.records.fetch_add(found.len().max(1) as u64, Ordering::SeqCst);
            Ok(found)
        })
    }
}

impl Around for Touched {
    fn inner(&self) -> &dyn Engine {
        self.inner.as_ref()
    }

    fn view<'a>(&'a self, partition: &'a PartitionId) -> BoxFuture<'a, Result<Box<dyn View>, Fault>> {
        Box::pin(async move {
            let inner = self.inner.view(partition).await?;
            Ok(Box::new(TouchedView { inner, records: self.records.clone() }) as Box<dyn View>)
        })
    }

    fn scan<'a>(&'a self, range: &'a GroupRange, limit: usize) -> BoxFuture<'a, Result<Page, Fault>> {
        Box::pin(async move {
            let page = self.inner.scan(range, limit).await?;
            self.records.fetch_add(page.rows.len().max(1) as u64, Ordering::SeqCst);
            Ok(page)
        })
    }

    fn commit<'a>(
        &'a self,
        partition: &'a PartitionId,
        batch: Batch,
        durability: Durability,
    ) -> BoxFuture<'a, Result<Revision, CommitError>> {
        self.records.fetch_add(batch.writes.len() as u64, Ordering::SeqCst);
        self.inner.commit(partition, batch, durability)
    }
}
