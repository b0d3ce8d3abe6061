//! One row per operation. The row is the one home of what routing, authorization, conditions, lease checks and the contract
//! matrix need to know of it; a new operation is a row, a parse, a decide and a render.

mod blob;
mod file;
mod queue;
mod table;

pub use blob::BLOB;
pub use file::FILE;
pub use queue::QUEUE;
pub use table::TABLE;

/// The four services, each on its own port or host name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Service {
    Blob,
    Queue,
    Table,
    File,
}

impl Service {
    pub const ALL: [Service; 4] = [Service::Blob, Service::Queue, Service::Table, Service::File];

    /// The label in host names, and the first part of canonical resources.
    pub const fn name(self) -> &'static str {
        match self {
            Service::Blob => "blob",
            Service::Queue => "queue",
            Service::Table => "table",
            Service::File => "file",
        }
    }

    /// The letter in the `ss` field of an account SAS.
    pub const fn letter(self) -> char {
        match self {
            Service::Blob => 'b',
            Service::Queue => 'q',
            Service::Table => 't',
            Service::File => 'f',
        }
    }

    /// The `Server` header of its answers.
    pub const fn server_header(self) -> &'static str {
        match self {
            Service::Blob => "Windows-Azure-Blob/1.0 Microsoft-HTTPAPI/2.0",
            Service::Queue => "Windows-Azure-Queue/1.0 Microsoft-HTTPAPI/2.0",
            Service::Table => "Windows-Azure-Table/1.0 Microsoft-HTTPAPI/2.0",
            Service::File => "Windows-Azure-File/1.0 Microsoft-HTTPAPI/2.0",
        }
    }

    pub const fn rows(self) -> &'static [Operation] {
        match self {
            Service::Blob => BLOB,
            Service::Queue => QUEUE,
            Service::Table => TABLE,
            Service::File => FILE,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Method {
    Get,
    Head,
    Put,
    Post,
    Delete,
    Options,
    Merge,
    Patch,
}

impl Method {
    pub fn parse(text: &str) -> Option<Method> {
        Some(match text {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "PUT" => Method::Put,
            "POST" => Method::Post,
            "DELETE" => Method::Delete,
            "OPTIONS" => Method::Options,
            "MERGE" => Method::Merge,
            "PATCH" => Method::Patch,
            _ => return None,
        })
    }

    pub const fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Put => "PUT",
            Method::Post => "POST",
            Method::Delete => "DELETE",
            Method::Options => "OPTIONS",
            Method::Merge => "MERGE",
            Method::Patch => "PATCH",
        }
    }
}

/// What the path names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Resource {
    /// Whatever it is: preflight asks on any path.
    Anything,
    /// The account's root: `/`.
    Account,
    Container,
    Blob,
    Queue,
    /// `/queue/messages`
    Messages,
    /// `/queue/messages/id`
    Message,
    /// `/Tables`
    Tables,
    /// `/Tables('name')`
    Table,
    /// `/name` and `/name()`
    Entities,
    /// `/name(PartitionKey='…',RowKey='…')`
    Entity,
    /// `/$batch`
    TableBatch,
    Share,
    Directory,
    File,
}

/// What picks the operation among those with the same method and resource. `restype` and `comp` must be as stated (`None` means
/// absent), and all tests must hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Selector {
    pub restype: Option<&'static str>,
    pub comp: Option<&'static str>,
    pub tests: &'static [Test],
}

/// Something a request has or has not. Values are compared without case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Test {
    HeaderIs(&'static str, &'static str),
    HeaderSent(&'static str),
    HeaderNotSent(&'static str),
    QueryIs(&'static str, &'static str),
    QueryIsNot(&'static str, &'static str),
    QuerySent(&'static str),
    QueryNotSent(&'static str),
}

impl Test {
    /// Can no request pass both?
    pub fn excludes(&self, other: &Test) -> bool {
        use Test::*;
        match (self, other) {
            (HeaderIs(a, x), HeaderIs(b, y)) | (QueryIs(a, x), QueryIs(b, y)) => a == b && x != y,
            (HeaderSent(a) | HeaderIs(a, _), HeaderNotSent(b)) | (HeaderNotSent(a), HeaderSent(b) | HeaderIs(b, _)) => {
                a == b
            }
            (QuerySent(a) | QueryIs(a, _), QueryNotSent(b)) | (QueryNotSent(a), QuerySent(b) | QueryIs(b, _)) => a == b,
            (QueryIs(a, x), QueryIsNot(b, y)) | (QueryIsNot(a, x), QueryIs(b, y)) => a == b && x == y,
            _ => false,
        }
    }
}

/// Does the answer carry ETag and Last-Modified?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReturnsEtag {
    Yes,
    No,
    /// Get Block List: only of what is committed.
    IfCommitted,
}

/// Which conditional headers are judged, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Conditions {
    /// None; sent on a write they are refused, on a read they are not looked at.
    Never,
    /// Any combination; a false If-None-Match or If-Modified-Since is 304.
    OnRead,
    /// One header, or one of two pairs; false is 412.
    OnWrite,
    /// As `OnWrite`, and `If-None-Match: *` means "only if it is not there", refused with 409.
    OnCreate,
    /// `x-ms-if-tags` alone.
    OnTags,
    /// As `OnTags`, and the others with `x-ms-blob-` before their names: the plain ones would be about the tags.
    OnTagsOrBlob,
    /// Tables: If-Match is required, `*` forces.
    IfMatchRequired,
}

/// What a lease id does to the operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaseCheck {
    /// The header is not looked at.
    Ignored,
    /// Not needed; checked if it is sent.
    IfGiven,
    /// Needed while the resource is leased.
    IfLeased,
    /// The operation is about the lease itself.
    Acts,
}

/// Which letters of `sp` are needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Letters {
    /// No token of this kind ever suffices.
    Never,
    AnyOf(&'static str),
    AllOf(&'static str),
    /// As `AnyOf` with `c` added, which suffices where nothing is there yet.
    AnyOfOrCreate(&'static str),
    /// Any valid token.
    Whatever,
}

impl Letters {
    pub fn allow(self, permissions: &str) -> bool {
        match self {
            Letters::Never => false,
            Letters::AnyOf(letters) => letters.chars().any(|letter| permissions.contains(letter)),
            Letters::AllOf(letters) => letters.chars().all(|letter| permissions.contains(letter)),
            Letters::AnyOfOrCreate(letters) => {
                permissions.contains('c') || letters.chars().any(|letter| permissions.contains(letter))
            }
            Letters::Whatever => true,
        }
    }

    /// May a token with these permissions replace what is there?
    pub fn allow_overwrite(self, permissions: &str) -> bool {
        match self {
            Letters::AnyOfOrCreate(letters) => letters.chars().any(|letter| permissions.contains(letter)),
            other => other.allow(permissions),
        }
    }
}

/// What an account SAS needs: a letter of `srt` (one of these), and letters of `sp`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccountSas {
    pub resource_types: &'static str,
    pub letters: Letters,
}

/// What an operation does to a blob or file that is there. What stands in its way is in `partition/src/gate.rs` and
/// `partition/src/file/opens.rs`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Nothing: it looks at the blob without its content, or not at all.
    Nothing,
    /// Reads its content.
    Reads,
    /// Takes a snapshot.
    Snapshots,
    /// Is about its lease.
    Leases,
    /// Sets what lies beside a version and is no part of it: tags, tier, immutability.
    Marks,
    /// Adds blocks that are no part of it yet.
    Stages,
    /// Puts a new state in the place of the old one, which stays where versions are kept.
    Replaces,
    /// Changes the state in place, without a version.
    Alters,
    Deletes,
    /// Gives it another name.
    Renames,
}

/// What the role behind a bearer token must grant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenNeeds {
    /// What an account SAS would need.
    AsAccountSas,
    /// To read or set who may do what.
    Acl,
    /// To have others act in one's name. Only tokens reach such an operation: a key has no name to lend.
    Delegation,
}

/// Who needs no credential.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Anonymous {
    Never,
    /// Readers of a container whose blobs are public.
    OfPublicBlobs,
    /// Readers of a container that is public as a whole.
    OfPublicContainer,
    /// Preflight: credentials are not looked at.
    Always,
}

/// Does it change anything? The secondary endpoint takes reads alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    Read,
    Write,
}

/// The whole of what the contract says about one operation.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    pub id: OperationId,
    pub methods: &'static [Method],
    pub on: Resource,
    pub chosen_by: Selector,
    pub status: u16,
    pub etag: ReturnsEtag,
    pub conditions: Conditions,
    /// Is `x-ms-if-tags` judged as well?
    pub judges_tags: bool,
    pub lease: LeaseCheck,
    pub effect: Effect,
    pub account_sas: AccountSas,
    pub service_sas: Letters,
    pub token: TokenNeeds,
    pub anonymous: Anonymous,
    pub access: Access,
    /// The largest body taken, in bytes.
    pub body_bytes_max: u64,
    /// What the published description calls it; one row may serve several of its names. Empty for what it leaves out.
    pub published: &'static [&'static str],
    /// Built. What is not answers 501 NotImplemented.
    pub built: bool,
}

impl Operation {
    /// The columns every row has. Conditions of blobs are on tags, too; reads are GET and HEAD; no body; no effect; nobody anonymous; not built: the rest of a row says otherwise.
    #[allow(clippy::too_many_arguments)] // the columns
    const fn row(
        id: OperationId,
        methods: &'static [Method],
        on: Resource,
        chosen_by: Selector,
        status: u16,
        etag: ReturnsEtag,
        conditions: Conditions,
        lease: LeaseCheck,
        account_sas: AccountSas,
        service_sas: Letters,
        published: &'static [&'static str],
    ) -> Operation {
        let access = match methods[0] {
            Method::Get | Method::Head | Method::Options => Access::Read,
            _ => Access::Write,
        };
        Operation {
            id,
            methods,
            on,
            chosen_by,
            status,
            etag,
            conditions,
            judges_tags: matches!(on, Resource::Blob) && !matches!(conditions, Conditions::Never),
            lease,
            effect: Effect::Nothing,
            account_sas,
            service_sas,
            token: TokenNeeds::AsAccountSas,
            anonymous: Anonymous::Never,
            access,
            body_bytes_max: 0,
            published,
            built: false,
        }
    }

    const fn built(self) -> Operation {
        Operation { built: true, ..self }
    }

    const fn without_tags(self) -> Operation {
        Operation { judges_tags: false, ..self }
    }

    const fn does(self, effect: Effect) -> Operation {
        Operation { effect, ..self }
    }

    const fn body(self, bytes_max: u64) -> Operation {
        Operation { body_bytes_max: bytes_max, ..self }
    }

    const fn token(self, token: TokenNeeds) -> Operation {
        Operation { token, ..self }
    }

    const fn anonymous(self, anonymous: Anonymous) -> Operation {
        Operation { anonymous, ..self }
    }

    const fn reads(self) -> Operation {
        Operation { access: Access::Read, ..self }
    }

    const fn writes(self) -> Operation {
        Operation { access: Access::Write, ..self }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OperationId {
    // Blob
    PreflightBlob,
    SetBlobServiceProperties,
    GetBlobServiceProperties,
    GetBlobServiceStats,
    GetBlobUserDelegationKey,
    GetAccountInformation,
    GetContainerAccountInformation,
    GetBlobAccountInformation,
    SubmitBatch,
    FindBlobsByTags,
    ListContainers,
    CreateContainer,
    GetContainerProperties,
    GetContainerMetadata,
    SetContainerMetadata,
    GetContainerAcl,
    SetContainerAcl,
    AcquireContainerLease,
    RenewContainerLease,
    ChangeContainerLease,
    ReleaseContainerLease,
    BreakContainerLease,
    DeleteContainer,
    RestoreContainer,
    RenameContainer,
    ListBlobs,
    FindBlobsByTagsInContainer,
    SubmitContainerBatch,
    PutBlockBlob,
    PutBlobFromUrl,
    PutAppendBlob,
    PutPageBlob,
    CopyBlob,
    CopyBlobFromUrl,
    AbortCopyBlob,
    IncrementalCopyBlob,
    GetBlob,
    GetBlobProperties,
    GetBlobMetadata,
    SetBlobMetadata,
    SetBlobProperties,
    DeleteBlob,
    UndeleteBlob,
    SnapshotBlob,
    SetBlobTier,
    GetBlobTags,
    SetBlobTags,
    SetBlobImmutabilityPolicy,
    DeleteBlobImmutabilityPolicy,
    SetBlobLegalHold,
    SetBlobExpiry,
    AcquireBlobLease,
    RenewBlobLease,
    ChangeBlobLease,
    ReleaseBlobLease,
    BreakBlobLease,
    PutBlock,
    PutBlockFromUrl,
    PutBlockList,
    GetBlockList,
    QueryBlob,
    AppendBlock,
    AppendBlockFromUrl,
    SealAppendBlob,
    PutPages,
    PutPagesFromUrl,
    ClearPages,
    GetPageRanges,
    GetPageRangesDiff,
    GetPageRangesDiffByUrl,
    // Queue
    PreflightQueue,
    SetQueueServiceProperties,
    GetQueueServiceProperties,
    GetQueueServiceStats,
    GetQueueUserDelegationKey,
    ListQueues,
    CreateQueue,
    DeleteQueue,
    GetQueueMetadata,
    SetQueueMetadata,
    GetQueueAcl,
    SetQueueAcl,
    PutMessage,
    GetMessages,
    PeekMessages,
    ClearMessages,
    UpdateMessage,
    DeleteMessage,
    // Table
    PreflightTable,
    SetTableServiceProperties,
    GetTableServiceProperties,
    GetTableServiceStats,
    QueryTables,
    CreateTable,
    GetTable,
    DeleteTable,
    GetTableAcl,
    SetTableAcl,
    QueryEntities,
    InsertEntity,
    GetEntity,
    UpdateEntity,
    InsertOrReplaceEntity,
    MergeEntity,
    InsertOrMergeEntity,
    DeleteEntity,
    SubmitTransaction,
    // File
    PreflightFile,
    SetFileServiceProperties,
    GetFileServiceProperties,
    ListShares,
    GetFileUserDelegationKey,
    CreateShare,
    GetShareProperties,
    GetShareMetadata,
    SetShareProperties,
    SetShareMetadata,
    DeleteShare,
    SnapshotShare,
    RestoreShare,
    GetShareAcl,
    SetShareAcl,
    GetShareStats,
    CreateSharePermission,
    GetSharePermission,
    AcquireShareLease,
    RenewShareLease,
    ChangeShareLease,
    ReleaseShareLease,
    BreakShareLease,
    GetHardLinks,
    CreateDirectory,
    GetDirectoryProperties,
    GetDirectoryMetadata,
    SetDirectoryProperties,
    SetDirectoryMetadata,
    DeleteDirectory,
    RenameDirectory,
    ListDirectory,
    CreateFile,
    CopyFile,
    GetFile,
    GetFileProperties,
    GetFileMetadata,
    SetFileProperties,
    SetFileMetadata,
    DeleteFile,
    RenameFile,
    PutRange,
    PutRangeFromUrl,
    ListRanges,
    AbortCopyFile,
    ListHandles,
    ForceCloseHandles,
    AcquireFileLease,
    ChangeFileLease,
    ReleaseFileLease,
    BreakFileLease,
    CreateSymbolicLink,
    GetSymbolicLink,
    CreateHardLink,
}

const fn plain() -> Selector {
    Selector { restype: None, comp: None, tests: &[] }
}

const fn comp(comp: &'static str) -> Selector {
    Selector { comp: Some(comp), ..plain() }
}

const fn restype(restype: &'static str) -> Selector {
    Selector { restype: Some(restype), ..plain() }
}

const fn restype_comp(restype: &'static str, comp: &'static str) -> Selector {
    Selector { restype: Some(restype), comp: Some(comp), tests: &[] }
}

impl Selector {
    const fn when(self, tests: &'static [Test]) -> Selector {
        Selector { tests, ..self }
    }
}

const fn account(resource_types: &'static str, letters: Letters) -> AccountSas {
    AccountSas { resource_types, letters }
}

/// No SAS at all, only a key or a token.
const NO_SAS: AccountSas = account("", Letters::Never);

#[cfg(test)]
mod tests {
    use super::*;

    fn every_row() -> impl Iterator<Item = (Service, &'static Operation)> {
        Service::ALL.into_iter().flat_map(|service| service.rows().iter().map(move |row| (service, row)))
    }

    #[test]
    fn no_two_rows_answer_the_same_request() {
        for service in Service::ALL {
            let rows = service.rows();
            for (i, a) in rows.iter().enumerate() {
                for b in &rows[i + 1..] {
                    let same_place = (a.on == b.on || a.on == Resource::Anything || b.on == Resource::Anything)
                        && a.methods.iter().any(|method| b.methods.contains(method))
                        && (a.chosen_by.restype, a.chosen_by.comp) == (b.chosen_by.restype, b.chosen_by.comp);
                    let excluded =
                        a.chosen_by.tests.iter().any(|test| b.chosen_by.tests.iter().any(|other| test.excludes(other)));
                    assert!(!same_place || excluded, "{:?} and {:?}", a.id, b.id);
                }
            }
        }
    }

    #[test]
    fn every_id_has_one_row() {
        let mut seen = std::collections::HashSet::new();
        for (_, row) in every_row() {
            assert!(seen.insert(row.id), "{:?}", row.id);
        }
    }

    #[test]
    fn rows_agree_with_themselves() {
        for (_, row) in every_row() {
            if row.conditions == Conditions::OnRead {
                assert_eq!(row.access, Access::Read, "{:?}", row.id);
            }
            if matches!(row.conditions, Conditions::OnWrite | Conditions::OnCreate | Conditions::IfMatchRequired) {
                assert_eq!(row.access, Access::Write, "{:?}", row.id);
            }
            assert!(row.account_sas.resource_types.chars().all(|c| "sco".contains(c)), "{:?}", row.id);
            assert_eq!(
                row.account_sas.resource_types.is_empty(),
                row.account_sas.letters == Letters::Never,
                "{:?}",
                row.id
            );
            assert!((200..300).contains(&row.status), "{:?}", row.id);
            if row.on == Resource::Blob && row.access == Access::Write && row.id != OperationId::UndeleteBlob {
                let is_said = row.effect != Effect::Nothing || row.id == OperationId::AbortCopyBlob;
                assert!(is_said, "{:?} writes: what does it do to a blob that is there?", row.id);
            }
            if row.lease == LeaseCheck::Acts && row.on == Resource::Blob {
                assert_eq!(row.effect, Effect::Leases, "{:?}", row.id);
            }
        }
    }

    #[test]
    fn letters() {
        for (letters, permissions, allow, overwrite) in [
            (Letters::Never, "rwdlacup", false, false),
            (Letters::AnyOf("aw"), "w", true, true),
            (Letters::AnyOf("aw"), "r", false, false),
            (Letters::AllOf("au"), "a", false, false),
            (Letters::AllOf("au"), "ua", true, true),
            (Letters::AnyOfOrCreate("w"), "c", true, false),
            (Letters::AnyOfOrCreate("w"), "cw", true, true),
            (Letters::AnyOfOrCreate("w"), "r", false, false),
            (Letters::Whatever, "r", true, true),
        ] {
            assert_eq!(
                (letters.allow(permissions), letters.allow_overwrite(permissions)),
                (allow, overwrite),
                "{letters:?} {permissions}"
            );
        }
    }
}
