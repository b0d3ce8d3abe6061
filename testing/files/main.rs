//! The File service against a small reference: random sequences of operations, after each of which both must agree on what it answered,
//! and every so often on everything there is to see, now and in every snapshot.
//!
//! `SEED=n` runs one sequence and prints it.

mod model;
mod play;

use std::sync::Arc;

use bytes::Bytes;
use contract::names::{AccountName, ShareName};
use engine::memory::MemoryEngine;
use engine::memory::shared::SharedMemory;
use engine::{Family, Write};
use partition::execute::{Blind, Shell};
use play::Play;
use testing::sim::chance::Chance;
use testing::{ACCOUNT, World};

const SEQUENCES: u64 = 40;
const OPERATIONS: usize = 150;
/// How often everything is compared.
const EVERYTHING_EVERY: usize = 25;

fn seeds(sequences: u64) -> std::ops::Range<u64> {
    let seed: Option<u64> = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    seed.map_or(0..sequences, |seed| seed..seed + 1)
}

async fn play(mut play: Play, seed: u64) {
    let mut chance = Chance::from_seed(seed);
    for number in 1..=OPERATIONS {
        play.step(&mut chance).await;
        if number % EVERYTHING_EVERY == 0 {
            play.compare_everything().await;
        }
    }
    play.compare_everything().await;
}

#[tokio::test]
async fn random_sequences_do_what_the_reference_does() {
    for seed in seeds(SEQUENCES) {
        play(Play::new(World::new().await, seed).await, seed).await;
    }
}

/// The same where every commit moves the views of its partition, and the share is written to all the time.
#[tokio::test]
async fn random_sequences_get_through_where_views_move() {
    for seed in seeds(SEQUENCES / 8) {
        let world = World::over(Arc::new(SharedMemory::new(MemoryEngine::new()))).await;
        let shell = world.app.shell.clone();
        let game = Play::new(world, seed).await;
        let busy = [(); 2].map(|()| tokio::spawn(keep_writing(shell.clone())));
        play(game, seed).await;
        for busy in busy {
            busy.abort();
            assert!(busy.await.is_err_and(|end| end.is_cancelled()), "it wrote to the end");
        }
    }
}

/// Writes what nobody reads to the share's tree, in the tree's turns.
async fn keep_writing(shell: Arc<Shell>) {
    let (account, name) = (AccountName::parse(ACCOUNT).expect("right"), ShareName::parse("share").expect("right"));
    let share = partition::file::share::find(&shell, &account, &name, None).await.expect("it is there");
    let write = Write::Put { family: Family(u8::MAX), key: Bytes::new(), value: Bytes::new(), slices: Vec::new() };
    let noise = Blind { partition: share.tree(), writes: vec![write] };
    loop {
        shell.execute(&noise).await.expect("written");
        tokio::task::yield_now().await;
    }
}
