//! What was asked, what was answered, and where in the disk's log each lies.
//!
//! 1. Two clocks: `tick` orders the beginnings and answers of operations among themselves, `position` places them in the
//!    log of the disk. The first says what supersedes what, the second what a cut may and may not take away.
//! 2. An operation's identity is its index; it is part of the body and of the metadata it wrote. Operations that begin at
//!    one tick are one transaction.
//! 3. A value that was served to a reader is durable from then on, acknowledged or not: reads never see a commit before
//!    it is durable.

use crate::body;
use crate::disk::Disk;
use crate::store::{Answer, snapshot_parts};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock};

#[derive(Clone, Debug, PartialEq)]
pub enum Deed {
    CreateContainer,
    DeleteContainer,
    Put {
        name: String,
        bytes: usize,
    },
    Delete {
        name: String,
    },
    /// Of what operation `of` put; its name has no moment until it is answered.
    Snapshot {
        name: String,
        of: usize,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Acknowledged; creations and puts come with their ETag.
    Done { etag: String },
    /// Refused with a 4xx: it has no effect, ever.
    NoEffect,
    /// No answer, or a 5xx: may have its effect or not, but nothing in between.
    Unknown,
}

pub const NEVER: usize = usize::MAX;

#[derive(Clone, Debug)]
pub struct Operation {
    pub container: String,
    pub deed: Deed,
    pub begun_tick: usize,
    pub begun_position: usize,
    /// `NEVER` without an acknowledgement.
    pub answered_tick: usize,
    /// `NEVER` without an acknowledgement.
    pub acknowledged_position: usize,
    /// From this position on a cut may not take the effect away: the acknowledgement's, or that of an earlier reader.
    pub durable_position: usize,
    pub outcome: Outcome,
    body: OnceLock<Arc<Vec<u8>>>,
}

impl Operation {
    pub fn new(container: &str, deed: Deed, begun_tick: usize, begun_position: usize) -> Operation {
        Operation {
            container: container.to_string(),
            deed,
            begun_tick,
            begun_position,
            answered_tick: NEVER,
            acknowledged_position: NEVER,
            durable_position: NEVER,
            outcome: Outcome::Unknown,
            body: OnceLock::new(),
        }
    }

    pub fn is_done(&self) -> bool {
        matches!(self.outcome, Outcome::Done { .. })
    }

    pub fn blob(&self) -> Option<&str> {
        match &self.deed {
            Deed::Put { name, .. } | Deed::Delete { name } | Deed::Snapshot { name, .. } => Some(name),
            Deed::CreateContainer | Deed::DeleteContainer => None,
        }
    }

    /// What this operation, known as `identity`, makes of a name: whose body it holds afterwards, or nobody's. Nothing if
    /// it leaves the name alone, or is about the container. A blob takes its snapshots along.
    pub fn makes_of(&self, identity: usize, wanted: &str) -> Option<Option<usize>> {
        match &self.deed {
            Deed::Put { name, .. } if name == wanted => Some(Some(identity)),
            Deed::Snapshot { name, of } if name == wanted => Some(Some(*of)),
            Deed::Delete { name } if name == wanted || name == base(wanted) => Some(None),
            _ => None,
        }
    }
}

/// What a name is a snapshot of, or the name itself.
pub fn base(name: &str) -> &str {
    snapshot_parts(name).map_or(name, |(base, _)| base)
}

#[derive(Default, Clone)]
pub struct History {
    pub operations: Vec<Operation>,
    /// Operations of an earlier history have the identities below this one.
    pub first: usize,
    pub ticks: usize,
}

impl History {
    pub fn get(&self, operation: usize) -> Option<&Operation> {
        self.operations.get(operation.checked_sub(self.first)?)
    }

    pub fn body(&self, operation: usize) -> Option<Arc<Vec<u8>>> {
        let op = self.get(operation)?;
        let Deed::Put { name, bytes } = &op.deed else { return None };
        Some(op.body.get_or_init(|| Arc::new(body::make(&op.container, name, operation, *bytes))).clone())
    }

    pub fn containers(&self) -> BTreeSet<&str> {
        self.operations.iter().map(|op| op.container.as_str()).collect()
    }

    /// Every blob name ever used, by container.
    pub fn names(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut names: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for op in &self.operations {
            let of_container = names.entry(&op.container).or_default();
            of_container.extend(op.blob());
        }
        names
    }

    pub fn acknowledged(&self) -> usize {
        self.operations.iter().filter(|op| op.is_done()).count()
    }
}

/// Writes a history while the workload's connections run.
#[derive(Clone)]
pub struct Scribe {
    disk: Arc<Mutex<Disk>>,
    history: Arc<Mutex<History>>,
}

impl Scribe {
    pub fn new(disk: Arc<Mutex<Disk>>, first: usize) -> Scribe {
        Scribe { disk, history: Arc::new(Mutex::new(History { first, ..History::default() })) }
    }

    fn position(&self) -> usize {
        self.disk.lock().expect("no holder of the disk panics").position()
    }

    /// To be called before the request is sent.
    pub fn begin(&self, container: &str, deed: Deed) -> (usize, Option<Arc<Vec<u8>>>) {
        self.begin_all(container, vec![deed]).pop().expect("one deed, one operation")
    }

    /// One transaction: its operations begin at one tick, and no others do.
    pub fn begin_all(&self, container: &str, deeds: Vec<Deed>) -> Vec<(usize, Option<Arc<Vec<u8>>>)> {
        let position = self.position();
        let mut history = self.history.lock().expect("no holder panics");
        history.ticks += 1;
        let begun = |deed| {
            let op = Operation::new(container, deed, history.ticks, position);
            history.operations.push(op);
            let identity = history.first + history.operations.len() - 1;
            (identity, history.body(identity))
        };
        deeds.into_iter().map(begun).collect()
    }

    /// To be called after the answer was received.
    pub fn end(&self, operation: usize, answer: &Answer) {
        let position = self.position();
        let mut history = self.history.lock().expect("no holder panics");
        history.ticks += 1;
        let tick = history.ticks;
        let index = operation - history.first;
        let op = &mut history.operations[index];
        match answer {
            Answer::Done { etag } => {
                op.outcome = Outcome::Done { etag: etag.clone() };
                op.answered_tick = tick;
                op.acknowledged_position = position;
                op.durable_position = op.durable_position.min(position);
            }
            Answer::Refused { .. } => op.outcome = Outcome::NoEffect,
            Answer::Failed { .. } | Answer::Broken(_) => op.outcome = Outcome::Unknown,
        }
    }

    /// Whose body has this ETag.
    pub fn writer(&self, container: &str, etag: &str) -> Option<usize> {
        let history = self.history.lock().expect("no holder panics");
        let wrote = |op: &Operation| {
            let is_put = matches!(op.deed, Deed::Put { .. }) && op.container == container;
            is_put && matches!(&op.outcome, Outcome::Done { etag: given } if given == etag)
        };
        history.operations.iter().rposition(wrote).map(|index| index + history.first)
    }

    /// The answer told its moment.
    pub fn name_snapshot(&self, operation: usize, told: String) {
        let mut history = self.history.lock().expect("no holder panics");
        let index = operation - history.first;
        if let Deed::Snapshot { name, .. } = &mut history.operations[index].deed {
            *name = told;
        }
    }

    /// A reader was given what this operation wrote.
    pub fn observe(&self, operation: usize) {
        let position = self.position();
        let mut history = self.history.lock().expect("no holder panics");
        let index = operation.wrapping_sub(history.first);
        if let Some(op) = history.operations.get_mut(index) {
            op.durable_position = op.durable_position.min(position);
        }
    }

    pub fn body(&self, operation: usize) -> Option<Arc<Vec<u8>>> {
        self.history.lock().expect("no holder panics").body(operation)
    }

    /// Puts all that was acknowledged so far before the first entry of the log: the recording begins now.
    pub fn begin_recording(&self) {
        let mut history = self.history.lock().expect("no holder panics");
        for op in &mut history.operations {
            op.begun_position = 0;
            if op.is_done() {
                op.acknowledged_position = 0;
                op.durable_position = 0;
            }
        }
    }

    pub fn finish(self) -> History {
        self.history.lock().expect("no holder panics").clone()
    }
}
