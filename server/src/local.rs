//! A server in this process, for a while: of a directory that nothing serves, on ports of this machine that nobody was told.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use contract::Service;
use door::{Door, Places};
use http::account::Account;
use http::{App, Doors, Listener, Served};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::client::Endpoints;
use crate::config::EngineSettings;
use crate::storage::Storage;

pub struct Local {
    storage: Storage,
    drain: watch::Sender<bool>,
    running: Vec<JoinHandle<()>>,
    pub endpoints: Endpoints,
}

impl Local {
    /// `choose` says in whose name, of the accounts that the directory keeps.
    pub async fn open(
        data: &Path,
        durability: embedded::Durability,
        choose: impl FnOnce(Vec<Account>) -> Result<Account, String>,
    ) -> Result<Local, String> {
        let storage = Storage::open(&EngineSettings::Embedded { data: data.to_owned(), durability }).await?;
        let account = choose(crate::accounts::served(&storage.shell()).await?)?;
        let app = Arc::new(App::new(storage.shell(), vec![account.clone()]));
        let (drain, draining) = watch::channel(false);
        let places = Places { all: 1024, per_address: 1024 };
        let doors = Doors::new(places, places, Door::new(Places { all: usize::MAX, per_address: usize::MAX }));
        let limits = http::wire::Limits::new(Duration::from_secs(60), Duration::from_secs(60));
        let (mut ports, mut running) = ([0; 4], Vec::new());
        for (port, service) in ports.iter_mut().zip([Service::Blob, Service::Queue, Service::Table, Service::File]) {
            let address = (IpAddr::V4(Ipv4Addr::LOCALHOST), 0).into();
            let listener = Listener::bind(Served::Service(service), address, None, app.clone(), doors.clone(), limits);
            let listener = listener.await.map_err(|error| error.to_string())?;
            *port = listener.address().map_err(|error| format!("cannot tell where it listens: {error}"))?.port();
            running.push(tokio::spawn(listener.run(draining.clone(), Duration::from_secs(5))));
        }
        Ok(Local { storage, drain, running, endpoints: Endpoints::on(account, ports) })
    }

    pub async fn close(self) -> Result<(), String> {
        self.drain.send_replace(true);
        for listener in self.running {
            let _ = listener.await; // one that panicked has nothing left to finish
        }
        self.storage.close().await
    }
}
