//! Bad days: answers that do not come, operations that come late, processes that die, a cluster that is full. Nothing that was
//! acknowledged is lost, nothing is applied twice, nothing hangs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use engine::Durability::Synced;
use engine::{
    Batch, BoxFuture, CommitError, Engine, ExtentSlice, Family, Fault, GroupId, Guard, PartitionId, Pin, Source,
    SourceError, Write,
};
use env::{ScriptedClock, SystemIds, Timestamp};
use lazuli_rados::fake::{Fake, Fate};
use lazuli_rados::{Options, Rados};
use librados::Step;

const FAMILY: Family = Family(1);

async fn open(cluster: &Fake, clock: &Arc<ScriptedClock>) -> Arc<Rados> {
    let options = Options { deadline: Duration::from_secs(10), ..Options::new(|_| 3) };
    Rados::open(Arc::new(cluster.clone()), clock.clone(), &SystemIds::new(), options).await.expect("opened")
}

fn clock() -> Arc<ScriptedClock> {
    Arc::new(ScriptedClock::at(Timestamp::UNIX_EPOCH.plus_ticks(1 << 40)))
}

fn partition(name: &'static str) -> PartitionId {
    PartitionId { group: GroupId(Bytes::from_static(b"group")), key: Bytes::from_static(name.as_bytes()) }
}

fn key() -> Bytes {
    Bytes::from_static(b"count")
}

fn put(value: impl Into<Bytes>, slices: Vec<ExtentSlice>) -> Write {
    Write::Put { family: FAMILY, key: key(), value: value.into(), slices }
}

async fn count(engine: &Rados, of: &PartitionId) -> (u64, Guard) {
    let view = engine.view(of).await.expect("a view");
    match view.get(FAMILY, &key()).await.expect("a read") {
        None => (0, Guard::Absent { family: FAMILY, key: key() }),
        Some(record) => {
            let number = String::from_utf8_lossy(&record.value).parse().expect("a number was put");
            (number, Guard::At { family: FAMILY, key: key(), revision: record.revision })
        }
    }
}

/// Adds one; again on conflict.
async fn add(engine: &Rados, to: &PartitionId) -> Result<(), Fault> {
    loop {
        let (number, guard) = count(engine, to).await;
        let batch = Batch { guards: vec![guard], writes: vec![put((number + 1).to_string(), Vec::new())] };
        match engine.commit(to, batch, Synced).await {
            Ok(_) => return Ok(()),
            Err(CommitError::Conflict) => {}
            Err(CommitError::Fault(fault)) => return Err(fault),
            Err(CommitError::Fenced) => panic!("nobody fenced it"),
        }
    }
}

fn is_commit(object: &str) -> bool {
    object.starts_with("shard.")
}

/// Two processes count in the same partitions while the cluster loses operations and answers and applies some late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acknowledged_commit_is_applied_once() {
    let (cluster, clock) = (Fake::default(), clock());
    let engines = [open(&cluster, &clock).await, open(&cluster, &clock).await];
    let mut state = 4296u64;
    cluster.set_fate(move |object, _| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        match (is_commit(object), (state >> 33) % 20) {
            (true, 0 | 1) => Fate::Unanswered,
            (true, 2 | 3) => Fate::Lost,
            (true, 4) => Fate::Late,
            _ => Fate::Applied,
        }
    });
    let names = ["p", "q", "r", "s"];
    let mut tasks = Vec::new();
    for task in 0..8 {
        let (engine, cluster) = (Arc::clone(&engines[task % 2]), cluster.clone());
        tasks.push(tokio::spawn(async move {
            for turn in 0..40 {
                add(&engine, &partition(names[(task + turn) % 4])).await.expect("resolved in time");
                if turn % 5 == 0 {
                    cluster.deliver();
                }
            }
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    cluster.deliver();
    cluster.clear_fate();
    let mut total = 0;
    for name in names {
        total += count(&engines[0], &partition(name)).await.0;
    }
    assert_eq!(total, 8 * 40);
}

/// An operation that comes after its process had been told that it did not happen is refused by the cluster.
#[tokio::test]
async fn what_comes_late_is_too_late() {
    let (cluster, clock) = (Fake::default(), clock());
    let engine = open(&cluster, &clock).await;
    add(&engine, &partition("p")).await.expect("counted");
    let mut first = true;
    cluster.set_fate(
        move |object, _| {
            if is_commit(object) && std::mem::take(&mut first) { Fate::Late } else { Fate::Applied }
        },
    );
    add(&engine, &partition("p")).await.expect("counted");
    cluster.deliver();
    assert_eq!(count(&engine, &partition("p")).await.0, 2);
}

/// A cluster that answers no commit at all: whoever waits is told so, and later everything works again.
#[tokio::test(start_paused = true)]
async fn a_silent_cluster_keeps_nobody_waiting_for_ever() {
    let (cluster, clock) = (Fake::default(), clock());
    let engine = open(&cluster, &clock).await;
    add(&engine, &partition("p")).await.expect("counted");
    cluster.set_fate(|object, _| if is_commit(object) { Fate::Lost } else { Fate::Applied });
    let p = partition("p");
    let patiently = || tokio::time::timeout(Duration::from_secs(60), add(&engine, &p));
    let (one, other) = tokio::join!(patiently(), patiently());
    assert!(one.expect("answered").is_err() && other.expect("answered").is_err());
    cluster.clear_fate();
    add(&engine, &partition("p")).await.expect("counted");
    assert_eq!(count(&engine, &partition("p")).await.0, 2);
    cluster.set_fate(|_, _| Fate::Full);
    assert!(matches!(add(&engine, &partition("p")).await, Err(Fault::Full)));
    cluster.clear_fate();
    assert_eq!(count(&engine, &partition("p")).await.0, 2);
}

/// Reads are one operation and small commits one more; nothing grows with what is stored.
#[tokio::test]
async fn a_small_change_costs_one_read_and_one_write() {
    let (cluster, clock) = (Fake::default(), clock());
    let engine = open(&cluster, &clock).await;
    let p = PartitionId { key: Bytes::from_static(b"q"), ..partition("p") };
    let small = |guard| Batch {
        guards: vec![guard],
        writes: vec![Write::Put {
            family: FAMILY,
            key: Bytes::new(),
            value: Bytes::from_static(b"v"),
            slices: Vec::new(),
        }],
    };
    let absent = Guard::Absent { family: FAMILY, key: Bytes::new() };
    engine.commit(&p, small(absent), Synced).await.expect("nothing is there");
    for _ in 0..3 {
        let before = cluster.operations();
        let record = engine.view(&p).await.expect("a view").get(FAMILY, b"").await.expect("a read").expect("there");
        let guard = Guard::At { family: FAMILY, key: Bytes::new(), revision: record.revision };
        engine.commit(&p, small(guard), Synced).await.expect("nothing changed");
        let after = cluster.operations();
        assert_eq!((after.0 - before.0, after.1 - before.1), (1, 1));
    }
}

/// What came with a view and was not asked for is written over without another look, for as long as the partition is what it was.
#[tokio::test]
async fn what_came_with_a_view_needs_no_look() {
    const OTHER: Family = Family(2);
    let (cluster, clock) = (Fake::default(), clock());
    let (engine, other) = (open(&cluster, &clock).await, open(&cluster, &clock).await);
    let p = partition("p");
    let put = |family, slices| Write::Put { family, key: Bytes::new(), value: Bytes::from_static(b"v"), slices };
    let pin = write(&engine, 1000).await;
    let whole = ExtentSlice::whole(pin.extent());
    // What is there, what is written meanwhile by another, and how many writes and reads it costs.
    for (there, meanwhile, cost) in [
        (None, None, (1, 1)),
        (Some(vec![]), None, (1, 1)),
        (Some(vec![whole]), None, (1, 3)), // a look, and one that knows the extent
        (Some(vec![]), Some(vec![whole]), (2, 4)), // a guard failed: whose, and two looks
        (None, Some(vec![whole]), (2, 4)),
    ] {
        let before = match there {
            Some(slices) => put(OTHER, slices),
            None => Write::Delete { family: OTHER, key: Bytes::new() },
        };
        engine.commit(&p, Batch { guards: Vec::new(), writes: vec![before] }, Synced).await.expect("committed");
        let counted = cluster.operations();
        let view = engine.view(&p).await.expect("a view");
        let guard = match view.get(FAMILY, b"").await.expect("a read") {
            Some(record) => Guard::At { family: FAMILY, key: Bytes::new(), revision: record.revision },
            None => Guard::Absent { family: FAMILY, key: Bytes::new() },
        };
        let guards = vec![guard, Guard::ReadAt(view.revision())];
        let now = cluster.operations();
        let mut between = (0, 0);
        if let Some(slices) = meanwhile {
            let batch = Batch { guards: Vec::new(), writes: vec![put(OTHER, slices)] };
            other.commit(&p, batch, Synced).await.expect("committed");
            between = (cluster.operations().0 - now.0, cluster.operations().1 - now.1);
        }
        let writes = vec![put(FAMILY, Vec::new()), put(OTHER, Vec::new())];
        engine.commit(&p, Batch { guards, writes }, Synced).await.expect("its own guards hold");
        let after = cluster.operations();
        assert_eq!((after.0 - counted.0 - between.0, after.1 - counted.1 - between.1), cost);
        assert_eq!(cluster.entries("shard.", b'e'), Vec::<Bytes>::new(), "nobody names the extent");
    }
}

/// What is stored for good is read once for all who ask while it is on its way.
#[tokio::test]
async fn those_who_read_one_extent_share_a_read() {
    let (cluster, clock) = (Fake::default(), clock());
    let engine = open(&cluster, &clock).await;
    let pin = write(&engine, 100_000).await;
    let whole = ExtentSlice::whole(pin.extent());
    let part = ExtentSlice { offset: 10, bytes: 10, ..whole };
    let reads_before = cluster.operations().1;
    let mut asked = tokio::task::JoinSet::new();
    for slice in [whole, part].repeat(16) {
        let engine = Arc::clone(&engine);
        asked.spawn(async move { engine.read_extent(slice).await.expect("there").len() as u64 == slice.bytes });
    }
    while let Some(is_right) = asked.join_next().await {
        assert!(is_right.expect("no panic"));
    }
    assert_eq!(cluster.operations().1 - reads_before, 2);
    // Who began goes away, and those who wait have theirs all the same.
    cluster.hold_reads(|_| true);
    let first = tokio::spawn({
        let engine = Arc::clone(&engine);
        async move { engine.read_extent(whole).await }
    });
    tokio::task::yield_now().await;
    let second = tokio::spawn({
        let engine = Arc::clone(&engine);
        async move { engine.read_extent(whole).await }
    });
    tokio::task::yield_now().await;
    first.abort();
    cluster.release_reads();
    assert_eq!(second.await.expect("no panic").expect("there").len(), 100_000);
    // Nothing is kept: what is read later is read.
    let reads_before = cluster.operations().1;
    engine.read_extent(whole).await.expect("there");
    assert_eq!(cluster.operations().1 - reads_before, 1);
}

/// The record of a busy container is read once for all who ask for it at the same time, and never before they asked.
#[tokio::test]
async fn those_who_ask_at_once_share_a_read() {
    let (cluster, clock) = (Fake::default(), clock());
    let engine = open(&cluster, &clock).await;
    add(&engine, &partition("p")).await.expect("counted");
    let reads_before = cluster.operations().1;
    let mut asked = tokio::task::JoinSet::new();
    for _ in 0..32 {
        let engine = Arc::clone(&engine);
        asked.spawn(async move { count(&engine, &partition("p")).await.0 });
    }
    while let Some(found) = asked.join_next().await {
        assert_eq!(found.expect("no panic"), 1);
    }
    // Each also reads a record that views do not bring along.
    assert_eq!(cluster.operations().1 - reads_before, 2 + 32);
}

struct Once(Option<Bytes>);

impl Source for Once {
    fn next(&mut self, _bytes_max: usize) -> BoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(std::future::ready(Ok(self.0.take())))
    }
}

async fn write(engine: &Rados, bytes: usize) -> Pin {
    let mut source = Once(Some(vec![7; bytes].into()));
    engine.write_extent(&mut source, 4 << 20).await.expect("written").expect("there was something")
}

fn naming(pin: &Pin) -> Batch {
    Batch { guards: Vec::new(), writes: vec![put("", vec![ExtentSlice::whole(pin.extent())])] }
}

/// A process of its own: what it began and did not end dies with it.
fn process<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work)
}

/// What a process leaves when it dies goes when it has been silent for long enough, and only what nobody needs.
#[test]
fn others_clear_up_after_a_process_that_died() {
    let (cluster, clock) = (Fake::default(), clock());
    process(async {
        let dying = open(&cluster, &clock).await;
        let kept = write(&dying, 1000).await;
        dying.commit(&partition("p"), naming(&kept), Synced).await.expect("committed");
        let replaced = write(&dying, 2000).await;
        dying.commit(&partition("q"), naming(&replaced), Synced).await.expect("committed");
        let next = write(&dying, 3000).await;
        dying.commit(&partition("q"), naming(&next), Synced).await.expect("committed");
        let unnamed = write(&dying, 4000).await;
        // The names are told first; then it dies.
        cluster.set_fate(|object, _| if is_commit(object) { Fate::Lost } else { Fate::Applied });
        let r = partition("r");
        let commit = dying.commit(&r, naming(&unnamed), Synced);
        assert!(tokio::time::timeout(Duration::from_millis(100), commit).await.is_err());
        std::mem::forget((kept, replaced, next, unnamed)); // it is dead, and drops nothing
    });
    cluster.clear_fate();
    assert_eq!(cluster.names("extent.").len(), 4);

    process(async {
        let other = open(&cluster, &clock).await;
        other.sweep_now().await.expect("swept");
        assert_eq!(cluster.names("extent.").len(), 4, "it may be alive");
        clock.advance_seconds(7 * 3600);
        other.sweep_now().await.expect("swept");
        let left = cluster.names("extent.");
        assert_eq!(left.len(), 2, "{left:?}");
        assert_eq!(cluster.names("intents."), Vec::<String>::new());
        for name in ["p", "q"] {
            let view = other.view(&partition(name)).await.expect("a view");
            let record = view.get(FAMILY, &key()).await.expect("a read").expect("there");
            assert!(other.read_extent(record.slices[0]).await.is_ok());
        }
    });
}

/// A process that leaves in order does not remember its drops for ever; and nothing at all need die for what became empty to go.
#[tokio::test]
async fn what_nobody_remembers_is_swept_all_the_same() {
    let (cluster, clock) = (Fake::default(), clock());
    let leaving = open(&cluster, &clock).await;
    let pin = write(&leaving, 1000).await;
    leaving.commit(&partition("p"), naming(&pin), Synced).await.expect("committed");
    drop(pin);
    let gone = Write::Delete { family: FAMILY, key: key() };
    let deleted = leaving.commit(&partition("p"), Batch { guards: Vec::new(), writes: vec![gone] }, Synced).await;
    deleted.expect("deleted");
    leaving.close().await.expect("left");
    drop(leaving);
    assert_eq!((cluster.names("extent.").len(), cluster.entries("shard.", b'd').len()), (1, 1));

    let other = open(&cluster, &clock).await;
    other.sweep_now().await.expect("swept");
    assert_eq!(cluster.names("extent.").len(), 1, "others may still read it");
    clock.advance_seconds(7 * 3600);
    other.sweep_now().await.expect("swept");
    assert_eq!(cluster.names("extent."), Vec::<String>::new());
    for kind in *b"dhszr" {
        assert_eq!(cluster.entries("shard.", kind), Vec::<Bytes>::new(), "{}", char::from(kind));
    }
}

/// What is left to do is in memory: a sweep that fails half way forgets none of it.
#[tokio::test]
async fn a_sweep_that_failed_is_done_again() {
    let (cluster, clock) = (Fake::default(), clock());
    let engine = open(&cluster, &clock).await;
    for name in ["p", "q", "r"] {
        for bytes in [1000, 2000] {
            let pin = write(&engine, bytes).await;
            engine.commit(&partition(name), naming(&pin), Synced).await.expect("committed");
        }
        drop(write(&engine, 3000).await);
    }
    clock.advance_seconds(2 * 3600);
    for fails in 1..4 {
        let mut removals = 0;
        cluster.set_fate(move |object, steps| {
            removals += u32::from(object.starts_with("extent.") && steps.contains(&Step::Remove));
            if removals == fails { Fate::Full } else { Fate::Applied }
        });
        engine.sweep_now().await.expect_err("the cluster is full");
    }
    cluster.clear_fate();
    engine.sweep_now().await.expect("swept");
    assert_eq!(cluster.names("extent.").len(), 3, "one for each partition");
}

/// The write of a body that was not answered may come late, after all.
#[tokio::test(start_paused = true)]
async fn a_body_that_comes_late_is_swept() {
    let (cluster, clock) = (Fake::default(), clock());
    let engine = open(&cluster, &clock).await;
    cluster.set_fate(|object, _| if object.starts_with("extent.") { Fate::Late } else { Fate::Applied });
    let mut source = Once(Some(vec![7; 1000].into()));
    assert!(engine.write_extent(&mut source, 4 << 20).await.is_err(), "no answer came");
    cluster.clear_fate();
    engine.sweep_now().await.expect("swept");
    cluster.deliver();
    assert_eq!(cluster.names("extent.").len(), 1);
    clock.advance_seconds(700);
    engine.sweep_now().await.expect("swept");
    assert_eq!(cluster.names("extent."), Vec::<String>::new());
}

/// A process that was taken for dead and is not: what it writes is found again if it dies later.
#[tokio::test(start_paused = true)]
async fn who_was_taken_for_dead_enters_itself_again() {
    let (cluster, clock) = (Fake::default(), clock());
    let sleeping = open(&cluster, &clock).await;
    let pin = write(&sleeping, 1000).await;
    clock.advance_seconds(2 * 3600);
    let other = open(&cluster, &clock).await;
    other.sweep_now().await.expect("swept");
    assert_eq!((cluster.names("intents.").len(), cluster.names("extent.").len()), (0, 0));
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(cluster.names("intents.").len(), 1);
    // The body is gone, and what names it is refused.
    let outcome = sleeping.commit(&partition("p"), naming(&pin), Synced).await;
    assert!(matches!(outcome, Err(CommitError::Conflict)), "{outcome:?}");
}

fn gone() -> Batch {
    Batch { guards: Vec::new(), writes: vec![Write::Delete { family: FAMILY, key: key() }] }
}

/// An extent that two partitions named, of which the first names it no more.
async fn named_by_two_then_one(engine: &Rados, first: &PartitionId, second: &PartitionId) -> ExtentSlice {
    let pin = write(engine, 1000).await;
    for named in [first, second] {
        engine.commit(named, naming(&pin), Synced).await.expect("committed");
    }
    engine.commit(first, gone(), Synced).await.expect("deleted");
    ExtentSlice::whole(pin.extent())
}

/// Tells when a process has claimed a drop.
fn note_claims(cluster: &Fake) -> Arc<AtomicBool> {
    let is_claimed = Arc::new(AtomicBool::new(false));
    let claimed = Arc::clone(&is_claimed);
    cluster.set_fate(move |object, steps| {
        let is_drop = |step: &Step| matches!(step, Step::Put(entries) if entries[0].0.starts_with(b"d"));
        if is_commit(object) && steps.len() == 2 && steps.iter().any(is_drop) {
            claimed.store(true, Ordering::SeqCst);
        }
        Fate::Applied
    });
    is_claimed
}

/// A process sleeps over a drop that it has claimed. Another ends it, and the partition names the extent again: that name stays.
#[tokio::test]
async fn a_claim_that_was_taken_over_takes_no_name_away() {
    let (cluster, clock) = (Fake::default(), clock());
    let (sleeping, other) = (open(&cluster, &clock).await, open(&cluster, &clock).await);
    let (p, q) = (partition("p"), partition("q"));
    let whole = named_by_two_then_one(&sleeping, &p, &q).await;
    clock.advance_seconds(2 * 3600);

    // It sleeps from its claim on, before it looks who needs the extent.
    let is_claimed = note_claims(&cluster);
    let (claimed, mut is_first) = (Arc::clone(&is_claimed), true);
    cluster.hold_reads(move |object| {
        object.starts_with("extent.") && claimed.load(Ordering::SeqCst) && std::mem::take(&mut is_first)
    });
    let sweep = tokio::spawn(async move { sleeping.sweep_now().await });
    while !is_claimed.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    clock.advance_seconds(700);
    let pin = other.pin(whole.extent);
    other.commit(&p, naming(&pin), Synced).await.expect("named again");
    drop(pin);
    other.commit(&q, gone(), Synced).await.expect("deleted");
    cluster.clear_fate();
    cluster.release_reads();
    sweep.await.expect("no panic").expect("swept");
    clock.advance_seconds(7 * 3600);
    other.sweep_now().await.expect("swept");
    assert!(other.read_extent(whole).await.is_ok());
}

/// Whoever wants to name an extent that another process is just dropping waits, and not for ever: nothing is written then. When the
/// claim is so old that its process must have died it stands in nobody's way.
#[tokio::test(start_paused = true)]
async fn a_claim_that_does_not_end_keeps_a_commit_until_its_deadline() {
    let (cluster, clock) = (Fake::default(), clock());
    let (sleeping, other) = (open(&cluster, &clock).await, open(&cluster, &clock).await);
    let (p, q) = (partition("p"), partition("q"));
    let whole = named_by_two_then_one(&sleeping, &p, &q).await;
    clock.advance_seconds(2 * 3600);
    // It dies with its claim, before it looks who needs the extent.
    let is_claimed = note_claims(&cluster);
    let claimed = Arc::clone(&is_claimed);
    cluster.hold_reads(move |object| object.starts_with("extent.") && claimed.load(Ordering::SeqCst));
    let sweep = tokio::spawn({
        let sleeping = Arc::clone(&sleeping);
        async move { sleeping.sweep_now().await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(is_claimed.load(Ordering::SeqCst));
    sweep.abort();
    cluster.clear_fate();
    cluster.release_reads();

    let pin = other.pin(whole.extent);
    let (begun, drops) = (tokio::time::Instant::now(), cluster.entries("shard.", b'd'));
    assert_eq!(drops.len(), 1, "it is claimed and not ended");
    let refused = other.commit(&p, naming(&pin), Synced).await;
    assert!(matches!(refused, Err(CommitError::Fault(Fault::Other { .. }))), "{refused:?}");
    let waited = begun.elapsed();
    assert!(waited >= Duration::from_secs(10) && waited < Duration::from_secs(11), "{waited:?}");
    let view = other.view(&p).await.expect("a view");
    assert!(view.get(FAMILY, &key()).await.expect("a read").is_none(), "nothing was written");
    assert_eq!(cluster.entries("shard.", b'd'), drops);

    clock.advance_seconds(700);
    let begun = tokio::time::Instant::now();
    other.commit(&p, naming(&pin), Synced).await.expect("named again");
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!(cluster.entries("shard.", b'd'), Vec::<Bytes>::new());
    assert!(other.read_extent(whole).await.is_ok());
}

/// What waits for a shard goes together, as far as one operation may be: clusters refuse one of 90 MB.
#[tokio::test]
async fn an_operation_carries_no_more_than_its_bound() {
    const BATCH_BYTES: usize = 1 << 20;
    let (cluster, clock) = (Fake::default(), clock());
    let options = Options { deadline: Duration::from_secs(10), ..Options::new(|_| 1) };
    let engine = Rados::open(Arc::new(cluster.clone()), clock, &SystemIds::new(), options).await.expect("opened");
    let sizes = Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = Arc::clone(&sizes);
    cluster.set_fate(move |object, steps| {
        let puts = steps.iter().flat_map(|step| match step {
            Step::Put(entries) => entries.as_slice(),
            _ => &[],
        });
        if is_commit(object) {
            noted.lock().expect("no panic").push(puts.map(|(_, value)| value.len()).sum::<usize>());
        }
        Fate::Applied
    });
    let mut committing = tokio::task::JoinSet::new();
    for number in 0..24usize {
        let engine = Arc::clone(&engine);
        committing.spawn(async move {
            // One that is greater than the bound goes alone.
            let bytes = if number == 12 { 6 * BATCH_BYTES } else { BATCH_BYTES };
            let p = PartitionId { key: Bytes::from(format!("p{number}")), ..partition("p") };
            let guards = vec![Guard::Absent { family: FAMILY, key: key() }];
            engine.commit(&p, Batch { guards, writes: vec![put(vec![b'x'; bytes], Vec::new())] }, Synced).await
        });
    }
    while let Some(committed) = committing.join_next().await {
        committed.expect("no panic").expect("committed");
    }
    let sizes = std::mem::take(&mut *sizes.lock().expect("no panic"));
    let many = sizes.iter().filter(|bytes| **bytes > BATCH_BYTES + 1000 && **bytes < 4 * BATCH_BYTES).count();
    assert!(many >= 3, "they go together: {sizes:?}");
    let (alone, bounded): (Vec<usize>, Vec<usize>) = sizes.into_iter().partition(|bytes| *bytes > 4 << 20);
    assert_eq!(alone.len(), 1, "{alone:?}");
    assert!(alone[0] < 6 * BATCH_BYTES + 1000, "{alone:?}, {bounded:?}");
}

/// A flipped bit in a body is never served.
#[tokio::test]
async fn a_damaged_extent_is_not_read() {
    let (cluster, clock) = (Fake::default(), clock());
    let engine = open(&cluster, &clock).await;
    let pin = write(&engine, 200_000).await;
    let object = &cluster.names("extent.")[0];
    for at in [0, 65_536, 199_999, 200_003] {
        cluster.damage(object, at);
        let whole = ExtentSlice::whole(pin.extent());
        assert!(matches!(engine.read_extent(whole).await, Err(Fault::Corrupt { .. })), "{at}");
        cluster.damage(object, at);
        assert_eq!(engine.read_extent(whole).await.expect("whole").len(), 200_000);
    }
}

/// A partition that became empty is forgotten after a while, and not before: its revision keeps ETags growing.
#[tokio::test]
async fn an_emptied_partition_keeps_its_revision_for_a_while() {
    let (cluster, clock) = (Fake::default(), clock());
    let (engine, behind) = (open(&cluster, &clock).await, self::clock());
    add(&engine, &partition("p")).await.expect("counted");
    clock.advance_seconds(10); // its clock is ahead of the other's
    let gone = Write::Delete { family: FAMILY, key: key() };
    let last = engine.commit(&partition("p"), Batch { guards: Vec::new(), writes: vec![gone] }, Synced).await;
    let last = last.expect("deleted");
    let other = open(&cluster, &behind).await;
    assert_eq!(count(&other, &partition("p")).await.0, 0);
    assert!(other.draw_tick(0).expect("a shared engine draws ticks") > last.0);
    add(&other, &partition("p")).await.expect("counted");
}

/// Guards on a fence, whatever comes late.
#[tokio::test]
async fn a_late_commit_does_not_pass_a_fence() {
    let (cluster, clock) = (Fake::default(), clock());
    let engine = open(&cluster, &clock).await;
    add(&engine, &partition("p")).await.expect("counted");
    // Knows the group from before and goes on to look at it.
    let witness = open(&cluster, &clock).await;
    assert_eq!(count(&witness, &partition("p")).await.0, 1);
    cluster.set_fate(|object, steps| {
        let is_fence = steps.iter().any(|step| matches!(step, Step::SetAttribute { .. }));
        if is_commit(object) && !is_fence { Fate::Late } else { Fate::Applied }
    });
    let task = tokio::spawn({
        let engine = Arc::clone(&engine);
        async move { add(&engine, &partition("p")).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    engine.fence(&partition("p").group).await.expect("fenced");
    cluster.deliver();
    assert_eq!(count(&witness, &partition("p")).await.0, 1);
    assert_eq!(count(&engine, &partition("p")).await.0, 0, "a fenced group shows nothing");
    cluster.clear_fate();
    assert!(task.await.is_err(), "the task saw the fence");
}

/// A view that has shown nothing yet takes a newer state, and then all of it: also what came along when it was opened.
#[tokio::test]
async fn a_view_is_of_one_state_whatever_came_with_it() {
    let (cluster, clock) = (Fake::default(), clock());
    let engine = open(&cluster, &clock).await;
    let p = partition("p");
    let both = |value: &'static str| {
        let put = |key: &'static str| Write::Put {
            family: FAMILY,
            key: Bytes::from_static(key.as_bytes()),
            value: Bytes::from_static(value.as_bytes()),
            slices: Vec::new(),
        };
        Batch { guards: Vec::new(), writes: vec![put(""), put("other")] }
    };
    for first in ["", "other"] {
        engine.commit(&p, both("old"), Synced).await.expect("committed");
        let view = engine.view(&p).await.expect("a view");
        engine.commit(&p, both("new"), Synced).await.expect("committed");
        let shown = view.get(FAMILY, first.as_bytes()).await.expect("the first read").expect("there").value;
        let second = if first.is_empty() { "other" } else { "" };
        match view.get(FAMILY, second.as_bytes()).await {
            Ok(record) => assert_eq!(record.expect("there").value, shown, "{first:?} first"),
            Err(fault) => assert!(matches!(fault, Fault::Moved)),
        }
    }
}

/// A process that died between the two halves of a fence: nothing is swept that still takes commits.
#[tokio::test]
async fn a_fence_that_was_begun_is_finished_before_the_group_is_emptied() {
    let (cluster, clock) = (Fake::default(), clock());
    let (dying, knowing) = (open(&cluster, &clock).await, open(&cluster, &clock).await);
    add(&knowing, &partition("p")).await.expect("counted");
    cluster.set_fate(|object, _| if is_commit(object) { Fate::Full } else { Fate::Applied });
    assert!(dying.fence(&partition("p").group).await.is_err(), "it comes as far as the registry");
    cluster.clear_fate();
    clock.advance_seconds(2 * 3600);
    knowing.sweep_now().await.expect("swept");
    let late = Batch { guards: Vec::new(), writes: vec![put("late", Vec::new())] };
    let outcome = knowing.commit(&partition("p"), late, Synced).await;
    assert!(matches!(outcome, Err(CommitError::Fenced)), "{outcome:?}");
}
