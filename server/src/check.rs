//! `lazuli check`: looks through a data directory that nothing serves, and changes nothing. First what the engine promises of its files
//! (`embedded::inspect`), then what records say of each other (`partition::audit`).

use std::cmp::Ordering;
use std::path::Path;
use std::process::ExitCode;

use embedded::OpenError;
use embedded::inspect::{self, Inspection, Seen};
use engine::{Family, Fault, GroupId, GroupRange, Page, PartitionId, Record};
use partition::audit::{self, Counted, Records};

use crate::config::Check;
use crate::progress::{Progress, sized};

/// How it ends: all is well; something is damaged; it could not look.
const SOUND: u8 = 0;
const DAMAGED: u8 = 1;
const NOT_CHECKED: u8 = 2;

/// So much is said in words; of more only the number.
const FINDINGS_TOLD_MAX: u64 = 1000;

pub fn run(Check { data, scratch }: Check) -> ExitCode {
    let mut told = Told { progress: Progress::new(), found: 0 };
    let looked = look(&data, &scratch, &mut told);
    told.progress.clear();
    let code = match looked {
        Ok(summary) => {
            println!("{}: {}{summary}", data.display(), verdict(told.found));
            if told.found == 0 { SOUND } else { DAMAGED }
        }
        Err(error) => {
            eprintln!("lazuli: cannot check: {error}");
            NOT_CHECKED
        }
    };
    code.into()
}

fn verdict(found: u64) -> String {
    match found {
        0 => "sound".to_owned(),
        1 => "DAMAGED in one place".to_owned(),
        many => format!("DAMAGED in {many} places"),
    }
}

/// What was looked at, in words.
fn look(data: &Path, scratch: &Path, told: &mut Told) -> Result<String, String> {
    let opened = Inspection::open(data, scratch, &mut Telling { told, records: None });
    let opened = opened.map_err(|error| match error {
        OpenError::Locked { dir } => format!(
            "{} is in use, and is checked while nothing serves it: stop the server, or restore a backup of it elsewhere and check that",
            dir.display()
        ),
        other => other.to_string(),
    })?;
    let Some(inspection) = opened else { return Ok(String::new()) };
    let rows = Rows(&inspection);
    let mut telling = Telling { told, records: Some(&rows) };
    let seen = inspection.verify(&mut telling);
    let seen = part(seen, telling.told)?;
    let counted = audit::run(&rows, &mut telling);
    let counted = part(counted, telling.told)?;
    Ok(seen.zip(counted).map(|(seen, counted)| summary(&seen, &counted)).unwrap_or_default())
}

/// What a part of the looking came to; `None` if damage ended it. Where something is damaged, what cannot be read is damage, too: it is told,
/// and the other parts are looked at all the same. Where nothing is, the disk or the program failed.
fn part<T>(looked: Result<T, Fault>, told: &mut Told) -> Result<Option<T>, String> {
    match looked {
        Ok(found) => Ok(Some(found)),
        Err(fault) if told.found > 0 || matches!(fault, Fault::Corrupt { .. }) => {
            told.tell(&format!("not everything could be looked at: {fault}"));
            Ok(None)
        }
        Err(fault) => Err(fault.to_string()),
    }
}

fn summary(seen: &Seen, counted: &Counted) -> String {
    format!(
        "; {counted}; {} records, {} in {} bodies in {} segments; {} that nothing names",
        seen.records,
        sized(seen.extent_bytes),
        seen.extents,
        seen.segments,
        sized(seen.unnamed_bytes),
    )
}

/// The records of a directory, as those who know their meaning read them.
struct Rows<'a>(&'a Inspection);

impl Records for Rows<'_> {
    fn scan(&self, range: &GroupRange, limit: usize) -> Result<Page, Fault> {
        self.0.scan(range, limit)
    }

    fn get(&self, partition: &PartitionId, family: Family, key: &[u8]) -> Result<Option<Record>, Fault> {
        self.0.get(partition, family, key)
    }

    fn next_group(&self, after: Option<&GroupId>) -> Result<Option<GroupId>, Fault> {
        self.0.next_group(after)
    }
}

/// What was told so far.
struct Told {
    progress: Progress,
    found: u64,
}

impl Told {
    fn tell(&mut self, words: &str) {
        self.found += 1;
        self.progress.clear();
        match self.found.cmp(&FINDINGS_TOLD_MAX) {
            Ordering::Less => println!("{words}"),
            Ordering::Equal => println!("{words}\nand more, which is counted and not told"),
            Ordering::Greater => {}
        }
    }
}

/// Findings in words, with the names of what they are about where these can be read.
struct Telling<'a> {
    told: &'a mut Told,
    records: Option<&'a dyn Records>,
}

impl inspect::Listener for Telling<'_> {
    fn finding(&mut self, finding: inspect::Finding) {
        let place = self.records.zip(finding.record);
        match place.map(|(records, place)| audit::describe(records, &place.partition)) {
            Some(place) => self.told.tell(&format!("{place}: {}", finding.words)),
            None => self.told.tell(&finding.words),
        }
    }

    fn progress(&mut self, seen: &Seen) {
        self.told.progress.at(seen.records + 100 * seen.extents, || {
            format!("{} records, {} in {} bodies", seen.records, sized(seen.extent_bytes), seen.extents)
        });
    }

    fn judge_place(&self, place: &inspect::Place) -> Option<String> {
        audit::family(&place.partition.group, place.family)
    }
}

impl audit::Listener for Telling<'_> {
    fn finding(&mut self, words: String) {
        self.told.tell(&words);
    }

    fn progress(&mut self, counted: &Counted) {
        self.told.progress.at(counted.steps(), || counted.to_string());
    }
}
