//! Put Blob and Delete Blob on the wire.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::operations::Operation;
use contract::{ApiVersion, ErrorCode, Refusal, limits};
use partition::blob::block::PutBlob;
use partition::blob::container;
use partition::blob::delete::{DeleteBlob, DeletePast, Snapshots};
use partition::blob::{Attributes, Which};
use partition::record::event::Api;
use partition::record::{BlobKind, ContentProperties};
use partition::{Content, Failure, Shell};

use super::{immutability, refuse_unbuilt, stamp_made, tags, tier};
use crate::auth::Grant;
use crate::body::{empty_body, limit_body, not_received, put_framing};
use crate::hash::{Expected, HashedBody, check_md5, parse_md5};
use crate::request::Request;
use crate::wire::{Body, Response};

/// What Put Blob may ask for and does not get yet.
pub const UNBUILT_ON_WRITE: [&str; 2] = ["x-ms-copy-source", "x-ms-expiry-option"];

pub async fn put(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    grant: Grant,
    body: &mut Body<'_>,
) -> Result<Response, Failure> {
    let (name, blob) = (request.container()?, request.blob()?);
    refuse_unbuilt(request, &UNBUILT_ON_WRITE, &[])?;
    request.refuse_past()?;
    if let Some(value) = request.header("x-ms-blob-content-length") {
        return Err(Refusal::bad_header("x-ms-blob-content-length", value).into());
    }
    let framing = limit_body(request, body, put_bytes_max(request.version))?;
    let expected = Expected::parse(request)?;
    let claimed_md5 = request.header("x-ms-blob-content-md5").map(parse_md5).transpose()?;
    let (expectation, attributes) = (request.expectation(row)?, attributes(request, put_properties(request))?);
    let (kind, keeping, expects_nothing) = (BlobKind::Block, request.keeping(), expectation.is_empty());

    let container = container::find(shell, &request.account.name, &name).await?;
    let mut command =
        PutBlob::new(&container.group, &blob, expectation, kind, attributes, keeping, grant.may_overwrite);
    // Judged twice, without its body and with it. Once is enough where nobody waits to be asked for a body and nothing is likely to be
    // refused; but what would have been refused without the body is refused for that reason.
    let at_once = body.is_here() && expects_nothing;
    if !at_once {
        container.settle(shell, shell.admit(&command).await).await?;
    }
    let received = async {
        let mut source = HashedBody::new(body, framing.as_ref());
        let content = Content::receive(shell.engine.as_ref(), &mut source).await.map_err(not_received)?;
        let actual = source.finish().await?;
        expected.check(&actual)?;
        check_md5(claimed_md5, actual.md5)?;
        Ok((content, actual))
    };
    let (content, actual) = match received.await {
        Err(failure) if at_once => {
            container.settle(shell, shell.admit(&command).await).await?;
            return Err(failure);
        }
        received => received?,
    };
    command.content = content;
    command.attributes.properties.content_md5 = Some(actual.md5);
    command.announcement = request.announcement(shell, &name, &blob, Api::PutBlob);

    let head = container.settle(shell, shell.execute(&command).await).await?;
    let mut response = Response::new(row.status);
    stamp_made(&mut response, &head);
    response.header("Content-MD5", STANDARD.encode(actual.md5));
    if request.version >= ApiVersion::CRC64 {
        response.header("x-ms-content-crc64", STANDARD.encode(actual.crc64));
    }
    put_framing(&mut response, framing.as_ref());
    response.header("x-ms-request-server-encrypted", "true");
    Ok(response)
}

/// Put Blob of an append blob: it begins empty.
pub async fn put_append(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    grant: Grant,
) -> Result<Response, Failure> {
    let (name, blob) = (request.container()?, request.blob()?);
    refuse_unbuilt(request, &UNBUILT_ON_WRITE, &[])?;
    request.refuse_past()?;
    if let Some(value) = request.header("x-ms-blob-content-length") {
        return Err(Refusal::bad_header("x-ms-blob-content-length", value).into());
    }
    tier::refuse(request)?;
    empty_body(request)?;
    let mut properties = put_properties(request);
    properties.content_md5 = request.header("x-ms-blob-content-md5").map(parse_md5).transpose()?;
    let (expectation, attributes) = (request.expectation(row)?, attributes(request, properties)?);
    let container = container::find(shell, &request.account.name, &name).await?;
    let (kind, keeping) = (BlobKind::Append { blocks: 0, sealed: false }, request.keeping());
    let mut command =
        PutBlob::new(&container.group, &blob, expectation, kind, attributes, keeping, grant.may_overwrite);
    command.announcement = request.announcement(shell, &name, &blob, Api::PutBlob);
    let head = container.settle(shell, shell.execute(&command).await).await?;
    let mut response = Response::new(row.status);
    stamp_made(&mut response, &head);
    response.header("x-ms-request-server-encrypted", "true");
    Ok(response)
}

/// What a request that makes a whole blob says of it.
pub fn attributes(request: &Request<'_>, properties: ContentProperties) -> Result<Attributes, Refusal> {
    let (immutability, legal_hold) = immutability::sent(request)?;
    Ok(Attributes {
        properties,
        metadata: request.metadata()?,
        tags: tags::sent(request)?,
        tier: tier::sent(request)?,
        immutability,
        legal_hold,
    })
}

/// What Put Blob stores about the content; the MD5 is known when the body has come.
pub fn put_properties(request: &Request<'_>) -> ContentProperties {
    ContentProperties {
        content_type: stored_header(request, "x-ms-blob-content-type", Some("content-type")),
        content_encoding: stored_header(request, "x-ms-blob-content-encoding", Some("content-encoding")),
        content_language: stored_header(request, "x-ms-blob-content-language", Some("content-language")),
        content_disposition: stored_header(request, "x-ms-blob-content-disposition", None),
        cache_control: stored_header(request, "x-ms-blob-cache-control", Some("cache-control")),
        content_md5: None,
    }
}

/// `x-ms-blob-…` alone: what is not sent is not kept.
pub fn named_properties(request: &Request<'_>) -> Result<ContentProperties, Refusal> {
    Ok(ContentProperties {
        content_type: stored_header(request, "x-ms-blob-content-type", None),
        content_encoding: stored_header(request, "x-ms-blob-content-encoding", None),
        content_language: stored_header(request, "x-ms-blob-content-language", None),
        content_disposition: stored_header(request, "x-ms-blob-content-disposition", None),
        cache_control: stored_header(request, "x-ms-blob-cache-control", None),
        content_md5: request.header("x-ms-blob-content-md5").map(parse_md5).transpose()?,
    })
}

pub async fn delete(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let (name, blob) = (request.container()?, request.blob()?);

    let (which, keeping, sent) = (request.which()?, request.keeping(), request.header("x-ms-delete-snapshots"));
    let permanent = match request.query.get("deletetype") {
        None => false,
        Some(text) if text.eq_ignore_ascii_case("permanent") => true,
        Some(text) => return Err(Refusal::bad_query("deletetype", text, "Unknown value.").into()),
    };
    let snapshots = match sent {
        None => Snapshots::Refuse,
        Some(_) if which != Which::Current => {
            return Err(Refusal::bad_header("x-ms-delete-snapshots", sent.unwrap_or_default()).into());
        }
        Some("include") => Snapshots::Include,
        Some("only") => Snapshots::Only,
        Some(value) => return Err(Refusal::bad_header("x-ms-delete-snapshots", value).into()),
    };
    let is_allowed = request.settings.delete_retention.is_some_and(|retention| retention.allow_permanent);
    if permanent && (which == Which::Current || !is_allowed) {
        return Err(ErrorCode::PermanentDeleteNotAllowed.into());
    }
    let expectation = request.expectation(row)?;
    let container = container::find(shell, &request.account.name, &name).await?;
    let deleted = if which == Which::Current {
        let mut command = DeleteBlob::new(&container.group, &blob, expectation, keeping, snapshots);
        command.announcement = request.announcement(shell, &name, &blob, Api::DeleteBlob);
        shell.execute(&command).await
    } else {
        let command = DeletePast::new(&container.group, &blob, expectation, keeping, which, permanent);
        shell.execute(&command).await
    };
    let deleted = container.settle(shell, deleted).await?;
    let permanent = if deleted.is_kept { "false" } else { "true" };
    Ok(Response::new(row.status).with_header("x-ms-delete-type-permanent", permanent))
}

/// `x-ms-blob-…` is stored; without it the plain header of the same meaning.
fn stored_header(request: &Request<'_>, name: &str, plain: Option<&str>) -> Option<String> {
    request.header(name).or_else(|| request.header(plain?)).map(str::to_string)
}

fn put_bytes_max(version: ApiVersion) -> u64 {
    if version >= ApiVersion::PUT_BLOB_5000_MIB {
        limits::PUT_BLOB_BYTES_MAX
    } else if version >= ApiVersion::PUT_BLOB_256_MIB {
        limits::PUT_BLOB_BYTES_MAX_BEFORE_2019_12_12
    } else {
        limits::PUT_BLOB_BYTES_MAX_BEFORE_2016_05_31
    }
}
