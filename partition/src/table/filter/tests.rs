use super::*;

/// The entity every case is held against: `n` is absent, `Off` false.
fn property(name: &str) -> Option<ValueRef<'static>> {
    Some(match name {
        "PartitionKey" => ValueRef::String("part"),
        "RowKey" => ValueRef::String("0042"),
        "Timestamp" => ValueRef::DateTime(parse_date_time("2026-01-02T03:04:05.0000001Z").expect("a time")),
        "Text" => ValueRef::String("it's"),
        "Empty" => ValueRef::String(""),
        "Greek" => ValueRef::String("\u{3b1}\u{3b2}"),
        "Small" => ValueRef::Int32(42),
        "Least" => ValueRef::Int32(i32::MIN),
        "Large" => ValueRef::Int64(9_007_199_254_740_993),
        "Lowest" => ValueRef::Int64(i64::MIN),
        "Real" => ValueRef::Double(1.5),
        "Endless" => ValueRef::Double(f64::INFINITY),
        "Odd" => ValueRef::Double(f64::NAN),
        "On" => ValueRef::Boolean(true),
        "Off" => ValueRef::Boolean(false),
        "When" => ValueRef::DateTime(parse_date_time("2008-07-10T00:00:00.1234567Z").expect("a time")),
        "Who" => ValueRef::Guid(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef),
        "Raw" => ValueRef::Binary(&[0x0a, 0xff]),
        "None" => ValueRef::Binary(&[]),
        "_u1" => ValueRef::Int32(1),
        "\u{e9}t\u{e9}" => ValueRef::Int32(2),
        _ => return None,
    })
}

/// `true`, `false`, or the refusal: its code, and the place it names.
fn judged(filter: &str) -> String {
    match Filter::parse(filter) {
        Ok(filter) => filter.matches(property).to_string(),
        Err(refusal) => {
            let place = refusal.message().split("position ").nth(1).and_then(|rest| rest.split(' ').next());
            format!("{}{}", refusal.code.name(), place.map(|place| format!("@{place}")).unwrap_or_default())
        }
    }
}

#[track_caller]
fn check(table: &str) {
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (filter, expected) = line.rsplit_once("=>").expect("filter => answer");
        assert_eq!(judged(filter.trim_end()), expected.trim(), "{filter}");
    }
}

/// Each type: a literal below the value, the value, one above; every comparison, both ways round.
#[test]
fn every_comparison_of_every_type() {
    for line in "
        PartitionKey | 'paa'       | 'part'      | 'partt'
        RowKey       | '0041'      | '0042'      | '0043'
        Text         | 'it'        | 'it''s'     | 'itt'
        Empty        |             | ''          | ' '
        Greek        | 'z'         | '\u{3b1}\u{3b2}' | '\u{3b1}\u{3b3}'
        Small        | 41          | 42          | 43
        Small        | -42         | +42         | 2147483647
        Least        |             | -2147483648 | 0
        Large        | 9007199254740992L | 9007199254740993L | 9007199254740994L
        Large        | 0L          | 9007199254740993l | 9223372036854775807L
        Large        | -9223372036854775808L | 9007199254740993 | 9007199254740995
        Lowest       |             | -9223372036854775808L | -1L
        Real         | 1.4999999999999998 | 1.5  | 1.5000000000000002
        Real         | -1.5        | 1.50        | 2.0
        Real         | 1e0         | 15e-1       | 1.5E+3
        Real         | 1D          | 1.5D        | 2d
        Real         | -INF        | 0.15e1      | INF
        Endless      | 1.7976931348623157e308 | INF |
        On           | false       | true        |
        Off          |             | false       | true
        When         | datetime'2008-07-10T00:00:00.1234566Z' | datetime'2008-07-10T00:00:00.1234567Z' | datetime'2008-07-10T00:00:00.1234568Z'
        When         | datetime'2008-07-10' | datetime'2008-07-10T02:00:00.1234567+02:00' | datetime'2008-07-11T00:00:00'
        Timestamp    | datetime'2026-01-02T03:04:05Z' | datetime'2026-01-02T03:04:05.0000001' | datetime'9999-12-31T23:59:59.9999999Z'
        Who          | guid'01234567-89ab-cdef-0123-456789abcdee' | guid'01234567-89AB-CDEF-0123-456789ABCDEF' | guid'f1234567-89ab-cdef-0123-456789abcdef'
        Raw          | X'0a'       | X'0aff'     | X'0aff00'
        Raw          | binary''    | binary'0AFF' | binary'0B'
        None         |             | x''         | X'00'
    "
    .lines()
    .map(str::trim)
    .filter(|line| !line.is_empty())
    {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, below, same, above] = fields[..] else { panic!("{line}") };
        for (literal, order) in [(below, 1), (same, 0), (above, -1)] {
            if literal.is_empty() && order != 0 {
                continue;
            }
            for (word, flipped, expected) in [
                ("eq", "eq", order == 0),
                ("ne", "ne", order != 0),
                ("gt", "lt", order > 0),
                ("ge", "le", order >= 0),
                ("lt", "gt", order < 0),
                ("le", "ge", order <= 0),
            ] {
                for filter in [format!("{name} {word} {literal}"), format!("{literal} {flipped} {name}")] {
                    assert_eq!(judged(&filter), expected.to_string(), "{filter}");
                    assert_eq!(judged(&format!("not ({filter})")), (!expected).to_string(), "not ({filter})");
                }
            }
        }
    }
}

/// Not the other way round: wider literals find nothing narrower.
#[test]
fn an_int32_finds_wider_numbers() {
    check(
        "Large gt 5                        => true
         Large eq 5                        => false
         Large ne 5                        => true
         5 lt Large                        => true
         Lowest lt -2147483648             => true
         Real gt 1                         => true
         Real lt 2                         => true
         Real ge 2                         => false
         2 gt Real                         => true
         Endless gt 2147483647             => true
         Odd gt 0                          => false
         Odd ne 0                          => true
         Small eq 42L                      => false
         Small eq 42.0                     => false
         Real gt 1L                        => false
         Large gt 1.0                      => false",
    );
}

/// Across other types nothing holds, nor on what is not there.
#[test]
fn every_comparison_across_types() {
    let literals = [
        "'42'",
        "42",
        "42L",
        "42.0",
        "true",
        "datetime'2008-07-10'",
        "guid'0123456789abcdef0123456789abcdef'",
        "X'42'",
    ];
    let names = ["Text", "Small", "Large", "Real", "On", "When", "Who", "Raw", "n"];
    for (i, name) in names.iter().enumerate() {
        let widens = |literal: &str| literal == "42" && ["Large", "Real"].contains(name);
        for (j, literal) in literals.iter().enumerate().filter(|(j, literal)| *j != i && !widens(literal)) {
            for word in ["eq", "ne", "gt", "ge", "lt", "le"] {
                assert_eq!(judged(&format!("{name} {word} {literal}")), "false", "{name} {word} {literal} {j}");
                assert_eq!(judged(&format!("not ({name} {word} {literal})")), "true", "{name} {word} {literal}");
            }
        }
    }
}

#[test]
fn logic_and_precedence() {
    check(
        "true                                                          => true
         false                                                         => false
         not true                                                      => false
         not false                                                     => true
         not not true                                                  => true
         not(true)                                                     => false
         not (not (true))                                              => true
         On                                                            => true
         Off                                                           => false
         not Off                                                       => true
         n                                                             => false
         not n                                                         => true
         Small                                                         => false
         Text                                                          => false
         On and On                                                     => true
         On and Off                                                    => false
         Off or On                                                     => true
         Off or Off                                                    => false
         On or Off and Off                                             => true
         Off and Off or On                                             => true
         (On or Off) and Off                                           => false
         On and Off or On and On                                       => true
         not Off and Off                                               => false
         not (Off and Off)                                             => true
         not Off or On                                                 => true
         not On or On                                                  => true
         not (On or On)                                                => false
         not On and not Off                                            => false
         On and not Off                                                => true
         On and not (Off or Off)                                       => true
         true or false and false                                       => true
         false and false or true                                       => true
         ((((On))))                                                    => true
         (On)and(On)                                                   => true
         (Off)or(On)                                                   => true
         Small eq 42 and Real eq 1.5                                   => true
         Small eq 42 and Real eq 1.6                                   => false
         Small eq 41 or Real eq 1.5                                    => true
         not Small eq 41                                               => true
         not Small eq 42                                               => false
         not (Small eq 41) and Real eq 1.5                             => true
         (PartitionKey eq 'part') and (RowKey eq '0042')               => true
         PartitionKey eq 'part' and RowKey ge '0' and RowKey lt '1'    => true
         (PartitionKey eq 'part' and (RowKey ge '0' and RowKey lt '0042')) => false
         PartitionKey ge 'pa' and PartitionKey lt 'pb'                 => true
         PartitionKey eq 'Part'                                        => false
         partitionkey eq 'part'                                        => false
         On eq true                                                    => true
         true eq On                                                    => true
         On eq false                                                   => false
         On ne false                                                   => true
         (On eq true) and (Off eq false)                               => true
         Off eq true or On                                             => true
         Small eq 42 and Small ne 41 and Small gt 41 and Small ge 42 and Small lt 43 and Small le 42 => true
         Small eq 1 or Small eq 2 or Small eq 3 or Small eq 42         => true
         _u1 eq 1                                                      => true
         \u{e9}t\u{e9} eq 2                                            => true
         Text eq 'it''s'                                               => true
         Text eq 'its'                                                 => false
         Empty eq ''                                                   => true
         Empty ne ''                                                   => false
         Text ne ''''                                                  => true
         Text eq '(' or Text eq ')' or On                              => true
         Text eq ' and ' or On                                         => true
         Greek eq '\u{3b1}\u{3b2}'                                     => true
           Small   eq   42                                             => true
         Small\teq\t42                                                 => true
         (Small eq 42)or(Small eq 1)                                   => true
         Odd eq NaN                                                    => false
         Odd ne NaN                                                    => true
         Odd gt 0.0                                                    => false
         Odd lt 0.0                                                    => false
         Real ne NaN                                                   => true
         Real lt NaN                                                   => false
         Endless eq INF                                                => true
         Endless gt -INF                                               => true
         Small eq 42.                                                  => false
         Real eq .15e1                                                 => true
         n eq 1                                                        => false
         n ne 1                                                        => false
         not (n eq 1)                                                  => true
         n eq 1 or On                                                  => true
         n ne 1 and On                                                 => false
         Small eq 42L                                                  => false
         Small ne 42L                                                  => false
         Real eq 1                                                     => false
         Large gt 1                                                    => true
         Large gt 1L                                                   => true
         Text gt 1                                                     => false
         Small eq '42'                                                 => false
         Timestamp ge datetime'2026-01-01T00:00:00Z' and Timestamp lt datetime'2027-01-01T00:00:00Z' => true",
    );
}

#[test]
fn what_is_no_filter() {
    check(
        "aaa bbb ccc             => InvalidInput@7
         (                       => InvalidInput@1
         )                       => InvalidInput@1
         ()                      => InvalidInput@2
         (On                     => InvalidInput@3
         On)                     => InvalidInput@3
         ((On)                   => InvalidInput@5
         and                     => InvalidInput@3
         On and                  => InvalidInput@6
         and On                  => InvalidInput@3
         On On                   => InvalidInput@5
         On or or On             => InvalidInput@8
         not                     => InvalidInput@3
         On not Off              => InvalidInput@6
         Small eq                => InvalidInput@8
         eq 42                   => InvalidInput@2
         Small 42                => InvalidInput@8
         Small = 42              => InvalidInput@7
         Small == 42             => InvalidInput@7
         Small eq 42 43          => InvalidInput@14
         Small eq eq             => InvalidInput@11
         Small eq and            => InvalidInput@12
         Small eq (42)           => InvalidInput@10
         (Small) eq 42           => InvalidInput@10
         Small EQ 42             => InvalidInput@8
         Small eq 42 AND On      => InvalidInput@15
         42                      => InvalidInput@2
         'text'                  => InvalidInput@6
         Text eq 'open           => InvalidInput@13
         Text eq '               => InvalidInput@9
         Text eq 'a''            => InvalidInput@12
         Text eq 'a'b'           => InvalidInput@13
         Text eq open'           => InvalidInput@13
         Text eq \"it\"          => InvalidInput@9
         Small eq null           => InvalidInput@13
         null eq Small           => InvalidInput@4
         Small eq 4 2            => InvalidInput@12
         Small eq 42x            => InvalidInput@11
         Small eq 0x2a           => InvalidInput@10
         Small eq --42           => InvalidInput@10
         Small eq -              => InvalidInput@10
         Small eq 1.2.3          => InvalidInput@14
         Small eq 1e             => InvalidInput@11
         Small eq 1e5e5          => InvalidInput@12
         Small eq 99999999999999999999   => InvalidInput@29
         Small eq 9223372036854775808L   => InvalidInput@29
         Small eq 1.5L           => InvalidInput@13
         Real eq 1e400           => InvalidInput@13
         Real eq 1.5F            => InvalidInput@11
         Real eq 1.5M            => InvalidInput@11
         When eq datetime'soon'  => InvalidInput@22
         When eq datetime'2008-13-10T00:00:00Z' => InvalidInput@38
         When eq datetime        => NotImplemented
         Who eq guid'1'          => InvalidInput@14
         Who eq guid''           => InvalidInput@13
         Raw eq X'0'             => InvalidInput@11
         Raw eq X'0g'            => InvalidInput@12
         Raw eq binary'zz'       => InvalidInput@17
         Raw eq Y'00'            => InvalidInput@12
         Raw eq time'13:20:00'   => InvalidInput@21
         a/b eq 1                => InvalidInput@2
         a.b eq 1                => InvalidInput@2
         $a eq 1                 => InvalidInput@1
         @p eq 1                 => InvalidInput@1
         a, b                    => InvalidInput@2
         a eq 1; b eq 2          => InvalidInput@7
         startswith(Text,'i')    => NotImplemented
         substringof('i',Text)   => NotImplemented
         not endswith(Text,'s')  => NotImplemented
         length(Text) eq 4       => NotImplemented
         year(When) eq 2008      => NotImplemented
         Small add 1 eq 43       => NotImplemented
         Small sub 1 gt 0        => NotImplemented
         1 add 1 eq Small        => NotImplemented
         Small mul 2 eq 84       => NotImplemented
         Small div 2 eq 21       => NotImplemented
         Small mod 2 eq 0        => NotImplemented
         Small eq Small          => NotImplemented
         Small eq On             => NotImplemented
         1 eq 1                  => NotImplemented
         true eq true            => NotImplemented
         'a' eq 'a'              => NotImplemented",
    );
    for empty in ["", " ", "\t"] {
        assert_eq!(judged(empty), format!("InvalidInput@{}", empty.len()));
    }
}

#[test]
fn the_refusal_shows_the_filter() {
    let refusal = Filter::parse("aaa bbb ccc").expect_err("no filter");
    assert_eq!(refusal.message(), "Syntax error at position 7 in 'aaa bbb ccc'.");
}

/// A hostile filter costs time in proportion to its length and no stack at all.
#[test]
fn depth_does_not_matter() {
    let deep = 200_000;
    let parentheses = format!("{}On{}", "(".repeat(deep), ")".repeat(deep));
    assert_eq!(judged(&parentheses), "true");
    assert_eq!(judged(&format!("{}Off", "not ".repeat(deep + 1))), "true");
    assert_eq!(judged(&format!("{}Off{}", "not (".repeat(deep), ")".repeat(deep))), "false");
    assert_eq!(judged(&format!("{}On", "On and ".repeat(deep))), "true");
    assert_eq!(judged(&format!("{}On", "On and (".repeat(deep))), format!("InvalidInput@{}", 8 * deep + 2));
    assert_eq!(judged(&"(".repeat(deep)), format!("InvalidInput@{deep}"));
}

/// Any bytes at all: an answer, never a panic.
#[test]
fn nonsense_is_refused_and_nothing_more() {
    let words = [
        "(",
        ")",
        "not",
        "and",
        "or",
        "eq",
        "lt",
        "On",
        "Small",
        "42",
        "42L",
        "-",
        "1.5e",
        "'",
        "''",
        "'a'",
        "X'0a'",
        "datetime'",
        "guid'1'",
        "true",
        " ",
        "\u{e9}",
        "\u{1f600}",
        "$",
        "null",
        "-INF",
        "e5",
        "\0",
    ];
    let mut state = 7u64;
    for _ in 0..20_000 {
        let mut filter = String::new();
        for _ in 0..12 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            filter.push_str(words[(state >> 33) as usize % words.len()]);
            if state >> 62 != 0 {
                filter.push(' ');
            }
        }
        if let Ok(filter) = Filter::parse(&filter) {
            filter.matches(property);
            crate::table::plan::plan(&filter);
        }
    }
}
