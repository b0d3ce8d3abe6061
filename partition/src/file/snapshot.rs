//! Snapshots of shares: taken, and deleted one by one.
//!
//! What a snapshot is lies beside its share, in the directory; what it sees is a generation of the share's tree (`versions`). So taking
//! one is two commits: the tree begins a new generation, then the snapshot is noted with the one before it. Deleting one is the same
//! backwards. A crash in between leaves a generation that no snapshot names, and housekeeping forgets it.

use bytes::{BufMut, Bytes, BytesMut};
use contract::limits::SHARE_SNAPSHOTS_MAX;
use contract::names::{AccountName, Metadata, ShareName};
use contract::{ErrorCode, Refusal, Service};
use engine::{Fault, PartitionId, Record, Write};
use env::{Id, TICKS_PER_SECOND, Timestamp};

use super::share::{self, Subject};
use super::tree;
use super::versions::Edit;
use crate::checks::Expectation;
use crate::directory::{load, put};
use crate::execute::{Command, Failure, Moment, Reader, Shell};
use crate::key::{self, directory};
use crate::record::share::SeenBy;
use crate::record::{ShareHead, ShareSnapshot, ShareState, corrupt};

/// A snapshot must be noted this soon after its generation began.
const NOTED_SECONDS_MAX: u64 = 600;
/// A generation that no snapshot names after this long was left by a crash. Much longer than the other, so that a commit on its way
/// arrives.
pub const LOST_SECONDS_MIN: u64 = 3600;

fn snapshot_key(incarnation: Id, taken: Timestamp) -> Bytes {
    let mut key = BytesMut::with_capacity(24);
    key.put_u128(incarnation.0);
    key.put_u64(taken.ticks());
    key.freeze()
}

pub async fn load_snapshot(
    reader: &Reader<'_>,
    incarnation: Id,
    taken: Timestamp,
) -> Result<Option<ShareSnapshot>, Fault> {
    let record = reader.get(directory::SNAPSHOT, &snapshot_key(incarnation, taken)).await?;
    record.map(|record| ShareSnapshot::decode(&record.value)).transpose()
}

/// All snapshots of a share and when they were taken, oldest first.
pub async fn load_all(reader: &Reader<'_>, incarnation: Id) -> Result<Vec<(Timestamp, ShareSnapshot)>, Fault> {
    let range = key::beginning_with(&incarnation.0.to_be_bytes());
    let found = reader.scan(directory::SNAPSHOT, &range, SHARE_SNAPSHOTS_MAX).await?;
    let read = |(key, record): (Bytes, Record)| {
        let taken = key.get(16..).and_then(|ticks| ticks.try_into().ok()).map(u64::from_be_bytes);
        let taken = taken.ok_or_else(|| corrupt("the key of a share's snapshot", &key))?;
        Ok((Timestamp::from_ticks(taken), ShareSnapshot::decode(&record.value)?))
    };
    found.into_iter().map(read).collect()
}

pub fn take_away_snapshot(incarnation: Id, taken: Timestamp) -> Write {
    Write::Delete { family: directory::SNAPSHOT, key: snapshot_key(incarnation, taken) }
}

pub fn put_snapshot(taken: Timestamp, snapshot: &ShareSnapshot) -> Write {
    let key = snapshot_key(snapshot.head.incarnation, taken);
    Write::Put { family: directory::SNAPSHOT, key, value: snapshot.encode(), slices: Vec::new() }
}

fn put_state(state: &ShareState) -> Vec<Write> {
    let mut edit = Edit::new(state);
    edit.put_state(state);
    edit.finish()
}

/// When the snapshots of a share were taken, the oldest first.
pub async fn taken_at(shell: &Shell, account: &AccountName, name: &ShareName) -> Result<Vec<Timestamp>, Failure> {
    let found = share::find(shell, account, name, None).await?;
    let view = shell.engine.view(&share::partition(account, name)).await?;
    let all = load_all(&Reader::committed(view.as_ref()), found.head.incarnation).await?;
    Ok(all.into_iter().map(|(taken, _)| taken).collect())
}

/// Snapshot Share: the share, which it leaves as it is, and the snapshot's id. Without metadata of its own it has the share's.
pub async fn take(
    shell: &Shell,
    account: &AccountName,
    name: &ShareName,
    metadata: Option<Metadata>,
) -> Result<(ShareHead, Timestamp), Failure> {
    let found = share::find(shell, account, name, None).await?;
    if found.head.snapshots as usize >= SHARE_SNAPSHOTS_MAX {
        return Err(ErrorCode::ShareSnapshotCountExceeded.into());
    }
    let begin = BeginGeneration { partition: key::tree_partition(found.group()) };
    let seen = found.settle(shell, shell.execute(&begin).await).await?;
    let incarnation = found.head.incarnation;
    let note = NoteSnapshot { partition: share::partition(account, name), incarnation, seen, metadata };
    match shell.execute(&note).await {
        Ok(head) => Ok((head, seen.taken)),
        Err(Failure::Refused(refusal)) => {
            forget(shell, begin.partition, vec![seen.generation]).await?;
            Err(refusal.into())
        }
        Err(failure) => Err(failure),
    }
}

/// Ends the tree's generation: what is written from here on no earlier snapshot sees.
struct BeginGeneration {
    partition: PartitionId,
}

impl Command for BeginGeneration {
    type Records = ShareState;
    type Outcome = SeenBy;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<ShareState, Fault> {
        tree::state(reader).await
    }

    fn check(&self, _state: &ShareState, _now: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, mut state: ShareState, moment: Moment) -> Result<(Vec<Write>, SeenBy), Refusal> {
        let seen = SeenBy { generation: state.generation, taken: next_id(state.last_snapshot, moment.now) };
        state.generation += 1;
        state.snapshots.push(seen);
        state.last_snapshot = Some(seen.taken);
        Ok((put_state(&state), seen))
    }
}

/// Ids of snapshots are whole seconds, as with the service, and no two are the same.
fn next_id(last: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let now = Timestamp::from_ticks(now.ticks() - now.ticks() % TICKS_PER_SECOND);
    last.map_or(now, |last| now.max(last.plus_seconds(1)))
}

/// Notes what a generation was ended for.
struct NoteSnapshot {
    partition: PartitionId,
    incarnation: Id,
    seen: SeenBy,
    metadata: Option<Metadata>,
}

impl Command for NoteSnapshot {
    type Records = Option<ShareHead>;
    type Outcome = ShareHead;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        load(reader).await
    }

    fn check(&self, head: &Self::Records, now: Timestamp) -> Result<(), Refusal> {
        match head {
            Some(head) if head.incarnation == self.incarnation => {
                if head.snapshots as usize >= SHARE_SNAPSHOTS_MAX {
                    return Err(ErrorCode::ShareSnapshotCountExceeded.into());
                }
            }
            _ => return Err(ErrorCode::ShareNotFound.into()),
        }
        if now > self.seen.taken.plus_seconds(NOTED_SECONDS_MAX) {
            return Err(ErrorCode::OperationTimedOut.into());
        }
        Ok(())
    }

    fn decide(&self, head: Self::Records, moment: Moment) -> Result<(Vec<Write>, ShareHead), Refusal> {
        self.check(&head, moment.now)?;
        let mut head = head.ok_or(ErrorCode::ShareNotFound)?;
        let metadata = self.metadata.clone().unwrap_or_else(|| head.metadata.clone());
        let then = ShareHead { metadata, lease: None, snapshots: 0, ..head.clone() };
        let snapshot = ShareSnapshot { head: then, generation: self.seen.generation };
        head.snapshots += 1;
        Ok((vec![put_snapshot(self.seen.taken, &snapshot), put(&head)], head))
    }
}

/// Delete Share of a snapshot.
pub async fn delete(
    shell: &Shell,
    account: &AccountName,
    name: &ShareName,
    taken: Timestamp,
    expectation: Expectation,
) -> Result<(), Failure> {
    let command = DeleteSnapshot { partition: share::partition(account, name), taken, expectation };
    let (incarnation, generation) = shell.execute(&command).await?;
    let group = key::contents_group(Service::File, account, incarnation);
    forget(shell, key::tree_partition(&group), vec![generation]).await.map(|_| ())
}

/// Tells how many of them the tree still knew.
pub async fn forget(shell: &Shell, partition: PartitionId, generations: Vec<u64>) -> Result<usize, Failure> {
    match shell.execute(&ForgetGenerations { partition, generations }).await {
        // The share went, and its tree with it.
        Err(Failure::Gone) => Ok(0),
        done => done,
    }
}

struct DeleteSnapshot {
    partition: PartitionId,
    taken: Timestamp,
    expectation: Expectation,
}

impl Command for DeleteSnapshot {
    type Records = Subject;
    /// Whose generation is left to be forgotten.
    type Outcome = (Id, u64);

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Subject, Fault> {
        Subject::load(reader, Some(self.taken)).await
    }

    fn check(&self, subject: &Subject, now: Timestamp) -> Result<(), Refusal> {
        subject.judge(&self.expectation, now)
    }

    fn decide(&self, subject: Subject, moment: Moment) -> Result<(Vec<Write>, Self::Outcome), Refusal> {
        self.check(&subject, moment.now)?;
        let mut head = subject.head.ok_or(ErrorCode::ShareNotFound)?;
        let generation = subject.snapshot.ok_or(ErrorCode::ShareSnapshotNotFound)?.generation;
        head.snapshots = head.snapshots.saturating_sub(1);
        let writes = vec![take_away_snapshot(head.incarnation, self.taken), put(&head)];
        Ok((writes, (head.incarnation, generation)))
    }
}

/// Tells the tree that nobody sees these generations any more: what only they saw is housekeeping's from here on.
struct ForgetGenerations {
    partition: PartitionId,
    generations: Vec<u64>,
}

impl Command for ForgetGenerations {
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

    fn decide(&self, mut state: ShareState, _moment: Moment) -> Result<(Vec<Write>, usize), Refusal> {
        let before = state.snapshots.len();
        state.snapshots.retain(|snapshot| !self.generations.contains(&snapshot.generation));
        match before - state.snapshots.len() {
            0 => Ok((Vec::new(), 0)),
            forgotten => Ok((put_state(&state), forgotten)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_whole_seconds_and_never_the_same() {
        let at = |seconds: u64, ticks: u64| Timestamp::from_ticks(seconds * TICKS_PER_SECOND + ticks);
        for (last, now, expected) in [
            (None, at(5, 0), at(5, 0)),
            (None, at(5, 9_999_999), at(5, 0)),
            (Some(at(4, 0)), at(5, 1), at(5, 0)),
            (Some(at(5, 0)), at(5, 1), at(6, 0)),
            (Some(at(6, 0)), at(5, 1), at(7, 0)),
        ] {
            assert_eq!(next_id(last, now), expected, "{last:?} {now:?}");
        }
    }
}
