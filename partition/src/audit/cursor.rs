//! One family of a group, record by record.

use bytes::Bytes;
use engine::{Family, Fault, GroupId, GroupRange, Row, ScanStart};

use super::Records;

/// Records asked for at once.
const ROWS_AT_ONCE: usize = 256;

pub struct Cursor<'a> {
    records: &'a dyn Records,
    range: GroupRange,
    page: std::vec::IntoIter<Row>,
    is_over: bool,
    peeked: Option<Row>,
}

impl<'a> Cursor<'a> {
    pub fn new(records: &'a dyn Records, group: &GroupId, family: Family) -> Self {
        let start = ScanStart::AtPartition(Bytes::new());
        let range = GroupRange { group: group.clone(), family, start, before_partition: None };
        Cursor { records, range, page: Vec::new().into_iter(), is_over: false, peeked: None }
    }

    /// From the first record of this partition whose key is not less than `key`.
    pub fn from(mut self, partition: Bytes, key: &[u8]) -> Self {
        // The engine goes on behind a key; the one before `key` ends where it begins, or it begins with the partition.
        self.range.start = match key.split_last() {
            None => ScanStart::AtPartition(partition),
            Some((0, before)) => ScanStart::After { partition, key: Bytes::copy_from_slice(before) },
            Some((last, before)) => {
                let before = [before, &[last - 1, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]].concat();
                ScanStart::After { partition, key: before.into() }
            }
        };
        self
    }

    pub fn next(&mut self) -> Result<Option<Row>, Fault> {
        if let Some(row) = self.peeked.take() {
            return Ok(Some(row));
        }
        loop {
            if let Some(row) = self.page.next() {
                return Ok(Some(row));
            }
            if self.is_over {
                return Ok(None);
            }
            let page = self.records.scan(&self.range, ROWS_AT_ONCE)?;
            self.is_over = !page.more;
            if let Some(Row { partition, key, .. }) = page.rows.last() {
                self.range.start = ScanStart::After { partition: partition.clone(), key: key.clone() };
            }
            self.page = page.rows.into_iter();
        }
    }

    pub fn peek(&mut self) -> Result<Option<&Row>, Fault> {
        if self.peeked.is_none() {
            self.peeked = self.next()?;
        }
        Ok(self.peeked.as_ref())
    }

    /// The next one, if it is of this partition.
    pub fn next_of(&mut self, partition: &[u8]) -> Result<Option<Row>, Fault> {
        self.next_if(|row| row.partition == partition)
    }

    pub fn next_if(&mut self, is_wanted: impl FnOnce(&Row) -> bool) -> Result<Option<Row>, Fault> {
        match self.peek()? {
            Some(row) if is_wanted(row) => Ok(self.peeked.take()),
            _ => Ok(None),
        }
    }
}
