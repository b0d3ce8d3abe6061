//! A request that the server signs itself: whoever showed an account's key to the console asks in the account's name. It is signed as a
//! client would sign it and then judged as any other, so there is no second way in: what the key may not do this may not, and a key that
//! was rotated away signs for nobody.

use contract::{ApiVersion, Service};
use env::Timestamp;

use super::shared_key::VARIANTS;
use super::strings::Signed;
use crate::account::{Account, AccountKey};
use crate::query::Query;
use crate::wire::Head;

/// Whom a request is made for, and how it says so.
pub struct OnBehalf<'a> {
    pub account: &'a Account,
    pub key: &'a AccountKey,
    /// The host and port that the service has, as they stand in addresses that it answers with.
    pub host: &'a str,
    /// What made the request.
    pub agent: &'a str,
    pub now: Timestamp,
}

/// What of the caller's headers is passed on beside `x-ms-*`. Anything else is about the caller's own connection: cookies, origins,
/// credentials.
const PASSED_ON: [&str; 19] = [
    "accept",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "dataserviceversion",
    "expect",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-unmodified-since",
    "maxdataserviceversion",
    "prefer",
    "range",
    "transfer-encoding",
    "x-http-method",
    "x-ms-version",
];

fn is_passed_on(name: &str) -> bool {
    let is_ours = name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("x-ms-"));
    (is_ours && !name.eq_ignore_ascii_case("x-ms-date"))
        || PASSED_ON.iter().any(|passed| passed.eq_ignore_ascii_case(name))
}

impl OnBehalf<'_> {
    /// The caller's request for `target`, signed. `None` if it cannot be one.
    pub fn sign(&self, service: Service, head: &Head, target: &str) -> Option<Head> {
        let newest = ApiVersion::NEWEST_KNOWN.to_string();
        let date = self.now.http_date();
        let mut headers = vec![("Host", self.host), ("User-Agent", self.agent), ("x-ms-date", &date)];
        headers.extend(head.all_headers().filter(|(name, _)| is_passed_on(name)));
        if head.header("x-ms-version").is_none() {
            headers.push(("x-ms-version", &newest));
        }
        let (raw_path, query) = target.split_once('?').unwrap_or((target, ""));
        let query = Query::parse(query).ok()?;
        let signed = Signed {
            service,
            verb: head.method(),
            headers: &headers,
            account: self.account.name.as_str(),
            raw_path,
            query: query.all(),
            // One that is no version is refused by the service, whatever was signed.
            version: headers
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case("x-ms-version"))
                .and_then(|(_, text)| ApiVersion::parse(text))
                .unwrap_or(ApiVersion::NEWEST_KNOWN),
        };
        let signature = self.key.sign(&signed.full(VARIANTS[0]));
        let mut text = format!("{} {target} HTTP/1.1\r\n", head.method());
        for (name, value) in &headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("Authorization: SharedKey {}:{signature}\r\n\r\n", self.account.name.as_str()));
        // Nothing of it can break a line: it came out of a head.
        let (head, _) = Head::parse(text.as_bytes()).ok().flatten()?;
        Some(head)
    }
}
