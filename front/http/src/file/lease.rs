//! Leases of files on the wire: without end, and broken at once.

use contract::Refusal;
use contract::operations::Operation;
use partition::file::lease::LeaseFile;
use partition::lease::LeaseAction;
use partition::{Failure, Shell};

use super::create::target;
use super::wait::execute;
use crate::lease::{action, answer};
use crate::request::Request;
use crate::wire::Response;

pub async fn lease(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let action = match action(request, row)? {
        LeaseAction::Acquire { seconds: Some(seconds), .. } => {
            return Err(Refusal::bad_header("x-ms-lease-duration", seconds.to_string()).into());
        }
        LeaseAction::Break { .. } => LeaseAction::Break { period_seconds: Some(0) },
        action => action,
    };
    let (share, target) = target(shell, request, row).await?;
    let (node, acted) = execute(shell, request, &share, &LeaseFile { target, action }).await?;
    Ok(answer(row, Some((node.etag, node.last_modified)), &acted))
}
