//! What a blob is and was: its current state, and past states beside it.
//!
//! The current state is a HEAD record with its content. A past state is a PAST record with its content, under an id that is a moment in
//! ticks: a snapshot somebody took, a version that was replaced, or what was deleted and is kept for a while. Content is never copied
//! from state to state, extents are shared.

use bytes::{BufMut, Bytes, BytesMut};
use contract::Refusal;
use contract::names::Metadata;
use engine::{Fault, Write};
use env::Timestamp;

use super::body::{self, Place, Stored};
use super::staging::{Staged, load_staged};
use super::{expiry, find};
use crate::checks::Expectation;
use crate::condition::Current;
use crate::etag::ETag;
use crate::execute::{Moment, Reader};
use crate::gate::Held;
use crate::key::container;
use crate::lease::after_write;
use crate::record::blob::{CopyState, Immutability, StoredTier, Tier};
use crate::record::blocks::BlockList;
use crate::record::past::{Deleted, Mark, PastBlob};
use crate::record::{BlobHead, BlobKind, ContentProperties};

pub(super) const KEY: Bytes = Bytes::new();

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

pub(super) async fn load_head(reader: &Reader<'_>) -> Result<Option<BlobHead>, Fault> {
    let record = reader.get(container::HEAD, &KEY).await?;
    record.map(|record| BlobHead::decode(&record.value)).transpose()
}

pub(super) fn put_head(head: &BlobHead) -> Write {
    Write::Put { family: container::HEAD, key: KEY, value: head.encode(), slices: Vec::new() }
}

/// The head of a blob made anew, and what searches are told of it.
pub(super) fn put_made(before: Option<&BlobHead>, head: &BlobHead) -> Vec<Write> {
    let tags = before.map_or(&[][..], |before| &before.tags);
    let expiry = expiry::index(before.and_then(|before| before.expires), head.expires);
    [put_head(head)].into_iter().chain(find::index(tags, &head.tags)).chain(expiry).collect()
}

/// Takes the head of a blob away.
pub(super) fn delete_head(head: &BlobHead) -> Vec<Write> {
    let gone = Write::Delete { family: container::HEAD, key: KEY };
    [gone].into_iter().chain(find::index(&head.tags, &[])).chain(expiry::index(head.expires, None)).collect()
}

/// Are there staged blocks, live or not?
pub(super) async fn load_staging_of(reader: &Reader<'_>) -> Result<bool, Fault> {
    Ok(reader.get(container::STAGING, &KEY).await?.is_some())
}

/// Which state of a blob a request is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Which {
    #[default]
    Current,
    /// The id is in ticks.
    Snapshot(u64),
    /// May be the current one.
    Version(u64),
}

/// What becomes of a state that is overwritten or deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Keeping {
    /// It stays as an earlier version.
    pub versions: bool,
    /// It stays for so many days, and can be restored.
    pub deleted_days: Option<u16>,
}

impl Keeping {
    pub(super) fn deleted(self, now: Timestamp) -> Option<Deleted> {
        let days = self.deleted_days?;
        Some(Deleted { at: now, until: now.plus_seconds(u64::from(days) * SECONDS_PER_DAY) })
    }
}

impl Deleted {
    pub fn is_gone(&self, now: Timestamp) -> bool {
        now >= self.until
    }
}

/// What a whole blob is made with, whichever operation makes it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Attributes {
    pub properties: ContentProperties,
    pub metadata: Metadata,
    pub tags: Vec<(String, String)>,
    /// `None` leaves the tier as it was.
    pub tier: Option<Tier>,
    pub immutability: Option<Immutability>,
    pub legal_hold: bool,
}

impl BlobHead {
    pub fn current(&self) -> Current<'_> {
        let (etag, last_modified, lease) = (self.etag, self.last_modified, self.lease.as_ref());
        Current { etag, last_modified, lease, tags: &self.tags, held: self.held() }
    }

    pub fn held(&self) -> Held {
        Held {
            tier: self.tier,
            immutability: self.immutability,
            legal_hold: self.legal_hold,
            copying: self.copy.as_ref().is_some_and(CopyState::is_pending),
            incremental: self.copy.as_ref().is_some_and(|copy| copy.incremental.is_some()),
            expires: self.expires,
        }
    }

    /// One whose time has run out is not there, whether or not it has been swept.
    pub fn is_there(&self, now: Timestamp) -> bool {
        !self.held().is_expired(now)
    }

    /// A blob made anew, perhaps in the place of another.
    pub fn made(
        before: Option<&BlobHead>,
        attributes: &Attributes,
        kind: BlobKind,
        content_bytes: u64,
        in_runs: bool,
        keeping: Keeping,
        moment: Moment,
    ) -> BlobHead {
        let etag = ETag::next(before.map(|old| old.etag), moment.tick);
        let before = before.filter(|old| old.is_there(moment.now));
        let asked = attributes.tier.map(|level| StoredTier { level, since: moment.now, rehydrating: None });
        BlobHead {
            etag,
            last_modified: moment.now,
            created: before.map_or(moment.now, |old| old.created),
            content_bytes,
            kind,
            in_runs,
            properties: attributes.properties.clone(),
            metadata: attributes.metadata.clone(),
            lease: after_write(before.and_then(|old| old.lease.clone()), moment.now),
            version: keeping.versions.then_some(etag.0),
            tags: attributes.tags.clone(),
            tier: asked.or_else(|| Some(before?.tier?.at(moment.now))),
            immutability: attributes.immutability,
            legal_hold: attributes.legal_hold,
            expires: None,
            accessed: None,
            copy: None,
        }
    }
}

/// Names a past state among those of its blob.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PastId {
    pub ticks: u64,
    pub is_version: bool,
}

impl PastId {
    pub fn key(self) -> Bytes {
        let mut key = BytesMut::with_capacity(9);
        key.put_u64(self.ticks);
        key.put_u8(if self.is_version { b'v' } else { b's' });
        key.freeze()
    }

    pub fn parse(key: &[u8]) -> Option<PastId> {
        let (kind, ticks) = key.split_last()?;
        let is_version = match kind {
            b'v' => true,
            b's' => false,
            _ => return None,
        };
        Some(PastId { ticks: u64::from_be_bytes(ticks.try_into().ok()?), is_version })
    }

    pub fn place(self) -> Place {
        Place::past(self.key())
    }
}

pub(super) async fn load_mark(reader: &Reader<'_>) -> Result<Option<Mark>, Fault> {
    let record = reader.get(container::HAS_PAST, &KEY).await?;
    record.map(|record| Mark::decode(&record.value)).transpose()
}

pub(super) fn put_mark(mark: &Mark) -> Write {
    Write::Put { family: container::HAS_PAST, key: KEY, value: mark.encode(), slices: Vec::new() }
}

pub(super) fn put_past(id: PastId, past: &PastBlob) -> Write {
    Write::Put { family: container::PAST, key: id.key(), value: past.encode(), slices: Vec::new() }
}

/// A state, and where its content lies.
#[derive(Clone, Debug)]
pub struct State {
    /// On the heap: it is large, and handed from stage to stage.
    pub head: Box<BlobHead>,
    pub place: Place,
    /// Is it what the blob is now?
    pub is_current: bool,
}

/// The state that is asked for; what is deleted is not there.
pub async fn load_state(reader: &Reader<'_>, which: Which) -> Result<Option<State>, Fault> {
    let id = match which {
        Which::Current => None,
        Which::Snapshot(ticks) => Some(PastId { ticks, is_version: false }),
        Which::Version(ticks) => Some(PastId { ticks, is_version: true }),
    };
    if !matches!(which, Which::Snapshot(_))
        && let Some(head) = load_head(reader).await?
        && (which == Which::Current || head.version.map(Which::Version) == Some(which))
    {
        return Ok(Some(State { head: Box::new(head), place: Place::CURRENT, is_current: true }));
    }
    let Some(id) = id else { return Ok(None) };
    let Some(record) = reader.get(container::PAST, &id.key()).await? else { return Ok(None) };
    let past = PastBlob::decode(&record.value)?;
    let state = State { head: Box::new(past.head), place: id.place(), is_current: false };
    Ok(Some(state).filter(|_| past.deleted.is_none()))
}

/// A blob with everything that replacing it takes away.
pub struct Whole {
    pub(super) head: Option<BlobHead>,
    /// With what is in it only if that will be needed.
    pub(super) body: Stored,
    /// `None` if it was not made of blocks.
    pub(super) blocks: Option<BlockList>,
    pub(super) staged: Staged,
    pub(super) mark: Option<Mark>,
}

impl Whole {
    /// `copies`: the content is to be named by another state, too.
    pub(super) async fn load(reader: &Reader<'_>, keeping: Keeping, copies: bool) -> Result<Whole, Fault> {
        let head = load_head(reader).await?;
        let keeps = head.as_ref().is_some_and(|head| head.is_kept(keeping));
        let mark = if keeps || copies { load_mark(reader).await? } else { None };
        let body = body::load(reader, &Place::CURRENT, head.as_ref(), keeps || copies).await?;
        let blocks = body::load_block_list(reader, &Place::CURRENT, head.as_ref()).await?;
        let blocks = blocks.map(|record| BlockList::decode(&record.value)).transpose()?;
        Ok(Whole { body, blocks, staged: load_staged(reader).await?, mark, head })
    }

    /// The blob that is there: not one whose time has run out.
    pub(super) fn there(&self, now: Timestamp) -> Option<&BlobHead> {
        self.head.as_ref().filter(|head| head.is_there(now))
    }

    /// Judges the blob; where there is none, the lease that what is staged may have.
    pub(super) fn judge(&self, expectation: &Expectation, now: Timestamp) -> Result<(), Refusal> {
        expectation.judge_beside(self.there(now).map(BlobHead::current), self.staged.lease(now), now)
    }

    /// A blob made in its place. A lease stays, also one on what was only staged.
    pub(super) fn made(
        &self,
        attributes: &Attributes,
        kind: BlobKind,
        content_bytes: u64,
        in_runs: bool,
        keeping: Keeping,
        moment: Moment,
    ) -> BlobHead {
        let mut head = BlobHead::made(self.head.as_ref(), attributes, kind, content_bytes, in_runs, keeping, moment);
        if self.head.is_none() {
            head.lease = after_write(self.staged.lease(moment.now).cloned(), moment.now);
        }
        head
    }

    /// Another content, made of these blocks if of any, in the place of this one and of what is staged; the head is the caller's.
    pub(super) fn replace(&self, new: Vec<body::Run>, blocks: Option<Bytes>) -> Vec<Write> {
        let mut writes = self.body.replace(&Place::CURRENT, new);
        match (blocks, &self.blocks) {
            (Some(blocks), _) => writes.push(body::put_block_list(&Place::CURRENT, blocks)),
            (None, Some(_)) => writes.push(body::delete_block_list(&Place::CURRENT)),
            (None, None) => {}
        }
        writes.extend(self.staged.clear());
        writes
    }

    /// Keeps the current state before another takes its place, if it is to be kept.
    pub(super) fn keep_overwritten(&self, keeping: Keeping, moment: Moment) -> Vec<Write> {
        let Some(head) = self.there(moment.now) else { return Vec::new() };
        let (mut mark, deleted) = (self.mark.unwrap_or_default(), keeping.deleted(moment.now));
        let mut writes = if head.is_versioned(keeping) {
            self.set_aside(
                head.version_id(),
                PastBlob { head: head.clone(), was_base: false, deleted: None },
                &mut mark,
            )
        } else if deleted.is_some() {
            let id = mark.next_snapshot(moment);
            self.set_aside(id, PastBlob { head: head.clone(), was_base: false, deleted }, &mut mark)
        } else {
            return Vec::new();
        };
        writes.push(put_mark(&mark));
        writes
    }

    /// The current content under a past state, which has no lease and does not run out by itself. The mark is the caller's to put.
    pub(super) fn set_aside(&self, id: PastId, mut past: PastBlob, mark: &mut Mark) -> Vec<Write> {
        (past.head.lease, past.head.expires) = (None, None);
        let place = id.place();
        let mut writes = vec![put_past(id, &past)];
        writes.extend(self.body.copy(&Place::CURRENT, &place));
        writes.extend(self.blocks.as_ref().map(|blocks| body::put_block_list(&place, blocks.encode())));
        mark.last_id = mark.last_id.max(id.ticks);
        mark.due = earliest(mark.due, past.deleted.map(|deleted| deleted.until));
        writes
    }
}

impl Mark {
    /// An id newer than all there were.
    pub(super) fn next_snapshot(&self, moment: Moment) -> PastId {
        PastId { ticks: moment.tick.max(self.last_id + 1), is_version: false }
    }
}

pub(super) fn earliest(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    a.into_iter().chain(b).min()
}

impl BlobHead {
    /// Does it stay as a version when it is replaced? Also if versions are kept no longer: it was one.
    pub(super) fn is_versioned(&self, keeping: Keeping) -> bool {
        keeping.versions || self.version.is_some()
    }

    /// The id it has as a version; one that was written before versions were kept gets one when it is replaced.
    pub(super) fn version_id(&self) -> PastId {
        PastId { ticks: self.version.unwrap_or(self.etag.0), is_version: true }
    }

    pub(super) fn is_kept(&self, keeping: Keeping) -> bool {
        self.is_versioned(keeping) || keeping.deleted_days.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_past_states() {
        for id in [PastId { ticks: 0, is_version: true }, PastId { ticks: u64::MAX, is_version: false }] {
            assert_eq!(PastId::parse(&id.key()), Some(id));
        }
        for key in [&b""[..], b"v", b"12345678", b"12345678x", b"123456789v"] {
            assert_eq!(PastId::parse(key), None);
        }
    }
}
