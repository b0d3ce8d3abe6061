//! Histories written by hand. A row is a call: the moments between which it lay (`-` for a server that was never done with it), the
//! deed, and the answer. Rows count from 1, which is also the number of the value they write; `e2` is an ETag.

use super::*;
use crate::sim::check::{Kind, check as check_all};

#[track_caller]
fn accepts(rows: &str) {
    if let Err(violation) = check_all(&history(rows)) {
        panic!("a right history was refused:\n{violation}");
    }
}

#[track_caller]
fn rejects(kind: Kind, rows: &str) {
    match check_all(&history(rows)) {
        Ok(()) => panic!("a wrong history was accepted"),
        Err(violation) => assert_eq!(violation.kind, kind, "{violation}"),
    }
}

#[test]
fn one_after_another() {
    accepts(
        "1..2   create               => done e1
         3..4   put a                => done e2
         5..6   get a                => shown 2 e2
         7..8   put a if-match e2    => done e3
         9..10  put a if-match e2    => unmet
        11..12  put a if-none-match * => blob-exists
        13..14  head a if-none-match e3 => not-modified
        15..16  delete a if-match e3 => done
        17..18  get a                => no-blob
        19..20  put a if-none-match * => done e9
        21..22  set-metadata if-match e1 => done e10
        23..24  get-container        => shown 11 e10
        25..26  list                 => rows a:10:e9
        27..28  delete-container     => done
        29..30  get a                => no-container
        31..32  create               => done e30
        33..34  get a                => no-blob",
    );
}

#[test]
fn overlapping_calls_take_either_order() {
    for (first, second) in [("shown 2 e2", "shown 3 e3"), ("shown 3 e3", "shown 3 e3"), ("shown 2 e2", "shown 2 e2")] {
        accepts(&format!(
            "1..2  create => done e1
             3..4  put a  => done e2
             5..20 put a  => done e3
             6..7  get a  => {first}
             8..9  get a  => {second}"
        ));
    }
}

#[test]
fn stale_read() {
    rejects(
        Kind::NotLinearizable,
        "1..2  create => done e1
         3..4  put a  => done e2
         5..6  put a  => done e3
         7..8  get a  => shown 2 e2",
    );
    // Also before the write is acknowledged: once anybody has seen it, everybody does.
    rejects(
        Kind::NotLinearizable,
        "1..2   create => done e1
         3..4   put a  => done e2
         5..20  put a  => done e3
         6..7   get a  => shown 3 e3
         8..9   get a  => shown 2 e2",
    );
}

#[test]
fn lost_update() {
    rejects(
        Kind::NotLinearizable,
        "1..2  create            => done e1
         3..4  put a             => done e2
         5..8  put a if-match e2 => done e3
         6..7  put a if-match e2 => done e4",
    );
    rejects(
        Kind::NotLinearizable,
        "1..2  create                   => done e1
         3..6  set-metadata if-match e1 => done e3
         4..5  set-metadata if-match e1 => done e4",
    );
}

#[test]
fn two_winners_of_create_once() {
    rejects(
        Kind::NotLinearizable,
        "1..2  create                => done e1
         3..6  put a if-none-match * => done e3
         4..5  put a if-none-match * => done e4",
    );
    rejects(
        Kind::NotLinearizable,
        "1..4  create => done e1
         2..3  create => done e2",
    );
}

#[test]
fn acknowledged_write_lost() {
    rejects(
        Kind::NotLinearizable,
        "1..2  create => done e1
         3..4  put a  => done e2
         5..6  get a  => no-blob",
    );
    rejects(
        Kind::NotLinearizable,
        "1..2  create   => done e1
         3..4  put a    => done e2
         5..6  put a    => done e3
         7..8  delete a => done
         9..10 head a   => shown 3 e3",
    );
    rejects(
        Kind::NotLinearizable,
        "1..2  create => done e1
         3..4  put a  => done e2
         5..6  list   => rows",
    );
}

#[test]
fn unknown_outcomes_may_have_happened_until_they_are_settled() {
    let history = |end: &str, first: &str, second: &str| {
        format!(
            "1..2   create => done e1
             3..4   put a  => done e2
             5..{end} put a => unknown
             7..8   get a  => {first}
             11..12 get a  => {second}"
        )
    };
    accepts(&history("6", "shown 2 e2", "shown 2 e2"));
    accepts(&history("6", "shown 3 e3", "shown 3 e3"));
    accepts(&history("10", "shown 2 e2", "shown 3 e3"));
    accepts(&history("-", "shown 2 e2", "shown 3 e3"));
    rejects(Kind::NotLinearizable, &history("6", "shown 2 e2", "shown 3 e3"));
    rejects(Kind::NotLinearizable, &history("-", "shown 3 e3", "shown 2 e2"));
    // It happened at most once.
    rejects(
        Kind::NotLinearizable,
        "1..2   create => done e1
         3..-   put a  => unknown
         5..6   get a  => shown 2 e2
         7..8   delete a => done
         9..10  get a  => shown 2 e2",
    );
}

#[test]
fn what_certainly_did_not_happen_is_never_seen() {
    rejects(
        Kind::NotLinearizable,
        "1..2  create => done e1
         3..4  put a  => nothing
         5..6  get a  => shown 2 e2",
    );
    rejects(
        Kind::NotLinearizable,
        "1..2  create            => done e1
         3..4  put a             => done e2
         5..6  put a if-match e9 => unmet
         7..8  get a             => shown 3 e3",
    );
}

#[test]
fn torn_value() {
    rejects(
        Kind::WrongAnswer,
        "1..2  create => done e1
         3..4  put a  => done e2
         5..6  get a  => wrong",
    );
}

#[test]
fn etags_name_values() {
    rejects(
        Kind::EtagChanged,
        "1..2  create => done e1
         3..4  put a  => done e2
         5..6  get a  => shown 2 e3",
    );
    rejects(
        Kind::EtagRepeated,
        "1..2  create   => done e1
         3..4  put a    => done e2
         5..6  delete a => done
         7..8  put a    => done e2",
    );
    // They grow with every write, and over a deletion as well.
    rejects(
        Kind::NotLinearizable,
        "1..2  create => done e1
         3..4  put a  => done e3
         5..6  put a  => done e2",
    );
    rejects(
        Kind::NotLinearizable,
        "1..2  create   => done e1
         3..4  put a    => done e3
         5..6  delete a => done
         7..8  put a    => done e2",
    );
    rejects(
        Kind::UnknownValue,
        "1..2  create => done e1
         3..4  put a  => done e2
         5..6  get c  => shown 2 e2",
    );
}

#[test]
fn blobs_vanish_with_their_container() {
    rejects(
        Kind::NotLinearizable,
        "1..2  create           => done e1
         3..4  put a            => done e2
         5..6  delete-container => done
         7..8  create           => done e5
         9..10 get a            => shown 2 e2",
    );
    // A put that raced the deletion came before it, whatever its answer was late for.
    accepts(
        "1..2   create           => done e1
         3..12  put a            => done e9
         4..7   delete-container => done
         8..9   create           => done e5
         10..11 get a            => no-blob",
    );
}

#[test]
fn a_call_that_races_the_deletion_of_its_container() {
    let rows = "1..2   create           => done e1
                3..4   put a            => done e2
                5..10  delete-container => done
                6..11  get a            => no-blob
                7..12  put a if-match e2 => unmet
                8..13  list             => rows";
    rejects(Kind::NotLinearizable, rows);
}

#[test]
fn listings_are_judged_name_by_name() {
    // Two blobs that were never there together: no one moment, and still right.
    accepts(
        "1..2   create   => done e1
         3..4   put c    => done e2
         5..20  list     => rows c:2:e2 d:5:e5
         6..7   delete c => done
         8..9   put d    => done e5",
    );
    rejects(
        Kind::NotLinearizable,
        "1..2   create => done e1
         3..4   put c  => done e2
         5..20  list   => rows
         6..7   put c  => done e5",
    );
    rejects(
        Kind::NotLinearizable,
        "1..2  create => done e1
         3..4  put c  => done e2
         5..6  delete c => done
         7..8  list   => rows c:2:e2",
    );
    accepts(
        "1..2  create   => done e1
         3..4  put b/1  => done e2
         5..6  list /   => rows prefix",
    );
    rejects(
        Kind::NotLinearizable,
        "1..2  create   => done e1
         3..4  put a    => done e2
         5..6  list /   => rows a:2:e2 prefix",
    );
    rejects(
        Kind::NotLinearizable,
        "1..2  create   => done e1
         3..4  put b/1  => done e2
         5..6  list /   => rows",
    );
}

fn history(rows: &str) -> History {
    let mut history = History::default();
    for (index, row) in rows.lines().map(str::trim).filter(|row| !row.is_empty()).enumerate() {
        history.push(parse(index as u32 + 1, row).unwrap_or_else(|| panic!("cannot be read: {row}")));
    }
    history
}

fn parse(id: u32, row: &str) -> Option<Call> {
    let (left, right) = row.split_once("=>")?;
    let mut words = left.split_whitespace();
    let (began, ended) = words.next()?.split_once("..")?;
    let (began, ended) = (began.parse().ok()?, if ended == "-" { None } else { Some(ended.parse().ok()?) });
    let (verb, mut rest) = (words.next()?, words.collect::<Vec<_>>());
    let blob = rest.first().and_then(|word| BLOBS.iter().position(|name| name == word));
    if blob.is_some() {
        rest.remove(0);
    }
    let condition = match rest.as_slice() {
        ["if-match", "*"] => Condition::IfMatchAny,
        ["if-match", etag] => Condition::IfMatch(number(etag, "e")?),
        ["if-none-match", "*"] => Condition::IfNoneMatchAny,
        ["if-none-match", etag] => Condition::IfNoneMatch(number(etag, "e")?),
        _ => Condition::None,
    };
    let what = match verb {
        "create" => What::CreateContainer,
        "get-container" => What::GetContainer,
        "set-metadata" => What::SetContainerMetadata(condition),
        "delete-container" => What::DeleteContainer(condition),
        "put" => What::Put { blob: blob?, bytes: 100, condition },
        "get" => What::Get { blob: blob?, range: None, condition },
        "head" => What::Head { blob: blob?, condition },
        "delete" => What::Delete { blob: blob?, condition },
        "list" => What::List { prefix: "", delimiter: rest == ["/"], page: 5 },
        _ => return None,
    };
    let words: Vec<&str> = right.split_whitespace().collect();
    let etag = words.last().and_then(|word| number(word, "e"));
    let answered = |said| Outcome::Answered(history::Reply::Container(Reply { said, etag }));
    let outcome = match *words.first()? {
        "done" => answered(Said::Done),
        "shown" => answered(Said::Shown(words.get(1)?.parse().ok()?)),
        "unmet" => answered(Said::ConditionNotMet),
        "not-modified" => answered(Said::NotModified),
        "no-blob" => answered(Said::BlobNotFound),
        "no-container" => answered(Said::ContainerNotFound),
        "blob-exists" => answered(Said::BlobAlreadyExists),
        "rows" => answered(Said::Listed(listed(&words[1..])?)),
        "unknown" => Outcome::Unknown,
        "nothing" => Outcome::Nothing,
        "wrong" => Outcome::Wrong("torn at byte 7".into()),
        _ => return None,
    };
    let deed = history::Deed::Container(Deed { container: 0, what });
    Some(Call { id, client: 0, gateway: 0, deed, outcome, began, answered: ended, settled: ended })
}

fn listed(words: &[&str]) -> Option<Listed> {
    let mut listed = Listed::default();
    for word in words {
        if *word == "prefix" {
            listed.prefixes.push("b/".into());
            continue;
        }
        let mut parts = word.split(':');
        let index = BLOBS.iter().position(|name| Some(*name) == parts.clone().next())?;
        let (value, etag) = (parts.nth(1)?.parse().ok()?, number(parts.next()?, "e")?);
        listed.rows.push(Row { index, value, etag });
    }
    Some(listed)
}

fn number(word: &str, letter: &str) -> Option<u64> {
    word.strip_prefix(letter)?.parse().ok()
}
