//! Every cell of the service's tables of conditional headers as a line: the headers, then the answer. The resource has ETag `0x10` and was
//! modified at second 100. `M:` is If-Match, `N:` If-None-Match, `S:` If-Modified-Since, `U:` If-Unmodified-Since.

use super::*;

fn conditions(text: &str) -> Conditions {
    let mut conditions = Conditions::default();
    for word in text.split_whitespace() {
        let (header, value) = word.split_once(':').expect("header:value");
        let date = || Timestamp::from_ticks(0).plus_seconds(value.parse().expect("seconds"));
        match header {
            "M" => conditions.if_match = EtagTest::parse(value),
            "N" => conditions.if_none_match = EtagTest::parse(value),
            "S" => conditions.if_modified_since = Some(date()),
            "U" => conditions.if_unmodified_since = Some(date()),
            _ => panic!("{word}"),
        }
    }
    conditions
}

const CURRENT: Current = Current {
    etag: ETag(0x10),
    last_modified: Timestamp::from_ticks(1_000_000_001),
    lease: None,
    tags: &[],
    held: Held { tier: None, immutability: None, legal_hold: false, copying: false, incremental: false, expires: None },
}; // 100.0000001 s

fn answer(result: Result<(), Refusal>) -> String {
    match result {
        Ok(()) => "ok".into(),
        Err(refusal) if refusal.code == ErrorCode::ConditionNotMet => refusal.status.to_string(),
        Err(refusal) => refusal.code.name().into(),
    }
}

fn check(table: &str, judge: impl Fn(&Conditions) -> Result<(), Refusal>) {
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (headers, expected) = line.split_once("=>").expect("=>");
        assert_eq!(answer(judge(&conditions(headers))), expected.trim(), "{line}");
    }
}

#[test]
fn reads() {
    let newest = ApiVersion::NEWEST_KNOWN;
    check(
        "                               => ok
         M:0x10                         => ok
         M:\"0x10\"                     => ok
         M:*                            => ok
         M:0x11                         => 412
         M:0x11,0x10                    => ok
         M:0x1                          => 412
         M:0X10                         => 412
         N:0x10                         => 304
         N:0x11                         => ok
         N:0x11,0x10                    => 304
         N:*                            => UnsatisfiableCondition
         S:99                           => ok
         S:100                          => 304
         S:101                          => 304
         U:99                           => 412
         U:100                          => ok
         U:101                          => ok
         M:0x11 U:100                   => 412
         M:0x10 U:99                    => 412
         M:0x10 U:100                   => ok
         M:0x11 N:0x10                  => 412
         M:0x10 N:0x10                  => 304
         M:0x10 N:0x11                  => ok
         U:99 S:99                      => 412
         U:100 S:100                    => 304
         N:0x10 S:99                    => ok
         N:0x11 S:100                   => ok
         N:0x10 S:100                   => 304
         M:0x10 U:100 N:0x10 S:100      => 304
         M:0x10 U:100 N:0x11 S:100      => ok",
        |conditions| judge_read(conditions, newest, CURRENT),
    );
    let old = ApiVersion::parse("2015-12-11").expect("well formed");
    check("N:* => ok", |conditions| judge_read(conditions, old, CURRENT));
}

#[test]
fn writes_over_something() {
    let table = "
                                        => ok
         M:0x10                         => ok
         M:*                            => ok
         M:0x11                         => 412
         N:0x10                         => 412
         N:0x11                         => ok
         S:99                           => ok
         S:100                          => 412
         U:99                           => 412
         U:100                          => ok
         N:0x11 S:100                   => ok
         N:0x10 S:99                    => 412
         M:0x10 U:99                    => ok
         M:0x11 U:100                   => 412
         M:0x10 N:0x11                  => MultipleConditionHeadersNotSupported
         M:0x10 S:99                    => MultipleConditionHeadersNotSupported
         N:0x11 U:100                   => MultipleConditionHeadersNotSupported
         S:99 U:100                     => MultipleConditionHeadersNotSupported
         M:0x10 N:0x11 S:99             => MultipleConditionHeadersNotSupported
         M:0x10,0x11                    => MultipleConditionHeadersNotSupported
         N:0x10,0x11                    => MultipleConditionHeadersNotSupported";
    check(table, |conditions| judge_write(conditions, Some(CURRENT), Some(ErrorCode::BlobAlreadyExists)));
    check(table, |conditions| judge_write(conditions, Some(CURRENT), None));
    check("N:* => BlobAlreadyExists", |c| judge_write(c, Some(CURRENT), Some(ErrorCode::BlobAlreadyExists)));
    check("N:* => ok", |c| judge_write(c, Some(CURRENT), None));
}

#[test]
fn writes_where_nothing_is() {
    check(
        "                               => ok
         M:0x10                         => 412
         M:*                            => 412
         N:0x10                         => ok
         N:*                            => ok
         S:100                          => ok
         U:100                          => ok
         M:0x10 N:0x10                  => MultipleConditionHeadersNotSupported",
        |conditions| judge_write(conditions, None, Some(ErrorCode::BlobAlreadyExists)),
    );
}

#[test]
fn etag_lists() {
    assert_eq!(EtagTest::parse("*"), Some(EtagTest::Any));
    assert_eq!(EtagTest::parse(" \"a\" , b "), Some(EtagTest::OneOf(vec!["a".into(), "b".into()])));
    assert_eq!(EtagTest::parse(""), None);
    assert_eq!(EtagTest::parse(" , "), None);
}
