//! Runs the workload once, on a fresh file system, and keeps the log of the disk beside the history.
//!
//! The recording begins before the program's first start, so that a cut while the data directory is being made is a
//! point like any other, and goes through restarts, gentle and not.

use crate::disk::{Chance, Recording};
use crate::history::{History, Scribe};
use crate::judge::{Fault, Finding};
use crate::subject::{Running, Subject};
use crate::volume::{Kind, Volume, run as run_command};
use crate::workload::{Complaints, Worker};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[derive(Clone)]
pub struct Plan {
    pub subject: Subject,
    pub kind: Kind,
    pub disk_bytes: u64,
    pub connections: usize,
    /// Requests of each connection in each run of the program; between runs it is stopped or killed in turn.
    pub requests: Vec<usize>,
    pub seed: u64,
    /// Small bodies to be overwritten by each connection before the recording begins, and again in its first round: enough
    /// of them, and the record store writes out, merges and drops its files while it is being recorded.
    pub bulk: (usize, usize),
}

pub struct Taken {
    pub recording: Recording,
    pub history: History,
    /// What was wrong already while the workload ran.
    pub findings: Vec<Finding>,
    /// Files of the data directory that came and went meanwhile.
    pub files_came: usize,
    pub files_went: usize,
}

pub const DATA: &str = "data";

pub fn record(plan: &Plan, work: &Path) -> Result<Taken, String> {
    let mut volume = Volume::serve(work, plan.kind, plan.disk_bytes)?;
    volume.make_file_system()?;
    volume.mount()?;
    let data = volume.root().join(DATA);
    let scribe = Scribe::new(volume.shared_disk(), 0);
    let mut workers: Vec<Worker> = (0..plan.connections).map(|n| Worker::new(n, plan.seed, scribe.clone())).collect();
    let complaints = Complaints::default();
    if plan.bulk.0 > 0 {
        prepare(plan, &data, work, &mut workers, &complaints)?;
    }
    // What is still to be written, by mounting or by the preparations, belongs to the state before the recording.
    run_command(Command::new("sync").arg("-f").arg(volume.root()))?;
    scribe.begin_recording();
    volume.disk().begin_recording();
    let files_before: BTreeSet<PathBuf> = files_below(&data).into_iter().collect();
    let stirring = AtomicBool::new(true);
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| stir(&data, plan.seed, &stirring));
        let outcome = run(plan, &data, work, &mut workers, &complaints);
        stirring.store(false, Ordering::Relaxed);
        outcome
    });
    let recording = volume.disk().end_recording().expect("begun above");
    let files_after: BTreeSet<PathBuf> = files_below(&data).into_iter().collect();
    volume.unmount()?;
    outcome?;
    Ok(Taken {
        recording,
        history: scribe.finish(),
        findings: complaints.take(),
        files_came: files_after.difference(&files_before).count(),
        files_went: files_before.difference(&files_after).count(),
    })
}

fn prepare(
    plan: &Plan,
    data: &Path,
    work: &Path,
    workers: &mut [Worker],
    complaints: &Complaints,
) -> Result<(), String> {
    let running = plan
        .subject
        .start(data, &work.join("server.log"))
        .map_err(|e| format!("{} does not start: {e}", plan.subject.name()))?;
    workers[0].prepare(&mut *running.connect(), complaints);
    std::thread::scope(|scope| {
        for worker in workers {
            let mut store = running.connect();
            scope.spawn(move || worker.bulk(&mut *store, plan.bulk.0, complaints));
        }
    });
    running.kill();
    Ok(())
}

fn run(plan: &Plan, data: &Path, work: &Path, workers: &mut [Worker], complaints: &Complaints) -> Result<(), String> {
    let log = work.join("server.log");
    for (round, requests) in plan.requests.iter().enumerate() {
        let running =
            plan.subject.start(data, &log).map_err(|e| format!("{} does not start: {e}", plan.subject.name()))?;
        if round == 0 && plan.bulk.0 == 0 {
            workers[0].prepare(&mut *running.connect(), complaints);
        }
        std::thread::scope(|scope| {
            for worker in workers.iter_mut() {
                let mut store = running.connect();
                scope.spawn(move || {
                    if round > 0 {
                        worker.reread(&mut *store, complaints);
                    }
                    if round == 0 {
                        worker.bulk(&mut *store, plan.bulk.1, complaints);
                    }
                    worker.run(&mut *store, *requests, complaints);
                });
            }
        });
        end(running, round, complaints);
    }
    Ok(())
}

fn end(running: Running, round: usize, complaints: &Complaints) {
    if round.is_multiple_of(2) {
        running.kill();
    } else if let Err(error) = running.stop() {
        complaints.add(Fault::Unavailable, error);
    }
}

/// Starts writing dirty pages out before the program syncs them. The kernel does so by itself only after many seconds;
/// with this the log holds data whose metadata is not there yet, and pages of files that nobody has synced.
fn stir(data: &Path, seed: u64, stirring: &AtomicBool) {
    let mut chance = Chance::new(seed ^ 0x5717);
    while stirring.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(1 + chance.below(6)));
        let files = files_below(data);
        if files.is_empty() {
            continue;
        }
        if let Ok(file) = File::open(chance.pick(&files)) {
            // SAFETY: the descriptor is open for the length of the call; the call takes no pointer.
            unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
        }
    }
}

pub fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files.extend(files_below(&entry.path())),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
    files.sort();
    files
}
