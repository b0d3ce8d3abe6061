//! Stories for the judge: operations with their ticks and positions, what is found, and what it should make of it.

use super::*;

/// One line per operation: `deed begun-tick begun-position answered-tick acknowledged-position`, `-` for never; a put's
/// value is its line number. `!` before the deed: refused.
fn history(story: &str) -> History {
    let mut history = History::default();
    for line in story.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |text: &str| if text == "-" { NEVER } else { text.parse().expect("a number") };
        let deed = match fields[0].trim_start_matches('!') {
            "create" => Deed::CreateContainer,
            "drop" => Deed::DeleteContainer,
            "put" => Deed::Put { name: "n".into(), bytes: 100 },
            "delete" => Deed::Delete { name: "n".into() },
            other => panic!("{other}"),
        };
        let mut op = Operation::new("c", deed, number(fields[1]), number(fields[2]));
        op.answered_tick = number(fields[3]);
        op.durable_position = number(fields[4]);
        op.outcome = match (fields[0].starts_with('!'), op.answered_tick) {
            (true, _) => Outcome::NoEffect,
            (false, NEVER) => Outcome::Unknown,
            _ => Outcome::Done { etag: format!("e{}", history.operations.len()) },
        };
        history.operations.push(op);
    }
    history
}

fn seen(container: Option<usize>, blob: Option<usize>) -> Seen {
    let mut seen = Seen::default();
    let key = ("c".to_string(), "n".to_string());
    if let Some(creation) = container {
        seen.containers.insert("c".into(), format!("e{creation}"));
    }
    if let Some(operation) = blob {
        seen.listed.insert(key.clone(), (format!("e{operation}"), Some(100)));
        seen.blobs.insert(
            key,
            SeenBlob { operation: Some(operation), etag: format!("e{operation}"), bytes: 100, damage: None },
        );
    }
    seen
}

fn faults(story: &str, point: usize, container: Option<usize>, blob: Option<usize>) -> Vec<Fault> {
    let (findings, _) = judge(&history(story), &seen(container, blob), Window::at(point));
    findings.into_iter().map(|f| f.fault).collect()
}

const OVERWRITE: &str = "
    create 1  0  2 10
    put    3 10  4 20
    put    5 20  6 30";

#[test]
fn an_acknowledged_put_is_there_and_one_in_flight_may_be() {
    assert_eq!(faults(OVERWRITE, 20, Some(0), Some(1)), []);
    assert_eq!(faults(OVERWRITE, 25, Some(0), Some(1)), []);
    assert_eq!(faults(OVERWRITE, 25, Some(0), Some(2)), []);
    assert_eq!(faults(OVERWRITE, 30, Some(0), Some(2)), []);
}

#[test]
fn an_acknowledged_put_that_is_gone_or_rolled_back_is_lost() {
    assert_eq!(faults(OVERWRITE, 20, Some(0), None), [Fault::Lost]);
    assert_eq!(faults(OVERWRITE, 29, Some(0), None), [Fault::Lost]);
    assert_eq!(faults(OVERWRITE, 30, Some(0), Some(1)), [Fault::Lost]);
    assert_eq!(faults(OVERWRITE, 10, None, None), [Fault::Lost]);
}

#[test]
fn an_effect_before_its_cause_is_a_phantom() {
    assert_eq!(faults(OVERWRITE, 20, Some(0), Some(2)), [Fault::Phantom]);
    assert_eq!(faults(OVERWRITE, 10, Some(0), Some(1)), [Fault::Phantom]);
    let refused = "
        create 1  0  2 10
        !put   3 10  - -";
    assert_eq!(faults(refused, 30, Some(0), Some(1)), [Fault::Phantom]);
}

#[test]
fn one_image_for_many_points_is_held_against_the_strictest() {
    let window = Window { acknowledged_until: 30, begun_before: 20 };
    let (findings, _) = judge(&history(OVERWRITE), &seen(Some(0), Some(1)), window);
    assert_eq!(findings[0].fault, Fault::Lost, "the second put is acknowledged at 30");
    let (findings, _) = judge(&history(OVERWRITE), &seen(Some(0), Some(2)), window);
    assert_eq!(findings[0].fault, Fault::Phantom, "the second put is not begun at 20");
}

#[test]
fn puts_at_the_same_time_may_end_either_way_but_not_before_them() {
    let race = "
        create 1  0  2 10
        put    3 10  4 12
        put    5 20  8 30
        put    6 21  7 28";
    assert_eq!(faults(race, 40, Some(0), Some(2)), []);
    assert_eq!(faults(race, 40, Some(0), Some(3)), []);
    assert_eq!(faults(race, 40, Some(0), Some(1)), [Fault::Lost]);
    assert_eq!(faults(race, 40, Some(0), None), [Fault::Lost]);
}

#[test]
fn a_value_served_to_a_reader_is_as_good_as_acknowledged() {
    let read_early = "
        create 1  0  2 10
        put    3 10  - 15";
    assert_eq!(faults(read_early, 14, Some(0), None), []);
    assert_eq!(faults(read_early, 15, Some(0), None), [Fault::Lost]);
}

#[test]
fn an_acknowledged_deletion_holds() {
    let deleted = "
        create 1  0  2 10
        put    3 10  4 20
        delete 5 20  6 30";
    assert_eq!(faults(deleted, 25, Some(0), Some(1)), []);
    assert_eq!(faults(deleted, 25, Some(0), None), []);
    assert_eq!(faults(deleted, 30, Some(0), Some(1)), [Fault::Lost]);
}

#[test]
fn a_transaction_is_there_whole_or_not_at_all() {
    let mut history = history(
        "create 1  0  2 10
         put    3 10  - -
         put    3 10  - -
         delete 5 20  - -",
    );
    history.operations[2].deed = Deed::Put { name: "other".into(), bytes: 100 };
    let faults = |history: &History, found: &[(&str, usize)]| -> Vec<Fault> {
        let mut seen = seen(Some(0), None);
        for (name, operation) in found {
            let key = ("c".to_string(), name.to_string());
            seen.listed.insert(key.clone(), (format!("e{operation}"), Some(100)));
            let etag = format!("e{operation}");
            seen.blobs.insert(key, SeenBlob { operation: Some(*operation), etag, bytes: 100, damage: None });
        }
        judge(history, &seen, Window::at(30)).0.into_iter().map(|f| f.fault).collect()
    };
    assert_eq!(faults(&history, &[]), []);
    assert_eq!(faults(&history, &[("n", 1), ("other", 2)]), []);
    assert_eq!(faults(&history, &[("n", 1)]), [Fault::Torn]);
    assert_eq!(faults(&history, &[("other", 2)]), [], "the first may have been deleted since");
    history.operations.pop();
    assert_eq!(faults(&history, &[("other", 2)]), [Fault::Torn]);
}

const INCARNATIONS: &str = "
    create 1  0  2 10
    put    3 10  4 20
    drop   5 20  6 30
    create 7 30  8 40
    put    9 40 10 50";

#[test]
fn a_deleted_container_takes_all_its_blobs_or_none() {
    assert_eq!(faults(INCARNATIONS, 25, Some(0), Some(1)), []);
    assert_eq!(faults(INCARNATIONS, 25, None, None), []);
    assert_eq!(
        faults(INCARNATIONS, 25, Some(0), None),
        [Fault::Lost],
        "the container is there, so its deletion is not in effect"
    );
    assert_eq!(
        faults(INCARNATIONS, 35, Some(3), Some(1)),
        [Fault::Lost],
        "the new container is there, so the old one's deletion is"
    );
    assert_eq!(faults(INCARNATIONS, 35, Some(0), Some(1)), [Fault::Lost], "the old container may not come back");
    assert_eq!(faults(INCARNATIONS, 50, Some(3), Some(4)), []);
    assert_eq!(faults(INCARNATIONS, 50, Some(3), None), [Fault::Lost]);
}

#[test]
fn a_listing_must_agree_with_the_reads() {
    let story = history(OVERWRITE);
    let mut unlisted = seen(Some(0), Some(2));
    unlisted.listed.clear();
    assert_eq!(judge(&story, &unlisted, Window::at(30)).0[0].fault, Fault::Disagrees);
    let mut stranger = seen(Some(0), Some(2));
    stranger.containers.insert("unheard-of".into(), "e".into());
    assert_eq!(strangers(&[&story], &stranger)[0].fault, Fault::Phantom);
}
