//! Leases on blobs and containers (promises B6, B7, B8): two pure functions over what is kept of a lease and the time.
//!
//! `act` is what the five lease operations do; `judge_use` is what every other operation asks. Time moves a fixed lease to expired and a
//! breaking one to broken; nothing is written for that, the state is computed from two moments whenever it is asked for.

use contract::names::LeaseId;
use contract::operations::LeaseCheck;
use contract::{ErrorCode, Refusal};
use env::{Id, Timestamp};

/// What is kept of a lease. No lease is `None`: available.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    pub id: LeaseId,
    /// `None` for one without end.
    pub seconds: Option<u32>,
    /// When a fixed lease ends, counted from the last acquire or renew.
    pub expires: Option<Timestamp>,
    /// Set once it is broken: the moment it can be taken by others.
    pub breaks: Option<Timestamp>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaseState {
    Available,
    Leased,
    Breaking,
    Broken,
    Expired,
}

impl LeaseState {
    pub fn of(lease: Option<&Lease>, now: Timestamp) -> LeaseState {
        match lease {
            None => LeaseState::Available,
            Some(Lease { breaks: Some(breaks), .. }) if now < *breaks => LeaseState::Breaking,
            Some(Lease { breaks: Some(_), .. }) => LeaseState::Broken,
            Some(Lease { expires: Some(expires), .. }) if now >= *expires => LeaseState::Expired,
            Some(_) => LeaseState::Leased,
        }
    }

    /// Does it keep others from writing?
    pub fn is_locked(self) -> bool {
        matches!(self, LeaseState::Leased | LeaseState::Breaking)
    }
}

/// One of the lease operations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LeaseAction {
    /// `seconds` is `None` for a lease without end.
    Acquire {
        proposed: Option<LeaseId>,
        seconds: Option<u32>,
    },
    Renew {
        id: LeaseId,
    },
    Change {
        id: LeaseId,
        proposed: LeaseId,
    },
    Release {
        id: LeaseId,
    },
    Break {
        period_seconds: Option<u32>,
    },
}

/// What a lease operation did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Acted {
    pub lease: Option<Lease>,
    /// Whole seconds until a broken lease can be taken.
    pub break_seconds: Option<u64>,
}

/// `fresh` names the lease if the client did not.
pub fn act(lease: Option<&Lease>, action: &LeaseAction, now: Timestamp, fresh: Id) -> Result<Acted, Refusal> {
    let state = LeaseState::of(lease, now);
    let kept = |lease: Lease| Ok(Acted { lease: Some(lease), break_seconds: None });
    match action {
        LeaseAction::Acquire { proposed, seconds } => {
            let is_own = proposed.is_some() && proposed.as_ref() == lease.map(|lease| &lease.id);
            match state {
                LeaseState::Leased if !is_own => return Err(ErrorCode::LeaseAlreadyPresent.because(there(lease, now))),
                LeaseState::Breaking if is_own => {
                    return Err(ErrorCode::LeaseIsBreakingAndCannotBeAcquired.because(there(lease, now)));
                }
                LeaseState::Breaking => return Err(ErrorCode::LeaseAlreadyPresent.because(there(lease, now))),
                _ => {}
            }
            kept(started(proposed.clone().unwrap_or_else(|| LeaseId::from_id(fresh.0)), *seconds, now))
        }
        LeaseAction::Renew { id } => match (lease, state) {
            (Some(other), _) if other.id != *id => {
                Err(ErrorCode::LeaseIdMismatchWithLeaseOperation.because(beside(id, lease, now)))
            }
            (Some(_), LeaseState::Breaking | LeaseState::Broken) => {
                Err(ErrorCode::LeaseIsBrokenAndCannotBeRenewed.because(there(lease, now)))
            }
            (Some(lease), _) => kept(started(lease.id.clone(), lease.seconds, now)),
            (None, _) => Err(ErrorCode::LeaseIdMismatchWithLeaseOperation.because(beside(id, lease, now))),
        },
        LeaseAction::Change { id, proposed } => match (lease, state) {
            (Some(lease), LeaseState::Leased) if lease.id == *id || lease.id == *proposed => {
                kept(Lease { id: proposed.clone(), ..lease.clone() })
            }
            (Some(held), LeaseState::Breaking) if held.id == *id => {
                Err(ErrorCode::LeaseIsBreakingAndCannotBeChanged.because(there(lease, now)))
            }
            (Some(_), LeaseState::Leased | LeaseState::Breaking) => {
                Err(ErrorCode::LeaseIdMismatchWithLeaseOperation.because(beside(id, lease, now)))
            }
            _ => Err(ErrorCode::LeaseNotPresentWithLeaseOperation.because(there(lease, now))),
        },
        LeaseAction::Release { id } => match lease {
            Some(lease) if lease.id == *id => Ok(Acted { lease: None, break_seconds: None }),
            _ => Err(ErrorCode::LeaseIdMismatchWithLeaseOperation.because(beside(id, lease, now))),
        },
        LeaseAction::Break { period_seconds } => {
            let lease = lease.ok_or(ErrorCode::LeaseNotPresentWithLeaseOperation)?;
            let asked = period_seconds.map(|seconds| now.plus_seconds(seconds.into()));
            let breaks = match state {
                LeaseState::Leased => match (asked, lease.expires) {
                    (Some(asked), Some(expires)) => asked.min(expires),
                    (Some(asked), None) => asked,
                    (None, Some(expires)) => expires,
                    (None, None) => now,
                },
                LeaseState::Breaking => {
                    let rest = lease.breaks.unwrap_or(now);
                    asked.map_or(rest, |asked| asked.min(rest))
                }
                _ => now.min(lease.breaks.unwrap_or(now)),
            };
            // Broken at once is broken for every clock, also for one that is behind.
            let breaks = if breaks <= now { BROKEN_AT_ONCE } else { breaks };
            let left = breaks.ticks().saturating_sub(now.ticks()).div_ceil(env::TICKS_PER_SECOND);
            Ok(Acted { lease: Some(Lease { breaks: Some(breaks), ..lease.clone() }), break_seconds: Some(left) })
        }
    }
}

/// What lease there is, in words.
fn there(lease: Option<&Lease>, now: Timestamp) -> String {
    let Some(lease) = lease else { return "there is no lease.".to_string() };
    let id = lease.id.as_str();
    match (LeaseState::of(Some(lease), now), seconds_left(lease, now)) {
        (LeaseState::Leased, Some(left)) => format!("it is leased as {id} for another {left} seconds."),
        (LeaseState::Leased, None) => format!("it is leased as {id} without end."),
        (LeaseState::Breaking, left) => {
            format!("the lease {id} is being broken, for another {} seconds.", left.unwrap_or_default())
        }
        (LeaseState::Broken, _) => format!("the lease {id} was broken."),
        (LeaseState::Expired | LeaseState::Available, _) => format!("the lease {id} has expired."),
    }
}

/// What id was given, and what lease there is.
fn beside(given: &LeaseId, lease: Option<&Lease>, now: Timestamp) -> String {
    format!("The lease id {} was given, and {}", given.as_str(), there(lease, now))
}

/// Whole seconds until a lease that holds ends by itself; `None` for one without end.
pub fn seconds_left(lease: &Lease, now: Timestamp) -> Option<u64> {
    let ends = lease.breaks.or(lease.expires)?;
    Some(ends.ticks().saturating_sub(now.ticks()).div_ceil(env::TICKS_PER_SECOND))
}

/// Before every moment a clock can show.
const BROKEN_AT_ONCE: Timestamp = Timestamp::UNIX_EPOCH;

fn started(id: LeaseId, seconds: Option<u32>, now: Timestamp) -> Lease {
    let expires = seconds.map(|seconds| now.plus_seconds(seconds.into()));
    Lease { id, seconds, expires, breaks: None }
}

/// The codes that differ between blobs, containers and files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseCodes {
    pub not_present: ErrorCode,
    pub mismatch: ErrorCode,
}

pub const OF_BLOB: LeaseCodes = LeaseCodes {
    not_present: ErrorCode::LeaseNotPresentWithBlobOperation,
    mismatch: ErrorCode::LeaseIdMismatchWithBlobOperation,
};

pub const OF_CONTAINER: LeaseCodes = LeaseCodes {
    not_present: ErrorCode::LeaseNotPresentWithContainerOperation,
    mismatch: ErrorCode::LeaseIdMismatchWithContainerOperation,
};

pub const OF_FILE: LeaseCodes = LeaseCodes {
    not_present: ErrorCode::LeaseNotPresentWithFileOperation,
    mismatch: ErrorCode::LeaseIdMismatchWithFileOperation,
};

/// May an operation that asks `check` of the lease go on, with the id it was given?
pub fn judge_use(
    lease: Option<&Lease>,
    given: Option<&LeaseId>,
    check: LeaseCheck,
    codes: LeaseCodes,
    now: Timestamp,
) -> Result<(), Refusal> {
    let state = LeaseState::of(lease, now);
    match (check, lease, given) {
        (LeaseCheck::Ignored | LeaseCheck::Acts, _, _) => Ok(()),
        (LeaseCheck::IfLeased, Some(_), None) if state.is_locked() => {
            Err(ErrorCode::LeaseIdMissing.because(format!("No lease id was given, and {}", there(lease, now))))
        }
        (_, _, None) => Ok(()),
        (_, None, Some(given)) => Err(codes.not_present.because(beside(given, lease, now))),
        (_, Some(held), Some(given)) if held.id != *given => Err(codes.mismatch.because(beside(given, lease, now))),
        (_, Some(_), Some(_)) if state.is_locked() => Ok(()),
        (_, Some(_), Some(given)) => Err(ErrorCode::LeaseLost.because(beside(given, lease, now))),
    }
}

/// What is left of a lease after a write: one that has ended is forgotten.
pub fn after_write(lease: Option<Lease>, now: Timestamp) -> Option<Lease> {
    lease.filter(|lease| LeaseState::of(Some(lease), now).is_locked())
}

#[cfg(test)]
mod tests;
