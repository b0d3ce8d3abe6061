//! Service SAS, user delegation SAS and bearer tokens against every row: granted what they grant, refused the rest.

use contract::operations::{Anonymous, Letters, Operation, Resource, TokenNeeds};
use contract::roles::ROLES;
use contract::{OperationId, Service};
use env::Clock;
use serde_json::json;
use testing::{Answer, DelegationKey, Issuer, Request, ServiceSas, World};

use crate::authorization::{lacking, refused, request, sufficient};
use crate::examples::{every, everything, example, prepared, world};

fn rows() -> impl Iterator<Item = (Service, &'static Operation)> {
    every().filter(|(_, row)| row.anonymous != Anonymous::Always)
}

/// A token for the container, queue, table or share that the row's request is about; `None` where it is about the service itself.
pub fn token(world: &World, service: Service, row: &Operation, request: &Request) -> Option<ServiceSas> {
    let path = request.path.split('/').nth(2).unwrap_or_default();
    let (kind, name) = match (service, row.on) {
        (_, Resource::Account | Resource::Tables | Resource::Table | Resource::Anything) => return None,
        (Service::Blob, _) => ("c", path),
        (Service::Queue, _) => ("", path),
        (Service::Table, _) => ("", "people"),
        (Service::File, _) => ("s", path),
    };
    Some(ServiceSas::all(service, kind, name, world.clock.now()))
}

pub fn success(row: &Operation) -> u16 {
    if row.built { row.status } else { 501 }
}

#[tokio::test]
async fn service_sas() {
    for (service, row) in rows() {
        let world = world().await;
        let request = request(service, row);
        let now = world.clock.now();
        let Some(all) = token(&world, service, row, &request) else {
            let sas = ServiceSas::all(service, "c", "box", now);
            let answer = world.send(&request.clone().with_sas(sas.parameters())).await;
            assert_eq!(answer.status, 403, "{:?}", row.id);
            continue;
        };
        // The parts of a batch name their tables, not the batch.
        if row.on != Resource::TableBatch {
            let elsewhere = ServiceSas { name: format!("{}x", all.name), ..all.clone() };
            refused(&world, row, &request.clone().with_sas(elsewhere.parameters()), 403, "AuthenticationFailed").await;
        }
        for sas in [
            ServiceSas { key: "b3RoZXI=".into(), ..all.clone() },
            ServiceSas { expiry: now.iso8601(), ..all.clone() },
            ServiceSas { expiry: String::new(), ..all.clone() },
            ServiceSas { start: now.plus_seconds(60).iso8601(), ..all.clone() },
            ServiceSas { policy: "none".into(), ..all.clone() },
            ServiceSas { permissions: String::new(), ..all.clone() },
        ] {
            refused(&world, row, &request.clone().with_sas(sas.parameters()), 403, "AuthenticationFailed").await;
        }
        let elsewhere = ServiceSas { ip: "10.0.0.1".into(), ..all.clone() };
        refused(&world, row, &request.clone().with_sas(elsewhere.parameters()), 403, "AuthorizationSourceIPMismatch")
            .await;
        let secure = ServiceSas { protocol: "https".into(), ..all.clone() };
        refused(&world, row, &request.clone().with_sas(secure.parameters()), 403, "AuthorizationProtocolMismatch")
            .await;
        if row.service_sas == Letters::Never {
            refused(&world, row, &request.clone().with_sas(all.parameters()), 403, "AuthorizationFailure").await;
            continue;
        }
        for permissions in lacking(row.service_sas) {
            let sas = ServiceSas { permissions, ..all.clone() };
            refused(&world, row, &request.clone().with_sas(sas.parameters()), 403, "AuthorizationPermissionMismatch")
                .await;
        }
        for permissions in sufficient(row.service_sas) {
            let world = prepared(row).await;
            let sas = ServiceSas { permissions, ..all.clone() };
            let answer = world.send(&request.clone().with_sas(sas.parameters())).await;
            assert_eq!(answer.status, success(row), "{:?} {}: {}", row.id, sas.permissions, answer.text());
        }
    }
}

/// The request as a bearer of a token sends it.
fn bearing(service: Service, row: &Operation, token: &str) -> Request {
    let request = request(service, row).with_bearer(token);
    if service == Service::File { request.header("x-ms-file-request-intent", "backup") } else { request }
}

async fn refused_securely(world: &World, row: &Operation, request: &Request, status: u16, code: &str) -> Answer {
    let before = everything(world).await;
    let answer = world.send_secure(request).await;
    assert_eq!((answer.status, answer.code()), (status, code), "{:?}: {}", row.id, answer.text());
    assert_eq!(everything(world).await, before, "{:?} was refused and changed something", row.id);
    answer
}

#[tokio::test]
async fn bearer_tokens_that_are_not_valid() {
    let (issuer, stranger) = (Issuer::new(), Issuer::new());
    let every_role: Vec<&str> = ROLES.iter().map(|role| role.name).collect();
    for (service, row) in rows() {
        let world = world().await;
        let now = world.clock.now();
        let good = Issuer::claims(now);
        let with = |name: &str, value: serde_json::Value| {
            let mut claims = good.clone();
            claims[name] = value;
            claims
        };
        // Nobody is trusted unless it is configured.
        let valid = issuer.token(&good);
        let answer =
            refused_securely(&world, row, &bearing(service, row, &valid), 401, "InvalidAuthenticationInfo").await;
        assert!(answer.header("www-authenticate").is_some_and(|challenge| challenge.starts_with("Bearer ")));

        world.app.set_tokens(Some(issuer.tokens(&every_role)));
        let plain = bearing(service, row, &valid);
        refused(&world, row, &plain, 403, "AuthenticationFailed").await;
        for token in [
            stranger.token(&good),
            issuer.token(&with("exp", json!(1))),
            issuer.token(&with("nbf", json!(99_999_999_999u64))),
            issuer.token(&with("iss", json!("https://other/"))),
            issuer.token(&with("aud", json!("https://other/"))),
            "eyJ.a.b".to_string(),
            String::from("x"),
        ] {
            let request = bearing(service, row, &token);
            refused_securely(&world, row, &request, 401, "InvalidAuthenticationInfo").await;
        }
        let old = bearing(service, row, &valid).header("x-ms-version", "2017-07-29");
        refused_securely(&world, row, &old, 403, "AuthenticationFailed").await;
    }
}

/// Each role opens the operations it is for, and no other.
#[tokio::test]
async fn roles() {
    let issuer = Issuer::new();
    for (service, row) in rows() {
        let mut world = prepared(row).await;
        for role in ROLES {
            world.app.set_tokens(Some(issuer.tokens(&[role.name])));
            let token = issuer.token(&Issuer::claims(world.clock.now()));
            let request = bearing(service, row, &token);
            // The parts of a batch are authorized each by itself; that of the example reads.
            let reads = Service::Table.rows().iter().find(|row| row.id == OperationId::GetEntity).expect("a row");
            let inside = row.id != OperationId::SubmitTransaction || role.allows(service, reads, true);
            if role.allows(service, row, true) && inside {
                let answer = world.send_secure(&request).await;
                assert_eq!(answer.status, success(row), "{} {:?}: {}", role.name, row.id, answer.text());
                world = prepared(row).await;
            } else {
                refused_securely(&world, row, &request, 403, "AuthorizationPermissionMismatch").await;
            }
        }
    }
}

#[tokio::test]
async fn files_are_opened_by_tokens_only_with_an_intent() {
    let issuer = Issuer::new();
    for row in Service::File.rows().iter().filter(|row| row.anonymous != Anonymous::Always) {
        if row.token == TokenNeeds::Delegation {
            continue;
        }
        let world = world().await;
        world.app.set_tokens(Some(issuer.tokens(&["Storage File Data Privileged Contributor"])));
        let token = issuer.token(&Issuer::claims(world.clock.now()));
        let request = request(Service::File, row).with_bearer(&token);
        refused_securely(&world, row, &request, 400, "MissingRequiredHeader").await;
        let other = request.header("x-ms-file-request-intent", "read");
        refused_securely(&world, row, &other, 400, "InvalidHeaderValue").await;
    }
}

async fn delegation_key(world: &World, issuer: &Issuer, service: Service) -> DelegationKey {
    let row = service.rows().iter().find(|row| row.token == TokenNeeds::Delegation).expect("a row");
    let token = issuer.token(&Issuer::claims(world.clock.now()));
    let answer = world.send_secure(&example(row).with_bearer(&token)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    DelegationKey::read(&answer.text())
}

/// What the token says and what its principal may do must both allow it; what names the key cannot be changed.
#[tokio::test]
async fn user_delegation_sas() {
    let issuer = Issuer::new();
    let every_role: Vec<&str> = ROLES.iter().map(|role| role.name).collect();
    for (service, row) in rows().filter(|(service, _)| *service != Service::Table) {
        let world = prepared(row).await;
        world.app.set_tokens(Some(issuer.tokens(&every_role)));
        let key = delegation_key(&world, &issuer, service).await;
        let request = request(service, row);
        let now = world.clock.now();
        let delegated =
            |key: DelegationKey| ServiceSas { delegation: Some(key), ..ServiceSas::all(service, "c", "box", now) };
        let Some(all) = token(&world, service, row, &request) else {
            let answer = world.send(&request.clone().with_sas(delegated(key).parameters())).await;
            assert_eq!(answer.status, 403, "{:?}", row.id);
            continue;
        };
        let all = ServiceSas { delegation: Some(key.clone()), ..all };
        for other in [
            DelegationKey { object: "aaaaaaaa-0000-4000-8000-000000000009".into(), ..key.clone() },
            DelegationKey { tenant: "aaaaaaaa-0000-4000-8000-000000000009".into(), ..key.clone() },
            DelegationKey { start: "2026-01-02T02:00:00Z".into(), ..key.clone() },
            DelegationKey { expiry: "2026-01-04T03:00:00Z".into(), ..key.clone() },
            DelegationKey { version: "2020-02-10".into(), ..key.clone() },
            DelegationKey { service: "z".into(), ..key.clone() },
            DelegationKey { value: testing::KEY.into(), ..key.clone() },
        ] {
            let sas = ServiceSas { delegation: Some(other), ..all.clone() };
            refused(&world, row, &request.clone().with_sas(sas.parameters()), 403, "AuthenticationFailed").await;
        }
        for sas in [
            ServiceSas { name: format!("{}x", all.name), ..all.clone() },
            ServiceSas { expiry: now.iso8601(), ..all.clone() },
            ServiceSas { user: testing::PRINCIPAL.into(), ..all.clone() },
        ] {
            refused(&world, row, &request.clone().with_sas(sas.parameters()), 403, "AuthenticationFailed").await;
        }
        if row.service_sas == Letters::Never {
            refused(&world, row, &request.clone().with_sas(all.parameters()), 403, "AuthorizationFailure").await;
            continue;
        }
        for permissions in lacking(row.service_sas) {
            let sas = ServiceSas { permissions, ..all.clone() };
            refused(&world, row, &request.clone().with_sas(sas.parameters()), 403, "AuthorizationPermissionMismatch")
                .await;
        }
        // The principal may nothing any more.
        world.app.set_tokens(Some(issuer.tokens(&[])));
        refused(&world, row, &request.clone().with_sas(all.parameters()), 403, "AuthorizationPermissionMismatch").await;
        world.app.set_tokens(None);
        refused(&world, row, &request.clone().with_sas(all.parameters()), 403, "AuthorizationPermissionMismatch").await;

        world.app.set_tokens(Some(issuer.tokens(&every_role)));
        let may = ROLES.iter().any(|role| role.allows(service, row, true));
        let answer = world.send(&request.clone().with_sas(all.parameters())).await;
        assert_eq!(answer.status, if may { success(row) } else { 403 }, "{:?}: {}", row.id, answer.text());
    }
}

/// A token bound to a user works with that user's bearer token and with no other's; the key dies with its time and with the account's key.
#[tokio::test]
async fn user_delegation_sas_for_one_user_and_its_end() {
    let issuer = Issuer::new();
    let world = world().await;
    world.app.set_tokens(Some(issuer.tokens(&["Storage Blob Data Reader"])));
    let key = delegation_key(&world, &issuer, Service::Blob).await;
    let now = world.clock.now();
    let all = ServiceSas { delegation: Some(key), ..ServiceSas::all(Service::Blob, "b", "box/b", now) };
    let bound = ServiceSas { user: "cccccccc-0000-4000-8000-000000000003".into(), ..all.clone() };
    let get = |sas: &ServiceSas| Request::new("GET box/b").with_sas(sas.parameters());
    let as_user = |user: &str| {
        let mut claims = Issuer::claims(now);
        claims["oid"] = json!(user);
        issuer.token(&claims)
    };
    assert_eq!(world.send(&get(&all)).await.status, 200);
    let theirs = as_user("cccccccc-0000-4000-8000-000000000003");
    assert_eq!(world.send_secure(&get(&bound).with_bearer(&theirs)).await.status, 200);
    for (request, status) in [
        (get(&bound), 403),
        (get(&bound).with_bearer(&as_user("somebody")), 403),
        (get(&bound).with_bearer("no.valid.token"), 401),
    ] {
        assert_eq!(world.send_secure(&request).await.status, status);
    }

    let later = ServiceSas { expiry: "2026-02-01T00:00:00Z".into(), ..all.clone() };
    assert_eq!(world.send(&get(&later)).await.status, 200);
    world.clock.advance_seconds(24 * 3600);
    assert_eq!(world.send(&get(&later)).await.code(), "AuthenticationFailed");
}
