use std::sync::Arc;

use contract::Service;
use engine::memory::MemoryEngine;
use env::{ScriptedClock, ScriptedIds};

use super::*;
use crate::record::event::tests::pending;

fn account() -> AccountName {
    AccountName::parse("abc").expect("right")
}

async fn shell() -> (Shell, Arc<ScriptedClock>) {
    let clock = Arc::new(ScriptedClock::at(Timestamp::UNIX_EPOCH.plus_seconds(1_000_000)));
    let engine = Arc::new(MemoryEngine::new());
    (Shell::open(engine, clock.clone(), Arc::new(ScriptedIds::default())).await.expect("opens"), clock)
}

fn group() -> GroupId {
    key::contents_group(Service::Blob, &account(), Id(7))
}

/// Whatever it is about: it announces one thing to two subscriptions.
struct Announcing {
    partition: PartitionId,
    announcement: Announcement,
    is_refused: bool,
}

impl Announcing {
    fn new(blob: &str, is_refused: bool) -> Self {
        let announcement = Announcement {
            account: account(),
            container: "c".into(),
            blob: blob.into(),
            url: "http://here/c/b".into(),
            api: Api::PutBlob,
            request: Id(5),
            client_request: None,
            subscriptions: vec!["one".into(), "two".into()],
        };
        let partition = PartitionId { group: group(), key: Bytes::copy_from_slice(blob.as_bytes()) };
        Announcing { partition, announcement, is_refused }
    }
}

impl Command for Announcing {
    type Records = ();
    type Outcome = ();

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, _: &Reader<'_>) -> Result<(), Fault> {
        Ok(())
    }

    fn check(&self, _: &(), _: Timestamp) -> Result<(), Refusal> {
        if self.is_refused { Err(contract::ErrorCode::ConditionNotMet.into()) } else { Ok(()) }
    }

    fn decide(&self, records: (), moment: Moment) -> Result<(Vec<Write>, ()), Refusal> {
        self.check(&records, moment.now)?;
        let head = BlobHead::made(None, &Default::default(), Default::default(), 3, false, Default::default(), moment);
        Ok((created(self.announcement(), &head, moment), ()))
    }

    fn announcement(&self) -> Option<&Announcement> {
        Some(&self.announcement)
    }
}

async fn found(shell: &Shell) -> Vec<(Place, PendingEvent)> {
    let mut found = Vec::new();
    for holder in holders(shell, &account()).await.expect("read") {
        let looked = holder.look(shell, None).await.expect("read");
        found.extend(looked.events.into_iter().map(|(place, event)| (place, event.expect("whole"))));
    }
    found
}

#[tokio::test]
async fn what_is_done_is_told_and_found_and_what_is_refused_is_not() {
    let (shell, _) = shell().await;
    let mut told = shell.outbox.take_told().expect("the first");
    assert!(shell.execute(&Announcing::new("b", true)).await.is_err());
    assert_eq!(found(&shell).await.len(), 0);
    assert!(told.try_recv().is_err());

    shell.execute(&Announcing::new("b", false)).await.expect("done");
    let events = found(&shell).await;
    assert_eq!(events.iter().map(|(_, event)| event.subscription.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    for (place, event) in &events {
        let told = told.try_recv().expect("told");
        assert!(told.is_fresh && told.place == *place && told.value == event.encode());
        assert_eq!(place.read(&shell).await.expect("read").as_ref(), Some(event));
    }

    let (place, event) = &events[0];
    let later = PendingEvent { attempts: 1, ..event.clone() };
    assert!(shell.execute(&Settle { place, to: Some(&later) }).await.expect("done"));
    assert_eq!(place.read(&shell).await.expect("read"), Some(later.clone()));
    assert!(shell.execute(&Settle { place, to: None }).await.expect("done"));
    // What is gone stays gone.
    assert!(!shell.execute(&Settle { place, to: Some(&later) }).await.expect("done"));
    assert_eq!(found(&shell).await.len(), 1);
}

/// Whoever has an event keeps it for a while, and whoever left it may have it again.
#[test]
fn claims_are_by_time() {
    let at = |seconds| Timestamp::UNIX_EPOCH.plus_seconds(seconds);
    let there = PendingEvent { claimed: at(100), ..pending() };
    let other = PendingEvent { attempts: there.attempts + 1, ..there.clone() };
    let place = Place { partition: key::events_partition(&account()), key: kept_key(&there) };
    for (left, now, is_there, expected) in [
        (None, 99, true, false),
        (None, 100, true, true),
        (Some(&there), 99, true, true),
        (Some(&other), 99, true, false),
        (Some(&other), 100, true, true),
        (None, 100, false, false),
    ] {
        let claim = Claim { place: &place, left };
        let moment = Moment { now: at(now), tick: 1, id: Id(1) };
        let (writes, taken) = claim.decide(is_there.then(|| there.clone()), moment).expect("never refused");
        assert_eq!(taken.map(|taken| taken.claimed), expected.then(|| at(now + CLAIM_SECONDS)), "{now}");
        assert_eq!(writes.len(), usize::from(expected));
    }
}

#[tokio::test]
async fn a_note_stays_while_it_may_be_needed() {
    let (shell, clock) = shell().await;
    let noted = async || holders(&shell, &account()).await.expect("read").len() - 1;
    let forget = async || {
        for holder in holders(&shell, &account()).await.expect("read") {
            holder.forget(&shell).await.expect("done");
        }
    };
    shell.execute(&Announcing::new("b", false)).await.expect("done");
    assert_eq!(noted().await, 1);
    clock.advance_seconds(2 * NOTE_SECONDS - 1);
    forget().await;
    assert_eq!(noted().await, 1);
    // Renewed by the next that announces something.
    shell.execute(&Announcing::new("b", false)).await.expect("done");
    clock.advance_seconds(NOTE_SECONDS);
    forget().await;
    assert_eq!(noted().await, 1);
    clock.advance_seconds(NOTE_SECONDS);
    forget().await;
    assert_eq!(noted().await, 0);
}

/// A deleted container takes no event with it, also when the fence comes after a crash.
#[tokio::test]
async fn events_outlive_their_container() {
    let (shell, _) = shell().await;
    let mut told = shell.outbox.take_told().expect("the first");
    for n in 0..300 {
        shell.execute(&Announcing::new(&format!("b{n}"), false)).await.expect("done");
    }
    let before: Vec<PendingEvent> = found_all(&shell).await;
    let tombstone = key::named_partition(Service::Blob, &account(), "c");
    for _ in 0..2 {
        let finished =
            crate::directory::finish_deletion(&shell, Service::Blob, &account(), tombstone.clone(), Id(7)).await;
        finished.expect("done");
        let mut after = found_all(&shell).await;
        after.sort_by_key(event_order);
        let mut expected = before.clone();
        expected.sort_by_key(event_order);
        assert_eq!(after, expected);
        assert_eq!(holders(&shell, &account()).await.expect("read").len(), 1, "nobody looks in it any more");
    }
    // The last that were told are where they are now.
    let mut last = None;
    while let Ok(told) = told.try_recv() {
        last = Some(told);
    }
    let last = last.expect("told");
    assert!(!last.is_fresh);
    assert_eq!(last.place.read(&shell).await.expect("read").expect("there").encode(), last.value);
}

fn event_order(pending: &PendingEvent) -> (u64, String) {
    (pending.event.sequence, pending.subscription.clone())
}

async fn found_all(shell: &Shell) -> Vec<PendingEvent> {
    let mut found = Vec::new();
    for holder in holders(shell, &account()).await.expect("read") {
        let mut after = None;
        loop {
            let looked = holder.look(shell, after).await.expect("read");
            found.extend(looked.events.into_iter().map(|(_, event)| event.expect("whole")));
            after = looked.next;
            if after.is_none() {
                break;
            }
        }
    }
    found
}
