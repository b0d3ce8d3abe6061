//! Queues: a message is a record in each of four families, and the state counts them.

use engine::{Fault, GroupId};
use env::{Id, Timestamp};

use super::Audit;
use super::cursor::Cursor;
use super::rules::{self, Tally};
use crate::key::{self, queue};
use crate::queue::message::{expiry_key, id_key, read_expiry_key};
use crate::record::{Message, Place, QueueState};

impl Audit<'_> {
    pub(super) fn queue(&mut self, group: &GroupId) -> Result<(), Fault> {
        self.counted.queues += 1;
        let (records, partition) = (self.records, key::queue_partition(group));
        let mut tally = Tally::default();
        let mut messages = Cursor::new(records, group, queue::VISIBLE);
        while let Some(row) = messages.next()? {
            self.counted.messages += 1;
            self.to.progress(&self.counted);
            tally.messages += 1;
            let (place, message) =
                match Place::read(&row.key).and_then(|place| Ok((place, Message::decode(&row.record.value)?))) {
                    Ok(read) => read,
                    Err(fault) => {
                        self.tell(group, None, fault.to_string());
                        continue;
                    }
                };
            tally.first = tally.first.or(Some(place));
            tally.last_at_once = tally.last_at_once.max(Some(place.next_visible).filter(|_| message.at_once));
            let pointer = records.get(&partition, queue::POINTER, &id_key(message.id))?;
            if pointer.is_none_or(|pointer| pointer.value != row.key) {
                self.tell(group, None, format!("the message {} is not where its place is noted", message.id));
            }
            if records.get(&partition, queue::TEXT, &id_key(message.id))?.is_none() {
                self.tell(group, None, format!("the message {} has no text", message.id));
            }
            if message.expiry != Timestamp::MAX {
                tally.expiring += 1;
                tally.first_expiry = tally.first_expiry.into_iter().chain([message.expiry]).min();
                if records.get(&partition, queue::EXPIRY, &expiry_key(message.expiry, message.id))?.is_none() {
                    self.tell(group, None, format!("when the message {} expires is not noted", message.id));
                }
            }
        }
        (tally.pointers, tally.texts, tally.expiries) = self.count_messages(group)?;
        let state = records.get(&partition, queue::STATE, b"")?;
        match state.map(|state| QueueState::decode(&state.value)).transpose() {
            Ok(state) => self.tell_all(group, None, rules::queue(&state.unwrap_or_default(), &tally)),
            Err(fault) => self.tell(group, None, fault.to_string()),
        }
        Ok(())
    }

    /// Places, texts and expiries: every message has its own, so if there are as many there are no others.
    fn count_messages(&mut self, group: &GroupId) -> Result<(u64, u64, u64), Fault> {
        let mut counts = [0; 3];
        for (count, family) in counts.iter_mut().zip([queue::POINTER, queue::TEXT, queue::EXPIRY]) {
            let mut rows = Cursor::new(self.records, group, family);
            while let Some(row) = rows.next()? {
                *count += 1;
                let is_right = match family {
                    queue::EXPIRY => read_expiry_key(&row.key).is_ok() && row.record.value.is_empty(),
                    queue::POINTER => read_id(&row.key).is_some() && Place::read(&row.record.value).is_ok(),
                    _ => read_id(&row.key).is_some(),
                };
                if !is_right {
                    self.tell(group, None, format!("a record of family {} cannot be read", family.0));
                }
            }
        }
        let [pointers, texts, expiries] = counts;
        Ok((pointers, texts, expiries))
    }
}

fn read_id(key: &[u8]) -> Option<Id> {
    Some(Id(u128::from_be_bytes(key.try_into().ok()?)))
}
