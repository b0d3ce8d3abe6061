//! The example of MS-NLMP 4.2.4, and a client that can do everything right and everything wrong.

use super::*;
use crate::security::vectors::{array, hex};

/// A client's side of NTLMv2. The fields are what tests turn.
#[derive(Clone)]
pub struct Client {
    pub user: &'static str,
    pub domain: &'static str,
    pub password: &'static str,
    pub flags: u32,
    pub sends_mic: bool,
    /// The key it chooses, if keys are exchanged.
    pub key: [u8; 16],
}

/// What a client of today asks for.
pub const USUAL: u32 = flags::REQUIRED | flags::ON_REQUEST | flags::NTLM;

impl Client {
    pub fn new(user: &'static str, password: &'static str) -> Client {
        Client { user, domain: "AZURE", password, flags: USUAL, sends_mic: true, key: *b"the chosen key.." }
    }

    pub fn negotiate(&self) -> Vec<u8> {
        [&SIGNATURE[..], &1u32.to_le_bytes(), &self.flags.to_le_bytes(), &[0; 16]].concat()
    }

    /// The message and the session key.
    pub fn authenticate(&self, negotiate: &[u8], challenge: &[u8]) -> (Vec<u8>, [u8; 16]) {
        let info_bytes = usize::from(u16::from_le_bytes(*challenge[40..].first_chunk().unwrap()));
        let info_at = u32_at(challenge, 44).unwrap() as usize;
        let info = &challenge[info_at..info_at + info_bytes - 4];
        let mut blob = [&[1, 1, 0, 0, 0, 0, 0, 0][..], &[3; 8], &[0xaa; 8], &[0; 4], info].concat();
        if self.sends_mic {
            blob.extend([6, 0, 4, 0, 2, 0, 0, 0]);
        }
        blob.extend([0; 8]);

        let domain = utf16(self.domain);
        let response_key = response_key(self.password, self.user, &domain);
        let proof = hmac_md5(&response_key, &[&challenge[24..32], &blob]).finalize().into_bytes();
        let base: [u8; 16] = hmac_md5(&response_key, &[&proof]).finalize().into_bytes().into();
        let (mut encrypted, mut session_key) = (Vec::new(), base);
        if self.flags & flags::KEY_EXCHANGE != 0 {
            (encrypted, session_key) = (self.key.to_vec(), self.key);
            rc4(&base, &mut encrypted);
        }
        let response = [&proof[..], &blob].concat();
        let fields = [&[0; 24][..], &response, &domain, &utf16(self.user), &utf16("HERE"), &encrypted];
        let mut message = assemble(fields, self.flags);
        if self.sends_mic {
            let mic = hmac_md5(&session_key, &[negotiate, challenge, &message]).finalize().into_bytes();
            message[72..88].copy_from_slice(&mic);
        }
        (message, session_key)
    }
}

/// An AUTHENTICATE_MESSAGE with room for a MIC.
pub fn assemble(fields: [&[u8]; 6], flags: u32) -> Vec<u8> {
    let mut message = [&SIGNATURE[..], &3u32.to_le_bytes()].concat();
    let mut at = 88;
    for bytes in fields {
        message.extend(field(bytes.len(), at));
        at += bytes.len();
    }
    message.extend(flags.to_le_bytes());
    message.extend([0; 24]);
    fields.iter().for_each(|bytes| message.extend(*bytes));
    message
}

pub fn server() -> Server {
    Server { name: "files.example".into(), challenge: *b"8 random", now: 0x01d0_aecb_adf5_a1a1 }
}

/// One user with two keys.
pub fn keys(user: &str) -> Vec<String> {
    if user == "account" { vec!["key one==".into(), "key two==".into()] } else { Vec::new() }
}

/// The outcome for a client that sends what `change` makes of its message.
fn judge(client: &Client, change: impl FnOnce(&mut Vec<u8>)) -> Result<Authenticated, Refused> {
    let negotiate = client.negotiate();
    let challenge = challenge(&negotiate, &server()).unwrap();
    let (mut message, _) = client.authenticate(&negotiate, &challenge);
    change(&mut message);
    authenticate(&negotiate, &challenge, &server(), &message, keys)
}

/// MS-NLMP 4.2.4.
#[test]
fn the_published_example() {
    assert_eq!(response_key("Password", "User", &utf16("Domain")), *hex("0c868a403bfd7a93a3001ef22ef02e3f"));
    let message = hex("4e544c4d53535000030000001800180 06c00000054005400840000000c000c00
                       4800000008000800540000001000100 05c00000010001000d8000000358288e2
                       0501280a0000000f44006f006d00610 069006e00550073006500720043004f00
                       4d00500055005400450052008 6c35097ac9cec102554764a57cccc19aaaaaaaa
                       aaaaaaaa68cd0ab851e51c96aabc927 bebef6a1c010100000000000000000000
                       00000000aaaaaaaaaaaaaaaa0000000 002000c0044006f006d00610069006e00
                       01000c0053006500720076006500720 00000000000000000c5dad2544fc97990
                       94ce1ce90bc9d03e");
    let server = Server { name: "Server".into(), challenge: array("0123456789abcdef"), now: 0 };
    let outcome = authenticate(b"", b"", &server, &message, |user| {
        assert_eq!(user, "User");
        vec!["Password".into()]
    });
    let Ok(authenticated) = outcome else { panic!("it is right") };
    assert_eq!(authenticated.session_key, [0x55; 16]);
    assert_eq!(authenticated.key_for(Speaker::Client, "sealing"), *hex("59f600973cc4960a25480a7c196e4c58"));
    assert_eq!(authenticated.key_for(Speaker::Client, "signing"), *hex("4788dc861b4782f35d43fd98fe1a2d39"));
    // 4.2.4.4: "Plaintext" in UTF-16, signed; there it is encrypted first, with the same stream of bytes.
    let mut checksum = *authenticated
        .checksum(Speaker::Client, &utf16("Plaintext"))
        .finalize()
        .into_bytes()
        .first_chunk::<8>()
        .unwrap();
    let mut stream = [vec![0; 18], checksum.to_vec()].concat();
    rc4(&authenticated.key_for(Speaker::Client, "sealing"), &mut stream);
    checksum.copy_from_slice(&stream[18..]);
    assert_eq!(checksum, *hex("7fb38ec5c55d4976"));
}

#[test]
fn the_challenge() {
    let client = Client::new("account", "key one==");
    let message = challenge(&client.negotiate(), &server()).unwrap();
    assert!(message.starts_with(b"NTLMSSP\0\x02\0\0\0"));
    assert_eq!(message[24..32], *b"8 random");
    assert_eq!(&message[56..66], utf16("FILES"));
    // What was not asked for is not granted; what is required is, always.
    for (asked, expected) in [
        (0, 0x208a_0201),
        (flags::KEY_EXCHANGE | flags::SIGN, 0x608a_0211),
        (0x2 /* OEM */, 0x208a_0201),
        (0x80 /* LAN Manager's key */, 0x208a_0201),
        (u32::MAX, 0xe28a_8235),
    ] {
        let client = Client { flags: asked, ..client.clone() };
        let message = challenge(&client.negotiate(), &server()).unwrap();
        assert_eq!(u32_at(&message, 20), Some(expected), "{asked:#x}");
    }
    for name in ["", "a-name-that-is-much-longer-than-fifteen.example", &"x".repeat(100_000)] {
        let server = Server { name: name.into(), ..server() };
        assert!(challenge(&client.negotiate(), &server).is_ok_and(|message| message.len() < 2000));
    }
}

#[test]
fn who_is_let_in() {
    let right = Client::new("account", "key one==");
    let without = |off: u32| Client { flags: USUAL & !off, ..right.clone() };
    for (what, client, expected) in [
        ("the first key", right.clone(), Ok(())),
        ("the second key", Client { password: "key two==", ..right.clone() }, Ok(())),
        ("any domain", Client { domain: "", ..right.clone() }, Ok(())),
        ("no MIC", Client { sends_mic: false, ..right.clone() }, Ok(())),
        ("no exchange of keys", without(flags::KEY_EXCHANGE), Ok(())),
        ("no exchange of keys and no MIC", Client { sends_mic: false, ..without(flags::KEY_EXCHANGE) }, Ok(())),
        ("no other flags", Client { flags: flags::REQUIRED, ..right.clone() }, Ok(())),
        ("a wrong key", Client { password: "key three==", ..right.clone() }, Err(Refused::Denied)),
        ("no key", Client { password: "", ..right.clone() }, Err(Refused::Denied)),
        ("another user", Client { user: "guest", ..right.clone() }, Err(Refused::Denied)),
        ("no user", Client { user: "", ..right.clone() }, Err(Refused::Denied)),
        ("anonymous", Client { flags: USUAL | flags::ANONYMOUS, ..right.clone() }, Err(Refused::Denied)),
        ("short keys", without(flags::KEYS_OF_128_BITS), Err(Refused::Denied)),
        ("old session security", without(flags::EXTENDED_SESSION_SECURITY), Err(Refused::Denied)),
        ("another alphabet", without(flags::UNICODE), Err(Refused::Denied)),
    ] {
        let negotiate = client.negotiate();
        let challenge = challenge(&negotiate, &server()).unwrap();
        let (message, session_key) = client.authenticate(&negotiate, &challenge);
        let outcome = authenticate(&negotiate, &challenge, &server(), &message, keys);
        if let Ok(authenticated) = &outcome {
            assert_eq!((authenticated.user.as_str(), authenticated.session_key), ("account", session_key), "{what}");
        }
        assert_eq!(outcome.map(drop), expected, "{what}");
    }
}

#[test]
fn proofs_that_are_none() {
    let blob = [&[1, 1][..], &[0; 26], &[0; 8]].concat();
    for (what, lan_manager, response, expected) in [
        ("no response", vec![], vec![], Refused::Denied),
        ("LAN Manager's alone", vec![1; 24], vec![], Refused::Denied),
        ("NTLM 1", vec![0; 24], vec![1; 24], Refused::Denied),
        ("NTLM 1 with session security", [vec![1; 8], vec![0; 16]].concat(), vec![1; 24], Refused::Denied),
        ("zeros", vec![0; 24], [&[0; 16][..], &blob].concat(), Refused::Denied),
        ("a blob cut short", vec![0; 24], [&[0; 16][..], &blob[..27]].concat(), Refused::Malformed),
        ("a blob without pairs", vec![0; 24], [&[0; 16][..], &blob[..28]].concat(), Refused::Malformed),
        ("another version", vec![0; 24], [&[0; 16][..], &[2, 1], &blob[2..]].concat(), Refused::Malformed),
        (
            "pairs without an end",
            vec![0; 24],
            [&[0; 16][..], &blob[..28], &[2, 0, 1, 0, 0]].concat(),
            Refused::Malformed,
        ),
        (
            "a pair past the end",
            vec![0; 24],
            [&[0; 16][..], &blob[..28], &[2, 0, 9, 0, 0]].concat(),
            Refused::Malformed,
        ),
        (
            "flags of two bytes",
            vec![0; 24],
            [&[0; 16][..], &blob[..28], &[6, 0, 2, 0, 2, 0, 0, 0, 0, 0]].concat(),
            Refused::Malformed,
        ),
    ] {
        let message = assemble([&lan_manager, &response, b"", &utf16("account"), b"", b""], flags::REQUIRED);
        let outcome = authenticate(b"", b"", &server(), &message, keys).map(drop);
        assert_eq!(outcome, Err(expected), "{what}");
    }
}

#[test]
fn every_changed_byte_of_what_is_protected_is_noticed() {
    for client in [
        Client::new("account", "key one=="),
        Client { flags: USUAL & !flags::KEY_EXCHANGE, ..Client::new("account", "key two==") },
    ] {
        let mut length = 0;
        assert!(judge(&client, |message| length = message.len()).is_ok());
        for at in 0..length {
            for bit in [0x01, 0x80] {
                assert!(judge(&client, |message| message[at] ^= bit).is_err(), "byte {at}");
            }
        }
    }
}

#[test]
fn no_truncated_message_is_let_in() {
    for sends_mic in [true, false] {
        let client = Client { sends_mic, ..Client::new("account", "key one==") };
        let mut length = 0;
        assert!(judge(&client, |message| length = message.len()).is_ok());
        for end in 0..length {
            assert!(judge(&client, |message| message.truncate(end)).is_err(), "{end} bytes");
        }
    }
    let negotiate = Client::new("account", "").negotiate();
    for end in 0..16 {
        assert_eq!(challenge(&negotiate[..end], &server()), Err(Refused::Malformed));
    }
    assert!(challenge(&negotiate[..16], &server()).is_ok(), "names and version may be left away");
}

#[test]
fn fields_that_point_where_they_should_not() {
    let client = Client::new("account", "key one==");
    let put = |message: &mut Vec<u8>, at: usize, bytes: &[u8]| message[at..at + bytes.len()].copy_from_slice(bytes);
    for (what, at, bytes) in [
        ("into the header", 24, 60u32.to_le_bytes().to_vec()),
        ("over the MIC", 16, 80u32.to_le_bytes().to_vec()),
        ("past the end", 24, 10_000u32.to_le_bytes().to_vec()),
        ("round the corner", 24, u32::MAX.to_le_bytes().to_vec()),
        ("an odd length of the user", 36, vec![13, 0]),
        ("an odd length of the domain", 28, vec![9, 0]),
        ("a key of another length", 52, vec![15, 0]),
        ("no key although it was agreed on", 52, vec![0, 0]),
        ("half a character", 88 + 24, vec![]),
    ] {
        let outcome = judge(&client, |message| {
            if bytes.is_empty() {
                let user_at = u32_at(message, 40).unwrap() as usize;
                put(message, user_at, &[0x00, 0xd8]);
            }
            put(message, at, &bytes);
        });
        assert_eq!(outcome.map(drop), Err(Refused::Malformed), "{what}");
    }
}

#[test]
fn signatures_of_the_list_of_mechanisms() {
    for client in [
        Client::new("account", "key one=="),
        Client { flags: USUAL & !flags::KEY_EXCHANGE, ..Client::new("account", "key one==") },
    ] {
        let Ok(authenticated) = judge(&client, |_| {}) else { panic!("it is right") };
        for speaker in [Speaker::Client, Speaker::Server] {
            let signature = authenticated.sign(speaker, b"list");
            assert!(authenticated.verify(speaker, b"list", &signature));
            assert!(!authenticated.verify(speaker, b"lisp", &signature));
            let other = if speaker == Speaker::Client { Speaker::Server } else { Speaker::Client };
            assert!(!authenticated.verify(other, b"list", &signature));
            for at in 0..16 {
                let mut wrong = signature;
                wrong[at] ^= 1;
                assert!(!authenticated.verify(speaker, b"list", &wrong), "byte {at}");
                assert!(!authenticated.verify(speaker, b"list", &signature[..at]), "{at} bytes");
            }
        }
    }
}
