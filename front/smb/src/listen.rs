//! Accept: sockets to connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::connection::{self, Ended};
use crate::server::Server;

pub struct Listener {
    socket: TcpListener,
    server: Arc<Server>,
    connections: Arc<Semaphore>,
}

impl Listener {
    /// `connections` is shared by all listeners: it bounds the whole program.
    pub async fn bind(address: SocketAddr, server: Arc<Server>, connections: Arc<Semaphore>) -> io::Result<Listener> {
        Ok(Listener { socket: TcpListener::bind(address).await?, server, connections })
    }

    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Accepts until `draining` turns true, then lets the requests under way finish, at most `grace`.
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
                    tracing::warn!(%error, service = "smb", "accepting a connection failed");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                }
            };
            // Answers are whole frames: waiting for more gains nothing.
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%client, %error, "a connection ended");
                continue;
            }
            let Ok(permit) = self.connections.clone().try_acquire_owned() else {
                tracing::warn!(%client, "refused a connection: as many as allowed are open");
                continue;
            };
            let (server, draining) = (self.server.clone(), draining.clone());
            tasks.spawn(async move {
                let (reader, writer) = stream.into_split();
                match connection::serve(server, reader, writer, client, draining).await {
                    Ok(()) => {}
                    Err(Ended::Io(error)) => tracing::debug!(%client, %error, "a connection ended"),
                    Err(Ended::Broken(why)) => tracing::info!(%client, why, "a connection was ended"),
                }
                drop(permit);
            });
        }
        drop(self.socket);
        let all_done = async { while tasks.join_next().await.is_some() {} };
        if timeout(grace, all_done).await.is_err() {
            tracing::warn!(service = "smb", "requests were still under way when the grace period ended");
        }
    }
}
