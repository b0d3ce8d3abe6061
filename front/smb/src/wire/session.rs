//! SESSION_SETUP and TREE_CONNECT (MS-SMB2 2.2.5 to 2.2.12).

use super::header::HEADER_BYTES;
use super::negotiate::share_of;
use super::{Cursor, Put, part};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetupRequest<'a> {
    /// One more connection for a session that is there.
    pub is_binding: bool,
    pub requires_signing: bool,
    pub token: &'a [u8],
    /// What the client had before its connection was lost.
    pub previous: u64,
}

impl<'a> SetupRequest<'a> {
    pub fn decode(message: &'a [u8]) -> Option<SetupRequest<'a>> {
        let mut cursor = Cursor::at(message, HEADER_BYTES)?;
        if cursor.u16()? != 25 {
            return None;
        }
        let (flags, mode) = (cursor.u8()?, cursor.u8()?);
        cursor.skip(8)?;
        let (offset, length, previous) = (cursor.u16()?, cursor.u16()?, cursor.u64()?);
        let token = part(message, offset as usize, length as usize)?;
        Some(SetupRequest { is_binding: flags & 1 != 0, requires_signing: mode & 2 != 0, token, previous })
    }
}

pub fn setup_response(encrypts: bool, token: &[u8]) -> Vec<u8> {
    const ENCRYPT_DATA: u16 = 0x4;
    let mut out = Vec::with_capacity(8 + token.len());
    out.put_u16(9);
    out.put_u16(if encrypts { ENCRYPT_DATA } else { 0 });
    out.put_u16(HEADER_BYTES as u16 + 8);
    out.put_u16(token.len() as u16);
    out.put(token);
    out
}

/// The share a TREE_CONNECT names.
pub fn tree_connect_request(message: &[u8]) -> Option<String> {
    let mut cursor = Cursor::at(message, HEADER_BYTES)?;
    if cursor.u16()? != 9 {
        return None;
    }
    cursor.skip(2)?;
    share_of(message, cursor.u16()?, cursor.u16()?)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreeResponse {
    pub is_pipe: bool,
    pub flags: u32,
    pub capabilities: u32,
    pub maximal_access: u32,
}

impl TreeResponse {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16);
        out.put_u16(16);
        out.put_u8(if self.is_pipe { 2 } else { 1 });
        out.put_u8(0);
        out.put_u32(self.flags);
        out.put_u32(self.capabilities);
        out.put_u32(self.maximal_access);
        out
    }
}

/// What ECHO, LOGOFF, TREE_DISCONNECT, FLUSH, LOCK and others are answered with when there is nothing to say.
pub fn empty_response() -> Vec<u8> {
    vec![4, 0, 0, 0]
}
