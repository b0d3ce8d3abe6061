use env::{Id, Timestamp};
use partition::record::BlobKind;
use partition::record::event::{Event, PendingEvent};

use super::retry::{Failed, Next, TOO_LARGE, dead_letter_again, end, is_over, next};
use super::*;

fn settings(name: &str, to: &str) -> SubscriptionSettings {
    SubscriptionSettings { name: name.into(), to: to.into(), ..SubscriptionSettings::default() }
}

fn account() -> AccountName {
    AccountName::parse("abc").expect("right")
}

#[test]
fn settings_are_right_or_refused_in_words() {
    for (to, expected) in [
        ("queue:jobs", Ok("queue jobs")),
        ("queue:No", Err("no queue's name")),
        ("https://example.org/api?code=secret", Ok("https://example.org")),
        ("https://example.org", Ok("https://example.org")),
        ("http://127.0.0.1:7071/runtime/webhooks/EventGrid?functionName=x", Ok("http://127.0.0.1:7071")),
        ("http://localhost:7071/x", Ok("http://localhost:7071")),
        ("http://example.org/x?code=secret", Err("everybody on the way")),
        ("ftp://example.org/?code=secret", Err("none of them")),
        ("jobs", Err("none of them")),
        ("", Err("none of them")),
    ] {
        match (Subscriptions::parse(&[settings("x", to)]), expected) {
            (Ok(parsed), Ok(shown)) => {
                assert_eq!(format!("{parsed:?}"), format!("[\"x to {shown}\"]"));
            }
            (Err(error), Err(words)) => {
                assert!(error.starts_with("[[events]] x: ") && error.contains(words), "{error}");
                assert!(!error.contains("code="), "{error}");
            }
            (parsed, _) => panic!("{to}: {parsed:?}"),
        }
    }
    let wrong = |change: &dyn Fn(&mut SubscriptionSettings)| {
        let mut one = settings("x", "queue:jobs");
        change(&mut one);
        Subscriptions::parse(&[one]).expect_err("wrong")
    };
    assert!(wrong(&|one| one.name = "a b".into()).contains("letters, digits and hyphens"));
    assert!(wrong(&|one| one.name = String::new()).contains("letters, digits and hyphens"));
    assert!(wrong(&|one| one.name = "x".repeat(65)).contains("letters, digits and hyphens"));
    assert!(wrong(&|one| one.account = Some("A".into())).contains("no account's name"));
    assert!(wrong(&|one| one.types = Some(Vec::new())).contains("asks for nothing"));
    assert!(wrong(&|one| one.types = Some(vec!["BlobCreated".into()])).contains("Microsoft.Storage.BlobCreated"));
    assert!(wrong(&|one| one.dead_letter = Some("A".into())).contains("no container's name"));
    let two = [settings("x", "queue:jobs"), settings("x", "queue:more")];
    assert!(Subscriptions::parse(&two).expect_err("wrong").contains("two of this name"));
    let named = SubscriptionSettings { account: Some("abc".into()), ..settings("x", "queue:jobs") };
    let named = Subscriptions::parse(&[named]).expect("right");
    assert_eq!(named.check([account()].iter()), Ok(()));
    assert!(named.check([].iter()).expect_err("missing").contains("there is no account abc"));
    assert_eq!(format!("{:?}", settings("x", "https://h/?secret")), "events \"x\"");
}

#[test]
fn filters() {
    use EventKind::{Created, Deleted};
    let base = || settings("x", "queue:jobs");
    let created = Some(vec!["Microsoft.Storage.BlobCreated".to_string()]);
    for (one, container, blob, kind, expected) in [
        (base(), "c", "b", Created, true),
        (base(), "c", "b", Deleted, true),
        (base(), "$logs", "b", Created, false),
        (base(), "$blobchangefeed", "b", Created, false),
        (base(), "$web", "b", Created, true),
        (SubscriptionSettings { account: Some("abc".into()), ..base() }, "c", "b", Created, true),
        (SubscriptionSettings { account: Some("other".into()), ..base() }, "c", "b", Created, false),
        (SubscriptionSettings { types: created.clone(), ..base() }, "c", "b", Created, true),
        (SubscriptionSettings { types: created, ..base() }, "c", "b", Deleted, false),
        (begins("/blobServices/default/containers/c/"), "c", "b", Created, true),
        (begins("/blobServices/default/containers/c/"), "cc", "b", Created, false),
        (begins("/blobservices/default/containers/C/blobs/Pictures/"), "c", "pictures/a", Created, true),
        (SubscriptionSettings { subject_ends_with: ".JPG".into(), ..base() }, "c", "a.jpg", Created, true),
        (SubscriptionSettings { subject_ends_with: ".jpg".into(), ..base() }, "c", "a.jpg.txt", Created, false),
    ] {
        let all = Subscriptions::parse(std::slice::from_ref(&one)).expect("right");
        assert_eq!(!all.wanting(&account(), container, blob, kind).is_empty(), expected, "{container}/{blob} {kind:?}");
    }
}

fn begins(with: &str) -> SubscriptionSettings {
    SubscriptionSettings { subject_begins_with: with.into(), ..settings("x", "queue:jobs") }
}

fn pending(api: Api) -> PendingEvent {
    PendingEvent {
        subscription: "x".into(),
        event: Event {
            id: Id(0x10),
            time: Timestamp::parse_iso8601("2026-01-02T03:04:05.1234567Z").expect("a time"),
            api,
            container: "c".into(),
            blob: "a \"b\"".into(),
            url: "http://127.0.0.1:10000/abc/c/a%20%22b%22".into(),
            request: Id(0x20),
            client_request: (api == Api::PutBlob).then(|| "mine".into()),
            sequence: 0x8D6D418B6C08663,
            content_type: None,
            content_bytes: (api == Api::PutBlob).then_some(5),
            blob_kind: BlobKind::Block,
        },
        attempts: 0,
        due: Timestamp::UNIX_EPOCH,
        claimed: Timestamp::UNIX_EPOCH,
        last: None,
        given_up: None,
    }
}

#[test]
fn events_are_written_as_event_grid_writes_them() {
    let topic = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/lazuli/providers/Microsoft.Storage/storageAccounts/abc";
    let created = format!(
        r#"[{{"topic":"{topic}","subject":"/blobServices/default/containers/c/blobs/a \"b\"","eventType":"Microsoft.Storage.BlobCreated","eventTime":"2026-01-02T03:04:05.1234567Z","id":"00000000-0000-0000-0000-000000000010","data":{{"api":"PutBlob","clientRequestId":"mine","requestId":"00000000-0000-0000-0000-000000000020","eTag":"0x8D6D418B6C08663","contentType":"application/octet-stream","contentLength":5,"blobType":"BlockBlob","url":"http://127.0.0.1:10000/abc/c/a%20%22b%22","sequencer":"000000000000000008D6D418B6C08663","storageDiagnostics":{{"batchId":"00000000-0000-0000-0000-000000000020"}}}},"dataVersion":"","metadataVersion":"1"}}]"#
    );
    assert_eq!(schema::notification(&account(), &pending(Api::PutBlob)), created);
    assert_eq!(format!("[{}]", schema::event(&account(), &pending(Api::PutBlob))), created);
    let deleted = schema::event(&account(), &pending(Api::DeleteBlob));
    assert!(deleted.contains(r#""data":{"api":"DeleteBlob","requestId":"#), "{deleted}");
    assert!(!deleted.contains("eTag") && !deleted.contains("contentLength"), "{deleted}");
    let mut dead = pending(Api::PutBlob);
    (dead.attempts, dead.last) = (3, Some((dead.event.time.plus_seconds(60), "NotFound".into())));
    let dead = schema::dead_letter(&account(), &dead, "TimeToLiveExceeded");
    assert!(dead.ends_with(
        r#""dataVersion":"","metadataVersion":"1","deadLetterReason":"TimeToLiveExceeded","deliveryAttempts":3,"lastDeliveryOutcome":"NotFound","publishTime":"2026-01-02T03:04:05.1234567Z","lastDeliveryAttemptTime":"2026-01-02T03:05:05.1234567Z"}]"#
    ), "{dead}");
}

/// Event Grid's schedule: 10 s, 30 s, 1 min, 5 min, 10 min, 30 min, 1 h, 3 h, 6 h, 12 h, and the end after a day.
#[test]
fn attempts_come_later_and_later_and_end() {
    let (mut one, mut pauses) = (pending(Api::PutBlob), Vec::new());
    let mut now = one.event.time;
    loop {
        one.attempts += 1;
        match next(&one, Failed::Status(500), now) {
            Next::At(due) => {
                pauses.push((due.ticks() - now.ticks()) / env::TICKS_PER_SECOND);
                now = due;
            }
            Next::GiveUp(reason) => {
                assert_eq!(reason, "TimeToLiveExceeded");
                break;
            }
        }
    }
    assert_eq!(pauses[..10], [10, 30, 60, 300, 600, 1800, 3600, 10_800, 21_600, 43_200]);
    assert_eq!((pauses.len(), now), (11, end(&one)), "the last is cut at the end of its day");
    assert_eq!(is_over(&one, now), Some("TimeToLiveExceeded"));

    for (attempts, failed, expected) in [
        (1, Failed::Status(400), Err("UndeliverableDueToHttpBadRequest")),
        (1, Failed::Status(401), Err("UndeliverableDueToHttpUnauthorized")),
        (1, Failed::Status(403), Err("UndeliverableDueToHttpForbidden")),
        (1, Failed::Status(413), Err("UndeliverableDueToHttpRequestEntityTooLarge")),
        (1, Failed::Queue(TOO_LARGE), Err("UndeliverableDueToHttpRequestEntityTooLarge")),
        (1, Failed::Status(404), Ok(300)),
        (1, Failed::Status(408), Ok(120)),
        (1, Failed::Status(503), Ok(30)),
        (1, Failed::Status(302), Ok(10)),
        (6, Failed::Status(404), Ok(1800)),
        (1, Failed::Queue("NotFound"), Ok(10)),
        (1, Failed::Unreachable("no connection"), Ok(10)),
        (29, Failed::Status(500), Ok(43_200)),
        (30, Failed::Status(500), Err("MaxDeliveryAttemptsExceeded")),
    ] {
        let one = PendingEvent { attempts, ..pending(Api::PutBlob) };
        let now = one.event.time;
        let expected = match expected {
            Ok(seconds) => Next::At(now.plus_seconds(seconds)),
            Err(reason) => Next::GiveUp(reason),
        };
        assert_eq!(next(&one, failed, now), expected, "{attempts} {failed:?}");
    }
    let last = end(&one).plus_seconds(4 * 3600 - 301);
    assert_eq!(dead_letter_again(&one, last), Some(last.plus_seconds(300)));
    assert_eq!(dead_letter_again(&one, last.plus_seconds(1)), None);
}
