//! What the program can be asked to do, and the words for it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use contract::names::AccountName;
use http::account::AccountKey;

use super::engine::{EngineFile, EngineFlags, EngineName};
use super::{AccountSettings, EngineSettings, ServeFlags, Settings, accounts, read_file};
use crate::accounts::AccountCommand;

/// The Azure Storage that anyone can run.
#[derive(Parser, Clone, Debug)]
#[command(name = "lazuli", version, args_conflicts_with_subcommands = true)]
pub struct CommandLine {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    #[command(flatten)]
    pub(super) serve: ServeFlags,
}

#[derive(Subcommand, Clone, Debug)]
pub(super) enum Command {
    /// Serve (what happens without a command, too)
    Serve(Box<ServeFlags>),
    /// Accounts of a cluster: list, create, show, rotate, set, delete
    #[command(subcommand)]
    Account(AccountCommand),
    /// Copy a directory that nothing serves into a cluster, with the accounts that are given
    Migrate(MigrateFlags),
    /// Verify a data directory that nothing serves: every checksum and every invariant. Changes nothing
    ///
    /// Says in words what is wrong. Ends with 0 if all is well, with 1 if something is damaged, and with 2 if it could not look.
    Check(CheckFlags),
    /// Take a copy of a data directory at one moment, while it is served or not
    Backup(BackupFlags),
    /// Make a data directory of a backup
    Restore(RestoreFlags),
}

#[derive(Args, Clone, Debug)]
pub(super) struct MigrateFlags {
    /// The directory
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// An account to bring along, as it was given to `serve`; those in the file are brought, too [default: the development account]
    #[arg(
        long,
        value_name = "NAME:KEY1[:KEY2]",
        env = "LAZULI_ACCOUNT",
        value_delimiter = ',',
        hide_env_values = true
    )]
    account: Vec<String>,
    #[command(flatten)]
    open: OpenFlags,
}

#[derive(Args, Clone, Debug)]
pub(super) struct CheckFlags {
    /// The directory
    dir: Option<PathBuf>,
    /// The same [default: ./lazuli-data]
    #[arg(long, value_name = "DIR", env = "LAZULI_DATA")]
    data: Option<PathBuf>,
    /// Where a copy of the journals, at most some 200 MiB, is put meanwhile [default: where the system has temporary files]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    #[command(flatten)]
    open: OpenFlags,
}

#[derive(Args, Clone, Debug)]
pub(super) struct BackupFlags {
    /// The data directory [default: ./lazuli-data]
    #[arg(long, value_name = "DIR", env = "LAZULI_DATA")]
    data: Option<PathBuf>,
    /// Where the copy goes: an empty directory, or one with an earlier backup, to which only what is new is added
    #[arg(long, value_name = "DEST")]
    to: PathBuf,
    #[command(flatten)]
    open: OpenFlags,
}

#[derive(Args, Clone, Debug)]
pub(super) struct RestoreFlags {
    /// Where the backup is
    #[arg(long, value_name = "DEST")]
    from: PathBuf,
    /// The data directory to make, which is empty or not there [default: ./lazuli-data]
    #[arg(long, value_name = "DIR", env = "LAZULI_DATA")]
    data: Option<PathBuf>,
    #[command(flatten)]
    open: OpenFlags,
}

/// What the program is asked to do.
pub enum Asked {
    Serve(Box<Settings>),
    Account(Box<EngineSettings>, Box<AccountCommand>),
    Migrate(Box<Migration>),
    Check(Check),
    Backup(Backup),
    Restore(Restore),
}

/// What to verify.
#[derive(PartialEq, Eq, Debug)]
pub struct Check {
    pub data: PathBuf,
    pub scratch: PathBuf,
}

/// What to copy, and where to.
#[derive(PartialEq, Eq, Debug)]
pub struct Backup {
    pub data: PathBuf,
    pub to: PathBuf,
}

/// What to bring back, and where to.
#[derive(PartialEq, Eq, Debug)]
pub struct Restore {
    pub from: PathBuf,
    pub data: PathBuf,
}

/// What to bring into a cluster, and from where.
pub struct Migration {
    pub data: PathBuf,
    pub accounts: Vec<NewAccount>,
    pub engine: EngineSettings,
}

/// An account as it was given.
pub struct NewAccount {
    pub name: AccountName,
    pub keys: Vec<AccountKey>,
    pub settings: partition::account::AccountSettings,
}

/// Of commands that do not serve.
#[derive(Args, Clone, Debug, Default)]
pub struct OpenFlags {
    #[command(flatten)]
    engine: EngineFlags,
    /// A TOML file with any of the settings of `serve`
    #[arg(long, value_name = "FILE", env = "LAZULI_CONFIG")]
    config: Option<PathBuf>,
}

impl Asked {
    pub fn gather(line: CommandLine) -> Result<Asked, String> {
        match line.command {
            Some(Command::Serve(flags)) => Settings::gather(*flags).map(Box::new).map(Asked::Serve),
            None => Settings::gather(line.serve).map(Box::new).map(Asked::Serve),
            Some(Command::Account(command)) => {
                let OpenFlags { engine, config } = command.open_flags().clone();
                let mut file = config.as_deref().map(read_file).transpose()?.unwrap_or_default();
                let engine = EngineSettings::merge(engine, None, None, file.take_engine())?;
                Ok(Asked::Account(Box::new(engine), Box::new(command)))
            }
            Some(Command::Migrate(flags)) => Migration::gather(flags).map(Box::new).map(Asked::Migrate),
            Some(Command::Check(CheckFlags { dir, data, scratch, open })) => {
                let data = directory("check", open, dir.or(data))?;
                Ok(Asked::Check(Check { data, scratch: scratch.unwrap_or_else(std::env::temp_dir) }))
            }
            Some(Command::Backup(BackupFlags { data, to, open })) => {
                Ok(Asked::Backup(Backup { data: directory("backup", open, data)?, to }))
            }
            Some(Command::Restore(RestoreFlags { from, data, open })) => {
                Ok(Asked::Restore(Restore { from, data: directory("restore", open, data)? }))
            }
        }
    }
}

/// The directory that a command is about. A cluster has none.
fn directory(command: &str, flags: OpenFlags, data: Option<PathBuf>) -> Result<PathBuf, String> {
    let OpenFlags { engine, config } = flags;
    let mut file = config.as_deref().map(read_file).transpose()?.unwrap_or_default();
    let told = file.take_engine();
    let is_cluster = engine.engine.or(told.engine) == Some(EngineName::Rados);
    match EngineSettings::merge(engine, data.filter(|_| !is_cluster), None, told)? {
        EngineSettings::Embedded { data, .. } => Ok(data),
        EngineSettings::Rados(_) => Err(format!(
            "`lazuli {command}` is about a data directory. A cluster is looked after with Ceph's own tools: `ceph health` and \
             scrubbing verify it, and pools are copied with snapshots, mirroring or `rados export`; see docs/cluster.md"
        )),
    }
}

impl Migration {
    fn gather(flags: MigrateFlags) -> Result<Migration, String> {
        let OpenFlags { engine, config } = flags.open;
        let mut file = config.as_deref().map(read_file).transpose()?.unwrap_or_default();
        // The file may be that of the directory's server.
        let told = file.take_engine();
        let engine = EngineSettings::merge(engine, None, None, EngineFile { data: None, durability: None, ..told })?;
        let accounts = accounts(&flags.account, &file.account)?.into_iter().map(|account| NewAccount {
            settings: file.account.get(account.name.as_str()).map(AccountSettings::of_account).unwrap_or_default(),
            name: account.name,
            keys: account.keys,
        });
        Ok(Migration { data: flags.data, accounts: accounts.collect(), engine })
    }
}
