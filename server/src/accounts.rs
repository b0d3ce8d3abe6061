//! `lazuli account`: accounts that the engine keeps, their keys and their settings; and how servers read them. docs/decisions/0025.
//!
//! What is asked for is said to whoever has the accounts: a cluster, a directory that nothing serves, or the server of one, by its socket.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand, ValueEnum};
use contract::names::AccountName;
use http::account::{Account, AccountKey, DEVELOPMENT_KEY};
use partition::account::{self, AccountSettings, KeyName, Refused, Secret, Setting, StoredAccount};
use partition::{Failure, Shell};
use serde::{Deserialize, Serialize};

use crate::cluster::Cluster;
use crate::config::{EngineSettings, PlaceFlags};

pub mod directory;

#[derive(Subcommand, Clone, Debug)]
pub enum AccountCommand {
    /// Print the names of all accounts
    List(ListFlags),
    /// Make an account; keys that are not given are drawn at random, and shown this once
    #[command(visible_alias = "add")]
    Create(CreateFlags),
    /// Print an account's settings
    Show(ShowFlags),
    /// Replace one of an account's keys; returns when no server takes the old one any more
    #[command(visible_alias = "rotate-key")]
    Rotate(RotateFlags),
    /// Change an account's settings, as versioning=true or share-retention-days=7
    Set(SetFlags),
    /// Delete an account that holds nothing
    #[command(visible_alias = "remove")]
    Delete(DeleteFlags),
}

#[derive(Args, Clone, Debug)]
pub struct ListFlags {
    /// Print their keys, too, which are secrets
    #[arg(long, visible_alias = "keys")]
    show_keys: bool,
    #[command(flatten)]
    open: PlaceFlags,
}

#[derive(Args, Clone, Debug)]
pub struct DeleteFlags {
    name: String,
    /// Of a data directory: take the account off the list, whatever it holds. What it holds stays, for an account of the same name
    #[arg(long)]
    keep_data: bool,
    #[command(flatten)]
    open: PlaceFlags,
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
    open: PlaceFlags,
}

#[derive(Args, Clone, Debug)]
pub struct ShowFlags {
    name: String,
    /// Print its keys, too, which are secrets
    #[arg(long, visible_alias = "show-keys")]
    keys: bool,
    #[command(flatten)]
    open: PlaceFlags,
}

#[derive(Args, Clone, Debug)]
pub struct RotateFlags {
    name: String,
    which: WhichKey,
    /// The new key (Base64) [default: one drawn at random]
    #[arg(long, value_name = "KEY", env = "LAZULI_KEY", hide_env_values = true)]
    key: Option<String>,
    #[command(flatten)]
    open: PlaceFlags,
}

#[derive(Args, Clone, Debug)]
pub struct SetFlags {
    name: String,
    #[arg(required = true, value_name = "NAME=VALUE")]
    settings: Vec<String>,
    #[command(flatten)]
    open: PlaceFlags,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum WhichKey {
    Key1,
    Key2,
}

impl AccountCommand {
    pub fn open_flags(&self) -> &PlaceFlags {
        match self {
            AccountCommand::List(ListFlags { open, .. })
            | AccountCommand::Create(CreateFlags { open, .. })
            | AccountCommand::Show(ShowFlags { open, .. })
            | AccountCommand::Rotate(RotateFlags { open, .. })
            | AccountCommand::Set(SetFlags { open, .. })
            | AccountCommand::Delete(DeleteFlags { open, .. }) => open,
        }
    }
}

pub async fn run(engine: EngineSettings, command: AccountCommand) -> Result<(), String> {
    // What is wrong with the words is said before anybody is asked.
    let asking = Asking::from(command);
    let deed = Deed::parse(asking.clone())?;
    let said = match engine {
        EngineSettings::Rados(settings) => {
            let cluster = Cluster::open(&settings).await?;
            let done = deed.done(&Holder::Cluster(&cluster)).await;
            let closed = cluster.close().await;
            done.and_then(|said| closed.map(|()| said))?
        }
        EngineSettings::Embedded { data, .. } => directory::ask(&data, asking, deed).await?,
    };
    crate::print(&said)
}

/// What was asked for, as it is told to a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Asking {
    List { with_keys: bool },
    Create { name: String, keys: [Option<String>; 2] },
    Show { name: String, with_keys: bool },
    Rotate { name: String, is_second: bool, key: Option<String> },
    Set { name: String, settings: Vec<String> },
    Delete { name: String, keeps_data: bool },
}

impl From<AccountCommand> for Asking {
    fn from(command: AccountCommand) -> Asking {
        match command {
            AccountCommand::List(flags) => Asking::List { with_keys: flags.show_keys },
            AccountCommand::Create(flags) => {
                let key1 = flags.published_development_key.then(|| DEVELOPMENT_KEY.to_string()).or(flags.key1);
                Asking::Create { name: flags.name, keys: [key1, flags.key2] }
            }
            AccountCommand::Show(flags) => Asking::Show { name: flags.name, with_keys: flags.keys },
            AccountCommand::Rotate(flags) => {
                Asking::Rotate { name: flags.name, is_second: flags.which == WhichKey::Key2, key: flags.key }
            }
            AccountCommand::Set(flags) => Asking::Set { name: flags.name, settings: flags.settings },
            AccountCommand::Delete(flags) => Asking::Delete { name: flags.name, keeps_data: flags.keep_data },
        }
    }
}

/// A command whose words were understood.
pub enum Deed {
    List {
        with_keys: bool,
    },
    /// With what is to be said of the keys that were drawn.
    Create(AccountName, StoredAccount, String),
    Show {
        name: AccountName,
        with_keys: bool,
    },
    Rotate(AccountName, KeyName, Secret, String),
    Set(AccountName, Vec<Setting>),
    Delete {
        name: AccountName,
        keeps_data: bool,
    },
}

/// Who has the accounts.
pub enum Holder<'a> {
    Cluster(&'a Cluster),
    Directory(&'a directory::Directory<'a>),
}

impl Holder<'_> {
    fn shell(&self) -> &Shell {
        match self {
            Holder::Cluster(cluster) => &cluster.shell,
            Holder::Directory(directory) => directory.shell,
        }
    }

    /// Returns when the change holds wherever the accounts are served.
    async fn tell(&self) -> Result<(), String> {
        match self {
            Holder::Cluster(cluster) => cluster.ring().await,
            Holder::Directory(directory) => directory.tell().await,
        }
    }
}

impl Deed {
    pub fn parse(asking: Asking) -> Result<Deed, String> {
        Ok(match asking {
            Asking::List { with_keys } => Deed::List { with_keys },
            Asking::Create { name, keys } => {
                let drawn = [keys[0].is_none(), keys[1].is_none()];
                let [key1, key2] = keys;
                let keys = [parse_key(key1)?, parse_key(key2)?];
                let shown = drawn.iter().zip(&keys).zip(["key1", "key2"]).filter(|((drawn, _), _)| **drawn);
                let shown = shown.map(|((_, key), name)| format!("{name}={}\n", key.reveal())).collect();
                let account = StoredAccount { keys, settings: AccountSettings::default(), is_closing: false };
                Deed::Create(parse_name(&name)?, account, shown)
            }
            Asking::Show { name, with_keys } => Deed::Show { name: parse_name(&name)?, with_keys },
            Asking::Rotate { name, is_second, key } => {
                let (which, word) = if is_second { (KeyName::Key2, "key2") } else { (KeyName::Key1, "key1") };
                let is_drawn = key.is_none();
                let key = parse_key(key)?;
                let shown = if is_drawn { format!("{word}={}\n", key.reveal()) } else { String::new() };
                Deed::Rotate(parse_name(&name)?, which, key, shown)
            }
            Asking::Set { name, settings } => {
                let settings = settings.iter().map(|text| Setting::parse(text)).collect::<Result<_, _>>()?;
                Deed::Set(parse_name(&name)?, settings)
            }
            Asking::Delete { name, keeps_data } => Deed::Delete { name: parse_name(&name)?, keeps_data },
        })
    }

    /// What is to be said of it.
    pub async fn done(self, holder: &Holder<'_>) -> Result<String, String> {
        let shell = holder.shell();
        match self {
            Deed::List { with_keys } => {
                let mut text = String::new();
                for (name, stored) in account::all(shell).await.map_err(words)? {
                    let [key1, key2] = stored.keys.each_ref().map(|key| key.reveal());
                    let keys = if with_keys { format!(" key1={key1} key2={key2}") } else { String::new() };
                    text.push_str(&format!("{}{keys}\n", name.as_str()));
                }
                Ok(text)
            }
            Deed::Show { name, with_keys } => show(shell, &name, with_keys).await,
            Deed::Create(name, new, shown) => {
                changed(&name, account::create(shell, &name, &new).await)?;
                holder.tell().await?;
                Ok(shown)
            }
            Deed::Rotate(name, which, key, shown) => {
                changed(&name, account::rotate(shell, &name, which, &key).await)?;
                holder.tell().await?;
                Ok(shown)
            }
            Deed::Set(name, settings) => {
                changed(&name, account::configure(shell, &name, &settings).await)?;
                holder.tell().await?;
                Ok(String::new())
            }
            Deed::Delete { name, keeps_data: false } => delete(holder, &name).await.map(|()| String::new()),
            Deed::Delete { name, keeps_data: true } => {
                if let Holder::Cluster(_) = holder {
                    return Err("--keep-data is about a data directory".into());
                }
                changed(&name, account::close(shell, &name).await)?;
                account::forget(shell, &name).await.map_err(words)?;
                holder.tell().await?;
                Ok(String::new())
            }
        }
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
async fn delete(holder: &Holder<'_>, name: &AccountName) -> Result<(), String> {
    refuse_if_it_holds_anything(holder.shell(), name).await?;
    changed(name, account::close(holder.shell(), name).await)?;
    holder.tell().await?;
    if let Err(refused) = refuse_if_it_holds_anything(holder.shell(), name).await {
        changed(name, account::reopen(holder.shell(), name).await)?;
        holder.tell().await?;
        return Err(refused);
    }
    account::remove(holder.shell(), name).await.map_err(words)?;
    holder.tell().await
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
        Failure::Fault(fault) => format!("the storage failed: {fault}"),
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
