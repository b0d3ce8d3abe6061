//! What is done with an open file: CLOSE, FLUSH, READ, WRITE, LOCK, IOCTL, CHANGE_NOTIFY, and the breaks of oplocks and
//! leases (MS-SMB2 2.2.15 to 2.2.36).

use bytes::Bytes;

use super::create::{Facts, FileId};
use super::header::HEADER_BYTES;
use super::{Cursor, Put, part, shared_part};

fn begin(message: &[u8], size: u16) -> Option<Cursor<'_>> {
    let mut cursor = Cursor::at(message, HEADER_BYTES)?;
    (cursor.u16()? == size).then_some(cursor)
}

/// CLOSE: does the client want to know what the file is like at last?
pub fn close_request(message: &[u8]) -> Option<bool> {
    let mut cursor = begin(message, 24)?;
    Some(cursor.u16()? & 1 != 0)
}

pub fn close_response(facts: Option<&Facts>) -> Vec<u8> {
    let mut out = Vec::with_capacity(60);
    out.put_u16(60);
    out.put_u16(u16::from(facts.is_some()));
    out.put_u32(0);
    facts.copied().unwrap_or_default().encode(&mut out);
    out
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadRequest {
    pub length: u32,
    pub offset: u64,
    /// Fewer bytes are none.
    pub at_least: u32,
}

impl ReadRequest {
    pub fn decode(message: &[u8]) -> Option<ReadRequest> {
        let mut cursor = begin(message, 49)?;
        cursor.skip(2)?;
        let (length, offset) = (cursor.u32()?, cursor.u64()?);
        cursor.skip(16)?;
        Some(ReadRequest { length, offset, at_least: cursor.u32()? })
    }
}

/// What stands before the bytes that were read.
pub fn read_response(bytes: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(16);
    out.put_u16(17);
    out.put_u8(HEADER_BYTES as u8 + 16);
    out.put_u8(0);
    out.put_u32(bytes);
    out.put_u64(0);
    out
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WriteRequest {
    pub offset: u64,
    pub data: Bytes,
    pub is_through: bool,
}

impl WriteRequest {
    pub fn decode(message: &Bytes) -> Option<WriteRequest> {
        let mut cursor = begin(message, 49)?;
        let (data_at, length, offset) = (cursor.u16()?, cursor.u32()?, cursor.u64()?);
        cursor.skip(16 + 4 + 4 + 4)?;
        let flags = cursor.u32()?;
        let data = shared_part(message, data_at as usize, length as usize)?;
        Some(WriteRequest { offset, data, is_through: flags & 1 != 0 })
    }
}

pub fn write_response(bytes: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(16);
    out.put_u16(17);
    out.put_u16(0);
    out.put_u32(bytes);
    out.put_u64(0);
    out
}

pub mod lock_flag {
    pub const SHARED: u32 = 1;
    pub const EXCLUSIVE: u32 = 2;
    pub const UNLOCK: u32 = 4;
    pub const FAIL_IMMEDIATELY: u32 = 0x10;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockElement {
    pub offset: u64,
    pub length: u64,
    pub flags: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockRequest {
    /// The number in the lower four bits, the index above them.
    pub sequence: u32,
    pub elements: Vec<LockElement>,
}

/// Locks taken or given back by one request.
pub const LOCK_ELEMENTS_MAX: u16 = 64;

impl LockRequest {
    pub fn decode(message: &[u8]) -> Option<LockRequest> {
        let mut cursor = begin(message, 48)?;
        let (count, sequence) = (cursor.u16()?, cursor.u32()?);
        cursor.skip(16)?;
        if count == 0 || count > LOCK_ELEMENTS_MAX {
            return None;
        }
        let element = |_| {
            let (offset, length, flags) = (cursor.u64()?, cursor.u64()?, cursor.u32()?);
            cursor.skip(4)?;
            Some(LockElement { offset, length, flags })
        };
        Some(LockRequest { sequence, elements: (0..count).map(element).collect::<Option<Vec<_>>>()? })
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IoctlRequest<'a> {
    pub code: u32,
    pub file: FileId,
    pub input: &'a [u8],
    pub output_max: u32,
    /// Not a device control: nothing else is known here.
    pub is_fsctl: bool,
}

impl<'a> IoctlRequest<'a> {
    pub fn decode(message: &'a [u8]) -> Option<IoctlRequest<'a>> {
        let mut cursor = begin(message, 57)?;
        cursor.skip(2)?;
        let (code, file) = (cursor.u32()?, FileId::decode(&mut cursor)?);
        let (input_at, input_bytes) = (cursor.u32()?, cursor.u32()?);
        cursor.skip(4 + 8)?;
        let (output_max, flags) = (cursor.u32()?, cursor.u32()?);
        let input = part(message, input_at as usize, input_bytes as usize)?;
        Some(IoctlRequest { code, file, input, output_max, is_fsctl: flags & 1 != 0 })
    }
}

pub fn ioctl_response(code: u32, file: FileId, output: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(48 + output.len());
    let at = (HEADER_BYTES + 48) as u32;
    out.put_u16(49);
    out.put_u16(0);
    out.put_u32(code);
    file.encode(&mut out);
    out.put_u32(at);
    out.put_u32(0);
    out.put_u32(at);
    out.put_u32(output.len() as u32);
    out.put_u64(0);
    out.put(output);
    out
}

pub const RESUME_KEY_BYTES: usize = 24;

/// SRV_COPYCHUNK_COPY (MS-SMB2 2.2.31.1): from where, and how many chunks it says it has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopyRequest<'a> {
    pub source: FileId,
    pub count: u32,
    chunks: &'a [u8],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk {
    pub from: u64,
    pub to: u64,
    pub bytes: u32,
}

impl<'a> CopyRequest<'a> {
    pub fn decode(input: &'a [u8]) -> Option<CopyRequest<'a>> {
        let mut cursor = Cursor::new(input);
        let source = FileId::decode(&mut Cursor::new(cursor.take(RESUME_KEY_BYTES)?))?;
        let count = cursor.u32()?;
        cursor.skip(4)?;
        Some(CopyRequest { source, count, chunks: input.get(RESUME_KEY_BYTES + 8..)? })
    }

    /// `None` if it has fewer than it says.
    pub fn chunks(&self) -> Option<Vec<Chunk>> {
        let mut cursor = Cursor::new(self.chunks);
        let chunk = |_| {
            let (from, to, bytes) = (cursor.u64()?, cursor.u64()?, cursor.u32()?);
            cursor.skip(4)?;
            Some(Chunk { from, to, bytes })
        };
        (0..self.count).map(chunk).collect()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotifyRequest {
    pub is_recursive: bool,
    pub output_max: u32,
    pub filter: u32,
}

impl NotifyRequest {
    pub fn decode(message: &[u8]) -> Option<NotifyRequest> {
        let mut cursor = begin(message, 32)?;
        let (flags, output_max) = (cursor.u16()?, cursor.u32()?);
        cursor.skip(16)?;
        Some(NotifyRequest { is_recursive: flags & 1 != 0, output_max, filter: cursor.u32()? })
    }
}

/// QUERY_DIRECTORY, QUERY_INFO and CHANGE_NOTIFY are answered alike.
pub fn output_response(output: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(8 + output.len());
    out.put_u16(9);
    out.put_u16(if output.is_empty() { 0 } else { HEADER_BYTES as u16 + 8 });
    out.put_u32(output.len() as u32);
    out.put(output);
    out
}

/// What a client answers to a break.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acknowledgment {
    Oplock { level: u8, file: FileId },
    Lease { key: [u8; 16], state: u32 },
}

impl Acknowledgment {
    pub fn decode(message: &[u8]) -> Option<Acknowledgment> {
        let mut cursor = Cursor::at(message, HEADER_BYTES)?;
        match cursor.u16()? {
            24 => {
                let level = cursor.u8()?;
                cursor.skip(5)?;
                Some(Acknowledgment::Oplock { level, file: FileId::decode(&mut cursor)? })
            }
            36 => {
                cursor.skip(6)?;
                Some(Acknowledgment::Lease { key: cursor.array()?, state: cursor.u32()? })
            }
            _ => None,
        }
    }
}

/// The same shape tells a client that its oplock breaks, and that its answer was heard.
pub fn oplock_break(level: u8, file: FileId) -> Vec<u8> {
    let mut out = Vec::with_capacity(24);
    out.put_u16(24);
    out.put_u8(level);
    out.put_zeros(5);
    file.encode(&mut out);
    out
}

pub fn lease_break(key: [u8; 16], epoch: u16, needs_answer: bool, from: u32, to: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(44);
    out.put_u16(44);
    out.put_u16(epoch);
    out.put_u32(u32::from(needs_answer));
    out.put(&key);
    out.put_u32(from);
    out.put_u32(to);
    out.put_zeros(12);
    out
}

pub fn lease_break_response(key: [u8; 16], state: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(36);
    out.put_u16(36);
    out.put_zeros(6);
    out.put(&key);
    out.put_u32(state);
    out.put_u64(0);
    out
}
