//! Structured bodies: content in segments, each followed by its CRC64, so that a flipped bit on the way is found on either side.
//!
//! All numbers are little-endian.
//! ```text
//! header    u8 version = 1, u64 length of the whole message, u16 flags (1: crc64), u16 number of segments
//! segment   u16 its number, from 1; u64 length of its data; the data; u64 crc64 of the data
//! trailer   u64 crc64 of all data
//! ```

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use contract::{ErrorCode, Refusal};
use crc64fast_nvme::Digest;
use engine::Fault;
use partition::ContentReader;

use crate::request::Request;
use crate::wire::{Body, BodyError};

const BODY: &str = "x-ms-structured-body";
const LENGTH: &str = "x-ms-structured-content-length";

const HEADER_BYTES: usize = 13;
const SEGMENT_HEADER_BYTES: usize = 10;
const CRC_BYTES: usize = 8;
const VERSION: u8 = 1;
const FLAG_CRC64: u16 = 1;
/// What we write; a reader takes any.
const SEGMENT_BYTES: u64 = 4 * 1024 * 1024;
const SEGMENTS_MAX: u64 = u16::MAX as u64;

/// The most that framing adds to a body.
const FRAMING_BYTES_MAX: u64 =
    HEADER_BYTES as u64 + SEGMENTS_MAX * (SEGMENT_HEADER_BYTES + CRC_BYTES) as u64 + CRC_BYTES as u64;

/// Does the request ask for a structured body? The answer repeats its words.
pub fn asked<'a>(request: &'a Request<'_>) -> Result<Option<&'a str>, Refusal> {
    let Some(text) = request.header(BODY) else { return Ok(None) };
    let words: Vec<String> = text.split(';').map(|word| word.trim().to_ascii_lowercase()).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["xsm/1.0", "properties=crc64"] => Ok(Some(text)),
        _ => Err(Refusal::bad_header(BODY, text)),
    }
}

/// How a body on its way in is framed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Framing {
    /// What was sent as `x-ms-structured-body`.
    pub words: String,
    /// How long the content is that the segments make together.
    pub content_bytes: u64,
}

impl Framing {
    pub fn parse(request: &Request<'_>) -> Result<Option<Framing>, Refusal> {
        let length = request.header(LENGTH);
        let Some(words) = asked(request)? else {
            return length.map_or(Ok(None), |text| Err(Refusal::bad_header(LENGTH, text)));
        };
        let text = length.ok_or(Refusal::missing_header(LENGTH))?;
        let content_bytes = text.parse().map_err(|_| Refusal::bad_header(LENGTH, text))?;
        Ok(Some(Framing { words: words.to_string(), content_bytes }))
    }

    /// How long the body may be if its content may be so long.
    pub fn body_bytes_max(content_bytes_max: u64) -> u64 {
        content_bytes_max + FRAMING_BYTES_MAX
    }
}

fn malformed(why: &str) -> Refusal {
    Refusal::from(ErrorCode::InvalidInput).saying(format!("The structured body is malformed: {why}."))
}

/// What a reader of the message needs next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wants {
    Frame(usize),
    Data(u64),
    Nothing,
}

/// Reads a message as it comes; holds nothing of it but where it is.
pub struct Decoder {
    state: State,
    content_bytes: u64,
    /// As the message says, and as it came.
    message_bytes: u64,
    taken_bytes: u64,
    seen_bytes: u64,
    segments: u16,
    segment: u16,
    of_segment: Digest,
    of_all: Digest,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Header,
    SegmentHeader,
    Data(u64),
    SegmentCrc,
    Trailer,
    Done,
}

impl Decoder {
    pub fn new(content_bytes: u64) -> Decoder {
        Decoder {
            state: State::Header,
            content_bytes,
            message_bytes: 0,
            taken_bytes: 0,
            seen_bytes: 0,
            segments: 0,
            segment: 0,
            of_segment: Digest::new(),
            of_all: Digest::new(),
        }
    }

    fn wants(&self) -> Wants {
        match self.state {
            State::Header => Wants::Frame(HEADER_BYTES),
            State::SegmentHeader => Wants::Frame(SEGMENT_HEADER_BYTES),
            State::Data(left) => Wants::Data(left),
            State::SegmentCrc | State::Trailer => Wants::Frame(CRC_BYTES),
            State::Done => Wants::Nothing,
        }
    }

    /// Data of the segment it is in.
    fn data(&mut self, bytes: &[u8]) {
        self.of_segment.write(bytes);
        self.of_all.write(bytes);
        self.seen_bytes += bytes.len() as u64;
        self.taken_bytes += bytes.len() as u64;
        if let State::Data(left) = self.state {
            self.state = State::Data(left - bytes.len() as u64);
            self.after_data();
        }
    }

    fn after_data(&mut self) {
        if self.state == State::Data(0) {
            self.state = State::SegmentCrc;
        }
    }

    /// As many bytes of framing as it wanted.
    fn frame(&mut self, frame: &[u8]) -> Result<(), Refusal> {
        self.taken_bytes += frame.len() as u64;
        let short = || malformed("it is cut short");
        match self.state {
            State::Header => {
                let (version, rest) = frame.split_first().ok_or_else(short)?;
                let (length, rest) = number::<8>(rest).ok_or_else(short)?;
                let (flags, rest) = number::<2>(rest).ok_or_else(short)?;
                let (segments, _) = number::<2>(rest).ok_or_else(short)?;
                if *version != VERSION {
                    return Err(malformed("its version is not 1"));
                }
                if flags != u64::from(FLAG_CRC64) {
                    return Err(malformed("its flags are not those of crc64"));
                }
                (self.message_bytes, self.segments) = (length, segments as u16);
                self.state = if segments == 0 { State::Trailer } else { State::SegmentHeader };
            }
            State::SegmentHeader => {
                let (segment, rest) = number::<2>(frame).ok_or_else(short)?;
                let (bytes, _) = number::<8>(rest).ok_or_else(short)?;
                self.segment += 1;
                if segment != u64::from(self.segment) {
                    return Err(malformed("its segments are out of order"));
                }
                if self.seen_bytes.checked_add(bytes).is_none_or(|bytes| bytes > self.content_bytes) {
                    return Err(malformed("its segments are longer than its content"));
                }
                self.of_segment = Digest::new();
                self.state = State::Data(bytes);
                self.after_data();
            }
            State::SegmentCrc => {
                check(frame, &self.of_segment)?;
                self.state = if self.segment == self.segments { State::Trailer } else { State::SegmentHeader };
            }
            State::Trailer => {
                check(frame, &self.of_all)?;
                if self.seen_bytes != self.content_bytes {
                    return Err(malformed("its segments are shorter than its content"));
                }
                if self.taken_bytes != self.message_bytes {
                    return Err(malformed("it is not as long as it says"));
                }
                self.state = State::Done;
            }
            State::Data(_) | State::Done => {}
        }
        Ok(())
    }

    /// The next bytes of the content; `None` when all of it came and all of it was right.
    pub async fn next(&mut self, body: &mut Body<'_>, bytes_max: usize) -> Result<Option<Bytes>, DecodeError> {
        loop {
            match self.wants() {
                Wants::Frame(bytes) => {
                    let mut frame = Vec::with_capacity(bytes);
                    while frame.len() < bytes {
                        let more = body.next(bytes - frame.len()).await?;
                        frame.extend_from_slice(&more.ok_or_else(|| malformed("it is cut short"))?);
                    }
                    self.frame(&frame)?;
                }
                Wants::Data(left) => {
                    let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(bytes_max);
                    let bytes = body.next(wanted).await?.ok_or_else(|| malformed("it is cut short"))?;
                    self.data(&bytes);
                    return Ok(Some(bytes));
                }
                Wants::Nothing => {
                    return match body.next(1).await? {
                        None => Ok(None),
                        Some(_) => Err(malformed("something follows it").into()),
                    };
                }
            }
        }
    }
}

/// A number of `N` bytes, and what follows it.
fn number<const N: usize>(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_at_checked(N)?;
    let mut eight = [0; 8];
    eight[..N].copy_from_slice(number);
    Some((u64::from_le_bytes(eight), rest))
}

fn check(given: &[u8], digest: &Digest) -> Result<(), Refusal> {
    let actual = digest.sum64().to_le_bytes();
    match given == actual {
        true => Ok(()),
        false => Err(Refusal::from(ErrorCode::Crc64Mismatch)
            .with("UserSpecifiedCrc", STANDARD.encode(given))
            .with("ServerCalculatedCrc", STANDARD.encode(actual))),
    }
}

/// A body that was refused on its way in.
#[derive(Debug)]
pub struct Refused(pub Refusal);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.message())
    }
}

impl std::error::Error for Refused {}

/// Why the content did not arrive.
pub enum DecodeError {
    Body(BodyError),
    Refused(Refused),
}

impl From<BodyError> for DecodeError {
    fn from(error: BodyError) -> Self {
        DecodeError::Body(error)
    }
}

impl From<Refusal> for DecodeError {
    fn from(refusal: Refusal) -> Self {
        DecodeError::Refused(Refused(refusal))
    }
}

/// Stored content on its way out, framed.
pub struct Encoder {
    reader: ContentReader,
    /// A piece of content that reaches into the next segment.
    rest: Bytes,
    content_left: u64,
    segment_bytes: u64,
    segments: u64,
    segment: u64,
    segment_left: u64,
    /// Framing comes before the next piece of content.
    is_in_segment: bool,
    is_done: bool,
    of_segment: Digest,
    of_all: Digest,
}

impl Encoder {
    pub fn new(reader: ContentReader, content_bytes: u64) -> Encoder {
        let (segment_bytes, segments) = segmented(content_bytes);
        Encoder {
            reader,
            rest: Bytes::new(),
            content_left: content_bytes,
            segment_bytes,
            segments,
            segment: 0,
            segment_left: 0,
            is_in_segment: false,
            is_done: false,
            of_segment: Digest::new(),
            of_all: Digest::new(),
        }
    }

    /// The next piece, framing or content; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        if self.is_done {
            return Ok(None);
        }
        if !self.is_in_segment || self.segment_left == 0 {
            return Ok(Some(self.frame()));
        }
        if self.rest.is_empty() {
            let Some(piece) = self.reader.next().await? else { return Ok(None) };
            self.rest = piece;
        }
        let bytes = self.segment_left.min(self.rest.len() as u64);
        let piece = self.rest.split_to(bytes as usize);
        self.of_segment.write(&piece);
        self.of_all.write(&piece);
        self.segment_left -= bytes;
        Ok(Some(piece))
    }

    /// What stands between two segments, before the first or behind the last.
    fn frame(&mut self) -> Bytes {
        let mut frame = Vec::with_capacity(HEADER_BYTES + SEGMENT_HEADER_BYTES + CRC_BYTES);
        if self.is_in_segment {
            frame.extend_from_slice(&self.of_segment.sum64().to_le_bytes());
        } else {
            frame.push(VERSION);
            frame.extend_from_slice(&framed_bytes(self.content_left).to_le_bytes());
            frame.extend_from_slice(&FLAG_CRC64.to_le_bytes());
            frame.extend_from_slice(&(self.segments as u16).to_le_bytes());
            self.is_in_segment = true;
        }
        if self.segment == self.segments {
            frame.extend_from_slice(&self.of_all.sum64().to_le_bytes());
            self.is_done = true;
        } else {
            self.segment += 1;
            self.segment_left = self.segment_bytes.min(self.content_left);
            self.content_left -= self.segment_left;
            self.of_segment = Digest::new();
            frame.extend_from_slice(&(self.segment as u16).to_le_bytes());
            frame.extend_from_slice(&self.segment_left.to_le_bytes());
        }
        frame.into()
    }
}

/// How long segments are and how many; there is always one.
fn segmented(content_bytes: u64) -> (u64, u64) {
    let segment_bytes = SEGMENT_BYTES.max(content_bytes.div_ceil(SEGMENTS_MAX));
    (segment_bytes, content_bytes.div_ceil(segment_bytes).max(1))
}

/// How long content is when it is framed.
pub fn framed_bytes(content_bytes: u64) -> u64 {
    let (_, segments) = segmented(content_bytes);
    HEADER_BYTES as u64 + segments * (SEGMENT_HEADER_BYTES + CRC_BYTES) as u64 + content_bytes + CRC_BYTES as u64
}

#[cfg(test)]
mod tests;
