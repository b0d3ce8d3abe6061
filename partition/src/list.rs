//! Listings of names: of a directory, of a container.
//!
//! A page costs what it shows: the scan starts at the marker, and a prefix that collapses is stepped over, not walked through. A
//! marker is the name to go on from, so it stays right while names come and go.

use bytes::Bytes;
use engine::{Engine, Family, Fault, GroupId, GroupRange, Row, ScanStart};

use crate::key;
use crate::record::corrupt;

/// What to list, and where to go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listing {
    pub prefix: String,
    pub delimiter: Option<String>,
    /// The first name to list.
    pub start: String,
    pub results_max: usize,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry<T> {
    Item {
        name: String,
        head: T,
    },
    /// Names that share everything up to the delimiter.
    Prefix(String),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed<T> {
    pub entries: Vec<Entry<T>>,
    /// The name to go on from.
    pub next: Option<String>,
}

/// Rows asked of the engine at once: few where a delimiter may make most of them useless, more while it does not.
const SCAN_ROWS_MIN: usize = 8;
const SCAN_ROWS_MAX: usize = 1000;

pub(crate) async fn walk<T>(
    engine: &dyn Engine,
    group: &GroupId,
    family: Family,
    listing: &Listing,
    decode: fn(&[u8]) -> Result<T, Fault>,
) -> Result<Listed<T>, Fault> {
    let end = key::after_prefix(listing.prefix.as_bytes());
    let first = listing.start.as_str().max(listing.prefix.as_str());
    let mut start = ScanStart::AtPartition(Bytes::copy_from_slice(first.as_bytes()));
    let mut entries: Vec<Entry<T>> = Vec::new();
    let rows_at_first = if listing.delimiter.is_some() { SCAN_ROWS_MIN } else { SCAN_ROWS_MAX };
    let mut rows = rows_at_first;
    'scan: loop {
        // One more than is shown, to know the name to go on from.
        let wanted = (listing.results_max + 1 - entries.len()).min(rows);
        rows = (rows * 2).min(SCAN_ROWS_MAX);
        let range = GroupRange { group: group.clone(), family, start, before_partition: end.clone() };
        let page = engine.scan(&range, wanted).await?;
        let mut last = None;
        for Row { partition, key, record } in page.rows {
            let name = String::from_utf8(partition.to_vec()).map_err(|_| corrupt("a name", &partition))?;
            let collapsed = collapse(&name, listing);
            if entries.len() == listing.results_max {
                let next = collapsed.unwrap_or(name);
                return Ok(Listed { entries, next: Some(next) });
            }
            if let Some(collapsed) = collapsed {
                let after = key::after_prefix(collapsed.as_bytes());
                entries.push(Entry::Prefix(collapsed));
                match after {
                    Some(after) => {
                        rows = rows_at_first;
                        start = ScanStart::AtPartition(after);
                        continue 'scan;
                    }
                    None => return Ok(Listed { entries, next: None }),
                }
            }
            entries.push(Entry::Item { name, head: decode(&record.value)? });
            last = Some((partition, key));
        }
        match last {
            Some((partition, key)) if page.more => start = ScanStart::After { partition, key },
            _ => return Ok(Listed { entries, next: None }),
        }
    }
}

/// The name up to and with the first delimiter behind the prefix.
pub(crate) fn collapse(name: &str, listing: &Listing) -> Option<String> {
    let delimiter = listing.delimiter.as_deref().filter(|delimiter| !delimiter.is_empty())?;
    let at = name.get(listing.prefix.len()..)?.find(delimiter)?;
    Some(name[..listing.prefix.len() + at + delimiter.len()].to_string())
}
