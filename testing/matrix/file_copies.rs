//! Copies to files, and of files: what a copy takes of its source, what it costs, what it refuses; and copies that are pending.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::Service;
use contract::names::AccountName;
use engine::memory::MemoryEngine;
use engine::{Engine, GroupRange, ScanStart};
use env::{Clock, ScriptedClock, ScriptedIds, Timestamp};
use http::account::Account;
use partition::key;
use testing::{AccountSas, Answer, Counting, Outside, Request, ServiceSas, World, query};

const TIB: u64 = 1 << 40;
const FILES: &str = "http://127.0.0.1:10003/devstoreaccount1";
/// Every request goes to one host, which stands for the service that is asked; this one stands for blobs.
const BLOBS: &str = "http://localhost:10000/devstoreaccount1";

fn file(line: &str) -> Request {
    Request::new(line).of(Service::File)
}

fn blob(line: &str) -> Request {
    Request::new(line)
}

/// A share `share` with a directory `d` and file `f`, and a private container `box` and a public one `open`.
async fn world() -> World {
    filled(World::new().await).await
}

async fn filled(world: World) -> World {
    let ports = [(Service::Blob, 10000), (Service::File, 10003)];
    world.app.set_listening(ports.map(|(service, port)| (service, ([127, 0, 0, 1], port).into())).to_vec());
    for request in [
        blob("PUT box?restype=container"),
        blob("PUT open?restype=container").header("x-ms-blob-public-access", "blob"),
        file("PUT share?restype=share"),
        file("PUT share/d?restype=directory"),
        create("share/f", 7).header("x-ms-content-type", "text/plain").header("x-ms-meta-Old", "1").body("content"),
    ] {
        ok(&world, &request).await;
    }
    world.clock.advance_seconds(10);
    world
}

fn create(path: &str, bytes: u64) -> Request {
    file(&format!("PUT {path}")).header("x-ms-type", "file").header("x-ms-content-length", bytes.to_string())
}

fn write(path: &str, first: u64, content: &[u8]) -> Request {
    let range = format!("bytes={first}-{}", first + content.len() as u64 - 1);
    file(&format!("PUT {path}?comp=range")).header("x-ms-write", "update").header("x-ms-range", range).body(content)
}

fn put_blob(path: &str, content: impl Into<Vec<u8>>) -> Request {
    blob(&format!("PUT {path}")).header("x-ms-blob-type", "BlockBlob").body(content)
}

/// Copy File.
fn copy(to: &str, from: impl Into<String>) -> Request {
    file(&format!("PUT {to}")).header("x-ms-copy-source", from)
}

fn from_file(to: &str, path: &str) -> Request {
    copy(to, format!("{FILES}/{path}"))
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

async fn get(world: &World, path: &str) -> Answer {
    world.send(&file(&format!("GET {path}"))).await
}

async fn ranges(world: &World, path: &str) -> String {
    let answer = ok(world, &file(&format!("GET {path}?comp=rangelist"))).await.text();
    answer.split_once("<Ranges").expect("a list").1.to_string()
}

/// A query that lets its bearer read.
fn sas(world: &World) -> String {
    query(&AccountSas { permissions: "r".into(), ..AccountSas::all(world.clock.now()) }.parameters())
}

#[tokio::test]
async fn a_copy_is_like_its_source() {
    let world = world().await;
    let answer = ok(&world, &from_file("share/d/copy", "share/f")).await;
    assert_eq!((answer.status, answer.header("x-ms-copy-status")), (202, Some("success")));
    let copied = get(&world, "share/d/copy").await;
    assert_eq!(copied.text(), "content");
    let shown = |answer: &Answer, name: &str| answer.header(name).map(str::to_string);
    assert_eq!(shown(&copied, "content-type").as_deref(), Some("text/plain"));
    assert_eq!(shown(&copied, "x-ms-meta-old").as_deref(), Some("1"));
    assert_eq!(shown(&copied, "etag"), shown(&answer, "etag"));
    assert_eq!(shown(&copied, "x-ms-copy-id"), shown(&answer, "x-ms-copy-id"));
    assert_eq!(shown(&copied, "x-ms-copy-progress").as_deref(), Some("7/7"));
    assert_eq!(shown(&copied, "x-ms-copy-source"), Some(format!("{FILES}/share/f")));
    assert!(shown(&copied, "x-ms-copy-completion-time").is_some());
    let head = world.send(&file("HEAD share/d/copy")).await;
    assert_eq!(shown(&head, "x-ms-copy-id"), shown(&answer, "x-ms-copy-id"));

    // In the place of a file it is the same file; what is given is taken instead.
    let before = get(&world, "share/d/copy").await;
    ok(&world, &write("share/f", 0, b"CON")).await;
    ok(&world, &from_file("share/D/COPY", "share/f").header("x-ms-meta-New", "2")).await;
    let copied = get(&world, "share/d/copy").await;
    assert_eq!((copied.text().as_str(), shown(&copied, "x-ms-meta-new").as_deref()), ("CONtent", Some("2")));
    assert_eq!(shown(&copied, "x-ms-meta-old"), None);
    assert_eq!(shown(&copied, "x-ms-file-id"), shown(&before, "x-ms-file-id"));
    // Known as a copy until its properties are set.
    ok(&world, &write("share/d/copy", 0, b"x")).await;
    ok(&world, &file("PUT share/d/copy?comp=metadata")).await;
    assert!(get(&world, "share/d/copy").await.header("x-ms-copy-id").is_some());
    ok(&world, &file("PUT share/d/copy?comp=properties").header("x-ms-content-type", "a/b")).await;
    assert_eq!(get(&world, "share/d/copy").await.header("x-ms-copy-id"), None);
    ok(&world, &from_file("share/d/copy", "share/f")).await;
    ok(&world, &create("share/d/copy", 0)).await;
    assert_eq!(get(&world, "share/d/copy").await.header("x-ms-copy-id"), None);
}

/// What is said of attributes, times and permissions: nothing, a value, or that it is the source's.
#[tokio::test]
async fn a_copy_has_the_attributes_that_are_asked_for() {
    let world = world().await;
    const SDDL: &str = "O:SYG:SYD:(A;;FA;;;SY)";
    let (early, late) = ("2020-01-02T03:04:05.0000000Z", "2021-01-02T03:04:05.0000000Z");
    let source = create("share/s", 3).header("x-ms-file-attributes", "Hidden").header("x-ms-file-permission", SDDL);
    let source = source.header("x-ms-file-creation-time", early).header("x-ms-file-last-write-time", early);
    let source = ok(&world, &source.header("x-ms-file-change-time", early)).await;
    let other = ok(&world, &create("share/o", 0).header("x-ms-file-permission", "O:BAG:BAD:(A;;FA;;;BA)")).await;
    let usual = ok(&world, &create("share/u", 0)).await;
    ok(&world, &file("PUT share2?restype=share")).await;
    let key = |answer: &Answer| answer.header("x-ms-file-permission-key").expect("a key").to_string();
    let (theirs, others, usual) = (key(&source), key(&other), key(&usual));
    let now = world.clock.now().iso8601();
    let names = ["attributes", "creation-time", "last-write-time", "change-time", "permission-key"];
    for (headers, attributes, [created, written, changed], permission) in [
        ("", "Archive", [&now, &now, &now], &usual),
        ("x-ms-file-attributes=source", "Hidden | Archive", [&now, &now, &now], &usual),
        ("x-ms-file-attributes=None", "None", [&now, &now, &now], &usual),
        ("x-ms-file-attributes=System x-ms-file-copy-set-archive=true", "System | Archive", [&now, &now, &now], &usual),
        ("x-ms-file-creation-time=source", "Archive", [&early.to_string(), &now, &now], &usual),
        ("x-ms-file-last-write-time=Source", "Archive", [&now, &early.to_string(), &now], &usual),
        ("x-ms-file-change-time=source", "Archive", [&now, &now, &early.to_string()], &usual),
        ("x-ms-file-last-write-time=LATE", "Archive", [&now, &late.to_string(), &now], &usual),
        ("x-ms-file-permission-copy-mode=source", "Archive", [&now, &now, &now], &theirs),
        ("x-ms-file-permission-copy-mode=override x-ms-file-permission-key=OTHER", "Archive", [&now; 3], &others),
        ("x-ms-file-permission-key=OTHER", "Archive", [&now; 3], &others),
        ("x-ms-file-permission=inherit", "Archive", [&now; 3], &usual),
    ] {
        for to in ["share/copy", "share/copy", "share2/copy"] {
            // A key is known in the share it was made in.
            if to.starts_with("share2") && headers.contains("OTHER") {
                continue;
            }
            let mut request = from_file(to, "share/s").header("x-ms-file-copy-ignore-readonly", "true");
            for header in headers.split_whitespace() {
                let (name, value) = header.split_once('=').expect("a header");
                request = request.header(name, value.replace("LATE", late).replace("OTHER", &others));
            }
            ok(&world, &request).await;
            let copied = world.send(&file(&format!("HEAD {to}"))).await;
            let shown = names.map(|name| copied.header(&format!("x-ms-file-{name}")).unwrap_or_default().to_string());
            assert_eq!(shown, [attributes, created, written, changed, permission], "{headers} {to}");
        }
    }
    let permission = file("GET share2?restype=share&comp=filepermission").header("x-ms-file-permission-key", &theirs);
    let permission = ok(&world, &permission).await.text();
    assert!(permission.contains("(A;;FA;;;SY)"), "{permission}");
}

/// A copy costs what is written, whatever its size, and moves no byte of what lies in extents.
#[tokio::test]
async fn holes_stay_holes() {
    let engine = Arc::new(Counting::default());
    let world = filled(World::over(engine.clone()).await).await;
    ok(&world, &create("share/big", TIB)).await;
    for (at, content) in
        [(5, "small"), (4096, "more"), (1 << 30, "x"), (TIB - 3, "end"), (2 << 30, &"large".repeat(20_000))]
    {
        ok(&world, &write("share/big", at, content.as_bytes())).await;
    }
    let before = engine.touched();
    ok(&world, &from_file("share/copy", "share/big")).await;
    assert_eq!(engine.touched(), before);
    assert_eq!(ranges(&world, "share/copy").await, ranges(&world, "share/big").await);
    ok(&world, &file("DELETE share/big")).await;
    for (at, content) in [(5, "small"), (TIB - 3, "end"), ((2 << 30) + 99_995, "large")] {
        let range = format!("bytes={at}-{}", at + content.len() as u64 - 1);
        let part = world.send(&file("GET share/copy").header("x-ms-range", range)).await;
        assert_eq!(part.text(), content);
    }
    // What the copy is written to stays the copy's.
    ok(&world, &from_file("share/other", "share/copy")).await;
    ok(&world, &write("share/other", 5, b"SMALL")).await;
    let part = world.send(&file("GET share/copy").header("x-ms-range", "bytes=5-9")).await;
    assert_eq!(part.text(), "small");
}

/// How many contents are put together and are no file's.
async fn staged(world: &World) -> usize {
    let account = AccountName::parse(testing::ACCOUNT).expect("a name");
    let name = contract::names::ShareName::parse("share").expect("a name");
    let share = partition::file::share::find(&world.app.shell, &account, &name, None).await.expect("there");
    let (group, family) = (share.group().clone(), key::share::STAGED);
    let start = ScanStart::AtPartition(bytes::Bytes::new());
    let range = GroupRange { group, family, start, before_partition: None };
    world.engine.scan(&range, 100).await.expect("readable").rows.len()
}

#[tokio::test]
async fn a_source_of_many_runs_is_copied_a_part_at_a_time() {
    let world = world().await;
    ok(&world, &create("share/many", 1 << 30)).await;
    for at in 0..700_u64 {
        ok(&world, &write("share/many", at * 65_536, format!("run {at}").as_bytes())).await;
    }
    // Next to each other they become one.
    for at in 0..600_u64 {
        ok(&world, &write("share/many", (900 << 20) + at * 1024, &[at as u8; 1024])).await;
    }
    ok(&world, &from_file("share/copy", "share/many")).await;
    assert_eq!(staged(&world).await, 0);
    assert_eq!(ranges(&world, "share/copy").await, ranges(&world, "share/many").await);
    for range in ["bytes=45809664-45809670", "bytes=943718400-944332799", "bytes=0-6"] {
        let of = async |path: &str| world.send(&file(&format!("GET {path}")).header("x-ms-range", range)).await.body;
        assert!(of("share/copy").await == of("share/many").await, "{range}");
    }
    // Over itself, its content stays where it is.
    ok(&world, &from_file("share/many", "share/MANY").header("x-ms-meta-New", "2")).await;
    let head = world.send(&file("HEAD share/many")).await;
    assert_eq!((head.header("x-ms-meta-new"), head.header("content-length")), (Some("2"), Some("1073741824")));
    assert_eq!(ranges(&world, "share/copy").await, ranges(&world, "share/many").await);
    assert_eq!(staged(&world).await, 0);
    let stats = ok(&world, &file("GET share?restype=share&comp=stats")).await.text();
    assert!(stats.contains(&format!("<ShareUsageBytes>{}</ShareUsageBytes>", 7 + 2 * (1_u64 << 30))), "{stats}");
}

#[tokio::test]
async fn blobs_are_copied_to_files() {
    let world = world().await;
    ok(&world, &put_blob("open/b", "content").header("Content-Type", "text/plain").header("x-ms-meta-Old", "1")).await;
    ok(&world, &blob("PUT open/log").header("x-ms-blob-type", "AppendBlob")).await;
    for n in 0..20 {
        let piece = if n % 5 == 3 { format!("{n};").repeat(5000) } else { format!("{n};") };
        ok(&world, &blob("PUT open/log?comp=appendblock").body(piece)).await;
    }
    let page = blob("PUT open/pages").header("x-ms-blob-type", "PageBlob");
    ok(&world, &page.header("x-ms-blob-content-length", (8 * TIB / 4).to_string())).await;
    let pages = blob("PUT open/pages?comp=page").header("x-ms-page-write", "update");
    ok(&world, &pages.header("x-ms-range", "bytes=1024-1535").body("p".repeat(512))).await;
    ok(&world, &put_blob("open/empty", "")).await;
    let large: String = (0..100_000).map(|n| format!("{n};")).collect();
    ok(&world, &put_blob("open/large", large.clone())).await;
    for name in ["b", "log", "empty", "large"] {
        ok(&world, &copy("share/copy", format!("{BLOBS}/open/{name}"))).await;
        let expected = world.send(&blob(&format!("GET open/{name}"))).await;
        let copied = get(&world, "share/copy").await;
        assert!(copied.body == expected.body, "{name}");
        for header in ["content-type", "content-md5", "x-ms-meta-old"] {
            assert_eq!(copied.header(header), expected.header(header), "{name} {header}");
        }
    }
    ok(&world, &copy("share/copy", format!("{BLOBS}/open/pages"))).await;
    assert!(ranges(&world, "share/copy").await.contains("<Range><Start>1024</Start><End>1535</End></Range></Ranges>"));
    // As they were.
    let snapshot = ok(&world, &blob("PUT open/b?comp=snapshot")).await;
    let snapshot = snapshot.header("x-ms-snapshot").expect("a snapshot").to_string();
    ok(&world, &put_blob("open/b", "later")).await;
    ok(&world, &copy("share/copy", format!("{BLOBS}/open/b?snapshot={snapshot}"))).await;
    let copied = get(&world, "share/copy").await;
    assert_eq!(copied.text(), "content");
    assert!(copied.header("x-ms-copy-source").is_some_and(|source| source.ends_with(&format!("?snapshot={snapshot}"))));
    for name in ["attributes", "creation-time", "last-write-time", "change-time", "permission-copy-mode"] {
        let request = copy("share/copy", format!("{BLOBS}/open/b")).header(&format!("x-ms-file-{name}"), "source");
        refused(&world, &request, 400, "InvalidHeaderValue").await;
    }
}

#[tokio::test]
async fn files_are_copied_as_a_snapshot_saw_them() {
    let world = world().await;
    let taken = ok(&world, &file("PUT share?restype=share&comp=snapshot")).await;
    let snapshot = taken.header("x-ms-snapshot").expect("a snapshot").to_string();
    let then = format!("share/f?sharesnapshot={snapshot}");
    ok(&world, &write("share/f", 0, b"later!!")).await;
    // Elsewhere, in the place of what the file is now, and after it has gone.
    ok(&world, &from_file("share/d/copy", &then)).await;
    let copied = get(&world, "share/d/copy").await;
    assert_eq!(copied.text(), "content");
    assert!(copied.header("x-ms-copy-source").is_some_and(|shown| shown.ends_with(&then)));
    ok(&world, &from_file("share/f", &then)).await;
    assert_eq!(get(&world, "share/f").await.text(), "content");
    ok(&world, &file("DELETE share/f")).await;
    ok(&world, &from_file("share/f", &then)).await;
    assert_eq!(get(&world, "share/f").await.text(), "content");
    assert_eq!(get(&world, &then).await.text(), "content");
    let none = "share/f?sharesnapshot=2001-01-01T00:00:00.0000000Z";
    refused(&world, &from_file("share/g", none), 404, "CannotVerifyCopySource").await;
    let into = copy(&then, format!("{FILES}/share/f"));
    refused(&world, &into, 409, "ShareSnapshotOperationNotSupported").await;
}

/// The request's own key reads files of its account; whatever else is read takes a right of its own.
#[tokio::test]
async fn sources_are_authorized_as_reads() {
    let world = world().await;
    let key = STANDARD.encode("key");
    world.app.set_accounts(vec![Account::development(), Account::new("other", &[&key]).expect("right")]);
    ok(&world, &file("PUT theirs?restype=share").to("other", &key)).await;
    ok(&world, &put_blob("box/b", "blob")).await;
    let sas = sas(&world);
    let from = |url: String, account: &str| match account {
        "other" => copy("theirs/copy", url).to("other", &key),
        _ => copy("share/copy", url),
    };
    for (url, account, expected) in [
        (format!("{FILES}/share/f"), "", 202),
        (format!("{FILES}/share/f?{sas}"), "", 202),
        (format!("{FILES}/share/f"), "other", 401),
        (format!("{FILES}/share/f?{sas}"), "other", 202),
        (format!("{FILES}/share/none?{sas}"), "other", 404),
        (format!("{FILES}/share/f?{}", sas.replace("sp=r", "sp=w")), "other", 403),
        (format!("{BLOBS}/box/b"), "", 401),
        (format!("{BLOBS}/box/b?{sas}"), "", 202),
        (format!("{BLOBS}/box/b?{sas}"), "other", 202),
        (format!("{FILES}/none/f"), "", 404),
        (format!("{FILES}/share/d"), "", 404),
        (format!("{FILES}/share/none/f"), "", 404),
    ] {
        let answer = world.send(&from(url.clone(), account)).await;
        assert_eq!(answer.status, expected, "{url} {account}: {}", answer.text());
        if expected != 202 {
            assert_eq!(answer.code(), "CannotVerifyCopySource", "{url}");
            assert_eq!(answer.header("x-ms-copy-source-status-code"), Some(expected.to_string().as_str()));
            assert!(answer.header("x-ms-copy-source-error-code").is_some());
        }
    }
    assert_eq!(world.send(&file("GET theirs/copy").to("other", &key)).await.text(), "blob");
    // A token of the file alone reads it, and says nothing of another.
    let one =
        ServiceSas { permissions: "r".into(), ..ServiceSas::all(Service::File, "f", "share/f", world.clock.now()) };
    let one = query(&one.parameters());
    ok(&world, &from(format!("{FILES}/share/f?{one}"), "other")).await;
    ok(&world, &create("share/g", 0)).await;
    refused(&world, &from(format!("{FILES}/share/g?{one}"), "other"), 403, "CannotVerifyCopySource").await;
    // Who may only create replaces nothing.
    let creates = AccountSas { permissions: "rc".into(), ..AccountSas::all(world.clock.now()) };
    let by_token = |to: &str| from_file(to, "share/f").with_sas(creates.parameters());
    ok(&world, &by_token("share/new")).await;
    refused(&world, &by_token("share/new"), 403, "AuthorizationPermissionMismatch").await;
}

#[tokio::test]
async fn copies_that_are_refused() {
    let world = world().await;
    ok(&world, &create("share/ro", 0).header("x-ms-file-attributes", "ReadOnly")).await;
    ok(&world, &create("share/leased", 0)).await;
    let lease = file("PUT share/leased?comp=lease").header("x-ms-lease-action", "acquire");
    let lease = ok(&world, &lease.header("x-ms-lease-duration", "-1")).await;
    let lease = lease.header("x-ms-lease-id").expect("an id").to_string();
    let other = "01234567-89ab-cdef-0123-456789abcdef";
    for name in ["share/a", "share/b"] {
        ok(&world, &create(name, 1 << 39)).await;
    }
    ok(&world, &file("PUT small?restype=share").header("x-ms-share-quota", "1")).await;
    let to = |path: &str| from_file(path, "share/f");
    for (request, status, code) in [
        (to("share/none/f"), 404, "ParentNotFound"),
        (to("none/f"), 404, "ShareNotFound"),
        (to("share/d"), 409, "ResourceTypeMismatch"),
        (to("share/d/"), 400, "InvalidFileOrDirectoryPathName"),
        (to("share/ro"), 409, "ReadOnlyAttribute"),
        (to("share/ro").header("x-ms-file-copy-ignore-readonly", "perhaps"), 400, "InvalidHeaderValue"),
        (to("share/leased"), 412, "LeaseIdMissing"),
        (to("share/leased").header("x-ms-lease-id", other), 412, "LeaseIdMismatchWithFileOperation"),
        (to("share/f2").header("x-ms-lease-id", other), 412, "LeaseNotPresentWithFileOperation"),
        (from_file("small/f", "share/a"), 409, "ShareSizeLimitReached"),
        (to("share/f2").body("body"), 400, "InvalidHeaderValue"),
        (to("share/f2").header("If-Match", "*"), 400, "ConditionHeadersNotSupported"),
        (to("share/f2").header("x-ms-source-if-match", "*"), 400, "ConditionHeadersNotSupported"),
        (to("share/f2").header("x-ms-content-type", "a/b"), 400, "UnsupportedHeader"),
        (to("share/f2").header("x-ms-mode", "0644"), 400, "UnsupportedHeader"),
        (to("share/f2").header("x-ms-file-mode-copy-mode", "source"), 400, "UnsupportedHeader"),
        (to("share/f2").header("x-ms-file-attributes", "Directory"), 400, "InvalidHeaderValue"),
        (to("share/f2").header("x-ms-file-attributes", "sauce"), 400, "InvalidHeaderValue"),
        (to("share/f2").header("x-ms-file-last-write-time", "preserve"), 400, "InvalidHeaderValue"),
        (to("share/f2").header("x-ms-file-permission-copy-mode", "override"), 400, "MissingRequiredHeader"),
        (to("share/f2").header("x-ms-file-permission-copy-mode", "both"), 400, "InvalidHeaderValue"),
        (
            to("share/f2").header("x-ms-file-permission-copy-mode", "source").header("x-ms-file-permission", "inherit"),
            400,
            "InvalidHeaderValue",
        ),
        (to("share/f2").header("x-ms-file-permission", "nonsense"), 400, "FileInvalidPermission"),
        (to("share/f2").header("x-ms-file-permission-key", "1*2"), 400, "FileInvalidPermissionKey"),
        (copy("share/f2", "share/f"), 400, "InvalidHeaderValue"),
        (copy("share/f2", "ftp://127.0.0.1/a/b/c"), 400, "InvalidHeaderValue"),
        (copy("share/f2", format!("{FILES}/share/f?comp=metadata")), 400, "InvalidHeaderValue"),
        (copy("share/f2", format!("{FILES}/share?restype=directory")), 400, "InvalidHeaderValue"),
        (copy("share/f2", "http://example.org/f"), 403, "CannotVerifyCopySource"),
    ] {
        refused(&world, &request, status, code).await;
        assert_eq!(get(&world, "share/f2").await.status, 404, "{request:?}");
    }
    ok(&world, &to("share/ro").header("x-ms-file-copy-ignore-readonly", "true")).await;
    assert_eq!(get(&world, "share/ro").await.header("x-ms-file-attributes"), Some("Archive"));
    ok(&world, &to("share/leased").header("x-ms-lease-id", &lease)).await;
    assert_eq!(get(&world, "share/leased").await.header("x-ms-lease-state"), Some("leased"));
    // Names end in dots where that is said, on each side by itself.
    let dotted = create("share/dot.", 3).header("x-ms-allow-trailing-dot", "true");
    ok(&world, &dotted).await;
    let from = from_file("share/copy.", "share/dot.");
    refused(&world, &from, 404, "CannotVerifyCopySource").await;
    ok(&world, &from.header("x-ms-source-allow-trailing-dot", "true")).await;
    assert_eq!(get(&world, "share/copy").await.body.len(), 3);
}

#[tokio::test]
async fn owners_and_modes_are_copied_between_nfs_shares() {
    let world = world().await;
    ok(&world, &file("PUT nfs?restype=share").header("x-ms-enabled-protocols", "NFS")).await;
    let source = create("nfs/s", 3).header("x-ms-owner", "7").header("x-ms-group", "8").header("x-ms-mode", "0600");
    ok(&world, &source).await;
    let copy = || from_file("nfs/copy", "nfs/s");
    for (request, expected) in [
        (copy(), ["0", "0", "0664"]),
        (copy().header("x-ms-file-owner-copy-mode", "source"), ["7", "8", "0664"]),
        (copy().header("x-ms-file-mode-copy-mode", "source"), ["0", "0", "0600"]),
        (copy().header("x-ms-file-mode-copy-mode", "override").header("x-ms-mode", "0777"), ["0", "0", "0777"]),
        (copy().header("x-ms-owner", "9"), ["9", "0", "0664"]),
    ] {
        ok(&world, &request).await;
        let head = world.send(&file("HEAD nfs/copy")).await;
        let shown = ["x-ms-owner", "x-ms-group", "x-ms-mode"].map(|name| head.header(name).unwrap_or_default());
        assert_eq!(shown, expected, "{request:?}");
    }
    refused(&world, &copy().header("x-ms-file-permission-copy-mode", "source"), 400, "UnsupportedHeader").await;
    let of_smb = from_file("nfs/copy", "share/f").header("x-ms-file-mode-copy-mode", "source");
    refused(&world, &of_smb, 400, "InvalidHeaderValue").await;
    // A file of two names is one file still.
    let link = file("PUT nfs/link?restype=hardlink").header("x-ms-type", "file");
    ok(&world, &link.header("x-ms-file-target-file", "/copy")).await;
    ok(&world, &from_file("nfs/link", "share/f")).await;
    let head = get(&world, "nfs/copy").await;
    assert_eq!((head.text().as_str(), head.header("x-ms-link-count")), ("content", Some("2")));
}

fn range_from(to: &str, range: &str, url: &str, source_range: &str) -> Request {
    let request = file(&format!("PUT {to}?comp=range")).header("x-ms-write", "update").header("x-ms-range", range);
    request.header("x-ms-source-range", source_range).header("x-ms-copy-source", url)
}

fn crc64(content: &[u8]) -> String {
    STANDARD.encode(crate::structured::crc(content))
}

#[tokio::test]
async fn ranges_of_sources() {
    let world = world().await;
    let large: String = (0..400_000).map(|n| format!("{n};")).collect();
    ok(&world, &put_blob("open/large", large.clone())).await;
    ok(&world, &create("share/to", 5 << 20)).await;
    let sas = sas(&world);
    let (url, ours) = (format!("{BLOBS}/open/large"), format!("{FILES}/share/f?{sas}"));
    for (source, range, source_range, content) in [
        (&url, "bytes=10-14", "bytes=100-104", &large[100..105]),
        (&url, "bytes=100000-199999", "bytes=7-100006", &large[7..100_007]),
        (&ours, "bytes=0-6", "bytes=0-6", "content"),
        (&ours, "bytes=0-0", "bytes=6-6", "t"),
    ] {
        let answer = ok(&world, &range_from("share/to", range, source, source_range)).await;
        assert_eq!(
            (answer.status, answer.header("x-ms-content-crc64")),
            (201, Some(crc64(content.as_bytes()).as_str()))
        );
        let written = world.send(&file("GET share/to").header("x-ms-range", range)).await;
        assert!(written.text() == content, "{range}");
    }
    let four = |first: u64, bytes: u64| format!("bytes={first}-{}", first + bytes - 1);
    let mib = 1 << 20;
    let good = || range_from("share/to", "bytes=0-6", &ours, "bytes=0-6");
    for (request, status, code) in [
        (range_from("share/to", "bytes=0-7", &ours, "bytes=0-7"), 409, "CannotVerifyCopySource"),
        (range_from("share/to", "bytes=0-0", &ours, "bytes=7-7"), 409, "CannotVerifyCopySource"),
        (range_from("share/to", "bytes=0-6", &ours, "bytes=0-5"), 400, "InvalidHeaderValue"),
        (range_from("share/to", "bytes=0-6", &ours, "bytes=0-"), 400, "InvalidHeaderValue"),
        (range_from("share/to", "bytes=0-", &ours, "bytes=0-"), 400, "InvalidHeaderValue"),
        (range_from("share/to", &four(0, 4 * mib + 1), &url, &four(0, 4 * mib + 1)), 413, "RequestBodyTooLarge"),
        (range_from("share/to", &four(5 * mib - 1, 2), &ours, "bytes=0-1"), 416, "InvalidRange"),
        (range_from("share/none", "bytes=0-0", &ours, "bytes=0-0"), 404, "ResourceNotFound"),
        (range_from("share/d", "bytes=0-0", &ours, "bytes=0-0"), 409, "ResourceTypeMismatch"),
        // The request's own key does not read the source.
        (range_from("share/to", "bytes=0-0", &format!("{FILES}/share/f"), "bytes=0-0"), 401, "CannotVerifyCopySource"),
        (good().header("x-ms-source-content-crc64", crc64(b"content")), 201, ""),
        (good().header("x-ms-source-content-crc64", crc64(b"other")), 400, "Crc64Mismatch"),
        (good().header("x-ms-source-content-crc64", "x"), 400, "InvalidHeaderValue"),
        (good().header("x-ms-source-if-match-crc64", crc64(b"content")), 201, ""),
        (good().header("x-ms-source-if-match-crc64", crc64(b"other")), 412, "SourceConditionNotMet"),
        (good().header("x-ms-source-if-none-match-crc64", crc64(b"other")), 201, ""),
        (good().header("x-ms-source-if-none-match-crc64", crc64(b"content")), 412, "SourceConditionNotMet"),
        (good().header("x-ms-source-if-match", "*"), 400, "ConditionHeadersNotSupported"),
        (good().header("x-ms-file-last-write-time", "Never"), 400, "InvalidHeaderValue"),
        (good().body("body"), 400, "InvalidHeaderValue"),
    ] {
        let answer = world.send(&request).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{request:?}: {}", answer.text());
    }
    let mut clear = good();
    clear.headers.retain(|(name, _)| name != "x-ms-write");
    refused(&world, &clear, 400, "MissingRequiredHeader").await;
    refused(&world, &clear.header("x-ms-write", "clear"), 400, "InvalidHeaderValue").await;
    let mut without = good();
    without.headers.retain(|(name, _)| name != "x-ms-source-range");
    refused(&world, &without, 400, "MissingRequiredHeader").await;
    let written = |answer: &Answer| answer.header("x-ms-file-last-write-time").expect("a time").to_string();
    let before = written(&get(&world, "share/to").await);
    world.clock.advance_seconds(10);
    assert_eq!(written(&ok(&world, &good().header("x-ms-file-last-write-time", "Preserve")).await), before);
    assert_ne!(written(&ok(&world, &good()).await), before);
    // From outside.
    let outside = Outside::serve("outside").await;
    outside.allow(&world);
    ok(&world, &range_from("share/to", "bytes=3-5", &outside.url("content"), "bytes=1-3")).await;
    assert_eq!(world.send(&file("GET share/to").header("x-ms-range", "bytes=0-6")).await.text(), "conutst");
    let beyond = range_from("share/to", "bytes=3-5", &outside.url("content"), "bytes=9-11");
    refused(&world, &beyond, 409, "CannotVerifyCopySource").await;
    let short = range_from("share/to", "bytes=3-5", &outside.url("content"), "bytes=5-7");
    refused(&world, &short, 409, "CannotVerifyCopySource").await;
}

/// Each operation of the Blob service that takes a source takes a file.
#[tokio::test]
async fn files_become_blobs() {
    let engine = Arc::new(Counting::default());
    let world = filled(World::over(engine.clone()).await).await;
    let content: String = (0..200_000).map(|n| format!("{n};")).collect();
    let content = &content[..1 << 20];
    ok(&world, &create("share/source", 1 << 20).header("x-ms-content-type", "a/b").header("x-ms-meta-Old", "1")).await;
    ok(&world, &write("share/source", 0, content.as_bytes())).await;
    ok(&world, &blob("PUT box/log").header("x-ms-blob-type", "AppendBlob")).await;
    let page = blob("PUT box/pages").header("x-ms-blob-type", "PageBlob");
    ok(&world, &page.header("x-ms-blob-content-length", "1048576")).await;
    let url = format!("http://localhost:10003/devstoreaccount1/share/source?{}", sas(&world));
    let from = |line: &str| blob(line).header("x-ms-copy-source", &url);
    let before = engine.touched();
    let block = "PUT box/block?comp=block&blockid=YQ==";
    for request in [
        from("PUT box/a"),
        from("PUT box/b").header("x-ms-requires-sync", "true"),
        from("PUT box/c").header("x-ms-blob-type", "BlockBlob"),
        from(block),
        from("PUT box/log?comp=appendblock"),
        from("PUT box/pages?comp=page")
            .header("x-ms-page-write", "update")
            .header("x-ms-range", "bytes=0-1048575")
            .header("x-ms-source-range", "bytes=0-1048575"),
    ] {
        ok(&world, &request).await;
        let conditional = request.clone().header("x-ms-source-if-match", "*");
        refused(&world, &conditional, 400, "ConditionHeadersNotSupported").await;
        let mut alone = request.clone();
        alone.headers.retain(|(name, _)| name != "x-ms-copy-source");
        // The request's own key reads no files, and of files there is none like this.
        let private = url.split('?').next().expect("a path").to_string();
        refused(&world, &alone.clone().header("x-ms-copy-source", private), 401, "CannotVerifyCopySource").await;
        let none = url.replace("source?", "none?");
        refused(&world, &alone.header("x-ms-copy-source", none), 404, "CannotVerifyCopySource").await;
    }
    assert_eq!(engine.touched(), before);
    ok(&world, &blob("PUT box/block?comp=blocklist").body("<BlockList><Latest>YQ==</Latest></BlockList>")).await;
    for name in ["a", "b", "c", "block", "log", "pages"] {
        let copied = world.send(&blob(&format!("GET box/{name}"))).await;
        assert!(copied.text() == content, "{name}");
        if ["a", "b", "c"].contains(&name) {
            assert_eq!((copied.header("content-type"), copied.header("x-ms-meta-old")), (Some("a/b"), Some("1")));
            assert_eq!(copied.header("x-ms-blob-type"), Some("BlockBlob"));
        }
    }
    refused(&world, &from("PUT box/pages"), 409, "InvalidBlobType").await;
    refused(&world, &from("PUT box/a?comp=incrementalcopy"), 409, "InvalidSourceBlobUrl").await;
    let tags = from("PUT box/b").header("x-ms-requires-sync", "true").header("x-ms-copy-source-tag-option", "COPY");
    refused(&world, &tags, 400, "UnsupportedHeader").await;
    // A hole is one extent of zeros, however large it is.
    ok(&world, &create("share/source", 64 << 20)).await;
    ok(&world, &write("share/source", 40 << 20, b"here")).await;
    let (written, _) = engine.touched();
    ok(&world, &from("PUT box/sparse")).await;
    assert_eq!(engine.touched().0, written + 2);
    let part = blob("GET box/sparse").header("x-ms-range", format!("bytes={}-{}", (40 << 20) - 2, (40 << 20) + 5));
    assert_eq!(world.send(&part).await.body, b"\0\0here\0\0");
    assert!(world.send(&blob("GET box/sparse")).await.body.len() == 64 << 20);
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
async fn a_pending_copy_keeps_everybody_else_away_until_it_ends() {
    let world = world().await;
    let outside = Outside::serve("outside").await;
    outside.allow(&world);
    let running = tokio::spawn(http::copies::run(world.app.clone()));
    let url = outside.url("slow?sig=secret");
    let started = ok(&world, &copy("share/d/f", url).header("x-ms-file-attributes", "Hidden")).await;
    assert_eq!((started.status, started.header("x-ms-copy-status")), (202, Some("pending")));
    let id = started.header("x-ms-copy-id").expect("an id").to_string();
    let pending = get(&world, "share/d/f").await;
    assert_eq!((pending.status, pending.body.len(), pending.header("x-ms-copy-progress")), (200, 0, Some("0/7")));
    assert_eq!(
        (pending.header("content-type"), pending.header("x-ms-meta-color")),
        (Some("text/outside"), Some("blue"))
    );
    let lease = file("PUT share/d/f?comp=lease").header("x-ms-lease-action", "acquire");
    for request in [
        create("share/d/f", 5),
        write("share/d/f", 0, b"x"),
        lease.header("x-ms-lease-duration", "-1"),
        file("PUT share/d/f?comp=metadata"),
        file("PUT share/d/f?comp=properties").header("x-ms-content-length", "9"),
        file("PUT share/d/g?comp=rename").header("x-ms-file-rename-source", format!("{FILES}/share/d/f")),
        file("PUT share/d/f?comp=rename")
            .header("x-ms-file-rename-source", format!("{FILES}/share/f"))
            .header("x-ms-file-rename-replace-if-exists", "true"),
        file("DELETE share/d/f"),
        copy("share/d/f", outside.url("content")),
        from_file("share/d/f", "share/f"),
    ] {
        refused(&world, &request, 409, "PendingCopyOperation").await;
    }
    // It is found wherever it is by then.
    let rename = file("PUT share/e?restype=directory&comp=rename");
    ok(&world, &rename.header("x-ms-file-rename-source", format!("{FILES}/share/d"))).await;
    outside.go_on();
    let copied = settled(&world, "share/e/f").await;
    assert_eq!((copied.text().as_str(), copied.header("x-ms-copy-id")), ("outside", Some(id.as_str())));
    assert_eq!(copied.header("x-ms-copy-progress"), Some("7/7"));
    assert_eq!(copied.header("x-ms-copy-source"), Some(outside.url("slow").as_str()));
    assert_eq!(copied.header("x-ms-file-attributes"), Some("Hidden"));
    assert!(copied.header("content-md5").is_some());
    assert_ne!(copied.header("etag"), started.header("etag"));
    let stats = ok(&world, &file("GET share?restype=share&comp=stats")).await.text();
    assert!(stats.contains("<ShareUsageBytes>14</ShareUsageBytes>"), "{stats}");
    ok(&world, &write("share/e/f", 0, b"x")).await;
    running.abort();
}

fn abort(path: &str, id: &str) -> Request {
    file(&format!("PUT {path}?comp=copy&copyid={id}")).header("x-ms-copy-action", "abort")
}

#[tokio::test]
async fn aborting() {
    let world = world().await;
    let outside = Outside::serve("outside").await;
    outside.allow(&world);
    let running = tokio::spawn(http::copies::run(world.app.clone()));
    let lease = file("PUT share/f?comp=lease").header("x-ms-lease-action", "acquire");
    let leased = ok(&world, &lease.header("x-ms-lease-duration", "-1")).await;
    let lease = leased.header("x-ms-lease-id").expect("an id").to_string();
    let other = "01234567-89ab-cdef-0123-456789abcdef";
    let slow = copy("share/f", outside.url("slow")).header("x-ms-lease-id", &lease).header("x-ms-meta-New", "2");
    let started = ok(&world, &slow).await;
    let id = started.header("x-ms-copy-id").expect("an id").to_string();
    ok(&world, &create("share/none", 0)).await;
    for (request, status, code) in [
        (abort("share/f", other).header("x-ms-lease-id", &lease), 409, "CopyIdMismatch"),
        (abort("share/f", &id), 412, "LeaseIdMissing"),
        (abort("share/f", &id).header("x-ms-lease-id", other), 412, "LeaseIdMismatchWithFileOperation"),
        (abort("share/f", "some"), 400, "InvalidQueryParameterValue"),
        (file("PUT share/f?comp=copy").header("x-ms-copy-action", "abort"), 400, "MissingRequiredQueryParameter"),
        (file(&format!("PUT share/f?comp=copy&copyid={id}")), 400, "MissingRequiredHeader"),
        (abort("share/nothing", &id), 404, "ResourceNotFound"),
        (abort("share/none", &id), 409, "NoPendingCopyOperation"),
        (abort("share/f", &id).header("x-ms-lease-id", &lease), 204, ""),
        (abort("share/f", &id).header("x-ms-lease-id", &lease), 409, "NoPendingCopyOperation"),
    ] {
        let answer = world.send(&request).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{request:?}");
    }
    outside.go_on();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let aborted = get(&world, "share/f").await;
    assert_eq!(aborted.header("x-ms-copy-status"), Some("aborted"));
    assert_eq!((aborted.body.len(), aborted.header("x-ms-meta-new")), (0, Some("2")));
    running.abort();
}

/// Whatever moment the server stops at: the next start finds the copy pending and goes on, or says why it cannot.
#[tokio::test]
async fn a_restart_goes_on_with_pending_copies() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let world = filled(World::over(engine.clone()).await).await;
    let outside = Outside::serve("outside").await;
    outside.allow(&world);
    ok(&world, &file("PUT small?restype=share").header("x-ms-share-quota", "1")).await;
    for path in ["share/a", "share/gone", "small/a"] {
        ok(&world, &copy(path, outside.url("slow"))).await;
    }
    // Nobody saw that there would be so much by the time it has arrived.
    ok(&world, &create("small/full", 1 << 30)).await;
    drop(world);
    let later = Timestamp::parse_iso8601("2026-01-10T00:00:00Z").expect("a time");
    let again = |now| World::with(engine.clone(), Arc::new(ScriptedClock::at(now)), Arc::new(ScriptedIds::default()));
    let world = again(later).await.expect("opens");
    outside.allow(&world);
    assert_eq!(get(&world, "share/a").await.header("x-ms-copy-status"), Some("pending"));
    outside.go_on();
    let running = tokio::spawn(http::copies::run(world.app.clone()));
    assert_eq!(settled(&world, "share/a").await.text(), "outside");
    let failed = settled(&world, "small/a").await;
    assert_eq!((failed.header("x-ms-copy-status"), failed.body.len()), (Some("failed"), 0));
    let description = failed.header("x-ms-copy-status-description").expect("a description");
    assert!(description.starts_with("409 ShareSizeLimitReached "), "{description}");
    assert_eq!(settled(&world, "share/gone").await.text(), "outside");
    running.abort();

    // A source that is another by then, and one that took too long.
    for (name, now, words) in
        [("d1", "2026-01-11T00:00:00Z", "changed meanwhile"), ("d2", "2026-02-11T00:00:00Z", "two weeks")]
    {
        let outside = Outside::serve("outside").await;
        outside.allow(&world);
        ok(&world, &copy(&format!("share/{name}"), outside.url("content"))).await;
        if name == "d1" {
            outside.change("other");
        }
        let world = again(Timestamp::parse_iso8601(now).expect("a time")).await.expect("opens");
        outside.allow(&world);
        let running = tokio::spawn(http::copies::run(world.app.clone()));
        let failed = settled(&world, &format!("share/{name}")).await;
        assert_eq!(failed.header("x-ms-copy-status"), Some("failed"));
        assert!(failed.header("x-ms-copy-status-description").is_some_and(|text| text.contains(words)));
        running.abort();
    }
}

#[tokio::test]
async fn a_share_that_is_deleted_ends_its_copies() {
    let world = world().await;
    let outside = Outside::serve("outside").await;
    outside.allow(&world);
    let running = tokio::spawn(http::copies::run(world.app.clone()));
    ok(&world, &copy("share/a", outside.url("slow"))).await;
    ok(&world, &file("DELETE share?restype=share")).await;
    outside.go_on();
    let account = AccountName::parse(testing::ACCOUNT).expect("a name");
    for _ in 0..1000 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        if partition::copying::noted(&world.app.shell, &account).await.expect("readable").is_empty() {
            running.abort();
            return;
        }
    }
    panic!("the copy is noted for ever");
}
