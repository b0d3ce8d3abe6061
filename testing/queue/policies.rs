//! Service SAS of queues: each letter, alone and from a stored access policy that can be taken back.

use base64::Engine as _;
use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use testing::{ACCOUNT, KEY, Request, World};

use crate::{message, queue, send};

fn sign(permissions: &str, expiry: &str, policy: &str, name: &str) -> String {
    const VERSION: &str = "2026-04-06";
    let text = format!("{permissions}\n\n{expiry}\n/queue/{ACCOUNT}/{name}\n{policy}\n\n\n{VERSION}");
    let standard = base64::engine::general_purpose::STANDARD;
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&standard.decode(KEY).expect("Base64")).expect("any length");
    mac.update(text.as_bytes());
    standard.encode(mac.finalize().into_bytes())
}

fn with_sas(request: Request, permissions: &str, policy: &str, name: &str) -> Request {
    let expiry = if policy.is_empty() { "2026-01-03T00:00:00Z" } else { "" };
    let mut request = request.unsigned();
    let fields = [
        ("sv", "2026-04-06"),
        ("sp", permissions),
        ("se", expiry),
        ("si", policy),
        ("sig", &sign(permissions, expiry, policy, name)),
    ];
    request.query.extend(fields.iter().filter(|(_, v)| !v.is_empty()).map(|(n, v)| (n.to_string(), v.to_string())));
    request
}

/// The letters that do something, and what they do.
fn requests() -> Vec<(char, Request)> {
    vec![
        ('r', queue("GET line/messages?peekonly=true")),
        ('r', queue("GET line?comp=metadata")),
        ('a', queue("POST line/messages").body(message("x"))),
        ('p', queue("GET line/messages")),
        (
            'u',
            queue(
                "PUT line/messages/01234567-89ab-cdef-0123-456789abcdef?popreceipt=AAAAAAAAAAAAAAAAAAAAAA==&visibilitytimeout=0",
            ),
        ),
        ('p', queue("DELETE line/messages/01234567-89ab-cdef-0123-456789abcdef?popreceipt=AAAAAAAAAAAAAAAAAAAAAA==")),
        ('-', queue("DELETE line/messages")),
        ('-', queue("DELETE line")),
        ('-', queue("GET line?comp=acl")),
        ('-', queue("PUT line?comp=metadata")),
    ]
}

#[tokio::test]
async fn letters() {
    let world = World::new().await;
    send(&world, queue("PUT line"), 201).await;
    for permissions in ["r", "a", "u", "p", "raup"] {
        for (needed, request) in requests() {
            let answer = world.send(&with_sas(request.clone(), permissions, "", "line")).await;
            let allowed = permissions.contains(needed);
            assert_eq!(answer.status != 403, allowed, "{permissions} {} {}", request.method, answer.text());
            let elsewhere = world.send(&with_sas(request, permissions, "", "other")).await;
            assert_eq!((elsewhere.status, elsewhere.code()), (403, "AuthenticationFailed"));
        }
    }
}

#[tokio::test]
async fn a_stored_policy_holds_at_once_and_no_longer_than_it_is_stored() {
    let world = World::new().await;
    send(&world, queue("PUT line"), 201).await;
    let put = || with_sas(queue("POST line/messages").body(message("x")), "", "workers", "line");
    assert_eq!(world.send(&put()).await.code(), "AuthenticationFailed");
    for (permissions, expiry, status) in [("a", "2030-01-01", 201), ("p", "2030-01-01", 403), ("a", "2025-01-01", 403)]
    {
        let policy = format!(
            "<SignedIdentifiers><SignedIdentifier><Id>workers</Id><AccessPolicy><Expiry>{expiry}</Expiry>\
             <Permission>{permissions}</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>"
        );
        send(&world, queue("PUT line?comp=acl").body(policy), 204).await;
        assert_eq!(world.send(&put()).await.status, status, "{permissions} {expiry}");
    }
    send(&world, queue("PUT line?comp=acl"), 204).await;
    assert_eq!(world.send(&put()).await.status, 403);
}
