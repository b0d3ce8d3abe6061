//! What all kinds of SAS share: their fields, and when, from where and over what they may be used.

use std::net::{IpAddr, Ipv4Addr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::{ApiVersion, ErrorCode, Refusal};
use env::Timestamp;

use super::failed;
use crate::request::Request;

/// A field as it was sent; empty if it was not.
pub fn field<'a>(request: &'a Request<'_>, name: &str) -> &'a str {
    request.query.get(name).unwrap_or_default()
}

pub fn required<'a>(request: &'a Request<'_>, name: &str) -> Result<&'a str, Refusal> {
    request.query.get(name).ok_or_else(|| failed(format!("{name} is mandatory. Cannot be empty")))
}

pub fn signed_version(request: &Request<'_>, oldest: ApiVersion) -> Result<ApiVersion, Refusal> {
    let version = ApiVersion::parse(required(request, "sv")?);
    version.filter(|version| *version >= oldest).ok_or_else(|| failed("sv is not valid"))
}

pub fn check_letters(name: &str, value: &str, letters: &str) -> Result<(), Refusal> {
    match value.chars().find(|letter| !letters.contains(*letter)) {
        Some(_) => Err(failed(format!("{name} has an unknown letter: {value}"))),
        None => Ok(()),
    }
}

/// Did one of the account's keys make the signature?
pub fn check_signature(request: &Request<'_>, string_to_sign: &str) -> Result<(), Refusal> {
    let signature = STANDARD.decode(required(request, "sig")?).map_err(|_| failed("sig is not Base64"))?;
    if request.account.keys.iter().any(|key| key.verifies(string_to_sign, &signature)) {
        return Ok(());
    }
    tracing::debug!(request = %request.id, ?string_to_sign, "the SAS signature did not match");
    Err(failed(format!("Signature did not match. String to sign used was {string_to_sign}")))
}

/// When, from where and over what a token may be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restrictions {
    start: Option<Timestamp>,
    expiry: Timestamp,
    addresses: Option<(Ipv4Addr, Ipv4Addr)>,
    https_only: bool,
}

impl Restrictions {
    /// From `st`, `se`, `sip` and `spr`; the times may come from a stored policy.
    pub fn parse(start: Option<&str>, expiry: &str, addresses: Option<&str>, protocol: &str) -> Result<Self, Refusal> {
        let moment = |name: &'static str, text: &str| {
            Timestamp::parse_iso8601(text).ok_or_else(|| failed(format!("{name} is not a time: {text}")))
        };
        let https_only = match protocol {
            "" | "https,http" | "http,https" => false,
            "https" => true,
            _ => return Err(failed("spr is not valid")),
        };
        Ok(Restrictions {
            start: start.map(|text| moment("st", text)).transpose()?,
            expiry: moment("se", expiry)?,
            addresses: addresses.map(parse_addresses).transpose()?,
            https_only,
        })
    }

    pub fn check(&self, now: Timestamp, client: IpAddr, tls: bool) -> Result<(), Refusal> {
        if now >= self.expiry || self.start.is_some_and(|start| now < start) {
            let start = self.start.map(Timestamp::http_date).unwrap_or_default();
            return Err(failed(format!(
                "Signed expiry time [{}] must be after signed start time [{start}] and the current time [{}]",
                self.expiry.http_date(),
                now.http_date()
            )));
        }
        if let Some((first, last)) = self.addresses {
            let inside = matches!(client_v4(client), Some(ip) if (first..=last).contains(&ip));
            if !inside {
                return Err(
                    Refusal::from(ErrorCode::AuthorizationSourceIPMismatch).with("SourceIP", client.to_string())
                );
            }
        }
        if self.https_only && !tls {
            return Err(ErrorCode::AuthorizationProtocolMismatch.into());
        }
        Ok(())
    }
}

/// One IPv4 address, or two with a hyphen.
fn parse_addresses(text: &str) -> Result<(Ipv4Addr, Ipv4Addr), Refusal> {
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
