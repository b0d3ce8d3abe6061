//! What copies to blobs and to files share: how a copy goes on from pending to its end, and the notes on those that are pending.
//!
//! A destination whose copy is pending is empty and refuses writes. What has arrived so far belongs to nobody until the copy is finished in
//! one commit, so a crash leaves the destination pending and no half of it. A note in a partition of its own names every pending
//! copy: it is there before the destination is, and goes after the destination is settled, so that a start finds each of them without
//! looking through everything that there is. A note too many is harmless.

use std::ops::Bound;

use bytes::Bytes;
use contract::names::AccountName;
use contract::{ErrorCode, Refusal};
use engine::{Fault, KeyRange, PartitionId, Write};
use env::{Id, Timestamp};

use crate::content::Content;
use crate::execute::{Blind, Command, Failure, Moment, Reader, Shell};
use crate::key;
use crate::record::blob::{CopyState, CopyStatus};
use crate::record::note::PendingCopy;

/// What happens to a pending copy.
pub enum Step {
    /// So many bytes have arrived. ETag and dates stay.
    Arrived(u64),
    Finished {
        content: Content,
        md5: [u8; 16],
    },
    Failed(String),
    /// By its owner.
    Aborted,
}

impl CopyState {
    /// One that is begun, of a source with so many bytes.
    pub fn pending(id: Id, source: String, bytes: u64) -> CopyState {
        let status = CopyStatus::Pending;
        CopyState { id, source, status, bytes_done: 0, bytes, completed: None, description: None, incremental: None }
    }

    /// One that was done at once.
    pub fn success(id: Id, source: String, bytes: u64, now: Timestamp) -> CopyState {
        let (status, completed) = (CopyStatus::Success, Some(now));
        CopyState { status, bytes_done: bytes, completed, ..CopyState::pending(id, source, bytes) }
    }

    pub fn is_pending(&self) -> bool {
        self.status == CopyStatus::Pending
    }

    /// Its state after the step.
    pub fn after(mut self, step: &Step, now: Timestamp) -> CopyState {
        match step {
            Step::Arrived(arrived) => {
                self.bytes_done = *arrived;
                return self;
            }
            Step::Finished { content, .. } => {
                (self.status, self.bytes_done, self.bytes) = (CopyStatus::Success, content.bytes(), content.bytes());
            }
            Step::Failed(description) => {
                (self.status, self.description) = (CopyStatus::Failed, Some(description.clone()));
            }
            Step::Aborted => self.status = CopyStatus::Aborted,
        }
        self.completed = Some(now);
        self
    }
}

/// The pending copy that a step is about, if it is the one that is there.
pub fn must_be_pending(copy: Option<&CopyState>, id: Id) -> Result<&CopyState, Refusal> {
    match copy.filter(|copy| copy.is_pending()) {
        None => Err(ErrorCode::NoPendingCopyOperation.into()),
        Some(copy) if copy.id != id => Err(ErrorCode::CopyIdMismatch.into()),
        Some(copy) => Ok(copy),
    }
}

/// What reading the source would answer, as the copy's own refusal.
pub fn of_source(refusal: &Refusal) -> Refusal {
    cannot_verify(refusal.status, Some(refusal.code.name()), refusal.message())
}

/// CannotVerifyCopySource with the source's own status.
pub fn cannot_verify(status: u16, code: Option<&str>, message: &str) -> Refusal {
    let refusal = Refusal::from(ErrorCode::CannotVerifyCopySource).status(status).saying(message);
    let refusal = refusal.header("x-ms-copy-source-status-code", status.to_string());
    match code {
        Some(code) => refusal.header("x-ms-copy-source-error-code", code),
        None => refusal,
    }
}

/// Puts the note on a pending copy.
pub fn note_copy(account: &AccountName, id: Id, note: &PendingCopy) -> Blind {
    Blind { partition: key::copies_partition(account), writes: vec![put_note(id, note)] }
}

/// Takes it away.
pub fn forget_copy(account: &AccountName, id: Id) -> Blind {
    let write = Write::Delete { family: key::account::PENDING_COPIES, key: note_key(id) };
    Blind { partition: key::copies_partition(account), writes: vec![write] }
}

/// A copy that nobody has tended for so long is made by nobody any more.
const UNTENDED_SECONDS: u64 = 60;

impl PendingCopy {
    /// Is another process at it, as far as can be told?
    pub fn is_tended(&self, now: Timestamp) -> bool {
        now < self.tended.plus_seconds(UNTENDED_SECONDS)
    }
}

/// Says in a copy's note that it is being made, where several processes could make it. Two that make the same copy cost time and harm nothing:
/// it is finished once.
pub struct TendCopy {
    partition: PartitionId,
    id: Id,
    takes_over: bool,
}

impl TendCopy {
    /// By whoever makes it, several times in `UNTENDED_SECONDS`.
    pub fn again(account: &AccountName, id: Id) -> Self {
        TendCopy { partition: key::copies_partition(account), id, takes_over: false }
    }

    /// By whoever would make it, if nobody else does.
    pub fn take_over(account: &AccountName, id: Id) -> Self {
        TendCopy { takes_over: true, ..Self::again(account, id) }
    }
}

impl Command for TendCopy {
    type Records = Option<PendingCopy>;
    /// It is noted, and the caller's to make.
    type Outcome = bool;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        let record = reader.get(key::account::PENDING_COPIES, &note_key(self.id)).await?;
        record.map(|record| PendingCopy::decode(&record.value)).transpose()
    }

    fn check(&self, _note: &Self::Records, _now: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, note: Self::Records, moment: Moment) -> Result<(Vec<Write>, bool), Refusal> {
        let Some(note) = note.filter(|note| !(self.takes_over && note.is_tended(moment.now))) else {
            return Ok((Vec::new(), false));
        };
        Ok((vec![put_note(self.id, &PendingCopy { tended: moment.now, ..note })], true))
    }
}

fn note_key(id: Id) -> Bytes {
    Bytes::copy_from_slice(&id.0.to_be_bytes())
}

fn put_note(id: Id, note: &PendingCopy) -> Write {
    let (family, key) = (key::account::PENDING_COPIES, note_key(id));
    Write::Put { family, key, value: note.encode(), slices: Vec::new() }
}

/// The copies that an account has noted.
pub async fn noted(shell: &Shell, account: &AccountName) -> Result<Vec<(Id, PendingCopy)>, Failure> {
    let view = shell.engine.view(&key::copies_partition(account)).await?;
    let all = KeyRange { start: Bound::Unbounded, end: Bound::Unbounded };
    let mut copies = Vec::new();
    for (key, record) in view.scan(key::account::PENDING_COPIES, &all, usize::MAX).await? {
        let id = key.as_ref().try_into().map_err(|_| crate::record::corrupt("the id of a copy", &key))?;
        copies.push((Id(u128::from_be_bytes(id)), PendingCopy::decode(&record.value)?));
    }
    Ok(copies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_goes_on_to_one_of_three_ends() {
        let begun = CopyState::pending(Id(1), "s".into(), 9);
        let content = Content::Inline(Bytes::from_static(b"bytes"));
        let now = Timestamp::from_ticks(7);
        for (step, status, done, bytes, ended, description) in [
            (Step::Arrived(4), CopyStatus::Pending, 4, 9, false, None),
            (Step::Finished { content, md5: [0; 16] }, CopyStatus::Success, 5, 5, true, None),
            (Step::Failed("why".into()), CopyStatus::Failed, 0, 9, true, Some("why")),
            (Step::Aborted, CopyStatus::Aborted, 0, 9, true, None),
        ] {
            let after = begun.clone().after(&step, now);
            assert_eq!((after.status, after.bytes_done, after.bytes), (status, done, bytes));
            assert_eq!((after.completed.is_some(), after.description.as_deref()), (ended, description));
        }
    }

    #[test]
    fn a_copy_is_taken_over_when_nobody_tends_it() {
        let (account, id) = (AccountName::parse("abc").expect("right"), Id(1));
        let started = Timestamp::UNIX_EPOCH.plus_seconds(1000);
        let group = engine::GroupId(Bytes::from_static(b"b"));
        let note =
            PendingCopy { group, blob: None, source: "s".into(), etag: None, started, tended: started, asked: None };
        for (command, seconds, is_noted, expected) in [
            (TendCopy::take_over(&account, id), 59, true, false),
            (TendCopy::take_over(&account, id), 60, true, true),
            (TendCopy::take_over(&account, id), 60, false, false),
            (TendCopy::again(&account, id), 20, true, true),
            (TendCopy::again(&account, id), 20, false, false),
        ] {
            let now = started.plus_seconds(seconds);
            let moment = Moment { now, tick: 1, id: Id(2) };
            let (writes, outcome) = command.decide(is_noted.then(|| note.clone()), moment).expect("never refused");
            assert_eq!(outcome, expected, "{seconds}");
            let tended = PendingCopy { tended: now, ..note.clone() };
            assert_eq!(writes, if expected { vec![put_note(id, &tended)] } else { Vec::new() });
        }
    }

    #[test]
    fn only_the_pending_copy_can_be_settled() {
        let pending = CopyState::pending(Id(1), "s".into(), 9);
        let done = CopyState::success(Id(1), "s".into(), 9, Timestamp::from_ticks(7));
        for (copy, id, expected) in [
            (None, 1, Some(ErrorCode::NoPendingCopyOperation)),
            (Some(&done), 1, Some(ErrorCode::NoPendingCopyOperation)),
            (Some(&pending), 2, Some(ErrorCode::CopyIdMismatch)),
            (Some(&pending), 1, None),
        ] {
            assert_eq!(must_be_pending(copy, Id(id)).err().map(|refusal| refusal.code), expected);
        }
    }
}
