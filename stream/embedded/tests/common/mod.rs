//! What the tests of this engine share.
#![allow(dead_code)] // each test file uses its own part of it

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use engine::Durability::{self, Buffered, Synced};
use engine::around::Around;
use engine::{
    Batch, BoxFuture, CommitError, Engine, ExtentSlice, Family, GroupId, Guard, PartitionId, Pin, Revision, Source,
    SourceError, Write,
};
use lazuli_embedded::{Embedded, Options};
use tempfile::TempDir;
use tokio::runtime::Runtime;

pub const HEADS: Family = Family(1);

/// Engines in directories of their own, which go when the harness does.
pub struct Harness {
    directory: fn() -> TempDir,
    options: Box<dyn Fn(&Path) -> Options + Sync>,
    buffers: bool,
    runtime: Runtime,
    open: Mutex<HashMap<usize, (Arc<Embedded>, TempDir)>>,
}

impl Harness {
    pub fn new(directory: fn() -> TempDir, options: impl Fn(&Path) -> Options + Sync + 'static) -> Self {
        let options = Box::new(options);
        Harness { directory, options, buffers: false, runtime: runtime(), open: Mutex::default() }
    }

    /// Engines that buffer every commit, whatever it asks for.
    pub fn buffering(self) -> Self {
        Harness { buffers: true, ..self }
    }

    fn add(&self, dir: TempDir) -> Arc<dyn Engine> {
        let embedded = Embedded::open((self.options)(dir.path())).expect("the directory opens");
        let engine: Arc<dyn Engine> =
            if self.buffers { Arc::new(Buffering(Arc::clone(&embedded))) } else { Arc::clone(&embedded) as _ };
        self.open.lock().expect("not poisoned").insert(id(&engine), (embedded, dir));
        engine
    }
}

fn id<T: ?Sized>(engine: &Arc<T>) -> usize {
    Arc::as_ptr(engine).cast::<()>() as usize
}

impl engine::suite::Harness for Harness {
    fn fresh(&self) -> Arc<dyn Engine> {
        // The engine before is done with: its threads would only take time from this one's.
        self.open.lock().expect("not poisoned").clear();
        self.add((self.directory)())
    }

    fn reopen(&self, engine: Arc<dyn Engine>) -> Option<Arc<dyn Engine>> {
        let known = self.open.lock().expect("not poisoned").remove(&id(&engine));
        let (embedded, dir) = known.expect("the engine is one of ours");
        drop(engine);
        embedded.close().expect("closed in order");
        assert_eq!(Arc::strong_count(&embedded), 1, "nobody else holds the engine");
        drop(embedded);
        Some(self.add(dir))
    }

    fn settle(&self, engine: &Arc<dyn Engine>) {
        let embedded = Arc::clone(&self.open.lock().expect("not poisoned")[&id(engine)].0);
        // Twice, for what the first round moved leaves its old place in the second.
        for _ in 0..2 {
            embedded.sweep_now().expect("cleaned");
        }
    }

    fn run(&self, work: BoxFuture<'_, ()>) {
        self.runtime.block_on(work);
    }
}

/// The embedded engine with every commit buffered.
struct Buffering(Arc<Embedded>);

impl Around for Buffering {
    fn inner(&self) -> &dyn Engine {
        self.0.as_ref()
    }

    fn commit<'a>(
        &'a self,
        partition: &'a PartitionId,
        batch: Batch,
        _: Durability,
    ) -> BoxFuture<'a, Result<Revision, CommitError>> {
        self.0.commit(partition, batch, Buffered)
    }
}

/// A directory for a test that is about order and not about a disk: in memory where the system has such a place, since
/// syncs there cost nothing.
pub fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.or_else(|_| tempfile::tempdir()).expect("a directory for the test")
}

pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime")
}

pub fn partition(name: &str) -> PartitionId {
    PartitionId { group: GroupId(Bytes::from_static(b"group")), key: Bytes::copy_from_slice(name.as_bytes()) }
}

pub fn key(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

pub fn put(name: &str, value: impl Into<Bytes>, slices: Vec<ExtentSlice>) -> Write {
    Write::Put { family: HEADS, key: key(name), value: value.into(), slices }
}

pub fn delete(name: &str) -> Write {
    Write::Delete { family: HEADS, key: key(name) }
}

pub fn batch(writes: impl Into<Vec<Write>>) -> Batch {
    Batch { guards: Vec::new(), writes: writes.into() }
}

pub fn absent(name: &str) -> Guard {
    Guard::Absent { family: HEADS, key: key(name) }
}

pub async fn commit(engine: &Embedded, to: &str, writes: impl Into<Vec<Write>>) -> Revision {
    engine.commit(&partition(to), batch(writes), Synced).await.expect("nothing stands in the way of this commit")
}

pub async fn buffer(engine: &Embedded, to: &str, writes: impl Into<Vec<Write>>) -> Revision {
    engine.commit(&partition(to), batch(writes), Buffered).await.expect("nothing stands in the way of this commit")
}

pub async fn value(engine: &Embedded, of: &str, name: &str) -> Option<Bytes> {
    let view = engine.view(&partition(of)).await.expect("a view");
    view.get(HEADS, name.as_bytes()).await.expect("a read").map(|record| record.value)
}

/// Bytes that differ from place to place.
pub fn body(seed: u64, length: usize) -> Bytes {
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

/// A source with everything at hand.
pub struct Whole(pub Bytes);

impl Source for Whole {
    fn next(&mut self, bytes_max: usize) -> BoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        let part = (!self.0.is_empty()).then(|| self.0.split_to(self.0.len().min(bytes_max)));
        Box::pin(std::future::ready(Ok(part)))
    }
}

pub async fn write(engine: &Embedded, content: &Bytes) -> Pin {
    let pin = engine.write_extent(&mut Whole(content.clone()), engine::EXTENT_BYTES_MAX).await;
    pin.expect("written").expect("not empty")
}

pub async fn read(engine: &Embedded, mut slice: ExtentSlice) -> Result<Bytes, engine::Fault> {
    let mut out = Vec::new();
    while slice.bytes > 0 {
        let part = engine.read_extent(slice).await?;
        slice.offset += part.len() as u64;
        slice.bytes -= part.len() as u64;
        out.extend_from_slice(&part);
    }
    Ok(out.into())
}

/// A copy of a directory as it is at this moment. In the order of names: the durable note before the journals, which go on meanwhile.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("made");
    let mut entries: Vec<_> = std::fs::read_dir(from).expect("read").map(|entry| entry.expect("an entry")).collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("copied");
        }
    }
}
