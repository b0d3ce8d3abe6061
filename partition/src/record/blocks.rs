//! Blocks of a blob as they are stored: the list of the committed ones, and the note on what is staged.

use bytes::{BufMut, Bytes, BytesMut};
use engine::Fault;
use env::Timestamp;

use super::container::{decode_lease, encode_lease};
use super::corrupt;
use crate::lease::Lease;

const LIST_SHAPE: u8 = 11;
const STAGING_SHAPE: u8 = 12;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    pub id: Bytes,
    pub bytes: u64,
}

/// The committed blocks in their order. Their bytes are the blob's body, one after another.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BlockList(pub Vec<Block>);

impl BlockList {
    /// For each block the length of its id, the id, and its size: there may be fifty thousand.
    pub fn encode(&self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(1 + self.0.len() * 24);
        bytes.put_u8(LIST_SHAPE);
        for block in &self.0 {
            bytes.put_u8(block.id.len() as u8);
            bytes.put_slice(&block.id);
            bytes.put_u64(block.bytes);
        }
        bytes.freeze()
    }

    pub fn decode(value: &Bytes) -> Result<BlockList, Fault> {
        Self::read(value).ok_or_else(|| corrupt("a block list", value))
    }

    fn read(value: &Bytes) -> Option<BlockList> {
        let mut blocks = Vec::new();
        let mut at = 1;
        if value.first() != Some(&LIST_SHAPE) {
            return None;
        }
        while at < value.len() {
            let id_end = at + 1 + usize::from(value[at]);
            let bytes = u64::from_be_bytes(value.get(id_end..id_end + 8)?.try_into().ok()?);
            blocks.push(Block { id: value.slice(at + 1..id_end), bytes });
            at = id_end + 8;
        }
        Some(BlockList(blocks))
    }
}

/// What is staged for a blob, without the blocks themselves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Staging {
    /// A week after it everything that is staged is gone.
    pub last_staged: Timestamp,
    pub blocks: u32,
    /// All ids of a blob have the same length.
    pub id_bytes: u8,
    /// Of a blob that is nothing but staged blocks; one that is there has its own.
    pub lease: Option<Lease>,
}

impl Staging {
    pub fn encode(&self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(14);
        bytes.put_u8(STAGING_SHAPE);
        bytes.put_u64(self.last_staged.ticks());
        bytes.put_u32(self.blocks);
        bytes.put_u8(self.id_bytes);
        if let Some(lease) = &self.lease {
            bytes.put_slice(&encode_lease(lease));
        }
        bytes.freeze()
    }

    pub fn decode(value: &[u8]) -> Result<Staging, Fault> {
        Self::read(value).ok_or_else(|| corrupt("a note on staged blocks", value))
    }

    fn read(value: &[u8]) -> Option<Staging> {
        let [STAGING_SHAPE, rest @ ..] = value else { return None };
        let (ticks, rest) = rest.split_at_checked(8)?;
        let (blocks, rest) = rest.split_at_checked(4)?;
        let [id_bytes, lease @ ..] = rest else { return None };
        Some(Staging {
            last_staged: Timestamp::from_ticks(u64::from_be_bytes(ticks.try_into().ok()?)),
            blocks: u32::from_be_bytes(blocks.try_into().ok()?),
            id_bytes: *id_bytes,
            lease: if lease.is_empty() { None } else { Some(decode_lease(lease)?) },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::names::LeaseId;

    #[test]
    fn shapes_round_trip_and_damage_is_a_fault() {
        let block = |id: &'static [u8], bytes| Block { id: Bytes::from_static(id), bytes };
        for list in [BlockList::default(), BlockList(vec![block(b"a", 1), block(&[7; 64], u64::MAX)])] {
            assert_eq!(BlockList::decode(&list.encode()).expect("what was written"), list);
        }
        let staging = Staging { last_staged: Timestamp::from_ticks(9), blocks: 100_000, id_bytes: 64, lease: None };
        let lease = Lease { id: LeaseId::from_id(6), seconds: Some(15), expires: None, breaks: None };
        for staging in [staging.clone(), Staging { lease: Some(lease), ..staging }] {
            assert_eq!(Staging::decode(&staging.encode()).expect("what was written"), staging);
        }
        let whole = BlockList(vec![block(b"abc", 1)]).encode();
        for at in 0..whole.len() {
            let mut bytes = whole.to_vec();
            bytes[at] ^= 0x80;
            let _ = BlockList::decode(&bytes.into());
            let _ = BlockList::decode(&whole.slice(..at));
            let _ = Staging::decode(&whole[..at]);
        }
    }
}
