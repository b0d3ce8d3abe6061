//! What an open does with a file and what it lets others do meanwhile, and the same of REST operations.

use super::caching::{Caching, Left, Rights};
use super::range_lock::ByteRange;

/// Only what share modes are about: an open that looks at attributes alone has none of the three.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Access {
    /// Data, or the right to execute it.
    pub read: bool,
    pub write: bool,
    pub delete: bool,
}

impl Access {
    pub const NONE: Access = Access { read: false, write: false, delete: false };

    pub fn shown(self) -> String {
        match self {
            Access::NONE => "attributes alone".to_string(),
            Access { read, write, delete } => words(read, write, delete),
        }
    }

    fn is_none(self) -> bool {
        self == Access::NONE
    }
}

fn words(read: bool, write: bool, delete: bool) -> String {
    let words = [(read, "read"), (write, "write"), (delete, "delete")];
    words.into_iter().filter(|(has, _)| *has).map(|(_, word)| word).collect::<Vec<_>>().join(", ")
}

/// What others may have while a handle is open.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ShareMode {
    pub read: bool,
    pub write: bool,
    pub delete: bool,
}

impl ShareMode {
    pub const NONE: ShareMode = ShareMode { read: false, write: false, delete: false };
    pub const ALL: ShareMode = ShareMode { read: true, write: true, delete: true };
    pub const UNDELETED: ShareMode = ShareMode { delete: false, ..ShareMode::ALL };

    pub fn shown(self) -> String {
        match self {
            ShareMode::NONE => "nothing".to_string(),
            ShareMode { read, write, delete } => words(read, write, delete),
        }
    }

    fn denies(self, access: Access) -> bool {
        access.read && !self.read || access.write && !self.write || access.delete && !self.delete
    }
}

/// The two sides of an open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    pub access: Access,
    pub share: ShareMode,
}

/// May both not be open at a time (MS-FSA 2.1.5.1.2.2)? Opens of attributes alone take no part.
pub fn conflicts(open: Claim, wanted: Claim) -> bool {
    let take_part = !open.access.is_none() && !wanted.access.is_none();
    take_part && (open.share.denies(wanted.access) || wanted.share.denies(open.access))
}

/// What a REST operation does with one file or directory: it is a short open that lets others do everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RestAccess {
    /// A directory is listed or looked at, something is created in it, a lease is looked after.
    Nothing,
    /// Get File Properties and Get File Metadata.
    Look,
    /// Acquire Lease: a file that SMB clients may write to cannot be leased.
    Lease,
    /// Get File, List Ranges, the source of a copy: so much of the content.
    Read(ByteRange),
    /// Set File Properties and Set File Metadata, as long as the size stays.
    WriteProperties,
    /// Put Range, clearing, a change of size.
    Write,
    /// Create File over a file, the destination of a copy.
    Replace,
    /// The source of Rename File.
    Rename,
    /// Delete File, and a file that a rename replaces. No handle may be open at all.
    Delete,
    /// No handle may be open on it or below it.
    RenameDirectory,
    /// No handle may be open on it; what is below it keeps it from being empty.
    DeleteDirectory,
}

impl RestAccess {
    fn claim(self) -> Claim {
        let (read, write, delete) = match self {
            RestAccess::Nothing | RestAccess::Look | RestAccess::Lease => (false, false, false),
            RestAccess::Read(_) => (true, false, false),
            RestAccess::WriteProperties | RestAccess::Write => (false, true, false),
            RestAccess::Replace => (false, true, true),
            RestAccess::Rename | RestAccess::Delete | RestAccess::RenameDirectory | RestAccess::DeleteDirectory => {
                (false, false, true)
            }
        };
        Claim { access: Access { read, write, delete }, share: ShareMode::ALL }
    }

    /// Can it not be while there is this open?
    pub(super) fn conflicts(self, open: Claim) -> bool {
        match self {
            RestAccess::Lease => open.access.write || open.access.delete,
            RestAccess::Delete => true,
            _ => conflicts(open, self.claim()),
        }
    }

    /// Does it matter to nobody, so that nobody has to wait for it?
    pub(super) fn is_harmless(self) -> bool {
        matches!(self, RestAccess::Nothing | RestAccess::Look)
    }

    /// What it takes of what SMB clients keep, and which of that has to be given up before it goes on: what they did
    /// not write yet, and handles they may only keep, if it matters whether the file is open.
    pub(super) fn takes(self) -> (Rights, Rights) {
        match self {
            RestAccess::Nothing | RestAccess::Lease => (Rights::NONE, Rights::NONE),
            RestAccess::Look | RestAccess::Read(_) => (Rights::W, Rights::W),
            RestAccess::WriteProperties | RestAccess::Write => (Rights::RWH, Rights::W),
            RestAccess::Replace => (Rights::RWH, Rights { read: false, ..Rights::RWH }),
            RestAccess::Rename | RestAccess::Delete | RestAccess::RenameDirectory | RestAccess::DeleteDirectory => {
                (Rights::H, Rights::H)
            }
        }
    }

    pub(super) fn left(self, held: &Caching) -> Left {
        let (lost, awaited) = self.takes();
        Left::taking(held, lost, awaited)
    }

    /// Does it take the name away, so that nobody may open what the name stood for, or anything below it, before it is
    /// clear what becomes of it?
    pub(super) fn takes_name(self) -> bool {
        match self {
            RestAccess::Rename | RestAccess::Delete | RestAccess::RenameDirectory | RestAccess::DeleteDirectory => true,
            RestAccess::Nothing
            | RestAccess::Look
            | RestAccess::Lease
            | RestAccess::Read(_)
            | RestAccess::WriteProperties
            | RestAccess::Write
            | RestAccess::Replace => false,
        }
    }

    /// Every lock on the file keeps it off, wherever it is.
    pub(super) fn writes_content(self) -> bool {
        matches!(self, RestAccess::Write | RestAccess::Replace)
    }
}
