//! Content on its way out: which part of it, how it is hashed and framed, and what is said of it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::{ErrorCode, Refusal, limits};
use md5::{Digest, Md5};
use partition::blob::read::{Part, Range};
use partition::record::ContentProperties;
use partition::{ContentReader, Failure};

use crate::auth::Grant;
use crate::request::Request;
use crate::structured::{self, Encoder};
use crate::wire::{Pieces, Response, ResponseBody};

/// What a client asks for beside the content itself.
pub struct Wanted<'a> {
    pub range: Option<Range>,
    hash: Option<RangeHash>,
    /// The words that ask for checksums inside the body.
    structured: Option<&'a str>,
}

impl<'a> Wanted<'a> {
    pub fn parse(request: &'a Request<'_>) -> Result<Self, Refusal> {
        // Quirk: content is given whole to whoever names a part that cannot be read, in either header (Azurite issue 2458: Java asks for
        // `bytes=0--1` of what is empty). `testing/matrix/content.rs::ranges_that_cannot_be_read`
        let range = range_named(request).and_then(|(_, text)| parse_range(text));
        let hash = RangeHash::parse(request, range.is_some())?;
        let structured = structured::asked(request)?;
        match (structured, hash) {
            (Some(words), Some(_)) => Err(Refusal::bad_header("x-ms-structured-body", words)),
            _ => Ok(Wanted { range, hash, structured }),
        }
    }

    /// Puts the content, of which `bytes` bytes are given out, into the answer.
    pub async fn answer(
        &self,
        response: &mut Response,
        reader: ContentReader,
        part: Option<Part>,
        bytes: u64,
    ) -> Result<(), Failure> {
        match (self.hash, part, self.structured) {
            (Some(hash), Some(part), _) => hash.answer(response, reader, part).await?,
            (_, _, None) => response.body = body(reader, bytes).await?,
            (_, _, Some(words)) => {
                response.header("x-ms-structured-body", words.to_string());
                response.header("x-ms-structured-content-length", bytes.to_string());
                let mut pieces = Pieces::Framed(Encoder::new(reader, bytes));
                let first = pieces.next().await?.unwrap_or_default();
                let bytes = structured::framed_bytes(bytes);
                response.body = ResponseBody::Content { first, pieces: Box::new(pieces), bytes };
            }
        }
        Ok(())
    }
}

/// What is stored about the content, or what a token says instead.
pub fn put_properties(response: &mut Response, request: &Request<'_>, grant: Grant, properties: &ContentProperties) {
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

pub const DEFAULT_CONTENT_TYPE: &str = "application/octet-stream";

/// `x-ms-range` before `Range`.
fn range_named<'a>(request: &'a Request<'_>) -> Option<(&'static str, &'a str)> {
    ["x-ms-range", "range"].into_iter().find_map(|name| Some((name, request.header(name)?)))
}

/// Of lists: a `Range` that cannot be read is ignored, as HTTP asks; an `x-ms-range` is an error.
pub fn range(request: &Request<'_>) -> Result<Option<Range>, Refusal> {
    match range_named(request) {
        Some((name @ "x-ms-range", text)) => parse_range(text).map(Some).ok_or_else(|| Refusal::bad_header(name, text)),
        other => Ok(other.and_then(|(_, text)| parse_range(text))),
    }
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
        let md5 = request.flag("x-ms-range-get-content-md5")?;
        let crc64 = request.flag("x-ms-range-get-content-crc64")?;
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
