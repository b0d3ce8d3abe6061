//! Bodies: taken in as they arrive, given out a piece at a time, never held whole.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use engine::{BoxFuture, EXTENT_BYTES_MAX, Engine, ExtentError, ExtentSlice, Fault, Pin, Source, SourceError, View};

use crate::blob::body::{self, Place, Rest};
use crate::record::{BlobHead, corrupt};

/// Bodies up to this size live in a record, so that a small put is one group-committed write. Above it an extent costs less: the
/// record store writes a value several times over its life, a segment file once.
pub const INLINE_BYTES_MAX: u64 = 8 * 1024;

/// A body that has arrived. Its extents stay while this exists.
#[derive(Clone, Debug)]
pub enum Content {
    Inline(Bytes),
    Extents {
        pins: Vec<Pin>,
        bytes: u64,
    },
    /// Parts of extents that another blob names, too.
    Shared {
        parts: Vec<(Pin, ExtentSlice)>,
        bytes: u64,
    },
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
            Content::Extents { bytes, .. } | Content::Shared { bytes, .. } => *bytes,
        }
    }

    /// What a record holds of it: its own bytes, or slices.
    pub fn stored(&self) -> (Bytes, Vec<ExtentSlice>) {
        match self {
            Content::Inline(bytes) => (bytes.clone(), Vec::new()),
            Content::Extents { pins, .. } => {
                (Bytes::new(), pins.iter().map(|pin| ExtentSlice::whole(pin.extent())).collect())
            }
            Content::Shared { parts, .. } => (Bytes::new(), parts.iter().map(|(_, slice)| *slice).collect()),
        }
    }

    /// To be read again, before anybody holds it.
    pub fn reader(&self, engine: &Arc<dyn Engine>) -> ContentReader {
        let pieces = match self {
            Content::Inline(bytes) => vec![Piece::Inline(bytes.clone())],
            Content::Extents { pins, .. } => {
                pins.iter().rev().map(|pin| Piece::Slice(pin.clone(), ExtentSlice::whole(pin.extent()))).collect()
            }
            Content::Shared { parts, .. } => {
                parts.iter().rev().map(|(pin, slice)| Piece::Slice(pin.clone(), *slice)).collect()
            }
        };
        ContentReader { engine: engine.clone(), pieces, rest: None }
    }

    /// What keeps its extents.
    pub fn pins(&self) -> Vec<Pin> {
        match self {
            Content::Inline(_) => Vec::new(),
            Content::Extents { pins, .. } => pins.clone(),
            Content::Shared { parts, .. } => parts.iter().map(|(pin, _)| pin.clone()).collect(),
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

/// A part of a body: bytes of a record, or zeros that nobody wrote.
pub enum Part {
    Stored { value: Bytes, slices: Vec<ExtentSlice>, skip: u64, bytes: u64 },
    Zeros(u64),
}

/// A range of stored content, read piece by piece. Holds its extents, so the version it began with is the one it ends with, whatever
/// happens to the object meanwhile. A body of many runs is looked up as it is read, and its view held until the last.
pub struct ContentReader {
    engine: Arc<dyn Engine>,
    /// What is to be read next, last first.
    pieces: Vec<Piece>,
    rest: Option<(Box<dyn View>, Box<dyn Runs>)>,
}

/// A body that is looked up as it is read.
pub trait Runs: Send {
    fn is_empty(&self) -> bool;

    /// The next parts; at least one if it is not empty.
    fn parts<'a>(&'a mut self, view: &'a dyn View) -> BoxFuture<'a, Result<Vec<Part>, Fault>>;
}

enum Piece {
    Inline(Bytes),
    Slice(Pin, ExtentSlice),
    Zeros(u64),
}

/// As many as are given out at once.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

impl ContentReader {
    /// `bytes` bytes from `first` of a state, which has as many.
    pub async fn open(
        engine: &Arc<dyn Engine>,
        view: Box<dyn View>,
        place: Place,
        head: &BlobHead,
        first: u64,
        bytes: u64,
    ) -> Result<ContentReader, Fault> {
        if bytes > 0 && head.in_runs {
            return ContentReader::of_runs(engine, view, Box::new(Rest::new(place, head, first, bytes))).await;
        }
        let mut reader = ContentReader { engine: engine.clone(), pieces: Vec::new(), rest: None };
        if bytes > 0 {
            reader.take(vec![body::single(view.as_ref(), &place, first, bytes).await?])?;
        }
        Ok(reader)
    }

    /// The same of anything that is in runs.
    pub async fn of_runs(
        engine: &Arc<dyn Engine>,
        view: Box<dyn View>,
        runs: Box<dyn Runs>,
    ) -> Result<ContentReader, Fault> {
        let mut reader = ContentReader { engine: engine.clone(), pieces: Vec::new(), rest: Some((view, runs)) };
        reader.refill().await?;
        Ok(reader)
    }

    /// Looks up what comes next. Extents are pinned while the view that named them is open.
    async fn refill(&mut self) -> Result<(), Fault> {
        if let Some((view, mut runs)) = self.rest.take() {
            if !runs.is_empty() {
                let parts = runs.parts(view.as_ref()).await?;
                self.take(parts)?;
            }
            if !runs.is_empty() {
                self.rest = Some((view, runs));
            }
        }
        Ok(())
    }

    fn take(&mut self, parts: Vec<Part>) -> Result<(), Fault> {
        for part in parts {
            match part {
                Part::Zeros(bytes) => self.pieces.push(Piece::Zeros(bytes)),
                Part::Stored { value, slices, skip, bytes } => {
                    if skip + bytes > body::held_bytes(&value, &slices) {
                        return Err(corrupt("a body shorter than its blob", b""));
                    }
                    if slices.is_empty() {
                        self.pieces.push(Piece::Inline(value.slice(skip as usize..(skip + bytes) as usize)));
                    }
                    for slice in body::cut_slices(&slices, skip, bytes) {
                        self.pieces.push(Piece::Slice(self.engine.pin(slice.extent), slice));
                    }
                }
            }
        }
        self.pieces.reverse();
        Ok(())
    }

    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        if self.pieces.is_empty() {
            self.refill().await?;
        }
        match self.pieces.pop() {
            None => Ok(None),
            Some(Piece::Inline(bytes)) => Ok(Some(bytes)),
            Some(Piece::Zeros(bytes)) => {
                let given = bytes.min(ZEROS.len() as u64);
                if given < bytes {
                    self.pieces.push(Piece::Zeros(bytes - given));
                }
                Ok(Some(Bytes::from_static(&ZEROS[..given as usize])))
            }
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

    /// What is left of it, which is `bytes` bytes, for another blob to hold: extents are named, not copied. Only what lies in records or
    /// nowhere is written, and so little that it would lie in a record is taken out of its extent. `extents`: it must not be in a record.
    pub async fn share(mut self, bytes: u64, extents: bool) -> Result<Content, Fault> {
        let engine = self.engine.clone();
        if bytes <= INLINE_BYTES_MAX {
            let mut content = BytesMut::with_capacity(bytes as usize);
            while let Some(piece) = self.next().await? {
                content.extend_from_slice(&piece);
            }
            let mut content = content.freeze();
            if !extents {
                return Ok(Content::Inline(content));
            }
            return Content::receive_extents(engine.as_ref(), &mut Held(&mut content)).await.map_err(fault);
        }
        let mut parts: Vec<(Pin, ExtentSlice)> = Vec::new();
        loop {
            if self.pieces.is_empty() {
                self.refill().await?;
            }
            match self.pieces.pop() {
                None => return Ok(Content::Shared { parts, bytes }),
                Some(Piece::Slice(pin, slice)) => match parts.last_mut() {
                    Some((_, last)) if last.extent == slice.extent && last.offset + last.bytes == slice.offset => {
                        last.bytes += slice.bytes;
                    }
                    _ => parts.push((pin, slice)),
                },
                Some(piece) => {
                    self.pieces.push(piece);
                    let mut stretch = Stretch(&mut self);
                    while let Some(pin) = engine.write_extent(&mut stretch, EXTENT_BYTES_MAX).await.map_err(fault)? {
                        let slice = ExtentSlice::whole(pin.extent());
                        parts.push((pin, slice));
                    }
                }
            }
        }
    }

    /// All of it, if it lies in memory already, in one piece.
    pub fn into_inline(mut self) -> Result<Bytes, ContentReader> {
        match self.pieces.as_slice() {
            [] if self.rest.is_none() => Ok(Bytes::new()),
            [Piece::Inline(_)] if self.rest.is_none() => match self.pieces.pop() {
                Some(Piece::Inline(bytes)) => Ok(bytes),
                _ => Err(self),
            },
            _ => Err(self),
        }
    }
}

/// Bytes at hand.
struct Held<'a>(&'a mut Bytes);

impl Source for Held<'_> {
    fn next(&mut self, bytes_max: usize) -> BoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        let take = bytes_max.min(self.0.len());
        let bytes = Some(self.0.split_to(take)).filter(|bytes| !bytes.is_empty());
        Box::pin(std::future::ready(Ok(bytes)))
    }
}

/// What lies in no extent, up to the next that does.
struct Stretch<'a>(&'a mut ContentReader);

impl Source for Stretch<'_> {
    fn next(&mut self, bytes_max: usize) -> BoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async move {
            let reader = &mut *self.0;
            if reader.pieces.is_empty() {
                reader.refill().await.map_err(|fault| SourceError(Box::new(fault)))?;
            }
            match reader.pieces.last() {
                Some(Piece::Inline(_) | Piece::Zeros(_)) => Source::next(reader, bytes_max).await,
                _ => Ok(None),
            }
        })
    }
}

/// Stored content as a source: to be hashed, or written again.
impl Source for ContentReader {
    fn next(&mut self, bytes_max: usize) -> BoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async move {
            let piece = ContentReader::next(self).await.map_err(|fault| SourceError(Box::new(fault)))?;
            let Some(mut bytes) = piece else { return Ok(None) };
            let taken = bytes.split_to(bytes_max.min(bytes.len()));
            if !bytes.is_empty() {
                self.pieces.push(Piece::Inline(bytes));
            }
            Ok(Some(taken))
        })
    }
}

/// Sources that read stored content fail as storage does.
fn fault(error: ExtentError) -> Fault {
    match error {
        ExtentError::Fault(fault) => fault,
        ExtentError::Source(SourceError(error)) => match error.downcast::<Fault>() {
            Ok(fault) => *fault,
            Err(error) => Fault::Other { doing: "reading content".into(), detail: error.to_string() },
        },
    }
}
