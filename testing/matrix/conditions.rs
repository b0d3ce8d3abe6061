//! Success, ETags, conditional headers and lease ids, as the rows say (promises B1 to B5, B8, B9 as far as they are built).

use contract::OperationId;
use contract::operations::{Access, Conditions, LeaseCheck, Operation, Resource, ReturnsEtag};
use env::Timestamp;
use testing::Request;

use crate::examples::{LEASE_ID, built, current, everything, example, lease, prepared, send, world, world_of};

fn is_of_entities(row: &Operation) -> bool {
    matches!(row.on, Resource::Entity | Resource::Entities)
}

#[tokio::test]
async fn every_operation_succeeds_with_its_status_and_etag() {
    for row in built() {
        for method in row.methods {
            let world = prepared(row).await;
            let mut request = example(row);
            request.method = method.name().into();
            let answer = send(&world, row, &request).await;
            assert_eq!(answer.status, row.status, "{:?} {}", row.id, answer.text());
            assert_eq!(answer.header("etag").is_some(), row.etag != ReturnsEtag::No, "{:?}", row.id);
            let is_dated = row.etag != ReturnsEtag::No && !is_of_entities(row);
            assert_eq!(answer.header("last-modified").is_some(), is_dated, "{:?}", row.id);
            for header in ["x-ms-request-id", "x-ms-version", "date", "server"] {
                assert!(answer.header(header).is_some(), "{:?} lacks {header}", row.id);
            }
            assert!(method.name() != "HEAD" || answer.body.is_empty());
        }
    }
}

/// A seal is no part of the content, as a lease is none; a snapshot is of what is there and leaves it.
const KEEP_THE_ETAG: [OperationId; 3] =
    [OperationId::SealAppendBlob, OperationId::SnapshotBlob, OperationId::SnapshotShare];

/// A write makes a new ETag; a read makes none (E4).
#[tokio::test]
async fn etags_change_with_writes_alone() {
    for row in built() {
        let world = prepared(row).await;
        let before = current(&world, row).await;
        let answer = send(&world, row, &example(row)).await;
        let shown = answer.header("etag").map(str::to_string);
        match (row.access, shown) {
            (_, Some(shown)) if row.lease == LeaseCheck::Acts || KEEP_THE_ETAG.contains(&row.id) => {
                assert_eq!(shown, before.0, "{:?}", row.id)
            }
            (Access::Read, Some(shown)) => assert_eq!(shown, before.0, "{:?}", row.id),
            (Access::Write, Some(shown)) => assert!(shown > before.0, "{:?}: {shown} {}", row.id, before.0),
            (_, None) => assert_eq!(row.etag, ReturnsEtag::No, "{:?}", row.id),
        }
        if row.access == Access::Read {
            assert_eq!(current(&world, row).await, before, "{:?}", row.id);
        }
    }
}

/// Headers, then what a read and a write answer.
type Case<'a> = (&'a [(&'a str, &'a str)], u16, u16);

#[tokio::test]
async fn conditions_are_judged_as_the_row_says() {
    // What is asked of entities is in `tables.rs`: there the header chooses the operation.
    for row in built().filter(|row| !is_of_entities(row)) {
        let world = prepared(row).await;
        let (etag, modified) = current(&world, row).await;
        let earlier = Timestamp::parse_http_date(&modified).expect("a date").minus_seconds(1).http_date();
        let stale = "\"0x1234\"".to_string();
        let ok = row.status;
        let table: [Case<'_>; 15] = [
            (&[("If-Match", &etag)], ok, ok),
            (&[("If-Match", "*")], ok, ok),
            (&[("If-Match", &stale)], 412, 412),
            (&[("If-None-Match", &stale)], ok, ok),
            (&[("If-None-Match", &etag)], 304, 412),
            (&[("If-Modified-Since", &earlier)], ok, ok),
            (&[("If-Modified-Since", &modified)], 304, 412),
            (&[("If-Unmodified-Since", &modified)], ok, ok),
            (&[("If-Unmodified-Since", &earlier)], 412, 412),
            (&[("If-Match", &etag), ("If-Unmodified-Since", &modified)], ok, ok),
            (&[("If-Match", &stale), ("If-Unmodified-Since", &modified)], 412, 412),
            (&[("If-None-Match", &etag), ("If-Modified-Since", &modified)], 304, 412),
            (&[("If-Match", &etag), ("If-None-Match", &stale)], ok, 400),
            (&[("If-Modified-Since", "yesterday")], ok, 400),
            (&[("If-Match", "")], 400, 400),
        ];
        for (headers, on_read, on_write) in table {
            // Each from a fresh world: an operation that succeeds changes it.
            let world = prepared(row).await;
            let before = everything(&world).await;
            let mut request = example(row);
            for (name, value) in headers {
                request = request.header(name, *value);
            }
            let answer = send(&world, row, &request).await;
            let expected = match row.conditions {
                Conditions::OnRead => on_read,
                Conditions::OnWrite | Conditions::OnCreate => on_write,
                Conditions::Never | Conditions::OnTags | Conditions::OnTagsOrBlob
                    if row.access == Access::Read
                        && headers.iter().all(|(_, v)| *v != "yesterday" && !v.is_empty()) =>
                {
                    ok
                }
                // What nobody judges may be nonsense on a read, and is refused on a write.
                Conditions::Never | Conditions::OnTags | Conditions::OnTagsOrBlob if row.access == Access::Read => {
                    continue;
                }
                Conditions::Never | Conditions::OnTags | Conditions::OnTagsOrBlob
                    if headers.iter().all(|(_, v)| v.is_empty()) =>
                {
                    continue;
                }
                Conditions::Never | Conditions::OnTags | Conditions::OnTagsOrBlob | Conditions::IfMatchRequired => 400,
            };
            assert_eq!(answer.status, expected, "{:?} {headers:?} {}", row.id, answer.text());
            if expected >= 300 {
                assert_eq!(everything(&world).await, before, "{:?} was refused and changed something", row.id);
                // Copy Blob tells its two ends apart.
                let by_etag = headers.iter().any(|(name, _)| *name == "If-Match");
                let of_target =
                    row.id == OperationId::CopyBlob || row.id == OperationId::IncrementalCopyBlob && by_etag;
                let not_met = if of_target { "TargetConditionNotMet" } else { "ConditionNotMet" };
                let code = if matches!(expected, 304 | 412) { not_met } else { answer.code() };
                assert_eq!(answer.code(), code);
                assert!(expected != 304 || answer.body.is_empty());
            }
        }
    }
}

#[tokio::test]
async fn create_once() {
    let world = world().await;
    let once = |name: &str| {
        Request::new(&format!("PUT box/{name}"))
            .header("x-ms-blob-type", "BlockBlob")
            .header("If-None-Match", "*")
            .body("once")
    };
    assert_eq!(world.send(&once("fresh")).await.status, 201);
    let again = world.send(&once("fresh")).await;
    assert_eq!((again.status, again.code()), (409, "BlobAlreadyExists"));
    let read = world.send(&Request::new("GET box/b").header("If-None-Match", "*")).await;
    assert_eq!((read.status, read.code()), (400, "UnsatisfiableCondition"));
}

/// An id that names no lease, on what is not leased; operations without leases do not look.
#[tokio::test]
async fn lease_ids_are_checked_where_the_row_says() {
    for row in built().filter(|row| row.id != OperationId::AbortCopyBlob) {
        let world = world_of(row).await;
        let answer = send(&world, row, &example(row).header("x-ms-lease-id", LEASE_ID)).await;
        match row.lease {
            LeaseCheck::Ignored => assert_eq!(answer.status, row.status, "{:?}", row.id),
            LeaseCheck::Acts => {}
            LeaseCheck::IfGiven | LeaseCheck::IfLeased => {
                assert_eq!(answer.status, 412, "{:?}", row.id);
                assert!(answer.code().starts_with("LeaseNotPresentWith"), "{:?}", row.id);
            }
        }
    }
}

/// On what is leased: the right id, a wrong one, none; and the right one after the lease has ended (B6 to B8).
#[tokio::test]
async fn leases_hold_where_the_row_says() {
    let other = LEASE_ID.replace('0', "1");
    // Copy Blob wants a lease without end, and what a copy is made to cannot be leased: `copies.rs`, `outside.rs`. A link is made where
    // nothing is, so there is nothing leased.
    use OperationId::{AbortCopyBlob, AbortCopyFile, CopyBlob, CreateHardLink, CreateSymbolicLink};
    let apart = [CopyBlob, AbortCopyBlob, AbortCopyFile, CreateSymbolicLink, CreateHardLink];
    let leased = |row: &&Operation| matches!(row.lease, LeaseCheck::IfGiven | LeaseCheck::IfLeased);
    for row in built().filter(leased).filter(|row| !apart.contains(&row.id)) {
        let needed = row.lease == LeaseCheck::IfLeased;
        for (id, seconds_later, status, code) in [
            (Some(LEASE_ID), 0, row.status, ""),
            (Some(LEASE_ID), 59, row.status, ""),
            (Some(other.as_str()), 0, 412, "LeaseIdMismatchWith"),
            (None, 0, if needed { 412 } else { row.status }, if needed { "LeaseIdMissing" } else { "" }),
            (Some(LEASE_ID), 60, 412, "LeaseLost"),
            (None, 60, row.status, ""),
        ] {
            // A lease of a file does not end.
            if row.on == Resource::File && seconds_later == 60 {
                continue;
            }
            let world = world_of(row).await;
            lease(&world, row).await;
            world.clock.advance_seconds(seconds_later);
            let before = everything(&world).await;
            let request = id.into_iter().fold(example(row), |request, id| request.header("x-ms-lease-id", id));
            let answer = send(&world, row, &request).await;
            assert_eq!(answer.status, status, "{:?} {id:?} after {seconds_later} s: {}", row.id, answer.text());
            assert!(answer.code().starts_with(code), "{:?} {id:?}: {}", row.id, answer.code());
            if status == 412 {
                assert_eq!(everything(&world).await, before, "{:?} was refused and changed something", row.id);
            }
        }
    }
}

/// Left aside by reads; a write is not done without its condition.
#[tokio::test]
async fn dates_that_are_none() {
    let world = world().await;
    let put = Request::new("PUT box/b").header("x-ms-blob-type", "BlockBlob");
    assert_eq!(world.send(&put.clone().body("content")).await.status, 201);
    for name in ["If-Modified-Since", "If-Unmodified-Since"] {
        for text in ["null", "soon", "2026-01-02T03:04:05Z", "0"] {
            for method in ["GET", "HEAD"] {
                let read = world.send(&Request::new(&format!("{method} box/b")).header(name, text)).await;
                assert_eq!(read.status, 200, "{method} with {name}: {text}");
            }
            let written = world.send(&put.clone().header(name, text)).await;
            assert_eq!((written.status, written.code()), (400, "InvalidHeaderValue"), "{name}: {text}");
        }
    }
    assert_eq!(world.send(&Request::new("GET box/b")).await.text(), "content");
}
