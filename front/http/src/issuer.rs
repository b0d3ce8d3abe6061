//! The development issuer: bearer tokens for whoever asks, in the forms in which Entra ID and managed identities give them.
//!
//! It is for tests of code that gets its tokens from a directory, on a machine that has none. Nobody is authenticated by it, so it is
//! served on loopback alone, and only where it was asked for. Its key is made when it starts and is nowhere kept.
//!
//! A page in a browser cannot read what it answers: it allows no other origin, and no name but those of this machine.

use std::net::{IpAddr, SocketAddr};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use env::{Id, Timestamp};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

use crate::body::receive;
use crate::query::Query;
use crate::wire::{Body, Head, Response, ResponseBody};

/// The directory that it stands for, as tokens name it.
pub const TENANT: &str = "00000000-0000-4000-8000-6c617a756c69";
/// Whom a token names if nobody in particular asked for it.
pub const PRINCIPAL: &str = "00000000-0000-4000-8001-6c617a756c69";
/// What a managed identity shows, so that no program asks by mistake. No secret: client secrets are taken as they come, too.
pub const IDENTITY_HEADER: &str = "lazuli";
pub const IDENTITY_PATH: &str = "/msi/token";

const TOKEN_SECONDS: u64 = 3600;
const BODY_BYTES_MAX: u64 = 64 * 1024;
const NAME_CHARS_MAX: usize = 256;

pub struct Issuer {
    pair: EcdsaKeyPair,
    random: SystemRandom,
    key: String,
    /// `https://localhost:10004`
    base: String,
}

impl Issuer {
    /// `address` is where it listens.
    pub fn new(address: SocketAddr, tls: bool, id: Id) -> Result<Issuer, String> {
        let random = SystemRandom::new();
        let failed = |_| "the key of the development issuer cannot be made".to_string();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).map_err(|error| failed(error.to_string()))?;
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random);
        let pair = pair.map_err(|error| failed(error.to_string()))?;
        let scheme = if tls { "https" } else { "http" };
        Ok(Issuer { pair, random, key: id.to_string(), base: format!("{scheme}://localhost:{}", address.port()) })
    }

    /// Its name in tokens.
    pub fn name(&self) -> String {
        format!("{}/{TENANT}/v2.0", self.base)
    }

    /// Where clients are told to get a token.
    pub fn authority(&self) -> String {
        format!("{}/{TENANT}", self.base)
    }

    /// What `AZURE_AUTHORITY_HOST` is set to.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// A JSON Web Key Set.
    pub fn keys(&self) -> String {
        let point = self.pair.public_key().as_ref();
        let (x, y) = (URL_SAFE_NO_PAD.encode(&point[1..33]), URL_SAFE_NO_PAD.encode(&point[33..65]));
        json!({"keys": [{"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.key, "x": x, "y": y}]})
            .to_string()
    }

    pub async fn answer(&self, head: &Head, body: &mut Body<'_>, now: Timestamp) -> Response {
        body.bytes_max = BODY_BYTES_MAX;
        let asked = self.ask(head, body, now).await;
        let (status, document) =
            asked.map_or_else(|refused| (refused.status, refused.document(now)), |document| (200, document));
        let mut response = Response::new(status).with_header("Content-Type", "application/json; charset=utf-8");
        response.header("Cache-Control", "no-store").header("X-Content-Type-Options", "nosniff");
        response.header("Date", now.http_date());
        let text = document.to_string();
        response.body = match head.method() {
            "HEAD" => ResponseBody::Head { bytes: Some(text.len() as u64) },
            _ => ResponseBody::Bytes(text.into()),
        };
        response
    }

    async fn ask(&self, head: &Head, body: &mut Body<'_>, now: Timestamp) -> Result<Value, Refused> {
        if !is_of_this_machine(head.header("host").unwrap_or_default()) {
            return Err(Refused::request("it is asked for by a name of this machine: localhost, 127.0.0.1 or [::1]"));
        }
        let (path, query) = head.target().split_once('?').unwrap_or((head.target(), ""));
        let query = Query::parse(query).map_err(|_| Refused::request("the query cannot be read"))?;
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        match (head.method(), parts.as_slice()) {
            ("GET", ["msi", "token"]) => {
                if head.header("x-identity-header") != Some(IDENTITY_HEADER) {
                    return Err(Refused::unauthorized("X-IDENTITY-HEADER is not what IDENTITY_HEADER was set to"));
                }
                self.identity(&query, now)
            }
            ("GET", ["metadata", "identity", "oauth2", "token"]) => {
                if head.header("metadata").is_none_or(|value| !value.eq_ignore_ascii_case("true")) {
                    return Err(Refused::request("Required metadata header not specified"));
                }
                self.identity(&query, now)
            }
            (
                "GET" | "HEAD",
                [tenant, "v2.0", ".well-known", "openid-configuration"]
                | [tenant, ".well-known", "openid-configuration"],
            ) => Ok(self.configuration(tenant)),
            ("GET" | "HEAD", [_tenant, "discovery", "keys"] | [_tenant, "discovery", "v2.0", "keys"]) => {
                serde_json::from_str(&self.keys()).map_err(|_| Refused::request("the keys cannot be written"))
            }
            ("POST", [tenant, "oauth2", "v2.0", "token"]) => self.grant(tenant, true, body, now).await,
            ("POST", [tenant, "oauth2", "token"]) => self.grant(tenant, false, body, now).await,
            _ => Err(Refused {
                status: 404,
                ..Refused::request("there is nothing of this name and method at the development issuer")
            }),
        }
    }

    /// It stands for any directory.
    fn configuration(&self, tenant: &str) -> Value {
        let authority = format!("{}/{tenant}", self.base);
        json!({
            "issuer": self.name(),
            "authorization_endpoint": format!("{authority}/oauth2/v2.0/authorize"),
            "token_endpoint": format!("{authority}/oauth2/v2.0/token"),
            "jwks_uri": format!("{authority}/discovery/v2.0/keys"),
            "grant_types_supported": ["client_credentials"],
            "response_types_supported": ["token"],
            "subject_types_supported": ["pairwise"],
            "id_token_signing_alg_values_supported": ["ES256"],
            "token_endpoint_auth_methods_supported": ["client_secret_post", "private_key_jwt"],
        })
    }

    /// The OAuth 2.0 token endpoint: client credentials, whatever they are.
    async fn grant(&self, tenant: &str, is_v2: bool, body: &mut Body<'_>, now: Timestamp) -> Result<Value, Refused> {
        let form = receive(body).await.map_err(|_| Refused::request("the form did not come whole, or is too large"))?;
        let form = String::from_utf8(form).map_err(|_| Refused::request("the form is not text"))?;
        let form = Query::parse(&form).map_err(|_| Refused::request("the form cannot be read"))?;
        let required = |name: &str| {
            form.get(name).ok_or_else(|| {
                let words = format!("AADSTS900144: The request body must contain the following parameter: '{name}'.");
                Refused { code: Some(900_144), ..Refused::request(words) }
            })
        };
        let kind = required("grant_type")?;
        if kind != "client_credentials" {
            let words = "AADSTS70003: The app requested an unsupported grant type; the development issuer knows client_credentials.";
            return Err(Refused { error: "unsupported_grant_type", code: Some(70_003), ..Refused::request(words) });
        }
        let client = required("client_id")?;
        if form.get("client_secret").or(form.get("client_assertion")).is_none() {
            let words = "AADSTS7000216: 'client_assertion', 'client_secret' or 'request' is required for the 'client_credentials' grant type.";
            return Err(Refused {
                status: 401,
                error: "invalid_client",
                code: Some(7_000_216),
                ..Refused::request(words)
            });
        }
        let resource = if is_v2 { resource_of(required("scope")?)? } else { required("resource")? };
        let tenant = if is_guid(tenant) { tenant } else { TENANT };
        let token = self.token(client, tenant, resource, now)?;
        let seconds = TOKEN_SECONDS - 1;
        Ok(match is_v2 {
            true => {
                json!({"token_type": "Bearer", "expires_in": seconds, "ext_expires_in": seconds, "access_token": token})
            }
            false => json!({
                "token_type": "Bearer", "expires_in": seconds.to_string(), "ext_expires_in": seconds.to_string(),
                "expires_on": unix(now.plus_seconds(TOKEN_SECONDS)).to_string(), "not_before": unix(now).to_string(),
                "resource": resource, "access_token": token,
            }),
        })
    }

    /// What a managed identity gets: the machine's own, or one that it was given, by any of its names.
    fn identity(&self, query: &Query, now: Timestamp) -> Result<Value, Refused> {
        let resource = query.get("resource").ok_or_else(|| Refused::request("`resource` is missing"))?;
        let named = ["client_id", "principal_id", "object_id", "mi_res_id", "msi_res_id"]
            .iter()
            .find_map(|name| query.get(name));
        let client = named.unwrap_or(PRINCIPAL);
        Ok(json!({
            "access_token": self.token(client, TENANT, resource, now)?, "client_id": client, "token_type": "Bearer", "resource": resource,
            "expires_in": (TOKEN_SECONDS - 1).to_string(), "expires_on": unix(now.plus_seconds(TOKEN_SECONDS)).to_string(),
            "not_before": unix(now).to_string(),
        }))
    }

    /// The client's id is its object id as well, so that roles can be assigned to it.
    fn token(&self, client: &str, tenant: &str, resource: &str, now: Timestamp) -> Result<String, Refused> {
        let is_word =
            |text: &str| text.len() <= NAME_CHARS_MAX && text.bytes().all(|byte| (0x21..0x7f).contains(&byte));
        if !is_word(client) || !is_word(resource) {
            return Err(Refused::request("the client's id and the resource are words of at most 256 characters"));
        }
        let header = json!({"typ": "JWT", "alg": "ES256", "kid": self.key});
        let from = unix(now);
        let claims = json!({
            "iss": self.name(), "aud": resource, "iat": from, "nbf": from, "exp": from + TOKEN_SECONDS,
            "oid": client, "sub": client, "appid": client, "tid": tenant, "idtyp": "app", "ver": "1.0",
        });
        let signed =
            format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims.to_string()));
        let signature = self.pair.sign(&self.random, signed.as_bytes());
        let signature = signature.map_err(|_| Refused::request("the token could not be signed"))?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref())))
    }
}

/// Why there is no token, as Entra ID writes it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Refused {
    status: u16,
    error: &'static str,
    code: Option<u32>,
    words: String,
}

impl Refused {
    fn request(words: impl Into<String>) -> Refused {
        Refused { status: 400, error: "invalid_request", code: None, words: words.into() }
    }

    fn unauthorized(words: impl Into<String>) -> Refused {
        Refused { status: 401, error: "unauthorized", code: None, words: words.into() }
    }

    fn document(&self, now: Timestamp) -> Value {
        let codes: Vec<u32> = self.code.into_iter().collect();
        json!({"error": self.error, "error_description": self.words, "error_codes": codes, "timestamp": now.iso8601()})
    }
}

/// Of `https://storage.azure.com/.default` what is before the last part; what OpenID adds is passed over.
fn resource_of(scope: &str) -> Result<&str, Refused> {
    let mut asked =
        scope.split(' ').filter(|word| !["", "openid", "profile", "email", "offline_access"].contains(word));
    match (asked.next().and_then(|word| word.strip_suffix("/.default")), asked.next()) {
        (Some(resource), None) if !resource.is_empty() => Ok(resource),
        _ => Err(Refused {
            error: "invalid_scope",
            code: Some(1_002_012),
            ..Refused::request(
                "AADSTS1002012: The provided value for scope is not valid. Client credential flows must have a scope value with /.default suffixed to the resource identifier.",
            )
        }),
    }
}

fn is_guid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && parts.concat().bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Is the host of a request one of the names of loopback?
fn is_of_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let name = name.to_ascii_lowercase();
    name == "localhost"
        || name.ends_with(".localhost")
        || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

fn unix(moment: Timestamp) -> u64 {
    moment.seconds() - Timestamp::UNIX_EPOCH.seconds()
}

#[cfg(test)]
mod tests;
