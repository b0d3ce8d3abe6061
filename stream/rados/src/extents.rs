//! Bodies: one immutable object for each extent, its bytes followed by a CRC32C of every 64 KiB of them.
//!
//! Before an extent is written its number is covered by an intent: one entry for 256 numbers in this process's list. What a process
//! leaves behind when it dies is found there (`sweep.rs`).

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, Weak};

use bytes::{BufMut, Bytes, BytesMut};
use engine::{EXTENT_BYTES_MAX, Extent, ExtentError, ExtentSlice, Fault, Pin, Source};
use librados::{Found, Look, OpError, Pool, Step};
use tokio::sync::OnceCell;

use crate::{Core, fault, key, value};

const CHUNK_BYTES: u64 = 64 * 1024;
const SUM_BYTES: u64 = 4;

/// What one read takes at most: long enough that a round trip costs little, short enough to hold.
const READ_BYTES_MAX: u64 = 1 << 20;

/// A body that is longer gets room for all that an extent may hold at once.
const GROWS_BYTES: usize = 512 * 1024;

/// Numbers that one intent covers.
pub const INTENT_NUMBERS: u64 = 256;

/// A process's list of intents.
pub fn intents(process: u64) -> String {
    format!("intents.{process:016x}")
}

pub fn intent_key(block: u64) -> Bytes {
    Bytes::from(format!("{block:016x}"))
}

/// The id of a process's extent of this number.
pub fn extent_id(process: u64, number: u64) -> u128 {
    u128::from(process) << 64 | u128::from(number)
}

fn sums_bytes(bytes: usize) -> usize {
    bytes.div_ceil(CHUNK_BYTES as usize) * SUM_BYTES as usize
}

/// An extent's bytes, and after them the checksums of its chunks.
fn with_sums(mut bytes: BytesMut) -> Bytes {
    let sums: Vec<u32> = bytes.chunks(CHUNK_BYTES as usize).map(crc32c::crc32c).collect();
    for sum in sums {
        bytes.put_u32(sum);
    }
    bytes.freeze()
}

/// Which chunks a read of a slice takes: the first of them, and how many bytes from there on.
fn span(slice: &ExtentSlice) -> (u64, u64) {
    let first = slice.offset / CHUNK_BYTES;
    let end = (slice.offset + slice.bytes).min(slice.offset + READ_BYTES_MAX);
    let end = end.next_multiple_of(CHUNK_BYTES).min(slice.extent.bytes);
    (first, end.saturating_sub(first * CHUNK_BYTES))
}

impl Core {
    pub async fn write_extent(
        self: &Arc<Self>,
        source: &mut dyn Source,
        bytes_max: u64,
    ) -> Result<Option<Pin>, ExtentError> {
        let bytes_max = bytes_max.min(EXTENT_BYTES_MAX) as usize;
        let mut bytes = BytesMut::new();
        while bytes.len() < bytes_max {
            match source.next(bytes_max - bytes.len()).await.map_err(ExtentError::Source)? {
                Some(piece) => bytes.extend_from_slice(&piece),
                None => break,
            }
            // Most that are so long fill it. Growing step by step would copy them twice, and once more for the sums.
            if bytes.len() >= GROWS_BYTES && bytes.capacity() < bytes_max + sums_bytes(bytes_max) {
                bytes.reserve(bytes_max + sums_bytes(bytes_max) - bytes.len());
            }
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        let length = bytes.len() as u64;
        let number = self.next_number().await.map_err(ExtentError::Fault)?;
        let extent = Extent { id: extent_id(self.process, number), bytes: length };
        let pin = self.alive.pin_fresh(extent, number, self.now());
        // The same bytes under a number used once: trying again does no harm.
        let written = self
            .write_surely(Pool::Bodies, &key::extent_object(extent.id), vec![Step::WriteAll(with_sums(bytes))])
            .await;
        written.map_err(|error| ExtentError::Fault(fault("writing an extent", error)))?;
        Ok(Some(pin))
    }

    /// A number of an extent, covered by an intent.
    async fn next_number(&self) -> Result<u64, Fault> {
        let mut intents = self.intents.lock().await;
        let number = intents.next;
        if number >= intents.covered {
            let block = number / INTENT_NUMBERS;
            self.put_listed(&self::intents(self.process), vec![(intent_key(block), value::number(self.now()))]).await?;
            intents.covered = (block + 1) * INTENT_NUMBERS;
        }
        intents.next += 1;
        Ok(number)
    }

    /// Enters again the intents of a process that was taken for dead.
    pub async fn cover_again(&self) -> Result<(), Fault> {
        let intents = self.intents.lock().await;
        let newest = intents.covered.checked_sub(1).map(|number| number / INTENT_NUMBERS);
        let blocks: BTreeSet<u64> = self.alive.open_intents().into_iter().chain(newest).collect();
        let entries: Vec<_> = blocks.into_iter().map(|block| (intent_key(block), value::number(self.now()))).collect();
        if entries.is_empty() {
            return Ok(());
        }
        self.put_listed(&self::intents(self.process), entries).await
    }

    pub async fn read_extent(&self, slice: ExtentSlice) -> Result<Bytes, Fault> {
        if slice.bytes == 0 {
            return Ok(Bytes::new());
        }
        let joined = self.reads.join(slice);
        joined.cell().get_or_init(|| self.read_slice(slice)).await.clone()
    }

    async fn read_slice(&self, slice: ExtentSlice) -> Result<Bytes, Fault> {
        let damaged = || Fault::Corrupt { what: format!("extent {:032x} from {} on", slice.extent.id, slice.offset) };
        if slice.offset.checked_add(slice.bytes).is_none_or(|end| end > slice.extent.bytes) {
            return Err(damaged());
        }
        let (first, bytes) = span(&slice);
        let sums = bytes.div_ceil(CHUNK_BYTES);
        let looks = vec![
            Look::Bytes { offset: first * CHUNK_BYTES, bytes: bytes as usize },
            Look::Bytes { offset: slice.extent.bytes + first * SUM_BYTES, bytes: (sums * SUM_BYTES) as usize },
        ];
        let found = match self.objects.read(Pool::Bodies, &key::extent_object(slice.extent.id), looks).await {
            Ok(seen) => seen.found,
            Err(OpError::Missing) => return Err(damaged()),
            Err(error) => return Err(fault("reading an extent", error)),
        };
        let [Found::Bytes(chunks), Found::Bytes(sums)] = &found[..] else { return Err(damaged()) };
        let sound = chunks.len() as u64 == bytes
            && chunks.chunks(CHUNK_BYTES as usize).map(crc32c::crc32c).eq(sums.chunks_exact(4).map(be_u32));
        if !sound {
            return Err(damaged());
        }
        let from = (slice.offset - first * CHUNK_BYTES) as usize;
        let to = (from as u64 + slice.bytes).min(chunks.len() as u64) as usize;
        Ok(chunks.slice(from..to))
    }
}

fn be_u32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

/// Reads under way. What an extent holds never changes, so whoever asks for what is just being read has that read, and a blob that many
/// ask for at once is sent by the cluster once. Nothing is kept when nobody waits for it any more.
#[derive(Default)]
pub struct Reads(Arc<Mutex<Underway>>);

type Underway = HashMap<(u128, u64, u64), Weak<Cell>>;
type Cell = OnceCell<Result<Bytes, Fault>>;

/// One who waits for a read. If whoever began it goes away, one of the others begins anew.
struct Joined {
    /// Until it is dropped.
    cell: Option<Arc<Cell>>,
    reads: Arc<Mutex<Underway>>,
    id: (u128, u64, u64),
}

fn lock(reads: &Mutex<Underway>) -> std::sync::MutexGuard<'_, Underway> {
    reads.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Reads {
    fn join(&self, slice: ExtentSlice) -> Joined {
        let id = (slice.extent.id, slice.offset, slice.bytes);
        let mut reads = lock(&self.0);
        let underway = reads.get(&id).and_then(Weak::upgrade);
        let cell = underway.unwrap_or_else(|| {
            let cell = Arc::new(Cell::new());
            reads.insert(id, Arc::downgrade(&cell));
            cell
        });
        Joined { cell: Some(cell), reads: Arc::clone(&self.0), id }
    }
}

impl Joined {
    fn cell(&self) -> &Cell {
        self.cell.as_ref().expect("it is there until this is dropped")
    }
}

impl std::ops::Drop for Joined {
    fn drop(&mut self) {
        let mut reads = lock(&self.reads);
        // Under the lock, under which others join: the last one to leave is the one that finds nobody left.
        drop(self.cell.take());
        if reads.get(&self.id).is_some_and(|cell| cell.strong_count() == 0) {
            reads.remove(&self.id);
        }
    }
}

/// The numbers this process gives to extents.
#[derive(Default)]
pub struct Intents {
    next: u64,
    /// Numbers below this one are covered.
    covered: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_take_whole_chunks_of_what_is_there() {
        const C: u64 = CHUNK_BYTES;
        for (bytes, offset, length, expected) in [
            (100, 0, 100, (0, 100)),
            (C + 1, 0, 1, (0, C)),
            (C + 1, C, 1, (1, 1)),
            (10 * C, C - 1, 2, (0, 2 * C)),
            (4 << 20, 0, 4 << 20, (0, READ_BYTES_MAX)),
            (4 << 20, 10, (4 << 20) - 10, (0, READ_BYTES_MAX + C)),
        ] {
            let slice = ExtentSlice { extent: Extent { id: 1, bytes }, offset, bytes: length };
            assert_eq!(span(&slice), expected, "{slice:?}");
        }
    }
}
