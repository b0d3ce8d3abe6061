//! Signatures of messages (MS-SMB2 3.1.4.1): over the whole message, its signature field zero.

use aes::Aes128;
use aes::cipher::BlockCipherEncrypt;
use cmac::Cmac;
use ghash::GHash;
use ghash::universal_hash::UniversalHash;
use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// How messages are signed. 2.1 knows the first alone, 3.0 and 3.0.2 the second, 3.1.1 chooses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SigningAlgorithm {
    HmacSha256,
    AesCmac,
    AesGmac,
}

impl SigningAlgorithm {
    pub const ALL: [SigningAlgorithm; 3] =
        [SigningAlgorithm::HmacSha256, SigningAlgorithm::AesCmac, SigningAlgorithm::AesGmac];

    /// As the negotiate context writes it (MS-SMB2 2.2.3.1.7).
    pub fn number(self) -> u16 {
        match self {
            SigningAlgorithm::HmacSha256 => 0,
            SigningAlgorithm::AesCmac => 1,
            SigningAlgorithm::AesGmac => 2,
        }
    }

    pub fn from_number(number: u16) -> Option<SigningAlgorithm> {
        SigningAlgorithm::ALL.into_iter().find(|algorithm| algorithm.number() == number)
    }
}

/// What tells a message from every other under the same key. Only AES-GMAC takes it in beside the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SigningNonce {
    pub message_id: u64,
    pub is_server: bool,
    pub is_cancel: bool,
}

impl SigningNonce {
    fn bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&self.message_id.to_le_bytes());
        bytes[8] = u8::from(self.is_server) | u8::from(self.is_cancel) << 1;
        bytes
    }
}

/// An algorithm and its key, ready to sign with. Never printed.
pub enum Signer {
    HmacSha256(Hmac<Sha256>),
    AesCmac(Cmac<Aes128>),
    AesGmac(Gmac),
}

impl Signer {
    pub fn new(algorithm: SigningAlgorithm, key: &[u8; 16]) -> Signer {
        match algorithm {
            SigningAlgorithm::HmacSha256 => Signer::HmacSha256(Hmac::new_from_slice(key).expect("any length is a key")),
            SigningAlgorithm::AesCmac => Signer::AesCmac(Cmac::new(key.into())),
            SigningAlgorithm::AesGmac => Signer::AesGmac(Gmac::new(key)),
        }
    }

    /// Of the message that the parts make one after the other.
    pub fn signature(&self, parts: &[&[u8]], nonce: SigningNonce) -> [u8; 16] {
        match self {
            Signer::HmacSha256(mac) => {
                *over(mac, parts).finalize().into_bytes().first_chunk().expect("32 bytes are more than 16")
            }
            Signer::AesCmac(mac) => over(mac, parts).finalize().into_bytes().into(),
            Signer::AesGmac(mac) => mac.signature(parts, nonce.bytes()),
        }
    }

    /// Is it the message's? Takes the same time whether it is wrong at the first byte or at the last.
    pub fn verify(&self, parts: &[&[u8]], nonce: SigningNonce, signature: &[u8; 16]) -> bool {
        match self {
            Signer::HmacSha256(mac) => over(mac, parts).verify_truncated_left(signature).is_ok(),
            Signer::AesCmac(mac) => over(mac, parts).verify_slice(signature).is_ok(),
            Signer::AesGmac(mac) => mac.verify(parts, nonce.bytes(), signature),
        }
    }
}

fn over<M: Mac + Clone>(mac: &M, parts: &[&[u8]]) -> M {
    let mut mac = mac.clone();
    parts.iter().for_each(|part| mac.update(part));
    mac
}

const BLOCK_BYTES: usize = 16;

/// GCM with nothing to encrypt: a hash of the message under a key, masked by what the cipher makes of the nonce.
pub struct Gmac {
    cipher: Aes128,
    /// Of nothing yet. Its key has been multiplied with itself, which is too dear to do for each message.
    hash: GHash,
}

impl Gmac {
    fn new(key: &[u8; 16]) -> Gmac {
        let cipher = Aes128::new(key.into());
        let mut hash_key = [0; BLOCK_BYTES].into();
        cipher.encrypt_block(&mut hash_key);
        Gmac { cipher, hash: GHash::new(&hash_key) }
    }

    fn signature(&self, parts: &[&[u8]], nonce: [u8; 12]) -> [u8; BLOCK_BYTES] {
        let hash = self.hash(parts).finalize().into();
        self.masked(hash, nonce)
    }

    fn verify(&self, parts: &[&[u8]], nonce: [u8; 12], signature: &[u8; BLOCK_BYTES]) -> bool {
        self.hash(parts).verify(&self.masked(*signature, nonce).into()).is_ok()
    }

    fn masked(&self, mut hash: [u8; BLOCK_BYTES], nonce: [u8; 12]) -> [u8; BLOCK_BYTES] {
        let mut mask = [0; BLOCK_BYTES];
        mask[..12].copy_from_slice(&nonce);
        mask[15] = 1;
        let mut mask = mask.into();
        self.cipher.encrypt_block(&mut mask);
        hash.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
        hash
    }

    /// Of the parts one after the other, zeros up to the end of a block, and how many bits they are.
    fn hash(&self, parts: &[&[u8]]) -> GHash {
        let mut hash = self.hash.clone();
        let (mut begun, mut begun_bytes, mut bytes) = ([0; BLOCK_BYTES], 0, 0);
        for part in parts {
            let mut rest = *part;
            bytes += part.len();
            if begun_bytes > 0 {
                let (fill, after) = rest.split_at(rest.len().min(BLOCK_BYTES - begun_bytes));
                begun[begun_bytes..][..fill.len()].copy_from_slice(fill);
                (begun_bytes, rest) = (begun_bytes + fill.len(), after);
                if begun_bytes < BLOCK_BYTES {
                    continue;
                }
                hash.update_padded(&begun);
            }
            let (blocks, after) = rest.split_at(rest.len() - rest.len() % BLOCK_BYTES);
            hash.update_padded(blocks);
            begun[..after.len()].copy_from_slice(after);
            begun_bytes = after.len();
        }
        hash.update_padded(&begun[..begun_bytes]);
        let mut lengths = [0; BLOCK_BYTES];
        lengths[..8].copy_from_slice(&(bytes as u64 * 8).to_be_bytes());
        hash.update_padded(&lengths);
        hash
    }
}

#[cfg(test)]
mod tests {
    use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

    use super::*;
    use crate::security::vectors::{self, array, hex};

    const NONCE: SigningNonce = SigningNonce { message_id: 3, is_server: true, is_cancel: false };

    #[test]
    fn numbers_go_there_and_back() {
        for algorithm in SigningAlgorithm::ALL {
            assert_eq!(SigningAlgorithm::from_number(algorithm.number()), Some(algorithm));
        }
        assert_eq!(SigningAlgorithm::from_number(3), None);
    }

    /// RFC 4493, section 4.
    #[test]
    fn published_signatures_of_aes_cmac() {
        let signer = Signer::new(SigningAlgorithm::AesCmac, &array("2b7e151628aed2a6abf7158809cf4f3c"));
        let message = hex("6bc1bee22e409f96e93d7e117393172a ae2d8a571e03ac9c9eb76fac45af8e51
                           30c81c46a35ce411e5fbc1191a0a52ef f69f2445df4f9b17ad2b417be66c3710");
        for (bytes, expected) in [
            (0, "bb1d6929e95937287fa37d129b756746"),
            (16, "070a16b46b4d4144f79bdd9dd04a287c"),
            (40, "dfa66747de9ae63030ca32611497c827"),
            (64, "51f0bebf7e3b9d92fc49741779363cfe"),
        ] {
            assert_eq!(signer.signature(&[&message[..bytes]], NONCE), *hex(expected), "{bytes} bytes");
        }
    }

    /// Held against another implementation.
    #[test]
    fn a_signature_of_hmac_sha256() {
        let signer = Signer::new(SigningAlgorithm::HmacSha256, &[0x0b; 16]);
        assert_eq!(signer.signature(&[b"Hi ", b"There"], NONCE), *hex("492ce020fe2534a5789dc3848806c78f"));
    }

    /// The last response of the conversation that Microsoft published.
    #[test]
    fn a_published_signature_of_3_1_1() {
        let mut message = hex(vectors::SIGNED_RESPONSE);
        let signature: [u8; 16] = message[48..64].try_into().unwrap();
        message[48..64].fill(0);
        let signer = Signer::new(SigningAlgorithm::AesCmac, &array("73FE7A9A77BEF0BDE49C650D8CCB5F76"));
        assert_eq!(signer.signature(&[&message[..64], &message[64..]], NONCE), signature);
        assert!(signer.verify(&[&message], NONCE, &signature));
    }

    /// NIST's vectors of GCM without a plaintext.
    #[test]
    fn published_signatures_of_aes_gmac() {
        let gmac = |key| Gmac::new(&array(key));
        assert_eq!(
            gmac("00000000000000000000000000000000").signature(&[], [0; 12]),
            *hex("58e2fccefa7e3061367f1d57a4e7455a")
        );
        assert_eq!(
            gmac("77be63708971c4e240d1cb79e8d77feb")
                .signature(&[&hex("7a43ec1d9c0a5a78"), &hex("a0b16533a6213cab")], array("e0e00f19fed7ba0136a797f3")),
            *hex("209fcc8d3675ed938e9c7166709dd946")
        );
    }

    /// Held against ring's, which takes a message in one piece: every length up to some blocks, cut anywhere.
    #[test]
    fn aes_gmac_of_any_length_in_any_parts() {
        let (key, nonce) = ([0x5c; 16], [9; 12]);
        let other = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).expect("16 bytes are its key"));
        let message: Vec<u8> = (0..1000_u32).map(|at| (at * 7 + at / 256) as u8).collect();
        for bytes in (0..300).chain([1000]) {
            let message = &message[..bytes];
            let tag =
                other.seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(message), &mut []);
            let expected = tag.expect("a tag");
            for cut in [0, 1, 15, 16, 17, 48, 64, bytes].map(|cut| cut.min(bytes)) {
                let (before, after) = message.split_at(cut);
                let (middle, after) = after.split_at(after.len().min(5));
                let signature = Gmac::new(&key).signature(&[before, middle, after], nonce);
                assert_eq!(signature, expected.as_ref(), "{bytes} bytes cut at {cut}");
            }
        }
    }

    /// MS-SMB2 3.1.4.1: the message id, then bit 0 for the server and bit 1 for CANCEL.
    #[test]
    fn nonces() {
        for (is_server, is_cancel, expected) in [
            (false, false, "080706050403020100000000"),
            (true, false, "080706050403020101000000"),
            (false, true, "080706050403020102000000"),
        ] {
            let nonce = SigningNonce { message_id: 0x0102_0304_0506_0708, is_server, is_cancel };
            assert_eq!(nonce.bytes(), *hex(expected));
        }
    }

    #[test]
    fn whatever_is_changed_is_noticed() {
        for algorithm in SigningAlgorithm::ALL {
            let signer = Signer::new(algorithm, &[7; 16]);
            let message: Vec<u8> = (0..150).collect();
            let signature = signer.signature(&[&message[..64], &message[64..]], NONCE);
            assert!(signer.verify(&[&message[..7], &message[7..]], NONCE, &signature), "{algorithm:?}");
            for bit in 0..128 {
                let mut wrong = signature;
                wrong[bit / 8] ^= 1 << (bit % 8);
                assert!(!signer.verify(&[&message], NONCE, &wrong), "{algorithm:?}, bit {bit}");
            }
            for at in 0..message.len() {
                let mut wrong = message.clone();
                wrong[at] ^= 1;
                assert!(!signer.verify(&[&wrong], NONCE, &signature), "{algorithm:?}, byte {at}");
            }
            assert!(!signer.verify(&[&message[..149]], NONCE, &signature));
            assert!(!Signer::new(algorithm, &[8; 16]).verify(&[&message], NONCE, &signature));
            let nonce_counts = algorithm == SigningAlgorithm::AesGmac;
            for other in [
                SigningNonce { message_id: 4, ..NONCE },
                SigningNonce { is_server: false, ..NONCE },
                SigningNonce { is_cancel: true, ..NONCE },
            ] {
                assert_eq!(signer.verify(&[&message], other, &signature), !nonce_counts, "{algorithm:?} {other:?}");
            }
        }
    }
}
