//! What SMB clients may keep of a file in memory of their own, and how it is taken back: oplocks and leases (MS-SMB2
//! 3.3.4.6, 3.3.4.7; MS-FSA 2.1.4.12, 2.1.5.18, 2.1.5.19).
//!
//! Both are one thing here: rights that a holder has until it is told to give some of them up. A plain oplock is held
//! by its handle and can only fall to level II or to nothing; a lease is held by a key, shared by all handles that were
//! opened with it.
//!
//! ```text
//! holding -- lower, if W or H is lost --> breaking -- acknowledge --> holding less, or breaking on to what is needed
//!         -- lower, if it is R alone  --> holding nothing, told and not asked
//!                                         breaking -- expire      --> holding nothing
//! ```

use env::Timestamp;

use super::HandleId;
use contract::names::AccountName;
use contract::rights as right;

/// How long a holder has to answer.
pub const BREAK_SECONDS: u64 = 35;

/// Reads, writes, and the handle itself after its last user is gone. Without reads there are none.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash, Debug)]
pub struct Rights {
    pub read: bool,
    pub write: bool,
    pub handle: bool,
}

impl Rights {
    pub const NONE: Rights = Rights { read: false, write: false, handle: false };
    pub const R: Rights = Rights { read: true, write: false, handle: false };
    pub const RW: Rights = Rights { read: true, write: true, handle: false };
    pub const RH: Rights = Rights { read: true, write: false, handle: true };
    pub const RWH: Rights = Rights { read: true, write: true, handle: true };
    pub(super) const W: Rights = Rights { read: false, write: true, handle: false };
    pub(super) const H: Rights = Rights { read: false, write: false, handle: true };

    /// All of those?
    pub fn has(self, others: Rights) -> bool {
        self.and(others) == others
    }

    pub fn and(self, other: Rights) -> Rights {
        Rights { read: self.read && other.read, write: self.write && other.write, handle: self.handle && other.handle }
    }

    pub fn without(self, lost: Rights) -> Rights {
        self.and(Rights { read: !lost.read, write: !lost.write, handle: !lost.handle })
    }

    /// The most that there is of it: no client may keep writes or handles without what it read.
    pub(super) fn legal(self) -> Rights {
        if self.read { self } else { Rights::NONE }
    }

    /// Is there something to flush or to close before they are gone?
    fn needs_answer(self) -> bool {
        self.write || self.handle
    }
}

/// Whose a lease is. Clients choose their names and keys and send them in the clear: only the account is proved, so nobody else's
/// lease has the same key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LeaseKey {
    /// Its name, and zeros.
    account: [u8; 24],
    pub client: [u8; 16],
    pub key: [u8; 16],
}

impl LeaseKey {
    pub fn new(account: &AccountName, client: [u8; 16], key: [u8; 16]) -> LeaseKey {
        let mut padded = [0; 24];
        padded.iter_mut().zip(account.as_str().bytes()).for_each(|(place, letter)| *place = letter);
        LeaseKey { account: padded, client, key }
    }

    pub fn is_of(&self, account: &AccountName) -> bool {
        *self == LeaseKey::new(account, self.client, self.key)
    }
}

/// The levels of plain oplocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Oplock {
    None,
    LevelII,
    Exclusive,
    Batch,
}

impl Oplock {
    pub fn rights(self) -> Rights {
        match self {
            Oplock::None => Rights::NONE,
            Oplock::LevelII => Rights::R,
            Oplock::Exclusive => Rights::RW,
            Oplock::Batch => Rights::RWH,
        }
    }

    /// The highest level that gives no more than those.
    pub fn of(rights: Rights) -> Oplock {
        match (rights.read, rights.write, rights.handle) {
            (false, _, _) => Oplock::None,
            (true, false, _) => Oplock::LevelII,
            (true, true, false) => Oplock::Exclusive,
            (true, true, true) => Oplock::Batch,
        }
    }
}

/// What an opener asks for. On a directory there is nothing to be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CachingWanted {
    Nothing,
    Oplock(Oplock),
    Lease {
        key: LeaseKey,
        rights: Rights,
        /// Of a lease of version 2, where its client begins to count.
        epoch: Option<u16>,
    },
}

impl CachingWanted {
    pub fn lease(&self) -> Option<LeaseKey> {
        match self {
            CachingWanted::Lease { key, .. } => Some(*key),
            CachingWanted::Nothing | CachingWanted::Oplock(_) => None,
        }
    }
}

/// What a handle has. A lease is answered in the version it was first asked for in, whatever later requests are.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CachingGranted {
    pub rights: Rights,
    pub epoch: u16,
    pub is_version_2: bool,
    /// It was told to give some of them up, and did not answer yet.
    pub is_breaking: bool,
}

/// Who holds rights.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum BreakOf {
    Oplock(HandleId),
    Lease { key: LeaseKey },
}

/// What a holder is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BreakNotice {
    pub of: BreakOf,
    pub from: Rights,
    pub to: Rights,
    /// 0 of a lease of version 1.
    pub epoch: u16,
    pub needs_answer: bool,
}

/// The way to a client. It is called with nothing locked, and must not block.
pub trait Listener: Send + Sync {
    fn broken(&self, notice: BreakNotice);

    /// Somebody else closed the handle.
    fn closed(&self) {}
}

/// Why an answer to a break is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AcknowledgeError {
    /// Nobody holds it.
    NotFound,
    /// Nothing was asked.
    NotBreaking,
    /// More than was offered.
    TooMuch,
}

/// The rights of one holder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Caching {
    rights: Rights,
    /// `None` of a plain oplock.
    lease: Option<Version>,
    breaking: Option<Breaking>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Version {
    epoch: u16,
    is_version_2: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Breaking {
    /// What the holder was asked to become.
    told: Rights,
    /// What it has to become by now: somebody may have come since who leaves it less.
    needed: Rights,
    since: Timestamp,
}

/// A change a holder has to learn of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Told {
    pub from: Rights,
    pub to: Rights,
    pub epoch: u16,
    pub needs_answer: bool,
}

impl Caching {
    pub fn oplock(rights: Rights) -> Caching {
        Caching { rights, lease: None, breaking: None }
    }

    /// The epoch counts what was granted and what was broken.
    pub fn lease(rights: Rights, epoch: Option<u16>) -> Caching {
        let first = epoch.unwrap_or(0).wrapping_add(u16::from(rights != Rights::NONE));
        Caching { rights, lease: Some(Version { epoch: first, is_version_2: epoch.is_some() }), breaking: None }
    }

    pub fn rights(&self) -> Rights {
        self.rights
    }

    pub fn is_lease(&self) -> bool {
        self.lease.is_some()
    }

    pub fn granted(&self) -> CachingGranted {
        let version = self.lease.unwrap_or(Version { epoch: 0, is_version_2: false });
        CachingGranted {
            rights: self.rights,
            epoch: version.epoch,
            is_version_2: version.is_version_2,
            is_breaking: self.breaking.is_some(),
        }
    }

    fn bump(&mut self) {
        if let Some(version) = &mut self.lease {
            version.epoch = version.epoch.wrapping_add(1);
        }
    }

    fn told(&self, from: Rights, to: Rights) -> Told {
        let epoch = self.lease.filter(|version| version.is_version_2).map_or(0, |version| version.epoch);
        Told { from, to, epoch, needs_answer: from.needs_answer() }
    }

    /// The key is used for another open that could be given `grantable` of what it asks for: a lease only grows, and
    /// not while it is broken.
    pub fn reopen(&mut self, asked: Rights, grantable: Rights) {
        let grows = asked.has(self.rights) && grantable == asked && grantable != self.rights;
        if grows && self.breaking.is_none() {
            self.rights = grantable;
            self.bump();
        }
    }

    /// Leaves the holder no more than `left`.
    pub fn lower(&mut self, left: Rights, now: Timestamp) -> Option<Told> {
        if left.has(self.rights) {
            return None;
        }
        let left = match self.is_lease() {
            true => self.rights.and(left).legal(),
            false => self.rights.and(left).and(Rights::R),
        };
        match &mut self.breaking {
            // Whoever waits for more than a plain oplock was told asks again after its answer.
            Some(breaking) => {
                breaking.needed = breaking.needed.and(left);
                None
            }
            None => {
                let from = self.rights;
                self.bump();
                match from.needs_answer() {
                    true => self.breaking = Some(Breaking { told: left, needed: left, since: now }),
                    false => self.rights = left,
                }
                Some(self.told(from, left))
            }
        }
    }

    /// The holder of a lease answers. If it was to become even less since it was told, it is told the rest, what needs
    /// an answer first.
    pub fn acknowledge(&mut self, rights: Rights) -> Result<Option<Told>, AcknowledgeError> {
        let Breaking { told, needed, since } = self.breaking.ok_or(AcknowledgeError::NotBreaking)?;
        if !told.has(rights) {
            return Err(AcknowledgeError::TooMuch);
        }
        self.rights = rights.legal();
        self.breaking = None;
        if needed.has(self.rights) {
            return Ok(None);
        }
        let from = self.rights;
        let to = match from.needs_answer() {
            true => Rights { read: true, ..needed },
            false => needed,
        };
        match from.needs_answer() {
            true => self.breaking = Some(Breaking { told: to, needed, since }),
            false => self.rights = to,
        }
        Ok(Some(self.told(from, to)))
    }

    /// The holder of a plain oplock answers.
    pub fn acknowledge_oplock(&mut self, level: Oplock) -> Result<Oplock, AcknowledgeError> {
        let breaking = self.breaking.ok_or(AcknowledgeError::NotBreaking)?;
        if level.rights().needs_answer() {
            return Err(AcknowledgeError::TooMuch);
        }
        self.rights = breaking.told.and(level.rights());
        self.breaking = None;
        Ok(Oplock::of(self.rights))
    }

    /// Who does not answer in time has nothing any more. True if it was so.
    pub fn expire(&mut self, now: Timestamp) -> bool {
        let is_overdue = self.breaking.is_some_and(|breaking| breaking.since.plus_seconds(BREAK_SECONDS) <= now);
        if is_overdue {
            self.rights = Rights::NONE;
            self.breaking = None;
        }
        is_overdue
    }
}

/// With these a file is opened for a look at its attributes alone.
const STAT: u32 = right::READ_ATTRIBUTES | right::WRITE_ATTRIBUTES | right::SYNCHRONIZE;

/// How an open meets what others keep.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opener {
    pub mask: u32,
    pub overwrites: bool,
    pub is_new: bool,
}

impl Opener {
    /// Does it touch nothing that anybody keeps?
    pub fn is_stat(self) -> bool {
        !self.overwrites && self.mask & !STAT == 0
    }

    /// Nothing that the holder keeps: leases outlive a look at the security descriptor too.
    fn spares(self, held: &Caching) -> bool {
        self.is_stat() || held.is_lease() && !self.overwrites && self.mask & !(STAT | right::READ_CONTROL) == 0
    }
}

/// What is left to a holder, and whether who comes has to wait for its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Left {
    pub rights: Rights,
    pub waits: bool,
}

impl Left {
    /// Takes some, and waits if one of `awaited` is there to be taken.
    pub fn taking(held: &Caching, lost: Rights, awaited: Rights) -> Left {
        Left { rights: held.rights.without(lost), waits: held.rights.and(awaited) != Rights::NONE }
    }
}

/// What an open leaves to somebody else. If it cannot be because of that one's handle, the handle may be one that is
/// only cached: that is found out first.
pub(super) fn left_by_open(held: &Caching, opener: Opener, violates: bool) -> Left {
    if opener.spares(held) {
        return Left { rights: held.rights, waits: false };
    }
    let left = match (violates, opener.overwrites) {
        (true, _) => Left::taking(held, Rights::H, Rights::H),
        (false, true) => Left::taking(held, Rights::RWH, Rights::W),
        (false, false) => Left::taking(held, Rights::W, Rights::W),
    };
    // A break under way is waited for, unless it ends in what this open would ask for itself without waiting.
    let waits_on = held.breaking.is_some_and(|breaking| left.rights == held.rights || !left.rights.has(breaking.told));
    Left { waits: left.waits || held.is_lease() && waits_on, ..left }
}

/// What others have and do while an open asks for caching.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Beside {
    /// Somebody else has it open for more than a look, or holds or held a lease on it.
    pub is_shared: bool,
    pub has_oplock: bool,
    pub has_handle_caching: bool,
    pub has_locks: bool,
    /// What those who are at work on it would leave.
    pub left: Rights,
}

impl Beside {
    pub const NOBODY: Beside =
        Beside { is_shared: false, has_oplock: false, has_handle_caching: false, has_locks: false, left: Rights::RWH };
}

/// What an open could be given.
pub(super) fn grantable(wanted: &CachingWanted, opener: Opener, beside: Beside) -> Rights {
    let mut granted = match wanted {
        CachingWanted::Nothing => Rights::NONE,
        // Nobody reads or writes through it, and there may be something to read.
        CachingWanted::Oplock(_) if opener.is_stat() && !opener.is_new => Rights::NONE,
        CachingWanted::Oplock(level) => level.rights(),
        CachingWanted::Lease { rights, .. } => *rights,
    };
    granted = granted.and(beside.left);
    granted.read &= !beside.has_locks;
    granted.write &= !beside.is_shared;
    match wanted {
        CachingWanted::Lease { .. } => {
            granted.handle &= !beside.has_oplock;
            granted.legal()
        }
        _ if beside.has_handle_caching => Rights::NONE,
        _ => Oplock::of(granted).rights(),
    }
}

/// What the user of a handle does that others have to learn of. Reads are none of it: who may read has taken the right
/// to write from everybody else by opening.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Io {
    Write,
    Lock,
    Resize,
    SetDelete,
}

impl Io {
    /// Does it change what was read?
    pub(super) fn is_change(self) -> bool {
        match self {
            Io::Write | Io::Lock | Io::Resize => true,
            Io::SetDelete => false,
        }
    }

    /// Who writes does not wait for those who read: they are told in time. Others who write there are none.
    pub(super) fn left(self, held: &Caching) -> Left {
        match self.is_change() {
            true => Left::taking(held, Rights::RWH, Rights::W),
            false => Left::taking(held, Rights::H, Rights::H),
        }
    }
}
