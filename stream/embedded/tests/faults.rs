//! Disks that forget and disks that fail, under the segments.

mod common;

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use common::*;
use engine::Durability::{Buffered, Synced};
use engine::{Batch, CommitError, Engine, ExtentError, ExtentSlice, Fault};
use lazuli_embedded::disk::{Disk, DiskFile};
use lazuli_embedded::{Durability, Embedded, Options};

/// A disk in memory that knows what was synced, and can be told to fail.
#[derive(Clone, Default)]
struct Lossy(Arc<Inner>);

#[derive(Default)]
struct Inner {
    files: Mutex<HashMap<String, Content>>,
    syncs: AtomicU64,
    /// The power is gone: nothing works.
    off: AtomicBool,
    fail_syncs: AtomicBool,
    /// Syncs wait for as long as this is so; how many began to.
    holds_syncs: AtomicBool,
    waiting: AtomicU64,
    full: AtomicBool,
    cannot_punch: AtomicBool,
}

#[derive(Clone, Default)]
struct Content {
    now: Vec<u8>,
    synced: Vec<u8>,
    /// Whether the directory was synced since the file was made.
    name_synced: bool,
}

impl Lossy {
    /// What is left after a power cut: what was synced, of files whose names were.
    fn after_power_cut(&self) -> Lossy {
        let mut files = self.0.files.lock().expect("not poisoned").clone();
        files.retain(|_, content| content.name_synced);
        for content in files.values_mut() {
            content.now = content.synced.clone();
        }
        let next = Lossy::default();
        *next.0.files.lock().expect("not poisoned") = files;
        next
    }

    /// The files, if there is power. Asked with the files in hand: what began before the cut is over when they are looked at after it.
    fn files(&self) -> io::Result<MutexGuard<'_, HashMap<String, Content>>> {
        let files = self.0.files.lock().expect("not poisoned");
        if self.0.off.load(Ordering::SeqCst) { Err(io::Error::other("no power")) } else { Ok(files) }
    }

    fn stored(&self) -> usize {
        let files = self.0.files.lock().expect("not poisoned");
        files.values().flat_map(|content| &content.now).filter(|byte| **byte != 0).count()
    }

    fn open(&self, dir: &std::path::Path, segment_bytes_max: u64) -> Arc<Embedded> {
        self.open_with(Options { segment_bytes_max, ..Options::new(dir) })
    }

    /// The same, and nothing is synced before somebody asks for it.
    fn open_patient(&self, dir: &std::path::Path, segment_bytes_max: u64) -> Arc<Embedded> {
        self.open_with(Options { segment_bytes_max, sync_within: Duration::MAX, ..Options::new(dir) })
    }

    fn open_with(&self, options: Options) -> Arc<Embedded> {
        let disk = self.clone();
        Embedded::open_with(options, move || Ok(Box::new(disk))).expect("opens")
    }
}

impl Disk for Lossy {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let before = self.files()?.insert(name.to_owned(), Content::default());
        assert!(before.is_none(), "{name} is made once");
        Ok(Box::new(LossyFile { disk: self.clone(), name: name.to_owned() }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        if !self.files()?.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Box::new(LossyFile { disk: self.clone(), name: name.to_owned() }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files()?.remove(name);
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let files = self.0.files.lock().expect("not poisoned");
        Ok(files.iter().map(|(name, content)| (name.clone(), content.now.len() as u64)).collect())
    }

    fn sync(&self) -> io::Result<()> {
        self.files()?.values_mut().for_each(|content| content.name_synced = true);
        Ok(())
    }

    fn path(&self, name: &str) -> String {
        format!("lossy/{name}")
    }
}

struct LossyFile {
    disk: Lossy,
    name: String,
}

impl LossyFile {
    fn with<T>(&self, work: impl FnOnce(&mut Content) -> T) -> io::Result<T> {
        let mut files = self.disk.files()?;
        files.get_mut(&self.name).map(work).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl DiskFile for LossyFile {
    fn write_at(&self, offset: u64, parts: &[Bytes]) -> io::Result<()> {
        if self.disk.0.full.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let bytes = parts.concat();
        self.with(|content| {
            let end = offset as usize + bytes.len();
            content.now.resize(content.now.len().max(end), 0);
            content.now[offset as usize..end].copy_from_slice(&bytes);
        })
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let end = offset as usize + buffer.len();
        self.with(|content| match content.now.get(offset as usize..end) {
            Some(bytes) => {
                buffer.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        })?
    }

    fn read_at_once(&self, _: u64, _: &mut [u8]) -> io::Result<bool> {
        Ok(false)
    }

    fn sync(&self) -> io::Result<()> {
        if self.disk.0.fail_syncs.load(Ordering::SeqCst) {
            return Err(io::Error::other("the disk is broken"));
        }
        if self.disk.0.holds_syncs.load(Ordering::SeqCst) {
            self.disk.0.waiting.fetch_add(1, Ordering::SeqCst);
        }
        while self.disk.0.holds_syncs.load(Ordering::SeqCst) {
            std::thread::park_timeout(Duration::from_micros(500));
        }
        self.disk.0.syncs.fetch_add(1, Ordering::SeqCst);
        self.with(|content| content.synced = content.now.clone())
    }

    fn punch(&self, offset: u64, bytes: u64) -> io::Result<bool> {
        if self.disk.0.cannot_punch.load(Ordering::SeqCst) {
            return Ok(false);
        }
        self.with(|content| {
            let end = content.now.len().min((offset + bytes) as usize);
            let start = end.min(offset as usize);
            content.now[start..end].fill(0);
            // A hole may reach the disk before anything else does.
            let end = end.min(content.synced.len());
            content.synced[start.min(end)..end].fill(0);
            true
        })
    }
}

#[test]
fn no_committed_record_points_at_bytes_a_power_cut_took() {
    let runtime = runtime();
    for round in 0..8u64 {
        let dir = directory();
        let disk = Lossy::default();
        let engine = disk.open(dir.path(), 2 << 20);
        let acknowledged = Arc::new(Mutex::new(HashMap::new()));
        let tasks: Vec<_> = (0..6u64)
            .map(|task| {
                let (engine, acknowledged) = (Arc::clone(&engine), Arc::clone(&acknowledged));
                runtime.spawn(async move {
                    for turn in 0..1000u64 {
                        let (name, seed) = (format!("{task}"), task * 1000 + turn);
                        let content = body(seed, 1000 + (seed as usize * 7919) % 90_000);
                        let written = engine.write_extent(&mut Whole(content), engine::EXTENT_BYTES_MAX).await;
                        let Ok(Some(pin)) = written else { return };
                        let slices = vec![ExtentSlice::whole(pin.extent())];
                        let put = put("k", seed.to_string(), slices);
                        if engine.commit(&partition(&name), batch([put]), Synced).await.is_err() {
                            return;
                        }
                        acknowledged.lock().expect("not poisoned").insert(name, seed);
                    }
                })
            })
            .collect();
        for _ in 0..20_000 {
            if disk.0.syncs.load(Ordering::SeqCst) >= 3 + round * 5 {
                break;
            }
            std::thread::park_timeout(Duration::from_micros(500));
        }
        assert!(disk.0.syncs.load(Ordering::SeqCst) >= 3 + round * 5, "commits sync their segments");
        disk.0.off.store(true, Ordering::SeqCst);
        let left = disk.after_power_cut();
        for task in tasks {
            runtime.block_on(task).expect("a task ended well");
        }
        drop(engine);
        let engine = left.open(dir.path(), 2 << 20);
        engine.sweep_now().expect("cleaned");
        runtime.block_on(async {
            for task in 0..6 {
                let view = engine.view(&partition(&task.to_string())).await.expect("a view");
                let record = view.get(HEADS, b"k").await.expect("a read");
                let known = acknowledged.lock().expect("not poisoned").get(&task.to_string()).copied();
                let Some(record) = record else {
                    assert_eq!(known, None, "an acknowledged commit is there");
                    continue;
                };
                let seed: u64 = String::from_utf8_lossy(&record.value).parse().expect("a number was put");
                assert!(known.is_none_or(|known| seed >= known), "as new as what was acknowledged");
                let content = body(seed, 1000 + (seed as usize * 7919) % 90_000);
                assert_eq!(read(&engine, record.slices[0]).await.expect("readable"), content);
            }
        });
    }
}

#[test]
fn a_relaxed_run_that_lost_bodies_starts_and_tells_who_reads_them() {
    let (runtime, dir, disk) = (runtime(), directory(), Lossy::default());
    let crashed = directory();
    let relaxed = |dir: &std::path::Path, disk: Lossy| {
        let options = Options { durability: Durability::Relaxed, ..Options::new(dir) };
        Embedded::open_with(options, move || Ok(Box::new(disk))).expect("opens")
    };
    let engine = relaxed(dir.path(), disk.clone());
    let slice = runtime.block_on(async {
        let pin = write(&engine, &body(1, 5000)).await;
        let slice = ExtentSlice::whole(pin.extent());
        commit(&engine, "p", [put("a", "1", vec![slice])]).await;
        slice
    });
    copy(dir.path(), crashed.path());
    let left = disk.after_power_cut();
    // Twice, for closing in order does not bring the bodies back; and once with full durability.
    for _ in 0..2 {
        let engine = relaxed(crashed.path(), left.clone());
        runtime.block_on(async {
            assert_eq!(value(&engine, "p", "a").await.expect("the record is there"), "1");
            assert!(matches!(read(&engine, slice).await, Err(Fault::Corrupt { .. })));
        });
    }
    let engine = left.open(crashed.path(), 64 << 20);
    runtime.block_on(commit(&engine, "p", [delete("a")]));
}

#[test]
fn after_a_failed_sync_nothing_is_accepted_until_reopened() {
    let (runtime, dir, disk) = (runtime(), directory(), Lossy::default());
    let engine = disk.open(dir.path(), 64 << 20);
    runtime.block_on(async {
        let first = write(&engine, &body(1, 5000)).await;
        commit(&engine, "p", [put("a", "1", vec![ExtentSlice::whole(first.extent())])]).await;
        engine.check().expect("nothing is wrong yet");
        disk.0.fail_syncs.store(true, Ordering::SeqCst);
        let second = write(&engine, &body(2, 5000)).await;
        let named = batch([put("b", "1", vec![ExtentSlice::whole(second.extent())])]);
        assert!(matches!(engine.commit(&partition("p"), named.clone(), Synced).await, Err(CommitError::Fault(_))));
        // That the disk works again proves nothing about what it was given before.
        disk.0.fail_syncs.store(false, Ordering::SeqCst);
        for again in [named, batch([put("c", "1", vec![])])] {
            let outcome = engine.commit(&partition("p"), again, Synced).await;
            assert!(
                matches!(&outcome, Err(CommitError::Fault(Fault::Stopped { why })) if why.contains("broken")),
                "{outcome:?}"
            );
        }
        assert!(matches!(engine.check(), Err(Fault::Stopped { .. })), "whoever asks is told");
        assert!(matches!(engine.fence(&partition("p").group).await, Err(Fault::Stopped { .. })));
        let written = engine.write_extent(&mut Whole(body(3, 10)), 10).await;
        assert!(matches!(written, Err(ExtentError::Fault(Fault::Stopped { .. }))));
        assert_eq!(value(&engine, "p", "a").await.expect("readable"), "1");
        assert_eq!(read(&engine, ExtentSlice::whole(first.extent())).await.expect("readable"), body(1, 5000));
        assert!(matches!(engine.close(), Err(Fault::Stopped { .. })));
    });
    drop(engine);
    let engine = disk.open(dir.path(), 64 << 20);
    runtime.block_on(async {
        assert_eq!(value(&engine, "p", "a").await.expect("readable"), "1");
        assert_eq!(value(&engine, "p", "b").await, None);
        commit(&engine, "p", [put("c", "1", vec![])]).await;
    });
}

#[test]
fn a_body_that_does_not_fit_leaves_the_engine_as_it_was() {
    let (runtime, dir, disk) = (runtime(), directory(), Lossy::default());
    let engine = disk.open(dir.path(), 64 << 20);
    runtime.block_on(async {
        for length in [100, 700_000] {
            disk.0.full.store(true, Ordering::SeqCst);
            let written = engine.write_extent(&mut Whole(body(1, length)), engine::EXTENT_BYTES_MAX).await;
            assert!(matches!(written, Err(ExtentError::Fault(Fault::Full))));
            commit(&engine, "p", [put("a", "1", vec![])]).await;
            disk.0.full.store(false, Ordering::SeqCst);
            let pin = write(&engine, &body(2, length)).await;
            assert_eq!(read(&engine, ExtentSlice::whole(pin.extent())).await.expect("readable"), body(2, length));
        }
    });
}

#[test]
fn where_holes_cannot_be_punched_the_living_move_away() {
    let (runtime, dir, disk) = (runtime(), directory(), Lossy::default());
    disk.0.cannot_punch.store(true, Ordering::SeqCst);
    let engine = disk.open(dir.path(), 1 << 20);
    runtime.block_on(async {
        for at in 0..60u64 {
            let pin = write(&engine, &body(at, 100_000)).await;
            commit(&engine, "p", [put(&format!("k{at}"), "v", vec![ExtentSlice::whole(pin.extent())])]).await;
        }
        for at in (0..60).filter(|at| at % 5 != 0) {
            commit(&engine, "p", [delete(&format!("k{at}"))]).await;
        }
        assert!(disk.stored() > 5_000_000);
        for _ in 0..3 {
            engine.sweep_now().expect("cleaned");
        }
        let view = engine.view(&partition("p")).await.expect("a view");
        for at in (0..60).step_by(5) {
            let record = view.get(HEADS, format!("k{at}").as_bytes()).await.expect("a read").expect("there");
            assert_eq!(read(&engine, record.slices[0]).await.expect("readable"), body(at, 100_000));
        }
    });
    assert!(disk.stored() < 3_000_000, "{} bytes are stored for 1.2 MB", disk.stored());
}

/// Small ones move many at a time: a sync and a commit for each would take longer than they took to be written.
#[test]
fn where_holes_cannot_be_punched_the_small_move_together() {
    const BODIES: u64 = 1500;
    let (runtime, dir, disk) = (runtime(), directory(), Lossy::default());
    disk.0.cannot_punch.store(true, Ordering::SeqCst);
    let engine = disk.open(dir.path(), 1 << 20);
    runtime.block_on(async {
        for at in 0..BODIES {
            // A record names two bodies, which move at once.
            let pins = [write(&engine, &body(at, 4000)).await, write(&engine, &body(at + BODIES, 4000)).await];
            let put = put(&format!("k{at}"), "v", pins.iter().map(|pin| ExtentSlice::whole(pin.extent())).collect());
            engine.commit(&partition("p"), batch([put]), engine::Durability::Buffered).await.expect("committed");
        }
        for at in (0..BODIES).filter(|at| at % 6 != 0) {
            let delete = batch([delete(&format!("k{at}"))]);
            engine.commit(&partition("p"), delete, engine::Durability::Buffered).await.expect("committed");
        }
        engine.sync().await.expect("synced");
        let before = engine.view(&partition("p")).await.expect("a view").revision();
        for _ in 0..3 {
            engine.sweep_now().expect("cleaned");
        }
        commit(&engine, "p", [put("last", "v", vec![])]).await;
        let view = engine.view(&partition("p")).await.expect("a view");
        let commits = view.revision().0 - before.0;
        assert!((2..20).contains(&commits), "{commits} commits");
        for at in (0..BODIES).step_by(6) {
            let record = view.get(HEADS, format!("k{at}").as_bytes()).await.expect("a read").expect("there");
            assert_eq!(read(&engine, record.slices[0]).await.expect("readable"), body(at, 4000));
            assert_eq!(read(&engine, record.slices[1]).await.expect("readable"), body(at + BODIES, 4000));
        }
    });
    assert!(disk.stored() < 4_000_000, "{} bytes are stored for 2 MB", disk.stored());
}

/// The content of the body that commit `at` names.
fn body_of(at: u64) -> Bytes {
    body(at, 1000 + (at as usize * 7919) % 90_000)
}

/// Commits number after number, each a record of its own with a body, over two partitions.
async fn commit_number(engine: &Embedded, at: u64, durability: engine::Durability) -> Result<(), ()> {
    let written = engine.write_extent(&mut Whole(body_of(at)), engine::EXTENT_BYTES_MAX).await;
    let Ok(Some(pin)) = written else { return Err(()) };
    let put = put(&format!("{at:06}"), at.to_string(), vec![ExtentSlice::whole(pin.extent())]);
    let to = partition(["even", "odd"][at as usize % 2]);
    engine.commit(&to, batch([put]), durability).await.map(drop).map_err(drop)
}

/// How many of these are there: all up to some number, each with its body, and none after it.
async fn numbers_left(engine: &Embedded, end: u64) -> u64 {
    let mut left = 0;
    for at in 0..end {
        let view = engine.view(&partition(["even", "odd"][at as usize % 2])).await.expect("a view");
        let Some(record) = view.get(HEADS, format!("{at:06}").as_bytes()).await.expect("a read") else { continue };
        assert_eq!(left, at, "commit {at} is there, and commit {left} is not");
        assert_eq!(read(engine, record.slices[0]).await.expect("readable"), body_of(at));
        left = at + 1;
    }
    left
}

#[test]
fn a_power_cut_leaves_buffered_commits_up_to_one_point() {
    const END: u64 = 3000;
    let runtime = runtime();
    for round in 0..8u64 {
        let (dir, disk) = (directory(), Lossy::default());
        let engine = disk.open(dir.path(), 2 << 20);
        // All below this are promised; how many were begun.
        let (promised, begun) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let task = runtime.spawn({
            let (engine, promised, begun) = (Arc::clone(&engine), Arc::clone(&promised), Arc::clone(&begun));
            async move {
                for at in 0..END {
                    begun.store(at + 1, Ordering::SeqCst);
                    let synced = at % 17 == round;
                    let Ok(()) = commit_number(&engine, at, if synced { Synced } else { Buffered }).await else {
                        return;
                    };
                    if synced || at % 23 == 5 && engine.sync().await.is_ok() {
                        promised.store(at + 1, Ordering::SeqCst);
                    }
                }
            }
        });
        for _ in 0..20_000 {
            if disk.0.syncs.load(Ordering::SeqCst) >= 2 + round * 3 {
                break;
            }
            std::thread::park_timeout(Duration::from_micros(500));
        }
        disk.0.off.store(true, Ordering::SeqCst);
        let left = disk.after_power_cut();
        runtime.block_on(task).expect("the task ended well");
        drop(engine);
        let engine = left.open(dir.path(), 2 << 20);
        engine.sweep_now().expect("cleaned");
        let found = runtime.block_on(numbers_left(&engine, END));
        let (promised, begun) = (promised.load(Ordering::SeqCst), begun.load(Ordering::SeqCst));
        assert!((promised..=begun).contains(&found), "{found} are left, {promised} were promised, {begun} begun");
        runtime.block_on(commit_number(&engine, END, Synced)).expect("and it goes on");
    }
}

/// At the worst moment: the records as they are, and of the bodies only what was synced.
#[test]
fn a_crash_takes_what_is_buffered_and_what_came_after_and_nothing_else() {
    let (runtime, dir, disk) = (runtime(), directory(), Lossy::default());
    let engine = disk.open_patient(dir.path(), 64 << 20);
    let left_after_crash = || {
        let crashed = directory();
        copy(dir.path(), crashed.path());
        let engine = disk.after_power_cut().open(crashed.path(), 64 << 20);
        runtime.block_on(numbers_left(&engine, 20))
    };
    runtime.block_on(commit_number(&engine, 0, Synced)).expect("committed");
    for at in 1..4 {
        runtime.block_on(commit_number(&engine, at, Buffered)).expect("committed");
    }
    assert_eq!(left_after_crash(), 1);
    // A commit that is synced takes those before it along, whatever their partition.
    runtime.block_on(commit_number(&engine, 4, Synced)).expect("committed");
    assert_eq!(left_after_crash(), 5);
    runtime.block_on(commit_number(&engine, 5, Buffered)).expect("committed");
    runtime.block_on(engine.sync()).expect("synced");
    assert_eq!(left_after_crash(), 6);
    runtime.block_on(commit_number(&engine, 6, Buffered)).expect("committed");
    runtime.block_on(engine.fence(&engine::GroupId(Bytes::from_static(b"other")))).expect("fenced");
    assert_eq!(left_after_crash(), 7);
}

#[test]
fn buffered_commits_sync_nothing_and_share_the_next_sync() {
    let (runtime, dir, disk) = (runtime(), directory(), Lossy::default());
    let engine = disk.open_patient(dir.path(), 64 << 20);
    let counts = || (disk.0.syncs.load(Ordering::SeqCst), engine.batches());
    runtime.block_on(async {
        engine.sync().await.expect("synced");
        assert_eq!(counts(), (0, 0), "nothing is buffered");
        for at in 0..50 {
            commit_number(&engine, at, Buffered).await.expect("committed");
        }
        assert_eq!(counts(), (0, 0));
        let together: Vec<_> = (0..50)
            .map(|_| {
                let engine = Arc::clone(&engine);
                tokio::spawn(async move { engine.sync().await })
            })
            .collect();
        for one in together {
            one.await.expect("no panic").expect("synced");
        }
        assert_eq!(counts(), (1, 1), "one sync of the segment and one of the journal are enough for all");
        engine.sync().await.expect("synced");
        assert_eq!(counts(), (1, 1));
        commit_number(&engine, 50, Buffered).await.expect("committed");
        commit(&engine, "p", [put("k", "v", vec![])]).await;
        assert_eq!(counts(), (2, 2), "a synced commit takes what is buffered along");
        let measures = engine.measures();
        let counted = [measures.segment_syncs, measures.commits, measures.group_sizes].map(|of| of.read().1);
        assert_eq!(counted, [2, 2, 2], "each is measured");
        assert!(measures.segments == 1 && measures.segment_bytes > 0 && measures.free_bytes > 0);
    });
}

/// While the commit thread has nothing to do nobody is woken, and nothing awaited.
#[test]
fn a_buffered_commit_is_done_where_it_is_asked_for() {
    let (runtime, dir, disk) = (runtime(), directory(), Lossy::default());
    let engine = disk.open_patient(dir.path(), 64 << 20);
    let (p, mut context) = (partition("p"), Context::from_waker(Waker::noop()));
    for at in 0..10 {
        let batch = Batch { guards: Vec::new(), writes: vec![put("k", format!("{at}"), vec![])] };
        let mut committing = engine.commit(&p, batch, Buffered);
        assert!(matches!(committing.as_mut().poll(&mut context), Poll::Ready(Ok(_))));
        let view = runtime.block_on(engine.view(&p)).expect("a view");
        let found = runtime.block_on(view.get(HEADS, b"k")).expect("a read").expect("a record");
        assert_eq!(found.value, format!("{at}"));
    }
    engine.close().expect("closed");
    let batch = Batch { guards: Vec::new(), writes: vec![put("k", "late", vec![])] };
    assert!(matches!(
        runtime.block_on(engine.commit(&p, batch, Buffered)),
        Err(CommitError::Fault(Fault::Stopped { .. }))
    ));
    drop(engine);
    let engine = disk.open(dir.path(), 64 << 20);
    let view = runtime.block_on(engine.view(&p)).expect("a view");
    let found = runtime.block_on(view.get(HEADS, b"k")).expect("a read").expect("a record");
    assert_eq!(found.value, "9");
}

#[test]
fn what_nobody_syncs_is_synced_by_itself() {
    let (runtime, dir, disk) = (runtime(), directory(), Lossy::default());
    let engine = disk.open_with(Options { sync_within: Duration::from_millis(20), ..Options::new(dir.path()) });
    for at in 0..2 {
        runtime.block_on(commit_number(&engine, at, Buffered)).expect("committed");
        for _ in 0..2000 {
            if engine.batches() > at {
                break;
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
        assert_eq!((disk.0.syncs.load(Ordering::SeqCst), engine.batches()), (at + 1, at + 1));
    }
    let crashed = directory();
    copy(dir.path(), crashed.path());
    let engine = disk.after_power_cut().open(crashed.path(), 64 << 20);
    assert_eq!(runtime.block_on(numbers_left(&engine, 5)), 2);
}

#[test]
fn not_much_stays_in_memory() {
    let (runtime, dir, disk) = (runtime(), directory(), Lossy::default());
    let engine = disk.open_patient(dir.path(), 64 << 20);
    runtime.block_on(async {
        for at in 0..80 {
            buffer(&engine, "p", [put(&format!("k{at}"), vec![at; 1 << 20], vec![])]).await;
        }
        assert!(engine.batches() >= 1, "80 MiB do not wait");
    });
}

/// What is buffered is written while others go on: over it, and with its extents.
#[test]
fn buffered_commits_go_on_while_others_are_written() {
    let (runtime, dir, disk) = (runtime(), directory(), Lossy::default());
    let engine = disk.open_patient(dir.path(), 64 << 20);
    runtime.block_on(async {
        // One extent that a record has named for long, one that is new.
        let old = write(&engine, &body(1, 100_000)).await;
        let old_slice = ExtentSlice::whole(old.extent());
        commit(&engine, "p", [put("old", "1", vec![old_slice])]).await;
        let new = write(&engine, &body(2, 100_000)).await;
        let new_slice = ExtentSlice::whole(new.extent());
        let before = engine.batches();
        disk.0.holds_syncs.store(true, Ordering::SeqCst);
        buffer(&engine, "p", [delete("old"), put("new", "1", vec![new_slice])]).await;
        // Enough for it to be written; the sync of the segment is waited for.
        for at in 0..9 {
            buffer(&engine, "p", [put(&format!("k{at}"), vec![at; 1 << 20], vec![])]).await;
        }
        for _ in 0..20_000 {
            if disk.0.waiting.load(Ordering::SeqCst) > 0 {
                break;
            }
            std::thread::park_timeout(Duration::from_micros(500));
        }
        assert_eq!(disk.0.waiting.load(Ordering::SeqCst), 1, "the segment is being synced");
        let view = engine.view(&partition("p")).await.expect("a view");
        buffer(&engine, "q", [put("copy", "2", vec![old_slice])]).await;
        buffer(&engine, "p", [put("k0", "2", vec![]), delete("new"), delete("k1")]).await;
        assert_eq!(engine.batches(), before, "nothing was written yet");
        assert_eq!(view.get(HEADS, b"k0").await.expect("a read").expect("a record").value.len(), 1 << 20);
        let seen = async |engine: &Arc<Embedded>| {
            let p = ["k0", "k1", "k2", "old", "new"].map(|key| value(engine, "p", key));
            let mut found = Vec::new();
            for one in p {
                found.push(one.await.map(|value| value.len()));
            }
            (found, value(engine, "q", "copy").await.expect("a record"))
        };
        let expected = (vec![Some(1), None, Some(1 << 20), None, None], Bytes::from_static(b"2"));
        assert_eq!(seen(&engine).await, expected);
        disk.0.holds_syncs.store(false, Ordering::SeqCst);
        engine.sync().await.expect("synced");
        assert_eq!(engine.batches(), before + 2);
        assert_eq!(seen(&engine).await, expected);
        drop((old, new, view));
        engine.sweep_now().expect("cleaned");
        assert_eq!(read(&engine, old_slice).await.expect("named again"), body(1, 100_000));
        assert!(disk.stored() < 120_000, "nobody names the new one");
    });
    drop(engine);
    let engine = disk.after_power_cut().open(dir.path(), 64 << 20);
    runtime.block_on(async {
        assert_eq!(value(&engine, "p", "k0").await.expect("a record"), "2");
        let copy = engine.view(&partition("q")).await.expect("a view").get(HEADS, b"copy").await;
        let slice = copy.expect("a read").expect("a record").slices[0];
        assert_eq!(read(&engine, slice).await.expect("readable"), body(1, 100_000));
    });
}

#[test]
fn a_sync_that_fails_is_told_to_who_syncs() {
    let (runtime, dir, disk) = (runtime(), directory(), Lossy::default());
    let engine = disk.open_patient(dir.path(), 64 << 20);
    runtime.block_on(async {
        commit_number(&engine, 0, Synced).await.expect("committed");
        commit_number(&engine, 1, Buffered).await.expect("committed");
        disk.0.fail_syncs.store(true, Ordering::SeqCst);
        assert!(engine.sync().await.is_err());
        disk.0.fail_syncs.store(false, Ordering::SeqCst);
        assert!(matches!(engine.sync().await, Err(Fault::Stopped { .. })));
        assert!(commit_number(&engine, 2, Buffered).await.is_err());
        assert_eq!(numbers_left(&engine, 5).await, 2, "what was seen can still be read");
        assert!(engine.close().is_err());
    });
    drop(engine);
    let engine = disk.open(dir.path(), 64 << 20);
    assert_eq!(runtime.block_on(numbers_left(&engine, 5)), 1);
}
