//! Batches of blobs: each part on its own, the batch as a whole right or wrong.

use env::Clock;
use testing::{AccountSas, Answer, Request, World};

use crate::examples::world;

/// A batch of these requests, each as it would come alone.
fn batch(world: &World, line: &str, parts: &[Request]) -> Request {
    let mut body = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let head = format!("--b\r\nContent-Type: application/http\r\nContent-ID: {at}\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(&part.bytes(world.clock.now()));
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--b--\r\n");
    Request::new(line).header("Content-Type", "multipart/mixed; boundary=b").body(body)
}

const ACCOUNT: &str = "POST ?comp=batch";
const CONTAINER: &str = "POST box?restype=container&comp=batch";

/// Content-ID, status and code of each part.
fn parts(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 202, "{}", answer.text());
    let boundary = answer.header("content-type").and_then(|text| text.split_once("boundary=")).expect("a boundary").1;
    let text = answer.text();
    let sections: Vec<&str> = text.split(&format!("--{boundary}")).collect();
    assert_eq!((sections.first(), sections.last()), (Some(&""), Some(&"--\r\n")), "{text}");
    let one = |section: &&str| {
        let value = |name: &str| section.split(name).nth(1).and_then(|rest| rest.split("\r\n").next());
        let status = value("HTTP/1.1 ").and_then(|line| line.split(' ').next()).unwrap_or_default();
        assert!(value("x-ms-request-id: ").is_some(), "{section}");
        format!("{} {status} {}", value("Content-ID: ").unwrap_or("-"), value("x-ms-error-code: ").unwrap_or("-"))
    };
    sections[1..sections.len() - 1].iter().map(one).collect()
}

async fn put(world: &World, name: &str) {
    let put = Request::new(&format!("PUT box/{name}")).header("x-ms-blob-type", "BlockBlob").body("content");
    assert_eq!(world.send(&put).await.status, 201);
}

fn delete(name: &str) -> Request {
    Request::new(&format!("DELETE {name}"))
}

#[tokio::test]
async fn each_part_on_its_own() {
    for line in [ACCOUNT, CONTAINER, "POST ?restype=container&comp=batch"] {
        let world = world().await;
        for name in ["a", "c", "d", "e"] {
            put(&world, name).await;
        }
        let now = world.clock.now();
        let may_read = AccountSas { permissions: "r".into(), ..AccountSas::all(now) };
        let may_delete = AccountSas { permissions: "d".into(), ..AccountSas::all(now) };
        let asked = [
            delete("box/a"),
            delete("box/none"),
            delete("box/b").header("If-Match", "\"0x1\""),
            delete("box/c").with_sas(may_read.parameters()),
            delete("box/c").unsigned(),
            delete("box/c").signed_with("YW5vdGhlciBrZXk="),
            delete("box/d").with_sas(may_delete.parameters()),
            delete("box/e").header("x-ms-lease-id", "01234567-89ab-cdef-0123-456789abcdef"),
        ];
        let answer = world.send(&batch(&world, line, &asked)).await;
        assert_eq!(
            parts(&answer),
            [
                "0 202 -",
                "1 404 BlobNotFound",
                "2 412 ConditionNotMet",
                "3 403 AuthorizationPermissionMismatch",
                "4 401 NoAuthenticationInformation",
                "5 403 AuthenticationFailed",
                "6 202 -",
                "7 412 LeaseNotPresentWithBlobOperation",
            ]
        );
        for (name, status) in [("a", 404), ("b", 200), ("c", 200), ("d", 404), ("e", 200)] {
            assert_eq!(world.send(&Request::new(&format!("GET box/{name}"))).await.status, status, "{name}");
        }
    }
}

#[tokio::test]
async fn as_many_as_there_may_be() {
    let world = world().await;
    for at in 0..256 {
        put(&world, &format!("n{at}")).await;
    }
    let asked: Vec<Request> = (0..256).map(|at| delete(&format!("box/n{at}"))).collect();
    let done = parts(&world.send(&batch(&world, ACCOUNT, &asked)).await);
    assert_eq!(done, (0..256).map(|at| format!("{at} 202 -")).collect::<Vec<_>>());
    let left = world.send(&Request::new("GET box?restype=container&comp=list&prefix=n")).await.text();
    assert!(!left.contains("<Name>"), "{left}");
}

#[tokio::test]
async fn wrong_as_a_whole() {
    let world = world().await;
    assert_eq!(world.send(&Request::new("PUT other?restype=container")).await.status, 201);
    let tier = Request::new("PUT box/b?comp=tier").header("x-ms-access-tier", "Cool");
    let stranger = {
        let mut request = delete("box/b");
        request.path = "/nobody/box/b".into();
        request
    };
    let many: Vec<Request> = (0..257).map(|_| delete("box/b")).collect();
    for (line, asked) in [
        (ACCOUNT, vec![]),
        (ACCOUNT, many),
        (ACCOUNT, vec![delete("box/b"), tier.clone()]),
        (ACCOUNT, vec![Request::new("GET box/b")]),
        (ACCOUNT, vec![Request::new("DELETE box?restype=container")]),
        (ACCOUNT, vec![batch(&world, ACCOUNT, &[delete("box/b")])]),
        (ACCOUNT, vec![stranger]),
        (CONTAINER, vec![delete("box/b"), delete("other/b")]),
        (CONTAINER, vec![delete("b")]),
    ] {
        let answer = world.send(&batch(&world, line, &asked)).await;
        assert_eq!((answer.status, answer.code()), (400, "InvalidInput"), "{} parts: {}", asked.len(), answer.text());
    }
    for (header, status) in [("multipart/mixed", 400), ("application/json", 400), ("multipart/mixed; boundary=", 400)] {
        let mut request = batch(&world, ACCOUNT, &[delete("box/b")]);
        request.headers[0].1 = header.into();
        let answer = world.send(&request).await;
        assert_eq!((answer.status, answer.code()), (status, "InvalidHeaderValue"), "{header}");
    }
    let mut nested = batch(&world, ACCOUNT, &[]);
    nested.body = b"--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\nContent-Type: application/http\r\n\r\nDELETE /devstoreaccount1/box/b HTTP/1.1\r\n\r\n--c--\r\n--b--".to_vec();
    assert_eq!(world.send(&nested).await.code(), "InvalidInput");
    assert_eq!(world.send(&Request::new("GET box/b")).await.status, 200);
}
