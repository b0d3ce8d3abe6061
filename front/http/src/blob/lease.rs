//! Leases on the wire: of blobs and of containers.

use contract::operations::{Operation, OperationId};
use contract::{ErrorCode, Refusal, limits};
use env::Timestamp;
use partition::blob::container::{self, LeaseContainer};
use partition::blob::lease::LeaseBlob;
use partition::lease::{Acted, Lease, LeaseAction, LeaseState};
use partition::{ETag, Failure, Shell};

use crate::request::Request;
use crate::respond::stamp;
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

pub fn action(request: &Request<'_>, row: &Operation) -> Result<LeaseAction, Refusal> {
    use OperationId::*;
    let id = || request.lease_id("x-ms-lease-id")?.ok_or_else(|| Refusal::missing_header("x-ms-lease-id"));
    let proposed = || request.lease_id("x-ms-proposed-lease-id");
    Ok(match row.id {
        AcquireBlobLease | AcquireContainerLease | AcquireFileLease => {
            let text = request.header("x-ms-lease-duration");
            let text = text.ok_or_else(|| Refusal::missing_header("x-ms-lease-duration"))?;
            let seconds = match text.parse::<i64>() {
                Ok(-1) => None,
                Ok(seconds) if limits::LEASE_SECONDS.contains(&seconds) => Some(seconds as u32),
                _ => return Err(Refusal::bad_header("x-ms-lease-duration", text)),
            };
            LeaseAction::Acquire { proposed: proposed()?, seconds }
        }
        RenewBlobLease | RenewContainerLease => LeaseAction::Renew { id: id()? },
        ChangeBlobLease | ChangeContainerLease | ChangeFileLease => {
            let proposed = proposed()?.ok_or_else(|| Refusal::missing_header("x-ms-proposed-lease-id"))?;
            LeaseAction::Change { id: id()?, proposed }
        }
        ReleaseBlobLease | ReleaseContainerLease | ReleaseFileLease => LeaseAction::Release { id: id()? },
        BreakBlobLease | BreakContainerLease | BreakFileLease => {
            let parse = |text: &str| match text.parse::<u32>() {
                Ok(seconds) if seconds <= limits::LEASE_BREAK_SECONDS_MAX => Ok(seconds),
                _ => Err(Refusal::bad_header("x-ms-lease-break-period", text)),
            };
            LeaseAction::Break { period_seconds: request.header("x-ms-lease-break-period").map(parse).transpose()? }
        }
        _ => return Err(ErrorCode::NotImplemented.into()),
    })
}

/// The id where the client has one afterwards, the time where the lease was broken.
pub fn answer(row: &Operation, stamped: Option<(ETag, Timestamp)>, acted: &Acted) -> Response {
    let mut response = Response::new(row.status);
    if let Some((etag, last_modified)) = stamped {
        stamp(&mut response, etag, last_modified);
    }
    match (&acted.lease, acted.break_seconds) {
        (_, Some(seconds)) => drop(response.header("x-ms-lease-time", seconds.to_string())),
        (Some(lease), None) => drop(response.header("x-ms-lease-id", lease.id.as_str().to_string())),
        (None, None) => {}
    }
    response
}

/// How a lease is shown: status, state and, while it is held, whether it ends.
pub fn shown(lease: Option<&Lease>, now: Timestamp) -> (&'static str, &'static str, Option<&'static str>) {
    let state = LeaseState::of(lease, now);
    let status = if state.is_locked() { "locked" } else { "unlocked" };
    let duration = lease.map(|lease| if lease.seconds.is_some() { "fixed" } else { "infinite" });
    match state {
        LeaseState::Available => (status, "available", None),
        LeaseState::Leased => (status, "leased", duration),
        LeaseState::Breaking => (status, "breaking", None),
        LeaseState::Broken => (status, "broken", None),
        LeaseState::Expired => (status, "expired", None),
    }
}
