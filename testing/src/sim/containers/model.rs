//! The reference: what a container with its blobs is, and what each call on it must answer. Written from the promises (B1 to B5),
//! not from the server's code.
//!
//! A container and its blobs are one object here, so that "the blobs vanish with their container" is part of the model.

use super::{BLOBS, Claim, Condition, Said, What, asked};
use crate::sim::check;
use crate::sim::history::{Call, CallId, Value};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Blob {
    /// The last value written in this life of the container; 0 is none.
    pub last: Value,
    pub is_there: bool,
}

impl Blob {
    pub fn value(self) -> Option<Value> {
        self.is_there.then_some(self.last)
    }
}

/// One container name. Without a container there are no blobs either.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct State {
    pub container: Option<Value>,
    pub blobs: [Blob; BLOBS.len()],
}

pub struct Model<'a> {
    /// The ETag of each value, as far as anybody saw it.
    pub etags: &'a [Option<u64>],
    /// The length of each value that is a blob's.
    pub lengths: &'a [u64],
}

/// What may come of a call: the reply, and the state after it.
pub type Possible = (Said, State);

impl check::Model for Model<'_> {
    type State = State;
    type Claim = Claim;

    fn after(&self, state: &State, call: &Call, claim: &Claim) -> Vec<State> {
        let holds = match claim {
            Claim::Answered(said) => return self.states(state, call, said),
            Claim::Perhaps => return self.states(state, call, &Said::Done),
            Claim::Blob { blob, shown } => state.container.is_some() && state.blobs[*blob].value() == *shown,
            Claim::OneOf(blobs) => blobs.iter().any(|blob| state.blobs[*blob].is_there),
            Claim::Found => state.container.is_some(),
            Claim::Container(shown) => state.container == *shown,
        };
        if holds { vec![*state] } else { Vec::new() }
    }
}

impl Model<'_> {
    /// The states after the call, if it may be answered so.
    fn states(&self, state: &State, call: &Call, said: &Said) -> Vec<State> {
        let Some((_, what)) = asked(call) else { return Vec::new() };
        let possible = self.possible(state, call.id, what).into_iter().filter(|(possible, _)| possible == said);
        possible.map(|(_, after)| after).collect()
    }

    /// All that the call may do in this state. Listings are judged row by row, not here.
    pub fn possible(&self, state: &State, id: CallId, what: &What) -> Vec<Possible> {
        let same = |reply| vec![(reply, *state)];
        let Some(head) = state.container else {
            if *what == What::CreateContainer {
                return vec![(Said::Done, State { container: Some(id), ..State::default() })];
            }
            return same(Said::ContainerNotFound);
        };
        match *what {
            What::CreateContainer => same(Said::ContainerAlreadyExists),
            What::GetContainer => same(Said::Shown(head)),
            What::SetContainerMetadata(condition) => self.judged(state, condition, Some(head), false, || {
                self.grows(head, id).then_some((Said::Done, State { container: Some(id), ..*state }))
            }),
            What::DeleteContainer(condition) => {
                self.judged(state, condition, Some(head), false, || Some((Said::Done, State::default())))
            }
            _ => self.on_blob(state, id, what),
        }
    }

    fn on_blob(&self, state: &State, id: CallId, what: &What) -> Vec<Possible> {
        match *what {
            What::Put { blob, condition, .. } => {
                let old = state.blobs[blob];
                self.judged(state, condition, old.value(), true, || {
                    // Also over a deletion in between.
                    let grows = old.last == 0 || self.grows(old.last, id);
                    grows.then(|| (Said::Done, with(state, blob, Blob { last: id, is_there: true })))
                })
            }
            What::Delete { blob, condition } => {
                let old = state.blobs[blob];
                if !old.is_there {
                    return vec![(Said::BlobNotFound, *state)];
                }
                self.judged(state, condition, old.value(), false, || {
                    Some((Said::Done, with(state, blob, Blob { is_there: false, ..old })))
                })
            }
            What::Get { blob, condition, range } => self.read(state, blob, condition, range),
            What::Head { blob, condition } => self.read(state, blob, condition, None),
            _ => Vec::new(),
        }
    }

    fn read(
        &self,
        state: &State,
        blob: usize,
        condition: Condition,
        range: Option<(u64, Option<u64>)>,
    ) -> Vec<Possible> {
        let Some(value) = state.blobs[blob].value() else { return vec![(Said::BlobNotFound, *state)] };
        let behind_the_end = range.is_some_and(|(first, _)| first >= self.lengths[value as usize]);
        let said = match (self.holds(condition, value), condition) {
            (true, _) if behind_the_end => Said::InvalidRange,
            (true, _) => Said::Shown(value),
            (false, Condition::IfNoneMatch(_)) => Said::NotModified,
            (false, _) => Said::ConditionNotMet,
        };
        vec![(said, *state)]
    }

    /// A write under a condition. `done` is what it does when the condition holds; `None` if that cannot be.
    fn judged(
        &self,
        state: &State,
        condition: Condition,
        current: Option<Value>,
        creates: bool,
        done: impl Fn() -> Option<Possible>,
    ) -> Vec<Possible> {
        let holds = match (condition, current) {
            (Condition::None, _) | (Condition::IfNoneMatch(_) | Condition::IfNoneMatchAny, None) => true,
            (Condition::IfMatch(_) | Condition::IfMatchAny, None) => false,
            (Condition::IfNoneMatchAny, Some(_)) => !creates,
            (condition, Some(value)) => self.holds(condition, value),
        };
        match (holds, condition, current) {
            (true, ..) => done().into_iter().collect(),
            (false, Condition::IfNoneMatchAny, Some(_)) => vec![(Said::BlobAlreadyExists, *state)],
            (false, ..) => vec![(Said::ConditionNotMet, *state)],
        }
    }

    /// Does the condition hold for this value? If nobody saw its ETag, the one that the client names is another's.
    fn holds(&self, condition: Condition, value: Value) -> bool {
        let own = self.etags[value as usize];
        match condition {
            Condition::None | Condition::IfMatchAny => true,
            Condition::IfMatch(etag) => own == Some(etag),
            Condition::IfNoneMatch(etag) => own != Some(etag),
            Condition::IfNoneMatchAny => false,
        }
    }

    /// Every write has a greater ETag than the one it replaces.
    fn grows(&self, old: Value, new: Value) -> bool {
        match (self.etags[old as usize], self.etags[new as usize]) {
            (Some(old), Some(new)) => new > old,
            _ => true,
        }
    }
}

fn with(state: &State, blob: usize, to: Blob) -> State {
    let mut state = *state;
    state.blobs[blob] = to;
    state
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(container) = self.container else { return write!(f, "no container") };
        write!(f, "{{container #{container}")?;
        for (name, blob) in BLOBS.iter().zip(self.blobs) {
            if let Some(value) = blob.value() {
                write!(f, ", {name} #{value}")?;
            }
        }
        write!(f, "}}")
    }
}
