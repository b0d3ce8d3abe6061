//! Is there an order of all calls, each between its beginning and its end, in which the model gives every answer that was given?
//!
//! Wing and Gong's question, answered as Lowe does ("Testing for linearizability", 2017): walk through time and keep every
//! *configuration* that explains the history so far: a state, and the set of pending calls that have taken effect in it. A call
//! takes effect as late as it can: when it, or one that needs it, ends. So the work depends on how many calls overlap, not on how
//! long the history is, and when no configuration is left, the call that nothing explains is the one at hand.
//!
//! 1. Each object is searched by itself: a container name, a blob, a message, a partition of a table, a share. Calls on different
//!    ones commute.
//! 2. A call makes *claims* (`Atom`), each true at some moment of it: mostly one, "I was answered so".
//! 3. A claim without effect that fits a configuration's state is counted in at once: waiting longer gains nothing.
//! 4. A call with an unknown outcome may take effect until it ends, or not at all.

use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;

use super::history::{Call, History, Outcome};
use super::{blob, containers, file, queue, table};

/// What an object is, and what may be said about it.
pub trait Model {
    type State: Clone + Eq + Hash + fmt::Debug;
    type Claim;

    /// The states in which a claim that is true in this one may leave it: none if it is not true.
    fn after(&self, state: &Self::State, call: &Call, claim: &Self::Claim) -> Vec<Self::State>;
}

/// One thing to be placed at a moment between a call's beginning and its end.
pub struct Atom<'a, C> {
    call: &'a Call,
    claim: C,
    has_effect: bool,
    is_certain: bool,
}

impl<'a, C> Atom<'a, C> {
    /// It was so, and nothing was changed.
    pub fn look(call: &'a Call, claim: C) -> Atom<'a, C> {
        Atom { call, claim, has_effect: false, is_certain: true }
    }

    /// It was done.
    pub fn effect(call: &'a Call, claim: C) -> Atom<'a, C> {
        Atom { call, claim, has_effect: true, is_certain: true }
    }

    /// It was done or not.
    pub fn perhaps(call: &'a Call, claim: C) -> Atom<'a, C> {
        Atom { call, claim, has_effect: true, is_certain: false }
    }
}

/// Why a history is not one of a right server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    pub kind: Kind,
    pub what: String,
    /// The calls before it on the same object, the last one last.
    pub before: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// No state explains such an answer: a torn body, a malformed listing.
    WrongAnswer,
    /// A value was shown that nobody wrote there.
    UnknownValue,
    /// A value was seen with two ETags.
    EtagChanged,
    /// An ETag was seen on two values of one resource.
    EtagRepeated,
    /// No order of the calls explains the answer.
    NotLinearizable,
    /// Too many explanations to follow; the history says too little.
    TooUncertain,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.before {
            writeln!(f, "    {line}")?;
        }
        write!(f, "{:?}: {}", self.kind, self.what)
    }
}

/// Judges a whole history.
pub fn check(history: &History) -> Result<(), Violation> {
    for call in history.calls() {
        if let Outcome::Wrong(why) = &call.outcome {
            let what = format!("{why}, says {call}");
            return Err(Violation { kind: Kind::WrongAnswer, what, before: Vec::new() });
        }
    }
    containers::check(history)?;
    blob::model::check(history)?;
    queue::model::check(history)?;
    table::model::check(history)?;
    file::model::check(history)
}

/// Judges what was said about one object, which began in the state `start`.
pub fn search<M: Model>(model: &M, start: M::State, atoms: Vec<Atom<'_, M::Claim>>) -> Result<(), Violation> {
    let configurations = vec![Configuration { state: start, placed: 0 }];
    Search { model, atoms, pending: Vec::new(), configurations }.run()
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Configuration<S> {
    state: S,
    /// Which of the pending atoms have been placed.
    placed: u128,
}

const PENDING_MAX: usize = 128;
const CONFIGURATIONS_MAX: usize = 200_000;

struct Search<'a, M: Model> {
    model: &'a M,
    atoms: Vec<Atom<'a, M::Claim>>,
    /// The atoms that have begun and not ended; an atom's place here is its bit.
    pending: Vec<Option<usize>>,
    configurations: Vec<Configuration<M::State>>,
}

impl<M: Model> Search<'_, M> {
    fn run(mut self) -> Result<(), Violation> {
        let mut events = Vec::new();
        for (index, atom) in self.atoms.iter().enumerate() {
            events.push((atom.call.began, index, true));
            events.extend(atom.call.ended().map(|ended| (ended, index, false)));
        }
        events.sort_unstable_by_key(|(time, ..)| *time);
        for (_, atom, begins) in events {
            if begins { self.begin(atom)? } else { self.end(atom)? }
        }
        Ok(())
    }

    fn begin(&mut self, atom: usize) -> Result<(), Violation> {
        let free = self.pending.iter().position(Option::is_none).unwrap_or(self.pending.len());
        if free == PENDING_MAX {
            return Err(self.violation(Kind::TooUncertain, self.atoms[atom].call, "too many calls overlap".into()));
        }
        if free == self.pending.len() {
            self.pending.push(None);
        }
        self.pending[free] = Some(atom);
        let atom = &self.atoms[atom];
        if !atom.has_effect {
            for configuration in &mut self.configurations {
                if !self.model.after(&configuration.state, atom.call, &atom.claim).is_empty() {
                    configuration.placed |= 1 << free;
                }
            }
        }
        Ok(())
    }

    fn end(&mut self, atom: usize) -> Result<(), Violation> {
        let bit = self.pending.iter().position(|pending| *pending == Some(atom)).expect("what ends has begun");
        let mut seen = HashSet::new();
        let mut kept = HashSet::new();
        let mut to_follow = self.configurations.clone();
        while let Some(configuration) = to_follow.pop() {
            if !seen.insert(configuration.clone()) {
                continue;
            }
            if seen.len() > CONFIGURATIONS_MAX {
                return Err(self.violation(Kind::TooUncertain, self.atoms[atom].call, "too many explanations".into()));
            }
            if configuration.placed & (1 << bit) != 0 {
                kept.insert(Configuration { placed: configuration.placed & !(1 << bit), ..configuration });
            } else {
                to_follow.extend(self.after_one_more(&configuration));
            }
        }
        if !self.atoms[atom].is_certain {
            let without = self.configurations.iter().filter(|configuration| configuration.placed & (1 << bit) == 0);
            kept.extend(without.cloned());
        }
        if kept.is_empty() {
            return Err(self.unexplained(self.atoms[atom].call));
        }
        self.pending[bit] = None;
        self.configurations = kept.into_iter().collect();
        Ok(())
    }

    /// The configurations with one more effect in place.
    fn after_one_more(&self, from: &Configuration<M::State>) -> Vec<Configuration<M::State>> {
        let mut after = Vec::new();
        for (bit, atom) in self.open(from.placed) {
            if atom.has_effect {
                let states = self.model.after(&from.state, atom.call, &atom.claim).into_iter();
                after.extend(states.map(|state| self.with_all_that_fit(state, from.placed | 1 << bit)));
            }
        }
        after
    }

    /// Places every pending atom without effect that fits the state.
    fn with_all_that_fit(&self, state: M::State, mut placed: u128) -> Configuration<M::State> {
        for (bit, atom) in self.open(placed) {
            if !atom.has_effect && !self.model.after(&state, atom.call, &atom.claim).is_empty() {
                placed |= 1 << bit;
            }
        }
        Configuration { state, placed }
    }

    /// The pending atoms that are not placed yet.
    fn open(&self, placed: u128) -> impl Iterator<Item = (usize, &Atom<'_, M::Claim>)> {
        let pending = self.pending.iter().enumerate();
        pending
            .filter(move |(bit, _)| placed & (1 << bit) == 0)
            .filter_map(|(bit, pending)| Some((bit, &self.atoms[(*pending)?])))
    }

    fn unexplained(&self, call: &Call) -> Violation {
        let states = self.configurations.iter().map(|configuration| format!("{:?}", configuration.state));
        let mut states: Vec<String> = states.collect();
        states.sort_unstable();
        states.dedup();
        states.truncate(4);
        let what = format!("nothing explains {call}; the state could be {}", states.join(" or "));
        self.violation(Kind::NotLinearizable, call, what)
    }

    fn violation(&self, kind: Kind, call: &Call, what: String) -> Violation {
        let end = call.ended().unwrap_or(u64::MAX);
        let mut before: Vec<&Call> = self.atoms.iter().map(|atom| atom.call).filter(|call| call.began < end).collect();
        before.dedup_by_key(|call| call.id);
        let before = before[before.len().saturating_sub(40)..].iter().map(|call| call.to_string()).collect();
        Violation { kind, what, before }
    }
}
