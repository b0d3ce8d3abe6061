//! One line per operation that is built; the rest answer 501, and the matrix holds this against the rows.

use contract::operations::{Conditions as Rule, Operation, OperationId};
use contract::{ErrorCode, Refusal};
use partition::{Failure, Shell};

use crate::auth::Grant;
use crate::blob::{acl, block, container, list, read};
use crate::request::Request;
use crate::wire::{Body, Response};

pub async fn dispatch(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    grant: Grant,
    body: &mut Body<'_>,
) -> Result<Response, Failure> {
    refuse_unsupported_conditions(request, row)?;
    match row.id {
        OperationId::ListContainers => list::containers(shell, request, row).await,
        OperationId::CreateContainer => container::create(shell, request, row).await,
        OperationId::GetContainerProperties => container::properties(shell, request, row).await,
        OperationId::GetContainerMetadata => container::metadata(shell, request, row).await,
        OperationId::SetContainerMetadata => container::set_metadata(shell, request, row).await,
        OperationId::GetContainerAcl => acl::get(shell, request, row).await,
        OperationId::SetContainerAcl => acl::set(shell, request, row, body).await,
        OperationId::DeleteContainer => container::delete(shell, request, row).await,
        OperationId::ListBlobs => list::blobs(shell, request, row).await,
        OperationId::PutBlockBlob => block::put(shell, request, row, grant, body).await,
        OperationId::GetBlob => read::get(shell, request, row, grant).await,
        OperationId::GetBlobProperties => read::properties(shell, request, row, grant).await,
        OperationId::DeleteBlob => block::delete(shell, request, row).await,
        _ => Err(ErrorCode::NotImplemented.into()),
    }
}

/// A condition that an operation would not judge must not be taken for one that held.
fn refuse_unsupported_conditions(request: &Request<'_>, row: &Operation) -> Result<(), Refusal> {
    const CONDITIONS: [&str; 5] =
        ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "x-ms-if-tags"];
    let judged = match row.conditions {
        Rule::Never | Rule::OnTags => 0,
        Rule::IfMatchRequired => 1,
        Rule::OnRead | Rule::OnWrite | Rule::OnCreate => 4,
    };
    let is_write = row.access == contract::operations::Access::Write;
    // Caches put dates and ETags on reads of anything; where they are not judged on a read, answering in full is right.
    let unjudged = CONDITIONS[judged..].iter().filter(|name| is_write || name.starts_with("x-ms-"));
    match unjudged.copied().find(|name| request.header(name).is_some()) {
        Some(name) => Err(Refusal::from(ErrorCode::ConditionHeadersNotSupported).with("HeaderName", name)),
        None => Ok(()),
    }
}
