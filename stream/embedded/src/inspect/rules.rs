//! What must hold of stored rows, each as a function of the rows alone. `None`, or no words: it holds.

use engine::ExtentSlice;

use super::Place;
use crate::extents::stored_bytes;
use crate::key::{self, Address};
use crate::lineage::{IDENTITY_KEY, SEGMENT_KEY};
use crate::note::{Noted, Slots};
use crate::store::{COMMIT_KEY, SWEEP_PREFIX};

/// A record can be read, is no newer than the newest commit, and its slices lie inside their extents. Gives the slices.
pub fn record(place: Option<&Place>, stored: &[u8], newest: u64) -> (Vec<ExtentSlice>, Vec<String>) {
    let mut words = Vec::new();
    if place.is_none() {
        words.push("the key of a record cannot be read".to_owned());
    }
    let Some((revision, slices)) = key::decode_header(stored) else {
        words.push(format!("a record of {} bytes cannot be read", stored.len()));
        return (Vec::new(), words);
    };
    if revision.0 > newest {
        words.push(format!("the record is of commit {}, and the newest is {newest}", revision.0));
    }
    let inside = |slice: &&ExtentSlice| slice.offset + slice.bytes > slice.extent.bytes;
    if let Some(slice) = slices.iter().find(inside) {
        let address = Address::of(slice.extent);
        words.push(format!("the record names bytes beyond the end of its extent at {}", shown(address)));
    }
    (slices, words)
}

/// The references say of a record and an extent what the record says.
pub fn reference(address: Address, bytes: u64, ranges: &[(u64, u64)], found: Option<&[u8]>) -> Option<String> {
    match found {
        None => {
            Some(format!("the record names the extent at {}, and the references do not know of it", shown(address)))
        }
        Some(found) if *found == key::encode_ref(bytes, ranges.iter().copied()) => None,
        Some(_) => Some(format!("the references to the extent at {} are not what the record names", shown(address))),
    }
}

/// A reference is one that its record makes.
pub fn stray_reference(address: Address, slices: Option<&[ExtentSlice]>) -> Option<String> {
    match slices {
        None => Some(format!("a reference to the extent at {} is of a record that is not there", shown(address))),
        Some(slices) if slices.iter().any(|slice| Address::of(slice.extent) == address) => None,
        Some(_) => {
            Some(format!("a reference to the extent at {} is of a record that does not name it", shown(address)))
        }
    }
}

/// Extents in the order of their addresses do not lie over each other, and one address has one length.
pub fn neighbours(last: Option<(Address, u32)>, this: (Address, u32)) -> Option<String> {
    let (last, last_bytes) = last?;
    let (address, bytes) = this;
    if last == address {
        return (last_bytes != bytes).then(|| {
            format!("the extent at {} has {last_bytes} bytes by one record and {bytes} by another", shown(address))
        });
    }
    let is_over = last.segment == address.segment
        && u64::from(last.offset) + stored_bytes(u64::from(last_bytes)) > u64::from(address.offset);
    is_over.then(|| format!("the extents at {} and {} lie over each other", shown(last), shown(address)))
}

/// What is kept of the whole. `highest` is the highest segment that is named.
pub fn meta(key: &[u8], value: &[u8], highest: Option<u64>) -> Option<String> {
    match key {
        COMMIT_KEY => (value.len() != 8).then(|| "the newest commit number cannot be read".to_owned()),
        IDENTITY_KEY => (value.len() != 16).then(|| "the identity of the directory cannot be read".to_owned()),
        SEGMENT_KEY => {
            let Some(noted) = key::u64_at(value, 0).filter(|_| value.len() == 8) else {
                return Some("the highest segment cannot be read".to_owned());
            };
            let beyond = highest.filter(|highest| *highest > noted)?;
            Some(format!("segment {beyond:016x} is named, and the highest ever named is noted as {noted:016x}"))
        }
        _ if key.starts_with(SWEEP_PREFIX) => (!value.is_empty()).then(|| "a group to sweep cannot be read".to_owned()),
        _ => Some(format!("a row that nobody wrote is kept of the whole: {:?}", String::from_utf8_lossy(key))),
    }
}

/// What the durable note says, and what is wrong with it. Both slots are readable once both were written.
pub fn note(slots: &Slots) -> (Noted, Option<String>) {
    let unknown = Noted { number: 0, closed: false, relaxed: false };
    match (slots.found[0], slots.found[1]) {
        (Some(a), Some(b)) => {
            let (turn, noted) = if a.0 > b.0 { a } else { b };
            let words =
                (a.0.abs_diff(b.0) != 1).then(|| format!("its two notes are not of two turns, {turn} is the last"));
            (noted, words)
        }
        (Some((turn, noted)), None) | (None, Some((turn, noted))) => {
            let is_first = turn == 1 && slots.is_other_blank;
            let words = || format!("one of its two notes cannot be read; the other says commit {}", noted.number);
            (noted, (!is_first).then(words))
        }
        (None, None) => (unknown, Some("neither of its two notes can be read".to_owned())),
    }
}

fn shown(Address { segment, offset }: Address) -> String {
    format!("{offset} in segment {segment:016x}")
}
