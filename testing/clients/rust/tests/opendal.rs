//! `opendal`, through which RisingWave, Databend, GreptimeDB and others reach the service. It signs with the key.

use std::collections::HashMap;

use futures::{TryStreamExt, future::join_all};
use lazuli_clients::{ACCOUNT, KEY, endpoint, fresh_name, http, make_container, other_endpoints};
use opendal::{EntryMode, ErrorKind, Operator, layers::HttpClientLayer, raw::HttpClient, services::Azblob};

async fn operator_at(endpoint: &str, word: &str) -> Operator {
    let name = fresh_name(word);
    make_container(endpoint, &name).await;
    let service =
        Azblob::default().endpoint(endpoint).account_name(ACCOUNT).account_key(KEY).container(&name).root("/base");
    // It goes by no name of its own.
    let client = HttpClient::with(http("opendal/0.57"));
    Operator::new(service).expect("an operator").layer(HttpClientLayer::new(client)).finish()
}

async fn operator(word: &str) -> Operator {
    operator_at(&endpoint(), word).await
}

fn body(size: usize) -> Vec<u8> {
    (0..size).map(|n| (n * 31 % 251) as u8).collect()
}

#[tokio::test]
async fn writes_and_reads() {
    let operator = operator("writes").await;
    for size in [0usize, 1, 1024, 65_536, 3_000_000] {
        let (path, body) = (format!("dir/ü {size}"), body(size));
        operator.write(&path, body.clone()).await.expect("written");
        assert_eq!(operator.read(&path).await.expect("read").to_vec(), body);
        let seen = operator.stat(&path).await.expect("found");
        assert_eq!((seen.mode(), seen.content_length()), (EntryMode::FILE, size as u64));
        assert!(seen.etag().is_some() && seen.last_modified().is_some());
        if size >= 1024 {
            assert_eq!(operator.read_with(&path).range(10..1000).await.expect("a part").to_vec(), body[10..1000]);
            assert_eq!(
                operator.read_with(&path).range(size as u64 - 5..).await.expect("a part").to_vec(),
                body[size - 5..]
            );
            let reader = operator.reader_with(&path).chunk(100_000).concurrent(4).await.expect("a reader");
            assert_eq!(reader.read(..).await.expect("read in pieces").to_vec(), body);
        }
    }
    assert!(!operator.exists("absent").await.expect("an answer"));
    assert_eq!(operator.read("absent").await.expect_err("not there").kind(), ErrorKind::NotFound);
}

/// In parts: blocks from several connections, one commit.
#[tokio::test]
async fn writes_in_parts() {
    let operator = operator("parts").await;
    let body = body(5_000_001);
    let mut writer = operator.writer_with("large").chunk(1 << 20).concurrent(4).await.expect("a writer");
    for piece in body.chunks(300_000) {
        writer.write(piece.to_vec()).await.expect("written");
    }
    assert!(!operator.exists("large").await.expect("an answer"), "nothing is there before the end");
    writer.close().await.expect("closed");
    assert_eq!(operator.read("large").await.expect("read").to_vec(), body);

    let mut given_up = operator.writer_with("large").chunk(1 << 20).await.expect("a writer");
    given_up.write(vec![0; 2 << 20]).await.expect("written");
    given_up.abort().await.expect("given up");
    assert_eq!(operator.stat("large").await.expect("found").content_length(), body.len() as u64);
}

#[tokio::test]
async fn what_is_stored_beside_it() {
    let operator = operator("beside").await;
    let metadata = HashMap::from([("hello".to_string(), "World".to_string())]);
    operator
        .write_with("b", "x")
        .content_type("text/plain")
        .cache_control("no-store")
        .user_metadata(metadata.clone())
        .await
        .expect("written");
    let seen = operator.stat("b").await.expect("found");
    assert_eq!((seen.content_type(), seen.cache_control()), (Some("text/plain"), Some("no-store")));
    assert_eq!(seen.user_metadata(), Some(&metadata));
}

/// B2, B3: as far as this client offers conditions.
#[tokio::test]
async fn conditions() {
    let operator = operator("conditions").await;
    operator.write_with("b", "1").if_not_exists(true).await.expect("created");
    let again = operator.write_with("b", "2").if_not_exists(true).await.expect_err("is there");
    assert_eq!(again.kind(), ErrorKind::ConditionNotMatch, "{again}");
    let etag = operator.stat("b").await.expect("found").etag().expect("an ETag").to_string();
    operator.read_with("b").if_match(&etag).await.expect("equal");
    operator.stat_with("b").if_match(&etag).await.expect("equal");
    operator.write("b", "2").await.expect("written");
    let stale = operator.read_with("b").if_match(&etag).await.expect_err("stale");
    assert_eq!(stale.kind(), ErrorKind::ConditionNotMatch, "{stale}");
    operator.read_with("b").if_none_match(&etag).await.expect("changed");

    let once =
        join_all((0..16).map(|n| operator.write_with("once", n.to_string()).if_not_exists(true).into_future())).await;
    let winners: Vec<usize> = once.iter().enumerate().filter(|(_, put)| put.is_ok()).map(|(n, _)| n).collect();
    assert_eq!(winners.len(), 1, "exactly one creates it");
    assert_eq!(operator.read("once").await.expect("read").to_vec(), winners[0].to_string().into_bytes());
}

#[tokio::test]
async fn listings() {
    let operator = operator("listings").await;
    let names = ["a", "a.d/1", "a.d/2", "b/c/1", "b/c/2", "z z"];
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
    assert_eq!(list("", true).await, names);
    assert_eq!(list("", false).await, ["a", "a.d/", "b/", "z z"]);
    assert_eq!(list("b/", false).await, ["b/c/"]);
    assert_eq!(list("b/", true).await, ["b/c/1", "b/c/2"]);
    assert_eq!(list("absent/", true).await, Vec::<String>::new());
    operator.create_dir("made/").await.expect("made");
    assert_eq!(operator.stat("made/").await.expect("found").mode(), EntryMode::DIR);
}

#[tokio::test]
async fn appends() {
    let operator = operator("appends").await;
    for word in ["one ", "two ", "three"] {
        operator.write_with("log", word).append(true).await.expect("appended");
    }
    assert_eq!(operator.read("log").await.expect("read").to_vec(), b"one two three");
    let mut writer = operator.writer_with("log").append(true).await.expect("a writer");
    for _ in 0..5 {
        writer.write(vec![b'x'; 100_000]).await.expect("written");
    }
    writer.close().await.expect("closed");
    assert_eq!(operator.stat("log").await.expect("found").content_length(), 500_013);
}

#[tokio::test]
async fn deletions() {
    let operator = operator("deletions").await;
    for name in ["a", "b", "c"] {
        operator.write(name, name).await.expect("written");
    }
    operator.delete("a").await.expect("deleted");
    operator.delete("a").await.expect("what is not there is deleted already");
    assert!(!operator.exists("a").await.expect("an answer"));
    // Several at once go by Blob Batch.
    operator.delete_iter(["b", "c"]).await.expect("deleted");
    assert!(!operator.exists("b").await.expect("an answer"));
}

#[tokio::test]
async fn copies() {
    let operator = operator("copies").await;
    operator.write("from", "content").await.expect("written");
    operator.copy("from", "to").await.expect("copied");
    assert_eq!(operator.read("to").await.expect("read").to_vec(), b"content");
}

#[tokio::test]
async fn host_style_and_https() {
    for url in other_endpoints() {
        let operator = operator_at(&url, "ways").await;
        operator.write("dir/a b", "hello").await.unwrap_or_else(|error| panic!("{url}: {error}"));
        assert_eq!(operator.read("dir/a b").await.expect("read").to_vec(), b"hello");
        assert_eq!(operator.list("dir/").await.expect("a listing").len(), 1);
        operator.delete("dir/a b").await.expect("deleted");
    }
}
