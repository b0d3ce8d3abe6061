//! Append Block and Seal on the wire.

use contract::operations::Operation;
use contract::{ApiVersion, Refusal, limits};
use partition::blob::append::AppendBlock;
use partition::blob::change::{Change, ChangeBlob};
use partition::blob::container;
use partition::{Content, Failure, Shell};

use super::block::UNBUILT_ON_WRITE;
use super::refuse_unbuilt;
use crate::body::{limit_body, not_received, put_framing, put_hash};
use crate::hash::{Expected, HashedBody};
use crate::request::Request;
use crate::respond::stamp;
use crate::wire::{Body, BodyKind, Response};

pub async fn append(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    body: &mut Body<'_>,
) -> Result<Response, Failure> {
    let (name, blob) = (request.container()?, request.blob()?);
    refuse_unbuilt(request, &UNBUILT_ON_WRITE, &[])?;
    request.refuse_past()?;
    let larger = request.version >= ApiVersion::APPEND_BLOCK_100_MIB;
    let bytes_max =
        if larger { limits::APPEND_BLOCK_BYTES_MAX } else { limits::APPEND_BLOCK_BYTES_MAX_BEFORE_2022_11_02 };
    let framing = limit_body(request, body, bytes_max)?;
    if request.head.body == BodyKind::Length(0) {
        return Err(Refusal::bad_header("Content-Length", "0").into());
    }
    let position = number(request, "x-ms-blob-condition-appendpos")?;
    let length_max = number(request, "x-ms-blob-condition-maxsize")?;
    let (expected, expectation) = (Expected::parse(request)?, request.expectation(row)?);
    let container = container::find(shell, &request.account.name, &name).await?;
    let mut command = AppendBlock::new(&container.group, &blob, expectation, position, length_max);
    container.settle(shell, shell.admit(&command).await).await?;

    let mut source = HashedBody::new(body, framing.as_ref());
    command.content = Content::receive(shell.engine.as_ref(), &mut source).await.map_err(not_received)?;
    let actual = source.finish().await?;
    expected.check(&actual)?;
    if command.content.bytes() == 0 {
        return Err(Refusal::bad_header("Content-Length", "0").into());
    }
    let appended = container.settle(shell, shell.execute(&command).await).await?;
    let mut response = Response::new(row.status);
    stamp(&mut response, appended.head.etag, appended.head.last_modified);
    put_hash(&mut response, request.version, &expected, &actual);
    put_framing(&mut response, framing.as_ref());
    response.header("x-ms-blob-append-offset", appended.offset.to_string());
    response.header("x-ms-blob-committed-block-count", appended.blocks.to_string());
    response.header("x-ms-request-server-encrypted", "true");
    Ok(response)
}

pub async fn seal(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let (name, blob) = (request.container()?, request.blob()?);
    request.refuse_past()?;
    let change = Change::Seal { position: number(request, "x-ms-blob-condition-appendpos")? };
    let expectation = request.expectation(row)?;
    let container = container::find(shell, &request.account.name, &name).await?;
    let command = ChangeBlob::new(&container.group, &blob, expectation, change, request.keeping());
    let head = container.settle(shell, shell.execute(&command).await).await?;
    let mut response = Response::new(row.status);
    stamp(&mut response, head.etag, head.last_modified);
    response.header("x-ms-blob-sealed", "true");
    Ok(response)
}

pub fn number(request: &Request<'_>, name: &'static str) -> Result<Option<u64>, Refusal> {
    let parse = |text: &str| text.parse().map_err(|_| Refusal::bad_header(name, text));
    request.header(name).map(parse).transpose()
}
