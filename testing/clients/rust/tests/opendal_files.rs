//! opendal's `azfile` service: everything it can do, which is less than the service can.

use std::collections::HashMap;

use futures::TryStreamExt;
use lazuli_clients::{ACCOUNT, KEY, file_endpoint, fresh_name, http, make_share, on_azurite, other_file_endpoints};
use opendal::{EntryMode, ErrorKind, Operator, layers::HttpClientLayer, raw::HttpClient, services::Azfile};

/// Nobody made the directory that is its root: it does so itself, if it is not below another.
async fn operator_at(endpoint: &str, word: &str) -> Operator {
    let name = fresh_name(word);
    make_share(endpoint, &name).await;
    let service =
        Azfile::default().endpoint(endpoint).account_name(ACCOUNT).account_key(KEY).share_name(&name).root("/base ü");
    // It goes by no name of its own.
    let client = HttpClient::with(http("opendal/0.57"));
    Operator::new(service).expect("an operator").layer(HttpClientLayer::new(client)).finish()
}

/// The peer has no files.
async fn operator(word: &str) -> Option<Operator> {
    if on_azurite() { None } else { Some(operator_at(&file_endpoint(), word).await) }
}

fn body(size: usize) -> Vec<u8> {
    (0..size).map(|n| (n * 31 % 251) as u8).collect()
}

#[tokio::test]
async fn writes_and_reads() {
    let Some(operator) = operator("writes").await else { return };
    // As much as one range takes: it sends a file at once.
    for size in [1usize, 1024, 65_536, 4 << 20] {
        let (path, body) = (format!("dir/deep/ü +{size}"), body(size));
        operator.write(&path, body.clone()).await.expect("written");
        assert_eq!(operator.read(&path).await.expect("read").to_vec(), body);
        let seen = operator.stat(&path).await.expect("found");
        assert_eq!((seen.mode(), seen.content_length()), (EntryMode::FILE, size as u64));
        assert!(seen.etag().is_some() && seen.last_modified().is_some());
        if size >= 1024 {
            let part = operator.read_with(&path).range(10..1000).await.expect("a part");
            assert_eq!(part.to_vec(), body[10..1000]);
            let rest = operator.read_with(&path).range(size as u64 - 5..).await.expect("a part");
            assert_eq!(rest.to_vec(), body[size - 5..]);
            let reader = operator.reader_with(&path).chunk(100_000).concurrent(4).await.expect("a reader");
            assert_eq!(reader.read(..).await.expect("read in pieces").to_vec(), body);
        }
    }
    operator.write("dir/deep/ü +1024", "shorter").await.expect("replaced");
    assert_eq!(operator.read("dir/deep/ü +1024").await.expect("read").to_vec(), b"shorter");
    assert!(!operator.exists("absent").await.expect("an answer"));
    assert!(!operator.exists("absent/too").await.expect("an answer"));
    assert_eq!(operator.read("absent").await.expect_err("not there").kind(), ErrorKind::NotFound);
    let metadata = HashMap::from([("hello".to_string(), "World".to_string())]);
    operator.write_with("with", "x").user_metadata(metadata.clone()).await.expect("written");
    assert_eq!(operator.stat("with").await.expect("found").user_metadata(), Some(&metadata));
}

#[tokio::test]
async fn directories_and_listings() {
    let Some(operator) = operator("listings").await else { return };
    operator.create_dir("made/and/below/").await.expect("made");
    operator.create_dir("made/and/below/").await.expect("there already");
    assert_eq!(operator.stat("made/and/").await.expect("found").mode(), EntryMode::DIR);
    let names = ["B", "a", "c d/1", "c d/2", "e/f/1", "e/f/2"];
    for name in names {
        operator.write(name, name).await.expect("written");
    }
    let list = async |path: &str, recursive: bool| -> Vec<String> {
        let lister = operator.lister_with(path).recursive(recursive).limit(2).await.expect("a lister");
        let mut all: Vec<String> =
            lister.map_ok(|entry| entry.path().to_string()).try_collect().await.expect("a listing");
        all.retain(|name| name != path && name != "/");
        all.sort();
        all
    };
    assert_eq!(list("", false).await, ["B", "a", "c d/", "e/", "made/"]);
    assert_eq!(list("e/", false).await, ["e/f/"]);
    assert_eq!(list("e/", true).await, ["e/f/", "e/f/1", "e/f/2"]);
    assert_eq!(list("absent/", false).await, Vec::<String>::new());
    let entry = operator.list("c d/").await.expect("a listing").pop().expect("an entry");
    assert_eq!((entry.metadata().content_length(), entry.metadata().mode()), (5, EntryMode::FILE));
}

#[tokio::test]
async fn renaming_and_deletion() {
    let Some(operator) = operator("renaming").await else { return };
    for name in ["a", "b", "dir/c"] {
        operator.write(name, name).await.expect("written");
    }
    operator.rename("a", "new/ü").await.expect("renamed");
    assert_eq!(operator.read("new/ü").await.expect("read").to_vec(), b"a");
    assert!(!operator.exists("a").await.expect("an answer"));
    operator.rename("b", "new/ü").await.expect("replaced");
    assert_eq!(operator.read("new/ü").await.expect("read").to_vec(), b"b");
    operator.delete("new/ü").await.expect("deleted");
    operator.delete("new/ü").await.expect("what is not there is deleted already");
    operator.delete("dir/").await.expect_err("it is not empty");
    operator.delete_iter(["dir/c", "dir/", "new/"]).await.expect("deleted");
    assert!(operator.list("").await.expect("a listing").iter().all(|entry| entry.path() == "/"));
}

#[tokio::test]
async fn host_style_and_https() {
    for url in if on_azurite() { Vec::new() } else { other_file_endpoints() } {
        let operator = operator_at(&url, "ways").await;
        operator.write("dir/a b", "hello").await.unwrap_or_else(|error| panic!("{url}: {error}"));
        operator.rename("dir/a b", "dir/c").await.expect("renamed");
        assert_eq!(operator.read("dir/c").await.expect("read").to_vec(), b"hello");
        operator.delete("dir/c").await.expect("deleted");
    }
}
