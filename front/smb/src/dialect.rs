//! The dialects that are spoken here: 2.1 and all of 3. SMB 1 and 2.0.2 are refused.

/// In their order: a later one is preferred.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Dialect {
    Smb21,
    Smb30,
    Smb302,
    Smb311,
}

impl Dialect {
    pub const ALL: [Dialect; 4] = [Dialect::Smb21, Dialect::Smb30, Dialect::Smb302, Dialect::Smb311];

    /// As NEGOTIATE writes it (MS-SMB2 2.2.3).
    pub fn number(self) -> u16 {
        match self {
            Dialect::Smb21 => 0x0210,
            Dialect::Smb30 => 0x0300,
            Dialect::Smb302 => 0x0302,
            Dialect::Smb311 => 0x0311,
        }
    }

    pub fn from_number(number: u16) -> Option<Dialect> {
        Dialect::ALL.into_iter().find(|dialect| dialect.number() == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_there_and_back_and_the_old_ones_are_nobodys() {
        for dialect in Dialect::ALL {
            assert_eq!(Dialect::from_number(dialect.number()), Some(dialect));
        }
        for number in [0x0202, 0x02ff, 0x0310, 0] {
            assert_eq!(Dialect::from_number(number), None);
        }
    }
}
