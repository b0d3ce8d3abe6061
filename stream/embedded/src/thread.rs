//! The async face of the core: a queue in, group commit, answers out.
//!
//! One thread takes whatever is queued, applies it as one group and answers everyone in it; what came in the meantime is the
//! next group. A request once queued is carried out whether or not its caller still waits.
//!
//! To wake a thread, and to be woken by it, costs as much as a sync on a fast disk. So who finds nobody at work and nothing to
//! share works in its own thread: a buffered commit, which is staged and shown and waits for no disk; and a synced one where
//! callers come one at a time. Whoever works has the desk, and with it the core. Callers never wait for it. While the thread
//! writes what is buffered, and only that, it leaves the desk to others.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use engine::{CommitError, Fault, Write};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

use crate::key::Address;
use crate::store::{Change, Core, Leaving, Outcome};

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

/// Where changes are applied, by one at a time.
struct Desk {
    /// `None` once it is closed.
    core: Option<Core>,
    /// How many were in the last two groups that were synced.
    last: usize,
    before_last: usize,
    /// Hears of extents that may be worth moving.
    shrunk: Box<dyn Fn(Vec<Address>) + Send>,
}

impl Desk {
    /// Applies a group, and says to each of its changes what became of it; and what is to be written before those that are synced
    /// may be told.
    fn apply(&mut self, changes: Vec<Change>, stop: &Stop) -> (Vec<Outcome>, Option<Arc<Leaving>>) {
        let count = changes.len();
        if changes.iter().any(Change::is_synced) {
            (self.before_last, self.last) = (self.last, count);
        }
        self.work(stop, |core| core.apply(changes.into_iter()))
            .unwrap_or_else(|fault| ((0..count).map(|_| Err(CommitError::Fault(fault.clone()))).collect(), None))
    }

    /// Stages one buffered commit and shows it; and tells whether it is time to write.
    fn apply_buffered(&mut self, change: Change, stop: &Stop) -> (Outcome, bool) {
        let applied = self.work(stop, |core| core.apply_buffered(change));
        applied.unwrap_or_else(|fault| (Err(CommitError::Fault(fault)), false))
    }

    /// What was being written is there, or nobody knows.
    fn landed(&mut self, leaving: &Leaving, written: Result<(), Fault>, stop: &Stop) -> Result<(), Fault> {
        self.work(stop, |core| {
            written?;
            core.landed(leaving);
            Ok(())
        })
    }

    /// May a buffered commit be made without writing anything?
    fn has_room(&self) -> bool {
        self.core.as_ref().is_some_and(Core::has_room)
    }

    /// Is there nobody to share a sync with, and nothing to wait for?
    fn is_lonely(&self) -> bool {
        self.last <= 1 && self.before_last <= 1 && !self.core.as_ref().is_some_and(Core::is_leaving)
    }

    /// Nothing is applied after a failure.
    fn work<T>(&mut self, stop: &Stop, work: impl FnOnce(&mut Core) -> Result<T, Fault>) -> Result<T, Fault> {
        // A segment's sync may have failed while these were queued: what they name may not be on the disk.
        let Some(core) = self.core.as_mut().filter(|_| stop.check().is_ok()) else { return Err(stop.fault()) };
        let done = caught(|| {
            let done = work(core)?;
            Ok((done, core.take_shrunk()))
        });
        match done {
            Ok((done, candidates)) => {
                if !candidates.is_empty() {
                    (self.shrunk)(candidates);
                }
                Ok(done)
            }
            Err(fault) => {
                stop.set(fault.to_string());
                Err(fault)
            }
        }
    }
}

/// A panic in here is a bug met half way through a change: the state in memory is not to be trusted any more.
fn caught<T>(work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    std::panic::catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(Fault::Stopped { why: format!("a commit failed: {}", words(panic.as_ref())) }))
}

/// The way into the commit thread.
#[derive(Clone)]
pub struct Queue {
    sender: Sender<Message>,
    desk: Arc<Mutex<Desk>>,
    stop: Arc<Stop>,
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

    /// Does it in the caller's thread, if nobody is at work and nothing is won by waiting for others; otherwise gives it back.
    fn run_here(&self, change: Change) -> Result<Outcome, Change> {
        let Ok(mut desk) = self.desk.try_lock() else { return Err(change) };
        if !change.is_synced() {
            if !desk.has_room() {
                return Err(change);
            }
            let (outcome, is_due) = desk.apply_buffered(change, &self.stop);
            drop(desk);
            if is_due {
                // Nobody waits for it. A thread that is gone has written all there was, or cannot any more.
                let _ = self.push(Change::Sync);
            }
            return Ok(outcome);
        }
        // A thread of the runtime's may stand still where others take over its tasks.
        let may_block = Handle::try_current().is_ok_and(|on| on.runtime_flavor() == RuntimeFlavor::MultiThread);
        if !may_block || !desk.is_lonely() {
            return Err(change);
        }
        let written = tokio::task::block_in_place(|| {
            let (mut outcomes, leaving) = desk.apply(vec![change], &self.stop);
            if let Some(leaving) = leaving {
                let written = caught(|| leaving.write());
                desk.landed(&leaving, written, &self.stop).map_err(CommitError::Fault)?;
            }
            outcomes.pop().unwrap_or_else(|| Err(CommitError::Fault(self.stop.fault())))
        });
        Ok(written)
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
    shrunk: impl Fn(Vec<Address>) + Send + 'static,
) -> std::io::Result<(Queue, JoinHandle<Result<(), Fault>>)> {
    let (sender, receiver) = channel();
    let desk = Desk { core: Some(core), last: 0, before_last: 0, shrunk: Box::new(shrunk) };
    let desk = Arc::new(Mutex::new(desk));
    let queue = Queue { sender, desk: Arc::clone(&desk), stop: Arc::clone(&stop) };
    let work = move || {
        let outcome = run(&desk, &receiver, &stop);
        stop.set("the engine was closed".to_owned());
        outcome
    };
    let thread = std::thread::Builder::new().name("lazuli:commit".to_owned()).spawn(work)?;
    Ok((queue, thread))
}

/// Until it is closed. What is buffered then is written.
fn run(desk: &Mutex<Desk>, receiver: &Receiver<Message>, stop: &Stop) -> Result<(), Fault> {
    let mut closing = false;
    while !closing {
        let Ok(first) = receiver.recv() else { break };
        let (mut changes, mut answers) = (Vec::new(), Vec::new());
        let (mut bytes, mut pauses, mut syncs) = (0, 0, false);
        let shares = {
            let desk = lock(desk);
            (desk.last + desk.before_last) / 3
        };
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
            if next.is_none() && !full && syncs && changes.len() < shares && pauses < GATHER_PAUSES_MAX {
                pauses += 1;
                next = receiver.recv_timeout(GATHER_PAUSE).ok();
            }
        }
        if changes.is_empty() {
            continue;
        }
        let is_synced: Vec<bool> = changes.iter().map(Change::is_synced).collect();
        let (outcomes, leaving) = lock(desk).apply(changes, stop);
        let mut waiting = Vec::new();
        for ((answer, outcome), is_synced) in answers.into_iter().zip(outcomes).zip(is_synced) {
            match is_synced && leaving.is_some() {
                true => waiting.push((answer, outcome)),
                // A caller that went away does not want to know.
                false => drop(answer.send(outcome)),
            }
        }
        // Without the desk: others stage meanwhile.
        let Some(leaving) = leaving else { continue };
        let written = caught(|| leaving.write());
        let landed = lock(desk).landed(&leaving, written, stop);
        for (answer, outcome) in waiting {
            let outcome = landed.clone().map_err(CommitError::Fault).and(outcome);
            let _ = answer.send(outcome);
        }
    }
    // Taken out, so that nothing is applied after it and what it holds is let go.
    let core = lock(desk).core.take();
    stop.check()?;
    core.map_or(Ok(()), |mut core| core.finish())
}

fn lock(desk: &Mutex<Desk>) -> std::sync::MutexGuard<'_, Desk> {
    // What can panic while it is held is caught, and then nothing is applied any more.
    desk.lock().unwrap_or_else(PoisonError::into_inner)
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
        Change::Move { moves } => moves.len() * 64,
        Change::Fence { .. } | Change::Swept { .. } | Change::Sync => 64,
    }
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without words".to_owned())
}
