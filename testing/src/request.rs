//! Requests as a client makes them, signed by code that shares nothing with the server's, and answers as a client reads them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::Service;
use env::Timestamp;
use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use sha2::Sha256;

pub const ACCOUNT: &str = "devstoreaccount1";
pub const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
pub(crate) const VERSION: &str = "2026-04-06";

#[derive(Clone, Debug)]
pub struct Request {
    pub service: Service,
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// Names and values, decoded.
    pub query: Vec<(String, String)>,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub account: String,
    pub key: String,
    /// False for requests that bring a SAS or nothing.
    pub signed: bool,
}

impl Request {
    /// `GET container/blob?comp=list`: the account is put in front.
    pub fn new(line: &str) -> Request {
        let (method, target) = line.split_once(' ').expect("METHOD target");
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pair = |part: &str| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (name.to_string(), value.to_string())
        };
        Request {
            service: Service::Blob,
            method: method.to_string(),
            path: format!("/{ACCOUNT}/{path}"),
            query: query.split('&').filter(|part| !part.is_empty()).map(pair).collect(),
            headers: Vec::new(),
            body: Vec::new(),
            account: ACCOUNT.to_string(),
            key: KEY.to_string(),
            signed: true,
        }
    }

    pub fn of(mut self, service: Service) -> Request {
        self.service = service;
        self
    }

    pub fn header(mut self, name: &str, value: impl Into<String>) -> Request {
        self.headers.push((name.to_string(), value.into()));
        self
    }

    /// A parameter whose value may be anything.
    pub fn parameter(mut self, name: &str, value: &str) -> Request {
        self.query.push((name.to_string(), value.to_string()));
        self
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Request {
        self.body = body.into();
        self
    }

    pub fn unsigned(mut self) -> Request {
        self.signed = false;
        self
    }

    /// The same of another account.
    pub fn to(mut self, account: &str, key: &str) -> Request {
        self.path = self.path.replacen(&format!("/{}/", self.account), &format!("/{account}/"), 1);
        (self.account, self.key) = (account.to_string(), key.to_string());
        self
    }

    pub fn signed_with(mut self, key: &str) -> Request {
        self.key = key.to_string();
        self
    }

    /// With the parameters of a SAS and no key.
    pub fn with_sas(mut self, parameters: Vec<(String, String)>) -> Request {
        self.signed = false;
        self.query.extend(parameters);
        self
    }

    pub fn with_bearer(self, token: &str) -> Request {
        self.unsigned().header("Authorization", format!("Bearer {token}"))
    }

    /// The bytes on the wire, with the headers every client adds.
    pub fn bytes(&self, now: Timestamp) -> Vec<u8> {
        let mut headers = self.headers.clone();
        let lacks =
            |headers: &[(String, String)], name: &str| headers.iter().all(|(n, _)| !n.eq_ignore_ascii_case(name));
        if lacks(&headers, "x-ms-version") {
            headers.push(("x-ms-version".into(), VERSION.into()));
        }
        if lacks(&headers, "x-ms-date") && self.signed {
            headers.push(("x-ms-date".into(), now.http_date()));
        }
        let has_body = !self.body.is_empty() || ["PUT", "POST"].contains(&self.method.as_str());
        if has_body && lacks(&headers, "content-length") && lacks(&headers, "transfer-encoding") {
            headers.push(("Content-Length".into(), self.body.len().to_string()));
        }
        if self.signed {
            let signature = sign(&self.key, &self.string_to_sign(&headers));
            headers.push(("Authorization".into(), format!("SharedKey {}:{signature}", self.account)));
        }
        let question = if self.query.is_empty() { "" } else { "?" };
        let mut text = format!("{} {}{question}{} HTTP/1.1\r\n", self.method, self.path, query(&self.query));
        text.push_str("Host: 127.0.0.1:10000\r\nConnection: close\r\n");
        for (name, value) in &headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        [text.as_bytes(), &self.body].concat()
    }

    fn string_to_sign(&self, headers: &[(String, String)]) -> String {
        let value = |name: &str| {
            let found = headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
            found.map_or("", |(_, value)| value.trim())
        };
        if self.service == Service::Table {
            let comp = self.query.iter().find(|(name, _)| name == "comp").map(|(_, value)| format!("?comp={value}"));
            let (md5, kind, date) = (value("content-md5"), value("content-type"), value("x-ms-date"));
            let resource = format!("/{}{}{}", self.account, self.path, comp.unwrap_or_default());
            return format!("{}\n{md5}\n{kind}\n{date}\n{resource}", self.method);
        }
        let length = if value("content-length") == "0" { "" } else { value("content-length") };
        let mut lines = vec![
            self.method.clone(),
            value("content-encoding").into(),
            value("content-language").into(),
            length.into(),
            value("content-md5").into(),
            value("content-type").into(),
            String::new(),
            value("if-modified-since").into(),
            value("if-match").into(),
            value("if-none-match").into(),
            value("if-unmodified-since").into(),
            value("range").into(),
        ];
        let mut ours: Vec<(String, &str)> = headers
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim()))
            .filter(|(name, _)| name.starts_with("x-ms-"))
            .collect();
        ours.sort();
        lines.extend(ours.iter().map(|(name, value)| format!("{name}:{value}")));
        lines.push(format!("/{}{}", self.account, self.path));
        let mut query: Vec<String> =
            self.query.iter().map(|(name, value)| format!("{}:{value}", name.to_ascii_lowercase())).collect();
        query.sort();
        lines.extend(query);
        lines.join("\n")
    }
}

/// Parameters as they stand in a URL.
pub fn query(parameters: &[(String, String)]) -> String {
    let part = |(name, value): &(String, String)| format!("{name}={}", encode(value));
    parameters.iter().map(part).collect::<Vec<_>>().join("&")
}

pub fn sign(key: &str, text: &str) -> String {
    let key = STANDARD.decode(key).expect("Base64");
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("any length");
    mac.update(text.as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

fn encode(value: &str) -> String {
    let mut text = String::new();
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => text.push(byte as char),
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// What came back: the bytes, and a client's reading of them.
#[derive(Clone, Debug)]
pub struct Answer {
    pub raw: Vec<u8>,
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// Status 0 if the server closed without an answer.
    pub fn parse(raw: Vec<u8>) -> Answer {
        let Some(end) = raw.windows(4).position(|four| four == b"\r\n\r\n") else {
            return Answer { raw, status: 0, headers: Vec::new(), body: Vec::new() };
        };
        let head = String::from_utf8_lossy(&raw[..end]).into_owned();
        let mut lines = head.split("\r\n");
        let status =
            lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok()).unwrap_or(0);
        if status == 100 {
            return Answer::parse(raw[end + 4..].to_vec());
        }
        let headers =
            lines.filter_map(|line| line.split_once(": ")).map(|(n, v)| (n.to_string(), v.to_string())).collect();
        let body = raw[end + 4..].to_vec();
        Answer { raw, status, headers, body }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub fn code(&self) -> &str {
        self.header("x-ms-error-code").unwrap_or_default()
    }

    /// The request was authenticated: an answer from before that names no service, and who brings nothing is told so.
    pub fn is_let_in(&self) -> bool {
        let codes = ["AuthenticationFailed", "InvalidAuthenticationInfo", "NoAuthenticationInformation"];
        let named = self.header("server").is_some_and(|server| server.starts_with("Windows-Azure-"));
        named && self.status != 401 && !codes.contains(&self.code())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}
