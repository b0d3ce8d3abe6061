//! What all connections share: who may come in, the sessions, what is open.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use contract::names::AccountName;
use engine::BoxFuture;
use partition::execute::Shell;
use partition::file::opens::LeaseKey;
use tokio::sync::oneshot;

use crate::connection::{Connection, lock};
use crate::durable::Durables;
use crate::memory::Budget;
use crate::notify::Watches;
use crate::open::Open;
use crate::session::Session;
use crate::wire::create::FileId;

/// Who may come in: the account of this name, and the keys it has as text.
pub trait Accounts: Send + Sync {
    fn find(&self, name: &str) -> Option<(AccountName, Vec<String>)>;
}

/// Who runs what outlives the request that began it.
pub trait Tasks: Send + Sync {
    fn spawn(&self, task: BoxFuture<'static, ()>);
}

/// The runtime that serves.
pub struct Spawned;

impl Tasks for Spawned {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        tokio::spawn(task);
    }
}

pub struct Server {
    this: Weak<Server>,
    pub shell: Arc<Shell>,
    accounts: Box<dyn Accounts>,
    tasks: Box<dyn Tasks>,
    /// What it calls itself.
    pub name: String,
    pub guid: [u8; 16],
    requires_encryption: bool,
    /// What all connections may hold in memory.
    pub budget: Arc<Budget>,
    sessions: Mutex<BTreeMap<u64, Arc<Session>>>,
    last_id: AtomicU64,
    connections: Arc<()>,
    pub watches: Watches,
    pub durables: Durables,
}

/// A connection, as long as it is kept.
pub struct Counted {
    _connection: Arc<()>,
}

impl Server {
    /// Counts a connection until what is given back is dropped.
    pub fn count_connection(&self) -> Counted {
        Counted { _connection: self.connections.clone() }
    }

    /// How many connections there are, and how many sessions.
    pub fn counts(&self) -> (usize, usize) {
        (Arc::strong_count(&self.connections) - 1, lock(&self.sessions).len())
    }

    pub fn new(
        shell: Arc<Shell>,
        accounts: Box<dyn Accounts>,
        requires_encryption: bool,
        budget: Arc<Budget>,
    ) -> Arc<Server> {
        Server::with_tasks(shell, accounts, requires_encryption, budget, Box::new(Spawned))
    }

    pub fn with_tasks(
        shell: Arc<Shell>,
        accounts: Box<dyn Accounts>,
        requires_encryption: bool,
        budget: Arc<Budget>,
        tasks: Box<dyn Tasks>,
    ) -> Arc<Server> {
        let guid = shell.ids.next().0.to_le_bytes();
        Arc::new_cyclic(|this| Server {
            this: this.clone(),
            shell,
            accounts,
            tasks,
            name: "LAZULI".to_owned(),
            guid,
            requires_encryption,
            budget,
            sessions: Mutex::default(),
            last_id: AtomicU64::new(0),
            connections: Arc::default(),
            watches: Watches::default(),
            durables: Durables::default(),
        })
    }

    /// For those who outlive a request. `None` when the server goes away.
    pub fn this(&self) -> Option<Arc<Server>> {
        self.this.upgrade()
    }

    /// Runs something by itself, whatever becomes of who asked for it. What is handed back ends with it.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> oneshot::Receiver<()> {
        let (running, over) = oneshot::channel();
        self.tasks.spawn(Box::pin(async move {
            task.await;
            drop(running);
        }));
        over
    }

    pub fn requires_encryption(&self) -> bool {
        self.requires_encryption
    }

    /// Unique in this process.
    pub fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Never used before, by an earlier run of the program either.
    pub fn new_file_id(&self) -> FileId {
        let id = self.shell.ids.next().0;
        FileId { persistent: (id >> 64) as u64, volatile: id as u64 }
    }

    /// Nobody can tell the next from the last.
    pub fn next_session_id(&self) -> u64 {
        loop {
            // Some clients keep no more of it.
            let id = u64::from(self.shell.ids.next().0 as u32);
            if id != 0 && !lock(&self.sessions).contains_key(&id) {
                return id;
            }
        }
    }

    pub fn passwords(&self, user: &str) -> Vec<String> {
        self.accounts.find(user).map(|(_, passwords)| passwords).unwrap_or_default()
    }

    pub fn account(&self, user: &str) -> Option<AccountName> {
        self.accounts.find(user).map(|(account, _)| account)
    }

    pub fn session(&self, id: u64) -> Option<Arc<Session>> {
        lock(&self.sessions).get(&id).cloned()
    }

    /// The connection that the client with a lease has had for the longest time. Others may call themselves the same.
    pub fn oldest_connection(&self, lease: &LeaseKey) -> Option<(Arc<Connection>, Arc<Session>)> {
        let sessions = lock(&self.sessions);
        let is_client = |session: &Session| session.agreed.client == lease.client && lease.is_of(&session.account);
        let of_client = sessions.values().filter(|session| is_client(session));
        let connections =
            of_client.filter_map(|session| Some((session.connections().first()?.clone(), session.clone())));
        connections.min_by_key(|(connection, _)| connection.id)
    }

    pub fn sessions(&self) -> Vec<Arc<Session>> {
        lock(&self.sessions).values().cloned().collect()
    }

    pub fn add_session(&self, session: &Arc<Session>) {
        lock(&self.sessions).insert(session.id, session.clone());
    }

    /// The session a client had before it came back, if it is the same client. What survives waits to be asked for.
    pub async fn end_previous(&self, id: u64, account: &AccountName) {
        if let Some(session) = self.session(id).filter(|session| session.account == *account) {
            self.end_session(&session).await;
        }
    }

    /// Ends a session: its client left, or its last connection was lost, or it cannot prove any more whose it is.
    pub async fn end_session(&self, session: &Arc<Session>) {
        lock(&self.sessions).remove(&session.id);
        for connection in session.connections() {
            lock(&connection.sessions).remove(&session.id);
        }
        let (Some(own), opens) = (self.this(), session.end()) else { return };
        // By itself, so that it is done whatever becomes of the connection that asked for it.
        let closing = self.spawn(async move {
            for open in opens {
                own.lose(open).await;
            }
        });
        // Nothing is ever sent: it ends with its sender.
        let _ = closing.await;
    }

    /// An open whose client is gone: kept if it was promised, closed otherwise.
    async fn lose(&self, open: Arc<Open>) {
        if !self.durables.keep(self, &open) {
            open.close(self).await;
        }
    }

    pub async fn connection_ended(&self, connection: &Connection) {
        let sessions = std::mem::take(&mut *lock(&connection.sessions));
        for session in sessions.into_iter().filter_map(|id| self.session(id)) {
            if session.remove_channel(connection.id) {
                self.end_session(&session).await;
            }
        }
    }
}
