//! Scans: order by bytes, pages that can be resumed, nothing of the neighbours.

use std::ops::Bound;

use super::*;
use crate::{GroupRange, KeyRange, ScanStart};

pub(super) const ALL: &[(&str, Behaviour)] = &[
    ("a scan of a partition is in order and within its bounds", partition_scan),
    ("a scan of a group is in order and within its bounds", group_scan),
    ("a scan of a group can be resumed after any row", group_paging),
    ("a scan of a group walks over what was deleted", deleted_front),
];

/// Keys whose order a naive encoding gets wrong.
const TRICKY: &[&[u8]] = &[
    b"",
    b"\0",
    b"\0\0",
    b"\0\x01",
    b"\0\xff",
    b"\0\xff\0",
    b"\x01",
    b"\x01\0",
    b"a",
    b"a\0",
    b"a\0\0",
    b"a\0\x01",
    b"a\0b",
    b"a\x01",
    b"aa",
    b"b",
    b"\xfe",
    b"\xff",
    b"\xff\0",
    b"\xff\xff",
];

fn pairs() -> Vec<(&'static [u8], &'static [u8])> {
    TRICKY.iter().flat_map(|low| TRICKY.iter().map(|high| (*low, *high))).collect()
}

fn partition_scan(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async move {
        let p = partition("p");
        for key in TRICKY.iter().rev() {
            commit(&engine, &p, writes([put(key, key)])).await;
        }
        for neighbour in ["o", "p\0", "pp", "q"] {
            commit(&engine, &partition(neighbour), writes([put("a", "not ours")])).await;
        }
        let other = Write::Put { family: PARTS, key: bytes("a"), value: bytes("not ours"), slices: Vec::new() };
        commit(&engine, &p, writes([other])).await;
        let view = engine.view(&p).await.expect("a view");
        let bounds = |key: &[u8]| [Bound::Included(bytes(key)), Bound::Excluded(bytes(key)), Bound::Unbounded];
        for (low, high) in pairs() {
            for (start, end) in bounds(low).into_iter().zip(bounds(high).into_iter().cycle().skip(1)) {
                let inside = |key: &&[u8]| {
                    (match &start {
                        Bound::Included(start) => *key >= &start[..],
                        Bound::Excluded(start) => *key > &start[..],
                        Bound::Unbounded => true,
                    }) && match &end {
                        Bound::Included(end) => *key <= &end[..],
                        Bound::Excluded(end) => *key < &end[..],
                        Bound::Unbounded => true,
                    }
                };
                let expected: Vec<&[u8]> = TRICKY.iter().copied().filter(inside).collect();
                let range = KeyRange { start: start.clone(), end: end.clone() };
                let found = view.scan(HEADS, &range, 100).await.expect("a scan");
                assert_eq!(found.iter().map(|row| &row.0[..]).collect::<Vec<_>>(), expected, "{range:?}");
                assert!(found.iter().all(|(key, record)| *key == record.value));
                let few = view.scan(HEADS, &range, 3).await.expect("a scan");
                assert_eq!(few[..], found[..found.len().min(3)]);
            }
        }
        let all = KeyRange { start: Bound::Unbounded, end: Bound::Unbounded };
        assert!(view.scan(HEADS, &all, 0).await.expect("a scan").is_empty());
        assert!(view.scan(Family(255), &all, 10).await.expect("a scan").is_empty());
    }));
}

/// Every tricky partition key with three record keys, and neighbours on all sides.
async fn fill(engine: &Arc<dyn Engine>) -> Vec<(Bytes, Bytes)> {
    let mut expected = Vec::new();
    for name in TRICKY {
        let p = PartitionId { group: group("group"), key: bytes(name) };
        let mut batch = Vec::new();
        for key in [&b""[..], b"\0\x01", b"\xff"] {
            batch.push(put(key, [name, key].concat()));
            expected.push((bytes(name), bytes(key)));
        }
        batch.push(Write::Put { family: PARTS, key: bytes("x"), value: bytes("not ours"), slices: Vec::new() });
        commit(engine, &p, writes(batch)).await;
        for neighbour in ["grou", "group\0", "groupa", "grouq"] {
            let p = PartitionId { group: group(neighbour), key: bytes(name) };
            commit(engine, &p, writes([put("x", "not ours")])).await;
        }
    }
    expected.sort();
    expected
}

/// All pages of a scan, with as few rows each as the limit says.
async fn pages(engine: &Arc<dyn Engine>, mut range: GroupRange, limit: usize) -> Vec<(Bytes, Bytes)> {
    let mut found = Vec::new();
    loop {
        let page = engine.scan(&range, limit).await.expect("a scan");
        assert!(page.rows.len() <= limit);
        assert!(!page.rows.is_empty() || !page.more, "a page that ends early has something in it");
        for row in page.rows {
            assert_eq!(row.record.value, [&row.partition[..], &row.key[..]].concat());
            found.push((row.partition.clone(), row.key.clone()));
            range.start = ScanStart::After { partition: row.partition, key: row.key };
        }
        if !page.more {
            return found;
        }
    }
}

fn whole_group() -> GroupRange {
    GroupRange {
        group: group("group"),
        family: HEADS,
        start: ScanStart::AtPartition(Bytes::new()),
        before_partition: None,
    }
}

fn group_scan(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async move {
        let all = fill(&engine).await;
        assert_eq!(pages(&engine, whole_group(), 1000).await, all);
        for (low, high) in pairs() {
            let start = ScanStart::AtPartition(bytes(low));
            let range = GroupRange { start, before_partition: Some(bytes(high)), ..whole_group() };
            let inside = |row: &&(Bytes, Bytes)| row.0 >= bytes(low) && row.0 < bytes(high);
            let expected: Vec<_> = all.iter().filter(inside).cloned().collect();
            assert_eq!(pages(&engine, range, 1000).await, expected, "{low:?} to {high:?}");
        }
        let nothing = GroupRange { group: group("nobody"), ..whole_group() };
        assert_eq!(pages(&engine, nothing, 10).await, []);
    }));
}

fn group_paging(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async move {
        let all = fill(&engine).await;
        for limit in [1, 2, 7] {
            assert_eq!(pages(&engine, whole_group(), limit).await, all);
        }
        // A start after a record that is not there is as good.
        let start = ScanStart::After { partition: bytes("a"), key: bytes("no such record") };
        let expected: Vec<_> =
            all.iter().filter(|row| **row > (bytes("a"), bytes("no such record"))).cloned().collect();
        assert_eq!(pages(&engine, GroupRange { start, ..whole_group() }, 4).await, expected);
    }));
}

fn deleted_front(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async move {
        let p = partition("p");
        let many = (0..300u32).map(|at| put(at.to_be_bytes(), "")).collect::<Vec<_>>();
        commit(&engine, &p, writes(many)).await;
        let gone = (0..299u32).map(|at| delete(at.to_be_bytes())).collect::<Vec<_>>();
        commit(&engine, &p, writes(gone)).await;
        let page = engine.scan(&whole_group(), 10).await.expect("a scan");
        assert_eq!(page.rows.len(), 1);
        assert_eq!(page.rows[0].key, 299u32.to_be_bytes()[..]);
    }));
}
