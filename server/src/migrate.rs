//! `lazuli migrate`: a directory's accounts and all they hold, into a cluster.
//!
//! 1. The directory is opened alone, and only read: it stays as it is.
//! 2. An account is entered in the cluster last, after all was read back and counted, so nobody serves half of it. One that is there
//!    already is refused.
//! 3. What the account's names stand for is copied after the names. So what a run left that was broken off is found by them: the next run takes
//!    it away first and begins anew.
//! 4. What is brought are the accounts that are given and those that the directory keeps; the development account only if there is no other.
//! 5. Extents are written once however many records name them.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use contract::Service;
use contract::names::AccountName;
use embedded::{Embedded, Options};
use engine::{
    Batch, BoxFuture, CommitError, Durability, EXTENT_BYTES_MAX, Engine, Extent, ExtentError, ExtentSlice, Family,
    Fault, GroupId, GroupRange, PartitionId, Pin, Row, ScanStart, Source, SourceError, Write,
};
use env::{SystemClock, SystemIds};
use http::account::AccountKey;
use partition::account::{self, Secret, StoredAccount};
use partition::{Shell, directory, key};

use crate::accounts::parse_key;
use crate::cluster::Cluster;
use crate::config::{EngineSettings, Migration, NewAccount};
use crate::progress::{Progress, sized};

/// Rows read at once, and at most so many of one partition are written at once.
const ROWS_AT_ONCE: usize = 256;

pub async fn run(migration: Migration) -> Result<(), String> {
    let Migration { data, accounts, are_given, engine } = migration;
    let EngineSettings::Rados(settings) = engine else {
        return Err(
            "`lazuli migrate` copies a directory into a cluster: say --engine rados and where the cluster is".into()
        );
    };
    let options = Options::new(&data);
    if !data.is_dir() {
        return Err(format!("{} is no directory", data.display()));
    }
    let opening = tokio::task::spawn_blocking(|| Embedded::open(options));
    let from = opening.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    let cluster = Cluster::open(&settings).await?;
    let done = bring_all(from.clone(), &cluster, accounts, are_given).await;
    let closed = cluster.close().await;
    let source_closed = tokio::task::spawn_blocking(move || from.close()).await.map_err(|error| error.to_string())?;
    done.and(closed).and(source_closed.map_err(|fault| fault.to_string()))
}

async fn bring_all(
    from: Arc<Embedded>,
    cluster: &Cluster,
    given: Vec<NewAccount>,
    are_given: bool,
) -> Result<(), String> {
    let source = Shell::open(from, Arc::new(SystemClock), Arc::new(SystemIds::new())).await;
    let source = source.map_err(|fault| format!("the directory: {fault}"))?;
    let kept = account::all(&source).await.map_err(|failure| format!("the directory: {failure:?}"))?;
    let accounts = together(given, are_given, kept)?;
    for new in &accounts {
        let name = new.name.as_str();
        let brought = bring(&source, &cluster.shell, new).await.map_err(|error| format!("{name}: {error}"))?;
        let Brought { removed, copied } = brought;
        if removed > 0 {
            println!("{name}: took away {removed} records that an earlier run had left");
        }
        println!(
            "{name}: {} records with {} bytes, and {} bytes in extents",
            copied.records, copied.value_bytes, copied.slice_bytes
        );
        cluster.ring().await?;
    }
    Ok(())
}

/// Those that are given and those that the directory keeps.
fn together(
    given: Vec<NewAccount>,
    are_given: bool,
    kept: Vec<(AccountName, StoredAccount)>,
) -> Result<Vec<NewAccount>, String> {
    let mut all = if are_given || kept.is_empty() { given } else { Vec::new() };
    for (name, stored) in kept {
        if all.iter().any(|new| new.name == name) {
            return Err(format!(
                "{}: it is given, and is kept in the directory as well: give it no keys",
                name.as_str()
            ));
        }
        let keys = stored.keys.iter().filter_map(|key| AccountKey::parse(key.reveal())).collect();
        all.push(NewAccount { name, keys, settings: stored.settings });
    }
    Ok(all)
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Brought {
    /// Records that an earlier run had left.
    removed: u64,
    copied: Tally,
}

/// How much there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Tally {
    records: u64,
    value_bytes: u64,
    slice_bytes: u64,
}

impl Tally {
    fn count(&mut self, row: &Row) {
        self.records += 1;
        self.value_bytes += row.record.value.len() as u64;
        self.slice_bytes += row.record.slices.iter().map(|slice| slice.bytes).sum::<u64>();
    }

    fn add(&mut self, other: Tally) {
        self.records += other.records;
        self.value_bytes += other.value_bytes;
        self.slice_bytes += other.slice_bytes;
    }
}

/// One account: cleans up, copies, counts, enters.
async fn bring(from: &Shell, to: &Shell, new: &NewAccount) -> Result<Brought, String> {
    let words = |failure: partition::Failure| format!("{failure:?}");
    let there = account::all(to).await.map_err(words)?;
    if there.iter().any(|(name, _)| *name == new.name) {
        return Err("the cluster has this account already; nothing was copied".into());
    }
    // Groups that no name stands for are not brought along.
    directory::finish_deletions(from, &new.name).await.map_err(words)?;
    let fault = |fault: Fault| fault.to_string();
    let removed = clear(to.engine.as_ref(), &new.name).await.map_err(fault)?;

    let (extents, seen, progress) = (HashMap::new(), Tally::default(), Progress::new());
    let mut copy = Copy { from: from.engine.as_ref(), to: to.engine.as_ref(), extents, seen, progress };
    let (mut copied, mut groups) = (Tally::default(), names(&new.name));
    for service in Service::ALL {
        groups.extend(directory::groups(from.engine.as_ref(), service, &new.name).await.map_err(fault)?);
    }
    for group in &groups {
        let tally = copy.group(group).await?;
        let counted = count(to.engine.as_ref(), group).await.map_err(fault)?;
        if counted != tally {
            return Err(format!(
                "{tally:?} were copied of {group:?}, and {counted:?} are there; the account was not entered"
            ));
        }
        copied.add(tally);
    }

    let mut keys = new.keys.iter().map(|key| Secret::new(key.reveal()));
    let keys = [keys.next(), keys.next()].map(|key| key.map_or_else(|| parse_key(None), Ok));
    let [key1, key2] = keys;
    let stored = StoredAccount { keys: [key1?, key2?], settings: new.settings, is_closing: false };
    let entered = account::create(to, &new.name, &stored).await.map_err(words)?;
    entered.map_err(|refused| refused.to_string())?;
    Ok(Brought { removed, copied })
}

/// The groups that hold names and what is kept of the account as a whole.
fn names(account: &AccountName) -> Vec<GroupId> {
    let directories = Service::ALL.map(|service| key::directory_group(service, account));
    [key::account_group(account)].into_iter().chain(directories).collect()
}

/// Takes away what a broken run left of an account that is not entered; tells how many records that was.
async fn clear(engine: &dyn Engine, account: &AccountName) -> Result<u64, Fault> {
    let mut groups = Vec::new();
    for service in Service::ALL {
        groups.extend(directory::groups(engine, service, account).await?);
    }
    // The names go last: by them the rest is found again.
    groups.extend(names(account));
    let mut removed = 0;
    for group in &groups {
        for family in families(group) {
            loop {
                let page = page(engine, group, *family, ScanStart::AtPartition(Bytes::new())).await?;
                if page.rows.is_empty() {
                    break;
                }
                for rows in page.rows.chunk_by(|one, other| one.partition == other.partition) {
                    let delete = |row: &Row| Write::Delete { family: *family, key: row.key.clone() };
                    commit(engine, group, &rows[0].partition, rows.iter().map(delete).collect()).await?;
                    removed += rows.len() as u64;
                }
            }
        }
    }
    Ok(removed)
}

async fn count(engine: &dyn Engine, group: &GroupId) -> Result<Tally, Fault> {
    let mut tally = Tally::default();
    for family in families(group) {
        let mut start = Some(ScanStart::AtPartition(Bytes::new()));
        while let Some(at) = start.take() {
            let page = page(engine, group, *family, at).await?;
            page.rows.iter().for_each(|row| tally.count(row));
            start = next(&page);
        }
    }
    Ok(tally)
}

fn families(group: &GroupId) -> &'static [Family] {
    key::kind(group).map_or(&[], key::GroupKind::families)
}

async fn page(engine: &dyn Engine, group: &GroupId, family: Family, start: ScanStart) -> Result<engine::Page, Fault> {
    let range = GroupRange { group: group.clone(), family, start, before_partition: None };
    engine.scan(&range, ROWS_AT_ONCE).await
}

fn next(page: &engine::Page) -> Option<ScanStart> {
    let last = page.rows.last().filter(|_| page.more)?;
    Some(ScanStart::After { partition: last.partition.clone(), key: last.key.clone() })
}

async fn commit(engine: &dyn Engine, group: &GroupId, partition: &Bytes, writes: Vec<Write>) -> Result<(), Fault> {
    let partition = PartitionId { group: group.clone(), key: partition.clone() };
    match engine.commit(&partition, Batch { guards: Vec::new(), writes }, Durability::Synced).await {
        Ok(_) => Ok(()),
        Err(CommitError::Fault(fault)) => Err(fault),
        Err(other) => Err(Fault::Other {
            doing: "writing what was copied".into(),
            detail: format!("{other:?}: it was changed meanwhile"),
        }),
    }
}

/// Copies the groups of one account.
struct Copy<'a> {
    from: &'a dyn Engine,
    to: &'a dyn Engine,
    /// Those that were written, by what they were. Some 50 bytes each: a hundred megabytes for some eight terabytes.
    extents: HashMap<u128, Extent>,
    /// Of all groups so far.
    seen: Tally,
    progress: Progress,
}

impl Copy<'_> {
    async fn group(&mut self, group: &GroupId) -> Result<Tally, String> {
        let mut tally = Tally::default();
        for family in families(group) {
            let mut start = Some(ScanStart::AtPartition(Bytes::new()));
            while let Some(at) = start.take() {
                let page = page(self.from, group, *family, at).await.map_err(|fault| fault.to_string())?;
                start = next(&page);
                page.rows.iter().for_each(|row| tally.count(row));
                page.rows.iter().for_each(|row| self.seen.count(row));
                let (seen, extents) = (self.seen, self.extents.len() as u64);
                self.progress.at(seen.records + 100 * extents, || {
                    format!("{} records, {} in bodies", seen.records, sized(seen.slice_bytes))
                });
                for rows in page.rows.chunk_by(|one, other| one.partition == other.partition) {
                    self.rows(group, *family, rows).await.map_err(|fault| fault.to_string())?;
                }
            }
        }
        Ok(tally)
    }

    /// Rows of one partition.
    async fn rows(&mut self, group: &GroupId, family: Family, rows: &[Row]) -> Result<(), Fault> {
        let partition = PartitionId { group: group.clone(), key: rows[0].partition.clone() };
        // Keeps what was written until a record names it.
        let (mut writes, mut pins) = (Vec::with_capacity(rows.len()), Vec::new());
        for row in rows {
            let slices = match row.record.slices.is_empty() {
                true => Vec::new(),
                false => self.slices(&partition, family, &row.key, &mut pins).await?,
            };
            writes.push(Write::Put { family, key: row.key.clone(), value: row.record.value.clone(), slices });
        }
        commit(self.to, group, &partition.key, writes).await
    }

    /// What a record names, as the cluster has it. A view is open while extents are pinned, so that none is moved away.
    async fn slices(
        &mut self,
        partition: &PartitionId,
        family: Family,
        key: &Bytes,
        pins: &mut Vec<Pin>,
    ) -> Result<Vec<ExtentSlice>, Fault> {
        let view = self.from.view(partition).await?;
        let record = view.get(family, key).await?;
        let record = record.ok_or_else(|| Fault::Other {
            doing: "reading a record again".into(),
            detail: "somebody else changes the directory".into(),
        })?;
        let mut slices = Vec::with_capacity(record.slices.len());
        for slice in record.slices {
            let extent = match self.extents.get(&slice.extent.id) {
                Some(extent) => *extent,
                None => {
                    let pin = self.extent(slice.extent).await?;
                    let extent = pin.extent();
                    self.extents.insert(slice.extent.id, extent);
                    pins.push(pin);
                    extent
                }
            };
            slices.push(ExtentSlice { extent, ..slice });
        }
        Ok(slices)
    }

    async fn extent(&self, extent: Extent) -> Result<Pin, Fault> {
        let _pin = self.from.pin(extent);
        let mut source = Whole { engine: self.from, rest: ExtentSlice::whole(extent), piece: Bytes::new() };
        let written = self.to.write_extent(&mut source, EXTENT_BYTES_MAX).await.map_err(|error| match error {
            ExtentError::Fault(fault) => fault,
            ExtentError::Source(SourceError(error)) => {
                Fault::Other { doing: "reading an extent".into(), detail: error.to_string() }
            }
        })?;
        let whole = written.filter(|pin| pin.extent().bytes == extent.bytes);
        whole.ok_or_else(|| Fault::Corrupt { what: "an extent shorter than it was".into() })
    }
}

/// An extent's bytes.
struct Whole<'a> {
    engine: &'a dyn Engine,
    rest: ExtentSlice,
    /// Read and not given yet.
    piece: Bytes,
}

impl Source for Whole<'_> {
    fn next(&mut self, bytes_max: usize) -> BoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async move {
            if self.piece.is_empty() {
                if self.rest.bytes == 0 {
                    return Ok(None);
                }
                self.piece = self.engine.read_extent(self.rest).await.map_err(|fault| SourceError(Box::new(fault)))?;
                let read = self.piece.len() as u64;
                (self.rest.offset, self.rest.bytes) = (self.rest.offset + read, self.rest.bytes - read);
            }
            Ok(Some(self.piece.split_to(bytes_max.min(self.piece.len()))))
        })
    }
}

#[cfg(test)]
mod tests;
