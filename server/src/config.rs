//! The settings: command line over environment over file over default.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use contract::Service;
use contract::roles::{ROLES, Role};
use http::account::{Account, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use http::events::{SubscriptionSettings, Subscriptions};
use http::source::allow::AllowList;
use http::tokens::{Assignment, Tokens};
use serde::Deserialize;
use tracing::level_filters::LevelFilter;

use crate::azurite::AsAzurite;
use crate::log::LogFormat;
use crate::otlp::OtlpSettings;
use crate::peers::PeerSettings;
use crate::tls::TlsSettings;

mod commands;
mod engine;
mod file;
mod help;
mod limits;
mod nearest;
mod otlp;
mod show;
mod tls;
mod variables;

pub use commands::{
    Asked, Backup, Check, CommandLine, Migration, NewAccount, PlaceFlags, ReachFlags, Restore, WhoFlags,
};
pub use engine::{ClusterSettings, EngineSettings};
use engine::{EngineFile, EngineFlags, EngineName};
use file::Written;
pub use file::read as read_toml;
pub use help::{Page, command, completions, man_page, settings_page};
use limits::{LimitFile, LimitFlags, LimitSettings};
use otlp::OtlpFlags;
pub use show::effective;
use tls::{TlsFile, TlsFlag, TlsFlags};
pub use variables::{refuse, unknown_variables};

#[derive(Args, Clone, Debug, Default)]
struct ServeFlags {
    /// Where the data lives [default: lazuli-data]
    #[arg(long, value_name = "DIR", env = "LAZULI_DATA")]
    data: Option<PathBuf>,
    /// The address to listen on [default: 127.0.0.1]
    #[arg(long, value_name = "ADDR", env = "LAZULI_HOST")]
    host: Option<IpAddr>,
    /// Port of the Blob service [default: 10000]
    ///
    /// Of this and every other port: 0 for any free one, `off` for none.
    #[arg(long, value_name = "N", env = "LAZULI_BLOB_PORT")]
    blob_port: Option<Port>,
    /// Port of the Queue service [default: 10001]
    #[arg(long, value_name = "N", env = "LAZULI_QUEUE_PORT")]
    queue_port: Option<Port>,
    /// Port of the Table service [default: 10002]
    #[arg(long, value_name = "N", env = "LAZULI_TABLE_PORT")]
    table_port: Option<Port>,
    /// Port of the File service [default: 10003]
    #[arg(long, value_name = "N", env = "LAZULI_FILE_PORT")]
    file_port: Option<Port>,
    /// Port of static websites [default: off]
    ///
    /// By path: http://ADDR:N/ACCOUNT/. By name they are on the Blob port.
    #[arg(long, value_name = "N", env = "LAZULI_WEB_PORT")]
    web_port: Option<Port>,
    /// Port of SMB, to mount shares [default: 10445]
    #[arg(long, value_name = "N", env = "LAZULI_SMB_PORT")]
    smb_port: Option<Port>,
    /// Whether SMB 3 clients must encrypt: `required` or `offered` [default: required]
    #[arg(long, value_name = "WHEN", env = "LAZULI_SMB_ENCRYPTION")]
    smb_encryption: Option<EncryptionFlag>,
    /// Port for the other gateways of a cluster [default: 0]
    ///
    /// `off` for a gateway that serves no shares.
    #[arg(long, value_name = "N", env = "LAZULI_PEER_PORT")]
    peer_port: Option<Port>,
    /// How the other gateways of a cluster reach this one [default: the address of --host]
    #[arg(long, value_name = "HOST[:PORT]", env = "LAZULI_PEER_ADDRESS")]
    peer_address: Option<String>,
    /// Port of the console, metrics and health [default: 10080]
    #[arg(long, value_name = "N", env = "LAZULI_CONSOLE_PORT")]
    console_port: Option<Port>,
    /// When a write is acknowledged: full or relaxed [default: full]
    ///
    /// `full`: when it is on the disk. `relaxed`: when the operating system has it.
    #[arg(long, value_name = "WHEN", env = "LAZULI_DURABILITY")]
    durability: Option<DurabilityFlag>,
    /// An account and its keys [default: the development account]
    ///
    /// May be given several times; in the variable with commas between. In the file it is a table, `[account.NAME]`.
    #[arg(long, value_name = "NAME:KEY[:KEY]", env = "LAZULI_ACCOUNT", value_delimiter = ',', hide_env_values = true)]
    account: Vec<String>,
    /// A host that blobs may be copied from [default: none]
    ///
    /// May be given several times; in the variable with commas between. What the file lists is allowed as well.
    #[arg(long, value_name = "HOST[:PORT]", env = "LAZULI_COPY_SOURCE", value_delimiter = ',')]
    copy_source: Vec<String>,
    /// A TOML file with any of these settings [default: none]
    #[arg(long, value_name = "FILE", env = "LAZULI_CONFIG")]
    config: Option<PathBuf>,
    /// How much to say on standard error [default: info]
    ///
    /// One of off, error, warn, info, debug and trace.
    #[arg(long, value_name = "LEVEL", env = "LAZULI_LOG")]
    log: Option<LevelFilter>,
    /// In which form it is said: auto, text or json [default: auto]
    ///
    /// `json` is an object a line; `auto` is text on a terminal and JSON otherwise.
    #[arg(long, value_name = "FORMAT", env = "LAZULI_LOG_FORMAT")]
    log_format: Option<LogFormat>,
    #[command(flatten)]
    otlp: OtlpFlags,
    #[command(flatten)]
    tls: TlsFlags,
    /// Port of tokens for development [default: off]
    ///
    /// Every program of this machine gets one there, as Entra ID and managed identities give it, and it is trusted here. On loopback
    /// alone (docs/tokens.md).
    #[arg(long, value_name = "N", env = "LAZULI_DEV_TOKEN_PORT")]
    dev_token_port: Option<Port>,
    /// Listen beyond this machine although an account has the published development key, which everybody knows [default: false]
    #[arg(long, env = "LAZULI_ALLOW_PUBLISHED_KEY_ON_NETWORK")]
    allow_published_key_on_network: bool,
    #[command(flatten)]
    limits: LimitFlags,
    #[command(flatten)]
    engine: EngineFlags,
}

/// The same settings in the file, in the same words.
#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct ConfigFile {
    data: Option<PathBuf>,
    host: Option<IpAddr>,
    blob_port: Option<Port>,
    queue_port: Option<Port>,
    table_port: Option<Port>,
    file_port: Option<Port>,
    web_port: Option<Port>,
    smb_port: Option<Port>,
    smb_encryption: Option<EncryptionFlag>,
    peer_port: Option<Port>,
    peer_address: Option<String>,
    console_port: Option<Port>,
    durability: Option<DurabilityFlag>,
    log: Option<Level>,
    log_format: Option<LogFormat>,
    otlp_endpoint: Option<String>,
    trace_ratio: Option<f64>,
    tls: Option<TlsFlag>,
    #[serde(default)]
    tls_name: Vec<String>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    dev_token_port: Option<Port>,
    connections_max: Option<usize>,
    connections_per_address_max: Option<usize>,
    requests_max: Option<usize>,
    requests_per_address_max: Option<usize>,
    buffered_mib_max: Option<usize>,
    smb_buffered_mib_max: Option<usize>,
    idle_timeout: Option<u64>,
    smb_idle_timeout: Option<u64>,
    stall_timeout: Option<u64>,
    #[serde(default)]
    allow_published_key_on_network: bool,
    #[serde(default)]
    account: BTreeMap<String, AccountSettings>,
    tokens: Option<TokenSettings>,
    #[serde(default)]
    copy_source: Vec<String>,
    /// `[[events]]`: who is told of blobs
    #[serde(default)]
    events: Vec<SubscriptionSettings>,
    engine: Option<EngineName>,
    ceph_conf: Option<PathBuf>,
    ceph_user: Option<String>,
    ceph_keyring: Option<PathBuf>,
    records_pool: Option<String>,
    bodies_pool: Option<String>,
    ceph_namespace: Option<String>,
    /// `[shards]`: `container = 16`
    #[serde(default)]
    shards: BTreeMap<String, u16>,
}

impl ConfigFile {
    fn limits(&self) -> LimitFile {
        LimitFile {
            connections_max: self.connections_max,
            connections_per_address_max: self.connections_per_address_max,
            requests_max: self.requests_max,
            requests_per_address_max: self.requests_per_address_max,
            buffered_mib_max: self.buffered_mib_max,
            smb_buffered_mib_max: self.smb_buffered_mib_max,
            idle_timeout: self.idle_timeout,
            smb_idle_timeout: self.smb_idle_timeout,
            stall_timeout: self.stall_timeout,
        }
    }

    /// What it says of https.
    fn take_tls(&mut self) -> TlsFile {
        TlsFile {
            tls: self.tls,
            tls_name: std::mem::take(&mut self.tls_name),
            tls_cert: self.tls_cert.take(),
            tls_key: self.tls_key.take(),
        }
    }

    /// What it says of the engine.
    fn take_engine(&mut self) -> EngineFile {
        EngineFile {
            engine: self.engine,
            data: self.data.take(),
            durability: self.durability,
            ceph_conf: self.ceph_conf.take(),
            ceph_user: self.ceph_user.take(),
            ceph_keyring: self.ceph_keyring.take(),
            records_pool: self.records_pool.take(),
            bodies_pool: self.bodies_pool.take(),
            ceph_namespace: self.ceph_namespace.take(),
            shards: std::mem::take(&mut self.shards),
        }
    }
}

/// `[account.NAME]`
#[derive(Deserialize, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct AccountSettings {
    /// Not needed for the development account, nor for one given on the command line.
    #[serde(default)]
    keys: Vec<String>,
    /// What is overwritten or deleted stays as an earlier version.
    #[serde(default)]
    versioning: bool,
    /// Blobs may have immutability policies and legal holds; containers with blobs in them are not deleted.
    #[serde(default)]
    immutable_storage: bool,
    /// When each blob was read last is kept, to a day.
    #[serde(default)]
    track_last_access: bool,
    /// How long a blob takes to leave the archive.
    archive_rehydration_seconds: Option<u64>,
    /// For how many days a deleted container can be restored.
    container_retention_days: Option<u16>,
    /// For how many days a deleted share can be restored.
    share_retention_days: Option<u16>,
}

impl AccountSettings {
    fn of_account(&self) -> partition::account::AccountSettings {
        partition::account::AccountSettings {
            versioning: self.versioning,
            immutable_storage: self.immutable_storage,
            track_last_access: self.track_last_access,
            archive_rehydration_seconds: self.archive_rehydration_seconds,
            container_retention_days: self.container_retention_days,
            share_retention_days: self.share_retention_days,
        }
    }
}

/// `[tokens]`: whose bearer tokens are trusted. Only in the file: it is too much for a command line.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct TokenSettings {
    #[serde(default)]
    issuers: Vec<String>,
    #[serde(default)]
    audiences: Vec<String>,
    /// A file with the issuers' JSON Web Key Set, read at start and at SIGHUP.
    keys: Option<PathBuf>,
    authority: Option<String>,
    #[serde(default)]
    assign: Vec<AssignmentSettings>,
}

/// `[[tokens.assign]]`
#[derive(Deserialize, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct AssignmentSettings {
    principal: String,
    role: String,
    account: Option<String>,
    within: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DurabilityFlag {
    Full,
    Relaxed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EncryptionFlag {
    Required,
    Offered,
}

/// A port, or that the service is not served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Port {
    On(u16),
    Off,
}

impl FromStr for Port {
    type Err = String;

    fn from_str(text: &str) -> Result<Port, String> {
        if text.eq_ignore_ascii_case("off") {
            return Ok(Port::Off);
        }
        text.parse().map(Port::On).map_err(|_| "a port is a number from 0 to 65535, or `off`".to_string())
    }
}

impl<'de> Deserialize<'de> for Port {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Port, D::Error> {
        // A number or a word: the words of either say what is right.
        toml::Value::deserialize(deserializer)?.to_string().trim_matches('"').parse().map_err(serde::de::Error::custom)
    }
}

/// How much is logged, in the file.
#[derive(Clone, Copy, Debug)]
struct Level(LevelFilter);

impl<'de> Deserialize<'de> for Level {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Level, D::Error> {
        let text = String::deserialize(deserializer)?;
        let no_level = |_| format!("\"{text}\" is no level: off, error, warn, info, debug or trace");
        text.parse().map(Level).map_err(no_level).map_err(serde::de::Error::custom)
    }
}

/// Who said which accounts there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccountsFrom {
    /// Flags, the variable or the file.
    Given,
    /// Azurite's variable: it is read where nothing else names an account.
    Azurite,
    /// Nobody.
    Default,
}

/// Azurite's variable with accounts.
const AZURITE_ACCOUNTS: &str = "AZURITE_ACCOUNTS";

/// What was decided.
#[derive(Clone, Debug)]
pub struct Settings {
    pub engine: EngineSettings,
    pub host: IpAddr,
    ports: [Port; 4],
    /// Where websites are served by path.
    pub web_port: Port,
    pub smb_port: Port,
    pub console_port: Port,
    pub smb_requires_encryption: bool,
    /// `None` where there can be no other gateway.
    pub peers: Option<PeerSettings>,
    /// None with a cluster, which holds its own.
    pub accounts: Vec<Account>,
    pub accounts_from: AccountsFrom,
    /// Without those of the development issuer, which is not there yet.
    pub tokens: Option<Tokens>,
    /// Where the development issuer is, if it was asked for.
    pub dev_token_port: Port,
    pub copy_sources: AllowList,
    pub events: Subscriptions,
    pub log: LevelFilter,
    pub log_format: LogFormat,
    pub otlp: Option<OtlpSettings>,
    pub tls: Option<TlsSettings>,
    pub limits: LimitSettings,
    allow_published_key_on_network: bool,
    /// What was asked for in Azurite's words.
    pub as_azurite: Option<AsAzurite>,
}

impl Settings {
    fn gather(flags: ServeFlags) -> Result<(Settings, Written), String> {
        let (file, written) = flags.config.as_deref().map(file::read).transpose()?.unwrap_or_default();
        let path = flags.config.clone();
        // What is said of a table is said of the file.
        let in_file = |error: String| match path.filter(|_| error.starts_with('[')) {
            Some(path) => format!("{}: {error}", path.display()),
            None => error,
        };
        Ok((Self::merge(flags, file, &azurite_variable()).map_err(in_file)?, written))
    }

    /// `azurite` is what Azurite's variable says of accounts.
    fn merge(flags: ServeFlags, mut file: ConfigFile, azurite: &str) -> Result<Settings, String> {
        let engine = EngineSettings::merge(flags.engine, flags.data, flags.durability, file.take_engine())?;
        let host = flags.host.or(file.host).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let tls = tls::merge(flags.tls, file.take_tls(), &engine, host)?;
        let are_given = !flags.account.is_empty() || !file.account.is_empty();
        let (accounts_from, accounts) = match engine {
            EngineSettings::Embedded { .. } if are_given || azurite.is_empty() => {
                let from = if are_given { AccountsFrom::Given } else { AccountsFrom::Default };
                (from, accounts(&flags.account, &file.account)?)
            }
            EngineSettings::Embedded { .. } => (AccountsFrom::Azurite, azurite_accounts(azurite)?),
            EngineSettings::Rados(_) if !are_given => (AccountsFrom::Default, Vec::new()),
            EngineSettings::Rados(_) => {
                return Err(
                    "--account and [account.NAME] mean nothing with --engine rados: accounts are in the cluster, \
                            where `lazuli account create NAME` makes them"
                        .into(),
                );
            }
        };
        let limits = LimitSettings::merge(&flags.limits, file.limits())?;
        let port = |flag: Option<Port>, file: Option<Port>, default: u16| flag.or(file).unwrap_or(Port::On(default));
        let ports = [
            port(flags.blob_port, file.blob_port, 10000),
            port(flags.queue_port, file.queue_port, 10001),
            port(flags.table_port, file.table_port, 10002),
            port(flags.file_port, file.file_port, 10003),
        ];
        let smb_port = port(flags.smb_port, file.smb_port, 10445);
        let said = (flags.peer_port.or(file.peer_port), flags.peer_address.or(file.peer_address));
        let peers = PeerSettings::merge(&engine, said, [ports[3], smb_port])?;
        let console_port = port(flags.console_port, file.console_port, 10080);
        let log = flags.log.or(file.log.map(|Level(level)| level)).unwrap_or(LevelFilter::INFO);
        let dev_token_port = flags.dev_token_port.or(file.dev_token_port).unwrap_or(Port::Off);
        refuse_dev_token_port(dev_token_port, host, &engine)?;
        Ok(Settings {
            engine,
            host,
            ports,
            smb_port,
            console_port,
            peers,
            smb_requires_encryption: flags.smb_encryption.or(file.smb_encryption) != Some(EncryptionFlag::Offered),
            web_port: flags.web_port.or(file.web_port).unwrap_or(Port::Off),
            accounts,
            accounts_from,
            tokens: file.tokens.map(|settings| tokens(settings, dev_token_port)).transpose()?,
            dev_token_port,
            events: Subscriptions::parse(&file.events)?,
            copy_sources: AllowList::parse(flags.copy_source.iter().chain(&file.copy_source).map(String::as_str))?,
            log,
            log_format: flags.log_format.or(file.log_format).unwrap_or_default(),
            otlp: otlp::merge(flags.otlp, (file.otlp_endpoint, file.trace_ratio), |name| std::env::var(name).ok())?,
            tls,
            limits,
            allow_published_key_on_network: flags.allow_published_key_on_network || file.allow_published_key_on_network,
            as_azurite: None,
        })
    }

    pub fn port(&self, service: Service) -> Port {
        match service {
            Service::Blob => self.ports[0],
            Service::Queue => self.ports[1],
            Service::Table => self.ports[2],
            Service::File => self.ports[3],
        }
    }

    /// Anybody who can reach the server could do anything with the key that everybody knows.
    pub fn refuse_published_key_on_network(&self, accounts: &[Account]) -> Result<(), String> {
        let published = accounts.iter().any(Account::is_published);
        if self.host.is_loopback() || !published || self.allow_published_key_on_network {
            return Ok(());
        }
        Err(format!(
            "refusing to listen on {}: an account has the published development key, which everybody knows. Give accounts keys of \
             their own with LAZULI_ACCOUNT=NAME:KEY or [account.NAME] of the --config file (in a cluster with `lazuli account rotate`), or say --allow-published-key-on-network if whoever can reach this machine may do \
             anything with the data.",
            self.host
        ))
    }
}

/// Are there keys among the program's arguments? Every user of the machine can read those.
pub fn tells_keys(mut arguments: impl Iterator<Item = OsString>) -> bool {
    const FLAGS: [&str; 5] = ["--account", "--key", "--key1", "--key2", "--connection-string"];
    arguments.any(|argument| FLAGS.contains(&argument.to_string_lossy().split('=').next().unwrap_or_default()))
}

/// The arguments without accounts, and those as the variable has them; `None` if there are none. Of a line that was understood.
pub fn accounts_apart(arguments: impl Iterator<Item = OsString>) -> Option<(Vec<OsString>, String)> {
    let (mut rest, mut accounts, mut is_account) = (Vec::new(), Vec::new(), false);
    for argument in arguments {
        let text = argument.to_str();
        match text.and_then(|text| text.strip_prefix("--account=")) {
            Some(account) => accounts.push(account.to_owned()),
            None if is_account => accounts.extend(text.map(str::to_owned)),
            None if text == Some("--account") => {
                is_account = true;
                continue;
            }
            None => rest.push(argument),
        }
        is_account = false;
    }
    (!accounts.is_empty()).then(|| (rest, accounts.join(",")))
}

fn azurite_variable() -> String {
    std::env::var(AZURITE_ACCOUNTS).unwrap_or_default().trim().to_owned()
}

/// The accounts that flags, file and Azurite's variable name, to whoever acts in their name.
fn known_accounts(flags: &[String], file: &BTreeMap<String, AccountSettings>) -> Result<Vec<Account>, String> {
    let azurite = azurite_variable();
    match flags.is_empty() && file.is_empty() && !azurite.is_empty() {
        true => azurite_accounts(&azurite),
        false => accounts(flags, file),
    }
}

/// `account1:key1:key2;account2:key1`
fn azurite_accounts(text: &str) -> Result<Vec<Account>, String> {
    let mut accounts: Vec<Account> = Vec::new();
    for text in text.trim().split(';').filter(|text| !text.is_empty()) {
        let name = text.split(':').next().unwrap_or_default();
        let account = Account::parse(text).map_err(|error| format!("{AZURITE_ACCOUNTS}: {name}:…: {error}"))?;
        if accounts.iter().any(|other| other.name == account.name) {
            return Err(format!("{AZURITE_ACCOUNTS}: {name} is there twice"));
        }
        accounts.push(account);
    }
    match accounts.is_empty() {
        true => Err(format!("{AZURITE_ACCOUNTS} names no account: it is account1:key1:key2;account2:key1")),
        false => Ok(accounts),
    }
}

/// Keys given as flags replace those in the file; without any there is the development account.
fn accounts(flags: &[String], file: &BTreeMap<String, AccountSettings>) -> Result<Vec<Account>, String> {
    let mut accounts: Vec<Account> = Vec::new();
    for text in flags {
        let name = text.split(':').next().unwrap_or_default();
        let account = Account::parse(text).map_err(|error| format!("--account {name}:…: {error}"))?;
        if accounts.iter().any(|other| other.name == account.name) {
            return Err(format!("--account {name}:… is given twice"));
        }
        accounts.push(account);
    }
    for (name, settings) in file {
        let mut keys: Vec<&str> = settings.keys.iter().map(String::as_str).collect();
        let of_account = settings.of_account();
        of_account.check().map_err(|error| format!("[account.{name}]: {error}"))?;
        match accounts.iter_mut().find(|account| account.name.as_str() == name) {
            Some(account) => *account = account.clone().with(&of_account),
            None => {
                if keys.is_empty() && name == DEVELOPMENT_ACCOUNT {
                    keys.push(DEVELOPMENT_KEY);
                }
                let account = Account::new(name, &keys).map_err(|error| format!("[account.{name}]: {error}"))?;
                accounts.push(account.with(&of_account));
            }
        }
    }
    if accounts.is_empty() {
        accounts.push(Account::development());
    }
    Ok(accounts)
}

/// It authenticates nobody: whoever reaches it may do anything.
fn refuse_dev_token_port(port: Port, host: IpAddr, engine: &EngineSettings) -> Result<(), String> {
    match (port, engine) {
        (Port::Off, _) => Ok(()),
        (_, EngineSettings::Rados(_)) => {
            Err("--dev-token-port is for development on one machine, and not for the data of a cluster".into())
        }
        _ if !host.is_loopback() => Err(format!(
            "--dev-token-port gives a token to everybody who asks: it listens on loopback alone, and not with --host {host}"
        )),
        _ => Ok(()),
    }
}

fn tokens(settings: TokenSettings, dev_token_port: Port) -> Result<Tokens, String> {
    let mut assignments = Vec::new();
    for assignment in settings.assign {
        let role = Role::named(&assignment.role).ok_or_else(|| {
            let known: Vec<&str> = ROLES.iter().map(|role| role.name).collect();
            format!("[[tokens.assign]]: \"{}\" is no role; there are: {}", assignment.role, known.join(", "))
        })?;
        let AssignmentSettings { principal, account, within, .. } = assignment;
        assignments.push(Assignment { principal, role, account, within });
    }
    let Some(path) = settings.keys else {
        return match settings.issuers.is_empty() && dev_token_port != Port::Off {
            true => Ok(Tokens::of_nobody(settings.audiences, assignments, settings.authority)),
            false => {
                Err("[tokens]: `keys` is missing, the file with the issuers' JSON Web Key Set (only --dev-token-port, \
                          without other issuers, needs none)"
                    .into())
            }
        };
    };
    let keys =
        std::fs::read_to_string(&path).map_err(|error| format!("[tokens]: cannot read {}: {error}", path.display()))?;
    Tokens::new(settings.issuers, settings.audiences, &keys, assignments, settings.authority)
        .map_err(|error| format!("[tokens] with keys from {}: {error}", path.display()))
}

#[cfg(test)]
mod tests;
