//! Containers that were deleted and are kept for a while: deleted, listed, restored, and at last let go.
//!
//! A kept container is its head, moved to another family of the same partition in the commit that frees the name. It still names its
//! group, which is fenced only when the kept head is gone (`directory.rs`). Restoring moves the head back: the same incarnation, the same
//! group. What becomes of writes that were under way when it was deleted: docs/decisions/0012-kept-containers.md.

use bytes::Bytes;
use contract::names::{AccountName, ContainerName};
use contract::{ErrorCode, Refusal, Service};
use engine::{BoxFuture, Family, Fault, GroupRange, PartitionId, ScanStart, Write};
use env::{Id, Timestamp};

use crate::checks::Expectation;
use crate::directory::{finish_deletion, load, put, take_away, tombstone};
use crate::execute::{Command, Failure, Moment, Reader, Shell};
use crate::housekeeping::Chore;
use crate::key::{self, directory};
use crate::list::Listing;
use crate::record::{ContainerHead, KeptContainer, corrupt};

const DAY_SECONDS: u64 = 24 * 3600;

/// Names one deletion of a container: the tick of that deletion, so no two have the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct KeptVersion(pub u64);

impl KeptVersion {
    fn key(self) -> Bytes {
        Bytes::copy_from_slice(&self.0.to_be_bytes())
    }

    fn of_key(key: &[u8]) -> Result<KeptVersion, Fault> {
        let bytes = key.try_into().map_err(|_| corrupt("the key of a container that is kept", key))?;
        Ok(KeptVersion(u64::from_be_bytes(bytes)))
    }
}

fn partition(account: &AccountName, name: &ContainerName) -> PartitionId {
    key::named_partition(Service::Blob, account, name.as_str())
}

/// Delete Container where deleted ones are kept.
pub struct KeepContainer {
    partition: PartitionId,
    expectation: Expectation,
    days: u16,
}

impl KeepContainer {
    pub fn new(account: &AccountName, name: &ContainerName, expectation: Expectation, days: u16) -> Self {
        KeepContainer { partition: partition(account, name), expectation, days }
    }
}

impl Command for KeepContainer {
    type Records = Option<ContainerHead>;
    type Outcome = ();

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        load(reader).await
    }

    fn check(&self, head: &Self::Records, now: Timestamp) -> Result<(), Refusal> {
        self.expectation.judge(head.as_ref().map(ContainerHead::current), now)
    }

    fn decide(&self, head: Self::Records, moment: Moment) -> Result<(Vec<Write>, ()), Refusal> {
        self.check(&head, moment.now)?;
        let head = head.ok_or(ErrorCode::ContainerNotFound)?;
        let expires = moment.now.plus_seconds(u64::from(self.days) * DAY_SECONDS);
        let value = KeptContainer { head, deleted: moment.now, expires }.encode();
        let (family, key) = (directory::KEPT, KeptVersion(moment.tick).key());
        Ok((vec![take_away(), Write::Put { family, key, value, slices: Vec::new() }], ()))
    }
}

/// Restore Container.
pub struct RestoreContainer {
    partition: PartitionId,
    version: KeptVersion,
}

impl RestoreContainer {
    pub fn new(account: &AccountName, name: &ContainerName, version: KeptVersion) -> Self {
        RestoreContainer { partition: partition(account, name), version }
    }
}

impl Command for RestoreContainer {
    type Records = (Option<ContainerHead>, Option<KeptContainer>);
    type Outcome = ContainerHead;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        Ok((load(reader).await?, load_kept(reader, self.version).await?))
    }

    fn check(&self, (head, kept): &Self::Records, now: Timestamp) -> Result<(), Refusal> {
        if head.is_some() {
            return Err(ErrorCode::ContainerAlreadyExists.into());
        }
        match kept {
            Some(kept) if !kept.is_expired(now) => Ok(()),
            _ => Err(Refusal::from(ErrorCode::ContainerNotFound).status(409)),
        }
    }

    fn decide(&self, records: Self::Records, moment: Moment) -> Result<(Vec<Write>, ContainerHead), Refusal> {
        self.check(&records, moment.now)?;
        let mut head = records.1.ok_or(ErrorCode::ContainerNotFound)?.head;
        head.lease = None;
        Ok((vec![put(&head), Write::Delete { family: directory::KEPT, key: self.version.key() }], head))
    }
}

async fn load_kept(reader: &Reader<'_>, version: KeptVersion) -> Result<Option<KeptContainer>, Fault> {
    let record = reader.get(directory::KEPT, &version.key()).await?;
    record.map(|record| KeptContainer::decode(&record.value)).transpose()
}

/// Lets go of a kept container whose time is over; nothing if it was restored meanwhile.
struct ExpireContainer {
    partition: PartitionId,
    version: KeptVersion,
}

impl Command for ExpireContainer {
    type Records = Option<KeptContainer>;
    type Outcome = Option<Id>;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        load_kept(reader, self.version).await
    }

    fn check(&self, _kept: &Self::Records, _now: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, kept: Self::Records, moment: Moment) -> Result<(Vec<Write>, Option<Id>), Refusal> {
        let Some(kept) = kept.filter(|kept| kept.is_expired(moment.now)) else { return Ok((Vec::new(), None)) };
        let incarnation = kept.head.incarnation;
        let gone = Write::Delete { family: directory::KEPT, key: self.version.key() };
        Ok((vec![gone, tombstone(incarnation)], Some(incarnation)))
    }
}

/// Kept containers whose time is over: their groups are fenced, and the engine sweeps them.
pub(crate) struct KeptContainers;

impl Chore for KeptContainers {
    fn family(&self) -> Family {
        directory::KEPT
    }

    fn is_due(&self, _key: &[u8], value: &[u8], now: Timestamp) -> Result<bool, Fault> {
        Ok(KeptContainer::decode(value)?.is_expired(now))
    }

    fn clear<'a>(
        &'a self,
        shell: &'a Shell,
        account: &'a AccountName,
        partition: &'a PartitionId,
        key: &'a Bytes,
    ) -> BoxFuture<'a, Result<bool, Failure>> {
        Box::pin(async move {
            let command = ExpireContainer { partition: partition.clone(), version: KeptVersion::of_key(key)? };
            if let Some(incarnation) = shell.execute(&command).await? {
                finish_deletion(shell, Service::Blob, account, command.partition, incarnation).await?;
            }
            Ok(false)
        })
    }
}

/// A container that is kept, as listings show it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    pub name: String,
    pub version: KeptVersion,
    pub container: KeptContainer,
}

/// Rows asked of the engine at once.
const ROWS_AT_ONCE: usize = 1000;

/// Kept containers in the order of their names and deletions, from `after` on; one more than the listing shows, if there is one.
pub(super) async fn list(
    shell: &Shell,
    account: &AccountName,
    listing: &Listing,
    after: KeptVersion,
) -> Result<Vec<Kept>, Fault> {
    let first = listing.start.as_str().max(listing.prefix.as_str());
    let mut start = ScanStart::AtPartition(Bytes::copy_from_slice(first.as_bytes()));
    let (now, mut found) = (shell.clock.now(), Vec::new());
    loop {
        let range = GroupRange {
            group: key::directory_group(Service::Blob, account),
            family: directory::KEPT,
            start,
            before_partition: key::after_prefix(listing.prefix.as_bytes()),
        };
        let page = shell.engine.scan(&range, ROWS_AT_ONCE).await?;
        let last = page.rows.last().map(|row| (row.partition.clone(), row.key.clone()));
        for row in page.rows {
            let name = String::from_utf8(row.partition.to_vec()).map_err(|_| corrupt("a name", &row.partition))?;
            let (version, container) = (KeptVersion::of_key(&row.key)?, KeptContainer::decode(&row.record.value)?);
            let is_before = name == listing.start && version < after;
            if !is_before && !container.is_expired(now) {
                found.push(Kept { name, version, container });
            }
            if found.len() > listing.results_max {
                return Ok(found);
            }
        }
        match last {
            Some((partition, key)) if page.more => start = ScanStart::After { partition, key },
            _ => return Ok(found),
        }
    }
}
