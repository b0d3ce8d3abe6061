//! Extents: the bytes that were written, alive as long as somebody needs them, and no longer.

use super::*;
use crate::{EXTENT_BYTES_MAX, ExtentError};

pub(super) const ALL: &[(&str, Behaviour)] = &[
    ("an extent gives back its bytes, whole and in slices", bytes_come_back),
    ("an extent ends where its maximum does", maximum),
    ("an empty source makes no extent", empty_source),
    ("a source that fails leaves nothing", failing_source),
    ("an extent named by nobody goes with its pin", goes_with_its_pin),
    ("an extent goes with the last record that names it", goes_with_its_last_record),
    ("an extent moves from record to record in one commit", moves),
    ("a pin outlives the record", pin_outlives_record),
    ("a view keeps what its records name", view_keeps),
    ("an extent on its way out can be named again", named_again),
    ("a conflict leaves pins and extents alone", conflict_leaves_alone),
    ("extents are there after reopening", reopen_keeps),
    ("a record may name many slices of many extents", many_slices),
    ("a small part of a large extent stays readable", small_part),
    ("writers and readers at once", at_once),
];

fn slice(extent: Extent, offset: u64, bytes: u64) -> ExtentSlice {
    ExtentSlice { extent, offset, bytes }
}

/// Whether a record may still name the extent.
async fn can_be_named(engine: &Arc<dyn Engine>, extent: Extent) -> bool {
    let p = partition("probe");
    let named = engine.commit(&p, writes([put_with("probe", "", vec![ExtentSlice::whole(extent)])]), Synced).await;
    match named {
        Ok(_) => {
            commit(engine, &p, writes([delete("probe")])).await;
            true
        }
        Err(CommitError::Conflict) => false,
        Err(error) => panic!("{error:?}"),
    }
}

fn bytes_come_back(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async move {
        for (seed, length) in
            [1, 100, 65_535, 65_536, 65_537, 262_144, 262_145, 1_000_000, 4 << 20].into_iter().enumerate()
        {
            let content = body(seed as u64, length);
            let pin = write(&engine, &content).await;
            assert_eq!(pin.extent().bytes, length as u64);
            assert_eq!(read_whole(&engine, pin.extent()).await, content);
            for offset in [0, 1, 65_535, 65_536, 65_537, 700_001, length as u64 - 1] {
                for bytes in [0, 1, 2, 65_536, 100_003, 1 << 20] {
                    if offset + bytes <= length as u64 {
                        let found = read(&engine, slice(pin.extent(), offset, bytes)).await.expect("a read");
                        assert_eq!(found, content[offset as usize..(offset + bytes) as usize]);
                    }
                }
            }
        }
    }));
}

fn maximum(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async move {
        let content = body(7, 700_000);
        for piece in [1_000, 65_536, 1 << 20] {
            let mut source = Pieces { left: content.clone(), piece, fails: false };
            let mut found = Vec::new();
            while let Some(pin) = engine.write_extent(&mut source, 262_144).await.expect("written") {
                assert!(pin.extent().bytes <= 262_144);
                found.extend_from_slice(&read_whole(&engine, pin.extent()).await);
            }
            assert_eq!(found, content);
        }
    }));
}

fn empty_source(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async move {
        let mut source = Pieces { left: Bytes::new(), piece: 1, fails: false };
        assert!(engine.write_extent(&mut source, EXTENT_BYTES_MAX).await.expect("no fault").is_none());
    }));
}

fn failing_source(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async move {
        for length in [0, 10, 300_000, 900_000] {
            let mut source = Pieces { left: body(3, length), piece: 70_000, fails: true };
            match engine.write_extent(&mut source, EXTENT_BYTES_MAX).await {
                Err(ExtentError::Source(SourceError(error))) => assert_eq!(error.to_string(), "the client went away"),
                other => panic!("the source failed, and this came of it: {other:?}"),
            }
            // What comes after is none the worse for it.
            let content = body(4, length + 5);
            let pin = write(&engine, &content).await;
            assert_eq!(read_whole(&engine, pin.extent()).await, content);
        }
    }));
}

fn goes_with_its_pin(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async {
        let pin = write(&engine, &body(1, 1000)).await;
        let extent = pin.extent();
        drop(pin.clone());
        harness.settle(&engine);
        assert_eq!(read_whole(&engine, extent).await, body(1, 1000));
        drop(pin);
        harness.settle(&engine);
        assert!(!can_be_named(&engine, extent).await);
    }));
}

fn goes_with_its_last_record(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async {
        let (p, q) = (partition("p"), partition("q"));
        let content = body(1, 200_000);
        let pin = write(&engine, &content).await;
        let extent = pin.extent();
        let whole = vec![ExtentSlice::whole(extent)];
        commit(&engine, &p, writes([put_with("a", "", whole.clone()), put_with("b", "", whole.clone())])).await;
        drop(pin);
        harness.settle(&engine);
        // A copy names it too, with nothing but its record to keep it.
        commit(&engine, &q, writes([put_with("c", "", whole.clone())])).await;
        commit(&engine, &p, writes([delete("a")])).await;
        harness.settle(&engine);
        commit(&engine, &p, writes([put("b", "names nothing now")])).await;
        harness.settle(&engine);
        assert_eq!(read_whole(&engine, extent).await, content);
        assert_eq!(get(&engine, &q, "c").await.expect("there").slices, whole);
        commit(&engine, &q, writes([delete("c")])).await;
        harness.settle(&engine);
        assert!(!can_be_named(&engine, extent).await);
    }));
}

/// Whatever the order of the writes: what a batch takes away and names anew was never gone.
fn moves(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async {
        let p = partition("p");
        let content = body(1, 100_000);
        let pin = write(&engine, &content).await;
        let whole = vec![ExtentSlice::whole(pin.extent())];
        let halves = vec![slice(pin.extent(), 50_000, 50_000), slice(pin.extent(), 0, 50_000)];
        commit(&engine, &p, writes([put_with("a", "", whole.clone())])).await;
        drop(pin);
        for (from, to, slices) in [("a", "b", &whole), ("b", "a", &halves), ("a", "c", &whole)] {
            commit(&engine, &p, writes([delete(from), put_with(to, "", slices.clone())])).await;
            harness.settle(&engine);
            commit(&engine, &p, writes([put_with(from, "", slices.clone()), delete(to)])).await;
            harness.settle(&engine);
            commit(&engine, &p, writes([put(from, "nothing"), put_with(to, "", slices.clone())])).await;
            harness.settle(&engine);
            let record = get(&engine, &p, to).await.expect("there");
            assert_eq!(&record.slices, slices);
            assert_eq!(read_whole(&engine, record.slices[0].extent).await, content);
        }
        let extent = whole[0].extent;
        commit(&engine, &p, writes([delete("c")])).await;
        harness.settle(&engine);
        assert!(!can_be_named(&engine, extent).await);
    }));
}

fn pin_outlives_record(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async {
        let p = partition("p");
        let content = body(1, 150_000);
        let pin = write(&engine, &content).await;
        let extent = pin.extent();
        commit(&engine, &p, writes([put_with("a", "", vec![ExtentSlice::whole(extent)])])).await;
        drop(pin);
        let view = engine.view(&p).await.expect("a view");
        let named = view.get(HEADS, b"a").await.expect("a read").expect("there").slices[0];
        let pin = engine.pin(named.extent);
        drop(view);
        commit(&engine, &p, writes([delete("a")])).await;
        harness.settle(&engine);
        assert_eq!(read(&engine, named).await.expect("pinned"), content);
        let second = pin.clone();
        drop(pin);
        harness.settle(&engine);
        assert_eq!(read(&engine, named).await.expect("pinned"), content);
        drop(second);
        harness.settle(&engine);
        assert!(!can_be_named(&engine, extent).await);
    }));
}

fn view_keeps(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async {
        let p = partition("p");
        let content = body(1, 90_000);
        let pin = write(&engine, &content).await;
        let extent = pin.extent();
        commit(&engine, &p, writes([put_with("a", "", vec![ExtentSlice::whole(extent)])])).await;
        drop(pin);
        let view = engine.view(&p).await.expect("a view");
        // Where views move, this read chooses the state.
        let named = view.get(HEADS, b"a").await.expect("a first read").expect("there").slices[0];
        commit(&engine, &p, writes([delete("a")])).await;
        harness.settle(&engine);
        if let Some(found) = still(harness, view.get(HEADS, b"a").await) {
            assert_eq!(found.expect("the view shows it").slices[0], named);
        }
        assert_eq!(read(&engine, named).await.expect("kept by the view"), content);
        let pin = engine.pin(named.extent);
        drop(view);
        harness.settle(&engine);
        assert_eq!(read(&engine, named).await.expect("kept by the pin"), content);
        drop(pin);
        harness.settle(&engine);
        assert!(!can_be_named(&engine, extent).await);
    }));
}

fn named_again(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async {
        let p = partition("p");
        let content = body(1, 70_000);
        let pin = write(&engine, &content).await;
        let whole = vec![ExtentSlice::whole(pin.extent())];
        commit(&engine, &p, writes([put_with("a", "", whole.clone())])).await;
        commit(&engine, &p, writes([delete("a")])).await;
        harness.settle(&engine);
        commit(&engine, &p, writes([put_with("b", "", whole.clone())])).await;
        // In one batch from one record to another.
        commit(&engine, &p, writes([delete("b"), put_with("c", "", whole.clone())])).await;
        drop(pin);
        harness.settle(&engine);
        assert_eq!(read(&engine, whole[0]).await.expect("named"), content);
        // Written over with the same slices.
        commit(&engine, &p, writes([put_with("c", "other value", whole.clone())])).await;
        harness.settle(&engine);
        assert_eq!(read(&engine, whole[0]).await.expect("named"), content);
    }));
}

fn conflict_leaves_alone(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async {
        let p = partition("p");
        let first = write(&engine, &body(1, 1000)).await;
        let gone = write(&engine, &body(2, 1000)).await;
        let dead = gone.extent();
        drop(gone);
        harness.settle(&engine);
        let slices = vec![ExtentSlice::whole(first.extent()), ExtentSlice::whole(dead)];
        assert!(is_conflict(engine.commit(&p, writes([put("x", ""), put_with("a", "", slices)]), Synced).await));
        assert_eq!(value(&engine, &p, "x").await, None);
        commit(&engine, &p, writes([put("there", "")])).await;
        let whole = vec![ExtentSlice::whole(first.extent())];
        assert!(is_conflict(
            engine.commit(&p, guarded([absent("there")], [put_with("a", "", whole.clone())]), Synced).await
        ));
        harness.settle(&engine);
        commit(&engine, &p, writes([put_with("a", "", whole)])).await;
        let extent = first.extent();
        drop(first);
        harness.settle(&engine);
        assert_eq!(read_whole(&engine, extent).await, body(1, 1000));
    }));
}

fn reopen_keeps(harness: &dyn Harness) {
    let engine = harness.fresh();
    let content = body(9, 500_000);
    let lost = std::sync::Mutex::new(None);
    harness.run(Box::pin(async {
        let p = partition("p");
        let pin = write(&engine, &content).await;
        let extent = pin.extent();
        let slices = vec![slice(extent, 100_000, 300_001), slice(extent, 7, 70_000)];
        commit(&engine, &p, writes([put_with("a", "value", slices)])).await;
        let unnamed = write(&engine, &body(2, 5000)).await;
        *lost.lock().expect("one thread") = Some(unnamed.extent());
    }));
    let Some(engine) = harness.reopen(engine) else { return };
    harness.run(Box::pin(async {
        let p = partition("p");
        for _ in 0..2 {
            let record = get(&engine, &p, "a").await.expect("there");
            assert_eq!(read(&engine, record.slices[0]).await.expect("a read"), content[100_000..400_001]);
            assert_eq!(read(&engine, record.slices[1]).await.expect("a read"), content[7..70_007]);
            harness.settle(&engine);
        }
        let lost = lost.lock().expect("one thread").expect("set above");
        assert!(!can_be_named(&engine, lost).await, "nobody named it, so it is gone");
        // New extents take no old one's place.
        let pin = write(&engine, &body(3, 5000)).await;
        let record = get(&engine, &p, "a").await.expect("there");
        assert_ne!(record.slices[0].extent.id, pin.extent().id);
        commit(&engine, &p, writes([delete("a")])).await;
        harness.settle(&engine);
        assert!(!can_be_named(&engine, record.slices[0].extent).await);
    }));
}

fn many_slices(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async {
        let p = partition("p");
        let mut pins = Vec::new();
        for seed in 0..20 {
            pins.push(write(&engine, &body(seed, 3000)).await);
        }
        let slices: Vec<ExtentSlice> =
            (0..200).map(|at| slice(pins[at % 20].extent(), (at as u64 * 13) % 2000, at as u64 % 1000)).collect();
        commit(&engine, &p, writes([put_with("a", "", slices.clone())])).await;
        drop(pins);
        harness.settle(&engine);
        let record = get(&engine, &p, "a").await.expect("there");
        assert_eq!(record.slices.len(), slices.len());
        for (at, slice) in record.slices.into_iter().enumerate() {
            let whole = body(at as u64 % 20, 3000);
            let (from, bytes) = ((at * 13) % 2000, at % 1000);
            assert_eq!(read(&engine, slice).await.expect("a read"), whole[from..from + bytes]);
        }
    }));
}

fn small_part(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async {
        let p = partition("p");
        let content = body(5, 2 << 20);
        let pin = write(&engine, &content).await;
        let whole = ExtentSlice::whole(pin.extent());
        let revision =
            commit(&engine, &p, writes([put_with("a", "v", vec![whole]), put_with("b", "v", vec![whole])])).await;
        drop(pin);
        let few = vec![
            slice(whole.extent, 1_000_003, 512),
            slice(whole.extent, 17, 100),
            slice(whole.extent, 1_000_100, 900),
        ];
        commit(&engine, &p, writes([put_with("c", "v", few), delete("a")])).await;
        commit(&engine, &p, guarded([at("b", revision)], [delete("b")])).await;
        for _ in 0..3 {
            harness.settle(&engine);
            let record = get(&engine, &p, "c").await.expect("there");
            assert_eq!(record.value, "v");
            let found = [
                read(&engine, record.slices[0]).await.expect("a read"),
                read(&engine, record.slices[1]).await.expect("a read"),
                read(&engine, record.slices[2]).await.expect("a read"),
            ];
            assert_eq!(found[0], content[1_000_003..1_000_515]);
            assert_eq!(found[1], content[17..117]);
            assert_eq!(found[2], content[1_000_100..1_001_000]);
        }
    }));
}

fn at_once(harness: &dyn Harness) {
    let engine = harness.fresh();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let engine = Arc::clone(&engine);
            scope.spawn(move || {
                harness.run(Box::pin(async move {
                    let p = partition(&thread.to_string());
                    for turn in 0..12u64 {
                        let content = body(thread * 1000 + turn, 1 + (turn as usize * 40_503) % 400_000);
                        let pin = write(&engine, &content).await;
                        let batch = writes([put_with("k", turn.to_string(), vec![ExtentSlice::whole(pin.extent())])]);
                        commit(&engine, &p, batch).await;
                        drop(pin);
                        let other = partition(&((thread + turn) % 4).to_string());
                        let view = engine.view(&other).await.expect("a view");
                        let Some(record) = view.get(HEADS, b"k").await.expect("a read") else { continue };
                        let pin = engine.pin(record.slices[0].extent);
                        drop(view);
                        let of: u64 = String::from_utf8_lossy(&record.value).parse().expect("a number was put");
                        let expected = body(((thread + turn) % 4) * 1000 + of, pin.extent().bytes as usize);
                        assert_eq!(read(&engine, record.slices[0]).await.expect("pinned"), expected);
                    }
                }));
            });
        }
    });
}
