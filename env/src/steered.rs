//! A clock that follows another one, which can only be asked: all who follow the same one mean the same time.
//!
//! 1. It never goes back: where a measurement finds that it was ahead, it stands still until the time has come.
//! 2. A measurement is wrong by half its round trip at most. One that took long is thrown away.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::clock::Clock;
use crate::timestamp::{TICKS_PER_SECOND, Timestamp};

/// The other clock's time, and when it was asked for and known by the own one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measurement {
    pub asked: Timestamp,
    pub told: Timestamp,
    pub known: Timestamp,
}

/// A longer round trip tells too little.
const ROUND_TRIP_TICKS_MAX: u64 = TICKS_PER_SECOND / 5;

impl Measurement {
    /// How far the other clock is ahead, in ticks; `None` if that cannot be told well enough.
    fn ahead(self) -> Option<i64> {
        let round_trip = self.known.ticks().checked_sub(self.asked.ticks())?;
        let between = self.asked.ticks() + round_trip / 2;
        (round_trip <= ROUND_TRIP_TICKS_MAX).then(|| self.told.ticks().wrapping_sub(between) as i64)
    }
}

/// The own clock, put right by measurements. The own one should be steady.
pub struct SteeredClock {
    own: Arc<dyn Clock>,
    ahead: AtomicI64,
    /// The latest time that was told.
    last: AtomicU64,
}

impl SteeredClock {
    pub fn new(own: Arc<dyn Clock>) -> Self {
        SteeredClock { own, ahead: AtomicI64::new(0), last: AtomicU64::new(0) }
    }

    /// To measure with.
    pub fn own(&self) -> Timestamp {
        self.own.now()
    }

    /// Takes a measurement over; false if it was thrown away.
    pub fn steer(&self, measurement: Measurement) -> bool {
        let ahead = measurement.ahead();
        if let Some(ahead) = ahead {
            self.ahead.store(ahead, Ordering::Release);
        }
        ahead.is_some()
    }
}

impl Clock for SteeredClock {
    fn now(&self) -> Timestamp {
        let ticks = self.own.now().ticks().saturating_add_signed(self.ahead.load(Ordering::Acquire));
        Timestamp::from_ticks(self.last.fetch_max(ticks, Ordering::AcqRel).max(ticks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ScriptedClock;

    #[test]
    fn measurements() {
        let second = TICKS_PER_SECOND;
        for (asked, told, known, expected) in [
            (100, 100, 100, Some(0)),
            (100, 150, 120, Some(40)),
            (100, 50, 120, Some(-60)),
            (
                second,
                9 * second,
                second + ROUND_TRIP_TICKS_MAX,
                Some(8 * second as i64 - ROUND_TRIP_TICKS_MAX as i64 / 2),
            ),
            (second, 9 * second, second + ROUND_TRIP_TICKS_MAX + 1, None),
            (100, 100, 99, None),
        ] {
            let at = Timestamp::from_ticks;
            let measurement = Measurement { asked: at(asked), told: at(told), known: at(known) };
            assert_eq!(measurement.ahead(), expected, "{asked} {told} {known}");
        }
    }

    /// Seconds of the own clock, what the other one said then, and what is shown.
    #[test]
    fn follows_and_never_goes_back() {
        let own = Arc::new(ScriptedClock::at(Timestamp::UNIX_EPOCH));
        let clock = SteeredClock::new(own.clone());
        let at = |seconds| Timestamp::UNIX_EPOCH.plus_seconds(seconds);
        for (now, told, shown) in [
            (0, None, 0),
            (1, Some(11), 11),
            (5, None, 15),
            (6, Some(9), 15), // it was ahead, and stands
            (11, None, 15),
            (13, None, 16),
            (14, Some(100), 100),
        ] {
            own.set(at(now));
            if let Some(told) = told {
                assert!(clock.steer(Measurement { asked: at(now), told: at(told), known: at(now) }));
            }
            assert_eq!(clock.now(), at(shown), "at {now}");
        }
    }
}
