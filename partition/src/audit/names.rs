//! Which account, which container, which blob: groups in the words of their services, and groups that no name stands for.

use std::collections::BTreeSet;

use bytes::Bytes;
use contract::Service;
use contract::names::AccountName;
use engine::{Fault, GroupId};
use env::Id;

use super::cursor::Cursor;
use super::{Audit, Records};
use crate::directory::incarnation;
use crate::key::{self, GroupKind, directory};

/// The service, account and incarnation of what a named thing holds.
pub fn parse_contents(group: &GroupId) -> Option<(Service, AccountName, Id)> {
    let (letter, rest) = group.0.split_first()?;
    let service = Service::ALL.into_iter().find(|service| service.letter() as u8 == *letter)?;
    let (account, incarnation) = rest.split_at_checked(rest.len().checked_sub(17)?)?;
    let (0, incarnation) = incarnation.split_first()? else { return None };
    let account = AccountName::parse(std::str::from_utf8(account).ok()?)?;
    Some((service, account, Id(u128::from_be_bytes(incarnation.try_into().ok()?))))
}

/// The service and account of a directory.
pub fn parse_directory(group: &GroupId) -> Option<(Service, AccountName)> {
    let [b'd', letter, account @ ..] = group.0.as_ref() else { return None };
    let service = Service::ALL.into_iter().find(|service| service.letter() as u8 == *letter)?;
    Some((service, AccountName::parse(std::str::from_utf8(account).ok()?)?))
}

/// Whether the id of a group of this kind has all of its parts.
pub fn is_whole(kind: GroupKind, group: &GroupId) -> bool {
    match kind {
        GroupKind::System => group.0.len() == 1,
        GroupKind::Account => std::str::from_utf8(&group.0[1..]).is_ok_and(|name| AccountName::parse(name).is_some()),
        GroupKind::Directory => parse_directory(group).is_some(),
        GroupKind::Container | GroupKind::Queue | GroupKind::Table | GroupKind::Share => {
            parse_contents(group).is_some()
        }
    }
}

fn nouns(service: Service) -> (&'static str, &'static str) {
    match service {
        Service::Blob => ("container", "blob"),
        Service::Queue => ("queue", ""),
        Service::Table => ("table", "PartitionKey"),
        Service::File => ("share", ""),
    }
}

/// In words. Damage is rare, so names are looked for when there is some.
pub fn describe(records: &dyn Records, group: &GroupId, partition: Option<&Bytes>) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if let Some((service, account, incarnation)) = parse_contents(group) {
        let (noun, inside) = nouns(service);
        let name =
            name_of(records, service, &account, incarnation).unwrap_or_else(|| format!("of incarnation {incarnation}"));
        let place = format!("account {}, {noun} {name}", account.as_str());
        return match partition.filter(|_| !inside.is_empty()) {
            Some(partition) => format!("{place}, {inside} '{}'", text(partition)),
            None => place,
        };
    }
    if let Some((service, account)) = parse_directory(group) {
        let (noun, _) = nouns(service);
        return match partition {
            Some(name) => format!("account {}, {noun} {}", account.as_str(), text(name)),
            None => format!("account {}, list of {noun}s", account.as_str()),
        };
    }
    let partition = partition.map(|partition| format!(", {}", text(partition))).unwrap_or_default();
    match group.0.split_first() {
        Some((b'a', account)) => format!("account {}{partition}", text(account)),
        Some((b's', [])) => format!("what all accounts have in common{partition}"),
        _ => format!("group {group:?}{partition}"),
    }
}

fn name_of(records: &dyn Records, service: Service, account: &AccountName, wanted: Id) -> Option<String> {
    let group = key::directory_group(service, account);
    for family in [directory::HEAD, directory::KEPT] {
        let mut heads = Cursor::new(records, &group, family);
        // What cannot be read is told of where the directory is looked at.
        while let Ok(Some(row)) = heads.next() {
            if incarnation(service, family, &row.record.value).is_ok_and(|found| found == wanted) {
                return Some(String::from_utf8_lossy(&row.partition).into_owned());
            }
        }
    }
    None
}

/// Groups whose name is still to be found. So many at once: each time the directory is read once.
const AT_ONCE: usize = 200_000;

/// Groups of one account and service that hold something.
#[derive(Default)]
pub struct Unnamed {
    of: Option<(Service, AccountName)>,
    incarnations: BTreeSet<Id>,
}

impl Unnamed {
    /// Groups come in the order of their ids, so those of one account and service come together.
    pub fn note(&mut self, group: &GroupId, audit: &mut Audit<'_>) -> Result<(), Fault> {
        let Some((service, account, incarnation)) = parse_contents(group) else { return Ok(()) };
        let of = Some((service, account));
        if self.of != of || self.incarnations.len() >= AT_ONCE {
            self.settle(audit)?;
            self.of = of;
        }
        self.incarnations.insert(incarnation);
        Ok(())
    }

    /// A head, one that is kept, or a tombstone stands for every group.
    pub fn settle(&mut self, audit: &mut Audit<'_>) -> Result<(), Fault> {
        let mut left = std::mem::take(&mut self.incarnations);
        let Some((service, account)) = self.of.take() else { return Ok(()) };
        let group = key::directory_group(service, &account);
        for family in [directory::HEAD, directory::KEPT, directory::TOMBSTONE] {
            let mut rows = Cursor::new(audit.records, &group, family);
            while let Some(row) = rows.next()? {
                let found = match family {
                    directory::TOMBSTONE => row.key.as_ref().try_into().ok().map(|id| Id(u128::from_be_bytes(id))),
                    _ => incarnation(service, family, &row.record.value).ok(),
                };
                if let Some(found) = found {
                    left.remove(&found);
                }
            }
        }
        for incarnation in left {
            let group = key::contents_group(service, &account, incarnation);
            audit.tell(&group, None, "it holds records, and no name stands for it".to_owned());
        }
        Ok(())
    }
}
