//! Each kind of damage planted alone, and told in words; a flipped bit anywhere is told or means nothing; nothing is changed.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use engine::Durability::Synced;
use engine::{Batch, BoxFuture, Engine, ExtentSlice, Revision, Source, SourceError, Write};
use fjall::PersistMode;
use tempfile::TempDir;

use super::*;
use crate::Embedded;
use crate::store::{COMMIT_KEY, sweep_key};

#[derive(Default)]
struct Heard(Vec<Finding>);

impl Listener for Heard {
    fn finding(&mut self, finding: Finding) {
        self.0.push(finding);
    }
    fn progress(&mut self, _: &Seen) {}
}

struct Whole(Bytes);

impl Source for Whole {
    fn next(&mut self, bytes_max: usize) -> BoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        let part = (!self.0.is_empty()).then(|| self.0.split_to(self.0.len().min(bytes_max)));
        Box::pin(std::future::ready(Ok(part)))
    }
}

fn group() -> GroupId {
    GroupId(Bytes::from_static(b"group"))
}

fn partition() -> PartitionId {
    PartitionId { group: group(), key: Bytes::from_static(b"p") }
}

fn put(key: &str, slices: Vec<ExtentSlice>) -> Write {
    let value = Bytes::from(format!("value of {key}"));
    Write::Put { family: Family(1), key: Bytes::copy_from_slice(key.as_bytes()), value, slices }
}

/// Records and bodies, some of them in tables by now, closed in order.
fn filled() -> TempDir {
    let dir = directory();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let engine = Embedded::open(Options::new(dir.path())).expect("opens");
    runtime.block_on(async {
        let commit = |writes| {
            let engine: Arc<Embedded> = engine.clone();
            async move { engine.commit(&partition(), Batch { guards: Vec::new(), writes }, Synced).await.expect("written") }
        };
        for number in 0..8u8 {
            let content = Bytes::from(vec![number; 70_000]);
            let pin = engine.write_extent(&mut Whole(content), 70_000).await.expect("written").expect("not empty");
            commit(vec![put(&format!("body {number}"), vec![ExtentSlice::whole(pin.extent())])]).await;
            if number == 4 {
                for keyspace in [&engine.store.records, &engine.store.refs, &engine.store.meta] {
                    keyspace.rotate_memtable_and_wait().expect("a table");
                }
            }
        }
        commit((0..200).map(|number| put(&format!("small {number}"), Vec::new())).collect()).await;
    });
    engine.close().expect("closed");
    drop(engine);
    // A journal is made 64 MiB long, of zeros: a few will do, and are looked through in no time.
    for path in
        files(&dir.path().join("fjall")).into_iter().filter(|path| path.extension().is_some_and(|of| of == "jnl"))
    {
        let journal = OpenOptions::new().read(true).write(true).open(path).expect("opened");
        journal.set_len(recover::end_of_content(&journal).expect("read") + 4096).expect("cut");
    }
    dir
}

/// In memory where the system has such a place: this is not about a disk.
fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a directory for the test")
}

fn look(dir: &Path) -> (Vec<String>, Option<Seen>) {
    let scratch = directory();
    let mut heard = Heard::default();
    let seen = match Inspection::open(dir, scratch.path(), &mut heard) {
        Ok(Some(inspection)) => match inspection.verify(&mut heard) {
            Ok(seen) => Some(seen),
            Err(fault) => {
                heard.finding(Finding::new(fault.to_string()));
                None
            }
        },
        Ok(None) => None,
        Err(error) => {
            heard.finding(Finding::new(error.to_string()));
            None
        }
    };
    assert!(fs::read_dir(scratch.path()).expect("read").next().is_none(), "the scratch directory is gone");
    (heard.0.into_iter().map(|finding| finding.words).collect(), seen)
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("read") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    files(dir).into_iter().map(|path| (path.clone(), fs::read(&path).expect("read"))).collect()
}

fn flip(path: &Path, at: u64, bit: u8) {
    let file = OpenOptions::new().read(true).write(true).open(path).expect("opened");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("read");
    byte[0] ^= 1 << bit;
    file.write_all_at(&byte, at).expect("written");
}

/// All rows and all bodies, as a check reads them.
fn state(dir: &Path) -> Vec<(Bytes, Bytes)> {
    let scratch = directory();
    let opened = Inspection::open(dir, scratch.path(), &mut Heard::default()).expect("opened").expect("readable");
    let snapshot = opened.store.db.snapshot();
    let mut rows = Vec::new();
    for keyspace in [&opened.store.records, &opened.store.refs, &opened.store.meta, &opened.store.fences] {
        for row in snapshot.range::<&[u8], _>(keyspace, ..) {
            let (key, value) = row.into_inner().expect("readable");
            rows.push((Bytes::from(key), Bytes::from(value)));
        }
    }
    rows
}

#[test]
fn a_sound_directory_is_found_sound_and_left_as_it_is() {
    let dir = filled();
    let before = contents(dir.path());
    let (words, seen) = look(dir.path());
    assert_eq!(words, Vec::<String>::new());
    let seen = seen.expect("looked through");
    assert_eq!((seen.records, seen.references, seen.extents, seen.extent_bytes), (208, 8, 8, 560_000));
    assert_eq!((seen.segments, seen.unnamed_bytes), (1, 0));
    assert!(contents(dir.path()) == before, "nothing changed");
}

#[test]
fn a_flipped_bit_anywhere_is_told_or_means_nothing() {
    let dir = filled();
    let sound = state(dir.path());
    let mut state_of_chance = 0x5EED_u64;
    let mut chance = move |below: u64| {
        state_of_chance =
            state_of_chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state_of_chance >> 33) % below
    };
    let (mut told, mut meaningless) = (0, Vec::new());
    for path in files(dir.path()) {
        let content = fs::read(&path).expect("read");
        // Journals are made long, and are zeros behind their end.
        let end = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1);
        let mut places: Vec<u64> = (0..if end > 0 { 12 } else { 0 }).map(|_| chance(end)).collect();
        places.extend((content.len() as u64 > end).then(|| end + chance(content.len() as u64 - end)));
        for at in places {
            let bit = chance(8) as u8;
            flip(&path, at, bit);
            let name = path.strip_prefix(dir.path()).expect("below").display().to_string();
            if look(dir.path()).0.is_empty() {
                assert!(state(dir.path()) == sound, "{name} at {at}, bit {bit}: not told, and something is another");
                meaningless.push(name);
            } else {
                told += 1;
            }
            flip(&path, at, bit);
        }
    }
    assert!(told > 100, "{told} were told");
    // Not told: versions and tables that are not the current ones, the space between the notes, and the number of a batch.
    meaningless.retain(|name| !(name.starts_with("fjall/keyspaces/") || name == "durable" || name.ends_with(".jnl")));
    assert_eq!(meaningless, Vec::<String>::new());
    assert_eq!(look(dir.path()).0, Vec::<String>::new());
}

/// Changes rows where no engine would.
fn plant(dir: &Path, act: impl FnOnce(&Store)) {
    let store = recover::open_store(&Options::new(dir), Opening::Existing).expect("opens");
    act(&store);
    store.db.persist(PersistMode::SyncAll).expect("synced");
}

fn rows_of(keyspace: &fjall::Keyspace) -> Vec<(Vec<u8>, Vec<u8>)> {
    keyspace
        .iter()
        .map(|row| row.into_inner().expect("readable"))
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

/// Plants one thing and expects these words, and no others.
fn check(expected: &[&str], act: impl FnOnce(&Store)) {
    let dir = filled();
    plant(dir.path(), act);
    let (words, _) = look(dir.path());
    assert_eq!(words.len(), expected.len(), "{words:#?}");
    for (words, expected) in words.iter().zip(expected) {
        assert!(words.contains(expected), "{words} instead of {expected}");
    }
}

#[test]
fn every_invariant_is_looked_at() {
    let key = |name: &str| key::record_key(&partition(), Family(1), name.as_bytes());
    check(&["cannot be read"], |store| store.records.insert(key("small 1"), b"short").expect("planted"));
    check(&["of commit 99"], |store| {
        let stored = key::encode_record(Revision(99), &[], b"v");
        store.records.insert(key("small 1"), stored).expect("planted");
    });
    check(&["the key of a record"], |store| {
        let stored = key::encode_record(Revision(1), &[], b"v");
        store.records.insert(b"\x05gro", stored).expect("planted");
    });
    check(&["references do not know of it"], |store| {
        let (key, _) = rows_of(&store.refs).remove(3);
        store.refs.remove(key).expect("planted");
    });
    check(&["not what the record names"], |store| {
        let (key, _) = rows_of(&store.refs).remove(3);
        store.refs.insert(key, key::encode_ref(70_000, [(0, 10)].into_iter())).expect("planted");
    });
    check(&["of a record that is not there"], |store| {
        let (stray, value) = rows_of(&store.refs).remove(3);
        let (address, _) = key::decode_ref_key(&stray).expect("a reference");
        store.refs.insert(key::ref_key(address, &key("nobody")), value).expect("planted");
    });
    check(&["of a record that does not name it"], |store| {
        let (stray, value) = rows_of(&store.refs).remove(3);
        let (address, _) = key::decode_ref_key(&stray).expect("a reference");
        store.refs.insert(key::ref_key(address, &key("small 1")), value).expect("planted");
    });
    check(&["a row that nobody wrote"], |store| store.meta.insert(b"other", b"").expect("planted"));
    check(&["identity"], |store| store.meta.insert(crate::lineage::IDENTITY_KEY, b"x").expect("planted"));
    check(&["highest ever named"], |store| {
        store.meta.insert(crate::lineage::SEGMENT_KEY, 0u64.to_be_bytes()).expect("planted");
    });
    check(&["never deleted"], |store| store.meta.insert(sweep_key(&group()), b"").expect("planted"));
    check(&["nothing will remove them"], |store| store.fences.insert(group().0, b"").expect("planted"));
    check(&["ends with commit 3", "nothing else was looked at"], |store| {
        store.meta.insert(COMMIT_KEY, 3u64.to_be_bytes()).expect("planted");
    });
}

#[test]
fn extents_have_their_place() {
    let extent = |segment, offset, bytes| Address { segment, offset }.extent(bytes);
    // Segment, offset and length of one and the next.
    let cases = [
        (None::<(u64, u32, u32)>, (1, 0, 10), None::<&str>),
        (Some((1, 0, 10)), (1, 14, 10), None),
        (Some((1, 0, 10)), (1, 13, 10), Some("lie over each other")),
        (Some((1, 0, 10)), (1, 0, 10), None),
        (Some((1, 0, 10)), (1, 0, 11), Some("10 bytes by one record and 11 by another")),
        (Some((1, 500, 10)), (2, 0, 10), None),
    ];
    for (last, this, expected) in cases {
        let of = |(segment, offset, bytes)| (Address { segment, offset }, bytes);
        let found = rules::neighbours(last.map(of), of(this));
        assert_eq!(found.is_some(), expected.is_some(), "{last:?} {this:?}: {found:?}");
        assert!(expected.is_none_or(|words| found.is_some_and(|found| found.contains(words))));
    }
    let beyond = ExtentSlice { extent: extent(1, 0, 10), offset: 5, bytes: 6 };
    let place = Place { partition: partition(), family: Family(1), key: Bytes::new() };
    let (_, words) = rules::record(Some(&place), &key::encode_record(Revision(1), &[beyond], b""), 9);
    assert!(words[0].contains("beyond the end"), "{words:?}");
}

#[test]
fn files_that_are_missing_or_in_use_are_told() {
    let dir = filled();
    let segment = files(&dir.path().join("segments")).remove(0);
    let kept = fs::read(&segment).expect("read");
    fs::write(&segment, &kept[..300_000]).expect("cut");
    let (words, _) = look(dir.path());
    assert!(words.len() == 4 && words.iter().all(|words| words.contains(".seg at")), "{words:#?}");
    fs::remove_file(&segment).expect("removed");
    let (words, _) = look(dir.path());
    assert!(words.len() == 1 && words[0].contains("is missing, and records name it"), "{words:#?}");
    fs::write(&segment, kept).expect("written");
    fs::write(dir.path().join("DAMAGED"), "so it is").expect("written");
    assert_eq!(look(dir.path()).0, ["so it is"]);
    fs::remove_file(dir.path().join("DAMAGED")).expect("removed");
    let open = Embedded::open(Options::new(dir.path())).expect("opens");
    assert!(look(dir.path()).0[0].contains("in use by another process"));
    drop(open);
    assert_eq!(look(dir.path()).0, Vec::<String>::new());
    let empty = directory();
    assert!(look(empty.path()).0[0].contains("is no data directory"));
}

#[test]
fn bytes_that_nobody_names_are_counted_and_are_no_damage() {
    let dir = filled();
    let segment = files(&dir.path().join("segments")).remove(0);
    fs::write(segment.with_file_name("00000000000000ff.seg"), [7; 1000]).expect("written");
    let (words, seen) = look(dir.path());
    assert_eq!((words, seen.expect("looked through").unnamed_bytes), (Vec::new(), 1000));
}
