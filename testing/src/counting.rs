//! The memory engine, and how often bytes pass through it.

use std::sync::atomic::{AtomicUsize, Ordering};

use engine::around::Around;
use engine::memory::MemoryEngine;
use engine::{BoxFuture, Engine, ExtentError, ExtentSlice, Fault, Pin, Source};

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

impl Around for Counting {
    fn inner(&self) -> &dyn Engine {
        &self.inner
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
}
