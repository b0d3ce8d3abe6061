//! A disk with a volatile write cache that remembers every write and flush it was given.
//!
//! 1. A write is volatile until a flush that came after it. The order between flushes binds nobody: a power cut may keep
//!    any subset of the volatile writes, block by block, and with torn blocks sector by sector.
//! 2. Everything on the disk when `begin_recording` is called counts as durable.
//! 3. `position` is the number of events so far. Whoever reads it after receiving an acknowledgement knows that the
//!    acknowledgement rests on no later event; whoever reads it before sending a request, that no earlier event can be
//!    its effect.
//! 4. Contents are shared (`Arc`) between the recording and every image cut from it, so that a cut costs no copying.

use std::sync::Arc;

pub const BLOCK_BYTES: usize = 4096;
pub const SECTOR_BYTES: usize = 512;
const SECTORS: usize = BLOCK_BYTES / SECTOR_BYTES;
const WHOLE: u8 = 0xff;

pub type Block = [u8; BLOCK_BYTES];

/// What a block holds; `None` reads as zeros.
pub type Content = Option<Arc<Block>>;

#[derive(Clone)]
pub struct Image {
    blocks: Vec<Content>,
}

/// One block's part of a write: bit n of `sectors` says that sector n was written.
pub struct Piece {
    pub block: u32,
    pub sectors: u8,
    pub content: Content,
}

pub enum Event {
    Write(Vec<Piece>),
    Flush,
}

pub struct Recording {
    pub start: Image,
    pub events: Vec<Event>,
}

/// What becomes of the writes that no flush covered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Survival {
    /// None survives.
    None,
    /// Each block of each write survives or not, by chance: reordering, and writes torn between blocks.
    Some,
    /// As `Some`, and a surviving block may be torn between sectors.
    Torn,
    /// All survive: the cache was written out just in time.
    All,
}

pub const SURVIVALS: [Survival; 4] = [Survival::None, Survival::Some, Survival::Torn, Survival::All];

impl Survival {
    pub fn number(self) -> usize {
        SURVIVALS.iter().position(|s| *s == self).expect("every survival is in the list")
    }
}

impl Image {
    pub fn empty(bytes: u64) -> Image {
        Image { blocks: vec![None; (bytes as usize).div_ceil(BLOCK_BYTES)] }
    }

    pub fn bytes(&self) -> u64 {
        (self.blocks.len() * BLOCK_BYTES) as u64
    }

    pub fn blocks(&self) -> &[Content] {
        &self.blocks
    }

    pub fn from_blocks(blocks: Vec<Content>) -> Image {
        Image { blocks }
    }

    fn read(&self, offset: u64, bytes: usize) -> Vec<u8> {
        let end = (offset + bytes as u64).min(self.bytes());
        let mut out = vec![0u8; end.saturating_sub(offset) as usize];
        let mut at = offset;
        while at < end {
            let block = at as usize / BLOCK_BYTES;
            let from = at as usize % BLOCK_BYTES;
            let take = (BLOCK_BYTES - from).min((end - at) as usize);
            if let Some(content) = &self.blocks[block] {
                let to = (at - offset) as usize;
                out[to..to + take].copy_from_slice(&content[from..from + take]);
            }
            at += take as u64;
        }
        out
    }

    fn apply(&mut self, piece: &Piece, sectors: u8) {
        let slot = &mut self.blocks[piece.block as usize];
        match piece.sectors & sectors {
            0 => {}
            WHOLE => *slot = piece.content.clone(),
            some => {
                let mut merged = slot.as_deref().copied().unwrap_or([0; BLOCK_BYTES]);
                let new = piece.content.as_deref().copied().unwrap_or([0; BLOCK_BYTES]);
                for sector in (0..SECTORS).filter(|s| some >> s & 1 == 1) {
                    let range = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
                    merged[range.clone()].copy_from_slice(&new[range]);
                }
                *slot = Some(Arc::new(merged));
            }
        }
    }
}

/// Which I/O the disk refuses, counted in events from the start of the recording.
#[derive(Clone, Copy, Default, Debug)]
pub struct Refusals {
    pub writes_from: Option<usize>,
    pub flushes_from: Option<usize>,
    /// Only the first such write or flush fails and the next succeed: the case in which a program that tries again
    /// is told that all is well although its data is gone.
    pub once: bool,
}

pub struct Disk {
    image: Image,
    recording: Option<Recording>,
    position: usize,
    refusals: Refusals,
    refused: usize,
    last_write_end: u64,
}

impl Disk {
    pub fn new(image: Image) -> Disk {
        Disk { image, recording: None, position: 0, refusals: Refusals::default(), refused: 0, last_write_end: 0 }
    }

    pub fn bytes(&self) -> u64 {
        self.image.bytes()
    }

    pub fn begin_recording(&mut self) {
        self.recording = Some(Recording { start: self.image.clone(), events: Vec::new() });
        self.position = 0;
    }

    pub fn end_recording(&mut self) -> Option<Recording> {
        self.recording.take()
    }

    pub fn position(&self) -> usize {
        self.position
    }

    pub fn refuse(&mut self, refusals: Refusals) {
        self.refusals = refusals;
        self.refused = 0;
    }

    pub fn read(&self, offset: u64, bytes: usize) -> Vec<u8> {
        self.image.read(offset, bytes)
    }

    /// False when the write is refused; nothing of it is on the disk then.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> bool {
        // The kernel's loop device takes a short write for a whole one (`lo_complete_rq`), so the second piece of one of its
        // requests must not be the first to fail: that would be a disk that lies, not one that fails.
        let continues = offset == self.last_write_end && self.refused == 0;
        if !continues && self.is_refused(self.refusals.writes_from) {
            return false;
        }
        self.last_write_end = offset + data.len() as u64;
        self.push(offset, data.len() as u64, Some(data));
        true
    }

    /// A discarded range reads as zeros, and is as volatile as a write.
    pub fn discard(&mut self, offset: u64, bytes: u64) {
        self.push(offset, bytes, None);
    }

    pub fn flush(&mut self) -> bool {
        if self.is_refused(self.refusals.flushes_from) {
            return false;
        }
        if let Some(recording) = &mut self.recording {
            recording.events.push(Event::Flush);
            self.position += 1;
        }
        true
    }

    fn is_refused(&mut self, from: Option<usize>) -> bool {
        let refused = from.is_some_and(|from| self.position >= from) && !(self.refusals.once && self.refused > 0);
        self.refused += usize::from(refused);
        refused
    }

    fn push(&mut self, offset: u64, bytes: u64, data: Option<&[u8]>) {
        assert!(
            offset.is_multiple_of(SECTOR_BYTES as u64) && bytes.is_multiple_of(SECTOR_BYTES as u64),
            "the loop device writes whole sectors"
        );
        let end = (offset + bytes).min(self.image.bytes());
        let mut pieces = Vec::new();
        let mut at = offset;
        while at < end {
            let from = at as usize % BLOCK_BYTES;
            let take = (BLOCK_BYTES - from).min((end - at) as usize);
            let content = data.map(|data| {
                let source = (at - offset) as usize;
                let mut block = [0u8; BLOCK_BYTES];
                block[from..from + take].copy_from_slice(&data[source..source + take]);
                Arc::new(block)
            });
            let sectors = (from / SECTOR_BYTES..(from + take) / SECTOR_BYTES).fold(0u8, |mask, s| mask | 1 << s);
            pieces.push(Piece { block: (at as usize / BLOCK_BYTES) as u32, sectors, content });
            at += take as u64;
        }
        for piece in &pieces {
            self.image.apply(piece, WHOLE);
        }
        if let Some(recording) = &mut self.recording {
            recording.events.push(Event::Write(pieces));
            self.position += 1;
        }
    }
}

/// Cuts images out of a recording. Points asked for in rising order cost only the events between them.
pub struct Cutter<'a> {
    recording: &'a Recording,
    durable: Image,
    /// Events before this one are in `durable`.
    flushed: usize,
}

impl<'a> Cutter<'a> {
    pub fn new(recording: &'a Recording) -> Cutter<'a> {
        Cutter { recording, durable: recording.start.clone(), flushed: 0 }
    }

    /// The disk as it may be found when the power went after the first `point` events.
    pub fn cut(&mut self, point: usize, survival: Survival, seed: u64) -> Image {
        let flushed = self.recording.flushed(point);
        if flushed < self.flushed {
            *self = Cutter::new(self.recording);
        }
        for event in &self.recording.events[self.flushed..flushed] {
            if let Event::Write(pieces) = event {
                pieces.iter().for_each(|piece| self.durable.apply(piece, WHOLE));
            }
        }
        self.flushed = flushed;

        let mut image = self.durable.clone();
        let mut chance = Chance::new(seed ^ (point as u64) << 8 ^ survival.number() as u64);
        // The share that survives varies, because "all but a few" and "only a few" find other faults than a half.
        let survive_of_8 = [1, 4, 7][chance.below(3) as usize];
        for event in &self.recording.events[flushed..point] {
            let Event::Write(pieces) = event else { continue };
            for piece in pieces {
                let sectors = match survival {
                    Survival::None => 0,
                    Survival::All => WHOLE,
                    Survival::Some | Survival::Torn if chance.below(8) >= survive_of_8 => 0,
                    // The file system's superblock (block 0) is read and checked before its journal is replayed; ext4
                    // counts on its two sectors being written as one, as every disk of the last decades does.
                    Survival::Torn if piece.block != 0 && chance.below(4) == 0 => chance.next() as u8,
                    Survival::Some | Survival::Torn => WHOLE,
                };
                image.apply(piece, sectors);
            }
        }
        image
    }
}

impl Recording {
    /// How many of the first `point` events are covered by a flush among them.
    pub fn flushed(&self, point: usize) -> usize {
        self.events[..point].iter().rposition(|e| matches!(e, Event::Flush)).map_or(0, |at| at + 1)
    }
}

/// A small generator of chance, repeatable from its seed (xorshift64*).
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        // Spread neighbouring seeds apart; the state must not be zero.
        let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Chance((z ^ (z >> 31)) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> Disk {
        let mut disk = Disk::new(Image::empty(16 * BLOCK_BYTES as u64));
        disk.write(0, &[1; 2 * BLOCK_BYTES]);
        disk.begin_recording();
        disk
    }

    #[test]
    fn a_cut_keeps_what_was_flushed_and_by_survival_what_was_not() {
        let mut disk = disk();
        disk.write(0, &[2; BLOCK_BYTES]);
        disk.flush();
        disk.write(0, &[3; BLOCK_BYTES]);
        assert_eq!(disk.position(), 3);
        let recording = disk.end_recording().unwrap();
        let mut cutter = Cutter::new(&recording);
        let mut first = |point, survival| cutter.cut(point, survival, 0).read(0, 1)[0];
        assert_eq!(first(0, Survival::All), 1);
        assert_eq!((first(1, Survival::None), first(1, Survival::All)), (1, 2));
        assert_eq!((first(2, Survival::None), first(3, Survival::None), first(3, Survival::All)), (2, 2, 3));
        assert_eq!(first(1, Survival::None), 1, "points may be asked for in any order");
    }

    #[test]
    fn chance_keeps_some_blocks_and_tears_some_but_never_invents() {
        let mut disk = disk();
        disk.write(4 * BLOCK_BYTES as u64, &[7; 8 * BLOCK_BYTES]);
        let recording = disk.end_recording().unwrap();
        let mut kept = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let image = Cutter::new(&recording).cut(1, Survival::Torn, seed);
            let bytes = image.read(4 * BLOCK_BYTES as u64, 8 * BLOCK_BYTES);
            let sectors: Vec<bool> = bytes
                .chunks(SECTOR_BYTES)
                .map(|sector| {
                    assert!(sector.iter().all(|b| *b == 0) || sector.iter().all(|b| *b == 7), "a sector is old or new");
                    sector[0] == 7
                })
                .collect();
            kept.insert(sectors);
        }
        assert!(kept.len() > 30);
    }

    #[test]
    fn part_of_a_block_can_be_written_and_discarded() {
        let mut disk = disk();
        disk.write(512, &[5; 512]);
        disk.discard(1024, 512);
        let bytes = disk.read(0, BLOCK_BYTES);
        assert_eq!((bytes[0], bytes[512], bytes[1024], bytes[1536]), (1, 5, 0, 1));
    }

    #[test]
    fn a_refused_write_leaves_no_trace_and_a_single_refusal_is_single() {
        let mut disk = disk();
        disk.refuse(Refusals { writes_from: Some(1), once: true, ..Refusals::default() });
        assert!(disk.write(0, &[2; BLOCK_BYTES]));
        assert!(disk.write(BLOCK_BYTES as u64, &[2; BLOCK_BYTES]), "the second piece of one request");
        assert!(!disk.write(0, &[3; BLOCK_BYTES]));
        assert!(disk.write(0, &[4; BLOCK_BYTES]));
        assert_eq!((disk.position(), disk.refused), (3, 1));
    }
}
