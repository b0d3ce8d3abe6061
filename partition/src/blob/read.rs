//! Get Blob and Get Blob Properties: one committed version, to its last byte.

use contract::names::BlobName;
use contract::{ErrorCode, Refusal};
use engine::{GroupId, View};
use env::Timestamp;

use super::state::{State, Which, load_state};
use crate::checks::Expectation;
use crate::content::ContentReader;
use crate::execute::{Failure, Reader, Shell};
use crate::key;
use crate::record::{BlobHead, BlobKind};

impl BlobHead {
    /// 409 for an operation of another type of blob.
    pub fn must_be(&self, allowed: impl Fn(BlobKind) -> bool) -> Result<(), Refusal> {
        if allowed(self.kind) { Ok(()) } else { Err(ErrorCode::InvalidBlobType.into()) }
    }
}

/// The part of a blob that is asked for: from `first` to `last`, or to the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    pub first: u64,
    pub last: Option<u64>,
}

/// A part that is there: never empty, within the blob.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    pub first: u64,
    pub last: u64,
}

impl Range {
    /// Cut to the blob's size. A range that begins at or behind the end, also of an empty blob, is 416.
    pub fn within(self, content_bytes: u64) -> Result<Part, Refusal> {
        if self.first >= content_bytes {
            let header = format!("bytes */{content_bytes}");
            return Err(Refusal::from(ErrorCode::InvalidRange).header("Content-Range", header));
        }
        Ok(Part { first: self.first, last: self.last.unwrap_or(u64::MAX).min(content_bytes - 1) })
    }
}

impl Part {
    pub fn bytes(self) -> u64 {
        self.last - self.first + 1
    }
}

async fn load(view: &dyn View, which: Which, expectation: &Expectation, now: Timestamp) -> Result<State, Failure> {
    let state = load_state(&Reader::committed(view), which).await?;
    expectation.judge(state.as_ref().map(|state| state.head.current()), now)?;
    state.ok_or_else(|| ErrorCode::BlobNotFound.into())
}

/// Get Blob Properties.
pub async fn properties(
    shell: &Shell,
    group: &GroupId,
    blob: &BlobName,
    which: Which,
    expectation: &Expectation,
) -> Result<State, Failure> {
    let partition = key::blob_partition(group, blob);
    shell
        .steadily(&partition, || async {
            let view = shell.engine.view(&partition).await?;
            load(view.as_ref(), which, expectation, shell.clock.now()).await
        })
        .await
}

/// Get Blob: the head and the content of the same version.
pub async fn content(
    shell: &Shell,
    group: &GroupId,
    blob: &BlobName,
    which: Which,
    expectation: &Expectation,
    range: Option<Range>,
) -> Result<(State, Option<Part>, ContentReader), Failure> {
    let partition = key::blob_partition(group, blob);
    let open = || async {
        let view = shell.engine.view(&partition).await?;
        let state = load(view.as_ref(), which, expectation, shell.clock.now()).await?;
        let part = range.map(|range| range.within(state.head.content_bytes)).transpose()?;
        let (offset, bytes) = part.map_or((0, state.head.content_bytes), |part| (part.first, part.bytes()));
        let (engine, place) = (&shell.engine, state.place.clone());
        let reader = ContentReader::open(engine, &partition, view, place, &state.head, offset, bytes).await?;
        Ok((state, part, reader))
    };
    shell.steadily(&partition, open).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_to_the_blob() {
        for (first, last, size, expected) in [
            (0, Some(0), 1, Some((0, 0))),
            (0, Some(9), 10, Some((0, 9))),
            (0, Some(10), 10, Some((0, 9))),
            (5, None, 10, Some((5, 9))),
            (9, Some(u64::MAX), 10, Some((9, 9))),
            (10, None, 10, None),
            (10, Some(20), 10, None),
            (0, None, 0, None),
            (0, Some(0), 0, None),
        ] {
            let got = Range { first, last }.within(size);
            assert_eq!(got.as_ref().ok().map(|part| (part.first, part.last)), expected, "{first}-{last:?} of {size}");
            if let Err(refusal) = got {
                assert_eq!(refusal.headers, [("Content-Range", format!("bytes */{size}"))]);
            }
        }
    }
}
