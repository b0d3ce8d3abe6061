use std::sync::atomic::AtomicBool;

use engine::Engine as _;
use engine::memory::MemoryEngine;
use engine::memory::shared::SharedMemory;
use env::{ScriptedClock, ScriptedIds};
use partition::service::{Changes, SetServiceProperties};
use tokio::sync::Semaphore;

use super::*;

/// A process: what it has at hand, and whether it hears the bell.
struct Process {
    settings: Settings,
    shell: Shell,
    misses: AtomicBool,
}

/// Rings for the first process, and is heard by the second.
struct ToOther {
    here: Arc<Process>,
    other: Arc<Process>,
    /// Does the other one answer?
    answers: AtomicBool,
    fails: AtomicBool,
}

impl Bell for ToOther {
    fn is_missed(&self) -> bool {
        self.here.misses.load(Ordering::SeqCst)
    }

    fn ring(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            if self.fails.load(Ordering::SeqCst) {
                return Err("nobody can be told".into());
            }
            if !self.answers.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            if !self.other.misses.load(Ordering::SeqCst) {
                self.other.settings.forget();
            }
            Ok(())
        })
    }
}

struct World {
    one: Arc<Process>,
    two: Arc<Process>,
    bell: Arc<ToOther>,
}

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn account() -> AccountName {
    AccountName::parse("devstoreaccount1").expect("right")
}

async fn world() -> World {
    let memory = MemoryEngine::new();
    let process = async || {
        let engine = Arc::new(SharedMemory::new(memory.clone()));
        let clock = Arc::new(ScriptedClock::at(NOW));
        let shell = Shell::open(engine, clock, Arc::new(ScriptedIds::default())).await.expect("opens");
        Arc::new(Process { settings: Settings::default(), shell, misses: AtomicBool::default() })
    };
    let (one, two) = (process().await, process().await);
    let bell = |here: &Arc<Process>, other: &Arc<Process>| {
        let (here, other) = (here.clone(), other.clone());
        Arc::new(ToOther { here, other, answers: AtomicBool::new(true), fails: AtomicBool::default() })
    };
    let of_one = bell(&one, &two);
    one.settings.set_bell(of_one.clone());
    two.settings.set_bell(bell(&two, &one));
    World { one, two, bell: of_one }
}

impl Process {
    async fn version(&self) -> Option<String> {
        let of = self.settings.of(&self.shell, &account(), Service::Blob, NOW).await;
        of.expect("read").default_version.clone()
    }

    async fn commit(&self, version: &str) {
        let changes = Changes { default_version: Some(version.into()), ..Changes::default() };
        let command = SetServiceProperties::new(&account(), Service::Blob, changes);
        self.shell.execute(&command).await.expect("set");
    }

    async fn set(&self, version: &str) {
        self.commit(version).await;
        self.settings.announce().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_set_elsewhere_holds_when_it_is_acknowledged() {
    let World { one, two, .. } = world().await;
    for version in ["2020-04-08", "2021-02-12"] {
        let begun = Instant::now();
        one.set(version).await;
        assert_eq!(begun.elapsed(), Duration::ZERO, "nobody is waited for who answers");
        for process in [&one, &two, &two] {
            assert_eq!(process.version().await.as_deref(), Some(version));
        }
    }
    assert!(two.settings.slot(&account(), Service::Blob).is_some(), "it is kept");
}

/// Committed and not told: as if the process died in between.
#[tokio::test(start_paused = true)]
async fn a_change_that_nobody_was_told_of_is_seen_when_what_was_read_has_run_out() {
    let World { one, two, .. } = world().await;
    one.set("2020-04-08").await;
    assert_eq!(two.version().await.as_deref(), Some("2020-04-08"));
    one.commit("2021-02-12").await;
    tokio::time::advance(FRESH - Duration::from_millis(1)).await;
    assert_eq!(two.version().await.as_deref(), Some("2020-04-08"), "unacknowledged, and not seen yet");
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(two.version().await.as_deref(), Some("2021-02-12"));
}

#[tokio::test(start_paused = true)]
async fn who_does_not_answer_has_nothing_left_when_it_is_acknowledged() {
    for fails in [false, true] {
        let World { one, two, bell } = world().await;
        assert_eq!(two.version().await, None);
        bell.answers.store(false, Ordering::SeqCst);
        bell.fails.store(fails, Ordering::SeqCst);
        let begun = Instant::now();
        one.set("2021-02-12").await;
        assert_eq!(begun.elapsed(), RUN_OUT);
        assert_eq!(two.version().await.as_deref(), Some("2021-02-12"));
    }
}

#[tokio::test(start_paused = true)]
async fn who_may_have_missed_the_bell_reads_each_time() {
    let World { one, two, .. } = world().await;
    assert_eq!(two.version().await, None);
    two.misses.store(true, Ordering::SeqCst);
    for version in ["2020-04-08", "2021-02-12"] {
        one.set(version).await;
        assert_eq!(two.version().await.as_deref(), Some(version));
    }
    // What it had is from before; whoever hears again forgets that first.
    two.settings.forget();
    two.misses.store(false, Ordering::SeqCst);
    assert_eq!(two.version().await.as_deref(), Some("2021-02-12"));
}

/// Holds reads up.
struct Slow {
    inner: MemoryEngine,
    gate: Semaphore,
}

impl engine::around::Around for Slow {
    fn inner(&self) -> &dyn engine::Engine {
        &self.inner
    }

    fn view<'a>(&'a self, partition: &'a engine::PartitionId) -> BoxFuture<'a, Result<Box<dyn engine::View>, Fault>> {
        Box::pin(async move {
            let view = self.inner.view(partition).await;
            self.gate.acquire().await.expect("open").forget();
            view
        })
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_read_before_it_was_forgotten_is_not_put_back() {
    let slow = Arc::new(Slow { inner: MemoryEngine::new(), gate: Semaphore::new(100) });
    let clock = Arc::new(ScriptedClock::at(NOW));
    let shell = Shell::open(slow.clone(), clock, Arc::new(ScriptedIds::default())).await.expect("opens");
    slow.gate.forget_permits(100);
    let process = Arc::new(Process { settings: Settings::default(), shell, misses: AtomicBool::default() });
    let reading = tokio::spawn({
        let process = process.clone();
        async move { process.version().await }
    });
    tokio::task::yield_now().await;
    process.settings.forget();
    slow.gate.add_permits(1);
    assert_eq!(reading.await.expect("read"), None);
    assert!(process.settings.slot(&account(), Service::Blob).is_none());
    slow.gate.add_permits(1);
    assert_eq!(process.version().await, None);
    assert!(process.settings.slot(&account(), Service::Blob).is_some());
}
