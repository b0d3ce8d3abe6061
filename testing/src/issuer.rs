//! Somebody who issues bearer tokens and whom the server in the box trusts.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use contract::roles::Role;
use env::Timestamp;
use http::tokens::{Assignment, Tokens};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

pub(crate) const NAME: &str = "https://issuer.example/";
pub const PRINCIPAL: &str = "aaaaaaaa-0000-4000-8000-000000000001";
pub const TENANT: &str = "bbbbbbbb-0000-4000-8000-000000000002";

pub struct Issuer(EcdsaKeyPair);

impl Issuer {
    pub fn new() -> Issuer {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
        Issuer(EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref(), &random).expect("a pair"))
    }

    /// What the server is told: this issuer is trusted, and PRINCIPAL has these roles everywhere.
    pub fn tokens(&self, roles: &[&str]) -> Tokens {
        let assign = |name: &&str| Assignment {
            principal: PRINCIPAL.into(),
            role: Role::named(name).expect("a role"),
            account: None,
            within: None,
        };
        let point = self.0.public_key().as_ref();
        let (x, y) = (URL_SAFE_NO_PAD.encode(&point[1..33]), URL_SAFE_NO_PAD.encode(&point[33..]));
        let keys = json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": "k", "x": x, "y": y}]}).to_string();
        let assignments = roles.iter().map(assign).collect();
        Tokens::new(vec![NAME.into()], Vec::new(), &keys, assignments, None).expect("well formed")
    }

    /// What a valid token for PRINCIPAL says.
    pub fn claims(now: Timestamp) -> Value {
        let seconds = now.seconds() - Timestamp::UNIX_EPOCH.seconds();
        json!({"iss": NAME, "aud": "https://storage.azure.com", "nbf": seconds, "exp": seconds + 3600,
            "oid": PRINCIPAL, "tid": TENANT})
    }

    pub fn token(&self, claims: &Value) -> String {
        self.signed(json!({"alg": "ES256", "kid": "k"}).to_string().as_bytes(), claims.to_string().as_bytes())
    }

    /// Whatever header and claims say.
    pub fn signed(&self, header: &[u8], claims: &[u8]) -> String {
        let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        let signature = self.0.sign(&SystemRandom::new(), signed.as_bytes()).expect("signed");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }
}

impl Default for Issuer {
    fn default() -> Self {
        Issuer::new()
    }
}
