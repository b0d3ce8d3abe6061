//! A server over the shared store, as the program would run it: opened, serving connections, and at any moment no more.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use contract::Service;
use contract::names::AccountName;
use engine::{BoxFuture, Engine};
use env::{Ids, ScriptedClock};
use http::wire::{Limits, serve};
use http::{App, ServiceConnection};
use smb::connection;
use tokio::io::DuplexStream;
use tokio::sync::watch;

use super::executor::{Executor, Spawner, TaskId};
use super::history::{CallId, History};
use super::smb::client::Line;
use crate::{ACCOUNT, KEY, World};

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
    lines: RefCell<BTreeMap<u64, (TaskId, Rc<Line>)>>,
}

struct Serving {
    app: Arc<App>,
    smb: Arc<smb::Server>,
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
            lines: RefCell::default(),
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
        let tasks = Box::new(Tasks(self.executor.spawner()));
        let budget = smb::memory::Budget::new(smb::memory::BUDGET_MIB_DEFAULT);
        let smb = smb::Server::with_tasks(world.app.shell.clone(), Box::new(Known), false, budget, tasks);
        *self.serving.borrow_mut() = Some(Serving { app: world.app, smb, draining });
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
        let lines = self.lines.take();
        for (family, line) in lines.into_values() {
            line.lose(&mut self.history.borrow_mut(), true);
            self.executor.drop_family(family);
        }
        if let Some(serving) = serving {
            forget_sessions(&serving.smb);
            assert_eq!(Arc::strong_count(&serving.app), 1, "nothing of a crashed server lives on");
        }
    }

    pub fn is_up(&self) -> bool {
        self.serving.borrow().is_some()
    }

    /// Nobody is being served.
    pub fn is_idle(&self) -> bool {
        self.connections.borrow().is_empty() && self.lines.borrow().is_empty()
    }

    /// A connection of an SMB client; `None` if nobody listens.
    pub fn connect_smb(self: &Rc<Self>, line: &Rc<Line>, pipe_bytes: usize) -> Option<DuplexStream> {
        let (server, draining) = {
            let serving = self.serving.borrow();
            let serving = serving.as_ref()?;
            (serving.smb.clone(), serving.draining.subscribe())
        };
        let number = self.next_connection();
        let (client, own) = tokio::io::duplex(pipe_bytes);
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 445);
        let serving = async move {
            let (reader, writer) = tokio::io::split(own);
            let _ = connection::serve(server, reader, writer, address, connection::Limits::default(), draining).await; // the client may have left
        };
        let (gateway, ended) = (self.clone(), line.clone());
        let family = self.executor.spawn_family(serving, move || {
            gateway.lines.borrow_mut().remove(&number);
            ended.over(&mut gateway.history.borrow_mut());
        });
        self.lines.borrow_mut().insert(number, (family, line.clone()));
        Some(client)
    }

    fn next_connection(&self) -> u64 {
        self.connections_made.set(self.connections_made.get() + 1);
        self.connections_made.get()
    }

    /// A connection on which this call will be made; `None` if nobody listens.
    pub fn connect(self: &Rc<Self>, service: Service, call: CallId, pipe_bytes: usize) -> Option<DuplexStream> {
        let (app, draining) = {
            let serving = self.serving.borrow();
            let serving = serving.as_ref()?;
            (serving.app.clone(), serving.draining.subscribe())
        };
        let number = self.next_connection();
        let (client, mut server) = tokio::io::duplex(pipe_bytes);
        let gateway = self.clone();
        let task = self.executor.spawn(async move {
            let connection = ServiceConnection::new(service, app, IpAddr::V4(Ipv4Addr::LOCALHOST), false);
            let _ = serve(&mut server, &connection, &Limits::default(), draining).await; // the client may have left
            gateway.connections.borrow_mut().remove(&number);
            gateway.history.borrow_mut().settle(call);
        });
        self.connections.borrow_mut().insert(number, (task, call));
        Some(client)
    }
}

/// Tasks of the SMB server, in the order that chance gives all of them.
struct Tasks(Spawner);

impl smb::Tasks for Tasks {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.0.spawn(task);
    }
}

/// The one account there is.
struct Known;

impl smb::Accounts for Known {
    fn find(&self, name: &str) -> Option<(AccountName, Vec<String>)> {
        Some((AccountName::parse(name).filter(|_| name == ACCOUNT)?, vec![KEY.to_string()]))
    }
}

/// Sessions and connections know each other: who forgets them as a crash does has to part them first.
fn forget_sessions(server: &smb::Server) {
    for session in server.sessions() {
        for connection in session.connections() {
            session.remove_channel(connection.id);
        }
        session.end();
    }
}
