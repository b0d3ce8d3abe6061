//! Snapshots, versions, and what was deleted and is kept: what a blob was stays what it was.

use http::account::Account;
use testing::{Answer, Request, World};

async fn container() -> World {
    let world = World::new().await;
    assert_eq!(world.send(&Request::new("PUT box?restype=container")).await.status, 201);
    world
}

async fn versioned() -> World {
    let world = container().await;
    set_versioning(&world, true);
    world
}

fn set_versioning(world: &World, versioning: bool) {
    let mut account = Account::development();
    account.blob.versioning = versioning;
    world.app.set_accounts(vec![account]);
}

/// What is deleted stays for two days.
async fn keep_deleted(world: &World, allow_permanent: bool) {
    let policy = format!(
        "<StorageServiceProperties><DeleteRetentionPolicy><Enabled>true</Enabled><Days>2</Days>\
         <AllowPermanentDelete>{allow_permanent}</AllowPermanentDelete></DeleteRetentionPolicy></StorageServiceProperties>"
    );
    let set = Request::new("PUT ?restype=service&comp=properties").body(policy);
    assert_eq!(world.send(&set).await.status, 202);
}

async fn put(world: &World, content: &str) -> Answer {
    world.clock.advance_seconds(1);
    let put = Request::new("PUT box/b").header("x-ms-blob-type", "BlockBlob").body(content);
    let answer = world.send(&put).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer
}

async fn take(world: &World) -> String {
    let answer = world.send(&Request::new("PUT box/b?comp=snapshot")).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.header("x-ms-snapshot").expect("its id").to_string()
}

async fn status(world: &World, line: &str) -> u16 {
    world.send(&Request::new(line)).await.status
}

async fn get(world: &World, parameters: &str) -> String {
    let answer = world.send(&Request::new(&format!("GET box/b{parameters}"))).await;
    if answer.status == 200 { answer.text() } else { answer.code().to_string() }
}

/// The entries of a listing, each as what tells it apart: `name`, with `@` a snapshot, `#` a version, `=` the current version, `-` what is
/// deleted, `?` what is not committed; and its length.
async fn listed(world: &World, parameters: &str) -> String {
    let mut shown = Vec::new();
    let mut marker = String::new();
    loop {
        let line = format!("GET box?restype=container&comp=list&{parameters}{marker}");
        let answer = world.send(&Request::new(&line)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let text = answer.text();
        for entry in text.split("<Blob>").skip(1) {
            let has = |element: &str| entry.contains(element);
            let value = |name: &str| {
                let rest = entry.split_once(&format!("<{name}>"));
                rest.and_then(|(_, rest)| rest.split_once('<')).map_or("", |(value, _)| value).to_string()
            };
            let mut one = value("Name");
            for (element, sign) in [
                ("<Snapshot>", "@"),
                ("<IsCurrentVersion>true", "="),
                ("<VersionId>", "#"),
                ("<Deleted>true", "-"),
                ("<HasVersionsOnly>true", "!"),
                ("<ServerEncrypted>false", "?"),
            ] {
                if has(element) && !(sign == "#" && one.ends_with('=')) {
                    one.push_str(sign);
                }
            }
            shown.push(format!("{one}{}", value("Content-Length")));
        }
        for entry in text.split("<BlobPrefix><Name>").skip(1) {
            shown.push(entry.split_once('<').map_or("", |(name, _)| name).to_string());
        }
        let next =
            text.split_once("<NextMarker>").and_then(|(_, rest)| rest.split_once('<')).map_or("", |(next, _)| next);
        if next.is_empty() {
            return shown.join(" ");
        }
        marker = format!("&marker={next}");
    }
}

#[tokio::test]
async fn a_snapshot_stays_what_it_was() {
    let world = container().await;
    let first = put(&world, "one").await;
    let early = take(&world).await;
    let big = "x".repeat(100_000);
    put(&world, &big).await;
    let late = take(&world).await;
    put(&world, "three").await;
    assert_eq!(get(&world, "").await, "three");
    assert_eq!(get(&world, &format!("?snapshot={early}")).await, "one");
    assert_eq!(get(&world, &format!("?snapshot={late}")).await, big);
    let read = world.send(&Request::new(&format!("GET box/b?snapshot={early}"))).await;
    // A snapshot keeps the ETag, and has no lease.
    assert_eq!((read.header("etag"), read.header("x-ms-lease-state")), (first.header("etag"), None));

    assert_eq!(listed(&world, "").await, "b5");
    assert_eq!(listed(&world, "include=snapshots").await, "b@3 b@100000 b5");
    assert_eq!(listed(&world, "include=snapshots&maxresults=1").await, "b@3 b@100000 b5");

    // The blob with snapshots is deleted with them, or they alone, or not at all.
    let refused = world.send(&Request::new("DELETE box/b")).await;
    assert_eq!((refused.status, refused.code()), (409, "SnapshotsPresent"));
    assert_eq!(status(&world, &format!("DELETE box/b?snapshot={early}")).await, 202);
    assert_eq!(get(&world, &format!("?snapshot={early}")).await, "BlobNotFound");
    assert_eq!(listed(&world, "include=snapshots").await, "b@100000 b5");
    let only = Request::new("DELETE box/b").header("x-ms-delete-snapshots", "only");
    assert_eq!(world.send(&only).await.status, 202);
    assert_eq!(listed(&world, "include=snapshots").await, "b5");
    take(&world).await;
    let include = Request::new("DELETE box/b").header("x-ms-delete-snapshots", "include");
    assert_eq!(world.send(&include).await.header("x-ms-delete-type-permanent"), Some("true"));
    assert_eq!(listed(&world, "include=snapshots,deleted,versions,uncommittedblobs").await, "");
}

#[tokio::test]
async fn snapshots_of_blocks_and_of_appends() {
    let world = container().await;
    for (id, content) in [("YQ==", "aaa"), ("Yg==", "bb")] {
        let stage = Request::new(&format!("PUT box/b?comp=block&blockid={id}")).body(content);
        assert_eq!(world.send(&stage).await.status, 201);
    }
    let commit = |list: &str| Request::new("PUT box/b?comp=blocklist").body(format!("<BlockList>{list}</BlockList>"));
    assert_eq!(world.send(&commit("<Latest>YQ==</Latest><Latest>Yg==</Latest>")).await.status, 201);
    let snapshot = take(&world).await;
    assert_eq!(world.send(&commit("<Committed>Yg==</Committed>")).await.status, 201);
    assert_eq!(get(&world, "").await, "bb");
    assert_eq!(get(&world, &format!("?snapshot={snapshot}")).await, "aaabb");
    let blocks = world.send(&Request::new(&format!("GET box/b?comp=blocklist&snapshot={snapshot}"))).await.text();
    assert!(blocks.contains("<Name>YQ==</Name><Size>3</Size>"), "{blocks}");

    assert_eq!(world.send(&Request::new("PUT box/log").header("x-ms-blob-type", "AppendBlob")).await.status, 201);
    let append = |text: &str| Request::new("PUT box/log?comp=appendblock").body(text);
    assert_eq!(world.send(&append("one ")).await.status, 201);
    let taken = world.send(&Request::new("PUT box/log?comp=snapshot")).await;
    assert_eq!(world.send(&append("two")).await.status, 201);
    let snapshot = taken.header("x-ms-snapshot").expect("its id");
    let read = |parameters: String| Request::new(&format!("GET box/log{parameters}"));
    assert_eq!(world.send(&read(format!("?snapshot={snapshot}"))).await.text(), "one ");
    assert_eq!(world.send(&read(String::new())).await.text(), "one two");
}

/// Metadata given with a snapshot is the snapshot's; without it has the blob's.
#[tokio::test]
async fn metadata_of_a_snapshot() {
    let world = container().await;
    let create = Request::new("PUT box/b").header("x-ms-blob-type", "BlockBlob").header("x-ms-meta-a", "1").body("x");
    assert_eq!(world.send(&create).await.status, 201);
    let plain = take(&world).await;
    let given = world.send(&Request::new("PUT box/b?comp=snapshot").header("x-ms-meta-b", "2")).await;
    for (snapshot, a, b) in
        [(plain.as_str(), Some("1"), None), (given.header("x-ms-snapshot").expect("it"), None, Some("2"))]
    {
        let read = world.send(&Request::new(&format!("HEAD box/b?snapshot={snapshot}"))).await;
        assert_eq!((read.header("x-ms-meta-a"), read.header("x-ms-meta-b")), (a, b));
    }
}

#[tokio::test]
async fn what_is_deleted_is_kept_and_restored() {
    let world = container().await;
    keep_deleted(&world, false).await;
    put(&world, "one").await;
    take(&world).await;
    let include = Request::new("DELETE box/b").header("x-ms-delete-snapshots", "include");
    assert_eq!(world.send(&include).await.header("x-ms-delete-type-permanent"), Some("false"));
    assert_eq!(get(&world, "").await, "BlobNotFound");
    assert_eq!(listed(&world, "").await, "");
    assert_eq!(listed(&world, "include=deleted").await, "b-3");
    assert_eq!(listed(&world, "include=deleted,snapshots").await, "b@-3 b-3");
    assert_eq!(listed(&world, "include=deleted&delimiter=/").await, "b-3");

    assert_eq!(status(&world, "PUT box/b?comp=undelete").await, 200);
    assert_eq!(get(&world, "").await, "one");
    assert_eq!(listed(&world, "include=deleted,snapshots").await, "b@3 b3");
    // Again: there is nothing to restore, and nothing wrong.
    assert_eq!(status(&world, "PUT box/b?comp=undelete").await, 200);

    // What is overwritten is kept as a snapshot, and is one once it is restored.
    put(&world, "three").await;
    assert_eq!(listed(&world, "include=deleted,snapshots").await, "b@3 b@-3 b5");
    assert_eq!(status(&world, "PUT box/b?comp=undelete").await, 200);
    assert_eq!(listed(&world, "include=snapshots").await, "b@3 b@3 b5");

    // Two days later it is gone, whether it was swept or not.
    assert_eq!(world.send(&include).await.status, 202);
    world.clock.advance_seconds(2 * 24 * 60 * 60 - 1);
    assert_eq!(listed(&world, "include=deleted").await, "b-5");
    world.clock.advance_seconds(1);
    assert_eq!(listed(&world, "include=deleted,snapshots").await, "");
    assert_eq!(status(&world, "PUT box/b?comp=undelete").await, 404);
}

/// A blob that is put where another was deleted: that one is a snapshot from then on.
#[tokio::test]
async fn the_blob_that_was_deleted_last_is_the_one_that_is_restored() {
    let world = container().await;
    keep_deleted(&world, false).await;
    for content in ["1", "22"] {
        put(&world, content).await;
        assert_eq!(status(&world, "DELETE box/b").await, 202);
    }
    assert_eq!(listed(&world, "include=deleted").await, "b-2");
    assert_eq!(listed(&world, "include=deleted,snapshots").await, "b@-1 b-2");
    assert_eq!(status(&world, "PUT box/b?comp=undelete").await, 200);
    assert_eq!(get(&world, "").await, "22");
    assert_eq!(listed(&world, "include=deleted,snapshots").await, "b@1 b2");
}

#[tokio::test]
async fn permanent_deletion() {
    let world = container().await;
    keep_deleted(&world, true).await;
    put(&world, "one").await;
    let snapshot = take(&world).await;
    let forever = format!("DELETE box/b?snapshot={snapshot}&deletetype=permanent");
    let refused = world.send(&Request::new(&forever)).await;
    assert_eq!((refused.status, refused.code()), (409, "PermanentDeleteNotAllowed"));
    assert_eq!(status(&world, &format!("DELETE box/b?snapshot={snapshot}")).await, 202);
    assert_eq!(listed(&world, "include=deleted,snapshots").await, "b@-3 b3");
    assert_eq!(world.send(&Request::new(&forever)).await.header("x-ms-delete-type-permanent"), Some("true"));
    assert_eq!(listed(&world, "include=deleted,snapshots").await, "b3");
}

#[tokio::test]
async fn versions() {
    let world = versioned().await;
    let first = put(&world, "1").await;
    let first = first.header("x-ms-version-id").expect("its id").to_string();
    let second = put(&world, "22").await;
    let second = second.header("x-ms-version-id").expect("its id").to_string();
    assert_eq!(get(&world, &format!("?versionid={first}")).await, "1");
    assert_eq!(get(&world, &format!("?versionid={second}")).await, "22");
    let current = world.send(&Request::new("GET box/b")).await;
    assert_eq!(current.header("x-ms-version-id"), Some(second.as_str()));
    assert_eq!(current.header("x-ms-is-current-version"), Some("true"));
    assert_eq!(listed(&world, "include=versions").await, "b#1 b=2");
    assert_eq!(listed(&world, "").await, "b2");

    // Metadata makes a version, properties do not.
    let metadata = world.send(&Request::new("PUT box/b?comp=metadata").header("x-ms-meta-a", "1")).await;
    assert!(metadata.header("x-ms-version-id").is_some_and(|third| third > second.as_str()));
    assert_eq!(listed(&world, "include=versions").await, "b#1 b#2 b=2");
    let properties = Request::new("PUT box/b?comp=properties").header("x-ms-blob-content-type", "a/b");
    assert_eq!(world.send(&properties).await.status, 200);
    assert_eq!(listed(&world, "include=versions").await, "b#1 b#2 b=2");

    // Deleted, it is a version among others; one by one they go, but never the current one.
    let now = world.send(&Request::new("HEAD box/b")).await.header("x-ms-version-id").expect("its id").to_string();
    let refused = world.send(&Request::new(&format!("DELETE box/b?versionid={now}"))).await;
    assert_eq!((refused.status, refused.code()), (403, "OperationNotAllowedOnRootBlob"));
    assert_eq!(status(&world, "DELETE box/b").await, 202);
    assert_eq!(get(&world, "").await, "BlobNotFound");
    assert_eq!(get(&world, &format!("?versionid={now}")).await, "22");
    assert_eq!(listed(&world, "include=versions").await, "b#1 b#2 b#2");
    assert_eq!(listed(&world, "include=deletedwithversions").await, "b!2");
    assert_eq!(status(&world, &format!("DELETE box/b?versionid={first}")).await, 202);
    assert_eq!(listed(&world, "include=versions").await, "b#2 b#2");
    assert_eq!(get(&world, &format!("?versionid={first}")).await, "BlobNotFound");

    // Switched off, what is there stays, and what is written has no version.
    set_versioning(&world, false);
    assert_eq!(put(&world, "333").await.header("x-ms-version-id"), None);
    put(&world, "4444").await;
    assert_eq!(listed(&world, "include=versions").await, "b#2 b#2 b=4");
}

/// A snapshot ends a version, too.
#[tokio::test]
async fn snapshots_and_versions() {
    let world = versioned().await;
    put(&world, "1").await;
    let before = world.send(&Request::new("HEAD box/b")).await;
    take(&world).await;
    let after = world.send(&Request::new("HEAD box/b")).await;
    assert_eq!(before.header("etag"), after.header("etag"));
    assert_ne!(before.header("x-ms-version-id"), after.header("x-ms-version-id"));
    assert_eq!(listed(&world, "include=versions,snapshots").await, "b#1 b@1 b=1");
}

#[tokio::test]
async fn what_is_not_committed_is_listed_if_asked_for() {
    let world = container().await;
    let stage = Request::new("PUT box/dir/b?comp=block&blockid=YQ==").body("x");
    assert_eq!(world.send(&stage).await.status, 201);
    put(&world, "1").await;
    assert_eq!(listed(&world, "").await, "b1");
    assert_eq!(listed(&world, "include=uncommittedblobs").await, "b1 dir/b?0");
    assert_eq!(listed(&world, "include=uncommittedblobs&delimiter=/").await, "b1 dir/");
    world.clock.advance_seconds(7 * 24 * 60 * 60);
    assert_eq!(listed(&world, "include=uncommittedblobs").await, "b1");
    assert_eq!(listed(&world, "include=uncommittedblobs&delimiter=/").await, "b1");
}

/// Every page size shows the same, in the same order.
#[tokio::test]
async fn pages_of_the_past() {
    let world = container().await;
    keep_deleted(&world, false).await;
    for name in ["a", "b/1", "b/2", "c"] {
        let put = |content: &str| {
            Request::new(&format!("PUT box/{name}")).header("x-ms-blob-type", "BlockBlob").body(content)
        };
        assert_eq!(world.send(&put("1")).await.status, 201);
        assert_eq!(world.send(&Request::new(&format!("PUT box/{name}?comp=snapshot"))).await.status, 201);
        assert_eq!(world.send(&put("22")).await.status, 201);
    }
    let include = Request::new("DELETE box/c").header("x-ms-delete-snapshots", "include");
    assert_eq!(world.send(&include).await.status, 202);
    let whole = "a@1 a@-1 a2 b/1@1 b/1@-1 b/12 b/2@1 b/2@-1 b/22 c@-1 c@-1 c-2";
    assert_eq!(listed(&world, "include=deleted,snapshots").await, whole);
    for maxresults in 1..8 {
        let parameters = format!("include=deleted,snapshots&maxresults={maxresults}");
        assert_eq!(listed(&world, &parameters).await, whole, "{parameters}");
        let parameters = format!("include=deleted&delimiter=/&maxresults={maxresults}");
        assert_eq!(listed(&world, &parameters).await.split(' ').count(), 3, "{parameters}");
    }
    assert_eq!(listed(&world, "include=deleted,snapshots&prefix=b/2").await, "b/2@1 b/2@-1 b/22");
    assert_eq!(listed(&world, "include=deleted&startFrom=b/2").await, "b/22 c-2");
}
