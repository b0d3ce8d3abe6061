//! Traces for an OpenTelemetry collector: OTLP over HTTP, in JSON, in batches.
//!
//! No request waits for it. What the collector does not take in time is lost and counted, and that is said once a minute at most. What is
//! held is bounded: so many spans in the queue, so many in the batch that is being sent.

mod encode;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::source::{SourceUrl, outside};
use http::trace::{Span, Tracer};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use partition::account::Secret;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

/// As OpenTelemetry's own exporters have it, but sooner: whoever develops looks at once.
const QUEUE_SPANS_MAX: usize = 2048;
const BATCH_SPANS_MAX: usize = 512;
const DELAY: Duration = Duration::from_secs(1);

/// A batch in all; what is waited between two tries at it.
const SENT_WITHIN: Duration = Duration::from_secs(10);
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);
/// When the program ends.
const LAST_WITHIN: Duration = Duration::from_secs(5);
const REPORT_PAUSE: Duration = Duration::from_secs(60);

#[derive(Clone, PartialEq, Debug)]
pub struct OtlpSettings {
    pub url: SourceUrl,
    /// Which part of the traces that begin here is followed.
    pub ratio: f64,
    /// Sent along; they may hold a secret.
    pub headers: Vec<(String, Secret)>,
    /// What the program is, for whoever reads the traces.
    pub resource: Vec<(String, String)>,
}

/// Takes spans from requests.
pub struct Exporter {
    queue: mpsc::Sender<Span>,
    overrun: Arc<AtomicU64>,
    /// Of 2^56.
    followed: u64,
}

/// Sends them.
pub struct Sending {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

const ALL: u64 = 1 << 56;

impl Tracer for Exporter {
    /// By the id alone, so that all who see the trace decide alike.
    fn follows(&self, trace: u128) -> bool {
        (trace as u64) % ALL < self.followed
    }

    fn finished(&self, span: Span) {
        if self.queue.try_send(span).is_err() {
            self.overrun.fetch_add(1, Ordering::Relaxed);
        }
    }
}

pub fn start(settings: OtlpSettings) -> (Arc<Exporter>, Sending) {
    let (queue, spans) = mpsc::channel(QUEUE_SPANS_MAX);
    let (stop, stopped) = watch::channel(false);
    let overrun = Arc::new(AtomicU64::new(0));
    let followed = (settings.ratio * ALL as f64) as u64;
    let exporter = Exporter { queue, overrun: overrun.clone(), followed };
    let collector = Collector { settings, overrun, lost: Lost::default() };
    (Arc::new(exporter), Sending { stop, task: tokio::spawn(collector.run(spans, stopped)) })
}

impl Sending {
    /// Sends what is left, if that does not take long.
    pub async fn finish(self) {
        self.stop.send_replace(true);
        let mut task = self.task;
        if timeout(LAST_WITHIN, &mut task).await.is_err() {
            task.abort();
            tracing::warn!("the last traces were not delivered in time");
        }
    }
}

struct Collector {
    settings: OtlpSettings,
    overrun: Arc<AtomicU64>,
    lost: Lost,
}

impl Collector {
    async fn run(mut self, mut spans: mpsc::Receiver<Span>, mut stopped: watch::Receiver<bool>) {
        loop {
            let mut batch = Vec::new();
            tokio::select! {
                _ = spans.recv_many(&mut batch, BATCH_SPANS_MAX) => {}
                _ = stopped.wait_for(|stopped| *stopped) => spans.close(),
            }
            let delay = sleep(DELAY);
            tokio::pin!(delay);
            // After the end of the queue nothing comes and nobody waits.
            while batch.len() < BATCH_SPANS_MAX {
                let room = BATCH_SPANS_MAX - batch.len();
                tokio::select! {
                    biased;
                    received = spans.recv_many(&mut batch, room) => if received == 0 { break },
                    _ = stopped.wait_for(|stopped| *stopped), if !spans.is_closed() => spans.close(),
                    () = &mut delay => break,
                }
            }
            if batch.is_empty() {
                break;
            }
            self.deliver(&batch, &mut stopped).await;
            self.lost.report(&self.overrun);
        }
        self.lost.report(&self.overrun);
    }

    async fn deliver(&mut self, batch: &[Span], stopped: &mut watch::Receiver<bool>) {
        let body = Bytes::from(encode::request(&self.settings.resource, batch));
        for attempt in 1..=TRIES {
            let sent = timeout(SENT_WITHIN, post(&self.settings, body.clone())).await;
            let error = match sent.unwrap_or(Err(NotSent::again("no answer in time"))) {
                Ok(()) => return,
                Err(error) => error,
            };
            if error.is_final || attempt == TRIES || *stopped.borrow() {
                self.lost.add(batch.len() as u64, error.why);
                return;
            }
            tokio::select! {
                () = sleep(PAUSE * attempt) => {}
                _ = stopped.wait_for(|stopped| *stopped) => {}
            }
        }
    }
}

/// What the collector never got, and why, until it is said.
#[derive(Default)]
struct Lost {
    spans: u64,
    why: String,
    reported: Option<Instant>,
}

impl Lost {
    fn add(&mut self, spans: u64, why: String) {
        self.spans += spans;
        self.why = why;
    }

    fn report(&mut self, overrun: &AtomicU64) {
        let is_soon = self.reported.is_some_and(|at| at.elapsed() < REPORT_PAUSE);
        if is_soon || self.spans == 0 && overrun.load(Ordering::Relaxed) == 0 {
            return;
        }
        let overrun = overrun.swap(0, Ordering::Relaxed);
        let (spans, why) = (std::mem::take(&mut self.spans), std::mem::take(&mut self.why));
        tracing::warn!(
            undelivered = spans,
            why,
            overrun,
            "traces were lost: the collector did not take them, or not fast enough"
        );
        self.reported = Some(Instant::now());
    }
}

/// Why a batch was not taken, and whether it is of no use to try again.
#[derive(Clone, PartialEq, Eq, Debug)]
struct NotSent {
    why: String,
    is_final: bool,
}

impl NotSent {
    fn again(why: impl Into<String>) -> NotSent {
        NotSent { why: why.into(), is_final: false }
    }
}

async fn post(settings: &OtlpSettings, body: Bytes) -> Result<(), NotSent> {
    let url = &settings.url;
    let stream = TcpStream::connect((url.host.as_str(), url.port())).await;
    let stream = stream.map_err(|error| NotSent::again(format!("no connection: {error}")))?;
    if !url.https {
        return ask(stream, settings, body).await;
    }
    let name = ServerName::try_from(url.host.clone()).map_err(|_| NotSent::again("not a name for TLS"))?;
    let connector = TlsConnector::from(outside::trust().map_err(NotSent::again)?);
    let stream = connector.connect(name, stream).await;
    ask(stream.map_err(|error| NotSent::again(format!("no TLS: {error}")))?, settings, body).await
}

async fn ask<S>(stream: S, settings: &OtlpSettings, body: Bytes) -> Result<(), NotSent>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let not_http = |error: hyper::Error| NotSent::again(format!("it does not speak HTTP/1.1: {error}"));
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(not_http)?;
    let connection = tokio::spawn(connection);
    let mut request = hyper::Request::post(settings.url.target())
        .header("Host", settings.url.authority())
        .header("User-Agent", concat!("lazuli/", env!("CARGO_PKG_VERSION")))
        .header("Content-Type", "application/json")
        .header("Connection", "close");
    for (name, value) in &settings.headers {
        request = request.header(name, value.reveal());
    }
    let request = request
        .body(Full::new(body))
        .map_err(|_| NotSent { is_final: true, ..NotSent::again("its headers cannot be sent") })?;
    let answer = sender.send_request(request).await.map_err(not_http);
    connection.abort(); // the head says it all
    let status = answer?.status().as_u16();
    match status {
        200..=299 => Ok(()),
        429 | 502..=504 => Err(NotSent::again(format!("status {status}"))),
        _ => Err(NotSent { is_final: true, ..NotSent::again(format!("status {status}")) }),
    }
}

#[cfg(test)]
mod tests;
