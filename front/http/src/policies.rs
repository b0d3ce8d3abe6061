//! Stored access policies: their XML, and how a token and its policy make one.

use contract::Refusal;
use contract::limits::{STORED_POLICIES_MAX, STORED_POLICY_ID_CHARS_MAX};
use env::Timestamp;
use partition::record::StoredPolicy;

use crate::xml::XmlWriter;
use crate::xml::read::{self, Element, invalid};

/// `<SignedIdentifiers>`; an empty body removes all of them.
pub fn parse(body: &[u8]) -> Result<Vec<StoredPolicy>, Refusal> {
    if body.trim_ascii().is_empty() {
        return Ok(Vec::new());
    }
    let root = read::parse(body)?;
    if root.name != "SignedIdentifiers" {
        return Err(invalid("The root element is not SignedIdentifiers."));
    }
    if root.children.len() > STORED_POLICIES_MAX {
        return Err(invalid("There are more than five stored access policies."));
    }
    let mut policies: Vec<StoredPolicy> = Vec::new();
    for element in &root.children {
        let policy = parse_one(element)?;
        if policies.iter().any(|other| other.id == policy.id) {
            return Err(invalid("Two stored access policies have the same Id."));
        }
        policies.push(policy);
    }
    Ok(policies)
}

fn parse_one(element: &Element) -> Result<StoredPolicy, Refusal> {
    if element.name != "SignedIdentifier" {
        return Err(invalid("An element is not SignedIdentifier."));
    }
    let id = element.child("Id").map(|id| id.text.clone()).unwrap_or_default();
    if id.is_empty() || id.chars().count() > STORED_POLICY_ID_CHARS_MAX {
        return Err(invalid("An Id has 1 to 64 characters."));
    }
    let Some(policy) = element.child("AccessPolicy") else { return Ok(StoredPolicy { id, ..StoredPolicy::default() }) };
    let moment = |name: &str| match policy.value(name) {
        None => Ok(None),
        Some(text) => Timestamp::parse_iso8601(text).map(Some).ok_or_else(|| invalid(format!("{name} is not a time."))),
    };
    let permissions = policy.value("Permission").map(str::to_string);
    if permissions.as_deref().is_some_and(|letters| !letters.bytes().all(|b| b.is_ascii_lowercase())) {
        return Err(invalid("Permission has an unknown letter."));
    }
    Ok(StoredPolicy { id, start: moment("Start")?, expiry: moment("Expiry")?, permissions })
}

/// A policy given without fields comes back with its Id alone.
pub fn render(policies: &[StoredPolicy]) -> String {
    let mut xml = XmlWriter::new();
    if policies.is_empty() {
        xml.element("SignedIdentifiers", "");
        return xml.finish();
    }
    xml.open("SignedIdentifiers");
    for policy in policies {
        xml.open("SignedIdentifier").element("Id", &policy.id);
        if policy.start.is_some() || policy.expiry.is_some() || policy.permissions.is_some() {
            xml.open("AccessPolicy");
            xml.optional("Start", policy.start.map(Timestamp::iso8601).as_deref());
            xml.optional("Expiry", policy.expiry.map(Timestamp::iso8601).as_deref());
            xml.optional("Permission", policy.permissions.as_deref());
            xml.close("AccessPolicy");
        }
        xml.close("SignedIdentifier");
    }
    xml.close("SignedIdentifiers");
    xml.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_round_trip_normalised() {
        let sent = b"<SignedIdentifiers><SignedIdentifier><Id>a b</Id><AccessPolicy><Start>2020-01-01</Start>\
            <Expiry>2030-01-01T00:00:00Z</Expiry><Permission>rl</Permission></AccessPolicy></SignedIdentifier>\
            <SignedIdentifier><Id>bare</Id></SignedIdentifier></SignedIdentifiers>";
        let policies = parse(sent).expect("right");
        let shown = render(&policies);
        assert!(shown.contains("<Id>a b</Id><AccessPolicy><Start>2020-01-01T00:00:00.0000000Z</Start><Expiry>2030-01-01T00:00:00.0000000Z</Expiry>"));
        assert!(shown.contains("<SignedIdentifier><Id>bare</Id></SignedIdentifier>"));
        assert_eq!(parse(shown.as_bytes()).expect("our own"), policies);
        for empty in [&b""[..], b"<SignedIdentifiers />", b"<SignedIdentifiers></SignedIdentifiers>"] {
            assert_eq!(parse(empty).expect("right"), []);
        }
        assert!(render(&[]).ends_with("<SignedIdentifiers />"));
    }

    #[test]
    fn what_is_refused() {
        let one = |inner: &str| {
            format!("<SignedIdentifiers><SignedIdentifier>{inner}</SignedIdentifier></SignedIdentifiers>")
        };
        let long = format!("<Id>{}</Id>", "x".repeat(65));
        for text in [
            "<Other/>".to_string(),
            "<SignedIdentifiers><Other/></SignedIdentifiers>".into(),
            one(""),
            one("<Id></Id>"),
            one(&long),
            one("<Id>a</Id><AccessPolicy><Expiry>soon</Expiry></AccessPolicy>"),
            one("<Id>a</Id><AccessPolicy><Permission>R!</Permission></AccessPolicy>"),
            format!(
                "<SignedIdentifiers>{}</SignedIdentifiers>",
                "<SignedIdentifier><Id>a</Id></SignedIdentifier>".repeat(2)
            ),
            format!(
                "<SignedIdentifiers>{}</SignedIdentifiers>",
                (0..6).map(|n| format!("<SignedIdentifier><Id>{n}</Id></SignedIdentifier>")).collect::<String>()
            ),
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
