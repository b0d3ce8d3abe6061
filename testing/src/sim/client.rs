//! A client: chooses a deed, makes the request, reads the answer as a user of the service would, and notes both.

use std::rc::Rc;

use env::Clock;

use super::body;
use super::chance::Chance;
use super::history::{BLOBS, CONTAINERS, Call, CallId, Condition, Deed, History, Listed, Outcome, Reply, Row, Value};
use super::run::Sim;
use super::wire::{Exchange, Manner, exchange};
use super::workload;
use crate::{Answer, Request};

/// Does deeds until there are none left to do.
pub async fn live(sim: Rc<Sim>, number: usize, mut chance: Chance) {
    while sim.take_operation() {
        let (container, deed) =
            workload::choose(&mut chance, &sim.plan.weights, sim.plan.long_bodies, &sim.seen.borrow());
        let gateway = sim.find_gateway(&mut chance).await;
        let clock = &sim.gateways.borrow()[gateway].clock.clone();
        clock.set(clock.now().plus_ticks(chance.below(40_000)));
        perform(&sim, &mut chance, number, gateway, container, deed).await;
    }
}

/// Makes one call and notes what came of it.
pub async fn perform(sim: &Rc<Sim>, chance: &mut Chance, client: usize, gateway: usize, container: usize, deed: Deed) {
    let call = sim.history.borrow_mut().begin(client, gateway, container, deed.clone());
    let outcome = match deed {
        Deed::List { prefix, delimiter, page } => {
            let mut question =
                vec![("comp", "list"), ("restype", "container"), ("include", "metadata"), ("prefix", prefix)];
            question.extend(delimiter.then_some(("delimiter", "/")));
            list(sim, chance, gateway, call, CONTAINERS[container], &question, page).await
        }
        Deed::ListContainers { page } => {
            list(sim, chance, gateway, call, "", &[("comp", "list"), ("include", "metadata")], page).await
        }
        _ => ask(sim, chance, gateway, call, request(call, container, &deed)).await.and_then(|answer| {
            let history = sim.history.borrow();
            Some(understand(&history, history.call(call)?, &answer))
        }),
    };
    let mut history = sim.history.borrow_mut();
    match outcome {
        Some(outcome) => {
            note_etags(sim, history.call(call), &outcome);
            history.answer(call, outcome);
        }
        // Nobody heard an answer. Bodies that were cut are noted where they are cut.
        None if deed.writes() && !sim.was_cut(call) => history.leave(call, Outcome::Unknown),
        None => history.leave(call, Outcome::Nothing),
    }
}

/// One request; `None` without a whole answer.
async fn ask(sim: &Rc<Sim>, chance: &mut Chance, gateway: usize, call: CallId, mut request: Request) -> Option<Answer> {
    // Some sign with the key: then the date counts, and a clock that jumps meanwhile.
    if chance.below(8) > 0 {
        request = request.unsigned();
        request.query.extend(sim.sas.iter().cloned());
    }
    let manner = manner(sim, chance, &request);
    if manner == Manner::AsksFirst {
        request = request.header("Expect", "100-continue");
    }
    let gateway = sim.gateways.borrow()[gateway].clone();
    let is_head = request.method == "HEAD";
    let bytes = request.bytes(gateway.clock.now());
    let (head, body) = bytes.split_at(bytes.len() - request.body.len());
    let Some(pipe) = gateway.connect(call, sim.plan.pipe_bytes) else {
        sim.cut(call); // nothing was sent
        return None;
    };
    match exchange(pipe, head, body, manner, &sim.pace).await {
        Exchange::Heard(answer) => {
            if manner == Manner::Patient || (manner == Manner::AsksFirst && answer.status == 201) {
                sim.count(manner);
            }
            heard_whole(sim, call, answer, is_head)
        }
        Exchange::Left => {
            sim.count(manner);
            None
        }
        Exchange::Cut => {
            sim.count(manner);
            sim.cut(call);
            None
        }
    }
}

fn manner(sim: &Sim, chance: &mut Chance, request: &Request) -> Manner {
    if !sim.stormy.get() {
        return Manner::Patient;
    }
    if chance.permille(sim.plan.leaves) {
        return Manner::LeavesAfter { steps: chance.between(1, 400) };
    }
    if !request.body.is_empty() {
        if chance.permille(sim.plan.cuts) {
            return Manner::CutsBody { at: chance.index(request.body.len()) };
        }
        if chance.permille(sim.plan.asks_first) {
            return Manner::AsksFirst;
        }
    }
    Manner::Patient
}

/// An answer that broke off is none. What did come of a body must be right all the same.
fn heard_whole(sim: &Sim, call: CallId, answer: Answer, is_head: bool) -> Option<Answer> {
    let length = answer.header("content-length").and_then(|length| length.parse::<usize>().ok()).unwrap_or(0);
    if answer.status != 0 && (is_head || answer.body.len() == length) {
        return Some(answer);
    }
    if answer.body.len() > length {
        sim.complain(call, format!("{} bytes came where {length} were announced", answer.body.len()));
    }
    if let (200 | 206, Some(value)) = (answer.status, value_of(&answer)) {
        let offset = offset(&answer);
        if let Some(at) = body::first_difference(value, offset, &answer.body) {
            sim.complain(call, format!("a download that broke off shows #{value} with a wrong byte at {at}"));
        }
    }
    None
}

fn request(call: CallId, container: usize, deed: &Deed) -> Request {
    let container = CONTAINERS[container];
    let on_container = |method: &str| Request::new(&format!("{method} {container}?restype=container"));
    let on_blob = |method: &str, blob: usize| Request::new(&format!("{method} {container}/{}", BLOBS[blob]));
    let value = format!("v{call}");
    match *deed {
        Deed::CreateContainer => on_container("PUT").header("x-ms-meta-value", value),
        Deed::GetContainer => on_container("GET"),
        Deed::SetContainerMetadata(condition) => {
            let mut request = on_container("PUT").header("x-ms-meta-value", value);
            request.query.push(("comp".into(), "metadata".into()));
            conditional(request, condition)
        }
        Deed::DeleteContainer(condition) => conditional(on_container("DELETE"), condition),
        Deed::Put { blob, bytes, condition } => {
            let request = on_blob("PUT", blob).header("x-ms-blob-type", "BlockBlob").header("x-ms-meta-value", value);
            conditional(request.body(body::part(call, 0, bytes as usize)), condition)
        }
        Deed::Get { blob, range, condition } => {
            let request = conditional(on_blob("GET", blob), condition);
            match range {
                None => request,
                Some((first, None)) => request.header("x-ms-range", format!("bytes={first}-")),
                Some((first, Some(last))) => request.header("x-ms-range", format!("bytes={first}-{last}")),
            }
        }
        Deed::Head { blob, condition } => conditional(on_blob("HEAD", blob), condition),
        Deed::Delete { blob, condition } => conditional(on_blob("DELETE", blob), condition),
        Deed::List { .. } | Deed::ListContainers { .. } => unreachable!("listings have several requests"),
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
fn understand(history: &History, call: &Call, answer: &Answer) -> Outcome {
    let etag = answer.header("etag").and_then(parse_etag);
    let answered = |reply| Outcome::Answered { reply, etag };
    let wrong = |why: &str| Outcome::Wrong(format!("{why}: {} {}", answer.status, answer.code()));
    if let Some(refusal) = refusal(&call.deed, answer) {
        return refusal;
    }
    let (status, needs_etag) = match call.deed {
        Deed::CreateContainer | Deed::Put { .. } => (201, true),
        Deed::DeleteContainer(_) | Deed::Delete { .. } => (202, false),
        Deed::Get { range: Some(_), .. } => (206, true),
        _ => (200, true),
    };
    if answer.status != status {
        return wrong("not an answer to this request");
    }
    if needs_etag != etag.is_some() {
        return wrong("an ETag too few or too many");
    }
    if call.deed.writes() {
        return answered(Reply::Done);
    }
    let Some(value) = value_of(answer) else { return wrong("the metadata are missing") };
    let written = history.call(value).map(|call| &call.deed);
    let Some(Deed::Put { bytes, .. }) = written else { return answered(Reply::Shown(value)) };
    match call.deed {
        Deed::Head { .. } => {
            let length = answer.header("content-length").and_then(|length| length.parse::<u64>().ok());
            if length != Some(*bytes) {
                return Outcome::Wrong(format!("#{value} has {bytes} bytes and is said to have {length:?}"));
            }
        }
        Deed::Get { range, .. } => {
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
    answered(Reply::Shown(value))
}

/// An answer that is not a success; `None` if it is one.
fn refusal(deed: &Deed, answer: &Answer) -> Option<Outcome> {
    let reply = match (answer.status, answer.code()) {
        (200..=299, _) => return None,
        // Whether it was done is not known; for a read nothing is.
        (500.., _) if deed.writes() => return Some(Outcome::Unknown),
        (500.., _) => return Some(Outcome::Nothing),
        // The clock jumped while the request was on its way.
        (403, "AuthenticationFailed") => return Some(Outcome::Nothing),
        (304, _) => Reply::NotModified,
        (404, "ContainerNotFound") => Reply::ContainerNotFound,
        (404, "BlobNotFound") => Reply::BlobNotFound,
        (409, "ContainerAlreadyExists") => Reply::ContainerAlreadyExists,
        (409, "BlobAlreadyExists") => Reply::BlobAlreadyExists,
        (412, "ConditionNotMet") => Reply::ConditionNotMet,
        (416, "InvalidRange") => Reply::InvalidRange,
        (status, code) => return Some(Outcome::Wrong(format!("not an answer to this request: {status} {code}"))),
    };
    Some(Outcome::Answered { reply, etag: None })
}

/// All pages of a listing.
async fn list(
    sim: &Rc<Sim>,
    chance: &mut Chance,
    gateway: usize,
    call: CallId,
    path: &str,
    question: &[(&str, &str)],
    page: u64,
) -> Option<Outcome> {
    let of_blobs = !path.is_empty();
    let deed = sim.history.borrow().call(call)?.deed.clone();
    let (mut listed, mut names, mut marker) = (Listed::default(), Vec::new(), None);
    loop {
        let mut request = Request::new(&format!("GET {path}"));
        let pairs = question.iter().filter(|(_, value)| !value.is_empty());
        request.query = pairs.map(|(name, value)| (name.to_string(), value.to_string())).collect();
        request.query.push(("maxresults".into(), page.to_string()));
        request.query.extend(marker.map(|marker| ("marker".to_string(), marker)));
        let answer = ask(sim, chance, gateway, call, request).await?;
        if let Some(refusal) = refusal(&deed, &answer) {
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
    let reply = if of_blobs { Reply::Listed(listed) } else { Reply::ContainersListed(listed.rows) };
    Some(Outcome::Answered { reply, etag: None })
}

/// Adds what the page shows; hands back the marker of the next.
fn read_page(text: &str, of_blobs: bool, names: &mut Vec<String>, listed: &mut Listed) -> Option<Option<String>> {
    let (element, known): (_, &[&str]) = if of_blobs { ("Blob", &BLOBS) } else { ("Container", &CONTAINERS) };
    // Rows first, prefixes after: the order of names is judged on both together.
    let mut shown = Vec::new();
    for part in text.split(&format!("<{element}>")).skip(1) {
        let part = part.split(&format!("</{element}>")).next()?;
        let name = between(part, "Name")?;
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

fn between<'a>(text: &'a str, element: &str) -> Option<&'a str> {
    let start = text.find(&format!("<{element}>"))? + element.len() + 2;
    let length = text[start..].find(&format!("</{element}>"))?;
    Some(&text[start..start + length])
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

fn note_etags(sim: &Sim, call: Option<&Call>, outcome: &Outcome) {
    let (Some(call), Outcome::Answered { reply, etag }) = (call, outcome) else { return };
    let mut seen = sim.seen.borrow_mut();
    let blob = match call.deed {
        Deed::Put { blob, .. } | Deed::Get { blob, .. } | Deed::Head { blob, .. } => Some(blob),
        _ => None,
    };
    seen.note_container(call.container, *reply != Reply::ContainerNotFound);
    match (reply, etag) {
        (Reply::Listed(listed), _) => {
            listed.rows.iter().for_each(|row| seen.note(call.container, Some(row.index), row.etag));
        }
        (Reply::ContainersListed(rows), _) => rows.iter().for_each(|row| seen.note(row.index, None, row.etag)),
        (Reply::Done | Reply::Shown(_), Some(etag)) => seen.note(call.container, blob, *etag),
        _ => {}
    }
}
