//! NEGOTIATE (MS-SMB2 2.2.3, 2.2.4), and the SMB1 message that old clients begin with.

use super::header::{HEADER_BYTES, PROTOCOL_1};
use super::{Cursor, Put, part};
use crate::dialect::Dialect;

/// Any of SMB2, to be negotiated once more.
pub const ANY_DIALECT: u16 = 0x02FF;

pub mod capability {
    pub const LEASING: u32 = 0x2;
    pub const LARGE_MTU: u32 = 0x4;
    pub const MULTI_CHANNEL: u32 = 0x8;
    pub const PERSISTENT_HANDLES: u32 = 0x10;
    pub const ENCRYPTION: u32 = 0x40;
}

/// The client, or the server, insists on signatures.
pub const SIGNING_ENABLED: u16 = 0x1;
pub const SIGNING_REQUIRED: u16 = 0x2;

const PREAUTH: u16 = 1;
const ENCRYPTION: u16 = 2;
const SIGNING: u16 = 8;
const SHA_512: u16 = 1;

/// How many contexts are looked at; clients send fewer than ten.
const CONTEXTS_MAX: u16 = 32;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    pub security_mode: u16,
    pub capabilities: u32,
    pub client: [u8; 16],
    pub dialects: Vec<u16>,
    pub contexts: Contexts,
}

/// What a 3.1.1 client offers. A list that was not sent is empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Contexts {
    pub offers_sha_512: bool,
    pub ciphers: Option<Vec<u16>>,
    pub signing: Option<Vec<u16>>,
}

impl Request {
    pub fn decode(message: &[u8]) -> Option<Request> {
        let mut cursor = Cursor::at(message, HEADER_BYTES)?;
        if cursor.u16()? != 36 {
            return None;
        }
        let count = cursor.u16()?;
        let security_mode = cursor.u16()?;
        cursor.skip(2)?;
        let (capabilities, client) = (cursor.u32()?, cursor.array()?);
        let (contexts_at, contexts) = (cursor.u32()?, cursor.u16()?);
        cursor.skip(2)?;
        let dialects = (0..count).map(|_| cursor.u16()).collect::<Option<Vec<_>>>()?;
        let contexts = match dialects.contains(&Dialect::Smb311.number()) {
            true => Contexts::decode(message, contexts_at as usize, contexts)?,
            false => Contexts::default(),
        };
        Some(Request { security_mode, capabilities, client, dialects, contexts })
    }
}

impl Contexts {
    fn decode(message: &[u8], mut at: usize, count: u16) -> Option<Contexts> {
        let mut found = Contexts::default();
        if count > CONTEXTS_MAX {
            return None;
        }
        for _ in 0..count {
            let mut cursor = Cursor::at(message, at)?;
            let (kind, length) = (cursor.u16()?, cursor.u16()?);
            cursor.skip(4)?;
            let mut data = Cursor::new(cursor.take(length as usize)?);
            match kind {
                PREAUTH => {
                    let (algorithms, _salt) = (data.u16()?, data.u16()?);
                    found.offers_sha_512 = numbers(&mut data, algorithms)?.contains(&SHA_512);
                }
                ENCRYPTION => {
                    let ciphers = data.u16()?;
                    found.ciphers = Some(numbers(&mut data, ciphers)?);
                }
                SIGNING => {
                    let algorithms = data.u16()?;
                    found.signing = Some(numbers(&mut data, algorithms)?);
                }
                // Compression, the name that was called, transports: nothing that needs an answer.
                _ => {}
            }
            at = (at + 8 + length as usize).next_multiple_of(8);
        }
        Some(found)
    }
}

fn numbers(cursor: &mut Cursor<'_>, count: u16) -> Option<Vec<u16>> {
    (0..count).map(|_| cursor.u16()).collect()
}

/// Does an SMB1 client offer to go on with SMB2, whatever the dialect?
pub fn offers_smb2(message: &[u8]) -> bool {
    const NEGOTIATE_1: u8 = 0x72;
    let is_negotiate = message.starts_with(&PROTOCOL_1) && message.get(4) == Some(&NEGOTIATE_1);
    // No words, the count of bytes, then names: each a 2 before it and a zero behind it.
    let names = match (is_negotiate, message.get(32), message.get(35..)) {
        (true, Some(0), Some(names)) => names,
        _ => return false,
    };
    names.split(|byte| *byte == 0).any(|name| name == b"\x02SMB 2.???")
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response<'a> {
    pub security_mode: u16,
    pub dialect: u16,
    pub server: [u8; 16],
    pub capabilities: u32,
    pub bytes_max: u32,
    pub now: u64,
    pub token: &'a [u8],
    /// Of 3.1.1.
    pub chosen: Option<Chosen>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chosen {
    pub salt: [u8; 32],
    /// 0 if none of the client's is known here; `None` if it offered none.
    pub cipher: Option<u16>,
    pub signing: Option<u16>,
}

impl Response<'_> {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        out.put_u16(65);
        out.put_u16(self.security_mode);
        out.put_u16(self.dialect);
        out.put_u16(0);
        out.put(&self.server);
        out.put_u32(self.capabilities);
        for _ in 0..3 {
            out.put_u32(self.bytes_max);
        }
        out.put_u64(self.now);
        out.put_u64(0);
        out.put_u16(HEADER_BYTES as u16 + 64);
        out.put_u16(self.token.len() as u16);
        out.put_u32(0);
        out.put(self.token);
        if let Some(chosen) = &self.chosen {
            out.align(8);
            out.set_u32(60, (HEADER_BYTES + out.len()) as u32);
            let mut preauth = Vec::new();
            preauth.put_u16(1);
            preauth.put_u16(chosen.salt.len() as u16);
            preauth.put_u16(SHA_512);
            preauth.put(&chosen.salt);
            let one = |number: u16| [1, 0].into_iter().chain(number.to_le_bytes()).collect::<Vec<u8>>();
            let contexts = [
                Some((PREAUTH, preauth)),
                chosen.cipher.map(|cipher| (ENCRYPTION, one(cipher))),
                chosen.signing.map(|signing| (SIGNING, one(signing))),
            ];
            let contexts: Vec<_> = contexts.into_iter().flatten().collect();
            out.set_u16(6, contexts.len() as u16);
            for (kind, data) in contexts {
                out.align(8);
                out.put_u16(kind);
                out.put_u16(data.len() as u16);
                out.put_u32(0);
                out.put(&data);
            }
        }
        out
    }
}

/// FSCTL_VALIDATE_NEGOTIATE_INFO (2.2.31.4): what the client believes it said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Validation {
    pub capabilities: u32,
    pub client: [u8; 16],
    pub security_mode: u16,
    pub dialects: Vec<u16>,
}

impl Validation {
    pub fn decode(bytes: &[u8]) -> Option<Validation> {
        let mut cursor = Cursor::new(bytes);
        let (capabilities, client, security_mode) = (cursor.u32()?, cursor.array()?, cursor.u16()?);
        let count = cursor.u16()?;
        Some(Validation { capabilities, client, security_mode, dialects: numbers(&mut cursor, count)? })
    }
}

/// The name of a share, from `\\server\share`.
pub fn share_of(message: &[u8], offset: u16, length: u16) -> Option<String> {
    let path = super::text(part(message, offset as usize, length as usize)?)?;
    let share = path.strip_prefix("\\\\")?.split_once('\\')?.1;
    Some(share.to_owned())
}
