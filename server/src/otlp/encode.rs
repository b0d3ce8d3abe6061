//! Spans as OTLP writes them in JSON: ids in hexadecimal, 64-bit numbers as text, names after OpenTelemetry's conventions for HTTP servers.

use env::Timestamp;
use http::trace::Span;
use serde_json::{Value, json};

const SERVER: u8 = 2;
const INTERNAL: u8 = 1;
const ERROR: u8 = 2;

/// The body of one export.
pub fn request(resource: &[(String, String)], spans: &[Span]) -> String {
    let resource: Vec<Value> = resource.iter().map(|(name, value)| text(name, value)).collect();
    let spans: Vec<Value> = spans.iter().flat_map(of_request).collect();
    let scope = json!({"name": "lazuli", "version": env!("CARGO_PKG_VERSION")});
    json!({"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": [{"scope": scope, "spans": spans}]}]})
        .to_string()
}

/// The request's own span, then those of its stages.
fn of_request(span: &Span) -> Vec<Value> {
    let operation = span.operation.map(|operation| format!("{operation:?}"));
    let (host, port) = match span.host.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()),
        _ => (span.host.as_str(), None),
    };
    let mut attributes = vec![
        text("http.request.method", &span.method),
        text("url.scheme", if span.tls { "https" } else { "http" }),
        text("url.path", &span.path),
        number("http.response.status_code", u64::from(span.status)),
        text("network.protocol.version", "1.1"),
        text("client.address", &span.client.to_string()),
        text("server.address", host),
        text("az.namespace", "Microsoft.Storage"),
        text("az.service_request_id", &span.request),
        text("lazuli.service", span.service.name()),
    ];
    let optional = [
        ("user_agent.original", span.agent.as_str()),
        ("az.client_request_id", &span.client_request),
        ("lazuli.operation", operation.as_deref().unwrap_or_default()),
        ("lazuli.account", &span.account),
        ("lazuli.error_code", &span.code),
    ];
    attributes.extend(optional.iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| text(name, value)));
    let sizes = [
        ("server.port", port),
        ("http.request.body.size", span.received_bytes),
        ("http.response.body.size", span.sent_bytes),
    ];
    attributes.extend(sizes.into_iter().filter_map(|(name, value)| Some(number(name, value?))));
    let is_error = span.status >= 500;
    if is_error {
        attributes.push(text("error.type", if span.code.is_empty() { "500" } else { &span.code }));
    }
    let name = operation.unwrap_or_else(|| span.method.clone());
    let mut own = one(span, (&name, SERVER), span.id, (span.begun, span.ended));
    own["attributes"] = attributes.into();
    own["status"] = if is_error { json!({"code": ERROR}) } else { json!({}) };
    if let Some(parent) = span.parent {
        own["parentSpanId"] = format!("{parent:016x}").into();
        own["traceState"] = span.state.as_str().into();
    }
    let stages = span.stages.iter().enumerate().map(|(number, stage)| {
        let id = span.id ^ (number as u64 + 1);
        let mut child = one(span, (stage.name, INTERNAL), id, (stage.begun, stage.ended));
        child["parentSpanId"] = format!("{:016x}", span.id).into();
        child
    });
    std::iter::once(own).chain(stages).collect()
}

fn one(span: &Span, (name, kind): (&str, u8), id: u64, (begun, ended): (Timestamp, Timestamp)) -> Value {
    json!({
        "traceId": format!("{:032x}", span.trace), "spanId": format!("{id:016x}"), "flags": 1, "name": name, "kind": kind,
        "startTimeUnixNano": nanoseconds(begun), "endTimeUnixNano": nanoseconds(ended.max(begun)),
    })
}

fn nanoseconds(moment: Timestamp) -> String {
    let ticks = moment.ticks().saturating_sub(Timestamp::UNIX_EPOCH.ticks());
    ticks.saturating_mul(100).to_string()
}

fn text(name: &str, value: &str) -> Value {
    json!({"key": name, "value": {"stringValue": value}})
}

fn number(name: &str, value: u64) -> Value {
    json!({"key": name, "value": {"intValue": value.to_string()}})
}
