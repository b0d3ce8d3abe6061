//! Events: which operations raise one, that none is lost or invented, when they are tried again, and who is told.

mod delivery;
mod operations;
mod shared;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::Service;
use http::events::{SubscriptionSettings, Subscriptions, deliver_due};
use serde_json::Value;
use testing::{Answer, Request, World};

pub fn subscription(name: &str, to: &str) -> SubscriptionSettings {
    SubscriptionSettings { name: name.into(), to: to.into(), ..SubscriptionSettings::default() }
}

pub fn subscribe(world: &World, settings: &[SubscriptionSettings]) {
    world.app.set_subscriptions(Subscriptions::parse(settings).expect("right"));
}

pub async fn send(world: &World, request: Request, status: u16) -> Answer {
    let answer = world.send(&request).await;
    assert_eq!(answer.status, status, "{} {} {:?}: {}", request.method, request.path, request.query, answer.text());
    answer
}

pub fn put(blob: &str, content: &str) -> Request {
    Request::new(&format!("PUT {blob}")).header("x-ms-blob-type", "BlockBlob").body(content)
}

/// A world whose blobs are told to the queue `jobs`, with the container `box`.
pub async fn world() -> World {
    let world = World::new().await;
    furnish(&world).await;
    world
}

pub async fn furnish(world: &World) {
    subscribe(world, &[subscription("all", "queue:jobs")]);
    send(world, Request::new("PUT box?restype=container"), 201).await;
    send(world, Request::new("PUT jobs").of(Service::Queue), 201).await;
}

/// What is due is delivered; then everything that the queue got, and no more.
pub async fn delivered(world: &World) -> Vec<Value> {
    deliver_due(&world.app).await.expect("delivered");
    taken(world).await
}

pub async fn taken(world: &World) -> Vec<Value> {
    let mut events = Vec::new();
    loop {
        let got = Request::new("GET jobs/messages?numofmessages=32&visibilitytimeout=600").of(Service::Queue);
        let answer = send(world, got, 200).await;
        let before = events.len();
        for text in answer.text().split("<MessageText>").skip(1).filter_map(|rest| rest.split_once("</MessageText>")) {
            let json = STANDARD.decode(text.0).expect("base64");
            events.push(serde_json::from_slice(&json).expect("json"));
        }
        if events.len() == before {
            return events;
        }
    }
}

/// `PutBlob box/b`: what an event is about.
pub fn short(event: &Value) -> String {
    let subject = event["subject"].as_str().expect("text");
    let path =
        subject.strip_prefix("/blobServices/default/containers/").expect("a subject").replacen("/blobs/", "/", 1);
    let kind = event["eventType"].as_str().expect("text");
    let api = event["data"]["api"].as_str().expect("text");
    let is_deleted = kind == "Microsoft.Storage.BlobDeleted";
    assert_eq!(is_deleted, api == "DeleteBlob", "{event}");
    format!("{api} {path}")
}
