//! Get and Set Container ACL on the wire: the public access level and the stored access policies.

use contract::operations::Operation;
use contract::{ErrorCode, Refusal};
use partition::blob::container::{self as model, ReplaceInContainer, Replacement};
use partition::record::PublicAccess;
use partition::{Failure, Shell};

use crate::body::receive;
use crate::policies;
use crate::request::Request;
use crate::respond::document;
use crate::respond::stamp;
use crate::wire::{Body, Response};

pub async fn get(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let expectation = request.expectation(row)?;
    let head = model::read(shell, &request.account.name, &request.container()?, &expectation).await?;
    let mut response = document(request, row, policies::render(&head.policies));
    stamp(&mut response, head.etag, head.last_modified);
    put_public_access(&mut response, head.public_access);
    Ok(response)
}

pub async fn set(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    body: &mut Body<'_>,
) -> Result<Response, Failure> {
    let (name, expectation, public_access) = (request.container()?, request.expectation(row)?, public_access(request)?);
    let policies = policies::parse(&receive(body).await?)?;
    let replacement = Replacement::Acl { public_access, policies };
    let command = ReplaceInContainer::new(&request.account.name, &name, expectation, replacement);
    let head = shell.execute(&command).await?;
    let mut response = Response::new(row.status);
    stamp(&mut response, head.etag, head.last_modified);
    Ok(response)
}

/// `x-ms-blob-public-access`, of Create Container too.
pub fn public_access(request: &Request<'_>) -> Result<PublicAccess, Refusal> {
    match request.header("x-ms-blob-public-access") {
        None => Ok(PublicAccess::Nobody),
        Some("blob") => Ok(PublicAccess::Blob),
        Some("container" | "true") => Ok(PublicAccess::Container),
        Some(other) => Err(Refusal::bad_header("x-ms-blob-public-access", other)),
    }
}

pub fn put_public_access(response: &mut Response, public_access: PublicAccess) {
    match public_access {
        PublicAccess::Nobody => {}
        PublicAccess::Blob => drop(response.header("x-ms-blob-public-access", "blob")),
        PublicAccess::Container => drop(response.header("x-ms-blob-public-access", "container")),
    }
}

/// Is the container of the request public enough for the operation? What is missing is told only where it would have been public.
pub async fn allow_anonymous(shell: &Shell, request: &Request<'_>, row: &Operation) -> Result<bool, Failure> {
    use contract::operations::Anonymous;
    if row.anonymous == Anonymous::Never {
        return Ok(false);
    }
    let found = match model::find(shell, &request.account.name, &request.container()?).await {
        Ok(found) => found,
        Err(Failure::Refused(refusal)) if refusal.code == ErrorCode::ContainerNotFound => return Ok(false),
        Err(failure) => return Err(failure),
    };
    Ok(matches!(
        (row.anonymous, found.head.public_access),
        (Anonymous::Always, _)
            | (Anonymous::OfPublicBlobs, PublicAccess::Blob | PublicAccess::Container)
            | (Anonymous::OfPublicContainer, PublicAccess::Container)
    ))
}
