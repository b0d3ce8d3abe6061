//! The memory engine, and how often bytes pass through it.

use std::sync::atomic::{AtomicUsize, Ordering};

use engine::memory::MemoryEngine;
use engine::{
    Batch, BoxFuture, CommitError, Durability, Engine, Extent, ExtentError, ExtentSlice, Fault, GroupId, GroupRange,
    Page, PartitionId, Pin, Revision, Source, View,
};

#[derive(Default)]
pub struct Counting {
    inner: MemoryEngine,
    written: AtomicUsize,
    read: AtomicUsize,
}

impl Counting {
    /// How many extents were written, and how often one was read.
    pub fn touched(&self) -> (usize, usize) {
        (self.written.load(Ordering::SeqCst), self.read.load(Ordering::SeqCst))
    }
}

impl Engine for Counting {
    fn view<'a>(&'a self, partition: &'a PartitionId) -> BoxFuture<'a, Result<Box<dyn View>, Fault>> {
        self.inner.view(partition)
    }
    fn scan<'a>(&'a self, range: &'a GroupRange, limit: usize) -> BoxFuture<'a, Result<Page, Fault>> {
        self.inner.scan(range, limit)
    }
    fn commit<'a>(
        &'a self,
        partition: &'a PartitionId,
        batch: Batch,
        durability: Durability,
    ) -> BoxFuture<'a, Result<Revision, CommitError>> {
        self.inner.commit(partition, batch, durability)
    }
    fn sync(&self) -> BoxFuture<'_, Result<(), Fault>> {
        self.inner.sync()
    }
    fn write_extent<'a>(
        &'a self,
        source: &'a mut dyn Source,
        bytes_max: u64,
    ) -> BoxFuture<'a, Result<Option<Pin>, ExtentError>> {
        self.written.fetch_add(1, Ordering::SeqCst);
        self.inner.write_extent(source, bytes_max)
    }
    fn read_extent(&self, slice: ExtentSlice) -> BoxFuture<'_, Result<bytes::Bytes, Fault>> {
        self.read.fetch_add(1, Ordering::SeqCst);
        self.inner.read_extent(slice)
    }
    fn pin(&self, extent: Extent) -> Pin {
        self.inner.pin(extent)
    }
    fn fence<'a>(&'a self, group: &'a GroupId) -> BoxFuture<'a, Result<(), Fault>> {
        self.inner.fence(group)
    }
}
