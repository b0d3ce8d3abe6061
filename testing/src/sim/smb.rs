//! A share as SMB clients use it: files opened with share modes, ranges locked, read and written, deleted with their last handle.
//! The names are those of `file`, and REST clients are at work on them at the same time.
//!
//! A client has one connection and does one thing at a time on it. When it goes away, or its server crashes, its opens are
//! `Lost`: that is a deed, too, which nobody answers.

pub mod client;
pub mod opens;
pub mod wire;

use super::chance::Chance;
use super::file::{FILES, Range};
use super::history::CallId;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Deed {
    Open {
        file: usize,
        claim: Claim,
    },
    /// On what that call opened.
    On {
        open: CallId,
        what: What,
    },
    /// A crash leaves what was to be deleted; a server that goes on deletes it.
    Lost {
        opens: Vec<CallId>,
        by_crash: bool,
    },
}

/// What an open does, what others may do meanwhile, and whether the file is to go with it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Claim {
    pub access: Rights,
    pub share: Rights,
    pub deletes_on_close: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rights {
    pub read: bool,
    pub write: bool,
    pub delete: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum What {
    Read(Range),
    Write(Range),
    /// Not waited for.
    Lock {
        range: Range,
        exclusive: bool,
    },
    Unlock(Range),
    /// To go with its last handle, or to stay after all.
    SetPending(bool),
    Close,
}

impl Deed {
    pub fn writes(&self) -> bool {
        !matches!(self, Deed::On { what: What::Read(_), .. })
    }
}

impl Rights {
    fn choose(chance: &mut Chance, most: [u64; 3]) -> Rights {
        let [read, write, delete] = most.map(|of_four| chance.below(4) < of_four);
        Rights { read, write, delete }
    }

    /// Does who grants this leave out what that asks for?
    pub fn denies(self, access: Rights) -> bool {
        access.read && !self.read || access.write && !self.write || access.delete && !self.delete
    }
}

fn choose_open(chance: &mut Chance) -> Deed {
    let access = Rights { read: true, ..Rights::choose(chance, [4, 2, 2]) };
    let share = Rights::choose(chance, [3, 3, 3]);
    let deletes_on_close = access.delete && chance.below(3) == 0;
    Deed::Open { file: chance.index(FILES.len()), claim: Claim { access, share, deletes_on_close } }
}

fn choose_on(chance: &mut Chance, access: Rights) -> What {
    let range = Range::choose(chance);
    match chance.weighted(&[5, 6, 5, 3, 3, 5]) {
        1 if access.write => What::Write(range),
        2 => What::Lock { range, exclusive: chance.below(2) == 0 },
        3 => What::Unlock(range),
        4 if access.delete => What::SetPending(chance.below(3) > 0),
        5 => What::Close,
        _ => What::Read(range),
    }
}
