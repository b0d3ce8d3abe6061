//! Two clocks that differ, or one that was set back: what was put to be visible at once is, and what is hidden stays so.

use std::sync::Arc;

use env::{TICKS_PER_SECOND, Timestamp};
use testing::World;

use crate::crossing::CrossingEngine;
use crate::{message as body, queue, send, values};

/// A queue, and a way to say what the clock shows, in seconds since the test began.
async fn world() -> (World, impl Fn(&World, u64)) {
    let world = World::over(Arc::new(CrossingEngine::default())).await;
    send(&world, queue("PUT line"), 201).await;
    let start = env::Clock::now(world.clock.as_ref()).ticks();
    (world, move |world, seconds| world.clock.set(Timestamp::from_ticks(start + seconds * TICKS_PER_SECOND)))
}

async fn put(world: &World, text: &str) {
    send(world, queue("POST line/messages").body(body(text)), 201).await;
}

async fn peek(world: &World) -> Vec<String> {
    let seen = send(world, queue("GET line/messages?peekonly=true&numofmessages=32"), 200).await;
    values(&seen.text(), "MessageText")
}

/// E1: an acknowledged message is there for whoever asks next.
#[tokio::test]
async fn a_message_is_there_for_a_clock_that_is_behind() {
    let (world, at) = world().await;
    at(&world, 10);
    put(&world, "a").await;
    at(&world, 5);
    assert_eq!(peek(&world).await, ["a"]);
    let got = send(&world, queue("GET line/messages?visibilitytimeout=2"), 200).await.text();
    assert_eq!(values(&got, "MessageText"), ["a"]);
    assert!(peek(&world).await.is_empty(), "hidden until the seventh second");
    at(&world, 7);
    assert_eq!(peek(&world).await, ["a"]);
}

#[tokio::test]
async fn a_message_that_was_given_back_is_there_for_a_clock_that_is_behind() {
    let (world, at) = world().await;
    at(&world, 10);
    put(&world, "a").await;
    let got = send(&world, queue("GET line/messages?visibilitytimeout=60"), 200).await.text();
    let (id, receipt) = (values(&got, "MessageId").remove(0), values(&got, "PopReceipt").remove(0));
    let back = format!("PUT line/messages/{id}?popreceipt={receipt}&visibilitytimeout=0");
    send(&world, queue(&back), 204).await;
    at(&world, 5);
    assert_eq!(peek(&world).await, ["a"]);
}

/// However far a receive looks ahead of its clock, it takes only what is to be visible at once; and what it passed is found in time.
#[tokio::test]
async fn what_is_hidden_stays_hidden() {
    let (world, at) = world().await;
    put(&world, "hidden").await;
    send(&world, queue("GET line/messages?visibilitytimeout=30"), 200).await;
    at(&world, 40);
    put(&world, "b").await;
    put(&world, "c").await;
    for (seconds, expected) in [(10, ["b"].as_slice()), (11, &["c"]), (12, &[]), (29, &[]), (31, &["hidden"])] {
        at(&world, seconds);
        let got = send(&world, queue("GET line/messages?visibilitytimeout=600"), 200).await.text();
        assert_eq!(values(&got, "MessageText"), expected, "at {seconds}");
    }
}
