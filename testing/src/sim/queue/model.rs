//! What a message is (promises Q1 and Q2): one that is put is received by one consumer at a time, as long as it is hidden nobody
//! else gets it, and only the latest receipt changes it.
//!
//! A consumer who got fewer messages than it asked for says of every other message that there was none to be had.

use super::{Deed, Held, Message, Reply};
use crate::sim::check::{Atom, Kind, Model, Violation, search};
use crate::sim::history::{self, Call, History, Outcome, Span, Value};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum State {
    NotYet,
    There(There),
    Gone,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct There {
    /// The call that wrote its text.
    writer: Value,
    /// `None` if nobody was told.
    receipt: Option<String>,
    visible: Span,
    /// `None` if it outlives the run.
    expires: Option<Span>,
    dequeued: u64,
}

#[derive(Debug)]
pub enum Claim {
    Put(Option<Held>),
    /// Received as this; `None` if nobody knows.
    Taken(Option<Message>),
    Seen(Message),
    /// It would have been shown.
    Unseen,
    Updated(Option<Held>),
    Deleted,
    NotFound,
    BeyondItsEnd,
    Cleared,
}

struct Of<'a>(&'a History);

pub fn check(history: &History) -> Result<(), Violation> {
    for call in history.calls() {
        for message in shown(call) {
            let root = history.call(message.held.root).map(|call| &call.deed);
            if !matches!(root, Some(history::Deed::Queue(Deed::Put { .. }))) {
                let what = format!("nobody put #{}, says {call}", message.held.root);
                return Err(Violation { kind: Kind::UnknownValue, what, before: Vec::new() });
            }
        }
    }
    let puts = history.calls().iter().filter(|call| matches!(call.deed, history::Deed::Queue(Deed::Put { .. })));
    for put in puts {
        let meanwhile = history.calls().iter().filter(|call| call.ended().is_none_or(|ended| ended > put.began));
        let atoms = meanwhile.filter_map(|call| atom(call, put.id)).collect();
        search(&Of(history), State::NotYet, atoms)?;
    }
    Ok(())
}

fn shown(call: &Call) -> &[Message] {
    if let Outcome::Answered(history::Reply::Queue(Reply::Shown(messages))) = &call.outcome { messages } else { &[] }
}

/// What a call says about the message that was put by the call `root`.
fn atom(call: &Call, root: Value) -> Option<Atom<'_, Claim>> {
    let history::Deed::Queue(deed) = &call.deed else { return None };
    let concerns = match deed {
        Deed::Put { .. } => call.id == root,
        Deed::Update { held, .. } | Deed::Delete { held } => held.root == root,
        Deed::Get { .. } | Deed::Peek { .. } | Deed::Clear => true,
    };
    if !concerns {
        return None;
    }
    let reply = match &call.outcome {
        Outcome::Answered(history::Reply::Queue(reply)) => reply,
        _ if call.is_unknown() => return Some(Atom::perhaps(call, unknown(deed))),
        _ => return None,
    };
    Some(match (deed, reply) {
        (Deed::Put { .. }, Reply::Written(held)) => Atom::effect(call, Claim::Put(Some(held.clone()))),
        (Deed::Update { .. }, Reply::Written(held)) => Atom::effect(call, Claim::Updated(Some(held.clone()))),
        (Deed::Delete { .. }, Reply::Done) => Atom::effect(call, Claim::Deleted),
        (Deed::Clear, Reply::Done) => Atom::effect(call, Claim::Cleared),
        (_, Reply::NotFound) => Atom::look(call, Claim::NotFound),
        (_, Reply::BeyondItsEnd) => Atom::look(call, Claim::BeyondItsEnd),
        (Deed::Get { count, .. } | Deed::Peek { count }, Reply::Shown(messages)) => {
            let message = messages.iter().find(|message| message.held.root == root).cloned();
            match message {
                Some(message) if deed.writes() => Atom::effect(call, Claim::Taken(Some(message))),
                Some(message) => Atom::look(call, Claim::Seen(message)),
                None if messages.len() < *count => Atom::look(call, Claim::Unseen),
                None => return None,
            }
        }
        _ => return None,
    })
}

fn unknown(deed: &Deed) -> Claim {
    match deed {
        Deed::Put { .. } => Claim::Put(None),
        Deed::Get { .. } | Deed::Peek { .. } => Claim::Taken(None),
        Deed::Update { .. } => Claim::Updated(None),
        Deed::Delete { .. } => Claim::Deleted,
        Deed::Clear => Claim::Cleared,
    }
}

impl Model for Of<'_> {
    type State = State;
    type Claim = Claim;

    fn after(&self, state: &State, call: &Call, claim: &Claim) -> Vec<State> {
        let history::Deed::Queue(deed) = &call.deed else { return Vec::new() };
        let now = self.0.span(call);
        let next = match (state, claim) {
            (State::NotYet, Claim::Put(held)) => put(deed, call.id, held.as_ref(), now),
            (State::NotYet | State::Gone, Claim::Unseen | Claim::NotFound | Claim::Cleared) => Some(state.clone()),
            (State::There(there), claim) => there.after(deed, claim, call.id, now, self.0.latest(call)),
            _ => None,
        };
        next.into_iter().collect()
    }
}

/// What is not hidden at all is visible by every clock.
fn hidden_until(seconds: u64, now: Span) -> Span {
    if seconds == 0 { Span::LONG_AGO } else { now.plus_seconds(seconds) }
}

fn put(deed: &Deed, writer: Value, held: Option<&Held>, now: Span) -> Option<State> {
    let Deed::Put { hidden_seconds, life_seconds } = deed else { return None };
    Some(State::There(There {
        writer,
        receipt: held.map(|held| held.receipt.clone()),
        visible: hidden_until(*hidden_seconds, now),
        expires: life_seconds.map(|life| now.plus_seconds(life)),
        dequeued: 0,
    }))
}

impl There {
    /// `latest` is the latest time that any gateway took for now: what expired by then may be removed for good.
    fn after(&self, deed: &Deed, claim: &Claim, id: Value, now: Span, latest: u64) -> Option<State> {
        let may_be_alive = self.expires.is_none_or(|expires| expires.may_be_ahead(now));
        let may_be_removed = self.expires.is_some_and(|expires| expires.least <= latest);
        let may_be_visible = self.visible.may_be_reached(now) && may_be_alive;
        let is_as =
            |message: &Message, taken: u64| message.writer == self.writer && message.dequeued == self.dequeued + taken;
        let is_held = match deed {
            Deed::Update { held, .. } | Deed::Delete { held } => Some(&held.receipt) == self.receipt.as_ref(),
            _ => false,
        };
        let same = || Some(State::There(self.clone()));
        let hidden = |receipt: Option<&Held>| {
            let (Deed::Get { hidden_seconds, .. } | Deed::Update { hidden_seconds, .. }) = deed else { return None };
            let receipt = receipt.map(|held| held.receipt.clone());
            Some(There { receipt, visible: hidden_until(*hidden_seconds, now), ..self.clone() })
        };
        match claim {
            Claim::Taken(None) if may_be_visible => {
                hidden(None).map(|there| State::There(There { dequeued: self.dequeued + 1, ..there }))
            }
            Claim::Taken(Some(message)) if may_be_visible && is_as(message, 1) => {
                hidden(Some(&message.held)).map(|there| State::There(There { dequeued: self.dequeued + 1, ..there }))
            }
            Claim::Seen(message) if may_be_visible && is_as(message, 0) => same(),
            Claim::Unseen if self.visible.may_be_ahead(now) || may_be_removed => same(),
            Claim::Updated(held) if is_held && may_be_alive => {
                hidden(held.as_ref()).map(|there| State::There(There { writer: id, ..there }))
            }
            Claim::Deleted if is_held && may_be_alive => Some(State::Gone),
            Claim::NotFound if !is_held || may_be_removed => same(),
            Claim::BeyondItsEnd if is_held => {
                let (there, expires) = (hidden(None)?, self.expires?);
                if there.visible.most > expires.least { same() } else { None }
            }
            Claim::Cleared => Some(State::Gone),
            _ => None,
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
