//! The client's end of HTTP/1.1, as one gateway speaks it to another: a request goes on as it came, its answer comes back as it was made.
//!
//! Our own, like the server's end and for the same reasons (`wire.rs`): a client library writes the names of headers in its own way and
//! takes no path that it cannot take apart. It understands what the server's end sends, and nothing else.
//!
//! 1. A body is sent when the other end asks for it, and not before. So what is refused without it is refused with the client's body
//!    untouched, and may be tried elsewhere.
//! 2. One piece of a body is in memory in each direction.
//! 3. A connection is used again only after a request that was sent whole and an answer that was read whole.

use std::collections::HashMap;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use engine::Fault;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, timeout};

use super::body::{Body, BodyError};
use super::head::BodyKind;

const CONNECT: Duration = Duration::from_secs(5);
/// Longer than a request may wait for SMB clients, and then for its commit.
const ANSWER: Duration = Duration::from_secs(150);
/// Without a byte moving.
const STALL: Duration = Duration::from_secs(60);
/// Less than a listener waits for the next request.
const IDLE: Duration = Duration::from_secs(60);
const IDLE_LINKS_MAX: usize = 64;

const HEADERS_MAX: usize = 256;
const HEAD_BYTES_MAX: usize = 64 * 1024;
const PIECE_BYTES: usize = 256 * 1024;

/// A connection to another gateway.
pub struct Link {
    incoming: Incoming,
    outgoing: OwnedWriteHalf,
}

struct Incoming {
    half: OwnedReadHalf,
    buffer: BytesMut,
}

/// The head of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answered {
    pub status: u16,
    pub reason: String,
    pub headers: Vec<(String, String)>,
    /// As it is said; of an answer to HEAD, that of another.
    pub content_bytes: Option<u64>,
}

impl Answered {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// How many bytes follow the answer to this method.
    fn body_bytes(&self, method: &str) -> io::Result<u64> {
        if method == "HEAD" || matches!(self.status, 204 | 304) {
            return Ok(0);
        }
        self.content_bytes.ok_or_else(|| io::Error::other("an answer without a length"))
    }

    /// `None` if there is not all of it yet.
    fn parse(bytes: &[u8]) -> io::Result<Option<(Answered, usize)>> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut headers);
        let length = match response.parse(bytes).map_err(io::Error::other)? {
            httparse::Status::Complete(length) => length,
            httparse::Status::Partial => return Ok(None),
        };
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(io::Error::other);
        let headers = response.headers.iter().map(|header| Ok((header.name.to_string(), text(header.value)?)));
        let mut answered = Answered {
            status: response.code.unwrap_or_default(),
            reason: response.reason.unwrap_or_default().to_string(),
            headers: headers.collect::<io::Result<_>>()?,
            content_bytes: None,
        };
        answered.content_bytes = answered.header("content-length").and_then(|length| length.parse().ok());
        Ok(Some((answered, length)))
    }
}

impl Incoming {
    async fn fill(&mut self, bytes_max: usize) -> io::Result<()> {
        self.buffer.reserve(bytes_max.min(PIECE_BYTES));
        match (&mut self.half).take(bytes_max as u64).read_buf(&mut self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    async fn head(&mut self) -> io::Result<Answered> {
        loop {
            if let Some((answered, length)) = Answered::parse(&self.buffer)? {
                let _ = self.buffer.split_to(length);
                return Ok(answered);
            }
            if self.buffer.len() >= HEAD_BYTES_MAX {
                return Err(io::Error::other("the head of an answer is too long"));
            }
            self.fill(HEAD_BYTES_MAX).await?;
        }
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub enum NotAnswered {
    /// The other gateway's doing.
    Peer(io::Error),
    /// The client's.
    Client(BodyError),
}

impl From<io::Error> for NotAnswered {
    fn from(error: io::Error) -> Self {
        NotAnswered::Peer(error)
    }
}

async fn in_time<T>(limit: Duration, doing: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(limit, doing).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

impl Link {
    async fn connect(address: &str) -> io::Result<Link> {
        let stream = in_time(CONNECT, TcpStream::connect(address)).await?;
        stream.set_nodelay(true)?;
        let (half, outgoing) = stream.into_split();
        Ok(Link { incoming: Incoming { half, buffer: BytesMut::new() }, outgoing })
    }

    /// Has the other end said nothing since the last answer, not even that it closes?
    fn is_quiet(&self) -> bool {
        let is_blocked = |error: io::Error| error.kind() == io::ErrorKind::WouldBlock;
        self.incoming.buffer.is_empty() && self.incoming.half.try_read(&mut [0]).is_err_and(is_blocked)
    }

    /// The head of the answer, and whether the request went out whole.
    async fn exchange(
        &mut self,
        head: &[u8],
        body: &mut Body<'_>,
        kind: BodyKind,
    ) -> Result<(Answered, bool), NotAnswered> {
        in_time(STALL, self.outgoing.write_all(head)).await?;
        let first = in_time(ANSWER, self.incoming.head()).await?;
        if first.status != 100 {
            return Ok((first, !has_body(kind)));
        }
        let mut answering = pin!(self.incoming.head());
        let sent = tokio::select! {
            biased;
            // Refused half way: nobody wants the rest.
            early = &mut answering => return Ok((early?, false)),
            sent = send_body(&mut self.outgoing, body, kind) => sent,
        };
        match sent {
            Ok(()) => Ok((in_time(ANSWER, answering).await?, true)),
            // Who closes without reading to the end has said why.
            Err(NotAnswered::Peer(error)) => match timeout(CONNECT, answering).await {
                Ok(Ok(answered)) => Ok((answered, false)),
                _ => Err(error.into()),
            },
            Err(error) => Err(error),
        }
    }
}

/// Does a request with such a body ask before it sends it?
pub fn has_body(kind: BodyKind) -> bool {
    !matches!(kind, BodyKind::Absent | BodyKind::Length(0))
}

async fn send_body(out: &mut OwnedWriteHalf, body: &mut Body<'_>, kind: BodyKind) -> Result<(), NotAnswered> {
    // How much is too much the other end says.
    body.bytes_max = u64::MAX;
    while let Some(piece) = body.next(PIECE_BYTES).await.map_err(NotAnswered::Client)? {
        if kind == BodyKind::Chunked {
            in_time(STALL, out.write_all(format!("{:x}\r\n", piece.len()).as_bytes())).await?;
        }
        let mut rest = piece;
        while !rest.is_empty() {
            // Each write must move something in time.
            in_time(STALL, out.write_buf(&mut rest)).await?;
        }
        if kind == BodyKind::Chunked {
            in_time(STALL, out.write_all(b"\r\n")).await?;
        }
    }
    if kind == BodyKind::Chunked {
        in_time(STALL, out.write_all(b"0\r\n\r\n")).await?;
    }
    Ok(())
}

/// Connections that wait for the next request, by the address they lead to.
#[derive(Default)]
pub struct Links(Mutex<HashMap<String, Vec<(Link, Instant)>>>);

impl Links {
    fn idle(&self) -> std::sync::MutexGuard<'_, HashMap<String, Vec<(Link, Instant)>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops what has waited for too long on the way.
    fn take_idle(&self, address: &str) -> Option<Link> {
        let mut idle = self.idle();
        idle.retain(|_, links| {
            links.retain(|(_, since)| since.elapsed() < IDLE);
            !links.is_empty()
        });
        let links = idle.get_mut(address)?;
        std::iter::from_fn(|| links.pop()).map(|(link, _)| link).find(Link::is_quiet)
    }

    fn put_idle(&self, address: String, link: Link) {
        let mut idle = self.idle();
        let links = idle.entry(address).or_default();
        if links.len() < IDLE_LINKS_MAX {
            links.push((link, Instant::now()));
        }
    }

    /// Sends a request and waits for the head of its answer. `head` asks for 100-continue if there is a body.
    pub async fn ask(
        self: &Arc<Self>,
        address: &str,
        method: &str,
        head: &[u8],
        body: &mut Body<'_>,
        kind: BodyKind,
    ) -> Result<(Answered, Rest), NotAnswered> {
        let mut link = match self.take_idle(address) {
            Some(link) => link,
            None => Link::connect(address).await?,
        };
        let (answered, is_sent) = link.exchange(head, body, kind).await?;
        let is_kept = is_sent && !answered.header("connection").is_some_and(|word| word.eq_ignore_ascii_case("close"));
        let left = answered.body_bytes(method)?;
        let home = is_kept.then(|| (self.clone(), address.to_string()));
        let mut rest = Rest { link: Some(link), left, home };
        rest.settle();
        Ok((answered, rest))
    }
}

/// The body of an answer, as far as it was not read yet.
pub struct Rest {
    link: Option<Link>,
    left: u64,
    /// Where the connection goes when it is read to its end, if it can be used again.
    home: Option<(Arc<Links>, String)>,
}

impl Rest {
    pub fn left(&self) -> u64 {
        self.left
    }

    /// `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        if self.left == 0 {
            return Ok(None);
        }
        let cut = |error| Fault::io("reading another gateway's answer", error);
        let Some(link) = &mut self.link else { return Ok(None) };
        let wanted = usize::try_from(self.left).unwrap_or(usize::MAX).min(PIECE_BYTES);
        if link.incoming.buffer.is_empty() {
            in_time(STALL, link.incoming.fill(wanted)).await.map_err(cut)?;
        }
        let piece = link.incoming.buffer.split_to(wanted.min(link.incoming.buffer.len())).freeze();
        self.left -= piece.len() as u64;
        self.settle();
        Ok(Some(piece))
    }

    fn settle(&mut self) {
        if self.left == 0
            && let (Some(link), Some((links, address))) = (self.link.take(), self.home.take())
        {
            links.put_idle(address, link);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_answers() {
        let parse = |text: &str| Answered::parse(text.replace('\n', "\r\n").as_bytes());
        let (answered, length) =
            parse("HTTP/1.1 200 OK\nx-ms-meta-Hello: World\nContent-Length: 7\n\nabc").expect("right").expect("whole");
        assert_eq!((answered.status, answered.reason.as_str()), (200, "OK"));
        assert_eq!(answered.headers[0], ("x-ms-meta-Hello".to_string(), "World".to_string()));
        assert_eq!(length, "HTTP/1.1 200 OK\r\nx-ms-meta-Hello: World\r\nContent-Length: 7\r\n\r\n".len());
        assert!(parse("HTTP/1.1 200 OK\nx-ms-").expect("right").is_none());
        assert!(parse("SMTP ready\n\n").is_err());
        for (method, head, expected) in [
            ("GET", "HTTP/1.1 200 OK\nContent-Length: 7\n\n", Some(7)),
            ("HEAD", "HTTP/1.1 200 OK\nContent-Length: 7\n\n", Some(0)),
            ("GET", "HTTP/1.1 304 Not Modified\n\n", Some(0)),
            ("PUT", "HTTP/1.1 204 No Content\n\n", Some(0)),
            ("GET", "HTTP/1.1 200 OK\n\n", None),
            ("GET", "HTTP/1.1 200 OK\nContent-Length: x\n\n", None),
        ] {
            let (answered, _) = parse(head).expect("right").expect("whole");
            assert_eq!(answered.body_bytes(method).ok(), expected, "{method} {head}");
        }
    }
}
