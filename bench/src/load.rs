//! The load generator: keep-alive connections over plain sockets, one request at a time on each.
//!
//! It knows as much HTTP/1.1 as it needs to know where an answer ends. An answer with another status than the one
//! expected ends the run: figures of failed requests are worth nothing.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

const READ_BUFFER_BYTES: usize = 256 * 1024;
/// Up to here head and body go out in one write.
const JOINED_BYTES_MAX: usize = 64 * 1024;

pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Gives the next request head of one connection: made in advance as far as the stock reaches, made at once after that.
pub struct Supply {
    stock: std::vec::IntoIter<Vec<u8>>,
    make: Arc<dyn Fn(u64) -> Vec<u8> + Send + Sync>,
    next: u64,
    step: u64,
}

impl Supply {
    /// Numbers `first`, `first + step`, …, of which `ahead` are made now.
    pub fn numbered(first: u64, step: u64, ahead: usize, make: Arc<dyn Fn(u64) -> Vec<u8> + Send + Sync>) -> Self {
        let stock: Vec<_> = (0..ahead as u64).map(|n| make(first + n * step)).collect();
        Supply { next: first + ahead as u64 * step, stock: stock.into_iter(), make, step }
    }

    fn next(&mut self) -> Vec<u8> {
        self.stock.next().unwrap_or_else(|| {
            let head = (self.make)(self.next);
            self.next += self.step;
            head
        })
    }
}

/// The request that follows a receive, made from a message's id and receipt.
pub type Finish = Arc<dyn Fn(&str, &str) -> Vec<u8> + Send + Sync>;

pub enum Traffic {
    /// The same request again and again.
    Repeat { head: Vec<u8>, body: Arc<Vec<u8>> },
    /// Another head every time.
    Distinct { supply: Supply, body: Arc<Vec<u8>> },
    /// A message is received, something done with its id and receipt, and perhaps another put; all count as one.
    Cycle { get: Vec<u8>, finish: Finish, put: Option<(Vec<u8>, Arc<Vec<u8>>)> },
}

/// How long a connection goes on.
#[derive(Clone, Copy)]
pub enum Until {
    Time(Duration),
    Count(u64),
}

/// What came of it: requests answered, the time they took, and each one's latency in microseconds.
#[derive(Default)]
pub struct Tally {
    pub requests: u64,
    pub elapsed: Duration,
    pub latencies_us: Vec<u32>,
}

impl Tally {
    pub fn per_second(&self) -> f64 {
        self.requests as f64 / self.elapsed.as_secs_f64()
    }

    pub fn percentile_us(&self, percent: usize) -> u32 {
        match self.latencies_us.len() {
            0 => 0,
            n => self.latencies_us[(n - 1) * percent / 100],
        }
    }
}

/// Runs all connections until each is done; the clock starts when all are connected.
pub async fn run(port: u16, traffic: Vec<Traffic>, until: Until, expect: u16) -> Result<Tally, Failure> {
    let mut connections = Vec::new();
    for one in traffic {
        connections.push((Connection::open(port).await?, one));
    }
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for (connection, one) in connections {
        tasks.spawn(drive(connection, one, start, until, expect));
    }
    let mut all = Tally::default();
    while let Some(done) = tasks.join_next().await {
        let mut one = done??;
        all.requests += one.requests;
        all.elapsed = all.elapsed.max(one.elapsed);
        all.latencies_us.append(&mut one.latencies_us);
    }
    all.latencies_us.sort_unstable();
    Ok(all)
}

async fn drive(
    mut connection: Connection,
    mut traffic: Traffic,
    start: Instant,
    until: Until,
    expect: u16,
) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    let mut now = start;
    loop {
        let over = match until {
            Until::Time(limit) => now - start >= limit,
            Until::Count(limit) => tally.requests >= limit,
        };
        if over {
            tally.elapsed = now - start;
            return Ok(tally);
        }
        match &mut traffic {
            Traffic::Repeat { head, body } => connection.send(head, body).await?,
            Traffic::Distinct { supply, body } => connection.send(&supply.next(), body).await?,
            Traffic::Cycle { get, finish, put } => {
                connection.send(get, &[]).await?;
                let mut received = Vec::new();
                connection.answer(expect, Some(&mut received)).await?;
                let received = String::from_utf8_lossy(&received);
                let value = |name: &str| received.split_once(&format!("<{name}>"))?.1.split('<').next();
                let (Some(id), Some(receipt)) = (value("MessageId"), value("PopReceipt")) else {
                    return Err("the queue ran dry".into());
                };
                connection.send(&finish(id, receipt), &[]).await?;
                if let Some((head, body)) = put {
                    connection.answer(204, None).await?;
                    connection.send(head, body).await?;
                }
            }
        }
        let expect = match traffic {
            Traffic::Cycle { put: None, .. } => 204,
            Traffic::Cycle { put: Some(_), .. } => 201,
            Traffic::Repeat { .. } | Traffic::Distinct { .. } => expect,
        };
        connection.answer(expect, None).await?;
        let after = Instant::now();
        tally.requests += 1;
        tally.latencies_us.push((after - now).as_micros() as u32);
        now = after;
    }
}

/// One request on a connection of its own; gives the body of the answer.
pub async fn once(port: u16, head: &[u8], body: &[u8], expect: u16) -> Result<Vec<u8>, Failure> {
    let mut connection = Connection::open(port).await?;
    connection.send(head, body).await?;
    let mut kept = Vec::new();
    connection.answer(expect, Some(&mut kept)).await?;
    Ok(kept)
}

/// One request whose body is so many bytes, a piece again and again; gives the time from its first byte to the end of its
/// answer.
pub async fn stream(port: u16, head: &[u8], piece: &[u8], bytes: u64, expect: u16) -> Result<Duration, Failure> {
    let mut connection = Connection::open(port).await?;
    let start = Instant::now();
    connection.stream.write_all(head).await?;
    let mut left = bytes;
    while left > 0 {
        let next = left.min(piece.len() as u64);
        if let Err(error) = connection.stream.write_all(&piece[..next as usize]).await {
            // A server that refuses before it has read all says why, if it can.
            connection.answer(expect, None).await?;
            return Err(error.into());
        }
        left -= next;
    }
    connection.answer(expect, None).await?;
    Ok(start.elapsed())
}

struct Connection {
    stream: TcpStream,
    joined: Vec<u8>,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Connection {
    async fn open(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        stream.set_nodelay(true)?;
        let buffer = vec![0; READ_BUFFER_BYTES].into_boxed_slice();
        Ok(Connection { stream, joined: Vec::new(), buffer, start: 0, end: 0 })
    }

    async fn send(&mut self, head: &[u8], body: &[u8]) -> io::Result<()> {
        if body.is_empty() {
            return self.stream.write_all(head).await;
        }
        if head.len() + body.len() <= JOINED_BYTES_MAX {
            self.joined.clear();
            self.joined.extend_from_slice(head);
            self.joined.extend_from_slice(body);
            return self.stream.write_all(&self.joined).await;
        }
        self.stream.write_all(head).await?;
        self.stream.write_all(body).await
    }

    async fn fill(&mut self) -> Result<(), Failure> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        match self.stream.read(&mut self.buffer[self.end..]).await? {
            0 => Err("the server closed the connection in the middle of an answer".into()),
            n => {
                self.end += n;
                Ok(())
            }
        }
    }

    /// Reads one answer to its end; keeps its body if asked to, or if it is not the answer expected.
    async fn answer(&mut self, expect: u16, mut keep: Option<&mut Vec<u8>>) -> Result<(), Failure> {
        let head_bytes = loop {
            let unread = &self.buffer[self.start..self.end];
            if let Some(at) = find(unread, b"\r\n\r\n") {
                break at + 4;
            }
            if unread.len() == self.buffer.len() {
                return Err("the head of the answer has no end".into());
            }
            self.fill().await?;
        };
        let head = &self.buffer[self.start..self.start + head_bytes];
        let status: u16 = std::str::from_utf8(head.get(9..12).unwrap_or_default())
            .ok()
            .and_then(|digits| digits.parse().ok())
            .ok_or("the answer has no status")?;
        let mut length = Some(0);
        for line in head.split(|byte| *byte == b'\n') {
            if let Some(value) = value_of(line, b"content-length:") {
                length = Some(value.trim().parse::<usize>()?);
            } else if value_of(line, b"transfer-encoding:").is_some_and(|value| value.contains("chunked")) {
                length = None;
            }
        }
        let status_line =
            String::from_utf8_lossy(head.split(|byte| *byte == b'\r').next().unwrap_or_default()).into_owned();
        self.start += head_bytes;

        let mut complaint = Vec::new();
        if status != expect {
            keep = Some(&mut complaint);
        }
        match length {
            Some(bytes) => self.body(bytes, &mut keep).await?,
            None => loop {
                let line = self.line().await?;
                let bytes = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16)?;
                self.body(bytes, &mut keep).await?;
                self.line().await?;
                if bytes == 0 {
                    break;
                }
            },
        }
        if status != expect {
            complaint.truncate(600);
            return Err(format!("{status_line}, expected {expect}: {}", String::from_utf8_lossy(&complaint)).into());
        }
        Ok(())
    }

    async fn body(&mut self, mut bytes: usize, keep: &mut Option<&mut Vec<u8>>) -> Result<(), Failure> {
        while bytes > 0 {
            if self.start == self.end {
                self.fill().await?;
            }
            let taken = bytes.min(self.end - self.start);
            if let Some(kept) = keep {
                kept.extend_from_slice(&self.buffer[self.start..self.start + taken]);
            }
            self.start += taken;
            bytes -= taken;
        }
        Ok(())
    }

    async fn line(&mut self) -> Result<String, Failure> {
        loop {
            let unread = &self.buffer[self.start..self.end];
            if let Some(at) = find(unread, b"\r\n") {
                let line = String::from_utf8_lossy(&unread[..at]).into_owned();
                self.start += at + 2;
                return Ok(line);
            }
            self.fill().await?;
        }
    }
}

fn find(within: &[u8], what: &[u8]) -> Option<usize> {
    within.windows(what.len()).position(|window| window == what)
}

/// The value of a header line, if its name (with the colon) is this one.
fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a str> {
    let (head, value) = line.split_at_checked(name.len())?;
    head.eq_ignore_ascii_case(name).then(|| std::str::from_utf8(value).ok()).flatten()
}
