//! Bodies that tell who wrote them: every byte follows from the value's number and the byte's place, so that a body mixed from two
//! values, cut, or shifted is seen. A window into one long run of chance, so that comparing is as fast as comparing bytes.

use std::sync::OnceLock;

use super::chance::Chance;
use super::history::Value;

/// No body is longer.
pub const BODY_BYTES_MAX: usize = 64 * 1024;
/// A prime, so that neighbouring values are far apart.
const WINDOWS: usize = 65_537;

fn run_of_chance() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let mut chance = Chance::from_seed(0xB0D1E5);
        (0..(WINDOWS + BODY_BYTES_MAX).div_ceil(8)).flat_map(|_| chance.draw().to_le_bytes()).collect()
    })
}

/// The bytes from `offset` on of the body of this value.
pub fn part(value: Value, offset: u64, bytes: usize) -> &'static [u8] {
    let start = (value as usize * 7919) % WINDOWS + offset as usize;
    &run_of_chance()[start..start + bytes]
}

/// Where `got` stops being what it should be.
pub fn first_difference(value: Value, offset: u64, got: &[u8]) -> Option<u64> {
    let expected = part(value, offset, got.len());
    if expected == got {
        return None;
    }
    expected.iter().zip(got).position(|(a, b)| a != b).map(|at| offset + at as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mixed_body_is_seen() {
        let mut mixed = part(1, 0, 10_000).to_vec();
        assert_eq!(first_difference(1, 0, &mixed), None);
        mixed[5_000..].copy_from_slice(part(2, 5_000, 5_000));
        assert!(first_difference(1, 0, &mixed).is_some_and(|at| (5_000..5_010).contains(&at)));
        assert!(first_difference(1, 1, part(1, 0, 100)).is_some());
    }
}
