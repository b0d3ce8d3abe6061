//! What a backup consists of: lines of text, and last of all a checksum of the lines.
//!
//! ```text
//! lazuli backup 1
//! identity <32 digits>
//! commit <number>
//! records <file> <bytes> <xxh3>
//! refs-at <offset in the file>
//! segment <number> <extents> <bytes> <xxh3>       one line per segment, in order
//! sum <xxh3 of the lines before>
//! ```
//! The checksum of a segment is over offset, length and the stored checksums of each extent that is part of the backup, in order.
//! All numbers are decimal but identity, segment and checksums, which are hexadecimal.

use std::fmt::Write;

use env::Id;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::block::Head;
use crate::key::Address;

pub const FORMAT_LINE: &str = "lazuli backup 1";

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manifest {
    pub head: Head,
    /// The file of blocks, its length and checksum.
    pub records: String,
    pub records_bytes: u64,
    pub records_sum: u128,
    /// Where in it the first block of references begins.
    pub refs_at: u64,
    pub segments: Vec<SegmentLine>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentLine {
    pub number: u64,
    pub extents: u64,
    pub bytes: u64,
    pub sum: u128,
}

impl Manifest {
    pub fn encode(&self) -> String {
        let Head { identity, commit } = self.head;
        let mut text = format!("{FORMAT_LINE}\nidentity {:032x}\ncommit {commit}\n", identity.0);
        let (bytes, sum, refs_at) = (self.records_bytes, self.records_sum, self.refs_at);
        let _ = write!(text, "records {} {bytes} {sum:032x}\nrefs-at {refs_at}\n", self.records); // into memory
        for SegmentLine { number, extents, bytes, sum } in &self.segments {
            let _ = writeln!(text, "segment {number:016x} {extents} {bytes} {sum:032x}");
        }
        let sum = xxh3_128(text.as_bytes());
        let _ = writeln!(text, "sum {sum:032x}");
        text
    }

    /// Why it cannot be used, in words.
    pub fn parse(text: &str) -> Result<Manifest, &'static str> {
        if !text.starts_with("lazuli backup ") {
            return Err("is not a manifest of a backup");
        }
        if text.lines().next() != Some(FORMAT_LINE) {
            return Err("is of a format that this program does not know: use the program that made it");
        }
        let (lines, sum) = text.rsplit_once("sum ").ok_or("is not whole")?;
        if sum.strip_suffix('\n') != Some(&format!("{:032x}", xxh3_128(lines.as_bytes()))) {
            return Err("is damaged: its checksum does not match");
        }
        Self::read(lines).ok_or("cannot be read")
    }

    fn read(lines: &str) -> Option<Manifest> {
        let mut lines = lines.lines().skip(1);
        let identity = Id(hex(lines.next()?.strip_prefix("identity ")?)?);
        let commit = lines.next()?.strip_prefix("commit ")?.parse().ok()?;
        let mut records = lines.next()?.strip_prefix("records ")?.split(' ');
        let (file, records_bytes, records_sum) =
            (records.next()?.to_owned(), records.next()?.parse().ok()?, hex(records.next()?)?);
        let refs_at = lines.next()?.strip_prefix("refs-at ")?.parse().ok()?;
        let segments = lines.map(segment_line).collect::<Option<Vec<_>>>()?;
        let head = Head { identity, commit };
        Some(Manifest { head, records: file, records_bytes, records_sum, refs_at, segments })
    }
}

fn segment_line(line: &str) -> Option<SegmentLine> {
    let mut words = line.strip_prefix("segment ")?.split(' ');
    let number = u64::from_str_radix(words.next()?, 16).ok()?;
    let (extents, bytes) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(SegmentLine { number, extents, bytes, sum: hex(words.next()?)? })
}

fn hex(digits: &str) -> Option<u128> {
    u128::from_str_radix(digits, 16).ok()
}

/// The lines of segments, as their extents come by in order.
#[derive(Default)]
pub struct SegmentSums {
    done: Vec<SegmentLine>,
    current: Option<(SegmentLine, Box<Xxh3>)>,
}

impl SegmentSums {
    pub fn take(&mut self, address: Address, bytes: u32, sums: &[u8]) {
        if self.current.as_ref().is_some_and(|(line, _)| line.number != address.segment) {
            self.close();
        }
        let (line, hash) = self.current.get_or_insert_with(|| {
            (SegmentLine { number: address.segment, extents: 0, bytes: 0, sum: 0 }, Box::new(Xxh3::new()))
        });
        line.extents += 1;
        line.bytes += u64::from(bytes);
        hash.update(&address.offset.to_be_bytes());
        hash.update(&bytes.to_be_bytes());
        hash.update(sums);
    }

    fn close(&mut self) {
        self.done.extend(self.current.take().map(|(line, hash)| SegmentLine { sum: hash.digest128(), ..line }));
    }

    pub fn finish(mut self) -> Vec<SegmentLine> {
        self.close();
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_comes_back_and_no_byte_of_it_can_change() {
        let mut sums = SegmentSums::default();
        sums.take(Address { segment: 1, offset: 0 }, 10, b"sums");
        sums.take(Address { segment: 1, offset: 14 }, 10, b"sums");
        sums.take(Address { segment: u64::MAX, offset: 0 }, 5, b"");
        let segments = sums.finish();
        assert_eq!(segments.iter().map(|line| (line.extents, line.bytes)).collect::<Vec<_>>(), [(2, 20), (1, 5)]);
        let manifest = Manifest {
            head: Head { identity: Id(u128::MAX), commit: 7 },
            records: "records-0000000000000001".to_owned(),
            records_bytes: 99,
            records_sum: 3,
            refs_at: 50,
            segments,
        };
        let text = manifest.encode();
        assert_eq!(Manifest::parse(&text), Ok(manifest));
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let changed = String::from_utf8(bytes).expect("ASCII stays ASCII");
            assert!(Manifest::parse(&changed).is_err(), "a flipped bit at {at}");
            assert!(Manifest::parse(&text[..at]).is_err(), "cut at {at}");
        }
        let newer = text.replace(FORMAT_LINE, "lazuli backup 2");
        assert!(Manifest::parse(&newer).expect_err("refused").contains("does not know"));
    }
}
