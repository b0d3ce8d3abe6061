//! What must hold of stored records, looked at from outside: no command runs, nothing is written, and what is wrong is said in words.
//!
//! 1. Every record can be read, and its key and its value say the same.
//! 2. What one record says of others is true of them: bodies have the bytes that heads say, indexes have what they index, counts are exact.
//! 3. Memory is bounded: records come in the order of their keys, a page at a time, a group's families beside each other; whatever must be
//!    found elsewhere is looked up.
//!
//! Rules are functions of records alone (`rules`); the rest brings them what they need, a file for each kind of group.

mod container;
mod cursor;
mod directory;
mod names;
mod queue;
mod rules;
mod share;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;

use bytes::Bytes;
use engine::{Family, Fault, GroupId, GroupRange, Page, PartitionId, Record};

use crate::key::{self, GroupKind};

/// Where records are read. They do not change meanwhile.
pub trait Records {
    fn scan(&self, range: &GroupRange, limit: usize) -> Result<Page, Fault>;
    fn get(&self, partition: &PartitionId, family: Family, key: &[u8]) -> Result<Option<Record>, Fault>;
    /// The first group after this one that has records and was not deleted.
    fn next_group(&self, after: Option<&GroupId>) -> Result<Option<GroupId>, Fault>;
}

/// What was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counted {
    pub containers: u64,
    pub blobs: u64,
    pub queues: u64,
    pub messages: u64,
    pub tables: u64,
    pub entities: u64,
    pub shares: u64,
    pub files: u64,
}

impl Counted {
    /// A measure of how far it has come.
    pub fn steps(&self) -> u64 {
        self.blobs + self.messages + self.entities + self.files
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counted { containers, blobs, queues, messages, tables, entities, shares, files } = self;
        write!(f, "{blobs} blobs in {containers} containers, {messages} messages in {queues} queues, ")?;
        write!(f, "{entities} entities in {tables} tables, {files} files and directories in {shares} shares")
    }
}

/// Who hears what is found.
pub trait Listener {
    fn finding(&mut self, words: String);
    fn progress(&mut self, counted: &Counted);
}

/// One look through everything.
pub struct Audit<'a> {
    records: &'a dyn Records,
    to: &'a mut dyn Listener,
    counted: Counted,
}

/// Looks through all records.
pub fn run(records: &dyn Records, to: &mut dyn Listener) -> Result<Counted, Fault> {
    let mut audit = Audit { records, to, counted: Counted::default() };
    let (mut group, mut unnamed) = (records.next_group(None)?, names::Unnamed::default());
    while let Some(id) = group {
        match audit.group(&id) {
            Ok(()) => unnamed.note(&id, &mut audit)?,
            // Whoever reads records told what is wrong with them; the rest of the group is not looked at.
            Err(Fault::Corrupt { what }) => audit.tell(&id, None, format!("{what}; the rest of it was not looked at")),
            Err(other) => return Err(other),
        }
        audit.to.progress(&audit.counted);
        group = records.next_group(Some(&id))?;
    }
    unnamed.settle(&mut audit)?;
    Ok(audit.counted)
}

impl Audit<'_> {
    fn group(&mut self, group: &GroupId) -> Result<(), Fault> {
        let kind = key::kind(group).filter(|kind| names::is_whole(*kind, group));
        match kind {
            Some(GroupKind::System) => self.system(group),
            Some(GroupKind::Account) => self.account(group),
            Some(GroupKind::Directory) => self.directory(group),
            Some(GroupKind::Container) => self.container(group),
            Some(GroupKind::Queue) => self.queue(group),
            Some(GroupKind::Table) => self.table(group),
            Some(GroupKind::Share) => self.share(group),
            None => {
                self.tell(group, None, "nobody knows what these records are of".to_owned());
                Ok(())
            }
        }
    }

    /// Says of a group, or of one partition in it, what is wrong.
    fn tell(&mut self, group: &GroupId, partition: Option<&Bytes>, words: String) {
        let place = names::describe(self.records, group, partition);
        self.to.finding(format!("{place}: {words}"));
    }

    fn tell_all(&mut self, group: &GroupId, partition: Option<&Bytes>, words: impl IntoIterator<Item = String>) {
        words.into_iter().for_each(|words| self.tell(group, partition, words));
    }
}

/// Why a group cannot have records of this family. Those that it can have are looked at by their kind.
pub fn family(group: &GroupId, family: Family) -> Option<String> {
    let kind = key::kind(group)?;
    (!kind.families().contains(&family)).then(|| format!("nobody knows what records of family {} are", family.0))
}

/// Says where a record is in the words of its service: the account, the container, the blob.
pub fn describe(records: &dyn Records, partition: &PartitionId) -> String {
    names::describe(records, &partition.group, Some(&partition.key))
}
