//! The durable note: the newest commit number known to be on the disk, kept outside fjall.
//!
//! fjall cuts its journal at the first entry it cannot read. At the end of the journal that is right: the entry was never
//! acknowledged. Anywhere else it would drop acknowledged commits without a word. The note makes the difference visible:
//! if less came back than was noted, the engine refuses to start.
//!
//! Two slots, written in turn, each with its checksum: a write that is cut off leaves the other slot.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::key::{u32_at, u64_at};

/// Slots lie in blocks of their own, so that a torn write cannot reach both.
const SLOT_STRIDE: u64 = 4096;
const SLOT_BYTES: usize = 21;
const CLOSED: u8 = 1;
const RELAXED: u8 = 2;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Noted {
    /// The newest commit known to be durable.
    pub number: u64,
    /// Whether the engine was closed in order: then nothing at all was being written, and nothing may be missing.
    pub closed: bool,
    /// Whether a run that acknowledged commits before they were on the disk did not end in order, now or ever: then a
    /// power cut may have taken bodies that records name.
    pub relaxed: bool,
}

pub struct Note {
    file: File,
    turn: u64,
    pub last: Noted,
}

impl Note {
    pub fn create(path: &Path, relaxed: bool) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        let mut note = Note { file, turn: 0, last: Noted { number: 0, closed: false, relaxed } };
        note.write(note.last)?;
        Ok(note)
    }

    /// `None` if neither slot can be read.
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let newest = [0, 1].into_iter().filter_map(|slot| read_slot(&file, slot)).max_by_key(|(turn, _)| *turn);
        Ok(newest.map(|(turn, last)| Note { file, turn, last }))
    }

    pub fn write(&mut self, noted: Noted) -> io::Result<()> {
        self.turn += 1;
        let mut slot = [0; SLOT_BYTES];
        slot[..8].copy_from_slice(&self.turn.to_be_bytes());
        slot[8..16].copy_from_slice(&noted.number.to_be_bytes());
        slot[16] = (u8::from(noted.closed) * CLOSED) | (u8::from(noted.relaxed) * RELAXED);
        let sum = crc32c::crc32c(&slot[..17]);
        slot[17..].copy_from_slice(&sum.to_be_bytes());
        self.file.write_all_at(&slot, self.turn % 2 * SLOT_STRIDE)?;
        self.file.sync_data()?;
        self.last = noted;
        Ok(())
    }
}

/// Both slots, each with its turn if it can be read.
#[derive(Default)]
pub struct Slots {
    pub found: [Option<(u64, Noted)>; 2],
    /// The one that cannot be read was never written.
    pub is_other_blank: bool,
}

/// Reads without being able to write.
pub fn look(path: &Path) -> io::Result<Slots> {
    let file = File::open(path)?;
    let found = [0, 1].map(|slot| read_slot(&file, slot));
    let is_blank = |slot: u64| {
        let mut stored = [0; SLOT_BYTES];
        let read = file.read_exact_at(&mut stored, slot * SLOT_STRIDE);
        read.is_err_and(|error| error.kind() == io::ErrorKind::UnexpectedEof) || stored == [0; SLOT_BYTES]
    };
    let is_other_blank = found.iter().zip(0..).any(|(found, slot)| found.is_none() && is_blank(slot));
    Ok(Slots { found, is_other_blank })
}

fn read_slot(file: &File, slot: u64) -> Option<(u64, Noted)> {
    let mut stored = [0; SLOT_BYTES];
    file.read_exact_at(&mut stored, slot * SLOT_STRIDE).ok()?;
    if u32_at(&stored, 17)? != crc32c::crc32c(&stored[..17]) {
        return None;
    }
    let (closed, relaxed) = (stored[16] & CLOSED != 0, stored[16] & RELAXED != 0);
    Some((u64_at(&stored, 0)?, Noted { number: u64_at(&stored, 8)?, closed, relaxed }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_damaged_slot_leaves_the_other() {
        let dir = tempfile::tempdir().expect("a directory for the test");
        let path = dir.path().join("durable");
        let mut note = Note::create(&path, false).expect("created");
        note.write(Noted { number: 5, closed: false, relaxed: false }).expect("written");
        note.write(Noted { number: 9, closed: true, relaxed: true }).expect("written");
        let newest = note.turn % 2;
        let reopened = Note::open(&path).expect("opened").expect("a slot");
        assert_eq!(reopened.last, Noted { number: 9, closed: true, relaxed: true });
        note.file.write_all_at(&[1], newest * SLOT_STRIDE + 12).expect("damaged");
        let reopened = Note::open(&path).expect("opened").expect("a slot");
        assert_eq!(reopened.last, Noted { number: 5, closed: false, relaxed: false });
        note.file.write_all_at(&[1], (1 - newest) * SLOT_STRIDE + 12).expect("damaged");
        assert!(Note::open(&path).expect("opened").is_none());
    }
}
