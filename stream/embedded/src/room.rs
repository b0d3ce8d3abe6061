//! Room on the disk. Writes are refused while there is still enough for fjall's journal, flushes and compactions: these
//! must never meet a full disk, for what they cannot write leaves the outcome of commits in doubt.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use engine::Fault;

const MIB: u64 = 1024 * 1024;
/// How much may be written before the disk is asked again.
const CHECK_EVERY_BYTES: u64 = 16 * MIB;

pub struct Room {
    path: PathBuf,
    /// Below this nothing but deletes is taken; below half of it nothing at all.
    reserve: u64,
    free: AtomicU64,
    written: AtomicU64,
}

impl Room {
    pub fn new(path: &Path, reserve: Option<u64>) -> io::Result<Self> {
        let stat = rustix::fs::statvfs(path)?;
        let total = stat.f_blocks * stat.f_frsize;
        // A hundredth of the disk, but enough for a journal and a compaction, and not more than these need.
        let reserve = reserve.unwrap_or((total / 100).clamp(64 * MIB, 512 * MIB).min(total / 4));
        let room = Room { path: path.to_owned(), reserve, free: AtomicU64::new(0), written: AtomicU64::new(0) };
        room.measure()?;
        Ok(room)
    }

    pub fn measure(&self) -> io::Result<()> {
        let stat = rustix::fs::statvfs(&self.path)?;
        self.free.store(stat.f_bavail * stat.f_frsize, Ordering::Relaxed);
        self.written.store(0, Ordering::Relaxed);
        Ok(())
    }

    pub fn free(&self) -> u64 {
        self.free.load(Ordering::Relaxed)
    }

    pub fn reserve(&self) -> u64 {
        self.reserve
    }

    /// Whether so many bytes may be written.
    pub fn admit(&self, bytes: u64) -> Result<(), Fault> {
        let written = self.written.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if written >= CHECK_EVERY_BYTES || self.free() < self.reserve + written {
            self.measure().map_err(|error| Fault::io("asking how much room the disk has", error))?;
        }
        if self.free() < self.reserve.saturating_add(bytes) { Err(Fault::Full) } else { Ok(()) }
    }

    /// Whether a batch that only deletes may be written: it makes room in the end.
    pub fn admit_delete(&self) -> Result<(), Fault> {
        if self.free() < self.reserve / 2 { Err(Fault::Full) } else { Ok(()) }
    }
}
