//! Who asks, and may they? `authenticate` proves the credential, `authorize` holds it against the operation's row.

mod account_sas;
mod sas;
mod service_sas;
mod shared_key;
mod strings;

use contract::operations::{Access, Anonymous, Operation};
use contract::{ApiVersion, ErrorCode, Refusal};

use partition::{Failure, Shell};

use crate::blob::acl::allow_anonymous;
use crate::request::Request;
use account_sas::AccountSas;
use service_sas::ServiceSas;

/// A credential whose signature has been verified.
#[derive(Clone, Debug)]
pub enum Credential {
    /// One of the account's keys signed the request: all is allowed.
    AccountKey,
    AccountSas(AccountSas),
    ServiceSas(ServiceSas),
    Anonymous,
}

/// What an authorized request may do beyond its row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// False for a token that may create but not write.
    pub may_overwrite: bool,
    /// The token may name content headers to be answered instead of the stored ones.
    pub overrides_headers: bool,
}

pub async fn authenticate(shell: &Shell, request: &Request<'_>) -> Result<Credential, Failure> {
    // A browser's preflight carries no credential; if another client's does, it is not looked at.
    if request.head.method() == "OPTIONS" {
        return Ok(Credential::Anonymous);
    }
    if let Some(header) = request.header("authorization") {
        let (scheme, value) = header.split_once(' ').ok_or(ErrorCode::InvalidAuthenticationInfo)?;
        return match scheme {
            "SharedKey" => shared_key::verify(request, value.trim(), shared_key::Form::Full),
            "SharedKeyLite" => shared_key::verify(request, value.trim(), shared_key::Form::Lite),
            // No issuer of tokens is configured, so none can be right.
            "Bearer" => Err(Refusal::from(ErrorCode::InvalidAuthenticationInfo).status(401)),
            _ => Err(ErrorCode::InvalidAuthenticationInfo.into()),
        }
        .map(|()| Credential::AccountKey)
        .map_err(Failure::from);
    }
    if request.query.get("sig").is_none() {
        return Ok(Credential::Anonymous);
    }
    if request.query.get("ss").is_some() || request.query.get("srt").is_some() {
        return Ok(Credential::AccountSas(account_sas::verify(request)?));
    }
    if request.query.get("skoid").is_some() {
        return Err(failed("User delegation SAS tokens are not understood by this version of the server.").into());
    }
    Ok(Credential::ServiceSas(service_sas::verify(shell, request).await?))
}

pub async fn authorize(
    shell: &Shell,
    request: &Request<'_>,
    row: &Operation,
    credential: &Credential,
) -> Result<Grant, Failure> {
    let reader = Grant { may_overwrite: false, overrides_headers: false };
    if row.anonymous == Anonymous::Always {
        return Ok(reader);
    }
    let grant = match credential {
        Credential::AccountKey => Grant { may_overwrite: true, overrides_headers: false },
        Credential::AccountSas(sas) => sas.authorize(request, row)?,
        Credential::ServiceSas(sas) => sas.authorize(row)?,
        Credential::Anonymous if allow_anonymous(shell, request, row).await? => reader,
        Credential::Anonymous if request.version >= ApiVersion::CHALLENGES => {
            return Err(Refusal::from(ErrorCode::NoAuthenticationInformation).header(
                "WWW-Authenticate",
                "Bearer authorization_uri=https://login.microsoftonline.com/common/oauth2/authorize resource_id=https://storage.azure.com",
            )
            .into());
        }
        // Quirk: old versions do not admit that the resource is there.
        Credential::Anonymous => return Err(ErrorCode::ResourceNotFound.into()),
    };
    if request.address.secondary && row.access == Access::Write {
        return Err(ErrorCode::WriteOperationNotSupportedOnSecondary.into());
    }
    Ok(grant)
}

/// 403 AuthenticationFailed, and why.
fn failed(detail: impl Into<String>) -> Refusal {
    Refusal::from(ErrorCode::AuthenticationFailed).with("AuthenticationErrorDetail", detail)
}
