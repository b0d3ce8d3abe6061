//! An engine around another, as tests have them: to count, to hold back, to fail. What such an engine does not say itself the inner one does.

use bytes::Bytes;

use crate::{
    Batch, BoxFuture, CommitError, Durability, Engine, Extent, ExtentError, ExtentSlice, Fault, GroupId, GroupRange,
    Page, PartitionId, Pin, Revision, Source, Tenure, View,
};

/// The methods are those of `Engine`, which is there for whatever is `Around` another.
pub trait Around: Send + Sync {
    fn inner(&self) -> &dyn Engine;

    fn view<'a>(&'a self, partition: &'a PartitionId) -> BoxFuture<'a, Result<Box<dyn View>, Fault>> {
        self.inner().view(partition)
    }

    fn scan<'a>(&'a self, range: &'a GroupRange, limit: usize) -> BoxFuture<'a, Result<Page, Fault>> {
        self.inner().scan(range, limit)
    }

    fn commit<'a>(
        &'a self,
        partition: &'a PartitionId,
        batch: Batch,
        durability: Durability,
    ) -> BoxFuture<'a, Result<Revision, CommitError>> {
        self.inner().commit(partition, batch, durability)
    }

    fn buffers(&self) -> bool {
        self.inner().buffers()
    }

    fn chains(&self) -> bool {
        self.inner().chains()
    }

    fn sync(&self) -> BoxFuture<'_, Result<(), Fault>> {
        self.inner().sync()
    }

    fn write_extent<'a>(
        &'a self,
        source: &'a mut dyn Source,
        bytes_max: u64,
    ) -> BoxFuture<'a, Result<Option<Pin>, ExtentError>> {
        self.inner().write_extent(source, bytes_max)
    }

    fn read_extent(&self, slice: ExtentSlice) -> BoxFuture<'_, Result<Bytes, Fault>> {
        self.inner().read_extent(slice)
    }

    fn pin(&self, extent: Extent) -> Pin {
        self.inner().pin(extent)
    }

    fn own<'a>(&'a self, group: &'a GroupId) -> BoxFuture<'a, Result<Tenure, Fault>> {
        self.inner().own(group)
    }

    fn disown<'a>(&'a self, group: &'a GroupId) -> BoxFuture<'a, Result<(), Fault>> {
        self.inner().disown(group)
    }

    fn fence<'a>(&'a self, group: &'a GroupId) -> BoxFuture<'a, Result<(), Fault>> {
        self.inner().fence(group)
    }

    fn draw_tick(&self, now: u64) -> Option<u64> {
        self.inner().draw_tick(now)
    }
}

impl<T: Around> Engine for T {
    fn view<'a>(&'a self, partition: &'a PartitionId) -> BoxFuture<'a, Result<Box<dyn View>, Fault>> {
        Around::view(self, partition)
    }

    fn scan<'a>(&'a self, range: &'a GroupRange, limit: usize) -> BoxFuture<'a, Result<Page, Fault>> {
        Around::scan(self, range, limit)
    }

    fn commit<'a>(
        &'a self,
        partition: &'a PartitionId,
        batch: Batch,
        durability: Durability,
    ) -> BoxFuture<'a, Result<Revision, CommitError>> {
        Around::commit(self, partition, batch, durability)
    }

    fn buffers(&self) -> bool {
        Around::buffers(self)
    }

    fn chains(&self) -> bool {
        Around::chains(self)
    }

    fn sync(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Around::sync(self)
    }

    fn write_extent<'a>(
        &'a self,
        source: &'a mut dyn Source,
        bytes_max: u64,
    ) -> BoxFuture<'a, Result<Option<Pin>, ExtentError>> {
        Around::write_extent(self, source, bytes_max)
    }

    fn read_extent(&self, slice: ExtentSlice) -> BoxFuture<'_, Result<Bytes, Fault>> {
        Around::read_extent(self, slice)
    }

    fn pin(&self, extent: Extent) -> Pin {
        Around::pin(self, extent)
    }

    fn own<'a>(&'a self, group: &'a GroupId) -> BoxFuture<'a, Result<Tenure, Fault>> {
        Around::own(self, group)
    }

    fn disown<'a>(&'a self, group: &'a GroupId) -> BoxFuture<'a, Result<(), Fault>> {
        Around::disown(self, group)
    }

    fn fence<'a>(&'a self, group: &'a GroupId) -> BoxFuture<'a, Result<(), Fault>> {
        Around::fence(self, group)
    }

    fn draw_tick(&self, now: u64) -> Option<u64> {
        Around::draw_tick(self, now)
    }
}
