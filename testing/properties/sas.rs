//! Account SAS, service SAS and user delegation SAS.

use std::collections::BTreeMap;

use contract::Service;
use contract::roles::ROLES;
use env::Clock;
use testing::raw::{grouped, pairs, unescape};
use testing::shapes::{self, Kind};
use testing::sim::chance::Chance;
use testing::{ACCOUNT, DelegationKey, Issuer, KEY, Request};

use crate::{Watched, chance, others, times};

/// A token on a request that it allows.
struct Case {
    kind: Kind,
    service: Service,
    method: &'static str,
    /// As it is sent, behind the account.
    path: &'static str,
    /// How much of the path names what the token is for, and that name decoded.
    named: &'static str,
    name: &'static str,
    /// Of the operation, not of the token.
    query: &'static str,
    /// Fields that say what the token is for.
    fixed: &'static [(&'static str, &'static str)],
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case { kind: Kind::Service, service: Service::Blob, method: "GET", path: "box/b", named: "box/b", name: "box/b", query: "", fixed: &[("sr", "b"), ("sp", "r")] },
    Case { kind: Kind::Service, service: Service::Blob, method: "DELETE", path: "box/b", named: "box", name: "box", query: "timeout=30", fixed: &[("sr", "c"), ("sp", "rwdl")] },
    Case { kind: Kind::Service, service: Service::Blob, method: "HEAD", path: "box/%C3%A9%2f%62", named: "box/%C3%A9%2f%62", name: "box/\u{e9}/b", query: "", fixed: &[("sr", "b"), ("sp", "r")] },
    Case { kind: Kind::Service, service: Service::Queue, method: "GET", path: "line/messages", named: "line", name: "line", query: "peekonly=true", fixed: &[("sp", "raup")] },
    Case { kind: Kind::Service, service: Service::Table, method: "GET", path: "People()", named: "People", name: "people", query: "$top=1", fixed: &[("tn", "People"), ("sp", "raud")] },
    Case { kind: Kind::Service, service: Service::File, method: "GET", path: "share/f", named: "share/f", name: "share/f", query: "", fixed: &[("sr", "f"), ("sp", "r")] },
    Case { kind: Kind::Service, service: Service::File, method: "GET", path: "share/d/f", named: "share", name: "share", query: "", fixed: &[("sr", "s"), ("sp", "rl")] },
    Case { kind: Kind::Account, service: Service::Blob, method: "DELETE", path: "box/b", named: "", name: "", query: "", fixed: &[("ss", "bq"), ("srt", "sco"), ("sp", "rwdl")] },
    Case { kind: Kind::Account, service: Service::Table, method: "GET", path: "People()", named: "", name: "", query: "", fixed: &[("ss", "t"), ("srt", "o"), ("sp", "r")] },
    Case { kind: Kind::UserDelegation, service: Service::Blob, method: "DELETE", path: "box/b", named: "box", name: "box", query: "timeout=30", fixed: &[("sr", "c"), ("sp", "rwdl")] },
    Case { kind: Kind::UserDelegation, service: Service::Blob, method: "GET", path: "box/b", named: "box/b", name: "box/b", query: "", fixed: &[("sr", "b"), ("sp", "r")] },
    Case { kind: Kind::UserDelegation, service: Service::Queue, method: "GET", path: "line/messages", named: "line", name: "line", query: "peekonly=true", fixed: &[("sp", "rp")] },
    Case { kind: Kind::UserDelegation, service: Service::File, method: "GET", path: "share/f", named: "share/f", name: "share/f", query: "", fixed: &[("sr", "f"), ("sp", "r")] },
];

/// A user of the principal's key, for tokens that are bound to one.
const USER: &str = "cccccccc-0000-4000-8000-000000000003";

impl Case {
    fn fields(&self, version: &str) -> Vec<&'static str> {
        shapes::fields(self.kind, self.service, version).expect("a version of the kind").collect()
    }

    /// The token's parameters: what is fixed, and any of the rest that the version signs.
    fn token(&self, chance: &mut Chance, version: &str, key: Option<&DelegationKey>) -> Vec<(String, String)> {
        let mut token: BTreeMap<&str, &str> = self.fixed.iter().copied().collect();
        token.extend([
            ("sv", version),
            ("se", *chance.pick(&["2026-01-02T04:04:05Z", "2026-01-03", "2026-01-02T05:04:05+01:00"])),
        ]);
        if let Some(key) = key {
            token.extend([
                ("skoid", key.object.as_str()),
                ("sktid", &key.tenant),
                ("skt", &key.start),
                ("ske", &key.expiry),
            ]);
            token.extend([("sks", key.service.as_str()), ("skv", &key.version)]);
        }
        const ANY: [(&str, &[&str]); 13] = [
            ("st", &["2026-01-01", "2026-01-02T03:04Z"]),
            ("sip", &["127.0.0.1", "127.0.0.0-127.255.255.255"]),
            ("spr", &["https,http"]),
            ("rscc", &["no-cache"]),
            ("rscd", &["attachment; filename=\"a b\""]),
            ("rsce", &["gzip"]),
            ("rscl", &["de"]),
            ("rsct", &["text/plain; charset=utf-8", "image/svg+xml"]),
            ("spk", &["a"]),
            ("epk", &["z'\u{e9}"]),
            ("saoid", &["dddddddd-0000-4000-8000-000000000004"]),
            ("scid", &["eeeeeeee-0000-4000-8000-000000000005"]),
            ("sduoid", &[USER]),
        ];
        let fields = self.fields(version);
        for (name, values) in ANY {
            if fields.contains(&name) && chance.permille(400) {
                token.insert(name, *chance.pick(values));
            }
        }
        if fields.contains(&"SRH") && chance.permille(500) {
            token.extend([("srh", "x-ms-client-request-id"), ("srq", "timeout")]);
            if !self.query.contains("timeout") {
                token.remove("srq");
            }
        }
        token.into_iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    /// Which parameters the token speaks for, decoded, and the resource; the rest of a request is not its business.
    fn meaning(&self, version: &str, bytes: &[u8]) -> Option<(String, BTreeMap<String, String>)> {
        let line = std::str::from_utf8(bytes).ok()?.lines().next()?;
        let mut words = line.split(' ');
        let target = words.nth(1)?;
        words.next().filter(|last| *last == "HTTP/1.1" && words.next().is_none())?;
        let (path, query) = target.split_once('?')?;
        // Escapes do not count, nor the case of a parameter's name.
        let mut path = unescape(path)?;
        let mut query = grouped(&pairs(query)?);
        let fields = self.fields(version);
        let speaks = |name: &str| match name {
            "sig" | "sr" | "tn" | "ss" | "srt" | "skoid" => true,
            "srh" | "srq" => fields.contains(&"SRH"),
            // Fields that a version does not sign, it does not know.
            name => fields.contains(&name),
        };
        if self.service == Service::Table {
            // A table's name has no case.
            path = path.to_ascii_lowercase();
            query.entry("tn".into()).and_modify(|name| *name = name.to_ascii_lowercase());
        }
        query.retain(|name, _| speaks(name));
        Some((path, query))
    }
}

fn escape(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~:,;".contains(&byte);
    value.bytes().map(|byte| if plain(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") }).collect()
}

async fn delegation_key(watched: &Watched, issuer: &Issuer, service: Service) -> DelegationKey {
    let info = "<KeyInfo><Start>2026-01-02T03:00:00Z</Start><Expiry>2026-01-03T03:00:00Z</Expiry></KeyInfo>";
    let token = issuer.token(&Issuer::claims(watched.world.clock.now()));
    let ask = Request::new("POST ?restype=service&comp=userdelegationkey").of(service).body(info).with_bearer(&token);
    DelegationKey::read(&watched.world.send_secure(&ask).await.text())
}

async fn watched(issuer: &Issuer) -> Watched {
    let watched = Watched::new().await;
    let put = Request::new("PUT box/%C3%A9%2Fb").header("x-ms-blob-type", "BlockBlob").body("content");
    assert_eq!(watched.world.send(&put).await.status, 201);
    watched.world.app.set_tokens(Some(issuer.tokens(&ROLES.iter().map(|role| role.name).collect::<Vec<_>>())));
    watched
}

/// Every byte of every parameter of a token, and of the name of what it is for: for each kind of token, service and version.
#[tokio::test]
async fn no_byte_of_a_token_can_be_changed() {
    let mut chance = chance("no_byte_of_a_token_can_be_changed");
    let issuer = Issuer::new();
    for _ in 0..times(1) {
        for case in CASES {
            for version in shapes::versions(case.kind, case.service) {
                let watched = watched(&issuer).await;
                let key = match case.kind {
                    Kind::UserDelegation => Some(delegation_key(&watched, &issuer, case.service).await),
                    _ => None,
                };
                one_token(&mut chance, &issuer, &watched, case, version, key.as_ref()).await;
            }
        }
    }
}

async fn one_token(
    chance: &mut Chance,
    issuer: &Issuer,
    watched: &Watched,
    case: &Case,
    version: &str,
    key: Option<&DelegationKey>,
) {
    let mut token = case.token(chance, version, key);
    let mut query = grouped(&pairs(case.query).expect("well formed"));
    query.extend(token.iter().cloned());
    let header = |_: &str| "me".to_string();
    let string =
        shapes::string_to_sign(case.kind, case.service, case.name, &query, header).expect("a version of the kind");
    token.push(("sig".into(), shapes::signature(key.map_or(KEY, |key| &key.value), &string)));
    for at in (1..token.len()).rev() {
        token.swap(at, chance.index(at + 1));
    }
    let bound = query.contains_key("sduoid");
    let tls = bound;
    let parameters: Vec<String> = token.iter().map(|(name, value)| format!("{name}={}", escape(value))).collect();
    let start = format!("{} /{ACCOUNT}/{}?", case.method, case.path);
    let mut head = format!("{start}{}", parameters.join("&"));
    let token_end = head.len();
    if !case.query.is_empty() {
        head += &format!("&{}", case.query);
    }
    head += " HTTP/1.1\r\nHost: localhost\r\nx-ms-version: 2026-04-06\r\nx-ms-client-request-id: me\r\n";
    if bound {
        // Somebody who may nothing on his own.
        let mut claims = Issuer::claims(watched.world.clock.now());
        claims["oid"] = USER.into();
        head += &format!("Authorization: Bearer {}\r\n", issuer.token(&claims));
    }
    let original = format!("{head}\r\n").into_bytes();

    let meaning = case.meaning(version, &original).expect("a request");
    let named = start.find(case.path).expect("the path");
    let positions = (named..named + case.named.len()).chain(start.len()..token_end);
    for at in positions {
        for other in others(chance, original[at], 2) {
            let mut changed = original.clone();
            changed[at] = other;
            if case.meaning(version, &changed).as_ref() == Some(&meaning) {
                continue;
            }
            watched.refuses(case.service, tls, &original, &changed).await;
        }
    }
    let answer = watched.world.send_raw_over(case.service, tls, &original).await;
    assert!(
        answer.is_let_in() && answer.status != 403,
        "{}\n{string}\n{}",
        String::from_utf8_lossy(&original),
        answer.text()
    );
}

/// A signed query for `path` and what became of it, with the same signature: the second must not be let in.
async fn check_pair(watched: &Watched, kind: Kind, service: Service, key: &str, name: &str, signed: &str, sent: &str) {
    let query = grouped(&pairs(signed.split_once('?').expect("a query").1).expect("well formed"));
    let string = shapes::string_to_sign(kind, service, name, &query, |_| "me".into()).expect("a version of the kind");
    let signature = escape(&shapes::signature(key, &string));
    let head = |target: &str| {
        let headers = "Host: localhost\r\nx-ms-version: 2026-04-06\r\nx-ms-client-request-id: me\r\n\r\n";
        format!("GET /{ACCOUNT}/{target}&sig={signature} HTTP/1.1\r\n{headers}")
    };
    let answer = watched.world.send_raw_to(service, head(signed).as_bytes()).await;
    assert!(answer.is_let_in(), "{signed}: {}", answer.text());
    watched.refuses(service, false, head(signed).as_bytes(), head(sent).as_bytes()).await;
}

/// Different tokens with one string to sign, made by hand.
#[tokio::test]
async fn no_token_can_be_read_as_another() {
    let issuer = Issuer::new();
    let watched = watched(&issuer).await;
    let key = delegation_key(&watched, &issuer, Service::Blob).await;
    let delegated = format!(
        "sv=2026-04-06&sr=b&sp=r&se=2026-01-03&skoid={}&sktid={}&skt={}&ske={}&sks=b&skv={}",
        key.object, key.tenant, key.start, key.expiry, key.version
    );
    let until = "sp=r&se=2026-01-03";
    // The demand for a parameter becomes an override, whose line feed is the one that the demand had.
    let (signed, sent) =
        (format!("box/b?{delegated}&srq=timeout&timeout=3"), format!("box/b?{delegated}&rscc=timeout:3&rsct=%0A"));
    check_pair(&watched, Kind::UserDelegation, Service::Blob, &key.value, "box/b", &signed, &sent).await;
    // So it does in the name of a parameter.
    let (signed, sent) = (format!("box/b?{delegated}&srq=q&q=3:4"), format!("box/b?{delegated}&srq=q:3&q%3A3=4"));
    check_pair(&watched, Kind::UserDelegation, Service::Blob, &key.value, "box/b", &signed, &sent).await;
    // Before sr was signed, nor was a snapshot.
    let signed = format!("box/b?sv=2015-04-05&{until}&sr=b");
    let sent = format!("box/b?sv=2015-04-05&{until}&sr=bs&snapshot=2026-01-01T00:00:00.0000000Z");
    check_pair(&watched, Kind::Service, Service::Blob, KEY, "box/b", &signed, &sent).await;
    // A file's name as that of a share, to list all that is in it.
    let signed = format!("share/f?sv=2026-04-06&{until}&sr=f");
    let sent = format!("share%2Ff/g?sv=2026-04-06&{until}&sr=s");
    check_pair(&watched, Kind::Service, Service::File, KEY, "share/f", &signed, &sent).await;
    // One of two values is not the value.
    let signed = format!("box/b?sv=2026-04-06&{until}&sr=b");
    check_pair(&watched, Kind::Service, Service::Blob, KEY, "box/b", &signed, &format!("{signed}&sp=w")).await;
}

/// The oldest tokens sign no overrides, so that whoever holds one could add them.
#[tokio::test]
async fn what_is_not_signed_overrides_nothing() {
    let issuer = Issuer::new();
    let watched = watched(&issuer).await;
    for (version, expected) in [("2012-02-12", "application/octet-stream"), ("2013-08-15", "text/html")] {
        let mut parameters = format!("sv={version}&sp=r&se=2026-01-03&sr=b&rsct=text/html");
        let query = grouped(&pairs(&parameters).expect("well formed"));
        let string = shapes::string_to_sign(Kind::Service, Service::Blob, "box/b", &query, |_| String::new());
        parameters += &format!("&sig={}", escape(&shapes::signature(KEY, &string.expect("a version"))));
        let head = format!("GET /{ACCOUNT}/box/b?{parameters} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let answer = watched.world.send_raw(head.as_bytes()).await;
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, Some(expected)),
            "{version}: {}",
            answer.text()
        );
    }
}
