//! Surveys a recovered store through its own face, and judges what was found against the history.
//!
//! The rule for one name. Every operation with an effect on it is a write of a value (a put's body, or absence). At a
//! cut, a write is *settled* if it was acknowledged (or served to a reader) before the cut, and *possible* if it was
//! begun before the cut and not refused. The value found must be that of a possible write which no settled write began
//! after. Operations of one connection, of many, and deletions of the whole container all fall under this rule.
//!
//! A container's ETag tells which creation is found, and so which deletions of it are in effect and which are not: a
//! deletion that took some of the blobs and not the container is found out.

use crate::body;
use crate::history::{Deed, History, NEVER, Operation, Outcome, base};
use crate::store::{Store, snapshot_of};
use std::collections::{BTreeMap, BTreeSet};

/// From where to where in the log the cut may have been. One image stands for several points when none of the writes
/// between them survived.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// What was acknowledged up to here must be there.
    pub acknowledged_until: usize,
    /// What was begun here or later must not.
    pub begun_before: usize,
}

impl Window {
    pub fn at(point: usize) -> Window {
        Window { acknowledged_until: point, begun_before: point }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Something acknowledged is gone, or an acknowledged deletion undone.
    Lost,
    /// Bytes that nobody wrote so.
    Torn,
    /// The effect of something refused or not yet asked for.
    Phantom,
    /// The listing and the reads, or the ETags, do not agree.
    Disagrees,
    /// A read fails, or the server does not start or does not take writes.
    Unavailable,
    /// An answer during the workload that contradicts the ones before it.
    WrongAnswer,
}

/// What containers are called by whose they are; those of blobs have names of any kind.
pub const SERVICES: [&str; 7] = ["blobs", "queue", "table", "share-", "pages", "append", "file"];

#[derive(Clone, Debug)]
pub struct Finding {
    pub fault: Fault,
    pub detail: String,
}

impl Finding {
    pub fn new(fault: Fault, detail: impl Into<String>) -> Finding {
        Finding { fault, detail: detail.into() }
    }

    /// Whose it is, by the name of the container that its detail begins with.
    pub fn service(&self) -> &'static str {
        let mut words = self.detail.split([' ', '/']).filter(|word| *word != "container");
        let container = words.next().unwrap_or_default();
        let known = SERVICES.into_iter().find(|service| container.starts_with(service));
        known.unwrap_or("blobs")
    }

    /// A read that fails in words, or breaks off, and not one that finds nobody there.
    pub fn is_told(&self) -> bool {
        self.detail.contains(": 5") || self.detail.contains("broke off")
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct SeenBlob {
    pub operation: Option<usize>,
    pub etag: String,
    pub bytes: u64,
    pub damage: Option<String>,
}

/// The store as its own face shows it.
#[derive(Default)]
pub struct Seen {
    pub containers: BTreeMap<String, String>,
    pub listed: BTreeMap<(String, String), (String, Option<u64>)>,
    pub blobs: BTreeMap<(String, String), SeenBlob>,
    /// Reads that failed; their names are not judged further.
    pub failures: Vec<(Option<(String, String)>, String)>,
}

/// Reads everything: all that is listed, and every name that any history knows.
pub fn survey(store: &mut dyn Store, histories: &[&History]) -> Seen {
    let mut seen = Seen::default();
    match store.list_containers() {
        Ok(listed) => seen.containers = listed.into_iter().map(|c| (c.name, c.etag)).collect(),
        Err(error) => seen.failures.push((None, error)),
    }
    let mut wanted: BTreeSet<(String, String)> = BTreeSet::new();
    for history in histories {
        for (container, names) in history.names() {
            wanted.extend(names.into_iter().map(|name| (container.to_string(), name.to_string())));
        }
    }
    for container in seen.containers.keys() {
        match store.list(container) {
            Ok(listed) => {
                for blob in listed {
                    wanted.insert((container.clone(), blob.name.clone()));
                    seen.listed.insert((container.clone(), blob.name), (blob.etag, blob.bytes));
                }
            }
            Err(error) => seen.failures.push((None, error)),
        }
    }
    for key in wanted {
        match store.get(&key.0, &key.1) {
            Ok(None) => {}
            Ok(Some(found)) => {
                let written = found.operation.and_then(|op| histories.iter().find_map(|h| h.body(op)));
                let damage = match &written {
                    Some(written) => body::difference(written, &found.body),
                    None => Some(format!("its metadata names no put: {:?}", found.operation)),
                };
                let blob =
                    SeenBlob { operation: found.operation, etag: found.etag, bytes: found.body.len() as u64, damage };
                seen.blobs.insert(key, blob);
            }
            Err(error) => seen.failures.push((Some(key), error)),
        }
    }
    seen
}

/// What is wrong with `seen` after a cut in `window`, as far as this history's containers are concerned, and how many
/// acknowledgements were held against it.
pub fn judge(history: &History, seen: &Seen, window: Window) -> (Vec<Finding>, usize) {
    let mut findings: Vec<Finding> =
        seen.failures.iter().map(|(_, error)| Finding::new(Fault::Unavailable, error)).collect();
    if seen.failures.iter().any(|(key, _)| key.is_none()) {
        return (findings, 0); // without listings nothing else can be said
    }
    let mut checked = 0;
    for (container, names) in history.names() {
        let of_container: Vec<(usize, &Operation)> = history
            .operations
            .iter()
            .enumerate()
            .map(|(i, op)| (i + history.first, op))
            .filter(|(_, op)| op.container == container)
            .collect();
        let found = seen.containers.get(container);
        let creation = judge_container(container, found, &of_container, window, &mut findings);
        checked += of_container
            .iter()
            .filter(|(_, op)| op.is_done() && op.durable_position <= window.acknowledged_until)
            .count();

        for name in names {
            let key = (container.to_string(), name.to_string());
            if seen.failures.iter().any(|(failed, _)| failed.as_ref() == Some(&key)) {
                continue;
            }
            let blob = seen.blobs.get(&key);
            agree(&key, blob, seen.listed.get(&key), &mut findings);
            if found.is_none() {
                if let Some(blob) = blob {
                    findings.push(Finding::new(
                        Fault::Disagrees,
                        format!("{container}/{name} is served, its container is not listed: {blob:?}"),
                    ));
                }
                continue;
            }
            judge_blob(&key, blob, &of_container, creation, window, &mut findings);
        }
        if found.is_some() {
            judge_transactions(container, seen, &of_container, &mut findings);
        }
    }
    (findings, checked)
}

/// Everything listed or served must belong to some history.
pub fn strangers(histories: &[&History], seen: &Seen) -> Vec<Finding> {
    let known: BTreeSet<&str> = histories.iter().flat_map(|h| h.containers()).collect();
    let names: BTreeSet<(&str, &str)> = histories
        .iter()
        .flat_map(|h| h.names())
        .flat_map(|(c, names)| names.into_iter().map(move |n| (c, n)))
        .collect();
    let containers = seen
        .containers
        .keys()
        .filter(|c| !known.contains(c.as_str()))
        .map(|c| format!("container {c} was never created"));
    let blobs = seen
        .listed
        .keys()
        .filter(|(c, n)| !names.contains(&(c.as_str(), n.as_str())))
        // A snapshot that was asked for and not answered has a name that nobody knows.
        .filter(|(c, n)| base(n) == n || !names.contains(&(c.as_str(), snapshot_of(base(n), "").as_str())))
        .map(|(c, n)| format!("{c}/{n} was never put"));
    containers.chain(blobs).map(|detail| Finding::new(Fault::Phantom, detail)).collect()
}

fn agree(
    key: &(String, String),
    blob: Option<&SeenBlob>,
    listed: Option<&(String, Option<u64>)>,
    findings: &mut Vec<Finding>,
) {
    let name = format!("{}/{}", key.0, key.1);
    match (blob, listed) {
        (None, None) => {}
        (Some(_), None) => findings.push(Finding::new(Fault::Disagrees, format!("{name} is served and not listed"))),
        (None, Some(_)) => findings.push(Finding::new(Fault::Disagrees, format!("{name} is listed and not served"))),
        (Some(blob), Some((etag, bytes))) => {
            // Listings have ETags without quotes in some versions of the service.
            if blob.etag.trim_matches('"') != etag.trim_matches('"') || bytes.is_some_and(|bytes| bytes != blob.bytes) {
                findings.push(Finding::new(
                    Fault::Disagrees,
                    format!("{name} is listed as {etag} {bytes:?}, served as {} {}", blob.etag, blob.bytes),
                ));
            }
        }
    }
}

struct Write {
    /// `None` for the state before the first operation.
    operation: Option<usize>,
    /// What the name holds after it: an operation's body, or nothing.
    value: Option<usize>,
    begun: usize,
    answered: usize,
    is_possible: bool,
    /// In a window of several points a write can be settled at the last and not yet possible at the first: whatever is
    /// found then is wrong, because it was acknowledged without a flush.
    is_settled: bool,
}

const NOTHING_YET: Write =
    Write { operation: None, value: None, begun: 0, answered: 0, is_possible: true, is_settled: true };

impl Write {
    fn of(identity: usize, value: Option<usize>, op: &Operation, window: Window) -> Option<Write> {
        // What was acknowledged before the first entry of the log is part of the disk it began with.
        let is_possible = op.begun_position < window.begun_before || op.acknowledged_position == 0;
        let is_settled = op.durable_position <= window.acknowledged_until;
        (op.outcome != Outcome::NoEffect && (is_possible || is_settled)).then_some(Write {
            operation: Some(identity),
            value,
            begun: op.begun_tick,
            answered: op.answered_tick,
            is_possible,
            is_settled,
        })
    }
}

/// The settled write that makes this value impossible, or nothing if some possible write explains it.
fn unexplained(writes: &[Write], value: Option<usize>) -> Option<&Write> {
    let superseder = |write: &Write| {
        writes.iter().find(|w| w.is_settled && w.begun >= write.answered && w.operation != write.operation)
    };
    let mut culprit = Some(&NOTHING_YET);
    for write in writes.iter().filter(|w| w.is_possible && w.value == value) {
        culprit = Some(superseder(write)?); // no superseder: this write explains the value
    }
    culprit
}

/// Gives the creation that is in effect, if the container was found and its ETag is known.
fn judge_container(
    container: &str,
    found: Option<&String>,
    operations: &[(usize, &Operation)],
    window: Window,
    findings: &mut Vec<Finding>,
) -> Option<usize> {
    let mut writes = vec![NOTHING_YET];
    for (identity, op) in operations {
        match op.deed {
            Deed::CreateContainer => writes.extend(Write::of(*identity, Some(*identity), op, window)),
            Deed::DeleteContainer => writes.extend(Write::of(*identity, None, op, window)),
            _ => {}
        }
    }
    let Some(etag) = found else {
        if let Some(by) = unexplained(&writes, None) {
            findings
                .push(Finding::new(Fault::Lost, format!("container {container} is gone; {}", tell(operations, by))));
        }
        return None;
    };
    let creations = operations.iter().filter(|(_, op)| op.deed == Deed::CreateContainer);
    let same = |op: &Operation| matches!(&op.outcome, Outcome::Done { etag: known } if known.trim_matches('"') == etag.trim_matches('"'));
    // A creation that was never answered has an ETag that nobody knows.
    let creation = creations
        .clone()
        .find(|(_, op)| same(op))
        .or_else(|| creations.clone().rfind(|(_, op)| op.outcome == Outcome::Unknown));
    let Some((identity, op)) = creation else {
        findings.push(Finding::new(
            Fault::Phantom,
            format!("container {container} has ETag {etag}, which no creation gave"),
        ));
        return None;
    };
    if op.begun_position >= window.begun_before && op.acknowledged_position > 0 {
        findings.push(Finding::new(
            Fault::Phantom,
            format!("container {container} is there before its creation #{identity} began"),
        ));
    } else if let Some(by) = unexplained(&writes, Some(*identity)) {
        findings.push(Finding::new(
            Fault::Lost,
            format!("container {container} is still that of #{identity}; {}", tell(operations, by)),
        ));
    }
    Some(*identity)
}

fn judge_blob(
    key: &(String, String),
    blob: Option<&SeenBlob>,
    operations: &[(usize, &Operation)],
    creation: Option<usize>,
    window: Window,
    findings: &mut Vec<Finding>,
) {
    let created = creation.and_then(|c| operations.iter().find(|(identity, _)| *identity == c)).map(|(_, op)| *op);
    let mut writes = vec![NOTHING_YET];
    for (identity, op) in operations {
        if let Some(value) = op.makes_of(*identity, &key.1) {
            writes.extend(Write::of(*identity, value, op, window));
        }
        if op.deed != Deed::DeleteContainer {
            continue;
        }
        let Some(mut write) = Write::of(*identity, None, op, window) else { continue };
        // The creation found says which deletions happened: those before it did, those after it did not.
        if let Some(created) = created {
            if op.begun_tick >= created.answered_tick {
                continue;
            }
            write.is_settled |= op.answered_tick <= created.begun_tick;
        }
        writes.push(write);
    }
    let name = format!("{}/{}", key.0, key.1);
    let Some(blob) = blob else {
        if let Some(by) = unexplained(&writes, None) {
            findings.push(Finding::new(Fault::Lost, format!("{name} is gone; {}", tell(operations, by))));
        }
        return;
    };
    if let Some(damage) = &blob.damage {
        findings.push(Finding::new(Fault::Torn, format!("{name} of #{:?}: {damage}", blob.operation)));
        return;
    }
    let identity = blob.operation.expect("a blob without a known operation is damaged");
    let Some((_, op)) = operations.iter().find(|(i, op)| *i == identity && op.blob() == Some(base(&key.1))) else {
        findings.push(Finding::new(Fault::Torn, format!("{name} holds what #{identity} wrote elsewhere")));
        return;
    };
    if op.outcome == Outcome::NoEffect {
        findings.push(Finding::new(Fault::Phantom, format!("{name} holds what #{identity} wrote, which was refused")));
    } else if op.begun_position >= window.begun_before && op.acknowledged_position > 0 {
        findings.push(Finding::new(
            Fault::Phantom,
            format!("{name} holds what #{identity} wrote, which was not yet begun"),
        ));
    } else if let Some(by) = unexplained(&writes, Some(identity)) {
        findings
            .push(Finding::new(Fault::Lost, format!("{name} is still that of #{identity}; {}", tell(operations, by))));
    }
    if let Outcome::Done { etag } = &op.outcome
        && *etag != blob.etag
    {
        findings.push(Finding::new(
            Fault::Disagrees,
            format!("{name} of #{identity} was acknowledged as {etag}, is served as {}", blob.etag),
        ));
    }
}

/// A transaction is there whole or not at all. A name that was written again since, or may have been deleted, says
/// nothing. The names of transactions are written by one connection alone, so what began earlier came earlier.
fn judge_transactions(container: &str, seen: &Seen, operations: &[(usize, &Operation)], findings: &mut Vec<Finding>) {
    for members in operations.chunk_by(|(_, a), (_, b)| a.begun_tick == b.begun_tick).filter(|m| m.len() > 1) {
        let (mut there, mut missing) = (Vec::new(), Vec::new());
        for (identity, op) in members {
            let Some(name) = op.blob() else { continue };
            let key = (container.to_string(), name.to_string());
            if seen.failures.iter().any(|(failed, _)| failed.as_ref() == Some(&key)) {
                continue;
            }
            let is_later_delete = |later: &Operation| {
                matches!(&later.deed, Deed::Delete { name: deleted } if deleted == name)
                    && later.begun_tick > op.begun_tick
                    && later.outcome != Outcome::NoEffect
            };
            let holds = seen.blobs.get(&key).map(|blob| blob.operation);
            let held = holds.flatten().and_then(|held| operations.iter().find(|(i, _)| *i == held));
            match (holds, held) {
                (Some(Some(held)), _) if held == *identity => there.push(name),
                (_, Some((_, held))) if held.begun_tick < op.begun_tick => missing.push(name),
                (None, _) if !operations.iter().any(|(_, later)| is_later_delete(later)) => missing.push(name),
                _ => {}
            }
        }
        if !there.is_empty() && !missing.is_empty() {
            let detail = format!(
                "of the transaction #{} in {container}, {there:?} are there and {missing:?} are not",
                members[0].0
            );
            findings.push(Finding::new(Fault::Torn, detail));
        }
    }
}

fn tell(operations: &[(usize, &Operation)], by: &Write) -> String {
    let Some((identity, op)) = by.operation.and_then(|i| operations.iter().find(|(identity, _)| *identity == i)) else {
        return "nothing that was asked for explains it".into();
    };
    let durable = if op.durable_position == NEVER { "never".to_string() } else { op.durable_position.to_string() };
    format!("#{identity} {:?} (begun at {}, acknowledged or read at {durable})", op.deed, op.begun_position)
}

#[cfg(test)]
mod tests;
