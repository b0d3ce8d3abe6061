//! Find Blobs by Tags.
//!
//! TAGGED holds the tags of every blob that has some, in the blob's own partition, and changes in the same commit as the blob's head:
//! what a search finds is never behind. A search walks these records and no others, so it costs what is tagged, not what is stored; a
//! match is looked up before it is shown. Past versions are not in TAGGED: a search that wants them walks the blobs that have a past, too.
//!
//! A page ends when it is full, and also when it has looked at so much; where it ended it says where to go on.

use std::collections::VecDeque;
use std::ops::Bound;

use bytes::Bytes;
use contract::ErrorCode;
use contract::names::{AccountName, BlobName, ContainerName};
use engine::{Engine, Family, Fault, GroupId, GroupRange, KeyRange, PartitionId, Row, ScanStart, Write};
use env::Timestamp;

use super::container::{self, Found};
use super::state::{KEY, PastId, load_head};
use crate::directory;
use crate::execute::{Failure, Reader, Shell};
use crate::key::{self, container as family};
use crate::list::{Entry, Listed, Listing};
use crate::record::past::PastBlob;
use crate::record::{BlobHead, ContainerHead, corrupt, tags as record};
use crate::tags::{TagExpression, Tags};

/// What the index is told when a blob's tags change.
pub(super) fn index(before: &[(String, String)], after: &[(String, String)]) -> Option<Write> {
    match (before == after, after.is_empty()) {
        (true, _) => None,
        (false, true) => Some(Write::Delete { family: family::TAGGED, key: KEY }),
        (false, false) => {
            Some(Write::Put { family: family::TAGGED, key: KEY, value: record::encode(after), slices: Vec::new() })
        }
    }
}

/// Blobs that a page may look at, and containers it may open.
const BLOBS_AT_ONCE: usize = 20_000;
const CONTAINERS_AT_ONCE: usize = 2_000;
/// Rows asked of the engine at once.
const SCAN_ROWS: usize = 500;

/// What to find, and where to go on.
#[derive(Clone, Debug)]
pub struct Search {
    pub expression: TagExpression,
    pub start: Position,
    pub results_max: usize,
    /// Earlier versions, too.
    pub versions: bool,
}

/// The first state to look at.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Position {
    pub container: String,
    pub blob: String,
    /// In ticks.
    pub version: u64,
}

/// A state that matches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hit {
    pub container: String,
    pub blob: String,
    pub tags: Tags,
    pub version: Option<u64>,
    pub is_current: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hits {
    pub hits: Vec<Hit>,
    pub next: Option<Position>,
}

/// In one container.
pub async fn in_container(
    shell: &Shell,
    found: &Found,
    name: &ContainerName,
    search: &Search,
) -> Result<Hits, Failure> {
    let mut page = Pages::new(search);
    let next = page.walk(shell, &found.group, name.as_str(), &search.start).await?;
    found.still_there(shell).await?;
    Ok(Hits { hits: page.hits, next })
}

/// In all containers of an account, in the order of their names.
pub async fn in_account(shell: &Shell, account: &AccountName, search: &Search) -> Result<Hits, Failure> {
    let mut page = Pages::new(search);
    let mut start = search.start.container.clone();
    let mut opened = 0;
    if let Some(only) = search.expression.container() {
        let wanted = search.expression.wants_container(only) && start.as_str() <= only;
        let next = if wanted { page.open(shell, account, only).await? } else { None };
        return Ok(Hits { hits: page.hits, next });
    }
    loop {
        let listing = Listing { prefix: String::new(), delimiter: None, start, results_max: SCAN_ROWS };
        let listed: Listed<ContainerHead> = directory::list(shell, account, &listing).await?;
        for entry in listed.entries {
            let Entry::Item { name, .. } = entry else { continue };
            if opened == CONTAINERS_AT_ONCE {
                return Ok(Hits { hits: page.hits, next: Some(Position { container: name, ..Position::default() }) });
            }
            opened += 1;
            if let Some(next) = page.open(shell, account, &name).await? {
                return Ok(Hits { hits: page.hits, next: Some(next) });
            }
        }
        match listed.next {
            Some(next) => start = next,
            None => return Ok(Hits { hits: page.hits, next: None }),
        }
    }
}

/// A page as it fills.
struct Pages<'a> {
    search: &'a Search,
    hits: Vec<Hit>,
    blobs_left: usize,
}

impl<'a> Pages<'a> {
    fn new(search: &'a Search) -> Self {
        Pages { search, hits: Vec::new(), blobs_left: BLOBS_AT_ONCE }
    }

    /// Looks into a container of the account. One that goes away meanwhile has nothing to show.
    async fn open(&mut self, shell: &Shell, account: &AccountName, name: &str) -> Result<Option<Position>, Failure> {
        let gone = |failure: &Failure| matches!(failure, Failure::Refused(refusal) if refusal.code == ErrorCode::ContainerNotFound);
        let Ok(parsed) = ContainerName::parse(name) else { return Ok(None) };
        let found = match container::find(shell, account, &parsed).await {
            Err(failure) if gone(&failure) => return Ok(None),
            found => found?,
        };
        let first = Position { container: name.to_string(), ..Position::default() };
        let start = if self.search.start.container == name { &self.search.start } else { &first };
        let before = self.hits.len();
        let next = self.walk(shell, &found.group, name, start).await?;
        if self.hits.len() == before && next.is_none() {
            return Ok(None);
        }
        match found.still_there(shell).await {
            Err(failure) if gone(&failure) => {
                self.hits.truncate(before);
                Ok(None)
            }
            still => still.map(|()| next),
        }
    }

    /// Where to go on, if the page ended before the container did.
    async fn walk(
        &mut self,
        shell: &Shell,
        group: &GroupId,
        container: &str,
        start: &Position,
    ) -> Result<Option<Position>, Failure> {
        let (engine, now) = (shell.engine.as_ref(), shell.clock.now());
        let mut tagged = Rows::new(engine, group, family::TAGGED, &start.blob);
        let mut past = Rows::new(engine, group, family::HAS_PAST, &start.blob);
        past.more &= self.search.versions;
        loop {
            let name = match (tagged.peek().await?, past.peek().await?) {
                (None, None) => return Ok(None),
                (Some(one), None) | (None, Some(one)) => one.partition.clone(),
                (Some(one), Some(other)) => one.partition.clone().min(other.partition.clone()),
            };
            let (tags, has_past) = (tagged.take(&name), past.take(&name).is_some());
            let blob = String::from_utf8(name.to_vec()).map_err(|_| corrupt("a name", &name))?;
            let position = |version| Some(Position { container: container.to_string(), blob: blob.clone(), version });
            if self.blobs_left == 0 {
                return Ok(position(0));
            }
            self.blobs_left -= 1;
            let may_match = match &tags {
                Some(row) => self.search.expression.holds(&record::decode(&row.record.value)?),
                None => false,
            };
            if !may_match && !has_past {
                continue;
            }
            for (ticks, is_current, head) in states(shell, group, &blob, has_past, now).await? {
                let is_before = blob == start.blob && ticks < start.version;
                if is_before || !self.search.expression.holds(&head.tags) {
                    continue;
                }
                if self.hits.len() == self.search.results_max {
                    return Ok(position(ticks));
                }
                let tags = head.tags.into_iter().filter(|(key, _)| self.search.expression.names(key)).collect();
                let (container, blob) = (container.to_string(), blob.clone());
                self.hits.push(Hit { container, blob, tags, version: head.version, is_current });
            }
        }
    }
}

/// The states of a blob that can be found, oldest first: their ids, whether it is the current one, their heads.
async fn states(
    shell: &Shell,
    group: &GroupId,
    blob: &str,
    has_past: bool,
    now: Timestamp,
) -> Result<Vec<(u64, bool, BlobHead)>, Failure> {
    let Ok(name) = BlobName::parse(blob) else { return Ok(Vec::new()) };
    let partition = key::blob_partition(group, &name);
    shell.steadily(&partition, || states_in(shell, &partition, has_past, now)).await
}

async fn states_in(
    shell: &Shell,
    partition: &PartitionId,
    has_past: bool,
    now: Timestamp,
) -> Result<Vec<(u64, bool, BlobHead)>, Failure> {
    let view = shell.engine.view(partition).await?;
    let reader = Reader::committed(view.as_ref());
    let mut states = Vec::new();
    if has_past {
        let all = KeyRange { start: Bound::Unbounded, end: Bound::Unbounded };
        for (key, record) in reader.scan(family::PAST, &all, usize::MAX).await? {
            let id = PastId::parse(&key).ok_or_else(|| corrupt("the key of a past state", &key))?;
            let past = PastBlob::decode(&record.value)?;
            if id.is_version && past.deleted.is_none() {
                states.push((id.ticks, false, past.head));
            }
        }
    }
    if let Some(head) = load_head(&reader).await?.filter(|head| head.is_there(now)) {
        states.push((head.version.unwrap_or(head.etag.0), true, head));
    }
    Ok(states)
}

/// The records of a family across a container, a page ahead.
struct Rows<'a> {
    engine: &'a dyn Engine,
    range: GroupRange,
    page: VecDeque<Row>,
    more: bool,
}

impl<'a> Rows<'a> {
    fn new(engine: &'a dyn Engine, group: &GroupId, family: Family, start: &str) -> Self {
        let start = ScanStart::AtPartition(Bytes::copy_from_slice(start.as_bytes()));
        let range = GroupRange { group: group.clone(), family, start, before_partition: None };
        Rows { engine, range, page: VecDeque::new(), more: true }
    }

    async fn peek(&mut self) -> Result<Option<&Row>, Fault> {
        while self.page.is_empty() && self.more {
            let page = self.engine.scan(&self.range, SCAN_ROWS).await?;
            self.more = page.more && !page.rows.is_empty();
            if let Some(Row { partition, key, .. }) = page.rows.last() {
                self.range.start = ScanStart::After { partition: partition.clone(), key: key.clone() };
            }
            self.page = page.rows.into();
        }
        Ok(self.page.front())
    }

    /// The row of this partition, if it is the next.
    fn take(&mut self, partition: &Bytes) -> Option<Row> {
        self.page.front().filter(|row| row.partition == *partition)?;
        self.page.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_follows_the_tags() {
        let tags = |text: &str| text.chars().map(|c| (c.to_string(), String::new())).collect::<Tags>();
        for (before, after, written) in
            [("", "", None), ("a", "a", None), ("", "a", Some(true)), ("a", "ab", Some(true)), ("a", "", Some(false))]
        {
            let write = index(&tags(before), &tags(after)).map(|write| matches!(write, Write::Put { .. }));
            assert_eq!(write, written, "{before} {after}");
        }
    }
}
