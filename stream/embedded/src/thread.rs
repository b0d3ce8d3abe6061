//! The async face of the core: a queue in, group commit, answers out.
//!
//! One thread takes whatever is queued, applies it as one group and answers everyone in it; what came in the meantime is the
//! next group. A request once queued is carried out whether or not its caller still waits.
//!
//! The core belongs to whoever has it locked: that thread, for as long as a group takes; or, while the thread has nothing to
//! do, the caller of a buffered commit, which is staged and shown and waits for no disk. To wake a thread for that, and to be
//! woken by it, would cost several times as much. Callers never wait for the lock.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

use engine::{CommitError, Fault, Write};
use tokio::sync::oneshot;

use crate::key::Address;
use crate::store::{Change, Core, Outcome};

/// Bounds of one group: enough to share a sync among many, little enough that the first need not wait for long.
const GROUP_REQUESTS_MAX: usize = 1024;
const GROUP_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How long the next of several callers is waited for. Callers answered together ask again within moments of each other;
/// a group that begins with the first of them alone makes all others wait for a sync of its own.
const GATHER_PAUSE: Duration = Duration::from_micros(100);
const GATHER_PAUSES_MAX: usize = 16;

/// Why nothing is accepted any more. Set once.
#[derive(Default)]
pub struct Stop(OnceLock<String>);

impl Stop {
    pub fn set(&self, why: String) {
        // The first reason is the one that explains the others.
        let _ = self.0.set(why);
    }

    pub fn check(&self) -> Result<(), Fault> {
        match self.0.get() {
            None => Ok(()),
            Some(why) => Err(Fault::Stopped { why: why.clone() }),
        }
    }

    fn fault(&self) -> Fault {
        let why = self.0.get().cloned().unwrap_or_else(|| "the engine was closed".to_owned());
        Fault::Stopped { why }
    }
}

struct Request {
    change: Change,
    answer: oneshot::Sender<Outcome>,
}

enum Message {
    Do(Request),
    Close,
}

/// The core, until it is closed; and who hears of extents that may be worth moving.
struct Shared {
    core: Mutex<Option<Core>>,
    shrunk: Box<dyn Fn(Vec<Address>) + Send + Sync>,
}

/// A caller panicked under the lock.
const POISONED: &str = "a buffered commit failed half way";

impl Shared {
    /// Waits for nobody.
    fn try_lock(&self, stop: &Stop) -> Option<MutexGuard<'_, Option<Core>>> {
        match self.core.try_lock() {
            Ok(locked) => Some(locked),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(_)) => {
                stop.set(POISONED.to_owned());
                None
            }
        }
    }

    fn tell_shrunk(&self, core: &mut Core) {
        let candidates = core.take_shrunk();
        if !candidates.is_empty() {
            (self.shrunk)(candidates);
        }
    }

    /// Nobody has it after this.
    fn take(&self) -> Option<Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The way into the commit thread.
#[derive(Clone)]
pub struct Queue {
    sender: Sender<Message>,
    stop: Arc<Stop>,
    shared: Arc<Shared>,
}

impl Queue {
    pub async fn run(&self, change: Change) -> Outcome {
        let change = match self.run_here(change) {
            Ok(outcome) => return outcome,
            Err(change) => change,
        };
        let answer = self.push(change)?;
        answer.await.unwrap_or_else(|_| Err(CommitError::Fault(self.stop.fault())))
    }

    /// Does it at once, if it is buffered and nobody else is at work; otherwise gives it back.
    fn run_here(&self, change: Change) -> Result<Outcome, Change> {
        if change.is_synced() {
            return Err(change);
        }
        let Some(mut locked) = self.shared.try_lock(&self.stop) else { return Err(change) };
        let Some(core) = locked.as_mut().filter(|core| core.has_room() && self.stop.check().is_ok()) else {
            return Err(change);
        };
        let outcome = core.apply_buffered(change).unwrap_or_else(|fault| {
            self.stop.set(fault.to_string());
            Err(CommitError::Fault(fault))
        });
        self.shared.tell_shrunk(core);
        Ok(outcome)
    }

    /// The same for threads of our own.
    pub fn run_blocking(&self, change: Change) -> Outcome {
        let answer = self.push(change)?;
        answer.blocking_recv().unwrap_or_else(|_| Err(CommitError::Fault(self.stop.fault())))
    }

    /// Lets the thread finish what is queued and end.
    pub fn close(&self) {
        // If the thread is gone already there is nothing to close.
        let _ = self.sender.send(Message::Close);
    }

    fn push(&self, change: Change) -> Result<oneshot::Receiver<Outcome>, CommitError> {
        self.stop.check().map_err(CommitError::Fault)?;
        let (answer, receiver) = oneshot::channel();
        let sent = self.sender.send(Message::Do(Request { change, answer }));
        sent.map_err(|_| CommitError::Fault(self.stop.fault()))?;
        Ok(receiver)
    }
}

/// Starts the commit thread. `shrunk` hears of extents that may be worth moving.
pub fn start(
    core: Core,
    stop: Arc<Stop>,
    shrunk: impl Fn(Vec<Address>) + Send + Sync + 'static,
) -> std::io::Result<(Queue, JoinHandle<Result<(), Fault>>)> {
    let (sender, receiver) = channel();
    let shared = Arc::new(Shared { core: Mutex::new(Some(core)), shrunk: Box::new(shrunk) });
    let queue = Queue { sender, stop: Arc::clone(&stop), shared: Arc::clone(&shared) };
    let work = move || {
        // A panic here is a bug met half way through a change: the state in memory is not to be trusted any more.
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| run(&shared, &receiver, &stop)));
        let outcome = outcome.unwrap_or_else(|panic| {
            let why = format!("the commit thread failed: {}", words(panic.as_ref()));
            stop.set(why.clone());
            Err(Fault::Stopped { why })
        });
        stop.set("the engine was closed".to_owned());
        // Its alarm goes with it, by which the thread that syncs late knows.
        drop(shared.take());
        outcome
    };
    let thread = std::thread::Builder::new().name("lazuli:commit".to_owned()).spawn(work)?;
    Ok((queue, thread))
}

/// Until it is closed. What is buffered then is written.
fn run(shared: &Shared, receiver: &Receiver<Message>, stop: &Stop) -> Result<(), Fault> {
    let mut closing = false;
    let (mut last, mut before_last) = (0, 0);
    while !closing {
        let Ok(first) = receiver.recv() else { break };
        let (mut changes, mut answers) = (Vec::new(), Vec::new());
        let (mut bytes, mut pauses, mut syncs) = (0, 0, false);
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::Close => {
                    closing = true;
                    break;
                }
                Message::Do(request) => {
                    bytes += weight(&request.change);
                    syncs |= request.change.is_synced();
                    changes.push(request.change);
                    answers.push(request.answer);
                }
            }
            let full = changes.len() >= GROUP_REQUESTS_MAX || bytes >= GROUP_BYTES_MAX;
            next = if full { None } else { receiver.try_recv().ok() };
            // A third of those who were in the last two groups: then one part of the callers waits for the disk while the other
            // makes its next request. A lone caller never waits, and nobody does where there is no sync to share.
            if next.is_none()
                && !full
                && syncs
                && changes.len() < (last + before_last) / 3
                && pauses < GATHER_PAUSES_MAX
            {
                pauses += 1;
                next = receiver.recv_timeout(GATHER_PAUSE).ok();
            }
        }
        if syncs {
            (before_last, last) = (last, changes.len());
        }
        if stop.check().is_err() {
            // A segment's sync failed while these were queued: what they name may not be on the disk.
            answers.into_iter().for_each(|answer| drop(answer.send(Err(CommitError::Fault(stop.fault())))));
            continue;
        }
        let Ok(mut locked) = shared.core.lock() else {
            // The answers that nobody gives tell their callers.
            stop.set(POISONED.to_owned());
            continue;
        };
        let Some(core) = locked.as_mut() else { break };
        let applied = core.apply(changes.into_iter());
        shared.tell_shrunk(core);
        drop(locked);
        match applied {
            Ok(outcomes) => {
                for (answer, outcome) in answers.into_iter().zip(outcomes) {
                    // A caller that went away does not want to know.
                    let _ = answer.send(outcome);
                }
            }
            Err(fault) => {
                stop.set(fault.to_string());
                answers.into_iter().for_each(|answer| drop(answer.send(Err(CommitError::Fault(fault.clone())))));
            }
        }
    }
    if shared.core.is_poisoned() {
        stop.set(POISONED.to_owned());
    }
    // Taken first: a commit that came now would not be written.
    let core = shared.take();
    stop.check()?;
    core.map_or(Ok(()), |mut core| core.finish())
}

fn weight(change: &Change) -> usize {
    match change {
        Change::Commit { batch, .. } => {
            let of = |write: &Write| match write {
                Write::Put { key, value, slices, .. } => key.len() + value.len() + slices.len() * 64 + 64,
                Write::Delete { key, .. } => key.len() + 64,
            };
            batch.writes.iter().map(of).sum()
        }
        Change::Remove { keys } => keys.iter().map(|key| key.len() + 64).sum(),
        Change::Fence { .. } | Change::Swept { .. } | Change::Move { .. } | Change::Sync => 64,
    }
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without words".to_owned())
}
