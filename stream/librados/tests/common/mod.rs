//! A connection to the cluster that `LAZULI_CEPH_CONF` names; `testing/ceph/with-cluster` starts one and says where it
//! is.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lazuli_librados::{Librados, Settings};

/// Settings in a namespace of the test's own, so that tests and runs do not meet; none without a cluster.
pub fn settings(test: &str) -> Option<Settings> {
    let Some(conf) = std::env::var_os("LAZULI_CEPH_CONF") else {
        eprintln!("{test}: skipped, for LAZULI_CEPH_CONF names no cluster");
        return None;
    };
    Some(Settings {
        conf: Some(PathBuf::from(conf)),
        user: "lazuli".to_owned(),
        keyring: None,
        records_pool: "lazuli-records".to_owned(),
        bodies_pool: "lazuli-bodies".to_owned(),
        namespace: Some(format!("{test}-{}", std::process::id())),
        deadline: Duration::from_secs(20),
    })
}

#[allow(dead_code)] // the tests of connecting make their own
pub fn connect(test: &str) -> Option<Arc<Librados>> {
    settings(test).map(|settings| Librados::connect(&settings).expect("the cluster of the tests takes its client"))
}
