//! When a blob was read last, for accounts that track it. As with the service a day is as exact as it gets, so that reading writes once a
//! day and blob, and not with every read.

use contract::Refusal;
use contract::names::BlobName;
use engine::{Fault, GroupId, PartitionId, Write};
use env::Timestamp;

use super::state::{load_head, put_head};
use crate::execute::{Command, Moment, Reader};
use crate::key;
use crate::record::BlobHead;

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

impl BlobHead {
    /// Is what is known of the last read too old to stay?
    pub fn is_access_due(&self, now: Timestamp) -> bool {
        self.accessed.is_none_or(|accessed| now >= accessed.plus_seconds(SECONDS_PER_DAY))
    }

    /// Until it is read it counts as read when it was made.
    pub fn last_access(&self) -> Timestamp {
        self.accessed.unwrap_or(self.created)
    }
}

/// Notes that a blob was read. Its ETag stays.
pub struct NoteAccess {
    partition: PartitionId,
}

impl NoteAccess {
    pub fn new(group: &GroupId, blob: &BlobName) -> Self {
        NoteAccess { partition: key::blob_partition(group, blob) }
    }
}

impl Command for NoteAccess {
    type Records = Option<BlobHead>;
    type Outcome = ();

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        load_head(reader).await
    }

    fn check(&self, _head: &Self::Records, _now: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, head: Self::Records, moment: Moment) -> Result<(Vec<Write>, ()), Refusal> {
        let due = head.filter(|head| head.is_there(moment.now) && head.is_access_due(moment.now));
        let noted = due.map(|head| put_head(&BlobHead { accessed: Some(moment.now), ..head }));
        Ok((noted.into_iter().collect(), ()))
    }
}
