//! A share: files created, written and cleared in ranges, renamed, leased, deleted, listed, and kept in snapshots.
//!
//! A file has four slots, each of which holds the number of the call that wrote it, or nothing.

pub mod model;

use contract::Service;

use super::chance::Chance;
use super::client::{Asking, between, failed, wrong};
use super::history::{self, CallId, Outcome, Value};
use super::lease::{self, Action};
use super::smb;
use crate::{Answer, Request};

pub const SHARE: &str = "docs";
pub const DIRECTORY: &str = "d";
/// Two names in the root and one in the directory.
pub const FILES: [&str; 3] = ["a", "b", "d/c"];
pub const SLOTS: usize = 4;
pub const SLOT_BYTES: usize = 8;

pub type Slots = [Value; SLOTS];

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Deed {
    /// With empty slots, whether it was there or not.
    Create {
        file: usize,
        lease: Option<lease::Id>,
    },
    Write {
        file: usize,
        slots: Range,
        lease: Option<lease::Id>,
    },
    Clear {
        file: usize,
        slots: Range,
        lease: Option<lease::Id>,
    },
    Read {
        file: usize,
    },
    Delete {
        file: usize,
        lease: Option<lease::Id>,
    },
    Rename {
        from: usize,
        to: usize,
        replaces: bool,
    },
    Lease {
        file: usize,
        action: Action,
    },
    /// The names in the root and in the directory.
    List {
        directory: bool,
    },
    Snapshot,
    /// As it was in this snapshot.
    ReadSnapshot {
        file: usize,
        snapshot: String,
    },
    Smb(smb::Deed),
}

/// Some slots of a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Range {
    pub first: usize,
    pub count: usize,
}

impl Range {
    pub fn indexes(self) -> std::ops::Range<usize> {
        self.first..self.first + self.count
    }

    pub fn choose(chance: &mut Chance) -> Range {
        let first = chance.index(SLOTS);
        Range { first, count: chance.between(1, (SLOTS - first) as u64) as usize }
    }

    fn header(self) -> String {
        format!("bytes={}-{}", self.first * SLOT_BYTES, (self.first + self.count) * SLOT_BYTES - 1)
    }
}

impl Deed {
    pub fn writes(&self) -> bool {
        match self {
            Deed::Read { .. } | Deed::List { .. } | Deed::ReadSnapshot { .. } => false,
            Deed::Smb(deed) => deed.writes(),
            _ => true,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Reply {
    Done,
    Shown(Slots),
    /// Some of them.
    Read(Vec<Value>),
    /// Which of `FILES` a listing showed.
    Listed(Vec<usize>),
    Snapped(String),
    /// With this code.
    Refused(String),
}

/// What the clients know together.
#[derive(Default)]
pub struct Seen {
    snapshots: Vec<String>,
}

/// A snapshot is never deleted, and a search has to keep them all.
const SNAPSHOTS_MAX: usize = 4;

pub fn choose(chance: &mut Chance, seen: &Seen) -> Deed {
    let file = chance.weighted(&[3, 2, 2]);
    let lease = (chance.below(3) == 0).then_some(0);
    let slots = Range::choose(chance);
    match chance.weighted(&[14, 24, 8, 24, 5, 9, 10, 6, 2, 6]) {
        0 => Deed::Create { file, lease },
        1 => Deed::Write { file, slots, lease },
        2 => Deed::Clear { file, slots, lease },
        4 => Deed::Delete { file, lease },
        5 => {
            let to = (file + chance.between(1, FILES.len() as u64 - 1) as usize) % FILES.len();
            Deed::Rename { from: file, to, replaces: chance.below(2) == 0 }
        }
        6 => Deed::Lease { file, action: action(chance) },
        7 => Deed::List { directory: chance.below(3) == 0 },
        8 if seen.snapshots.len() < SNAPSHOTS_MAX => Deed::Snapshot,
        8 | 9 if !seen.snapshots.is_empty() => {
            Deed::ReadSnapshot { file, snapshot: chance.pick(&seen.snapshots).clone() }
        }
        _ => Deed::Read { file },
    }
}

/// Leases on files have no end, are not renewed, and are broken at once.
fn action(chance: &mut Chance) -> Action {
    let id = chance.weighted(&[3, 1]) as lease::Id;
    match chance.weighted(&[4, 1, 3, 2]) {
        0 => Action::Acquire { id, seconds: None },
        1 => Action::Change { id, to: 1 - id },
        2 => Action::Release { id },
        _ => Action::Break { seconds: None },
    }
}

/// What shows all that is left.
pub fn stock() -> impl Iterator<Item = Deed> {
    let lists = [false, true].map(|directory| Deed::List { directory });
    (0..FILES.len()).map(|file| Deed::Read { file }).chain(lists)
}

pub async fn perform(asking: &mut Asking<'_>, deed: &Deed) -> Option<Outcome> {
    let answer = asking.ask(request(asking.call, deed)).await?;
    let outcome = understand(deed, &answer);
    if let Outcome::Answered(history::Reply::File(Reply::Snapped(snapshot))) = &outcome {
        asking.sim.seen.borrow_mut().file.snapshots.push(snapshot.clone());
    }
    Some(outcome)
}

/// The bytes of these slots, written by this call.
pub fn written(value: Value, slots: Range) -> Vec<u8> {
    format!("{value:07};").repeat(slots.count).into_bytes()
}

/// The slots of a content; `None` if one is torn.
pub fn slots(bytes: &[u8]) -> Option<Vec<Value>> {
    let slot = |bytes: &[u8]| match bytes {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some(0),
        bytes => std::str::from_utf8(bytes).ok()?.strip_suffix(';')?.parse().ok().filter(|value| *value > 0),
    };
    let whole = bytes.len().is_multiple_of(SLOT_BYTES);
    if whole { bytes.chunks(SLOT_BYTES).map(slot).collect() } else { None }
}

fn request(call: CallId, deed: &Deed) -> Request {
    let on = |method: &str, file: usize| Request::new(&format!("{method} {SHARE}/{}", FILES[file])).of(Service::File);
    let leased = |request: Request, lease: Option<lease::Id>| match lease {
        Some(lease) => request.header("x-ms-lease-id", lease::text(lease)),
        None => request,
    };
    let range = |file: usize, slots: Range, write: &str| {
        on("PUT", file).parameter("comp", "range").header("x-ms-range", slots.header()).header("x-ms-write", write)
    };
    match deed {
        Deed::Create { file, lease } => {
            let request = on("PUT", *file).header("x-ms-type", "file");
            leased(request.header("x-ms-content-length", (SLOTS * SLOT_BYTES).to_string()), *lease)
        }
        Deed::Write { file, slots, lease } => {
            leased(range(*file, *slots, "update").body(written(call, *slots)), *lease)
        }
        Deed::Clear { file, slots, lease } => leased(range(*file, *slots, "clear"), *lease),
        Deed::Read { file } => on("GET", *file),
        Deed::ReadSnapshot { file, snapshot } => on("GET", *file).parameter("sharesnapshot", snapshot),
        Deed::Delete { file, lease } => leased(on("DELETE", *file), *lease),
        Deed::Rename { from, to, replaces } => {
            let source = format!("http://127.0.0.1:10000/{}/{SHARE}/{}", crate::ACCOUNT, FILES[*from]);
            let request = on("PUT", *to).parameter("comp", "rename").header("x-ms-file-rename-source", source);
            request.header("x-ms-file-rename-replace-if-exists", replaces.to_string())
        }
        Deed::Lease { file, action } => action.on(on("PUT", *file)),
        Deed::List { directory } => {
            let path = if *directory { format!("{SHARE}/{DIRECTORY}") } else { SHARE.into() };
            Request::new(&format!("GET {path}?restype=directory&comp=list")).of(Service::File)
        }
        Deed::Smb(_) => unreachable!("SMB clients ask for themselves"),
        Deed::Snapshot => Request::new(&format!("PUT {SHARE}?restype=share&comp=snapshot")).of(Service::File),
    }
}

fn understand(deed: &Deed, answer: &Answer) -> Outcome {
    if let Some(failed) = failed(deed.writes(), answer) {
        return failed;
    }
    let status = match deed {
        Deed::Create { .. } | Deed::Write { .. } | Deed::Clear { .. } | Deed::Snapshot => 201,
        Deed::Delete { .. } => 202,
        Deed::Lease { action, .. } => action.status(),
        _ => 200,
    };
    let reply = match deed {
        _ if matches!(answer.status, 404 | 409 | 412) => Some(Reply::Refused(answer.code().to_string())),
        _ if answer.status != status => None,
        Deed::Read { .. } | Deed::ReadSnapshot { .. } => {
            slots(&answer.body).and_then(|slots| slots.try_into().ok()).map(Reply::Shown)
        }
        Deed::List { directory } => listed(*directory, &answer.text()).map(Reply::Listed),
        Deed::Snapshot => answer.header("x-ms-snapshot").map(|snapshot| Reply::Snapped(snapshot.to_string())),
        _ => Some(Reply::Done),
    };
    reply.map_or_else(
        || wrong("not an answer to this request", answer),
        |reply| Outcome::Answered(history::Reply::File(reply)),
    )
}

fn listed(directory: bool, text: &str) -> Option<Vec<usize>> {
    let names = text.split("<File>").skip(1).map(|part| between(part, "Name"));
    let index = |name: &str| {
        let path = if directory { format!("{DIRECTORY}/{name}") } else { name.to_string() };
        FILES.iter().position(|known| *known == path)
    };
    let indexes: Vec<usize> = names.map(|name| index(name?)).collect::<Option<_>>()?;
    indexes.is_sorted_by(|one, other| one < other).then_some(indexes)
}
