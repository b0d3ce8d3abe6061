//! What is open, for people who look. Each share is looked at for a moment, one after the other.

use std::sync::Arc;

use contract::Service;
use contract::names::AccountName;
use engine::GroupId;

use super::{ByteRange, Handle, LockKind, OpenFiles, Rights};
use crate::key;
use crate::turns::lock;

/// A handle as it is now.
#[derive(Clone, Debug)]
pub struct OpenNow {
    pub share: GroupId,
    pub handle: Arc<Handle>,
    pub locks: Vec<(ByteRange, LockKind)>,
    /// What its client keeps of the file: whether by a lease, and which rights.
    pub caching: Option<(bool, Rights)>,
    pub is_delete_pending: bool,
}

/// How much is open in all.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    pub handles: usize,
    pub locks: usize,
}

/// Locks that are told of one handle.
const LOCKS_SHOWN_MAX: usize = 100;

impl OpenFiles {
    /// Handles of an account, at most `max`; and whether that is all.
    pub fn look(&self, account: &AccountName, max: usize) -> (Vec<OpenNow>, bool) {
        let mut found = Vec::new();
        for shard in &self.0.shards {
            let shard = lock(shard);
            for (group, opens) in shard.iter().filter(|(group, _)| key::is_of_account(group, Service::File, account)) {
                for handle in opens.handles.values() {
                    if found.len() == max {
                        return (found, false);
                    }
                    let Some(open) = opens.files.get(&handle.opening.file) else { continue };
                    let own = open.locks.iter().filter(|lock| lock.owner == handle.id).take(LOCKS_SHOWN_MAX);
                    let caching = open.caching.get(&handle.holder());
                    found.push(OpenNow {
                        share: group.clone(),
                        handle: handle.clone(),
                        locks: own.map(|lock| (lock.range, lock.kind)).collect(),
                        caching: caching.map(|caching| (caching.is_lease(), caching.rights())),
                        is_delete_pending: open.is_delete_pending,
                    });
                }
            }
        }
        (found, true)
    }

    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for shard in &self.0.shards {
            for opens in lock(shard).values() {
                counts.handles += opens.handles.len();
                counts.locks += opens.files.values().map(|open| open.locks.len()).sum::<usize>();
            }
        }
        counts
    }
}
