//! Policies that keep a blob as it is: what may be done to them. What they do to other operations is in `gate.rs`.

use contract::{ErrorCode, Refusal};
use env::Timestamp;

use crate::record::blob::Immutability;

impl Immutability {
    pub fn holds(self, now: Timestamp) -> bool {
        now < self.until
    }
}

/// A policy in the place of another, or of none. One that is locked can only be made longer.
pub fn set(before: Option<Immutability>, asked: Immutability) -> Result<Immutability, Refusal> {
    match before {
        Some(before) if before.locked && (!asked.locked || asked.until < before.until) => {
            Err(ErrorCode::BlobImmutableDueToPolicy.into())
        }
        _ => Ok(asked),
    }
}

/// One that is locked stays, also when it has run out.
pub fn remove(before: Option<Immutability>) -> Result<(), Refusal> {
    match before {
        Some(before) if before.locked => Err(ErrorCode::BlobImmutableDueToPolicy.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_follow_what() {
        let policy = |text: &str| {
            let (kind, second) = text.split_at_checked(1)?;
            let until = Timestamp::from_ticks(0).plus_seconds(second.parse().ok()?);
            Some(Immutability { until, locked: kind == "L" })
        };
        for line in "
            -   U5 => ok
            -   L5 => ok
            U5  U9 => ok
            U5  U3 => ok
            U5  L3 => ok
            L5  L9 => ok
            L5  L5 => ok
            L5  L3 => refused
            L5  U9 => refused
            L5  U3 => refused
            -   -  => ok
            U5  -  => ok
            L5  -  => refused
        "
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [before, asked, _, expected] = words[..] else { panic!("{line}") };
            let outcome = match policy(asked) {
                Some(asked) => set(policy(before), asked).map(|after| assert_eq!(after, asked)),
                None => remove(policy(before)),
            };
            match outcome {
                Ok(()) => assert_eq!(expected, "ok", "{line}"),
                Err(refusal) => {
                    assert_eq!((refusal.code, expected), (ErrorCode::BlobImmutableDueToPolicy, "refused"), "{line}");
                }
            }
        }
    }

    #[test]
    fn it_runs_out() {
        let policy = Immutability { until: Timestamp::from_ticks(10), locked: true };
        assert!(policy.holds(Timestamp::from_ticks(9)) && !policy.holds(Timestamp::from_ticks(10)));
    }
}
