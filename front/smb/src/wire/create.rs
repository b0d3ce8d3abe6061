//! CREATE and its contexts (MS-SMB2 2.2.13, 2.2.14).

use super::header::HEADER_BYTES;
use super::{Cursor, Put, part};

/// A file as a client names it: the number of the open, twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FileId {
    pub persistent: u64,
    pub volatile: u64,
}

impl FileId {
    /// That of the request before in the same chain.
    pub const RELATED: FileId = FileId { persistent: u64::MAX, volatile: u64::MAX };

    pub fn decode(cursor: &mut Cursor<'_>) -> Option<FileId> {
        Some(FileId { persistent: cursor.u64()?, volatile: cursor.u64()? })
    }

    pub fn encode(self, out: &mut Vec<u8>) {
        out.put_u64(self.persistent);
        out.put_u64(self.volatile);
    }
}

pub mod oplock {
    pub const NONE: u8 = 0;
    pub const LEVEL_II: u8 = 1;
    pub const EXCLUSIVE: u8 = 8;
    pub const BATCH: u8 = 9;
    pub const LEASE: u8 = 0xFF;
}

pub mod disposition {
    pub const SUPERSEDE: u32 = 0;
    pub const OPEN: u32 = 1;
    pub const CREATE: u32 = 2;
    pub const OPEN_IF: u32 = 3;
    pub const OVERWRITE: u32 = 4;
    pub const OVERWRITE_IF: u32 = 5;
}

pub mod option {
    pub const DIRECTORY: u32 = 0x1;
    pub const WRITE_THROUGH: u32 = 0x2;
    pub const NO_INTERMEDIATE_BUFFERING: u32 = 0x8;
    pub const SYNCHRONOUS_ALERT: u32 = 0x10;
    pub const SYNCHRONOUS_NONALERT: u32 = 0x20;
    pub const NON_DIRECTORY: u32 = 0x40;
    pub const CREATE_TREE_CONNECTION: u32 = 0x80;
    pub const NO_EA_KNOWLEDGE: u32 = 0x200;
    pub const DELETE_ON_CLOSE: u32 = 0x1000;
    pub const OPEN_BY_FILE_ID: u32 = 0x2000;
    pub const RESERVE_OPFILTER: u32 = 0x10_0000;
    pub const OPEN_REPARSE_POINT: u32 = 0x20_0000;
    /// Bits without a meaning.
    pub const UNKNOWN: u32 = 0xFF00_0000;
}

pub mod action {
    pub const SUPERSEDED: u32 = 0;
    pub const OPENED: u32 = 1;
    pub const CREATED: u32 = 2;
    pub const OVERWRITTEN: u32 = 3;
}

#[derive(Clone, PartialEq, Debug)]
pub struct Request<'a> {
    pub oplock: u8,
    pub impersonation: u32,
    pub access: u32,
    pub attributes: u32,
    pub share: u32,
    pub disposition: u32,
    pub options: u32,
    /// In UTF-16.
    pub name: &'a [u8],
    pub contexts: Contexts<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lease {
    pub key: [u8; 16],
    pub state: u32,
    /// Of version 2: its parent's key if it has one, and the epoch.
    pub second: Option<(Option<[u8; 16]>, u16)>,
}

pub mod lease {
    pub const READ: u32 = 1;
    pub const HANDLE: u32 = 2;
    pub const WRITE: u32 = 4;
    pub const BREAK_IN_PROGRESS: u32 = 2;
    pub const PARENT_KEY_SET: u32 = 4;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DurableRequest {
    /// Milliseconds; 0 leaves it to the server.
    pub timeout: u32,
    pub is_persistent: bool,
    pub create: [u8; 16],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DurableReconnect {
    pub file: FileId,
    pub create: [u8; 16],
    pub is_persistent: bool,
}

/// What the client adds. Those of applications (resilience of Hyper-V and the like) are left alone.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Contexts<'a> {
    pub has_attributes: bool,
    pub descriptor: Option<&'a [u8]>,
    pub allocation: Option<u64>,
    pub maximal_access: Option<u64>,
    pub snapshot: Option<u64>,
    pub wants_id: bool,
    pub lease: Option<Lease>,
    pub durable: bool,
    pub durable_reconnect: Option<FileId>,
    pub durable_2: Option<DurableRequest>,
    pub durable_2_reconnect: Option<DurableReconnect>,
}

/// How many contexts a request may have; clients send fewer than ten.
const CONTEXTS_MAX: usize = 64;

impl<'a> Request<'a> {
    pub fn decode(message: &'a [u8]) -> Option<Request<'a>> {
        let mut cursor = Cursor::at(message, HEADER_BYTES)?;
        if cursor.u16()? != 57 {
            return None;
        }
        cursor.skip(1)?;
        let (oplock, impersonation) = (cursor.u8()?, cursor.u32()?);
        cursor.skip(16)?;
        let (access, attributes, share) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
        let (disposition, options) = (cursor.u32()?, cursor.u32()?);
        let (name_at, name_bytes) = (cursor.u16()?, cursor.u16()?);
        let (contexts_at, contexts_bytes) = (cursor.u32()?, cursor.u32()?);
        Some(Request {
            oplock,
            impersonation,
            access,
            attributes,
            share,
            disposition,
            options,
            name: part(message, name_at as usize, name_bytes as usize)?,
            contexts: Contexts::decode(part(message, contexts_at as usize, contexts_bytes as usize)?)?,
        })
    }
}

impl<'a> Contexts<'a> {
    fn decode(mut bytes: &'a [u8]) -> Option<Contexts<'a>> {
        let mut found = Contexts::default();
        for _ in 0..CONTEXTS_MAX {
            if bytes.is_empty() {
                return Some(found);
            }
            let mut cursor = Cursor::new(bytes);
            let next = cursor.u32()? as usize;
            let (name_at, name_bytes) = (cursor.u16()?, cursor.u16()?);
            cursor.skip(2)?;
            let (data_at, data_bytes) = (cursor.u16()?, cursor.u32()?);
            let own = if next == 0 { bytes } else { bytes.get(..next)? };
            let name = part(own, name_at as usize, name_bytes as usize)?;
            found.add(name, part(own, data_at as usize, data_bytes as usize)?)?;
            bytes = if next == 0 { &[] } else { bytes.get(next..)? };
        }
        None
    }

    fn add(&mut self, name: &[u8], data: &'a [u8]) -> Option<()> {
        let mut cursor = Cursor::new(data);
        match name {
            b"ExtA" => self.has_attributes = true,
            b"SecD" => self.descriptor = Some(data),
            b"AlSi" => self.allocation = Some(cursor.u64()?),
            b"MxAc" => self.maximal_access = Some(if data.is_empty() { 0 } else { cursor.u64()? }),
            b"TWrp" => self.snapshot = Some(cursor.u64()?),
            b"QFid" => self.wants_id = true,
            b"DHnQ" => self.durable = true,
            b"DHnC" => self.durable_reconnect = Some(FileId::decode(&mut cursor)?),
            b"DH2Q" => {
                let (timeout, flags) = (cursor.u32()?, cursor.u32()?);
                cursor.skip(8)?;
                let create = cursor.array()?;
                self.durable_2 = Some(DurableRequest { timeout, is_persistent: flags & 2 != 0, create });
            }
            b"DH2C" => {
                let (file, create, flags) = (FileId::decode(&mut cursor)?, cursor.array()?, cursor.u32()?);
                self.durable_2_reconnect = Some(DurableReconnect { file, create, is_persistent: flags & 2 != 0 });
            }
            b"RqLs" => self.lease = Some(Lease::decode(data)?),
            _ => {}
        }
        Some(())
    }
}

impl Lease {
    fn decode(data: &[u8]) -> Option<Lease> {
        let mut cursor = Cursor::new(data);
        let (key, state, flags) = (cursor.array()?, cursor.u32()?, cursor.u32()?);
        cursor.skip(8)?;
        let second = match data.len() {
            32 => None,
            52 => {
                let parent = cursor.array()?;
                Some(((flags & lease::PARENT_KEY_SET != 0).then_some(parent), cursor.u16()?))
            }
            _ => return None,
        };
        Some(Lease { key, state, second })
    }

    pub fn encode(&self, flags: u32) -> Vec<u8> {
        let mut out = Vec::with_capacity(52);
        out.put(&self.key);
        out.put_u32(self.state);
        let parent = self.second.and_then(|(parent, _)| parent);
        out.put_u32(flags | if parent.is_some() { lease::PARENT_KEY_SET } else { 0 });
        out.put_u64(0);
        if let Some((parent, epoch)) = self.second {
            out.put(&parent.unwrap_or_default());
            out.put_u16(epoch);
            out.put_u16(0);
        }
        out
    }
}

/// The times, sizes and attributes that several responses carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    pub created: u64,
    pub accessed: u64,
    pub written: u64,
    pub changed: u64,
    pub allocated: u64,
    pub bytes: u64,
    pub attributes: u32,
}

impl Facts {
    pub fn encode_times(&self, out: &mut Vec<u8>) {
        for time in [self.created, self.accessed, self.written, self.changed] {
            out.put_u64(time);
        }
    }

    /// As CREATE and CLOSE have them, and FileNetworkOpenInformation.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_times(out);
        out.put_u64(self.allocated);
        out.put_u64(self.bytes);
        out.put_u32(self.attributes);
    }
}

pub struct Response {
    pub oplock: u8,
    pub action: u32,
    pub facts: Facts,
    pub file: FileId,
    /// Names of four letters, and what they hold.
    pub contexts: Vec<(&'static [u8; 4], Vec<u8>)>,
}

impl Response {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(152);
        out.put_u16(89);
        out.put_u8(self.oplock);
        out.put_u8(0);
        out.put_u32(self.action);
        self.facts.encode(&mut out);
        out.put_u32(0);
        self.file.encode(&mut out);
        let contexts = encode_contexts(&self.contexts);
        out.put_u32(if contexts.is_empty() { 0 } else { (HEADER_BYTES + 88) as u32 });
        out.put_u32(contexts.len() as u32);
        out.put(&contexts);
        out
    }
}

fn encode_contexts(contexts: &[(&'static [u8; 4], Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (at, (name, data)) in contexts.iter().enumerate() {
        let begin = out.len();
        out.put_u32(0);
        out.put_u16(16);
        out.put_u16(4);
        out.put_u16(0);
        out.put_u16(if data.is_empty() { 0 } else { 24 });
        out.put_u32(data.len() as u32);
        out.put(*name);
        out.put_u32(0);
        out.put(data);
        if at + 1 < contexts.len() {
            out.align(8);
            let next = (out.len() - begin) as u32;
            out.set_u32(begin, next);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_read_as_they_were_written() {
        let lease = Lease { key: [7; 16], state: lease::READ, second: Some((Some([8; 16]), 3)) };
        let written = encode_contexts(&[
            (b"QFid", Vec::new()),
            (b"RqLs", lease.encode(0)),
            (b"AlSi", 4096_u64.to_le_bytes().to_vec()),
        ]);
        let read = Contexts::decode(&written).expect("well formed");
        assert!(read.wants_id);
        assert_eq!(read.lease, Some(lease));
        assert_eq!(read.allocation, Some(4096));
        for shorter in 1..written.len() {
            assert!(Contexts::decode(&written[..shorter]).is_none_or(|read| read.allocation.is_none()), "{shorter}");
        }
    }
}
