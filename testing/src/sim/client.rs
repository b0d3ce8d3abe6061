//! A client: chooses a deed, makes the request, reads the answer as a user of the service would, and notes both.

use std::rc::Rc;

use env::Clock;

use super::chance::Chance;
use super::containers;
use super::history::{CallId, Deed, Outcome};
use super::run::Sim;
use super::wire::{Exchange, Manner, exchange};
use super::{blob, file, queue, table};
use crate::{Answer, Request};

/// Does deeds until there are none left to do.
pub async fn live(sim: Rc<Sim>, number: usize, mut chance: Chance) {
    while sim.take_operation() {
        let gateway = sim.find_gateway(&mut chance).await;
        let ahead = chance.below(sim.plan.ticks_per_deed);
        sim.set_clock(gateway, sim.clock(gateway).now().plus_ticks(ahead));
        let deed = choose(&sim, &mut chance);
        perform(&sim, &mut chance, number, gateway, deed).await;
    }
}

fn choose(sim: &Sim, chance: &mut Chance) -> Deed {
    let (plan, seen) = (&sim.plan, sim.seen.borrow());
    match chance.weighted(&plan.subjects) {
        0 => Deed::Container(containers::workload::choose(chance, &plan.weights, plan.long_bodies, &seen.containers)),
        1 => Deed::Blob(blob::choose(chance, &seen.blob)),
        2 => Deed::Queue(queue::choose(chance, &seen.queue)),
        3 => Deed::Table(table::choose(chance, &seen.table)),
        _ => Deed::File(file::choose(chance, &seen.file)),
    }
}

/// Makes one call and notes what came of it.
pub async fn perform(sim: &Rc<Sim>, chance: &mut Chance, client: usize, gateway: usize, deed: Deed) {
    let call = sim.history.borrow_mut().begin(client, gateway, deed.clone());
    let mut asking = Asking { sim, chance, gateway, call };
    let outcome = match &deed {
        Deed::Prepare(what) => prepare(&mut asking, what).await,
        Deed::Container(deed) => containers::client::perform(&mut asking, deed).await,
        Deed::Blob(deed) => blob::perform(&mut asking, deed).await,
        Deed::Queue(deed) => queue::perform(&mut asking, deed).await,
        Deed::Table(deed) => table::perform(&mut asking, deed).await,
        Deed::File(deed) => file::perform(&mut asking, deed).await,
    };
    let mut history = sim.history.borrow_mut();
    match outcome {
        Some(outcome) => history.answer(call, outcome),
        // Nobody heard an answer. Bodies that were cut are noted where they are cut.
        None if deed.writes() && !sim.was_cut(call) => history.leave(call, Outcome::Unknown),
        None => history.leave(call, Outcome::Nothing),
    }
}

async fn prepare(asking: &mut Asking<'_>, what: &str) -> Option<Outcome> {
    let (service, line) = what.split_once(' ')?;
    let (_, service) = SERVICES.into_iter().find(|(name, _)| *name == service)?;
    let mut request = Request::new(line).of(service);
    if line.starts_with("POST Tables") {
        request = request.header("Content-Type", "application/json").body(table::named());
    }
    if line.starts_with("DELETE docs") {
        request = request.header("x-ms-delete-snapshots", "include");
    }
    let answer = asking.ask(request).await?;
    Some(match answer.status {
        200..=299 => Outcome::Nothing,
        status => Outcome::Wrong(format!("what is needed cannot be made: {status} {}", answer.text())),
    })
}

const SERVICES: [(&str, contract::Service); 4] = [
    ("blob", contract::Service::Blob),
    ("queue", contract::Service::Queue),
    ("table", contract::Service::Table),
    ("file", contract::Service::File),
];

/// One call, while it is made.
pub struct Asking<'a> {
    pub sim: &'a Rc<Sim>,
    pub chance: &'a mut Chance,
    pub gateway: usize,
    pub call: CallId,
}

impl Asking<'_> {
    /// One request; `None` without a whole answer.
    pub async fn ask(&mut self, mut request: Request) -> Option<Answer> {
        let (sim, call) = (self.sim, self.call);
        // Some sign with the key: then the date counts, and a clock that jumps meanwhile.
        if self.chance.below(8) > 0 {
            request = request.unsigned();
            request.query.extend(sim.sas.iter().cloned());
        }
        let manner = self.manner(&request);
        if manner == Manner::AsksFirst {
            request = request.header("Expect", "100-continue");
        }
        let gateway = sim.gateways.borrow()[self.gateway].clone();
        let bytes = request.bytes(gateway.clock.now());
        let (head, body) = bytes.split_at(bytes.len() - request.body.len());
        let Some(pipe) = gateway.connect(request.service, call, sim.plan.pipe_bytes) else {
            sim.cut(call); // nothing was sent
            return None;
        };
        match exchange(pipe, head, body, manner, &sim.pace).await {
            Exchange::Heard(answer) => {
                if manner == Manner::Patient || (manner == Manner::AsksFirst && answer.status == 201) {
                    sim.count(manner);
                }
                if answer.status >= 500 {
                    sim.note_failure(call, &answer);
                }
                self.heard_whole(answer, request.method == "HEAD")
            }
            Exchange::Left => {
                sim.count(manner);
                None
            }
            Exchange::Cut => {
                sim.count(manner);
                sim.cut(call);
                None
            }
        }
    }

    fn manner(&mut self, request: &Request) -> Manner {
        let (sim, chance) = (self.sim, &mut self.chance);
        if !sim.stormy.get() {
            return Manner::Patient;
        }
        if chance.permille(sim.plan.leaves) {
            return Manner::LeavesAfter { steps: chance.between(1, 400) };
        }
        if !request.body.is_empty() {
            if chance.permille(sim.plan.cuts) {
                return Manner::CutsBody { at: chance.index(request.body.len()) };
            }
            if chance.permille(sim.plan.asks_first) {
                return Manner::AsksFirst;
            }
        }
        Manner::Patient
    }

    /// An answer that broke off is none. What did come of a body must be right all the same.
    fn heard_whole(&self, answer: Answer, is_head: bool) -> Option<Answer> {
        let length = answer.header("content-length").and_then(|length| length.parse::<usize>().ok()).unwrap_or(0);
        if answer.status != 0 && (is_head || answer.body.len() == length) {
            return Some(answer);
        }
        if answer.body.len() > length {
            let what = format!("{} bytes came where {length} were announced", answer.body.len());
            self.sim.complain(self.call, what);
        }
        if let Some(wrong) = containers::client::wrong_part(&answer) {
            self.sim.complain(self.call, wrong);
        }
        None
    }
}

/// What every service may answer, instead of what was asked for.
pub fn failed(writes: bool, answer: &Answer) -> Option<Outcome> {
    match (answer.status, answer.code()) {
        // Whether it was done is not known; for a read nothing is.
        (500.., _) if writes => Some(Outcome::Unknown),
        (500.., _) => Some(Outcome::Nothing),
        // The clock jumped while the request was on its way.
        (403, "AuthenticationFailed") => Some(Outcome::Nothing),
        _ => None,
    }
}

/// An answer that the service never gives to such a request.
pub fn wrong(why: &str, answer: &Answer) -> Outcome {
    Outcome::Wrong(format!("{why}: {} {} {}", answer.status, answer.code(), answer.text()))
}

/// What stands in the first element of this name.
pub fn between<'a>(text: &'a str, element: &str) -> Option<&'a str> {
    let start = text.find(&format!("<{element}>"))? + element.len() + 2;
    let length = text[start..].find(&format!("</{element}>"))?;
    Some(&text[start..start + length])
}
