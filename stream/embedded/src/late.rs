//! The thread that sees to it that nothing stays buffered for long.
//!
//! It sleeps until the commit thread shows the first buffered commit, waits a moment for others, and asks for a sync. Bodies
//! are synced here first: while the commit thread does that, everybody waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::segments::Segments;
use crate::store::Change;
use crate::thread::{Queue, Stop};

/// How often segments are synced before the commit thread is asked to. The second pass takes what was written during the
/// first, and leaves little.
pub const PASSES: usize = 2;

/// How the commit thread tells that something is buffered. The thread ends when this is gone.
pub struct Alarm {
    sender: Sender<()>,
    is_set: Arc<AtomicBool>,
}

impl Alarm {
    pub fn set(&self) {
        if !self.is_set.swap(true, Ordering::AcqRel) {
            // Without the thread, commits are synced when somebody asks, or at the end.
            let _ = self.sender.send(());
        }
    }
}

/// What waits for the alarm.
pub struct Late {
    receiver: Receiver<()>,
    is_set: Arc<AtomicBool>,
    sync_within: Duration,
}

pub fn alarm(sync_within: Duration) -> (Alarm, Late) {
    let (sender, receiver) = channel();
    let is_set = Arc::new(AtomicBool::new(false));
    (Alarm { sender, is_set: Arc::clone(&is_set) }, Late { receiver, is_set, sync_within })
}

impl Late {
    pub fn start(self, queue: Queue, segments: Arc<Segments>, stop: Arc<Stop>) -> std::io::Result<JoinHandle<()>> {
        std::thread::Builder::new().name("lazuli:sync".to_owned()).spawn(move || self.run(&queue, &segments, &stop))
    }

    fn run(self, queue: &Queue, segments: &Segments, stop: &Stop) {
        while self.receiver.recv().is_ok() {
            if self.receiver.recv_timeout(self.sync_within) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
            // From here on a commit sets the alarm anew: it may come too late for this sync.
            self.is_set.store(false, Ordering::Release);
            for _ in 0..PASSES {
                if let Err(error) = segments.sync_all() {
                    stop.set(format!("syncing a segment: {error}"));
                    return;
                }
            }
            // Whoever needs to know that it failed is told when they sync.
            let _ = queue.run_blocking(Change::Sync);
        }
    }
}
