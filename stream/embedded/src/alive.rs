//! Who keeps which extent alive, as far as `refs` cannot say: pins, open views, extents on their way in or out.
//!
//! States of an extent, and their moves:
//!
//! ```text
//! Fresh ------(a commit names it)------> Claimed --(applied)--> no entry: `refs` speaks for it
//!   |                                     ^   ^                     |
//!   | last pin dropped         named again|   |              last reference removed at commit N
//!   v                                     |   |                     v
//! dead <---(no pin, no view older than N)-|- Dying(N) <-------------+
//! ```
//!
//! 1. An extent without entry and without a row in `refs` is dead, for good: naming it is `Conflict`.
//! 2. Only the commit thread claims, and it claims before it applies; so between a claim and the row in `refs` the entry
//!    speaks for the extent. Likewise on the way out: the entry is there before the last row is gone.
//! 3. A view registers its number *before* it takes its snapshot. So a snapshot that still shows a reference removed at
//!    commit N belongs to a view registered with a number below N, and `condemn` sees it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::key::Address;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Written, never named. Its pin is all that keeps it.
    Fresh,
    /// A commit that names it, or takes its last reference away, is being applied.
    Claimed,
    /// Its last reference was removed by this commit.
    Dying(u64),
}

#[derive(Default)]
pub struct Alive {
    extents: Mutex<Extents>,
    /// How many views are open at each commit number.
    views: Mutex<BTreeMap<u64, usize>>,
}

#[derive(Default)]
struct Extents {
    pins: HashMap<Address, usize>,
    entries: HashMap<Address, (State, u32)>,
    /// Dying extents in the order of their commits.
    due: VecDeque<(u64, Address)>,
    /// Dying extents that were still pinned when their time came, and are no longer.
    unpinned: Vec<(u64, Address)>,
    dead: Vec<(Address, u32)>,
    revivals: u64,
}

impl Alive {
    /// A new extent with its first pin.
    pub fn born(self: &Arc<Self>, address: Address, bytes: u32) -> PinHold {
        let mut extents = lock(&self.extents);
        extents.entries.insert(address, (State::Fresh, bytes));
        extents.pins.insert(address, 1);
        PinHold { alive: Arc::clone(self), address }
    }

    pub fn pin(self: &Arc<Self>, address: Address) -> PinHold {
        *lock(&self.extents).pins.entry(address).or_insert(0) += 1;
        PinHold { alive: Arc::clone(self), address }
    }

    /// Takes the extent for a commit. Gives the state it had, to hand back with `unclaim` should the commit come to
    /// nothing; `None` if there is no entry, and `refs` must say whether it lives.
    pub fn claim(&self, address: Address) -> Option<State> {
        let mut extents = lock(&self.extents);
        let entry = extents.entries.get_mut(&address)?;
        let was = std::mem::replace(&mut entry.0, State::Claimed);
        if matches!(was, State::Dying(_)) {
            extents.revivals += 1;
        }
        Some(was)
    }

    pub fn unclaim(&self, address: Address, was: State) {
        let mut extents = lock(&self.extents);
        let pinned = extents.pins.contains_key(&address);
        let Some(entry) = extents.entries.get_mut(&address) else { return };
        entry.0 = was;
        let bytes = entry.1;
        match was {
            State::Fresh if !pinned => {
                extents.entries.remove(&address);
                extents.dead.push((address, bytes));
            }
            State::Dying(at) => extents.unpinned.push((at, address)),
            _ => {}
        }
    }

    /// Before a commit is applied: what is about to lose its last reference. From the moment the commit can be seen until
    /// it is settled these have neither reference nor number, and the entry speaks for them.
    pub fn announce(&self, leaving: impl Iterator<Item = (Address, u32)>) {
        let mut extents = lock(&self.extents);
        for (address, bytes) in leaving {
            extents.entries.insert(address, (State::Claimed, bytes));
        }
    }

    /// After a commit was applied: what it claimed lives by its references, and what lost its last one is dying.
    pub fn settle(&self, claimed: &[Address], dying: impl Iterator<Item = (Address, u32, u64)>) {
        let mut extents = lock(&self.extents);
        for address in claimed {
            extents.entries.remove(address);
        }
        for (address, bytes, number) in dying {
            extents.entries.insert(address, (State::Dying(number), bytes));
            extents.due.push_back((number, address));
        }
    }

    /// The extents nobody can reach any more. Each is given out once.
    pub fn condemn(&self) -> Vec<(Address, u32)> {
        let mut extents = lock(&self.extents);
        // Asked under the lock, so after the commits of all that is due were applied: a view that registers later takes
        // its snapshot later still, and cannot show what they removed.
        let oldest = self.oldest_view();
        let mut ready = std::mem::take(&mut extents.unpinned);
        while extents.due.front().is_some_and(|(number, _)| *number <= oldest) {
            ready.extend(extents.due.pop_front());
        }
        for (number, address) in ready {
            // An extent claimed in the meantime, or dying anew, has another entry by now.
            let Some((State::Dying(at), bytes)) = extents.entries.get(&address).copied() else { continue };
            if at != number || extents.pins.contains_key(&address) {
                continue;
            }
            if at > oldest {
                extents.unpinned.push((at, address));
                continue;
            }
            extents.entries.remove(&address);
            extents.dead.push((address, bytes));
        }
        std::mem::take(&mut extents.dead)
    }

    /// Entries of one segment, and a number that changes whenever a dying extent came back to life.
    pub fn entries_of(&self, segment: u64) -> (Vec<(Address, u32)>, u64) {
        let extents = lock(&self.extents);
        let own = extents.entries.iter().filter(|(address, _)| address.segment == segment);
        (own.map(|(address, (_, bytes))| (*address, *bytes)).collect(), extents.revivals)
    }

    pub fn open_view(self: &Arc<Self>, number: u64) -> ViewHold {
        *lock(&self.views).entry(number).or_insert(0) += 1;
        ViewHold { alive: Arc::clone(self), number }
    }

    fn oldest_view(&self) -> u64 {
        lock(&self.views).keys().next().copied().unwrap_or(u64::MAX)
    }
}

/// One pin of an extent.
pub struct PinHold {
    alive: Arc<Alive>,
    address: Address,
}

impl Drop for PinHold {
    fn drop(&mut self) {
        let mut extents = lock(&self.alive.extents);
        let Some(count) = extents.pins.get_mut(&self.address) else { return };
        *count -= 1;
        if *count > 0 {
            return;
        }
        extents.pins.remove(&self.address);
        match extents.entries.get(&self.address).copied() {
            Some((State::Fresh, bytes)) => {
                extents.entries.remove(&self.address);
                extents.dead.push((self.address, bytes));
            }
            // It may still wait in `due` as well; whichever comes first takes the entry away.
            Some((State::Dying(at), _)) => extents.unpinned.push((at, self.address)),
            Some((State::Claimed, _)) | None => {}
        }
    }
}

/// One open view.
pub struct ViewHold {
    alive: Arc<Alive>,
    pub number: u64,
}

impl Drop for ViewHold {
    fn drop(&mut self) {
        let mut views = lock(&self.alive.views);
        if let Some(count) = views.get_mut(&self.number) {
            *count -= 1;
            if *count == 0 {
                views.remove(&self.number);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under these locks can panic half way through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Address = Address { segment: 1, offset: 10 };

    #[test]
    fn a_fresh_extent_dies_with_its_pin() {
        let alive = Arc::new(Alive::default());
        let pin = alive.born(A, 5);
        assert!(alive.condemn().is_empty());
        drop(pin);
        assert_eq!(alive.condemn(), vec![(A, 5)]);
        assert_eq!(alive.claim(A), None);
    }

    #[test]
    fn an_old_view_and_a_pin_keep_a_dying_extent() {
        let alive = Arc::new(Alive::default());
        let view = alive.open_view(6);
        alive.settle(&[], [(A, 5, 7)].into_iter());
        assert!(alive.condemn().is_empty());
        let pin = alive.pin(A);
        drop(view);
        assert!(alive.condemn().is_empty());
        let newer = alive.open_view(7);
        drop(pin);
        assert_eq!(alive.condemn(), vec![(A, 5)]);
        drop(newer);
        assert!(alive.condemn().is_empty());
    }

    #[test]
    fn a_dying_extent_can_be_named_again() {
        let alive = Arc::new(Alive::default());
        alive.settle(&[], [(A, 5, 7)].into_iter());
        assert_eq!(alive.claim(A), Some(State::Dying(7)));
        assert!(alive.condemn().is_empty());
        alive.unclaim(A, State::Dying(7));
        assert_eq!(alive.condemn(), vec![(A, 5)]);
        alive.settle(&[], [(A, 5, 8)].into_iter());
        assert_eq!(alive.claim(A), Some(State::Dying(8)));
        alive.settle(&[A], std::iter::empty());
        assert!(alive.condemn().is_empty());
    }

    #[test]
    fn a_claim_that_came_to_nothing_lets_an_unpinned_extent_go() {
        let alive = Arc::new(Alive::default());
        let pin = alive.born(A, 5);
        assert_eq!(alive.claim(A), Some(State::Fresh));
        drop(pin);
        alive.unclaim(A, State::Fresh);
        assert_eq!(alive.condemn(), vec![(A, 5)]);
    }
}
