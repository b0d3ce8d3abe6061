//! A server that a test owns.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use contract::Service;
use engine::Engine;
use engine::memory::MemoryEngine;
use env::{Clock, Ids, ScriptedClock, ScriptedIds, Timestamp};
use http::account::Account;
use http::wire::{self, Connection, Limits};
use http::{App, ServiceConnection};
use partition::Shell;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;

use crate::cluster;
use crate::request::{Answer, Request};

fn start() -> Arc<ScriptedClock> {
    Arc::new(ScriptedClock::at(Timestamp::parse_iso8601("2026-01-02T03:04:05Z").expect("well formed")))
}

/// A client of ours hangs up after so much.
const ANSWER_BYTES_MAX: u64 = 80 << 20;

pub struct World {
    pub engine: Arc<dyn Engine>,
    pub clock: Arc<ScriptedClock>,
    pub app: Arc<App>,
}

impl World {
    /// Everything begins at 2026-01-02T03:04:05Z on an empty engine: the memory engine, or what `LAZULI_TEST_ENGINE` names.
    pub async fn new() -> World {
        let clock = start();
        let engine = match std::env::var("LAZULI_TEST_ENGINE").as_deref() {
            Err(_) | Ok("memory") => Arc::new(MemoryEngine::new()),
            Ok(name) => cluster::engine(name, clock.clone()).await,
        };
        Self::with(engine, clock, Arc::new(ScriptedIds::default())).await.expect("the engine opens")
    }

    pub async fn over(engine: Arc<dyn Engine>) -> World {
        Self::with(engine, start(), Arc::new(ScriptedIds::default())).await.expect("the engine opens")
    }

    pub async fn with(
        engine: Arc<dyn Engine>,
        clock: Arc<ScriptedClock>,
        ids: Arc<dyn Ids>,
    ) -> Result<World, engine::Fault> {
        let shell = Shell::open(engine.clone(), clock.clone(), ids).await?;
        let app = Arc::new(App::new(Arc::new(shell), vec![Account::development()]));
        Ok(World { engine, clock, app })
    }

    /// Signs the request with the account's key, unless it brings its own credential, and sends it.
    pub async fn send(&self, request: &Request) -> Answer {
        self.send_raw_to(request.service, &request.bytes(self.clock.now())).await
    }

    /// The same over TLS, as far as the server can tell.
    pub async fn send_secure(&self, request: &Request) -> Answer {
        self.converse(request.service, true, &request.bytes(self.clock.now())).await
    }

    /// As a client with this address would send it.
    pub async fn send_from(&self, client: IpAddr, request: &Request) -> Answer {
        let connection = ServiceConnection::new(request.service, self.app.clone(), client, false);
        self.talk(connection, &request.bytes(self.clock.now())).await
    }

    /// Sends bytes as they are to the Blob service and reads until the server closes.
    pub async fn send_raw(&self, bytes: &[u8]) -> Answer {
        self.send_raw_to(Service::Blob, bytes).await
    }

    pub async fn send_raw_to(&self, service: Service, bytes: &[u8]) -> Answer {
        self.converse(service, false, bytes).await
    }

    pub async fn send_raw_over(&self, service: Service, tls: bool, bytes: &[u8]) -> Answer {
        self.converse(service, tls, bytes).await
    }

    /// Sends bytes as they are to the port of websites.
    pub async fn visit(&self, bytes: &[u8]) -> Answer {
        self.talk(ServiceConnection::to_websites(self.app.clone(), IpAddr::V4(Ipv4Addr::LOCALHOST), false), bytes).await
    }

    async fn converse(&self, service: Service, tls: bool, bytes: &[u8]) -> Answer {
        let client_ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
        self.talk(ServiceConnection::new(service, self.app.clone(), client_ip, tls), bytes).await
    }

    /// Over a connection of any kind.
    pub async fn talk(&self, connection: impl Connection, bytes: &[u8]) -> Answer {
        let (client, mut server) = tokio::io::duplex(64 * 1024);
        let (_drain, draining) = watch::channel(false);
        let serving = async {
            let limits = Limits::default();
            let _ = wire::serve(&mut server, &connection, &limits, draining).await; // a broken pipe is the client's choice
            drop(server);
        };
        let asking = async {
            let (reader, mut writer) = tokio::io::split(client);
            let writing = async {
                let _ = writer.write_all(bytes).await; // the server may close before it has read everything
                let _ = writer.shutdown().await;
            };
            let mut answer = Vec::new();
            // Who asks for a whole sparse blob gets as much of it as it can bear.
            let reading = async { reader.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await };
            let (_, read) = tokio::join!(writing, reading);
            read.expect("a pipe");
            answer
        };
        let (_, answer) = tokio::join!(serving, asking);
        Answer::parse(answer)
    }
}
