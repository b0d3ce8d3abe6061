//! Page blobs: written in pages of 512 bytes, anywhere within their size.
//!
//! What was written lies in runs; where there is none there are zeros, so size costs nothing. A write cuts its range out of the runs that
//! overlap it and adds its own run, and touches nothing else. Pages are always in extents: a run is a small record, and a snapshot or a
//! past state names the same extents.

use std::ops::Bound;

use contract::names::BlobName;
use contract::{ErrorCode, Refusal};
use engine::{ExtentSlice, Fault, GroupId, KeyRange, PartitionId, View, Write};
use env::Timestamp;

use super::body::{self, Place, Placed, Run};
use super::read::Range;
use super::state::{State, Which, load_head, load_state, put_head};
use crate::checks::Expectation;
use crate::content::Content;
use crate::etag::ETag;
use crate::execute::{Command, Failure, Moment, Reader, Shell};
use crate::key;
use crate::lease::after_write;
use crate::record::{BlobHead, BlobKind, ContentProperties};

pub const PAGE_BYTES: u64 = 512;
/// Sequence numbers fit into 63 bits.
pub const SEQUENCE_MAX: u64 = i64::MAX as u64;

/// Pages from the first byte to the last: aligned, and not empty.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Pages {
    pub first: u64,
    pub last: u64,
}

impl Pages {
    pub fn new(first: u64, last: u64) -> Option<Pages> {
        let is_aligned = first.is_multiple_of(PAGE_BYTES) && last.checked_add(1)?.is_multiple_of(PAGE_BYTES);
        (is_aligned && first <= last).then_some(Pages { first, last })
    }

    pub fn bytes(self) -> u64 {
        self.last - self.first + 1
    }
}

/// What a write asks of the sequence number that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SequenceConditions {
    pub at_most: Option<u64>,
    pub below: Option<u64>,
    pub equal: Option<u64>,
}

impl SequenceConditions {
    fn hold(&self, sequence: u64) -> bool {
        self.at_most.is_none_or(|number| sequence <= number)
            && self.below.is_none_or(|number| sequence < number)
            && self.equal.is_none_or(|number| sequence == number)
    }
}

fn must_be_page(head: Option<&BlobHead>) -> Result<(&BlobHead, u64), Refusal> {
    let head = head.ok_or(ErrorCode::BlobNotFound)?;
    match head.kind {
        BlobKind::Page { sequence, .. } => Ok((head, sequence)),
        _ => Err(ErrorCode::InvalidBlobType.into()),
    }
}

/// Put Page and Clear Pages.
pub struct PutPages {
    partition: PartitionId,
    expectation: Expectation,
    sequence: SequenceConditions,
    pages: Pages,
    /// `None` until the body has arrived, and to clear.
    pub content: Option<Content>,
}

impl PutPages {
    pub fn new(
        group: &GroupId,
        blob: &BlobName,
        expectation: Expectation,
        sequence: SequenceConditions,
        pages: Pages,
    ) -> Self {
        PutPages { partition: key::blob_partition(group, blob), expectation, sequence, pages, content: None }
    }
}

/// A page blob and the runs that a change of it meets.
pub struct AroundPages {
    head: Option<BlobHead>,
    runs: Vec<Placed>,
}

impl Command for PutPages {
    type Records = AroundPages;
    type Outcome = BlobHead;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<AroundPages, Fault> {
        let head = load_head(reader).await?;
        let runs = match &head {
            Some(head) if head.kind.is_page() => {
                body::overlapping(reader, &Place::CURRENT, self.pages.first, self.pages.last).await?
            }
            _ => Vec::new(),
        };
        Ok(AroundPages { head, runs })
    }

    fn check(&self, around: &AroundPages, now: Timestamp) -> Result<(), Refusal> {
        self.expectation.judge(around.head.as_ref().map(BlobHead::current), now)?;
        let (head, sequence) = must_be_page(around.head.as_ref())?;
        if !self.sequence.hold(sequence) {
            let there = format!("The blob's sequence number is {sequence}, which is not what the request asks for.");
            return Err(ErrorCode::SequenceNumberConditionNotMet.because(there));
        }
        if self.pages.last >= head.content_bytes {
            return Err(ErrorCode::InvalidPageRange.into());
        }
        Ok(())
    }

    fn decide(&self, around: AroundPages, moment: Moment) -> Result<(Vec<Write>, BlobHead), Refusal> {
        self.check(&around, moment.now)?;
        let mut head = around.head.ok_or(ErrorCode::BlobNotFound)?;
        let Pages { first, last } = self.pages;
        let mut writes = body::carve(&Place::CURRENT, &around.runs, first, last);
        if let Some(content) = &self.content {
            let put = Run::behind(first, self.pages.bytes(), content.stored()).put(&Place::CURRENT);
            writes.retain(|write| !is_of_same_key(write, &put));
            writes.push(put);
        }
        changed(&mut head, moment);
        writes.push(put_head(&head));
        Ok((writes, head))
    }
}

fn is_of_same_key(a: &Write, b: &Write) -> bool {
    let key = |write: &Write| match write {
        Write::Put { family, key, .. } | Write::Delete { family, key } => (*family, key.clone()),
    };
    key(a) == key(b)
}

fn changed(head: &mut BlobHead, moment: Moment) {
    head.etag = ETag::next(Some(head.etag), moment.tick);
    head.last_modified = moment.now;
    head.lease = after_write(head.lease.take(), moment.now);
}

/// What to do with the sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SequenceAction {
    /// The higher of the two.
    Max(u64),
    Update(u64),
    Increment,
}

impl SequenceAction {
    fn on(self, sequence: u64) -> Result<u64, Refusal> {
        match self {
            SequenceAction::Max(number) => Ok(sequence.max(number)),
            SequenceAction::Update(number) => Ok(number),
            SequenceAction::Increment if sequence == SEQUENCE_MAX => {
                Err(ErrorCode::SequenceNumberIncrementTooLarge.into())
            }
            SequenceAction::Increment => Ok(sequence + 1),
        }
    }
}

/// Set Blob Properties of a page blob: its size, its sequence number, and the rest.
pub struct ChangePageBlob {
    partition: PartitionId,
    expectation: Expectation,
    /// `None` leaves them as they are.
    properties: Option<ContentProperties>,
    bytes: Option<u64>,
    sequence: Option<SequenceAction>,
}

impl ChangePageBlob {
    pub fn new(
        group: &GroupId,
        blob: &BlobName,
        expectation: Expectation,
        properties: Option<ContentProperties>,
        bytes: Option<u64>,
        sequence: Option<SequenceAction>,
    ) -> Self {
        ChangePageBlob { partition: key::blob_partition(group, blob), expectation, properties, bytes, sequence }
    }
}

impl Command for ChangePageBlob {
    type Records = AroundPages;
    type Outcome = BlobHead;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<AroundPages, Fault> {
        let head = load_head(reader).await?;
        let runs = match (&head, self.bytes) {
            (Some(head), Some(bytes)) if head.kind.is_page() && bytes < head.content_bytes => {
                body::overlapping(reader, &Place::CURRENT, bytes, head.content_bytes - 1).await?
            }
            _ => Vec::new(),
        };
        Ok(AroundPages { head, runs })
    }

    fn check(&self, around: &AroundPages, now: Timestamp) -> Result<(), Refusal> {
        self.expectation.judge(around.head.as_ref().map(BlobHead::current), now)?;
        must_be_page(around.head.as_ref()).map(|_| ())
    }

    fn decide(&self, around: AroundPages, moment: Moment) -> Result<(Vec<Write>, BlobHead), Refusal> {
        self.check(&around, moment.now)?;
        let mut head = around.head.ok_or(ErrorCode::BlobNotFound)?;
        let BlobKind::Page { sequence, made } = head.kind else { return Err(ErrorCode::InvalidBlobType.into()) };
        let mut writes = Vec::new();
        if let Some(bytes) = self.bytes {
            if bytes < head.content_bytes {
                writes = body::carve(&Place::CURRENT, &around.runs, bytes, head.content_bytes - 1);
            }
            head.content_bytes = bytes;
        }
        if let Some(action) = self.sequence {
            head.kind = BlobKind::Page { sequence: action.on(sequence)?, made };
        }
        if let Some(properties) = &self.properties {
            head.properties = properties.clone();
        }
        head.copy = None;
        changed(&mut head, moment);
        writes.push(put_head(&head));
        Ok((writes, head))
    }
}

/// Pages of a list: written, or of a difference also cleared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listed {
    pub pages: Pages,
    pub is_clear: bool,
}

/// Get Page Ranges, of a whole blob or of what is different in it.
pub struct PageList {
    pub head: BlobHead,
    pub listed: Vec<Listed>,
    /// Where to go on.
    pub next: Option<u64>,
}

/// Against which state pages are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Since {
    pub snapshot: u64,
}

/// Which pages to list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageQuery {
    pub which: Which,
    pub range: Option<Range>,
    pub since: Option<Since>,
    /// The first offset, if a list is continued.
    pub from: u64,
    pub results_max: usize,
}

/// A piece of an extent at its place in the blob.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Piece {
    begin: u64,
    end: u64,
    slice: ExtentSlice,
}

/// Pages and Pages Diff (promise E2: both of one moment).
pub async fn list(
    shell: &Shell,
    group: &GroupId,
    blob: &BlobName,
    query: PageQuery,
    expectation: &Expectation,
) -> Result<PageList, Failure> {
    let partition = key::blob_partition(group, blob);
    shell.steadily(&partition, || list_in(shell, &partition, query, expectation)).await
}

async fn list_in(
    shell: &Shell,
    partition: &PartitionId,
    query: PageQuery,
    expectation: &Expectation,
) -> Result<PageList, Failure> {
    let view = shell.engine.view(partition).await?;
    let reader = Reader::committed(view.as_ref());
    let state = load_state(&reader, query.which).await?;
    expectation.judge(state.as_ref().map(|state| state.head.current()), shell.clock.now())?;
    let State { head, place, .. } = state.ok_or(ErrorCode::BlobNotFound)?;
    let BlobKind::Page { made, .. } = head.kind else { return Err(ErrorCode::InvalidBlobType.into()) };
    let before = match query.since {
        None => None,
        Some(since) => {
            if matches!(query.which, Which::Snapshot(target) if target < since.snapshot) {
                return Err(ErrorCode::PreviousSnapshotCannotBeNewer.into());
            }
            let before = load_state(&reader, Which::Snapshot(since.snapshot)).await?;
            let before = before.ok_or(ErrorCode::PreviousSnapshotNotFound)?;
            match before.head.kind {
                BlobKind::Page { made: before_made, .. } if before_made == made => Some(before.place),
                _ => return Err(ErrorCode::BlobOverwritten.into()),
            }
        }
    };
    let (first, last) = match query.range {
        None if head.content_bytes == 0 => return Ok(PageList { head: *head, listed: Vec::new(), next: None }),
        None => (0, head.content_bytes - 1),
        Some(range) => {
            let part = range.within(head.content_bytes)?;
            // Whole pages, whatever part of them is asked for.
            (part.first - part.first % PAGE_BYTES, part.last - part.last % PAGE_BYTES + PAGE_BYTES - 1)
        }
    };
    let mut position = first.max(query.from);
    let mut listed: Vec<Listed> = Vec::new();
    while position <= last {
        let (now, now_until) = pieces(view.as_ref(), &place, position, last).await?;
        let (then, then_until) = match &before {
            None => (Vec::new(), last),
            Some(before) => pieces(view.as_ref(), before, position, last).await?,
        };
        let until = now_until.min(then_until);
        let found = match before.is_some() {
            false => now.iter().map(|piece| (piece.begin, piece.end.min(until), false)).collect(),
            true => difference(&then, &now, until),
        };
        for (begin, end, is_clear) in found.into_iter().filter(|(begin, end, _)| begin <= end) {
            match listed.last_mut() {
                Some(last) if last.is_clear == is_clear && last.pages.last + 1 == begin => last.pages.last = end,
                _ => listed.push(Listed { pages: Pages { first: begin, last: end }, is_clear }),
            }
        }
        if listed.len() > query.results_max {
            let next = listed[query.results_max].pages.first;
            listed.truncate(query.results_max);
            return Ok(PageList { head: *head, listed, next: Some(next) });
        }
        position = until + 1;
    }
    Ok(PageList { head: *head, listed, next: None })
}

/// Runs looked up at once.
const RUNS_AT_ONCE: usize = 256;

/// What was written between `first` and `last`, as far as it was looked up.
async fn pieces(view: &dyn View, place: &Place, first: u64, last: u64) -> Result<(Vec<Piece>, u64), Fault> {
    let range: KeyRange = place.from(Bound::Included(first));
    let page = view.scan(place.family(), &range, RUNS_AT_ONCE).await?;
    let (is_last, mut until) = (page.len() < RUNS_AT_ONCE, last);
    let mut pieces = Vec::new();
    for (key, record) in page {
        let run = Placed::new(place, &key, record)?;
        if run.begin > last {
            return Ok((pieces, last));
        }
        until = run.end;
        let mut at = run.begin;
        for slice in &run.record.slices {
            let (begin, end) = (at, at + slice.bytes - 1);
            at = end + 1;
            if end < first || begin > last {
                continue;
            }
            let (cut_begin, cut_end) = (begin.max(first), end.min(last));
            let offset = slice.offset + (cut_begin - begin);
            let slice = ExtentSlice { offset, bytes: cut_end - cut_begin + 1, ..*slice };
            pieces.push(Piece { begin: cut_begin, end: cut_end, slice });
        }
    }
    Ok((pieces, if is_last { last } else { until.min(last) }))
}

/// Where `now` differs from `then` up to `until`: begin, end, and whether it was cleared. Pieces of both are in order and do not overlap.
fn difference(then: &[Piece], now: &[Piece], until: u64) -> Vec<(u64, u64, bool)> {
    let mut edges: Vec<u64> =
        then.iter().chain(now).flat_map(|piece| [piece.begin, piece.end + 1]).filter(|edge| *edge <= until).collect();
    edges.push(until + 1);
    edges.sort_unstable();
    edges.dedup();
    let (mut then, mut now) = (then.iter().peekable(), now.iter().peekable());
    let mut found = Vec::new();
    for window in edges.windows(2) {
        let (begin, end) = (window[0], window[1] - 1);
        // What lies at `begin`: the extent, and where in it.
        let at = |pieces: &mut std::iter::Peekable<std::slice::Iter<'_, Piece>>| {
            while pieces.next_if(|piece| piece.end < begin).is_some() {}
            let piece = pieces.peek().filter(|piece| piece.begin <= begin)?;
            Some((piece.slice.extent, piece.slice.offset + (begin - piece.begin)))
        };
        match (at(&mut then), at(&mut now)) {
            (before, after) if before == after => {}
            (_, Some(_)) => found.push((begin, end, false)),
            (_, None) => found.push((begin, end, true)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Extent;

    #[test]
    fn pages_are_aligned() {
        for (first, last, right) in [
            (0, 511, true),
            (512, 1535, true),
            (0, 510, false),
            (1, 511, false),
            (512, 511, false),
            (0, u64::MAX, false),
        ] {
            assert_eq!(Pages::new(first, last).is_some(), right, "{first}-{last}");
        }
    }

    #[test]
    fn sequence_numbers() {
        let at_most = |number| SequenceConditions { at_most: Some(number), ..Default::default() };
        let below = |number| SequenceConditions { below: Some(number), ..Default::default() };
        let equal = |number| SequenceConditions { equal: Some(number), ..Default::default() };
        for (conditions, expected) in [
            (SequenceConditions::default(), true),
            (at_most(7), true),
            (at_most(6), false),
            (below(8), true),
            (below(7), false),
            (equal(7), true),
            (equal(8), false),
        ] {
            assert_eq!(conditions.hold(7), expected, "{conditions:?}");
        }
        use SequenceAction::*;
        for (action, before, after) in [
            (Max(3), 7, Some(7)),
            (Max(9), 7, Some(9)),
            (Update(3), 7, Some(3)),
            (Increment, 7, Some(8)),
            (Increment, SEQUENCE_MAX, None),
        ] {
            assert_eq!(action.on(before).ok(), after, "{action:?} on {before}");
        }
    }

    /// Pieces as text: where each begins, its extent, and one letter per byte; `ab` and `bc` of extent 1 are parts of `abc`.
    fn pieces(text: &[(u64, u128, &str)]) -> Vec<Piece> {
        let piece = |(begin, id, letters): &(u64, u128, &str)| {
            let bytes = letters.len() as u64;
            let offset = u64::from(letters.as_bytes()[0] - b'a');
            let slice = ExtentSlice { extent: Extent { id: *id, bytes: 26 }, offset, bytes };
            Piece { begin: *begin, end: begin + bytes - 1, slice }
        };
        text.iter().map(piece).collect()
    }

    #[test]
    fn differences() {
        for (then, now, expected) in [
            (vec![], vec![], vec![]),
            (vec![], vec![(2, 1, "ab")], vec![(2, 3, false)]),
            (vec![(2, 1, "ab")], vec![], vec![(2, 3, true)]),
            (vec![(2, 1, "abcd")], vec![(2, 1, "abcd")], vec![]),
            // Cut in two it is still the same.
            (vec![(2, 1, "abcd")], vec![(2, 1, "ab"), (4, 1, "cd")], vec![]),
            (vec![(2, 1, "abcd")], vec![(2, 1, "a"), (3, 2, "xy"), (5, 1, "d")], vec![(3, 4, false)]),
            (vec![(2, 1, "abcd")], vec![(2, 1, "a"), (5, 1, "d")], vec![(3, 4, true)]),
            // The same bytes of the extent at another place are other pages.
            (vec![(2, 1, "abcd")], vec![(3, 1, "abc")], vec![(2, 2, true), (3, 5, false)]),
            (vec![(8, 1, "abcd")], vec![(8, 2, "abcd")], vec![(8, 9, false)]),
        ] {
            // Pages next to each other are put together by the caller.
            let mut found: Vec<(u64, u64, bool)> = Vec::new();
            for (begin, end, is_clear) in difference(&pieces(&then), &pieces(&now), 9) {
                match found.last_mut() {
                    Some(last) if last.2 == is_clear && last.1 + 1 == begin => last.1 = end,
                    _ => found.push((begin, end, is_clear)),
                }
            }
            assert_eq!(found, expected, "{then:?} to {now:?}");
        }
    }
}
