//! Who gets in: with a key and nothing else, from our own pages and no others.

use std::net::IpAddr;

use http::account::Account;
use testing::{ACCOUNT, KEY, World};

use crate::{OTHER, OTHER_KEY, Seen, json};

/// Everything that needs a session.
const INSIDE: [&str; 9] = [
    "GET /api/session",
    "GET /api/view/requests",
    "GET /api/view/leases",
    "GET /api/view/opens",
    "GET /api/view/hidden",
    "GET /api/blob/devstoreaccount1/?comp=list",
    "GET /api/queue/devstoreaccount1/?comp=list",
    "GET /api/table/devstoreaccount1/Tables",
    "GET /api/file/devstoreaccount1/?comp=list",
];

#[tokio::test]
async fn nobody_gets_in_without_a_session() {
    let seen = Seen::new().await;
    let cookie = seen.sign_in_here().await;
    let secret = cookie.split('=').nth(1).expect("a secret");
    let mut wrong = vec![
        String::new(),
        "Cookie: lazuli-console-10080=".into(),
        "Cookie: lazuli-console-10080=x".into(),
        format!("Cookie: lazuli-console-10081={secret}"),
        format!("Cookie: lazuli-console-10080={secret}x"),
        format!("Cookie: lazuli-console-10080={}", &secret[1..]),
        format!("Cookie: LAZULI-CONSOLE-10080={secret}"),
        format!("Authorization: Bearer {secret}"),
        // What opens the services does not open the console.
        format!("Authorization: SharedKey {ACCOUNT}:x"),
    ];
    wrong.push(format!("Cookie: lazuli-console-10080={}", secret.to_ascii_uppercase()));
    // Two sessions are none: a page on another port may have set one of them.
    wrong.push(format!("{cookie}; lazuli-console-10080=x"));
    wrong.push(format!("{cookie}\n{}", seen.sign_in_here().await));
    for line in INSIDE {
        assert_eq!(seen.ask(line, &format!("{cookie}\nx-lazuli-console: 1"), b"").await.status, 200, "{line}");
        for headers in &wrong {
            let answer = seen.ask(line, headers, b"").await;
            assert_eq!(answer.status, 401, "{line} with {headers}");
        }
    }
}

#[tokio::test]
async fn a_session_is_opened_with_a_key() {
    let seen = Seen::new().await;
    let answer = seen.try_sign_in(ACCOUNT, KEY).await;
    let cookie = answer.header("set-cookie").expect("a cookie").to_string();
    for part in ["lazuli-console-10080=", "; HttpOnly", "; SameSite=Strict", "; Path=/"] {
        assert!(cookie.contains(part), "{part} in {cookie}");
    }
    assert!(!cookie.contains("Secure"), "http has no such cookies");
    let session = json(&answer);
    assert_eq!((session["account"].as_str(), session["development"].as_bool()), (Some(ACCOUNT), Some(true)));
    assert_eq!(session["services"], serde_json::json!(["blob", "queue", "table", "file"]));
    for service in ["blob", "queue", "table", "file"] {
        let endpoint = session["endpoints"][service].as_str().unwrap_or_default();
        assert!(endpoint.starts_with("http://") && endpoint.ends_with(&format!("/{ACCOUNT}")), "{service}: {endpoint}");
    }
    assert_eq!(session["expires"], "2026-01-02T04:04:05.0000000Z");
    seen.speak_tls();
    let answer = seen.try_sign_in(OTHER, OTHER_KEY).await;
    assert!(answer.header("set-cookie").is_some_and(|cookie| cookie.contains("; Secure")));
    assert_eq!(json(&answer)["development"], false);
}

#[tokio::test]
async fn wrong_keys_are_refused_and_counted() {
    let seen = Seen::new().await;
    for (account, key) in [(ACCOUNT, OTHER_KEY), (OTHER, KEY), ("nobody", KEY), ("", "")] {
        let answer = seen.try_sign_in(account, key).await;
        assert_eq!((answer.status, answer.header("set-cookie")), (403, None), "{account}");
        assert!(!answer.text().contains(key) || key.is_empty(), "what was sent is not told again");
    }
    // What is no attempt is not counted.
    for body in [
        "",
        "{}",
        "[1]",
        "{\"account\":1,\"key\":2}",
        &format!("{{\"account\":\"a\",\"key\":\"{}\"}}", "k".repeat(9000)),
    ] {
        let answer = seen.ask("POST /api/sign-in", "x-lazuli-console: 1", body.as_bytes()).await;
        assert_eq!(answer.status, 400, "{body:.40}");
    }
    assert_eq!(seen.try_sign_in(ACCOUNT, OTHER_KEY).await.status, 403);
    let shut_out = seen.try_sign_in(ACCOUNT, KEY).await;
    assert_eq!((shut_out.status, shut_out.header("retry-after")), (429, Some("60")), "the right key waits, too");
    seen.come_from([10, 0, 0, 9]);
    seen.sign_in_here().await;
    seen.come_from([127, 0, 0, 1]);
    seen.world.clock.advance_seconds(60);
    seen.sign_in_here().await;
}

#[tokio::test]
async fn sessions_end() {
    let seen = Seen::new().await;
    let is_in = async |cookie: &str| seen.ask("GET /api/session", cookie, b"").await.status == 200;
    let cookie = seen.sign_in_here().await;
    let closed = seen.ask("POST /api/sign-out", &format!("{cookie}\nx-lazuli-console: 1"), b"").await;
    assert_eq!(closed.status, 204);
    assert!(closed.header("set-cookie").is_some_and(|cookie| cookie.contains("Max-Age=0")));
    assert!(!is_in(&cookie).await);

    let idle = seen.sign_in_here().await;
    seen.world.clock.advance_seconds(3600);
    assert!(!is_in(&idle).await, "an hour without use");

    let busy = seen.sign_in_here().await;
    for _ in 0..23 {
        seen.world.clock.advance_seconds(1800);
        assert!(is_in(&busy).await);
    }
    seen.world.clock.advance_seconds(1800);
    assert!(!is_in(&busy).await, "twelve hours");

    // The key is rotated away: the session that it opened ends, and no other.
    let second = "c2Vjb25kIGtleQ==";
    let set = |keys: &[&str]| seen.world.app.set_accounts(vec![Account::new(ACCOUNT, keys).expect("an account")]);
    set(&[KEY, second]);
    let (by_first, by_second) = (seen.sign_in_here().await, seen.sign_in(ACCOUNT, second).await);
    set(&[second]);
    assert!(!is_in(&by_first).await && is_in(&by_second).await);
    let listed = seen.ask("GET /api/blob/devstoreaccount1/?comp=list", &by_second, b"").await;
    assert_eq!(listed.status, 200, "it signs with the key that it was opened with");
    seen.world.app.set_accounts(Vec::new());
    assert!(!is_in(&by_second).await, "the account is gone");
}

#[tokio::test]
async fn pages_of_others_ask_in_vain() {
    let seen = Seen::new().await;
    let cookie = seen.sign_in_here().await;
    let ask = async |line: &str, headers: &str| seen.ask(line, &format!("{cookie}\n{headers}"), b"").await.status;
    // What changes anything has our header.
    for line in [
        "PUT /api/blob/devstoreaccount1/made?restype=container",
        "POST /api/sign-out",
        "DELETE /api/blob/devstoreaccount1/cont/b",
        "OPTIONS /api/session",
    ] {
        for headers in ["x-none: 1", "x-lazuli-console: 0", "x-lazuli-console: true", "Origin: http://127.0.0.1:10080"]
        {
            assert_eq!(ask(line, headers).await, 403, "{line} {headers}");
        }
    }
    // Whatever comes from another origin is refused, reads as well, and with the header.
    for origin in ["http://localhost:3000", "http://127.0.0.1:3000", "null", "https://evil.example", ""] {
        for line in ["GET /api/session", "PUT /api/blob/devstoreaccount1/made?restype=container", "POST /api/sign-in"] {
            assert_eq!(ask(line, &format!("x-lazuli-console: 1\nOrigin: {origin}")).await, 403, "{line} {origin}");
        }
    }
    // Receiving is a GET that changes something.
    assert_eq!(ask("GET /api/queue/devstoreaccount1/jobs/messages", "x-none: 1").await, 403);
    for site in ["cross-site", "same-site"] {
        assert_eq!(ask("GET /api/blob/devstoreaccount1/?comp=list", &format!("Sec-Fetch-Site: {site}")).await, 403);
    }
    let ours = "x-lazuli-console: 1\nOrigin: http://127.0.0.1:10080\nSec-Fetch-Site: same-origin";
    assert_eq!(ask("PUT /api/blob/devstoreaccount1/made?restype=container", ours).await, 201);
}

#[tokio::test]
async fn names_that_are_not_this_machine_are_refused() {
    let seen = Seen::new().await;
    let lines = ["GET /", "GET /api/session", "GET /metrics", "GET /healthz", "POST /api/sign-in"];
    for host in ["evil.example:10080", "127.0.0.1.evil.example", "localhost.evil.example", ""] {
        for line in lines {
            let answer = seen.ask(line, &format!("Host: {host}\nx-lazuli-console: 1"), b"").await;
            assert_eq!(answer.status, 421, "{line} {host}");
        }
    }
    for host in ["localhost:10080", "console.localhost", "[::1]:10080", "192.168.0.1"] {
        assert_eq!(seen.ask("GET /", &format!("Host: {host}"), b"").await.status, 200, "{host}");
    }
    // Where others are served, too, names are theirs.
    let open = Seen::over(World::new().await, IpAddr::from([0, 0, 0, 0]));
    assert_eq!(open.ask("GET /", "Host: storage.example:10080", b"").await.status, 200);
}

#[tokio::test]
async fn a_session_sees_its_account_and_no_other() {
    let seen = Seen::new().await;
    let (here, other) = (seen.sign_in_here().await, seen.sign_in(OTHER, OTHER_KEY).await);
    let put = |account: &str, what: &str| format!("PUT /api/blob/{account}/{what}");
    let with = |cookie: &str, more: &str| format!("{cookie}\nx-lazuli-console: 1\n{more}");
    assert_eq!(seen.ask(&put(ACCOUNT, "mine?restype=container"), &with(&here, ""), b"").await.status, 201);
    let lease = "x-ms-lease-action: acquire\nx-ms-lease-duration: -1";
    assert_eq!(
        seen.ask(&put(ACCOUNT, "mine?restype=container&comp=lease"), &with(&here, lease), b"").await.status,
        201
    );
    // By path, by escapes, by host, by a full address, by credentials of one's own.
    let more = [
        "GET /api/blob/devstoreaccount1/?comp=list",
        "GET /api/blob/devstoreaccount1/mine?restype=container",
        "GET /api/blob/%64evstoreaccount1/?comp=list",
        "GET /api/blob//devstoreaccount1/?comp=list",
        "GET /api/blob/other/../devstoreaccount1/?comp=list",
        "GET /api/blob/otherdevstoreaccount1/?comp=list",
        "GET /api/blob/devstoreaccount1-secondary/?comp=list",
        "GET /api/blob",
        "GET /api/blob/",
        "GET /api/blob?comp=list",
    ];
    for line in more {
        let answer = seen.ask(line, &other, b"").await;
        assert!([400, 403, 404].contains(&answer.status), "{line}: {}", answer.status);
        assert!(!answer.text().contains("mine"), "{line}");
    }
    for host in ["devstoreaccount1.blob.localhost:10080", "devstoreaccount1.web.localhost"] {
        let answer = seen.ask("GET /api/blob/other/?comp=list", &format!("{other}\nHost: {host}"), b"").await;
        assert!(answer.status == 200 && !answer.text().contains("mine"), "{host}: {}", answer.text());
    }
    let full = seen.ask("GET http://devstoreaccount1.blob.localhost/api/blob/other/", &other, b"").await;
    assert_eq!(full.status, 404);
    for view in ["requests", "leases", "hidden", "opens"] {
        let (own, theirs) = (seen.view(&here, view).await.to_string(), seen.view(&other, view).await.to_string());
        assert!(!theirs.contains("mine"), "{view}: {theirs}");
        assert_eq!(own.contains("mine"), ["requests", "leases"].contains(&view), "{view}: {own}");
    }
}

#[tokio::test]
async fn pages_are_fenced() {
    let seen = Seen::new().await;
    for (line, status) in [
        ("GET /", 200),
        ("HEAD /", 200),
        ("GET /assets/index.html", 200),
        ("GET /nothing", 404),
        ("GET /assets/../src/lib.rs", 404),
        ("POST /", 405),
    ] {
        let answer = seen.ask(line, "x-none: 1", b"").await;
        assert_eq!(answer.status, status, "{line}");
        let policy = answer.header("content-security-policy").expect("a policy");
        assert!(policy.starts_with("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{line}");
        }
        assert!(status != 404 || json(&answer)["error"].is_string());
    }
    let page = seen.ask("GET /", "x-none: 1", b"").await;
    let etag = page.header("etag").expect("an ETag").to_string();
    assert_eq!(seen.ask("GET /", &format!("If-None-Match: {etag}"), b"").await.status, 304);
}
