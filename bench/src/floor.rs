//! The floors: what is left of a server when everything but the unavoidable is taken away.
//!
//! 1. Bare hyper, answering the same bytes from memory: what HTTP alone costs on this machine.
//! 2. The same, whose PUT appends the body to one file and answers after a group-committed fdatasync: what HTTP and
//!    durability cost together. The goals for writes are judged against this one: it goes through the same client,
//!    the same sockets and the same two cores.
//! 3. The append alone, without HTTP, called from as many tasks as there would be connections: what the disk allows.
//!    Stricter than any server can be; printed beside 2 so that the reader can judge.

use std::{
    convert::Infallible,
    fs::File,
    io::{self, IoSlice, Write},
    net::Ipv4Addr,
    path::Path,
    sync::{Arc, LazyLock, RwLock, mpsc},
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, Response, StatusCode, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, sync::oneshot, task::JoinSet};

use crate::load::{Failure, Tally};

/// PUT here sets what a listing answers.
pub const LISTING_PATH: &str = "/floor/listing";
/// PUT here goes nowhere: what the loopback and HTTP allow alone.
pub const SWALLOW_PATH: &str = "/floor/swallow";
/// About as much as one small record.
const RECORD: &[u8] = &[b'x'; 128];

type Parts = Vec<Bytes>;

/// Appends to one file. One thread takes everything that waits, writes it, syncs once, and answers all.
#[derive(Clone)]
pub struct Committer {
    queue: mpsc::Sender<(Parts, oneshot::Sender<io::Result<()>>)>,
}

impl Committer {
    pub fn start(file: &Path) -> io::Result<Self> {
        let mut file = File::create(file)?;
        let (queue, waiting) = mpsc::channel::<(Parts, oneshot::Sender<io::Result<()>>)>();
        thread::spawn(move || {
            while let Ok(first) = waiting.recv() {
                let group: Vec<_> = std::iter::once(first).chain(waiting.try_iter()).collect();
                let outcome = append(&mut file, group.iter().flat_map(|(parts, _)| parts));
                for (_, answer) in group {
                    // A client that has gone is no concern of the floor.
                    let _ = answer.send(outcome.as_ref().map(|_| ()).map_err(|error| error.kind().into()));
                }
            }
        });
        Ok(Committer { queue })
    }

    async fn append(&self, parts: Parts) -> io::Result<()> {
        let (answer, done) = oneshot::channel();
        self.queue.send((parts, answer)).map_err(|_| io::ErrorKind::BrokenPipe)?;
        done.await.map_err(|_| io::ErrorKind::BrokenPipe)?
    }
}

fn append<'a>(file: &mut File, parts: impl Iterator<Item = &'a Bytes>) -> io::Result<()> {
    let mut slices: Vec<_> = parts.map(|part| IoSlice::new(part)).collect();
    let mut slices = &mut slices[..];
    while !slices.is_empty() {
        let written = file.write_vectored(slices)?;
        IoSlice::advance_slices(&mut slices, written);
    }
    file.sync_data()
}

struct Floor {
    committer: Committer,
    listing: RwLock<Bytes>,
    kib: Bytes,
    mib: Bytes,
    /// Only made if somebody asks for it.
    large: LazyLock<Bytes>,
}

/// Serves floors 1 and 2 until the process is ended; says `ready PORT` when it listens.
pub async fn serve(directory: &Path) -> Result<(), Failure> {
    let floor = Arc::new(Floor {
        committer: Committer::start(&directory.join("floor"))?,
        listing: RwLock::default(),
        kib: Bytes::from(vec![b'x'; 1024]),
        mib: Bytes::from(vec![b'x'; 1024 * 1024]),
        large: LazyLock::new(|| Bytes::from(vec![b'x'; 64 * 1024 * 1024])),
    });
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("ready {}", listener.local_addr()?.port());
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let floor = Arc::clone(&floor);
        tokio::spawn(async move {
            let service = service_fn(|request| answer(&floor, request));
            // An error here is a connection the client has dropped.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(floor: &Floor, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, mut body) = request.into_parts();
    let path = head.uri.path();
    if head.method == Method::GET {
        let content = match path {
            path if path.ends_with("/get-64m") => floor.large.clone(),
            path if path.ends_with("/get-1m") => floor.mib.clone(),
            path if path.ends_with("/get-1k") => floor.kib.clone(),
            _ => floor.listing.read().expect("no one panics holding it").clone(),
        };
        return Ok(respond(StatusCode::OK, content));
    }
    if path == SWALLOW_PATH {
        while let Some(Ok(_)) = body.frame().await {}
        return Ok(respond(StatusCode::CREATED, Bytes::new()));
    }
    let mut parts = Parts::new();
    while let Some(Ok(frame)) = body.frame().await {
        parts.extend(frame.into_data());
    }
    if path == LISTING_PATH {
        *floor.listing.write().expect("no one panics holding it") = parts.concat().into();
        return Ok(respond(StatusCode::CREATED, Bytes::new()));
    }
    if head.headers.contains_key("if-none-match") {
        return Ok(respond(StatusCode::CONFLICT, Bytes::from_static(REFUSAL)));
    }
    if head.headers.contains_key("if-match") {
        return Ok(respond(StatusCode::PRECONDITION_FAILED, Bytes::from_static(REFUSAL)));
    }
    let renews = head.headers.contains_key("x-ms-lease-action");
    if renews {
        parts.push(Bytes::from_static(RECORD));
    }
    Ok(match floor.committer.append(parts).await {
        Ok(()) if renews => respond(StatusCode::OK, Bytes::new()),
        Ok(()) => respond(StatusCode::CREATED, Bytes::new()),
        Err(_) => respond(StatusCode::INTERNAL_SERVER_ERROR, Bytes::new()),
    })
}

const REFUSAL: &[u8] = b"<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>BlobAlreadyExists</Code>\
    <Message>The specified blob already exists.</Message></Error>";

fn respond(status: StatusCode, content: Bytes) -> Response<Full<Bytes>> {
    Response::builder()
        .status(status)
        .header("etag", "\"0x8D6D418B6C08663\"")
        .header("last-modified", "Fri, 26 Jun 2015 23:39:12 GMT")
        .header("x-ms-request-id", "00000000-0000-0000-0000-000000000000")
        .header("x-ms-version", "2021-12-02")
        .body(Full::new(content))
        .expect("these headers are well formed")
}

/// Floor 3: `writers` tasks, each appending `bytes` at a time and waiting for its sync.
pub async fn append_alone(directory: &Path, writers: usize, bytes: usize, time: Duration) -> Result<Tally, Failure> {
    let committer = Committer::start(&directory.join("append"))?;
    let body = Bytes::from(vec![b'x'; bytes]);
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..writers {
        let (committer, body) = (committer.clone(), body.clone());
        tasks.spawn(async move {
            let mut requests = 0;
            while start.elapsed() < time {
                committer.append(vec![body.clone()]).await?;
                requests += 1;
            }
            Ok::<_, io::Error>((requests, start.elapsed()))
        });
    }
    let mut all = Tally::default();
    while let Some(done) = tasks.join_next().await {
        let (requests, elapsed) = done??;
        all.requests += requests;
        all.elapsed = all.elapsed.max(elapsed);
    }
    Ok(all)
}
