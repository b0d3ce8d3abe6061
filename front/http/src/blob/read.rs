//! Get Blob and Get Blob Properties on the wire.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::operations::Operation;
use contract::{ApiVersion, ErrorCode, Refusal, limits};
use md5::{Digest, Md5};
use partition::blob::access::NoteAccess;
use partition::blob::container;
use partition::blob::read::{self as model, Part, Range};
use partition::blob::state::State;
use partition::{ContentReader, Failure, Shell};

use super::copy::put_copy;
use super::{immutability, moment, put_kind, put_lease, put_metadata, stamp, tier};
use crate::auth::Grant;
use crate::request::Request;
use crate::structured::{self, Encoder};
use crate::wire::{Pieces, Response, ResponseBody};

pub async fn get(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    grant: Grant,
) -> Result<Response, Failure> {
    let (name, blob) = (request.container()?, request.blob()?);
    let which = request.which()?;
    let range = range(request)?;
    let hash = RangeHash::parse(request, range.is_some())?;
    let structured = structured::asked(request)?;
    if let (Some(words), Some(_)) = (structured, hash) {
        return Err(Refusal::bad_header("x-ms-structured-body", words).into());
    }
    let expectation = request.expectation(row)?;
    let container = container::find(shell, &request.account.name, &name).await?;
    let read = model::content(shell, &container.group, &blob, which, &expectation, range).await;
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
    match (hash, part) {
        (Some(hash), Some(part)) => hash.answer(&mut response, reader, part).await?,
        _ => match structured {
            None => response.body = body(reader, bytes).await?,
            Some(words) => {
                response.header("x-ms-structured-body", words.to_string());
                response.header("x-ms-structured-content-length", bytes.to_string());
                let mut pieces = Pieces::Framed(Encoder::new(reader, bytes));
                let first = pieces.next().await?.unwrap_or_default();
                let bytes = structured::framed_bytes(bytes);
                response.body = ResponseBody::Content { first, pieces: Box::new(pieces), bytes };
            }
        },
    }
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

/// The first piece is read before the answer begins, so that what cannot be read at all is an error answer.
async fn body(reader: ContentReader, bytes: u64) -> Result<ResponseBody, Failure> {
    match reader.into_inline() {
        Ok(content) => Ok(ResponseBody::Bytes(content)),
        Err(mut reader) => {
            let first = reader.next().await?.unwrap_or_default();
            Ok(ResponseBody::Content { first, pieces: Box::new(Pieces::Plain(reader)), bytes })
        }
    }
}

fn put_head(response: &mut Response, request: &Request<'_>, grant: Grant, state: &State) {
    let head = &state.head;
    stamp(response, head.etag, head.last_modified);
    response.header("Accept-Ranges", "bytes");
    let properties = &head.properties;
    let content_type = properties.content_type.as_deref().or(Some(DEFAULT_CONTENT_TYPE));
    for (name, stored, parameter) in [
        ("Content-Type", content_type, "rsct"),
        ("Content-Encoding", properties.content_encoding.as_deref(), "rsce"),
        ("Content-Language", properties.content_language.as_deref(), "rscl"),
        ("Content-Disposition", properties.content_disposition.as_deref(), "rscd"),
        ("Cache-Control", properties.cache_control.as_deref(), "rscc"),
    ] {
        let instead = request.query.get(parameter).filter(|_| grant.overrides_headers);
        if let Some(value) = instead.or(stored) {
            response.header(name, value.to_string());
        }
    }
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

pub const DEFAULT_CONTENT_TYPE: &str = "application/octet-stream";

/// `x-ms-range` before `Range`. A `Range` that cannot be read is ignored, as HTTP asks; an `x-ms-range` is an error.
pub fn range(request: &Request<'_>) -> Result<Option<Range>, Refusal> {
    if let Some(text) = request.header("x-ms-range") {
        return parse_range(text).map(Some).ok_or_else(|| Refusal::bad_header("x-ms-range", text));
    }
    Ok(request.header("range").and_then(parse_range))
}

/// `bytes=a-b` or `bytes=a-`.
pub fn parse_range(text: &str) -> Option<Range> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let number = |digits: &str| {
        (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse::<u64>().ok())?
    };
    let first = number(first)?;
    if last.is_empty() {
        return Some(Range { first, last: None });
    }
    let last = number(last)?;
    (last >= first).then_some(Range { first, last: Some(last) })
}

/// A hash of the part, on demand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RangeHash {
    Md5,
    Crc64,
}

impl RangeHash {
    fn parse(request: &Request<'_>, has_range: bool) -> Result<Option<RangeHash>, Refusal> {
        let wanted = |name: &'static str| match request.header(name) {
            None => Ok(false),
            Some(value) if value.eq_ignore_ascii_case("true") => Ok(true),
            Some(value) if value.eq_ignore_ascii_case("false") => Ok(false),
            Some(value) => Err(Refusal::bad_header(name, value)),
        };
        let (md5, crc64) = (wanted("x-ms-range-get-content-md5")?, wanted("x-ms-range-get-content-crc64")?);
        match (md5, crc64) {
            (false, false) => Ok(None),
            (true, true) => Err(Refusal::bad_header("x-ms-range-get-content-crc64", "true")),
            (true, false) if !has_range => Err(Refusal::bad_header("x-ms-range-get-content-md5", "true")),
            (false, true) if !has_range => Err(Refusal::bad_header("x-ms-range-get-content-crc64", "true")),
            (true, false) => Ok(Some(RangeHash::Md5)),
            (false, true) => Ok(Some(RangeHash::Crc64)),
        }
    }

    /// The part is small enough to be held while its hash goes ahead of it.
    async fn answer(self, response: &mut Response, mut reader: ContentReader, part: Part) -> Result<(), Failure> {
        if part.bytes() > limits::RANGE_HASH_BYTES_MAX {
            return Err(ErrorCode::OutOfRangeInput.into());
        }
        let mut content = Vec::with_capacity(part.bytes() as usize);
        while let Some(piece) = reader.next().await? {
            content.extend_from_slice(&piece);
        }
        match self {
            RangeHash::Md5 => response.header("Content-MD5", STANDARD.encode(Md5::digest(&content))),
            RangeHash::Crc64 => {
                let mut digest = crc64fast_nvme::Digest::new();
                digest.write(&content);
                response.header("x-ms-content-crc64", STANDARD.encode(digest.sum64().to_le_bytes()))
            }
        };
        response.body = ResponseBody::Bytes(content.into());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        for (text, expected) in [
            ("bytes=0-0", Some((0, Some(0)))),
            ("bytes=5-", Some((5, None))),
            ("bytes=5-9", Some((5, Some(9)))),
            ("bytes=9-5", None),
            ("bytes=-5", None),
            ("bytes=", None),
            ("bytes=a-b", None),
            ("bytes=0-0,2-3", None),
            ("bytes=+1-2", None),
            ("bytes=1-99999999999999999999", None),
            ("items=0-1", None),
            ("0-1", None),
        ] {
            assert_eq!(parse_range(text).map(|range| (range.first, range.last)), expected, "{text}");
        }
    }
}
