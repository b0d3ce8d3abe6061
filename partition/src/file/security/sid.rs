//! Security identifiers (MS-DTYP 2.4.2), and the two letters that stand for well-known ones in text.

use std::fmt;

use super::sddl::Text;

const SUB_AUTHORITIES_MAX: usize = 15;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sid {
    /// 48 bits.
    authority: u64,
    /// 1 to 15 of them.
    sub_authorities: Vec<u32>,
}

/// The aliases that mean the same everywhere. Those of a domain or a machine (DA, DU, LA, EA, ...) name nobody here and
/// are refused.
#[rustfmt::skip]
const ALIASES: &[(&str, u64, &[u32])] = &[
    ("WD", 1, &[0]),         // everyone
    ("CO", 3, &[0]),         // creator owner
    ("CG", 3, &[1]),         // creator group
    ("OW", 3, &[4]),         // owner rights
    ("NU", 5, &[2]),         // network
    ("IU", 5, &[4]),         // interactive
    ("SU", 5, &[6]),         // service
    ("AN", 5, &[7]),         // anonymous
    ("ED", 5, &[9]),         // enterprise domain controllers
    ("PS", 5, &[10]),        // self
    ("AU", 5, &[11]),        // authenticated users
    ("RC", 5, &[12]),        // restricted
    ("SY", 5, &[18]),        // local system
    ("LS", 5, &[19]),        // local service
    ("NS", 5, &[20]),        // network service
    ("WR", 5, &[33]),        // write restricted
    ("BA", 5, &[32, 544]),   // administrators
    ("BU", 5, &[32, 545]),   // users
    ("BG", 5, &[32, 546]),   // guests
    ("PU", 5, &[32, 547]),   // power users
    ("AO", 5, &[32, 548]),   // account operators
    ("SO", 5, &[32, 549]),   // server operators
    ("PO", 5, &[32, 550]),   // print operators
    ("BO", 5, &[32, 551]),   // backup operators
    ("RE", 5, &[32, 552]),   // replicator
    ("RU", 5, &[32, 554]),   // pre-Windows 2000 compatible access
    ("RD", 5, &[32, 555]),   // remote desktop users
    ("NO", 5, &[32, 556]),   // network configuration operators
    ("MU", 5, &[32, 558]),   // performance monitor users
    ("LU", 5, &[32, 559]),   // performance log users
    ("IS", 5, &[32, 568]),   // IIS users
    ("CY", 5, &[32, 569]),   // cryptographic operators
    ("ER", 5, &[32, 573]),   // event log readers
    ("CD", 5, &[32, 574]),   // certificate service DCOM access
    ("RA", 5, &[32, 575]),   // RDS remote access servers
    ("ES", 5, &[32, 576]),   // RDS endpoint servers
    ("MS", 5, &[32, 577]),   // RDS management servers
    ("HA", 5, &[32, 578]),   // Hyper-V administrators
    ("AA", 5, &[32, 579]),   // access control assistance operators
    ("RM", 5, &[32, 580]),   // remote management users
    ("UD", 5, &[84, 0, 0, 0, 0, 0]), // user mode drivers
    ("AC", 15, &[2, 1]),     // all application packages
    ("LW", 16, &[4096]),     // low integrity
    ("ME", 16, &[8192]),     // medium integrity
    ("MP", 16, &[8448]),     // medium plus integrity
    ("HI", 16, &[12288]),    // high integrity
    ("SI", 16, &[16384]),    // system integrity
    ("AS", 18, &[1]),        // identity asserted by an authentication authority
    ("SS", 18, &[2]),        // identity asserted by a service
];

impl Sid {
    fn is(&self, authority: u64, sub_authorities: &[u32]) -> bool {
        self.authority == authority && self.sub_authorities == sub_authorities
    }

    /// Who is meant once there is a creator: CO and CG stand for it.
    pub fn for_creator<'a>(&'a self, owner: &'a Sid, group: &'a Sid) -> &'a Sid {
        match (self.authority, &self.sub_authorities[..]) {
            (3, [0]) => owner,
            (3, [1]) => group,
            _ => self,
        }
    }

    /// Takes `S-1-5-18` or `SY` off a text in capitals.
    pub fn take(text: &mut Text) -> Option<Sid> {
        if !text.skip("S-1-") {
            let letters = text.take_chars(2)?;
            let (_, authority, sub_authorities) = ALIASES.iter().find(|(alias, _, _)| *alias == letters)?;
            return Some(Sid { authority: *authority, sub_authorities: sub_authorities.to_vec() });
        }
        let authority = if text.skip("0X") {
            u64::from_str_radix(text.take_while(|byte| byte.is_ascii_hexdigit()), 16).ok()?
        } else {
            text.take_digits()?.into()
        };
        let mut sub_authorities = Vec::with_capacity(5);
        while text.skip("-") {
            sub_authorities.push(text.take_digits()?);
        }
        Sid { authority, sub_authorities }.checked()
    }

    fn checked(self) -> Option<Sid> {
        let is_right = self.authority >> 48 == 0 && (1..=SUB_AUTHORITIES_MAX).contains(&self.sub_authorities.len());
        is_right.then_some(self)
    }

    pub fn binary_bytes(&self) -> usize {
        8 + 4 * self.sub_authorities.len()
    }

    pub fn put(&self, to: &mut Vec<u8>) {
        to.extend([1, self.sub_authorities.len() as u8]);
        to.extend(&self.authority.to_be_bytes()[2..]);
        to.extend(self.sub_authorities.iter().flat_map(|number| number.to_le_bytes()));
    }

    /// Reads the one that `bytes` begin with.
    pub fn read(bytes: &[u8]) -> Option<Sid> {
        let (&[1, count, ref authority @ ..], rest) = bytes.split_first_chunk::<8>()? else { return None };
        let numbers = rest.get(..4 * usize::from(count))?;
        let sub_authorities = numbers.as_chunks().0.iter().map(|number| u32::from_le_bytes(*number)).collect();
        let authority = authority.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        Sid { authority, sub_authorities }.checked()
    }
}

impl fmt::Display for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((alias, _, _)) = ALIASES.iter().find(|(_, authority, numbers)| self.is(*authority, numbers)) {
            return f.write_str(alias);
        }
        match u32::try_from(self.authority) {
            Ok(authority) => write!(f, "S-1-{authority}")?,
            Err(_) => write!(f, "S-1-0x{:012x}", self.authority)?,
        }
        self.sub_authorities.iter().try_for_each(|number| write!(f, "-{number}"))
    }
}
