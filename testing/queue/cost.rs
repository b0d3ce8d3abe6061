//! What Get Messages costs, in rows that are read or stepped over, on an engine where what was deleted stays in the way for ever.

use std::sync::Arc;

use bytes::Bytes;
use contract::names::{AccountName, Metadata, QueueName};
use env::{Clock, ScriptedClock, ScriptedIds};
use partition::Shell;
use partition::queue::message::{self, Queue, TimeToLive};
use partition::queue::{CreateQueue, clear};

use crate::crossing::CrossingEngine;
use crate::names;

struct Bench {
    engine: Arc<CrossingEngine>,
    clock: Arc<ScriptedClock>,
    shell: Shell,
    account: AccountName,
    name: QueueName,
}

impl Bench {
    async fn new() -> Bench {
        let start = env::Timestamp::parse_iso8601("2026-01-02T03:04:05Z").expect("well formed");
        let (engine, clock) = (Arc::new(CrossingEngine::default()), Arc::new(ScriptedClock::at(start)));
        let shell = Shell::open(engine.clone(), clock.clone(), Arc::new(ScriptedIds::default())).await.expect("opens");
        let (account, name) = names("line");
        shell.execute(&CreateQueue::new(&account, &name, Metadata::default())).await.expect("created");
        Bench { engine, clock, shell, account, name }
    }

    fn queue(&self) -> Queue<'_> {
        Queue { account: &self.account, name: &self.name }
    }

    async fn put(&self, messages: usize, hidden_seconds: u64) {
        for _ in 0..messages {
            let text = Bytes::from_static(b"text");
            message::put(&self.shell, self.queue(), text, hidden_seconds, TimeToLive::Forever).await.expect("put");
            self.clock.set(self.clock.now().plus_ticks(100));
        }
    }

    /// Receives one, and tells what it touched and whether there was one.
    async fn get(&self, visibility_seconds: u64) -> (u64, Option<message::Received>) {
        self.engine.touched();
        let received = message::get(&self.shell, self.queue(), 1, visibility_seconds).await.expect("received");
        (self.engine.touched(), received.into_iter().next())
    }

    async fn get_and_delete(&self) -> u64 {
        let (touched, received) = self.get(30).await;
        let received = received.expect("there are some").message;
        message::delete(&self.shell, self.queue(), (received.id, received.receipt)).await.expect("deleted");
        touched
    }
}

/// The directory, the state, one place, one text; with some room for the next idea.
const ROWS_MAX: u64 = 8;

#[tokio::test]
async fn a_receive_costs_the_same_at_10_and_at_100_000_messages() {
    let bench = Bench::new().await;
    bench.put(10, 0).await;
    let at_ten = bench.get(30).await.0;
    assert!(at_ten <= ROWS_MAX, "{at_ten}");
    bench.put(100_000, 0).await;
    for _ in 0..100 {
        assert_eq!(bench.get(600).await.0, at_ten);
    }
}

#[tokio::test]
async fn hidden_messages_are_not_in_the_way() {
    let bench = Bench::new().await;
    bench.put(50_000, 3600).await;
    // Nothing is visible: the floor is the first hidden one, and that is all there is to look at.
    let (touched, received) = bench.get(30).await;
    assert!(received.is_none() && touched <= ROWS_MAX, "{touched}");
    bench.put(10, 0).await;
    for _ in 0..10 {
        let (touched, received) = bench.get(30).await;
        assert!(received.is_some() && touched <= ROWS_MAX, "{touched}");
    }
}

#[tokio::test]
async fn what_came_and_went_is_not_in_the_way() {
    let bench = Bench::new().await;
    bench.put(10, 0).await;
    let mut worst = 0;
    for _ in 0..20_000 {
        worst = worst.max(bench.get_and_delete().await);
        bench.put(1, 0).await;
    }
    assert!(worst <= ROWS_MAX, "{worst}");

    // Half a minute later the places in which the deleted ones were hidden lie before now. They are crossed once, by the next receive.
    bench.clock.advance_seconds(31);
    bench.get_and_delete().await;
    for _ in 0..9 {
        assert!(bench.get_and_delete().await <= ROWS_MAX);
    }
    // And by a poll that finds nothing: one is left and hidden, beyond all that was removed.
    bench.put(20_001, 0).await;
    for _ in 0..20_000 {
        bench.get_and_delete().await;
    }
    assert!(bench.get(7 * 24 * 3600).await.1.is_some());
    bench.clock.advance_seconds(3600);
    let before = bench.engine.commits();
    let (crossing, received) = bench.get(30).await;
    assert!(received.is_none() && crossing > 20_000, "{crossing}");
    let mut rest = 0;
    for _ in 0..1000 {
        rest += bench.get(30).await.0;
        bench.clock.advance_seconds(1);
    }
    assert!(rest <= 1000 * ROWS_MAX, "{rest}");
    assert_eq!(bench.engine.commits() - before, 1, "polling an idle queue writes nothing");
}

/// An empty queue is known to be empty.
#[tokio::test]
async fn polling_an_empty_queue_is_cheap_and_writes_nothing() {
    let bench = Bench::new().await;
    bench.put(5000, 0).await;
    for _ in 0..5000 {
        bench.get_and_delete().await;
    }
    let before = bench.engine.commits();
    for _ in 0..200 {
        let (touched, received) = bench.get(30).await;
        assert!(received.is_none() && touched <= ROWS_MAX, "{touched}");
        bench.clock.advance_seconds(1);
    }
    assert_eq!(bench.engine.commits(), before);
}

#[tokio::test]
async fn clearing_costs_the_same_whatever_there_was() {
    let bench = Bench::new().await;
    let mut costs = Vec::new();
    for messages in [1, 10_000] {
        bench.put(messages, 0).await;
        bench.engine.touched();
        clear(&bench.shell, &bench.account, &bench.name).await.expect("cleared");
        costs.push(bench.engine.touched());
        assert_eq!(message::read(&bench.shell, bench.queue()).await.expect("there").1, 0);
    }
    assert_eq!(costs[0], costs[1]);
}

/// A clock that was set back: what was put before and after is found, and what was received before stays hidden until then.
#[tokio::test]
async fn a_clock_that_goes_back_hides_nothing_for_ever() {
    let bench = Bench::new().await;
    bench.put(3, 0).await;
    assert!(bench.get(1).await.1.is_some());
    bench.clock.set(bench.clock.now().minus_seconds(3600));
    bench.put(2, 0).await;
    for _ in 0..4 {
        assert!(bench.get(1).await.1.is_some());
    }
    assert!(bench.get(1).await.1.is_none());
    bench.clock.advance_seconds(2);
    assert!(bench.get(5).await.1.is_some() && bench.get(5).await.1.is_some());
    bench.clock.advance_seconds(3601);
    for _ in 0..5 {
        assert!(bench.get(600).await.1.is_some());
    }
    assert!(bench.get(600).await.1.is_none());
}
