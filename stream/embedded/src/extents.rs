//! Extents: bytes in, bytes out, and the checksums between.
//!
//! An extent is its data, contiguous, followed by one CRC32C per chunk of 64 KiB. Each checksum begins with the extent's
//! address and the chunk's index, so that right bytes in the wrong place are noticed too.

use std::io;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use engine::{EXTENT_BYTES_MAX, Extent, ExtentError, ExtentSlice, Fault, Pin, Source};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::alive::Alive;
use crate::disk::DiskFile;
use crate::key::Address;
use crate::recent::{Recent, Stretch};
use crate::segments::{Reservation, Segment, Segments};

pub const CHUNK_BYTES: u64 = 64 * 1024;
/// Gathered from a source before it is written: few calls, bounded memory.
const PIECE_BYTES: u64 = 256 * 1024;
/// The most one read gives. A multiple of the chunk.
const READ_BYTES_MAX: u64 = 1024 * 1024;
/// A read this small is tried in place if its pages are in memory: the hop to another thread costs more.
const READ_IN_PLACE_BYTES_MAX: u64 = 128 * 1024;
/// A write this small is made in place: it ends in the system's cache, and the hop costs several times as much.
const WRITTEN_IN_PLACE_BYTES_MAX: u64 = 16 * 1024;

/// What an extent takes in its segment: data and checksums.
pub fn stored_bytes(bytes: u64) -> u64 {
    bytes + bytes.div_ceil(CHUNK_BYTES) * 4
}

/// Takes an extent from the source. `admit` is asked before each piece is written, with its length: room on the disk.
pub async fn write(
    segments: &Arc<Segments>,
    alive: &Arc<Alive>,
    source: &mut dyn Source,
    bytes_max: u64,
    admit: impl Fn(u64) -> Result<(), Fault>,
) -> Result<Option<Pin>, ExtentError> {
    assert!(bytes_max > 0 && bytes_max <= EXTENT_BYTES_MAX, "an extent has 1 to EXTENT_BYTES_MAX bytes");
    let mut gathered = Gathered::default();
    gathered.fill(source, bytes_max.min(PIECE_BYTES)).await.map_err(ExtentError::Source)?;
    if gathered.bytes == 0 {
        return Ok(None);
    }
    // A source that ended within its first piece needs no more room than it has; of others only the maximum is known.
    let expected = if gathered.ended || gathered.bytes == bytes_max { gathered.bytes } else { bytes_max };
    admit(stored_bytes(expected)).map_err(ExtentError::Fault)?;
    let failed = |error| ExtentError::Fault(unwritten(error));
    if gathered.ended && gathered.bytes <= WRITTEN_IN_PLACE_BYTES_MAX {
        return write_now(segments, alive, gathered.parts).map(Some).map_err(failed);
    }
    let reservation = Arc::new(segments.reserve(stored_bytes(expected)).map_err(failed)?);
    let address = reservation.address();
    let mut sums = Some(Sums::new(address));
    let mut written = 0;
    let mut under_way: Option<JoinHandle<io::Result<Sums>>> = None;
    loop {
        let last = gathered.ended || written + gathered.bytes == bytes_max;
        let piece = std::mem::take(&mut gathered);
        // One piece is written while the next is gathered.
        let previous = match under_way.take() {
            Some(task) => join(task).await.map_err(failed)?,
            None => sums.take().expect("the first piece has the first sums"),
        };
        let (offset, bytes) = (reservation.start + written, piece.bytes);
        let owner = Arc::clone(&reservation);
        let task = spawn_blocking(move || write_piece(&owner, offset, piece.parts, previous, last));
        under_way = Some(task);
        written += bytes;
        if last {
            break;
        }
        if let Err(error) = gathered.fill(source, (bytes_max - written).min(PIECE_BYTES)).await {
            return Err(ExtentError::Source(error));
        }
        if gathered.bytes == 0 {
            // The source ended exactly where a piece did: only the checksums are missing.
            let previous = join(under_way.take().expect("a piece was just begun")).await.map_err(failed)?;
            let owner = Arc::clone(&reservation);
            let offset = reservation.start + written;
            under_way = Some(spawn_blocking(move || write_piece(&owner, offset, Vec::new(), previous, true)));
            break;
        }
    }
    join(under_way.take().expect("the loop ends with a piece under way")).await.map_err(failed)?;
    // Alive before the reservation is given up: a survey of the segment sees one or the other.
    let hold = alive.born(address, written as u32);
    reservation.keep(stored_bytes(written));
    Ok(Some(Pin::new(address.extent(written as u32), Arc::new(hold))))
}

/// Nothing is in doubt when a body could not be written: no record names it. So this does not stop the engine.
fn unwritten(error: io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Fault::Full,
        _ => Fault::io("writing a body to a segment", error),
    }
}

async fn join(task: JoinHandle<io::Result<Sums>>) -> io::Result<Sums> {
    task.await.map_err(io::Error::other)?
}

fn write_piece(to: &Reservation, offset: u64, mut parts: Vec<Bytes>, mut sums: Sums, last: bool) -> io::Result<Sums> {
    for part in &parts {
        sums.take(part);
    }
    if last {
        parts.push(sums.trailer());
    }
    to.segment.file().write_at(offset, &parts)?;
    Ok(sums)
}

/// Bytes taken from a source and not yet written.
#[derive(Default)]
struct Gathered {
    parts: Vec<Bytes>,
    bytes: u64,
    ended: bool,
}

impl Gathered {
    async fn fill(&mut self, source: &mut dyn Source, bytes: u64) -> Result<(), engine::SourceError> {
        while self.bytes < bytes {
            let wanted = (bytes - self.bytes) as usize;
            let Some(part) = source.next(wanted).await? else {
                self.ended = true;
                return Ok(());
            };
            assert!(!part.is_empty() && part.len() <= wanted, "a source gives between 1 and the bytes it is asked for");
            self.bytes += part.len() as u64;
            self.parts.push(part);
        }
        Ok(())
    }
}

/// The checksums of an extent's chunks, as its bytes come by.
struct Sums {
    address: Address,
    done: Vec<u32>,
    current: u32,
    in_chunk: u64,
}

impl Sums {
    fn new(address: Address) -> Self {
        Sums { address, done: Vec::new(), current: seed(address, 0), in_chunk: 0 }
    }

    fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min((CHUNK_BYTES - self.in_chunk) as usize));
            self.current = crc32c::crc32c_append(self.current, now);
            self.in_chunk += now.len() as u64;
            if self.in_chunk == CHUNK_BYTES {
                self.close();
            }
            bytes = later;
        }
    }

    fn close(&mut self) {
        self.done.push(self.current);
        self.current = seed(self.address, self.done.len() as u32);
        self.in_chunk = 0;
    }

    fn trailer(&mut self) -> Bytes {
        if self.in_chunk > 0 {
            self.close();
        }
        let mut out = BytesMut::with_capacity(self.done.len() * 4);
        for sum in &self.done {
            out.put_u32(*sum);
        }
        out.freeze()
    }
}

fn seed(address: Address, chunk: u32) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&address.bytes()), &chunk.to_be_bytes())
}

/// The slice's first bytes, verified.
pub async fn read(segments: &Arc<Segments>, recent: &Recent, slice: ExtentSlice) -> Result<Bytes, Fault> {
    let end = slice.offset.checked_add(slice.bytes);
    assert!(end.is_some_and(|end| end <= slice.extent.bytes), "a slice lies inside its extent");
    if slice.bytes == 0 {
        return Ok(Bytes::new());
    }
    let plan = Plan::of(slice);
    if let Some(data) = recent.get(&plan.stretch()) {
        return Ok(plan.wanted(&data));
    }
    let data = read_verified(segments, plan).await?;
    recent.keep(plan.stretch(), data.clone());
    Ok(plan.wanted(&data))
}

async fn read_verified(segments: &Arc<Segments>, plan: Plan) -> Result<Bytes, Fault> {
    let segment = segments.segment(plan.address.segment).map_err(|error| missing(segments, plan.address, error))?;
    if plan.data_bytes <= READ_IN_PLACE_BYTES_MAX
        && let Some(read) = plan.try_at_once(&segment)
    {
        return plan.verified(read, segments);
    }
    let segments = Arc::clone(segments);
    let read = spawn_blocking(move || {
        let read = plan.wait_for(&segment).map_err(|error| missing(&segments, plan.address, error))?;
        plan.verified(read, &segments)
    });
    read.await.map_err(|error| Fault::Other { doing: "reading a body".to_owned(), detail: error.to_string() })?
}

/// The same without a runtime, for the sweeper: all of the slice.
pub fn read_now(segments: &Segments, mut slice: ExtentSlice) -> Result<Vec<Bytes>, Fault> {
    let mut parts = Vec::new();
    while slice.bytes > 0 {
        let plan = Plan::of(slice);
        let address = plan.address;
        let segment = segments.segment(address.segment).map_err(|error| missing(segments, address, error))?;
        let read = plan.wait_for(&segment).map_err(|error| missing(segments, address, error))?;
        let part = plan.wanted(&plan.verified(read, segments)?);
        slice.offset += part.len() as u64;
        slice.bytes -= part.len() as u64;
        parts.push(part);
    }
    Ok(parts)
}

/// Writes an extent in the caller's thread.
pub fn write_now(segments: &Arc<Segments>, alive: &Arc<Alive>, parts: Vec<Bytes>) -> io::Result<Pin> {
    let bytes: u64 = parts.iter().map(|part| part.len() as u64).sum();
    let reservation = segments.reserve(stored_bytes(bytes))?;
    let address = reservation.address();
    write_piece(&reservation, reservation.start, parts, Sums::new(address), true)?;
    let hold = alive.born(address, bytes as u32);
    reservation.keep(stored_bytes(bytes));
    Ok(Pin::new(address.extent(bytes as u32), Arc::new(hold)))
}

/// The checksums of an extent, as they are stored behind it.
pub fn read_sums(segments: &Segments, extent: Extent) -> Result<Bytes, Fault> {
    let address = Address::of(extent);
    let failed = |error| missing(segments, address, error);
    let mut sums = BytesMut::zeroed((stored_bytes(extent.bytes) - extent.bytes) as usize);
    let segment = segments.segment(address.segment).map_err(failed)?;
    segment.file().read_at(u64::from(address.offset) + extent.bytes, &mut sums).map_err(failed)?;
    Ok(sums.freeze())
}

/// Writes an extent at its address in another file. Gives its checksums.
pub fn write_copy(to: &dyn DiskFile, address: Address, mut parts: Vec<Bytes>) -> io::Result<Bytes> {
    let mut sums = Sums::new(address);
    parts.iter().for_each(|part| sums.take(part));
    let trailer = sums.trailer();
    parts.push(trailer.clone());
    to.write_at(u64::from(address.offset), &parts)?;
    Ok(trailer)
}

fn missing(segments: &Segments, address: Address, error: io::Error) -> Fault {
    match error.kind() {
        // What a record names must be there: a missing or short file is damage, not an accident of this read.
        io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof => {
            Fault::Corrupt { what: format!("{} at {}: {error}", segments.path(address.segment), address.offset) }
        }
        _ => Fault::io(format!("reading {}", segments.path(address.segment)), error),
    }
}

/// Which bytes of the segment a read needs: whole chunks, and their checksums.
#[derive(Clone, Copy)]
struct Plan {
    address: Address,
    chunk: u64,
    data_at: u64,
    data_bytes: u64,
    sums_at: u64,
    sums_bytes: u64,
    /// What is wanted of the data.
    skip: u64,
    take: u64,
}

/// Data and checksums as they were read.
struct Read {
    data: Bytes,
    sums: Bytes,
}

impl Plan {
    fn of(slice: ExtentSlice) -> Self {
        let address = Address::of(slice.extent);
        let Extent { bytes, .. } = slice.extent;
        let chunk = slice.offset / CHUNK_BYTES;
        let from = chunk * CHUNK_BYTES;
        let to = (slice.offset + slice.bytes).next_multiple_of(CHUNK_BYTES).min(from + READ_BYTES_MAX).min(bytes);
        let start = u64::from(address.offset);
        Plan {
            address,
            chunk,
            data_at: start + from,
            data_bytes: to - from,
            sums_at: start + bytes + chunk * 4,
            sums_bytes: (to - from).div_ceil(CHUNK_BYTES) * 4,
            skip: slice.offset - from,
            take: slice.bytes.min(to - slice.offset),
        }
    }

    /// An extent read to its end has its checksums right behind: one read for both.
    fn is_one_run(&self) -> bool {
        self.data_at + self.data_bytes == self.sums_at
    }

    fn try_at_once(&self, segment: &Segment) -> Option<Read> {
        self.run(|at, bytes| {
            let mut buffer = vec![0; bytes];
            match segment.file().read_at_once(at, &mut buffer) {
                Ok(true) => Ok(buffer),
                _ => Err(io::ErrorKind::WouldBlock.into()),
            }
        })
        .ok()
    }

    fn wait_for(&self, segment: &Segment) -> io::Result<Read> {
        self.run(|at, bytes| segment.file().read_new(at, bytes))
    }

    fn run(&self, read: impl Fn(u64, usize) -> io::Result<Vec<u8>>) -> io::Result<Read> {
        let (data_bytes, sums_bytes) = (self.data_bytes as usize, self.sums_bytes as usize);
        if self.is_one_run() {
            let mut data = Bytes::from(read(self.data_at, data_bytes + sums_bytes)?);
            let sums = data.split_off(data_bytes);
            return Ok(Read { data, sums });
        }
        Ok(Read { data: read(self.data_at, data_bytes)?.into(), sums: read(self.sums_at, sums_bytes)?.into() })
    }

    /// The data, all of whose checksums are right.
    fn verified(&self, read: Read, segments: &Segments) -> Result<Bytes, Fault> {
        let chunks = read.data.chunks(CHUNK_BYTES as usize).zip(read.sums.chunks(4)).zip(self.chunk..);
        for ((data, stored), index) in chunks {
            let sum = crc32c::crc32c_append(seed(self.address, index as u32), data);
            if sum.to_be_bytes() != *stored {
                let what = format!(
                    "{} at {}: a checksum does not match (extent at {}, chunk {index})",
                    segments.path(self.address.segment),
                    u64::from(self.address.offset) + index * CHUNK_BYTES,
                    self.address.offset,
                );
                return Err(Fault::Corrupt { what });
            }
        }
        Ok(read.data)
    }

    fn stretch(&self) -> Stretch {
        Stretch { address: self.address, chunk: self.chunk, bytes: self.data_bytes }
    }

    /// What was asked for, of the data that was read for it.
    fn wanted(&self, data: &Bytes) -> Bytes {
        data.slice(self.skip as usize..(self.skip + self.take) as usize)
    }
}
