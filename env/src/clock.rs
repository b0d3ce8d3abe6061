//! The clock: the real one, and one that stands still until a test moves it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use crate::timestamp::{TICKS_PER_SECOND, Timestamp};

pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
}

/// The machine's wall clock. It may jump, back as well; nothing that must only grow is taken from it alone.
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)] // this is the home of the clock
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Timestamp::UNIX_EPOCH.plus_ticks((since_epoch.as_nanos() / 100) as u64)
    }
}

/// Begins at the machine's wall clock and goes on steadily, whatever happens to that.
pub struct SteadyClock {
    start: Timestamp,
    since: Instant,
}

impl SteadyClock {
    #[allow(clippy::disallowed_methods)] // this is the home of the clock
    pub fn start() -> Self {
        SteadyClock { start: SystemClock.now(), since: Instant::now() }
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Timestamp {
        self.start.plus_ticks((self.since.elapsed().as_nanos() / 100) as u64)
    }
}

/// How long something took, for whoever measures. Nothing is decided by it.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    #[allow(clippy::disallowed_methods)] // this is the home of the clock
    pub fn start() -> Self {
        Stopwatch(Instant::now())
    }

    /// Ticks of 100 ns since it was started.
    pub fn ticks(self) -> u64 {
        (self.0.elapsed().as_nanos() / 100) as u64
    }
}

/// Stands still until it is told otherwise.
pub struct ScriptedClock(AtomicU64);

impl ScriptedClock {
    pub fn at(start: Timestamp) -> Self {
        ScriptedClock(AtomicU64::new(start.ticks()))
    }

    pub fn set(&self, to: Timestamp) {
        self.0.store(to.ticks(), Ordering::SeqCst);
    }

    pub fn advance_seconds(&self, seconds: u64) {
        self.0.fetch_add(seconds * TICKS_PER_SECOND, Ordering::SeqCst);
    }
}

impl Clock for ScriptedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_ticks(self.0.load(Ordering::SeqCst))
    }
}
