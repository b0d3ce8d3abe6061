//! Entities: one read, and the transaction that every write is.
//!
//! 1. A transaction is of one partition and is one commit: all its changes, or none and the first that was refused (promise T5).
//! 2. A single insert, update, merge or delete is a transaction of one change: there is no other way to write an entity.
//! 3. An entity's Timestamp grows with every write (by at least 100 ns) and never comes back, also not after the entity was deleted and
//!    inserted again; the ETag is the Timestamp, so no ETag is ever that of two states.

use bytes::Bytes;
use contract::{ErrorCode, Refusal};
use engine::{Fault, PartitionId, Write};
use env::Timestamp;

use super::tables::Found;
use super::value::{EntityKey, Properties, ValueRef, check_entity};
use crate::execute::{Command, Failure, Moment, Reader, Shell};
use crate::key::{self, table};
use crate::record::StoredEntity;

/// What If-Match says of the entity that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expected {
    /// `*`: any state of it.
    Any,
    /// The state with this Timestamp. `None` is an ETag that no state ever had.
    At(Option<Timestamp>),
}

impl Expected {
    fn judge(self, entity: &StoredEntity) -> Result<(), Refusal> {
        match self {
            Expected::Any => Ok(()),
            Expected::At(timestamp) if timestamp == Some(entity.timestamp()) => Ok(()),
            Expected::At(asked) => {
                let there = entity.timestamp().iso8601();
                Err(ErrorCode::UpdateConditionNotSatisfied.because(match asked {
                    Some(asked) => format!(
                        "If-Match asked for the entity as it was at {}; it was changed at {there}.",
                        asked.iso8601()
                    ),
                    None => format!("If-Match is no ETag that the entity ever had; it was changed at {there}."),
                }))
            }
        }
    }
}

/// What is done to one entity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    Insert,
    Replace(Expected),
    Merge(Expected),
    InsertOrReplace,
    InsertOrMerge,
    Delete(Expected),
}

#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    pub row_key: EntityKey,
    pub action: Action,
    /// Empty for a deletion.
    pub properties: Properties,
}

/// Changes of entities of one partition, decided in order, committed together.
pub struct Transaction {
    partition: PartitionId,
    partition_key: EntityKey,
    changes: Vec<Change>,
}

/// The change that was refused, counted from zero, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    pub index: usize,
    pub refusal: Refusal,
}

impl Transaction {
    /// An entity may appear once.
    pub fn new(table: &Found, partition_key: EntityKey, changes: Vec<Change>) -> Result<Transaction, Refused> {
        let mut seen = std::collections::HashSet::new();
        if let Some(index) = changes.iter().position(|change| !seen.insert(&change.row_key)) {
            return Err(Refused { index, refusal: ErrorCode::InvalidDuplicateRow.into() });
        }
        let partition = key::entity_partition(&table.group, partition_key.as_str());
        Ok(Transaction { partition, partition_key, changes })
    }

    fn change(
        &self,
        change: &Change,
        old: Option<&StoredEntity>,
        tick: u64,
    ) -> Result<(Write, Option<StoredEntity>), Refusal> {
        let key = record_key(&change.row_key);
        let old = match (change.action, old) {
            (Action::Insert, Some(old)) => {
                let there = format!("There is an entity with these keys, changed at {}.", old.timestamp().iso8601());
                return Err(ErrorCode::EntityAlreadyExists.because(there));
            }
            (Action::Insert | Action::InsertOrReplace | Action::InsertOrMerge, old) => old,
            (Action::Replace(_) | Action::Merge(_) | Action::Delete(_), None) => {
                return Err(ErrorCode::ResourceNotFound.into());
            }
            (Action::Replace(expected) | Action::Merge(expected) | Action::Delete(expected), Some(old)) => {
                expected.judge(old)?;
                Some(old)
            }
        };
        let timestamp = Timestamp::from_ticks(old.map_or(tick, |old| tick.max(old.timestamp().ticks() + 1)));
        let properties: Vec<(&str, ValueRef<'_>)> = match (change.action, old) {
            (Action::Delete(_), _) => return Ok((Write::Delete { family: table::ENTITY, key }, None)),
            (Action::Merge(_) | Action::InsertOrMerge, Some(old)) => {
                let kept = old.properties().filter(|(name, _)| !change.properties.contains(name));
                kept.chain(change.properties.iter()).collect()
            }
            _ => change.properties.iter().collect(),
        };
        check_entity(self.partition_key.as_str(), change.row_key.as_str(), properties.iter().copied())?;
        let entity = StoredEntity::new(timestamp, properties.into_iter());
        Ok((Write::Put { family: table::ENTITY, key, value: entity.encode(), slices: Vec::new() }, Some(entity)))
    }
}

fn record_key(row_key: &EntityKey) -> Bytes {
    Bytes::copy_from_slice(row_key.as_str().as_bytes())
}

impl Command for Transaction {
    type Records = Vec<Option<StoredEntity>>;
    /// The new state of every entity, `None` where it was deleted; or the change that was refused, and then nothing was written.
    type Outcome = Result<Vec<Option<StoredEntity>>, Refused>;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        let mut entities = Vec::with_capacity(self.changes.len());
        for change in &self.changes {
            let record = reader.get(table::ENTITY, change.row_key.as_str().as_bytes()).await?;
            entities.push(record.map(|record| StoredEntity::decode(record.value)).transpose()?);
        }
        Ok(entities)
    }

    fn check(&self, _records: &Self::Records, _now: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, old: Self::Records, moment: Moment) -> Result<(Vec<Write>, Self::Outcome), Refusal> {
        let mut writes = Vec::with_capacity(self.changes.len());
        let mut entities = Vec::with_capacity(self.changes.len());
        for (index, (change, old)) in self.changes.iter().zip(&old).enumerate() {
            match self.change(change, old.as_ref(), moment.tick) {
                Ok((write, entity)) => {
                    writes.push(write);
                    entities.push(entity);
                }
                Err(refusal) => return Ok((Vec::new(), Err(Refused { index, refusal }))),
            }
        }
        Ok((writes, Ok(entities)))
    }
}

/// Does all of the transaction or nothing of it.
pub async fn transact(
    shell: &Shell,
    table: &Found,
    transaction: &Transaction,
) -> Result<Result<Vec<Option<StoredEntity>>, Refused>, Failure> {
    let done = table.settle(shell, shell.execute(transaction).await).await?;
    if done.is_err() {
        table.still_there(shell).await?;
    }
    Ok(done)
}

/// The entity under these keys.
pub async fn get(
    shell: &Shell,
    table: &Found,
    partition_key: &EntityKey,
    row_key: &EntityKey,
) -> Result<StoredEntity, Failure> {
    let partition = key::entity_partition(&table.group, partition_key.as_str());
    let record = {
        let view = shell.engine.view(&partition).await?;
        view.get(table::ENTITY, row_key.as_str().as_bytes()).await?
    };
    let found = record.ok_or(ErrorCode::ResourceNotFound.into());
    Ok(StoredEntity::decode(table.settle(shell, found).await?.value)?)
}
