//! One run: a seed in, a verdict out.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use contract::Service;
use contract::names::AccountName;
use engine::memory::MemoryEngine;
use engine::memory::shared::SharedMemory;
use engine::{Engine, GroupRange, ScanStart};
use env::{Clock, ScriptedClock, ScriptedIds, Timestamp};
use tokio::sync::oneshot;

use super::broken::{Breakage, BrokenEngine};
use super::chance::Chance;
use super::check::{Kind, Violation, check};
use super::client;
use super::containers::{self, BLOBS, CONTAINERS, Condition, What};
use super::executor::{Executor, Pace, Stuck};
use super::faulty::{Faults, FaultyEngine};
use super::gateway::Gateway;
use super::history::{CallId, Deed, History};
use super::panics;
use super::plan::{Plan, Subject};
use super::summary::{Summary, summarize};
use super::wire::Manner;
use super::{blob, file, queue, smb, table};
use crate::request::ACCOUNT;
use crate::{AccountSas, Answer, Request};

/// Far more steps than any deed needs, however slow the engine.
const STEPS_PER_OPERATION_MAX: u64 = 20_000;

/// What the clients of each service know together.
#[derive(Default)]
pub struct Seen {
    pub containers: containers::workload::Seen,
    pub blob: blob::Seen,
    pub queue: queue::Seen,
    pub table: table::Seen,
    pub file: file::Seen,
}

/// What all actors of a run share.
pub struct Sim {
    pub plan: Plan,
    pub executor: Executor,
    pub pace: Pace,
    pub history: Rc<RefCell<History>>,
    pub gateways: RefCell<Vec<Rc<Gateway>>>,
    pub seen: RefCell<Seen>,
    /// A signature for all requests, as query parameters.
    pub sas: Vec<(String, String)>,
    runs_fast: bool,
    /// Faults, crashes and bad manners come only while this is true.
    pub stormy: Cell<bool>,
    operations_left: Cell<u64>,
    cut: RefCell<HashSet<CallId>>,
    complaints: RefCell<Vec<String>>,
    /// What the servers said they could not do.
    failures: RefCell<Vec<String>>,
    /// By `Manner::index`.
    pub manners: Cell<[u64; Manner::KINDS]>,
    pub crashes: Cell<u64>,
    pub jumps: Cell<u64>,
    /// Old deletions that nobody finished.
    tombstones_left: Cell<usize>,
}

impl Sim {
    pub fn take_operation(&self) -> bool {
        let left = self.operations_left.get();
        self.operations_left.set(left.saturating_sub(1));
        left > 0
    }

    /// A gateway that is up; waits for one if none is.
    pub async fn find_gateway(&self, chance: &mut Chance) -> usize {
        loop {
            let up: Vec<usize> = {
                let gateways = self.gateways.borrow();
                (0..gateways.len()).filter(|index| gateways[*index].is_up()).collect()
            };
            if !up.is_empty() {
                return *chance.pick(&up);
            }
            self.pace.steps(10).await;
        }
    }

    pub fn clock(&self, gateway: usize) -> Arc<ScriptedClock> {
        self.gateways.borrow()[gateway].clock.clone()
    }

    pub fn set_clock(&self, gateway: usize, to: Timestamp) {
        self.clock(gateway).set(to);
        let (start, ticks) = (start().ticks(), to.ticks());
        let right = match (self.runs_fast, ticks >= start) {
            (false, _) => ticks,
            (true, true) => start + (ticks - start) / 10,
            (true, false) => start - (start - ticks) / 10,
        };
        self.history.borrow_mut().set_clock(gateway, right);
    }

    /// This call's body never arrived whole: it cannot have had an effect.
    pub fn cut(&self, call: CallId) {
        self.cut.borrow_mut().insert(call);
    }

    pub fn was_cut(&self, call: CallId) -> bool {
        self.cut.borrow().contains(&call)
    }

    pub fn count(&self, manner: Manner) {
        let mut manners = self.manners.get();
        manners[manner.index()] += 1;
        self.manners.set(manners);
    }

    /// A server failed. One that others always overtake may say so, and one whose clock jumped while it was at work.
    pub fn note_failure(&self, call: CallId, answer: &Answer) {
        let may_time_out = self.plan.gateways > 1 || self.jumps.get() > 0;
        if !may_time_out || answer.code() != "OperationTimedOut" {
            self.failures.borrow_mut().push(format!("call #{call}: {} {}", answer.status, answer.text()));
        }
    }

    /// The same over SMB.
    pub fn note_storage_failure(&self, call: CallId, status: u32) {
        self.failures.borrow_mut().push(format!("call #{call}: {status:08X}"));
    }

    pub fn note_refused_connection(&self, why: String) {
        self.failures.borrow_mut().push(why);
    }

    /// Something is wrong that the history has no place for.
    pub fn complain(&self, call: CallId, what: String) {
        self.complaints.borrow_mut().push(format!("call #{call}: {what}"));
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    pub seed: u64,
    pub operations: u64,
    pub breakage: Option<Breakage>,
    /// Instead of what the plan says.
    pub gateways: Option<usize>,
    pub only: Option<Subject>,
}

impl Settings {
    pub fn new(seed: u64, operations: u64) -> Settings {
        Settings { seed, operations, breakage: None, gateways: None, only: None }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Problem {
    Violation(Violation),
    Stuck(Stuck),
    /// Somebody panicked, and one request paid for it.
    Panicked,
    /// A 500 in a run without a fault.
    FailedWithoutFault(String),
    Complaint(String),
    /// When everything was deleted, so many extents or tombstones were left.
    Leaked {
        extents: usize,
        tombstones: usize,
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    pub settings: Settings,
    pub problem: Problem,
}

impl Failure {
    /// Nothing is proved by such a history, neither way.
    pub fn says_too_little(&self) -> bool {
        matches!(&self.problem, Problem::Violation(violation) if violation.kind == Kind::TooUncertain)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            Problem::Violation(violation) => writeln!(f, "{violation}")?,
            problem => writeln!(f, "{problem:?}")?,
        }
        let Settings { seed, operations, gateways, breakage, only } = &self.settings;
        writeln!(
            f,
            "Seed {seed}{}. Again:",
            breakage.map_or(String::new(), |how| format!(" of an engine that {how:?}"))
        )?;
        write!(f, "  cargo run --release -p lazuli-testing --bin sim -- --seed {seed} --operations {operations}")?;
        if let Some(gateways) = gateways {
            write!(f, " --gateways {gateways}")?;
        }
        if let Some(subject) = only {
            write!(f, " --only {subject:?}")?;
        }
        Ok(())
    }
}

pub fn run(settings: &Settings) -> Result<Summary, Box<Failure>> {
    play(settings).1
}

/// The same, with all that was said.
pub fn play(settings: &Settings) -> (History, Result<Summary, Box<Failure>>) {
    let history = Rc::default();
    let outcome = run_into(settings, &history);
    (history.take(), outcome)
}

fn run_into(settings: &Settings, history: &Rc<RefCell<History>>) -> Result<Summary, Box<Failure>> {
    let (seed, operations) = (settings.seed, settings.operations);
    let fail = |problem| Err(Box::new(Failure { settings: settings.clone(), problem }));
    let panics_before = panics::count();

    let mut chance = Chance::from_seed(seed);
    let mut plan = Plan::from(&mut chance.fork());
    plan.set_gateways(settings.gateways.unwrap_or(plan.gateways));
    if let Some(subject) = settings.only {
        plan.only(subject);
    }
    if settings.breakage == Some(Breakage::ServesSharesTwice) {
        plan.serve_shares_twice();
    }
    let executor = Executor::new(chance.fork(), (operations + 100) * STEPS_PER_OPERATION_MAX);
    let pace = executor.pace();
    let memory = MemoryEngine::new();
    let engine = FaultyEngine::new(Arc::new(memory.clone()), chance.fork(), pace.clone(), plan.faults);
    let sim = Rc::new(Sim {
        plan,
        executor: executor.clone(),
        pace,
        history: history.clone(),
        gateways: RefCell::default(),
        seen: RefCell::default(),
        sas: account_sas(),
        runs_fast: settings.breakage == Some(Breakage::RunsFast),
        stormy: Cell::new(false),
        operations_left: Cell::new(operations),
        cut: RefCell::default(),
        complaints: RefCell::default(),
        failures: RefCell::default(),
        manners: Cell::default(),
        crashes: Cell::default(),
        jumps: Cell::default(),
        tombstones_left: Cell::default(),
    });

    let mut weather = Weather::new(&sim, chance.fork());
    let store = Store { memory: memory.clone(), faulty: engine.clone(), breakage: settings.breakage };
    let scenario = scenario(sim.clone(), store, chance.fork());
    let ran = executor.run(scenario, |step| weather.change(&sim, step));
    sim.gateways.take();

    let history = sim.history.borrow();
    if panics::count() != panics_before {
        return fail(Problem::Panicked);
    }
    if let Some(complaint) = sim.complaints.borrow().first() {
        return fail(Problem::Complaint(complaint.clone()));
    }
    if let Err(violation) = check(&history) {
        return fail(Problem::Violation(violation));
    }
    let steps = match ran {
        Ok(steps) => steps,
        Err(stuck) => return fail(Problem::Stuck(stuck)),
    };
    let struck = engine.struck();
    let summary = summarize(&sim, &history, steps, struck);
    let failure = sim.failures.borrow().first().cloned().filter(|_| struck.faults == 0 && settings.breakage.is_none());
    if let Some(failure) = failure {
        return fail(Problem::FailedWithoutFault(failure));
    }
    let (extents, tombstones) = (memory.extents(), sim.tombstones_left.get());
    if extents > 0 || tombstones > 0 {
        return fail(Problem::Leaked { extents, tombstones });
    }
    Ok(summary)
}

fn start() -> Timestamp {
    Timestamp::parse_iso8601("2026-01-02T03:04:05Z").expect("well formed")
}

/// A clock further away than this jumps back. Staged blocks and messages are kept for a week, and this is less.
const ASTRAY_SECONDS_MAX: u64 = 2 * 86_400;

/// Lasts for all clocks of a run. Clients sign with it, because signing every request would take a third of the time of a run.
fn account_sas() -> Vec<(String, String)> {
    let sas = AccountSas { expiry: "2999-01-01T00:00:00Z".into(), ..AccountSas::all(Timestamp::UNIX_EPOCH) };
    Request::new("GET ").with_sas(sas.parameters()).query
}

/// What is stored, and what stands between it and the gateways.
struct Store {
    memory: MemoryEngine,
    faulty: FaultyEngine,
    breakage: Option<Breakage>,
}

impl Store {
    /// A gateway's own handle on it: views move where others write, too.
    fn handle(&self, sim: &Sim, chance: &mut Chance) -> Arc<dyn Engine> {
        let mut handle: Arc<dyn Engine> = match sim.plan.gateways {
            1 => Arc::new(self.memory.clone()),
            _ => Arc::new(SharedMemory::new(self.memory.clone())),
        };
        if let Some(how) = self.breakage {
            handle = Arc::new(BrokenEngine::new(handle, how, sim.pace.clone(), chance.fork()));
        }
        Arc::new(self.faulty.over(handle))
    }
}

/// The clients' whole life, and what is found after it.
async fn scenario(sim: Rc<Sim>, store: Store, mut chance: Chance) {
    let ids = Arc::new(ScriptedIds::default());
    let start = start();
    let mut handles = chance.fork();
    let mut add_gateway = |start| {
        let clock = ScriptedClock::at(start);
        let gateway = Gateway::new(
            store.handle(&sim, &mut handles),
            clock,
            ids.clone(),
            sim.executor.clone(),
            sim.history.clone(),
        );
        gateway.start();
        let index = sim.gateways.borrow().len();
        sim.gateways.borrow_mut().push(gateway);
        sim.set_clock(index, start);
    };
    store.faulty.set_faults(Faults::NONE);
    for _ in 0..sim.plan.gateways {
        // The machines' clocks are some seconds apart.
        add_gateway(start.plus_seconds(chance.below(5)));
    }
    let first = sim.find_gateway(&mut chance).await;
    for what in PREPARED {
        client::perform(&sim, &mut chance, 0, first, Deed::Prepare(what)).await;
    }
    store.faulty.set_faults(sim.plan.faults);
    sim.stormy.set(true);

    let mut lives = Vec::new();
    for number in 1..=sim.plan.clients {
        let life = client::live(sim.clone(), number, chance.fork());
        lives.push(begin(&sim, life));
    }
    for number in 1..=sim.plan.smb_clients {
        let life = smb::client::live(sim.clone(), sim.plan.clients + number, chance.fork());
        lives.push(begin(&sim, life));
    }
    for end in lives {
        let _ = end.await; // it only ever ends by being dropped
    }

    sim.stormy.set(false);
    let old = sim.gateways.take();
    if sim.plan.ends_with_crash {
        old.iter().for_each(|gateway| gateway.crash());
    }
    // Requests whose clients have left are still under way.
    while !old.iter().all(|gateway| gateway.is_idle()) {
        sim.pace.steps(20).await;
    }
    old.iter().for_each(|gateway| gateway.crash());
    store.faulty.set_faults(Faults::NONE);
    // The last clock may be behind all others.
    add_gateway(start);
    let last = sim.find_gateway(&mut chance).await;
    take_stock(&sim, &mut chance, last).await;
    for container in 0..CONTAINERS.len() {
        let deed = containers::Deed { container, what: What::DeleteContainer(Condition::None) };
        client::perform(&sim, &mut chance, 0, last, Deed::Container(deed)).await;
    }
    for what in REMOVED {
        client::perform(&sim, &mut chance, 0, last, Deed::Prepare(what)).await;
    }
    sim.gateways.take().iter().for_each(|gateway| gateway.crash());

    let group = partition::key::directory_group(Service::Blob, &AccountName::parse(ACCOUNT).expect("a right name"));
    let family = partition::key::directory::TOMBSTONE;
    let everything = GroupRange { group, family, start: ScanStart::AtPartition(Bytes::new()), before_partition: None };
    let left = store.memory.scan(&everything, 1000).await.expect("the memory engine does not fail");
    sim.tombstones_left.set(left.rows.len());
}

/// What is handed back ends with the life.
fn begin(sim: &Sim, life: impl Future<Output = ()> + 'static) -> oneshot::Receiver<()> {
    let (ends, end) = oneshot::channel();
    sim.executor.spawn(async move {
        life.await;
        drop(ends);
    });
    end
}

/// What the clients find, and what is taken away in the end.
const PREPARED: [&str; 5] = [
    "blob PUT works?restype=container",
    "queue PUT orders",
    "table POST Tables",
    "file PUT docs?restype=share",
    "file PUT docs/d?restype=directory",
];
const REMOVED: [&str; 4] = [
    "blob DELETE works?restype=container",
    "queue DELETE orders",
    "table DELETE Tables('ledger')",
    "file DELETE docs?restype=share",
];

/// Reads everything there is, so that nothing that was lost stays unnoticed.
async fn take_stock(sim: &Rc<Sim>, chance: &mut Chance, gateway: usize) {
    let of_container = |container, what| Deed::Container(containers::Deed { container, what });
    let mut deeds = vec![of_container(0, What::ListContainers { page: 5000 })];
    for container in 0..CONTAINERS.len() {
        deeds.push(of_container(container, What::GetContainer));
        deeds.push(of_container(container, What::List { prefix: "", delimiter: false, page: 5000 }));
        let get = |blob| of_container(container, What::Get { blob, range: None, condition: Condition::None });
        deeds.extend((0..BLOBS.len()).map(get));
    }
    deeds.extend(blob::stock().map(Deed::Blob));
    deeds.extend(queue::stock().map(Deed::Queue));
    deeds.extend(table::stock().map(Deed::Table));
    deeds.extend(file::stock().map(Deed::File));
    for deed in deeds {
        client::perform(sim, chance, 0, gateway, deed).await;
    }
}

/// What happens to the machines while the clients go about their work.
struct Weather {
    chance: Chance,
    next_crash: u64,
    next_jump: u64,
}

impl Weather {
    fn new(sim: &Sim, mut chance: Chance) -> Weather {
        let next_crash = Self::after(&mut chance, 0, sim.plan.crash_every_steps);
        let next_jump = Self::after(&mut chance, 0, sim.plan.clock_jumps_every_steps);
        Weather { chance, next_crash, next_jump }
    }

    fn after(chance: &mut Chance, step: u64, every: Option<u64>) -> u64 {
        every.map_or(u64::MAX, |every| step + chance.between(1, 2 * every))
    }

    fn change(&mut self, sim: &Sim, step: u64) {
        if step < self.next_crash.min(self.next_jump) || !sim.stormy.get() {
            return;
        }
        let gateways = sim.gateways.borrow();
        if gateways.is_empty() {
            return;
        }
        let index = self.chance.index(gateways.len());
        let gateway = &gateways[index];
        if step >= self.next_crash {
            self.next_crash = Self::after(&mut self.chance, step, sim.plan.crash_every_steps);
            sim.crashes.set(sim.crashes.get() + 1);
            gateway.crash();
            gateway.start();
        }
        if step >= self.next_jump {
            self.next_jump = Self::after(&mut self.chance, step, sim.plan.clock_jumps_every_steps);
            sim.jumps.set(sim.jumps.get() + 1);
            let now = gateway.clock.now();
            let seconds = *self.chance.pick(&[1, 30, 30, 3_600, 86_400]);
            let seconds = self.chance.between(1, seconds);
            let (early, late) = (start().minus_seconds(ASTRAY_SECONDS_MAX), start().plus_seconds(ASTRAY_SECONDS_MAX));
            let forward = now < early || now < late && self.chance.below(2) == 0;
            sim.set_clock(index, if forward { now.plus_seconds(seconds) } else { now.minus_seconds(seconds) });
        }
    }
}
