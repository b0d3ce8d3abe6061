//! A connection to a cluster: how it is made, and in which words it is refused.
//!
//! 1. Every operation holds the connection it runs on, so nothing is given back that librados still uses.
//! 2. Who drops a connection last shuts it down, but never on a thread of librados, which would wait for itself.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use tokio::sync::{Semaphore, watch};

use crate::errno::{errno, words};
use crate::flight::{BODIES_ROOM_KIB, RECORDS_ROOM_KIB};
use crate::library::{Handle, Library, library};
use crate::{OpError, Pool};

/// How long the mons and the pools may take to answer for the first time.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// An object that nobody makes: asking for it shows whether the pool may be read.
const ABSENT: &CStr = c"lazuli.absent";

/// Where a cluster is, and who asks.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Ceph's configuration file; without one, where librados looks by itself (`CEPH_CONF`, `/etc/ceph/ceph.conf` and
    /// so on).
    pub conf: Option<PathBuf>,
    /// `lazuli` stands for `client.lazuli`.
    pub user: String,
    /// The user's key; without one, where the configuration says it is.
    pub keyring: Option<PathBuf>,
    pub records_pool: String,
    pub bodies_pool: String,
    /// Keeps installations that share their pools apart.
    pub namespace: Option<String>,
    /// No operation takes longer. Whole seconds, rounded up, where librados keeps it.
    pub deadline: Duration,
}

/// RADOS through librados; `Objects` is what it is for.
pub struct Librados {
    pub(crate) connection: Arc<Connection>,
}

pub(crate) struct Connection {
    pub library: &'static Library,
    pub cluster: Handle,
    records: Handle,
    bodies: Handle,
    pub deadline: Duration,
    /// For what is under way, in KiB.
    /// Room for flights, for each pool its own: bodies that wait for a part of the cluster do not keep records waiting.
    pub rooms: [Arc<Semaphore>; 2],
    /// Gone when librados has shut down.
    alive: watch::Sender<()>,
}

// SAFETY: librados locks what is behind its handles; its documentation allows calls from any thread.
unsafe impl Send for Connection {}
// SAFETY: as above.
unsafe impl Sync for Connection {}

impl Librados {
    /// Connects, and looks at both pools. Blocks, for some twenty seconds if nobody answers.
    pub fn connect(settings: &Settings) -> Result<Arc<Librados>, String> {
        let mut connection = Connection::create(library()?, &settings.user, settings.deadline)?;
        connection.configure(settings)?;
        connection.join(settings)?;
        connection.records = connection.open(settings, &settings.records_pool)?;
        connection.bodies = connection.open(settings, &settings.bodies_pool)?;
        Ok(Arc::new(Librados { connection: Arc::new(connection) }))
    }

    /// Waits until librados has shut down, which it does when nobody holds the connection any more, not even what is under way. A
    /// process that ends before that may crash: its threads go on while what they use is taken down.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut alive = self.connection.alive.subscribe();
        async move { while alive.changed().await.is_ok() {} }
    }

    /// Who this client is to the cluster, unlike any other that is or was connected: the number in `client.4123`.
    pub fn instance(&self) -> u64 {
        // SAFETY: the cluster is connected.
        unsafe { (self.connection.library.rados_get_instance_id)(self.connection.cluster) }
    }
}

impl Connection {
    pub fn pool(&self, pool: Pool) -> Handle {
        match pool {
            Pool::Records => self.records,
            Pool::Bodies => self.bodies,
        }
    }

    fn create(library: &'static Library, user: &str, deadline: Duration) -> Result<Connection, String> {
        let (mut cluster, name) = (ptr::null_mut(), text(&format!("client.{user}"))?);
        // SAFETY: both strings end with a zero; librados copies them.
        let code = unsafe { (library.rados_create2)(&mut cluster, c"ceph".as_ptr(), name.as_ptr(), 0) };
        if code < 0 {
            return Err(format!("librados does not take the user client.{user}: {}", words(code)));
        }
        let rooms = [RECORDS_ROOM_KIB, BODIES_ROOM_KIB].map(|kib| Arc::new(Semaphore::new(kib as usize)));
        let alive = watch::Sender::new(());
        Ok(Connection { library, cluster, records: ptr::null_mut(), bodies: ptr::null_mut(), deadline, rooms, alive })
    }

    fn configure(&self, settings: &Settings) -> Result<(), String> {
        let path = settings.conf.as_deref().map(|path| readable("Ceph's configuration", path)).transpose()?;
        // SAFETY: the path ends with a zero or is null, which stands for the usual places.
        let code = unsafe {
            (self.library.rados_conf_read_file)(self.cluster, path.as_ref().map_or(ptr::null(), |path| path.as_ptr()))
        };
        match (code, &settings.conf) {
            (0.., _) => {}
            (_, Some(path)) => {
                return Err(format!("Ceph's configuration {} cannot be used: {}", path.display(), words(code)));
            }
            (_, None) => {
                return Err(
                    "no configuration of Ceph was found, as /etc/ceph/ceph.conf would be: name the file".to_owned()
                );
            }
        }
        if let Some(path) = &settings.keyring {
            self.set(c"keyring", &readable("the keyring", path)?)?;
        }
        let seconds = |limit: Duration| number(limit.as_secs() + u64::from(limit.subsec_nanos() > 0));
        self.set(c"client_mount_timeout", &seconds(CONNECT_LIMIT))?;
        self.set(c"rados_mon_op_timeout", &seconds(settings.deadline.max(Duration::from_secs(1))))?;
        self.set(c"rados_osd_op_timeout", &seconds(settings.deadline.max(Duration::from_secs(1))))?;
        // With these limits a call blocks its thread, which here is one of the runtime's; `rooms` are ours, and is
        // awaited.
        self.set(c"objecter_inflight_ops", c"0")?;
        self.set(c"objecter_inflight_op_bytes", c"0")
    }

    fn set(&self, option: &CStr, value: &CStr) -> Result<(), String> {
        // SAFETY: both strings end with a zero; librados copies them.
        let code = unsafe { (self.library.rados_conf_set)(self.cluster, option.as_ptr(), value.as_ptr()) };
        if code < 0 {
            return Err(format!(
                "librados does not take {} = {}: {}",
                option.to_string_lossy(),
                value.to_string_lossy(),
                words(code)
            ));
        }
        Ok(())
    }

    /// The value of an option, cut to what fits.
    fn get(&self, option: &CStr) -> String {
        let mut value = [0_u8; 1024];
        // SAFETY: the buffer is as long as is said, and ends with a zero whatever librados writes: the last byte is not
        // given away.
        unsafe {
            (self.library.rados_conf_get)(
                self.cluster,
                option.as_ptr(),
                value.as_mut_ptr().cast::<c_char>(),
                value.len() - 1,
            )
        };
        CStr::from_bytes_until_nul(&value).map(|value| value.to_string_lossy().into_owned()).unwrap_or_default()
    }

    fn join(&self, settings: &Settings) -> Result<(), String> {
        // SAFETY: the cluster was created and is not connected yet.
        let code = unsafe { (self.library.rados_connect)(self.cluster) };
        if code >= 0 {
            return Ok(());
        }
        let (user, mons, keyring) = (&settings.user, self.get(c"mon_host"), self.get(c"keyring"));
        Err(match errno(code) {
            Errno::NOENT | Errno::INVAL if mons.is_empty() => {
                "Ceph's configuration names no mons: `mon host` is missing".to_owned()
            }
            Errno::TIMEDOUT => {
                format!(
                    "the Ceph cluster at {mons} did not answer in {} s: are its mons up, and reachable from here?",
                    CONNECT_LIMIT.as_secs()
                )
            }
            Errno::ACCESS | Errno::PERM => format!(
                "the Ceph cluster at {mons} refuses client.{user}: {keyring} holds no key for it, or another than the \
                 cluster knows; `ceph auth get client.{user}` shows the right one"
            ),
            Errno::NOENT => format!(
                "there is no keyring for client.{user} ({keyring}): \
                 `ceph auth get-or-create client.{user} {}` writes one",
                caps(settings)
            ),
            _ => format!("the Ceph cluster at {mons} cannot be used by client.{user}: {}", words(code)),
        })
    }

    /// A pool's context; the pool answers.
    fn open(&self, settings: &Settings, pool: &str) -> Result<Handle, String> {
        let (mut context, name) = (ptr::null_mut(), text(pool)?);
        // SAFETY: the cluster is connected; the name ends with a zero.
        let code = unsafe { (self.library.rados_ioctx_create)(self.cluster, name.as_ptr(), &mut context) };
        match errno(code) {
            _ if code >= 0 => {}
            Errno::NOENT => {
                return Err(format!(
                    "the pool {pool} is missing: `ceph osd pool create {pool}` makes it, then \
                     `ceph osd pool application enable {pool} lazuli`"
                ));
            }
            _ => return Err(format!("the pool {pool} cannot be opened: {}", words(code))),
        }
        self.prepare(settings, context).and_then(|()| self.probe(settings, pool, context)).inspect_err(|_| {
            // SAFETY: made above, and used by nobody else.
            unsafe { (self.library.rados_ioctx_destroy)(context) }
        })?;
        Ok(context)
    }

    fn prepare(&self, settings: &Settings, context: Handle) -> Result<(), String> {
        if let Some(namespace) = &settings.namespace {
            let namespace = text(namespace)?;
            // SAFETY: the context is open; librados copies the name.
            unsafe { (self.library.rados_ioctx_set_namespace)(context, namespace.as_ptr()) };
        }
        // Without this librados holds writes back while the cluster is full, removals too, and says nothing. With it
        // they are sent: what makes an object larger or new is refused as `Full`, and removals make room. Records that
        // grow in an object that is there still pass: OSDs count no keys, and take them up to their last reserve
        // (`osd_failsafe_full_ratio`). SAFETY: the context is open.
        unsafe { (self.library.rados_set_pool_full_try)(context) };
        Ok(())
    }

    fn probe(&self, settings: &Settings, pool: &str, context: Handle) -> Result<(), String> {
        let (mut bytes, mut modified) = (0, 0);
        // SAFETY: the context is open, and both numbers live as long as the call.
        let code = unsafe { (self.library.rados_stat)(context, ABSENT.as_ptr(), &mut bytes, &mut modified) };
        let user = &settings.user;
        match errno(code) {
            _ if code >= 0 => Ok(()),
            Errno::NOENT => Ok(()),
            Errno::PERM | Errno::ACCESS => Err(format!(
                "client.{user} may not use the pool {pool}: `ceph auth caps client.{user} {}` lets it",
                caps(settings)
            )),
            Errno::TIMEDOUT => Err(format!("the pool {pool} did not answer in time: are its OSDs up?")),
            _ => Err(format!("the pool {pool} cannot be read: {}", words(code))),
        }
    }
}

/// Runs a call that blocks, as long as the time limit at most, where that is allowed.
pub(crate) async fn blocking<T: Send + 'static>(
    connection: Arc<Connection>,
    call: impl FnOnce(&Connection) -> Result<T, OpError> + Send + 'static,
) -> Result<T, OpError> {
    let called = tokio::task::spawn_blocking(move || call(&connection)).await;
    called.unwrap_or_else(|error| Err(OpError::Unknown { why: error.to_string() }))
}

impl Drop for Connection {
    fn drop(&mut self) {
        let (pools, alive) = ([self.records, self.bodies], self.alive.clone());
        let whole = Handles { library: self.library, cluster: self.cluster, pools, _alive: alive };
        if !CALLED_BACK.get() {
            return whole.close();
        }
        // If no thread can be had, the connection ends with the process.
        let _ = std::thread::Builder::new().name("librados-close".to_owned()).spawn(move || whole.close());
    }
}

/// What a connection has to give back.
struct Handles {
    library: &'static Library,
    cluster: Handle,
    pools: [Handle; 2],
    _alive: watch::Sender<()>,
}

// SAFETY: as of `Connection`.
unsafe impl Send for Handles {}

impl Handles {
    fn close(self) {
        for pool in self.pools.into_iter().filter(|pool| !pool.is_null()) {
            // SAFETY: opened by the connection, which nobody holds any more.
            unsafe { (self.library.rados_ioctx_destroy)(pool) };
        }
        // SAFETY: as above; a cluster that was never connected may be shut down too.
        unsafe { (self.library.rados_shutdown)(self.cluster) };
    }
}

thread_local! {
    static CALLED_BACK: Cell<bool> = const { Cell::new(false) };
}

/// Runs what librados calls back for, on its own thread.
pub(crate) fn called_back(work: impl FnOnce()) {
    CALLED_BACK.set(true);
    work();
    CALLED_BACK.set(false);
}

/// A name as librados takes it.
pub(crate) fn name(text: &str) -> Result<CString, OpError> {
    CString::new(text).map_err(|_| OpError::Failed { why: format!("a zero byte in {text:?}") })
}

fn text(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| format!("a zero byte in {text:?}"))
}

fn number(number: u64) -> CString {
    CString::new(number.to_string()).expect("digits hold no zero byte")
}

/// The path of a file that can be read: librados says of others less than the operating system does.
fn readable(what: &str, path: &Path) -> Result<CString, String> {
    std::fs::File::open(path).map_err(|error| format!("{what} {} cannot be read: {error}", path.display()))?;
    CString::new(path.as_os_str().as_bytes()).map_err(|_| format!("a zero byte in {}", path.display()))
}

/// What the user must be allowed, as `ceph auth` takes it. Locks, which tell the time too, are calls of a class: `x`.
fn caps(settings: &Settings) -> String {
    format!("mon 'allow r' osd 'allow rwx pool={}, allow rw pool={}'", settings.records_pool, settings.bodies_pool)
}
