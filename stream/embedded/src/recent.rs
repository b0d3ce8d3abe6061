//! Bytes of bodies that were read and verified lately, so that what many ask for is neither read nor verified again and again.
//!
//! A read of a segment is answered by the operating system's own cache, too, but copied and summed each time. What is here is handed
//! out as it is. An address is given to one extent for ever, so nothing here can be out of date. One long read does not drive out
//! what is asked for often: that is what the crate's policy is for.

use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::extents::CHUNK_BYTES;
use crate::key::Address;

/// Whole chunks of one extent: the first, and how many bytes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Stretch {
    pub address: Address,
    pub chunk: u64,
    pub bytes: u64,
}

#[derive(Clone)]
struct ByLength;

impl Weighter<Stretch, Bytes> for ByLength {
    fn weight(&self, _stretch: &Stretch, bytes: &Bytes) -> u64 {
        bytes.len() as u64
    }
}

pub struct Recent(Cache<Stretch, Bytes, ByLength>);

impl Recent {
    /// Holds so many bytes at most.
    pub fn new(bytes_max: u64) -> Self {
        Recent(Cache::with_weighter((bytes_max / CHUNK_BYTES) as usize, bytes_max, ByLength))
    }

    pub fn get(&self, stretch: &Stretch) -> Option<Bytes> {
        self.0.get(stretch)
    }

    pub fn keep(&self, stretch: Stretch, bytes: Bytes) {
        self.0.insert(stretch, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(segment: u64, chunk: u64) -> Stretch {
        Stretch { address: Address { segment, offset: 0 }, chunk, bytes: CHUNK_BYTES }
    }

    #[test]
    fn gives_what_it_was_given_and_holds_no_more_than_it_may() {
        let (chunks, recent) = (64, Recent::new(64 * CHUNK_BYTES));
        let body = Bytes::from(vec![7; CHUNK_BYTES as usize]);
        assert!(recent.get(&stretch(1, 0)).is_none());
        recent.keep(stretch(1, 0), body.clone());
        assert_eq!(recent.get(&stretch(1, 0)), Some(body.clone()));
        assert!(recent.get(&stretch(1, 1)).is_none() && recent.get(&stretch(2, 0)).is_none());
        for chunk in 0..100 * chunks {
            recent.keep(stretch(3, chunk), body.clone());
            assert!(recent.0.weight() <= chunks * CHUNK_BYTES);
        }
    }

    #[test]
    fn one_long_read_does_not_drive_out_what_is_asked_for_often() {
        let recent = Recent::new(1024 * CHUNK_BYTES);
        let body = Bytes::from(vec![7; CHUNK_BYTES as usize]);
        for chunk in 0..20 {
            recent.keep(stretch(1, chunk), body.clone());
        }
        for _ in 0..3 {
            assert!((0..20).all(|chunk| recent.get(&stretch(1, chunk)).is_some()));
        }
        (0..4096).for_each(|chunk| recent.keep(stretch(2, chunk), body.clone()));
        let left = (0..20).filter(|chunk| recent.get(&stretch(1, *chunk)).is_some()).count();
        assert!(left >= 15, "{left} of 20");
    }
}
