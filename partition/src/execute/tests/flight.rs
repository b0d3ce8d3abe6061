//! Commands that decide while a commit of their partition is in flight.

use super::*;

const LIST: Family = Family(2);

/// Adds the next number to a list, after looking through all of it.
struct Append(PartitionId);

impl Command for Append {
    type Records = u64;
    type Outcome = u64;

    fn partition(&self) -> &PartitionId {
        &self.0
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<u64, Fault> {
        let all = KeyRange { start: Bound::Unbounded, end: Bound::Unbounded };
        Ok(reader.scan(LIST, &all, usize::MAX).await?.len() as u64)
    }

    fn check(&self, _: &u64, _: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, count: u64, _: Moment) -> Result<(Vec<Write>, u64), Refusal> {
        let key = Bytes::copy_from_slice(&count.to_be_bytes());
        Ok((vec![Write::Put { family: LIST, key, value: Bytes::new(), slices: Vec::new() }], count))
    }
}

async fn start_append(shell: &Arc<Shell>) -> tokio::task::JoinHandle<Result<u64, Failure>> {
    let shell = shell.clone();
    let task = tokio::spawn(async move { shell.execute(&Append(add(None).partition)).await });
    settle().await;
    task
}

async fn permit(engine: &Gated, commits: usize) {
    engine.gate.add_permits(commits);
    settle().await;
}

/// Another process puts a number somewhere.
async fn others_put(engine: &Gated, family: Family, key: &[u8], number: u64) {
    let (key, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(&number.to_be_bytes()));
    let writes = vec![Write::Put { family, key, value, slices: Vec::new() }];
    let batch = Batch { guards: Vec::new(), writes };
    engine.inner.commit(&add(None).partition, batch, Durability::Synced).await.expect("nothing guards it");
}

#[tokio::test]
async fn what_is_decided_over_a_flight_is_answered_after_it() {
    let engine = Gated::new(1);
    let shell = shell(engine.clone()).await;
    let first = start(&shell, Some(0)).await;
    let second = start(&shell, Some(1)).await;
    let refused = start(&shell, Some(0)).await;
    assert!(!first.is_finished() && !second.is_finished() && !refused.is_finished());
    permit(&engine, 1).await;
    assert!(first.is_finished() && !second.is_finished() && !refused.is_finished());
    permit(&engine, 1).await;
    assert_eq!(first.await.expect("no panic").expect("counted"), 1);
    assert_eq!(second.await.expect("no panic").expect("counted"), 2);
    assert!(matches!(refused.await.expect("no panic"), Err(Failure::Refused(_))));
    assert_eq!(engine.commits.load(Ordering::SeqCst), 3);
    assert_eq!(shell.turns.lines(), 0);
}

/// A refusal that wrote nothing rests on the flight all the same.
#[tokio::test]
async fn who_writes_nothing_waits_for_the_flight_alone() {
    let engine = Gated::new(1);
    let shell = shell(engine.clone()).await;
    let first = start(&shell, Some(0)).await;
    let refused = start(&shell, Some(0)).await;
    assert!(!refused.is_finished());
    permit(&engine, 1).await;
    assert_eq!(first.await.expect("no panic").expect("counted"), 1);
    assert!(matches!(refused.await.expect("no panic"), Err(Failure::Refused(_))));
    assert_eq!(engine.commits.load(Ordering::SeqCst), 2);
}

/// The engine knows nothing of what was decided over a flight that failed, however it failed.
#[tokio::test]
async fn what_is_decided_over_a_flight_that_fails_is_decided_again() {
    for (error, is_retried) in [(CommitError::Conflict, true), (CommitError::Fault(Fault::Full), false)] {
        let engine = Gated::new(1);
        let shell = shell(engine.clone()).await;
        let first = start(&shell, None).await;
        let over = [start(&shell, None).await, start(&shell, None).await];
        engine.answers.lock().expect("free").push_back(error);
        permit(&engine, 9).await;
        let first = first.await.expect("no panic");
        assert_eq!(first.is_ok(), is_retried, "{first:?}");
        let mut counts: Vec<u64> = first.into_iter().collect();
        for task in over {
            counts.push(task.await.expect("no panic").expect("counted"));
        }
        counts.sort_unstable();
        assert_eq!(counts, (1..=2 + u64::from(is_retried)).collect::<Vec<_>>());
    }
}

/// Another process comes between the flight and what was decided over it.
#[tokio::test]
async fn what_was_read_of_a_flight_is_guarded_by_what_it_became() {
    let engine = Gated::new(1);
    let shell = shell(engine.clone()).await;
    let first = start(&shell, None).await;
    let second = start(&shell, None).await;
    permit(&engine, 1).await;
    assert_eq!(first.await.expect("no panic").expect("counted"), 1);
    others_put(&engine, COUNTER, b"n", 100).await;
    permit(&engine, 2).await;
    assert_eq!(second.await.expect("no panic").expect("counted"), 101);
}

/// The same of what was judged of a range, which is not refused for the flight's own sake.
#[tokio::test]
async fn a_range_that_was_judged_over_a_flight_is_as_it_was() {
    let engine = Gated::new(1);
    let shell = shell(engine.clone()).await;
    let mut tasks = Vec::new();
    for _ in 0..10 {
        tasks.push(start_append(&shell).await);
    }
    permit(&engine, 1).await;
    let late = start_append(&shell).await; // over the second flight
    permit(&engine, 2).await;
    let mut counts = Vec::new();
    for task in tasks.into_iter().chain([late]) {
        counts.push(task.await.expect("no panic").expect("appended"));
    }
    assert_eq!(counts, (0..=10).collect::<Vec<u64>>());
    assert_eq!(engine.commits.load(Ordering::SeqCst), 4, "nothing was tried twice");
    // And over what guards no range itself.
    let counted = start(&shell, None).await;
    let appended = start_append(&shell).await;
    permit(&engine, 2).await;
    assert_eq!(counted.await.expect("no panic").expect("counted"), 1);
    assert_eq!(appended.await.expect("no panic").expect("appended"), 11);
    assert_eq!(engine.commits.load(Ordering::SeqCst), 6, "nothing was tried twice");
}

/// A refusal over a flight is sent to no engine that would look at its guards: it is judged again when the flight has landed.
#[tokio::test]
async fn a_refusal_over_a_flight_that_others_overtook_is_judged_again() {
    let engine = Gated::new(1);
    let shell = shell(engine.clone()).await;
    let first = start(&shell, None).await;
    let second = start(&shell, Some(100)).await;
    // Committed, and not known to be when another process commits.
    engine.exit.forget_permits(EXITS);
    permit(&engine, 1).await;
    others_put(&engine, COUNTER, b"n", 100).await;
    engine.exit.add_permits(EXITS);
    permit(&engine, 1).await;
    assert_eq!(first.await.expect("no panic").expect("counted"), 1);
    assert_eq!(second.await.expect("no panic").expect("expected"), 101);
}

#[tokio::test]
async fn a_range_that_others_changed_is_judged_again() {
    let engine = Gated::new(1);
    let shell = shell(engine.clone()).await;
    let first = start_append(&shell).await;
    let second = start_append(&shell).await;
    permit(&engine, 1).await;
    assert_eq!(first.await.expect("no panic").expect("appended"), 0);
    others_put(&engine, LIST, &1u64.to_be_bytes(), 0).await;
    permit(&engine, 2).await;
    assert_eq!(second.await.expect("no panic").expect("appended"), 2);
}

/// Whoever is torn down with a commit in flight leaves nobody waiting, neither in it nor over it.
#[tokio::test]
async fn a_flight_that_is_abandoned_is_over() {
    let engine = Gated::new(1);
    let shell = shell(engine.clone()).await;
    let leader = start(&shell, None).await;
    let over = start(&shell, None).await;
    leader.abort();
    settle().await;
    engine.gate.add_permits(10);
    let answer = tokio::time::timeout(std::time::Duration::from_secs(5), over).await.expect("answered");
    assert_eq!(answer.expect("no panic").expect("decided again"), 1, "the gate let nothing through");
}
