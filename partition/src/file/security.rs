//! Security descriptors of files and directories (MS-DTYP 2.4): who owns one, and its access control lists.
//!
//! They are kept for clients and handed back, as text (`sddl`) or as bytes (`binary`). Both readers give one value for
//! one meaning: an alias and the SID it stands for, a mnemonic and the number it stands for, sections in any order.
//! Equal values have equal keys.
//!
//! 1. Owner, group and the discretionary list are there, always: the service refuses what lacks one of them.
//! 2. Every value can be written in both forms and is at most `SECURITY_DESCRIPTOR_BYTES_MAX` long in the binary one.
//!    What only one form can say is not kept (that an owner or a list came by default) or refused (conditions and
//!    attributes in an entry).

mod binary;
mod parts;
mod sddl;
mod sid;

use std::fmt;
use std::sync::LazyLock;

use contract::limits::SECURITY_DESCRIPTOR_BYTES_MAX;
pub use parts::{DescriptorParts, part};
use sha2::{Digest, Sha256};
use sid::Sid;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SecurityDescriptor {
    owner: Sid,
    group: Sid,
    dacl: Acl,
    /// `None` if nothing is said of auditing. The service tells that from a list that is null.
    sacl: Option<Acl>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Acl {
    /// Some of `ACL_FLAGS`.
    flags: u16,
    /// `None` for a null list: nothing is controlled.
    aces: Option<Vec<Ace>>,
}

/// Flags of a list in the order they are written, and their bits in a descriptor's control word, where the
/// discretionary list has them. The system list's are one bit to the left.
const ACL_FLAGS: [(&str, u16); 3] = [("P", 0x1000), ("AR", 0x0100), ("AI", AUTO_INHERITED)];
const AUTO_INHERITED: u16 = 0x0400;

#[derive(Clone, PartialEq, Eq, Debug)]
struct Ace {
    kind: AceKind,
    /// Some of `ACE_FLAGS`.
    flags: u8,
    mask: u32,
    /// Only in entries of objects.
    object_type: Option<u128>,
    inherited_object_type: Option<u128>,
    sid: Sid,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct AceKind {
    code: u8,
    letters: &'static str,
    list: List,
    /// Has room for the types of objects it is about.
    of_object: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum List {
    Discretionary,
    System,
}

/// The kinds that are kept. The others carry conditions or attributes (XA, XD, XU, ZA, RA), which are not evaluated
/// here, or bind processes and not files (SP, TL, FL).
#[rustfmt::skip]
const ACE_KINDS: [AceKind; 9] = [
    AceKind { code: 0x00, letters: "A",  list: List::Discretionary, of_object: false },
    AceKind { code: 0x01, letters: "D",  list: List::Discretionary, of_object: false },
    AceKind { code: 0x02, letters: "AU", list: List::System,        of_object: false },
    AceKind { code: 0x03, letters: "AL", list: List::System,        of_object: false },
    AceKind { code: 0x05, letters: "OA", list: List::Discretionary, of_object: true },
    AceKind { code: 0x06, letters: "OD", list: List::Discretionary, of_object: true },
    AceKind { code: 0x07, letters: "OU", list: List::System,        of_object: true },
    AceKind { code: 0x08, letters: "OL", list: List::System,        of_object: true },
    AceKind { code: MANDATORY_LABEL, letters: "ML", list: List::System, of_object: false },
];
const MANDATORY_LABEL: u8 = 0x11;

/// Every bit has a name, so that every byte can be written as text.
const ACE_FLAGS: [(&str, u8); 8] = [
    ("OI", OBJECT_INHERIT),
    ("CI", CONTAINER_INHERIT),
    ("NP", NO_PROPAGATE),
    ("IO", INHERIT_ONLY),
    ("ID", INHERITED),
    ("CR", 0x20),
    ("SA", 0x40),
    ("FA", 0x80),
];
const OBJECT_INHERIT: u8 = 0x01;
const CONTAINER_INHERIT: u8 = 0x02;
const NO_PROPAGATE: u8 = 0x04;
const INHERIT_ONLY: u8 = 0x08;
const INHERITED: u8 = 0x10;

/// Generic rights, and what they come to on a file or directory: FILE_ALL_ACCESS and FILE_GENERIC_*.
const GENERIC_RIGHTS: [(u32, u32); 4] = [
    (0x1000_0000, 0x001f_01ff), // all
    (0x2000_0000, 0x0012_00a0), // execute
    (0x4000_0000, 0x0012_0116), // write
    (0x8000_0000, 0x0012_0089), // read
];

/// What a new share's root has, as recorded of the service. A directory that inherits it has the same again.
const DEFAULT_SDDL: &str = "O:SYG:SYD:(A;OICI;FA;;;BA)(A;OICI;FA;;;SY)(A;;0x1200a9;;;BU)(A;OICIIO;GXGR;;;BU)\
    (A;OICI;0x1301bf;;;AU)(A;;FA;;;SY)(A;OICIIO;GA;;;CO)";

static DEFAULT: LazyLock<SecurityDescriptor> =
    LazyLock::new(|| SecurityDescriptor::parse_sddl(DEFAULT_SDDL).expect("a constant that the tests read"));

/// What the root of a share has as long as nobody sets another.
pub fn default_descriptor() -> &'static SecurityDescriptor {
    &DEFAULT
}

/// Who inherits a directory's descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heir {
    File,
    Directory,
}

impl SecurityDescriptor {
    /// Names the descriptor within a share.
    pub fn key(&self) -> PermissionKey {
        let hash = Sha256::digest(self.to_binary());
        let word = |at: usize| hash[at..at + 8].iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        PermissionKey(word(0), word(8))
    }

    /// What something created in a directory with this descriptor has, if its creator gives none (MS-DTYP 2.5.3.4). The
    /// creator is the account's key, which the service takes for the system; and as it does, entries are not marked as
    /// inherited.
    pub fn inherited(&self, by: Heir) -> SecurityDescriptor {
        let (owner, group) = (&DEFAULT.owner, &DEFAULT.group);
        let hand_down = |acl: &Acl| -> Vec<Ace> {
            acl.aces.iter().flatten().flat_map(|ace| ace.inherited(by, owner, group)).collect()
        };
        let listed = |aces| Acl { flags: 0, aces: Some(aces) };
        let dacl = match hand_down(&self.dacl) {
            // Nothing comes down: as below a new share's root.
            aces if aces.is_empty() => listed(hand_down(&DEFAULT.dacl)),
            aces => listed(aces),
        };
        let sacl = self.sacl.as_ref().map(hand_down).filter(|aces| !aces.is_empty()).map(listed);
        let child = SecurityDescriptor { owner: owner.clone(), group: group.clone(), dacl, sacl };
        // An entry can become two. What grows too long that way hands nothing down.
        child.within_limit().unwrap_or_else(|| DEFAULT.inherited(by))
    }

    /// As Create Permission and the operations that set a permission keep what they are given: a system list that is
    /// not there counts as null.
    pub fn as_set(mut self) -> Self {
        self.sacl.get_or_insert(Acl { flags: 0, aces: None });
        self
    }

    /// As the operations that create keep what they are given: nothing was inherited yet, and a system list that is
    /// null is left out.
    pub fn as_created(mut self) -> Self {
        self.dacl.flags &= !AUTO_INHERITED;
        self.sacl = self.sacl.filter(|sacl| sacl.aces.is_some());
        self
    }

    fn within_limit(self) -> Option<Self> {
        (self.binary_bytes() <= SECURITY_DESCRIPTOR_BYTES_MAX).then_some(self)
    }
}

impl Ace {
    /// Nothing, the entry, or the entry twice: once in force and once to be handed on.
    fn inherited(&self, by: Heir, owner: &Sid, group: &Sid) -> Vec<Ace> {
        let to_files = self.flags & OBJECT_INHERIT != 0;
        let to_directories = self.flags & CONTAINER_INHERIT != 0;
        // Only directory services have objects of the types named here.
        let is_meant = self.inherited_object_type.is_none();
        let in_force = is_meant && if by == Heir::File { to_files } else { to_directories };
        let is_handed_on =
            is_meant && by == Heir::Directory && self.flags & NO_PROPAGATE == 0 && (to_files || to_directories);

        let own_flags = self.flags & !(OBJECT_INHERIT | CONTAINER_INHERIT | NO_PROPAGATE | INHERIT_ONLY | INHERITED);
        let passing = own_flags | self.flags & (OBJECT_INHERIT | CONTAINER_INHERIT);
        let real = Ace { flags: own_flags, mask: real_rights(self.mask), ..self.clone() };
        let real = Ace { sid: self.sid.for_creator(owner, group).clone(), ..real };
        if in_force && is_handed_on && real.mask == self.mask && real.sid == self.sid {
            return vec![Ace { flags: passing, ..real }];
        }
        let in_force = in_force.then_some(real);
        let handed_on = is_handed_on.then(|| Ace { flags: passing | INHERIT_ONLY, ..self.clone() });
        in_force.into_iter().chain(handed_on).collect()
    }
}

/// A mask with its generic rights spelled out.
pub fn real_rights(mask: u32) -> u32 {
    GENERIC_RIGHTS.iter().fold(mask, |mask, (generic, real)| match mask & generic {
        0 => mask,
        _ => mask & !generic | real,
    })
}

/// Names a descriptor on the wire: two numbers with a star between them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PermissionKey(pub u64, pub u64);

impl PermissionKey {
    pub fn parse(text: &str) -> Option<Self> {
        let number = |digits: &str| digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let (first, second) = text.split_once('*')?;
        Some(PermissionKey(number(first)?, number(second)?))
    }
}

impl fmt::Display for PermissionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}*{}", self.0, self.1)
    }
}

#[cfg(test)]
mod tests;
