//! What a lease is (promises B6 to B8), for blobs and for files: whoever holds it excludes all others, until it is over.
//!
//! What a server took for the time is known as a span, so a lease may be in several states at once; each gives its own outcome.

use super::history::Span;
use crate::Request;

/// Leases by the number of their ids.
pub type Id = u8;

const IDS: [&str; 3] = [
    "aaaaaaaa-0000-4000-8000-000000000001",
    "bbbbbbbb-0000-4000-8000-000000000002",
    "cccccccc-0000-4000-8000-000000000003",
];

pub fn text(id: Id) -> &'static str {
    IDS[usize::from(id)]
}

pub const IDS_MADE: Id = IDS.len() as Id;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// `None` for a lease without end.
    Acquire {
        id: Id,
        seconds: Option<u64>,
    },
    Renew {
        id: Id,
    },
    Change {
        id: Id,
        to: Id,
    },
    Release {
        id: Id,
    },
    Break {
        seconds: Option<u64>,
    },
}

impl Action {
    /// The headers that ask for it.
    pub fn on(self, request: Request) -> Request {
        let request = request.parameter("comp", "lease");
        let named = |request: Request, action: &str, id: Id| {
            request.header("x-ms-lease-action", action).header("x-ms-lease-id", text(id))
        };
        match self {
            Action::Acquire { id, seconds } => request
                .header("x-ms-lease-action", "acquire")
                .header("x-ms-proposed-lease-id", text(id))
                .header("x-ms-lease-duration", seconds.map_or("-1".into(), |seconds| seconds.to_string())),
            Action::Renew { id } => named(request, "renew", id),
            Action::Change { id, to } => named(request, "change", id).header("x-ms-proposed-lease-id", text(to)),
            Action::Release { id } => named(request, "release", id),
            Action::Break { seconds } => {
                let request = request.header("x-ms-lease-action", "break");
                match seconds {
                    Some(seconds) => request.header("x-ms-lease-break-period", seconds.to_string()),
                    None => request,
                }
            }
        }
    }

    pub fn status(self) -> u16 {
        match self {
            Action::Acquire { .. } => 201,
            Action::Break { .. } => 202,
            _ => 200,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Lease {
    id: Id,
    seconds: Option<u64>,
    /// `None` for one without end.
    expires: Option<Span>,
    /// Once it is broken: when others can take it.
    breaks: Option<Span>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    Available,
    Leased,
    Breaking,
    Broken,
    Expired,
}

/// What the lease may be at this time.
fn at(lease: Option<&Lease>, now: Span) -> Vec<At> {
    let either = |moment: Span, before: At, after: At| {
        let before = moment.may_be_ahead(now).then_some(before);
        before.into_iter().chain(moment.may_be_reached(now).then_some(after)).collect()
    };
    match lease {
        None => vec![At::Available],
        Some(Lease { breaks: Some(breaks), .. }) => either(*breaks, At::Breaking, At::Broken),
        Some(Lease { expires: Some(expires), .. }) => either(*expires, At::Leased, At::Expired),
        Some(_) => vec![At::Leased],
    }
}

/// What a lease is after something was done, or the code of the refusal.
pub type Possible = Result<Option<Lease>, String>;

/// What one of the lease operations may come to.
pub fn act(lease: Option<&Lease>, action: Action, now: Span) -> Vec<Possible> {
    at(lease, now).into_iter().map(|at| act_at(lease, at, action, now)).collect()
}

fn act_at(lease: Option<&Lease>, at: At, action: Action, now: Span) -> Possible {
    let refused = |code: &str| Err(code.to_string());
    let mismatch = || refused("LeaseIdMismatchWithLeaseOperation");
    let started = |id, seconds: Option<u64>| {
        Ok(Some(Lease { id, seconds, expires: seconds.map(|seconds| now.plus_seconds(seconds)), breaks: None }))
    };
    let own = |id| lease.is_some_and(|lease| lease.id == id);
    match (action, at, lease) {
        (Action::Acquire { id, .. }, At::Breaking, _) if own(id) => refused("LeaseIsBreakingAndCannotBeAcquired"),
        (Action::Acquire { id, .. }, At::Leased, _) if !own(id) => refused("LeaseAlreadyPresent"),
        (Action::Acquire { .. }, At::Breaking, _) => refused("LeaseAlreadyPresent"),
        (Action::Acquire { id, seconds }, ..) => started(id, seconds),
        (Action::Renew { id }, ..) if !own(id) => mismatch(),
        (Action::Renew { .. }, At::Breaking | At::Broken, _) => refused("LeaseIsBrokenAndCannotBeRenewed"),
        (Action::Renew { id }, _, Some(lease)) => started(id, lease.seconds),
        (Action::Change { id, to }, At::Leased, Some(lease)) if own(id) || own(to) => {
            Ok(Some(Lease { id: to, ..lease.clone() }))
        }
        (Action::Change { id, .. }, At::Breaking, _) if own(id) => refused("LeaseIsBreakingAndCannotBeChanged"),
        (Action::Change { .. }, At::Leased | At::Breaking, _) => mismatch(),
        (Action::Change { .. } | Action::Break { .. }, At::Available, _) | (Action::Change { .. }, ..) => {
            refused("LeaseNotPresentWithLeaseOperation")
        }
        (Action::Release { id }, ..) if own(id) => Ok(None),
        (Action::Release { .. }, ..) => mismatch(),
        (Action::Break { seconds }, at, Some(lease)) => {
            let asked = seconds.map(|seconds| now.plus_seconds(seconds));
            // What is broken at once is broken by every clock.
            let breaks = match (at, seconds) {
                (At::Leased | At::Breaking, Some(0)) => Span::LONG_AGO,
                (At::Leased, _) => earliest(asked, lease.expires).unwrap_or(Span::LONG_AGO),
                (At::Breaking, _) => earliest(asked, lease.breaks).unwrap_or(Span::LONG_AGO),
                (At::Available | At::Broken | At::Expired, _) => Span::LONG_AGO,
            };
            Ok(Some(Lease { breaks: Some(breaks), ..lease.clone() }))
        }
        (Action::Renew { .. } | Action::Break { .. }, _, None) => mismatch(),
    }
}

fn earliest(one: Option<Span>, other: Option<Span>) -> Option<Span> {
    match (one, other) {
        (Some(one), Some(other)) => Some(Span { least: one.least.min(other.least), most: one.most.min(other.most) }),
        (one, other) => one.or(other),
    }
}

/// What another operation may come to, with the id it was given. A write forgets a lease that is over. `on` ends the codes.
pub fn judge(lease: Option<&Lease>, given: Option<Id>, writes: bool, on: &str, now: Span) -> Vec<Possible> {
    let judged = |at: At| {
        let locked = matches!(at, At::Leased | At::Breaking);
        match (lease, given) {
            (Some(_), None) if locked && writes => Err("LeaseIdMissing".to_string()),
            (None, Some(_)) => Err(format!("LeaseNotPresentWith{on}Operation")),
            (Some(lease), Some(given)) if lease.id != given => Err(format!("LeaseIdMismatchWith{on}Operation")),
            (Some(_), Some(_)) if !locked => Err("LeaseLost".to_string()),
            (lease, _) => Ok(lease.filter(|_| locked || !writes).cloned()),
        }
    };
    at(lease, now).into_iter().map(judged).collect()
}
