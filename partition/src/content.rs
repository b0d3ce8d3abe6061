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
        let mut rest = AfterFirst { first: first.freeze(), rest: source };
        let (mut pins, mut bytes) = (Vec::new(), 0);
        while let Some(pin) = engine.write_extent(&mut rest, EXTENT_BYTES_MAX).await? {
            bytes += pin.extent().bytes;
            pins.push(pin);
        }
        Ok(Content::Extents { pins, bytes })
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
    inline: Bytes,
    /// What is still to be read, last first.
    slices: Vec<(Pin, ExtentSlice)>,
}

impl ContentReader {
    /// `length` bytes from `offset` of what `body` holds. Call it while the view that showed `body` is open.
    pub fn new(
        engine: &Arc<dyn Engine>,
        body: Option<&Record>,
        mut offset: u64,
        mut length: u64,
    ) -> Result<ContentReader, Fault> {
        let mut reader = ContentReader { engine: engine.clone(), inline: Bytes::new(), slices: Vec::new() };
        let Some(body) = body else {
            return if length == 0 { Ok(reader) } else { Err(corrupt("a body that is not there", b"")) };
        };
        if body.slices.is_empty() {
            let end = offset.checked_add(length).filter(|end| *end <= body.value.len() as u64);
            let end = end.ok_or_else(|| corrupt("a body shorter than its blob", &body.value))?;
            reader.inline = body.value.slice(offset as usize..end as usize);
            return Ok(reader);
        }
        for slice in &body.slices {
            if length == 0 {
                break;
            }
            if offset >= slice.bytes {
                offset -= slice.bytes;
                continue;
            }
            let bytes = (slice.bytes - offset).min(length);
            let part = ExtentSlice { extent: slice.extent, offset: slice.offset + offset, bytes };
            reader.slices.push((engine.pin(slice.extent), part));
            (offset, length) = (0, length - bytes);
        }
        if length != 0 {
            return Err(corrupt("a body shorter than its blob", &body.value));
        }
        reader.slices.reverse();
        Ok(reader)
    }

    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        if !self.inline.is_empty() {
            return Ok(Some(std::mem::take(&mut self.inline)));
        }
        let Some((_, slice)) = self.slices.last_mut() else { return Ok(None) };
        let piece = self.engine.read_extent(*slice).await?;
        slice.offset += piece.len() as u64;
        slice.bytes -= piece.len() as u64;
        if slice.bytes == 0 {
            self.slices.pop();
        }
        Ok(Some(piece))
    }

    /// All of it, if it lies in memory already.
    pub fn into_inline(self) -> Result<Bytes, ContentReader> {
        if self.slices.is_empty() { Ok(self.inline) } else { Err(self) }
    }
}
