//! The pages, as they are served.

use http::wire::{Head, Response, ResponseBody};
use sha2::{Digest, Sha256};

use crate::{answers, assets};

/// Everything is ours, nothing is written into a page, and no page of others has one of ours in it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; \
                      font-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'";

pub fn page(head: &Head, path: &str) -> Response {
    let name = if path == "/" { Some("index.html") } else { path.strip_prefix("/assets/") };
    let Some(asset) = name.and_then(assets::find) else {
        return answers::error(404, "There is no such page.");
    };
    // Short, and worked out anew: a page is asked for now and then, and compared by it.
    let hash = Sha256::digest(asset.bytes);
    let etag = format!("\"{:016x}\"", u64::from_be_bytes(hash[..8].try_into().unwrap_or_default()));
    let is_known = head.headers("if-none-match").flat_map(|value| value.split(',')).any(|known| known.trim() == etag);
    let mut response = Response::new(if is_known { 304 } else { 200 });
    response
        .header("Content-Type", assets::content_type(asset.name))
        .header("ETag", etag)
        .header("Cache-Control", "no-cache")
        .header("Content-Security-Policy", POLICY);
    if !is_known {
        response.body = ResponseBody::Bytes(asset.bytes.into());
    }
    response
}
