//! Space comes back: of deleted bodies, of mostly dead ones, of fenced groups, of what a crash left.

mod common;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use common::*;
use engine::Durability::Synced;
use engine::{Engine, Extent, ExtentSlice, GroupId, PartitionId};
use lazuli_embedded::{Embedded, Options};

/// What the segments take on the disk.
fn taken(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir.join("segments")).expect("segments");
    files.map(|entry| entry.expect("an entry").metadata().expect("metadata").blocks() * 512).sum()
}

fn segments(dir: &Path) -> usize {
    std::fs::read_dir(dir.join("segments")).expect("segments").count()
}

fn small_segments(dir: &Path) -> Arc<Embedded> {
    Embedded::open(Options { segment_bytes_max: 4 << 20, ..Options::new(dir) }).expect("opens")
}

async fn fill(engine: &Embedded, count: u64, length: usize) -> Vec<Extent> {
    let mut extents = Vec::new();
    for at in 0..count {
        let pin = write(engine, &body(at, length)).await;
        commit(engine, "p", [put(&format!("k{at}"), "v", vec![ExtentSlice::whole(pin.extent())])]).await;
        extents.push(pin.extent());
    }
    extents
}

#[test]
fn deleted_bodies_give_their_space_back() {
    let (runtime, dir) = (runtime(), tempfile::tempdir().expect("a directory"));
    let engine = small_segments(dir.path());
    runtime.block_on(async {
        fill(&engine, 40, 300_001).await;
        assert!(taken(dir.path()) >= 12_000_000);
        let before = segments(dir.path());
        for at in 0..40 {
            commit(&engine, "p", [delete(&format!("k{at}"))]).await;
        }
        engine.sweep_now().expect("cleaned");
        assert!(taken(dir.path()) <= 65_536, "{} bytes are still taken", taken(dir.path()));
        assert!(before > 2 && segments(dir.path()) == 1, "only the segment that is written to is left");
        // And the engine is none the worse for it.
        fill(&engine, 3, 1000).await;
    });
}

#[test]
fn overwritten_bodies_give_their_space_back() {
    let (runtime, dir) = (runtime(), tempfile::tempdir().expect("a directory"));
    let engine = small_segments(dir.path());
    runtime.block_on(async {
        for turn in 0..60 {
            let pin = write(&engine, &body(turn, 200_000)).await;
            commit(&engine, "p", [put("same", "v", vec![ExtentSlice::whole(pin.extent())])]).await;
        }
        engine.sweep_now().expect("cleaned");
        assert!(taken(dir.path()) <= 200_000 + 65_536, "{} bytes are still taken", taken(dir.path()));
        let view = engine.view(&partition("p")).await.expect("a view");
        let record = view.get(HEADS, b"same").await.expect("a read").expect("there");
        assert_eq!(read(&engine, record.slices[0]).await.expect("readable"), body(59, 200_000));
    });
}

/// Pieces of a file that is written over at random, time and again: each keeps the two blocks that it lies in at most.
#[test]
fn small_bodies_take_no_more_than_the_blocks_they_lie_in() {
    const BODIES: u64 = 1000;
    let (runtime, dir) = (runtime(), tempfile::tempdir().expect("a directory"));
    let engine = small_segments(dir.path());
    runtime.block_on(async {
        let mut newest = vec![0; BODIES as usize];
        for turn in 1..=8 * BODIES {
            let at = if turn <= BODIES { turn - 1 } else { turn.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32 } % BODIES;
            let pin = write(&engine, &body(turn, 4096)).await;
            let put = put(&format!("k{at}"), "v", vec![ExtentSlice::whole(pin.extent())]);
            let durability = if turn % 100 == 0 { Synced } else { engine::Durability::Buffered };
            engine.commit(&partition("p"), batch([put]), durability).await.expect("committed");
            newest[at as usize] = turn;
        }
        engine.sweep_now().expect("cleaned");
        assert!(taken(dir.path()) <= BODIES * 2 * 4096 + 65_536, "{} bytes are still taken", taken(dir.path()));
        let view = engine.view(&partition("p")).await.expect("a view");
        for (at, turn) in newest.into_iter().enumerate() {
            let record = view.get(HEADS, format!("k{at}").as_bytes()).await.expect("a read").expect("there");
            assert_eq!(read(&engine, record.slices[0]).await.expect("readable"), body(turn, 4096));
        }
    });
}

#[test]
fn abandoned_bodies_give_their_space_back() {
    let (runtime, dir) = (runtime(), tempfile::tempdir().expect("a directory"));
    let engine = small_segments(dir.path());
    runtime.block_on(async {
        let mut pins = Vec::new();
        for at in 0..30 {
            pins.push(write(&engine, &body(at, 300_000)).await);
        }
        drop(pins);
        engine.sweep_now().expect("cleaned");
    });
    assert!(taken(dir.path()) <= 65_536, "{} bytes are still taken", taken(dir.path()));
}

#[test]
fn a_mostly_dead_body_is_moved_and_its_record_keeps_value_and_revision() {
    let (runtime, dir) = (runtime(), tempfile::tempdir().expect("a directory"));
    let engine = small_segments(dir.path());
    runtime.block_on(async {
        let content = body(1, 4_000_000);
        let pin = write(&engine, &content).await;
        let (extent, p) = (pin.extent(), partition("p"));
        commit(&engine, "p", [put("whole", "v", vec![ExtentSlice::whole(extent)])]).await;
        drop(pin);
        let parts = [(3_000_000, 512), (17, 4000), (3_000_400, 512)];
        let slices: Vec<_> =
            parts.iter().map(|(offset, bytes)| ExtentSlice { extent, offset: *offset, bytes: *bytes }).collect();
        let revision = commit(&engine, "p", [put("part", "v", slices), delete("whole")]).await;
        // A view from before the move goes on reading the old place.
        let old = engine.view(&p).await.expect("a view");
        for _ in 0..2 {
            engine.sweep_now().expect("cleaned");
        }
        assert!(taken(dir.path()) >= 3_900_000, "the old view keeps it");
        let before = old.get(HEADS, b"part").await.expect("a read").expect("there");
        assert_eq!(before.slices[0].extent, extent);
        assert_eq!(read(&engine, before.slices[0]).await.expect("readable"), content[3_000_000..3_000_512]);
        drop(old);
        for _ in 0..2 {
            engine.sweep_now().expect("cleaned");
        }
        assert!(taken(dir.path()) <= 65_536, "{} bytes are still taken", taken(dir.path()));
        let view = engine.view(&p).await.expect("a view");
        let record = view.get(HEADS, b"part").await.expect("a read").expect("there");
        assert_eq!((record.value, record.revision), (key("v"), revision));
        assert_ne!(record.slices[0].extent, extent);
        for (slice, (offset, bytes)) in record.slices.iter().zip(parts) {
            assert_eq!(
                read(&engine, *slice).await.expect("readable"),
                content[offset as usize..(offset + bytes) as usize]
            );
        }
        // Who kept the old slices from an older view is told to look again.
        let stale = engine.commit(&p, batch([put("part", "w", before.slices)]), Synced).await;
        assert!(matches!(stale, Err(engine::CommitError::Conflict)));
    });
}

#[test]
fn what_a_crash_left_is_found_after_the_start() {
    let (runtime, dir) = (runtime(), tempfile::tempdir().expect("a directory"));
    let crashed = tempfile::tempdir().expect("a directory");
    let engine = small_segments(dir.path());
    let kept = runtime.block_on(async {
        let kept = fill(&engine, 3, 100_000).await;
        let mut pins = Vec::new();
        for at in 0..30 {
            pins.push(write(&engine, &body(at, 300_000)).await);
        }
        // A copy of an engine at work is what a crash of the process leaves.
        copy(dir.path(), crashed.path());
        kept
    });
    let engine = small_segments(crashed.path());
    assert!(taken(crashed.path()) >= 9_000_000);
    engine.sweep_now().expect("cleaned");
    assert!(taken(crashed.path()) <= 300_000 + 65_536, "{} bytes are still taken", taken(crashed.path()));
    assert_eq!(segments(crashed.path()), 1);
    runtime.block_on(async {
        for (at, extent) in kept.into_iter().enumerate() {
            assert_eq!(read(&engine, ExtentSlice::whole(extent)).await.expect("readable"), body(at as u64, 100_000));
        }
    });
}

#[test]
fn a_mostly_dead_body_is_found_after_a_start_too() {
    let (runtime, dir) = (runtime(), tempfile::tempdir().expect("a directory"));
    let engine = small_segments(dir.path());
    let content = body(1, 3_000_000);
    runtime.block_on(async {
        let pin = write(&engine, &content).await;
        let part = ExtentSlice { extent: pin.extent(), offset: 1_000_000, bytes: 4096 };
        commit(&engine, "p", [put("part", "v", vec![part])]).await;
    });
    drop(engine);
    let engine = small_segments(dir.path());
    for _ in 0..2 {
        engine.sweep_now().expect("cleaned");
    }
    assert!(taken(dir.path()) <= 65_536, "{} bytes are still taken", taken(dir.path()));
    runtime.block_on(async {
        let view = engine.view(&partition("p")).await.expect("a view");
        let record = view.get(HEADS, b"part").await.expect("a read").expect("there");
        assert_eq!(read(&engine, record.slices[0]).await.expect("readable"), content[1_000_000..1_004_096]);
    });
}

#[test]
fn a_fenced_group_is_swept_even_if_the_sweeping_was_cut_off() {
    let (runtime, dir) = (runtime(), tempfile::tempdir().expect("a directory"));
    let crashed = tempfile::tempdir().expect("a directory");
    let engine = small_segments(dir.path());
    let gone = PartitionId { group: GroupId(key("gone")), key: key("p") };
    runtime.block_on(async {
        for at in 0..20 {
            let pin = write(&engine, &body(at, 100_000)).await;
            let slices = vec![ExtentSlice::whole(pin.extent())];
            let many: Vec<_> = (0..40).map(|of| put(&format!("k{at}-{of}"), "v", slices.clone())).collect();
            engine.commit(&gone, batch(many), Synced).await.expect("committed");
        }
        fill(&engine, 2, 1000).await;
        engine.fence(&gone.group).await.expect("fenced");
        copy(dir.path(), crashed.path());
    });
    for dir in [dir.path(), crashed.path()] {
        let reopened;
        let engine = if dir == crashed.path() {
            reopened = small_segments(dir);
            &reopened
        } else {
            &engine
        };
        for _ in 0..2 {
            engine.sweep_now().expect("cleaned");
        }
        assert!(taken(dir) <= 65_536, "{} bytes are still taken", taken(dir));
        runtime.block_on(async {
            let view = engine.view(&gone).await.expect("a view");
            assert_eq!(view.get(HEADS, b"k0-0").await.expect("a read"), None);
            assert_eq!(value(engine, "p", "k1").await.expect("the other group is untouched"), "v");
        });
    }
}
