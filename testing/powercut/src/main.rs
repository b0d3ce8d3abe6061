//! Cuts the power of a disk under a storage server at every point of a workload, and looks at what is left.
//!
//! `disk` records, `volume` mounts, `workload` and `history` ask and remember, `replay` cuts, `judge` judges; `toy` proves
//! that all of it finds what it should; `faults` fails and fills the disk, `refused` fails single calls (`calls`), `damage` flips
//! bits in files.
//!
//! The process is meant to be started by the `run` script, in a mount namespace of its own.

mod archive;
mod blobs;
mod body;
mod calls;
mod client;
mod damage;
mod disk;
mod faults;
mod files;
mod history;
mod judge;
mod objects;
mod queues;
mod record;
mod refused;
mod replay;
mod services;
mod store;
mod subject;
mod tables;
mod toy;
mod volume;
mod workload;

use judge::{Fault, Finding};
use record::{Plan, Taken};
use replay::{Cut, Replay, Tally};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use subject::Subject;
use toy::Habit;
use volume::Kind;

const DISK_BYTES: u64 = 512 << 20;
const USAGE: &str = "powercut --work DIR [--server PROGRAM] [--full] [--seed N] [--points N] [--minutes N] [--lanes N] [--fs ext4|xfs|btrfs]
         [--only toys,control,cuts,turnover,faults,calls,full-disk,damage]
powercut --work DIR --server PROGRAM --again RECORDING --point N --survival 0..3 --seed N";

struct Options {
    work: PathBuf,
    server: Option<PathBuf>,
    is_full: bool,
    seed: u64,
    points: usize,
    minutes: u64,
    lanes: usize,
    kind: Kind,
    only: Option<Vec<String>>,
    again: Option<PathBuf>,
    cut: Cut,
}

fn options() -> Result<Options, String> {
    let from_clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64 % 1_000_000);
    let mut options = Options {
        work: PathBuf::new(),
        server: None,
        is_full: false,
        seed: from_clock,
        points: 220,
        minutes: 0,
        lanes: 2,
        kind: Kind::Ext4,
        only: None,
        again: None,
        cut: Cut { point: 0, survival_number: 0 },
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--full" {
            options.is_full = true;
            continue;
        }
        let value = arguments.next().ok_or_else(|| format!("{argument} needs a value\n{USAGE}"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{argument} {value}: not a number\n{USAGE}"));
        match argument.as_str() {
            "--work" => options.work = value.into(),
            "--server" => options.server = Some(value.into()),
            "--seed" => options.seed = number()?,
            "--points" => options.points = number()? as usize,
            "--minutes" => options.minutes = number()?,
            "--lanes" => options.lanes = (number()? as usize).max(1),
            "--fs" => options.kind = Kind::parse(&value).ok_or_else(|| format!("--fs {value}: unknown\n{USAGE}"))?,
            "--only" => options.only = Some(value.split(',').map(str::to_string).collect()),
            "--again" => options.again = Some(value.into()),
            "--point" => options.cut.point = number()? as usize,
            "--survival" => options.cut.survival_number = (number()? as usize).min(3),
            _ => return Err(format!("{argument}: unknown\n{USAGE}")),
        }
    }
    if options.work.as_os_str().is_empty() {
        return Err(USAGE.into());
    }
    Ok(options)
}

fn main() -> ExitCode {
    let outcome = options().and_then(|options| match &options.again {
        Some(recording) => look_again(&options, recording),
        None => everything(&options),
    });
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("powercut: {error}");
            ExitCode::FAILURE
        }
    }
}

/// True when all is well.
fn everything(options: &Options) -> Result<bool, String> {
    let mut totals = Totals::default();
    let outcome = parts(options, &mut totals)?;
    println!(
        "powercut: {}: {} cuts, {} trials, {} acknowledgements checked, {} findings; seed {}",
        if outcome { "ok" } else { "FAILED" },
        totals.cuts,
        totals.trials,
        totals.acknowledgements,
        totals.findings,
        options.seed
    );
    Ok(outcome)
}

/// Of everything that should find nothing; the controls are not counted.
#[derive(Default)]
struct Totals {
    cuts: usize,
    trials: usize,
    acknowledgements: usize,
    findings: usize,
}

fn parts(options: &Options, totals: &mut Totals) -> Result<bool, String> {
    let wants = |part: &str| options.only.as_ref().is_none_or(|only| only.iter().any(|o| o == part));
    let mut is_well = true;
    if wants("toys") {
        is_well &= toys(options, totals)?;
    }
    let Some(program) = &options.server else {
        println!("powercut: no --server given: only the harness itself was tried");
        return Ok(is_well);
    };
    let server = |durability| Subject::Server { program: program.clone(), durability };
    if wants("control") {
        is_well &= control(options, server("relaxed"), Fault::Lost, 40, &judge::SERVICES)?;
    }
    if wants("cuts") {
        is_well &=
            cuts(options, totals, "power cuts", plan(options, server("full"), vec![30, 25, 20]), options.points)?;
    }
    if wants("turnover") {
        // 6 x 1,340 bodies of 8 KiB are nearly four memory tables of 16 MiB; the fifth part is recorded.
        let plan = Plan { bulk: (1340, 120), ..plan(options, server("full"), vec![10, 10]) };
        is_well &= cuts(options, totals, "power cuts while tables turn over", plan, options.points / 2)?;
    }
    let trials = if options.is_full { 64 } else { 8 };
    if wants("faults") {
        is_well &= tell_report(
            options,
            totals,
            "failing disk",
            faults::refusals(&server("full"), &options.work.join("faults"), trials, options.seed)?,
        );
    }
    if wants("calls") {
        let rounds = if options.is_full { 40 } else { 1 };
        is_well &= tell_report(
            options,
            totals,
            "failing calls",
            refused::refused(&server("full"), &options.work.join("refused"), rounds, options.seed)?,
        );
    }
    if wants("full-disk") {
        is_well &= tell_report(
            options,
            totals,
            "full disk",
            faults::full_disk(&server("full"), &options.work.join("full-disk"), options.seed)?,
        );
    }
    if wants("damage") {
        let places = if options.is_full { 24 } else { 2 };
        is_well &= tell_report(
            options,
            totals,
            "damaged files",
            damage::damage(&server("full"), &options.work, places, usize::MAX, options.seed)?,
        );
    }
    Ok(is_well)
}

fn plan(options: &Options, subject: Subject, requests: Vec<usize>) -> Plan {
    Plan {
        subject,
        kind: options.kind,
        disk_bytes: DISK_BYTES,
        connections: 6,
        requests,
        seed: options.seed,
        bulk: (0, 0),
    }
}

/// The harness tried on itself: what is right passes, what is wrong in a known way is found out.
fn toys(options: &Options, totals: &mut Totals) -> Result<bool, String> {
    let subject = Subject::Toy(Habit::Careful);
    let plan = plan(options, subject, vec![20, 20]);
    let taken = record::record(&plan, &options.work.join("record"))?;
    let cuts = replay::some_cuts(&taken.recording, 80, options.seed);
    let tally = replay(options, &plan, &taken, false).run(&cuts, &options.work)?;
    let mut is_well = tell(options, totals, "a store that is right", &taken, &tally);
    for (habit, due) in
        [(Habit::NeverSyncs, Fault::Lost), (Habit::SyncsAfterwards, Fault::Lost), (Habit::InPlace, Fault::Torn)]
    {
        is_well &= control(options, Subject::Toy(habit), due, 80, &[])?;
    }
    let faulty = faults::refusals(&Subject::Toy(Habit::Shrugs), &options.work.join("faults"), 16, options.seed)?;
    is_well &= must_find("a store that shrugs at failed syncs", &faulty, &[Fault::Lost, Fault::Torn]);
    let failing = faults::refusals(&Subject::Toy(Habit::Careful), &options.work.join("faults"), 8, options.seed)?;
    is_well &= tell_report(options, totals, "a store that is right on a failing disk", failing);
    for (habit, due) in [(Habit::Shrugs, [Fault::Lost, Fault::Torn]), (Habit::Deaf, [Fault::Lost, Fault::Disagrees])] {
        let refused = refused::refused(&Subject::Toy(habit), &options.work.join("refused"), 2, options.seed)?;
        is_well &= must_find(&format!("a store whose habit is {habit:?}, whose calls fail"), &refused, &due);
    }
    let damaged = damage::damage(&Subject::Toy(Habit::Careful), &options.work, 3, 150, options.seed)?;
    is_well &= must_find("a store without checksums", &damaged, &[Fault::Torn]);
    Ok(is_well)
}

/// How often a program that must be found out is recorded: what a recording has under way when the power goes is luck.
const RECORDINGS_MAX: u64 = 6;

/// A program that must be found out, or the harness proves nothing.
/// Where `services` are named, in each of them.
fn control(options: &Options, subject: Subject, due: Fault, points: usize, services: &[&str]) -> Result<bool, String> {
    let name = subject.name();
    let plan = plan(options, subject, vec![20]);
    let (mut by_service, mut cuts_made, mut entries) = (BTreeMap::<&str, usize>::new(), 0, 0);
    let mut unseen = services.to_vec();
    for recording in 0..RECORDINGS_MAX {
        let taken = record::record(&plan, &options.work.join("record"))?;
        let cuts = replay::some_cuts(&taken.recording, points, options.seed + recording);
        let tally = Replay { again_every: 0, ..replay(options, &plan, &taken, false) }.run(&cuts, &options.work)?;
        for (_, finding) in tally.findings.iter().filter(|(_, finding)| finding.fault == due) {
            *by_service.entry(finding.service()).or_default() += 1;
        }
        (cuts_made, entries) = (cuts_made + tally.cuts, entries + taken.recording.events.len());
        // What is never seen to be lost may be judged by nobody.
        unseen.retain(|service| !by_service.contains_key(*service));
        if !by_service.is_empty() && unseen.is_empty() {
            break;
        }
    }
    let is_found_out = !by_service.is_empty() && unseen.is_empty();
    let verdict =
        if is_found_out { "ok".into() } else { format!("FAILED: it should have been found out; unseen {unseen:?}") };
    let found: usize = by_service.values().sum();
    println!(
        "powercut: control {name}: {found} times {due:?} {by_service:?} in {cuts_made} cuts of {entries} log entries: {verdict}"
    );
    Ok(is_found_out)
}

fn must_find(what: &str, report: &faults::Report, due: &[Fault]) -> bool {
    let found = report.findings.iter().filter(|(_, finding)| due.contains(&finding.fault)).count();
    let verdict = if found > 0 { "ok" } else { "FAILED: it should have been found out" };
    println!("powercut: control {what}: {found} times {due:?} in {} trials: {verdict}", report.trials);
    found > 0
}

fn cuts(options: &Options, totals: &mut Totals, what: &str, plan: Plan, points: usize) -> Result<bool, String> {
    let taken = record::record(&plan, &options.work.join("record"))?;
    let cuts = if options.is_full {
        replay::every_cut(&taken.recording)
    } else {
        replay::some_cuts(&taken.recording, points, options.seed)
    };
    println!(
        "powercut: {what}: recorded {} log entries, {} requests, {} acknowledged, {} files came and {} went; {} cuts to make",
        taken.recording.events.len(),
        taken.history.operations.len(),
        taken.history.acknowledged(),
        taken.files_came,
        taken.files_went,
        cuts.len()
    );
    let tally = replay(options, &plan, &taken, false).run(&cuts, &options.work)?;
    Ok(tell(options, totals, what, &taken, &tally))
}

fn replay<'a>(options: &Options, plan: &'a Plan, taken: &'a Taken, stop_early: bool) -> Replay<'a> {
    let deadline = (options.minutes > 0).then(|| Instant::now() + Duration::from_secs(options.minutes * 60));
    Replay {
        subject: &plan.subject,
        kind: plan.kind,
        taken,
        seed: options.seed,
        lanes: options.lanes,
        again_every: 8,
        stop_early,
        deadline,
    }
}

fn tell(options: &Options, totals: &mut Totals, what: &str, taken: &Taken, tally: &Tally) -> bool {
    totals.cuts += tally.cuts + tally.cuts_in_recovery;
    totals.acknowledgements += tally.acknowledgements;
    totals.findings += tally.findings.len() + taken.findings.len();
    let [none, some, torn, all] = tally.cuts_by_survival;
    for finding in taken.findings.iter().take(10) {
        println!("  live: {:?}: {}", finding.fault, finding.detail);
    }
    for (cut, finding) in tally.findings.iter().take(20) {
        println!("  point {} survival {}: {:?}: {}", cut.point, cut.survival_number, finding.fault, finding.detail);
    }
    let is_well = tally.findings.is_empty() && taken.findings.is_empty();
    println!(
        "powercut: {what}: {} cuts in {:.0} s (none/some/torn/all of the unflushed writes survive: {none}/{some}/{torn}/{all}; {} cut again in \
         recovery), {} acknowledgements checked: {}{} lost, {} torn, {} phantom, {} disagreeing, {} unavailable, {} live; seed {}",
        tally.cuts,
        tally.elapsed.as_secs_f64(),
        tally.cuts_in_recovery,
        tally.acknowledgements,
        if is_well { "ok, " } else { "FAILED, " },
        tally.count(Fault::Lost),
        tally.count(Fault::Torn),
        tally.count(Fault::Phantom),
        tally.count(Fault::Disagrees),
        tally.count(Fault::Unavailable),
        taken.findings.len(),
        options.seed
    );
    if !is_well {
        let kept = options.work.join(format!("kept-{}", options.seed));
        match archive::save(&kept, &taken.recording, &taken.history) {
            Ok(()) => println!(
                "  the recording is kept: --again {} --point N --survival N --seed {}",
                kept.display(),
                options.seed
            ),
            Err(error) => println!("  the recording could not be kept: {error}"),
        }
    }
    is_well
}

fn tell_report(options: &Options, totals: &mut Totals, what: &str, mut report: faults::Report) -> bool {
    totals.trials += report.trials;
    totals.acknowledgements += report.acknowledgements;
    totals.findings += report.findings.len();
    report.findings.sort_by_key(|(_, finding)| finding.fault); // the worst first
    for (label, finding) in report.findings.iter().take(30) {
        println!("  {label}: {:?}: {}", finding.fault, finding.detail);
    }
    let is_well = report.findings.is_empty();
    println!(
        "powercut: {what}: {} trials, {} changes answered with 5xx, {} acknowledgements checked, {} not judged: {}, {} findings; seed {}",
        report.trials,
        report.failures,
        report.acknowledgements,
        report.unjudged,
        if is_well { "ok" } else { "FAILED" },
        report.findings.len(),
        options.seed
    );
    is_well
}

/// One cut of a kept recording.
fn look_again(options: &Options, recording: &Path) -> Result<bool, String> {
    let program = options.server.clone().ok_or("--again needs --server")?;
    let subject = Subject::Server { program, durability: "full" };
    let plan = plan(options, subject, vec![]);
    let (recording, history) = archive::load(recording).map_err(|e| format!("{}: {e}", recording.display()))?;
    let taken = Taken { recording, history, findings: Vec::<Finding>::new(), files_came: 0, files_went: 0 };
    let tally = Replay { lanes: 1, again_every: 1, ..replay(options, &plan, &taken, false) }
        .run(&[options.cut], &options.work)?;
    for (_, finding) in &tally.findings {
        println!("{:?}: {}", finding.fault, finding.detail);
    }
    println!(
        "{} findings; the server's log is {}",
        tally.findings.len(),
        options.work.join("lane-0/server.log").display()
    );
    Ok(tally.findings.is_empty())
}
