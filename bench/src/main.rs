//! `cargo run --release -p lazuli-bench`: Lazuli, Azurite, smbd and the floors in one run, as one table of ratios.
//!
//! Absolute figures depend on the machine and on what else it does; ratios from one interleaved run much less. So the
//! goals are ratios wherever they can be.

#![allow(clippy::disallowed_methods)] // measuring time is what this is for

mod cluster;
mod file;
mod floor;
mod instructions;
mod large;
mod load;
mod measure;
mod picture;
mod queue;
mod report;
mod request;
mod restart;
mod seed;
mod smb;
mod subject;
mod table;
mod workload;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    load::Failure,
    subject::Places,
    workload::{GROUPS, WORKLOADS},
};

#[derive(Parser)]
#[command(about = "Measures Lazuli beside Azurite, smbd and bare floors, in one interleaved run")]
struct Options {
    /// Length of one round of one workload on one server
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Rounds; a figure is their median
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Only this workload, or group of workloads (repeatable)
    #[arg(long, value_name = "WORKLOAD", value_parser = clap::builder::PossibleValuesParser::new(GROUPS.into_iter().chain(WORKLOADS.iter().map(|w| w.name))))]
    only: Vec<String>,
    /// Leave Azurite out
    #[arg(long)]
    no_azurite: bool,
    /// Leave Lazuli out, to look at the floors and the peer alone
    #[arg(long)]
    no_lazuli: bool,
    /// Blobs in the container that is listed
    #[arg(long, default_value_t = 10_000)]
    listed_blobs: u64,
    /// Files in the directory that is listed
    #[arg(long, default_value_t = 100_000)]
    listed_files: u64,
    /// Blocks in the list that is committed
    #[arg(long, default_value_t = 50_000)]
    blocks: u64,
    /// Size of the largest body, and of the largest file over SMB
    #[arg(long, default_value_t = 1 << 30)]
    large_bytes: u64,
    /// Blobs in the directory that is restarted on
    #[arg(long, default_value_t = 100_000)]
    restart_blobs: u64,
    /// Restart Azurite on as many blobs too (filling it takes minutes)
    #[arg(long)]
    azurite_restart: bool,
    /// Messages in the long queue that is received from
    #[arg(long, default_value_t = 1_000_000)]
    queue_messages: u64,
    /// Where the machine-readable results go [default: bench/results/latest.json]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also write dated results and a picture under docs/results/, or the counts of instructions, to be committed
    #[arg(long)]
    record: bool,
    /// Fail if a goal is missed
    #[arg(long)]
    check: bool,
    /// Where data directories are made [default: bench-data below the target directory]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Say nothing until the table
    #[arg(long)]
    quiet: bool,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Subcommand)]
enum Role {
    /// The floor itself, started by the run as a process of its own
    #[command(hide = true)]
    Floor { directory: PathBuf },
    /// One gateway and two on a Ceph cluster, beside raw RADOS operations
    Cluster,
    /// How long Lazuli takes to be back after kill -9, by how many blobs it holds
    Restart {
        /// The blobs in the directory, in rising order (repeatable)
        #[arg(long, value_name = "N", default_values_t = restart::BLOBS)]
        blobs: Vec<u64>,
    },
    /// Puts blobs into a data directory that nobody serves, many at a time
    Seed {
        #[arg(long)]
        directory: PathBuf,
        #[arg(long)]
        blobs: u64,
    },
    /// Instructions of the hot paths, beside those that are kept; needs valgrind
    Instructions,
}

impl Options {
    fn time(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    if let Some(Role::Floor { directory }) = &options.role {
        return finish(floor::serve(directory).await);
    }
    // Leaving `run` by whichever way drops the servers, and a dropped server is killed.
    let mut terminated = signal(SignalKind::terminate()).expect("signals can be listened to");
    let outcome = tokio::select! {
        outcome = run(&options) => outcome,
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
        _ = terminated.recv() => Err("terminated".into()),
    };
    finish(outcome)
}

fn finish(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lazuli-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: &Options) -> Result<(), Failure> {
    let places = Places::find(options.data.clone())?;
    match &options.role {
        Some(Role::Cluster) => return cluster::run(options, &places).await,
        Some(Role::Restart { blobs }) => return restart::run(options, &places, blobs).await,
        Some(Role::Seed { directory, blobs }) => return seed::blobs(directory, 0..*blobs).await,
        Some(Role::Instructions) => return instructions::run(&places, options.record).await,
        Some(Role::Floor { .. }) | None => {}
    }
    let all = measure::run(options, &places).await?;
    let table = report::table(&all);
    let json = serde_json::to_string_pretty(&report::json(&all, options))? + "\n";
    println!("\n{}: {} rounds of {} s\n\n{table}", report::machine(), options.rounds, options.seconds);

    let file = options.json.clone().unwrap_or_else(|| places.root.join("bench/results/latest.json"));
    std::fs::write(&file, &json).map_err(|error| format!("{}: {error}", file.display()))?;
    if options.record {
        let results = places.root.join("docs/results");
        std::fs::create_dir_all(&results)?;
        let dated = results.join(format!("{}-bench", request::today()));
        std::fs::write(dated.with_extension("json"), &json)?;
        let text = format!(
            "# Bench, {}\n\n{}; {} rounds of {} s, medians, full durability.\n\n```\n{table}```\n",
            request::today(),
            report::machine(),
            options.rounds,
            options.seconds
        );
        std::fs::write(dated.with_extension("md"), text)?;
        std::fs::write(results.join("bench.svg"), picture::svg(&all))?;
    }
    match report::missed(&all) {
        0 => Ok(()),
        missed if options.check => Err(format!("{missed} goals missed").into()),
        missed => {
            println!("{missed} goals missed in this run");
            Ok(())
        }
    }
}
