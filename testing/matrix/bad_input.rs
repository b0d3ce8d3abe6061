//! What strangers send: every line gets the service's status and code, nothing is stored, and the server goes on.

use env::Clock;
use testing::Request;

use crate::examples::{everything, world};

/// Signed requests that are refused: the request line, headers, the answer.
#[tokio::test]
async fn requests_that_make_no_sense() {
    let put = "x-ms-blob-type: BlockBlob";
    let long = "a".repeat(1025);
    let deep = "a/".repeat(254);
    let lines: Vec<(String, &str, u16, &str)> = [
        ("PUT Box?restype=container", "", 400, "InvalidResourceName"),
        ("PUT b_x?restype=container", "", 400, "InvalidResourceName"),
        ("PUT b--x?restype=container", "", 400, "InvalidResourceName"),
        ("PUT b%2Fx?restype=container", "", 400, "InvalidResourceName"),
        ("PUT bx?restype=container", "", 400, "OutOfRangeInput"),
        ("PUT %20%20%20?restype=container", "", 400, "InvalidResourceName"),
        ("PUT new-box?restype=container", "x-ms-meta-1a: b", 400, "InvalidMetadata"),
        ("PUT new-box?restype=container", "x-ms-meta-: b", 400, "EmptyMetadataKey"),
        ("PUT new-box?restype=container", "x-ms-blob-public-access: all", 400, "InvalidHeaderValue"),
        ("PUT new-box?restype=container", "If-Match: *", 400, "ConditionHeadersNotSupported"),
        ("PUT new-box?restype=container", "x-ms-version: 2026-4-6", 400, "InvalidHeaderValue"),
        ("PUT new-box?restype=container", "x-ms-version: 1999-01-01", 400, "InvalidHeaderValue"),
        ("PUT box/b", "", 400, "MissingRequiredHeader"),
        ("PUT box/b", "x-ms-blob-type: Blob", 400, "InvalidHeaderValue"),
        ("PUT box/b", "x-ms-blob-type: AppendBlob", 400, "InvalidHeaderValue"),
        ("PUT box/b", "x-ms-blob-type: PageBlob\nx-ms-blob-content-length: 512", 400, "InvalidHeaderValue"),
        ("PUT box/%00", put, 400, "InvalidUri"),
        ("PUT box/%ff", put, 400, "InvalidUri"),
        ("PUT box/%EF%B7%90", put, 400, "InvalidUri"),
        ("PUT box/a%zz", put, 400, "InvalidUri"),
        ("PUT box/.", put, 400, "InvalidUri"),
        ("PUT box/a/../b", put, 400, "InvalidUri"),
        ("PUT box/a/%2e%2e/b", put, 400, "InvalidUri"),
        ("PUT no-box/b", put, 404, "ContainerNotFound"),
        ("PUT box/b", "x-ms-blob-type: BlockBlob\nContent-MD5: abc", 400, "InvalidMd5"),
        ("PUT box/b", "x-ms-blob-type: BlockBlob\nContent-MD5: AAAAAAAAAAAAAAAAAAAAAA==", 400, "Md5Mismatch"),
        ("PUT box/b", "x-ms-blob-type: BlockBlob\nx-ms-content-crc64: AAAA", 400, "InvalidHeaderValue"),
        ("PUT box/b", "x-ms-blob-type: BlockBlob\nx-ms-content-crc64: AAAAAAAAAAE=", 400, "Crc64Mismatch"),
        (
            "PUT box/b",
            "x-ms-blob-type: BlockBlob\nContent-MD5: 1B2M2Y8AsgTpgAmY7PhCfg==\nx-ms-content-crc64: AAAAAAAAAAA=",
            400,
            "BothCrc64AndMd5HeaderPresent",
        ),
        ("PUT box/b", "x-ms-blob-type: BlockBlob\nx-ms-blob-content-length: 512", 400, "InvalidHeaderValue"),
        ("PUT box/b", "x-ms-blob-type: BlockBlob\nx-ms-encryption-scope: s", 501, "NotImplemented"),
        ("PUT box/b", "x-ms-blob-type: BlockBlob\nx-ms-lease-id: mine", 400, "InvalidHeaderValue"),
        ("PUT box/b", "x-ms-blob-type: BlockBlob\nIf-Modified-Since: soon", 400, "InvalidHeaderValue"),
        ("PUT box/b?comp=block&blockid=AA", "", 400, "InvalidQueryParameterValue"),
        ("PUT box/b?comp=tier", "", 400, "MissingRequiredHeader"),
        ("GET box/b", "x-ms-range: bytes=5-1\nx-ms-range-get-content-md5: true", 400, "InvalidHeaderValue"),
        ("GET box/b", "x-ms-range: bytes=7-", 416, "InvalidRange"),
        ("GET box/b", "x-ms-range-get-content-md5: true", 400, "InvalidHeaderValue"),
        ("GET box/b", "x-ms-range: bytes=0-1\nx-ms-range-get-content-md5: perhaps", 400, "InvalidHeaderValue"),
        ("GET box/b?snapshot=2026-01-01T00:00:00.0000000Z", "", 404, "BlobNotFound"),
        ("GET box/b?versionid=2026-01-01T00:00:00.0000000Z", "", 404, "BlobNotFound"),
        ("GET box/b?snapshot=yesterday", "", 400, "InvalidQueryParameterValue"),
        ("PUT box/b?comp=metadata&snapshot=2026-01-01T00:00:00Z", "", 400, "InvalidQueryParameterValue"),
        ("PUT box/b?comp=snapshot&snapshot=2026-01-01T00:00:00Z", "", 400, "InvalidQueryParameterValue"),
        ("PUT box/none?comp=undelete", "", 404, "BlobNotFound"),
        ("DELETE box/b?snapshot=2026-01-01T00:00:00Z", "x-ms-delete-snapshots: include", 400, "InvalidHeaderValue"),
        ("DELETE box/b?deletetype=permanent", "", 409, "PermanentDeleteNotAllowed"),
        ("DELETE box/b?deletetype=forever", "", 400, "InvalidQueryParameterValue"),
        ("DELETE box/b", "x-ms-delete-snapshots: some", 400, "InvalidHeaderValue"),
        ("DELETE box/b?versionid=1", "", 400, "InvalidQueryParameterValue"),
        ("GET box/none", "", 404, "BlobNotFound"),
        ("POST box/b", "", 405, "UnsupportedHttpVerb"),
        ("BREW box/b", "", 405, "UnsupportedHttpVerb"),
        ("GET ?comp=list&maxresults=-1", "", 400, "OutOfRangeQueryParameterValue"),
        ("GET ?comp=list&maxresults=many", "", 400, "InvalidQueryParameterValue"),
        ("GET ?comp=list&include=all", "", 400, "InvalidQueryParameterValue"),
        ("GET ?comp=everything", "", 400, "InvalidQueryParameterValue"),
        ("GET ", "", 400, "InvalidQueryParameterValue"),
        ("GET box?restype=container&comp=list&marker=abc", "", 400, "InvalidQueryParameterValue"),
        ("GET box?restype=container&comp=list&delimiter=/&include=snapshots", "", 400, "InvalidQueryParameterValue"),
    ]
    .into_iter()
    .map(|(line, headers, status, code)| (line.to_string(), headers, status, code))
    .chain([
        (format!("PUT box/{long}"), put, 400, "OutOfRangeInput"),
        (format!("PUT box/{deep}"), put, 400, "OutOfRangeInput"),
        (format!("PUT {}?restype=container", "a".repeat(64)), "", 400, "OutOfRangeInput"),
    ])
    .collect();

    let world = world().await;
    let before = everything(&world).await;
    for (line, headers, status, code) in lines {
        let mut request = Request::new(&line);
        for (name, value) in headers.lines().filter_map(|header| header.split_once(": ")) {
            request = request.header(name, value);
        }
        if request.method == "PUT" {
            request = request.body("body");
        }
        let answer = world.send(&request).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{line} {headers}: {}", answer.text());
    }
    assert_eq!(everything(&world).await, before);
}

/// Metadata over 8 KiB, and duplicates that differ in case alone.
#[tokio::test]
async fn metadata_that_is_too_much() {
    let world = world().await;
    let large = Request::new("PUT new-box?restype=container").header("x-ms-meta-a", "v".repeat(8 * 1024));
    let answer = world.send(&large).await;
    assert_eq!((answer.status, answer.code()), (400, "MetadataTooLarge"));
    let sas = testing::AccountSas::all(world.clock.now());
    let twice = Request::new("PUT new-box?restype=container").with_sas(sas.parameters());
    let answer = world.send(&twice.header("x-ms-meta-a", "1").header("x-ms-meta-A", "2")).await;
    assert_eq!((answer.status, answer.code()), (400, "InvalidMetadata"));
}

/// Bytes that are no request at all.
#[tokio::test]
async fn bytes_that_make_no_sense() {
    let world = world().await;
    let before = everything(&world).await;
    let many_headers = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "a: b\r\n".repeat(500));
    let long_head = format!("GET / HTTP/1.1\r\nHost: a\r\na: {}", "b".repeat(100_000));
    let long_target = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "t".repeat(40_000));
    let endless_target = format!("GET /{}", "t".repeat(100_000));
    let cases: [(&[u8], u16); 19] = [
        (b"\r\n\r\nGET / HTTP/1.1\r\n\r\n", 400),
        (b"hello\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\nHost: a\r\n\r\n", 400),
        (b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 400),
        (b"GET nowhere HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nx-ms-date: \xff\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", 400),
        (b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 400),
        (b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (many_headers.as_bytes(), 431),
        (long_head.as_bytes(), 431),
        (long_target.as_bytes(), 414),
        (endless_target.as_bytes(), 414),
        (b"GET /nobody/c HTTP/1.1\r\nHost: a\r\nx-ms-version: 2026-04-06\r\nConnection: close\r\n\r\n", 404),
    ];
    for (bytes, status) in cases {
        let answer = world.send_raw(bytes).await;
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        assert_eq!(answer.status, status, "{shown}: {}", answer.text());
        assert!(!answer.code().is_empty(), "{shown}");
        assert_eq!(answer.header("connection"), Some("close"), "{shown}");
    }
    for bytes in [&b""[..], b"GET", b"GET / HTTP/1.1\r\nHost: a\r\n"] {
        assert_eq!(world.send_raw(bytes).await.status, 0, "a client that leaves gets nothing");
    }
    assert_eq!(everything(&world).await, before);
}

/// Bodies that are not what their length says: nothing is stored.
#[tokio::test]
async fn bodies_that_lie() {
    let world = world().await;
    let before = everything(&world).await;
    let put =
        |name: &str, value: &str| Request::new("PUT box/b").header("x-ms-blob-type", "BlockBlob").header(name, value);
    // Cut short, inline and in the middle of an extent.
    for (length, sent) in [("10", 4), ("1000000", 100), ("1000000", 999_999)] {
        let answer = world.send(&put("Content-Length", length).body(vec![b'x'; sent])).await;
        assert_eq!((answer.status, answer.code()), (400, "InvalidInput"), "{length} {sent}");
    }
    for (body, expected) in
        [("5\r\nhello\r\n0\r\n\r\n", 201), ("5\r\nhel", 400), ("zz\r\nhello", 400), ("5\r\nhello!\r\n0\r\n\r\n", 400)]
    {
        let world = crate::examples::world().await;
        let answer = world.send(&put("Transfer-Encoding", "chunked").body(body)).await;
        assert_eq!(answer.status, expected, "{body:?}");
        if expected == 400 {
            assert_eq!(everything(&world).await, before);
        }
    }
    // Larger than the version allows, said and unsaid.
    let answer = world.send(&put("Content-Length", "5242880001").body("x")).await;
    assert_eq!((answer.status, answer.code()), (413, "RequestBodyTooLarge"));
    let old = put("Content-Length", "67108865").header("x-ms-version", "2015-12-11").body("x");
    let answer = world.send(&old).await;
    assert_eq!((answer.status, answer.text().contains("<MaxLimit>67108864</MaxLimit>")), (413, true));
    // A PUT with neither length nor chunks.
    let sas = testing::AccountSas::all(world.clock.now());
    let bare = Request::new("PUT box/b").with_sas(sas.parameters()).header("x-ms-blob-type", "BlockBlob");
    let text = String::from_utf8(bare.bytes(world.clock.now())).expect("text").replace("Content-Length: 0\r\n", "");
    let answer = world.send_raw(text.as_bytes()).await;
    assert_eq!((answer.status, answer.code()), (411, "MissingContentLengthHeader"));
    assert_eq!(everything(&world).await, before);
}

/// A refusal that is known before the body is told instead of asking for it.
#[tokio::test]
async fn a_refused_upload_is_never_asked_for() {
    let world = world().await;
    let put = |etag: &str| {
        Request::new("PUT box/b")
            .header("x-ms-blob-type", "BlockBlob")
            .header("Expect", "100-continue")
            .header("If-Match", etag)
            .header("Content-Length", "4000000000")
    };
    let answer = world.send(&put("\"0x1\"")).await;
    assert_eq!((answer.status, answer.code()), (412, "ConditionNotMet"));
    assert!(!String::from_utf8_lossy(&answer.raw).contains("100 Continue"));
    assert_eq!(answer.header("connection"), Some("close"));
    // Admitted: asked for, and then it does not come.
    let answer = world.send(&put("*")).await;
    assert_eq!(answer.status, 400);
    let small =
        Request::new("PUT box/b").header("x-ms-blob-type", "BlockBlob").header("Expect", "100-continue").body("four");
    assert_eq!(world.send(&small).await.status, 201);
}

/// The Queue service wants to be told a version, by header or by a SAS.
#[tokio::test]
async fn queues_want_a_version() {
    let world = world().await;
    let sas = testing::AccountSas::all(world.clock.now());
    let mut list = Request::new("GET ?comp=list").of(contract::Service::Queue).with_sas(sas.parameters());
    let bytes =
        String::from_utf8(list.bytes(world.clock.now())).expect("text").replace("x-ms-version: 2026-04-06\r\n", "");
    assert_eq!(world.send_raw_to(contract::Service::Queue, bytes.as_bytes()).await.status, 200);
    list = Request::new("GET ?comp=list").of(contract::Service::Queue).unsigned();
    list.headers.push(("Authorization".into(), "SharedKeyLite devstoreaccount1:".into()));
    let date = world.clock.now().http_date();
    let signature = testing::sign(
        testing::KEY,
        &format!("GET\n\n\n\nx-ms-date:{date}\n/devstoreaccount1/devstoreaccount1/?comp=list"),
    );
    list.headers[0].1.push_str(&signature);
    list.headers.push(("x-ms-date".into(), date));
    let bytes =
        String::from_utf8(list.bytes(world.clock.now())).expect("text").replace("x-ms-version: 2026-04-06\r\n", "");
    let answer = world.send_raw_to(contract::Service::Queue, bytes.as_bytes()).await;
    assert_eq!((answer.status, answer.header("x-ms-error-code")), (400, None), "{}", answer.text());
    assert!(answer.text().contains("<HeaderName>x-ms-version</HeaderName>"), "{}", answer.text());
}
