//! What a partition of a table is (promises T1 to T5 and E2): a few entities that change together, and a query that sees them all
//! as they were at one moment.

use std::collections::HashMap;

use super::{Change, Deed, Entity, How, PARTITIONS, ROWS, Refusal, Reply, Values, What};
use crate::sim::check::{Atom, Kind, Model, Violation, search};
use crate::sim::history::{self, Call, History, Outcome, Value};

pub type State = [Option<Values>; ROWS];

/// The ETag of each entity, by the call that wrote it last, as far as anybody saw it.
type Etags<'a> = HashMap<(usize, usize, Value), &'a str>;

struct Partition<'a> {
    number: usize,
    etags: Etags<'a>,
}

/// What a call was answered; `None` if nobody knows.
pub type Claim = Option<Reply>;

pub fn check(history: &History) -> Result<(), Violation> {
    let mut etags = Etags::new();
    for call in history.calls() {
        let (Some(deed), Some(reply)) = (asked(call), heard(call)) else { continue };
        let mut seen = |row: usize, writer: Value, etag| {
            let known = *etags.entry((deed.partition, row, writer)).or_insert(etag);
            if known == etag {
                return Ok(());
            }
            let what = format!("#{writer} had {known}, now {etag}, says {call}");
            Err(Violation { kind: Kind::EtagChanged, what, before: Vec::new() })
        };
        match reply {
            Reply::Shown(entities) => {
                entities.iter().try_for_each(|entity| seen(entity.row, entity.values.w, &entity.etag))?;
            }
            Reply::Done(made) => {
                let made = deed.changes().iter().zip(made).filter_map(|(change, etag)| Some((change, etag.as_ref()?)));
                made.into_iter().try_for_each(|(change, etag)| seen(change.row, call.id, etag))?;
            }
            Reply::Refused { .. } => {}
        }
    }
    (0..PARTITIONS).try_for_each(|number| {
        let model = Partition { number, etags: etags.clone() };
        let atoms = history.calls().iter().filter_map(|call| atom(call, number)).collect();
        search(&model, State::default(), atoms)
    })
}

fn asked(call: &Call) -> Option<&Deed> {
    if let history::Deed::Table(deed) = &call.deed { Some(deed) } else { None }
}

fn heard(call: &Call) -> Option<&Reply> {
    if let Outcome::Answered(history::Reply::Table(reply)) = &call.outcome { Some(reply) } else { None }
}

fn atom(call: &Call, partition: usize) -> Option<Atom<'_, Claim>> {
    asked(call).filter(|deed| deed.partition == partition)?;
    match heard(call) {
        Some(reply @ Reply::Done(_)) => Some(Atom::effect(call, Some(reply.clone()))),
        Some(reply) => Some(Atom::look(call, Some(reply.clone()))),
        None => call.is_unknown().then(|| Atom::perhaps(call, None)),
    }
}

impl Model for Partition<'_> {
    type State = State;
    type Claim = Claim;

    fn after(&self, state: &State, call: &Call, claim: &Claim) -> Vec<State> {
        let Some(deed) = asked(call) else { return Vec::new() };
        let holds = |holds: bool| if holds { vec![*state] } else { Vec::new() };
        match (&deed.what, claim) {
            (What::Get { row }, Some(Reply::Shown(shown))) => holds(is_shown(state, *row..row + 1, shown)),
            (What::Query, Some(Reply::Shown(shown))) => holds(is_shown(state, 0..ROWS, shown)),
            (What::Change(_) | What::Transaction(_), Some(Reply::Refused { at, why })) => {
                let before = self.after_changes(state, call.id, &deed.changes()[..*at]);
                let refused = before.iter().any(|state| self.refuses(state, &deed.changes()[*at], *why));
                holds(refused)
            }
            (What::Change(_) | What::Transaction(_), Some(Reply::Done(_)) | None) => {
                self.after_changes(state, call.id, deed.changes()).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }
}

fn is_shown(state: &State, rows: std::ops::Range<usize>, shown: &[Entity]) -> bool {
    let there = rows.filter_map(|row| Some((row, state[row]?)));
    there.eq(shown.iter().map(|entity| (entity.row, entity.values)))
}

impl Partition<'_> {
    /// The state after all of them; `None` if one of them cannot be made.
    fn after_changes(&self, state: &State, id: Value, changes: &[Change]) -> Option<State> {
        let mut state = *state;
        for change in changes {
            let here = state[change.row];
            match (&change.how, here) {
                (How::Insert, Some(_)) | (How::Replace(_) | How::Merge(_) | How::Delete(_), None) => return None,
                (How::Replace(etag) | How::Merge(etag) | How::Delete(etag), Some(values)) => {
                    self.matches(change.row, values, etag.as_deref()).may_be.then_some(())?;
                }
                _ => {}
            }
            let replaced = Values { a: id, b: 0, w: id };
            state[change.row] = match change.how {
                How::Insert | How::Replace(_) | How::InsertOrReplace => Some(replaced),
                How::Merge(_) | How::InsertOrMerge => {
                    Some(Values { b: id, w: id, ..here.unwrap_or(Values { a: 0, b: 0, w: 0 }) })
                }
                How::Delete(_) => None,
            };
        }
        Some(state)
    }

    fn refuses(&self, state: &State, change: &Change, why: Refusal) -> bool {
        match (&change.how, state[change.row]) {
            (How::Insert, Some(_)) => why == Refusal::AlreadyExists,
            (How::Replace(_) | How::Merge(_) | How::Delete(_), None) => why == Refusal::NotFound,
            (How::Replace(etag) | How::Merge(etag) | How::Delete(etag), Some(values)) => {
                why == Refusal::ConditionNotMet && !self.matches(change.row, values, etag.as_deref()).must_be
            }
            _ => false,
        }
    }

    /// Has the entity this ETag? Nobody may have seen its own.
    fn matches(&self, row: usize, values: Values, etag: Option<&str>) -> Matches {
        let Some(etag) = etag else { return Matches { may_be: true, must_be: true } };
        match self.etags.get(&(self.number, row, values.w)) {
            Some(own) => Matches { may_be: *own == etag, must_be: *own == etag },
            None => Matches { may_be: true, must_be: false },
        }
    }
}

struct Matches {
    may_be: bool,
    must_be: bool,
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
