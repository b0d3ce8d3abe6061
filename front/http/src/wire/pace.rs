//! How long a peer is waited for: never long without a byte, and in all only as long as what it moved is worth.
//!
//! Who sends a byte now and then would otherwise hold a connection, and what belongs to it, for ever. The service gives writes ten
//! minutes for each megabyte and reads two ("Setting timeouts for Blob service operations"); so does this.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

const WRITE_SECONDS_PER_MIB: u64 = 600;
const READ_SECONDS_PER_MIB: u64 = 120;

#[derive(Clone, Copy, Debug)]
pub struct Pace {
    stall: Duration,
    seconds_per_mib: u64,
    moved_bytes: u64,
    waited: Duration,
}

impl Pace {
    /// Of a body that a client sends.
    pub fn of_write(stall: Duration) -> Pace {
        Pace { stall, seconds_per_mib: WRITE_SECONDS_PER_MIB, moved_bytes: 0, waited: Duration::ZERO }
    }

    /// Of an answer that a client takes.
    pub fn of_read(stall: Duration) -> Pace {
        Pace { seconds_per_mib: READ_SECONDS_PER_MIB, ..Pace::of_write(stall) }
    }

    /// So many of the bytes that moved were worth nothing.
    pub fn forget(&mut self, bytes: usize) {
        self.moved_bytes = self.moved_bytes.saturating_sub(bytes as u64);
    }

    /// How long the next bytes may take.
    fn patience(&self) -> Duration {
        let earned = (u128::from(self.moved_bytes) * u128::from(self.seconds_per_mib) * 1_000_000) >> 20;
        let earned = Duration::from_micros(u64::try_from(earned).unwrap_or(u64::MAX));
        self.stall.min(self.stall.saturating_add(earned).saturating_sub(self.waited))
    }

    /// Waits for bytes to move; `None` if it takes too long.
    pub async fn wait<E>(&mut self, moving: impl Future<Output = Result<usize, E>>) -> Option<Result<usize, E>> {
        let mut moving = pin!(moving);
        let moved = match poll_fn(|context| Poll::Ready(moving.as_mut().poll(context))).await {
            // At once, as most do: no clock is asked, no timer set.
            Poll::Ready(moved) => moved,
            Poll::Pending => {
                let begun = Instant::now();
                let moved = tokio::time::timeout(self.patience(), moving).await.ok()?;
                self.waited += begun.elapsed();
                moved
            }
        };
        if let Ok(bytes) = &moved {
            self.moved_bytes += *bytes as u64;
        }
        Some(moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer that moves so many bytes after each so many seconds: after how many seconds is it given up?
    async fn given_up(mut pace: Pace, bytes: usize, seconds: u64, at_most: u64) -> Option<u64> {
        let begun = Instant::now();
        while begun.elapsed().as_secs() < at_most {
            let moving = async {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                Ok::<_, ()>(bytes)
            };
            if pace.wait(moving).await.is_none() {
                return Some(begun.elapsed().as_secs());
            }
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_too_slow_is_given_up() {
        let stall = Duration::from_secs(60);
        for (pace, bytes, seconds, expected) in [
            // Nothing at all.
            (Pace::of_write(stall), 0, 100, Some(60)),
            // A byte now and then.
            (Pace::of_write(stall), 1, 7, Some(60)),
            (Pace::of_read(stall), 1, 59, Some(60)),
            // A megabyte in nine minutes, and in eleven.
            (Pace::of_write(stall), 1 << 16, 33, None),
            (Pace::of_write(stall), 1 << 16, 41, Some(285)),
            // A megabyte in less than two minutes, and in three.
            (Pace::of_read(stall), 1 << 16, 7, None),
            (Pace::of_read(stall), 1 << 16, 12, Some(142)),
        ] {
            assert_eq!(given_up(pace, bytes, seconds, 10_000).await, expected, "{bytes} bytes in {seconds} s");
        }
    }
}
