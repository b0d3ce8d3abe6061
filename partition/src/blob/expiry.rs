//! Blobs whose time runs out. Nobody sees them from then on, whether or not they have been cleared away; EXPIRING says which those are.

use bytes::Bytes;
use contract::Refusal;
use contract::names::AccountName;
use engine::{BoxFuture, Family, Fault, PartitionId, Write};
use env::Timestamp;

use super::body::{self, Place};
use super::state::{KEY, Keeping, Whole, delete_head};
use crate::execute::{Command, Failure, Moment, Reader, Shell};
use crate::housekeeping::RowChore;
use crate::key::container;
use crate::record::{corrupt, read_u64};

/// What housekeeping is told when a blob gets or loses its end.
pub(super) fn index(before: Option<Timestamp>, after: Option<Timestamp>) -> Option<Write> {
    if before == after {
        return None;
    }
    let (family, key) = (container::EXPIRING, KEY);
    Some(match after {
        Some(due) => {
            Write::Put { family, key, value: Bytes::copy_from_slice(&due.ticks().to_be_bytes()), slices: Vec::new() }
        }
        None => Write::Delete { family, key },
    })
}

/// Takes a blob away whose time has run out; what is staged for another in its place stays.
struct DropExpired {
    partition: PartitionId,
}

impl Command for DropExpired {
    type Records = Whole;
    type Outcome = bool;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Whole, Fault> {
        Whole::load(reader, Keeping::default(), false).await
    }

    fn check(&self, _whole: &Whole, _now: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, whole: Whole, moment: Moment) -> Result<(Vec<Write>, bool), Refusal> {
        let Some(head) = whole.head.as_ref().filter(|head| !head.is_there(moment.now)) else {
            return Ok((Vec::new(), false));
        };
        let mut writes = delete_head(head);
        writes.extend(whole.body.replace(&Place::CURRENT, Vec::new()));
        writes.extend(whole.blocks.as_ref().map(|_| body::delete_block_list(&Place::CURRENT)));
        Ok((writes, false))
    }
}

pub(crate) struct ExpiredBlobs;

impl RowChore for ExpiredBlobs {
    fn family(&self) -> Family {
        container::EXPIRING
    }

    fn is_due(&self, _key: &[u8], value: &[u8], now: Timestamp) -> Result<bool, Fault> {
        let due = read_u64(value).ok_or_else(|| corrupt("the end of a blob", value))?;
        Ok(now.ticks() >= due)
    }

    fn clear<'a>(
        &'a self,
        shell: &'a Shell,
        _account: &'a AccountName,
        partition: &'a PartitionId,
        _key: &'a Bytes,
    ) -> BoxFuture<'a, Result<bool, Failure>> {
        Box::pin(async move { shell.execute(&DropExpired { partition: partition.clone() }).await })
    }
}
