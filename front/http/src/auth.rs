//! Who asks, and may they? `authenticate` proves the credential, `authorize` holds it against the operation's row.

mod account_sas;
pub mod explain;
pub mod on_behalf;
mod sas;
mod service_sas;
mod shared_key;
mod strings;
pub mod token;
pub mod user_delegation;

use contract::operations::{Access, Anonymous, Operation, OperationId, Resource, TokenNeeds};
use contract::{ApiVersion, ErrorCode, Refusal, Service};

use partition::{Failure, Shell};

use crate::blob::acl::allow_anonymous;
use crate::request::Request;
use crate::tokens::{Principal, Tokens};
use crate::wire::Names;
use account_sas::AccountSas;
use service_sas::ServiceSas;
pub use service_sas::TableScope;
use user_delegation::UserDelegationSas;

/// A credential whose signature has been verified.
#[derive(Clone, Debug)]
pub enum Credential {
    /// One of the account's keys signed the request: all is allowed.
    AccountKey,
    AccountSas(AccountSas),
    ServiceSas(ServiceSas),
    UserDelegationSas(UserDelegationSas),
    Token(Principal),
    Anonymous,
}

impl Credential {
    /// May it be held against another blob of the account than the one it came with? A token of one container or blob is only that.
    pub fn reaches_beyond(&self) -> bool {
        matches!(self, Credential::AccountKey | Credential::AccountSas(_) | Credential::Token(_))
    }

    /// The table and keys it is for, if it is not for all of them.
    pub fn table_scope(&self) -> Option<&TableScope> {
        match self {
            Credential::ServiceSas(sas) => sas.table.as_ref(),
            _ => None,
        }
    }
}

/// What an authorized request may do beyond its row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// False for a token that may create but not write.
    pub may_overwrite: bool,
    /// The token may name content headers to be answered instead of the stored ones.
    pub overrides_headers: bool,
}

pub async fn authenticate(
    shell: &Shell,
    tokens: Option<&Tokens>,
    request: &Request<'_>,
) -> Result<Credential, Failure> {
    // A browser's preflight carries no credential; if another client's does, it is not looked at.
    if request.head.method() == "OPTIONS" {
        return Ok(Credential::Anonymous);
    }
    let kind = Kind::of(request)?;
    let outcome = match kind {
        Kind::SharedKey(form, value) => shared_key::verify(request, value, form).map(|()| Credential::AccountKey),
        Kind::Bearer(token) => bearer(tokens, request, token).map(Credential::Token),
        Kind::AccountSas => account_sas::verify(request).map(Credential::AccountSas),
        Kind::UserDelegationSas { token } => {
            let bearer = token.map(|token| bearer(tokens, request, token)).transpose()?;
            user_delegation::verify(request, bearer.as_ref()).map(Credential::UserDelegationSas)
        }
        Kind::ServiceSas => return Ok(Credential::ServiceSas(service_sas::verify(shell, request).await?)),
        Kind::Nothing => Ok(Credential::Anonymous),
    };
    Ok(outcome?)
}

/// What a request brings to show who it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind<'a> {
    SharedKey(shared_key::Form, &'a str),
    Bearer(&'a str),
    AccountSas,
    ServiceSas,
    /// With the bearer token of the one user it may be bound to.
    UserDelegationSas {
        token: Option<&'a str>,
    },
    Nothing,
}

impl Kind<'_> {
    fn of<'a>(request: &'a Request<'_>) -> Result<Kind<'a>, Refusal> {
        let query = |name: &str| request.query.get(name).is_some();
        if let Some(header) = request.header("authorization") {
            let (scheme, value) = header.split_once(' ').ok_or(ErrorCode::InvalidAuthenticationInfo)?;
            let value = value.trim();
            return match scheme {
                "SharedKey" => Ok(Kind::SharedKey(shared_key::Form::Full, value)),
                "SharedKeyLite" => Ok(Kind::SharedKey(shared_key::Form::Lite, value)),
                "Bearer" if query("sig") && query("sduoid") => Ok(Kind::UserDelegationSas { token: Some(value) }),
                "Bearer" => Ok(Kind::Bearer(value)),
                _ => Err(ErrorCode::InvalidAuthenticationInfo.into()),
            };
        }
        Ok(match query("sig") {
            false => Kind::Nothing,
            true if query("ss") || query("srt") => Kind::AccountSas,
            true if query("skoid") => Kind::UserDelegationSas { token: None },
            true => Kind::ServiceSas,
        })
    }
}

fn bearer(tokens: Option<&Tokens>, request: &Request<'_>, token: &str) -> Result<Principal, Refusal> {
    if !request.tls {
        return Err(failed("Authentication scheme Bearer is not allowed with HTTP."));
    }
    if request.version < ApiVersion::BEARER_TOKENS {
        return Err(failed("Authentication scheme Bearer needs x-ms-version 2017-11-09 or later."));
    }
    let verified = match tokens {
        Some(tokens) => tokens.verify(token, request.now),
        None => Err("No issuer of tokens is trusted: none is configured."),
    };
    verified.map_err(|why| {
        tracing::debug!(request = %request.id, why, "the bearer token was refused");
        Refusal::from(ErrorCode::InvalidAuthenticationInfo)
            .status(401)
            .with("AuthenticationErrorDetail", why)
            .header("WWW-Authenticate", Tokens::challenge(tokens))
    })
}

pub async fn authorize(
    shell: &Shell,
    tokens: Option<&Tokens>,
    request: &Request<'_>,
    row: &Operation,
    credential: &Credential,
) -> Result<Grant, Failure> {
    let grant = permit(shell, tokens, request, row, credential).await?;
    for also in also_done(request, row) {
        permit(shell, tokens, request, also, credential).await?;
    }
    if request.address.secondary && row.access == Access::Write {
        return Err(ErrorCode::WriteOperationNotSupportedOnSecondary.into());
    }
    Ok(grant)
}

/// What a request does by its headers, beside its own operation: the operations that would do it alone, whose rights it takes.
fn also_done<'a>(request: &'a Request<'_>, row: &'a Operation) -> impl Iterator<Item = &'static Operation> + 'a {
    const TAGS: Names<2> = Names::new(["x-ms-tags", "x-ms-if-tags"]);
    const IMMUTABILITY: Names<3> =
        Names::new(["x-ms-immutability-policy-until-date", "x-ms-immutability-policy-mode", "x-ms-legal-hold"]);
    let is_blob = row.on == Resource::Blob;
    let tags = is_blob && request.head.sent(&TAGS).any(|(_, value)| !value.is_empty());
    let immutability = is_blob && request.head.sent(&IMMUTABILITY).any(|(_, value)| !value.is_empty());
    let done = [(OperationId::SetBlobTags, tags), (OperationId::SetBlobImmutabilityPolicy, immutability)].into_iter();
    let rows = done.filter(|(_, is_done)| *is_done);
    rows.filter_map(|(id, _)| Service::Blob.rows().iter().find(|row| row.id == id))
}

async fn permit(
    shell: &Shell,
    tokens: Option<&Tokens>,
    request: &Request<'_>,
    row: &Operation,
    credential: &Credential,
) -> Result<Grant, Failure> {
    let reader = Grant { may_overwrite: false, overrides_headers: false };
    if row.anonymous == Anonymous::Always {
        return Ok(reader);
    }
    Ok(match credential {
        Credential::AccountKey if row.token == TokenNeeds::Delegation => {
            return Err(failed("Only a bearer token may ask for this: a key has no name to lend.").into());
        }
        Credential::AccountKey => Grant { may_overwrite: true, overrides_headers: false },
        Credential::AccountSas(sas) => sas.authorize(request, row)?,
        Credential::ServiceSas(sas) => sas.authorize(row)?,
        Credential::UserDelegationSas(sas) => sas.authorize(request, row, tokens)?,
        Credential::Token(principal) => of_token(tokens, principal, request, row)?,
        Credential::Anonymous if allow_anonymous(shell, request, row).await? => reader,
        Credential::Anonymous if request.version >= ApiVersion::CHALLENGES => {
            let refusal = Refusal::from(ErrorCode::NoAuthenticationInformation);
            return Err(refusal.header("WWW-Authenticate", Tokens::challenge(tokens)).into());
        }
        // Quirk: old versions do not admit that the resource is there.
        Credential::Anonymous => return Err(ErrorCode::ResourceNotFound.into()),
    })
}

fn of_token(
    tokens: Option<&Tokens>,
    principal: &Principal,
    request: &Request<'_>,
    row: &Operation,
) -> Result<Grant, Refusal> {
    if request.service == Service::File && row.token != TokenNeeds::Delegation {
        match request.header("x-ms-file-request-intent") {
            Some(intent) if intent.eq_ignore_ascii_case("backup") => {}
            Some(other) => return Err(Refusal::bad_header("x-ms-file-request-intent", other)),
            None => return Err(Refusal::missing_header("x-ms-file-request-intent")),
        }
    }
    let (account, within) = (request.account.name.as_str(), request.within());
    let may = |overwrite| {
        tokens.is_some_and(|tokens| tokens.allow(principal, account, &within, (request.service, row), overwrite))
    };
    if !may(false) {
        return Err(ErrorCode::AuthorizationPermissionMismatch.into());
    }
    Ok(Grant { may_overwrite: may(true), overrides_headers: false })
}

/// 403 AuthenticationFailed, and why.
pub fn failed(detail: impl Into<String>) -> Refusal {
    Refusal::from(ErrorCode::AuthenticationFailed).with("AuthenticationErrorDetail", detail)
}
