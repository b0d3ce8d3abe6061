//! Time and chance. Everything else is given a `Timestamp` or an id as a plain value, so that a test can script both.

mod clock;
mod ids;
mod timestamp;

pub use clock::{Clock, ScriptedClock, SystemClock};
pub use ids::{Id, Ids, ScriptedIds, SystemIds};
pub use timestamp::{TICKS_PER_SECOND, Timestamp};
