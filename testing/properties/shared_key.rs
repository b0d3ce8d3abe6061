//! SharedKey and SharedKeyLite.

use contract::Service;
use env::{Clock, Timestamp};
use testing::ACCOUNT;
use testing::raw::{Form, Order, Raw};
use testing::sim::chance::Chance;

use crate::{Watched, any, chance, others, times};

#[tokio::test]
async fn what_a_client_signs_verifies() {
    let mut chance = chance("what_a_client_signs_verifies");
    let watched = Watched::new().await;
    for _ in 0..times(5000) {
        let raw = any::request(&mut chance, watched.world.clock.now());
        let answer = watched.world.send_raw_to(raw.service, &raw.bytes()).await;
        assert!(
            answer.is_let_in(),
            "{:?} {:?}\n{}\n--- signed\n{}\n--- answer\n{}",
            raw.service,
            raw.order,
            String::from_utf8_lossy(&raw.bytes()),
            raw.string_to_sign(),
            String::from_utf8_lossy(&answer.raw)
        );
        assert!(answer.status < 500 || [501, 503].contains(&answer.status), "{raw:?}: {}", answer.text());
    }
}

/// Requests that succeed, so that one that is let in is carried out.
fn useful(chance: &mut Chance, now: Timestamp) -> Raw {
    let (method, path, query, ours) = *chance.pick(&[
        ("PUT", "box/new", "timeout=30", "x-ms-blob-type: BlockBlob|x-ms-meta-a: 1|X-Ms-Meta-b: 2"),
        ("DELETE", "box/b", "", "x-ms-client-request-id: me"),
        ("GET", "box", "restype=container&comp=list&prefix=b&delimiter=%2f&include=metadata%2Cmetadata", ""),
        ("HEAD", "box/b", "", "x-ms-range: bytes=0-1"),
        ("PUT", "box", "comp=metadata&restype=container", "x-ms-meta-_a: 1|x-ms-meta-a1: "),
    ]);
    let split = |line: &str| line.split_once(':').map(|(name, value)| (name.to_string(), value.to_string()));
    let mut headers: Vec<(String, String)> = ours.split('|').filter_map(split).collect();
    headers.push(("x-ms-version".into(), format!(" {}", chance.pick(&["2026-04-06", "2016-05-31", "2014-02-14"]))));
    headers.push((chance.pick(&["x-ms-date", "Date"]).to_string(), format!(" {}", now.http_date())));
    if method == "PUT" {
        headers.push(("Content-Type".into(), " text/plain".into()));
        headers.push(("Content-Length".into(), if path == "box" { " 0" } else { " 7" }.into()));
    }
    headers.push(("Host".into(), " localhost".into()));
    Raw {
        service: Service::Blob,
        form: if chance.permille(300) { Form::SharedKeyLite } else { Form::SharedKey },
        order: Order::Weights,
        method: method.into(),
        target: format!("/{ACCOUNT}/{path}{}{query}", if query.is_empty() { "" } else { "?" }),
        signed_path: None,
        authorization_at: chance.index(headers.len() + 1),
        headers,
        body: if method == "PUT" && path != "box" { b"content".to_vec() } else { Vec::new() },
    }
}

/// Every byte of the head in turn, but for what leaves the signed part as it is (`Raw::meaning` says what that is, and why).
#[tokio::test]
async fn no_byte_of_what_is_signed_can_be_changed() {
    let mut chance = chance("no_byte_of_what_is_signed_can_be_changed");
    let mut tried = 0;
    for round in 0..times(60) {
        let watched = Watched::new().await;
        let now = watched.world.clock.now();
        let raw = if round % 2 == 0 { useful(&mut chance, now) } else { any::request(&mut chance, now) };
        let original = raw.bytes();
        let meaning = Raw::meaning(raw.service, &original).expect("a request");
        for at in 0..original.len() - raw.body.len() {
            for other in others(&mut chance, original[at], 2) {
                let mut changed = original.clone();
                changed[at] = other;
                if Raw::meaning(raw.service, &changed).as_ref() == Some(&meaning) {
                    continue;
                }
                tried += 1;
                watched.refuses(raw.service, false, &original, &changed).await;
            }
        }
        let answer = watched.world.send_raw_to(raw.service, &original).await;
        if round % 2 == 0 {
            assert!((200..300).contains(&answer.status), "{}\n{}", String::from_utf8_lossy(&original), answer.text());
        } else {
            assert!(answer.is_let_in(), "{raw:?}: {}", answer.text());
        }
    }
    assert!(tried > times(60) * 400, "most bytes of a request are signed, and only {tried} were changed");
}

/// Different requests with one string to sign, made by hand.
#[tokio::test]
async fn no_request_can_be_read_as_another() {
    let watched = Watched::new().await;
    let date = watched.world.clock.now().http_date();
    for (host, signed, sent) in [
        // A parameter inside another one's value, and inside another one's name.
        (
            "localhost",
            "GET /devstoreaccount1/box?comp=list&delimiter=x&prefix=b&restype=container",
            "GET /devstoreaccount1/box?comp=list&delimiter=x%0Aprefix:b&restype=container",
        ),
        ("localhost", "GET /devstoreaccount1/box/b?a=1:2", "GET /devstoreaccount1/box/b?a%3A1=2"),
        // In the host's style a container may be called like the secondary address of the account.
        ("devstoreaccount1.blob.localhost", "GET /devstoreaccount1-x/b", "GET /devstoreaccount1-secondary-x/b"),
        ("devstoreaccount1.blob.localhost", "GET /devstoreaccount1/b", "GET /devstoreaccount1-secondary/b"),
    ] {
        let raw = |line: &str| {
            let (method, target) = line.split_once(' ').expect("a line");
            let headers = [("Host", host), ("x-ms-version", "2026-04-06"), ("x-ms-date", &date)];
            Raw {
                service: Service::Blob,
                form: Form::SharedKey,
                order: Order::Weights,
                method: method.into(),
                target: target.into(),
                signed_path: None,
                headers: headers.map(|(name, value)| (name.to_string(), value.to_string())).to_vec(),
                authorization_at: 0,
                body: Vec::new(),
            }
        };
        let (signed, sent) = (raw(signed), raw(sent));
        let authorization = Raw::parse(Service::Blob, &signed.bytes()).and_then(|(_, value)| value).expect("signed");
        assert!(watched.world.send_raw(&signed.bytes()).await.is_let_in(), "{signed:?}");
        watched.refuses(Service::Blob, false, &signed.bytes(), &sent.bytes_with(&authorization)).await;
    }
}
