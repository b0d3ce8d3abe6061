//! A small collector, and what it is told.

use std::net::IpAddr;

use contract::Service;
use contract::operations::OperationId;
use env::Timestamp;
use http::trace::Passed;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

fn at(milliseconds: u64) -> Timestamp {
    Timestamp::UNIX_EPOCH.plus_ticks(milliseconds * 10_000)
}

fn span(number: u64) -> Span {
    Span {
        trace: 0xabc,
        id: number << 8,
        parent: None,
        state: String::new(),
        begun: at(1000),
        ended: at(1250),
        service: Service::Blob,
        tls: false,
        client: IpAddr::from([127, 0, 0, 1]),
        method: "PUT".into(),
        path: "/a/c/b".into(),
        host: "localhost:10000".into(),
        agent: "test".into(),
        operation: Some(OperationId::PutBlockBlob),
        account: "a".into(),
        status: 201,
        code: String::new(),
        request: "r".into(),
        client_request: String::new(),
        received_bytes: Some(7),
        sent_bytes: Some(0),
        stages: Vec::new(),
    }
}

fn settings(port: u16) -> OtlpSettings {
    let url = SourceUrl::parse(&format!("http://127.0.0.1:{port}/v1/traces")).expect("right");
    let (headers, resource) = (vec![("api-key".into(), Secret::new("k"))], vec![("service.name".into(), "s".into())]);
    OtlpSettings { url, ratio: 1.0, headers, resource }
}

/// Answers with these statuses, one connection each, and returns what was sent.
async fn collect(listener: TcpListener, statuses: &[u16]) -> Vec<(String, Value)> {
    let mut seen = Vec::new();
    for status in statuses {
        let (mut stream, _) = listener.accept().await.expect("a client");
        let mut text = Vec::new();
        let (head, body) = loop {
            let mut piece = [0; 65536];
            let read = stream.read(&mut piece).await.expect("bytes");
            assert!(read > 0, "the client left");
            text.extend_from_slice(&piece[..read]);
            let whole = String::from_utf8_lossy(&text).into_owned();
            let Some((head, body)) = whole.split_once("\r\n\r\n") else { continue };
            let length =
                head.to_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ").map(str::to_string));
            if body.len() >= length.expect("a length").parse().expect("a number") {
                break (head.to_string(), body.to_string());
            }
        };
        seen.push((head, serde_json::from_str(&body).expect("JSON")));
        let answer = format!("HTTP/1.1 {status} x\r\nContent-Length: 2\r\n\r\n{{}}");
        stream.write_all(answer.as_bytes()).await.expect("written");
    }
    seen
}

fn spans(sent: &Value) -> &Vec<Value> {
    sent["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans")
}

fn attribute<'a>(span: &'a Value, name: &str) -> Option<&'a Value> {
    let found = span["attributes"].as_array()?.iter().find(|one| one["key"] == name)?;
    found["value"].as_object()?.values().next()
}

#[tokio::test]
async fn spans_arrive_together_and_the_last_ones_at_the_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let (exporter, sending) = start(settings(listener.local_addr().expect("bound").port()));
    let collecting = tokio::spawn(collect(listener, &[200]));
    for number in 1..=3 {
        exporter.finished(span(number));
    }
    sending.finish().await;
    let seen = collecting.await.expect("no panic");
    let (head, sent) = &seen[0];
    assert!(
        head.starts_with("POST /v1/traces HTTP/1.1")
            && head.contains("api-key: k")
            && head.contains("application/json"),
        "{head}"
    );
    assert_eq!(sent["resourceSpans"][0]["resource"]["attributes"][0]["value"]["stringValue"], "s");
    assert_eq!(spans(sent).len(), 3);
}

#[test]
fn a_request_and_its_stages() {
    let mut one = span(1);
    one.parent = Some(0xf);
    one.state = "v=1".into();
    one.status = 503;
    one.code = "ServerBusy".into();
    one.stages = vec![Passed { name: "commit", begun: at(1100), ended: at(1200) }];
    let sent: Value = serde_json::from_str(&encode::request(&[], &[one, span(2)])).expect("JSON");
    let spans = spans(&sent);
    assert_eq!(spans.len(), 3);
    for (name, expected) in [
        ("traceId", "00000000000000000000000000000abc"),
        ("spanId", "0000000000000100"),
        ("parentSpanId", "000000000000000f"),
        ("traceState", "v=1"),
        ("name", "PutBlockBlob"),
        ("startTimeUnixNano", "1000000000"),
        ("endTimeUnixNano", "1250000000"),
    ] {
        assert_eq!(spans[0][name], expected, "{name}");
    }
    assert_eq!((&spans[0]["kind"], &spans[0]["status"]["code"]), (&2.into(), &2.into()));
    for (name, expected) in [
        ("http.request.method", "PUT"),
        ("http.response.status_code", "503"),
        ("url.path", "/a/c/b"),
        ("server.address", "localhost"),
        ("server.port", "10000"),
        ("http.request.body.size", "7"),
        ("lazuli.account", "a"),
        ("lazuli.error_code", "ServerBusy"),
        ("error.type", "ServerBusy"),
        ("az.service_request_id", "r"),
    ] {
        assert_eq!(attribute(&spans[0], name).and_then(Value::as_str), Some(expected), "{name}");
    }
    let (stage, other) = (&spans[1], &spans[2]);
    assert_eq!(
        (&stage["name"], &stage["kind"], &stage["parentSpanId"]),
        (&"commit".into(), &1.into(), &spans[0]["spanId"])
    );
    assert_ne!(stage["spanId"], spans[0]["spanId"]);
    assert_eq!(
        (&other["status"], other.get("parentSpanId"), attribute(other, "error.type")),
        (&serde_json::json!({}), None, None)
    );
}

/// A collector that is busy is tried again; what it refuses is counted, and nobody waits.
#[tokio::test]
async fn collectors_that_do_not_take_it() {
    for (statuses, lost) in [(&[503, 200][..], 0), (&[400], 1), (&[503, 503, 503], 1)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let settings = settings(listener.local_addr().expect("bound").port());
        let mut collector = Collector { settings, overrun: Arc::default(), lost: Lost::default() };
        let (_stop, mut stopped) = watch::channel(false);
        let batch = [span(1)];
        let (seen, ()) = tokio::join!(collect(listener, statuses), collector.deliver(&batch, &mut stopped));
        assert_eq!((seen.len(), collector.lost.spans), (statuses.len(), lost), "{statuses:?}");
    }
}

#[tokio::test]
async fn the_queue_is_bounded_and_what_is_over_is_counted() {
    let (queue, _kept) = mpsc::channel(2);
    let exporter = Exporter { queue, overrun: Arc::default(), followed: ALL };
    for number in 0..5 {
        exporter.finished(span(number));
    }
    assert_eq!(exporter.overrun.load(Ordering::Relaxed), 3);
    let mut lost = Lost::default();
    lost.report(&exporter.overrun);
    assert_eq!(exporter.overrun.load(Ordering::Relaxed), 0, "it was said");
    exporter.finished(span(9));
    lost.report(&exporter.overrun);
    assert_eq!(exporter.overrun.load(Ordering::Relaxed), 1, "not twice in a minute");
}

#[test]
fn which_traces_are_followed() {
    let following = |ratio: f64| {
        let (queue, _) = mpsc::channel(1);
        let exporter = Exporter { queue, overrun: Arc::default(), followed: (ratio * ALL as f64) as u64 };
        let ids = env::SystemIds::new();
        (0..1000).filter(|_| exporter.follows(env::Ids::next(&ids).0)).count()
    };
    assert_eq!((following(0.0), following(1.0)), (0, 1000));
    assert!((300..700).contains(&following(0.5)));
}
