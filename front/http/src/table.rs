//! The Table service on the wire: requests to transactions and queries, outcomes to OData JSON.

pub mod acl;
pub mod address;
pub mod batch;
pub mod entities;
pub mod json;
pub mod media;
pub mod multipart;
mod options;
pub mod tables;

use contract::{ApiVersion, ErrorCode, Refusal};
use env::{Id, Timestamp};

use crate::request::Request;
use crate::wire::{Head, Response, ResponseBody};
use media::Level;

/// What the client says it speaks. Without a header it is not held to what old versions spoke.
fn version(request: &Request<'_>) -> Option<ApiVersion> {
    request.header("x-ms-version").map(|_| request.version)
}

/// Is it an operation whose bodies are OData? The others, which `comp` names, speak XML.
pub(crate) fn speaks_odata(head: &Head) -> bool {
    let query = head.target().split_once('?').map_or("", |(_, query)| query);
    !query.split('&').any(|part| part.get(..5).is_some_and(|name| name.eq_ignore_ascii_case("comp=")))
}

/// The content type and body of a refusal: JSON, or XML for a client that says it reads nothing else.
pub(crate) fn error(head: &Head, refusal: &Refusal, id: Id, now: Timestamp) -> (&'static str, String) {
    let accept = head.header("accept");
    if media::reads_json(accept) {
        let level = media::answer_level(None, accept, None).unwrap_or(Level::Minimal);
        return (level.content_type(), json::error(refusal, id, now));
    }
    let text = format!("{}\nRequestId:{id}\nTime:{}", refusal.message(), now.iso8601());
    let mut xml = crate::xml::XmlWriter::new();
    xml.open_with("error", &[("xmlns", "http://schemas.microsoft.com/ado/2007/08/dataservices/metadata")]);
    xml.element("code", refusal.code.name());
    xml.open_with("message", &[("xml:lang", "en-US")]).text(&text).close("message").close("error");
    ("application/xml", xml.finish())
}

/// What every OData answer has.
fn answer(status: u16, data_service_version: &'static str) -> Response {
    let mut response = Response::new(status);
    response.header("X-Content-Type-Options", "nosniff").header("Cache-Control", "no-cache");
    response.header("DataServiceVersion", data_service_version);
    response
}

fn json_answer(status: u16, level: Level, body: String) -> Response {
    let mut response = answer(status, "3.0;");
    response.header("Content-Type", level.content_type());
    response.body = ResponseBody::Bytes(body.into());
    response
}

/// What `Prefer` asks of an answer that could echo what was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Echo {
    /// Not said: it does.
    Unsaid,
    Content,
    Nothing,
}

impl Echo {
    fn of(request: &Request<'_>) -> Echo {
        let words = || request.head.headers("prefer").flat_map(|value| value.split(',')).map(str::trim);
        if words().any(|word| word.eq_ignore_ascii_case("return-no-content")) {
            Echo::Nothing
        } else if words().any(|word| word.eq_ignore_ascii_case("return-content")) {
            Echo::Content
        } else {
            Echo::Unsaid
        }
    }

    fn applied(self) -> Option<&'static str> {
        match self {
            Echo::Unsaid => None,
            Echo::Content => Some("return-content"),
            Echo::Nothing => Some("return-no-content"),
        }
    }

    /// Said on refusals as well.
    fn say(self, refusal: Refusal) -> Refusal {
        match self.applied() {
            Some(applied) => refusal.header("Preference-Applied", applied),
            None => refusal,
        }
    }
}

/// The path's one segment. Nothing of the service lies deeper.
fn segment<'a>(request: &'a Request<'_>) -> Result<&'a str, Refusal> {
    match request.address.rest {
        None => Ok(&request.address.first),
        Some(_) => Err(ErrorCode::InvalidUri.into()),
    }
}
