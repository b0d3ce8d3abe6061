//! Copies from outside: nothing unless it is allowed, no redirect, and a copy in the background that is always in one of its four states.

use std::sync::Arc;
use std::time::Duration;

use engine::Engine;
use engine::memory::MemoryEngine;
use env::{ScriptedClock, ScriptedIds, Timestamp};
use http::source::allow::AllowList;
use testing::{Answer, Outside, Request, World};

async fn prepared(world: World) -> World {
    for request in
        [Request::new("PUT box?restype=container"), Request::new("PUT box/log").header("x-ms-blob-type", "AppendBlob")]
    {
        assert_eq!(world.send(&request).await.status, 201);
    }
    world
}

fn from(line: &str, url: String) -> Request {
    Request::new(line).header("x-ms-copy-source", url)
}

/// Each operation that takes a source.
fn every(url: &str) -> [Request; 5] {
    let url = || url.to_string();
    [
        from("PUT box/a", url()),
        from("PUT box/b", url()).header("x-ms-requires-sync", "true"),
        from("PUT box/c", url()).header("x-ms-blob-type", "BlockBlob"),
        from("PUT box/d?comp=block&blockid=YQ==", url()),
        from("PUT box/log?comp=appendblock", url()),
    ]
}

async fn get(world: &World, path: &str) -> Answer {
    world.send(&Request::new(&format!("GET {path}"))).await
}

/// Waits until the copy is in another state than pending.
async fn settled(world: &World, path: &str) -> Answer {
    for _ in 0..2000 {
        let answer = get(world, path).await;
        if answer.header("x-ms-copy-status") != Some("pending") {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the copy to {path} is pending for ever");
}

#[tokio::test]
async fn nothing_outside_is_read_by_default() {
    let world = prepared(World::new().await).await;
    let outside = Outside::serve("content").await;
    let refuse = async |url: &str| {
        for request in every(url) {
            let answer = world.send(&request).await;
            assert_eq!((answer.status, answer.code()), (403, "CannotVerifyCopySource"), "{url}: {}", answer.text());
        }
    };
    refuse(&outside.url("content")).await;
    refuse("http://example.org/content").await;
    refuse("http://169.254.169.254/latest/meta-data").await;
    refuse("http://[::1]:9/content").await;
    // What covers every host covers no address of this machine.
    let port = outside.port;
    world.app.set_copy_sources(AllowList::parse([format!("*:{port}").as_str()]).expect("right"));
    refuse(&outside.url("content")).await;
    refuse(&format!("http://localhost:{port}/content")).await;
    refuse(&format!("http://2130706433:{port}/content")).await;
    assert_eq!(outside.asked(), 0);
    assert_eq!(get(&world, "box/a").await.status, 404);
}

#[tokio::test]
async fn what_is_listed_is_read() {
    let world = prepared(World::new().await).await;
    let content = "0123456789".repeat(10_000);
    let outside = Outside::serve(content.clone()).await;
    outside.allow(&world);
    let running = tokio::spawn(http::copies::run(world.app.clone()));
    for (request, path) in every(&outside.url("content?sig=secret")).iter().zip(["a", "b", "c", "d", "log"]) {
        let answer = world.send(request).await;
        assert!((200..300).contains(&answer.status), "{request:?} {}", answer.text());
        if path == "d" {
            let list = Request::new("PUT box/d?comp=blocklist").body("<BlockList><Latest>YQ==</Latest></BlockList>");
            assert_eq!(world.send(&list).await.status, 201);
        }
        let copied = settled(&world, &format!("box/{path}")).await;
        assert!(copied.text() == content, "{path}");
        if ["a", "b", "c"].contains(&path) {
            assert_eq!(copied.header("content-type"), Some("text/outside"));
            assert_eq!(copied.header("x-ms-meta-color"), Some("blue"));
            assert!(copied.header("content-md5").is_some());
        }
        if ["a", "b"].contains(&path) {
            assert_eq!(copied.header("x-ms-copy-status"), Some("success"));
            assert_eq!(copied.header("x-ms-copy-progress"), Some("100000/100000"));
            // Whoever reads the copy learns where it is from, not how to read it.
            assert_eq!(copied.header("x-ms-copy-source"), Some(outside.url("content").as_str()));
        }
    }
    let part = from("PUT box/log?comp=appendblock", outside.url("content")).header("x-ms-source-range", "bytes=5-7");
    assert_eq!(world.send(&part).await.status, 201);
    assert!(get(&world, "box/log").await.text() == format!("{content}567"));
    running.abort();
}

#[tokio::test]
async fn sources_that_fail() {
    let world = prepared(World::new().await).await;
    let outside = Outside::serve("content").await;
    outside.allow(&world);
    for (path, status, source_status) in
        [("none", 404, Some("404")), ("moved", 400, Some("302")), ("secret", 401, Some("401"))]
    {
        for request in every(&outside.url(path)) {
            let answer = world.send(&request).await;
            assert_eq!((answer.status, answer.code()), (status, "CannotVerifyCopySource"), "{path}: {}", answer.text());
            assert_eq!(answer.header("x-ms-copy-source-status-code"), source_status);
            let code = Some("BlobNotFound").filter(|_| path == "none");
            assert_eq!(answer.header("x-ms-copy-source-error-code"), code);
        }
    }
    for request in &every(&outside.url("cut"))[1..] {
        let answer = world.send(request).await;
        assert_eq!((answer.status, answer.code()), (500, "CannotVerifyCopySource"), "{}", answer.text());
    }
    let secret = from("PUT box/c", outside.url("secret")).header("x-ms-blob-type", "BlockBlob");
    assert_eq!(world.send(&secret.header("x-ms-copy-source-authorization", "Bearer token")).await.status, 201);
    // Conditions are the source's to judge.
    for (request, codes) in every(&outside.url("content")).iter().zip([
        ["SourceConditionNotMet", "SourceConditionNotMet"],
        ["SourceConditionNotMet", "SourceConditionNotMet"],
        ["SourceConditionNotMet", "CannotVerifyCopySource"],
        ["CannotVerifyCopySource", "CannotVerifyCopySource"],
        ["CannotVerifyCopySource", "CannotVerifyCopySource"],
    ]) {
        let other = world.send(&request.clone().header("x-ms-source-if-match", "\"other\"")).await;
        assert_eq!((other.status, other.code()), (412, codes[0]), "{request:?}");
        let same = world.send(&request.clone().header("x-ms-source-if-none-match", "\"first\"")).await;
        let status = if codes[1] == "CannotVerifyCopySource" { 304 } else { 412 };
        assert_eq!((same.status, same.code()), (status, codes[1]), "{request:?}");
    }
    let gone = outside.url("content");
    drop(outside);
    tokio::task::yield_now().await;
    for request in every(&gone) {
        let answer = world.send(&request).await;
        assert_eq!((answer.status, answer.code()), (500, "CannotVerifyCopySource"), "{}", answer.text());
    }
}

#[tokio::test]
async fn a_pending_copy_keeps_everybody_else_away_until_it_ends() {
    let world = prepared(World::new().await).await;
    let outside = Outside::serve("content").await;
    outside.allow(&world);
    let running = tokio::spawn(http::copies::run(world.app.clone()));
    let put = Request::new("PUT box/a").header("x-ms-blob-type", "BlockBlob").body("old");
    assert_eq!(world.send(&put).await.status, 201);
    let started = world.send(&from("PUT box/a", outside.url("slow")).header("x-ms-meta-New", "2")).await;
    assert_eq!((started.status, started.header("x-ms-copy-status")), (202, Some("pending")));
    let id = started.header("x-ms-copy-id").expect("an id").to_string();
    let pending = get(&world, "box/a").await;
    assert_eq!((pending.status, pending.body.len()), (200, 0));
    assert_eq!(pending.header("x-ms-copy-progress"), Some("0/7"));
    assert_eq!((pending.header("x-ms-meta-new"), pending.header("x-ms-meta-color")), (Some("2"), None));
    let lease = Request::new("PUT box/a?comp=lease").header("x-ms-lease-action", "acquire");
    for request in [
        put.clone(),
        lease.header("x-ms-lease-duration", "-1"),
        Request::new("PUT box/a?comp=metadata"),
        Request::new("PUT box/a?comp=snapshot"),
        Request::new("PUT box/a?comp=block&blockid=YQ==").body("x"),
        Request::new("DELETE box/a"),
        from("PUT box/a", outside.url("content")),
        from("PUT box/a", outside.url("content")).header("x-ms-blob-type", "BlockBlob"),
    ] {
        let answer = world.send(&request).await;
        assert_eq!((answer.status, answer.code()), (409, "PendingCopyOperation"), "{request:?}");
    }
    outside.go_on();
    let copied = settled(&world, "box/a").await;
    assert_eq!((copied.text().as_str(), copied.header("x-ms-copy-id")), ("content", Some(id.as_str())));
    assert_ne!(copied.header("etag"), started.header("etag"));
    assert_eq!(world.send(&put).await.status, 201);
    assert_eq!(get(&world, "box/a").await.header("x-ms-copy-id"), None);
    running.abort();
}

fn abort(path: &str, id: &str) -> Request {
    Request::new(&format!("PUT {path}?comp=copy&copyid={id}")).header("x-ms-copy-action", "abort")
}

#[tokio::test]
async fn aborting() {
    let world = prepared(World::new().await).await;
    let outside = Outside::serve("content").await;
    outside.allow(&world);
    let running = tokio::spawn(http::copies::run(world.app.clone()));
    let put = Request::new("PUT box/a").header("x-ms-blob-type", "BlockBlob").body("old");
    assert_eq!(world.send(&put).await.status, 201);
    let lease = Request::new("PUT box/a?comp=lease").header("x-ms-lease-action", "acquire");
    let leased = world.send(&lease.header("x-ms-lease-duration", "-1")).await;
    let lease = leased.header("x-ms-lease-id").expect("an id").to_string();
    let other = "01234567-89ab-cdef-0123-456789abcdef";
    let slow = from("PUT box/a", outside.url("slow")).header("x-ms-lease-id", &lease).header("x-ms-meta-New", "2");
    let started = world.send(&slow).await;
    let id = started.header("x-ms-copy-id").expect("an id").to_string();
    for (request, status, code) in [
        (abort("box/a", other).header("x-ms-lease-id", &lease), 409, "CopyIdMismatch"),
        (abort("box/a", &id), 412, "LeaseIdMissing"),
        (abort("box/a", &id).header("x-ms-lease-id", other), 412, "LeaseIdMismatchWithBlobOperation"),
        (abort("box/a", "some"), 400, "InvalidQueryParameterValue"),
        (Request::new("PUT box/a?comp=copy").header("x-ms-copy-action", "abort"), 400, "MissingRequiredQueryParameter"),
        (Request::new(&format!("PUT box/a?comp=copy&copyid={id}")), 400, "MissingRequiredHeader"),
        (abort("box/none", &id), 404, "BlobNotFound"),
        (abort("box/log", &id), 409, "NoPendingCopyOperation"),
        (abort("box/a", &id).header("x-ms-lease-id", &lease), 204, ""),
        (abort("box/a", &id).header("x-ms-lease-id", &lease), 409, "NoPendingCopyOperation"),
    ] {
        let answer = world.send(&request).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{request:?}");
    }
    outside.go_on();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let aborted = get(&world, "box/a").await;
    assert_eq!(aborted.header("x-ms-copy-status"), Some("aborted"));
    assert_eq!((aborted.body.len(), aborted.header("x-ms-meta-new")), (0, Some("2")));
    running.abort();
}

/// Whatever moment the server stops at: the next start finds the copy pending and goes on, or says why it cannot.
#[tokio::test]
async fn a_restart_goes_on_with_pending_copies() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let world = prepared(World::over(engine.clone()).await).await;
    let outside = Outside::serve("content").await;
    outside.allow(&world);
    let running = tokio::spawn(http::copies::run(world.app.clone()));
    for name in ["a", "b", "c"] {
        let path = if name == "b" { "secret" } else { "slow" };
        let start = from(&format!("PUT box/{name}"), outside.url(path));
        let start = start.header("x-ms-copy-source-authorization", "Bearer token");
        // One that nobody has begun to read when the server stops.
        if name == "b" {
            running.abort();
        }
        assert_eq!(world.send(&start).await.header("x-ms-copy-status"), Some("pending"), "{name}");
    }
    drop(world);
    let later = Timestamp::parse_iso8601("2026-01-10T00:00:00Z").expect("a time");
    let again = |now| World::with(engine.clone(), Arc::new(ScriptedClock::at(now)), Arc::new(ScriptedIds::default()));
    let world = again(later).await.expect("opens");
    outside.allow(&world);
    assert_eq!(get(&world, "box/a").await.header("x-ms-copy-status"), Some("pending"));
    outside.go_on();
    let running = tokio::spawn(http::copies::run(world.app.clone()));
    assert_eq!(settled(&world, "box/a").await.text(), "content");
    assert_eq!(settled(&world, "box/c").await.text(), "content");
    // The token is not kept.
    let failed = settled(&world, "box/b").await;
    assert_eq!(failed.header("x-ms-copy-status"), Some("failed"));
    let description = failed.header("x-ms-copy-status-description").expect("a description");
    assert_eq!(description, "401 CannotVerifyCopySource \"Copy failed when reading the source.\"");
    assert_eq!(failed.body.len(), 0);
    running.abort();

    // A source that is another by then, and one that took too long.
    for (name, now, words) in
        [("d", "2026-01-11T00:00:00Z", "changed meanwhile"), ("e", "2026-02-11T00:00:00Z", "two weeks")]
    {
        let outside = Outside::serve("content").await;
        outside.allow(&world);
        let started = world.send(&from(&format!("PUT box/{name}"), outside.url("content"))).await;
        assert_eq!(started.header("x-ms-copy-status"), Some("pending"));
        if name == "d" {
            outside.change("other");
        }
        let world = again(Timestamp::parse_iso8601(now).expect("a time")).await.expect("opens");
        outside.allow(&world);
        let running = tokio::spawn(http::copies::run(world.app.clone()));
        let failed = settled(&world, &format!("box/{name}")).await;
        assert_eq!(failed.header("x-ms-copy-status"), Some("failed"));
        assert!(failed.header("x-ms-copy-status-description").is_some_and(|text| text.contains(words)));
        running.abort();
    }
}

#[tokio::test]
async fn a_container_that_is_deleted_ends_its_copies() {
    let world = prepared(World::new().await).await;
    let outside = Outside::serve("content").await;
    outside.allow(&world);
    let running = tokio::spawn(http::copies::run(world.app.clone()));
    let started = world.send(&from("PUT box/a", outside.url("slow"))).await;
    assert_eq!(started.status, 202);
    assert_eq!(world.send(&Request::new("DELETE box?restype=container")).await.status, 202);
    outside.go_on();
    let account = contract::names::AccountName::parse(testing::ACCOUNT).expect("a name");
    for _ in 0..1000 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        if partition::copying::noted(&world.app.shell, &account).await.expect("readable").is_empty() {
            running.abort();
            return;
        }
    }
    panic!("the copy is noted for ever");
}
