//! Views and scans.
//!
//! A shard keeps no old states. So a view remembers the partition's revision, every later read brings the head along, and when it has
//! changed the view answers `Moved`: what it shows is one committed state or nothing. A view that has shown nothing yet just takes the
//! newer state.
//!
//! Records with an empty key are what most commands begin with (the head of a blob and its small body, a queue's state), so opening a
//! view brings those of the first families along: a small read is one operation, and one for all who begin with the same partition at
//! the same time (`gather.rs`).

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use engine::{
    BoxFuture, Family, Fault, GroupRange, KeyRange, Page, PartitionId, Record, Revision, Row, ScanStart, View,
};
use librados::{Found, Look, OpError, Pool};

use crate::alive::OpenView;
use crate::gather::Gather;
use crate::memo::Plain;
use crate::shard::Shard;
use crate::{Core, fault, key, value};

/// The families whose record with an empty key comes with a view.
const BROUGHT_FAMILIES: std::ops::RangeInclusive<u8> = 1..=9;

/// Entries asked for at once; clusters give no more than about so many.
const RANGE_ENTRIES: usize = 1024;

pub struct RadosView {
    core: Arc<Core>,
    /// None if the group is not entered.
    shard: Option<Arc<Shard>>,
    partition: Bytes,
    shown: Mutex<Shown>,
    opening: Arc<Opening>,
    _open: OpenView,
}

/// The state that a view is of.
struct Shown {
    revision: u64,
    /// Something was told of it: it stays.
    is_shown: bool,
}

/// What comes with the opening of a view: records by their keys, and the revision they are of.
#[derive(Default)]
pub struct Opening {
    revision: u64,
    brought: HashMap<Bytes, Option<Record>>,
}

/// Openings under way, by shard and partition: requests on one container all begin with its record, and read it together.
pub type Openings = Gather<(u64, Bytes), Result<Arc<Opening>, Fault>>;

impl Core {
    pub async fn open_view(self: &Arc<Self>, partition: &PartitionId) -> Result<RadosView, Fault> {
        let open = self.alive.open_view();
        let group = self.find_group(&partition.group).await?;
        // A fenced group shows nothing, whether it is swept or not.
        let shard = group.filter(|group| group.fenced.is_none()).map(|group| self.shard(partition, group.shards));
        let opening = match &shard {
            Some(shard) => {
                let id = (shard.hash, partition.key.clone());
                self.openings.read(id, async || self.read_opening(shard, &partition.key).await.map(Arc::new)).await?
            }
            None => Arc::default(),
        };
        Ok(RadosView {
            core: Arc::clone(self),
            shard,
            partition: partition.key.clone(),
            shown: Mutex::new(Shown { revision: opening.revision, is_shown: false }),
            opening,
            _open: open,
        })
    }

    async fn read_opening(&self, shard: &Shard, partition: &Bytes) -> Result<Opening, Fault> {
        let keys: Vec<Bytes> = BROUGHT_FAMILIES.map(|family| key::record(Family(family), partition, b"")).collect();
        let (revision, mut found) = self.read_shard(shard, partition, vec![Look::Keys(keys.clone())]).await?;
        let mut brought: HashMap<_, _> = keys.into_iter().map(|key| (key, None)).collect();
        let records = self.records(shard, found.pop())?;
        brought.extend(records.into_iter().map(|(key, record)| (key, Some(record))));
        let is_plain = |family: &u8| match brought.get(&key::record(Family(*family), partition, b"")) {
            Some(Some(record)) => record.slices.is_empty(),
            _ => true,
        };
        let plain = Plain::of(Revision(revision), BROUGHT_FAMILIES.filter(is_plain));
        self.memo.note_opening(shard.hash, partition.clone(), plain);
        Ok(Opening { revision, brought })
    }

    /// What the looks find, and the revision of the partition that they are of.
    async fn read_shard(
        &self,
        shard: &Shard,
        partition: &Bytes,
        mut looks: Vec<Look>,
    ) -> Result<(u64, Vec<Found>), Fault> {
        let (nothing, head) = (looks_empty(&looks), key::head(partition));
        // Among the keys that are looked for first, if there are any: one step less for the cluster.
        let is_among_others = matches!(looks.first(), Some(Look::Keys(_)));
        match looks.first_mut() {
            Some(Look::Keys(keys)) => keys.push(head.clone()),
            _ => looks.insert(0, Look::Keys(vec![head.clone()])),
        }
        let (revision, found) = match self.objects.read(Pool::Records, &shard.object, looks).await {
            Ok(mut seen) => {
                let first = match seen.found.first_mut() {
                    Some(Found::Entries(first)) => first,
                    _ => return Err(corrupt(shard, "an answer")),
                };
                let revision = match first.iter().position(|(key, _)| *key == head).map(|at| first.remove(at)) {
                    Some((_, stored)) => value::read_revision(stored).ok_or_else(|| corrupt(shard, "a head"))?.0,
                    None => 0,
                };
                if !is_among_others {
                    seen.found.remove(0);
                }
                (revision, seen.found)
            }
            Err(OpError::Missing) => (0, nothing),
            Err(error) => return Err(fault("reading a shard", error)),
        };
        self.hlc.observe(revision);
        Ok((revision, found))
    }

    fn records(&self, shard: &Shard, found: Option<Found>) -> Result<Vec<(Bytes, Record)>, Fault> {
        let (Some(Found::Entries(entries)) | Some(Found::Page { entries, .. })) = found else {
            return Err(corrupt(shard, "an answer"));
        };
        let record = |(key, stored): (Bytes, Bytes)| {
            let record = value::read_record(stored).ok_or_else(|| corrupt(shard, "a record"))?;
            if record.slices.is_empty() {
                self.memo.note_plain(shard.hash, key.clone(), record.revision);
            }
            Ok((key, record))
        };
        entries.into_iter().map(record).collect()
    }
}

fn corrupt(shard: &Shard, what: &str) -> Fault {
    Fault::Corrupt { what: format!("{what} of {}", shard.object) }
}

impl RadosView {
    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Reads of the view's state; `Moved` if it is gone.
    async fn read(&self, shard: &Shard, looks: Vec<Look>) -> Result<Option<Found>, Fault> {
        let (revision, mut found) = self.core.read_shard(shard, &self.partition, looks).await?;
        let mut shown = self.shown();
        if shown.is_shown && shown.revision != revision {
            return Err(Fault::Moved);
        }
        *shown = Shown { revision, is_shown: true };
        Ok(found.pop())
    }

    async fn read_range(&self, family: Family, range: &KeyRange, limit: usize) -> Result<Vec<(Bytes, Record)>, Fault> {
        // Without the shard there is nothing.
        let Some(shard) = &self.shard else { return Ok(Vec::new()) };
        let prefix = key::records(family, &self.partition);
        let mut after = match &range.start {
            Bound::Unbounded => prefix.clone(),
            Bound::Included(key) => key::before_record(family, &self.partition, key).freeze(),
            Bound::Excluded(key) => key::record(family, &self.partition, key),
        };
        let is_beyond = |key: &Bytes| match &range.end {
            Bound::Unbounded => false,
            Bound::Included(end) => key > end,
            Bound::Excluded(end) => key >= end,
        };
        let mut rows = Vec::new();
        while rows.len() < limit {
            let wanted = (limit - rows.len()).min(RANGE_ENTRIES) as u64;
            let look = Look::Range { after: after.clone(), prefix: prefix.clone(), limit: wanted };
            let found = self.read(shard, vec![look]).await?;
            let more = matches!(found, Some(Found::Page { more: true, .. }));
            let found = self.core.records(shard, found)?;
            let is_empty = found.is_empty();
            for (stored, record) in found {
                let (_, key) = key::split_record(family, &stored).ok_or_else(|| corrupt(shard, "a key"))?;
                if is_beyond(&key) {
                    return Ok(rows);
                }
                after = stored;
                rows.push((key, record));
            }
            if !more || is_empty {
                break;
            }
        }
        Ok(rows)
    }
}

/// What looks find where there is nothing.
fn looks_empty(looks: &[Look]) -> Vec<Found> {
    looks
        .iter()
        .map(|look| match look {
            Look::Keys(_) => Found::Entries(Vec::new()),
            Look::Range { .. } => Found::Page { entries: Vec::new(), more: false },
            Look::Bytes { .. } => Found::Bytes(Bytes::new()),
            Look::Attributes => Found::Attributes(Vec::new()),
        })
        .collect()
}

impl View for RadosView {
    fn revision(&self) -> Revision {
        let mut shown = self.shown();
        shown.is_shown = true;
        Revision(shown.revision)
    }

    fn get<'a>(&'a self, family: Family, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Record>, Fault>> {
        Box::pin(async move {
            let Some(shard) = &self.shard else { return Ok(None) };
            let key = key::record(family, &self.partition, key);
            if let Some(brought) = self.opening.brought.get(&key) {
                let mut shown = self.shown();
                if shown.revision == self.opening.revision {
                    shown.is_shown = true;
                    return Ok(brought.clone());
                }
            }
            let found = self.read(shard, vec![Look::Keys(vec![key])]).await?;
            Ok(self.core.records(shard, found)?.pop().map(|(_, record)| record))
        })
    }

    fn scan<'a>(
        &'a self,
        family: Family,
        range: &'a KeyRange,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<(Bytes, Record)>, Fault>> {
        Box::pin(self.read_range(family, range, limit))
    }
}

impl Core {
    /// A page of a group: as much of each shard as one operation gives, merged in order up to where the first of them may go on.
    pub async fn scan_group(&self, range: &GroupRange, limit: usize) -> Result<Page, Fault> {
        let nothing = Page { rows: Vec::new(), more: false };
        let Some(group) = self.find_group(&range.group).await?.filter(|group| group.fenced.is_none()) else {
            return Ok(nothing);
        };
        let after = match &range.start {
            ScanStart::AtPartition(partition) => key::before_partition(range.family, partition).freeze(),
            ScanStart::After { partition, key } => key::record(range.family, partition, key),
        };
        let end = range.before_partition.as_ref().map(|partition| key::before_partition(range.family, partition));
        let wanted = limit.clamp(1, RANGE_ENTRIES) as u64;
        let look = Look::Range { after, prefix: key::family(range.family), limit: wanted };
        let reads: Vec<_> = (0..group.shards)
            .map(|shard| self.objects.read(Pool::Records, &key::shard_object(&range.group, shard), vec![look.clone()]))
            .map(tokio::spawn)
            .collect();
        let mut pages = Vec::with_capacity(reads.len());
        for read in reads {
            let answer =
                read.await.map_err(|_| Fault::Other { doing: "scanning".into(), detail: "a task died".into() })?;
            match answer {
                Ok(mut seen) => match seen.found.pop() {
                    Some(Found::Page { entries, more }) => pages.push((entries, more)),
                    _ => return Err(Fault::Corrupt { what: "the answer to a scan".into() }),
                },
                Err(OpError::Missing) => {}
                Err(error) => return Err(fault("scanning a shard", error)),
            }
        }
        let (stored, more) = merge(pages, end.as_deref(), limit);
        let mut rows = Vec::with_capacity(stored.len());
        for (stored_key, stored) in stored {
            let corrupt = || Fault::Corrupt { what: format!("a record of group {:?}", range.group) };
            let (partition, key) = key::split_record(range.family, &stored_key).ok_or_else(corrupt)?;
            rows.push(Row { partition, key, record: value::read_record(stored).ok_or_else(corrupt)? });
        }
        Ok(Page { rows, more })
    }
}

type Entry = (Bytes, Bytes);

/// The first entries of several ordered pages, none of them after one that a page may still hold back, and whether there may be more.
fn merge(pages: Vec<(Vec<Entry>, bool)>, end: Option<&[u8]>, limit: usize) -> (Vec<Entry>, bool) {
    let unfinished = pages.iter().filter(|(_, more)| *more).filter_map(|(entries, _)| entries.last());
    let known_to = unfinished.map(|(key, _)| key.clone()).min();
    let mut merged: Vec<Entry> = pages.into_iter().flat_map(|(entries, _)| entries).collect();
    merged.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    let is_inside = |key: &Bytes| end.is_none_or(|end| key.as_ref() < end);
    let mut more = known_to.as_ref().is_some_and(is_inside);
    merged.retain(|(key, _)| is_inside(key));
    if let Some(known_to) = known_to {
        merged.retain(|(key, _)| *key <= known_to);
    }
    if merged.len() > limit {
        merged.truncate(limit);
        more = true;
    }
    (merged, more)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(keys: &str, more: bool) -> (Vec<Entry>, bool) {
        (keys.split_whitespace().map(|key| (Bytes::copy_from_slice(key.as_bytes()), Bytes::new())).collect(), more)
    }

    #[test]
    fn pages_merge_as_far_as_all_of_them_are_known() {
        for (pages, end, limit, expected, more) in [
            (vec![page("a c e", false), page("b d", false)], None, 9, "a b c d e", false),
            (vec![page("a c e", false), page("b d", false)], None, 3, "a b c", true),
            (vec![page("a c", true), page("b d", false)], None, 9, "a b c", true),
            (vec![page("a e", true), page("b d", true)], None, 9, "a b d", true),
            (vec![page("a e", true), page("b d", true)], Some("c"), 9, "a b", false),
            (vec![page("a e", true), page("b d", true)], Some("e"), 9, "a b d", true),
            (vec![page("", false), page("x", false)], None, 9, "x", false),
            (Vec::new(), None, 9, "", false),
        ] {
            let (merged, is_more) = merge(pages.clone(), end.map(str::as_bytes), limit);
            let keys: Vec<_> = merged.iter().map(|(key, _)| String::from_utf8_lossy(key).into_owned()).collect();
            assert_eq!((keys.join(" ").as_str(), is_more), (expected, more), "{pages:?}");
        }
    }
}
