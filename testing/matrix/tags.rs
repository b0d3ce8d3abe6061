//! Tags: set, kept, cleared, found; conditions on them on every row.

use contract::OperationId;
use contract::operations::{Conditions, LeaseCheck, Resource};
use env::Clock;
use http::account::{Account, BlobSettings};
use testing::{AccountSas, Answer, Request, World};

use crate::examples::{LEASE_ID, built, everything, example, prepared, send, world};

/// `a=1,b=2` as the document that sets them.
fn document(tags: &str) -> String {
    let pairs = tags.split(',').filter_map(|pair| pair.split_once('='));
    let tags: String = pairs.map(|(key, value)| format!("<Tag><Key>{key}</Key><Value>{value}</Value></Tag>")).collect();
    format!("<Tags><TagSet>{tags}</TagSet></Tags>")
}

fn set(blob: &str, tags: &str) -> Request {
    Request::new(&format!("PUT box/{blob}?comp=tags")).body(document(tags))
}

fn put(blob: &str) -> Request {
    Request::new(&format!("PUT box/{blob}")).header("x-ms-blob-type", "BlockBlob").body("content")
}

async fn tags(world: &World, blob: &str) -> String {
    let answer = world.send(&Request::new(&format!("GET box/{blob}?comp=tags"))).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    texts(&answer, "Key")
        .into_iter()
        .zip(texts(&answer, "Value"))
        .map(|(key, value)| format!("{key}={value};"))
        .collect()
}

/// What stands in the elements of this name.
fn texts(answer: &Answer, name: &str) -> Vec<String> {
    let (text, open, close) = (answer.text(), format!("<{name}>"), format!("</{name}>"));
    let text = text.replace(&format!("<{name} />"), &format!("{open}{close}"));
    text.split(&open).skip(1).filter_map(|rest| Some(rest.split_once(&close)?.0.to_string())).collect()
}

/// True goes on, false is 412 and changes nothing, nonsense is 400; where a row does not judge tags they are refused by name.
#[tokio::test]
async fn conditions_on_tags_on_every_row() {
    // What a copy is being made to cannot be tagged.
    let rows = built().filter(|row| row.id != OperationId::AbortCopyBlob);
    for row in rows.filter(|row| row.on == Resource::Blob || row.conditions != Conditions::Never) {
        for (expression, status, code) in [
            ("\"a\" = '1'", row.status, ""),
            ("a > '0' AND (b = '3' OR \"b\" <> '3')", row.status, ""),
            ("\"a\" = '2'", 412, "ConditionNotMet"),
            ("a <> '1'", 412, "ConditionNotMet"),
            ("missing <> '1'", 412, "ConditionNotMet"),
            ("a = '1' AND missing = ''", 412, "ConditionNotMet"),
            ("a = 1", 400, "InvalidHeaderValue"),
            ("@container = 'box'", 400, "InvalidHeaderValue"),
        ] {
            let world = prepared(row).await;
            let mut tag = set("b", "a=1,b=2");
            if row.lease == LeaseCheck::Acts && !matches!(row.id, OperationId::AcquireBlobLease) {
                tag = tag.header("x-ms-lease-id", LEASE_ID);
            }
            if row.on == Resource::Blob {
                assert_eq!(world.send(&tag).await.status, 204);
            }
            let before = everything(&world).await;
            let answer = send(&world, row, &example(row).header("x-ms-if-tags", expression)).await;
            let of_copy = row.id == OperationId::CopyBlob && code == "ConditionNotMet";
            let code = if of_copy { "TargetConditionNotMet" } else { code };
            let expected = if row.judges_tags { (status, code) } else { (400, "ConditionHeadersNotSupported") };
            assert_eq!((answer.status, answer.code()), expected, "{:?} {expression}: {}", row.id, answer.text());
            if expected.0 >= 400 {
                assert_eq!(everything(&world).await, before, "{:?} was refused and changed something", row.id);
            }
        }
    }
}

/// What is not there has no tags.
#[tokio::test]
async fn a_condition_on_tags_of_nothing() {
    let world = world().await;
    let answer = world.send(&put("fresh").header("x-ms-if-tags", "a <> '1'")).await;
    assert_eq!((answer.status, answer.code()), (412, "ConditionNotMet"));
    let answer = world.send(&Request::new("GET box/fresh").header("x-ms-if-tags", "a = '1'")).await;
    assert_eq!((answer.status, answer.code()), (404, "BlobNotFound"));
    let block = Request::new("PUT box/staged?comp=block&blockid=YQ==").body("block");
    assert_eq!(world.send(&block).await.status, 201);
    let list = Request::new("GET box/staged?comp=blocklist&blocklisttype=all").header("x-ms-if-tags", "a = '1'");
    assert_eq!(world.send(&list).await.status, 412);
}

/// Who may not read or set tags may not ask about them, nor set them along the way.
#[tokio::test]
async fn tags_need_their_letter() {
    for row in built().filter(|row| row.judges_tags) {
        let world = prepared(row).await;
        let without = AccountSas { permissions: "rwdxylacupfi".into(), ..AccountSas::all(world.clock.now()) };
        let before = everything(&world).await;
        for header in ["x-ms-if-tags", "x-ms-tags"] {
            let request = example(row).header(header, "a='1'").with_sas(without.parameters());
            let answer = world.send(&request).await;
            assert_eq!((answer.status, answer.code()), (403, "AuthorizationPermissionMismatch"), "{:?}", row.id);
        }
        assert_eq!(everything(&world).await, before);
    }
    let world = world().await;
    let with = AccountSas { permissions: "ct".into(), ..AccountSas::all(world.clock.now()) };
    let answer = world.send(&put("fresh").header("x-ms-tags", "a=1").with_sas(with.parameters())).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let public = Request::new("PUT box?restype=container&comp=acl").header("x-ms-blob-public-access", "blob");
    assert_eq!(world.send(&public).await.status, 200);
    assert_eq!(world.send(&Request::new("GET box/fresh").unsigned()).await.status, 200);
    let asks = Request::new("GET box/fresh").header("x-ms-if-tags", "a='1'").unsigned();
    assert_eq!(world.send(&asks).await.status, 401);
}

#[tokio::test]
async fn tags_come_and_go() {
    let world = world().await;
    let head = Request::new("HEAD box/b");
    let before = world.send(&head).await;
    assert_eq!((tags(&world, "b").await.as_str(), before.header("x-ms-tag-count")), ("", None));
    world.clock.advance_seconds(1);
    let answer = world.send(&set("b", "b=x y,a=")).await;
    assert_eq!((answer.status, answer.body.len(), answer.header("etag")), (204, 0, None));
    let after = world.send(&head).await;
    assert_eq!((tags(&world, "b").await.as_str(), after.header("x-ms-tag-count")), ("a=;b=x y;", Some("2")));
    for name in ["ETag", "Last-Modified"] {
        assert_eq!(before.header(name), after.header(name), "{name}");
    }
    let listed = world.send(&Request::new("GET box?restype=container&comp=list&include=tags")).await.text();
    let shown =
        "<Tags><TagSet><Tag><Key>a</Key><Value /></Tag><Tag><Key>b</Key><Value>x y</Value></Tag></TagSet></Tags>";
    assert!(listed.contains(shown) && listed.contains("<TagCount>2</TagCount>"), "{listed}");
    let listed = world.send(&Request::new("GET box?restype=container&comp=list")).await.text();
    assert!(!listed.contains("<Tags>") && listed.contains("<TagCount>2</TagCount>"), "{listed}");

    // Metadata and properties leave them; a new blob in the place has those it was given.
    let metadata = Request::new("PUT box/b?comp=metadata").header("x-ms-meta-a", "1");
    assert_eq!(world.send(&metadata).await.status, 200);
    assert_eq!(tags(&world, "b").await, "a=;b=x y;");
    assert_eq!(world.send(&put("b").header("x-ms-tags", "c%20d=1%2B1")).await.status, 201);
    assert_eq!(tags(&world, "b").await, "c d=1+1;");
    assert_eq!(world.send(&put("b").header("x-ms-tags", "c+d=1+2")).await.status, 201);
    assert_eq!(tags(&world, "b").await, "c d=1 2;");
    let list = Request::new("PUT box/b?comp=blocklist").body("<BlockList />");
    assert_eq!(world.send(&list.clone().header("x-ms-tags", "e=1")).await.status, 201);
    assert_eq!(tags(&world, "b").await, "e=1;");
    assert_eq!(world.send(&list).await.status, 201);
    assert_eq!(tags(&world, "b").await, "");
    let append = Request::new("PUT box/log").header("x-ms-blob-type", "AppendBlob").header("x-ms-tags", "e=1");
    assert_eq!(world.send(&append).await.status, 201);
    assert_eq!(world.send(&Request::new("PUT box/log?comp=appendblock").body("line")).await.status, 201);
    assert_eq!(tags(&world, "log").await, "e=1;");
}

#[tokio::test]
async fn bad_tags() {
    let world = world().await;
    let before = everything(&world).await;
    for (header, code) in [
        ("a=1&a=2", "DuplicateTagNames"),
        ("=1", "EmptyTagName"),
        ("a", "InvalidTag"),
        ("a=%C3%A4", "InvalidTag"),
        ("a=1&b=1&c=1&d=1&e=1&f=1&g=1&h=1&i=1&j=1&k=1", "TagsTooLarge"),
    ] {
        let answer = world.send(&put("b").header("x-ms-tags", header)).await;
        assert_eq!((answer.status, answer.code()), (400, code), "{header}");
    }
    for (body, code) in [
        (document("a=1,a=2"), "DuplicateTagNames"),
        (document("a=!"), "InvalidTag"),
        (document("=1"), "EmptyTagName"),
        (document(&format!("a={}", "v".repeat(257))), "TagsTooLarge"),
        ("<Tags>".into(), "InvalidXmlDocument"),
        (String::new(), "InvalidXmlDocument"),
    ] {
        let answer = world.send(&Request::new("PUT box/b?comp=tags").body(body.as_str())).await;
        assert_eq!((answer.status, answer.code()), (400, code), "{body}");
    }
    let answer = world.send(&set("b", "a=1").header("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA==")).await;
    assert_eq!((answer.status, answer.code()), (400, "Md5Mismatch"));
    for line in ["PUT box/none?comp=tags", "GET box/none?comp=tags"] {
        let answer = world
            .send(&Request::new(line).body(if line.starts_with("PUT") { document("a=1") } else { String::new() }))
            .await;
        assert_eq!((answer.status, answer.code()), (404, "BlobNotFound"), "{line}");
    }
    assert_eq!(everything(&world).await, before);
}

/// The conditions of a blob, which on its tags have names of their own.
#[tokio::test]
async fn conditions_on_the_blob_of_the_tags() {
    let world = world().await;
    let etag = world.send(&Request::new("HEAD box/b")).await.header("etag").expect("an ETag").to_string();
    for (name, value, on_read, on_write) in [
        ("x-ms-blob-if-match", etag.as_str(), 200, 204),
        ("x-ms-blob-if-match", "\"0x1\"", 412, 412),
        ("x-ms-blob-if-none-match", etag.as_str(), 304, 412),
        ("x-ms-blob-if-none-match", "\"0x1\"", 200, 204),
        ("x-ms-blob-if-modified-since", "Thu, 01 Jan 2026 00:00:00 GMT", 200, 204),
        ("x-ms-blob-if-modified-since", "Sat, 03 Jan 2026 00:00:00 GMT", 304, 412),
        ("x-ms-blob-if-unmodified-since", "Thu, 01 Jan 2026 00:00:00 GMT", 412, 412),
        ("x-ms-blob-if-unmodified-since", "soon", 200, 400),
    ] {
        let read = world.send(&Request::new("GET box/b?comp=tags").header(name, value)).await;
        let write = world.send(&set("b", "a=1").header(name, value)).await;
        assert_eq!((read.status, write.status), (on_read, on_write), "{name}: {value}");
    }
}

async fn find(world: &World, scope: &str, expression: &str, more: &str) -> Answer {
    let line =
        if scope.is_empty() { "GET ?comp=blobs".into() } else { format!("GET {scope}?restype=container&comp=blobs") };
    let request = Request::new(&format!("{line}&{more}")).parameter("where", expression);
    world.send(&request).await
}

/// `container/blob[tags]` of what is found, in its order.
fn shown(answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = answer.text();
    let hits = text.split("<Blob>").skip(1).map(|hit| {
        let hit = Answer { body: hit.as_bytes().to_vec(), ..answer.clone() };
        let tags: Vec<String> =
            texts(&hit, "Key").into_iter().zip(texts(&hit, "Value")).map(|(k, v)| format!("{k}={v}")).collect();
        let one = |name: &str| texts(&hit, name).into_iter().next().unwrap_or_default();
        format!("{}/{}[{}]", one("ContainerName"), one("Name"), tags.join(","))
    });
    hits.collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn what_is_found() {
    let world = world().await;
    assert_eq!(world.send(&Request::new("PUT apples?restype=container")).await.status, 201);
    for (line, tags) in [
        ("PUT box/b", "k=1&n=05"),
        ("PUT box/c/d", "k=2&n=07&other=x"),
        ("PUT box/plain", ""),
        ("PUT apples/z", "k=1"),
        ("PUT apples/a%20b", "k=1&n=06"),
    ] {
        let request = Request::new(line).header("x-ms-blob-type", "BlockBlob").header("x-ms-tags", tags);
        assert_eq!(world.send(&request).await.status, 201, "{line}");
    }
    for (scope, expression, expected) in [
        ("", "k = '1'", "apples/a b[k=1] apples/z[k=1] box/b[k=1]"),
        ("", "k = '1' AND @container = 'box'", "box/b[k=1]"),
        ("", "@container = 'apples'", "apples/a b[] apples/z[]"),
        ("", "@container = 'none'", ""),
        ("", "@container = 'box' AND @container = 'apples'", ""),
        ("", "n > '05'", "apples/a b[n=06] box/c/d[n=07]"),
        ("", "n >= '05' AND n < '07'", "apples/a b[n=06] box/b[n=05]"),
        ("", "k > '' AND \"n\" = '07'", "box/c/d[k=2,n=07]"),
        ("", "k = '3'", ""),
        ("", "K = '1'", ""),
        ("box", "k > '0'", "box/b[k=1] box/c/d[k=2]"),
        ("apples", "n > '0'", "apples/a b[n=06]"),
    ] {
        assert_eq!(shown(&find(&world, scope, expression, "").await), expected, "{scope} {expression}");
    }
    let answer = find(&world, "", "k = '1'", "").await.text();
    assert!(answer.contains("<Where>k = '1'</Where>") && answer.contains("<NextMarker />"), "{answer}");

    // At once after every change.
    assert_eq!(world.send(&set("b", "k=9")).await.status, 204);
    assert_eq!(world.send(&Request::new("DELETE box/c/d")).await.status, 202);
    assert_eq!(shown(&find(&world, "box", "k > '0'", "").await), "box/b[k=9]");
    assert_eq!(world.send(&put("b")).await.status, 201);
    assert_eq!(shown(&find(&world, "box", "k > '0'", "").await), "");
    assert_eq!(world.send(&Request::new("DELETE apples?restype=container")).await.status, 202);
    assert_eq!(shown(&find(&world, "", "k > '0'", "").await), "");
}

#[tokio::test]
async fn pages_of_what_is_found() {
    let world = world().await;
    assert_eq!(world.send(&Request::new("PUT more?restype=container")).await.status, 201);
    let mut all = Vec::new();
    for (container, count) in [("box", 7), ("more", 5)] {
        for n in 0..count {
            let request = Request::new(&format!("PUT {container}/blob{n}")).header("x-ms-blob-type", "BlockBlob");
            let tags = if n % 3 == 2 { "k=2" } else { "k=1" };
            assert_eq!(world.send(&request.header("x-ms-tags", tags)).await.status, 201);
            all.extend((n % 3 != 2).then(|| format!("{container}/blob{n}[k=1]")));
        }
    }
    for results_max in 1..=all.len() + 1 {
        let (mut seen, mut marker) = (Vec::new(), String::new());
        loop {
            let request =
                Request::new(&format!("GET ?comp=blobs&maxresults={results_max}")).parameter("where", "k = '1'");
            let request = if marker.is_empty() { request } else { request.parameter("marker", &marker) };
            let answer = world.send(&request).await;
            let page: Vec<String> = shown(&answer).split_whitespace().map(str::to_string).collect();
            assert!(page.len() <= results_max);
            seen.extend(page);
            marker = texts(&answer, "NextMarker").concat();
            if marker.is_empty() {
                break;
            }
        }
        assert_eq!(seen, all, "{results_max} at a time");
    }
    for (more, code) in [
        ("maxresults=0", "OutOfRangeQueryParameterValue"),
        ("maxresults=x", "InvalidQueryParameterValue"),
        ("marker=YQ==", "InvalidQueryParameterValue"),
        ("marker=nonsense", "InvalidQueryParameterValue"),
        ("include=snapshots", "InvalidQueryParameterValue"),
    ] {
        let answer = find(&world, "", "k = '1'", more).await;
        assert_eq!((answer.status, answer.code()), (400, code), "{more}");
    }
    let answer = world.send(&Request::new("GET ?comp=blobs")).await;
    assert_eq!((answer.status, answer.code()), (400, "MissingRequiredQueryParameter"));
    for (scope, expression) in
        [("", "k = '1' OR k = '2'"), ("", "k <> '1'"), ("", "(k = '1')"), ("", "k"), ("box", "@container = 'box'")]
    {
        let answer = find(&world, scope, expression, "").await;
        assert_eq!((answer.status, answer.code()), (400, "InvalidQueryParameterValue"), "{expression}");
    }
    let answer = find(&world, "nowhere", "k = '1'", "").await;
    assert_eq!((answer.status, answer.code()), (404, "ContainerNotFound"));
}

/// Every built operation leaves the index and the blobs in step.
#[tokio::test]
async fn the_index_follows_every_operation() {
    for versioning in [false, true] {
        for row in built().filter(|row| row.on == Resource::Blob) {
            let world = prepared(row).await;
            let blob = BlobSettings { versioning, ..BlobSettings::default() };
            world.app.set_accounts(vec![Account { blob, ..Account::development() }]);
            assert!([204, 409, 412].contains(&world.send(&set("b", "k=1")).await.status));
            send(&world, row, &example(row)).await;
            let listed = world.send(&Request::new("GET box?restype=container&comp=list&include=tags")).await.text();
            let is_tagged = listed.contains("<Key>k</Key>");
            let found = shown(&find(&world, "", "k = '1'", "").await);
            assert_eq!(found, if is_tagged { "box/b[k=1]" } else { "" }, "{:?}: {listed}", row.id);
        }
    }
}

#[tokio::test]
async fn tags_of_earlier_versions() {
    let world = world().await;
    let blob = BlobSettings { versioning: true, ..BlobSettings::default() };
    world.app.set_accounts(vec![Account { blob, ..Account::development() }]);
    let mut versions = Vec::new();
    for n in 1..=3 {
        world.clock.advance_seconds(1);
        let answer = world.send(&put("v").header("x-ms-tags", format!("k=1&n={n}"))).await;
        versions.push(answer.header("x-ms-version-id").expect("a version").to_string());
    }
    let of = |version: &str| Request::new("GET box/v?comp=tags").parameter("versionid", version);
    assert_eq!(texts(&world.send(&of(&versions[0])).await, "Value"), ["1", "1"]);
    let change = Request::new("PUT box/v?comp=tags").parameter("versionid", &versions[0]).body(document("k=1,n=7"));
    assert_eq!(world.send(&change).await.status, 204);
    assert_eq!(texts(&world.send(&of(&versions[0])).await, "Value"), ["1", "7"]);
    assert_eq!(texts(&world.send(&of(&versions[2])).await, "Value"), ["1", "3"]);

    assert_eq!(shown(&find(&world, "", "k = '1'", "").await), "box/v[k=1]");
    let answer = find(&world, "", "n > '0'", "include=versions").await;
    assert_eq!(shown(&answer), "box/v[n=7] box/v[n=2] box/v[n=3]");
    assert_eq!(texts(&answer, "VersionId"), versions);
    assert_eq!(answer.text().matches("<IsCurrentVersion>true</IsCurrentVersion>").count(), 1);
    let (mut seen, mut marker) = (Vec::new(), String::new());
    loop {
        let request = Request::new("GET box?restype=container&comp=blobs&include=versions&maxresults=1")
            .parameter("where", "k = '1'");
        let answer = world.send(&if marker.is_empty() { request } else { request.parameter("marker", &marker) }).await;
        seen.extend(texts(&answer, "VersionId"));
        marker = texts(&answer, "NextMarker").concat();
        if marker.is_empty() {
            break;
        }
    }
    assert_eq!(seen, versions);
    let snapshot = world.send(&Request::new("PUT box/v?comp=snapshot")).await;
    let snapshot = snapshot.header("x-ms-snapshot").expect("a snapshot").to_string();
    let read = Request::new("GET box/v?comp=tags").parameter("snapshot", &snapshot);
    assert_eq!(texts(&world.send(&read).await, "Value"), ["1", "3"]);
    let write = Request::new("PUT box/v?comp=tags").parameter("snapshot", &snapshot).body(document("k=2"));
    assert_eq!(world.send(&write).await.status, 400);
}
