//! What all kinds of SAS share: their fields, and when, from where and over what they may be used.

use std::net::{IpAddr, Ipv4Addr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::operations::Resource;
use contract::{ApiVersion, ErrorCode, Refusal, Service};
use env::Timestamp;

use super::failed;
use crate::account::AccountKey;
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

/// Everything a SAS of any kind may bring into its string to sign, but for what `srq` names.
fn is_field(name: &str) -> bool {
    const FIELDS: &str = " sv ss srt sp st se sr si sip spr ses tn spk srk epk erk rscc rscd rsce rscl rsct sdd skoid sktid skt ske sks skv \
        saoid suoid scid sduoid skdutid srh srq snapshot versionid ";
    FIELDS.contains(&format!(" {name} "))
}

/// Did one of the keys make the signature?
pub fn check_signature<'k>(
    request: &Request<'_>,
    string_to_sign: &str,
    mut keys: impl Iterator<Item = &'k AccountKey>,
) -> Result<(), Refusal> {
    // The fields are signed as lines: a line feed inside one would let them be read as others, with the same signature.
    if let Some((name, _)) = request.query.all().iter().find(|(name, value)| is_field(name) && value.contains('\n')) {
        return Err(failed(format!("{name} has a line feed")));
    }
    let signature = STANDARD.decode(required(request, "sig")?).map_err(|_| failed("sig is not Base64"))?;
    if keys.any(|key| key.verifies(string_to_sign, &signature)) {
        return Ok(());
    }
    tracing::debug!(request = %request.id, ?string_to_sign, "the SAS signature did not match");
    Err(failed(format!("Signature did not match. String to sign used was {string_to_sign}")))
}

/// The name of what the token is for, taken from the request: a token for a container is tried on the container of the request, whatever
/// blob is asked for.
pub fn resource_name(request: &Request<'_>) -> Result<String, Refusal> {
    let path = || match &request.address.rest {
        Some(rest) => format!("{}/{rest}", request.address.first),
        None => request.address.first.clone(),
    };
    match (request.service, required_resource(request)?) {
        (Service::Blob, "b" | "bs" | "bv") if request.resource() == Resource::Blob => {
            Ok(format!("{}/{}", request.container()?.as_str(), request.blob()?.as_str()))
        }
        (_, kind) if request.resource() == Resource::Account => {
            Err(failed(format!("sr={kind}: no token of this kind is for the service itself")))
        }
        (Service::Blob, "c") => Ok(request.container()?.as_str().to_string()),
        // An escaped one would make the name of a file look like that of a share.
        (Service::File | Service::Queue, _) if request.address.first.contains('/') => {
            Err(failed("The name of a share or queue has no slash."))
        }
        (Service::File, "f") if request.resource() == Resource::File => Ok(path()),
        (Service::File, "s") | (Service::Queue, _) => Ok(request.address.first.clone()),
        (Service::Table, _) => {
            let name = required(request, "tn")?.to_ascii_lowercase();
            // The parts of a batch are addressed, and so checked, one by one.
            if request.resource() != Resource::TableBatch && name != request.within() {
                return Err(failed("tn: the token is for another table"));
            }
            Ok(name)
        }
        (_, kind) => Err(failed(format!("sr={kind} does not fit what is asked for"))),
    }
}

fn required_resource<'a>(request: &'a Request<'_>) -> Result<&'a str, Refusal> {
    match request.service {
        Service::Blob | Service::File => required(request, "sr"),
        Service::Queue | Service::Table => Ok(field(request, "sr")),
    }
}

/// The snapshot or version of a blob that the token must be signed for, taken from the request.
pub fn snapshot<'a>(request: &'a Request<'_>, version: ApiVersion) -> Result<&'a str, Refusal> {
    match field(request, "sr") {
        "bs" | "bv" if version < ApiVersion::SAS_SIGNS_RESOURCE_KIND => {
            Err(failed("sr: a token of this version is for the blob itself: neither sr nor a snapshot is signed."))
        }
        "bs" => required(request, "snapshot"),
        "bv" => required(request, "versionid"),
        "b" if request.query.get("snapshot").or(request.query.get("versionid")).is_some() => {
            Err(failed("The token is for the blob itself, not for a snapshot or version of it."))
        }
        _ => Ok(""),
    }
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
