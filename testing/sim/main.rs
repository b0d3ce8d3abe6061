//! The short simulation of every `cargo test`, and the proof that it sees what it should see.
//!
//! `SIM_SEEDS=5000 SIM_OPERATIONS=1000` change how long `histories_are_right_*` last; a failure prints the command that repeats it.

use testing::sim::Summary;
use testing::sim::broken::Breakage;
use testing::sim::check::Kind;
use testing::sim::plan::Subject;
use testing::sim::run::{Problem, Settings, play, run};

/// The seeds of the short run, in two tests so that two cores share them: 100,000 operations, and some to spare for histories that say
/// too little to be judged.
const SEEDS: u64 = 206;
const OPERATIONS: u64 = 500;
const JUDGED: u64 = 100_000;

fn asked(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is a number, not {value}")))
}

/// One half of the seeds, the even or the odd ones.
fn run_half(half: u64) {
    let (seeds, operations) = (asked("SIM_SEEDS").unwrap_or(SEEDS), asked("SIM_OPERATIONS").unwrap_or(OPERATIONS));
    let mut total = Summary::default();
    for seed in (0..seeds).filter(|seed| seed % 2 == half) {
        match run(&Settings::new(seed, operations)) {
            Ok(summary) => total.add(&summary),
            Err(failure) if failure.says_too_little() => println!("seed {seed} says too little"),
            Err(failure) => panic!("{failure}"),
        }
    }
    println!("{total:#?}");
    if seeds < SEEDS {
        return;
    }
    // A run in which nothing happens proves nothing.
    assert!(total.calls >= JUDGED / 2, "{total:#?}");
    let struck = total.struck;
    assert!(total.crashes > 20 && total.jumps > 100, "{total:#?}");
    assert!(total.manners.iter().all(|exchanges| *exchanges > 50), "{total:#?}");
    assert!(total.done > 2000 && total.shown > 1000 && total.listed_rows > 1000, "{total:#?}");
    assert!(total.unknown > 200 && total.conditions_met > 500 && total.conditions_unmet > 500, "{total:#?}");
    assert!(struck.applied_in_secret > 10 && struck.real_conflicts > 20 && struck.fenced > 10, "{total:#?}");
    for kind in EXPECTED {
        assert!(total.replies.get(*kind).is_some_and(|count| *count >= 10), "{kind} is too rare: {total:#?}");
    }
}

/// Answers that every run of this length brings up, many times.
#[rustfmt::skip]
const EXPECTED: &[&str] = &[
    "Blob Done", "Blob Shown", "Blob Snapped", "Blob BlobNotFound", "Blob InvalidBlockList",
    "Blob AppendPositionConditionNotMet", "Blob LeaseIdMissing", "Blob LeaseLost", "Blob LeaseAlreadyPresent",
    "Blob LeaseIdMismatchWithBlobOperation", "Blob LeaseNotPresentWithBlobOperation",
    "Queue Written", "Queue Shown", "Queue Done", "Queue NotFound",
    "Table Done", "Table Shown", "Table AlreadyExists", "Table NotFound", "Table ConditionNotMet",
    "File Done", "File Shown", "File Listed", "File Snapped", "File ResourceNotFound", "File ResourceAlreadyExists",
    "File LeaseIdMissing", "File SharingViolation", "File SMBDeletePending", "File FileLockConflict",
    "File Read", "File OBJECT_NAME_NOT_FOUND", "File SHARING_VIOLATION", "File FILE_LOCK_CONFLICT",
    "File LOCK_NOT_GRANTED", "File RANGE_NOT_LOCKED", "File DELETE_PENDING",
];

#[test]
fn histories_are_right_of_even_seeds() {
    run_half(0);
}

#[test]
fn histories_are_right_of_odd_seeds() {
    run_half(1);
}

/// Three gateways on one store, whatever the plan says.
#[test]
fn histories_are_right_where_gateways_share_an_engine() {
    for seed in 0..SEEDS / 10 {
        if let Err(failure) = run(&Settings { gateways: Some(3), ..Settings::new(seed, OPERATIONS) }) {
            panic!("{failure}");
        }
    }
}

/// To the last byte of what was asked and answered, and when.
#[test]
fn a_seed_repeats_its_run() {
    let transcript = |seed| {
        let (history, outcome) = play(&Settings::new(seed, 200));
        outcome.unwrap_or_else(|failure| panic!("{failure}"));
        history.transcript()
    };
    for seed in 0..12 {
        assert_eq!(transcript(seed), transcript(seed), "seed {seed}");
    }
    assert_ne!(transcript(1), transcript(2));
}

/// Every way to break the engine's contract is found out within this many seeds.
const BROKEN_SEEDS: u64 = 60;

fn is_found_out(breakage: Breakage, subject: Subject) -> bool {
    (0..BROKEN_SEEDS).any(|seed| {
        let settings = Settings { breakage: Some(breakage), only: Some(subject), ..Settings::new(seed, 300) };
        match run(&settings).map_err(|failure| failure.problem) {
            Err(Problem::Violation(violation)) => violation.kind != Kind::TooUncertain,
            // Without a fence nothing wrong is served: whoever still writes to the old life of a container came before its
            // deletion. But what they write stays for ever.
            Err(Problem::Leaked { .. }) => breakage == Breakage::ForgetsFences,
            _ => false,
        }
    })
}

#[test]
fn broken_engines_are_found_out() {
    for breakage in Breakage::OF_ENGINES {
        assert!(is_found_out(breakage, Subject::Containers), "{breakage:?} was not found out");
    }
}

/// And by each service's own judge, as far as the breakage shows in it.
#[test]
fn broken_engines_are_found_out_by_every_judge() {
    use Breakage::*;
    use Subject::*;
    for (subject, breakages) in [
        (Blobs, &[LosesCommits, IgnoresGuards, ShowsOldViews, TakesBackWhatItShowed][..]),
        (Queue, &[LosesCommits, IgnoresGuards, ShowsOldViews, CommitsTwice]),
        (Table, &[LosesCommits, IgnoresGuards, CommitsInPieces, ShowsOldViews]),
        (Share, &[LosesCommits, IgnoresGuards, ShowsMovingViews, ShowsOldViews]),
    ] {
        let missed: Vec<_> = breakages.iter().filter(|breakage| !is_found_out(**breakage, subject)).collect();
        assert!(missed.is_empty(), "{subject:?} did not find out {missed:?}");
    }
}

/// A server whose clock is not the one that it should go by: messages come back while they are hidden, leases end early.
#[test]
fn wrong_times_are_found_out() {
    for subject in [Subject::Blobs, Subject::Queue] {
        assert!(is_found_out(Breakage::RunsFast, subject), "{subject:?}");
    }
}

/// A second server that knows nothing of what is open at the first: share modes, locks and pending deletions hold for nobody.
#[test]
fn open_files_that_are_not_known_are_found_out() {
    assert!(is_found_out(Breakage::ServesSharesTwice, Subject::Share));
}
