//! Gives space back that nobody asks for again: rounds through an account, one bounded step at a time.
//!
//! Nothing is decided here. What is due is gone for every reader already, by comparison with the time, whether it was cleared or not; a
//! chore finds it and clears it by a command that judges again in its partition's turn. A step reads at most so many rows and goes on
//! where the last one stopped, so that a large account costs a little all the time and never much at once.

use bytes::Bytes;
use contract::Service;
use contract::names::AccountName;
use engine::{BoxFuture, Family, Fault, GroupId, GroupRange, PartitionId, ScanStart};
use env::Timestamp;

use crate::blob::delete::DeletedStates;
use crate::blob::expiry::ExpiredBlobs;
use crate::blob::kept::KeptContainers;
use crate::blob::staging::StagedBlocks;
use crate::directory;
use crate::execute::{Failure, Shell};
use crate::key;
use crate::list::{Entry, Listing};
use crate::record::ContainerHead;

/// One kind of record that is looked through for what is due.
pub trait Chore: Send + Sync {
    fn family(&self) -> Family;

    fn is_due(&self, key: &[u8], value: &[u8], now: Timestamp) -> Result<bool, Fault>;

    /// Clears what is due under this record, or a bounded part of it; tells whether there is more of it to clear.
    fn clear<'a>(
        &'a self,
        shell: &'a Shell,
        account: &'a AccountName,
        partition: &'a PartitionId,
        key: &'a Bytes,
    ) -> BoxFuture<'a, Result<bool, Failure>>;
}

/// Done in the directory of an account's containers.
const OF_DIRECTORY: &[&dyn Chore] = &[&KeptContainers];
/// Done in every container.
const OF_CONTAINERS: &[&dyn Chore] = &[&StagedBlocks, &DeletedStates, &ExpiredBlobs];

/// How far a round through one account has come. Forgotten at a restart: then the round begins anew.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Round {
    /// The container it is in; none while it is in the directory.
    container: Option<String>,
    chore: usize,
    after: Option<(Bytes, Bytes)>,
}

/// What a step did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Step {
    /// Records that were due and were cleared.
    pub cleared: usize,
    pub is_round_over: bool,
}

/// Rows asked of the engine at once.
const ROWS_AT_ONCE: usize = 256;

impl Round {
    /// Goes on for about `rows_max` rows, or to the round's end.
    pub async fn step(&mut self, shell: &Shell, account: &AccountName, rows_max: usize) -> Result<Step, Failure> {
        let mut step = Step::default();
        let mut rows_left = rows_max;
        while rows_left > 0 {
            let Some((group, chore)) = self.next(shell, account).await? else {
                *self = Round::default();
                step.is_round_over = true;
                return Ok(step);
            };
            let start = match self.after.clone() {
                Some((partition, key)) => ScanStart::After { partition, key },
                None => ScanStart::AtPartition(Bytes::new()),
            };
            let range = GroupRange { group, family: chore.family(), start, before_partition: None };
            let page = shell.engine.scan(&range, rows_left.min(ROWS_AT_ONCE)).await?;
            // A scan that finds nothing costs as much as a row.
            rows_left = rows_left.saturating_sub(page.rows.len().max(1));
            self.after = page.rows.last().filter(|_| page.more).map(|row| (row.partition.clone(), row.key.clone()));
            let is_over = self.after.is_none();
            for row in page.rows {
                if chore.is_due(&row.key, &row.record.value, shell.clock.now())? {
                    let partition = PartitionId { group: range.group.clone(), key: row.partition };
                    clear(shell, account, chore, &partition, &row.key).await?;
                    step.cleared += 1;
                }
            }
            if is_over {
                self.chore += 1;
            }
        }
        Ok(step)
    }

    /// Where to look and what for; moves on to the next container when everything is done in this one.
    async fn next(
        &mut self,
        shell: &Shell,
        account: &AccountName,
    ) -> Result<Option<(GroupId, &'static dyn Chore)>, Failure> {
        if self.container.is_none()
            && let Some(chore) = OF_DIRECTORY.get(self.chore)
        {
            return Ok(Some((key::directory_group(Service::Blob, account), *chore)));
        }
        // The one it is in, or the first one behind it: a container may have gone meanwhile.
        let is_done = self.container.is_none() || self.chore >= OF_CONTAINERS.len();
        let start = match (&self.container, is_done) {
            (Some(name), true) => format!("{name}\0"),
            (Some(name), false) => name.clone(),
            (None, _) => String::new(),
        };
        let listing = Listing { prefix: String::new(), delimiter: None, start, results_max: 1 };
        let listed = directory::list::<ContainerHead>(shell, account, &listing).await?;
        let Some(Entry::Item { name, head }) = listed.entries.into_iter().next() else { return Ok(None) };
        if self.container.as_ref() != Some(&name) {
            *self = Round { container: Some(name), chore: 0, after: None };
        }
        let group = key::contents_group(Service::Blob, account, head.incarnation);
        Ok(OF_CONTAINERS.get(self.chore).map(|chore| (group, *chore)))
    }
}

/// What is there no more, or not due any more, is as good as cleared.
async fn clear(
    shell: &Shell,
    account: &AccountName,
    chore: &dyn Chore,
    partition: &PartitionId,
    key: &Bytes,
) -> Result<(), Failure> {
    loop {
        match chore.clear(shell, account, partition, key).await {
            Ok(true) => {}
            Ok(false) | Err(Failure::Gone | Failure::Refused(_)) => return Ok(()),
            Err(fault) => return Err(fault),
        }
    }
}
