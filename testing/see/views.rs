//! What is seen of an account: its requests and why they were refused, leases, open files, hidden messages.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use contract::Service;
use contract::names::{AccountName, ShareName};
use http::account::Account;
use partition::file::opens::{
    Access, BreakNotice, ByteRange, CachingWanted, Claim, LeaseKey, Listener, LockKind, Opening, Rights, ShareMode,
};
use partition::file::share;
use partition::record::FileId;
use serde_json::Value;
use testing::{ACCOUNT, KEY, Request};

use crate::{OTHER, OTHER_KEY, Seen};

fn of(service: Service, line: &str) -> Request {
    Request::new(line).of(service)
}

async fn sent(seen: &Seen, request: &Request, status: u16) -> testing::Answer {
    let answer = seen.world.send(request).await;
    assert_eq!(answer.status, status, "{}: {}", request.path, answer.text());
    answer
}

fn put_blob(path: &str) -> Request {
    Request::new(&format!("PUT {path}")).header("x-ms-blob-type", "BlockBlob").body("hello")
}

/// The newest refused request.
async fn last_refused(seen: &Seen, cookie: &str) -> Value {
    let viewed = seen.view(cookie, "requests?refused=1&limit=1").await;
    viewed["requests"][0].clone()
}

#[tokio::test]
async fn refusals_say_what_was_asked_for_and_what_is_there() {
    let seen = Seen::new().await;
    let cookie = seen.sign_in_here().await;
    sent(&seen, &Request::new("PUT cont?restype=container"), 201).await;
    let etag = sent(&seen, &put_blob("cont/b"), 201).await.header("etag").expect("an ETag").to_string();
    let lease = |action: &str| Request::new("PUT cont/l?comp=lease").header("x-ms-lease-action", action);
    sent(&seen, &put_blob("cont/l"), 201).await;
    let (first, second) = ("00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002");
    sent(&seen, &lease("acquire").header("x-ms-lease-duration", "30").header("x-ms-proposed-lease-id", first), 201)
        .await;
    sent(&seen, &Request::new("PUT cont/a").header("x-ms-blob-type", "AppendBlob"), 201).await;
    let append = Request::new("PUT cont/a?comp=appendblock").header("x-ms-blob-condition-appendpos", "7").body("x");
    sent(
        &seen,
        &of(Service::Table, "POST Tables")
            .header("Content-Type", "application/json")
            .body("{\"TableName\":\"people\"}"),
        201,
    )
    .await;
    let entity = "{\"PartitionKey\":\"a\",\"RowKey\":\"b\"}";
    let insert = || of(Service::Table, "POST people").header("Content-Type", "application/json").body(entity);
    let stale = sent(&seen, &insert(), 201).await.header("etag").expect("an ETag").to_string();
    let replace = of(Service::Table, "PUT people(PartitionKey='a',RowKey='b')")
        .header("Content-Type", "application/json")
        .body(entity);
    seen.world.clock.advance_seconds(10);
    sent(&seen, &replace.clone().header("If-Match", "*"), 204).await;
    for (request, status, code, words) in [
        (
            put_blob("cont/b").header("If-Match", "\"0x1\""),
            412,
            "ConditionNotMet",
            vec!["If-Match: \"0x1\"", etag.as_str()],
        ),
        (
            put_blob("cont/b").header("If-None-Match", "*"),
            409,
            "BlobAlreadyExists",
            vec!["If-None-Match: *", etag.as_str()],
        ),
        (
            put_blob("cont/new").header("If-Match", "*"),
            412,
            "ConditionNotMet",
            vec!["If-Match: *", "nothing of that name"],
        ),
        (
            put_blob("cont/b").header("If-Unmodified-Since", "Thu, 01 Jan 2015 00:00:00 GMT"),
            412,
            "ConditionNotMet",
            vec!["01 Jan 2015", "02 Jan 2026 03:04:05"],
        ),
        (put_blob("cont/l"), 412, "LeaseIdMissing", vec!["No lease id was given", first, "20 seconds"]),
        (
            put_blob("cont/l").header("x-ms-lease-id", second),
            412,
            "LeaseIdMismatchWithBlobOperation",
            vec![second, first],
        ),
        (
            put_blob("cont/b").header("x-ms-lease-id", second),
            412,
            "LeaseNotPresentWithBlobOperation",
            vec![second, "no lease"],
        ),
        (lease("acquire").header("x-ms-lease-duration", "-1"), 409, "LeaseAlreadyPresent", vec![first]),
        (lease("renew").header("x-ms-lease-id", second), 409, "LeaseIdMismatchWithLeaseOperation", vec![second, first]),
        (append, 412, "AppendPositionConditionNotMet", vec!["7", "ends at 0"]),
        (insert(), 409, "EntityAlreadyExists", vec!["an entity with these keys"]),
        (
            replace.header("If-Match", stale.as_str()),
            412,
            "UpdateConditionNotSatisfied",
            vec!["2026-01-02T03:04:05", "2026-01-02T03:04:15"],
        ),
        (Request::new("PUT cont?restype=container"), 409, "ContainerAlreadyExists", vec!["already exists"]),
    ] {
        sent(&seen, &request, status).await;
        let shown = last_refused(&seen, &cookie).await;
        assert_eq!((shown["status"].as_u64(), shown["code"].as_str()), (Some(status.into()), Some(code)), "{shown}");
        let reason = shown["reason"].as_str().expect("a reason");
        for word in words {
            assert!(reason.contains(word), "{code}: {word} in {reason}");
        }
    }
}

#[tokio::test]
async fn a_transaction_and_a_batch_show_what_was_refused_inside() {
    let seen = Seen::new().await;
    let cookie = seen.sign_in_here().await;
    sent(
        &seen,
        &of(Service::Table, "POST Tables")
            .header("Content-Type", "application/json")
            .body("{\"TableName\":\"people\"}"),
        201,
    )
    .await;
    let part = "--c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nPOST http://h/devstoreaccount1/people HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json\r\n\r\n{\"PartitionKey\":\"a\",\"RowKey\":\"b\"}\r\n";
    let body = format!("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n{part}--c--\r\n--b--\r\n");
    let batch =
        || of(Service::Table, "POST $batch").header("Content-Type", "multipart/mixed; boundary=b").body(body.clone());
    sent(&seen, &batch(), 202).await;
    sent(&seen, &batch(), 202).await;
    let shown = last_refused(&seen, &cookie).await;
    assert_eq!((shown["status"].as_u64(), shown["code"].as_str()), (Some(409), Some("EntityAlreadyExists")), "{shown}");
}

#[tokio::test]
async fn a_stale_receipt_is_a_conflict() {
    let seen = Seen::new().await;
    let cookie = seen.sign_in_here().await;
    sent(&seen, &of(Service::Queue, "PUT jobs"), 201).await;
    let message = "<QueueMessage><MessageText>eA==</MessageText></QueueMessage>";
    sent(&seen, &of(Service::Queue, "POST jobs/messages").body(message), 201).await;
    let receive = || of(Service::Queue, "GET jobs/messages").parameter("visibilitytimeout", "10");
    let first = sent(&seen, &receive(), 200).await.text();
    seen.world.clock.advance_seconds(11);
    sent(&seen, &receive(), 200).await;
    let between = |text: &str, name: &str| {
        text.split(&format!("<{name}>")).nth(1).and_then(|rest| rest.split('<').next()).expect("an element").to_string()
    };
    let delete = of(Service::Queue, &format!("DELETE jobs/messages/{}", between(&first, "MessageId")));
    sent(&seen, &delete.parameter("popreceipt", &between(&first, "PopReceipt")), 404).await;
    let shown = last_refused(&seen, &cookie).await;
    assert!(shown["reason"].as_str().is_some_and(|reason| reason.contains("not the newest")), "{shown}");
}

#[tokio::test]
async fn requests_are_seen_without_their_secrets() {
    let seen = Seen::new().await;
    let cookie = seen.sign_in_here().await;
    let other = seen.sign_in(OTHER, OTHER_KEY).await;
    sent(&seen, &Request::new("PUT cont?restype=container").header("User-Agent", "tester/1"), 201).await;
    let seq = seen.view(&cookie, "requests").await["next"].as_u64().expect("a number");
    // A signature that is wrong, with secrets in headers and in the query.
    let source = "http://127.0.0.1:10000/devstoreaccount1/cont/x?sig=S3CRETsource";
    let wrong = Request::new("PUT cont/b?comp=block").signed_with("d3Jvbmc=").header("x-ms-copy-source", source);
    let wrong = wrong.header("x-ms-encryption-key", "S3CRETkey").parameter("sig", "S3CRETsas");
    sent(&seen, &wrong, 403).await;
    let forged = Request::new("GET cont/b?sv=2021-08-06&sr=b&sp=r&se=2030-01-01&sig=S3CRETforged").unsigned();
    sent(&seen, &forged, 403).await;
    let viewed = seen.view(&cookie, &format!("requests?after={seq}")).await;
    let requests = viewed["requests"].as_array().expect("a list");
    assert_eq!(requests.len(), 2, "{viewed}");
    let string = requests[0]["string_to_sign"].as_str().expect("what was to be signed");
    assert!(string.starts_with("PUT\n") && string.contains("/devstoreaccount1/devstoreaccount1/cont/b"), "{string}");
    assert_eq!(requests[0]["operation"], "PutBlockFromUrl");
    assert!(requests[0]["path"].as_str().is_some_and(|path| path.contains("sig=...")));
    let string = requests[1]["string_to_sign"].as_str().expect("what was to be signed");
    assert!(string.contains("/blob/devstoreaccount1/cont/b"), "{string}");
    let all = seen.view(&cookie, "requests?limit=1000").await.to_string();
    for secret in ["S3CRET", KEY, &KEY[..20], "SharedKey"] {
        assert!(!all.contains(secret), "{secret} in {all}");
    }
    let first = &seen.view(&cookie, "requests").await["requests"][0];
    for (name, value) in [
        ("method", "PUT"),
        ("operation", "CreateContainer"),
        ("service", "blob"),
        ("client", "127.0.0.1"),
        ("agent", "tester/1"),
        ("path", "/devstoreaccount1/cont?restype=container"),
        ("time", "2026-01-02T03:04:05.0000000Z"),
    ] {
        assert_eq!(first[name], value, "{first}");
    }
    assert_eq!((first["status"].as_u64(), first["string_to_sign"].is_null()), (Some(201), true));
    assert_eq!(seen.view(&other, "requests").await["requests"].as_array().map(Vec::len), Some(0));
    for wrong in [
        "requests?after=x",
        "requests?limit=-1",
        "requests?what=1",
        "leases?marker=zz",
        "leases?marker=62.%20",
        "hidden?marker=1",
        "hidden?queue=A%20B",
        "opens?x=1",
    ] {
        let answer = seen.ask(&format!("GET /api/view/{wrong}"), &cookie, b"").await;
        assert_eq!(answer.status, 400, "{wrong}: {}", answer.text());
    }
    assert_eq!(seen.ask("GET /api/view/hidden?queue=nothing-here", &cookie, b"").await.status, 404);
}

#[tokio::test]
async fn leases_are_seen() {
    let seen = Seen::new().await;
    let cookie = seen.sign_in_here().await;
    let acquire = |request: Request, seconds: &str| {
        request.header("x-ms-lease-action", "acquire").header("x-ms-lease-duration", seconds)
    };
    for name in ["con1", "con2"] {
        sent(&seen, &Request::new(&format!("PUT {name}?restype=container")), 201).await;
        for blob in ["a", "b/c"] {
            sent(&seen, &put_blob(&format!("{name}/{blob}")), 201).await;
        }
    }
    sent(&seen, &acquire(Request::new("PUT con1/b/c?comp=lease"), "-1"), 201).await;
    sent(&seen, &acquire(Request::new("PUT con2?restype=container&comp=lease"), "15"), 201).await;
    sent(&seen, &acquire(Request::new("PUT con2/a?comp=lease"), "60"), 201).await;
    sent(&seen, &acquire(Request::new("PUT con1/a?comp=lease"), "15"), 201).await;
    let file = |line: &str| of(Service::File, line);
    sent(&seen, &file("PUT share?restype=share"), 201).await;
    sent(&seen, &file("PUT share/dir?restype=directory"), 201).await;
    sent(&seen, &file("PUT share/dir/Sub?restype=directory"), 201).await;
    sent(&seen, &file("PUT share/dir/Sub/f.txt").header("x-ms-type", "file").header("x-ms-content-length", "1"), 201)
        .await;
    sent(&seen, &acquire(file("PUT share/dir/Sub/f.txt?comp=lease"), "-1"), 201).await;
    sent(&seen, &acquire(file("PUT share?restype=share&comp=lease"), "-1"), 201).await;
    seen.world.clock.advance_seconds(10);
    let breaking = Request::new("PUT con2/a?comp=lease").header("x-ms-lease-action", "break");
    sent(&seen, &breaking.header("x-ms-lease-break-period", "20"), 202).await;
    let shown = seen.view(&cookie, "leases").await;
    let row = |lease: &Value| {
        format!("{} {} {} {}", lease["kind"], lease["name"], lease["state"], lease["seconds_left"]).replace('"', "")
    };
    let rows: Vec<String> = shown["leases"].as_array().expect("a list").iter().map(row).collect();
    assert_eq!(
        rows,
        [
            "blob con1/a leased 5",
            "blob con1/b/c leased null",
            "container con2 leased 5",
            "blob con2/a breaking 20",
            "share share leased null",
            "file share/dir/Sub/f.txt leased null"
        ]
    );
    assert!(shown["next"].is_null() && shown["looked_at"].as_u64().is_some_and(|count| count >= 7));
    seen.world.clock.advance_seconds(6);
    let rows = seen.view(&cookie, "leases").await["leases"].as_array().map(Vec::len);
    assert_eq!(rows, Some(4), "what has ended is not held");
    assert!(shown.get("scope").is_none());
    seen.program.is_one_of_many.store(true, Ordering::SeqCst);
    assert_eq!(seen.view(&cookie, "leases").await["scope"], "gateway");
}

/// One call looks at so much, whatever there is; the pages together show everything once.
#[tokio::test]
async fn a_look_at_many_leases_is_in_pages() {
    let seen = Seen::new().await;
    let cookie = seen.sign_in_here().await;
    let account = Account::development().name;
    let mut expected = Vec::new();
    for container in ["con1", "con2", "con3"] {
        sent(&seen, &Request::new(&format!("PUT {container}?restype=container")), 201).await;
        for i in 0..2100 {
            sent(&seen, &put_blob(&format!("{container}/{i:04}")), 201).await;
        }
        for i in [0, 1050, 2099] {
            let lease =
                Request::new(&format!("PUT {container}/{i:04}?comp=lease")).header("x-ms-lease-action", "acquire");
            sent(&seen, &lease.header("x-ms-lease-duration", "-1"), 201).await;
            expected.push(format!("{container}/{i:04}"));
        }
    }
    let (mut found, mut marker, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = seen.view(&cookie, &format!("leases?marker={marker}")).await;
        assert!(page["looked_at"].as_u64().is_some_and(|count| count <= 6000), "{page}");
        found.extend(
            page["leases"]
                .as_array()
                .expect("a list")
                .iter()
                .map(|lease| lease["name"].as_str().unwrap_or_default().to_string()),
        );
        pages += 1;
        match page["next"].as_str() {
            Some(next) => marker = next.to_string(),
            None => break,
        }
    }
    assert_eq!((found, pages), (expected, 2));
    let looked = partition::look::leases::leases(&seen.world.app.shell, &account, Some("nonsense")).await;
    assert!(looked.is_ok_and(|looked| looked.is_none()));
}

#[tokio::test]
async fn hidden_messages_are_seen() {
    let seen = Seen::new().await;
    let cookie = seen.sign_in_here().await;
    let put = |queue: &str| {
        of(Service::Queue, &format!("POST {queue}/messages"))
            .body("<QueueMessage><MessageText>eA==</MessageText></QueueMessage>")
    };
    for queue in ["jobs", "mail"] {
        sent(&seen, &of(Service::Queue, &format!("PUT {queue}")), 201).await;
        sent(&seen, &put(queue), 201).await;
        sent(&seen, &put(queue).parameter("visibilitytimeout", "100"), 201).await;
    }
    sent(&seen, &of(Service::Queue, "GET jobs/messages").parameter("visibilitytimeout", "30"), 200).await;
    let shown = seen.view(&cookie, "hidden").await;
    let row = |message: &Value| {
        format!("{} {} {}", message["queue"], message["visible"], message["dequeue_count"]).replace('"', "")
    };
    let rows = |shown: &Value| shown["messages"].as_array().expect("a list").iter().map(row).collect::<Vec<_>>();
    assert_eq!(
        rows(&shown),
        [
            "jobs 2026-01-02T03:04:35.0000000Z 1",
            "jobs 2026-01-02T03:05:45.0000000Z 0",
            "mail 2026-01-02T03:05:45.0000000Z 0"
        ]
    );
    assert!(!shown.to_string().contains("eA=="), "no text is shown");
    assert_eq!(rows(&seen.view(&cookie, "hidden?queue=mail").await).len(), 1);
    seen.world.clock.advance_seconds(30);
    assert_eq!(rows(&seen.view(&cookie, "hidden").await).len(), 2, "one has come back");
    sent(&seen, &of(Service::Queue, "PUT many"), 201).await;
    for _ in 0..450 {
        sent(&seen, &put("many").parameter("visibilitytimeout", "50"), 201).await;
    }
    let (mut ids, mut marker) = (std::collections::HashSet::new(), String::new());
    for _ in 0..10 {
        let page = seen.view(&cookie, &format!("hidden?marker={marker}")).await;
        let messages = page["messages"].as_array().expect("a list");
        assert!(messages.len() <= 200);
        ids.extend(messages.iter().map(|message| message["id"].as_str().unwrap_or_default().to_string()));
        match page["next"].as_str() {
            Some(next) => marker = next.to_string(),
            None => break,
        }
    }
    assert_eq!(ids.len(), 452);
}

struct Nobody;

impl Listener for Nobody {
    fn broken(&self, _notice: BreakNotice) {}
}

#[tokio::test]
async fn open_files_are_seen_and_named_in_refusals() {
    let seen = Seen::new().await;
    let cookie = seen.sign_in_here().await;
    let file = |line: &str| of(Service::File, line);
    sent(&seen, &file("PUT share?restype=share"), 201).await;
    sent(&seen, &file("PUT share/f").header("x-ms-type", "file").header("x-ms-content-length", "9"), 201).await;
    let head = sent(&seen, &file("HEAD share/f"), 200).await;
    let id = head.header("x-ms-file-id").and_then(|id| id.parse().ok()).expect("an id");
    let (shell, account) = (&seen.world.app.shell, Account::development().name);
    let name = ShareName::parse("share").expect("right");
    let group = share::find(shell, &account, &name, None).await.expect("the share").group().clone();
    let opening = Opening {
        session: 7,
        client_address: "192.0.2.1:5000".into(),
        client_name: "desk".into(),
        path: "f".into(),
        file: FileId(id),
        above: vec![FileId::ROOT],
        claim: Claim { access: Access { read: true, write: true, delete: false }, share: ShareMode::NONE },
        mask: 3,
        caching: CachingWanted::Lease {
            key: LeaseKey::new(&AccountName::parse("clients").expect("a name"), [1; 16], [2; 16]),
            rights: Rights::RW,
            epoch: None,
        },
        is_new: false,
        overwrites: false,
        deletes_on_close: false,
        is_directory: false,
        is_leased: false,
        opened: shell.clock.now(),
        reconnected: None,
        kept_as: None,
        listener: Arc::new(Nobody),
    };
    let handle = shell.open_files.open(&group, opening, shell.clock.now()).expect("nobody has it").handle.id;
    shell.open_files.lock(&group, handle, &[(ByteRange { offset: 2, length: 3 }, LockKind::Exclusive)]).expect("free");
    let shown = seen.view(&cookie, "opens").await;
    let open = &shown["opens"][0];
    for (name, value) in [
        ("share", "share"),
        ("path", "f"),
        ("client", "192.0.2.1:5000"),
        ("access", "read, write"),
        ("sharing", "none"),
        ("caching", "lease RW"),
    ] {
        assert_eq!(open[name], value, "{open}");
    }
    assert_eq!((open["directory"].as_bool(), open["delete_pending"].as_bool()), (Some(false), Some(false)));
    assert_eq!(open["locks"], serde_json::json!([{ "offset": 2, "length": 3, "exclusive": true }]));
    assert_eq!(
        (shown["truncated"].as_bool(), open["handle"].as_str()),
        (Some(false), Some(handle.0.to_string().as_str()))
    );
    sent(&seen, &file("DELETE share/f"), 409).await;
    let shown = last_refused(&seen, &cookie).await;
    assert_eq!((shown["code"].as_str(), shown["operation"].as_str()), (Some("SharingViolation"), Some("DeleteFile")));
    let reason = shown["reason"].as_str().expect("a reason");
    assert!(reason.contains("192.0.2.1:5000") && reason.contains("shares nothing"), "{reason}");
    let other = seen.sign_in(OTHER, OTHER_KEY).await;
    assert_eq!(seen.view(&other, "opens").await["opens"].as_array().map(Vec::len), Some(0));
    assert_eq!(ACCOUNT, account.as_str());
}
