//! Containers: a blob's records lie in many families, and are looked at together.

use bytes::Bytes;
use contract::names::BlobName;
use engine::{Family, Fault, GroupId, Row};
use env::Timestamp;

use super::cursor::Cursor;
use super::{Audit, names, rules};
use crate::blob::state::PastId;
use crate::key;
use crate::key::account::EVENTFUL;
use crate::key::container::{
    BLOCKS, BODY, EVENT, EXPIRING, HAS_PAST, HEAD, PAST, PAST_BLOCKS, PAST_BODY, STAGED, STAGING, TAGGED,
};
use crate::record::blocks::{BlockList, Staging};
use crate::record::event::PendingEvent;
use crate::record::past::{Mark, PastBlob};
use crate::record::{BlobHead, tags};

const FAMILIES: [Family; 11] =
    [HEAD, BODY, BLOCKS, STAGED, STAGING, PAST, PAST_BODY, PAST_BLOCKS, HAS_PAST, TAGGED, EXPIRING];

/// The families of a container beside each other.
struct Beside<'a>(Vec<(Family, Cursor<'a>)>);

impl<'a> Beside<'a> {
    fn of(&mut self, family: Family) -> &mut Cursor<'a> {
        let found = self.0.iter_mut().find(|(own, _)| *own == family);
        &mut found.expect("a cursor for every family").1
    }

    /// The first blob that any family has something of.
    fn next_partition(&mut self) -> Result<Option<Bytes>, Fault> {
        let mut first: Option<Bytes> = None;
        for (_, cursor) in &mut self.0 {
            let Some(row) = cursor.peek()? else { continue };
            if first.as_ref().is_none_or(|first| row.partition < *first) {
                first = Some(row.partition.clone());
            }
        }
        Ok(first)
    }

    /// The one record of a family that has one for each blob.
    fn one(&mut self, family: Family, blob: &Bytes, words: &mut Vec<String>) -> Result<Option<Row>, Fault> {
        let row = self.of(family).next_of(blob)?;
        if row.as_ref().is_some_and(|row| !row.key.is_empty()) || self.of(family).next_of(blob)?.is_some() {
            words.push(format!("it has more than one record of family {}", family.0));
            while self.of(family).next_of(blob)?.is_some() {}
        }
        Ok(row)
    }
}

impl Audit<'_> {
    pub(super) fn container(&mut self, group: &GroupId) -> Result<(), Fault> {
        self.counted.containers += 1;
        let records = self.records;
        let mut beside = Beside(FAMILIES.map(|family| (family, Cursor::new(records, group, family))).into());
        while let Some(blob) = beside.next_partition()? {
            let mut words = Vec::new();
            self.counted.blobs += 1;
            self.to.progress(&self.counted);
            if std::str::from_utf8(&blob).ok().and_then(|name| BlobName::parse(name).ok()).is_none() {
                words.push("this is no name of a blob".to_owned());
            }
            let head = current(&mut beside, &blob, &mut words)?;
            past(&mut beside, &blob, &mut words)?;
            staged(&mut beside, &blob, &mut words)?;
            index(&mut beside, &blob, head.as_ref(), &mut words)?;
            self.tell_all(group, Some(&blob), words);
        }
        self.events(group)
    }

    /// Events may be of blobs that are gone; a round must be able to find them.
    fn events(&mut self, group: &GroupId) -> Result<(), Fault> {
        let mut rows = Cursor::new(self.records, group, EVENT);
        let mut is_first = true;
        while let Some(row) = rows.next()? {
            if std::mem::take(&mut is_first) && !self.is_noted(group)? {
                self.tell(group, None, "it has events to deliver, and no note says so".to_owned());
            }
            let wrong = match PendingEvent::decode(&row.record.value) {
                Err(fault) => Some(fault.to_string()),
                Ok(pending) => rules::event(&pending, &row.partition, &row.key),
            };
            self.tell_all(group, Some(&row.partition), wrong);
        }
        Ok(())
    }

    fn is_noted(&self, group: &GroupId) -> Result<bool, Fault> {
        let Some((_, account, _)) = names::parse_contents(group) else { return Ok(false) };
        Ok(self.records.get(&key::events_partition(&account), EVENTFUL, &group.0)?.is_some())
    }
}

/// What was decoded; what cannot be is told.
fn read<T>(decoded: Option<Result<T, Fault>>, words: &mut Vec<String>) -> Option<T> {
    match decoded? {
        Ok(value) => Some(value),
        Err(fault) => {
            words.push(fault.to_string());
            None
        }
    }
}

fn current(beside: &mut Beside<'_>, blob: &Bytes, words: &mut Vec<String>) -> Result<Option<BlobHead>, Fault> {
    let row = beside.one(HEAD, blob, words)?;
    let is_there = row.is_some();
    let head = read(row.map(|row| BlobHead::decode(&row.record.value)), words);
    let mut body = head.as_ref().map(rules::Body::of);
    while let Some(row) = beside.of(BODY).next_of(blob)? {
        match &mut body {
            Some(body) => words.extend(body.take(&row.key, &row.record)),
            None if !is_there => words.push("there are bytes of a blob that is not there".to_owned()),
            None => {}
        }
    }
    words.extend(body.and_then(rules::Body::end));
    let list = beside.one(BLOCKS, blob, words)?;
    let list = read(list.map(|row| BlockList::decode(&row.record.value)), words);
    match (&head, list) {
        (Some(head), Some(list)) => words.extend(rules::blocks(head, &list)),
        (None, Some(_)) if !is_there => words.push("there are blocks of a blob that is not there".to_owned()),
        _ => {}
    }
    Ok(head)
}

/// Past states, each with its body and its blocks, which lie in the same order.
fn past(beside: &mut Beside<'_>, blob: &Bytes, words: &mut Vec<String>) -> Result<(), Fault> {
    let mark = beside.one(HAS_PAST, blob, words)?;
    let mark = read(mark.map(|row| Mark::decode(&row.record.value)), words);
    while let Some(row) = beside.of(PAST).next_of(blob)? {
        let Some(id) = PastId::parse(&row.key) else {
            words.push("the id of a past state cannot be read".to_owned());
            continue;
        };
        words.extend(rules::past(mark.as_ref(), id));
        let past = read(Some(PastBlob::decode(&row.record.value)), words);
        let mut body = past.as_ref().map(|past| rules::Body::of(&past.head));
        let which = |words: String| format!("in its past state {}, {words}", id.ticks);
        strays(beside, blob, &row.key, words)?;
        while let Some(part) =
            beside.of(PAST_BODY).next_if(|part| part.partition == *blob && part.key.starts_with(&row.key))?
        {
            let found = body.as_mut().and_then(|body| body.take(&part.key[row.key.len()..], &part.record));
            words.extend(found.map(which));
        }
        words.extend(body.and_then(rules::Body::end).map(which));
        let list = beside.of(PAST_BLOCKS).next_if(|list| list.partition == *blob && list.key == row.key)?;
        let list = read(list.map(|list| BlockList::decode(&list.record.value)), words);
        if let (Some(past), Some(list)) = (&past, list) {
            words.extend(rules::blocks(&past.head, &list).map(which));
        }
    }
    strays(beside, blob, &[0xFF; 10], words)
}

/// What lies before a past state and belongs to none.
fn strays(beside: &mut Beside<'_>, blob: &Bytes, before: &[u8], words: &mut Vec<String>) -> Result<(), Fault> {
    for (family, what) in [(PAST_BODY, "bytes"), (PAST_BLOCKS, "blocks")] {
        while beside.of(family).next_if(|row| row.partition == *blob && row.key.as_ref() < before)?.is_some() {
            words.push(format!("there are {what} of a past state that is not there"));
        }
    }
    Ok(())
}

fn staged(beside: &mut Beside<'_>, blob: &Bytes, words: &mut Vec<String>) -> Result<(), Fault> {
    let staging = beside.one(STAGING, blob, words)?;
    let staging = read(staging.map(|row| Staging::decode(&row.record.value)), words);
    let (mut count, mut has_other_lengths) = (0, false);
    while let Some(row) = beside.of(STAGED).next_of(blob)? {
        count += 1;
        has_other_lengths |= staging.as_ref().is_some_and(|staging| row.key.len() != usize::from(staging.id_bytes));
    }
    words.extend(rules::staged(staging.as_ref(), count, has_other_lengths));
    Ok(())
}

fn index(beside: &mut Beside<'_>, blob: &Bytes, head: Option<&BlobHead>, words: &mut Vec<String>) -> Result<(), Fault> {
    let indexed = beside.one(TAGGED, blob, words)?;
    let indexed = read(indexed.map(|row| tags::decode(&row.record.value)), words);
    words.extend(rules::tags(head, indexed.as_deref()));
    let noted = beside.one(EXPIRING, blob, words)?;
    let noted = noted.map(|row| row.record.value.as_ref().try_into().map(u64::from_be_bytes).unwrap_or_default());
    words.extend(rules::expiry(head, noted.map(Timestamp::from_ticks)));
    Ok(())
}
