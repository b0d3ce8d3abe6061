//! What a share is: its files under their names, who leases them, and what its snapshots keep. One object, because a rename, a
//! listing and a snapshot are about all of them at one moment.

use std::collections::BTreeMap;

use super::{Deed, FILES, Reply, SLOTS, Slots};
use crate::sim::check::{Atom, Model, Violation, search};
use crate::sim::history::{self, Call, History, Outcome, Span, Value};
use crate::sim::lease::{self, Action, Lease, judge};
use crate::sim::smb::opens::{Opens, Rest, Use, changes};
use crate::sim::smb::{self, What};

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct State {
    files: [Option<File>; FILES.len()],
    snapshots: BTreeMap<String, [Option<Slots>; FILES.len()]>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct File {
    slots: Slots,
    lease: Option<Lease>,
    opens: Opens,
}

struct Share<'a>(&'a History);

const DONE: Outcome = Outcome::Answered(history::Reply::File(Reply::Done));

/// One thing that a call says about the share.
#[derive(Debug)]
pub enum Claim {
    Answered(Reply),
    /// The call, done or not.
    Unknown,
    /// This open is no more: its client left, or the server did.
    Lost(Value),
    /// If the file was to go with this open, it is gone.
    Removed(Value),
}

pub fn check(history: &History) -> Result<(), Violation> {
    let atoms = history.calls().iter().flat_map(atoms).collect();
    search(&Share(history), State::default(), atoms)
}

/// A file that is to be deleted goes in two steps: nobody may have it any more, and then it is gone. Opens that are lost together
/// are closed one by one.
fn atoms(call: &Call) -> Vec<Atom<'_, Claim>> {
    let history::Deed::File(deed) = &call.deed else { return Vec::new() };
    match (deed, &call.outcome) {
        (Deed::Smb(smb::Deed::Lost { opens, by_crash }), _) => {
            let removed = opens.iter().filter(|_| !by_crash).map(|open| Claim::Removed(*open));
            let lost = opens.iter().map(|open| Claim::Lost(*open));
            lost.chain(removed).map(|claim| Atom::effect(call, claim)).collect()
        }
        (_, Outcome::Answered(history::Reply::File(reply @ (Reply::Done | Reply::Snapped(_))))) => {
            let done = Some(Atom::effect(call, Claim::Answered(reply.clone())));
            done.into_iter().chain(closed(deed).map(|open| Atom::effect(call, Claim::Removed(open)))).collect()
        }
        (_, Outcome::Answered(history::Reply::File(reply))) => vec![Atom::look(call, Claim::Answered(reply.clone()))],
        // A snapshot that nobody can name is none.
        (Deed::Snapshot, _) => Vec::new(),
        // One that failed on the way was open for a moment, and is closed.
        (Deed::Smb(smb::Deed::Open { .. }), _) if call.is_unknown() => {
            let claims = [Claim::Unknown, Claim::Lost(call.id), Claim::Removed(call.id)];
            claims.map(|claim| Atom::perhaps(call, claim)).into()
        }
        _ if call.is_unknown() => {
            let perhaps = Some(Atom::perhaps(call, Claim::Unknown));
            perhaps.into_iter().chain(closed(deed).map(|open| Atom::perhaps(call, Claim::Removed(open)))).collect()
        }
        _ => Vec::new(),
    }
}

/// The open that a call closes.
fn closed(deed: &Deed) -> Option<Value> {
    if let Deed::Smb(smb::Deed::On { open, what: What::Close }) = deed { Some(*open) } else { None }
}

impl Model for Share<'_> {
    type State = State;
    type Claim = Claim;

    fn after(&self, state: &State, call: &Call, claim: &Claim) -> Vec<State> {
        let history::Deed::File(deed) = &call.deed else { return Vec::new() };
        let now = self.0.span(call);
        let holds = |holds: bool| holds.then(|| state.clone()).into_iter().collect();
        let reply = match claim {
            Claim::Answered(reply) => Some(reply),
            Claim::Unknown => None,
            // What changes nothing need not have been.
            Claim::Lost(open) if *open == call.id && state.opened(*open).is_none() => return Vec::new(),
            Claim::Removed(open) if *open == call.id && !state.is_going_with(*open) => return Vec::new(),
            Claim::Lost(open) => return vec![state.lost(*open, deed)],
            Claim::Removed(open) => return state.removed(*open, call.outcome == DONE && closed(deed).is_some()),
        };
        match (reply, deed) {
            (Some(Reply::Refused(code)), _) => holds(state.refusals(deed, now).contains(code)),
            (Some(Reply::Shown(slots)), Deed::Read { file }) => {
                let file = state.files[*file].as_ref().filter(|file| file.opens.refusals(Rest::Read).is_empty());
                holds(file.is_some_and(|file| file.slots == *slots))
            }
            (Some(Reply::Read(slots)), Deed::Smb(smb::Deed::On { open, what: What::Read(range) })) => {
                let free = |file: &&File| !file.opens.is_locked(Some(*open), Use::Read, *range);
                let file = state.opened(*open).map(|(_, file)| file).filter(free);
                holds(file.is_some_and(|file| file.slots[range.indexes()] == **slots))
            }
            (Some(Reply::Shown(slots)), Deed::ReadSnapshot { file, snapshot }) => {
                holds(state.snapshots.get(snapshot).is_some_and(|files| files[*file] == Some(*slots)))
            }
            (Some(Reply::Listed(shown)), Deed::List { directory }) => {
                let here = (0..FILES.len()).filter(|file| FILES[*file].contains('/') == *directory);
                let is_shown = |file: &usize| state.files[*file].as_ref().is_some_and(|file| !file.opens.is_pending);
                holds(here.filter(is_shown).eq(shown.iter().copied()))
            }
            (Some(Reply::Snapped(name)), _) => {
                let mut after = state.clone();
                let kept = state.files.each_ref().map(|file| file.as_ref().map(|file| file.slots));
                after.snapshots.insert(name.clone(), kept).is_none().then_some(after).into_iter().collect()
            }
            (Some(Reply::Done) | None, Deed::Smb(deed)) => state.done_over_smb(deed, call.id, now),
            (Some(Reply::Done) | None, _) => state.done(deed, call.id, now),
            _ => Vec::new(),
        }
    }
}

/// What an operation on a lease does to the file.
fn rest_of(action: Action) -> Rest {
    if let Action::Acquire { .. } = action { Rest::Lease } else { Rest::Nothing }
}

/// The lease of a file is broken at once.
fn at_once(action: Action) -> Action {
    if let Action::Break { .. } = action { Action::Break { seconds: Some(0) } } else { action }
}

impl State {
    fn with(&self, file: usize, to: Option<File>) -> State {
        let mut after = self.clone();
        after.files[file] = to;
        after
    }

    /// What a write with this lease may find: the file, with what is left of its lease.
    fn writable(&self, file: usize, given: Option<lease::Id>, rest: Rest, now: Span) -> Vec<File> {
        let free = |file: &&File| file.opens.refusals(rest).is_empty();
        let Some(file) = self.files[file].as_ref().filter(free) else { return Vec::new() };
        let leases = judge(file.lease.as_ref(), given, true, "File", now).into_iter().filter_map(Result::ok);
        leases.map(|lease| File { lease, ..file.clone() }).collect()
    }

    fn done(&self, deed: &Deed, id: Value, now: Span) -> Vec<State> {
        let fill = |file: &usize, slots: &super::Range, lease: &Option<lease::Id>, value: Value| {
            let filled = |mut found: File| {
                found.slots[slots.indexes()].fill(value);
                self.with(*file, Some(found))
            };
            self.writable(*file, *lease, Rest::Write, now).into_iter().map(filled).collect()
        };
        match deed {
            Deed::Create { file, lease } => match &self.files[*file] {
                None if lease.is_some() => Vec::new(),
                None => vec![self.with(*file, Some(File::default()))],
                Some(_) => {
                    let over = self.writable(*file, *lease, Rest::Replace, now).into_iter();
                    over.map(|old| self.with(*file, Some(File { slots: [0; SLOTS], ..old }))).collect()
                }
            },
            Deed::Write { file, slots, lease } => fill(file, slots, lease, id),
            Deed::Clear { file, slots, lease } => fill(file, slots, lease, 0),
            Deed::Delete { file, lease } => {
                self.writable(*file, *lease, Rest::Delete, now).into_iter().map(|_| self.with(*file, None)).collect()
            }
            Deed::Rename { from, to, replaces } => {
                let free =
                    self.files[*to].is_none() || (*replaces && !self.writable(*to, None, Rest::Delete, now).is_empty());
                let moved = |file| self.with(*from, None).with(*to, Some(file));
                self.writable(*from, None, Rest::Rename, now).into_iter().filter(|_| free).map(moved).collect()
            }
            Deed::Lease { file, action } => {
                let free = |file: &&File| file.opens.refusals(rest_of(*action)).is_empty();
                let Some(found) = self.files[*file].as_ref().filter(free) else { return Vec::new() };
                let outcomes =
                    lease::act(found.lease.as_ref(), at_once(*action), now).into_iter().filter_map(Result::ok);
                outcomes.map(|lease| self.with(*file, Some(File { lease, ..found.clone() }))).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Everything that stands in the way.
    fn refusals(&self, deed: &Deed, now: Span) -> Vec<String> {
        let errors = |possible: Vec<lease::Possible>| possible.into_iter().filter_map(Result::err).collect();
        let not_found = || vec!["ResourceNotFound".to_string()];
        let barred = |file: usize, given: Option<lease::Id>, rest: Rest| -> Vec<String> {
            let Some(file) = &self.files[file] else { return not_found() };
            let mut codes: Vec<String> = errors(judge(file.lease.as_ref(), given, true, "File", now));
            codes.extend(file.opens.refusals(rest));
            codes
        };
        match deed {
            Deed::Create { file, lease } if self.files[*file].is_some() => barred(*file, *lease, Rest::Replace),
            Deed::Create { lease: Some(_), .. } => vec!["LeaseNotPresentWithFileOperation".into()],
            Deed::Create { .. } => Vec::new(),
            Deed::Write { file, lease, .. } | Deed::Clear { file, lease, .. } => barred(*file, *lease, Rest::Write),
            Deed::Delete { file, lease } => barred(*file, *lease, Rest::Delete),
            Deed::Read { file } => {
                self.files[*file].as_ref().map_or_else(not_found, |file| file.opens.refusals(Rest::Read))
            }
            Deed::ReadSnapshot { file, snapshot } => {
                let there = self.snapshots.get(snapshot).is_some_and(|files| files[*file].is_some());
                if there { Vec::new() } else { not_found() }
            }
            Deed::Rename { from, to, replaces } => {
                let mut codes = barred(*from, None, Rest::Rename);
                match &self.files[*to] {
                    None => {}
                    Some(_) if *replaces => codes.extend(barred(*to, None, Rest::Delete)),
                    Some(_) => codes.push("ResourceAlreadyExists".into()),
                }
                codes
            }
            Deed::Lease { file, action } => match &self.files[*file] {
                None => not_found(),
                Some(file) => {
                    let mut codes: Vec<String> = errors(lease::act(file.lease.as_ref(), at_once(*action), now));
                    codes.extend(file.opens.refusals(rest_of(*action)));
                    codes
                }
            },
            Deed::Smb(deed) => self.refusals_over_smb(deed, now),
            _ => Vec::new(),
        }
    }
}

/// The same over SMB.
impl State {
    /// The file that this is open on.
    fn opened(&self, open: Value) -> Option<(usize, &File)> {
        let files = self.files.iter().enumerate();
        files.filter_map(|(at, file)| Some((at, file.as_ref()?))).find(|(_, file)| file.opens.has(open))
    }

    fn done_over_smb(&self, deed: &smb::Deed, id: Value, now: Span) -> Vec<State> {
        if !self.refusals_over_smb(deed, now).is_empty() {
            return Vec::new();
        }
        match deed {
            smb::Deed::Open { file, claim } => {
                let open = |found: &File| {
                    let mut found = found.clone();
                    found.opens.open(id, *claim);
                    self.with(*file, Some(found))
                };
                self.files[*file].iter().map(open).collect()
            }
            smb::Deed::On { open, what } => {
                self.opened(*open).map_or(Vec::new(), |(at, file)| self.worked(at, file.clone(), *open, *what, id, now))
            }
            smb::Deed::Lost { .. } => Vec::new(),
        }
    }

    /// What is done through an open that nothing stands in the way of.
    fn worked(&self, at: usize, mut file: File, open: Value, what: What, id: Value, now: Span) -> Vec<State> {
        match what {
            What::Read(_) => {}
            What::Write(range) => {
                file.slots[range.indexes()].fill(id);
                // As any write it forgets a lease that is over.
                let leases = judge(file.lease.as_ref(), None, true, "File", now).into_iter();
                let leases = leases.map(|over| over.unwrap_or_else(|_| file.lease.clone()));
                return leases.map(|lease| self.with(at, Some(File { lease, ..file.clone() }))).collect();
            }
            What::Lock { range, exclusive } => file.opens.lock(open, range, exclusive),
            What::Unlock(range) => {
                let unlocked = file.opens.unlocked(open, range).into_iter();
                return unlocked.map(|opens| self.with(at, Some(File { opens, ..file.clone() }))).collect();
            }
            What::SetPending(is_pending) => file.opens.is_pending = is_pending,
            What::Close => file.opens.close(open),
        }
        vec![self.with(at, Some(file))]
    }

    fn lost(&self, open: Value, deed: &Deed) -> State {
        let mut after = self.clone();
        let by_crash = matches!(deed, Deed::Smb(smb::Deed::Lost { by_crash: true, .. }));
        for file in after.files.iter_mut().flatten() {
            match by_crash {
                true if file.opens.has(open) || file.opens.goes_with(open) => file.opens.forget(open),
                false if file.opens.has(open) => file.opens.close(open),
                _ => {}
            }
        }
        after
    }

    fn is_going_with(&self, open: Value) -> bool {
        self.files.iter().flatten().any(|file| file.opens.goes_with(open))
    }

    /// Unless that is certain, storage may have failed when the file was to go.
    fn removed(&self, open: Value, is_certain: bool) -> Vec<State> {
        if self.opened(open).is_some() {
            return Vec::new();
        }
        let goes = |file: &Option<File>| file.as_ref().is_some_and(|file| file.opens.goes_with(open));
        let Some(at) = self.files.iter().position(goes) else { return vec![self.clone()] };
        let stays = self.files[at].clone().filter(|_| !is_certain).map(|mut file| {
            file.opens.stay();
            self.with(at, Some(file))
        });
        stays.into_iter().chain([self.with(at, None)]).collect()
    }

    fn refusals_over_smb(&self, deed: &smb::Deed, now: Span) -> Vec<String> {
        let mut names = Vec::new();
        match deed {
            smb::Deed::Open { file, claim } => match &self.files[*file] {
                None => names.push("OBJECT_NAME_NOT_FOUND"),
                Some(file) => {
                    let leased = judge(file.lease.as_ref(), None, true, "File", now);
                    if file.opens.is_pending {
                        names.push("DELETE_PENDING");
                    }
                    if !file.opens.admits(*claim) || changes(claim.access) && leased.iter().any(Result::is_err) {
                        names.push("SHARING_VIOLATION");
                    }
                }
            },
            smb::Deed::On { open, what } => {
                let locked = |usage, range| {
                    self.opened(*open).is_some_and(|(_, file)| file.opens.is_locked(Some(*open), usage, range))
                };
                match *what {
                    What::Read(range) if locked(Use::Read, range) => names.push("FILE_LOCK_CONFLICT"),
                    What::Write(range) if locked(Use::Write, range) => names.push("FILE_LOCK_CONFLICT"),
                    What::Lock { range, exclusive } if locked(Use::Lock { exclusive }, range) => {
                        names.push("LOCK_NOT_GRANTED");
                    }
                    What::Unlock(range) => {
                        let held =
                            self.opened(*open).is_some_and(|(_, file)| !file.opens.unlocked(*open, range).is_empty());
                        names.extend((!held).then_some("RANGE_NOT_LOCKED"));
                    }
                    _ => {}
                }
            }
            smb::Deed::Lost { .. } => {}
        }
        names.into_iter().map(str::to_string).collect()
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
