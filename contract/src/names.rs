//! Names, parsed into types at the edge so that nobody inside checks them again.

use crate::errors::{ErrorCode, Refusal};
use crate::limits::{
    BLOB_NAME_CHARS_MAX, BLOB_NAME_SEGMENTS_MAX, CONTAINER_NAME_CHARS_MAX, CONTAINER_NAME_CHARS_MIN,
    FILE_NAME_UNITS_MAX, FILE_PATH_DEPTH_MAX, FILE_PATH_UNITS_MAX, METADATA_BYTES_MAX, TABLE_NAME_CHARS_MAX,
    TABLE_NAME_CHARS_MIN,
};

/// 3 to 24 lower-case letters and digits.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct AccountName(String);

impl AccountName {
    pub fn parse(text: &str) -> Option<AccountName> {
        let right =
            (3..=24).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        right.then(|| AccountName(text.to_string()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A container: 3 to 63 lower-case letters, digits and single inner hyphens; or one of the service's own names.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ContainerName(String);

impl ContainerName {
    pub const ROOT: &'static str = "$root";
    const WEB: &'static str = "$web";
    const SYSTEM: [&'static str; 4] = [Self::ROOT, Self::WEB, "$logs", "$blobchangefeed"];

    pub fn root() -> ContainerName {
        ContainerName(Self::ROOT.to_string())
    }

    /// What a static website is made of.
    pub fn web() -> ContainerName {
        ContainerName(Self::WEB.to_string())
    }

    pub fn parse(text: &str) -> Result<ContainerName, Refusal> {
        if Self::SYSTEM.contains(&text) {
            return Ok(ContainerName(text.to_string()));
        }
        check_dns_name(text)?;
        Ok(ContainerName(text.to_string()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// 3 to 63 lower-case letters, digits and single inner hyphens: names of containers, queues and shares.
fn check_dns_name(text: &str) -> Result<(), Refusal> {
    let b = text.as_bytes();
    let characters = b.iter().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == b'-');
    if !characters {
        return Err(ErrorCode::InvalidResourceName.into());
    }
    if !(CONTAINER_NAME_CHARS_MIN..=CONTAINER_NAME_CHARS_MAX).contains(&b.len()) {
        return Err(wrong_length());
    }
    if b[0] == b'-' || b[b.len() - 1] == b'-' || text.contains("--") {
        return Err(ErrorCode::InvalidResourceName.into());
    }
    Ok(())
}

/// In the words of the service: the client for tables looks for them.
fn wrong_length() -> Refusal {
    let words = "The specified resource name length is not within the permissible limits.";
    Refusal::from(ErrorCode::OutOfRangeInput).saying(words)
}

/// A queue: 3 to 63 lower-case letters, digits and single inner hyphens.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct QueueName(String);

impl QueueName {
    pub fn parse(text: &str) -> Result<QueueName, Refusal> {
        check_dns_name(text)?;
        Ok(QueueName(text.to_string()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A blob: 1 to 1024 characters, at most 254 segments, no control characters, no non-characters.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BlobName(String);

impl BlobName {
    pub fn parse(text: &str) -> Result<BlobName, Refusal> {
        let has_strange = match text.is_ascii() {
            true => text.bytes().any(|c| c.is_ascii_control()),
            false => text.chars().any(|c| c.is_control() || is_noncharacter(c)),
        };
        if text.is_empty() || has_strange {
            return Err(ErrorCode::InvalidUri.into());
        }
        let mut segments = 0;
        for segment in text.as_bytes().split(|c| *c == b'/') {
            // Clients and proxies take dot segments out of paths, so that such a blob could be written and never found again.
            if segment == b"." || segment == b".." {
                return Err(ErrorCode::InvalidUri.into());
            }
            segments += 1;
        }
        let is_long = text.len() > BLOB_NAME_CHARS_MAX && text.chars().count() > BLOB_NAME_CHARS_MAX;
        if is_long || segments > BLOB_NAME_SEGMENTS_MAX {
            return Err(ErrorCode::OutOfRangeInput.into());
        }
        Ok(BlobName(text.to_string()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A table: 3 to 63 letters and digits, a letter first. Two names that differ in case alone name one table, which is shown as it was
/// first written.
#[derive(Clone, Debug)]
pub struct TableName {
    given: String,
    folded: String,
}

impl PartialEq for TableName {
    fn eq(&self, other: &TableName) -> bool {
        self.folded == other.folded
    }
}

impl Eq for TableName {}

impl TableName {
    pub fn parse(text: &str) -> Result<TableName, Refusal> {
        if !text.bytes().all(|b| b.is_ascii_alphanumeric()) || text.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(ErrorCode::InvalidResourceName.into());
        }
        if !(TABLE_NAME_CHARS_MIN..=TABLE_NAME_CHARS_MAX).contains(&text.len()) {
            return Err(wrong_length());
        }
        // The collection of all tables is asked for under this name.
        if text.eq_ignore_ascii_case("tables") {
            return Err(ErrorCode::InvalidResourceName.into());
        }
        Ok(TableName { given: text.to_string(), folded: text.to_ascii_lowercase() })
    }

    pub fn as_str(&self) -> &str {
        &self.given
    }

    /// The same for every spelling.
    pub fn folded(&self) -> &str {
        &self.folded
    }
}

/// A share: 3 to 63 lower-case letters, digits and single inner hyphens.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ShareName(String);

impl ShareName {
    pub fn parse(text: &str) -> Result<ShareName, Refusal> {
        check_dns_name(text)?;
        Ok(ShareName(text.to_string()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One name in a share's tree. Two that differ in case alone name one thing, which is shown as it was first written.
#[derive(Clone, Debug)]
pub struct FileName {
    given: String,
    folded: String,
}

impl PartialEq for FileName {
    fn eq(&self, other: &FileName) -> bool {
        self.folded == other.folded
    }
}

impl Eq for FileName {}

/// Characters that stand in no name. A path is split at its slashes before, so that none can be in a name either.
const FORBIDDEN_IN_FILE_NAMES: [char; 9] = ['"', '\\', '/', ':', '|', '<', '>', '*', '?'];

impl FileName {
    pub fn parse(text: &str) -> Result<FileName, Refusal> {
        let is_wrong = |c: char| c.is_control() || is_noncharacter(c) || FORBIDDEN_IN_FILE_NAMES.contains(&c);
        let is_long = text.encode_utf16().count() > FILE_NAME_UNITS_MAX;
        if text.is_empty() || is_long || is_dots(text) || text.chars().any(is_wrong) || is_device(text) {
            return Err(ErrorCode::InvalidFileOrDirectoryPathName.into());
        }
        Ok(FileName::from_stored(text.to_string()))
    }

    /// What was checked when it was stored is not checked again when it is read back.
    pub fn from_stored(given: String) -> FileName {
        let folded = fold(&given);
        FileName { given, folded }
    }

    pub fn as_str(&self) -> &str {
        &self.given
    }

    /// The same for every spelling.
    pub fn folded(&self) -> &str {
        &self.folded
    }
}

/// Upper case, one character for one, as the file systems do it that SMB clients come from.
pub fn fold(text: &str) -> String {
    let upper = |c: char| {
        let mut upper = c.to_uppercase();
        match (upper.next(), upper.next()) {
            (Some(single), None) => single,
            _ => c,
        }
    };
    text.chars().map(upper).collect()
}

/// Names that are devices on the systems that mount shares.
fn is_device(text: &str) -> bool {
    let folded = text.to_ascii_uppercase();
    let is_numbered = |prefix: &str| {
        let rest = folded.strip_prefix(prefix);
        rest.is_some_and(|rest| matches!(rest.as_bytes(), [digit] if (b'1'..=b'9').contains(digit)))
    };
    ["PRN", "AUX", "NUL", "CON", "CLOCK$"].contains(&folded.as_str()) || is_numbered("COM") || is_numbered("LPT")
}

/// `.` and `..` are not names with dots at their ends: they are refused as they are.
fn is_dots(name: &str) -> bool {
    name == "." || name == ".."
}

/// Where something is in a share: names from the root down; none for the root itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FilePath(Vec<FileName>);

impl FilePath {
    pub const ROOT: FilePath = FilePath(Vec::new());

    /// A decoded path. A slash at its end is dropped. Dots at the end of names are dropped, too, unless the client says that it means them.
    pub fn parse(text: &str, keeps_trailing_dots: bool) -> Result<FilePath, Refusal> {
        let text = text.strip_suffix('/').unwrap_or(text);
        if text.is_empty() {
            return Ok(FilePath::ROOT);
        }
        let trimmed = |name| match name {
            _ if keeps_trailing_dots || is_dots(name) => name,
            _ => name.trim_end_matches('.'),
        };
        let names = text.split('/').map(|name| FileName::parse(trimmed(name))).collect::<Result<Vec<_>, _>>()?;
        if names.len() > FILE_PATH_DEPTH_MAX || text.encode_utf16().count() > FILE_PATH_UNITS_MAX {
            return Err(ErrorCode::InvalidFileOrDirectoryPathName.into());
        }
        Ok(FilePath(names))
    }

    pub fn names(&self) -> &[FileName] {
        &self.0
    }

    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Display for FilePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, name) in self.0.iter().enumerate() {
            write!(f, "{}{}", if at == 0 { "" } else { "/" }, name.given)?;
        }
        Ok(())
    }
}

/// U+FDD0..U+FDEF and the last two of every plane but the first: U+FFFE and U+FFFF stand in names, and lists encode them (versions
/// 2021-02-12 and 2021-12-02 of the services).
fn is_noncharacter(c: char) -> bool {
    let n = c as u32;
    (0xFDD0..=0xFDEF).contains(&n) || (n > 0xFFFF && n & 0xFFFE == 0xFFFE)
}

/// The id of a lease: a GUID, told back as the client wrote it, the same in whatever form it is written.
#[derive(Clone, Debug)]
pub struct LeaseId {
    text: String,
    value: u128,
}

impl LeaseId {
    /// In any of the five usual forms.
    pub fn parse(text: &str) -> Option<LeaseId> {
        let inner = match text.as_bytes() {
            [b'{', .., b'}'] | [b'(', .., b')'] => &text[1..text.len() - 1],
            _ => text,
        };
        let hyphens: Vec<usize> = inner.char_indices().filter(|(_, c)| *c == '-').map(|(at, _)| at).collect();
        if !hyphens.is_empty() && hyphens != [8, 13, 18, 23] {
            return None;
        }
        let digits = if inner.starts_with("0x") {
            // {0x01234567,0x89ab,0xcdef,{0x01,…}}
            inner.replace("0x", "").replace([',', '{', '}'], "")
        } else {
            inner.replace('-', "")
        };
        let is_guid = digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let value = u128::from_str_radix(&digits, 16).ok().filter(|_| is_guid)?;
        Some(LeaseId { text: text.to_string(), value })
    }

    /// One that the server chose.
    pub fn from_id(value: u128) -> LeaseId {
        let d = format!("{value:032x}");
        let text = format!("{}-{}-{}-{}-{}", &d[..8], &d[8..12], &d[12..16], &d[16..20], &d[20..]);
        LeaseId { text, value }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl PartialEq for LeaseId {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Eq for LeaseId {}

/// A resource's metadata: names as they were given, unique without case, in the order given.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Metadata(Vec<(String, String)>);

impl Metadata {
    /// Names are C# identifiers (ASCII, as they travel in header names); blanks around values are dropped.
    pub fn parse<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Metadata, Refusal> {
        let mut metadata: Vec<(String, String)> = Vec::new();
        let mut bytes = 0;
        for (name, value) in pairs {
            let value = value.trim_matches([' ', '\t']);
            if name.is_empty() {
                return Err(ErrorCode::EmptyMetadataKey.into());
            }
            let b = name.as_bytes();
            let identifier = !b[0].is_ascii_digit() && b.iter().all(|c| c.is_ascii_alphanumeric() || *c == b'_');
            if !identifier || metadata.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
                return Err(ErrorCode::InvalidMetadata.into());
            }
            bytes += name.len() + value.len();
            if bytes > METADATA_BYTES_MAX {
                return Err(ErrorCode::MetadataTooLarge.into());
            }
            metadata.push((name.to_string(), value.to_string()));
        }
        Ok(Metadata(metadata))
    }

    /// What was checked when it was stored is not checked again when it is read back.
    pub fn from_stored(pairs: Vec<(String, String)>) -> Metadata {
        Metadata(pairs)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same names, whatever their case and order, with exactly the same values.
    pub fn same_as(&self, other: &Metadata) -> bool {
        let has = |(name, value): &(String, String)| {
            other.0.iter().any(|(its, its_value)| its.eq_ignore_ascii_case(name) && its_value == value)
        };
        // Names are unique, so as many and all of them found is all.
        self.0.len() == other.0.len() && self.0.iter().all(has)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_ids_are_guids_in_any_form() {
        let plain = LeaseId::parse("01234567-89ab-cdef-0123-456789abcdef").expect("a GUID");
        for text in [
            "0123456789ABCDEF0123456789abcdef",
            "{01234567-89ab-cdef-0123-456789abcdef}",
            "(01234567-89AB-cdef-0123-456789abcdef)",
            "{0x01234567,0x89ab,0xcdef,{0x01,0x23,0x45,0x67,0x89,0xab,0xcd,0xef}}",
        ] {
            let id = LeaseId::parse(text).expect("a GUID");
            assert_eq!((&id, id.as_str()), (&plain, text));
        }
        for text in [
            "",
            "x",
            "01234567",
            "0123456789abcdef-0123456789abcdef",
            "01234567-89ab-cdef-0123-456789abcdeg",
            "\u{e9}",
            "{}",
            "(",
        ] {
            assert_eq!(LeaseId::parse(text), None, "{text}");
        }
        assert_eq!(LeaseId::from_id(0x0123456789abcdef0123456789abcdef), plain);
    }

    #[track_caller]
    fn check<T: std::fmt::Debug>(got: Result<T, Refusal>, expected: &str) {
        let got = got.map_or_else(|refusal| refusal.code.name(), |_| "ok");
        assert_eq!(got, expected);
    }

    #[test]
    fn container_names() {
        for (name, expected) in [
            ("abc", "ok"),
            ("a-b-c", "ok"),
            ("123", "ok"),
            ("$root", "ok"),
            ("$web", "ok"),
            ("$other", "InvalidResourceName"),
            ("ab", "OutOfRangeInput"),
            ("", "OutOfRangeInput"),
            ("Abc", "InvalidResourceName"),
            ("a--b", "InvalidResourceName"),
            ("-abc", "InvalidResourceName"),
            ("abc-", "InvalidResourceName"),
            ("a_b", "InvalidResourceName"),
            ("a.b", "InvalidResourceName"),
            ("a/b", "InvalidResourceName"),
            ("\u{e9}t\u{e9}", "InvalidResourceName"),
            ("a b", "InvalidResourceName"),
        ] {
            check(ContainerName::parse(name), expected);
        }
        check(ContainerName::parse(&"a".repeat(63)), "ok");
        check(ContainerName::parse(&"a".repeat(64)), "OutOfRangeInput");
    }

    #[test]
    fn file_paths() {
        const BAD: &str = "InvalidFileOrDirectoryPathName";
        let long = "x".repeat(255);
        for (path, dots, expected) in [
            ("", false, "ok "),
            ("/", false, "ok "),
            ("a", false, "ok a"),
            ("a/b/", false, "ok a/b"),
            ("Dir/Datei \u{e4}.txt", false, "ok Dir/Datei \u{e4}.txt"),
            ("a./b..", false, "ok a/b"),
            ("a./b..", true, "ok a./b.."),
            (" a ", false, "ok  a "),
            (&long, false, &format!("ok {long}")),
            ("COM10", false, "ok COM10"),
            ("nul.txt", false, "ok nul.txt"),
            ("...", true, "ok ..."),
            (&"x".repeat(256), false, BAD),
            (&"\u{1f600}".repeat(128), false, BAD),
            ("a//b", false, BAD),
            ("/a", false, BAD),
            ("//", false, BAD),
            (".", false, BAD),
            ("..", false, BAD),
            ("..", true, BAD),
            ("a/../b", false, BAD),
            ("...", false, BAD),
            ("a\\b", false, BAD),
            ("a:b", false, BAD),
            ("a*", false, BAD),
            ("a\u{1}", false, BAD),
            ("nul", false, BAD),
            ("Com1", false, BAD),
            ("com1./x", false, BAD),
            ("clock$", false, BAD),
            ("a\u{fffe}/\u{ffff}", false, "ok a\u{fffe}/\u{ffff}"),
            ("a\u{1fffe}", false, BAD),
        ] {
            let got = match FilePath::parse(path, dots) {
                Ok(path) => format!("ok {path}"),
                Err(refusal) => refusal.code.name().to_string(),
            };
            assert_eq!(got, expected, "{path} {dots}");
        }
        let deep = |names: usize| vec!["d"; names].join("/");
        check(FilePath::parse(&deep(250), false), "ok");
        check(FilePath::parse(&deep(251), false), BAD);
        check(FilePath::parse(&vec!["x".repeat(204); 11].join("/"), false), BAD);
    }

    #[test]
    fn file_names_are_the_same_in_any_case() {
        for (a, b, same) in
            [("File", "fILE", true), ("\u{e4}", "\u{c4}", true), ("stra\u{df}e", "STRASSE", false), ("a", "b", false)]
        {
            let [a, b] = [a, b].map(|name| FileName::parse(name).expect("right"));
            assert_eq!(a == b, same, "{a:?} {b:?}");
        }
    }

    #[test]
    fn queue_names() {
        for (name, expected) in [
            ("abc", "ok"),
            ("a-b-c", "ok"),
            ("$root", "InvalidResourceName"),
            ("ab", "OutOfRangeInput"),
            ("Abc", "InvalidResourceName"),
            ("a--b", "InvalidResourceName"),
            ("abc-", "InvalidResourceName"),
        ] {
            check(QueueName::parse(name), expected);
        }
    }

    #[test]
    fn same_metadata() {
        let of = |pairs: &[(&str, &str)]| Metadata::parse(pairs.iter().copied()).expect("right");
        for (a, b, same) in [
            (of(&[]), of(&[]), true),
            (of(&[("a", "1"), ("b", "2")]), of(&[("B", "2"), ("A", "1")]), true),
            (of(&[("a", "x")]), of(&[("a", "X")]), false),
            (of(&[("a", "1")]), of(&[("a", "1"), ("b", "2")]), false),
            (of(&[("a", "1"), ("b", "2")]), of(&[("a", "1"), ("c", "2")]), false),
            (of(&[]), of(&[("a", "")]), false),
        ] {
            assert_eq!((a.same_as(&b), b.same_as(&a)), (same, same), "{a:?} {b:?}");
        }
    }

    #[test]
    fn table_names() {
        for (name, expected) in [
            ("abc", "ok"),
            ("People2", "ok"),
            ("ab", "OutOfRangeInput"),
            ("", "OutOfRangeInput"),
            ("2people", "InvalidResourceName"),
            ("a-b", "InvalidResourceName"),
            ("a_b", "InvalidResourceName"),
            ("my table", "InvalidResourceName"),
            ("\u{e9}t\u{e9}s", "InvalidResourceName"),
            ("Tables", "InvalidResourceName"),
            ("tables", "InvalidResourceName"),
        ] {
            check(TableName::parse(name), expected);
        }
        check(TableName::parse(&"a".repeat(63)), "ok");
        check(TableName::parse(&"a".repeat(64)), "OutOfRangeInput");
        for refusal in [TableName::parse("ab").err(), QueueName::parse("ab").err()] {
            let words = "The specified resource name length is not within the permissible limits.";
            assert_eq!(refusal.expect("short").message(), words);
        }
        let name = TableName::parse("PeopleOf2026").expect("right");
        assert_eq!((name.as_str(), name.folded()), ("PeopleOf2026", "peopleof2026"));
        assert_eq!(name, TableName::parse("PEOPLEof2026").expect("right"));
    }

    #[test]
    fn blob_names() {
        for (name, expected) in [
            ("b", "ok"),
            ("dir/b", "ok"),
            ("a//b", "ok"),
            (" ", "ok"),
            ("a.", "ok"),
            ("a/", "ok"),
            ("\u{1f600}", "ok"),
            ("", "InvalidUri"),
            ("a\u{0}", "InvalidUri"),
            ("a\n", "InvalidUri"),
            ("a\u{85}", "InvalidUri"),
            ("..", "InvalidUri"),
            ("a/./b", "InvalidUri"),
            ("a/.../b", "ok"),
            ("a\u{fffe}\u{ffff}", "ok"),
            ("a\u{1fffe}", "InvalidUri"),
            ("a\u{fdd0}", "InvalidUri"),
        ] {
            check(BlobName::parse(name), expected);
        }
        check(BlobName::parse(&"\u{e9}".repeat(1024)), "ok");
        check(BlobName::parse(&"a".repeat(1025)), "OutOfRangeInput");
        check(BlobName::parse(&"a/".repeat(253)), "ok");
        check(BlobName::parse(&"a/".repeat(254)), "OutOfRangeInput");
    }

    #[test]
    fn account_names() {
        for (name, right) in [("devstoreaccount1", true), ("abc", true), ("ab", false), ("Abc", false), ("a-b", false)]
        {
            assert_eq!(AccountName::parse(name).is_some(), right, "{name}");
        }
    }

    #[test]
    fn metadata() {
        for (pairs, expected) in [
            (vec![], "ok"),
            (vec![("a", "1"), ("B_2", "")], "ok"),
            (vec![("", "1")], "EmptyMetadataKey"),
            (vec![("1a", "1")], "InvalidMetadata"),
            (vec![("a-b", "1")], "InvalidMetadata"),
            (vec![("a", "1"), ("A", "2")], "InvalidMetadata"),
        ] {
            check(Metadata::parse(pairs), expected);
        }
        let long = "v".repeat(METADATA_BYTES_MAX - 1);
        check(Metadata::parse([("k", long.as_str())]), "ok");
        check(Metadata::parse([("kk", long.as_str())]), "MetadataTooLarge");
        let kept = Metadata::parse([("Hello", "  World ")]).expect("right");
        assert_eq!(kept.iter().collect::<Vec<_>>(), [("Hello", "World")]);
    }
}
