//! What a blob was: its snapshots, its earlier versions, and what was deleted and is kept for a while.

use bytes::Bytes;
use engine::Fault;
use env::Timestamp;

use super::{BlobHead, FieldReader, FieldWriter, corrupt, read_u64};

const SHAPE: u8 = 13;
const MARK_SHAPE: u8 = 14;

/// A state of a blob that is not the current one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PastBlob {
    pub head: BlobHead,
    /// It was the blob itself when it was deleted or overwritten, and nobody took a snapshot of it.
    pub was_base: bool,
    pub deleted: Option<Deleted>,
}

/// Deleted, but kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deleted {
    pub at: Timestamp,
    /// From then on it is gone.
    pub until: Timestamp,
}

mod tag {
    pub const HEAD: u8 = 1;
    pub const WAS_BASE: u8 = 2;
    pub const DELETED_AT: u8 = 3;
    pub const DELETED_UNTIL: u8 = 4;
}

impl PastBlob {
    pub fn encode(&self) -> Bytes {
        let mut fields = FieldWriter::new(SHAPE);
        fields.bytes(tag::HEAD, &self.head.encode());
        if self.was_base {
            fields.bytes(tag::WAS_BASE, &[]);
        }
        if let Some(Deleted { at, until }) = self.deleted {
            fields.u64(tag::DELETED_AT, at.ticks());
            fields.u64(tag::DELETED_UNTIL, until.ticks());
        }
        fields.finish()
    }

    pub fn decode(value: &[u8]) -> Result<PastBlob, Fault> {
        Self::read(value).ok_or_else(|| corrupt("a past state of a blob", value))
    }

    fn read(value: &[u8]) -> Option<PastBlob> {
        let mut fields = FieldReader::new(SHAPE, value)?;
        let (mut head, mut was_base, mut at, mut until) = (None, false, None, None);
        while let Some((tag, value)) = fields.next()? {
            match tag {
                tag::HEAD => head = Some(BlobHead::decode(value).ok()?),
                tag::WAS_BASE => was_base = true,
                tag::DELETED_AT => at = Some(Timestamp::from_ticks(read_u64(value)?)),
                tag::DELETED_UNTIL => until = Some(Timestamp::from_ticks(read_u64(value)?)),
                _ => return None,
            }
        }
        let deleted = match (at, until) {
            (Some(at), Some(until)) => Some(Deleted { at, until }),
            (None, None) => None,
            _ => return None,
        };
        Some(PastBlob { head: head?, was_base, deleted })
    }
}

/// Says of a blob that it has or had a past. Stays when that is gone, until the blob itself is: who looks for the blob now and for its
/// mark later finds one of the two, whatever happens between.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mark {
    /// The highest id that was given, in ticks.
    pub last_id: u64,
    /// When the next of what was deleted is gone for good.
    pub due: Option<Timestamp>,
}

impl Mark {
    pub fn encode(&self) -> Bytes {
        let due = self.due.map_or(0, Timestamp::ticks).to_be_bytes();
        [&[MARK_SHAPE][..], &self.last_id.to_be_bytes(), &due].concat().into()
    }

    pub fn decode(value: &[u8]) -> Result<Mark, Fault> {
        Self::read(value).ok_or_else(|| corrupt("the mark of a past", value))
    }

    fn read(value: &[u8]) -> Option<Mark> {
        let [MARK_SHAPE, rest @ ..] = value else { return None };
        let (last_id, due) = rest.split_at_checked(8)?;
        let due = Some(read_u64(due)?).filter(|ticks| *ticks != 0).map(Timestamp::from_ticks);
        Some(Mark { last_id: read_u64(last_id)?, due })
    }
}

#[cfg(test)]
mod tests {
    use super::super::blob::tests::{full, plain};
    use super::*;

    #[test]
    fn shapes_round_trip_and_damage_is_a_fault() {
        let deleted = Some(Deleted { at: Timestamp::from_ticks(1), until: Timestamp::from_ticks(2) });
        for past in [
            PastBlob { head: full(), was_base: true, deleted },
            PastBlob { head: plain(), was_base: false, deleted: None },
        ] {
            let whole = past.encode();
            assert_eq!(PastBlob::decode(&whole).expect("what was written"), past);
            for at in 0..whole.len() {
                let mut bytes = whole.to_vec();
                bytes[at] ^= 0x80;
                let _ = PastBlob::decode(&bytes);
                let _ = PastBlob::decode(&whole[..at]);
            }
        }
        for mark in [Mark::default(), Mark { last_id: 7, due: Some(Timestamp::from_ticks(8)) }] {
            let whole = mark.encode();
            assert_eq!(Mark::decode(&whole).expect("what was written"), mark);
            assert!((0..whole.len()).all(|end| Mark::decode(&whole[..end]).is_err()));
        }
    }
}
