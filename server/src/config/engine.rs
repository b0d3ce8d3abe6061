//! Which engine holds the data, and where: the settings of both, and what means nothing together.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use engine::GroupId;
use librados::Settings as ClusterAddress;
use partition::key::GroupKind;
use serde::Deserialize;

use super::DurabilityFlag;

/// No operation on the cluster takes longer. A request reads and then commits (`rados::Options::deadline`), and both together stay below
/// the minute that clients wait.
const CLUSTER_DEADLINE: std::time::Duration = std::time::Duration::from_secs(25);

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineName {
    Embedded,
    Rados,
}

/// On the command line, of every command that opens an engine.
#[derive(Args, Clone, Debug, Default)]
pub struct EngineFlags {
    /// What holds the data: embedded or rados [default: embedded]
    ///
    /// `embedded` is a directory here; `rados` is a Ceph cluster, for any number of gateways.
    #[arg(long, value_name = "NAME", env = "LAZULI_ENGINE")]
    pub engine: Option<EngineName>,
    /// Ceph's configuration file [default: where librados looks by itself]
    #[arg(long, value_name = "FILE", env = "LAZULI_CEPH_CONF")]
    pub ceph_conf: Option<PathBuf>,
    /// Who to be to Ceph: NAME stands for client.NAME [default: lazuli]
    #[arg(long, value_name = "NAME", env = "LAZULI_CEPH_USER")]
    pub ceph_user: Option<String>,
    /// The Ceph user's key [default: where Ceph's configuration says]
    #[arg(long, value_name = "FILE", env = "LAZULI_CEPH_KEYRING")]
    pub ceph_keyring: Option<PathBuf>,
    /// The pool of records, which is replicated [default: lazuli-records]
    #[arg(long, value_name = "POOL", env = "LAZULI_RECORDS_POOL")]
    pub records_pool: Option<String>,
    /// The pool of bodies, replicated or erasure coded [default: lazuli-bodies]
    #[arg(long, value_name = "POOL", env = "LAZULI_BODIES_POOL")]
    pub bodies_pool: Option<String>,
    /// Keeps installations that share their pools apart [default: none]
    #[arg(long, value_name = "NAME", env = "LAZULI_CEPH_NAMESPACE")]
    pub ceph_namespace: Option<String>,
    /// Over how many objects a new group is spread: container, table and directory [default: container=16,table=16,directory=4]
    ///
    /// In the file it is a table, `[shards]`, with lines as `container = 16`.
    #[arg(long, value_name = "KIND=N", env = "LAZULI_SHARDS", value_delimiter = ',')]
    pub shards: Vec<String>,
}

/// The same in the file.
#[derive(Debug, Default)]
pub struct EngineFile {
    pub engine: Option<EngineName>,
    pub data: Option<PathBuf>,
    pub durability: Option<DurabilityFlag>,
    pub ceph_conf: Option<PathBuf>,
    pub ceph_user: Option<String>,
    pub ceph_keyring: Option<PathBuf>,
    pub records_pool: Option<String>,
    pub bodies_pool: Option<String>,
    pub ceph_namespace: Option<String>,
    pub shards: BTreeMap<String, u16>,
}

/// What was decided.
#[derive(Clone, Debug)]
pub enum EngineSettings {
    Embedded { data: PathBuf, durability: embedded::Durability },
    Rados(ClusterSettings),
}

#[derive(Clone, Debug)]
pub struct ClusterSettings {
    pub address: ClusterAddress,
    pub shards: Shards,
}

impl EngineSettings {
    /// `data` and `durability` are flags of those who serve.
    pub fn merge(
        flags: EngineFlags,
        data: Option<PathBuf>,
        durability: Option<DurabilityFlag>,
        file: EngineFile,
    ) -> Result<EngineSettings, String> {
        let (data, durability) = (data.or(file.data), durability.or(file.durability));
        let (conf, user) = (flags.ceph_conf.or(file.ceph_conf), flags.ceph_user.or(file.ceph_user));
        let keyring = flags.ceph_keyring.or(file.ceph_keyring);
        let records_pool = flags.records_pool.or(file.records_pool);
        let bodies_pool = flags.bodies_pool.or(file.bodies_pool);
        let namespace = flags.ceph_namespace.or(file.ceph_namespace);
        let spread = Shards::parse(&flags.shards, &file.shards)?;
        match flags.engine.or(file.engine).unwrap_or(EngineName::Embedded) {
            EngineName::Embedded => {
                let of_clusters = [
                    ("--ceph-conf", conf.is_some()),
                    ("--ceph-user", user.is_some()),
                    ("--ceph-keyring", keyring.is_some()),
                    ("--records-pool", records_pool.is_some()),
                    ("--bodies-pool", bodies_pool.is_some()),
                    ("--ceph-namespace", namespace.is_some()),
                    ("--shards", spread.is_some()),
                ];
                if let Some((name, _)) = of_clusters.iter().find(|(_, is_given)| *is_given) {
                    return Err(format!("{name} is about a Ceph cluster: say --engine rados, too, or leave it out"));
                }
                let durability = match durability.unwrap_or(DurabilityFlag::Full) {
                    DurabilityFlag::Full => embedded::Durability::Full,
                    DurabilityFlag::Relaxed => embedded::Durability::Relaxed,
                };
                Ok(EngineSettings::Embedded { data: data.unwrap_or_else(|| "lazuli-data".into()), durability })
            }
            EngineName::Rados => {
                if let Some(data) = data {
                    let data = data.display();
                    return Err(format!(
                        "--data {data} means nothing with --engine rados: all data is in the cluster (`lazuli migrate` brings a \
                         directory there)"
                    ));
                }
                if durability == Some(DurabilityFlag::Relaxed) {
                    return Err(
                        "--durability relaxed means nothing with --engine rados: Ceph acknowledges what is on disks"
                            .into(),
                    );
                }
                let address = ClusterAddress {
                    conf,
                    user: user.unwrap_or_else(|| "lazuli".into()),
                    keyring,
                    records_pool: records_pool.unwrap_or_else(|| "lazuli-records".into()),
                    bodies_pool: bodies_pool.unwrap_or_else(|| "lazuli-bodies".into()),
                    namespace,
                    deadline: CLUSTER_DEADLINE,
                };
                Ok(EngineSettings::Rados(ClusterSettings { address, shards: spread.unwrap_or_default() }))
            }
        }
    }

    /// Where the data is, for people.
    pub fn place(&self) -> String {
        match self {
            EngineSettings::Embedded { data, .. } => {
                std::path::absolute(data).unwrap_or_else(|_| data.clone()).display().to_string()
            }
            EngineSettings::Rados(ClusterSettings { address, .. }) => {
                let conf = address.conf.as_ref().map_or(String::new(), |conf| format!(" by {}", conf.display()));
                let space = address.namespace.as_ref().map_or(String::new(), |name| format!(", namespace {name}"));
                let (user, records, bodies) = (&address.user, &address.records_pool, &address.bodies_pool);
                format!("a Ceph cluster{conf}, as client.{user}, in pools {records} and {bodies}{space}")
            }
        }
    }
}

/// Over how many objects a new group of each kind is spread. A group keeps the number it was made with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shards {
    container: u16,
    table: u16,
    directory: u16,
}

impl Default for Shards {
    fn default() -> Shards {
        Shards { container: 16, table: 16, directory: 4 }
    }
}

/// A listing asks every one of them.
const SHARDS_MAX: u16 = 256;

impl Shards {
    /// Flags win over the file; `None` if neither says anything.
    fn parse(flags: &[String], file: &BTreeMap<String, u16>) -> Result<Option<Shards>, String> {
        let mut shards = Shards::default();
        for (kind, number) in file {
            shards.set(kind, *number)?;
        }
        for flag in flags {
            let bad = || format!("--shards {flag}: it is KIND=N, as container=16");
            let (kind, number) = flag.split_once('=').ok_or_else(bad)?;
            shards.set(kind, number.parse().map_err(|_| bad())?)?;
        }
        Ok((!flags.is_empty() || !file.is_empty()).then_some(shards))
    }

    fn set(&mut self, kind: &str, number: u16) -> Result<(), String> {
        if !(1..=SHARDS_MAX).contains(&number) {
            return Err(format!("shards: {kind}={number}: it is from 1 to {SHARDS_MAX}"));
        }
        match kind {
            "container" => self.container = number,
            "table" => self.table = number,
            "directory" => self.directory = number,
            "queue" | "share" => return Err(format!("shards: a {kind} changes as a whole and cannot be spread")),
            _ => return Err(format!("shards: {kind} is none of container, table and directory")),
        }
        Ok(())
    }

    /// What is one partition has one, as has what holds a few records only.
    pub fn of(&self, group: &GroupId) -> u16 {
        match partition::key::kind(group) {
            Some(GroupKind::Container) => self.container,
            Some(GroupKind::Table) => self.table,
            Some(GroupKind::Directory) => self.directory,
            Some(GroupKind::Queue | GroupKind::Share | GroupKind::Account | GroupKind::System) | None => 1,
        }
    }
}
