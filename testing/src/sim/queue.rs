//! A queue: put, get, peek, update, delete and clear, with visibility and expiry.
//!
//! A message's text names the call that put it and the call that wrote it last.

pub mod model;

use contract::Service;

use super::chance::Chance;
use super::client::{Asking, between, failed, wrong};
use super::history::{self, CallId, Outcome, Value};
use crate::{Answer, Request};

pub const QUEUE: &str = "orders";

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Deed {
    /// `life_seconds` is `None` for a week.
    Put {
        hidden_seconds: u64,
        life_seconds: Option<u64>,
    },
    Get {
        count: usize,
        hidden_seconds: u64,
    },
    Peek {
        count: usize,
    },
    Update {
        held: Held,
        hidden_seconds: u64,
    },
    Delete {
        held: Held,
    },
    Clear,
}

impl Deed {
    pub fn writes(&self) -> bool {
        !matches!(self, Deed::Peek { .. })
    }
}

/// What somebody who received a message has of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Held {
    /// The call that put it.
    pub root: Value,
    pub id: String,
    pub receipt: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Reply {
    /// Put or updated, with a new receipt.
    Written(Held),
    /// Received or peeked at.
    Shown(Vec<Message>),
    /// Deleted or cleared.
    Done,
    NotFound,
    /// It would be hidden longer than it lives.
    BeyondItsEnd,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Message {
    /// Without a receipt if it was peeked at.
    pub held: Held,
    /// The call that wrote its text.
    pub writer: Value,
    pub dequeued: u64,
}

/// What the clients know together.
#[derive(Default)]
pub struct Seen {
    held: Vec<Held>,
}

const SEEN_MAX: usize = 8;

impl Seen {
    fn note(&mut self, held: &Held) {
        if self.held.len() == SEEN_MAX {
            self.held.remove(0);
        }
        self.held.push(held.clone());
    }
}

pub fn choose(chance: &mut Chance, seen: &Seen) -> Deed {
    let hidden_seconds = *chance.pick(&[0, 1, 5, 30]);
    let count = *chance.pick(&[1, 1, 3, 32]);
    let kind = chance.weighted(&[24, 24, 12, 10, 18, 1]);
    // Mostly what was received last: it may still be right.
    let held = seen.held.last().map(|last| if chance.below(3) == 0 { chance.pick(&seen.held) } else { last }).cloned();
    match (kind, held) {
        (3, Some(held)) => Deed::Update { held, hidden_seconds },
        (4, Some(held)) => Deed::Delete { held },
        (1, _) => Deed::Get { count, hidden_seconds: hidden_seconds.max(1) },
        (2, _) => Deed::Peek { count },
        (5, _) => Deed::Clear,
        _ => Deed::Put {
            hidden_seconds: if chance.below(4) == 0 { hidden_seconds } else { 0 },
            life_seconds: (chance.below(3) == 0).then_some(60),
        },
    }
}

/// What shows all that is left.
pub fn stock() -> impl Iterator<Item = Deed> {
    [Deed::Peek { count: 32 }, Deed::Get { count: 32, hidden_seconds: 30 }].into_iter()
}

pub async fn perform(asking: &mut Asking<'_>, deed: &Deed) -> Option<Outcome> {
    let answer = asking.ask(request(asking.call, deed)).await?;
    let outcome = understand(asking.call, deed, &answer);
    if let Outcome::Answered(history::Reply::Queue(reply)) = &outcome {
        let mut seen = asking.sim.seen.borrow_mut();
        match reply {
            Reply::Written(held) => seen.queue.note(held),
            Reply::Shown(messages) if deed.writes() => {
                messages.iter().for_each(|message| seen.queue.note(&message.held));
            }
            _ => {}
        }
    }
    Some(outcome)
}

fn request(call: CallId, deed: &Deed) -> Request {
    let messages =
        |method: &str, rest: &str| Request::new(&format!("{method} {QUEUE}/messages{rest}")).of(Service::Queue);
    let text =
        |root: Value| format!("<QueueMessage><MessageText>m{root}.{call}</MessageText></QueueMessage>").into_bytes();
    let seconds = |name: &str, seconds: u64| (name.to_string(), seconds.to_string());
    let mut request = match deed {
        Deed::Put { .. } => messages("POST", "").body(text(call)),
        Deed::Get { count, .. } => messages("GET", &format!("?numofmessages={count}")),
        Deed::Peek { count } => messages("GET", &format!("?peekonly=true&numofmessages={count}")),
        Deed::Update { held, .. } => messages("PUT", &format!("/{}", held.id)).body(text(held.root)),
        Deed::Delete { held } => messages("DELETE", &format!("/{}", held.id)),
        Deed::Clear => messages("DELETE", ""),
    };
    if let Deed::Put { hidden_seconds, .. } | Deed::Get { hidden_seconds, .. } | Deed::Update { hidden_seconds, .. } =
        deed
    {
        request.query.push(seconds("visibilitytimeout", *hidden_seconds));
    }
    match deed {
        Deed::Put { life_seconds: Some(life), .. } => request.query.push(seconds("messagettl", *life)),
        Deed::Update { held, .. } | Deed::Delete { held } => {
            request.query.push(("popreceipt".into(), held.receipt.clone()));
        }
        _ => {}
    }
    request
}

fn understand(call: CallId, deed: &Deed, answer: &Answer) -> Outcome {
    if let Some(failed) = failed(deed.writes(), answer) {
        return failed;
    }
    let reply = match (deed, answer.status, answer.code()) {
        (Deed::Put { .. }, 201, _) => read(&answer.text()).and_then(|mut messages| {
            // Its text is not repeated.
            let held = messages.pop()?.held;
            Some(Reply::Written(Held { root: call, ..held }))
        }),
        (Deed::Get { .. } | Deed::Peek { .. }, 200, _) => read(&answer.text()).map(Reply::Shown),
        (Deed::Update { held, .. }, 204, _) => answer
            .header("x-ms-popreceipt")
            .map(|receipt| Reply::Written(Held { receipt: receipt.to_string(), ..held.clone() })),
        (Deed::Delete { .. } | Deed::Clear, 204, _) => Some(Reply::Done),
        (Deed::Update { .. } | Deed::Delete { .. }, 404, "MessageNotFound") => Some(Reply::NotFound),
        (Deed::Update { .. }, 400, "InvalidQueryParameterValue") => Some(Reply::BeyondItsEnd),
        _ => None,
    };
    reply.map_or_else(
        || wrong("not an answer to this request", answer),
        |reply| Outcome::Answered(history::Reply::Queue(reply)),
    )
}

fn read(text: &str) -> Option<Vec<Message>> {
    let parts = text.split("<QueueMessage>").skip(1);
    parts
        .map(|part| {
            let (root, writer) = match between(part, "MessageText") {
                None => (0, 0),
                Some(text) => {
                    let (root, writer) = text.strip_prefix('m')?.split_once('.')?;
                    (root.parse().ok()?, writer.parse().ok()?)
                }
            };
            let receipt = between(part, "PopReceipt").unwrap_or_default().to_string();
            let dequeued = between(part, "DequeueCount").map_or(Some(0), |count| count.parse().ok())?;
            Some(Message {
                held: Held { root, id: between(part, "MessageId")?.to_string(), receipt },
                writer,
                dequeued,
            })
        })
        .collect()
}
