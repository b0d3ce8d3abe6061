//! Histories written by hand: a row is a call, the moments between which it lay, and the second that its server took for now.

use super::*;

const HIDDEN: u64 = 30;

/// Message 1, put at second 0 and visible at once, and what is said about it later.
struct Told(History);

impl Told {
    fn new() -> Told {
        let mut told = Told(History::default());
        let put = Deed::Put { hidden_seconds: 0, life_seconds: Some(100) };
        told.call(0, put, Reply::Written(held("put")));
        told
    }

    fn call(&mut self, second: u64, deed: Deed, reply: Reply) -> &mut Told {
        let history = &mut self.0;
        history.set_clock(0, (1_000 + second) * env::TICKS_PER_SECOND);
        let id = history.begin(1, 0, history::Deed::Queue(deed));
        history.answer(id, Outcome::Answered(history::Reply::Queue(reply)));
        self
    }

    fn get(&mut self, second: u64, receipt: &str, dequeued: u64) -> &mut Told {
        self.call(second, Deed::Get { count: 3, hidden_seconds: HIDDEN }, shown(receipt, 1, dequeued))
    }

    fn nothing(&mut self, second: u64) -> &mut Told {
        self.call(second, Deed::Get { count: 3, hidden_seconds: HIDDEN }, Reply::Shown(Vec::new()))
    }

    fn delete(&mut self, second: u64, receipt: &str, reply: Reply) -> &mut Told {
        self.call(second, Deed::Delete { held: held(receipt) }, reply)
    }

    #[track_caller]
    fn is_right(&self, right: bool) {
        assert_eq!(check(&self.0).is_ok(), right, "{:?}", check(&self.0));
    }
}

fn held(receipt: &str) -> Held {
    Held { root: 1, id: "id".into(), receipt: receipt.into() }
}

fn shown(receipt: &str, writer: Value, dequeued: u64) -> Reply {
    Reply::Shown(vec![Message { held: held(receipt), writer, dequeued }])
}

#[test]
fn a_message_is_received_deleted_and_gone() {
    Told::new().get(1, "a", 1).nothing(20).get(31, "b", 2).delete(32, "b", Reply::Done).nothing(90).is_right(true);
    Told::new().get(1, "a", 1).get(31, "b", 2).delete(32, "a", Reply::NotFound).is_right(true);
    Told::new().nothing(100).is_right(true);
}

#[test]
fn nobody_gets_what_is_hidden() {
    Told::new().get(1, "a", 1).get(30, "b", 2).is_right(false);
}

#[test]
fn what_was_put_is_not_lost() {
    Told::new().nothing(1).is_right(false);
    Told::new().get(1, "a", 1).nothing(31).is_right(false);
}

#[test]
fn what_was_deleted_or_expired_does_not_come_back() {
    Told::new().get(1, "a", 1).delete(2, "a", Reply::Done).get(40, "b", 2).is_right(false);
    Told::new().get(100, "a", 1).is_right(false);
}

#[test]
fn only_the_latest_receipt_counts() {
    Told::new().get(1, "a", 1).get(31, "b", 2).delete(32, "a", Reply::Done).is_right(false);
    Told::new().get(1, "a", 1).delete(2, "a", Reply::NotFound).is_right(false);
}

#[test]
fn receptions_are_counted_and_texts_are_those_written() {
    Told::new().get(1, "a", 2).is_right(false);
    Told::new().call(1, Deed::Peek { count: 3 }, shown("", 1, 1)).is_right(false);
    let update = Deed::Update { held: held("put"), hidden_seconds: 0 };
    let mut told = Told::new();
    told.call(1, update, Reply::Written(held("new"))).call(2, Deed::Peek { count: 3 }, shown("", 2, 0)).is_right(true);
    told.call(3, Deed::Peek { count: 3 }, shown("", 1, 0)).is_right(false);
}
