//! The workloads over SMB, beside Samba's smbd: a large file put and got, small files made and read, pieces of 4 KiB at
//! random places.
//!
//! Both servers are asked by the same clients of Samba's: smbclient for large files, its start included, and
//! `bench/smb/load` for the rest. These clients know no port but 445, so each server has a loopback address of its own.
//! What a server need not have synced when it answered is synced after each round, outside of its time.

use std::{
    env,
    fs::{self, File},
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tokio::{
    io::AsyncWriteExt,
    net::UnixDatagram,
    process::{Child, Command},
    time::timeout,
};

use crate::{
    Options, large,
    load::{self, Failure},
    measure::{Column, Figures, say},
    request::{ACCOUNT, Ask, KEY, Signer},
    subject::{Kind, Places, Serves, Subject, finish},
    workload::{MIB, Measure, Workload},
};

pub const PORT: u16 = 445;
const LAZULI_HOST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const SMBD_HOST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const SHARE: &str = "bench";
/// smbd takes only users that the system has.
const SMBD_USER: &str = "root";
const READY_WITHIN: Duration = Duration::from_secs(30);
/// Where Debian has the interpreter that knows Samba's libraries.
const PYTHON: &str = "/usr/bin/python3";

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    Put,
    Get,
    Make,
    MakeThrough,
    Look,
    Read,
    Write,
    WriteThrough,
}

impl Deed {
    /// Bytes are counted, not requests.
    pub fn moves_much(self) -> bool {
        matches!(self, Deed::Put | Deed::Get)
    }

    /// The word that `bench/smb/load` knows it by.
    fn word(self) -> &'static str {
        match self {
            Deed::Put => "put",
            Deed::Get => "get",
            Deed::Make => "make",
            Deed::MakeThrough => "make-through",
            Deed::Look => "look",
            Deed::Read => "read",
            Deed::Write => "write",
            Deed::WriteThrough => "write-through",
        }
    }
}

/// How messages are kept from being changed, or read, on the way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    Encrypted,
    Signed,
}

impl Protection {
    fn word(self) -> &'static str {
        match self {
            Protection::Encrypted => "encrypt",
            Protection::Signed => "sign",
        }
    }
}

enum Process {
    Lazuli(Subject),
    Smbd(Child),
}

/// A server with the directory it works in; the process goes before the directory does.
struct Running {
    process: Process,
    host: Ipv4Addr,
    user: &'static str,
    directory: TempDir,
}

impl Running {
    fn column(&self) -> Column {
        match self.process {
            Process::Lazuli(_) => Column::Lazuli,
            Process::Smbd(_) => Column::Smbd,
        }
    }

    async fn kill(self) -> Result<(), Failure> {
        match self.process {
            Process::Lazuli(subject) => subject.kill().await,
            Process::Smbd(mut child) => Ok(child.kill().await?),
        }
    }
}

pub async fn loads(
    options: &Options,
    places: &Places,
    kinds: &[Kind],
    chosen: &[&'static Workload],
) -> Result<Vec<Figures>, Failure> {
    let deeds: Vec<(&'static Workload, Deed, Protection)> = chosen
        .iter()
        .filter_map(|workload| match workload.measure {
            Measure::Smb(deed, protection) => Some((*workload, deed, protection)),
            _ => None,
        })
        .collect();
    if deeds.is_empty() {
        return Ok(Vec::new());
    }
    if let Some(missing) = missing().await? {
        eprintln!("SMB is left out: {missing}");
        return Ok(Vec::new());
    }
    let mut running = Vec::new();
    if kinds.contains(&Kind::Lazuli) {
        running.push(start_lazuli(places).await?);
    }
    running.push(start_smbd(places).await?);
    let local = places.directory()?;
    let local = local.path().join("large");
    large::write_alone(&local, &vec![b'x'; MIB], options.large_bytes)?;

    let per_second = |time: Duration| options.large_bytes as f64 / 1e6 / time.as_secs_f64();
    let mut all = Vec::new();
    for (workload, deed, protection) in deeds {
        let mut figures = Figures::counted(workload, options.large_bytes / MIB as u64);
        if deed == Deed::Get {
            for one in &running {
                transfer(one, &format!("put {} large", local.display()), protection).await?;
            }
        }
        for number in 0..options.rounds {
            for one in &running {
                let (value, latency) = match deed {
                    Deed::Put => {
                        let time = transfer(one, &format!("put {} new", local.display()), protection).await?;
                        transfer(one, "del new", protection).await?;
                        (per_second(time), None)
                    }
                    Deed::Get => (per_second(transfer(one, "get large /dev/null", protection).await?), None),
                    _ => small(options, places, one, deed, protection).await?,
                };
                settle(one.directory.path())?;
                say(options, workload, number, one.column(), value);
                figures.add(one.column(), value, latency);
            }
        }
        all.push(figures);
    }
    for one in running {
        one.kill().await?;
    }
    Ok(all)
}

/// Why there is nothing to measure with or beside.
async fn missing() -> Result<Option<String>, Failure> {
    const INSTALL: &str = "on Debian: apt-get install samba smbclient";
    if fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(Some("smbd is for root alone".into()));
    }
    if let Some(program) = ["smbd", "pdbedit", "smbclient"].into_iter().find(|program| find(program).is_none()) {
        return Ok(Some(format!("{program} is not installed; {INSTALL}")));
    }
    let mut import = Command::new(PYTHON);
    import.args(["-c", "import samba.samba3"]).stdin(Stdio::null()).stderr(Stdio::null());
    if !import.status().await.is_ok_and(|status| status.success()) {
        return Ok(Some(format!("{PYTHON} does not know Samba's libraries; {INSTALL}")));
    }
    for host in [LAZULI_HOST, SMBD_HOST] {
        if let Err(error) = TcpListener::bind((host, PORT)) {
            return Ok(Some(format!("{host}:{PORT} cannot be listened on: {error}")));
        }
    }
    Ok(None)
}

/// A program's path; those of administrators are not on everybody's.
fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut directories = env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/bin".into()]);
    directories.find_map(|directory| Some(directory.join(program)).filter(|file| file.is_file()))
}

async fn start_lazuli(places: &Places) -> Result<Running, Failure> {
    let directory = places.directory()?;
    let subject = Subject::start_serving(Serves::Smb, Kind::Lazuli, places, directory.path()).await?;
    let path = format!("/{SHARE}");
    let make = Ask { method: "PUT", path: &path, query: &[("restype", "share")], ..Ask::default() };
    load::once(subject.port, &Signer::new(subject.port).head(&make), &[], 201).await?;
    Ok(Running { process: Process::Lazuli(subject), host: LAZULI_HOST, user: ACCOUNT, directory })
}

async fn start_smbd(places: &Places) -> Result<Running, Failure> {
    let directory = places.directory()?;
    let settings = directory.path().join("smb.conf");
    fs::write(&settings, smbd_settings(directory.path()))?;
    for name in ["share", "own"] {
        fs::create_dir(directory.path().join(name))?;
    }
    let mut add = Command::new(find("pdbedit").ok_or("pdbedit is gone")?);
    add.arg("-s").arg(&settings).args(["-a", "-t", "-u", SMBD_USER]).kill_on_drop(true);
    let mut adding = add.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    let mut passwords = adding.stdin.take().expect("standard input is piped");
    passwords.write_all(format!("{KEY}\n{KEY}\n").as_bytes()).await?;
    drop(passwords);
    if !adding.wait().await?.success() {
        return Err("pdbedit did not add a user".into());
    }
    // It says when it is ready as it says so to a service manager.
    let told_at = directory.path().join("ready");
    let told = UnixDatagram::bind(&told_at)?;
    let mut command = Command::new(find("smbd").ok_or("smbd is gone")?);
    command.args(["--foreground", "--no-process-group"]).arg("--configfile").arg(&settings);
    command.env("NOTIFY_SOCKET", &told_at).kill_on_drop(true);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let ready = async {
        let mut words = [0; 1024];
        loop {
            let length = told.recv(&mut words).await?;
            if words[..length].windows(7).any(|window| window == b"READY=1") {
                return Ok::<_, Failure>(());
            }
        }
    };
    tokio::select! {
        ready = timeout(READY_WITHIN, ready) => ready.map_err(|_| format!("smbd was not ready within {READY_WITHIN:?}"))??,
        ended = child.wait() => return Err(format!("smbd ended with {} before it was ready", ended?).into()),
    }
    Ok(Running { process: Process::Smbd(child), host: SMBD_HOST, user: SMBD_USER, directory })
}

/// Everything it keeps is in this directory. The client says whether to encrypt; what is not encrypted is signed. What is
/// asked to be on the disk is put there.
fn smbd_settings(directory: &Path) -> String {
    let (share, own) = (directory.join("share"), directory.join("own"));
    let (share, own) = (share.display(), own.display());
    format!(
        "[global]\n\
         server role = standalone server\n\
         interfaces = {SMBD_HOST}/8\n\
         bind interfaces only = yes\n\
         smb ports = {PORT}\n\
         private dir = {own}\n\
         lock directory = {own}\n\
         state directory = {own}\n\
         cache directory = {own}\n\
         pid directory = {own}\n\
         ncalrpc dir = {own}/rpc\n\
         log file = {own}/log\n\
         passdb backend = tdbsam:{own}/passdb.tdb\n\
         server min protocol = SMB2_10\n\
         server signing = mandatory\n\
         strict sync = yes\n\
         disable spoolss = yes\n\
         load printers = no\n\
         [{SHARE}]\n\
         path = {share}\n\
         read only = no\n"
    )
}

/// The time smbclient takes for this, from its start to its end.
async fn transfer(one: &Running, command: &str, protection: Protection) -> Result<Duration, Failure> {
    let mut client = Command::new(find("smbclient").ok_or("smbclient is gone")?);
    client.arg(format!("//{}/{SHARE}", one.host)).args(["--user", one.user, "--configfile", "/dev/null"]);
    client.arg(format!("--client-protection={}", protection.word())).args(["--command", command]);
    client.env("PASSWD", KEY).stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    finish(&mut client).await?;
    Ok(start.elapsed())
}

type Value = (f64, Option<(u32, u32)>);

/// A rate and its latencies, as `bench/smb/load` prints them.
async fn small(
    options: &Options,
    places: &Places,
    one: &Running,
    deed: Deed,
    protection: Protection,
) -> Result<Value, Failure> {
    let mut client = Command::new(PYTHON);
    client.arg(places.root.join("bench/smb/load")).arg(one.host.to_string()).args([SHARE, one.user]);
    client.args([protection.word(), deed.word(), &options.seconds.to_string()]);
    client.env("PASSWD", KEY).stdin(Stdio::null()).stderr(Stdio::inherit()).kill_on_drop(true);
    let output = client.output().await?;
    if !output.status.success() {
        return Err(format!("{client:?} ended with {}", output.status).into());
    }
    let text = String::from_utf8(output.stdout)?;
    let numbers: Vec<&str> = text.split_whitespace().collect();
    let [rate, median, high] = numbers[..] else { return Err(format!("{client:?} printed {text}").into()) };
    Ok((rate.parse()?, Some((median.parse()?, high.parse()?))))
}

/// Syncs the file system that the server's directory is on.
fn settle(directory: &Path) -> Result<(), Failure> {
    Ok(rustix::fs::syncfs(File::open(directory)?)?)
}
