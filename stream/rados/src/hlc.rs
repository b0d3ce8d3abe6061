//! Revisions: ticks of 100 ns that are greater than every revision the process has seen, and that no other process draws.
//!
//! The second matters where nothing was seen: an object that was deleted through one process and is made again through another, whose
//! clock is behind, must not meet its old ETag.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use engine::Fault;
use librados::{Look, Objects, OpError, Order, Pool, Step};
use tokio::time::Instant;

use crate::{RETRY_PAUSE, entries, fault, value};

/// How many processes have begun.
const STARTS: &str = "starts";
const COUNT: Bytes = Bytes::from_static(b"count");

pub struct Hlc {
    last: AtomicU64,
    /// What is left of all its ticks, divided by how many processes are told apart.
    number: u64,
    numbers: u64,
}

impl Hlc {
    /// Of the process that is the so-manieth to begin, where so many are told apart: one gets the number of the one that began so many
    /// starts before it.
    pub fn new(starts: u64, numbers: u64) -> Hlc {
        let numbers = numbers.max(1);
        Hlc { last: AtomicU64::default(), number: starts % numbers, numbers }
    }

    /// A tick no less than `now` and greater than every one drawn or seen before.
    pub fn draw(&self, now: u64) -> u64 {
        let next = |last: u64| {
            let least = now.max(last + 1);
            least + (self.numbers + self.number - least % self.numbers) % self.numbers
        };
        let before = self.last.fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| Some(next(last)));
        next(before.unwrap_or_else(|last| last))
    }

    pub fn observe(&self, seen: u64) {
        self.last.fetch_max(seen, Ordering::AcqRel);
    }
}

/// Counts this process; tells how many began before it. One that is counted twice does no harm.
pub async fn count_start(objects: &dyn Objects, patience: Duration) -> Result<u64, Fault> {
    let failed = |error| fault("counting the processes that began", error);
    let deadline = Instant::now() + patience;
    loop {
        let stored = match objects.read(Pool::Records, STARTS, vec![Look::Keys(vec![COUNT])]).await {
            Ok(seen) => entries(seen, 0)?.into_iter().next().map(|(_, value)| value),
            Err(OpError::Missing) => None,
            Err(OpError::Unknown { .. }) if Instant::now() < deadline => {
                tokio::time::sleep(RETRY_PAUSE).await;
                continue;
            }
            Err(error) => return Err(failed(error)),
        };
        let before = match &stored {
            None => 0,
            Some(value) => {
                let bytes = value.as_ref().try_into().ok().map(u64::from_be_bytes);
                bytes.ok_or_else(|| Fault::Corrupt { what: "the count of processes that began".into() })?
            }
        };
        let steps = vec![
            Step::Compare { key: COUNT, order: Order::Equal, value: stored.unwrap_or_default() },
            Step::Put(vec![(COUNT, value::number(before + 1))]),
        ];
        let counted = match objects.write(Pool::Records, STARTS, steps).await {
            Ok(_) => return Ok(before),
            // The very first.
            Err(OpError::Missing) => {
                objects.write(Pool::Records, STARTS, vec![Step::Create { exclusive: false }]).await.map(drop)
            }
            Err(error) => Err(error),
        };
        match counted {
            // Another was faster, or this one was and does not know.
            Ok(()) | Err(OpError::Guard) => {}
            Err(OpError::Unknown { .. }) if Instant::now() < deadline => tokio::time::sleep(RETRY_PAUSE).await,
            Err(error) => return Err(failed(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: u64 = 256;

    #[test]
    fn goes_on_from_the_greatest_it_has_seen() {
        let hlc = Hlc::new(0, NUMBERS);
        let tick = |n: u64| n * NUMBERS;
        assert_eq!(hlc.draw(tick(10)), tick(10));
        assert_eq!(hlc.draw(tick(10)), tick(11));
        assert_eq!(hlc.draw(tick(5)), tick(12), "the clock went back");
        hlc.observe(tick(100));
        hlc.observe(tick(50));
        assert_eq!(hlc.draw(tick(20)), tick(101));
        assert_eq!(hlc.draw(tick(200) - 1), tick(200));
    }

    #[test]
    fn no_two_processes_draw_the_same() {
        let processes: Vec<Hlc> = (0..NUMBERS).map(|starts| Hlc::new(starts + 3 * NUMBERS, NUMBERS)).collect();
        let mut drawn: Vec<u64> =
            (0..4).flat_map(|now| processes.iter().map(move |hlc| hlc.draw(1_000_000 + now))).collect();
        let count = drawn.len();
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn.len(), count);
    }
}
