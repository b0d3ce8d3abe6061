//! Parts of descriptors: SMB clients ask for some and set some (MS-DTYP 2.4.7).

use super::{Acl, DEFAULT, Heir, SecurityDescriptor, Sid};

/// Which parts are meant.
pub mod part {
    pub const OWNER: u32 = 1;
    pub const GROUP: u32 = 2;
    pub const DACL: u32 = 4;
    pub const SACL: u32 = 8;
}

/// A descriptor that may lack something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DescriptorParts {
    pub(super) owner: Option<Sid>,
    pub(super) group: Option<Sid>,
    pub(super) dacl: Option<Acl>,
    pub(super) sacl: Option<Acl>,
}

impl DescriptorParts {
    /// What is missing is as something new below a share's root has it.
    pub fn completed(self) -> SecurityDescriptor {
        SecurityDescriptor {
            owner: self.owner.unwrap_or_else(|| DEFAULT.owner.clone()),
            group: self.group.unwrap_or_else(|| DEFAULT.group.clone()),
            dacl: self.dacl.unwrap_or_else(|| DEFAULT.inherited(Heir::File).dacl),
            sacl: self.sacl,
        }
    }

    pub fn is_complete(&self) -> bool {
        self.owner.is_some() && self.group.is_some() && self.dacl.is_some()
    }
}

impl SecurityDescriptor {
    /// Some parts of it; the others are left out.
    pub fn parts(&self, wanted: u32) -> DescriptorParts {
        let has = |part| wanted & part != 0;
        DescriptorParts {
            owner: Some(self.owner.clone()).filter(|_| has(part::OWNER)),
            group: Some(self.group.clone()).filter(|_| has(part::GROUP)),
            dacl: Some(self.dacl.clone()).filter(|_| has(part::DACL)),
            sacl: self.sacl.clone().filter(|_| has(part::SACL)),
        }
    }

    /// With some parts of another. A part that is named and missing there stays as it is, but for the lists: those go.
    pub fn with_parts(mut self, given: DescriptorParts, named: u32) -> Option<SecurityDescriptor> {
        let has = |part| named & part != 0;
        if let Some(owner) = given.owner.filter(|_| has(part::OWNER)) {
            self.owner = owner;
        }
        if let Some(group) = given.group.filter(|_| has(part::GROUP)) {
            self.group = group;
        }
        if has(part::DACL) {
            self.dacl = given.dacl.unwrap_or(Acl { flags: 0, aces: None });
        }
        if has(part::SACL) {
            self.sacl = given.sacl;
        }
        self.within_limit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_given_and_taken() {
        let old = SecurityDescriptor::parse_sddl("O:SYG:SYD:(A;;FA;;;SY)").expect("well formed");
        let new = SecurityDescriptor::parse_sddl("O:BAG:BUD:(A;;FA;;;BA)").expect("well formed");
        for (named, expected) in [
            (0, "O:SYG:SYD:(A;;FA;;;SY)"),
            (part::OWNER, "O:BAG:SYD:(A;;FA;;;SY)"),
            (part::GROUP, "O:SYG:BUD:(A;;FA;;;SY)"),
            (part::DACL, "O:SYG:SYD:(A;;FA;;;BA)"),
            (part::OWNER | part::GROUP | part::DACL, "O:BAG:BUD:(A;;FA;;;BA)"),
        ] {
            let expected = SecurityDescriptor::parse_sddl(expected);
            assert_eq!(old.clone().with_parts(new.parts(u32::MAX), named), expected, "{named}");
            let through_bytes = DescriptorParts::parse(&new.parts(named).to_binary()).expect("well formed");
            assert_eq!(old.clone().with_parts(through_bytes, named), expected, "{named}");
        }
        assert!(!new.parts(part::OWNER).is_complete());
        assert_eq!(new.parts(u32::MAX).completed(), new);
    }
}
