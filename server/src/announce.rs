//! What is said at the start: what a person needs next, and at last the line that begins with `ready`, for whoever waits for it.

use std::io::{IsTerminal, Write};

use console::ConsoleHost;
use contract::Service;
use http::account::{Account, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use http::issuer::{IDENTITY_HEADER, IDENTITY_PATH, Issuer};
use http::{App, Listener, Served};

use crate::config::{Port, Settings};
use crate::tls::{self, TlsSettings};

/// Of so many accounts everything is said; of others only their names.
const ACCOUNTS_TOLD_MAX: usize = 3;

/// What is served, and where.
struct Told<'a> {
    settings: &'a Settings,
    listeners: &'a [Listener],
    smb: Option<&'a smb::Listener>,
}

pub fn announce(
    settings: &Settings,
    app: &App,
    accounts: &[Account],
    listeners: &[Listener],
    smb: Option<&smb::Listener>,
    console: Option<&Listener<ConsoleHost>>,
) -> std::io::Result<()> {
    let told = Told { settings, listeners, smb };
    let mut out = std::io::stdout().lock();
    writeln!(out, "Lazuli {}", env!("CARGO_PKG_VERSION"))?;
    match settings.as_azurite.as_ref().is_some_and(|it| it.scratch.is_some()) {
        true => writeln!(out, "data      {}, removed at the end", settings.engine.place())?,
        false => writeln!(out, "data      {}", settings.engine.place())?,
    }
    for account in accounts.iter().take(ACCOUNTS_TOLD_MAX) {
        told.account(&mut out, account)?;
    }
    if accounts.len() > ACCOUNTS_TOLD_MAX {
        let names: Vec<&str> = accounts[ACCOUNTS_TOLD_MAX..].iter().map(|account| account.name.as_str()).collect();
        writeln!(out, "accounts  likewise {}", names.join(", "))?;
    }
    if let Some(console) = console {
        writeln!(
            out,
            "console   {}://{}/  (sign in with an account's name and key)",
            told.scheme(),
            console.address()?
        )?;
    }
    if let Some(TlsSettings::Auto(auto)) = &settings.tls {
        for line in tls::trust(&auto.authority()) {
            writeln!(out, "{line}")?;
        }
    }
    if let Some(issuer) = app.issuer() {
        told.tokens(&mut out, issuer)?;
    }
    if let Some(azurite) = &settings.as_azurite {
        told.azurite(&mut out)?;
        if let Some(file) = &azurite.left_alone {
            writeln!(out, "Azurite's own data is not read: {}", file.display())?;
        }
    } else if std::io::stdout().is_terminal() {
        writeln!(out, "Ctrl-C stops it and keeps the data. `lazuli serve --help` has the flags.")?;
    }
    writeln!(out, "ready")?;
    out.flush()
}

impl Told<'_> {
    fn scheme(&self) -> &'static str {
        if self.settings.tls.is_some() { "https" } else { "http" }
    }

    fn account(&self, out: &mut impl Write, account: &Account) -> std::io::Result<()> {
        let (name, scheme) = (account.name.as_str(), self.scheme());
        let mut endpoints = String::new();
        for listener in self.listeners {
            let address = listener.address()?;
            let url = format!("{scheme}://{address}/{name}");
            let service = match listener.served() {
                Served::Service(service) => service,
                Served::Websites => {
                    writeln!(out, "{:<9} {url}/  (static websites that are enabled)", listener.served().name())?;
                    continue;
                }
                Served::Peers | Served::Issuer => continue,
            };
            let (rows, built) = (service.rows().len(), service.rows().iter().filter(|row| row.built).count());
            let note = match rows - built {
                0 => String::new(),
                _ => format!("  ({built} of {rows} operations; the others answer 501 NotImplemented)"),
            };
            writeln!(out, "{:<9} {url}{note}", service.name())?;
            let label = match service {
                Service::Blob => "BlobEndpoint",
                Service::Queue => "QueueEndpoint",
                Service::Table => "TableEndpoint",
                Service::File => "FileEndpoint",
            };
            endpoints.push_str(&format!("{label}={url};"));
        }
        if let Some(smb) = self.smb {
            let address = smb.address()?;
            let (ip, port) = (address.ip(), address.port());
            writeln!(out, "smb       //{ip}/SHARE  (port {port}, user {name}, the key is the password)")?;
        }
        // Everybody knows the development key; no other is ever printed.
        let is_development = name == DEVELOPMENT_ACCOUNT && account.is_published();
        let key = if is_development { DEVELOPMENT_KEY } else { "<the account's key>" };
        writeln!(out, "connect   DefaultEndpointsProtocol={scheme};AccountName={name};AccountKey={key};{endpoints}")?;
        if is_development && self.is_where_clients_look() {
            writeln!(out, "or        UseDevelopmentStorage=true")?;
        }
        Ok(())
    }

    /// Clients know where a development server is, without being told.
    fn is_where_clients_look(&self) -> bool {
        let places = [(Service::Blob, 10000), (Service::Queue, 10001), (Service::Table, 10002)];
        let are_there = places.into_iter().all(|(service, port)| self.settings.port(service) == Port::On(port));
        are_there
            && self.settings.tls.is_none()
            && (self.settings.host.is_loopback() || self.settings.host.is_unspecified())
    }

    /// How programs get tokens for development.
    fn tokens(&self, out: &mut impl Write, issuer: &Issuer) -> std::io::Result<()> {
        let mut listeners = self.listeners.iter();
        let Some(listener) = listeners.find(|listener| listener.served() == Served::Issuer) else { return Ok(()) };
        let (address, base) = (listener.address()?, issuer.base());
        writeln!(out, "tokens    FOR DEVELOPMENT: every program on this machine gets one that is trusted here")?;
        writeln!(
            out,
            "          export IDENTITY_ENDPOINT=http://{address}{IDENTITY_PATH} IDENTITY_HEADER={IDENTITY_HEADER}"
        )?;
        match self.settings.tls.is_some() {
            true => writeln!(
                out,
                "          or AZURE_AUTHORITY_HOST={base} AZURE_TENANT_ID=adfs AZURE_CLIENT_ID=ANY AZURE_CLIENT_SECRET=ANY"
            ),
            false => writeln!(out, "          they are taken over https alone: say --tls auto, too"),
        }
    }

    /// As Azurite says it: there are programs that wait for these lines.
    fn azurite(&self, out: &mut impl Write) -> std::io::Result<()> {
        for listener in self.listeners {
            let name = match listener.served() {
                Served::Service(Service::Blob) => "Blob",
                Served::Service(Service::Queue) => "Queue",
                Served::Service(Service::Table) => "Table",
                Served::Service(Service::File) | Served::Websites | Served::Peers | Served::Issuer => continue,
            };
            let (scheme, address) = (self.scheme(), listener.address()?);
            writeln!(out, "Azurite {name} service is successfully listening at {scheme}://{address}")?;
        }
        Ok(())
    }
}
