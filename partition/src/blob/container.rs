//! Containers: create, read, set metadata, delete; and what deleting leaves to be finished.
//!
//! A container's record lies in its account's directory. Its blobs lie in a group named by the container's incarnation, so deleting
//! a container is one commit and a fence, whatever it holds: the name is free at once and the engine sweeps the old group. A
//! tombstone written in the same commit makes sure that the fence is put up even if the power goes between the two.

use bytes::Bytes;
use contract::names::{AccountName, ContainerName, Metadata};
use contract::{ErrorCode, Refusal};
use engine::{Fault, GroupId, GroupRange, PartitionId, ScanStart, Write};
use env::{Id, Timestamp};

use crate::checks::Expectation;
use crate::condition::Current;
use crate::etag::ETag;
use crate::execute::{Command, Failure, Moment, Reader, Shell};
use crate::key::{self, directory};
use crate::record::{ContainerHead, PublicAccess, StoredPolicy};

const HEAD_KEY: Bytes = Bytes::new();

impl ContainerHead {
    pub fn current(&self) -> Current {
        Current { etag: self.etag, last_modified: self.last_modified }
    }
}

async fn load(reader: &Reader<'_>) -> Result<Option<ContainerHead>, Fault> {
    let record = reader.get(directory::CONTAINER, &HEAD_KEY).await?;
    record.map(|record| ContainerHead::decode(&record.value)).transpose()
}

fn put(head: &ContainerHead) -> Write {
    Write::Put { family: directory::CONTAINER, key: HEAD_KEY, value: head.encode(), slices: Vec::new() }
}

/// A container as a request found it. Every operation on its blobs begins here.
pub struct Found {
    partition: PartitionId,
    pub head: ContainerHead,
    /// Where its blobs are.
    pub group: GroupId,
}

pub async fn find(shell: &Shell, account: &AccountName, name: &ContainerName) -> Result<Found, Failure> {
    let partition = key::container_partition(account, name);
    let head = now(shell, &partition).await?.ok_or(ErrorCode::ContainerNotFound)?;
    let group = key::container_group(account, head.incarnation);
    Ok(Found { partition, head, group })
}

async fn now(shell: &Shell, partition: &PartitionId) -> Result<Option<ContainerHead>, Fault> {
    let view = shell.engine.view(partition).await?;
    load(&Reader::committed(view.as_ref())).await
}

impl Found {
    /// A container that was deleted after it was found looks empty, or half empty while it is swept. So whoever did not find a blob, or
    /// was refused because of what it did not find, looks whether the container is still the one it found.
    pub async fn settle<T>(&self, shell: &Shell, result: Result<T, Failure>) -> Result<T, Failure> {
        match result {
            Err(Failure::Refused(refusal)) => {
                self.still_there(shell).await?;
                Err(Failure::Refused(refusal))
            }
            Err(Failure::Gone) => Err(ErrorCode::ContainerNotFound.into()),
            other => other,
        }
    }

    /// The same for answers that are made of what was not found as much as of what was: listings.
    pub async fn still_there(&self, shell: &Shell) -> Result<(), Failure> {
        match now(shell, &self.partition).await? {
            Some(head) if head.incarnation == self.head.incarnation => Ok(()),
            _ => Err(ErrorCode::ContainerNotFound.into()),
        }
    }
}

/// Get Container Properties and Get Container Metadata.
pub async fn read(
    shell: &Shell,
    account: &AccountName,
    name: &ContainerName,
    expectation: &Expectation,
) -> Result<ContainerHead, Failure> {
    let head = find(shell, account, name).await?.head;
    expectation.judge(Some(head.current()))?;
    Ok(head)
}

pub struct CreateContainer {
    partition: PartitionId,
    metadata: Metadata,
    public_access: PublicAccess,
}

impl CreateContainer {
    pub fn new(account: &AccountName, name: &ContainerName, metadata: Metadata, public_access: PublicAccess) -> Self {
        CreateContainer { partition: key::container_partition(account, name), metadata, public_access }
    }
}

impl Command for CreateContainer {
    type Records = Option<ContainerHead>;
    type Outcome = ContainerHead;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        load(reader).await
    }

    fn check(&self, head: &Self::Records, _now: Timestamp) -> Result<(), Refusal> {
        if head.is_some() { Err(ErrorCode::ContainerAlreadyExists.into()) } else { Ok(()) }
    }

    fn decide(&self, head: Self::Records, moment: Moment) -> Result<(Vec<Write>, ContainerHead), Refusal> {
        self.check(&head, moment.now)?;
        let head = ContainerHead {
            incarnation: moment.id,
            etag: ETag::next(None, moment.tick),
            last_modified: moment.now,
            metadata: self.metadata.clone(),
            public_access: self.public_access,
            policies: Vec::new(),
        };
        Ok((vec![put(&head)], head))
    }
}

/// What Set Container Metadata and Set Container ACL replace, each as a whole.
pub enum Replacement {
    Metadata(Metadata),
    Acl { public_access: PublicAccess, policies: Vec<StoredPolicy> },
}

pub struct ReplaceInContainer {
    partition: PartitionId,
    expectation: Expectation,
    replacement: Replacement,
}

impl ReplaceInContainer {
    pub fn new(
        account: &AccountName,
        name: &ContainerName,
        expectation: Expectation,
        replacement: Replacement,
    ) -> Self {
        ReplaceInContainer { partition: key::container_partition(account, name), expectation, replacement }
    }
}

impl Command for ReplaceInContainer {
    type Records = Option<ContainerHead>;
    type Outcome = ContainerHead;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        load(reader).await
    }

    fn check(&self, head: &Self::Records, _now: Timestamp) -> Result<(), Refusal> {
        self.expectation.judge(head.as_ref().map(ContainerHead::current))
    }

    fn decide(&self, head: Self::Records, moment: Moment) -> Result<(Vec<Write>, ContainerHead), Refusal> {
        self.check(&head, moment.now)?;
        let mut head = head.ok_or(ErrorCode::ContainerNotFound)?;
        head.etag = ETag::next(Some(head.etag), moment.tick);
        head.last_modified = moment.now;
        match &self.replacement {
            Replacement::Metadata(metadata) => head.metadata = metadata.clone(),
            Replacement::Acl { public_access, policies } => {
                head.public_access = *public_access;
                head.policies = policies.clone();
            }
        }
        Ok((vec![put(&head)], head))
    }
}

/// Removes the container's record and leaves a tombstone.
struct BuryContainer {
    partition: PartitionId,
    expectation: Expectation,
}

impl Command for BuryContainer {
    type Records = Option<ContainerHead>;
    type Outcome = Id;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        load(reader).await
    }

    fn check(&self, head: &Self::Records, _now: Timestamp) -> Result<(), Refusal> {
        self.expectation.judge(head.as_ref().map(ContainerHead::current))
    }

    fn decide(&self, head: Self::Records, moment: Moment) -> Result<(Vec<Write>, Id), Refusal> {
        self.check(&head, moment.now)?;
        let head = head.ok_or(ErrorCode::ContainerNotFound)?;
        let tombstone = Write::Put {
            family: directory::TOMBSTONE,
            key: tombstone_key(head.incarnation),
            value: Bytes::new(),
            slices: Vec::new(),
        };
        Ok((vec![Write::Delete { family: directory::CONTAINER, key: HEAD_KEY }, tombstone], head.incarnation))
    }
}

/// Takes the tombstone away once the fence stands.
struct ForgetTombstone {
    partition: PartitionId,
    incarnation: Id,
}

impl Command for ForgetTombstone {
    type Records = ();
    type Outcome = ();

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, _reader: &Reader<'_>) -> Result<(), Fault> {
        Ok(())
    }

    fn check(&self, _records: &(), _now: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, _records: (), _moment: Moment) -> Result<(Vec<Write>, ()), Refusal> {
        Ok((vec![Write::Delete { family: directory::TOMBSTONE, key: tombstone_key(self.incarnation) }], ()))
    }
}

fn tombstone_key(incarnation: Id) -> Bytes {
    Bytes::copy_from_slice(&incarnation.0.to_be_bytes())
}

/// Delete Container. When it returns the name is free, and no write that was under way can still land.
pub async fn delete(
    shell: &Shell,
    account: &AccountName,
    name: &ContainerName,
    expectation: Expectation,
) -> Result<(), Failure> {
    let partition = key::container_partition(account, name);
    let bury = BuryContainer { partition, expectation };
    let incarnation = shell.execute(&bury).await?;
    finish_deletion(shell, account, bury.partition, incarnation).await
}

async fn finish_deletion(
    shell: &Shell,
    account: &AccountName,
    partition: PartitionId,
    incarnation: Id,
) -> Result<(), Failure> {
    shell.engine.fence(&key::container_group(account, incarnation)).await?;
    shell.execute(&ForgetTombstone { partition, incarnation }).await
}

/// Puts up the fences that a crash prevented. Run for each account before its first request is served.
pub async fn finish_deletions(shell: &Shell, account: &AccountName) -> Result<usize, Failure> {
    let mut finished = 0;
    loop {
        let range = GroupRange {
            group: key::directory_group(account),
            family: directory::TOMBSTONE,
            start: ScanStart::AtPartition(Bytes::new()),
            before_partition: None,
        };
        let page = shell.engine.scan(&range, 100).await?;
        if page.rows.is_empty() {
            return Ok(finished);
        }
        for row in page.rows {
            let incarnation: [u8; 16] =
                row.key.as_ref().try_into().map_err(|_| crate::record::corrupt("a tombstone's key", &row.key))?;
            let partition = PartitionId { group: key::directory_group(account), key: row.partition };
            finish_deletion(shell, account, partition, Id(u128::from_be_bytes(incarnation))).await?;
            finished += 1;
        }
    }
}
