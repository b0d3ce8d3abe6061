use contract::operations::OperationId;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::json;

use super::*;

struct Issuer {
    pair: EcdsaKeyPair,
    id: &'static str,
}

impl Issuer {
    fn new(id: &'static str) -> Issuer {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref(), &random).expect("a pair");
        Issuer { pair, id }
    }

    fn key(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        json!({"kty": "EC", "crv": "P-256", "kid": self.id, "use": "sig",
            "x": URL_SAFE_NO_PAD.encode(&point[1..33]), "y": URL_SAFE_NO_PAD.encode(&point[33..])})
    }

    fn token(&self, header: Value, claims: Value) -> String {
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(header), part(claims));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).expect("signed");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }
}

const NOW: u64 = 1_800_000_000;

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH.plus_seconds(NOW)
}

fn trusting(keys: &[Value], assignments: Vec<Assignment>) -> Tokens {
    let keys = json!({ "keys": keys }).to_string();
    Tokens::new(vec!["https://issuer/".into()], Vec::new(), &keys, assignments, None).expect("right")
}

fn claims() -> Value {
    json!({"iss": "https://issuer/", "aud": "https://storage.azure.com/", "exp": NOW + 60, "nbf": NOW - 60,
        "oid": "AAAA", "tid": "bbbb", "groups": ["readers"], "roles": ["App.Write"]})
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

fn without(name: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().expect("an object").remove(name);
    claims
}

#[test]
fn a_valid_token_names_its_principal() {
    let issuer = Issuer::new("one");
    let tokens = trusting(&[Issuer::new("two").key(), issuer.key()], Vec::new());
    let expected =
        Principal { object: "aaaa".into(), tenant: "bbbb".into(), also: vec!["readers".into(), "App.Write".into()] };
    for header in [json!({"alg": "ES256", "kid": "one"}), json!({"alg": "ES256"})] {
        assert_eq!(tokens.verify(&issuer.token(header, claims()), now()), Ok(expected.clone()));
    }
    let header = || json!({"alg": "ES256", "kid": "one"});
    for claims in [
        with("aud", json!(["other", "https://storage.azure.com"])),
        with("exp", json!(NOW - 299)),
        with("nbf", json!(NOW + 300)),
        without("nbf"),
        with("exp", json!(NOW as f64 + 0.5)),
    ] {
        assert!(tokens.verify(&issuer.token(header(), claims.clone()), now()).is_ok(), "{claims}");
    }
    let by_subject =
        issuer.token(header(), json!({"iss": "https://issuer/", "aud": AUDIENCES[1], "exp": NOW + 1, "sub": "me"}));
    assert_eq!(tokens.verify(&by_subject, now()).map(|principal| principal.object), Ok("me".to_string()));
}

#[test]
fn anything_else_is_refused() {
    let issuer = Issuer::new("one");
    let tokens = trusting(&[issuer.key()], Vec::new());
    let header = || json!({"alg": "ES256", "kid": "one"});
    for (claims, word) in [
        (with("iss", json!("https://issuer")), "Issuer"),
        (without("iss"), "Issuer"),
        (with("aud", json!("https://vault.azure.net")), "Audience"),
        (without("aud"), "Audience"),
        (with("exp", json!(NOW - 300)), "expired"),
        (with("exp", json!("tomorrow")), "Lifetime"),
        (with("exp", json!(-1)), "Lifetime"),
        (without("exp"), "Lifetime"),
        (with("nbf", json!(NOW + 301)), "not valid yet"),
        (with("nbf", json!(null)), "Lifetime"),
        (without("oid"), "nobody"),
        (with("oid", json!("")), "nobody"),
        (json!([]), "claims"),
    ] {
        let error = tokens.verify(&issuer.token(header(), claims.clone()), now()).expect_err("refused");
        assert!(error.contains(word), "{claims}: {error}");
    }
    for (header, word) in [
        (json!({"alg": "none", "kid": "one"}), "algorithm"),
        (json!({"alg": "HS256", "kid": "one"}), "algorithm"),
        (json!({"alg": "RS256", "kid": "one"}), "Signature"),
        (json!({"alg": "ES384", "kid": "one"}), "Signature"),
        (json!({"alg": "ES256", "kid": "other"}), "Signature"),
        (json!({"kid": "one"}), "algorithm"),
        (json!({"alg": "ES256", "kid": "one", "crit": ["b64"]}), "extension"),
    ] {
        let error = tokens.verify(&issuer.token(header.clone(), claims()), now()).expect_err("refused");
        assert!(error.contains(word), "{header}: {error}");
    }
    let stranger = Issuer::new("one").token(header(), claims());
    assert!(tokens.verify(&stranger, now()).is_err());
    for text in ["", ".", "..", "...", "a.b.c", "eyJhbGciOiJFUzI1NiJ9.e30.", "e30.e30.e30", "\u{e9}.\u{e9}.\u{e9}"] {
        assert!(tokens.verify(text, now()).is_err(), "{text}");
    }
}

/// Whatever byte of a token is changed, it is refused.
#[test]
fn every_byte_counts() {
    let issuer = Issuer::new("one");
    let tokens = trusting(&[issuer.key()], Vec::new());
    let token = issuer.token(json!({"alg": "ES256", "kid": "one"}), claims());
    for at in 0..token.len() {
        for other in [b'A', b'z', b'.', b'=', b' '] {
            let mut bytes = token.clone().into_bytes();
            if bytes[at] != other {
                bytes[at] = other;
                let changed = String::from_utf8(bytes).expect("text");
                assert!(tokens.verify(&changed, now()).is_err(), "byte {at} as {other}");
            }
        }
    }
}

#[test]
fn key_sets() {
    let good = Issuer::new("one").key();
    let set =
        |keys: Value| read_keys(&json!({ "keys": keys }).to_string()).map(|keys| keys.len()).map_err(|e| e.to_string());
    assert_eq!(
        set(json!([good, {"kty": "oct", "k": "AAAA"}, {"kty": "EC", "crv": "P-521", "x": "AA", "y": "AA"}])),
        Ok(1)
    );
    let mut for_encryption = good.clone();
    for_encryption["use"] = json!("enc");
    for bad in [json!([]), json!([for_encryption]), json!([{"kty": "RSA", "n": "***", "e": "AQAB"}]), json!("x")] {
        assert!(set(bad.clone()).is_err(), "{bad}");
    }
    assert!(read_keys("[").is_err());
    assert!(Tokens::new(Vec::new(), Vec::new(), &json!({"keys": [good]}).to_string(), Vec::new(), None).is_err());
}

#[test]
fn roles_hold_where_they_are_assigned() {
    let assign = |principal: &str, role: &str, account: Option<&str>, within: Option<&str>| Assignment {
        principal: principal.into(),
        role: Role::named(role).expect("a role"),
        account: account.map(String::from),
        within: within.map(String::from),
    };
    let tokens = trusting(
        &[Issuer::new("one").key()],
        vec![
            assign("AAAA", "Storage Blob Data Contributor", Some("mine"), Some("box")),
            assign("readers", "Storage Blob Data Reader", None, None),
            assign("*", "Storage Queue Data Message Sender", None, None),
        ],
    );
    let row = |id: OperationId| {
        let rows = Service::ALL.into_iter().flat_map(|service| service.rows().iter().map(move |row| (service, row)));
        rows.into_iter().find(|(_, row)| row.id == id).expect("a row")
    };
    let alone = Principal::by_id("aaaa", "t");
    let reader = Principal { also: vec!["readers".into()], ..Principal::by_id("cccc", "t") };
    use OperationId::*;
    for (principal, account, within, id, expected) in [
        (&alone, "mine", "box", PutBlockBlob, true),
        (&alone, "mine", "other", PutBlockBlob, false),
        (&alone, "yours", "box", PutBlockBlob, false),
        (&alone, "mine", "", ListContainers, false),
        (&reader, "mine", "box", PutBlockBlob, false),
        (&reader, "yours", "any", GetBlob, true),
        (&reader, "yours", "", ListContainers, true),
        (&alone, "yours", "line", PutMessage, true),
        (&alone, "yours", "line", GetMessages, false),
    ] {
        assert_eq!(
            tokens.allow(principal, account, within, row(id), false),
            expected,
            "{principal:?} {account} {within} {id:?}"
        );
    }
}
