//! Get Blob and Get Blob Properties on the wire.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::ApiVersion;
use contract::operations::Operation;
use partition::blob::access::NoteAccess;
use partition::blob::container;
use partition::blob::read as model;
use partition::blob::state::State;
use partition::{Failure, Shell};

use super::{immutability, moment, put_kind, put_lease, tier};
use crate::auth::Grant;
use crate::content::{Wanted, put_properties};
use crate::copied::put_copy;
use crate::request::Request;
use crate::respond::{put_metadata, stamp};
use crate::wire::{Response, ResponseBody};

pub async fn get(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    grant: Grant,
) -> Result<Response, Failure> {
    let (name, blob) = (request.container()?, request.blob()?);
    let which = request.which()?;
    let wanted = Wanted::parse(request)?;
    let expectation = request.expectation(row)?;
    let container = container::find(shell, &request.account.name, &name).await?;
    let read = model::content(shell, &container.group, &blob, which, &expectation, wanted.range).await;
    let (state, part, reader) = container.settle(shell, read).await?;

    if request.account.blob.track_last_access && state.is_current && state.head.is_access_due(request.now) {
        shell.execute(&NoteAccess::new(&container.group, &blob)).await?;
    }
    let mut response = Response::new(if part.is_some() { 206 } else { row.status });
    put_head(&mut response, request, grant, &state);
    let head = &state.head;
    let stored_md5 = head.properties.content_md5.map(|md5| STANDARD.encode(md5));
    let bytes = match part {
        None => {
            if let Some(md5) = stored_md5 {
                response.header("Content-MD5", md5);
            }
            head.content_bytes
        }
        Some(part) => {
            response.header("Content-Range", format!("bytes {}-{}/{}", part.first, part.last, head.content_bytes));
            if let Some(md5) = stored_md5.filter(|_| request.version >= ApiVersion::RANGES_SHOW_BLOB_MD5) {
                response.header("x-ms-blob-content-md5", md5);
            }
            part.bytes()
        }
    };
    wanted.answer(&mut response, reader, part, bytes).await?;
    Ok(response)
}

pub async fn properties(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    grant: Grant,
) -> Result<Response, Failure> {
    let (name, blob) = (request.container()?, request.blob()?);
    let which = request.which()?;
    let expectation = request.expectation(row)?;
    let container = container::find(shell, &request.account.name, &name).await?;
    let read = model::properties(shell, &container.group, &blob, which, &expectation).await;
    let state = container.settle(shell, read).await?;
    let mut response = Response::new(row.status);
    put_head(&mut response, request, grant, &state);
    let head = &state.head;
    if let Some(md5) = head.properties.content_md5 {
        response.header("Content-MD5", STANDARD.encode(md5));
    }
    response.body = ResponseBody::Head { bytes: Some(head.content_bytes) };
    Ok(response)
}

fn put_head(response: &mut Response, request: &Request<'_>, grant: Grant, state: &State) {
    let head = &state.head;
    stamp(response, head.etag, head.last_modified);
    response.header("Accept-Ranges", "bytes");
    put_properties(response, request, grant, &head.properties);
    put_kind(response, head.kind);
    if request.version >= ApiVersion::CREATION_TIME {
        response.header("x-ms-creation-time", head.created.http_date());
    }
    if let Some(version) = head.version {
        response.header("x-ms-version-id", moment(version));
        if state.is_current {
            response.header("x-ms-is-current-version", "true");
        }
    }
    if state.is_current {
        put_lease(response, head.lease.as_ref(), request.now);
    }
    // A snapshot is no version, and has no tier of its own to show.
    let shows_tier = request.head.method() == "HEAD" || request.version >= ApiVersion::TIER_ON_GET;
    if shows_tier && (state.is_current || head.version.is_some()) {
        tier::put_tier(response, head, request.now);
    }
    immutability::put(response, head);
    if request.account.blob.track_last_access {
        response.header("x-ms-last-access-time", head.last_access().http_date());
    }
    if let Some(expires) = head.expires {
        response.header("x-ms-expiry-time", expires.http_date());
    }
    if !head.tags.is_empty() {
        response.header("x-ms-tag-count", head.tags.len().to_string());
    }
    put_copy(response, head.copy.as_ref());
    response.header("x-ms-server-encrypted", "true");
    put_metadata(response, &head.metadata);
}
