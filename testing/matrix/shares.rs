//! Shares: what can be said of them, their snapshots, their leases, their listing; deleted ones that are kept, and what is given back.

use contract::Service;
use contract::names::ShareName;
use engine::{Batch, Durability, Family, GroupId, Write};
use env::Clock;
use http::account::Account;
use partition::file::share::find;
use partition::key::{self, directory, share};
use testing::{Answer, Request, ServiceSas, World};

use crate::examples::file;
use crate::kept::{DAY_SECONDS, account, all, rows, tidy};

const ID: &str = "01234567-89ab-cdef-0123-456789abcdef";

fn keep(world: &World, share_retention_days: Option<u16>) {
    let mut account = Account::development();
    account.file.share_retention_days = share_retention_days;
    world.app.set_accounts(vec![account]);
}

async fn done(world: &World, request: Request) -> Answer {
    let answer = world.send(&request).await;
    assert!(answer.status < 300, "{} {}: {} {}", request.method, request.path, answer.status, answer.text());
    answer
}

async fn refused(world: &World, request: Request) -> (u16, String) {
    let answer = world.send(&request).await;
    assert!(answer.status >= 300, "{} {} was not refused", request.method, request.path);
    (answer.status, answer.code().to_string())
}

fn code(status: u16, code: &str) -> (u16, String) {
    (status, code.to_string())
}

async fn create(world: &World, name: &str) {
    done(world, file(&format!("PUT {name}?restype=share"))).await;
}

/// Takes a snapshot, and tells its id.
async fn snapshot(world: &World, name: &str) -> String {
    let answer = done(world, file(&format!("PUT {name}?restype=share&comp=snapshot"))).await;
    answer.header("x-ms-snapshot").expect("its id").to_string()
}

async fn put_file(world: &World, path: &str, content: &str) {
    let bytes = content.len().to_string();
    let put = file(&format!("PUT {path}")).header("x-ms-type", "file").header("x-ms-content-length", &bytes);
    done(world, put).await;
    put_range(world, path, 0, content).await;
}

async fn put_range(world: &World, path: &str, first: usize, content: &str) {
    let range = format!("bytes={first}-{}", first + content.len() - 1);
    let put = file(&format!("PUT {path}?comp=range")).header("x-ms-write", "update").header("x-ms-range", range);
    done(world, put.body(content)).await;
}

fn lease(name: &str, action: &str) -> Request {
    file(&format!("PUT {name}?restype=share&comp=lease")).header("x-ms-lease-action", action)
}

fn acquire(name: &str, seconds: &str) -> Request {
    lease(name, "acquire").header("x-ms-lease-duration", seconds).header("x-ms-proposed-lease-id", ID)
}

#[tokio::test]
async fn what_can_be_said_of_a_share() {
    let world = World::new().await;
    create(&world, "plain").await;
    let plain = done(&world, file("HEAD plain?restype=share")).await;
    for (name, expected) in [
        ("x-ms-share-quota", Some("5120")),
        ("x-ms-access-tier", Some("TransactionOptimized")),
        ("x-ms-access-tier-change-time", Some("Fri, 02 Jan 2026 03:04:05 GMT")),
        ("x-ms-enabled-protocols", Some("SMB")),
        ("x-ms-root-squash", None),
        ("x-ms-lease-state", Some("available")),
        ("x-ms-has-legal-hold", Some("false")),
    ] {
        assert_eq!(plain.header(name), expected, "{name}");
    }
    let old = done(&world, file("GET plain?restype=share").header("x-ms-version", "2019-07-07")).await;
    assert_eq!((old.header("x-ms-share-quota"), old.header("x-ms-access-tier")), (Some("5120"), None));

    let nfs = file("PUT nfs?restype=share").header("x-ms-enabled-protocols", "NFS");
    done(&world, nfs.header("x-ms-root-squash", "RootSquash").header("x-ms-share-quota", "102400")).await;
    let set = file("PUT nfs?restype=share&comp=properties").header("x-ms-access-tier", "Premium");
    world.clock.advance_seconds(60);
    done(&world, set.header("x-ms-enable-snapshot-virtual-directory-access", "false")).await;
    let nfs = done(&world, file("GET nfs?restype=share")).await;
    for (name, expected) in [
        ("x-ms-share-quota", "102400"),
        ("x-ms-access-tier", "Premium"),
        ("x-ms-access-tier-change-time", "Fri, 02 Jan 2026 03:05:05 GMT"),
        ("x-ms-enabled-protocols", "NFS"),
        ("x-ms-root-squash", "RootSquash"),
        ("x-ms-enable-snapshot-virtual-directory-access", "false"),
    ] {
        assert_eq!(nfs.header(name), Some(expected), "{name}");
    }

    for (name, value, expected) in [
        ("x-ms-share-quota", "0", "InvalidHeaderValue"),
        ("x-ms-share-quota", "102401", "InvalidHeaderValue"),
        ("x-ms-share-quota", "much", "InvalidHeaderValue"),
        ("x-ms-access-tier", "Archive", "InvalidHeaderValue"),
        ("x-ms-root-squash", "RootSquash", "InvalidHeaderValue"),
        ("x-ms-enable-snapshot-virtual-directory-access", "true", "InvalidHeaderValue"),
        ("x-ms-share-provisioned-iops", "500", "UnsupportedHeader"),
        ("x-ms-share-provisioned-bandwidth-mibps", "500", "UnsupportedHeader"),
        ("x-ms-share-paid-bursting-enabled", "true", "UnsupportedHeader"),
        ("x-ms-enable-smb-directory-lease", "true", "UnsupportedHeader"),
    ] {
        for line in ["PUT other?restype=share", "PUT plain?restype=share&comp=properties"] {
            assert_eq!(refused(&world, file(line).header(name, value)).await, code(400, expected), "{line} {name}");
        }
    }
    let both = file("PUT other?restype=share").header("x-ms-enabled-protocols", "SMB;NFS");
    assert_eq!(refused(&world, both).await, code(400, "InvalidHeaderValue"));
    assert_eq!(refused(&world, file("PUT plain?restype=share")).await, code(409, "ShareAlreadyExists"));
    assert_eq!(refused(&world, file("GET other?restype=share")).await, code(404, "ShareNotFound"));
    assert_eq!(refused(&world, file("PUT Other?restype=share")).await, code(400, "InvalidResourceName"));
}

/// Metadata of its own or the share's; the share stays as it was. What is written later the snapshot does not see.
#[tokio::test]
async fn snapshots_see_what_was_there() {
    let world = World::new().await;
    done(&world, file("PUT tree?restype=share").header("x-ms-meta-colour", "blue")).await;
    put_file(&world, "tree/f", "before").await;
    world.clock.advance_seconds(1);
    let before = done(&world, file("GET tree?restype=share")).await;

    let taken = done(&world, file("PUT tree?restype=share&comp=snapshot")).await;
    assert_eq!(taken.header("etag"), before.header("etag"));
    assert_eq!(taken.header("x-ms-snapshot"), Some("2026-01-02T03:04:06.0000000Z"));
    let second = file("PUT tree?restype=share&comp=snapshot").header("x-ms-meta-colour", "red");
    // No two have the same id, however fast they come.
    assert_eq!(done(&world, second).await.header("x-ms-snapshot"), Some("2026-01-02T03:04:07.0000000Z"));
    assert_eq!(done(&world, file("GET tree?restype=share")).await.header("etag"), before.header("etag"));

    put_range(&world, "tree/f", 0, "behind").await;
    done(&world, file("PUT tree?restype=share&comp=metadata").header("x-ms-meta-colour", "green")).await;
    done(&world, file("PUT tree/d?restype=directory")).await;
    for (id, colour) in [("2026-01-02T03:04:06.0000000Z", "blue"), ("2026-01-02T03:04:07.0000000Z", "red")] {
        let at = |line: &str| file(&format!("{line}sharesnapshot={id}"));
        let then = done(&world, at("GET tree?restype=share&comp=metadata&")).await;
        assert_eq!(then.header("x-ms-meta-colour"), Some(colour));
        assert_eq!(done(&world, at("GET tree?restype=share&")).await.header("etag"), before.header("etag"));
        assert_eq!(done(&world, at("GET tree/f?")).await.text(), "before");
        assert_eq!(refused(&world, at("GET tree/d?restype=directory&")).await, code(404, "ResourceNotFound"));
        for line in [
            "PUT tree?restype=share&comp=metadata&",
            "PUT tree?restype=share&comp=properties&",
            "PUT tree?restype=share&comp=acl&",
            "PUT tree?restype=share&comp=snapshot&",
            "PUT tree/d?restype=directory&",
            "DELETE tree/f?",
        ] {
            let expected = code(409, "ShareSnapshotOperationNotSupported");
            assert_eq!(refused(&world, at(line)).await, expected, "{line}");
        }
    }
    assert_eq!(done(&world, file("GET tree/f")).await.text(), "behind");
    let unknown = file("GET tree?restype=share&sharesnapshot=2026-01-02T03:04:08.0000000Z");
    assert_eq!(refused(&world, unknown).await, code(404, "ShareSnapshotNotFound"));
    let nonsense = file("GET tree?restype=share&sharesnapshot=yesterday");
    assert_eq!(refused(&world, nonsense).await, code(400, "InvalidQueryParameterValue"));
}

#[tokio::test]
async fn a_share_goes_with_its_snapshots_or_not_at_all() {
    let world = World::new().await;
    create(&world, "tree").await;
    let (first, second) = (snapshot(&world, "tree").await, snapshot(&world, "tree").await);
    let at = |line: &str, id: &str| file(&format!("{line}&sharesnapshot={id}"));
    assert_eq!(refused(&world, file("DELETE tree?restype=share")).await, code(409, "ShareHasSnapshots"));

    // One snapshot alone; each has a lease of its own.
    let lease_first = at("PUT tree?restype=share&comp=lease", &first).header("x-ms-lease-action", "acquire");
    done(&world, lease_first.header("x-ms-lease-duration", "-1").header("x-ms-proposed-lease-id", ID)).await;
    assert_eq!(done(&world, file("GET tree?restype=share")).await.header("x-ms-lease-state"), Some("available"));
    let leased = done(&world, at("GET tree?restype=share", &first)).await;
    assert_eq!(leased.header("x-ms-lease-state"), Some("leased"));
    assert_eq!(refused(&world, at("DELETE tree?restype=share", &first)).await, code(412, "LeaseIdMissing"));
    let both = at("DELETE tree?restype=share", &second).header("x-ms-delete-snapshots", "include");
    assert_eq!(refused(&world, both).await, code(400, "InvalidHeaderValue"));
    done(&world, at("DELETE tree?restype=share", &second)).await;
    assert_eq!(refused(&world, at("DELETE tree?restype=share", &second)).await, code(404, "ShareSnapshotNotFound"));

    let delete = |with: &str| file("DELETE tree?restype=share").header("x-ms-delete-snapshots", with);
    assert_eq!(refused(&world, delete("all")).await, code(400, "InvalidHeaderValue"));
    assert_eq!(refused(&world, delete("include")).await, code(409, "DeleteShareWhenSnapshotLeased"));
    done(&world, delete("include-leased")).await;
    assert_eq!(refused(&world, at("GET tree?restype=share", &first)).await, code(404, "ShareNotFound"));
    let directory = key::directory_group(Service::File, &account());
    assert_eq!(rows(&world, &directory, directory::SNAPSHOT).await, 0);

    // The name is free at once, and what was there is not.
    create(&world, "tree").await;
    assert_eq!(refused(&world, at("GET tree?restype=share", &first)).await, code(404, "ShareSnapshotNotFound"));
    done(&world, file("DELETE tree?restype=share")).await;
}

#[tokio::test]
async fn as_many_snapshots_as_there_can_be() {
    let world = World::new().await;
    create(&world, "tree").await;
    let first = snapshot(&world, "tree").await;
    for _ in 1..200 {
        snapshot(&world, "tree").await;
    }
    let take = || file("PUT tree?restype=share&comp=snapshot");
    assert_eq!(refused(&world, take()).await, code(409, "ShareSnapshotCountExceeded"));
    done(&world, file(&format!("DELETE tree?restype=share&sharesnapshot={first}"))).await;
    done(&world, take()).await;
    assert_eq!(all(&listed(&world, "snapshots").await, "Snapshot").len(), 200);
    done(&world, file("DELETE tree?restype=share").header("x-ms-delete-snapshots", "include")).await;
}

#[tokio::test]
async fn leases() {
    let world = World::new().await;
    create(&world, "tree").await;
    for seconds in ["14", "61", "0", "-2", "long"] {
        assert_eq!(refused(&world, acquire("tree", seconds)).await, code(400, "InvalidHeaderValue"), "{seconds}");
    }
    assert_eq!(done(&world, acquire("tree", "15")).await.header("x-ms-lease-id"), Some(ID));
    let other = lease("tree", "acquire").header("x-ms-lease-duration", "15");
    assert_eq!(refused(&world, other).await, code(409, "LeaseAlreadyPresent"));
    assert_eq!(refused(&world, file("DELETE tree?restype=share")).await, code(412, "LeaseIdMissing"));
    let wrong = file("DELETE tree?restype=share").header("x-ms-lease-id", ID.replace('0', "1"));
    assert_eq!(refused(&world, wrong).await, code(412, "LeaseIdMismatchWithContainerOperation"));
    // Nothing in it is locked by it, and nothing else about it.
    done(&world, file("PUT tree/d?restype=directory")).await;
    done(&world, file("PUT tree?restype=share&comp=metadata")).await;
    done(&world, lease("tree", "renew").header("x-ms-lease-id", ID)).await;
    let broken = done(&world, lease("tree", "break").header("x-ms-lease-break-period", "5")).await;
    assert_eq!(broken.header("x-ms-lease-time"), Some("5"));
    world.clock.advance_seconds(5);
    done(&world, acquire("tree", "-1")).await;
    let held = done(&world, file("GET tree?restype=share")).await;
    assert_eq!(
        (held.header("x-ms-lease-status"), held.header("x-ms-lease-duration")),
        (Some("locked"), Some("infinite"))
    );
    let released = done(&world, lease("tree", "release").header("x-ms-lease-id", ID)).await;
    assert_eq!((released.header("x-ms-lease-time"), released.header("x-ms-lease-id")), (Some("0"), None));
}

/// A policy opens what is in the share to its tokens, and closes it again when it goes.
#[tokio::test]
async fn stored_policies() {
    let world = World::new().await;
    create(&world, "tree").await;
    put_file(&world, "tree/f", "content").await;
    let policy = "<SignedIdentifiers><SignedIdentifier><Id>readers</Id><AccessPolicy><Expiry>2027-01-01T00:00:00Z</Expiry>\
        <Permission>rl</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>";
    let now = world.clock.now();
    let named = |kind: &str, name: &str| ServiceSas {
        permissions: String::new(),
        expiry: String::new(),
        policy: "readers".into(),
        ..ServiceSas::all(Service::File, kind, name, now)
    };
    let with = |line: &str, sas: &ServiceSas| file(line).with_sas(sas.parameters());
    let (of_share, of_file) = (named("s", "tree"), named("f", "tree/f"));
    assert_eq!(refused(&world, with("GET tree/f", &of_share)).await, code(403, "AuthenticationFailed"));
    done(&world, file("PUT tree?restype=share&comp=acl").body(policy)).await;
    assert_eq!(all(&done(&world, file("GET tree?restype=share&comp=acl")).await.text(), "Permission"), ["rl"]);
    for sas in [&of_share, &of_file] {
        assert_eq!(done(&world, with("GET tree/f", sas)).await.text(), "content");
        let delete = refused(&world, with("DELETE tree/f", sas)).await;
        assert_eq!(delete, code(403, "AuthorizationPermissionMismatch"));
    }
    done(&world, with("GET tree?restype=directory&comp=list", &of_share)).await;
    // A token for a file is for nothing beside it, nor for a directory in its place.
    for line in ["GET tree/g", "GET tree/f?restype=directory", "GET tree?restype=directory&comp=list"] {
        assert_eq!(refused(&world, with(line, &of_file)).await, code(403, "AuthenticationFailed"), "{line}");
    }
    let share = refused(&world, with("GET tree?restype=share", &of_share)).await;
    assert_eq!(share, code(403, "AuthorizationFailure"), "no token of a share is for the share itself");
    done(&world, file("PUT tree?restype=share&comp=acl")).await;
    assert_eq!(refused(&world, with("GET tree/f", &of_share)).await, code(403, "AuthenticationFailed"));
}

/// Stats are true at once: a file counts with its size, whatever was written into it.
#[tokio::test]
async fn usage() {
    let world = World::new().await;
    create(&world, "tree").await;
    let used = async || {
        let stats = done(&world, file("GET tree?restype=share&comp=stats")).await;
        all(&stats.text(), "ShareUsageBytes")[0].to_string()
    };
    assert_eq!(used().await, "0");
    put_file(&world, "tree/f", "content").await;
    assert_eq!(used().await, "7");
    let large = file("PUT tree/g").header("x-ms-type", "file").header("x-ms-content-length", "1099511627776");
    done(&world, large).await;
    assert_eq!(used().await, "1099511627783");
    done(&world, file("DELETE tree/f")).await;
    assert_eq!(used().await, "1099511627776");
}

async fn listed(world: &World, include: &str) -> String {
    done(world, file(&format!("GET ?comp=list&include={include}"))).await.text()
}

/// Of one name those that were deleted, then its snapshots, then the share; pages of every size show each of them once.
#[tokio::test]
async fn listings_and_their_pages() {
    let world = World::new().await;
    keep(&world, Some(2));
    for name in ["aaa", "bbb", "ccc", "ddd"] {
        create(&world, name).await;
        if name != "bbb" {
            snapshot(&world, name).await;
            snapshot(&world, name).await;
        }
        done(&world, file(&format!("DELETE {name}?restype=share")).header("x-ms-delete-snapshots", "include")).await;
        world.clock.advance_seconds(10);
    }
    for name in ["aaa", "ccc", "eee"] {
        create(&world, name).await;
        snapshot(&world, name).await;
        snapshot(&world, name).await;
        snapshot(&world, name).await;
    }
    let entries = |text: &str| -> Vec<String> {
        let entry = |part: &str| {
            let kind = match (part.contains("<Deleted>"), all(part, "Snapshot").first()) {
                (true, _) => "-".to_string(),
                (false, Some(id)) => id[17..19].to_string(),
                (false, None) => String::new(),
            };
            format!("{}{kind}", all(part, "Name")[0])
        };
        text.split("</Share>").filter(|part| part.contains("<Name>")).map(entry).collect()
    };
    assert_eq!(entries(&listed(&world, "metadata").await), ["aaa", "ccc", "eee"]);
    let whole = ["aaa-", "aaa45", "aaa46", "aaa47", "aaa", "bbb-", "ccc-", "ccc45", "ccc46", "ccc47", "ccc", "ddd-"];
    let whole = [&whole[..], &["eee45", "eee46", "eee47", "eee"]].concat();
    assert_eq!(entries(&listed(&world, "snapshots,deleted").await), whole);
    for size in 1..=whole.len() {
        let (mut seen, mut marker) = (Vec::new(), String::new());
        loop {
            let line = format!("GET ?comp=list&include=deleted,snapshots&maxresults={size}&marker={marker}");
            let page = done(&world, file(&line)).await.text();
            assert!(entries(&page).len() <= size);
            seen.extend(entries(&page));
            marker = all(&page, "NextMarker").first().unwrap_or(&"").to_string();
            if marker.is_empty() {
                break;
            }
        }
        assert_eq!(seen, whole, "{size}");
    }
    let prefixed = done(&world, file("GET ?comp=list&include=snapshots&prefix=e&maxresults=2")).await.text();
    assert_eq!(entries(&prefixed), ["eee45", "eee46"]);
    assert_eq!(all(&done(&world, file("GET ?comp=list&maxresults=1")).await.text(), "NextMarker"), ["ccc"]);
    for line in ["GET ?comp=list&include=all", "GET ?comp=list&marker=a!b", "GET ?comp=list&maxresults=x"] {
        assert_eq!(refused(&world, file(line)).await, code(400, "InvalidQueryParameterValue"), "{line}");
    }
}

fn restore(name: &str, version: &str) -> Request {
    let request = file(&format!("PUT {name}?restype=share&comp=undelete"));
    request.header("x-ms-deleted-share-name", name).header("x-ms-deleted-share-version", version)
}

#[tokio::test]
async fn deleted_listed_and_restored() {
    let world = World::new().await;
    keep(&world, Some(2));
    done(&world, file("PUT tree?restype=share").header("x-ms-meta-colour", "blue")).await;
    put_file(&world, "tree/f", "before").await;
    let id = snapshot(&world, "tree").await;
    put_range(&world, "tree/f", 0, "behind").await;
    let before = done(&world, file("GET tree?restype=share")).await;
    done(&world, acquire("tree", "-1")).await;
    let delete = file("DELETE tree?restype=share").header("x-ms-lease-id", ID);
    assert_eq!(refused(&world, delete.clone()).await, code(409, "ShareHasSnapshots"));
    let deleted = done(&world, delete.header("x-ms-delete-snapshots", "include")).await;
    assert_eq!(deleted.header("x-ms-file-share-usage-bytes"), Some("6"));

    assert_eq!(refused(&world, file("GET tree/f")).await, code(404, "ShareNotFound"));
    let shown = listed(&world, "deleted,metadata").await;
    assert_eq!((all(&shown, "Deleted"), all(&shown, "colour")), (vec!["true"], vec!["blue"]));
    assert_eq!(all(&shown, "RemainingRetentionDays"), ["2"]);
    let version = all(&shown, "Version")[0].to_string();

    create(&world, "tree").await;
    assert_eq!(refused(&world, restore("tree", &version)).await, code(409, "ShareAlreadyExists"));
    assert_eq!(all(&listed(&world, "snapshots").await, "Snapshot").len(), 0, "the new one has none");
    keep(&world, None);
    done(&world, file("DELETE tree?restype=share")).await;
    assert_eq!(refused(&world, restore("tree", "0123456789ABCDEF")).await, code(404, "ShareNotFound"));
    assert_eq!(refused(&world, restore("tree", "soon")).await, code(400, "InvalidHeaderValue"));

    let restored = done(&world, restore("tree", &version)).await;
    assert_eq!(restored.header("etag"), before.header("etag"));
    let after = done(&world, file("GET tree?restype=share")).await;
    assert_eq!(after.header("x-ms-lease-state"), Some("available"));
    assert_eq!(done(&world, file("GET tree/f")).await.text(), "behind");
    assert_eq!(done(&world, file(&format!("GET tree/f?sharesnapshot={id}"))).await.text(), "before");
    assert_eq!(refused(&world, restore("tree", &version)).await, code(409, "ShareAlreadyExists"));
}

async fn group(world: &World, name: &str) -> GroupId {
    let found = find(&world.app.shell, &account(), &ShareName::parse(name).expect("a name"), None).await;
    found.map(|found| found.group().clone()).expect("it is there")
}

/// A kept share goes in time, with its tree and its snapshots.
#[tokio::test]
async fn let_go_in_time() {
    let world = World::new().await;
    keep(&world, Some(2));
    create(&world, "tree").await;
    put_file(&world, "tree/f", "content").await;
    snapshot(&world, "tree").await;
    let tree = group(&world, "tree").await;
    done(&world, file("DELETE tree?restype=share").header("x-ms-delete-snapshots", "include")).await;
    let version = all(&listed(&world, "deleted").await, "Version")[0].to_string();
    let shares = key::directory_group(Service::File, &account());

    world.clock.advance_seconds(2 * DAY_SECONDS - 1);
    assert_eq!(tidy(&world, 100).await.1, 0);
    world.clock.advance_seconds(1);
    assert_eq!(refused(&world, restore("tree", &version)).await, code(404, "ShareNotFound"));
    assert_eq!(tidy(&world, 100).await.1, 1);
    let kept = [directory::KEPT, directory::TOMBSTONE, directory::SNAPSHOT].map(|family| (&shares, family));
    for (group, family) in kept.into_iter().chain([(&tree, share::NODE), (&tree, share::STATE)]) {
        assert_eq!(rows(&world, group, family).await, 0, "{family:?}");
    }
}

const PAST: [Family; 3] = [share::PAST_ENTRY, share::PAST_NODE, share::PAST_RUN];

async fn past(world: &World, tree: &GroupId) -> [usize; 3] {
    let mut found = [0; 3];
    for (at, family) in PAST.into_iter().enumerate() {
        found[at] = rows(world, tree, family).await;
    }
    found
}

/// A past state is given back when the last snapshot that sees it goes, and not before.
#[tokio::test]
async fn what_nobody_sees_is_given_back() {
    let world = World::new().await;
    create(&world, "tree").await;
    let tree = group(&world, "tree").await;
    put_file(&world, "tree/f", "first.").await;
    let first = snapshot(&world, "tree").await;
    put_range(&world, "tree/f", 0, "second").await;
    let second = snapshot(&world, "tree").await;
    done(&world, file("DELETE tree/f")).await;
    let full = past(&world, &tree).await;
    assert_eq!(full[0], 1, "one name");
    assert!(full[1] >= 2 && full[2] >= 2, "two states of the file and of its bytes: {full:?}");
    tidy(&world, 100).await;
    assert_eq!(past(&world, &tree).await, full, "all of it is seen");

    let at = |line: &str, id: &str| file(&format!("{line}sharesnapshot={id}"));
    done(&world, at("DELETE tree?restype=share&", &first)).await;
    tidy(&world, 2).await;
    assert_eq!(done(&world, at("GET tree/f?", &second)).await.text(), "second");
    assert_eq!(past(&world, &tree).await, [1, 1, 1]);
    assert_eq!(refused(&world, at("GET tree/f?", &first)).await, code(404, "ShareSnapshotNotFound"));

    done(&world, at("DELETE tree?restype=share&", &second)).await;
    assert_eq!(tidy(&world, 100).await.1, 3);
    assert_eq!(past(&world, &tree).await, [0, 0, 0]);
}

/// The content of a large file goes after the file, in steps; snapshots go on seeing it.
#[tokio::test]
async fn large_contents_are_given_back() {
    const RUNS: usize = 600;
    let world = World::new().await;
    create(&world, "tree").await;
    let tree = group(&world, "tree").await;
    let bytes = (RUNS * 1024).to_string();
    let put = file("PUT tree/f").header("x-ms-type", "file").header("x-ms-content-length", bytes);
    done(&world, put).await;
    for run in 0..RUNS - 1 {
        put_range(&world, "tree/f", run * 1024, "some bytes").await;
    }
    let id = snapshot(&world, "tree").await;
    // Not seen by the snapshot, and so not kept for it.
    put_range(&world, "tree/f", (RUNS - 1) * 1024, "some bytes").await;
    let get = file(&format!("GET tree/f?sharesnapshot={id}"));
    let before = done(&world, get.clone()).await.text();
    done(&world, file("DELETE tree/f")).await;
    assert_eq!(rows(&world, &tree, share::ORPHAN).await, 1);
    assert_eq!(done(&world, get.clone()).await.text(), before);
    snapshot(&world, "tree").await;

    tidy(&world, 100).await;
    let count = async |family| rows(&world, &tree, family).await;
    assert_eq!((count(share::ORPHAN).await, count(share::RUN).await), (0, 0));
    assert_eq!(count(share::PAST_RUN).await, RUNS - 1);
    assert_eq!(done(&world, get).await.text(), before);
    done(&world, file(&format!("DELETE tree?restype=share&sharesnapshot={id}"))).await;
    tidy(&world, 100).await;
    assert_eq!(past(&world, &tree).await, [0, 0, 0]);
}

/// A crash between the two commits of a snapshot, or of its deletion, leaves a generation that nobody names.
#[tokio::test]
async fn generations_that_were_lost() {
    let world = World::new().await;
    create(&world, "tree").await;
    let tree = group(&world, "tree").await;
    put_file(&world, "tree/f", "before").await;
    let lost = snapshot(&world, "tree").await;
    put_range(&world, "tree/f", 0, "behind").await;
    let known = snapshot(&world, "tree").await;
    done(&world, file("DELETE tree/f")).await;
    let full = past(&world, &tree).await;

    let partition = key::named_partition(Service::File, &account(), "tree");
    let view = world.engine.view(&partition).await.expect("a view");
    let found = view.scan(directory::SNAPSHOT, &key::beginning_with(&[]), 10).await.expect("a scan");
    let writes = vec![Write::Delete { family: directory::SNAPSHOT, key: found[0].0.clone() }];
    world.engine.commit(&partition, Batch { guards: Vec::new(), writes }, Durability::Synced).await.expect("a commit");
    let at = |id: &str| file(&format!("GET tree/f?sharesnapshot={id}"));
    assert_eq!(refused(&world, at(&lost)).await, code(404, "ShareSnapshotNotFound"));

    tidy(&world, 100).await;
    assert_eq!(past(&world, &tree).await, full, "the other commit may still be on its way");
    world.clock.advance_seconds(2 * 3600);
    tidy(&world, 100).await;
    assert_eq!(past(&world, &tree).await, [1, 1, 1]);
    assert_eq!(done(&world, at(&known)).await.text(), "behind");
}

const PERMISSION: &str = "O:SYG:SYD:(A;;FA;;;SY)(A;;0x1200a9;;;BU)";

fn create_permission(document: &str) -> Request {
    file("PUT tree?restype=share&comp=filepermission").body(document)
}

fn get_permission(key: &str) -> Request {
    file("GET tree?restype=share&comp=filepermission").header("x-ms-file-permission-key", key)
}

/// One meaning, one key, one record, however it is written; and read back in either form.
#[tokio::test]
async fn permissions() {
    let world = World::new().await;
    create(&world, "tree").await;
    let tree = group(&world, "tree").await;
    let made = async |document: &str| {
        let answer = done(&world, create_permission(document)).await;
        assert!(answer.body.is_empty());
        answer.header("x-ms-file-permission-key").expect("its key").to_string()
    };
    let key = made(&format!(r#"{{"permission":"{PERMISSION}"}}"#)).await;
    let spelled = "D:(A;;FA;;;S-1-5-18)(A;;0x1200a9;;;S-1-5-32-545)O:S-1-5-18G:S-1-5-18";
    assert_eq!(made(&format!(r#"{{"permission":"{spelled}","format":"SDDL"}}"#)).await, key);
    let text = done(&world, get_permission(&key)).await;
    assert_eq!(text.header("content-type"), Some("application/json"));
    assert_eq!(text.text(), format!(r#"{{"permission":"{PERMISSION}S:NO_ACCESS_CONTROL","format":"sddl"}}"#));
    let binary = done(&world, get_permission(&key).header("x-ms-file-permission-format", "binary")).await.text();
    assert_eq!(made(&binary).await, key, "{binary}");
    assert_eq!(rows(&world, &tree, share::PERMISSION).await, 1);

    // What files and directories have is known by the same keys.
    let put = file("PUT tree/d?restype=directory").header("x-ms-file-permission-key", &key);
    assert_eq!(done(&world, put).await.header("x-ms-file-permission-key"), Some(key.as_str()));
    let usual = done(&world, file("PUT tree/e?restype=directory")).await;
    done(&world, get_permission(usual.header("x-ms-file-permission-key").expect("its key"))).await;

    for (document, expected) in [
        (r#"{"permission":"O:SYG:SY"}"#, "FileInvalidPermission"),
        (r#"{"permission":"O:SYG:SYD:(A;;FA;;;SY)","format":"binary"}"#, "FileInvalidPermission"),
        (r#"{"permission":"O:SYG:SYD:(A;;FA;;;SY)","format":"xml"}"#, "InvalidInput"),
        (r#"{"permission":"O:SYG:SYD:(A;;FA;;;SY)","owner":"me"}"#, "InvalidInput"),
        (r#"{"format":"sddl"}"#, "InvalidInput"),
        ("", "InvalidInput"),
    ] {
        assert_eq!(refused(&world, create_permission(document)).await, code(400, expected), "{document}");
    }
    assert_eq!(refused(&world, get_permission("1*2")).await, code(400, "FileInvalidPermissionKey"));
    assert_eq!(refused(&world, get_permission("12")).await, code(400, "InvalidHeaderValue"));
    let unnamed = file("GET tree?restype=share&comp=filepermission");
    assert_eq!(refused(&world, unnamed).await, code(400, "MissingRequiredHeader"));
    let unknown = file("PUT tree/f?restype=directory").header("x-ms-file-permission-key", "1*2");
    assert_eq!(refused(&world, unknown).await, code(400, "FileInvalidPermissionKey"));
    done(&world, file("PUT nfs?restype=share").header("x-ms-enabled-protocols", "NFS")).await;
    let nfs = file("PUT nfs?restype=share&comp=filepermission").body(format!(r#"{{"permission":"{PERMISSION}"}}"#));
    assert_eq!(refused(&world, nfs).await, code(409, "UnsupportedShareProtocol"));
}
