//! The keys of a shard's records, and the names of objects. `docs/cluster.md` draws the same.
//!
//! 1. Byte order of record keys is the contract's order: family by family, then partition key, then record key.
//! 2. No key holds a zero byte, because librados takes the start of a scan as a C string. So 0x00, 0x01 and 0x02 become 0x02 and
//!    0x01, 0x02 or 0x03, and 0x01 closes a part: less than whatever a longer part goes on with.
//! 3. What the cluster gives back is not trusted to have the right shape: a decoder answers `None`, and the caller says `Corrupt`.

use bytes::{BufMut, Bytes, BytesMut};
use engine::{Family, GroupId, PartitionId};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

const CLOSE: u8 = 0x01;
const ESCAPE: u8 = 0x02;

/// The kinds of entries in a shard, by the first byte of their keys.
mod kind {
    /// The newest revision of a partition.
    pub const HEAD: u8 = b'h';
    /// A record.
    pub const RECORD: u8 = b'r';
    /// How many records of a partition name an extent.
    pub const NAMING: u8 = b'e';
    /// An extent that no record of a partition names any more, until that is told to the extent.
    pub const DROP: u8 = b'd';
    /// The newest operation of a process.
    pub const SLOT: u8 = b's';
    /// The process that owns the group.
    pub const OWNER: u8 = b'o';
    /// A partition that may have become empty.
    pub const EMPTIED: u8 = b'z';
}

fn escape(out: &mut BytesMut, bytes: &[u8]) {
    for byte in bytes {
        match *byte {
            plain @ 0x03.. => out.put_u8(plain),
            low => out.put_slice(&[ESCAPE, low + 1]),
        }
    }
}

/// Takes one closed part off the front.
fn unescape(from: &mut &[u8]) -> Option<Bytes> {
    let mut out = BytesMut::with_capacity(from.len());
    loop {
        let (first, rest) = from.split_first()?;
        *from = rest;
        match *first {
            CLOSE => return Some(out.freeze()),
            ESCAPE => {
                let (second, rest) = from.split_first()?;
                *from = rest;
                out.put_u8(second.checked_sub(1).filter(|low| *low < 0x03)?);
            }
            0x00 => return None,
            plain => out.put_u8(plain),
        }
    }
}

fn key(kind: u8, parts: &[&[u8]]) -> BytesMut {
    let mut out = BytesMut::with_capacity(2 + parts.iter().map(|part| part.len() + 1).sum::<usize>());
    out.put_u8(kind);
    for part in parts {
        escape(&mut out, part);
        out.put_u8(CLOSE);
    }
    out
}

pub fn head(partition: &[u8]) -> Bytes {
    key(kind::HEAD, &[partition]).freeze()
}

pub fn emptied(partition: &[u8]) -> Bytes {
    key(kind::EMPTIED, &[partition]).freeze()
}

pub fn all_emptied() -> Bytes {
    Bytes::from_static(&[kind::EMPTIED])
}

pub fn slot(process: u64) -> Bytes {
    let mut out = BytesMut::with_capacity(17);
    out.put_u8(kind::SLOT);
    out.put_slice(format!("{process:016x}").as_bytes());
    out.freeze()
}

pub fn owner() -> Bytes {
    Bytes::from_static(&[kind::OWNER])
}

pub fn all_slots() -> Bytes {
    Bytes::from_static(&[kind::SLOT])
}

/// What every record key of a family begins with.
pub fn family(family: Family) -> Bytes {
    let mut out = BytesMut::with_capacity(3);
    out.put_u8(kind::RECORD);
    escape(&mut out, &[family.0]);
    out.freeze()
}

/// What every record key of a partition's family begins with.
pub fn records(family: Family, partition: &[u8]) -> Bytes {
    let mut out = before_partition(family, partition);
    out.put_u8(CLOSE);
    out.freeze()
}

/// Less than every record key of this partition and of those after it, greater than those before it.
pub fn before_partition(of: Family, partition: &[u8]) -> BytesMut {
    let mut out = BytesMut::from(family(of).as_ref());
    escape(&mut out, partition);
    out
}

/// Less than this record's key, greater than those before it.
pub fn before_record(family: Family, partition: &[u8], record: &[u8]) -> BytesMut {
    let mut out = BytesMut::from(records(family, partition).as_ref());
    escape(&mut out, record);
    out
}

pub fn record(family: Family, partition: &[u8], record: &[u8]) -> Bytes {
    let mut out = before_record(family, partition, record);
    out.put_u8(CLOSE);
    out.freeze()
}

/// The partition key and the record key of a record's key in this family.
pub fn split_record(family: Family, stored: &[u8]) -> Option<(Bytes, Bytes)> {
    let mut rest = stored.strip_prefix(self::family(family).as_ref())?;
    let partition = unescape(&mut rest)?;
    let record = unescape(&mut rest)?;
    rest.is_empty().then_some((partition, record))
}

pub fn naming(partition: &[u8], extent: u128) -> Bytes {
    key(kind::NAMING, &[partition, format!("{extent:032x}").as_bytes()]).freeze()
}

pub fn drop(partition: &[u8], extent: u128) -> Bytes {
    key(kind::DROP, &[partition, format!("{extent:032x}").as_bytes()]).freeze()
}

pub fn all_drops() -> Bytes {
    Bytes::from_static(&[kind::DROP])
}

pub fn all_namings() -> Bytes {
    Bytes::from_static(&[kind::NAMING])
}

/// The partition and the extent of a naming or a drop.
pub fn split_naming(stored: &[u8]) -> Option<(Bytes, u128)> {
    let mut rest = stored.strip_prefix(&[kind::NAMING]).or_else(|| stored.strip_prefix(&[kind::DROP]))?;
    let partition = unescape(&mut rest)?;
    let extent = unescape(&mut rest)?;
    // As it is written, and in no other of the ways that a number can be.
    let is_right = extent.len() == 32 && extent.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let extent = u128::from_str_radix(std::str::from_utf8(&extent).ok()?, 16).ok()?;
    (is_right && rest.is_empty()).then_some((partition, extent))
}

/// The partition of an entry of `all_emptied`.
pub fn split_emptied(stored: &[u8]) -> Option<Bytes> {
    let mut rest = stored.strip_prefix(&[kind::EMPTIED])?;
    unescape(&mut rest).filter(|_| rest.is_empty())
}

/// The key of a group in the registry.
pub fn group(id: &GroupId) -> Bytes {
    let mut out = BytesMut::with_capacity(id.0.len() + 1);
    escape(&mut out, &id.0);
    out.put_u8(CLOSE);
    out.freeze()
}

pub fn split_group(stored: &[u8]) -> Option<GroupId> {
    let mut rest = stored;
    let id = unescape(&mut rest)?;
    rest.is_empty().then_some(GroupId(id))
}

/// Over how many objects the registry of groups is spread. Never changes: it says where a group is entered.
pub const REGISTRIES: u64 = 256;

/// The object a group is entered in.
pub fn registry_of(group: &GroupId) -> String {
    registry(xxh3_64(&group.0) % REGISTRIES)
}

pub fn registry(number: u64) -> String {
    format!("groups.{number:02x}")
}

/// The object that holds a shard of a group.
pub fn shard_object(group: &GroupId, shard: u16) -> String {
    let hex: String = group.0.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("shard.{hex}.{shard}")
}

/// Which of so many shards a partition is in. Never changes.
pub fn shard_of(partition: &[u8], shards: u16) -> u16 {
    (xxh3_64(partition) % u64::from(shards.max(1))) as u16
}

pub fn extent_object(extent: u128) -> String {
    format!("extent.{extent:032x}")
}

/// The attribute of an extent that says that a partition names it.
pub fn name_attribute(partition: &PartitionId) -> String {
    let mut whole = Vec::with_capacity(partition.group.0.len() + partition.key.len() + 1);
    whole.push(partition.group.0.len() as u8); // a group id has at most 255 bytes
    whole.extend_from_slice(&partition.group.0);
    whole.extend_from_slice(&partition.key);
    format!("{NAME_ATTRIBUTE}{:032x}", xxh3_128(&whole))
}

pub const NAME_ATTRIBUTE: &str = "n.";

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: &[&[u8]] = &[
        b"",
        b"\x00",
        b"\x00\x00",
        b"\x00\x01",
        b"\x01",
        b"\x01\x01",
        b"\x02",
        b"\x02\x01",
        b"\x03",
        b"a",
        b"a\x00",
        b"a\x00b",
        b"a\x01",
        b"a\x02",
        b"aa",
        b"b",
        b"\xff",
        b"\xff\xff",
    ];

    #[test]
    fn keys_sort_as_their_parts_and_come_apart_again() {
        let mut keys = Vec::new();
        for family in [Family(0), Family(1), Family(2), Family(3), Family(255)] {
            for partition in SAMPLES {
                for record in SAMPLES {
                    let key = super::record(family, partition, record);
                    assert!(!key.contains(&0), "{key:?}");
                    let (p, r) = split_record(family, &key).expect("whole");
                    assert_eq!((p.as_ref(), r.as_ref()), (*partition, *record));
                    assert!(before_partition(family, partition).as_ref() < key.as_ref());
                    assert!(before_record(family, partition, record).as_ref() < key.as_ref());
                    keys.push((key, before_partition(family, partition), before_record(family, partition, record)));
                }
            }
        }
        for pair in keys.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{:?} {:?}", pair[0].0, pair[1].0);
            assert!(pair[0].0.as_ref() < pair[1].2.as_ref(), "what is before a record is after the one before it");
            let same_partition = pair[0].1 == pair[1].1;
            assert!(same_partition || pair[0].0.as_ref() < pair[1].1.as_ref());
        }
    }

    #[test]
    fn what_is_not_a_key_is_not_taken_for_one() {
        let whole = record(Family(7), b"p\x00", b"k");
        for end in 0..whole.len() {
            assert_eq!(split_record(Family(7), &whole[..end]), None);
        }
        assert_eq!(split_record(Family(8), &whole), None);
        assert_eq!(split_naming(&naming(b"p\x01", 7)), Some((Bytes::from_static(b"p\x01"), 7)));
        assert_eq!(split_naming(&drop(b"", u128::MAX)), Some((Bytes::new(), u128::MAX)));
        assert_eq!(split_naming(&whole), None);
        assert_eq!(split_group(&group(&GroupId(Bytes::from_static(b"a\x00b")))).expect("whole").0, "a\x00b");
        assert_eq!(split_emptied(&emptied(b"x")).expect("whole"), "x");
        assert_eq!(split_emptied(b"zx\x01y\x01"), None, "something follows it");
        for extent in ["+5", "0000000000000000000000000000000F", "000000000000000000000000000000005"] {
            assert_eq!(split_naming(&key(kind::NAMING, &[b"p", extent.as_bytes()])), None, "{extent}");
        }
    }
}
