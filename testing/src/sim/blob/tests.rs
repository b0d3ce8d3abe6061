//! Histories written by hand: calls one after another, each with the second that its server took for now.

use super::*;
use crate::sim::lease::Action;

struct Told {
    history: History,
    blob: usize,
}

fn told() -> Told {
    Told { history: History::default(), blob: 0 }
}

impl Told {
    fn call(&mut self, second: u64, what: What, lease: Option<lease::Id>, reply: Reply) -> &mut Told {
        self.history.set_clock(0, (1_000 + second) * env::TICKS_PER_SECOND);
        let id = self.history.begin(1, 0, history::Deed::Blob(Deed { blob: self.blob, what, lease }));
        self.history.answer(id, Outcome::Answered(history::Reply::Blob(reply)));
        self
    }

    fn done(&mut self, what: What) -> &mut Told {
        self.call(0, what, None, Reply::Done)
    }

    fn refused(&mut self, what: What, code: &str) -> &mut Told {
        self.call(0, what, None, Reply::Refused(code.into()))
    }

    fn shown(&mut self, values: &[Value]) -> &mut Told {
        self.call(0, What::Get, None, Reply::Shown(values.to_vec()))
    }

    fn acquired(&mut self, second: u64, id: lease::Id) -> &mut Told {
        self.call(second, What::Lease(Action::Acquire { id, seconds: Some(15) }), None, Reply::Done)
    }

    #[track_caller]
    fn is_right(&self, right: bool) {
        assert_eq!(check(&self.history).is_ok(), right, "{:?}", check(&self.history));
    }
}

fn list(blocks: &[(usize, From)]) -> What {
    What::PutBlockList(blocks.to_vec())
}

#[test]
fn blocks_are_staged_committed_and_found_again() {
    let mut told = told();
    told.done(What::PutBlock { block: 0 }).done(What::PutBlock { block: 1 }).refused(What::Get, "BlobNotFound");
    told.done(list(&[(1, From::Latest), (0, From::Uncommitted)])).shown(&[2, 1]);
    told.refused(list(&[(0, From::Uncommitted)]), "InvalidBlockList");
    told.done(What::PutBlock { block: 0 }).done(list(&[(0, From::Latest), (1, From::Committed)])).shown(&[7, 2]);
    told.is_right(true);
    told.shown(&[1, 2]).is_right(false);
}

#[test]
fn what_is_not_staged_is_not_committed() {
    told().done(list(&[(0, From::Latest)])).is_right(false);
    told().done(What::PutBlock { block: 0 }).done(What::Put).done(list(&[(0, From::Latest)])).is_right(false);
}

#[test]
fn appends_are_neither_lost_nor_repeated() {
    let log = || {
        let mut told = Told { blob: LOG, ..told() };
        told.done(What::Put).done(What::Append { at: None }).done(What::Append { at: Some(1) });
        told
    };
    log().shown(&[2, 3]).refused(What::Append { at: Some(1) }, "AppendPositionConditionNotMet").is_right(true);
    log().shown(&[2]).is_right(false);
    log().shown(&[2, 3, 3]).is_right(false);
    log().done(What::Append { at: Some(1) }).is_right(false);
}

#[test]
fn a_snapshot_stays_what_it_was() {
    let snapped = || {
        let mut told = told();
        told.done(What::Put).call(0, What::Snapshot, None, Reply::Snapped("s".into())).done(What::Put);
        told
    };
    let get = || What::GetSnapshot("s".into());
    snapped().call(0, get(), None, Reply::Shown(vec![1])).shown(&[3]).is_right(true);
    snapped().call(0, get(), None, Reply::Shown(vec![3])).is_right(false);
    snapped().done(What::Delete).refused(get(), "BlobNotFound").is_right(true);
    snapped().done(What::Delete).call(0, get(), None, Reply::Shown(vec![1])).is_right(false);
}

#[test]
fn a_lease_excludes_all_others_until_it_is_over() {
    let leased = || {
        let mut told = told();
        told.done(What::Put).acquired(0, 0);
        told
    };
    let no = |code: &str| Reply::Refused(code.into());
    leased().call(1, What::Put, None, no("LeaseIdMissing")).call(2, What::Put, Some(0), Reply::Done).is_right(true);
    leased().call(14, What::Put, None, Reply::Done).is_right(false);
    leased().call(15, What::Put, None, Reply::Done).is_right(true);
    leased().call(1, What::Put, Some(1), Reply::Done).is_right(false);
    leased().acquired(14, 1).is_right(false);
    leased().acquired(15, 1).is_right(true);
    leased().call(16, What::Put, Some(0), Reply::Done).is_right(false);
    leased().call(16, What::Put, Some(0), no("LeaseLost")).is_right(true);
    leased().call(1, What::Put, Some(0), no("LeaseIdMissing")).is_right(false);
}
