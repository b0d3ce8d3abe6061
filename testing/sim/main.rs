//! The short simulation of every `cargo test`, and the proof that it sees what it should see.

use testing::sim::broken::Breakage;
use testing::sim::check::Kind;
use testing::sim::model::Rules;
use testing::sim::run::{Problem, Settings, Summary, run};

/// Seeds of the short run, over threads so that both halves run at once. Together at least 100,000 operations.
const SEEDS: u64 = 200;
const OPERATIONS: u64 = 500;

fn run_seeds(seeds: std::ops::Range<u64>) -> Summary {
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
    assert!(total.unknown > 200 && total.conditions_met > 500 && total.conditions_unmet > 500, "{total:#?}");
    assert!(struck.applied_in_secret > 20 && struck.real_conflicts > 50 && struck.fenced > 0, "{total:#?}");
    total
}

#[test]
fn histories_are_right_first_half() {
    run_seeds(0..SEEDS / 2);
}

#[test]
fn histories_are_right_second_half() {
    run_seeds(SEEDS / 2..SEEDS);
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
        let found = (0..BROKEN_SEEDS).find_map(|seed| {
            let settings = Settings { breakage: Some(breakage), ..Settings::new(seed, 300) };
            run(&settings).err().map(|failure| (seed, failure.problem))
        });
        let Some((seed, problem)) = found else { panic!("{breakage:?} was not found out") };
        println!("{breakage:?}: seed {seed}: {problem:?}");
        let expected = match (breakage, &problem) {
            (Breakage::ForgetsFences, Problem::Leaked { .. }) => true,
            (_, Problem::Violation(_)) => true,
            _ => false,
        };
        assert!(expected, "{breakage:?} was found for another reason: {problem:?}");
    }
}
