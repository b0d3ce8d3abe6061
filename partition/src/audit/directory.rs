//! What accounts keep: their containers, queues, tables and shares by name, their settings, and what all accounts have in common.

use bytes::Bytes;
use contract::Service;
use contract::names::{AccountName, ContainerName, QueueName, ShareName, TableName};
use engine::{Family, Fault, GroupId, PartitionId, Record, Row};
use env::Id;

use super::cursor::Cursor;
use super::{Audit, names, rules};
use crate::directory::Named;
use crate::events::kept_key;
use crate::key::{self, account, directory, system};
use crate::record::account::StoredAccount;
use crate::record::event::{PendingEvent, decode_note};
use crate::record::handle::KeptHandle;
use crate::record::note::PendingCopy;
use crate::record::service::ServiceProperties;
use crate::record::{ContainerHead, KeptHead, QueueHead, ShareHead, ShareSnapshot, ShareState, TableHead, corrupt};

/// Whether this can be the name of something in a service's directory.
fn is_name(service: Service, name: &[u8]) -> bool {
    let Ok(name) = std::str::from_utf8(name) else { return false };
    match service {
        Service::Blob => ContainerName::parse(name).is_ok(),
        Service::Queue => QueueName::parse(name).is_ok(),
        Service::Table => TableName::parse(name).is_ok_and(|table| table.folded() == name),
        Service::File => ShareName::parse(name).is_ok(),
    }
}

/// One record of a directory, by itself.
fn read_row(service: Service, family: Family, row: &Row) -> Result<(), Fault> {
    fn head<H: Named>(family: Family, row: &Row) -> Result<(), Fault> {
        match family {
            directory::HEAD if row.key.is_empty() => H::decode(&row.record.value).map(drop),
            directory::KEPT if row.key.len() == 8 => KeptHead::<H>::decode(&row.record.value).map(drop),
            _ => Err(corrupt("the key of a name", &row.key)),
        }
    }
    match (family, service) {
        (directory::TOMBSTONE, _) if row.key.len() == 16 && row.record.value.is_empty() => Ok(()),
        (directory::TOMBSTONE, _) => Err(corrupt("a tombstone", &row.key)),
        (directory::SNAPSHOT, Service::File) if row.key.len() == 24 => {
            let snapshot = ShareSnapshot::decode(&row.record.value)?;
            let is_own = row.key[..16] == snapshot.head.incarnation.0.to_be_bytes();
            if is_own { Ok(()) } else { Err(corrupt("a snapshot of another share", &row.key)) }
        }
        (directory::SNAPSHOT, _) => Err(corrupt("the key of a snapshot", &row.key)),
        (_, Service::Blob) => head::<ContainerHead>(family, row),
        (_, Service::Queue) => head::<QueueHead>(family, row),
        (_, Service::Table) => head::<TableHead>(family, row),
        (_, Service::File) => head::<ShareHead>(family, row),
    }
}

/// One record of what an account keeps as a whole.
fn read_of_account(family: Family, row: &Row) -> Result<(), Fault> {
    let (partition, key, value) = (row.partition.as_ref(), &row.key, &row.record.value);
    match (family, partition) {
        (account::PENDING_COPIES, b"copies") if key.len() == 16 => PendingCopy::decode(value).map(drop),
        (account::EVENTS, b"events") => {
            let pending = PendingEvent::decode(value)?;
            if *key == kept_key(&pending) { Ok(()) } else { Err(corrupt("the key of an event", key)) }
        }
        (account::EVENTFUL, b"events") => {
            let is_container = names::parse_contents(&GroupId(key.clone())).is_some_and(|(of, ..)| of == Service::Blob);
            if is_container {
                decode_note(value).map(drop)
            } else {
                Err(corrupt("a note on events of no container", key))
            }
        }
        (key::HANDLE, b"handles") if key.len() == 8 => KeptHandle::decode(value).map(drop),
        (account::PROPERTIES, [letter])
            if key.is_empty() && Service::ALL.iter().any(|of| of.letter() as u8 == *letter) =>
        {
            ServiceProperties::decode(value).map(drop)
        }
        _ => Err(corrupt("something that an account keeps", key)),
    }
}

/// One record of what all accounts have in common.
fn read_of_system(family: Family, row: &Row) -> Result<(), Fault> {
    let (partition, key, value) = (row.partition.as_ref(), &row.key, &row.record.value);
    match (family, partition) {
        (system::CEILING, b"ticks") if key.is_empty() && value.len() == 8 => Ok(()),
        (system::SECRET, b"peers") if key.is_empty() => Ok(()),
        (system::ACCOUNT, b"accounts") => {
            let name = std::str::from_utf8(key).ok().and_then(AccountName::parse);
            name.ok_or_else(|| corrupt("the name of an account", key))?;
            StoredAccount::decode(value).map(drop)
        }
        _ => Err(corrupt("something that all accounts have in common", key)),
    }
}

impl Audit<'_> {
    pub(super) fn system(&mut self, group: &GroupId) -> Result<(), Fault> {
        self.rows(group, key::GroupKind::System.families(), read_of_system)
    }

    pub(super) fn account(&mut self, group: &GroupId) -> Result<(), Fault> {
        self.rows(group, key::GroupKind::Account.families(), read_of_account)
    }

    fn rows(
        &mut self,
        group: &GroupId,
        families: &[Family],
        read: impl Fn(Family, &Row) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        for family in families {
            let mut rows = Cursor::new(self.records, group, *family);
            while let Some(row) = rows.next()? {
                if let Err(fault) = read(*family, &row) {
                    self.tell(group, Some(&row.partition), fault.to_string());
                }
            }
        }
        Ok(())
    }

    pub(super) fn directory(&mut self, group: &GroupId) -> Result<(), Fault> {
        let Some((service, account)) = names::parse_directory(group) else { return Ok(()) };
        self.rows(group, key::GroupKind::Directory.families(), |family, row| read_row(service, family, row))?;
        let mut heads = Cursor::new(self.records, group, directory::HEAD);
        while let Some(row) = heads.next()? {
            if !is_name(service, &row.partition) {
                self.tell(group, Some(&row.partition), "this is no name".to_owned());
            }
            let words = match service {
                Service::Table => table_name(&row.partition, &row.record),
                Service::File => self.snapshots(group, &account, &row)?,
                Service::Blob | Service::Queue => None,
            };
            self.tell_all(group, Some(&row.partition), words);
        }
        Ok(())
    }

    /// A share counts its snapshots, and its tree keeps what they see.
    fn snapshots(&mut self, group: &GroupId, account: &AccountName, row: &Row) -> Result<Option<String>, Fault> {
        let Ok(head) = ShareHead::decode(&row.record.value) else { return Ok(None) };
        let state = self.share_state(account, head.incarnation)?;
        let mut snapshots = Cursor::new(self.records, group, directory::SNAPSHOT).from(row.partition.clone(), b"");
        let mut count = 0;
        while let Some(found) = snapshots.next_of(&row.partition)? {
            let Ok(snapshot) = ShareSnapshot::decode(&found.record.value) else { continue };
            if snapshot.head.incarnation != head.incarnation {
                continue;
            }
            count += 1;
            if let Some(words) = state.as_ref().and_then(|state| rules::snapshot(state, &snapshot)) {
                self.tell(group, Some(&row.partition), words);
            }
        }
        Ok((count != head.snapshots).then(|| format!("it says {} snapshots, and has {count}", head.snapshots)))
    }

    pub(super) fn share_state(&self, account: &AccountName, incarnation: Id) -> Result<Option<ShareState>, Fault> {
        let partition: PartitionId = key::tree_partition(&key::contents_group(Service::File, account, incarnation));
        let record = self.records.get(&partition, key::share::STATE, b"")?;
        Ok(record.and_then(|record| ShareState::decode(&record.value).ok()))
    }
}

fn table_name(partition: &Bytes, record: &Record) -> Option<String> {
    let head = TableHead::decode(&record.value).ok()?;
    let is_own = head.name.to_ascii_lowercase().as_bytes() == partition;
    (!is_own).then(|| format!("it says that its name is {}", head.name))
}
