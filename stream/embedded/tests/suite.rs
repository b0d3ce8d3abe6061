//! The embedded engine does what every engine must do, in both settings of durability, again where segments are so
//! small that everything crosses from one to the next, and again where every commit waits for a sync.

mod common;

use std::sync::Arc;

use common::{Harness, directory};
use engine::suite;
use lazuli_embedded::{Durability, Embedded, Options};

fn on_disk() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory for the test")
}

#[test]
fn the_suite_with_full_durability() {
    suite::run(&Harness::new(on_disk, |dir| Options::new(dir)));
}

#[test]
fn the_suite_with_relaxed_durability() {
    suite::run(&Harness::new(directory, |dir| Options { durability: Durability::Relaxed, ..Options::new(dir) }));
}

#[test]
fn the_suite_with_small_segments() {
    suite::run(&Harness::new(directory, |dir| Options {
        durability: Durability::Relaxed,
        segment_bytes_max: 5 * 1024 * 1024,
        ..Options::new(dir)
    }));
}

#[test]
fn the_suite_with_every_commit_buffered() {
    suite::run(&Harness::new(directory, |dir| Options::new(dir)).buffering());
}

/// The engine can be handed around as the trait asks.
#[allow(dead_code)]
fn is_an_engine(engine: Arc<Embedded>) -> Arc<dyn engine::Engine> {
    engine
}
