//! Messages that nobody sees for now: somebody received them, or they were put to be seen later.

use std::ops::Bound;

use bytes::Bytes;
use contract::Service;
use contract::names::{AccountName, QueueName};
use engine::KeyRange;
use env::{Id, Timestamp};

use super::{pack, unpack};
use crate::execute::{Failure, Reader, Shell};
use crate::key;
use crate::list::{Entry, Listing};
use crate::queue;
use crate::record::{Message, Place};

/// Messages looked at in one call, and queues.
const MESSAGES_MAX: usize = 200;
const QUEUES_MAX: usize = 100;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HiddenMessage {
    pub queue: String,
    pub id: Id,
    pub inserted: Timestamp,
    pub visible: Timestamp,
    pub expires: Timestamp,
    pub dequeue_count: u64,
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Hidden {
    pub messages: Vec<HiddenMessage>,
    pub next: Option<String>,
}

/// Of one queue, or of all; of each queue those that come back first, first. `None` if the marker is none of ours.
pub async fn hidden(
    shell: &Shell,
    account: &AccountName,
    only: Option<&QueueName>,
    marker: Option<&str>,
) -> Result<Option<Hidden>, Failure> {
    let now = shell.clock.now();
    let first = Place::last_visible(now).after().key();
    let (start, begun) = match marker.map(unpack::<2>) {
        None => (String::new(), None),
        Some(Some([name, place])) => match String::from_utf8(name) {
            Ok(name) => (name, Some(Bytes::from(place))),
            Err(_) => return Ok(None),
        },
        Some(None) => return Ok(None),
    };
    let mut found = Hidden::default();
    let queues = match only {
        Some(name) => vec![(name.as_str().to_string(), queue::find(shell, account, name).await?.head)],
        None => {
            let start = start.clone();
            let listing = Listing { prefix: String::new(), delimiter: None, start, results_max: QUEUES_MAX };
            let listed = queue::list(shell, account, &listing).await?;
            found.next = listed.next.map(|next| pack(&[next.as_bytes(), &first]));
            let items = listed.entries.into_iter().filter_map(|entry| match entry {
                Entry::Item { name, head } => Some((name, head)),
                Entry::Prefix(_) => None,
            });
            items.collect()
        }
    };
    let mut looked_at = 0;
    for (name, head) in queues {
        // The marker's place is in the queue that it names. What became visible meanwhile is not hidden any more.
        let begun = begun.as_ref().filter(|place| name == start && **place > first);
        let from = begun.cloned().unwrap_or_else(|| first.clone());
        let left = MESSAGES_MAX - looked_at;
        let partition = key::queue_partition(&key::contents_group(Service::Queue, account, head.incarnation));
        let range = KeyRange { start: Bound::Included(from), end: Bound::Unbounded };
        let read = || async {
            let view = shell.engine.view(&partition).await?;
            Reader::committed(view.as_ref()).scan(key::queue::VISIBLE, &range, left + 1).await
        };
        let rows = shell.steadily(&partition, read).await?;
        for (key, record) in rows.iter().take(left) {
            let (place, message) = (Place::read(key)?, Message::decode(&record.value)?);
            if message.at_once || message.is_expired(now) {
                continue;
            }
            found.messages.push(HiddenMessage {
                queue: name.clone(),
                id: message.id,
                inserted: message.inserted,
                visible: place.next_visible,
                expires: message.expiry,
                dequeue_count: message.dequeue_count,
            });
        }
        looked_at += rows.len().min(left);
        if let Some((key, _)) = rows.get(left) {
            found.next = Some(pack(&[name.as_bytes(), key]));
            return Ok(Some(found));
        }
    }
    Ok(Some(found))
}
