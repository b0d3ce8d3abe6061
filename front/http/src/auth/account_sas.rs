//! Account SAS: a token for services, resource types and permissions of the whole account.

use std::net::{IpAddr, Ipv4Addr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::operations::{Letters, Operation};
use contract::{ApiVersion, ErrorCode, Refusal};
use env::Timestamp;

use super::{Grant, failed};
use crate::request::Request;

/// A token whose signature and time have been checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccountSas {
    services: String,
    resource_types: String,
    permissions: String,
}

pub fn verify(request: &Request<'_>) -> Result<AccountSas, Refusal> {
    let field = |name: &str| request.query.get(name).unwrap_or_default();
    let required =
        |name: &str| request.query.get(name).ok_or_else(|| failed(format!("{name} is mandatory. Cannot be empty")));
    let version = required("sv")?;
    let version = ApiVersion::parse(version)
        .filter(|v| *v >= ApiVersion::ACCOUNT_SAS)
        .ok_or_else(|| failed("sv is not valid"))?;
    let (services, resource_types, permissions) = (required("ss")?, required("srt")?, required("sp")?);
    for (name, value, letters) in
        [("ss", services, "bqtf"), ("srt", resource_types, "sco"), ("sp", permissions, "rwdxylacuptfiom")]
    {
        if !value.chars().all(|c| letters.contains(c)) {
            return Err(failed(format!("{name} has an unknown letter: {value}")));
        }
    }
    let moment = |name: &'static str, text: &str| {
        Timestamp::parse_iso8601(text).ok_or_else(|| failed(format!("{name} is not a time: {text}")))
    };
    let expiry = moment("se", required("se")?)?;
    let start = request.query.get("st").map(|text| moment("st", text)).transpose()?;
    let ips = request.query.get("sip").map(parse_ip_range).transpose()?;
    let https_only = match field("spr") {
        "" | "https,http" | "http,https" => false,
        "https" => true,
        _ => return Err(failed("spr is not valid")),
    };

    let mut string_to_sign = [
        request.account.name.as_str(),
        permissions,
        services,
        resource_types,
        field("st"),
        field("se"),
        field("sip"),
        field("spr"),
        field("sv"),
    ]
    .map(|line| format!("{line}\n"))
    .concat();
    if version >= ApiVersion::ACCOUNT_SAS_SIGNS_ENCRYPTION_SCOPE {
        string_to_sign.push_str(&format!("{}\n", field("ses")));
    }
    let signature = STANDARD.decode(required("sig")?).map_err(|_| failed("sig is not Base64"))?;
    if !request.account.keys.iter().any(|key| key.verifies(&string_to_sign, &signature)) {
        tracing::debug!(request = %request.id, ?string_to_sign, "the SAS signature did not match");
        return Err(failed(format!("Signature did not match. String to sign used was {string_to_sign}")));
    }

    if request.now >= expiry || start.is_some_and(|start| request.now < start) {
        let start = start.map(Timestamp::http_date).unwrap_or_default();
        return Err(failed(format!(
            "Signed expiry time [{}] must be after signed start time [{start}] and the current time [{}]",
            expiry.http_date(),
            request.now.http_date()
        )));
    }
    if let Some((first, last)) = ips {
        let inside = matches!(client_v4(request.client), Some(ip) if (first..=last).contains(&ip));
        if !inside {
            return Err(
                Refusal::from(ErrorCode::AuthorizationSourceIPMismatch).with("SourceIP", request.client.to_string())
            );
        }
    }
    if https_only && !request.tls {
        return Err(ErrorCode::AuthorizationProtocolMismatch.into());
    }
    if !field("ses").is_empty() {
        return Err(failed("Encryption scopes are not supported by this server."));
    }
    Ok(AccountSas { services: services.into(), resource_types: resource_types.into(), permissions: permissions.into() })
}

impl AccountSas {
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
        Ok(Grant { may_overwrite: needed.letters.allow_overwrite(&self.permissions) })
    }
}

/// One IPv4 address, or two with a hyphen.
fn parse_ip_range(text: &str) -> Result<(Ipv4Addr, Ipv4Addr), Refusal> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) => Ok((first, last)),
        _ => Err(failed(format!("sip is not an address or a range of addresses: {text}"))),
    }
}

fn client_v4(client: IpAddr) -> Option<Ipv4Addr> {
    match client {
        IpAddr::V4(v4) => Some(v4),
        IpAddr::V6(v6) => v6.to_ipv4_mapped(),
    }
}
