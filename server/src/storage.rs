//! The engine that was chosen, open.

use std::sync::Arc;

use embedded::{Embedded, Options};
use env::{SystemClock, SystemIds};
use http::App;
use partition::Shell;

use crate::cluster::Cluster;
use crate::config::EngineSettings;
use crate::control::{self, Control};

pub enum Storage {
    Embedded { engine: Arc<Embedded>, shell: Arc<Shell> },
    Cluster(Cluster),
}

impl Storage {
    pub async fn open(settings: &EngineSettings) -> Result<Storage, String> {
        match settings {
            EngineSettings::Embedded { data, durability } => {
                let options = Options { durability: *durability, ..Options::new(data) };
                let opening = tokio::task::spawn_blocking(|| Embedded::open(options));
                let engine = opening.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
                Storage::of(engine).await
            }
            EngineSettings::Rados(settings) => Cluster::open(settings).await.map(Storage::Cluster),
        }
    }

    /// A directory that is open.
    pub async fn of(engine: Arc<Embedded>) -> Result<Storage, String> {
        let shell = Shell::open(engine.clone(), Arc::new(SystemClock), Arc::new(SystemIds::new()));
        let shell = Arc::new(shell.await.map_err(|fault| fault.to_string())?);
        Ok(Storage::Embedded { engine, shell })
    }

    pub fn shell(&self) -> Arc<Shell> {
        match self {
            Storage::Embedded { shell, .. } => shell.clone(),
            Storage::Cluster(cluster) => cluster.shell.clone(),
        }
    }

    /// Lets other processes on this machine ask for what only this one has.
    pub fn control(&self, settings: &EngineSettings) -> Option<Control> {
        match (self, settings) {
            (Storage::Embedded { engine, .. }, EngineSettings::Embedded { data, .. }) => control::listen(engine, data),
            _ => None,
        }
    }

    /// Keeps accounts and properties as they are where others may change them.
    pub async fn listen(&self, app: &Arc<App>) -> Result<(), String> {
        match self {
            Storage::Embedded { .. } => Ok(()),
            Storage::Cluster(cluster) => cluster.listen(app).await,
        }
    }

    /// When nothing uses it any more.
    pub async fn close(self) -> Result<(), String> {
        match self {
            Storage::Embedded { engine, shell } => {
                drop(shell);
                let closing = tokio::task::spawn_blocking(move || engine.close());
                closing.await.map_err(|error| error.to_string())?.map_err(|fault| fault.to_string())
            }
            Storage::Cluster(cluster) => cluster.close().await,
        }
    }
}
