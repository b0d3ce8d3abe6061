//! Long runs, and one run again.
//!
//! `sim --seed 17 --operations 500` repeats one; `sim --seeds 0..10000 --operations 500` searches. The first failure ends the search
//! with its history and the command that repeats it.

use std::ops::Range;
use std::process::ExitCode;

use testing::sim::run::{Settings, Summary, run};

const USAGE: &str = "sim [--seed N | --seeds FROM..TO] [--operations N] [--gateways N]";

fn main() -> ExitCode {
    let (seeds, operations, gateways) = match parse(std::env::args().skip(1)) {
        Ok(parsed) => parsed,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    let mut total = Summary::default();
    for seed in seeds.clone() {
        match run(&Settings { gateways, ..Settings::new(seed, operations) }) {
            Ok(summary) => total.add(&summary),
            Err(failure) => {
                println!("{failure}{}", gateways.map(|n| format!(" --gateways {n}")).unwrap_or_default());
                return ExitCode::FAILURE;
            }
        }
        if (seed + 1) % 1000 == 0 {
            println!("{} seeds, {} calls", seed + 1 - seeds.start, total.calls);
        }
    }
    println!("{total:#?}");
    ExitCode::SUCCESS
}

type Parsed = (Range<u64>, u64, Option<usize>);

fn parse(mut words: impl Iterator<Item = String>) -> Result<Parsed, String> {
    let (mut seeds, mut operations, mut gateways) = (0..1, 500, None);
    while let Some(word) = words.next() {
        let value = words.next().ok_or(format!("{word} needs a value"))?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{word}: {text} is no number"));
        match word.as_str() {
            "--seed" => seeds = number(&value)?..number(&value)? + 1,
            "--seeds" => {
                let (from, to) = value.split_once("..").ok_or("--seeds takes FROM..TO")?;
                seeds = number(from)?..number(to)?;
            }
            "--operations" => operations = number(&value)?,
            "--gateways" => gateways = Some(number(&value)? as usize),
            _ => return Err(format!("unknown: {word}")),
        }
    }
    Ok((seeds, operations, gateways))
}
