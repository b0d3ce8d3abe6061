//! List Blobs, flat and by hierarchy.

use std::collections::BTreeSet;
use std::ops::Bound;

use bytes::Bytes;
use engine::{Engine, Family, Fault, GroupRange, KeyRange, PartitionId, ScanStart};
use env::Timestamp;

use super::container::Found;
use super::staging::load_staged;
use super::state::{PastId, load_head};
use crate::execute::{Failure, Reader, Shell};
use crate::key::{self, container as family};
pub use crate::list::{Entry, Listed, Listing};
use crate::list::{collapse, walk};
use crate::record::past::{Deleted, PastBlob};
use crate::record::{BlobHead, corrupt};

/// What is listed beside the blobs that are there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Beside {
    pub snapshots: bool,
    pub versions: bool,
    pub deleted: bool,
    /// One entry for each blob that is not there and has versions.
    pub versions_only: bool,
    pub uncommitted: bool,
}

impl Beside {
    fn past(self) -> bool {
        self.snapshots || self.versions || self.deleted || self.versions_only
    }
}

/// Where a listing goes on: at a name, and there at a state.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Position {
    pub name: String,
    /// The key of the first past state to show; beyond all of them for the current one.
    pub state: Bytes,
}

/// After every past state.
const CURRENT: Bytes = Bytes::from_static(&[0xFF; 9]);

/// What an entry is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    Current,
    Snapshot(u64),
    Version(u64),
    /// Blocks are staged, and nothing is committed.
    Uncommitted,
    /// The blob is not there, but versions of it are.
    VersionsOnly,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedBlob {
    pub what: What,
    /// Nothing is known of what is not committed.
    pub head: Option<BlobHead>,
    pub deleted: Option<Deleted>,
}

pub struct ListedBlobs {
    pub entries: Vec<Entry<ListedBlob>>,
    pub next: Option<Position>,
}

pub async fn blobs(
    shell: &Shell,
    container: &Found,
    listing: &Listing,
    from: &Position,
    beside: Beside,
) -> Result<ListedBlobs, Failure> {
    let listed = if beside.past() || beside.uncommitted {
        present_and_past(shell, container, listing, from, beside).await?
    } else {
        let listing = Listing { start: listing.start.clone().max(from.name.clone()), ..listing.clone() };
        let listed = walk(shell.engine.as_ref(), &container.group, family::HEAD, &listing, BlobHead::decode).await?;
        let current = |entry| match entry {
            Entry::Item { name, head } => {
                Entry::Item { name, head: ListedBlob { what: What::Current, head: Some(head), deleted: None } }
            }
            Entry::Prefix(prefix) => Entry::Prefix(prefix),
        };
        let next = listed.next.map(|name| Position { name, state: Bytes::new() });
        ListedBlobs { entries: listed.entries.into_iter().map(current).collect(), next }
    };
    container.still_there(shell).await?;
    Ok(listed)
}

/// Names looked up at once.
const NAMES_AT_ONCE: usize = 256;

/// Names come from up to three families; what is under a name is then read in one view of it.
///
/// A blob may go from one family to another between two scans, and must not be missed for it. So the families are scanned in this order,
/// for the same stretch of names: what is staged, then what is there, then what has a past. Committing what is staged makes it there, and
/// that is looked for later. What is there and is deleted has a past, and that is looked for last; restoring it leaves the mark. Whoever is
/// found in none of them was, at some moment, not there at all.
async fn names(
    engine: &dyn Engine,
    container: &Found,
    start: &[u8],
    end: Option<&Bytes>,
    beside: Beside,
) -> Result<(BTreeSet<Bytes>, Option<Bytes>), Fault> {
    let families: [(Family, bool); 3] =
        [(family::STAGING, beside.uncommitted), (family::HEAD, true), (family::HAS_PAST, beside.past())];
    let (mut names, mut horizon): (BTreeSet<Bytes>, Option<Bytes>) = (BTreeSet::new(), None);
    for (family, _) in families.into_iter().filter(|(_, wanted)| *wanted) {
        let range = GroupRange {
            group: container.group.clone(),
            family,
            start: ScanStart::AtPartition(Bytes::copy_from_slice(start)),
            before_partition: end.cloned(),
        };
        let page = engine.scan(&range, NAMES_AT_ONCE).await?;
        if let Some(last) = page.rows.last().filter(|_| page.more) {
            horizon = Some(horizon.map_or(last.partition.clone(), |horizon| horizon.min(last.partition.clone())));
        }
        names.extend(page.rows.into_iter().map(|row| row.partition));
    }
    if let Some(horizon) = &horizon {
        names.retain(|name| name <= horizon);
    }
    Ok((names, horizon))
}

async fn present_and_past(
    shell: &Shell,
    container: &Found,
    listing: &Listing,
    from: &Position,
    beside: Beside,
) -> Result<ListedBlobs, Failure> {
    let end = key::after_prefix(listing.prefix.as_bytes());
    let first = [listing.start.as_str(), listing.prefix.as_str(), from.name.as_str()].into_iter().max();
    let mut start = Bytes::copy_from_slice(first.unwrap_or_default().as_bytes());
    let mut entries = Vec::new();
    'round: loop {
        let (names, horizon) = names(shell.engine.as_ref(), container, &start, end.as_ref(), beside).await?;
        for partition in names {
            let name = String::from_utf8(partition.to_vec()).map_err(|_| corrupt("a name", &partition))?;
            let state = if name == from.name { from.state.clone() } else { Bytes::new() };
            let wanted = listing.results_max + 1 - entries.len();
            let found = states(shell, container, partition, state, beside, wanted).await?;
            match collapse(&name, listing) {
                Some(_) if found.is_empty() => {}
                Some(prefix) if entries.len() == listing.results_max => {
                    return Ok(ListedBlobs { entries, next: Some(Position { name: prefix, state: Bytes::new() }) });
                }
                Some(prefix) => {
                    let after = key::after_prefix(prefix.as_bytes());
                    entries.push(Entry::Prefix(prefix));
                    match after {
                        Some(after) => start = after,
                        None => return Ok(ListedBlobs { entries, next: None }),
                    }
                    continue 'round;
                }
                None => {
                    for (state, head) in found {
                        if entries.len() == listing.results_max {
                            return Ok(ListedBlobs { entries, next: Some(Position { name, state }) });
                        }
                        entries.push(Entry::Item { name: name.clone(), head });
                    }
                }
            }
        }
        match horizon {
            // The next name there can be.
            Some(horizon) => start = [&horizon[..], &[0]].concat().into(),
            None => return Ok(ListedBlobs { entries, next: None }),
        }
    }
}

/// What is to be shown of one blob, oldest first, with where each stands.
async fn states(
    shell: &Shell,
    container: &Found,
    partition: Bytes,
    from: Bytes,
    beside: Beside,
    wanted: usize,
) -> Result<Vec<(Bytes, ListedBlob)>, Fault> {
    let partition = PartitionId { group: container.group.clone(), key: partition };
    shell.steadily(&partition, || states_in(shell, &partition, from.clone(), beside, wanted)).await
}

async fn states_in(
    shell: &Shell,
    partition: &PartitionId,
    from: Bytes,
    beside: Beside,
    wanted: usize,
) -> Result<Vec<(Bytes, ListedBlob)>, Fault> {
    let view = shell.engine.view(partition).await?;
    let (reader, now) = (Reader::committed(view.as_ref()), shell.clock.now());
    let head = load_head(&reader).await?.filter(|head| head.is_there(now));
    let mut found = Vec::new();
    let mut start = Bound::Included(from);
    while beside.past() && found.len() < wanted {
        let range = KeyRange { start: start.clone(), end: Bound::Unbounded };
        let page = reader.scan(family::PAST, &range, NAMES_AT_ONCE).await?;
        let is_last = page.len() < NAMES_AT_ONCE;
        for (key, record) in page {
            let id = PastId::parse(&key).ok_or_else(|| corrupt("the key of a past state", &key))?;
            let past = PastBlob::decode(&record.value)?;
            start = Bound::Excluded(key.clone());
            if let Some(what) = shown(id, &past, head.is_some(), beside, now) {
                found.push((key, ListedBlob { what, head: Some(past.head), deleted: past.deleted }));
            }
        }
        if is_last {
            break;
        }
    }
    let current = match head {
        Some(head) => Some(ListedBlob { what: What::Current, head: Some(head), deleted: None }),
        None if beside.uncommitted && load_staged(&reader).await?.is_live(now) => {
            Some(ListedBlob { what: What::Uncommitted, head: None, deleted: None })
        }
        None if beside.versions_only && !beside.versions => newest_version(&reader).await?.map(|head| ListedBlob {
            what: What::VersionsOnly,
            head: Some(head),
            deleted: None,
        }),
        None => None,
    };
    found.extend(current.map(|current| (CURRENT, current)));
    Ok(found)
}

async fn newest_version(reader: &Reader<'_>) -> Result<Option<BlobHead>, Fault> {
    let (mut newest, mut start) = (None, Bound::Unbounded);
    loop {
        let range = KeyRange { start: start.clone(), end: Bound::Unbounded };
        let page = reader.scan(family::PAST, &range, NAMES_AT_ONCE).await?;
        let is_last = page.len() < NAMES_AT_ONCE;
        for (key, record) in page {
            let past = PastBlob::decode(&record.value)?;
            if PastId::parse(&key).is_some_and(|id| id.is_version) && past.deleted.is_none() {
                newest = Some(past.head);
            }
            start = Bound::Excluded(key);
        }
        if is_last {
            return Ok(newest);
        }
    }
}

/// Is a past state shown, and as what?
fn shown(id: PastId, past: &PastBlob, has_current: bool, beside: Beside, now: Timestamp) -> Option<What> {
    let is_shown = |included: bool, what| included.then_some(what);
    match past.deleted {
        Some(deleted) if deleted.is_gone(now) => None,
        None if id.is_version => is_shown(beside.versions, What::Version(id.ticks)),
        Some(_) if id.is_version => is_shown(beside.versions && beside.deleted, What::Version(id.ticks)),
        None => is_shown(beside.snapshots, What::Snapshot(id.ticks)),
        // What was the blob itself is shown as the blob.
        Some(_) if past.was_base && !has_current => is_shown(beside.deleted, What::Current),
        Some(_) => is_shown(beside.snapshots && beside.deleted, What::Snapshot(id.ticks)),
    }
}

/// Does a container hold anything, now or of what was?
pub async fn has_blobs(shell: &Shell, container: &Found) -> Result<bool, Failure> {
    for family in [family::HEAD, family::PAST] {
        let (group, start) = (container.group.clone(), ScanStart::AtPartition(Bytes::new()));
        let page = shell.engine.scan(&GroupRange { group, family, start, before_partition: None }, 1).await?;
        if !page.rows.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::blob::tests::plain;

    #[test]
    fn what_is_shown_of_the_past() {
        let now = Timestamp::from_ticks(100);
        let live = Some(Deleted { at: Timestamp::from_ticks(50), until: Timestamp::from_ticks(101) });
        let gone = Some(Deleted { at: Timestamp::from_ticks(50), until: now });
        // s: snapshots, v: versions, d: deleted are included. A capital in the second: what is shown as.
        for (is_version, was_base, deleted, has_current, s, v, sd, vd, d) in [
            (false, false, None, true, "S", "", "S", "", ""),
            (true, false, None, true, "", "V", "", "V", ""),
            (false, false, live, true, "", "", "S", "", ""),
            (true, false, live, true, "", "", "", "V", ""),
            (false, true, live, false, "", "", "B", "B", "B"),
            (false, true, live, true, "", "", "S", "", ""),
            (false, false, gone, true, "", "", "", "", ""),
            (true, false, gone, false, "", "", "", "", ""),
        ] {
            for (letters, expected) in [("s", s), ("v", v), ("sd", sd), ("vd", vd), ("d", d)] {
                let beside = Beside {
                    snapshots: letters.contains('s'),
                    versions: letters.contains('v'),
                    deleted: letters.contains('d'),
                    ..Beside::default()
                };
                let past = PastBlob { head: plain(), was_base, deleted };
                let what = shown(PastId { ticks: 7, is_version }, &past, has_current, beside, now);
                let what = match what {
                    None => "",
                    Some(What::Snapshot(7)) => "S",
                    Some(What::Version(7)) => "V",
                    Some(What::Current) => "B",
                    Some(_) => "?",
                };
                assert_eq!(what, expected, "{is_version} {was_base} {deleted:?} {has_current} with {letters}");
            }
        }
    }
}
