//! Metrics and health: what a monitor asks for, without signing in. It is told no name of anything in an account, unless it asks from this
//! machine.

use std::time::Duration;

use contract::names::{AccountName, QueueName};
use engine::BoxFuture;
use http::wire::Response;
use partition::key;
use partition::list::{Entry, Listing};
use partition::queue::{self, message};

use crate::metrics::{Metric, Text};
use crate::{Guest, answers};

/// What the console knows of the program around it.
pub trait Program: Send + Sync {
    /// Adds what is below the services, and beside them.
    fn measure(&self, text: &mut Text);

    /// Is there a reason to send nobody here, in words?
    fn check(&self) -> Result<(), String>;

    /// Is it one of several gateways?
    fn is_one_of_many(&self) -> bool;
}

/// How long storage may take to answer a look.
const STORAGE_PATIENCE: Duration = Duration::from_secs(5);
/// Queues whose depth is told.
const QUEUES_MAX: usize = 100;

impl Guest {
    /// `None` if the path is none of these.
    pub(crate) async fn monitored(&self, path: &str) -> Option<Response> {
        Some(match path {
            "/healthz" => answers::text(200, "ok\n"),
            "/readyz" => match self.ready().await {
                Ok(()) => answers::text(200, "ready\n"),
                Err(why) => answers::text(503, format!("not ready: {why}\n")),
            },
            "/metrics" => {
                let page = self.metrics().await;
                let mut response = answers::text(200, page);
                response.headers.retain(|(name, _)| name != "Content-Type");
                response.with_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            }
            _ => return None,
        })
    }

    /// Does storage answer and take writes, and is the server to stay?
    async fn ready(&self) -> Result<(), String> {
        self.console.program.check()?;
        let shell = &self.console.app.shell;
        let partition = key::peers_partition();
        let look: BoxFuture<'_, Result<(), engine::Fault>> = Box::pin(async {
            let view = shell.engine.view(&partition).await?;
            view.get(key::system::SECRET, &[]).await.map(drop)
        });
        match tokio::time::timeout(STORAGE_PATIENCE, look).await {
            // Others are writing: it answers.
            Ok(Ok(()) | Err(engine::Fault::Moved)) => Ok(()),
            Ok(Err(fault)) => Err(fault.to_string()),
            Err(_) => Err(format!("storage has not answered for {} seconds", STORAGE_PATIENCE.as_secs())),
        }
    }

    async fn metrics(&self) -> String {
        let mut text = Text::default();
        text.begin(Metric::Build);
        text.line(&[("version", env!("CARGO_PKG_VERSION"))], 1);
        self.console.watch.write(&mut text);
        self.console.program.measure(&mut text);
        let counts = self.console.app.shell.open_files.counts();
        text.single(Metric::SmbOpens, counts.handles);
        text.single(Metric::SmbLocks, counts.locks);
        text.single(Metric::Ready, u8::from(self.ready().await.is_ok()));
        if self.client.to_canonical().is_loopback() {
            text.begin(Metric::QueueMessages);
            for (account, queue, count) in self.queue_depths().await {
                text.line(&[("account", account.as_str()), ("queue", &queue)], count);
            }
        }
        text.finish()
    }

    /// Of the first queues; what cannot be read is left out.
    async fn queue_depths(&self) -> Vec<(AccountName, String, u64)> {
        let shell = &self.console.app.shell;
        let mut accounts: Vec<AccountName> =
            self.console.app.accounts().iter().map(|account| account.name.clone()).collect();
        accounts.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        let mut depths = Vec::new();
        // An account without queues costs a look, too.
        for account in accounts.into_iter().take(QUEUES_MAX) {
            let left = QUEUES_MAX - depths.len();
            if left == 0 {
                break;
            }
            let listing = Listing { prefix: String::new(), delimiter: None, start: String::new(), results_max: left };
            let Ok(listed) = queue::list(shell, &account, &listing).await else { continue };
            for entry in listed.entries {
                let Entry::Item { name, .. } = entry else { continue };
                let Ok(queue) = QueueName::parse(&name) else { continue };
                let asked = message::Queue { account: &account, name: &queue };
                if let Ok((_, count)) = message::read(shell, asked).await {
                    depths.push((account.clone(), name, count));
                }
            }
        }
        depths
    }
}
