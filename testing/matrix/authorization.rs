//! Nobody reaches an operation without the right to: for every row every way to lack it, and that nothing changed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::Service;
use contract::operations::{Access, Anonymous, Letters, Operation, TokenNeeds};
use env::Clock;
use testing::{AccountSas, Request, World};

use crate::examples::{chosen, every, everything, example, prepared, send, world, world_of};

/// Permissions that do not suffice: everything but the needed letters; where all of several are needed, everything but one.
pub fn lacking(letters: Letters) -> Vec<String> {
    let without = |letters: &str| LETTERS.chars().filter(|c| !letters.contains(*c)).collect::<String>();
    match letters {
        Letters::Never | Letters::Whatever => Vec::new(),
        Letters::AnyOf(letters) => vec![without(letters)],
        Letters::AnyOfOrCreate(letters) => vec![without(&format!("c{letters}"))],
        Letters::AllOf(letters) => letters.chars().map(|letter| without(&letter.to_string())).collect(),
    }
}

/// Permissions that just suffice.
pub fn sufficient(letters: Letters) -> Vec<String> {
    match letters {
        Letters::Never => Vec::new(),
        Letters::Whatever => vec!["r".into()],
        Letters::AnyOf(letters) | Letters::AnyOfOrCreate(letters) => letters.chars().map(String::from).collect(),
        Letters::AllOf(letters) => vec![letters.into()],
    }
}

/// All letters an account SAS may have.
const LETTERS: &str = "rwdxylacuptfi";

/// The example where there is one, else a request made from the row.
pub fn request(service: Service, row: &Operation) -> Request {
    if row.built { example(row) } else { chosen(service, row) }
}

pub async fn refused(world: &World, row: &Operation, request: &Request, status: u16, code: &str) {
    let before = everything(world).await;
    let answer = world.send(request).await;
    assert_eq!((answer.status, answer.code()), (status, code), "{:?}: {}", row.id, answer.text());
    assert_eq!(everything(world).await, before, "{:?} was refused and changed something", row.id);
}

#[tokio::test]
async fn without_a_credential() {
    for (service, row) in every().filter(|(_, row)| row.anonymous != Anonymous::Always) {
        let world = world().await;
        refused(&world, row, &request(service, row).unsigned(), 401, "NoAuthenticationInformation").await;
        let old = request(service, row).unsigned().header("x-ms-version", "2018-11-09");
        refused(&world, row, &old, 404, "ResourceNotFound").await;
    }
}

#[tokio::test]
async fn with_a_wrong_credential() {
    let other_key = STANDARD.encode("another key");
    for (service, row) in every().filter(|(_, row)| row.anonymous != Anonymous::Always) {
        let world = world().await;
        let now = world.clock.now();
        let sas = AccountSas::all(now);
        refused(&world, row, &request(service, row).signed_with(&other_key), 403, "AuthenticationFailed").await;
        let forged = AccountSas { key: other_key.clone(), ..sas.clone() };
        refused(&world, row, &request(service, row).with_sas(forged.parameters()), 403, "AuthenticationFailed").await;
        for header in
            ["Basic YTpi", "SharedKey", "SharedKey devstoreaccount1", "SharedKey devstoreaccount1:***", "Unknown x:y"]
        {
            let request = request(service, row).unsigned().header("Authorization", header);
            refused(&world, row, &request, 400, "InvalidAuthenticationInfo").await;
        }
        let stranger = request(service, row).unsigned().header("Authorization", "SharedKey nobody:YQ==");
        refused(&world, row, &stranger, 403, "AuthenticationFailed").await;
    }
}

/// The signature covers the whole request, as far as its service signs it: a change of path, query, header or date breaks it.
#[tokio::test]
async fn with_a_tampered_request() {
    for (service, row) in every().filter(|(_, row)| row.anonymous != Anonymous::Always) {
        let world = world().await;
        let now = world.clock.now();
        let signed =
            String::from_utf8(request(service, row).header("x-ms-client-request-id", "abc").bytes(now)).expect("text");
        for (from, to) in [
            ("x-ms-client-request-id: abc", "x-ms-client-request-id: abd"),
            ("x-ms-version: 2026-04-06", "x-ms-version: 2026-02-06"),
            (" /devstoreaccount1", " /devstoreaccount1/x"),
            (" HTTP/1.1\r\n", "&timeout=1 HTTP/1.1\r\n"),
            ("x-ms-date: Fri, 02 Jan 2026 03:04:15 GMT", "x-ms-date: Fri, 02 Jan 2026 03:04:16 GMT"),
        ] {
            // Of a table's request the protocol signs the path and the date, and no other header or parameter.
            if service == Service::Table && !from.starts_with(" /") && !from.starts_with("x-ms-date") {
                continue;
            }
            let to = if from.starts_with(" HTTP") && !signed.contains('?') { "?timeout=1 HTTP/1.1\r\n" } else { to };
            let tampered = signed.replacen(from, to, 1);
            assert_ne!(tampered, signed, "{from}");
            let answer = world.send_raw_to(service, tampered.as_bytes()).await;
            assert_eq!((answer.status, answer.code()), (403, "AuthenticationFailed"), "{:?} {from}", row.id);
        }
    }
}

/// A blank in a query is signed as a blank, however it is written; a plus that was signed is none.
#[tokio::test]
async fn with_a_blank_as_a_plus() {
    let world = world().await;
    for blob in ["a%20b", "a%2Bb"] {
        let put = Request::new(&format!("PUT box/{blob}")).header("x-ms-blob-type", "BlockBlob");
        assert_eq!(world.send(&put).await.status, 201);
    }
    let list = |prefix: &str| {
        let request = Request::new(&format!("GET box?restype=container&comp=list&prefix={prefix}"));
        String::from_utf8(request.bytes(world.clock.now())).expect("text")
    };
    for (request, status, found) in [
        (list("a b"), 200, "<Name>a b</Name>"),
        (list("a b").replacen("a%20b", "a+b", 1), 200, "<Name>a b</Name>"),
        (list("a+b"), 200, "<Name>a+b</Name>"),
        (list("a+b").replacen("a%2Bb", "a+b", 1), 403, "AuthenticationFailed"),
    ] {
        let answer = world.send_raw_to(Service::Blob, request.as_bytes()).await;
        assert!(answer.status == status && answer.text().contains(found), "{request} {}", answer.text());
        assert_eq!(answer.text().matches("<Name>").count(), usize::from(status == 200));
    }
}

#[tokio::test]
async fn with_a_stale_date() {
    for (service, row) in every().filter(|(_, row)| row.anonymous != Anonymous::Always) {
        let world = prepared(row).await;
        let now = world.clock.now();
        for date in [now.minus_seconds(901).http_date(), now.plus_seconds(901).http_date(), "yesterday".into()] {
            refused(&world, row, &request(service, row).header("x-ms-date", date), 403, "AuthenticationFailed").await;
        }
        let old_enough = request(service, row).header("x-ms-date", now.minus_seconds(899).http_date());
        let expected = match row {
            row if row.token == TokenNeeds::Delegation => 403,
            row if row.built => row.status,
            _ => 501,
        };
        assert_eq!(world.send(&old_enough).await.status, expected, "{:?}", row.id);
    }
}

#[tokio::test]
async fn with_a_sas_that_does_not_reach() {
    for (service, row) in every().filter(|(_, row)| row.anonymous != Anonymous::Always) {
        let world = world().await;
        let now = world.clock.now();
        let all = AccountSas::all(now);
        let hour = 3600;
        let other_services: String = "bqtf".chars().filter(|c| *c != service.letter()).collect();
        let cases = [
            (AccountSas { expiry: now.iso8601(), ..all.clone() }, "AuthenticationFailed"),
            (AccountSas { expiry: "tomorrow".into(), ..all.clone() }, "AuthenticationFailed"),
            (AccountSas { start: now.plus_seconds(hour / 2).iso8601(), ..all.clone() }, "AuthenticationFailed"),
            (AccountSas { services: other_services, ..all.clone() }, "AuthorizationServiceMismatch"),
            (AccountSas { ip: "10.0.0.1".into(), ..all.clone() }, "AuthorizationSourceIPMismatch"),
            (AccountSas { ip: "127.0.0.2-127.0.0.9".into(), ..all.clone() }, "AuthorizationSourceIPMismatch"),
            (AccountSas { ip: "nowhere".into(), ..all.clone() }, "AuthenticationFailed"),
            (AccountSas { protocol: "https".into(), ..all.clone() }, "AuthorizationProtocolMismatch"),
            (AccountSas { protocol: "http".into(), ..all.clone() }, "AuthenticationFailed"),
            (AccountSas { permissions: "rw?".into(), ..all.clone() }, "AuthenticationFailed"),
            (AccountSas { permissions: String::new(), ..all.clone() }, "AuthenticationFailed"),
        ];
        for (sas, code) in cases {
            refused(&world, row, &request(service, row).with_sas(sas.parameters()), 403, code).await;
        }
        let needed = row.account_sas;
        if needed.letters == Letters::Never {
            refused(&world, row, &request(service, row).with_sas(all.parameters()), 403, "AuthorizationFailure").await;
            continue;
        }
        let other_types: String = "sco".chars().filter(|c| !needed.resource_types.contains(*c)).collect();
        if !other_types.is_empty() {
            let sas = AccountSas { resource_types: other_types, ..all.clone() };
            refused(
                &world,
                row,
                &request(service, row).with_sas(sas.parameters()),
                403,
                "AuthorizationResourceTypeMismatch",
            )
            .await;
        }
        for lacking in lacking(needed.letters) {
            let sas = AccountSas { permissions: lacking, ..all.clone() };
            refused(
                &world,
                row,
                &request(service, row).with_sas(sas.parameters()),
                403,
                "AuthorizationPermissionMismatch",
            )
            .await;
        }
    }
}

#[tokio::test]
async fn with_just_enough() {
    for (service, row) in every() {
        for permissions in sufficient(row.account_sas.letters) {
            for resource_type in row.account_sas.resource_types.chars() {
                let world = prepared(row).await;
                let now = world.clock.now();
                let sas = AccountSas {
                    services: service.letter().into(),
                    resource_types: resource_type.into(),
                    permissions: permissions.clone(),
                    start: now.iso8601(),
                    ip: "127.0.0.0-127.0.0.255".into(),
                    protocol: "https,http".into(),
                    ..AccountSas::all(now)
                };
                let answer = world.send(&request(service, row).with_sas(sas.parameters())).await;
                let expected = if row.built { row.status } else { 501 };
                assert_eq!(answer.status, expected, "{:?} {permissions}: {}", row.id, answer.text());
            }
        }
    }
}

/// `c` alone creates and does not overwrite.
#[tokio::test]
async fn with_the_right_to_create_alone() {
    let world = world().await;
    let sas = AccountSas { permissions: "c".into(), ..AccountSas::all(world.clock.now()) };
    let put = |name: &str| {
        Request::new(&format!("PUT box/{name}"))
            .header("x-ms-blob-type", "BlockBlob")
            .with_sas(sas.parameters())
            .body("x")
    };
    let over = world.send(&put("b")).await;
    assert_eq!((over.status, over.code()), (403, "UnauthorizedBlobOverwrite"));
    assert_eq!(world.send(&put("fresh")).await.status, 201);
}

#[tokio::test]
async fn the_secondary_only_reads() {
    for (service, row) in every().filter(|(_, row)| row.anonymous != Anonymous::Always) {
        let world = world_of(row).await;
        let mut request = request(service, row);
        request.path = request.path.replacen("/devstoreaccount1/", "/devstoreaccount1-secondary/", 1);
        let reads = if row.built { row.status } else { 501 };
        match row.access {
            Access::Read => assert_eq!(send(&world, row, &request).await.status, reads, "{:?}", row.id),
            Access::Write => refused(&world, row, &request, 403, "WriteOperationNotSupportedOnSecondary").await,
        }
    }
}

/// Preflight is answered to everybody, whatever credential comes with it.
#[tokio::test]
async fn preflight_needs_no_credential() {
    for (_, row) in every().filter(|(_, row)| row.anonymous == Anonymous::Always) {
        let world = world().await;
        for credential in [None, Some("SharedKey devstoreaccount1:YQ=="), Some("nonsense")] {
            let mut request = example(row).unsigned();
            if let Some(credential) = credential {
                request = request.header("Authorization", credential);
            }
            assert_eq!(world.send(&request).await.status, row.status, "{:?}", row.id);
        }
    }
}

/// Anonymous readers see what the container's level shows and nothing else, and at once when it changes.
#[tokio::test]
async fn public_containers() {
    let reads = ["GET box/b", "HEAD box/b"];
    let lists =
        ["GET box?restype=container", "GET box?restype=container&comp=list", "GET box?restype=container&comp=metadata"];
    let others = ["DELETE box/b", "GET box?restype=container&comp=acl", "GET ?comp=list"];
    let world = world().await;
    for (level, of_blob, of_container) in [("", 401, 401), ("blob", 200, 401), ("container", 200, 200), ("", 401, 401)]
    {
        let mut set = Request::new("PUT box?restype=container&comp=acl");
        if !level.is_empty() {
            set = set.header("x-ms-blob-public-access", level);
        }
        assert_eq!(world.send(&set).await.status, 200);
        for (lines, expected) in [(&reads[..], of_blob), (&lists[..], of_container), (&others[..], 401)] {
            for line in lines {
                let answer = world.send(&Request::new(line).unsigned()).await;
                assert_eq!(answer.status, expected, "{level} {line}: {}", answer.text());
            }
        }
        let missing = world.send(&Request::new("GET box/none").unsigned()).await;
        assert_eq!(missing.status, if of_blob == 200 { 404 } else { 401 }, "{level}");
    }
}
