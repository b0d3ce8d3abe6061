//! Descriptors as text (MS-DTYP 2.5.1):
//!
//! ```text
//! descriptor := "O:" sid "G:" sid "D:" list ["S:" list]               in any order
//! list       := { "P" | "AR" | "AI" } ( "NO_ACCESS_CONTROL" | { entry } )
//! entry      := "(" kind ";" flags ";" rights ";" guid ";" guid ";" sid ")"
//! ```
//! Capitals do not matter. Rights are a number or mnemonics without anything between them, flags are mnemonics too.

use env::Id;

use super::{ACE_FLAGS, ACE_KINDS, ACL_FLAGS, Ace, Acl, List, MANDATORY_LABEL, SecurityDescriptor, Sid};
use crate::table::value::parse_guid;

/// Words and the bits they stand for.
type Names<T> = [(&'static str, T)];

const NULL_LIST: &str = "NO_ACCESS_CONTROL";

/// Rights of a single bit, in the order they are written.
#[rustfmt::skip]
const RIGHTS: [(&str, u32); 17] = [
    ("CC", 0x1), ("DC", 0x2), ("LC", 0x4), ("SW", 0x8), ("RP", 0x10), ("WP", 0x20), ("DT", 0x40), ("LO", 0x80),
    ("CR", 0x100),
    ("SD", 0x1_0000), ("RC", 0x2_0000), ("WD", 0x4_0000), ("WO", 0x8_0000),
    ("GA", 0x1000_0000), ("GX", 0x2000_0000), ("GW", 0x4000_0000), ("GR", 0x8000_0000),
];

/// Rights of several bits. They are written only for a mask that is the same to the bit; KX is KR and is never written.
#[rustfmt::skip]
const COMBINED_RIGHTS: [(&str, u32); 8] = [
    ("FA", 0x1f_01ff), ("FR", 0x12_0089), ("FW", 0x12_0116), ("FX", 0x12_00a0),
    ("KA", 0x0f_003f), ("KR", 0x02_0019), ("KW", 0x02_0006), ("KX", 0x02_0019),
];

/// What a mandatory label keeps those below it from.
const LABEL_RIGHTS: [(&str, u32); 3] = [("NW", 0x1), ("NR", 0x2), ("NX", 0x4)];

impl SecurityDescriptor {
    pub fn parse_sddl(text: &str) -> Option<Self> {
        let capitals = text.to_ascii_uppercase();
        let mut text = Text(&capitals);
        let (mut owner, mut group, mut dacl, mut sacl) = (None, None, None, None);
        while !text.0.is_empty() {
            let is_repeated = match text.take_chars(2)? {
                "O:" => owner.replace(Sid::take(&mut text)?).is_some(),
                "G:" => group.replace(Sid::take(&mut text)?).is_some(),
                "D:" => dacl.replace(take_acl(&mut text, List::Discretionary)?).is_some(),
                "S:" => sacl.replace(take_acl(&mut text, List::System)?).is_some(),
                _ => return None,
            };
            if is_repeated {
                return None;
            }
        }
        SecurityDescriptor { owner: owner?, group: group?, dacl: dacl?, sacl }.within_limit()
    }

    /// As Windows writes it: aliases and mnemonics where there are any.
    pub fn to_sddl(&self) -> String {
        let mut text = format!("O:{}G:{}", self.owner, self.group);
        push_acl(&mut text, "D:", &self.dacl);
        if let Some(sacl) = &self.sacl {
            push_acl(&mut text, "S:", sacl);
        }
        text
    }
}

fn take_acl(text: &mut Text, list: List) -> Option<Acl> {
    let mut flags = 0;
    while let Some(flag) = text.skip_one_of(&ACL_FLAGS) {
        flags |= flag;
    }
    if text.skip(NULL_LIST) {
        return Some(Acl { flags, aces: None });
    }
    let mut aces = Vec::new();
    while text.skip("(") {
        aces.push(take_ace(text, list)?);
    }
    Some(Acl { flags, aces: Some(aces) })
}

fn take_ace(text: &mut Text, list: List) -> Option<Ace> {
    let letters = text.take_field()?;
    let kind = *ACE_KINDS.iter().find(|kind| kind.letters == letters && kind.list == list)?;
    let flags = mnemonics(text.take_field()?, &[&ACE_FLAGS])?;
    let rights = text.take_field()?;
    let mask = if rights.starts_with(|c: char| c.is_ascii_digit()) {
        number(rights)?
    } else if kind.code == MANDATORY_LABEL {
        mnemonics(rights, &[&LABEL_RIGHTS])?
    } else {
        mnemonics(rights, &[&RIGHTS, &COMBINED_RIGHTS])?
    };
    let mut take_guid = || match text.take_field()? {
        "" => Some(None),
        guid if kind.of_object && guid.len() == 36 => parse_guid(guid).map(Some),
        _ => None,
    };
    let (object_type, inherited_object_type) = (take_guid()?, take_guid()?);
    let sid = Sid::take(text)?;
    text.skip(")").then_some(Ace { kind, flags, mask, object_type, inherited_object_type, sid })
}

/// As C reads numbers: `0x` before sixteens, `0` before eights.
fn number(digits: &str) -> Option<u32> {
    let (digits, radix) = match (digits.strip_prefix("0X"), digits.strip_prefix('0')) {
        (Some(digits), _) => (digits, 16),
        (None, Some(digits)) if !digits.is_empty() => (digits, 8),
        (None, _) => (digits, 10),
    };
    u32::from_str_radix(digits, radix).ok().filter(|_| !digits.starts_with('+'))
}

fn mnemonics<T: Copy + Default + std::ops::BitOr<Output = T>>(words: &str, tables: &[&Names<T>]) -> Option<T> {
    let mut words = Text(words);
    let mut bits = T::default();
    while !words.0.is_empty() {
        bits = bits | tables.iter().find_map(|table| words.skip_one_of(table))?;
    }
    Some(bits)
}

fn push_acl(text: &mut String, section: &str, acl: &Acl) {
    text.push_str(section);
    push_bits(text, &ACL_FLAGS, |flag| acl.flags & flag != 0);
    let Some(aces) = &acl.aces else { return text.push_str(NULL_LIST) };
    for ace in aces {
        text.push('(');
        text.push_str(ace.kind.letters);
        text.push(';');
        push_bits(text, &ACE_FLAGS, |flag| ace.flags & flag != 0);
        text.push(';');
        push_rights(text, ace);
        for guid in [ace.object_type, ace.inherited_object_type] {
            text.push(';');
            guid.into_iter().for_each(|guid| text.push_str(&Id(guid).to_string()));
        }
        text.push_str(&format!(";{})", ace.sid));
    }
}

fn push_rights(text: &mut String, ace: &Ace) {
    let is_label = ace.kind.code == MANDATORY_LABEL;
    let single: &Names<u32> = if is_label { &LABEL_RIGHTS } else { &RIGHTS };
    let combined: &Names<u32> = if is_label { &[] } else { &COMBINED_RIGHTS };
    if let Some((name, _)) = combined.iter().find(|(_, mask)| *mask == ace.mask) {
        text.push_str(name);
    } else if ace.mask & !single.iter().fold(0, |all, (_, bit)| all | bit) == 0 {
        push_bits(text, single, |bit| ace.mask & bit != 0);
    } else {
        text.push_str(&format!("{:#x}", ace.mask));
    }
}

fn push_bits<T: Copy>(text: &mut String, table: &Names<T>, is_set: impl Fn(T) -> bool) {
    table.iter().filter(|(_, bit)| is_set(*bit)).for_each(|(name, _)| text.push_str(name));
}

/// What is left to read of a text.
pub(super) struct Text<'a>(pub &'a str);

impl<'a> Text<'a> {
    pub fn skip(&mut self, word: &str) -> bool {
        self.0.strip_prefix(word).map(|rest| self.0 = rest).is_some()
    }

    fn skip_one_of<T: Copy>(&mut self, table: &Names<T>) -> Option<T> {
        table.iter().find(|(word, _)| self.skip(word)).map(|(_, value)| *value)
    }

    /// So many bytes, if a character ends there.
    pub fn take_chars(&mut self, count: usize) -> Option<&'a str> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn take_while(&mut self, belongs: impl Fn(u8) -> bool) -> &'a str {
        let end = self.0.bytes().position(|byte| !belongs(byte)).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at(end);
        self.0 = rest;
        taken
    }

    pub fn take_digits(&mut self) -> Option<u32> {
        self.take_while(|byte| byte.is_ascii_digit()).parse().ok()
    }

    /// Up to the next semicolon, which goes too.
    fn take_field(&mut self) -> Option<&'a str> {
        let (field, rest) = self.0.split_once(';')?;
        self.0 = rest;
        Some(field)
    }
}
