//! One attempt: a POST to a webhook, or a message in a queue; and dead letters.

use std::sync::atomic::Ordering;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use contract::limits::QUEUE_MESSAGE_TEXT_BYTES_MAX;
use contract::names::{AccountName, BlobName, ContainerName, QueueName};
use contract::operations::OperationId;
use contract::{ApiVersion, ErrorCode, Service};
use partition::blob::block::PutBlob;
use partition::blob::{Attributes, Keeping, container};
use partition::checks::Expectation;
use partition::queue::message::{self, Queue, TimeToLive};
use partition::record::event::PendingEvent;
use partition::record::{BlobKind, ContentProperties};
use partition::{Conditions, Content, Failure, Shell};

use super::retry::{Failed, TOO_LARGE};
use super::{Destination, Subscription, schema};
use crate::source::SourceUrl;
use crate::source::outside::{self, NotOpened, Opened};

/// A webhook that was asked in vain is left alone for so long.
const ASK_AGAIN_SECONDS: u64 = 5;
/// No more of an answer is read.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// What Event Grid gives its messages.
const MESSAGE_SECONDS: u64 = 7 * 24 * 3600;

/// Once to where the subscription says.
pub async fn send(
    shell: &Shell,
    subscription: &Subscription,
    account: &AccountName,
    pending: &PendingEvent,
) -> Result<(), Failed> {
    match &subscription.to {
        Destination::Queue(name) => to_queue(shell, account, name, pending).await,
        Destination::Webhook(url) => {
            validate(shell, subscription, account).await?;
            let body = schema::notification(account, pending);
            let count = pending.attempts.to_string();
            let answer = post(url, subscription, "Notification", &count, body).await?;
            let status = answer.status;
            let _ = read(answer).await; // it may say what it likes
            if (200..=299).contains(&status) { Ok(()) } else { Err(Failed::Status(status)) }
        }
    }
}

async fn post(
    url: &SourceUrl,
    subscription: &Subscription,
    kind: &str,
    count: &str,
    body: String,
) -> Result<Opened, Failed> {
    let headers = [
        ("Content-Type", "application/json; charset=utf-8".to_string()),
        ("aeg-event-type", kind.to_string()),
        ("aeg-subscription-name", subscription.name.to_uppercase()),
        ("aeg-delivery-count", count.to_string()),
        ("aeg-data-version", String::new()),
        ("aeg-metadata-version", "1".to_string()),
    ];
    outside::post(url, &headers, body.into()).await.map_err(|error| match error {
        NotOpened::Unreachable(why) => Failed::Unreachable(why),
        NotOpened::NotAllowed => Failed::Unreachable("its name was not found"),
    })
}

/// An answer to its end, lest the webhook finds nobody there while it writes.
async fn read(mut answer: Opened) -> Option<Vec<u8>> {
    answer.body.bytes_max = ANSWER_BYTES_MAX;
    let mut read = Vec::new();
    while let Some(piece) = answer.body.next(4096).await.ok()? {
        read.extend_from_slice(&piece);
    }
    Some(read)
}

/// Whether the webhook wants events: it repeats a code that it is sent. Asked until it does, then no more.
pub async fn validate(shell: &Shell, subscription: &Subscription, account: &AccountName) -> Result<(), Failed> {
    let Destination::Webhook(url) = &subscription.to else { return Ok(()) };
    if subscription.is_validated() {
        return Ok(());
    }
    let mut refused = subscription.refused.lock().await;
    if subscription.is_validated() {
        return Ok(());
    }
    let now = shell.clock.now();
    if refused.is_some_and(|at| at <= now && now < at.plus_seconds(ASK_AGAIN_SECONDS)) {
        return Err(Failed::NotValidated("it was asked a moment ago"));
    }
    let asked = ask(shell, subscription, url, account).await;
    match asked {
        Ok(()) => {
            subscription.is_validated.store(true, Ordering::Release);
            *refused = None;
            tracing::info!(events = subscription.name, to = %subscription.to, "the webhook wants events");
        }
        Err(failed) => {
            *refused = Some(now);
            tracing::error!(
                events = subscription.name,
                to = %subscription.to,
                ?failed,
                "the webhook did not answer the validation of its subscription as it must, and gets no events before it does: \
                 see docs/events.md"
            );
        }
    }
    asked
}

async fn ask(shell: &Shell, subscription: &Subscription, url: &SourceUrl, account: &AccountName) -> Result<(), Failed> {
    let code = shell.ids.next();
    let body = schema::validation(schema::topic(account), shell.ids.next(), code, shell.clock.now());
    let answer = post(url, subscription, "SubscriptionValidation", "0", body).await?;
    if answer.status != 200 {
        return Err(Failed::NotValidated("its answer is not 200"));
    }
    let read = read(answer).await.ok_or(Failed::NotValidated("its answer broke off"))?;
    #[derive(serde::Deserialize)]
    struct Answer {
        #[serde(rename = "validationResponse", alias = "ValidationResponse")]
        validation_response: String,
    }
    match serde_json::from_slice::<Answer>(&read) {
        Ok(answer) if answer.validation_response == code.to_string() => Ok(()),
        Ok(_) => Err(Failed::NotValidated("its validationResponse is not the code it was sent")),
        Err(_) => Err(Failed::NotValidated("its answer is no JSON object with a validationResponse")),
    }
}

/// The event in base64, as Event Grid writes it.
async fn to_queue(
    shell: &Shell,
    account: &AccountName,
    name: &QueueName,
    pending: &PendingEvent,
) -> Result<(), Failed> {
    let text = STANDARD.encode(schema::event(account, pending));
    if text.len() as u64 > QUEUE_MESSAGE_TEXT_BYTES_MAX {
        return Err(Failed::Queue(TOO_LARGE));
    }
    let (queue, ttl) = (Queue { account, name }, TimeToLive::Seconds(MESSAGE_SECONDS));
    match message::put(shell, queue, Bytes::from(text), 0, ttl).await {
        Ok(_) => Ok(()),
        Err(Failure::Refused(refusal)) if refusal.code == ErrorCode::QueueNotFound => Err(Failed::Queue("NotFound")),
        Err(_) => Err(Failed::Queue("GenericError")),
    }
}

/// Puts an event that is given up into a container. The same event is the same blob; nobody is told of it.
pub async fn bury(
    shell: &Shell,
    account: &AccountName,
    into: &ContainerName,
    pending: &PendingEvent,
    reason: &str,
) -> Result<(), Failure> {
    let text = schema::dead_letter(account, pending, reason);
    let iso = pending.event.time.iso8601();
    let (date, hour) = (iso[..10].replace('-', "/"), &iso[11..13]);
    let blob = format!("{}/{date}/{hour}/{}.json", pending.subscription, pending.event.id);
    let blob = BlobName::parse(&blob)?;
    let operation = Service::Blob.rows().iter().find(|row| row.id == OperationId::PutBlockBlob);
    let operation = operation.expect("Put Blob has its row");
    let expectation = Expectation {
        operation,
        version: ApiVersion::NEWEST_KNOWN,
        conditions: Conditions::default(),
        lease_id: None,
        keeps_versions: false,
    };
    let content_type = Some("application/json".to_string());
    let attributes =
        Attributes { properties: ContentProperties { content_type, ..Default::default() }, ..Attributes::default() };
    let found = container::find(shell, account, into).await?;
    let (kind, keeping) = (BlobKind::Block, Keeping::default());
    let mut command = PutBlob::new(&found.group, &blob, expectation, kind, attributes, keeping, true);
    command.content = Content::Inline(text.into());
    found.settle(shell, shell.execute(&command).await).await.map(drop)
}
