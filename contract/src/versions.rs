//! `x-ms-version` dates turned into named features. Any well-formed date is taken: one newer than we know behaves as the
//! newest we know, so that a new SDK release is never refused.

use std::fmt;

/// A protocol version, as the number YYYYMMDD.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ApiVersion(u32);

impl ApiVersion {
    /// What a key-signed request without a version is taken for, as the Blob service does.
    pub const OLDEST: ApiVersion = ApiVersion(20090414);
    pub const NEWEST_KNOWN: ApiVersion = ApiVersion(20261006);

    pub const QUOTED_ETAGS: ApiVersion = ApiVersion(20110818);
    /// Messages of 64 KiB instead of 8, hidden for up to a week instead of two hours.
    pub const LARGE_MESSAGES: ApiVersion = ApiVersion(20110818);
    /// Put Message answers with the message it made.
    pub const PUT_MESSAGE_ANSWERS: ApiVersion = ApiVersion(20160531);
    /// Messages that live longer than a week, or for ever.
    pub const LONG_LIVED_MESSAGES: ApiVersion = ApiVersion(20170729);
    /// Before, the Table service speaks Atom alone; from `TABLES_SPEAK_JSON_ALONE` on it does not speak it any more.
    pub const TABLES_SPEAK_JSON: ApiVersion = ApiVersion(20130815);
    pub const TABLES_SPEAK_JSON_ALONE: ApiVersion = ApiVersion(20151211);
    pub const SEVERAL_READ_CONDITIONS: ApiVersion = ApiVersion(20130815);
    pub const ZERO_LENGTH_SIGNED_EMPTY: ApiVersion = ApiVersion(20150221);
    pub const EMPTY_HEADERS_SIGNED: ApiVersion = ApiVersion(20160531);
    /// Range reads show the MD5 of the whole blob beside that of the part.
    pub const RANGES_SHOW_BLOB_MD5: ApiVersion = ApiVersion(20160531);
    pub const PUT_BLOB_256_MIB: ApiVersion = ApiVersion(20160531);
    /// `If-None-Match: *` on a read is an error from here on, and was ignored before.
    pub const NONE_MATCH_ANY_REFUSED_ON_READ: ApiVersion = ApiVersion(20160531);
    pub const ERROR_CODE_HEADER: ApiVersion = ApiVersion(20170729);
    pub const CREATION_TIME: ApiVersion = ApiVersion(20171109);
    pub const CLIENT_REQUEST_ID_ECHOED: ApiVersion = ApiVersion(20190202);
    pub const CRC64: ApiVersion = ApiVersion(20190202);
    /// Shares have access tiers and protocols, and can be leased soon after.
    pub const SHARE_TIERS: ApiVersion = ApiVersion(20191212);
    pub const SHARE_LEASES: ApiVersion = ApiVersion(20200210);
    pub const PUT_BLOB_5000_MIB: ApiVersion = ApiVersion(20191212);
    /// Answers 401 with a challenge where older versions answered 404.
    pub const CHALLENGES: ApiVersion = ApiVersion(20191212);
    /// Put Blob From URL, and blocks of 4000 MiB from there.
    pub const PUT_FROM_URL: ApiVersion = ApiVersion(20200408);
    pub const APPEND_BLOCK_100_MIB: ApiVersion = ApiVersion(20221102);
    /// A hash that was sent is answered together with the other kind.
    pub const PAGE_LISTS_ARE_PAGED: ApiVersion = ApiVersion(20201002);
    pub const SMART_TIER: ApiVersion = ApiVersion(20260606);
    pub const TIER_ON_GET: ApiVersion = ApiVersion(20261006);
    pub const BOTH_HASHES_ANSWERED: ApiVersion = ApiVersion(20261006);
    pub const ENCODED_NAMES_IN_LISTS: ApiVersion = ApiVersion(20210212);

    // What the string to sign of a SAS has, by the version it was signed with.
    pub const SERVICE_SAS: ApiVersion = ApiVersion(20120212);
    pub const SAS_OVERRIDES_HEADERS: ApiVersion = ApiVersion(20130815);
    pub const SAS_NAMES_SERVICE: ApiVersion = ApiVersion(20150221);
    pub const ACCOUNT_SAS: ApiVersion = ApiVersion(20150405);
    pub const SAS_RESTRICTS_ADDRESS: ApiVersion = ApiVersion(20150405);
    pub const SAS_SIGNS_RESOURCE_KIND: ApiVersion = ApiVersion(20181109);
    pub const SAS_SIGNS_ENCRYPTION_SCOPE: ApiVersion = ApiVersion(20201206);
    pub const USER_DELEGATION_SAS: ApiVersion = ApiVersion(20181109);
    pub const DELEGATION_SAS_NAMES_AGENTS: ApiVersion = ApiVersion(20200210);
    pub const USER_DELEGATION_BEYOND_BLOBS: ApiVersion = ApiVersion(20250705);
    pub const DELEGATION_SAS_BINDS_USER: ApiVersion = ApiVersion(20250705);
    pub const DELEGATION_SAS_SIGNS_REQUEST: ApiVersion = ApiVersion(20260406);

    pub const BEARER_TOKENS: ApiVersion = ApiVersion(20171109);

    /// `YYYY-MM-DD` with a month and a day that can be; not before the first version.
    pub fn parse(text: &str) -> Option<ApiVersion> {
        let b = text.as_bytes();
        if b.len() != 10 || b[4] != b'-' || b[7] != b'-' {
            return None;
        }
        let mut number = 0u32;
        for (i, c) in b.iter().enumerate() {
            if i == 4 || i == 7 {
                continue;
            }
            if !c.is_ascii_digit() {
                return None;
            }
            number = number * 10 + u32::from(c - b'0');
        }
        let (month, day) = (number / 100 % 100, number % 100);
        let version = ApiVersion(number);
        ((1..=12).contains(&month) && (1..=31).contains(&day) && version >= Self::OLDEST).then_some(version)
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.0 / 10_000, self.0 / 100 % 100, self.0 % 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_formed_dates_are_versions() {
        for text in ["2009-04-14", "2019-12-12", "2026-10-06", "2031-01-01"] {
            assert_eq!(ApiVersion::parse(text).map(|v| v.to_string()).as_deref(), Some(text));
        }
    }

    #[test]
    fn anything_else_is_not() {
        for text in [
            "",
            "latest",
            "2019-13-01",
            "2019-00-10",
            "2019-01-32",
            "2019-1-01",
            "20190101",
            "1999-01-01",
            "2019-12-12 ",
            "２019-1-01",
        ] {
            assert_eq!(ApiVersion::parse(text), None, "{text}");
        }
    }

    #[test]
    fn features_follow_dates() {
        let old = ApiVersion::parse("2014-02-14").expect("well formed");
        assert!(old < ApiVersion::ERROR_CODE_HEADER && old >= ApiVersion::SEVERAL_READ_CONDITIONS);
        let future = ApiVersion::parse("2040-01-01").expect("well formed");
        assert!(future >= ApiVersion::NEWEST_KNOWN);
    }
}
