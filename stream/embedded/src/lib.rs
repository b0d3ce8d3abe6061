//! The default engine: records in fjall, bodies in segment files beside it; one directory, one process.
//!
//! FORMAT.md draws every byte on the disk and says what is assumed of it. The code, from the bottom up:
//!
//! * `key` how keys and values look; `disk` what the segments ask of a disk
//! * `segments` the files of bodies; `extents` bodies with their checksums; `alive` who keeps which extent;
//!   `recent` what was read lately
//! * `store` the synchronous core: guards, references, one fjall batch; `thread` its queue and its thread
//! * `buffered` commits that wait for a sync; `late` the thread that does not let them wait for long
//! * `sweep` the housekeeper; `note` and `room` what it looks after; `recover` opening a directory; `lineage` what tells one from another
//! * `backup` copies of a directory, and directories made of copies; `inspect` looking through one and changing nothing
//!
//! After a failed write or sync of a commit, or a failed sync of a segment, nothing is accepted until the directory is
//! opened again (`Fault::Stopped`); what was committed can still be read.

mod alive;
pub mod backup;
mod buffered;
pub mod disk;
mod extents;
#[cfg(feature = "fuzz")]
pub mod fuzz;
pub mod inspect;
mod key;
mod late;
mod lineage;
mod note;
mod recent;
mod recover;
mod room;
mod segments;
mod store;
mod sweep;
mod thread;
mod view;

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use engine::measure::Histogram;
use engine::{
    Batch, BoxFuture, CommitError, Engine, Extent, ExtentError, ExtentSlice, Fault, GROUP_BYTES_MAX, GroupId,
    GroupRange, KEY_BYTES_MAX, Page, PartitionId, Pin, Revision, Source, View, Write,
};
use fjall::PersistMode;

use crate::alive::Alive;
use crate::buffered::Buffered;
use crate::disk::{Directory, Disk};
use crate::key::Address;
use crate::note::{Note, Noted};
use crate::recent::Recent;
use crate::room::Room;
use crate::segments::{Segment, Segments};
use crate::store::{Change, Core, Numbers, Outcome, Shared, Store};
use crate::sweep::{Sweeper, Wake, tell};
use crate::thread::{Queue, Stop};

pub use crate::recover::{OpenError, is_data_directory};

/// When a commit counts as done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// On the disk: a power cut loses nothing that was acknowledged.
    Full,
    /// With the operating system: a crash of the process loses nothing, a power cut may lose the last moments.
    Relaxed,
}

/// How to open a directory.
#[derive(Clone, Debug)]
pub struct Options {
    pub dir: PathBuf,
    pub durability: Durability,
    /// The most memory spent on blocks of records; grows with use.
    pub cache_bytes: u64,
    /// The most memory spent on bytes of bodies read lately; likewise.
    pub recent_bytes: u64,
    /// A segment is closed when it would grow beyond this.
    pub segment_bytes_max: u64,
    /// Room to be left on the disk; `None` takes a hundredth of it, within reason.
    pub reserve_bytes: Option<u64>,
    /// How long a buffered commit waits for others before it is synced by itself.
    pub sync_within: Duration,
}

impl Options {
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Options {
            dir: dir.into(),
            durability: Durability::Full,
            cache_bytes: 64 * 1024 * 1024,
            recent_bytes: 32 * 1024 * 1024,
            segment_bytes_max: 256 * 1024 * 1024,
            reserve_bytes: None,
            sync_within: Duration::from_secs(1),
        }
    }
}

/// The engine. Closed in order by `close`, or when it is dropped.
pub struct Embedded {
    store: Arc<Store>,
    segments: Arc<Segments>,
    recent: Recent,
    alive: Arc<Alive>,
    queue: Queue,
    stop: Arc<Stop>,
    room: Arc<Room>,
    buffered: Arc<Buffered>,
    numbers: Arc<Numbers>,
    wakes: Sender<Wake>,
    closing: Arc<AtomicBool>,
    durability: Durability,
    /// A power cut may have taken bodies from under an earlier, relaxed run.
    lacks_bodies: bool,
    threads: Mutex<Option<Threads>>,
    /// Held to the end: views may outlive the engine, but not the directory's lock.
    _lock: Arc<File>,
}

/// The engine in figures, for whoever watches it.
pub struct Measures<'a> {
    /// How long each group of commits took to be durable, in ticks of 100 ns.
    pub commits: &'a Histogram,
    /// How many commits shared it.
    pub group_sizes: &'a Histogram,
    /// How long each sync of a segment of bodies took.
    pub segment_syncs: &'a Histogram,
    pub segments: u64,
    /// Handed out in segments; and how many of those nobody needs any more.
    pub segment_bytes: u64,
    pub dead_bytes: u64,
    /// Records and their journal.
    pub record_bytes: Option<u64>,
    pub free_bytes: u64,
    /// What is left free on the disk; below it nothing is taken but deletions.
    pub reserve_bytes: u64,
}

/// The directory itself, or the nearest one above it that is there. A path of one name has none above it but the working directory.
fn nearest_existing(dir: &Path) -> std::io::Result<PathBuf> {
    let dir = std::path::absolute(dir)?;
    Ok(dir.ancestors().find(|dir| dir.exists()).unwrap_or(&dir).to_path_buf())
}

struct Threads {
    commit: JoinHandle<Result<(), Fault>>,
    late: JoinHandle<()>,
    sweeper: JoinHandle<Note>,
}

impl Embedded {
    /// Opens the directory, making it where it is missing.
    pub fn open(options: Options) -> Result<Arc<Self>, OpenError> {
        let segments = options.dir.join(recover::SEGMENTS_DIRECTORY);
        Self::open_with(options, move || Ok(Box::new(Directory::open(&segments)?)))
    }

    /// The same with the segments on a disk of the caller's; for tests of what disks can do.
    pub fn open_with(
        options: Options,
        disk: impl FnOnce() -> std::io::Result<Box<dyn Disk>>,
    ) -> Result<Arc<Self>, OpenError> {
        assert!(options.segment_bytes_max <= u64::from(u32::MAX), "addresses have 32 bits for the offset");
        let doing = |doing: &str| {
            let doing = format!("{doing} {}", options.dir.display());
            move |source| OpenError::Io { doing, source }
        };
        // Asked first, for opening writes: a full disk must be told as such.
        let existing = nearest_existing(&options.dir).map_err(doing("finding the disk of"))?;
        let room = Room::new(&existing, options.reserve_bytes).map_err(doing("asking for the room on the disk of"))?;
        if room.free() < room.reserve() / 4 {
            return Err(OpenError::Full {
                dir: options.dir.clone(),
                free_bytes: room.free(),
                needed_bytes: room.reserve() / 4,
            });
        }
        let opened = recover::open(&options)?;
        let store = Arc::new(opened.store);
        let unreadable = |fault: Fault| OpenError::Damaged { words: fault.to_string() };
        let named = lineage::highest_segment(&store).map_err(unreadable)?;
        let disk = disk().map_err(doing("opening the segments of"))?;
        let segments = Segments::open(disk, options.segment_bytes_max, named);
        let segments = Arc::new(segments.map_err(doing("reading the segments of"))?);
        let lacks_bodies = match recover::check_segments(&store, &segments) {
            Ok(()) => opened.may_lack_bodies,
            Err(OpenError::Damaged { words }) if opened.may_lack_bodies => {
                tracing::warn!(words, "bodies are missing: a relaxed run did not end in order");
                true
            }
            Err(error) => return Err(error),
        };

        let alive = Arc::new(Alive::default());
        let stop = Arc::new(Stop::default());
        let room = Arc::new(room);
        let buffered = Arc::new(Buffered::default());
        let numbers = Arc::new(Numbers::new(opened.number));
        let closing = Arc::new(AtomicBool::new(false));
        let persist = match options.durability {
            Durability::Full => PersistMode::SyncData,
            Durability::Relaxed => PersistMode::Buffer,
        };
        let (alarm, late) = late::alarm(options.sync_within);
        let shared = Shared {
            store: Arc::clone(&store),
            alive: Arc::clone(&alive),
            segments: Arc::clone(&segments),
            buffered: Arc::clone(&buffered),
            numbers: Arc::clone(&numbers),
        };
        let core = Core::new(shared, persist, alarm, named);
        let (wakes, woken) = channel();
        let shrunk = Arc::new(Mutex::new(HashSet::new()));
        let hints = Arc::clone(&shrunk);
        let hint = move |addresses| hints.lock().unwrap_or_else(PoisonError::into_inner).extend(addresses);
        let (queue, commit) = thread::start(core, Arc::clone(&stop), hint).map_err(doing("starting a thread for"))?;
        let late = late.start(queue.clone(), Arc::clone(&segments), Arc::clone(&stop));
        let late = late.map_err(doing("starting a thread for"))?;
        let sweeper = Sweeper {
            store: Arc::clone(&store),
            segments: Arc::clone(&segments),
            alive: Arc::clone(&alive),
            queue: queue.clone(),
            stop: Arc::clone(&stop),
            room: Arc::clone(&room),
            numbers: Arc::clone(&numbers),
            closing: Arc::clone(&closing),
            durable: options.durability == Durability::Full,
            shrunk,
            note: opened.note,
        };
        let sweeper = std::thread::Builder::new().name("lazuli:sweep".to_owned()).spawn(move || sweeper.run(&woken));
        let sweeper = sweeper.map_err(doing("starting a thread for"))?;
        Ok(Arc::new(Embedded {
            store,
            segments,
            recent: Recent::new(options.recent_bytes),
            alive,
            queue,
            stop,
            room,
            buffered,
            numbers,
            wakes,
            closing,
            durability: options.durability,
            lacks_bodies,
            threads: Mutex::new(Some(Threads { commit, late, sweeper })),
            _lock: Arc::new(opened.lock),
        }))
    }

    /// Finishes what is queued, makes it durable, and notes that nothing is missing. Later commits are `Stopped`.
    pub fn close(&self) -> Result<(), Fault> {
        let Some(threads) = self.threads.lock().unwrap_or_else(PoisonError::into_inner).take() else { return Ok(()) };
        self.closing.store(true, Ordering::Release);
        tell(&self.wakes, Wake::Close);
        let note = threads.sweeper.join();
        let failed = self.stop.check();
        self.queue.close();
        let committed = threads.commit.join();
        // It ends with the commit thread, which held its alarm.
        let late = threads.late.join();
        failed?;
        let (Ok(mut note), Ok(committed), Ok(())) = (note, committed, late) else {
            return Err(Fault::Stopped { why: "a thread of the engine failed".to_owned() });
        };
        committed?;
        if self.durability == Durability::Relaxed {
            self.segments.sync_all().map_err(|error| Fault::io("syncing the segments", error))?;
        }
        self.store.db.persist(PersistMode::SyncAll).map_err(|error| fault("syncing the journal", error))?;
        let number = self.numbers.published.load(Ordering::Acquire);
        // Everything is synced now; what was missing before still is.
        let noted = Noted { number, closed: true, relaxed: self.lacks_bodies };
        note.write(noted).map_err(|error| Fault::io("writing the durable note", error))
    }

    /// Does all cleaning there is to do, to its end. For tests, and for operators who want their space now.
    pub fn sweep_now(&self) -> Result<(), Fault> {
        let (answer, done) = sync_channel(1);
        tell(&self.wakes, Wake::Now(answer));
        done.recv().unwrap_or_else(|_| Err(Fault::Stopped { why: "the engine was closed".to_owned() }))
    }

    /// How many batches were written: with full durability each is one sync of the journal. For tests of who shares one.
    pub fn batches(&self) -> u64 {
        self.numbers.batches.load(Ordering::Relaxed)
    }

    /// Blocks of records that were looked into so far, found in memory or not.
    #[cfg(feature = "counts")]
    pub fn blocks(&self) -> u64 {
        let Store { records, refs, fences, meta, .. } = self.store.as_ref();
        [records, refs, fences, meta].map(|keyspace| keyspace.metrics().data_block_load_count() as u64).iter().sum()
    }

    /// Has everything that was written so far in blocks, where `blocks` counts it.
    #[cfg(feature = "counts")]
    pub fn flush_to_blocks(&self) -> Result<(), Fault> {
        let Store { records, refs, fences, meta, .. } = self.store.as_ref();
        for keyspace in [records, refs, fences, meta] {
            keyspace.rotate_memtable_and_wait().map_err(|error| fault("flushing to blocks", error))?;
        }
        Ok(())
    }

    /// Why nothing is written any more, if so.
    pub fn check(&self) -> Result<(), Fault> {
        self.stop.check()
    }

    /// What it costs, and what it takes up.
    pub fn measures(&self) -> Measures<'_> {
        // A disk that does not answer just now: the last figure stands.
        let _ = self.room.measure();
        let (segments, segment_bytes, dead_bytes) = self.segments.totals();
        Measures {
            commits: &self.numbers.writing,
            group_sizes: &self.numbers.sharing,
            segment_syncs: &self.segments.syncing,
            segments,
            segment_bytes,
            dead_bytes,
            record_bytes: self.store.db.disk_space().ok(),
            free_bytes: self.room.free(),
            reserve_bytes: self.room.reserve(),
        }
    }

    async fn commit_batch(
        &self,
        partition: &PartitionId,
        batch: Batch,
        durability: engine::Durability,
    ) -> Result<Revision, CommitError> {
        check(partition, &batch);
        self.stop.check().map_err(CommitError::Fault)?;
        let mut segments = HashSet::new();
        let (mut bytes, mut only_deletes) = (0, true);
        for write in &batch.writes {
            if let Write::Put { key, value, slices, .. } = write {
                only_deletes = false;
                bytes += key.len() + value.len();
                segments.extend(slices.iter().map(|slice| Address::of(slice.extent).segment));
            }
        }
        let room = if only_deletes { self.room.admit_delete() } else { self.room.admit(bytes as u64) };
        room.map_err(CommitError::Fault)?;
        let is_synced = durability == engine::Durability::Synced && self.durability == Durability::Full;
        if is_synced && !segments.is_empty() {
            self.make_durable(self.segments.unsynced(segments.into_iter())).await?;
        }
        self.queue.run(Change::Commit { partition: partition.clone(), batch, durability }).await
    }

    async fn make_durable(&self, segments: Vec<Arc<Segment>>) -> Result<(), Fault> {
        for segment in segments {
            let durable = self.segments.make_durable(&segment).await;
            durable.map_err(|error| {
                self.stop.set(format!("syncing a segment: {error}"));
                Fault::io("syncing a segment", error)
            })?;
        }
        Ok(())
    }

    async fn sync_buffered(&self) -> Result<(), Fault> {
        self.stop.check()?;
        // What was acknowledged is here, or on the disk.
        if self.buffered.is_empty() {
            return Ok(());
        }
        for _ in 0..late::PASSES {
            self.make_durable(self.segments.all_unsynced()).await?;
        }
        without_conflict("syncing", self.queue.run(Change::Sync).await)
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // Nobody is left to hear of a failure; the next start will see what there is.
        let _ = self.close();
    }
}

impl Engine for Embedded {
    fn view<'a>(&'a self, partition: &'a PartitionId) -> BoxFuture<'a, Result<Box<dyn View>, Fault>> {
        Box::pin(async move { Ok(Box::new(self.open_view(partition)?) as Box<dyn View>) })
    }

    fn scan<'a>(&'a self, range: &'a GroupRange, limit: usize) -> BoxFuture<'a, Result<Page, Fault>> {
        Box::pin(async move { view::scan_group(&self.store, &self.buffered, range, limit) })
    }

    fn commit<'a>(
        &'a self,
        partition: &'a PartitionId,
        batch: Batch,
        durability: engine::Durability,
    ) -> BoxFuture<'a, Result<Revision, CommitError>> {
        Box::pin(self.commit_batch(partition, batch, durability))
    }

    fn buffers(&self) -> bool {
        self.durability == Durability::Full
    }

    fn chains(&self) -> bool {
        true
    }

    fn sync(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(self.sync_buffered())
    }

    fn write_extent<'a>(
        &'a self,
        source: &'a mut dyn Source,
        bytes_max: u64,
    ) -> BoxFuture<'a, Result<Option<Pin>, ExtentError>> {
        Box::pin(async move {
            self.stop.check().map_err(ExtentError::Fault)?;
            extents::write(&self.segments, &self.alive, source, bytes_max, |bytes| self.room.admit(bytes)).await
        })
    }

    fn read_extent(&self, slice: ExtentSlice) -> BoxFuture<'_, Result<Bytes, Fault>> {
        Box::pin(extents::read(&self.segments, &self.recent, slice))
    }

    fn pin(&self, extent: Extent) -> Pin {
        Pin::new(extent, Arc::new(self.alive.pin(Address::of(extent))))
    }

    fn fence<'a>(&'a self, group: &'a GroupId) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            self.room.admit_delete()?;
            without_conflict("fencing a group", self.queue.run(Change::Fence { group: group.clone() }).await)?;
            tell(&self.wakes, Wake::Fenced(group.clone()));
            Ok(())
        })
    }
}

/// The outcome of what nothing can conflict with.
fn without_conflict(doing: &str, outcome: Outcome) -> Result<(), Fault> {
    match outcome {
        Ok(_) => Ok(()),
        Err(CommitError::Fault(fault)) => Err(fault),
        Err(other) => Err(Fault::Other { doing: doing.to_owned(), detail: format!("{other:?}") }),
    }
}

/// What every caller owes the engine. Checked here, in the caller's task, so that a bug costs its own request only.
fn check(partition: &PartitionId, batch: &Batch) {
    assert!((1..=GROUP_BYTES_MAX).contains(&partition.group.0.len()), "a group id has 1 to 255 bytes");
    assert!(partition.key.len() <= KEY_BYTES_MAX, "a partition key is at most KEY_BYTES_MAX long");
    for (at, write) in batch.writes.iter().enumerate() {
        let place = |write: &Write| match write {
            Write::Put { family, key, .. } | Write::Delete { family, key } => (*family, key.clone()),
        };
        let (family, key) = place(write);
        assert!(key.len() <= KEY_BYTES_MAX, "a record key is at most KEY_BYTES_MAX long");
        debug_assert!(
            batch.writes[..at].iter().all(|earlier| place(earlier) != (family, key.clone())),
            "a batch writes each record once"
        );
        if let Write::Put { slices, .. } = write {
            let inside = |slice: &ExtentSlice| {
                slice.offset.checked_add(slice.bytes).is_some_and(|end| end <= slice.extent.bytes)
            };
            assert!(slices.iter().all(inside), "a slice lies inside its extent");
        }
    }
}

/// fjall's errors in the engine's terms.
fn fault(doing: &str, error: fjall::Error) -> Fault {
    use fjall::LsmError;
    match error {
        fjall::Error::Io(source) | fjall::Error::Storage(LsmError::Io(source)) => Fault::io(doing, source),
        fjall::Error::Poisoned => {
            Fault::Stopped { why: "an earlier write to the journal or a table failed".to_owned() }
        }
        fjall::Error::Storage(error) => Fault::Corrupt { what: format!("{doing}: {error}") },
        error => Fault::Other { doing: doing.to_owned(), detail: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `--data lazuli-data`, the default, in a fresh working directory.
    #[test]
    fn a_name_without_a_directory_is_on_the_disk_of_the_working_directory() {
        let here = std::env::current_dir().expect("a working directory");
        assert_eq!(nearest_existing(Path::new("not-made-yet")).expect("found"), here);
        assert_eq!(nearest_existing(Path::new("not/made/yet")).expect("found"), here);
        assert_eq!(nearest_existing(Path::new("/not/made/yet")).expect("found"), Path::new("/"));
    }
}
