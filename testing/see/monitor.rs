//! What a monitor is told, without signing in.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use console::Metric;
use contract::Service;
use engine::memory::MemoryEngine;
use testing::{Request, World};

use crate::Seen;

/// A page as Prometheus reads it: every line is a comment or a sample; samples follow their type.
fn parse(page: &str) -> HashMap<String, f64> {
    let (mut samples, mut kinds) = (HashMap::new(), HashMap::new());
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("name and type");
            assert!(kinds.insert(name.to_string(), kind.to_string()).is_none(), "{name} is begun twice");
            assert!(Metric::ALL.iter().any(|metric| metric.name() == name && metric.kind() == kind), "{line}");
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}"));
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
        let name = series.split('{').next().unwrap_or_default();
        let base = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .filter(|base| kinds.contains_key(*base));
        assert!(kinds.contains_key(base.unwrap_or(name)), "{line} has no type");
        assert!(
            series.matches('"').count().is_multiple_of(2) && series.contains('{') == series.ends_with('}'),
            "{line}"
        );
        assert!(samples.insert(series.to_string(), value).is_none(), "{series} is there twice");
    }
    samples
}

#[tokio::test]
async fn requests_are_counted() {
    let seen = Seen::new().await;
    let metrics = async || parse(&seen.ask("GET /metrics", "x-none: 1", b"").await.text());
    let send = async |request: &Request| seen.world.send(request).await.status;
    send(&Request::new("PUT cont?restype=container")).await;
    let put = || Request::new("PUT cont/b").header("x-ms-blob-type", "BlockBlob").body("12345");
    for _ in 0..3 {
        assert_eq!(send(&put()).await, 201);
    }
    assert_eq!(send(&put().header("If-Match", "\"0x1\"")).await, 412);
    assert_eq!(send(&Request::new("GET cont/b")).await, 200);
    assert_eq!(send(&Request::new("GET cont/none")).await, 404);
    assert_eq!(
        send(
            &Request::new("PUT cont/b?comp=lease")
                .header("x-ms-lease-action", "acquire")
                .header("x-ms-lease-duration", "15")
        )
        .await,
        201
    );
    assert_eq!(send(&Request::new("GET cont/b").signed_with("d3Jvbmc=")).await, 403);
    seen.world.send_raw(b"nonsense\r\n\r\n").await;
    send(&Request::new("PUT jobs").of(Service::Queue)).await;
    let message = "<QueueMessage><MessageText>eA==</MessageText></QueueMessage>";
    for _ in 0..4 {
        send(&Request::new("POST jobs/messages").of(Service::Queue).body(message)).await;
    }
    let metrics = metrics().await;
    let requests = |operation: &str, status: u16| {
        metrics
            .get(&format!("lazuli_requests_total{{service=\"blob\",operation=\"{operation}\",status=\"{status}\"}}"))
            .copied()
    };
    for (operation, status, count) in [
        ("PutBlockBlob", 201, 3.0),
        ("PutBlockBlob", 412, 1.0),
        ("GetBlob", 200, 1.0),
        ("GetBlob", 404, 1.0),
        ("GetBlob", 403, 1.0),
        ("AcquireBlobLease", 201, 1.0),
        ("none", 400, 1.0),
    ] {
        assert_eq!(requests(operation, status), Some(count), "{operation} {status}");
    }
    for (series, value) in [
        ("lazuli_request_bytes_total{service=\"blob\",operation=\"PutBlockBlob\"}", 15.0),
        ("lazuli_request_duration_seconds_count{service=\"blob\",operation=\"PutBlockBlob\"}", 4.0),
        ("lazuli_request_duration_seconds_bucket{service=\"blob\",operation=\"PutBlockBlob\",le=\"+Inf\"}", 4.0),
        ("lazuli_errors_total{service=\"blob\",code=\"ConditionNotMet\"}", 1.0),
        ("lazuli_errors_total{service=\"blob\",code=\"AuthenticationFailed\"}", 1.0),
        ("lazuli_conflicts_total{service=\"blob\"}", 1.0),
        ("lazuli_conflicts_total{service=\"queue\"}", 0.0),
        ("lazuli_queue_messages{account=\"devstoreaccount1\",queue=\"jobs\"}", 4.0),
        ("lazuli_ready", 1.0),
        ("lazuli_smb_opens", 0.0),
    ] {
        assert_eq!(metrics.get(series).copied(), Some(value), "{series}");
    }
    assert!(metrics["lazuli_response_bytes_total{service=\"blob\",operation=\"GetBlob\"}"] >= 5.0);
    seen.come_from([10, 0, 0, 1]);
    let page = seen.ask("GET /metrics", "Host: 127.0.0.1", b"").await;
    assert!(!page.text().contains("jobs") && !page.text().contains("devstoreaccount1"), "names stay on the machine");
    assert_eq!(page.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
}

#[tokio::test]
async fn health() {
    let seen = Seen::over(World::over(Arc::new(MemoryEngine::new())).await, [127, 0, 0, 1].into());
    for path in ["/healthz", "/readyz"] {
        for method in ["GET", "HEAD"] {
            assert_eq!(seen.ask(&format!("{method} {path}"), "x-none: 1", b"").await.status, 200, "{path}");
        }
    }
    seen.program.is_stopping.store(true, Ordering::SeqCst);
    let ready = seen.ask("GET /readyz", "x-none: 1", b"").await;
    assert_eq!((ready.status, ready.text().as_str()), (503, "not ready: the server is stopping\n"));
    assert_eq!(seen.ask("GET /healthz", "x-none: 1", b"").await.status, 200, "it lives");
    assert!(seen.ask("GET /metrics", "x-none: 1", b"").await.text().contains("lazuli_ready 0"));
}
