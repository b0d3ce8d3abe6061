//! The hashes a body is checked by while it streams in.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use contract::{ErrorCode, Refusal};
use engine::{BoxFuture, Fault, Source, SourceError};
use md5::{Digest, Md5};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle};

use crate::request::Request;
use crate::structured::{DecodeError, Decoder, Framing};
use crate::wire::Body;

/// What the client says the body hashes to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Expected {
    pub md5: Option<[u8; 16]>,
    pub crc64: Option<[u8; 8]>,
}

impl Expected {
    pub fn parse(request: &Request<'_>) -> Result<Expected, Refusal> {
        Expected::named(request, "content-md5", "x-ms-content-crc64")
    }

    /// At most one of the two, in headers of these names.
    pub fn named(request: &Request<'_>, md5: &'static str, crc64: &'static str) -> Result<Expected, Refusal> {
        let (md5, crc64) = (request.header(md5).map(parse_md5).transpose()?, parse_crc64(request, crc64)?);
        match (md5, crc64) {
            (Some(_), Some(_)) => Err(ErrorCode::BothCrc64AndMd5HeaderPresent.into()),
            _ => Ok(Expected { md5, crc64 }),
        }
    }

    pub fn check(&self, actual: &Actual) -> Result<(), Refusal> {
        check_md5(self.md5, actual.md5)?;
        match self.crc64 {
            Some(crc64) if crc64 != actual.crc64 => Err(Refusal::from(ErrorCode::Crc64Mismatch)
                .with("UserSpecifiedCrc", STANDARD.encode(crc64))
                .with("ServerCalculatedCrc", STANDARD.encode(actual.crc64))),
            _ => Ok(()),
        }
    }
}

pub fn check_md5(expected: Option<[u8; 16]>, actual: [u8; 16]) -> Result<(), Refusal> {
    match expected {
        Some(expected) if expected != actual => Err(Refusal::from(ErrorCode::Md5Mismatch)
            .with("UserSpecifiedMd5", STANDARD.encode(expected))
            .with("ServerCalculatedMd5", STANDARD.encode(actual))),
        _ => Ok(()),
    }
}

/// 16 bytes in Base64.
pub fn parse_md5(text: &str) -> Result<[u8; 16], Refusal> {
    let bytes = STANDARD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| ErrorCode::InvalidMd5.into())
}

/// 8 bytes in Base64, in a header of this name.
pub fn parse_crc64(request: &Request<'_>, name: &'static str) -> Result<Option<[u8; 8]>, Refusal> {
    let parse = |text: &str| {
        let bytes = STANDARD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.ok_or_else(|| Refusal::bad_header(name, text))
    };
    request.header(name).map(parse).transpose()
}

/// What a body really hashed to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Actual {
    pub md5: [u8; 16],
    pub crc64: [u8; 8],
}

impl Actual {
    /// Of a body that has come already.
    pub fn of(bytes: &[u8]) -> Actual {
        let mut crc64 = crc64fast_nvme::Digest::new();
        crc64.write(bytes);
        Actual { md5: Md5::digest(bytes).into(), crc64: crc64.sum64().to_le_bytes() }
    }
}

/// Both hashes of a body, of which each piece passes once.
struct Hashes {
    md5: Md5,
    crc64: crc64fast_nvme::Digest,
}

impl Hashes {
    fn new() -> Hashes {
        Hashes { md5: Md5::new(), crc64: crc64fast_nvme::Digest::new() }
    }

    fn update(&mut self, bytes: &[u8]) {
        self.md5.update(bytes);
        self.crc64.write(bytes);
    }

    fn finish(self) -> Actual {
        Actual { md5: self.md5.finalize().into(), crc64: self.crc64.sum64().to_le_bytes() }
    }
}

/// Where a body is hashed: a small one on the way, a large one on a thread beside the one that writes it, because its MD5 takes longer
/// than anything else that is done with it.
enum Hashing {
    Here { hashes: Box<Hashes>, bytes: usize },
    Beside { pieces: mpsc::Sender<Bytes>, hashes: JoinHandle<Hashes> },
}

/// What is hashed on the way; less than this is hashed before a thread has begun.
const HERE_BYTES_MAX: usize = 1024 * 1024;
/// Pieces that may wait to be hashed: no more of a body is held than these.
const PIECES_MAX: usize = 8;

impl Hashing {
    async fn update(&mut self, piece: &Bytes) {
        match self {
            Hashing::Here { hashes, bytes } => {
                hashes.update(piece);
                *bytes += piece.len();
                if *bytes >= HERE_BYTES_MAX {
                    let mut hashes = std::mem::replace(hashes, Box::new(Hashes::new()));
                    let (pieces, mut waiting) = mpsc::channel::<Bytes>(PIECES_MAX);
                    let hashes = tokio::task::spawn_blocking(move || {
                        while let Some(piece) = waiting.blocking_recv() {
                            hashes.update(&piece);
                        }
                        *hashes
                    });
                    *self = Hashing::Beside { pieces, hashes };
                }
            }
            // It goes away only by a panic, which `finish` reports.
            Hashing::Beside { pieces, .. } => drop(pieces.send(piece.clone()).await),
        }
    }

    async fn finish(self) -> Result<Actual, Fault> {
        match self {
            Hashing::Here { hashes, .. } => Ok(hashes.finish()),
            Hashing::Beside { pieces, hashes } => {
                drop(pieces);
                let failed =
                    |error: JoinError| Fault::Other { doing: "hashing a body".into(), detail: error.to_string() };
                Ok(hashes.await.map_err(failed)?.finish())
            }
        }
    }
}

/// A body on its way in, out of its frame if it has one, and hashed as it passes.
pub struct HashedBody<'a, 'b> {
    body: &'a mut Body<'b>,
    decoder: Option<Decoder>,
    hashing: Hashing,
}

impl<'a, 'b> HashedBody<'a, 'b> {
    pub fn new(body: &'a mut Body<'b>, framing: Option<&Framing>) -> Self {
        let decoder = framing.map(|framing| Decoder::new(framing.content_bytes));
        HashedBody { body, decoder, hashing: Hashing::Here { hashes: Box::new(Hashes::new()), bytes: 0 } }
    }

    pub async fn finish(self) -> Result<Actual, Fault> {
        self.hashing.finish().await
    }
}

impl Source for HashedBody<'_, '_> {
    fn next(&mut self, bytes_max: usize) -> BoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async move {
            let next = match &mut self.decoder {
                None => self.body.next(bytes_max).await.map_err(DecodeError::Body),
                Some(decoder) => decoder.next(self.body, bytes_max).await,
            };
            let bytes = next.map_err(|error| match error {
                DecodeError::Body(error) => SourceError(Box::new(error)),
                DecodeError::Refused(refused) => SourceError(Box::new(refused)),
            })?;
            if let Some(bytes) = &bytes {
                self.hashing.update(bytes).await;
            }
            Ok(bytes)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc64_is_the_one_the_service_means() {
        let mut digest = crc64fast_nvme::Digest::new();
        assert_eq!(STANDARD.encode(digest.sum64().to_le_bytes()), "AAAAAAAAAAA=");
        digest.write(b"123456789");
        assert_eq!(STANDARD.encode(digest.sum64().to_le_bytes()), "iJh5CoYUi64=");
    }

    #[tokio::test]
    async fn the_same_hashes_here_and_beside() {
        for bytes in [0, 1, HERE_BYTES_MAX - 1, HERE_BYTES_MAX, HERE_BYTES_MAX + 1, 5 * HERE_BYTES_MAX + 7] {
            let content = Bytes::from((0..bytes).map(|at| (at % 251) as u8).collect::<Vec<u8>>());
            let mut hashing = Hashing::Here { hashes: Box::new(Hashes::new()), bytes: 0 };
            for piece in content.chunks(100_000) {
                hashing.update(&content.slice_ref(piece)).await;
            }
            assert_eq!(matches!(hashing, Hashing::Beside { .. }), bytes >= HERE_BYTES_MAX);
            assert_eq!(hashing.finish().await.expect("hashed"), Actual::of(&content), "{bytes} bytes");
        }
    }
}
