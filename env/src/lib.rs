//! Time and chance. Everything else is given a `Timestamp` or an id as a plain value, so that a test can script both.

mod clock;
mod ids;
mod steered;
mod timestamp;

pub use clock::{Clock, ScriptedClock, SteadyClock, Stopwatch, SystemClock};
pub use ids::{Id, Ids, ScriptedIds, SystemIds, secret_bytes};
pub use steered::{Measurement, SteeredClock};
pub use timestamp::{TICKS_PER_SECOND, Timestamp};
