//! What is damaged, foreign or in use is told in words; nothing is given back that was not written.

mod common;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use common::*;
use engine::Durability::Synced;
use engine::{CommitError, Engine, ExtentSlice, Fault};
use lazuli_embedded::{Durability, Embedded, OpenError, Options};

fn refusal(options: Options) -> String {
    match Embedded::open(options) {
        Ok(_) => panic!("the directory opened"),
        Err(error) => error.to_string(),
    }
}

fn only_segment(dir: &Path) -> PathBuf {
    let mut found: Vec<PathBuf> =
        fs::read_dir(dir.join("segments")).expect("segments").map(|entry| entry.expect("an entry").path()).collect();
    assert_eq!(found.len(), 1);
    found.remove(0)
}

fn flip(path: &Path, at: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).expect("opened");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("read");
    byte[0] ^= 0x10;
    file.write_all_at(&byte, at).expect("written");
}

#[test]
fn a_directory_in_use_is_refused() {
    let dir = directory();
    let engine = Embedded::open(Options::new(dir.path())).expect("opens");
    let error = Embedded::open(Options::new(dir.path())).err().expect("refused");
    assert!(matches!(&error, OpenError::Locked { .. }));
    let words = error.to_string();
    assert!(
        words.contains("in use by another process") && words.contains(&dir.path().display().to_string()),
        "{words}"
    );
    drop(engine);
    Embedded::open(Options::new(dir.path())).expect("opens when the other is gone");
}

#[test]
fn a_newer_format_and_a_foreign_directory_are_refused() {
    let dir = directory();
    drop(Embedded::open(Options::new(dir.path())).expect("opens"));
    let format = dir.path().join("FORMAT");
    assert_eq!(fs::read_to_string(&format).expect("read"), "lazuli embedded 1\n");
    fs::write(&format, "lazuli embedded 2\n").expect("written");
    let words = refusal(Options::new(dir.path()));
    assert!(words.contains("format 2") && words.contains("FORMAT") && words.contains("newer program"), "{words}");
    fs::write(&format, "something else").expect("written");
    assert!(refusal(Options::new(dir.path())).contains("not a format this program knows"));
    fs::remove_file(&format).expect("removed");
    assert!(refusal(Options::new(dir.path())).contains("is not empty and has no FORMAT"));

    let foreign = directory();
    fs::write(foreign.path().join("holiday.jpg"), "").expect("written");
    let words = refusal(Options::new(foreign.path()));
    assert!(words.contains("holiday.jpg") && words.contains("empty directory"), "{words}");
}

#[test]
fn a_creation_that_was_cut_off_begins_anew() {
    let dir = directory();
    fs::write(dir.path().join("CREATING"), "").expect("written");
    fs::create_dir(dir.path().join("fjall")).expect("made");
    fs::write(dir.path().join("fjall/0.jnl"), "half").expect("written");
    let engine = Embedded::open(Options::new(dir.path())).expect("opens");
    runtime().block_on(commit(&engine, "p", [put("k", "v", vec![])]));
    assert!(!dir.path().join("CREATING").exists());
}

#[test]
fn a_path_that_cannot_be_used_is_told() {
    let dir = directory();
    let file = dir.path().join("file");
    fs::write(&file, "").expect("written");
    assert!(refusal(Options::new(file.join("below"))).contains("file"));
}

#[test]
fn a_full_disk_refuses_writes_and_says_so_at_start() {
    let dir = directory();
    let engine = Embedded::open(Options::new(dir.path())).expect("opens");
    let runtime = runtime();
    runtime.block_on(commit(&engine, "p", [put("k", "v", vec![])]));
    drop(engine);
    // A reserve larger than any disk: as if there were no room.
    let full = |reserve| Options { reserve_bytes: Some(reserve), ..Options::new(dir.path()) };
    let words = refusal(full(u64::MAX));
    assert!(words.contains("MiB free") && words.contains("make room"), "{words}");
    // A little more than there is: starting is safe, writing is not, deleting is.
    let stat = rustix::fs::statvfs(dir.path()).expect("statvfs");
    let engine = Embedded::open(full(stat.f_bavail * stat.f_frsize + (1 << 30))).expect("opens");
    runtime.block_on(async {
        let put = engine.commit(&partition("p"), batch([put("k", "w", vec![])]), Synced).await;
        assert!(matches!(put, Err(CommitError::Fault(Fault::Full))), "{put:?}");
        let written = engine.write_extent(&mut Whole(body(1, 10)), 10).await;
        assert!(matches!(written, Err(engine::ExtentError::Fault(Fault::Full))));
        assert_eq!(value(&engine, "p", "k").await.expect("there"), "v");
        commit(&engine, "p", [delete("k")]).await;
        assert_eq!(value(&engine, "p", "k").await, None);
    });
}

#[test]
fn a_changed_byte_in_a_segment_is_told_and_not_given_back() {
    let dir = directory();
    let runtime = runtime();
    let content = body(1, 300_000);
    // Every read is one of the disk.
    let engine = Embedded::open(Options { recent_bytes: 0, ..Options::new(dir.path()) }).expect("opens");
    let extent = runtime.block_on(async {
        let pin = write(&engine, &content).await;
        commit(&engine, "p", [put("k", "v", vec![ExtentSlice::whole(pin.extent())])]).await;
        pin.extent()
    });
    let segment = only_segment(dir.path());
    // In the data, in its last chunk, and in the checksums.
    for at in [70_000, 299_999, 300_001] {
        flip(&segment, at);
        let error = runtime.block_on(read(&engine, ExtentSlice::whole(extent))).expect_err("damaged");
        let Fault::Corrupt { what } = &error else { panic!("{error:?}") };
        assert!(what.contains(&segment.display().to_string()), "{what}");
        flip(&segment, at);
        assert_eq!(runtime.block_on(read(&engine, ExtentSlice::whole(extent))).expect("whole again"), content);
    }
    // Chunks that are whole can still be read.
    flip(&segment, 70_000);
    let whole_chunk = ExtentSlice { extent, offset: 10, bytes: 1000 };
    assert_eq!(runtime.block_on(read(&engine, whole_chunk)).expect("not damaged"), content[10..1010]);
}

#[test]
fn a_missing_or_short_segment_is_refused_at_start() {
    let dir = directory();
    let engine = Embedded::open(Options::new(dir.path())).expect("opens");
    runtime().block_on(async {
        let pin = write(&engine, &body(1, 300_000)).await;
        commit(&engine, "p", [put("k", "v", vec![ExtentSlice::whole(pin.extent())])]).await;
    });
    drop(engine);
    let segment = only_segment(dir.path());
    let length = fs::metadata(&segment).expect("there").len();
    OpenOptions::new().write(true).open(&segment).expect("opened").set_len(length - 1).expect("cut");
    let words = refusal(Options::new(dir.path()));
    assert!(words.contains(&segment.display().to_string()) && words.contains("backup"), "{words}");
    fs::remove_file(&segment).expect("removed");
    let words = refusal(Options::new(dir.path()));
    assert!(words.contains("missing") && words.contains(&segment.display().to_string()), "{words}");
}

fn journal(dir: &Path) -> PathBuf {
    let mut found: Vec<PathBuf> = fs::read_dir(dir.join("fjall"))
        .expect("fjall")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jnl"))
        .collect();
    found.sort();
    found.pop().expect("a journal")
}

fn filled(dir: &Path, durability: Durability) {
    let engine = Embedded::open(Options { durability, ..Options::new(dir) }).expect("opens");
    runtime().block_on(async {
        for at in 0..200 {
            commit(&engine, "p", [put(&format!("k{at}"), body(at, 500), vec![])]).await;
        }
    });
    engine.close().expect("closed");
}

#[test]
fn a_journal_cut_short_after_closing_is_refused_every_time() {
    for durability in [Durability::Full, Durability::Relaxed] {
        let dir = directory();
        filled(dir.path(), durability);
        let journal = journal(dir.path());
        OpenOptions::new().write(true).open(&journal).expect("opened").set_len(40_000).expect("cut");
        for _ in 0..2 {
            let words = refusal(Options::new(dir.path()));
            assert!(words.contains("acknowledged") && words.contains("backup"), "{words}");
        }
    }
}

#[test]
fn a_journal_that_ends_before_the_noted_commit_is_refused_every_time() {
    let dir = directory();
    let crashed = directory();
    let engine = Embedded::open(Options::new(dir.path())).expect("opens");
    runtime().block_on(async {
        for at in 0..100 {
            commit(&engine, "p", [put(&format!("k{at}"), body(at, 500), vec![])]).await;
        }
    });
    engine.sweep_now().expect("the newest commit is noted");
    // A copy of an engine at work is what a crash of the process leaves.
    copy(dir.path(), crashed.path());
    let journal = journal(crashed.path());
    OpenOptions::new().write(true).open(&journal).expect("opened").set_len(30_000).expect("cut");
    for _ in 0..2 {
        let words = refusal(Options::new(crashed.path()));
        assert!(words.contains("commit 100 was acknowledged") && words.contains("backup"), "{words}");
    }
}

#[test]
fn a_changed_byte_in_the_journal_is_refused_every_time() {
    // Wherever it is: in a value, in a length, in a marker.
    for at in [9, 40, 5_000, 50_001, 90_017, 90_300] {
        let dir = directory();
        filled(dir.path(), Durability::Full);
        flip(&journal(dir.path()), at);
        for _ in 0..2 {
            let words = refusal(Options::new(dir.path()));
            assert!(words.contains("backup") || words.contains("opening the records"), "at {at}: {words}");
        }
    }
}

#[test]
fn a_missing_part_of_the_records_is_refused_and_not_made_anew() {
    let dir = directory();
    filled(dir.path(), Durability::Full);
    let spaces = fs::read_dir(dir.path().join("fjall/keyspaces")).expect("keyspaces");
    let spaces: Vec<PathBuf> = spaces.map(|entry| entry.expect("an entry").path()).collect();
    assert!(spaces.len() >= 4);
    for space in spaces {
        let kept = directory();
        copy(dir.path(), kept.path());
        let name = space.file_name().expect("a name");
        fs::remove_dir_all(kept.path().join("fjall/keyspaces").join(name)).expect("removed");
        for _ in 0..2 {
            let words = refusal(Options::new(kept.path()));
            assert!(words.contains("backup") || words.contains("opening the records"), "{name:?}: {words}");
        }
    }
    fs::remove_dir_all(dir.path().join("fjall")).expect("removed");
    assert!(refusal(Options::new(dir.path())).contains("fjall/keyspaces"));
}

#[test]
fn a_missing_or_damaged_note_is_refused() {
    let dir = directory();
    filled(dir.path(), Durability::Full);
    let note = dir.path().join("durable");
    let kept = fs::read(&note).expect("read");
    fs::write(&note, vec![0; kept.len()]).expect("written");
    assert!(refusal(Options::new(dir.path())).contains("durable"));
    fs::remove_file(&note).expect("removed");
    assert!(refusal(Options::new(dir.path())).contains("missing"));
    fs::write(&note, kept).expect("written");
    Embedded::open(Options::new(dir.path())).expect("opens again");
}

#[test]
fn a_changed_byte_in_a_table_is_never_given_back() {
    let dir = directory();
    let runtime = runtime();
    let options = || Options { durability: Durability::Relaxed, ..Options::new(dir.path()) };
    let engine = Embedded::open(options()).expect("opens");
    // Enough to fill a memtable, so that it is written to a table.
    runtime.block_on(async {
        for at in 0..400u64 {
            let many: Vec<_> = (0..10).map(|key| put(&format!("k{key}"), body(at * 10 + key, 5000), vec![])).collect();
            commit(&engine, &format!("p{at}"), many).await;
        }
    });
    let tables = |dir: &Path| -> Vec<PathBuf> {
        let spaces = fs::read_dir(dir.join("fjall/keyspaces")).expect("keyspaces");
        let tables = spaces.map(|space| space.expect("an entry").path().join("tables")).filter(|path| path.is_dir());
        tables.flat_map(|of| fs::read_dir(of).expect("tables").map(|entry| entry.expect("an entry").path())).collect()
    };
    let large = |path: &PathBuf| fs::metadata(path).is_ok_and(|of| of.len() > 4_000_000);
    for _ in 0..100 {
        if tables(dir.path()).iter().any(large) {
            break;
        }
        std::thread::park_timeout(std::time::Duration::from_millis(50));
    }
    drop(engine);
    let table = tables(dir.path()).into_iter().find(large).expect("a memtable was written to a table");
    flip(&table, 2_000_000);
    // Some reads fail and say so; none gives anything but what was written.
    let mut corrupt = Vec::new();
    match Embedded::open(options()) {
        Err(error) => panic!("nothing the start needs was damaged: {error}"),
        Ok(engine) => runtime.block_on(async {
            for at in 0..400u64 {
                let view = engine.view(&partition(&format!("p{at}"))).await.expect("a view");
                for key in 0..10 {
                    match view.get(HEADS, format!("k{key}").as_bytes()).await {
                        Ok(record) => assert_eq!(record.expect("there").value, body(at * 10 + key, 5000)),
                        Err(Fault::Corrupt { .. }) => corrupt.push((format!("p{at}"), format!("k{key}"))),
                        Err(fault) => panic!("{fault}"),
                    }
                }
            }
            assert!(!corrupt.is_empty(), "the damage was met");
            // Who writes there is told too, and nobody else is the worse for it.
            for (of, name) in corrupt {
                let outcome = engine.commit(&partition(&of), batch([put(&name, "new", vec![])]), Synced).await;
                assert!(matches!(outcome, Err(CommitError::Fault(Fault::Corrupt { .. }))), "{outcome:?}");
                commit(&engine, "another", [put(&name, "new", vec![])]).await;
            }
        }),
    }
}

#[test]
fn a_keyspace_whose_newest_version_is_in_doubt_is_refused_and_left_alone() {
    let dir = directory();
    filled(dir.path(), Durability::Full);
    for space in fs::read_dir(dir.path().join("fjall/keyspaces")).expect("keyspaces") {
        let current = space.expect("an entry").path().join("current");
        let kept = fs::read(&current).expect("read");
        for at in 0..kept.len() {
            for bit in [1, 2, 0x80] {
                let mut damaged = kept.clone();
                damaged[at] ^= bit;
                fs::write(&current, damaged).expect("written");
                assert!(refusal(Options::new(dir.path())).contains("current"), "byte {at}");
            }
        }
        fs::write(&current, kept).expect("written");
    }
    Embedded::open(Options::new(dir.path())).expect("nothing was lost by refusing");
}
