//! `lazuli seed FILE`: what the file declares is made where it is not there yet (docs/cli.md).
//!
//! 1. Every name is checked, and every file read, before anything is written.
//! 2. What is there with the same content is left as it is. What is there with other content is a conflict: it is named, and left as it is.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use http::account::Account;

use crate::client::Endpoints;
use crate::config::ReachFlags;
use crate::local::Local;

mod apply;
mod plan;

use plan::Plan;

#[derive(Args, Clone, Debug)]
pub struct SeedFlags {
    /// What there is to be, as TOML
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// A data directory that nothing serves [default: the server on this machine]
    #[arg(long, value_name = "DIR", conflicts_with = "connection_string")]
    data: Option<PathBuf>,
    #[command(flatten)]
    reach: ReachFlags,
}

/// What became of one thing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Became {
    Made,
    /// As it is to be.
    There,
    Conflict(String),
}

/// Says what becomes of each thing: a line for each on a terminal, conflicts always.
#[derive(Default)]
pub struct Told {
    is_terminal: bool,
    made: u64,
    there: u64,
    conflicts: u64,
}

impl Told {
    pub fn tell(&mut self, what: &str, became: Became) {
        match became {
            Became::Made => {
                self.made += 1;
                self.line(&format!("made   {what}"));
            }
            Became::There => {
                self.there += 1;
                self.line(&format!("there  {what}"));
            }
            Became::Conflict(why) => {
                self.conflicts += 1;
                println!("CONFLICT  {what}: {why}");
            }
        }
    }

    fn line(&self, text: &str) {
        if self.is_terminal {
            println!("{text}");
        }
    }
}

pub async fn run(flags: SeedFlags) -> Result<ExitCode, String> {
    let plan = Plan::read(&flags.file)?;
    let mut told = Told { is_terminal: std::io::stdout().is_terminal(), ..Told::default() };
    let applied = match &flags.data {
        None => apply::apply(&plan, &flags.reach.endpoints()?, &mut told).await,
        Some(data) => {
            let (reach, given) = (&flags.reach, flags.reach.accounts()?);
            let choose = |kept: Vec<Account>| reach.choose(if kept.is_empty() { given } else { kept });
            let local = Local::open(data, embedded::Durability::Full, choose).await?;
            let endpoints: Endpoints = local.endpoints.clone();
            let applied = apply::apply(&plan, &endpoints, &mut told).await;
            let closed = local.close().await;
            applied.and(closed)
        }
    };
    println!(
        "{}: {} made, {} there already, {} in conflict",
        flags.file.display(),
        told.made,
        told.there,
        told.conflicts
    );
    applied?;
    Ok(if told.conflicts == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
