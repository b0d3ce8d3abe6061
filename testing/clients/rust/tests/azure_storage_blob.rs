//! The official client. It takes tokens of the directory or a URL with a SAS; here it gets an account SAS.

use std::collections::HashMap;

use azure_core::http::{Etag, RequestContent, StatusCode, Url};
use azure_storage_blob::{
    BlobContainerClient, BlobServiceClient, StorageError,
    models::{
        BlobClientDeleteOptions, BlobClientDownloadOptions, BlobClientGetPropertiesOptions,
        BlobClientGetPropertiesResultHeaders, BlobContainerClientGetPropertiesResultHeaders,
        BlobContainerClientListBlobsOptions, BlockBlobClientUploadOptions, StorageErrorCode,
    },
};
use futures::TryStreamExt;
use lazuli_clients::{account_sas, endpoint, fresh_name, provide_tls};

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
