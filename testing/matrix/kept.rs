//! Containers that were deleted and are kept: found again, restored, let go in time. And what housekeeping gives back.

use std::net::Ipv4Addr;

use bytes::Bytes;
use contract::Service;
use contract::names::{AccountName, ContainerName};
use engine::{Family, GroupId, GroupRange, ScanStart};
use env::Clock;
use http::ServiceConnection;
use http::account::Account;
use http::wire::{self, Limits};
use partition::blob::container::find;
use partition::housekeeping::{Round, Step};
use partition::key;
use testing::{ACCOUNT, Answer, Request, World};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;

pub const DAY_SECONDS: u64 = 24 * 3600;

/// A world whose account keeps deleted containers for two days.
async fn world() -> World {
    let world = World::new().await;
    keep(&world, Some(2));
    world
}

fn keep(world: &World, container_retention_days: Option<u16>) {
    let mut account = Account::development();
    account.blob.container_retention_days = container_retention_days;
    world.app.set_accounts(vec![account]);
}

async fn done(world: &World, line: &str) -> Answer {
    let answer = world.send(&request(line)).await;
    assert!(answer.status < 300, "{line}: {} {}", answer.status, answer.text());
    answer
}

fn request(line: &str) -> Request {
    let request = Request::new(line);
    let is_blob = line.starts_with("PUT") && !line.contains('?');
    if is_blob { request.header("x-ms-blob-type", "BlockBlob").body("content") } else { request }
}

fn restore(name: &str, version: &str) -> Request {
    let request = Request::new(&format!("PUT {name}?restype=container&comp=undelete"));
    request.header("x-ms-deleted-container-name", name).header("x-ms-deleted-container-version", version)
}

/// What stands in each element of this name.
pub fn all<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    text.split(&open).skip(1).filter_map(|rest| rest.split_once(&close)).map(|(value, _)| value).collect()
}

async fn deleted(world: &World) -> String {
    done(world, "GET ?comp=list&include=deleted,metadata").await.text()
}

#[tokio::test]
async fn deleted_listed_and_restored() {
    let world = world().await;
    let create = Request::new("PUT box?restype=container").header("x-ms-meta-colour", "blue");
    assert_eq!(world.send(&create.header("x-ms-blob-public-access", "blob")).await.status, 201);
    done(&world, "PUT box/b").await;
    let before = done(&world, "GET box?restype=container").await;
    world.clock.advance_seconds(1);
    done(&world, "DELETE box?restype=container").await;
    world.clock.advance_seconds(1);

    assert_eq!(world.send(&Request::new("GET box/b")).await.code(), "ContainerNotFound");
    assert_eq!(all(&done(&world, "GET ?comp=list").await.text(), "Name"), Vec::<&str>::new());
    let listed = deleted(&world).await;
    assert_eq!((all(&listed, "Name"), all(&listed, "Deleted")), (vec!["box"], vec!["true"]));
    assert_eq!(all(&listed, "DeletedTime"), ["Fri, 02 Jan 2026 03:04:06 GMT"]);
    assert_eq!((all(&listed, "RemainingRetentionDays"), all(&listed, "colour")), (vec!["1"], vec!["blue"]));
    assert!(listed.find("<Version>") < listed.find("<Deleted>") && listed.find("<Deleted>") < listed.find("<Prop"));
    let version = all(&listed, "Version")[0].to_string();

    // The name was free at once, and while somebody has it nothing is restored.
    done(&world, "PUT box?restype=container").await;
    assert_eq!(world.send(&Request::new("GET box/b")).await.code(), "BlobNotFound");
    let taken = world.send(&restore("box", &version)).await;
    assert_eq!((taken.status, taken.code()), (409, "ContainerAlreadyExists"));
    done(&world, "DELETE box?restype=container").await;

    let unknown = world.send(&restore("box", "0123456789ABCDEF")).await;
    assert_eq!((unknown.status, unknown.code()), (409, "ContainerNotFound"));
    for (name, value) in [("name", "other"), ("version", "soon"), ("version", "")] {
        let mut bad = restore("box", &version);
        let header = format!("x-ms-deleted-container-{name}");
        bad.headers.iter_mut().filter(|(name, _)| *name == header).for_each(|(_, given)| *given = value.into());
        assert_eq!(world.send(&bad).await.status, 400, "{name} {value}");
    }

    assert_eq!(world.send(&restore("box", &version)).await.status, 201);
    let after = done(&world, "GET box?restype=container").await;
    for name in ["ETag", "Last-Modified", "x-ms-meta-colour", "x-ms-blob-public-access"] {
        assert_eq!(after.header(name), before.header(name), "{name}");
    }
    assert_eq!(done(&world, "GET box/b").await.text(), "content");
    assert_eq!(all(&deleted(&world).await, "Deleted").len(), 1, "the other one is still kept");
    let again = world.send(&restore("box", &version)).await;
    assert_eq!((again.status, again.code()), (409, "ContainerAlreadyExists"));
}

/// Whether a lease lets it go is judged as ever, and the one that comes back is free.
#[tokio::test]
async fn leases() {
    let world = world().await;
    done(&world, "PUT box?restype=container").await;
    let id = "01234567-89ab-cdef-0123-456789abcdef";
    let lease = Request::new("PUT box?restype=container&comp=lease").header("x-ms-lease-action", "acquire");
    let lease = lease.header("x-ms-lease-duration", "-1").header("x-ms-proposed-lease-id", id);
    assert_eq!(world.send(&lease).await.status, 201);
    assert_eq!(world.send(&Request::new("DELETE box?restype=container")).await.code(), "LeaseIdMissing");
    let delete = Request::new("DELETE box?restype=container").header("x-ms-lease-id", id);
    assert_eq!(world.send(&delete).await.status, 202);
    let version = all(&deleted(&world).await, "Version")[0].to_string();
    assert_eq!(world.send(&restore("box", &version)).await.status, 201);
    assert_eq!(done(&world, "GET box?restype=container").await.header("x-ms-lease-state"), Some("available"));
}

/// Pages of one: every container, and every deletion of it, once and in order.
#[tokio::test]
async fn pages() {
    let world = world().await;
    for name in ["aaa", "bbb", "ccc"] {
        for _ in 0..3 {
            done(&world, &format!("PUT {name}?restype=container")).await;
            done(&world, &format!("DELETE {name}?restype=container")).await;
            world.clock.advance_seconds(1);
        }
    }
    for name in ["aaa", "abc", "ccc", "ddd"] {
        done(&world, &format!("PUT {name}?restype=container")).await;
    }
    let whole = deleted(&world).await;
    let names = ["aaa", "aaa", "aaa", "aaa", "abc", "bbb", "bbb", "bbb", "ccc", "ccc", "ccc", "ccc", "ddd"];
    assert_eq!(all(&whole, "Name"), names);
    for size in [1, 2, 3, 5, 13] {
        let (mut seen, mut marker) = (Vec::new(), String::new());
        loop {
            let line = format!("GET ?comp=list&include=deleted&maxresults={size}&marker={marker}");
            let page = done(&world, &line).await.text();
            let one =
                |part: &str| (all(part, "Name")[0].to_string(), all(part, "Version").first().map(|v| v.to_string()));
            seen.extend(page.split("</Container>").filter(|part| part.contains("<Name>")).map(one));
            marker = all(&page, "NextMarker").first().unwrap_or(&"").to_string();
            if marker.is_empty() {
                break;
            }
        }
        let versions: std::collections::BTreeSet<_> = seen.iter().collect();
        assert_eq!(seen.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), names, "{size}");
        assert_eq!(versions.len(), 13, "{size}");
    }
    assert_eq!(world.send(&Request::new("GET ?comp=list&include=deleted&marker=aaa!x")).await.status, 400);
    assert_eq!(all(&done(&world, "GET ?comp=list&maxresults=1").await.text(), "NextMarker"), ["abc"]);
}

/// A put that was let in before `meanwhile` happened, and whose body comes after it.
async fn late_put(world: &World, meanwhile: impl Future<Output = ()>) -> Answer {
    let (mut client, mut server) = tokio::io::duplex(64 * 1024);
    let connection = ServiceConnection::new(Service::Blob, world.app.clone(), Ipv4Addr::LOCALHOST.into(), false);
    let (_drain, draining) = watch::channel(false);
    let limits = Limits::default();
    let serving = async {
        let _ = wire::serve(&mut server, &connection, &limits, draining).await; // the client hangs up
        drop(server);
    };
    let bytes = request("PUT box/late").header("Expect", "100-continue").bytes(world.clock.now());
    let (head, body) = bytes.split_at(bytes.len() - "content".len());
    let asking = async {
        client.write_all(head).await.expect("a pipe");
        let mut go_on = [0; "HTTP/1.1 100 Continue\r\n\r\n".len()];
        client.read_exact(&mut go_on).await.expect("let in");
        meanwhile.await;
        client.write_all(body).await.expect("a pipe");
        client.shutdown().await.expect("a pipe");
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.expect("a pipe");
        Answer::parse(answer)
    };
    tokio::join!(serving, asking).1
}

/// A write that overlaps the deletion counts as having come before it: it is there when the container is restored. One that outlives
/// the container is refused.
#[tokio::test]
async fn late_writers() {
    let world = world().await;
    done(&world, "PUT box?restype=container").await;
    let put = late_put(&world, async {
        done(&world, "DELETE box?restype=container").await;
        done(&world, "PUT box?restype=container").await;
    });
    assert_eq!(put.await.status, 201);
    assert_eq!(world.send(&Request::new("GET box/late")).await.code(), "BlobNotFound", "the new one is another");
    done(&world, "DELETE box?restype=container").await;
    let version = all(&deleted(&world).await, "Version")[0].to_string();
    assert_eq!(world.send(&restore("box", &version)).await.status, 201);
    assert_eq!(done(&world, "GET box/late").await.text(), "content");

    done(&world, "DELETE box/late").await;
    let put = late_put(&world, async {
        done(&world, "DELETE box?restype=container").await;
        world.clock.advance_seconds(2 * DAY_SECONDS);
        tidy(&world, 100).await;
    });
    let put = put.await;
    assert_eq!((put.status, put.code()), (404, "ContainerNotFound"));
    keep(&world, None);
    done(&world, "PUT box?restype=container").await;
    let put = late_put(&world, async { drop(done(&world, "DELETE box?restype=container").await) }).await;
    assert_eq!((put.status, put.code()), (404, "ContainerNotFound"));
}

/// What the service made for itself is listed on demand; what it made for the owner is listed.
#[tokio::test]
async fn system_containers() {
    let world = World::new().await;
    for name in ["$logs", "$web", "$root", "box"] {
        done(&world, &format!("PUT {name}?restype=container")).await;
    }
    assert_eq!(all(&done(&world, "GET ?comp=list").await.text(), "Name"), ["$root", "$web", "box"]);
    let all_of_them = done(&world, "GET ?comp=list&include=system").await.text();
    assert_eq!(all(&all_of_them, "Name"), ["$logs", "$root", "$web", "box"]);
}

pub fn account() -> AccountName {
    AccountName::parse(ACCOUNT).expect("a name")
}

/// Steps of so many rows until the round is over: how many steps, and how much was cleared.
pub async fn tidy(world: &World, rows_max: usize) -> (usize, usize) {
    let (mut round, mut steps, mut cleared) = (Round::default(), 0, 0);
    loop {
        let Step { cleared: now, is_round_over } =
            round.step(&world.app.shell, &account(), rows_max).await.expect("a step");
        (steps, cleared) = (steps + 1, cleared + now);
        if is_round_over {
            return (steps, cleared);
        }
    }
}

pub async fn rows(world: &World, group: &GroupId, family: Family) -> usize {
    let start = ScanStart::AtPartition(Bytes::new());
    let range = GroupRange { group: group.clone(), family, start, before_partition: None };
    world.engine.scan(&range, 10_000).await.expect("a scan").rows.len()
}

#[tokio::test]
async fn let_go_in_time() {
    let world = world().await;
    done(&world, "PUT box?restype=container").await;
    done(&world, "PUT box/b").await;
    let group = find(&world.app.shell, &account(), &ContainerName::parse("box").expect("a name")).await;
    let group = group.map(|found| found.group).expect("it is there");
    done(&world, "DELETE box?restype=container").await;
    let version = all(&deleted(&world).await, "Version")[0].to_string();
    let directory = key::directory_group(Service::Blob, &account());

    world.clock.advance_seconds(2 * DAY_SECONDS - 1);
    // What was deleted under one setting is kept as it was promised, whatever the setting is later.
    keep(&world, None);
    assert_eq!(tidy(&world, 100).await.1, 0);
    assert_eq!(all(&deleted(&world).await, "RemainingRetentionDays"), ["0"]);
    assert_eq!(rows(&world, &group, key::container::HEAD).await, 1);

    world.clock.advance_seconds(1);
    assert_eq!(all(&deleted(&world).await, "Name"), Vec::<&str>::new());
    assert_eq!(world.send(&restore("box", &version)).await.code(), "ContainerNotFound");
    assert_eq!(tidy(&world, 100).await.1, 1);
    for (group, family) in
        [(&group, key::container::HEAD), (&directory, key::directory::KEPT), (&directory, key::directory::TOMBSTONE)]
    {
        assert_eq!(rows(&world, group, family).await, 0);
    }
    assert_eq!(tidy(&world, 100).await.1, 0);

    // And without the setting nothing is kept.
    done(&world, "PUT box?restype=container").await;
    done(&world, "DELETE box?restype=container").await;
    assert_eq!(all(&deleted(&world).await, "Name"), Vec::<&str>::new());
}

/// Blocks that nobody commits are given back after their week, in steps that stay small.
#[tokio::test]
async fn staged_blocks_are_given_back() {
    let world = World::new().await;
    let stage = |container: usize, blob: usize, block: usize| {
        Request::new(&format!("PUT box{container}/b{blob}?comp=block&blockid=YWE{block}")).body("block")
    };
    for container in 0..3 {
        done(&world, &format!("PUT box{container}?restype=container")).await;
        for blob in 0..20 {
            for block in 0..3 {
                assert_eq!(world.send(&stage(container, blob, block)).await.status, 201);
            }
        }
    }
    let mut groups = Vec::new();
    for container in 0..3 {
        let name = ContainerName::parse(&format!("box{container}")).expect("a name");
        groups.push(find(&world.app.shell, &account(), &name).await.map(|found| found.group).expect("it is there"));
    }
    let staged = async |world: &World| {
        let mut found = (0, 0);
        for group in &groups {
            found.0 += rows(world, group, key::container::STAGING).await;
            found.1 += rows(world, group, key::container::STAGED).await;
        }
        found
    };
    world.clock.advance_seconds(3 * DAY_SECONDS);
    assert_eq!(world.send(&stage(1, 7, 9)).await.status, 201);
    done(&world, "PUT box2/b3").await;
    world.clock.advance_seconds(4 * DAY_SECONDS - 1);
    assert_eq!(tidy(&world, 1000).await, (1, 0));
    assert_eq!(staged(&world).await, (59, 178));

    world.clock.advance_seconds(1);
    let (steps, cleared) = tidy(&world, 7).await;
    assert!(steps > 7, "{steps} steps of seven rows");
    assert_eq!(cleared, 58);
    assert_eq!(staged(&world).await, (1, 4));
    done(&world, "GET box1/b7?comp=blocklist&blocklisttype=uncommitted").await;
    assert_eq!(done(&world, "GET box2/b3").await.text(), "content");
}
