//! The Queue service under contention and at size: who gets a message, and what it costs.

mod behind;
mod competing;
mod cost;
mod crossing;
mod expiry;
mod policies;

use contract::Service;
use contract::names::{AccountName, QueueName};
use testing::{ACCOUNT, Answer, Request, World};

pub fn queue(line: &str) -> Request {
    Request::new(line).of(Service::Queue)
}

pub fn message(text: &str) -> String {
    format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>")
}

pub fn names(name: &str) -> (AccountName, QueueName) {
    (AccountName::parse(ACCOUNT).expect("right"), QueueName::parse(name).expect("right"))
}

pub async fn send(world: &World, request: Request, status: u16) -> Answer {
    let answer = world.send(&request).await;
    assert_eq!(answer.status, status, "{} {:?}: {}", request.path, request.query, answer.text());
    answer
}

/// The values of an element, in order.
pub fn values(text: &str, element: &str) -> Vec<String> {
    let (open, close) = (format!("<{element}>"), format!("</{element}>"));
    text.split(&open).skip(1).filter_map(|rest| rest.split_once(&close)).map(|(value, _)| value.to_string()).collect()
}

pub async fn count(world: &World, name: &str) -> u64 {
    let answer = send(world, queue(&format!("GET {name}?comp=metadata")), 200).await;
    answer.header("x-ms-approximate-messages-count").expect("always there").parse().expect("a number")
}
