//! Bodies: documents, which are small and taken whole, and content, which is checked as it streams in.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::{ApiVersion, ErrorCode, Refusal};
use engine::ExtentError;
use partition::Failure;

use crate::hash::{Actual, Expected};
use crate::request::Request;
use crate::structured::{Framing, Refused};
use crate::wire::{Body, BodyError, BodyKind, Response};

/// All of a body, whose largest size the operation's row has set.
pub async fn receive(body: &mut Body<'_>) -> Result<Vec<u8>, Failure> {
    let mut received = Vec::new();
    loop {
        match body.next(64 * 1024).await {
            Ok(Some(bytes)) => {
                let busy = |_| Refusal::from(ErrorCode::ServerBusy).header("Retry-After", "1");
                body.hold(bytes.len()).map_err(busy)?;
                received.extend_from_slice(&bytes);
            }
            Ok(None) => return Ok(received),
            Err(error) => return Err(refused(&error).into()),
        }
    }
}

pub fn too_large(bytes_max: u64) -> Refusal {
    Refusal::from(ErrorCode::RequestBodyTooLarge).with("MaxLimit", bytes_max.to_string())
}

pub fn refused(error: &BodyError) -> Refusal {
    match error {
        BodyError::TooLarge { bytes_max } => too_large(*bytes_max),
        BodyError::Stalled => ErrorCode::OperationTimedOut.into(),
        // Nobody may be there to read it.
        _ => Refusal::from(ErrorCode::InvalidInput).with("Reason", error.to_string()),
    }
}

/// What has no body says so.
pub fn empty_body(request: &Request<'_>) -> Result<(), Refusal> {
    match request.head.body {
        BodyKind::Length(0) => Ok(()),
        BodyKind::Absent => Err(ErrorCode::MissingContentLengthHeader.into()),
        BodyKind::Length(bytes) => Err(Refusal::bad_header("Content-Length", bytes.to_string())),
        BodyKind::Chunked => Err(Refusal::bad_header("Transfer-Encoding", "chunked")),
    }
}

/// The content is the source's: a body is a misunderstanding.
pub fn refuse_body(request: &Request<'_>) -> Result<(), Refusal> {
    match request.head.body {
        BodyKind::Absent | BodyKind::Length(0) => Ok(()),
        BodyKind::Length(bytes) => Err(Refusal::bad_header("Content-Length", bytes.to_string())),
        BodyKind::Chunked => Err(Refusal::bad_header("Transfer-Encoding", "chunked")),
    }
}

/// A body of known or chunked length, of at most so many bytes; and how it is framed, if it is.
pub fn limit_body(request: &Request<'_>, body: &mut Body<'_>, bytes_max: u64) -> Result<Option<Framing>, Refusal> {
    let framing = Framing::parse(request)?;
    if framing.as_ref().is_some_and(|framing| framing.content_bytes > bytes_max) {
        return Err(too_large(bytes_max));
    }
    body.bytes_max = if framing.is_some() { Framing::body_bytes_max(bytes_max) } else { bytes_max };
    match request.head.body {
        BodyKind::Absent => Err(ErrorCode::MissingContentLengthHeader.into()),
        BodyKind::Length(bytes) if bytes > body.bytes_max => Err(too_large(bytes_max)),
        BodyKind::Length(_) | BodyKind::Chunked => Ok(framing),
    }
}

/// A structured body is answered by its words.
pub fn put_framing(response: &mut Response, framing: Option<&Framing>) {
    if let Some(framing) = framing {
        response.header("x-ms-structured-body", framing.words.clone());
    }
}

/// The hash of what was received, of the kind that this version answers with.
pub fn put_hash(response: &mut Response, version: ApiVersion, expected: &Expected, actual: &Actual) {
    let both = version >= ApiVersion::BOTH_HASHES_ANSWERED && expected.md5.is_some();
    if expected.md5.is_some() || version < ApiVersion::CRC64 {
        response.header("Content-MD5", STANDARD.encode(actual.md5));
    }
    if both || expected.md5.is_none() && version >= ApiVersion::CRC64 {
        response.header("x-ms-content-crc64", STANDARD.encode(actual.crc64));
    }
}

pub fn not_received(error: ExtentError) -> Failure {
    match error {
        ExtentError::Fault(fault) => fault.into(),
        ExtentError::Source(error) => match error.0.downcast_ref::<BodyError>() {
            Some(error) => refused(error).into(),
            None => match error.0.downcast::<Refused>() {
                Ok(refused) => refused.0.into(),
                Err(error) => Refusal::from(ErrorCode::InvalidInput).with("Reason", error.to_string()).into(),
            },
        },
    }
}
