//! What is asked of containers and their blobs, and how the answers are read.

use super::{BLOBS, CONTAINERS, Condition, Deed, Listed, Reply, Row, Said, What, asked};
use crate::sim::body;
use crate::sim::client::{Asking, between, failed, wrong};
use crate::sim::history::{self, CallId, History, Outcome, Value};
use crate::sim::run::Sim;
use crate::{Answer, Request};

pub async fn perform(asking: &mut Asking<'_>, deed: &Deed) -> Option<Outcome> {
    let container = CONTAINERS[deed.container];
    let outcome = match deed.what {
        What::List { prefix, delimiter, page } => {
            let mut question =
                vec![("comp", "list"), ("restype", "container"), ("include", "metadata"), ("prefix", prefix)];
            question.extend(delimiter.then_some(("delimiter", "/")));
            list(asking, &deed.what, container, &question, page).await
        }
        What::ListContainers { page } => {
            list(asking, &deed.what, "", &[("comp", "list"), ("include", "metadata")], page).await
        }
        _ => {
            let answer = asking.ask(request(asking.call, deed.container, &deed.what)).await?;
            Some(understand(&asking.sim.history.borrow(), &deed.what, &answer))
        }
    }?;
    note(asking.sim, deed, &outcome);
    Some(outcome)
}

/// What is wrong with a download that broke off.
pub fn wrong_part(answer: &Answer) -> Option<String> {
    let value = value_of(answer).filter(|_| matches!(answer.status, 200 | 206))?;
    let at = body::first_difference(value, offset(answer), &answer.body)?;
    Some(format!("a download that broke off shows #{value} with a wrong byte at {at}"))
}

fn request(call: CallId, container: usize, what: &What) -> Request {
    let container = CONTAINERS[container];
    let on_container = |method: &str| Request::new(&format!("{method} {container}?restype=container"));
    let on_blob = |method: &str, blob: usize| Request::new(&format!("{method} {container}/{}", BLOBS[blob]));
    let value = format!("v{call}");
    match *what {
        What::CreateContainer => on_container("PUT").header("x-ms-meta-value", value),
        What::GetContainer => on_container("GET"),
        What::SetContainerMetadata(condition) => {
            let mut request = on_container("PUT").header("x-ms-meta-value", value);
            request.query.push(("comp".into(), "metadata".into()));
            conditional(request, condition)
        }
        What::DeleteContainer(condition) => conditional(on_container("DELETE"), condition),
        What::Put { blob, bytes, condition } => {
            let request = on_blob("PUT", blob).header("x-ms-blob-type", "BlockBlob").header("x-ms-meta-value", value);
            conditional(request.body(body::part(call, 0, bytes as usize)), condition)
        }
        What::Get { blob, range, condition } => {
            let request = conditional(on_blob("GET", blob), condition);
            match range {
                None => request,
                Some((first, None)) => request.header("x-ms-range", format!("bytes={first}-")),
                Some((first, Some(last))) => request.header("x-ms-range", format!("bytes={first}-{last}")),
            }
        }
        What::Head { blob, condition } => conditional(on_blob("HEAD", blob), condition),
        What::Delete { blob, condition } => conditional(on_blob("DELETE", blob), condition),
        What::List { .. } | What::ListContainers { .. } => unreachable!("listings have several requests"),
    }
}

fn conditional(request: Request, condition: Condition) -> Request {
    match condition {
        Condition::None => request,
        Condition::IfMatch(etag) => request.header("If-Match", format!("\"0x{etag:X}\"")),
        Condition::IfMatchAny => request.header("If-Match", "*"),
        Condition::IfNoneMatch(etag) => request.header("If-None-Match", format!("\"0x{etag:X}\"")),
        Condition::IfNoneMatchAny => request.header("If-None-Match", "*"),
    }
}

/// What an answer says.
fn understand(history: &History, what: &What, answer: &Answer) -> Outcome {
    let etag = answer.header("etag").and_then(parse_etag);
    let answered = |said| Outcome::Answered(history::Reply::Container(Reply { said, etag }));
    if let Some(refusal) = refusal(what, answer) {
        return refusal;
    }
    let (status, needs_etag) = match what {
        What::CreateContainer | What::Put { .. } => (201, true),
        What::DeleteContainer(_) | What::Delete { .. } => (202, false),
        What::Get { range: Some(_), .. } => (206, true),
        _ => (200, true),
    };
    if answer.status != status {
        return wrong("not an answer to this request", answer);
    }
    if needs_etag != etag.is_some() {
        return wrong("an ETag too few or too many", answer);
    }
    if what.writes() {
        return answered(Said::Done);
    }
    let Some(value) = value_of(answer) else { return wrong("the metadata are missing", answer) };
    let written = history.call(value).and_then(asked);
    let Some((_, What::Put { bytes, .. })) = written else { return answered(Said::Shown(value)) };
    match what {
        What::Head { .. } => {
            let length = answer.header("content-length").and_then(|length| length.parse::<u64>().ok());
            if length != Some(*bytes) {
                return Outcome::Wrong(format!("#{value} has {bytes} bytes and is said to have {length:?}"));
            }
        }
        What::Get { range, .. } => {
            let (first, last) = range.unwrap_or((0, None));
            let end = last.map_or(*bytes, |last| (last + 1).min(*bytes));
            if answer.body.len() as u64 != end.saturating_sub(first) || (range.is_some() && offset(answer) != first) {
                return Outcome::Wrong(format!("{} bytes of #{value}, not {first} to {end}", answer.body.len()));
            }
            if let Some(at) = body::first_difference(value, first, &answer.body) {
                return Outcome::Wrong(format!("torn: #{value} has a wrong byte at {at}"));
            }
        }
        _ => {}
    }
    answered(Said::Shown(value))
}

/// An answer that is not a success; `None` if it is one.
fn refusal(what: &What, answer: &Answer) -> Option<Outcome> {
    if let Some(failed) = failed(what.writes(), answer) {
        return Some(failed);
    }
    let said = match (answer.status, answer.code()) {
        (200..=299, _) => return None,
        (304, _) => Said::NotModified,
        (404, "ContainerNotFound") => Said::ContainerNotFound,
        (404, "BlobNotFound") => Said::BlobNotFound,
        (409, "ContainerAlreadyExists") => Said::ContainerAlreadyExists,
        (409, "BlobAlreadyExists") => Said::BlobAlreadyExists,
        (412, "ConditionNotMet") => Said::ConditionNotMet,
        (416, "InvalidRange") => Said::InvalidRange,
        _ => return Some(wrong("not an answer to this request", answer)),
    };
    Some(Outcome::Answered(history::Reply::Container(Reply { said, etag: None })))
}

/// All pages of a listing.
async fn list(
    asking: &mut Asking<'_>,
    what: &What,
    path: &str,
    question: &[(&str, &str)],
    page: u64,
) -> Option<Outcome> {
    let of_blobs = !path.is_empty();
    let (mut listed, mut names, mut marker) = (Listed::default(), Vec::new(), None);
    loop {
        let mut request = Request::new(&format!("GET {path}"));
        let pairs = question.iter().filter(|(_, value)| !value.is_empty());
        request.query = pairs.map(|(name, value)| (name.to_string(), value.to_string())).collect();
        request.query.push(("maxresults".into(), page.to_string()));
        request.query.extend(marker.map(|marker| ("marker".to_string(), marker)));
        let answer = asking.ask(request).await?;
        if let Some(refusal) = refusal(what, &answer) {
            return Some(refusal);
        }
        let text = answer.text();
        match read_page(&text, of_blobs, &mut names, &mut listed) {
            Some(next) => marker = next,
            None => return Some(Outcome::Wrong(format!("a listing that cannot be read: {text}"))),
        }
        if marker.is_none() {
            break;
        }
    }
    if !names.is_sorted_by(|one, other| one < other) {
        return Some(Outcome::Wrong(format!("a listing out of order or with repetitions: {names:?}")));
    }
    let said = if of_blobs { Said::Listed(listed) } else { Said::ContainersListed(listed.rows) };
    Some(Outcome::Answered(history::Reply::Container(Reply { said, etag: None })))
}

/// Adds what the page shows; hands back the marker of the next.
fn read_page(text: &str, of_blobs: bool, names: &mut Vec<String>, listed: &mut Listed) -> Option<Option<String>> {
    let (element, known): (_, &[&str]) = if of_blobs { ("Blob", &BLOBS) } else { ("Container", &CONTAINERS) };
    // Rows first, prefixes after: the order of names is judged on both together.
    let mut shown = Vec::new();
    for part in text.split(&format!("<{element}>")).skip(1) {
        let part = part.split(&format!("</{element}>")).next()?;
        let name = between(part, "Name")?;
        if !of_blobs && name == crate::sim::blob::CONTAINER {
            continue; // it is none of these
        }
        let index = known.iter().position(|known| *known == name)?;
        let etag = parse_etag(&between(part, "Etag")?.replace("&quot;", "\""))?;
        listed.rows.push(Row { index, value: between(part, "value")?.strip_prefix('v')?.parse().ok()?, etag });
        shown.push(name.to_string());
    }
    for part in text.split("<BlobPrefix>").skip(1) {
        let name = between(part, "Name")?;
        listed.prefixes.push(name.to_string());
        shown.push(name.to_string());
    }
    shown.sort();
    names.extend(shown);
    match between(text, "NextMarker") {
        Some(marker) if !marker.is_empty() => Some(Some(marker.to_string())),
        _ if text.contains("<NextMarker") => Some(None),
        _ => None,
    }
}

fn value_of(answer: &Answer) -> Option<Value> {
    answer.header("x-ms-meta-value")?.strip_prefix('v')?.parse().ok()
}

/// Where in the blob a body begins.
fn offset(answer: &Answer) -> u64 {
    let first =
        answer.header("content-range").and_then(|range| range.strip_prefix("bytes ")?.split('-').next()?.parse().ok());
    first.unwrap_or(0)
}

fn parse_etag(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim_matches('"').strip_prefix("0x")?, 16).ok()
}

fn note(sim: &Sim, deed: &Deed, outcome: &Outcome) {
    let Outcome::Answered(history::Reply::Container(Reply { said, etag })) = outcome else { return };
    let (container, mut seen) = (deed.container, sim.seen.borrow_mut());
    let seen = &mut seen.containers;
    seen.note_container(container, *said != Said::ContainerNotFound);
    match (said, etag) {
        (Said::Listed(listed), _) => {
            listed.rows.iter().for_each(|row| seen.note(container, Some(row.index), row.etag));
        }
        (Said::ContainersListed(rows), _) => rows.iter().for_each(|row| seen.note(row.index, None, row.etag)),
        (Said::Done | Said::Shown(_), Some(etag)) => seen.note(container, deed.what.blob(), *etag),
        _ => {}
    }
}
