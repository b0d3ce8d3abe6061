//! Long runs, and one run again.
//!
//! `sim --seed 17 --operations 500` repeats one; `sim --seeds 0..10000 --operations 500` searches. The first failure ends the
//! search with its history and the command that repeats it. `--shared` gives each gateway its own handle on an engine whose views
//! move. `--strict` holds the run to what is right and not yet true: `Rules`.

use std::ops::Range;
use std::process::ExitCode;

use testing::sim::model::Rules;
use testing::sim::run::{Settings, Summary, run};

const USAGE: &str = "sim [--seed N | --seeds FROM..TO] [--operations N] [--gateways N] [--shared] [--strict]";

fn main() -> ExitCode {
    let asked = match parse(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    let mut total = Summary::default();
    for seed in asked.seeds.clone() {
        match run(&Settings { seed, ..asked.settings.clone() }) {
            Ok(summary) => total.add(&summary),
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
    ExitCode::SUCCESS
}

struct Asked {
    seeds: Range<u64>,
    settings: Settings,
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Asked, String> {
    let mut asked = Asked { seeds: 0..1, settings: Settings::new(0, 500) };
    while let Some(word) = words.next() {
        if word == "--strict" {
            asked.settings.rules = Some(Rules { etags_unique: true });
            continue;
        }
        if word == "--shared" {
            asked.settings.is_shared = true;
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
            _ => return Err(format!("unknown: {word}")),
        }
    }
    Ok(asked)
}
