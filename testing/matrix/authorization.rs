//! Nobody reaches an operation without the right to: for every row every way to lack it, and that nothing changed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::Service;
use contract::operations::{Access, Operation};
use env::Clock;
use testing::{AccountSas, Request, World};

use crate::examples::{everything, example, world};

async fn refused(world: &World, row: &Operation, request: &Request, status: u16, code: &str) {
    let before = everything(world).await;
    let answer = world.send(request).await;
    assert_eq!((answer.status, answer.code()), (status, code), "{:?}: {}", row.id, answer.text());
    assert_eq!(everything(world).await, before, "{:?} was refused and changed something", row.id);
}

#[tokio::test]
async fn without_a_credential() {
    for row in Service::Blob.rows() {
        let world = world().await;
        refused(&world, row, &example(row).unsigned(), 401, "NoAuthenticationInformation").await;
        let old = example(row).unsigned().header("x-ms-version", "2018-11-09");
        refused(&world, row, &old, 404, "ResourceNotFound").await;
    }
}

#[tokio::test]
async fn with_a_wrong_credential() {
    let other_key = STANDARD.encode("another key");
    for row in Service::Blob.rows() {
        let world = world().await;
        let now = world.clock.now();
        let sas = AccountSas::all(now);
        refused(&world, row, &example(row).signed_with(&other_key), 403, "AuthenticationFailed").await;
        let forged = AccountSas { key: other_key.clone(), ..sas.clone() };
        refused(&world, row, &example(row).with_sas(&forged), 403, "AuthenticationFailed").await;
        for header in ["Basic YTpi", "SharedKey", "SharedKey devstoreaccount1", "SharedKey devstoreaccount1:***", "Unknown x:y"] {
            let request = example(row).unsigned().header("Authorization", header);
            refused(&world, row, &request, 400, "InvalidAuthenticationInfo").await;
        }
        let bearer = example(row).unsigned().header("Authorization", "Bearer eyJ.a.b");
        refused(&world, row, &bearer, 401, "InvalidAuthenticationInfo").await;
        let stranger = example(row).unsigned().header("Authorization", "SharedKey nobody:YQ==");
        refused(&world, row, &stranger, 403, "AuthenticationFailed").await;
    }
}

/// The signature covers the whole request: any change of method, path, query, header or date breaks it.
#[tokio::test]
async fn with_a_tampered_request() {
    for row in Service::Blob.rows() {
        let world = world().await;
        let now = world.clock.now();
        let signed = String::from_utf8(example(row).header("x-ms-client-request-id", "abc").bytes(now)).expect("text");
        for (from, to) in [
            ("x-ms-client-request-id: abc", "x-ms-client-request-id: abd"),
            ("x-ms-version: 2026-04-06", "x-ms-version: 2026-02-06"),
            (" /devstoreaccount1/", " /devstoreaccount1/x"),
            (" HTTP/1.1\r\n", "&timeout=1 HTTP/1.1\r\n"),
            ("x-ms-date: Fri, 02 Jan 2026 03:04:15 GMT", "x-ms-date: Fri, 02 Jan 2026 03:04:16 GMT"),
        ] {
            let to = if from.starts_with(" HTTP") && !signed.contains('?') { "?timeout=1 HTTP/1.1\r\n" } else { to };
            let tampered = signed.replacen(from, to, 1);
            assert_ne!(tampered, signed, "{from}");
            let answer = world.send_raw(tampered.as_bytes()).await;
            assert_eq!((answer.status, answer.code()), (403, "AuthenticationFailed"), "{:?} {from}", row.id);
        }
    }
}

#[tokio::test]
async fn with_a_stale_date() {
    for row in Service::Blob.rows() {
        let world = world().await;
        let now = world.clock.now();
        for date in [now.minus_seconds(901).http_date(), now.plus_seconds(901).http_date(), "yesterday".into()] {
            refused(&world, row, &example(row).header("x-ms-date", date), 403, "AuthenticationFailed").await;
        }
        let old_enough = example(row).header("x-ms-date", now.minus_seconds(899).http_date());
        assert_eq!(world.send(&old_enough).await.status, row.status);
    }
}

#[tokio::test]
async fn with_a_sas_that_does_not_reach() {
    for row in Service::Blob.rows() {
        let world = world().await;
        let now = world.clock.now();
        let all = AccountSas::all(now);
        let hour = 3600;
        let cases = [
            (AccountSas { expiry: now.iso8601(), ..all.clone() }, "AuthenticationFailed"),
            (AccountSas { expiry: "tomorrow".into(), ..all.clone() }, "AuthenticationFailed"),
            (AccountSas { start: now.plus_seconds(hour / 2).iso8601(), ..all.clone() }, "AuthenticationFailed"),
            (AccountSas { services: "qtf".into(), ..all.clone() }, "AuthorizationServiceMismatch"),
            (AccountSas { ip: "10.0.0.1".into(), ..all.clone() }, "AuthorizationSourceIPMismatch"),
            (AccountSas { ip: "127.0.0.2-127.0.0.9".into(), ..all.clone() }, "AuthorizationSourceIPMismatch"),
            (AccountSas { ip: "nowhere".into(), ..all.clone() }, "AuthenticationFailed"),
            (AccountSas { protocol: "https".into(), ..all.clone() }, "AuthorizationProtocolMismatch"),
            (AccountSas { protocol: "http".into(), ..all.clone() }, "AuthenticationFailed"),
            (AccountSas { permissions: "rw?".into(), ..all.clone() }, "AuthenticationFailed"),
            (AccountSas { permissions: String::new(), ..all.clone() }, "AuthenticationFailed"),
        ];
        for (sas, code) in cases {
            refused(&world, row, &example(row).with_sas(&sas), 403, code).await;
        }
        let needed = row.account_sas;
        let other_types: String = "sco".chars().filter(|c| *c != needed.resource_type).collect();
        let sas = AccountSas { resource_types: other_types, ..all.clone() };
        refused(&world, row, &example(row).with_sas(&sas), 403, "AuthorizationResourceTypeMismatch").await;
        let other_letters: String = all.permissions.chars().filter(|c| !needed.any_of.contains(*c)).collect();
        let sas = AccountSas { permissions: other_letters, ..all.clone() };
        refused(&world, row, &example(row).with_sas(&sas), 403, "AuthorizationPermissionMismatch").await;
    }
}

#[tokio::test]
async fn with_just_enough() {
    for row in Service::Blob.rows() {
        for letter in row.account_sas.any_of.chars() {
            let world = world().await;
            let now = world.clock.now();
            let sas = AccountSas {
                services: "b".into(),
                resource_types: row.account_sas.resource_type.into(),
                permissions: letter.into(),
                start: now.iso8601(),
                ip: "127.0.0.0-127.0.0.255".into(),
                protocol: "https,http".into(),
                ..AccountSas::all(now)
            };
            let answer = world.send(&example(row).with_sas(&sas)).await;
            // `c` creates blobs and does not overwrite them.
            if row.id == contract::OperationId::PutBlockBlob && letter == 'c' {
                assert_eq!((answer.status, answer.code()), (403, "UnauthorizedBlobOverwrite"));
                let mut fresh = example(row);
                fresh.path = fresh.path.replace("box/b", "box/fresh");
                assert_eq!(world.send(&fresh.with_sas(&sas)).await.status, row.status);
            } else {
                assert_eq!(answer.status, row.status, "{:?} {letter}: {}", row.id, answer.text());
            }
        }
    }
}

#[tokio::test]
async fn the_secondary_only_reads() {
    for row in Service::Blob.rows() {
        let world = world().await;
        let mut request = example(row);
        request.path = request.path.replacen("/devstoreaccount1/", "/devstoreaccount1-secondary/", 1);
        match row.access {
            Access::Read => assert_eq!(world.send(&request).await.status, row.status, "{:?}", row.id),
            Access::Write => refused(&world, row, &request, 403, "WriteOperationNotSupportedOnSecondary").await,
        }
    }
}
