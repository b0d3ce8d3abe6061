//! NTLMv2 as a server sees it (MS-NLMP): a challenge out, a proof in. Nothing older is accepted.
//!
//! The three messages lie in memory as they came, because the client's MIC is over all of them.

use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use md4::Md4;
use md5::{Digest, Md5};
use rc4::{Rc4, StreamCipher};

/// How every message begins.
pub const SIGNATURE: &[u8; 8] = b"NTLMSSP\0";

/// NegotiateFlags (MS-NLMP 2.2.2.5).
mod flags {
    pub const UNICODE: u32 = 0x1;
    pub const REQUEST_TARGET: u32 = 0x4;
    pub const SIGN: u32 = 0x10;
    pub const SEAL: u32 = 0x20;
    pub const NTLM: u32 = 0x200;
    pub const ANONYMOUS: u32 = 0x800;
    pub const ALWAYS_SIGN: u32 = 0x8000;
    pub const TARGET_TYPE_SERVER: u32 = 0x2_0000;
    pub const EXTENDED_SESSION_SECURITY: u32 = 0x8_0000;
    pub const TARGET_INFO: u32 = 0x80_0000;
    pub const VERSION: u32 = 0x200_0000;
    pub const KEYS_OF_128_BITS: u32 = 0x2000_0000;
    pub const KEY_EXCHANGE: u32 = 0x4000_0000;
    pub const KEYS_OF_56_BITS: u32 = 0x8000_0000;

    /// In every challenge, whether or not they were asked for. Without these a client is not let in.
    pub const REQUIRED: u32 = UNICODE | EXTENDED_SESSION_SECURITY | KEYS_OF_128_BITS;
    pub const ALWAYS: u32 = REQUIRED | NTLM | TARGET_TYPE_SERVER | TARGET_INFO;
    /// In a challenge if the client asked for them.
    pub const ON_REQUEST: u32 = REQUEST_TARGET | SIGN | SEAL | ALWAYS_SIGN | VERSION | KEY_EXCHANGE | KEYS_OF_56_BITS;
}

/// MsvAv ids (MS-NLMP 2.2.2.1).
mod av {
    pub const EOL: u16 = 0;
    pub const NETBIOS_COMPUTER: u16 = 1;
    pub const NETBIOS_DOMAIN: u16 = 2;
    pub const DNS_COMPUTER: u16 = 3;
    pub const DNS_DOMAIN: u16 = 4;
    pub const FLAGS: u16 = 6;
    pub const TIMESTAMP: u16 = 7;
    /// Of the flags: the message has a MIC.
    pub const HAS_MIC: u32 = 0x2;
}

/// Major, minor, build, three zeros, revision of NTLM. Clients only print it. It is that of the conversation Microsoft
/// published, so that a test can replay it to the last byte.
const VERSION: [u8; 8] = [10, 0, 0x92, 0x27, 0, 0, 0, 15];
const NETBIOS_NAME_CHARS_MAX: usize = 15;
const DNS_NAME_CHARS_MAX: usize = 255;

/// What of the server stands in a challenge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Server {
    /// Its DNS name.
    pub name: String,
    /// Random, for one authentication only.
    pub challenge: [u8; 8],
    /// In 100 ns ticks since 1601.
    pub now: u64,
}

/// Why somebody is not let in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Not a message of NTLM.
    Malformed,
    /// Not who they say, or too weak a proof of it.
    Denied,
}

/// Who was let in.
pub struct Authenticated {
    pub user: String,
    /// The exported session key.
    pub session_key: [u8; 16],
    is_key_exchanged: bool,
}

/// The answer to a NEGOTIATE_MESSAGE: a CHALLENGE_MESSAGE. What the client says of itself is not used.
pub fn challenge(negotiate: &[u8], server: &Server) -> Result<Vec<u8>, Refused> {
    let asked = negotiate_flags(negotiate).ok_or(Refused::Malformed)?;
    let label = server.name.split('.').next().unwrap_or_default();
    let netbios: String = label.to_uppercase().chars().take(NETBIOS_NAME_CHARS_MAX).collect();
    let dns: String = server.name.chars().take(DNS_NAME_CHARS_MAX).collect();
    let (netbios, dns) = (utf16(&netbios), utf16(&dns));

    let mut info = Vec::new();
    for (id, value) in [
        (av::NETBIOS_DOMAIN, &netbios[..]),
        (av::NETBIOS_COMPUTER, &netbios),
        (av::DNS_DOMAIN, &dns),
        (av::DNS_COMPUTER, &dns),
        // With a time in the challenge, clients add a MIC.
        (av::TIMESTAMP, &server.now.to_le_bytes()),
        (av::EOL, &[]),
    ] {
        info.extend(id.to_le_bytes());
        info.extend((value.len() as u16).to_le_bytes());
        info.extend(value);
    }

    const HEADER_BYTES: usize = 56;
    let granted = flags::ALWAYS | asked & flags::ON_REQUEST;
    let mut message = Vec::with_capacity(HEADER_BYTES + netbios.len() + info.len());
    message.extend(SIGNATURE);
    message.extend(2u32.to_le_bytes());
    message.extend(field(netbios.len(), HEADER_BYTES));
    message.extend(granted.to_le_bytes());
    message.extend(server.challenge);
    message.extend([0; 8]);
    message.extend(field(info.len(), HEADER_BYTES + netbios.len()));
    message.extend(if granted & flags::VERSION != 0 { VERSION } else { [0; 8] });
    message.extend(netbios);
    message.extend(info);
    Ok(message)
}

fn negotiate_flags(message: &[u8]) -> Option<u32> {
    let head = message.strip_prefix(SIGNATURE)?;
    (u32_at(head, 0)? == 1).then_some(())?;
    u32_at(head, 4)
}

/// Judges an AUTHENTICATE_MESSAGE. `passwords` are those that the user, spelled as it was sent, may have: all of them are
/// tried, so that time does not tell which.
pub fn authenticate(
    negotiate: &[u8],
    challenge: &[u8],
    server: &Server,
    message: &[u8],
    passwords: impl Fn(&str) -> Vec<String>,
) -> Result<Authenticated, Refused> {
    let sent = Authenticate::read(message).ok_or(Refused::Malformed)?;
    if sent.user.is_empty() || sent.flags & flags::ANONYMOUS != 0 || sent.flags & flags::REQUIRED != flags::REQUIRED {
        return Err(Refused::Denied);
    }
    let user = String::from_utf16(&sent.user).map_err(|_| Refused::Malformed)?;
    let Response { proof, blob, av_flags } = Response::read(sent.response)?;

    let mut session_base_key = None;
    for password in passwords(&user) {
        let key = response_key(&password, &user, sent.domain);
        let mac = hmac_md5(&key, &[&server.challenge, blob]);
        if mac.verify_slice(proof).is_ok() {
            session_base_key = Some(hmac_md5(&key, &[proof]).finalize().into_bytes().into());
        }
    }
    let session_base_key = session_base_key.ok_or(Refused::Denied)?;
    let (session_key, is_key_exchanged) = exported_key(session_base_key, sent.flags, sent.encrypted_key)?;

    if av_flags & av::HAS_MIC != 0 {
        let mic = sent.mic.ok_or(Refused::Malformed)?;
        let (before, after) = (&message[..Authenticate::MIC_AT], &message[Authenticate::MIC_AT + 16..]);
        let mac = hmac_md5(&session_key, &[negotiate, challenge, before, &[0; 16], after]);
        mac.verify_slice(mic).map_err(|_| Refused::Denied)?;
    }
    Ok(Authenticated { user, session_key, is_key_exchanged })
}

/// An AUTHENTICATE_MESSAGE (MS-NLMP 2.2.1.3). Responses of LAN Manager and the workstation's name are not looked at.
struct Authenticate<'a> {
    response: &'a [u8],
    /// UTF-16, as it goes into the key.
    domain: &'a [u8],
    user: Vec<u16>,
    encrypted_key: &'a [u8],
    flags: u32,
    /// Where a MIC would be, if nothing else is there.
    mic: Option<&'a [u8; 16]>,
}

impl<'a> Authenticate<'a> {
    const HEADER_BYTES: usize = 64;
    const MIC_AT: usize = 72;

    fn read(message: &'a [u8]) -> Option<Authenticate<'a>> {
        if !message.starts_with(SIGNATURE) || u32_at(message, 8)? != 3 {
            return None;
        }
        let mut payload_at = message.len();
        let mut payload = |field_at: usize| {
            let bytes = usize::from(u16::from_le_bytes(*message.get(field_at..)?.first_chunk()?));
            let at = u32_at(message, field_at + 4)? as usize;
            if bytes == 0 {
                return Some(&[][..]);
            }
            payload_at = payload_at.min(at);
            message.get(at..at.checked_add(bytes)?)
        };
        let [_lan_manager, response, domain, user, _workstation, encrypted_key] =
            [12, 20, 28, 36, 44, 52].map(&mut payload);
        let (domain, user) = (domain?, user?);
        if payload_at < Authenticate::HEADER_BYTES || domain.len() % 2 != 0 || user.len() % 2 != 0 {
            return None;
        }
        let mic = if payload_at < Authenticate::MIC_AT + 16 {
            None
        } else {
            message.get(Authenticate::MIC_AT..)?.first_chunk()
        };
        Some(Authenticate {
            response: response?,
            domain,
            user: user.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect(),
            encrypted_key: encrypted_key?,
            flags: u32_at(message, 60)?,
            mic,
        })
    }
}

/// An NTLMv2_RESPONSE: a proof, and what it is over beside the server's challenge (MS-NLMP 2.2.2.7, 2.2.2.8).
struct Response<'a> {
    proof: &'a [u8; 16],
    blob: &'a [u8],
    av_flags: u32,
}

impl<'a> Response<'a> {
    /// Version, blanks, time, the client's challenge, blanks.
    const BLOB_HEADER_BYTES: usize = 28;

    fn read(response: &'a [u8]) -> Result<Response<'a>, Refused> {
        // Nothing at all, or 24 bytes: anonymous, and NTLM as it was before.
        let Some((proof, blob)) = response.split_first_chunk().filter(|(_, blob)| blob.len() > 8) else {
            return Err(Refused::Denied);
        };
        let (header, pairs) = blob.split_at_checked(Response::BLOB_HEADER_BYTES).ok_or(Refused::Malformed)?;
        if !header.starts_with(&[1, 1]) {
            return Err(Refused::Malformed);
        }
        let av_flags = av_flags(pairs).ok_or(Refused::Malformed)?;
        Ok(Response { proof, blob, av_flags })
    }
}

/// The flags among the pairs; zero without them. `None` if the list does not come to its end.
fn av_flags(mut pairs: &[u8]) -> Option<u32> {
    let mut flags = 0;
    loop {
        let (id, rest) = pairs.split_first_chunk()?;
        let (bytes, rest) = rest.split_first_chunk()?;
        let (value, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*bytes)))?;
        match u16::from_le_bytes(*id) {
            av::EOL => return Some(flags),
            av::FLAGS => flags |= u32::from_le_bytes(value.try_into().ok()?),
            _ => {}
        }
        pairs = rest;
    }
}

/// NTOWFv2 (MS-NLMP 3.3.2). The names of our users have no letter whose capital depends on a language.
fn response_key(password: &str, user: &str, domain: &[u8]) -> [u8; 16] {
    let hash = Md4::digest(utf16(password));
    hmac_md5(&hash, &[&utf16(&user.to_uppercase()), domain]).finalize().into_bytes().into()
}

/// The key that both have in the end, and whether the client chose it (MS-NLMP 3.2.5.1.2, 3.4.5.1).
fn exported_key(session_base_key: [u8; 16], sent: u32, encrypted: &[u8]) -> Result<([u8; 16], bool), Refused> {
    if sent & flags::KEY_EXCHANGE == 0 {
        return Ok((session_base_key, false));
    }
    match <[u8; 16]>::try_from(encrypted) {
        Ok(mut key) => {
            rc4(&session_base_key, &mut key);
            Ok((key, true))
        }
        // Who neither signs nor encrypts with NTLM need not exchange a key although it was agreed on.
        Err(_) if encrypted.is_empty() && sent & (flags::SIGN | flags::SEAL) == 0 => Ok((session_base_key, false)),
        Err(_) => Err(Refused::Malformed),
    }
}

/// Who speaks: each has a key of their own to sign with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speaker {
    Client,
    Server,
}

impl Authenticated {
    /// The signature of the first message that is signed at all (MS-NLMP 3.4.4.2): the list of mechanisms.
    pub fn sign(&self, speaker: Speaker, message: &[u8]) -> [u8; 16] {
        let mut checksum =
            *self.checksum(speaker, message).finalize().into_bytes().first_chunk().expect("it has 16 bytes");
        self.encrypt(speaker, &mut checksum);
        let mut signature = SIGNATURE_WITHOUT_CHECKSUM;
        signature[4..12].copy_from_slice(&checksum);
        signature
    }

    /// Is it the message's? Takes the same time whether it is wrong at the first byte or at the last.
    pub fn verify(&self, speaker: Speaker, message: &[u8], signature: &[u8]) -> bool {
        let Ok(mut signature) = <[u8; 16]>::try_from(signature) else { return false };
        let mut checksum: [u8; 8] = *signature[4..].first_chunk().expect("12 bytes are more than 8");
        signature[4..12].fill(0);
        self.encrypt(speaker, &mut checksum);
        let is_right = self.checksum(speaker, message).verify_truncated_left(&checksum).is_ok();
        is_right && signature == SIGNATURE_WITHOUT_CHECKSUM
    }

    fn checksum(&self, speaker: Speaker, message: &[u8]) -> Hmac<Md5> {
        hmac_md5(&self.key_for(speaker, "signing"), &[&0u32.to_le_bytes(), message])
    }

    /// It is its own inverse.
    fn encrypt(&self, speaker: Speaker, checksum: &mut [u8; 8]) {
        if self.is_key_exchanged {
            rc4(&self.key_for(speaker, "sealing"), checksum);
        }
    }

    /// SIGNKEY and SEALKEY (MS-NLMP 3.4.5.2, 3.4.5.3), the latter for keys of 128 bits.
    fn key_for(&self, speaker: Speaker, purpose: &str) -> [u8; 16] {
        let way = match speaker {
            Speaker::Client => "client-to-server",
            Speaker::Server => "server-to-client",
        };
        let constant = format!("session key to {way} {purpose} key magic constant\0");
        Md5::new().chain_update(self.session_key).chain_update(constant).finalize().into()
    }
}

/// Version 1, and number 0 of its direction.
const SIGNATURE_WITHOUT_CHECKSUM: [u8; 16] = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

fn hmac_md5(key: &[u8], parts: &[&[u8]]) -> Hmac<Md5> {
    let mut mac = Hmac::new_from_slice(key).expect("any length is a key");
    parts.iter().for_each(|part| mac.update(part));
    mac
}

fn rc4(key: &[u8; 16], bytes: &mut [u8]) {
    Rc4::new_from_slice(key).expect("16 bytes are a key").apply_keystream(bytes);
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// Where in a message a payload is: length, room, offset.
fn field(bytes: usize, at: usize) -> [u8; 8] {
    let mut field = [0; 8];
    field[..2].copy_from_slice(&(bytes as u16).to_le_bytes());
    field[2..4].copy_from_slice(&(bytes as u16).to_le_bytes());
    field[4..].copy_from_slice(&(at as u32).to_le_bytes());
    field
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
pub(super) mod tests;
