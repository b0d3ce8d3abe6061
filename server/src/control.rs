//! The socket in the data directory by which a second process on this machine reaches the server: `lazuli backup`, `lazuli account`.
//!
//! A request is one line. To `backup 1` the answer is a copy of one moment in blocks (`embedded::backup::block`); the caller copies the
//! bodies itself, from the segments, which stay as they are until it hangs up. `account 1` is followed by what is asked for as JSON, and answered
//! with `ok` or `no` in a line, and words.

use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use embedded::Embedded;
use embedded::backup::block;
use engine::BoxFuture;
use tokio::runtime::Handle;

const SOCKET_FILE: &str = "socket";
/// Where it is made, out of others' reach, until only we may use it.
const MAKING_DIRECTORY: &str = "socket.new";
const BACKUP_REQUEST: &str = "backup 1\n";
const ACCOUNT_REQUEST: &str = "account 1 ";
/// The longest request has two keys in it.
const REQUEST_BYTES_MAX: u64 = 64 * 1024;
/// Whoever connects says what for.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);
/// Between two blocks the caller copies the bodies that the first one names: thousands at most.
const TAKEN_WITHIN: Duration = Duration::from_secs(60 * 60);

/// Does what is asked for of accounts, and says what came of it.
pub type OnAccounts = Arc<dyn Fn(String) -> BoxFuture<'static, Result<String, String>> + Send + Sync>;

/// The socket, while there is one.
pub struct Control {
    path: PathBuf,
    accounts: Arc<OnceLock<OnAccounts>>,
}

impl Control {
    /// From here on accounts are listened to as well.
    pub fn answer_accounts(&self, answer: OnAccounts) {
        let _ = self.accounts.set(answer); // the only one
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path); // the next start replaces it
    }
}

/// Answers requests until the process ends. Without a socket there is no backup while the server runs, and all else is well.
pub fn listen(engine: &Arc<Embedded>, data: &Path) -> Option<Control> {
    let path = data.join(SOCKET_FILE);
    let accounts = Arc::new(OnceLock::new());
    let server = Server { engine: Arc::downgrade(engine), runtime: Handle::current(), accounts: accounts.clone() };
    let listening = bind(data).and_then(|listener| {
        let accept = move || accept(&listener, &server);
        std::thread::Builder::new().name("lazuli:control".to_owned()).spawn(accept)
    });
    match listening {
        Ok(_) => Some(Control { path, accounts }),
        Err(error) => {
            let path = path.display();
            tracing::warn!(%path, %error, "no socket could be made: `lazuli backup` and `lazuli account` work only while nothing is served");
            None
        }
    }
}

/// The directory is ours alone, so a socket that is there is what a crash left.
fn bind(data: &Path) -> io::Result<UnixListener> {
    let making = data.join(MAKING_DIRECTORY);
    remove(std::fs::remove_dir_all(&making))?;
    DirBuilder::new().mode(0o700).create(&making)?;
    let made = make_in(&making, &data.join(SOCKET_FILE));
    let _ = std::fs::remove_dir_all(&making); // what is left of it goes at the next start
    made
}

/// It is in its place when nobody else can use it.
fn make_in(making: &Path, path: &Path) -> io::Result<UnixListener> {
    let made = short(making, |path| UnixListener::bind(path))?;
    let new = making.join(SOCKET_FILE);
    std::fs::set_permissions(&new, Permissions::from_mode(0o600))?;
    remove(std::fs::remove_file(path))?;
    std::fs::rename(&new, path)?;
    Ok(made)
}

fn remove(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The path of a socket has at most some hundred bytes, and a directory's may be longer: so it is named by its descriptor.
fn short<T>(directory: &Path, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let open = File::open(directory)?;
    act(&Path::new("/proc/self/fd").join(open.as_raw_fd().to_string()).join(SOCKET_FILE))
}

/// Who answers.
#[derive(Clone)]
struct Server {
    engine: Weak<Embedded>,
    runtime: Handle,
    accounts: Arc<OnceLock<OnAccounts>>,
}

fn accept(listener: &UnixListener, server: &Server) {
    let one_at_a_time = Arc::new(Mutex::new(()));
    for stream in listener.incoming() {
        let (server, one_at_a_time) = (server.clone(), one_at_a_time.clone());
        let answer = move |stream| {
            let answered = answer(&stream, &server, &one_at_a_time);
            if let Err(error) = answered {
                tracing::warn!(%error, "a request on the socket was not answered to its end");
            }
        };
        let started = stream.and_then(|stream| {
            std::thread::Builder::new().name("lazuli:control".to_owned()).spawn(move || answer(stream))
        });
        if let Err(error) = started {
            tracing::warn!(%error, "a request on the socket was not taken");
        }
    }
}

fn answer(mut stream: &UnixStream, server: &Server, one_at_a_time: &Mutex<()>) -> io::Result<()> {
    stream.set_read_timeout(Some(REQUEST_WITHIN))?;
    stream.set_write_timeout(Some(TAKEN_WITHIN))?;
    let mut request = String::new();
    BufReader::new(stream.take(REQUEST_BYTES_MAX)).read_line(&mut request)?;
    if let Some(asking) = request.strip_prefix(ACCOUNT_REQUEST) {
        let done = match server.accounts.get() {
            Some(answer) => server.runtime.block_on(answer(asking.to_owned())),
            None => Err("the server is starting; try again".to_owned()),
        };
        let (word, text) = done.map_or_else(|error| ("no", error), |text| ("ok", text));
        return stream.write_all(format!("{word}\n{text}").as_bytes());
    }
    if request != BACKUP_REQUEST {
        return stream
            .write_all(&block::encode_failure("the server does not know this request: is it of another version?"));
    }
    let Ok(_turn) = one_at_a_time.try_lock() else {
        return stream.write_all(&block::encode_failure("another backup of this directory is being taken"));
    };
    tracing::info!("a backup is being taken");
    let Some(engine) = server.engine.upgrade() else {
        return stream.write_all(&block::encode_failure("the server is stopping"));
    };
    let mut copy = match server.runtime.block_on(engine.copy_out()) {
        Ok(copy) => copy,
        Err(fault) => return stream.write_all(&block::encode_failure(&fault.to_string())),
    };
    drop(engine);
    loop {
        match copy.next_block() {
            Ok(Some(block)) => stream.write_all(&block)?,
            Ok(None) => break,
            Err(fault) => return stream.write_all(&block::encode_failure(&fault.to_string())),
        }
    }
    // What was copied out is held until the caller has all of it.
    stream.set_read_timeout(None)?;
    io::copy(&mut stream, &mut io::sink())?;
    tracing::info!("a backup was taken, or given up");
    Ok(())
}

/// Asks the server that has the directory for a copy.
pub fn ask_for_copy(data: &Path) -> io::Result<UnixStream> {
    let mut stream = short(data, |path| UnixStream::connect(path))?;
    stream.write_all(BACKUP_REQUEST.as_bytes())?;
    Ok(stream)
}

/// Asks the server that has the directory for something about accounts. What it says, or why it was not done.
pub fn ask_accounts(data: &Path, asking: &str) -> io::Result<Result<String, String>> {
    let mut stream = short(data, |path| UnixStream::connect(path))?;
    stream.write_all(format!("{ACCOUNT_REQUEST}{asking}\n").as_bytes())?;
    let mut text = String::new();
    stream.take(u64::from(u32::MAX)).read_to_string(&mut text)?;
    match text.split_once('\n') {
        Some(("ok", text)) => Ok(Ok(text.to_owned())),
        Some(("no", text)) => Ok(Err(text.to_owned())),
        _ => Ok(Err("the server does not know this request: is it of another version?".to_owned())),
    }
}
