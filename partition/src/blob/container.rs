//! Containers: create, read, set metadata and access policies, delete. What all named things share is in `directory`.

use bytes::Bytes;
use contract::names::{AccountName, ContainerName, Metadata};
use contract::{ErrorCode, Refusal, Service};
use engine::{Fault, PartitionId, Write};
use env::{Id, Timestamp};

use crate::checks::Expectation;
use crate::condition::Current;
use crate::directory::{self, Named, load, put};
use crate::etag::ETag;
use crate::execute::{Command, Failure, Moment, Reader, Shell};
use crate::gate::Held;
use crate::kept::{Keepable, set_aside};
use crate::key;
use crate::lease::{self, Acted, LeaseAction};
use crate::record::{ContainerHead, PublicAccess, StoredPolicy};

impl ContainerHead {
    pub fn current(&self) -> Current<'_> {
        Current {
            etag: self.etag,
            last_modified: self.last_modified,
            lease: self.lease.as_ref(),
            tags: &[],
            held: Held::default(),
        }
    }
}

impl Named for ContainerHead {
    const SERVICE: Service = Service::Blob;
    const NOT_FOUND: ErrorCode = ErrorCode::ContainerNotFound;

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

impl Keepable for ContainerHead {
    const ALREADY_EXISTS: ErrorCode = ErrorCode::ContainerAlreadyExists;

    fn not_kept() -> Refusal {
        Refusal::from(ErrorCode::ContainerNotFound).status(409)
    }

    fn release(&mut self) {
        self.lease = None;
    }
}

/// A container as a request found it. Every operation on its blobs begins here.
pub type Found = directory::Found<ContainerHead>;

pub async fn find(shell: &Shell, account: &AccountName, name: &ContainerName) -> Result<Found, Failure> {
    directory::find(shell, account, name.as_str()).await
}

fn partition(account: &AccountName, name: &ContainerName) -> PartitionId {
    key::named_partition(Service::Blob, account, name.as_str())
}

/// Get Container Properties and Get Container Metadata.
pub async fn read(
    shell: &Shell,
    account: &AccountName,
    name: &ContainerName,
    expectation: &Expectation,
) -> Result<ContainerHead, Failure> {
    let head = find(shell, account, name).await?.head;
    expectation.judge(Some(head.current()), shell.clock.now())?;
    Ok(head)
}

pub struct CreateContainer {
    partition: PartitionId,
    metadata: Metadata,
    public_access: PublicAccess,
}

impl CreateContainer {
    pub fn new(account: &AccountName, name: &ContainerName, metadata: Metadata, public_access: PublicAccess) -> Self {
        CreateContainer { partition: partition(account, name), metadata, public_access }
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
            lease: None,
        };
        Ok((vec![put(&head)], head))
    }
}

/// Makes the container of the static website, if it is not there.
pub async fn ensure_web(shell: &Shell, account: &AccountName) -> Result<(), Failure> {
    let create = CreateContainer::new(account, &ContainerName::web(), Metadata::default(), PublicAccess::Nobody);
    match shell.execute(&create).await {
        Err(Failure::Refused(refusal)) if refusal.code == ErrorCode::ContainerAlreadyExists => Ok(()),
        Err(failure) => Err(failure),
        Ok(_) => Ok(()),
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
        ReplaceInContainer { partition: partition(account, name), expectation, replacement }
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

    fn check(&self, head: &Self::Records, now: Timestamp) -> Result<(), Refusal> {
        self.expectation.judge(head.as_ref().map(ContainerHead::current), now)
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

/// A lease operation on a container. Its ETag stays.
pub struct LeaseContainer {
    partition: PartitionId,
    expectation: Expectation,
    action: LeaseAction,
}

impl LeaseContainer {
    pub fn new(account: &AccountName, name: &ContainerName, expectation: Expectation, action: LeaseAction) -> Self {
        LeaseContainer { partition: partition(account, name), expectation, action }
    }
}

impl Command for LeaseContainer {
    type Records = Option<ContainerHead>;
    type Outcome = (ContainerHead, Acted);

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        load(reader).await
    }

    fn check(&self, head: &Self::Records, now: Timestamp) -> Result<(), Refusal> {
        self.expectation.judge(head.as_ref().map(ContainerHead::current), now)
    }

    fn decide(&self, head: Self::Records, moment: Moment) -> Result<(Vec<Write>, Self::Outcome), Refusal> {
        self.check(&head, moment.now)?;
        let mut head = head.ok_or(ErrorCode::ContainerNotFound)?;
        let acted = lease::act(head.lease.as_ref(), &self.action, moment.now, moment.id)?;
        head.lease = acted.lease.clone();
        Ok((vec![put(&head)], (head, acted)))
    }
}

/// Delete Container where deleted ones are kept.
struct KeepContainer {
    partition: PartitionId,
    expectation: Expectation,
    days: u16,
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
        Ok((set_aside(head, self.days, &moment), ()))
    }
}

/// Delete Container; `kept_days` says for how long deleted ones can be restored.
pub async fn delete(
    shell: &Shell,
    account: &AccountName,
    name: &ContainerName,
    expectation: Expectation,
    kept_days: Option<u16>,
) -> Result<(), Failure> {
    if let Some(days) = kept_days {
        return shell.execute(&KeepContainer { partition: partition(account, name), expectation, days }).await;
    }
    let judge = |head: Option<&ContainerHead>, now| expectation.judge(head.map(ContainerHead::current), now);
    directory::delete(shell, account, name.as_str(), judge).await
}
