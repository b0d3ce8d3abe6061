//! Put Block, Append Block and Put Page From URL on the wire: a part of a source becomes a block, or pages.

use contract::operations::Operation;
use contract::{ApiVersion, Refusal, limits};
use partition::Failure;
use partition::blob::append::AppendBlock;
use partition::blob::container;
use partition::blob::page::PutPages;
use partition::blob::read::Range;
use partition::blob::staging::PutBlock;

use super::append::number;
use super::block::UNBUILT_ON_WRITE;
use super::page::{pages, put_sequence, sequence_conditions};
use super::refuse_unbuilt;
use super::staging::parse_block_id;
use crate::app::App;
use crate::auth::Grant;
use crate::body::{put_hash, refuse_body, too_large};
use crate::request::Request;
use crate::respond::stamp;
use crate::source::content::{self, Fetched, Wanted, fetch};
use crate::source::{SourceUrl, origin};
use crate::wire::Response;

/// What writes may ask for and do not get, but for the source.
pub fn refuse_unbuilt_on_copy(request: &Request<'_>) -> Result<(), Refusal> {
    let unbuilt: Vec<&str> = UNBUILT_ON_WRITE.into_iter().filter(|name| *name != SourceUrl::HEADER).collect();
    refuse_unbuilt(request, &unbuilt, &[])?;
    request.refuse_past()
}

/// A block cannot be empty, whether the source is or the range.
fn refuse_empty(request: &Request<'_>, fetched: &Fetched) -> Result<(), Refusal> {
    match fetched.content.bytes() {
        0 => Err(Refusal::bad_header(SourceUrl::HEADER, request.header(SourceUrl::HEADER).unwrap_or_default())),
        _ => Ok(()),
    }
}

pub async fn put_block(
    app: &App,
    request: &Request<'_>,
    row: &'static Operation,
    grant: Grant,
) -> Result<Response, Failure> {
    let (name, blob, shell) = (request.container()?, request.blob()?, &app.shell);
    refuse_unbuilt_on_copy(request)?;
    refuse_body(request)?;
    let id = parse_block_id(request)?;
    let (source, wanted_range) = (origin::expectation(request, row)?, content::range(request)?);
    let (expected, expectation) = (content::expected(request)?, request.expectation(row)?);
    let larger = request.version >= ApiVersion::PUT_FROM_URL;
    let bytes_max = if larger { limits::BLOCK_BYTES_MAX } else { limits::BLOCK_BYTES_MAX_BEFORE_2019_12_12 };
    let container = container::find(shell, &request.account.name, &name).await?;
    let mut command = PutBlock::new(&container.group, &blob, expectation, id, grant.may_overwrite, request.now);
    container.settle(shell, shell.admit(&command).await).await?;

    let origin = origin::find(app, request, None).await?;
    let wanted =
        Wanted { range: wanted_range, bytes_max, extents: true, expected: expected.clone(), expectation: &source };
    let fetched = fetch(app, request, &origin, &wanted).await?;
    refuse_empty(request, &fetched)?;
    command.content = fetched.content;
    container.settle(shell, shell.execute(&command).await).await?;
    let mut response = Response::new(row.status);
    if let Some(actual) = &fetched.actual {
        put_hash(&mut response, request.version, &expected, actual);
    }
    response.header("x-ms-request-server-encrypted", "true");
    Ok(response)
}

pub async fn append(app: &App, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let (name, blob, shell) = (request.container()?, request.blob()?, &app.shell);
    refuse_unbuilt_on_copy(request)?;
    refuse_body(request)?;
    let larger = request.version >= ApiVersion::APPEND_BLOCK_100_MIB;
    let bytes_max =
        if larger { limits::APPEND_BLOCK_BYTES_MAX } else { limits::APPEND_BLOCK_BYTES_MAX_BEFORE_2022_11_02 };
    let (source, wanted_range) = (origin::expectation(request, row)?, content::range(request)?);
    let (expected, expectation) = (content::expected(request)?, request.expectation(row)?);
    let position = number(request, "x-ms-blob-condition-appendpos")?;
    let length_max = number(request, "x-ms-blob-condition-maxsize")?;
    let container = container::find(shell, &request.account.name, &name).await?;
    let mut command = AppendBlock::new(&container.group, &blob, expectation, position, length_max);
    container.settle(shell, shell.admit(&command).await).await?;

    let origin = origin::find(app, request, None).await?;
    let wanted =
        Wanted { range: wanted_range, bytes_max, extents: false, expected: expected.clone(), expectation: &source };
    let fetched = fetch(app, request, &origin, &wanted).await?;
    refuse_empty(request, &fetched)?;
    command.content = fetched.content;
    let appended = container.settle(shell, shell.execute(&command).await).await?;
    let mut response = Response::new(row.status);
    stamp(&mut response, appended.head.etag, appended.head.last_modified);
    if let Some(actual) = &fetched.actual {
        put_hash(&mut response, request.version, &expected, actual);
    }
    response.header("x-ms-blob-append-offset", appended.offset.to_string());
    response.header("x-ms-blob-committed-block-count", appended.blocks.to_string());
    response.header("x-ms-request-server-encrypted", "true");
    Ok(response)
}

pub async fn put_pages(app: &App, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let (name, blob, shell) = (request.container()?, request.blob()?, &app.shell);
    refuse_unbuilt_on_copy(request)?;
    refuse_body(request)?;
    let pages = pages(request)?;
    if pages.bytes() > limits::PUT_PAGES_BYTES_MAX {
        return Err(too_large(limits::PUT_PAGES_BYTES_MAX).into());
    }
    let range = content::range(request)?.ok_or_else(|| Refusal::missing_header(content::RANGE))?;
    let as_many = |range: &Range| range.last.is_some_and(|last| last - range.first + 1 == pages.bytes());
    if !as_many(&range) {
        return Err(Refusal::bad_header(content::RANGE, request.header(content::RANGE).unwrap_or_default()).into());
    }
    let (source, expected) = (origin::expectation(request, row)?, content::expected(request)?);
    let (expectation, sequence) = (request.expectation(row)?, sequence_conditions(request)?);
    let container = container::find(shell, &request.account.name, &name).await?;
    let mut command = PutPages::new(&container.group, &blob, expectation, sequence, pages);
    container.settle(shell, shell.admit(&command).await).await?;

    let origin = origin::find(app, request, None).await?;
    let (range, bytes_max) = (Some(range), pages.bytes());
    let wanted = Wanted { range, bytes_max, extents: true, expected: expected.clone(), expectation: &source };
    let fetched = fetch(app, request, &origin, &wanted).await?;
    if fetched.content.bytes() != pages.bytes() {
        return Err(Refusal::bad_header(content::RANGE, request.header(content::RANGE).unwrap_or_default()).into());
    }
    command.content = Some(fetched.content);
    let head = container.settle(shell, shell.execute(&command).await).await?;
    let mut response = Response::new(row.status);
    stamp(&mut response, head.etag, head.last_modified);
    if let Some(actual) = &fetched.actual {
        put_hash(&mut response, request.version, &expected, actual);
    }
    put_sequence(&mut response, head.kind);
    response.header("x-ms-request-server-encrypted", "true");
    Ok(response)
}
