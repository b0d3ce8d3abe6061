//! How keys and values look in fjall. FORMAT.md draws the same bytes.
//!
//! 1. Byte order of record keys is the contract's order: family by family of a group, then partition key, then record
//!    key. A partition key is escaped (0x00 becomes 0x00 0xFF) and closed by 0x00 0x01, so that no partition key is a
//!    prefix of another and the order stays that of the plain bytes.
//! 2. A key in `refs` begins with the extent's address, so that all who name an extent, and all extents of a segment,
//!    lie together.
//! 3. What a disk gives back is never trusted to have the right shape: every decoder answers `None` for what it cannot
//!    read, and the caller turns that into `Fault::Corrupt`.

use bytes::{BufMut, Bytes, BytesMut};
use engine::{Extent, ExtentSlice, Family, GroupId, PartitionId, Record, Revision};

use crate::inspect::Place;

const ESCAPE: u8 = 0x00;
const ESCAPED_ZERO: u8 = 0xFF;
const CLOSE: u8 = 0x01;

/// Bytes of one slice in a record's header.
const SLICE_BYTES: usize = 24;
/// Revision and count of slices, before the slices.
const HEADER_BYTES: usize = 12;
/// Segment and offset at the head of a key in `refs`.
pub const ADDRESS_BYTES: usize = 12;

/// Where an extent lies. Its id is its address, so that reading it needs no lookup.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Address {
    pub segment: u64,
    pub offset: u32,
}

impl Address {
    pub fn of(extent: Extent) -> Self {
        Address { segment: (extent.id >> 64) as u64, offset: extent.id as u32 }
    }

    pub fn extent(self, bytes: u32) -> Extent {
        Extent { id: (u128::from(self.segment) << 64) | u128::from(self.offset), bytes: u64::from(bytes) }
    }

    pub fn bytes(self) -> [u8; ADDRESS_BYTES] {
        let mut out = [0; ADDRESS_BYTES];
        out[..8].copy_from_slice(&self.segment.to_be_bytes());
        out[8..].copy_from_slice(&self.offset.to_be_bytes());
        out
    }
}

/// The part every record key of a group begins with.
pub fn group_prefix(group: &GroupId) -> Vec<u8> {
    let mut out = Vec::with_capacity(group.0.len() + 2);
    // The caller checked the length: a group id has at most 255 bytes.
    out.push(group.0.len() as u8);
    out.extend_from_slice(&group.0);
    out
}

/// The part every record key of a group's family begins with.
pub fn family_prefix(group: &GroupId, family: Family) -> Vec<u8> {
    let mut out = group_prefix(group);
    out.push(family.0);
    out
}

/// The part every record key of a partition's family begins with.
pub fn partition_prefix(group: &GroupId, family: Family, partition: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(group.0.len() + partition.len() + 32);
    out.push(group.0.len() as u8);
    out.extend_from_slice(&group.0);
    out.push(family.0);
    if !partition.contains(&ESCAPE) {
        out.extend_from_slice(partition);
    } else {
        for byte in partition {
            out.push(*byte);
            if *byte == ESCAPE {
                out.push(ESCAPED_ZERO);
            }
        }
    }
    out.extend_from_slice(&[ESCAPE, CLOSE]);
    out
}

pub fn record_key(partition: &PartitionId, family: Family, key: &[u8]) -> Vec<u8> {
    let mut out = partition_prefix(&partition.group, family, &partition.key);
    out.extend_from_slice(key);
    out
}

/// The smallest key greater than every key with this prefix; `None` when there is none.
pub fn after_prefix(mut prefix: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = prefix.pop() {
        if last < u8::MAX {
            prefix.push(last + 1);
            return Some(prefix);
        }
    }
    None
}

/// Splits what follows the family's prefix into partition key and record key.
pub fn split_partition(rest: &Bytes) -> Option<(Bytes, Bytes)> {
    let mut escaped = false;
    let mut at = 0;
    loop {
        if *rest.get(at)? != ESCAPE {
            at += 1;
            continue;
        }
        match *rest.get(at + 1)? {
            CLOSE => break,
            ESCAPED_ZERO => escaped = true,
            _ => return None,
        }
        at += 2;
    }
    let key = rest.slice(at + 2..);
    if !escaped {
        return Some((rest.slice(..at), key));
    }
    let mut partition = BytesMut::with_capacity(at);
    let mut from = 0;
    while from < at {
        partition.put_u8(rest[from]);
        from += if rest[from] == ESCAPE { 2 } else { 1 };
    }
    Some((partition.freeze(), key))
}

/// Where the record with this key is; `None` if it is no key of ours.
pub fn parse_record_key(key: &Bytes) -> Option<Place> {
    let (group_bytes, rest) = key.split_first()?;
    let (group, rest) = rest.split_at_checked(usize::from(*group_bytes))?;
    let (family, _) = rest.split_first()?;
    if group.is_empty() {
        return None;
    }
    let (partition, record) = split_partition(&key.slice(group.len() + 2..))?;
    let group = GroupId(key.slice(1..=group.len()));
    Some(Place { partition: PartitionId { group, key: partition }, family: Family(*family), key: record })
}

/// A record as it is stored: revision, slices, value.
pub fn encode_record(revision: Revision, slices: &[ExtentSlice], value: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(HEADER_BYTES + slices.len() * SLICE_BYTES + value.len());
    out.put_u64(revision.0);
    out.put_u32(slices.len() as u32);
    for slice in slices {
        let address = Address::of(slice.extent);
        out.put_u64(address.segment);
        out.put_u32(address.offset);
        out.put_u32(slice.extent.bytes as u32);
        out.put_u32(slice.offset as u32);
        out.put_u32(slice.bytes as u32);
    }
    out.put_slice(value);
    out.freeze()
}

pub fn decode_record(stored: Bytes) -> Option<Record> {
    let (revision, slices) = decode_header(&stored)?;
    let value = stored.slice(HEADER_BYTES + slices.len() * SLICE_BYTES..);
    Some(Record { revision, value, slices })
}

/// The revision alone: all that a guard asks for.
pub fn decode_revision(stored: &[u8]) -> Option<Revision> {
    Some(Revision(u64_at(stored, 0)?))
}

pub fn decode_header(stored: &[u8]) -> Option<(Revision, Vec<ExtentSlice>)> {
    let revision = decode_revision(stored)?;
    let count = u32_at(stored, 8)? as usize;
    let slices = stored.get(HEADER_BYTES..)?.get(..count.checked_mul(SLICE_BYTES)?)?;
    let slices = slices.chunks_exact(SLICE_BYTES).map(decode_slice).collect::<Option<Vec<_>>>()?;
    Some((revision, slices))
}

fn decode_slice(stored: &[u8]) -> Option<ExtentSlice> {
    let address = Address { segment: u64_at(stored, 0)?, offset: u32_at(stored, 8)? };
    Some(ExtentSlice {
        extent: address.extent(u32_at(stored, 12)?),
        offset: u64::from(u32_at(stored, 16)?),
        bytes: u64::from(u32_at(stored, 20)?),
    })
}

pub fn ref_key(address: Address, record_key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(ADDRESS_BYTES + record_key.len());
    out.extend_from_slice(&address.bytes());
    out.extend_from_slice(record_key);
    out
}

pub fn decode_ref_key(stored: &[u8]) -> Option<(Address, &[u8])> {
    let address = Address { segment: u64_at(stored, 0)?, offset: u32_at(stored, 8)? };
    Some((address, stored.get(ADDRESS_BYTES..)?))
}

/// What `refs` says of one record and one extent: the extent's length and the ranges of it the record needs.
pub fn encode_ref(extent_bytes: u64, ranges: impl Iterator<Item = (u64, u64)>) -> Vec<u8> {
    let mut out = Vec::with_capacity(16);
    out.put_u32(extent_bytes as u32);
    for (offset, bytes) in ranges {
        out.put_u32(offset as u32);
        out.put_u32(bytes as u32);
    }
    out
}

pub fn decode_ref(stored: &[u8]) -> Option<(u32, Vec<(u32, u32)>)> {
    let extent_bytes = u32_at(stored, 0)?;
    let ranges = stored.get(4..)?.chunks(8);
    let ranges = ranges.map(|range| Some((u32_at(range, 0)?, u32_at(range, 4)?))).collect::<Option<Vec<_>>>()?;
    Some((extent_bytes, ranges))
}

pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partition_keys_keep_their_order_and_come_back() {
        let group = GroupId(Bytes::from_static(b"g"));
        let parts: [&[u8]; 10] =
            [b"", b"\0", b"\0\0", b"\0\x01", b"\0\xff", b"\x01", b"a", b"a\0", b"a\0b", b"\xff\xff"];
        let keys: [&[u8]; 4] = [b"", b"\0", b"k", b"\xff"];
        let mut before: Option<Vec<u8>> = None;
        for part in parts {
            for key in keys {
                let partition = PartitionId { group: group.clone(), key: Bytes::copy_from_slice(part) };
                let made = record_key(&partition, Family(7), key);
                assert!(before.is_none_or(|before| before < made), "{part:?} {key:?}");
                let rest = Bytes::copy_from_slice(&made[family_prefix(&group, Family(7)).len()..]);
                assert_eq!(split_partition(&rest), Some((partition.key.clone(), Bytes::copy_from_slice(key))));
                let place = Place { partition, family: Family(7), key: Bytes::copy_from_slice(key) };
                assert_eq!(parse_record_key(&made.clone().into()), Some(place));
                before = Some(made);
            }
        }
    }

    #[test]
    fn records_and_references_come_back() {
        let extent = Address { segment: 9, offset: 77 }.extent(5000);
        let slices = vec![ExtentSlice { extent, offset: 3, bytes: 400 }, ExtentSlice::whole(extent)];
        let stored = encode_record(Revision(12), &slices, b"value");
        let record = decode_record(stored.clone()).expect("just encoded");
        assert_eq!(record, Record { revision: Revision(12), value: Bytes::from_static(b"value"), slices });
        for cut in 0..HEADER_BYTES + 2 * SLICE_BYTES {
            assert_eq!(decode_record(stored.slice(..cut)), None);
        }
        let stored = encode_ref(5000, [(3, 400), (0, 5000)].into_iter());
        assert_eq!(decode_ref(&stored), Some((5000, vec![(3, 400), (0, 5000)])));
        assert_eq!(after_prefix(vec![1, 0xff]), Some(vec![2]));
        assert_eq!(after_prefix(vec![0xff]), None);
    }
}
