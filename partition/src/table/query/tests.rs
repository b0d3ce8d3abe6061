use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use contract::names::{AccountName, TableName};
use engine::around::Around;
use engine::memory::MemoryEngine;
use engine::{BoxFuture, Engine, Family, PartitionId, Revision, View};
use env::{ScriptedClock, ScriptedIds, Timestamp};

use super::*;
use crate::table::entity::{Action, Change, Expected, Transaction, transact};
use crate::table::tables::{self, CreateTable};
use crate::table::value::{EntityKey, Properties, Value};

/// Counts the rows that leave the engine.
struct Counting {
    inner: MemoryEngine,
    rows: Arc<AtomicUsize>,
}

struct CountingView {
    inner: Box<dyn View>,
    rows: Arc<AtomicUsize>,
}

impl View for CountingView {
    fn revision(&self) -> Revision {
        self.inner.revision()
    }

    fn get<'a>(&'a self, family: Family, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Record>, Fault>> {
        Box::pin(async move {
            let got = self.inner.get(family, key).await;
            self.rows.fetch_add(got.iter().flatten().count(), Ordering::Relaxed);
            got
        })
    }

    fn scan<'a>(
        &'a self,
        family: Family,
        range: &'a KeyRange,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<(Bytes, Record)>, Fault>> {
        Box::pin(async move {
            let got = self.inner.scan(family, range, limit).await;
            self.rows.fetch_add(got.iter().flatten().count(), Ordering::Relaxed);
            got
        })
    }
}

impl Around for Counting {
    fn inner(&self) -> &dyn Engine {
        &self.inner
    }

    fn view<'a>(&'a self, partition: &'a PartitionId) -> BoxFuture<'a, Result<Box<dyn View>, Fault>> {
        Box::pin(async move {
            let inner = self.inner.view(partition).await?;
            Ok(Box::new(CountingView { inner, rows: self.rows.clone() }) as Box<dyn View>)
        })
    }

    fn scan<'a>(&'a self, range: &'a GroupRange, limit: usize) -> BoxFuture<'a, Result<engine::Page, Fault>> {
        Box::pin(async move {
            let page = self.inner.scan(range, limit).await?;
            self.rows.fetch_add(page.rows.len(), Ordering::Relaxed);
            Ok(page)
        })
    }
}

struct Store {
    shell: Shell,
    table: Found,
    rows: Arc<AtomicUsize>,
}

fn key(text: &str) -> EntityKey {
    EntityKey::parse(text).expect("a key")
}

impl Store {
    async fn new() -> Store {
        let rows = Arc::new(AtomicUsize::new(0));
        let engine = Arc::new(Counting { inner: MemoryEngine::new(), rows: rows.clone() });
        let start = Timestamp::parse_iso8601("2026-01-02T03:04:05Z").expect("a time");
        let clock = Arc::new(ScriptedClock::at(start));
        let shell = Shell::open(engine, clock, Arc::new(ScriptedIds::default())).await.expect("opens");
        let account = AccountName::parse("dev").expect("a name");
        let name = TableName::parse("People").expect("a name");
        shell.execute(&CreateTable::new(&account, &name)).await.expect("created");
        let table = tables::find(&shell, &account, &name).await.expect("found");
        Store { shell, table, rows }
    }

    async fn put(&self, partition_key: &str, rows: &[(&str, i32)]) {
        let changes = rows.iter().map(|(row, n)| Change {
            row_key: key(row),
            action: Action::InsertOrReplace,
            properties: Properties::parse(vec![("n".into(), Value::Int32(*n))]).expect("right"),
        });
        let transaction = Transaction::new(&self.table, key(partition_key), changes.collect()).expect("no row twice");
        transact(&self.shell, &self.table, &transaction).await.expect("done").expect("nothing refused");
    }

    async fn ask(&self, filter: &str, within: Keys, results_max: usize) -> Page {
        let filter = (!filter.is_empty()).then(|| Filter::parse(filter).expect("a filter"));
        query(&self.shell, &self.table, &Query { filter, within, results_max }).await.expect("a page")
    }

    /// What is found over all pages, and how many rows left the engine. The table's own record is not counted.
    async fn all(&self, filter: &str, within: Keys, results_max: usize) -> (Vec<String>, usize) {
        let before = self.rows.load(Ordering::Relaxed);
        let (mut found, mut pages, mut rest) = (Vec::new(), 0, within.clone());
        loop {
            let page = self.ask(filter, rest, results_max).await;
            assert!(page.entities.len() <= results_max);
            pages += 1;
            found.extend(page.entities.iter().map(|e| format!("{}/{}", e.partition_key, e.row_key)));
            match page.next {
                Some((partition_key, row_key)) => rest = within.and(&Keys::from(&partition_key, &row_key)),
                None => return (found, self.rows.load(Ordering::Relaxed) - before - pages),
            }
        }
    }
}

#[tokio::test]
async fn only_the_planned_rows_are_read() {
    let store = Store::new().await;
    let names: Vec<String> = (0..100).map(|n| format!("{n:03}")).collect();
    for partition in 0..50 {
        let rows: Vec<(&str, i32)> = names.iter().enumerate().map(|(n, name)| (name.as_str(), n as i32)).collect();
        store.put(&format!("p{partition:02}"), &rows).await;
    }
    for (filter, found, read) in [
        ("PartitionKey eq 'p07' and RowKey eq '042'", 1, 1),
        ("PartitionKey eq 'p07' and RowKey eq '042' and n eq 42", 1, 1),
        ("PartitionKey eq 'p07' and RowKey eq '042' and n eq 43", 0, 1),
        ("PartitionKey eq 'p07' and RowKey eq 'none'", 0, 0),
        ("PartitionKey eq 'none'", 0, 0),
        ("PartitionKey eq 'p07'", 100, 100),
        ("PartitionKey eq 'p07' and n lt 10", 10, 100),
        ("PartitionKey eq 'p07' and RowKey ge '010' and RowKey lt '020'", 10, 10),
        ("PartitionKey eq 'p07' and RowKey gt '010' and RowKey le '020'", 10, 10),
        ("PartitionKey eq 'p07' and RowKey ge '010' and RowKey lt '020' and n eq 15", 1, 10),
        ("PartitionKey eq 'p07' and (RowKey eq '001' or RowKey eq '099')", 2, 2),
        ("(PartitionKey eq 'p07' and RowKey eq '001') or (PartitionKey eq 'p30' and RowKey lt '005')", 6, 6),
        ("PartitionKey eq 'p07' or PartitionKey eq 'p08'", 200, 200),
        ("PartitionKey eq 'p07' and not (RowKey ge '005')", 5, 5),
        ("PartitionKey eq 5", 0, 0),
        ("false", 0, 0),
    ] {
        assert_eq!(
            store.all(filter, Keys::all(), 1000).await,
            (store.all(filter, Keys::all(), 7).await.0, read),
            "{filter}"
        );
        assert_eq!(store.all(filter, Keys::all(), 1000).await.0.len(), found, "{filter}");
    }
    // A range of partitions reads that range: some rows twice, because a partition is shown in one state.
    let (found, read) = store.all("PartitionKey ge 'p10' and PartitionKey lt 'p12'", Keys::all(), 1000).await;
    assert_eq!(found.len(), 200);
    assert!(read <= 2 * 200, "{read}");
    let (found, read) = store.all("n eq 1", Keys::all(), 1000).await;
    assert_eq!(found.len(), 50);
    assert!(read <= 2 * 5000, "{read}");
    // A page of one costs a few rows.
    let before = store.rows.load(Ordering::Relaxed);
    assert_eq!(store.ask("", Keys::all(), 1).await.entities.len(), 1);
    assert!(store.rows.load(Ordering::Relaxed) - before < 10);
}

/// A point read and a write cost the same in a table of ten and in one of ten thousand.
#[tokio::test]
async fn points_do_not_feel_the_size() {
    let store = Store::new().await;
    let mut costs = Vec::new();
    for size in [10, 10_000] {
        let names: Vec<String> = (0..size).map(|n| format!("{n:05}")).collect();
        for chunk in names.chunks(100) {
            store.put("p", &chunk.iter().map(|name| (name.as_str(), 1)).collect::<Vec<_>>()).await;
        }
        let before = store.rows.load(Ordering::Relaxed);
        crate::table::entity::get(&store.shell, &store.table, &key("p"), &key("00005")).await.expect("there");
        store.put("p", &[("00005", 2)]).await;
        store.put("p", &[("fresh", 2)]).await;
        let delete =
            Change { row_key: key("fresh"), action: Action::Delete(Expected::Any), properties: Properties::default() };
        let transaction = Transaction::new(&store.table, key("p"), vec![delete]).expect("one");
        transact(&store.shell, &store.table, &transaction).await.expect("done").expect("deleted");
        costs.push(store.rows.load(Ordering::Relaxed) - before);
    }
    assert_eq!(costs[0], costs[1]);
}

/// Bounded work: a scan that finds nothing still ends its page, and goes on where it was.
#[tokio::test]
async fn a_page_ends_although_nothing_matched() {
    let store = Store::new().await;
    let names: Vec<String> = (0..30_000).map(|n| format!("{n:05}")).collect();
    for chunk in names.chunks(1000) {
        store.put("p", &chunk.iter().map(|name| (name.as_str(), 1)).collect::<Vec<_>>()).await;
    }
    let page = store.ask("n eq 2", Keys::all(), 1000).await;
    assert_eq!((page.entities.len(), page.next), (0, Some(("p".into(), "20000".into()))));
    let rest = store.ask("n eq 2", Keys::from("p", "20000"), 1000).await;
    assert_eq!((rest.entities.len(), rest.next), (0, None));
}

/// Rows come and go between pages: an unchanged row is shown once, whatever happens to the row the page ended at.
#[tokio::test]
async fn tokens_outlive_their_rows() {
    let store = Store::new().await;
    for partition in ["a", "b", "c"] {
        store.put(partition, &[("1", 1), ("3", 1), ("5", 1)]).await;
    }
    let first = store.ask("", Keys::all(), 4).await;
    assert_eq!(first.next, Some(("b".into(), "3".into())));
    let delete = Change { row_key: key("3"), action: Action::Delete(Expected::Any), properties: Properties::default() };
    let transaction = Transaction::new(&store.table, key("b"), vec![delete]).expect("one");
    transact(&store.shell, &store.table, &transaction).await.expect("done").expect("deleted");
    store.put("b", &[("2", 1), ("4", 1)]).await;
    let (rest, _) = store.all("", Keys::from("b", "3"), 2).await;
    assert_eq!(rest, ["b/4", "b/5", "c/1", "c/3", "c/5"]);
}

/// Every page size, every window: the pages together are what is there, in order.
#[tokio::test]
async fn pages_add_up() {
    let store = Store::new().await;
    let mut model: BTreeMap<(String, String), i32> = BTreeMap::new();
    let mut state = 11u64;
    for _ in 0..300 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (partition, row, n) =
            (format!("{}", state >> 60), format!("{}", (state >> 40) % 40), (state >> 33) as i32 % 3);
        store.put(&partition, &[(&row, n)]).await;
        model.insert((partition, row), n);
    }
    let windows = [
        Keys::all(),
        Keys::from("3", "2"),
        Keys::up_to("5", Some("2")),
        Keys::from("12", "").and(&Keys::up_to("7", None)),
        Keys::one("5", "5"),
    ];
    for window in &windows {
        for (filter, wanted) in [("", None), ("n eq 1", Some(1)), ("n eq 1 or n eq 7", Some(1))] {
            let expected: Vec<String> = model
                .iter()
                .filter(|((pk, rk), n)| window.contains(pk, rk) && wanted.is_none_or(|wanted| wanted == **n))
                .map(|((pk, rk), _)| format!("{pk}/{rk}"))
                .collect();
            for results_max in [1, 2, 3, 7, 50, 1000] {
                assert_eq!(store.all(filter, window.clone(), results_max).await.0, expected, "{filter} {results_max}");
            }
        }
    }
}
