//! The whole key schema on one screen: which groups there are, what a partition of each is, and the families in it.
//!
//! | group     | id                                | partition      | families                              |
//! |-----------|-----------------------------------|----------------|---------------------------------------|
//! | system    | `s`                               | `ticks`        | CEILING                               |
//! |           |                                   | `accounts`     | ACCOUNT                               |
//! |           |                                   | `peers`        | SECRET                                |
//! | account   | `a` account                       | service letter | PROPERTIES                            |
//! |           |                                   | `copies`       | PENDING_COPIES                        |
//! |           |                                   | `events`       | EVENTS, EVENTFUL                      |
//! | directory | `d` service account               | name           | HEAD, TOMBSTONE, KEPT, SNAPSHOT       |
//! | container | `b` account 0x00 incarnation (16) | blob name      | HEAD, BODY, BLOCKS, STAGED, PAST, ... |
//! | queue     | `q` account 0x00 incarnation (16) | empty          | VISIBLE, POINTER, TEXT, EXPIRY, STATE |
//! | table     | `t` account 0x00 incarnation (16) | PartitionKey   | ENTITY                                |
//! | share     | `f` account 0x00 incarnation (16) | empty          | ENTRY, NODE, RUN, PAST_..., STATE     |
//!
//! A service is its letter: `b`, `q`, `t`, `f`. What a named thing holds is in a group that begins with that letter. The account is part
//! of every group id, so one account's keys cannot reach another's. Names are UTF-8 and sort by bytes, which is the order of code points
//! that the listings promise.

use std::ops::Bound;

use bytes::{BufMut, Bytes, BytesMut};
use contract::Service;
use contract::names::{AccountName, BlobName};
use engine::{Family, GroupId, KeyRange, PartitionId};
use env::Id;

/// Families of the system group.
pub mod system {
    use engine::Family;
    /// Partition `ticks`: the number no ETag has reached yet.
    pub const CEILING: Family = Family(1);
    /// Partition `accounts`: one record per account, where they are kept in the engine; the key is its name.
    pub const ACCOUNT: Family = Family(2);
    /// Partition `peers`: by what gateways know each other, key empty.
    pub const SECRET: Family = Family(3);
}

/// Families of an account.
pub mod account {
    use engine::Family;
    /// The settings of a service, key empty.
    pub const PROPERTIES: Family = Family(1);
    /// One record per copy from outside that is under way; the key is its id.
    pub const PENDING_COPIES: Family = Family(2);
    /// One record per event that is to be delivered and whose container is gone; 8 bytes of its sequence, 16 of its id, the subscription.
    pub const EVENTS: Family = Family(3);
    /// One record per container that may hold events; the key is the id of its group, the value when that was said.
    pub const EVENTFUL: Family = Family(4);
}

/// Families of an account's directory of one service.
pub mod directory {
    use engine::Family;
    /// One record per container, queue, table or share, key empty.
    pub const HEAD: Family = Family(1);
    /// One record per deleted incarnation whose group may not be fenced yet; the key is the incarnation.
    pub const TOMBSTONE: Family = Family(2);
    /// One record per container or share that was deleted and is kept for a while; the key is the tick of its deletion.
    pub const KEPT: Family = Family(3);
    /// One record per snapshot of a share; the share's incarnation, then 8 bytes of when it was taken.
    pub const SNAPSHOT: Family = Family(4);
}

/// Families of a container.
pub mod container {
    use engine::Family;
    /// One record per blob, key empty: all but the content. Listings walk these alone.
    pub const HEAD: Family = Family(1);
    /// The content of a blob that is not empty: its bytes, or the slices that hold them. Key empty, or the offset of a run's last byte.
    pub const BODY: Family = Family(2);
    /// The committed blocks of a blob that was made of blocks, key empty.
    pub const BLOCKS: Family = Family(3);
    /// One record per staged block; the key is its id.
    pub const STAGED: Family = Family(4);
    /// When blocks were staged last, and how many; key empty.
    pub const STAGING: Family = Family(5);
    /// One record per snapshot, earlier version and deleted state that is kept; 8 bytes of its id, then `s` or `v`.
    pub const PAST: Family = Family(6);
    /// Their content: as BODY, with the key in PAST before each key.
    pub const PAST_BODY: Family = Family(7);
    /// Their committed blocks; the key is the one in PAST.
    pub const PAST_BLOCKS: Family = Family(8);
    /// One record per blob that has or had something in PAST, key empty. Listings that show the past find it here.
    pub const HAS_PAST: Family = Family(9);
    /// One record per blob that has tags now, key empty: its tags. Searches walk these alone.
    pub const TAGGED: Family = Family(20);
    /// One record per blob that is to be gone one day, key empty: when. Housekeeping walks these alone.
    pub const EXPIRING: Family = Family(21);
    /// One record per event of the blob and subscription that it is to be delivered to; 8 bytes of its sequence, then the subscription.
    /// The blob may be gone.
    pub const EVENT: Family = Family(22);
}

/// Families of a queue, which is one partition.
pub mod queue {
    use engine::Family;
    /// One record per message, in the order they become visible: 8 bytes of the time, 8 of the message's number in its queue.
    pub const VISIBLE: Family = Family(1);
    /// Where in VISIBLE a message is; the key is its id.
    pub const POINTER: Family = Family(2);
    /// A message's text as it is, no shape before it; the key is its id. Apart, so that receiving does not rewrite it.
    pub const TEXT: Family = Family(3);
    /// One empty record per message that expires; 8 bytes of the time, then its id.
    pub const EXPIRY: Family = Family(4);
    /// How many messages there are and where to look for them; key empty.
    pub const STATE: Family = Family(5);
}

/// Families of a table.
pub mod table {
    use engine::Family;
    /// One record per entity; the key is its RowKey.
    pub const ENTITY: Family = Family(1);
}

/// Families of a share, whose tree is one partition. What the first three hold begins with the generation it was written in, and goes on
/// in the PAST family of the same kind for as long as a snapshot sees it: `file/versions.rs`.
pub mod share {
    use engine::Family;
    /// One record per name in a directory; 8 bytes of the directory's id, then the name in upper case.
    pub const ENTRY: Family = Family(1);
    /// One record per file and directory; the key is its id. The root has one once it was changed.
    pub const NODE: Family = Family(2);
    /// The content of files in runs; 8 bytes of the content's id, 8 of the offset of the run's last byte.
    pub const RUN: Family = Family(3);
    /// What these were; the same keys, then a zero and the last generation that sees it.
    pub const PAST_ENTRY: Family = Family(4);
    pub const PAST_NODE: Family = Family(5);
    pub const PAST_RUN: Family = Family(6);
    /// The generation, the snapshots and the size of the whole; key empty.
    pub const STATE: Family = Family(7);
    /// One record per content that no file has any more and whose runs are still there; the key is the content's id.
    pub const ORPHAN: Family = Family(8);
    /// One record per security descriptor; 16 bytes of its key.
    pub const PERMISSION: Family = Family(9);
    /// One record per content that is being copied together and that no file has yet; the key is the content's id.
    pub const STAGED: Family = Family(10);
    /// Which file a copy from outside is made to; the key is the copy's id.
    pub const COPYING: Family = Family(11);
}

/// What a group is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupKind {
    System,
    Account,
    Directory,
    Container,
    Queue,
    Table,
    Share,
}

impl GroupKind {
    /// Every family that a group of this kind may have records in.
    pub fn families(self) -> &'static [Family] {
        match self {
            GroupKind::System => &[system::CEILING, system::ACCOUNT, system::SECRET],
            // What is noted of handles has the number of PROPERTIES, in a partition of its own.
            GroupKind::Account => &[account::PROPERTIES, account::PENDING_COPIES, account::EVENTS, account::EVENTFUL],
            GroupKind::Directory => &[directory::HEAD, directory::TOMBSTONE, directory::KEPT, directory::SNAPSHOT],
            GroupKind::Container => &[
                container::HEAD,
                container::BODY,
                container::BLOCKS,
                container::STAGED,
                container::STAGING,
                container::PAST,
                container::PAST_BODY,
                container::PAST_BLOCKS,
                container::HAS_PAST,
                container::TAGGED,
                container::EXPIRING,
                container::EVENT,
            ],
            GroupKind::Queue => &[queue::VISIBLE, queue::POINTER, queue::TEXT, queue::EXPIRY, queue::STATE],
            GroupKind::Table => &[table::ENTITY],
            GroupKind::Share => &[
                share::ENTRY,
                share::NODE,
                share::RUN,
                share::PAST_ENTRY,
                share::PAST_NODE,
                share::PAST_RUN,
                share::STATE,
                share::ORPHAN,
                share::PERMISSION,
                share::STAGED,
                share::COPYING,
            ],
        }
    }
}

/// By the first letter of its id.
pub fn kind(group: &GroupId) -> Option<GroupKind> {
    match group.0.first()? {
        b's' => Some(GroupKind::System),
        b'a' => Some(GroupKind::Account),
        b'd' => Some(GroupKind::Directory),
        letter => match Service::ALL.into_iter().find(|service| service.letter() as u8 == *letter)? {
            Service::Blob => Some(GroupKind::Container),
            Service::Queue => Some(GroupKind::Queue),
            Service::Table => Some(GroupKind::Table),
            Service::File => Some(GroupKind::Share),
        },
    }
}

pub fn system_group() -> GroupId {
    GroupId(Bytes::from_static(b"s"))
}

/// What the gateways of one cluster have in common.
pub fn peers_partition() -> PartitionId {
    PartitionId { group: system_group(), key: Bytes::from_static(b"peers") }
}

/// Where accounts are kept, if the engine keeps them.
pub fn accounts_partition() -> PartitionId {
    PartitionId { group: system_group(), key: Bytes::from_static(b"accounts") }
}

/// What is kept of an account as a whole.
pub fn account_group(account: &AccountName) -> GroupId {
    let mut id = BytesMut::with_capacity(1 + account.as_str().len());
    id.put_u8(b'a');
    id.put_slice(account.as_str().as_bytes());
    GroupId(id.freeze())
}

/// What an account keeps of one of its services as a whole.
pub fn service_partition(account: &AccountName, service: Service) -> PartitionId {
    PartitionId { group: account_group(account), key: Bytes::from(service.letter().to_string()) }
}

/// Where an account notes the handles that its clients may come back to after a restart.
pub fn handles_partition(account: &AccountName) -> PartitionId {
    PartitionId { key: Bytes::from_static(b"handles"), ..service_partition(account, Service::File) }
}

/// One record per such handle; 8 bytes of its id.
pub const HANDLE: Family = Family(1);

/// Where an account notes its copies from outside.
pub fn copies_partition(account: &AccountName) -> PartitionId {
    PartitionId { key: Bytes::from_static(b"copies"), ..service_partition(account, Service::Blob) }
}

/// Where an account keeps the events of containers that are gone, and notes which ones may hold some.
pub fn events_partition(account: &AccountName) -> PartitionId {
    PartitionId { key: Bytes::from_static(b"events"), ..service_partition(account, Service::Blob) }
}

/// The group in which an account's containers, queues, tables or shares are listed.
pub fn directory_group(service: Service, account: &AccountName) -> GroupId {
    let mut id = BytesMut::with_capacity(2 + account.as_str().len());
    id.put_u8(b'd');
    id.put_u8(service.letter() as u8);
    id.put_slice(account.as_str().as_bytes());
    GroupId(id.freeze())
}

/// Where the head of a container, queue, table or share is.
pub fn named_partition(service: Service, account: &AccountName, name: &str) -> PartitionId {
    PartitionId { group: directory_group(service, account), key: Bytes::copy_from_slice(name.as_bytes()) }
}

/// The group of what one incarnation holds. A container created again is another group.
pub fn contents_group(service: Service, account: &AccountName, incarnation: Id) -> GroupId {
    let mut id = BytesMut::with_capacity(2 + account.as_str().len() + 16);
    id.put_u8(service.letter() as u8);
    id.put_slice(account.as_str().as_bytes());
    id.put_u8(0);
    id.put_u128(incarnation.0);
    GroupId(id.freeze())
}

/// Is it the group of something that an account has in a service?
pub fn is_of_account(group: &GroupId, service: Service, account: &AccountName) -> bool {
    let rest = group.0.strip_prefix(&[service.letter() as u8]);
    let rest = rest.and_then(|rest| rest.strip_prefix(account.as_str().as_bytes()));
    rest.is_some_and(|rest| rest.len() == 17 && rest[0] == 0)
}

pub fn blob_partition(container: &GroupId, blob: &BlobName) -> PartitionId {
    PartitionId { group: container.clone(), key: Bytes::copy_from_slice(blob.as_str().as_bytes()) }
}

/// A queue's messages: commands on them take turns and share commits.
pub fn queue_partition(queue: &GroupId) -> PartitionId {
    PartitionId { group: queue.clone(), key: Bytes::new() }
}

/// A share's tree: a rename, a deletion and a snapshot are one commit each, and no reader sees half of one.
pub fn tree_partition(share: &GroupId) -> PartitionId {
    PartitionId { group: share.clone(), key: Bytes::new() }
}

pub fn entity_partition(table: &GroupId, partition_key: &str) -> PartitionId {
    PartitionId { group: table.clone(), key: Bytes::copy_from_slice(partition_key.as_bytes()) }
}

/// Every key that begins with `prefix`.
pub fn beginning_with(prefix: &[u8]) -> KeyRange {
    let end = after_prefix(prefix).map_or(Bound::Unbounded, Bound::Excluded);
    KeyRange { start: Bound::Included(Bytes::copy_from_slice(prefix)), end }
}

/// The first key after every key that begins with `prefix`; `None` if there is none.
pub fn after_prefix(prefix: &[u8]) -> Option<Bytes> {
    let last = prefix.iter().rposition(|byte| *byte != 0xFF)?;
    let mut after = prefix[..=last].to_vec();
    after[last] += 1;
    Some(after.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_prefix_is_the_next_key() {
        assert_eq!(after_prefix(b"a/").as_deref(), Some(b"a0".as_slice()));
        assert_eq!(after_prefix(&[1, 0xFF]).as_deref(), Some([2].as_slice()));
        assert_eq!(after_prefix(&[0xFF, 0xFF]), None);
        assert_eq!(after_prefix(b""), None);
    }

    #[test]
    fn groups_tell_what_they_are_of() {
        let account = AccountName::parse("abc").expect("right");
        assert_eq!(kind(&system_group()), Some(GroupKind::System));
        assert_eq!(kind(&account_group(&account)), Some(GroupKind::Account));
        for (service, expected) in [
            (Service::Blob, GroupKind::Container),
            (Service::Queue, GroupKind::Queue),
            (Service::Table, GroupKind::Table),
            (Service::File, GroupKind::Share),
        ] {
            assert_eq!(kind(&directory_group(service, &account)), Some(GroupKind::Directory));
            assert_eq!(kind(&contents_group(service, &account, Id(1))), Some(expected));
        }
    }

    /// Whoever copies a group copies all of it.
    #[test]
    fn every_family_is_listed() {
        use GroupKind::{Account, Container, Directory, Queue, Share, System, Table};
        let kinds = [System, Account, Directory, Container, Queue, Table, Share];
        let listed: usize = kinds.iter().map(|kind| kind.families().len()).sum();
        let named = include_str!("key.rs").matches(concat!(": Family = ", "Family(")).count();
        assert_eq!(listed + 1, named, "all but HANDLE, which is PROPERTIES by number");
        assert_eq!(HANDLE, account::PROPERTIES);
    }

    #[test]
    fn groups_of_accounts_never_meet() {
        let (a, ab) = (AccountName::parse("abc").expect("right"), AccountName::parse("abcd").expect("right"));
        let mut groups = std::collections::HashSet::from([system_group()]);
        for service in Service::ALL {
            for account in [&a, &ab] {
                assert!(groups.insert(directory_group(service, account)));
                assert!(groups.insert(contents_group(service, account, Id(u128::MAX))));
            }
        }
    }
}
