//! Is there an order of all calls, each between its beginning and its end, in which the model gives every answer that was given?
//!
//! Wing and Gong's question, answered as Lowe does ("Testing for linearizability", 2017): walk through time and keep every
//! *configuration* that explains the history so far: a state, and the set of pending calls that have taken effect in it. A call
//! takes effect as late as it can: when it, or one that needs it, ends. So the work depends on how many calls overlap, not on how
//! long the history is, and when no configuration is left, the call that nothing explains is the one at hand.
//!
//! 1. Each container name is searched by itself; calls on different ones commute.
//! 2. A call without effect that fits a configuration's state is counted in at once: waiting longer gains nothing.
//! 3. A call with an unknown outcome may take effect until it ends, or not at all.
//! 4. A listing promises no common moment for its rows. It is one question per name ("was it there, and as this value?"), each
//!    answered at some moment of the listing.

mod identities;

use std::collections::HashSet;
use std::fmt;

use super::history::{BLOBS, CONTAINERS, Call, Deed, History, Listed, Outcome, Reply, Value};
use super::model::{Model, Rules, State};
use identities::Identities;

/// Why a history is not one of a right server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    pub kind: Kind,
    pub what: String,
    /// The calls before it on the same container, the last one last.
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

pub fn check(history: &History, rules: Rules) -> Result<(), Violation> {
    let identities = Identities::gather(history, rules.etags_unique)?;
    let model = Model { rules, etags: &identities.etags, lengths: &identities.lengths };
    (0..CONTAINERS.len()).try_for_each(|container| Search::new(history, &model, container).run())
}

/// One thing to be placed at a moment between a call's beginning and its end.
struct Atom<'a> {
    call: &'a Call,
    what: What,
}

enum What {
    /// The call, with this answer.
    Answered(Reply),
    /// The call, done or not.
    Perhaps,
    /// A listing showed the blob with this value, or did not show it.
    Blob { blob: usize, shown: Option<Value> },
    /// A listing showed the prefix of these.
    OneOf(Vec<usize>),
    /// A listing found the container.
    Found,
    /// A listing of containers showed this one, or did not.
    Container(Option<Value>),
}

impl What {
    fn has_effect(&self, call: &Call) -> bool {
        match self {
            What::Perhaps => true,
            What::Answered(reply) => *reply == Reply::Done && call.deed.writes(),
            _ => false,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Configuration {
    state: State,
    /// Which of the pending atoms have been placed.
    placed: u128,
}

const PENDING_MAX: usize = 128;
const CONFIGURATIONS_MAX: usize = 200_000;

struct Search<'a> {
    history: &'a History,
    model: &'a Model<'a>,
    container: usize,
    atoms: Vec<Atom<'a>>,
    /// The atoms that have begun and not ended; an atom's place here is its bit.
    pending: Vec<Option<usize>>,
    configurations: Vec<Configuration>,
}

impl<'a> Search<'a> {
    fn new(history: &'a History, model: &'a Model<'a>, container: usize) -> Search<'a> {
        let atoms = history.calls().iter().flat_map(|call| atoms(call, container)).collect();
        let start = Configuration { state: State::default(), placed: 0 };
        Search { history, model, container, atoms, pending: Vec::new(), configurations: vec![start] }
    }

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
        if !self.has_effect(atom) {
            let (atoms, model) = (&self.atoms, self.model);
            for configuration in &mut self.configurations {
                if fits(model, &atoms[atom], &configuration.state) {
                    configuration.placed |= 1 << free;
                }
            }
        }
        Ok(())
    }

    fn end(&mut self, atom: usize) -> Result<(), Violation> {
        let bit = self.pending.iter().position(|pending| *pending == Some(atom)).expect("what ends has begun");
        let optional = matches!(self.atoms[atom].what, What::Perhaps);
        let mut seen: HashSet<Configuration> = HashSet::new();
        let mut kept: HashSet<Configuration> = HashSet::new();
        let mut to_follow = self.configurations.clone();
        while let Some(configuration) = to_follow.pop() {
            if !seen.insert(configuration) {
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
        if optional {
            kept.extend(self.configurations.iter().filter(|configuration| configuration.placed & (1 << bit) == 0));
        }
        if kept.is_empty() {
            let mut states: Vec<State> = self.configurations.iter().map(|configuration| configuration.state).collect();
            states.sort_unstable();
            states.dedup();
            states.truncate(4);
            let states: Vec<String> = states.iter().map(describe).collect();
            let call = self.atoms[atom].call;
            let what = format!("nothing explains {call}; the state could be {}", states.join(" or "));
            return Err(self.violation(Kind::NotLinearizable, call, what));
        }
        self.pending[bit] = None;
        self.configurations = kept.into_iter().collect();
        Ok(())
    }

    /// The configurations with one more effect in place.
    fn after_one_more(&self, from: &Configuration) -> Vec<Configuration> {
        let mut after = Vec::new();
        for (bit, pending) in self.pending.iter().enumerate() {
            let Some(index) = *pending else { continue };
            if from.placed & (1 << bit) != 0 || !self.has_effect(index) {
                continue;
            }
            for (reply, state) in self.model.possible(&from.state, self.atoms[index].call) {
                if reply == Reply::Done {
                    after.push(self.with_all_that_fit(Configuration { state, placed: from.placed | 1 << bit }));
                }
            }
        }
        after
    }

    /// Places every pending atom without effect that fits the state.
    fn with_all_that_fit(&self, mut configuration: Configuration) -> Configuration {
        for (bit, pending) in self.pending.iter().enumerate() {
            let Some(index) = *pending else { continue };
            let open = configuration.placed & (1 << bit) == 0 && !self.has_effect(index);
            if open && fits(self.model, &self.atoms[index], &configuration.state) {
                configuration.placed |= 1 << bit;
            }
        }
        configuration
    }

    fn has_effect(&self, atom: usize) -> bool {
        let Atom { call, what } = &self.atoms[atom];
        what.has_effect(call)
    }

    fn violation(&self, kind: Kind, call: &Call, what: String) -> Violation {
        let end = call.ended().unwrap_or(u64::MAX);
        let concerns = |other: &&Call| {
            other.began < end
                && (other.container == self.container || matches!(other.deed, Deed::ListContainers { .. }))
        };
        let before: Vec<&Call> = self.history.calls().iter().filter(concerns).collect();
        let before = before[before.len().saturating_sub(40)..].iter().map(|call| call.to_string()).collect();
        Violation { kind, what, before }
    }
}

/// Is the answer of this atom, which changes nothing, right in this state?
fn fits(model: &Model<'_>, atom: &Atom<'_>, state: &State) -> bool {
    match &atom.what {
        What::Answered(reply) => model.possible(state, atom.call).iter().any(|(possible, _)| possible == reply),
        What::Blob { blob, shown } => state.container.is_some() && state.blobs[*blob].value() == *shown,
        What::OneOf(blobs) => blobs.iter().any(|blob| state.blobs[*blob].is_there),
        What::Found => state.container.is_some(),
        What::Container(shown) => state.container == *shown,
        What::Perhaps => false,
    }
}

/// What a call claims about this container.
fn atoms<'a>(call: &'a Call, container: usize) -> Vec<Atom<'a>> {
    let here = call.container == container;
    let claims = match (&call.outcome, &call.deed) {
        (Outcome::Answered { reply: Reply::ContainersListed(rows), .. }, _) => {
            let row = rows.iter().find(|row| row.index == container);
            vec![What::Container(row.map(|row| row.value))]
        }
        _ if !here => Vec::new(),
        (Outcome::Answered { reply: Reply::Listed(listed), .. }, Deed::List { prefix, delimiter, .. }) => {
            listing_claims(listed, prefix, *delimiter)
        }
        (Outcome::Answered { reply, .. }, _) => vec![What::Answered(reply.clone())],
        (Outcome::Unknown | Outcome::Open, deed) if deed.writes() => vec![What::Perhaps],
        _ => Vec::new(),
    };
    claims.into_iter().map(|what| Atom { call, what }).collect()
}

fn listing_claims(listed: &Listed, prefix: &str, delimiter: bool) -> Vec<What> {
    let mut claims = vec![What::Found];
    let below = |prefix: &str| (0..BLOBS.len()).filter(|blob| BLOBS[*blob].starts_with(prefix)).collect::<Vec<_>>();
    for shown in &listed.prefixes {
        claims.push(What::OneOf(below(shown)));
    }
    for blob in below(prefix) {
        let collapsed = delimiter && BLOBS[blob][prefix.len()..].contains('/');
        let row = listed.rows.iter().find(|row| row.index == blob);
        let hidden = collapsed && listed.prefixes.iter().any(|shown| BLOBS[blob].starts_with(shown.as_str()));
        if !hidden {
            claims.push(What::Blob { blob, shown: row.map(|row| row.value) });
        }
    }
    claims
}

fn describe(state: &State) -> String {
    let Some(container) = state.container else { return "no container".into() };
    let mut text = format!("{{container #{container}");
    for (name, blob) in BLOBS.iter().zip(state.blobs) {
        if let Some(value) = blob.value() {
            text.push_str(&format!(", {name} #{value}"));
        }
    }
    text.push('}');
    text
}

#[cfg(test)]
mod tests;
