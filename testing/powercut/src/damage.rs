//! Damage to each kind of file in a data directory: a flipped bit, a page of zeros, a lost tail, a file that is gone.
//!
//! 1. Either the program refuses to start and names the file, or it starts and every read gives the right bytes or a 5xx.
//! 2. Never wrong bytes, and nothing acknowledged is silently missing: that holds for the end of the commit log too, once
//!    it has had a moment to be noted.
//!
//! Needs no privilege and no special disk: it works on copies of a directory.

use crate::disk::{Chance, Disk, Image};
use crate::faults::Report;
use crate::history::{History, Scribe};
use crate::judge::{Fault, Finding, Window, judge, strangers, survey};
use crate::record::files_below;
use crate::subject::Subject;
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

pub fn damage(subject: &Subject, work: &Path, places: usize, seed: u64) -> Result<Report, String> {
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
                let label = format!("{name}, {damage:?} of {}", file.display());
                let (findings, checked) = examine(subject, &pristine, &work.join("copy"), work, &history, Some((&file, damage)))?;
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
    kinds.into_values().flat_map(|mut files| if files.len() > 2 { vec![files.remove(0), files.pop().expect("more than two")] } else { files }).collect()
}

fn choose(file: &Path, places: usize, chance: &mut Chance) -> Vec<Damage> {
    let content = fs::read(file).unwrap_or_default();
    let written: Vec<u64> = (0..content.len() as u64).filter(|at| content[*at as usize] != 0).collect();
    let (Some(first), Some(last)) = (written.first().copied(), written.last().copied()) else { return vec![Damage::Gone] };
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

fn examine(
    subject: &Subject, pristine: &Path, copy: &Path, work: &Path, history: &History, damage: Option<(&Path, Damage)>,
) -> Result<(Vec<Finding>, usize), String> {
    let _ = fs::remove_dir_all(copy);
    run(Command::new("cp").args(["-a", "--sparse=always"]).arg(pristine).arg(copy))?;
    if let Some((file, damage)) = damage {
        inflict(&copy.join(file), damage).map_err(|e| format!("damage {}: {e}", file.display()))?;
    }
    let running = match subject.start(copy, &work.join("server.log")) {
        Ok(running) => running,
        Err(error) => {
            let Some((file, _)) = damage else { return Ok((vec![Finding::new(Fault::Unavailable, error)], 0)) };
            let name = file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            let is_clear = error.contains(&name) && !error.contains("panicked") && !error.contains("not ready within");
            return Ok((if is_clear { vec![] } else { vec![Finding::new(Fault::Unavailable, format!("refuses without naming the file: {error}"))] }, 1));
        }
    };
    let seen = survey(&mut *running.connect(), &[history]);
    let is_alive = running.is_alive();
    running.kill();
    let (mut findings, checked) = judge(history, &seen, Window::at(usize::MAX - 1));
    findings.extend(strangers(&[history], &seen));
    if damage.is_some() {
        // A read that fails in words is what should happen; one that finds nobody there is not.
        findings.retain(|f| f.fault != Fault::Unavailable || !f.detail.contains(": 5"));
    }
    if !is_alive {
        findings.push(Finding::new(Fault::Unavailable, "the program exited while it was read from"));
    }
    Ok((findings, checked))
}
