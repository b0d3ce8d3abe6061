//! `lazuli-bench cluster`: one gateway and two on the Ceph cluster that `LAZULI_CEPH_CONF` names, beside raw RADOS operations in the
//! same run: the same guards and entries, packed together for each object as the engine does it, without HTTP, rules or signatures.
//! `testing/ceph/with-cluster --files` starts a cluster.

use std::{
    env,
    net::{Ipv4Addr, TcpListener},
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use librados::{Librados, Look, Objects, OpError, Order, Pool, Settings, Step};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    sync::oneshot,
    task::JoinSet,
};

use crate::{
    Options,
    load::{self, Failure, Supply, Traffic, Until},
    queue,
    report::grouped,
    request::{self, Signer},
    subject::{Places, finish},
    workload::{KIB, MIB},
};

/// Objects the raw operations are spread over: as many as a container has shards.
const SHARDS: u64 = 16;
/// Entries a view of a blob asks for.
const LOOKED_KEYS: u64 = 10;
const LARGE_TIME_MAX: Duration = Duration::from_millis(500);
/// Of what the raw operations reach.
const GOAL: f64 = 0.70;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Deed {
    Get1k,
    Put1k,
    Get1m,
    Put4m,
    PutMessage,
    InsertEntity,
}

struct Row {
    title: &'static str,
    deed: Deed,
    connections: u64,
    expect: u16,
}

const ROWS: [Row; 6] = [
    Row { title: "GET 1 KiB, 32 connections", deed: Deed::Get1k, connections: 32, expect: 200 },
    Row { title: "PUT 1 KiB, 32 connections", deed: Deed::Put1k, connections: 32, expect: 201 },
    Row { title: "GET 1 MiB, 8 connections", deed: Deed::Get1m, connections: 8, expect: 200 },
    Row { title: "PUT 4 MiB, 4 connections", deed: Deed::Put4m, connections: 4, expect: 201 },
    Row { title: "queue: put 1 KiB, 32 connections", deed: Deed::PutMessage, connections: 32, expect: 201 },
    Row { title: "table: insert, 32 connections", deed: Deed::InsertEntity, connections: 32, expect: 204 },
];

impl Deed {
    fn service(self) -> usize {
        match self {
            Deed::Get1k | Deed::Put1k | Deed::Get1m | Deed::Put4m => 0,
            Deed::PutMessage => 1,
            Deed::InsertEntity => 2,
        }
    }

    fn body_bytes(self) -> usize {
        match self {
            Deed::Put1k => KIB,
            Deed::Put4m => 4 * MIB,
            Deed::PutMessage => KIB,
            Deed::Get1k | Deed::Get1m | Deed::InsertEntity => 0, // the last brings its own
        }
    }

    fn request(self, signer: &Signer, number: u64) -> Vec<u8> {
        match self {
            Deed::Get1k => signer.get_blob("/bench/get-1k"),
            Deed::Get1m => signer.get_blob("/bench/get-1m"),
            Deed::Put1k => signer.put_blob(&format!("/bench/1k/{number:09}"), "", KIB),
            Deed::Put4m => signer.put_blob(&format!("/bench/4m/{number:09}"), "", 4 * MIB),
            Deed::PutMessage => signer.put_message("/bench", KIB),
            Deed::InsertEntity => {
                let text = "x".repeat(400);
                let body =
                    format!("{{\"PartitionKey\":\"p{}\",\"RowKey\":\"{number:09}\",\"Text\":\"{text}\"}}", number % 64);
                signer.table("POST", "/bench", "", "Prefer: return-no-content\r\n", "application/json", &body)
            }
        }
    }
}

/// One gateway and its ports: blob, queue, table.
struct Gateway {
    ports: [u16; 3],
    child: Child,
}

pub async fn run(options: &Options, places: &Places) -> Result<(), Failure> {
    let conf =
        env::var("LAZULI_CEPH_CONF").map_err(|_| "LAZULI_CEPH_CONF names no cluster: see testing/ceph/with-cluster")?;
    let namespace = format!("bench-{}", std::process::id());
    places.build_lazuli().await?;
    let account = ["account", "create", request::ACCOUNT, "--published-development-key"];
    finish(lazuli(places, &conf, &namespace).args(account).stdout(Stdio::null())).await?;
    let gateways = [start(places, &conf, &namespace).await?, start(places, &conf, &namespace).await?];
    prepare(&gateways[0]).await?;
    let raw = Raw::connect(&conf, &namespace).await?;

    let mut missed = 0;
    let mut used = 0;
    println!(
        "{:<34} {:>10} {:>10} {:>10} {:>7} {:>7}",
        "workload", "raw", "1 gateway", "2 gateways", "1: raw", "2: raw"
    );
    for row in &ROWS {
        let mut samples = [Vec::new(), Vec::new(), Vec::new()];
        // A cluster for tests is soon full of large bodies.
        let time = if row.deed == Deed::Put4m { options.time().min(LARGE_TIME_MAX) } else { options.time() };
        for _ in 0..options.rounds {
            samples[0].push(raw.run(row, time).await?);
            for count in 1..=gateways.len() {
                let rate = drive(&gateways[..count], row, time, &mut used).await?;
                samples[count].push(rate);
            }
        }
        let [floor, one, two] = samples.map(median);
        let whole = |number: f64| grouped(number.round() as u64);
        println!(
            "{:<34} {:>10} {:>10} {:>10} {:>6.0}% {:>6.0}%",
            row.title,
            whole(floor),
            whole(one),
            whole(two),
            one / floor * 100.0,
            two / floor * 100.0
        );
        missed += usize::from(one.max(two) < floor * GOAL);
    }
    for gateway in gateways {
        gateway.stop().await?;
    }
    println!("goal: {:.0}% of the raw operations; {missed} of {} missed in this run", GOAL * 100.0, ROWS.len());
    if options.check && missed > 0 { Err(format!("{missed} goals missed").into()) } else { Ok(()) }
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn lazuli(places: &Places, conf: &str, namespace: &str) -> Command {
    let mut command = Command::new(places.lazuli());
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LAZULI_")) {
        command.env_remove(name);
    }
    command.env("LAZULI_ENGINE", "rados").env("LAZULI_CEPH_CONF", conf).env("LAZULI_CEPH_NAMESPACE", namespace);
    command
}

async fn start(places: &Places, conf: &str, namespace: &str) -> Result<Gateway, Failure> {
    let mut ports = [0; 3];
    for port in &mut ports {
        *port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    }
    let mut command = lazuli(places, conf, namespace);
    command.args(["serve", "--host", "127.0.0.1", "--log", "error"]);
    for (name, port) in ["--blob-port", "--queue-port", "--table-port"].iter().zip(ports) {
        command.args([name.to_string(), port.to_string()]);
    }
    command.args(["--file-port", "off", "--smb-port", "off", "--console-port", "off"]);
    let mut child = command.kill_on_drop(true).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(child.stdout.take().expect("standard output is piped")).lines();
    while let Some(line) = lines.next_line().await? {
        if line.starts_with("ready") {
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return Ok(Gateway { ports, child });
        }
    }
    Err("a gateway ended before it was ready".into())
}

impl Gateway {
    async fn stop(mut self) -> Result<(), Failure> {
        self.child.kill().await?;
        Ok(())
    }
}

async fn prepare(gateway: &Gateway) -> Result<(), Failure> {
    let [blob, queue, table] = gateway.ports;
    let signer = Signer::new(blob);
    load::once(blob, &signer.create_container("/bench"), &[], 201).await?;
    for (path, bytes) in [("/bench/get-1k", KIB), ("/bench/get-1m", MIB)] {
        load::once(blob, &signer.put_blob(path, "", bytes), &vec![b'x'; bytes], 201).await?;
    }
    load::once(queue, &Signer::new(queue).create_queue("/bench"), &[], 201).await?;
    let create = Signer::new(table).table("POST", "/Tables", "", "", "application/json", "{\"TableName\":\"bench\"}");
    load::once(table, &create, &[], 201).await?;
    Ok(())
}

/// The connections shared out among the gateways; the sum of what they answer in a second.
async fn drive(gateways: &[Gateway], row: &Row, time: Duration, used: &mut u64) -> Result<f64, Failure> {
    let mut tasks = JoinSet::new();
    let share = row.connections / gateways.len() as u64;
    let body = Arc::new(match row.deed {
        Deed::PutMessage => queue::message(KIB),
        deed => vec![b'x'; deed.body_bytes()],
    });
    for gateway in gateways {
        let port = gateway.ports[row.deed.service()];
        let (signer, deed) = (Signer::new(port), row.deed);
        let make: Arc<dyn Fn(u64) -> Vec<u8> + Send + Sync> = Arc::new(move |number| deed.request(&signer, number));
        let traffic = (0..share)
            .map(|n| Traffic::Distinct {
                // Far apart, so that no two connections ever name the same thing.
                supply: Supply::numbered(*used + n * 1_000_000, 1, 0, Arc::clone(&make)),
                body: Arc::clone(&body),
            })
            .collect();
        *used += share * 1_000_000;
        let expect = row.expect;
        tasks.spawn(async move { load::run(port, traffic, Until::Time(time), expect).await });
    }
    let mut sum = 0.0;
    while let Some(tally) = tasks.join_next().await {
        sum += tally??.per_second();
    }
    Ok(sum)
}

/// Raw operations on objects of their own.
struct Raw {
    objects: Arc<Librados>,
    shards: Vec<Arc<Shard>>,
    used: AtomicU64,
}

/// What waits for one object while an operation on it is in flight.
struct Shard {
    object: String,
    waiting: Mutex<Waiting>,
}

type Entries = Vec<(Bytes, Bytes)>;

#[derive(Default)]
struct Waiting {
    batches: Vec<(Entries, oneshot::Sender<()>)>,
    is_worked: bool,
}

impl Raw {
    async fn connect(conf: &str, namespace: &str) -> Result<Arc<Raw>, Failure> {
        let settings = Settings {
            conf: Some(conf.into()),
            user: "lazuli".into(),
            keyring: None,
            records_pool: "lazuli-records".into(),
            bodies_pool: "lazuli-bodies".into(),
            namespace: Some(format!("{namespace}-raw")),
            deadline: Duration::from_secs(30),
        };
        let objects = tokio::task::spawn_blocking(move || Librados::connect(&settings)).await??;
        let mut shards = Vec::new();
        for number in 0..SHARDS {
            let object = format!("raw.{number}");
            let entries = (0..LOOKED_KEYS).map(|n| (key("r", n), Bytes::from(vec![b'x'; KIB / LOOKED_KEYS as usize])));
            let steps = vec![
                Step::Create { exclusive: false },
                Step::SetAttribute { name: "gen".into(), value: Bytes::from_static(b"live") },
                Step::Put(entries.collect()),
            ];
            objects.write(Pool::Records, &object, steps).await.map_err(failure)?;
            shards.push(Arc::new(Shard { object, waiting: Mutex::default() }));
        }
        objects.write(Pool::Bodies, "raw.1m", vec![Step::WriteAll(vec![b'x'; MIB].into())]).await.map_err(failure)?;
        Ok(Arc::new(Raw { objects, shards, used: AtomicU64::default() }))
    }

    async fn run(self: &Arc<Self>, row: &Row, time: Duration) -> Result<f64, Failure> {
        let (start, deed) = (Instant::now(), row.deed);
        let mut tasks = JoinSet::new();
        for _ in 0..row.connections {
            let raw = Arc::clone(self);
            tasks.spawn(async move {
                let mut done = 0u64;
                while start.elapsed() < time {
                    // No two name the same thing: what is guarded must not be there.
                    raw.once(deed, raw.used.fetch_add(1, Ordering::Relaxed)).await?;
                    done += 1;
                }
                Ok::<_, Failure>(done)
            });
        }
        let mut sum = 0;
        while let Some(done) = tasks.join_next().await {
            sum += done??;
        }
        Ok(sum as f64 / start.elapsed().as_secs_f64())
    }

    /// What the deed costs at least: the reads and writes the engine makes of it.
    async fn once(self: &Arc<Self>, deed: Deed, number: u64) -> Result<(), Failure> {
        let shard = &self.shards[(number % SHARDS) as usize];
        match deed {
            Deed::Get1k => self.look(shard).await,
            Deed::Get1m => {
                self.look(shard).await?;
                let look = Look::Bytes { offset: 0, bytes: MIB };
                self.objects.read(Pool::Bodies, "raw.1m", vec![look]).await.map_err(failure)?;
                Ok(())
            }
            Deed::Put1k => {
                self.look(shard).await?;
                self.put(shard, entries(number, &[300, KIB])).await
            }
            Deed::InsertEntity => {
                self.look(shard).await?;
                self.put(shard, entries(number, &[600])).await
            }
            Deed::PutMessage => {
                // A queue is one object: its state, and what a message is made of.
                self.look(&self.shards[0]).await?;
                self.put(&self.shards[0], entries(number, &[60, 60, KIB, 30, 60])).await
            }
            Deed::Put4m => {
                let object = format!("raw.4m.{number:016x}");
                let body = Bytes::from(vec![b'x'; 4 * MIB]);
                self.objects.write(Pool::Bodies, &object, vec![Step::WriteAll(body)]).await.map_err(failure)?;
                let name = Step::SetAttribute { name: "n".into(), value: Bytes::from_static(&[b'n'; 40]) };
                self.objects.write(Pool::Bodies, &object, vec![Step::Exists, name]).await.map_err(failure)?;
                self.look(shard).await?;
                self.put(shard, entries(number, &[300, 60])).await
            }
        }
    }

    async fn look(&self, shard: &Shard) -> Result<(), Failure> {
        let keys = (0..LOOKED_KEYS).map(|n| key("r", n)).collect();
        self.objects.read(Pool::Records, &shard.object, vec![Look::Keys(keys)]).await.map_err(failure)?;
        Ok(())
    }

    /// One guarded operation at a time on each object, with all that waits for it.
    async fn put(self: &Arc<Self>, shard: &Arc<Shard>, entries: Entries) -> Result<(), Failure> {
        let (tell, told) = oneshot::channel();
        let leads = {
            let mut waiting = shard.waiting.lock().expect("nobody panics holding it");
            waiting.batches.push((entries, tell));
            !std::mem::replace(&mut waiting.is_worked, true)
        };
        if leads {
            let (raw, shard) = (Arc::clone(self), Arc::clone(shard));
            tokio::spawn(async move {
                loop {
                    let batch = {
                        let mut waiting = shard.waiting.lock().expect("nobody panics holding it");
                        let batch = std::mem::take(&mut waiting.batches);
                        waiting.is_worked = !batch.is_empty();
                        batch
                    };
                    if batch.is_empty() {
                        return;
                    }
                    let mut steps = vec![Step::AttributeIs { name: "gen", value: Bytes::from_static(b"live") }];
                    let mut puts = Vec::new();
                    let mut told = Vec::new();
                    for (entries, tell) in batch {
                        let guard = |(key, _): &(Bytes, Bytes)| Step::Compare {
                            key: key.clone(),
                            order: Order::Equal,
                            value: Bytes::new(),
                        };
                        steps.extend(entries.iter().map(guard));
                        puts.extend(entries);
                        told.push(tell);
                    }
                    steps.push(Step::Put(puts));
                    if raw.objects.write(Pool::Records, &shard.object, steps).await.is_ok() {
                        for tell in told {
                            let _ = tell.send(()); // the round may be over
                        }
                    }
                }
            });
        }
        told.await.map_err(|_| "a raw write failed".into())
    }
}

fn key(kind: &str, number: u64) -> Bytes {
    Bytes::from(format!("{kind}{number:016x}"))
}

/// Entries of these sizes, and the head of a partition.
fn entries(number: u64, sizes: &[usize]) -> Entries {
    let records =
        sizes.iter().enumerate().map(|(n, bytes)| (key(&format!("p{n}"), number), Bytes::from(vec![b'x'; *bytes])));
    records.chain([(key("h", number), Bytes::from_static(b"0123456789"))]).collect()
}

fn failure(error: OpError) -> Failure {
    format!("a raw operation failed: {error:?}").into()
}
