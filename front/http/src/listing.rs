//! What listings of every service share on the wire: their parameters, the words of `include`, metadata.

use contract::names::Metadata;
use contract::{Refusal, limits};
use partition::list::Listing;

use crate::request::Request;
use crate::xml::XmlWriter;

pub fn listing(request: &Request<'_>, start: String, delimiter: Option<String>) -> Result<Listing, Refusal> {
    let results_max = match request.query.get("maxresults") {
        None => limits::LIST_RESULTS_MAX,
        Some(text) => match text.parse::<i64>() {
            Ok(number) if number >= 1 => usize::try_from(number).unwrap_or(usize::MAX).min(limits::LIST_RESULTS_MAX),
            Ok(_) => {
                return Err(Refusal::out_of_range("maxresults", text, 1, limits::LIST_RESULTS_MAX as u64));
            }
            Err(_) => return Err(Refusal::bad_query("maxresults", text, "Not a number.")),
        },
    };
    let prefix = request.query.get("prefix").unwrap_or_default().to_string();
    Ok(Listing { prefix, delimiter, start, results_max })
}

/// Checks the words of `include` and tells whether metadata is asked for.
pub fn includes(request: &Request<'_>, known: &[&str]) -> Result<bool, Refusal> {
    match request.query.words("include").find(|word| !known.contains(word)) {
        Some(word) => Err(Refusal::bad_query("include", word, "Unknown value.")),
        None => Ok(request.query.words("include").any(|word| word == "metadata")),
    }
}

/// Echoed only if they were sent.
pub fn put_parameters(xml: &mut XmlWriter, request: &Request<'_>) {
    for (element, parameter) in
        [("Prefix", "prefix"), ("Marker", "marker"), ("MaxResults", "maxresults"), ("Delimiter", "delimiter")]
    {
        if let Some(value) = request.query.get(parameter) {
            xml.name(element, value);
        }
    }
}

pub fn put_metadata(xml: &mut XmlWriter, metadata: &Metadata) {
    if metadata.is_empty() {
        xml.element("Metadata", "");
        return;
    }
    xml.open("Metadata");
    for (name, value) in metadata.iter() {
        xml.element(name, value);
    }
    xml.close("Metadata");
}
