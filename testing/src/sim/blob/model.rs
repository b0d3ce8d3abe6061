//! What a blob is while it is made: what is committed and what is staged, who has the lease, what its snapshots keep.
//!
//! Where several things stand in the way of a call, any of them may be the one it is refused for.

use std::collections::BTreeMap;

use super::{BLOBS, BLOCKS, Deed, From, LOG, Reply, What};
use crate::sim::check::{Atom, Model, Violation, search};
use crate::sim::history::{self, Call, History, Outcome, Span, Value};
use crate::sim::lease::{self, Lease, judge};

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct State {
    /// The pieces of the blob, if there is one.
    committed: Option<Vec<Piece>>,
    /// The call that staged each block; 0 for none.
    staged: [Value; BLOCKS],
    lease: Option<Lease>,
    snapshots: BTreeMap<String, Vec<Value>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Piece {
    /// `None` if it was not a block.
    block: Option<usize>,
    value: Value,
}

struct Of<'a>(&'a History);

/// What a call was answered; `None` if nobody knows.
pub type Claim = Option<Reply>;

pub fn check(history: &History) -> Result<(), Violation> {
    (0..BLOBS.len()).try_for_each(|blob| {
        let atoms = history.calls().iter().filter_map(|call| atom(call, blob)).collect();
        search(&Of(history), State::default(), atoms)
    })
}

fn atom(call: &Call, blob: usize) -> Option<Atom<'_, Claim>> {
    let history::Deed::Blob(deed) = &call.deed else { return None };
    if deed.blob != blob {
        return None;
    }
    match &call.outcome {
        Outcome::Answered(history::Reply::Blob(reply @ (Reply::Done | Reply::Snapped(_)))) => {
            Some(Atom::effect(call, Some(reply.clone())))
        }
        Outcome::Answered(history::Reply::Blob(reply)) => Some(Atom::look(call, Some(reply.clone()))),
        // A snapshot that nobody can name is none.
        _ => (call.is_unknown() && deed.what != What::Snapshot).then(|| Atom::perhaps(call, None)),
    }
}

impl Model for Of<'_> {
    type State = State;
    type Claim = Claim;

    fn after(&self, state: &State, call: &Call, claim: &Claim) -> Vec<State> {
        let history::Deed::Blob(deed) = &call.deed else { return Vec::new() };
        let now = self.0.span(call);
        match claim {
            Some(Reply::Refused(code)) => {
                let refused = state.refusals(deed, now).contains(code);
                refused.then(|| state.clone()).into_iter().collect()
            }
            Some(Reply::Shown(pieces)) => {
                let shown = state.shown(deed, now).is_some_and(|shown| shown == *pieces);
                shown.then(|| state.clone()).into_iter().collect()
            }
            Some(Reply::Snapped(name)) => state.snapped(name, deed.lease, now).into_iter().collect(),
            Some(Reply::Done) | None => state.done(deed, call.id, now),
        }
    }
}

impl State {
    fn values(&self) -> Option<Vec<Value>> {
        Some(self.committed.as_ref()?.iter().map(|piece| piece.value).collect())
    }

    /// What is nothing but staged blocks can be leased and deleted, too.
    fn is_something(&self) -> bool {
        self.committed.is_some() || self.staged != [0; BLOCKS]
    }

    /// What the lease may be after this, if the lease lets it pass.
    fn let_pass(&self, given: Option<lease::Id>, writes: bool, now: Span) -> Vec<Option<Lease>> {
        judge(self.lease.as_ref(), given, writes, "Blob", now).into_iter().filter_map(Result::ok).collect()
    }

    fn shown(&self, deed: &Deed, now: Span) -> Option<Vec<Value>> {
        match &deed.what {
            What::GetSnapshot(name) => self.snapshots.get(name).cloned(),
            _ => self.values().filter(|_| !self.let_pass(deed.lease, false, now).is_empty()),
        }
    }

    fn snapped(&self, name: &str, given: Option<lease::Id>, now: Span) -> Option<State> {
        let values = self.values().filter(|_| !self.let_pass(given, false, now).is_empty())?;
        let mut after = self.clone();
        after.snapshots.insert(name.to_string(), values).is_none().then_some(after)
    }

    fn done(&self, deed: &Deed, id: Value, now: Span) -> Vec<State> {
        if let What::Lease(action) = deed.what {
            let outcomes = lease::act(self.lease.as_ref(), action, now).into_iter().filter_map(Result::ok);
            let there = self.is_something();
            return outcomes.filter(|_| there).map(|lease| State { lease, ..self.clone() }).collect();
        }
        let Some(after) = self.written(deed, id) else { return Vec::new() };
        let leases = self.let_pass(deed.lease, true, now).into_iter();
        // What is staged is not yet written, and a blob that is gone has no lease.
        let lease = |lease: Option<Lease>| match deed.what {
            What::PutBlock { .. } => self.lease.clone(),
            What::Delete => None,
            _ => lease,
        };
        leases.map(|left| State { lease: lease(left), ..after.clone() }).collect()
    }

    /// What a write makes of it, the lease apart; `None` if it cannot be made.
    fn written(&self, deed: &Deed, value: Value) -> Option<State> {
        let own = Piece { block: None, value };
        let mut after = self.clone();
        match &deed.what {
            What::Put => {
                after.committed = Some(if deed.blob == LOG { Vec::new() } else { vec![own] });
                after.staged = [0; BLOCKS];
            }
            What::PutBlock { block } => after.staged[*block] = value,
            What::PutBlockList(blocks) => {
                after.committed = Some(blocks.iter().map(|named| self.find(*named)).collect::<Option<_>>()?);
                after.staged = [0; BLOCKS];
            }
            What::Append { at } => {
                let pieces = after.committed.as_mut()?;
                if at.is_some_and(|at| at != pieces.len()) {
                    return None;
                }
                pieces.push(own);
            }
            What::Delete => after = self.is_something().then(State::default)?,
            What::Get | What::GetSnapshot(_) | What::Snapshot | What::Lease(_) => return None,
        }
        Some(after)
    }

    /// The block that a list names.
    fn find(&self, (block, from): (usize, From)) -> Option<Piece> {
        let staged = Some(self.staged[block]).filter(|value| *value > 0);
        let staged = staged.map(|value| Piece { block: Some(block), value });
        let committed = self.committed.iter().flatten().find(|piece| piece.block == Some(block)).copied();
        match from {
            From::Committed => committed,
            From::Uncommitted => staged,
            From::Latest => staged.or(committed),
        }
    }

    /// Everything that stands in the way.
    fn refusals(&self, deed: &Deed, now: Span) -> Vec<String> {
        let mut codes: Vec<String> = match deed.what {
            What::GetSnapshot(_) => Vec::new(),
            What::Lease(action) => lease::act(self.lease.as_ref(), action, now),
            _ => {
                let writes = !matches!(deed.what, What::Get | What::Snapshot);
                judge(self.lease.as_ref(), deed.lease, writes, "Blob", now)
            }
        }
        .into_iter()
        .filter_map(Result::err)
        .collect();
        let there = self.committed.is_some();
        match &deed.what {
            What::Lease(_) | What::Delete if !self.is_something() => codes = vec!["BlobNotFound".into()],
            What::Get | What::Snapshot | What::Append { .. } if !there => {
                codes.push("BlobNotFound".into());
            }
            What::GetSnapshot(name) if !self.snapshots.contains_key(name) => codes.push("BlobNotFound".into()),
            What::PutBlockList(blocks) if blocks.iter().any(|named| self.find(*named).is_none()) => {
                codes.push("InvalidBlockList".into());
            }
            What::Append { .. } if self.written(deed, 1).is_none() => {
                codes.push("AppendPositionConditionNotMet".into());
            }
            _ => {}
        }
        codes
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
