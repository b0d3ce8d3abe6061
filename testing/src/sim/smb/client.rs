//! An SMB client: connects, opens files, works on them, and at times goes away without a word.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use env::Clock;

use super::wire::{self, Connection, FileId, LockFlags, Response, SUCCESS};
use super::{Deed, Rights, What, choose_on, choose_open};
use crate::sim::chance::Chance;
use crate::sim::file::{self, FILES, Reply, SHARE, slots, written};
use crate::sim::history::{self, CallId, History, Outcome};
use crate::sim::run::Sim;
use crate::{ACCOUNT, KEY};

/// Opens of one client. More make the search longer, not deeper.
const OPENS_MAX: usize = 2;

/// What is known of a connection on both of its sides.
#[derive(Default)]
pub struct Line {
    pub client: usize,
    pub gateway: usize,
    opens: RefCell<Vec<Held>>,
    under_way: Cell<Option<CallId>>,
    lost: Cell<Option<CallId>>,
}

#[derive(Clone, Copy)]
struct Held {
    call: CallId,
    id: FileId,
    access: Rights,
}

impl Line {
    /// What was open is lost from here on, with what is being opened.
    pub fn lose(&self, history: &mut History, by_crash: bool) {
        if self.lost.get().is_some() {
            return;
        }
        let held = self.opens.borrow().iter().map(|held| held.call).chain(self.under_way.get()).collect();
        let deed = history::Deed::File(file::Deed::Smb(Deed::Lost { opens: held, by_crash }));
        let call = history.begin(self.client, self.gateway, deed);
        history.leave(call, Outcome::Answered(history::Reply::File(Reply::Done)));
        self.lost.set(Some(call));
    }

    /// The server will do nothing more for it.
    pub fn over(&self, history: &mut History) {
        let (under_way, lost) = (self.under_way.take(), self.lost.get());
        under_way.into_iter().chain(lost).for_each(|call| history.settle(call));
    }
}

/// Does deeds until there are none left to do.
pub async fn live(sim: Rc<Sim>, number: usize, mut chance: Chance) {
    let mut link = None;
    while sim.take_operation() {
        let gateway = sim.find_gateway(&mut chance).await;
        let ahead = chance.below(sim.plan.ticks_per_deed);
        sim.set_clock(gateway, sim.clock(gateway).now().plus_ticks(ahead));
        if link.is_none() {
            link = Link::connect(&sim, number, gateway).await;
        }
        if let Some(connected) = &mut link
            && connected.act(&sim, &mut chance).await.is_none()
        {
            link = None;
        }
    }
    if let Some(link) = link {
        link.line.lose(&mut sim.history.borrow_mut(), false);
    }
}

struct Link {
    connection: Connection,
    line: Rc<Line>,
}

impl Link {
    async fn connect(sim: &Rc<Sim>, client: usize, gateway: usize) -> Option<Link> {
        let line = Rc::new(Line { client, gateway, ..Line::default() });
        let server = sim.gateways.borrow()[gateway].clone();
        let pipe = server.connect_smb(&line, sim.plan.pipe_bytes)?;
        match Connection::log_on(pipe, ACCOUNT, KEY, SHARE).await {
            Some(Ok(connection)) => Some(Link { connection, line }),
            // It is not there, or it has to fail: it may look for the share.
            Some(Err(why)) => {
                sim.note_refused_connection(why);
                None
            }
            None => None,
        }
    }

    /// One deed; `None` if the connection is lost.
    async fn act(&mut self, sim: &Rc<Sim>, chance: &mut Chance) -> Option<()> {
        let held = self.line.opens.borrow().clone();
        let one = (!held.is_empty() && (held.len() == OPENS_MAX || chance.below(3) > 0)).then(|| *chance.pick(&held));
        let deed = match one {
            None => choose_open(chance),
            Some(held) => Deed::On { open: held.call, what: choose_on(chance, held.access) },
        };
        let history = &sim.history;
        let own = history::Deed::File(file::Deed::Smb(deed.clone()));
        let call = history.borrow_mut().begin(self.line.client, self.line.gateway, own);
        self.line.under_way.set(Some(call));
        let (command, body) = request(call, &deed, one.map(|held| held.id));
        let frame = self.connection.frame(command, &body);
        if sim.stormy.get() && chance.permille(sim.plan.leaves) {
            // After nothing, a part, or all of it.
            let sent = *chance.pick(&[0, frame.len() / 2, frame.len()]);
            let _ = self.connection.send(&frame[..sent]).await; // the server may be gone already
            let outcome = if sent < frame.len() { Outcome::Nothing } else { unheard(&deed) };
            history.borrow_mut().leave(call, outcome);
            self.line.lose(&mut history.borrow_mut(), false);
            return None;
        }
        let heard = match self.connection.send(&frame).await {
            Some(()) => self.connection.hear().await,
            None => None,
        };
        let Some(response) = heard else {
            history.borrow_mut().leave(call, unheard(&deed));
            // It is the server that went away, and has said so.
            if self.line.lost.get().is_none() {
                sim.complain(call, "the server ended a connection".into());
            }
            return None;
        };
        self.line.under_way.set(None);
        let outcome = understand(&deed, &response);
        if outcome == Outcome::Unknown {
            sim.note_storage_failure(call, response.status);
        }
        let done = outcome == Outcome::Answered(history::Reply::File(Reply::Done));
        match (&deed, wire::created(&response.body)) {
            (Deed::Open { claim, .. }, Some(id)) if done => {
                self.line.opens.borrow_mut().push(Held { call, id, access: claim.access });
            }
            // Whatever became of the file, the open is no more.
            (Deed::On { open, what: What::Close }, _) => {
                self.line.opens.borrow_mut().retain(|held| held.call != *open);
            }
            _ => {}
        }
        history.borrow_mut().answer(call, outcome);
        Some(())
    }
}

fn unheard(deed: &Deed) -> Outcome {
    if deed.writes() { Outcome::Unknown } else { Outcome::Nothing }
}

fn request(call: CallId, deed: &Deed, id: Option<FileId>) -> (u16, Vec<u8>) {
    let id = id.unwrap_or_default();
    match deed {
        Deed::Open { file, claim } => (wire::CREATE, wire::create(FILES[*file], *claim)),
        Deed::On { what, .. } => match *what {
            What::Read(range) => (wire::READ, wire::read(&id, range)),
            What::Write(range) => (wire::WRITE, wire::write(&id, range, &written(call, range))),
            What::Lock { range, exclusive } => {
                let flags = if exclusive { LockFlags::Exclusive } else { LockFlags::Shared };
                (wire::LOCK, wire::lock(&id, range, flags))
            }
            What::Unlock(range) => (wire::LOCK, wire::lock(&id, range, LockFlags::Unlock)),
            What::SetPending(is_pending) => (wire::SET_INFO, wire::set_pending(&id, is_pending)),
            What::Close => (wire::CLOSE, wire::close(&id)),
        },
        Deed::Lost { .. } => unreachable!("nobody asks for it"),
    }
}

/// The statuses that say no (MS-ERREF 2.3).
const REFUSALS: [(u32, &str); 6] = [
    (0xC000_0034, "OBJECT_NAME_NOT_FOUND"),
    (0xC000_0043, "SHARING_VIOLATION"),
    (0xC000_0054, "FILE_LOCK_CONFLICT"),
    (0xC000_0055, "LOCK_NOT_GRANTED"),
    (0xC000_0056, "DELETE_PENDING"),
    (0xC000_007E, "RANGE_NOT_LOCKED"),
];
/// And those that say that storage failed: the disk is full, or worse.
const FAILURES: [u32; 2] = [0xC000_007F, 0xC000_00E9];

fn understand(deed: &Deed, response: &Response) -> Outcome {
    if FAILURES.contains(&response.status) {
        return unheard(deed);
    }
    let refusal = REFUSALS.into_iter().find(|(status, _)| *status == response.status);
    let reply = match (refusal, deed) {
        (Some((_, name)), _) => Some(Reply::Refused(name.to_string())),
        _ if response.status != SUCCESS => None,
        (_, Deed::On { what: What::Read(range), .. }) => {
            let read = wire::bytes_read(&response.body).and_then(slots);
            read.filter(|slots| slots.len() == range.count).map(Reply::Read)
        }
        _ => Some(Reply::Done),
    };
    let wrong = || Outcome::Wrong(format!("not an answer to this request: {:08X}", response.status));
    reply.map_or_else(wrong, |reply| Outcome::Answered(history::Reply::File(reply)))
}
