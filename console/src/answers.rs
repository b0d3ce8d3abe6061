//! What the console's answers have in common.

use http::wire::{Head, Response, ResponseBody};
use serde_json::{Value, json};

pub fn json(status: u16, value: &Value) -> Response {
    let mut response = Response::new(status).with_header("Content-Type", "application/json");
    response.body = ResponseBody::Bytes(value.to_string().into());
    response.with_header("Cache-Control", "no-store")
}

pub fn error(status: u16, words: &str) -> Response {
    json(status, &json!({ "error": words }))
}

pub fn text(status: u16, words: impl Into<String>) -> Response {
    let mut response = Response::new(status).with_header("Content-Type", "text/plain; charset=utf-8");
    response.body = ResponseBody::Bytes(words.into().into());
    response.with_header("Cache-Control", "no-store")
}

/// What every answer says to a browser: take it as what it is, show it to no other origin, and load nothing for it but what was said.
pub fn fenced(head: &Head, mut response: Response) -> Response {
    response
        .header("X-Content-Type-Options", "nosniff")
        .header("Referrer-Policy", "no-referrer")
        .header("Cross-Origin-Resource-Policy", "same-origin")
        .header("Cross-Origin-Opener-Policy", "same-origin")
        .header("X-Frame-Options", "DENY");
    let has_policy = response.headers.iter().any(|(name, _)| name == "Content-Security-Policy");
    if !has_policy {
        response.header("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'");
    }
    if head.method() == "HEAD"
        && let ResponseBody::Bytes(bytes) = &response.body
    {
        response.body = ResponseBody::Head { bytes: Some(bytes.len() as u64) };
    }
    response
}
