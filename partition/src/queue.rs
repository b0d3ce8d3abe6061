//! The Queue service: queues by name here, their messages in `message`.
//!
//! A queue's head lies in its account's directory, its messages in a group named by the head's incarnation. Clear Messages gives the
//! head another incarnation, so that it costs the same whatever the queue held; the old group is buried as that of a deleted queue.

pub mod message;
mod rules;
mod state;

use bytes::Bytes;
use contract::names::{AccountName, Metadata, QueueName};
use contract::{ErrorCode, Refusal, Service};
use engine::{Fault, PartitionId, Write};
use env::{Id, Timestamp};

use crate::directory::{self, Named, load, put};
use crate::execute::{Command, Failure, Moment, Reader, Shell};
use crate::key;
use crate::list::{Listed, Listing};
use crate::record::{QueueHead, StoredPolicy};

impl Named for QueueHead {
    const SERVICE: Service = Service::Queue;
    const NOT_FOUND: ErrorCode = ErrorCode::QueueNotFound;

    fn incarnation(&self) -> Id {
        self.incarnation
    }

    fn encode(&self) -> Bytes {
        self.encode()
    }

    fn decode(value: &[u8]) -> Result<Self, Fault> {
        Self::decode(value)
    }
}

/// A queue as a request found it.
pub type Found = directory::Found<QueueHead>;

pub async fn find(shell: &Shell, account: &AccountName, name: &QueueName) -> Result<Found, Failure> {
    directory::find(shell, account, name.as_str()).await
}

/// List Queues.
pub async fn list(shell: &Shell, account: &AccountName, listing: &Listing) -> Result<Listed<QueueHead>, Failure> {
    directory::list(shell, account, listing).await
}

/// Delete Queue.
pub async fn delete(shell: &Shell, account: &AccountName, name: &QueueName) -> Result<(), Failure> {
    directory::delete(shell, account, name.as_str(), |_: Option<&QueueHead>, _| Ok(())).await
}

fn partition(account: &AccountName, name: &QueueName) -> PartitionId {
    key::named_partition(Service::Queue, account, name.as_str())
}

pub struct CreateQueue {
    partition: PartitionId,
    metadata: Metadata,
}

/// What Create Queue found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Created {
    Now,
    /// It was there, with this metadata.
    Before,
}

impl CreateQueue {
    pub fn new(account: &AccountName, name: &QueueName, metadata: Metadata) -> Self {
        CreateQueue { partition: partition(account, name), metadata }
    }
}

impl Command for CreateQueue {
    type Records = Option<QueueHead>;
    type Outcome = Created;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        load(reader).await
    }

    fn check(&self, head: &Self::Records, _now: Timestamp) -> Result<(), Refusal> {
        match head {
            Some(head) if !head.metadata.same_as(&self.metadata) => Err(ErrorCode::QueueAlreadyExists.into()),
            _ => Ok(()),
        }
    }

    fn decide(&self, head: Self::Records, moment: Moment) -> Result<(Vec<Write>, Created), Refusal> {
        self.check(&head, moment.now)?;
        if head.is_some() {
            return Ok((Vec::new(), Created::Before));
        }
        let head = QueueHead { incarnation: moment.id, metadata: self.metadata.clone(), policies: Vec::new() };
        Ok((vec![put(&head)], Created::Now))
    }
}

/// What Set Queue Metadata and Set Queue ACL replace, each as a whole; the last writer wins.
pub enum Replacement {
    Metadata(Metadata),
    Policies(Vec<StoredPolicy>),
}

pub struct ReplaceInQueue {
    partition: PartitionId,
    replacement: Replacement,
}

impl ReplaceInQueue {
    pub fn new(account: &AccountName, name: &QueueName, replacement: Replacement) -> Self {
        ReplaceInQueue { partition: partition(account, name), replacement }
    }
}

impl Command for ReplaceInQueue {
    type Records = Option<QueueHead>;
    type Outcome = ();

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        load(reader).await
    }

    fn check(&self, head: &Self::Records, _now: Timestamp) -> Result<(), Refusal> {
        if head.is_some() { Ok(()) } else { Err(ErrorCode::QueueNotFound.into()) }
    }

    fn decide(&self, head: Self::Records, _moment: Moment) -> Result<(Vec<Write>, ()), Refusal> {
        let mut head = head.ok_or(ErrorCode::QueueNotFound)?;
        match &self.replacement {
            Replacement::Metadata(metadata) => head.metadata = metadata.clone(),
            Replacement::Policies(policies) => head.policies = policies.clone(),
        }
        Ok((vec![put(&head)], ()))
    }
}

/// Gives the queue a new, empty group and leaves a tombstone for the old one.
struct Renew {
    partition: PartitionId,
}

impl Command for Renew {
    type Records = Option<QueueHead>;
    /// The old incarnation.
    type Outcome = Id;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        load(reader).await
    }

    fn check(&self, head: &Self::Records, _now: Timestamp) -> Result<(), Refusal> {
        if head.is_some() { Ok(()) } else { Err(ErrorCode::QueueNotFound.into()) }
    }

    fn decide(&self, head: Self::Records, moment: Moment) -> Result<(Vec<Write>, Id), Refusal> {
        let mut head = head.ok_or(ErrorCode::QueueNotFound)?;
        let old = std::mem::replace(&mut head.incarnation, moment.id);
        Ok((vec![put(&head), directory::tombstone(old)], old))
    }
}

/// Clear Messages. When it returns nothing that was there can be received, and no put that was under way can land in the old group.
pub async fn clear(shell: &Shell, account: &AccountName, name: &QueueName) -> Result<(), Failure> {
    let renew = Renew { partition: partition(account, name) };
    let old = shell.execute(&renew).await?;
    directory::finish_deletion(shell, Service::Queue, account, renew.partition, old).await
}
