//! Histories written by hand, one call after another; the second partition is left alone.

use super::*;

struct Told(History);

impl Told {
    fn new() -> Told {
        Told(History::default())
    }

    fn call(&mut self, what: What, reply: Reply) -> &mut Told {
        let id = self.0.begin(1, 0, history::Deed::Table(Deed { partition: 0, what }));
        self.0.answer(id, Outcome::Answered(history::Reply::Table(reply)));
        self
    }

    /// Its number is that of the call, and its ETag says so.
    fn change(&mut self, row: usize, how: How) -> &mut Told {
        let id = self.0.calls().len() + 1;
        let etag = (!matches!(how, How::Delete(_))).then(|| format!("e{id}"));
        self.call(What::Change(Change { row, how }), Reply::Done(vec![etag]))
    }

    fn refused(&mut self, row: usize, how: How, why: Refusal) -> &mut Told {
        self.call(What::Change(Change { row, how }), Reply::Refused { at: 0, why })
    }

    /// Rows as they were shown: a, b, w.
    fn query(&mut self, shown: &[(usize, [Value; 3])]) -> &mut Told {
        let entity = |(row, [a, b, w]): &(usize, [Value; 3])| Entity {
            row: *row,
            values: Values { a: *a, b: *b, w: *w },
            etag: format!("e{w}"),
        };
        self.call(What::Query, Reply::Shown(shown.iter().map(entity).collect()))
    }

    #[track_caller]
    fn is_right(&self, right: bool) {
        assert_eq!(check(&self.0).is_ok(), right, "{:?}", check(&self.0));
    }
}

fn both(first: How, second: How) -> What {
    What::Transaction(vec![Change { row: 0, how: first }, Change { row: 1, how: second }])
}

fn etag(number: usize) -> Option<String> {
    Some(format!("e{number}"))
}

#[test]
fn changes_are_seen() {
    Told::new().change(0, How::Insert).change(0, How::Merge(etag(1))).query(&[(0, [1, 2, 2])]).is_right(true);
    Told::new().change(0, How::InsertOrMerge).change(0, How::Replace(None)).query(&[(0, [2, 0, 2])]).is_right(true);
    Told::new().change(0, How::Insert).change(0, How::Delete(None)).query(&[]).is_right(true);
    Told::new().change(0, How::Insert).query(&[]).is_right(false);
    Told::new().change(0, How::Insert).change(0, How::Merge(None)).query(&[(0, [0, 2, 2])]).is_right(false);
}

#[test]
fn conditions_are_kept() {
    let told = || {
        let mut told = Told::new();
        told.change(0, How::Insert).change(0, How::Replace(None));
        told
    };
    told().refused(0, How::Replace(etag(1)), Refusal::ConditionNotMet).is_right(true);
    told().change(0, How::Replace(etag(1))).is_right(false);
    told().refused(0, How::Delete(etag(2)), Refusal::ConditionNotMet).is_right(false);
    told()
        .refused(0, How::Insert, Refusal::AlreadyExists)
        .refused(1, How::Delete(None), Refusal::NotFound)
        .is_right(true);
    told().change(0, How::Insert).is_right(false);
    // Two values under one ETag, or one under two, are the same mistake.
    told()
        .call(
            What::Get { row: 0 },
            Reply::Shown(vec![Entity { row: 0, values: Values { a: 2, b: 0, w: 2 }, etag: "e1".into() }]),
        )
        .is_right(false);
}

#[test]
fn a_transaction_is_all_or_nothing() {
    let told = |reply| {
        let mut told = Told::new();
        told.change(1, How::Insert).call(both(How::Insert, How::Insert), reply);
        told
    };
    let refused = || Reply::Refused { at: 1, why: Refusal::AlreadyExists };
    told(refused()).query(&[(1, [1, 0, 1])]).is_right(true);
    told(refused()).query(&[(0, [2, 0, 2]), (1, [1, 0, 1])]).is_right(false);
    told(Reply::Done(vec![etag(2), etag(2)])).is_right(false);
}

/// A query that lies beside a transaction sees all of it or nothing of it.
#[test]
fn a_query_sees_one_state() {
    for (shown, right) in [
        (vec![], true),
        (vec![(0, [1, 0, 1]), (1, [1, 0, 1])], true),
        (vec![(0, [1, 0, 1])], false),
        (vec![(1, [1, 0, 1])], false),
    ] {
        let mut told = Told::new();
        let what = both(How::Insert, How::Insert);
        let slow = told.0.begin(1, 0, history::Deed::Table(Deed { partition: 0, what }));
        told.query(&shown);
        told.0.answer(slow, Outcome::Answered(history::Reply::Table(Reply::Done(vec![etag(1), etag(1)]))));
        told.is_right(right);
    }
}
