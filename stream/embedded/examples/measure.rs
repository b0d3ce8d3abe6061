//! Figures of the embedded engine beside those of the bare disk, in one run: `cargo run --release --example measure [DIR]`.
#![allow(clippy::disallowed_methods)] // a measurement is what a clock is for

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use bytes::Bytes;
use engine::Durability::Synced;
use engine::{Batch, BoxFuture, Engine, ExtentSlice, Family, GroupId, Guard, PartitionId, Source, SourceError, Write};
use lazuli_embedded::{Durability, Embedded, Options};
use tokio::runtime::Runtime;

const CLIENTS: usize = 32;
const SPAN: Duration = Duration::from_secs(4);

fn main() {
    let at = std::env::args().nth(1).map_or_else(std::env::temp_dir, Into::into);
    let dir = at.join(format!("lazuli-measure-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory to measure in");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    start(&runtime, &dir);
    for round in 1..=2 {
        println!("round {round}");
        let bare = bare_appends(&dir);
        println!("  bare group-committed append, {CLIENTS} clients of 1 KiB: {bare:.0}/s");
        for durability in [Durability::Full, Durability::Relaxed] {
            let name = format!("{durability:?}{round}");
            let options = Options { durability, ..Options::new(dir.join(&name)) };
            let engine = Embedded::open(options.clone()).expect("the engine opens");
            let puts = puts(&runtime, &engine, false);
            let share = puts / bare * 100.0;
            println!("  guarded puts, {durability:?}: {puts:.0}/s ({share:.0} % of the bare append)");
            let again = self::puts(&runtime, &engine, true);
            println!("  guarded overwrites, {durability:?}: {again:.0}/s");
            println!("  view + get: {:.0}/s on one thread", gets(&runtime, &engine));
            if durability == Durability::Full {
                println!("  one client: {:.0} commits/s", alone(&runtime, &engine));
                println!("  bare append + fdatasync, 4 MiB: {:.0} MB/s", bare_stream(&dir));
                println!("  write_extent 4 MiB + commit: {:.0} MB/s", extents(&runtime, &engine, 1, 4 << 20));
                println!("  the same, 4 at once: {:.0} MB/s", extents(&runtime, &engine, 4, 4 << 20));
                println!(
                    "  64 KiB bodies, {CLIENTS} at once: {:.0} MB/s",
                    extents(&runtime, &engine, CLIENTS, 64 << 10)
                );
                println!("  read_extent 4 MiB: {:.0} MB/s", reads(&runtime, &engine, 4 << 20));
                println!("  read_extent 16 KiB: {:.0} MB/s", reads(&runtime, &engine, 16 << 10));
            }
            drop(engine);
            let started = Instant::now();
            let engine = Embedded::open(options).expect("the engine opens again");
            println!("  reopened in {} ms", started.elapsed().as_millis());
            drop(engine);
        }
    }
    std::fs::remove_dir_all(&dir).expect("the directory goes");
}

/// What a start takes, in time and memory.
fn start(runtime: &Runtime, dir: &Path) {
    let memory = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or("VmRSS: unknown").to_owned();
        line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    };
    let options = Options { durability: Durability::Relaxed, ..Options::new(dir.join("start")) };
    let before = memory();
    let engine = Embedded::open(options.clone()).expect("the engine opens");
    println!("memory before opening {before}, with an empty engine {}", memory());
    runtime.block_on(async {
        for at in 0..1000 {
            let put = |of: usize| {
                let key = Bytes::from(of.to_string());
                Write::Put { family: Family(1), key, value: value().slice(..300), slices: Vec::new() }
            };
            let batch = Batch { guards: Vec::new(), writes: (0..100).map(put).collect() };
            engine.commit(&partition(at), batch, Synced).await.expect("committed");
        }
    });
    drop(engine);
    let started = Instant::now();
    let engine = Embedded::open(options).expect("the engine opens again");
    println!("100,000 records of 300 bytes: opened in {} ms, memory {}", started.elapsed().as_millis(), memory());
    drop(engine);
}

/// What a group commit costs without any engine: one thread gathers what is queued, appends it and syncs.
fn bare_appends(dir: &Path) -> f64 {
    let mut file = File::create(dir.join("bare")).expect("a file");
    let (send, receive) = channel::<(Vec<u8>, std::sync::mpsc::SyncSender<()>)>();
    let writer = std::thread::spawn(move || {
        while let Ok(first) = receive.recv() {
            let (mut all, mut answers) = (first.0, vec![first.1]);
            while let Ok((bytes, answer)) = receive.try_recv() {
                all.extend_from_slice(&bytes);
                answers.push(answer);
            }
            file.write_all(&all).expect("appended");
            file.sync_data().expect("synced");
            answers.into_iter().for_each(|answer| answer.send(()).expect("somebody waits"));
        }
    });
    let started = Instant::now();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let send = send.clone();
            std::thread::spawn(move || {
                let mut done = 0u64;
                while started.elapsed() < SPAN {
                    let (answer, answered) = std::sync::mpsc::sync_channel(1);
                    send.send((vec![7; 1024 + 64], answer)).expect("the writer lives");
                    answered.recv().expect("answered");
                    done += 1;
                }
                done
            })
        })
        .collect();
    let done: u64 = clients.into_iter().map(|client| client.join().expect("a client ended well")).sum();
    let rate = done as f64 / started.elapsed().as_secs_f64();
    drop(send);
    writer.join().expect("the writer ended well");
    rate
}

fn partition(of: usize) -> PartitionId {
    PartitionId { group: GroupId(Bytes::from_static(b"container")), key: Bytes::from(format!("blob-{of}")) }
}

fn value() -> Bytes {
    // Not all alike, or compression would flatter.
    (0..1024u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect::<Vec<u8>>().into()
}

fn puts(runtime: &Runtime, engine: &Arc<Embedded>, over: bool) -> f64 {
    let started = Instant::now();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let engine = Arc::clone(engine);
            runtime.spawn(async move {
                let mut done = 0u64;
                let (mut revision, value) = (None, value());
                while started.elapsed() < SPAN {
                    let p = partition(if over { 900_000_000 + client } else { client * 10_000_000 + done as usize });
                    let (family, key) = (Family(1), Bytes::from_static(b"head"));
                    let guard = match revision.filter(|_| over) {
                        Some(revision) => Guard::At { family, key: key.clone(), revision },
                        None => Guard::Absent { family, key: key.clone() },
                    };
                    let write = Write::Put { family, key, value: value.clone(), slices: Vec::new() };
                    let batch = Batch { guards: vec![guard], writes: vec![write] };
                    revision = Some(engine.commit(&p, batch, Synced).await.expect("committed"));
                    done += 1;
                }
                done
            })
        })
        .collect();
    let mut done = 0;
    for client in clients {
        done += runtime.block_on(client).expect("a client ended well");
    }
    done as f64 / started.elapsed().as_secs_f64()
}

fn gets(runtime: &Runtime, engine: &Arc<Embedded>) -> f64 {
    runtime.block_on(async {
        let (started, mut done) = (Instant::now(), 0u64);
        while started.elapsed() < SPAN / 4 {
            for _ in 0..100 {
                let p = partition((done as usize % CLIENTS) * 10_000_000 + (done as usize * 7919) % 500);
                let view = engine.view(&p).await.expect("a view");
                assert!(view.get(Family(1), b"head").await.expect("a read").is_some());
                done += 1;
            }
        }
        done as f64 / started.elapsed().as_secs_f64()
    })
}

fn alone(runtime: &Runtime, engine: &Arc<Embedded>) -> f64 {
    runtime.block_on(async {
        let (started, mut done) = (Instant::now(), 0u64);
        while started.elapsed() < SPAN / 4 {
            let write = Write::Put { family: Family(1), key: Bytes::new(), value: value(), slices: Vec::new() };
            let batch = Batch { guards: Vec::new(), writes: vec![write] };
            engine.commit(&partition(1_000_000_000), batch, Synced).await.expect("committed");
            done += 1;
        }
        done as f64 / started.elapsed().as_secs_f64()
    })
}

fn bare_stream(dir: &Path) -> f64 {
    let mut file = File::create(dir.join("stream")).expect("a file");
    let body = vec![7; 4 << 20];
    let (started, mut bytes) = (Instant::now(), 0);
    while started.elapsed() < SPAN / 2 {
        file.write_all(&body).expect("appended");
        file.sync_data().expect("synced");
        bytes += body.len();
    }
    bytes as f64 / 1e6 / started.elapsed().as_secs_f64()
}

struct Whole(Bytes);

impl Source for Whole {
    fn next(&mut self, bytes_max: usize) -> BoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        let piece = bytes_max.min(65_536).min(self.0.len());
        let part = (!self.0.is_empty()).then(|| self.0.split_to(piece));
        Box::pin(std::future::ready(Ok(part)))
    }
}

fn extents(runtime: &Runtime, engine: &Arc<Embedded>, clients: usize, length: usize) -> f64 {
    let body = Bytes::from(vec![7; length]);
    let started = Instant::now();
    let clients: Vec<_> = (0..clients)
        .map(|client| {
            let (engine, body) = (Arc::clone(engine), body.clone());
            runtime.spawn(async move {
                let mut bytes = 0;
                while started.elapsed() < SPAN / 2 {
                    let pin = engine.write_extent(&mut Whole(body.clone()), length as u64).await;
                    let pin = pin.expect("written").expect("not empty");
                    let slices = vec![ExtentSlice::whole(pin.extent())];
                    let write = Write::Put { family: Family(2), key: Bytes::new(), value: Bytes::new(), slices };
                    let batch = Batch { guards: Vec::new(), writes: vec![write] };
                    engine.commit(&partition(2_000_000_000 + client), batch, Synced).await.expect("committed");
                    bytes += length;
                }
                bytes
            })
        })
        .collect();
    let mut bytes = 0;
    for client in clients {
        bytes += runtime.block_on(client).expect("a client ended well");
    }
    bytes as f64 / 1e6 / started.elapsed().as_secs_f64()
}

fn reads(runtime: &Runtime, engine: &Arc<Embedded>, length: u64) -> f64 {
    runtime.block_on(async {
        let body = Bytes::from(vec![7; length as usize]);
        let pin = engine.write_extent(&mut Whole(body), length).await.expect("written").expect("not empty");
        let (started, mut bytes) = (Instant::now(), 0);
        while started.elapsed() < SPAN / 4 {
            let mut slice = ExtentSlice::whole(pin.extent());
            while slice.bytes > 0 {
                let part = engine.read_extent(slice).await.expect("a read").len() as u64;
                slice.offset += part;
                slice.bytes -= part;
                bytes += part;
            }
        }
        bytes as f64 / 1e6 / started.elapsed().as_secs_f64()
    })
}
