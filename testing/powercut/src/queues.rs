//! Queues as containers of messages. The text of a message begins with a line that says its name and its operation.
//!
//! A queue is looked at by peeking, which changes nothing. It shows the first 32 visible messages, so the workload keeps
//! fewer in a queue and hides them for a second only; that nothing is hidden or left out, the queue's own count tells.

use crate::client::{Client, between};
use crate::store::{Answer, Condition, Found, Listed, Received, Store};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const PEEKED_MAX: &str = "32";
const HIDDEN_SECONDS: &str = "1";
/// Longer than anything is hidden.
const LOOK_SECONDS_MAX: u64 = 4;

pub struct Queues {
    client: Client,
    /// What the last look at a queue showed, until this connection changes something: messages are not read by name.
    looked: BTreeMap<String, BTreeMap<String, Found>>,
}

impl Queues {
    pub fn new(port: u16) -> Queues {
        Queues { client: Client::new(port), looked: BTreeMap::new() }
    }

    fn look(&mut self, queue: &str) -> Result<&BTreeMap<String, Found>, String> {
        if !self.looked.contains_key(queue) {
            let deadline = Instant::now() + Duration::from_secs(LOOK_SECONDS_MAX);
            let messages = loop {
                let head = match self.client.read(&format!("/{queue}"), &[("comp", "metadata")], &[]) {
                    Err(error) if error.contains(": 404") => break Vec::new(), // as with a blob of no container
                    head => head?,
                };
                let count = head.header("x-ms-approximate-messages-count").unwrap_or("none").to_string();
                let query = [("numofmessages", PEEKED_MAX), ("peekonly", "true")];
                let peeked = self.client.read(&format!("/{queue}/messages"), &query, &[])?;
                let messages = parse(&peeked.text())?;
                if count == messages.len().to_string() {
                    break messages;
                }
                if Instant::now() > deadline {
                    return Err(format!("{queue} counts {count} messages and shows {}", messages.len()));
                }
                std::thread::sleep(Duration::from_millis(20));
            };
            let count = messages.len();
            let named: BTreeMap<String, Found> = messages.into_iter().map(|m| (m.name, m.found)).collect();
            if named.len() != count {
                return Err(format!("{queue} shows a message twice: {count} messages, {} names", named.len()));
            }
            self.looked.insert(queue.to_string(), named);
        }
        Ok(&self.looked[queue])
    }
}

fn parse(xml: &str) -> Result<Vec<Received>, String> {
    let mut messages = Vec::new();
    for message in xml.split("<QueueMessage>").skip(1) {
        let field = |name: &str| between(message, &format!("<{name}>"), &format!("</{name}>"));
        let (Some(id), Some(text)) = (field("MessageId"), field("MessageText")) else {
            return Err(format!("not a message: {message:?}"));
        };
        // A text without its first line is nobody's: it is found under its id, and so a stranger.
        let (head, body) = text.split_once('\n').unwrap_or((text, ""));
        let (name, operation) = head.split_once(' ').unwrap_or((id, ""));
        messages.push(Received {
            name: name.to_string(),
            receipt: format!("{id} {}", field("PopReceipt").unwrap_or("")),
            found: Found { etag: id.to_string(), operation: operation.parse().ok(), body: body.as_bytes().to_vec() },
        });
    }
    Ok(messages)
}

impl Store for Queues {
    fn create_container(&mut self, queue: &str) -> Answer {
        self.client.change("PUT", &format!("/{queue}"), &[], &[], &[])
    }

    fn delete_container(&mut self, queue: &str) -> Answer {
        self.looked.clear();
        self.client.change("DELETE", &format!("/{queue}"), &[], &[], &[])
    }

    fn put(&mut self, queue: &str, name: &str, operation: usize, body: &[u8], _condition: &Condition) -> Answer {
        self.looked.clear();
        let text = String::from_utf8_lossy(body);
        let message =
            format!("<QueueMessage><MessageText>{name} {operation}\n{text}</MessageText></QueueMessage>").into_bytes();
        match self.client.attempt("POST", &format!("/{queue}/messages"), &[], &[], &message) {
            Ok(response) => Answer::Done {
                etag: between(&response.text(), "<MessageId>", "</MessageId>").unwrap_or("no id").to_string(),
            },
            Err(answer) => answer,
        }
    }

    fn delete(&mut self, queue: &str, _name: &str, condition: &Condition) -> Answer {
        self.looked.clear();
        let Condition::Is(receipt) = condition else { unreachable!("a message is deleted with its receipt") };
        let (id, receipt) = receipt.split_once(' ').expect("made by `parse`");
        self.client.change("DELETE", &format!("/{queue}/messages/{id}"), &[("popreceipt", receipt)], &[], &[])
    }

    fn get(&mut self, queue: &str, name: &str) -> Result<Option<Found>, String> {
        Ok(self.look(queue)?.get(name).cloned())
    }

    fn list_containers(&mut self) -> Result<Vec<Listed>, String> {
        self.client.walk("/", &[("comp", "list")], "Queue")
    }

    fn list(&mut self, queue: &str) -> Result<Vec<Listed>, String> {
        self.looked.clear();
        let listed = |(name, found): (&String, &Found)| Listed {
            name: name.clone(),
            etag: found.etag.clone(),
            bytes: Some(found.body.len() as u64),
        };
        Ok(self.look(queue)?.iter().map(listed).collect())
    }

    fn receive(&mut self, queue: &str) -> Result<Vec<Received>, String> {
        self.looked.clear();
        let query = [("numofmessages", "2"), ("visibilitytimeout", HIDDEN_SECONDS)];
        parse(&self.client.read(&format!("/{queue}/messages"), &query, &[])?.text())
    }
}
