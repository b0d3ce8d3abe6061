//! What the fuzz targets do with their bytes: one function each, so that `cargo test` replays what the fuzzer runs.
//!
//! Always: no panic, no 5xx but 501 and 503, nothing stored by who may not, and what is let in was signed.

use std::cell::RefCell;
use std::sync::Arc;

use contract::Service;
use contract::roles::ROLES;
use engine::memory::MemoryEngine;
use env::{Clock, Timestamp};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use crate::issuer::NAME;
use crate::raw::{Form, Raw, grouped, pairs};
use crate::shapes::{self, Kind};
use crate::sim::panics;
use crate::{ACCOUNT, Answer, DelegationKey, Issuer, KEY, Request, World};

pub mod blobs;
pub mod signed;
pub mod smb;
pub mod stored;
pub mod tables;
pub mod tags;
pub mod values;

/// A target's name and what it runs.
pub type Target = (&'static str, fn(&[u8]));

pub const TARGETS: [Target; 23] = [
    ("sas_query", sas_query),
    ("authorization_header", authorization_header),
    ("canonicalisation", canonicalisation),
    ("jwt", jwt),
    ("http_head", http_head),
    ("xml", xml),
    ("odata_filter", tables::odata_filter),
    ("odata_entity", tables::odata_entity),
    ("table_batch", tables::table_batch),
    ("tag_expression", tags::tag_expression),
    ("spnego_token", smb::spnego_token),
    ("ntlm_message", smb::ntlm_message),
    ("smb_message", smb::smb_message),
    ("signed_requests", signed::signed_requests),
    ("range", blobs::range),
    ("block_list", blobs::block_list),
    ("blob_batch", blobs::blob_batch),
    ("structured_body", blobs::structured_body),
    ("copy_source", blobs::copy_source),
    ("moment", values::moment),
    ("security_descriptor", values::security_descriptor),
    ("stored_record", stored::stored_record),
    ("engine_record", stored::engine_record),
];

/// A server with container `box`, blob `b`, a CORS rule, a trusted issuer and a user delegation key.
struct Server {
    runtime: Runtime,
    world: World,
    engine: MemoryEngine,
    issuer: Issuer,
    key: DelegationKey,
    commits: u64,
}

const PROPERTIES: &str = "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>http://page</AllowedOrigins>\
    <AllowedMethods>GET</AllowedMethods><AllowedHeaders>*</AllowedHeaders><ExposedHeaders>*</ExposedHeaders>\
    <MaxAgeInSeconds>60</MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>";

impl Server {
    fn new() -> Server {
        // Paused: what waits for time gets it at once.
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let (engine, issuer) = (MemoryEngine::new(), Issuer::new());
        let (world, key) = runtime.block_on(async {
            let world = World::over(Arc::new(engine.clone())).await;
            for (request, status) in [
                (Request::new("PUT box?restype=container"), 201),
                (Request::new("PUT box/b").header("x-ms-blob-type", "BlockBlob").body("content"), 201),
                (Request::new("PUT ?restype=service&comp=properties").body(PROPERTIES), 202),
            ] {
                assert_eq!(world.send(&request).await.status, status);
            }
            world.app.set_listening(vec![(Service::Blob, ([127, 0, 0, 1], 10000).into())]);
            world.app.set_tokens(Some(issuer.tokens(&ROLES.iter().map(|role| role.name).collect::<Vec<_>>())));
            let info = "<KeyInfo><Start>2026-01-02T03:00:00Z</Start><Expiry>2026-01-03T03:00:00Z</Expiry></KeyInfo>";
            let token = issuer.token(&Issuer::claims(world.clock.now()));
            let ask = Request::new("POST ?restype=service&comp=userdelegationkey").body(info).with_bearer(&token);
            let key = DelegationKey::read(&world.send_secure(&ask).await.text());
            (world, key)
        });
        let commits = engine.commits();
        Server { runtime, world, engine, issuer, key, commits }
    }

    /// Sends, and holds the answer against what every answer must be.
    fn ask(&self, service: Service, tls: bool, bytes: &[u8]) -> Answer {
        let before = panics::count();
        let answer = self.runtime.block_on(self.world.send_raw_over(service, tls, bytes));
        assert_eq!(panics::count(), before, "it panicked: {}", show(bytes));
        check_status(answer.status, bytes);
        answer
    }

    fn is_unchanged(&self) -> bool {
        self.engine.commits() == self.commits
    }
}

fn now(server: &Server) -> Timestamp {
    server.world.clock.now()
}

fn check_status(status: u16, bytes: &[u8]) {
    assert!(status < 500 || status == 501 || status == 503, "{status}: {}", show(bytes));
}

fn show(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The same server for every input of a thread, and a new one after an input that changed it.
fn with_server(look: impl FnOnce(&Server)) {
    thread_local! {
        static SERVER: RefCell<Option<Server>> = const { RefCell::new(None) };
    }
    SERVER.with_borrow_mut(|server| {
        let mine = server.get_or_insert_with(Server::new);
        look(mine);
        if !mine.is_unchanged() {
            *server = None;
        }
    });
}

/// No byte that would end the line or the target: those are http_head's.
fn is_inline(bytes: &[u8]) -> bool {
    !bytes.iter().any(|byte| b"\r\n".contains(byte))
}

/// The bytes are the query of a request.
pub fn sas_query(bytes: &[u8]) {
    if !is_inline(bytes) || bytes.contains(&b' ') {
        return;
    }
    with_server(|server| {
        for (service, method, path) in [
            (Service::Blob, "GET", "box/b"),
            (Service::Blob, "DELETE", "box/b"),
            (Service::Queue, "GET", "line/messages"),
            (Service::Table, "GET", "People()"),
            (Service::File, "GET", "share/f"),
        ] {
            let head = format!("{method} /{ACCOUNT}/{path}?");
            let tail = " HTTP/1.1\r\nHost: localhost\r\nx-ms-version: 2026-04-06\r\n\r\n";
            let commits = server.engine.commits();
            let answer = server.ask(service, false, &[head.as_bytes(), bytes, tail.as_bytes()].concat());
            let is_signed = is_signed(server, service, bytes);
            if is_signed == Some(false) {
                assert!(
                    !answer.is_let_in(),
                    "{method} {path} was let in by a query that nobody signed: {}",
                    show(bytes)
                );
            }
            if is_signed != Some(true) {
                assert!(
                    answer.status >= 400 && server.engine.commits() == commits,
                    "{method} {path} was carried out: {}",
                    show(bytes)
                );
            }
        }
    });
}

/// Is the query signed with a key of ours, by a client's reading? `None` without a signature.
fn is_signed(server: &Server, service: Service, query: &[u8]) -> Option<bool> {
    let query = std::str::from_utf8(query).ok().and_then(pairs)?;
    let query = grouped(&query);
    let has = |name: &str| query.get(name).is_some_and(|value| !value.is_empty());
    let field = |name: &str| query.get(name).map_or("", String::as_str);
    let signature = query.get("sig").filter(|signature| !signature.is_empty())?;
    let (kind, key) = match () {
        () if has("ss") || has("srt") => (Kind::Account, KEY),
        () if has("skoid") => (Kind::UserDelegation, server.key.value.as_str()),
        () => (Kind::Service, KEY),
    };
    let name = match (service, field("sr")) {
        (Service::Blob, "c") => "box",
        (Service::Blob, _) => "box/b",
        (Service::Queue, _) => "line",
        (Service::Table, _) => "people",
        (Service::File, "s") => "share",
        (Service::File, _) => "share/f",
    };
    let header =
        |name: &str| if name.eq_ignore_ascii_case("x-ms-version") { "2026-04-06".into() } else { String::new() };
    let string = shapes::string_to_sign(kind, service, name, &query, header);
    Some(string.is_some_and(|string| shapes::signature(key, &string) == *signature))
}

/// The bytes are the value of Authorization.
pub fn authorization_header(bytes: &[u8]) {
    if !is_inline(bytes) {
        return;
    }
    with_server(|server| {
        let date = server.world.clock.now().http_date();
        let head = format!(
            "DELETE /{ACCOUNT}/box/b HTTP/1.1\r\nHost: localhost\r\nx-ms-version: 2026-04-06\r\nx-ms-date: {date}\r\n"
        );
        let bytes = [head.as_bytes(), b"Authorization:", bytes, b"\r\n\r\n"].concat();
        for tls in [false, true] {
            let answer = server.ask(Service::Blob, tls, &bytes);
            if answer.is_let_in() {
                assert!(is_the_clients(Service::Blob, &bytes), "nobody signed {}", show(&bytes));
            } else {
                assert!(server.is_unchanged(), "it was carried out: {}", show(&bytes));
            }
        }
    });
}

/// Is it, but for blanks, what a client would have put there?
fn is_the_clients(service: Service, bytes: &[u8]) -> bool {
    let Some((mut raw, Some(value))) = Raw::parse(service, bytes) else { return false };
    [Form::SharedKey, Form::SharedKeyLite].into_iter().any(|form| {
        raw.form = form;
        let signature = shapes::signature(KEY, &raw.string_to_sign());
        let (scheme, credential) = value.split_once(' ').unwrap_or((&value, ""));
        scheme == form.scheme() && credential.trim() == format!("{ACCOUNT}:{signature}")
    })
}

/// Two heads, `---` between them, the first line says for which service and whether `lite`. The first is signed, the second is sent with
/// that signature: it is let in only if it means the same.
pub fn canonicalisation(bytes: &[u8]) {
    let at = |wanted: &[u8]| bytes.windows(wanted.len()).position(|part| part == wanted);
    let Some(first) = at(b"\n") else { return };
    let how = show(&bytes[..first]);
    let service = Service::ALL.into_iter().find(|service| how.starts_with(service.name())).unwrap_or(Service::Blob);
    let rest = &bytes[first + 1..];
    let (signed, sent) = match rest.windows(5).position(|part| part == b"\n---\n") {
        Some(at) => (&rest[..at], &rest[at + 5..]),
        None => (rest, rest),
    };
    let Some((mut raw, _)) = Raw::parse(service, &whole(signed, "Connection: close")) else { return };
    raw.form = if how.ends_with("lite") { Form::SharedKeyLite } else { Form::SharedKey };
    let signature = shapes::signature(KEY, &raw.string_to_sign());
    let authorization = format!("Authorization: {} {ACCOUNT}:{signature}", raw.form.scheme());
    let (signed, sent) = (whole(signed, &authorization), whole(sent, &authorization));
    with_server(|server| {
        let answer = server.ask(service, false, &sent);
        let preflight = sent.trim_ascii_start().starts_with(b"OPTIONS ");
        let let_in = answer.is_let_in() && !preflight;
        let meant = Raw::meaning(service, &signed).zip(Raw::meaning(service, &sent));
        let is_covered = meant.is_some_and(|(signed, sent)| signed.covers(&sent));
        assert!(
            !let_in || is_covered,
            "let in with another's signature: {}\n--- signed\n{}",
            show(&sent),
            show(&signed)
        );
        assert!(let_in || server.is_unchanged(), "carried out: {}", show(&sent));
    });
}

/// A head with one more header behind its first line, its lines ended as they should be.
fn whole(part: &[u8], header: &str) -> Vec<u8> {
    let end = part.iter().position(|byte| *byte == b'\n').unwrap_or(part.len());
    let mut head = [part[..end].trim_ascii_end(), b"\n", header.as_bytes(), &part[end..]].concat();
    head.extend(b"\n\n");
    head
}

/// A token; or a header and claims with a line feed between them, which are signed first.
pub fn jwt(bytes: &[u8]) {
    with_server(|server| {
        let tokens = server.issuer.tokens(&[]);
        let now = server.world.clock.now();
        match bytes.iter().position(|byte| *byte == b'\n') {
            None => {
                let verified = std::str::from_utf8(bytes).is_ok_and(|token| tokens.verify(token, now).is_ok());
                assert!(!verified, "nobody signed {}", show(bytes));
            }
            Some(at) => {
                let (header, claims) = (&bytes[..at], &bytes[at + 1..]);
                if tokens.verify(&server.issuer.signed(header, claims), now).is_ok() {
                    assert!(
                        is_right(header, claims, now.seconds() - env::Timestamp::UNIX_EPOCH.seconds()),
                        "{}",
                        show(bytes)
                    );
                }
            }
        }
    });
}

/// A client's reading of what a token must say.
fn is_right(header: &[u8], claims: &[u8], now: u64) -> bool {
    let (Ok(header), Ok(claims)) = (serde_json::from_slice::<Value>(header), serde_json::from_slice::<Value>(claims))
    else {
        return false;
    };
    let ours = ["https://storage.azure.com", "e406a681-f3d4-42a8-90b6-c2b029497af1"];
    let is_ours = |audience: &Value| audience.as_str().is_some_and(|text| ours.contains(&text.trim_end_matches('/')));
    let audience = &claims["aud"];
    header["alg"] == "ES256"
        && header.get("crit").is_none()
        && claims["iss"] == NAME
        && (is_ours(audience) || audience.as_array().is_some_and(|several| several.iter().any(is_ours)))
        && claims["exp"].as_f64().is_some_and(|expiry| expiry + 300.0 > now as f64)
        && claims.get("nbf").is_none_or(|from| from.as_f64().is_some_and(|from| from - 301.0 < now as f64))
        && ["oid", "sub"].iter().any(|name| claims[*name].as_str().is_some_and(|id| !id.is_empty()))
}

/// The bytes are all that comes over a connection.
pub fn http_head(bytes: &[u8]) {
    with_server(|server| {
        let answer = server.ask(Service::Blob, false, bytes);
        for status in statuses(&answer.raw) {
            check_status(status, bytes);
            // A preflight is answered to anybody; nothing else is, without a signature.
            let preflight = status == 100 || status == 200 && bytes.windows(8).any(|word| word == b"OPTIONS ");
            assert!(status >= 400 || preflight, "{status}: {}", show(bytes));
        }
        assert!(server.is_unchanged(), "something was stored: {}", show(bytes));
    });
}

/// Of all answers on a connection.
fn statuses(mut raw: &[u8]) -> Vec<u16> {
    let mut statuses = Vec::new();
    while let Some(end) = raw.windows(4).position(|four| four == b"\r\n\r\n") {
        let head = show(&raw[..end]);
        statuses.push(head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("an answer has a status"));
        let length =
            head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).and_then(|length| length.parse().ok());
        raw = &raw[end + 4..];
        // HEAD has a length and no body.
        if !raw.starts_with(b"HTTP/1.1 ") {
            raw = &raw[length.unwrap_or(0).min(raw.len())..];
        }
    }
    statuses
}

/// The bytes are a body: service properties of each service, the policies of a container, the tags of a blob, the wish for a user
/// delegation key.
pub fn xml(bytes: &[u8]) {
    with_server(|server| {
        let now = server.world.clock.now();
        let token = server.issuer.token(&Issuer::claims(now));
        let key = Request::new("POST ?restype=service&comp=userdelegationkey").body(bytes).with_bearer(&token);
        server.ask(Service::Blob, true, &key.bytes(now));
        let properties = Service::ALL.map(|service| (service, "?restype=service&comp=properties"));
        let others = [(Service::Blob, "box?restype=container&comp=acl"), (Service::Blob, "box/b?comp=tags")];
        for (service, target) in properties.into_iter().chain(others) {
            let put = |body: &[u8]| {
                let request = Request::new(&format!("PUT {target}")).of(service).body(body);
                server.ask(service, false, &request.bytes(now)).status
            };
            let get = || {
                let answer = server.ask(service, false, &Request::new(&format!("GET {target}")).of(service).bytes(now));
                assert_eq!(answer.status, 200, "it cannot be read back: {}", show(bytes));
                answer.body
            };
            if put(bytes) < 300 {
                let stored = get();
                assert!(put(&stored) < 300, "what was stored is not taken again: {}\n{}", show(bytes), show(&stored));
                assert_eq!(show(&get()), show(&stored), "it changes on its way: {}", show(bytes));
            }
        }
    });
}
