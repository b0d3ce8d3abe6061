//! A server over the shared store, as the program would run it: opened, serving connections, and at any moment no more.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;

use contract::Service;
use engine::Engine;
use env::{Ids, ScriptedClock};
use http::wire::{Limits, serve};
use http::{App, ServiceConnection};
use tokio::io::DuplexStream;
use tokio::sync::watch;

use super::executor::{Executor, TaskId};
use super::history::{CallId, History};
use crate::World;

pub struct Gateway {
    /// Its own: the clocks of two machines do not agree.
    pub clock: Arc<ScriptedClock>,
    engine: Arc<dyn Engine>,
    ids: Arc<dyn Ids>,
    executor: Executor,
    history: Rc<RefCell<History>>,
    serving: RefCell<Option<Serving>>,
    starting: Cell<Option<TaskId>>,
    connections: RefCell<BTreeMap<u64, (TaskId, CallId)>>,
    connections_made: Cell<u64>,
}

struct Serving {
    app: Arc<App>,
    /// Dropping it would be taken for the end of all work.
    draining: watch::Sender<bool>,
}

impl Gateway {
    pub fn new(
        engine: Arc<dyn Engine>,
        clock: ScriptedClock,
        ids: Arc<dyn Ids>,
        executor: Executor,
        history: Rc<RefCell<History>>,
    ) -> Rc<Gateway> {
        Rc::new(Gateway {
            clock: Arc::new(clock),
            engine,
            ids,
            executor,
            history,
            serving: RefCell::default(),
            starting: Cell::default(),
            connections: RefCell::default(),
            connections_made: Cell::default(),
        })
    }

    /// Opens the store and finishes what an earlier run began. When that fails it tries again, as whoever runs it would.
    pub fn start(self: &Rc<Self>) {
        let gateway = self.clone();
        let task = self.executor.spawn(async move {
            while let Err(failure) = gateway.open().await {
                assert!(matches!(failure, partition::Failure::Fault(_)), "starting is never refused: {failure:?}");
            }
            gateway.starting.set(None);
        });
        self.starting.set(Some(task));
    }

    async fn open(&self) -> Result<(), partition::Failure> {
        let world = World::with(self.engine.clone(), self.clock.clone(), self.ids.clone()).await?;
        for account in world.app.accounts() {
            partition::directory::finish_deletions(&world.app.shell, &account.name).await?;
        }
        let draining = watch::channel(false).0;
        *self.serving.borrow_mut() = Some(Serving { app: world.app, draining });
        Ok(())
    }

    /// Everything in memory is gone, with the requests under way. The store is as it was.
    pub fn crash(&self) {
        if let Some(task) = self.starting.take() {
            self.executor.drop_task(task);
        }
        let serving = self.serving.take();
        for (task, call) in std::mem::take(&mut *self.connections.borrow_mut()).into_values() {
            self.executor.drop_task(task);
            self.history.borrow_mut().settle(call);
        }
        if let Some(serving) = serving {
            assert_eq!(Arc::strong_count(&serving.app), 1, "nothing of a crashed server lives on");
        }
    }

    pub fn is_up(&self) -> bool {
        self.serving.borrow().is_some()
    }

    /// Nobody is being served.
    pub fn is_idle(&self) -> bool {
        self.connections.borrow().is_empty()
    }

    /// A connection on which this call will be made; `None` if nobody listens.
    pub fn connect(self: &Rc<Self>, call: CallId, pipe_bytes: usize) -> Option<DuplexStream> {
        let (app, draining) = {
            let serving = self.serving.borrow();
            let serving = serving.as_ref()?;
            (serving.app.clone(), serving.draining.subscribe())
        };
        let number = self.connections_made.get() + 1;
        self.connections_made.set(number);
        let (client, mut server) = tokio::io::duplex(pipe_bytes);
        let gateway = self.clone();
        let task = self.executor.spawn(async move {
            let connection = ServiceConnection::new(Service::Blob, app, IpAddr::V4(Ipv4Addr::LOCALHOST), false);
            let _ = serve(&mut server, &connection, &Limits::default(), draining).await; // the client may have left
            gateway.connections.borrow_mut().remove(&number);
            gateway.history.borrow_mut().settle(call);
        });
        self.connections.borrow_mut().insert(number, (task, call));
        Some(client)
    }
}
