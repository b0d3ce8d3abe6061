//! One service of the server: from a head and a body to an answer.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use contract::{ApiVersion, ErrorCode, Refusal, Service};
use engine::BoxFuture;
use env::Id;
use partition::events::Subscribers;
use partition::file::tenure;
use partition::record::service::ServiceProperties;
use partition::{Failure, Shell};

use crate::account::Account;
use crate::address::Address;
use crate::auth;
use crate::copies::Copies;
use crate::cors;
use crate::dispatch::dispatch;
use crate::events::Subscriptions;
use crate::forward;
use crate::issuer::Issuer;
use crate::observe::Observer;
use crate::peers::{self, Client, Peers};
use crate::query::Query;
use crate::request::Request;
use crate::respond::Context;
use crate::route::route;
use crate::settings::{Bell, Settings};
use crate::source::allow::AllowList;
use crate::tokens::Tokens;
use crate::trace::{self, Tracer};
use crate::website;
use crate::wire::{Body, Head, HeadError, Response};

/// Where accounts are kept that others may change, too.
pub trait AccountsSource: Send + Sync {
    /// Is it possible that a change was missed since they were read last?
    fn is_stale(&self) -> bool;

    /// As they are now. After an error, in words, they are stale.
    fn read(&self) -> BoxFuture<'_, Result<Vec<Account>, String>>;
}

/// All that answering needs; shared by every connection of every service.
pub struct App {
    pub shell: Arc<Shell>,
    /// Replaced as a whole when keys are rotated; a request keeps the account it began with.
    accounts: RwLock<HashMap<String, Arc<Account>>>,
    /// Where they are read, if others may change them.
    accounts_source: OnceLock<Arc<dyn AccountsSource>>,
    /// Held while they are read, so that what was read earlier is never put in the place of what was read later.
    accounts_reading: tokio::sync::Mutex<()>,
    /// Whose bearer tokens are trusted; nobody's unless it is configured.
    tokens: RwLock<Option<Arc<Tokens>>>,
    pub(crate) settings: Settings,
    /// What may be copied from outside; nothing unless it is configured.
    copy_sources: RwLock<Arc<AllowList>>,
    pub(crate) copies: Copies,
    /// Who is told of blobs; nobody unless it is configured.
    subscriptions: RwLock<Arc<Subscriptions>>,
    /// Where this server is reached, so that it knows itself in a copy's source.
    listening: RwLock<Arc<[(Service, SocketAddr)]>>,
    /// Where tokens for development are had, if that was asked for.
    issuer: OnceLock<Issuer>,
    /// Who follows traces; not set where nobody does.
    tracer: OnceLock<Arc<dyn Tracer>>,
    /// The other gateways; not set where there are none.
    peers: OnceLock<Arc<Peers>>,
    /// Who hears of every answer; not set where nobody looks.
    pub(crate) observer: OnceLock<Arc<dyn Observer>>,
    /// The account is always in the path, never in the host.
    is_path_style_only: OnceLock<()>,
}

impl App {
    pub fn new(shell: Arc<Shell>, accounts: Vec<Account>) -> App {
        let app = App {
            shell,
            accounts: RwLock::default(),
            accounts_source: OnceLock::new(),
            accounts_reading: tokio::sync::Mutex::default(),
            tokens: RwLock::default(),
            settings: Settings::default(),
            copy_sources: RwLock::default(),
            copies: Copies::default(),
            subscriptions: RwLock::default(),
            listening: RwLock::default(),
            issuer: OnceLock::new(),
            tracer: OnceLock::new(),
            peers: OnceLock::new(),
            observer: OnceLock::new(),
            is_path_style_only: OnceLock::new(),
        };
        app.set_accounts(accounts);
        app
    }

    /// From here on these accounts and keys hold, and no others.
    pub fn set_accounts(&self, accounts: Vec<Account>) {
        let accounts = accounts.into_iter().map(|account| (account.name.as_str().to_string(), Arc::new(account)));
        *self.accounts.write().unwrap_or_else(PoisonError::into_inner) = accounts.collect();
    }

    /// From here on accounts are read again whenever those at hand may be out of date. Set once.
    pub fn set_accounts_source(&self, source: Arc<dyn AccountsSource>) {
        let _ = self.accounts_source.set(source); // the first one stays
    }

    /// From here on others are told when properties of services change, and heard when they change them. Set once.
    pub fn set_bell(&self, bell: Arc<dyn Bell>) {
        self.settings.set_bell(bell);
    }

    /// Others changed properties of services, or may have.
    pub fn forget_properties(&self) {
        self.settings.forget();
    }

    /// May the accounts at hand be out of date? Then nobody is let in by them alone.
    pub fn are_accounts_stale(&self) -> bool {
        self.accounts_source.get().is_some_and(|source| source.is_stale())
    }

    /// Reads the accounts where they are kept. An error in words; those at hand stay, and are out of date then.
    pub async fn read_accounts_again(&self) -> Result<(), String> {
        if let Some(source) = self.accounts_source.get() {
            let _one_at_a_time = self.accounts_reading.lock().await;
            self.set_accounts(source.read().await?);
        }
        Ok(())
    }

    /// Nobody is let in by accounts that may be out of date.
    async fn freshen_accounts(&self, request: Id) -> Result<(), Refusal> {
        if !self.are_accounts_stale() {
            return Ok(());
        }
        self.read_accounts_again().await.map_err(|error| {
            tracing::error!(%request, %error, "accounts may be out of date and cannot be read: refusing requests");
            ErrorCode::ServerBusy.into()
        })
    }

    pub fn set_tokens(&self, tokens: Option<Tokens>) {
        *self.tokens.write().unwrap_or_else(PoisonError::into_inner) = tokens.map(Arc::new);
    }

    pub(crate) fn tokens(&self) -> Option<Arc<Tokens>> {
        self.tokens.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Set once, before anybody asks it for a token. Whether its tokens are trusted is another matter.
    pub fn set_issuer(&self, issuer: Issuer) -> &Issuer {
        self.issuer.get_or_init(|| issuer)
    }

    pub fn issuer(&self) -> Option<&Issuer> {
        self.issuer.get()
    }

    /// Set once, before anybody is served.
    pub fn set_tracer(&self, tracer: Arc<dyn Tracer>) {
        let _ = self.tracer.set(tracer); // the first one stays
        self.shell.tell_stages(Arc::new(trace::PartitionStages));
    }

    pub(crate) fn tracer(&self) -> Option<&dyn Tracer> {
        self.tracer.get().map(Arc::as_ref)
    }

    pub fn set_copy_sources(&self, allow: AllowList) {
        *self.copy_sources.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(allow);
    }

    pub(crate) fn copy_sources(&self) -> Arc<AllowList> {
        self.copy_sources.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From here on these are told of blobs, and nobody else.
    pub fn set_subscriptions(&self, subscriptions: Subscriptions) {
        let mut current = self.subscriptions.write().unwrap_or_else(PoisonError::into_inner);
        let subscriptions = Arc::new(subscriptions.replacing(&current));
        *current = subscriptions.clone();
        let is_empty = subscriptions.is_empty();
        let subscribers: Arc<dyn Subscribers> = subscriptions;
        self.shell.outbox.set_subscribers(Some(subscribers).filter(|_| !is_empty));
    }

    pub(crate) fn subscriptions(&self) -> Arc<Subscriptions> {
        self.subscriptions.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on no host name is read as an account's.
    pub fn set_path_style_only(&self) {
        self.is_path_style_only.get_or_init(|| ());
    }

    pub fn set_listening(&self, listening: Vec<(Service, SocketAddr)>) {
        *self.listening.write().unwrap_or_else(PoisonError::into_inner) = listening.into();
    }

    pub fn listening(&self) -> Arc<[(Service, SocketAddr)]> {
        self.listening.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Other gateways serve the same shares. To be called once, before anybody is served.
    pub async fn join_peers(&self) -> Result<(), Failure> {
        let peers = Arc::new(Peers::new(tenure::secret(&self.shell).await?));
        self.shell.share_with(self.peers.get_or_init(|| peers).clone());
        Ok(())
    }

    pub(crate) fn peers(&self) -> Option<&Peers> {
        self.peers.get().map(Arc::as_ref)
    }

    pub fn accounts(&self) -> Vec<Arc<Account>> {
        self.accounts.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    pub fn account(&self, name: &str) -> Option<Arc<Account>> {
        self.accounts.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    pub async fn answer(
        &self,
        service: Service,
        client: IpAddr,
        tls: bool,
        head: &Head,
        body: &mut Body<'_>,
    ) -> Response {
        self.answer_seen(service, Client { address: client, tls }, false, head, body).await
    }

    /// What another gateway passes on, or asks.
    pub async fn answer_peer(&self, head: &Head, body: &mut Body<'_>) -> Response {
        let Some(client) = self.peers().and_then(|peers| peers.visitor(head)) else {
            return self.context(Service::File, Some(head)).refusal(ErrorCode::AuthenticationFailed.into());
        };
        match peers::asked_for(head) {
            None => self.answer_seen(Service::File, client, true, head, body).await,
            Some(group) => {
                let context = self.context(Service::File, Some(head));
                let answered = forward::let_go(self, &group).await;
                answered.map_or_else(|failure| context.failure(failure), |status| context.finish(Response::new(status)))
            }
        }
    }

    async fn answer_seen(
        &self,
        service: Service,
        client: Client,
        is_forwarded: bool,
        head: &Head,
        body: &mut Body<'_>,
    ) -> Response {
        if service == Service::Blob
            && let Some(account) = website::named(self, head)
        {
            return Box::pin(website::answer(self, Some(account), client.address, client.tls, head)).await;
        }
        let mut context = self.context(service, Some(head));
        let response = self.answer_to(&mut context, client, is_forwarded, head, body).await;
        self.observe(&context, Some(client.address), body.taken(), &response);
        response
    }

    async fn answer_to(
        &self,
        context: &mut Context<'_>,
        Client { address: client, tls }: Client,
        is_forwarded: bool,
        head: &Head,
        body: &mut Body<'_>,
    ) -> Response {
        let (service, id, now) = (context.service, context.id, context.now);
        if let Err(refusal) = self.freshen_accounts(id).await {
            return context.refusal(refusal);
        }

        let (address, query, account) = match self.address(service, tls, head) {
            Ok(addressed) => addressed,
            Err(refusal) => return context.refusal(refusal),
        };
        context.account = Some(account.clone());
        let settings = match self.settings.of(&self.shell, &account.name, service, now).await {
            Ok(settings) => settings,
            Err(fault) => return context.failure(fault.into()),
        };
        let mut response = match version(head, &query, &settings) {
            Ok(version) => {
                let settings = settings.clone();
                #[rustfmt::skip]
                let request = Request {
                    service, head, address, query, account, settings, version, client, tls, is_forwarded, id, now,
                };
                match self.operate(&request, context, body).await {
                    Ok(response) => context.finish(response),
                    Err(failure) => context.failure(failure),
                }
            }
            Err(refusal) => context.refusal(refusal),
        };
        if !settings.cors.is_empty() && !response.is_relayed && head.method() != "OPTIONS" {
            let names = response.headers.iter().map(|(name, _)| name);
            for (name, value) in cors::actual(&settings.cors, head.header("origin"), head.method(), names) {
                response.header(name, value);
            }
        }
        response
    }

    /// What was asked of the development issuer.
    pub async fn issue(&self, head: &Head, body: &mut Body<'_>) -> Response {
        match &self.issuer() {
            Some(issuer) => issuer.answer(head, body, self.shell.clock.now()).await,
            None => self.busy(Service::Blob, head),
        }
    }

    /// A visit to a website on the port of websites.
    pub async fn visit(&self, client: IpAddr, tls: bool, head: &Head) -> Response {
        website::answer(self, website::named(self, head), client, tls, head).await
    }

    /// From a request that is addressed to its answer: authenticate, route, authorize, pass on or dispatch.
    pub(crate) async fn operate(
        &self,
        request: &Request<'_>,
        context: &mut Context<'_>,
        body: &mut Body<'_>,
    ) -> Result<Response, Failure> {
        let tokens = self.tokens();
        let tokens = tokens.as_deref();
        let credential = match auth::authenticate(&self.shell, tokens, request).await {
            Ok(credential) => credential,
            Err(failure) => {
                let is_logged = tracing::enabled!(tracing::Level::DEBUG);
                if is_logged || self.is_observed() {
                    let explanation = auth::explain::explain(request);
                    tracing::debug!(request = %request.id, %explanation, "not authenticated");
                    context.operation = route(request).ok().map(|row| row.id);
                    context.string_to_sign = explanation.string_to_sign.ok().filter(|text| !text.is_empty());
                }
                return Err(failure);
            }
        };
        context.version = Some(request.version);
        let row = route(request)?;
        context.operation = Some(row.id);
        trace::is(row.id, request.account.name.as_str());
        let grant = auth::authorize(&self.shell, tokens, request, row, &credential).await?;
        body.bytes_max = row.body_bytes_max;
        if self.peers().is_some()
            && let Some(response) = Box::pin(forward::to_owner(self, request, row, body)).await?
        {
            return Ok(response);
        }
        let done = dispatch(self, request, row, &credential, grant, body).await;
        match &done {
            Ok(response) => {
                let client = request.header("user-agent").unwrap_or_default();
                // The client suites read this line: testing/clients/tried.
                tracing::debug!(request = %request.id, operation = ?row.id, status = response.status, client, "answered");
            }
            Err(Failure::Refused(refusal)) => {
                tracing::debug!(request = %request.id, operation = ?row.id, code = refusal.code.name(), "refused");
            }
            Err(_) => {}
        }
        done
    }

    pub(crate) fn address(
        &self,
        service: Service,
        tls: bool,
        head: &Head,
    ) -> Result<(Address, Query, Arc<Account>), Refusal> {
        let host = head.header("host").unwrap_or_default();
        let knows = |name: &str| self.is_path_style_only.get().is_none() && self.account(name).is_some();
        let (address, query) = Address::parse(service, head.target(), host, tls, knows)?;
        let query = Query::parse(&query)?;
        let account = self.account(&address.account).ok_or(ErrorCode::ResourceNotFound)?;
        Ok((address, query, account))
    }

    /// What is known of a request that has just arrived.
    fn context<'a>(&self, service: Service, head: Option<&'a Head>) -> Context<'a> {
        Context::new(service, head, self.shell.ids.next(), self.shell.clock.now())
    }

    /// The answer to a head that is no request.
    pub fn refuse(&self, service: Service, error: HeadError) -> Response {
        let refusal = match error {
            HeadError::Malformed | HeadError::MissingHost => ErrorCode::InvalidInput.into(),
            HeadError::NotText => ErrorCode::InvalidUri.into(),
            HeadError::TargetTooLong => Refusal::from(ErrorCode::InvalidUri).status(414),
            HeadError::TooManyHeaders => Refusal::from(ErrorCode::InvalidHeaderValue).status(431),
            HeadError::AmbiguousLength | HeadError::UnsupportedTransferEncoding => ErrorCode::InvalidHeaderValue.into(),
        };
        let detail = format!("{error:?}");
        self.refused_early(&self.context(service, None), refusal.with("Reason", detail))
    }

    /// The answer to a request beyond those that may be under way.
    pub fn busy(&self, service: Service, head: &Head) -> Response {
        let refusal = Refusal::from(ErrorCode::ServerBusy).header("Retry-After", "1");
        self.refused_early(&self.context(service, Some(head)), refusal)
    }

    pub fn panicked(&self, service: Service, head: &Head) -> Response {
        let context = self.context(service, Some(head));
        tracing::error!(request = %context.id, method = head.method(), "answering a request panicked");
        self.refused_early(&context, ErrorCode::InternalError.into())
    }

    fn refused_early(&self, context: &Context<'_>, refusal: Refusal) -> Response {
        let response = context.refusal(refusal);
        self.observe(context, None, 0, &response);
        response
    }
}

/// The version a request speaks: its header, else `api-version`, else that of its SAS, else the account's default, else the oldest.
fn version(head: &Head, query: &Query, settings: &ServiceProperties) -> Result<ApiVersion, Refusal> {
    let mut headers = head.headers("x-ms-version");
    match (headers.next(), headers.next()) {
        (Some(text), None) => ApiVersion::parse(text).ok_or_else(|| Refusal::bad_header("x-ms-version", text)),
        (Some(text), Some(_)) => Err(Refusal::bad_header("x-ms-version", text)),
        (None, _) => match query.get("api-version").or_else(|| query.get("sv")) {
            Some(text) => ApiVersion::parse(text)
                .ok_or_else(|| Refusal::bad_query("api-version", text, "The version is not a date.")),
            None => Ok(settings.default_version.as_deref().and_then(ApiVersion::parse).unwrap_or(ApiVersion::OLDEST)),
        },
    }
}
