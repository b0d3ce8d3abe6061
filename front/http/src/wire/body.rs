//! The body of a request, read from the connection as it is asked for.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use door::{Door, Entered, Full};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::head::BodyKind;
use super::pace::Pace;
use crate::trace;

/// What a connection runs over: TCP, TLS, or a pipe in tests.
pub trait Transport: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Transport for T {}

/// The body did not arrive as promised. The connection is of no use after it.
#[derive(Debug)]
pub enum BodyError {
    /// The client closed before the end.
    CutShort,
    /// Nothing came for too long, or too little.
    Stalled,
    /// The chunks are not chunks.
    MalformedChunk,
    /// More than the operation takes.
    TooLarge {
        bytes_max: u64,
    },
    Io(io::Error),
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BodyError::CutShort => write!(f, "the client closed the connection in the middle of the body"),
            BodyError::Stalled => write!(f, "the body stalled"),
            BodyError::MalformedChunk => write!(f, "the chunked body is malformed"),
            BodyError::TooLarge { bytes_max } => write!(f, "the body is over {bytes_max} bytes"),
            BodyError::Io(error) => write!(f, "reading the body: {error}"),
        }
    }
}

impl std::error::Error for BodyError {}

/// The longest line between chunks, or behind them.
const CHUNK_LINE_BYTES_MAX: usize = 4096;
/// What nobody reads, in all: extensions of chunks, and trailers. Every chunk has content besides, and that has a limit.
const UNREAD_BYTES_MAX: usize = 8 * 1024;
/// How much is read from the socket at once. A body needs this much memory, whatever its length.
const READ_BYTES: usize = 256 * 1024;

pub struct Body<'a> {
    transport: &'a mut dyn Transport,
    /// Bytes read from the connection and not used yet; what is behind the body belongs to the next request.
    buffer: &'a mut BytesMut,
    state: State,
    owes_continue: bool,
    stall: Duration,
    pace: Pace,
    /// Bytes the operation takes at most; set once it is known.
    pub bytes_max: u64,
    taken: u64,
    /// How much of `UNREAD_BYTES_MAX` has come.
    unread: usize,
    counted: Counted,
}

/// How much of a body is held as a whole.
enum Counted {
    /// It is short, or nobody counts.
    No,
    By(Arc<Door>, IpAddr),
    Yes(Entered),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Bytes left of a body of known length, or of the current chunk.
    Length(u64),
    InChunk(u64),
    ChunkSize,
    /// The line end behind a chunk's data.
    ChunkEnd,
    Trailers,
    Done,
    Broken,
}

impl<'a> Body<'a> {
    pub fn new(
        transport: &'a mut dyn Transport,
        buffer: &'a mut BytesMut,
        kind: BodyKind,
        expects_continue: bool,
        stall: Duration,
    ) -> Self {
        let state = match kind {
            BodyKind::Absent | BodyKind::Length(0) => State::Done,
            BodyKind::Length(bytes) => State::Length(bytes),
            BodyKind::Chunked => State::ChunkSize,
        };
        Body {
            transport,
            buffer,
            state,
            owes_continue: expects_continue,
            stall,
            pace: Pace::of_write(stall),
            bytes_max: 0,
            taken: 0,
            unread: 0,
            counted: Counted::No,
        }
    }

    /// The body has been read to its end, so the next request follows.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// It says itself that it has no more bytes than these.
    pub fn is_at_most(&self, bytes: u64) -> bool {
        match self.state {
            State::Done => true,
            State::Length(left) => left <= bytes,
            _ => false,
        }
    }

    /// What is held of it as a whole counts there, for this client, for as long as the body is there.
    pub fn count(&mut self, memory: Arc<Door>, client: IpAddr) {
        self.counted = Counted::By(memory, client);
    }

    /// So many more bytes of it are held.
    pub fn hold(&mut self, bytes: usize) -> Result<(), Full> {
        match &mut self.counted {
            Counted::No => Ok(()),
            Counted::By(memory, client) => {
                self.counted = Counted::Yes(memory.enter_as(bytes, *client)?);
                Ok(())
            }
            Counted::Yes(held) => held.grow(bytes),
        }
    }

    /// Some of it was read: whoever goes on from here lacks that.
    pub fn is_begun(&self) -> bool {
        self.taken > 0
    }

    /// How many bytes of it were read.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// The client still waits to be asked for the body and has sent none of it.
    pub fn is_unasked(&self) -> bool {
        self.owes_continue && self.buffer.is_empty()
    }

    /// How many bytes of it have not come yet; of one in chunks, that nobody knows. Of one that went wrong nothing is waited for.
    pub fn owed(&self) -> u64 {
        match self.state {
            State::Done | State::Broken => 0,
            State::Length(left) => left.saturating_sub(self.buffer.len() as u64),
            State::InChunk(_) | State::ChunkSize | State::ChunkEnd | State::Trailers => u64::MAX,
        }
    }

    /// All of it has come and waits in the buffer.
    pub fn is_here(&self) -> bool {
        match self.state {
            State::Done => true,
            State::Length(left) => left <= self.buffer.len() as u64,
            _ => false,
        }
    }

    /// Between 1 and `bytes_max` bytes; `None` at the end. Asks the client for the body first if it waits to be asked.
    pub async fn next(&mut self, bytes_max: usize) -> Result<Option<Bytes>, BodyError> {
        // A body that says itself that it is too large is not waited for.
        if let State::Length(left) = self.state
            && self.taken.saturating_add(left) > self.bytes_max
        {
            return Err(BodyError::TooLarge { bytes_max: self.bytes_max });
        }
        let begun = trace::begin();
        let advanced = self.advance(bytes_max).await;
        trace::passed(trace::RECEIVE, begun);
        match advanced {
            Ok(Some(bytes)) => {
                self.taken += bytes.len() as u64;
                if self.taken > self.bytes_max {
                    return Err(BodyError::TooLarge { bytes_max: self.bytes_max });
                }
                Ok(Some(bytes))
            }
            Ok(None) => Ok(None),
            Err(error) => {
                self.state = State::Broken;
                Err(error)
            }
        }
    }

    async fn advance(&mut self, bytes_max: usize) -> Result<Option<Bytes>, BodyError> {
        if self.owes_continue && self.state != State::Done {
            self.owes_continue = false;
            let asking = async {
                self.transport.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
                self.transport.flush().await
            };
            timeout(self.stall, asking).await.map_err(|_| BodyError::Stalled)?.map_err(BodyError::Io)?;
        }
        loop {
            match self.state {
                State::Done => return Ok(None),
                State::Broken => return Err(BodyError::CutShort),
                State::Length(left) => {
                    let bytes = self.take(left, bytes_max).await?;
                    let left = left - bytes.len() as u64;
                    self.state = if left == 0 { State::Done } else { State::Length(left) };
                    return Ok(Some(bytes));
                }
                State::InChunk(left) => {
                    let bytes = self.take(left, bytes_max).await?;
                    let left = left - bytes.len() as u64;
                    self.state = if left == 0 { State::ChunkEnd } else { State::InChunk(left) };
                    return Ok(Some(bytes));
                }
                State::ChunkEnd => {
                    if !self.line().await?.is_empty() {
                        return Err(BodyError::MalformedChunk);
                    }
                    self.state = State::ChunkSize;
                }
                State::ChunkSize => {
                    let line = self.line().await?;
                    let (size, extensions) = chunk_size(&line).ok_or(BodyError::MalformedChunk)?;
                    self.skip(extensions)?;
                    self.state = if size == 0 { State::Trailers } else { State::InChunk(size) };
                }
                State::Trailers => {
                    let line = self.line().await?;
                    if line.is_empty() {
                        self.state = State::Done;
                    } else if is_trailer(&line) {
                        self.skip(line.len())?;
                    } else {
                        return Err(BodyError::MalformedChunk);
                    }
                }
            }
        }
    }

    async fn take(&mut self, left: u64, bytes_max: usize) -> Result<Bytes, BodyError> {
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(bytes_max).min(READ_BYTES);
        if self.buffer.is_empty() {
            self.buffer.reserve(wanted);
            self.fill(wanted).await?;
        }
        let bytes = wanted.min(self.buffer.len());
        Ok(self.buffer.split_to(bytes).freeze())
    }

    /// Reads at most `bytes_max` more bytes; at least one.
    async fn fill(&mut self, bytes_max: usize) -> Result<(), BodyError> {
        let mut limited = (&mut *self.transport).take(bytes_max as u64);
        let read = self.pace.wait(limited.read_buf(self.buffer)).await;
        match read.ok_or(BodyError::Stalled)?.map_err(BodyError::Io)? {
            0 => Err(BodyError::CutShort),
            _ => Ok(()),
        }
    }

    /// So many more bytes mean nothing to us.
    fn skip(&mut self, bytes: usize) -> Result<(), BodyError> {
        self.unread += bytes;
        if self.unread > UNREAD_BYTES_MAX { Err(BodyError::MalformedChunk) } else { Ok(()) }
    }

    /// The next line without its end. It is no content, and earns no time.
    async fn line(&mut self) -> Result<Bytes, BodyError> {
        loop {
            if let Some(at) = self.buffer.iter().position(|b| *b == b'\n') {
                let mut line = self.buffer.split_to(at + 1);
                self.pace.forget(line.len());
                line.truncate(at);
                if line.last() != Some(&b'\r') {
                    return Err(BodyError::MalformedChunk);
                }
                line.truncate(at - 1);
                return Ok(line.freeze());
            }
            if self.buffer.len() > CHUNK_LINE_BYTES_MAX {
                return Err(BodyError::MalformedChunk);
            }
            self.fill(CHUNK_LINE_BYTES_MAX).await?;
        }
    }
}

/// The size of a chunk, and how much stands behind it. Nothing but digits: what another reader on the way may take for another size is none.
fn chunk_size(line: &[u8]) -> Option<(u64, usize)> {
    let digits = line.iter().position(|b| *b == b';').unwrap_or(line.len());
    let (size, extensions) = line.split_at(digits);
    let right = (1..=15).contains(&size.len()) && size.iter().all(u8::is_ascii_hexdigit) && is_text(extensions);
    let size = std::str::from_utf8(size).ok().filter(|_| right)?;
    Some((u64::from_str_radix(size, 16).ok()?, extensions.len()))
}

/// A name and a value, as a header is.
fn is_trailer(line: &[u8]) -> bool {
    let is_token = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
    let name = line.iter().position(|b| *b == b':').filter(|colon| *colon > 0);
    name.is_some_and(|colon| line[..colon].iter().all(is_token) && is_text(&line[colon..]))
}

fn is_text(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| !b.is_ascii_control() || *b == b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(kind: BodyKind, sent: &str, piece: usize) -> (Result<String, String>, String) {
        let (mut client, mut server) = tokio::io::duplex(1 << 16);
        client.write_all(sent.as_bytes()).await.expect("fits");
        drop(client);
        let mut buffer = BytesMut::new();
        let mut body = Body::new(&mut server, &mut buffer, kind, false, Duration::from_secs(5));
        body.bytes_max = 1000;
        let mut text = String::new();
        let result = loop {
            match body.next(piece).await {
                Ok(Some(bytes)) => {
                    assert!(!bytes.is_empty() && bytes.len() <= piece);
                    text.push_str(std::str::from_utf8(&bytes).expect("text"));
                }
                Ok(None) => break Ok(text),
                Err(error) => break Err(format!("{error:?}")),
            }
        };
        let mut rest = buffer.to_vec();
        server.read_to_end(&mut rest).await.expect("pipe");
        (result, String::from_utf8(rest).expect("text"))
    }

    #[tokio::test]
    async fn bodies() {
        let chunked = BodyKind::Chunked;
        for (kind, sent, expected, rest) in [
            (BodyKind::Absent, "GET", Ok(""), "GET"),
            (BodyKind::Length(0), "GET", Ok(""), "GET"),
            (BodyKind::Length(5), "helloGET", Ok("hello"), "GET"),
            (BodyKind::Length(5), "hell", Err("CutShort"), ""),
            (chunked, "5\r\nhello\r\n0\r\n\r\nGET", Ok("hello"), "GET"),
            (chunked, "2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\nTrailer: 1\r\n\r\nGET", Ok("hello"), "GET"),
            (chunked, "A\r\n0123456789\r\n0\r\n\r\n", Ok("0123456789"), ""),
            (chunked, "5\r\nhelloX\r\n0\r\n\r\n", Err("MalformedChunk"), "0\r\n\r\n"),
            (chunked, "-5\r\nhello\r\n", Err("MalformedChunk"), "hello\r\n"),
            (chunked, "5\nhello\r\n", Err("MalformedChunk"), "hello\r\n"),
            (chunked, "\r\n", Err("MalformedChunk"), ""),
            (chunked, "05;a=\"b\";c\r\nhello\r\n00\r\nA:\r\nB-c: d\te\r\n\r\nGET", Ok("hello"), "GET"),
            // What others on the way may read differently.
            (chunked, "5\r\r\nhello\r\n", Err("MalformedChunk"), "hello\r\n"),
            (chunked, " 5\r\nhello\r\n", Err("MalformedChunk"), "hello\r\n"),
            (chunked, "5 \r\nhello\r\n", Err("MalformedChunk"), "hello\r\n"),
            (chunked, "5;a\0\r\nhello\r\n", Err("MalformedChunk"), "hello\r\n"),
            (chunked, "5;a\rb\r\nhello\r\n", Err("MalformedChunk"), "hello\r\n"),
            (chunked, "0\r\nnonsense\r\n\r\n", Err("MalformedChunk"), "\r\n"),
            (chunked, "0\r\n: a\r\n\r\n", Err("MalformedChunk"), "\r\n"),
            (chunked, "0\r\na b: c\r\n\r\n", Err("MalformedChunk"), "\r\n"),
            (chunked, "0\r\na: b\rc\r\n\r\n", Err("MalformedChunk"), "\r\n"),
            (chunked, "ffffffffffffffff\r\n", Err("MalformedChunk"), ""),
            (chunked, "5\r\nhel", Err("CutShort"), ""),
            (chunked, "5\r\nhello\r\n", Err("CutShort"), ""),
            (chunked, "7d0\r\n", Err("CutShort"), ""),
        ] {
            for piece in [1, 3, 100] {
                let (result, left) = read(kind, sent, piece).await;
                assert_eq!(result.as_deref().map_err(String::as_str), expected, "{sent:?} by {piece}");
                assert_eq!(left, rest, "{sent:?} by {piece}");
            }
        }
        let said = read(BodyKind::Length(1001), "", 64).await.0;
        assert!(said.is_err_and(|error| error.starts_with("TooLarge")), "before a byte of it came");
        let long = format!("7d0\r\n{}", "x".repeat(2000));
        assert!(read(chunked, &long, 64).await.0.is_err_and(|error| error.starts_with("TooLarge")));
    }

    #[tokio::test]
    async fn what_nobody_reads_has_an_end() {
        let extended = format!("1;{}\r\nx\r\n", "e".repeat(1000));
        let trailer = format!("t: {}\r\n", "v".repeat(1000));
        for (chunks, trailers, right) in [(8, 0, true), (9, 0, false), (0, 8, true), (0, 9, false), (4, 5, false)] {
            let sent = format!("{}0\r\n{}\r\n", extended.repeat(chunks), trailer.repeat(trailers));
            let (result, _) = read(BodyKind::Chunked, &sent, 64).await;
            let expected = if right { Ok("x".repeat(chunks)) } else { Err("MalformedChunk".to_owned()) };
            assert_eq!(result, expected, "{chunks} chunks, {trailers} trailers");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn lines_between_chunks_earn_no_time() {
        let (mut client, mut server) = tokio::io::duplex(1 << 16);
        let dripping = tokio::spawn(async move {
            client.write_all(b"0\r\n").await.expect("a pipe");
            while client.write_all(b"a: b\r\n").await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        let mut buffer = BytesMut::new();
        let mut body = Body::new(&mut server, &mut buffer, BodyKind::Chunked, false, Duration::from_secs(5));
        body.bytes_max = 1000;
        let begun = tokio::time::Instant::now();
        assert!(matches!(body.next(10).await, Err(BodyError::Stalled)));
        assert!(begun.elapsed() < Duration::from_secs(7), "{:?}", begun.elapsed());
        drop(server);
        dripping.await.expect("it ends");
    }
}
