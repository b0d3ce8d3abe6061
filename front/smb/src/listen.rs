//! Accept: sockets to connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use door::Door;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::connection::{self, Ended, Limits};
use crate::server::Server;

pub struct Listener {
    socket: TcpListener,
    server: Arc<Server>,
    connections: Arc<Door>,
    limits: Limits,
}

impl Listener {
    /// `connections` is shared by all listeners: it bounds the whole program.
    pub async fn bind(
        address: SocketAddr,
        server: Arc<Server>,
        connections: Arc<Door>,
        limits: Limits,
    ) -> io::Result<Listener> {
        Ok(Listener { socket: TcpListener::bind(address).await?, server, connections, limits })
    }

    pub fn server(&self) -> &Arc<Server> {
        &self.server
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
            if let Err(error) = stream.set_nodelay(true).and_then(|()| notice_silence(&stream)) {
                tracing::debug!(%client, %error, "a connection ended");
                continue;
            }
            let entered = match self.connections.enter(client.ip()) {
                Ok(entered) => entered,
                Err(full) => {
                    if full.is_news {
                        let why = if full.for_address { "from its address" } else { "in all" };
                        tracing::warn!(%client, why, "refused a connection: as many as allowed are open");
                    }
                    continue;
                }
            };
            let (server, limits, draining) = (self.server.clone(), self.limits, draining.clone());
            let counted = server.count_connection();
            tasks.spawn(async move {
                let (reader, writer) = stream.into_split();
                match connection::serve(server, reader, writer, client, limits, draining).await {
                    Ok(()) => {}
                    Err(Ended::Io(error)) => tracing::debug!(%client, %error, "a connection ended"),
                    Err(Ended::Broken(why)) => tracing::info!(%client, why, "a connection was ended"),
                }
                drop((entered, counted));
            });
        }
        drop(self.socket);
        let all_done = async { while tasks.join_next().await.is_some() {} };
        if timeout(grace, all_done).await.is_err() {
            tracing::warn!(service = "smb", "requests were still under way when the grace period ended");
        }
    }
}

/// A client may rest for as long as it likes while it has something open. One that is gone without a word, for its machine lost power or the
/// way to it is cut, must not: what it has open and locked would be so for ever. So the system asks whether it is there.
fn notice_silence(stream: &TcpStream) -> io::Result<()> {
    const ASKED_AFTER: Duration = Duration::from_secs(60);
    const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(15);
    const ASKED_TIMES: u32 = 4;
    let socket = SockRef::from(stream);
    let asking = TcpKeepalive::new().with_time(ASKED_AFTER).with_interval(ASKED_AGAIN_AFTER).with_retries(ASKED_TIMES);
    socket.set_tcp_keepalive(&asking)?;
    // Nobody is asked while something is on its way; that is not to take longer to be noticed.
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(ASKED_AFTER + ASKED_AGAIN_AFTER * ASKED_TIMES))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn silence_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let there = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("it listens");
        let (here, _) = listener.accept().await.expect("somebody came");
        notice_silence(&here).expect("a socket");
        assert!(SockRef::from(&here).keepalive().expect("a socket"));
        drop(there);
    }
}
