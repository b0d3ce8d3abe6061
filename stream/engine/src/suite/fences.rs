//! Fences: after one, a group takes no commit for all time, and its records and extents go.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::{GroupRange, ScanStart};

pub(super) const ALL: &[(&str, Behaviour)] = &[
    ("no commit succeeds after a fence", nothing_after),
    ("a fence holds after reopening", after_reopen),
    ("the records and extents of a fenced group go", group_goes),
    ("a commit racing a fence is before it or fails", racing),
];

fn nothing_after(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async move {
        let (p, beside) = (partition("p"), PartitionId { group: group("group2"), key: bytes("p") });
        commit(&engine, &p, writes([put("k", "1")])).await;
        engine.fence(&p.group).await.expect("fenced");
        for batch in [writes([put("k", "2")]), writes([delete("k")]), guarded([absent("z")], [put("z", "")])] {
            assert!(matches!(engine.commit(&p, batch, Synced).await, Err(CommitError::Fenced)));
        }
        let other = partition("never used");
        assert!(matches!(engine.commit(&other, writes([put("k", "")]), Synced).await, Err(CommitError::Fenced)));
        engine.fence(&p.group).await.expect("fenced again");
        engine.fence(&group("never used")).await.expect("fenced before it was used");
        let unused = PartitionId { group: group("never used"), key: Bytes::new() };
        assert!(matches!(engine.commit(&unused, writes([put("k", "")]), Synced).await, Err(CommitError::Fenced)));
        commit(&engine, &beside, writes([put("k", "1")])).await;
        assert_eq!(value(&engine, &beside, "k").await, Some(bytes("1")));
    }));
}

fn after_reopen(harness: &dyn Harness) {
    let engine = harness.fresh();
    let first = Arc::clone(&engine);
    harness.run(Box::pin(async move {
        commit(&first, &partition("p"), writes([put("k", "1")])).await;
        first.fence(&group("group")).await.expect("fenced");
    }));
    let Some(engine) = harness.reopen(engine) else { return };
    let next = Arc::clone(&engine);
    harness.run(Box::pin(async move {
        assert!(matches!(next.commit(&partition("p"), writes([put("k", "")]), Synced).await, Err(CommitError::Fenced)));
    }));
    harness.settle(&engine);
    let Some(engine) = harness.reopen(engine) else { return };
    harness.run(Box::pin(async move {
        assert!(matches!(
            engine.commit(&partition("p"), writes([put("k", "")]), Synced).await,
            Err(CommitError::Fenced)
        ));
        assert_eq!(value(&engine, &partition("p"), "k").await, None);
    }));
}

fn group_goes(harness: &dyn Harness) {
    let engine = harness.fresh();
    harness.run(Box::pin(async {
        let whole = GroupRange {
            group: group("group"),
            family: HEADS,
            start: ScanStart::AtPartition(Bytes::new()),
            before_partition: None,
        };
        let mut extents = Vec::new();
        for at in 0..30 {
            let pin = write(&engine, &body(at, 2000)).await;
            extents.push(pin.extent());
            let slices = vec![ExtentSlice::whole(pin.extent())];
            let many = (0..30).map(|key| put_with(format!("k{key}"), "v", slices.clone())).collect::<Vec<_>>();
            commit(&engine, &partition(&at.to_string()), writes(many)).await;
        }
        // One extent is shared with another group and stays.
        let beside = PartitionId { group: group("group2"), key: bytes("p") };
        commit(&engine, &beside, writes([put_with("k", "", vec![ExtentSlice::whole(extents[7])])])).await;
        engine.fence(&group("group")).await.expect("fenced");
        harness.settle(&engine);
        let page = engine.scan(&whole, 10).await.expect("a scan");
        assert!(page.rows.is_empty() && !page.more);
        for (at, extent) in extents.iter().enumerate() {
            let named = writes([put_with("probe", "", vec![ExtentSlice::whole(*extent)])]);
            assert_eq!(engine.commit(&beside, named, Synced).await.is_ok(), at == 7);
        }
        assert_eq!(read_whole(&engine, extents[7]).await, body(7, 2000));
    }));
}

fn racing(harness: &dyn Harness) {
    let engine = harness.fresh();
    let fenced = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (engine, fenced) = (Arc::clone(&engine), &fenced);
            scope.spawn(move || {
                harness.run(Box::pin(async move {
                    let p = partition(&thread.to_string());
                    loop {
                        let before = fenced.load(Ordering::Acquire);
                        match engine.commit(&p, writes([put("k", "")]), Synced).await {
                            Ok(_) => assert!(!before, "a commit begun after the fence succeeded"),
                            Err(CommitError::Fenced) => return,
                            Err(error) => panic!("{error:?}"),
                        }
                    }
                }));
            });
        }
        let engine = Arc::clone(&engine);
        let fenced = &fenced;
        harness.run(Box::pin(async move {
            for _ in 0..5 {
                commit(&engine, &partition("own"), writes([put("k", "")])).await;
            }
            engine.fence(&group("group")).await.expect("fenced");
            fenced.store(true, Ordering::Release);
        }));
    });
}
