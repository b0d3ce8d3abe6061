//! The services' own API, for whoever is signed in: the same answers, and nothing in them that a browser would run.

use testing::{ACCOUNT, Request};

use crate::Seen;

const OURS: &str = "x-lazuli-console: 1\nSec-Fetch-Site: same-origin\nSec-Fetch-Dest: empty";

#[tokio::test]
async fn every_service_answers_as_it_does_to_a_client() {
    let seen = Seen::new().await;
    let cookie = seen.sign_in_here().await;
    let send = async |line: &str, headers: &str, body: &str| {
        let answer =
            seen.ask(line, &format!("{cookie}\n{OURS}\nx-ms-version: 2025-07-05\n{headers}"), body.as_bytes()).await;
        (answer.status, answer.code().to_string(), answer.text())
    };
    let at = |service: &str, rest: &str| format!("/api/{service}/{ACCOUNT}/{rest}");
    let json = "Content-Type: application/json\nAccept: application/json;odata=nometadata";
    for (line, headers, body, expected) in [
        (format!("PUT {}", at("blob", "cont?restype=container")), "", "", (201, "")),
        (format!("PUT {}", at("blob", "cont?restype=container")), "", "", (409, "ContainerAlreadyExists")),
        (format!("PUT {}", at("blob", "cont/a%20b")), "x-ms-blob-type: BlockBlob", "hello", (201, "")),
        (
            format!("PUT {}", at("blob", "cont/a%20b")),
            "x-ms-blob-type: BlockBlob\nIf-None-Match: *",
            "hello",
            (409, "BlobAlreadyExists"),
        ),
        (
            format!("PUT {}", at("blob", "cont/a%20b")),
            "x-ms-blob-type: BlockBlob\nIf-Match: \"0x1\"",
            "hello",
            (412, "ConditionNotMet"),
        ),
        (format!("GET {}", at("blob", "cont/a%20b")), "", "", (200, "")),
        (format!("GET {}", at("blob", "cont?restype=container&comp=list&prefix=a%20")), "", "", (200, "")),
        (format!("PUT {}", at("queue", "jobs")), "", "", (201, "")),
        (
            format!("POST {}", at("queue", "jobs/messages")),
            "",
            "<QueueMessage><MessageText>eA==</MessageText></QueueMessage>",
            (201, ""),
        ),
        (format!("POST {}", at("table", "Tables")), json, "{\"TableName\":\"people\"}", (201, "")),
        (
            format!("POST {}", at("table", "people")),
            json,
            "{\"PartitionKey\":\"a\",\"RowKey\":\"b\",\"age\":1}",
            (201, ""),
        ),
        (format!("GET {}", at("table", "people()?$filter=age%20eq%201")), json, "", (200, "")),
        (format!("PUT {}", at("file", "share?restype=share")), "", "", (201, "")),
        (format!("PUT {}", at("file", "share/f")), "x-ms-type: file\nx-ms-content-length: 3", "", (201, "")),
        (format!("GET {}", at("file", "share?restype=directory&comp=list")), "", "", (200, "")),
        (format!("GET {}", at("blob", "cont/a%20b?sig=forged&sv=2021-08-06&sr=b")), "", "", (200, "")),
        (format!("GET {}", at("blob", "cont/a%20b")), "Authorization: SharedKey devstoreaccount1:bm8=", "", (200, "")),
        (format!("GET {}", at("blob", "cont/a%20b")), "x-ms-date: Thu, 01 Jan 1970 00:00:00 GMT", "", (200, "")),
    ] {
        let (status, code, text) = send(&line, headers, body).await;
        assert_eq!((status, code.as_str()), expected, "{line}: {text}");
    }
    let own = seen.world.send(&Request::new("GET cont/a%20b")).await;
    assert_eq!(own.text(), "hello", "a client of the service finds what the console put");
}

#[tokio::test]
async fn what_is_stored_is_never_run() {
    let seen = Seen::new().await;
    let cookie = seen.sign_in_here().await;
    seen.world.send(&Request::new("PUT cont?restype=container")).await;
    let stored = [
        ("page.html", "text/html", "inline; filename=x.html"),
        ("code.js", "text/javascript", ""),
        ("code.svg", "image/svg+xml", "attachment; filename=\"p.svg\""),
        ("a.txt", "text/plain", ""),
    ];
    for (name, content_type, disposition) in stored {
        let put = Request::new(&format!("PUT cont/{name}")).header("x-ms-blob-type", "BlockBlob");
        let put =
            put.header("x-ms-blob-content-type", content_type).header("x-ms-blob-content-disposition", disposition);
        let put = put.header("x-ms-blob-cache-control", "public, max-age=9999").body("<script>alert(1)</script>");
        assert_eq!(seen.world.send(&put).await.status, 201);
        let get = async |headers: &str| {
            seen.ask(&format!("GET /api/blob/{ACCOUNT}/cont/{name}"), &format!("{cookie}\n{headers}"), b"").await
        };
        for headers in [
            "x-none: 1",
            "Sec-Fetch-Dest: document",
            "Sec-Fetch-Dest: empty",
            "Sec-Fetch-Dest: image",
            "x-lazuli-console: 1",
        ] {
            let answer = get(headers).await;
            assert_eq!(answer.status, 200, "{name} {headers}");
            let policy = answer.header("content-security-policy").expect("a policy");
            assert!(policy.starts_with("sandbox;") && !policy.contains("allow"), "{policy}");
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
            assert_eq!(answer.header("cache-control"), Some("no-store"), "nothing stays behind after signing out");
            assert_eq!(answer.header("x-lazuli-content-type"), Some(content_type));
            let is_shown = headers.contains("empty") || headers.contains("image") || headers.contains("console");
            let disposition = answer.header("content-disposition").unwrap_or_default();
            assert_eq!(disposition.starts_with("attachment"), !is_shown, "{name} {headers}: {disposition}");
            let is_itself = answer.header("content-type") == Some(content_type);
            assert_eq!(is_itself, is_shown || content_type.starts_with("image/"), "{name} {headers}");
        }
        for used in [
            "script",
            "style",
            "worker",
            "serviceworker",
            "sharedworker",
            "iframe",
            "frame",
            "object",
            "embed",
            "audioworklet",
            "manifest",
            "xslt",
            "unknown",
        ] {
            assert_eq!(get(&format!("Sec-Fetch-Dest: {used}")).await.status, 403, "{name} as {used}");
        }
        assert_eq!(get("Service-Worker: script").await.status, 403);
    }
}

#[tokio::test]
async fn rules_for_other_origins_do_not_open_the_console() {
    let seen = Seen::new().await;
    let cookie = seen.sign_in_here().await;
    let rules = "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>*</AllowedOrigins><AllowedMethods>GET,PUT</AllowedMethods><MaxAgeInSeconds>5</MaxAgeInSeconds><ExposedHeaders>*</ExposedHeaders><AllowedHeaders>*</AllowedHeaders></CorsRule></Cors></StorageServiceProperties>";
    let set = Request::new("PUT ?restype=service&comp=properties").body(rules);
    assert_eq!(seen.world.send(&set).await.status, 202);
    seen.world.clock.advance_seconds(60);
    let line = format!("GET /api/blob/{ACCOUNT}/?comp=list");
    let foreign = seen.ask(&line, &format!("{cookie}\nOrigin: http://localhost:3000"), b"").await;
    assert_eq!((foreign.status, foreign.header("access-control-allow-origin")), (403, None));
    let own = seen.ask(&line, &format!("{cookie}\nOrigin: http://127.0.0.1:10080"), b"").await;
    assert_eq!((own.status, own.header("access-control-allow-origin")), (200, None));
}

#[tokio::test]
async fn a_service_that_is_not_served_is_not_there() {
    let seen = Seen::new().await;
    let cookie = seen.sign_in_here().await;
    for line in [
        "GET /api/web/devstoreaccount1/",
        "GET /api/peer/devstoreaccount1/",
        "GET /api/blob2/devstoreaccount1/",
        "GET /api/",
        "GET /api/view/nothing",
    ] {
        assert_eq!(seen.ask(line, &cookie, b"").await.status, 404, "{line}");
    }
}
