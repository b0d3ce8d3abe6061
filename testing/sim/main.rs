//! The short simulation of every `cargo test`, and the proof that it sees what it should see.

use testing::sim::broken::Breakage;
use testing::sim::check::Kind;
use testing::sim::model::Rules;
use testing::sim::run::{Problem, Settings, Summary, run};

/// The seeds of the short run, in two tests so that two cores share them: 40,000 operations, half a million where they are cheap.
const SEEDS: u64 = if cfg!(debug_assertions) { 80 } else { 1000 };
const OPERATIONS: u64 = 500;

fn run_seeds(seeds: std::ops::Range<u64>) {
    let mut total = Summary::default();
    for seed in seeds {
        match run(&Settings::new(seed, OPERATIONS)) {
            Ok(summary) => total.add(&summary),
            Err(failure) => panic!("{failure}"),
        }
    }
    // A run in which nothing happens proves nothing.
    let struck = total.struck;
    assert!(total.crashes > 20 && total.jumps > 100, "{total:#?}");
    assert!(total.manners.iter().all(|exchanges| *exchanges > 50), "{total:#?}");
    assert!(total.done > 2000 && total.shown > 1000 && total.listed_rows > 1000, "{total:#?}");
    assert!(total.unknown > 200 && total.conditions_met > 500 && total.conditions_unmet > 500, "{total:#?}");
    assert!(struck.applied_in_secret > 10 && struck.real_conflicts > 20 && struck.fenced > 20, "{total:#?}");
}

#[test]
fn histories_are_right_first_half() {
    run_seeds(0..SEEDS / 2);
}

#[test]
fn histories_are_right_second_half() {
    run_seeds(SEEDS / 2..SEEDS);
}

/// Gateways on an engine that they share, whose views move and which draws the ticks: the same, and no ETag is ever given twice.
#[test]
fn histories_are_right_where_gateways_share_an_engine() {
    for seed in 0..SEEDS / 4 {
        let rules = Some(Rules { etags_unique: true });
        let settings = Settings { is_shared: true, rules, gateways: Some(3), ..Settings::new(seed, OPERATIONS) };
        if let Err(failure) = run(&settings) {
            panic!("{failure}");
        }
    }
}

#[test]
fn a_seed_repeats_its_run() {
    for seed in 0..8 {
        let once = || run(&Settings::new(seed, 200)).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(once(), once(), "seed {seed}");
    }
    let digest = |seed| run(&Settings::new(seed, 200)).unwrap_or_else(|failure| panic!("{failure}")).digest;
    assert_ne!(digest(1), digest(2));
}

/// Every way to break the engine's contract is found out within this many seeds.
const BROKEN_SEEDS: u64 = 40;

#[test]
fn broken_engines_are_found_out() {
    for breakage in Breakage::ALL {
        let found = (0..BROKEN_SEEDS).find(|seed| {
            let settings = Settings { breakage: Some(breakage), ..Settings::new(*seed, 300) };
            match run(&settings).map_err(|failure| failure.problem) {
                Err(Problem::Violation(violation)) => violation.kind != Kind::TooUncertain,
                // Without a fence nothing wrong is served: whoever still writes to the old life of a container came before its
                // deletion. But what they write stays for ever.
                Err(Problem::Leaked { .. }) => breakage == Breakage::ForgetsFences,
                _ => false,
            }
        });
        assert!(found.is_some(), "{breakage:?} was not found out");
    }
}
