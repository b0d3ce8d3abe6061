//! Who delivers: from what was told a moment ago and what is found on the disk to attempts, and to what is left of them.
//!
//! 1. Memory is bounded: so many wait in each line and so many for their time. What does not fit is on the disk, and a round finds it.
//! 2. Events of one blob and one subscription stand in one line, and are first tried in order. One subscription that is slow holds up no other.
//! 3. Time is compared with the clock's. That somebody looks now and then is all that is awaited.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use contract::names::AccountName;
use env::Timestamp;
use partition::events::{CLAIM_SECONDS, Claim, Holder, Place, Settle, Told, holders, keep};
use partition::record::event::PendingEvent;
use partition::{Failure, Shell};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::retry::{self, Failed, Next};
use super::{Subscription, send};
use crate::app::App;

/// Attempts of one subscription at the same time, and events that wait in each line for theirs.
const LINES: usize = 8;
const LINE_LENGTH: usize = 256;
/// Events that wait in memory until they are due.
const LATER_MAX: usize = 10_000;

/// Between two looks at the clock: in a round, while something waits, and else.
const STEP_PAUSE: Duration = Duration::from_millis(250);
const WAIT_PAUSE: Duration = Duration::from_secs(1);
const IDLE_PAUSE: Duration = Duration::from_secs(5);
/// Between two rounds, where others share the engine and where nobody does.
const SHARED_ROUND_SECONDS: u64 = 30;
const ROUND_SECONDS: u64 = 3600;

/// An event that is to be delivered.
struct Job {
    account: AccountName,
    place: Place,
    pending: PendingEvent,
    /// It was committed here a moment ago, and is nobody else's.
    is_fresh: bool,
    /// This process tried it last.
    is_ours: bool,
}

impl Job {
    fn found(place: Place, pending: PendingEvent) -> Option<Job> {
        let account = place.account()?;
        Some(Job { account, place, pending, is_fresh: false, is_ours: false })
    }

    fn told(told: Told) -> Option<Job> {
        let pending = PendingEvent::decode(&told.value).ok()?;
        Some(Job { is_fresh: told.is_fresh, is_ours: true, ..Job::found(told.place, pending)? })
    }

    /// The line of its subscription that it stands in.
    fn line(&self) -> usize {
        let mut hasher = DefaultHasher::new();
        (&self.pending.event.container, &self.pending.event.blob).hash(&mut hasher);
        hasher.finish() as usize % LINES
    }
}

/// What a look at an event led to.
enum After {
    /// Delivered, given up, or another's.
    Done,
    Later(Box<Job>),
}

/// What is to be left of an event.
enum Left {
    Nothing,
    Until(Timestamp),
}

fn is_shared(shell: &Shell) -> bool {
    shell.tenures().is_some()
}

/// One attempt, if it is due and nobody else's.
async fn attend(app: &App, mut job: Job) -> Result<After, Failure> {
    let shell = &app.shell;
    if !job.is_fresh {
        let there = match is_shared(shell) {
            true => {
                let left = job.is_ours.then_some(&job.pending);
                shell.execute(&Claim { place: &job.place, left }).await
            }
            false => job.place.read(shell).await.map_err(Failure::from),
        };
        match there {
            Ok(Some(pending)) => job.pending = pending,
            // What a deleted container had lies elsewhere by now, and was told of there.
            Ok(None) | Err(Failure::Gone) => return Ok(After::Done),
            Err(failure) => return Err(failure),
        }
    }
    let now = shell.clock.now();
    if job.pending.due > now {
        return Ok(After::Later(Box::new(job)));
    }
    let subscription = app.subscriptions().find(&job.pending.subscription);
    let given_up = job.pending.given_up.clone();
    let given_up = given_up.or_else(|| retry::is_over(&job.pending, now).map(str::to_string));
    let left = match (given_up, &subscription) {
        (Some(reason), _) => give_up(shell, subscription.as_deref(), &mut job, reason).await,
        // Another gateway, or the next reading of the file, may know it.
        (None, None) => Left::Until(retry::end(&job.pending)),
        (None, Some(subscription)) => match send::send(shell, subscription, &job.account, &job.pending).await {
            Ok(()) => Left::Nothing,
            Err(failed) => failed_once(shell, subscription, &mut job, failed).await,
        },
    };
    settle(shell, job, left).await
}

async fn failed_once(shell: &Shell, subscription: &Subscription, job: &mut Job, failed: Failed) -> Left {
    let now = shell.clock.now();
    job.pending.attempts = job.pending.attempts.saturating_add(1);
    job.pending.last = Some((now, failed.outcome().to_string()));
    let (events, event, attempts) = (&subscription.name, job.pending.event.id, job.pending.attempts);
    match retry::next(&job.pending, failed, now) {
        Next::At(due) => {
            tracing::warn!(events, %event, attempts, ?failed, again = due.iso8601(), "an event was not delivered");
            Left::Until(due)
        }
        Next::GiveUp(reason) => {
            tracing::warn!(events, %event, attempts, ?failed, "an event was not delivered");
            give_up(shell, Some(subscription), job, reason.to_string()).await
        }
    }
}

/// The end of an event that was not delivered.
async fn give_up(shell: &Shell, subscription: Option<&Subscription>, job: &mut Job, reason: String) -> Left {
    let (events, event) = (&job.pending.subscription, job.pending.event.id);
    let Some(into) = subscription.and_then(|subscription| subscription.dead_letter.as_ref()) else {
        let (container, blob) = (&job.pending.event.container, &job.pending.event.blob);
        tracing::error!(events, %event, container, blob, reason, "an event is dropped");
        return Left::Nothing;
    };
    let into_name = into.as_str();
    match send::bury(shell, &job.account, into, &job.pending, &reason).await {
        Ok(()) => {
            tracing::warn!(events, %event, reason, container = into_name, "an event became a dead letter");
            Left::Nothing
        }
        Err(failure) => match retry::dead_letter_again(&job.pending, shell.clock.now()) {
            Some(again) => {
                tracing::error!(events, %event, container = into_name, ?failure, "a dead letter could not be written");
                job.pending.given_up = Some(reason);
                Left::Until(again)
            }
            None => {
                tracing::error!(events, %event, container = into_name, ?failure, reason, "an event is dropped: its dead letter could not be written");
                Left::Nothing
            }
        },
    }
}

async fn settle(shell: &Shell, mut job: Job, left: Left) -> Result<After, Failure> {
    let Left::Until(due) = left else {
        return match shell.execute(&Settle { place: &job.place, to: None }).await {
            Ok(_) | Err(Failure::Gone) => Ok(After::Done),
            Err(failure) => Err(failure),
        };
    };
    (job.pending.due, job.pending.claimed) = (due, due.plus_seconds(CLAIM_SECONDS));
    match shell.execute(&Settle { place: &job.place, to: Some(&job.pending) }).await {
        Ok(true) => {
            (job.is_fresh, job.is_ours) = (false, true);
            Ok(After::Later(Box::new(job)))
        }
        Ok(false) => Ok(After::Done),
        // Its container was deleted beside the write that it tells of.
        Err(Failure::Gone) if job.is_fresh => {
            keep(shell, &job.account, std::slice::from_ref(&job.pending)).await?;
            Ok(After::Done)
        }
        Err(Failure::Gone) => Ok(After::Done),
        Err(failure) => Err(failure),
    }
}

/// Where a look through everything that may hold events is.
struct Round {
    accounts: VecDeque<AccountName>,
    holders: VecDeque<Holder>,
    after: Option<(Bytes, Bytes)>,
    /// Nothing was found so far in the one it is in.
    is_empty: bool,
}

impl Round {
    fn new(app: &App) -> Round {
        let accounts = app.accounts().iter().map(|account| account.name.clone()).collect();
        Round { accounts, holders: VecDeque::new(), after: None, is_empty: true }
    }

    /// Some of what is there; `None` at the end.
    async fn step(&mut self, shell: &Shell) -> Result<Option<Vec<Job>>, Failure> {
        while self.holders.is_empty() {
            let Some(account) = self.accounts.pop_front() else { return Ok(None) };
            self.holders = holders(shell, &account).await?.into();
        }
        let Some(holder) = self.holders.front() else { return Ok(None) };
        let found = holder.look(shell, self.after.take()).await?;
        self.is_empty &= found.events.is_empty();
        self.after = found.next;
        if self.after.is_none() {
            if std::mem::replace(&mut self.is_empty, true) {
                holder.forget(shell).await?;
            }
            self.holders.pop_front();
        }
        let read = |(place, pending): (Place, Result<PendingEvent, _>)| match pending {
            Ok(pending) => Job::found(place, pending),
            Err(fault) => {
                tracing::error!(%fault, ?place, "an event cannot be read and stays where it is");
                None
            }
        };
        Ok(Some(found.events.into_iter().filter_map(read).collect()))
    }
}

/// Everything on the disk that is due, one after another; how many attempts that were. For whoever scripts the clock.
pub async fn deliver_due(app: &App) -> Result<usize, Failure> {
    let (mut round, mut attempts) = (Round::new(app), 0);
    while let Some(jobs) = round.step(&app.shell).await? {
        for job in jobs {
            let now = app.shell.clock.now();
            let is_anothers = is_shared(&app.shell) && job.pending.claimed > now;
            if job.pending.due <= now && !is_anothers {
                attempts += 1;
                attend(app, job).await?;
            }
        }
    }
    Ok(attempts)
}

/// All that is known of events in memory.
struct Deliverer {
    app: Arc<App>,
    lines: HashMap<String, Vec<mpsc::Sender<Job>>>,
    standing: JoinSet<()>,
    report: mpsc::UnboundedSender<(Place, After)>,
    /// In a line, or waiting for its time.
    known: HashSet<Place>,
    later: BTreeMap<(Timestamp, Place), Job>,
}

/// Delivers what is told and what is found. Ends with the process.
pub async fn run(app: Arc<App>) {
    let Some(mut told) = app.shell.outbox.take_told() else { return };
    let (report, mut reports) = mpsc::unbounded_channel();
    let (lines, known, later) = (HashMap::new(), HashSet::new(), BTreeMap::new());
    let mut deliverer = Deliverer { app: app.clone(), lines, standing: JoinSet::new(), report, known, later };
    // Who is wrong about its webhook learns it at the start, not with the first event.
    for subscription in app.subscriptions().iter() {
        let app = app.clone();
        deliverer.standing.spawn(async move {
            let accounts = app.accounts();
            if let Some(account) = subscription.account.as_ref().or(accounts.first().map(|account| &account.name)) {
                let _ = send::validate(&app.shell, &subscription, account).await; // it was said in the log
            }
        });
    }
    let (mut round, mut last_round) = (None, None);
    let mut next_look = Instant::now();
    loop {
        tokio::select! {
            Some(told) = told.recv() => {
                if let Some(job) = Job::told(told) {
                    deliverer.take(job);
                }
            }
            Some((place, after)) = reports.recv() => deliverer.settled(place, after),
            () = tokio::time::sleep_until(next_look) => {
                deliverer.look_at_clock();
                let now = app.shell.clock.now();
                if round.is_none() && is_round_due(&app.shell, last_round, now) {
                    (round, last_round) = (Some(Round::new(&app)), Some(now));
                }
                if let Some(going) = &mut round {
                    match going.step(&app.shell).await {
                        Ok(Some(jobs)) => jobs.into_iter().for_each(|job| deliverer.take(job)),
                        Ok(None) => round = None,
                        Err(failure) => {
                            tracing::error!(?failure, "looking for events failed");
                            app.shell.outbox.fall_behind();
                            round = None;
                        }
                    }
                }
                next_look = Instant::now() + match (&round, deliverer.later.is_empty()) {
                    (Some(_), _) => STEP_PAUSE,
                    (None, false) => WAIT_PAUSE,
                    (None, true) => IDLE_PAUSE,
                };
            }
        }
    }
}

fn is_round_due(shell: &Shell, last: Option<Timestamp>, now: Timestamp) -> bool {
    let every = if is_shared(shell) { SHARED_ROUND_SECONDS } else { ROUND_SECONDS };
    shell.outbox.catch_up() || last.is_none_or(|last| now >= last.plus_seconds(every))
}

impl Deliverer {
    /// An event that was told or found; nothing, if it is known.
    fn take(&mut self, job: Job) {
        if self.known.contains(&job.place) {
            return;
        }
        let now = self.app.shell.clock.now();
        if !job.is_ours && is_shared(&self.app.shell) && job.pending.claimed > now {
            return; // found again by the next round
        }
        if job.pending.due > now { self.wait(job) } else { self.stand(job) }
    }

    fn wait(&mut self, job: Job) {
        if self.later.len() >= LATER_MAX {
            return self.app.shell.outbox.fall_behind();
        }
        self.known.insert(job.place.clone());
        self.later.insert((job.pending.due, job.place.clone()), job);
    }

    fn stand(&mut self, job: Job) {
        let (place, line) = (job.place.clone(), job.line());
        if !self.lines.contains_key(&job.pending.subscription) {
            let begun = (0..LINES).map(|_| begin_line(&self.app, &self.report, &mut self.standing)).collect();
            self.lines.insert(job.pending.subscription.clone(), begun);
        }
        match self.lines[&job.pending.subscription][line].try_send(job) {
            Ok(()) => {
                self.known.insert(place);
            }
            Err(_) => self.app.shell.outbox.fall_behind(),
        }
    }

    fn settled(&mut self, place: Place, after: After) {
        self.known.remove(&place);
        if let After::Later(job) = after {
            self.take(*job);
        }
    }

    fn look_at_clock(&mut self) {
        let now = self.app.shell.clock.now();
        while let Some(first) = self.later.first_entry() {
            if first.key().0 > now {
                return;
            }
            let job = first.remove();
            self.known.remove(&job.place);
            self.stand(job);
        }
    }
}

fn begin_line(
    app: &Arc<App>,
    report: &mpsc::UnboundedSender<(Place, After)>,
    standing: &mut JoinSet<()>,
) -> mpsc::Sender<Job> {
    let (line, mut jobs) = mpsc::channel::<Job>(LINE_LENGTH);
    let (app, report) = (app.clone(), report.clone());
    standing.spawn(async move {
        while let Some(job) = jobs.recv().await {
            let place = job.place.clone();
            let after = attend(&app, job).await.unwrap_or_else(|failure| {
                tracing::error!(?failure, "an event stays where it is");
                app.shell.outbox.fall_behind();
                After::Done
            });
            let _ = report.send((place, after)); // nobody listens when the process ends
        }
    });
    line
}
