//! Requests that wait until SMB clients have given up what they keep of a file.

use std::future::Future;
use std::time::Duration;

use contract::{ErrorCode, Refusal};
use engine::BoxFuture;
use env::{Clock, Timestamp};
use partition::execute::Command;
use partition::file::opens::Wait;
use partition::file::share;
use partition::{Failure, Patience, Shell, patiently};

use crate::request::Request;

/// However long the request would wait.
const SECONDS_MAX: u64 = 30;

/// As long as its `timeout` lets a request wait.
pub struct Waiting<'a> {
    clock: &'a dyn Clock,
    until: Timestamp,
}

impl<'a> Waiting<'a> {
    pub fn new(shell: &'a Shell, request: &Request<'_>) -> Waiting<'a> {
        let asked = request.query.get("timeout").and_then(|seconds| seconds.parse().ok());
        let seconds = asked.unwrap_or(SECONDS_MAX).min(SECONDS_MAX);
        Waiting { clock: shell.clock.as_ref(), until: request.now.plus_seconds(seconds) }
    }
}

impl Patience for Waiting<'_> {
    fn wait(&self, wait: Wait) -> BoxFuture<'_, Result<(), Refusal>> {
        let ticks = self.until.ticks().saturating_sub(self.clock.now().ticks());
        let rest = Duration::from_nanos(ticks.saturating_mul(100));
        Box::pin(async move {
            let over = tokio::time::timeout(rest, wait.over()).await;
            over.map_err(|_| ErrorCode::ClientCacheFlushDelay.into())
        })
    }
}

/// `Shell::admit` of a command on something in a share.
pub async fn admit<C: Command>(
    shell: &Shell,
    request: &Request<'_>,
    share: &share::Found,
    command: &C,
) -> Result<(), Failure> {
    settle(shell, request, share, || shell.admit(command)).await
}

/// `Shell::execute` of a command on something in a share.
pub async fn execute<C: Command>(
    shell: &Shell,
    request: &Request<'_>,
    share: &share::Found,
    command: &C,
) -> Result<C::Outcome, Failure> {
    settle(shell, request, share, || shell.execute(command)).await
}

/// Anything that looks at something in a share.
pub async fn settle<T, F>(
    shell: &Shell,
    request: &Request<'_>,
    share: &share::Found,
    attempt: impl Fn() -> F,
) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    share.settle(shell, patiently(&Waiting::new(shell, request), attempt).await).await
}
