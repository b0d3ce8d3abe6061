//! What becomes of bytes: blocks staged and committed, appends, ranges across them, and nothing left behind.

use testing::{Answer, Request, World};

async fn container() -> World {
    let world = World::new().await;
    assert_eq!(world.send(&Request::new("PUT box?restype=container")).await.status, 201);
    world
}

async fn ask(world: &World, line: &str, body: impl Into<Vec<u8>>) -> Answer {
    world.send(&Request::new(line).body(body)).await
}

async fn stage(world: &World, id: &str, content: impl Into<Vec<u8>>) -> Answer {
    ask(world, &format!("PUT box/b?comp=block&blockid={id}"), content).await
}

async fn commit(world: &World, list: &str) -> Answer {
    ask(world, "PUT box/b?comp=blocklist", format!("<BlockList>{list}</BlockList>")).await
}

async fn get(world: &World) -> Answer {
    world.send(&Request::new("GET box/b")).await
}

async fn blocks(world: &World) -> String {
    let answer = world.send(&Request::new("GET box/b?comp=blocklist&blocklisttype=all")).await;
    let text = answer.text();
    let shown = text.split_once("<BlockList>").map_or(text.as_str(), |(_, rest)| rest);
    shown.replace("<Block><Name>", "[").replace("</Name><Size>", " ").replace("</Size></Block>", "]")
}

#[tokio::test]
async fn blocks_are_staged_and_committed() {
    let world = container().await;
    assert_eq!(get(&world).await.status, 404);
    for (id, content) in [("YQ==", "aaa"), ("Yg==", "bb"), ("Yw==", "never named")] {
        assert_eq!(stage(&world, id, content).await.status, 201);
    }
    // Staged is not there: not to be read, not listed, but its blocks are.
    assert_eq!(get(&world).await.status, 404);
    assert!(!world.send(&Request::new("GET box?restype=container&comp=list")).await.text().contains("<Name>b<"));
    assert_eq!(
        blocks(&world).await,
        "<CommittedBlocks /><UncommittedBlocks>[YQ== 3][Yg== 2][Yw== 11]</UncommittedBlocks></BlockList>"
    );

    assert_eq!(
        commit(&world, "<Latest>Yg==</Latest><Uncommitted>YQ==</Uncommitted><Latest>Yg==</Latest>").await.status,
        201
    );
    assert_eq!(get(&world).await.text(), "bbaaabb");
    assert_eq!(
        blocks(&world).await,
        "<CommittedBlocks>[Yg== 2][YQ== 3][Yg== 2]</CommittedBlocks><UncommittedBlocks /></BlockList>"
    );

    // Committed and staged together; a block that is nowhere leaves all as it was.
    assert_eq!(stage(&world, "YQ==", "AAAA").await.status, 201);
    for list in ["<Latest>Yw==</Latest>", "<Committed>ZA==</Committed>", "<Uncommitted>Yg==</Uncommitted>"] {
        let refused = commit(&world, list).await;
        assert_eq!((refused.status, refused.code()), (400, "InvalidBlockList"), "{list}");
    }
    assert_eq!(get(&world).await.text(), "bbaaabb");
    let list = "<Committed>YQ==</Committed><Latest>YQ==</Latest><Committed>Yg==</Committed>";
    assert_eq!(commit(&world, list).await.status, 201);
    assert_eq!(get(&world).await.text(), "aaaAAAAbb");
    for (range, expected) in
        [("bytes=0-0", "a"), ("bytes=2-3", "aA"), ("bytes=6-", "Abb"), ("bytes=3-6", "AAAA"), ("bytes=8-99", "b")]
    {
        let part = world.send(&Request::new("GET box/b").header("x-ms-range", range)).await;
        assert_eq!((part.status, part.text().as_str()), (206, expected), "{range}");
    }
    assert_eq!(commit(&world, "").await.status, 201);
    assert_eq!((get(&world).await.status, get(&world).await.body.len()), (200, 0));
}

#[tokio::test]
async fn a_put_or_delete_takes_what_is_staged() {
    let world = container().await;
    assert_eq!(stage(&world, "YQ==", "aaa").await.status, 201);
    assert_eq!(world.send(&Request::new("DELETE box/b")).await.status, 202);
    assert_eq!(world.send(&Request::new("DELETE box/b")).await.status, 404);
    assert_eq!(stage(&world, "YWI=", "other length of id, after all was taken").await.status, 201);
    let put = Request::new("PUT box/b").header("x-ms-blob-type", "BlockBlob").body("whole");
    assert_eq!(world.send(&put).await.status, 201);
    assert_eq!(blocks(&world).await, "<CommittedBlocks /><UncommittedBlocks /></BlockList>");
    assert_eq!(commit(&world, "<Latest>YWI=</Latest>").await.code(), "InvalidBlockList");
    assert_eq!(get(&world).await.text(), "whole");
}

#[tokio::test]
async fn blocks_that_are_refused() {
    let world = container().await;
    assert_eq!(stage(&world, "YQ==", "aaa").await.status, 201);
    let long = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFB";
    for (line, body, status, code) in [
        ("PUT box/b?comp=block&blockid=YWI=", "x", 400, "InvalidBlobOrBlock"),
        ("PUT box/b?comp=block&blockid=***", "x", 400, "InvalidQueryParameterValue"),
        ("PUT box/b?comp=block", "x", 400, "MissingRequiredQueryParameter"),
        ("PUT box/b?comp=block&blockid=YQ==", "", 400, "InvalidHeaderValue"),
        ("PUT box/b?comp=blocklist", "<BlockList>", 400, "InvalidXmlDocument"),
        ("PUT box/b?comp=blocklist", "<BlockList><Latest>*</Latest></BlockList>", 400, "InvalidBlockId"),
        ("PUT box/b?comp=appendblock", "x", 404, "BlobNotFound"),
        ("GET box/b?comp=blocklist&blocklisttype=some", "", 400, "InvalidQueryParameterValue"),
        (&format!("PUT box/b?comp=block&blockid={long}"), "x", 400, "InvalidQueryParameterValue"),
    ] {
        let answer = ask(&world, line, body).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{line}: {}", answer.text());
    }
    let id = "01234567-89ab-cdef-0123-456789abcdef";
    let leased = Request::new("PUT box/b?comp=block&blockid=YQ==").header("x-ms-lease-id", id).body("x");
    assert_eq!(world.send(&leased).await.code(), "LeaseNotPresentWithBlobOperation");
}

/// A week after the last block was staged all of them are gone, without anybody having swept.
/// A body that came with its head is read before the blob is looked at; the answer must not tell.
#[tokio::test]
async fn what_is_refused_without_its_content_is_refused_for_that_reason() {
    let world = container().await;
    let put = |of: &str, kind: &str| Request::new(&format!("PUT {of}")).header("x-ms-blob-type", kind);
    assert_eq!(world.send(&put("box/append", "AppendBlob")).await.status, 201);
    let wrong = |of: &str| put(of, "BlockBlob").header("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA==").body("content");
    let leased = Request::new("PUT box/leased?comp=lease").header("x-ms-lease-action", "acquire");
    let leased = leased.header("x-ms-lease-duration", "60");
    assert_eq!(world.send(&put("box/leased", "BlockBlob").body("content")).await.status, 201);
    assert_eq!(world.send(&leased).await.status, 201);
    for (request, expected) in [
        (wrong("box/append"), (409, "InvalidBlobType")),
        (wrong("box/leased"), (412, "LeaseIdMissing")),
        (wrong("box/new"), (400, "Md5Mismatch")),
        (wrong("none/new"), (404, "ContainerNotFound")),
    ] {
        let answer = world.send(&request).await;
        assert_eq!((answer.status, answer.code()), expected);
    }
    assert_eq!(world.send(&Request::new("GET box/new")).await.status, 404);
}

/// Content is given whole; lists of ranges are strict with the header that is the service's own.
#[tokio::test]
async fn ranges_that_cannot_be_read() {
    let world = container().await;
    let blob = |name: &str| Request::new(&format!("PUT box/{name}")).header("x-ms-blob-type", "BlockBlob");
    assert_eq!(world.send(&blob("empty")).await.status, 201);
    assert_eq!(world.send(&blob("b").body("content")).await.status, 201);
    let file = |line: &str| Request::new(line).of(contract::Service::File);
    assert_eq!(world.send(&file("PUT share?restype=share")).await.status, 201);
    let create = file("PUT share/f").header("x-ms-type", "file").header("x-ms-content-length", "7");
    assert_eq!(world.send(&create).await.status, 201);
    for text in ["bytes=0--1", "bytes=5-1", "bytes=-5", "bytes=", "bytes=a-b", "bytes=0-0,2-3", "items=0-1"] {
        for name in ["x-ms-range", "Range"] {
            for (request, bytes) in
                [(Request::new("GET box/b"), 7), (Request::new("GET box/empty"), 0), (file("GET share/f"), 7)]
            {
                let answer = world.send(&request.header(name, text)).await;
                assert_eq!((answer.status, answer.body.len()), (200, bytes), "{name}: {text}");
                assert_eq!(answer.header("Content-Range"), None);
            }
        }
        let listed = world.send(&file("GET share/f?comp=rangelist").header("x-ms-range", text)).await;
        assert_eq!((listed.status, listed.code()), (400, "InvalidHeaderValue"), "{text}");
    }
    // The service's own header goes before, readable or not.
    let both = Request::new("GET box/b").header("x-ms-range", "bytes=-5").header("Range", "bytes=0-1");
    assert_eq!(world.send(&both).await.status, 200);
}

#[tokio::test]
async fn staged_blocks_end() {
    let world = container().await;
    let week = 7 * 24 * 3600;
    assert_eq!(stage(&world, "YQ==", "aaa").await.status, 201);
    world.clock.advance_seconds(week - 1);
    assert_eq!(stage(&world, "Yg==", "bbb").await.status, 201);
    world.clock.advance_seconds(week - 1);
    assert_eq!(
        blocks(&world).await,
        "<CommittedBlocks /><UncommittedBlocks>[YQ== 3][Yg== 3]</UncommittedBlocks></BlockList>"
    );
    world.clock.advance_seconds(1);
    assert_eq!(world.send(&Request::new("GET box/b?comp=blocklist")).await.status, 404);
    assert_eq!(commit(&world, "<Latest>YQ==</Latest>").await.code(), "InvalidBlockList");
    assert_eq!(world.send(&Request::new("DELETE box/b")).await.status, 404);
    assert_eq!(stage(&world, "YWJj", "ids of another length").await.status, 201);
    assert_eq!(blocks(&world).await, "<CommittedBlocks /><UncommittedBlocks>[YWJj 21]</UncommittedBlocks></BlockList>");
}

#[tokio::test]
async fn appends() {
    let world = container().await;
    let create = Request::new("PUT box/b").header("x-ms-blob-type", "AppendBlob");
    assert_eq!(world.send(&create).await.status, 201);
    let mut expected = String::new();
    for n in 0..200 {
        // Small ones lie in records, large ones in extents.
        let piece = if n % 7 == 3 { format!("{n};").repeat(5000) } else { format!("{n};") };
        let answer = ask(&world, "PUT box/b?comp=appendblock", piece.clone()).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        assert_eq!(answer.header("x-ms-blob-append-offset"), Some(expected.len().to_string().as_str()));
        assert_eq!(answer.header("x-ms-blob-committed-block-count"), Some((n + 1).to_string().as_str()));
        expected.push_str(&piece);
    }
    assert!(get(&world).await.text() == expected);
    for (first, last) in [(0, 0), (5, 5), (2, 90_000), (40_000, 40_001), (expected.len() - 3, expected.len() - 1)] {
        let range = format!("bytes={first}-{last}");
        let part = world.send(&Request::new("GET box/b").header("x-ms-range", &range)).await;
        assert!(part.text() == expected[first..=last], "{range}");
    }
    let length = expected.len().to_string();
    let append = |name: &str, value: &str| Request::new("PUT box/b?comp=appendblock").header(name, value).body("x");
    for (request, status, code) in [
        (append("x-ms-blob-condition-appendpos", "5"), 412, "AppendPositionConditionNotMet"),
        (append("x-ms-blob-condition-appendpos", "-1"), 400, "InvalidHeaderValue"),
        (append("x-ms-blob-condition-maxsize", &length), 412, "MaxBlobSizeConditionNotMet"),
        (Request::new("PUT box/b?comp=block&blockid=YQ==").body("x"), 409, "InvalidBlobType"),
        (Request::new("PUT box/b?comp=blocklist").body("<BlockList />"), 409, "InvalidBlobType"),
        (Request::new("PUT box/b").header("x-ms-blob-type", "BlockBlob").body("x"), 409, "InvalidBlobType"),
        (Request::new("GET box/b?comp=blocklist"), 409, "InvalidBlobType"),
        (append("x-ms-blob-condition-appendpos", &length), 201, ""),
        (
            Request::new("PUT box/b?comp=seal").header("x-ms-blob-condition-appendpos", "5"),
            412,
            "AppendPositionConditionNotMet",
        ),
        (Request::new("PUT box/b?comp=seal"), 200, ""),
        (Request::new("PUT box/b?comp=seal"), 200, ""),
        (append("x-ms-meta-a", "1"), 409, "BlobIsSealed"),
    ] {
        let answer = world.send(&request).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{request:?}");
    }
    let head = world.send(&Request::new("HEAD box/b")).await;
    assert_eq!(head.header("x-ms-blob-sealed"), Some("true"));
    assert_eq!(head.header("x-ms-blob-type"), Some("AppendBlob"));
    assert_eq!(world.send(&create).await.status, 201);
    assert_eq!(get(&world).await.body.len(), 0);
}

#[tokio::test]
async fn metadata_and_properties_are_replaced_as_a_whole() {
    let world = container().await;
    let put = Request::new("PUT box/b").header("x-ms-blob-type", "BlockBlob").header("x-ms-meta-Old", "1");
    assert_eq!(world.send(&put.header("Content-Type", "text/plain").body("content")).await.status, 201);
    let set = Request::new("PUT box/b?comp=metadata").header("x-ms-meta-New", "2");
    assert_eq!(world.send(&set).await.status, 200);
    let shown = world.send(&Request::new("GET box/b?comp=metadata")).await;
    assert_eq!((shown.header("x-ms-meta-new"), shown.header("x-ms-meta-old")), (Some("2"), None));
    let set = Request::new("PUT box/b?comp=properties").header("x-ms-blob-cache-control", "no-store");
    assert_eq!(world.send(&set).await.status, 200);
    let blob = get(&world).await;
    assert_eq!(blob.header("cache-control"), Some("no-store"));
    assert_eq!(blob.header("content-type"), Some("application/octet-stream"));
    assert_eq!((blob.header("content-md5"), blob.text().as_str()), (None, "content"));
}
