//! The values in a shard, and what an extent's attributes hold.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use engine::{Extent, ExtentSlice, GroupId, PartitionId, Record, Revision};

/// Bytes of one slice: the extent's id and length, offset and length in it.
pub const SLICE_BYTES: usize = 28;

/// Bytes of a revision: seven bits in each, because OSDs take a byte above 0x7f for a negative one when they compare values by order.
const REVISION_BYTES: usize = 10;

fn seven_bits(number: u64) -> [u8; REVISION_BYTES] {
    std::array::from_fn(|at| (number >> (7 * (REVISION_BYTES - 1 - at))) as u8 & 0x7f)
}

fn take_revision(stored: &mut Bytes) -> Option<Revision> {
    let bytes = stored.get(..REVISION_BYTES)?;
    // The first byte has the one bit that is left.
    if bytes[0] > 1 || bytes.iter().any(|byte| *byte > 0x7f) {
        return None;
    }
    let revision = bytes.iter().fold(0, |number, byte| number << 7 | u64::from(*byte));
    stored.advance(REVISION_BYTES);
    Some(Revision(revision))
}

/// A record: its revision, how many slices, the slices, then the value. The revision comes first, so that guards can compare it.
pub fn record(revision: Revision, value: &[u8], slices: &[ExtentSlice]) -> Bytes {
    let mut out = BytesMut::with_capacity(REVISION_BYTES + 4 + slices.len() * SLICE_BYTES + value.len());
    out.put_slice(&seven_bits(revision.0));
    out.put_u32(slices.len() as u32); // a record that fits an operation has far fewer
    for slice in slices {
        out.put_u128(slice.extent.id);
        // An extent has at most 4 MiB.
        out.put_u32(slice.extent.bytes as u32);
        out.put_u32(slice.offset as u32);
        out.put_u32(slice.bytes as u32);
    }
    out.put_slice(value);
    out.freeze()
}

pub fn read_record(mut stored: Bytes) -> Option<Record> {
    let revision = take_revision(&mut stored)?;
    let count = stored.try_get_u32().ok()? as usize;
    if stored.len() / SLICE_BYTES < count {
        return None;
    }
    let slices = (0..count)
        .map(|_| {
            let (id, bytes) = (stored.get_u128(), u64::from(stored.get_u32()));
            let (offset, length) = (u64::from(stored.get_u32()), u64::from(stored.get_u32()));
            ExtentSlice { extent: Extent { id, bytes }, offset, bytes: length }
        })
        .collect();
    Some(Record { revision, value: stored, slices })
}

/// A partition's head, and what revisions are compared with.
pub fn revision(revision: Revision) -> Bytes {
    Bytes::copy_from_slice(&seven_bits(revision.0))
}

pub fn read_revision(mut stored: Bytes) -> Option<Revision> {
    take_revision(&mut stored).filter(|_| stored.is_empty())
}

pub fn read_number(stored: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(stored.try_into().ok()?))
}

pub fn number(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

/// What is left to do about an extent that no record of a partition names any more: since when, and who has begun, when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drop {
    pub since: u64,
    pub claim: Option<Claim>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    pub process: u64,
    pub at: u64,
}

impl Drop {
    pub fn encode(self) -> Bytes {
        let mut out = BytesMut::with_capacity(24);
        out.put_u64(self.since);
        if let Some(claim) = self.claim {
            out.put_u64(claim.process);
            out.put_u64(claim.at);
        }
        out.freeze()
    }

    pub fn decode(mut stored: &[u8]) -> Option<Drop> {
        let since = stored.try_get_u64().ok()?;
        let claim = match stored.len() {
            0 => None,
            16 => Some(Claim { process: stored.get_u64(), at: stored.get_u64() }),
            _ => return None,
        };
        Some(Drop { since, claim })
    }
}

/// What an extent knows of a partition that names it: since when, and which.
pub fn name(at: u64, partition: &PartitionId) -> Bytes {
    let mut out = BytesMut::with_capacity(9 + partition.group.0.len() + partition.key.len());
    out.put_u64(at);
    out.put_u8(partition.group.0.len() as u8); // a group id has at most 255 bytes
    out.put_slice(&partition.group.0);
    out.put_slice(&partition.key);
    out.freeze()
}

pub fn read_name(mut stored: Bytes) -> Option<(u64, PartitionId)> {
    let at = stored.try_get_u64().ok()?;
    let bytes = usize::from(stored.try_get_u8().ok()?);
    if stored.len() < bytes {
        return None;
    }
    let group = GroupId(stored.split_to(bytes));
    Some((at, PartitionId { group, key: stored }))
}

/// A group in the registry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    pub shards: u16,
    /// When it was fenced.
    pub fenced: Option<u64>,
}

impl Group {
    pub fn encode(self) -> Bytes {
        let mut out = BytesMut::with_capacity(10);
        out.put_u16(self.shards);
        out.put_u64(self.fenced.unwrap_or(0));
        out.freeze()
    }

    pub fn decode(mut stored: &[u8]) -> Option<Group> {
        let shards = stored.try_get_u16().ok().filter(|shards| *shards > 0)?;
        let fenced = stored.try_get_u64().ok()?;
        stored.is_empty().then_some(Group { shards, fenced: (fenced > 0).then_some(fenced) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_as_they_were() {
        let slices =
            vec![ExtentSlice { extent: Extent { id: u128::MAX - 1, bytes: 4 << 20 }, offset: 5, bytes: 1000 }; 3];
        for (value, slices) in [("", Vec::new()), ("v", slices.clone()), ("", slices)] {
            let stored = record(Revision(9), value.as_bytes(), &slices);
            let found = read_record(stored.clone()).expect("whole");
            assert_eq!(found, Record { revision: Revision(9), value: value.into(), slices });
            assert_eq!(read_record(stored.slice(..11)), None);
        }
        for number in [0, 1, 127, 128, 0x8_0000, 1 << 56, 1 << 63, u64::MAX] {
            let stored = revision(Revision(number));
            assert_eq!(read_revision(stored.clone()), Some(Revision(number)));
            assert!(stored.iter().all(|byte| *byte < 0x80));
            assert!(number == u64::MAX || stored < revision(Revision(number + 1)));
        }
        for drop in [Drop { since: 1, claim: None }, Drop { since: 2, claim: Some(Claim { process: 3, at: 4 }) }] {
            assert_eq!(Drop::decode(&drop.encode()), Some(drop));
        }
        for group in [Group { shards: 1, fenced: None }, Group { shards: 512, fenced: Some(77) }] {
            assert_eq!(Group::decode(&group.encode()), Some(group));
        }
        let partition = PartitionId { group: GroupId("g\0".into()), key: "key".into() };
        assert_eq!(read_name(name(7, &partition)), Some((7, partition)));
        assert_eq!((read_name(Bytes::from_static(b"short")), Group::decode(b"\0\0")), (None, None));
    }
}
