//! Set Blob Metadata, Set Blob Properties and Get Blob Metadata on the wire.

use contract::operations::Operation;
use partition::blob::change::{Change, ChangeBlob};
use partition::blob::{container, read as model};
use partition::{Failure, Shell};

use super::block::named_properties;
use super::{page, stamp_made};
use crate::request::Request;
use crate::respond::{put_metadata, stamp};
use crate::wire::Response;

pub async fn set_metadata(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    request.refuse_past()?;
    let mut response = change(shell, request, row, Change::Metadata(request.metadata()?)).await?;
    response.header("x-ms-request-server-encrypted", "true");
    Ok(response)
}

/// If any of the six is sent all six are set, and those that are not sent are gone.
pub async fn set_properties(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
) -> Result<Response, Failure> {
    request.refuse_past()?;
    if page::is_asked_for(request) {
        return page::change(shell, request, row).await;
    }
    change(shell, request, row, Change::Properties(named_properties(request)?)).await
}

pub(super) async fn change(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    change: Change,
) -> Result<Response, Failure> {
    let (name, blob, expectation) = (request.container()?, request.blob()?, request.expectation(row)?);
    let container = container::find(shell, &request.account.name, &name).await?;
    let command = ChangeBlob::new(&container.group, &blob, expectation, change, request.keeping());
    let head = container.settle(shell, shell.execute(&command).await).await?;
    let mut response = Response::new(row.status);
    stamp_made(&mut response, &head);
    Ok(response)
}

pub async fn get_metadata(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let (name, blob, expectation) = (request.container()?, request.blob()?, request.expectation(row)?);
    let which = request.which()?;
    let container = container::find(shell, &request.account.name, &name).await?;
    let read = model::properties(shell, &container.group, &blob, which, &expectation).await;
    let head = container.settle(shell, read).await?.head;
    let mut response = Response::new(row.status);
    stamp(&mut response, head.etag, head.last_modified);
    put_metadata(&mut response, &head.metadata);
    Ok(response)
}
