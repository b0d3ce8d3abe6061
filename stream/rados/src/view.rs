//! Views and scans.
//!
//! A shard keeps no old states. So a view remembers the partition's revision, every later read brings the head along, and when it has
//! changed the view answers `Moved`: what it shows is one committed state or nothing. A view that has shown nothing yet just takes the
//! newer state.
//!
//! Records with an empty key are what most commands begin with (the head of a blob and its small body, a queue's state), so opening a
//! view brings those of the first families along: a small read is one operation.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use engine::{
    BoxFuture, Family, Fault, GroupRange, KeyRange, Page, PartitionId, Record, Revision, Row, ScanStart, View,
};
use librados::{Found, Look, OpError, Pool};

use crate::alive::OpenView;
use crate::shard::Shard;
use crate::{Core, entries, fault, key, value};

/// The families whose record with an empty key comes with a view.
const BROUGHT_FAMILIES: std::ops::RangeInclusive<u8> = 1..=9;

/// Entries asked for at once; clusters give no more than about so many.
const RANGE_ENTRIES: usize = 1024;

pub struct RadosView {
    core: Arc<Core>,
    /// None if the group is not entered.
    shard: Option<Arc<Shard>>,
    partition: Bytes,
    revision: AtomicU64,
    /// Something was told of this state.
    is_shown: AtomicBool,
    /// What came with the opening, by its key, and the revision it is of.
    brought: HashMap<Bytes, Option<Record>>,
    brought_revision: u64,
    _open: OpenView,
}

impl Core {
    pub async fn open_view(self: &Arc<Self>, partition: &PartitionId) -> Result<RadosView, Fault> {
        let open = self.alive.open_view();
        let group = self.find_group(&partition.group).await?;
        // A fenced group shows nothing, whether it is swept or not.
        let shard = group.filter(|group| group.fenced.is_none()).map(|group| self.shard(partition, group.shards));
        let mut view = RadosView {
            core: Arc::clone(self),
            shard,
            partition: partition.key.clone(),
            revision: AtomicU64::new(0),
            is_shown: AtomicBool::new(false),
            brought: HashMap::new(),
            brought_revision: 0,
            _open: open,
        };
        let keys: Vec<Bytes> =
            BROUGHT_FAMILIES.map(|family| key::record(Family(family), &partition.key, b"")).collect();
        let mut found = view.read(vec![Look::Keys(keys.clone())]).await?;
        let found = view.records(found.pop())?;
        view.brought = keys.into_iter().map(|key| (key, None)).collect();
        view.brought.extend(found.into_iter().map(|(key, record)| (key, Some(record))));
        view.brought_revision = view.revision.load(Ordering::Acquire);
        view.is_shown = AtomicBool::new(false);
        Ok(view)
    }
}

impl RadosView {
    /// Reads of the view's state; `Moved` if it is gone. Without the shard there is nothing, which is what is found.
    async fn read(&self, mut looks: Vec<Look>) -> Result<Vec<Found>, Fault> {
        let empty = || looks_empty(&looks);
        let Some(shard) = &self.shard else { return Ok(empty()) };
        let nothing = empty();
        let head = key::head(&self.partition);
        looks.insert(0, Look::Keys(vec![head]));
        let (revision, found) = match self.core.objects.read(Pool::Records, &shard.object, looks).await {
            Ok(mut seen) => {
                let rest = seen.found.split_off(1.min(seen.found.len()));
                let stored = entries(seen, 0)?.pop();
                let revision = match stored {
                    Some((_, stored)) => value::read_revision(stored).ok_or_else(|| self.corrupt("a head"))?.0,
                    None => 0,
                };
                (revision, rest)
            }
            Err(OpError::Missing) => (0, nothing),
            Err(error) => return Err(fault("reading a shard", error)),
        };
        self.core.hlc.observe(revision);
        if self.is_shown.swap(true, Ordering::AcqRel) {
            if self.revision.load(Ordering::Acquire) != revision {
                return Err(Fault::Moved);
            }
        } else {
            self.revision.store(revision, Ordering::Release);
        }
        Ok(found)
    }

    fn records(&self, found: Option<Found>) -> Result<Vec<(Bytes, Record)>, Fault> {
        let (Some(Found::Entries(entries)) | Some(Found::Page { entries, .. })) = found else {
            return Err(self.corrupt("an answer"));
        };
        entries.into_iter().map(|(key, stored)| Ok((key.clone(), self.record(key, stored)?))).collect()
    }

    fn record(&self, key: Bytes, stored: Bytes) -> Result<Record, Fault> {
        let record = value::read_record(stored).ok_or_else(|| self.corrupt("a record"))?;
        if let (true, Some(shard)) = (record.slices.is_empty(), &self.shard) {
            self.core.memo.note_plain(shard.hash, key, record.revision);
        }
        Ok(record)
    }

    fn corrupt(&self, what: &str) -> Fault {
        let object = self.shard.as_ref().map_or("", |shard| &shard.object);
        Fault::Corrupt { what: format!("{what} of {object}") }
    }

    async fn read_range(&self, family: Family, range: &KeyRange, limit: usize) -> Result<Vec<(Bytes, Record)>, Fault> {
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
            let found = self.read(vec![look]).await?.pop();
            let more = matches!(found, Some(Found::Page { more: true, .. }));
            let found = self.records(found)?;
            let is_empty = found.is_empty();
            for (stored, record) in found {
                let (_, key) = key::split_record(family, &stored).ok_or_else(|| self.corrupt("a key"))?;
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
        self.is_shown.store(true, Ordering::Release);
        Revision(self.revision.load(Ordering::Acquire))
    }

    fn get<'a>(&'a self, family: Family, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Record>, Fault>> {
        Box::pin(async move {
            let key = key::record(family, &self.partition, key);
            // Shown first, so that the state cannot become a newer one after it was compared.
            if let Some(brought) = self.brought.get(&key)
                && !(self.is_shown.swap(true, Ordering::AcqRel)
                    && self.revision.load(Ordering::Acquire) != self.brought_revision)
            {
                return Ok(brought.clone());
            }
            let found = self.read(vec![Look::Keys(vec![key])]).await?.pop();
            Ok(self.records(found)?.pop().map(|(_, record)| record))
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
