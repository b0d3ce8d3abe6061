//! QUERY_DIRECTORY, QUERY_INFO, SET_INFO (MS-SMB2 2.2.33 to 2.2.40), and what renames and links carry.

use super::header::HEADER_BYTES;
use super::{Cursor, part, text};

pub mod search {
    pub const RESTART: u8 = 1;
    pub const SINGLE: u8 = 2;
    pub const INDEX: u8 = 4;
    pub const REOPEN: u8 = 0x10;
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectoryRequest {
    pub class: u8,
    pub flags: u8,
    pub index: u32,
    pub pattern: String,
    pub output_max: u32,
}

impl DirectoryRequest {
    pub fn decode(message: &[u8]) -> Option<DirectoryRequest> {
        let mut cursor = Cursor::at(message, HEADER_BYTES)?;
        if cursor.u16()? != 33 {
            return None;
        }
        let (class, flags, index) = (cursor.u8()?, cursor.u8()?, cursor.u32()?);
        cursor.skip(16)?;
        let (at, bytes, output_max) = (cursor.u16()?, cursor.u16()?, cursor.u32()?);
        let pattern = text(part(message, at as usize, bytes as usize)?)?;
        Some(DirectoryRequest { class, flags, index, pattern, output_max })
    }
}

pub mod info_type {
    pub const FILE: u8 = 1;
    pub const FILE_SYSTEM: u8 = 2;
    pub const SECURITY: u8 = 3;
    pub const QUOTA: u8 = 4;
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueryRequest {
    pub kind: u8,
    pub class: u8,
    pub output_max: u32,
    /// Which parts of a security descriptor.
    pub additional: u32,
}

impl QueryRequest {
    pub fn decode(message: &[u8]) -> Option<QueryRequest> {
        let mut cursor = Cursor::at(message, HEADER_BYTES)?;
        if cursor.u16()? != 41 {
            return None;
        }
        let (kind, class, output_max) = (cursor.u8()?, cursor.u8()?, cursor.u32()?);
        cursor.skip(8)?;
        Some(QueryRequest { kind, class, output_max, additional: cursor.u32()? })
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetRequest<'a> {
    pub kind: u8,
    pub class: u8,
    pub additional: u32,
    pub input: &'a [u8],
}

impl<'a> SetRequest<'a> {
    pub fn decode(message: &'a [u8]) -> Option<SetRequest<'a>> {
        let mut cursor = Cursor::at(message, HEADER_BYTES)?;
        if cursor.u16()? != 33 {
            return None;
        }
        let (kind, class, bytes, at) = (cursor.u8()?, cursor.u8()?, cursor.u32()?, cursor.u16()?);
        cursor.skip(2)?;
        let additional = cursor.u32()?;
        Some(SetRequest { kind, class, additional, input: part(message, at as usize, bytes as usize)? })
    }
}

/// FileRenameInformation (MS-FSCC 2.4.42.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rename {
    pub replaces: bool,
    /// From the root of the share.
    pub name: String,
}

impl Rename {
    pub fn decode(input: &[u8]) -> Option<Rename> {
        let mut cursor = Cursor::new(input);
        let replaces = cursor.u8()? != 0;
        cursor.skip(7 + 8)?;
        let bytes = cursor.u32()? as usize;
        Some(Rename { replaces, name: text(cursor.take(bytes)?)? })
    }
}
