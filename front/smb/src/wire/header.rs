//! The header every message begins with, and the one around what is encrypted (MS-SMB2 2.2.1, 2.2.41).

use bytes::Bytes;

use super::{Cursor, Put};

pub const HEADER_BYTES: usize = 64;
/// Where in the header the signature is.
pub const SIGNATURE: std::ops::Range<usize> = 48..64;

pub const PROTOCOL: [u8; 4] = [0xFE, b'S', b'M', b'B'];
pub const PROTOCOL_1: [u8; 4] = [0xFF, b'S', b'M', b'B'];
pub const PROTOCOL_SEALED: [u8; 4] = [0xFD, b'S', b'M', b'B'];

pub mod flag {
    pub const RESPONSE: u32 = 0x1;
    pub const ASYNC: u32 = 0x2;
    pub const RELATED: u32 = 0x4;
    pub const SIGNED: u32 = 0x8;
    pub const REPLAY: u32 = 0x2000_0000;
}

/// No file, no session, no tree: that of the request before in the same chain.
pub const RELATED_ID: u64 = u64::MAX;
/// The message id of what nobody asked for.
pub const UNASKED: u64 = u64::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    pub credit_charge: u16,
    /// Of a response its status; of a request in 3.x its channel sequence in the lower half.
    pub status: u32,
    pub command: u16,
    /// Wanted by a request, granted by a response.
    pub credits: u16,
    pub flags: u32,
    /// Where the next message of the chain begins, from this one; 0 if it is the last.
    pub next: u32,
    pub message_id: u64,
    /// Of a message that is answered later.
    pub async_id: u64,
    pub tree_id: u32,
    pub session_id: u64,
    pub signature: [u8; 16],
}

impl Header {
    pub fn decode(bytes: &[u8]) -> Option<Header> {
        let mut cursor = Cursor::new(bytes);
        if cursor.array()? != PROTOCOL || cursor.u16()? != 64 {
            return None;
        }
        let (credit_charge, status, command, credits) = (cursor.u16()?, cursor.u32()?, cursor.u16()?, cursor.u16()?);
        let (flags, next, message_id) = (cursor.u32()?, cursor.u32()?, cursor.u64()?);
        let ids = cursor.array::<8>()?;
        let is_async = flags & flag::ASYNC != 0;
        Some(Header {
            credit_charge,
            status,
            command,
            credits,
            flags,
            next,
            message_id,
            async_id: if is_async { u64::from_le_bytes(ids) } else { 0 },
            tree_id: if is_async { 0 } else { u32::from_le_bytes([ids[4], ids[5], ids[6], ids[7]]) },
            session_id: cursor.u64()?,
            signature: cursor.array()?,
        })
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put(&PROTOCOL);
        out.put_u16(64);
        out.put_u16(self.credit_charge);
        out.put_u32(self.status);
        out.put_u16(self.command);
        out.put_u16(self.credits);
        out.put_u32(self.flags);
        out.put_u32(self.next);
        out.put_u64(self.message_id);
        if self.flags & flag::ASYNC != 0 {
            out.put_u64(self.async_id);
        } else {
            out.put_u32(0);
            out.put_u32(self.tree_id);
        }
        out.put_u64(self.session_id);
        out.put(&self.signature);
    }

    pub fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Which try of the client's this is, after its connection was lost (3.x).
    pub fn channel_sequence(&self) -> u16 {
        self.status as u16
    }
}

/// Messages in one frame.
const CHAIN_MAX: usize = 64;

/// The requests of a frame, each up to the next one, or what is wrong with them.
pub fn split(frame: &Bytes) -> Result<Vec<(Header, Bytes)>, &'static str> {
    let mut found = Vec::new();
    let mut rest = frame.clone();
    loop {
        if found.len() >= CHAIN_MAX {
            return Err("too many messages in one frame");
        }
        let header = Header::decode(&rest).ok_or("what is no message")?;
        if header.has(flag::RESPONSE) {
            return Err("a response");
        }
        match header.next as usize {
            0 => {
                found.push((header, rest));
                return Ok(found);
            }
            next if next % 8 == 0 && next >= HEADER_BYTES && next < rest.len() => {
                let message = rest.split_to(next);
                found.push((header, message));
            }
            _ => return Err("a chain that leads nowhere"),
        }
    }
}

/// What stands before encrypted bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sealed {
    pub tag: [u8; 16],
    pub nonce: [u8; 16],
    /// Of what is inside.
    pub bytes: u32,
    pub session_id: u64,
}

pub const SEALED_BYTES: usize = 52;
/// What the tag vouches for besides the bytes: the header behind the tag.
pub const SEALED_OPEN: std::ops::Range<usize> = 20..SEALED_BYTES;

impl Sealed {
    /// `None` as well for what says that it is not encrypted.
    pub fn decode(bytes: &[u8]) -> Option<Sealed> {
        let mut cursor = Cursor::new(bytes);
        if cursor.array()? != PROTOCOL_SEALED {
            return None;
        }
        let (tag, nonce, bytes) = (cursor.array()?, cursor.array()?, cursor.u32()?);
        cursor.skip(2)?;
        let is_sealed = cursor.u16()? == 1;
        is_sealed.then_some(Sealed { tag, nonce, bytes, session_id: cursor.u64()? })
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put(&PROTOCOL_SEALED);
        out.put(&self.tag);
        out.put(&self.nonce);
        out.put_u32(self.bytes);
        out.put_u16(0);
        out.put_u16(1);
        out.put_u64(self.session_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            credit_charge: 1,
            status: 0xC000_0022,
            command: 5,
            credits: 31,
            flags: flag::RESPONSE | flag::SIGNED,
            next: 88,
            message_id: 7,
            async_id: 0,
            tree_id: 9,
            session_id: 11,
            signature: [3; 16],
        }
    }

    #[test]
    fn headers_are_read_as_they_were_written() {
        let in_async = Header { flags: flag::ASYNC, async_id: 0x1_0000_0002, tree_id: 0, ..header() };
        for header in [header(), in_async] {
            let mut bytes = Vec::new();
            header.encode(&mut bytes);
            assert_eq!(bytes.len(), HEADER_BYTES);
            assert_eq!(bytes[SIGNATURE], [3; 16]);
            assert_eq!(Header::decode(&bytes), Some(header));
            assert!((0..HEADER_BYTES).all(|shorter| Header::decode(&bytes[..shorter]).is_none()));
        }
    }

    #[test]
    fn chains_are_split_where_they_say_and_nowhere_else() {
        let message = |next: u32, flags: u32, bytes: usize| {
            let mut out = Vec::new();
            Header { next, flags, ..header() }.encode(&mut out);
            out.resize(bytes, 0);
            out
        };
        for (frame, expected) in [
            (message(0, 0, 70), Ok(vec![70])),
            ([message(72, 0, 72), message(0, 0, 66)].concat(), Ok(vec![72, 66])),
            (message(0, flag::RESPONSE, 70), Err("a response")),
            (message(72, 0, 72), Err("a chain that leads nowhere")),
            (message(12, 0, 200), Err("a chain that leads nowhere")),
            (message(u32::MAX, 0, 200), Err("a chain that leads nowhere")),
            ([message(72, 0, 72), vec![0; 64]].concat(), Err("what is no message")),
            (vec![0; 10], Err("what is no message")),
            (message(64, 0, 64).repeat(100), Err("too many messages in one frame")),
        ] {
            let lengths = split(&frame.into()).map(|found| found.iter().map(|(_, part)| part.len()).collect());
            assert_eq!(lengths, expected);
        }
    }

    #[test]
    fn sealed_headers_are_read_as_they_were_written() {
        let sealed = Sealed { tag: [1; 16], nonce: [2; 16], bytes: 77, session_id: 5 };
        let mut bytes = Vec::new();
        sealed.encode(&mut bytes);
        assert_eq!(bytes.len(), SEALED_BYTES);
        assert_eq!(Sealed::decode(&bytes), Some(sealed));
        bytes[42] = 0;
        assert_eq!(Sealed::decode(&bytes), None, "not encrypted");
    }
}
