//! How a share's snapshots cost no data: records that know in which generation they were written.
//!
//! A tree counts its generations: a snapshot sees all of them up to the newest, and begins the next. Every name, file and run of bytes
//! carries the generation it was written in. When it is overwritten or deleted in a later one, and a snapshot sees it, it moves to a PAST
//! family first, under the last generation it was true in. So what is there now is always where it was, and taking a snapshot is one
//! small write.
//!
//! What a record was in a generation: the first of its past states that was true that long, if it was there by then; otherwise what it
//! is now, if it was there by then; otherwise nothing.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::{BufMut, Bytes, BytesMut};
use engine::{ExtentSlice, Family, Fault, KeyRange, Record, View, Write};

use crate::execute::Reader;
use crate::key::share;
use crate::record::{ShareState, corrupt};

/// Which state of a tree a request is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    Now,
    /// As a snapshot saw it.
    Generation(u64),
}

/// A record that knows when it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Versioned {
    /// The generation it was written in.
    pub since: u64,
    pub value: Bytes,
    pub slices: Vec<ExtentSlice>,
}

impl Versioned {
    pub fn read(record: Record) -> Result<Versioned, Fault> {
        let mut value = record.value;
        if value.len() < 8 {
            return Err(corrupt("a record of a share", &value));
        }
        let since = value.split_to(8);
        let since = since.as_ref().try_into().map_err(|_| corrupt("a generation", &since))?;
        Ok(Versioned { since: u64::from_be_bytes(since), value, slices: record.slices })
    }

    fn into_write(self, family: Family, key: Bytes) -> Write {
        let mut value = BytesMut::with_capacity(8 + self.value.len());
        value.put_u64(self.since);
        value.put_slice(&self.value);
        Write::Put { family, key, value: value.freeze(), slices: self.slices }
    }
}

/// Where the past of a family is.
fn past(family: Family) -> Family {
    match family {
        share::ENTRY => share::PAST_ENTRY,
        share::NODE => share::PAST_NODE,
        _ => share::PAST_RUN,
    }
}

/// No key has a zero that another key of its family goes on behind, so what a record was lies between this and the next key.
fn past_key(key: &[u8], until: u64) -> Bytes {
    let mut past = BytesMut::with_capacity(key.len() + 9);
    past.put_slice(key);
    past.put_u8(0);
    past.put_u64(until);
    past.freeze()
}

/// The key it had, and the last generation it was true in.
pub fn split_past_key(key: &Bytes) -> Result<(Bytes, u64), Fault> {
    let bad = || corrupt("the key of something past", key);
    let at = key.len().checked_sub(9).ok_or_else(bad)?;
    let until = key[at + 1..].try_into().map_err(|_| bad())?;
    Ok((key.slice(..at), u64::from_be_bytes(until)))
}

impl ShareState {
    /// Does a snapshot see what was true from `since` to `until`?
    pub fn is_seen(&self, since: u64, until: u64) -> bool {
        self.snapshots.iter().any(|snapshot| (since..=until).contains(&snapshot.generation))
    }

    /// The same of something that is still true.
    pub fn is_seen_since(&self, since: u64) -> bool {
        since < self.generation && self.is_seen(since, self.generation - 1)
    }
}

/// The writes of one command on a tree: what they replace stays for the snapshots that see it. A later write of a key stands for an
/// earlier one.
pub struct Edit<'a> {
    state: &'a ShareState,
    writes: BTreeMap<(Family, Bytes), Write>,
}

impl<'a> Edit<'a> {
    pub fn new(state: &'a ShareState) -> Self {
        Edit { state, writes: BTreeMap::new() }
    }

    /// What is written belongs to this one.
    pub fn generation(&self) -> u64 {
        self.state.generation
    }

    /// Writes a record where `old` was.
    pub fn put(&mut self, family: Family, key: Bytes, old: Option<&Versioned>, value: Bytes, slices: Vec<ExtentSlice>) {
        if let Some(old) = old {
            self.keep(family, &key, old);
        }
        self.write(Versioned { since: self.state.generation, value, slices }.into_write(family, key));
    }

    pub fn delete(&mut self, family: Family, key: Bytes, old: &Versioned) {
        self.keep(family, &key, old);
        self.write(Write::Delete { family, key });
    }

    /// Writes a record that has no past.
    pub fn put_plain(&mut self, family: Family, key: Bytes, value: Bytes) {
        self.write(Write::Put { family, key, value, slices: Vec::new() });
    }

    pub fn delete_plain(&mut self, family: Family, key: Bytes) {
        self.write(Write::Delete { family, key });
    }

    pub fn finish(self) -> Vec<Write> {
        self.writes.into_values().collect()
    }

    fn keep(&mut self, family: Family, key: &Bytes, old: &Versioned) {
        if self.state.is_seen_since(old.since) {
            let (family, key) = (past(family), past_key(key, self.state.generation - 1));
            self.write(old.clone().into_write(family, key));
        }
    }

    fn write(&mut self, write: Write) {
        let (Write::Put { family, key, .. } | Write::Delete { family, key }) = &write;
        self.writes.insert((*family, key.clone()), write);
    }
}

/// The record as a command finds it now.
pub async fn get(reader: &Reader<'_>, family: Family, key: &[u8]) -> Result<Option<Versioned>, Fault> {
    reader.get(family, key).await?.map(Versioned::read).transpose()
}

/// The record as it is, or was.
pub async fn get_at(view: &dyn View, at: At, family: Family, key: &[u8]) -> Result<Option<Versioned>, Fault> {
    if let At::Generation(generation) = at {
        let range = KeyRange {
            start: Bound::Included(past_key(key, generation)),
            end: Bound::Included(past_key(key, u64::MAX)),
        };
        if let Some((_, record)) = view.scan(past(family), &range, 1).await?.pop() {
            let then = Versioned::read(record)?;
            return Ok(Some(then).filter(|then| then.since <= generation));
        }
    }
    let now = view.get(family, key).await?.map(Versioned::read).transpose()?;
    Ok(now.filter(|now| at.sees(now.since)))
}

impl At {
    /// Was what is there now, and was written in this generation, there then?
    pub fn sees(self, since: u64) -> bool {
        match self {
            At::Now => true,
            At::Generation(generation) => since <= generation,
        }
    }
}

/// Records in the order of their keys as they are, or were.
pub struct Walk {
    at: At,
    now: Stream,
    then: Option<Stream>,
}

/// One of the two families, a page at a time.
struct Stream {
    family: Family,
    range: KeyRange,
    page: std::vec::IntoIter<(Bytes, Record)>,
    is_over: bool,
}

/// Records asked of the engine at once.
const RECORDS_AT_ONCE: usize = 256;

impl Stream {
    fn new(family: Family, range: KeyRange) -> Stream {
        Stream { family, range, page: Vec::new().into_iter(), is_over: false }
    }

    /// The next one, which stays the next.
    async fn peek(&mut self, view: &dyn View, records_max: usize) -> Result<Option<&(Bytes, Record)>, Fault> {
        if self.page.as_slice().is_empty() && !self.is_over {
            let page = view.scan(self.family, &self.range, records_max).await?;
            self.is_over = page.len() < records_max;
            if let Some((key, _)) = page.last() {
                self.range.start = Bound::Excluded(key.clone());
            }
            self.page = page.into_iter();
        }
        Ok(self.page.as_slice().first())
    }
}

impl Walk {
    /// From the first key that is `start` or later, to the last that begins with `prefix`.
    pub fn new(at: At, family: Family, start: Bytes, prefix: &[u8]) -> Walk {
        let end = crate::key::after_prefix(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        let range = KeyRange { start: Bound::Included(start), end };
        let then = matches!(at, At::Generation(_)).then(|| Stream::new(past(family), range.clone()));
        Walk { at, now: Stream::new(family, range), then }
    }

    /// The next record; `records_max` bounds what is asked of the engine at once.
    pub async fn next(&mut self, view: &dyn View, records_max: usize) -> Result<Option<(Bytes, Versioned)>, Fault> {
        let records_max = records_max.clamp(1, RECORDS_AT_ONCE);
        loop {
            let then = match &mut self.then {
                Some(then) => then.peek(view, records_max).await?.map(|(key, _)| split_past_key(key)).transpose()?,
                None => None,
            };
            let now = self.now.peek(view, records_max).await?.map(|(key, _)| key.clone());
            match (now, then) {
                (None, None) => return Ok(None),
                (Some(now), then) if then.as_ref().is_none_or(|(then, _)| now < *then) => {
                    let Some((key, record)) = self.now.page.next() else { return Ok(None) };
                    let record = Versioned::read(record)?;
                    if self.at.sees(record.since) {
                        return Ok(Some((key, record)));
                    }
                }
                (_, Some((key, until))) => {
                    let taken = self.then.as_mut().and_then(|then| then.page.next());
                    let Some((_, record)) = taken else { return Ok(None) };
                    let record = Versioned::read(record)?;
                    if until_sees(self.at, record.since, until) {
                        return Ok(Some((key, record)));
                    }
                }
                (Some(_), None) => return Ok(None),
            }
        }
    }
}

/// Was it true in the generation that is asked for?
fn until_sees(at: At, since: u64, until: u64) -> bool {
    matches!(at, At::Generation(generation) if (since..=until).contains(&generation))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::share::SeenBy;
    use env::Timestamp;

    fn state(generation: u64, seen: &[u64]) -> ShareState {
        let snapshot = |generation: &u64| SeenBy { generation: *generation, taken: Timestamp::from_ticks(1) };
        ShareState { generation, snapshots: seen.iter().map(snapshot).collect(), ..ShareState::default() }
    }

    #[test]
    fn what_a_snapshot_sees_is_kept_and_nothing_else() {
        for (generation, seen, since, expected) in [
            (0, &[][..], 0, false),
            (1, &[0], 0, true),
            (1, &[0], 1, false),
            (2, &[0], 1, false),
            (3, &[0, 1], 1, true),
            (3, &[], 0, false),
        ] {
            let state = state(generation, seen);
            assert_eq!(state.is_seen_since(since), expected, "{generation} {seen:?} {since}");
            let old = Versioned { since, value: Bytes::from_static(b"old"), slices: Vec::new() };
            let mut edit = Edit::new(&state);
            edit.delete(share::NODE, Bytes::from_static(b"k"), &old);
            assert_eq!(edit.finish().len(), 1 + usize::from(expected));
        }
    }

    #[test]
    fn each_key_is_written_once() {
        let state = state(0, &[]);
        let mut edit = Edit::new(&state);
        let old = Versioned { since: 0, value: Bytes::new(), slices: Vec::new() };
        edit.delete(share::RUN, Bytes::from_static(b"k"), &old);
        edit.put(share::RUN, Bytes::from_static(b"k"), None, Bytes::from_static(b"new"), Vec::new());
        assert!(matches!(edit.finish().as_slice(), [Write::Put { .. }]));
    }
}
