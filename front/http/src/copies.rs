//! Copies from outside that run in the background: each is read to its end and then becomes the blob in one commit.
//!
//! What is known of a copy is in its destination and in a note (`partition/blob/pending.rs`), so the server may stop at any time: the next
//! start finds the note and begins to read again. A copy that is aborted meanwhile, or whose container is deleted, is noticed at the next
//! report and read no further.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use contract::limits::{COPY_PENDING_SECONDS_MAX, COPY_REPORT_BYTES};
use contract::names::{AccountName, BlobName};
use engine::{BoxFuture, ExtentError, Source, SourceError};
use env::Id;
use partition::blob::pending::{NoteCopy, SettleCopy, Step, is_pending, noted};
use partition::record::note::PendingCopy;
use partition::{Content, Failure, Shell};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use crate::app::App;
use crate::source::SourceUrl;
use crate::source::content::Hashed;
use crate::source::outside::{self, BrokenOff, NotOpened, OutsideBody};

/// Copies that read at the same time; the others wait their turn, pending.
const AT_ONCE: usize = 8;
/// A source that cannot be reached, or breaks off, is tried again after these pauses.
const PAUSES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(30), Duration::from_secs(120)];

/// A copy to be made.
pub struct Job {
    pub account: AccountName,
    pub id: Id,
    pub note: PendingCopy,
    /// What the source is asked with. Not noted: after a restart a copy whose source needs a token fails, and says so.
    pub headers: Vec<(String, String)>,
}

/// Those that wait for `run`.
pub struct Copies {
    begin: mpsc::UnboundedSender<Job>,
    begun: Mutex<Option<mpsc::UnboundedReceiver<Job>>>,
}

impl Default for Copies {
    fn default() -> Copies {
        let (begin, begun) = mpsc::unbounded_channel();
        Copies { begin, begun: Mutex::new(Some(begun)) }
    }
}

impl Copies {
    pub fn begin(&self, job: Job) {
        // Should nobody run them, the note is there for the next start.
        let _ = self.begin.send(job);
    }
}

/// Goes on with what an earlier run began, then makes every copy that is begun. Ends with the process.
pub async fn run(app: Arc<App>) {
    let begun = app.copies.begun.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(mut begun) = begun else { return };
    for account in app.accounts() {
        match noted(&app.shell, &account.name).await {
            Ok(copies) => {
                for (id, note) in copies {
                    tracing::info!(copy = %id, blob = note.blob, "going on with a copy that was pending");
                    app.copies.begin(Job { account: account.name.clone(), id, note, headers: Vec::new() });
                }
            }
            Err(failure) => tracing::error!(?failure, account = account.name.as_str(), "looking for copies failed"),
        }
    }
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    // They end with this task.
    let mut running = JoinSet::new();
    loop {
        let job = tokio::select! {
            Some(_) = running.join_next() => continue,
            job = begun.recv() => job,
        };
        let Some(job) = job else { return };
        let (app, turns) = (app.clone(), turns.clone());
        running.spawn(async move {
            let Ok(_turn) = turns.acquire_owned().await else { return };
            if let Err(failure) = make(&app, &job).await {
                tracing::error!(copy = %job.id, ?failure, "a copy stays pending until the next start");
            }
        });
    }
}

/// Why a copy did not come whole.
enum Broken {
    /// May be better next time.
    Again(String),
    /// Will not.
    Failed(String),
    /// Nobody waits for it any more.
    NotWanted,
    Failure(Failure),
}

/// From a pending copy to one that is settled.
async fn make(app: &App, job: &Job) -> Result<(), Failure> {
    let shell = &app.shell;
    let Ok(blob) = BlobName::parse(&job.note.blob) else { return forget(shell, job).await };
    let settle = |step| SettleCopy::new(&job.note.group, &blob, job.id, step);
    let mut pauses = PAUSES.into_iter();
    let step = loop {
        if !is_pending(shell, &job.note.group, &blob, job.id).await? {
            return forget(shell, job).await;
        }
        if shell.clock.now() >= job.note.started.plus_seconds(COPY_PENDING_SECONDS_MAX) {
            break Step::Failed("500 OperationTimedOut \"The copy was not finished within two weeks.\"".into());
        }
        match read(app, job, &blob).await {
            Ok((content, md5)) => break Step::Finished { content, md5 },
            Err(Broken::NotWanted) => return forget(shell, job).await,
            Err(Broken::Failed(description)) => break Step::Failed(description),
            Err(Broken::Failure(failure)) => return Err(failure),
            Err(Broken::Again(description)) => match pauses.next() {
                Some(pause) => tokio::time::sleep(pause).await,
                None => break Step::Failed(description),
            },
        }
    };
    match shell.execute(&settle(step)).await {
        // Aborted or deleted at the last moment: then that is how it ended.
        Ok(_) | Err(Failure::Refused(_) | Failure::Gone) => forget(shell, job).await,
        Err(failure) => Err(failure),
    }
}

async fn forget(shell: &Shell, job: &Job) -> Result<(), Failure> {
    shell.execute(&NoteCopy::remove(&job.account, job.id)).await
}

fn when_reading(status: u16, code: &str, why: &str) -> String {
    format!("{status} {code} \"Copy failed when reading the source{why}.\"")
}

async fn read(app: &App, job: &Job, blob: &BlobName) -> Result<(Content, [u8; 16]), Broken> {
    let url = SourceUrl::parse(&job.note.source).map_err(|_| Broken::Failed(when_reading(400, "InvalidUri", "")))?;
    let headers: Vec<(&str, String)> = job.headers.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    let mut opened = match outside::open(&app.copy_sources(), &url, &headers).await {
        Ok(opened) => opened,
        Err(NotOpened::NotAllowed) => {
            return Err(Broken::Failed(when_reading(403, "CannotVerifyCopySource", ": it is not allowed any more")));
        }
        Err(NotOpened::Unreachable(why)) => {
            return Err(Broken::Again(when_reading(500, "CannotVerifyCopySource", &format!(": {why}"))));
        }
    };
    if opened.status != 200 {
        let code = opened.header("x-ms-error-code").unwrap_or("CannotVerifyCopySource");
        let description = when_reading(opened.status, code, "");
        let may_change = opened.status >= 500 || opened.status == 429;
        return Err(if may_change { Broken::Again(description) } else { Broken::Failed(description) });
    }
    if opened.header("etag") != job.note.etag.as_deref() {
        return Err(Broken::Failed(when_reading(412, "SourceConditionNotMet", ": it was changed meanwhile")));
    }
    let mut reported = Reported { body: &mut opened.body, app, job, blob, last: 0 };
    let mut hashed = Hashed::new(&mut reported);
    match Content::receive(app.shell.engine.as_ref(), &mut hashed).await {
        Ok(content) => Ok((content, hashed.finish().md5)),
        Err(ExtentError::Fault(fault)) => Err(Broken::Failure(fault.into())),
        Err(ExtentError::Source(SourceError(error))) => Err(match error.downcast::<NotReported>() {
            Ok(not_reported) => match not_reported.0 {
                Failure::Refused(_) | Failure::Gone => Broken::NotWanted,
                failure => Broken::Failure(failure),
            },
            Err(error) => {
                let why = error.downcast_ref::<BrokenOff>().map(|why| format!(": {why}")).unwrap_or_default();
                Broken::Again(when_reading(500, "CannotVerifyCopySource", &why))
            }
        }),
    }
}

/// A body that tells its destination how far it has come.
struct Reported<'a> {
    body: &'a mut OutsideBody,
    app: &'a App,
    job: &'a Job,
    blob: &'a BlobName,
    last: u64,
}

impl Source for Reported<'_> {
    fn next(&mut self, bytes_max: usize) -> BoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async move {
            let bytes = self.body.next(bytes_max).await.map_err(|error| SourceError(Box::new(error)))?;
            let arrived = self.body.read_bytes();
            if arrived - self.last >= COPY_REPORT_BYTES {
                self.last = arrived;
                let step = SettleCopy::new(&self.job.note.group, self.blob, self.job.id, Step::Arrived(arrived));
                let reported = self.app.shell.execute(&step).await;
                reported.map_err(|failure| SourceError(Box::new(NotReported(failure))))?;
            }
            Ok(bytes)
        })
    }
}

#[derive(Debug)]
struct NotReported(Failure);

impl std::fmt::Display for NotReported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the copy is not pending any more")
    }
}

impl std::error::Error for NotReported {}
