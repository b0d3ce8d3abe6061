//! Copies from outside that run in the background: each is read to its end and then becomes the blob or file in one commit.
//!
//! What is known of a copy is in its destination and in a note (`partition/copying.rs`), so the server may stop at any time: the next
//! start finds the note and begins to read again. Where several gateways share an engine a note says when its copy was last tended: one that
//! nobody tends any more is taken over, to a file by the owner of its share. A copy that is aborted meanwhile, or whose container or share is deleted, is noticed at the next
//! report and read no further.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use contract::limits::{COPY_PENDING_SECONDS_MAX, COPY_REPORT_BYTES, FILE_BYTES_MAX};
use contract::names::{AccountName, BlobName};
use engine::{BoxFuture, ExtentError, GroupId, Source, SourceError, Tenure};
use env::{Id, Timestamp};
use partition::blob::copy::{SourceExpectation, condition_failed};
use partition::blob::{Attributes, pending as blob};
use partition::copying::{Step, TendCopy, forget_copy, note_copy, noted};
use partition::file::pending as file;
use partition::record::note::PendingCopy;
use partition::{Content, Failure, Shell};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::app::App;
use crate::events;
use crate::request::Request;
use crate::source::SourceUrl;
use crate::source::content::{Hashed, answered, condition_headers, described, not_opened, source_headers};
use crate::source::origin::OutsideSource;
use crate::source::outside::{self, BrokenOff, NotOpened, OutsideBody};

/// Copies that read at the same time; the others wait their turn, pending.
const AT_ONCE: usize = 8;
/// A source that cannot be reached, or breaks off, is tried again after these pauses.
const PAUSES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(30), Duration::from_secs(120)];

/// Where others share the engine: between two words that a copy is being made, and between two looks for those that nobody makes.
const TEND_EVERY: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// A copy to be made.
pub struct Job {
    pub account: AccountName,
    pub id: Id,
    pub note: PendingCopy,
    /// What the source is asked with. Not noted: after a restart a copy whose source needs a token fails, and says so.
    pub headers: Vec<(String, String)>,
}

/// A source outside that was looked at: there, readable, and what it says of itself.
pub struct LookedAt {
    pub of: Attributes,
    /// As far as it tells.
    pub bytes: u64,
    source: String,
    etag: Option<String>,
}

impl LookedAt {
    /// The note on a copy of it.
    pub fn note(&self, group: GroupId, blob: Option<String>, started: Timestamp) -> PendingCopy {
        let (source, etag) = (self.source.clone(), self.etag.clone());
        PendingCopy { group, blob, source, etag, started, tended: started, asked: None }
    }
}

/// Looks at a source before anything is done for it.
pub async fn look(
    app: &App,
    request: &Request<'_>,
    outside: &OutsideSource,
    expectation: &SourceExpectation,
) -> Result<LookedAt, Failure> {
    let mut headers = source_headers(request, outside);
    headers.extend(condition_headers(&expectation.conditions));
    let opened = outside::open(&app.copy_sources(), &outside.url, &headers).await.map_err(not_opened)?;
    if let (304 | 412, false) = (opened.status, expectation.conditions.is_empty()) {
        return Err(condition_failed(expectation.operation, opened.status).into());
    }
    answered(&opened, false)?;
    Ok(LookedAt {
        of: described(&opened, expectation.only_blocks)?,
        bytes: opened.bytes().unwrap_or_default(),
        source: outside.url.as_str().to_string(),
        etag: opened.header("etag").map(str::to_string),
    })
}

/// Notes a copy, makes its destination pending by `begun`, and begins it. If the destination is refused nothing is noted.
pub async fn start<T>(
    app: &App,
    request: &Request<'_>,
    outside: &OutsideSource,
    id: Id,
    note: PendingCopy,
    begun: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let account = &request.account.name;
    app.shell.execute(&note_copy(account, id, &note)).await?;
    match begun.await {
        Ok(outcome) => {
            let headers = source_headers(request, outside);
            let headers = headers.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
            app.copies.begin(Job { account: account.clone(), id, note, headers });
            Ok(outcome)
        }
        Err(failure) => {
            app.shell.execute(&forget_copy(account, id)).await?;
            Err(failure)
        }
    }
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
    go_on(&app).await;
    let is_shared = app.shell.tenures().is_some();
    let mut look = tokio::time::interval_at(Instant::now() + LOOK_EVERY, LOOK_EVERY);
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    // They end with this task.
    let mut running = JoinSet::new();
    loop {
        let job = tokio::select! {
            Some(_) = running.join_next() => continue,
            job = begun.recv() => job,
            _ = look.tick(), if is_shared => {
                go_on(&app).await;
                continue;
            }
        };
        let Some(job) = job else { return };
        let (app, turns) = (app.clone(), turns.clone());
        running.spawn(async move {
            let making = async {
                let Ok(_turn) = turns.acquire_owned().await else { return };
                if let Err(failure) = make(&app, &job).await {
                    tracing::error!(copy = %job.id, ?failure, "a copy stays pending until the next start, or is taken over");
                }
            };
            tokio::select! {
                () = making => {}
                () = tend(&app.shell, &job), if is_shared => {}
            }
        });
    }
}

/// Begins what nobody else makes.
async fn go_on(app: &App) {
    for account in app.accounts() {
        match abandoned(&app.shell, &account.name).await {
            Ok(copies) => {
                for (id, note) in copies {
                    tracing::info!(copy = %id, "going on with a copy that was pending");
                    app.copies.begin(Job { account: account.name.clone(), id, note, headers: Vec::new() });
                }
            }
            Err(failure) => tracing::error!(?failure, account = account.name.as_str(), "looking for copies failed"),
        }
    }
}

/// Copies that are noted, and are this process's to make from here on: all of them, where no other could.
async fn abandoned(shell: &Shell, account: &AccountName) -> Result<Vec<(Id, PendingCopy)>, Failure> {
    let mut copies = noted(shell, account).await?;
    if shell.tenures().is_none() {
        return Ok(copies);
    }
    copies.retain(|(_, note)| !note.is_tended(shell.clock.now()));
    let mut taken = Vec::new();
    for (id, note) in copies {
        let tenure = if note.blob.is_some() { Ok(Tenure::Ours) } else { shell.engine.own(&note.group).await };
        if matches!(tenure, Ok(Tenure::Ours)) && shell.execute(&TendCopy::take_over(account, id)).await? {
            taken.push((id, note));
        }
    }
    Ok(taken)
}

/// Says now and then that a copy is being made. Never ends.
async fn tend(shell: &Shell, job: &Job) {
    loop {
        tokio::time::sleep(TEND_EVERY).await;
        if let Err(failure) = shell.execute(&TendCopy::again(&job.account, job.id)).await {
            tracing::warn!(copy = %job.id, ?failure, "a copy could not be tended; another gateway may take it over");
        }
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
    let Some(destination) = Destination::of(&job.note) else { return forget(shell, job).await };
    let mut pauses = PAUSES.into_iter();
    let step = loop {
        if !destination.is_pending(shell, job.id).await? {
            return forget(shell, job).await;
        }
        if shell.clock.now() >= job.note.started.plus_seconds(COPY_PENDING_SECONDS_MAX) {
            break Step::Failed("500 OperationTimedOut \"The copy was not finished within two weeks.\"".into());
        }
        match read(app, job, &destination).await {
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
    match destination.finish(shell, job, step).await {
        // Aborted or deleted at the last moment: then that is how it ended.
        Ok(()) | Err(Failure::Refused(_) | Failure::Gone) => forget(shell, job).await,
        Err(failure) => Err(failure),
    }
}

/// What a copy becomes.
enum Destination {
    Blob(GroupId, BlobName),
    File(GroupId),
}

impl Destination {
    /// `None` if it can be none.
    fn of(note: &PendingCopy) -> Option<Destination> {
        match &note.blob {
            Some(blob) => Some(Destination::Blob(note.group.clone(), BlobName::parse(blob).ok()?)),
            None => Some(Destination::File(note.group.clone())),
        }
    }

    /// Is the copy still wanted?
    async fn is_pending(&self, shell: &Shell, id: Id) -> Result<bool, Failure> {
        match self {
            Destination::Blob(group, blob) => blob::is_pending(shell, group, blob, id).await,
            Destination::File(group) => file::is_pending(shell, group, id).await,
        }
    }

    /// The last step, of which those who are subscribed are told.
    async fn finish(&self, shell: &Shell, job: &Job, step: Step) -> Result<(), Failure> {
        let Destination::Blob(group, blob) = self else { return self.settle(shell, job.id, step).await };
        let mut command = blob::SettleCopy::new(group, blob, job.id, step);
        command.announcement = events::of_copy(shell, &job.account, blob.as_str(), job.note.asked.as_ref());
        shell.execute(&command).await.map(|_| ())
    }

    async fn settle(&self, shell: &Shell, id: Id, step: Step) -> Result<(), Failure> {
        match self {
            Destination::Blob(group, blob) => {
                shell.execute(&blob::SettleCopy::new(group, blob, id, step)).await.map(|_| ())
            }
            Destination::File(group) => shell.execute(&file::SettleCopy::new(group, id, step)).await,
        }
    }

    /// How large it may become.
    fn bytes_max(&self) -> u64 {
        match self {
            Destination::Blob(..) => u64::MAX,
            Destination::File(_) => FILE_BYTES_MAX,
        }
    }
}

async fn forget(shell: &Shell, job: &Job) -> Result<(), Failure> {
    shell.execute(&forget_copy(&job.account, job.id)).await
}

fn when_reading(status: u16, code: &str, why: &str) -> String {
    format!("{status} {code} \"Copy failed when reading the source{why}.\"")
}

async fn read(app: &App, job: &Job, destination: &Destination) -> Result<(Content, [u8; 16]), Broken> {
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
    opened.body.bytes_max = destination.bytes_max();
    let mut reported = Reported { body: &mut opened.body, shell: &app.shell, id: job.id, destination, last: 0 };
    let mut hashed = Hashed::new(&mut reported);
    match Content::receive(app.shell.engine.as_ref(), &mut hashed).await {
        Ok(content) => Ok((content, hashed.finish().md5)),
        Err(ExtentError::Fault(fault)) => Err(Broken::Failure(fault.into())),
        Err(ExtentError::Source(SourceError(error))) => Err(match error.downcast::<NotReported>() {
            Ok(not_reported) => match not_reported.0 {
                Failure::Refused(_) | Failure::Gone => Broken::NotWanted,
                failure => Broken::Failure(failure),
            },
            Err(error) => match error.downcast_ref::<BrokenOff>() {
                Some(why @ BrokenOff::TooLarge) => {
                    Broken::Failed(when_reading(413, "RequestBodyTooLarge", &format!(": {why}")))
                }
                why => {
                    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
                    Broken::Again(when_reading(500, "CannotVerifyCopySource", &why))
                }
            },
        }),
    }
}

/// A body that tells its destination how far it has come.
struct Reported<'a> {
    body: &'a mut OutsideBody,
    shell: &'a Shell,
    id: Id,
    destination: &'a Destination,
    last: u64,
}

impl Source for Reported<'_> {
    fn next(&mut self, bytes_max: usize) -> BoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async move {
            let bytes = self.body.next(bytes_max).await.map_err(|error| SourceError(Box::new(error)))?;
            let arrived = self.body.read_bytes();
            if arrived - self.last >= COPY_REPORT_BYTES {
                self.last = arrived;
                let reported = self.destination.settle(self.shell, self.id, Step::Arrived(arrived)).await;
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
