//! Events: what is written in the commit that it tells of, and how it is found again and settled. docs/decisions/0024-events.md
//!
//! 1. A command that announces something writes its events in the commit of the blob, or nothing of either.
//! 2. Before such a commit a note names the container, and it stays for as long as the container holds events; so a round that reads the notes
//!    misses none. A note too many is harmless.
//! 3. Nothing is decided by what is in memory: what was told there is in a record, and may be found in it once more.

mod outbox;

use bytes::{BufMut, Bytes, BytesMut};
use contract::Refusal;
use contract::names::AccountName;
use engine::{Durability, Family, Fault, GroupId, GroupRange, PartitionId, ScanStart, Write};
use env::{Id, Timestamp};

pub use outbox::{Outbox, Subscribers, Told};

use crate::etag::ETag;
use crate::execute::{Blind, Command, Failure, Moment, Reader, Shell};
use crate::key::{self, GroupKind, account, container};
use crate::record::BlobHead;
use crate::record::event::{Api, Event, EventKind, PendingEvent, decode_note, encode_note};

/// So long has an event whoever wrote it, or took it to deliver it.
pub const CLAIM_SECONDS: u64 = 120;

/// A note is renewed after so long, and may be forgotten after twice that. No commit is under way for as long.
const NOTE_SECONDS: u64 = 3600;

/// What a command tells those who are subscribed, if it is done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Announcement {
    pub account: AccountName,
    pub container: String,
    pub blob: String,
    pub url: String,
    pub api: Api,
    pub request: Id,
    pub client_request: Option<String>,
    /// Those who want it, by name.
    pub subscriptions: Vec<String>,
}

impl Announcement {
    /// The events of a blob as it was made, or as it was before it was deleted.
    fn writes(&self, head: &BlobHead, sequence: u64, moment: Moment) -> Vec<Write> {
        let content_bytes = (self.api.kind() == EventKind::Created).then_some(head.content_bytes);
        let event = Event {
            id: moment.id,
            time: moment.now,
            api: self.api,
            container: self.container.clone(),
            blob: self.blob.clone(),
            url: self.url.clone(),
            request: self.request,
            client_request: self.client_request.clone(),
            sequence,
            content_type: head.properties.content_type.clone(),
            content_bytes,
            blob_kind: head.kind,
        };
        let pending = self.subscriptions.iter().map(|subscription| PendingEvent {
            subscription: subscription.clone(),
            event: event.clone(),
            attempts: 0,
            due: moment.now,
            claimed: moment.now.plus_seconds(CLAIM_SECONDS),
            last: None,
            given_up: None,
        });
        pending.map(|pending| put(container::EVENT, event_key(&pending), &pending)).collect()
    }
}

/// The events of a blob that was made.
pub fn created(announcement: Option<&Announcement>, head: &BlobHead, moment: Moment) -> Vec<Write> {
    announcement.map_or(Vec::new(), |announcement| announcement.writes(head, head.etag.0, moment))
}

/// The events of a blob that was deleted.
pub fn deleted(announcement: Option<&Announcement>, head: &BlobHead, moment: Moment) -> Vec<Write> {
    let sequence = ETag::next(Some(head.etag), moment.tick).0;
    announcement.map_or(Vec::new(), |announcement| announcement.writes(head, sequence, moment))
}

fn put(family: Family, key: Bytes, pending: &PendingEvent) -> Write {
    Write::Put { family, key, value: pending.encode(), slices: Vec::new() }
}

pub(crate) fn event_key(pending: &PendingEvent) -> Bytes {
    let mut key = BytesMut::with_capacity(8 + pending.subscription.len());
    key.put_u64(pending.event.sequence);
    key.put_slice(pending.subscription.as_bytes());
    key.freeze()
}

/// The key of an event whose container is gone, among those of all containers of an account.
pub(crate) fn kept_key(pending: &PendingEvent) -> Bytes {
    let mut key = BytesMut::with_capacity(24 + pending.subscription.len());
    key.put_u64(pending.event.sequence);
    key.put_u128(pending.event.id.0);
    key.put_slice(pending.subscription.as_bytes());
    key.freeze()
}

/// Where an event lies.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Place {
    pub partition: PartitionId,
    pub key: Bytes,
}

impl Place {
    fn family(&self) -> Family {
        match key::kind(&self.partition.group) {
            Some(GroupKind::Container) => container::EVENT,
            _ => account::EVENTS,
        }
    }

    /// Whose it is.
    pub fn account(&self) -> Option<AccountName> {
        let (_, id) = self.partition.group.0.split_first()?;
        let name = id.split(|byte| *byte == 0).next()?;
        AccountName::parse(std::str::from_utf8(name).ok()?)
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Option<PendingEvent>, Fault> {
        let record = reader.get(self.family(), &self.key).await?;
        record.map(|record| PendingEvent::decode(&record.value)).transpose()
    }

    /// The event as it is now, if it is still to be delivered.
    pub async fn read(&self, shell: &Shell) -> Result<Option<PendingEvent>, Fault> {
        let view = shell.engine.view(&self.partition).await?;
        self.load(&Reader::committed(view.as_ref())).await
    }
}

/// Takes an event for a while, unless somebody else has it.
pub struct Claim<'a> {
    pub place: &'a Place,
    /// As the one who asks left it; the event is still that one's then.
    pub left: Option<&'a PendingEvent>,
}

impl Command for Claim<'_> {
    type Records = Option<PendingEvent>;
    type Outcome = Option<PendingEvent>;

    fn partition(&self) -> &PartitionId {
        &self.place.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        self.place.load(reader).await
    }

    fn check(&self, _there: &Self::Records, _now: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, there: Self::Records, moment: Moment) -> Result<(Vec<Write>, Self::Outcome), Refusal> {
        let is_free = |there: &PendingEvent| there.claimed <= moment.now || Some(there) == self.left;
        let Some(there) = there.filter(is_free) else { return Ok((Vec::new(), None)) };
        let taken = PendingEvent { claimed: moment.now.plus_seconds(CLAIM_SECONDS), ..there };
        Ok((vec![put(self.place.family(), self.place.key.clone(), &taken)], Some(taken)))
    }
}

/// What became of an attempt: the event is gone, or waits for the next one. Should a crash take it, there is one attempt more.
pub struct Settle<'a> {
    pub place: &'a Place,
    pub to: Option<&'a PendingEvent>,
}

impl Command for Settle<'_> {
    /// Is it there?
    type Records = bool;
    type Outcome = bool;

    fn partition(&self) -> &PartitionId {
        &self.place.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<bool, Fault> {
        Ok(reader.get(self.place.family(), &self.place.key).await?.is_some())
    }

    fn check(&self, _is_there: &bool, _now: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, is_there: bool, _moment: Moment) -> Result<(Vec<Write>, bool), Refusal> {
        let (family, key) = (self.place.family(), self.place.key.clone());
        let write = match self.to {
            Some(pending) => put(family, key, pending),
            None => Write::Delete { family, key },
        };
        Ok((Some(write).filter(|_| is_there).into_iter().collect(), is_there))
    }

    fn durability(&self) -> Durability {
        Durability::Buffered
    }
}

/// Says that a container may hold events.
pub(crate) async fn note(shell: &Shell, account: &AccountName, group: &GroupId, now: Timestamp) -> Result<(), Failure> {
    let (family, key) = (account::EVENTFUL, group.0.clone());
    let write = Write::Put { family, key, value: encode_note(now), slices: Vec::new() };
    shell.execute_quietly(&Blind { partition: key::events_partition(account), writes: vec![write] }).await
}

/// Takes the note on a container away, unless it was renewed lately.
struct Forget {
    partition: PartitionId,
    group: GroupId,
    /// It holds nothing and never will.
    is_gone: bool,
}

impl Command for Forget {
    type Records = Option<Timestamp>;
    type Outcome = ();

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        let record = reader.get(account::EVENTFUL, &self.group.0).await?;
        record.map(|record| decode_note(&record.value)).transpose()
    }

    fn check(&self, _noted: &Self::Records, _now: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, noted: Self::Records, moment: Moment) -> Result<(Vec<Write>, ()), Refusal> {
        let is_old = |noted: &Timestamp| self.is_gone || may_be_forgotten(*noted, moment.now);
        let forgotten = noted.filter(is_old);
        let write = Write::Delete { family: account::EVENTFUL, key: self.group.0.clone() };
        Ok((forgotten.map(|_| write).into_iter().collect(), ()))
    }
}

fn may_be_forgotten(noted: Timestamp, now: Timestamp) -> bool {
    now >= noted.plus_seconds(2 * NOTE_SECONDS)
}

/// A container that may hold events, or the account's own partition with those of containers that are gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    pub account: AccountName,
    group: GroupId,
    noted: Option<Timestamp>,
}

/// Rows asked of the engine at once.
const ROWS_AT_ONCE: usize = 256;

/// Where the events of an account may be.
pub async fn holders(shell: &Shell, account: &AccountName) -> Result<Vec<Holder>, Failure> {
    let own = key::account_group(account);
    let mut found = vec![Holder { account: account.clone(), group: own.clone(), noted: None }];
    let mut start = ScanStart::AtPartition(Bytes::new());
    loop {
        let (group, family) = (own.clone(), account::EVENTFUL);
        let page =
            shell.engine.scan(&GroupRange { group, family, start, before_partition: None }, ROWS_AT_ONCE).await?;
        for row in &page.rows {
            let (group, noted) = (GroupId(row.key.clone()), decode_note(&row.record.value)?);
            found.push(Holder { account: account.clone(), group, noted: Some(noted) });
        }
        match page.rows.last() {
            Some(row) if page.more => {
                start = ScanStart::After { partition: row.partition.clone(), key: row.key.clone() };
            }
            _ => return Ok(found),
        }
    }
}

/// Some of the events that a holder has.
pub struct Found {
    /// A record that cannot be read is told of, and left where it is.
    pub events: Vec<(Place, Result<PendingEvent, Fault>)>,
    /// Where to go on; `None` at the end.
    pub next: Option<(Bytes, Bytes)>,
}

impl Holder {
    pub async fn look(&self, shell: &Shell, after: Option<(Bytes, Bytes)>) -> Result<Found, Failure> {
        let start = match after {
            Some((partition, key)) => ScanStart::After { partition, key },
            None => ScanStart::AtPartition(Bytes::new()),
        };
        let family = if self.noted.is_some() { container::EVENT } else { account::EVENTS };
        let range = GroupRange { group: self.group.clone(), family, start, before_partition: None };
        let page = shell.engine.scan(&range, ROWS_AT_ONCE).await?;
        let next = page.rows.last().filter(|_| page.more).map(|row| (row.partition.clone(), row.key.clone()));
        let events = page.rows.into_iter().map(|row| {
            let partition = PartitionId { group: self.group.clone(), key: row.partition };
            (Place { partition, key: row.key }, PendingEvent::decode(&row.record.value))
        });
        Ok(Found { events: events.collect(), next })
    }

    /// It was looked through and holds nothing: the note goes, if it is old.
    pub async fn forget(&self, shell: &Shell) -> Result<(), Failure> {
        match self.noted {
            Some(noted) if may_be_forgotten(noted, shell.clock.now()) => {
                let (partition, group) = (key::events_partition(&self.account), self.group.clone());
                shell.execute_quietly(&Forget { partition, group, is_gone: false }).await
            }
            _ => Ok(()),
        }
    }
}

/// Keeps events whose container is gone, or is about to be; tells whoever delivers where they are now.
pub async fn keep(shell: &Shell, account: &AccountName, events: &[PendingEvent]) -> Result<(), Failure> {
    let partition = key::events_partition(account);
    let places = events.iter().map(|pending| Place { partition: partition.clone(), key: kept_key(pending) });
    let kept: Vec<(Place, Bytes)> = places.zip(events.iter().map(PendingEvent::encode)).collect();
    let write = |(place, value): &(Place, Bytes)| {
        let (key, value) = (place.key.clone(), value.clone());
        Write::Put { family: account::EVENTS, key, value, slices: Vec::new() }
    };
    let writes = kept.iter().map(write).collect();
    shell.execute_quietly(&Blind { partition: partition.clone(), writes }).await?;
    for (place, value) in kept {
        shell.outbox.tell(Told { place, value, is_fresh: false });
    }
    Ok(())
}

/// Before a container's group is fenced: what it has not delivered moves to its account.
pub(crate) async fn carry_over(shell: &Shell, account: &AccountName, group: &GroupId) -> Result<(), Failure> {
    let Some(noted) = noted(shell, account, group).await? else { return Ok(()) };
    let holder = Holder { account: account.clone(), group: group.clone(), noted: Some(noted) };
    let mut after = None;
    loop {
        let found = holder.look(shell, after).await?;
        let events: Vec<PendingEvent> = found.events.into_iter().filter_map(|(_, pending)| pending.ok()).collect();
        if !events.is_empty() {
            keep(shell, account, &events).await?;
        }
        after = found.next;
        if after.is_none() {
            return Ok(());
        }
    }
}

/// After it was fenced: nobody needs to look there any more.
pub(crate) async fn forget_gone(shell: &Shell, account: &AccountName, group: &GroupId) -> Result<(), Failure> {
    if noted(shell, account, group).await?.is_none() {
        return Ok(());
    }
    let partition = key::events_partition(account);
    shell.execute_quietly(&Forget { partition, group: group.clone(), is_gone: true }).await
}

async fn noted(shell: &Shell, account: &AccountName, group: &GroupId) -> Result<Option<Timestamp>, Fault> {
    let view = shell.engine.view(&key::events_partition(account)).await?;
    let record = view.get(account::EVENTFUL, &group.0).await?;
    record.map(|record| decode_note(&record.value)).transpose()
}

#[cfg(test)]
mod tests;
