//! Histories written by hand: calls one after another, over REST and over SMB.

use super::*;
use crate::sim::file::Range;
use crate::sim::smb::{Claim as OpenClaim, Rights};

const ALL: Range = Range { first: 0, count: SLOTS };
const HALF: Range = Range { first: 0, count: 2 };

struct Told(History);

/// File 0 is created by call 1.
fn told() -> Told {
    let mut told = Told(History::default());
    told.done(Deed::Create { file: 0, lease: None });
    told
}

impl Told {
    fn call(&mut self, deed: Deed, reply: Reply) -> &mut Told {
        let id = self.0.begin(1, 0, history::Deed::File(deed));
        self.0.answer(id, Outcome::Answered(history::Reply::File(reply)));
        self
    }

    fn done(&mut self, deed: Deed) -> &mut Told {
        self.call(deed, Reply::Done)
    }

    fn refused(&mut self, deed: Deed, code: &str) -> &mut Told {
        self.call(deed, Reply::Refused(code.into()))
    }

    #[track_caller]
    fn is_right(&self, right: bool) {
        assert_eq!(check(&self.0).is_ok(), right, "{:?}", check(&self.0));
    }
}

fn write(slots: Range) -> Deed {
    Deed::Write { file: 0, slots, lease: None }
}

fn read(file: usize, slots: Slots) -> (Deed, Reply) {
    (Deed::Read { file }, Reply::Shown(slots))
}

fn rights(text: &str) -> Rights {
    Rights { read: text.contains('r'), write: text.contains('w'), delete: text.contains('d') }
}

fn open(access: &str, share: &str) -> Deed {
    let claim = OpenClaim { access: rights(access), share: rights(share), deletes_on_close: false };
    Deed::Smb(smb::Deed::Open { file: 0, claim })
}

fn on(open: Value, what: What) -> Deed {
    Deed::Smb(smb::Deed::On { open, what })
}

#[test]
fn ranges_names_and_snapshots() {
    let mut told = told();
    told.done(write(HALF)).done(Deed::Clear { file: 0, slots: Range { first: 1, count: 1 }, lease: None });
    let (deed, reply) = read(0, [2, 0, 0, 0]);
    told.call(deed, reply).call(Deed::Snapshot, Reply::Snapped("s".into()));
    told.done(Deed::Rename { from: 0, to: 1, replaces: false });
    told.call(Deed::List { directory: false }, Reply::Listed(vec![1]));
    told.call(Deed::ReadSnapshot { file: 0, snapshot: "s".into() }, Reply::Shown([2, 0, 0, 0])).is_right(true);
    told.call(Deed::List { directory: false }, Reply::Listed(vec![0])).is_right(false);
}

#[test]
fn writes_are_not_lost_or_torn() {
    for (slots, right) in [([2, 2, 2, 2], true), ([2, 2, 0, 0], false), ([0; SLOTS], false)] {
        let (deed, reply) = read(0, slots);
        told().done(write(ALL)).call(deed, reply).is_right(right);
    }
}

#[test]
fn share_modes_hold_over_both_protocols() {
    told().done(open("r", "r")).refused(open("rw", "rwd"), "SHARING_VIOLATION").is_right(true);
    told().done(open("r", "r")).done(open("rw", "rwd")).is_right(false);
    told().done(open("rw", "rwd")).done(open("r", "rd")).is_right(false);
    told().done(open("r", "rw")).refused(open("r", "rw"), "SHARING_VIOLATION").is_right(false);
    told().done(open("r", "r")).refused(write(ALL), "SharingViolation").is_right(true);
    told().done(open("r", "r")).done(write(ALL)).is_right(false);
    told().done(open("r", "rwd")).done(Deed::Delete { file: 0, lease: None }).is_right(false);
    told().done(open("r", "r")).done(on(2, What::Close)).done(write(ALL)).is_right(true);
}

#[test]
fn locks_hold_over_both_protocols() {
    let locked = |exclusive| {
        let mut told = told();
        told.done(open("rw", "rwd")).done(open("rw", "rwd")).done(on(2, What::Lock { range: HALF, exclusive }));
        told
    };
    locked(true).refused(on(3, What::Read(ALL)), "FILE_LOCK_CONFLICT").is_right(true);
    locked(true).call(on(3, What::Read(ALL)), Reply::Read(vec![0; SLOTS])).is_right(false);
    locked(true).done(on(3, What::Lock { range: ALL, exclusive: false })).is_right(false);
    locked(false).done(on(3, What::Lock { range: ALL, exclusive: false })).is_right(true);
    locked(false).done(on(3, What::Write(HALF))).is_right(false);
    locked(false).done(write(Range { first: 3, count: 1 })).is_right(false);
    locked(true).refused(Deed::Read { file: 0 }, "FileLockConflict").is_right(true);
    locked(true).done(on(2, What::Unlock(HALF))).done(on(3, What::Write(HALF))).is_right(true);
    locked(true).refused(on(2, What::Unlock(ALL)), "RANGE_NOT_LOCKED").is_right(true);
}

#[test]
fn what_is_to_be_deleted_goes_with_its_last_handle() {
    let pending = || {
        let mut told = told();
        told.done(open("rd", "rwd")).done(open("r", "rwd")).done(on(2, What::SetPending(true)));
        told
    };
    pending()
        .refused(Deed::Read { file: 0 }, "SMBDeletePending")
        .refused(open("r", "rwd"), "DELETE_PENDING")
        .is_right(true);
    pending().call(Deed::List { directory: false }, Reply::Listed(vec![0])).is_right(false);
    pending().done(on(2, What::Close)).refused(Deed::Read { file: 0 }, "ResourceNotFound").is_right(false);
    let closed = |told: &mut Told| {
        told.done(on(2, What::Close)).done(on(3, What::Close));
    };
    let mut told = pending();
    closed(&mut told);
    told.refused(Deed::Read { file: 0 }, "ResourceNotFound").is_right(true);
    let mut told = pending();
    told.done(on(2, What::SetPending(false)));
    closed(&mut told);
    told.refused(Deed::Read { file: 0 }, "ResourceNotFound").is_right(false);
}

#[test]
fn a_leased_file_is_written_by_its_holder_alone() {
    let action = |id| Deed::Lease { file: 0, action: Action::Acquire { id, seconds: None } };
    told().done(action(0)).refused(write(ALL), "LeaseIdMissing").is_right(true);
    told().done(action(0)).done(write(ALL)).is_right(false);
    told().done(action(0)).done(action(1)).is_right(false);
    told().done(action(0)).done(open("rw", "rwd")).is_right(false);
    told().done(action(0)).done(open("r", "rwd")).is_right(true);
    told().done(open("rw", "rwd")).done(action(0)).is_right(false);
}

/// What a client had open is closed after it left, and forgotten in a crash.
#[test]
fn what_is_lost_stands_in_nobodys_way() {
    let lost = |by_crash| Deed::Smb(smb::Deed::Lost { opens: vec![2], by_crash });
    let pending = || {
        let mut told = told();
        told.done(open("rd", "")).done(on(2, What::SetPending(true)));
        told
    };
    pending().done(lost(false)).refused(write(ALL), "ResourceNotFound").is_right(true);
    pending().done(lost(true)).done(write(ALL)).is_right(true);
    pending().done(lost(true)).refused(write(ALL), "ResourceNotFound").is_right(false);
    told().done(open("r", "")).done(lost(true)).refused(write(ALL), "SharingViolation").is_right(false);
}
