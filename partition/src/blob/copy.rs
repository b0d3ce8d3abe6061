//! Copies of a blob of this server: no byte of it is moved, the copy names the same extents.
//!
//! A source that is another blob is read in one view, and its extents are pinned until the copy is committed. A source that is the
//! destination itself, as it is now or was, is read in the destination's own turn: nobody's write falls between.

use std::sync::Arc;

use bytes::Bytes;
use contract::names::{BlobName, Metadata};
use contract::operations::{Effect, Operation, OperationId};
use contract::{ApiVersion, ErrorCode, Refusal};
use engine::{Engine, Fault, GroupId, PartitionId, Pin, View, Write};
use env::{Id, Timestamp};

use super::body::{self, Place, Run};
use super::read::Range;
use super::state::{Attributes, Keeping, State, Which, Whole, load_state, put_made};
use crate::checks::Expectation;
use crate::condition::{Conditions, judge_read};
use crate::content::{Content, ContentReader};
use crate::copying::{cannot_verify, of_source};
use crate::etag::ETag;
use crate::events::{self, Announcement};
use crate::execute::{Command, Failure, Moment, Reader, Shell};
use crate::gate;
use crate::key;
use crate::lease::LeaseState;
use crate::record::blob::{CopyState, Immutability, Tier};
use crate::record::{BlobHead, BlobKind, ContentProperties};

/// What a request says of the source it wants to find.
#[derive(Clone, Debug)]
pub struct SourceExpectation {
    pub operation: &'static Operation,
    pub version: ApiVersion,
    pub conditions: Conditions,
    /// The copy is to be online, wherever the source is.
    pub takes_archived: bool,
    pub only_blocks: bool,
    pub bytes_max: u64,
    /// It was looked at already, and must be the same.
    pub seen: Option<ETag>,
}

impl SourceExpectation {
    pub fn judge(&self, head: &BlobHead, now: Timestamp) -> Result<(), Refusal> {
        let (current, failed) = (head.current(), || condition_failed(self.operation, 412));
        judge_read(&self.conditions, self.version, current).map_err(|refusal| match refusal.code {
            ErrorCode::ConditionNotMet => {
                let failed = condition_failed(self.operation, refusal.status);
                Refusal { reason: refusal.reason, ..failed }
            }
            _ => refusal,
        })?;
        if self.conditions.if_tags.as_ref().is_some_and(|expression| !expression.holds(&head.tags)) {
            return Err(failed());
        }
        if !self.takes_archived {
            gate::judge(Effect::Reads, head.held().at(now), false).map_err(|refusal| of_source(&refusal))?;
        }
        if self.only_blocks && !head.kind.is_block() {
            return Err(ErrorCode::InvalidSourceBlobType.into());
        }
        if head.content_bytes > self.bytes_max {
            let refusal = Refusal::from(ErrorCode::RequestBodyTooLarge);
            return Err(refusal.with("MaxLimit", self.bytes_max.to_string()));
        }
        if self.seen.is_some_and(|etag| etag != head.etag) {
            return Err(failed());
        }
        Ok(())
    }
}

/// A condition on the source that failed, as each operation words it; `status` is what a read would answer.
pub fn condition_failed(operation: &Operation, status: u16) -> Refusal {
    use OperationId::{CopyBlob, CopyBlobFromUrl, PutBlobFromUrl};
    match (operation.id, status) {
        (CopyBlob | CopyBlobFromUrl, _) | (PutBlobFromUrl, 412) => ErrorCode::SourceConditionNotMet.into(),
        (_, status) => {
            let code = ErrorCode::ConditionNotMet;
            cannot_verify(status, Some(code.name()), code.message())
        }
    }
}

/// A whole blob, for another to name the same extents.
pub struct Taken {
    pub head: BlobHead,
    pub(super) runs: Vec<Run>,
    blocks: Option<Bytes>,
    /// The extents stay until the copy names them.
    _pins: Vec<Pin>,
}

impl Taken {
    /// What is no blob, in one piece.
    pub fn received(content: &Content, attributes: Attributes, now: Timestamp) -> Taken {
        let moment = Moment { now, tick: 0, id: Id(0) };
        let keeping = Keeping::default();
        let (runs, bytes) = (body::whole(content), content.bytes());
        let in_runs = body::is_in_runs(&runs);
        let head = BlobHead::made(None, &attributes, BlobKind::Block, bytes, in_runs, keeping, moment);
        Taken { head, runs, blocks: None, _pins: content.pins() }
    }

    /// To be hashed before it is copied.
    pub fn reader(&self, engine: &Arc<dyn Engine>) -> ContentReader {
        let parts = self.runs.iter().flat_map(|run| run.slices.iter().map(|slice| (engine.pin(slice.extent), *slice)));
        match self.runs.as_slice() {
            [run] if run.slices.is_empty() => Content::Inline(run.value.clone()).reader(engine),
            _ => Content::Shared { parts: parts.collect(), bytes: self.head.content_bytes }.reader(engine),
        }
    }
}

async fn find(
    view: &dyn View,
    which: Which,
    expectation: &SourceExpectation,
    now: Timestamp,
) -> Result<State, Failure> {
    let state = load_state(&Reader::committed(view), which).await?;
    let state = state.filter(|state| state.head.is_there(now)).ok_or(ErrorCode::BlobNotFound)?;
    expectation.judge(&state.head, now)?;
    Ok(state)
}

/// Reads a source that is another blob.
pub async fn take(
    shell: &Shell,
    group: &GroupId,
    blob: &BlobName,
    which: Which,
    expectation: &SourceExpectation,
    is_put: bool,
) -> Result<Taken, Failure> {
    let partition = key::blob_partition(group, blob);
    shell.steadily(&partition, || take_from(shell, &partition, which, expectation, is_put)).await
}

async fn take_from(
    shell: &Shell,
    partition: &PartitionId,
    which: Which,
    expectation: &SourceExpectation,
    is_put: bool,
) -> Result<Taken, Failure> {
    let view = shell.engine.view(partition).await?;
    let state = find(view.as_ref(), which, expectation, shell.clock.now()).await?;
    let (is_append, is_page) = (matches!(state.head.kind, BlobKind::Append { .. }), state.head.kind.is_page());
    if is_append || is_put && is_page {
        // Many small runs become few large ones, and what no page was written to becomes zeros.
        let (head, bytes) = (state.head.clone(), state.head.content_bytes);
        let reader = ContentReader::open(&shell.engine, partition, view, state.place, &head, 0, bytes).await?;
        let content = reader.share(bytes, true).await?;
        let (_, slices) = content.stored();
        return Ok(Taken { head: *head, runs: body::runs(&slices), blocks: None, _pins: content.pins() });
    }
    let (runs, blocks) = load_content(&Reader::committed(view.as_ref()), &state).await?;
    let pins = runs.iter().flat_map(|run| &run.slices).map(|slice| shell.engine.pin(slice.extent)).collect();
    Ok(Taken { head: *state.head, runs, blocks, _pins: pins })
}

/// A part of a source, or all of it, and how many bytes that is.
pub async fn open(
    shell: &Shell,
    group: &GroupId,
    blob: &BlobName,
    which: Which,
    expectation: &SourceExpectation,
    range: Option<Range>,
) -> Result<(BlobHead, u64, ContentReader), Failure> {
    let partition = key::blob_partition(group, blob);
    let open = || async {
        let view = shell.engine.view(&partition).await?;
        let State { head, place, .. } = find(view.as_ref(), which, expectation, shell.clock.now()).await?;
        let part = range.map(|range| range.within(head.content_bytes)).transpose()?;
        let (first, bytes) = part.map_or((0, head.content_bytes), |part| (part.first, part.bytes()));
        let reader = ContentReader::open(&shell.engine, &partition, view, place, &head, first, bytes).await?;
        Ok((*head, bytes, reader))
    };
    shell.steadily(&partition, open).await
}

async fn load_content(reader: &Reader<'_>, state: &State) -> Result<(Vec<Run>, Option<Bytes>), Fault> {
    let stored = body::load(reader, &state.place, Some(&state.head), true).await?;
    let blocks = body::load_block_list(reader, &state.place, Some(&state.head)).await?;
    Ok((stored.into_runs(&state.place)?, blocks.map(|record| record.value)))
}

/// Where the source is, as seen from the destination.
pub enum From {
    Elsewhere(Box<Taken>),
    /// The same blob.
    Itself(Which),
}

/// What the copy is made with; what is not said is the source's.
#[derive(Clone, Debug, Default)]
pub struct Making {
    /// Each that is given is taken instead of the source's.
    pub properties: ContentProperties,
    pub leaves_properties: bool,
    pub metadata: Option<Metadata>,
    /// `None` takes the source's.
    pub tags: Option<Vec<(String, String)>>,
    pub tier: Option<Tier>,
    pub immutability: Option<Immutability>,
    pub legal_hold: bool,
    /// Of append blobs.
    pub sealed: Option<bool>,
    /// A block blob of one piece, whatever the source is.
    pub is_put: bool,
    /// As it is shown; `None` where the blob is not to be known as a copy.
    pub source: Option<String>,
}

impl Making {
    /// What is made of a source of which so much is known.
    pub fn attributes(&self, source: &Attributes) -> Attributes {
        let mut theirs = source.properties.clone();
        if self.leaves_properties {
            // The hash is of the content, which stays the same.
            theirs = ContentProperties { content_md5: theirs.content_md5, ..ContentProperties::default() };
        }
        Attributes {
            properties: self.properties.clone().or(theirs),
            metadata: self.metadata.clone().unwrap_or_else(|| source.metadata.clone()),
            tags: self.tags.clone().unwrap_or_else(|| source.tags.clone()),
            tier: self.tier,
            immutability: self.immutability,
            legal_hold: self.legal_hold,
        }
    }

    pub(super) fn of(&self, source: &BlobHead) -> Attributes {
        self.attributes(&Attributes {
            properties: source.properties.clone(),
            metadata: source.metadata.clone(),
            tags: source.tags.clone(),
            ..Attributes::default()
        })
    }

    fn kind(&self, source: BlobKind, tick: u64) -> BlobKind {
        match source {
            _ if self.is_put => BlobKind::Block,
            BlobKind::Block => BlobKind::Block,
            BlobKind::Append { blocks, sealed } => BlobKind::Append { blocks, sealed: self.sealed.unwrap_or(sealed) },
            BlobKind::Page { sequence, .. } => BlobKind::Page { sequence, made: tick },
        }
    }
}

impl ContentProperties {
    /// What is not there is taken from another.
    fn or(self, other: ContentProperties) -> ContentProperties {
        ContentProperties {
            content_type: self.content_type.or(other.content_type),
            content_encoding: self.content_encoding.or(other.content_encoding),
            content_language: self.content_language.or(other.content_language),
            content_disposition: self.content_disposition.or(other.content_disposition),
            cache_control: self.cache_control.or(other.cache_control),
            content_md5: self.content_md5.or(other.content_md5),
        }
    }
}

/// Copy Blob, Copy Blob From URL and Put Blob From URL, of a source on this server.
pub struct CopyBlob {
    partition: PartitionId,
    pub expectation: Expectation,
    pub source: SourceExpectation,
    pub from: From,
    pub making: Making,
    pub keeping: Keeping,
    pub may_overwrite: bool,
    /// What is told of it, and to whom.
    pub announcement: Option<Announcement>,
}

impl CopyBlob {
    pub fn new(
        group: &GroupId,
        blob: &BlobName,
        (expectation, source): (Expectation, SourceExpectation),
        from: From,
        making: Making,
        keeping: Keeping,
        may_overwrite: bool,
    ) -> Self {
        let partition = key::blob_partition(group, blob);
        CopyBlob { partition, expectation, source, from, making, keeping, may_overwrite, announcement: None }
    }
}

/// The destination, and the source if it is the same blob.
pub struct Ends {
    destination: Whole,
    source: Option<Own>,
}

struct Own {
    head: BlobHead,
    /// `None` where the content stays as it is.
    content: Option<(Vec<Run>, Option<Bytes>)>,
}

impl CopyBlob {
    fn source<'a>(&'a self, ends: &'a Ends, now: Timestamp) -> Result<&'a BlobHead, Refusal> {
        match (&self.from, ends.source.as_ref().filter(|own| own.head.is_there(now))) {
            (From::Elsewhere(taken), _) => Ok(&taken.head),
            (From::Itself(_), Some(own)) => {
                self.source.judge(&own.head, now)?;
                Ok(&own.head)
            }
            (From::Itself(_), None) => Err(of_source(&ErrorCode::BlobNotFound.into())),
        }
    }
}

impl Command for CopyBlob {
    type Records = Ends;
    type Outcome = BlobHead;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Ends, Fault> {
        let destination = Whole::load(reader, self.keeping, false).await?;
        let source = match &self.from {
            From::Elsewhere(_) => None,
            From::Itself(which) => match load_state(reader, *which).await? {
                None => None,
                Some(state) if state.is_current => Some(Own { head: *state.head, content: None }),
                Some(state) => {
                    let content = load_content(reader, &state).await?;
                    Some(Own { head: *state.head, content: Some(content) })
                }
            },
        };
        Ok(Ends { destination, source })
    }

    fn check(&self, ends: &Ends, now: Timestamp) -> Result<(), Refusal> {
        check_destination(&self.expectation, &ends.destination, self.may_overwrite, now)?;
        let source = self.source(ends, now)?;
        match ends.destination.there(now) {
            Some(head) if self.making.is_put => head.must_be(BlobKind::is_block),
            Some(head) => head.must_be(|kind| kind.is_like(source.kind)),
            None => Ok(()),
        }
    }

    fn decide(&self, ends: Ends, moment: Moment) -> Result<(Vec<Write>, BlobHead), Refusal> {
        self.check(&ends, moment.now)?;
        let source = self.source(&ends, moment.now)?;
        let Ends { destination: old, source: own } = &ends;
        let (attributes, kind) = (self.making.of(source), self.making.kind(source.kind, moment.tick));
        let (bytes, in_runs) = (source.content_bytes, source.in_runs);
        let mut head = old.made(&attributes, kind, bytes, in_runs, self.keeping, moment);
        let shown = self.making.source.clone();
        head.copy = shown.map(|source| CopyState::success(moment.id, source, bytes, moment.now));
        let mut writes = put_made(old.head.as_ref(), &head);
        writes.extend(old.keep_overwritten(self.keeping, moment));
        let content = match (&self.from, own) {
            (From::Elsewhere(taken), _) => Some((&taken.runs, &taken.blocks)),
            (From::Itself(_), Some(Own { content: Some((runs, blocks)), .. })) => Some((runs, blocks)),
            (From::Itself(_), _) => None,
        };
        match content {
            Some((runs, blocks)) => {
                let blocks = blocks.as_ref().filter(|_| !self.making.is_put);
                writes.extend(old.replace(runs.clone(), blocks.cloned()));
            }
            // The content stays; what is staged goes, as with every write of a whole blob.
            None => {
                writes.extend(old.staged.clear());
                if self.making.is_put {
                    writes.extend(old.blocks.as_ref().map(|_| body::delete_block_list(&Place::CURRENT)));
                }
            }
        }
        writes.extend(events::created(self.announcement.as_ref(), &head, moment));
        Ok((writes, head))
    }

    fn announcement(&self) -> Option<&Announcement> {
        self.announcement.as_ref()
    }
}

/// What every copy asks of its destination. Copy Blob words its conditions differently, and wants a lease that cannot end meanwhile.
pub fn check_destination(
    expectation: &Expectation,
    old: &Whole,
    may_overwrite: bool,
    now: Timestamp,
) -> Result<(), Refusal> {
    let there = old.there(now);
    if there.is_some() && !may_overwrite {
        return Err(ErrorCode::UnauthorizedBlobOverwrite.into());
    }
    let is_copy = expectation.operation.id == OperationId::CopyBlob;
    old.judge(expectation, now).map_err(|refusal| match refusal.code {
        ErrorCode::ConditionNotMet if is_copy => refusal.as_code(ErrorCode::TargetConditionNotMet),
        _ => refusal,
    })?;
    let lease = there.map_or(old.staged.lease(now), |head| head.lease.as_ref());
    let is_locked = LeaseState::of(lease, now).is_locked();
    if is_copy && is_locked && lease.is_some_and(|lease| lease.seconds.is_some()) {
        return Err(ErrorCode::InfiniteLeaseDurationRequired.into());
    }
    Ok(())
}
