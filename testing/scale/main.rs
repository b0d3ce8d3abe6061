//! What an operation costs does not grow with what is stored: records of the engine that each touches, read and written, and blocks that
//! they lie in, counted at a thousand stored objects and at very many. Times, which are the machine's as well, stand beside them.
//!
//! `LAZULI_SCALE_OBJECTS` says how many are very many: 5,000,000 in `./test full`.

mod touched;

use std::sync::Arc;

use contract::Service;
use env::Stopwatch;
use testing::{Request, World};
use tokio::task::JoinSet;
use touched::Touched;

const FEW: u64 = 1000;
const MANY: u64 = 10_000;
const FILLERS: u64 = 64;
/// How often each operation is done while it is counted.
const TIMES: u64 = 20;
/// The two counts may differ by so much.
const TOLERANCE: f64 = 0.25;
/// And blocks by one, besides: a filter is wrong once in a hundred times, and a range is looked for in tables that were not merged yet.
const BLOCKS_MORE: f64 = 1.0;

/// One operation, as a request made from the number of an object: one that is there, or one that is not yet.
struct Operation {
    name: &'static str,
    expect: u16,
    request: fn(u64) -> Request,
    is_new: bool,
}

const fn on_old(name: &'static str, expect: u16, request: fn(u64) -> Request) -> Operation {
    Operation { name, expect, request, is_new: false }
}

const fn on_new(name: &'static str, expect: u16, request: fn(u64) -> Request) -> Operation {
    Operation { name, expect, request, is_new: true }
}

/// A kind of object, in one container, queue, partition or directory: what holds it, how one is made, and what is done.
struct Kind {
    name: &'static str,
    holders: fn() -> Vec<Request>,
    make: fn(u64) -> Request,
    operations: &'static [Operation],
}

const KINDS: [Kind; 4] = [
    Kind {
        name: "blobs",
        holders: || vec![Request::new("PUT many?restype=container")],
        make: put_blob,
        operations: &[
            on_old("Get Blob", 200, |n| Request::new(&format!("GET many/{n:09}"))),
            on_old("Put Blob, replacing", 201, put_blob),
            on_new("Put Blob, new", 201, put_blob),
            on_old("Put Blob, refused", 409, |n| put_blob(n).header("If-None-Match", "*")),
            on_old("Set Blob Metadata", 200, |n| Request::new(&format!("PUT many/{n:09}?comp=metadata"))),
            on_old("Lease Blob", 201, |n| {
                let acquire =
                    Request::new(&format!("PUT many/{n:09}?comp=lease")).header("x-ms-lease-action", "acquire");
                acquire.header("x-ms-lease-duration", "15")
            }),
            on_old("List Blobs, 100", 200, |_| Request::new("GET many?restype=container&comp=list&maxresults=100")),
        ],
    },
    Kind {
        name: "messages",
        holders: || vec![Request::new("PUT many").of(Service::Queue)],
        make: put_message,
        operations: &[
            on_new("Put Message", 201, put_message),
            on_old("Get Messages", 200, |_| Request::new("GET many/messages").of(Service::Queue)),
            on_old("Peek Messages", 200, |_| Request::new("GET many/messages?peekonly=true").of(Service::Queue)),
        ],
    },
    Kind {
        name: "entities",
        holders: || vec![Request::new("POST Tables").of(Service::Table).body("{\"TableName\":\"many\"}")],
        make: insert,
        operations: &[
            on_old("Get Entity", 200, |n| entity("GET", n)),
            on_new("Insert Entity", 201, insert),
            on_old("Merge Entity", 204, |n| entity("MERGE", n).header("If-Match", "*").body("{\"A\":2}")),
            on_old("Query Entities, 100", 200, |_| Request::new("GET many()?$top=100").of(Service::Table)),
        ],
    },
    Kind {
        name: "files",
        holders: || vec![Request::new("PUT many?restype=share").of(Service::File)],
        make: create_file,
        operations: &[
            on_old("Get File Properties", 200, |n| Request::new(&format!("HEAD many/{n:09}")).of(Service::File)),
            on_new("Create File", 201, create_file),
            on_old("Put Range", 201, |n| {
                let put = Request::new(&format!("PUT many/{n:09}?comp=range")).of(Service::File);
                put.header("x-ms-write", "update").header("x-ms-range", "bytes=0-7").body("12345678")
            }),
            on_old("Delete File", 202, |n| Request::new(&format!("DELETE many/{n:09}")).of(Service::File)),
            on_old("List Files, 100", 200, |_| {
                Request::new("GET many?restype=directory&comp=list&maxresults=100").of(Service::File)
            }),
        ],
    },
];

fn put_blob(number: u64) -> Request {
    Request::new(&format!("PUT many/{number:09}")).header("x-ms-blob-type", "BlockBlob").body("content")
}

fn put_message(_number: u64) -> Request {
    let body = "<QueueMessage><MessageText>text</MessageText></QueueMessage>";
    Request::new("POST many/messages").of(Service::Queue).body(body)
}

fn insert(number: u64) -> Request {
    let body = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{number:09}\",\"A\":1}}");
    Request::new("POST many").of(Service::Table).body(body)
}

fn entity(method: &str, number: u64) -> Request {
    Request::new(&format!("{method} many(PartitionKey='p',RowKey='{number:09}')")).of(Service::Table)
}

fn create_file(number: u64) -> Request {
    let create = Request::new(&format!("PUT many/{number:09}")).of(Service::File);
    create.header("x-ms-type", "file").header("x-ms-content-length", "8")
}

/// What an operation cost, each time it was done.
#[derive(Clone, Copy)]
struct Cost {
    records: f64,
    blocks: f64,
    microseconds: f64,
}

/// What each operation costs at so many objects.
async fn cost(kind: &Kind, objects: u64) -> Vec<Cost> {
    let directory = tempfile::tempdir().expect("made");
    let engine = Arc::new(Touched::on(directory.path()));
    let world = Arc::new(World::over(engine.clone()).await);
    for request in (kind.holders)() {
        assert_eq!(world.send(&request).await.status, 201, "{}", kind.name);
    }
    fill(&world, kind.make, objects).await;
    engine.settle();
    let mut costs = Vec::new();
    let mut next = objects;
    for operation in kind.operations {
        engine.take();
        let watch = Stopwatch::start();
        for time in 0..TIMES {
            // All over, none twice.
            let number = if operation.is_new { next } else { time * (objects / TIMES) + 1 };
            next += u64::from(operation.is_new);
            let answer = world.send(&(operation.request)(number)).await;
            assert_eq!(answer.status, operation.expect, "{}: {}", operation.name, answer.text());
        }
        let (took, (records, blocks)) = (watch.ticks(), engine.take());
        let each = |sum: f64| sum / TIMES as f64;
        costs.push(Cost {
            records: each(records as f64),
            blocks: each(blocks as f64),
            microseconds: each(took as f64 / 10.0),
        });
    }
    costs
}

/// Many at a time, so that they share commits.
async fn fill(world: &Arc<World>, make: fn(u64) -> Request, objects: u64) {
    let mut tasks = JoinSet::new();
    for first in 0..FILLERS {
        let world = world.clone();
        tasks.spawn(async move {
            for number in (first..objects).step_by(FILLERS as usize) {
                let answer = world.send(&make(number)).await;
                assert_eq!(answer.status, 201, "{number}: {}", answer.text());
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("filled");
    }
}

fn is_steady(few: f64, many: f64) -> bool {
    many <= few * (1.0 + TOLERANCE) && few <= many * (1.0 + TOLERANCE)
}

#[tokio::test]
async fn an_operation_costs_the_same_whatever_is_stored() {
    let many =
        std::env::var("LAZULI_SCALE_OBJECTS").map_or(MANY, |n| n.parse().expect("LAZULI_SCALE_OBJECTS is a number"));
    let mut grown = Vec::new();
    println!("an operation, at {FEW} and at {many} stored      records          blocks          microseconds");
    for kind in &KINDS {
        let (at_few, at_many) = (cost(kind, FEW).await, cost(kind, many).await);
        for (operation, (few, many)) in kind.operations.iter().zip(at_few.into_iter().zip(at_many)) {
            println!(
                "{:<36}{:>10.1}{:>8.1}{:>8.1}{:>8.1}{:>10.0}{:>8.0}",
                operation.name, few.records, many.records, few.blocks, many.blocks, few.microseconds, many.microseconds
            );
            if !is_steady(few.records, many.records) {
                grown.push(format!("{}: {} records and {}", operation.name, few.records, many.records));
            }
            if !is_steady(few.blocks, many.blocks) && many.blocks > few.blocks + BLOCKS_MORE {
                grown.push(format!("{}: {} blocks and {}", operation.name, few.blocks, many.blocks));
            }
        }
    }
    assert!(grown.is_empty(), "{grown:?}");
}

#[test]
fn steady_is_within_a_quarter() {
    for (few, many, steady) in
        [(4.0, 5.0, true), (4.0, 5.1, false), (5.0, 4.0, true), (5.1, 4.0, false), (0.0, 0.0, true)]
    {
        assert_eq!(is_steady(few, many), steady, "{few} {many}");
    }
}
