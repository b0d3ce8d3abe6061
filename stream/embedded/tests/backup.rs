//! A copy of one moment, taken while the engine goes on; what earlier copies have is not copied again; a copy that is broken
//! off or damaged is never taken for a whole one.

mod common;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use common::*;
use engine::{Engine, ExtentSlice, Fault, GroupRange, ScanStart};
use lazuli_embedded::backup::{BackupError, Copied, Restored, Source, copy as copy_to, restore};
use lazuli_embedded::{Embedded, Options};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// An engine, and where its backups go.
struct World {
    dir: TempDir,
    to: TempDir,
    runtime: Runtime,
    engine: Arc<Embedded>,
}

/// Every record with its body.
type State = BTreeMap<(Bytes, Bytes), (Bytes, Bytes)>;

impl World {
    fn new() -> World {
        let dir = directory();
        let engine = Embedded::open(small(dir.path())).expect("opens");
        World { dir, to: directory(), runtime: runtime(), engine }
    }

    fn put(&self, partition: &str, name: &str, content: &Bytes) {
        self.runtime.block_on(async {
            let pin = write(&self.engine, content).await;
            commit(&self.engine, partition, [put(name, "with a body", vec![ExtentSlice::whole(pin.extent())])]).await;
        });
    }

    fn backup(&self) -> Result<Copied, BackupError> {
        let mut source = self.runtime.block_on(self.engine.copy_out()).expect("a copy");
        copy_to(&mut source, self.dir.path(), self.to.path(), &mut |_| ())
    }

    fn state(&self) -> State {
        self.runtime.block_on(state(&self.engine))
    }

    fn restored(&self) -> State {
        let (dir, _) = self.restore().expect("restored");
        let engine = Embedded::open(Options::new(dir.path())).expect("a restored directory opens");
        self.runtime.block_on(state(&engine))
    }

    fn restore(&self) -> Result<(TempDir, Restored), BackupError> {
        let dir = directory();
        restore(self.to.path(), dir.path(), &mut |_| ()).map(|restored| (dir, restored))
    }
}

/// Segments so small that there are several.
fn small(dir: &Path) -> Options {
    Options { segment_bytes_max: 300_000, ..Options::new(dir) }
}

async fn state(engine: &Embedded) -> State {
    let start = ScanStart::AtPartition(Bytes::new());
    let range = GroupRange { group: partition("").group, family: HEADS, start, before_partition: None };
    let page = engine.scan(&range, 10_000).await.expect("a page");
    assert!(!page.more);
    let mut state = State::new();
    for row in page.rows {
        let mut content = Vec::new();
        for slice in row.record.slices {
            content.extend_from_slice(&read(engine, slice).await.expect("its body"));
        }
        state.insert((row.partition, row.key), (row.record.value, content.into()));
    }
    state
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("read") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

fn flip(path: &Path, at: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).expect("opened");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("read");
    byte[0] ^= 0x04;
    file.write_all_at(&byte, at).expect("written");
}

#[test]
fn what_is_made_is_for_nobody_else_to_look_into() {
    let above = directory();
    let [data, to, restored] = ["data", "to", "restored"].map(|name| above.path().join("made").join(name));
    let runtime = runtime();
    let engine = Embedded::open(small(&data)).expect("opened");
    let mut source = runtime.block_on(engine.copy_out()).expect("a copy");
    copy_to(&mut source, &data, &to, &mut |_| ()).expect("copied");
    restore(&to, &restored, &mut |_| ()).expect("restored");
    for dir in [&above.path().join("made"), &data, &to, &restored] {
        let mode = fs::metadata(dir).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{}", dir.display());
    }
    drop(source);
    engine.close().expect("closed");
}

#[test]
fn a_copy_is_of_one_moment_whatever_happens_meanwhile() {
    let world = World::new();
    for number in 0..20 {
        world.put("p", &format!("k{number}"), &body(number, 50_000));
    }
    world.runtime.block_on(buffer(&world.engine, "p", [put("buffered", "v", vec![])]));
    let before = world.state();
    let mut source = world.runtime.block_on(world.engine.copy_out()).expect("a copy");
    // Everything goes, and its space with it, but for what the copy needs.
    world.runtime.block_on(async {
        for number in 0..20 {
            commit(&world.engine, "p", [delete(&format!("k{number}"))]).await;
        }
        buffer(&world.engine, "p", [put("later", "v", vec![])]).await;
    });
    world.put("p", "k0", &body(99, 50_000));
    world.engine.sweep_now().expect("cleaned");
    let copied = copy_to(&mut source, world.dir.path(), world.to.path(), &mut |_| ()).expect("copied");
    drop(source);
    assert_eq!((copied.records, copied.extents, copied.bytes), (21, 20, 1_000_000));
    assert_eq!(world.restored(), before);
    // Nothing holds it back any more.
    let segments = || files(&world.dir.path().join("segments")).len();
    let held = segments();
    world.engine.sweep_now().expect("cleaned");
    assert!(segments() < held, "{} of {held} segments are left", segments());
}

#[test]
fn what_the_backup_before_has_is_not_copied_again() {
    let world = World::new();
    for number in 0..12 {
        world.put("p", &format!("k{number}"), &body(number, 50_000));
    }
    assert_eq!(world.backup().expect("a backup").extents, 12);
    world.runtime.block_on(async {
        for number in 0..7 {
            commit(&world.engine, "p", [delete(&format!("k{number}"))]).await;
        }
    });
    world.put("q", "new", &body(50, 50_000));
    world.engine.sweep_now().expect("cleaned");
    let there = files(&world.to.path().join("segments")).len();
    let second = world.backup().expect("a second backup");
    assert_eq!((second.extents, second.kept_extents, second.kept_bytes), (1, 5, 250_000));
    assert!(files(&world.to.path().join("segments")).len() <= there, "segments that nothing names are gone");
    assert_eq!(world.restored(), world.state());
    let third = world.backup().expect("a third backup");
    assert_eq!((third.extents, third.kept_extents), (0, 6));
    assert_eq!(files(world.to.path()).iter().filter(|path| path.to_string_lossy().contains("records-")).count(), 1);
}

/// Gives so many blocks and fails.
struct Failing(lazuli_embedded::backup::CopyOut, usize);

impl Source for Failing {
    fn next_block(&mut self) -> Result<Option<Bytes>, BackupError> {
        let left = self.1.checked_sub(1).ok_or_else(|| BackupError::Refused { words: "broken off".to_owned() })?;
        self.1 = left;
        Source::next_block(&mut self.0)
    }
}

#[test]
fn a_backup_that_is_broken_off_is_none_and_leaves_the_one_before() {
    let world = World::new();
    world.put("p", "k", &body(1, 400_000));
    let broken = |blocks| {
        let source = world.runtime.block_on(world.engine.copy_out()).expect("a copy");
        copy_to(&mut Failing(source, blocks), world.dir.path(), world.to.path(), &mut |_| ()).expect_err("broken off")
    };
    // Head, three parts (nothing is fenced), end.
    for blocks in 0..5 {
        assert!(broken(blocks).to_string().contains("broken off"));
        let words = world.restore().expect_err("no backup").to_string();
        assert!(words.contains("no MANIFEST") && words.contains("did not come to its end"), "{words}");
    }
    world.backup().expect("a backup");
    let before = world.state();
    world.put("p", "k2", &body(2, 100_000));
    world.runtime.block_on(commit(&world.engine, "p", [delete("k")]));
    world.engine.sweep_now().expect("cleaned");
    for blocks in 0..5 {
        broken(blocks);
        assert_eq!(world.restored(), before, "after {blocks} blocks");
    }
    world.backup().expect("a backup");
    assert_eq!(world.restored(), world.state());
}

#[test]
fn a_flipped_bit_anywhere_in_a_backup_is_refused() {
    let world = World::new();
    for number in 0..5 {
        world.put("p", &format!("k{number}"), &body(number, 70_000));
    }
    world.backup().expect("a backup");
    for path in files(world.to.path()) {
        let length = fs::metadata(&path).expect("there").len();
        for at in [0, 1, length / 3, length / 2, length - 1] {
            flip(&path, at);
            let restored = world.restore();
            if path.ends_with("BACKUP") {
                // Only a mark that the directory is ours.
                assert!(restored.is_ok());
            } else {
                let error = restored.err().unwrap_or_else(|| panic!("{} at {at} was not noticed", path.display()));
                assert!(matches!(error, BackupError::Damaged { .. }), "{} at {at}: {error}", path.display());
            }
            flip(&path, at);
        }
    }
    assert_eq!(world.restored(), world.state());
}

#[test]
fn a_damaged_body_is_not_copied() {
    let world = World::new();
    world.put("p", "k", &body(1, 100_000));
    let segment = files(&world.dir.path().join("segments")).remove(0);
    flip(&segment, 70_000);
    let words = world.backup().expect_err("damaged").to_string();
    assert!(words.contains("checksum") && words.contains(&segment.display().to_string()), "{words}");
}

#[test]
fn every_refusal_has_its_words() {
    let world = World::new();
    world.put("p", "k", &body(1, 10));
    world.backup().expect("a backup");
    let refused = |to: &Path| {
        let mut source = world.runtime.block_on(world.engine.copy_out()).expect("a copy");
        copy_to(&mut source, world.dir.path(), to, &mut |_| ()).expect_err("refused").to_string()
    };
    let foreign = directory();
    fs::write(foreign.path().join("holiday.jpg"), "").expect("written");
    assert!(refused(foreign.path()).contains("holiday.jpg"));
    assert!(refused(&world.dir.path().join("backup")).contains("inside the data directory"));
    let other = World::new();
    other.put("p", "k", &body(2, 10));
    other.backup().expect("a backup");
    assert!(refused(other.to.path()).contains("another data directory"));
    let into = restore(world.to.path(), foreign.path(), &mut |_| ()).expect_err("refused").to_string();
    assert!(into.contains("not empty") && into.contains("holiday.jpg"), "{into}");
    // A directory that was restored goes its own way.
    let (restored, _) = world.restore().expect("restored");
    let engine = Embedded::open(Options::new(restored.path())).expect("opens");
    let mut source = world.runtime.block_on(engine.copy_out()).expect("a copy");
    let words = copy_to(&mut source, restored.path(), world.to.path(), &mut |_| ()).expect_err("refused").to_string();
    assert!(words.contains("restored or rolled back"), "{words}");
    // One whose restore was cut off is told as such.
    let cut = directory();
    fs::write(cut.path().join("RESTORING"), "").expect("written");
    let words = Embedded::open(Options::new(cut.path())).err().expect("refused").to_string();
    assert!(words.contains("did not come to its end"), "{words}");
}

#[test]
fn a_failed_restore_leaves_nothing() {
    let world = World::new();
    world.put("p", "k", &body(1, 100_000));
    world.backup().expect("a backup");
    flip(&files(&world.to.path().join("segments")).remove(0), 500);
    let dir = directory();
    restore(world.to.path(), dir.path(), &mut |_| ()).expect_err("damaged");
    assert_eq!(files(dir.path()), Vec::<PathBuf>::new());
}

#[test]
fn the_number_of_a_segment_that_was_named_is_never_used_again() {
    let world = World::new();
    let named = |world: &World| {
        world.runtime.block_on(async {
            let view = world.engine.view(&partition("p")).await.expect("a view");
            let record = view.get(HEADS, b"k").await.expect("a read").expect("there");
            (record.slices[0].extent.id >> 64) as u64
        })
    };
    world.put("p", "k", &body(1, 10));
    let before = named(&world);
    world.runtime.block_on(commit(&world.engine, "p", [delete("k")]));
    let World { dir, to, runtime, engine } = world;
    drop(engine);
    let engine = Embedded::open(small(dir.path())).expect("opens");
    engine.sweep_now().expect("cleaned");
    assert!(files(&dir.path().join("segments")).is_empty());
    drop(engine);
    let engine = Embedded::open(small(dir.path())).expect("opens");
    let world = World { dir, to, runtime, engine };
    world.put("p", "k", &body(2, 10));
    assert!(named(&world) > before, "{} after {before}", named(&world));
}

/// A fault of the engine is told, and is no backup.
#[test]
fn a_closed_engine_gives_no_copy() {
    let world = World::new();
    world.engine.close().expect("closed");
    let copy = world.runtime.block_on(world.engine.copy_out());
    assert!(matches!(copy.err(), Some(Fault::Stopped { .. })));
}
