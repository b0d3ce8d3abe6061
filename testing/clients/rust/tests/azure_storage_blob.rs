//! The official client. It takes tokens of the directory or a URL with a SAS; here it gets an account SAS.

use std::{collections::HashMap, num::NonZero, sync::Arc};

use azure_core::http::{ClientOptions, Etag, RequestContent, StatusCode, Transport, Url};
use azure_storage_blob::{
    BlobClient, BlobContainerClient, BlobServiceClient, BlobServiceClientOptions, StorageError,
    models::{
        AccountKind, AppendBlobClientAppendBlockOptions, AppendBlobClientAppendBlockResultHeaders,
        AppendBlobClientSealOptions, BlobClientAcquireLeaseOptions, BlobClientAcquireLeaseResultHeaders,
        BlobClientBreakLeaseOptions, BlobClientBreakLeaseResultHeaders, BlobClientChangeLeaseResultHeaders,
        BlobClientDeleteOptions, BlobClientDownloadOptions, BlobClientGetAccountInfoResultHeaders,
        BlobClientGetPropertiesOptions, BlobClientGetPropertiesResultHeaders, BlobClientSetMetadataOptions,
        BlobClientSetPropertiesOptions, BlobContainerClientAcquireLeaseResultHeaders, BlobContainerClientDeleteOptions,
        BlobContainerClientGetAccountInfoResultHeaders, BlobContainerClientGetPropertiesResultHeaders,
        BlobContainerClientListBlobsOptions, BlobServiceClientGetAccountInfoResultHeaders,
        BlobServiceClientListContainersOptions, BlobType, BlockBlobClientCommitBlockListOptions,
        BlockBlobClientUploadOptions, BlockListType, BlockLookupList, LeaseState, StorageErrorCode,
    },
};
use futures::{TryStreamExt, future::try_join_all};
use lazuli_clients::{account_sas, endpoint, fresh_name, http, on_azurite, other_endpoints, provide_tls};

fn service(permissions: &str) -> BlobServiceClient {
    provide_tls();
    let url = format!("{}?{}", endpoint(), account_sas(permissions));
    BlobServiceClient::new(Url::parse(&url).expect("a URL"), None, None).expect("a client")
}

async fn container(word: &str) -> BlobContainerClient {
    let client = service("rwdlac").blob_container_client(&fresh_name(word));
    client.create(None).await.expect("a container");
    client
}

fn content(bytes: &[u8]) -> RequestContent<azure_core::Bytes, azure_core::http::NoFormat> {
    RequestContent::from(bytes.to_vec())
}

#[track_caller]
fn refused<T>(outcome: azure_core::Result<T>, status: StatusCode, code: StorageErrorCode) {
    let error = outcome.err().expect("should have been refused");
    assert_eq!(error.http_status(), Some(status), "{error}");
    let error: StorageError = error.try_into().expect("an answer of the service");
    assert_eq!(error.error_code, Some(code));
}

#[tokio::test]
async fn containers() {
    let container = container("containers").await;
    refused(container.create(None).await, StatusCode::Conflict, StorageErrorCode::ContainerAlreadyExists);
    let metadata = HashMap::from([("hello".to_string(), "World".to_string())]);
    container.set_metadata(&metadata, None).await.expect("metadata set");
    assert_eq!(container.get_properties(None).await.expect("properties").metadata().expect("metadata"), metadata);
    assert!(container.exists().await.expect("an answer"));
    container.delete(None).await.expect("deleted");
    assert!(!container.exists().await.expect("an answer"));
    refused(container.get_properties(None).await, StatusCode::NotFound, StorageErrorCode::ContainerNotFound);
}

#[tokio::test]
async fn round_trips() {
    let container = container("round-trips").await;
    for size in [0usize, 1, 1024, 65_536, 3_000_000] {
        let body: Vec<u8> = (0..size).map(|n| (n * 31 % 251) as u8).collect();
        let blob = container.blob_client(&format!("dir/size {size}"));
        let put = blob.upload(content(&body), None).await.expect("uploaded");
        let answer = blob.download(None).await.expect("downloaded");
        assert_eq!(answer.properties.etag, put.etag);
        assert_eq!(answer.body.collect().await.expect("a body").as_ref(), body);
        let seen = blob.get_properties(None).await.expect("properties");
        assert_eq!(seen.content_length().expect("a header"), Some(size as u64));
        assert_eq!(seen.etag().expect("a header"), put.etag);
    }
    container.delete(None).await.expect("deleted");
}

#[tokio::test]
async fn conditions() {
    let container = container("conditions").await;
    let blob = container.blob_client("b");
    let first = blob.upload(content(b"1"), None).await.expect("uploaded").etag.expect("an ETag");
    let if_match = |etag: &Etag| BlockBlobClientUploadOptions { if_match: Some(etag.clone()), ..Default::default() };
    let create_only = BlockBlobClientUploadOptions { if_none_match: Some("*".into()), ..Default::default() };

    let outcome = blob.upload(content(b"2"), Some(create_only)).await;
    refused(outcome, StatusCode::Conflict, StorageErrorCode::BlobAlreadyExists);
    let second = blob.upload(content(b"2"), Some(if_match(&first))).await.expect("equal").etag.expect("an ETag");
    assert_ne!(first, second);
    let outcome = blob.upload(content(b"3"), Some(if_match(&first))).await;
    refused(outcome, StatusCode::PreconditionFailed, StorageErrorCode::ConditionNotMet);

    let unchanged = BlobClientDownloadOptions { if_none_match: Some(second.clone()), ..Default::default() };
    let error = blob.download(Some(unchanged)).await.err().expect("not modified");
    assert_eq!(error.http_status(), Some(StatusCode::NotModified));
    let stale = BlobClientGetPropertiesOptions { if_match: Some(first.clone()), ..Default::default() };
    let error = blob.get_properties(Some(stale)).await.err().expect("stale");
    assert_eq!(error.http_status(), Some(StatusCode::PreconditionFailed));

    let stale = BlobClientDeleteOptions { if_match: Some(first), ..Default::default() };
    refused(blob.delete(Some(stale)).await, StatusCode::PreconditionFailed, StorageErrorCode::ConditionNotMet);
    let right = BlobClientDeleteOptions { if_match: Some(second), ..Default::default() };
    blob.delete(Some(right)).await.expect("deleted");
    refused(blob.download(None).await, StatusCode::NotFound, StorageErrorCode::BlobNotFound);
    container.delete(None).await.expect("deleted");
}

#[tokio::test]
async fn listing() {
    let container = container("listing").await;
    let mut names = vec!["a b", "a/1", "a/2", "b", "ü", "100%", "x&<y>"];
    for name in &names {
        container.blob_client(name).upload(content(name.as_bytes()), None).await.expect("uploaded");
    }
    names.sort();
    let list = async |options| -> Vec<String> {
        let blobs = container.list_blobs(Some(options)).expect("a pager");
        blobs.map_ok(|blob| blob.name.expect("a name")).try_collect().await.expect("a listing")
    };
    assert_eq!(list(BlobContainerClientListBlobsOptions::default()).await, names);
    let pages = BlobContainerClientListBlobsOptions { maxresults: Some(2), ..Default::default() };
    assert_eq!(list(pages).await, names);
    let prefix = BlobContainerClientListBlobsOptions { prefix: Some("a/".into()), ..Default::default() };
    assert_eq!(list(prefix).await, ["a/1", "a/2"]);
    container.delete(None).await.expect("deleted");
}

#[tokio::test]
async fn a_token_that_may_only_read() {
    let container = container("read-only").await;
    container.blob_client("b").upload(content(b"content"), None).await.expect("uploaded");
    let name = container.url().path_segments().expect("segments").next_back().expect("a name").to_string();
    let blob = service("r").blob_client(&name, "b");
    assert_eq!(blob.download(None).await.expect("may read").body.collect().await.expect("a body").as_ref(), b"content");
    let outcome = blob.upload(content(b"changed"), None).await;
    refused(outcome, StatusCode::Forbidden, StorageErrorCode::AuthorizationPermissionMismatch);
    container.delete(None).await.expect("deleted");
}

const MINE: &str = "11111111-2222-4333-8444-555555555555";
const OTHER: &str = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee";

async fn text(blob: &BlobClient) -> String {
    let body = blob.download(None).await.expect("downloaded").body.collect().await.expect("a body");
    String::from_utf8(body.to_vec()).expect("text")
}

async fn lease_state(blob: &BlobClient) -> Option<LeaseState> {
    blob.get_properties(None).await.expect("properties").lease_state().expect("a header")
}

/// B6: one holder. B7: without its id nothing is written.
#[tokio::test]
async fn leases_of_blobs() {
    let container = container("leases").await;
    let blob = container.blob_client("b");
    let etag = blob.upload(content(b"1"), None).await.expect("uploaded").etag;

    let mine = BlobClientAcquireLeaseOptions { proposed_lease_id: Some(MINE.into()), ..Default::default() };
    let lease = blob.acquire_lease(60, Some(mine)).await.expect("acquired").lease_id().expect("a header");
    assert_eq!(lease.as_deref(), Some(MINE));
    let outcome = blob.acquire_lease(15, None).await;
    refused(outcome, StatusCode::Conflict, StorageErrorCode::LeaseAlreadyPresent);
    blob.renew_lease(MINE.into(), None).await.expect("renewed");

    let under = |lease: &str| BlockBlobClientUploadOptions { lease_id: Some(lease.into()), ..Default::default() };
    let without = blob.upload(content(b"2"), None).await;
    refused(without, StatusCode::PreconditionFailed, StorageErrorCode::LeaseIdMissing);
    let wrong = blob.upload(content(b"2"), Some(under(OTHER))).await;
    refused(wrong, StatusCode::PreconditionFailed, StorageErrorCode::LeaseIdMismatchWithBlobOperation);
    let read = BlobClientDownloadOptions { lease_id: Some(OTHER.into()), ..Default::default() };
    let wrong = blob.download(Some(read)).await;
    refused(wrong, StatusCode::PreconditionFailed, StorageErrorCode::LeaseIdMismatchWithBlobOperation);
    assert_eq!(text(&blob).await, "1");
    assert_eq!(blob.get_properties(None).await.expect("properties").etag().expect("a header"), etag);

    blob.upload(content(b"2"), Some(under(MINE))).await.expect("with the id");
    let metadata = HashMap::from([("a".to_string(), "1".to_string())]);
    refused(blob.set_metadata(&metadata, None).await, StatusCode::PreconditionFailed, StorageErrorCode::LeaseIdMissing);
    let with_id = BlobClientSetMetadataOptions { lease_id: Some(MINE.into()), ..Default::default() };
    blob.set_metadata(&metadata, Some(with_id)).await.expect("with the id");

    let changed = blob.change_lease(MINE.into(), OTHER.into(), None).await.expect("changed");
    assert_eq!(changed.lease_id().expect("a header").as_deref(), Some(OTHER));
    let old = blob.release_lease(MINE.into(), None).await;
    refused(old, StatusCode::Conflict, StorageErrorCode::LeaseIdMismatchWithLeaseOperation);
    let long = BlobClientBreakLeaseOptions { break_period: Some(60), ..Default::default() };
    let left = blob.break_lease(Some(long)).await.expect("breaking").lease_time().expect("a header");
    assert!(left.is_some_and(|seconds| (1..=60).contains(&seconds)), "{left:?}");
    assert_eq!(lease_state(&blob).await, Some(LeaseState::Breaking));
    let at_once = BlobClientBreakLeaseOptions { break_period: Some(0), ..Default::default() };
    blob.break_lease(Some(at_once)).await.expect("broken");
    assert_eq!(lease_state(&blob).await, Some(LeaseState::Broken));
    if on_azurite() {
        return; // it calls a lost lease one that is not present
    }
    let lost = blob.upload(content(b"3"), Some(under(OTHER))).await;
    refused(lost, StatusCode::PreconditionFailed, StorageErrorCode::LeaseLost);

    let lease = blob.acquire_lease(-1, None).await.expect("acquired").lease_id().expect("a header").expect("an id");
    blob.release_lease(lease, None).await.expect("released");
    blob.delete(None).await.expect("deleted");
    container.delete(None).await.expect("deleted");
}

#[tokio::test]
async fn one_of_many_acquires_the_lease() {
    let container = container("one-holder").await;
    let blob = container.blob_client("b");
    blob.upload(content(b"1"), None).await.expect("uploaded");
    let outcomes = futures::future::join_all((0..16).map(|_| blob.acquire_lease(60, None))).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    for outcome in outcomes.into_iter().filter(|outcome| outcome.is_err()) {
        refused(outcome, StatusCode::Conflict, StorageErrorCode::LeaseAlreadyPresent);
    }
    container.delete(None).await.expect("deleted");
}

/// B9: the lease of a container guards its deletion.
#[tokio::test]
async fn leases_of_containers() {
    let container = container("container-lease").await;
    let lease =
        container.acquire_lease(15, None).await.expect("acquired").lease_id().expect("a header").expect("an id");
    container.renew_lease(lease.clone(), None).await.expect("renewed");
    container.change_lease(lease, MINE.into(), None).await.expect("changed");
    container.blob_client("b").upload(content(b"1"), None).await.expect("blobs are free");
    refused(container.delete(None).await, StatusCode::PreconditionFailed, StorageErrorCode::LeaseIdMissing);
    container.break_lease(None).await.expect("breaking");
    container.release_lease(MINE.into(), None).await.expect("released");
    let lease =
        container.acquire_lease(-1, None).await.expect("acquired").lease_id().expect("a header").expect("an id");
    container.break_lease(None).await.expect("an infinite lease breaks at once");
    if !on_azurite() {
        let lost = BlobContainerClientDeleteOptions { lease_id: Some(lease), ..Default::default() };
        let outcome = container.delete(Some(lost)).await;
        refused(outcome, StatusCode::PreconditionFailed, StorageErrorCode::LeaseLost);
    }
    container.delete(None).await.expect("deleted");
}

#[tokio::test]
async fn blocks() {
    let container = container("blocks").await;
    let blob = container.blob_client("b");
    let blocks = blob.block_blob_client();
    let stage = async |id: &[u8], text: &str| {
        blocks.stage_block(id, text.len() as u64, content(text.as_bytes()), None).await.map(drop)
    };
    try_join_all([("1", "one "), ("2", "two "), ("3", "three ")].map(|(id, text)| stage(id.as_bytes(), text)))
        .await
        .expect("staged");
    refused(blob.download(None).await, StatusCode::NotFound, StorageErrorCode::BlobNotFound);

    let latest = |ids: &[&str]| {
        let ids = ids.iter().map(|id| id.as_bytes().to_vec()).collect();
        BlockLookupList { latest: Some(ids), ..Default::default() }
    };
    let commit = async |list: BlockLookupList, options| {
        blocks.commit_block_list(list.try_into().expect("XML"), options).await.map(drop)
    };
    commit(latest(&["1", "2", "3"]), None).await.expect("committed");
    assert_eq!(text(&blob).await, "one two three ");

    stage(b"2", "TWO ").await.expect("staged");
    stage(b"4", "FOUR ").await.expect("staged");
    let list = blocks.get_block_list(BlockListType::All, None).await.expect("a list").into_model().expect("XML");
    let names = |list: Option<Vec<azure_storage_blob::models::Block>>| -> Vec<(Vec<u8>, i64)> {
        let each = list.unwrap_or_default().into_iter();
        each.map(|block| (block.name.expect("a name"), block.size.expect("a size"))).collect()
    };
    let expected = [("1", 4), ("2", 4), ("3", 6)].map(|(id, size)| (id.as_bytes().to_vec(), size));
    assert_eq!(names(list.committed_blocks), expected);
    let expected = [("2", 4), ("4", 5)].map(|(id, size)| (id.as_bytes().to_vec(), size));
    assert_eq!(names(list.uncommitted_blocks), expected);

    // A block is looked for where the list says, and nowhere else.
    let only = |id: &str| Some(vec![id.as_bytes().to_vec()]);
    for wrong in [
        BlockLookupList { committed: only("4"), ..Default::default() },
        BlockLookupList { uncommitted: only("1"), ..Default::default() },
        latest(&["5"]),
    ] {
        refused(commit(wrong, None).await, StatusCode::BadRequest, StorageErrorCode::InvalidBlockList);
    }
    assert_eq!(text(&blob).await, "one two three ");
    let stale = BlockBlobClientCommitBlockListOptions { if_match: Some("\"0x1\"".into()), ..Default::default() };
    let outcome = commit(latest(&["4"]), Some(stale)).await;
    refused(outcome, StatusCode::PreconditionFailed, StorageErrorCode::ConditionNotMet);
    let old = BlockLookupList { committed: only("2"), ..Default::default() };
    commit(old, None).await.expect("committed");
    assert_eq!(text(&blob).await, "two ");

    // What the client cuts by itself.
    let body: Vec<u8> = (0..3_000_000u32).map(|n| (n * 31 % 251) as u8).collect();
    let cut = BlockBlobClientUploadOptions {
        parallel: NonZero::new(4),
        partition_size: NonZero::new(1 << 20),
        ..Default::default()
    };
    blob.upload(content(&body), Some(cut)).await.expect("uploaded");
    assert_eq!(blob.download(None).await.expect("downloaded").body.collect().await.expect("a body").as_ref(), body);
    let list = blocks.get_block_list(BlockListType::Committed, None).await.expect("a list").into_model().expect("XML");
    assert_eq!(list.committed_blocks.expect("blocks").len(), 3);
    container.delete(None).await.expect("deleted");
}

#[tokio::test]
async fn append_blobs() {
    let container = container("append").await;
    let blob = container.blob_client("log");
    let log = blob.append_blob_client();
    log.create(None).await.expect("created");
    let words = ["one ", "two ", "three "];
    let mut length = 0;
    for (n, word) in (1..).zip(words) {
        let at = AppendBlobClientAppendBlockOptions { append_position: Some(length), ..Default::default() };
        let answer = log.append_block(content(word.as_bytes()), word.len() as u64, Some(at)).await.expect("appended");
        assert_eq!(answer.blob_append_offset().expect("a header"), Some(length.to_string()));
        assert_eq!(answer.blob_committed_block_count().expect("a header"), Some(n));
        length += word.len() as i64;
    }
    let elsewhere = AppendBlobClientAppendBlockOptions { append_position: Some(1), ..Default::default() };
    let outcome = log.append_block(content(b"x"), 1, Some(elsewhere)).await;
    refused(outcome, StatusCode::PreconditionFailed, StorageErrorCode::AppendPositionConditionNotMet);
    let too_much = AppendBlobClientAppendBlockOptions { max_size: Some(length), ..Default::default() };
    let outcome = log.append_block(content(b"x"), 1, Some(too_much)).await;
    refused(outcome, StatusCode::PreconditionFailed, StorageErrorCode::MaxBlobSizeConditionNotMet);
    assert_eq!(text(&blob).await, words.concat());

    if on_azurite() {
        return; // it has no seal
    }
    let end = AppendBlobClientSealOptions { append_position: Some(length), ..Default::default() };
    log.seal(Some(end)).await.expect("sealed");
    let error = log.append_block(content(b"x"), 1, None).await.err().expect("sealed");
    let error: StorageError = error.try_into().expect("an answer of the service");
    assert_eq!(error.error_code.as_ref().map(AsRef::as_ref), Some("BlobIsSealed"));
    let seen = blob.get_properties(None).await.expect("properties");
    assert_eq!(seen.blob_type().expect("a header"), Some(BlobType::AppendBlob));
    assert_eq!(seen.is_sealed().expect("a header"), Some(true));
    container.delete(None).await.expect("deleted");
}

#[tokio::test]
async fn metadata_and_properties() {
    let container = container("properties").await;
    let blob = container.blob_client("b");
    blob.upload(content(b"0123456789"), None).await.expect("uploaded");
    let metadata = HashMap::from([("hello".to_string(), "World".to_string())]);
    blob.set_metadata(&metadata, None).await.expect("set");
    let properties = BlobClientSetPropertiesOptions {
        blob_content_type: Some("text/plain".into()),
        blob_content_language: Some("de".into()),
        ..Default::default()
    };
    blob.set_properties(Some(properties)).await.expect("set");
    let seen = blob.get_properties(None).await.expect("properties");
    assert_eq!(seen.metadata().expect("metadata"), metadata);
    assert_eq!(seen.content_type().expect("a header").as_deref(), Some("text/plain"));
    assert_eq!(seen.content_language().expect("a header").as_deref(), Some("de"));
    let part = BlobClientDownloadOptions { range: Some((2u64..5).into()), ..Default::default() };
    let part = blob.download(Some(part)).await.expect("downloaded").body.collect().await.expect("a body");
    assert_eq!(part.as_ref(), b"234");
    container.delete(None).await.expect("deleted");
}

#[tokio::test]
async fn the_account() {
    let service = service("rwdlac");
    let container = container("account").await;
    let name = container.url().path_segments().expect("segments").next_back().expect("a name").to_string();
    let options = BlobServiceClientListContainersOptions { prefix: Some(name.clone()), ..Default::default() };
    let listed: Vec<_> = service.list_containers(Some(options)).expect("a pager").try_collect().await.expect("a list");
    assert_eq!(listed.iter().map(|one| one.name.as_deref()).collect::<Vec<_>>(), [Some(name.as_str())]);

    let kinds = [
        BlobServiceClientGetAccountInfoResultHeaders::account_kind(
            &service.get_account_info(None).await.expect("told"),
        ),
        BlobContainerClientGetAccountInfoResultHeaders::account_kind(
            &container.get_account_info(None).await.expect("told"),
        ),
        BlobClientGetAccountInfoResultHeaders::account_kind(
            &container.blob_client("b").get_account_info(None).await.expect("told"),
        ),
    ];
    assert_eq!(kinds.map(|kind| kind.expect("a header")), [const { Some(AccountKind::StorageV2) }; 3]);

    let properties = service.get_properties(None).await.expect("properties").into_model().expect("XML");
    service.set_properties(properties.try_into().expect("XML"), None).await.expect("set as they are");
    container.delete(None).await.expect("deleted");
}

#[tokio::test]
async fn host_style_and_https() {
    for url in other_endpoints() {
        let transport = Some(Transport::new(Arc::new(http("azsdk-rust-storage_blob"))));
        let options = BlobServiceClientOptions {
            client_options: ClientOptions { transport, ..Default::default() },
            ..Default::default()
        };
        let with_token = Url::parse(&format!("{url}?{}", account_sas("rwdlac"))).expect("a URL");
        let service = BlobServiceClient::new(with_token, None, Some(options)).expect("a client");
        let container = service.blob_container_client(&fresh_name("ways"));
        container.create(None).await.unwrap_or_else(|error| panic!("{url}: {error}"));
        let blob = container.blob_client("dir/a b");
        blob.upload(content(b"hello"), None).await.expect("uploaded");
        assert_eq!(text(&blob).await, "hello");
        container.delete(None).await.expect("deleted");
    }
}
