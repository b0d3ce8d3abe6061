//! What is said of a copy on the wire: by answers and listings, and by those who abort one.

use contract::Refusal;
use env::{Id, Timestamp};
use partition::record::blob::{CopyState, CopyStatus};

use crate::request::Request;
use crate::wire::Response;
use crate::xml::XmlWriter;

const ACTION: &str = "x-ms-copy-action";

fn status_name(status: CopyStatus) -> &'static str {
    match status {
        CopyStatus::Pending => "pending",
        CopyStatus::Success => "success",
        CopyStatus::Aborted => "aborted",
        CopyStatus::Failed => "failed",
    }
}

/// What the one who began a copy is told.
pub fn put_begun(response: &mut Response, copy: Option<&CopyState>) {
    let Some(copy) = copy else { return };
    response.header("x-ms-copy-id", copy.id.to_string()).header("x-ms-copy-status", status_name(copy.status));
}

/// What a blob or file shows of the copy that made it, or is making it.
pub fn put_copy(response: &mut Response, copy: Option<&CopyState>) {
    let Some(copy) = copy else { return };
    response.header("x-ms-copy-id", copy.id.to_string());
    response.header("x-ms-copy-source", copy.source.clone());
    response.header("x-ms-copy-status", status_name(copy.status));
    response.header("x-ms-copy-progress", format!("{}/{}", copy.bytes_done, copy.bytes));
    if let Some(completed) = copy.completed {
        response.header("x-ms-copy-completion-time", completed.http_date());
    }
    if let Some(description) = &copy.description {
        response.header("x-ms-copy-status-description", description.clone());
    }
    if let Some(incremental) = copy.incremental {
        response.header("x-ms-incremental-copy", "true");
        response.header("x-ms-copy-destination-snapshot", Timestamp::from_ticks(incremental.snapshot).iso8601());
    }
}

/// The same in a listing.
pub fn list_copy(xml: &mut XmlWriter, copy: Option<&CopyState>) {
    let Some(copy) = copy else { return };
    xml.element("CopyId", &copy.id.to_string()).element("CopySource", &copy.source);
    xml.element("CopyStatus", status_name(copy.status));
    xml.element("CopyProgress", &format!("{}/{}", copy.bytes_done, copy.bytes));
    xml.optional("CopyCompletionTime", copy.completed.map(|completed| completed.http_date()).as_deref());
    xml.optional("CopyStatusDescription", copy.description.as_deref());
    if let Some(incremental) = copy.incremental {
        xml.element("IncrementalCopy", "true");
        xml.element("CopyDestinationSnapshot", &Timestamp::from_ticks(incremental.snapshot).iso8601());
    }
}

/// The copy that a request wants to abort.
pub fn aborted(request: &Request<'_>) -> Result<Id, Refusal> {
    match request.header(ACTION) {
        Some(action) if action.eq_ignore_ascii_case("abort") => {}
        Some(other) => return Err(Refusal::bad_header(ACTION, other)),
        None => return Err(Refusal::missing_header(ACTION)),
    }
    let text = request.query.get("copyid").ok_or_else(|| Refusal::missing_query("copyid"))?;
    copy_id(text).ok_or_else(|| Refusal::bad_query("copyid", text, "Not a GUID."))
}

fn copy_id(text: &str) -> Option<Id> {
    let is_hyphen = |(at, byte): (usize, u8)| [8, 13, 18, 23].contains(&at) == (byte == b'-');
    if text.len() != 36 || !text.bytes().enumerate().all(is_hyphen) {
        return None;
    }
    u128::from_str_radix(&text.replace('-', ""), 16).ok().map(Id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids() {
        for (text, expected) in [
            ("00000000-0000-0000-0000-00000000001b", Some(0x1b)),
            ("00000000-0000-0000-0000-00000000001B", Some(0x1b)),
            ("00000000-0000-0000-0000-0000000000+b", None),
            ("0000000000000000000000000000001b", None),
            ("00000000-0000-0000-0000-0000-0000001", None),
            ("", None),
        ] {
            assert_eq!(copy_id(text), expected.map(Id), "{text}");
        }
    }
}
