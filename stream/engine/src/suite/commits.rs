//! Commits: atomic, guarded, visible when acknowledged, in views that stand still.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;

pub(super) const ALL: &[(&str, Behaviour)] = &[
    ("a commit is seen by every later view", seen_when_acknowledged),
    ("a commit is all or nothing", all_or_nothing),
    ("an At guard holds at the revision and nowhere else", guard_at),
    ("an Absent guard holds where there is no record", guard_absent),
    ("an Unchanged guard never passes over a change", guard_unchanged),
    ("a ReadAt guard lets nothing pass that the others refuse", guard_read_at),
    ("revisions grow", revisions_grow),
    ("values and keys may be empty or large", sizes),
    ("partitions and families and groups are apart", apart),
    ("a view stands still", view_stands_still),
    ("a reader sees whole batches", whole_batches),
    ("of competing committers one wins", one_wins),
    ("a commit whose caller goes away is whole or not there", dropped_commit),
    ("what was committed is there after reopening", reopen_keeps),
];

fn seen_when_acknowledged(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async move {
        let p = partition("p");
        for turn in 0..50u32 {
            let revision = commit(&engine, &p, writes([put("k", turn.to_be_bytes())])).await;
            let view = engine.view(&p).await.expect("a view");
            let record = view.get(HEADS, b"k").await.expect("a read").expect("just committed");
            assert_eq!((record.revision, &record.value[..]), (revision, &turn.to_be_bytes()[..]));
            assert!(record.slices.is_empty());
            assert!(view.revision() >= revision, "the view shows the commit");
        }
        commit(&engine, &p, writes([delete("k")])).await;
        assert_eq!(value(&engine, &p, "k").await, None);
        commit(&engine, &p, writes([delete("k"), delete("never there")])).await;
    }));
}

fn all_or_nothing(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async move {
        let p = partition("p");
        commit(&engine, &p, writes([put("a", "1"), put("b", "1")])).await;
        let batch = guarded([absent("c"), absent("b")], [put("a", "2"), put("c", "2"), delete("b")]);
        assert!(is_conflict(engine.commit(&p, batch, Synced).await));
        assert_eq!(value(&engine, &p, "a").await, Some(bytes("1")));
        assert_eq!(value(&engine, &p, "b").await, Some(bytes("1")));
        assert_eq!(value(&engine, &p, "c").await, None);
        let revision = commit(&engine, &p, guarded([absent("c")], [put("a", "3"), put("c", "3"), delete("b")])).await;
        for key in ["a", "c"] {
            let record = get(&engine, &p, key).await.expect("committed");
            assert_eq!((record.value, record.revision), (bytes("3"), revision));
        }
        assert_eq!(value(&engine, &p, "b").await, None);
    }));
}

fn guard_at(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async move {
        let p = partition("p");
        let first = commit(&engine, &p, writes([put("k", "1")])).await;
        let second = commit(&engine, &p, guarded([at("k", first)], [put("k", "2")])).await;
        assert!(is_conflict(engine.commit(&p, guarded([at("k", first)], [put("k", "x")]), Synced).await));
        assert!(is_conflict(engine.commit(&p, guarded([at("other", second)], [put("k", "x")]), Synced).await));
        // A commit to another record of the partition leaves the guard alone.
        commit(&engine, &p, writes([put("beside", "1")])).await;
        commit(&engine, &p, guarded([at("k", second)], [delete("k")])).await;
        assert!(is_conflict(engine.commit(&p, guarded([at("k", second)], [put("k", "x")]), Synced).await));
        // Made anew, it is another record.
        commit(&engine, &p, writes([put("k", "2")])).await;
        assert!(is_conflict(engine.commit(&p, guarded([at("k", second)], [put("k", "x")]), Synced).await));
    }));
}

fn guard_absent(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async move {
        let p = partition("p");
        commit(&engine, &p, guarded([absent("k")], [put("k", "1")])).await;
        assert!(is_conflict(engine.commit(&p, guarded([absent("k")], [put("k", "2")]), Synced).await));
        commit(&engine, &p, writes([delete("k")])).await;
        commit(&engine, &p, guarded([absent("k")], [put("k", "3")])).await;
        assert_eq!(value(&engine, &p, "k").await, Some(bytes("3")));
        // The same key in another partition and in another family is another record.
        commit(&engine, &partition("q"), guarded([absent("k")], [put("k", "4")])).await;
        let other = Guard::Absent { family: PARTS, key: bytes("k") };
        commit(&engine, &p, guarded([other], [put("l", "5")])).await;
    }));
}

fn guard_unchanged(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async move {
        let p = partition("p");
        let seen = async |engine: &Arc<dyn Engine>| newest_commit(engine, &p).await;
        let first = seen(&engine).await;
        commit(&engine, &p, guarded([Guard::Unchanged(first)], [put("a", "1")])).await;
        assert!(is_conflict(engine.commit(&p, guarded([Guard::Unchanged(first)], [put("b", "1")]), Synced).await));
        let second = seen(&engine).await;
        commit(&engine, &p, guarded([Guard::Unchanged(second)], [put("b", "1")])).await;
        let third = seen(&engine).await;
        commit(&engine, &p, writes([delete("a")])).await;
        assert!(is_conflict(engine.commit(&p, guarded([Guard::Unchanged(third)], [put("c", "1")]), Synced).await));
        // A refused commit changes nothing.
        let fourth = seen(&engine).await;
        assert!(is_conflict(engine.commit(&p, guarded([absent("b")], [put("d", "1")]), Synced).await));
        commit(&engine, &p, guarded([Guard::Unchanged(fourth)], [put("d", "1")])).await;
    }));
}

fn guard_read_at(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async move {
        let p = partition("p");
        let read = |guards: &[Guard], revision| [guards, &[Guard::ReadAt(revision)]].concat();
        let seen = async |engine: &Arc<dyn Engine>| newest_commit(engine, &p).await;
        let empty = seen(&engine).await;
        let first = commit(&engine, &p, guarded(read(&[absent("k")], empty), [put("k", "1")])).await;
        // What was read is not so any more.
        assert!(is_conflict(engine.commit(&p, guarded(read(&[absent("k")], empty), [put("k", "x")]), Synced).await));
        let (one, body) = (seen(&engine).await, body(7, 10_000));
        let pin = write(&engine, &body).await;
        let with_body = put_with("k", "2", vec![ExtentSlice::whole(pin.extent())]);
        let second = commit(&engine, &p, guarded(read(&[at("k", first), absent("l")], one), [with_body])).await;
        assert!(is_conflict(engine.commit(&p, guarded(read(&[at("k", first)], one), [put("k", "x")]), Synced).await));
        // A commit beside it comes after what was read, and the records are still as they were.
        commit(&engine, &p, guarded(read(&[at("k", second), absent("l")], one), [put("l", "3")])).await;
        assert!(is_conflict(engine.commit(&p, guarded(read(&[absent("l")], one), [delete("l")]), Synced).await));
        // What one record named goes with it, and what is there stays.
        let now = seen(&engine).await;
        commit(&engine, &p, guarded(read(&[at("k", second), absent("m")], now), [put("m", "4"), delete("k")])).await;
        assert_eq!(value(&engine, &p, "k").await, None);
        assert_eq!(
            (value(&engine, &p, "l").await, value(&engine, &p, "m").await),
            (Some(bytes("3")), Some(bytes("4")))
        );
    }));
}

fn revisions_grow(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async move {
        let (p, q) = (partition("p"), partition("q"));
        let mut newest = None;
        for _ in 0..10 {
            let revision = commit(&engine, &p, writes([put("k", "")])).await;
            assert!(newest.is_none_or(|newest| newest < revision));
            newest = Some(revision);
            commit(&engine, &q, writes([put("k", "")])).await;
        }
        let empty = commit(&engine, &p, Batch::default()).await;
        assert!(Some(empty) >= newest);
    }));
}

fn sizes(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async move {
        let long = vec![0u8; crate::KEY_BYTES_MAX];
        let p = PartitionId { group: GroupId(vec![0xff; crate::GROUP_BYTES_MAX].into()), key: long.clone().into() };
        let large = body(1, 300_000);
        commit(&engine, &p, writes([put("", ""), put(&long, &large)])).await;
        assert_eq!(value(&engine, &p, "").await, Some(Bytes::new()));
        assert_eq!(value(&engine, &p, &long).await, Some(large));
        let many: Vec<Write> = (0..500u32).map(|at| put(at.to_be_bytes(), at.to_string())).collect();
        commit(&engine, &partition(""), writes(many)).await;
        assert_eq!(value(&engine, &partition(""), 499u32.to_be_bytes()).await, Some(bytes("499")));
    }));
}

fn apart(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async move {
        let places =
            [("g", "", "k"), ("g", "k", ""), ("gk", "", ""), ("g", "k\0", ""), ("g", "k", "\0"), ("h", "", "k")];
        for (at, (of, name, key)) in places.iter().enumerate() {
            let p = PartitionId { group: group(of), key: bytes(name) };
            let in_parts = Write::Put { family: PARTS, key: bytes(key), value: bytes("parts"), slices: Vec::new() };
            commit(&engine, &p, guarded([absent(key)], [put(key, at.to_string()), in_parts])).await;
        }
        for (at, (of, name, key)) in places.iter().enumerate() {
            let p = PartitionId { group: group(of), key: bytes(name) };
            let view = engine.view(&p).await.expect("a view");
            assert_eq!(view.get(HEADS, key.as_bytes()).await.expect("a read").expect("put").value, at.to_string());
            assert_eq!(view.get(PARTS, key.as_bytes()).await.expect("a read").expect("put").value, "parts");
            assert_eq!(view.get(Family(3), key.as_bytes()).await.expect("a read"), None);
        }
    }));
}

fn view_stands_still(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async move {
        let p = partition("p");
        commit(&engine, &p, writes([put("a", "1"), put("b", "1")])).await;
        let view = chosen_view(harness, &engine, &p).await;
        for turn in 0..20 {
            commit(&engine, &p, writes([put("a", turn.to_string()), put(format!("new {turn}"), ""), delete("b")]))
                .await;
        }
        for key in [b"a", b"b"] {
            if let Some(found) = still(harness, view.get(HEADS, key).await) {
                assert_eq!(found.expect("there").value, "1");
            }
        }
        let all = crate::KeyRange { start: std::ops::Bound::Unbounded, end: std::ops::Bound::Unbounded };
        if let Some(rows) = still(harness, view.scan(HEADS, &all, 100).await) {
            assert_eq!(rows.into_iter().map(|row| row.0).collect::<Vec<Bytes>>(), ["a", "b"]);
        }
        assert!(is_conflict(
            engine.commit(&p, guarded([Guard::Unchanged(view.revision())], [put("c", "")]), Synced).await
        ));
        let now = engine.view(&p).await.expect("a view");
        assert_eq!(now.scan(HEADS, &all, 100).await.expect("a scan").len(), 21);
    }));
}

fn whole_batches(harness: &dyn Harness) {
    let engine = harness.fresh();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let engine = Arc::clone(&engine);
                let done = &done;
                harness.run(Box::pin(async move {
                    let p = partition("p");
                    while !done.load(Ordering::Relaxed) {
                        let view = engine.view(&p).await.expect("a view");
                        let first = view.get(HEADS, b"first").await.expect("a read");
                        let Some(last) = still(harness, view.get(HEADS, b"last").await) else { continue };
                        assert_eq!(first.map(|record| record.value), last.map(|record| record.value));
                    }
                }));
            });
        }
        let engine = Arc::clone(&engine);
        harness.run(Box::pin(async move {
            for turn in 0..100 {
                let mut batch = vec![put("first", turn.to_string()), put("last", turn.to_string())];
                batch.extend((0..20).map(|at| put(format!("k{at}"), turn.to_string())));
                commit(&engine, &partition("p"), writes(batch)).await;
            }
        }));
        done.store(true, Ordering::Relaxed);
    });
}

fn one_wins(harness: &dyn Harness) {
    let engine = harness.fresh();
    let (won, rounds, threads) = (AtomicU64::new(0), 25u64, 4u64);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let engine = Arc::clone(&engine);
                let won = &won;
                harness.run(Box::pin(async move {
                    let p = partition("p");
                    let mut mine = 0;
                    while mine < rounds {
                        let old = get(&engine, &p, "counter").await;
                        let count = old.as_ref().map_or(0, |old| {
                            u64::from_be_bytes(old.value[..].try_into().expect("eight bytes were put"))
                        });
                        let guard = old.map_or(absent("counter"), |old| at("counter", old.revision));
                        let batch = guarded([guard], [put("counter", (count + 1).to_be_bytes())]);
                        match engine.commit(&p, batch, Synced).await {
                            Ok(_) => mine += 1,
                            Err(CommitError::Conflict) => {}
                            Err(error) => panic!("{error:?}"),
                        }
                    }
                    won.fetch_add(mine, Ordering::Relaxed);
                }));
            });
        }
    });
    harness.run(Box::pin(async move {
        let count = value(&engine, &partition("p"), "counter").await.expect("counted");
        assert_eq!(count[..], won.load(Ordering::Relaxed).to_be_bytes());
        assert_eq!(won.load(Ordering::Relaxed), rounds * threads);
    }));
}

fn dropped_commit(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async move {
        let p = partition("p");
        for turn in 0..20 {
            let key = turn.to_string();
            let mut going =
                engine.commit(&p, writes([put(format!("a{key}"), "1"), put(format!("b{key}"), "1")]), Synced);
            // Asked once, then dropped: whether it had begun by then is the engine's affair.
            std::future::poll_fn(|context| {
                let _ = going.as_mut().poll(context);
                Poll::Ready(())
            })
            .await;
            drop(going);
        }
        // A later commit of the partition comes after all that had begun.
        commit(&engine, &p, writes([put("last", "1")])).await;
        for turn in 0..20 {
            let (a, b) = (value(&engine, &p, format!("a{turn}")).await, value(&engine, &p, format!("b{turn}")).await);
            assert_eq!(a, b, "both or none");
        }
    }));
}

fn reopen_keeps(harness: &dyn Harness) {
    let engine = harness.fresh();
    let first = Arc::clone(&engine);
    harness.run(Box::pin(async move {
        let p = partition("p");
        let values = (0..200).map(|at| put(format!("k{at}"), at.to_string())).collect::<Vec<_>>();
        commit(&first, &p, writes(values)).await;
        commit(&first, &p, writes([put("k7", "again"), delete("k8")])).await;
    }));
    let newest = std::sync::Mutex::new(Revision(0));
    harness.run(Box::pin(async {
        *newest.lock().expect("one thread") = get(&engine, &partition("p"), "k7").await.expect("there").revision;
    }));
    let newest = newest.into_inner().expect("one thread");
    let Some(engine) = harness.reopen(engine) else { return };
    harness.run(Box::pin(async move {
        let p = partition("p");
        assert_eq!(value(&engine, &p, "k6").await, Some(bytes("6")));
        assert_eq!(value(&engine, &p, "k8").await, None);
        let record = get(&engine, &p, "k7").await.expect("there");
        assert_eq!((record.value, record.revision), (bytes("again"), newest));
        assert!(commit(&engine, &p, guarded([at("k7", newest)], [put("k7", "more")])).await > newest);
        // A number from before the start passes for nothing, or something did not change: both are right.
        let view = newest_commit(&engine, &p).await;
        commit(&engine, &p, guarded([Guard::Unchanged(view)], [put("k9", "more")])).await;
    }));
}
