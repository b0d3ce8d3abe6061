//! List Ranges: where a file holds bytes, or where that is different from what a snapshot saw.

use contract::ErrorCode;
use contract::names::FilePath;
use engine::{Fault, View};

use super::body::{Run, RunWalk};
use super::read::{Looked, begin};
use super::share;
use super::tree::{find_at, node_key};
use super::versions::{At, get_at};
use crate::blob::read::{Part, Range};
use crate::checks::Expectation;
use crate::execute::{Failure, Shell};
use crate::key;
use crate::record::{Node, NodeKind};

/// Which ranges to list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeQuery {
    pub range: Option<Range>,
    /// The generation a snapshot saw, to compare with.
    pub since: Option<u64>,
    /// May the file have had another name then?
    pub may_be_renamed: bool,
    /// The first offset, if a list is continued.
    pub from: u64,
    pub results_max: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listed {
    pub part: Part,
    /// Of a difference: it held bytes, and does not any more.
    pub is_clear: bool,
}

pub struct RangeList {
    pub node: Node,
    pub listed: Vec<Listed>,
    /// Where to go on.
    pub next: Option<u64>,
}

/// Both sides of a difference are of one moment (promise E2).
pub async fn list(
    shell: &Shell,
    share: &share::Found,
    path: &FilePath,
    expectation: &Expectation,
    query: RangeQuery,
) -> Result<RangeList, Failure> {
    share.let_in(shell, || list_once(shell, share, path, expectation, query)).await
}

async fn list_once(
    shell: &Shell,
    share: &share::Found,
    path: &FilePath,
    expectation: &Expectation,
    query: RangeQuery,
) -> Result<RangeList, Failure> {
    let Looked { view, found } = begin(shell, share, path, expectation).await?;
    let node = found.node;
    let NodeKind::File { bytes, body } = node.kind else { return Err(ErrorCode::ResourceNotFound.into()) };
    let before = match query.since {
        None => None,
        Some(generation) => before(view.as_ref(), share, path, &node, generation, query.may_be_renamed).await?,
    };
    let part = match query.range {
        None if bytes == 0 => None,
        None => Some(Part { first: 0, last: bytes - 1 }),
        Some(range) => Some(range.within(bytes)?),
    };
    let Some(Part { first, last }) = part.filter(|part| query.from <= part.last) else {
        return Ok(RangeList { node, listed: Vec::new(), next: None });
    };
    let first = first.max(query.from);
    let mut now = Side::new(share.at, body, first, last);
    let mut then = before.map(|(generation, body)| Side::new(At::Generation(generation), body, first, last));
    // What was written when the snapshot was taken already is no difference, unless all content was replaced since.
    let same_since = before.filter(|(_, then)| *then == body).map(|(generation, _)| generation);

    let mut listed: Vec<Listed> = Vec::new();
    let mut position = first;
    while position <= last {
        let here = now.reaching(view.as_ref(), position).await?.cloned();
        let there = match &mut then {
            Some(then) => then.reaching(view.as_ref(), position).await?.cloned(),
            None => None,
        };
        let step = step(position, last, here.as_ref(), there.as_ref(), same_since);
        if let Some(is_clear) = step.shown {
            let part = Part { first: position, last: step.end };
            let is_full = listed.len() == query.results_max;
            match listed.last_mut() {
                Some(before) if before.is_clear == is_clear && before.part.last + 1 == position => {
                    before.part.last = part.last;
                }
                _ if is_full => {
                    return Ok(RangeList { node, listed, next: Some(position) });
                }
                _ => listed.push(Listed { part, is_clear }),
            }
        }
        position = step.end + 1;
    }
    Ok(RangeList { node, listed, next: None })
}

/// The content of the file in a generation; `None` if it was not there.
async fn before(
    view: &dyn View,
    share: &share::Found,
    path: &FilePath,
    node: &Node,
    generation: u64,
    may_be_renamed: bool,
) -> Result<Option<(u64, u64)>, Failure> {
    if !share::sees(view, generation).await? {
        return Err(ErrorCode::PreviousSnapshotNotFound.into());
    }
    let at = At::Generation(generation);
    let stored = get_at(view, at, key::share::NODE, &node_key(node.id)).await?;
    let Some(then) = stored.map(|stored| Node::decode(&stored.value)).transpose()? else { return Ok(None) };
    if !may_be_renamed {
        let there = find_at(view, at, &share.head, path).await?;
        if there.node().map(|node| node.id) != Some(node.id) {
            return Err(ErrorCode::PreviousSnapshotOperationNotSupported.into());
        }
    }
    match then.kind {
        NodeKind::File { body, .. } => Ok(Some((generation, body))),
        _ => Ok(None),
    }
}

/// The runs of one side, looked at one after another.
struct Side {
    walk: RunWalk,
    run: Option<Run>,
    is_over: bool,
}

impl Side {
    fn new(at: At, body: u64, first: u64, last: u64) -> Side {
        Side { walk: RunWalk::new(at, body, first, last), run: None, is_over: false }
    }

    /// The first run that ends at `position` or later.
    async fn reaching(&mut self, view: &dyn View, position: u64) -> Result<Option<&Run>, Fault> {
        while !self.is_over && self.run.as_ref().is_none_or(|run| run.end < position) {
            self.run = self.walk.next(view).await?;
            self.is_over = self.run.is_none();
        }
        Ok(self.run.as_ref())
    }
}

/// A stretch from a position on in which nothing changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Step {
    end: u64,
    /// Shown, and as cleared or not.
    shown: Option<bool>,
}

fn step(position: u64, last: u64, now: Option<&Run>, then: Option<&Run>, same_since: Option<u64>) -> Step {
    let before_next = |run: Option<&Run>| run.map_or(last, |run| run.begin - 1).min(last);
    match (now, then) {
        (Some(now), _) if now.begin <= position => {
            let is_new = same_since.is_none_or(|generation| now.written > generation);
            Step { end: now.end.min(last), shown: is_new.then_some(false) }
        }
        (now, Some(then)) if then.begin <= position => Step { end: then.end.min(before_next(now)), shown: Some(true) },
        (now, then) => Step { end: before_next(now).min(before_next(then)), shown: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn run((begin, end, written): (u64, u64, u64)) -> Run {
        Run { begin, end, written, bytes: Bytes::new(), slices: Vec::new() }
    }

    /// Runs of both sides as (begin, end, generation); what is shown of ten bytes.
    fn shown(now: &[(u64, u64, u64)], then: &[(u64, u64, u64)], same_since: Option<u64>) -> Vec<(u64, u64, bool)> {
        let reaching = |runs: &[(u64, u64, u64)], position| runs.iter().find(|run| run.1 >= position).copied().map(run);
        let (mut position, mut found) = (0, Vec::new());
        while position <= 9 {
            let (here, there) = (reaching(now, position), reaching(then, position));
            let step = step(position, 9, here.as_ref(), there.as_ref(), same_since);
            assert!(step.end >= position, "it goes on");
            if let Some(is_clear) = step.shown {
                found.push((position, step.end, is_clear));
            }
            position = step.end + 1;
        }
        found
    }

    #[test]
    fn ranges_and_differences() {
        for (now, then, same_since, expected) in [
            (&[][..], &[][..], None, &[][..]),
            (&[(2, 3, 0), (5, 20, 0)], &[], None, &[(2, 3, false), (5, 9, false)]),
            // The same content: what was written later is different, what was there and is not is cleared.
            (&[(2, 3, 1), (4, 5, 2)], &[(2, 5, 1)], Some(1), &[(4, 5, false)]),
            (&[(4, 4, 1)], &[(2, 5, 1)], Some(1), &[(2, 3, true), (5, 5, true)]),
            (&[], &[(0, 9, 0)], Some(0), &[(0, 9, true)]),
            // Other content: everything is different.
            (&[(2, 3, 1)], &[(2, 5, 1)], None, &[(2, 3, false), (4, 5, true)]),
            (&[(0, 0, 3)], &[(8, 9, 0)], Some(2), &[(0, 0, false), (8, 9, true)]),
        ] {
            assert_eq!(shown(now, then, same_since), expected, "{now:?} since {then:?}");
        }
    }
}
