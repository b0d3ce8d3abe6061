//! What a copy is handed on in, between processes and in its file: blocks, each with its checksum.
//!
//! ```text
//! block    u32 length of the payload | u32 CRC32C of the payload | payload
//! payload  'h' | u8 format | identity (16) | u64 commit     the first
//!          'r' | u8 part | rows                             rows of a part, in the order of their keys
//!          'e' | u64 rows of each part                      the last
//!          'x' | words                                      instead of what would have followed: why it could not
//! row      u32 length of the key | u32 length of the value | key | value
//! ```
//! Parts come in the order of `Part::ALL`. References are last: when they come, all else is there.

use std::io::{self, Read};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use env::Id;

/// Of the blocks, and of what is in them.
const FORMAT: u8 = 1;
/// A block is handed on when it has this much.
const BLOCK_BYTES: usize = 256 * 1024;
/// One row may be larger than a block is meant to be; nothing is larger than this.
const BLOCK_BYTES_MAX: u32 = 256 * 1024 * 1024;
/// Length and checksum.
pub const HEADER_BYTES: u64 = 8;

/// One keyspace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    Meta,
    Fences,
    Records,
    Refs,
}

impl Part {
    pub const ALL: [Part; 4] = [Part::Meta, Part::Fences, Part::Records, Part::Refs];
}

/// What is copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    pub identity: Id,
    /// The newest commit in it.
    pub commit: u64,
}

impl Head {
    pub fn encode(self) -> Bytes {
        let mut payload = vec![b'h', FORMAT];
        payload.put_u128(self.identity.0);
        payload.put_u64(self.commit);
        sealed(&payload)
    }
}

/// How many rows there are of each part.
pub fn encode_end(counts: &[u64; Part::ALL.len()]) -> Bytes {
    let mut payload = vec![b'e'];
    counts.iter().for_each(|count| payload.put_u64(*count));
    sealed(&payload)
}

/// What is handed on if there can be no more.
pub fn encode_failure(words: &str) -> Bytes {
    sealed(&[b"x", words.as_bytes()].concat())
}

fn sealed(payload: &[u8]) -> Bytes {
    let mut block = BytesMut::with_capacity(payload.len() + HEADER_BYTES as usize);
    block.put_u32(payload.len() as u32);
    block.put_u32(crc32c::crc32c(payload));
    block.put_slice(payload);
    block.freeze()
}

/// Gathers rows of one part.
pub struct BlockWriter {
    payload: Vec<u8>,
    is_empty: bool,
}

impl BlockWriter {
    pub fn new(part: Part) -> Self {
        BlockWriter { payload: vec![b'r', part as u8], is_empty: true }
    }

    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        self.is_empty = false;
        self.payload.put_u32(key.len() as u32);
        self.payload.put_u32(value.len() as u32);
        self.payload.put_slice(key);
        self.payload.put_slice(value);
    }

    pub fn is_full(&self) -> bool {
        self.payload.len() >= BLOCK_BYTES
    }

    /// `None` without rows.
    pub fn finish(self) -> Option<Bytes> {
        (!self.is_empty).then(|| sealed(&self.payload))
    }
}

/// A block that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Block {
    Head(Head),
    Rows(Part, Rows),
    End([u64; Part::ALL.len()]),
    Failure(String),
}

/// Rows of one part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rows(Bytes);

impl Rows {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Iterator for Rows {
    type Item = (Bytes, Bytes);

    fn next(&mut self) -> Option<(Bytes, Bytes)> {
        // Every length was looked at when the block was decoded.
        let (key, value) = (self.0.try_get_u32().ok()?, self.0.try_get_u32().ok()?);
        Some((self.0.split_to(key as usize), self.0.split_to(value as usize)))
    }
}

/// The next block as it came, its checksum verified; `None` at the end.
pub fn read(from: &mut impl Read) -> io::Result<Option<Bytes>> {
    let mut header = Vec::new();
    from.by_ref().take(HEADER_BYTES).read_to_end(&mut header)?;
    if header.is_empty() {
        return Ok(None);
    }
    let bad = |words: &str| io::Error::new(io::ErrorKind::InvalidData, words.to_owned());
    let mut fields = header.as_slice();
    let (Ok(length), Ok(sum)) = (fields.try_get_u32(), fields.try_get_u32()) else {
        return Err(bad("it ends within a block"));
    };
    if length > BLOCK_BYTES_MAX {
        return Err(bad("a block is longer than blocks are"));
    }
    let mut block = Vec::with_capacity((length as usize).min(2 * BLOCK_BYTES));
    block.extend_from_slice(&header);
    from.by_ref().take(u64::from(length)).read_to_end(&mut block)?;
    let payload = &block[HEADER_BYTES as usize..];
    if payload.len() as u64 != u64::from(length) {
        return Err(bad("it ends within a block"));
    }
    if crc32c::crc32c(payload) != sum {
        return Err(bad("the checksum of a block does not match"));
    }
    Ok(Some(block.into()))
}

/// What is in a block that `read` gave; `None` if it makes no sense.
pub fn decode(block: &Bytes) -> Option<Block> {
    let mut payload = block.get(HEADER_BYTES as usize..).map(|_| block.slice(HEADER_BYTES as usize..))?;
    match payload.try_get_u8().ok()? {
        b'h' => {
            if payload.try_get_u8().ok()? != FORMAT {
                return None;
            }
            let identity = Id(payload.try_get_u128().ok()?);
            let commit = payload.try_get_u64().ok()?;
            payload.is_empty().then_some(Block::Head(Head { identity, commit }))
        }
        b'r' => {
            let part = *Part::ALL.get(usize::from(payload.try_get_u8().ok()?))?;
            let mut rest = payload.as_ref();
            while !rest.is_empty() {
                let row = u64::from(rest.try_get_u32().ok()?) + u64::from(rest.try_get_u32().ok()?);
                rest = rest.get(usize::try_from(row).ok()?..)?;
            }
            Some(Block::Rows(part, Rows(payload)))
        }
        b'e' => {
            let mut counts = [0; Part::ALL.len()];
            for count in &mut counts {
                *count = payload.try_get_u64().ok()?;
            }
            payload.is_empty().then_some(Block::End(counts))
        }
        b'x' => Some(Block::Failure(String::from_utf8_lossy(&payload).into_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_back_and_damage_is_told() {
        let head = Head { identity: Id(7), commit: 9 };
        let mut rows = BlockWriter::new(Part::Refs);
        let pairs = [(&b"k"[..], &b"value"[..]), (b"", b""), (b"\0", b"\xff")];
        pairs.iter().for_each(|(key, value)| rows.push(key, value));
        assert!(BlockWriter::new(Part::Meta).finish().is_none());
        let rows = rows.finish().expect("rows");
        let file = [head.encode(), rows.clone(), encode_end(&[1, 2, 3, 4]), encode_failure("no more")].concat();
        let mut from = file.as_slice();
        let mut blocks = Vec::new();
        while let Some(block) = read(&mut from).expect("whole") {
            blocks.push(decode(&block).expect("ours"));
        }
        let Block::Rows(Part::Refs, found) = &blocks[1] else { panic!("{blocks:?}") };
        let found: Vec<_> = found.clone().collect();
        assert!(found.iter().map(|(key, value)| (key.as_ref(), value.as_ref())).eq(pairs));
        assert_eq!(blocks[0], Block::Head(head));
        assert_eq!(blocks[2..], [Block::End([1, 2, 3, 4]), Block::Failure("no more".to_owned())]);
        for at in 0..rows.len() {
            let mut bytes = rows.to_vec();
            bytes[at] ^= 1;
            assert!(read(&mut bytes.as_slice()).is_err(), "a flipped bit at {at}");
            assert!(at == 0 || read(&mut &rows[..at]).is_err(), "cut at {at}");
        }
        for end in 0..rows.len() {
            let _ = decode(&rows.slice(..end)); // never a panic
        }
    }
}
