//! `lazuli account`: the accounts of a cluster, their keys and their settings; and how gateways read them.

use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand, ValueEnum};
use contract::names::AccountName;
use http::account::{Account, AccountKey, DEVELOPMENT_KEY};
use partition::account::{self, AccountSettings, KeyName, Refused, Secret, Setting, StoredAccount};
use partition::{Failure, Shell};

use crate::cluster::Cluster;
use crate::config::{EngineSettings, OpenFlags};

#[derive(Subcommand, Clone, Debug)]
pub enum AccountCommand {
    /// Print the names of all accounts
    List(OpenFlags),
    /// Make an account; keys that are not given are drawn at random
    Create(CreateFlags),
    /// Print an account's settings
    Show(ShowFlags),
    /// Replace one of an account's keys; returns when no gateway takes the old one any more
    Rotate(RotateFlags),
    /// Change an account's settings, as versioning=true or share-retention-days=7
    Set(SetFlags),
    /// Delete an account that holds nothing
    Delete(NameFlags),
}

#[derive(Args, Clone, Debug)]
pub struct NameFlags {
    name: String,
    #[command(flatten)]
    open: OpenFlags,
}

#[derive(Args, Clone, Debug)]
pub struct CreateFlags {
    name: String,
    /// The first key (Base64)
    #[arg(long, value_name = "KEY", env = "LAZULI_KEY1", hide_env_values = true)]
    key1: Option<String>,
    /// The second key (Base64)
    #[arg(long, value_name = "KEY", env = "LAZULI_KEY2", hide_env_values = true)]
    key2: Option<String>,
    /// Take the development key, which everybody knows, for the first
    #[arg(long, conflicts_with = "key1")]
    published_development_key: bool,
    #[command(flatten)]
    open: OpenFlags,
}

#[derive(Args, Clone, Debug)]
pub struct ShowFlags {
    name: String,
    /// Print its keys, too, which are secrets
    #[arg(long)]
    keys: bool,
    #[command(flatten)]
    open: OpenFlags,
}

#[derive(Args, Clone, Debug)]
pub struct RotateFlags {
    name: String,
    which: WhichKey,
    /// The new key (Base64) [default: one drawn at random]
    #[arg(long, value_name = "KEY", env = "LAZULI_KEY", hide_env_values = true)]
    key: Option<String>,
    #[command(flatten)]
    open: OpenFlags,
}

#[derive(Args, Clone, Debug)]
pub struct SetFlags {
    name: String,
    #[arg(required = true, value_name = "NAME=VALUE")]
    settings: Vec<String>,
    #[command(flatten)]
    open: OpenFlags,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum WhichKey {
    Key1,
    Key2,
}

impl AccountCommand {
    pub fn open_flags(&self) -> &OpenFlags {
        match self {
            AccountCommand::List(open)
            | AccountCommand::Create(CreateFlags { open, .. })
            | AccountCommand::Show(ShowFlags { open, .. })
            | AccountCommand::Rotate(RotateFlags { open, .. })
            | AccountCommand::Set(SetFlags { open, .. })
            | AccountCommand::Delete(NameFlags { open, .. }) => open,
        }
    }
}

pub async fn run(engine: EngineSettings, command: AccountCommand) -> Result<(), String> {
    let EngineSettings::Rados(settings) = engine else {
        return Err("`lazuli account` is about the accounts of a cluster (--engine rados). Accounts of a directory are given to \
                    `lazuli serve`: --account NAME:KEY1[:KEY2], or [account.NAME] in its file"
            .into());
    };
    // What is wrong with the words is said before anybody is asked.
    let deed = Deed::parse(command)?;
    let cluster = Cluster::open(&settings).await?;
    let done = deed.done(&cluster).await;
    let closed = cluster.close().await;
    done.and(closed)
}

/// A command whose words were understood.
enum Deed {
    List,
    Create(AccountName, StoredAccount),
    Show { name: AccountName, with_keys: bool },
    Rotate(AccountName, KeyName, Secret),
    Set(AccountName, Vec<Setting>),
    Delete(AccountName),
}

impl Deed {
    fn parse(command: AccountCommand) -> Result<Deed, String> {
        Ok(match command {
            AccountCommand::List(_) => Deed::List,
            AccountCommand::Create(flags) => {
                let key1 = flags.published_development_key.then(|| DEVELOPMENT_KEY.to_string()).or(flags.key1);
                let keys = [parse_key(key1)?, parse_key(flags.key2)?];
                let account = StoredAccount { keys, settings: AccountSettings::default(), is_closing: false };
                Deed::Create(parse_name(&flags.name)?, account)
            }
            AccountCommand::Show(flags) => Deed::Show { name: parse_name(&flags.name)?, with_keys: flags.keys },
            AccountCommand::Rotate(flags) => {
                let which = match flags.which {
                    WhichKey::Key1 => KeyName::Key1,
                    WhichKey::Key2 => KeyName::Key2,
                };
                Deed::Rotate(parse_name(&flags.name)?, which, parse_key(flags.key)?)
            }
            AccountCommand::Set(flags) => {
                let settings = flags.settings.iter().map(|text| Setting::parse(text)).collect::<Result<_, _>>()?;
                Deed::Set(parse_name(&flags.name)?, settings)
            }
            AccountCommand::Delete(flags) => Deed::Delete(parse_name(&flags.name)?),
        })
    }

    async fn done(self, cluster: &Cluster) -> Result<(), String> {
        let shell = &cluster.shell;
        let said = match self {
            Deed::List => {
                let all = account::all(shell).await.map_err(words)?;
                all.iter().map(|(name, _)| format!("{}\n", name.as_str())).collect()
            }
            Deed::Show { name, with_keys } => show(shell, &name, with_keys).await?,
            Deed::Create(name, new) => {
                changed(&name, account::create(shell, &name, &new).await)?;
                cluster.ring().await?;
                String::new()
            }
            Deed::Rotate(name, which, key) => {
                changed(&name, account::rotate(shell, &name, which, &key).await)?;
                cluster.ring().await?;
                String::new()
            }
            Deed::Set(name, settings) => {
                changed(&name, account::configure(shell, &name, &settings).await)?;
                cluster.ring().await?;
                String::new()
            }
            Deed::Delete(name) => {
                delete(cluster, &name).await?;
                String::new()
            }
        };
        std::io::stdout().lock().write_all(said.as_bytes()).map_err(|error| format!("cannot print: {error}"))
    }
}

async fn show(shell: &Shell, name: &AccountName, with_keys: bool) -> Result<String, String> {
    let all = account::all(shell).await.map_err(words)?;
    let found = all.into_iter().find(|(other, _)| other == name);
    let (_, stored) = found.ok_or_else(|| format!("{}: {}", name.as_str(), Refused::NotThere))?;
    let mut text = String::new();
    for (name, value) in stored.settings.shown() {
        text.push_str(&format!("{name}={value}\n"));
    }
    if with_keys {
        text.push_str(&format!("key1={}\nkey2={}\n", stored.keys[0].reveal(), stored.keys[1].reveal()));
    }
    if stored.is_closing {
        text.push_str("is being deleted, and not served\n");
    }
    Ok(text)
}

/// An account that holds something is not disturbed; one that seems to hold nothing is looked at again while nobody serves it.
async fn delete(cluster: &Cluster, name: &AccountName) -> Result<(), String> {
    refuse_if_it_holds_anything(&cluster.shell, name).await?;
    changed(name, account::close(&cluster.shell, name).await)?;
    cluster.ring().await?;
    if let Err(refused) = refuse_if_it_holds_anything(&cluster.shell, name).await {
        changed(name, account::reopen(&cluster.shell, name).await)?;
        cluster.ring().await?;
        return Err(refused);
    }
    account::remove(&cluster.shell, name).await.map_err(words)?;
    cluster.ring().await
}

async fn refuse_if_it_holds_anything(shell: &Shell, name: &AccountName) -> Result<(), String> {
    match account::holds_anything(shell, name).await.map_err(words)? {
        None => Ok(()),
        Some(service) => Err(format!(
            "{}: it holds something in its {} service, or something deleted that is still kept there; delete that first",
            name.as_str(),
            service.name()
        )),
    }
}

fn changed(name: &AccountName, changed: Result<Result<StoredAccount, Refused>, Failure>) -> Result<(), String> {
    match changed.map_err(words)? {
        Ok(_) => Ok(()),
        Err(refused) => Err(format!("{}: {refused}", name.as_str())),
    }
}

fn words(failure: Failure) -> String {
    match failure {
        Failure::Fault(fault) => format!("the cluster failed: {fault}"),
        other => format!("it could not be done: {other:?}"),
    }
}

fn parse_name(text: &str) -> Result<AccountName, String> {
    AccountName::parse(text).ok_or_else(|| format!("{text}: {}", http::account::AccountError::BadName))
}

/// As many bytes as the service's own keys have.
const KEY_BYTES: usize = 64;

/// The key that was given, or a new one.
pub fn parse_key(given: Option<String>) -> Result<Secret, String> {
    match given {
        None => Ok(Secret::new(STANDARD.encode(env::secret_bytes::<KEY_BYTES>()))),
        Some(text) if AccountKey::parse(&text).is_some() => Ok(Secret::new(text)),
        Some(_) => Err(http::account::AccountError::BadKey.to_string()),
    }
}

/// The accounts that are to be served, with keys ready to sign.
pub async fn served(shell: &Shell) -> Result<Vec<Account>, String> {
    let all = account::all(shell).await.map_err(words)?;
    let served = all.into_iter().filter(|(_, stored)| !stored.is_closing).map(|(name, stored)| {
        let keys = [stored.keys[0].reveal(), stored.keys[1].reveal()];
        let account = Account::new(name.as_str(), &keys).map_err(|error| format!("{}: {error}", name.as_str()))?;
        Ok(account.with(&stored.settings))
    });
    served.collect()
}
