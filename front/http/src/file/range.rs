//! Put Range and Put Range From URL on the wire.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::operations::Operation;
use contract::{ErrorCode, Refusal, limits};
use partition::blob::read::Part;
use partition::file::create::Made;
use partition::file::range::{PutRange, Ranged};
use partition::{Content, Failure, Shell};

use super::create::target;
use super::wait::{admit, execute};
use crate::app::App;
use crate::body::{empty_body, limit_body, not_received, put_framing, refuse_body, too_large};
use crate::content::parse_range;
use crate::hash::{Actual, Expected, HashedBody, parse_crc64};
use crate::request::Request;
use crate::respond::stamp;
use crate::source::content::{self, Wanted, fetch};
use crate::source::origin;
use crate::wire::{Body, BodyKind, Response};

const WRITE: &str = "x-ms-write";
const WRITTEN: &str = "x-ms-file-last-write-time";

pub async fn put(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    body: &mut Body<'_>,
) -> Result<Response, Failure> {
    match request.header(WRITE) {
        None => Err(Refusal::missing_header(WRITE).into()),
        Some(action) if action.eq_ignore_ascii_case("update") => update(shell, request, row, body).await,
        Some(action) if action.eq_ignore_ascii_case("clear") => clear(shell, request, row).await,
        Some(action) => Err(Refusal::bad_header(WRITE, action).into()),
    }
}

async fn update(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    body: &mut Body<'_>,
) -> Result<Response, Failure> {
    let framing = limit_body(request, body, limits::PUT_RANGE_BYTES_MAX)?;
    let range = range(request)?;
    if range.bytes() > limits::PUT_RANGE_BYTES_MAX {
        return Err(too_large(limits::PUT_RANGE_BYTES_MAX).into());
    }
    let wrong_length = |bytes: u64| Refusal::bad_header("Content-Length", bytes.to_string());
    if let (BodyKind::Length(bytes), None) = (request.head.body, &framing)
        && bytes != range.bytes()
    {
        return Err(wrong_length(bytes).into());
    }
    let (expected, keeps_write_time) = (Expected::parse(request)?, keeps_write_time(request)?);
    let (share, target) = target(shell, request, row).await?;
    let mut command = PutRange { target, range, what: Ranged::Awaited, keeps_write_time };
    admit(shell, request, &share, &command).await?;

    let mut source = HashedBody::new(body, framing.as_ref());
    let content = Content::receive(shell.engine.as_ref(), &mut source).await.map_err(not_received)?;
    let actual = source.finish().await?;
    expected.check(&actual)?;
    if content.bytes() != range.bytes() {
        return Err(wrong_length(content.bytes()).into());
    }
    command.what = Ranged::Update(content);
    let made = execute(shell, request, &share, &command).await?;
    let mut response = answer(row, &made);
    response.header("Content-MD5", STANDARD.encode(actual.md5));
    if expected.crc64.is_some() {
        response.header("x-ms-content-crc64", STANDARD.encode(actual.crc64));
    }
    put_framing(&mut response, framing.as_ref());
    Ok(response)
}

/// Put Range From URL: a part of a source becomes a part of the file.
pub async fn put_from_url(app: &App, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    refuse_body(request)?;
    match request.header(WRITE) {
        None => return Err(Refusal::missing_header(WRITE).into()),
        Some(action) if action.eq_ignore_ascii_case("update") => {}
        Some(action) => return Err(Refusal::bad_header(WRITE, action).into()),
    }
    let range = range(request)?;
    if range.bytes() > limits::PUT_RANGE_BYTES_MAX {
        return Err(too_large(limits::PUT_RANGE_BYTES_MAX).into());
    }
    let wanted = content::range(request)?.ok_or_else(|| Refusal::missing_header(content::RANGE))?;
    if wanted.last.map(|last| last - wanted.first) != Some(range.last - range.first) {
        return Err(Refusal::bad_header(content::RANGE, request.header(content::RANGE).unwrap_or_default()).into());
    }
    let (expected, keeps_write_time) = (content::expected(request)?, keeps_write_time(request)?);
    let (source, condition) = (origin::expectation_of_file(request, row)?, CrcCondition::parse(request)?);
    let (shell, (share, target)) = (&app.shell, target(&app.shell, request, row).await?);
    let mut command = PutRange { target, range, what: Ranged::Awaited, keeps_write_time };
    admit(shell, request, &share, &command).await?;

    let origin = origin::find(app, request, None).await?;
    let (range, bytes_max) = (Some(wanted), range.bytes());
    let wanted = Wanted { range, bytes_max, extents: false, expected, expectation: &source };
    let fetched = fetch(app, request, &origin, &wanted).await.map_err(too_short)?;
    if fetched.content.bytes() != bytes_max {
        let words = "The copy source is shorter than the range.";
        return Err(Refusal::from(ErrorCode::CannotVerifyCopySource).status(409).saying(words).into());
    }
    let actual = match fetched.actual {
        Some(actual) => actual,
        None => content::hash(fetched.content.reader(&shell.engine)).await?,
    };
    condition.judge(&actual)?;
    command.what = Ranged::Update(fetched.content);
    let made = execute(shell, request, &share, &command).await?;
    let mut response = answer(row, &made);
    response.header("x-ms-content-crc64", STANDARD.encode(actual.crc64));
    Ok(response)
}

/// A source that ends before the range begins is too short, as one that ends in it.
fn too_short(failure: Failure) -> Failure {
    match failure {
        Failure::Refused(refusal) if refusal.code == ErrorCode::CannotVerifyCopySource && refusal.status == 416 => {
            refusal.status(409).into()
        }
        failure => failure,
    }
}

/// What the bytes of the source must hash to, or must not.
struct CrcCondition {
    matching: Option<[u8; 8]>,
    not_matching: Option<[u8; 8]>,
}

impl CrcCondition {
    fn parse(request: &Request<'_>) -> Result<CrcCondition, Refusal> {
        Ok(CrcCondition {
            matching: parse_crc64(request, "x-ms-source-if-match-crc64")?,
            not_matching: parse_crc64(request, "x-ms-source-if-none-match-crc64")?,
        })
    }

    fn judge(&self, actual: &Actual) -> Result<(), Refusal> {
        let is_met = self.matching.is_none_or(|crc64| crc64 == actual.crc64)
            && self.not_matching.is_none_or(|crc64| crc64 != actual.crc64);
        if is_met { Ok(()) } else { Err(ErrorCode::SourceConditionNotMet.into()) }
    }
}

async fn clear(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    empty_body(request)?;
    if let Some(md5) = request.header("content-md5") {
        return Err(Refusal::bad_header("Content-MD5", md5).into());
    }
    let (range, keeps_write_time) = (range(request)?, keeps_write_time(request)?);
    let (share, target) = target(shell, request, row).await?;
    let command = PutRange { target, range, what: Ranged::Clear, keeps_write_time };
    let made = execute(shell, request, &share, &command).await?;
    Ok(answer(row, &made))
}

pub fn answer(row: &Operation, made: &Made) -> Response {
    let mut response = Response::new(row.status);
    stamp(&mut response, made.node.etag, made.node.last_modified);
    response.header(WRITTEN, made.node.written.iso8601()).header("x-ms-request-server-encrypted", "true");
    response
}

/// Both ends, `x-ms-range` before `Range`.
pub fn range(request: &Request<'_>) -> Result<Part, Refusal> {
    let (name, text) = match (request.header("x-ms-range"), request.header("range")) {
        (Some(text), _) => ("x-ms-range", text),
        (None, Some(text)) => ("Range", text),
        (None, None) => return Err(Refusal::missing_header("x-ms-range")),
    };
    let bad = || Refusal::bad_header(name, text);
    let range = parse_range(text).ok_or_else(bad)?;
    let last = range.last.ok_or_else(bad)?;
    match last < limits::FILE_BYTES_MAX {
        true => Ok(Part { first: range.first, last }),
        false => Err(ErrorCode::InvalidRange.into()),
    }
}

/// `x-ms-file-last-write-time: Preserve`
pub fn keeps_write_time(request: &Request<'_>) -> Result<bool, Refusal> {
    match request.header(WRITTEN) {
        None => Ok(false),
        Some(text) if text.eq_ignore_ascii_case("now") => Ok(false),
        Some(text) if text.eq_ignore_ascii_case("preserve") => Ok(true),
        Some(text) => Err(Refusal::bad_header(WRITTEN, text)),
    }
}
