//! Tokens away from a server: made with an account's key, and judged as a server would judge them. The strings that are signed and the checks
//! are those of the server; only stored policies, which a server has, cannot be looked at.

use std::net::IpAddr;
use std::sync::Arc;

use contract::{ApiVersion, Refusal, Service};
use env::{Id, Timestamp};

use super::explain::{Explanation, explain};
use super::sas::{Restrictions, check_signature, field};
use super::strings::{HeaderOrder, Signed, Variant};
use super::user_delegation::{self, KeyName};
use super::{Kind, account_sas, service_sas};
use crate::account::{Account, AccountKey};
use crate::address::{Address, host_account};
use crate::query::{Query, percent_encode};
use crate::request::Request;
use crate::wire::Head;

/// Who would come with a token, when, and over what.
#[derive(Clone, Copy, Debug)]
pub struct Visit {
    pub now: Timestamp,
    pub client: IpAddr,
    pub tls: bool,
}

/// What a token is to say. The fields are named as in its query, without `sig`.
pub struct Wanted<'a> {
    pub service: Service,
    /// What it is for: `container/dir/blob`; empty for an account.
    pub name: &'a str,
    pub fields: &'a [(&'a str, String)],
}

/// What is found out about a token.
#[derive(Clone, Debug)]
pub struct Judged {
    pub explanation: Explanation,
    pub service: Service,
    /// The account and what in it, as its address says; `None` of a token without an address.
    pub place: Option<(String, String)>,
    /// Why it would be refused, as far as it can be told here.
    pub refusals: Vec<String>,
    /// What cannot be told here.
    pub unknown: Vec<String>,
}

/// The token, signed with the account's first key.
pub fn make(account: &Account, wanted: &Wanted<'_>, visit: Visit) -> Result<String, String> {
    let fields: Vec<(&str, &str)> = wanted
        .fields
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .filter(|(_, value)| !value.is_empty())
        .collect();
    let query = |fields: &[(&str, &str)]| {
        let pairs = fields.iter().map(|(name, value)| format!("{name}={}", percent_encode(value, "")));
        pairs.collect::<Vec<_>>().join("&")
    };
    let path = format!("/{}/{}", account.name.as_str(), percent_encode(wanted.name, "/"));
    let unsigned = query(&fields);
    // A container is asked for with a restype; a blob has its name alone.
    let restype = match (wanted.service, field_of(&fields, "sr")) {
        (Service::Blob, "c") => "&restype=container",
        (Service::File, "s") => "&restype=share",
        _ => "",
    };
    let place = Place {
        service: wanted.service,
        host: "localhost",
        target: &format!("{path}?{unsigned}{restype}&sig=AA%3D%3D"),
    };
    let account = Arc::new(account.clone());
    let signature = place.request(account.clone(), visit, |request| {
        let string = string_to_sign(request)?;
        let key = account.keys.first().ok_or("the account has no key")?;
        match Kind::of(request) {
            Ok(Kind::UserDelegationSas { .. }) => {
                Ok::<_, String>(KeyName::read(request).map_err(words)?.derive(key).key().sign(&string))
            }
            _ => Ok(key.sign(&string)),
        }
    })??;
    let signed = [fields.as_slice(), &[("sig", signature.as_str())]].concat();
    let text = query(&signed);
    // What the server would not take is not handed out, but for what only time will tell.
    let target = format!("{path}?{text}{restype}");
    let place = Place { service: wanted.service, host: "localhost", target: &target };
    match place.request(account, visit, |request| terms(request, true))? {
        Some(refusal) => Err(refusal),
        None => Ok(text),
    }
}

/// `text` is an address with a token, or a token alone. `find` knows accounts by their names.
pub fn judge(text: &str, find: impl Fn(&str) -> Option<Account>, visit: Visit) -> Result<Judged, String> {
    let text = text.trim();
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (Some(scheme.to_ascii_lowercase()), rest),
        None => (None, text.trim_start_matches('?')),
    };
    let query = match scheme {
        Some(_) => rest.split_once('?').map_or("", |(_, query)| query),
        None => rest,
    };
    let parsed = Query::parse(query).map_err(words)?;
    if parsed.get("sig").is_none() {
        return Err("there is no sig in it: this is no shared access signature".into());
    }
    let (host, path) = match scheme {
        Some(_) => {
            let before = rest.split('?').next().unwrap_or_default();
            let at = before.find('/').unwrap_or(before.len());
            (&before[..at], if at == before.len() { "/" } else { &before[at..] })
        }
        None => ("", "/"),
    };
    let service = service_of(host, &parsed)?;
    let restype = match (service, parsed.get("sr"), parsed.get("restype"), path.matches('/').count()) {
        (Service::Blob, Some("c"), None, ..=2) => "&restype=container",
        (Service::File, Some("s"), None, ..=2) => "&restype=share",
        _ => "",
    };
    let target = format!("{path}?{query}{restype}");
    let has_address = scheme.is_some();
    let visit = Visit { tls: scheme.as_deref().map_or(visit.tls, |scheme| scheme == "https"), ..visit };
    let place = Place { service, host, target: &target };
    let (address, _) = place.address(&find)?;
    let known = find(&address.account);
    let account = Arc::new(known.clone().unwrap_or_else(Account::development));
    let place = Place { service, host, target: &target };
    let mut judged = place.request(account, visit, |request| {
        let mut judged = Judged {
            explanation: explain(request),
            service,
            place: has_address.then(|| {
                let inside = match &address.rest {
                    Some(rest) => format!("{}/{rest}", address.first),
                    None => address.first.clone(),
                };
                (address.account.clone(), inside)
            }),
            refusals: Vec::new(),
            unknown: Vec::new(),
        };
        signature(request, known.is_some(), has_address, &mut judged);
        judged.refusals.extend(terms(request, false));
        judged
    })?;
    if parsed.get("si").is_some() {
        judged.unknown.push("whether the stored policy that it names is there, and what it says".into());
    }
    Ok(judged)
}

/// Did the account's key make it?
fn signature(request: &Request<'_>, is_known: bool, has_address: bool, judged: &mut Judged) {
    let is_account_sas = matches!(Kind::of(request), Ok(Kind::AccountSas));
    if !has_address && !is_account_sas {
        judged.unknown.push("whether its signature is right: that depends on the address, so give all of it".into());
        judged.explanation.string_to_sign = Ok(String::new());
        return;
    }
    let string = match string_to_sign(request) {
        Ok(string) => string,
        Err(why) => return judged.refusals.push(why),
    };
    if !is_known {
        judged
            .unknown
            .push("whether its signature is right: the account's key is not known here (--account NAME:KEY)".into());
        return;
    }
    let keys = &request.account.keys;
    let checked = match Kind::of(request) {
        Ok(Kind::UserDelegationSas { .. }) => KeyName::read(request).and_then(|name| {
            let derived: Vec<_> = keys.iter().map(|key| name.derive(key)).collect();
            check_signature(request, &string, derived.iter().map(|key| key.key()))
        }),
        _ => check_signature(request, &string, keys.iter()),
    };
    if let Err(refusal) = checked {
        let why = words(refusal);
        // What was signed is told apart from it.
        judged.refusals.push(why.split(" String to sign").next().unwrap_or_default().to_string());
    }
}

/// Why a token whose signature is right would be refused. A new one may be meant for later, and for others.
fn terms(request: &Request<'_>, is_new: bool) -> Option<String> {
    if is_new {
        let at = |name: &str, fallback: Timestamp| Timestamp::parse_iso8601(field(request, name)).unwrap_or(fallback);
        let (start, expiry) = (at("st", Timestamp::UNIX_EPOCH), at("se", Timestamp::MAX));
        if expiry <= start {
            return Some("it would end before it begins".into());
        }
    }
    let refused = match Kind::of(request) {
        Ok(Kind::AccountSas) => account_sas::accept(request).err(),
        Ok(Kind::UserDelegationSas { .. }) => user_delegation::accept(request, None).err(),
        // A policy may say the rest.
        Ok(Kind::ServiceSas) if !field(request, "si").is_empty() => match field(request, "se") {
            "" => None,
            expiry => {
                let terms = Restrictions::parse(
                    request.query.get("st"),
                    expiry,
                    request.query.get("sip"),
                    field(request, "spr"),
                );
                terms.and_then(|terms| terms.check(request.now, request.client, request.tls)).err()
            }
        },
        Ok(Kind::ServiceSas) => service_sas::ServiceSas::accept(request, None).err(),
        Ok(_) => return Some("it is no shared access signature".into()),
        Err(refusal) => Some(refusal),
    };
    let is_of_the_visit = |refusal: &Refusal| {
        use contract::ErrorCode::{AuthorizationProtocolMismatch, AuthorizationSourceIPMismatch};
        matches!(refusal.code, AuthorizationProtocolMismatch | AuthorizationSourceIPMismatch)
            || words_of(refusal).starts_with("Signed expiry time")
    };
    refused.filter(|refusal| !(is_new && is_of_the_visit(refusal))).map(words)
}

fn string_to_sign(request: &Request<'_>) -> Result<String, String> {
    let string = match Kind::of(request) {
        Ok(Kind::AccountSas) => account_sas::string_to_sign(request),
        Ok(Kind::ServiceSas) => service_sas::string_to_sign(request),
        Ok(Kind::UserDelegationSas { .. }) => {
            let version = super::sas::signed_version(request, ApiVersion::USER_DELEGATION_SAS);
            version.and_then(|version| user_delegation::string_to_sign(request, version))
        }
        Ok(_) => return Err("it is no shared access signature".into()),
        Err(refusal) => Err(refusal),
    };
    string.map_err(words)
}

/// Where a request would go.
struct Place<'a> {
    service: Service,
    host: &'a str,
    target: &'a str,
}

impl Place<'_> {
    fn address(&self, find: impl Fn(&str) -> Option<Account>) -> Result<(Address, String), String> {
        // A name that nobody knows may be an account's as well, where its host says so.
        let is_account = |name: &str| find(name).is_some() || host_account(self.service.name(), self.host).is_some();
        Address::parse(self.service, self.target, self.host, false, is_account).map_err(words)
    }

    fn request<T>(
        &self,
        account: Arc<Account>,
        visit: Visit,
        look: impl FnOnce(&Request<'_>) -> T,
    ) -> Result<T, String> {
        let text = format!("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", self.target, self.host);
        let parsed = Head::parse(text.as_bytes()).ok().flatten();
        let (head, _) = parsed.ok_or("it has characters that no address has")?;
        let (address, query) = self.address(|_| None)?;
        let request = Request {
            service: self.service,
            head: &head,
            address,
            query: Query::parse(&query).map_err(words)?,
            account,
            settings: Arc::default(),
            version: ApiVersion::NEWEST_KNOWN,
            client: visit.client,
            tls: visit.tls,
            is_forwarded: false,
            id: Id(0),
            now: visit.now,
        };
        Ok(look(&request))
    }
}

/// By the host's name, by the development ports, or by what the token says.
fn service_of(host: &str, query: &Query) -> Result<Service, String> {
    let by_name = Service::ALL.into_iter().find(|service| host_account(service.name(), host).is_some());
    let port = host.rsplit_once(':').map_or("", |(_, port)| port);
    let by_port = Service::ALL.into_iter().zip(["10000", "10001", "10002", "10003"]).find(|(_, known)| *known == port);
    let by_token = match (query.get("ss"), query.get("tn"), query.get("sr")) {
        (Some(services), _, _) => Service::ALL.into_iter().find(|service| services.contains(service.letter())),
        (_, Some(_), _) => Some(Service::Table),
        (_, _, Some("b" | "bs" | "bv" | "c" | "d")) => Some(Service::Blob),
        (_, _, Some("f" | "s")) => Some(Service::File),
        _ => Some(Service::Queue),
    };
    by_name.or(by_port.map(|(service, _)| service)).or(by_token).ok_or_else(|| "ss names no service".to_string())
}

fn field_of<'a>(fields: &[(&str, &'a str)], name: &str) -> &'a str {
    fields.iter().find(|(other, _)| *other == name).map_or("", |(_, value)| value)
}

fn words_of(refusal: &Refusal) -> String {
    match refusal.detail.first() {
        Some((_, why)) => why.clone(),
        None => refusal.code.message().to_string(),
    }
}

fn words(refusal: Refusal) -> String {
    words_of(&refusal)
}

/// A request that a program of ours sends, to be signed with an account's key.
pub struct Unsigned<'a> {
    pub service: Service,
    pub verb: &'a str,
    /// All that are signed, with `x-ms-date`, `x-ms-version` and `content-length`.
    pub headers: &'a [(&'a str, &'a str)],
    /// As on the request line, with the account in it.
    pub raw_path: &'a str,
    /// Decoded.
    pub query: &'a [(String, String)],
}

/// The value of its `Authorization` header.
pub fn authorization(unsigned: &Unsigned<'_>, account: &str, key: &AccountKey) -> String {
    let signed = Signed {
        service: unsigned.service,
        verb: unsigned.verb,
        headers: unsigned.headers,
        account,
        raw_path: unsigned.raw_path,
        query: unsigned.query,
        version: ApiVersion::NEWEST_KNOWN,
    };
    let variant = Variant { header_order: HeaderOrder::Culture, language_first: false };
    format!("SharedKey {account}:{}", key.sign(&signed.full(variant)))
}

#[cfg(test)]
mod tests;
