//! Create Directory, Create File, Delete Directory and Delete File on the wire.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::operations::Operation;
use contract::{Refusal, limits};
use partition::file::create::{CreateDirectory, CreateFile, NewFile};
use partition::file::delete::Delete;
use partition::file::share;
use partition::file::target::Target;
use partition::{Content, Failure, Shell};

use super::headers::{About, content_properties, made, settings, size};
use super::wait::{admit, execute};
use crate::auth::Grant;
use crate::body::{limit_body, not_received, put_framing};
use crate::hash::{Expected, HashedBody};
use crate::request::Request;
use crate::wire::{Body, BodyKind, Response};

/// The share, and what in it a write is about.
pub async fn target(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
) -> Result<(share::Found, Target), Failure> {
    request.refuse_share_snapshot()?;
    let (name, path, expectation) = (request.share()?, request.file_path()?, request.expectation(row)?);
    let share = share::find(shell, &request.account.name, &name, None).await?;
    let target = Target::new(shell, &share, path, expectation);
    Ok((share, target))
}

pub async fn directory(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let metadata = request.metadata()?;
    let (share, target) = target(shell, request, row).await?;
    let settings = settings(request, &share.head, About::NewDirectory)?;
    let command = CreateDirectory { target, settings, metadata };
    let outcome = execute(shell, request, &share, &command).await?;
    Ok(made(row, &outcome))
}

pub async fn file(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    grant: Grant,
    body: &mut Body<'_>,
) -> Result<Response, Failure> {
    match request.header("x-ms-type") {
        None => return Err(Refusal::missing_header("x-ms-type").into()),
        Some(kind) if !kind.eq_ignore_ascii_case("file") => return Err(Refusal::bad_header("x-ms-type", kind).into()),
        Some(_) => {}
    }
    let bytes = size(request)?.ok_or_else(|| Refusal::missing_header("x-ms-content-length"))?;
    let (metadata, properties) = (request.metadata()?, content_properties(request)?.unwrap_or_default());
    let has_body = !matches!(request.head.body, BodyKind::Length(0) | BodyKind::Absent);
    let expected = Expected::parse(request)?;
    let (share, target) = target(shell, request, row).await?;
    let settings = settings(request, &share.head, About::NewFile)?;
    let file = NewFile { target, settings, may_overwrite: grant.may_overwrite, ignores_read_only: false };
    let mut command = CreateFile { file, properties, metadata, bytes, content: None };
    if !has_body {
        let outcome = execute(shell, request, &share, &command).await?;
        return Ok(made(row, &outcome));
    }
    let framing = limit_body(request, body, limits::PUT_RANGE_BYTES_MAX)?;
    admit(shell, request, &share, &command).await?;
    let mut source = HashedBody::new(body, framing.as_ref());
    let content = Content::receive(shell.engine.as_ref(), &mut source).await.map_err(not_received)?;
    let actual = source.finish().await?;
    expected.check(&actual)?;
    if content.bytes() > bytes {
        return Err(Refusal::bad_header("Content-Length", content.bytes().to_string()).into());
    }
    command.content = Some(content);
    let outcome = execute(shell, request, &share, &command).await?;
    let mut response = made(row, &outcome);
    response.header("Content-MD5", STANDARD.encode(actual.md5));
    put_framing(&mut response, framing.as_ref());
    Ok(response)
}

/// Delete File and Delete Directory.
pub async fn delete(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let (share, target) = target(shell, request, row).await?;
    let links = execute(shell, request, &share, &Delete { target }).await?;
    let mut response = Response::new(row.status);
    if links > 0 {
        response.header("x-ms-link-count", links.to_string());
    }
    Ok(response)
}
