//! When events are delivered, again, and not any more.

use std::sync::Arc;
use std::time::Duration;

use contract::Service;
use env::ScriptedIds;
use http::events::{deliver_due, run};
use testing::{Request, Webhook, World};

use crate::{delivered, put, send, short, subscribe, subscription, taken, world};

/// The process dies between the commit and the delivery: the next one finds the event.
#[tokio::test]
async fn what_was_committed_is_delivered_after_a_crash() {
    let first = world().await;
    send(&first, put("box/b", "x"), 201).await;
    send(&first, Request::new("DELETE box/b"), 202).await;
    let (engine, clock) = (first.engine.clone(), first.clock.clone());
    drop(first);
    let ids = Arc::new(ScriptedIds::default());
    let next = World::with(engine, clock, ids).await.expect("opened");
    subscribe(&next, &[subscription("all", "queue:jobs")]);
    assert_eq!(delivered(&next).await.iter().map(short).collect::<Vec<_>>(), ["PutBlob box/b", "DeleteBlob box/b"]);
    assert_eq!(delivered(&next).await.len(), 0);
}

/// A deleted container tells what it did not tell before.
#[tokio::test]
async fn a_deleted_container_takes_no_event_with_it() {
    let world = world().await;
    send(&world, put("box/b", "x"), 201).await;
    send(&world, Request::new("DELETE box?restype=container"), 202).await;
    send(&world, Request::new("PUT box?restype=container"), 201).await;
    send(&world, put("box/c", "x"), 201).await;
    assert_eq!(delivered(&world).await.iter().map(short).collect::<Vec<_>>(), ["PutBlob box/b", "PutBlob box/c"]);
    assert_eq!(delivered(&world).await.len(), 0);
}

/// A queue that is not there yet is waited for.
#[tokio::test]
async fn a_queue_may_come_later() {
    let world = world().await;
    send(&world, Request::new("DELETE jobs").of(Service::Queue), 204).await;
    send(&world, put("box/b", "x"), 201).await;
    assert_eq!(deliver_due(&world.app).await.expect("done"), 1);
    send(&world, Request::new("PUT jobs").of(Service::Queue), 201).await;
    assert_eq!(deliver_due(&world.app).await.expect("done"), 0, "not due yet");
    world.clock.advance_seconds(10);
    assert_eq!(delivered(&world).await.iter().map(short).collect::<Vec<_>>(), ["PutBlob box/b"]);
}

async fn hooked() -> (World, Webhook) {
    let (world, hook) = (world().await, Webhook::serve().await);
    let mut to_hook = subscription("hook", &hook.url());
    to_hook.dead_letter = Some("dead".into());
    subscribe(&world, &[to_hook]);
    (world, hook)
}

#[tokio::test]
async fn a_webhook_that_fails_is_tried_again() {
    let (world, hook) = hooked().await;
    hook.answer([500, 503, 302]);
    send(&world, put("box/b", "x"), 201).await;
    // The pauses: 10 s; 30 s; 60 s.
    for (pause, attempts) in [(0, 1), (9, 0), (1, 1), (29, 0), (1, 1), (59, 0), (1, 1), (100_000, 0)] {
        world.clock.advance_seconds(pause);
        assert_eq!(deliver_due(&world.app).await.expect("done"), attempts, "after {pause} s");
    }
    let called = hook.called();
    let kinds: Vec<_> = called.iter().map(|call| call.header("aeg-event-type").unwrap_or_default()).collect();
    assert_eq!(kinds, ["SubscriptionValidation", "Notification", "Notification", "Notification", "Notification"]);
    assert!(called[0].head.starts_with("POST /hook?code=secret HTTP/1.1"), "{}", called[0].head);
    assert_eq!(called[0].body[0]["eventType"], "Microsoft.EventGrid.SubscriptionValidationEvent");
    assert_eq!(called[1].header("content-type"), Some("application/json; charset=utf-8"));
    assert_eq!(called[1].header("aeg-subscription-name"), Some("HOOK"));
    assert_eq!(called[4].header("aeg-delivery-count"), Some("3"));
    let events = hook.events();
    assert_eq!(events.iter().map(short).collect::<Vec<_>>(), ["PutBlob box/b"; 4]);
    assert!(events.iter().all(|event| event["id"] == events[0]["id"]), "one event has one id");
}

/// No events before it said that it wants them.
#[tokio::test]
async fn a_webhook_must_be_valid() {
    let (world, hook) = hooked().await;
    send(&world, put("box/b", "x"), 201).await;
    for wrong in ["", "{}", "{\"validationResponse\":\"other\"}"] {
        hook.answer_validation(Some(wrong));
        assert_eq!(deliver_due(&world.app).await.expect("done"), 1);
        world.clock.advance_seconds(60);
    }
    assert_eq!(hook.events().len(), 0);
    hook.answer_validation(None);
    assert_eq!(deliver_due(&world.app).await.expect("done"), 1);
    assert_eq!(hook.events().len(), 1);
    assert_eq!(hook.called().len(), 5, "asked three times in vain, once well, then told");
    send(&world, put("box/c", "x"), 201).await;
    deliver_due(&world.app).await.expect("done");
    assert_eq!(hook.called().len(), 6, "not asked again");
}

#[tokio::test]
async fn what_is_given_up_becomes_a_dead_letter() {
    let (world, hook) = hooked().await;
    hook.answer([400]);
    send(&world, put("box/b", "x"), 201).await;
    assert_eq!(deliver_due(&world.app).await.expect("done"), 1);
    // There is no container for it yet.
    send(&world, Request::new("PUT dead?restype=container"), 201).await;
    world.clock.advance_seconds(299);
    assert_eq!(deliver_due(&world.app).await.expect("done"), 0);
    world.clock.advance_seconds(1);
    assert_eq!(deliver_due(&world.app).await.expect("done"), 1);
    assert_eq!(hook.events().len(), 1, "it is not sent again");
    let id = hook.events()[0]["id"].as_str().expect("text").to_string();
    let letter = send(&world, Request::new(&format!("GET dead/hook/2026/01/02/03/{id}.json")), 200).await;
    let letter: serde_json::Value = serde_json::from_slice(letter.text().as_bytes()).expect("json");
    assert_eq!(letter[0]["deadLetterReason"], "UndeliverableDueToHttpBadRequest");
    assert_eq!((&letter[0]["deliveryAttempts"], &letter[0]["lastDeliveryOutcome"]), (&1.into(), &"BadRequest".into()));
    assert_eq!(letter[0]["data"], hook.events()[0]["data"]);
    world.clock.advance_seconds(100_000);
    assert_eq!(deliver_due(&world.app).await.expect("done"), 0, "nobody is told of a dead letter, and nothing is left");
}

/// After a day an event that nobody takes is dropped; one of a subscription that nobody knows, too, and not before.
#[tokio::test]
async fn a_day_is_enough() {
    let world = world().await;
    send(&world, Request::new("DELETE jobs").of(Service::Queue), 204).await;
    send(&world, put("box/b", "x"), 201).await;
    subscribe(&world, &[]);
    deliver_due(&world.app).await.expect("done");
    world.clock.advance_seconds(24 * 3600 - 1);
    assert_eq!(deliver_due(&world.app).await.expect("done"), 0);
    world.clock.advance_seconds(1);
    assert_eq!(deliver_due(&world.app).await.expect("done"), 1);
    subscribe(&world, &[subscription("all", "queue:jobs")]);
    assert_eq!(deliver_due(&world.app).await.expect("done"), 0);

    send(&world, put("box/b", "x"), 201).await;
    let mut attempts = 0;
    for _ in 0..25 * 60 {
        attempts += deliver_due(&world.app).await.expect("done");
        world.clock.advance_seconds(60);
    }
    assert_eq!(attempts, 12, "eleven attempts, and the end");
    send(&world, Request::new("PUT jobs").of(Service::Queue), 201).await;
    world.clock.advance_seconds(100_000);
    assert_eq!(delivered(&world).await.len(), 0);
}

/// As the server does it: told from memory, in order for each blob, also beside a webhook that is not there.
#[tokio::test]
async fn events_are_delivered_as_they_come() {
    let (world, hook) = (world().await, Webhook::serve().await);
    let nobody = format!("http://127.0.0.1:{}/", Webhook::serve().await.port);
    subscribe(
        &world,
        &[subscription("hook", &hook.url()), subscription("nobody", &nobody), subscription("all", "queue:jobs")],
    );
    let running = tokio::spawn(run(world.app.clone()));
    for n in 0..40 {
        send(&world, put(&format!("box/{}", n % 4), &"x".repeat(n)), 201).await;
    }
    let told = tokio::time::timeout(Duration::from_secs(30), async {
        let mut queued = 0;
        while hook.events().len() < 40 || queued < 40 {
            queued += taken(&world).await.len();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    told.await.expect("within half a minute");
    for name in 0..4 {
        let of_blob: Vec<_> =
            hook.events().into_iter().filter(|event| short(event) == format!("PutBlob box/{name}")).collect();
        assert_eq!(of_blob.len(), 10);
        assert!(of_blob.is_sorted_by_key(|event| event["data"]["sequencer"].as_str().expect("text").to_string()));
        assert!(of_blob.is_sorted_by_key(|event| event["data"]["contentLength"].as_u64()));
    }
    // What is left at last is for the one who is not there.
    let settled = tokio::time::timeout(Duration::from_secs(30), async {
        while left(&world).await != vec!["nobody"; 40] {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    settled.await.expect("within half a minute");
    running.abort();
}

/// The subscriptions of all events that are not delivered.
async fn left(world: &World) -> Vec<String> {
    let account = contract::names::AccountName::parse(testing::ACCOUNT).expect("right");
    let mut left = Vec::new();
    for holder in partition::events::holders(&world.app.shell, &account).await.expect("read") {
        left.extend(holder.look(&world.app.shell, None).await.expect("read").events);
    }
    left.into_iter().map(|(_, event)| event.expect("whole").subscription).collect()
}
