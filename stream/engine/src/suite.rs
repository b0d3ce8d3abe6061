//! What every engine must do, as tests any engine can call.
//!
//! An engine's tests give a `Harness` and run `all()`. Each behaviour is a function named for what it shows; it panics where
//! the engine does something else. Behaviours that need storage which outlives the engine end early where there is none.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use bytes::Bytes;

use crate::Durability::{Buffered, Synced};
use crate::{
    Batch, BoxFuture, CommitError, Engine, Extent, ExtentSlice, Family, Fault, GroupId, Guard, PartitionId, Pin,
    Record, Revision, Source, SourceError, View, Write,
};

mod buffered;
mod commits;
mod extents;
mod fences;
mod scans;

/// What the suite needs of whoever tests an engine.
pub trait Harness: Sync {
    /// An engine with nothing in it.
    fn fresh(&self) -> Arc<dyn Engine>;

    /// Closes the engine and opens its storage again; `None` if nothing of it outlives the engine.
    fn reopen(&self, engine: Arc<dyn Engine>) -> Option<Arc<dyn Engine>>;

    /// Lets the engine do all the cleaning it would do in time.
    fn settle(&self, engine: &Arc<dyn Engine>);

    /// Runs a future to its end, with whatever the engine needs around it.
    fn run(&self, work: BoxFuture<'_, ()>);

    /// May reads of a view after the first one answer `Moved` once something was committed?
    fn views_move(&self) -> bool {
        false
    }
}

pub type Behaviour = fn(&dyn Harness);

/// Every behaviour, by name.
pub fn all() -> Vec<(&'static str, Behaviour)> {
    [commits::ALL, buffered::ALL, scans::ALL, extents::ALL, fences::ALL].concat()
}

/// Runs every behaviour, each on an engine of its own.
pub fn run(harness: &dyn Harness) {
    for (name, behaviour) in all() {
        // Printed so that a failure shows which behaviour it was.
        println!("engine suite: {name}");
        behaviour(harness);
    }
}

/// Runs a future on this thread, for engines that need no runtime.
pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut work = pin!(work);
    loop {
        match work.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

const HEADS: Family = Family(1);
const PARTS: Family = Family(2);

fn bytes(text: impl AsRef<[u8]>) -> Bytes {
    Bytes::copy_from_slice(text.as_ref())
}

fn group(name: &str) -> GroupId {
    GroupId(bytes(name))
}

fn partition(name: &str) -> PartitionId {
    PartitionId { group: group("group"), key: bytes(name) }
}

fn put(key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Write {
    put_with(key, value, Vec::new())
}

fn put_with(key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, slices: Vec<ExtentSlice>) -> Write {
    Write::Put { family: HEADS, key: bytes(key), value: bytes(value), slices }
}

fn delete(key: impl AsRef<[u8]>) -> Write {
    Write::Delete { family: HEADS, key: bytes(key) }
}

fn absent(key: impl AsRef<[u8]>) -> Guard {
    Guard::Absent { family: HEADS, key: bytes(key) }
}

fn at(key: impl AsRef<[u8]>, revision: Revision) -> Guard {
    Guard::At { family: HEADS, key: bytes(key), revision }
}

fn writes(writes: impl Into<Vec<Write>>) -> Batch {
    Batch { guards: Vec::new(), writes: writes.into() }
}

fn guarded(guards: impl Into<Vec<Guard>>, writes: impl Into<Vec<Write>>) -> Batch {
    Batch { guards: guards.into(), writes: writes.into() }
}

async fn commit(engine: &Arc<dyn Engine>, to: &PartitionId, batch: Batch) -> Revision {
    engine.commit(to, batch, Synced).await.expect("nothing stands in the way of this commit")
}

async fn get(engine: &Arc<dyn Engine>, of: &PartitionId, key: impl AsRef<[u8]>) -> Option<Record> {
    let view = engine.view(of).await.expect("a view");
    view.get(HEADS, key.as_ref()).await.expect("a read")
}

async fn value(engine: &Arc<dyn Engine>, of: &PartitionId, key: impl AsRef<[u8]>) -> Option<Bytes> {
    get(engine, of, key).await.map(|record| record.value)
}

/// A read after the first one, in a view that was open while something was committed: what the view shows, or `None` where views move.
fn still<T>(harness: &dyn Harness, read: Result<T, Fault>) -> Option<T> {
    match read {
        Err(Fault::Moved) if harness.views_move() => None,
        read => Some(read.expect("a read")),
    }
}

/// A view whose state is chosen: where views move, its first read may be what does it.
async fn chosen_view(harness: &dyn Harness, engine: &Arc<dyn Engine>, of: &PartitionId) -> Box<dyn View> {
    let view = engine.view(of).await.expect("a view");
    if harness.views_move() {
        view.get(HEADS, b"").await.expect("a first read");
    }
    view
}

/// The newest commit of a partition. Asked after a read, as the contract wants it.
async fn newest_commit(engine: &Arc<dyn Engine>, of: &PartitionId) -> Revision {
    let view = engine.view(of).await.expect("a view");
    view.get(HEADS, b"").await.expect("a read");
    view.revision()
}

fn is_conflict(outcome: Result<Revision, CommitError>) -> bool {
    matches!(outcome, Err(CommitError::Conflict))
}

/// Bytes that no shifted or swapped read could pass for.
fn body(seed: u64, length: usize) -> Bytes {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut out = Vec::with_capacity(length + 8);
    while out.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(length);
    out.into()
}

/// Gives its bytes in pieces, and may fail at the end instead of ending.
struct Pieces {
    left: Bytes,
    piece: usize,
    fails: bool,
}

impl Source for Pieces {
    fn next(&mut self, bytes_max: usize) -> BoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        let part = if !self.left.is_empty() {
            Ok(Some(self.left.split_to(self.left.len().min(self.piece).min(bytes_max))))
        } else if self.fails {
            Err(SourceError("the client went away".into()))
        } else {
            Ok(None)
        };
        Box::pin(std::future::ready(part))
    }
}

async fn write(engine: &Arc<dyn Engine>, content: &Bytes) -> Pin {
    let mut source = Pieces { left: content.clone(), piece: 50_000, fails: false };
    let pin = engine.write_extent(&mut source, crate::EXTENT_BYTES_MAX).await.expect("written");
    assert!(source.left.is_empty(), "all of it was taken");
    pin.expect("the source had something")
}

async fn read(engine: &Arc<dyn Engine>, mut slice: ExtentSlice) -> Result<Bytes, Fault> {
    let mut out = Vec::new();
    while slice.bytes > 0 {
        let part = engine.read_extent(slice).await?;
        assert!(!part.is_empty() && part.len() as u64 <= slice.bytes, "at least one byte, at most those asked for");
        slice.offset += part.len() as u64;
        slice.bytes -= part.len() as u64;
        out.extend_from_slice(&part);
    }
    Ok(out.into())
}

async fn read_whole(engine: &Arc<dyn Engine>, extent: Extent) -> Bytes {
    read(engine, ExtentSlice::whole(extent)).await.expect("a read")
}
