//! What the state of a blob forbids, on every row; tiers, immutability policies, legal holds, expiry.

use contract::OperationId;
use contract::names::AccountName;
use contract::operations::{Effect, LeaseCheck, Operation, Resource};
use env::Clock;
use http::account::{Account, BlobSettings};
use partition::housekeeping::Round;
use testing::{AccountSas, Answer, Request, World};

use crate::examples::{built, everything, example, prepared, send, world};

fn settings(world: &World, versioning: bool) {
    let blob = BlobSettings { versioning, immutable_storage: true, ..BlobSettings::default() };
    world.app.set_accounts(vec![Account { blob, ..Account::development() }]);
}

async fn done(world: &World, request: Request) -> Answer {
    let answer = world.send(&request).await;
    assert!((200..300).contains(&answer.status), "{} {}: {}", request.method, request.path, answer.text());
    answer
}

fn tier(to: &str) -> Request {
    Request::new("PUT box/b?comp=tier").header("x-ms-access-tier", to)
}

fn hold(value: &str) -> Request {
    Request::new("PUT box/b?comp=legalhold").header("x-ms-legal-hold", value)
}

fn policy(until: &str, mode: &str) -> Request {
    let request =
        Request::new("PUT box/b?comp=immutabilityPolicies").header("x-ms-immutability-policy-until-date", until);
    if mode.is_empty() { request } else { request.header("x-ms-immutability-policy-mode", mode) }
}

const FRIDAY: &str = "Fri, 09 Jan 2026 00:00:00 GMT";
const SATURDAY: &str = "Sat, 10 Jan 2026 00:00:00 GMT";

fn put(blob: &str) -> Request {
    Request::new(&format!("PUT box/{blob}")).header("x-ms-blob-type", "BlockBlob").body("content")
}

fn on_blobs() -> impl Iterator<Item = &'static Operation> {
    // What a copy is being made to can be neither held nor marked, and what follows another blob is not written to.
    let copies = [OperationId::AbortCopyBlob, OperationId::IncrementalCopyBlob];
    built().filter(move |row| row.on == Resource::Blob && !copies.contains(&row.id))
}

/// What can be seen of blobs without reading them.
async fn listed(world: &World) -> String {
    let list = Request::new("GET box?restype=container&comp=list&include=metadata,tags,immutabilitypolicy,legalhold");
    done(world, list).await.text()
}

/// Archived: the content is out of reach, what lies beside it is not, and it can be deleted.
#[tokio::test]
async fn an_archived_blob_on_every_row() {
    for row in on_blobs() {
        let world = prepared(row).await;
        if world.send(&tier("Archive")).await.status != 200 {
            continue; // of another type
        }
        let refused = matches!(
            row.effect,
            Effect::Reads | Effect::Snapshots | Effect::Stages | Effect::Replaces | Effect::Alters
        );
        let before = listed(&world).await;
        let answer = send(&world, row, &example(row)).await;
        if refused {
            assert_eq!((answer.status, answer.code()), (409, "BlobArchived"), "{:?}", row.id);
            assert_eq!(listed(&world).await, before, "{:?} was refused and changed something", row.id);
        } else {
            let status = if row.id == OperationId::SetBlobTier { 202 } else { row.status };
            assert_eq!(answer.status, status, "{:?}: {}", row.id, answer.text());
        }
    }
}

/// Held, by a policy or legally: it stays as it is, until the policy runs out; where versions are kept another can take its place.
#[tokio::test]
async fn a_held_blob_on_every_row() {
    for row in on_blobs() {
        for (held, code) in [
            (hold("true"), "BlobImmutableDueToLegalHold"),
            (policy(FRIDAY, ""), "BlobImmutableDueToPolicy"),
            (policy(FRIDAY, "locked"), "BlobImmutableDueToPolicy"),
        ] {
            for (versioning, days) in [(false, 0), (true, 0), (false, 8)] {
                let world = prepared(row).await;
                settings(&world, versioning);
                done(&world, held.clone()).await;
                world.clock.advance_seconds(days * 24 * 3600);
                let by_policy = code.ends_with("Policy");
                let refused = match row.effect {
                    _ if by_policy && days == 8 => false,
                    Effect::Alters => true,
                    Effect::Replaces | Effect::Deletes => !versioning,
                    _ => false,
                };
                // What is locked is neither taken away nor unlocked.
                let locked = held.headers.iter().any(|(_, value)| value == "locked")
                    && matches!(
                        row.id,
                        OperationId::DeleteBlobImmutabilityPolicy | OperationId::SetBlobImmutabilityPolicy
                    );
                // By then the example's own date has passed, and so has the lease.
                let is_late = row.id == OperationId::SetBlobImmutabilityPolicy || row.lease == LeaseCheck::Acts;
                if days > 0 && is_late {
                    continue;
                }
                let before = everything(&world).await;
                let answer = send(&world, row, &example(row)).await;
                if refused || locked {
                    assert_eq!((answer.status, answer.code()), (409, code), "{:?} {versioning} {days}", row.id);
                    assert_eq!(everything(&world).await, before, "{:?} was refused and changed something", row.id);
                } else {
                    assert_eq!(answer.status, row.status, "{:?} {versioning} {days}: {}", row.id, answer.text());
                }
            }
        }
    }
}

/// One whose time has run out is not there, for anybody, and another can be made in its place.
#[tokio::test]
async fn an_expired_blob_on_every_row() {
    for row in on_blobs().filter(|row| row.id != OperationId::UndeleteBlob) {
        let world = prepared(row).await;
        let mut expire = Request::new("PUT box/b?comp=expiry")
            .header("x-ms-expiry-option", "RelativeToNow")
            .header("x-ms-expiry-time", "5000");
        if world.send(&Request::new("HEAD box/b")).await.header("x-ms-lease-state") == Some("leased") {
            expire = expire.header("x-ms-lease-id", crate::examples::LEASE_ID);
        }
        let answer = done(&world, expire).await;
        assert!(answer.header("etag").is_some() && answer.header("last-modified").is_some());
        world.clock.advance_seconds(4);
        assert_eq!(world.send(&Request::new("HEAD box/b")).await.status, 200);
        world.clock.advance_seconds(1);
        let listed = world.send(&Request::new("GET box?restype=container&comp=list")).await.text();
        assert!(!listed.contains("<Name>b</Name>"), "{listed}");
        let answer = send(&world, row, &example(row)).await;
        let creates = matches!(row.effect, Effect::Replaces | Effect::Stages) && row.id != OperationId::SetBlobMetadata;
        if creates {
            assert_eq!(answer.status, row.status, "{:?}: {}", row.id, answer.text());
        } else if row.id != OperationId::GetBlobAccountInformation {
            assert_eq!(answer.status, 404, "{:?}: {}", row.id, answer.text());
        }
    }
}

#[tokio::test]
async fn a_new_blob_does_not_expire() {
    let world = world().await;
    let expire = |option: &str, time: &str| {
        let request = Request::new("PUT box/b?comp=expiry").header("x-ms-expiry-option", option);
        if time.is_empty() { request } else { request.header("x-ms-expiry-time", time) }
    };
    let before = everything(&world).await;
    for (option, time, code) in [
        ("", "5", "MissingRequiredHeader"),
        ("RelativeToNow", "", "MissingRequiredHeader"),
        ("RelativeToNow", "soon", "InvalidHeaderValue"),
        ("RelativeToNow", "-1", "InvalidHeaderValue"),
        ("RelativeToNow", "0", "InvalidHeaderValue"),
        ("RelativeToCreation", "1000", "InvalidHeaderValue"),
        ("Absolute", "Thu, 01 Jan 2026 00:00:00 GMT", "InvalidHeaderValue"),
        ("Absolute", "1000", "InvalidHeaderValue"),
        ("NeverExpire", "1000", "InvalidHeaderValue"),
        ("Sometime", "1000", "InvalidHeaderValue"),
    ] {
        let answer = world.send(&expire(option, time)).await;
        assert_eq!((answer.status, answer.code()), (400, code), "{option} {time}");
    }
    assert_eq!(everything(&world).await, before);
    // It was made ten seconds ago.
    done(&world, expire("RelativeToCreation", "15000")).await;
    let shown = done(&world, Request::new("HEAD box/b")).await;
    assert_eq!(shown.header("x-ms-expiry-time"), Some("Fri, 02 Jan 2026 03:04:20 GMT"));
    done(&world, expire("NeverExpire", "")).await;
    world.clock.advance_seconds(60);
    assert_eq!(done(&world, Request::new("HEAD box/b")).await.header("x-ms-expiry-time"), None);
    done(&world, expire("Absolute", FRIDAY)).await;
    done(&world, put("b")).await;
    world.clock.advance_seconds(8 * 24 * 3600);
    assert_eq!(world.send(&Request::new("HEAD box/b")).await.status, 200);

    // What was expired does not come back by its blocks, nor by its tags.
    done(&world, Request::new("PUT box/c?comp=block&blockid=YQ==").body("block")).await;
    let list = |kind: &str| {
        Request::new("PUT box/c?comp=blocklist").body(format!("<BlockList><{kind}>YQ==</{kind}></BlockList>"))
    };
    done(&world, list("Uncommitted").header("x-ms-tags", "k=1")).await;
    let find = Request::new("GET ?comp=blobs").parameter("where", "k = '1'");
    assert!(world.send(&find).await.text().contains("<Name>c</Name>"));
    done(&world, soon_of("c")).await;
    world.clock.advance_seconds(1);
    assert!(!world.send(&find).await.text().contains("<Name>c</Name>"));
    let answer = world.send(&list("Committed")).await;
    assert_eq!((answer.status, answer.code()), (400, "InvalidBlockList"));
    done(&world, Request::new("PUT box/c").header("x-ms-blob-type", "AppendBlob")).await;

    // Housekeeping takes it away, and nothing that is staged in its place.
    done(&world, soon_of("b")).await;
    world.clock.advance_seconds(5);
    done(&world, Request::new("PUT box/b?comp=block&blockid=YQ==").body("block")).await;
    let account = AccountName::parse(testing::ACCOUNT).expect("a name");
    let (mut round, mut cleared) = (Round::default(), 0);
    loop {
        let step = round.step(&world.app.shell, &account, 100).await.expect("a step");
        cleared += step.cleared;
        if step.is_round_over {
            break;
        }
    }
    assert_eq!(cleared, 1);
    let staged = done(&world, Request::new("GET box/b?comp=blocklist&blocklisttype=all")).await.text();
    assert!(staged.contains("<Name>YQ==</Name>"), "{staged}");
    assert_eq!(round.step(&world.app.shell, &account, 100).await.expect("a step").cleared, 0);
}

fn soon_of(blob: &str) -> Request {
    let request = Request::new(&format!("PUT box/{blob}?comp=expiry")).header("x-ms-expiry-option", "RelativeToNow");
    request.header("x-ms-expiry-time", "1000")
}

fn shown(answer: &Answer) -> String {
    let header = |name: &str| answer.header(name).unwrap_or("-").to_string();
    let names = ["x-ms-access-tier", "x-ms-access-tier-inferred", "x-ms-archive-status", "x-ms-rehydrate-priority"];
    names.map(header).join(" ")
}

#[tokio::test]
async fn tiers() {
    let world = world().await;
    let head = Request::new("HEAD box/b");
    let first = done(&world, head.clone()).await;
    assert_eq!((shown(&first).as_str(), first.header("x-ms-access-tier-change-time")), ("Hot true - -", None));
    world.clock.advance_seconds(10);
    let answer = done(&world, tier("cOOl")).await;
    assert_eq!((answer.status, answer.header("etag")), (200, None));
    let cool = done(&world, head.clone()).await;
    assert_eq!(shown(&cool), "Cool - - -");
    assert_eq!(cool.header("x-ms-access-tier-change-time"), Some("Fri, 02 Jan 2026 03:04:25 GMT"));
    assert_eq!(
        (cool.header("etag"), cool.header("last-modified")),
        (first.header("etag"), first.header("last-modified"))
    );
    let listed = done(&world, Request::new("GET box?restype=container&comp=list")).await.text();
    let element =
        "<AccessTier>Cool</AccessTier><AccessTierChangeTime>Fri, 02 Jan 2026 03:04:25 GMT</AccessTierChangeTime>";
    assert!(listed.contains(element) && !listed.contains("AccessTierInferred"), "{listed}");

    // Another blob in the place inherits the tier, unless it brings one.
    done(&world, put("b")).await;
    assert_eq!(shown(&done(&world, head.clone()).await), "Cool - - -");
    done(&world, put("b").header("x-ms-access-tier", "Cold")).await;
    assert_eq!(shown(&done(&world, head.clone()).await), "Cold - - -");
    done(&world, put("b").header("x-ms-access-tier", "Archive")).await;
    assert_eq!(shown(&done(&world, head.clone()).await), "Archive - - -");
    let read = world.send(&Request::new("GET box/b")).await;
    assert_eq!((read.status, read.code()), (409, "BlobArchived"));

    let answer = world.send(&tier("Hot").header("x-ms-rehydrate-priority", "high")).await;
    assert_eq!(answer.status, 202);
    assert_eq!(shown(&done(&world, head.clone()).await), "Archive - rehydrate-pending-to-hot High");
    let listed = done(&world, Request::new("GET box?restype=container&comp=list")).await.text();
    assert!(listed.contains("<ArchiveStatus>rehydrate-pending-to-hot</ArchiveStatus>"), "{listed}");
    assert!(listed.contains("<RehydratePriority>High</RehydratePriority>"), "{listed}");
    let again = world.send(&tier("Cool")).await;
    assert_eq!((again.status, again.code()), (409, "BlobBeingRehydrated"));
    world.clock.advance_seconds(59);
    assert_eq!(world.send(&Request::new("GET box/b")).await.status, 409);
    world.clock.advance_seconds(1);
    assert_eq!(world.send(&Request::new("GET box/b")).await.text(), "content");
    assert_eq!(shown(&done(&world, head.clone()).await), "Hot - - -");

    // How long that takes is the account's.
    let blob = BlobSettings { rehydration_seconds: 0, ..BlobSettings::default() };
    world.app.set_accounts(vec![Account { blob, ..Account::development() }]);
    done(&world, tier("Archive")).await;
    done(&world, tier("Cool")).await;
    assert_eq!(world.send(&Request::new("GET box/b")).await.text(), "content");
}

#[tokio::test]
async fn what_is_no_tier() {
    let world = world().await;
    done(&world, Request::new("PUT box/log").header("x-ms-blob-type", "AppendBlob")).await;
    let before = everything(&world).await;
    for (request, status, code) in [
        (Request::new("PUT box/b?comp=tier"), 400, "MissingRequiredHeader"),
        (tier("Lukewarm"), 400, "InvalidHeaderValue"),
        (tier("P10"), 400, "InvalidHeaderValue"),
        (tier("Smart"), 400, "InvalidHeaderValue"),
        (tier("Cool").header("x-ms-rehydrate-priority", "Urgent"), 400, "InvalidHeaderValue"),
        (put("b").header("x-ms-access-tier", "Lukewarm"), 400, "InvalidHeaderValue"),
        (Request::new("PUT box/log?comp=tier").header("x-ms-access-tier", "Cool"), 409, "InvalidBlobType"),
        (
            Request::new("PUT box/log").header("x-ms-blob-type", "AppendBlob").header("x-ms-access-tier", "Cool"),
            400,
            "InvalidHeaderValue",
        ),
        (Request::new("PUT box/none?comp=tier").header("x-ms-access-tier", "Cool"), 404, "BlobNotFound"),
    ] {
        let answer = world.send(&request).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{request:?}");
    }
    assert_eq!(everything(&world).await, before);
    done(&world, tier("Smart").header("x-ms-version", "2026-06-06")).await;
    let head = done(&world, Request::new("HEAD box/b")).await;
    assert_eq!((head.header("x-ms-access-tier"), head.header("x-ms-smart-access-tier")), (Some("Smart"), Some("Hot")));
    // Get Blob shows the tier, too, in the newest version.
    assert_eq!(done(&world, Request::new("GET box/b")).await.header("x-ms-access-tier"), None);
    let get = done(&world, Request::new("GET box/b").header("x-ms-version", "2026-10-06")).await;
    assert_eq!(get.header("x-ms-access-tier"), Some("Smart"));
}

#[tokio::test]
async fn policies_and_holds() {
    let world = world().await;
    for request in [hold("true"), policy(FRIDAY, ""), put("b").header("x-ms-legal-hold", "true")] {
        let answer = world.send(&request).await;
        assert_eq!((answer.status, answer.code()), (409, "ImmutableStorageNotEnabled"));
    }
    settings(&world, false);
    let etag = done(&world, Request::new("HEAD box/b")).await.header("etag").map(str::to_string);
    for (request, code) in [
        (policy("Thu, 01 Jan 2026 00:00:00 GMT", ""), "InvalidHeaderValue"),
        (policy("tomorrow", ""), "InvalidHeaderValue"),
        (policy(FRIDAY, "ajar"), "InvalidHeaderValue"),
        (Request::new("PUT box/b?comp=immutabilityPolicies"), "MissingRequiredHeader"),
        (Request::new("PUT box/b?comp=legalhold"), "MissingRequiredHeader"),
        (hold("maybe"), "InvalidHeaderValue"),
        (put("b").header("x-ms-immutability-policy-mode", "locked"), "MissingRequiredHeader"),
    ] {
        let answer = world.send(&request).await;
        assert_eq!((answer.status, answer.code()), (400, code), "{request:?}");
    }
    let answer = done(&world, policy(SATURDAY, "")).await;
    let headers = |answer: &Answer| {
        let header = |name: &str| answer.header(name).unwrap_or("-").to_string();
        ["x-ms-immutability-policy-until-date", "x-ms-immutability-policy-mode", "x-ms-legal-hold"]
            .map(header)
            .join(" ")
    };
    assert_eq!((answer.status, headers(&answer)), (200, format!("{SATURDAY} unlocked -")));
    done(&world, policy(FRIDAY, "Unlocked")).await;
    done(&world, Request::new("DELETE box/b?comp=immutabilityPolicies")).await;
    done(&world, policy(FRIDAY, "Locked")).await;
    for request in [
        policy("Thu, 08 Jan 2026 00:00:00 GMT", "locked"),
        policy(SATURDAY, "unlocked"),
        Request::new("DELETE box/b?comp=immutabilityPolicies"),
    ] {
        let answer = world.send(&request).await;
        assert_eq!((answer.status, answer.code()), (409, "BlobImmutableDueToPolicy"));
    }
    done(&world, policy(SATURDAY, "locked")).await;
    assert_eq!(headers(&done(&world, hold("true")).await), "- - true");
    let head = done(&world, Request::new("HEAD box/b")).await;
    assert_eq!(headers(&head), format!("{SATURDAY} locked true"));
    assert_eq!(head.header("etag").map(str::to_string), etag);
    let listed = done(&world, Request::new("GET box?restype=container&comp=list&include=immutabilitypolicy,legalhold"))
        .await
        .text();
    let until = format!("<ImmutabilityPolicyUntilDate>{SATURDAY}</ImmutabilityPolicyUntilDate>");
    assert!(
        listed.contains(&format!(
            "{until}<ImmutabilityPolicyMode>locked</ImmutabilityPolicyMode><LegalHold>true</LegalHold>"
        )),
        "{listed}"
    );
    let listed = done(&world, Request::new("GET box?restype=container&comp=list")).await.text();
    assert!(!listed.contains("ImmutabilityPolicy") && !listed.contains("LegalHold"), "{listed}");

    // The container stays as long as there is a blob in it.
    let delete = Request::new("DELETE box?restype=container");
    let answer = world.send(&delete).await;
    assert_eq!((answer.status, answer.code()), (409, "ContainerProtectedFromDeletion"));
    let shown = done(&world, Request::new("GET box?restype=container")).await;
    assert_eq!(shown.header("x-ms-immutable-storage-with-versioning-enabled"), Some("true"));
    world.clock.advance_seconds(30 * 24 * 3600);
    let answer = world.send(&Request::new("DELETE box/b")).await;
    assert_eq!((answer.status, answer.code()), (409, "BlobImmutableDueToLegalHold"));
    done(&world, hold("false")).await;
    done(&world, Request::new("DELETE box/b")).await;
    done(&world, delete).await;
}

/// With the blob it makes, a write may bring what holds it.
#[tokio::test]
async fn held_from_the_beginning() {
    let world = world().await;
    settings(&world, true);
    let held = put("v").header("x-ms-legal-hold", "true").header("x-ms-immutability-policy-until-date", FRIDAY);
    let first = done(&world, held).await;
    let version = first.header("x-ms-version-id").expect("a version").to_string();
    // Another version may follow; the held one stays, and is neither deleted nor let go by the way.
    done(&world, put("v")).await;
    done(&world, Request::new("DELETE box/v")).await;
    let delete = Request::new("DELETE box/v").parameter("versionid", &version);
    let answer = world.send(&delete).await;
    assert_eq!((answer.status, answer.code()), (409, "BlobImmutableDueToLegalHold"));
    let mut release = Request::new("PUT box/v?comp=legalhold").header("x-ms-legal-hold", "false");
    release.query.push(("versionid".into(), version.clone()));
    done(&world, release).await;
    let answer = world.send(&delete).await;
    assert_eq!((answer.status, answer.code()), (409, "BlobImmutableDueToPolicy"));
    done(&world, Request::new("DELETE box/v?comp=immutabilityPolicies").parameter("versionid", &version)).await;
    done(&world, delete).await;
    for row in on_blobs().filter(|row| matches!(row.id, OperationId::PutBlockBlob | OperationId::PutAppendBlob)) {
        let world = prepared(row).await;
        settings(&world, false);
        let without = AccountSas { permissions: "rwdxylacuptf".into(), ..AccountSas::all(world.clock.now()) };
        let request = example(row).header("x-ms-legal-hold", "true").with_sas(without.parameters());
        let answer = world.send(&request).await;
        assert_eq!((answer.status, answer.code()), (403, "AuthorizationPermissionMismatch"), "{:?}", row.id);
    }
}

/// Reading notes the day, and writes no more than that; where it is not tracked nothing is noted or shown.
#[tokio::test]
async fn the_last_access() {
    let world = world().await;
    let (head, get) = (Request::new("HEAD box/b"), Request::new("GET box/b"));
    let seen = |answer: &Answer| answer.header("x-ms-last-access-time").map(str::to_string);
    done(&world, get.clone()).await;
    let first = done(&world, head.clone()).await;
    assert_eq!(seen(&first), None);
    let blob = BlobSettings { track_last_access: true, ..BlobSettings::default() };
    world.app.set_accounts(vec![Account { blob, ..Account::development() }]);
    assert_eq!(seen(&done(&world, head.clone()).await).as_deref(), Some("Fri, 02 Jan 2026 03:04:05 GMT"));
    done(&world, get.clone()).await;
    let noted = Some("Fri, 02 Jan 2026 03:04:15 GMT");
    for _ in 0..3 {
        world.clock.advance_seconds(3600);
        done(&world, get.clone()).await;
        let answer = done(&world, head.clone()).await;
        assert_eq!((seen(&answer).as_deref(), answer.header("etag")), (noted, first.header("etag")));
    }
    world.clock.advance_seconds(22 * 3600);
    done(&world, get.clone()).await;
    let listed = done(&world, Request::new("GET box?restype=container&comp=list")).await.text();
    assert!(listed.contains("<LastAccessTime>Sat, 03 Jan 2026 04:04:15 GMT</LastAccessTime>"), "{listed}");
}
