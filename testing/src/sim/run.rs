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

use super::broken::{Breakage, BrokenEngine};
use super::chance::Chance;
use super::check::{Violation, check};
use super::client;
use super::executor::{Executor, Pace, Stuck};
use super::faulty::{Faults, FaultyEngine, Struck};
use super::gateway::Gateway;
use super::history::{BLOBS, CONTAINERS, CallId, Condition, Deed, History, Outcome, Reply};
use super::model::Rules;
use super::panics;
use super::plan::Plan;
use super::wire::Manner;
use super::workload::Seen;
use crate::request::ACCOUNT;
use crate::{AccountSas, Request};

/// Far more steps than any deed needs, however slow the engine.
const STEPS_PER_OPERATION_MAX: u64 = 20_000;

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
    /// Faults, crashes and bad manners come only while this is true.
    pub stormy: Cell<bool>,
    operations_left: Cell<u64>,
    cut: RefCell<HashSet<CallId>>,
    complaints: RefCell<Vec<String>>,
    /// By `Manner::index`.
    pub manners: Cell<[u64; Manner::KINDS]>,
    crashes: Cell<u64>,
    jumps: Cell<u64>,
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
    pub rules: Option<Rules>,
    /// Each gateway has a handle of its own on an engine whose views move.
    pub is_shared: bool,
}

impl Settings {
    pub fn new(seed: u64, operations: u64) -> Settings {
        Settings { seed, operations, breakage: None, gateways: None, rules: None, is_shared: false }
    }
}

/// What a right run was like.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Of the whole history, and of how it came about.
    pub digest: u64,
    pub calls: u64,
    /// Writes that were acknowledged.
    pub done: u64,
    /// Reads that showed a value.
    pub shown: u64,
    pub not_found: u64,
    pub steps: u64,
    pub crashes: u64,
    pub jumps: u64,
    pub unknown: u64,
    /// Calls that taught nothing: cut, unheard reads, dates refused after the clock jumped.
    pub nothing: u64,
    pub conditions_met: u64,
    pub conditions_unmet: u64,
    pub listed_rows: u64,
    /// Exchanges that were patient and answered, asked first and were done, were left, were cut.
    pub manners: [u64; Manner::KINDS],
    pub struck: Struck,
}

impl Summary {
    pub fn add(&mut self, other: &Summary) {
        self.digest = self.digest.rotate_left(1) ^ other.digest;
        self.calls += other.calls;
        self.done += other.done;
        self.shown += other.shown;
        self.not_found += other.not_found;
        self.steps += other.steps;
        self.crashes += other.crashes;
        self.jumps += other.jumps;
        self.unknown += other.unknown;
        self.nothing += other.nothing;
        self.conditions_met += other.conditions_met;
        self.conditions_unmet += other.conditions_unmet;
        self.listed_rows += other.listed_rows;
        (0..Manner::KINDS).for_each(|kind| self.manners[kind] += other.manners[kind]);
        self.struck.faults += other.struck.faults;
        self.struck.applied_in_secret += other.struck.applied_in_secret;
        self.struck.invented_conflicts += other.struck.invented_conflicts;
        self.struck.real_conflicts += other.struck.real_conflicts;
        self.struck.fenced += other.struck.fenced;
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Problem {
    Violation(Violation),
    Stuck(Stuck),
    /// Somebody panicked, and one request paid for it.
    Panicked,
    /// A 500 in a run without a fault.
    FailedWithoutFault,
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

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            Problem::Violation(violation) => writeln!(f, "{violation}")?,
            problem => writeln!(f, "{problem:?}")?,
        }
        let Settings { seed, operations, gateways, rules, breakage, is_shared } = &self.settings;
        writeln!(
            f,
            "Seed {seed}{}. Again:",
            breakage.map_or(String::new(), |how| format!(" of an engine that {how:?}"))
        )?;
        write!(f, "  cargo run --release -p lazuli-testing --bin sim -- --seed {seed} --operations {operations}")?;
        if let Some(gateways) = gateways {
            write!(f, " --gateways {gateways}")?;
        }
        if *is_shared {
            write!(f, " --shared")?;
        }
        if rules.is_some() { write!(f, " --strict") } else { Ok(()) }
    }
}

pub fn run(settings: &Settings) -> Result<Summary, Box<Failure>> {
    let (seed, operations) = (settings.seed, settings.operations);
    let fail = |problem| Err(Box::new(Failure { settings: settings.clone(), problem }));
    let panics_before = panics::count();

    let mut chance = Chance::from_seed(seed);
    let mut plan = Plan::from(&mut chance.fork());
    plan.gateways = settings.gateways.unwrap_or(plan.gateways);
    let rules = settings.rules.unwrap_or(plan.rules());
    let executor = Executor::new(chance.fork(), (operations + 100) * STEPS_PER_OPERATION_MAX);
    let pace = executor.pace();
    let memory = MemoryEngine::new();
    let mut store: Arc<dyn Engine> = Arc::new(memory.clone());
    if let Some(how) = settings.breakage {
        store = Arc::new(BrokenEngine::new(store, how, pace.clone(), chance.fork()));
    }
    let engine = FaultyEngine::new(store, chance.fork(), pace.clone(), plan.faults);
    let sim = Rc::new(Sim {
        plan,
        executor: executor.clone(),
        pace,
        history: Rc::default(),
        gateways: RefCell::default(),
        seen: RefCell::default(),
        sas: account_sas(),
        stormy: Cell::new(true),
        operations_left: Cell::new(operations),
        cut: RefCell::default(),
        complaints: RefCell::default(),
        manners: Cell::default(),
        crashes: Cell::default(),
        jumps: Cell::default(),
        tombstones_left: Cell::default(),
    });

    let mut weather = Weather::new(&sim, chance.fork());
    let scenario = scenario(sim.clone(), engine.clone(), memory.clone(), settings.is_shared, chance.fork());
    let ran = executor.run(scenario, |step| weather.change(&sim, step));
    sim.gateways.take();

    let history = sim.history.borrow();
    if panics::count() != panics_before {
        return fail(Problem::Panicked);
    }
    if let Some(complaint) = sim.complaints.borrow().first() {
        return fail(Problem::Complaint(complaint.clone()));
    }
    if let Err(violation) = check(&history, rules) {
        return fail(Problem::Violation(violation));
    }
    let steps = match ran {
        Ok(steps) => steps,
        Err(stuck) => return fail(Problem::Stuck(stuck)),
    };
    let struck = engine.struck();
    let summary = summarize(&sim, &history, steps, struck);
    let failed = |outcome: &Outcome| *outcome == Outcome::Unknown;
    let answered_unknown = history.calls().iter().any(|call| failed(&call.outcome) && call.answered.is_some());
    if struck.faults == 0 && settings.breakage.is_none() && answered_unknown {
        return fail(Problem::FailedWithoutFault);
    }
    let (extents, tombstones) = (memory.extents(), sim.tombstones_left.get());
    if extents > 0 || tombstones > 0 {
        return fail(Problem::Leaked { extents, tombstones });
    }
    Ok(summary)
}

/// Lasts for all clocks of a run. Clients sign with it, because signing every request would take a third of the time of a run.
fn account_sas() -> Vec<(String, String)> {
    let sas = AccountSas { expiry: "2999-01-01T00:00:00Z".into(), ..AccountSas::all(Timestamp::UNIX_EPOCH) };
    Request::new("GET ").with_sas(sas.parameters()).query
}

/// The clients' whole life, and what is found after it.
async fn scenario(sim: Rc<Sim>, engine: FaultyEngine, memory: MemoryEngine, is_shared: bool, mut chance: Chance) {
    let ids = Arc::new(ScriptedIds::default());
    let start = Timestamp::parse_iso8601("2026-01-02T03:04:05Z").expect("well formed");
    let gateway = |start| {
        let clock = ScriptedClock::at(start);
        let engine = match is_shared {
            true => engine.over(Arc::new(SharedMemory::new(memory.clone()))),
            false => engine.clone(),
        };
        let gateway = Gateway::new(Arc::new(engine), clock, ids.clone(), sim.executor.clone(), sim.history.clone());
        gateway.start();
        gateway
    };
    for _ in 0..sim.plan.gateways {
        // The machines' clocks are some seconds apart.
        sim.gateways.borrow_mut().push(gateway(start.plus_seconds(chance.below(5))));
    }

    let mut lives = Vec::new();
    for number in 1..=sim.plan.clients {
        let (ends, end) = tokio::sync::oneshot::channel::<()>();
        let life = client::live(sim.clone(), number, chance.fork());
        sim.executor.spawn(async move {
            life.await;
            drop(ends);
        });
        lives.push(end);
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
    engine.set_faults(Faults::NONE);
    // The last clock may be behind all others.
    sim.gateways.borrow_mut().push(gateway(start));
    let last = sim.find_gateway(&mut chance).await;
    take_stock(&sim, &mut chance, last).await;
    for container in 0..CONTAINERS.len() {
        client::perform(&sim, &mut chance, 0, last, container, Deed::DeleteContainer(Condition::None)).await;
    }
    take_stock(&sim, &mut chance, last).await;
    sim.gateways.take().iter().for_each(|gateway| gateway.crash());

    let group = partition::key::directory_group(Service::Blob, &AccountName::parse(ACCOUNT).expect("a right name"));
    let family = partition::key::directory::TOMBSTONE;
    let everything = GroupRange { group, family, start: ScanStart::AtPartition(Bytes::new()), before_partition: None };
    let left = memory.scan(&everything, 1000).await.expect("the memory engine does not fail");
    sim.tombstones_left.set(left.rows.len());
}

/// Reads everything there is, so that nothing that was lost stays unnoticed.
async fn take_stock(sim: &Rc<Sim>, chance: &mut Chance, gateway: usize) {
    client::perform(sim, chance, 0, gateway, 0, Deed::ListContainers { page: 5000 }).await;
    for container in 0..CONTAINERS.len() {
        client::perform(sim, chance, 0, gateway, container, Deed::GetContainer).await;
        let list = Deed::List { prefix: "", delimiter: false, page: 5000 };
        client::perform(sim, chance, 0, gateway, container, list).await;
        for blob in 0..BLOBS.len() {
            let get = Deed::Get { blob, range: None, condition: Condition::None };
            client::perform(sim, chance, 0, gateway, container, get).await;
        }
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
        let gateway = self.chance.pick(&gateways);
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
            let forward = self.chance.below(2) == 0;
            gateway.clock.set(if forward { now.plus_seconds(seconds) } else { now.minus_seconds(seconds) });
        }
    }
}

fn summarize(sim: &Sim, history: &History, steps: u64, struck: Struck) -> Summary {
    let mut summary = Summary {
        digest: history.digest().rotate_left(7) ^ steps ^ struck.faults.rotate_left(32),
        calls: history.calls().len() as u64,
        steps,
        crashes: sim.crashes.get(),
        jumps: sim.jumps.get(),
        manners: sim.manners.get(),
        struck,
        ..Summary::default()
    };
    for call in history.calls() {
        let conditional = match call.deed {
            Deed::Put { condition, .. } | Deed::SetContainerMetadata(condition) => condition != Condition::None,
            _ => false,
        };
        match &call.outcome {
            Outcome::Unknown => summary.unknown += 1,
            Outcome::Nothing => summary.nothing += 1,
            Outcome::Answered { reply, .. } => match reply {
                Reply::Done => {
                    summary.done += 1;
                    summary.conditions_met += u64::from(conditional);
                }
                Reply::Shown(_) => summary.shown += 1,
                Reply::BlobNotFound | Reply::ContainerNotFound => summary.not_found += 1,
                Reply::ConditionNotMet | Reply::BlobAlreadyExists => summary.conditions_unmet += 1,
                Reply::Listed(listed) => summary.listed_rows += listed.rows.len() as u64,
                _ => {}
            },
            Outcome::Open | Outcome::Wrong(_) => {}
        }
    }
    summary
}
