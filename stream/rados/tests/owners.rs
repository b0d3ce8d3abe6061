//! One process owns a group at a time, and no commit of an earlier owner gets through.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use engine::Durability::Synced;
use engine::{Batch, CommitError, Engine, Family, Fault, GroupId, PartitionId, Tenure, Write};
use env::{ScriptedClock, SystemIds, Timestamp};
use lazuli_rados::fake::{Fake, Fate};
use lazuli_rados::{Options, Rados};

struct Gateway {
    rados: Arc<Rados>,
    lost: Arc<AtomicUsize>,
}

async fn gateway(cluster: &Fake, clock: &Arc<ScriptedClock>, address: &str) -> Gateway {
    let rados = Rados::open(Arc::new(cluster.clone()), clock.clone(), &SystemIds::new(), Options::new(|_| 1)).await;
    let (rados, lost) = (rados.expect("opened"), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&lost);
    rados.introduce(
        address.to_owned(),
        Arc::new(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
        }),
    );
    Gateway { rados, lost }
}

fn group() -> GroupId {
    GroupId(Bytes::from_static(b"share"))
}

async fn put(gateway: &Gateway, value: &'static str) -> Result<(), CommitError> {
    let partition = PartitionId { group: group(), key: Bytes::new() };
    let write = Write::Put {
        family: Family(1),
        key: Bytes::new(),
        value: Bytes::from_static(value.as_bytes()),
        slices: Vec::new(),
    };
    gateway.rados.commit(&partition, Batch { guards: Vec::new(), writes: vec![write] }, Synced).await.map(drop)
}

fn is_elsewhere(outcome: Result<(), CommitError>) -> bool {
    matches!(outcome, Err(CommitError::Fault(Fault::Elsewhere)))
}

fn clock() -> Arc<ScriptedClock> {
    Arc::new(ScriptedClock::at(Timestamp::UNIX_EPOCH.plus_ticks(1 << 40)))
}

fn theirs(address: &str) -> Tenure {
    Tenure::Theirs { address: address.to_owned() }
}

#[tokio::test(start_paused = true)]
async fn an_owner_is_alone_until_it_lets_go() {
    let (cluster, clock) = (Fake::default(), clock());
    let (a, b) = (gateway(&cluster, &clock, "a:1").await, gateway(&cluster, &clock, "b:1").await);
    assert_eq!(a.rados.own(&group()).await.expect("free"), Tenure::Ours);
    assert_eq!(b.rados.own(&group()).await.expect("read"), theirs("a:1"));
    put(&a, "1").await.expect("its own");
    assert!(is_elsewhere(put(&b, "2").await));
    // It goes on for as long as it renews.
    for _ in 0..10 {
        tokio::time::sleep(std::time::Duration::from_secs(6)).await;
        clock.advance_seconds(6);
        assert_eq!(b.rados.own(&group()).await.expect("read"), theirs("a:1"));
    }
    put(&a, "3").await.expect("its own");
    a.rados.disown(&group()).await.expect("given back");
    tokio::time::sleep(std::time::Duration::from_secs(2)).await; // what was heard is forgotten
    assert_eq!(b.rados.own(&group()).await.expect("free"), Tenure::Ours);
    put(&b, "4").await.expect("its own");
    assert!(is_elsewhere(put(&a, "5").await));
    assert_eq!(a.rados.own(&group()).await.expect("read"), theirs("b:1"));
    assert_eq!(a.lost.load(Ordering::SeqCst), 0, "it gave it back itself");
}

/// The owner is cut off from the cluster, others take over, and what it had sent arrives after that.
#[tokio::test(start_paused = true)]
async fn an_owner_that_was_silent_has_lost() {
    let (cluster, clock) = (Fake::default(), clock());
    let (a, b) = (gateway(&cluster, &clock, "a:1").await, gateway(&cluster, &clock, "b:1").await);
    assert_eq!(a.rados.own(&group()).await.expect("free"), Tenure::Ours);
    put(&a, "1").await.expect("its own");
    cluster.set_fate(|object, _| if object.starts_with("shard.") { Fate::Late } else { Fate::Applied });
    let late = tokio::spawn({
        let a = Gateway { rados: Arc::clone(&a.rados), lost: Arc::clone(&a.lost) };
        async move { put(&a, "late").await }
    });
    tokio::time::sleep(std::time::Duration::from_secs(25)).await;
    clock.advance_seconds(25);
    assert_eq!(a.lost.load(Ordering::SeqCst), 1, "it gave up by itself, before others took over");
    cluster.clear_fate();
    assert_eq!(b.rados.own(&group()).await.expect("its time is over"), Tenure::Ours);
    put(&b, "2").await.expect("its own");
    cluster.deliver();
    assert!(late.await.expect("no panic").is_err());
    let view = b.rados.view(&PartitionId { group: group(), key: Bytes::new() }).await.expect("a view");
    assert_eq!(view.get(Family(1), b"").await.expect("a read").expect("there").value, "2");
    assert_eq!(a.rados.own(&group()).await.expect("read"), theirs("b:1"));
}

/// A commit belongs to the tenure in which it was handed in: what it was decided upon another may have changed since, also if the group has
/// come back.
#[tokio::test(start_paused = true)]
async fn a_commit_of_an_earlier_tenure_does_not_get_through_in_a_later_one() {
    let (cluster, clock) = (Fake::default(), clock());
    let (a, b) = (gateway(&cluster, &clock, "a:1").await, gateway(&cluster, &clock, "b:1").await);
    assert_eq!(a.rados.own(&group()).await.expect("free"), Tenure::Ours);
    put(&a, "1").await.expect("its own");
    for between in ["2", ""] {
        // It looks at what it writes over, and that takes its time.
        let mut is_first = true;
        cluster.hold_reads(move |object| object.starts_with("shard.") && std::mem::take(&mut is_first));
        let late = tokio::spawn({
            let a = Gateway { rados: Arc::clone(&a.rados), lost: Arc::clone(&a.lost) };
            async move { put(&a, "late").await }
        });
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        a.rados.disown(&group()).await.expect("given back");
        if !between.is_empty() {
            assert_eq!(b.rados.own(&group()).await.expect("free"), Tenure::Ours);
            put(&b, between).await.expect("its own");
            b.rados.disown(&group()).await.expect("given back");
        }
        assert_eq!(a.rados.own(&group()).await.expect("free"), Tenure::Ours);
        cluster.release_reads();
        assert!(is_elsewhere(late.await.expect("no panic")));
        let view = a.rados.view(&PartitionId { group: group(), key: Bytes::new() }).await.expect("a view");
        assert_eq!(view.get(Family(1), b"").await.expect("a read").expect("there").value, "2");
    }
    put(&a, "3").await.expect("its own");
}

/// Also when it waits for something else than its renewal: it has to read who owns the group, and no answer comes.
#[tokio::test(start_paused = true)]
async fn an_owner_that_cannot_read_has_lost() {
    let (cluster, clock) = (Fake::default(), clock());
    let a = gateway(&cluster, &clock, "a:1").await;
    assert_eq!(a.rados.own(&group()).await.expect("free"), Tenure::Ours);
    cluster.set_fate(|object, _| if object.starts_with("shard.") { Fate::Unanswered } else { Fate::Applied });
    cluster.hold_reads(|_| true);
    tokio::time::sleep(std::time::Duration::from_secs(14)).await;
    assert_eq!(a.lost.load(Ordering::SeqCst), 0);
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(a.lost.load(Ordering::SeqCst), 1);
}

/// A shard that does not answer keeps nobody waiting who wants another.
#[tokio::test(start_paused = true)]
async fn groups_are_taken_side_by_side() {
    let (cluster, clock) = (Fake::default(), clock());
    let a = gateway(&cluster, &clock, "a:1").await;
    let silent = GroupId(Bytes::from_static(b"silent"));
    a.rados.own(&silent).await.expect("free");
    a.rados.disown(&silent).await.expect("given back");
    let object = cluster.names("shard.").pop().expect("one");
    cluster.hold_reads(move |read| read == object);
    let waiting = tokio::spawn({
        let rados = Arc::clone(&a.rados);
        async move { rados.own(&silent).await }
    });
    tokio::task::yield_now().await;
    let taken = tokio::time::timeout(std::time::Duration::from_secs(1), a.rados.own(&group())).await;
    assert_eq!(taken.expect("at once").expect("free"), Tenure::Ours);
    cluster.release_reads();
    assert_eq!(waiting.await.expect("no panic").expect("free"), Tenure::Ours);
}

/// Requests that come at the same time take a share once, and all of them can write to it.
#[tokio::test]
async fn those_who_come_at_once_take_it_once() {
    let (cluster, clock) = (Fake::default(), clock());
    let a = gateway(&cluster, &clock, "a:1").await;
    let group = group();
    let taken = tokio::join!(a.rados.own(&group), a.rados.own(&group), a.rados.own(&group));
    for tenure in [taken.0, taken.1, taken.2] {
        assert_eq!(tenure.expect("free"), Tenure::Ours);
    }
    put(&a, "1").await.expect("its own");
}

/// Also where the clock of one is behind: what is made again does not meet its old ETag.
#[tokio::test(start_paused = true)]
async fn no_two_gateways_draw_one_tick() {
    let (cluster, clock) = (Fake::default(), clock());
    let mut drawn = Vec::new();
    for _ in 0..3 {
        let (a, b) = tokio::join!(gateway(&cluster, &clock, "a:1"), gateway(&cluster, &clock, "b:1"));
        for now in [1 << 40, 1 << 40, (1 << 40) + 300] {
            drawn.extend([a.rados.draw_tick(now), b.rados.draw_tick(now)]);
        }
    }
    let count = drawn.len();
    drawn.sort_unstable();
    drawn.dedup();
    assert_eq!((drawn.len(), drawn.first().copied().flatten().is_some()), (count, true));
}
