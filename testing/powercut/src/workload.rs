//! The workload: several connections at once, each with names of its own, some names fought over, containers that come
//! and go, one that is deleted under its writers, queues of messages for anyone, transactions on a table, files that are renamed
//! into place, and objects written piece by piece. What each does follows from the seed; how they interleave does not, which is
//! why the recording is kept when something is found.

use crate::body;
use crate::disk::Chance;
use crate::history::{Deed, Scribe};
use crate::judge::{Fault, Finding};
use crate::objects::SLOTS;
use crate::store::{Answer, Condition, Member, Store, snapshot_of};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

pub const SHARED: [&str; 2] = ["shared-a", "shared-b"];
const TABLE: &str = "table0";
const SHARE: &str = "share-0";
/// Each connection has some slots of its own in every one of them.
const SLOTTED: [&str; 2] = ["pages-0", "file-0"];
const OWN_SLOTS: u64 = 4;
const LOG: &str = "append-0";
/// The whole log is read with every look at it.
const LOGGED_BYTES_MAX: usize = 4096;
const QUEUES: [&str; 2] = ["queue-0", "queue-1"];
/// Each connection puts no more than so many messages beyond those it deletes, so that one look shows a whole queue.
const MESSAGES_MAX: i32 = 8;
/// A text, a property or a slot may have no more, with some room for what is beside the body.
const SMALL_BODY_BYTES_MAX: usize = 30_000;
const STALE_ETAG: &str = "W/\"datetime'2001-01-01T00%3A00%3A00.0000000Z'\"";
const RACE: &str = "race";
const BULK: &str = "bulk";
/// Just small enough to be kept with the record: many of these make the record store turn its tables and journals over.
const BULK_BYTES: usize = 8 * 1024;
const BULK_NAMES: u64 = 8;
const OWN_NAMES: u64 = 10;
const HOT_NAMES: u64 = 3;

/// Around the places where a body changes its home (4 to 16 KiB), the page and block sizes, and a few large ones.
const SMALL: [usize; 12] = [0, 1, 63, 64, 511, 700, 1024, 2000, 3000, 4095, 4096, 4097];
const MIDDLE: [usize; 10] = [6000, 8191, 8192, 8193, 12_000, 16_383, 16_384, 16_385, 30_000, 65_536];
const LARGE: [usize; 5] = [131_073, 262_144, 700_001, 1 << 20, 3 << 20];

/// What a connection knows of its own names from one run of the server to the next.
pub struct Worker {
    number: usize,
    chance: Chance,
    scribe: Scribe,
    /// ETag of each own name that is there; a name whose state is unknown is left out of conditions.
    own: BTreeMap<(String, String), State>,
    /// Whether the own container is there.
    has_container: Option<bool>,
    messages_put: usize,
    logged: usize,
    /// Put and not deleted, both by this connection; below zero when it deleted those of others.
    messages: i32,
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    There(String),
    Unknown,
}

/// What the connections have to complain of while they run.
#[derive(Default)]
pub struct Complaints {
    findings: Mutex<Vec<Finding>>,
    /// The disk is failing or full: a 5xx is then the right answer to a change.
    may_fail: bool,
    failures: AtomicUsize,
}

impl Complaints {
    pub fn of_a_bad_disk() -> Complaints {
        Complaints { may_fail: true, ..Complaints::default() }
    }

    pub fn add(&self, fault: Fault, detail: String) {
        self.findings.lock().expect("no holder panics").push(Finding::new(fault, detail));
    }

    /// No disk excuses silence.
    fn hear(&self, what: &str, answer: &Answer) {
        self.failures.fetch_add(usize::from(matches!(answer, Answer::Failed { .. })), Ordering::Relaxed);
        match answer {
            Answer::Broken(why) => self.add(Fault::Unavailable, format!("{what}: {why}")),
            Answer::Failed { .. } if !self.may_fail => self.add(Fault::Unavailable, format!("{what}: {answer:?}")),
            _ => {}
        }
    }

    /// How many changes were answered with a 5xx.
    pub fn failures(&self) -> usize {
        self.failures.load(Ordering::Relaxed)
    }

    pub fn take(self) -> Vec<Finding> {
        self.findings.into_inner().expect("no holder panics")
    }
}

impl Worker {
    pub fn new(number: usize, seed: u64, scribe: Scribe) -> Worker {
        Worker {
            number,
            chance: Chance::new(seed ^ (number as u64) << 40),
            scribe,
            own: BTreeMap::new(),
            has_container: Some(false),
            messages_put: 0,
            logged: 0,
            messages: 0,
        }
    }

    /// Creates the containers, queues and the table that all share.
    pub fn prepare(&mut self, store: &mut dyn Store, complaints: &Complaints) {
        for container in SHARED.iter().chain([&RACE, &BULK, &TABLE, &SHARE, &LOG]).chain(&SLOTTED).chain(&QUEUES) {
            self.create_container(store, container, complaints);
        }
    }

    pub fn run(&mut self, store: &mut dyn Store, requests: usize, complaints: &Complaints) {
        for _ in 0..requests {
            match self.chance.below(160) {
                0..45 => self.put_own(store, complaints),
                45..55 => self.delete_own(store, complaints),
                55..63 => self.put_hot(store, complaints),
                63..72 => self.read(store, complaints),
                72..86 => self.keep_container(store, complaints),
                86..106 => self.queue(store, complaints),
                106..116 => self.put_transaction(store, complaints),
                116..130 => self.write_slot(store, complaints),
                130..138 => self.log(store, complaints),
                138..146 => self.take_snapshot(store, complaints),
                _ if self.number == 0 => self.stir_race(store, complaints),
                _ => self.put_race(store, complaints),
            }
        }
    }

    /// Overwrites a few names many times over.
    pub fn bulk(&mut self, store: &mut dyn Store, requests: usize, complaints: &Complaints) {
        for _ in 0..requests {
            let name = format!("w{}-b{}", self.number, self.chance.below(BULK_NAMES));
            self.put_bytes(store, BULK, &name, BULK_BYTES, &Condition::None, complaints);
        }
    }

    /// Reads every own name once, as a client does that comes back after a restart: what it is shown, it may rely on.
    pub fn reread(&mut self, store: &mut dyn Store, complaints: &Complaints) {
        for (container, name) in self.own.keys().cloned().collect::<Vec<_>>() {
            self.read_one(store, &container, &name, complaints);
        }
    }

    fn bytes(&mut self) -> usize {
        let sizes: &[usize] = match self.chance.below(20) {
            0..12 => &SMALL,
            12..18 => &MIDDLE,
            _ => &LARGE,
        };
        *self.chance.pick(sizes)
    }

    fn own_name(&mut self) -> (String, String) {
        let container = self.chance.pick(&[SHARED[0], SHARED[1], TABLE, SHARE]).to_string();
        (container, format!("w{}/n{}", self.number, self.chance.below(OWN_NAMES)))
    }

    fn put(
        &mut self,
        store: &mut dyn Store,
        container: &str,
        name: &str,
        condition: &Condition,
        complaints: &Complaints,
    ) -> Answer {
        let bytes = if container == TABLE { self.bytes().min(SMALL_BODY_BYTES_MAX) } else { self.bytes() };
        self.put_bytes(store, container, name, bytes, condition, complaints)
    }

    fn put_bytes(
        &mut self,
        store: &mut dyn Store,
        container: &str,
        name: &str,
        bytes: usize,
        condition: &Condition,
        complaints: &Complaints,
    ) -> Answer {
        let (operation, body) = self.scribe.begin(container, Deed::Put { name: name.to_string(), bytes });
        let body = body.expect("a put has a body");
        let answer = store.put(container, name, operation, &body, condition);
        self.scribe.end(operation, &answer);
        complaints.hear(&format!("put {container}/{name}"), &answer);
        answer
    }

    fn put_own(&mut self, store: &mut dyn Store, complaints: &Complaints) {
        let key = self.own_name();
        let before = self.own.get(&key).cloned();
        let condition = match (self.chance.below(10), &before) {
            (0..6, _) => Condition::None,
            (6..8, _) => Condition::Absent,
            _ if key.0 == SHARE => Condition::None,
            (8, Some(State::There(etag))) => Condition::Is(etag.clone()),
            _ => Condition::Is("\"0x8D0000000000000\"".into()),
        };
        let answer = self.put(store, &key.0, &key.1, &condition, complaints);
        let meets = match (&condition, &before) {
            (_, Some(State::Unknown)) => None,
            (Condition::None, _) => Some(true),
            (Condition::Absent, before) => Some(before.is_none()),
            (Condition::Is(etag), before) => Some(*before == Some(State::There(etag.clone()))),
        };
        self.learn(&key, answer, meets, complaints);
    }

    fn delete_own(&mut self, store: &mut dyn Store, complaints: &Complaints) {
        let key = self.own_name();
        let before = self.own.get(&key).cloned();
        let condition = match &before {
            Some(State::There(etag)) if key.0 != SHARE && self.chance.below(2) == 0 => Condition::Is(etag.clone()),
            _ => Condition::None,
        };
        let meets = match before {
            Some(State::Unknown) => None,
            // Blocks that were staged for a put that was refused can be deleted, too.
            None if SHARED.contains(&key.0.as_str()) => None,
            before => Some(before.is_some()),
        };
        self.delete_one(store, &key, &condition, meets, complaints);
    }

    fn delete_one(
        &mut self,
        store: &mut dyn Store,
        key: &(String, String),
        condition: &Condition,
        meets: Option<bool>,
        complaints: &Complaints,
    ) {
        let (operation, _) = self.scribe.begin(&key.0, Deed::Delete { name: key.1.clone() });
        let answer = store.delete(&key.0, &key.1, condition);
        self.scribe.end(operation, &answer);
        complaints.hear(&format!("delete {}/{}", key.0, key.1), &answer);
        let answer = match answer {
            Answer::Done { .. } => Answer::Done { etag: String::new() },
            other => other,
        };
        self.learn(key, answer, meets, complaints);
    }

    /// Writes over one of its slots in place, or clears it.
    fn write_slot(&mut self, store: &mut dyn Store, complaints: &Complaints) {
        let object = self.chance.pick(&SLOTTED).to_string();
        let slot = self.number * OWN_SLOTS as usize + self.chance.below(OWN_SLOTS) as usize;
        assert!(slot < SLOTS, "more connections than have slots");
        let key = (object, format!("w{}s{slot}", self.number));
        if self.own.contains_key(&key) && self.chance.below(4) == 0 {
            return self.delete_one(store, &key, &Condition::None, Some(true), complaints);
        }
        let bytes = self.bytes().min(SMALL_BODY_BYTES_MAX);
        let answer = self.put_bytes(store, &key.0, &key.1, bytes, &Condition::None, complaints);
        self.learn(&key, answer, Some(true), complaints);
    }

    /// Appends a block to the log that all share.
    fn log(&mut self, store: &mut dyn Store, complaints: &Complaints) {
        let key = (LOG.to_string(), format!("w{}-l{}", self.number, self.logged));
        self.logged += 1;
        let bytes = self.bytes().min(LOGGED_BYTES_MAX);
        let answer = self.put_bytes(store, &key.0, &key.1, bytes, &Condition::None, complaints);
        self.learn(&key, answer, Some(true), complaints);
    }

    /// Of an own blob, which has what its last put gave it.
    fn take_snapshot(&mut self, store: &mut dyn Store, complaints: &Complaints) {
        let is_blob = |container: &str| SHARED.contains(&container);
        let there = self.own.iter().filter_map(|(key, state)| match state {
            State::There(etag) if is_blob(&key.0) => Some((key.clone(), etag.clone())),
            _ => None,
        });
        let there: Vec<_> = there.collect();
        if there.is_empty() {
            return;
        }
        let (key, etag) = self.chance.pick(&there).clone();
        let Some(of) = self.scribe.writer(&key.0, &etag) else { return };
        let (operation, _) = self.scribe.begin(&key.0, Deed::Snapshot { name: snapshot_of(&key.1, ""), of });
        let answer = match store.snapshot(&key.0, &key.1) {
            Some(Ok(moment)) => {
                self.scribe.name_snapshot(operation, snapshot_of(&key.1, &moment));
                Answer::Done { etag }
            }
            Some(Err(answer)) => answer,
            None => Answer::Refused { status: 0, code: "the store has no snapshots".into() },
        };
        self.scribe.end(operation, &answer);
        complaints.hear(&format!("snapshot of {}/{}", key.0, key.1), &answer);
        if matches!(answer, Answer::Refused { status: 1.., .. }) {
            complaints.add(Fault::WrongAnswer, format!("snapshot of {}/{}: {answer:?}", key.0, key.1));
        }
    }

    /// Takes the answer into account; an empty ETag stands for a deletion.
    fn learn(&mut self, key: &(String, String), answer: Answer, meets: Option<bool>, complaints: &Complaints) {
        if matches!((&answer, meets), (Answer::Done { .. }, Some(false)) | (Answer::Refused { .. }, Some(true))) {
            complaints.add(Fault::WrongAnswer, format!("{}/{}: {answer:?}, conditions met: {meets:?}", key.0, key.1));
        }
        match answer {
            Answer::Done { etag } if etag.is_empty() => drop(self.own.remove(key)),
            Answer::Done { etag } => drop(self.own.insert(key.clone(), State::There(etag))),
            Answer::Refused { .. } => {}
            Answer::Failed { .. } | Answer::Broken(_) => drop(self.own.insert(key.clone(), State::Unknown)),
        }
    }

    fn put_hot(&mut self, store: &mut dyn Store, complaints: &Complaints) {
        let name = format!("hot/h{}", self.chance.below(HOT_NAMES));
        let condition = if self.chance.below(4) == 0 { Condition::Absent } else { Condition::None };
        self.put(store, SHARED[0], &name, &condition, complaints);
    }

    fn read(&mut self, store: &mut dyn Store, complaints: &Complaints) {
        if self.chance.below(2) == 0 {
            let name = format!("hot/h{}", self.chance.below(HOT_NAMES));
            self.read_one(store, SHARED[0], &name, complaints);
        } else {
            let (container, name) = self.own_name();
            self.read_one(store, &container, &name, complaints);
        }
    }

    fn read_one(&mut self, store: &mut dyn Store, container: &str, name: &str, complaints: &Complaints) {
        match store.get(container, name) {
            Ok(Some(found)) => {
                let written = found.operation.and_then(|operation| self.scribe.body(operation));
                match written.map(|written| body::difference(&written, &found.body)) {
                    Some(None) => self.scribe.observe(found.operation.expect("it has a body")),
                    Some(Some(damage)) => {
                        complaints.add(Fault::Torn, format!("live read of {container}/{name}: {damage}"))
                    }
                    None => complaints.add(Fault::Torn, format!("live read of {container}/{name}: of no known put")),
                }
                let known = self.own.get(&(container.to_string(), name.to_string()));
                if let Some(State::There(etag)) = known
                    && *etag != found.etag
                {
                    complaints.add(
                        Fault::WrongAnswer,
                        format!("live read of {container}/{name}: {} after {etag} was acknowledged", found.etag),
                    );
                }
            }
            Ok(None) => {
                if let Some(State::There(etag)) = self.own.get(&(container.to_string(), name.to_string())) {
                    complaints.add(
                        Fault::Lost,
                        format!("live read of {container}/{name}: gone after {etag} was acknowledged"),
                    );
                }
            }
            Err(error) if complaints.may_fail && error.contains(": 5") => {}
            Err(error) => complaints.add(Fault::Unavailable, format!("live read: {error}")),
        }
    }

    /// The own container or share: filled, deleted with all that is in it, made again under the same name.
    fn keep_container(&mut self, store: &mut dyn Store, complaints: &Complaints) {
        let kind = if self.number % 3 == 1 { "share-own" } else { "own" };
        let container = format!("{kind}-{}", self.number);
        match self.has_container {
            Some(true) if self.chance.below(5) > 0 => {
                let name = format!("c{}", self.chance.below(4));
                let answer = self.put(store, &container, &name, &Condition::None, complaints);
                if matches!(answer, Answer::Refused { .. }) {
                    complaints.add(
                        Fault::WrongAnswer,
                        format!("{container}/{name}: {answer:?} in a container that is there"),
                    );
                }
            }
            Some(true) => {
                let answer = self.delete_container(store, &container, complaints);
                self.has_container = matches!(answer, Answer::Done { .. }).then_some(false);
            }
            Some(false) | None => {
                let answer = self.create_container(store, &container, complaints);
                self.has_container = match answer {
                    Answer::Done { .. } => Some(true),
                    Answer::Refused { status: 409, .. } if self.has_container.is_none() => Some(true),
                    _ => None,
                };
            }
        }
    }

    /// Puts a message, or receives some and deletes most of them, whoever put them.
    fn queue(&mut self, store: &mut dyn Store, complaints: &Complaints) {
        let queue = QUEUES[self.number % QUEUES.len()];
        if self.messages < MESSAGES_MAX && self.chance.below(5) < 3 {
            let name = format!("w{}-m{}", self.number, self.messages_put);
            self.messages_put += 1;
            let bytes = self.bytes().min(SMALL_BODY_BYTES_MAX);
            let answer = self.put_bytes(store, queue, &name, bytes, &Condition::None, complaints);
            self.messages += i32::from(!matches!(answer, Answer::Refused { .. }));
            if matches!(answer, Answer::Refused { .. }) {
                complaints.add(Fault::WrongAnswer, format!("put {queue}/{name}: {answer:?}"));
            }
            return;
        }
        let received = match store.receive(queue) {
            Ok(received) => received,
            Err(error) if complaints.may_fail && error.contains(": 5") => return,
            Err(error) => return complaints.add(Fault::Unavailable, format!("receive: {error}")),
        };
        for message in received {
            let (name, found) = (message.name, message.found);
            let written = found.operation.and_then(|operation| self.scribe.body(operation));
            match written.map(|written| body::difference(&written, &found.body)) {
                Some(None) => self.scribe.observe(found.operation.expect("it has a body")),
                damage => complaints.add(Fault::Torn, format!("received {queue}/{name}: {damage:?}")),
            }
            if self.chance.below(4) > 0 {
                // Refused when it was so late that another connection has received it again.
                let (operation, _) = self.scribe.begin(queue, Deed::Delete { name: name.clone() });
                let answer = store.delete(queue, &name, &Condition::Is(message.receipt));
                self.scribe.end(operation, &answer);
                complaints.hear(&format!("delete {queue}/{name}"), &answer);
                self.messages -= i32::from(matches!(answer, Answer::Done { .. }));
            }
        }
    }

    /// Two to four own entities at once; now and then the condition on the last of them forbids it all.
    fn put_transaction(&mut self, store: &mut dyn Store, complaints: &Complaints) {
        let (first, count) = (self.chance.below(OWN_NAMES), 2 + self.chance.below(3));
        let names: Vec<String> = (0..count).map(|n| format!("w{}/n{}", self.number, (first + n) % OWN_NAMES)).collect();
        let is_forbidden = self.chance.below(4) == 0;
        let deeds = names
            .iter()
            .map(|name| Deed::Put { name: name.clone(), bytes: self.bytes().min(SMALL_BODY_BYTES_MAX) })
            .collect();
        let begun = self.scribe.begin_all(TABLE, deeds);
        let mut members: Vec<Member> = names
            .iter()
            .zip(&begun)
            .map(|(name, (operation, body))| Member {
                name,
                operation: *operation,
                body: body.as_ref().expect("a put has a body"),
                condition: Condition::None,
            })
            .collect();
        if is_forbidden {
            members[count as usize - 1].condition = Condition::Is(STALE_ETAG.into());
        }
        let none = Answer::Refused { status: 0, code: "the store has no transactions".into() };
        let answers: Vec<Answer> = match store.put_all(TABLE, &members).unwrap_or_else(|| Err(none.clone())) {
            Ok(etags) => etags.into_iter().map(|etag| Answer::Done { etag }).collect(),
            Err(answer) => {
                complaints.hear("transaction", &answer);
                vec![answer; names.len()]
            }
        };
        for ((name, (operation, _)), answer) in names.into_iter().zip(begun).zip(answers) {
            self.scribe.end(operation, &answer);
            let key = (TABLE.to_string(), name);
            let meets = if answer == none { None } else { Some(!is_forbidden) };
            self.learn(&key, answer, meets, complaints);
        }
    }

    fn stir_race(&mut self, store: &mut dyn Store, complaints: &Complaints) {
        self.delete_container(store, RACE, complaints);
        self.create_container(store, RACE, complaints);
    }

    fn put_race(&mut self, store: &mut dyn Store, complaints: &Complaints) {
        let name = format!("w{}-r{}", self.number, self.chance.below(3));
        self.put(store, RACE, &name, &Condition::None, complaints);
    }

    fn create_container(&mut self, store: &mut dyn Store, container: &str, complaints: &Complaints) -> Answer {
        let (operation, _) = self.scribe.begin(container, Deed::CreateContainer);
        let answer = store.create_container(container);
        self.scribe.end(operation, &answer);
        complaints.hear(&format!("create container {container}"), &answer);
        answer
    }

    fn delete_container(&mut self, store: &mut dyn Store, container: &str, complaints: &Complaints) -> Answer {
        let (operation, _) = self.scribe.begin(container, Deed::DeleteContainer);
        let answer = store.delete_container(container);
        self.scribe.end(operation, &answer);
        complaints.hear(&format!("delete container {container}"), &answer);
        answer
    }
}
