//! Events as Event Grid writes them.

use contract::names::AccountName;
use env::{Id, Timestamp};
use partition::ETag;
use partition::record::event::{EventKind, PendingEvent};
use serde::Serialize;

use crate::blob::kind_name;

const CREATED: &str = "Microsoft.Storage.BlobCreated";
const DELETED: &str = "Microsoft.Storage.BlobDeleted";

pub fn type_name(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Created => CREATED,
        EventKind::Deleted => DELETED,
    }
}

pub fn parse_type(text: &str) -> Result<EventKind, String> {
    match text {
        CREATED => Ok(EventKind::Created),
        DELETED => Ok(EventKind::Deleted),
        _ => Err(format!("types: there is no \"{text}\" here; there are {CREATED} and {DELETED}")),
    }
}

pub fn subject(container: &str, blob: &str) -> String {
    format!("/blobServices/default/containers/{container}/blobs/{blob}")
}

/// The resource of an account. There are no subscriptions and resource groups here.
pub fn topic(account: &AccountName) -> String {
    format!(
        "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/lazuli/providers/Microsoft.Storage/storageAccounts/{}",
        account.as_str()
    )
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a, D> {
    topic: String,
    subject: String,
    event_type: &'a str,
    event_time: String,
    id: String,
    data: D,
    data_version: &'a str,
    metadata_version: &'a str,
    #[serde(flatten)]
    dead: Option<Dead<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Data<'a> {
    api: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_request_id: Option<&'a str>,
    request_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    e_tag: Option<String>,
    content_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_length: Option<u64>,
    blob_type: &'a str,
    url: &'a str,
    sequencer: String,
    storage_diagnostics: Diagnostics,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Diagnostics {
    batch_id: String,
}

/// What a dead letter says beside its event.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Dead<'a> {
    dead_letter_reason: &'a str,
    delivery_attempts: u32,
    last_delivery_outcome: &'a str,
    publish_time: String,
    last_delivery_attempt_time: String,
}

fn envelope<'a>(account: &AccountName, pending: &'a PendingEvent, dead: Option<Dead<'a>>) -> Envelope<'a, Data<'a>> {
    let event = &pending.event;
    let kind = event.api.kind();
    Envelope {
        topic: topic(account),
        subject: subject(&event.container, &event.blob),
        event_type: type_name(kind),
        event_time: event.time.iso8601(),
        id: event.id.to_string(),
        data: Data {
            api: event.api.name(),
            client_request_id: event.client_request.as_deref(),
            request_id: event.request.to_string(),
            e_tag: (kind == EventKind::Created).then(|| ETag(event.sequence).to_string()),
            content_type: event.content_type.as_deref().unwrap_or("application/octet-stream"),
            content_length: event.content_bytes,
            blob_type: kind_name(event.blob_kind),
            url: &event.url,
            sequencer: format!("{:032X}", event.sequence),
            storage_diagnostics: Diagnostics { batch_id: event.request.to_string() },
        },
        data_version: "",
        metadata_version: "1",
        dead,
    }
}

/// The event alone, as queues get it.
pub fn event(account: &AccountName, pending: &PendingEvent) -> String {
    json(&envelope(account, pending, None))
}

/// An array with one event, as webhooks get it.
pub fn notification(account: &AccountName, pending: &PendingEvent) -> String {
    json(&[envelope(account, pending, None)])
}

/// The same with why it was not delivered.
pub fn dead_letter(account: &AccountName, pending: &PendingEvent, reason: &str) -> String {
    let last = pending.last.as_ref();
    let dead = Dead {
        dead_letter_reason: reason,
        delivery_attempts: pending.attempts,
        last_delivery_outcome: last.map_or("", |(_, outcome)| outcome),
        publish_time: pending.event.time.iso8601(),
        last_delivery_attempt_time: last.map_or(pending.event.time, |(at, _)| *at).iso8601(),
    };
    json(&[envelope(account, pending, Some(dead))])
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Validation {
    validation_code: String,
}

/// What a webhook is asked first.
pub fn validation(topic: String, id: Id, code: Id, now: Timestamp) -> String {
    json(&[Envelope {
        topic,
        subject: String::new(),
        event_type: "Microsoft.EventGrid.SubscriptionValidationEvent",
        event_time: now.iso8601(),
        id: id.to_string(),
        data: Validation { validation_code: code.to_string() },
        data_version: "2",
        metadata_version: "1",
        dead: None,
    }])
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("text and numbers alone")
}
