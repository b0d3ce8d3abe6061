//! A cluster that stands still, or is full: everything is answered in time, and nothing is taken for done or not done
//! that may be either.

mod common;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lazuli_librados::{BoxFuture, Librados, Look, Objects, OpError, Pool, Settings, Step};
use tokio::sync::Mutex;
use tokio::time::timeout;

const DEADLINE: Duration = Duration::from_secs(2);

/// A fault of the cluster that `LAZULI_CEPH_CLUSTER` names, which ends when this is dropped.
struct Fault {
    cluster: String,
    ends: &'static [&'static str],
}

impl Fault {
    /// `begins` and `ends` are commands of `testing/ceph/cluster`, with DIR for its directory.
    fn new(cluster: &str, begins: &[&str], ends: &'static [&'static str]) -> Fault {
        run(cluster, begins);
        Fault { cluster: cluster.to_owned(), ends }
    }
}

impl Drop for Fault {
    fn drop(&mut self) {
        run(&self.cluster, self.ends);
    }
}

fn run(cluster: &str, commands: &[&str]) {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/ceph/cluster");
    for command in commands {
        let words = command.split(' ').map(|word| if word == "DIR" { cluster } else { word });
        let status = Command::new(&program).args(words).status().expect("the cluster's script runs");
        assert!(status.success(), "{command}: {status}");
    }
}

/// One fault at a time.
static ALONE: Mutex<()> = Mutex::const_new(());

/// A connection that waits for two seconds, and the cluster's directory.
fn breakable(test: &str) -> Option<(Arc<Librados>, String)> {
    let settings = common::settings(test)?;
    let Ok(cluster) = std::env::var("LAZULI_CEPH_CLUSTER") else {
        eprintln!("{test}: skipped, for LAZULI_CEPH_CLUSTER names no cluster that may be broken");
        return None;
    };
    Some((Librados::connect(&Settings { deadline: DEADLINE, ..settings }).unwrap(), cluster))
}

fn put(rados: &Librados, object: &str) -> BoxFuture<'static, Result<u64, OpError>> {
    let pair = (Bytes::from_static(b"k"), Bytes::from_static(b"v"));
    rados.write(Pool::Records, object, vec![Step::Put(vec![pair])])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_cluster_says_so() {
    let _alone = ALONE.lock().await;
    let Some((rados, cluster)) = breakable("full") else { return };
    let body = |object: &str| rados.write(Pool::Bodies, object, vec![Step::WriteAll(Bytes::from_static(b"bytes"))]);
    put(&rados, "before").await.unwrap();
    body("before").await.unwrap();

    let full = Fault::new(&cluster, &["full on DIR"], &["full off DIR"]);
    // The OSDs learn it a little later than the mon. Only what needs more room is refused, so each try is a new object.
    let mut tries = 0;
    let refused = async {
        while body(&format!("new{tries}")).await != Err(OpError::Full) {
            tries += 1;
        }
    };
    timeout(Duration::from_secs(20), refused).await.expect("a refusal");
    assert_eq!(put(&rados, "new").await, Err(OpError::Full));
    // What makes room is done, and so are records in objects that are there.
    rados.write(Pool::Bodies, "before", vec![Step::Remove]).await.unwrap();
    put(&rados, "before").await.unwrap();
    rados.lock("before", "l", "", DEADLINE, false).await.unwrap();
    drop(full);
    timeout(Duration::from_secs(20), async { while body("new").await.is_err() {} }).await.expect("room again");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_answered_in_time() {
    let _alone = ALONE.lock().await;
    let Some((rados, cluster)) = breakable("standstill") else { return };
    put(&rados, "before").await.unwrap();

    let freeze = ["osd freeze DIR 1", "osd freeze DIR 2"];
    let frozen = Fault::new(&cluster, &freeze, &["osd thaw DIR 1", "osd thaw DIR 2"]);
    let writes: Vec<_> = (0..100).map(|index| tokio::spawn(put(&rados, &format!("o{index}")))).collect();
    for write in writes {
        let answer = timeout(2 * DEADLINE, write).await.expect("an answer in time").unwrap();
        // Replicas that do not answer keep every write waiting, whoever is its primary.
        assert!(matches!(answer, Err(OpError::Unknown { .. })), "{answer:?}");
    }
    let locked =
        timeout(2 * DEADLINE, rados.lock("before", "l", "", DEADLINE, false)).await.expect("an answer in time");
    assert!(matches!(locked, Err(OpError::Unknown { .. })), "{locked:?}");
    drop(frozen);

    // What was sent may be done late, and what is asked now waits behind it: that takes a while, and no more.
    let resumed = async {
        while let Err(error) = put(&rados, "after").await {
            assert!(matches!(error, OpError::Unknown { .. }), "{error:?}");
        }
    };
    timeout(Duration::from_secs(60), resumed).await.expect("work goes on");
    rados.read(Pool::Records, "after", vec![Look::Attributes]).await.unwrap();
}
