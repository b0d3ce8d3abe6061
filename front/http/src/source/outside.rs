//! The one way out: a GET to a source that the list allows, or a POST to where the operator wants events. No redirects, no second look at a name, bounded heads, bounded waiting.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use engine::{BoxFuture, Source, SourceError};
use http_body_util::{BodyExt, Full};
use hyper::Method;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::SourceUrl;
use super::allow::AllowList;

/// What is waited for at most: a connection, the head of the answer, the next bytes of it.
const CONNECT: Duration = Duration::from_secs(10);
const HEAD: Duration = Duration::from_secs(30);
const PIECE: Duration = Duration::from_secs(30);
/// The head of an answer, and what is read ahead of its body.
const BUFFER_BYTES: usize = 64 * 1024;

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotOpened {
    /// The list does not allow it.
    NotAllowed,
    /// Nobody answers there, or not in HTTP. The words are for the operator and for the one who asked alike.
    Unreachable(&'static str),
}

/// The source's answer: its head, and a body that is read as it is needed.
pub struct Opened {
    pub status: u16,
    headers: hyper::HeaderMap,
    pub body: OutsideBody,
}

impl Opened {
    /// A header of the answer, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
    }

    /// The size of the body, where it is told.
    pub fn bytes(&self) -> Option<u64> {
        self.header("content-length")?.parse().ok()
    }
}

/// Asks the source for itself with these headers.
pub async fn open(allow: &AllowList, url: &SourceUrl, headers: &[(&str, String)]) -> Result<Opened, NotOpened> {
    exchange(&resolve(allow, url).await?, url, Method::GET, headers, Bytes::new()).await
}

/// Sends something to an address that the operator named himself.
pub async fn post(url: &SourceUrl, headers: &[(&str, String)], body: Bytes) -> Result<Opened, NotOpened> {
    exchange(&look_up(url).await?, url, Method::POST, headers, body).await
}

async fn exchange(
    addresses: &[SocketAddr],
    url: &SourceUrl,
    method: Method,
    headers: &[(&str, String)],
    body: Bytes,
) -> Result<Opened, NotOpened> {
    let stream = timeout(CONNECT, connect(addresses));
    let stream = stream.await.map_err(|_| NotOpened::Unreachable("no connection in time"))??;
    if !url.https {
        return ask(stream, url, method, headers, body).await;
    }
    let name = ServerName::try_from(url.host.clone()).map_err(|_| NotOpened::Unreachable("not a name for TLS"))?;
    let connector = TlsConnector::from(trust().map_err(NotOpened::Unreachable)?);
    let stream = timeout(CONNECT, connector.connect(name, stream)).await;
    let stream = stream.map_err(|_| NotOpened::Unreachable("no TLS in time"))?;
    ask(
        stream.map_err(|_| NotOpened::Unreachable("its certificate is not trusted, or it speaks no TLS"))?,
        url,
        method,
        headers,
        body,
    )
    .await
}

/// The addresses of a name that may be connected to. An address stands for itself.
async fn resolve(allow: &AllowList, url: &SourceUrl) -> Result<Vec<SocketAddr>, NotOpened> {
    if !allow.names(url) {
        return Err(NotOpened::NotAllowed);
    }
    let found = look_up(url).await?;
    let admitted: Vec<SocketAddr> = found.into_iter().filter(|address| allow.admits(url, address.ip())).collect();
    if admitted.is_empty() { Err(NotOpened::NotAllowed) } else { Ok(admitted) }
}

async fn look_up(url: &SourceUrl) -> Result<Vec<SocketAddr>, NotOpened> {
    match timeout(CONNECT, tokio::net::lookup_host((url.host.as_str(), url.port()))).await {
        Ok(Ok(found)) => Ok(found.collect()),
        _ => Err(NotOpened::Unreachable("its name was not found")),
    }
}

async fn connect(addresses: &[SocketAddr]) -> Result<TcpStream, NotOpened> {
    for address in addresses {
        if let Ok(stream) = TcpStream::connect(address).await {
            let _ = stream.set_nodelay(true); // only a matter of speed
            return Ok(stream);
        }
    }
    Err(NotOpened::Unreachable("no connection"))
}

/// What the operating system trusts, read once.
pub fn trust() -> Result<Arc<ClientConfig>, &'static str> {
    static TRUST: OnceLock<Option<Arc<ClientConfig>>> = OnceLock::new();
    let config = TRUST.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return None;
        }
        let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Some(Arc::new(config))
    });
    config.clone().ok_or("the operating system has no trusted certificates")
}

async fn ask<S>(
    stream: S,
    url: &SourceUrl,
    method: Method,
    headers: &[(&str, String)],
    body: Bytes,
) -> Result<Opened, NotOpened>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let not_http = |_| NotOpened::Unreachable("it does not speak HTTP/1.1");
    let mut builder = http1::Builder::new();
    builder.max_buf_size(BUFFER_BYTES);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(not_http)?;
    // Ends with the body it feeds.
    tokio::spawn(async move {
        let _ = connection.await; // whoever reads the body learns of it
    });
    let mut request = hyper::Request::builder()
        .method(method)
        .uri(url.target())
        .header("Host", url.authority())
        .header("User-Agent", concat!("lazuli/", env!("CARGO_PKG_VERSION")))
        .header("Accept-Encoding", "identity")
        .header("Connection", "close");
    for (name, value) in headers {
        request = request.header(*name, value.as_str());
    }
    let request = request.body(Full::new(body)).map_err(|_| NotOpened::Unreachable("its address is not a request"))?;
    let answer = timeout(HEAD, sender.send_request(request)).await;
    let answer = answer.map_err(|_| NotOpened::Unreachable("no answer in time"))?.map_err(not_http)?;
    let (parts, incoming) = answer.into_parts();
    Ok(Opened {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: OutsideBody { incoming, rest: Bytes::new(), read: 0, bytes_max: u64::MAX },
    })
}

/// The body of an answer, a piece at a time.
pub struct OutsideBody {
    incoming: Incoming,
    rest: Bytes,
    read: u64,
    /// More than this is an error, told as soon as it is seen.
    pub bytes_max: u64,
}

/// Why a body did not come whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BrokenOff {
    Stalled,
    Cut,
    TooLarge,
}

impl std::fmt::Display for BrokenOff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            BrokenOff::Stalled => "the source sent nothing more",
            BrokenOff::Cut => "the source broke off",
            BrokenOff::TooLarge => "the source is larger than it may be",
        })
    }
}

impl std::error::Error for BrokenOff {}

impl OutsideBody {
    pub fn read_bytes(&self) -> u64 {
        self.read
    }

    pub async fn next(&mut self, bytes_max: usize) -> Result<Option<Bytes>, BrokenOff> {
        while self.rest.is_empty() {
            let frame = timeout(PIECE, self.incoming.frame()).await.map_err(|_| BrokenOff::Stalled)?;
            match frame {
                None => return Ok(None),
                Some(Err(_)) => return Err(BrokenOff::Cut),
                Some(Ok(frame)) => self.rest = frame.into_data().unwrap_or_default(),
            }
            self.read += self.rest.len() as u64;
            if self.read > self.bytes_max {
                return Err(BrokenOff::TooLarge);
            }
        }
        let take = self.rest.len().min(bytes_max);
        Ok(Some(self.rest.split_to(take)))
    }
}

impl Source for OutsideBody {
    fn next(&mut self, bytes_max: usize) -> BoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async move { OutsideBody::next(self, bytes_max).await.map_err(|error| SourceError(Box::new(error))) })
    }
}

#[cfg(test)]
mod tests;
