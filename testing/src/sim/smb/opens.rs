//! What share modes, locks and delete-pending mean (promises F3 to F6), for SMB clients and for REST.

use super::{Claim, Rights};
use crate::sim::file::Range;
use crate::sim::history::CallId;

/// What is open on a file.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Opens {
    opens: Vec<(CallId, Claim)>,
    locks: Vec<Lock>,
    /// The file goes with the last of them.
    pub is_pending: bool,
    /// The last one is closed, this one, and the file not gone yet.
    going: Option<CallId>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Lock {
    owner: CallId,
    range: Range,
    exclusive: bool,
}

/// What somebody is about to do with a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    Read,
    Write,
    Lock { exclusive: bool },
}

/// What a REST operation does to a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rest {
    /// A lease is looked after.
    Nothing,
    Read,
    Write,
    Replace,
    Rename,
    Delete,
    /// A lease is taken.
    Lease,
}

impl Opens {
    pub fn has(&self, open: CallId) -> bool {
        self.opens.iter().any(|(own, _)| *own == open)
    }

    /// May this be opened beside the others?
    pub fn admits(&self, wanted: Claim) -> bool {
        let conflict = |open: &Claim| open.share.denies(wanted.access) || wanted.share.denies(open.access);
        !self.opens.iter().any(|(_, open)| conflict(open))
    }

    pub fn open(&mut self, call: CallId, claim: Claim) {
        self.opens.push((call, claim));
        self.opens.sort_unstable_by_key(|(call, _)| *call);
    }

    /// Does a lock keep `by` from using the range? `None` is whoever has no handle.
    pub fn is_locked(&self, by: Option<CallId>, usage: Use, range: Range) -> bool {
        self.locks.iter().any(|lock| {
            let is_own = by == Some(lock.owner);
            let barred = match (lock.exclusive, usage) {
                (true, Use::Lock { exclusive: true }) => true,
                (true, _) => !is_own,
                (false, Use::Write | Use::Lock { exclusive: true }) => true,
                (false, _) => false,
            };
            barred && lock.range.indexes().any(|slot| range.indexes().contains(&slot))
        })
    }

    pub fn lock(&mut self, owner: CallId, range: Range, exclusive: bool) {
        self.locks.push(Lock { owner, range, exclusive });
        self.locks.sort_unstable_by_key(|lock| (lock.owner, lock.range.first, lock.range.count, lock.exclusive));
    }

    /// Gives back a lock, just as it was taken. Of two on the same range either may be the one.
    pub fn unlocked(&self, owner: CallId, range: Range) -> Vec<Opens> {
        let own = (0..self.locks.len()).filter(|at| self.locks[*at].owner == owner && self.locks[*at].range == range);
        let without = |at: usize| {
            let mut after = self.clone();
            after.locks.remove(at);
            after
        };
        own.map(without).collect()
    }

    /// An open is no more. If it was the last one of what is to be deleted, the file goes.
    pub fn close(&mut self, open: CallId) {
        self.is_pending |= self.opens.iter().any(|(own, claim)| *own == open && claim.deletes_on_close);
        self.opens.retain(|(own, _)| *own != open);
        self.locks.retain(|lock| lock.owner != open);
        self.going = Some(open).filter(|_| self.opens.is_empty() && self.is_pending);
    }

    /// An open is forgotten, with what it was to do when it is closed.
    pub fn forget(&mut self, open: CallId) {
        self.opens.retain(|(own, _)| *own != open);
        self.locks.retain(|lock| lock.owner != open);
        if self.opens.is_empty() {
            self.stay();
        }
    }

    /// Is the file about to go with this one?
    pub fn goes_with(&self, open: CallId) -> bool {
        self.going == Some(open)
    }

    /// It is not deleted after all.
    pub fn stay(&mut self) {
        (self.is_pending, self.going) = (false, None);
    }

    /// Everything that stands in the way of a REST operation.
    pub fn refusals(&self, rest: Rest) -> Vec<String> {
        const ALL: Range = Range { first: 0, count: crate::sim::file::SLOTS };
        let mut codes = Vec::new();
        if self.is_pending {
            codes.push("SMBDeletePending".to_string());
        }
        let denied = |open: &Claim| match rest {
            Rest::Nothing => false,
            Rest::Read => !open.share.read,
            Rest::Write => !open.share.write,
            Rest::Replace => !open.share.write || !open.share.delete,
            Rest::Rename => !open.share.delete,
            Rest::Delete => true,
            Rest::Lease => open.access.write || open.access.delete,
        };
        if self.opens.iter().any(|(_, open)| denied(open)) {
            codes.push("SharingViolation".to_string());
        }
        let locked = match rest {
            Rest::Read => self.is_locked(None, Use::Read, ALL),
            Rest::Write | Rest::Replace => !self.locks.is_empty(),
            _ => false,
        };
        if locked {
            codes.push("FileLockConflict".to_string());
        }
        codes
    }
}

/// A claim on a file that a REST client leases may not change it.
pub fn changes(access: Rights) -> bool {
    access.write || access.delete
}
