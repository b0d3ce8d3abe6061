//! An answer, and how it is written.

use std::borrow::Cow;

use bytes::{BufMut, Bytes, BytesMut};
use contract::Refusal;
use engine::Fault;
use partition::ContentReader;

use super::link::Rest;
use crate::structured::Encoder;

pub struct Response {
    pub status: u16,
    pub reason: Cow<'static, str>,
    pub headers: Vec<(Cow<'static, str>, Cow<'static, str>)>,
    pub body: ResponseBody,
    /// Made by another gateway: nothing is added to it.
    pub is_relayed: bool,
    /// What it refuses, for whoever looks at the server.
    pub refusal: Option<Box<Refusal>>,
}

pub enum ResponseBody {
    Empty,
    Bytes(Bytes),
    /// Content: how many bytes in all, and the first piece, read already so that what cannot be read at all is an error
    /// answer and not a broken download.
    Content {
        first: Bytes,
        pieces: Box<Pieces>,
        bytes: u64,
    },
    /// No body, and the length that the body would have had: the answer to HEAD.
    Head {
        bytes: Option<u64>,
    },
}

/// Content as it is sent: stored, as it is or framed; or what another gateway answered.
pub enum Pieces {
    Plain(ContentReader),
    Framed(Encoder),
    Relayed(Rest),
}

impl Pieces {
    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        match self {
            Pieces::Plain(reader) => reader.next().await,
            Pieces::Framed(encoder) => encoder.next().await,
            Pieces::Relayed(rest) => rest.next().await,
        }
    }
}

/// The id of the request that an answer with these headers is for.
pub fn request_id<'a>(headers: &'a [(Cow<'static, str>, Cow<'static, str>)]) -> &'a str {
    headers.iter().find(|(name, _)| name == "x-ms-request-id").map_or("", |(_, id)| id)
}

impl Response {
    pub fn new(status: u16) -> Self {
        let reason = match status {
            200 => "OK",
            201 => "Created",
            202 => "Accepted",
            204 => "No Content",
            206 => "Partial Content",
            304 => "Not Modified",
            _ => "",
        };
        // More than any common answer has, and not more than the allocator gives at once.
        let headers = Vec::with_capacity(20);
        Response { status, reason: reason.into(), headers, body: ResponseBody::Empty, is_relayed: false, refusal: None }
    }

    /// Another gateway's answer, but for its headers.
    pub fn relayed(status: u16, reason: String, body: ResponseBody) -> Self {
        Response { reason: reason.into(), body, is_relayed: true, ..Response::new(status) }
    }

    /// The id of the request that it answers, for the log.
    pub fn request_id(&self) -> &str {
        request_id(&self.headers)
    }

    pub fn header(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Cow<'static, str>>) -> &mut Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub fn with_header(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Cow<'static, str>>) -> Self {
        self.header(name, value);
        self
    }

    /// How many bytes of body are sent.
    pub fn body_bytes(&self) -> u64 {
        match &self.body {
            ResponseBody::Empty | ResponseBody::Head { .. } => 0,
            ResponseBody::Bytes(bytes) => bytes.len() as u64,
            ResponseBody::Content { bytes, .. } => *bytes,
        }
    }

    /// The length the client will count on; `None` where the status has no body by definition.
    fn content_length(&self) -> Option<u64> {
        match &self.body {
            _ if self.status == 304 || self.status == 204 => None,
            ResponseBody::Empty => Some(0),
            ResponseBody::Bytes(bytes) => Some(bytes.len() as u64),
            ResponseBody::Content { bytes, .. } => Some(*bytes),
            ResponseBody::Head { bytes } => *bytes,
        }
    }

    /// Writes the head. A value from storage or from a client cannot smuggle a line break in: it is left out from there on. One that
    /// stands in the program has none.
    pub fn write_head(&self, out: &mut BytesMut, keep_alive: bool) {
        out.reserve(1024);
        out.put_slice(b"HTTP/1.1 ");
        put_number(out, u64::from(self.status));
        out.put_slice(b" ");
        put_value(out, self.reason.lines().next().unwrap_or_default());
        for (name, value) in &self.headers {
            out.put_slice(b"\r\n");
            out.put_slice(name.as_bytes());
            out.put_slice(b": ");
            match value {
                Cow::Borrowed(ours) => out.put_slice(ours.as_bytes()),
                Cow::Owned(value) => put_value(out, value),
            }
        }
        if let Some(length) = self.content_length() {
            out.put_slice(b"\r\nContent-Length: ");
            put_number(out, length);
        }
        out.put_slice(if keep_alive { b"\r\n\r\n" } else { b"\r\nConnection: close\r\n\r\n" });
    }
}

fn put_value(out: &mut BytesMut, value: &str) {
    let value = value.as_bytes();
    let breaks = |b: u8| b == b'\r' || b == b'\n' || b == 0;
    // All of it at once first, which is many bytes a step; where it breaks is only looked for if it does.
    let end = match value.iter().fold(false, |any, b| any | breaks(*b)) {
        false => value.len(),
        true => value.iter().position(|b| breaks(*b)).unwrap_or(value.len()),
    };
    out.put_slice(&value[..end]);
}

fn put_number(out: &mut BytesMut, mut number: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.put_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(response: &Response, keep_alive: bool) -> String {
        let mut out = BytesMut::new();
        response.write_head(&mut out, keep_alive);
        String::from_utf8(out.to_vec()).expect("text")
    }

    #[test]
    fn heads() {
        let response = Response::new(201).with_header("ETag", "\"0x1\"");
        assert_eq!(written(&response, true), "HTTP/1.1 201 Created\r\nETag: \"0x1\"\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(written(&Response::new(304), false), "HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n");
    }

    #[test]
    fn no_value_breaks_the_line() {
        let response = Response::new(200).with_header("x-ms-meta-a", "b\r\nSet-Cookie: c".to_string());
        assert_eq!(written(&response, true), "HTTP/1.1 200 OK\r\nx-ms-meta-a: b\r\nContent-Length: 0\r\n\r\n");
    }
}
