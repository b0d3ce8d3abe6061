//! Containers on the wire.

use contract::ErrorCode;
use contract::Refusal;
use contract::operations::Operation;
use partition::blob::container::{self as model, CreateContainer, ReplaceInContainer, Replacement};
use partition::blob::kept::{KeptVersion, RestoreContainer};
use partition::blob::list;
use partition::record::ContainerHead;
use partition::{Failure, Shell};

use super::{acl, put_lease};
use crate::request::Request;
use crate::respond::{put_metadata, stamp};
use crate::wire::Response;

pub async fn create(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let (name, metadata, public_access) = (request.container()?, request.metadata()?, acl::public_access(request)?);
    let command = CreateContainer::new(&request.account.name, &name, metadata, public_access);
    let head = shell.execute(&command).await?;
    Ok(stamped(row, &head))
}

pub async fn properties(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let expectation = request.expectation(row)?;
    let head = model::read(shell, &request.account.name, &request.container()?, &expectation).await?;
    let mut response = stamped(row, &head);
    put_metadata(&mut response, &head.metadata);
    put_lease(&mut response, head.lease.as_ref(), request.now);
    acl::put_public_access(&mut response, head.public_access);
    response.header("x-ms-has-immutability-policy", "false").header("x-ms-has-legal-hold", "false");
    let immutable = if request.account.blob.immutable_storage { "true" } else { "false" };
    response.header("x-ms-immutable-storage-with-versioning-enabled", immutable);
    response.header("x-ms-default-encryption-scope", "$account-encryption-key");
    response.header("x-ms-deny-encryption-scope-override", "false");
    Ok(response)
}

pub async fn metadata(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let expectation = request.expectation(row)?;
    let head = model::read(shell, &request.account.name, &request.container()?, &expectation).await?;
    let mut response = stamped(row, &head);
    put_metadata(&mut response, &head.metadata);
    Ok(response)
}

pub async fn set_metadata(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let (expectation, metadata) = (request.expectation(row)?, request.metadata()?);
    let replacement = Replacement::Metadata(metadata);
    let command = ReplaceInContainer::new(&request.account.name, &request.container()?, expectation, replacement);
    let head = shell.execute(&command).await?;
    Ok(stamped(row, &head))
}

pub async fn delete(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let expectation = request.expectation(row)?;
    // What nobody may delete must not go with its container.
    if request.account.blob.immutable_storage {
        let found = model::find(shell, &request.account.name, &request.container()?).await?;
        if list::has_blobs(shell, &found).await? {
            expectation.judge(Some(found.head.current()), request.now)?;
            return Err(ErrorCode::ContainerProtectedFromDeletion.into());
        }
    }
    let kept_days = request.account.blob.container_retention_days;
    model::delete(shell, &request.account.name, &request.container()?, expectation, kept_days).await?;
    Ok(Response::new(row.status))
}

/// A container is restored under its own name alone.
pub async fn restore(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    const NAME: &str = "x-ms-deleted-container-name";
    const VERSION: &str = "x-ms-deleted-container-version";
    let required = |name: &'static str| request.header(name).ok_or(Refusal::missing_header(name));
    let (name, given, version) = (request.container()?, required(NAME)?, required(VERSION)?);
    if given != name.as_str() {
        return Err(Refusal::bad_header(NAME, given).into());
    }
    let version = parse_version(version).ok_or_else(|| Refusal::bad_header(VERSION, version))?;
    shell.execute(&RestoreContainer::new(&request.account.name, &name, version)).await?;
    Ok(Response::new(row.status))
}

/// `01DC5A6B9F3E2D10`
pub fn version_text(version: KeptVersion) -> String {
    format!("{:016X}", version.0)
}

pub fn parse_version(text: &str) -> Option<KeptVersion> {
    let is_hex = text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
    u64::from_str_radix(text, 16).ok().filter(|_| is_hex).map(KeptVersion)
}

fn stamped(row: &Operation, head: &ContainerHead) -> Response {
    let mut response = Response::new(row.status);
    stamp(&mut response, head.etag, head.last_modified);
    response
}
