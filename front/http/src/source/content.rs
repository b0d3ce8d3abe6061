//! The content of a source: of our own the same extents, from outside the bytes as they come.

use std::time::Duration;

use bytes::Bytes;
use contract::names::Metadata;
use contract::{ErrorCode, Refusal};
use engine::{BoxFuture, ExtentError, Source, SourceError};
use md5::{Digest, Md5};
use partition::blob::copy::{self, SourceExpectation, condition_failed};
use partition::blob::read::{Part, Range};
use partition::blob::{Attributes, container};
use partition::copying::cannot_verify;
use partition::file::{read as file, share};
use partition::record::{ContentProperties, Node};
use partition::{Conditions, Content, ContentReader, EtagTest, Failure, Shell};

use super::allow::AllowList;
use super::origin::{Origin, OutsideSource, OwnBlob, OwnFile, unreadable};
use super::outside::{self, BrokenOff, NotOpened, Opened};
use crate::app::App;
use crate::body::too_large;
use crate::content::parse_range;
use crate::file::wait::settle;
use crate::hash::{Actual, Expected};
use crate::request::Request;

/// How long a source outside may take while its caller waits.
const WAITED_FOR: Duration = Duration::from_secs(10 * 60);

const HASHED_AT_ONCE: usize = 1024 * 1024;

/// What is wanted of a source.
pub struct Wanted<'a> {
    pub range: Option<Range>,
    pub bytes_max: u64,
    /// Not in a record, however small.
    pub extents: bool,
    pub expected: Expected,
    pub expectation: &'a SourceExpectation,
}

/// What came.
pub struct Fetched {
    pub content: Content,
    /// Known if it passed through our hands: of our own only where the request asked to compare.
    pub actual: Option<Actual>,
    /// What the source says of itself.
    pub of: Attributes,
}

/// A source of ours that is being read.
pub struct Read {
    pub reader: ContentReader,
    pub bytes: u64,
    pub of: Attributes,
}

/// A file of ours that is being read.
pub struct ReadFile {
    pub read: Read,
    pub share: share::Found,
    pub node: Node,
}

pub const RANGE: &str = "x-ms-source-range";

pub fn range(request: &Request<'_>) -> Result<Option<Range>, Refusal> {
    request.header(RANGE).map(|text| parse_range(text).ok_or_else(|| Refusal::bad_header(RANGE, text))).transpose()
}

/// `x-ms-source-content-md5` and `x-ms-source-content-crc64`.
pub fn expected(request: &Request<'_>) -> Result<Expected, Refusal> {
    Expected::named(request, "x-ms-source-content-md5", "x-ms-source-content-crc64")
}

/// A blob of ours, or a part of it.
pub async fn read_blob(
    shell: &Shell,
    source: &OwnBlob,
    expectation: &SourceExpectation,
    range: Option<Range>,
) -> Result<Read, Failure> {
    let container = container::find(shell, &source.account.name, &source.container).await.map_err(unreadable)?;
    let opened = copy::open(shell, &container.group, &source.blob, source.which, expectation, range).await;
    let (head, bytes, reader) = container.settle(shell, opened).await.map_err(unreadable)?;
    let (properties, metadata, tags) = (head.properties, head.metadata, head.tags);
    Ok(Read { reader, bytes, of: Attributes { properties, metadata, tags, ..Attributes::default() } })
}

/// A file of ours, or a part of it.
pub async fn read_file(
    shell: &Shell,
    request: &Request<'_>,
    source: &OwnFile,
    expectation: &SourceExpectation,
    range: Option<Range>,
) -> Result<ReadFile, Failure> {
    // The File service judges none, and what is not judged must not be taken for what held.
    if !expectation.conditions.is_empty() {
        return Err(ErrorCode::ConditionHeadersNotSupported.into());
    }
    let share = share::find(shell, &source.account.name, &source.share, source.snapshot).await.map_err(unreadable)?;
    let opened = || file::content(shell, &share, &source.path, &source.expectation, range);
    let (found, part, reader) = settle(shell, request, &share, opened).await.map_err(unreadable)?;
    let node = found.node;
    let bytes = part.map_or(node.bytes(), Part::bytes);
    let (properties, metadata) = (node.properties.clone(), node.metadata.clone());
    let of = Attributes { properties, metadata, ..Attributes::default() };
    Ok(ReadFile { read: Read { reader, bytes, of }, share, node })
}

/// Reads the source, or names its extents.
pub async fn fetch(app: &App, request: &Request<'_>, origin: &Origin, wanted: &Wanted<'_>) -> Result<Fetched, Failure> {
    let (shell, expectation) = (&app.shell, wanted.expectation);
    let fetched = match origin {
        Origin::Blob(source) => name(shell, read_blob(shell, source, expectation, wanted.range).await?, wanted).await?,
        Origin::File(source) => {
            name(shell, read_file(shell, request, source, expectation, wanted.range).await?.read, wanted).await?
        }
        Origin::Outside(source) => {
            let receiving = async {
                let mut opened = open(&app.copy_sources(), request, source, wanted).await?;
                if opened.bytes().is_some_and(|bytes| bytes > wanted.bytes_max) {
                    return Err(Failure::from(too_large(wanted.bytes_max)));
                }
                opened.body.bytes_max = wanted.bytes_max;
                let of = described(&opened, expectation.only_blocks)?;
                let engine = app.shell.engine.as_ref();
                let mut hashed = Hashed::new(&mut opened.body);
                let content = match wanted.extents {
                    true => Content::receive_extents(engine, &mut hashed).await,
                    false => Content::receive(engine, &mut hashed).await,
                };
                let content = content.map_err(|error| match error {
                    ExtentError::Fault(fault) => fault.into(),
                    ExtentError::Source(error) => not_fetched(error, wanted.bytes_max),
                })?;
                Ok::<_, Failure>(Fetched { content, actual: Some(hashed.finish()), of })
            };
            let late = || cannot_verify(500, None, "The copy source took too long.");
            tokio::time::timeout(WAITED_FOR, receiving).await.map_err(|_| late())??
        }
    };
    if let Some(actual) = &fetched.actual {
        wanted.expected.check(actual)?;
    }
    Ok(fetched)
}

/// The same extents, for another to hold.
async fn name(shell: &Shell, Read { reader, bytes, of }: Read, wanted: &Wanted<'_>) -> Result<Fetched, Failure> {
    if bytes > wanted.bytes_max {
        return Err(too_large(wanted.bytes_max).into());
    }
    let content = reader.share(bytes, wanted.extents).await?;
    let actual = match wanted.expected == Expected::default() {
        true => None,
        false => Some(hash(content.reader(&shell.engine)).await?),
    };
    Ok(Fetched { content, actual, of })
}

/// What an answer from outside says of its content.
pub fn described(opened: &Opened, only_blocks: bool) -> Result<Attributes, Refusal> {
    let header = |name: &str| opened.header(name).map(str::to_string);
    if only_blocks && header("x-ms-blob-type").is_some_and(|kind| kind != "BlockBlob") {
        return Err(ErrorCode::InvalidSourceBlobType.into());
    }
    let metadata = opened.headers().filter_map(|(name, value)| Some((name.strip_prefix("x-ms-meta-")?, value)));
    Ok(Attributes {
        properties: ContentProperties {
            content_type: header("content-type"),
            content_encoding: header("content-encoding"),
            content_language: header("content-language"),
            content_disposition: header("content-disposition"),
            cache_control: header("cache-control"),
            content_md5: None,
        },
        // What is no metadata here is not worth failing for.
        metadata: Metadata::parse(metadata).unwrap_or_default(),
        ..Attributes::default()
    })
}

/// Reads all of it, and keeps nothing.
pub async fn hash(mut reader: ContentReader) -> Result<Actual, Failure> {
    let mut hashed = Hashed::new(&mut reader);
    while hashed.next(HASHED_AT_ONCE).await.map_err(|error| not_fetched(error, u64::MAX))?.is_some() {}
    Ok(hashed.finish())
}

async fn open(
    allow: &AllowList,
    request: &Request<'_>,
    source: &OutsideSource,
    wanted: &Wanted<'_>,
) -> Result<Opened, Failure> {
    let mut headers = source_headers(request, source);
    headers.extend(condition_headers(&wanted.expectation.conditions));
    if let Some(Range { first, last }) = wanted.range {
        let last = last.map(|last| last.to_string()).unwrap_or_default();
        headers.push(("Range", format!("bytes={first}-{last}")));
    }
    let opened = outside::open(allow, &source.url, &headers).await.map_err(not_opened)?;
    if let (304 | 412, false) = (opened.status, wanted.expectation.conditions.is_empty()) {
        return Err(condition_failed(wanted.expectation.operation, opened.status).into());
    }
    answered(&opened, wanted.range.is_some())?;
    Ok(opened)
}

/// What a source outside is asked with besides.
pub fn source_headers(request: &Request<'_>, source: &OutsideSource) -> Vec<(&'static str, String)> {
    let mut headers = vec![("x-ms-version", request.version.to_string())];
    headers.extend(source.authorization.clone().map(|value| ("Authorization", value)));
    headers
}

/// The conditions on the source, for the source to judge.
pub fn condition_headers(conditions: &Conditions) -> Vec<(&'static str, String)> {
    let etags = |test: &EtagTest| match test {
        EtagTest::Any => "*".to_string(),
        EtagTest::OneOf(tags) => tags.iter().map(|tag| format!("\"{tag}\"")).collect::<Vec<_>>().join(", "),
    };
    let mut headers = Vec::new();
    headers.extend(conditions.if_match.as_ref().map(|test| ("If-Match", etags(test))));
    headers.extend(conditions.if_none_match.as_ref().map(|test| ("If-None-Match", etags(test))));
    headers.extend(conditions.if_modified_since.map(|date| ("If-Modified-Since", date.http_date())));
    headers.extend(conditions.if_unmodified_since.map(|date| ("If-Unmodified-Since", date.http_date())));
    headers
}

pub fn not_opened(error: NotOpened) -> Refusal {
    match error {
        NotOpened::NotAllowed => {
            let words = "The copy source is not on this server, and this server is not configured to read from there.";
            Refusal::from(ErrorCode::CannotVerifyCopySource).status(403).saying(words)
        }
        NotOpened::Unreachable(why) => {
            Refusal::from(ErrorCode::CannotVerifyCopySource).saying(format!("The copy source was not reached: {why}."))
        }
    }
}

/// Is the answer the content that was asked for?
pub fn answered(opened: &Opened, is_part: bool) -> Result<(), Refusal> {
    let code = opened.header("x-ms-error-code").map(str::to_string);
    let told = |status: u16, words: &str| {
        let refusal = Refusal::from(ErrorCode::CannotVerifyCopySource).status(status).saying(words);
        let refusal = refusal.header("x-ms-copy-source-status-code", opened.status.to_string());
        code.iter().fold(refusal, |refusal, code| refusal.header("x-ms-copy-source-error-code", code.clone()))
    };
    match (opened.status, is_part) {
        (200, false) | (206, true) => Ok(()),
        (200, true) => Err(told(400, "The copy source does not answer with the range that was asked for.")),
        (status @ 400..600, _) => Err(told(status, "The copy source was not readable.")),
        // A redirect leads where the list has not been asked about.
        _ => Err(told(400, "The copy source does not answer with its content; redirects are not followed.")),
    }
}

fn not_fetched(error: SourceError, bytes_max: u64) -> Failure {
    let error = match error.0.downcast::<engine::Fault>() {
        Ok(fault) => return (*fault).into(),
        Err(error) => error,
    };
    match error.downcast_ref::<BrokenOff>() {
        Some(BrokenOff::TooLarge) => too_large(bytes_max).into(),
        _ => cannot_verify(500, None, &format!("The copy source was not read to its end: {error}.")).into(),
    }
}

/// A source on its way in, hashed as it passes.
pub struct Hashed<'a> {
    source: &'a mut dyn Source,
    md5: Md5,
    crc64: crc64fast_nvme::Digest,
}

impl<'a> Hashed<'a> {
    pub fn new(source: &'a mut dyn Source) -> Hashed<'a> {
        Hashed { source, md5: Md5::new(), crc64: crc64fast_nvme::Digest::new() }
    }

    pub fn finish(self) -> Actual {
        Actual { md5: self.md5.finalize().into(), crc64: self.crc64.sum64().to_le_bytes() }
    }
}

impl Source for Hashed<'_> {
    fn next(&mut self, bytes_max: usize) -> BoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async move {
            let bytes = self.source.next(bytes_max).await?;
            if let Some(bytes) = &bytes {
                self.md5.update(bytes);
                self.crc64.write(bytes);
            }
            Ok(bytes)
        })
    }
}
