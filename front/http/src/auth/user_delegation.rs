//! User delegation: keys that a token's principal gets for a while, and SAS signed with such a key, which act in the principal's name.
//!
//! A key is not stored. Its value is derived from the account's key and the fields that name it, which every SAS made with it carries; so
//! any gateway can verify it, and changing the account's key revokes it.

use contract::operations::{Letters, Operation};
use contract::{ApiVersion, ErrorCode, Refusal, Service};
use env::Timestamp;

use super::sas::{
    Restrictions, check_letters, check_signature, field, required, resource_name, signed_version, snapshot,
};
use super::{Grant, failed};
use crate::account::{AccountKey, DerivedKey};
use crate::request::Request;
use crate::tokens::{Principal, Tokens};

/// The fields that name a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyName {
    pub object: String,
    pub tenant: String,
    pub start: Timestamp,
    pub expiry: Timestamp,
    pub service: Service,
    pub version: String,
    /// The tenant of the one user who may use it, if it was made for one.
    pub delegated_tenant: String,
}

impl KeyName {
    /// The key's value. Times count by the second and ids without case, as clients write them differently.
    pub fn derive(&self, account_key: &AccountKey) -> DerivedKey {
        account_key.derive(&format!(
            "user delegation key\n{}\n{}\n{}\n{}\n{}\n{}\n{}",
            self.object.to_ascii_lowercase(),
            self.tenant.to_ascii_lowercase(),
            self.start.seconds(),
            self.expiry.seconds(),
            self.service.letter(),
            self.version,
            self.delegated_tenant.to_ascii_lowercase(),
        ))
    }

    pub fn read(request: &Request<'_>) -> Result<KeyName, Refusal> {
        let moment = |name: &'static str| {
            let text = required(request, name)?;
            Timestamp::parse_iso8601(text).ok_or_else(|| failed(format!("{name} is not a time: {text}")))
        };
        if required(request, "sks")? != request.service.letter().to_string() {
            return Err(failed("sks: the key is for another service"));
        }
        Ok(KeyName {
            object: required(request, "skoid")?.into(),
            tenant: required(request, "sktid")?.into(),
            start: moment("skt")?,
            expiry: moment("ske")?,
            service: request.service,
            version: required(request, "skv")?.into(),
            delegated_tenant: field(request, "skdutid").into(),
        })
    }
}

/// A token whose signature and restrictions have been checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserDelegationSas {
    permissions: String,
    principal: Principal,
}

/// `bearer` is the principal of the bearer token that came with the request, which a token made for one user needs.
pub fn verify(request: &Request<'_>, bearer: Option<&Principal>) -> Result<UserDelegationSas, Refusal> {
    let oldest = match request.service {
        Service::Blob => ApiVersion::USER_DELEGATION_SAS,
        Service::Queue | Service::File => ApiVersion::USER_DELEGATION_BEYOND_BLOBS,
        Service::Table => return Err(failed("Tables have no user delegation SAS.")),
    };
    let version = signed_version(request, oldest)?;
    let key = KeyName::read(request)?;
    required(request, "sp")?;
    let string_to_sign = string_to_sign(request, version)?;
    let keys: Vec<DerivedKey> = request.account.keys.iter().map(|account_key| key.derive(account_key)).collect();
    check_signature(request, &string_to_sign, keys.iter().map(DerivedKey::key))?;
    accept(request, bearer)
}

/// A token whose signature holds.
pub fn accept(request: &Request<'_>, bearer: Option<&Principal>) -> Result<UserDelegationSas, Refusal> {
    let key = KeyName::read(request)?;
    let permissions = required(request, "sp")?;
    if !field(request, "si").is_empty() {
        return Err(failed("si: a user delegation SAS has no stored access policy"));
    }
    if !field(request, "suoid").is_empty() {
        return Err(failed(
            "suoid needs the access control lists of a hierarchical namespace, which this account has not",
        ));
    }
    if !field(request, "ses").is_empty() {
        return Err(failed("Encryption scopes are not supported by this server."));
    }
    check_letters("sp", permissions, "racwdxyltfmeopiu")?;
    if request.now < key.start || request.now >= key.expiry {
        return Err(failed(format!(
            "The user delegation key is valid from [{}] to [{}] and the current time is [{}]",
            key.start.http_date(),
            key.expiry.http_date(),
            request.now.http_date()
        )));
    }
    let restrictions = Restrictions::parse(
        request.query.get("st"),
        required(request, "se")?,
        request.query.get("sip"),
        field(request, "spr"),
    )?;
    restrictions.check(request.now, request.client, request.tls)?;
    let user = field(request, "sduoid");
    if !user.is_empty() {
        let is_user = |bearer: &Principal| {
            bearer.object.eq_ignore_ascii_case(user)
                && (key.delegated_tenant.is_empty() || bearer.tenant.eq_ignore_ascii_case(&key.delegated_tenant))
        };
        if !bearer.is_some_and(is_user) {
            return Err(failed("sduoid: the token is for one user, whose bearer token did not come with the request"));
        }
    }
    Ok(UserDelegationSas { permissions: permissions.into(), principal: Principal::by_id(&key.object, &key.tenant) })
}

/// The lines of each service and version, in their order.
pub fn string_to_sign(request: &Request<'_>, version: ApiVersion) -> Result<String, Refusal> {
    let service = request.service;
    let field = |name: &str| field(request, name).to_string();
    let resource = format!("/{}/{}/{}", service.name(), request.account.name.as_str(), resource_name(request)?);
    let from = |feature: ApiVersion| version >= feature;
    let mut lines: Vec<String> = ["sp", "st", "se"].map(field).to_vec();
    lines.push(resource);
    lines.extend(["skoid", "sktid", "skt", "ske", "sks", "skv"].map(field));
    if service == Service::Blob && from(ApiVersion::DELEGATION_SAS_NAMES_AGENTS) {
        lines.extend(["saoid", "suoid", "scid"].map(field));
    }
    if from(ApiVersion::DELEGATION_SAS_BINDS_USER) {
        lines.extend(["skdutid", "sduoid"].map(field));
    }
    lines.extend(["sip", "spr", "sv"].map(field));
    if service == Service::Blob {
        lines.extend([field("sr"), snapshot(request, version)?.to_string()]);
        if from(ApiVersion::SAS_SIGNS_ENCRYPTION_SCOPE) {
            lines.push(field("ses"));
        }
        if from(ApiVersion::DELEGATION_SAS_SIGNS_REQUEST) {
            lines.extend([signed_headers(request)?, signed_parameters(request)?]);
        }
    }
    if service != Service::Queue {
        lines.extend(["rscc", "rscd", "rsce", "rscl", "rsct"].map(field));
    }
    Ok(lines.join("\n"))
}

/// `name:value` and a line feed for each header that `srh` names, with the values of this request.
fn signed_headers(request: &Request<'_>) -> Result<String, Refusal> {
    let mut text = String::new();
    for name in request.query.words("srh") {
        let mut values = request.head.headers(name);
        let value = values.next();
        let value = value.ok_or_else(|| failed(format!("srh: the header {name} is signed and was not sent")))?;
        if values.next().is_some() {
            return Err(failed(format!("srh: the header {name} is signed and was sent twice")));
        }
        text.push_str(&format!("{name}:{value}\n"));
    }
    Ok(text)
}

fn signed_parameters(request: &Request<'_>) -> Result<String, Refusal> {
    let mut text = String::new();
    for name in request.query.words("srq") {
        let value = request.query.get(&name.to_ascii_lowercase());
        let value = value.ok_or_else(|| failed(format!("srq: the parameter {name} is signed and was not sent")))?;
        // Either would make the line of another parameter.
        if name.contains(':') || value.contains('\n') {
            return Err(failed(format!("srq: the parameter {name} cannot be signed")));
        }
        text.push_str(&format!("\n{name}:{value}"));
    }
    Ok(text)
}

impl UserDelegationSas {
    /// What the token says and what its principal may do: both must allow it.
    pub fn authorize(&self, request: &Request<'_>, row: &Operation, tokens: Option<&Tokens>) -> Result<Grant, Refusal> {
        let needed = row.service_sas;
        if needed == Letters::Never {
            return Err(ErrorCode::AuthorizationFailure.into());
        }
        let principal_may = |overwrite| {
            let (account, within) = (request.account.name.as_str(), request.within());
            tokens.is_some_and(|tokens| {
                tokens.allow(&self.principal, account, &within, (request.service, row), overwrite)
            })
        };
        if !needed.allow(&self.permissions) || !principal_may(false) {
            return Err(ErrorCode::AuthorizationPermissionMismatch.into());
        }
        let may_overwrite = needed.allow_overwrite(&self.permissions) && principal_may(true);
        Ok(Grant { may_overwrite, overrides_headers: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::DEVELOPMENT_KEY;
    use crate::request::scripted;

    const KEY: &str = "skoid=11111111-1111-1111-1111-111111111111&sktid=22222222-2222-2222-2222-222222222222\
        &skt=2029-12-30T00:00:00Z&ske=2030-01-02T00:00:00Z&skv=2026-04-06";
    const NAMED: &str = r"11111111-1111-1111-1111-111111111111\n22222222-2222-2222-2222-222222222222\n2029-12-30T00:00:00Z\n2030-01-02T00:00:00Z";

    fn string(service: Service, path: &str, query: &str, headers: &str) -> String {
        let head = format!("GET /devstoreaccount1/{path}?{query}&{KEY} HTTP/1.1\nHost: localhost{headers}");
        scripted(service, &head, |request| {
            let version = ApiVersion::parse(request.query.get("sv").expect("sv")).expect("a version");
            string_to_sign(request, version).expect("well formed").replace('\n', "\\n")
        })
    }

    /// A published string and its signature, with headers and parameters signed along.
    #[test]
    fn the_newest_of_blobs() {
        let query = "sp=r&se=2030-01-01T00:00:00Z&sks=b&sv=2026-10-06&sr=b&srh=x-ms-foo&srq=q&q=2";
        let text = string(Service::Blob, "cont/b", query, "\nx-ms-foo: 1");
        let expected = format!(
            r"r\n\n2030-01-01T00:00:00Z\n/blob/devstoreaccount1/cont/b\n{NAMED}\nb\n2026-04-06\n\n\n\n\n\n\n\n2026-10-06\nb\n\n\nx-ms-foo:1\n\n\nq:2\n\n\n\n\n"
        );
        assert_eq!(text, expected);
        let key = AccountKey::parse(DEVELOPMENT_KEY).expect("published");
        assert_eq!(key.sign(&text.replace("\\n", "\n")), "AbnrMjOO93/Q6dav3/8gYprMtireYG+idHOXVzYcsaQ=");
    }

    #[test]
    fn the_lines_of_each_version_and_service() {
        let until = "sp=r&se=2030-01-01T00:00:00Z";
        for (service, path, rest, expected) in [
            (
                Service::Blob,
                "cont/b",
                "sks=b&sv=2025-07-05&sr=b",
                r"b\n2026-04-06\n\n\n\n\n\n\n\n2025-07-05\nb\n\n\n\n\n\n\n",
            ),
            (
                Service::Blob,
                "cont/b",
                "sks=b&sv=2020-12-06&sr=b",
                r"b\n2026-04-06\n\n\n\n\n\n2020-12-06\nb\n\n\n\n\n\n\n",
            ),
            (
                Service::Blob,
                "cont/b",
                "sks=b&sv=2020-02-10&sr=b&scid=c",
                r"b\n2026-04-06\n\n\nc\n\n\n2020-02-10\nb\n\n\n\n\n\n",
            ),
            (Service::Blob, "cont/b", "sks=b&sv=2018-11-09&sr=b", r"b\n2026-04-06\n\n\n2018-11-09\nb\n\n\n\n\n\n"),
            (Service::Queue, "line", "sks=q&sv=2025-07-05&sduoid=u", r"q\n2026-04-06\n\nu\n\n\n2025-07-05"),
            (
                Service::File,
                "share/f",
                "sks=f&sv=2025-07-05&sr=f&rsct=t",
                r"f\n2026-04-06\n\n\n\n\n2025-07-05\n\n\n\n\nt",
            ),
        ] {
            let text = string(service, path, &format!("{until}&{rest}"), "");
            let start = format!(r"r\n\n2030-01-01T00:00:00Z\n/{}/devstoreaccount1/{path}\n{NAMED}\n", service.name());
            assert_eq!(text, format!("{start}{expected}"), "{rest}");
        }
    }

    /// The key's value depends on every field that names it, and on no way of writing them.
    #[test]
    fn keys_are_named_by_their_fields() {
        let at = |seconds| Timestamp::UNIX_EPOCH.plus_seconds(seconds);
        let name = KeyName {
            object: "aa".into(),
            tenant: "bb".into(),
            start: at(1),
            expiry: at(2),
            service: Service::Blob,
            version: "2026-04-06".into(),
            delegated_tenant: String::new(),
        };
        let account_key = AccountKey::parse(DEVELOPMENT_KEY).expect("published");
        let value = |name: &KeyName| name.derive(&account_key).reveal().to_string();
        let same = KeyName { object: "AA".into(), start: at(1).plus_ticks(9), ..name.clone() };
        assert_eq!(value(&same), value(&name));
        for other in [
            KeyName { object: "ab".into(), ..name.clone() },
            KeyName { tenant: "bc".into(), ..name.clone() },
            KeyName { start: at(0), ..name.clone() },
            KeyName { expiry: at(3), ..name.clone() },
            KeyName { service: Service::Queue, ..name.clone() },
            KeyName { version: "2026-02-06".into(), ..name.clone() },
            KeyName { delegated_tenant: "cc".into(), ..name.clone() },
        ] {
            assert_ne!(value(&other), value(&name), "{other:?}");
        }
        let other_account = AccountKey::parse("a2V5").expect("Base64");
        assert_ne!(name.derive(&other_account).reveal(), value(&name));
    }
}
