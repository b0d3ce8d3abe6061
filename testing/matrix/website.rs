//! The static website: what is in `$web`, to everybody, by name and by path; and nothing else.

use testing::{Answer, Request, World};

async fn set(world: &World, website: &str) {
    let body = format!("<StorageServiceProperties><StaticWebsite>{website}</StaticWebsite></StorageServiceProperties>");
    let answer = world.send(&Request::new("PUT ?restype=service&comp=properties").body(body)).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
}

const INDEX: &str = "<Enabled>true</Enabled><IndexDocument>index.html</IndexDocument>";

async fn put(world: &World, name: &str, content: &str) {
    let put = Request::new(&format!("PUT {name}")).header("x-ms-blob-type", "BlockBlob").body(content);
    let answer = world.send(&put.header("x-ms-blob-content-type", "text/html")).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
}

/// A website with an index, a directory, and beside it a container that is public.
async fn world() -> World {
    let world = World::new().await;
    set(&world, INDEX).await;
    let public = Request::new("PUT box?restype=container").header("x-ms-blob-public-access", "container");
    assert_eq!(world.send(&public).await.status, 201);
    for (name, content) in [
        ("$web/index.html", "home"),
        ("$web/a/index.html", "a"),
        ("$web/a/style.css", "0123456789"),
        ("$web/space%20in%20it", "blank"),
        ("$web/404.html", "nothing here"),
        ("box/b", "boxed"),
    ] {
        put(&world, name, content).await;
    }
    world
}

/// The same visit in each of the ways there are.
async fn visits(world: &World, method: &str, path: &str, headers: &str) -> Vec<Answer> {
    let request = |target: &str, host: &str| {
        format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n").into_bytes()
    };
    let named = request(path, "devstoreaccount1.web.localhost:10000");
    let by_path = request(&format!("/devstoreaccount1{path}"), "127.0.0.1:10004");
    vec![world.send_raw(&named).await, world.visit(&named).await, world.visit(&by_path).await]
}

async fn visit(world: &World, line: &str, headers: &str) -> (u16, String) {
    let (method, path) = line.split_once(' ').expect("METHOD path");
    let answers = visits(world, method, path, headers).await;
    let seen: Vec<(u16, String)> = answers
        .iter()
        .map(|answer| match answer.code() {
            "" => (answer.status, answer.text()),
            code => (answer.status, code.to_string()),
        })
        .collect();
    assert!(seen.iter().all(|one| *one == seen[0]), "{line}: {seen:?}");
    seen.into_iter().next().expect("some")
}

#[track_caller]
fn is(seen: (u16, String), status: u16, text: &str) {
    assert_eq!((seen.0, seen.1.as_str()), (status, text));
}

#[tokio::test]
async fn what_is_there() {
    let world = world().await;
    for (line, status, text) in [
        ("GET /", 200, "home"),
        ("GET /index.html", 200, "home"),
        ("GET /a/", 200, "a"),
        ("GET /a/style.css", 200, "0123456789"),
        ("GET /space%20in%20it", 200, "blank"),
        ("GET /?comp=list&restype=container", 200, "home"),
        ("GET /a/style.css?comp=metadata", 200, "0123456789"),
        ("HEAD /", 200, ""),
        ("GET /a", 404, "WebContentNotFound"),
        ("GET /none/", 404, "WebContentNotFound"),
        ("GET /none", 404, "WebContentNotFound"),
        ("GET /box/b", 404, "WebContentNotFound"),
        ("GET /../box/b", 404, "WebContentNotFound"),
        ("GET /$web/index.html", 404, "WebContentNotFound"),
        ("GET /%zz", 400, "InvalidUri"),
        ("PUT /index.html", 405, "UnsupportedHttpVerb"),
        ("POST /", 405, "UnsupportedHttpVerb"),
        ("DELETE /index.html", 405, "UnsupportedHttpVerb"),
        ("OPTIONS /", 405, "UnsupportedHttpVerb"),
    ] {
        let seen = visit(&world, line, "").await;
        assert_eq!((seen.0, seen.1.as_str()), (status, text), "{line}");
    }
    for answer in visits(&world, "GET", "/", "").await {
        assert_eq!(answer.header("content-type"), Some("text/html"));
        assert!(answer.header("etag").is_some() && answer.header("last-modified").is_some());
    }
}

#[tokio::test]
async fn ranges_and_conditions() {
    let world = world().await;
    let whole = visits(&world, "GET", "/a/style.css", "").await.remove(0);
    let (etag, date) = (whole.header("etag").expect("one"), whole.header("last-modified").expect("one"));
    is(visit(&world, "GET /a/style.css", "Range: bytes=2-4\r\n").await, 206, "234");
    is(visit(&world, "GET /a/style.css", "Range: bytes=10-\r\n").await, 416, "InvalidRange");
    is(visit(&world, "GET /a/style.css", &format!("If-None-Match: {etag}\r\n")).await, 304, "ConditionNotMet");
    is(visit(&world, "GET /a/style.css", &format!("If-Modified-Since: {date}\r\n")).await, 304, "ConditionNotMet");
    is(visit(&world, "GET /a/style.css", "If-Match: \"0x1\"\r\n").await, 412, "ConditionNotMet");
    // Nothing is told of what only its owner may ask for.
    is(
        visit(&world, "GET /a/style.css", "x-ms-if-tags: a = 'b'\r\nx-ms-range: bytes=0-0\r\n").await,
        200,
        "0123456789",
    );
    is(visit(&world, "GET /a/style.css", &format!("If-Match: {etag}\r\n")).await, 200, "0123456789");
}

#[tokio::test]
async fn what_is_missing() {
    let world = world().await;
    set(&world, &format!("{INDEX}<ErrorDocument404Path>404.html</ErrorDocument404Path>")).await;
    is(visit(&world, "GET /none", "").await, 404, "nothing here");
    is(visit(&world, "GET /none", "Range: bytes=0-1\r\nIf-Match: \"0x1\"\r\n").await, 404, "nothing here");
    is(visit(&world, "HEAD /none", "").await, 404, "");
    is(visit(&world, "GET /", "").await, 200, "home");
    set(&world, &format!("{INDEX}<ErrorDocument404Path>gone.html</ErrorDocument404Path>")).await;
    is(visit(&world, "GET /none", "").await, 404, "WebContentNotFound");
    let path = "<DefaultIndexDocumentPath>a/index.html</DefaultIndexDocumentPath>";
    set(&world, &format!("<Enabled>true</Enabled>{path}<ErrorDocument404Path>404.html</ErrorDocument404Path>")).await;
    for line in ["GET /", "GET /none", "GET /some/where/"] {
        is(visit(&world, line, "").await, 200, "a");
    }
    is(visit(&world, "GET /index.html", "").await, 200, "home");
    set(&world, "<Enabled>true</Enabled>").await;
    is(visit(&world, "GET /", "").await, 404, "WebContentNotFound");

    set(&world, "<Enabled>false</Enabled>").await;
    is(visit(&world, "GET /index.html", "").await, 404, "WebContentNotFound");
    let stranger = b"GET /nobody/index.html HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    assert_eq!(world.visit(stranger).await.code(), "WebContentNotFound");
    // The Blob service itself shows `$web` to its owner alone.
    assert_eq!(world.send(&Request::new("GET $web/index.html").unsigned()).await.status, 401);
    assert_eq!(world.send(&Request::new("GET $web/index.html")).await.text(), "home");
}
