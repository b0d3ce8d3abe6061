//! Messages: put, receive, peek, update, delete; and what expired.
//!
//! All messages of a queue are one partition, so commands on them take turns and share commits: of any number of competing consumers
//! exactly one decides first, and the next sees what it took although it is not durable yet.
//!
//! 1. A message is one record in VISIBLE, one in POINTER, one in TEXT, and one in EXPIRY unless it lives for ever; they come and go in
//!    one commit. STATE is in every commit that changes any of them.
//! 2. Nothing waits for a time to come: a hidden message stands at a place beyond now, and now moves.
//! 3. An expired message is never shown. Whoever crosses one removes it; commands that write anyway look for a few more; `sweep` looks
//!    in queues that nobody touches.

use std::ops::Bound;

use bytes::Bytes;
use contract::Refusal;
use contract::names::{AccountName, QueueName};
use engine::{Fault, KeyRange, PartitionId, Write};
use env::{Id, Timestamp};

use super::Found;
pub use super::rules::TimeToLive;
use super::rules::{judge_receipt, judge_visibility};
use crate::directory::Named;
use crate::execute::{Command, Failure, Moment, Reader, Shell};
use crate::key::{self, queue as family};
use crate::list::{Entry, Listing};
use crate::record::{Message, Place, QueueHead, QueueState, corrupt};

const STATE_KEY: Bytes = Bytes::new();

/// Expired messages that one commit of a receive removes; more are left to the next.
const EXPIRED_PER_COMMIT_MAX: usize = 500;
/// Expired messages that a put, an update or a delete removes beside its own work.
const EXPIRED_IN_PASSING_MAX: usize = 8;
/// Records read at once after the first read was not enough.
const SCAN_ROWS: usize = 64;

/// A message as it was received or peeked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Received {
    pub message: Message,
    pub next_visible: Timestamp,
    pub text: Bytes,
}

// --- reading ---------------------------------------------------------------------------------------------------------

async fn load_state(reader: &Reader<'_>) -> Result<QueueState, Fault> {
    match reader.get(family::STATE, &STATE_KEY).await? {
        Some(record) => QueueState::decode(&record.value),
        None => Ok(QueueState::default()),
    }
}

async fn load_message(reader: &Reader<'_>, id: Id) -> Result<Option<(Place, Message)>, Fault> {
    let Some(place) = load_place(reader, id).await? else { return Ok(None) };
    let record = reader.get(family::VISIBLE, &place.key()).await?;
    let record = record.ok_or_else(|| lacking("its record", id))?;
    Ok(Some((place, Message::decode(&record.value)?)))
}

async fn load_place(reader: &Reader<'_>, id: Id) -> Result<Option<Place>, Fault> {
    let record = reader.get(family::POINTER, &id_key(id)).await?;
    record.map(|record| Place::read(&record.value)).transpose()
}

async fn load_text(reader: &Reader<'_>, id: Id) -> Result<Bytes, Fault> {
    let record = reader.get(family::TEXT, &id_key(id)).await?;
    Ok(record.ok_or_else(|| lacking("its text", id))?.value)
}

/// In a group that is being swept this is how it looks; in one that is alive it is damage (`settle` tells them apart).
fn lacking(what: &str, id: Id) -> Fault {
    Fault::Corrupt { what: format!("message {id} has lost {what}") }
}

/// What a receive or a peek came across from the floor on, as far as it is visible.
#[derive(Debug)]
struct Walk {
    alive: Vec<(Place, Received)>,
    expired: Vec<(Place, Message)>,
    /// All below it was come across.
    end: Place,
    /// So many were expired that the walk stopped early.
    cut: bool,
}

async fn walk(reader: &Reader<'_>, state: &QueueState, now: Timestamp, wanted: usize) -> Result<Walk, Fault> {
    let last = Place::last_visible(state.last_visible(now));
    let mut walk = Walk { alive: Vec::new(), expired: Vec::new(), end: state.floor, cut: false };
    if state.count == 0 {
        walk.end = last.after();
    }
    let mut rows = wanted;
    // Where to go on: beyond the end once something hidden was passed.
    let (mut next, mut passed_hidden) = (walk.end, false);
    while walk.alive.len() < wanted && next <= last && !walk.cut {
        let range = KeyRange { start: Bound::Included(next.key()), end: Bound::Included(last.key()) };
        let found = reader.scan(family::VISIBLE, &range, rows).await?;
        let was_all = found.len() < rows;
        for (key, record) in found {
            let (place, message) = (Place::read(&key)?, Message::decode(&record.value)?);
            next = place.after();
            if place.next_visible > now && !message.at_once {
                passed_hidden = true;
                continue;
            }
            if message.is_expired(now) {
                walk.expired.push((place, message));
            } else {
                let text = load_text(reader, message.id).await?;
                walk.alive.push((place, Received { message, next_visible: place.next_visible, text }));
            }
            if !passed_hidden {
                walk.end = next;
            }
            walk.cut = walk.expired.len() >= EXPIRED_PER_COMMIT_MAX;
            if walk.alive.len() == wanted || walk.cut {
                return Ok(walk);
            }
        }
        if was_all {
            next = last.after();
        }
        if !passed_hidden {
            walk.end = next;
        }
        rows = SCAN_ROWS;
    }
    Ok(walk)
}

/// Messages found to have expired, by their times.
#[derive(Debug, Default)]
struct Due {
    expired: Vec<(Place, Timestamp, Id)>,
    /// No other expires before it.
    floor: Option<Timestamp>,
}

async fn load_due(reader: &Reader<'_>, state: &QueueState, now: Timestamp, most: usize) -> Result<Due, Fault> {
    if state.count == 0 || state.expiry_floor > now {
        return Ok(Due::default());
    }
    let time = |time: Timestamp| Bytes::copy_from_slice(&time.ticks().to_be_bytes());
    let after_now = now.plus_ticks(1);
    let range = KeyRange { start: Bound::Included(time(state.expiry_floor)), end: Bound::Excluded(time(after_now)) };
    let found = reader.scan(family::EXPIRY, &range, most).await?;
    let mut due = Due { expired: Vec::with_capacity(found.len()), floor: Some(after_now) };
    let was_all = found.len() < most;
    for (key, _) in found {
        let (expiry, id) = read_expiry_key(&key)?;
        let place = load_place(reader, id).await?.ok_or_else(|| lacking("its place", id))?;
        due.expired.push((place, expiry, id));
        if !was_all {
            due.floor = Some(expiry);
        }
    }
    Ok(due)
}

/// A few of them, for commands that write anyway.
async fn load_few_due(reader: &Reader<'_>, state: &QueueState, now: Timestamp) -> Result<Due, Fault> {
    if !state.expiry_is_stale(now) {
        return Ok(Due::default());
    }
    load_due(reader, state, now, EXPIRED_IN_PASSING_MAX).await
}

// --- writing ---------------------------------------------------------------------------------------------------------

pub(crate) fn id_key(id: Id) -> Bytes {
    Bytes::copy_from_slice(&id.0.to_be_bytes())
}

pub(crate) fn expiry_key(expiry: Timestamp, id: Id) -> Bytes {
    Bytes::from([&expiry.ticks().to_be_bytes()[..], &id.0.to_be_bytes()].concat())
}

pub(crate) fn read_expiry_key(key: &[u8]) -> Result<(Timestamp, Id), Fault> {
    let read = || {
        let (time, id) = key.split_first_chunk::<8>()?;
        let id: [u8; 16] = id.try_into().ok()?;
        Some((Timestamp::from_ticks(u64::from_be_bytes(*time)), Id(u128::from_be_bytes(id))))
    };
    read().ok_or_else(|| corrupt("the key of an expiry", key))
}

/// The state of a queue, and the writes that change it.
struct Changes {
    state: QueueState,
    writes: Vec<Write>,
}

impl Changes {
    fn of(state: QueueState) -> Changes {
        Changes { state, writes: Vec::new() }
    }

    fn write(&mut self, family: engine::Family, key: Bytes, value: Bytes) {
        self.writes.push(Write::Put { family, key, value, slices: Vec::new() });
    }

    fn erase(&mut self, family: engine::Family, key: Bytes) {
        self.writes.push(Write::Delete { family, key });
    }

    fn add(&mut self, place: Place, message: &Message, text: Bytes) {
        self.state.add(place, message.expiry);
        self.stand(place, message);
        self.write(family::TEXT, id_key(message.id), text);
        if message.expiry < Timestamp::MAX {
            self.write(family::EXPIRY, expiry_key(message.expiry, message.id), Bytes::new());
        }
    }

    /// The message leaves its place for another; what is known of it may have changed.
    fn reposition(&mut self, old: Place, new: Place, message: &Message) {
        self.state.leave(old);
        self.state.put(new);
        self.erase(family::VISIBLE, old.key()); // before the next: they may be one
        self.stand(new, message);
    }

    fn stand(&mut self, place: Place, message: &Message) {
        if message.at_once {
            self.state.at_once_last = self.state.last_visible(place.next_visible);
        }
        self.write(family::VISIBLE, place.key(), message.encode());
        self.write(family::POINTER, id_key(message.id), place.key());
    }

    fn remove(&mut self, place: Place, expiry: Timestamp, id: Id) {
        self.state.remove(place);
        self.erase(family::VISIBLE, place.key());
        self.erase(family::POINTER, id_key(id));
        self.erase(family::TEXT, id_key(id));
        if expiry < Timestamp::MAX {
            self.erase(family::EXPIRY, expiry_key(expiry, id));
        }
    }

    fn remove_due(&mut self, due: Due) {
        for (place, expiry, id) in due.expired {
            self.remove(place, expiry, id);
        }
        self.state.expiry_floor = due.floor.unwrap_or(self.state.expiry_floor);
    }

    fn finish(mut self) -> Vec<Write> {
        let value = self.state.encode();
        self.write(family::STATE, STATE_KEY, value);
        self.writes
    }
}

// --- commands --------------------------------------------------------------------------------------------------------

struct PutMessage {
    partition: PartitionId,
    now: Timestamp,
    id: Id,
    text: Bytes,
    visibility_seconds: u64,
    time_to_live: TimeToLive,
}

impl Command for PutMessage {
    type Records = (QueueState, Due);
    type Outcome = (Message, Timestamp);

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        let state = load_state(reader).await?;
        let due = load_few_due(reader, &state, self.now).await?;
        Ok((state, due))
    }

    fn check(&self, _records: &Self::Records, _now: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, (state, due): Self::Records, moment: Moment) -> Result<(Vec<Write>, Self::Outcome), Refusal> {
        let mut changes = Changes::of(state);
        changes.remove_due(due);
        let message = Message {
            id: self.id,
            inserted: moment.now,
            expiry: self.time_to_live.expiry(moment.now),
            dequeue_count: 0,
            receipt: moment.id,
            at_once: self.visibility_seconds == 0,
        };
        let next_visible = moment.now.plus_seconds(self.visibility_seconds);
        changes.add(Place { next_visible, number: moment.tick }, &message, self.text.clone());
        Ok((changes.finish(), (message, next_visible)))
    }
}

struct GetMessages {
    partition: PartitionId,
    now: Timestamp,
    wanted: usize,
    visibility_seconds: u64,
}

/// What a receive took; `cut` if there may be more that it did not get to.
struct Taken {
    messages: Vec<Received>,
    cut: bool,
}

impl Command for GetMessages {
    type Records = (QueueState, Walk);
    type Outcome = Taken;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        let state = load_state(reader).await?;
        let walk = walk(reader, &state, self.now, self.wanted).await?;
        Ok((state, walk))
    }

    fn check(&self, _records: &Self::Records, _now: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, (state, walk): Self::Records, moment: Moment) -> Result<(Vec<Write>, Taken), Refusal> {
        let found_nothing = walk.alive.is_empty() && walk.expired.is_empty();
        if found_nothing && !state.floor_is_stale(self.now) {
            return Ok((Vec::new(), Taken { messages: Vec::new(), cut: false }));
        }
        let mut changes = Changes::of(state);
        // First of all: no place that is left below it counts.
        changes.state.raise_floor(walk.end);
        for (place, message) in walk.expired {
            changes.remove(place, message.expiry, message.id);
        }
        let next_visible = moment.now.plus_seconds(self.visibility_seconds);
        let mut messages = Vec::with_capacity(walk.alive.len());
        for (old, mut received) in walk.alive {
            received.message.dequeue_count += 1;
            // One for all of them: a receipt counts only with its message's id.
            received.message.receipt = moment.id;
            received.message.at_once = self.visibility_seconds == 0;
            received.next_visible = next_visible;
            changes.reposition(old, Place { next_visible, ..old }, &received.message);
            messages.push(received);
        }
        Ok((changes.finish(), Taken { messages, cut: walk.cut }))
    }
}

/// What Update Message and Delete Message do to the one message they name.
struct OnMessage {
    partition: PartitionId,
    now: Timestamp,
    id: Id,
    receipt: Id,
    action: Action,
}

#[derive(Clone)]
enum Action {
    Update { visibility_seconds: u64, text: Option<Bytes> },
    Delete,
}

struct Target {
    state: QueueState,
    message: Option<(Place, Message)>,
    due: Due,
}

impl Command for OnMessage {
    type Records = Target;
    /// The message and the time it is visible from; of a deleted one as they were.
    type Outcome = (Message, Timestamp);

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Target, Fault> {
        let state = load_state(reader).await?;
        let message = load_message(reader, self.id).await?;
        let due = load_few_due(reader, &state, self.now).await?;
        Ok(Target { state, message, due })
    }

    fn check(&self, target: &Target, now: Timestamp) -> Result<(), Refusal> {
        judge_receipt(target.message.as_ref().map(|(_, message)| message), self.receipt, now)
    }

    fn decide(&self, mut target: Target, moment: Moment) -> Result<(Vec<Write>, Self::Outcome), Refusal> {
        self.check(&target, moment.now)?;
        let (place, mut message) = target.message.take().ok_or(contract::ErrorCode::MessageNotFound)?;
        // It was alive a moment ago; by an older clock it may be among the expired.
        target.due.expired.retain(|(_, _, id)| *id != self.id);
        let mut changes = Changes::of(target.state);
        changes.remove_due(target.due);
        let next_visible = match &self.action {
            Action::Delete => {
                changes.remove(place, message.expiry, message.id);
                place.next_visible
            }
            Action::Update { visibility_seconds, text } => {
                let next_visible = moment.now.plus_seconds(*visibility_seconds);
                judge_visibility(&message, next_visible, *visibility_seconds)?;
                message.receipt = moment.id;
                message.at_once = *visibility_seconds == 0;
                changes.reposition(place, Place { next_visible, ..place }, &message);
                if let Some(text) = text {
                    changes.write(family::TEXT, id_key(self.id), text.clone());
                }
                next_visible
            }
        };
        Ok((changes.finish(), (message, next_visible)))
    }
}

/// Removes what expired and raises the floor, where nobody else may for a while.
struct Sweep {
    partition: PartitionId,
    now: Timestamp,
}

struct Sweepable {
    state: QueueState,
    due: Due,
    /// Where the first message stands that is visible now, or the first place that is not; if the floor is worth raising.
    floor: Option<Place>,
}

impl Command for Sweep {
    type Records = Sweepable;
    /// How many were removed.
    type Outcome = usize;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Sweepable, Fault> {
        let state = load_state(reader).await?;
        let due = load_due(reader, &state, self.now, EXPIRED_PER_COMMIT_MAX).await?;
        let mut floor = None;
        if state.floor_is_stale(self.now) {
            let last = Place::last_visible(self.now);
            let range = KeyRange { start: Bound::Included(state.floor.key()), end: Bound::Included(last.key()) };
            floor = Some(match reader.scan(family::VISIBLE, &range, 1).await?.first() {
                Some((key, _)) => Place::read(key)?,
                None => last.after(),
            });
        }
        Ok(Sweepable { state, due, floor })
    }

    fn check(&self, _records: &Sweepable, _now: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, records: Sweepable, _moment: Moment) -> Result<(Vec<Write>, usize), Refusal> {
        let removed = records.due.expired.len();
        let raises = records.floor.is_some_and(|floor| floor > records.state.floor);
        if removed == 0 && !raises {
            return Ok((Vec::new(), 0));
        }
        let mut changes = Changes::of(records.state);
        changes.remove_due(records.due);
        changes.state.raise_floor(records.floor.unwrap_or(Place::FIRST));
        Ok((changes.finish(), removed))
    }
}

// --- operations ------------------------------------------------------------------------------------------------------

/// Where an operation works: the account and the queue's name.
#[derive(Clone, Copy)]
pub struct Queue<'a> {
    pub account: &'a AccountName,
    pub name: &'a QueueName,
}

/// A queue that is cleared or deleted after it was found looks empty, or damaged while it is swept, and refuses writes. So whoever did
/// not get what it asked for looks whether the queue is still the one it found: `None` if not, and it asks again, of the one that is
/// there now. Not after a fault whose outcome is not known: it would be done twice, or not be found where it was done.
async fn settle<T>(
    shell: &Shell,
    queue: Queue<'_>,
    found: &Found,
    result: Result<T, Failure>,
    stands: impl Fn(&T) -> bool,
) -> Option<Result<T, Failure>> {
    let is_unknown = matches!(&result, Err(Failure::Fault(fault)) if !matches!(fault, Fault::Corrupt { .. }));
    if is_unknown || result.as_ref().is_ok_and(stands) {
        return Some(result);
    }
    match super::find(shell, queue.account, queue.name).await {
        Ok(now) if now.head.incarnation != found.head.incarnation => None,
        Ok(_) => Some(match result {
            Err(Failure::Gone) => Err(QueueHead::NOT_FOUND.into()),
            other => other,
        }),
        Err(failure) => Some(Err(failure)),
    }
}

/// Put Message. Gives the message and the time it is visible from.
pub async fn put(
    shell: &Shell,
    queue: Queue<'_>,
    text: Bytes,
    visibility_seconds: u64,
    time_to_live: TimeToLive,
) -> Result<(Message, Timestamp), Failure> {
    let (now, id) = (shell.clock.now(), shell.ids.next());
    loop {
        let found = super::find(shell, queue.account, queue.name).await?;
        let (partition, text) = (key::queue_partition(&found.group), text.clone());
        let command = PutMessage { partition, now, id, text, visibility_seconds, time_to_live };
        let result = shell.execute(&command).await;
        if let Some(settled) = settle(shell, queue, &found, result, |_| true).await {
            return settled;
        }
    }
}

/// Get Messages: at most `wanted`, each hidden for so many seconds from now.
pub async fn get(
    shell: &Shell,
    queue: Queue<'_>,
    wanted: usize,
    visibility_seconds: u64,
) -> Result<Vec<Received>, Failure> {
    let now = shell.clock.now();
    loop {
        let found = super::find(shell, queue.account, queue.name).await?;
        let partition = key::queue_partition(&found.group);
        let result = take(shell, GetMessages { partition, now, wanted, visibility_seconds }).await;
        // That there is none is not true of a queue that was cleared or deleted meanwhile.
        if let Some(settled) = settle(shell, queue, &found, result, |messages| !messages.is_empty()).await {
            return settled;
        }
    }
}

/// Goes on for as long as commits are full of what expired.
async fn take(shell: &Shell, mut command: GetMessages) -> Result<Vec<Received>, Failure> {
    let mut messages: Vec<Received> = Vec::new();
    loop {
        match shell.execute(&command).await {
            Ok(taken) => {
                command.wanted -= taken.messages.len();
                messages.extend(taken.messages);
                if !taken.cut || command.wanted == 0 {
                    return Ok(messages);
                }
            }
            // Those that were taken are the caller's whatever happens to the rest.
            Err(_) if !messages.is_empty() => return Ok(messages),
            Err(failure) => return Err(failure),
        }
    }
}

/// Peek Messages: changes nothing and takes no turn.
pub async fn peek(shell: &Shell, queue: Queue<'_>, wanted: usize) -> Result<Vec<Received>, Failure> {
    let now = shell.clock.now();
    loop {
        let found = super::find(shell, queue.account, queue.name).await?;
        let result = look(shell, key::queue_partition(&found.group), now, wanted).await;
        if let Some(settled) = settle(shell, queue, &found, result, |_| false).await {
            return settled;
        }
    }
}

async fn look(shell: &Shell, partition: PartitionId, now: Timestamp, wanted: usize) -> Result<Vec<Received>, Failure> {
    let sweep = Sweep { partition, now };
    loop {
        let read = || async {
            let view = shell.engine.view(&sweep.partition).await?;
            let reader = Reader::committed(view.as_ref());
            let state = load_state(&reader).await?;
            walk(&reader, &state, now, wanted).await
        };
        let walk = shell.steadily(&sweep.partition, read).await?;
        if !walk.cut {
            return Ok(walk.alive.into_iter().map(|(_, received)| received).collect());
        }
        // More have expired than it is right to walk past again and again.
        shell.execute(&sweep).await?;
    }
}

/// Update Message. Gives its new receipt and the time it is visible from.
pub async fn update(
    shell: &Shell,
    queue: Queue<'_>,
    message: (Id, Id),
    visibility_seconds: u64,
    text: Option<Bytes>,
) -> Result<(Message, Timestamp), Failure> {
    act(shell, queue, message, Action::Update { visibility_seconds, text }).await
}

/// Delete Message.
pub async fn delete(shell: &Shell, queue: Queue<'_>, message: (Id, Id)) -> Result<(), Failure> {
    act(shell, queue, message, Action::Delete).await.map(drop)
}

/// On the message with this id, for whoever has this receipt.
async fn act(
    shell: &Shell,
    queue: Queue<'_>,
    (id, receipt): (Id, Id),
    action: Action,
) -> Result<(Message, Timestamp), Failure> {
    let now = shell.clock.now();
    loop {
        let found = super::find(shell, queue.account, queue.name).await?;
        let (partition, action) = (key::queue_partition(&found.group), action.clone());
        let result = shell.execute(&OnMessage { partition, now, id, receipt, action }).await;
        if let Some(settled) = settle(shell, queue, &found, result, |_| true).await {
            return settled;
        }
    }
}

/// A queue with its count of messages: those hidden, and those expired and not yet removed, are among them.
pub async fn read(shell: &Shell, queue: Queue<'_>) -> Result<(QueueHead, u64), Failure> {
    loop {
        let found = super::find(shell, queue.account, queue.name).await?;
        let partition = key::queue_partition(&found.group);
        let state = {
            let view = shell.engine.view(&partition).await?;
            load_state(&Reader::committed(view.as_ref())).await?
        };
        let now = super::find(shell, queue.account, queue.name).await?;
        if now.head.incarnation == found.head.incarnation {
            return Ok((now.head, state.count));
        }
    }
}

/// Commits that one visit of the sweeper makes in one queue.
const SWEEPS_PER_VISIT_MAX: usize = 20;

/// Removes what expired from every queue of an account, a bounded number from each. Only saves space: nobody waits for it.
pub async fn sweep(shell: &Shell, account: &AccountName) -> Result<usize, Failure> {
    let mut removed = 0;
    let mut listing = Listing { prefix: String::new(), delimiter: None, start: String::new(), results_max: 100 };
    loop {
        let listed = super::list(shell, account, &listing).await?;
        for entry in listed.entries {
            let Entry::Item { head, .. } = entry else { continue };
            let group = key::contents_group(QueueHead::SERVICE, account, head.incarnation);
            let sweep = Sweep { partition: key::queue_partition(&group), now: shell.clock.now() };
            for _ in 0..SWEEPS_PER_VISIT_MAX {
                match shell.execute(&sweep).await {
                    Ok(0) | Err(Failure::Gone) => break,
                    Ok(some) => removed += some,
                    Err(failure) => return Err(failure),
                }
            }
        }
        match listed.next {
            Some(next) => listing.start = next,
            None => return Ok(removed),
        }
    }
}
