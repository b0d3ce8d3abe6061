//! Expired messages are never shown, and give their space back.

use std::sync::Arc;

use engine::{Family, GroupRange, ScanStart};
use partition::queue::message;
use testing::World;

use crate::crossing::CrossingEngine;
use crate::{count, message as body, names, queue, send, values};

/// Records of the queue's messages, of all kinds.
async fn records(world: &World) -> usize {
    let (account, name) = names("line");
    let found = partition::queue::find(&world.app.shell, &account, &name).await.expect("there");
    let mut records = 0;
    for family in 1..=4 {
        let range = GroupRange {
            group: found.group.clone(),
            family: Family(family),
            start: ScanStart::AtPartition(Default::default()),
            before_partition: None,
        };
        records += world.engine.scan(&range, 10_000).await.expect("read").rows.len();
    }
    records
}

async fn world(messages: usize, line: &str) -> World {
    let world = World::over(Arc::new(CrossingEngine::default())).await;
    send(&world, queue("PUT line"), 201).await;
    for n in 0..messages {
        send(&world, queue(line).body(body(&n.to_string())), 201).await;
    }
    world
}

/// | a message that lives ten seconds | asked after | seen |
#[tokio::test]
async fn nobody_sees_what_expired() {
    for (seconds, alive) in [(0, true), (9, true), (10, false), (11, false), (100_000, false)] {
        let world = world(1, "POST line/messages?messagettl=10").await;
        world.clock.advance_seconds(seconds);
        let peeked = send(&world, queue("GET line/messages?peekonly=true"), 200).await.text();
        let got = send(&world, queue("GET line/messages"), 200).await.text();
        assert_eq!((peeked.contains("MessageText"), got.contains("MessageText")), (alive, alive), "{seconds}");
        assert_eq!(count(&world, "line").await, u64::from(alive), "{seconds}");
    }
}

/// The receipt of a message dies with it, hidden or not, swept or not.
#[tokio::test]
async fn receipts_die_with_their_messages() {
    let world = world(1, "POST line/messages?messagettl=10").await;
    let got = send(&world, queue("GET line/messages?visibilitytimeout=600"), 200).await.text();
    let (id, receipt) = (values(&got, "MessageId").remove(0), values(&got, "PopReceipt").remove(0));
    let late = queue(&format!("PUT line/messages/{id}?popreceipt={receipt}&visibilitytimeout=11"));
    let answer = world.send(&late).await;
    assert_eq!((answer.status, answer.code()), (400, "InvalidQueryParameterValue"));
    world.clock.advance_seconds(10);
    for line in [
        format!("DELETE line/messages/{id}?popreceipt={receipt}"),
        format!("PUT line/messages/{id}?popreceipt={receipt}&visibilitytimeout=0"),
    ] {
        let answer = world.send(&queue(&line)).await;
        assert_eq!((answer.status, answer.code()), (404, "MessageNotFound"), "{line}");
    }
}

/// More expired messages than one commit removes, and one behind them that is alive.
#[tokio::test]
async fn a_receive_goes_on_past_any_number_of_expired_messages() {
    let world = world(600, "POST line/messages?messagettl=10").await;
    send(&world, queue("POST line/messages").body(body("alive")), 201).await;
    world.clock.advance_seconds(10);
    let got = send(&world, queue("GET line/messages"), 200).await.text();
    assert_eq!(values(&got, "MessageText"), ["alive"]);
    assert_eq!((count(&world, "line").await, records(&world).await), (1, 4));
}

#[tokio::test]
async fn a_peek_goes_on_past_any_number_of_expired_messages() {
    let world = world(600, "POST line/messages?messagettl=10").await;
    send(&world, queue("POST line/messages").body(body("alive")), 201).await;
    world.clock.advance_seconds(10);
    let seen = send(&world, queue("GET line/messages?peekonly=true"), 200).await.text();
    assert_eq!(values(&seen, "MessageText"), ["alive"]);
}

/// Hidden ones are not crossed by anybody; puts remove a few each.
#[tokio::test]
async fn commands_remove_a_few_in_passing() {
    let world = world(40, "POST line/messages?messagettl=10&visibilitytimeout=5").await;
    world.clock.advance_seconds(12);
    for left in [33, 26, 19, 12, 5, 6, 7] {
        send(&world, queue("POST line/messages").body(body("x")), 201).await;
        assert_eq!(count(&world, "line").await, left);
    }
}

#[tokio::test]
async fn the_sweeper_looks_where_nobody_does() {
    let world = world(1200, "POST line/messages?messagettl=10&visibilitytimeout=5").await;
    send(&world, queue("POST line/messages?messagettl=-1").body(body("for ever")), 201).await;
    let (account, _) = names("line");
    let sweep = || message::sweep(&world.app.shell, &account);
    assert_eq!(sweep().await.expect("swept"), 0);
    world.clock.advance_seconds(10);
    assert_eq!(sweep().await.expect("swept"), 1200);
    assert_eq!(sweep().await.expect("swept"), 0);
    // Its place, its pointer and its text: what lives for ever has no expiry.
    assert_eq!((count(&world, "line").await, records(&world).await), (1, 3));
}
