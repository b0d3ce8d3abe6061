//! What whoever has the account's key may send: requests with any target, headers and body, one after another.

use contract::Service;

use super::{Server, now, show, with_server};
use crate::raw::{Form, Raw};
use crate::{ACCOUNT, KEY, shapes};

/// Requests of one input. More only make it slower.
const REQUESTS_MAX: usize = 8;

/// Requests with a line `---` between them, each `service METHOD target`, headers, an empty line, a body. All are signed, and sent to
/// one server: each gets an answer, what is refused changes nothing, and the server goes on.
pub fn signed_requests(bytes: &[u8]) {
    with_server(|server| {
        for part in split(bytes, b"\n---\n").into_iter().take(REQUESTS_MAX) {
            let Some((service, request)) = read(server, part) else { continue };
            let commits = server.engine.commits();
            let answer = server.ask(service, false, &request);
            assert_ne!(answer.status, 0, "no answer: {}", show(&request));
            if answer.status >= 400 {
                assert_eq!(server.engine.commits(), commits, "{} changed something: {}", answer.text(), show(bytes));
            }
        }
        let alive = crate::Request::new("GET ?comp=list").bytes(now(server));
        assert_eq!(server.ask(Service::Blob, false, &alive).status, 200, "after {}", show(bytes));
    });
}

/// The parts between delimiters.
pub fn split<'a>(mut bytes: &'a [u8], delimiter: &[u8]) -> Vec<&'a [u8]> {
    let mut parts = Vec::new();
    while let Some(at) = bytes.windows(delimiter.len()).position(|window| window == delimiter) {
        parts.push(&bytes[..at]);
        bytes = &bytes[at + delimiter.len()..];
    }
    parts.push(bytes);
    parts
}

/// The request as it is sent, with what every client adds, and signed.
fn read(server: &Server, part: &[u8]) -> Option<(Service, Vec<u8>)> {
    let end = part.iter().position(|byte| *byte == b'\n').unwrap_or(part.len());
    let line = std::str::from_utf8(&part[..end]).ok()?;
    let (service, line) = line.split_once(' ')?;
    let service = Service::ALL.into_iter().find(|each| each.name() == service)?;
    let (method, target) = line.split_once(' ')?;
    let rest = part.get(end + 1..).unwrap_or_default();
    let (headers, body) = match rest.strip_prefix(b"\n") {
        Some(body) => (&b""[..], body),
        None => match rest.windows(2).position(|window| window == b"\n\n") {
            Some(at) => (&rest[..at + 1], &rest[at + 2..]),
            None => (rest, &b""[..]),
        },
    };
    let date = now(server).http_date();
    let mut head = format!("{method} /{ACCOUNT}/{target} HTTP/1.1\nHost: 127.0.0.1:10000\nConnection: close\n");
    head += &format!("x-ms-date: {date}\nContent-Length: {}\n", body.len());
    if !headers.windows(12).any(|window| window.eq_ignore_ascii_case(b"x-ms-version")) {
        head += "x-ms-version: 2026-04-06\n";
    }
    let head = [head.as_bytes(), headers.trim_ascii_end(), b"\n"].concat();
    // No empty line: what follows it would be the body.
    let head = String::from_utf8(head).ok()?.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
    let (mut raw, _) = Raw::parse(service, format!("{head}\n\n").as_bytes())?;
    raw.form = Form::SharedKey;
    let signature = shapes::signature(KEY, &raw.string_to_sign());
    let head = format!("{head}\nAuthorization: SharedKey {ACCOUNT}:{signature}\n\n");
    Some((service, [head.as_bytes(), body].concat()))
}
