//! The rules of receipts and visibility: values in, values out.

use contract::{ErrorCode, Refusal};
use env::{Id, Timestamp};

use crate::record::Message;

/// How long a message lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeToLive {
    Seconds(u64),
    Forever,
}

impl TimeToLive {
    /// No date is later than the last one the services can write.
    pub fn expiry(self, now: Timestamp) -> Timestamp {
        match self {
            TimeToLive::Seconds(seconds) => now.plus_seconds(seconds).min(Timestamp::MAX),
            TimeToLive::Forever => Timestamp::MAX,
        }
    }
}

impl Message {
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expiry <= now
    }
}

/// May whoever holds `receipt` change the message? An expired message is gone, whether it was removed yet or not; a receipt dies with
/// the next Get or Update.
pub fn judge_receipt(message: Option<&Message>, receipt: Id, now: Timestamp) -> Result<(), Refusal> {
    match message {
        Some(message) if !message.is_expired(now) && message.receipt == receipt => Ok(()),
        // Quirk: the list of errors has PopReceiptMismatch too; the service answers this.
        Some(message) if !message.is_expired(now) => {
            let there = format!(
                "The pop receipt is not the newest: the message was received or updated since ({} times received in all).",
                message.dequeue_count
            );
            Err(ErrorCode::MessageNotFound.because(there))
        }
        _ => Err(ErrorCode::MessageNotFound.into()),
    }
}

/// Update Message may not hide a message beyond its end. (Get Messages may.)
pub fn judge_visibility(message: &Message, next_visible: Timestamp, visibility_seconds: u64) -> Result<(), Refusal> {
    if next_visible > message.expiry {
        let reason = "The message expires before it would be visible again.";
        return Err(Refusal::bad_query("visibilitytimeout", visibility_seconds.to_string(), reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::TICKS_PER_SECOND;

    fn at(second: u64) -> Timestamp {
        Timestamp::from_ticks(second * TICKS_PER_SECOND)
    }

    fn code(result: Result<(), Refusal>) -> &'static str {
        result.map_or_else(|refusal| refusal.code.name(), |()| "ok")
    }

    /// | message (receipt, expiry) | receipt used | at | answer |
    #[test]
    fn receipts() {
        let message = |receipt, expiry| {
            Some(Message {
                id: Id(1),
                inserted: at(0),
                expiry: at(expiry),
                dequeue_count: 1,
                receipt: Id(receipt),
                at_once: false,
            })
        };
        for (stored, used, now, expected) in [
            (message(5, 100), 5, 50, "ok"),
            (message(5, 100), 5, 99, "ok"),
            (message(5, 100), 5, 100, "MessageNotFound"), // expired at that moment
            (message(5, 100), 5, 101, "MessageNotFound"),
            (message(6, 100), 5, 50, "MessageNotFound"), // received or updated since
            (message(5, 100), 7, 50, "MessageNotFound"), // a receipt that never was this message's
            (None, 5, 50, "MessageNotFound"),            // deleted, or never there
        ] {
            assert_eq!(code(judge_receipt(stored.as_ref(), Id(used), at(now))), expected, "{stored:?} {used} {now}");
        }
    }

    #[test]
    fn visibility_of_updates() {
        let message =
            Message { id: Id(1), inserted: at(0), expiry: at(100), dequeue_count: 0, receipt: Id(1), at_once: false };
        for (next_visible, expected) in [(0, "ok"), (99, "ok"), (100, "ok"), (101, "InvalidQueryParameterValue")] {
            assert_eq!(code(judge_visibility(&message, at(next_visible), 1)), expected, "{next_visible}");
        }
    }

    #[test]
    fn lifetimes() {
        for (ttl, expected) in [
            (TimeToLive::Seconds(1), at(11)),
            (TimeToLive::Seconds(604_800), at(604_810)),
            (TimeToLive::Seconds(u64::MAX), Timestamp::MAX),
            (TimeToLive::Forever, Timestamp::MAX),
        ] {
            assert_eq!(ttl.expiry(at(10)), expected);
        }
    }
}
