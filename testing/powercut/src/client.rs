//! A small client: HTTP/1.1 on one kept-alive connection, signed with SharedKey. Written here and not taken from an SDK,
//! because the harness must see every answer (and the lack of one) as it came, without retries. The services lie on top of it.

use crate::store::{self, Answer, Found, Listed};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const ACCOUNT: &str = "devstoreaccount1";
/// The published key of the development account.
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const VERSION: &str = "2021-12-02";
/// Longer than any answer may take; a request that reaches it counts as hung.
const ANSWER_SECONDS_MAX: u64 = 20;

pub struct Client {
    port: u16,
    /// Tables have a string to sign of their own.
    signs_for_tables: bool,
    key: Vec<u8>,
    connection: Option<BufReader<TcpStream>>,
}

pub struct Response {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    pub fn code(&self) -> String {
        self.header("x-ms-error-code").unwrap_or("").to_string()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn etag(&self) -> String {
        self.header("etag").unwrap_or("").to_string()
    }
}

impl Client {
    pub fn new(port: u16) -> Client {
        let key = BASE64.decode(KEY).expect("the published key is base64");
        Client { port, signs_for_tables: false, key, connection: None }
    }

    pub fn of_tables(port: u16) -> Client {
        Client { signs_for_tables: true, ..Client::new(port) }
    }

    /// As the requests within a transaction are addressed.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{ACCOUNT}{path}", self.port)
    }

    pub fn request(
        &mut self,
        method: &str,
        path: &str,
        query: &[(&str, &str)],
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Response, Error> {
        let answer = self.exchange(method, path, query, headers, body);
        if answer.is_err() {
            self.connection = None;
        }
        answer
    }

    fn exchange(
        &mut self,
        method: &str,
        path: &str,
        query: &[(&str, &str)],
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Response, Error> {
        let path = format!("/{ACCOUNT}{path}");
        let date = http_date(SystemTime::now());
        let mut signed: Vec<(&str, &str)> =
            headers.iter().filter(|(name, _)| name.starts_with("x-ms-")).copied().collect();
        signed.extend([("x-ms-date", date.as_str()), ("x-ms-version", VERSION)]);
        signed.sort();
        let plain = |name: &str| headers.iter().find(|(n, _)| *n == name).map_or("", |(_, value)| value);

        let resource = format!("/{ACCOUNT}{path}");
        let mut to_sign;
        if self.signs_for_tables {
            to_sign = format!("{method}\n{}\n{}\n{date}\n{resource}", plain("content-md5"), plain("content-type"));
        } else {
            let length = if body.is_empty() { String::new() } else { body.len().to_string() };
            to_sign = format!(
                "{method}\n\n\n{length}\n{}\n{}\n\n\n{}\n{}\n\n\n",
                plain("content-md5"),
                plain("content-type"),
                plain("if-match"),
                plain("if-none-match")
            );
            for (name, value) in &signed {
                to_sign += &format!("{name}:{value}\n");
            }
            to_sign += &resource;
            let mut parameters = query.to_vec();
            parameters.sort();
            for (name, value) in &parameters {
                to_sign += &format!("\n{name}:{value}");
            }
        }
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("HMAC takes a key of any length");
        mac.update(to_sign.as_bytes());
        let signature = BASE64.encode(mac.finalize().into_bytes());

        let target = match query {
            [] => path,
            _ => format!(
                "{path}?{}",
                query.iter().map(|(n, v)| format!("{n}={}", encode(v))).collect::<Vec<_>>().join("&")
            ),
        };
        let mut head = format!(
            "{method} {target} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nauthorization: SharedKey {ACCOUNT}:{signature}\r\n",
            self.port
        );
        head += &format!("x-ms-date: {date}\r\nx-ms-version: {VERSION}\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";

        if self.connection.is_none() {
            let stream = TcpStream::connect(("127.0.0.1", self.port))?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(Duration::from_secs(ANSWER_SECONDS_MAX)))?;
            stream.set_write_timeout(Some(Duration::from_secs(ANSWER_SECONDS_MAX)))?;
            self.connection = Some(BufReader::with_capacity(64 * 1024, stream));
        }
        let connection = self.connection.as_mut().expect("made just above");
        let mut message = head.into_bytes();
        message.extend_from_slice(body);
        // The server may answer and close before it has read the body; its answer counts, not our failed write.
        let sent = connection.get_mut().write_all(&message);
        let response = match read_response(connection, method == "HEAD") {
            Ok(response) => response,
            Err(error) => return Err(sent.err().unwrap_or(error)),
        };
        if sent.is_err() || response.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
            self.connection = None;
        }
        Ok(response)
    }

    pub fn change(
        &mut self,
        method: &str,
        path: &str,
        query: &[(&str, &str)],
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        self.attempt(method, path, query, headers, body)
            .map_or_else(|answer| answer, |r| Answer::Done { etag: r.etag() })
    }

    /// The response if it is a yes.
    pub fn attempt(
        &mut self,
        method: &str,
        path: &str,
        query: &[(&str, &str)],
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Response, Answer> {
        match self.request(method, path, query, headers, body) {
            Ok(r) if r.status < 300 => Ok(r),
            Ok(r) => Err(Answer::no(r.status, r.code())),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(Answer::Broken(format!("hung: no answer within {ANSWER_SECONDS_MAX} s")))
            }
            Err(error) => Err(Answer::Broken(error.to_string())),
        }
    }

    /// A read in which every other answer than 200 is an error.
    pub fn read(&mut self, path: &str, query: &[(&str, &str)], headers: &[(&str, &str)]) -> Result<Response, String> {
        let response = self.request("GET", path, query, headers, &[]).map_err(|e| format!("get {path}: {e}"))?;
        match response.status {
            200 => Ok(response),
            status => Err(format!("get {path}: {status} {}", response.code())),
        }
    }

    /// A body whose metadata says which operation wrote it; nothing if it is not there.
    pub fn find(&mut self, path: &str, query: &[(&str, &str)]) -> Result<Option<Found>, String> {
        let response = self.request("GET", path, query, &[], &[]).map_err(|e| format!("get {path}: {e}"))?;
        match response.status {
            200 => Ok(Some(Found {
                etag: response.etag(),
                operation: response.header("x-ms-meta-operation").and_then(|n| n.parse().ok()),
                body: response.body,
            })),
            404 => Ok(None),
            status => Err(format!("get {path}: {status} {}", response.code())),
        }
    }

    /// Walks a listing to its end, page by page.
    pub fn walk(&mut self, path: &str, query: &[(&str, &str)], element: &str) -> Result<Vec<Listed>, String> {
        let mut listed = Vec::new();
        let mut marker = String::new();
        loop {
            let mut page = query.to_vec();
            if !marker.is_empty() {
                page.push(("marker", marker.as_str()));
            }
            let response = self.request("GET", path, &page, &[], &[]).map_err(|e| format!("list {path}: {e}"))?;
            if response.status != 200 {
                return Err(format!("list {path}: {} {}", response.status, response.code()));
            }
            let xml = String::from_utf8(response.body).map_err(|_| format!("list {path}: not UTF-8"))?;
            let mut rest = xml.as_str();
            while let Some(item) = between(rest, &format!("<{element}>"), &format!("</{element}>")) {
                rest = &rest[rest.find(&format!("</{element}>")).expect("just found") + 1..];
                let name = between(item, "<Name>", "</Name>").unwrap_or("").to_string();
                listed.push(Listed {
                    name: match between(item, "<Snapshot>", "</Snapshot>") {
                        Some(moment) => store::snapshot_of(&name, moment),
                        None => name,
                    },
                    etag: between(item, "<Etag>", "</Etag>").unwrap_or("").replace("&quot;", "\""),
                    bytes: between(item, "<Content-Length>", "</Content-Length>").and_then(|n| n.parse().ok()),
                });
            }
            marker = between(&xml, "<NextMarker>", "</NextMarker>").unwrap_or("").to_string();
            if marker.is_empty() {
                return Ok(listed);
            }
        }
    }
}

fn read_response(from: &mut BufReader<TcpStream>, is_head: bool) -> Result<Response, Error> {
    let bad = |what: &str| Error::new(ErrorKind::InvalidData, what.to_string());
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Err(Error::new(ErrorKind::UnexpectedEof, "connection closed without an answer"));
    }
    let status = line.split(' ').nth(1).and_then(|s| s.parse().ok()).ok_or_else(|| bad("status line"))?;
    let mut headers = Vec::new();
    loop {
        line.clear();
        if from.read_line(&mut line)? == 0 {
            return Err(Error::new(ErrorKind::UnexpectedEof, "connection closed within the headers"));
        }
        match line.trim_end().split_once(':') {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().to_string())),
            None => break,
        }
    }
    let mut response = Response { status, headers, body: Vec::new() };
    if is_head || matches!(status, 204 | 304) {
        return Ok(response);
    }
    if response.header("transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked")) {
        loop {
            line.clear();
            from.read_line(&mut line)?;
            let size = usize::from_str_radix(line.trim().split(';').next().unwrap_or(""), 16)
                .map_err(|_| bad("chunk size"))?;
            let start = response.body.len();
            response.body.resize(start + size + 2, 0);
            from.read_exact(&mut response.body[start..])?;
            response.body.truncate(start + size);
            if size == 0 {
                return Ok(response);
            }
        }
    }
    let length = response.header("content-length").and_then(|n| n.parse().ok()).unwrap_or(0);
    from.take(length).read_to_end(&mut response.body)?;
    if (response.body.len() as u64) < length {
        // How a server says that the rest of a body cannot be read when the head is already on its way.
        return Err(Error::new(
            ErrorKind::UnexpectedEof,
            format!("broke off after {} of {length} bytes", response.body.len()),
        ));
    }
    Ok(response)
}

pub fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let from = text.find(start)? + start.len();
    let to = from + text[from..].find(end)?;
    Some(&text[from..to])
}

fn encode(value: &str) -> String {
    value
        .bytes()
        .map(|b| {
            if b.is_ascii_alphanumeric() || b"-._~".contains(&b) {
                (b as char).to_string()
            } else {
                format!("%{b:02X}")
            }
        })
        .collect()
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`, by the civil-from-days computation.
fn http_date(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (days, second) = ((seconds / 86_400) as i64, seconds % 86_400);
    let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][(days % 7) as usize];
    let z = days + 719_468;
    let era = z / 146_097;
    let day_of_era = z - era * 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let name = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][month as usize - 1];
    format!("{weekday}, {day:02} {name} {year} {:02}:{:02}:{:02} GMT", second / 3600, second / 60 % 60, second % 60)
}
