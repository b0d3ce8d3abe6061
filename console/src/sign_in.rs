//! Coming in and going out.

use std::net::SocketAddr;

use contract::Service;
use env::Timestamp;
use http::account::DEVELOPMENT_ACCOUNT;
use http::wire::{Body, Head, Response};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::sessions::Visitor;
use crate::{Guest, answers};

/// More than a name and a key can be.
const SIGN_IN_BYTES_MAX: u64 = 4096;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignIn {
    account: String,
    key: String,
}

impl Guest {
    fn now(&self) -> Timestamp {
        self.console.app.shell.clock.now()
    }

    /// Whose session the request brings, if it is one.
    pub(crate) async fn visitor(&self, head: &Head) -> Result<Option<Visitor>, Response> {
        let Some(secret) = self.secret(head) else { return Ok(None) };
        self.freshen().await?;
        Ok(self.console.sessions.visitor(secret, self.now(), |name| self.console.app.account(name)))
    }

    /// Nobody is let in by accounts that may be out of date.
    async fn freshen(&self) -> Result<(), Response> {
        if !self.console.app.are_accounts_stale() {
            return Ok(());
        }
        self.console.app.read_accounts_again().await.map_err(|error| {
            tracing::error!(%error, "accounts may be out of date and cannot be read: the console lets nobody in");
            answers::error(503, "The accounts cannot be read just now.")
        })
    }

    /// Browsers send cookies of all ports of a host, so the port is in the name.
    fn cookie_name(&self) -> String {
        format!("lazuli-console-{}", self.console.port())
    }

    fn secret<'a>(&self, head: &'a Head) -> Option<&'a str> {
        let name = self.cookie_name();
        let cookies =
            head.headers("cookie").flat_map(|value| value.split(';')).filter_map(|c| c.trim().split_once('='));
        let mut secrets = cookies.filter(|(other, _)| *other == name).map(|(_, secret)| secret);
        // A page on another port of this host can set a second one; whose session is meant nobody can tell then.
        let first = secrets.next()?;
        secrets.next().is_none().then_some(first)
    }

    fn set_cookie(&self, secret: &str, rest: &str) -> String {
        let secure = if self.tls { "; Secure" } else { "" };
        format!("{}={secret}; HttpOnly; SameSite=Strict; Path=/{secure}{rest}", self.cookie_name())
    }

    pub(crate) async fn sign_in(&self, body: &mut Body<'_>) -> Response {
        let now = self.now();
        if let Some(seconds) = self.console.sessions.is_shut_out(self.client, now) {
            let words = format!("Too many attempts have failed. Try again in {seconds} seconds.");
            return answers::error(429, &words).with_header("Retry-After", seconds.to_string());
        }
        body.bytes_max = SIGN_IN_BYTES_MAX;
        let mut received = Vec::new();
        loop {
            match body.next(SIGN_IN_BYTES_MAX as usize).await {
                Ok(Some(bytes)) => received.extend_from_slice(&bytes),
                Ok(None) => break,
                Err(error) => return answers::error(400, &format!("The request could not be read: {error}.")),
            }
        }
        let Ok(SignIn { account: name, key }) = serde_json::from_slice(&received) else {
            return answers::error(400, "Send an account and its key: {\"account\": \"...\", \"key\": \"...\"}.");
        };
        if let Err(response) = self.freshen().await {
            return response;
        }
        let account = self.console.app.account(name.trim());
        let opened =
            account.and_then(|account| Some((self.console.sessions.open(&account, key.trim(), now)?, account)));
        let Some((secret, account)) = opened else {
            self.console.sessions.note_failure(self.client, now);
            tracing::warn!(client = %self.client, "somebody failed to sign in to the console");
            return answers::error(403, "There is no such account, or this is not its key.");
        };
        tracing::info!(client = %self.client, account = account.name.as_str(), "signed in to the console");
        match self.console.sessions.visitor(&secret, now, |_| Some(account)) {
            Some(visitor) => self.session(&visitor).with_header("Set-Cookie", self.set_cookie(&secret, "")),
            None => answers::error(403, "The key was rotated away just now."),
        }
    }

    pub(crate) fn sign_out(&self, head: &Head) -> Response {
        if let Some(secret) = self.secret(head) {
            self.console.sessions.close(secret);
        }
        Response::new(204).with_header("Set-Cookie", self.set_cookie("", "; Max-Age=0"))
    }

    /// Nobody is signed in. The pages offer the account that everybody knows the key of, if it is here.
    pub(crate) fn no_session(&self) -> Response {
        let known = self.console.app.account(DEVELOPMENT_ACCOUNT);
        let development = known.is_some_and(|account| account.is_published());
        answers::json(401, &json!({ "error": "Sign in first.", "development": development }))
    }

    pub(crate) fn session(&self, visitor: &Visitor) -> Response {
        let (account, console) = (&visitor.account, &self.console);
        let is_served = |service: &Service| console.services.iter().any(|(served, _)| served == service);
        let services: Vec<&str> = Service::ALL.into_iter().filter(is_served).map(Service::name).collect();
        let scheme = if self.tls { "https" } else { "http" };
        let endpoint = |(service, address): &(Service, SocketAddr)| {
            (service.name().to_string(), json!(format!("{scheme}://{address}/{}", account.name.as_str())))
        };
        let endpoints: Map<String, Value> = console.services.iter().map(endpoint).collect();
        answers::json(
            200,
            &json!({
                "account": account.name.as_str(),
                "development": account.name.as_str() == DEVELOPMENT_ACCOUNT && account.is_published(),
                "version": env!("CARGO_PKG_VERSION"),
                "services": services,
                "endpoints": endpoints,
                "smb": console.has_smb,
                "expires": visitor.expires.iso8601(),
            }),
        )
    }
}
