//! What must hold, each as a function of what was read. No words: it holds.

use engine::Record;
use env::Timestamp;

use crate::blob::body::stored_bytes;
use crate::blob::page::PAGE_BYTES;
use crate::blob::state::PastId;
use crate::events::event_key;
use crate::record::BlobHead;
use crate::record::blob::BlobKind;
use crate::record::blocks::{BlockList, Staging};
use crate::record::event::PendingEvent;
use crate::record::past::Mark;
use crate::record::queue::{Place, QueueState};
use crate::record::share::{ShareSnapshot, ShareState};

/// The records of a body as they come by: they hold the bytes that the head says, each once.
pub struct Body {
    bytes: u64,
    kind: BlobKind,
    in_runs: bool,
    records: u64,
    /// Up to here there are bytes, or a hole that may be.
    next: u64,
}

impl Body {
    pub fn of(head: &BlobHead) -> Body {
        let BlobHead { content_bytes: bytes, kind, in_runs, .. } = *head;
        Body { bytes, kind, in_runs, records: 0, next: 0 }
    }

    /// The key without what all keys of the body begin with.
    pub fn take(&mut self, key: &[u8], record: &Record) -> Option<String> {
        let held = stored_bytes(record);
        self.records += 1;
        if !self.in_runs {
            let expected = self.bytes;
            self.next = expected;
            return (!key.is_empty() || self.records > 1 || held != expected).then(|| {
                format!("a record of its body has {held} bytes, and the blob is one of {expected} bytes in one record")
            });
        }
        let Some(last) = key.try_into().ok().map(u64::from_be_bytes) else {
            return Some("the key of a part of its body cannot be read".to_owned());
        };
        let Some(first) = (last.checked_add(1)).and_then(|end| end.checked_sub(held)).filter(|_| held > 0) else {
            return Some(format!("the part of its body that ends at {last} has {held} bytes"));
        };
        let before = std::mem::replace(&mut self.next, last + 1);
        if first < before {
            return Some(format!("parts of its body lie over each other at {first}"));
        }
        if last >= self.bytes {
            return Some(format!("its body goes on to {last}, and it has {} bytes", self.bytes));
        }
        match self.kind {
            BlobKind::Page { .. } if first % PAGE_BYTES != 0 || (last + 1) % PAGE_BYTES != 0 => {
                Some(format!("the pages from {first} to {last} are no whole pages"))
            }
            BlobKind::Block | BlobKind::Append { .. } if first > before => {
                Some(format!("its body has a hole from {before} to {first}"))
            }
            _ => None,
        }
    }

    pub fn end(self) -> Option<String> {
        let may_end_early = matches!(self.kind, BlobKind::Page { .. });
        (self.next < self.bytes && !may_end_early)
            .then(|| format!("its body ends at {}, and it has {} bytes", self.next, self.bytes))
    }
}

/// The blocks of a blob are its bytes.
pub fn blocks(head: &BlobHead, blocks: &BlockList) -> Option<String> {
    let sum = blocks.0.iter().try_fold(0u64, |sum, block| sum.checked_add(block.bytes));
    (sum != Some(head.content_bytes)).then(|| {
        format!(
            "its {} blocks have {} bytes, and it has {}",
            blocks.0.len(),
            sum.unwrap_or(u64::MAX),
            head.content_bytes
        )
    })
}

/// Searches find the tags that a blob has.
pub fn tags(head: Option<&BlobHead>, indexed: Option<&[(String, String)]>) -> Option<String> {
    let own = head.map_or(&[][..], |head| &head.tags);
    (own != indexed.unwrap_or_default() || indexed.is_some_and(<[_]>::is_empty))
        .then(|| format!("it has {} tags, and searches find {}", own.len(), indexed.map_or(0, <[_]>::len)))
}

/// Housekeeping knows when a blob is to go.
pub fn expiry(head: Option<&BlobHead>, noted: Option<Timestamp>) -> Option<String> {
    (head.and_then(|head| head.expires) != noted).then(|| "when it expires is noted wrongly".to_owned())
}

/// An event is of the blob beside which it lies, and its key is its own.
pub fn event(pending: &PendingEvent, blob: &[u8], key: &[u8]) -> Option<String> {
    (pending.event.blob.as_bytes() != blob || event_key(pending) != key)
        .then(|| "an event lies beside it that is not its own".to_owned())
}

/// A past state is known to the mark of its blob.
pub fn past(mark: Option<&Mark>, id: PastId) -> Option<String> {
    match mark {
        None => Some("it has a past, and no mark says so".to_owned()),
        Some(mark) if mark.last_id < id.ticks => {
            Some(format!("its past has the id {}, and the last that was given is {}", id.ticks, mark.last_id))
        }
        Some(_) => None,
    }
}

/// Staged blocks are counted, and their ids are of one length. What is dropped after a week is dropped piece by piece: there may be fewer.
pub fn staged(staging: Option<&Staging>, count: u32, has_other_lengths: bool) -> Option<String> {
    match staging {
        None if count == 0 => None,
        None => Some(format!("{count} blocks are staged, and no note says so")),
        Some(staging) if count > staging.blocks => {
            Some(format!("{count} blocks are staged, and the note says {}", staging.blocks))
        }
        Some(_) => has_other_lengths.then(|| "staged blocks have ids of other lengths than the note says".to_owned()),
    }
}

/// What a queue's records add up to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    pub messages: u64,
    pub pointers: u64,
    pub texts: u64,
    pub expiries: u64,
    /// Messages that do not live for ever.
    pub expiring: u64,
    pub first: Option<Place>,
    pub first_expiry: Option<Timestamp>,
    /// Where the last of those stands that are visible at once.
    pub last_at_once: Option<Timestamp>,
}

/// A queue's state says how many messages there are, and where they begin.
pub fn queue(state: &QueueState, tally: &Tally) -> Vec<String> {
    let mut words = Vec::new();
    if state.count != tally.messages {
        words.push(format!("it says {} messages, and has {}", state.count, tally.messages));
    }
    for (what, count, expected) in [
        ("places", tally.pointers, tally.messages),
        ("texts", tally.texts, tally.messages),
        ("expiries", tally.expiries, tally.expiring),
    ] {
        if count != expected {
            words.push(format!("there are {count} {what} of messages, and should be {expected}"));
        }
    }
    if tally.first.is_some_and(|first| first < state.floor) {
        words.push("a message stands before the place that receiving begins at".to_owned());
    }
    if tally.first_expiry.is_some_and(|first| first < state.expiry_floor) {
        words.push("a message expires before the time that sweeping begins at".to_owned());
    }
    if tally.last_at_once.is_some_and(|last| last > state.at_once_last) {
        words.push("a message that is visible at once stands later than receiving looks".to_owned());
    }
    words
}

/// What a share's records add up to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tree {
    pub used_bytes: u64,
    pub runs: u64,
    /// Runs of contents that a file has, or that wait to be one's or to be swept.
    pub owned_runs: u64,
    pub names: u64,
    /// How many names all files and directories say they have.
    pub links: u64,
}

pub fn tree(state: &ShareState, tree: &Tree) -> Vec<String> {
    let mut words = Vec::new();
    if state.used_bytes != tree.used_bytes {
        words.push(format!("it says {} bytes are used, and its files have {}", state.used_bytes, tree.used_bytes));
    }
    if tree.runs != tree.owned_runs {
        words.push(format!("there are {} runs of bytes, and contents have {}", tree.runs, tree.owned_runs));
    }
    if tree.names != tree.links {
        words.push(format!("there are {} names, and files and directories have {}", tree.names, tree.links));
    }
    let is_ordered = state.snapshots.is_sorted_by(|a, b| a.generation < b.generation);
    let is_before = state.snapshots.last().is_none_or(|last| last.generation < state.generation);
    if !is_ordered || !is_before {
        words.push("its generations are out of order".to_owned());
    }
    words
}

/// What is there now was written in a generation that has begun.
pub fn since(state: &ShareState, since: u64) -> Option<String> {
    (since > state.generation)
        .then(|| format!("something was written in generation {since}, and the newest is {}", state.generation))
}

/// What is past was true for a while that is over.
pub fn past_of_share(state: &ShareState, since: u64, until: u64) -> Option<String> {
    (since > until || until >= state.generation).then(|| {
        format!("something past was true from generation {since} to {until}, and the newest is {}", state.generation)
    })
}

/// The tree knows every snapshot of its share.
pub fn snapshot(state: &ShareState, snapshot: &ShareSnapshot) -> Option<String> {
    let is_known = state.snapshots.iter().any(|seen| seen.generation == snapshot.generation);
    (!is_known).then(|| format!("a snapshot sees generation {}, and the tree does not keep it", snapshot.generation))
}

/// The runs of a content, in order: they do not lie over each other, nor beyond the end of the file.
pub fn runs(before: Option<u64>, first: u64, last: u64, bytes: Option<u64>) -> Option<String> {
    if before.is_some_and(|before| first <= before) {
        return Some(format!("runs of its bytes lie over each other at {first}"));
    }
    let bytes = bytes.filter(|bytes| last >= *bytes)?;
    Some(format!("its bytes go on to {last}, and it has {bytes}"))
}
