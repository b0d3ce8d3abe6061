//! Where a blob's bytes are: in one record, or in runs.
//!
//! A state of a blob has its bytes in a place: a family, and the beginning of the keys there. What one put wrote is one record under just
//! that beginning. What is made of blocks, appended to or written page by page has runs: behind the beginning each key has the offset of
//! the run's last byte, so the run that holds an offset is the first one found from that offset on. An append adds a run and touches no
//! other; reading a range reads the runs it lies in. Where a page blob has no run it has zeros.

use std::ops::Bound;

use bytes::{BufMut, Bytes, BytesMut};
use engine::{BoxFuture, ExtentSlice, Family, Fault, KeyRange, Record, View, Write};

use super::state::load_head;
use crate::content::{Content, Part, Runs};
use crate::etag::ETag;
use crate::execute::Reader;
use crate::key::{after_prefix, container};
use crate::record::{BlobHead, corrupt};

/// A run of many slices would make reading a small range of it costly.
pub const RUN_SLICES_MAX: usize = 256;
/// Runs asked of the engine at once.
const RUNS_AT_ONCE: usize = 64;

/// Where the content of a state lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    body: Family,
    blocks: Family,
    prefix: Bytes,
}

impl Place {
    /// Of what the blob is now.
    pub const CURRENT: Place = Place { body: container::BODY, blocks: container::BLOCKS, prefix: Bytes::new() };

    fn is_current(&self) -> bool {
        self.body == container::BODY
    }

    /// Of the past state with this key.
    pub fn past(key: Bytes) -> Place {
        Place { body: container::PAST_BODY, blocks: container::PAST_BLOCKS, prefix: key }
    }

    fn run_key(&self, last: u64) -> Bytes {
        let mut key = BytesMut::with_capacity(self.prefix.len() + 8);
        key.put_slice(&self.prefix);
        key.put_u64(last);
        key.freeze()
    }

    /// The offset of the last byte of the run with this key.
    fn run_end(&self, key: &[u8]) -> Result<u64, Fault> {
        let end = key.get(self.prefix.len()..).and_then(|end| end.try_into().ok());
        Ok(u64::from_be_bytes(end.ok_or_else(|| corrupt("the key of a run", key))?))
    }

    pub(super) fn family(&self) -> Family {
        self.body
    }

    /// Runs that end at `last` or later.
    pub(super) fn from(&self, last: Bound<u64>) -> KeyRange {
        let start = match last {
            Bound::Included(last) => Bound::Included(self.run_key(last)),
            Bound::Excluded(last) => Bound::Excluded(self.run_key(last)),
            Bound::Unbounded => Bound::Included(self.prefix.clone()),
        };
        KeyRange { start, end: after_prefix(&self.prefix).map_or(Bound::Unbounded, Bound::Excluded) }
    }

    /// The same record, in another place.
    fn moved(&self, key: &[u8], to: &Place) -> Bytes {
        [&to.prefix, &key[self.prefix.len()..]].concat().into()
    }
}

/// One record of a body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// The offset of its last byte; `None` for a body that is one record.
    pub end: Option<u64>,
    pub value: Bytes,
    pub slices: Vec<ExtentSlice>,
}

impl Run {
    /// The whole of a body in one record.
    pub fn single((value, slices): (Bytes, Vec<ExtentSlice>)) -> Run {
        Run { end: None, value, slices }
    }

    /// Content of `bytes` bytes behind `offset`.
    pub fn behind(offset: u64, bytes: u64, (value, slices): (Bytes, Vec<ExtentSlice>)) -> Run {
        Run { end: Some(offset + bytes - 1), value, slices }
    }

    fn key(&self, place: &Place) -> Bytes {
        self.end.map_or_else(|| place.prefix.clone(), |end| place.run_key(end))
    }

    pub fn put(self, place: &Place) -> Write {
        Write::Put { family: place.body, key: self.key(place), value: self.value, slices: self.slices }
    }
}

/// Slices in their order as runs from offset 0.
pub fn runs(slices: &[ExtentSlice]) -> Vec<Run> {
    let mut end = 0;
    let chunks = slices.chunks(RUN_SLICES_MAX).map(|chunk| {
        end += chunk.iter().map(|slice| slice.bytes).sum::<u64>();
        Run { end: Some(end - 1), value: Bytes::new(), slices: chunk.to_vec() }
    });
    chunks.collect()
}

/// Content that came whole as a body: one record, or runs if one record would hold too many slices. None if it is empty.
pub fn whole(content: &Content) -> Vec<Run> {
    let (value, slices) = content.stored();
    match slices.len() {
        _ if content.bytes() == 0 => Vec::new(),
        0..=RUN_SLICES_MAX => vec![Run::single((value, slices))],
        _ => runs(&slices),
    }
}

pub fn is_in_runs(body: &[Run]) -> bool {
    body.iter().any(|run| run.end.is_some())
}

/// A body as it lies there, to be replaced, removed, copied or moved.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stored {
    /// In the order of their keys. Without what is in them, where that was not asked for.
    pub records: Vec<(Bytes, Option<Record>)>,
}

/// All records of a body; with what is in them if `whole`. That of the current one is read in any case: what a batch writes and has not
/// read, an engine has to look for when it commits.
pub async fn load(reader: &Reader<'_>, place: &Place, head: Option<&BlobHead>, whole: bool) -> Result<Stored, Fault> {
    let records = match head {
        Some(head) if head.content_bytes > 0 && head.in_runs => {
            let mut records = Vec::new();
            let mut range = place.from(Bound::Unbounded);
            loop {
                let page = reader.scan(place.body, &range, RUNS_AT_ONCE).await?;
                let is_last = page.len() < RUNS_AT_ONCE;
                records.extend(page.into_iter().map(|(key, record)| (key, Some(record).filter(|_| whole))));
                match records.last() {
                    Some((key, _)) if !is_last => range.start = Bound::Excluded(key.clone()),
                    _ => break records,
                }
            }
        }
        Some(head) if head.content_bytes > 0 && (whole || place.is_current()) => {
            let record = reader.get(place.body, &place.prefix).await?;
            vec![(place.prefix.clone(), record.filter(|_| whole))]
        }
        Some(head) if head.content_bytes > 0 => vec![(place.prefix.clone(), None)],
        _ if place.is_current() => {
            reader.get(place.body, &place.prefix).await?;
            Vec::new()
        }
        _ => Vec::new(),
    };
    Ok(Stored { records })
}

impl Stored {
    /// Puts the new body in the place of this one.
    pub fn replace(&self, place: &Place, new: Vec<Run>) -> Vec<Write> {
        let new: Vec<(Bytes, Run)> = new.into_iter().map(|run| (run.key(place), run)).collect();
        let kept: std::collections::HashSet<&Bytes> = new.iter().map(|(key, _)| key).collect();
        let gone = self.records.iter().filter(|(key, _)| !kept.contains(key));
        let mut writes: Vec<Write> =
            gone.map(|(key, _)| Write::Delete { family: place.body, key: key.clone() }).collect();
        writes.extend(new.into_iter().map(|(_, run)| run.put(place)));
        writes
    }

    /// The same body in another place, too: extents are shared.
    pub fn copy(&self, from: &Place, to: &Place) -> Vec<Write> {
        let there = self.records.iter().filter_map(|(key, record)| Some((key, record.as_ref()?)));
        let copies = there.map(|(key, Record { value, slices, .. })| Write::Put {
            family: to.body,
            key: from.moved(key, to),
            value: value.clone(),
            slices: slices.clone(),
        });
        copies.collect()
    }

    /// The same body as runs, to be put in any place.
    pub fn into_runs(self, place: &Place) -> Result<Vec<Run>, Fault> {
        let run = |(key, record): (Bytes, Option<Record>)| {
            let Record { value, slices, .. } = record.ok_or_else(|| corrupt("a body that is not there", &key))?;
            let end = if key == place.prefix { None } else { Some(place.run_end(&key)?) };
            Ok(Run { end, value, slices })
        };
        self.records.into_iter().map(run).collect()
    }

    /// What is in them, in order.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().filter_map(|(_, record)| record.as_ref())
    }
}

/// The committed block list of a state, as its record holds it.
pub async fn load_block_list(
    reader: &Reader<'_>,
    place: &Place,
    head: Option<&BlobHead>,
) -> Result<Option<Record>, Fault> {
    match head {
        Some(head) if head.in_runs && head.kind.is_block() => reader.get(place.blocks, &place.prefix).await,
        _ => Ok(None),
    }
}

pub fn put_block_list(place: &Place, value: Bytes) -> Write {
    Write::Put { family: place.blocks, key: place.prefix.clone(), value, slices: Vec::new() }
}

pub fn delete_block_list(place: &Place) -> Write {
    Write::Delete { family: place.blocks, key: place.prefix.clone() }
}

/// A run with where it begins and ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed {
    pub begin: u64,
    pub end: u64,
    pub record: Record,
}

impl Placed {
    pub(super) fn new(place: &Place, key: &[u8], record: Record) -> Result<Placed, Fault> {
        let end = place.run_end(key)?;
        let begin = (end + 1).checked_sub(stored_bytes(&record));
        Ok(Placed { begin: begin.ok_or_else(|| corrupt("a run longer than it can be", key))?, end, record })
    }

    /// The part of it from `first` to `last`, which it holds.
    pub fn cut(&self, first: u64, last: u64) -> Run {
        let (skip, bytes) = (first - self.begin, last - first + 1);
        let value = match self.record.slices.is_empty() {
            true => self.record.value.slice(skip as usize..(skip + bytes) as usize),
            false => Bytes::new(),
        };
        Run { end: Some(last), value, slices: cut_slices(&self.record.slices, skip, bytes) }
    }
}

/// `bytes` bytes of these slices, from `skip` on.
pub fn cut_slices(slices: &[ExtentSlice], mut skip: u64, mut bytes: u64) -> Vec<ExtentSlice> {
    let mut parts = Vec::new();
    for slice in slices {
        let from = skip.min(slice.bytes);
        let taken = (slice.bytes - from).min(bytes);
        (skip, bytes) = (skip - from, bytes - taken);
        if taken > 0 {
            parts.push(ExtentSlice { extent: slice.extent, offset: slice.offset + from, bytes: taken });
        }
    }
    parts
}

/// The runs that lie in part or whole between `first` and `last`, of a command.
pub async fn overlapping(reader: &Reader<'_>, place: &Place, first: u64, last: u64) -> Result<Vec<Placed>, Fault> {
    let mut found = Vec::new();
    let mut start = Bound::Included(first);
    loop {
        let page = reader.scan(place.body, &place.from(start), RUNS_AT_ONCE).await?;
        let is_last = page.len() < RUNS_AT_ONCE;
        for (key, record) in page {
            let mut run = Placed::new(place, &key, record)?;
            if run.begin > last {
                return Ok(found);
            }
            start = Bound::Excluded(run.end);
            if first <= run.begin && run.end <= last {
                // Nothing of it will be left, and nothing of it needs to be held.
                (run.record.value, run.record.slices) = (Bytes::new(), Vec::new());
            }
            found.push(run);
        }
        if is_last {
            return Ok(found);
        }
    }
}

/// Takes what is between `first` and `last` out of the runs that overlap it.
pub fn carve(place: &Place, overlapping: &[Placed], first: u64, last: u64) -> Vec<Write> {
    let mut writes = Vec::new();
    for run in overlapping {
        if run.begin < first {
            writes.push(run.cut(run.begin, first - 1).put(place));
        }
        match run.end > last {
            true => writes.push(run.cut(last + 1, run.end).put(place)),
            false => writes.push(Write::Delete { family: place.body, key: place.run_key(run.end) }),
        }
    }
    writes
}

/// What is left to read of a body, run by run.
pub struct Rest {
    place: Place,
    /// The next offset.
    next: u64,
    last: u64,
    after: Bound<u64>,
    has_holes: bool,
    /// Whose body it is.
    etag: ETag,
}

impl Rest {
    /// `bytes` bytes from `first`, more than none, of a body in runs.
    pub fn new(place: Place, head: &BlobHead, first: u64, bytes: u64) -> Rest {
        let has_holes = head.kind.is_page();
        let (last, after) = (first + bytes - 1, Bound::Included(first));
        Rest { place, next: first, last, after, has_holes, etag: head.etag }
    }

    /// Every write of a body moves the ETag; a past state never changes, but may go.
    async fn is_in(&self, view: &dyn View) -> Result<bool, Fault> {
        if self.place != Place::CURRENT {
            return Ok(view.get(container::PAST, &self.place.prefix).await?.is_some());
        }
        Ok(load_head(&Reader::committed(view)).await?.is_some_and(|head| head.etag == self.etag))
    }

    async fn next_parts(&mut self, view: &dyn View) -> Result<Vec<Part>, Fault> {
        let page = view.scan(self.place.body, &self.place.from(self.after), RUNS_AT_ONCE).await?;
        let is_last = page.len() < RUNS_AT_ONCE;
        let mut parts = Vec::new();
        for (key, record) in page {
            let run = Placed::new(&self.place, &key, record)?;
            if run.begin > self.last {
                break;
            }
            self.hole_before(run.begin, &mut parts)?;
            let last = run.end.min(self.last);
            let (skip, bytes) = (self.next - run.begin, last - self.next + 1);
            parts.push(stored_part(run.record, skip, bytes));
            (self.next, self.after) = (last + 1, Bound::Excluded(run.end));
            if self.is_empty() {
                return Ok(parts);
            }
        }
        if is_last || parts.is_empty() {
            self.hole_before(self.last + 1, &mut parts)?;
        }
        Ok(parts)
    }

    fn hole_before(&mut self, begin: u64, parts: &mut Vec<Part>) -> Result<(), Fault> {
        if begin > self.next {
            if !self.has_holes {
                return Err(corrupt("a body with a hole", b""));
            }
            parts.push(Part::Zeros(begin - self.next));
            self.next = begin;
        }
        Ok(())
    }
}

impl Runs for Rest {
    fn is_empty(&self) -> bool {
        self.next > self.last
    }

    fn parts<'a>(&'a mut self, view: &'a dyn View) -> BoxFuture<'a, Result<Vec<Part>, Fault>> {
        Box::pin(self.next_parts(view))
    }

    fn resume<'a>(&'a mut self, view: &'a dyn View) -> BoxFuture<'a, Result<bool, Fault>> {
        Box::pin(self.is_in(view))
    }
}

/// A body that is one record.
pub async fn single(view: &dyn View, place: &Place, skip: u64, bytes: u64) -> Result<Part, Fault> {
    let record = view.get(place.body, &place.prefix).await?;
    Ok(stored_part(record.ok_or_else(|| corrupt("a body that is not there", b""))?, skip, bytes))
}

fn stored_part(record: Record, skip: u64, bytes: u64) -> Part {
    Part::Stored { value: record.value, slices: record.slices, skip, bytes }
}

/// How many bytes of a body a record holds.
pub fn stored_bytes(record: &Record) -> u64 {
    held_bytes(&record.value, &record.slices)
}

/// The same of what is in one: its own bytes, or slices.
pub fn held_bytes(value: &[u8], slices: &[ExtentSlice]) -> u64 {
    match slices.is_empty() {
        true => value.len() as u64,
        false => slices.iter().map(|slice| slice.bytes).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{Extent, Revision};

    fn key(last: u64) -> Bytes {
        Place::CURRENT.run_key(last)
    }

    #[test]
    fn slices_become_runs_that_end_where_their_keys_say() {
        let slice = |id, bytes| ExtentSlice::whole(Extent { id, bytes });
        assert_eq!(runs(&[]), []);
        assert_eq!(runs(&[slice(1, 10), slice(2, 5)]).iter().map(|run| run.end).collect::<Vec<_>>(), [Some(14)]);
        let many: Vec<ExtentSlice> = (0..600).map(|id| slice(id, 2)).collect();
        let many = runs(&many);
        assert_eq!(many.iter().map(|run| run.end).collect::<Vec<_>>(), [511, 1023, 1199].map(Some));
        assert_eq!(many.iter().map(|run| run.slices.len()).sum::<usize>(), 600);
    }

    fn shown(writes: Vec<Write>) -> Vec<(bool, Bytes, Bytes)> {
        let shown = writes.into_iter().map(|write| match write {
            Write::Put { key, value, .. } => (true, key, value),
            Write::Delete { key, .. } => (false, key, Bytes::new()),
        });
        shown.collect()
    }

    #[test]
    fn replacing_writes_each_key_once() {
        let run = |last| Run { end: Some(last), value: Bytes::from_static(b"x"), slices: Vec::new() };
        let old = Stored { records: vec![(Bytes::new(), None), (key(1), None), (key(2), None)] };
        let keys: Vec<(bool, Bytes)> = shown(old.replace(&Place::CURRENT, vec![run(2), run(3)]))
            .into_iter()
            .map(|(is_put, key, _)| (is_put, key))
            .collect();
        assert_eq!(keys, [(false, Bytes::new()), (false, key(1)), (true, key(2)), (true, key(3))]);
    }

    /// Runs of text, each as where it begins and what it holds.
    fn placed(runs: &[(u64, &'static str)]) -> Vec<Placed> {
        let run = |(begin, text): &(u64, &'static str)| {
            let record =
                Record { revision: Revision(1), value: Bytes::from_static(text.as_bytes()), slices: Vec::new() };
            Placed { begin: *begin, end: begin + text.len() as u64 - 1, record }
        };
        runs.iter().map(run).collect()
    }

    #[test]
    fn carving_keeps_what_is_outside() {
        let text = |text: &'static str| Bytes::from_static(text.as_bytes());
        let none = Bytes::new();
        for (runs, first, last, expected) in [
            (vec![], 2, 3, vec![]),
            (vec![(0, "abcd")], 0, 3, vec![(false, key(3), none.clone())]),
            (vec![(0, "abcd")], 1, 2, vec![(true, key(0), text("a")), (true, key(3), text("d"))]),
            (vec![(0, "abcd")], 2, 9, vec![(true, key(1), text("ab")), (false, key(3), none.clone())]),
            (vec![(4, "abcd")], 0, 5, vec![(true, key(7), text("cd"))]),
            (
                vec![(0, "ab"), (2, "cd"), (6, "ef")],
                1,
                6,
                vec![
                    (true, key(0), text("a")),
                    (false, key(1), none.clone()),
                    (false, key(3), none.clone()),
                    (true, key(7), text("f")),
                ],
            ),
        ] {
            let writes = shown(carve(&Place::CURRENT, &placed(&runs), first, last));
            assert_eq!(writes, expected, "{runs:?} without {first} to {last}");
        }
    }

    #[test]
    fn slices_are_cut() {
        let slice = |id, offset, bytes| ExtentSlice { extent: Extent { id, bytes: 100 }, offset, bytes };
        let slices = [slice(1, 0, 10), slice(2, 7, 20)];
        assert_eq!(cut_slices(&slices, 0, 30), slices);
        assert_eq!(cut_slices(&slices, 5, 10), [slice(1, 5, 5), slice(2, 7, 5)]);
        assert_eq!(cut_slices(&slices, 10, 1), [slice(2, 7, 1)]);
        assert_eq!(cut_slices(&slices, 29, 9), [slice(2, 26, 1)]);
        assert_eq!(cut_slices(&slices, 3, 0), []);
    }
}
