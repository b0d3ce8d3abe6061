//! A table: entities of two partitions, changed one by one and in transactions, read one by one and a partition at a time.
//!
//! Every write sets the property `W` to its number; a replacing one sets `A` as well and leaves nothing else, a merging one sets `B`
//! and leaves the rest.

pub mod model;

use contract::Service;
use serde_json::Value as Json;

use super::chance::Chance;
use super::client::{Asking, failed, wrong};
use super::history::{self, CallId, Outcome, Value};
use crate::request::ACCOUNT;
use crate::{Answer, Request};

pub const TABLE: &str = "ledger";
pub const PARTITIONS: usize = 2;
pub const ROWS: usize = 4;

/// The body that makes the table.
pub fn named() -> Vec<u8> {
    format!("{{\"TableName\":\"{TABLE}\"}}").into_bytes()
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Deed {
    pub partition: usize,
    pub what: What,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum What {
    Change(Change),
    /// All of them or none.
    Transaction(Vec<Change>),
    Get {
        row: usize,
    },
    /// The whole partition in one page.
    Query,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Change {
    pub row: usize,
    pub how: How,
}

/// `None` for whatever is there.
type IfMatch = Option<String>;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum How {
    Insert,
    Replace(IfMatch),
    Merge(IfMatch),
    InsertOrReplace,
    InsertOrMerge,
    Delete(IfMatch),
}

impl Deed {
    pub fn writes(&self) -> bool {
        matches!(self.what, What::Change(_) | What::Transaction(_))
    }

    pub fn changes(&self) -> &[Change] {
        match &self.what {
            What::Change(change) => std::slice::from_ref(change),
            What::Transaction(changes) => changes,
            _ => &[],
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Reply {
    /// With the ETag of each change, where it makes one.
    Done(Vec<Option<String>>),
    Shown(Vec<Entity>),
    /// The first change that could not be made.
    Refused {
        at: usize,
        why: Refusal,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Refusal {
    AlreadyExists,
    NotFound,
    ConditionNotMet,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Entity {
    pub row: usize,
    pub values: Values,
    pub etag: String,
}

/// The properties, 0 for one that is not there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Values {
    pub a: Value,
    pub b: Value,
    pub w: Value,
}

/// What the clients know together: the ETag seen last of each entity, and the one before.
#[derive(Default)]
pub struct Seen {
    etags: [[Vec<String>; ROWS]; PARTITIONS],
}

const SEEN_MAX: usize = 3;

impl Seen {
    fn note(&mut self, partition: usize, row: usize, etag: &str) {
        let seen = &mut self.etags[partition][row];
        if seen.last().is_none_or(|last| last != etag) {
            if seen.len() == SEEN_MAX {
                seen.remove(0);
            }
            seen.push(etag.to_string());
        }
    }

    fn draw(&self, chance: &mut Chance, partition: usize, row: usize) -> IfMatch {
        let seen = &self.etags[partition][row];
        let newest = seen.last().filter(|_| chance.below(3) > 0)?;
        Some(if chance.below(4) == 0 { chance.pick(seen).clone() } else { newest.clone() })
    }
}

pub fn choose(chance: &mut Chance, seen: &Seen) -> Deed {
    // Most of the crowd in one partition, and there on one row.
    let partition = usize::from(chance.below(4) == 0);
    let row = if chance.below(3) == 0 { 0 } else { chance.index(ROWS) };
    let what = match chance.weighted(&[40, 20, 15, 25]) {
        0 => What::Change(change(chance, seen, partition, row)),
        1 => {
            let members = chance.between(2, 3) as usize;
            What::Transaction((0..members).map(|ahead| change(chance, seen, partition, (row + ahead) % ROWS)).collect())
        }
        2 => What::Get { row },
        _ => What::Query,
    };
    Deed { partition, what }
}

fn change(chance: &mut Chance, seen: &Seen, partition: usize, row: usize) -> Change {
    let how = match chance.weighted(&[4, 3, 3, 2, 2, 3]) {
        0 => How::Insert,
        1 => How::Replace(seen.draw(chance, partition, row)),
        2 => How::Merge(seen.draw(chance, partition, row)),
        3 => How::InsertOrReplace,
        4 => How::InsertOrMerge,
        _ => How::Delete(seen.draw(chance, partition, row)),
    };
    Change { row, how }
}

/// What shows all that is left.
pub fn stock() -> impl Iterator<Item = Deed> {
    (0..PARTITIONS).map(|partition| Deed { partition, what: What::Query })
}

pub async fn perform(asking: &mut Asking<'_>, deed: &Deed) -> Option<Outcome> {
    let answer = asking.ask(request(asking.call, deed)).await?;
    let outcome = understand(deed, &answer);
    let mut seen = asking.sim.seen.borrow_mut();
    match &outcome {
        Outcome::Answered(history::Reply::Table(Reply::Done(etags))) => {
            for (change, etag) in deed.changes().iter().zip(etags) {
                etag.iter().for_each(|etag| seen.table.note(deed.partition, change.row, etag));
            }
        }
        Outcome::Answered(history::Reply::Table(Reply::Shown(entities))) => {
            entities.iter().for_each(|entity| seen.table.note(deed.partition, entity.row, &entity.etag));
        }
        _ => {}
    }
    Some(outcome)
}

const ACCEPT: &str = "application/json;odata=minimalmetadata";

fn request(call: CallId, deed: &Deed) -> Request {
    let partition = deed.partition;
    let request = match &deed.what {
        What::Change(change) => {
            let (method, path, if_match, body) = asked(call, partition, change);
            let request = Request::new(&format!("{method} {path}")).header("Prefer", "return-no-content");
            let request = if let Some(etag) = if_match { request.header("If-Match", etag) } else { request };
            if body.is_empty() { request } else { request.header("Content-Type", "application/json").body(body) }
        }
        What::Transaction(changes) => {
            let body = transaction(call, partition, changes);
            Request::new("POST $batch").header("Content-Type", "multipart/mixed; boundary=batch").body(body)
        }
        What::Get { row } => Request::new(&format!("GET {}", path(partition, *row))),
        What::Query => {
            Request::new(&format!("GET {TABLE}()")).parameter("$filter", &format!("PartitionKey eq 'p{partition}'"))
        }
    };
    request.of(Service::Table).header("Accept", ACCEPT)
}

fn path(partition: usize, row: usize) -> String {
    format!("{TABLE}(PartitionKey='p{partition}',RowKey='r{row}')")
}

/// Method, path, If-Match and body.
fn asked(call: CallId, partition: usize, change: &Change) -> (&'static str, String, Option<String>, String) {
    let wanted = |etag: &IfMatch| Some(etag.clone().unwrap_or("*".into()));
    let path = path(partition, change.row);
    let replacing = || format!("{{\"A\":{call},\"W\":{call}}}");
    let merging = || format!("{{\"B\":{call},\"W\":{call}}}");
    match &change.how {
        How::Insert => {
            let keys = format!("\"PartitionKey\":\"p{partition}\",\"RowKey\":\"r{}\"", change.row);
            ("POST", TABLE.into(), None, format!("{{{keys},\"A\":{call},\"W\":{call}}}"))
        }
        How::Replace(etag) => ("PUT", path, wanted(etag), replacing()),
        How::Merge(etag) => ("MERGE", path, wanted(etag), merging()),
        How::InsertOrReplace => ("PUT", path, None, replacing()),
        How::InsertOrMerge => ("MERGE", path, None, merging()),
        How::Delete(etag) => ("DELETE", path, wanted(etag), String::new()),
    }
}

fn transaction(call: CallId, partition: usize, changes: &[Change]) -> Vec<u8> {
    let mut body = "--batch\r\nContent-Type: multipart/mixed; boundary=changes\r\n\r\n".to_string();
    for change in changes {
        let (method, path, if_match, entity) = asked(call, partition, change);
        let condition = if_match.map_or(String::new(), |etag| format!("If-Match: {etag}\r\n"));
        body += "--changes\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n";
        body += &format!("{method} /{ACCOUNT}/{path} HTTP/1.1\r\nContent-Type: application/json\r\n");
        body += &format!("Prefer: return-no-content\r\nAccept: {ACCEPT}\r\n{condition}\r\n{entity}\r\n");
    }
    (body + "--changes--\r\n--batch--\r\n").into_bytes()
}

fn understand(deed: &Deed, answer: &Answer) -> Outcome {
    if let Some(failed) = failed(deed.writes(), answer) {
        return failed;
    }
    let text = answer.text();
    let read = match (&deed.what, answer.status) {
        (What::Change(change), 204) => {
            let etag = answer.header("etag").map(str::to_string);
            let fits = etag.is_none() == matches!(change.how, How::Delete(_));
            fits.then_some(Reply::Done(vec![etag]))
        }
        (What::Transaction(changes), 202) => match done_together(changes, &text) {
            Ok(reply) => reply,
            Err(failed) => return failed,
        },
        (What::Get { row }, 404) => refusal(&text).map(|why| match why {
            Refusal::NotFound => Reply::Shown(Vec::new()),
            why => Reply::Refused { at: *row, why },
        }),
        (What::Change(_), 400..) => refusal(&text).map(|why| Reply::Refused { at: 0, why }),
        (What::Get { .. }, 200) => {
            serde_json::from_str(&text).ok().and_then(|json| Some(vec![entity(&json)?])).map(Reply::Shown)
        }
        (What::Query, 200) if answer.header("x-ms-continuation-nextpartitionkey").is_none() => {
            entities(&text).map(Reply::Shown)
        }
        _ => None,
    };
    read.map_or_else(
        || wrong("not an answer to this request", answer),
        |reply| Outcome::Answered(history::Reply::Table(reply)),
    )
}

/// What the parts of a transaction's answer say together.
fn done_together(changes: &[Change], text: &str) -> Result<Option<Reply>, Outcome> {
    let parts: Vec<&str> = text.split("HTTP/1.1 ").skip(1).collect();
    let statuses: Option<Vec<u16>> = parts.iter().map(|part| part.get(..3)?.parse().ok()).collect();
    let Some(statuses) = statuses else { return Ok(None) };
    match (statuses.as_slice(), parts.as_slice()) {
        ([500..=599], _) => Err(Outcome::Unknown),
        ([400..=499], [part]) => {
            let at = part.find("\"value\":\"").and_then(|at| part[at + 9..].split(':').next()?.parse().ok());
            Ok(refusal(part).and_then(|why| Some(Reply::Refused { at: at?, why })))
        }
        (statuses, parts) if statuses.len() == changes.len() && statuses.iter().all(|status| *status == 204) => {
            let etag =
                |part: &&str| part.lines().find_map(|line| Some(line.strip_prefix("ETag: ")?.trim().to_string()));
            Ok(Some(Reply::Done(parts.iter().map(etag).collect())))
        }
        _ => Ok(None),
    }
}

fn refusal(text: &str) -> Option<Refusal> {
    const CODES: [(&str, Refusal); 3] = [
        ("EntityAlreadyExists", Refusal::AlreadyExists),
        ("ResourceNotFound", Refusal::NotFound),
        ("UpdateConditionNotSatisfied", Refusal::ConditionNotMet),
    ];
    CODES.into_iter().find(|(code, _)| text.contains(code)).map(|(_, refusal)| refusal)
}

fn entities(text: &str) -> Option<Vec<Entity>> {
    let json: Json = serde_json::from_str(text).ok()?;
    let shown: Vec<Entity> = json["value"].as_array()?.iter().map(entity).collect::<Option<_>>()?;
    shown.is_sorted_by_key(|entity| entity.row).then_some(shown)
}

fn entity(json: &Json) -> Option<Entity> {
    let number = |name: &str| json[name].as_u64().unwrap_or(0) as Value;
    Some(Entity {
        row: json["RowKey"].as_str()?.strip_prefix('r')?.parse().ok()?,
        values: Values { a: number("A"), b: number("B"), w: number("W") },
        etag: json["odata.etag"].as_str()?.to_string(),
    })
}
