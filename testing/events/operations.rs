//! Which operations raise an event, and what it says.

use testing::{ACCOUNT, Outside, Request};

use crate::{delivered, put, send, short, subscribe, subscription, world};

const DELETE_RETENTION: &str = "<StorageServiceProperties><DeleteRetentionPolicy><Enabled>true</Enabled><Days>1</Days></DeleteRetentionPolicy></StorageServiceProperties>";

fn blocks(ids: &[&str]) -> String {
    let list: String = ids.iter().map(|id| format!("<Latest>{id}</Latest>")).collect();
    format!("<BlockList>{list}</BlockList>")
}

/// One line per operation: what it answers, and which events there are then.
#[tokio::test]
async fn operations_and_their_events() {
    let world = world().await;
    let own = |path: &str| format!("http://127.0.0.1:10000/{ACCOUNT}/{path}");
    let copy = |to: &str| Request::new(&format!("PUT {to}")).header("x-ms-copy-source", own("box/b"));
    let public = |to: &str| Request::new(&format!("PUT {to}")).header("x-ms-copy-source", own("open/source"));
    let mut snapshot = String::new();
    for (request, status, expected) in [
        (put("box/b", "content"), 201, &["PutBlob box/b"][..]),
        (put("box/b", "again"), 201, &["PutBlob box/b"]),
        (put("box/b", "no").header("If-None-Match", "*"), 409, &[]),
        (put("box/b", "no").header("If-Match", "\"0x1\""), 412, &[]),
        (put("nowhere/b", "no"), 404, &[]),
        (put("box/b", "no").signed_with("QUJD"), 403, &[]),
        (put("box/a/b%20c", "x"), 201, &["PutBlob box/a/b c"]),
        (Request::new("PUT box/b?comp=metadata").header("x-ms-meta-a", "b"), 200, &[]),
        (Request::new("PUT box/b?comp=properties").header("x-ms-blob-content-type", "text/plain"), 200, &[]),
        (Request::new("PUT box/b?comp=tier").header("x-ms-access-tier", "Cool"), 200, &[]),
        (
            Request::new("PUT box/b?comp=lease")
                .header("x-ms-lease-action", "acquire")
                .header("x-ms-lease-duration", "15"),
            201,
            &[],
        ),
        (put("box/b", "leased"), 412, &[]),
        (
            Request::new("PUT box/b?comp=lease")
                .header("x-ms-lease-action", "break")
                .header("x-ms-lease-break-period", "0"),
            202,
            &[],
        ),
        (Request::new("PUT box/l?comp=block&blockid=QQ==").body("block"), 201, &[]),
        (Request::new("PUT box/l?comp=blocklist").body(blocks(&["QQ=="])), 201, &["PutBlockList box/l"]),
        (Request::new("PUT box/l?comp=blocklist").body(blocks(&["Qg=="])), 400, &[]),
        (Request::new("PUT box/s?comp=block&blockid=QQ==").body("block"), 201, &[]),
        // What was only staged was no blob.
        (Request::new("DELETE box/s"), 202, &[]),
        (Request::new("PUT box/a").header("x-ms-blob-type", "AppendBlob"), 201, &["PutBlob box/a"]),
        (Request::new("PUT box/a?comp=appendblock").body("more"), 201, &[]),
        (
            Request::new("PUT box/p").header("x-ms-blob-type", "PageBlob").header("x-ms-blob-content-length", "512"),
            201,
            &["PutBlob box/p"],
        ),
        (
            Request::new("PUT box/p?comp=page")
                .header("x-ms-page-write", "update")
                .header("x-ms-range", "bytes=0-511")
                .body(vec![1; 512]),
            201,
            &[],
        ),
        (copy("box/copy"), 202, &["CopyBlob box/copy"]),
        (copy("box/nothing").header("x-ms-source-if-match", "\"0x1\""), 412, &[]),
        (Request::new("PUT open?restype=container").header("x-ms-blob-public-access", "blob"), 201, &[]),
        (put("open/source", "x"), 201, &["PutBlob open/source"]),
        (public("box/at-once").header("x-ms-requires-sync", "true"), 202, &["CopyBlob box/at-once"]),
        (public("box/from").header("x-ms-blob-type", "BlockBlob"), 201, &["PutBlob box/from"]),
        (Request::new("DELETE box/copy"), 202, &["DeleteBlob box/copy"]),
        (Request::new("DELETE box/copy"), 404, &[]),
        (Request::new("DELETE box/b").header("If-Match", "\"0x1\""), 412, &[]),
        (Request::new("PUT box/b?comp=snapshot"), 201, &[]),
        (Request::new("DELETE box/b"), 409, &[]),
        (Request::new("DELETE box/b?snapshot=TAKEN"), 202, &[]),
        (Request::new("PUT box/b?comp=snapshot"), 201, &[]),
        (Request::new("DELETE box/b").header("x-ms-delete-snapshots", "only"), 202, &[]),
        (Request::new("PUT box/b?comp=snapshot"), 201, &[]),
        (Request::new("DELETE box/b").header("x-ms-delete-snapshots", "include"), 202, &["DeleteBlob box/b"]),
        (Request::new("PUT ?restype=service&comp=properties").body(DELETE_RETENTION), 202, &[]),
        (put("box/kept", "x"), 201, &["PutBlob box/kept"]),
        (Request::new("DELETE box/kept"), 202, &["DeleteBlob box/kept"]),
        (Request::new("PUT box/kept?comp=undelete"), 200, &[]),
        (put("$logs/l", "x"), 404, &[]),
        (Request::new("DELETE box?restype=container"), 202, &[]),
    ] {
        let mut request = request;
        for (_, value) in request.query.iter_mut().filter(|(_, value)| value == "TAKEN") {
            *value = snapshot.clone();
        }
        world.clock.advance_seconds(10);
        let answer = send(&world, request.clone(), status).await;
        if let Some(taken) = answer.header("x-ms-snapshot") {
            snapshot = taken.to_string();
        }
        let events: Vec<String> = delivered(&world).await.iter().map(short).collect();
        assert_eq!(events, expected, "{} {} {:?}", request.method, request.path, request.query);
    }
}

#[tokio::test]
async fn what_an_event_says() {
    let world = world().await;
    let request = put("box/a/b%20c", "content").header("x-ms-client-request-id", "mine");
    let made = send(&world, request.header("Content-Type", "text/plain"), 201).await;
    world.clock.advance_seconds(1);
    let gone = send(&world, Request::new("DELETE box/a/b%20c"), 202).await;
    let events = delivered(&world).await;
    let [created, deleted] = events.as_slice() else { panic!("{events:?}") };
    let text =
        |event: &serde_json::Value, pointer: &str| event.pointer(pointer).and_then(|v| v.as_str()).map(str::to_string);
    for event in [created, deleted] {
        assert_eq!(text(event, "/subject").as_deref(), Some("/blobServices/default/containers/box/blobs/a/b c"));
        assert_eq!(text(event, "/data/url"), Some(format!("http://127.0.0.1:10000/{ACCOUNT}/box/a/b%20c")));
        assert_eq!(text(event, "/data/contentType").as_deref(), Some("text/plain"));
        assert_eq!(text(event, "/data/blobType").as_deref(), Some("BlockBlob"));
        assert!(text(event, "/topic").is_some_and(|topic| topic.ends_with(&format!("/storageAccounts/{ACCOUNT}"))));
    }
    assert_eq!(text(created, "/data/requestId").as_deref(), made.header("x-ms-request-id"));
    assert_eq!(text(deleted, "/data/requestId").as_deref(), gone.header("x-ms-request-id"));
    assert_eq!(text(created, "/data/clientRequestId").as_deref(), Some("mine"));
    assert_eq!(text(deleted, "/data/clientRequestId"), None);
    assert_eq!(text(created, "/data/eTag"), made.header("etag").map(|etag| etag.trim_matches('"').to_string()));
    assert_eq!((created["data"]["contentLength"].as_u64(), deleted["data"].get("contentLength")), (Some(7), None));
    assert_eq!(text(created, "/eventTime").as_deref(), Some("2026-01-02T03:04:05.0000000Z"));
    assert_ne!(created["id"], deleted["id"]);
    assert!(text(created, "/data/sequencer") < text(deleted, "/data/sequencer"));
}

/// Deletions in a batch are deletions.
#[tokio::test]
async fn batches() {
    let world = world().await;
    for name in ["one", "two"] {
        send(&world, put(&format!("box/{name}"), "x"), 201).await;
    }
    delivered(&world).await;
    let part = |n: usize, name: &str| {
        let inner = Request::new(&format!("DELETE box/{name}")).bytes(env::Clock::now(world.clock.as_ref()));
        let inner = String::from_utf8(inner).expect("text");
        format!("--b\r\nContent-Type: application/http\r\nContent-ID: {n}\r\n\r\n{inner}\r\n")
    };
    let body = format!("{}{}{}--b--\r\n", part(0, "one"), part(1, "missing"), part(2, "two"));
    let batch = Request::new("POST ?comp=batch").header("Content-Type", "multipart/mixed; boundary=b").body(body);
    send(&world, batch, 202).await;
    let mut events: Vec<String> = delivered(&world).await.iter().map(short).collect();
    events.sort();
    assert_eq!(events, ["DeleteBlob box/one", "DeleteBlob box/two"]);
}

/// A copy from outside is told of when it is whole, also when another process finishes it.
#[tokio::test]
async fn copies_in_the_background() {
    let world = world().await;
    let outside = Outside::serve("content").await;
    outside.allow(&world);
    let copy = Request::new("PUT box/copy").header("x-ms-copy-source", outside.url("slow"));
    let begun = send(&world, copy.header("x-ms-client-request-id", "mine"), 202).await;
    assert_eq!(begun.header("x-ms-copy-status"), Some("pending"));
    let copying = tokio::spawn(http::copies::run(world.app.clone()));
    assert_eq!(delivered(&world).await, [] as [serde_json::Value; 0]);
    outside.go_on();
    let mut events = Vec::new();
    for _ in 0..500 {
        events = delivered(&world).await;
        if !events.is_empty() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    copying.abort();
    assert_eq!(events.iter().map(short).collect::<Vec<_>>(), ["CopyBlob box/copy"]);
    assert_eq!(events[0]["data"]["contentLength"], 7);
    assert_eq!(events[0]["data"]["clientRequestId"], "mine");
    assert_eq!(events[0]["data"]["requestId"].as_str(), begun.header("x-ms-request-id"));
}

/// Where nobody wants to hear of it nothing is written.
#[tokio::test]
async fn nothing_is_written_that_nobody_wants() {
    let world = world().await;
    let mut wants = subscription("pictures", "queue:jobs");
    (wants.subject_begins_with, wants.subject_ends_with) =
        ("/blobServices/default/containers/box/".into(), ".jpg".into());
    wants.types = Some(vec!["Microsoft.Storage.BlobCreated".into()]);
    subscribe(&world, &[wants]);
    send(&world, put("box/a.txt", "x"), 201).await;
    send(&world, Request::new("DELETE box/a.txt"), 202).await;
    let account = contract::names::AccountName::parse(ACCOUNT).expect("right");
    let holders = partition::events::holders(&world.app.shell, &account).await.expect("read");
    assert_eq!(holders.len(), 1, "no container is noted");
    assert_eq!(http::events::deliver_due(&world.app).await.expect("done"), 0);
    send(&world, put("box/a.jpg", "x"), 201).await;
    send(&world, Request::new("DELETE box/a.jpg"), 202).await;
    assert_eq!(delivered(&world).await.iter().map(short).collect::<Vec<_>>(), ["PutBlob box/a.jpg"]);
    assert_eq!(delivered(&world).await.len(), 0);
}
