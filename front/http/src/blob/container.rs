//! Containers on the wire.

use contract::ErrorCode;
use contract::operations::Operation;
use partition::blob::container::{self as model, CreateContainer, ReplaceInContainer, Replacement};
use partition::blob::list;
use partition::kept::Restore;
use partition::record::ContainerHead;
use partition::{Failure, Shell};

use super::{acl, put_lease};
use crate::kept::asked_version;
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
    let name = request.container()?;
    let headers = ["x-ms-deleted-container-name", "x-ms-deleted-container-version"];
    let version = asked_version(request, headers, name.as_str())?;
    shell.execute(&Restore::<ContainerHead>::new(&request.account.name, name.as_str(), version)).await?;
    Ok(Response::new(row.status))
}

fn stamped(row: &Operation, head: &ContainerHead) -> Response {
    let mut response = Response::new(row.status);
    stamp(&mut response, head.etag, head.last_modified);
    response
}
