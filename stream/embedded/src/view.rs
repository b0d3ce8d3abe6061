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
use crate::store::Store;
use crate::{Embedded, fault, key};

/// A page ends early when it holds this much.
const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

pub struct EmbeddedView {
    partition: PartitionId,
    snapshot: Snapshot,
    hold: ViewHold,
    store: Arc<Store>,
}

impl Embedded {
    pub(crate) fn open_view(&self, partition: &PartitionId) -> EmbeddedView {
        // In this order. The number is published after its batch can be seen, so the snapshot shows at least as much as
        // the number says: a guard may fail for nothing, never pass for nothing. And the number is registered before
        // the snapshot is taken, as `alive.rs` asks.
        let hold = self.alive.open_view(self.published.load(Ordering::Acquire));
        let snapshot = self.store.db.snapshot();
        EmbeddedView { partition: partition.clone(), snapshot, hold, store: Arc::clone(&self.store) }
    }
}

impl View for EmbeddedView {
    fn revision(&self) -> Revision {
        Revision(self.hold.number)
    }

    fn get<'a>(&'a self, family: Family, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Record>, Fault>> {
        Box::pin(async move {
            let key = key::record_key(&self.partition, family, key);
            let stored = self.snapshot.get(&self.store.records, &key);
            match stored.map_err(|error| fault("reading a record", error))? {
                None => Ok(None),
                Some(stored) => decode(&key, stored.into()).map(Some),
            }
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
            for row in self.snapshot.range::<Vec<u8>, _>(&self.store.records, (start, end)).take(limit) {
                let (key, stored) = row.into_inner().map_err(|error| fault("reading records", error))?;
                let record = decode(&key, stored.into())?;
                found.push((Bytes::from(key).slice(prefix.len()..), record));
            }
            Ok(found)
        })
    }
}

pub fn scan_group(store: &Store, range: &GroupRange, limit: usize) -> Result<Page, Fault> {
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
    let snapshot = store.db.snapshot();
    for row in snapshot.range::<Vec<u8>, _>(&store.records, (start, end)) {
        if page.rows.len() >= limit || bytes >= PAGE_BYTES_MAX {
            page.more = true;
            break;
        }
        let (key, stored) = row.into_inner().map_err(|error| fault("reading records", error))?;
        bytes += key.len() + stored.len();
        let record = decode(&key, stored.into())?;
        let Some((partition, key)) = key::split_partition(&Bytes::from(key).slice(prefix.len()..)) else {
            return Err(Fault::Corrupt { what: format!("a record key of group {:?}", range.group) });
        };
        page.rows.push(Row { partition, key, record });
    }
    Ok(page)
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
