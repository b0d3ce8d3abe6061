//! What has a name in an account: containers, queues, tables and shares, each in its service's directory.
//!
//! The record of a named thing, its head, lies in its account's directory. What it holds lies in a group named by the head's
//! incarnation, so deleting it is one commit and a fence, whatever it holds: the name is free at once and the engine sweeps the old
//! group. A tombstone written in the same commit makes sure that the fence is put up even if the power goes between the two.
//! A container or share may also be kept for a while: then its head moves aside instead of going away (`kept.rs`).
//!
//! 1. A group is fenced only after no head names it, kept ones included.
//! 2. From the commit that took a head away, or gave it another incarnation, until the fence of its old group stands, a tombstone
//!    or a kept head names that group.

use std::marker::PhantomData;

use bytes::Bytes;
use contract::names::AccountName;
use contract::{ErrorCode, Refusal, Service};
use engine::{Engine, Family, Fault, GroupId, GroupRange, PartitionId, Row, ScanStart, Write};
use env::{Id, Timestamp};

use crate::events;
use crate::execute::{Blind, Command, Failure, Moment, Reader, Shell};
use crate::key::{self, directory};
use crate::list::{Listed, Listing, walk};
use crate::record::{ContainerHead, KeptHead, QueueHead, ShareHead, TableHead, corrupt};

/// The head of a named thing.
pub trait Named: Sized + Send + Sync {
    const SERVICE: Service;
    const NOT_FOUND: ErrorCode;

    /// Names the group of what it holds.
    fn incarnation(&self) -> Id;
    fn encode(&self) -> Bytes;
    fn decode(value: &[u8]) -> Result<Self, Fault>;
}

const HEAD_KEY: Bytes = Bytes::new();

pub async fn load<H: Named>(reader: &Reader<'_>) -> Result<Option<H>, Fault> {
    let record = reader.get(directory::HEAD, &HEAD_KEY).await?;
    record.map(|record| H::decode(&record.value)).transpose()
}

pub fn put<H: Named>(head: &H) -> Write {
    Write::Put { family: directory::HEAD, key: HEAD_KEY, value: head.encode(), slices: Vec::new() }
}

/// Frees the name.
pub fn take_away() -> Write {
    Write::Delete { family: directory::HEAD, key: HEAD_KEY }
}

/// A named thing as a request found it. Every operation on what it holds begins here.
pub struct Found<H> {
    partition: PartitionId,
    pub head: H,
    /// Where what it holds is.
    pub group: GroupId,
}

pub async fn find<H: Named>(shell: &Shell, account: &AccountName, name: &str) -> Result<Found<H>, Failure> {
    let partition = key::named_partition(H::SERVICE, account, name);
    let head: H = now(shell, &partition).await?.ok_or(H::NOT_FOUND)?;
    let group = key::contents_group(H::SERVICE, account, head.incarnation());
    Ok(Found { partition, head, group })
}

async fn now<H: Named>(shell: &Shell, partition: &PartitionId) -> Result<Option<H>, Fault> {
    let view = shell.engine.view(partition).await?;
    load(&Reader::committed(view.as_ref())).await
}

impl<H: Named> Found<H> {
    /// What was deleted after it was found looks empty, or half empty while it is swept. So whoever did not find something in it, or
    /// was refused because of what it did not find, looks whether it is still the one it found.
    pub async fn settle<T>(&self, shell: &Shell, result: Result<T, Failure>) -> Result<T, Failure> {
        match result {
            Err(Failure::Refused(refusal)) => {
                self.still_there(shell).await?;
                Err(Failure::Refused(refusal))
            }
            Err(Failure::Gone) => Err(H::NOT_FOUND.into()),
            other => other,
        }
    }

    /// The same for answers that are made of what was not found as much as of what was: listings.
    pub async fn still_there(&self, shell: &Shell) -> Result<(), Failure> {
        match now::<H>(shell, &self.partition).await? {
            Some(head) if head.incarnation() == self.head.incarnation() => Ok(()),
            _ => Err(H::NOT_FOUND.into()),
        }
    }
}

/// Every group that an account's names of a service stand for, those of deleted ones that are kept included.
pub async fn groups(engine: &dyn Engine, service: Service, account: &AccountName) -> Result<Vec<GroupId>, Fault> {
    let mut groups = Vec::new();
    for family in [directory::HEAD, directory::KEPT] {
        let mut start = ScanStart::AtPartition(Bytes::new());
        loop {
            let group = key::directory_group(service, account);
            let page = engine.scan(&GroupRange { group, family, start, before_partition: None }, 1000).await?;
            for row in &page.rows {
                let incarnation = incarnation(service, family, &row.record.value)?;
                groups.push(key::contents_group(service, account, incarnation));
            }
            match page.rows.last() {
                Some(Row { partition, key, .. }) if page.more => {
                    start = ScanStart::After { partition: partition.clone(), key: key.clone() };
                }
                _ => break,
            }
        }
    }
    Ok(groups)
}

pub(crate) fn incarnation(service: Service, family: Family, value: &[u8]) -> Result<Id, Fault> {
    fn of<H: Named>(is_kept: bool, value: &[u8]) -> Result<Id, Fault> {
        let head = if is_kept { KeptHead::decode(value)?.head } else { H::decode(value)? };
        Ok(head.incarnation())
    }
    let is_kept = family == directory::KEPT;
    match service {
        Service::Blob => of::<ContainerHead>(is_kept, value),
        Service::Queue => of::<QueueHead>(is_kept, value),
        Service::Table => of::<TableHead>(is_kept, value),
        Service::File => of::<ShareHead>(is_kept, value),
    }
}

/// Names in order, each with its head.
pub async fn list<H: Named>(shell: &Shell, account: &AccountName, listing: &Listing) -> Result<Listed<H>, Failure> {
    let group = key::directory_group(H::SERVICE, account);
    Ok(walk(shell.engine.as_ref(), &group, directory::HEAD, listing, H::decode).await?)
}

/// Takes the head away, if `judge` lets it, and leaves a tombstone.
struct Bury<H, J> {
    partition: PartitionId,
    judge: J,
    of: PhantomData<H>,
}

impl<H: Named, J: Fn(Option<&H>, Timestamp) -> Result<(), Refusal> + Send + Sync> Command for Bury<H, J> {
    type Records = Option<H>;
    type Outcome = Id;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        load(reader).await
    }

    fn check(&self, head: &Self::Records, now: Timestamp) -> Result<(), Refusal> {
        (self.judge)(head.as_ref(), now)
    }

    fn decide(&self, head: Self::Records, moment: Moment) -> Result<(Vec<Write>, Id), Refusal> {
        self.check(&head, moment.now)?;
        let incarnation = head.ok_or(H::NOT_FOUND)?.incarnation();
        Ok((vec![take_away(), tombstone(incarnation)], incarnation))
    }
}

/// Names a group that no head names any more. Whoever commits it calls `finish_deletion` next.
pub fn tombstone(incarnation: Id) -> Write {
    let (family, key) = (directory::TOMBSTONE, tombstone_key(incarnation));
    Write::Put { family, key, value: Bytes::new(), slices: Vec::new() }
}

fn tombstone_key(incarnation: Id) -> Bytes {
    Bytes::copy_from_slice(&incarnation.0.to_be_bytes())
}

/// Deletes a named thing that `judge` lets go. When it returns the name is free, and no write that was under way can still land.
pub async fn delete<H: Named>(
    shell: &Shell,
    account: &AccountName,
    name: &str,
    judge: impl Fn(Option<&H>, Timestamp) -> Result<(), Refusal> + Send + Sync,
) -> Result<(), Failure> {
    let bury = Bury { partition: key::named_partition(H::SERVICE, account, name), judge, of: PhantomData };
    let incarnation = shell.execute(&bury).await?;
    finish_deletion(shell, H::SERVICE, account, bury.partition, incarnation).await
}

/// Fences the group that a tombstone in `partition` names, and takes the tombstone away. Events that it has not delivered stay.
pub async fn finish_deletion(
    shell: &Shell,
    service: Service,
    account: &AccountName,
    partition: PartitionId,
    incarnation: Id,
) -> Result<(), Failure> {
    let group = key::contents_group(service, account, incarnation);
    if service == Service::Blob {
        events::carry_over(shell, account, &group).await?;
    }
    shell.engine.fence(&group).await?;
    if service == Service::Blob {
        events::forget_gone(shell, account, &group).await?;
    }
    let writes = vec![Write::Delete { family: directory::TOMBSTONE, key: tombstone_key(incarnation) }];
    shell.execute(&Blind { partition, writes }).await
}

/// Puts up the fences that a crash prevented. Run for each account before its first request is served.
pub async fn finish_deletions(shell: &Shell, account: &AccountName) -> Result<usize, Failure> {
    let mut finished = 0;
    for service in Service::ALL {
        let group = key::directory_group(service, account);
        loop {
            let range = GroupRange {
                group: group.clone(),
                family: directory::TOMBSTONE,
                start: ScanStart::AtPartition(Bytes::new()),
                before_partition: None,
            };
            let page = shell.engine.scan(&range, 100).await?;
            if page.rows.is_empty() {
                break;
            }
            for row in page.rows {
                let incarnation: [u8; 16] =
                    row.key.as_ref().try_into().map_err(|_| corrupt("a tombstone's key", &row.key))?;
                let partition = PartitionId { group: group.clone(), key: row.partition };
                let incarnation = Id(u128::from_be_bytes(incarnation));
                finish_deletion(shell, service, account, partition, incarnation).await?;
                finished += 1;
            }
        }
    }
    Ok(finished)
}
