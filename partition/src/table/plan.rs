//! From a filter to the keys that can match it: which rows a query has to read at all.
//!
//! A plan is a set of keys, drawn as spans of PartitionKeys, each with spans of RowKeys. It may hold keys that do not match (the filter
//! is asked again for every row), and never lacks one that does. For each part of a filter two sets are kept, the keys for which it may
//! be true and those for which it may be false, so that `not` is exact where it can be.
//!
//! All spans are half open. No key holds a zero byte, so the key right after `a` is `a\0`, and "from `a` on", "after `a`" and "`a` alone"
//! are all spans.

use super::filter::{Comparison, Filter, Step};
use super::value::Value;

/// Keys from `start` on, before `end`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    pub start: Vec<u8>,
    pub end: Option<Vec<u8>>,
}

impl Span {
    fn all() -> Span {
        Span { start: Vec::new(), end: None }
    }

    fn point(key: &str) -> Span {
        Span { start: key.into(), end: Some(after(key)) }
    }

    fn from(start: Vec<u8>) -> Span {
        Span { start, end: None }
    }

    fn before(end: Vec<u8>) -> Option<Span> {
        (!end.is_empty()).then_some(Span { start: Vec::new(), end: Some(end) })
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && self.end.as_deref().is_none_or(|end| key < end)
    }

    /// The one key in it, if it has room for no other.
    pub fn only(&self) -> Option<&[u8]> {
        let end = self.end.as_deref()?;
        let is_next = end.len() == self.start.len() + 1 && end.ends_with(&[0]) && end.starts_with(&self.start);
        is_next.then_some(&self.start)
    }
}

fn after(key: &str) -> Vec<u8> {
    [key.as_bytes(), &[0]].concat()
}

/// Spans of RowKeys: sorted, apart from each other, none empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rows(Vec<Span>);

impl Rows {
    fn all() -> Rows {
        Rows(vec![Span::all()])
    }

    pub fn spans(&self) -> &[Span] {
        &self.0
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        self.0.iter().any(|span| span.contains(key))
    }
}

/// A set of keys: spans of PartitionKeys, sorted and apart, each with its rows (which are never none).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Keys(Vec<(Span, Rows)>);

/// A set drawn with more spans than this is drawn as one. It then holds more keys than it must, which costs reading and nothing else.
const SPANS_MAX: usize = 256;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Combine {
    Union,
    Intersection,
}

impl Keys {
    pub fn all() -> Keys {
        Keys(vec![(Span::all(), Rows::all())])
    }

    pub fn none() -> Keys {
        Keys::default()
    }

    pub fn one(partition_key: &str, row_key: &str) -> Keys {
        Keys(vec![(Span::point(partition_key), Rows(vec![Span::point(row_key)]))])
    }

    /// This key and all that follow it in the order of the table.
    pub fn from(partition_key: &str, row_key: &str) -> Keys {
        Keys::default()
            .with(Some(Span::point(partition_key)), Rows(vec![Span::from(row_key.into())]))
            .with(Some(Span::from(after(partition_key))), Rows::all())
    }

    /// This key and all that come before it; without a RowKey the whole of its partition as well.
    pub fn up_to(partition_key: &str, row_key: Option<&str>) -> Keys {
        let rows = row_key.map_or_else(Rows::all, |key| Rows(Span::before(after(key)).into_iter().collect()));
        Keys::default()
            .with(Span::before(partition_key.into()), Rows::all())
            .with(Some(Span::point(partition_key)), rows)
    }

    /// Adds what lies behind everything there is.
    fn with(mut self, partitions: Option<Span>, rows: Rows) -> Keys {
        self.0.extend(partitions.map(|partitions| (partitions, rows)));
        self
    }

    fn of_partitions(spans: Vec<Span>) -> Keys {
        Keys(spans.into_iter().map(|span| (span, Rows::all())).collect())
    }

    fn of_rows(spans: Vec<Span>) -> Keys {
        if spans.is_empty() { Keys::none() } else { Keys(vec![(Span::all(), Rows(spans))]) }
    }

    pub fn spans(&self) -> &[(Span, Rows)] {
        &self.0
    }

    pub fn contains(&self, partition_key: &str, row_key: &str) -> bool {
        let (partition_key, row_key) = (partition_key.as_bytes(), row_key.as_bytes());
        self.0.iter().any(|(span, rows)| span.contains(partition_key) && rows.contains(row_key))
    }

    /// Exactly the keys that are in both.
    pub fn and(&self, other: &Keys) -> Keys {
        combine(self, other, Combine::Intersection)
    }

    pub fn or(&self, other: &Keys) -> Keys {
        combine(self, other, Combine::Union)
    }

    /// Only for what a filter is asked about again.
    fn bounded(self) -> Keys {
        let count: usize = self.0.iter().map(|(_, rows)| rows.0.len()).sum();
        match (self.0.first(), self.0.last()) {
            (Some((first, _)), Some((last, _))) if count > SPANS_MAX => {
                Keys::of_partitions(vec![Span { start: first.start.clone(), end: last.end.clone() }])
            }
            _ => self,
        }
    }
}

/// The keys that can match.
pub fn plan(filter: &Filter) -> Keys {
    /// Where it may be true, and where it may be false.
    struct Maybe {
        holds: Keys,
        fails: Keys,
    }
    let mut stack: Vec<Maybe> = Vec::new();
    let pop = |stack: &mut Vec<Maybe>| stack.pop().expect("the parser leaves every operator its operands");
    for step in filter.steps() {
        let maybe = match step {
            Step::Compare { property, comparison, literal } => {
                let draw: Option<fn(Vec<Span>) -> Keys> = match property.as_str() {
                    "PartitionKey" => Some(Keys::of_partitions),
                    "RowKey" => Some(Keys::of_rows),
                    _ => None,
                };
                match (draw, literal) {
                    (Some(draw), Value::String(text)) => {
                        let (holds, fails) = split(*comparison, text);
                        Maybe { holds: draw(holds), fails: draw(fails) }
                    }
                    // Keys are strings, and no string compares with anything else.
                    (Some(_), _) => Maybe { holds: Keys::none(), fails: Keys::all() },
                    (None, _) => Maybe { holds: Keys::all(), fails: Keys::all() },
                }
            }
            Step::Holds { property } => {
                let is_key = matches!(property.as_str(), "PartitionKey" | "RowKey");
                Maybe { holds: if is_key { Keys::none() } else { Keys::all() }, fails: Keys::all() }
            }
            Step::Constant(true) => Maybe { holds: Keys::all(), fails: Keys::none() },
            Step::Constant(false) => Maybe { holds: Keys::none(), fails: Keys::all() },
            Step::Not => {
                let Maybe { holds, fails } = pop(&mut stack);
                Maybe { holds: fails, fails: holds }
            }
            Step::And => {
                let (right, left) = (pop(&mut stack), pop(&mut stack));
                Maybe { holds: left.holds.and(&right.holds).bounded(), fails: left.fails.or(&right.fails).bounded() }
            }
            Step::Or => {
                let (right, left) = (pop(&mut stack), pop(&mut stack));
                Maybe { holds: left.holds.or(&right.holds).bounded(), fails: left.fails.and(&right.fails).bounded() }
            }
        };
        stack.push(maybe);
    }
    pop(&mut stack).holds
}

/// The keys for which a comparison with `text` holds, and those for which it does not.
fn split(comparison: Comparison, text: &str) -> (Vec<Span>, Vec<Span>) {
    let point = vec![Span::point(text)];
    let (less, greater) = (Span::before(text.into()), Span::from(after(text)));
    let apart = less.iter().cloned().chain([greater.clone()]).collect();
    let (less_or_equal, greater_or_equal) = (Span::before(after(text)), Span::from(text.into()));
    let list = |span: Option<Span>| span.into_iter().collect::<Vec<_>>();
    match comparison {
        Comparison::Equal => (point, apart),
        Comparison::NotEqual => (apart, point),
        Comparison::Greater => (vec![greater], list(less_or_equal)),
        Comparison::GreaterOrEqual => (vec![greater_or_equal], list(less)),
        Comparison::Less => (list(less), vec![greater_or_equal]),
        Comparison::LessOrEqual => (list(less_or_equal), vec![greater]),
    }
}

fn combine(left: &Keys, right: &Keys, how: Combine) -> Keys {
    let mut combined: Vec<(Span, Rows)> = Vec::new();
    let spans = |keys: &Keys| keys.0.iter().map(|(span, _)| span.clone()).collect::<Vec<_>>();
    sweep(&spans(left), &spans(right), |span, in_left, in_right| {
        let rows = match (in_left.map(|at| &left.0[at].1), in_right.map(|at| &right.0[at].1), how) {
            (Some(a), Some(b), how) => combine_rows(a, b, how),
            (Some(one), None, Combine::Union) | (None, Some(one), Combine::Union) => one.clone(),
            _ => return,
        };
        if rows.0.is_empty() {
            return;
        }
        match combined.last_mut() {
            Some((last, same)) if *same == rows && last.end.as_ref() == Some(&span.start) => last.end = span.end,
            _ => combined.push((span, rows)),
        }
    });
    Keys(combined)
}

fn combine_rows(left: &Rows, right: &Rows, how: Combine) -> Rows {
    let mut combined: Vec<Span> = Vec::new();
    sweep(&left.0, &right.0, |span, in_left, in_right| {
        let inside = match how {
            Combine::Union => in_left.is_some() || in_right.is_some(),
            Combine::Intersection => in_left.is_some() && in_right.is_some(),
        };
        match combined.last_mut() {
            _ if !inside => {}
            Some(last) if last.end.as_ref() == Some(&span.start) => last.end = span.end,
            _ => combined.push(span),
        }
    });
    Rows(combined)
}

/// Cuts the line at every bound of two lists of spans and tells of each piece in which of them it lies.
fn sweep(left: &[Span], right: &[Span], mut piece: impl FnMut(Span, Option<usize>, Option<usize>)) {
    let mut bounds: Vec<&[u8]> = left
        .iter()
        .chain(right)
        .flat_map(|span| [Some(span.start.as_slice()), span.end.as_deref()])
        .flatten()
        .collect();
    bounds.sort_unstable();
    bounds.dedup();
    let (mut in_left, mut in_right) = (0, 0);
    let find = |spans: &[Span], at: &mut usize, start: &[u8]| {
        while spans.get(*at).is_some_and(|span| span.end.as_deref().is_some_and(|end| end <= start)) {
            *at += 1;
        }
        spans.get(*at).is_some_and(|span| span.start.as_slice() <= start).then_some(*at)
    };
    for (at, start) in bounds.iter().enumerate() {
        let end = bounds.get(at + 1).map(|end| end.to_vec());
        let (l, r) = (find(left, &mut in_left, start), find(right, &mut in_right, start));
        piece(Span { start: start.to_vec(), end }, l, r);
    }
}

#[cfg(test)]
mod tests;
