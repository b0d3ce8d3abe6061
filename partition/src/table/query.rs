//! A page of a query: the planned keys are read in order, in steps that bound memory, until the page is full, enough has been read, or
//! nothing is left.
//!
//! 1. Of one partition a page shows one committed state (promises E2, T5): its rows come from one view, or all from one step of a scan.
//! 2. Where to go on is a key, not a row: rows that come or go meanwhile neither hide nor repeat another.
//! 3. No row outside `within` is read, let alone shown.
//! 4. What a request reads, keeps and holds in memory is bounded, however little matches.

use std::ops::Bound;

use bytes::Bytes;
use engine::{Fault, GroupRange, KeyRange, Record, ScanStart};

use super::filter::Filter;
use super::plan::{Keys, Rows, Span, plan};
use super::tables::Found;
use super::value::ValueRef;
use crate::execute::{Failure, Shell};
use crate::key::table;
use crate::record::{StoredEntity, corrupt};

pub struct Query {
    pub filter: Option<Filter>,
    /// The only keys that may be shown: what a token allows, from where the last page ended.
    pub within: Keys,
    pub results_max: usize,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entity {
    pub partition_key: String,
    pub row_key: String,
    pub stored: StoredEntity,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    pub entities: Vec<Entity>,
    /// The keys to go on from.
    pub next: Option<(String, String)>,
}

/// What one request reads and keeps at most.
const READ_ROWS_MAX: usize = 20_000;
const READ_BYTES_MAX: usize = 16 * 1024 * 1024;
const KEPT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Rows read at once: few at first, more while the page is not full, fewer where they are large.
const STEP_ROWS_MIN: usize = 16;
const STEP_ROWS_MAX: usize = 128;
const STEP_BYTES: usize = 4 * 1024 * 1024;

pub async fn query(shell: &Shell, table: &Found, query: &Query) -> Result<Page, Failure> {
    let keys = match &query.filter {
        Some(filter) => plan(filter).and(&query.within),
        None => query.within.clone(),
    };
    let mut reading = Reading {
        shell,
        table,
        query,
        page: Page { entities: Vec::new(), next: None },
        count: Count { entities: 0, rows_read: 0, bytes_read: 0, bytes_kept: 0, largest_row: 1, step: STEP_ROWS_MIN },
    };
    for (partitions, rows) in keys.spans() {
        let more = match partitions.only() {
            Some(partition) => reading.read_partition(partition, rows).await?,
            None => reading.read_partitions(partitions, rows).await?,
        };
        if !more {
            break;
        }
    }
    table.still_there(shell).await?;
    Ok(reading.page)
}

struct Reading<'a> {
    shell: &'a Shell,
    table: &'a Found,
    query: &'a Query,
    page: Page,
    count: Count,
}

/// What a page holds so far, and what it cost.
#[derive(Clone, Copy)]
struct Count {
    entities: usize,
    rows_read: usize,
    bytes_read: usize,
    bytes_kept: usize,
    largest_row: usize,
    step: usize,
}

impl Reading<'_> {
    /// False once the page has its end. What the page shows of a partition is of one moment, so it is read aside, and if need be again.
    async fn read_partition(&mut self, partition: &[u8], rows: &Rows) -> Result<bool, Fault> {
        let id = engine::PartitionId { group: self.table.group.clone(), key: Bytes::copy_from_slice(partition) };
        let read = || async {
            let mut aside = Reading { page: Page { entities: Vec::new(), next: None }, ..*self };
            let more = aside.read_once(&id, rows).await?;
            Ok::<_, Fault>((aside.page, aside.count, more))
        };
        let (page, count, more) = self.shell.steadily(&id, read).await?;
        self.page.entities.extend(page.entities);
        (self.page.next, self.count) = (page.next, count);
        Ok(more)
    }

    async fn read_once(&mut self, id: &engine::PartitionId, rows: &Rows) -> Result<bool, Fault> {
        let (view, partition) = (self.shell.engine.view(id).await?, id.key.as_ref());
        for span in rows.spans() {
            if let Some(row) = span.only() {
                if let Some(record) = view.get(table::ENTITY, row).await?
                    && !self.take(partition, row, record)?
                {
                    return Ok(false);
                }
                continue;
            }
            let end = span.end.as_ref().map_or(Bound::Unbounded, |end| Bound::Excluded(Bytes::copy_from_slice(end)));
            let mut start = Bound::Included(Bytes::copy_from_slice(&span.start));
            loop {
                let step = self.next_step();
                let range = KeyRange { start, end: end.clone() };
                let found = view.scan(table::ENTITY, &range, step).await?;
                let Some((last, _)) = found.last().filter(|_| found.len() == step) else {
                    if !self.take_all(partition, found)? {
                        return Ok(false);
                    }
                    break;
                };
                start = Bound::Excluded(last.clone());
                if !self.take_all(partition, found)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    async fn read_partitions(&mut self, partitions: &Span, rows: &Rows) -> Result<bool, Fault> {
        let before_partition = partitions.end.as_ref().map(|end| Bytes::copy_from_slice(end));
        let mut start = partitions.start.clone();
        loop {
            let range = GroupRange {
                group: self.table.group.clone(),
                family: table::ENTITY,
                start: ScanStart::AtPartition(start.into()),
                before_partition: before_partition.clone(),
            };
            let step = self.next_step();
            let mut page = self.shell.engine.scan(&range, step).await?;
            let Some(last) = page.rows.last().map(|row| row.partition.clone()) else { return Ok(true) };
            if page.more {
                // The last partition may go on: it is read again as a whole.
                page.rows.retain(|row| row.partition != last);
            }
            for row in page.rows {
                if rows.contains(&row.key) && !self.take(&row.partition, &row.key, row.record)? {
                    return Ok(false);
                }
            }
            if !page.more {
                return Ok(true);
            }
            if !self.read_partition(&last, rows).await? {
                return Ok(false);
            }
            start = [last.as_ref(), &[0]].concat();
        }
    }

    fn next_step(&mut self) -> usize {
        let fits = (STEP_BYTES / self.count.largest_row).max(1);
        let mut step = self.count.step.min(fits);
        if self.query.filter.is_none() {
            // Every row is shown, and one more tells where to go on.
            step = step.min(self.query.results_max + 1 - self.count.entities);
        }
        self.count.step = (self.count.step * 2).min(STEP_ROWS_MAX);
        step
    }

    fn take_all(&mut self, partition: &[u8], found: Vec<(Bytes, Record)>) -> Result<bool, Fault> {
        for (row, record) in found {
            if !self.take(partition, &row, record)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Shows the row if it matches. False if there is no room for it: then the page ends before it.
    fn take(&mut self, partition: &[u8], row: &[u8], record: Record) -> Result<bool, Fault> {
        let (partition_key, row_key) = (text(partition)?, text(row)?);
        let is_full = self.count.entities >= self.query.results_max
            || self.count.rows_read >= READ_ROWS_MAX
            || self.count.bytes_read >= READ_BYTES_MAX
            || self.count.bytes_kept >= KEPT_BYTES_MAX;
        if is_full {
            self.page.next = Some((partition_key.to_string(), row_key.to_string()));
            return Ok(false);
        }
        let bytes = partition.len() + row.len() + record.value.len();
        self.count.rows_read += 1;
        self.count.bytes_read += bytes;
        self.count.largest_row = self.count.largest_row.max(bytes);
        let stored = StoredEntity::decode(record.value)?;
        let matches = self.query.filter.as_ref().is_none_or(|filter| {
            filter.matches(|name| match name {
                "PartitionKey" => Some(ValueRef::String(partition_key)),
                "RowKey" => Some(ValueRef::String(row_key)),
                "Timestamp" => Some(ValueRef::DateTime(stored.timestamp())),
                name => stored.property(name),
            })
        });
        if matches {
            self.count.bytes_kept += bytes;
            self.count.entities += 1;
            let (partition_key, row_key) = (partition_key.to_string(), row_key.to_string());
            self.page.entities.push(Entity { partition_key, row_key, stored });
        }
        Ok(true)
    }
}

fn text(key: &[u8]) -> Result<&str, Fault> {
    std::str::from_utf8(key).map_err(|_| corrupt("the key of an entity", key))
}

#[cfg(test)]
mod tests;
