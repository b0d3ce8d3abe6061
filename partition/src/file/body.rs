//! The bytes of files: runs where something was written, zeros everywhere else.
//!
//! A file's content has an id of its own, so that replacing all of it is one small write: the old content is orphaned and swept later.
//! Each run is a record under the content's id and the offset of its last byte, so the run that holds an offset is the first one found
//! from that offset on. A write cuts its range out of the runs it meets and adds its own; a small one lies in the record itself.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use engine::{BoxFuture, ExtentSlice, Fault, Record, View};

use super::share::sees;
use super::tree::find_node;
use super::versions::{At, Edit, Versioned, Walk};
use crate::blob::body::{RUN_SLICES_MAX, cut_slices, held_bytes};
use crate::content::{Content, Part, Runs};
use crate::etag::ETag;
use crate::execute::Reader;
use crate::key::share;
use crate::record::{FileId, Node, NodeKind, ShareState, corrupt};

/// Runs asked of the engine at once: few at first, for a small range of a file in many small runs meets one or two of them.
const RUNS_AT_FIRST: usize = 2;
const RUNS_AT_ONCE: usize = 64;

fn more(at_once: usize) -> usize {
    (at_once * 2).min(RUNS_AT_ONCE)
}

/// Bytes that were written, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    pub begin: u64,
    /// The offset of its last byte.
    pub end: u64,
    /// The generation its bytes were written in; that of the record is later if it was cut since.
    pub written: u64,
    /// Its bytes, unless they are in extents.
    pub bytes: Bytes,
    pub slices: Vec<ExtentSlice>,
}

/// What is known of a content as a whole.
pub fn body_key(body: u64) -> Bytes {
    Bytes::copy_from_slice(&body.to_be_bytes())
}

fn run_key(body: u64, last: u64) -> Bytes {
    let mut key = BytesMut::with_capacity(16);
    key.put_u64(body);
    key.put_u64(last);
    key.freeze()
}

impl Run {
    pub(crate) fn read(key: &[u8], stored: &Versioned) -> Result<Run, Fault> {
        let bad = || corrupt("a run of a file", key);
        let end = key.get(8..).and_then(|end| end.try_into().ok()).map(u64::from_be_bytes).ok_or_else(bad)?;
        let mut bytes = stored.value.clone();
        let written = bytes.try_get_u64().map_err(|_| bad())?;
        let count = held_bytes(&bytes, &stored.slices);
        let begin = (end + 1).checked_sub(count).filter(|_| count > 0).ok_or_else(bad)?;
        Ok(Run { begin, end, written, bytes, slices: stored.slices.clone() })
    }

    fn value(&self) -> Bytes {
        let mut value = BytesMut::with_capacity(8 + self.bytes.len());
        value.put_u64(self.written);
        value.put_slice(&self.bytes);
        value.freeze()
    }

    /// The part of it from `first` to `last`, which it holds.
    fn cut(&self, first: u64, last: u64) -> Run {
        let (skip, count) = (first - self.begin, last - first + 1);
        let bytes = match self.slices.is_empty() {
            true => self.bytes.slice(skip as usize..(skip + count) as usize),
            false => Bytes::new(),
        };
        Run { begin: first, end: last, written: self.written, bytes, slices: cut_slices(&self.slices, skip, count) }
    }
}

/// A run that a command meets, as it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Met {
    run: Run,
    stored: Versioned,
}

impl Met {
    fn read(key: &[u8], record: Record) -> Result<Met, Fault> {
        let stored = Versioned::read(record)?;
        Ok(Met { run: Run::read(key, &stored)?, stored })
    }

    /// If nothing of it will be left when the range is cut out, nothing of it needs to be held.
    fn without_what_goes(mut self, state: &ShareState, first: u64, last: u64) -> Met {
        if first <= self.run.begin && self.run.end <= last && !state.is_seen_since(self.stored.since) {
            (self.run.bytes, self.run.slices) = (Bytes::new(), Vec::new());
            (self.stored.value, self.stored.slices) = (Bytes::new(), Vec::new());
        }
        self
    }
}

/// The runs that lie in part or whole between `first` and `last`, of a command.
pub async fn overlapping(
    reader: &Reader<'_>,
    state: &ShareState,
    body: u64,
    first: u64,
    last: u64,
) -> Result<Vec<Met>, Fault> {
    // What is written over is mostly what was written before, piece by piece: the run that ends where the range does, and holds all
    // of it, is the only one there. To get it costs a fraction of looking for it.
    let end = run_key(body, last);
    if let Some(record) = reader.get(share::RUN, &end).await? {
        let met = Met::read(&end, record)?;
        if met.run.begin <= first {
            return Ok(vec![met.without_what_goes(state, first, last)]);
        }
    }
    let mut found = Vec::new();
    let mut range = all_runs(body);
    range.start = std::ops::Bound::Included(run_key(body, first));
    let mut at_once = RUNS_AT_FIRST;
    loop {
        let page = reader.scan(share::RUN, &range, at_once).await?;
        let is_last = page.len() < at_once;
        at_once = more(at_once);
        for (key, record) in page {
            let met = Met::read(&key, record)?;
            if met.run.begin > last {
                return Ok(found);
            }
            range.start = std::ops::Bound::Excluded(key);
            found.push(met.without_what_goes(state, first, last));
        }
        if is_last {
            return Ok(found);
        }
    }
}

/// All runs of a file, if they are few; `None` if they are many, or there is no file.
pub async fn load_few(reader: &Reader<'_>, node: Option<&Node>) -> Result<Option<Vec<Met>>, Fault> {
    let Some(NodeKind::File { body, .. }) = node.map(|node| &node.kind) else { return Ok(None) };
    let page = reader.scan(share::RUN, &all_runs(*body), RUNS_AT_ONCE).await?;
    if page.len() == RUNS_AT_ONCE {
        return Ok(None);
    }
    let met = page.into_iter().map(|(key, record)| Met::read(&key, record));
    met.collect::<Result<Vec<_>, Fault>>().map(Some)
}

/// What lies behind a new end of a file: all of it, if it is few, of one that is to have nothing.
pub async fn beyond(reader: &Reader<'_>, state: &ShareState, node: &Node, new: u64) -> Result<Option<Vec<Met>>, Fault> {
    match node.kind {
        NodeKind::File { .. } if new == 0 => load_few(reader, Some(node)).await,
        NodeKind::File { bytes, body } if new < bytes => {
            Ok(Some(overlapping(reader, state, body, new, bytes - 1).await?))
        }
        _ => Ok(None),
    }
}

fn all_runs(body: u64) -> engine::KeyRange {
    crate::key::beginning_with(&body.to_be_bytes())
}

impl Edit<'_> {
    /// Takes what is between `first` and `last` out of the runs that overlap it.
    pub fn carve(&mut self, body: u64, overlapping: &[Met], first: u64, last: u64) {
        for Met { run, stored } in overlapping {
            let key = run_key(body, run.end);
            if run.end > last {
                let rest = run.cut(last + 1, run.end);
                self.put(share::RUN, key, Some(stored), rest.value(), rest.slices);
            } else {
                self.delete(share::RUN, key, stored);
            }
            if run.begin < first {
                let rest = run.cut(run.begin, first - 1);
                self.put(share::RUN, run_key(body, rest.end), None, rest.value(), rest.slices);
            }
        }
    }

    /// Takes the content of a file away: its runs, if they are few and at hand; otherwise they are left to be swept.
    pub fn drop_content(&mut self, node: &Node, runs: Option<Vec<Met>>) {
        let NodeKind::File { body, .. } = node.kind else { return };
        match runs {
            Some(runs) => runs.iter().for_each(|met| self.delete(share::RUN, run_key(body, met.run.end), &met.stored)),
            None => self.orphan(body),
        }
    }

    /// Gives a file another size; `beyond` is what lies behind it.
    pub fn resize(&mut self, node: &mut Node, new: u64, beyond: Option<Vec<Met>>, tick: u64) {
        let NodeKind::File { bytes, body } = node.kind else { return };
        let body = match beyond {
            // Nothing is left: content of its own begins, and the old one goes as that of a deleted file does.
            beyond if new == 0 => {
                self.drop_content(node, beyond);
                tick
            }
            Some(cut) => {
                self.carve(body, &cut, new, bytes - 1);
                body
            }
            None => body,
        };
        node.kind = NodeKind::File { bytes: new, body };
    }

    /// Leaves content that no file has to be swept.
    pub fn orphan(&mut self, body: u64) {
        let generation = Bytes::copy_from_slice(&self.generation().to_be_bytes());
        self.put_plain(share::ORPHAN, body_key(body), generation);
    }

    /// Writes content from `first` on, where nothing is: one run, or several if it is in many extents.
    pub fn write_content(&mut self, body: u64, mut first: u64, content: &Content) {
        let (bytes, slices) = content.stored();
        if slices.is_empty() && !bytes.is_empty() {
            self.write_run(body, first, bytes, Vec::new());
        }
        for slices in slices.chunks(RUN_SLICES_MAX) {
            self.write_run(body, first, Bytes::new(), slices.to_vec());
            first += slices.iter().map(|slice| slice.bytes).sum::<u64>();
        }
    }

    fn write_run(&mut self, body: u64, begin: u64, bytes: Bytes, slices: Vec<ExtentSlice>) {
        let end = begin + held_bytes(&bytes, &slices) - 1;
        let run = Run { begin, end, written: self.generation(), bytes, slices };
        self.put(share::RUN, run_key(body, end), None, run.value(), run.slices);
    }
}

/// Runs in order, as they are or were.
pub struct RunWalk {
    walk: Walk,
    last: u64,
    at_once: usize,
}

impl RunWalk {
    /// Those that lie in part or whole between `first` and `last`.
    pub fn new(at: At, body: u64, first: u64, last: u64) -> RunWalk {
        let walk = Walk::new(at, share::RUN, run_key(body, first), &body.to_be_bytes());
        RunWalk { walk, last, at_once: RUNS_AT_FIRST }
    }

    pub async fn next(&mut self, view: &dyn View) -> Result<Option<Run>, Fault> {
        let next = self.walk.next(view, self.at_once).await?;
        self.at_once = more(self.at_once);
        let Some((key, stored)) = next else { return Ok(None) };
        let run = Run::read(&key, &stored)?;
        Ok(Some(run).filter(|run| run.begin <= self.last))
    }
}

/// The content of a file, as it is or was.
#[derive(Clone, Copy, Debug)]
pub struct Body {
    at: At,
    file: FileId,
    etag: ETag,
    id: u64,
}

impl Body {
    /// Of a file, and how many bytes it has; `None` for a directory.
    pub fn of(at: At, node: &Node) -> Option<(Body, u64)> {
        let NodeKind::File { bytes, body: id } = node.kind else { return None };
        Some((Body { at, file: node.id, etag: node.etag, id }, bytes))
    }

    /// The runs that lie in part or whole between `first` and `last`.
    pub fn runs(&self, first: u64, last: u64) -> RunWalk {
        RunWalk::new(self.at, self.id, first, last)
    }

    /// Every write moves the ETag; what a snapshot sees stays for as long as the snapshot.
    async fn is_in(&self, view: &dyn View) -> Result<bool, Fault> {
        match self.at {
            At::Generation(generation) => sees(view, generation).await,
            At::Now => {
                let found = find_node(&Reader::committed(view), self.file).await?;
                Ok(found.is_some_and(|(node, _)| node.etag == self.etag))
            }
        }
    }
}

/// What is left to read of a file.
pub struct Rest {
    of: Body,
    walk: RunWalk,
    /// The next offset.
    next: u64,
    /// Behind the last one.
    end: u64,
}

impl Rest {
    /// `count` bytes from `first`.
    pub fn new(of: Body, first: u64, count: u64) -> Rest {
        let end = first + count;
        Rest { of, walk: of.runs(first, end.saturating_sub(1)), next: first, end }
    }

    async fn next_parts(&mut self, view: &dyn View) -> Result<Vec<Part>, Fault> {
        let mut parts = Vec::new();
        while parts.len() < RUNS_AT_ONCE && self.next < self.end {
            let run = match self.walk.next(view).await {
                Ok(Some(run)) => run,
                Ok(None) => {
                    self.hole_before(self.end, &mut parts);
                    break;
                }
                Err(Fault::Moved) if !parts.is_empty() => break,
                Err(fault) => return Err(fault),
            };
            self.hole_before(run.begin, &mut parts);
            let end = (run.end + 1).min(self.end);
            let (skip, bytes) = (self.next - run.begin, end - self.next);
            parts.push(Part::Stored { value: run.bytes, slices: run.slices, skip, bytes });
            self.next = end;
        }
        Ok(parts)
    }

    fn hole_before(&mut self, begin: u64, parts: &mut Vec<Part>) {
        if begin > self.next {
            parts.push(Part::Zeros(begin - self.next));
            self.next = begin;
        }
    }
}

impl Runs for Rest {
    fn is_empty(&self) -> bool {
        self.next >= self.end
    }

    fn parts<'a>(&'a mut self, view: &'a dyn View) -> BoxFuture<'a, Result<Vec<Part>, Fault>> {
        Box::pin(self.next_parts(view))
    }

    /// What was read ahead may lie elsewhere in the new view: it is read again.
    fn resume<'a>(&'a mut self, view: &'a dyn View) -> BoxFuture<'a, Result<bool, Fault>> {
        self.walk = self.of.runs(self.next, self.end.saturating_sub(1));
        Box::pin(async move { self.of.is_in(view).await })
    }
}
