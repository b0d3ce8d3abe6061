//! Two gateways on one cluster: each event is one gateway's at a time, and the other's when that one is gone.

use std::sync::Arc;

use env::{ScriptedClock, SystemIds, Timestamp};
use http::events::deliver_due;
use rados::fake::Fake;
use testing::{World, cluster};

use crate::{delivered, furnish, put, send, short, subscribe, subscription};

async fn gateway(objects: &Fake, clock: &Arc<ScriptedClock>) -> World {
    let engine = cluster::over(Arc::new(objects.clone()), clock.clone()).await;
    let world = World::with(engine, clock.clone(), Arc::new(SystemIds::new())).await.expect("opened");
    world.app.join_peers().await.expect("joined");
    subscribe(&world, &[subscription("all", "queue:jobs")]);
    world
}

#[tokio::test]
async fn an_event_is_one_gateways_at_a_time() {
    let start = Timestamp::parse_iso8601("2026-01-02T03:04:05Z").expect("well formed");
    let (objects, clock) = (Fake::default(), Arc::new(ScriptedClock::at(start)));
    let (one, other) = (gateway(&objects, &clock).await, gateway(&objects, &clock).await);
    furnish(&one).await;
    send(&one, put("box/b", "x"), 201).await;
    // The one that wrote it has it for two minutes; it dies.
    drop(one);
    assert_eq!(deliver_due(&other.app).await.expect("done"), 0);
    clock.advance_seconds(119);
    assert_eq!(deliver_due(&other.app).await.expect("done"), 0);
    clock.advance_seconds(1);
    let third = gateway(&objects, &clock).await;
    let (events, again) = (delivered(&other).await, delivered(&third).await);
    assert_eq!(events.iter().map(short).collect::<Vec<_>>(), ["PutBlob box/b"]);
    assert_eq!(again.len(), 0);
    clock.advance_seconds(1000);
    assert_eq!(deliver_due(&third.app).await.expect("done"), 0);
}
