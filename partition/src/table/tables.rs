//! Tables: create, find, list, set access policies, delete. What all named things share is in `directory`.

use bytes::Bytes;
use contract::names::{AccountName, TableName};
use contract::{ErrorCode, Refusal, Service};
use engine::{Fault, PartitionId, Write};
use env::{Id, Timestamp};

use super::filter::Filter;
use super::value::ValueRef;
use crate::directory::{self, Named, load, put};
use crate::execute::{Command, Failure, Moment, Reader, Shell};
use crate::key;
use crate::list::{Entry, Listing};
use crate::record::{StoredPolicy, TableHead};

impl Named for TableHead {
    const SERVICE: Service = Service::Table;
    const NOT_FOUND: ErrorCode = ErrorCode::TableNotFound;

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

/// A table as a request found it. Every operation on its entities begins here.
pub type Found = directory::Found<TableHead>;

pub async fn find(shell: &Shell, account: &AccountName, name: &TableName) -> Result<Found, Failure> {
    directory::find(shell, account, name.folded()).await
}

fn partition(account: &AccountName, name: &TableName) -> PartitionId {
    key::named_partition(Service::Table, account, name.folded())
}

pub struct CreateTable {
    partition: PartitionId,
    name: String,
}

impl CreateTable {
    pub fn new(account: &AccountName, name: &TableName) -> Self {
        CreateTable { partition: partition(account, name), name: name.as_str().to_string() }
    }
}

impl Command for CreateTable {
    type Records = Option<TableHead>;
    type Outcome = ();

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        load(reader).await
    }

    fn check(&self, head: &Self::Records, _now: Timestamp) -> Result<(), Refusal> {
        if head.is_some() { Err(ErrorCode::TableAlreadyExists.into()) } else { Ok(()) }
    }

    fn decide(&self, head: Self::Records, moment: Moment) -> Result<(Vec<Write>, ()), Refusal> {
        self.check(&head, moment.now)?;
        let head = TableHead { incarnation: moment.id, name: self.name.clone(), policies: Vec::new() };
        Ok((vec![put(&head)], ()))
    }
}

pub struct SetTablePolicies {
    partition: PartitionId,
    policies: Vec<StoredPolicy>,
}

impl SetTablePolicies {
    pub fn new(account: &AccountName, name: &TableName, policies: Vec<StoredPolicy>) -> Self {
        SetTablePolicies { partition: partition(account, name), policies }
    }
}

impl Command for SetTablePolicies {
    type Records = Option<TableHead>;
    type Outcome = ();

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        load(reader).await
    }

    fn check(&self, head: &Self::Records, _now: Timestamp) -> Result<(), Refusal> {
        if head.is_some() { Ok(()) } else { Err(ErrorCode::TableNotFound.into()) }
    }

    fn decide(&self, head: Self::Records, _moment: Moment) -> Result<(Vec<Write>, ()), Refusal> {
        let head = head.ok_or(ErrorCode::TableNotFound)?;
        Ok((vec![put(&TableHead { policies: self.policies.clone(), ..head })], ()))
    }
}

/// Delete Table. The name is free when it returns.
pub async fn delete(shell: &Shell, account: &AccountName, name: &TableName) -> Result<(), Failure> {
    // Quirk: a table addressed as itself that is not there is ResourceNotFound; only what is asked of its inside is TableNotFound.
    let judge = |head: Option<&TableHead>, _now: Timestamp| match head {
        Some(_) => Ok(()),
        None => Err(ErrorCode::ResourceNotFound.into()),
    };
    directory::delete::<TableHead>(shell, account, name.folded(), judge).await
}

/// Names looked at for one page.
const LOOKED_AT_MAX: usize = 10_000;
const STEP_NAMES: usize = 1000;

/// Names of tables in their order, which is without case, and where to go on.
pub async fn list(
    shell: &Shell,
    account: &AccountName,
    filter: Option<&Filter>,
    start: String,
    results_max: usize,
) -> Result<(Vec<String>, Option<String>), Failure> {
    let mut names = Vec::new();
    let mut start = start;
    let mut looked_at = 0;
    loop {
        let listing = Listing {
            prefix: String::new(),
            delimiter: None,
            start,
            results_max: if filter.is_some() { STEP_NAMES } else { results_max },
        };
        let listed = directory::list::<TableHead>(shell, account, &listing).await?;
        for entry in listed.entries {
            let Entry::Item { name, head } = entry else { continue };
            let property = |of: &str| (of == "TableName").then_some(ValueRef::String(&head.name));
            if filter.is_some_and(|filter| !filter.matches(property)) {
                continue;
            }
            if names.len() == results_max {
                return Ok((names, Some(name)));
            }
            names.push(head.name);
        }
        looked_at += STEP_NAMES;
        match listed.next {
            Some(next) if filter.is_some() && looked_at < LOOKED_AT_MAX => start = next,
            next => return Ok((names, next)),
        }
    }
}
