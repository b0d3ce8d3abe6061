//! Turns under contention, on the memory engine behind a gate that lets commits through one at a time.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use contract::ErrorCode;
use engine::around::Around;
use engine::memory::MemoryEngine;
use engine::{Batch, BoxFuture, CommitError, GroupId, Revision};
use env::{ScriptedClock, ScriptedIds};
use tokio::sync::Semaphore;
use tokio::task::yield_now;

use super::*;

mod flight;
mod shared;

const COUNTER: Family = Family(1);
/// More than any test commits.
const EXITS: usize = 1_000_000;

/// Passes everything on; commits wait for the gate, and may be made to fail.
struct Gated {
    inner: MemoryEngine,
    gate: Semaphore,
    /// What was committed is answered when this is passed.
    exit: Semaphore,
    commits: AtomicUsize,
    views: AtomicUsize,
    /// Bytes of values in the greatest batch so far.
    largest: AtomicUsize,
    /// What was asked of each commit.
    durabilities: Mutex<Vec<Durability>>,
    /// What the next commits answer instead of committing.
    answers: Mutex<VecDeque<CommitError>>,
    /// So many views are not given, and only when this is passed.
    blind: AtomicUsize,
    sight: Semaphore,
    buffers: AtomicBool,
}

impl Gated {
    fn new(open: usize) -> Arc<Gated> {
        Arc::new(Gated {
            inner: MemoryEngine::new(),
            gate: Semaphore::new(open),
            exit: Semaphore::new(EXITS),
            commits: AtomicUsize::new(0),
            views: AtomicUsize::new(0),
            largest: AtomicUsize::new(0),
            durabilities: Mutex::default(),
            answers: Mutex::default(),
            blind: AtomicUsize::new(0),
            sight: Semaphore::new(0),
            buffers: AtomicBool::new(false),
        })
    }
}

impl Around for Gated {
    fn inner(&self) -> &dyn Engine {
        &self.inner
    }

    fn view<'a>(&'a self, partition: &'a PartitionId) -> BoxFuture<'a, Result<Box<dyn View>, Fault>> {
        self.views.fetch_add(1, Ordering::SeqCst);
        if self.blind.load(Ordering::SeqCst) == 0 {
            return self.inner.view(partition);
        }
        self.blind.fetch_sub(1, Ordering::SeqCst);
        Box::pin(async {
            self.sight.acquire().await.expect("never closed").forget();
            Err(Fault::Other { doing: "looking".into(), detail: "nobody answers".into() })
        })
    }

    fn commit<'a>(
        &'a self,
        partition: &'a PartitionId,
        batch: Batch,
        durability: Durability,
    ) -> BoxFuture<'a, Result<Revision, CommitError>> {
        Box::pin(async move {
            self.gate.acquire().await.expect("never closed").forget();
            self.commits.fetch_add(1, Ordering::SeqCst);
            let bytes = batch.writes.iter().map(|write| match write {
                Write::Put { value, .. } => value.len(),
                Write::Delete { .. } => 0,
            });
            self.largest.fetch_max(bytes.sum(), Ordering::SeqCst);
            self.durabilities.lock().expect("no panic holds it").push(durability);
            let answer = self.answers.lock().expect("no panic holds it").pop_front();
            match answer {
                Some(error) => Err(error),
                None => {
                    let committed = self.inner.commit(partition, batch, durability).await;
                    self.exit.acquire().await.expect("never closed").forget();
                    committed
                }
            }
        })
    }

    fn buffers(&self) -> bool {
        self.buffers.load(Ordering::SeqCst)
    }
}

/// Adds one to a counter, if it is what the caller thinks it is.
struct Add {
    partition: PartitionId,
    expected: Option<u64>,
    durability: Durability,
}

impl Command for Add {
    type Records = u64;
    type Outcome = u64;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<u64, Fault> {
        let record = reader.get(COUNTER, b"n").await?;
        Ok(record.map_or(0, |record| u64::from_be_bytes(record.value.as_ref().try_into().expect("eight bytes"))))
    }

    fn check(&self, count: &u64, _now: Timestamp) -> Result<(), Refusal> {
        match self.expected {
            Some(expected) if expected != *count => Err(ErrorCode::ConditionNotMet.into()),
            _ => Ok(()),
        }
    }

    fn decide(&self, count: u64, moment: Moment) -> Result<(Vec<Write>, u64), Refusal> {
        self.check(&count, moment.now)?;
        let value = Bytes::copy_from_slice(&(count + 1).to_be_bytes());
        let write = Write::Put { family: COUNTER, key: Bytes::from_static(b"n"), value, slices: Vec::new() };
        Ok((vec![write], count + 1))
    }

    fn durability(&self) -> Durability {
        self.durability
    }
}

fn add(expected: Option<u64>) -> Add {
    let group = GroupId(Bytes::from_static(b"g"));
    let partition = PartitionId { group, key: Bytes::from_static(b"p") };
    Add { partition, expected, durability: Durability::Synced }
}

async fn shell(engine: Arc<Gated>) -> Arc<Shell> {
    let clock = ScriptedClock::at(Timestamp::UNIX_EPOCH);
    Arc::new(Shell::open(engine, Arc::new(clock), Arc::new(ScriptedIds::default())).await.expect("opens"))
}

/// Starts a command and lets it come as far as it can.
async fn start(shell: &Arc<Shell>, expected: Option<u64>) -> tokio::task::JoinHandle<Result<u64, Failure>> {
    start_with(shell, add(expected)).await
}

async fn start_with(shell: &Arc<Shell>, command: Add) -> tokio::task::JoinHandle<Result<u64, Failure>> {
    let shell = shell.clone();
    let task = tokio::spawn(async move { shell.execute(&command).await });
    settle().await;
    task
}

async fn settle() {
    for _ in 0..20 {
        yield_now().await;
    }
}

#[tokio::test]
async fn waiting_commands_share_a_commit() {
    let engine = Gated::new(1); // opening takes one commit
    let shell = shell(engine.clone()).await;
    let views_before = engine.views.load(Ordering::SeqCst);
    let mut tasks = Vec::new();
    for _ in 0..100 {
        tasks.push(start(&shell, None).await);
    }
    assert!(tasks.iter().all(|task| !task.is_finished()), "nothing is answered before it is durable");
    engine.gate.add_permits(2);
    let mut counts = Vec::new();
    for task in tasks {
        counts.push(task.await.expect("no panic").expect("counted"));
    }
    counts.sort_unstable();
    assert_eq!(counts, (1..=100).collect::<Vec<u64>>(), "no update is lost");
    // The first went alone, the ninety-nine that came meanwhile together.
    assert_eq!(engine.commits.load(Ordering::SeqCst), 3);
    assert_eq!(engine.views.load(Ordering::SeqCst) - views_before, 2, "a batch looks at one state");
    assert_eq!(shell.turns.lines(), 0, "no line is kept for nobody");
}

/// Writes so many bytes under a key of its own.
struct Fill {
    partition: PartitionId,
    key: Bytes,
    bytes: usize,
}

impl Command for Fill {
    type Records = ();
    type Outcome = ();

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, _reader: &Reader<'_>) -> Result<(), Fault> {
        Ok(())
    }

    fn check(&self, _records: &(), _now: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, _records: (), _moment: Moment) -> Result<(Vec<Write>, ()), Refusal> {
        let value = Bytes::from(vec![0; self.bytes]);
        Ok((vec![Write::Put { family: COUNTER, key: self.key.clone(), value, slices: Vec::new() }], ()))
    }
}

/// A batch that has reached its bound takes nobody on; nobody waits for ever for that.
#[tokio::test]
async fn a_batch_carries_no_more_than_its_bound() {
    const BYTES: usize = 3 << 20;
    let engine = Gated::new(1);
    let shell = shell(engine.clone()).await;
    let mut tasks = Vec::new();
    for number in 0..20 {
        let command = Fill { partition: add(None).partition, key: Bytes::from(format!("{number}")), bytes: BYTES };
        let shell = shell.clone();
        tasks.push(tokio::spawn(async move { shell.execute(&command).await }));
        settle().await;
    }
    engine.gate.add_permits(20);
    for task in tasks {
        task.await.expect("no panic").expect("written");
    }
    // The first went alone, the others by threes: two of them are below the bound, and the third is taken on.
    let largest = engine.largest.load(Ordering::SeqCst);
    assert!((BATCH_BYTES_MAX..BATCH_BYTES_MAX + BYTES).contains(&largest), "{largest}");
    assert_eq!(engine.commits.load(Ordering::SeqCst), 1 + 1 + 19usize.div_ceil(3));
    let view = engine.inner.view(&add(None).partition).await.expect("a view");
    let all = KeyRange { start: Bound::Unbounded, end: Bound::Unbounded };
    assert_eq!(view.scan(COUNTER, &all, 100).await.expect("a scan").len(), 20);
}

/// Storage that does not answer is waited for once, by whoever is first, and not by one after another of those behind.
#[tokio::test]
async fn who_waits_behind_one_that_gave_up_gives_up() {
    let engine = Gated::new(EXITS);
    let shell = shell(engine.clone()).await;
    engine.blind.store(1, Ordering::SeqCst);
    let mut tasks = Vec::new();
    for _ in 0..10 {
        tasks.push(start(&shell, None).await);
    }
    let views_before = engine.views.load(Ordering::SeqCst);
    assert!(tasks.iter().all(|task| !task.is_finished()));
    engine.sight.add_permits(1);
    for task in tasks {
        assert!(matches!(task.await.expect("no panic"), Err(Failure::Fault(Fault::Other { .. }))));
    }
    assert_eq!(engine.views.load(Ordering::SeqCst), views_before, "nobody else asked");
    assert_eq!(start(&shell, Some(0)).await.await.expect("no panic").expect("it answers again"), 1);
    assert_eq!(shell.turns.lines(), 0);
}

/// Where a buffered commit is over at once nobody waits for others to join it; a synced one is shared all the same.
#[tokio::test]
async fn buffered_commands_share_a_commit_only_where_that_saves_one() {
    for (buffers, durability, commits) in
        [(false, Durability::Buffered, 2), (true, Durability::Buffered, 10), (true, Durability::Synced, 2)]
    {
        let engine = Gated::new(1);
        let shell = shell(engine.clone()).await;
        engine.buffers.store(buffers, Ordering::SeqCst);
        let mut tasks = Vec::new();
        for _ in 0..10 {
            tasks.push(start_with(&shell, Add { durability, ..add(None) }).await);
        }
        engine.gate.add_permits(10);
        let mut counts = Vec::new();
        for task in tasks {
            counts.push(task.await.expect("no panic").expect("counted"));
        }
        counts.sort_unstable();
        assert_eq!(counts, (1..=10).collect::<Vec<u64>>(), "no update is lost");
        assert_eq!(engine.commits.load(Ordering::SeqCst), 1 + commits, "{buffers} {durability:?}");
    }
}

#[tokio::test]
async fn one_of_many_with_the_same_expectation_wins() {
    let engine = Gated::new(10);
    let shell = shell(engine).await;
    let mut tasks = Vec::new();
    for _ in 0..50 {
        tasks.push(start(&shell, Some(0)).await);
    }
    let mut won = 0;
    for task in tasks {
        match task.await.expect("no panic") {
            Ok(_) => won += 1,
            Err(Failure::Refused(refusal)) => assert_eq!(refusal.code, ErrorCode::ConditionNotMet),
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(won, 1);
}

#[tokio::test]
async fn a_refusal_that_rests_on_an_undurable_write_waits_for_it() {
    let engine = Gated::new(1);
    let shell = shell(engine.clone()).await;
    // The leader gives way to those who wait, so that they decide over its write before it is durable.
    let turn = shell.turns.line(&add(None).partition);
    let held = turn.enter().await;
    let winner = start(&shell, Some(0)).await;
    let loser = start(&shell, Some(0)).await;
    drop(held);
    settle().await;
    assert!(!winner.is_finished() && !loser.is_finished());
    engine.gate.add_permits(1);
    assert_eq!(winner.await.expect("no panic").expect("first"), 1);
    assert!(matches!(loser.await.expect("no panic"), Err(Failure::Refused(_))));
}

/// A batch is buffered if all that is written in it may be; who writes nothing in it has no say.
#[tokio::test]
async fn a_batch_is_as_durable_as_the_strictest_of_its_writers_asks() {
    use Durability::{Buffered, Synced};
    for (commands, expected) in [
        (vec![(None, Buffered), (None, Buffered)], Buffered),
        (vec![(None, Buffered), (None, Synced)], Synced),
        (vec![(None, Synced), (None, Buffered)], Synced),
        (vec![(None, Buffered), (Some(7), Synced)], Buffered), // refused
        (vec![(Some(7), Buffered), (None, Synced)], Synced),
    ] {
        let engine = Gated::new(10);
        let shell = shell(engine.clone()).await;
        assert_eq!(*engine.durabilities.lock().expect("no panic holds it"), [Synced], "ticks are never lost");
        let line = shell.turns.line(&add(None).partition);
        let held = line.enter().await;
        let mut tasks = Vec::new();
        for (expected, durability) in &commands {
            tasks.push(start_with(&shell, Add { durability: *durability, ..add(*expected) }).await);
        }
        drop(held);
        for task in tasks {
            let outcome = task.await.expect("no panic");
            assert!(matches!(outcome, Ok(_) | Err(Failure::Refused(_))), "{outcome:?}");
        }
        assert_eq!(engine.durabilities.lock().expect("no panic holds it")[1..], [expected], "{commands:?}");
        shell.sync().await.expect("synced");
    }
}

#[tokio::test]
async fn when_the_commit_fails_all_of_it_fails() {
    let engine = Gated::new(1);
    let shell = shell(engine.clone()).await;
    let turn = shell.turns.line(&add(None).partition);
    let held = turn.enter().await;
    let tasks = [start(&shell, None).await, start(&shell, Some(1)).await, start(&shell, Some(0)).await];
    engine.answers.lock().expect("free").push_back(CommitError::Fault(Fault::Full));
    drop(held);
    engine.gate.add_permits(1);
    for task in tasks {
        assert!(matches!(task.await.expect("no panic"), Err(Failure::Fault(Fault::Full))));
    }
    drop(turn);
    engine.gate.add_permits(1);
    assert_eq!(shell.execute(&add(Some(0))).await.expect("nothing was counted"), 1);
}

#[tokio::test]
async fn a_conflict_is_judged_again() {
    let engine = Gated::new(10);
    let shell = shell(engine.clone()).await;
    engine.answers.lock().expect("free").extend([CommitError::Conflict, CommitError::Conflict]);
    assert_eq!(shell.execute(&add(None)).await.expect("at the third attempt"), 1);
    assert_eq!(engine.commits.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn two_gateways_on_one_engine_lose_no_update() {
    let engine = Gated::new(100_000);
    let shells = [shell(engine.clone()).await, shell(engine.clone()).await];
    let mut tasks = Vec::new();
    for round in 0..200 {
        let shell = shells[round % 2].clone();
        tasks.push(tokio::spawn(async move { shell.execute(&add(None)).await.expect("counted") }));
    }
    let mut counts = Vec::new();
    for task in tasks {
        counts.push(task.await.expect("no panic"));
    }
    counts.sort_unstable();
    assert_eq!(counts, (1..=200).collect::<Vec<u64>>());
}

#[tokio::test]
async fn a_fenced_group_is_gone() {
    let engine = Gated::new(10);
    let shell = shell(engine.clone()).await;
    shell.execute(&add(None)).await.expect("counted");
    engine.inner.fence(&add(None).partition.group).await.expect("fenced");
    assert!(matches!(shell.execute(&add(None)).await, Err(Failure::Gone)));
}

#[tokio::test]
async fn a_batch_has_a_limit() {
    let engine = Gated::new(1);
    let shell = shell(engine.clone()).await;
    let turn = shell.turns.line(&add(None).partition);
    let held = turn.enter().await;
    let mut tasks = Vec::new();
    for _ in 0..BATCH_COMMANDS_MAX + 10 {
        tasks.push(start(&shell, None).await);
    }
    drop(held);
    engine.gate.add_permits(10);
    for task in tasks {
        task.await.expect("no panic").expect("counted");
    }
    assert_eq!(engine.commits.load(Ordering::SeqCst), 3);
}

/// A scan in a turn sees what was decided before it: merged in order, deletions hidden, the limit kept.
#[tokio::test]
async fn scans_see_the_overlay() {
    let engine = MemoryEngine::new();
    let partition = add(None).partition;
    let put = |key: &'static str| Write::Put {
        family: COUNTER,
        key: Bytes::from_static(key.as_bytes()),
        value: Bytes::new(),
        slices: Vec::new(),
    };
    let committed = Batch { guards: Vec::new(), writes: vec![put("a"), put("c"), put("e"), put("g")] };
    engine.commit(&partition, committed, Durability::Synced).await.expect("nothing guards it");
    let mut turn = crate::turns::Turn::default();
    let pending = [put("b"), put("f"), Write::Delete { family: COUNTER, key: Bytes::from_static(b"c") }];
    let _ticket = turn.open.join(Vec::new(), &pending, Durability::Synced);
    let view = engine.view(&partition).await.expect("open");
    for (start, end, limit, expected) in [
        (Bound::Unbounded, Bound::Unbounded, 100, "a b e f g"),
        (Bound::Unbounded, Bound::Unbounded, 3, "a b e"),
        (Bound::Excluded("b"), Bound::Unbounded, 2, "e f"),
        (Bound::Included("b"), Bound::Excluded("f"), 9, "b e"),
        (Bound::Included("c"), Bound::Included("f"), 9, "e f"),
        (Bound::Excluded("g"), Bound::Unbounded, 9, ""),
    ] {
        let bytes = |bound: Bound<&'static str>| bound.map(|key| Bytes::from_static(key.as_bytes()));
        let range = KeyRange { start: bytes(start), end: bytes(end) };
        let reader = Reader::over(view.as_ref(), turn.pending());
        let rows = reader.scan(COUNTER, &range, limit).await.expect("scanned");
        let keys: Vec<_> = rows.iter().map(|(key, _)| String::from_utf8_lossy(key).into_owned()).collect();
        assert_eq!(keys.join(" "), expected);
        assert_eq!(reader.into_guards(), [Guard::Unchanged(view.revision()), Guard::ReadAt(view.revision())]);
    }
}

/// A leader that is torn down, while it waits for its turn to commit or while the commit is in flight, leaves nobody hanging.
#[tokio::test]
async fn a_vanished_leader_leaves_nobody_waiting() {
    for in_flight in [false, true] {
        let engine = Gated::new(1);
        let shell = shell(engine.clone()).await;
        let line = shell.turns.line(&add(None).partition);
        let held = line.enter().await;
        let leader = start(&shell, None).await;
        let follower = start(&shell, None).await;
        if in_flight {
            drop(held);
            settle().await; // the leader waits at the gate, for both
            leader.abort();
            settle().await;
        } else {
            // Let the leader open its batch, and take the turn again before it comes back to commit.
            let again = tokio::spawn({
                let shell = shell.clone();
                async move { shell.turns.line(&add(None).partition).enter().await.open.commands() }
            });
            drop(held);
            settle().await;
            leader.abort();
            settle().await;
            assert!(again.await.is_ok());
        }
        engine.gate.add_permits(10);
        let answer = tokio::time::timeout(std::time::Duration::from_secs(5), follower).await;
        let answer = answer.expect("answered").expect("no panic");
        assert!(matches!(answer, Ok(_) | Err(Failure::Fault(_))), "{answer:?}");
        // And the line goes on.
        shell.execute(&add(None)).await.expect("counted");
    }
}
