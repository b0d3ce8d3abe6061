//! The one loop: a partition's turn, load, decide, join the commit; again on conflict.
//!
//! Why no interleaving loses or tears anything:
//!
//! 1. Commands on one partition take turns, first come first served. In its turn a command loads and decides over the committed
//!    state plus what is *pending*: the writes of commands that were decided before it, in the batch in flight and in the open one.
//! 2. One batch of a partition is in flight at a time. The next departs when it has landed; if it failed, what was decided over it
//!    is decided again. Where others than this process commit, nobody decides during a flight (`turns.rs`).
//! 3. Everything a command read from storage becomes a guard of the batch, without the command's doing. If another process changed
//!    it the batch is refused as a whole and every command in it starts again from load.
//! 4. A command is answered, refusals included, only when the batch whose writes it saw is durable. Nobody learns of what may
//!    still be lost. The one exception are commands that say so (`Command::durability`): a batch whose writes are all of such
//!    is *buffered*, and answered when it can be seen. `Shell::sync`, or any other commit after it, makes it durable; a crash
//!    before takes it and all that followed it.
//!    Nor does anybody believe that a record is damaged that does not go with the overlay: the batch is committed first.
//! 5. Reads that change nothing take no turn: they see one committed state and never wait for a writer. Where an engine cannot show
//!    a state for as long as a read takes (`Fault::Moved`), the read begins again, and takes the turn if that does not end.
//! 6. The tick is drawn after the records were read, so that it is later than all that was ever in the partition, whoever wrote it.
//!
//! `execute` should be polled to its end (the front end never drops a request half way): a command that leads a batch commits it for
//! the others. If a leader is torn down all the same, whoever joined its batch takes its place or is told that the outcome is unknown;
//! nobody waits for ever.

use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use contract::Refusal;
use engine::{BoxFuture, Durability, Engine, Family, Fault, Guard, KeyRange, PartitionId, Record, View, Write};
use env::{Clock, Id, Ids, Timestamp};

use crate::etag::Ticks;
use crate::events::{Announcement, Outbox};
use crate::file::opens::{Blocked, OpenFiles, Wait, is_opened};
use crate::file::tenure::{Neighbours, Tenures};
use crate::turns::{Answer, Found, Pending, Ticket, Turns, lock};

/// What changes from one attempt to the next besides the records: time and chance, as plain values.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub now: Timestamp,
    /// Drawn once and never again; see `etag.rs`.
    pub tick: u64,
    pub id: Id,
}

/// A request that may change one partition.
pub trait Command: Send + Sync {
    type Records: Send;
    type Outcome: Send;

    fn partition(&self) -> &PartitionId;

    /// Reads what `decide` needs.
    fn load(&self, reader: &Reader<'_>) -> impl Future<Output = Result<Self::Records, Fault>> + Send;

    /// All that can be refused before the body has arrived. `decide` begins with it.
    fn check(&self, records: &Self::Records, now: Timestamp) -> Result<(), Refusal>;

    /// The rule. No engine, no clock, no waiting.
    fn decide(&self, records: Self::Records, moment: Moment) -> Result<(Vec<Write>, Self::Outcome), Refusal>;

    /// Who is to be told of it. Its events are among its writes.
    fn announcement(&self) -> Option<&Announcement> {
        None
    }

    /// What its writes must be before it is answered.
    fn durability(&self) -> Durability {
        Durability::Synced
    }
}

/// Writes, whatever is there.
pub struct Blind {
    pub partition: PartitionId,
    pub writes: Vec<Write>,
}

impl Command for Blind {
    type Records = ();
    type Outcome = ();

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, _: &Reader<'_>) -> Result<(), Fault> {
        Ok(())
    }

    fn check(&self, (): &(), _: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, (): (), _: Moment) -> Result<(Vec<Write>, ()), Refusal> {
        Ok((self.writes.clone(), ()))
    }
}

/// Why a request was not done.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The client's doing.
    Refused(Refusal),
    /// The group went away while the request was under way: its container, table, queue or share was deleted.
    Gone,
    /// Nothing was done yet: SMB clients have to give up something first. `Patience` waits for it.
    Waits(Wait),
    /// Storage's doing; the outcome of a write is not known.
    Fault(Fault),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Failure::Refused(refusal)
    }
}

impl From<contract::ErrorCode> for Failure {
    fn from(code: contract::ErrorCode) -> Self {
        Failure::Refused(code.into())
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Failure::Fault(fault)
    }
}

impl From<Blocked> for Failure {
    fn from(blocked: Blocked) -> Self {
        match blocked {
            Blocked::Refused(refusal) => Failure::Refused(refusal),
            Blocked::Breaking(wait) => Failure::Waits(wait),
        }
    }
}

/// What a read can end with, the engine's view having moved among it.
pub trait MayMove {
    fn is_moved(&self) -> bool;
}

impl MayMove for Fault {
    fn is_moved(&self) -> bool {
        matches!(self, Fault::Moved)
    }
}

impl MayMove for Failure {
    fn is_moved(&self) -> bool {
        matches!(self, Failure::Fault(fault) if fault.is_moved())
    }
}

/// How long a request waits for others. Time is awaited by the front end alone.
pub trait Patience: Send + Sync {
    /// Refused if it lasts too long.
    fn wait(&self, wait: Wait) -> BoxFuture<'_, Result<(), Refusal>>;
}

/// Does something again until nobody has to be waited for, or for too long.
pub async fn patiently<T, F>(patience: &dyn Patience, attempt: impl Fn() -> F) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    loop {
        match attempt().await {
            Err(Failure::Waits(wait)) => patience.wait(wait).await?,
            done => return done,
        }
    }
}

/// The stages of a command that others can make long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Until it is the command's turn.
    Turn,
    /// Until what it decided is durable, and what it saw.
    Commit,
}

/// Who wants to know how long stages take. Called where the command is executed.
pub trait Stages: Send + Sync {
    /// The time, if anybody wants to know it of this command.
    fn begin(&self) -> Option<Timestamp>;

    fn passed(&self, stage: Stage, begun: Timestamp);
}

/// Holds what rules must not: the engine, the clock, chance, and the partitions' turns.
pub struct Shell {
    pub engine: Arc<dyn Engine>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    /// Handles on files, and REST operations while they run.
    pub open_files: OpenFiles,
    /// Events on their way from commits to whoever delivers them.
    pub outbox: Outbox,
    /// Whose shares are; not set where all are this process's.
    tenures: OnceLock<Tenures>,
    /// Not set where nobody wants to know.
    stages: OnceLock<Arc<dyn Stages>>,
    ticks: Ticks,
    turns: Turns,
}

/// How many commands one batch may carry; more wait for the next.
const BATCH_COMMANDS_MAX: usize = 256;

/// How many bytes it takes on; clusters refuse an operation of 90 MB.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// Other processes that are always faster do not keep a command for ever: then it did nothing, and its client is told to come again.
const ATTEMPTS_MAX: usize = 1000;

/// How often a read that is overtaken begins again: while writers go on, and while those of this process wait.
const READS_WITHOUT_TURN: usize = 8;
const READS_IN_TURN: usize = 50;

impl Shell {
    pub async fn open(engine: Arc<dyn Engine>, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Result<Shell, Fault> {
        let ticks = Ticks::open(engine.as_ref(), clock.now()).await?;
        let (open_files, outbox) = (OpenFiles::default(), Outbox::default());
        let (tenures, stages, turns) = (OnceLock::new(), OnceLock::new(), Turns::default());
        Ok(Shell { engine, clock, ids, open_files, outbox, tenures, stages, ticks, turns })
    }

    /// To be called once, before anybody is served.
    pub fn tell_stages(&self, stages: Arc<dyn Stages>) {
        let _ = self.stages.set(stages); // the first one stays
    }

    fn begin_stage(&self) -> Option<Timestamp> {
        self.stages.get().and_then(|stages| stages.begin())
    }

    fn pass_stage(&self, stage: Stage, begun: Option<Timestamp>) {
        if let (Some(stages), Some(begun)) = (self.stages.get(), begun) {
            stages.passed(stage, begun);
        }
    }

    /// Other processes serve the same shares. To be called once, before anybody is served.
    pub fn share_with(&self, neighbours: Arc<dyn Neighbours>) -> &Tenures {
        self.tenures.get_or_init(|| Tenures::new(self.engine.clone(), self.open_files.clone(), neighbours))
    }

    pub fn tenures(&self) -> Option<&Tenures> {
        self.tenures.get()
    }

    /// Waits until all that was answered before is durable.
    pub async fn sync(&self) -> Result<(), Fault> {
        self.engine.sync().await
    }

    /// Reads a partition, all of it again when the engine's view moved meanwhile. A read that is overtaken again and again takes the
    /// partition's turn, so that the writers of this process wait for it; `read` executes no command on the partition. Where
    /// others do not let it through either it is `Moved` in the end, and the client told to come again.
    pub async fn steadily<T, E: MayMove, F>(&self, partition: &PartitionId, read: impl Fn() -> F) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>>,
    {
        for _ in 0..READS_WITHOUT_TURN {
            match read().await {
                Err(error) if error.is_moved() => {}
                done => return done,
            }
        }
        let line = self.turns.line(partition);
        let _held = line.hold().await;
        let mut done = read().await;
        for _ in 1..READS_IN_TURN {
            match done {
                Err(error) if error.is_moved() => done = read().await,
                done => return done,
            }
        }
        done
    }

    /// The same of files. What others have open is judged of what a view shows, and by then that may be somewhere else: renamed, and
    /// then opened. In the turn it is where it is.
    pub async fn let_in<T, F>(&self, partition: &PartitionId, read: impl Fn() -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        match self.steadily(partition, &read).await {
            Err(Failure::Refused(refusal)) if is_opened(&refusal) => {
                let line = self.turns.line(partition);
                let _held = line.hold().await;
                match read().await {
                    Err(failure) if failure.is_moved() => Err(refusal.into()),
                    done => done,
                }
            }
            done => done,
        }
    }

    async fn moment(&self) -> Result<Moment, Fault> {
        let now = self.clock.now();
        let tick = self.ticks.draw(self.engine.as_ref(), now).await?;
        Ok(Moment { now, tick, id: self.ids.next() })
    }

    /// What is already refused before the body is sent. Not the last word: `execute` judges again.
    pub async fn admit<C: Command>(&self, command: &C) -> Result<(), Failure> {
        self.let_in(command.partition(), || async {
            let view = self.engine.view(command.partition()).await?;
            let reader = Reader::committed(view.as_ref());
            let records = command.load(&reader).await?;
            reader.judge_wait()?;
            Ok(command.check(&records, self.clock.now())?)
        })
        .await
    }

    pub async fn execute<C: Command>(&self, command: &C) -> Result<C::Outcome, Failure> {
        if let Some(announcement) = command.announcement() {
            self.outbox.note(self, &command.partition().group, announcement).await?;
        }
        self.execute_quietly(command).await
    }

    /// Of a command that announces nothing, or whose container is noted.
    pub(crate) async fn execute_quietly<C: Command>(&self, command: &C) -> Result<C::Outcome, Failure> {
        for _ in 0..ATTEMPTS_MAX {
            if let Some(outcome) = self.attempt(command).await? {
                return Ok(outcome);
            }
        }
        Err(Failure::Fault(Fault::Moved))
    }

    /// One attempt; `None` if another process was faster and it must be made again.
    async fn attempt<C: Command>(&self, command: &C) -> Result<Option<C::Outcome>, Failure> {
        let line = self.turns.line(command.partition());
        let begun = self.begin_stage();
        let arrival = line.arrive();
        let mut turn = line.enter().await;
        self.pass_stage(Stage::Turn, begun);
        if line.is_in_vain(arrival) {
            let detail = "it did not answer those who asked before; nothing was done".into();
            return Err(Fault::Other { doing: "looking at a partition".into(), detail }.into());
        }
        while turn.open.commands() >= BATCH_COMMANDS_MAX || turn.open.bytes() >= BATCH_BYTES_MAX {
            let full = turn.open.number();
            drop(turn);
            line.commit(self.engine.as_ref(), command.partition(), full).await;
            turn = line.enter().await;
        }

        // A batch looks at one committed state: what its first command saw. What changed since is found out by its guards.
        let view = match turn.open.view.take() {
            Some(view) => view,
            None => self.engine.view(command.partition()).await.inspect_err(|fault| {
                if matches!(fault, Fault::Other { .. }) {
                    line.give_up();
                }
            })?,
        };
        let loaded = {
            let reader = Reader::over(view.as_ref(), turn.pending());
            match command.load(&reader).await {
                Ok(records) => {
                    reader.judge_wait()?;
                    Ok((records, reader.into_guards()))
                }
                Err(fault) => Err(fault),
            }
        };
        let (records, guards) = match loaded {
            Err(Fault::Moved) => return Ok(None),
            // What another process wrote since may not go together with what is pending. Then that is refused; if it is not, or
            // nothing is pending, it is damage.
            Err(Fault::Corrupt { .. }) if !turn.is_settled() => {
                let open = turn.open.number();
                drop(turn);
                line.commit(self.engine.as_ref(), command.partition(), open).await;
                return Ok(None);
            }
            loaded => loaded?,
        };
        let moment = self.moment().await?;
        let decided = command.decide(records, moment);
        let writes = match &decided {
            Ok((writes, _)) => writes.as_slice(),
            Err(_) => &[],
        };
        // Nothing to write and nothing unwritten was seen: the answer rests on committed state alone.
        if writes.is_empty() && turn.is_settled() {
            return Ok(Some(decided?.1));
        }

        let begun = self.begin_stage();
        let leadership = turn.open.is_empty().then(|| line.lead(&mut turn.open));
        let ticket = turn.open.join(guards, writes, command.durability());
        turn.open.view = Some(view);
        // Those who wait already are let in first, so that they share the leader's commit, unless there is nothing to be won by
        // that; the others leave it to the leader, unless the leader is gone.
        let is_quick = turn.open.is_buffered() && self.engine.buffers();
        if leadership.is_some() && (is_quick || !line.is_waited_for()) {
            let departed = line.commit_now(turn, self.engine.as_ref(), command.partition()).await;
            if departed.is_ok() {
                drop(leadership);
                return self.answer(command, ticket, decided, begun).await;
            }
        } else {
            drop(turn);
        }
        if leadership.is_some() || ticket.is_orphaned() {
            line.commit(self.engine.as_ref(), command.partition(), ticket.batch_number()).await;
        }
        drop(leadership);
        self.answer(command, ticket, decided, begun).await
    }

    async fn answer<C: Command>(
        &self,
        command: &C,
        ticket: Ticket,
        decided: Result<(Vec<Write>, C::Outcome), Refusal>,
        begun: Option<Timestamp>,
    ) -> Result<Option<C::Outcome>, Failure> {
        let announces = command.announcement().is_some();
        let answer = ticket.answer().await;
        self.pass_stage(Stage::Commit, begun);
        match answer {
            Answer::Committed => {
                let (writes, outcome) = decided?;
                if announces {
                    self.outbox.committed(command.partition(), &writes);
                }
                Ok(Some(outcome))
            }
            Answer::Conflict => Ok(None),
            Answer::Fenced => Err(Failure::Gone),
            Answer::Fault(fault) => {
                if announces {
                    self.outbox.fall_behind();
                }
                Err(Failure::Fault(fault))
            }
        }
    }
}

/// How a command reads its partition: committed state under what is pending. Remembers what was read, as guards, and what has to be over
/// before anything is decided.
pub struct Reader<'a> {
    view: &'a dyn View,
    pending: Option<Pending<'a>>,
    guards: Mutex<Vec<Guard>>,
    wait: Mutex<Option<Wait>>,
}

impl<'a> Reader<'a> {
    /// Committed state alone, for reads that take no turn.
    pub fn committed(view: &'a dyn View) -> Self {
        Reader { view, pending: None, guards: Mutex::default(), wait: Mutex::default() }
    }

    fn over(view: &'a dyn View, pending: Pending<'a>) -> Self {
        Reader { view, pending: Some(pending), guards: Mutex::default(), wait: Mutex::default() }
    }

    /// Is what is read decided upon now? If not, a look is taken in advance.
    pub fn is_in_turn(&self) -> bool {
        self.pending.is_some()
    }

    pub async fn get(&self, family: Family, key: &[u8]) -> Result<Option<Record>, Fault> {
        let record = match self.pending.and_then(|pending| pending.get(family, key)) {
            Some(Found::Open(record)) => return Ok(record.clone()),
            Some(Found::Below(record)) => record.clone(),
            None => self.view.get(family, key).await?,
        };
        self.guard(|| {
            let key = Bytes::copy_from_slice(key);
            match &record {
                Some(record) => Guard::At { family, key, revision: record.revision },
                None => Guard::Absent { family, key },
            }
        });
        Ok(record)
    }

    /// At most `limit` records in key order.
    pub async fn scan(&self, family: Family, range: &KeyRange, limit: usize) -> Result<Vec<(Bytes, Record)>, Fault> {
        let found = self.scan_pending(family, range, limit).await?;
        self.guard(|| Guard::Unchanged(self.view.revision()));
        Ok(found)
    }

    async fn scan_pending(
        &self,
        family: Family,
        range: &KeyRange,
        limit: usize,
    ) -> Result<Vec<(Bytes, Record)>, Fault> {
        let Some(pending) = self.pending.filter(|pending| !pending.is_empty()) else {
            return self.view.scan(family, range, limit).await;
        };
        // Each pending deletion hides at most one record and nothing else hides any, so this many committed ones are enough.
        let pending = pending.range(family, range);
        let hidden = pending.values().filter(|record| record.is_none()).count();
        let committed = self.view.scan(family, range, limit.saturating_add(hidden)).await?;
        let mut merged: std::collections::BTreeMap<Bytes, Option<Record>> =
            committed.into_iter().map(|(key, record)| (key, Some(record))).collect();
        merged.extend(pending);
        Ok(merged.into_iter().filter_map(|(key, record)| Some((key, record?))).take(limit).collect())
    }

    /// What was found cannot be judged before this is over. Then it has to be found again.
    pub fn wait_for(&self, wait: Wait) {
        *lock(&self.wait) = Some(wait);
    }

    fn judge_wait(&self) -> Result<(), Failure> {
        match lock(&self.wait).take() {
            Some(wait) => Err(Failure::Waits(wait)),
            None => Ok(()),
        }
    }

    /// What is not decided upon guards nothing.
    fn guard(&self, guard: impl FnOnce() -> Guard) {
        if self.is_in_turn() {
            lock(&self.guards).push(guard());
        }
    }

    fn into_guards(self) -> Vec<Guard> {
        let mut guards = self.guards.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        if !guards.is_empty() {
            guards.push(Guard::ReadAt(self.view.revision()));
        }
        guards
    }
}

#[cfg(test)]
mod tests;
