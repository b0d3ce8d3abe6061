//! The Blob service on the wire: requests to commands, outcomes to answers.

pub mod acl;
pub mod append;
pub mod batch;
pub mod block;
pub mod change;
pub mod container;
pub mod copy;
pub mod expiry;
pub mod from_url;
pub mod immutability;
pub mod lease;
pub mod list;
pub mod page;
pub mod read;
pub mod snapshot;
pub mod staging;
pub mod tags;
pub mod tier;

use contract::Refusal;
use env::Timestamp;
use partition::record::{BlobHead, BlobKind};

use crate::lease::put_lease;
use crate::request::Request;
use crate::respond::stamp;
use crate::wire::Response;

/// ETag and Last-Modified of a blob that was made anew, and its version.
fn stamp_made(response: &mut Response, head: &BlobHead) {
    stamp(response, head.etag, head.last_modified);
    if let Some(version) = head.version {
        response.header("x-ms-version-id", moment(version));
    }
}

/// An id of a snapshot or version as clients see it.
fn moment(ticks: u64) -> String {
    Timestamp::from_ticks(ticks).iso8601()
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
    if let BlobKind::Page { sequence, .. } = kind {
        response.header("x-ms-blob-sequence-number", sequence.to_string());
    }
}

pub(crate) fn kind_name(kind: BlobKind) -> &'static str {
    match kind {
        BlobKind::Block => "BlockBlob",
        BlobKind::Append { .. } => "AppendBlob",
        BlobKind::Page { .. } => "PageBlob",
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
