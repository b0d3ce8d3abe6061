//! `object_store`, through which DataFusion, Delta Lake, Polars and others reach the service. It signs with the key.

use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use lazuli_clients::{ACCOUNT, KEY, endpoint, fresh_name, http, make_container, other_endpoints};
use object_store::{
    ClientOptions, Error, GetOptions, GetRange, MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutPayload,
    UpdateVersion,
    azure::{MicrosoftAzure, MicrosoftAzureBuilder},
    client::{HttpClient, HttpConnector},
    path::Path,
};

/// This client cannot make containers.
async fn container(word: &str) -> String {
    let name = fresh_name(word);
    make_container(&endpoint(), &name).await;
    name
}

async fn store(word: &str) -> MicrosoftAzure {
    let name = container(word).await;
    MicrosoftAzureBuilder::new()
        .with_endpoint(endpoint())
        .with_allow_http(true)
        .with_account(ACCOUNT)
        .with_access_key(KEY)
        .with_container_name(name)
        .build()
        .expect("a store")
}

fn payload(bytes: &[u8]) -> PutPayload {
    Bytes::copy_from_slice(bytes).into()
}

async fn read(store: &MicrosoftAzure, path: &Path) -> Bytes {
    store.get(path).await.expect("found").bytes().await.expect("a body")
}

#[tokio::test]
async fn round_trips_and_ranges() {
    let store = store("round-trips").await;
    for size in [0usize, 1, 1024, 65_536, 3_000_000] {
        let body: Vec<u8> = (0..size).map(|n| (n * 31 % 251) as u8).collect();
        let path = Path::from(format!("dir/ü {size}"));
        let put = store.put(&path, payload(&body)).await.expect("put");
        let meta = store.head(&path).await.expect("found");
        assert_eq!((meta.size, &meta.e_tag), (size as u64, &put.e_tag));
        assert_eq!(read(&store, &path).await, body);
        if size >= 1024 {
            assert_eq!(store.get_range(&path, 10..1000).await.expect("a range"), body[10..1000]);
            let options = GetOptions { range: Some(GetRange::Offset(size as u64 - 5)), ..Default::default() };
            let tail = store.get_opts(&path, options).await.expect("a range").bytes().await.expect("a body");
            assert_eq!(tail, body[size - 5..]);
        }
    }
}

#[tokio::test]
async fn create_and_update() {
    let store = store("update").await;
    let path = Path::from("b");
    let first = store.put_opts(&path, payload(b"1"), PutMode::Create.into()).await.expect("created");
    let again = store.put_opts(&path, payload(b"2"), PutMode::Create.into()).await;
    assert!(matches!(again, Err(Error::AlreadyExists { .. })), "{again:?}");
    let update = |version: UpdateVersion| PutMode::Update(version).into();
    let second = store.put_opts(&path, payload(b"2"), update(first.clone().into())).await.expect("updated");
    let stale = store.put_opts(&path, payload(b"3"), update(first.into())).await;
    assert!(matches!(stale, Err(Error::Precondition { .. })), "{stale:?}");
    assert_eq!(read(&store, &path).await, "2");

    let if_match = GetOptions { if_match: second.e_tag.clone(), ..Default::default() };
    store.get_opts(&path, if_match).await.expect("equal");
    let unchanged = GetOptions { if_none_match: second.e_tag, ..Default::default() };
    let unchanged = store.get_opts(&path, unchanged).await;
    assert!(matches!(unchanged, Err(Error::NotModified { .. })), "{unchanged:?}");
    assert!(matches!(store.get(&Path::from("absent")).await, Err(Error::NotFound { .. })));
}

#[tokio::test]
async fn writers_that_compete() {
    let store = Arc::new(store("compete").await);
    let path = Path::from("counter");
    store.put(&path, payload(b"0")).await.expect("put");
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let (store, path) = (Arc::clone(&store), path.clone());
            tokio::spawn(async move {
                for _ in 0..10 {
                    loop {
                        let seen = store.get(&path).await.expect("found");
                        let version = UpdateVersion { e_tag: seen.meta.e_tag.clone(), version: None };
                        let value: u32 =
                            String::from_utf8_lossy(&seen.bytes().await.expect("a body")).parse().expect("a number");
                        let next = payload((value + 1).to_string().as_bytes());
                        match store.put_opts(&path, next, PutMode::Update(version).into()).await {
                            Ok(_) => break,
                            Err(Error::Precondition { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.expect("no panic");
    }
    assert_eq!(read(&store, &path).await, "80");
}

/// Parts are blocks: nothing is seen of them before the upload is completed, nor after it was given up.
#[tokio::test]
async fn uploads_in_parts() {
    let store = store("parts").await;
    let path = Path::from("dir/large");
    let part = |n: u8| vec![n; 5_000_000 + usize::from(n)];
    let mut upload = store.put_multipart(&path).await.expect("begun");
    let parts: Vec<_> = (1..=4).map(|n| upload.put_part(part(n).into())).collect();
    futures::future::try_join_all(parts).await.expect("parts");
    assert!(matches!(store.head(&path).await, Err(Error::NotFound { .. })));
    let put = upload.complete().await.expect("completed");
    let meta = store.head(&path).await.expect("found");
    assert_eq!((meta.size, meta.e_tag), (20_000_010, put.e_tag));
    assert_eq!(read(&store, &path).await, (1..=4).flat_map(part).collect::<Vec<u8>>());

    let mut given_up = store.put_multipart(&path).await.expect("begun");
    given_up.put_part(part(9).into()).await.expect("a part");
    given_up.abort().await.expect("given up");
    assert_eq!(store.head(&path).await.expect("found").size, 20_000_010);
}

#[tokio::test]
async fn listing() {
    let store = store("listing").await;
    let names = ["a", "a/1", "a/2", "b/c/1", "b/c/2", "z"];
    for name in names {
        store.put(&Path::from(name), payload(name.as_bytes())).await.expect("put");
    }
    let all: Vec<String> =
        store.list(None).map_ok(|meta| meta.location.to_string()).try_collect().await.expect("a listing");
    assert_eq!(all, names);
    let level = store.list_with_delimiter(None).await.expect("a listing");
    assert_eq!(level.objects.iter().map(|meta| meta.location.as_ref()).collect::<Vec<_>>(), ["a", "z"]);
    assert_eq!(level.common_prefixes.iter().map(Path::as_ref).collect::<Vec<_>>(), ["a", "b"]);
    let below = store.list_with_delimiter(Some(&Path::from("b/c"))).await.expect("a listing");
    assert_eq!(below.objects.len(), 2);
}

#[tokio::test]
async fn copies() {
    let store = store("copies").await;
    let (from, to) = (Path::from("dir/from ü"), Path::from("to"));
    store.put(&from, payload(b"content")).await.expect("put");
    store.copy(&from, &to).await.expect("copied");
    assert_eq!(read(&store, &to).await, "content");
    store.copy_if_not_exists(&from, &Path::from("once")).await.expect("copied");
    let again = store.copy_if_not_exists(&from, &Path::from("once")).await;
    assert!(matches!(again, Err(Error::AlreadyExists { .. })), "{again:?}");
    let absent = store.copy(&Path::from("absent"), &to).await;
    assert!(matches!(absent, Err(Error::NotFound { .. })), "{absent:?}");
}

/// This client deletes through Blob Batch, even a single blob.
#[tokio::test]
async fn delete() {
    let store = store("delete").await;
    let path = Path::from("b");
    store.put(&path, payload(b"1")).await.expect("put");
    store.delete(&path).await.expect("deleted");
    assert!(matches!(store.head(&path).await, Err(Error::NotFound { .. })));
}

/// The emulator shortcut: account, key and path style by themselves; only the port is told (by ../with-server).
#[tokio::test]
async fn emulator_settings() {
    assert!(std::env::var("AZURITE_BLOB_STORAGE_URL").is_ok(), "../with-server sets it");
    let store = MicrosoftAzureBuilder::new()
        .with_use_emulator(true)
        .with_container_name(container("emulator").await)
        .build()
        .expect("a store");
    store.put(&Path::from("b"), payload(b"1")).await.expect("put");
    assert_eq!(read(&store, &Path::from("b")).await, "1");
}

#[derive(Debug)]
struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(http("object_store/")))
    }
}

#[tokio::test]
async fn host_style_and_https() {
    for url in other_endpoints() {
        let ways = fresh_name("ways");
        make_container(&url, &ways).await;
        let store = MicrosoftAzureBuilder::new()
            .with_endpoint(url.clone())
            .with_allow_http(true)
            .with_account(ACCOUNT)
            .with_access_key(KEY)
            .with_container_name(ways)
            .with_http_connector(Connector)
            .build()
            .expect("a store");
        let path = Path::from("dir/a b");
        store.put(&path, payload(b"hello")).await.unwrap_or_else(|error| panic!("{url}: {error}"));
        assert_eq!(read(&store, &path).await, "hello");
    }
}
