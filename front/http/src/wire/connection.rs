//! One connection: read a head, let it be answered, write the answer, again.
//!
//! Invariants:
//! 1. The answer to a request is written whole before the next head is looked at, and a request under way is never dropped: not when
//!    its client goes away, not when the server drains. So a commit that began is always seen to its end.
//! 2. What is in memory per connection: one head, one piece of a body in each direction.
//! 3. A panic while answering costs that request a 500 and the connection; nothing else.
//! 4. After a body that was not read to its end the connection is closed, except when little is left of it. Its client is heard out before:
//!    many look for the answer only when they have sent everything.

use std::future::Future;
use std::io::{self, IoSlice};
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::body::{Body, Transport};
use super::head::{Head, HeadError};
use super::pace::Pace;
use super::response::{Response, ResponseBody, request_id};

/// What a connection may cost.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub head_bytes_max: usize,
    /// Between requests.
    pub idle: Duration,
    /// From the first byte of a head to its last; and of a TLS handshake.
    pub head: Duration,
    /// Without a byte moving, in either direction; `pace` says how long it may take in all.
    pub stall: Duration,
    /// An unread rest of a body up to this size is read and dropped, to keep the connection.
    pub drain_bytes_max: u64,
    /// As much of a body is read and dropped behind its answer: more than clients send in one request unless they are told to.
    pub unwanted_bytes_max: u64,
}

impl Limits {
    /// A head is little and comes at once, so it gets half of the time that a peer may stand still.
    pub fn new(idle: Duration, stall: Duration) -> Self {
        Limits {
            head_bytes_max: 64 * 1024,
            idle,
            head: stall / 2,
            stall,
            drain_bytes_max: 256 * 1024,
            unwanted_bytes_max: 512 * 1024 * 1024,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits::new(Duration::from_secs(120), Duration::from_secs(60))
    }
}

/// Who answers.
pub trait Connection: Send + Sync {
    fn answer<'a>(&'a self, head: &'a Head, body: &'a mut Body<'_>) -> impl Future<Output = Response> + Send;
    /// A head that cannot be read as a request.
    fn refuse(&self, error: HeadError) -> Response;
    /// The answer to a request whose handling panicked.
    fn panicked(&self, head: &Head) -> Response;
    /// May a client leave TLS out where it is spoken?
    fn may_lack_tls(&self) -> bool {
        false
    }
}

const READ_BYTES_FIRST: usize = 8 * 1024;

/// Serves until the client leaves, time runs out or `draining` turns true.
pub async fn serve<T: Transport, C: Connection>(
    transport: &mut T,
    connection: &C,
    limits: &Limits,
    draining: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut buffer = BytesMut::with_capacity(READ_BYTES_FIRST);
    let mut out = BytesMut::new();
    let mut drains = draining.clone();
    // For all requests of the connection: setting these anew for each of them costs more than they do.
    let mut drain = pin!(async move { drop(drains.wait_for(|draining| *draining).await) });
    let mut idle = pin!(sleep(limits.idle));
    loop {
        if buffer.is_empty() {
            let waits = Waits { idle: idle.as_mut(), drain: drain.as_mut() };
            if !read_first(transport, &mut buffer, limits, waits).await? {
                return Ok(());
            }
        }
        let head = match read_head(transport, &mut buffer, limits).await? {
            Read::Head(head) => head,
            Read::End => return Ok(()),
            Read::Bad(error) => {
                let response = connection.refuse(error);
                write(transport, response, &mut out, false, limits).await?;
                return close(transport, limits).await;
            }
        };
        let mut body = Body::new(transport, &mut buffer, head.body, head.expects_continue(), limits.stall);
        // On the heap, and only now: a connection that waits for its next request costs little.
        let answering = Box::pin(connection.answer(&head, &mut body));
        let (response, panicked) = match (CatchPanic { future: answering }).await {
            Ok(response) => (response, false),
            Err(()) => (connection.panicked(&head), true),
        };
        // A client that waits to be asked for its body and was refused may send it or not; only a closed connection is clear.
        let is_unasked = body.is_unasked();
        let unread = !body.is_done() && (is_unasked || !drained(&mut body, limits).await);
        let owed = if is_unasked { 0 } else { body.owed() };
        let keep_alive = !panicked && !unread && head.keeps_alive() && !*draining.borrow();
        write(transport, response, &mut out, keep_alive, limits).await?;
        if !keep_alive {
            if owed > 0 {
                tokio::select! {
                    heard = hear_out(transport, owed, limits) => heard?,
                    () = &mut drain => {}
                }
            }
            return close(transport, limits).await;
        }
    }
}

enum Read {
    Head(Head),
    /// The client closed or was too slow.
    End,
    Bad(HeadError),
}

/// What ends the waiting for a request.
struct Waits<'a, D> {
    /// Set for whichever request was waited for when it last ran out; it is set anew when it runs out, if that was too early.
    idle: Pin<&'a mut Sleep>,
    drain: Pin<&'a mut D>,
}

/// Waits for the first bytes of a request; false if none come: the client closed, was idle for too long, or we are draining.
async fn read_first<T: Transport, D: Future<Output = ()>>(
    transport: &mut T,
    buffer: &mut BytesMut,
    limits: &Limits,
    Waits { mut idle, mut drain }: Waits<'_, D>,
) -> io::Result<bool> {
    buffer.reserve(READ_BYTES_FIRST);
    let until = Instant::now() + limits.idle;
    let mut read = pin!(transport.read_buf(buffer));
    loop {
        tokio::select! {
            biased;
            read = &mut read => return Ok(read? > 0),
            () = &mut drain => return Ok(false),
            () = &mut idle => {
                if Instant::now() >= until {
                    return Ok(false);
                }
                idle.as_mut().reset(until);
            }
        }
    }
}

/// The head that the buffer holds, or `None` if more of it has to come.
fn parse(buffer: &mut BytesMut, limits: &Limits) -> Option<Read> {
    // Empty lines before a request are skipped, as RFC 9112 2.2 asks.
    while buffer.starts_with(b"\r\n") {
        let _ = buffer.split_to(2);
    }
    match Head::parse(buffer) {
        Ok(Some((head, length))) => {
            let _ = buffer.split_to(length);
            Some(Read::Head(head))
        }
        Ok(None) if buffer.len() >= limits.head_bytes_max => {
            let has_line = buffer.contains(&b'\n');
            Some(Read::Bad(if has_line { HeadError::TooManyHeaders } else { HeadError::TargetTooLong }))
        }
        Ok(None) => None,
        Err(error) => Some(Read::Bad(error)),
    }
}

async fn read_head<T: Transport>(transport: &mut T, buffer: &mut BytesMut, limits: &Limits) -> io::Result<Read> {
    // Most come whole: for those no timer is set.
    if let Some(read) = parse(buffer, limits) {
        return Ok(read);
    }
    let whole = async {
        loop {
            buffer.reserve(READ_BYTES_FIRST);
            if transport.read_buf(buffer).await? == 0 {
                return Ok(Read::End);
            }
            if let Some(read) = parse(buffer, limits) {
                return Ok(read);
            }
        }
    };
    timeout(limits.head, whole).await.unwrap_or(Ok(Read::End))
}

/// Reads and drops what is left of a body, if it is little.
async fn drained(body: &mut Body<'_>, limits: &Limits) -> bool {
    body.bytes_max = u64::MAX;
    let mut left = limits.drain_bytes_max;
    let reading = async {
        loop {
            match body.next(64 * 1024).await {
                Ok(None) => return true,
                Ok(Some(bytes)) if bytes.len() as u64 <= left => left -= bytes.len() as u64,
                _ => return false,
            }
        }
    };
    // Not for long: a client that goes on sending what nobody wants is let go.
    timeout(Duration::from_secs(1), reading).await.unwrap_or(false)
}

/// Bodies up to this size travel in the same write as the head.
const JOINED_BYTES_MAX: usize = 64 * 1024;

async fn write<T: Transport>(
    transport: &mut T,
    response: Response,
    out: &mut BytesMut,
    keep_alive: bool,
    limits: &Limits,
) -> io::Result<()> {
    let mut pace = Pace::of_read(limits.stall);
    out.clear();
    response.write_head(out, keep_alive);
    let headers = &response.headers;
    match response.body {
        ResponseBody::Empty | ResponseBody::Head { .. } => {}
        ResponseBody::Bytes(bytes) if bytes.len() <= JOINED_BYTES_MAX => out.extend_from_slice(&bytes),
        ResponseBody::Bytes(bytes) => {
            send(transport, [out, &bytes], &mut pace).await?;
            return flush(transport, &mut pace).await;
        }
        ResponseBody::Content { first, mut pieces, bytes } => {
            let damaged = |fault: engine::Fault| {
                let request = request_id(headers);
                tracing::error!(request, %fault, "a download was cut off");
                io::Error::other("the content could not be read")
            };
            let mut left = bytes;
            let mut piece = Some(first);
            if let Some(first) = piece.take_if(|first| first.len() <= JOINED_BYTES_MAX) {
                left -= first.len() as u64;
                out.extend_from_slice(&first);
                send(transport, [out, &[]], &mut pace).await?;
                out.clear();
                piece = pieces.next().await.map_err(damaged)?;
            }
            while let Some(bytes) = piece {
                left = left
                    .checked_sub(bytes.len() as u64)
                    .ok_or_else(|| io::Error::other("more content than promised"))?;
                // The next piece is read while this one is sent, the first behind the head.
                let (next, sent) = tokio::join!(pieces.next(), send(transport, [out, &bytes], &mut pace));
                sent?;
                out.clear();
                piece = next.map_err(damaged)?;
            }
            if left > 0 {
                return Err(io::Error::other("less content than promised"));
            }
            return flush(transport, &mut pace).await;
        }
    }
    send(transport, [out, &[]], &mut pace).await?;
    flush(transport, &mut pace).await
}

/// TLS takes what it is given before anybody reads it: only now it is seen whether somebody does.
async fn flush<T: Transport>(transport: &mut T, pace: &mut Pace) -> io::Result<()> {
    let flushed = pace.wait(async { transport.flush().await.map(|()| 0) }).await;
    flushed.ok_or_else(|| io::Error::from(io::ErrorKind::TimedOut))?.map(drop)
}

/// Writes all of both, at the pace of whoever reads it.
async fn send<T: Transport>(transport: &mut T, both: [&[u8]; 2], pace: &mut Pace) -> io::Result<()> {
    let [mut first, mut rest] = both;
    while !first.is_empty() || !rest.is_empty() {
        let written = if rest.is_empty() {
            pace.wait(transport.write(first)).await
        } else if first.is_empty() {
            pace.wait(transport.write(rest)).await
        } else {
            let together = [IoSlice::new(first), IoSlice::new(rest)];
            pace.wait(transport.write_vectored(&together)).await
        };
        let written = match written.ok_or_else(|| io::Error::from(io::ErrorKind::TimedOut))?? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            bytes => bytes,
        };
        let of_first = written.min(first.len());
        (first, rest) = (&first[of_first..], &rest[written - of_first..]);
    }
    Ok(())
}

/// Who is silent for so long has either stopped sending, and may wait for the end of the connection, or is slow.
const SILENCE: Duration = Duration::from_secs(1);

/// Reads and drops what a client still sends of a body that nobody wants. It has its answer, and as much time as for any other body: closing
/// now would reset the connection under it, and the answer would be lost.
async fn hear_out<T: Transport>(transport: &mut T, owed: u64, limits: &Limits) -> io::Result<()> {
    let mut owed = owed.min(limits.unwanted_bytes_max);
    if !dropped(transport, &mut owed, Pace::of_write(SILENCE.min(limits.stall))).await {
        timeout(limits.stall, transport.shutdown()).await??;
        dropped(transport, &mut owed, Pace::of_write(limits.stall)).await;
    }
    Ok(())
}

/// False if the client became too slow before `owed` bytes of it, or its end, came.
async fn dropped<T: Transport>(transport: &mut T, owed: &mut u64, mut pace: Pace) -> bool {
    let mut bytes = BytesMut::with_capacity(64 * 1024);
    while *owed > 0 {
        bytes.clear();
        match pace.wait(transport.read_buf(&mut bytes)).await {
            Some(Ok(0) | Err(_)) => return true,
            Some(Ok(bytes)) => *owed = owed.saturating_sub(bytes as u64),
            None => return false,
        }
    }
    true
}

/// Says goodbye and lets the client read the answer: closing with unread bytes would reset the connection under it.
async fn close<T: Transport>(transport: &mut T, limits: &Limits) -> io::Result<()> {
    timeout(limits.stall, transport.shutdown()).await??;
    let mut dropped = BytesMut::with_capacity(READ_BYTES_FIRST);
    let mut left = limits.drain_bytes_max * 4;
    let lingering = async {
        while left > 0 {
            dropped.clear();
            match transport.read_buf(&mut dropped).await {
                Ok(0) | Err(_) => break,
                Ok(bytes) => left = left.saturating_sub(bytes as u64),
            }
        }
    };
    let _ = timeout(Duration::from_secs(2), lingering).await;
    Ok(())
}

/// Says that no more connections are taken, and lets the client read it.
pub async fn turn_away<T: Transport>(transport: &mut T, limits: &Limits) -> io::Result<()> {
    transport.write_all(BUSY_ANSWER).await?;
    close(transport, limits).await
}

/// Polls a future and turns a panic in it into `Err`.
struct CatchPanic<F> {
    future: F,
}

impl<F: Future + Unpin> Future for CatchPanic<F> {
    type Output = Result<F::Output, ()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let future = Pin::new(&mut self.future);
        match std::panic::catch_unwind(AssertUnwindSafe(|| future.poll(context))) {
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(_) => Poll::Ready(Err(())), // the panic hook has printed it
        }
    }
}

/// The answer to a connection over the limit, outside any request.
const BUSY_ANSWER: &[u8] =
    b"HTTP/1.1 503 Server Busy\r\nx-ms-error-code: ServerBusy\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    use super::*;

    /// Answers with the path; `/panic` panics, `/body` reads the body first.
    struct Echo;

    impl Connection for Echo {
        async fn answer(&self, head: &Head, body: &mut Body<'_>) -> Response {
            assert_ne!(head.target(), "/panic", "asked for");
            let mut text = head.target().to_string();
            if text == "/body" {
                body.bytes_max = 100;
                while let Ok(Some(bytes)) = body.next(10).await {
                    text.push_str(&String::from_utf8_lossy(&bytes));
                }
            }
            let mut response = Response::new(200);
            response.body = ResponseBody::Bytes(text.into());
            response
        }

        fn refuse(&self, _error: HeadError) -> Response {
            Response::new(400)
        }

        fn panicked(&self, _head: &Head) -> Response {
            Response::new(500)
        }
    }

    #[tokio::test]
    async fn requests_follow_each_other() {
        for (sent, statuses) in [
            ("GET /a HTTP/1.1\nHost: h\n\nGET /b HTTP/1.1\nHost: h\n\n", 2),
            ("PUT /body HTTP/1.1\nHost: h\nContent-Length: 3\n\nabcGET /b HTTP/1.1\nHost: h\n\n", 2),
            // A short body that nobody read is dropped, and the connection goes on.
            ("PUT /a HTTP/1.1\nHost: h\nContent-Length: 3\n\nabcGET /b HTTP/1.1\nHost: h\n\n", 2),
            ("GET /a HTTP/1.1\nHost: h\nConnection: close\n\nGET /b HTTP/1.1\nHost: h\n\n", 1),
            ("GET /a HTTP/1.0\n\nGET /b HTTP/1.1\nHost: h\n\n", 1),
            ("nonsense\n\nGET /b HTTP/1.1\nHost: h\n\n", 1),
            // One request's panic costs that request and its connection.
            ("GET /a HTTP/1.1\nHost: h\n\nGET /panic HTTP/1.1\nHost: h\n\nGET /b HTTP/1.1\nHost: h\n\n", 2),
        ] {
            let (mut client, mut server) = tokio::io::duplex(1 << 16);
            let (_drain, draining) = watch::channel(false);
            client.write_all(sent.replace('\n', "\r\n").as_bytes()).await.expect("fits");
            client.shutdown().await.expect("a pipe");
            let _ = serve(&mut server, &Echo, &Limits::default(), draining).await;
            drop(server);
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.expect("text");
            assert_eq!(answer.matches("HTTP/1.1 ").count(), statuses, "{sent}: {answer}");
            assert_eq!(answer.contains(" 500 "), sent.contains("/panic"), "{answer}");
        }
    }

    /// Sends so many bytes of a body that nobody wants, and only then looks for the answer; for how many seconds is it served?
    async fn sent_in_vain(content_length: &str, bytes: usize, limits: Limits) -> (bool, String, u64) {
        let (mut client, mut server) = tokio::io::duplex(1 << 16);
        let (_drain, draining) = watch::channel(false);
        let begun = Instant::now();
        let serving = tokio::spawn(async move { serve(&mut server, &Echo, &limits, draining).await });
        let head = format!("PUT /a HTTP/1.1\r\nHost: h\r\n{content_length}\r\n\r\n");
        client.write_all(head.as_bytes()).await.expect("a head");
        let is_sent = client.write_all(&vec![b'1'; bytes]).await.is_ok();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("text");
        let _ = serving.await.expect("no panic");
        (is_sent, answer, begun.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn who_sends_what_nobody_wants_has_its_answer() {
        let mib = 1 << 20;
        let limits = Limits { unwanted_bytes_max: 64 << 20, ..Limits::default() };
        for (content_length, bytes, is_sent, seconds) in [
            ("Content-Length: 8388608", 8 * mib, true, 0..=3),
            // More than is heard out.
            ("Content-Length: 8589934592", 80 * mib, false, 0..=3),
            // Who stops half way is told to leave, and given up when it does not.
            ("Content-Length: 8388608", 4 * mib, true, 60..=70),
            ("Content-Length: 8388608", 0, true, 60..=70),
            // One chunk of 16 MiB, of which half comes.
            ("Transfer-Encoding: chunked\r\n\r\n1000000", 8 * mib, true, 60..=70),
        ] {
            let (sent, answer, took) = sent_in_vain(content_length, bytes, limits).await;
            assert_eq!(sent, is_sent, "{content_length}: {bytes}");
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("Connection: close"), "{answer}");
            assert!(seconds.contains(&took), "{content_length}: {bytes} in {took} s");
        }
    }

    /// A client that sends and reads nothing, behind TLS: what is written is taken, and stays where it is.
    struct Unread {
        sent: &'static [u8],
        /// Until it is closed.
        flushes: bool,
    }

    impl AsyncRead for Unread {
        fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            let bytes = self.sent.len().min(buffer.remaining());
            buffer.put_slice(&self.sent[..bytes]);
            self.sent = &self.sent[bytes..];
            if bytes == 0 { Poll::Pending } else { Poll::Ready(Ok(())) }
        }
    }

    impl AsyncWrite for Unread {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            if self.flushes { Poll::Ready(Ok(())) } else { Poll::Pending }
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_nobody_takes() {
        let (_drain, draining) = watch::channel(false);
        let limits = Limits::default();
        for (sent, flushes) in [
            (&b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"[..], false),
            (b"GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", true),
            (b"nonsense\r\n\r\n", false),
            (b"nonsense\r\n\r\n", true),
        ] {
            let begun = Instant::now();
            let served = serve(&mut Unread { sent, flushes }, &Echo, &limits, draining.clone()).await;
            assert_eq!(served.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut));
            assert!(begun.elapsed() < limits.stall + Duration::from_secs(1));
        }
    }

    #[tokio::test]
    async fn an_idle_connection_ends_when_the_server_drains() {
        let (_client, mut server) = tokio::io::duplex(1024);
        let (drain, draining) = watch::channel(false);
        let serving = tokio::spawn(async move { serve(&mut server, &Echo, &Limits::default(), draining).await });
        drain.send_replace(true);
        serving.await.expect("no panic").expect("a clean end");
    }
}
