//! Gateways on one cluster in memory, which reach each other over sockets.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use contract::Service;
use contract::names::ShareName;
use door::{Door, Places};
use engine::GroupId;
use env::{ScriptedClock, SystemIds, Timestamp};
use http::account::Account;
use http::wire::Limits;
use http::{Doors, Listener, Served};
use partition::file::share;
use rados::fake::Fake;
use rados::{Options, Rados};
use testing::{Answer, Request, World};
use tokio::sync::watch;

pub struct Gateway {
    pub world: World,
    /// Where the others reach it.
    pub peer: SocketAddr,
    _drain: watch::Sender<bool>,
    listening: tokio::task::JoinHandle<()>,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

pub struct Cluster {
    pub objects: Fake,
    pub clock: Arc<ScriptedClock>,
}

impl Cluster {
    pub fn new() -> Cluster {
        let start = Timestamp::parse_iso8601("2026-01-02T03:04:05Z").expect("well formed");
        Cluster { objects: Fake::default(), clock: Arc::new(ScriptedClock::at(start)) }
    }

    /// One more gateway.
    pub async fn gateway(&self) -> Gateway {
        self.gateway_known_as(None).await
    }

    /// One that the others look for somewhere else.
    pub async fn gateway_at(&self, address: SocketAddr) -> Gateway {
        self.gateway_known_as(Some(address)).await
    }

    async fn gateway_known_as(&self, address: Option<SocketAddr>) -> Gateway {
        let ids = Arc::new(SystemIds::new());
        let objects = Arc::new(self.objects.clone());
        let engine = Rados::open(objects, self.clock.clone(), ids.as_ref(), Options::new(|_| 1)).await.expect("opened");
        let world = World::with(engine.clone(), self.clock.clone(), ids).await.expect("opened");
        world.app.join_peers().await.expect("joined");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let places = Places { all: 100, per_address: 100 };
        let (doors, limits) =
            (Doors::new(places, places, Door::new(Places { all: 1 << 30, per_address: 1 << 30 })), Limits::default());
        let listener = Listener::bind(Served::Peers, any, None, world.app.clone(), doors, limits);
        let listener = listener.await.expect("a port");
        let peer = listener.address().expect("bound");
        let shell = Arc::downgrade(&world.app.shell);
        let on_loss = move |group: GroupId| {
            if let Some(shell) = shell.upgrade() {
                shell.tenures().expect("joined").lost(&group);
            }
        };
        engine.introduce(address.unwrap_or(peer).to_string(), Arc::new(on_loss));
        let (drain, draining) = watch::channel(false);
        let listening = tokio::spawn(listener.run(draining, Duration::ZERO));
        Gateway { world, peer, _drain: drain, listening }
    }

    /// Two gateways, and the share `share` with the file `f` of 8 bytes. The first one owns it.
    pub async fn two() -> (Cluster, Gateway, Gateway) {
        let cluster = Cluster::new();
        let (one, two) = (cluster.gateway().await, cluster.gateway().await);
        one.done(file("PUT share?restype=share")).await;
        one.done(file("PUT share/f").header("x-ms-type", "file").header("x-ms-content-length", "8")).await;
        (cluster, one, two)
    }
}

impl Gateway {
    pub async fn send(&self, request: &Request) -> Answer {
        self.world.send(request).await
    }

    /// As a client with this address would.
    pub async fn send_from(&self, client: &str, request: &Request) -> Answer {
        let client: IpAddr = client.parse().expect("an address");
        self.world.send_from(client, request).await
    }

    pub async fn done(&self, request: Request) -> Answer {
        let answer = self.send(&request).await;
        assert!((200..300).contains(&answer.status), "{} {}: {answer:?}", request.method, request.path);
        answer
    }

    /// The group of `share`.
    pub async fn group(&self) -> GroupId {
        let name = ShareName::parse("share").expect("right");
        let found = share::find(&self.world.app.shell, &Account::development().name, &name, None).await;
        found.expect("the share").group().clone()
    }
}

pub fn file(line: &str) -> Request {
    Request::new(line).of(Service::File)
}

pub fn put_range(path: &str, first: usize, content: impl Into<Vec<u8>>) -> Request {
    let content = content.into();
    let range = format!("bytes={first}-{}", first + content.len() - 1);
    let request = file(&format!("PUT share/{path}?comp=range")).header("x-ms-write", "update");
    request.header("x-ms-range", range).body(content)
}
