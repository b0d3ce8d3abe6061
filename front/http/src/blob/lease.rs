//! Leases of blobs and of containers on the wire.

use contract::Refusal;
use contract::operations::Operation;
use partition::blob::container::{self, LeaseContainer};
use partition::blob::lease::LeaseBlob;
use partition::{Failure, Shell};

use crate::lease::{action, answer};
use crate::request::Request;
use crate::wire::Response;

pub async fn of_blob(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let (name, blob) = (request.container()?, request.blob()?);
    for parameter in ["snapshot", "versionid"] {
        if let Some(value) = request.query.get(parameter) {
            return Err(Refusal::bad_query(parameter, value, "A snapshot or version cannot be leased.").into());
        }
    }
    let (action, expectation) = (action(request, row)?, request.expectation(row)?);
    let container = container::find(shell, &request.account.name, &name).await?;
    let command = LeaseBlob::new(&container.group, &blob, expectation, action);
    let (head, acted) = container.settle(shell, shell.execute(&command).await).await?;
    Ok(answer(row, head.map(|head| (head.etag, head.last_modified)), &acted))
}

pub async fn of_container(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let (action, expectation) = (action(request, row)?, request.expectation(row)?);
    let command = LeaseContainer::new(&request.account.name, &request.container()?, expectation, action);
    let (head, acted) = shell.execute(&command).await?;
    Ok(answer(row, Some((head.etag, head.last_modified)), &acted))
}
