//! What is told of files, directories and volumes, and how a directory's entries are laid out (MS-FSCC 2.4, 2.5).

use super::create::Facts;
use super::{Cursor, Put, utf16};

/// Classes of information about a file.
pub mod class {
    pub const DIRECTORY: u8 = 1;
    pub const FULL_DIRECTORY: u8 = 2;
    pub const BOTH_DIRECTORY: u8 = 3;
    pub const BASIC: u8 = 4;
    pub const STANDARD: u8 = 5;
    pub const INTERNAL: u8 = 6;
    pub const EA: u8 = 7;
    pub const ACCESS: u8 = 8;
    pub const NAME: u8 = 9;
    pub const RENAME: u8 = 10;
    pub const LINK: u8 = 11;
    pub const NAMES: u8 = 12;
    pub const DISPOSITION: u8 = 13;
    pub const POSITION: u8 = 14;
    pub const FULL_EA: u8 = 15;
    pub const MODE: u8 = 16;
    pub const ALIGNMENT: u8 = 17;
    pub const ALL: u8 = 18;
    pub const ALLOCATION: u8 = 19;
    pub const END_OF_FILE: u8 = 20;
    pub const ALTERNATE_NAME: u8 = 21;
    pub const STREAM: u8 = 22;
    pub const COMPRESSION: u8 = 28;
    pub const NETWORK_OPEN: u8 = 34;
    pub const ATTRIBUTE_TAG: u8 = 35;
    pub const ID_BOTH_DIRECTORY: u8 = 37;
    pub const ID_FULL_DIRECTORY: u8 = 38;
    pub const NORMALIZED_NAME: u8 = 48;
    pub const ID: u8 = 59;
    pub const ID_EXTD_DIRECTORY: u8 = 60;
    pub const ID_EXTD_BOTH_DIRECTORY: u8 = 63;
    pub const DISPOSITION_EX: u8 = 64;
    pub const ID_64_EXTD_DIRECTORY: u8 = 78;
    pub const ID_64_EXTD_BOTH_DIRECTORY: u8 = 79;
    pub const ID_ALL_EXTD_DIRECTORY: u8 = 80;
    pub const ID_ALL_EXTD_BOTH_DIRECTORY: u8 = 81;
}

/// Classes of information about a volume.
pub mod volume {
    pub const VOLUME: u8 = 1;
    pub const SIZE: u8 = 3;
    pub const DEVICE: u8 = 4;
    pub const ATTRIBUTE: u8 = 5;
    pub const FULL_SIZE: u8 = 7;
    pub const OBJECT_ID: u8 = 8;
    pub const SECTOR_SIZE: u8 = 11;
}

/// What an open knows of its file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileInfo {
    pub facts: Facts,
    pub volume: u64,
    pub id: u64,
    pub links: u32,
    pub is_delete_pending: bool,
    pub is_directory: bool,
    pub mask: u32,
    pub position: u64,
    pub mode: u32,
    /// From the root, with backslashes and without one before it.
    pub path: String,
}

/// Something whose first bytes must fit; the rest is cut if there is no room.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    pub bytes: Vec<u8>,
    pub fixed_bytes: usize,
}

impl From<Vec<u8>> for Answer {
    fn from(bytes: Vec<u8>) -> Answer {
        Answer { fixed_bytes: bytes.len(), bytes }
    }
}

fn basic(info: &FileInfo, out: &mut Vec<u8>) {
    info.facts.encode_times(out);
    out.put_u32(info.facts.attributes);
    out.put_u32(0);
}

fn standard(info: &FileInfo, out: &mut Vec<u8>) {
    out.put_u64(info.facts.allocated);
    out.put_u64(info.facts.bytes);
    out.put_u32(info.links);
    out.put_u8(u8::from(info.is_delete_pending));
    out.put_u8(u8::from(info.is_directory));
    out.put_u16(0);
}

fn named(mut out: Vec<u8>, name: &str) -> Answer {
    let name = utf16(name);
    out.put_u32(name.len() as u32);
    let fixed_bytes = out.len();
    out.put(&name);
    // Never fewer than a structure with one letter has.
    let fixed_bytes = if fixed_bytes == 4 { 8 } else { (fixed_bytes + 2).next_multiple_of(8) };
    Answer { bytes: out, fixed_bytes }
}

/// What is asked about a file; `None` for a class nobody can be told.
pub fn of_file(asked: u8, info: &FileInfo) -> Option<Answer> {
    let mut out = Vec::with_capacity(128);
    match asked {
        class::BASIC => basic(info, &mut out),
        class::STANDARD => standard(info, &mut out),
        class::INTERNAL => out.put_u64(info.id),
        class::ID => {
            out.put_u64(info.volume);
            out.put_u64(info.id);
            out.put_u64(0); // the upper half of a longer number
        }
        class::EA => out.put_u32(0),
        class::ACCESS => out.put_u32(info.mask),
        class::POSITION => out.put_u64(info.position),
        class::MODE => out.put_u32(info.mode),
        class::ALIGNMENT => out.put_u32(0),
        class::NAME => return Some(named(out, &format!("\\{}", info.path))),
        class::NORMALIZED_NAME => return Some(named(out, &info.path)),
        class::ALL => {
            basic(info, &mut out);
            standard(info, &mut out);
            out.put_u64(info.id);
            out.put_u32(0);
            out.put_u32(info.mask);
            out.put_u64(info.position);
            out.put_u32(info.mode);
            out.put_u32(0);
            return Some(named(out, &format!("\\{}", info.path)));
        }
        class::STREAM => {
            if !info.is_directory {
                let name = utf16("::$DATA");
                out.put_u32(0);
                out.put_u32(name.len() as u32);
                out.put_u64(info.facts.bytes);
                out.put_u64(info.facts.allocated);
                out.put(&name);
                return Some(Answer { bytes: out, fixed_bytes: 32 });
            }
        }
        class::COMPRESSION => {
            out.put_u64(info.facts.bytes);
            out.put_u64(0);
        }
        class::NETWORK_OPEN => {
            info.facts.encode(&mut out);
            out.put_u32(0);
        }
        class::ATTRIBUTE_TAG => {
            out.put_u32(info.facts.attributes);
            out.put_u32(0);
        }
        _ => return None,
    }
    Some(out.into())
}

/// A share as a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeInfo {
    pub created: u64,
    pub serial: u32,
    pub label: String,
    pub bytes: u64,
    pub free_bytes: u64,
}

const SECTOR_BYTES: u32 = 512;
const UNIT_SECTORS: u32 = 8;
/// What files take is counted in these.
pub const UNIT_BYTES: u64 = SECTOR_BYTES as u64 * UNIT_SECTORS as u64;

/// What a share does: names keep their case, are of Unicode, and have permissions.
const FILE_SYSTEM: u32 = 0x2 | 0x4 | 0x8;

pub fn of_volume(asked: u8, info: &VolumeInfo) -> Option<Answer> {
    let mut out = Vec::with_capacity(64);
    let (units, free) = (info.bytes / UNIT_BYTES, info.free_bytes / UNIT_BYTES);
    match asked {
        volume::VOLUME => {
            let label = utf16(&info.label);
            out.put_u64(info.created);
            out.put_u32(info.serial);
            out.put_u32(label.len() as u32);
            out.put_u16(0);
            out.put(&label);
            return Some(Answer { bytes: out, fixed_bytes: 24 });
        }
        volume::SIZE => {
            out.put_u64(units);
            out.put_u64(free);
            out.put_u32(UNIT_SECTORS);
            out.put_u32(SECTOR_BYTES);
        }
        volume::FULL_SIZE => {
            out.put_u64(units);
            out.put_u64(free);
            out.put_u64(free);
            out.put_u32(UNIT_SECTORS);
            out.put_u32(SECTOR_BYTES);
        }
        volume::DEVICE => {
            const DISK: u32 = 7;
            const IS_MOUNTED: u32 = 0x20;
            out.put_u32(DISK);
            out.put_u32(IS_MOUNTED);
        }
        volume::ATTRIBUTE => {
            let name = utf16("NTFS");
            out.put_u32(FILE_SYSTEM);
            out.put_u32(255);
            out.put_u32(name.len() as u32);
            out.put(&name);
            return Some(Answer { bytes: out, fixed_bytes: 16 });
        }
        volume::SECTOR_SIZE => {
            for _ in 0..4 {
                out.put_u32(SECTOR_BYTES);
            }
            out.put_u32(0x3); // aligned, as far as anybody can tell
            out.put_u64(0);
        }
        _ => return None,
    }
    Some(out.into())
}

/// An entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub facts: Facts,
    pub id: u64,
    pub name: String,
}

pub fn is_directory_class(asked: u8) -> bool {
    matches!(
        asked,
        class::DIRECTORY
            | class::FULL_DIRECTORY
            | class::BOTH_DIRECTORY
            | class::NAMES
            | class::ID_BOTH_DIRECTORY
            | class::ID_FULL_DIRECTORY
            | class::ID_EXTD_DIRECTORY
            | class::ID_EXTD_BOTH_DIRECTORY
            | class::ID_64_EXTD_DIRECTORY
            | class::ID_64_EXTD_BOTH_DIRECTORY
            | class::ID_ALL_EXTD_DIRECTORY
            | class::ID_ALL_EXTD_BOTH_DIRECTORY
    )
}

/// Entries one after the other, each where a number of eight bytes may begin.
#[derive(Debug)]
pub struct Entries {
    class: u8,
    bytes: Vec<u8>,
    last: Option<usize>,
    bytes_max: usize,
}

impl Entries {
    pub fn new(class: u8, bytes_max: usize) -> Entries {
        Entries { class, bytes: Vec::new(), last: None, bytes_max }
    }

    pub fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// False if there is no room for it.
    pub fn push(&mut self, entry: &Entry) -> bool {
        let encoded = encode_entry(self.class, entry);
        let begin = self.bytes.len().next_multiple_of(8);
        if begin + encoded.len() > self.bytes_max {
            return false;
        }
        if let Some(last) = self.last {
            self.bytes.set_u32(last, (begin - last) as u32);
        }
        self.bytes.align(8);
        self.bytes.put(&encoded);
        self.last = Some(begin);
        true
    }
}

fn encode_entry(asked: u8, entry: &Entry) -> Vec<u8> {
    let (facts, name) = (&entry.facts, utf16(&entry.name));
    let mut out = Vec::with_capacity(104 + name.len());
    out.put_u32(0); // where the next one is
    out.put_u32(0); // FileIndex, which is always zero (MS-FSA 2.1.5.6.3.1 and its neighbours)
    if asked == class::NAMES {
        out.put_u32(name.len() as u32);
        out.put(&name);
        return out;
    }
    facts.encode_times(&mut out);
    out.put_u64(facts.bytes);
    out.put_u64(facts.allocated);
    out.put_u32(facts.attributes);
    out.put_u32(name.len() as u32);
    if asked != class::DIRECTORY {
        out.put_u32(0); // extended attributes
    }
    if matches!(asked, class::BOTH_DIRECTORY | class::ID_BOTH_DIRECTORY) {
        out.put_zeros(2 + 24); // no short name
    }
    match asked {
        class::ID_BOTH_DIRECTORY => {
            out.put_u16(0);
            out.put_u64(entry.id);
        }
        class::ID_FULL_DIRECTORY => {
            out.put_u32(0);
            out.put_u64(entry.id);
        }
        class::ID_EXTD_DIRECTORY | class::ID_EXTD_BOTH_DIRECTORY => {
            out.put_u32(0); // no reparse point
            out.put_u64(entry.id);
            out.put_u64(0); // the upper half of a longer number
        }
        class::ID_64_EXTD_DIRECTORY | class::ID_64_EXTD_BOTH_DIRECTORY => {
            out.put_u32(0); // no reparse point
            out.put_u64(entry.id);
        }
        class::ID_ALL_EXTD_DIRECTORY | class::ID_ALL_EXTD_BOTH_DIRECTORY => {
            out.put_u32(0); // no reparse point
            out.put_u64(entry.id);
            out.put_u64(entry.id);
            out.put_u64(0); // the upper half of the longer number
        }
        _ => {}
    }
    if matches!(
        asked,
        class::ID_EXTD_BOTH_DIRECTORY | class::ID_64_EXTD_BOTH_DIRECTORY | class::ID_ALL_EXTD_BOTH_DIRECTORY
    ) {
        out.put_zeros(2 + 24); // no short name
    }
    out.put(&name);
    out
}

/// FileBasicInformation as it is set: zero leaves a time alone, the largest numbers stop or resume its updates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Basic {
    pub created: u64,
    pub accessed: u64,
    pub written: u64,
    pub changed: u64,
    /// Zero leaves them alone.
    pub attributes: u32,
}

impl Basic {
    pub fn decode(input: &[u8]) -> Option<Basic> {
        let mut cursor = Cursor::new(input);
        let (created, accessed, written, changed) = (cursor.u64()?, cursor.u64()?, cursor.u64()?, cursor.u64()?);
        Some(Basic { created, accessed, written, changed, attributes: cursor.u32()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> Entry {
        Entry { facts: Facts::default(), id: 5, name: name.to_owned() }
    }

    #[test]
    fn entries_know_where_the_next_one_is() {
        for (asked, one_bytes) in [
            (class::DIRECTORY, 64),
            (class::FULL_DIRECTORY, 68),
            (class::BOTH_DIRECTORY, 94),
            (class::NAMES, 12),
            (class::ID_BOTH_DIRECTORY, 104),
            (class::ID_FULL_DIRECTORY, 80),
            (class::ID_EXTD_DIRECTORY, 88),
            (class::ID_EXTD_BOTH_DIRECTORY, 114),
            (class::ID_64_EXTD_DIRECTORY, 80),
            (class::ID_64_EXTD_BOTH_DIRECTORY, 106),
            (class::ID_ALL_EXTD_DIRECTORY, 96),
            (class::ID_ALL_EXTD_BOTH_DIRECTORY, 122),
        ] {
            assert_eq!(encode_entry(asked, &entry("")).len(), one_bytes, "class {asked}");
            let mut entries = Entries::new(asked, 260);
            assert!(entries.push(&entry("a")) && entries.push(&entry("bc")));
            while entries.push(&entry("more")) {}
            let bytes = entries.into_bytes();
            assert!(bytes.len() <= 260);
            let next = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes")) as usize;
            assert_eq!(next, (one_bytes + 2).next_multiple_of(8), "class {asked}");
        }
    }
}
