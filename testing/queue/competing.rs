//! Promises Q1 and Q2 under contention: of any number of competing consumers exactly one gets a message while it is hidden, an old
//! receipt is refused, and the count is exact.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use engine::memory::MemoryEngine;
use engine::memory::shared::SharedMemory;
use testing::World;

use crate::{count, message, queue, send, values};

const MESSAGES: usize = 200;
const CONSUMERS: usize = 16;

#[tokio::test]
async fn each_message_goes_to_exactly_one_consumer() {
    consume_all(World::new().await).await;
}

#[tokio::test]
async fn each_message_goes_to_exactly_one_consumer_where_views_move() {
    consume_all(World::over(Arc::new(SharedMemory::new(MemoryEngine::new()))).await).await;
}

async fn consume_all(world: World) {
    let world = Arc::new(world);
    send(&world, queue("PUT line"), 201).await;
    let putting = (0..MESSAGES).map(|n| {
        let world = world.clone();
        tokio::spawn(async move { send(&world, queue("POST line/messages").body(message(&n.to_string())), 201).await })
    });
    for put in putting.collect::<Vec<_>>() {
        put.await.expect("put");
    }
    assert_eq!(count(&world, "line").await, MESSAGES as u64);

    // Two rounds: everything is received, half of it deleted; what is left comes again, once each, when its time is over.
    let mut dead: HashMap<String, String> = HashMap::new();
    for (round, expected) in [(1, MESSAGES), (2, MESSAGES / 2), (3, MESSAGES / 4)] {
        let received: Arc<Mutex<Vec<(String, String, String)>>> = Arc::default();
        let consumers = (0..CONSUMERS).map(|n| {
            let (world, received) = (world.clone(), received.clone());
            tokio::spawn(async move {
                let ask = format!("GET line/messages?numofmessages={}&visibilitytimeout=30", n % 5 + 1);
                loop {
                    let text = send(&world, queue(&ask), 200).await.text();
                    let (ids, receipts, counts) =
                        (values(&text, "MessageId"), values(&text, "PopReceipt"), values(&text, "DequeueCount"));
                    if ids.is_empty() {
                        return;
                    }
                    assert!(counts.iter().all(|count| *count == round.to_string()), "{text}");
                    let mut received = received.lock().expect("nobody panicked");
                    received.extend(
                        ids.into_iter().zip(receipts).zip(values(&text, "MessageText")).map(|((a, b), c)| (a, b, c)),
                    );
                }
            })
        });
        for consumer in consumers.collect::<Vec<_>>() {
            consumer.await.expect("consumed");
        }
        let received = std::mem::take(&mut *received.lock().expect("nobody panicked"));
        let distinct: HashSet<&String> = received.iter().map(|(id, ..)| id).collect();
        assert_eq!((received.len(), distinct.len()), (expected, expected), "round {round}");

        // A receipt of an earlier round is refused although its message is there.
        for (id, _, _) in &received {
            if let Some(old) = dead.get(id) {
                let stale = world.send(&with_receipt("DELETE", id, old)).await;
                assert_eq!((stale.status, stale.code()), (404, "MessageNotFound"));
            }
        }
        // Half of them are deleted, all at once.
        let deleting = received.iter().take(expected / 2).map(|(id, receipt, _)| {
            let (world, request) = (world.clone(), with_receipt("DELETE", id, receipt));
            tokio::spawn(async move { send(&world, request, 204).await })
        });
        for delete in deleting.collect::<Vec<_>>() {
            delete.await.expect("deleted");
        }
        assert_eq!(count(&world, "line").await, (expected - expected / 2) as u64);
        dead.extend(received.into_iter().map(|(id, receipt, _)| (id, receipt)));
        world.clock.advance_seconds(31);
    }
}

fn with_receipt(method: &str, id: &str, receipt: &str) -> testing::Request {
    queue(&format!("{method} line/messages/{id}?popreceipt={receipt}"))
}

/// A put that meets Clear Messages lands before it, and is gone, or after it, and is there; nothing is half there.
#[tokio::test]
async fn puts_go_on_while_the_queue_is_cleared() {
    let world = Arc::new(World::new().await);
    send(&world, queue("PUT line"), 201).await;
    for _ in 0..20 {
        let puts = (0..8).map(|n: usize| {
            let world = world.clone();
            tokio::spawn(async move {
                for m in 0..5 {
                    send(&world, queue("POST line/messages").body(message(&format!("{n} {m}"))), 201).await;
                    tokio::task::yield_now().await;
                }
            })
        });
        let puts: Vec<_> = puts.collect();
        send(&world, queue("DELETE line/messages"), 204).await;
        for put in puts {
            put.await.expect("put");
        }
        let left = count(&world, "line").await;
        let mut seen = 0;
        loop {
            let text = send(&world, queue("GET line/messages?numofmessages=32"), 200).await.text();
            let ids = values(&text, "MessageId");
            if ids.is_empty() {
                break;
            }
            seen += ids.len() as u64;
        }
        assert_eq!(seen, left);
        send(&world, queue("DELETE line/messages"), 204).await;
        assert_eq!(count(&world, "line").await, 0);
    }
    let gone = Arc::clone(&world);
    let deleting = tokio::spawn(async move { send(&gone, queue("DELETE line"), 204).await });
    for _ in 0..50 {
        let put = world.send(&queue("POST line/messages").body(message("x"))).await;
        assert!([(201, ""), (404, "QueueNotFound")].contains(&(put.status, put.code())), "{}", put.text());
        tokio::task::yield_now().await;
    }
    deleting.await.expect("deleted");
    assert_eq!(world.send(&queue("GET line/messages")).await.code(), "QueueNotFound");
}
