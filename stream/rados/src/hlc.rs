//! Revisions: ticks of 100 ns that never repeat in one process and are greater than every revision the process has seen.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
pub struct Hlc(AtomicU64);

impl Hlc {
    /// A tick no less than `now` and greater than every one drawn or seen before.
    pub fn draw(&self, now: u64) -> u64 {
        let next = |last: u64| now.max(last + 1);
        let before = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| Some(next(last)));
        next(before.unwrap_or_else(|last| last))
    }

    pub fn observe(&self, seen: u64) {
        self.0.fetch_max(seen, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::Hlc;

    #[test]
    fn goes_on_from_the_greatest_it_has_seen() {
        let hlc = Hlc::default();
        assert_eq!(hlc.draw(10), 10);
        assert_eq!(hlc.draw(10), 11);
        assert_eq!(hlc.draw(5), 12, "the clock went back");
        hlc.observe(100);
        hlc.observe(50);
        assert_eq!(hlc.draw(20), 101);
        assert_eq!(hlc.draw(200), 200);
    }
}
