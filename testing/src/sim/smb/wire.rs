//! SMB 2.1 as a client speaks it: enough to log on, to open files and to work on them (MS-SMB2 2.2, MS-NLMP). It shares nothing with
//! the server's code.

use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use md4::Md4;
use md5::{Digest, Md5};
use sha2::Sha256;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::{Claim, Rights};
use crate::sim::file::{Range, SLOT_BYTES};

const HEADER_BYTES: usize = 64;
const NEGOTIATE: u16 = 0;
const SESSION_SETUP: u16 = 1;
const TREE_CONNECT: u16 = 3;
pub const CREATE: u16 = 5;
pub const CLOSE: u16 = 6;
pub const READ: u16 = 8;
pub const WRITE: u16 = 9;
pub const LOCK: u16 = 10;
pub const SET_INFO: u16 = 17;

pub const SUCCESS: u32 = 0;
const PENDING: u32 = 0x103;
const MORE_PROCESSING_REQUIRED: u32 = 0xC000_0016;

/// An open as the server names it.
pub type FileId = [u8; 16];

pub struct Response {
    pub status: u32,
    pub body: Vec<u8>,
}

/// One connection, logged on and connected to a share.
pub struct Connection {
    pipe: DuplexStream,
    session: u64,
    tree: u32,
    key: Option<[u8; 16]>,
    messages: u64,
}

impl Connection {
    /// `None` if the server went away meanwhile; what it should not have answered is an error.
    pub async fn log_on(
        pipe: DuplexStream,
        user: &str,
        password: &str,
        share: &str,
    ) -> Option<Result<Connection, String>> {
        let mut own = Connection { pipe, session: 0, tree: 0, key: None, messages: 0 };
        let refused = |what: &str, status: u32| Some(Err(format!("{what} was refused: {status:08X}")));
        let negotiated = own.call(NEGOTIATE, &negotiate()).await?;
        if negotiated.status != SUCCESS {
            return refused("NEGOTIATE", negotiated.status);
        }
        let challenge = own.call(SESSION_SETUP, &setup(&ntlm_negotiate())).await?;
        if challenge.status != MORE_PROCESSING_REQUIRED {
            return refused("the first token", challenge.status);
        }
        let Some((token, key)) = challenge.body.get(8..).and_then(|challenge| prove(challenge, user, password)) else {
            return Some(Err("a challenge that cannot be read".into()));
        };
        let settled = own.call(SESSION_SETUP, &setup(&token)).await?;
        if settled.status != SUCCESS {
            return refused("the proof", settled.status);
        }
        own.key = Some(key);
        let connected = own.call(TREE_CONNECT, &tree_connect(share)).await?;
        if connected.status != SUCCESS {
            return refused("TREE_CONNECT", connected.status);
        }
        Some(Ok(own))
    }

    /// One request and its answer; `None` if the connection broke.
    pub async fn call(&mut self, command: u16, body: &[u8]) -> Option<Response> {
        let frame = self.frame(command, body);
        self.send(&frame).await?;
        self.hear().await
    }

    pub async fn send(&mut self, bytes: &[u8]) -> Option<()> {
        self.pipe.write_all(bytes).await.ok()
    }

    /// The next request as bytes.
    pub fn frame(&mut self, command: u16, body: &[u8]) -> Vec<u8> {
        const SIGNED: u32 = 8;
        let mut message = vec![0xFE, b'S', b'M', b'B'];
        let flags = if self.key.is_some() { SIGNED } else { 0 };
        put(&mut message, &[&64u16.to_le_bytes(), &1u16.to_le_bytes(), &0u32.to_le_bytes(), &command.to_le_bytes()]);
        put(&mut message, &[&1u16.to_le_bytes(), &flags.to_le_bytes(), &0u32.to_le_bytes()]);
        put(&mut message, &[&self.messages.to_le_bytes(), &0u32.to_le_bytes(), &self.tree.to_le_bytes()]);
        put(&mut message, &[&self.session.to_le_bytes(), &[0; 16], body]);
        self.messages += 1;
        if let Some(key) = &self.key {
            let signature = hmac_sha256(key, &message);
            message[48..64].copy_from_slice(&signature[..16]);
        }
        [&(message.len() as u32).to_be_bytes()[..], &message].concat()
    }

    /// The answer; not that it will come later.
    pub async fn hear(&mut self) -> Option<Response> {
        loop {
            let length = self.pipe.read_u32().await.ok()? as usize;
            let mut message = vec![0; length];
            self.pipe.read_exact(&mut message).await.ok()?;
            if message.len() < HEADER_BYTES {
                return None;
            }
            let number =
                |at: usize| u32::from_le_bytes([message[at], message[at + 1], message[at + 2], message[at + 3]]);
            let status = number(8);
            if status == PENDING {
                continue;
            }
            if self.key.is_none() {
                self.session = u64::from(number(40)) | u64::from(number(44)) << 32;
            } else if self.tree == 0 {
                self.tree = number(36);
            }
            return Some(Response { status, body: message.split_off(HEADER_BYTES) });
        }
    }
}

fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn negotiate() -> Vec<u8> {
    const DIALECT: u16 = 0x0210;
    let mut body = Vec::new();
    put(&mut body, &[&36u16.to_le_bytes(), &1u16.to_le_bytes(), &1u16.to_le_bytes(), &[0; 2 + 4]]);
    put(&mut body, &[b"a simulated guid", &[0; 8], &DIALECT.to_le_bytes()]);
    body
}

fn setup(token: &[u8]) -> Vec<u8> {
    let at = HEADER_BYTES as u16 + 24;
    let mut body = Vec::new();
    put(&mut body, &[&25u16.to_le_bytes(), &[0, 1], &[0; 8], &at.to_le_bytes(), &(token.len() as u16).to_le_bytes()]);
    put(&mut body, &[&[0; 8], token]);
    body
}

fn tree_connect(share: &str) -> Vec<u8> {
    let path = utf16(&format!("\\\\server\\{share}"));
    let at = HEADER_BYTES as u16 + 8;
    let mut body = Vec::new();
    put(&mut body, &[&9u16.to_le_bytes(), &[0; 2], &at.to_le_bytes(), &(path.len() as u16).to_le_bytes(), &path]);
    body
}

pub fn create(path: &str, claim: Claim) -> Vec<u8> {
    const OPEN: u32 = 1;
    const NON_DIRECTORY: u32 = 0x40;
    const DELETE_ON_CLOSE: u32 = 0x1000;
    const IMPERSONATION: u32 = 2;
    let Rights { read, write, delete } = claim.access;
    let access = u32::from(read) | u32::from(write) << 1 | u32::from(delete) << 16;
    let share = claim.share;
    let share = u32::from(share.read) | u32::from(share.write) << 1 | u32::from(share.delete) << 2;
    let options = NON_DIRECTORY | if claim.deletes_on_close { DELETE_ON_CLOSE } else { 0 };
    let name = utf16(&path.replace('/', "\\"));
    let at = HEADER_BYTES as u16 + 56;
    let mut body = Vec::new();
    put(&mut body, &[&57u16.to_le_bytes(), &[0; 2], &IMPERSONATION.to_le_bytes(), &[0; 16], &access.to_le_bytes()]);
    put(&mut body, &[&[0; 4], &share.to_le_bytes(), &OPEN.to_le_bytes(), &options.to_le_bytes()]);
    put(&mut body, &[&at.to_le_bytes(), &(name.len() as u16).to_le_bytes(), &[0; 8], &name]);
    body
}

/// The open that CREATE made.
pub fn created(body: &[u8]) -> Option<FileId> {
    body.get(64..80)?.try_into().ok()
}

pub fn close(file: &FileId) -> Vec<u8> {
    [&24u16.to_le_bytes()[..], &[0; 6], file].concat()
}

fn bytes_of(range: Range) -> (u64, u32) {
    ((range.first * SLOT_BYTES) as u64, (range.count * SLOT_BYTES) as u32)
}

pub fn read(file: &FileId, range: Range) -> Vec<u8> {
    let (offset, length) = bytes_of(range);
    let mut body = Vec::new();
    put(&mut body, &[&49u16.to_le_bytes(), &[0; 2], &length.to_le_bytes(), &offset.to_le_bytes(), file, &[0; 17]]);
    body
}

/// The bytes that READ brought.
pub fn bytes_read(body: &[u8]) -> Option<&[u8]> {
    body.get(16..)
}

pub fn write(file: &FileId, range: Range, data: &[u8]) -> Vec<u8> {
    let (offset, length) = bytes_of(range);
    let at = HEADER_BYTES as u16 + 48;
    let mut body = Vec::new();
    put(&mut body, &[&49u16.to_le_bytes(), &at.to_le_bytes(), &length.to_le_bytes(), &offset.to_le_bytes()]);
    put(&mut body, &[file, &[0; 16], data]);
    body
}

pub enum LockFlags {
    Shared,
    Exclusive,
    Unlock,
}

pub fn lock(file: &FileId, range: Range, flags: LockFlags) -> Vec<u8> {
    const FAIL_IMMEDIATELY: u32 = 0x10;
    let flags = match flags {
        LockFlags::Shared => 1 | FAIL_IMMEDIATELY,
        LockFlags::Exclusive => 2 | FAIL_IMMEDIATELY,
        LockFlags::Unlock => 4,
    };
    let (offset, length) = bytes_of(range);
    let mut body = Vec::new();
    put(&mut body, &[&48u16.to_le_bytes(), &1u16.to_le_bytes(), &[0; 4], file]);
    put(&mut body, &[&offset.to_le_bytes(), &u64::from(length).to_le_bytes(), &flags.to_le_bytes(), &[0; 4]]);
    body
}

/// FileDispositionInformation (MS-FSCC 2.4.11).
pub fn set_pending(file: &FileId, is_pending: bool) -> Vec<u8> {
    let at = HEADER_BYTES as u16 + 32;
    let mut body = Vec::new();
    put(&mut body, &[&33u16.to_le_bytes(), &[1, 13], &1u32.to_le_bytes(), &at.to_le_bytes(), &[0; 6], file]);
    body.push(u8::from(is_pending));
    body
}

/// UNICODE, NTLM, extended session security, keys of 128 bits.
const NTLM_FLAGS: u32 = 0x2008_0201;

fn ntlm_negotiate() -> Vec<u8> {
    [b"NTLMSSP\0", &1u32.to_le_bytes()[..], &NTLM_FLAGS.to_le_bytes(), &[0; 16]].concat()
}

/// The answer to a challenge, and the session's key (MS-NLMP 3.3.2).
fn prove(challenge: &[u8], user: &str, password: &str) -> Option<(Vec<u8>, [u8; 16])> {
    let info_bytes = usize::from(u16::from_le_bytes(challenge.get(40..42)?.try_into().ok()?));
    let info_at = u32::from_le_bytes(challenge.get(44..48)?.try_into().ok()?) as usize;
    let info = challenge.get(info_at..info_at + info_bytes)?;
    let blob = [&[1, 1, 0, 0, 0, 0, 0, 0][..], &[0; 8], b"a client", &[0; 4], info, &[0; 4]].concat();
    let (domain, name) = (utf16("AZURE"), utf16(user));
    let secret = Md4::digest(utf16(password));
    let key = hmac_md5(&secret, &[&utf16(&user.to_uppercase()), &domain]);
    let proof = hmac_md5(&key, &[challenge.get(24..32)?, &blob]);
    let session_key = hmac_md5(&key, &[&proof]);
    let response = [&proof[..], &blob].concat();
    let mut message = [b"NTLMSSP\0", &3u32.to_le_bytes()[..]].concat();
    let mut at = HEADER_BYTES as u32;
    let fields = [&[][..], &response, &domain, &name, &[], &[]];
    for field in fields {
        let bytes = (field.len() as u16).to_le_bytes();
        put(&mut message, &[&bytes, &bytes, &at.to_le_bytes()]);
        at += field.len() as u32;
    }
    put(&mut message, &[&NTLM_FLAGS.to_le_bytes()]);
    put(&mut message, &fields);
    Some((message, session_key))
}

fn hmac_md5(key: &[u8], parts: &[&[u8]]) -> [u8; 16] {
    let mut mac = Hmac::<Md5>::new_from_slice(key).expect("any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}
