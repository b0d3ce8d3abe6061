use super::*;

/// The blob every case is held against.
fn tags() -> Tags {
    let pairs = [("Alpha", "1"), ("Beta-2", "it's"), ("Empty", ""), ("and", "word"), ("b", "x"), ("n", "09")];
    pairs.map(|(key, value)| (key.to_string(), value.replace('\'', ":"))).to_vec()
}

fn judged(expression: &str, dialect: Dialect) -> String {
    match TagExpression::parse(expression, dialect) {
        Ok(expression) => expression.holds(&tags()).to_string(),
        Err(_) => "refused".to_string(),
    }
}

#[track_caller]
fn check_table(dialect: Dialect, table: &str) {
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (expression, expected) = line.rsplit_once("=>").expect("expression => answer");
        assert_eq!(judged(expression.trim_end(), dialect), expected.trim(), "{expression}");
    }
}

#[test]
fn conditions() {
    check_table(
        Dialect::Condition,
        r#"
        Alpha = '1'                              => true
        "Alpha" = '1'                            => true
        "Alpha"='1'                              => true
        Alpha = '2'                              => false
        alpha = '1'                              => false
        Alpha <> '2'                             => true
        Alpha <> '1'                             => false
        Missing <> '1'                           => false
        Missing = ''                             => false
        Empty = ''                               => true
        Empty < 'a'                              => true
        n > '1'                                  => false
        n > '08'                                 => true
        n >= '09'                                => true
        n <= '09'                                => true
        n < '09'                                 => false
        n < '9'                                  => true
        "Beta-2" = 'it:s'                        => true
        "Beta-2" = 'it''s'                       => false
        "and" = 'word'                           => true
        Alpha = '1' AND b = 'x'                  => true
        Alpha = '1' and b = 'y'                  => false
        Alpha = '2' Or b = 'x'                   => true
        Alpha = '1' OR b = 'y' AND n = '0'       => true
        Alpha = '2' AND b = 'x' OR n = '09'      => true
        (Alpha = '1' OR b = 'y') AND n = '0'     => false
        ((Alpha = '1'))                          => true
        (Alpha='2' OR (b='x' AND (n='09')))      => true
        Alpha='1'AND(b='x')                      => true
    "#,
    );
}

#[test]
fn what_is_no_condition() {
    check_table(
        Dialect::Condition,
        r#"
                                                 => refused
        Alpha                                    => refused
        Alpha =                                  => refused
        Alpha = 1                                => refused
        Alpha = b                                => refused
        Alpha = "1"                              => refused
        '1' = Alpha                              => refused
        '1' = '1'                                => refused
        "" = '1'                                 => refused
        Alpha == '1'                             => refused
        Alpha != '1'                             => refused
        Alpha = '1                               => refused
        Alpha = '1'''                            => false
        Alpha = '1''                             => refused
        "Alpha = '1'                             => refused
        Alpha = '1' AND                          => refused
        AND Alpha = '1'                          => refused
        Alpha = '1' AND OR b = 'x'               => refused
        Alpha = '1' b = 'x'                      => refused
        Alpha = '1')                             => refused
        (Alpha = '1'                             => refused
        ()                                       => refused
        (                                        => refused
        NOT Alpha = '1'                          => refused
        Alpha LIKE '1'                           => refused
        Alpha = '1';                             => refused
        @container = 'box'                       => refused
        9 = '1'                                  => refused
        Älpha = '1'                              => refused
        "Älpha" = 'ß'                            => false
        Alpha > = '1'                            => refused
        Alpha < > '1'                            => refused
    "#,
    );
}

#[test]
fn where_is_smaller_than_a_condition() {
    let common = r#"
        Alpha = '1' AND b = 'x'                  => true
        Alpha = '1' AND Alpha > '2'              => false
        n >= '0' AND n < '1'                     => true
        Alpha = '1' OR b = 'x'                   => refused
        Alpha <> '1'                             => refused
        (Alpha = '1')                            => refused
        Alpha = '1' AND                          => refused
        @blob = 'box'                            => refused
        @ = 'box'                                => refused
        "@container" = 'box'                     => false
    "#;
    check_table(Dialect::WhereInAccount, common);
    check_table(Dialect::WhereInContainer, common);
    check_table(
        Dialect::WhereInAccount,
        r#"
        @container = 'box'                       => true
        @Container='box' AND Alpha = '1'         => true
        Alpha = '2' AND @container = 'box'       => false
        @container > 'box'                       => refused
        @containers = 'box'                      => refused
    "#,
    );
    check_table(Dialect::WhereInContainer, "@container = 'box' => refused");
}

#[test]
fn containers_and_names() {
    let parse = |text| TagExpression::parse(text, Dialect::WhereInAccount).expect("right");
    let one = parse("Alpha = '1' AND @container = 'box' AND \"b\" > ''");
    assert_eq!((one.container(), one.wants_container("box"), one.wants_container("other")), (Some("box"), true, false));
    assert_eq!([one.names("Alpha"), one.names("b"), one.names("n"), one.names("box")], [true, true, false, false]);
    let none = parse("Alpha = '1'");
    assert_eq!((none.container(), none.wants_container("any")), (None, true));
    assert!(!parse("@container = 'a' AND @container = 'b'").wants_container("a"));
}

/// Hostile lengths and depths end in an answer, soon and without a deep stack.
#[test]
fn length_and_depth() {
    let deep = format!("{}Alpha = '1'{}", "(".repeat(100_000), ")".repeat(100_000));
    assert_eq!(judged(&deep, Dialect::Condition), "true");
    assert_eq!(judged(&deep[1..], Dialect::Condition), "refused");
    assert_eq!(judged(&"(".repeat(100_000), Dialect::Condition), "refused");
    assert_eq!(judged(&format!("Alpha = '{}", "''".repeat(100_000)), Dialect::Condition), "refused");
    assert_eq!(judged(&format!("Alpha = '{}'", "''".repeat(100_000)), Dialect::Condition), "false");
    let joined = |operators: usize| vec!["Alpha = '1'"; operators + 1].join(" AND ");
    for dialect in [Dialect::Condition, Dialect::WhereInAccount, Dialect::WhereInContainer] {
        assert_eq!(judged(&joined(10), dialect), "true");
        assert_eq!(judged(&joined(11), dialect), "refused");
        assert_eq!(judged(&joined(100_000), dialect), "refused");
    }
    for end in 0..30 {
        judged(&"(\"Alpha\" = '1''' OR b <> 'x')"[..end], Dialect::Condition);
    }
}

#[test]
fn what_tags_may_be() {
    let pair = |key: &str, value: &str| (key.to_string(), value.to_string());
    let numbered = |count| (0..count).map(|n| pair(&format!("k{n}"), "")).collect::<Tags>();
    let (key, value) = ("k".repeat(128), "v".repeat(256));
    for (tags, expected) in [
        (vec![], None),
        (vec![pair("k", "")], None),
        (vec![pair(&key, &value)], None),
        (vec![pair("aZ0 +-./:=_", "aZ0 +-./:=_")], None),
        (numbered(10), None),
        (vec![pair("a", "1"), pair("A", "1")], None),
        (numbered(11), Some(ErrorCode::TagsTooLarge)),
        (vec![pair(&format!("{key}k"), "")], Some(ErrorCode::TagsTooLarge)),
        (vec![pair("k", &format!("{value}v"))], Some(ErrorCode::TagsTooLarge)),
        (vec![pair("", "v")], Some(ErrorCode::EmptyTagName)),
        (vec![pair("k", "v"), pair("k", "w")], Some(ErrorCode::DuplicateTagNames)),
        (vec![pair("k", "ä")], Some(ErrorCode::InvalidTag)),
        (vec![pair("k?", "v")], Some(ErrorCode::InvalidTag)),
        (vec![pair("k", "a'b")], Some(ErrorCode::InvalidTag)),
        (vec![pair("k", "a\nb")], Some(ErrorCode::InvalidTag)),
    ] {
        assert_eq!(check(tags.clone()).err().map(|refusal| refusal.code), expected, "{tags:?}");
    }
    assert_eq!(check(vec![pair("b", "1"), pair("a", "2")]), Ok(vec![pair("a", "2"), pair("b", "1")]));
}
