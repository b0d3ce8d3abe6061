//! Bodies: taken in as they arrive, given out a piece at a time, never held whole.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use engine::{BoxFuture, EXTENT_BYTES_MAX, Engine, ExtentError, ExtentSlice, Fault, Pin, Record, Source, SourceError};

use crate::record::corrupt;

/// Bodies up to this size live in a record, so that a small put is one group-committed write. Above it an extent costs less: the
/// record store writes a value several times over its life, a segment file once.
pub const INLINE_BYTES_MAX: u64 = 8 * 1024;

/// A body that has arrived. Its extents stay while this exists.
#[derive(Clone, Debug)]
pub enum Content {
    Inline(Bytes),
    Extents { pins: Vec<Pin>, bytes: u64 },
}

impl Content {
    /// Takes the whole body into extents, however small it is.
    pub async fn receive_extents(engine: &dyn Engine, source: &mut dyn Source) -> Result<Content, ExtentError> {
        let (mut pins, mut bytes) = (Vec::new(), 0);
        while let Some(pin) = engine.write_extent(source, EXTENT_BYTES_MAX).await? {
            bytes += pin.extent().bytes;
            pins.push(pin);
        }
        Ok(Content::Extents { pins, bytes })
    }

    /// Takes the whole body. What was written of one that fails on the way is given back by itself.
    pub async fn receive(engine: &dyn Engine, source: &mut dyn Source) -> Result<Content, ExtentError> {
        let mut first = BytesMut::new();
        loop {
            // One byte over the limit tells that it is over.
            let wanted = (INLINE_BYTES_MAX as usize + 1).saturating_sub(first.len());
            if wanted == 0 {
                break;
            }
            match source.next(wanted).await.map_err(ExtentError::Source)? {
                Some(bytes) if first.is_empty() && bytes.len() < wanted => first = bytes.into(),
                Some(bytes) => first.extend_from_slice(&bytes),
                None => return Ok(Content::Inline(first.freeze())),
            }
        }
        Content::receive_extents(engine, &mut AfterFirst { first: first.freeze(), rest: source }).await
    }

    pub fn bytes(&self) -> u64 {
        match self {
            Content::Inline(bytes) => bytes.len() as u64,
            Content::Extents { bytes, .. } => *bytes,
        }
    }

    /// What a record holds of it: its own bytes, or slices.
    pub fn stored(&self) -> (Bytes, Vec<ExtentSlice>) {
        match self {
            Content::Inline(bytes) => (bytes.clone(), Vec::new()),
            Content::Extents { pins, .. } => {
                (Bytes::new(), pins.iter().map(|pin| ExtentSlice::whole(pin.extent())).collect())
            }
        }
    }
}

/// The bytes already taken, then the rest.
struct AfterFirst<'a> {
    first: Bytes,
    rest: &'a mut dyn Source,
}

impl Source for AfterFirst<'_> {
    fn next(&mut self, bytes_max: usize) -> BoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        if self.first.is_empty() {
            return self.rest.next(bytes_max);
        }
        let take = bytes_max.min(self.first.len());
        let bytes = self.first.split_to(take);
        Box::pin(std::future::ready(Ok(Some(bytes))))
    }
}

/// A range of stored content, read piece by piece. Holds its extents, so the version it began with is the one it ends with, whatever
/// happens to the object meanwhile.
pub struct ContentReader {
    engine: Arc<dyn Engine>,
    /// What is still to be read, last first.
    pieces: Vec<Piece>,
}

enum Piece {
    Inline(Bytes),
    Slice(Pin, ExtentSlice),
}

impl ContentReader {
    /// `length` bytes from `offset` of what the records hold together. Call it while the view that showed them is open.
    pub fn new(
        engine: &Arc<dyn Engine>,
        records: &[Record],
        mut offset: u64,
        mut length: u64,
    ) -> Result<ContentReader, Fault> {
        let mut pieces = Vec::new();
        // The part of the next `bytes` that is wanted: where it begins and how long it is.
        let mut take = |bytes: u64| {
            let skipped = offset.min(bytes);
            let taken = (bytes - skipped).min(length);
            (offset, length) = (offset - skipped, length - taken);
            (skipped, taken)
        };
        for record in records {
            if record.slices.is_empty() {
                let (from, bytes) = take(record.value.len() as u64);
                if bytes > 0 {
                    pieces.push(Piece::Inline(record.value.slice(from as usize..(from + bytes) as usize)));
                }
            }
            for slice in &record.slices {
                let (from, bytes) = take(slice.bytes);
                if bytes > 0 {
                    let part = ExtentSlice { extent: slice.extent, offset: slice.offset + from, bytes };
                    pieces.push(Piece::Slice(engine.pin(slice.extent), part));
                }
            }
        }
        if length != 0 {
            return Err(corrupt("a body shorter than its blob", b""));
        }
        pieces.reverse();
        Ok(ContentReader { engine: engine.clone(), pieces })
    }

    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        match self.pieces.pop() {
            None => Ok(None),
            Some(Piece::Inline(bytes)) => Ok(Some(bytes)),
            Some(Piece::Slice(pin, slice)) => {
                let piece = self.engine.read_extent(slice).await?;
                let read = piece.len() as u64;
                if read < slice.bytes {
                    let rest = ExtentSlice { offset: slice.offset + read, bytes: slice.bytes - read, ..slice };
                    self.pieces.push(Piece::Slice(pin, rest));
                }
                Ok(Some(piece))
            }
        }
    }

    /// All of it, if it lies in memory already, in one piece.
    pub fn into_inline(mut self) -> Result<Bytes, ContentReader> {
        match self.pieces.as_slice() {
            [] => Ok(Bytes::new()),
            [Piece::Inline(_)] => match self.pieces.pop() {
                Some(Piece::Inline(bytes)) => Ok(bytes),
                _ => Err(self),
            },
            _ => Err(self),
        }
    }
}
