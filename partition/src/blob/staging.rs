//! Blocks: staged by Put Block, made into a blob by Put Block List.
//!
//! A staged block is a record of its own that names its extents. Put Block List moves the named extents into the blob's body in the
//! same commit that removes every staged block, so a block is staged or part of the blob and never both or neither.

use std::collections::HashMap;
use std::ops::Bound;

use bytes::Bytes;
use contract::limits::{BLOCKS_MAX, STAGED_BLOCKS_MAX, STAGED_SECONDS_MAX};
use contract::names::{AccountName, BlobName};
use contract::{ErrorCode, Refusal};
use engine::{BoxFuture, ExtentSlice, Family, Fault, GroupId, KeyRange, PartitionId, Record, Write};
use env::Timestamp;

use super::body::{self, Stored};
use super::state::{Attributes, KEY, Keeping, State, Which, Whole, load_head, load_state, put_made};
use crate::checks::Expectation;
use crate::content::Content;
use crate::events::{self, Announcement};
use crate::execute::{Command, Failure, Moment, Reader, Shell};
use crate::housekeeping::RowChore;
use crate::key::{self, container};
use crate::lease::Lease;
use crate::record::blocks::{Block, BlockList, Staging};
use crate::record::{BlobHead, BlobKind};

/// What is staged for a blob.
#[derive(Clone, Debug, Default)]
pub struct Staged {
    staging: Option<Staging>,
    /// Ids with their extents, in the order of ids.
    blocks: Vec<(Bytes, Record)>,
}

impl Staged {
    async fn load(reader: &Reader<'_>) -> Result<Staged, Fault> {
        let Some(staging) = load_staging(reader).await? else { return Ok(Staged::default()) };
        let all = KeyRange { start: Bound::Unbounded, end: Bound::Unbounded };
        let blocks = reader.scan(container::STAGED, &all, usize::MAX).await?;
        Ok(Staged { staging: Some(staging), blocks })
    }

    /// What was staged too long ago is not there any more, whether or not it has been swept.
    fn live(&self, now: Timestamp) -> &[(Bytes, Record)] {
        if self.staging.as_ref().is_some_and(|staging| staging.is_live(now)) { &self.blocks } else { &[] }
    }

    pub fn is_live(&self, now: Timestamp) -> bool {
        !self.live(now).is_empty()
    }

    /// The lease on a blob that is nothing but staged blocks.
    pub(super) fn lease(&self, now: Timestamp) -> Option<&Lease> {
        self.staging.as_ref().filter(|staging| staging.is_live(now))?.lease.as_ref()
    }

    /// Takes everything away that was staged, live or not.
    pub fn clear(&self) -> Vec<Write> {
        let mut writes: Vec<Write> = Vec::new();
        writes.extend(self.staging.as_ref().map(|_| Write::Delete { family: container::STAGING, key: KEY }));
        let blocks = self.blocks.iter().map(|(id, _)| Write::Delete { family: container::STAGED, key: id.clone() });
        writes.extend(blocks);
        writes
    }
}

pub(super) async fn load_staged(reader: &Reader<'_>) -> Result<Staged, Fault> {
    Staged::load(reader).await
}

pub(super) async fn load_staging(reader: &Reader<'_>) -> Result<Option<Staging>, Fault> {
    let record = reader.get(container::STAGING, &KEY).await?;
    record.map(|record| Staging::decode(&record.value)).transpose()
}

pub(super) fn put_staging(staging: &Staging) -> Write {
    Write::Put { family: container::STAGING, key: KEY, value: staging.encode(), slices: Vec::new() }
}

impl Staging {
    pub(super) fn is_live(&self, now: Timestamp) -> bool {
        now < self.last_staged.plus_seconds(STAGED_SECONDS_MAX)
    }
}

/// Put Block.
pub struct PutBlock {
    partition: PartitionId,
    expectation: Expectation,
    id: Bytes,
    /// False for a SAS that may create but not overwrite.
    may_overwrite: bool,
    /// When it was asked for; what was dead by then is removed on the way.
    asked: Timestamp,
    /// Empty until the body has arrived.
    pub content: Content,
}

impl PutBlock {
    pub fn new(
        group: &GroupId,
        blob: &BlobName,
        expectation: Expectation,
        id: Bytes,
        may_overwrite: bool,
        asked: Timestamp,
    ) -> Self {
        let partition = key::blob_partition(group, blob);
        PutBlock { partition, expectation, id, may_overwrite, asked, content: Content::Inline(Bytes::new()) }
    }
}

pub struct AroundBlock {
    head: Option<BlobHead>,
    staging: Option<Staging>,
    is_staged: bool,
    /// Loaded only if what is staged was dead when the request came.
    dead: Option<Staged>,
}

impl Command for PutBlock {
    type Records = AroundBlock;
    type Outcome = ();

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<AroundBlock, Fault> {
        let (head, staging) = (load_head(reader).await?, load_staging(reader).await?);
        let dead = match &staging {
            Some(staging) if !staging.is_live(self.asked) => Some(Staged::load(reader).await?),
            _ => None,
        };
        let is_staged = dead.is_none() && reader.get(container::STAGED, &self.id).await?.is_some();
        Ok(AroundBlock { head, staging, is_staged, dead })
    }

    fn check(&self, records: &AroundBlock, now: Timestamp) -> Result<(), Refusal> {
        match records.head.as_ref().filter(|head| head.is_there(now)) {
            Some(_) if !self.may_overwrite => return Err(ErrorCode::UnauthorizedBlobOverwrite.into()),
            Some(head) => {
                self.expectation.judge(Some(head.current()), now)?;
                head.must_be(BlobKind::is_block)?;
            }
            None => {
                let lease =
                    records.staging.as_ref().filter(|_| records.dead.is_none()).and_then(|it| it.lease.as_ref());
                self.expectation.judge_lease(lease, now)?;
            }
        }
        let Some(staging) = records.staging.as_ref().filter(|_| records.dead.is_none()) else { return Ok(()) };
        if usize::from(staging.id_bytes) != self.id.len() {
            return Err(ErrorCode::InvalidBlobOrBlock.into());
        }
        if !records.is_staged && staging.blocks >= STAGED_BLOCKS_MAX {
            return Err(ErrorCode::BlockCountExceedsLimit.into());
        }
        Ok(())
    }

    fn decide(&self, records: AroundBlock, moment: Moment) -> Result<(Vec<Write>, ()), Refusal> {
        self.check(&records, moment.now)?;
        let before = records.staging.filter(|_| records.dead.is_none());
        let staging = Staging {
            last_staged: moment.now,
            blocks: before.as_ref().map_or(0, |staging| staging.blocks) + u32::from(!records.is_staged),
            id_bytes: self.id.len() as u8,
            lease: before.and_then(|staging| staging.lease),
        };
        let mut writes = records.dead.map(|dead| dead.clear()).unwrap_or_default();
        writes.retain(
            |write| !matches!(write, Write::Delete { family, key } if *family == container::STAGING || *key == self.id),
        );
        let (value, slices) = self.content.stored();
        writes.push(Write::Put { family: container::STAGED, key: self.id.clone(), value, slices });
        writes.push(put_staging(&staging));
        Ok((writes, ()))
    }
}

/// Takes away what was staged and has died, so many blocks at a time; the record that tells of them goes with the last.
struct DropDead {
    partition: PartitionId,
}

/// Blocks that one commit takes away.
const DROPPED_AT_ONCE: usize = 1000;

impl Command for DropDead {
    type Records = (Option<Staging>, Vec<(Bytes, Record)>);
    /// Is there more?
    type Outcome = bool;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        let all = KeyRange { start: Bound::Unbounded, end: Bound::Unbounded };
        Ok((load_staging(reader).await?, reader.scan(container::STAGED, &all, DROPPED_AT_ONCE).await?))
    }

    fn check(&self, _records: &Self::Records, _now: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, (staging, blocks): Self::Records, moment: Moment) -> Result<(Vec<Write>, bool), Refusal> {
        if staging.is_none_or(|staging| staging.is_live(moment.now)) {
            return Ok((Vec::new(), false));
        }
        let has_more = blocks.len() == DROPPED_AT_ONCE;
        let gone = blocks.into_iter().map(|(key, _)| Write::Delete { family: container::STAGED, key });
        let mut writes: Vec<Write> = gone.collect();
        if !has_more {
            writes.push(Write::Delete { family: container::STAGING, key: KEY });
        }
        Ok((writes, has_more))
    }
}

/// Blocks that nobody committed within their week.
pub(crate) struct StagedBlocks;

impl RowChore for StagedBlocks {
    fn family(&self) -> Family {
        container::STAGING
    }

    fn is_due(&self, _key: &[u8], value: &[u8], now: Timestamp) -> Result<bool, Fault> {
        Ok(!Staging::decode(value)?.is_live(now))
    }

    fn clear<'a>(
        &'a self,
        shell: &'a Shell,
        _account: &'a AccountName,
        partition: &'a PartitionId,
        _key: &'a Bytes,
    ) -> BoxFuture<'a, Result<bool, Failure>> {
        Box::pin(async move { shell.execute(&DropDead { partition: partition.clone() }).await })
    }
}

/// Where Put Block List looks for a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Among {
    Committed,
    Uncommitted,
    /// What is staged first, then what is committed.
    Latest,
}

/// Put Block List.
pub struct PutBlockList {
    partition: PartitionId,
    expectation: Expectation,
    attributes: Attributes,
    keeping: Keeping,
    may_overwrite: bool,
    list: Vec<(Among, Bytes)>,
    /// What is told of it, and to whom.
    pub announcement: Option<Announcement>,
}

impl PutBlockList {
    pub fn new(
        group: &GroupId,
        blob: &BlobName,
        expectation: Expectation,
        attributes: Attributes,
        keeping: Keeping,
        may_overwrite: bool,
        list: Vec<(Among, Bytes)>,
    ) -> Self {
        let partition = key::blob_partition(group, blob);
        PutBlockList { partition, expectation, attributes, keeping, may_overwrite, list, announcement: None }
    }
}

impl Command for PutBlockList {
    type Records = Whole;
    type Outcome = BlobHead;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Whole, Fault> {
        let may_name_committed = self.list.iter().any(|(among, _)| *among != Among::Uncommitted);
        Whole::load(reader, self.keeping, may_name_committed).await
    }

    fn check(&self, old: &Whole, now: Timestamp) -> Result<(), Refusal> {
        let there = old.there(now);
        if there.is_some() && !self.may_overwrite {
            return Err(ErrorCode::UnauthorizedBlobOverwrite.into());
        }
        old.judge(&self.expectation, now)?;
        there.map_or(Ok(()), |head| head.must_be(BlobKind::is_block))
    }

    fn decide(&self, old: Whole, moment: Moment) -> Result<(Vec<Write>, BlobHead), Refusal> {
        self.check(&old, moment.now)?;
        if self.list.len() > BLOCKS_MAX {
            return Err(ErrorCode::BlockListTooLong.into());
        }
        let staged: HashMap<&[u8], &Record> =
            old.staged.live(moment.now).iter().map(|(id, record)| (id.as_ref(), record)).collect();
        let blocks_there = old.blocks.as_ref().filter(|_| old.there(moment.now).is_some());
        let committed = blocks_there.map(|blocks| committed(blocks, &old.body)).unwrap_or_default();
        let (mut blocks, mut slices) = (Vec::with_capacity(self.list.len()), Vec::new());
        for (among, id) in &self.list {
            let of_staged = staged.get(id.as_ref()).filter(|_| *among != Among::Committed);
            let of_committed = committed.get(id.as_ref()).filter(|_| *among != Among::Uncommitted);
            let found: &[ExtentSlice] = match (of_staged, of_committed) {
                (Some(record), _) => &record.slices,
                (None, Some(found)) => found,
                (None, None) => return Err(ErrorCode::InvalidBlockList.into()),
            };
            let bytes = found.iter().map(|slice| slice.bytes).sum();
            blocks.push(Block { id: id.clone(), bytes });
            slices.extend_from_slice(found);
        }
        let keeping = self.keeping;
        let bytes = blocks.iter().map(|block| block.bytes).sum();
        let head = old.made(&self.attributes, BlobKind::Block, bytes, true, keeping, moment);
        let mut writes = put_made(old.head.as_ref(), &head);
        writes.extend(old.keep_overwritten(self.keeping, moment));
        writes.extend(old.replace(body::runs(&slices), Some(BlockList(blocks).encode())));
        writes.extend(events::created(self.announcement.as_ref(), &head, moment));
        Ok((writes, head))
    }

    fn announcement(&self) -> Option<&Announcement> {
        self.announcement.as_ref()
    }
}

/// The extents of each committed block, cut out of the runs.
fn committed<'a>(blocks: &'a BlockList, body: &Stored) -> HashMap<&'a [u8], Vec<ExtentSlice>> {
    let mut slices = body.records().flat_map(|run| run.slices.iter().copied());
    let mut rest: Option<ExtentSlice> = None;
    let mut found = HashMap::new();
    for block in &blocks.0 {
        let (mut wanted, mut parts) = (block.bytes, Vec::new());
        while wanted > 0 {
            let Some(slice) = rest.take().or_else(|| slices.next()) else { break };
            let bytes = slice.bytes.min(wanted);
            parts.push(ExtentSlice { bytes, ..slice });
            wanted -= bytes;
            if bytes < slice.bytes {
                rest = Some(ExtentSlice { offset: slice.offset + bytes, bytes: slice.bytes - bytes, ..slice });
            }
        }
        found.insert(block.id.as_ref(), parts);
    }
    found
}

/// What Get Block List shows.
pub struct Blocks {
    pub head: Option<BlobHead>,
    pub committed: Vec<Block>,
    pub uncommitted: Vec<Block>,
}

/// Get Block List. Of a past state there is only what was committed.
pub async fn blocks(
    shell: &Shell,
    group: &GroupId,
    blob: &BlobName,
    which: Which,
    expectation: &Expectation,
) -> Result<Blocks, Failure> {
    let partition = key::blob_partition(group, blob);
    shell.steadily(&partition, || blocks_in(shell, &partition, which, expectation)).await
}

async fn blocks_in(
    shell: &Shell,
    partition: &PartitionId,
    which: Which,
    expectation: &Expectation,
) -> Result<Blocks, Failure> {
    let view = shell.engine.view(partition).await?;
    let reader = Reader::committed(view.as_ref());
    let (state, now) = (load_state(&reader, which).await?, shell.clock.now());
    let staged = if which == Which::Current { Staged::load(&reader).await? } else { Staged::default() };
    let block = |(id, record): &(Bytes, Record)| Block { id: id.clone(), bytes: body::stored_bytes(record) };
    let uncommitted: Vec<Block> = staged.live(now).iter().map(block).collect();
    let Some(State { head, place, .. }) = state.filter(|state| state.head.is_there(now)) else {
        if uncommitted.is_empty() {
            return Err(ErrorCode::BlobNotFound.into());
        }
        expectation.judge_lease(staged.lease(now), now)?;
        if expectation.conditions.if_tags.is_some() {
            return Err(ErrorCode::ConditionNotMet.into());
        }
        return Ok(Blocks { head: None, committed: Vec::new(), uncommitted });
    };
    expectation.judge(Some(head.current()), now)?;
    head.must_be(BlobKind::is_block)?;
    let committed = body::load_block_list(&reader, &place, Some(&head)).await?;
    let committed = committed.map(|record| BlockList::decode(&record.value)).transpose()?.unwrap_or_default().0;
    Ok(Blocks { head: Some(*head), committed, uncommitted })
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{Extent, Revision};

    #[test]
    fn committed_blocks_are_cut_out_of_runs() {
        let slice = |id, offset, bytes| ExtentSlice { extent: Extent { id, bytes: 100 }, offset, bytes };
        let run = |slices: &[ExtentSlice]| {
            let record = Record { revision: Revision(1), value: Bytes::new(), slices: slices.to_vec() };
            (Bytes::new(), Some(record))
        };
        let block = |id: &'static str, bytes| Block { id: Bytes::from_static(id.as_bytes()), bytes };
        let list = BlockList(vec![block("a", 5), block("b", 30), block("c", 1)]);
        let body = Stored { records: vec![run(&[slice(1, 0, 10), slice(2, 7, 20)]), run(&[slice(3, 0, 6)])] };
        let found = committed(&list, &body);
        assert_eq!(found[b"a".as_slice()], [slice(1, 0, 5)]);
        assert_eq!(found[b"b".as_slice()], [slice(1, 5, 5), slice(2, 7, 20), slice(3, 0, 5)]);
        assert_eq!(found[b"c".as_slice()], [slice(3, 5, 1)]);
    }
}
