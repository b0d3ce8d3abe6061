//! Where a copy comes from: `x-ms-copy-source` is a blob of this server, or something outside that the configuration allows.
//!
//! Own sources are read in the process and never over the network; outside ones are reached only through `outside`.

pub mod allow;
pub mod content;
pub mod origin;
pub mod outside;

use std::net::{IpAddr, SocketAddr};

use contract::limits::COPY_SOURCE_BYTES_MAX;
use contract::{Refusal, Service};

/// A source as it was named: taken apart, and never put together again from its parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceUrl {
    text: String,
    pub https: bool,
    /// In lower case, without brackets and without a last dot.
    pub host: String,
    /// As written; `None` is the scheme's own.
    port: Option<u16>,
    /// Path and query, as they are sent.
    target_at: usize,
}

impl SourceUrl {
    pub const HEADER: &'static str = "x-ms-copy-source";

    pub fn parse(text: &str) -> Result<SourceUrl, Refusal> {
        Self::read(text).ok_or_else(|| Refusal::bad_header(Self::HEADER, text))
    }

    fn read(text: &str) -> Option<SourceUrl> {
        // Nothing that could end a line or a request, no fragment, and nobody's password.
        let is_right = |byte: u8| byte.is_ascii_graphic() && !b"#\\\"<>^`{|}".contains(&byte);
        if text.len() > COPY_SOURCE_BYTES_MAX || !text.bytes().all(is_right) {
            return None;
        }
        let (scheme, rest) = text.split_once("://")?;
        let https = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (host, port) = authority(&rest[..end])?;
        if !rest[end..].starts_with('/') {
            return None;
        }
        Some(SourceUrl { text: text.to_string(), https, host, port, target_at: text.len() - rest.len() + end })
    }

    pub fn target(&self) -> &str {
        &self.text[self.target_at..]
    }

    pub fn port(&self) -> u16 {
        self.port.unwrap_or(if self.https { 443 } else { 80 })
    }

    /// As the `Host` header has it.
    pub fn authority(&self) -> &str {
        let start = self.text.find("://").map_or(0, |at| at + 3);
        &self.text[start..self.target_at]
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// As it may be shown to whoever reads the copy: a query may hold the right to read the source.
    pub fn shown(&self, kept: &[&str]) -> String {
        let (path, query) = self.text.split_once('?').unwrap_or((&self.text, ""));
        let is_kept =
            |part: &&str| kept.iter().any(|name| part.split('=').next().unwrap_or(part).eq_ignore_ascii_case(name));
        let query: Vec<&str> = query.split('&').filter(is_kept).collect();
        if query.is_empty() { path.to_string() } else { format!("{path}?{}", query.join("&")) }
    }

    /// Which service of this server it names, if any. `host` is the one by which the client called us: behind a proxy we know no other name.
    pub fn own(&self, service: Service, host: &str, listening: &[(Service, SocketAddr)]) -> Option<Service> {
        let called = authority(host);
        if let Some((called, port)) = &called {
            // A proxy may speak https for us, so only a port that is written counts.
            let written = |port: Option<u16>| port.filter(|port| ![80, 443].contains(port));
            if written(*port) == written(self.port) {
                if *called == self.host {
                    return Some(service);
                }
                if let Some(sibling) = sibling(called, &self.host, service) {
                    return Some(sibling);
                }
            }
        }
        let is_local = self.host == "localhost" || self.host.ends_with(".localhost");
        let address = self.host.parse::<IpAddr>().ok();
        let reaches = |listener: IpAddr| match address {
            Some(address) => address == listener || listener.is_unspecified() && address.is_loopback(),
            None => is_local && (listener.is_loopback() || listener.is_unspecified()),
        };
        listening
            .iter()
            .find(|(_, listener)| listener.port() == self.port() && reaches(listener.ip()))
            .map(|(service, _)| *service)
    }
}

/// `other.file.example.org` where we were called `account.blob.example.org`.
fn sibling(called: &str, host: &str, service: Service) -> Option<Service> {
    let (called_service, called_rest) = called.split_once('.')?.1.split_once('.')?;
    let (other_service, rest) = host.split_once('.')?.1.split_once('.')?;
    if called_service != service.name() || rest != called_rest {
        return None;
    }
    Service::ALL.into_iter().find(|service| service.name() == other_service)
}

/// `host`, `host:port`, `[address]:port`.
fn authority(text: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            address.parse::<std::net::Ipv6Addr>().ok()?;
            (address, port.strip_prefix(':').or(Some(port).filter(|port| port.is_empty()).map(|_| ""))?)
        }
        None => match text.split_once(':') {
            Some((host, port)) if !port.is_empty() => (host, port),
            Some(_) => return None,
            None => (text, ""),
        },
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if host.is_empty() || !host.contains(':') && !host.bytes().all(is_name) {
        return None;
    }
    let port = match port {
        "" => None,
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => Some(digits.parse().ok()?),
        _ => return None,
    };
    Some((host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let shown = |text: &str| {
            let url = SourceUrl::read(text)?;
            Some(format!("{} {} {} {}", if url.https { "https" } else { "http" }, url.host, url.port(), url.target()))
        };
        for (text, expected) in [
            ("http://h/p", Some("http h 80 /p")),
            ("HTTPS://Host.Example/a%20b?x=1&sig=%2F", Some("https host.example 443 /a%20b?x=1&sig=%2F")),
            ("http://h:10000/a//b", Some("http h 10000 /a//b")),
            ("http://h./p", Some("http h 80 /p")),
            ("http://[::1]:8080/p", Some("http ::1 8080 /p")),
            ("http://[::1]/p", Some("http ::1 80 /p")),
            ("http://h", None),
            ("http://h?x", None),
            ("http:///p", None),
            ("http://:80/p", None),
            ("http://h:/p", None),
            ("http://h:99999/p", None),
            ("http://h:8o/p", None),
            ("http://user:secret@h/p", None),
            ("http://user@h/p", None),
            ("http://[::1/p", None),
            ("http://[nonsense]/p", None),
            ("http://a b/p", None),
            ("http://h/a b", None),
            ("http://h/p#fragment", None),
            ("http://h/\u{e9}", None),
            ("http://h\\@other/p", None),
            ("ftp://h/p", None),
            ("file:///etc/passwd", None),
            ("/account/container/blob", None),
            ("*", None),
            ("", None),
        ] {
            assert_eq!(shown(text).as_deref(), expected, "{text}");
        }
        let long = format!("http://h/{}", "a".repeat(COPY_SOURCE_BYTES_MAX - 9));
        assert!(SourceUrl::read(&long).is_some());
        assert!(SourceUrl::read(&format!("{long}a")).is_none());
    }

    #[test]
    fn what_is_shown_lets_nobody_read_the_source() {
        let shown = |text: &str, kept: &[&str]| SourceUrl::parse(text).expect("right").shown(kept);
        assert_eq!(shown("http://h/p?sv=1&snapshot=2&sig=x", &["snapshot", "versionid"]), "http://h/p?snapshot=2");
        assert_eq!(shown("http://h/p?X-Amz-Signature=x", &[]), "http://h/p");
        assert_eq!(shown("http://h/p", &["snapshot"]), "http://h/p");
    }

    #[test]
    fn own_sources() {
        use Service::{Blob, File, Queue};
        let on = |address: &str| address.parse::<SocketAddr>().expect("an address");
        let local = [(Blob, on("127.0.0.1:10000")), (Queue, on("127.0.0.1:10001"))];
        let open = [(Blob, on("0.0.0.0:10000"))];
        for (called, source, expected) in [
            ("127.0.0.1:10000", "http://127.0.0.1:10000/dev/c/b", Some(Blob)),
            ("127.0.0.1:10000", "http://localhost:10000/dev/c/b", Some(Blob)),
            ("127.0.0.1:10000", "http://dev.blob.localhost:10000/c/b", Some(Blob)),
            ("127.0.0.1:10000", "http://127.0.0.1:10001/dev/q", Some(Queue)),
            ("127.0.0.1:10000", "http://127.0.0.1:9999/dev/c/b", None),
            ("127.0.0.1:10000", "http://127.0.0.1/dev/c/b", None),
            ("127.0.0.1:10000", "http://other:10000/dev/c/b", None),
            ("storage", "http://storage/dev/c/b", Some(Blob)),
            ("storage", "http://storage:80/dev/c/b", Some(Blob)),
            ("Storage:10000", "http://storage:10000/dev/c/b", Some(Blob)),
            // A proxy speaks https, we do not.
            ("storage.example", "https://storage.example/dev/c/b", Some(Blob)),
            ("storage.example", "https://storage.example:444/dev/c/b", None),
            ("dev.blob.example.org", "https://web.blob.example.org/c/b", Some(Blob)),
            ("dev.blob.example.org", "https://web.file.example.org/s/f", Some(File)),
            ("dev.blob.example.org", "https://web.blob.example.net/c/b", None),
            ("dev.blob.example.org", "https://web.other.example.org/c/b", None),
            ("dev.blob.example.org:1", "https://web.blob.example.org:2/c/b", None),
            ("10.0.0.1", "http://10.0.0.2/dev/c/b", None),
            // Names that end alike are no siblings unless they are host style.
            ("a.example.org", "http://b.example.org/dev/c/b", None),
            ("", "http://127.0.0.1:10000/dev/c/b", Some(Blob)),
        ] {
            let url = SourceUrl::parse(source).expect("a url");
            assert_eq!(url.own(Blob, called, &local), expected, "{called} {source}");
        }
        let loopback = SourceUrl::parse("http://127.0.0.1:10000/dev/c/b").expect("a url");
        assert_eq!(loopback.own(Blob, "storage", &open), Some(Blob));
        assert_eq!(loopback.own(Blob, "storage", &[]), None);
    }
}
