//! Many at once, against a model: writers, readers, copies, deletes, fences, cleaning, and a reopening now and then.

mod common;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use common::*;
use engine::Durability::{Buffered, Synced};
use engine::{CommitError, Engine, ExtentSlice, Family, GroupId, Guard, PartitionId, Revision, Write};
use lazuli_embedded::{Durability, Embedded, Options};

const TASKS: u64 = 6;
const TURNS: u64 = 60;

/// A small generator, so that a failure can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// What a task knows to be stored: key, revision, and the seeds and lengths of its parts.
type Model = HashMap<u64, (Revision, Vec<(u64, u64, u64)>)>;

fn own(task: u64) -> PartitionId {
    PartitionId { group: GroupId(key("stress")), key: key(&format!("task{task}")) }
}

async fn check(engine: &Embedded, task: u64, model: &Model) {
    let p = own(task);
    let view = engine.view(&p).await.expect("a view");
    for record_key in 0..8 {
        let record = view.get(Family(1), &[record_key as u8]).await.expect("a read");
        let Some((revision, parts)) = model.get(&record_key) else {
            assert_eq!(record, None);
            continue;
        };
        let record = record.expect("the model has it");
        assert_eq!((record.revision, record.slices.len()), (*revision, parts.len()));
        for (slice, (seed, offset, bytes)) in record.slices.iter().zip(parts) {
            let pin = engine.pin(slice.extent);
            let found = read(engine, *slice).await.expect("a read");
            assert_eq!(found, body(*seed, (offset + bytes) as usize)[*offset as usize..], "seed {seed}");
            drop(pin);
        }
    }
}

async fn work(engine: Arc<Embedded>, task: u64, round: u64, mut model: Model) -> Model {
    let p = own(task);
    let mut dice = Dice((round * 1000 + task + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    for turn in 0..TURNS {
        let at = dice.roll(8);
        let record_key = Bytes::from(vec![at as u8]);
        let guard = match model.get(&at) {
            Some((revision, _)) => Guard::At { family: Family(1), key: record_key.clone(), revision: *revision },
            None => Guard::Absent { family: Family(1), key: record_key.clone() },
        };
        let mut slices = Vec::new();
        let mut parts = Vec::new();
        let view = engine.view(&p).await.expect("a view");
        let mut pins = Vec::new();
        match dice.roll(6) {
            0 => {}
            1 | 2 => {
                // Copies parts of another record.
                let from = dice.roll(8);
                if let Some(record) = view.get(Family(1), &[from as u8]).await.expect("a read") {
                    for (slice, (seed, offset, bytes)) in record.slices.iter().zip(&model[&from].1) {
                        let take = 1 + dice.roll(*bytes);
                        slices.push(ExtentSlice { bytes: take, ..*slice });
                        parts.push((*seed, *offset, take));
                    }
                }
            }
            _ => {
                let (seed, length) = (round << 32 | task << 16 | turn, 1 + dice.roll(150_000));
                let pin = write(&engine, &body(seed, length as usize)).await;
                slices.push(ExtentSlice::whole(pin.extent()));
                parts.push((seed, 0, length));
                pins.push(pin);
            }
        }
        drop(view);
        let gone = slices.is_empty();
        let write = if gone {
            Write::Delete { family: Family(1), key: record_key }
        } else {
            Write::Put { family: Family(1), key: record_key, value: Bytes::new(), slices }
        };
        let durability = if dice.roll(3) == 0 { Synced } else { Buffered };
        match engine.commit(&p, engine::Batch { guards: vec![guard], writes: vec![write] }, durability).await {
            Ok(revision) if !gone => drop(model.insert(at, (revision, parts))),
            Ok(_) => drop(model.remove(&at)),
            // An extent was moved between the view and the commit: nothing changed.
            Err(CommitError::Conflict) => {}
            Err(error) => panic!("{error:?}"),
        }
        if turn % 10 == 0 {
            check(&engine, task, &model).await;
        }
    }
    check(&engine, task, &model).await;
    model
}

#[test]
fn many_at_once_with_reopenings() {
    let (runtime, dir) = (runtime(), directory());
    let mut models: Vec<Model> = (0..TASKS).map(|_| Model::new()).collect();
    for round in 0..4 {
        let durability = if round % 2 == 0 { Durability::Full } else { Durability::Relaxed };
        let options = Options { durability, segment_bytes_max: 5 << 20, ..Options::new(dir.path()) };
        let engine = Embedded::open(options).expect("opens");
        let (done, sweeping) = (Arc::new(AtomicBool::new(false)), Arc::clone(&engine));
        let sweeper_done = Arc::clone(&done);
        let sweeper = std::thread::spawn(move || {
            while !sweeper_done.load(Ordering::Relaxed) {
                sweeping.sweep_now().expect("cleaned");
            }
        });
        let tasks: Vec<_> = models
            .drain(..)
            .zip(0..)
            .map(|(model, task)| runtime.spawn(work(Arc::clone(&engine), task, round, model)))
            .collect();
        for task in tasks {
            models.push(runtime.block_on(task).expect("a task ended well"));
        }
        done.store(true, Ordering::Relaxed);
        sweeper.join().expect("the sweeper ended well");
        for (model, task) in models.iter().zip(0..) {
            runtime.block_on(check(&engine, task, model));
        }
    }
    // At last everything goes, and so does its space.
    let engine = Embedded::open(Options::new(dir.path())).expect("opens");
    runtime.block_on(engine.fence(&GroupId(key("stress")))).expect("fenced");
    for _ in 0..2 {
        engine.sweep_now().expect("cleaned");
    }
    assert_eq!(std::fs::read_dir(dir.path().join("segments")).expect("segments").count(), 0);
}
