//! Whoever nearly has a right, has it elsewhere, or had it until now: refused by every row, and nothing changes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::Service;
use contract::operations::{Anonymous, Letters, Operation};
use env::Clock;
use http::account::Account;
use testing::{AccountSas, Request, ServiceSas, World};

use crate::authorization::{lacking, refused, request, sufficient};
use crate::examples::{every, prepared, world};
use crate::tokens::{success, token};

fn rows() -> impl Iterator<Item = (Service, &'static Operation)> {
    every().filter(|(_, row)| row.anonymous != Anonymous::Always)
}

/// A signature that is wrong in one bit, too short, too long, or that of nothing.
fn spoiled(signature: &str) -> Vec<String> {
    let right = STANDARD.decode(signature).expect("Base64");
    let flipped = |at: usize, bit: u8| {
        let mut wrong = right.clone();
        wrong[at] ^= bit;
        wrong
    };
    let wrong =
        [flipped(0, 1), flipped(right.len() - 1, 0x80), right[..31].to_vec(), [&right[..], &[0]].concat(), vec![0; 32]];
    wrong.iter().map(|wrong| STANDARD.encode(wrong)).collect()
}

#[tokio::test]
async fn with_a_tampered_signature() {
    for (service, row) in rows() {
        let world = world().await;
        let now = world.clock.now();
        let signed = String::from_utf8(request(service, row).bytes(now)).expect("text");
        let signature = signed.split_once("SharedKey devstoreaccount1:").expect("signed").1;
        let signature = signature.split_once("\r\n").expect("a line").0;
        for wrong in spoiled(signature) {
            let answer = world.send_raw_to(service, signed.replacen(signature, &wrong, 1).as_bytes()).await;
            assert_eq!((answer.status, answer.code()), (403, "AuthenticationFailed"), "{:?} {wrong}", row.id);
        }
        let parameters = AccountSas::all(now).parameters();
        let (_, signature) = parameters.iter().find(|(name, _)| name == "sig").expect("signed");
        for wrong in spoiled(signature) {
            let with = |(name, value): &(String, String)| {
                (name.clone(), if name == "sig" { wrong.clone() } else { value.clone() })
            };
            let request = request(service, row).with_sas(parameters.iter().map(with).collect());
            refused(&world, row, &request, 403, "AuthenticationFailed").await;
        }
    }
}

const OTHER: &str = "other";
const OTHER_KEY: &str = "b3RoZXIga2V5IG9mIGFub3RoZXIgYWNjb3VudA==";

/// The key of another account of this server opens nothing here, under whichever name it is used.
#[tokio::test]
async fn with_another_accounts_key() {
    for (service, row) in rows() {
        let world = world().await;
        let other = Account::new(OTHER, &[OTHER_KEY]).expect("an account");
        world.app.set_accounts(vec![Account::development(), other]);
        let own = request(service, row);
        let named = Request { account: OTHER.into(), key: OTHER_KEY.into(), ..own.clone() };
        refused(&world, row, &named, 403, "AuthenticationFailed").await;
        refused(&world, row, &own.clone().signed_with(OTHER_KEY), 403, "AuthenticationFailed").await;
        let sas = AccountSas { key: OTHER_KEY.into(), ..AccountSas::all(world.clock.now()) };
        refused(&world, row, &own.clone().with_sas(sas.parameters()), 403, "AuthenticationFailed").await;
        // And the other way round: what is right here opens nothing there.
        let there = |request: Request| {
            let path = request.path.replacen("/devstoreaccount1", &format!("/{OTHER}"), 1);
            Request { path, ..request }
        };
        let sas = AccountSas::all(world.clock.now());
        for request in [there(own.clone()), there(own.with_sas(sas.parameters()))] {
            refused(&world, row, &request, 403, "AuthenticationFailed").await;
        }
    }
}

/// Sets the one policy of a container, queue, table or share; none with empty words.
async fn set_policy(world: &World, sas: &ServiceSas, policy: &str) {
    let line = match sas.service {
        Service::Blob => format!("PUT {}?restype=container&comp=acl", sas.name),
        Service::File => format!("PUT {}?restype=share&comp=acl", sas.name),
        Service::Queue | Service::Table => format!("PUT {}?comp=acl", sas.name),
    };
    let body = match policy {
        "" => "<SignedIdentifiers />".to_string(),
        policy => format!(
            "<SignedIdentifiers><SignedIdentifier><Id>policy</Id><AccessPolicy>{policy}</AccessPolicy></SignedIdentifier></SignedIdentifiers>"
        ),
    };
    let answer = world.send(&Request::new(&line).of(sas.service).body(body)).await;
    assert!(answer.status < 300, "{line}: {}", answer.text());
}

/// A token that is a stored policy's word is worth what the policy says at this moment, and nothing when it is gone.
#[tokio::test]
async fn with_a_policy_that_was_revoked() {
    for (service, row) in rows().filter(|(_, row)| row.service_sas != Letters::Never) {
        let world = prepared(row).await;
        let (own, now) = (request(service, row), world.clock.now());
        let Some(all) = token(&world, service, row, &own) else { continue };
        let sas = ServiceSas { policy: "policy".into(), permissions: String::new(), expiry: String::new(), ..all };
        let request = own.with_sas(sas.parameters());
        let until = |moment: env::Timestamp| format!("<Expiry>{}</Expiry>", moment.iso8601());
        let (late, soon) = (until(now.plus_seconds(3600)), now.plus_seconds(60).iso8601());
        let enough = sufficient(row.service_sas).swap_remove(0);
        let granting = |letters: &str| format!("<Permission>{letters}</Permission>");
        let refusals = [
            (String::new(), "AuthenticationFailed"),
            (format!("{}{}", until(now), granting(&enough)), "AuthenticationFailed"),
            (format!("<Start>{soon}</Start>{late}{}", granting(&enough)), "AuthenticationFailed"),
        ];
        for (policy, code) in refusals {
            set_policy(&world, &sas, &policy).await;
            refused(&world, row, &request, 403, code).await;
        }
        for lacking in lacking(row.service_sas) {
            let of_service: String = lacking.chars().filter(|letter| letters_of(service).contains(*letter)).collect();
            set_policy(&world, &sas, &format!("{late}{}", granting(&of_service))).await;
            refused(&world, row, &request, 403, "AuthorizationPermissionMismatch").await;
        }
        set_policy(&world, &sas, &format!("{late}{}", granting(&enough))).await;
        let answer = world.send(&request).await;
        assert_eq!(answer.status, success(row), "{:?} {enough}: {}", row.id, answer.text());
    }
}

/// What a stored policy may grant.
fn letters_of(service: Service) -> &'static str {
    match service {
        Service::Blob => "racwdl",
        Service::Queue => "raup",
        Service::Table => "raud",
        Service::File => "rcwdl",
    }
}
