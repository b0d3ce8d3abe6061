//! For each operation a request that succeeds, and the world it succeeds in: container `box` with blob `b`.

use contract::operations::{Operation, Resource, Test};
use contract::{OperationId, Service};
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

/// The rows that are built, and so have an example that succeeds.
pub fn built() -> impl Iterator<Item = &'static Operation> {
    Service::ALL.into_iter().flat_map(|service| service.rows()).filter(|row| row.built)
}

/// Every row of every service.
pub fn every() -> impl Iterator<Item = (Service, &'static Operation)> {
    Service::ALL.into_iter().flat_map(|service| service.rows().iter().map(move |row| (service, row)))
}

pub fn example(row: &Operation) -> Request {
    match row.id {
        OperationId::ListContainers => Request::new("GET ?comp=list"),
        OperationId::CreateContainer => Request::new("PUT new-box?restype=container"),
        OperationId::GetContainerProperties => Request::new("GET box?restype=container"),
        OperationId::GetContainerMetadata => Request::new("GET box?restype=container&comp=metadata"),
        OperationId::SetContainerMetadata => {
            Request::new("PUT box?restype=container&comp=metadata").header("x-ms-meta-a", "1")
        }
        OperationId::GetContainerAcl => Request::new("GET box?restype=container&comp=acl"),
        OperationId::SetContainerAcl => {
            Request::new("PUT box?restype=container&comp=acl").header("x-ms-blob-public-access", "blob")
        }
        OperationId::DeleteContainer => Request::new("DELETE box?restype=container"),
        OperationId::ListBlobs => Request::new("GET box?restype=container&comp=list"),
        OperationId::PutBlockBlob => {
            Request::new("PUT box/b").header("x-ms-blob-type", "BlockBlob").body("other content")
        }
        OperationId::GetBlob => Request::new("GET box/b"),
        OperationId::GetBlobProperties => Request::new("HEAD box/b"),
        OperationId::DeleteBlob => Request::new("DELETE box/b"),
        id => panic!("{id:?} is built and has no example yet"),
    }
}

/// A request that chooses the row, made from its columns alone.
pub fn chosen(service: Service, row: &Operation) -> Request {
    let path = match row.on {
        Resource::Anything | Resource::Account => "",
        Resource::Container => "box",
        Resource::Blob => "box/b",
        Resource::Queue => "line",
        Resource::Messages => "line/messages",
        Resource::Message => "line/messages/01234567-89ab-cdef-0123-456789abcdef",
        Resource::Tables => "Tables",
        Resource::Table => "Tables('people')",
        Resource::Entities => "people",
        Resource::Entity => "people(PartitionKey='a',RowKey='b')",
        Resource::TableBatch => "$batch",
        Resource::Share => "share",
        Resource::Directory => "share/directory",
        Resource::File => "share/file",
    };
    let mut request = Request::new(&format!("{} {path}", row.methods[0].name())).of(service);
    for (name, value) in [("restype", row.chosen_by.restype), ("comp", row.chosen_by.comp)] {
        request.query.extend(value.map(|value| (name.to_string(), value.to_string())));
    }
    for test in row.chosen_by.tests {
        request = match test {
            Test::HeaderIs(name, value) => request.header(name, *value),
            Test::HeaderSent(name) => request.header(name, "*"),
            Test::QueryIs(name, value) => {
                request.query.push((name.to_string(), value.to_string()));
                request
            }
            Test::QuerySent(name) => {
                request.query.push((name.to_string(), "1".into()));
                request
            }
            Test::HeaderNotSent(_) | Test::QueryIsNot(..) | Test::QueryNotSent(_) => request,
        };
    }
    request
}

/// ETag and Last-Modified of what the operation works on.
pub async fn current(world: &World, row: &Operation) -> (String, String) {
    let request = match row.on {
        Resource::Blob => Request::new("HEAD box/b"),
        _ => Request::new("GET box?restype=container"),
    };
    let answer = world.send(&request).await;
    let header = |name| answer.header(name).expect("what is there has it").to_string();
    (header("etag"), header("last-modified"))
}

/// Everything a client can see, to prove that a refused request changed nothing.
pub async fn everything(world: &World) -> String {
    let mut seen = String::new();
    for line in ["GET ?comp=list&include=metadata", "GET box?restype=container&comp=list&include=metadata", "GET box/b"]
    {
        let answer: Answer = world.send(&Request::new(line)).await;
        seen.push_str(answer.header("etag").unwrap_or_default());
        seen.push_str(&answer.text());
    }
    seen
}
