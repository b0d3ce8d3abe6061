//! Bodies: taken in as they arrive, given out a piece at a time, never held whole.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use engine::{
    BoxFuture, EXTENT_BYTES_MAX, Engine, ExtentError, ExtentSlice, Fault, PartitionId, Pin, Source, SourceError, View,
};

use crate::blob::body::{self, Place, Rest};
use crate::record::{BlobHead, corrupt};

/// Bodies up to this size live in a record, so that a small put is one group-committed write. Above it an extent costs less: the
/// record store writes a value several times over its life, a segment file once.
pub const INLINE_BYTES_MAX: u64 = 8 * 1024;

/// The same of what is buffered, where files are larger than that: nobody waits for the segment's sync, so nothing is won by the one
/// write. What does not fill a block of the disk stays in its record all the same, for a block is the least that comes back from a
/// segment; so does the beginning of a file, for most files are made small, and the next one is made with a sync of what was before.
const BUFFERED_INLINE_BYTES_MAX: u64 = 4 * 1024 - 1;

/// A body that has arrived. Its extents stay while this exists.
#[derive(Clone, Debug)]
pub enum Content {
    Inline(Bytes),
    Extents {
        pins: Vec<Pin>,
        bytes: u64,
    },
    /// Parts of extents that something else names, too.
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
        Content::receive_over(engine, source, INLINE_BYTES_MAX).await
    }

    /// The same of bytes that a buffered command will write at this offset.
    pub async fn receive_buffered(
        engine: &dyn Engine,
        source: &mut dyn Source,
        offset: u64,
    ) -> Result<Content, ExtentError> {
        let is_beginning = offset < INLINE_BYTES_MAX;
        let inline_bytes_max = match engine.buffers() && !is_beginning {
            true => BUFFERED_INLINE_BYTES_MAX,
            false => INLINE_BYTES_MAX,
        };
        Content::receive_over(engine, source, inline_bytes_max).await
    }

    async fn receive_over(
        engine: &dyn Engine,
        source: &mut dyn Source,
        inline_bytes_max: u64,
    ) -> Result<Content, ExtentError> {
        let mut first = BytesMut::new();
        loop {
            // One byte over the limit tells that it is over.
            let wanted = (inline_bytes_max as usize + 1).saturating_sub(first.len());
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

    fn into_parts(self) -> Vec<SharedPart> {
        match self {
            Content::Inline(_) => Vec::new(),
            Content::Extents { pins, .. } => {
                pins.into_iter().map(|pin| (pin.clone(), ExtentSlice::whole(pin.extent()))).collect()
            }
            Content::Shared { parts, .. } => parts,
        }
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
/// happens to the object meanwhile. A body of many runs is looked up as it is read, and its view held until the last. If the engine
/// cannot show that any more it goes on in a later one, for as long as that has the same version; then it breaks off (`Moved`).
pub struct ContentReader {
    engine: Arc<dyn Engine>,
    /// What is to be read next, last first.
    pieces: Vec<Piece>,
    rest: Option<Box<Unread>>,
}

/// What has not been looked up yet.
struct Unread {
    partition: PartitionId,
    view: Box<dyn View>,
    runs: Box<dyn Runs>,
}

/// A body that is looked up as it is read.
pub trait Runs: Send {
    fn is_empty(&self) -> bool;

    /// The next parts; at least one if it is not empty. When the view moved, nothing of them is lost.
    fn parts<'a>(&'a mut self, view: &'a dyn View) -> BoxFuture<'a, Result<Vec<Part>, Fault>>;

    /// Goes on in another view; false if that shows another body.
    fn resume<'a>(&'a mut self, view: &'a dyn View) -> BoxFuture<'a, Result<bool, Fault>>;
}

/// As much of a body as is looked up at once, in extents and in bytes of records: what is read by ranges of some megabytes is looked up
/// with the first look, and no change to the object can break it off.
const PIECES_AHEAD: usize = 1024;
const BYTES_AHEAD: usize = 1024 * 1024;

/// How often it goes on in another view before anything was found in it.
const VIEWS_MAX: usize = 64;

impl Unread {
    /// The next parts.
    async fn look(&mut self, engine: &dyn Engine) -> Result<Vec<Part>, Fault> {
        let mut parts = Vec::new();
        let mut views = 1;
        while !self.runs.is_empty() && has_room(&parts) {
            match self.runs.parts(self.view.as_ref()).await {
                Ok(more) => parts.extend(more),
                Err(Fault::Moved) if !parts.is_empty() => break,
                Err(Fault::Moved) if views < VIEWS_MAX => {
                    views += 1;
                    self.view = engine.view(&self.partition).await?;
                    if !self.runs.resume(self.view.as_ref()).await? {
                        return Err(Fault::Moved);
                    }
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(parts)
    }
}

fn has_room(parts: &[Part]) -> bool {
    let (mut pieces, mut bytes) = (0, 0);
    for part in parts {
        if let Part::Stored { value, slices, .. } = part {
            (pieces, bytes) = (pieces + slices.len().max(1), bytes + value.len());
        }
    }
    pieces < PIECES_AHEAD && bytes < BYTES_AHEAD
}

enum Piece {
    Inline(Bytes),
    Slice(Pin, ExtentSlice),
    Zeros(u64),
}

/// Fewer zeros than this are written with what is around them: an extent of their own would cost more.
const HOLE_BYTES_MIN: u64 = 64 * 1024;

/// As many as are given out at once.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

impl ContentReader {
    /// `bytes` bytes from `first` of a state, which has as many.
    pub async fn open(
        engine: &Arc<dyn Engine>,
        partition: &PartitionId,
        view: Box<dyn View>,
        place: Place,
        head: &BlobHead,
        first: u64,
        bytes: u64,
    ) -> Result<ContentReader, Fault> {
        if bytes > 0 && head.in_runs {
            let rest = Rest::new(place, head, first, bytes);
            return ContentReader::of_runs(engine, partition, view, Box::new(rest)).await;
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
        partition: &PartitionId,
        view: Box<dyn View>,
        runs: Box<dyn Runs>,
    ) -> Result<ContentReader, Fault> {
        let rest = Some(Box::new(Unread { partition: partition.clone(), view, runs }));
        let mut reader = ContentReader { engine: engine.clone(), pieces: Vec::new(), rest };
        reader.refill().await?;
        Ok(reader)
    }

    /// Looks up what comes next. Extents are pinned while the view that named them is open.
    async fn refill(&mut self) -> Result<(), Fault> {
        if let Some(mut unread) = self.rest.take() {
            let parts = unread.look(self.engine.as_ref()).await?;
            self.take(parts)?;
            if !unread.runs.is_empty() {
                self.rest = Some(unread);
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

    /// What is left of it, which is `bytes` bytes, for another object to hold: extents are named, not copied. Only what lies in records is
    /// written, and so little that it would lie in a record is taken out of its extent. Zeros that nobody wrote are one extent, named as
    /// often as it takes. `extents`: it must not be in a record.
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
        let (mut parts, mut filling) = (Vec::new(), None);
        while let Some(Stretch { zeros, content }) = self.next_stretch(HOLE_BYTES_MIN).await? {
            fill(engine.as_ref(), &mut filling, zeros, &mut parts).await?;
            match content {
                Content::Inline(bytes) if bytes.is_empty() => {}
                Content::Inline(mut bytes) => {
                    let pin = write_one(engine.as_ref(), &mut Held(&mut bytes)).await?;
                    parts.push((pin.clone(), ExtentSlice::whole(pin.extent())));
                }
                content => content.into_parts().into_iter().for_each(|part| push_part(&mut parts, part)),
            }
        }
        Ok(Content::Shared { parts, bytes })
    }

    /// What comes next, for another object to hold where it lies: zeros that nobody wrote, and what is behind them. `None` at the end.
    /// Fewer zeros than `hole_bytes_min` are bytes like others.
    pub async fn next_stretch(&mut self, hole_bytes_min: u64) -> Result<Option<Stretch>, Fault> {
        let (engine, mut zeros) = (self.engine.clone(), 0);
        loop {
            match self.peek().await? {
                Some(Piece::Zeros(bytes)) if *bytes >= hole_bytes_min => {
                    zeros += *bytes;
                    self.pieces.pop();
                }
                Some(Piece::Inline(_) | Piece::Zeros(_)) => {
                    let mut bytes = InNoExtent { reader: self, hole_bytes_min, bytes_max: EXTENT_BYTES_MAX };
                    let content = Content::receive(engine.as_ref(), &mut bytes).await.map_err(fault)?;
                    return Ok(Some(Stretch { zeros, content }));
                }
                Some(Piece::Slice(..)) => return Ok(Some(Stretch { zeros, content: self.next_slices().await? })),
                None if zeros == 0 => return Ok(None),
                None => return Ok(Some(Stretch { zeros, content: Content::Inline(Bytes::new()) })),
            }
        }
    }

    /// The slices up to what is none, or as many as a record may hold.
    async fn next_slices(&mut self) -> Result<Content, Fault> {
        let mut parts = Vec::new();
        while parts.len() < body::RUN_SLICES_MAX
            && let Some(Piece::Slice(..)) = self.peek().await?
            && let Some(Piece::Slice(pin, slice)) = self.pieces.pop()
        {
            push_part(&mut parts, (pin, slice));
        }
        let bytes = parts.iter().map(|(_, slice)| slice.bytes).sum();
        Ok(Content::Shared { parts, bytes })
    }

    /// The next piece, which stays the next.
    async fn peek(&mut self) -> Result<Option<&Piece>, Fault> {
        if self.pieces.is_empty() {
            self.refill().await?;
        }
        Ok(self.pieces.last())
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

/// A part of a body as another object may hold it, and how many zeros nobody wrote before it.
pub struct Stretch {
    pub zeros: u64,
    /// In one record, if it is put there; empty behind the last zeros.
    pub content: Content,
}

type SharedPart = (Pin, ExtentSlice);

/// What follows what is there already becomes one with it.
fn push_part(parts: &mut Vec<SharedPart>, (pin, slice): SharedPart) {
    match parts.last_mut() {
        Some((_, last)) if last.extent == slice.extent && last.offset + last.bytes == slice.offset => {
            last.bytes += slice.bytes;
        }
        _ => parts.push((pin, slice)),
    }
}

/// Writes what is more than nothing and fits into an extent.
async fn write_one(engine: &dyn Engine, source: &mut dyn Source) -> Result<Pin, Fault> {
    let pin = engine.write_extent(source, EXTENT_BYTES_MAX).await.map_err(fault)?;
    pin.ok_or_else(|| Fault::Other { doing: "writing an extent".into(), detail: "there was nothing to write".into() })
}

/// Names an extent of zeros until there are so many. `filling` is the one that is named, written when one as large is first needed.
async fn fill(
    engine: &dyn Engine,
    filling: &mut Option<Pin>,
    mut zeros: u64,
    parts: &mut Vec<SharedPart>,
) -> Result<(), Fault> {
    while zeros > 0 {
        let wanted = zeros.min(EXTENT_BYTES_MAX);
        let pin = match filling.take().filter(|pin| pin.extent().bytes >= wanted) {
            Some(pin) => pin,
            None => write_one(engine, &mut ZerosSource(wanted)).await?,
        };
        parts.push((pin.clone(), ExtentSlice { extent: pin.extent(), offset: 0, bytes: wanted }));
        *filling = Some(pin);
        zeros -= wanted;
    }
    Ok(())
}

/// So many zeros.
struct ZerosSource(u64);

impl Source for ZerosSource {
    fn next(&mut self, bytes_max: usize) -> BoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        let taken = self.0.min(ZEROS.len() as u64).min(bytes_max as u64);
        self.0 -= taken;
        let bytes = (taken > 0).then(|| Bytes::from_static(&ZEROS[..taken as usize]));
        Box::pin(std::future::ready(Ok(bytes)))
    }
}

/// What lies in records, up to what does not, and no more than one extent can hold.
struct InNoExtent<'a> {
    reader: &'a mut ContentReader,
    hole_bytes_min: u64,
    bytes_max: u64,
}

impl Source for InNoExtent<'_> {
    fn next(&mut self, bytes_max: usize) -> BoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async move {
            let is_next = match self.reader.peek().await.map_err(|fault| SourceError(Box::new(fault)))? {
                Some(Piece::Inline(_)) => true,
                Some(Piece::Zeros(bytes)) => *bytes < self.hole_bytes_min,
                Some(Piece::Slice(..)) | None => false,
            };
            if self.bytes_max == 0 || !is_next {
                return Ok(None);
            }
            let bytes = Source::next(self.reader, bytes_max.min(self.bytes_max as usize)).await?;
            self.bytes_max -= bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
            Ok(bytes)
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

#[cfg(test)]
mod tests {
    use super::*;
    use engine::GroupId;
    use engine::memory::MemoryEngine;

    /// One that keeps buffered commits in memory, or says so.
    struct Buffering(MemoryEngine, bool);

    impl engine::around::Around for Buffering {
        fn inner(&self) -> &dyn Engine {
            &self.0
        }

        fn buffers(&self) -> bool {
            self.1
        }
    }

    #[tokio::test]
    async fn where_small_bodies_lie() {
        //        buffers  offset    bytes   in a record
        let cases = [
            (true, 0, 8192, true), // the beginning of a file
            (true, 0, 8193, false),
            (true, 4096, 4096, true),
            (true, 8192, 4095, true), // less than a block
            (true, 8192, 4096, false),
            (true, 8191, 8192, true),
            (false, 8192, 8192, true), // there a commit costs what a synced one does
            (false, 8192, 8193, false),
        ];
        for (buffers, offset, bytes, is_inline) in cases {
            let engine = Buffering(MemoryEngine::default(), buffers);
            let mut given = Bytes::from(vec![7; bytes]);
            let content = Content::receive_buffered(&engine, &mut Held(&mut given), offset).await.expect("received");
            assert_eq!(content.bytes(), bytes as u64);
            assert_eq!(matches!(content, Content::Inline(_)), is_inline, "{buffers} {offset} {bytes}");
        }
    }

    /// Parts given out two at a time, and what keeps their extents.
    struct Script {
        parts: Vec<Part>,
        _kept: Vec<Content>,
    }

    impl Runs for Script {
        fn is_empty(&self) -> bool {
            self.parts.is_empty()
        }

        fn parts<'a>(&'a mut self, _view: &'a dyn View) -> BoxFuture<'a, Result<Vec<Part>, Fault>> {
            let rest = self.parts.split_off(self.parts.len().min(2));
            Box::pin(std::future::ready(Ok(std::mem::replace(&mut self.parts, rest))))
        }

        fn resume<'a>(&'a mut self, _view: &'a dyn View) -> BoxFuture<'a, Result<bool, Fault>> {
            Box::pin(std::future::ready(Ok(true)))
        }
    }

    /// `z5 i3 e7`: five zeros that nobody wrote, three bytes of a record, seven in an extent. And the bytes it reads as.
    async fn body(engine: &Arc<dyn Engine>, text: &str) -> (ContentReader, Vec<u8>) {
        let (mut parts, mut kept, mut expected) = (Vec::new(), Vec::new(), Vec::new());
        for (at, word) in text.split_whitespace().enumerate() {
            let bytes: u64 = word[1..].parse().expect("a number");
            let mut content = Bytes::from(vec![at as u8 + 1; bytes as usize]);
            match &word[..1] {
                "z" => {
                    expected.resize(expected.len() + bytes as usize, 0);
                    parts.push(Part::Zeros(bytes));
                    continue;
                }
                "i" => {
                    expected.extend_from_slice(&content);
                    parts.push(Part::Stored { value: content, slices: Vec::new(), skip: 0, bytes });
                }
                _ => {
                    expected.extend_from_slice(&content);
                    let content = Content::receive_extents(engine.as_ref(), &mut Held(&mut content)).await;
                    let content = content.expect("written");
                    let (value, slices) = content.stored();
                    parts.push(Part::Stored { value, slices, skip: 0, bytes });
                    kept.push(content);
                }
            }
        }
        let partition = PartitionId { group: GroupId(Bytes::from_static(b"g")), key: Bytes::new() };
        let view = engine.view(&partition).await.expect("a view");
        let script = Box::new(Script { parts, _kept: kept });
        (ContentReader::of_runs(engine, &partition, view, script).await.expect("read"), expected)
    }

    async fn read(mut reader: ContentReader) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Some(piece) = reader.next().await.expect("readable") {
            bytes.extend_from_slice(&piece);
        }
        bytes
    }

    #[tokio::test]
    async fn stretches_keep_holes_and_gather_what_lies_in_records() {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        for (text, hole_bytes_min, expected) in [
            ("", 1, ""),
            ("z9", 1, "9+i0"),
            ("i3", 1, "0+i3"),
            ("z1 i3 z2 z3", 1, "1+i3 5+i0"),
            ("i3 i4 e7 e8 i9", 1, "0+i7 0+s15 0+i9"),
            ("i5000 i5000 z1 i1", 1, "0+e10000 1+i1"),
            ("i3 z2 i4 z20 i1", 10, "0+i9 20+i1"),
            ("i4194000 i400 z1", 1, "0+e4194304 0+i96 1+i0"),
        ] {
            let (mut reader, _) = body(&engine, text).await;
            let mut shown = Vec::new();
            while let Some(Stretch { zeros, content }) = reader.next_stretch(hole_bytes_min).await.expect("readable") {
                let kind = match content {
                    Content::Inline(_) => 'i',
                    Content::Extents { .. } => 'e',
                    Content::Shared { .. } => 's',
                };
                shown.push(format!("{zeros}+{kind}{}", content.bytes()));
            }
            assert_eq!(shown.join(" "), expected, "{text}");
        }
    }

    #[tokio::test]
    async fn what_is_shared_reads_as_it_did_and_names_zeros_once() {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        for (text, extents) in [
            ("i3", 1),
            ("z9000", 1),
            ("z70000 i9 z10", 2),
            ("z70000 e9000 z80000 i1 z70000", 4),
            ("z9000000 e10 z9000000 i10 z100000", 3),
        ] {
            let (reader, expected) = body(&engine, text).await;
            let content = reader.share(expected.len() as u64, true).await.expect("shared");
            assert_eq!(content.bytes(), expected.len() as u64, "{text}");
            let (_, slices) = content.stored();
            assert!(read(content.reader(&engine)).await == expected, "{text}");
            let named: std::collections::BTreeSet<u128> = slices.iter().map(|slice| slice.extent.id).collect();
            assert_eq!(named.len(), extents, "{text}");
        }
    }
}
