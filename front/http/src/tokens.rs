//! Bearer tokens: whose are trusted, what makes one valid, and what its principal may do.
//!
//! A token is a JSON Web Token in compact form. Verification is small enough to stand here, over the signatures of `ring`: the libraries
//! that do it read the system's clock themselves. Nothing in a token is looked at before its signature holds, except which key made it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use contract::Service;
use contract::operations::Operation;
use contract::roles::{ROLES, Role};
use env::Timestamp;
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};
use serde_json::{Map, Value};

use crate::issuer::Issuer;

/// How far the clocks of issuer and server may be apart.
const SKEW_SECONDS: u64 = 300;
/// What tokens for the storage of any account are made out to.
const AUDIENCES: [&str; 2] = ["https://storage.azure.com", "e406a681-f3d4-42a8-90b6-c2b029497af1"];
const DEFAULT_AUTHORITY: &str = "https://login.microsoftonline.com/common";

/// Whose tokens are trusted, and for what.
#[derive(Clone, Debug)]
pub struct Tokens {
    issuers: Vec<String>,
    audiences: Vec<String>,
    keys: Vec<SigningKey>,
    assignments: Vec<Assignment>,
    /// Where clients are told to get a token.
    authority: Option<String>,
}

/// Who has which role, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    /// An object id, a group or an application role that the token names; `*` for every valid token.
    pub principal: String,
    pub role: &'static Role,
    /// `None` for every account.
    pub account: Option<String>,
    /// The one container, queue, table or share it is about; `None` for all, and for the service itself.
    pub within: Option<String>,
}

/// Whom a valid token names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Principal {
    pub object: String,
    pub tenant: String,
    /// Groups and application roles: names under which roles may be assigned, beside the object id.
    also: Vec<String>,
}

impl Principal {
    /// Known by its id alone, as a user delegation SAS names it.
    pub fn by_id(object: &str, tenant: &str) -> Principal {
        Principal { object: object.to_ascii_lowercase(), tenant: tenant.to_ascii_lowercase(), also: Vec::new() }
    }
}

/// Why the configuration cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokensError(String);

impl fmt::Display for TokensError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TokensError {}

impl Tokens {
    /// `keys` is a JSON Web Key Set. Without audiences those of the public service hold.
    pub fn new(
        issuers: Vec<String>,
        audiences: Vec<String>,
        keys: &str,
        assignments: Vec<Assignment>,
        authority: Option<String>,
    ) -> Result<Tokens, TokensError> {
        if issuers.is_empty() {
            return Err(TokensError("no issuer is named, so no token could ever be right".into()));
        }
        Ok(Tokens { issuers, keys: read_keys(keys)?, ..Tokens::of_nobody(audiences, assignments, authority) })
    }

    /// Nobody's are trusted yet.
    pub fn of_nobody(audiences: Vec<String>, assignments: Vec<Assignment>, authority: Option<String>) -> Tokens {
        let audiences = match audiences.is_empty() {
            true => AUDIENCES.map(String::from).to_vec(),
            false => audiences,
        };
        Tokens { issuers: Vec::new(), audiences, keys: Vec::new(), assignments, authority }
    }

    /// Those of the development issuer, too. Where nobody was given a role, everybody has every role.
    pub fn and_of(mut self, issuer: &Issuer) -> Result<Tokens, TokensError> {
        self.issuers.push(issuer.name());
        self.keys.extend(read_keys(&issuer.keys())?);
        self.authority.get_or_insert_with(|| issuer.authority());
        if self.assignments.is_empty() {
            let everybody = |role| Assignment { principal: "*".into(), role, account: None, within: None };
            self.assignments = ROLES.iter().map(everybody).collect();
        }
        Ok(self)
    }

    /// Whom the token names, or why it is not valid.
    pub fn verify(&self, token: &str, now: Timestamp) -> Result<Principal, &'static str> {
        let (signed, signature) = token.rsplit_once('.').ok_or("It is not a JSON Web Token.")?;
        let (header, claims) = signed.split_once('.').ok_or("It is not a JSON Web Token.")?;
        let header = object(header).ok_or("Its header cannot be read.")?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| "Its signature is not Base64.")?;
        if header.contains_key("crit") {
            return Err("It demands an extension that is not known here.");
        }
        let text = |name: &str| header.get(name).and_then(Value::as_str);
        let algorithm = text("alg").and_then(Algorithm::named).ok_or("Its algorithm is not accepted.")?;
        let id = text("kid");
        let mut keys = self.keys.iter().filter(|key| id.is_none() || key.id.is_none() || key.id.as_deref() == id);
        if !keys.any(|key| key.verifies(algorithm, signed.as_bytes(), &signature)) {
            return Err("Signature validation failed: no trusted key made its signature.");
        }
        self.judge(&object(claims).ok_or("Its claims cannot be read.")?, now)
    }

    fn judge(&self, claims: &Map<String, Value>, now: Timestamp) -> Result<Principal, &'static str> {
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        if !text("iss").is_some_and(|issuer| self.issuers.iter().any(|trusted| trusted == issuer)) {
            return Err("Issuer validation failed: its issuer is not trusted.");
        }
        let is_ours = |audience: &str| {
            self.audiences.iter().any(|ours| ours.trim_end_matches('/') == audience.trim_end_matches('/'))
        };
        if !words(claims.get("aud")).any(is_ours) {
            return Err("Audience validation failed: it is made out to somebody else.");
        }
        let expiry =
            claims.get("exp").and_then(moment).ok_or("Lifetime validation failed: it does not say when it expires.")?;
        if now >= expiry.plus_seconds(SKEW_SECONDS) {
            return Err("Lifetime validation failed: it is expired.");
        }
        if let Some(from) = claims.get("nbf") {
            let from = moment(from).ok_or("Lifetime validation failed: it begins at no time.")?;
            if now.plus_seconds(SKEW_SECONDS) < from {
                return Err("Lifetime validation failed: it is not valid yet.");
            }
        }
        let object = text("oid")
            .or(text("sub"))
            .filter(|id| !id.is_empty())
            .ok_or("It names nobody: it has neither oid nor sub.")?;
        let tenant = text("tid").unwrap_or("00000000-0000-0000-0000-000000000000");
        let also = words(claims.get("groups")).chain(words(claims.get("roles"))).map(String::from).collect();
        Ok(Principal { also, ..Principal::by_id(object, tenant) })
    }

    /// Does one of the principal's roles allow the operation on `within` of the account?
    pub fn allow(
        &self,
        principal: &Principal,
        account: &str,
        within: &str,
        (service, row): (Service, &Operation),
        overwrite: bool,
    ) -> bool {
        self.assignments.iter().any(|assignment| {
            let name = &assignment.principal;
            let is_meant = name == "*" || name.eq_ignore_ascii_case(&principal.object) || principal.also.contains(name);
            is_meant
                && assignment.account.as_deref().is_none_or(|only| only == account)
                && assignment.within.as_deref().is_none_or(|only| !within.is_empty() && only == within)
                && assignment.role.allows(service, row, overwrite)
        })
    }

    pub fn challenge(tokens: Option<&Tokens>) -> String {
        let authority = tokens.and_then(|tokens| tokens.authority.as_deref()).unwrap_or(DEFAULT_AUTHORITY);
        let authority = authority.trim_end_matches('/');
        format!("Bearer authorization_uri={authority}/oauth2/authorize resource_id=https://storage.azure.com")
    }
}

/// A claim that is one text or several.
fn words(claim: Option<&Value>) -> impl Iterator<Item = &str> {
    let (one, several) = match claim {
        Some(Value::Array(several)) => (None, several.as_slice()),
        other => (other, [].as_slice()),
    };
    one.into_iter().chain(several).filter_map(Value::as_str)
}

/// Seconds since 1970, which need not be whole.
fn moment(claim: &Value) -> Option<Timestamp> {
    let seconds = claim.as_f64().filter(|seconds| *seconds >= 0.0)?;
    Some(Timestamp::UNIX_EPOCH.plus_seconds(seconds as u64))
}

fn object(part: &str) -> Option<Map<String, Value>> {
    match serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()? {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

/// What `alg` may say. `none` and the symmetric ones are not among them: a public key must never be taken for a shared one.
#[derive(Clone, Copy, Debug)]
enum Algorithm {
    Rsa(&'static RsaParameters),
    P256,
    P384,
}

impl Algorithm {
    fn named(name: &str) -> Option<Algorithm> {
        Some(match name {
            "RS256" => Algorithm::Rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
            "RS384" => Algorithm::Rsa(&signature::RSA_PKCS1_2048_8192_SHA384),
            "RS512" => Algorithm::Rsa(&signature::RSA_PKCS1_2048_8192_SHA512),
            "PS256" => Algorithm::Rsa(&signature::RSA_PSS_2048_8192_SHA256),
            "PS384" => Algorithm::Rsa(&signature::RSA_PSS_2048_8192_SHA384),
            "PS512" => Algorithm::Rsa(&signature::RSA_PSS_2048_8192_SHA512),
            "ES256" => Algorithm::P256,
            "ES384" => Algorithm::P384,
            _ => return None,
        })
    }
}

#[derive(Clone, Debug)]
struct SigningKey {
    id: Option<String>,
    material: Material,
}

#[derive(Clone, Debug)]
enum Material {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
}

impl SigningKey {
    /// False as well if the key is of another kind than the algorithm.
    fn verifies(&self, algorithm: Algorithm, signed: &[u8], signature: &[u8]) -> bool {
        let verified = match (&self.material, algorithm) {
            (Material::Rsa { modulus, exponent }, Algorithm::Rsa(parameters)) => {
                RsaPublicKeyComponents { n: modulus, e: exponent }.verify(parameters, signed, signature)
            }
            (Material::P256(point), Algorithm::P256) => {
                UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point).verify(signed, signature)
            }
            (Material::P384(point), Algorithm::P384) => {
                UnparsedPublicKey::new(&signature::ECDSA_P384_SHA384_FIXED, point).verify(signed, signature)
            }
            _ => return false,
        };
        verified.is_ok()
    }
}

/// The keys of a set that can sign; one of a kind that is not known here is passed over, as the format demands.
fn read_keys(text: &str) -> Result<Vec<SigningKey>, TokensError> {
    let set: Value =
        serde_json::from_str(text).map_err(|error| TokensError(format!("the key set is not JSON: {error}")))?;
    let listed = set.get("keys").and_then(Value::as_array);
    let listed = listed.ok_or_else(|| TokensError("the key set has no list `keys`".into()))?;
    let keys: Vec<SigningKey> = listed.iter().filter_map(read_key).collect();
    if keys.is_empty() {
        return Err(TokensError("the key set has no key of a known kind (RSA, EC P-256, EC P-384)".into()));
    }
    Ok(keys)
}

fn read_key(key: &Value) -> Option<SigningKey> {
    let text = |name: &str| key.get(name).and_then(Value::as_str);
    let bytes = |name: &str| text(name).and_then(|value| URL_SAFE_NO_PAD.decode(value.trim_end_matches('=')).ok());
    if text("use").is_some_and(|usage| usage != "sig") {
        return None;
    }
    let point = |size: usize| {
        let (x, y) = (bytes("x")?, bytes("y")?);
        (x.len() == size && y.len() == size).then(|| [&[4][..], &x, &y].concat())
    };
    let material = match (text("kty")?, text("crv")) {
        ("RSA", _) => {
            let plain = |number: Vec<u8>| number.into_iter().skip_while(|byte| *byte == 0).collect();
            Material::Rsa { modulus: plain(bytes("n")?), exponent: plain(bytes("e")?) }
        }
        ("EC", Some("P-256")) => Material::P256(point(32)?),
        ("EC", Some("P-384")) => Material::P384(point(48)?),
        _ => return None,
    };
    Some(SigningKey { id: text("kid").map(String::from), material })
}

#[cfg(test)]
mod tests;
