//! The reference engine does what every engine must do.

use std::sync::Arc;

use lazuli_engine::memory::MemoryEngine;
use lazuli_engine::memory::shared::SharedMemory;
use lazuli_engine::suite::{self, Harness};
use lazuli_engine::{BoxFuture, Engine};

struct Memory;

impl Harness for Memory {
    fn fresh(&self) -> Arc<dyn Engine> {
        Arc::new(MemoryEngine::new())
    }

    fn reopen(&self, _: Arc<dyn Engine>) -> Option<Arc<dyn Engine>> {
        None
    }

    fn settle(&self, _: &Arc<dyn Engine>) {}

    fn run(&self, work: BoxFuture<'_, ()>) {
        suite::block_on(work);
    }
}

#[test]
fn the_suite() {
    suite::run(&Memory);
}

/// The same, as one of several processes.
struct Shared;

impl Harness for Shared {
    fn fresh(&self) -> Arc<dyn Engine> {
        Arc::new(SharedMemory::new(MemoryEngine::new()))
    }

    fn reopen(&self, _: Arc<dyn Engine>) -> Option<Arc<dyn Engine>> {
        None
    }

    fn settle(&self, _: &Arc<dyn Engine>) {}

    fn run(&self, work: BoxFuture<'_, ()>) {
        suite::block_on(work);
    }

    fn views_move(&self) -> bool {
        true
    }
}

#[test]
fn the_suite_where_views_move() {
    suite::run(&Shared);
}
