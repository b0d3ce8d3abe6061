//! Long runs, and one run again.
//!
//! `sim --seed 17 --operations 500` repeats one; `sim --seeds 0..10000 --operations 500` searches. The first failure ends the
//! search with its history and the command that repeats it. `--history` prints every call of the last run. A history that says too
//! little to be judged is named and passed over; there may be few of those.

use std::ops::Range;
use std::process::ExitCode;

use testing::sim::Summary;
use testing::sim::plan::Subject;
use testing::sim::run::{Settings, play};

/// At most one history in so many may say too little.
const UNJUDGED_ONE_IN: u64 = 100;

const USAGE: &str = "sim [--seed N | --seeds FROM..TO] [--operations N] [--gateways N] [--only SUBJECT] [--history]";

fn main() -> ExitCode {
    let asked = match parse(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    let mut total = Summary::default();
    let mut unjudged = 0;
    for seed in asked.seeds.clone() {
        let (history, outcome) = play(&Settings { seed, ..asked.settings.clone() });
        if asked.shows_history && (outcome.is_err() || seed + 1 == asked.seeds.end) {
            print!("{}", history.transcript());
        }
        match outcome {
            Ok(summary) => total.add(&summary),
            Err(failure) if failure.says_too_little() => {
                println!("seed {seed} says too little");
                unjudged += 1;
            }
            Err(failure) => {
                println!("{failure}");
                return ExitCode::FAILURE;
            }
        }
        if (seed + 1) % 1000 == 0 {
            println!("{} seeds, {} calls", seed + 1 - asked.seeds.start, total.calls);
        }
    }
    println!("{total:#?}");
    if unjudged * UNJUDGED_ONE_IN > asked.seeds.end - asked.seeds.start {
        println!("{unjudged} histories say too little: nothing is proved by those");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

struct Asked {
    seeds: Range<u64>,
    settings: Settings,
    shows_history: bool,
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Asked, String> {
    let mut asked = Asked { seeds: 0..1, settings: Settings::new(0, 500), shows_history: false };
    while let Some(word) = words.next() {
        if word == "--history" {
            asked.shows_history = true;
            continue;
        }
        let value = words.next().ok_or(format!("{word} needs a value"))?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{word}: {text} is no number"));
        match word.as_str() {
            "--seed" => asked.seeds = number(&value)?..number(&value)? + 1,
            "--seeds" => {
                let (from, to) = value.split_once("..").ok_or("--seeds takes FROM..TO")?;
                asked.seeds = number(from)?..number(to)?;
            }
            "--operations" => asked.settings.operations = number(&value)?,
            "--gateways" => asked.settings.gateways = Some(number(&value)? as usize),
            "--only" => {
                let subject = Subject::ALL.into_iter().find(|subject| format!("{subject:?}") == value);
                asked.settings.only = Some(subject.ok_or(format!("{value} is none of {:?}", Subject::ALL))?);
            }
            _ => return Err(format!("unknown: {word}")),
        }
    }
    Ok(asked)
}
