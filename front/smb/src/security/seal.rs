//! Encryption of messages (MS-SMB2 3.1.4.3): in place, with a tag beside them.

use aes::{Aes128, Aes256};
use ccm::aead::AeadInOut;
use ccm::consts::{U11, U16};
use ccm::{Ccm, KeyInit};
use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

/// The bytes of the transform header's nonce field.
pub const NONCE_FIELD_BYTES: usize = 16;

/// How messages are encrypted. 3.0 and 3.0.2 know the first alone, 3.1.1 chooses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CipherKind {
    Aes128Ccm,
    Aes128Gcm,
    Aes256Ccm,
    Aes256Gcm,
}

impl CipherKind {
    pub const ALL: [CipherKind; 4] =
        [CipherKind::Aes128Ccm, CipherKind::Aes128Gcm, CipherKind::Aes256Ccm, CipherKind::Aes256Gcm];

    /// As the negotiate context writes it (MS-SMB2 2.2.3.1.2).
    pub fn number(self) -> u16 {
        match self {
            CipherKind::Aes128Ccm => 1,
            CipherKind::Aes128Gcm => 2,
            CipherKind::Aes256Ccm => 3,
            CipherKind::Aes256Gcm => 4,
        }
    }

    pub fn from_number(number: u16) -> Option<CipherKind> {
        CipherKind::ALL.into_iter().find(|kind| kind.number() == number)
    }

    pub fn key_bytes(self) -> usize {
        match self {
            CipherKind::Aes128Ccm | CipherKind::Aes128Gcm => 16,
            CipherKind::Aes256Ccm | CipherKind::Aes256Gcm => 32,
        }
    }

    /// How much of the nonce field is used; the rest is zero (MS-SMB2 2.2.41).
    pub fn nonce_bytes(self) -> usize {
        match self {
            CipherKind::Aes128Ccm | CipherKind::Aes256Ccm => CCM_NONCE_BYTES,
            CipherKind::Aes128Gcm | CipherKind::Aes256Gcm => GCM_NONCE_BYTES,
        }
    }
}

const CCM_NONCE_BYTES: usize = 11;
const GCM_NONCE_BYTES: usize = 12;

/// The message is not what was encrypted with this key. What its bytes are now means nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tampered;

/// A cipher and its key. Never printed.
pub enum Cipher {
    Aes128Ccm(Box<Ccm<Aes128, U16, U11>>),
    Aes256Ccm(Box<Ccm<Aes256, U16, U11>>),
    Gcm(Box<LessSafeKey>),
}

impl Cipher {
    /// `None` if the key has not the length that the cipher wants.
    pub fn new(kind: CipherKind, key: &[u8]) -> Option<Cipher> {
        let gcm = |algorithm| Some(Cipher::Gcm(Box::new(LessSafeKey::new(UnboundKey::new(algorithm, key).ok()?))));
        match kind {
            CipherKind::Aes128Ccm => Some(Cipher::Aes128Ccm(Box::new(Ccm::new_from_slice(key).ok()?))),
            CipherKind::Aes256Ccm => Some(Cipher::Aes256Ccm(Box::new(Ccm::new_from_slice(key).ok()?))),
            CipherKind::Aes128Gcm => gcm(&AES_128_GCM),
            CipherKind::Aes256Gcm => gcm(&AES_256_GCM),
        }
    }

    /// Encrypts in place and gives the tag. `nonce` is the field: as much of its beginning counts as the cipher wants. No
    /// two messages may have the same under one key.
    pub fn seal(&self, nonce: &[u8; NONCE_FIELD_BYTES], aad: &[u8], bytes: &mut [u8]) -> [u8; 16] {
        const SHORT: &str = "no frame is as long as what a cipher can take";
        match self {
            Cipher::Aes128Ccm(ccm) => {
                ccm.encrypt_inout_detached(&ccm_nonce(nonce).into(), aad, bytes.into()).expect(SHORT).into()
            }
            Cipher::Aes256Ccm(ccm) => {
                ccm.encrypt_inout_detached(&ccm_nonce(nonce).into(), aad, bytes.into()).expect(SHORT).into()
            }
            Cipher::Gcm(key) => {
                let tag = key.seal_in_place_separate_tag(gcm_nonce(nonce), Aad::from(aad), bytes).expect(SHORT);
                tag.as_ref().try_into().expect("a tag is 16 bytes")
            }
        }
    }

    /// Decrypts in place, if the tag is that of these bytes.
    pub fn open(
        &self,
        nonce: &[u8; NONCE_FIELD_BYTES],
        aad: &[u8],
        bytes: &mut [u8],
        tag: &[u8; 16],
    ) -> Result<(), Tampered> {
        let opened = match self {
            Cipher::Aes128Ccm(ccm) => {
                ccm.decrypt_inout_detached(&ccm_nonce(nonce).into(), aad, bytes.into(), &(*tag).into()).map_err(drop)
            }
            Cipher::Aes256Ccm(ccm) => {
                ccm.decrypt_inout_detached(&ccm_nonce(nonce).into(), aad, bytes.into(), &(*tag).into()).map_err(drop)
            }
            Cipher::Gcm(key) => key
                .open_in_place_separate_tag(gcm_nonce(nonce), Aad::from(aad), (*tag).into(), bytes, 0..)
                .map(drop)
                .map_err(drop),
        };
        opened.map_err(|()| Tampered)
    }
}

fn ccm_nonce(field: &[u8; NONCE_FIELD_BYTES]) -> [u8; CCM_NONCE_BYTES] {
    *field.first_chunk().expect("the field is longer")
}

fn gcm_nonce(field: &[u8; NONCE_FIELD_BYTES]) -> Nonce {
    Nonce::assume_unique_for_key(*field.first_chunk::<GCM_NONCE_BYTES>().expect("the field is longer"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::vectors::{array, hex};

    fn nonce_field(text: &str) -> [u8; 16] {
        let mut field = [0; 16];
        let bytes = hex(text);
        field[..bytes.len()].copy_from_slice(&bytes);
        field
    }

    /// There and back.
    #[track_caller]
    fn check(kind: CipherKind, key: &str, nonce: &str, aad: &str, plain: &str, sealed: &str, tag: &str) {
        let cipher = Cipher::new(kind, &hex(key)).expect("its length");
        let (nonce, mut bytes) = (nonce_field(nonce), hex(plain));
        assert_eq!(cipher.seal(&nonce, &hex(aad), &mut bytes), *hex(tag));
        assert_eq!(bytes, hex(sealed));
        assert_eq!(cipher.open(&nonce, &hex(aad), &mut bytes, &array(tag)), Ok(()));
        assert_eq!(bytes, hex(plain));
    }

    #[test]
    fn numbers_go_there_and_back() {
        for kind in CipherKind::ALL {
            assert_eq!(CipherKind::from_number(kind.number()), Some(kind));
        }
        assert_eq!(CipherKind::from_number(0), None);
        assert_eq!(CipherKind::from_number(5), None);
    }

    /// What Microsoft published of encryption in SMB 3.0: a WRITE request and its response.
    #[test]
    fn published_messages_of_3_0() {
        check(
            CipherKind::Aes128Ccm,
            "261B72350558F2E9DCF613070383EDBF",
            "66E69A111892584FB5ED524A744DA3EE",
            "66E69A111892584FB5ED524A744DA3EE87000000000001001100001400E40800",
            "FE534D4240000100000000000900400008000000000000000400000000000000
             FFFE0000010000001100001400E4080000000000000000000000000000000000
             3100700017000000000000000000000015010000390000020100000039020000
             00000000000000007000000000000000536D623320656E6372797074696F6E20
             74657374696E67",
            "25C8FEE16605A437832D1CD52DA9F4645333482A175FE5384563F45FCDAFAEF3
             8BC62BA4D5C62897996625A44C29BE5658DE2E6117585779E7B59FFD971278D0
             8580D7FA899E410E910EABF5AA1DB43050B33B49182637759AC15D84BFCDF5B6
             B238993C0F4CF4D6012023F6C627297075D84B7803912D0A9639634453595EF3
             E33FFE4E7AC2AB",
            "81A286535415445DAE393921E44FA42E",
        );
        check(
            CipherKind::Aes128Ccm,
            "8FE2B57EC34D2DB5B1A9727F526BBDB5",
            "86000000000000001100001400E40800",
            "86000000000000001100001400E4080050000000000001001100001400E40800",
            "FE534D4240000100000000000900210009000000000000000400000000000000
             FFFE0000010000001100001400E4080000000000000000000000000000000000
             11000000170000000000000000000000",
            "DBF46435C5F14169293CE079E344479BF670227E49873F458672C3098DAC467D
             D5809F369D674091665157871483E01F7BECD02064EAC3E235F913668BBC2F09
             7980D4B378F1993EFF6E60D177309E5B",
            "A6015530A18F6D9AFFE22AFAE8E66484",
        );
    }

    /// The same of SMB 3.1.1.
    #[test]
    fn published_messages_of_3_1_1() {
        check(
            CipherKind::Aes128Gcm,
            "A2F5E80E5D59103034F32E52F698E5EC",
            "C7D6822D269CAF48904C664C",
            "C7D6822D269CAF48904C664C0000000087000000000001002500000000100000",
            "FE534D4240000100000000000900010008000000000000000500000000000000FFFE000001000000
             25000000001000000000000000000000000000000000000031007000170000000000000000000000
             0600000004000000010000000400000000000000000000007000000000000000536D623320656E63
             72797074696F6E2074657374696E67",
            "6ECDD2A7AFC7B47763057A041B8FD4DAFFE990B70C9E09D36C084E02D14EF247F8BDE38ACF6256F8
             B1D3B56F77FBDEB312FEA5E92CBCC1ED8FB2EBBFAA75E49A4A394BB44576545567C24D4C014D47C9
             FBDFDAFD2C4F9B72F8D256452620A299F48E29E53D6B61D1C13A19E91AF013F00D17E3ABC2FC3D36
             C8C1B6B93973253852DBD442E46EE8",
            "BD73D97D2BC9001BCAFAC0FDFF5FEEBC",
        );
        check(
            CipherKind::Aes128Gcm,
            "748C50868C90F302962A5C35F5F9A8BF",
            "E06831DD2E8EB7B400000000",
            "E06831DD2E8EB7B4000000000000000050000000000001002500000000100000",
            "FE534D4240000100000000000900010001000000000000000500000000000000FFFE000001000000
             25000000001000000000000000000000000000000000000011000000170000000000000000000000",
            "26BBBF949983A6C1C796559D0F2C510CB651D1F7B6AC8DED32A2A0B8F2D793A815C6F6B848D69767
             A215841A42D400AE6DDB5F0B44173A014973321FDD7950DA6179159B82E03C9E18A050FF0EA1C967",
            "ACBE1CB7ED343ADF1725EF144D90D4B0",
        );
    }

    /// GCM: the sixteenth case of its specification. CCM with a nonce of 11 bytes: made with OpenSSL.
    #[test]
    fn long_keys() {
        check(
            CipherKind::Aes256Gcm,
            "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
            "cafebabefacedbaddecaf888",
            "feedfacedeadbeeffeedfacedeadbeefabaddad2",
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72
             1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa
             8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
            "76fc6ece0f4e1768cddf8853bb2d551b",
        );
        check(
            CipherKind::Aes256Ccm,
            "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
            "cafebabefacedbaddecaf8",
            "feedfacedeadbeeffeedfacedeadbeefabaddad2",
            "d9313225f88406e5a55909c5aff5269a86a7a953",
            "22c889c05709e49738aa7f8f9509a9a38d688b0b",
            "b192f04fe783e07f24b27fac6d6c2f45",
        );
    }

    #[test]
    fn keys_of_the_wrong_length_are_none() {
        for kind in CipherKind::ALL {
            for bytes in [0, 15, 16, 17, 24, 31, 32, 33] {
                assert_eq!(Cipher::new(kind, &vec![1; bytes]).is_some(), bytes == kind.key_bytes(), "{kind:?} {bytes}");
            }
        }
    }

    #[test]
    fn whatever_is_changed_is_noticed() {
        for kind in CipherKind::ALL {
            let cipher = Cipher::new(kind, &vec![9; kind.key_bytes()]).expect("its length");
            let (nonce, aad, plain) = ([5; 16], [6; 32], [7; 40]);
            let mut sealed = plain;
            let tag = cipher.seal(&nonce, &aad, &mut sealed);
            let opens =
                |nonce, aad: [u8; 32], mut bytes: [u8; 40], tag| cipher.open(&nonce, &aad, &mut bytes, &tag).is_ok();
            assert!(opens(nonce, aad, sealed, tag));
            for at in 0..16 {
                let mut wrong = tag;
                wrong[at] ^= 0x80;
                assert!(!opens(nonce, aad, sealed, wrong), "{kind:?}, tag {at}");
                let mut other = nonce;
                other[at] ^= 1;
                assert_eq!(opens(other, aad, sealed, tag), at >= kind.nonce_bytes(), "{kind:?}, nonce {at}");
            }
            for at in 0..32 {
                let mut wrong = aad;
                wrong[at] ^= 1;
                assert!(!opens(nonce, wrong, sealed, tag), "{kind:?}, header {at}");
            }
            for at in 0..40 {
                let mut wrong = sealed;
                wrong[at] ^= 1;
                assert!(!opens(nonce, aad, wrong, tag), "{kind:?}, byte {at}");
            }
        }
    }
}
