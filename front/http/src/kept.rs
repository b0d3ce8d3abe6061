//! What was deleted and is kept, on the wire: how a deletion is named, asked for and shown.

use contract::Refusal;
use env::Timestamp;
use partition::kept::{Deletion, KeptVersion};

use crate::request::Request;
use crate::xml::XmlWriter;

/// `01DC5A6B9F3E2D10`
pub fn version_text(version: KeptVersion) -> String {
    format!("{:016X}", version.0)
}

pub fn parse_version(text: &str) -> Option<KeptVersion> {
    let is_hex = text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
    u64::from_str_radix(text, 16).ok().filter(|_| is_hex).map(KeptVersion)
}

/// The version that is to be restored: everything comes back under its own name alone.
pub fn asked_version(
    request: &Request<'_>,
    [name, version]: [&'static str; 2],
    expected: &str,
) -> Result<KeptVersion, Refusal> {
    let required = |name: &'static str| request.header(name).ok_or(Refusal::missing_header(name));
    let (given, text) = (required(name)?, required(version)?);
    if given != expected {
        return Err(Refusal::bad_header(name, given));
    }
    parse_version(text).ok_or_else(|| Refusal::bad_header(version, text))
}

/// When it was deleted and how many days are left, in a listing.
pub fn list_deletion(xml: &mut XmlWriter, deletion: Option<&Deletion>, now: Timestamp) {
    if let Some(deletion) = deletion {
        let days = deletion.expires.days_since(now);
        xml.element("DeletedTime", &deletion.deleted.http_date()).element("RemainingRetentionDays", &days.to_string());
    }
}
