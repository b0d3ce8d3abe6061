//! Accept: sockets to connections, TLS, the limit on how many, and a drain that lets every request under way finish.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use contract::Service;
use door::{Door, Entered, Places};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::app::App;
use crate::trace;
use crate::wire::{self, Body, Connection, Head, HeadError, Limits, Response, ResponseBody};

/// What a socket is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Served {
    Service(Service),
    /// The static websites of all accounts.
    Websites,
    /// What other gateways pass on.
    Peers,
    /// Tokens for development. Managed identities are asked without TLS and directories with it, so it speaks both.
    Issuer,
}

impl Served {
    pub fn name(self) -> &'static str {
        match self {
            Served::Service(service) => service.name(),
            Served::Websites => "web",
            Served::Peers => "peer",
            Served::Issuer => "dev-token",
        }
    }
}

/// Who answers on a socket.
pub trait Host: Send + Sync + 'static {
    type Guest: Connection + Send + Sync + 'static;

    /// As it stands in the log, and in the flag of its port.
    fn name(&self) -> &'static str;

    /// A client has come in. `doors` bound what it may have under way.
    fn receive(&self, client: IpAddr, tls: bool, doors: &Doors) -> Self::Guest;
}

/// One of the services, the websites, or what other gateways ask.
pub struct Services {
    served: Served,
    app: Arc<App>,
}

impl Host for Services {
    type Guest = ServiceConnection;

    fn name(&self) -> &'static str {
        self.served.name()
    }

    fn receive(&self, client: IpAddr, tls: bool, doors: &Doors) -> ServiceConnection {
        let bounds = Some((doors.requests.clone(), doors.memory.clone()));
        ServiceConnection { served: self.served, app: self.app.clone(), client, tls, bounds }
    }
}

/// One host on one socket.
pub struct Listener<H: Host = Services> {
    host: H,
    socket: TcpListener,
    tls: Option<TlsAcceptor>,
    doors: Doors,
    limits: Limits,
}

/// Shared by all listeners: they bound the whole server.
#[derive(Clone)]
pub struct Doors {
    pub connections: Arc<Door>,
    /// Requests under way.
    pub requests: Arc<Door>,
    /// Bytes of bodies and answers that are held whole; what is short is not counted.
    pub memory: Arc<Door>,
    /// Those who are told that there is no place for them. Each has a file for as long as it listens, so they are counted, too.
    away: Arc<Door>,
}

impl Doors {
    /// How many are told at once; whoever comes on top of them finds the connection closed.
    pub const AWAY: Places = Places { all: 64, per_address: 32 };

    pub fn new(connections: Places, requests: Places, memory: Arc<Door>) -> Doors {
        let (connections, requests) = (Door::new(connections), Door::new(requests));
        Doors { connections, requests, memory, away: Door::new(Doors::AWAY) }
    }
}

/// The socket could not be had.
#[derive(Debug)]
pub struct ListenError {
    pub name: &'static str,
    pub address: SocketAddr,
    pub source: io::Error,
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name;
        write!(f, "cannot listen on {} for the {name} service: {}", self.address, self.source)?;
        if self.source.kind() == io::ErrorKind::AddrInUse {
            write!(
                f,
                " (another program has the port; choose another with --{name}-port, 0 for any free one, `off` for none)"
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for ListenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl Listener {
    pub async fn bind(
        served: Served,
        address: SocketAddr,
        tls: Option<TlsAcceptor>,
        app: Arc<App>,
        doors: Doors,
        limits: Limits,
    ) -> Result<Listener, ListenError> {
        Listener::of(Services { served, app }, address, tls, doors, limits).await
    }

    pub fn served(&self) -> Served {
        self.host.served
    }
}

impl<H: Host> Listener<H> {
    pub async fn of(
        host: H,
        address: SocketAddr,
        tls: Option<TlsAcceptor>,
        doors: Doors,
        limits: Limits,
    ) -> Result<Listener<H>, ListenError> {
        let bound = TcpListener::bind(address).await;
        let socket = bound.map_err(|source| ListenError { name: host.name(), address, source })?;
        Ok(Listener { host, socket, tls, doors, limits })
    }

    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Accepts until `draining` turns true, then waits for the requests under way, at most `grace`.
    pub async fn run(self, mut draining: watch::Receiver<bool>, grace: Duration) {
        let mut tasks = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                _ = draining.wait_for(|draining| *draining) => break,
            };
            while tasks.try_join_next().is_some() {}
            let (stream, client) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, or a client gone already. Accepting again at once would spin.
                    tracing::warn!(%error, service = self.host.name(), "accepting a connection failed");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                }
            };
            let (acceptor, limits, draining) = (self.tls.clone(), self.limits, draining.clone());
            let entered = match self.doors.connections.enter(client.ip()) {
                Ok(entered) => entered,
                Err(full) => {
                    if full.is_news {
                        let why = if full.for_address { "from its address" } else { "in all" };
                        tracing::warn!(%client, why, "refused a connection: as many as allowed are open");
                    }
                    // What is not encrypted means nothing to who speaks TLS.
                    if acceptor.is_none()
                        && let Ok(told) = self.doors.away.enter(client.ip())
                    {
                        tasks.spawn(turn_away(stream, limits, told));
                    }
                    continue;
                }
            };
            let connection = self.host.receive(client.ip(), acceptor.is_some(), &self.doors);
            tasks.spawn(async move {
                if let Err(error) = converse(stream, acceptor, &connection, &limits, draining).await {
                    tracing::debug!(%client, %error, "a connection ended");
                }
                drop(entered);
            });
        }
        drop(self.socket);
        let all_done = async { while tasks.join_next().await.is_some() {} };
        if timeout(grace, all_done).await.is_err() {
            tracing::warn!(service = self.host.name(), "requests were still under way when the grace period ended");
        }
    }
}

async fn converse(
    mut stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    connection: &impl Connection,
    limits: &Limits,
    draining: watch::Receiver<bool>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let acceptor = match acceptor {
        Some(_) if connection.may_lack_tls() && !speaks_tls(&stream, limits).await? => None,
        acceptor => acceptor,
    };
    match acceptor {
        None => wire::serve(&mut stream, connection, limits, draining).await,
        Some(acceptor) => {
            let accepting = timeout(limits.head, acceptor.accept(stream));
            let mut stream = accepting.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
            let served = wire::serve(&mut stream, connection, limits, draining).await;
            // The end is said, so that nobody takes it for a cut; to whoever is still there.
            let _ = timeout(Duration::from_secs(1), stream.shutdown()).await;
            served
        }
    }
}

/// The first byte tells: no method begins with that of a handshake.
async fn speaks_tls(stream: &TcpStream, limits: &Limits) -> io::Result<bool> {
    const HANDSHAKE: u8 = 22;
    let mut first = [0];
    let peeking = timeout(limits.head, stream.peek(&mut first));
    peeking.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    Ok(first == [HANDSHAKE])
}

async fn turn_away(mut stream: TcpStream, limits: Limits, told: Entered) {
    let _ = timeout(Duration::from_secs(1), wire::turn_away(&mut stream, &limits)).await; // it may have left
    drop((stream, told)); // in this order: the place is its file's
}

/// A client's connection to one service, or to the websites; or another gateway's.
pub struct ServiceConnection {
    served: Served,
    app: Arc<App>,
    client: IpAddr,
    tls: bool,
    /// What bounds the requests under way, and the bytes that are held for them.
    bounds: Option<(Arc<Door>, Arc<Door>)>,
}

/// Bodies and answers up to this size are not counted: every connection may have that much.
const UNCOUNTED_BYTES_MAX: usize = 64 * 1024;

/// An answer, and the room that it takes until it is sent.
struct Held(Bytes, #[expect(dead_code, reason = "it is given back on drop")] Entered);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl ServiceConnection {
    pub fn new(service: Service, app: Arc<App>, client: IpAddr, tls: bool) -> Self {
        ServiceConnection { served: Served::Service(service), app, client, tls, bounds: None }
    }

    pub fn to_websites(app: Arc<App>, client: IpAddr, tls: bool) -> Self {
        ServiceConnection { served: Served::Websites, app, client, tls, bounds: None }
    }

    /// Whose words errors are in: a website's are those of the Blob service. Gateways pass on what is about shares.
    fn service(&self) -> Service {
        match self.served {
            Served::Service(service) => service,
            Served::Websites | Served::Issuer => Service::Blob,
            Served::Peers => Service::File,
        }
    }

    async fn answer_entered(&self, head: &Head, body: &mut Body<'_>) -> Response {
        match self.served {
            Served::Service(service) => self.app.answer(service, self.client, self.tls, head, body).await,
            // Apart, so that what a service's answer is made in is no larger than that needs.
            Served::Websites => Box::pin(self.app.visit(self.client, self.tls, head)).await,
            Served::Peers => Box::pin(self.app.answer_peer(head, body)).await,
            Served::Issuer => Box::pin(self.app.issue(head, body)).await,
        }
    }
}

impl ServiceConnection {
    async fn answer_traced(&self, head: &Head, body: &mut Body<'_>) -> Response {
        match self.app.tracer() {
            Some(tracer) if self.served != Served::Issuer => {
                let client = trace::Client { service: self.service(), address: self.client, tls: self.tls };
                let shell = &self.app.shell;
                let answering = self.answer_entered(head, body);
                Box::pin(trace::follow(tracer, (&shell.clock, shell.ids.as_ref()), client, head, answering)).await
            }
            _ => self.answer_entered(head, body).await,
        }
    }

    /// A long answer that is there as a whole stays for as long as its reader takes: there is room for it, or it is not given. What changed
    /// something is answered in any case, because it was done.
    fn within(&self, memory: &Arc<Door>, head: &Head, mut response: Response) -> Response {
        let ResponseBody::Bytes(bytes) = &mut response.body else { return response };
        if bytes.len() <= UNCOUNTED_BYTES_MAX {
            return response;
        }
        match memory.enter_as(bytes.len(), self.client) {
            Ok(held) => *bytes = Bytes::from_owner(Held(std::mem::take(bytes), held)),
            Err(full) if head.method() == "GET" => {
                let refusal = self.app.busy(self.service(), head);
                if full.is_news {
                    let request = refusal.request_id();
                    tracing::warn!(request, client = %self.client, "refused an answer: as much as allowed is held for clients");
                }
                return refusal;
            }
            Err(_) => {}
        }
        response
    }
}

impl Connection for ServiceConnection {
    async fn answer(&self, head: &Head, body: &mut Body<'_>) -> Response {
        let Some((requests, memory)) = &self.bounds else { return self.answer_traced(head, body).await };
        // For as long as it takes to find the answer: whoever reads it slowly holds up nobody.
        let _entered = match requests.enter(self.client) {
            Ok(entered) => entered,
            Err(full) => {
                let refusal = self.app.busy(self.service(), head);
                if full.is_news {
                    let request = refusal.request_id();
                    tracing::warn!(request, client = %self.client, "refused a request: as many as allowed are under way");
                }
                return refusal;
            }
        };
        if !body.is_at_most(UNCOUNTED_BYTES_MAX as u64) {
            body.count(memory.clone(), self.client);
        }
        let response = self.answer_traced(head, body).await;
        self.within(memory, head, response)
    }

    fn refuse(&self, error: HeadError) -> Response {
        self.app.refuse(self.service(), error)
    }

    fn may_lack_tls(&self) -> bool {
        self.served == Served::Issuer
    }

    fn panicked(&self, head: &Head) -> Response {
        self.app.panicked(self.service(), head)
    }
}
