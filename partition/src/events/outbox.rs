//! What is kept in memory of events: who is subscribed, which containers are noted, and what was committed a moment ago.
//!
//! All of it may be lost. What is told here lies in a record, too; what does not fit is found by the next round.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bytes::Bytes;
use contract::names::AccountName;
use engine::{GroupId, PartitionId, Write};
use env::Timestamp;
use tokio::sync::mpsc;

use super::{Announcement, NOTE_SECONDS, Place, note};
use crate::execute::{Failure, Shell};
use crate::key::container;
use crate::record::event::EventKind;
use crate::turns::lock;

/// Events that wait in memory to be taken up; more wait on the disk.
const TOLD_MAX: usize = 10_000;
/// Containers that are remembered to be noted; the others are noted again.
const NOTED_MAX: usize = 10_000;

/// Who wants to hear of what.
pub trait Subscribers: Send + Sync {
    /// The names of those who want it.
    fn wanting(&self, account: &AccountName, container: &str, blob: &str, kind: EventKind) -> Vec<String>;
}

/// An event that is committed.
pub struct Told {
    pub place: Place,
    pub value: Bytes,
    /// This process wrote it a moment ago: nobody else has it, and it counts even if its record should be gone with its container.
    pub is_fresh: bool,
}

pub struct Outbox {
    subscribers: RwLock<Option<Arc<dyn Subscribers>>>,
    /// When this process noted a container last.
    noted: Mutex<HashMap<GroupId, Timestamp>>,
    tell: mpsc::Sender<Told>,
    told: Mutex<Option<mpsc::Receiver<Told>>>,
    /// Something is on the disk that was not told.
    is_behind: AtomicBool,
}

impl Default for Outbox {
    fn default() -> Self {
        let (tell, told) = mpsc::channel(TOLD_MAX);
        Outbox {
            subscribers: RwLock::default(),
            noted: Mutex::default(),
            tell,
            told: Mutex::new(Some(told)),
            is_behind: AtomicBool::new(true),
        }
    }
}

impl Outbox {
    /// From here on these are told, and nobody else.
    pub fn set_subscribers(&self, subscribers: Option<Arc<dyn Subscribers>>) {
        *self.subscribers.write().unwrap_or_else(PoisonError::into_inner) = subscribers;
    }

    /// The names of those who want to hear of it. None are asked for where nobody is subscribed.
    pub fn wanting(&self, account: &AccountName, container: &str, blob: &str, kind: EventKind) -> Vec<String> {
        let subscribers = self.subscribers.read().unwrap_or_else(PoisonError::into_inner).clone();
        subscribers.map_or(Vec::new(), |subscribers| subscribers.wanting(account, container, blob, kind))
    }

    /// The container is noted when this returns.
    pub(crate) async fn note(&self, shell: &Shell, group: &GroupId, of: &Announcement) -> Result<(), Failure> {
        let now = shell.clock.now();
        let is_noted = |at: &Timestamp| *at <= now && now < at.plus_seconds(NOTE_SECONDS);
        if lock(&self.noted).get(group).is_some_and(is_noted) {
            return Ok(());
        }
        note(shell, &of.account, group, now).await?;
        let mut noted = lock(&self.noted);
        if noted.len() >= NOTED_MAX {
            noted.clear();
        }
        noted.insert(group.clone(), now);
        Ok(())
    }

    /// What was committed is to be delivered.
    pub(crate) fn committed(&self, partition: &PartitionId, writes: &[Write]) {
        for write in writes {
            if let Write::Put { family: container::EVENT, key, value, .. } = write {
                let place = Place { partition: partition.clone(), key: key.clone() };
                self.tell(Told { place, value: value.clone(), is_fresh: true });
            }
        }
    }

    pub fn tell(&self, told: Told) {
        if self.tell.try_send(told).is_err() {
            self.fall_behind();
        }
    }

    /// There may be something on the disk that nobody was told of.
    pub fn fall_behind(&self) {
        self.is_behind.store(true, Ordering::Release);
    }

    /// Whether that is so; from here on it is the caller's to look.
    pub fn catch_up(&self) -> bool {
        self.is_behind.swap(false, Ordering::AcqRel)
    }

    /// For the one who delivers. `None` if there is one already.
    pub fn take_told(&self) -> Option<mpsc::Receiver<Told>> {
        lock(&self.told).take()
    }
}
