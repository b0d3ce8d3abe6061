//! Gives space back that nobody asks for again: rounds through an account, one bounded step at a time.
//!
//! Nothing is decided here. What is due is gone for every reader already, by comparison with the time, whether it was cleared or not; a
//! chore finds it and clears it by a command that judges again in its partition's turn. A step reads at most so many rows and goes on
//! where the last one stopped, so that a large account costs a little all the time and never much at once.

use bytes::Bytes;
use contract::Service;
use contract::names::AccountName;
use engine::{BoxFuture, Family, Fault, GroupId, GroupRange, PartitionId, Row, ScanStart};
use env::{Id, Timestamp};

use crate::blob::delete::DeletedStates;
use crate::blob::expiry::ExpiredBlobs;
use crate::blob::staging::StagedBlocks;
use crate::directory::{self, Named};
use crate::execute::{Failure, Shell};
use crate::file::copy::StagedContents;
use crate::file::sweep::{LostGenerations, Orphans, Past};
use crate::kept::Overdue;
use crate::key;
use crate::list::{Entry, Listing};
use crate::record::{ContainerHead, ShareHead};

/// One kind of record that is looked through for what is due.
pub trait Chore: Send + Sync {
    fn family(&self) -> Family;

    /// Clears what is due among these records, and tells how much it was.
    fn tidy<'a>(&'a self, spot: &'a Spot<'a>, rows: Vec<Row>) -> BoxFuture<'a, Result<usize, Failure>>;
}

/// Where a round is.
pub struct Spot<'a> {
    pub shell: &'a Shell,
    pub account: &'a AccountName,
    pub group: GroupId,
    /// The container or share that the group is of; `None` in a directory.
    pub visited: Option<Visited>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Visited {
    pub name: String,
    pub incarnation: Id,
}

/// A chore whose records are each due or not, whatever else there is.
pub trait RowChore: Send + Sync {
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

impl<C: RowChore> Chore for C {
    fn family(&self) -> Family {
        RowChore::family(self)
    }

    fn tidy<'a>(&'a self, spot: &'a Spot<'a>, rows: Vec<Row>) -> BoxFuture<'a, Result<usize, Failure>> {
        Box::pin(async move {
            let mut cleared = 0;
            for row in rows {
                if self.is_due(&row.key, &row.record.value, spot.shell.clock.now())? {
                    let partition = PartitionId { group: spot.group.clone(), key: row.partition };
                    clear(self, spot, &partition, &row.key).await?;
                    cleared += 1;
                }
            }
            Ok(cleared)
        })
    }
}

/// What is there no more, or not due any more, is as good as cleared.
async fn clear(chore: &impl RowChore, spot: &Spot<'_>, partition: &PartitionId, key: &Bytes) -> Result<(), Failure> {
    loop {
        match chore.clear(spot.shell, spot.account, partition, key).await {
            Ok(true) => {}
            Ok(false) | Err(Failure::Gone | Failure::Refused(_)) => return Ok(()),
            Err(fault) => return Err(fault),
        }
    }
}

/// What is done in the directory of a service, and in everything that it lists.
struct Chores {
    service: Service,
    of_directory: &'static [&'static dyn Chore],
    of_each: &'static [&'static dyn Chore],
}

const CHORES: [Chores; 2] = [
    Chores {
        service: Service::Blob,
        of_directory: &[&Overdue::<ContainerHead>::new()],
        of_each: &[&StagedBlocks, &DeletedStates, &ExpiredBlobs],
    },
    Chores {
        service: Service::File,
        of_directory: &[&Overdue::<ShareHead>::new()],
        // What the first two forget the others give back.
        of_each: &[&LostGenerations, &StagedContents, &Orphans, &Past::ENTRIES, &Past::NODES, &Past::RUNS],
    },
];

/// How far a round through one account has come. Forgotten at a restart: then the round begins anew.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Round {
    /// Whose chores it is at.
    service: usize,
    /// The container or share it is in; none while it is in the directory.
    name: Option<String>,
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
            let Some((spot, chore)) = self.next(shell, account).await? else {
                *self = Round::default();
                step.is_round_over = true;
                return Ok(step);
            };
            let start = match self.after.clone() {
                Some((partition, key)) => ScanStart::After { partition, key },
                None => ScanStart::AtPartition(Bytes::new()),
            };
            let range = GroupRange { group: spot.group.clone(), family: chore.family(), start, before_partition: None };
            let page = shell.engine.scan(&range, rows_left.min(ROWS_AT_ONCE)).await?;
            // A scan that finds nothing costs as much as a row.
            rows_left = rows_left.saturating_sub(page.rows.len().max(1));
            self.after = page.rows.last().filter(|_| page.more).map(|row| (row.partition.clone(), row.key.clone()));
            if self.after.is_none() {
                self.chore += 1;
            }
            step.cleared += match chore.tidy(&spot, page.rows).await {
                // The owner of a share clears it. One that nobody owns any more is this process's from here on, if it can have it, and
                // cleared in the next round.
                Err(Failure::Fault(Fault::Elsewhere)) => shell.engine.own(&spot.group).await.map_or(0, |_| 0),
                cleared => cleared?,
            };
        }
        Ok(step)
    }

    /// Where to look and what for; moves on to the next container or share when everything is done in this one.
    async fn next<'a>(
        &mut self,
        shell: &'a Shell,
        account: &'a AccountName,
    ) -> Result<Option<(Spot<'a>, &'static dyn Chore)>, Failure> {
        while let Some(chores) = CHORES.get(self.service) {
            if self.name.is_none()
                && let Some(chore) = chores.of_directory.get(self.chore)
            {
                let group = key::directory_group(chores.service, account);
                return Ok(Some((Spot { shell, account, group, visited: None }, *chore)));
            }
            // The one it is in, or the first one behind it: it may have gone meanwhile.
            let is_done = self.chore >= chores.of_each.len();
            let start = match &self.name {
                Some(name) if is_done => format!("{name}\0"),
                Some(name) => name.clone(),
                None => String::new(),
            };
            let visited = match chores.service {
                Service::File => first::<ShareHead>(shell, account, start).await?,
                _ => first::<ContainerHead>(shell, account, start).await?,
            };
            let Some(visited) = visited else {
                *self = Round { service: self.service + 1, ..Round::default() };
                continue;
            };
            if self.name.as_ref() != Some(&visited.name) {
                *self = Round { service: self.service, name: Some(visited.name.clone()), chore: 0, after: None };
            }
            if let Some(chore) = chores.of_each.get(self.chore) {
                let group = key::contents_group(chores.service, account, visited.incarnation);
                return Ok(Some((Spot { shell, account, group, visited: Some(visited) }, *chore)));
            }
        }
        Ok(None)
    }
}

async fn first<H: Named>(shell: &Shell, account: &AccountName, start: String) -> Result<Option<Visited>, Failure> {
    let listing = Listing { prefix: String::new(), delimiter: None, start, results_max: 1 };
    let listed = directory::list::<H>(shell, account, &listing).await?;
    Ok(listed.entries.into_iter().find_map(|entry| match entry {
        Entry::Item { name, head } => Some(Visited { name, incarnation: head.incarnation() }),
        Entry::Prefix(_) => None,
    }))
}
