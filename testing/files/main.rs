//! The File service against a small reference: random sequences of operations, after each of which both must agree on what it answered,
//! and every so often on everything there is to see, now and in every snapshot.
//!
//! `SEED=n` runs one sequence and prints it.

mod model;
mod play;

use play::Play;
use testing::sim::chance::Chance;

const SEQUENCES: u64 = 40;
const OPERATIONS: usize = 150;
/// How often everything is compared.
const EVERYTHING_EVERY: usize = 25;

#[tokio::test]
async fn random_sequences_do_what_the_reference_does() {
    let seed: Option<u64> = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    for seed in seed.map_or(0..SEQUENCES, |seed| seed..seed + 1) {
        let mut play = Play::new(seed).await;
        let mut chance = Chance::from_seed(seed);
        for number in 1..=OPERATIONS {
            play.step(&mut chance).await;
            if number % EVERYTHING_EVERY == 0 {
                play.compare_everything().await;
            }
        }
        play.compare_everything().await;
    }
}
