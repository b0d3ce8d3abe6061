//! One line per operation that is built; the rest answer 501, and the matrix holds this against the rows.

use contract::operations::{Anonymous, Conditions as Rule, Operation, OperationId};
use contract::{ErrorCode, Refusal, Service};
use engine::BoxFuture;
use partition::Failure;

use crate::app::App;
use crate::auth::{Credential, Grant};
use crate::blob::{
    acl, append, batch, block, change, container, copy, expiry, from_url, immutability, lease, list, page, read,
    snapshot, staging, tags, tier,
};
use crate::file::{self, permission, share, shares};
use crate::queue::{self, messages};
use crate::request::Request;
use crate::service;
use crate::table;
use crate::wire::{Body, Names, Response};

pub async fn dispatch(
    app: &App,
    request: &Request<'_>,
    row: &'static Operation,
    credential: &Credential,
    grant: Grant,
    body: &mut Body<'_>,
) -> Result<Response, Failure> {
    use OperationId::*;
    refuse_missing_version(request, row)?;
    refuse_unsupported_conditions(request, row)?;
    refuse_encryption(request, row)?;
    let shell = &app.shell;
    // What an operation keeps while it waits is made on the heap. Those that are asked for most have as much as they need; one place for
    // all of them would be as large as the largest needs, and is moved there as a whole.
    let work: BoxFuture<'_, Result<Response, Failure>> = match row.id {
        GetBlob => Box::pin(read::get(shell, request, row, grant)),
        GetBlobProperties => Box::pin(read::properties(shell, request, row, grant)),
        PutBlockBlob => Box::pin(block::put(shell, request, row, grant, body)),
        PutBlock => Box::pin(staging::put_block(shell, request, row, grant, body)),
        DeleteBlob => Box::pin(block::delete(shell, request, row)),
        ListBlobs => Box::pin(list::blobs(shell, request, row)),
        AcquireBlobLease | RenewBlobLease | ChangeBlobLease | ReleaseBlobLease | BreakBlobLease => {
            Box::pin(lease::of_blob(shell, request, row))
        }
        PutMessage => Box::pin(messages::put(shell, request, row, body)),
        GetMessages => Box::pin(messages::get(shell, request, row)),
        DeleteMessage => Box::pin(messages::delete(shell, request, row)),
        QueryEntities => Box::pin(table::entities::query(shell, request, row, credential)),
        GetEntity => Box::pin(table::entities::get(shell, request, row, credential)),
        InsertEntity | UpdateEntity | InsertOrReplaceEntity | MergeEntity | InsertOrMergeEntity | DeleteEntity => {
            Box::pin(table::entities::change(shell, request, row, credential, body))
        }
        GetFile => Box::pin(file::read::get(shell, request, row, grant)),
        CreateFile => Box::pin(file::create::file(shell, request, row, grant, body)),
        PutRange => Box::pin(file::range::put(shell, request, row, body)),
        _ => Box::pin(dispatch_other(app, request, row, credential, grant, body)),
    };
    work.await
}

async fn dispatch_other(
    app: &App,
    request: &Request<'_>,
    row: &'static Operation,
    credential: &Credential,
    grant: Grant,
    body: &mut Body<'_>,
) -> Result<Response, Failure> {
    use OperationId::*;
    let shell = &app.shell;
    match row.id {
        PreflightBlob | PreflightQueue | PreflightTable | PreflightFile => Ok(service::preflight(request, row)?),
        GetBlobServiceProperties | GetQueueServiceProperties | GetTableServiceProperties | GetFileServiceProperties => {
            service::get_properties(app, request, row).await
        }
        SetBlobServiceProperties | SetQueueServiceProperties | SetTableServiceProperties | SetFileServiceProperties => {
            service::set_properties(app, request, row, body).await
        }
        GetBlobServiceStats | GetQueueServiceStats | GetTableServiceStats => Ok(service::stats(request, row)?),
        GetAccountInformation | GetContainerAccountInformation | GetBlobAccountInformation => {
            Ok(service::account_information(row))
        }
        GetBlobUserDelegationKey | GetQueueUserDelegationKey | GetFileUserDelegationKey => match credential {
            Credential::Token(principal) => service::delegation::key(request, row, principal, body).await,
            _ => Err(ErrorCode::AuthorizationFailure.into()),
        },
        ListContainers => list::containers(shell, request, row).await,
        CreateContainer => container::create(shell, request, row).await,
        GetContainerProperties => container::properties(shell, request, row).await,
        GetContainerMetadata => container::metadata(shell, request, row).await,
        SetContainerMetadata => container::set_metadata(shell, request, row).await,
        GetContainerAcl => acl::get(shell, request, row).await,
        SetContainerAcl => acl::set(shell, request, row, body).await,
        AcquireContainerLease
        | RenewContainerLease
        | ChangeContainerLease
        | ReleaseContainerLease
        | BreakContainerLease => lease::of_container(shell, request, row).await,
        DeleteContainer => container::delete(shell, request, row).await,
        RestoreContainer => container::restore(shell, request, row).await,
        FindBlobsByTags | FindBlobsByTagsInContainer => tags::find(shell, request, row).await,
        GetBlobTags => tags::get(shell, request, row).await,
        SetBlobTier => tier::set(shell, request, row).await,
        SetBlobImmutabilityPolicy | DeleteBlobImmutabilityPolicy | SetBlobLegalHold => {
            immutability::set(shell, request, row).await
        }
        SetBlobExpiry => expiry::set(shell, request, row).await,
        SetBlobTags => tags::set(shell, request, row, body).await,
        SubmitBatch | SubmitContainerBatch => batch::submit(app, request, row, body).await,
        PutAppendBlob => block::put_append(shell, request, row, grant).await,
        PutPageBlob => page::create(shell, request, row, grant).await,
        PutPages => page::put(shell, request, row, body).await,
        ClearPages => page::clear(shell, request, row).await,
        GetPageRanges | GetPageRangesDiff | GetPageRangesDiffByUrl => page::list(shell, request, row).await,
        AppendBlock => append::append(shell, request, row, body).await,
        SealAppendBlob => append::seal(shell, request, row).await,
        CopyBlob => copy::copy(app, request, row, credential, grant).await,
        CopyBlobFromUrl => copy::copy_from_url(app, request, row, grant).await,
        PutBlobFromUrl => copy::put_from_url(app, request, row, grant).await,
        AbortCopyBlob => copy::abort(app, request, row).await,
        IncrementalCopyBlob => copy::incremental(app, request, row, credential, grant).await,
        PutBlockFromUrl => from_url::put_block(app, request, row, grant).await,
        AppendBlockFromUrl => from_url::append(app, request, row).await,
        PutPagesFromUrl => from_url::put_pages(app, request, row).await,
        PutBlockList => staging::put_block_list(shell, request, row, grant, body).await,
        GetBlockList => staging::get_block_list(shell, request, row).await,
        GetBlobMetadata => change::get_metadata(shell, request, row).await,
        SetBlobMetadata => change::set_metadata(shell, request, row).await,
        SetBlobProperties => change::set_properties(shell, request, row).await,
        SnapshotBlob => snapshot::take(shell, request, row).await,
        UndeleteBlob => snapshot::undelete(shell, request, row).await,
        ListQueues => queue::list(shell, request, row).await,
        CreateQueue => queue::create(shell, request, row).await,
        DeleteQueue => queue::delete(shell, request, row).await,
        GetQueueMetadata => queue::metadata(shell, request, row).await,
        SetQueueMetadata => queue::set_metadata(shell, request, row).await,
        GetQueueAcl => queue::acl(shell, request, row).await,
        SetQueueAcl => queue::set_acl(shell, request, row, body).await,
        PeekMessages => messages::peek(shell, request, row).await,
        ClearMessages => messages::clear(shell, request, row).await,
        UpdateMessage => messages::update(shell, request, row, body).await,
        QueryTables => table::tables::query(shell, request, row).await,
        CreateTable => table::tables::create(shell, request, row, body).await,
        GetTable => table::tables::get(shell, request, row).await,
        DeleteTable => table::tables::delete(shell, request, row).await,
        GetTableAcl => table::acl::get(shell, request, row).await,
        SetTableAcl => table::acl::set(shell, request, row, body).await,
        ListShares => shares::list(shell, request, row).await,
        CreateShare => share::create(shell, request, row).await,
        GetShareProperties => share::properties(shell, request, row).await,
        GetShareMetadata => share::metadata(shell, request, row).await,
        SetShareProperties => share::set_properties(shell, request, row).await,
        SetShareMetadata => share::set_metadata(shell, request, row).await,
        DeleteShare => share::delete(shell, request, row).await,
        SnapshotShare => share::take_snapshot(shell, request, row).await,
        RestoreShare => share::restore(shell, request, row).await,
        GetShareAcl => share::acl(shell, request, row).await,
        SetShareAcl => share::set_acl(shell, request, row, body).await,
        CreateSharePermission => permission::create(shell, request, row, body).await,
        GetSharePermission => permission::get(shell, request, row).await,
        GetShareStats => share::stats(shell, request, row).await,
        AcquireShareLease | RenewShareLease | ChangeShareLease | ReleaseShareLease | BreakShareLease => {
            share::lease(shell, request, row).await
        }
        SubmitTransaction => table::batch::submit(app, request, row, credential, body).await,
        CreateDirectory => file::create::directory(shell, request, row).await,
        GetDirectoryProperties => file::read::properties_of_directory(shell, request, row).await,
        SetDirectoryProperties => file::change::properties_of_directory(shell, request, row).await,
        GetDirectoryMetadata | GetFileMetadata => file::read::metadata(shell, request, row).await,
        SetDirectoryMetadata | SetFileMetadata => file::change::metadata(shell, request, row).await,
        DeleteDirectory | DeleteFile => file::create::delete(shell, request, row).await,
        RenameDirectory | RenameFile => file::rename::rename(shell, request, row).await,
        ListDirectory => file::list::directory(shell, request, row).await,
        CopyFile => file::copy::copy(app, request, row, credential, grant).await,
        AbortCopyFile => file::copy::abort(shell, request, row).await,
        GetFileProperties => file::read::properties_of_file(shell, request, row, grant).await,
        SetFileProperties => file::change::properties_of_file(shell, request, row).await,
        ListRanges => file::ranges::list(shell, request, row).await,
        ListHandles => file::handles::list(shell, request, row).await,
        ForceCloseHandles => file::handles::force_close(shell, request, row).await,
        CreateSymbolicLink => file::link::create_symbolic(shell, request, row).await,
        GetSymbolicLink => file::link::get_symbolic(shell, request, row).await,
        CreateHardLink => file::link::create_hard(shell, request, row).await,
        PutRangeFromUrl => file::range::put_from_url(app, request, row).await,
        AcquireFileLease | ChangeFileLease | ReleaseFileLease | BreakFileLease => {
            file::lease::lease(shell, request, row).await
        }
        _ => Err(ErrorCode::NotImplemented.into()),
    }
}

/// Old clients of the Blob service send no version; the Queue and File services want one.
fn refuse_missing_version(request: &Request<'_>, row: &Operation) -> Result<(), Refusal> {
    let is_said = || {
        request.header("x-ms-version").is_some()
            || ["api-version", "sv"].iter().any(|name| request.query.get(name).is_some())
    };
    let is_wanted = matches!(request.service, Service::Queue | Service::File);
    if is_wanted && row.anonymous != Anonymous::Always && !is_said() {
        return Err(Refusal::missing_header("x-ms-version"));
    }
    Ok(())
}

/// Nothing is encrypted with a key or in a scope of the client's. One that was left aside would store in the clear what its owner
/// believes to be sealed, so no operation of the Blob service takes one, over http or https.
fn refuse_encryption(request: &Request<'_>, row: &Operation) -> Result<(), Refusal> {
    if request.service != Service::Blob || row.anonymous == Anonymous::Always {
        return Ok(());
    }
    match request.head.sent(&CLIENT_ENCRYPTION).next() {
        Some((name, _)) => Err(Refusal::from(ErrorCode::NotImplemented).with("HeaderName", name)),
        None => Ok(()),
    }
}

/// Customer-provided keys and encryption scopes, of what is written and of what is read from elsewhere.
const CLIENT_ENCRYPTION: Names<9> = Names::new([
    "x-ms-encryption-key",
    "x-ms-encryption-key-sha256",
    "x-ms-encryption-algorithm",
    "x-ms-encryption-scope",
    "x-ms-default-encryption-scope",
    "x-ms-deny-encryption-scope-override",
    "x-ms-source-encryption-key",
    "x-ms-source-encryption-key-sha256",
    "x-ms-source-encryption-algorithm",
]);

/// A condition that an operation would not judge must not be taken for one that held.
pub fn refuse_unsupported_conditions(request: &Request<'_>, row: &Operation) -> Result<(), Refusal> {
    const CONDITIONS: [&str; 4] = ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since"];
    let judged = match row.conditions {
        Rule::Never | Rule::OnTags | Rule::OnTagsOrBlob => 0,
        Rule::IfMatchRequired => 1,
        Rule::OnRead | Rule::OnWrite | Rule::OnCreate => 4,
    };
    let is_write = row.access == contract::operations::Access::Write;
    // Caches put dates and ETags on reads of anything; where they are not judged on a read, answering in full is right.
    let unjudged = CONDITIONS[judged..].iter().copied().filter(|_| is_write);
    let tags = Some("x-ms-if-tags").filter(|_| !row.judges_tags);
    match unjudged.chain(tags).find(|name| request.header(name).is_some()) {
        Some(name) => Err(Refusal::from(ErrorCode::ConditionHeadersNotSupported).with("HeaderName", name)),
        None => Ok(()),
    }
}
