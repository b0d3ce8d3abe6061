//! Where a blob's bytes are: in one record, or in runs.
//!
//! A blob written by one put has one BODY record with an empty key. One that is made of blocks or appended to has runs: each BODY record
//! holds the bytes that end with the offset in its key, so the run that holds an offset is the first one found from that offset on. An
//! append adds a run and touches no other; reading a range reads the runs it lies in.

use std::ops::Bound;

use bytes::Bytes;
use engine::{ExtentSlice, Fault, KeyRange, Record, View, Write};

use super::block::KEY;
use crate::execute::Reader;
use crate::key::container;
use crate::record::{BlobHead, corrupt};

/// A run of many slices would make reading a small range of it costly.
const RUN_SLICES_MAX: usize = 256;
/// Runs asked of the engine at once.
const RUNS_AT_ONCE: usize = 64;

fn everything() -> KeyRange {
    KeyRange { start: Bound::Unbounded, end: Bound::Unbounded }
}

/// The key of the run whose last byte is at `last`.
fn run_key(last: u64) -> Bytes {
    Bytes::copy_from_slice(&last.to_be_bytes())
}

/// One record of a body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    pub key: Bytes,
    pub value: Bytes,
    pub slices: Vec<ExtentSlice>,
}

impl Run {
    /// The whole of a body in one record.
    pub fn single((value, slices): (Bytes, Vec<ExtentSlice>)) -> Run {
        Run { key: KEY, value, slices }
    }

    /// Content of `bytes` bytes behind `offset`.
    pub fn behind(offset: u64, bytes: u64, (value, slices): (Bytes, Vec<ExtentSlice>)) -> Run {
        Run { key: run_key(offset + bytes - 1), value, slices }
    }

    fn put(self) -> Write {
        Write::Put { family: container::BODY, key: self.key, value: self.value, slices: self.slices }
    }
}

/// Slices in their order as runs from offset 0.
pub fn runs(slices: &[ExtentSlice]) -> Vec<Run> {
    let mut end = 0;
    let chunks = slices.chunks(RUN_SLICES_MAX).map(|chunk| {
        end += chunk.iter().map(|slice| slice.bytes).sum::<u64>();
        Run { key: run_key(end - 1), value: Bytes::new(), slices: chunk.to_vec() }
    });
    chunks.collect()
}

/// The keys under which a blob's body lies, to be replaced or removed.
pub async fn keys(reader: &Reader<'_>, head: Option<&BlobHead>) -> Result<Vec<Bytes>, Fault> {
    match head {
        Some(head) if head.content_bytes > 0 && head.in_runs => {
            let runs = reader.scan(container::BODY, &everything(), usize::MAX).await?;
            Ok(runs.into_iter().map(|(key, _)| key).collect())
        }
        Some(head) if head.content_bytes > 0 => Ok(vec![KEY]),
        _ => Ok(Vec::new()),
    }
}

/// All runs of a body that is in runs.
pub async fn all_runs(reader: &Reader<'_>) -> Result<Vec<Record>, Fault> {
    let runs = reader.scan(container::BODY, &everything(), usize::MAX).await?;
    Ok(runs.into_iter().map(|(_, record)| record).collect())
}

/// Puts the new body in the place of the old one.
pub fn replace(old: &[Bytes], new: Vec<Run>) -> Vec<Write> {
    let gone = old.iter().filter(|key| new.iter().all(|run| run.key != **key));
    let mut writes: Vec<Write> = gone.map(|key| Write::Delete { family: container::BODY, key: key.clone() }).collect();
    writes.extend(new.into_iter().map(Run::put));
    writes
}

/// Adds to a body that is in runs.
pub fn append(run: Run) -> Write {
    run.put()
}

/// The records that hold `bytes` bytes from `first`, and where in them these begin.
pub async fn records(view: &dyn View, head: &BlobHead, first: u64, bytes: u64) -> Result<(Vec<Record>, u64), Fault> {
    if bytes == 0 {
        return Ok((Vec::new(), 0));
    }
    let missing = || corrupt("a body that is not there", b"");
    if !head.in_runs {
        let record = view.get(container::BODY, &KEY).await?.ok_or_else(missing)?;
        return Ok((vec![record], first));
    }
    let last = first + bytes - 1;
    let mut records = Vec::new();
    let mut skipped = 0;
    let mut start = Bound::Included(run_key(first));
    loop {
        let range = KeyRange { start: start.clone(), end: Bound::Unbounded };
        let page = view.scan(container::BODY, &range, RUNS_AT_ONCE).await?;
        let Some((last_key, _)) = page.last() else { return Err(missing()) };
        let (last_key, page_full) = (last_key.clone(), page.len() == RUNS_AT_ONCE);
        for (key, record) in page {
            let key: [u8; 8] = key.as_ref().try_into().map_err(|_| corrupt("the key of a run", &key))?;
            let end = u64::from_be_bytes(key);
            if records.is_empty() {
                let begin = (end + 1).checked_sub(stored_bytes(&record)).filter(|begin| *begin <= first);
                skipped = first - begin.ok_or_else(|| corrupt("a run shorter than it should be", &record.value))?;
            }
            records.push(record);
            if end >= last {
                return Ok((records, skipped));
            }
        }
        if !page_full {
            return Err(missing());
        }
        start = Bound::Excluded(last_key);
    }
}

/// How many bytes of a body a record holds.
pub fn stored_bytes(record: &Record) -> u64 {
    match record.slices.is_empty() {
        true => record.value.len() as u64,
        false => record.slices.iter().map(|slice| slice.bytes).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Extent;

    #[test]
    fn slices_become_runs_that_end_where_their_keys_say() {
        let slice = |id, bytes| ExtentSlice::whole(Extent { id, bytes });
        assert_eq!(runs(&[]), []);
        let few = runs(&[slice(1, 10), slice(2, 5)]);
        assert_eq!(few.iter().map(|run| run.key.clone()).collect::<Vec<_>>(), [run_key(14)]);
        let many: Vec<ExtentSlice> = (0..600).map(|id| slice(id, 2)).collect();
        let many = runs(&many);
        assert_eq!(many.iter().map(|run| run.key.clone()).collect::<Vec<_>>(), [511, 1023, 1199].map(run_key));
        assert_eq!(many.iter().map(|run| run.slices.len()).sum::<usize>(), 600);
    }

    #[test]
    fn replacing_writes_each_key_once() {
        let run = |last| Run { key: run_key(last), value: Bytes::from_static(b"x"), slices: Vec::new() };
        let writes = replace(&[KEY, run_key(1), run_key(2)], vec![run(2), run(3)]);
        let shown: Vec<(bool, Bytes)> = writes
            .into_iter()
            .map(|write| match write {
                Write::Put { key, .. } => (true, key),
                Write::Delete { key, .. } => (false, key),
            })
            .collect();
        assert_eq!(shown, [(false, KEY), (false, run_key(1)), (true, run_key(2)), (true, run_key(3))]);
    }
}
