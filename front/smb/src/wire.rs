//! Messages as bytes (MS-SMB2 2.2): one file per family of commands, each with what a client sends and what it is
//! answered. Nothing here knows what a message means. What is read is bounded by what arrived; what does not fit is
//! `None`, never a panic.

pub mod create;
pub mod header;
pub mod info;
pub mod io;
pub mod negotiate;
pub mod query;
pub mod session;

use bytes::Bytes;

/// Reads little-endian numbers one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes }
    }

    /// From this offset of a message on.
    pub fn at(message: &'a [u8], offset: usize) -> Option<Cursor<'a>> {
        message.get(offset..).map(Cursor::new)
    }

    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn skip(&mut self, count: usize) -> Option<()> {
        self.take(count).map(|_| ())
    }

    pub fn rest(self) -> &'a [u8] {
        self.bytes
    }
}

/// A part of a message by its offset and length. A part without bytes may be anywhere.
pub fn part(message: &[u8], offset: usize, length: usize) -> Option<&[u8]> {
    match length {
        0 => Some(&[]),
        _ => message.get(offset..offset.checked_add(length)?),
    }
}

/// The same, sharing the message's buffer.
pub fn shared_part(message: &Bytes, offset: usize, length: usize) -> Option<Bytes> {
    part(message, offset, length)?;
    Some(if length == 0 { Bytes::new() } else { message.slice(offset..offset + length) })
}

/// Text in UTF-16; `None` if it is none.
pub fn text(bytes: &[u8]) -> Option<String> {
    if !bytes.len().is_multiple_of(2) {
        return None;
    }
    let units = bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    char::decode_utf16(units).collect::<Result<String, _>>().ok()
}

pub fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// Writes little-endian numbers one after the other.
pub trait Put {
    fn put_u8(&mut self, value: u8);
    fn put_u16(&mut self, value: u16);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
    fn put(&mut self, bytes: &[u8]);
    fn put_zeros(&mut self, count: usize);
    /// Zeros up to a multiple of `to` bytes.
    fn align(&mut self, to: usize);
    fn set_u16(&mut self, at: usize, value: u16);
    fn set_u32(&mut self, at: usize, value: u32);
}

impl Put for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }

    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn put_zeros(&mut self, count: usize) {
        self.resize(self.len() + count, 0);
    }

    fn align(&mut self, to: usize) {
        self.resize(self.len().next_multiple_of(to), 0);
    }

    fn set_u16(&mut self, at: usize, value: u16) {
        self[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }

    fn set_u32(&mut self, at: usize, value: u32) {
        self[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_inside_their_message() {
        let message = [1, 2, 3, 4];
        for (offset, length, expected) in [
            (0, 4, Some(&[1, 2, 3, 4][..])),
            (3, 1, Some(&[4])),
            (4, 0, Some(&[])),
            (900, 0, Some(&[])),
            (3, 2, None),
            (5, 1, None),
            (1, usize::MAX, None),
        ] {
            assert_eq!(part(&message, offset, length), expected, "{offset} {length}");
        }
    }

    #[test]
    fn text_is_utf16_and_nothing_else() {
        for name in ["", "file.txt", "Zürich", "\u{1F600}"] {
            assert_eq!(text(&utf16(name)).as_deref(), Some(name));
        }
        assert_eq!(text(&[0x41]), None, "half a unit");
        assert_eq!(text(&[0x00, 0xD8]), None, "half a pair");
    }
}
