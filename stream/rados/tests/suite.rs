//! The engine on RADOS does what every engine must do: on a cluster in memory, with one shard for a group and with several, and on a
//! real cluster where one is given (`LAZULI_CEPH_CONF`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::{BoxFuture, Engine, suite};
use env::{SystemClock, SystemIds};
use lazuli_rados::fake::Fake;
use lazuli_rados::{Options, Rados};
use librados::Objects;
use tokio::runtime::Runtime;

type Opened = (Arc<Rados>, Arc<dyn Objects>);

/// Engines on clusters of their own.
struct Harness<F> {
    cluster: F,
    shards: u16,
    runtime: Runtime,
    open: Mutex<HashMap<usize, Opened>>,
}

impl<F: Fn() -> Arc<dyn Objects> + Sync> Harness<F> {
    fn new(shards: u16, cluster: F) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        Harness { cluster, shards, runtime: runtime.expect("a runtime"), open: Mutex::default() }
    }

    fn add(&self, objects: Arc<dyn Objects>) -> Arc<dyn Engine> {
        let shards = self.shards;
        let at_once = Duration::ZERO;
        let options = Options { grace: at_once, silence: at_once, pass: at_once, ..Options::new(move |_| shards) };
        let ids = SystemIds::new();
        let rados = Rados::open(Arc::clone(&objects), Arc::new(SystemClock), &ids, options);
        let rados = self.runtime.block_on(rados).expect("opened");
        let engine: Arc<dyn Engine> = rados.clone();
        self.open.lock().expect("not poisoned").insert(id(&engine), (rados, objects));
        engine
    }
}

fn id<T: ?Sized>(engine: &Arc<T>) -> usize {
    Arc::as_ptr(engine).cast::<()>() as usize
}

impl<F: Fn() -> Arc<dyn Objects> + Sync> suite::Harness for Harness<F> {
    fn fresh(&self) -> Arc<dyn Engine> {
        self.open.lock().expect("not poisoned").clear();
        self.add((self.cluster)())
    }

    /// As after a crash: the engine does not leave in order.
    fn reopen(&self, engine: Arc<dyn Engine>) -> Option<Arc<dyn Engine>> {
        let (rados, objects) = self.open.lock().expect("not poisoned").remove(&id(&engine)).expect("one of ours");
        drop((engine, rados));
        Some(self.add(objects))
    }

    fn settle(&self, engine: &Arc<dyn Engine>) {
        let rados = Arc::clone(&self.open.lock().expect("not poisoned")[&id(engine)].0);
        let sweep = async move { rados.sweep_now().await.expect("swept") };
        // Behaviours settle in the middle of their work as well, on a thread of the runtime.
        std::thread::scope(|scope| scope.spawn(|| self.runtime.block_on(sweep)).join()).expect("swept");
    }

    fn run(&self, work: BoxFuture<'_, ()>) {
        self.runtime.block_on(work);
    }

    fn views_move(&self) -> bool {
        true
    }
}

#[test]
fn the_suite_with_one_shard() {
    suite::run(&Harness::new(1, || Arc::new(Fake::default())));
}

#[test]
fn the_suite_with_five_shards() {
    suite::run(&Harness::new(5, || Arc::new(Fake::default())));
}

/// Each engine has a namespace of its own in the cluster's pools.
#[test]
fn the_suite_on_a_real_cluster() {
    let Ok(conf) = std::env::var("LAZULI_CEPH_CONF") else {
        println!("skipped: no cluster is given by LAZULI_CEPH_CONF");
        return;
    };
    let ids = Arc::new(SystemIds::new());
    let connect = move || -> Arc<dyn Objects> {
        let settings = librados::Settings {
            conf: Some(conf.clone().into()),
            user: std::env::var("LAZULI_CEPH_USER").unwrap_or_else(|_| "lazuli".into()),
            keyring: None,
            records_pool: "lazuli-records".into(),
            bodies_pool: "lazuli-bodies".into(),
            namespace: Some(format!("suite-{}", env::Ids::next(ids.as_ref()))),
            deadline: Duration::from_secs(20),
        };
        librados::Librados::connect(&settings).expect("connected")
    };
    for shards in [1, 5] {
        suite::run(&Harness::new(shards, connect.clone()));
    }
}
