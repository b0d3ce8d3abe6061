//! What was asked and what was answered, in one order of time.
//!
//! 1. Time is a count of events: no two things happen at the same time.
//! 2. A value (a blob's content, a container's metadata) is named by the number of the call that wrote it.
//! 3. A call without a clear answer took effect before the server was done with it, or never. The simulation sees both ends of
//!    every connection and notes when that was.

use std::hash::{Hash, Hasher};

pub type Time = u64;
/// The call that wrote it; calls count from 1.
pub type Value = u32;
pub type CallId = u32;

pub const CONTAINERS: [&str; 2] = ["alpha", "beta"];
/// In the order of listings. Two of them share a prefix.
pub const BLOBS: [&str; 5] = ["a", "b/1", "b/2", "c", "d"];

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Condition {
    None,
    IfMatch(u64),
    IfMatchAny,
    IfNoneMatch(u64),
    IfNoneMatchAny,
}

/// What a client asks for. Blobs by their place in `BLOBS`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Deed {
    CreateContainer,
    GetContainer,
    SetContainerMetadata(Condition),
    DeleteContainer(Condition),
    Put {
        blob: usize,
        bytes: u64,
        condition: Condition,
    },
    Get {
        blob: usize,
        range: Option<(u64, Option<u64>)>,
        condition: Condition,
    },
    Head {
        blob: usize,
        condition: Condition,
    },
    Delete {
        blob: usize,
        condition: Condition,
    },
    /// All pages, one after another.
    List {
        prefix: &'static str,
        delimiter: bool,
        page: u64,
    },
    ListContainers {
        page: u64,
    },
}

impl Deed {
    pub fn writes(&self) -> bool {
        use Deed::*;
        matches!(self, CreateContainer | SetContainerMetadata(_) | DeleteContainer(_) | Put { .. } | Delete { .. })
    }
}

/// What an answer says, ETags apart.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Reply {
    Done,
    Shown(Value),
    NotModified,
    ConditionNotMet,
    BlobNotFound,
    ContainerNotFound,
    BlobAlreadyExists,
    ContainerAlreadyExists,
    InvalidRange,
    Listed(Listed),
    ContainersListed(Vec<Row>),
}

/// What the pages of one listing showed together.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Listed {
    pub rows: Vec<Row>,
    pub prefixes: Vec<String>,
}

/// A blob or container in a listing, by its place in `BLOBS` or `CONTAINERS`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Row {
    pub index: usize,
    pub value: Value,
    pub etag: u64,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// Under way.
    Open,
    Answered {
        reply: Reply,
        etag: Option<u64>,
    },
    /// Done or not, as a whole: the server failed, or nobody heard its answer.
    Unknown,
    /// Nothing was learnt, and nothing may have been changed.
    Nothing,
    /// No state of any store explains such an answer.
    Wrong(String),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Call {
    pub id: CallId,
    pub client: usize,
    pub gateway: usize,
    /// Its place in `CONTAINERS`; without meaning for List Containers.
    pub container: usize,
    pub deed: Deed,
    pub outcome: Outcome,
    pub began: Time,
    /// When the client had its answer.
    pub answered: Option<Time>,
    /// When the server was done with it, or was no more.
    pub settled: Option<Time>,
}

impl Call {
    /// After this the call has no effect that it had not before. `None` is never.
    pub fn ended(&self) -> Option<Time> {
        self.answered.or(self.settled)
    }
}

#[derive(Clone, Default)]
pub struct History {
    calls: Vec<Call>,
    now: Time,
}

impl History {
    pub fn begin(&mut self, client: usize, gateway: usize, container: usize, deed: Deed) -> CallId {
        let id = self.calls.len() as CallId + 1;
        let began = self.tick();
        let (outcome, answered, settled) = (Outcome::Open, None, None);
        self.calls.push(Call { id, client, gateway, container, deed, outcome, began, answered, settled });
        id
    }

    /// The client has its answer.
    pub fn answer(&mut self, id: CallId, outcome: Outcome) {
        let now = self.tick();
        let call = self.call_mut(id);
        call.outcome = outcome;
        call.answered = Some(now);
    }

    /// The client has left, or was left, without an answer.
    pub fn leave(&mut self, id: CallId, outcome: Outcome) {
        self.tick();
        self.call_mut(id).outcome = outcome;
    }

    /// The server will do nothing more for this call.
    pub fn settle(&mut self, id: CallId) {
        let now = self.tick();
        self.call_mut(id).settled = Some(now);
    }

    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    pub fn call(&self, id: CallId) -> Option<&Call> {
        self.calls.get((id as usize).checked_sub(1)?)
    }

    /// For histories written by hand.
    pub fn push(&mut self, call: Call) {
        assert_eq!(call.id as usize, self.calls.len() + 1, "calls are numbered in the order they are given");
        self.now = self.now.max(call.began).max(call.ended().unwrap_or(0));
        self.calls.push(call);
    }

    /// Two runs with the same digest were the same run.
    pub fn digest(&self) -> u64 {
        let mut hasher = Fnv(0xCBF2_9CE4_8422_2325);
        self.calls.hash(&mut hasher);
        hasher.finish()
    }

    fn call_mut(&mut self, id: CallId) -> &mut Call {
        &mut self.calls[id as usize - 1]
    }

    fn tick(&mut self) -> Time {
        self.now += 1;
        self.now
    }
}

/// FNV-1a: the same everywhere, unlike the standard library's.
struct Fnv(u64);

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let end = self.ended().map_or("-".to_string(), |end| end.to_string());
        let container = CONTAINERS[self.container];
        write!(
            f,
            "#{} [{}..{end}] client {} at gateway {}, {container}: ",
            self.id, self.began, self.client, self.gateway
        )?;
        match &self.outcome {
            Outcome::Answered { reply, etag: Some(etag) } => write!(f, "{:?} => {reply:?} 0x{etag:X}", self.deed),
            Outcome::Answered { reply, etag: None } => write!(f, "{:?} => {reply:?}", self.deed),
            outcome => write!(f, "{:?} => {outcome:?}", self.deed),
        }
    }
}
