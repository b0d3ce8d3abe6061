//! From the session key that the authentication gave to the keys that messages are signed and encrypted with
//! (MS-SMB2 3.1.4.2, 3.3.5.5.3), and the hash over what was said before there were keys.

use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256, Sha512};

use super::seal::CipherKind;
use crate::dialect::Dialect;

/// The keys of a session. Never printed.
#[derive(Clone)]
pub struct SessionKeys {
    pub signing: [u8; 16],
    /// What protocols above SMB may use.
    pub application: [u8; 16],
    /// From server to client. Empty where nothing can be encrypted, as `decryption` is.
    pub encryption: Vec<u8>,
    /// From client to server.
    pub decryption: Vec<u8>,
}

/// The hash over NEGOTIATE and SESSION_SETUP, which makes a change of them on the way change all keys (MS-SMB2 3.3.5.4).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PreauthHash([u8; 64]);

impl PreauthHash {
    pub fn new() -> PreauthHash {
        PreauthHash([0; 64])
    }

    /// One message, from its SMB2 header to its end.
    pub fn absorb(&mut self, message: &[u8]) {
        self.0 = Sha512::new().chain_update(self.0).chain_update(message).finalize().into();
    }
}

impl Default for PreauthHash {
    fn default() -> Self {
        PreauthHash::new()
    }
}

/// The label and the context of a key. The closing zero is part of both.
struct Purpose<'a> {
    label: &'a [u8],
    context: &'a [u8],
}

/// All keys of a session. `preauth` counts from 3.1.1 on; `cipher` is the negotiated one.
pub fn derive(
    dialect: Dialect,
    session_key: &[u8; 16],
    preauth: &PreauthHash,
    cipher: Option<CipherKind>,
) -> SessionKeys {
    let purpose = |label, context| Purpose { label, context };
    let [signing, application, encryption, decryption] = match dialect {
        Dialect::Smb21 => {
            return SessionKeys {
                signing: *session_key,
                application: *session_key,
                encryption: Vec::new(),
                decryption: Vec::new(),
            };
        }
        Dialect::Smb30 | Dialect::Smb302 => [
            purpose(b"SMB2AESCMAC\0", b"SmbSign\0"),
            purpose(b"SMB2APP\0", b"SmbRpc\0"),
            purpose(b"SMB2AESCCM\0", b"ServerOut\0"),
            purpose(b"SMB2AESCCM\0", b"ServerIn \0"),
        ],
        Dialect::Smb311 => [&b"SMBSigningKey\0"[..], b"SMBAppKey\0", b"SMBS2CCipherKey\0", b"SMBC2SCipherKey\0"]
            .map(|label| purpose(label, &preauth.0)),
    };
    let short = |purpose| *counter_mode(session_key, purpose, 128).first_chunk().expect("32 bytes are more than 16");
    let long = |purpose| {
        let bytes = cipher.map_or(0, CipherKind::key_bytes);
        counter_mode(session_key, purpose, 8 * bytes as u32)[..bytes].to_vec()
    };
    SessionKeys {
        signing: short(signing),
        application: short(application),
        encryption: long(encryption),
        decryption: long(decryption),
    }
}

/// The first block of SP800-108's counter mode over HMAC-SHA256: no key of SMB is longer. The number of bits that are
/// wanted goes into it, so a longer key does not begin with the shorter one.
fn counter_mode(key: &[u8], purpose: Purpose<'_>, bits: u32) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length is a key");
    for part in [&1u32.to_be_bytes()[..], purpose.label, &[0], purpose.context, &bits.to_be_bytes()] {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::vectors::{self, array, hex};

    /// Microsoft wrote them down at the client: it decrypts what the server encrypts.
    #[track_caller]
    fn check(keys: &SessionKeys, signing: &str, decryption: &str, encryption: &str, application: &str) {
        assert_eq!(keys.signing, *hex(signing));
        assert_eq!(keys.encryption, hex(encryption));
        assert_eq!(keys.decryption, hex(decryption));
        assert_eq!(keys.application, *hex(application));
    }

    #[test]
    fn the_published_keys_of_3_0() {
        let preauth = PreauthHash::new();
        for dialect in [Dialect::Smb30, Dialect::Smb302] {
            let session_key = array("7CD451825D0450D235424E44BA6E78CC");
            check(
                &derive(dialect, &session_key, &preauth, Some(CipherKind::Aes128Ccm)),
                "0B7E9C5CAC36C0F6EA9AB275298CEDCE",
                "FAD27796665B313EBB578F388632B4F7",
                "B0F0427F7CEB416D1D9DCC0CD4F99447",
                "BB23A4575AA26C721AF525AF15A87B4F",
            );
        }
    }

    #[test]
    fn the_published_conversation_of_3_1_1_and_its_keys() {
        let mut hash = PreauthHash::new();
        for (message, expected) in vectors::PREAUTH {
            hash.absorb(&hex(message));
            assert_eq!(hash.0, *hex(expected));
        }
        check(
            &derive(Dialect::Smb311, &array(vectors::SESSION_KEY), &hash, Some(CipherKind::Aes128Gcm)),
            "73FE7A9A77BEF0BDE49C650D8CCB5F76",
            "629BCBC54422A0F572B97F45989B6073",
            "E2AF0DCEFAC68DA71A0DFBD0D1350D74",
            "6D7AD7954E9EC61E907B4D473DC178FF",
        );
    }

    /// Held against another implementation of SP800-108 (OpenSSL's KBKDF).
    #[test]
    fn long_ciphers_have_long_keys() {
        let mut hash = PreauthHash::new();
        hash.absorb(b"hello");
        let keys = derive(Dialect::Smb311, &array(vectors::SESSION_KEY), &hash, Some(CipherKind::Aes256Gcm));
        assert_eq!(keys.encryption, hex("ded868520abcfc8d37a72fddeddaef6a91cb79b3683a96f8f5735259de643aa4"));
        assert_eq!(keys.decryption, hex("6ec66301453bf4dbc4e663600cd25b5afce62de9cec29e57a243fa9ddaf1a1c2"));
        assert_eq!(keys.signing, *hex("50e170bd47c807292d75ca55cb56bdce"));
    }

    #[test]
    fn without_a_cipher_there_are_no_keys_for_one() {
        let session_key = array(vectors::SESSION_KEY);
        let keys = derive(Dialect::Smb311, &session_key, &PreauthHash::new(), None);
        assert!(keys.encryption.is_empty() && keys.decryption.is_empty());
        let keys = derive(Dialect::Smb21, &session_key, &PreauthHash::new(), None);
        assert_eq!((keys.signing, keys.application), (session_key, session_key));
        assert!(keys.encryption.is_empty() && keys.decryption.is_empty());
    }
}
