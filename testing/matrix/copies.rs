//! Copies: of our own without moving a byte, from outside only what is allowed, and what each refuses.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use env::Clock;
use http::account::Account;
use testing::{AccountSas, Answer, Counting, Request, World, query};

const HOST: &str = "http://127.0.0.1:10000/devstoreaccount1";

/// A private container `box` and a public one `open`, with `content` in both as blob `source`.
async fn world() -> World {
    filled(World::new().await, "content").await
}

async fn filled(world: World, content: impl Into<Vec<u8>>) -> World {
    let content = content.into();
    for request in [
        Request::new("PUT box?restype=container"),
        Request::new("PUT open?restype=container").header("x-ms-blob-public-access", "blob"),
        put("box/source").body(content.clone()),
        put("open/source").body(content),
    ] {
        assert_eq!(world.send(&request).await.status, 201);
    }
    world.clock.advance_seconds(10);
    world
}

fn put(path: &str) -> Request {
    let request = Request::new(&format!("PUT {path}")).header("x-ms-blob-type", "BlockBlob");
    request.header("x-ms-meta-Old", "1").header("Content-Type", "text/plain").header("x-ms-blob-cache-control", "soon")
}

fn copy(to: &str, from: &str) -> Request {
    let from = if from.contains("://") { from.to_string() } else { format!("{HOST}/{from}") };
    Request::new(&format!("PUT {to}")).header("x-ms-copy-source", from)
}

fn copy_now(to: &str, from: &str) -> Request {
    copy(to, from).header("x-ms-requires-sync", "true")
}

fn put_from(to: &str, from: &str) -> Request {
    copy(to, from).header("x-ms-blob-type", "BlockBlob")
}

fn block_from(to: &str, from: &str) -> Request {
    copy(&format!("{to}?comp=block&blockid=YQ=="), from)
}

fn append_from(to: &str, from: &str) -> Request {
    copy(&format!("{to}?comp=appendblock"), from)
}

async fn get(world: &World, path: &str) -> Answer {
    world.send(&Request::new(&format!("GET {path}"))).await
}

async fn ok(world: &World, request: &Request) -> Answer {
    let answer = world.send(request).await;
    assert!((200..300).contains(&answer.status), "{request:?}: {} {}", answer.status, answer.text());
    answer
}

async fn refused(world: &World, request: &Request, status: u16, code: &str) -> Answer {
    let answer = world.send(request).await;
    assert_eq!((answer.status, answer.code()), (status, code), "{request:?}: {}", answer.text());
    answer
}

fn shown(answer: &Answer) -> [Option<&str>; 4] {
    ["content-type", "cache-control", "x-ms-meta-old", "x-ms-meta-new"].map(|name| answer.header(name))
}

#[tokio::test]
async fn a_copy_is_like_its_source() {
    let world = world().await;
    for (name, request) in [
        ("a", copy("box/a", "box/source")),
        ("b", copy_now("box/b", "open/source")),
        ("c", put_from("box/c", "open/source")),
    ] {
        let answer = ok(&world, &request).await;
        let copied = get(&world, &format!("box/{name}")).await;
        assert_eq!(copied.text(), "content");
        assert_eq!(shown(&copied), [Some("text/plain"), Some("soon"), Some("1"), None]);
        if name != "c" {
            assert_eq!(answer.header("x-ms-copy-status"), Some("success"));
            assert_eq!(answer.header("x-ms-copy-id"), copied.header("x-ms-copy-id"));
            assert_eq!(copied.header("x-ms-copy-progress"), Some("7/7"));
            let source = copied.header("x-ms-copy-source").expect("a copy tells where it is from").to_string();
            assert!(source.ends_with("/source"), "{source}");
            assert!(copied.header("x-ms-copy-completion-time").is_some());
        } else {
            assert_eq!(copied.header("x-ms-copy-id"), None);
        }
    }
    // What is given is taken instead.
    for (name, request) in [
        ("a", copy("box/a", "box/source")),
        ("b", copy_now("box/b", "open/source")),
        ("c", put_from("box/c", "open/source").header("x-ms-blob-content-type", "text/new")),
    ] {
        ok(&world, &request.header("x-ms-meta-New", "2")).await;
        let copied = get(&world, &format!("box/{name}")).await;
        let kind = if name == "c" { "text/new" } else { "text/plain" };
        assert_eq!(shown(&copied), [Some(kind), Some("soon"), None, Some("2")]);
    }
    ok(&world, &put_from("box/c", "open/source").header("x-ms-copy-source-blob-properties", "false")).await;
    assert_eq!(shown(&get(&world, "box/c").await), [Some("application/octet-stream"), None, Some("1"), None]);
    // A copy is a copy until it is written to; a lease and a block change nothing.
    ok(&world, &Request::new("PUT box/a?comp=block&blockid=YQ==").body("x")).await;
    let lease =
        Request::new("PUT box/a?comp=lease").header("x-ms-lease-action", "acquire").header("x-ms-lease-duration", "-1");
    let id = ok(&world, &lease).await.header("x-ms-lease-id").expect("an id").to_string();
    assert!(get(&world, "box/a").await.header("x-ms-copy-id").is_some());
    let list = get(&world, "box?restype=container&comp=list&include=copy").await.text();
    assert!(list.contains("<CopyStatus>success</CopyStatus><CopyProgress>7/7</CopyProgress>"), "{list}");
    assert!(!get(&world, "box?restype=container&comp=list").await.text().contains("<CopyId>"));
    ok(&world, &Request::new("PUT box/a?comp=metadata").header("x-ms-lease-id", id)).await;
    assert_eq!(get(&world, "box/a").await.header("x-ms-copy-id"), None);
}

#[tokio::test]
async fn blocks_are_copied_and_what_is_staged_is_not() {
    let world = world().await;
    for (id, content) in [("YQ==", "aaa"), ("Yg==", "bb")] {
        ok(&world, &Request::new(&format!("PUT open/blocks?comp=block&blockid={id}")).body(content)).await;
    }
    let list = "<BlockList><Latest>YQ==</Latest><Latest>Yg==</Latest></BlockList>";
    ok(&world, &Request::new("PUT open/blocks?comp=blocklist").body(list)).await;
    ok(&world, &Request::new("PUT open/blocks?comp=block&blockid=Yw==").body("staged")).await;
    let blocks = |path: &str| Request::new(&format!("GET {path}?comp=blocklist&blocklisttype=all"));
    let committed = "<Block><Name>YQ==</Name><Size>3</Size></Block><Block><Name>Yg==</Name><Size>2</Size></Block>";
    for request in [copy("box/a", "open/blocks"), copy_now("box/b", "open/blocks"), copy("open/blocks", "open/blocks")]
    {
        ok(&world, &request).await;
        let path = request.path.trim_start_matches("/devstoreaccount1/").to_string();
        assert_eq!(get(&world, &path).await.text(), "aaabb");
        let shown = world.send(&blocks(&path)).await.text();
        assert!(shown.contains(committed) && !shown.contains("Yw=="), "{path} {shown}");
    }
    // What one put would have written has no blocks.
    ok(&world, &put_from("box/c", "open/blocks")).await;
    assert_eq!(get(&world, "box/c").await.text(), "aaabb");
    assert!(!world.send(&blocks("box/c")).await.text().contains("<Block>"));
    ok(&world, &put_from("open/blocks", "open/blocks")).await;
    assert_eq!(get(&world, "open/blocks").await.text(), "aaabb");
    assert!(!world.send(&blocks("open/blocks")).await.text().contains("<Block>"));
}

#[tokio::test]
async fn a_blob_is_copied_over_itself_and_its_past() {
    let world = world().await;
    let snapshot = ok(&world, &Request::new("PUT box/source?comp=snapshot")).await;
    let snapshot = snapshot.header("x-ms-snapshot").expect("a snapshot").to_string();
    ok(&world, &copy("box/source", "box/source").header("x-ms-meta-New", "2")).await;
    let blob = get(&world, "box/source").await;
    assert_eq!(
        (blob.text().as_str(), blob.header("x-ms-meta-new"), blob.header("x-ms-meta-old")),
        ("content", Some("2"), None)
    );
    ok(&world, &put("box/source").body("later")).await;
    ok(&world, &copy("box/source", &format!("box/source?snapshot={snapshot}"))).await;
    let blob = get(&world, "box/source").await;
    assert_eq!((blob.text().as_str(), blob.header("x-ms-meta-old")), ("content", Some("1")));
    assert!(blob.header("x-ms-copy-source").is_some_and(|source| source.ends_with(&format!("?snapshot={snapshot}"))));
    ok(&world, &copy("box/other", &format!("box/source?snapshot={snapshot}"))).await;
    assert_eq!(get(&world, "box/other").await.text(), "content");
    refused(&world, &copy("box/a", "box/source?snapshot=2001-01-01T00:00:00.0000000Z"), 404, "CannotVerifyCopySource")
        .await;
    refused(&world, &copy("box/none", "box/none"), 404, "CannotVerifyCopySource").await;
}

#[tokio::test]
async fn appends_and_their_seal_are_copied() {
    let world = world().await;
    let create = |path: &str| Request::new(&format!("PUT {path}")).header("x-ms-blob-type", "AppendBlob");
    ok(&world, &create("open/log")).await;
    let mut expected = String::new();
    for n in 0..100 {
        let piece = if n % 7 == 3 { format!("{n};").repeat(5000) } else { format!("{n};") };
        ok(&world, &Request::new("PUT open/log?comp=appendblock").body(piece.clone())).await;
        expected.push_str(&piece);
    }
    ok(&world, &copy("box/a", "open/log")).await;
    let copied = get(&world, "box/a").await;
    assert!(copied.text() == expected);
    assert_eq!(copied.header("x-ms-blob-type"), Some("AppendBlob"));
    assert_eq!(copied.header("x-ms-blob-committed-block-count"), Some("100"));
    ok(&world, &Request::new("PUT box/a?comp=appendblock").body("more")).await;
    assert!(get(&world, "box/a").await.text() == format!("{expected}more"));
    assert_eq!(get(&world, "box/a").await.header("x-ms-copy-id"), None);
    ok(&world, &copy("box/sealed", "open/log").header("x-ms-seal-blob", "true")).await;
    assert_eq!(get(&world, "box/sealed").await.header("x-ms-blob-sealed"), Some("true"));
    refused(&world, &Request::new("PUT box/sealed?comp=appendblock").body("x"), 409, "BlobIsSealed").await;
    // Any type becomes a block blob by Put Blob From URL, none by the others.
    ok(&world, &put_from("box/b", "open/log")).await;
    let put = get(&world, "box/b").await;
    assert!(put.text() == expected);
    assert_eq!(put.header("x-ms-blob-type"), Some("BlockBlob"));
    refused(&world, &copy_now("box/c", "open/log"), 409, "InvalidSourceBlobType").await;
    refused(&world, &copy("box/b", "open/log"), 409, "InvalidBlobType").await;
    refused(&world, &copy("box/a", "open/source"), 409, "InvalidBlobType").await;
    refused(&world, &put_from("box/a", "open/source"), 409, "InvalidBlobType").await;
}

/// The codes of conditions on the source and on the destination, and that nothing was made.
#[tokio::test]
async fn conditions_on_both_ends() {
    let world = world().await;
    ok(&world, &put("box/there").body("old")).await;
    ok(&world, &Request::new("PUT box/log").header("x-ms-blob-type", "AppendBlob")).await;
    let head = get(&world, "open/source").await;
    let (etag, modified) =
        (head.header("etag").expect("one").to_string(), head.header("last-modified").expect("one").to_string());
    let earlier = "Thu, 01 Jan 2026 00:00:00 GMT".to_string();
    let stale = "\"0x1\"".to_string();
    let names = [
        "x-ms-source-if-match",
        "x-ms-source-if-none-match",
        "x-ms-source-if-modified-since",
        "x-ms-source-if-unmodified-since",
    ];
    let holds = [&etag, &stale, &earlier, &modified];
    let fails = [&stale, &etag, &modified, &earlier];
    let (failed, unverified) = ("SourceConditionNotMet", "CannotVerifyCopySource");
    for (request, of_match, of_none) in [
        (copy("box/there", "open/source"), (412, failed), (412, failed)),
        (copy_now("box/there", "open/source"), (412, failed), (412, failed)),
        (put_from("box/there", "open/source"), (412, failed), (304, unverified)),
        (block_from("box/there", "open/source"), (412, unverified), (304, unverified)),
        (append_from("box/log", "open/source"), (412, unverified), (304, unverified)),
    ] {
        for (at, name) in names.iter().enumerate() {
            let (status, code) = if at == 0 || at == 3 { of_match } else { of_none };
            let answer = refused(&world, &request.clone().header(name, fails[at]), status, code).await;
            assert!(status != 304 || answer.body.is_empty());
            ok(&world, &request.clone().header(name, holds[at])).await;
        }
    }
    // The destination's.
    ok(&world, &put("box/there").body("old")).await;
    let etag = get(&world, "box/there").await.header("etag").expect("one").to_string();
    for (request, code) in [
        (copy("box/there", "open/source"), "TargetConditionNotMet"),
        (copy_now("box/there", "open/source"), "ConditionNotMet"),
        (put_from("box/there", "open/source"), "ConditionNotMet"),
    ] {
        refused(&world, &request.clone().header("If-Match", &stale), 412, code).await;
        refused(&world, &request.clone().header("If-None-Match", &etag), 412, code).await;
        refused(&world, &request.clone().header("If-None-Match", "*"), 409, "BlobAlreadyExists").await;
    }
    assert_eq!(get(&world, "box/there").await.text(), "old");
    for name in ["one", "two", "three"] {
        let once = copy(&format!("box/{name}"), "open/source").header("If-None-Match", "*");
        ok(&world, &once).await;
        refused(&world, &once, 409, "BlobAlreadyExists").await;
    }
}

/// Who may read the source, as a request of its own would be judged.
#[tokio::test]
async fn sources_are_authorized_as_reads() {
    let world = world().await;
    world.app.set_accounts(vec![Account::development(), Account::new("other", &["a2V5"]).expect("right")]);
    let now = world.clock.now();
    let url = |path: &str, sas: &AccountSas| format!("{HOST}/{path}?{}", query(&sas.parameters()));
    let reads = AccountSas { permissions: "r".into(), ..AccountSas::all(now) };
    let writes = AccountSas { permissions: "w".into(), ..AccountSas::all(now) };
    type Make = fn(&str, &str) -> Request;
    let makes: [Make; 4] = [copy, copy_now, put_from, block_from];
    for (at, make) in makes.into_iter().enumerate() {
        // Copy Blob alone takes the request's own key for the source; others want the source to be readable by itself.
        match at {
            0 => drop(ok(&world, &make("box/to", "box/source")).await),
            _ => drop(refused(&world, &make("box/to", "box/source"), 401, "CannotVerifyCopySource").await),
        }
        ok(&world, &make("box/to", "open/source")).await;
        ok(&world, &make("box/to", &url("box/source", &reads))).await;
        refused(&world, &make("box/to", &url("box/source", &writes)), 403, "CannotVerifyCopySource").await;
        let forged = AccountSas { key: STANDARD.encode("another"), ..reads.clone() };
        let answer = refused(&world, &make("box/to", &url("box/source", &forged)), 403, "CannotVerifyCopySource").await;
        assert_eq!(answer.header("x-ms-copy-source-status-code"), Some("403"));
        assert_eq!(answer.header("x-ms-copy-source-error-code"), Some("AuthenticationFailed"));
        refused(&world, &make("box/to", "box/none"), if at == 0 { 404 } else { 401 }, "CannotVerifyCopySource").await;
        refused(&world, &make("box/to", "open/none"), 404, "CannotVerifyCopySource").await;
        refused(&world, &make("box/to", "none/none"), if at == 0 { 404 } else { 401 }, "CannotVerifyCopySource").await;
        // Another account's key says nothing about this one's blobs.
        let nobody = "http://127.0.0.1:10000/nobody/box/source";
        refused(&world, &make("box/to", nobody), 404, "CannotVerifyCopySource").await;
        let theirs = "http://127.0.0.1:10000/other/box/source";
        refused(&world, &make("box/to", theirs), 401, "CannotVerifyCopySource").await;
        for bad in ["box/source", "/devstoreaccount1/box/source", "http://127.0.0.1:10000", "ftp://127.0.0.1/a/b/c"] {
            let mut request = make("box/to", "x/y");
            request.headers.retain(|(name, _)| name != "x-ms-copy-source");
            refused(&world, &request.header("x-ms-copy-source", bad), 400, "InvalidHeaderValue").await;
        }
        refused(&world, &make("box/to", "open/source?comp=blocklist"), 400, "InvalidHeaderValue").await;
        refused(
            &world,
            &make("box/to", "open/source").header("x-ms-copy-source-authorization", "Basic YTpi"),
            400,
            "InvalidHeaderValue",
        )
        .await;
        // Tokens come over TLS alone.
        refused(
            &world,
            &make("box/to", "box/source").header("x-ms-copy-source-authorization", "Bearer x"),
            403,
            "CannotVerifyCopySource",
        )
        .await;
    }
    // A SAS of the request reaches as far as it says, a SAS for writing alone reads nothing.
    let with = |sas: &AccountSas, from: &str| copy("box/to", from).with_sas(sas.parameters());
    ok(&world, &with(&AccountSas { permissions: "rw".into(), ..AccountSas::all(now) }, "box/source")).await;
    refused(&world, &with(&writes, "box/source"), 403, "CannotVerifyCopySource").await;
    ok(&world, &with(&writes, "open/source")).await;
    let creates = AccountSas { permissions: "rc".into(), ..AccountSas::all(now) };
    refused(&world, &with(&creates, "box/source"), 403, "UnauthorizedBlobOverwrite").await;
    refused(
        &world,
        &put_from("box/to", "open/source").with_sas(creates.parameters()),
        403,
        "UnauthorizedBlobOverwrite",
    )
    .await;
}

#[tokio::test]
async fn parts_of_sources() {
    let content: String = (0..100_000).map(|n| format!("{n};")).collect();
    let world = filled(World::new().await, content.clone()).await;
    ok(&world, &Request::new("PUT box/log").header("x-ms-blob-type", "AppendBlob")).await;
    let mut expected = String::new();
    for (range, first, last) in [
        ("bytes=0-0", 0, 0),
        ("bytes=10-99999", 10, 99_999),
        ("bytes=500000-", 500_000, content.len() - 1),
        ("bytes=7-20", 7, 20),
    ] {
        let part = &content[first..=last];
        let md5 = STANDARD.encode(md5(part.as_bytes()));
        for request in [append_from("box/log", "open/source"), block_from("box/blocks", "open/source")] {
            let request = request.header("x-ms-source-range", range);
            refused(
                &world,
                &request.clone().header("x-ms-source-content-md5", STANDARD.encode([1; 16])),
                400,
                "Md5Mismatch",
            )
            .await;
            refused(
                &world,
                &request.clone().header("x-ms-source-content-crc64", STANDARD.encode([1; 8])),
                400,
                "Crc64Mismatch",
            )
            .await;
            let answer = ok(&world, &request.header("x-ms-source-content-md5", &md5)).await;
            assert_eq!(answer.header("content-md5"), Some(md5.as_str()));
        }
        expected.push_str(part);
        assert!(get(&world, "box/log").await.text() == expected);
        ok(&world, &Request::new("PUT box/blocks?comp=blocklist").body("<BlockList><Latest>YQ==</Latest></BlockList>"))
            .await;
        assert!(get(&world, "box/blocks").await.text() == part, "{range}");
    }
    for request in [append_from("box/log", "open/source"), block_from("box/blocks", "open/source")] {
        refused(&world, &request.clone().header("x-ms-source-range", "bytes=9999999-"), 416, "CannotVerifyCopySource")
            .await;
        refused(&world, &request.clone().header("x-ms-source-range", "9-5"), 400, "InvalidHeaderValue").await;
        refused(&world, &request.clone().header("x-ms-source-content-md5", "x"), 400, "InvalidMd5").await;
        refused(&world, &request.clone().body("body"), 400, "InvalidHeaderValue").await;
    }
    let position = append_from("box/log", "open/source").header("x-ms-blob-condition-appendpos", "1");
    refused(&world, &position, 412, "AppendPositionConditionNotMet").await;
    let size = append_from("box/log", "open/source").header("x-ms-blob-condition-maxsize", expected.len().to_string());
    refused(&world, &size, 412, "MaxBlobSizeConditionNotMet").await;
    ok(&world, &put("open/empty")).await;
    refused(&world, &append_from("box/log", "open/empty"), 400, "InvalidHeaderValue").await;
    refused(&world, &block_from("box/blocks", "open/empty"), 400, "InvalidHeaderValue").await;
    ok(&world, &put_from("box/empty", "open/empty")).await;
    assert_eq!(get(&world, "box/empty").await.body.len(), 0);
    let md5 = STANDARD.encode(md5(content.as_bytes()));
    for (to, from) in [("box/hashed", "open/source"), ("open/source", "open/source")] {
        for make in [put_from, copy_now] {
            let request = make(to, from);
            refused(
                &world,
                &request.clone().header("x-ms-source-content-md5", STANDARD.encode([1; 16])),
                400,
                "Md5Mismatch",
            )
            .await;
            let answer = ok(&world, &request.header("x-ms-source-content-md5", &md5)).await;
            assert_eq!(answer.header("content-md5"), Some(md5.as_str()));
        }
    }
}

#[tokio::test]
async fn pages_of_sources_and_whole_page_blobs() {
    let content: String = (0..4096).map(|n| format!("{:07};", n)).collect();
    let world = filled(World::new().await, content.clone()).await;
    let create = |path: &str| {
        let request = Request::new(&format!("PUT {path}")).header("x-ms-blob-type", "PageBlob");
        request.header("x-ms-blob-content-length", "65536").header("x-ms-blob-sequence-number", "7")
    };
    ok(&world, &create("open/disk")).await;
    let write = |range: &str, from: &str| {
        let request = copy("open/disk?comp=page", "open/source").header("x-ms-page-write", "update");
        request.header("x-ms-range", range).header("x-ms-source-range", from)
    };
    ok(&world, &write("bytes=512-16895", "bytes=1000-17383")).await;
    let answer = ok(
        &world,
        &write("bytes=32768-33279", "bytes=0-511")
            .header("x-ms-source-content-md5", STANDARD.encode(md5(&content.as_bytes()[..512]))),
    )
    .await;
    assert_eq!(answer.header("x-ms-blob-sequence-number"), Some("7"));
    let mut expected = vec![0; 65536];
    expected[512..16896].copy_from_slice(&content.as_bytes()[1000..17384]);
    expected[32768..33280].copy_from_slice(&content.as_bytes()[..512]);
    assert!(get(&world, "open/disk").await.body == expected);
    for (request, status, code) in [
        (write("bytes=0-511", "bytes=0-1023"), 400, "InvalidHeaderValue"),
        (write("bytes=0-511", "bytes=32500-33011"), 400, "InvalidHeaderValue"),
        (write("bytes=0-511", "bytes=99999-100510"), 416, "CannotVerifyCopySource"),
        (write("bytes=0-500", "bytes=0-500"), 416, "InvalidPageRange"),
        (write("bytes=65536-66047", "bytes=0-511"), 416, "InvalidPageRange"),
        (
            write("bytes=0-511", "bytes=0-511").header("x-ms-if-sequence-number-lt", "7"),
            412,
            "SequenceNumberConditionNotMet",
        ),
        (write("bytes=0-511", "bytes=0-511").header("x-ms-source-if-match", "\"0x1\""), 412, "CannotVerifyCopySource"),
    ] {
        refused(&world, &request, status, code).await;
    }
    // A copy has the same pages, and its holes cost nothing there either.
    ok(&world, &copy("box/disk", "open/disk")).await;
    let copied = get(&world, "box/disk").await;
    assert!(copied.body == expected);
    assert_eq!(copied.header("x-ms-blob-type"), Some("PageBlob"));
    assert_eq!(copied.header("x-ms-blob-sequence-number"), Some("7"));
    let list = |path: &str| Request::new(&format!("GET {path}?comp=pagelist"));
    let pages = world.send(&list("open/disk")).await.text();
    assert!(pages.contains("<Start>512</Start><End>16895</End>"), "{pages}");
    assert_eq!(world.send(&list("box/disk")).await.text(), pages);
    // Put Page leaves it a copy.
    let page =
        Request::new("PUT box/disk?comp=page").header("x-ms-page-write", "clear").header("x-ms-range", "bytes=0-511");
    ok(&world, &page).await;
    assert!(get(&world, "box/disk").await.header("x-ms-copy-id").is_some());
    ok(&world, &put_from("box/flat", "open/disk")).await;
    assert!(get(&world, "box/flat").await.body == expected);
    refused(&world, &copy_now("box/other", "open/disk"), 409, "InvalidSourceBlobType").await;
    refused(&world, &copy("box/disk", "open/source"), 409, "InvalidBlobType").await;
}

#[tokio::test]
async fn incremental_copies_follow_snapshots() {
    let world = world().await;
    let create = |path: &str| {
        let request = Request::new(&format!("PUT {path}")).header("x-ms-blob-type", "PageBlob");
        request.header("x-ms-blob-content-length", "4096")
    };
    let write = |page: u64, letter: u8| {
        let range = format!("bytes={}-{}", page * 512, page * 512 + 511);
        let request = Request::new("PUT open/disk?comp=page").header("x-ms-page-write", "update");
        request.header("x-ms-range", range).body(vec![letter; 512])
    };
    let follow = |to: &str, from: &str| copy(&format!("{to}?comp=incrementalcopy"), from);
    ok(&world, &create("open/disk")).await;
    let (mut snapshots, mut copies) = (Vec::new(), Vec::new());
    for n in 0..3u8 {
        ok(&world, &write(u64::from(n), b'a' + n)).await;
        let taken = ok(&world, &Request::new("PUT open/disk?comp=snapshot")).await;
        snapshots.push(taken.header("x-ms-snapshot").expect("a snapshot").to_string());
        world.clock.advance_seconds(1);
        if n != 1 {
            let answer =
                ok(&world, &follow("box/copy", &format!("open/disk?snapshot={}", snapshots[usize::from(n)]))).await;
            let head = world.send(&Request::new("HEAD box/copy")).await;
            assert_eq!(head.header("x-ms-copy-id"), answer.header("x-ms-copy-id"));
            assert_eq!(head.header("x-ms-incremental-copy"), Some("true"));
            copies.push(head.header("x-ms-copy-destination-snapshot").expect("a snapshot").to_string());
        }
    }
    // The copy's own snapshots are read, and differ as the source's do; the copy itself is neither read nor written.
    for (copied, of) in [(0, 0), (1, 2)] {
        let theirs = get(&world, &format!("open/disk?snapshot={}", snapshots[of])).await;
        assert!(get(&world, &format!("box/copy?snapshot={}", copies[copied])).await.body == theirs.body);
    }
    let difference = format!("GET box/copy?comp=pagelist&snapshot={}&prevsnapshot={}", copies[1], copies[0]);
    let pages = ok(&world, &Request::new(&difference)).await.text();
    assert!(pages.contains("<Start>512</Start><End>1535</End>") && !pages.contains("<Start>0<"), "{pages}");
    let not_allowed = "OperationNotAllowedOnIncrementalCopyBlob";
    let snapshot = format!("open/disk?snapshot={}", snapshots[2]);
    for (request, code) in [
        (Request::new("GET box/copy"), not_allowed),
        (Request::new("PUT box/copy?comp=snapshot"), not_allowed),
        (Request::new("PUT box/copy?comp=metadata"), not_allowed),
        (create("box/copy"), not_allowed),
        (copy("box/copy", "open/disk"), not_allowed),
        (follow("box/copy", "open/disk"), "IncrementalCopySourceMustBeSnapshot"),
        (
            follow("box/copy", &format!("open/disk?snapshot={}", snapshots[1])),
            "IncrementalCopyOfEarlierSnapshotNotAllowed",
        ),
        (follow("box/source", &snapshot), "IncrementalCopyBlobMismatch"),
        (follow("box/new", "http://example.org/disk?snapshot=2026-01-01T00:00:00.0000000Z"), "InvalidSourceBlobUrl"),
    ] {
        refused(&world, &request, 409, code).await;
    }
    let taken = ok(&world, &Request::new("PUT open/source?comp=snapshot")).await;
    let block = format!("open/source?snapshot={}", taken.header("x-ms-snapshot").expect("a snapshot"));
    refused(&world, &follow("box/new", &block), 409, "InvalidSourceBlobType").await;
    ok(&world, &Request::new("DELETE box/copy").header("x-ms-delete-snapshots", "include")).await;
}

fn md5(bytes: &[u8]) -> [u8; 16] {
    use md5::Digest;
    md5::Md5::digest(bytes).into()
}

/// Copy Blob wants a lease without end; a lease is kept.
#[tokio::test]
async fn leased_destinations() {
    let world = world().await;
    for (seconds, ours) in [("60", 412), ("-1", 202)] {
        ok(&world, &put("box/to").body("old")).await;
        let lease = Request::new("PUT box/to?comp=lease").header("x-ms-lease-action", "acquire");
        let id = ok(&world, &lease.header("x-ms-lease-duration", seconds)).await;
        let id = id.header("x-ms-lease-id").expect("an id").to_string();
        for make in [copy, copy_now, put_from, block_from] {
            refused(&world, &make("box/to", "open/source"), 412, "LeaseIdMissing").await;
        }
        let answer = world.send(&copy("box/to", "open/source").header("x-ms-lease-id", &id)).await;
        assert_eq!(answer.status, ours);
        assert_eq!(answer.code(), if ours == 412 { "InfiniteLeaseDurationRequired" } else { "" });
        for make in [copy_now, put_from, block_from] {
            ok(&world, &make("box/to", "open/source").header("x-ms-lease-id", &id)).await;
        }
        assert_eq!(get(&world, "box/to").await.header("x-ms-lease-state"), Some("leased"));
        let release = Request::new("PUT box/to?comp=lease").header("x-ms-lease-action", "release");
        ok(&world, &release.header("x-ms-lease-id", &id)).await;
    }
}

#[tokio::test]
async fn tags_are_copied_when_asked_for() {
    let world = world().await;
    ok(&world, &put("open/tagged").header("x-ms-tags", "color=blue").body("content")).await;
    let tags = |path: &str| Request::new(&format!("GET {path}?comp=tags"));
    for (make, option, expected) in [
        (copy as fn(&str, &str) -> Request, None, None),
        (copy_now, None, None),
        (copy_now, Some("REPLACE"), None),
        (put_from, None, None),
    ] {
        let request = option.iter().fold(make("box/to", "open/tagged"), |request, option| {
            request.header("x-ms-copy-source-tag-option", *option)
        });
        ok(&world, &request).await;
        assert_eq!(world.send(&tags("box/to")).await.text().contains("blue"), expected.unwrap_or(false));
    }
    let with_sas = AccountSas::all(world.clock.now());
    let query: Vec<String> = with_sas
        .parameters()
        .iter()
        .map(|(name, value)| {
            format!("{name}={}", value.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D").replace(':', "%3A"))
        })
        .collect();
    let source = format!("{HOST}/open/tagged?{}", query.join("&"));
    for make in [copy_now, put_from] {
        let request = make("box/to", &source).header("x-ms-copy-source-tag-option", "COPY");
        ok(&world, &request).await;
        assert!(world.send(&tags("box/to")).await.text().contains("blue"));
        refused(&world, &request.header("x-ms-tags", "a=b"), 400, "InvalidHeaderValue").await;
        refused(
            &world,
            &make("box/to", &source).header("x-ms-copy-source-tag-option", "SOME"),
            400,
            "InvalidHeaderValue",
        )
        .await;
    }
    // Who may not read tags cannot ask about them.
    let blind = copy_now("box/to", "open/tagged").header("x-ms-copy-source-tag-option", "COPY");
    assert_eq!(world.send(&blind).await.code(), "CannotVerifyCopySource");
    ok(&world, &copy("box/to", &source).header("x-ms-source-if-tags", "color = 'blue'")).await;
    refused(
        &world,
        &copy("box/to", &source).header("x-ms-source-if-tags", "color = 'red'"),
        412,
        "SourceConditionNotMet",
    )
    .await;
    ok(&world, &copy("box/to", "open/tagged").header("x-ms-tags", "a=b")).await;
    assert!(world.send(&tags("box/to")).await.text().contains("<Key>a</Key>"));
}

#[tokio::test]
async fn overwriting_by_a_copy_keeps_what_was_there() {
    let world = world().await;
    let properties = "<StorageServiceProperties><DeleteRetentionPolicy><Enabled>true</Enabled><Days>3</Days></DeleteRetentionPolicy></StorageServiceProperties>";
    ok(&world, &Request::new("PUT ?restype=service&comp=properties").body(properties)).await;
    for make in [copy, copy_now, put_from] {
        ok(&world, &put("box/to").body("old")).await;
        ok(&world, &make("box/to", "open/source")).await;
        ok(&world, &Request::new("PUT box/to?comp=undelete")).await;
        // What was there is a snapshot now.
        refused(&world, &Request::new("DELETE box/to"), 409, "SnapshotsPresent").await;
        let remove = Request::new("DELETE box/to").header("x-ms-delete-snapshots", "include");
        ok(&world, &remove).await;
    }
}

#[tokio::test]
async fn copies_of_our_own_move_no_bytes() {
    let engine = Arc::new(Counting::default());
    let content: String = (0..2_000_000).map(|n| format!("{n};")).collect();
    let world = filled(World::over(engine.clone()).await, content.clone()).await;
    ok(&world, &Request::new("PUT box/log").header("x-ms-blob-type", "AppendBlob")).await;
    let before = engine.touched();
    for request in [
        copy("box/a", "box/source"),
        copy_now("box/b", "open/source"),
        put_from("box/c", "open/source"),
        copy("box/source", "box/source"),
        block_from("box/d", "open/source").header("x-ms-source-range", "bytes=1000-9999999"),
        append_from("box/log", "open/source").header("x-ms-source-range", "bytes=1000-9999999"),
    ] {
        ok(&world, &request).await;
    }
    assert_eq!(engine.touched(), before);
    // The source may go: its extents are the copies', too.
    ok(&world, &Request::new("DELETE box/source")).await;
    ok(&world, &Request::new("DELETE open/source")).await;
    ok(&world, &Request::new("PUT box/d?comp=blocklist").body("<BlockList><Latest>YQ==</Latest></BlockList>")).await;
    for (path, expected) in [
        ("box/a", &content[..]),
        ("box/b", &content),
        ("box/c", &content),
        ("box/d", &content[1000..10_000_000]),
        ("box/log", &content[1000..10_000_000]),
    ] {
        assert!(get(&world, path).await.text() == expected, "{path}");
    }
}
