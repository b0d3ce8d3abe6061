//! What the program can be asked to do, and the words for it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use contract::names::AccountName;
use http::account::{Account, AccountKey};

use super::engine::{EngineFile, EngineFlags, EngineName};
use super::file::{self, Written};
use super::{AccountSettings, ConfigFile, EngineSettings, ServeFlags, Settings, accounts, known_accounts};
use crate::accounts::AccountCommand;
use crate::azurite::AzuriteFlags;
use crate::bench::BenchFlags;
use crate::client::Endpoints;
use crate::sas::SasCommand;
use crate::seed::SeedFlags;

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
    /// Serve as Azurite would with the same flags (docs/azurite.md); so does this program when it is called azurite
    Azurite(Box<AzuriteFlags>),
    /// Print the settings that `serve` would have with the same flags, and where each comes from
    Config(Box<ServeFlags>),
    /// Print every setting: its flag, variable, key in the file and default
    Settings(SettingsFlags),
    /// Accounts that are kept with the data: list, add, show, rotate, set, remove
    #[command(subcommand)]
    Account(AccountCommand),
    /// Shared access signatures: make, explain
    #[command(subcommand)]
    Sas(SasCommand),
    /// Make containers, blobs, queues, tables and shares that a file declares, where they are not there yet
    Seed(Box<SeedFlags>),
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
    /// Measure how fast a server is
    Bench(Box<BenchFlags>),
    /// Print completions for a shell
    Completions(CompletionsFlags),
    /// Print the man page
    Man,
}

#[derive(Args, Clone, Debug)]
pub(super) struct SettingsFlags {
    /// As docs/settings.md
    #[arg(long)]
    markdown: bool,
}

#[derive(Args, Clone, Debug)]
pub(super) struct CompletionsFlags {
    shell: clap_complete::Shell,
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
    /// To say what would be served, and where each setting comes from.
    Config(Box<Settings>, Box<Written>),
    /// To print a text.
    Print(String),
    Account(Box<EngineSettings>, Box<AccountCommand>),
    Sas(SasCommand),
    Seed(Box<SeedFlags>),
    Bench(Box<BenchFlags>),
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
    /// Otherwise it is the development account, because nobody named one.
    pub are_given: bool,
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

/// Of commands about what one engine holds.
#[derive(Args, Clone, Debug, Default)]
pub struct PlaceFlags {
    /// The data directory, served or not [default: lazuli-data]
    #[arg(long, value_name = "DIR", env = "LAZULI_DATA")]
    pub data: Option<PathBuf>,
    #[command(flatten)]
    pub open: OpenFlags,
}

/// Whose accounts are known, to commands that act in their name.
#[derive(Args, Clone, Debug, Default)]
pub struct WhoFlags {
    /// An account and its keys [default: the development account]
    #[arg(long, value_name = "NAME:KEY[:KEY]", env = "LAZULI_ACCOUNT", value_delimiter = ',', hide_env_values = true)]
    account: Vec<String>,
    /// A TOML file with the settings of `serve`, and so its accounts
    #[arg(long, value_name = "FILE", env = "LAZULI_CONFIG")]
    config: Option<PathBuf>,
}

impl WhoFlags {
    pub fn accounts(&self) -> Result<Vec<Account>, String> {
        let file = read_file(self.config.clone())?;
        known_accounts(&self.account, &file.account)
    }
}

/// How a server is reached, and in whose name.
#[derive(Args, Clone, Debug, Default)]
pub struct ReachFlags {
    /// Where the server is and whose account, as clients take it [default: this machine, the development ports]
    #[arg(long, value_name = "TEXT", env = "LAZULI_CONNECTION_STRING", hide_env_values = true)]
    connection_string: Option<String>,
    /// Who vouches for a server that speaks https (PEM)
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Which account, if several are known
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    who: WhoFlags,
}

impl ReachFlags {
    pub fn names_a_server(&self) -> bool {
        self.connection_string.is_some()
    }

    pub fn accounts(&self) -> Result<Vec<Account>, String> {
        self.who.accounts()
    }

    /// The account that is meant.
    pub fn choose(&self, accounts: Vec<Account>) -> Result<Account, String> {
        crate::sas::one_of(accounts, self.name.as_deref())
    }

    pub fn endpoints(&self) -> Result<Endpoints, String> {
        match &self.connection_string {
            Some(text) => Endpoints::parse(text, self.ca.clone()),
            None => Ok(Endpoints::development(self.choose(self.accounts()?)?)),
        }
    }
}

impl Asked {
    pub fn gather(line: CommandLine) -> Result<Asked, String> {
        match line.command {
            Some(Command::Serve(flags)) => {
                Settings::gather(*flags).map(|(settings, _)| Asked::Serve(Box::new(settings)))
            }
            None => Settings::gather(line.serve).map(|(settings, _)| Asked::Serve(Box::new(settings))),
            Some(Command::Config(flags)) => {
                Settings::gather(*flags).map(|(settings, written)| Asked::Config(Box::new(settings), Box::new(written)))
            }
            Some(Command::Azurite(flags)) => as_azurite(&flags),
            Some(Command::Settings(SettingsFlags { markdown })) => {
                let page = if markdown { super::Page::Markdown } else { super::Page::Terminal };
                Ok(Asked::Print(super::settings_page(page)))
            }
            Some(Command::Account(command)) => {
                let PlaceFlags { data, open: OpenFlags { engine, config } } = command.open_flags().clone();
                let mut file = read_file(config)?;
                let told = file.take_engine();
                // A directory may be said for those that are about one.
                let is_cluster = engine.engine.or(told.engine) == Some(EngineName::Rados);
                let engine = EngineSettings::merge(engine, data.filter(|_| !is_cluster), None, told)?;
                Ok(Asked::Account(Box::new(engine), Box::new(command)))
            }
            Some(Command::Sas(command)) => Ok(Asked::Sas(command)),
            Some(Command::Seed(flags)) => Ok(Asked::Seed(flags)),
            Some(Command::Bench(flags)) => Ok(Asked::Bench(flags)),
            Some(Command::Completions(flags)) => Ok(Asked::Print(super::completions(flags.shell))),
            Some(Command::Man) => super::man_page().map(Asked::Print),
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

/// What Azurite would serve.
fn as_azurite(flags: &AzuriteFlags) -> Result<Asked, String> {
    if flags.asks_version() {
        return Ok(Asked::Print(format!("Lazuli {}, called as Azurite\n", env!("CARGO_PKG_VERSION"))));
    }
    let (arguments, rest) = flags.translate(std::env::var_os("AZURITE_DB"))?;
    let in_its_words = |error: String| crate::azurite::in_its_words(&error);
    let line = CommandLine::try_parse_from(arguments).map_err(|error| in_its_words(error.to_string()))?;
    match Asked::gather(line).map_err(in_its_words)? {
        Asked::Serve(mut settings) => {
            settings.as_azurite = Some(rest);
            Ok(Asked::Serve(settings))
        }
        other => Ok(other),
    }
}

fn read_file(path: Option<PathBuf>) -> Result<ConfigFile, String> {
    Ok(path.as_deref().map(file::read).transpose()?.map(|(file, _)| file).unwrap_or_default())
}

/// The directory that a command is about. A cluster has none.
fn directory(command: &str, flags: OpenFlags, data: Option<PathBuf>) -> Result<PathBuf, String> {
    let OpenFlags { engine, config } = flags;
    let mut file = read_file(config)?;
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
        let mut file = read_file(config)?;
        // The file may be that of the directory's server.
        let told = file.take_engine();
        let engine = EngineSettings::merge(engine, None, None, EngineFile { data: None, durability: None, ..told })?;
        let accounts = accounts(&flags.account, &file.account)?.into_iter().map(|account| NewAccount {
            settings: file.account.get(account.name.as_str()).map(AccountSettings::of_account).unwrap_or_default(),
            name: account.name,
            keys: account.keys,
        });
        let are_given = !flags.account.is_empty() || !file.account.is_empty();
        Ok(Migration { data: flags.data, accounts: accounts.collect(), are_given, engine })
    }
}
