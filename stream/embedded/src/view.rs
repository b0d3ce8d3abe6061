//! Views and scans: reading what was committed, through fjall's snapshots.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use engine::{
    BoxFuture, Family, Fault, GroupRange, KeyRange, Page, PartitionId, Record, Revision, Row, ScanStart, View,
};
use fjall::{Readable, Snapshot};

use crate::alive::ViewHold;
use crate::buffered::{Buffered, Over};
use crate::store::Store;
use crate::{Embedded, fault, key};

/// A page ends early when it holds this much.
const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

pub struct EmbeddedView {
    partition: PartitionId,
    snapshot: Snapshot,
    over: Over,
    hold: ViewHold,
    store: Arc<Store>,
}

impl Embedded {
    pub(crate) fn open_view(&self, partition: &PartitionId) -> Result<EmbeddedView, Fault> {
        // In this order. The number is published after its batch can be seen, so the snapshot shows at least as much as
        // the number says: a guard may fail for nothing, never pass for nothing. And the number is registered before
        // the snapshot is taken, as `alive.rs` asks.
        let hold = self.alive.open_view(self.numbers.published.load(Ordering::Acquire));
        let (over, snapshot) = newest(&self.store, &self.buffered)?;
        Ok(EmbeddedView { partition: partition.clone(), snapshot, over, hold, store: Arc::clone(&self.store) })
    }
}

/// A snapshot of what is written, and what lies over it: together one committed state.
fn newest(store: &Store, buffered: &Buffered) -> Result<(Over, Snapshot), Fault> {
    buffered.over(|| store.db.snapshot(), |snapshot| store.number_in(snapshot))
}

impl View for EmbeddedView {
    fn revision(&self) -> Revision {
        Revision(self.hold.number)
    }

    fn get<'a>(&'a self, family: Family, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Record>, Fault>> {
        Box::pin(async move {
            let key = key::record_key(&self.partition, family, key);
            let stored = match self.over.get(&key) {
                Some(buffered) => buffered,
                None => {
                    let stored = self.snapshot.get(&self.store.records, &key);
                    stored.map_err(|error| fault("reading a record", error))?.map(Bytes::from)
                }
            };
            stored.map(|stored| decode(&key, stored)).transpose()
        })
    }

    fn scan<'a>(
        &'a self,
        family: Family,
        range: &'a KeyRange,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<(Bytes, Record)>, Fault>> {
        Box::pin(async move {
            let prefix = key::partition_prefix(&self.partition.group, family, &self.partition.key);
            let of = |key: &Bytes| [&prefix, key.as_ref()].concat();
            let start = match &range.start {
                Bound::Included(key) => Bound::Included(of(key)),
                Bound::Excluded(key) => Bound::Excluded(of(key)),
                Bound::Unbounded => Bound::Included(prefix.clone()),
            };
            let end = match &range.end {
                Bound::Included(key) => Bound::Included(of(key)),
                Bound::Excluded(key) => Bound::Excluded(of(key)),
                Bound::Unbounded => upper(prefix.clone()),
            };
            let mut found = Vec::new();
            if is_empty(&start, &end) {
                return Ok(found);
            }
            for row in rows(&self.store, &self.snapshot, &self.over, (start, end), limit).take(limit) {
                let (key, stored) = row?;
                let record = decode(&key, stored)?;
                found.push((key.slice(prefix.len()..), record));
            }
            Ok(found)
        })
    }
}

pub fn scan_group(store: &Store, buffered: &Buffered, range: &GroupRange, limit: usize) -> Result<Page, Fault> {
    let prefix = key::family_prefix(&range.group, range.family);
    let start = match &range.start {
        ScanStart::AtPartition(partition) => {
            Bound::Included(key::partition_prefix(&range.group, range.family, partition))
        }
        ScanStart::After { partition, key } => {
            let mut after = key::partition_prefix(&range.group, range.family, partition);
            after.extend_from_slice(key);
            Bound::Excluded(after)
        }
    };
    let end = match &range.before_partition {
        Some(before) => Bound::Excluded(key::partition_prefix(&range.group, range.family, before)),
        None => upper(prefix.clone()),
    };
    let mut page = Page { rows: Vec::new(), more: false };
    if is_empty(&start, &end) {
        return Ok(page);
    }
    let mut bytes = 0;
    let (over, snapshot) = newest(store, buffered)?;
    // One more than the page has, to know whether there are more.
    for row in rows(store, &snapshot, &over, (start, end), limit.saturating_add(1)) {
        if page.rows.len() >= limit || bytes >= PAGE_BYTES_MAX {
            page.more = true;
            break;
        }
        let (key, stored) = row?;
        bytes += key.len() + stored.len();
        let record = decode(&key, stored)?;
        let Some((partition, key)) = key::split_partition(&key.slice(prefix.len()..)) else {
            return Err(Fault::Corrupt { what: format!("a record key of group {:?}", range.group) });
        };
        page.rows.push(Row { partition, key, record });
    }
    Ok(page)
}

/// The first records between the bounds, at least `records_max` of them if there are as many: those of fjall, and over them what
/// is buffered.
fn rows<'a>(
    store: &'a Store,
    snapshot: &'a Snapshot,
    over: &Over,
    (start, end): (Bound<Vec<u8>>, Bound<Vec<u8>>),
    records_max: usize,
) -> impl Iterator<Item = Result<(Bytes, Bytes), Fault>> + 'a {
    let mut over = over.range(&start, &end, records_max).into_iter().peekable();
    let stored = snapshot.range::<Vec<u8>, _>(&store.records, (start, end)).map(|row| match row.into_inner() {
        Ok((key, stored)) => Ok((Bytes::from(key), Bytes::from(stored))),
        Err(error) => Err(fault("reading records", error)),
    });
    let mut stored = stored.peekable();
    std::iter::from_fn(move || {
        loop {
            let (key, _) = match (stored.peek(), over.peek()) {
                (_, None) | (Some(Err(_)), _) => return stored.next(),
                (Some(Ok((below, _))), Some((key, _))) if below < key => return stored.next(),
                (_, Some(above)) => above,
            };
            stored.next_if(|row| matches!(row, Ok((below, _)) if below == key));
            if let Some((key, Some(value))) = over.next() {
                return Some(Ok((key, value)));
            }
        }
    })
}

fn decode(key: &[u8], stored: Bytes) -> Result<Record, Fault> {
    key::decode_record(stored)
        .ok_or_else(|| Fault::Corrupt { what: format!("the record at {:?}", Bytes::copy_from_slice(key)) })
}

fn upper(prefix: Vec<u8>) -> Bound<Vec<u8>> {
    key::after_prefix(prefix).map_or(Bound::Unbounded, Bound::Excluded)
}

/// Whether nothing can lie between the bounds. fjall, like the standard library, takes crossing bounds for a mistake.
fn is_empty(start: &Bound<Vec<u8>>, end: &Bound<Vec<u8>>) -> bool {
    match (start, end) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(start), Bound::Included(end)) => start > end,
        (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end) | Bound::Included(end)) => start >= end,
    }
}
