//! Calls of the program that fail, one or all from some moment on: no space, no file descriptors, unreadable files, failed
//! syncs, a file system that has become read-only.
//!
//! 1. A change that was not made is answered with a 5xx, and nothing acknowledged is lost: not while calls fail, not when they
//!    succeed again, not after the program is started again.
//! 2. Where only writing fails, reads go on. Where reading fails, a read gives the right bytes or a 5xx, and one failed
//!    read costs no later one.
//! 3. After a failed sync nothing is acknowledged until the program is started again.
//! 4. When calls succeed again writes do too, or the program says in words that it has to be started again.

use crate::calls::{Call, Calls, Plan};
use crate::disk::{Chance, Disk, Image};
use crate::faults::{Report, says_restart};
use crate::history::Scribe;
use crate::judge::{Fault, Finding, Window, judge, strangers, survey};
use crate::record::DATA;
use crate::subject::{Running, Subject};
use crate::workload::{Complaints, Worker};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

const CONNECTIONS: usize = 4;
/// Among so many calls from the beginning of the trouble the first that fails is chosen.
const AHEAD_MAX: u64 = 40;
/// Most reads are answered from memory.
const READS_AHEAD_MAX: u64 = 8;

#[derive(Clone, Copy)]
pub struct Case {
    name: &'static str,
    calls: &'static [Call],
    errno: i32,
    once: bool,
}

const CHANGES: &[Call] = &[Call::Write, Call::Allocate, Call::Name];

pub const CASES: [Case; 9] = [
    Case { name: "no space, once", calls: CHANGES, errno: libc::ENOSPC, once: true },
    Case { name: "no space", calls: CHANGES, errno: libc::ENOSPC, once: false },
    Case { name: "unreadable, once", calls: &[Call::Read], errno: libc::EIO, once: true },
    Case { name: "unreadable", calls: &[Call::Read], errno: libc::EIO, once: false },
    Case { name: "a failed sync", calls: &[Call::Sync], errno: libc::EIO, once: true },
    Case { name: "failed syncs", calls: &[Call::Sync], errno: libc::EIO, once: false },
    Case { name: "no files, once", calls: &[Call::Open], errno: libc::EMFILE, once: true },
    Case { name: "no files", calls: &[Call::Open], errno: libc::EMFILE, once: false },
    Case { name: "read-only", calls: CHANGES, errno: libc::EROFS, once: false },
];

impl Case {
    fn fails_reads(&self) -> bool {
        self.calls.iter().any(|call| matches!(call, Call::Read | Call::Open))
    }

    fn fails_syncs(&self) -> bool {
        self.calls.contains(&Call::Sync)
    }
}

/// Each case so many times, failing at other calls each time.
pub fn refused(subject: &Subject, work: &Path, rounds: usize, seed: u64) -> Result<Report, String> {
    let mut report = Report::default();
    for round in 0..rounds {
        for (number, case) in CASES.iter().enumerate() {
            let mut chance = Chance::new(seed ^ (round as u64) << 24 ^ (number as u64) << 16);
            let ahead = chance.below(if case.fails_reads() { READS_AHEAD_MAX } else { AHEAD_MAX }) as usize;
            let label = format!("{} after {ahead} calls", case.name);
            let trial = Trial::begin(subject, work, seed ^ (round * CASES.len() + number) as u64)?;
            trial.run(*case, ahead, &label, &mut report)?;
            report.trials += 1;
        }
    }
    Ok(report)
}

struct Trial<'a> {
    subject: &'a Subject,
    calls: Calls,
    log: PathBuf,
    scribe: Scribe,
    workers: Vec<Worker>,
}

impl Trial<'_> {
    fn begin<'a>(subject: &'a Subject, work: &'a Path, seed: u64) -> Result<Trial<'a>, String> {
        let backing = work.join("backing");
        let _ = fs::remove_dir_all(&backing);
        fs::create_dir_all(&backing).map_err(|e| format!("create {}: {e}", backing.display()))?;
        let calls = Calls::serve(&backing, work)?;
        let scribe = Scribe::new(Arc::new(Mutex::new(Disk::new(Image::empty(0)))), 0);
        let workers = (0..CONNECTIONS).map(|n| Worker::new(n, seed, scribe.clone())).collect();
        Ok(Trial { subject, calls, log: work.join("server.log"), scribe, workers })
    }

    fn start(&self) -> Result<Running, String> {
        self.subject.start(&self.calls.root().join(DATA), &self.log)
    }

    fn work(&mut self, running: &Running, requests: usize, complaints: &Complaints) {
        std::thread::scope(|scope| {
            for worker in &mut self.workers {
                let mut store = running.connect();
                scope.spawn(move || worker.run(&mut *store, requests, complaints));
            }
        });
    }

    fn run(mut self, case: Case, ahead: usize, label: &str, report: &mut Report) -> Result<(), String> {
        let calm = Complaints::default();
        let running = self.start().map_err(|e| format!("{} does not start: {e}", self.subject.name()))?;
        self.workers[0].prepare(&mut *running.connect(), &calm);
        self.work(&running, 10, &calm);
        report.add(label, calm.take());

        self.calls.refuse(Some(Plan { calls: case.calls, errno: case.errno, ahead, once: case.once }));
        let failing = Complaints::of_a_bad_disk();
        self.work(&running, 12, &failing);
        if case.fails_syncs() && self.calls.refused() > 0 {
            report.add(label, self.acknowledged_since(&running, &failing));
        }
        if !running.is_alive() {
            report.add(label, [Finding::new(Fault::Unavailable, "the program exited when its calls failed")]);
        }
        report.add(label, self.inspect(&running, "while calls fail", case.fails_reads()).0);
        report.unjudged += usize::from(self.calls.refused() == 0);

        self.calls.refuse(None);
        let before = failing.failures();
        self.work(&running, 6, &failing);
        let goes_on = failing.failures() == before;
        if !goes_on && !says_restart(&self.log) {
            let detail =
                "changes fail although no call does any more, and nothing says that it has to be started again";
            report.add(label, [Finding::new(Fault::Unavailable, detail)]);
        }
        report.add(label, self.inspect(&running, "when calls succeed again", false).0);
        report.failures += failing.failures();
        report.add(label, failing.take());
        running.kill();

        self.start_again(label, report);
        Ok(())
    }

    fn start_again(mut self, label: &str, report: &mut Report) {
        let running = match self.start() {
            Ok(running) => running,
            Err(error) => {
                return report.add(label, [Finding::new(Fault::Lost, format!("does not start any more: {error}"))]);
            }
        };
        let (findings, checked) = self.inspect(&running, "after a start", false);
        report.acknowledgements += checked;
        report.add(label, findings);
        let calm = Complaints::default();
        self.work(&running, 6, &calm);
        report.add(label, calm.take());
        running.kill();
    }

    /// Changes that are begun after a sync failed, and acknowledged all the same.
    fn acknowledged_since(&mut self, running: &Running, complaints: &Complaints) -> Vec<Finding> {
        let before = self.scribe.clone().finish().acknowledged();
        self.work(running, 4, complaints);
        match self.scribe.clone().finish().acknowledged() - before {
            0 => Vec::new(),
            count => vec![Finding::new(Fault::Lost, format!("{count} changes were acknowledged after a failed sync"))],
        }
    }

    /// Everything acknowledged so far, read through the running program.
    fn inspect(&self, running: &Running, when: &str, reads_may_fail: bool) -> (Vec<Finding>, usize) {
        let history = self.scribe.clone().finish();
        let seen = survey(&mut *running.connect(), &[&history]);
        let (mut findings, checked) = judge(&history, &seen, Window::at(usize::MAX - 1));
        findings.extend(strangers(&[&history], &seen));
        findings.retain(|f| !(reads_may_fail && f.fault == Fault::Unavailable && f.is_told()));
        for finding in &mut findings {
            finding.detail = format!("{when}: {}", finding.detail);
        }
        (findings, checked)
    }
}
