//! Attributes of files and directories: bits as SMB has them, names as REST has them.

use std::fmt;

/// The bits of MS-FSCC 2.6 that the service keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileAttributes(u32);

const NAMES: [(u32, &str); 9] = [
    (0x1, "ReadOnly"),
    (0x2, "Hidden"),
    (0x4, "System"),
    (0x10, "Directory"),
    (0x20, "Archive"),
    (0x100, "Temporary"),
    (0x1000, "Offline"),
    (0x2000, "NotContentIndexed"),
    (0x20000, "NoScrubData"),
];

impl FileAttributes {
    pub const NONE: FileAttributes = FileAttributes(0);
    pub const READ_ONLY: FileAttributes = FileAttributes(0x1);
    pub const HIDDEN: FileAttributes = FileAttributes(0x2);
    pub const SYSTEM: FileAttributes = FileAttributes(0x4);
    pub const DIRECTORY: FileAttributes = FileAttributes(0x10);
    pub const ARCHIVE: FileAttributes = FileAttributes(0x20);

    /// Names joined by `|`, in any case and order, blanks around them; `None` alone for none.
    pub fn parse(text: &str) -> Option<FileAttributes> {
        if text.trim().eq_ignore_ascii_case("none") {
            return Some(FileAttributes::NONE);
        }
        text.split('|').try_fold(FileAttributes::NONE, |all, name| {
            let (bit, _) = NAMES.iter().find(|(_, known)| known.eq_ignore_ascii_case(name.trim()))?;
            Some(FileAttributes(all.0 | bit))
        })
    }

    /// `None` for bits that nobody stores.
    pub fn from_bits(bits: u32) -> Option<FileAttributes> {
        let known = NAMES.iter().fold(0, |all, (bit, _)| all | bit);
        (bits & !known == 0).then_some(FileAttributes(bits))
    }

    /// Without those that nobody stores.
    pub fn from_known_bits(bits: u32) -> FileAttributes {
        FileAttributes(NAMES.iter().fold(0, |kept, (bit, _)| kept | bits & bit))
    }

    pub const fn bits(self) -> u32 {
        self.0
    }

    pub const fn with(self, other: FileAttributes) -> FileAttributes {
        FileAttributes(self.0 | other.0)
    }

    pub const fn without(self, other: FileAttributes) -> FileAttributes {
        FileAttributes(self.0 & !other.0)
    }

    pub const fn has(self, other: FileAttributes) -> bool {
        self.0 & other.0 == other.0
    }
}

/// `ReadOnly | Archive`
impl fmt::Display for FileAttributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = NAMES.iter().filter(|(bit, _)| self.0 & bit != 0).map(|(_, name)| name);
        write!(f, "{}", names.next().unwrap_or(&"None"))?;
        names.try_for_each(|name| write!(f, " | {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_and_shown() {
        for (text, expected) in [
            ("None", Some("None")),
            ("none", Some("None")),
            ("readonly|ARCHIVE", Some("ReadOnly | Archive")),
            ("Archive | ReadOnly", Some("ReadOnly | Archive")),
            ("NoScrubData|Offline|Temporary", Some("Temporary | Offline | NoScrubData")),
            ("Directory", Some("Directory")),
            ("", None),
            ("None|ReadOnly", None),
            ("ReadOnly|", None),
            ("Compressed", None),
        ] {
            let shown = FileAttributes::parse(text).map(|attributes| attributes.to_string());
            assert_eq!(shown.as_deref(), expected, "{text}");
        }
        assert_eq!(FileAttributes::from_bits(0x21), FileAttributes::parse("ReadOnly|Archive"));
        assert_eq!(FileAttributes::from_bits(0x80), None);
    }
}
