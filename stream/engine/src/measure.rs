//! Counts that anybody may add to at any time, and that cost next to nothing: no lock, nothing allocated.

use std::sync::atomic::{AtomicU64, Ordering};

/// How often values came, by how large they were.
#[derive(Debug)]
pub struct Histogram {
    /// The largest value of each class; what is beyond all of them is in the last one.
    bounds: &'static [u64; CLASSES],
    counts: [AtomicU64; CLASSES + 1],
    sum: AtomicU64,
}

const CLASSES: usize = 16;

/// Ticks of 100 ns, from a tenth of a millisecond to ten seconds.
pub const DURATIONS: [u64; CLASSES] = [
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
];

/// How many there are of something.
pub const SIZES: [u64; CLASSES] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256, 512, 1024];

impl Histogram {
    pub const fn new(bounds: &'static [u64; CLASSES]) -> Histogram {
        Histogram { bounds, counts: [const { AtomicU64::new(0) }; CLASSES + 1], sum: AtomicU64::new(0) }
    }

    /// Of durations, in ticks.
    pub const fn of_durations() -> Histogram {
        Histogram::new(&DURATIONS)
    }

    pub fn add(&self, value: u64) {
        let class = self.bounds.partition_point(|bound| *bound < value);
        self.counts[class].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Bounds, each with how many values were not larger; then how many there were in all, and their sum.
    pub fn read(&self) -> (Vec<(u64, u64)>, u64, u64) {
        let mut before = 0;
        let mut up_to = |count: &AtomicU64| {
            before += count.load(Ordering::Relaxed);
            before
        };
        let classes = self.bounds.iter().zip(&self.counts).map(|(bound, count)| (*bound, up_to(count))).collect();
        let all = up_to(&self.counts[CLASSES]);
        (classes, all, self.sum.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes() {
        let histogram = Histogram::new(&SIZES);
        for value in [0, 1, 2, 5, 1024, 1025, 5000] {
            histogram.add(value);
        }
        let (classes, all, sum) = histogram.read();
        let at = |bound| classes.iter().find(|(other, _)| *other == bound).map(|(_, count)| *count);
        assert_eq!((at(1), at(2), at(4), at(6), at(1024)), (Some(2), Some(3), Some(3), Some(4), Some(5)));
        assert_eq!((all, sum), (7, 7057));
    }
}
