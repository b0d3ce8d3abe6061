//! Descriptors as bytes: SECURITY_DESCRIPTOR in its self-relative form (MS-DTYP 2.4.6), numbers little-endian.
//!
//! ```text
//!  0 revision, a byte; 1 zero; 2 control, two bytes
//!  4 where the owner is; 8 the group; 12 the system list; 16 the discretionary list: four bytes each
//! 20 system list, discretionary list, owner, group: in this order when written, in any when read
//! ```

use contract::limits::SECURITY_DESCRIPTOR_BYTES_MAX;

use super::{ACE_KINDS, ACL_FLAGS, Ace, Acl, DescriptorParts, List, SecurityDescriptor, Sid};

const HEADER_BYTES: usize = 20;
const ACL_HEADER_BYTES: usize = 8;
/// Kind, flags, size and mask.
const ACE_HEADER_BYTES: usize = 8;

const SELF_RELATIVE: u16 = 0x8000;
const DACL_PRESENT: u16 = 0x0004;
const SACL_PRESENT: u16 = 0x0010;

const OBJECT_TYPE_PRESENT: u32 = 1;
const INHERITED_OBJECT_TYPE_PRESENT: u32 = 2;

impl SecurityDescriptor {
    /// Of one that lacks nothing.
    pub fn parse_binary(bytes: &[u8]) -> Option<Self> {
        let parts = DescriptorParts::parse(bytes)?;
        let descriptor = parts.is_complete().then(|| parts.completed())?;
        // Parts may lie over one another when read, but not when written.
        descriptor.within_limit()
    }

    pub fn to_binary(&self) -> Vec<u8> {
        self.parts(u32::MAX).to_binary()
    }

    pub(super) fn binary_bytes(&self) -> usize {
        let acls = self.dacl.binary_bytes() + self.sacl.as_ref().map_or(0, Acl::binary_bytes);
        HEADER_BYTES + acls + self.owner.binary_bytes() + self.group.binary_bytes()
    }
}

impl DescriptorParts {
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > SECURITY_DESCRIPTOR_BYTES_MAX || *bytes.first()? != 1 {
            return None;
        }
        let control = u16_at(bytes, 2)?;
        if control & SELF_RELATIVE == 0 {
            return None;
        }
        let part = |at: usize| match u32_at(bytes, at)? as usize {
            0 => Some(None),
            start => bytes.get(start..).filter(|_| start >= HEADER_BYTES).map(Some),
        };
        let acl = |at: usize, list: List, control: u16| {
            let aces = match part(at)? {
                Some(bytes) => Some(read_aces(bytes, list)?),
                None => None,
            };
            Some(Acl { flags: control & ACL_FLAGS.iter().fold(0, |all, (_, flag)| all | flag), aces })
        };
        let sid = |at: usize| match part(at)? {
            Some(bytes) => Some(Some(Sid::read(bytes)?)),
            None => Some(None),
        };
        let list = |is_present: u16, at: usize, list: List, control: u16| match is_present {
            0 => Some(None),
            _ => acl(at, list, control).map(Some),
        };
        Some(DescriptorParts {
            owner: sid(4)?,
            group: sid(8)?,
            sacl: list(control & SACL_PRESENT, 12, List::System, control >> 1)?,
            dacl: list(control & DACL_PRESENT, 16, List::Discretionary, control)?,
        })
    }

    pub fn to_binary(&self) -> Vec<u8> {
        let mut control = SELF_RELATIVE;
        if let Some(dacl) = &self.dacl {
            control |= DACL_PRESENT | dacl.flags;
        }
        if let Some(sacl) = &self.sacl {
            control |= SACL_PRESENT | sacl.flags << 1;
        }
        let acl_bytes = |acl: &Option<Acl>| acl.as_ref().map_or(0, Acl::binary_bytes);
        let sid_bytes = |sid: &Option<Sid>| sid.as_ref().map_or(0, Sid::binary_bytes);
        let dacl_at = HEADER_BYTES + acl_bytes(&self.sacl);
        let owner_at = dacl_at + acl_bytes(&self.dacl);
        let group_at = owner_at + sid_bytes(&self.owner);
        let mut bytes = Vec::with_capacity(group_at + sid_bytes(&self.group));
        bytes.extend([1, 0]);
        bytes.extend(control.to_le_bytes());
        for (at, length) in [
            (owner_at, sid_bytes(&self.owner)),
            (group_at, sid_bytes(&self.group)),
            (HEADER_BYTES, acl_bytes(&self.sacl)),
            (dacl_at, acl_bytes(&self.dacl)),
        ] {
            bytes.extend((if length == 0 { 0 } else { at as u32 }).to_le_bytes());
        }
        [&self.sacl, &self.dacl].into_iter().flatten().for_each(|acl| acl.put(&mut bytes));
        [&self.owner, &self.group].into_iter().flatten().for_each(|sid| sid.put(&mut bytes));
        bytes
    }
}

impl Acl {
    /// A null list is nowhere.
    fn binary_bytes(&self) -> usize {
        self.aces.as_ref().map_or(0, |aces| ACL_HEADER_BYTES + aces.iter().map(Ace::binary_bytes).sum::<usize>())
    }

    fn put(&self, to: &mut Vec<u8>) {
        let Some(aces) = &self.aces else { return };
        // Revision 4 is for lists with entries of objects in them.
        let revision = if aces.iter().any(|ace| ace.kind.of_object) { 4 } else { 2 };
        to.extend([revision, 0]);
        to.extend((self.binary_bytes() as u16).to_le_bytes());
        to.extend((aces.len() as u16).to_le_bytes());
        to.extend([0, 0]);
        aces.iter().for_each(|ace| ace.put(to));
    }
}

impl Ace {
    fn binary_bytes(&self) -> usize {
        let guids = [self.object_type, self.inherited_object_type].into_iter().flatten().count();
        ACE_HEADER_BYTES + if self.kind.of_object { 4 + 16 * guids } else { 0 } + self.sid.binary_bytes()
    }

    fn put(&self, to: &mut Vec<u8>) {
        to.extend([self.kind.code, self.flags]);
        to.extend((self.binary_bytes() as u16).to_le_bytes());
        to.extend(self.mask.to_le_bytes());
        if self.kind.of_object {
            let is_there = |guid: Option<u128>, bit: u32| guid.map_or(0, |_| bit);
            let present = is_there(self.object_type, OBJECT_TYPE_PRESENT)
                | is_there(self.inherited_object_type, INHERITED_OBJECT_TYPE_PRESENT);
            to.extend(present.to_le_bytes());
            to.extend([self.object_type, self.inherited_object_type].into_iter().flatten().flat_map(guid_bytes));
        }
        self.sid.put(to);
    }
}

/// The entries of the list that `bytes` begin with. There may be room left behind them.
fn read_aces(bytes: &[u8], list: List) -> Option<Vec<Ace>> {
    let (revision, size, count) = (*bytes.first()?, u16_at(bytes, 2)?, u16_at(bytes, 4)?);
    let mut rest = bytes.get(ACL_HEADER_BYTES..size.into()).filter(|_| matches!(revision, 2 | 4))?;
    let mut aces = Vec::new();
    for _ in 0..count {
        let (ace, behind) = rest.split_at_checked(u16_at(rest, 2)?.into())?;
        aces.push(read_ace(ace, list)?);
        rest = behind;
    }
    Some(aces)
}

fn read_ace(bytes: &[u8], list: List) -> Option<Ace> {
    let (code, flags, mask) = (*bytes.first()?, *bytes.get(1)?, u32_at(bytes, 4)?);
    let kind = *ACE_KINDS.iter().find(|kind| kind.code == code && kind.list == list)?;
    let mut rest = bytes.get(ACE_HEADER_BYTES..)?;
    let present = if kind.of_object { u32::from_le_bytes(*take(&mut rest)?) } else { 0 };
    let mut take_guid = |bit: u32| match present & bit {
        0 => Some(None),
        _ => take(&mut rest).copied().map(guid_from_bytes).map(Some),
    };
    let (object_type, inherited_object_type) =
        (take_guid(OBJECT_TYPE_PRESENT)?, take_guid(INHERITED_OBJECT_TYPE_PRESENT)?);
    let ace = Ace { kind, flags, mask, object_type, inherited_object_type, sid: Sid::read(rest)? };
    // What stands behind the SID would be lost.
    (ace.binary_bytes() == bytes.len()).then_some(ace)
}

fn take<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(taken)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// Its first three fields little-endian, the rest as it is written (MS-DTYP 2.3.4.2). The same turn leads back.
fn guid_bytes(guid: u128) -> [u8; 16] {
    let mut bytes = guid.to_be_bytes();
    bytes[..4].reverse();
    bytes[4..6].reverse();
    bytes[6..8].reverse();
    bytes
}

fn guid_from_bytes(bytes: [u8; 16]) -> u128 {
    u128::from_be_bytes(guid_bytes(u128::from_be_bytes(bytes)))
}
