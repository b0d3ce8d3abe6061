//! Watching an object, and telling all who watch it. Objects to be watched are in the records pool, and must be there.
//!
//! A watch is in one of two standings: it stands, or it is lost and made anew in the background. Whatever was told
//! while it was lost is not told again.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::sync::{mpsc, oneshot, watch};

use crate::connect::{Connection, Librados, blocking, called_back, name};
use crate::errno::{op_error, words};
use crate::slot::copied;
use crate::{BoxFuture, OpError, Pool};

/// How long the cluster waits for a watcher that it cannot reach before it forgets them.
const WATCH_TIMEOUT_SECONDS: u32 = 10;
/// Between two tries to make a watch anew.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// What waits to be handled; who tells more than that is not answered.
const WAITING_MAX: usize = 1024;

/// What a watcher does about what it is told; who told it is answered when the future is done.
pub type Handler = Arc<dyn Fn(Bytes) -> BoxFuture<'static, ()> + Send + Sync>;
/// What a watcher does when its watch is lost, and when it stands again. Not for long: nothing is handled meanwhile.
pub type OnStanding = Arc<dyn Fn(Standing) + Send + Sync>;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Standing {
    /// From now on, or since a moment ago, something may have been told that was not heard.
    Lost { why: String },
    /// The watch stands again; what happened while it was lost must be looked up.
    Again,
}

/// Why not everybody has acted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotifyError {
    /// These clients (`Librados::instance`) watch and did not answer in time; so many did.
    Silent {
        answered: usize,
        clients: Vec<u64>,
    },
    Op(OpError),
}

/// A watch, which ends when this is dropped.
pub struct Watch {
    shared: Arc<Shared>,
    /// Dropped to end the task.
    _alive: oneshot::Sender<()>,
}

struct Shared {
    connection: Arc<Connection>,
    object: CString,
    /// None while the watch is lost.
    registered: Mutex<Option<Registration>>,
    handler: Handler,
    standing: OnStanding,
}

struct Told {
    notify_id: u64,
    watch: u64,
    payload: Bytes,
}

/// Which watch, and why.
type Broken = Option<(u64, String)>;

/// Where the callbacks of librados put what they bring. That a watch is lost always finds room.
#[derive(Clone)]
struct Ears {
    told: mpsc::Sender<Told>,
    broken: watch::Sender<Broken>,
}

impl Librados {
    /// Watches an object until the `Watch` is dropped. `Missing` without the object. Needs to be called on a tokio
    /// runtime.
    pub fn watch(
        &self,
        object: &str,
        handler: Handler,
        standing: OnStanding,
    ) -> BoxFuture<'static, Result<Watch, OpError>> {
        let (connection, object) = (self.connection.clone(), name(object));
        Box::pin(async move {
            let shared = Shared { connection, object: object?, registered: Mutex::new(None), handler, standing };
            let shared = Arc::new(shared);
            let ((told, heard), (broken, lost)) = (mpsc::channel(WAITING_MAX), watch::channel(None));
            let ears = Ears { told, broken };
            *shared.registered() = Some(shared.register(&ears).await?);
            let (alive, ended) = oneshot::channel();
            tokio::spawn(attend(shared.clone(), ears, heard, lost, ended));
            Ok(Watch { shared, _alive: alive })
        })
    }

    /// Tells all who watch an object, and waits until each has acted. How many have, or who has not.
    pub fn notify(
        &self,
        object: &str,
        payload: Bytes,
        timeout: Duration,
    ) -> BoxFuture<'static, Result<usize, NotifyError>> {
        let (connection, object) = (self.connection.clone(), name(object));
        Box::pin(async move {
            let object = object.map_err(NotifyError::Op)?;
            let told = blocking(connection, move |connection| tell(connection, &object, &payload, timeout));
            let (code, answer) = told.await.map_err(NotifyError::Op)?;
            judge(code, answer)
        })
    }
}

impl Watch {
    /// How long ago the cluster last confirmed the watch: whatever was told before that has been heard. None while it
    /// is lost.
    pub fn age(&self) -> Option<Duration> {
        let registered = self.shared.registered();
        let watch = registered.as_ref()?.watch;
        let connection = &self.shared.connection;
        // SAFETY: the watch stands as long as it is registered, and the registration is locked.
        let milliseconds = unsafe { (connection.library.rados_watch_check)(connection.pool(Pool::Records), watch) };
        u64::try_from(milliseconds).ok().map(Duration::from_millis)
    }
}

/// Handles what librados says of a watch, one thing after another, until the watch is dropped.
async fn attend(
    shared: Arc<Shared>,
    ears: Ears,
    mut heard: mpsc::Receiver<Told>,
    mut lost: watch::Receiver<Broken>,
    mut ended: oneshot::Receiver<()>,
) {
    // `ears` keeps both channels open.
    loop {
        tokio::select! {
            _ = &mut ended => break,
            Ok(()) = lost.changed() => {
                let broken = lost.borrow_and_update().clone();
                // A watch that was given up since is of no interest.
                let Some((_, why)) = broken.filter(|(watch, _)| shared.is(*watch)) else { continue };
                (shared.standing)(Standing::Lost { why });
                tokio::select! {
                    () = shared.anew(&ears) => {}
                    _ = &mut ended => break,
                }
            }
            Some(Told { notify_id, watch, payload }) = heard.recv() => {
                (shared.handler)(payload).await;
                shared.acknowledge(notify_id, watch);
            }
        }
    }
    shared.unregister().await;
}

impl Shared {
    fn registered(&self) -> MutexGuard<'_, Option<Registration>> {
        self.registered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is(&self, watch: u64) -> bool {
        self.registered().as_ref().is_some_and(|registration| registration.watch == watch)
    }

    async fn register(self: &Arc<Shared>, ears: &Ears) -> Result<Registration, OpError> {
        let (object, ears, connection) = (self.object.clone(), ears.clone(), self.connection.clone());
        blocking(self.connection.clone(), move |_| Registration::new(connection, &object, ears)).await
    }

    /// Ends the watch, which asks the cluster and so may block.
    async fn unregister(&self) {
        let registration = self.registered().take();
        // It ends either way: dropped on that thread, or here if there is no runtime any more.
        let _ = tokio::task::spawn_blocking(move || drop(registration)).await;
    }

    async fn anew(self: &Arc<Shared>, ears: &Ears) {
        self.unregister().await;
        let registration = loop {
            match self.register(ears).await {
                Ok(registration) => break registration,
                Err(error) => {
                    tracing::warn!(object = ?self.object, ?error, "a watch that was lost cannot be made anew yet");
                    tokio::time::sleep(TRY_AGAIN).await;
                }
            }
        };
        // Said before the watch has an age again: nobody is to take it for one that heard everything and know nothing of the gap.
        (self.standing)(Standing::Again);
        *self.registered() = Some(registration);
    }

    fn acknowledge(&self, notify_id: u64, watch: u64) {
        let connection = &self.connection;
        // SAFETY: the pool is open; librados takes the watch for a number here, and sends the answer without waiting.
        unsafe {
            let (pool, object) = (connection.pool(Pool::Records), self.object.as_ptr());
            (connection.library.rados_notify_ack)(pool, object, notify_id, watch, ptr::null(), 0);
        }
    }
}

/// A watch as librados knows it; it ends when this is dropped, which may block as long as the time limit.
struct Registration {
    connection: Arc<Connection>,
    watch: u64,
    /// What the callbacks use; librados' until the watch has ended.
    ears: *mut Ears,
}

// SAFETY: senders may be dropped on any thread, and a watch may end on any.
unsafe impl Send for Registration {}

impl Registration {
    fn new(connection: Arc<Connection>, object: &CStr, ears: Ears) -> Result<Registration, OpError> {
        let (library, pool) = (connection.library, connection.pool(Pool::Records));
        let (mut watch, ears) = (0, Box::into_raw(Box::new(ears)));
        // SAFETY: the pool is open, the name ends with a zero, and what the callbacks use lives until the watch has
        // ended.
        let code = unsafe {
            let (told, broken, argument) = (Some(told as _), Some(broken as _), ears.cast::<c_void>());
            (library.rados_watch3)(pool, object.as_ptr(), &mut watch, told, broken, WATCH_TIMEOUT_SECONDS, argument)
        };
        if code < 0 {
            // SAFETY: a watch that did not come to be calls nobody once what was queued is through, and that is
            // awaited.
            drop(unsafe {
                (library.rados_watch_flush)(connection.cluster);
                Box::from_raw(ears)
            });
            return Err(op_error(code));
        }
        Ok(Registration { connection, watch, ears })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let library = self.connection.library;
        // SAFETY: the watch is one that was made and has not ended. Whatever the cluster says to its end, librados
        // forgets it, and calls nobody once what was queued is through; only then goes what they use.
        drop(unsafe {
            (library.rados_unwatch2)(self.connection.pool(Pool::Records), self.watch);
            (library.rados_watch_flush)(self.connection.cluster);
            Box::from_raw(self.ears)
        });
    }
}

/// Called by librados when somebody tells something. Nothing in it panics.
extern "C" fn told(
    argument: *mut c_void,
    notify_id: u64,
    watch: u64,
    _notifier: u64,
    payload: *mut c_void,
    payload_bytes: usize,
) {
    called_back(|| {
        // SAFETY: librados lends its bytes for the time of the call.
        let payload = unsafe { copied(payload.cast::<c_char>(), payload_bytes) };
        // SAFETY: the argument is a registration's, which outlives its watch.
        let ears = unsafe { &*argument.cast::<Ears>() };
        // Who finds no room gets no answer, and so learns that not everybody has acted.
        let _ = ears.told.try_send(Told { notify_id, watch, payload });
    });
}

/// Called by librados when a watch is lost. Nothing in it panics.
extern "C" fn broken(argument: *mut c_void, watch: u64, code: c_int) {
    called_back(|| {
        // SAFETY: the argument is a registration's, which outlives its watch.
        let ears = unsafe { &*argument.cast::<Ears>() };
        ears.broken.send_replace(Some((watch, words(code))));
    });
}

/// Tells, and gives what librados returned with what it was answered.
fn tell(connection: &Connection, object: &CStr, payload: &[u8], timeout: Duration) -> Result<(c_int, Bytes), OpError> {
    let too_long = |_| OpError::Failed { why: format!("{} bytes are too many to tell", payload.len()) };
    let payload_bytes = c_int::try_from(payload.len()).map_err(too_long)?;
    let milliseconds = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    let (mut answer, mut answer_bytes) = (ptr::null_mut::<c_char>(), 0);
    // SAFETY: the pool is open, the name ends with a zero, the payload is as long as is said; the answer is copied and
    // given back.
    unsafe {
        let (pool, payload) = (connection.pool(Pool::Records), payload.as_ptr().cast::<c_char>());
        let notify = connection.library.rados_notify2;
        let code = notify(pool, object.as_ptr(), payload, payload_bytes, milliseconds, &mut answer, &mut answer_bytes);
        if answer.is_null() {
            return Ok((code, Bytes::new()));
        }
        let answered = copied(answer, answer_bytes);
        (connection.library.rados_buffer_free)(answer);
        Ok((code, answered))
    }
}

fn judge(code: c_int, answer: Bytes) -> Result<usize, NotifyError> {
    match read_answer(answer) {
        Some((answered, clients)) if !clients.is_empty() => Err(NotifyError::Silent { answered, clients }),
        Some((answered, _)) if code >= 0 => Ok(answered),
        _ if code < 0 => Err(NotifyError::Op(op_error(code))),
        _ => Err(NotifyError::Op(OpError::Unknown { why: "an OSD's words on who was told make no sense".to_owned() })),
    }
}

/// How many answered, and the clients that did not: librados.h draws it.
fn read_answer(mut answer: Bytes) -> Option<(usize, Vec<u64>)> {
    let answered = answer.try_get_u32_le().ok()?;
    for _ in 0..answered {
        let _client_and_watch = (answer.try_get_u64_le().ok()?, answer.try_get_u64_le().ok()?);
        let bytes = answer.try_get_u32_le().ok()? as usize;
        if bytes > answer.len() {
            return None;
        }
        answer.advance(bytes);
    }
    let silent = answer.try_get_u32_le().ok()?;
    let mut clients = Vec::new();
    for _ in 0..silent {
        clients.push(answer.try_get_u64_le().ok()?);
        answer.try_get_u64_le().ok()?;
    }
    Some((answered as usize, clients))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(answered: &[(u64, &[u8])], silent: &[u64]) -> Bytes {
        let mut out = (answered.len() as u32).to_le_bytes().to_vec();
        for (client, payload) in answered {
            out.extend([client.to_le_bytes(), [9; 8]].concat());
            out.extend((payload.len() as u32).to_le_bytes());
            out.extend(*payload);
        }
        out.extend((silent.len() as u32).to_le_bytes());
        for client in silent {
            out.extend([client.to_le_bytes(), [9; 8]].concat());
        }
        Bytes::from(out)
    }

    #[test]
    fn who_answered() {
        let late = -rustix::io::Errno::TIMEDOUT.raw_os_error();
        let gone = -rustix::io::Errno::NOENT.raw_os_error();
        for (code, answer, expected) in [
            (0, answer(&[], &[]), Ok(0)),
            (0, answer(&[(7, b""), (8, b"yes")], &[]), Ok(2)),
            (late, answer(&[(7, b"")], &[8]), Err(NotifyError::Silent { answered: 1, clients: vec![8] })),
            (late, Bytes::new(), Err(NotifyError::Op(op_error(late)))),
            (gone, Bytes::new(), Err(NotifyError::Op(OpError::Missing))),
        ] {
            assert_eq!(judge(code, answer), expected);
        }
        let whole = answer(&[(7, b"yes")], &[8]);
        for end in 0..whole.len() {
            assert_eq!(read_answer(whole.slice(..end)), None, "{end}");
        }
    }
}
