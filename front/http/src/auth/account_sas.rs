//! Account SAS: a token for services, resource types and permissions of the whole account.

use contract::operations::{Letters, Operation};
use contract::{ApiVersion, ErrorCode, Refusal};

use super::sas::{Restrictions, check_letters, check_signature, field, required, signed_version};
use super::{Grant, failed};
use crate::request::Request;

/// A token whose signature and restrictions have been checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccountSas {
    services: String,
    resource_types: String,
    permissions: String,
}

pub fn verify(request: &Request<'_>) -> Result<AccountSas, Refusal> {
    let (sas, restrictions) = parse(request)?;
    check_signature(request, &string_to_sign(request)?, request.account.keys.iter())?;
    sas.within(&restrictions, request)
}

/// A token whose signature holds.
pub fn accept(request: &Request<'_>) -> Result<AccountSas, Refusal> {
    let (sas, restrictions) = parse(request)?;
    sas.within(&restrictions, request)
}

fn parse(request: &Request<'_>) -> Result<(AccountSas, Restrictions), Refusal> {
    let (services, resource_types) = (required(request, "ss")?, required(request, "srt")?);
    let permissions = required(request, "sp")?;
    check_letters("ss", services, "bqtf")?;
    check_letters("srt", resource_types, "sco")?;
    check_letters("sp", permissions, "rwdxylacuptfiom")?;
    let restrictions = Restrictions::parse(
        request.query.get("st"),
        required(request, "se")?,
        request.query.get("sip"),
        field(request, "spr"),
    )?;
    let sas = AccountSas {
        services: services.into(),
        resource_types: resource_types.into(),
        permissions: permissions.into(),
    };
    Ok((sas, restrictions))
}

pub fn string_to_sign(request: &Request<'_>) -> Result<String, Refusal> {
    let version = signed_version(request, ApiVersion::ACCOUNT_SAS)?;
    let mut fields = vec!["sp", "ss", "srt", "st", "se", "sip", "spr", "sv"];
    if version >= ApiVersion::SAS_SIGNS_ENCRYPTION_SCOPE {
        fields.push("ses");
    }
    let mut text = format!("{}\n", request.account.name.as_str());
    for name in fields {
        text.push_str(field(request, name));
        text.push('\n');
    }
    Ok(text)
}

impl AccountSas {
    fn within(self, restrictions: &Restrictions, request: &Request<'_>) -> Result<AccountSas, Refusal> {
        restrictions.check(request.now, request.client, request.tls)?;
        match field(request, "ses") {
            "" => Ok(self),
            _ => Err(failed("Encryption scopes are not supported by this server.")),
        }
    }

    pub fn authorize(&self, request: &Request<'_>, row: &Operation) -> Result<Grant, Refusal> {
        if !self.services.contains(request.service.letter()) {
            return Err(ErrorCode::AuthorizationServiceMismatch.into());
        }
        let needed = row.account_sas;
        if needed.letters == Letters::Never {
            return Err(ErrorCode::AuthorizationFailure.into());
        }
        if !needed.resource_types.chars().any(|letter| self.resource_types.contains(letter)) {
            return Err(ErrorCode::AuthorizationResourceTypeMismatch.into());
        }
        if !needed.letters.allow(&self.permissions) {
            return Err(ErrorCode::AuthorizationPermissionMismatch.into());
        }
        Ok(Grant { may_overwrite: needed.letters.allow_overwrite(&self.permissions), overrides_headers: false })
    }
}
