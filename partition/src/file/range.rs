//! Put Range: bytes written into a file, or cleared.

use bytes::Bytes;
use contract::limits::FILE_CLEAR_BYTES;
use contract::{ErrorCode, Refusal};
use engine::{Fault, PartitionId, Write};
use env::Timestamp;

use super::body::{self, Met};
use super::create::Made;
use super::settings::{refuse_read_only, stamp};
use super::target::{Around, Target};
use super::versions::Edit;
use crate::blob::read::Part;
use crate::content::Content;
use crate::execute::{Command, Moment, Reader};
use crate::record::NodeKind;

/// What is done to the range.
#[derive(Clone, Debug)]
pub enum Ranged {
    /// Bytes that have not arrived yet.
    Awaited,
    Update(Content),
    Clear,
}

pub struct PutRange {
    pub target: Target,
    pub range: Part,
    pub what: Ranged,
    /// Does the file look as if it had not been written?
    pub keeps_write_time: bool,
}

static ZEROS: [u8; FILE_CLEAR_BYTES as usize] = [0; FILE_CLEAR_BYTES as usize];

/// The parts of a cleared range that are no whole pieces, before and behind those that are.
fn edges(range: Part) -> Vec<Part> {
    let inner =
        (range.first.next_multiple_of(FILE_CLEAR_BYTES), (range.last + 1) / FILE_CLEAR_BYTES * FILE_CLEAR_BYTES);
    if inner.0 >= inner.1 {
        let middle = inner.1.max(range.first);
        let halves = [(range.first, middle), (middle, range.last + 1)];
        return halves
            .into_iter()
            .filter(|(from, to)| from < to)
            .map(|(from, to)| Part { first: from, last: to - 1 })
            .collect();
    }
    let ends = [(range.first, inner.0), (inner.1, range.last + 1)];
    ends.into_iter().filter(|(from, to)| from < to).map(|(from, to)| Part { first: from, last: to - 1 }).collect()
}

impl Command for PutRange {
    type Records = (Around, Vec<Met>);
    type Outcome = Made;

    fn partition(&self) -> &PartitionId {
        self.target.partition()
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        let around = self.target.load(reader).await?;
        let runs = match around.place.node().map(|node| &node.kind) {
            Some(NodeKind::File { body, .. }) => {
                body::overlapping(reader, &around.state, *body, self.range.first, self.range.last).await?
            }
            _ => Vec::new(),
        };
        Ok((around, runs))
    }

    fn check(&self, (around, _): &Self::Records, now: Timestamp) -> Result<(), Refusal> {
        let found = self.target.judge(around, now)?;
        refuse_read_only(&found.node)?;
        refuse_pending(&found.node)?;
        match self.range.last < found.node.bytes() {
            true => Ok(()),
            false => Err(ErrorCode::InvalidRange.into()),
        }
    }

    fn decide(&self, records: Self::Records, moment: Moment) -> Result<(Vec<Write>, Made), Refusal> {
        self.check(&records, moment.now)?;
        let (Around { state, place, .. }, runs) = records;
        let found = place.found().ok_or(ErrorCode::ResourceNotFound)?;
        let NodeKind::File { body, .. } = found.node.kind else { return Err(ErrorCode::ResourceTypeMismatch.into()) };
        let mut edit = Edit::new(&state);
        edit.carve(body, &runs, self.range.first, self.range.last);
        match &self.what {
            Ranged::Awaited => return Err(ErrorCode::InvalidInput.into()),
            Ranged::Update(content) => edit.write_content(body, self.range.first, content),
            Ranged::Clear => {
                for edge in edges(self.range) {
                    let zeros = Bytes::from_static(&ZEROS[..edge.bytes() as usize]);
                    edit.write_content(body, edge.first, &Content::Inline(zeros));
                }
            }
        }
        let mut node = found.node.clone();
        stamp(&mut node, moment);
        node.changed = moment.now;
        if !self.keeps_write_time {
            node.written = moment.now;
        }
        edit.change(&found, &node);
        Ok((edit.finish(), Made { node, above: found.above }))
    }
}

/// A file that is being copied to is nobody else's.
pub fn refuse_pending(node: &crate::record::Node) -> Result<(), Refusal> {
    match &node.copy {
        Some(copy) if copy.is_pending() => Err(ErrorCode::PendingCopyOperation.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cleared_leaves_zeros_at_its_edges() {
        for (first, last, expected) in [
            (0, 511, &[][..]),
            (0, 1023, &[]),
            (1, 1023, &[(1, 511)]),
            (0, 1000, &[(512, 1000)]),
            (5, 2000, &[(5, 511), (1536, 2000)]),
            (5, 10, &[(5, 10)]),
            (500, 600, &[(500, 511), (512, 600)]),
            (512, 600, &[(512, 600)]),
        ] {
            let found: Vec<_> = edges(Part { first, last }).into_iter().map(|part| (part.first, part.last)).collect();
            assert_eq!(found, expected, "{first}-{last}");
        }
    }
}
