//! Page blobs on the wire: made, written, cleared, resized, listed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::operations::{Operation, OperationId};
use contract::{ApiVersion, ErrorCode, Refusal, limits};
use env::Timestamp;
use partition::blob::block::PutBlob;
use partition::blob::container;
use partition::blob::page::{
    self as model, ChangePageBlob, PAGE_BYTES, PageQuery, Pages, PutPages, SEQUENCE_MAX, SequenceAction,
    SequenceConditions, Since,
};
use partition::record::BlobKind;
use partition::record::event::Api;
use partition::{Content, Failure, Shell};

use super::block::{UNBUILT_ON_WRITE, attributes, named_properties, put_properties};
use super::{refuse_unbuilt, stamp_made, tier};
use crate::auth::Grant;
use crate::body::{empty_body, limit_body, not_received, put_framing, put_hash};
use crate::content::{parse_range, range};
use crate::hash::{Expected, HashedBody, parse_md5};
use crate::query::Query;
use crate::request::Request;
use crate::respond::document;
use crate::respond::stamp;
use crate::wire::{Body, BodyKind, Response};
use crate::xml::XmlWriter;

/// Put Blob of a page blob: zeros, as many as are asked for.
pub async fn create(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    grant: Grant,
) -> Result<Response, Failure> {
    let (name, blob) = (request.container()?, request.blob()?);
    refuse_unbuilt(request, &UNBUILT_ON_WRITE, &[])?;
    request.refuse_past()?;
    empty_body(request)?;
    let bytes = size(request)?.ok_or_else(|| Refusal::missing_header("x-ms-blob-content-length"))?;
    let sequence = sequence_number(request)?.unwrap_or(0);
    let mut properties = put_properties(request);
    properties.content_md5 = request.header("x-ms-blob-content-md5").map(parse_md5).transpose()?;
    tier::refuse(request)?;
    let (expectation, attributes) = (request.expectation(row)?, attributes(request, properties)?);
    let container = container::find(shell, &request.account.name, &name).await?;
    let (kind, keeping) = (BlobKind::Page { sequence, made: 0 }, request.keeping());
    let mut command =
        PutBlob::new(&container.group, &blob, expectation, kind, attributes, keeping, grant.may_overwrite);
    command.page_bytes = bytes;
    command.announcement = request.announcement(shell, &name, &blob, Api::PutBlob);
    let head = container.settle(shell, shell.execute(&command).await).await?;
    let mut response = Response::new(row.status);
    stamp_made(&mut response, &head);
    response.header("x-ms-request-server-encrypted", "true");
    Ok(response)
}

/// Put Page.
pub async fn put(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    body: &mut Body<'_>,
) -> Result<Response, Failure> {
    let (name, blob) = (request.container()?, request.blob()?);
    refuse_unbuilt(request, &UNBUILT_ON_WRITE, &[])?;
    request.refuse_past()?;
    let framing = limit_body(request, body, limits::PUT_PAGES_BYTES_MAX)?;
    let pages = pages(request)?;
    if pages.bytes() > limits::PUT_PAGES_BYTES_MAX {
        return Err(crate::body::too_large(limits::PUT_PAGES_BYTES_MAX).into());
    }
    if let (BodyKind::Length(bytes), None) = (request.head.body, &framing)
        && bytes != pages.bytes()
    {
        return Err(Refusal::bad_header("Content-Length", bytes.to_string()).into());
    }
    let (expected, expectation, sequence) =
        (Expected::parse(request)?, request.expectation(row)?, sequence_conditions(request)?);
    let container = container::find(shell, &request.account.name, &name).await?;
    let mut command = PutPages::new(&container.group, &blob, expectation, sequence, pages);
    container.settle(shell, shell.admit(&command).await).await?;

    let mut source = HashedBody::new(body, framing.as_ref());
    let content = Content::receive_extents(shell.engine.as_ref(), &mut source).await.map_err(not_received)?;
    let actual = source.finish().await?;
    expected.check(&actual)?;
    if content.bytes() != pages.bytes() {
        return Err(Refusal::bad_header("Content-Length", content.bytes().to_string()).into());
    }
    command.content = Some(content);
    let head = container.settle(shell, shell.execute(&command).await).await?;
    let mut response = Response::new(row.status);
    stamp(&mut response, head.etag, head.last_modified);
    put_hash(&mut response, request.version, &expected, &actual);
    put_framing(&mut response, framing.as_ref());
    put_sequence(&mut response, head.kind);
    response.header("x-ms-request-server-encrypted", "true");
    Ok(response)
}

/// Put Page with `x-ms-page-write: clear`.
pub async fn clear(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let (name, blob) = (request.container()?, request.blob()?);
    refuse_unbuilt(request, &UNBUILT_ON_WRITE, &[])?;
    request.refuse_past()?;
    empty_body(request)?;
    let (pages, expectation, sequence) = (pages(request)?, request.expectation(row)?, sequence_conditions(request)?);
    let container = container::find(shell, &request.account.name, &name).await?;
    let command = PutPages::new(&container.group, &blob, expectation, sequence, pages);
    let head = container.settle(shell, shell.execute(&command).await).await?;
    let mut response = Response::new(row.status);
    stamp(&mut response, head.etag, head.last_modified);
    put_sequence(&mut response, head.kind);
    Ok(response)
}

/// Set Blob Properties with a size or a sequence number.
pub async fn change(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let (name, blob, expectation) = (request.container()?, request.blob()?, request.expectation(row)?);
    let (bytes, sequence) = (size(request)?, sequence_action(request)?);
    // Those that are sent replace all; if none is they stay.
    let properties = Some(named_properties(request)?).filter(|properties| *properties != Default::default());
    let container = container::find(shell, &request.account.name, &name).await?;
    let command = ChangePageBlob::new(&container.group, &blob, expectation, properties, bytes, sequence);
    let head = container.settle(shell, shell.execute(&command).await).await?;
    let mut response = Response::new(row.status);
    stamp(&mut response, head.etag, head.last_modified);
    put_sequence(&mut response, head.kind);
    Ok(response)
}

/// Does Set Blob Properties speak of what only page blobs have?
pub fn is_asked_for(request: &Request<'_>) -> bool {
    ["x-ms-blob-content-length", "x-ms-sequence-number-action", "x-ms-blob-sequence-number"]
        .iter()
        .any(|name| request.header(name).is_some())
}

/// Get Page Ranges, and the difference to a snapshot.
pub async fn list(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let (name, blob, expectation) = (request.container()?, request.blob()?, request.expectation(row)?);
    let (which, range) = (request.which()?, range(request)?);
    let since = match row.id {
        OperationId::GetPageRangesDiff => Some(snapshot_id("prevsnapshot", request.query.get("prevsnapshot"))?),
        OperationId::GetPageRangesDiffByUrl => Some(snapshot_of_url(request)?),
        _ => None,
    };
    let results_max = match request.query.get("maxresults") {
        None if request.version >= ApiVersion::PAGE_LISTS_ARE_PAGED => limits::PAGE_RANGES_MAX,
        None => usize::MAX,
        Some(text) => match text.parse::<i64>() {
            Ok(number) if number >= 1 => (number as usize).min(limits::PAGE_RANGES_MAX),
            Ok(_) => return Err(Refusal::out_of_range("maxresults", text, 1, limits::PAGE_RANGES_MAX as u64).into()),
            Err(_) => return Err(Refusal::bad_query("maxresults", text, "Not a number.").into()),
        },
    };
    let from = match request.query.get("marker") {
        None => 0,
        Some(text) => {
            decode_marker(text).ok_or_else(|| Refusal::bad_query("marker", text, "Not a marker of this service."))?
        }
    };
    let container = container::find(shell, &request.account.name, &name).await?;
    let query = PageQuery { which, range, since, from, results_max };
    let read = model::list(shell, &container.group, &blob, query, &expectation).await;
    let pages = container.settle(shell, read).await?;
    let mut xml = XmlWriter::new();
    if pages.listed.is_empty() && pages.next.is_none() {
        xml.element("PageList", "");
    } else {
        xml.open("PageList");
        for listed in &pages.listed {
            let name = if listed.is_clear { "ClearRange" } else { "PageRange" };
            xml.open(name).element("Start", &listed.pages.first.to_string());
            xml.element("End", &listed.pages.last.to_string()).close(name);
        }
        if let Some(next) = pages.next {
            xml.element("NextMarker", &encode_marker(next));
        }
        xml.close("PageList");
    }
    let mut response = document(request, row, xml.finish());
    stamp(&mut response, pages.head.etag, pages.head.last_modified);
    response.header("x-ms-blob-content-length", pages.head.content_bytes.to_string());
    Ok(response)
}

fn encode_marker(offset: u64) -> String {
    STANDARD.encode(offset.to_string())
}

fn decode_marker(text: &str) -> Option<u64> {
    let offset: u64 = String::from_utf8(STANDARD.decode(text).ok()?).ok()?.parse().ok()?;
    offset.is_multiple_of(PAGE_BYTES).then_some(offset)
}

fn snapshot_id(name: &'static str, text: Option<&str>) -> Result<Since, Refusal> {
    let text = text.unwrap_or_default();
    let moment = Timestamp::parse_iso8601(text).ok_or_else(|| Refusal::bad_query(name, text, "Not a snapshot."))?;
    Ok(Since { snapshot: moment.ticks() })
}

/// The snapshot of this blob that `x-ms-previous-snapshot-url` names.
fn snapshot_of_url(request: &Request<'_>) -> Result<Since, Refusal> {
    const NAME: &str = "x-ms-previous-snapshot-url";
    let url = request.header(NAME).unwrap_or_default();
    let bad = || Refusal::bad_header(NAME, url);
    let query = Query::parse(url.split_once('?').ok_or_else(bad)?.1).map_err(|_| bad())?;
    let moment = query.get("snapshot").and_then(Timestamp::parse_iso8601).ok_or_else(bad)?;
    Ok(Since { snapshot: moment.ticks() })
}

pub fn put_sequence(response: &mut Response, kind: BlobKind) {
    if let BlobKind::Page { sequence, .. } = kind {
        response.header("x-ms-blob-sequence-number", sequence.to_string());
    }
}

/// `x-ms-blob-content-length`: whole pages, up to 8 TiB.
fn size(request: &Request<'_>) -> Result<Option<u64>, Refusal> {
    const NAME: &str = "x-ms-blob-content-length";
    let parse = |text: &str| {
        let bytes = text.parse::<u64>().ok();
        let right = bytes.filter(|bytes| bytes.is_multiple_of(PAGE_BYTES) && *bytes <= limits::PAGE_BLOB_BYTES_MAX);
        right.ok_or_else(|| Refusal::bad_header(NAME, text))
    };
    request.header(NAME).map(parse).transpose()
}

fn sequence_number(request: &Request<'_>) -> Result<Option<u64>, Refusal> {
    const NAME: &str = "x-ms-blob-sequence-number";
    let parse = |text: &str| {
        let number = text.parse::<u64>().ok().filter(|number| *number <= SEQUENCE_MAX);
        number.ok_or_else(|| Refusal::bad_header(NAME, text))
    };
    request.header(NAME).map(parse).transpose()
}

fn sequence_action(request: &Request<'_>) -> Result<Option<SequenceAction>, Refusal> {
    const ACTION: &str = "x-ms-sequence-number-action";
    const NUMBER: &str = "x-ms-blob-sequence-number";
    let number = sequence_number(request)?;
    match (request.header(ACTION).map(str::to_ascii_lowercase).as_deref(), number) {
        (None, None) => Ok(None),
        (Some("max"), Some(number)) => Ok(Some(SequenceAction::Max(number))),
        (Some("update"), Some(number)) => Ok(Some(SequenceAction::Update(number))),
        (Some("increment"), None) => Ok(Some(SequenceAction::Increment)),
        (Some("max" | "update"), None) => Err(Refusal::missing_header(NUMBER)),
        (Some("increment"), Some(number)) => Err(Refusal::bad_header(NUMBER, number.to_string())),
        (Some(other), _) => Err(Refusal::bad_header(ACTION, other)),
        (None, Some(_)) => Err(Refusal::missing_header(ACTION)),
    }
}

pub fn sequence_conditions(request: &Request<'_>) -> Result<SequenceConditions, Refusal> {
    let number = |name: &'static str| {
        let parse = |text: &str| match text.parse::<u64>() {
            Ok(number) => Ok(number),
            // Quirk: a number that is negative is called an input, one that is none a header.
            Err(_) if text.parse::<i64>().is_ok() => Err(Refusal::from(ErrorCode::InvalidInput)),
            Err(_) => Err(Refusal::bad_header(name, text)),
        };
        request.header(name).map(parse).transpose()
    };
    Ok(SequenceConditions {
        at_most: number("x-ms-if-sequence-number-le")?,
        below: number("x-ms-if-sequence-number-lt")?,
        equal: number("x-ms-if-sequence-number-eq")?,
    })
}

/// The range of a write: both ends, whole pages.
pub fn pages(request: &Request<'_>) -> Result<Pages, Refusal> {
    let (name, text) = match (request.header("x-ms-range"), request.header("range")) {
        (Some(text), _) => ("x-ms-range", text),
        (None, Some(text)) => ("Range", text),
        (None, None) => return Err(Refusal::missing_header("x-ms-range")),
    };
    let range = parse_range(text).ok_or_else(|| Refusal::bad_header(name, text))?;
    let last = range.last.ok_or_else(|| Refusal::bad_header(name, text))?;
    Pages::new(range.first, last).ok_or_else(|| ErrorCode::InvalidPageRange.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers() {
        for offset in [0, 512, 1 << 40] {
            assert_eq!(decode_marker(&encode_marker(offset)), Some(offset));
        }
        for text in ["", "512", "NTEy=", "NTEx", "LTE="] {
            assert_eq!(decode_marker(text), None, "{text}");
        }
    }
}
