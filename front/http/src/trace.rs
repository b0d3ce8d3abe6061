//! What is remembered of a request whose trace is followed: when it began and ended, what it was, and the stages that took time.
//!
//! Where nobody follows traces (`Tracer` is not set) nothing of it happens. What is remembered of a request lives in its own task, so the
//! stages need not be handed a thing; a request that is not followed has none, and they do nothing. No query, no header with a credential
//! and no content is remembered.

use std::cell::RefCell;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;

use contract::Service;
use contract::operations::OperationId;
use env::{Clock, Ids, Timestamp};
use partition::execute::{Stage, Stages};

use crate::wire::{BodyKind, Head, Response, ResponseBody};

/// Who follows traces.
pub trait Tracer: Send + Sync {
    /// Is a trace that begins here followed? The id is random.
    fn follows(&self, trace: u128) -> bool;

    /// A request was answered. Must not wait.
    fn finished(&self, span: Span);
}

/// One request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    pub trace: u128,
    pub id: u64,
    /// The client's span, if it named one.
    pub parent: Option<u64>,
    pub state: String,
    pub begun: Timestamp,
    pub ended: Timestamp,
    pub service: Service,
    pub tls: bool,
    pub client: IpAddr,
    pub method: String,
    pub path: String,
    pub host: String,
    pub agent: String,
    /// `None` if it was refused before that was known.
    pub operation: Option<OperationId>,
    pub account: String,
    pub status: u16,
    pub code: String,
    pub request: String,
    pub client_request: String,
    pub received_bytes: Option<u64>,
    pub sent_bytes: Option<u64>,
    pub stages: Vec<Passed>,
}

/// A stage that took time. Of one that came several times, from the first time to the last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Passed {
    pub name: &'static str,
    pub begun: Timestamp,
    pub ended: Timestamp,
}

/// Each attempt at a commit has its own stages; a request that is overtaken for ever has no more than these.
const STAGES_MAX: usize = 16;
const TEXT_CHARS_MAX: usize = 1024;
const STATE_CHARS_MAX: usize = 512;

struct Followed {
    clock: Arc<dyn Clock>,
    operation: Option<OperationId>,
    account: String,
    stages: Vec<Passed>,
}

tokio::task_local! {
    static FOLLOWED: RefCell<Followed>;
}

/// The names of the stages.
pub const RECEIVE: &str = "receive body";
const TURN: &str = "wait for turn";
const COMMIT: &str = "commit";

/// What is said of the client of a request.
pub struct Client {
    pub service: Service,
    pub address: IpAddr,
    pub tls: bool,
}

/// Answers a request, and tells the tracer of it if its trace is followed.
pub async fn follow(
    tracer: &dyn Tracer,
    (clock, ids): (&Arc<dyn Clock>, &dyn Ids),
    client: Client,
    head: &Head,
    answering: impl Future<Output = Response>,
) -> Response {
    let parent = head.header("traceparent").and_then(Parent::parse);
    let (trace, is_followed) = match &parent {
        Some(parent) => (parent.trace, parent.is_followed),
        None => {
            let trace = ids.next().0;
            (trace, tracer.follows(trace))
        }
    };
    if !is_followed {
        return answering.await;
    }
    let begun = clock.now();
    let followed = Followed { clock: clock.clone(), operation: None, account: String::new(), stages: Vec::new() };
    let (response, followed) = FOLLOWED
        .scope(RefCell::new(followed), async {
            let response = answering.await;
            (response, FOLLOWED.with(|followed| take(&mut followed.borrow_mut())))
        })
        .await;
    let (operation, account, stages) = followed;
    let text = |name: &str| bounded(head.header(name).unwrap_or_default(), TEXT_CHARS_MAX);
    let header = |name: &str| {
        let found = response.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map_or(String::new(), |(_, value)| value.to_string())
    };
    let received_bytes = match head.body {
        BodyKind::Length(bytes) => Some(bytes),
        BodyKind::Absent => Some(0),
        BodyKind::Chunked => None,
    };
    let sent_bytes = match &response.body {
        ResponseBody::Bytes(bytes) => Some(bytes.len() as u64),
        ResponseBody::Content { bytes, .. } => Some(*bytes),
        ResponseBody::Empty | ResponseBody::Head { .. } => Some(0),
    };
    let path = head.target().split('?').next().unwrap_or_default();
    tracer.finished(Span {
        trace,
        id: ids.next().0 as u64,
        state: parent
            .as_ref()
            .map_or(String::new(), |_| bounded(head.header("tracestate").unwrap_or_default(), STATE_CHARS_MAX)),
        parent: parent.map(|parent| parent.span),
        begun,
        ended: clock.now(),
        service: client.service,
        tls: client.tls,
        client: client.address,
        method: bounded(head.method(), 32),
        path: bounded(path, TEXT_CHARS_MAX),
        host: text("host"),
        agent: text("user-agent"),
        operation,
        account,
        status: response.status,
        code: header("x-ms-error-code"),
        request: header("x-ms-request-id"),
        client_request: text("x-ms-client-request-id"),
        received_bytes,
        sent_bytes,
        stages,
    });
    response
}

fn take(followed: &mut Followed) -> (Option<OperationId>, String, Vec<Passed>) {
    (followed.operation, std::mem::take(&mut followed.account), std::mem::take(&mut followed.stages))
}

fn bounded(text: &str, chars_max: usize) -> String {
    text.chars().take(chars_max).collect()
}

/// What the request under way turned out to be.
pub fn is(operation: OperationId, account: &str) {
    let _ = FOLLOWED.try_with(|followed| {
        let mut followed = followed.borrow_mut();
        // The parts of a batch are operations as well.
        if followed.operation.is_none() {
            followed.operation = Some(operation);
            followed.account = account.to_string();
        }
    });
}

/// The time, if the request under way is followed.
pub fn begin() -> Option<Timestamp> {
    FOLLOWED.try_with(|followed| followed.borrow().clock.now()).ok()
}

/// A stage that is over, and may come again.
pub fn passed(name: &'static str, begun: Option<Timestamp>) {
    let Some(begun) = begun else { return };
    let _ = FOLLOWED.try_with(|followed| {
        let mut followed = followed.borrow_mut();
        let ended = followed.clock.now();
        let stages = &mut followed.stages;
        if let Some(last) = stages.last_mut().filter(|last| last.name == name) {
            last.ended = ended;
        } else if stages.len() < STAGES_MAX {
            stages.push(Passed { name, begun, ended });
        }
    });
}

/// What the partition layer says of its stages.
pub struct PartitionStages;

impl Stages for PartitionStages {
    fn begin(&self) -> Option<Timestamp> {
        begin()
    }

    fn passed(&self, stage: Stage, begun: Timestamp) {
        let name = match stage {
            Stage::Turn => TURN,
            Stage::Commit => COMMIT,
        };
        passed(name, Some(begun));
    }
}

/// W3C Trace Context: `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Parent {
    trace: u128,
    span: u64,
    is_followed: bool,
}

impl Parent {
    /// `None` if it is not to be used; then the trace begins here.
    fn parse(text: &str) -> Option<Parent> {
        let parts: Vec<&str> = text.split('-').collect();
        let is_hex = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        let [version, trace, span, flags, more @ ..] = parts.as_slice() else { return None };
        let sizes = [version.len(), trace.len(), span.len(), flags.len()];
        // Later versions may have more parts; this one has not.
        if sizes != [2, 32, 16, 2]
            || *version == "ff"
            || *version == "00" && !more.is_empty()
            || !parts[..4].iter().all(is_hex)
        {
            return None;
        }
        let (trace, span) = (u128::from_str_radix(trace, 16).ok()?, u64::from_str_radix(span, 16).ok()?);
        let is_followed = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
        (trace != 0 && span != 0).then_some(Parent { trace, span, is_followed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents() {
        const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
        const SPAN: &str = "00f067aa0ba902b7";
        let right = |is_followed| {
            Some(Parent { trace: 0x4bf92f3577b34da6a3ce929d0e0e4736, span: 0x00f067aa0ba902b7, is_followed })
        };
        for (text, expected) in [
            (format!("00-{TRACE}-{SPAN}-01"), right(true)),
            (format!("00-{TRACE}-{SPAN}-00"), right(false)),
            (format!("00-{TRACE}-{SPAN}-03"), right(true)),
            (format!("cc-{TRACE}-{SPAN}-01-what-will-be"), right(true)),
            (format!("00-{TRACE}-{SPAN}-01-more"), None),
            (format!("ff-{TRACE}-{SPAN}-01"), None),
            (format!("00-{}-{SPAN}-01", TRACE.to_uppercase()), None),
            (format!("00-{TRACE}-{SPAN}"), None),
            (format!("00-{TRACE}-{SPAN}-+1"), None),
            (format!("00-{}-{SPAN}-01", "0".repeat(32)), None),
            (format!("00-{TRACE}-{}-01", "0".repeat(16)), None),
            (String::new(), None),
        ] {
            assert_eq!(Parent::parse(&text), expected, "{text}");
        }
    }
}
