//! Several processes on one engine, whose views move: ticks that only grow, and reads that get through.

use std::sync::atomic::AtomicBool;

use engine::memory::shared::SharedMemory;

use super::*;

const KEYS: [&[u8]; 6] = [b"a", b"b", b"c", b"d", b"e", b"f"];

fn partition() -> PartitionId {
    add(None).partition
}

async fn shell_at(memory: &MemoryEngine, seconds: u64) -> Arc<Shell> {
    let clock = ScriptedClock::at(Timestamp::UNIX_EPOCH.plus_seconds(seconds));
    let engine = Arc::new(SharedMemory::new(memory.clone()));
    Arc::new(Shell::open(engine, Arc::new(clock), Arc::new(ScriptedIds::default())).await.expect("opens"))
}

/// Makes or deletes a thing; tells the tick.
struct Make {
    partition: PartitionId,
    is_there: bool,
}

impl Make {
    fn new(is_there: bool) -> Make {
        Make { partition: partition(), is_there }
    }
}

impl Command for Make {
    type Records = ();
    type Outcome = u64;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<(), Fault> {
        reader.get(COUNTER, b"thing").await.map(drop)
    }

    fn check(&self, (): &(), _now: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, (): (), moment: Moment) -> Result<(Vec<Write>, u64), Refusal> {
        let (family, key) = (COUNTER, Bytes::from_static(b"thing"));
        let write = match self.is_there {
            true => Write::Put { family, key, value: Bytes::new(), slices: Vec::new() },
            false => Write::Delete { family, key },
        };
        Ok((vec![write], moment.tick))
    }
}

/// What is made again after its deletion has a later tick than it ever had, although the clock of whoever makes it is behind and nothing
/// of the old is left to compare with.
#[tokio::test]
async fn ticks_grow_across_processes_whose_clocks_differ() {
    let memory = MemoryEngine::new();
    let shells = [shell_at(&memory, 10).await, shell_at(&memory, 0).await];
    assert_eq!(memory.commits(), 0, "no ceiling is kept");
    let mut last = 0;
    for round in 0..40 {
        for is_there in [true, false] {
            let tick = shells[(round + usize::from(is_there)) % 2].execute(&Make::new(is_there)).await.expect("done");
            assert!(tick > last, "{tick} after {last}");
            last = tick;
        }
    }
}

/// Writes the same under every key.
fn write_all(value: u64) -> Blind {
    let value = Bytes::copy_from_slice(&value.to_be_bytes());
    let put = |key: &[u8]| Write::Put {
        family: COUNTER,
        key: Bytes::copy_from_slice(key),
        value: value.clone(),
        slices: Vec::new(),
    };
    Blind { partition: partition(), writes: KEYS.map(put).to_vec() }
}

/// Writes without a pause until it is told to stop.
fn write_on(shell: &Arc<Shell>, done: &Arc<AtomicBool>) -> tokio::task::JoinHandle<u64> {
    let (shell, done) = (shell.clone(), done.clone());
    tokio::spawn(async move {
        let mut value = 0;
        while !done.load(Ordering::Relaxed) {
            value += 1;
            shell.execute(&write_all(value)).await.expect("written");
            yield_now().await;
        }
        value
    })
}

/// Looks at every key, one after another.
async fn read_all(shell: &Shell) -> Result<Vec<Option<Bytes>>, Fault> {
    let partition = partition();
    let read = || async {
        let view = shell.engine.view(&partition).await?;
        let mut values = Vec::new();
        for key in KEYS {
            values.push(view.get(COUNTER, key).await?.map(|record| record.value));
        }
        Ok(values)
    };
    shell.steadily(&partition, read).await
}

#[tokio::test]
async fn reads_get_through_however_much_is_written_here() {
    let memory = MemoryEngine::new();
    let shell = shell_at(&memory, 0).await;
    let done = Arc::new(AtomicBool::new(false));
    let writers = [write_on(&shell, &done), write_on(&shell, &done)];
    settle().await;
    for _ in 0..50 {
        let values = read_all(&shell).await.expect("the writers of this process wait for it");
        assert!(values.iter().all(|value| *value == values[0]), "one state: {values:?}");
    }
    done.store(true, Ordering::Relaxed);
    for writer in writers {
        assert!(writer.await.expect("no panic") > 50, "nobody stood still");
    }
    assert_eq!(shell.turns.lines(), 0, "no line is kept for nobody");
}

/// Other processes do not wait. A read that they do not let through ends all the same, and never with half of one state and half of another.
#[tokio::test]
async fn reads_that_others_do_not_let_through_end() {
    let memory = MemoryEngine::new();
    let (shell, other) = (shell_at(&memory, 0).await, shell_at(&memory, 0).await);
    let done = Arc::new(AtomicBool::new(false));
    let writer = write_on(&other, &done);
    settle().await;
    for _ in 0..20 {
        match read_all(&shell).await {
            Ok(values) => assert!(values.iter().all(|value| *value == values[0]), "one state: {values:?}"),
            Err(fault) => assert!(fault.is_moved(), "{fault}"),
        }
    }
    done.store(true, Ordering::Relaxed);
    writer.await.expect("no panic");
    assert!(read_all(&shell).await.is_ok());
}
