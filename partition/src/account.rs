//! Accounts that are kept in the engine: for gateways, which have no state of their own.
//!
//! All of them are one partition, so that they are read as one state. A command is a rule over one account as it is, and tells what it is to be.
//! An account that is to go is closed first: nobody serves it from then on, so that what it holds can be looked at in peace.

use std::fmt;
use std::ops::Bound;

use bytes::Bytes;
use contract::limits::RETENTION_DAYS_MAX;
use contract::names::AccountName;
use contract::{Refusal, Service};
use engine::{Fault, GroupRange, KeyRange, PartitionId, ScanStart, Write};
use env::Timestamp;

use crate::execute::{Blind, Command, Failure, Moment, Reader, Shell};
use crate::key::{self, GroupKind, system};
pub use crate::record::account::{AccountSettings, Secret, StoredAccount};
use crate::record::corrupt;

/// Why an account was not changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    AlreadyThere,
    NotThere,
    Closing,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::AlreadyThere => "there is such an account already",
            Refused::NotThere => "there is no such account",
            Refused::Closing => "the account is being deleted",
        })
    }
}

/// One of an account's two keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyName {
    Key1,
    Key2,
}

/// All accounts, by name.
pub async fn all(shell: &Shell) -> Result<Vec<(AccountName, StoredAccount)>, Failure> {
    let view = shell.engine.view(&key::accounts_partition()).await?;
    let everything = KeyRange { start: Bound::Unbounded, end: Bound::Unbounded };
    let mut accounts = Vec::new();
    for (key, record) in view.scan(system::ACCOUNT, &everything, usize::MAX).await? {
        let name = std::str::from_utf8(&key).ok().and_then(AccountName::parse);
        let name = name.ok_or_else(|| corrupt("the name of an account", &key))?;
        accounts.push((name, StoredAccount::decode(&record.value)?));
    }
    Ok(accounts)
}

type Changed = Result<StoredAccount, Refused>;

/// Enters an account.
pub async fn create(shell: &Shell, name: &AccountName, account: &StoredAccount) -> Result<Changed, Failure> {
    change(shell, name, |there| match there {
        None => Ok(Some(account.clone())),
        Some(there) if there.is_closing => Err(Refused::Closing),
        Some(_) => Err(Refused::AlreadyThere),
    })
    .await
    .map(|changed| changed.map(|_| account.clone()))
}

/// Replaces one of its keys. The other goes on signing, so that clients can change over.
pub async fn rotate(shell: &Shell, name: &AccountName, which: KeyName, key: &Secret) -> Result<Changed, Failure> {
    edit(shell, name, |account| match which {
        KeyName::Key1 => account.keys[0] = key.clone(),
        KeyName::Key2 => account.keys[1] = key.clone(),
    })
    .await
}

pub async fn configure(shell: &Shell, name: &AccountName, settings: &[Setting]) -> Result<Changed, Failure> {
    edit(shell, name, |account| settings.iter().for_each(|setting| setting.apply(&mut account.settings))).await
}

/// The first step of a deletion, which may have been taken before. Whoever serves it has to be told next.
pub async fn close(shell: &Shell, name: &AccountName) -> Result<Changed, Failure> {
    let closed = |there: StoredAccount| StoredAccount { is_closing: true, ..there };
    into_changed(change(shell, name, |there| there.map(closed).map(Some).ok_or(Refused::NotThere)).await)
}

/// Takes the first step back.
pub async fn reopen(shell: &Shell, name: &AccountName) -> Result<Changed, Failure> {
    let open = |there: StoredAccount| StoredAccount { is_closing: false, ..there };
    into_changed(change(shell, name, |there| there.map(open).map(Some).ok_or(Refused::NotThere)).await)
}

/// The last step: the account and what is kept of it as a whole are gone. It holds nothing (`holds_anything`) and nobody serves it.
pub async fn remove(shell: &Shell, name: &AccountName) -> Result<(), Failure> {
    let group = key::account_group(name);
    for family in GroupKind::Account.families().iter().copied() {
        loop {
            let start = ScanStart::AtPartition(Bytes::new());
            let range = GroupRange { group: group.clone(), family, start, before_partition: None };
            let page = shell.engine.scan(&range, 100).await?;
            if page.rows.is_empty() {
                break;
            }
            for row in page.rows {
                let partition = PartitionId { group: group.clone(), key: row.partition };
                let writes = vec![Write::Delete { family, key: row.key }];
                shell.execute(&Blind { partition, writes }).await?;
            }
        }
    }
    // Gone is gone: it does not matter who took it away.
    forget(shell, name).await
}

/// Takes an account off the list; what it holds stays for an account of the same name. Nobody serves it.
pub async fn forget(shell: &Shell, name: &AccountName) -> Result<(), Failure> {
    change(shell, name, |_| Ok(None)).await.map(drop)
}

/// Is there anything with a name in it, or something deleted that is not gone yet?
pub async fn holds_anything(shell: &Shell, name: &AccountName) -> Result<Option<Service>, Failure> {
    use key::directory::{HEAD, KEPT, SNAPSHOT, TOMBSTONE};
    for service in Service::ALL {
        for family in [HEAD, TOMBSTONE, KEPT, SNAPSHOT] {
            let (group, start) = (key::directory_group(service, name), ScanStart::AtPartition(Bytes::new()));
            let page = shell.engine.scan(&GroupRange { group, family, start, before_partition: None }, 1).await?;
            if !page.rows.is_empty() {
                return Ok(Some(service));
            }
        }
    }
    Ok(None)
}

async fn edit(
    shell: &Shell,
    name: &AccountName,
    edit: impl Fn(&mut StoredAccount) + Send + Sync,
) -> Result<Changed, Failure> {
    let edited = change(shell, name, |there| {
        let mut account = there.ok_or(Refused::NotThere)?;
        if account.is_closing {
            return Err(Refused::Closing);
        }
        edit(&mut account);
        Ok(Some(account))
    });
    into_changed(edited.await)
}

fn into_changed(changed: Result<Result<Option<StoredAccount>, Refused>, Failure>) -> Result<Changed, Failure> {
    changed.map(|changed| changed.and_then(|account| account.ok_or(Refused::NotThere)))
}

/// What an account is to be, by what it is; `None` is none.
async fn change<R>(
    shell: &Shell,
    name: &AccountName,
    rule: R,
) -> Result<Result<Option<StoredAccount>, Refused>, Failure>
where
    R: Fn(Option<StoredAccount>) -> Result<Option<StoredAccount>, Refused> + Send + Sync,
{
    let key = Bytes::copy_from_slice(name.as_str().as_bytes());
    shell.execute(&OnAccount { partition: key::accounts_partition(), key, rule }).await
}

struct OnAccount<R> {
    partition: PartitionId,
    key: Bytes,
    rule: R,
}

impl<R> Command for OnAccount<R>
where
    R: Fn(Option<StoredAccount>) -> Result<Option<StoredAccount>, Refused> + Send + Sync,
{
    type Records = Option<StoredAccount>;
    type Outcome = Result<Option<StoredAccount>, Refused>;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        let record = reader.get(system::ACCOUNT, &self.key).await?;
        record.map(|record| StoredAccount::decode(&record.value)).transpose()
    }

    fn check(&self, _: &Self::Records, _: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, there: Self::Records, _: Moment) -> Result<(Vec<Write>, Self::Outcome), Refusal> {
        let changed = (self.rule)(there);
        let (family, key) = (system::ACCOUNT, self.key.clone());
        let writes = match &changed {
            Ok(Some(account)) => vec![Write::Put { family, key, value: account.encode(), slices: Vec::new() }],
            Ok(None) => vec![Write::Delete { family, key }],
            Err(_) => Vec::new(),
        };
        Ok((writes, changed))
    }
}

/// One setting, as it is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Setting {
    Versioning(bool),
    ImmutableStorage(bool),
    TrackLastAccess(bool),
    ArchiveRehydrationSeconds(Option<u64>),
    ContainerRetentionDays(Option<u16>),
    ShareRetentionDays(Option<u16>),
}

impl Setting {
    /// `versioning=true`, `share-retention-days=7`, `share-retention-days=off`. The words are those of the configuration file.
    pub fn parse(text: &str) -> Result<Setting, String> {
        let (name, value) = text.split_once('=').ok_or_else(|| format!("{text}: a setting is NAME=VALUE"))?;
        let flag = || value.parse().map_err(|_| format!("{name} is true or false"));
        match name {
            "versioning" => flag().map(Setting::Versioning),
            "immutable-storage" => flag().map(Setting::ImmutableStorage),
            "track-last-access" => flag().map(Setting::TrackLastAccess),
            "archive-rehydration-seconds" => number(value)
                .map(Setting::ArchiveRehydrationSeconds)
                .ok_or_else(|| format!("{name} is a number of seconds, or off")),
            "container-retention-days" => days(name, value).map(Setting::ContainerRetentionDays),
            "share-retention-days" => days(name, value).map(Setting::ShareRetentionDays),
            _ => {
                let known = AccountSettings::default().shown().map(|(name, _)| name).join(", ");
                Err(format!("{name} is no setting of an account; there are: {known}"))
            }
        }
    }

    fn apply(self, settings: &mut AccountSettings) {
        match self {
            Setting::Versioning(is_on) => settings.versioning = is_on,
            Setting::ImmutableStorage(is_on) => settings.immutable_storage = is_on,
            Setting::TrackLastAccess(is_on) => settings.track_last_access = is_on,
            Setting::ArchiveRehydrationSeconds(seconds) => settings.archive_rehydration_seconds = seconds,
            Setting::ContainerRetentionDays(days) => settings.container_retention_days = days,
            Setting::ShareRetentionDays(days) => settings.share_retention_days = days,
        }
    }
}

const OFF: &str = "off";

fn number<T: std::str::FromStr>(value: &str) -> Option<Option<T>> {
    if value == OFF { Some(None) } else { value.parse().ok().map(Some) }
}

fn days(name: &str, value: &str) -> Result<Option<u16>, String> {
    let days = number(value).ok_or_else(|| format!("{name} is a number of days, or off"))?;
    check_days(name, days)
}

/// How long what was deleted may be kept.
fn check_days(name: &str, days: Option<u16>) -> Result<Option<u16>, String> {
    match days {
        Some(days) if !(1..=RETENTION_DAYS_MAX).contains(&days) => {
            Err(format!("{name} is from 1 to {RETENTION_DAYS_MAX}"))
        }
        days => Ok(days),
    }
}

impl AccountSettings {
    /// Is each in its range?
    pub fn check(&self) -> Result<(), String> {
        check_days("container-retention-days", self.container_retention_days)?;
        check_days("share-retention-days", self.share_retention_days)?;
        Ok(())
    }

    /// Names and values, in the words that `Setting::parse` reads.
    pub fn shown(&self) -> [(&'static str, String); 6] {
        fn number<T: ToString>(value: Option<T>) -> String {
            value.map_or(OFF.to_string(), |value| value.to_string())
        }
        [
            ("versioning", self.versioning.to_string()),
            ("immutable-storage", self.immutable_storage.to_string()),
            ("track-last-access", self.track_last_access.to_string()),
            ("archive-rehydration-seconds", number(self.archive_rehydration_seconds)),
            ("container-retention-days", number(self.container_retention_days)),
            ("share-retention-days", number(self.share_retention_days)),
        ]
    }
}

#[cfg(test)]
mod tests;
