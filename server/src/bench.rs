//! `lazuli bench`: how fast a server is for the smallest requests, in a few seconds. The project's own measurements, beside other servers and
//! the floors, are in `bench/`.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use clap::Args;
use contract::Service;
use env::{Clock, SteadyClock};
use http::account::Account;

use crate::azurite::Scratch;
use crate::client::{Ask, Client, Endpoints};
use crate::config::ReachFlags;
use crate::local::Local;

#[derive(Args, Clone, Debug)]
pub struct BenchFlags {
    /// Measure a server that runs: on this machine, or where --connection-string says [default: one of its own, for a while]
    #[arg(long)]
    running: bool,
    /// Seconds for each kind of request
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Connections at once
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=256))]
    connections: u32,
    /// Where the directory of the own server is made [default: where the system has temporary files]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    #[command(flatten)]
    reach: ReachFlags,
}

/// What is asked again and again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Workload {
    Put,
    Get,
    Queue,
    Insert,
}

const WORKLOADS: [(Workload, &str); 4] = [
    (Workload::Put, "put a blob of 1 KiB"),
    (Workload::Get, "get a blob of 1 KiB"),
    (Workload::Queue, "put, get and delete a message"),
    (Workload::Insert, "insert an entity"),
];

const BODY_BYTES: usize = 1024;

pub async fn run(flags: BenchFlags) -> Result<(), String> {
    if flags.running || flags.reach.names_a_server() {
        return measure(&flags, &flags.reach.endpoints()?).await;
    }
    let within = flags.scratch.clone().unwrap_or_else(std::env::temp_dir);
    let data = within.join(format!("lazuli-bench-{}", std::process::id()));
    let _scratch = Scratch::make(&data)?;
    println!("a server of its own, in {}, on the disk with every write", data.display());
    let local = Local::open(&data, embedded::Durability::Full, |_| Ok(Account::development())).await?;
    let endpoints = local.endpoints.clone();
    let measured = measure(&flags, &endpoints).await;
    let closed = local.close().await;
    measured.and(closed)
}

/// The names of what is made for it, and taken away after it.
struct Names {
    container: String,
    table: String,
}

async fn measure(flags: &BenchFlags, endpoints: &Endpoints) -> Result<(), String> {
    let tail: String = env::secret_bytes::<4>().iter().map(|byte| format!("{byte:02x}")).collect();
    let names = Arc::new(Names { container: format!("lazuli-bench-{tail}"), table: format!("lazulibench{tail}") });
    prepare(endpoints, &names).await?;
    println!(
        "{:<32} {:>12} {:>10} {:>10} {:>10}",
        format!("{} connections", flags.connections),
        "per second",
        "p50 ms",
        "p95 ms",
        "p99 ms"
    );
    let mut done = Ok(());
    for (workload, title) in WORKLOADS {
        match drive(flags, endpoints, workload, &names).await {
            Ok(tally) => println!("{title:<32} {}", tally.shown()),
            Err(error) => {
                done = Err(error);
                break;
            }
        }
    }
    done.and(clear(endpoints, &names).await)
}

fn made(what: &str, expected: u16, answer: &crate::client::Answer) -> Result<(), String> {
    if answer.status == expected { Ok(()) } else { Err(format!("{what}: {}", answer.words())) }
}

fn json() -> Vec<(&'static str, String)> {
    vec![
        ("accept", "application/json;odata=nometadata".to_owned()),
        ("content-type", "application/json".to_owned()),
        ("prefer", "return-no-content".to_owned()),
    ]
}

async fn prepare(endpoints: &Endpoints, names: &Names) -> Result<(), String> {
    let path = format!("/{}", names.container);
    let mut blobs = Client::open(endpoints, Service::Blob).await?;
    let query = [("restype", "container")];
    made("the container", 201, &blobs.ask(Ask { verb: "PUT", path: &path, query: &query, ..Ask::default() }).await?)?;
    put(&mut blobs, &format!("{path}/read")).await?;
    let mut queues = Client::open(endpoints, Service::Queue).await?;
    made("the queue", 201, &queues.ask(Ask { verb: "PUT", path: &path, ..Ask::default() }).await?)?;
    let mut tables = Client::open(endpoints, Service::Table).await?;
    let body = Bytes::from(serde_json::json!({ "TableName": names.table }).to_string());
    made(
        "the table",
        204,
        &tables.ask(Ask { verb: "POST", path: "/Tables", headers: json(), body, ..Ask::default() }).await?,
    )
}

async fn clear(endpoints: &Endpoints, names: &Names) -> Result<(), String> {
    let path = format!("/{}", names.container);
    let query = [("restype", "container")];
    let mut blobs = Client::open(endpoints, Service::Blob).await?;
    made(
        "the container",
        202,
        &blobs.ask(Ask { verb: "DELETE", path: &path, query: &query, ..Ask::default() }).await?,
    )?;
    let mut queues = Client::open(endpoints, Service::Queue).await?;
    made("the queue", 204, &queues.ask(Ask { verb: "DELETE", path: &path, ..Ask::default() }).await?)?;
    let (table, mut tables) = (format!("/Tables('{}')", names.table), Client::open(endpoints, Service::Table).await?);
    made("the table", 204, &tables.ask(Ask { verb: "DELETE", path: &table, headers: json(), ..Ask::default() }).await?)
}

/// What came of it: the latencies in ticks, in order.
struct Tally {
    seconds: f64,
    latencies: Vec<u64>,
}

impl Tally {
    fn shown(&self) -> String {
        let at = |percent: usize| match self.latencies.len() {
            0 => 0.0,
            count => self.latencies[(count - 1) * percent / 100] as f64 / 10_000.0,
        };
        let rate = self.latencies.len() as f64 / self.seconds;
        format!("{rate:>12.0} {:>10.2} {:>10.2} {:>10.2}", at(50), at(95), at(99))
    }
}

async fn drive(
    flags: &BenchFlags,
    endpoints: &Endpoints,
    workload: Workload,
    names: &Arc<Names>,
) -> Result<Tally, String> {
    let clock = Arc::new(SteadyClock::start());
    let begin = clock.now();
    let end = begin.plus_seconds(u64::from(flags.seconds));
    let mut tasks = tokio::task::JoinSet::new();
    for connection in 0..flags.connections {
        let (clock, names, endpoints) = (clock.clone(), names.clone(), endpoints.clone());
        tasks.spawn(async move {
            let service = match workload {
                Workload::Put | Workload::Get => Service::Blob,
                Workload::Queue => Service::Queue,
                Workload::Insert => Service::Table,
            };
            let mut client = Client::open(&endpoints, service).await?;
            let (mut latencies, mut now, mut number) = (Vec::new(), clock.now(), 0u64);
            while now < end {
                once(&mut client, workload, &names, connection, number).await?;
                number += 1;
                let after = clock.now();
                latencies.push(after.ticks() - now.ticks());
                now = after;
            }
            Ok::<_, String>(latencies)
        });
    }
    let mut latencies = Vec::new();
    while let Some(done) = tasks.join_next().await {
        latencies.append(&mut done.map_err(|error| error.to_string())??);
    }
    latencies.sort_unstable();
    Ok(Tally { seconds: (clock.now().ticks() - begin.ticks()) as f64 / 1e7, latencies })
}

async fn put(client: &mut Client, path: &str) -> Result<(), String> {
    let headers = vec![("x-ms-blob-type", "BlockBlob".to_owned())];
    let body = Bytes::from_static(&[b'x'; BODY_BYTES]);
    made(path, 201, &client.ask(Ask { verb: "PUT", path, headers, body, ..Ask::default() }).await?)
}

async fn once(
    client: &mut Client,
    workload: Workload,
    names: &Names,
    connection: u32,
    number: u64,
) -> Result<(), String> {
    let root = format!("/{}", names.container);
    match workload {
        Workload::Put => put(client, &format!("{root}/{connection}/{number}")).await,
        Workload::Get => {
            let path = format!("{root}/read");
            made("the blob", 200, &client.ask(Ask { verb: "GET", path: &path, ..Ask::default() }).await?)
        }
        Workload::Queue => {
            let path = format!("{root}/messages");
            let body = Bytes::from_static(b"<QueueMessage><MessageText>a message</MessageText></QueueMessage>");
            made("the message", 201, &client.ask(Ask { verb: "POST", path: &path, body, ..Ask::default() }).await?)?;
            let got = client.ask(Ask { verb: "GET", path: &path, ..Ask::default() }).await?;
            made("the message", 200, &got)?;
            let xml = String::from_utf8_lossy(&got.body).into_owned();
            let inner = |name: &str| xml.split_once(&format!("<{name}>"))?.1.split('<').next();
            let (Some(id), Some(receipt)) = (inner("MessageId"), inner("PopReceipt")) else {
                return Err("the queue has no message, though one was put: does somebody else take them?".into());
            };
            let path = format!("{path}/{id}");
            let query = [("popreceipt", receipt)];
            made(
                "the message",
                204,
                &client.ask(Ask { verb: "DELETE", path: &path, query: &query, ..Ask::default() }).await?,
            )
        }
        Workload::Insert => {
            let entity = serde_json::json!({ "PartitionKey": connection.to_string(), "RowKey": number.to_string(), "text": "a property", "number": number });
            let (path, body) = (format!("/{}", names.table), Bytes::from(entity.to_string()));
            made(
                "the entity",
                204,
                &client.ask(Ask { verb: "POST", path: &path, headers: json(), body, ..Ask::default() }).await?,
            )
        }
    }
}
