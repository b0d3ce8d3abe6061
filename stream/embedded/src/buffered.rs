//! What was committed and waits for a sync: records that lie over those of fjall, and that every reader sees.
//!
//! A buffered commit stays on the stage of the commit thread (`store.rs`) until the next sync writes it, with all that was
//! staged before and after it, as one fjall batch. A journal without a sync would not do: the system may write it before
//! the bodies it names, and out of order, and fjall may put it into a table at any time.
//!
//! 1. Rows are added (`show`), and go when fjall has them (`clear`): those of the commits that were written, all at once.
//! 2. A reader takes the rows and a snapshot of fjall under one lock (`over`). A batch of rows alone may be in the snapshot or not:
//!    with the rows over it that is one and the same. But a batch with commits that were never shown is more than the rows:
//!    after it was written and before `clear` the snapshot alone counts (`above`), for rows of one commit over records of
//!    the next would be a state that never was. Such a batch is announced (`begin_write`), so that only then the snapshot has
//!    to be asked; while it is written nothing is added.
//! 3. A view stands still: rows that are added later have a higher number than it looks at, and rows that were cleared stay
//!    for those who hold them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;

#[derive(Default)]
pub struct Buffered {
    /// `None` while nothing waits.
    shown: RwLock<Option<Shown>>,
    /// What is shown is being written to fjall.
    is_written: AtomicBool,
}

#[derive(Clone, Default)]
struct Shown {
    rows: Arc<RwLock<Rows>>,
    /// The newest commit among the rows.
    newest: u64,
}

/// By key in `records`: what each commit left there, the oldest first; `None` is a deletion.
type Rows = BTreeMap<Bytes, Vec<(u64, Option<Bytes>)>>;

/// What lies over a snapshot.
pub struct Over(Option<Shown>);

impl Buffered {
    /// A snapshot, taken by `take`, and what lies over it. `number` tells the newest commit that a snapshot shows.
    pub fn over<T, E>(
        &self,
        take: impl FnOnce() -> T,
        number: impl FnOnce(&T) -> Result<u64, E>,
    ) -> Result<(Over, T), E> {
        let shown = read(&self.shown);
        let snapshot = take();
        // Asked after the snapshot was taken, and before `clear` can be over.
        let may_be_in_it = self.is_written.load(Ordering::SeqCst);
        let over = Over(shown.clone());
        drop(shown);
        if over.is_empty() || !may_be_in_it {
            return Ok((over, snapshot));
        }
        let written = number(&snapshot)?;
        Ok((over.above(written), snapshot))
    }

    /// What is shown will be in snapshots from now on, sooner or later.
    pub fn begin_write(&self) {
        self.is_written.store(true, Ordering::SeqCst);
    }

    /// Adds what the commits up to this number left, as one step.
    pub fn show(&self, number: u64, rows: impl Iterator<Item = (Bytes, Option<Bytes>)>) {
        let mut shown = write(&self.shown);
        let shown = shown.get_or_insert_default();
        let mut under = write(&shown.rows);
        for (key, value) in rows {
            let versions = under.entry(key).or_default();
            // A record may come more than once: the last word counts.
            if versions.last().is_some_and(|(at, _)| *at == number) {
                versions.pop();
            }
            versions.push((number, value));
        }
        shown.newest = number;
    }

    /// Fjall has all that commits up to this number left.
    pub fn clear(&self, number: u64) {
        if !self.is_empty() {
            let mut shown = write(&self.shown);
            *shown = shown.take().and_then(|shown| shown.after(number));
        }
        self.is_written.store(false, Ordering::SeqCst);
    }

    pub fn is_empty(&self) -> bool {
        read(&self.shown).is_none()
    }
}

impl Over {
    /// What lies over a snapshot that shows commits up to this one: nothing, if the rows are among them.
    fn above(self, written: u64) -> Over {
        Over(self.0.filter(|shown| shown.newest > written))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// What the record is, if this knows: `Some(None)` if it was deleted.
    pub fn get(&self, key: &[u8]) -> Option<Option<Bytes>> {
        let shown = self.0.as_ref()?;
        shown.version(read(&shown.rows).get(key)?)
    }

    /// Records between the bounds, in order, and deletions; as many as are needed to know the first `records_max` records.
    pub fn range(
        &self,
        start: &Bound<Vec<u8>>,
        end: &Bound<Vec<u8>>,
        records_max: usize,
    ) -> Vec<(Bytes, Option<Bytes>)> {
        let Some(shown) = &self.0 else { return Vec::new() };
        let shared = |bound: &Bound<Vec<u8>>| bound.clone().map(Bytes::from);
        let (mut found, mut records) = (Vec::new(), 0);
        for (key, versions) in read(&shown.rows).range((shared(start), shared(end))) {
            if records >= records_max {
                break;
            }
            if let Some(value) = shown.version(versions) {
                records += usize::from(value.is_some());
                found.push((key.clone(), value));
            }
        }
        found
    }
}

impl Shown {
    /// What later commits left; those who hold the old rows keep them.
    fn after(self, number: u64) -> Option<Shown> {
        if self.newest <= number {
            return None;
        }
        let later = |versions: &Vec<(u64, _)>| versions.partition_point(|(at, _)| *at <= number);
        let rows = read(&self.rows);
        let rows = rows.iter().map(|(key, versions)| (key.clone(), versions[later(versions)..].to_vec()));
        let rows = rows.filter(|(_, versions)| !versions.is_empty()).collect();
        Some(Shown { rows: Arc::new(RwLock::new(rows)), newest: self.newest })
    }

    fn version(&self, versions: &[(u64, Option<Bytes>)]) -> Option<Option<Bytes>> {
        versions.iter().rev().find(|(number, _)| *number <= self.newest).map(|(_, value)| value.clone())
    }
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    // Nothing under these locks panics half way through a change.
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    fn look(buffered: &Buffered, written: u64) -> Over {
        let (over, ()) = buffered.over(|| (), |()| Ok::<_, ()>(written)).expect("the number is known");
        over
    }

    fn all(over: &Over) -> String {
        let rows = over.range(&Bound::Unbounded, &Bound::Unbounded, usize::MAX);
        let words = rows.iter().map(|(key, value)| {
            format!("{}={}", String::from_utf8_lossy(key), String::from_utf8_lossy(value.as_deref().unwrap_or(b"-")))
        });
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn whoever_looks_sees_what_was_shown_then() {
        let buffered = Buffered::default();
        let look = || look(&buffered, 0);
        let before = look();
        buffered.show(5, [(bytes("a"), Some(bytes("1"))), (bytes("b"), Some(bytes("1")))].into_iter());
        let first = look();
        buffered.show(7, [(bytes("a"), None), (bytes("c"), Some(bytes("2")))].into_iter());
        let second = look();
        assert!(!buffered.is_empty());
        buffered.clear(7);
        buffered.show(9, [(bytes("a"), Some(bytes("3")))].into_iter());
        assert_eq!(all(&before), "");
        assert_eq!(all(&first), "a=1 b=1");
        assert_eq!(all(&second), "a=- b=1 c=2");
        assert_eq!(all(&look()), "a=3");
        assert_eq!((first.get(b"c"), second.get(b"a")), (None, Some(None)));
    }

    /// Rows of one commit are not laid over records of the next.
    #[test]
    fn what_was_written_is_not_laid_over_itself() {
        let buffered = Buffered::default();
        buffered.show(5, [(bytes("a"), Some(bytes("1")))].into_iter());
        assert_eq!(all(&look(&buffered, 6)), "a=1", "nothing is being written");
        buffered.begin_write();
        for (written, expected) in [(0, "a=1"), (4, "a=1"), (5, ""), (6, "")] {
            assert_eq!(all(&look(&buffered, written)), expected, "{written}");
        }
        buffered.clear(6);
        buffered.show(7, [(bytes("a"), Some(bytes("2")))].into_iter());
        assert_eq!(all(&look(&buffered, 9)), "a=2", "what was written is over");
    }

    /// Rows that came while others were written stay, and whoever looked before sees what it saw.
    #[test]
    fn what_came_later_stays() {
        let buffered = Buffered::default();
        buffered.show(5, [(bytes("a"), Some(bytes("1"))), (bytes("b"), Some(bytes("1")))].into_iter());
        buffered.show(6, [(bytes("b"), Some(bytes("2"))), (bytes("c"), None)].into_iter());
        let before = look(&buffered, 0);
        buffered.clear(5);
        assert_eq!((all(&before), all(&look(&buffered, 5))), ("a=1 b=2 c=-".into(), "b=2 c=-".into()));
        buffered.clear(6);
        assert!(buffered.is_empty());
    }

    #[test]
    fn a_range_gives_what_is_needed_and_no_more() {
        let buffered = Buffered::default();
        let rows = ["a", "b", "c", "d", "e"].map(|key| (bytes(key), (key != "b").then(|| bytes("1"))));
        buffered.show(1, rows.into_iter());
        let over = look(&buffered, 0);
        let keys = |start: Bound<&str>, end: Bound<&str>, most| {
            let owned = |bound: Bound<&str>| bound.map(|key| key.as_bytes().to_vec());
            let rows = over.range(&owned(start), &owned(end), most);
            rows.iter().map(|(key, _)| String::from_utf8_lossy(key).into_owned()).collect::<String>()
        };
        assert_eq!(keys(Bound::Unbounded, Bound::Unbounded, 2), "abc");
        assert_eq!(keys(Bound::Excluded("a"), Bound::Included("d"), 9), "bcd");
        assert_eq!(keys(Bound::Included("b"), Bound::Excluded("d"), 9), "bc");
        assert_eq!(keys(Bound::Unbounded, Bound::Unbounded, 0), "");
    }
}
