//! Single blobs in the making: blocks and block lists, appends, snapshots, leases. Their container stays.
//!
//! A blob's content is a row of pieces, each of which is the number of the call that wrote it.

pub mod model;

use super::chance::Chance;
use super::client::{Asking, failed, wrong};
use super::history::{self, CallId, Outcome, Value};
use super::lease::{self, Action};
use crate::{Answer, Request};

pub const CONTAINER: &str = "works";
/// The last one is an append blob, the others are block blobs.
pub const BLOBS: [&str; 3] = ["one", "two", "log"];
pub const LOG: usize = 2;
/// The ids that blocks have.
pub const BLOCKS: usize = 3;
pub const PIECE_BYTES: usize = 8;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Deed {
    pub blob: usize,
    pub what: What,
    /// The lease that the client says it has.
    pub lease: Option<lease::Id>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum What {
    /// A block blob with one piece, or an append blob with none.
    Put,
    PutBlock {
        block: usize,
    },
    PutBlockList(Vec<(usize, From)>),
    /// Only if there are so many pieces.
    Append {
        at: Option<usize>,
    },
    Get,
    /// As it was in this snapshot.
    GetSnapshot(String),
    /// With its snapshots.
    Delete,
    Snapshot,
    Lease(Action),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum From {
    Committed,
    Uncommitted,
    Latest,
}

impl Deed {
    pub fn writes(&self) -> bool {
        !matches!(self.what, What::Get | What::GetSnapshot(_))
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Reply {
    Done,
    Shown(Vec<Value>),
    Snapped(String),
    /// With this code.
    Refused(String),
}

/// What the clients know together.
#[derive(Default)]
pub struct Seen {
    snapshots: Vec<(usize, String)>,
    /// The length seen last, in pieces.
    length: usize,
}

const SEEN_MAX: usize = 6;

pub fn choose(chance: &mut Chance, seen: &Seen) -> Deed {
    let blob = chance.weighted(&[4, 2, 3]);
    // One client in two has the lease that most of them mean.
    let lease = (chance.below(2) == 0).then(|| if chance.below(3) == 0 { 1 } else { 0 });
    let snapshot = seen.snapshots.iter().filter(|(of, _)| *of == blob).map(|(_, snapshot)| snapshot);
    let snapshots: Vec<&String> = snapshot.collect();
    let what = match chance.weighted(&[10, 20, 16, 20, 8, 4, 4, 18]) {
        0 => What::Put,
        1 if blob != LOG => What::PutBlock { block: chance.index(BLOCKS) },
        2 if blob != LOG => {
            let from = [From::Committed, From::Uncommitted, From::Latest, From::Latest, From::Latest];
            // Each of them once: which of two blocks with one id is meant later is nobody's promise.
            let (first, blocks) = (chance.index(BLOCKS), chance.between(1, BLOCKS as u64) as usize);
            What::PutBlockList((0..blocks).map(|ahead| ((first + ahead) % BLOCKS, *chance.pick(&from))).collect())
        }
        1 | 2 => What::Append { at: (chance.below(3) == 0).then_some(seen.length) },
        4 if !snapshots.is_empty() => What::GetSnapshot(chance.pick(&snapshots).to_string()),
        5 => What::Snapshot,
        6 => What::Delete,
        7 => What::Lease(action(chance)),
        _ => What::Get,
    };
    Deed { blob, what, lease }
}

/// A lease operation, as clients like it who all want the same.
pub fn action(chance: &mut Chance) -> Action {
    let id = chance.weighted(&[6, 3, 1]) as lease::Id;
    match chance.weighted(&[8, 3, 2, 4, 3]) {
        0 => Action::Acquire { id, seconds: *chance.pick(&[Some(15), Some(30), None]) },
        1 => Action::Renew { id },
        2 => Action::Change { id, to: chance.index(usize::from(lease::IDS_MADE)) as lease::Id },
        3 => Action::Release { id },
        _ => Action::Break { seconds: *chance.pick(&[Some(0), Some(10), None]) },
    }
}

/// What shows all that is left.
pub fn stock() -> impl Iterator<Item = Deed> {
    (0..BLOBS.len()).map(|blob| Deed { blob, what: What::Get, lease: None })
}

pub async fn perform(asking: &mut Asking<'_>, deed: &Deed) -> Option<Outcome> {
    let answer = asking.ask(request(asking.call, deed)).await?;
    let outcome = understand(deed, &answer);
    let mut seen = asking.sim.seen.borrow_mut();
    match &outcome {
        Outcome::Answered(history::Reply::Blob(Reply::Snapped(snapshot))) => {
            if seen.blob.snapshots.len() == SEEN_MAX {
                seen.blob.snapshots.remove(0);
            }
            seen.blob.snapshots.push((deed.blob, snapshot.clone()));
        }
        Outcome::Answered(history::Reply::Blob(Reply::Shown(pieces))) if deed.blob == LOG => {
            seen.blob.length = pieces.len();
        }
        _ => {}
    }
    Some(outcome)
}

/// The bytes of a piece.
pub fn piece(value: Value) -> Vec<u8> {
    format!("{value:07};").into_bytes()
}

/// The pieces of a content; `None` if it is torn.
pub fn pieces(bytes: &[u8]) -> Option<Vec<Value>> {
    let whole = bytes.len().is_multiple_of(PIECE_BYTES);
    let piece = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.strip_suffix(';')?.parse().ok();
    if whole { bytes.chunks(PIECE_BYTES).map(piece).collect() } else { None }
}

fn block_id(block: usize) -> &'static str {
    ["YWFh", "YmJi", "Y2Nj"][block]
}

fn request(call: CallId, deed: &Deed) -> Request {
    let on = |method: &str| Request::new(&format!("{method} {CONTAINER}/{}", BLOBS[deed.blob]));
    let request = match &deed.what {
        What::Put if deed.blob == LOG => on("PUT").header("x-ms-blob-type", "AppendBlob"),
        What::Put => on("PUT").header("x-ms-blob-type", "BlockBlob").body(piece(call)),
        What::PutBlock { block } => {
            on("PUT").parameter("comp", "block").parameter("blockid", block_id(*block)).body(piece(call))
        }
        What::PutBlockList(blocks) => {
            let row = |(block, from): &(usize, From)| format!("<{from:?}>{}</{from:?}>", block_id(*block));
            let rows: String = blocks.iter().map(row).collect();
            on("PUT").parameter("comp", "blocklist").body(format!("<BlockList>{rows}</BlockList>"))
        }
        What::Append { at } => {
            let request = on("PUT").parameter("comp", "appendblock").body(piece(call));
            match at {
                Some(at) => request.header("x-ms-blob-condition-appendpos", (at * PIECE_BYTES).to_string()),
                None => request,
            }
        }
        What::Get => on("GET"),
        What::GetSnapshot(snapshot) => return on("GET").parameter("snapshot", snapshot),
        What::Delete => on("DELETE").header("x-ms-delete-snapshots", "include"),
        What::Snapshot => on("PUT").parameter("comp", "snapshot"),
        What::Lease(action) => return action.on(on("PUT")),
    };
    if let Some(lease) = deed.lease { request.header("x-ms-lease-id", lease::text(lease)) } else { request }
}

fn understand(deed: &Deed, answer: &Answer) -> Outcome {
    if let Some(failed) = failed(deed.writes(), answer) {
        return failed;
    }
    let status = match &deed.what {
        What::Get | What::GetSnapshot(_) => 200,
        What::Delete => 202,
        What::Lease(action) => action.status(),
        _ => 201,
    };
    let reply = match &deed.what {
        _ if matches!(answer.status, 400 | 404 | 409 | 412) => Some(Reply::Refused(answer.code().to_string())),
        _ if answer.status != status => None,
        What::Get | What::GetSnapshot(_) => pieces(&answer.body).map(Reply::Shown),
        What::Snapshot => answer.header("x-ms-snapshot").map(|snapshot| Reply::Snapped(snapshot.to_string())),
        _ => Some(Reply::Done),
    };
    reply.map_or_else(
        || wrong("not an answer to this request", answer),
        |reply| Outcome::Answered(history::Reply::Blob(reply)),
    )
}
