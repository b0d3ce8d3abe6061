//! Random ids: request ids, incarnations, lease ids.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// 128 bits that nobody else has. Prints as a GUID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Id(pub u128);

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        // By hand: every answer has one, and formatting it in five numbers took longer than finding what was asked for.
        const PLACES: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
        let mut text = [b'-'; 36];
        for (place, byte) in PLACES.into_iter().zip(self.0.to_be_bytes()) {
            text[place] = DIGITS[usize::from(byte >> 4)];
            text[place + 1] = DIGITS[usize::from(byte & 0xf)];
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

pub trait Ids: Send + Sync {
    fn next(&self) -> Id;
}

const POOL_BYTES: usize = 4096;

/// The operating system's random bytes, drawn a page at a time because every request takes an id.
pub struct SystemIds(Mutex<Pool>);

struct Pool {
    bytes: [u8; POOL_BYTES],
    used: usize,
}

impl SystemIds {
    pub fn new() -> Self {
        SystemIds(Mutex::new(Pool { bytes: [0; POOL_BYTES], used: POOL_BYTES }))
    }
}

impl Default for SystemIds {
    fn default() -> Self {
        Self::new()
    }
}

impl Ids for SystemIds {
    fn next(&self) -> Id {
        let mut pool = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if pool.used + 16 > POOL_BYTES {
            #[allow(clippy::disallowed_methods)] // this is the home of chance
            getrandom::fill(&mut pool.bytes).expect("the operating system gives random bytes once it has booted");
            pool.used = 0;
        }
        let start = pool.used;
        pool.used += 16;
        let mut id = [0u8; 16];
        id.copy_from_slice(&pool.bytes[start..start + 16]);
        pool.bytes[start..start + 16].fill(0);
        // Version 4, variant 1, as GUID readers expect of random ones.
        id[6] = id[6] & 0x0f | 0x40;
        id[8] = id[8] & 0x3f | 0x80;
        Id(u128::from_be_bytes(id))
    }
}

/// Random bytes for a secret: a key that nobody can guess.
#[allow(clippy::disallowed_methods)] // this is the home of chance
pub fn secret_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes once it has booted");
    bytes
}

/// Counts from one; the same run gives the same ids.
#[derive(Default)]
pub struct ScriptedIds(AtomicU64);

impl Ids for ScriptedIds {
    fn next(&self) -> Id {
        Id(u128::from(self.0.fetch_add(1, Ordering::SeqCst) + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_guid() {
        assert_eq!(Id(0x0123456789abcdef0123456789abcdef).to_string(), "01234567-89ab-cdef-0123-456789abcdef");
        assert_eq!(ScriptedIds::default().next().to_string(), "00000000-0000-0000-0000-000000000001");
    }

    #[test]
    fn random_ids_differ_and_are_version_4() {
        let ids = SystemIds::new();
        let drawn: std::collections::HashSet<Id> = (0..1000).map(|_| ids.next()).collect();
        assert_eq!(drawn.len(), 1000);
        assert!(drawn.iter().all(|id| id.to_string().as_bytes()[14] == b'4'));
    }
}
