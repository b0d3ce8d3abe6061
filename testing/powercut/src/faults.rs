//! A disk that fails and a disk that is full, under the running program.
//!
//! 1. Whatever was acknowledged, before or after the failure, is there when the disk is well again: also after the power
//!    goes, and also when the program was only started again in between, on a page cache that holds what the disk does not.
//! 2. A change that cannot be made durable is answered with a 5xx; no request hangs, and the program does not die of it.
//! 3. On a full disk reads go on; when space is freed everything works again, at once or after the restart that it asks for.

use crate::disk::{Chance, Cutter, Refusals, SURVIVALS, Survival};
use crate::history::Scribe;
use crate::judge::{Fault, Finding, Window, judge, strangers, survey};
use crate::record::DATA;
use crate::replay::go_on;
use crate::subject::{Running, Subject};
use crate::volume::{Kind, Volume};
use crate::workload::{Complaints, Worker};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

const CONNECTIONS: usize = 4;
const DISK_BYTES: u64 = 256 << 20;
/// How much room there is, is asked about once a second.
const NOTICED_WITHIN: Duration = Duration::from_millis(2500);
/// What the program has to say where it does not go on by itself.
const RESTART: &str = "has to be started again";

/// Whether it said so. Only what it prints tells: a toy prints nothing, and goes on or is never well again.
pub fn says_restart(log: &Path) -> bool {
    std::fs::read_to_string(log).is_ok_and(|log| log.contains(RESTART))
}

#[derive(Default)]
pub struct Report {
    pub trials: usize,
    /// Changes that were answered with a 5xx.
    pub failures: usize,
    pub acknowledgements: usize,
    /// Trials after which the file system itself could not be mounted, or in which nothing failed, so that nothing could be said.
    pub unjudged: usize,
    pub findings: Vec<(String, Finding)>,
}

impl Report {
    pub fn add(&mut self, label: &str, findings: impl IntoIterator<Item = Finding>) {
        self.findings.extend(findings.into_iter().map(|finding| (label.to_string(), finding)));
    }
}

struct Trial<'a> {
    subject: &'a Subject,
    volume: Volume,
    work: &'a Path,
    scribe: Scribe,
    workers: Vec<Worker>,
}

impl Trial<'_> {
    fn begin<'a>(subject: &'a Subject, work: &'a Path, seed: u64) -> Result<Trial<'a>, String> {
        let mut volume = Volume::serve(work, Kind::Ext4, DISK_BYTES)?.without_discards();
        volume.make_file_system()?;
        volume.mount()?;
        File::open(volume.root())
            .and_then(|root| root.sync_all())
            .map_err(|e| format!("sync of the mounted root: {e}"))?;
        volume.disk().begin_recording();
        let scribe = Scribe::new(volume.shared_disk(), 0);
        let workers = (0..CONNECTIONS).map(|n| Worker::new(n, seed, scribe.clone())).collect();
        Ok(Trial { subject, volume, work, scribe, workers })
    }

    fn start(&self) -> Result<Running, String> {
        self.subject.start(&self.volume.root().join(DATA), &self.work.join("server.log"))
    }

    fn run(&mut self, running: &Running, requests: usize, complaints: &Complaints) {
        std::thread::scope(|scope| {
            for worker in &mut self.workers {
                let mut store = running.connect();
                scope.spawn(move || worker.run(&mut *store, requests, complaints));
            }
        });
    }

    /// When there is space again changes succeed without a start, or the program says that it needs one.
    fn goes_on_with_space(&mut self, running: &Running, ballast: &Path) -> Result<Vec<Finding>, String> {
        std::fs::remove_file(ballast).map_err(|e| format!("remove ballast: {e}"))?;
        std::thread::sleep(NOTICED_WITHIN);
        let again = Complaints::of_a_bad_disk();
        self.run(running, 5, &again);
        let is_told = || says_restart(&self.work.join("server.log"));
        if again.failures() > 0 && !is_told() {
            again.add(Fault::Unavailable, "changes fail although there is space again, and nothing says why".into());
        }
        Ok(again.take())
    }

    /// Everything acknowledged so far, read through the running program.
    fn inspect(&self, running: &Running) -> (Vec<Finding>, usize) {
        let history = self.scribe.clone().finish();
        let mut store = running.connect();
        let seen = survey(&mut *store, &[&history]);
        let (mut findings, checked) = judge(&history, &seen, Window::at(usize::MAX - 1));
        findings.extend(strangers(&[&history], &seen));
        (findings, checked)
    }
}

/// Writes or flushes that fail, once or for good, at points drawn by chance.
pub fn refusals(subject: &Subject, work: &Path, trials: usize, seed: u64) -> Result<Report, String> {
    let mut report = Report::default();
    for number in 0..trials {
        let mut chance = Chance::new(seed ^ (number as u64) << 16);
        let ahead = chance.below(80) as usize;
        let (kind, once, is_restarted) = (number % 2, number / 2 % 2 == 0, number / 4 % 2 == 0);
        let label = format!(
            "trial {number}: {} fail{} {ahead} log entries on{}",
            ["writes", "flushes"][kind],
            if once { " once" } else { "" },
            if is_restarted { ", program started again" } else { "" }
        );
        refuse(subject, work, seed ^ number as u64, (kind, once, ahead, is_restarted), &label, &mut report)?;
        report.trials += 1;
    }
    Ok(report)
}

fn refuse(
    subject: &Subject,
    work: &Path,
    seed: u64,
    (kind, once, ahead, is_restarted): (usize, bool, usize, bool),
    label: &str,
    report: &mut Report,
) -> Result<(), String> {
    let mut trial = Trial::begin(subject, work, seed)?;
    let calm = Complaints::default();
    let running = trial.start().map_err(|e| format!("{} does not start: {e}", subject.name()))?;
    trial.workers[0].prepare(&mut *running.connect(), &calm);
    trial.run(&running, 10, &calm);
    report.add(label, calm.take());

    let failing = Complaints::of_a_bad_disk();
    {
        let mut disk = trial.volume.disk();
        let from = Some(disk.position() + ahead);
        disk.refuse(Refusals {
            writes_from: from.filter(|_| kind == 0),
            flushes_from: from.filter(|_| kind == 1),
            once,
        });
    }
    trial.run(&running, 15, &failing);
    if !running.is_alive() {
        report.add(label, [Finding::new(Fault::Unavailable, "the program exited when the disk failed")]);
    }
    // Reads may fail now, but what they give must be right: the page cache still holds what the disk lost.
    let (live, _) = trial.inspect(&running);
    report.add(
        label,
        live.into_iter()
            .filter(|f| f.fault != Fault::Unavailable)
            .map(|f| Finding::new(f.fault, format!("live: {}", f.detail))),
    );
    running.kill();

    if is_restarted {
        trial.volume.disk().refuse(Refusals::default());
        // It may refuse: the kernel makes a file system read-only whose journal failed.
        if let Ok(running) = trial.start() {
            let mut store = running.connect();
            for worker in &mut trial.workers {
                worker.reread(&mut *store, &failing);
            }
            drop(store);
            trial.run(&running, 10, &failing);
            running.kill();
        }
    }
    report.failures += failing.failures();
    report.add(label, failing.take());

    trial.volume.disk().refuse(Refusals::default());
    let recording = trial.volume.disk().end_recording().expect("begun with the trial");
    trial.volume.unmount()?;
    let point = recording.events.len();
    // Where flushes fail nothing orders the file system's own writes any more: any mixture of them may damage it.
    let survivals: &[Survival] = if kind == 1 { &[Survival::None, Survival::All] } else { &SURVIVALS };
    for survival in survivals.iter().copied() {
        trial.volume.exchange(Cutter::new(&recording).cut(point, survival, seed));
        if trial.volume.mount().is_err() {
            report.unjudged += 1;
            continue;
        }
        match trial.start() {
            Ok(running) => {
                let (findings, checked) = trial.inspect(&running);
                report.acknowledgements += checked;
                report.add(&format!("{label}; cut at the end, {survival:?} survive"), findings);
                running.kill();
            }
            Err(error) => report
                .add(label, [Finding::new(Fault::Unavailable, format!("does not start after {survival:?}: {error}"))]),
        }
        trial.volume.unmount()?;
    }
    Ok(())
}

/// A file system with so many bytes left when the workload goes on.
pub fn full_disk(subject: &Subject, work: &Path, seed: u64) -> Result<Report, String> {
    let mut report = Report::default();
    for (number, left) in [0, 20 << 10, 300 << 10, 2 << 20, 8 << 20].into_iter().enumerate() {
        fill(subject, work, seed ^ number as u64, left, &format!("{left} bytes left"), &mut report)?;
        report.trials += 1;
    }
    Ok(report)
}

fn fill(subject: &Subject, work: &Path, seed: u64, left: u64, label: &str, report: &mut Report) -> Result<(), String> {
    let mut trial = Trial::begin(subject, work, seed)?;
    let calm = Complaints::default();
    let mut running = trial.start().map_err(|e| format!("{} does not start: {e}", subject.name()))?;
    trial.workers[0].prepare(&mut *running.connect(), &calm);
    trial.run(&running, 15, &calm);
    report.add(label, calm.take());

    let ballast = trial.volume.root().join("ballast");
    fill_up(&ballast, left)?;
    let full = Complaints::of_a_bad_disk();
    for _ in 0..8 {
        trial.run(&running, 15, &full);
        if full.failures() > 5 {
            break;
        }
    }
    if full.failures() == 0 {
        report.add(label, [Finding::new(Fault::WrongAnswer, "no change was refused on a full disk")]);
    }
    if !running.is_alive() {
        report.add(label, [Finding::new(Fault::Unavailable, "the program exited when the disk was full")]);
    }
    let (live, _) = trial.inspect(&running);
    report.add(label, live.into_iter().map(|f| Finding::new(f.fault, format!("live, disk full: {}", f.detail))));
    report.failures += full.failures();
    report.add(label, full.take());
    report.add(label, trial.goes_on_with_space(&running, &ballast)?);
    running.kill();
    fill_up(&ballast, left)?;

    match trial.start() {
        Ok(started) => {
            let (findings, _) = trial.inspect(&started);
            report.add(
                label,
                findings.into_iter().map(|f| Finding::new(f.fault, format!("started on a full disk: {}", f.detail))),
            );
            started.kill();
        }
        Err(error) => {
            let names_the_cause = ["space", "free", "full"].iter().any(|word| error.to_lowercase().contains(word));
            let is_clear = names_the_cause && error.contains(DATA) && !error.contains("panicked");
            if !is_clear {
                report.add(
                    label,
                    [Finding::new(
                        Fault::Unavailable,
                        format!("refuses to start on a full disk without saying so: {error}"),
                    )],
                );
            }
        }
    }

    std::fs::remove_file(&ballast).map_err(|e| format!("remove ballast: {e}"))?;
    running = match trial.start() {
        Ok(running) => running,
        Err(error) => {
            report.add(
                label,
                [Finding::new(Fault::Unavailable, format!("does not start after space was freed: {error}"))],
            );
            return Ok(());
        }
    };
    let (findings, checked) = trial.inspect(&running);
    report.acknowledgements += checked;
    report.add(
        label,
        findings.into_iter().map(|f| Finding::new(f.fault, format!("after space was freed: {}", f.detail))),
    );
    let calm = Complaints::default();
    trial.run(&running, 10, &calm);
    report.add(
        label,
        calm.take().into_iter().map(|f| Finding::new(f.fault, format!("after space was freed: {}", f.detail))),
    );
    let history = trial.scribe.clone().finish();
    let later = Scribe::new(trial.volume.shared_disk(), history.operations.len());
    report.add(label, go_on(&mut *running.connect(), &later, &history, Window::at(usize::MAX - 1)));
    let (until, later) = (trial.volume.disk().position(), later.finish());
    running.kill();

    // And the power goes at last.
    let recording = trial.volume.disk().end_recording().expect("begun with the trial");
    trial.volume.unmount()?;
    trial.volume.exchange(Cutter::new(&recording).cut(until, Survival::None, seed));
    trial.volume.mount()?;
    match trial.start() {
        Ok(running) => {
            let seen = survey(&mut *running.connect(), &[&history, &later]);
            for history in [&history, &later] {
                let findings = judge(history, &seen, Window::at(usize::MAX - 1)).0;
                report.add(
                    label,
                    findings.into_iter().map(|f| Finding::new(f.fault, format!("power cut at the end: {}", f.detail))),
                );
            }
            running.kill();
        }
        Err(error) => {
            report.add(label, [Finding::new(Fault::Unavailable, format!("does not start after the cut: {error}"))])
        }
    }
    trial.volume.unmount()
}

/// Takes all space of the file system but `left` bytes.
fn fill_up(ballast: &Path, left: u64) -> Result<(), String> {
    let file = File::create(ballast).map_err(|e| format!("create ballast: {e}"))?;
    // Delayed allocation keeps the figures behind the truth until it is written out.
    // SAFETY: the descriptor is open for the length of each call; `figures` is a plain structure that statvfs fills.
    let free = unsafe {
        libc::syncfs(file.as_raw_fd());
        let mut figures: libc::statvfs = std::mem::zeroed();
        if libc::fstatvfs(file.as_raw_fd(), &mut figures) != 0 {
            return Err(format!("statvfs: {}", std::io::Error::last_os_error()));
        }
        figures.f_bfree * figures.f_frsize
    };
    let mut bytes = free.saturating_sub(left);
    // The extent tree of the ballast itself needs a block or two, so the last bytes are taken step by step.
    while bytes > 0 {
        // SAFETY: as above; no pointer is passed.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, bytes as i64) } == 0 {
            break;
        }
        bytes = bytes.saturating_sub(4096);
    }
    file.sync_all().map_err(|e| format!("sync ballast: {e}"))
}
