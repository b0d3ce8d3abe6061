//! An event that is to be delivered, as it lies beside the blob that it tells of; and the note on containers that may hold some.

use bytes::Bytes;
use engine::Fault;
use env::{Id, Timestamp};

use super::{BlobKind, FieldReader, FieldWriter, corrupt, read_text, read_u64};

const SHAPE: u8 = 18;

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EventKind {
    Created,
    Deleted,
}

/// The operation that did it, by the names that Event Grid uses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Api {
    PutBlob,
    PutBlockList,
    CopyBlob,
    DeleteBlob,
}

impl Api {
    const ALL: [Api; 4] = [Api::PutBlob, Api::PutBlockList, Api::CopyBlob, Api::DeleteBlob];

    pub fn name(self) -> &'static str {
        match self {
            Api::PutBlob => "PutBlob",
            Api::PutBlockList => "PutBlockList",
            Api::CopyBlob => "CopyBlob",
            Api::DeleteBlob => "DeleteBlob",
        }
    }

    pub fn kind(self) -> EventKind {
        match self {
            Api::PutBlob | Api::PutBlockList | Api::CopyBlob => EventKind::Created,
            Api::DeleteBlob => EventKind::Deleted,
        }
    }
}

/// An event and one subscription that it is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PendingEvent {
    /// By name.
    pub subscription: String,
    pub event: Event,
    pub attempts: u32,
    /// Not before.
    pub due: Timestamp,
    /// Until then one process has it, and no other touches it.
    pub claimed: Timestamp,
    /// How and when the last attempt failed.
    pub last: Option<(Timestamp, String)>,
    /// Why it will not be tried again: it only waits to become a dead letter.
    pub given_up: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    pub id: Id,
    pub time: Timestamp,
    pub api: Api,
    pub container: String,
    pub blob: String,
    /// As the client named it.
    pub url: String,
    pub request: Id,
    pub client_request: Option<String>,
    /// Grows with every event of a blob; of one that was made it is the ETag.
    pub sequence: u64,
    pub content_type: Option<String>,
    /// Of a blob that was made.
    pub content_bytes: Option<u64>,
    /// Its type alone counts.
    pub blob_kind: BlobKind,
}

mod tag {
    pub const SUBSCRIPTION: u8 = 1;
    pub const ID: u8 = 2;
    pub const TIME: u8 = 3;
    pub const API: u8 = 4;
    pub const CONTAINER: u8 = 5;
    pub const BLOB: u8 = 6;
    pub const URL: u8 = 7;
    pub const REQUEST: u8 = 8;
    pub const CLIENT_REQUEST: u8 = 9;
    pub const SEQUENCE: u8 = 10;
    pub const CONTENT_TYPE: u8 = 11;
    pub const CONTENT_BYTES: u8 = 12;
    pub const BLOB_KIND: u8 = 13;
    pub const ATTEMPTS: u8 = 14;
    pub const DUE: u8 = 15;
    pub const CLAIMED: u8 = 16;
    pub const LAST_AT: u8 = 17;
    pub const LAST_OUTCOME: u8 = 18;
    pub const GIVEN_UP: u8 = 19;
}

impl PendingEvent {
    pub fn encode(&self) -> Bytes {
        let mut fields = FieldWriter::new(SHAPE);
        let event = &self.event;
        fields.text(tag::SUBSCRIPTION, Some(&self.subscription));
        fields.bytes(tag::ID, &event.id.0.to_be_bytes());
        fields.u64(tag::TIME, event.time.ticks());
        fields.text(tag::API, Some(event.api.name()));
        fields.text(tag::CONTAINER, Some(&event.container));
        fields.text(tag::BLOB, Some(&event.blob));
        fields.text(tag::URL, Some(&event.url));
        fields.bytes(tag::REQUEST, &event.request.0.to_be_bytes());
        fields.text(tag::CLIENT_REQUEST, event.client_request.as_deref());
        fields.u64(tag::SEQUENCE, event.sequence);
        fields.text(tag::CONTENT_TYPE, event.content_type.as_deref());
        if let Some(bytes) = event.content_bytes {
            fields.u64(tag::CONTENT_BYTES, bytes);
        }
        fields.bytes(tag::BLOB_KIND, &[kind_letter(event.blob_kind)]);
        if self.attempts > 0 {
            fields.u64(tag::ATTEMPTS, self.attempts.into());
        }
        fields.u64(tag::DUE, self.due.ticks());
        fields.u64(tag::CLAIMED, self.claimed.ticks());
        if let Some((at, outcome)) = &self.last {
            fields.u64(tag::LAST_AT, at.ticks());
            fields.text(tag::LAST_OUTCOME, Some(outcome));
        }
        fields.text(tag::GIVEN_UP, self.given_up.as_deref());
        fields.finish()
    }

    pub fn decode(value: &[u8]) -> Result<PendingEvent, Fault> {
        Self::read(value).ok_or_else(|| corrupt("an event", value))
    }

    fn read(value: &[u8]) -> Option<PendingEvent> {
        let mut fields = FieldReader::new(SHAPE, value)?;
        let (mut subscription, mut id, mut time, mut api, mut container, mut blob) = Default::default();
        let (mut url, mut request, mut client_request, mut sequence, mut content_type) = Default::default();
        let (mut content_bytes, mut blob_kind, mut attempts, mut due, mut claimed) = Default::default();
        let (mut last_at, mut last_outcome, mut given_up) = Default::default();
        while let Some((tag, value)) = fields.next()? {
            match tag {
                tag::SUBSCRIPTION => subscription = Some(read_text(value)?),
                tag::ID => id = Some(read_id(value)?),
                tag::TIME => time = Some(read_time(value)?),
                tag::API => api = Some(Api::ALL.into_iter().find(|api| api.name().as_bytes() == value)?),
                tag::CONTAINER => container = Some(read_text(value)?),
                tag::BLOB => blob = Some(read_text(value)?),
                tag::URL => url = Some(read_text(value)?),
                tag::REQUEST => request = Some(read_id(value)?),
                tag::CLIENT_REQUEST => client_request = Some(read_text(value)?),
                tag::SEQUENCE => sequence = Some(read_u64(value)?),
                tag::CONTENT_TYPE => content_type = Some(read_text(value)?),
                tag::CONTENT_BYTES => content_bytes = Some(read_u64(value)?),
                tag::BLOB_KIND => blob_kind = Some(read_kind(value)?),
                tag::ATTEMPTS => attempts = u32::try_from(read_u64(value)?).ok()?,
                tag::DUE => due = Some(read_time(value)?),
                tag::CLAIMED => claimed = Some(read_time(value)?),
                tag::LAST_AT => last_at = Some(read_time(value)?),
                tag::LAST_OUTCOME => last_outcome = Some(read_text(value)?),
                tag::GIVEN_UP => given_up = Some(read_text(value)?),
                _ => return None,
            }
        }
        Some(PendingEvent {
            subscription: subscription?,
            event: Event {
                id: id?,
                time: time?,
                api: api?,
                container: container?,
                blob: blob?,
                url: url?,
                request: request?,
                client_request,
                sequence: sequence?,
                content_type,
                content_bytes,
                blob_kind: blob_kind?,
            },
            attempts,
            due: due?,
            claimed: claimed?,
            last: last_at.zip(last_outcome),
            given_up,
        })
    }
}

fn kind_letter(kind: BlobKind) -> u8 {
    match kind {
        BlobKind::Block => b'b',
        BlobKind::Append { .. } => b'a',
        BlobKind::Page { .. } => b'p',
    }
}

fn read_kind(value: &[u8]) -> Option<BlobKind> {
    match value {
        b"b" => Some(BlobKind::Block),
        b"a" => Some(BlobKind::Append { blocks: 0, sealed: false }),
        b"p" => Some(BlobKind::Page { sequence: 0, made: 0 }),
        _ => None,
    }
}

fn read_id(value: &[u8]) -> Option<Id> {
    Some(Id(u128::from_be_bytes(value.try_into().ok()?)))
}

fn read_time(value: &[u8]) -> Option<Timestamp> {
    read_u64(value).map(Timestamp::from_ticks)
}

/// When it was last said of a container that it may hold events.
pub fn encode_note(noted: Timestamp) -> Bytes {
    Bytes::copy_from_slice(&noted.ticks().to_be_bytes())
}

pub fn decode_note(value: &[u8]) -> Result<Timestamp, Fault> {
    read_time(value).ok_or_else(|| corrupt("a note on events", value))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn pending() -> PendingEvent {
        PendingEvent {
            subscription: "uploads".into(),
            event: Event {
                id: Id(1),
                time: Timestamp::from_ticks(2),
                api: Api::PutBlockList,
                container: "pictures".into(),
                blob: "a/b c".into(),
                url: "http://127.0.0.1:10000/dev/pictures/a/b%20c".into(),
                request: Id(3),
                client_request: Some("mine".into()),
                sequence: 4,
                content_type: Some("text/plain".into()),
                content_bytes: Some(5),
                blob_kind: BlobKind::Block,
            },
            attempts: 6,
            due: Timestamp::from_ticks(7),
            claimed: Timestamp::from_ticks(8),
            last: Some((Timestamp::from_ticks(9), "NotFound".into())),
            given_up: Some("MaxDeliveryAttemptsExceeded".into()),
        }
    }

    #[test]
    fn shapes_round_trip_and_damage_is_a_fault() {
        let full = pending();
        let event = Event { client_request: None, content_type: None, content_bytes: None, ..full.event.clone() };
        let bare = PendingEvent { event, attempts: 0, last: None, given_up: None, ..full.clone() };
        for pending in [full, bare] {
            let bytes = pending.encode();
            assert_eq!(PendingEvent::decode(&bytes).expect("what was written"), pending);
            for cut in 0..bytes.len() {
                // A cut between two optional fields at the end leaves a whole record.
                if let Ok(shorter) = PendingEvent::decode(&bytes[..cut]) {
                    assert_ne!(shorter, pending, "{cut}");
                }
            }
            assert!(PendingEvent::decode(&[&bytes[..], &[200, 0]].concat()).is_err(), "a tag that nobody knows");
        }
        for api in Api::ALL {
            assert_eq!(api.kind() == EventKind::Deleted, api == Api::DeleteBlob);
        }
        assert_eq!(decode_note(&encode_note(Timestamp::from_ticks(7))).expect("written"), Timestamp::from_ticks(7));
        assert!(decode_note(b"short").is_err());
    }
}
