use super::*;

const A: &str = "aaaaaaaa-0000-4000-8000-00000000000a";
const B: &str = "bbbbbbbb-0000-4000-8000-00000000000b";
const C: &str = "cccccccc-0000-4000-8000-00000000000c";

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH.plus_seconds(1000)
}

fn id(letter: &str) -> LeaseId {
    LeaseId::parse(match letter {
        "A" => A,
        "B" => B,
        _ => C,
    })
    .expect("a GUID")
}

/// Lease A in a state, as words: `available`, `leased`, `leased 20` (seconds left), `breaking 7`, `broken`, `expired`.
fn lease(words: &str) -> Option<Lease> {
    let (state, seconds) = words.split_once(' ').unwrap_or((words, ""));
    let left: Option<u64> = seconds.parse().ok();
    let ago = Some(now().minus_seconds(5));
    let fixed = Lease { id: id("A"), seconds: Some(30), expires: Some(now().plus_seconds(30)), breaks: None };
    Some(match (state, left) {
        ("leased", None) => Lease { seconds: None, expires: None, ..fixed },
        ("leased", Some(left)) => Lease { expires: Some(now().plus_seconds(left)), ..fixed },
        ("breaking", Some(left)) => Lease { breaks: Some(now().plus_seconds(left)), ..fixed },
        ("broken", _) => Lease { breaks: ago, ..fixed },
        ("expired", _) => Lease { expires: ago, ..fixed },
        _ => return None,
    })
}

fn action(words: &str) -> LeaseAction {
    match words.split(' ').collect::<Vec<_>>()[..] {
        ["acquire"] => LeaseAction::Acquire { proposed: None, seconds: Some(15) },
        ["acquire", letter] => LeaseAction::Acquire { proposed: Some(id(letter)), seconds: Some(15) },
        ["renew", letter] => LeaseAction::Renew { id: id(letter) },
        ["change", from, to] => LeaseAction::Change { id: id(from), proposed: id(to) },
        ["release", letter] => LeaseAction::Release { id: id(letter) },
        ["break"] => LeaseAction::Break { period_seconds: None },
        ["break", seconds] => LeaseAction::Break { period_seconds: seconds.parse().ok() },
        _ => panic!("{words}"),
    }
}

/// What came out: the new state in the words of `lease`, with its id where it is not A; or the code.
fn outcome(result: Result<Acted, Refusal>) -> String {
    let Acted { lease, break_seconds } = match result {
        Ok(acted) => acted,
        Err(refusal) => {
            assert_eq!(refusal.status, 409);
            return refusal.code.name().trim_start_matches("Lease").to_string();
        }
    };
    let state = LeaseState::of(lease.as_ref(), now());
    let left = |until: Timestamp| (until.ticks() - now().ticks()) / env::TICKS_PER_SECOND;
    let mut words = match (&lease, state) {
        (Some(Lease { expires: Some(expires), .. }), LeaseState::Leased) => format!("leased {}", left(*expires)),
        (Some(Lease { breaks: Some(breaks), .. }), LeaseState::Breaking) => format!("breaking {}", left(*breaks)),
        (_, state) => format!("{state:?}").to_lowercase(),
    };
    if let Some(lease) = &lease {
        let letter = [("A", A), ("B", B), ("C", C)].into_iter().find(|(_, text)| lease.id.as_str() == *text);
        words.push_str(&format!(" {}", letter.map_or("new", |(letter, _)| letter)));
    }
    if let Some(seconds) = break_seconds {
        words.push_str(&format!(", time {seconds}"));
    }
    words
}

/// Every cell of the service's table: the action, then what it does to lease A in each state.
#[test]
fn lease_operations() {
    let states = ["available", "leased 20", "breaking 7", "broken", "expired"];
    #[rustfmt::skip]
    let table = [
        ("acquire",    ["leased 15 new", "AlreadyPresent", "AlreadyPresent", "leased 15 new", "leased 15 new"]),
        ("acquire A",  ["leased 15 A", "leased 15 A", "IsBreakingAndCannotBeAcquired", "leased 15 A", "leased 15 A"]),
        ("acquire B",  ["leased 15 B", "AlreadyPresent", "AlreadyPresent", "leased 15 B", "leased 15 B"]),
        ("renew A",    ["IdMismatchWithLeaseOperation", "leased 30 A", "IsBrokenAndCannotBeRenewed", "IsBrokenAndCannotBeRenewed", "leased 30 A"]),
        ("renew B",    ["IdMismatchWithLeaseOperation"; 5]),
        ("change A B", ["NotPresentWithLeaseOperation", "leased 20 B", "IsBreakingAndCannotBeChanged", "NotPresentWithLeaseOperation", "NotPresentWithLeaseOperation"]),
        ("change B A", ["NotPresentWithLeaseOperation", "leased 20 A", "IdMismatchWithLeaseOperation", "NotPresentWithLeaseOperation", "NotPresentWithLeaseOperation"]),
        ("change B C", ["NotPresentWithLeaseOperation", "IdMismatchWithLeaseOperation", "IdMismatchWithLeaseOperation", "NotPresentWithLeaseOperation", "NotPresentWithLeaseOperation"]),
        ("release A",  ["IdMismatchWithLeaseOperation", "available", "available", "available", "available"]),
        ("release B",  ["IdMismatchWithLeaseOperation"; 5]),
        ("break",      ["NotPresentWithLeaseOperation", "breaking 20 A, time 20", "breaking 7 A, time 7", "broken A, time 0", "broken A, time 0"]),
        ("break 0",    ["NotPresentWithLeaseOperation", "broken A, time 0", "broken A, time 0", "broken A, time 0", "broken A, time 0"]),
        ("break 3",    ["NotPresentWithLeaseOperation", "breaking 3 A, time 3", "breaking 3 A, time 3", "broken A, time 0", "broken A, time 0"]),
        ("break 50",   ["NotPresentWithLeaseOperation", "breaking 20 A, time 20", "breaking 7 A, time 7", "broken A, time 0", "broken A, time 0"]),
    ];
    for (words, row) in table {
        for (state, expected) in states.iter().zip(row) {
            let got = outcome(act(lease(state).as_ref(), &action(words), now(), Id(7)));
            assert_eq!(got, expected, "{words} of a lease that is {state}");
        }
    }
    // Without end.
    for (words, expected) in
        [("break", "broken A, time 0"), ("break 9", "breaking 9 A, time 9"), ("renew A", "leased A")]
    {
        assert_eq!(outcome(act(lease("leased").as_ref(), &action(words), now(), Id(7))), expected, "{words}");
    }
}

/// Every cell of the tables of use: the id given, then what becomes of a write and of a read in each state.
#[test]
fn use_of_what_is_leased() {
    let states = ["available", "leased 20", "breaking 7", "broken", "expired"];
    let (missing, lost) = ("LeaseIdMissing", "LeaseLost");
    for codes in [OF_BLOB, OF_CONTAINER] {
        let (absent, other) = (codes.not_present.name(), codes.mismatch.name());
        for (given, check, row) in [
            (Some("A"), LeaseCheck::IfLeased, [absent, "ok", "ok", lost, lost]),
            (Some("B"), LeaseCheck::IfLeased, [absent, other, other, other, other]),
            (None, LeaseCheck::IfLeased, ["ok", missing, missing, "ok", "ok"]),
            (Some("A"), LeaseCheck::IfGiven, [absent, "ok", "ok", lost, lost]),
            (Some("B"), LeaseCheck::IfGiven, [absent, other, other, other, other]),
            (None, LeaseCheck::IfGiven, ["ok"; 5]),
            (Some("B"), LeaseCheck::Ignored, ["ok"; 5]),
            (None, LeaseCheck::Acts, ["ok"; 5]),
        ] {
            for (state, expected) in states.iter().zip(row) {
                let got = judge_use(lease(state).as_ref(), given.map(id).as_ref(), check, codes, now());
                let got = match &got {
                    Ok(()) => "ok",
                    Err(refusal) => {
                        assert_eq!(refusal.status, 412);
                        refusal.code.name()
                    }
                };
                assert_eq!(got, expected, "{given:?} {check:?} of {state}");
            }
        }
    }
}

#[test]
fn a_write_forgets_a_lease_that_has_ended() {
    for (state, stays) in
        [("leased", true), ("leased 20", true), ("breaking 7", true), ("broken", false), ("expired", false)]
    {
        assert_eq!(after_write(lease(state), now()).is_some(), stays, "{state}");
    }
    assert_eq!(after_write(None, now()), None);
}

/// The last tick belongs to the holder, the next to anybody.
#[test]
fn a_lease_ends_on_the_tick() {
    let lease = lease("leased 20").expect("leased");
    let end = now().plus_seconds(20);
    let before = Timestamp::from_ticks(end.ticks() - 1);
    assert_eq!(LeaseState::of(Some(&lease), before), LeaseState::Leased);
    assert_eq!(LeaseState::of(Some(&lease), end), LeaseState::Expired);
}

/// Clocks differ: a lease that one of them saw break is broken by the others.
#[test]
fn what_is_broken_at_once_is_broken_for_a_clock_that_is_behind() {
    for (state, words) in
        [("leased", "break"), ("leased 20", "break 0"), ("breaking 7", "break 0"), ("expired", "break")]
    {
        let acted = act(lease(state).as_ref(), &action(words), now(), Id(1)).expect("broken");
        let behind = LeaseState::of(acted.lease.as_ref(), now().minus_seconds(100));
        assert_eq!((behind, acted.break_seconds), (LeaseState::Broken, Some(0)), "{state}: {words}");
    }
}
