//! The Blob service on the wire: requests to commands, outcomes to answers.

pub mod acl;
pub mod append;
pub mod block;
pub mod change;
pub mod container;
mod hash;
pub mod lease;
pub mod list;
pub mod read;
pub mod staging;

use contract::Refusal;
use contract::names::Metadata;
use env::Timestamp;
use partition::ETag;
use partition::lease::Lease;
use partition::record::BlobKind;

use crate::request::Request;
use crate::wire::Response;

/// ETag and Last-Modified.
fn stamp(response: &mut Response, etag: ETag, last_modified: Timestamp) {
    response.header("ETag", etag.quoted()).header("Last-Modified", last_modified.http_date());
}

fn put_metadata(response: &mut Response, metadata: &Metadata) {
    for (name, value) in metadata.iter() {
        response.header(format!("x-ms-meta-{name}"), value.to_string());
    }
}

fn put_lease(response: &mut Response, lease: Option<&Lease>, now: Timestamp) {
    let (status, state, duration) = lease::shown(lease, now);
    response.header("x-ms-lease-status", status).header("x-ms-lease-state", state);
    if let Some(duration) = duration {
        response.header("x-ms-lease-duration", duration);
    }
}

/// The type of a blob, and what only that type has.
fn put_kind(response: &mut Response, kind: BlobKind) {
    response.header("x-ms-blob-type", kind_name(kind));
    if let BlobKind::Append { blocks, sealed } = kind {
        response.header("x-ms-blob-committed-block-count", blocks.to_string());
        if sealed {
            response.header("x-ms-blob-sealed", "true");
        }
    }
}

fn kind_name(kind: BlobKind) -> &'static str {
    match kind {
        BlobKind::Block => "BlockBlob",
        BlobKind::Append { .. } => "AppendBlob",
    }
}

/// What asks for something that is not built yet is refused by name, never silently left undone.
fn refuse_unbuilt(request: &Request<'_>, headers: &[&'static str], parameters: &[&'static str]) -> Result<(), Refusal> {
    let unbuilt = Refusal::from(contract::ErrorCode::NotImplemented);
    if let Some(name) = headers.iter().find(|name| request.header(name).is_some()) {
        return Err(unbuilt.with("HeaderName", *name));
    }
    match parameters.iter().find(|name| request.query.get(name).is_some()) {
        Some(name) => Err(unbuilt.with("QueryParameterName", *name)),
        None => Ok(()),
    }
}
