//! A gateway's place in a Ceph cluster: the connection, the cluster's time, and the bell that tells of changed accounts and properties.
//!
//! 1. Time is the cluster's. It is measured at start, without which nothing is served, and every 30 s (docs/decisions/0020).
//! 2. Who changes accounts commits, then rings, and is done when every gateway that listens has read them again.
//! 3. A gateway that may have missed the bell, because the cluster has not confirmed its watch for `HEARD_WITHIN`, reads the
//!    accounts before each request until it is confirmed again. Who rings waits longer than that for a gateway that is silent.
//!    So after a change was acknowledged no gateway lets anybody in by what was before.
//! 4. Properties of services are told of by the same bell, and those at hand forgotten when it rings and whenever something may have been
//!    missed. What else is to be known of them stands in the front end's `settings.rs` and in docs/decisions/0026.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use engine::{BoxFuture, GroupId};
use env::{Clock, Measurement, SteadyClock, SteeredClock, SystemIds, Timestamp};
use http::account::Account;
use http::{AccountsSource, App, Bell};
use librados::{Librados, NotifyError, Objects, Pool, Standing, Step, Watch};
use partition::Shell;
use rados::{Options, Rados};
use tokio::task::JoinHandle;

use crate::accounts;
use crate::config::ClusterSettings;

/// What gateways watch.
const BELL: &str = "lazuli.accounts";
/// What is told if only properties of services changed; anything else is about accounts, too.
const PROPERTIES: Bytes = Bytes::from_static(b"properties");
/// A watch that was confirmed so recently has heard all that was told before. It is confirmed every 5 s.
const HEARD_WITHIN: Duration = Duration::from_secs(10);
/// How long one ring waits for a gateway. Longer than `HEARD_WITHIN`, and than the cluster takes to forget one that is gone.
const RING_LIMIT: Duration = Duration::from_secs(15);
const RINGS_MAX: usize = 3;
/// How long a ring about properties waits. Who rings waits no longer: what the others had at hand has run out by then.
const PROPERTIES_LIMIT: Duration = Duration::from_secs(10);

/// How long what is under way at the end may take.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

const MEASURED_EVERY: Duration = Duration::from_secs(30);
/// The first measurements of a connection are slow: it is made on the way.
const FIRST_MEASUREMENTS_MAX: usize = 10;

pub struct Cluster {
    objects: Arc<Librados>,
    engine: Arc<Rados>,
    pub shell: Arc<Shell>,
    measuring: JoinHandle<()>,
}

impl Cluster {
    pub async fn open(settings: &ClusterSettings) -> Result<Cluster, String> {
        let address = settings.address.clone();
        let connecting = tokio::task::spawn_blocking(move || Librados::connect(&address));
        let objects = connecting.await.map_err(|error| error.to_string())??;
        let clock = Arc::new(SteeredClock::new(Arc::new(SteadyClock::start())));
        measure_first(&objects, &clock).await?;
        let (shards, ids) = (settings.shards, Arc::new(SystemIds::new()));
        let options = Options::new(move |group| shards.of(group));
        let engine = Rados::open(objects.clone(), clock.clone(), ids.as_ref(), options).await;
        let engine = engine.map_err(|fault| format!("the cluster cannot be used: {fault}"))?;
        let shell = Shell::open(engine.clone(), clock.clone(), ids).await.map_err(|fault| fault.to_string())?;
        let measuring = tokio::spawn(keep_measuring(objects.clone(), clock));
        Ok(Cluster { objects, engine, shell: Arc::new(shell), measuring })
    }

    /// How other gateways reach this one, and what is done when a share is not its own any more.
    pub fn introduce(&self, address: String, on_loss: impl Fn(GroupId) + Send + Sync + 'static) {
        self.engine.introduce(address, Arc::new(on_loss));
    }

    pub async fn close(self) -> Result<(), String> {
        let Cluster { objects, engine, shell, measuring } = self;
        measuring.abort();
        // A cluster that stands still does not hold up the end: what is not given back now runs out, or is cleared up by others.
        let closed = match tokio::time::timeout(ENDS_WITHIN, engine.close()).await {
            Ok(closed) => closed.map_err(|fault| fault.to_string()),
            Err(_) => {
                tracing::warn!("the cluster does not answer; leaving without taking leave");
                Ok(())
            }
        };
        let ended = objects.ended();
        drop((objects, engine, shell));
        if tokio::time::timeout(ENDS_WITHIN, ended).await.is_err() {
            tracing::warn!("the connection to the cluster is still in use");
        }
        closed
    }

    /// Tells every gateway that accounts changed; returns when each has read them again.
    pub async fn ring(&self) -> Result<(), String> {
        self.make_bell().await?;
        let mut silent = 0;
        // The cluster forgets a gateway that is gone: then the next ring is answered by all who are left.
        for _ in 0..RINGS_MAX {
            match self.objects.notify(BELL, Bytes::new(), RING_LIMIT).await {
                Ok(_) => return Ok(()),
                Err(NotifyError::Silent { clients, .. }) => silent = clients.len(),
                Err(NotifyError::Op(error)) => return Err(format!("the gateways cannot be told: {error:?}")),
            }
        }
        Err(format!(
            "{silent} of the gateways did not answer. The change is made, and they refuse what they cannot check, but it may take \
             them some seconds to serve by it"
        ))
    }

    /// Listens to the bell, and keeps the accounts of `app` as they are in the cluster.
    pub async fn listen(&self, app: &Arc<App>) -> Result<(), String> {
        self.make_bell().await?;
        let missed = Arc::new(AtomicBool::new(true));
        let (shell, objects) = (self.shell.clone(), self.objects.clone());
        let watched = Arc::new(Watched { shell, objects, watch: OnceLock::new(), missed: missed.clone() });
        app.set_accounts_source(watched.clone());
        app.set_bell(watched.clone());
        let (app_at_bell, app_missing) = (Arc::downgrade(app), Arc::downgrade(app));
        let heard = move |told: Bytes| -> BoxFuture<'static, ()> {
            let app = app_at_bell.upgrade();
            Box::pin(async move {
                let Some(app) = app else { return };
                app.forget_properties();
                if told == PROPERTIES {
                    return;
                }
                match app.read_accounts_again().await {
                    Ok(()) => tracing::info!(accounts = app.accounts().len(), "accounts and keys were read again"),
                    Err(error) => {
                        tracing::error!(%error, "accounts changed and cannot be read; trying with each request")
                    }
                }
            })
        };
        let standing = move |standing| {
            missed.store(true, Ordering::Release);
            if let Some(app) = app_missing.upgrade() {
                app.forget_properties();
            }
            match standing {
                Standing::Lost { why } => {
                    tracing::warn!(%why, "changes of accounts and properties may be missed: reading them every time")
                }
                Standing::Again => tracing::info!("changes of accounts and properties are heard again"),
            }
        };
        let watch = self.objects.watch(BELL, Arc::new(heard), Arc::new(standing)).await;
        let watch = watch.map_err(|error| format!("changes of accounts cannot be watched: {error:?}"))?;
        // What changed before the watch stood.
        app.forget_properties();
        let _ = watched.watch.set(watch); // the only one
        app.read_accounts_again().await
    }

    async fn make_bell(&self) -> Result<(), String> {
        let made = self.objects.write(Pool::Records, BELL, vec![Step::Create { exclusive: false }]).await;
        made.map(drop).map_err(|error| format!("the cluster cannot be written to: {error:?}"))
    }
}

/// Accounts in the cluster, and whether all changes of them, and of properties, were heard of.
struct Watched {
    shell: Arc<Shell>,
    objects: Arc<Librados>,
    watch: OnceLock<Watch>,
    /// Something may have been missed and the accounts were not read since.
    missed: Arc<AtomicBool>,
}

impl Bell for Watched {
    fn is_missed(&self) -> bool {
        let age = self.watch.get().and_then(Watch::age);
        age.is_none_or(|age| age > HEARD_WITHIN)
    }

    fn ring(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            match self.objects.notify(BELL, PROPERTIES, PROPERTIES_LIMIT).await {
                Ok(_) => Ok(()),
                Err(NotifyError::Silent { clients, .. }) => {
                    Err(format!("{} of the gateways did not answer", clients.len()))
                }
                Err(NotifyError::Op(error)) => Err(format!("the gateways cannot be told: {error:?}")),
            }
        })
    }
}

impl AccountsSource for Watched {
    fn is_stale(&self) -> bool {
        self.missed.load(Ordering::Acquire) || self.is_missed()
    }

    fn read(&self) -> BoxFuture<'_, Result<Vec<Account>, String>> {
        Box::pin(async move {
            // Before it is read: what is missed from here on counts again.
            self.missed.store(false, Ordering::Release);
            let read = accounts::served(&self.shell).await;
            if read.is_err() {
                self.missed.store(true, Ordering::Release);
            }
            read
        })
    }
}

/// The cluster's time must be known before anything is judged by it.
async fn measure_first(objects: &Librados, clock: &SteeredClock) -> Result<(), String> {
    for _ in 0..FIRST_MEASUREMENTS_MAX {
        match measure(objects, clock).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => return Err(format!("the cluster does not tell the time: {error}")),
        }
    }
    Err("the cluster answers too slowly to tell the time by it".into())
}

async fn keep_measuring(objects: Arc<Librados>, clock: Arc<SteeredClock>) {
    loop {
        tokio::time::sleep(MEASURED_EVERY).await;
        match measure(&objects, &clock).await {
            Ok(true) => tracing::trace!(now = %clock.now().iso8601(), "the cluster's time was measured"),
            Ok(false) => tracing::debug!("a measurement of the cluster's time took too long and is not used"),
            Err(error) => tracing::warn!(%error, "the cluster's time cannot be measured; going on by the own clock"),
        }
    }
}

/// Asks for the cluster's time once; false if it took too long to be of use.
async fn measure(objects: &Librados, clock: &SteeredClock) -> Result<bool, String> {
    let asked = clock.own();
    let nanoseconds = objects.time().await.map_err(|error| format!("{error:?}"))?;
    let told = Timestamp::UNIX_EPOCH.plus_ticks(nanoseconds / 100);
    Ok(clock.steer(Measurement { asked, told, known: clock.own() }))
}
