//! What requests cost in operations of the cluster. Each is a round trip, and what a gateway can do beside raw operations depends on their
//! number above all (docs/decisions/0019, Cost). A request that takes more of them than before fails here.

use std::sync::Arc;

use contract::Service;
use engine::BoxFuture;
use http::Bell;
use testing::Request;

use crate::gateway::{Cluster, Gateway, file, put_range};

/// Nobody else is there: everything is heard.
struct Alone;

impl Bell for Alone {
    fn is_missed(&self) -> bool {
        false
    }

    fn ring(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

fn put(path: &str, bytes: usize) -> Request {
    Request::new(&format!("PUT box/{path}")).header("x-ms-blob-type", "BlockBlob").body(vec![b'x'; bytes])
}

fn get(path: &str) -> Request {
    Request::new(&format!("GET box/{path}"))
}

fn queue(line: &str) -> Request {
    Request::new(line).of(Service::Queue)
}

fn message() -> Request {
    let text = "<QueueMessage><MessageText>text</MessageText></QueueMessage>";
    queue("POST line/messages").body(text)
}

fn table(line: &str) -> Request {
    let request = Request::new(line).of(Service::Table).header("Accept", "application/json;odata=nometadata");
    request.header("Content-Type", "application/json")
}

fn entity(row: &str) -> Request {
    table("POST people").body(format!("{{\"PartitionKey\":\"a\",\"RowKey\":\"{row}\",\"Name\":\"n\"}}"))
}

async fn prepared(cluster: &Cluster) -> Gateway {
    let gateway = cluster.gateway().await;
    for request in [
        Request::new("PUT box?restype=container"),
        put("small", 1024),
        put("large", 100 << 10),
        put("long", 3 << 20),
        queue("PUT line"),
        message(),
        table("POST Tables").body("{\"TableName\":\"people\"}"),
        entity("a"),
        file("PUT share?restype=share"),
        file("PUT share/f").header("x-ms-type", "file").header("x-ms-content-length", "8"),
        put_range("f", 0, "12345678"),
    ] {
        gateway.done(request).await;
    }
    gateway
}

#[tokio::test]
async fn operations_of_the_cluster() {
    let cluster = Cluster::new();
    let gateway = prepared(&cluster).await;
    gateway.world.app.set_bell(Arc::new(Alone));
    // The first request of each service brings its properties.
    for request in [get("small"), queue("GET line?comp=metadata"), table("GET Tables"), file("GET share/f")] {
        gateway.done(request).await;
    }
    let mut wrong = Vec::new();
    // The container, queue, table or share is one read in each, and opening the blob, queue, entity group or tree another.
    for (what, request, writes, reads) in [
        ("a small body comes with its head", get("small"), 0, 2),
        ("and so do properties", Request::new("HEAD box/small"), 0, 2),
        ("a body that is an object", get("large"), 0, 3),
        ("a body of several pieces", get("long"), 0, 5),
        ("a new blob", put("new", 1024), 1, 2),
        ("one in its place", put("new", 1024), 1, 2),
        ("admitted, the body, its name, a look", put("new-large", 100 << 10), 3, 4),
        ("with what it replaces, which is looked at apart", put("new-large", 100 << 10), 3, 5),
        ("a small one in its place", put("new-large", 10), 1, 4),
        ("metadata", Request::new("PUT box/small?comp=metadata").header("x-ms-meta-a", "b"), 1, 2),
        ("deletion", Request::new("DELETE box/small"), 1, 2),
        ("put message, and a look at what it writes", message(), 1, 3),
        ("get messages", queue("GET line/messages?numofmessages=2"), 1, 6),
        ("peek messages", queue("GET line/messages?peekonly=true"), 0, 4),
        ("insert entity, which is read apart", entity("b"), 1, 3),
        ("get entity", table("GET people(PartitionKey='a',RowKey='a')"), 0, 3),
        ("a file's bytes", file("GET share/f"), 0, 6),
        ("a file's range", put_range("f", 0, "abcdefgh"), 1, 10),
    ] {
        let before = cluster.objects.operations();
        gateway.done(request).await;
        let after = cluster.objects.operations();
        let cost = (after.0 - before.0, after.1 - before.1);
        if cost != (writes, reads) {
            wrong.push(format!("{what}: {cost:?} writes and reads, not {:?}", (writes, reads)));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// Where nobody tells of changed properties, each request reads them.
#[tokio::test]
async fn without_a_bell_properties_are_read_each_time() {
    let cluster = Cluster::new();
    let gateway = prepared(&cluster).await;
    for _ in 0..3 {
        let before = cluster.objects.operations();
        gateway.done(get("small")).await;
        let after = cluster.objects.operations();
        assert_eq!((after.0 - before.0, after.1 - before.1), (0, 3));
    }
}
