//! Damage to each kind of file in a data directory: a flipped bit, a page of zeros, a lost tail, a file that is gone.
//!
//! 1. Either the program refuses to start and names the file, or it starts and every read gives the right bytes or a 5xx.
//! 2. A start that is refused changes nothing: once the damage is undone, everything is there.
//! 3. Never wrong bytes, and nothing acknowledged is silently missing: that holds for the end of the commit log too, once
//!    it has had a moment to be noted.
//!
//! Needs no privilege and no special disk: it works on copies of a directory.

use crate::disk::{Chance, Disk, Image};
use crate::faults::Report;
use crate::history::{History, Scribe};
use crate::judge::{Fault, Finding, Window, judge, strangers, survey};
use crate::record::files_below;
use crate::subject::{Running, Subject};
use crate::volume::run;
use crate::workload::{Complaints, Worker};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
enum Damage {
    Bit { at: u64, bit: u8 },
    Page { at: u64 },
    Tail { bytes: u64 },
    Gone,
}

/// At `places` by chance in each file beside the telling ones; stops after `trials_max`.
pub fn damage(subject: &Subject, work: &Path, places: usize, trials_max: usize, seed: u64) -> Result<Report, String> {
    let mut report = Report::default();
    for is_killed in [true, false] {
        let name = if is_killed { "killed" } else { "stopped" };
        let pristine = work.join(format!("pristine-{name}"));
        let _ = fs::remove_dir_all(&pristine);
        let history = fill(subject, &pristine, work, seed, is_killed)?;
        let mut chance = Chance::new(seed ^ u64::from(is_killed));
        // Undamaged first: a fault found here is none of the damage's.
        let (findings, _) = examine(subject, &pristine, &work.join("copy"), work, &history, None)?;
        report.findings.extend(findings.into_iter().map(|f| (format!("{name}, undamaged"), f)));

        for file in representatives(&pristine) {
            for damage in choose(&pristine.join(&file), places, &mut chance) {
                if report.trials == trials_max {
                    return Ok(report);
                }
                let label = format!("{name}, {damage:?} of {}", file.display());
                let (findings, checked) =
                    examine(subject, &pristine, &work.join("copy"), work, &history, Some((&file, damage)))?;
                report.trials += 1;
                report.acknowledgements += checked;
                report.findings.extend(findings.into_iter().map(|f| (label.clone(), f)));
            }
        }
    }
    Ok(report)
}

/// A data directory with something of everything in it.
fn fill(subject: &Subject, data: &Path, work: &Path, seed: u64, is_killed: bool) -> Result<History, String> {
    let nowhere = Arc::new(Mutex::new(Disk::new(Image::empty(0))));
    let scribe = Scribe::new(nowhere, 0);
    let calm = Complaints::default();
    let running = subject.start(data, &work.join("server.log"))?;
    let mut worker = Worker::new(0, seed, scribe.clone());
    let mut store = running.connect();
    worker.prepare(&mut *store, &calm);
    worker.run(&mut *store, 120, &calm);
    drop(store);
    if let Some(finding) = calm.take().first() {
        return Err(format!("the workload before the damage: {finding:?}"));
    }
    // The last durable commit is noted every second or so.
    std::thread::sleep(Duration::from_millis(2500));
    match is_killed {
        true => running.kill(),
        false => running.stop()?,
    }
    Ok(scribe.finish())
}

/// At most two files of each kind: the same directory, and the same name but for digits.
fn representatives(data: &Path) -> Vec<PathBuf> {
    let mut kinds: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for file in files_below(data) {
        let relative = file.strip_prefix(data).expect("it is below").to_path_buf();
        let kind: String = relative.to_string_lossy().chars().filter(|c| !c.is_ascii_digit()).collect();
        kinds.entry(kind).or_default().push(relative);
    }
    kinds
        .into_values()
        .flat_map(
            |mut files| {
                if files.len() > 2 { vec![files.remove(0), files.pop().expect("more than two")] } else { files }
            },
        )
        .collect()
}

fn choose(file: &Path, places: usize, chance: &mut Chance) -> Vec<Damage> {
    let content = fs::read(file).unwrap_or_default();
    let written: Vec<u64> = (0..content.len() as u64).filter(|at| content[*at as usize] != 0).collect();
    let (Some(first), Some(last)) = (written.first().copied(), written.last().copied()) else {
        return vec![Damage::Gone];
    };
    let mut chosen = vec![
        Damage::Bit { at: first, bit: 0 },
        Damage::Bit { at: last, bit: 3 },
        Damage::Page { at: last / 4096 * 4096 },
        Damage::Tail { bytes: content.len() as u64 - last },
        Damage::Tail { bytes: (content.len() as u64 / 2).max(1) },
        Damage::Gone,
    ];
    for _ in 0..places {
        chosen.push(Damage::Bit { at: *chance.pick(&written), bit: chance.below(8) as u8 });
    }
    chosen.push(Damage::Page { at: *chance.pick(&written) / 4096 * 4096 });
    chosen
}

fn inflict(file: &Path, damage: Damage) -> std::io::Result<()> {
    let open = || File::options().read(true).write(true).open(file);
    match damage {
        Damage::Gone => fs::remove_file(file),
        Damage::Tail { bytes } => {
            let file = open()?;
            file.set_len(file.metadata()?.len().saturating_sub(bytes))
        }
        Damage::Page { at } => {
            let file = open()?;
            let bytes = (file.metadata()?.len() - at).min(4096) as usize;
            file.write_all_at(&vec![0; bytes], at)
        }
        Damage::Bit { at, bit } => {
            let file = open()?;
            let mut byte = [0];
            file.read_exact_at(&mut byte, at)?;
            file.write_all_at(&[byte[0] ^ 1 << bit], at)
        }
    }
}

/// Gives back what the damage took, and nothing else: what the program did to the file in the meantime stays.
fn heal(file: &Path, original: &Path, damage: Damage) -> std::io::Result<()> {
    let whole = fs::read(original)?;
    let give = |at: u64, bytes: usize| {
        let file = File::options().create(true).truncate(false).write(true).open(file)?;
        file.write_all_at(&whole[at as usize..at as usize + bytes], at)
    };
    match damage {
        Damage::Gone => fs::write(file, &whole),
        Damage::Tail { bytes } => give(whole.len() as u64 - bytes, bytes as usize),
        Damage::Page { at } => give(at, (whole.len() - at as usize).min(4096)),
        Damage::Bit { at, .. } => give(at, 1),
    }
}

fn examine(
    subject: &Subject,
    pristine: &Path,
    copy: &Path,
    work: &Path,
    history: &History,
    damage: Option<(&Path, Damage)>,
) -> Result<(Vec<Finding>, usize), String> {
    let _ = fs::remove_dir_all(copy);
    run(Command::new("cp").args(["-a", "--sparse=always"]).arg(pristine).arg(copy))?;
    if let Some((file, damage)) = damage {
        inflict(&copy.join(file), damage).map_err(|e| format!("damage {}: {e}", file.display()))?;
    }
    let log = work.join("server.log");
    let running = match (subject.start(copy, &log), damage) {
        (Ok(running), _) => running,
        (Err(error), None) => return Ok((vec![Finding::new(Fault::Unavailable, error)], 0)),
        (Err(error), Some((file, damage))) => {
            let mut findings = Vec::new();
            // The record store does not say in which of its files it stumbled; its directory must do then.
            let is_clear = error.contains(&*copy.to_string_lossy())
                && !error.contains("panicked")
                && !error.contains("not ready within");
            if !is_clear {
                findings.push(Finding::new(Fault::Unavailable, format!("refuses without naming the place: {error}")));
            }
            let healed =
                heal(&copy.join(file), &pristine.join(file), damage).map_err(|e| format!("its directory is gone: {e}"));
            let (after, checked) = match healed.and_then(|()| subject.start(copy, &log)) {
                Ok(running) => look(running, history),
                Err(error) => (vec![Finding::new(Fault::Lost, format!("does not start any more: {error}"))], 0),
            };
            findings.extend(after.into_iter().map(|f| {
                Finding::new(
                    f.fault,
                    format!("the refused start made it worse: after the damage was undone: {}", f.detail),
                )
            }));
            return Ok((findings, checked));
        }
    };
    let (mut findings, checked) = look(running, history);
    if damage.is_some() {
        findings.retain(|f| f.fault != Fault::Unavailable || !f.is_told());
    }
    Ok((findings, checked))
}

fn look(running: Running, history: &History) -> (Vec<Finding>, usize) {
    let seen = survey(&mut *running.connect(), &[history]);
    let (mut findings, checked) = judge(history, &seen, Window::at(usize::MAX - 1));
    findings.extend(strangers(&[history], &seen));
    if !running.is_alive() {
        findings.push(Finding::new(Fault::Unavailable, "the program exited while it was read from"));
    }
    running.kill();
    (findings, checked)
}
