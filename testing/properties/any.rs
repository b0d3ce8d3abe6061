//! Any request a client may sign.

use contract::Service;
use env::Timestamp;
use testing::ACCOUNT;
use testing::raw::{Form, Order, Raw};
use testing::sim::chance::Chance;

const VERSIONS: [&str; 9] = [
    "2009-09-19",
    "2011-08-18",
    "2014-02-14",
    "2015-02-21",
    "2016-05-31",
    "2019-12-12",
    "2021-08-06",
    "2026-04-06",
    "2031-01-01",
];

pub fn request(chance: &mut Chance, now: Timestamp) -> Raw {
    let service = *chance.pick(&Service::ALL);
    let form = if chance.permille(300) { Form::SharedKeyLite } else { Form::SharedKey };
    let order = if chance.permille(300) { Order::Bytes } else { Order::Weights };
    let method = *chance.pick(&["GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "MERGE", "ODD-0"]);
    let mut headers: Vec<(String, String)> = Vec::new();

    let secondary = if chance.permille(150) { "-secondary" } else { "" };
    let inside = path(chance);
    let (path, mut signed_path) = if chance.permille(400) {
        headers.push(("Host".into(), format!(" {ACCOUNT}{secondary}.{}.localhost:1", service.name())));
        (format!("/{inside}"), None)
    } else {
        headers.push(("Host".into(), " 127.0.0.1:1".into()));
        (format!("/{ACCOUNT}{secondary}/{inside}"), Some(format!("/{ACCOUNT}/{inside}")))
    };
    if secondary.is_empty() || chance.permille(500) {
        signed_path = None;
    }
    let query = query(chance);
    let question = if !query.is_empty() || chance.permille(100) { "?" } else { "" };

    if chance.permille(900) {
        headers.push(("x-ms-version".into(), format!(" {}", chance.pick(&VERSIONS))));
    }
    let date = format!(" {}", now.http_date());
    match chance.below(10) {
        0 | 1 => headers.push(("Date".into(), date)),
        2 => headers.extend([("Date".into(), " whenever".into()), ("X-Ms-Date".into(), date)]),
        3 => headers.extend([("x-ms-date".into(), " ".into()), ("date".into(), date)]),
        _ => headers.push(("x-ms-date".into(), date)),
    }
    for name in [
        "Content-Encoding",
        "content-language",
        "Content-MD5",
        "Content-Type",
        "If-Modified-Since",
        "IF-MATCH",
        "If-None-Match",
        "If-Unmodified-Since",
        "Range",
    ] {
        if chance.permille(150) {
            headers.push((name.into(), value(chance)));
        }
    }
    for _ in 0..chance.below(5) {
        headers.push((name(chance), value(chance)));
    }
    if chance.permille(300) {
        headers.push(("User-Agent".into(), value(chance)));
    }
    let body = vec![b'x'; if chance.permille(300) { chance.below(30) as usize } else { 0 }];
    if !body.is_empty() || chance.permille(300) {
        headers.push(("Content-Length".into(), format!(" {}", body.len())));
    }
    headers.push(("Connection".into(), " close".into()));
    for at in (1..headers.len()).rev() {
        // Those of one name keep their order: it is signed.
        let other = chance.index(at + 1);
        if !headers[at].0.to_ascii_lowercase().starts_with("x-ms-")
            && !headers[other].0.to_ascii_lowercase().starts_with("x-ms-")
        {
            headers.swap(at, other);
        }
    }
    let authorization_at = chance.index(headers.len() + 1);
    let (method, target) = (method.to_string(), format!("{path}{question}{query}"));
    Raw { service, form, order, method, target, signed_path, headers, authorization_at, body }
}

fn path(chance: &mut Chance) -> String {
    const SEGMENTS: [&str; 22] = [
        "box",
        "b",
        "c",
        "",
        "%20",
        "a%2Fb",
        "a%2fb",
        "%C3%BC",
        "\u{fc}",
        "~!$&'()*,;=:@",
        "a+b",
        "..",
        "%2e",
        "$root",
        "$batch",
        "Tables('x')",
        "t(PartitionKey='%27',RowKey='b')",
        "messages",
        "%25",
        "a%3Fb",
        "devstoreaccount1",
        "devstoreaccount1-secondary",
    ];
    (0..chance.below(4)).map(|_| *chance.pick(&SEGMENTS)).collect::<Vec<_>>().join("/")
}

/// What the rule for the string to sign can tell apart: no line feed in it, no colon in a name.
fn query(chance: &mut Chance) -> String {
    const NAMES: [&str; 14] = [
        "comp",
        "Comp",
        "restype",
        "prefix",
        "include",
        "timeout",
        "marker",
        "$filter",
        "%24top",
        "odd%20name",
        "caf%C3%A9",
        "x.y",
        "delimiter",
        "c%2Bd",
    ];
    const VALUES: [&str; 20] = [
        "",
        "list",
        "metadata",
        "container",
        "service",
        "a,b",
        "b%2Ca",
        "x%20y",
        "a+b",
        "%2B",
        "%C3%A9",
        "\u{e9}",
        "a=b",
        "%26",
        "%25",
        "a:b",
        "/",
        "?",
        "%2f",
        "acl",
    ];
    let mut parts: Vec<String> = Vec::new();
    for _ in 0..chance.below(6) {
        let (name, value) = (chance.pick(&NAMES), chance.pick(&VALUES));
        parts.push(if value.is_empty() && chance.permille(500) { name.to_string() } else { format!("{name}={value}") });
        if chance.permille(50) {
            parts.push(String::new());
        }
    }
    parts.join("&")
}

fn name(chance: &mut Chance) -> String {
    const LETTERS: &[u8] = b"aabbcZ019--__.!#$%&'*+^`|~";
    let tail: String = (0..chance.below(5)).map(|_| *chance.pick(LETTERS) as char).collect();
    format!("{}{tail}", chance.pick(&["x-ms-meta-", "X-MS-Meta-", "x-ms-", "x-ms-meta"]))
}

fn value(chance: &mut Chance) -> String {
    const VALUES: [&str; 14] = [
        "",
        "1",
        "a  b",
        "\u{fc}",
        "a:b",
        "\"q  r\"",
        "a,b",
        "*",
        "a\tb",
        "\u{1F600}",
        "=",
        "bytes=0-1",
        "Fri, 02 Jan 2026 03:04:05 GMT",
        "a'b",
    ];
    let blank = |chance: &mut Chance| *chance.pick(&["", " ", "  ", "\t"]);
    format!("{}{}{}", blank(chance), chance.pick(&VALUES), blank(chance))
}
