//! The program: flags, configuration, choice of engine, listeners. The only file that names all layers.

mod accounts;
mod announce;
mod azurite;
mod backup;
mod bench;
mod check;
mod client;
mod cluster;
mod config;
mod control;
mod local;
mod log;
mod migrate;
mod otlp;
mod peers;
mod progress;
mod sas;
mod see;
mod seed;
mod storage;
mod tls;

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use clap::FromArgMatches;
use contract::Service;
use contract::names::AccountName;
use env::Timestamp;
use http::account::Account;
use http::issuer::Issuer;
use http::tokens::Tokens;
use http::{App, Doors, Listener, Served};
use partition::Shell;
use partition::file::tenure::Keeper;
use partition::housekeeping::Round;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::level_filters::LevelFilter;

use config::{Asked, CommandLine, EngineSettings, Port, Settings};
use log::LogFormat;
use storage::Storage;
use tls::{Tls, TlsSettings};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long requests under way may take after the signal to stop.
const DRAIN_GRACE: Duration = Duration::from_secs(30);
/// And the console's, after all others.
const CONSOLE_GRACE: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let arguments = azurite::as_command(std::env::args_os());
    let parsed = config::command().try_get_matches_from(&arguments);
    let parsed = parsed.and_then(|matches| CommandLine::from_arg_matches(&matches).map(|line| (line, matches)));
    let (line, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return config::refuse(&error, &arguments),
    };
    let asked = match Asked::gather(line.clone()) {
        Ok(asked) => asked,
        Err(error) => return fail(&error),
    };
    if let Err(error) = log_as(&asked) {
        return fail(&error);
    }
    if let (Asked::Serve(_), Some((rest, accounts))) = (&asked, config::accounts_apart(std::env::args_os())) {
        let error = keep_apart(&rest, &accounts);
        tracing::warn!(%error, "the keys stay on the command line");
    }
    for words in config::unknown_variables(std::env::vars_os()) {
        tracing::warn!("{words}");
    }
    // The kernel would make huge pages of what the allocator has given back in parts, and so take it again: after half an hour of mixed
    // traffic three times the memory.
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "huge pages stay as the system has them");
    }
    if config::tells_keys(std::env::args_os()) {
        tracing::warn!(
            "keys on the command line can be read by every user of this machine; variables such as LAZULI_ACCOUNT, and --config, keep them apart"
        );
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("cannot start: {error}")),
    };
    let is_azurite = matches!(&asked, Asked::Serve(settings) if settings.as_azurite.is_some());
    let done = runtime.block_on(async {
        let done = match asked {
            Asked::Serve(settings) => serve(*settings, line).await,
            Asked::Config(settings, written) => {
                let flags = matches.subcommand().map_or(&matches, |(_, flags)| flags);
                print(&config::effective(flags, &settings, &written))
            }
            Asked::Print(text) => print(&text),
            Asked::Account(engine, command) => accounts::run(*engine, *command).await,
            Asked::Migrate(migration) => migrate::run(*migration).await,
            Asked::Backup(asked) => backup::run(asked).await,
            Asked::Restore(asked) => backup::restore(asked),
            Asked::Sas(command) => return sas::run(command),
            Asked::Seed(flags) => return seed::run(*flags).await,
            Asked::Bench(flags) => bench::run(*flags).await,
            Asked::Check(asked) => return Ok(check::run(asked)),
        };
        done.map(|()| ExitCode::SUCCESS)
    });
    let is_well = done.is_ok();
    let in_words = |error: String| if is_azurite { azurite::in_its_words(&error) } else { error };
    let code = done.unwrap_or_else(|error| fail(&in_words(error)));
    if librados::is_loaded() {
        let _ = std::io::stdout().flush(); // whoever read it may be gone
        librados::end_process(is_well);
    }
    code
}

/// Becomes the same program with its accounts in the variable, where this user alone reads them: a command line is everybody's for as long as
/// the server runs. Comes back only if that cannot be done.
fn keep_apart(rest: &[OsString], accounts: &str) -> std::io::Error {
    tracing::warn!(
        "keys on the command line can be read by every user of this machine until the server has moved them away; variables such as \
         LAZULI_ACCOUNT, and --config, keep them apart from the beginning"
    );
    let (Some((name, arguments)), Ok(program)) = (rest.split_first(), std::env::current_exe()) else {
        return std::io::ErrorKind::NotFound.into();
    };
    Command::new(program).arg0(name).args(arguments).env("LAZULI_ACCOUNT", accounts).exec()
}

/// The log goes to standard error, or where Azurite's flag says.
fn log_as(asked: &Asked) -> Result<(), String> {
    let Asked::Serve(settings) = asked else { return log::start(LevelFilter::WARN, LogFormat::Text, None) };
    let debug_log = settings.as_azurite.as_ref().and_then(|it| it.debug_log.as_deref());
    log::start(settings.log, settings.log_format, debug_log)
}

fn print(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| format!("cannot print: {error}"))
}

fn fail(error: &str) -> ExitCode {
    eprintln!("lazuli: {error}");
    ExitCode::FAILURE
}

async fn serve(mut settings: Settings, line: CommandLine) -> Result<(), String> {
    settings.limits.claim_files(settings.peers.is_some());
    let as_azurite = settings.as_azurite.clone().unwrap_or_default();
    let _scratch = as_azurite.scratch.as_deref().map(azurite::Scratch::make).transpose()?;
    settings.refuse_published_key_on_network(&settings.accounts)?;
    if let Some(TlsSettings::Files(files)) = &settings.tls {
        files.load()?; // before anything is opened
    }

    let storage = Storage::open(&settings.engine).await?;
    let control = storage.control(&settings.engine);
    let shell = storage.shell();
    // The directory that a certificate may be kept in is ours by now.
    let tls = settings.tls.as_ref().map(|tls| Tls::open(tls, shell.clock.now())).transpose()?;
    let acceptor = tls.as_ref().map(Tls::acceptor);
    let kept = Arc::new(accounts::directory::Kept::new(&shell, &settings));
    let accounts = accounts_to_serve(&settings, &shell, &kept).await?;
    settings.refuse_published_key_on_network(&accounts)?;
    finish_deletions(&shell, &accounts).await?;

    let app = Arc::new(App::new(shell.clone(), accounts.clone()));
    storage.listen(&app).await?;
    if let Some(control) = &control {
        app.set_accounts_source(kept.clone());
        control.answer_accounts(kept.answers(&app));
    }
    if as_azurite.is_path_style_only {
        app.set_path_style_only();
    }
    app.set_copy_sources(settings.copy_sources.clone());
    settings.events.check(accounts.iter().map(|account| &account.name))?;
    app.set_subscriptions(settings.events.clone());
    if (settings.tokens.is_some() || settings.dev_token_port != Port::Off) && acceptor.is_none() {
        tracing::warn!(
            "bearer tokens are configured and TLS is not: none will be accepted, they are only taken over https (--tls auto)"
        );
    }
    let traces = settings.otlp.clone().map(|otlp| {
        let (exporter, sending) = otlp::start(otlp);
        app.set_tracer(exporter);
        sending
    });
    let (doors, limits) = (settings.limits.doors(), settings.limits.of_http());
    let mut listeners = Vec::new();
    let services = Service::ALL.map(|service| (Served::Service(service), settings.port(service)));
    let others = [(Served::Websites, settings.web_port), (Served::Issuer, settings.dev_token_port)];
    for (served, port) in services.into_iter().chain(others) {
        if let Port::On(port) = port {
            let address = (settings.host, port).into();
            let listener = Listener::bind(served, address, acceptor.clone(), app.clone(), doors.clone(), limits);
            listeners.push(listener.await.map_err(|error| error.to_string())?);
        }
    }
    if let Some(listener) = listeners.iter().find(|listener| listener.served() == Served::Issuer) {
        let address = listener.address().map_err(|error| format!("cannot tell where it listens: {error}"))?;
        app.set_issuer(Issuer::new(address, acceptor.is_some(), shell.ids.next())?);
        tracing::warn!(%address, "every program on this machine gets a token here that is trusted: for development alone");
    }
    app.set_tokens(trusted(settings.tokens.clone(), &app)?);
    let peers = peers::join(&settings, &storage, &app).await?;
    let smb = match settings.smb_port {
        Port::On(port) => Some(listen_smb(&settings, port, &accounts, app.clone(), doors.clone()).await?),
        Port::Off => None,
    };
    let listening = listeners.iter().filter_map(|listener| match listener.served() {
        Served::Service(service) => Some(listener.address().map(|address| (service, address))),
        Served::Websites | Served::Peers | Served::Issuer => None,
    });
    let listening: std::io::Result<Vec<_>> = listening.collect();
    app.set_listening(listening.map_err(|error| format!("cannot tell where it listens: {error}"))?);
    let (drain, draining) = watch::channel(false);
    let beside = (doors, smb.as_ref().map(|listener| listener.server().clone()));
    let console = see::listen(&settings, &app, &storage, beside, acceptor, draining.clone()).await?;
    // Before anybody is told that it is ready: a signal that nobody waits for would end the process then and there.
    let listen = |kind| signal(kind).map_err(|error| format!("cannot wait for signals: {error}"));
    let mut hangup = listen(SignalKind::hangup())?;
    let (mut terminate, mut interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    announce::announce(&settings, &app, &accounts, &listeners, smb.as_ref(), console.as_ref())
        .map_err(|error| format!("cannot print: {error}"))?;

    // The console is seen until everything else is done.
    let (leave, leaving) = watch::channel(false);
    let console = console.map(|listener| tokio::spawn(listener.run(leaving, CONSOLE_GRACE)));
    let mut running: Vec<_> =
        listeners.into_iter().map(|listener| tokio::spawn(listener.run(draining.clone(), DRAIN_GRACE))).collect();
    running.extend(peers.map(|listener| tokio::spawn(listener.run(draining.clone(), DRAIN_GRACE))));
    running.extend(smb.map(|listener| tokio::spawn(listener.run(draining.clone(), DRAIN_GRACE))));
    let background = [
        tokio::spawn(sweep(app.clone())),
        tokio::spawn(tidy(app.clone())),
        tokio::spawn(http::copies::run(app.clone())),
        tokio::spawn(http::events::run(app.clone())),
    ];
    let mut daily = tokio::time::interval(Duration::from_secs(24 * 60 * 60));
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => read_credentials_again(&app, tls.as_ref(), &line, &kept).await,
            _ = daily.tick() => {
                if let (Some(tls), Some(auto @ TlsSettings::Auto(_))) = (&tls, &settings.tls) {
                    show_certificate(tls, auto, app.shell.clock.now());
                }
            }
        }
    }
    tracing::info!("stopping: finishing the requests under way");
    drain.send_replace(true);
    for listener in running {
        let _ = listener.await; // a listener that panicked has nothing left to finish
    }
    leave.send_replace(true);
    if let Some(console) = console {
        let _ = console.await; // as above
    }
    // Not before: a request may wait for a commit that one of them leads.
    for task in background {
        task.abort();
        let _ = task.await; // it was told to stop
    }
    if let Some(traces) = traces {
        traces.finish().await;
    }
    drop((app, shell, kept));
    storage.close().await
}

/// Whose tokens are trusted: those that the file says, and the development issuer's, if there is one.
fn trusted(tokens: Option<Tokens>, app: &App) -> Result<Option<Tokens>, String> {
    let Some(issuer) = app.issuer() else { return Ok(tokens) };
    let tokens = tokens.unwrap_or_else(|| Tokens::of_nobody(Vec::new(), Vec::new(), None));
    tokens.and_of(issuer).map(Some).map_err(|error| error.to_string())
}

/// From the command line, the file and the directory, or from the cluster.
async fn accounts_to_serve(
    settings: &Settings,
    shell: &Shell,
    kept: &accounts::directory::Kept,
) -> Result<Vec<Account>, String> {
    if let EngineSettings::Embedded { .. } = settings.engine {
        return kept.accounts().await;
    }
    let accounts = accounts::served(shell).await?;
    if accounts.is_empty() {
        return Err(
            "the cluster has no account yet: `lazuli account create NAME`, with the same --engine and --ceph options, \
                    makes one"
                .into(),
        );
    }
    Ok(accounts)
}

/// Shares over SMB: the same files, and who may come in is known to both.
async fn listen_smb(
    settings: &Settings,
    port: u16,
    accounts: &[Account],
    app: Arc<App>,
    doors: Doors,
) -> Result<smb::Listener, String> {
    struct Known(Arc<App>);
    impl smb::Accounts for Known {
        fn find(&self, name: &str) -> Option<(AccountName, Vec<String>)> {
            // Whoever may have lost the right to come in does not.
            let account = self.0.account(&name.to_ascii_lowercase()).filter(|_| !self.0.are_accounts_stale())?;
            Some((account.name.clone(), account.keys.iter().map(|key| key.reveal().to_owned()).collect()))
        }
    }
    let shell = app.shell.clone();
    let encrypts = settings.smb_requires_encryption;
    let server = smb::Server::new(shell.clone(), Box::new(Known(app)), encrypts, settings.limits.budget_of_smb());
    if let Some(tenures) = shell.tenures() {
        // Handles come back with the shares that they are in.
        let keeper: Arc<dyn Keeper> = server.clone();
        tenures.set_keeper(Arc::downgrade(&keeper));
    }
    for account in accounts.iter().filter(|_| shell.tenures().is_none()) {
        let restored = server.restore(&account.name).await;
        let restored = restored.map_err(|fault| format!("cannot read the handles of an earlier run: {fault}"))?;
        if restored > 0 {
            tracing::info!(account = account.name.as_str(), restored, "handles wait for their SMB clients");
        }
    }
    let address = (settings.host, port).into();
    let listener = smb::Listener::bind(address, server, doors.connections, settings.limits.of_smb()).await;
    listener.map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                " (another program has the port; choose another with --smb-port, 0 for any free one, `off` for none)"
            }
            std::io::ErrorKind::PermissionDenied => " (ports below 1024 need a privilege)",
            _ => "",
        };
        format!("cannot listen on {address} for SMB: {error}{hint}")
    })
}

/// From here on new connections are shown what the files hold now, or what was made in time; a certificate that cannot be used changes nothing.
fn show_certificate(tls: &Tls, settings: &TlsSettings, now: Timestamp) {
    match tls.replace(settings, now) {
        Ok(true) => tracing::info!("new connections get the new certificate"),
        Ok(false) => tracing::debug!("the certificate is the same"),
        Err(error) => tracing::error!(%error, "the certificate stays as it is"),
    }
}

/// SIGHUP: accounts, their keys, the certificate, whose bearer tokens are trusted, what may be copied from outside and who is told of blobs, as
/// the file says now. Anything else in it holds from the next start; a file that cannot be used changes nothing.
async fn read_credentials_again(app: &App, tls: Option<&Tls>, line: &CommandLine, kept: &accounts::directory::Kept) {
    let reading = async {
        let Asked::Serve(settings) = Asked::gather(line.clone())? else { return Err("it serves no more".to_string()) };
        let tokens = trusted(settings.tokens.clone(), app)?;
        let before = kept.configure(&settings);
        let reading = async {
            let accounts = accounts_to_serve(&settings, &app.shell, kept).await?;
            settings.refuse_published_key_on_network(&accounts)?;
            settings.events.check(accounts.iter().map(|account| &account.name))?;
            finish_deletions(&app.shell, &accounts).await?;
            if let EngineSettings::Embedded { .. } = settings.engine {
                app.set_accounts(accounts);
            }
            app.read_accounts_again().await
        };
        if let Err(error) = reading.await {
            kept.put_back(before);
            return Err(error);
        }
        app.set_tokens(tokens);
        Ok::<_, String>(settings)
    };
    match reading.await {
        Ok(settings) => {
            tracing::info!(accounts = app.accounts().len(), "accounts and keys were read again");
            app.set_copy_sources(settings.copy_sources);
            app.set_subscriptions(settings.events);
            match (tls, &settings.tls) {
                (Some(tls), Some(settings)) => show_certificate(tls, settings, app.shell.clock.now()),
                (None, None) => {}
                _ => tracing::warn!("https is spoken or not from the start: that changes with the next one"),
            }
        }
        Err(error) => tracing::error!(%error, "accounts and keys stay as they are"),
    }
}

/// What a crash left half deleted is finished before its account is served.
async fn finish_deletions(shell: &Shell, accounts: &[Account]) -> Result<(), String> {
    for account in accounts {
        partition::directory::finish_deletions(shell, &account.name)
            .await
            .map_err(|failure| format!("cannot finish what an earlier run began: {failure:?}"))?;
    }
    Ok(())
}

/// How often queues that nobody touches are looked through for messages that expired.
const SWEEP_PAUSE: Duration = Duration::from_secs(30);

/// Gives back the space of expired messages. They are never shown, whether they were swept or not.
async fn sweep(app: Arc<App>) {
    loop {
        tokio::time::sleep(SWEEP_PAUSE).await;
        for account in app.accounts() {
            match partition::queue::message::sweep(&app.shell, &account.name).await {
                Ok(0) => {}
                Ok(removed) => tracing::debug!(account = account.name.as_str(), removed, "expired messages removed"),
                Err(failure) => tracing::error!(account = account.name.as_str(), ?failure, "sweeping queues failed"),
            }
        }
    }
}

/// Housekeeping reads so many rows, then rests a moment; after a round it rests for `SWEEP_PAUSE`.
const TIDY_ROWS: usize = 1000;
const TIDY_PAUSE: Duration = Duration::from_secs(1);

/// Gives back what is due in every account: see `partition::housekeeping`.
async fn tidy(app: Arc<App>) {
    loop {
        tokio::time::sleep(SWEEP_PAUSE).await;
        for account in app.accounts() {
            let (mut round, name) = (Round::default(), account.name.as_str());
            loop {
                let step = match round.step(&app.shell, &account.name, TIDY_ROWS).await {
                    Ok(step) => step,
                    Err(failure) => {
                        tracing::error!(account = name, ?failure, "housekeeping failed");
                        break;
                    }
                };
                if step.cleared > 0 {
                    tracing::debug!(account = name, cleared = step.cleared, "what was due is cleared");
                }
                if step.is_round_over {
                    break;
                }
                tokio::time::sleep(TIDY_PAUSE).await;
            }
        }
    }
}
