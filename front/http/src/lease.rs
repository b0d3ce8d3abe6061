//! Leases on the wire, whatever is leased: what a request asks for, what it is answered, how a lease is shown.

use contract::operations::{Operation, OperationId, Resource};
use contract::{ErrorCode, Refusal, limits};
use env::Timestamp;
use partition::ETag;
use partition::lease::{Acted, Lease, LeaseAction, LeaseState};

use crate::request::Request;
use crate::respond::stamp;
use crate::wire::Response;
use crate::xml::XmlWriter;

pub fn action(request: &Request<'_>, row: &Operation) -> Result<LeaseAction, Refusal> {
    use OperationId::*;
    let id = || request.lease_id("x-ms-lease-id")?.ok_or_else(|| Refusal::missing_header("x-ms-lease-id"));
    let proposed = || request.lease_id("x-ms-proposed-lease-id");
    Ok(match row.id {
        AcquireBlobLease | AcquireContainerLease | AcquireShareLease | AcquireFileLease => {
            let text = request.header("x-ms-lease-duration");
            let text = text.ok_or_else(|| Refusal::missing_header("x-ms-lease-duration"))?;
            let seconds = match text.parse::<i64>() {
                Ok(-1) => None,
                Ok(seconds) if limits::LEASE_SECONDS.contains(&seconds) => Some(seconds as u32),
                _ => return Err(Refusal::bad_header("x-ms-lease-duration", text)),
            };
            LeaseAction::Acquire { proposed: proposed()?, seconds }
        }
        RenewBlobLease | RenewContainerLease | RenewShareLease => LeaseAction::Renew { id: id()? },
        ChangeBlobLease | ChangeContainerLease | ChangeShareLease | ChangeFileLease => {
            let proposed = proposed()?.ok_or_else(|| Refusal::missing_header("x-ms-proposed-lease-id"))?;
            LeaseAction::Change { id: id()?, proposed }
        }
        ReleaseBlobLease | ReleaseContainerLease | ReleaseShareLease | ReleaseFileLease => {
            LeaseAction::Release { id: id()? }
        }
        BreakBlobLease | BreakContainerLease | BreakShareLease | BreakFileLease => {
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
        // Quirk: a share that was released is free in no time, and the service says so.
        (None, None) if row.on == Resource::Share => drop(response.header("x-ms-lease-time", "0")),
        (None, None) => {}
    }
    response
}

pub fn put_lease(response: &mut Response, lease: Option<&Lease>, now: Timestamp) {
    let (status, state, duration) = shown(lease, now);
    response.header("x-ms-lease-status", status).header("x-ms-lease-state", state);
    if let Some(duration) = duration {
        response.header("x-ms-lease-duration", duration);
    }
}

/// The same in a listing.
pub fn list_lease(xml: &mut XmlWriter, lease: Option<&Lease>, now: Timestamp) {
    let (status, state, duration) = shown(lease, now);
    xml.element("LeaseStatus", status).element("LeaseState", state).optional("LeaseDuration", duration);
}

/// How a lease is shown: status, state and, while it is held, whether it ends.
fn shown(lease: Option<&Lease>, now: Timestamp) -> (&'static str, &'static str, Option<&'static str>) {
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
