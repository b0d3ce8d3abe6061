//! What gateways have in common, on a real cluster: a clock, locks, and a way to tell each other.

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use lazuli_librados::{Handler, Librados, NotifyError, Objects, OnStanding, OpError, Pool, Standing, Step};

const SECOND: Duration = Duration::from_secs(1);

/// Two gateways of one installation.
fn two(test: &str) -> Option<(Arc<Librados>, Arc<Librados>)> {
    let settings = common::settings(test)?;
    let connect = || Librados::connect(&settings).expect("the cluster of the tests takes its client");
    Some((connect(), connect()))
}

#[allow(clippy::disallowed_methods)] // the cluster's clock is this machine's, which is what is asked here
fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64
}

#[tokio::test]
async fn one_clock() {
    let Some((one, other)) = two("clock") else { return };
    let mut last = 0;
    for rados in [&one, &other, &one, &one, &other] {
        let before = now();
        let told = rados.time().await.unwrap();
        let after = now();
        // Locks count in microseconds.
        assert!(before <= told + 1000 && told <= after + 1000, "{before} {told} {after}");
        assert!(told > last, "{told} after {last}");
        last = told;
    }
}

#[tokio::test]
async fn locks_exclude_until_they_expire() {
    let Some((one, other)) = two("locks") else { return };
    assert_eq!(one.holders("o", "l").await, Err(OpError::Missing));
    one.lock("o", "l", "a", 60 * SECOND, false).await.unwrap();
    assert_eq!(one.lock("o", "l", "a", 60 * SECOND, false).await, Err(OpError::Exists));
    assert_eq!(one.lock("o", "l", "b", 60 * SECOND, false).await, Err(OpError::Guard));
    assert_eq!(other.lock("o", "l", "a", 60 * SECOND, false).await, Err(OpError::Guard));
    assert_eq!(other.lock("o", "l", "a", 60 * SECOND, true).await, Err(OpError::Missing));
    one.lock("o", "l", "a", 60 * SECOND, true).await.unwrap();
    let holders = other.holders("o", "l").await.unwrap();
    assert_eq!(holders.len(), 1);
    assert_eq!((holders[0].client, holders[0].cookie.as_str()), (one.instance(), "a"));
    other.break_lock("o", "l", &holders[0]).await.unwrap();
    assert_eq!(other.break_lock("o", "l", &holders[0]).await, Err(OpError::Missing));
    assert_eq!(one.lock("o", "l", "a", SECOND, true).await, Err(OpError::Missing));
    assert_eq!(one.unlock("o", "l", "a").await, Err(OpError::Missing));

    other.lock("o", "l", "a", Duration::from_millis(300), false).await.unwrap();
    assert_eq!(one.lock("o", "l", "a", SECOND, false).await, Err(OpError::Guard));
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(other.lock("o", "l", "a", SECOND, true).await, Err(OpError::Missing));
    one.lock("o", "l", "a", SECOND, false).await.unwrap();
    one.unlock("o", "l", "a").await.unwrap();
    assert_eq!(one.holders("o", "l").await, Ok(vec![]));
}

type Log = Arc<Mutex<Vec<String>>>;

fn remember(log: &Log, pause: Duration) -> (Handler, OnStanding) {
    let (told, standing) = (log.clone(), log.clone());
    let handler: Handler = Arc::new(move |payload: Bytes| {
        let log = told.clone();
        Box::pin(async move {
            tokio::time::sleep(pause).await;
            log.lock().unwrap().push(String::from_utf8_lossy(&payload).into_owned());
        })
    });
    let standing: OnStanding = Arc::new(move |now| {
        standing.lock().unwrap().push(match now {
            Standing::Lost { .. } => "lost".to_owned(),
            Standing::Again => "again".to_owned(),
        });
    });
    (handler, standing)
}

async fn wait_for(log: &Log, expected: &[&str]) {
    for _ in 0..300 {
        if *log.lock().unwrap() == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{:?} instead of {expected:?}", log.lock().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_tells_knows_that_all_have_acted() {
    let Some((one, other)) = two("watch") else { return };
    let log = Log::default();
    let (handler, standing) = remember(&log, Duration::from_millis(200));
    let missing = one.watch("o", handler.clone(), standing.clone()).await;
    assert_eq!(missing.err(), Some(OpError::Missing));
    assert_eq!(one.notify("o", Bytes::new(), SECOND).await, Err(NotifyError::Op(OpError::Missing)));
    one.write(Pool::Records, "o", vec![Step::Create { exclusive: true }]).await.unwrap();
    assert_eq!(one.notify("o", Bytes::new(), SECOND).await, Ok(0));
    let watches = [
        one.watch("o", handler.clone(), standing.clone()).await.unwrap(),
        other.watch("o", handler.clone(), standing.clone()).await.unwrap(),
    ];
    for watch in &watches {
        assert!(watch.age().unwrap() < 10 * SECOND);
    }
    assert_eq!(other.notify("o", Bytes::from_static(b"one"), 5 * SECOND).await, Ok(2));
    assert_eq!(*log.lock().unwrap(), ["one", "one"]);
    let [first, second] = watches;
    drop(first);
    // The end of a watch is not awaited.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(other.notify("o", Bytes::new(), 5 * SECOND).await, Ok(1));
    assert_eq!(*log.lock().unwrap(), ["one", "one", ""]);
    drop(second);

    let (slow, standing) = remember(&log, 5 * SECOND);
    let watch = one.watch("o", slow, standing).await.unwrap();
    let silent = NotifyError::Silent { answered: 0, clients: vec![one.instance()] };
    assert_eq!(other.notify("o", Bytes::new(), SECOND).await, Err(silent));
    drop(watch);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_is_lost_comes_back() {
    let Some((one, other)) = two("lost") else { return };
    let create = || one.write(Pool::Records, "o", vec![Step::Create { exclusive: true }]);
    create().await.unwrap();
    let log = Log::default();
    let (handler, standing) = remember(&log, Duration::ZERO);
    let watch = one.watch("o", handler, standing).await.unwrap();
    other.write(Pool::Records, "o", vec![Step::Remove]).await.unwrap();
    wait_for(&log, &["lost"]).await;
    assert_eq!(watch.age(), None);
    create().await.unwrap();
    wait_for(&log, &["lost", "again"]).await;
    assert!(watch.age().is_some());
    assert_eq!(other.notify("o", Bytes::from_static(b"heard"), 5 * SECOND).await, Ok(1));
    wait_for(&log, &["lost", "again", "heard"]).await;
}
