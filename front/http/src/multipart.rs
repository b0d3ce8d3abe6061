//! Batches: multipart/mixed in and out, and a part as a request of its own.
//!
//! What the clients write differs in everything that may differ: line ends, quoted boundaries, blank lines, final delimiters without
//! their hyphens. So lines end with LF and a CR before it is dropped; a delimiter is a line that begins with `--` and the boundary; what
//! stands before the first one is not looked at.

use contract::{ErrorCode, Refusal};

use crate::address::Address;
use crate::query::Query;
use crate::request::Request;
use crate::wire::{Head, Response, ResponseBody};

/// A request inside a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part<'a> {
    pub method: &'a str,
    pub target: &'a str,
    pub headers: Vec<(&'a str, &'a str)>,
    pub body: &'a [u8],
}

impl Part<'_> {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }
}

pub fn invalid(what: &str) -> Refusal {
    Refusal::from(ErrorCode::InvalidInput).saying(what)
}

pub fn media_type(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The boundary of a multipart/mixed content type.
pub fn boundary(content_type: &str) -> Option<String> {
    if media_type(content_type) != "multipart/mixed" {
        return None;
    }
    let (_, value) = content_type
        .split(';')
        .filter_map(|parameter| parameter.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("boundary"))?;
    let value = value.trim().trim_matches('"');
    // RFC 2046 5.1.1: 1 to 70 characters.
    ((1..=70).contains(&value.len()) && value.bytes().all(|b| b.is_ascii_graphic() || b == b' '))
        .then(|| value.to_string())
}

/// What stands between the delimiters, without the line end before each.
pub fn sections<'a>(body: &'a [u8], boundary: &str) -> Vec<&'a [u8]> {
    let delimiter = [b"--", boundary.as_bytes()].concat();
    let mut found = Vec::new();
    let mut start: Option<usize> = None;
    let mut at = 0;
    while at < body.len() {
        let next = body[at..].iter().position(|b| *b == b'\n').map_or(body.len(), |end| at + end + 1);
        let line = body[at..next].trim_ascii_end();
        if let Some(after) = line.strip_prefix(delimiter.as_slice())
            && (after.is_empty() || after == b"--")
        {
            found.extend(start.map(|start| without_line_end(&body[start..at])));
            start = Some(next);
            if after == b"--" {
                return found;
            }
        }
        at = next;
    }
    // Some clients forget the final hyphens, so the last delimiter opens a section with nothing in it.
    let rest = start.map(|start| &body[start..]).filter(|rest| !rest.trim_ascii().is_empty());
    found.extend(rest.map(without_line_end));
    found
}

fn without_line_end(section: &[u8]) -> &[u8] {
    let section = section.strip_suffix(b"\n").unwrap_or(section);
    section.strip_suffix(b"\r").unwrap_or(section)
}

pub type Headers<'a> = Vec<(&'a str, &'a str)>;

/// Header lines up to an empty one, and what follows it. Empty lines before the first are skipped.
pub fn headers(section: &[u8]) -> Result<(Headers<'_>, &[u8]), Refusal> {
    let mut headers = Vec::new();
    let mut rest = section.trim_ascii_start();
    loop {
        let (line, after) = line(rest)?;
        if line.is_empty() {
            return Ok((headers, after));
        }
        let (name, value) = line.split_once(':').ok_or_else(|| invalid("A line of a part's head is no header."))?;
        headers.push((name.trim(), value.trim()));
        rest = after;
    }
}

/// The next line as text, and what follows it.
fn line(rest: &[u8]) -> Result<(&str, &[u8]), Refusal> {
    let (line, after) = match rest.iter().position(|b| *b == b'\n') {
        Some(end) => (&rest[..end], &rest[end + 1..]),
        None => (rest, &rest[rest.len()..]),
    };
    let line = std::str::from_utf8(line).map_err(|_| invalid("The head of a part is not UTF-8."))?;
    Ok((line.trim_end_matches('\r'), after))
}

pub fn find<'a>(headers: &[(&'a str, &'a str)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
}

/// A request: its line, its headers, its body.
pub fn part(content: &[u8]) -> Result<Part<'_>, Refusal> {
    let (first, rest) = line(content.trim_ascii_start())?;
    let bad = || invalid("A part of the batch is no request.");
    let (method, rest_of_line) = first.split_once(' ').ok_or_else(bad)?;
    let (target, version) = rest_of_line.trim().rsplit_once(' ').ok_or_else(bad)?;
    if !version.starts_with("HTTP/1.") || target.trim().is_empty() {
        return Err(bad());
    }
    // Unlike before the request line, an empty line here ends the head.
    let (headers, body) = match rest.first() {
        Some(b'\r' | b'\n') => (Vec::new(), line(rest)?.1),
        None => (Vec::new(), rest),
        Some(_) => headers(rest)?,
    };
    let length = find(&headers, "content-length").and_then(|length| length.parse::<usize>().ok());
    let body = length.and_then(|length| body.get(..length)).unwrap_or(body);
    Ok(Part { method, target: target.trim(), headers, body })
}

/// The head of a part, as if it had come alone: addressed to where the batch was sent.
pub fn head(request: &Request<'_>, part: &Part<'_>) -> Result<Head, Refusal> {
    let target = if part.target.starts_with('/') || part.target.contains("://") {
        part.target.to_string()
    } else {
        format!("{}{}", request.address.endpoint, part.target)
    };
    let mut text = format!("{} {} HTTP/1.1\r\n", part.method, target.replace(' ', "%20"));
    text.push_str(&format!("Host: {}\r\n", request.head.header("host").unwrap_or_default()));
    let ours = ["host", "content-length", "transfer-encoding", "connection", "expect"];
    for (name, value) in part.headers.iter().filter(|(name, _)| !ours.iter().any(|our| name.eq_ignore_ascii_case(our)))
    {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    match Head::parse(text.as_bytes()) {
        Ok(Some((head, _))) => Ok(head),
        _ => Err(Refusal::from(ErrorCode::InvalidInput).saying("A part of the batch is no request.")),
    }
}

/// Its id is the batch's, unless it is given one of its own.
pub fn inner_request<'h>(request: &Request<'_>, head: &'h Head) -> Result<Request<'h>, Refusal> {
    let knows = |name: &str| name == request.account.name.as_str();
    let host = head.header("host").unwrap_or_default();
    let (address, query) = Address::parse(request.service, head.target(), host, request.tls, knows)?;
    if address.account != request.account.name.as_str() {
        let what = "A part of the batch is addressed to another account.";
        return Err(Refusal::from(ErrorCode::InvalidInput).saying(what));
    }
    Ok(Request {
        service: request.service,
        head,
        address: Address {
            secondary: request.address.secondary,
            endpoint: request.address.endpoint.clone(),
            ..address
        },
        query: Query::parse(&query)?,
        account: request.account.clone(),
        settings: request.settings.clone(),
        version: request.version,
        client: request.client,
        tls: request.tls,
        is_forwarded: request.is_forwarded,
        id: request.id,
        now: request.now,
    })
}

/// One part of the answer: as a whole answer it would be read the same.
pub fn put_answer(out: &mut Vec<u8>, content_id: Option<&str>, response: &Response) {
    let reason = match response.status {
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        409 => "Conflict",
        412 => "Precondition Failed",
        413 => "Request Entity Too Large",
        415 => "Unsupported Media Type",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        _ => response.reason.as_ref(),
    };
    put(out, "Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n");
    put(out, &format!("HTTP/1.1 {} {reason}\r\n", response.status));
    // What a client sent may not break the line it is echoed in.
    if let Some(id) = content_id.filter(|id| id.bytes().all(|b| b.is_ascii_graphic() || b == b' ')) {
        put(out, &format!("Content-ID: {id}\r\n"));
    }
    for (name, value) in &response.headers {
        put(out, &format!("{name}: {value}\r\n"));
    }
    put(out, "\r\n");
    if let ResponseBody::Bytes(body) = &response.body {
        out.extend_from_slice(body);
    }
    put(out, "\r\n");
}

pub fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}
