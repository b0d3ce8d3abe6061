//! The console: one more listener, with pages, the services' own API for whoever is signed in, views of what goes on, metrics and health.
//!
//! Invariants:
//! 1. Nobody gets at an account without one of its keys; a session is of one account and sees nothing of another (`sessions`, `data`).
//! 2. What is stored is never run on the console's origin, whatever it says it is (`data`).
//! 3. No answer has a key or a signature in it.

mod answers;
mod assets;
mod counts;
mod data;
mod guard;
mod health;
mod metrics;
mod pages;
mod rings;
mod sessions;
mod sign_in;
mod views;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};

use contract::Service;
use door::Door;
use http::wire::{Body, Connection, Head, HeadError, Response};
use http::{App, Doors, Host};

pub use counts::Watch;
pub use health::Program;
pub use metrics::{Metric, Text};
use rings::Rings;
use sessions::Sessions;

/// All that the console knows; shared by its connections.
pub struct Console {
    app: Arc<App>,
    watch: Arc<Watch>,
    program: Arc<dyn Program>,
    sessions: Sessions,
    /// Where the services are reached, those that are served.
    services: Vec<(Service, SocketAddr)>,
    has_smb: bool,
    /// Where the console is.
    address: OnceLock<SocketAddr>,
}

impl Console {
    /// From here on it hears of every request to the services. To be made before anybody is served.
    pub fn new(
        app: Arc<App>,
        services: Vec<(Service, SocketAddr)>,
        has_smb: bool,
        program: Arc<dyn Program>,
    ) -> Arc<Console> {
        let watch = Arc::new(Watch::new(Rings::new(app.shell.clock.now())));
        app.set_observer(watch.clone());
        let (sessions, address) = (Sessions::default(), OnceLock::new());
        Arc::new(Console { app, watch, program, sessions, services, has_smb, address })
    }

    /// Where it listens. Set once, before anybody is served.
    pub fn set_address(&self, address: SocketAddr) {
        let _ = self.address.set(address); // the first one stays
    }

    fn port(&self) -> u16 {
        self.address.get().map_or(0, SocketAddr::port)
    }

    /// Is it only for this machine?
    fn is_local(&self) -> bool {
        self.address.get().is_none_or(|address| address.ip().is_loopback())
    }
}

/// The console on a socket.
pub struct ConsoleHost(pub Arc<Console>);

impl Host for ConsoleHost {
    type Guest = Guest;

    fn name(&self) -> &'static str {
        "console"
    }

    fn receive(&self, client: IpAddr, tls: bool, doors: &Doors) -> Guest {
        Guest { console: self.0.clone(), client, tls, requests: Some(doors.requests.clone()) }
    }
}

/// A browser's connection, or a monitor's.
pub struct Guest {
    console: Arc<Console>,
    client: IpAddr,
    tls: bool,
    requests: Option<Arc<Door>>,
}

impl Guest {
    pub fn new(console: Arc<Console>, client: IpAddr, tls: bool) -> Guest {
        Guest { console, client, tls, requests: None }
    }
}

impl Connection for Guest {
    async fn answer(&self, head: &Head, body: &mut Body<'_>) -> Response {
        let Ok(_entered) = self.requests.as_ref().map(|door| door.enter(self.client)).transpose() else {
            return answers::error(503, "As many requests as allowed are under way.").with_header("Retry-After", "1");
        };
        let response = self.route(head, body).await;
        answers::fenced(head, response)
    }

    fn refuse(&self, error: HeadError) -> Response {
        answers::error(400, &format!("This is no request: {error:?}."))
    }

    fn panicked(&self, _head: &Head) -> Response {
        tracing::error!("answering a request to the console panicked");
        answers::error(500, "Something went wrong; the server's log tells what.")
    }
}

impl Guest {
    async fn route(&self, head: &Head, body: &mut Body<'_>) -> Response {
        let host = head.header("host").unwrap_or_default();
        if self.console.is_local() && !guard::is_local_name(host) {
            return answers::error(421, "The console serves this machine: ask for localhost or an address.");
        }
        let path = head.target().split('?').next().unwrap_or_default();
        let Some(api) = path.strip_prefix("/api/") else {
            if !guard::is_reading(head) {
                return answers::error(405, "This can only be read.").with_header("Allow", "GET, HEAD");
            }
            return match self.monitored(path).await {
                Some(response) => response,
                None => pages::page(head, path),
            };
        };
        if guard::is_foreign(head) {
            return answers::error(403, "Another origin asked for this: pages of other sites may not.");
        }
        if !guard::is_reading(head) && !guard::is_by_our_page(head) {
            return answers::error(
                403,
                "The header `x-lazuli-console: 1` is missing: only the console's own pages may do this.",
            );
        }
        match (head.method(), api) {
            ("POST", "sign-in") => return self.sign_in(body).await,
            ("POST", "sign-out") => return self.sign_out(head),
            (_, "sign-in" | "sign-out") => return answers::error(405, "This takes POST.").with_header("Allow", "POST"),
            _ => {}
        }
        let visitor = match self.visitor(head).await {
            Ok(Some(visitor)) => visitor,
            Ok(None) => return self.no_session(),
            Err(response) => return response,
        };
        let (area, rest) = api.split_once('/').unwrap_or((api, ""));
        if let Some(service) = Service::ALL.into_iter().find(|service| service.name() == area) {
            return self.data(&visitor, service, head, body).await;
        }
        if !guard::is_reading(head) {
            return answers::error(405, "This can only be read.").with_header("Allow", "GET, HEAD");
        }
        match (area, rest) {
            ("session", "") => self.session(&visitor),
            ("view", view) => self.view(&visitor, view, head).await,
            _ => answers::error(404, "There is no such thing in the console's API."),
        }
    }
}
