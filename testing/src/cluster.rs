//! Engines on RADOS for tests: on a cluster in memory, or on the real one that `LAZULI_CEPH_CONF` names.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use engine::Engine;
use env::{Clock, Ids, SystemIds};
use librados::{BoxFuture, Librados, Look, Objects, OpError, Pool, Seen, Settings, Step};
use rados::fake::Fake;
use rados::{Options, Rados};

/// A new and empty engine: `rados-in-memory` or `rados`.
pub async fn engine(name: &str, clock: Arc<dyn Clock>) -> Arc<dyn Engine> {
    let objects: Arc<dyn Objects> = match name {
        "rados-in-memory" => Arc::new(Fake::default()),
        "rados" => Arc::new(Apart { objects: shared(), name: SystemIds::new().next().to_string() }),
        other => panic!("LAZULI_TEST_ENGINE is memory, rados-in-memory or rados, not {other}"),
    };
    // Alone: its ticks are one after the other, as the examples know them.
    open(objects, clock, 1).await
}

/// An engine on a cluster that others may share.
pub async fn over(objects: Arc<dyn Objects>, clock: Arc<dyn Clock>) -> Arc<Rados> {
    open(objects, clock, 256).await
}

async fn open(objects: Arc<dyn Objects>, clock: Arc<dyn Clock>, processes: u64) -> Arc<Rados> {
    // Some groups in several shards; queues and shares are one partition, and what is owned is in one shard.
    let options = Options::new(|group| match group.0.first() {
        Some(b'b' | b't') => 4,
        Some(b'd') => 2,
        _ => 1,
    });
    let options = Options { processes, ..options };
    Rados::open(objects, clock, &SystemIds::new(), options).await.expect("the cluster takes its client")
}

/// One connection for all worlds that are there at a time: to make one takes longer than many a test.
fn shared() -> Arc<Librados> {
    static SHARED: Mutex<Weak<Librados>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let objects = connect(&SystemIds::new().next().to_string());
        *shared = Arc::downgrade(&objects);
        objects
    })
}

/// The objects of one world: their names begin with its own.
struct Apart {
    objects: Arc<Librados>,
    name: String,
}

impl Objects for Apart {
    fn write(&self, pool: Pool, object: &str, steps: Vec<Step>) -> BoxFuture<'static, Result<u64, OpError>> {
        self.objects.write(pool, &format!("{}.{object}", self.name), steps)
    }

    fn read(&self, pool: Pool, object: &str, steps: Vec<Look>) -> BoxFuture<'static, Result<Seen, OpError>> {
        self.objects.read(pool, &format!("{}.{object}", self.name), steps)
    }
}

/// The cluster of the tests, in a namespace of this name.
pub fn connect(namespace: &str) -> Arc<Librados> {
    let conf =
        std::env::var("LAZULI_CEPH_CONF").expect("LAZULI_CEPH_CONF names a cluster: see testing/ceph/with-cluster");
    let settings = Settings {
        conf: Some(conf.into()),
        user: std::env::var("LAZULI_CEPH_USER").unwrap_or_else(|_| "lazuli".into()),
        keyring: None,
        records_pool: "lazuli-records".into(),
        bodies_pool: "lazuli-bodies".into(),
        namespace: Some(namespace.into()),
        deadline: Duration::from_secs(20),
    };
    Librados::connect(&settings).expect("the cluster takes its client")
}
