//! Get User Delegation Key.

use contract::limits::DELEGATION_KEY_SECONDS_MAX;
use contract::operations::Operation;
use contract::{ErrorCode, Refusal};
use env::Timestamp;
use partition::Failure;

use crate::auth::user_delegation::KeyName;
use crate::body::receive;
use crate::request::Request;
use crate::respond::document;
use crate::tokens::Principal;
use crate::wire::{Body, Response};
use crate::xml::XmlWriter;
use crate::xml::read::{self, invalid};

pub async fn key(
    request: &Request<'_>,
    row: &Operation,
    principal: &Principal,
    body: &mut Body<'_>,
) -> Result<Response, Failure> {
    let asked = Asked::parse(&receive(body).await?, request.now)?;
    let name = KeyName {
        object: principal.object.clone(),
        tenant: principal.tenant.clone(),
        start: asked.start,
        expiry: asked.expiry,
        service: request.service,
        version: request.version.to_string(),
        delegated_tenant: asked.delegated_tenant,
    };
    // An account has at least one key; the first signs.
    let value = name.derive(&request.account.keys[0]);
    let mut xml = XmlWriter::new();
    xml.open("UserDelegationKey");
    xml.element("SignedOid", &name.object).element("SignedTid", &name.tenant);
    xml.element("SignedStart", &by_the_second(name.start)).element("SignedExpiry", &by_the_second(name.expiry));
    xml.element("SignedService", &name.service.letter().to_string()).element("SignedVersion", &name.version);
    let delegated = Some(name.delegated_tenant.as_str()).filter(|tenant| !tenant.is_empty());
    xml.optional("SignedDelegatedUserTid", delegated);
    xml.element("Value", value.reveal()).close("UserDelegationKey");
    Ok(document(request, row, xml.finish()))
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Asked {
    start: Timestamp,
    expiry: Timestamp,
    delegated_tenant: String,
}

impl Asked {
    /// `<KeyInfo>`: when the key begins and ends, both at most seven days from now.
    fn parse(body: &[u8], now: Timestamp) -> Result<Asked, Refusal> {
        let root = read::parse(body)?;
        if root.name != "KeyInfo" {
            return Err(invalid("The root element is not KeyInfo."));
        }
        let bad = |name: &'static str, value: &str, reason: &'static str| {
            Refusal::from(ErrorCode::InvalidXmlNodeValue)
                .with("XmlNodeName", name)
                .with("XmlNodeValue", value)
                .with("Reason", reason)
        };
        let moment = |name: &'static str| match root.value(name) {
            None => Ok(None),
            Some(text) => Timestamp::parse_iso8601(text).map(Some).ok_or_else(|| bad(name, text, "It is not a time.")),
        };
        let start = moment("Start")?.unwrap_or(now);
        let expiry = moment("Expiry")?.ok_or_else(|| bad("Expiry", "", "It is missing."))?;
        let last = now.plus_seconds(DELEGATION_KEY_SECONDS_MAX);
        if start > last {
            return Err(bad("Start", &start.iso8601(), "It is more than seven days ahead."));
        }
        if expiry > last {
            return Err(bad("Expiry", &expiry.iso8601(), "It is more than seven days ahead."));
        }
        if expiry <= start || expiry <= now {
            return Err(bad("Expiry", &expiry.iso8601(), "It is not after Start and now."));
        }
        let delegated_tenant = root.value("DelegatedUserTid").unwrap_or_default().to_string();
        Ok(Asked { start, expiry, delegated_tenant })
    }
}

/// `2026-01-02T03:04:05Z`
fn by_the_second(moment: Timestamp) -> String {
    format!("{}Z", &moment.iso8601()[..19])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_asked_for() {
        let at = |text: &str| Timestamp::parse_iso8601(text).expect("a time");
        let now = at("2026-01-02T03:04:05Z");
        let info =
            |start: &str, expiry: &str| format!("<KeyInfo><Start>{start}</Start><Expiry>{expiry}</Expiry></KeyInfo>");
        for (start, expiry, good) in [
            ("2026-01-02T03:00:00Z", "2026-01-03T03:00:00Z", true),
            ("", "2026-01-09T03:04:05Z", true),
            ("2025-12-01", "2026-01-03T03:00:00Z", true),
            ("2026-01-02T03:00:00Z", "2026-01-09T03:04:06Z", false),
            ("2026-01-09T03:04:06Z", "2026-01-09T03:04:05Z", false),
            ("2026-01-04T03:00:00Z", "2026-01-03T03:00:00Z", false),
            ("2026-01-01T03:00:00Z", "2026-01-02T03:04:05Z", false),
            ("soon", "2026-01-03T03:00:00Z", false),
            ("2026-01-02T03:00:00Z", "", false),
        ] {
            assert_eq!(Asked::parse(info(start, expiry).as_bytes(), now).is_ok(), good, "{start} {expiry}");
        }
        assert!(Asked::parse(b"<Other/>", now).is_err());
        assert_eq!(by_the_second(now.plus_ticks(7)), "2026-01-02T03:04:05Z");
    }
}
