//! The program under test: the server as a process of its own, or one of the toys.

use crate::services::Services;
use crate::store::Store;
use crate::toy::{Habit, Toy};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const START_SECONDS_MAX: u64 = 20;
const STOP_SECONDS_MAX: u64 = 20;
const PORT_TRIES_MAX: usize = 5;

#[derive(Clone, Debug)]
pub enum Subject {
    Server { program: PathBuf, durability: &'static str },
    Toy(Habit),
}

impl Subject {
    pub fn name(&self) -> String {
        match self {
            Subject::Server { durability, .. } => format!("lazuli --durability {durability}"),
            Subject::Toy(habit) => format!("toy {habit:?}"),
        }
    }

    /// Starts it on the data directory; an error is its refusal, in its own words.
    pub fn start(&self, data: &Path, log: &Path) -> Result<Running, String> {
        match self {
            Subject::Server { program, durability } => {
                // A port that was free a moment ago may be a connection's by now, which says nothing of the server.
                let mut started = Process::start(program, durability, data, log);
                for _ in 0..PORT_TRIES_MAX {
                    match &started {
                        Err(words) if words.contains("Address already in use") => {
                            started = Process::start(program, durability, data, log);
                        }
                        _ => break,
                    }
                }
                started.map(Running::Process)
            }
            Subject::Toy(habit) => Toy::open(data, *habit).map(Running::Toy).map_err(|e| e.to_string()),
        }
    }
}

pub enum Running {
    Process(Process),
    Toy(Toy),
}

impl Running {
    pub fn connect(&self) -> Box<dyn Store> {
        match self {
            Running::Process(process) => Box::new(Services::new(process.ports)),
            Running::Toy(toy) => Box::new(toy.clone()),
        }
    }

    pub fn is_alive(&self) -> bool {
        match self {
            Running::Process(process) => process.has_not_exited(),
            Running::Toy(_) => true,
        }
    }

    pub fn kill(self) {
        if let Running::Process(mut process) = self {
            process.end();
        }
    }

    /// Asks it to drain and exit.
    pub fn stop(self) -> Result<(), String> {
        match self {
            Running::Process(mut process) => process.terminate(),
            Running::Toy(_) => Ok(()),
        }
    }
}

pub struct Process {
    child: Child,
    /// Of blobs, queues, tables and files.
    ports: [u16; 4],
}

impl Process {
    fn start(program: &Path, durability: &str, data: &Path, log: &Path) -> Result<Process, String> {
        // Ports that were free a moment ago; the server is told numbers, so that nothing depends on what it prints.
        let listeners = [(); 4].map(|()| TcpListener::bind(("127.0.0.1", 0)));
        let mut ports = [0; 4];
        for (port, listener) in ports.iter_mut().zip(&listeners) {
            let address = listener.as_ref().map_err(|e| format!("no free port: {e}"))?.local_addr();
            *port = address.map_err(|e| format!("no free port: {e}"))?.port();
        }
        drop(listeners);
        let errors = File::create(log).map_err(|e| format!("create {}: {e}", log.display()))?;
        let mut command = Command::new(program);
        command.arg("serve").arg("--data").arg(data).args(["--host", "127.0.0.1"]);
        for (option, port) in ["--blob-port", "--queue-port", "--table-port", "--file-port"].iter().zip(ports) {
            command.args([option, port.to_string().as_str()]);
        }
        for other in ["--smb-port", "--console-port"] {
            command.args([other, "off"]);
        }
        command.args(["--durability", durability]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().map_err(|e| format!("start {}: {e}", program.display()))?;

        let output = child.stdout.take().expect("piped above");
        let (tell, told) = mpsc::channel();
        // Reads to the end, so that the server never blocks on a full pipe.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
        let mut process = Process { child, ports };
        let deadline = Instant::now() + Duration::from_secs(START_SECONDS_MAX);
        let mut said = String::new();
        loop {
            match told.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) if line.starts_with("ready") => return Ok(process),
                Ok(line) => said += &format!("{line}\n"),
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    process.end();
                    return Err(format!("not ready within {START_SECONDS_MAX} s; {}", words(&said, log)));
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    let status = process.child.wait().map_err(|e| e.to_string())?;
                    return Err(format!("exited ({status}); {}", words(&said, log)));
                }
            }
        }
    }

    fn has_not_exited(&self) -> bool {
        // The state letter after the name in brackets; a zombie has exited and waits for us.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn terminate(&mut self) -> Result<(), String> {
        // SAFETY: sends a signal to our own child, which is not yet waited for and so still has this id.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        let deadline = Instant::now() + Duration::from_secs(STOP_SECONDS_MAX);
        loop {
            match self.child.try_wait().map_err(|e| e.to_string())? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("SIGTERM: exited with {status}")),
                None if Instant::now() > deadline => {
                    self.end();
                    return Err(format!("SIGTERM: still running after {STOP_SECONDS_MAX} s"));
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// The last words on both outputs.
fn words(said: &str, log: &Path) -> String {
    let errors = std::fs::read_to_string(log).unwrap_or_default();
    let mut lines: Vec<&str> = said.lines().chain(errors.lines()).collect();
    let skip = lines.len().saturating_sub(12);
    lines.drain(..skip);
    lines.join(" | ")
}
