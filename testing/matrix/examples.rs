//! For each operation a request that succeeds, and the world it succeeds in: container `box` with blob `b`, queue `line` with a message,
//! table `people` with entity `a`, `b`, share `share` with directory `d` and file `f`.

use contract::operations::{LeaseCheck, Operation, Resource, Test, TokenNeeds};
use contract::roles::ROLES;
use contract::{OperationId, Service};
use env::{Clock, Timestamp};
use http::account::{Account, BlobSettings};
use partition::file::settings::default_permission;
use testing::{Answer, Issuer, Outside, Request, World};

/// Pages of `http://page` may ask for anything that the example of a preflight asks for.
const PROPERTIES: &str = "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>http://page</AllowedOrigins>\
    <AllowedMethods>PUT</AllowedMethods><AllowedHeaders>x-ms-*</AllowedHeaders><ExposedHeaders>x-ms-*</ExposedHeaders>\
    <MaxAgeInSeconds>60</MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>";

pub async fn world() -> World {
    let world = World::new().await;
    for service in Service::ALL {
        let set = Request::new("PUT ?restype=service&comp=properties").of(service).body(PROPERTIES);
        assert_eq!(world.send(&set).await.status, 202);
    }
    for request in [
        Request::new("PUT box?restype=container"),
        Request::new("PUT box/b").header("x-ms-blob-type", "BlockBlob").body("content"),
    ] {
        assert_eq!(world.send(&request).await.status, 201);
    }
    assert_eq!(world.send(&queue("PUT line")).await.status, 201);
    let put = world.send(&queue("POST line/messages").body(message("hello"))).await;
    assert!(put.text().contains(MESSAGE_ID) && put.text().contains(POP_RECEIPT), "{}", put.text());
    for request in [
        table("POST Tables").body(r#"{"TableName":"people"}"#),
        table("POST people").body(r#"{"PartitionKey":"a","RowKey":"b","Email":"old@example.org"}"#),
    ] {
        assert_eq!(world.send(&request).await.status, 201);
    }
    for request in [
        Request::new("PUT open?restype=container").header("x-ms-blob-public-access", "blob"),
        Request::new("PUT open/source").header("x-ms-blob-type", "BlockBlob").body(vec![b's'; 1024]),
    ] {
        assert_eq!(world.send(&request).await.status, 201);
    }
    for request in [
        file("PUT share?restype=share"),
        file("PUT share/d?restype=directory"),
        file("PUT share/f").header("x-ms-type", "file").header("x-ms-content-length", "4"),
    ] {
        assert_eq!(world.send(&request).await.status, 201);
    }
    let ports = [(Service::Blob, 10000), (Service::File, 10003)];
    world.app.set_listening(ports.map(|(service, port)| (service, ([127, 0, 0, 1], port).into())).to_vec());
    world.clock.advance_seconds(10);
    world
}

/// What copies are made of.
const SOURCE: &str = "http://127.0.0.1:10000/devstoreaccount1/open/source";
/// The same for requests to another service: all are sent to one host, which stands for the service that is asked.
const SOURCE_ELSEWHERE: &str = "http://localhost:10000/devstoreaccount1/open/source";

/// The world with a blob of the type that the row works on.
pub async fn world_of(row: &Operation) -> World {
    let world = world().await;
    let holds = [
        OperationId::SetBlobImmutabilityPolicy,
        OperationId::DeleteBlobImmutabilityPolicy,
        OperationId::SetBlobLegalHold,
    ];
    if holds.contains(&row.id) {
        let blob = BlobSettings { immutable_storage: true, ..BlobSettings::default() };
        world.app.set_accounts(vec![Account { blob, ..Account::development() }]);
    }
    use OperationId::{AppendBlock, AppendBlockFromUrl, PutAppendBlob, SealAppendBlob};
    let appends = [PutAppendBlob, AppendBlock, AppendBlockFromUrl, SealAppendBlob];
    if appends.contains(&row.id) {
        let put = Request::new("PUT box/b").header("x-ms-blob-type", "AppendBlob");
        assert_eq!(world.send(&Request::new("DELETE box/b")).await.status, 202);
        assert_eq!(world.send(&put).await.status, 201);
        world.clock.advance_seconds(10);
    }
    if row.id == OperationId::RestoreContainer {
        let mut account = Account::development();
        account.blob.container_retention_days = Some(7);
        world.app.set_accounts(vec![account]);
        assert_eq!(world.send(&Request::new("PUT gone?restype=container")).await.status, 201);
        world.clock.advance_seconds(10);
        assert_eq!(world.send(&Request::new("DELETE gone?restype=container")).await.status, 202);
    }
    if row.id == OperationId::RestoreShare {
        let mut account = Account::development();
        account.file.share_retention_days = Some(7);
        world.app.set_accounts(vec![account]);
        assert_eq!(world.send(&file("PUT gone?restype=share")).await.status, 201);
        world.clock.advance_seconds(10);
        assert_eq!(world.send(&file("DELETE gone?restype=share")).await.status, 202);
    }
    let pages = [
        OperationId::PutPageBlob,
        OperationId::PutPages,
        OperationId::PutPagesFromUrl,
        OperationId::ClearPages,
        OperationId::GetPageRanges,
        OperationId::GetPageRangesDiff,
        OperationId::GetPageRangesDiffByUrl,
    ];
    if pages.contains(&row.id) {
        let put = Request::new("PUT box/b").header("x-ms-blob-type", "PageBlob");
        assert_eq!(world.send(&Request::new("DELETE box/b")).await.status, 202);
        assert_eq!(world.send(&put.header("x-ms-blob-content-length", "1024")).await.status, 201);
        let taken = world.send(&Request::new("PUT box/b?comp=snapshot")).await;
        assert_eq!((taken.status, taken.header("x-ms-snapshot")), (201, Some(page_snapshot())));
        world.clock.advance_seconds(10);
    }
    use OperationId::{CreateHardLink, CreateSymbolicLink, GetSymbolicLink};
    if [CreateSymbolicLink, GetSymbolicLink, CreateHardLink].contains(&row.id) {
        for request in [
            file("PUT nfs?restype=share").header("x-ms-enabled-protocols", "NFS"),
            file("PUT nfs/link?restype=symboliclink").header("x-ms-link-text", "where"),
        ] {
            assert_eq!(world.send(&request).await.status, 201);
        }
    }
    if row.id == OperationId::IncrementalCopyBlob {
        let put = Request::new("PUT open/disk").header("x-ms-blob-type", "PageBlob");
        assert_eq!(world.send(&Request::new("DELETE box/b")).await.status, 202);
        assert_eq!(world.send(&put.header("x-ms-blob-content-length", "1024")).await.status, 201);
        let taken = world.send(&Request::new("PUT open/disk?comp=snapshot")).await;
        assert_eq!((taken.status, taken.header("x-ms-snapshot")), (201, Some(page_snapshot())));
        let answer = world.send(&example(row)).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        world.clock.advance_seconds(10);
    }
    world
}

/// What the scripted ticks make of the snapshot in the world of page blobs. An engine that draws ticks itself takes one for each commit, too.
fn page_snapshot() -> &'static str {
    match std::env::var("LAZULI_TEST_ENGINE") {
        Ok(engine) if engine.starts_with("rados") => "2026-01-02T03:04:15.0000004Z",
        _ => "2026-01-02T03:04:15.0000002Z",
    }
}

/// The world in which the row's example succeeds: what a lease operation needs is leased.
pub async fn prepared(row: &Operation) -> World {
    let world = world_of(row).await;
    use OperationId::{AcquireBlobLease, AcquireContainerLease, AcquireFileLease, AcquireShareLease};
    let acquires = matches!(row.id, AcquireBlobLease | AcquireContainerLease | AcquireShareLease | AcquireFileLease);
    if row.lease == LeaseCheck::Acts && !acquires {
        lease(&world, row).await;
    }
    if matches!(row.id, OperationId::AbortCopyBlob | OperationId::AbortCopyFile) {
        // Nobody runs it: it stays pending.
        let outside = Outside::serve("content").await;
        outside.allow(&world);
        let of_blob = row.id == OperationId::AbortCopyBlob;
        let start = if of_blob { Request::new("PUT box/b") } else { file("PUT share/f") };
        let answer = world.send(&start.header("x-ms-copy-source", outside.url("content"))).await;
        assert_eq!(answer.header("x-ms-copy-id"), Some(COPY_ID), "{}", answer.text());
    }
    world
}

pub const LEASE_ID: &str = "01234567-89ab-cdef-0123-456789abcdef";

/// Leases what the row works on: the blob, the container, or the share.
pub async fn lease(world: &World, row: &Operation) {
    // Leases of files have no end.
    let seconds = if row.on == Resource::File { "-1" } else { "60" };
    let request = lease_request(row, "acquire").header("x-ms-lease-duration", seconds);
    let answer = world.send(&request.header("x-ms-proposed-lease-id", LEASE_ID)).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
}

fn lease_request(row: &Operation, action: &str) -> Request {
    let request = match row.on {
        Resource::Blob => Request::new("PUT box/b?comp=lease"),
        Resource::Share => file("PUT share?restype=share&comp=lease"),
        Resource::File => file("PUT share/f?comp=lease"),
        _ => Request::new("PUT box?restype=container&comp=lease"),
    };
    request.header("x-ms-lease-action", action)
}

const SHARE: &str = "http://127.0.0.1:10003/devstoreaccount1/share";

/// A request to the File service.
pub fn file(line: &str) -> Request {
    Request::new(line).of(Service::File)
}

/// A request to the Table service.
pub fn table(line: &str) -> Request {
    let request = Request::new(line).of(Service::Table).header("Accept", "application/json;odata=minimalmetadata");
    request.header("Content-Type", "application/json")
}

/// Sends with the credential that the operation needs: the account's key, or a token where only that suffices.
pub async fn send(world: &World, row: &Operation, request: &Request) -> Answer {
    if row.token != TokenNeeds::Delegation {
        return world.send(request).await;
    }
    let issuer = Issuer::new();
    world.app.set_tokens(Some(issuer.tokens(&ROLES.iter().map(|role| role.name).collect::<Vec<_>>())));
    let token = issuer.token(&Issuer::claims(world.clock.now()));
    world.send_secure(&request.clone().with_bearer(&token)).await
}

/// What the scripted ids make of the copy that `prepared` begins.
const COPY_ID: &str = "00000000-0000-0000-0000-000000000021";

/// What the scripted ids make of the message in `line`.
const MESSAGE_ID: &str = "00000000-0000-0000-0000-000000000010";
const POP_RECEIPT: &str = "AAAAAAAAAAAAAAAAAAAAEQ==";

pub fn queue(line: &str) -> Request {
    Request::new(line).of(Service::Queue)
}

pub fn message(text: &str) -> String {
    format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>")
}

/// The rows that are built, and so have an example that succeeds.
pub fn built() -> impl Iterator<Item = &'static Operation> {
    Service::ALL.into_iter().flat_map(|service| service.rows()).filter(|row| row.built)
}

/// Every row of every service.
pub fn every() -> impl Iterator<Item = (Service, &'static Operation)> {
    Service::ALL.into_iter().flat_map(|service| service.rows().iter().map(move |row| (service, row)))
}

pub fn example(row: &Operation) -> Request {
    use OperationId::*;
    let preflight = |service| {
        let request = Request::new("OPTIONS box/b").of(service).header("Origin", "http://page");
        request.header("Access-Control-Request-Method", "PUT").header("Access-Control-Request-Headers", "x-ms-date")
    };
    let properties =
        |method: &str, service| Request::new(&format!("{method} ?restype=service&comp=properties")).of(service);
    let stats = |service| {
        let mut request = Request::new("GET ?restype=service&comp=stats").of(service);
        request.path = request.path.replacen("/devstoreaccount1/", "/devstoreaccount1-secondary/", 1);
        request
    };
    let delegation_key = |service| {
        let info = "<KeyInfo><Start>2026-01-02T03:00:00Z</Start><Expiry>2026-01-03T03:00:00Z</Expiry></KeyInfo>";
        Request::new("POST ?restype=service&comp=userdelegationkey").of(service).body(info)
    };
    let lease = |action: &str| lease_request(row, action);
    match row.id {
        AcquireBlobLease | AcquireContainerLease | AcquireShareLease | AcquireFileLease => {
            lease("acquire").header("x-ms-lease-duration", "-1")
        }
        RenewBlobLease | RenewContainerLease | RenewShareLease => lease("renew").header("x-ms-lease-id", LEASE_ID),
        ChangeBlobLease | ChangeContainerLease | ChangeShareLease | ChangeFileLease => lease("change")
            .header("x-ms-lease-id", LEASE_ID)
            .header("x-ms-proposed-lease-id", LEASE_ID.replace('0', "1")),
        ReleaseBlobLease | ReleaseContainerLease | ReleaseShareLease | ReleaseFileLease => {
            lease("release").header("x-ms-lease-id", LEASE_ID)
        }
        BreakBlobLease | BreakContainerLease | BreakShareLease | BreakFileLease => {
            lease("break").header("x-ms-lease-break-period", "5")
        }
        PutAppendBlob => Request::new("PUT box/b").header("x-ms-blob-type", "AppendBlob"),
        AppendBlock => Request::new("PUT box/b?comp=appendblock").body("more"),
        PutPageBlob => {
            Request::new("PUT box/b").header("x-ms-blob-type", "PageBlob").header("x-ms-blob-content-length", "512")
        }
        PutPagesFromUrl => Request::new("PUT box/b?comp=page")
            .header("x-ms-page-write", "update")
            .header("x-ms-range", "bytes=0-511")
            .header("x-ms-source-range", "bytes=512-1023")
            .header("x-ms-copy-source", SOURCE),
        PutPages => Request::new("PUT box/b?comp=page")
            .header("x-ms-page-write", "update")
            .header("x-ms-range", "bytes=512-1023")
            .body("p".repeat(512)),
        ClearPages => {
            Request::new("PUT box/b?comp=page").header("x-ms-page-write", "clear").header("x-ms-range", "bytes=0-511")
        }
        GetPageRanges => Request::new("GET box/b?comp=pagelist"),
        GetPageRangesDiff => Request::new(&format!("GET box/b?comp=pagelist&prevsnapshot={}", page_snapshot())),
        GetPageRangesDiffByUrl => Request::new("GET box/b?comp=pagelist").header(
            "x-ms-previous-snapshot-url",
            format!("http://127.0.0.1/devstoreaccount1/box/b?snapshot={}", page_snapshot()),
        ),
        SealAppendBlob => Request::new("PUT box/b?comp=seal"),
        PutBlock => Request::new("PUT box/b?comp=block&blockid=YQ==").body("block"),
        PutBlockList => Request::new("PUT box/b?comp=blocklist").body("<BlockList />"),
        PutBlockFromUrl => Request::new("PUT box/b?comp=block&blockid=YQ==").header("x-ms-copy-source", SOURCE),
        AppendBlockFromUrl => Request::new("PUT box/b?comp=appendblock").header("x-ms-copy-source", SOURCE),
        PutBlobFromUrl => {
            Request::new("PUT box/b").header("x-ms-blob-type", "BlockBlob").header("x-ms-copy-source", SOURCE)
        }
        CopyBlob => Request::new("PUT box/b").header("x-ms-copy-source", SOURCE),
        CopyBlobFromUrl => {
            Request::new("PUT box/b").header("x-ms-requires-sync", "true").header("x-ms-copy-source", SOURCE)
        }
        IncrementalCopyBlob => {
            let source = format!("http://127.0.0.1:10000/devstoreaccount1/open/disk?snapshot={}", page_snapshot());
            Request::new("PUT box/b?comp=incrementalcopy").header("x-ms-copy-source", source)
        }
        AbortCopyBlob => {
            Request::new(&format!("PUT box/b?comp=copy&copyid={COPY_ID}")).header("x-ms-copy-action", "abort")
        }
        GetBlockList => Request::new("GET box/b?comp=blocklist&blocklisttype=all"),
        GetBlobMetadata => Request::new("GET box/b?comp=metadata"),
        SetBlobMetadata => Request::new("PUT box/b?comp=metadata").header("x-ms-meta-a", "1"),
        SetBlobProperties => Request::new("PUT box/b?comp=properties").header("x-ms-blob-content-type", "text/plain"),
        PreflightBlob => preflight(Service::Blob),
        PreflightQueue => preflight(Service::Queue),
        PreflightTable => preflight(Service::Table),
        PreflightFile => preflight(Service::File),
        GetBlobServiceProperties => properties("GET", Service::Blob),
        GetQueueServiceProperties => properties("GET", Service::Queue),
        GetTableServiceProperties => properties("GET", Service::Table),
        GetFileServiceProperties => properties("GET", Service::File),
        SetBlobServiceProperties => properties("PUT", Service::Blob).body(PROPERTIES),
        SetQueueServiceProperties => properties("PUT", Service::Queue).body(PROPERTIES),
        SetTableServiceProperties => properties("PUT", Service::Table).body(PROPERTIES),
        SetFileServiceProperties => properties("PUT", Service::File).body(PROPERTIES),
        GetBlobServiceStats => stats(Service::Blob),
        GetQueueServiceStats => stats(Service::Queue),
        GetTableServiceStats => stats(Service::Table),
        GetBlobUserDelegationKey => delegation_key(Service::Blob),
        GetQueueUserDelegationKey => delegation_key(Service::Queue),
        GetFileUserDelegationKey => delegation_key(Service::File),
        GetAccountInformation => Request::new("GET ?restype=account&comp=properties"),
        GetContainerAccountInformation => Request::new("GET box?restype=account&comp=properties"),
        GetBlobAccountInformation => Request::new("GET box/b?restype=account&comp=properties"),
        ListContainers => Request::new("GET ?comp=list"),
        CreateContainer => Request::new("PUT new-box?restype=container"),
        GetContainerProperties => Request::new("GET box?restype=container"),
        GetContainerMetadata => Request::new("GET box?restype=container&comp=metadata"),
        SetContainerMetadata => Request::new("PUT box?restype=container&comp=metadata").header("x-ms-meta-a", "1"),
        GetContainerAcl => Request::new("GET box?restype=container&comp=acl"),
        SetContainerAcl => Request::new("PUT box?restype=container&comp=acl").header("x-ms-blob-public-access", "blob"),
        DeleteContainer => Request::new("DELETE box?restype=container"),
        // What a part of it may do is the part's own matter: this one brings no credential.
        SubmitBatch | SubmitContainerBatch => {
            let line =
                if row.on == Resource::Account { "POST ?comp=batch" } else { "POST box?restype=container&comp=batch" };
            Request::new(line).header("Content-Type", "multipart/mixed; boundary=b").body(
                "--b\r\nContent-Type: application/http\r\n\r\nDELETE /devstoreaccount1/box/b HTTP/1.1\r\n\r\n\r\n--b--",
            )
        }
        RestoreContainer => Request::new("PUT gone?restype=container&comp=undelete")
            .header("x-ms-deleted-container-name", "gone")
            .header("x-ms-deleted-container-version", deletion()),
        ListShares => file("GET ?comp=list"),
        RestoreShare => file("PUT gone?restype=share&comp=undelete")
            .header("x-ms-deleted-share-name", "gone")
            .header("x-ms-deleted-share-version", deletion()),
        SetBlobTier => Request::new("PUT box/b?comp=tier").header("x-ms-access-tier", "Cool"),
        SetBlobImmutabilityPolicy => Request::new("PUT box/b?comp=immutabilityPolicies")
            .header("x-ms-immutability-policy-until-date", "Fri, 09 Jan 2026 00:00:00 GMT"),
        DeleteBlobImmutabilityPolicy => Request::new("DELETE box/b?comp=immutabilityPolicies"),
        SetBlobLegalHold => Request::new("PUT box/b?comp=legalhold").header("x-ms-legal-hold", "true"),
        SetBlobExpiry => Request::new("PUT box/b?comp=expiry")
            .header("x-ms-expiry-option", "RelativeToNow")
            .header("x-ms-expiry-time", "600000"),
        FindBlobsByTags => Request::new("GET ?comp=blobs").parameter("where", "a = '1'"),
        FindBlobsByTagsInContainer => {
            Request::new("GET box?restype=container&comp=blobs").parameter("where", "a = '1'")
        }
        GetBlobTags => Request::new("GET box/b?comp=tags"),
        SetBlobTags => Request::new("PUT box/b?comp=tags").body("<Tags><TagSet /></Tags>"),
        ListBlobs => Request::new("GET box?restype=container&comp=list"),
        PutBlockBlob => Request::new("PUT box/b").header("x-ms-blob-type", "BlockBlob").body("other content"),
        GetBlob => Request::new("GET box/b"),
        GetBlobProperties => Request::new("HEAD box/b"),
        DeleteBlob => Request::new("DELETE box/b"),
        SnapshotBlob => Request::new("PUT box/b?comp=snapshot"),
        UndeleteBlob => Request::new("PUT box/b?comp=undelete"),
        ListQueues => queue("GET ?comp=list"),
        CreateQueue => queue("PUT new-line"),
        DeleteQueue => queue("DELETE line"),
        GetQueueMetadata => queue("GET line?comp=metadata"),
        SetQueueMetadata => queue("PUT line?comp=metadata").header("x-ms-meta-a", "1"),
        GetQueueAcl => queue("GET line?comp=acl"),
        SetQueueAcl => queue("PUT line?comp=acl").body("<SignedIdentifiers />"),
        PutMessage => queue("POST line/messages").body(message("again")),
        GetMessages => queue("GET line/messages"),
        PeekMessages => queue("GET line/messages?peekonly=true"),
        ClearMessages => queue("DELETE line/messages"),
        UpdateMessage => {
            let line = format!("PUT line/messages/{MESSAGE_ID}?popreceipt={POP_RECEIPT}&visibilitytimeout=10");
            queue(&line).body(message("other"))
        }
        DeleteMessage => queue(&format!("DELETE line/messages/{MESSAGE_ID}?popreceipt={POP_RECEIPT}")),
        QueryTables => table("GET Tables"),
        CreateTable => table("POST Tables").body(r#"{"TableName":"places"}"#),
        GetTable => table("GET Tables('people')"),
        DeleteTable => table("DELETE Tables('people')"),
        GetTableAcl => Request::new("GET people?comp=acl").of(Service::Table),
        SetTableAcl => Request::new("PUT people?comp=acl").of(Service::Table).body("<SignedIdentifiers />"),
        QueryEntities => table("GET people()"),
        InsertEntity => table("POST people").body(r#"{"PartitionKey":"a","RowKey":"c"}"#),
        GetEntity => table(&format!("GET {ENTITY}")),
        UpdateEntity => table(&format!("PUT {ENTITY}")).header("If-Match", "*").body(CHANGED),
        InsertOrReplaceEntity => table(&format!("PUT {ENTITY}")).body(CHANGED),
        MergeEntity => table(&format!("PATCH {ENTITY}")).header("If-Match", "*").body(CHANGED),
        InsertOrMergeEntity => table(&format!("PATCH {ENTITY}")).body(CHANGED),
        DeleteEntity => table(&format!("DELETE {ENTITY}")).header("If-Match", "*"),
        // A query, which the weakest token may make; what a token needs for the writes of a batch is in `tables.rs`.
        SubmitTransaction => Request::new("POST $batch")
            .of(Service::Table)
            .header("Content-Type", "multipart/mixed; boundary=b")
            .body(format!(
                "--b\r\nContent-Type: application/http\r\n\r\nGET /devstoreaccount1/{ENTITY} HTTP/1.1\r\n\r\n--b--"
            )),
        CreateShare => file("PUT new-share?restype=share").header("x-ms-share-quota", "17"),
        GetShareProperties => file("GET share?restype=share"),
        GetShareMetadata => file("GET share?restype=share&comp=metadata"),
        SetShareProperties => file("PUT share?restype=share&comp=properties").header("x-ms-access-tier", "Hot"),
        SetShareMetadata => file("PUT share?restype=share&comp=metadata").header("x-ms-meta-a", "1"),
        DeleteShare => file("DELETE share?restype=share"),
        SnapshotShare => file("PUT share?restype=share&comp=snapshot"),
        GetShareAcl => file("GET share?restype=share&comp=acl"),
        SetShareAcl => file("PUT share?restype=share&comp=acl").body("<SignedIdentifiers />"),
        CreateSharePermission => {
            file("PUT share?restype=share&comp=filepermission").body(r#"{"permission":"O:SYG:SYD:(A;;FA;;;SY)"}"#)
        }
        GetSharePermission => file("GET share?restype=share&comp=filepermission")
            .header("x-ms-file-permission-key", default_permission(true).0.to_string()),
        GetShareStats => file("GET share?restype=share&comp=stats"),
        CreateDirectory => file("PUT share/new?restype=directory"),
        GetDirectoryProperties => file("GET share/d?restype=directory"),
        GetDirectoryMetadata => file("GET share/d?restype=directory&comp=metadata"),
        SetDirectoryProperties => {
            file("PUT share/d?restype=directory&comp=properties").header("x-ms-file-attributes", "Hidden")
        }
        SetDirectoryMetadata => file("PUT share/d?restype=directory&comp=metadata").header("x-ms-meta-a", "1"),
        DeleteDirectory => file("DELETE share/d?restype=directory"),
        RenameDirectory => {
            file("PUT share/e?restype=directory&comp=rename").header("x-ms-file-rename-source", format!("{SHARE}/d"))
        }
        ListDirectory => file("GET share?restype=directory&comp=list"),
        CreateFile => file("PUT share/f").header("x-ms-type", "file").header("x-ms-content-length", "2"),
        GetFile => file("GET share/f"),
        GetFileProperties => file("HEAD share/f"),
        GetFileMetadata => file("GET share/f?comp=metadata"),
        SetFileProperties => file("PUT share/f?comp=properties").header("x-ms-content-type", "text/plain"),
        SetFileMetadata => file("PUT share/f?comp=metadata").header("x-ms-meta-a", "1"),
        DeleteFile => file("DELETE share/f"),
        RenameFile => file("PUT share/g?comp=rename").header("x-ms-file-rename-source", format!("{SHARE}/f")),
        PutRange => {
            file("PUT share/f?comp=range").header("x-ms-write", "update").header("x-ms-range", "bytes=1-2").body("hi")
        }
        PutRangeFromUrl => file("PUT share/f?comp=range")
            .header("x-ms-write", "update")
            .header("x-ms-range", "bytes=1-2")
            .header("x-ms-source-range", "bytes=5-6")
            .header("x-ms-copy-source", SOURCE_ELSEWHERE),
        CopyFile => file("PUT share/f").header("x-ms-copy-source", SOURCE_ELSEWHERE),
        AbortCopyFile => file(&format!("PUT share/f?comp=copy&copyid={COPY_ID}")).header("x-ms-copy-action", "abort"),
        ListRanges => file("GET share/f?comp=rangelist"),
        ListHandles => file("GET share/f?comp=listhandles"),
        ForceCloseHandles => file("PUT share/f?comp=forceclosehandles").header("x-ms-handle-id", "*"),
        CreateSymbolicLink => file("PUT nfs/s?restype=symboliclink").header("x-ms-link-text", "where"),
        GetSymbolicLink => file("GET nfs/link?restype=symboliclink"),
        CreateHardLink => {
            file("PUT nfs/h?restype=hardlink").header("x-ms-type", "file").header("x-ms-file-target-file", "/link")
        }
        id => panic!("{id:?} is built and has no example yet"),
    }
}

pub const ENTITY: &str = "people(PartitionKey='a',RowKey='b')";
const CHANGED: &str = r#"{"Email":"new@example.org"}"#;

/// What was deleted is named by the moment of its deletion.
fn deletion() -> String {
    let deleted = Timestamp::parse_iso8601("2026-01-02T03:04:25Z").expect("a time");
    format!("{:016X}", deleted.ticks())
}

/// A request that chooses the row, made from its columns alone.
pub fn chosen(service: Service, row: &Operation) -> Request {
    let path = match row.on {
        Resource::Anything | Resource::Account => "",
        Resource::Container => "box",
        Resource::Blob => "box/b",
        Resource::Queue => "line",
        Resource::Messages => "line/messages",
        Resource::Message => "line/messages/01234567-89ab-cdef-0123-456789abcdef",
        Resource::Tables => "Tables",
        Resource::Table => "Tables('people')",
        Resource::Entities => "people",
        Resource::Entity => "people(PartitionKey='a',RowKey='b')",
        Resource::TableBatch => "$batch",
        Resource::Share => "share",
        Resource::Directory => "share/directory",
        Resource::File => "share/file",
    };
    let mut request = Request::new(&format!("{} {path}", row.methods[0].name())).of(service);
    for (name, value) in [("restype", row.chosen_by.restype), ("comp", row.chosen_by.comp)] {
        request.query.extend(value.map(|value| (name.to_string(), value.to_string())));
    }
    for test in row.chosen_by.tests {
        request = match test {
            Test::HeaderIs(name, value) => request.header(name, *value),
            Test::HeaderSent(name) => request.header(name, "*"),
            Test::QueryIs(name, value) => {
                request.query.push((name.to_string(), value.to_string()));
                request
            }
            Test::QuerySent(name) => {
                request.query.push((name.to_string(), "1".into()));
                request
            }
            Test::HeaderNotSent(_) | Test::QueryIsNot(..) | Test::QueryNotSent(_) => request,
        };
    }
    request
}

/// ETag and Last-Modified of what the operation works on.
pub async fn current(world: &World, row: &Operation) -> (String, String) {
    let container = Request::new("GET box?restype=container");
    let request = match row.on {
        Resource::Blob => Request::new("HEAD box/b"),
        Resource::Entity | Resource::Entities => table(&format!("GET {ENTITY}")),
        Resource::Share => file("GET share?restype=share"),
        Resource::Directory => file("GET share/d?restype=directory"),
        Resource::File if row.id == OperationId::GetSymbolicLink => file("HEAD nfs/link"),
        Resource::File => file("HEAD share/f"),
        _ => container.clone(),
    };
    let answer = world.send(&request).await;
    let header = |answer: &Answer, name| answer.header(name).map(str::to_string);
    // Entities have no date but the one in their ETag.
    let modified = match header(&answer, "last-modified") {
        Some(modified) => modified,
        None => header(&world.send(&container).await, "last-modified").expect("a container has it"),
    };
    (header(&answer, "etag").expect("what is there has it"), modified)
}

/// Everything a client can see, to prove that a refused request changed nothing.
pub async fn everything(world: &World) -> String {
    let mut seen = String::new();
    for line in
        ["GET ?comp=list&include=metadata", "GET box?restype=container&comp=list&include=metadata,tags", "GET box/b"]
    {
        let answer: Answer = world.send(&Request::new(line)).await;
        seen.push_str(answer.header("etag").unwrap_or_default());
        // A refusal has the number of its request in it.
        seen.push_str(&if answer.status < 300 { answer.text() } else { answer.code().to_string() });
    }
    for line in ["GET ?comp=list&include=metadata", "GET line?comp=acl", "GET line/messages?peekonly=true"] {
        seen.push_str(&world.send(&queue(line)).await.text());
    }
    let metadata = world.send(&queue("GET line?comp=metadata")).await;
    seen.push_str(metadata.header("x-ms-approximate-messages-count").unwrap_or("no queue"));
    for line in ["GET Tables", "GET people()"] {
        seen.push_str(&world.send(&table(line)).await.text());
    }
    for line in [
        "GET ?comp=list&include=metadata,snapshots,deleted",
        "GET share?restype=share&comp=acl",
        "GET share?restype=directory&comp=list&include=Timestamps,Etag,Attributes,PermissionKey",
        "GET share/f",
    ] {
        let answer = world.send(&file(line)).await;
        seen.push_str(answer.header("etag").unwrap_or_default());
        seen.push_str(&if answer.status < 300 { answer.text() } else { answer.code().to_string() });
    }
    seen
}
