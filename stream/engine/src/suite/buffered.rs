//! Buffered commits: seen at once, guarded against, and durable with the next that is synced.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::{Durability, GroupRange, KeyRange, ScanStart};

pub(super) const ALL: &[(&str, Behaviour)] = &[
    ("a buffered commit is seen by every later view and no earlier one", seen),
    ("guards hold against buffered commits", guarded_against),
    ("buffered and synced commits in any order leave what was written last", mixed),
    ("an extent lives and goes with the buffered commits that name it", extents),
    ("a fence takes what was buffered", fenced),
    ("what was buffered is there after closing in order", reopen_keeps),
    ("everybody may sync at once", many_syncs),
    ("a reader sees whole batches, in order, whatever is synced meanwhile", whole_batches),
];

async fn buffer(engine: &Arc<dyn Engine>, to: &PartitionId, batch: Batch) -> Revision {
    engine.commit(to, batch, Buffered).await.expect("nothing stands in the way of this commit")
}

/// What a view shows of a partition.
async fn shown(view: &dyn View) -> Result<BTreeMap<Bytes, Bytes>, Fault> {
    let everything = KeyRange { start: Bound::Unbounded, end: Bound::Unbounded };
    let rows = view.scan(HEADS, &everything, usize::MAX).await?;
    Ok(rows.into_iter().map(|(key, record)| (key, record.value)).collect())
}

fn seen(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async move {
        let p = partition("p");
        commit(&engine, &p, writes([put("a", "synced"), put("c", "synced")])).await;
        let before = chosen_view(harness, &engine, &p).await;
        let revision = buffer(&engine, &p, writes([put("a", "1"), put("b", "1"), delete("c")])).await;
        let between = engine.view(&p).await.expect("a view");
        assert_eq!(between.get(HEADS, b"a").await.expect("a first read").expect("there").value, "1");
        assert!(between.revision() >= revision, "the view shows the commit");
        buffer(&engine, &p, writes([put("a", "2"), delete("b"), put("c", "2")])).await;
        let after = chosen_view(harness, &engine, &p).await;
        engine.sync().await.expect("synced");
        buffer(&engine, &p, writes([put("a", "3")])).await;
        for (view, a, b, c) in [
            (before, Some("synced"), None, Some("synced")),
            (between, Some("1"), Some("1"), None),
            (after, Some("2"), None, Some("2")),
        ] {
            let expected = [("a", a), ("b", b), ("c", c)];
            for (key, value) in expected {
                let Some(record) = still(harness, view.get(HEADS, key.as_bytes()).await) else { continue };
                assert_eq!(record.map(|record| record.value), value.map(bytes), "{key}");
            }
            let there: BTreeMap<_, _> =
                expected.iter().filter_map(|(key, value)| Some((bytes(key), bytes((*value)?)))).collect();
            assert!(still(harness, shown(view.as_ref()).await).is_none_or(|shown| shown == there));
        }
        assert_eq!(value(&engine, &p, "a").await, Some(bytes("3")));
    }));
}

fn guarded_against(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async move {
        let p = partition("p");
        let first = buffer(&engine, &p, guarded([absent("k")], [put("k", "1")])).await;
        for durability in [Buffered, Synced] {
            assert!(is_conflict(engine.commit(&p, guarded([absent("k")], [put("k", "x")]), durability).await));
        }
        let second = buffer(&engine, &p, guarded([at("k", first)], [put("k", "2")])).await;
        assert!(second > first);
        assert!(is_conflict(engine.commit(&p, guarded([at("k", first)], [put("k", "x")]), Synced).await));
        let view = newest_commit(&engine, &p).await;
        buffer(&engine, &p, guarded([Guard::Unchanged(view)], [delete("k")])).await;
        assert!(is_conflict(engine.commit(&p, guarded([Guard::Unchanged(view)], [put("k", "x")]), Synced).await));
        commit(&engine, &p, guarded([absent("k")], [put("k", "3")])).await;
        assert_eq!(value(&engine, &p, "k").await, Some(bytes("3")));
    }));
}

/// Random commits to two partitions, held against plain maps; with views that must stand still and scans of every shape.
fn mixed(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async move {
        let mut state = 4296u64;
        let mut below = move |end: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % end
        };
        let names = ["p", "q"];
        let mut model = [BTreeMap::new(), BTreeMap::new()];
        let mut standing = Vec::new();
        for turn in 0..600u64 {
            let of = below(2) as usize;
            let mut batch = BTreeMap::new();
            for _ in 0..=below(4) {
                let kept = (below(3) > 0).then(|| bytes(turn.to_string()));
                batch.insert(bytes(format!("{:02}", below(40))), kept);
            }
            let write = |(key, value): (&Bytes, &Option<Bytes>)| match value {
                Some(value) => put(key, value),
                None => delete(key),
            };
            let durability = if below(10) == 0 { Synced } else { Buffered };
            let batch_writes = writes(batch.iter().map(write).collect::<Vec<_>>());
            engine.commit(&partition(names[of]), batch_writes, durability).await.expect("no guard");
            for (key, value) in batch {
                match value {
                    Some(value) => drop(model[of].insert(key, value)),
                    None => drop(model[of].remove(&key)),
                }
            }
            if below(25) == 0 {
                engine.sync().await.expect("synced");
            }
            if below(20) == 0 {
                standing.push((chosen_view(harness, &engine, &partition(names[of])).await, model[of].clone()));
            }
            let view = engine.view(&partition(names[of])).await.expect("a view");
            let (low, high) = (bytes(format!("{:02}", below(40))), bytes(format!("{:02}", below(40))));
            let limit = below(12) as usize;
            let inside = model[of].iter().filter(|(key, _)| **key > low && **key <= high);
            let expected: Vec<_> = inside.take(limit).map(|(key, value)| (key.clone(), value.clone())).collect();
            let range = KeyRange { start: Bound::Excluded(low), end: Bound::Included(high) };
            let found = view.scan(HEADS, &range, limit).await.expect("a scan");
            let found: Vec<_> = found.into_iter().map(|(key, record)| (key, record.value)).collect();
            assert_eq!(found, expected, "turn {turn}");
            check_group(&engine, &names, &model, 1 + below(9) as usize).await;
        }
        for (view, expected) in standing {
            if let Some(shown) = still(harness, shown(view.as_ref()).await) {
                assert_eq!(shown, expected, "a view stands still");
            }
        }
    }));
}

/// The whole group, page by page.
async fn check_group(engine: &Arc<dyn Engine>, names: &[&str; 2], model: &[BTreeMap<Bytes, Bytes>; 2], limit: usize) {
    let mut start = ScanStart::AtPartition(Bytes::new());
    let mut found = Vec::new();
    loop {
        let range = GroupRange { group: group("group"), family: HEADS, start, before_partition: None };
        let page = engine.scan(&range, limit).await.expect("a page");
        assert!(page.rows.len() <= limit);
        let Some(last) = page.rows.last() else {
            assert!(!page.more, "a page that is not the last has rows");
            break;
        };
        start = ScanStart::After { partition: last.partition.clone(), key: last.key.clone() };
        found.extend(page.rows.into_iter().map(|row| (row.partition, row.key, row.record.value)));
        if !page.more {
            break;
        }
    }
    let expected: Vec<_> = names
        .iter()
        .zip(model)
        .flat_map(|(name, rows)| rows.iter().map(move |(key, value)| (bytes(name), key.clone(), value.clone())))
        .collect();
    assert_eq!(found, expected);
}

fn extents(harness: &dyn Harness) {
    let engine = harness.fresh();
    let (first, second) = (body(1, 100_000), body(2, 100_000));
    let p = partition("p");
    let written = std::sync::Mutex::new(Vec::new());
    harness.run(Box::pin(async {
        for (content, key) in [(&first, "a"), (&second, "b")] {
            let pin = write(&engine, content).await;
            buffer(&engine, &p, writes([put_with(key, "", vec![ExtentSlice::whole(pin.extent())])])).await;
            written.lock().expect("one thread").push(pin.extent());
        }
    }));
    let written = written.into_inner().expect("one thread");
    harness.settle(&engine);
    harness.run(Box::pin(async {
        assert_eq!(read_whole(&engine, written[0]).await, first);
        assert_eq!(read_whole(&engine, written[1]).await, second);
        // One goes, the other changes its record; both without a sync.
        buffer(&engine, &p, writes([delete("a")])).await;
        buffer(&engine, &p, writes([delete("b"), put_with("c", "", vec![ExtentSlice::whole(written[1])])])).await;
        engine.sync().await.expect("synced");
    }));
    harness.settle(&engine);
    harness.run(Box::pin(async {
        let gone = writes([put_with("d", "", vec![ExtentSlice::whole(written[0])])]);
        assert!(is_conflict(engine.commit(&p, gone, Buffered).await), "nothing names it any more");
        assert_eq!(read_whole(&engine, written[1]).await, second);
    }));
}

fn fenced(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async move {
        let p = partition("p");
        buffer(&engine, &p, writes([put("k", "1")])).await;
        engine.fence(&p.group).await.expect("fenced");
        for durability in [Buffered, Synced] {
            let late = engine.commit(&p, writes([put("k", "2")]), durability).await;
            assert!(matches!(late, Err(CommitError::Fenced)), "{late:?}");
        }
    }));
}

fn reopen_keeps(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async {
        let p = partition("p");
        commit(&engine, &p, writes([put("a", "1"), put("b", "1")])).await;
        buffer(&engine, &p, writes([put("a", "2"), delete("b"), put("c", "2")])).await;
    }));
    let Some(engine) = harness.reopen(engine) else { return };
    harness.run(Box::pin(async move {
        let p = partition("p");
        for (key, expected) in [("a", Some("2")), ("b", None), ("c", Some("2"))] {
            assert_eq!(value(&engine, &p, key).await, expected.map(bytes), "{key}");
        }
    }));
}

fn many_syncs(harness: &dyn Harness) {
    let engine = harness.fresh();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let engine = Arc::clone(&engine);
            scope.spawn(move || {
                harness.run(Box::pin(async move {
                    let p = partition(&format!("p{thread}"));
                    for turn in 0..25 {
                        let durability = if turn % 7 == 3 { Durability::Synced } else { Durability::Buffered };
                        let batch = writes([put(format!("k{turn}"), "1")]);
                        engine.commit(&p, batch, durability).await.expect("no guard");
                        engine.sync().await.expect("synced");
                    }
                }));
            });
        }
    });
    harness.run(Box::pin(async move {
        for thread in 0..4 {
            let view = engine.view(&partition(&format!("p{thread}"))).await.expect("a view");
            assert_eq!(shown(view.as_ref()).await.expect("a scan").len(), 25);
        }
    }));
}

fn whole_batches(harness: &dyn Harness) {
    let engine = harness.fresh();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                harness.run(Box::pin(async {
                    let mut newest = 0;
                    while !done.load(Ordering::Relaxed) {
                        let view = engine.view(&partition("p")).await.expect("a view");
                        let rows = shown(view.as_ref()).await.expect("a scan");
                        let mut turns = rows.values().map(|value| String::from_utf8_lossy(value).into_owned());
                        let Some(turn) = turns.next() else { continue };
                        assert!(turns.all(|other| other == turn), "{rows:?}");
                        let turn: u64 = turn.parse().expect("a number was put");
                        assert_eq!(rows.len() as u64, 4 + turn % 2, "{rows:?}");
                        assert!(turn >= newest, "{turn} after {newest}");
                        newest = turn;
                    }
                }));
            });
        }
        scope.spawn(|| {
            harness.run(Box::pin(async {
                while !done.load(Ordering::Relaxed) {
                    engine.sync().await.expect("synced");
                }
            }));
        });
        harness.run(Box::pin(async {
            for turn in 0..1000u64 {
                let mut batch: Vec<_> = (0..4).map(|at| put(format!("k{at}"), turn.to_string())).collect();
                batch.push(if turn % 2 == 1 { put("odd", turn.to_string()) } else { delete("odd") });
                let durability = if turn % 50 == 7 { Synced } else { Buffered };
                engine.commit(&partition("p"), writes(batch), durability).await.expect("no guard");
            }
        }));
        done.store(true, Ordering::Relaxed);
    });
}
