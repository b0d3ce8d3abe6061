//! For each operation a request that succeeds, and the world it succeeds in: container `box` with blob `b`.

use contract::OperationId;
use contract::operations::Operation;
use testing::{Answer, Request, World};

pub async fn world() -> World {
    let world = World::new().await;
    for request in [
        Request::new("PUT box?restype=container"),
        Request::new("PUT box/b").header("x-ms-blob-type", "BlockBlob").body("content"),
    ] {
        assert_eq!(world.send(&request).await.status, 201);
    }
    world.clock.advance_seconds(10);
    world
}

pub fn example(row: &Operation) -> Request {
    match row.id {
        OperationId::ListContainers => Request::new("GET ?comp=list"),
        OperationId::CreateContainer => Request::new("PUT new-box?restype=container"),
        OperationId::GetContainerProperties => Request::new("GET box?restype=container"),
        OperationId::GetContainerMetadata => Request::new("GET box?restype=container&comp=metadata"),
        OperationId::SetContainerMetadata => Request::new("PUT box?restype=container&comp=metadata").header("x-ms-meta-a", "1"),
        OperationId::DeleteContainer => Request::new("DELETE box?restype=container"),
        OperationId::ListBlobs => Request::new("GET box?restype=container&comp=list"),
        OperationId::PutBlockBlob => Request::new("PUT box/b").header("x-ms-blob-type", "BlockBlob").body("other content"),
        OperationId::GetBlob => Request::new("GET box/b"),
        OperationId::GetBlobProperties => Request::new("HEAD box/b"),
        OperationId::DeleteBlob => Request::new("DELETE box/b"),
    }
}

/// ETag and Last-Modified of what the operation works on.
pub async fn current(world: &World, row: &Operation) -> (String, String) {
    use contract::operations::Resource;
    let request = match row.on {
        Resource::Blob => Request::new("HEAD box/b"),
        Resource::Container | Resource::Account => Request::new("GET box?restype=container"),
    };
    let answer = world.send(&request).await;
    let header = |name| answer.header(name).expect("what is there has it").to_string();
    (header("etag"), header("last-modified"))
}

/// Everything a client can see, to prove that a refused request changed nothing.
pub async fn everything(world: &World) -> String {
    let mut seen = String::new();
    for line in ["GET ?comp=list&include=metadata", "GET box?restype=container&comp=list&include=metadata", "GET box/b"] {
        let answer: Answer = world.send(&Request::new(line)).await;
        seen.push_str(answer.header("etag").unwrap_or_default());
        seen.push_str(&answer.text());
    }
    seen
}
