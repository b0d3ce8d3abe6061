//! Symbolic and hard links on the wire.

use contract::names::FilePath;
use contract::operations::Operation;
use contract::{ErrorCode, Refusal, limits};
use partition::file::link::{CreateHardLink, CreateSymbolicLink, refuse_smb};
use partition::file::read as model;
use partition::record::NodeKind;
use partition::{Failure, Shell};

use super::create::target;
use super::headers::{About, made, settings};
use super::read::share;
use super::wait::execute;
use crate::query::percent_decode;
use crate::request::Request;
use crate::respond::stamp;
use crate::wire::Response;

const TEXT: &str = "x-ms-link-text";
const EXISTING: &str = "x-ms-file-target-file";

pub async fn create_symbolic(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
) -> Result<Response, Failure> {
    let text = request.header(TEXT).ok_or_else(|| Refusal::missing_header(TEXT))?;
    if text.len() > limits::FILE_PATH_UNITS_MAX {
        return Err(Refusal::bad_header(TEXT, text).into());
    }
    let text = text.to_string();
    let metadata = request.metadata()?;
    let (share, target) = target(shell, request, row).await?;
    refuse_smb(&share.head)?;
    let settings = settings(request, &share.head, About::NewFile)?;
    let command = CreateSymbolicLink { target, settings, metadata, text };
    let outcome = execute(shell, request, &share, &command).await?;
    Ok(made(row, &outcome))
}

pub async fn get_symbolic(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let (path, expectation) = (request.file_path()?, request.expectation(row)?);
    let share = share(shell, request).await?;
    refuse_smb(&share.head)?;
    let looked = model::look(shell, &share, &path, &expectation).await;
    let node = share.settle(shell, looked).await?.node;
    let NodeKind::SymbolicLink { target } = &node.kind else { return Err(ErrorCode::ResourceTypeMismatch.into()) };
    let mut response = Response::new(row.status);
    stamp(&mut response, node.etag, node.last_modified);
    response.header(TEXT, target.clone());
    Ok(response)
}

pub async fn create_hard(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let given = request.header(EXISTING).ok_or_else(|| Refusal::missing_header(EXISTING))?;
    let bad = || Refusal::bad_header(EXISTING, given);
    let existing = percent_decode(given).ok_or_else(bad)?;
    let existing = FilePath::parse(existing.strip_prefix('/').unwrap_or(&existing), true).map_err(|_| bad())?;
    let (share, target) = target(shell, request, row).await?;
    refuse_smb(&share.head)?;
    let outcome = execute(shell, request, &share, &CreateHardLink { target, existing }).await?;
    Ok(made(row, &outcome))
}
