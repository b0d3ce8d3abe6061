//! What was asked and what was answered, in one order of time.
//!
//! 1. Time is a count of events: no two things happen at the same time.
//! 2. A value (a blob's content, a message's text) is named by the number of the call that wrote it.
//! 3. A call without a clear answer took effect before the server was done with it, or never. The simulation sees both ends of
//!    every connection and notes when that was.
//! 4. The machines' clocks are noted whenever they are set: what a server took for the time lies in the `Span` of its call.

use std::hash::{Hash, Hasher};

use super::{blob, containers, file, queue, table};

pub type Time = u64;
/// The call that wrote it; calls count from 1.
pub type Value = u32;
pub type CallId = u32;

/// What a client asks for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Deed {
    /// What the clients find when they come: a container, a queue, a table, a share.
    Prepare(&'static str),
    Container(containers::Deed),
    Blob(blob::Deed),
    Queue(queue::Deed),
    Table(table::Deed),
    File(file::Deed),
}

impl Deed {
    /// May it change anything?
    pub fn writes(&self) -> bool {
        match self {
            Deed::Prepare(_) => true,
            Deed::Container(deed) => deed.what.writes(),
            Deed::Blob(deed) => deed.writes(),
            Deed::Queue(deed) => deed.writes(),
            Deed::Table(deed) => deed.writes(),
            Deed::File(deed) => deed.writes(),
        }
    }
}

/// What an answer says.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Reply {
    Container(containers::Reply),
    Blob(blob::Reply),
    Queue(queue::Reply),
    Table(table::Reply),
    File(file::Reply),
}

impl Reply {
    /// Which kind of answer it is, for counting.
    pub fn kind(&self) -> String {
        let text = match self {
            Reply::Blob(blob::Reply::Refused(code)) | Reply::File(file::Reply::Refused(code)) => code.clone(),
            Reply::Table(table::Reply::Refused { why, .. }) => format!("{why:?}"),
            Reply::Container(reply) => format!("{:?}", reply.said),
            Reply::Blob(reply) => format!("{reply:?}"),
            Reply::Queue(reply) => format!("{reply:?}"),
            Reply::Table(reply) => format!("{reply:?}"),
            Reply::File(reply) => format!("{reply:?}"),
        };
        let service = format!("{self:?}");
        let word =
            |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default().to_string();
        format!("{} {}", word(&service), word(&text))
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// Under way.
    Open,
    Answered(Reply),
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

    /// It may have been done, and nobody knows.
    pub fn is_unknown(&self) -> bool {
        matches!(self.outcome, Outcome::Unknown | Outcome::Open) && self.deed.writes()
    }
}

/// The time by some clock, as far as it is known: in ticks, both ends possible.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Span {
    pub least: u64,
    pub most: u64,
}

impl Span {
    /// Reached, whatever a clock shows.
    pub const LONG_AGO: Span = Span { least: 0, most: 0 };

    pub fn plus_seconds(self, seconds: u64) -> Span {
        let ticks = seconds * env::TICKS_PER_SECOND;
        Span { least: self.least + ticks, most: self.most + ticks }
    }

    /// May this moment have been reached at that one?
    pub fn may_be_reached(self, now: Span) -> bool {
        self.least <= now.most
    }

    pub fn may_be_ahead(self, now: Span) -> bool {
        self.most > now.least
    }
}

#[derive(Clone, Default)]
pub struct History {
    calls: Vec<Call>,
    now: Time,
    /// Each gateway's clock: when it was set, and to what.
    clocks: Vec<Vec<(Time, u64)>>,
    /// The latest that any of them had shown at that time.
    latest: Vec<(Time, u64)>,
}

impl History {
    pub fn begin(&mut self, client: usize, gateway: usize, deed: Deed) -> CallId {
        let id = self.calls.len() as CallId + 1;
        let began = self.tick();
        let (outcome, answered, settled) = (Outcome::Open, None, None);
        self.calls.push(Call { id, client, gateway, deed, outcome, began, answered, settled });
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

    pub fn set_clock(&mut self, gateway: usize, ticks: u64) {
        let now = self.tick();
        if self.clocks.len() <= gateway {
            self.clocks.resize(gateway + 1, Vec::new());
        }
        self.clocks[gateway].push((now, ticks));
        let latest = self.latest.last().map_or(0, |(_, latest)| *latest);
        self.latest.push((now, ticks.max(latest)));
    }

    /// What the call's gateway may have taken for the time while it served the call.
    pub fn span(&self, call: &Call) -> Span {
        let clock = self.clocks.get(call.gateway).map_or(&[][..], Vec::as_slice);
        let first = clock.partition_point(|(time, _)| *time <= call.began).saturating_sub(1);
        let end = call.ended().map_or(clock.len(), |ended| clock.partition_point(|(time, _)| *time < ended));
        let ticks = || clock[first..end.max(first)].iter().map(|(_, ticks)| *ticks);
        Span { least: ticks().min().unwrap_or(0), most: ticks().max().unwrap_or(0) }
    }

    /// The latest time that any clock showed before the call ended.
    pub fn latest(&self, call: &Call) -> u64 {
        let end = call.ended().unwrap_or(Time::MAX);
        let before = self.latest.partition_point(|(time, _)| *time < end);
        self.latest[..before].last().map_or(0, |(_, latest)| *latest)
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

    /// Every call and every setting of a clock, a line each: two runs of one seed write the same.
    pub fn transcript(&self) -> String {
        let clocks = self.clocks.iter().enumerate().map(|(gateway, clock)| format!("clock {gateway}: {clock:?}\n"));
        self.calls.iter().map(|call| format!("{call}\n")).chain(clocks).collect()
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
        write!(f, "#{} [{}..{end}] client {} at gateway {}: ", self.id, self.began, self.client, self.gateway)?;
        match &self.outcome {
            Outcome::Answered(reply) => write!(f, "{:?} => {reply:?}", self.deed),
            outcome => write!(f, "{:?} => {outcome:?}", self.deed),
        }
    }
}
