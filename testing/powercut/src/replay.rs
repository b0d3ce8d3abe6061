//! Cuts a recording at many points, starts the program on what is left each time, and has the judge look at it.
//!
//! 1. A cut whose volatile writes all vanish gives the same image for every point between two flushes: it is looked at
//!    once, against the strictest of those points on either side.
//! 2. A program that does not start after a power cut is a finding, whatever its reason.
//! 3. Now and then the power goes again while the recovered program runs (or still recovers): what it had served by then
//!    must still be there, and everything else that held before.

use crate::disk::{Chance, Cutter, Event, Recording, SURVIVALS, Survival};
use crate::history::{Deed, History, Outcome, Scribe};
use crate::judge::{Fault, Finding, Seen, Window, judge, strangers, survey};
use crate::record::{DATA, Taken};
use crate::store::{Answer, Condition, Store};
use crate::subject::Subject;
use crate::volume::{Kind, Volume};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cut {
    pub point: usize,
    pub survival_number: usize,
}

impl Cut {
    pub fn survival(self) -> Survival {
        SURVIVALS[self.survival_number]
    }
}

#[derive(Default)]
pub struct Tally {
    pub cuts: usize,
    pub cuts_by_survival: [usize; 4],
    pub cuts_in_recovery: usize,
    pub acknowledgements: usize,
    pub findings: Vec<(Cut, Finding)>,
    pub elapsed: Duration,
}

impl Tally {
    pub fn count(&self, fault: Fault) -> usize {
        self.findings.iter().filter(|(_, f)| f.fault == fault).count()
    }
}

/// Every cut that leaves a disk of its own.
pub fn every_cut(recording: &Recording) -> Vec<Cut> {
    let mut cuts = Vec::new();
    let mut volatile = 0;
    for point in 0..=recording.events.len() {
        let event = point.checked_sub(1).map(|i| &recording.events[i]);
        volatile = if matches!(event, Some(Event::Write(_))) { volatile + 1 } else { 0 };
        if volatile == 0 {
            cuts.push(Cut { point, survival_number: Survival::None.number() });
        } else {
            for survival in [Survival::Some, Survival::Torn, Survival::All] {
                cuts.push(Cut { point, survival_number: survival.number() });
            }
        }
    }
    cuts
}

/// About `wanted` of them, spread over the log by chance, every kind of survival alike.
pub fn some_cuts(recording: &Recording, wanted: usize, seed: u64) -> Vec<Cut> {
    let all = every_cut(recording);
    let mut chance = Chance::new(seed);
    let mut chosen = Vec::new();
    for survival in SURVIVALS {
        let of_kind: Vec<Cut> = all.iter().filter(|cut| cut.survival() == survival).copied().collect();
        let stride = (of_kind.len() as f64 / (wanted as f64 / 4.0)).max(1.0);
        let mut at = chance.below(stride as u64) as f64;
        while (at as usize) < of_kind.len() {
            chosen.push(of_kind[at as usize]);
            at += stride;
        }
        // The end of the log is where most has been acknowledged.
        chosen.extend(of_kind.last());
    }
    chosen.sort();
    chosen.dedup();
    chosen
}

pub struct Replay<'a> {
    pub subject: &'a Subject,
    pub kind: Kind,
    pub taken: &'a Taken,
    pub seed: u64,
    pub lanes: usize,
    /// Every how many cuts the power goes a second time; 0 for never.
    pub again_every: usize,
    /// Stop at the first finding of any kind: a control has then shown what it should.
    pub stop_early: bool,
    pub deadline: Option<Instant>,
}

impl Replay<'_> {
    pub fn run(&self, cuts: &[Cut], work: &Path) -> Result<Tally, String> {
        let started = Instant::now();
        let next = AtomicUsize::new(0);
        let stop = AtomicBool::new(false);
        let tally = Mutex::new(Tally::default());
        let failures = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for lane in 0..self.lanes {
                let (next, stop, tally, failures) = (&next, &stop, &tally, &failures);
                scope.spawn(move || {
                    if let Err(error) = self.lane(cuts, &work.join(format!("lane-{lane}")), next, stop, tally) {
                        failures.lock().expect("no holder panics").push(error);
                        stop.store(true, Ordering::Relaxed);
                    }
                });
            }
        });
        if let Some(error) = failures.into_inner().expect("no holder panics").pop() {
            return Err(error);
        }
        let mut tally = tally.into_inner().expect("no holder panics");
        tally.elapsed = started.elapsed();
        Ok(tally)
    }

    fn lane(
        &self,
        cuts: &[Cut],
        work: &Path,
        next: &AtomicUsize,
        stop: &AtomicBool,
        tally: &Mutex<Tally>,
    ) -> Result<(), String> {
        let mut volume = Volume::serve(work, self.kind, self.taken.recording.start.bytes())?;
        let mut cutter = Cutter::new(&self.taken.recording);
        while !stop.load(Ordering::Relaxed) && self.deadline.is_none_or(|deadline| Instant::now() < deadline) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(cut) = cuts.get(index).copied() else { break };
            let again = self.again_every > 0 && index.is_multiple_of(self.again_every);
            let (findings, acknowledgements) = self.examine(&mut volume, &mut cutter, cut, again, work)?;
            let mut tally = tally.lock().expect("no holder panics");
            tally.cuts += 1;
            tally.cuts_by_survival[cut.survival_number] += 1;
            tally.cuts_in_recovery += usize::from(again);
            tally.acknowledgements += acknowledgements;
            if self.stop_early && !findings.is_empty() {
                stop.store(true, Ordering::Relaxed);
            }
            tally.findings.extend(findings.into_iter().map(|finding| (cut, finding)));
        }
        Ok(())
    }

    fn window(&self, cut: Cut) -> Window {
        match cut.survival() {
            Survival::None => {
                let events = &self.taken.recording.events;
                let from = self.taken.recording.flushed(cut.point);
                let until =
                    events[from..].iter().position(|e| matches!(e, Event::Flush)).map_or(events.len(), |n| from + n);
                Window { acknowledged_until: until, begun_before: from }
            }
            _ => Window::at(cut.point),
        }
    }

    pub fn examine(
        &self,
        volume: &mut Volume,
        cutter: &mut Cutter,
        cut: Cut,
        again: bool,
        work: &Path,
    ) -> Result<(Vec<Finding>, usize), String> {
        let window = self.window(cut);
        volume.exchange(cutter.cut(cut.point, cut.survival(), self.seed));
        if again {
            volume.disk().begin_recording();
        }
        volume.mount().map_err(|e| format!("the file system itself does not mount after {cut:?}: {e}"))?;
        let data = volume.root().join(DATA);
        let log = work.join("server.log");
        let scribe = Scribe::new(volume.shared_disk(), self.taken.history.operations.len());

        let running = match self.subject.start(&data, &log) {
            Ok(running) => running,
            Err(error) => {
                volume.unmount()?;
                return Ok((vec![Finding::new(Fault::Unavailable, format!("does not start: {error}"))], 0));
            }
        };
        let mut store = running.connect();
        let seen = survey(&mut *store, &[&self.taken.history]);
        let surveyed_position = volume.disk().position();
        let (mut findings, acknowledgements) = judge(&self.taken.history, &seen, window);
        findings.extend(strangers(&[&self.taken.history], &seen));
        findings.extend(go_on(&mut *store, &scribe, &self.taken.history, window));
        drop(store);
        running.kill();
        let recovery = volume.disk().end_recording();
        volume.unmount()?;
        let Some(recovery) = recovery else { return Ok((findings, acknowledgements)) };

        let found_again = self.cut_again(volume, recovery, scribe.finish(), cut, (&seen, surveyed_position), work)?;
        findings.extend(
            found_again.into_iter().map(|f| Finding::new(f.fault, format!("after a second cut: {}", f.detail))),
        );
        Ok((findings, acknowledgements))
    }

    fn cut_again(
        &self,
        volume: &mut Volume,
        recovery: Recording,
        later: History,
        cut: Cut,
        first: (&Seen, usize),
        work: &Path,
    ) -> Result<Vec<Finding>, String> {
        let mut chance = Chance::new(self.seed ^ (cut.point as u64) << 20 ^ cut.survival_number as u64);
        let point = chance.below(recovery.events.len() as u64 + 1) as usize;
        let survival = *chance.pick(&SURVIVALS);
        volume.exchange(Cutter::new(&recovery).cut(point, survival, self.seed));
        volume.mount().map_err(|e| {
            format!("the file system itself does not mount after a second cut at {point} of {cut:?}: {e}")
        })?;
        let log = work.join("server.log");
        let running = match self.subject.start(&volume.root().join(DATA), &log) {
            Ok(running) => running,
            Err(error) => {
                volume.unmount()?;
                return Ok(vec![Finding::new(
                    Fault::Unavailable,
                    format!("at {point} ({survival:?}): does not start: {error}"),
                )]);
            }
        };
        let mut store = running.connect();
        let seen = survey(&mut *store, &[&self.taken.history, &later]);
        drop(store);
        running.kill();
        volume.unmount()?;

        let (mut findings, _) = judge(&self.taken.history, &seen, self.window(cut));
        findings.extend(judge(&later, &seen, Window::at(point)).0);
        findings.extend(strangers(&[&self.taken.history, &later], &seen));
        let (before, surveyed_position) = first;
        if point >= surveyed_position {
            let of_history = |seen: &Seen| -> BTreeMap<(String, String), _> {
                let known = self.taken.history.containers();
                seen.blobs
                    .iter()
                    .filter(|(key, _)| known.contains(key.0.as_str()))
                    .map(|(k, b)| (k.clone(), b.clone()))
                    .collect()
            };
            let (was, is) = (of_history(before), of_history(&seen));
            for key in was.keys().chain(is.keys()).filter(|key| was.get(*key) != is.get(*key)) {
                let detail = format!("{key:?} was served as {:?}, now as {:?}", was.get(key), is.get(key));
                findings.push(Finding::new(Fault::Lost, detail));
            }
        }
        for finding in &mut findings {
            finding.detail = format!("at {point} ({survival:?}): {}", finding.detail);
        }
        Ok(findings)
    }
}

/// The recovered program must take writes, with ETags that were never given before.
pub fn go_on(store: &mut dyn Store, scribe: &Scribe, history: &History, window: Window) -> Vec<Finding> {
    const AFTER: [(&str, &str, usize); 6] = [
        ("after", "small", 1000),
        ("after", "large", 100_000),
        ("queue-after", "message", 20_000),
        ("tableafter", "entity", 20_000),
        ("share-after", "file", 70_000),
        ("pages-after", "s0", 20_000),
    ];
    let mut findings = Vec::new();
    let unavailable =
        |what: &str, answer: &Answer| Finding::new(Fault::Unavailable, format!("{what} after recovery: {answer:?}"));
    let mut etags = Vec::new();
    let mut created = "";
    for (container, name, bytes) in AFTER {
        if container != created {
            let (operation, _) = scribe.begin(container, Deed::CreateContainer);
            let answer = store.create_container(container);
            scribe.end(operation, &answer);
            if !matches!(answer, Answer::Done { .. }) {
                findings.push(unavailable(&format!("create {container}"), &answer));
                return findings;
            }
            created = container;
        }
        let (operation, body) = scribe.begin(container, Deed::Put { name: name.into(), bytes });
        let body = body.expect("a put has a body");
        let answer = store.put(container, name, operation, &body, &Condition::None);
        scribe.end(operation, &answer);
        match answer {
            Answer::Done { etag } => etags.push(etag),
            answer => findings.push(unavailable(&format!("put {container}/{name}"), &answer)),
        }
        match store.get(container, name) {
            Ok(Some(found)) if found.body == **body => {}
            Ok(_) => {
                findings.push(Finding::new(Fault::Torn, format!("{container}/{name} reads back wrong after recovery")))
            }
            Err(error) => findings.push(Finding::new(Fault::Unavailable, error)),
        }
    }
    // What was given after the cut was never given in this future.
    let given: Vec<&String> = history
        .operations
        .iter()
        .filter(|op| op.acknowledged_position <= window.acknowledged_until)
        .filter_map(|op| match &op.outcome {
            Outcome::Done { etag } => Some(etag),
            _ => None,
        })
        .collect();
    for etag in etags {
        if given.contains(&&etag) {
            findings.push(Finding::new(
                Fault::Disagrees,
                format!("ETag {etag} was given before the cut and again after it"),
            ));
        }
    }
    findings
}
