//! What shares give back: generations that no snapshot names, contents that no file has, and past states that nobody sees.
//!
//! What no snapshot sees none will ever see again: a new one sees the newest generation and those before it that are still true. So what
//! is found here stays due, however long it takes until it is cleared.

use bytes::Bytes;
use contract::names::AccountName;
use contract::{Refusal, Service};
use engine::{BoxFuture, Family, Fault, PartitionId, Record, Row, Write};
use env::Timestamp;

use super::snapshot::{LOST_SECONDS_MIN, forget, load_all};
use super::tree;
use super::versions::{Edit, Versioned, split_past_key};
use crate::execute::{Command, Failure, Moment, Reader, Shell};
use crate::housekeeping::{Chore, RowChore, Spot};
use crate::key::{self, share};
use crate::record::{ShareState, corrupt};

/// Generations that a crash between the two commits of a snapshot left in the tree.
pub(crate) struct LostGenerations;

impl Chore for LostGenerations {
    fn family(&self) -> Family {
        share::STATE
    }

    fn tidy<'a>(&'a self, spot: &'a Spot<'a>, rows: Vec<Row>) -> BoxFuture<'a, Result<usize, Failure>> {
        Box::pin(async move {
            let (Some(visited), Some(row)) = (&spot.visited, rows.first()) else { return Ok(0) };
            let state = ShareState::decode(&row.record.value)?;
            let now = spot.shell.clock.now();
            let old: Vec<u64> = state
                .snapshots
                .iter()
                .filter(|seen| seen.taken.plus_seconds(LOST_SECONDS_MIN) < now)
                .map(|seen| seen.generation)
                .collect();
            if old.is_empty() {
                return Ok(0);
            }
            let partition = key::named_partition(Service::File, spot.account, &visited.name);
            let view = spot.shell.engine.view(&partition).await?;
            let known = load_all(&Reader::committed(view.as_ref()), visited.incarnation).await?;
            let is_lost = |generation: &u64| known.iter().all(|(_, snapshot)| snapshot.generation != *generation);
            let lost: Vec<u64> = old.into_iter().filter(is_lost).collect();
            if lost.is_empty() {
                return Ok(0);
            }
            forget(spot.shell, key::tree_partition(&spot.group), lost).await
        })
    }
}

/// Runs that are given back with one commit.
const RUNS_AT_ONCE: usize = 500;

/// Contents that no file has any more, and whose runs were too many to go with it.
pub(crate) struct Orphans;

impl RowChore for Orphans {
    fn family(&self) -> Family {
        share::ORPHAN
    }

    fn is_due(&self, _key: &[u8], _value: &[u8], _now: Timestamp) -> Result<bool, Fault> {
        Ok(true)
    }

    fn clear<'a>(
        &'a self,
        shell: &'a Shell,
        _account: &'a AccountName,
        partition: &'a PartitionId,
        key: &'a Bytes,
    ) -> BoxFuture<'a, Result<bool, Failure>> {
        Box::pin(async move { shell.execute(&SweepOrphan { partition: partition.clone(), body: key.clone() }).await })
    }
}

/// Takes some of an orphan's runs away, and at last the orphan.
struct SweepOrphan {
    partition: PartitionId,
    body: Bytes,
}

struct Orphaned {
    state: ShareState,
    /// The generation it was orphaned in.
    generation: u64,
    runs: Vec<(Bytes, Versioned)>,
}

impl Command for SweepOrphan {
    type Records = Option<Orphaned>;
    /// Is there more of it?
    type Outcome = bool;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        let Some(record) = reader.get(share::ORPHAN, &self.body).await? else { return Ok(None) };
        let generation = record.value.as_ref().try_into().map(u64::from_be_bytes);
        let generation = generation.map_err(|_| corrupt("when a content was orphaned", &record.value))?;
        let runs = reader.scan(share::RUN, &key::beginning_with(&self.body), RUNS_AT_ONCE).await?;
        let read = |(key, record): (Bytes, Record)| Ok((key, Versioned::read(record)?));
        let runs = runs.into_iter().map(read).collect::<Result<_, Fault>>()?;
        Ok(Some(Orphaned { state: tree::state(reader).await?, generation, runs }))
    }

    fn check(&self, _orphaned: &Self::Records, _now: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, orphaned: Self::Records, _moment: Moment) -> Result<(Vec<Write>, bool), Refusal> {
        let Some(Orphaned { state, generation, runs }) = orphaned else { return Ok((Vec::new(), false)) };
        // As if they went with their file: what later snapshots see has been without them.
        let then = ShareState { generation, ..state };
        let mut edit = Edit::new(&then);
        let has_more = runs.len() == RUNS_AT_ONCE;
        for (key, run) in runs {
            edit.delete(share::RUN, key, &run);
        }
        let mut writes = edit.finish();
        if !has_more {
            writes.push(Write::Delete { family: share::ORPHAN, key: self.body.clone() });
        }
        Ok((writes, has_more))
    }
}

/// Past states that no snapshot sees any more.
pub(crate) struct Past(Family);

impl Past {
    pub const ENTRIES: Past = Past(share::PAST_ENTRY);
    pub const NODES: Past = Past(share::PAST_NODE);
    pub const RUNS: Past = Past(share::PAST_RUN);
}

impl Chore for Past {
    fn family(&self) -> Family {
        self.0
    }

    fn tidy<'a>(&'a self, spot: &'a Spot<'a>, rows: Vec<Row>) -> BoxFuture<'a, Result<usize, Failure>> {
        Box::pin(async move {
            if rows.is_empty() {
                return Ok(0);
            }
            let states = rows.into_iter().map(|Row { key, record, .. }| {
                let until = split_past_key(&key)?.1;
                Ok(PastState { since: Versioned::read(record)?.since, until, key })
            });
            let states = states.collect::<Result<_, Fault>>()?;
            let partition = key::tree_partition(&spot.group);
            match spot.shell.execute(&ForgetPast { partition, family: self.0, states }).await {
                // The share went meanwhile.
                Err(Failure::Gone) => Ok(0),
                done => done,
            }
        })
    }
}

struct PastState {
    key: Bytes,
    /// The first generation it was true in, and the last.
    since: u64,
    until: u64,
}

/// Takes those of these states away that no snapshot sees.
struct ForgetPast {
    partition: PartitionId,
    family: Family,
    states: Vec<PastState>,
}

impl Command for ForgetPast {
    type Records = ShareState;
    type Outcome = usize;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<ShareState, Fault> {
        tree::state(reader).await
    }

    fn check(&self, _state: &ShareState, _now: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, state: ShareState, _moment: Moment) -> Result<(Vec<Write>, usize), Refusal> {
        let unseen = self.states.iter().filter(|past| !state.is_seen(past.since, past.until));
        let gone: Vec<Write> =
            unseen.map(|past| Write::Delete { family: self.family, key: past.key.clone() }).collect();
        let count = gone.len();
        Ok((gone, count))
    }
}
