//! From a directory, and from memory, into memory.

use contract::names::{ContainerName, Metadata, QueueName};
use engine::memory::MemoryEngine;
use engine::memory::shared::SharedMemory;
use http::account::Account;
use partition::blob::container::CreateContainer;
use partition::key::container::{BODY, HEAD};
use partition::queue::CreateQueue;
use partition::record::PublicAccess;

use super::*;

async fn shell(engine: Arc<dyn Engine>) -> Shell {
    Shell::open(engine, Arc::new(SystemClock), Arc::new(SystemIds::new())).await.expect("opens")
}

fn new_account() -> NewAccount {
    let Account { name, keys, .. } = Account::parse("abc:a2V5").expect("right");
    NewAccount { name, keys, settings: account::AccountSettings { versioning: true, ..Default::default() } }
}

/// A content that is longer than what is read at once.
fn content() -> Bytes {
    (0..200_000u32).map(|n| (n % 251) as u8).collect::<Vec<u8>>().into()
}

/// A queue, and a container of `blobs` partitions that all name parts of one extent. Tells the container's group.
async fn fill(shell: &Shell, blobs: usize) -> GroupId {
    let name = new_account().name;
    let queue = QueueName::parse("jobs").expect("right");
    shell.execute(&CreateQueue::new(&name, &queue, Metadata::default())).await.expect("made");
    let container = ContainerName::parse("box").expect("right");
    let create = CreateContainer::new(&name, &container, Metadata::default(), PublicAccess::Nobody);
    shell.execute(&create).await.expect("made");
    let engine = shell.engine.as_ref();
    let group = directory::groups(engine, Service::Blob, &name).await.expect("read").remove(0);

    let held = MemoryEngine::new();
    let kept = write(&held, content()).await;
    let mut source = Whole { engine: &held, rest: ExtentSlice::whole(kept.extent()), piece: Bytes::new() };
    let pin = engine.write_extent(&mut source, EXTENT_BYTES_MAX).await.expect("written").expect("something");
    for number in 0..blobs as u64 {
        let slices = vec![ExtentSlice { offset: number, bytes: 1000, extent: pin.extent() }];
        let writes = vec![
            Write::Put { family: HEAD, key: Bytes::new(), value: Bytes::from(number.to_string()), slices: Vec::new() },
            Write::Put { family: BODY, key: Bytes::new(), value: Bytes::new(), slices },
        ];
        commit(engine, &group, &Bytes::from(format!("blob {number}")), writes).await.expect("committed");
    }
    group
}

async fn write(engine: &MemoryEngine, bytes: Bytes) -> Pin {
    struct Once(Bytes);
    impl Source for Once {
        fn next(&mut self, bytes_max: usize) -> BoxFuture<'_, Result<Option<Bytes>, SourceError>> {
            let part = self.0.split_to(bytes_max.min(self.0.len()));
            Box::pin(std::future::ready(Ok(Some(part).filter(|part| !part.is_empty()))))
        }
    }
    engine.write_extent(&mut Once(bytes), EXTENT_BYTES_MAX).await.expect("written").expect("something")
}

async fn check(from: &Shell, group: &GroupId, blobs: usize) {
    let memory = MemoryEngine::new();
    let to = shell(Arc::new(SharedMemory::new(memory.clone()))).await;
    let brought = bring(from, &to, &new_account()).await.expect("brought");
    assert_eq!(brought.removed, 0);
    // Two heads, and two records of each blob.
    assert_eq!(brought.copied.records, 2 + 2 * blobs as u64);
    assert_eq!(brought.copied.slice_bytes, 1000 * blobs as u64);
    assert_eq!(memory.extents(), 1, "what was shared is shared");

    let partition = PartitionId { group: group.clone(), key: Bytes::from_static(b"blob 7") };
    let view = memory.view(&partition).await.expect("a view");
    let body = view.get(BODY, b"").await.expect("read").expect("copied");
    let read = memory.read_extent(body.slices[0]).await.expect("readable");
    assert_eq!(read, content()[7..1007]);

    let entered = account::all(&to).await.expect("read");
    assert_eq!(entered[0].0.as_str(), "abc");
    assert_eq!(entered[0].1.keys[0].reveal(), "a2V5");
    assert!(entered[0].1.settings.versioning && !entered[0].1.keys[1].reveal().is_empty());
    let again = bring(from, &to, &new_account()).await.expect_err("it is there");
    assert!(again.contains("already"), "{again}");
}

#[tokio::test]
async fn all_of_it_is_brought_from_memory() {
    let from = shell(Arc::new(MemoryEngine::new())).await;
    let group = fill(&from, 600).await;
    check(&from, &group, 600).await;
}

#[tokio::test]
async fn all_of_it_is_brought_from_a_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let engine = Embedded::open(Options::new(directory.path())).expect("opens");
    let from = shell(engine.clone()).await;
    let group = fill(&from, 20).await;
    check(&from, &group, 20).await;
    drop(from);
    engine.close().expect("closed");
}

/// What a broken run left is gone, also what the directory does not have any more.
#[tokio::test]
async fn a_run_that_was_broken_off_begins_anew() {
    let from = shell(Arc::new(MemoryEngine::new())).await;
    let group = fill(&from, 3).await;
    let memory = MemoryEngine::new();
    let to = shell(Arc::new(SharedMemory::new(memory.clone()))).await;
    let (extents, seen, progress) = (HashMap::new(), Tally::default(), Progress::new());
    let mut copy = Copy { from: from.engine.as_ref(), to: to.engine.as_ref(), extents, seen, progress };
    for group in names(&new_account().name).iter().chain([&group]) {
        copy.group(group).await.expect("copied");
    }
    commit(
        from.engine.as_ref(),
        &group,
        &Bytes::from_static(b"blob 2"),
        vec![Write::Delete { family: HEAD, key: Bytes::new() }],
    )
    .await
    .expect("deleted");
    let brought = bring(&from, &to, &new_account()).await.expect("brought");
    assert_eq!((brought.removed, brought.copied.records), (8, 7));
    assert_eq!(count(&memory, &group).await.expect("counted").records, 5);
    assert_eq!(memory.extents(), 1, "nothing of the broken run is left");
}
