//! The reference: what a container with its blobs is, and what each call on it must answer. Written from the promises (B1 to B5),
//! not from the server's code.
//!
//! A container and its blobs are one object here, so that "the blobs vanish with their container" is part of the model.

use super::history::{BLOBS, Call, Condition, Deed, Reply, Value};

/// What is promised beyond the plain contract.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// No two writes of one resource have the same ETag, and ETags grow also over a deletion in between. Holds for one gateway;
    /// two of them on one store draw their ticks from two counters that do not know of each other.
    pub etags_unique: bool,
}

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
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct State {
    pub container: Option<Value>,
    pub blobs: [Blob; BLOBS.len()],
}

pub struct Model<'a> {
    pub rules: Rules,
    /// The ETag of each value, as far as anybody saw it.
    pub etags: &'a [Option<u64>],
    /// The length of each value that is a blob's.
    pub lengths: &'a [u64],
}

/// What may come of a call: the reply, and the state after it.
pub type Possible = (Reply, State);

impl Model<'_> {
    /// All that the call may do in this state. Listings are judged row by row, not here.
    pub fn possible(&self, state: &State, call: &Call) -> Vec<Possible> {
        let same = |reply| vec![(reply, *state)];
        let Some(head) = state.container else {
            if call.deed == Deed::CreateContainer {
                return vec![(Reply::Done, State { container: Some(call.id), ..State::default() })];
            }
            return same(Reply::ContainerNotFound);
        };
        match call.deed {
            Deed::CreateContainer => same(Reply::ContainerAlreadyExists),
            Deed::GetContainer => same(Reply::Shown(head)),
            Deed::SetContainerMetadata(condition) => self.judged(state, condition, Some(head), false, || {
                self.grows(head, call.id).then_some((Reply::Done, State { container: Some(call.id), ..*state }))
            }),
            Deed::DeleteContainer(condition) => {
                self.judged(state, condition, Some(head), false, || Some((Reply::Done, State::default())))
            }
            _ => self.on_blob(state, call),
        }
    }

    fn on_blob(&self, state: &State, call: &Call) -> Vec<Possible> {
        match call.deed {
            Deed::Put { blob, condition, .. } => {
                let old = state.blobs[blob];
                self.judged(state, condition, old.value(), true, || {
                    let over = old.is_there || self.rules.etags_unique;
                    let grows = !over || old.last == 0 || self.grows(old.last, call.id);
                    grows.then(|| (Reply::Done, with(state, blob, Blob { last: call.id, is_there: true })))
                })
            }
            Deed::Delete { blob, condition } => {
                let old = state.blobs[blob];
                if !old.is_there {
                    return vec![(Reply::BlobNotFound, *state)];
                }
                self.judged(state, condition, old.value(), false, || {
                    Some((Reply::Done, with(state, blob, Blob { is_there: false, ..old })))
                })
            }
            Deed::Get { blob, condition, range } => self.read(state, blob, condition, range),
            Deed::Head { blob, condition } => self.read(state, blob, condition, None),
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
        let Some(value) = state.blobs[blob].value() else { return vec![(Reply::BlobNotFound, *state)] };
        let replies: &[Reply] = match self.matches(condition, value) {
            (_, Tri::Yes) => &[Reply::Done],
            (Condition::IfNoneMatch(_), Tri::No) => &[Reply::NotModified],
            (Condition::IfNoneMatch(_), Tri::Perhaps) => &[Reply::Done, Reply::NotModified],
            (_, Tri::No) => &[Reply::ConditionNotMet],
            (_, Tri::Perhaps) => &[Reply::Done, Reply::ConditionNotMet],
        };
        let behind_the_end = range.is_some_and(|(first, _)| first >= self.lengths[value as usize]);
        let shown = if behind_the_end { Reply::InvalidRange } else { Reply::Shown(value) };
        let replies = replies.iter().map(|reply| if *reply == Reply::Done { shown.clone() } else { reply.clone() });
        replies.map(|reply| (reply, *state)).collect()
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
        let refused = match (condition, current) {
            (Condition::IfNoneMatchAny, Some(_)) => Reply::BlobAlreadyExists,
            _ => Reply::ConditionNotMet,
        };
        let holds = match (condition, current) {
            (Condition::None, _) | (Condition::IfNoneMatch(_) | Condition::IfNoneMatchAny, None) => Tri::Yes,
            (Condition::IfMatch(_) | Condition::IfMatchAny, None) => Tri::No,
            (Condition::IfNoneMatchAny, Some(_)) if creates => Tri::No,
            (Condition::IfNoneMatchAny, Some(_)) => Tri::Yes,
            (condition, Some(value)) => self.matches(condition, value).1,
        };
        let mut possible = Vec::new();
        if holds != Tri::No {
            possible.extend(done());
        }
        if holds != Tri::Yes {
            possible.push((refused, *state));
        }
        possible
    }

    /// Does the condition hold for this value? Handed back with the condition, to be matched on together.
    fn matches(&self, condition: Condition, value: Value) -> (Condition, Tri) {
        let equal = |etag: u64| match self.etags[value as usize] {
            Some(own) if own == etag => Tri::Yes,
            Some(_) => Tri::No,
            // Nobody saw this value's ETag, so the one that the client names was another's.
            None if self.rules.etags_unique => Tri::No,
            None => Tri::Perhaps,
        };
        let holds = match condition {
            Condition::None | Condition::IfMatchAny => Tri::Yes,
            Condition::IfMatch(etag) => equal(etag),
            Condition::IfNoneMatch(etag) => equal(etag).not(),
            Condition::IfNoneMatchAny => Tri::No,
        };
        (condition, holds)
    }

    /// Every write has a greater ETag than the one it replaces.
    fn grows(&self, old: Value, new: Value) -> bool {
        match (self.etags[old as usize], self.etags[new as usize]) {
            (Some(old), Some(new)) => new > old,
            _ => true,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Tri {
    Yes,
    No,
    Perhaps,
}

impl Tri {
    fn not(self) -> Tri {
        match self {
            Tri::Yes => Tri::No,
            Tri::No => Tri::Yes,
            Tri::Perhaps => Tri::Perhaps,
        }
    }
}

fn with(state: &State, blob: usize, to: Blob) -> State {
    let mut state = *state;
    state.blobs[blob] = to;
    state
}
