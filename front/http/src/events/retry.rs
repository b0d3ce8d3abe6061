//! When an event is tried again, and when it is given up: Event Grid's schedule.

use env::Timestamp;
use partition::record::event::PendingEvent;

/// After the first attempt, the second, and so on; then the last again and again.
const PAUSES_SECONDS: [u64; 10] = [10, 30, 60, 300, 600, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600];
const ATTEMPTS_MAX: u32 = 30;
const LIVE_SECONDS: u64 = 24 * 3600;
/// A dead letter that cannot be written is tried again after so long, until so long after the event's day.
const DEAD_LETTER_PAUSE_SECONDS: u64 = 5 * 60;
const DEAD_LETTER_SECONDS: u64 = 4 * 3600;

/// Why an attempt failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failed {
    /// The webhook's answer.
    Status(u16),
    /// Nobody answers there.
    Unreachable(&'static str),
    /// It did not say that it wants events.
    NotValidated(&'static str),
    /// The queue refused it, or storage did.
    Queue(&'static str),
}

impl Failed {
    /// As Event Grid calls it in dead letters.
    pub fn outcome(self) -> &'static str {
        match self {
            Failed::Status(400) => "BadRequest",
            Failed::Status(401) => "Unauthorized",
            Failed::Status(403) => "Forbidden",
            Failed::Status(404) => "NotFound",
            Failed::Status(408) => "TimedOut",
            Failed::Status(413) => "PayloadTooLarge",
            Failed::Status(503) => "Busy",
            Failed::Status(_) => "GenericError",
            Failed::Unreachable(_) => "SocketError",
            Failed::NotValidated(_) => "Unauthorized",
            Failed::Queue(code) => code,
        }
    }

    /// Why no attempt will be better.
    fn final_reason(self) -> Option<&'static str> {
        match self {
            Failed::Status(400) => Some("UndeliverableDueToHttpBadRequest"),
            Failed::Status(401) => Some("UndeliverableDueToHttpUnauthorized"),
            Failed::Status(403) => Some("UndeliverableDueToHttpForbidden"),
            Failed::Status(413) | Failed::Queue(TOO_LARGE) => Some("UndeliverableDueToHttpRequestEntityTooLarge"),
            _ => None,
        }
    }

    fn pause_seconds_min(self) -> u64 {
        match self {
            Failed::Status(404) => 300,
            Failed::Status(408) => 120,
            Failed::Status(503) => 30,
            _ => 10,
        }
    }
}

/// What a queue says of a message that is too large.
pub const TOO_LARGE: &str = "PayloadTooLarge";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    At(Timestamp),
    GiveUp(&'static str),
}

pub fn end(pending: &PendingEvent) -> Timestamp {
    pending.event.time.plus_seconds(LIVE_SECONDS)
}

/// Why it is not to be tried any more, before another attempt.
pub fn is_over(pending: &PendingEvent, now: Timestamp) -> Option<&'static str> {
    if pending.attempts >= ATTEMPTS_MAX {
        Some("MaxDeliveryAttemptsExceeded")
    } else if now >= end(pending) {
        Some("TimeToLiveExceeded")
    } else {
        None
    }
}

/// After an attempt that failed, which is counted already.
pub fn next(pending: &PendingEvent, failed: Failed, now: Timestamp) -> Next {
    if let Some(reason) = failed.final_reason().or_else(|| is_over(pending, now)) {
        return Next::GiveUp(reason);
    }
    let nth = usize::try_from(pending.attempts).unwrap_or(usize::MAX).saturating_sub(1);
    let pause = PAUSES_SECONDS[nth.min(PAUSES_SECONDS.len() - 1)].max(failed.pause_seconds_min());
    Next::At(now.plus_seconds(pause).min(end(pending)))
}

/// When a dead letter is tried again that could not be written; `None`: no more.
pub fn dead_letter_again(pending: &PendingEvent, now: Timestamp) -> Option<Timestamp> {
    let again = now.plus_seconds(DEAD_LETTER_PAUSE_SECONDS);
    (again < end(pending).plus_seconds(DEAD_LETTER_SECONDS)).then_some(again)
}
