//! What is stored of queues: the queue itself, its messages, and where to look for them.

use bytes::Bytes;
use contract::names::Metadata;
use engine::Fault;
use env::{Id, Timestamp};

use super::container::{StoredPolicy, read_policy_field, write_policies};
use super::{FieldReader, FieldWriter, corrupt, read_pair, read_u64};

const QUEUE_SHAPE: u8 = 20;
const MESSAGE_SHAPE: u8 = 21;
const STATE_SHAPE: u8 = 22;

/// A queue, without its messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueHead {
    pub incarnation: Id,
    pub metadata: Metadata,
    pub policies: Vec<StoredPolicy>,
}

mod queue_tag {
    pub const INCARNATION: u8 = 1;
    pub const METADATA: u8 = 2;
    /// This one and the three after it.
    pub const POLICIES: u8 = 3;
}

impl QueueHead {
    pub fn encode(&self) -> Bytes {
        use queue_tag::*;
        let mut fields = FieldWriter::new(QUEUE_SHAPE);
        fields.bytes(INCARNATION, &self.incarnation.0.to_be_bytes());
        self.metadata.iter().for_each(|(name, value)| fields.pair(METADATA, name, value));
        write_policies(&mut fields, POLICIES, &self.policies);
        fields.finish()
    }

    pub fn decode(value: &[u8]) -> Result<QueueHead, Fault> {
        Self::read(value).ok_or_else(|| corrupt("a queue", value))
    }

    fn read(value: &[u8]) -> Option<QueueHead> {
        use queue_tag::*;
        let mut fields = FieldReader::new(QUEUE_SHAPE, value)?;
        let (mut incarnation, mut metadata, mut policies) = (None, Vec::new(), Vec::new());
        while let Some((tag, value)) = fields.next()? {
            match tag {
                INCARNATION => incarnation = Some(read_id(value)?),
                METADATA => metadata.push(read_pair(value)?),
                _ => read_policy_field(&mut policies, tag.checked_sub(POLICIES)?, value)?,
            }
        }
        Some(QueueHead { incarnation: incarnation?, metadata: Metadata::from_stored(metadata), policies })
    }
}

/// Where a message stands in the order of its queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    pub next_visible: Timestamp,
    /// The message's own for life, later ones greater: of those visible from the same moment the eldest is first.
    pub number: u64,
}

impl Place {
    pub const FIRST: Place = Place { next_visible: Timestamp::from_ticks(0), number: 0 };

    /// The last place of those visible at a moment.
    pub fn last_visible(now: Timestamp) -> Place {
        Place { next_visible: now, number: u64::MAX }
    }

    /// The place right after this one.
    pub fn after(self) -> Place {
        match self.number.checked_add(1) {
            Some(number) => Place { number, ..self },
            None => Place { next_visible: self.next_visible.plus_ticks(1), number: 0 },
        }
    }

    pub fn key(self) -> Bytes {
        let both = u128::from(self.next_visible.ticks()) << 64 | u128::from(self.number);
        Bytes::copy_from_slice(&both.to_be_bytes())
    }

    pub fn read(key: &[u8]) -> Result<Place, Fault> {
        let both = u128::from_be_bytes(key.try_into().map_err(|_| corrupt("a message's place", key))?);
        Ok(Place { next_visible: Timestamp::from_ticks((both >> 64) as u64), number: both as u64 })
    }
}

/// A message, without its text and its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    pub id: Id,
    pub inserted: Timestamp,
    /// `Timestamp::MAX` is never.
    pub expiry: Timestamp,
    pub dequeue_count: u64,
    /// Who has this pop receipt may update and delete it.
    pub receipt: Id,
    /// It was put where it stands to be visible at once: it is, also for a clock that is behind the one that said when.
    pub at_once: bool,
}

mod message_tag {
    pub const ID: u8 = 1;
    pub const INSERTED: u8 = 2;
    pub const EXPIRY: u8 = 3;
    pub const DEQUEUE_COUNT: u8 = 4;
    pub const RECEIPT: u8 = 5;
    pub const AT_ONCE: u8 = 6;
}

impl Message {
    pub fn encode(&self) -> Bytes {
        use message_tag::*;
        let mut fields = FieldWriter::new(MESSAGE_SHAPE);
        fields.bytes(ID, &self.id.0.to_be_bytes());
        fields.u64(INSERTED, self.inserted.ticks());
        fields.u64(EXPIRY, self.expiry.ticks());
        fields.u64(DEQUEUE_COUNT, self.dequeue_count);
        fields.bytes(RECEIPT, &self.receipt.0.to_be_bytes());
        if self.at_once {
            fields.bytes(AT_ONCE, b"");
        }
        fields.finish()
    }

    pub fn decode(value: &[u8]) -> Result<Message, Fault> {
        Self::read(value).ok_or_else(|| corrupt("a message", value))
    }

    fn read(value: &[u8]) -> Option<Message> {
        use message_tag::*;
        let mut fields = FieldReader::new(MESSAGE_SHAPE, value)?;
        let (mut id, mut inserted, mut expiry, mut dequeue_count, mut receipt) = (None, None, None, None, None);
        let mut at_once = false;
        while let Some((tag, value)) = fields.next()? {
            match tag {
                ID => id = Some(read_id(value)?),
                INSERTED => inserted = Some(Timestamp::from_ticks(read_u64(value)?)),
                EXPIRY => expiry = Some(Timestamp::from_ticks(read_u64(value)?)),
                DEQUEUE_COUNT => dequeue_count = Some(read_u64(value)?),
                RECEIPT => receipt = Some(read_id(value)?),
                AT_ONCE if value.is_empty() => at_once = true,
                _ => return None,
            }
        }
        Some(Message {
            id: id?,
            inserted: inserted?,
            expiry: expiry?,
            dequeue_count: dequeue_count?,
            receipt: receipt?,
            at_once,
        })
    }
}

/// How many messages a queue has, and where to look for them. What it says and why it holds: `queue/state.rs`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueState {
    pub count: u64,
    pub floor: Place,
    pub removed: Option<(Place, Place)>,
    pub expiry_floor: Timestamp,
    pub at_once_last: Timestamp,
}

mod state_tag {
    pub const COUNT: u8 = 1;
    pub const FLOOR: u8 = 2;
    pub const REMOVED_FIRST: u8 = 3;
    pub const REMOVED_LAST: u8 = 4;
    pub const EXPIRY_FLOOR: u8 = 5;
    pub const AT_ONCE_LAST: u8 = 6;
}

impl QueueState {
    pub fn encode(&self) -> Bytes {
        use state_tag::*;
        let mut fields = FieldWriter::new(STATE_SHAPE);
        fields.u64(COUNT, self.count);
        fields.bytes(FLOOR, &self.floor.key());
        if let Some((first, last)) = self.removed {
            fields.bytes(REMOVED_FIRST, &first.key());
            fields.bytes(REMOVED_LAST, &last.key());
        }
        fields.u64(EXPIRY_FLOOR, self.expiry_floor.ticks());
        fields.u64(AT_ONCE_LAST, self.at_once_last.ticks());
        fields.finish()
    }

    pub fn decode(value: &[u8]) -> Result<QueueState, Fault> {
        Self::read(value).ok_or_else(|| corrupt("a queue's state", value))
    }

    fn read(value: &[u8]) -> Option<QueueState> {
        use state_tag::*;
        let mut fields = FieldReader::new(STATE_SHAPE, value)?;
        let (mut count, mut floor, mut first, mut last, mut expiry_floor) = (None, None, None, None, None);
        // Earlier releases did not know it.
        let mut at_once_last = Timestamp::from_ticks(0);
        while let Some((tag, value)) = fields.next()? {
            match tag {
                COUNT => count = Some(read_u64(value)?),
                FLOOR => floor = Some(Place::read(value).ok()?),
                REMOVED_FIRST => first = Some(Place::read(value).ok()?),
                REMOVED_LAST => last = Some(Place::read(value).ok()?),
                EXPIRY_FLOOR => expiry_floor = Some(Timestamp::from_ticks(read_u64(value)?)),
                AT_ONCE_LAST => at_once_last = Timestamp::from_ticks(read_u64(value)?),
                _ => return None,
            }
        }
        Some(QueueState {
            count: count?,
            floor: floor?,
            removed: first.zip(last),
            expiry_floor: expiry_floor?,
            at_once_last,
        })
    }
}

fn read_id(value: &[u8]) -> Option<Id> {
    Some(Id(u128::from_be_bytes(value.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Message {
        Message {
            id: Id(1),
            inserted: Timestamp::from_ticks(2),
            expiry: Timestamp::MAX,
            dequeue_count: 3,
            receipt: Id(u128::MAX),
            at_once: false,
        }
    }

    #[test]
    fn shapes_round_trip() {
        let head = QueueHead {
            incarnation: Id(7),
            metadata: Metadata::from_stored(vec![("a".into(), "b".into()), ("c".into(), String::new())]),
            policies: vec![StoredPolicy {
                id: "p".into(),
                permissions: Some("raup".into()),
                ..StoredPolicy::default()
            }],
        };
        assert_eq!(QueueHead::decode(&head.encode()).expect("what was written"), head);
        for at_once in [false, true] {
            let message = Message { at_once, ..message() };
            assert_eq!(Message::decode(&message.encode()).expect("what was written"), message);
        }
        let place = |n: u64| Place { next_visible: Timestamp::from_ticks(n), number: n + 1 };
        for removed in [None, Some((place(3), place(4)))] {
            let [expiry_floor, at_once_last] = [2, 5].map(Timestamp::from_ticks);
            let state = QueueState { count: 9, floor: place(1), removed, expiry_floor, at_once_last };
            assert_eq!(QueueState::decode(&state.encode()).expect("what was written"), state);
        }
    }

    #[test]
    fn places_sort_as_their_keys() {
        let at = |ticks: u64, number: u64| Place { next_visible: Timestamp::from_ticks(ticks), number };
        let sorted =
            [Place::FIRST, at(0, 1), at(1, 0), at(1, 255), at(1, 256), at(256, 0), Place::last_visible(Timestamp::MAX)];
        for pair in sorted.windows(2) {
            assert!(pair[0] < pair[1] && pair[0].key() < pair[1].key());
            assert!(pair[0] < pair[0].after() && pair[0].after() <= pair[1]);
            assert_eq!(Place::read(&pair[0].key()).expect("its own"), pair[0]);
        }
    }

    #[test]
    fn damage_is_a_fault_and_never_a_panic() {
        let whole = message().encode();
        for at in 0..whole.len() {
            let mut bytes = whole.to_vec();
            bytes[at] ^= 0x80;
            let _ = (Message::decode(&bytes), QueueHead::decode(&bytes), QueueState::decode(&bytes));
            assert!(Message::decode(&whole[..at]).is_err());
        }
        assert!(Place::read(b"short").is_err());
    }

    /// Bytes that were written are read by every later release.
    #[test]
    fn shape_is_frozen() {
        let mut expected = vec![21, 1, 16];
        expected.extend_from_slice(&1u128.to_be_bytes());
        expected.extend_from_slice(&[2, 8, 0, 0, 0, 0, 0, 0, 0, 2, 3, 8]);
        expected.extend_from_slice(&Timestamp::MAX.ticks().to_be_bytes());
        expected.extend_from_slice(&[4, 8, 0, 0, 0, 0, 0, 0, 0, 3, 5, 16]);
        expected.extend_from_slice(&[255; 16]);
        assert_eq!(message().encode().as_ref(), expected);
    }
}
