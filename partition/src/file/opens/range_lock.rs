//! Locks on ranges of a file's bytes (MS-FSA 2.1.4.10).

use super::HandleId;

/// It may lie beyond the end of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ByteRange {
    pub offset: u64,
    pub length: u64,
}

impl ByteRange {
    pub const ALL: ByteRange = ByteRange { offset: 0, length: u64::MAX };

    /// Has its last byte an offset?
    pub fn is_valid(self) -> bool {
        self.length == 0 || self.offset.checked_add(self.length - 1).is_some()
    }

    /// A range without bytes overlaps what begins before it and ends behind it. At the very start it overlaps nothing.
    pub(super) fn overlaps(self, other: ByteRange) -> bool {
        let last = |range: ByteRange| range.offset.wrapping_add(range.length).wrapping_sub(1);
        let is_nothing = |range: ByteRange| range.offset == 0 && range.length == 0;
        !is_nothing(self) && !is_nothing(other) && self.offset <= last(other) && other.offset <= last(self)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockKind {
    Shared,
    Exclusive,
}

/// What somebody is about to do with a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RangeUse {
    Read,
    Write,
    Lock(LockKind),
}

/// A lock that is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RangeLock {
    pub range: ByteRange,
    pub kind: LockKind,
    pub owner: HandleId,
}

impl RangeLock {
    /// Does it keep `by` from using `range`? `None` is whoever has no handle.
    pub fn blocks(&self, by: Option<HandleId>, usage: RangeUse, range: ByteRange) -> bool {
        let is_own = by == Some(self.owner);
        let is_barred = match (self.kind, usage) {
            (LockKind::Exclusive, RangeUse::Lock(LockKind::Exclusive)) => true,
            (LockKind::Exclusive, _) => !is_own,
            (LockKind::Shared, RangeUse::Write | RangeUse::Lock(LockKind::Exclusive)) => true,
            (LockKind::Shared, RangeUse::Read | RangeUse::Lock(LockKind::Shared)) => false,
        };
        is_barred && self.range.overlaps(range)
    }
}
