//! A client of the services, for commands: requests signed with an account's key, one at a time on a connection.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use contract::Service;
use env::{Clock, SystemClock};
use http::account::Account;
use http::client::{Unsigned, authorization, percent_encode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

const VERSION: &str = "2024-11-04";
/// How long an answer is waited for.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// Where the services of an account are.
#[derive(Clone, Debug)]
pub struct Endpoints {
    pub account: Account,
    urls: [Option<Url>; 4],
    /// Who vouches for servers that speak https.
    authority: Option<PathBuf>,
}

/// `http://host:port/path`
#[derive(Clone, PartialEq, Eq, Debug)]
struct Url {
    is_tls: bool,
    host: String,
    /// Without a slash at its end.
    path: String,
}

impl Url {
    fn parse(text: &str) -> Result<Url, String> {
        let bad = || format!("{text} is no endpoint: it is as http://127.0.0.1:10000/devstoreaccount1");
        let (scheme, rest) = text.split_once("://").ok_or_else(bad)?;
        let is_tls = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(bad()),
        };
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        if host.is_empty() || rest.contains(['?', '#', ' ']) {
            return Err(bad());
        }
        let path = path.trim_end_matches('/');
        let path = if path.is_empty() { String::new() } else { format!("/{path}") };
        Ok(Url { is_tls, host: host.to_owned(), path })
    }

    fn address(&self) -> String {
        let has_port = self.host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        match (has_port, self.is_tls) {
            (true, _) => self.host.clone(),
            (false, true) => format!("{}:443", self.host),
            (false, false) => format!("{}:80", self.host),
        }
    }
}

fn index(service: Service) -> usize {
    match service {
        Service::Blob => 0,
        Service::Queue => 1,
        Service::Table => 2,
        Service::File => 3,
    }
}

impl Endpoints {
    /// Where `lazuli` serves by itself.
    pub fn development(account: Account) -> Endpoints {
        Self::on(account, [10000, 10001, 10002, 10003])
    }

    /// On this machine, on these ports.
    pub fn on(account: Account, ports: [u16; 4]) -> Endpoints {
        let path = format!("/{}", account.name.as_str());
        let urls = ports.map(|port| Some(Url { is_tls: false, host: format!("127.0.0.1:{port}"), path: path.clone() }));
        Endpoints { account, urls, authority: None }
    }

    /// From a connection string, as the clients of the services read it.
    pub fn parse(text: &str, authority: Option<PathBuf>) -> Result<Endpoints, String> {
        let mut fields: Vec<(&str, &str)> = Vec::new();
        for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').ok_or("the connection string has a part without `=`")?;
            fields.push((name, value));
        }
        let get =
            |name: &str| fields.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| *value);
        if get("UseDevelopmentStorage").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(Self::development(Account::development()));
        }
        let name = get("AccountName").ok_or("the connection string has no AccountName")?;
        let key = get("AccountKey").ok_or("the connection string has no AccountKey")?;
        let account = Account::new(name, &[key]).map_err(|error| format!("the connection string: {error}"))?;
        let url = |label: &str, service: Service| match (get(label), get("EndpointSuffix")) {
            (Some(text), _) => Url::parse(text).map(Some),
            (None, Some(suffix)) => {
                let scheme = get("DefaultEndpointsProtocol").unwrap_or("https");
                Url::parse(&format!("{scheme}://{name}.{}.{suffix}", service.name())).map(Some)
            }
            (None, None) => Ok(None),
        };
        let urls = [
            url("BlobEndpoint", Service::Blob)?,
            url("QueueEndpoint", Service::Queue)?,
            url("TableEndpoint", Service::Table)?,
            url("FileEndpoint", Service::File)?,
        ];
        if urls.iter().all(Option::is_none) {
            return Err(
                "the connection string names no endpoint, as BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1"
                    .into(),
            );
        }
        Ok(Endpoints { account, urls, authority })
    }

    fn url(&self, service: Service) -> Result<&Url, String> {
        self.urls[index(service)]
            .as_ref()
            .ok_or_else(|| format!("where the {} service is was not said", service.name()))
    }
}

/// What to ask for.
#[derive(Clone, Default)]
pub struct Ask<'a> {
    pub verb: &'a str,
    /// Behind the account, encoded, with a slash at its beginning.
    pub path: &'a str,
    pub query: &'a [(&'a str, &'a str)],
    pub headers: Vec<(&'a str, String)>,
    pub body: Bytes,
}

/// What came back.
pub struct Answer {
    pub status: u16,
    headers: hyper::HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Headers whose names begin so, without that.
    pub fn headers_with(&self, prefix: &str) -> Vec<(String, String)> {
        let found = self
            .headers
            .iter()
            .filter_map(|(name, value)| Some((name.as_str().strip_prefix(prefix)?, value.to_str().ok()?)));
        found.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    pub fn code(&self) -> &str {
        self.header("x-ms-error-code").unwrap_or_default()
    }

    /// The status and the code, or what the body says.
    pub fn words(&self) -> String {
        match self.code() {
            "" => format!("{} {}", self.status, String::from_utf8_lossy(&self.body[..self.body.len().min(200)])),
            code => format!("{} {code}", self.status),
        }
    }
}

/// One service of one account, by one connection.
pub struct Client {
    service: Service,
    account: Account,
    url: Url,
    connection: SendRequest<Full<Bytes>>,
}

impl Client {
    pub async fn open(endpoints: &Endpoints, service: Service) -> Result<Client, String> {
        let url = endpoints.url(service)?.clone();
        let address = url.address();
        let refused = |error: std::io::Error| {
            format!("nobody answers at {address} for the {} service ({error}): is the server running?", service.name())
        };
        let stream = tokio::time::timeout(Duration::from_secs(10), TcpStream::connect(&address)).await;
        let stream = stream.map_err(|_| refused(std::io::ErrorKind::TimedOut.into()))?.map_err(refused)?;
        let _ = stream.set_nodelay(true); // only slower without
        let lost = |error: hyper::Error| format!("{address} does not speak HTTP: {error}");
        let connection = if url.is_tls {
            let tls = connector(endpoints.authority.as_deref())?;
            let name =
                address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host).trim_matches(['[', ']']).to_owned();
            let name = ServerName::try_from(name).map_err(|error| format!("{address}: {error}"))?;
            let stream = tls.connect(name, stream).await.map_err(|error| format!("{address}: {error}"))?;
            let (connection, driver) = handshake(TokioIo::new(stream)).await.map_err(lost)?;
            tokio::spawn(driver);
            connection
        } else {
            let (connection, driver) = handshake(TokioIo::new(stream)).await.map_err(lost)?;
            tokio::spawn(driver);
            connection
        };
        Ok(Client { service, account: endpoints.account.clone(), url, connection })
    }

    pub async fn ask(&mut self, ask: Ask<'_>) -> Result<Answer, String> {
        let request = self.sign(&ask)?;
        let (host, connection) = (&self.url.host, &mut self.connection);
        let place = || format!("{} {host}{}", ask.verb, ask.path);
        let answering = async {
            connection.ready().await?;
            let answer = connection.send_request(request).await?;
            let (head, body) = answer.into_parts();
            Ok::<_, hyper::Error>((head, body.collect().await?.to_bytes()))
        };
        match tokio::time::timeout(ANSWER_WITHIN, answering).await {
            Ok(Ok((head, body))) => Ok(Answer { status: head.status.as_u16(), headers: head.headers, body }),
            Ok(Err(error)) => Err(format!("{}: {error}", place())),
            Err(_) => Err(format!("{}: no answer within {} s", place(), ANSWER_WITHIN.as_secs())),
        }
    }

    fn sign(&self, ask: &Ask<'_>) -> Result<hyper::Request<Full<Bytes>>, String> {
        let raw_path = match format!("{}{}", self.url.path, ask.path) {
            path if path.is_empty() => "/".to_owned(),
            path => path,
        };
        let (date, length) = (SystemClock.now().http_date(), ask.body.len().to_string());
        let mut headers: Vec<(&str, &str)> = ask.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.extend([("x-ms-date", date.as_str()), ("x-ms-version", VERSION)]);
        if !ask.body.is_empty() || ask.verb == "PUT" || ask.verb == "POST" {
            headers.push(("content-length", &length));
        }
        let query: Vec<(String, String)> =
            ask.query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let unsigned =
            Unsigned { service: self.service, verb: ask.verb, headers: &headers, raw_path: &raw_path, query: &query };
        let key = self.account.keys.first().ok_or("the account has no key")?;
        let signature = authorization(&unsigned, self.account.name.as_str(), key);
        let asked: Vec<String> =
            query.iter().map(|(name, value)| format!("{name}={}", percent_encode(value, ""))).collect();
        let target = if asked.is_empty() { raw_path } else { format!("{raw_path}?{}", asked.join("&")) };
        let mut request = hyper::Request::builder().method(ask.verb).uri(target).header("host", &self.url.host);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.header("authorization", signature).body(Full::new(ask.body.clone()));
        request.map_err(|error| format!("{} {}: {error}", ask.verb, ask.path))
    }
}

fn connector(authority: Option<&Path>) -> Result<TlsConnector, String> {
    let Some(path) = authority else {
        return Err("the endpoint speaks https: say with --ca FILE who vouches for it (PEM)".into());
    };
    let mut roots = RootCertStore::empty();
    let read = |error| format!("cannot read {}: {error}", path.display());
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| read(error.to_string()))? {
        let certificate = certificate.map_err(|error| read(error.to_string()))?;
        roots.add(certificate).map_err(|error| read(error.to_string()))?;
    }
    Ok(TlsConnector::from(Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_strings() {
        let parse = |text: &str| Endpoints::parse(text, None);
        let found =
            parse("DefaultEndpointsProtocol=http;AccountName=abc;AccountKey=a2V5==;BlobEndpoint=http://h:1/abc/;")
                .err();
        assert!(found.is_some_and(|error| error.contains("Base64")));
        let found = parse("AccountName=abc;AccountKey=a2V5;BlobEndpoint=http://h:1/abc/;").expect("right");
        let url = found.url(Service::Blob).expect("given");
        assert_eq!((url.address(), url.path.as_str(), url.is_tls), ("h:1".to_owned(), "/abc", false));
        assert!(found.url(Service::Queue).is_err());
        let found = parse("AccountName=abc;AccountKey=a2V5;EndpointSuffix=core.example").expect("right");
        assert_eq!(found.url(Service::File).map(Url::address), Ok("abc.file.core.example:443".to_owned()));
        assert_eq!(parse("UseDevelopmentStorage=true").expect("right").account.name.as_str(), "devstoreaccount1");
        for (text, words) in [
            ("", "AccountName"),
            ("AccountName=abc", "AccountKey"),
            ("nothing", "without `=`"),
            ("AccountName=abc;AccountKey=a2V5", "no endpoint"),
            ("AccountName=abc;AccountKey=a2V5;BlobEndpoint=h:1", "is no endpoint"),
            ("AccountName=abc;AccountKey=a2V5;BlobEndpoint=ftp://h", "is no endpoint"),
        ] {
            let error = parse(text).err().unwrap_or_else(|| panic!("{text} was taken"));
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
