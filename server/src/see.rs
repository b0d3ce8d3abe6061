//! What is seen of the server: the console's listener, and what it is told.

use std::net::SocketAddr;
use std::sync::Arc;

use console::{Console, ConsoleHost};
use contract::Service;
use door::{Door, Places};
use http::{App, Doors, Listener};
use tokio_rustls::TlsAcceptor;

use crate::config::{Port, Settings};

/// The console has doors of its own: whoever fills those of the services does not keep its people, or a monitor, out.
const CONNECTIONS: Places = Places { all: 512, per_address: 256 };

/// Binds the console's socket, unless it is off.
pub async fn listen(
    settings: &Settings,
    app: &Arc<App>,
    services: Vec<(Service, SocketAddr)>,
    acceptor: Option<TlsAcceptor>,
) -> Result<Option<Listener<ConsoleHost>>, String> {
    let Port::On(port) = settings.console_port else { return Ok(None) };
    let console = Console::new(app.clone(), services, settings.smb_port != Port::Off);
    let doors = Doors { connections: Door::new(CONNECTIONS), requests: Door::new(CONNECTIONS) };
    let address = (settings.host, port).into();
    let bound = Listener::of(ConsoleHost(console.clone()), address, acceptor, doors, settings.limits.of_http()).await;
    let listener = bound.map_err(|error| error.to_string())?;
    console.set_address(listener.address().map_err(|error| format!("cannot tell where it listens: {error}"))?);
    Ok(Some(listener))
}
