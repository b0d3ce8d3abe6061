//! Snapshot Blob and Undelete Blob on the wire.

use contract::operations::Operation;
use partition::blob::container;
use partition::blob::snapshot::{SnapshotBlob, UndeleteBlob};
use partition::{Failure, Shell};

use super::{moment, stamp_made};
use crate::request::Request;
use crate::wire::Response;

pub async fn take(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let (name, blob, expectation) = (request.container()?, request.blob()?, request.expectation(row)?);
    request.refuse_past()?;
    let metadata = Some(request.metadata()?).filter(|metadata| !metadata.is_empty());
    let container = container::find(shell, &request.account.name, &name).await?;
    let command = SnapshotBlob::new(&container.group, &blob, expectation, request.keeping(), metadata);
    let taken = container.settle(shell, shell.execute(&command).await).await?;
    let mut response = Response::new(row.status);
    stamp_made(&mut response, &taken.head);
    response.header("x-ms-snapshot", moment(taken.id.ticks)).header("x-ms-request-server-encrypted", "false");
    Ok(response)
}

pub async fn undelete(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let (name, blob) = (request.container()?, request.blob()?);
    request.refuse_past()?;
    let container = container::find(shell, &request.account.name, &name).await?;
    let done = shell.execute(&UndeleteBlob::new(&container.group, &blob)).await;
    container.settle(shell, done).await?;
    Ok(Response::new(row.status))
}
