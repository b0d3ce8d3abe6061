//! The table a person reads and the JSON a program reads, from the same figures.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::{
    Options,
    measure::{Column, Figures},
    request,
    workload::{Goal, Measure},
};

impl Figures {
    fn more_is_better(&self) -> bool {
        matches!(
            self.workload.measure,
            Measure::Load(_)
                | Measure::Queue(_)
                | Measure::Table(_)
                | Measure::File(_)
                | Measure::Smb(..)
                | Measure::Large
        )
    }

    fn unit(&self) -> &'static str {
        match self.workload.measure {
            Measure::File(deed) if deed.bytes().is_some() => "MB/s",
            Measure::Smb(deed, _) if deed.moves_much() => "MB/s",
            Measure::Load(_) | Measure::Queue(_) | Measure::Table(_) | Measure::File(_) | Measure::Smb(..) => "/s",
            Measure::Memory => "MiB",
            Measure::Start | Measure::Restart | Measure::Commit => "ms",
            Measure::Large => "MB/s",
        }
    }

    /// How many times better than the peer: more requests, or less time or memory.
    pub fn times(&self, peer: Column) -> Option<f64> {
        let (ours, theirs) = (self.median(Column::Lazuli)?, self.median(peer)?);
        Some(if self.more_is_better() { ours / theirs } else { theirs / ours })
    }

    /// Our share of what a floor reaches; only where more is better.
    pub fn share(&self, floor: Column) -> Option<f64> {
        if self.more_is_better() { self.times(floor) } else { None }
    }

    /// Whether a goal is met; `None` if this run cannot say.
    fn met(&self, goal: &Goal) -> Option<bool> {
        Some(match goal {
            Goal::TimesAzurite(times) => self.times(Column::Azurite)? >= *times,
            Goal::OfFloor(share) => self.share(Column::Floor)? >= *share,
            Goal::Below(limit) => self.median(Column::Lazuli)? < *limit,
            Goal::AtLeast(limit) => self.median(Column::Lazuli)? >= *limit,
            Goal::OfTen(share) => self.share(Column::AtTen)? >= *share,
            Goal::OfSmbd(share) => self.share(Column::Smbd)? >= *share,
        })
    }
}

/// How many goals this run shows as missed.
pub fn missed(all: &[Figures]) -> usize {
    all.iter()
        .flat_map(|figures| figures.workload.goals.iter().map(|goal| figures.met(goal)))
        .filter(|met| *met == Some(false))
        .count()
}

pub fn table(all: &[Figures]) -> String {
    let header = ["workload", "unit", "Lazuli", "Azurite", "floor", "x Azurite", "of floor", "goal", "met"];
    let mut rows = vec![header.map(String::from)];
    for figures in all {
        let number = |column| figures.median(column).map_or("-".into(), shown);
        let goals: Vec<String> = figures.workload.goals.iter().map(|goal| words(goal, figures.unit())).collect();
        let met: Vec<&str> = figures
            .workload
            .goals
            .iter()
            .map(|goal| match figures.met(goal) {
                Some(true) => "yes",
                Some(false) => "NO",
                None => "?",
            })
            .collect();
        rows.push([
            figures.title.clone(),
            figures.unit().into(),
            number(Column::Lazuli),
            number(Column::Azurite),
            number(Column::Floor),
            figures.times(Column::Azurite).map_or("-".into(), |times| format!("{times:.1}x")),
            figures.share(Column::Floor).map_or("-".into(), percent),
            goals.join(", "),
            met.join(", "),
        ]);
    }
    let mut text = aligned(&rows, &[0, 1, 7, 8]);

    let appends: Vec<_> = all.iter().filter(|figures| figures.median(Column::AppendAlone).is_some()).collect();
    if !appends.is_empty() {
        text += "\nThe floor of a write is bare hyper with a group-committed append and fdatasync behind it; goals are judged\n\
                 against that one. The same append called without HTTP, which no server can reach:\n";
        let mut rows = vec![["workload", "append alone /s", "Lazuli", "floor above"].map(String::from)];
        for figures in appends {
            rows.push([
                figures.title.clone(),
                figures.median(Column::AppendAlone).map_or("-".into(), shown),
                figures.share(Column::AppendAlone).map_or("-".into(), percent),
                match (figures.median(Column::Floor), figures.median(Column::AppendAlone)) {
                    (Some(floor), Some(alone)) => percent(floor / alone),
                    _ => "-".into(),
                },
            ]);
        }
        text += &aligned(&rows, &[0]);
    }
    let beside_smbd: Vec<_> = all.iter().filter(|figures| figures.median(Column::Smbd).is_some()).collect();
    if !beside_smbd.is_empty() {
        text += "\nThe same asked of Samba's smbd by the same client:\n";
        let mut rows = vec![["workload", "unit", "Lazuli", "smbd", "x smbd"].map(String::from)];
        for figures in beside_smbd {
            rows.push([
                figures.title.clone(),
                figures.unit().into(),
                figures.median(Column::Lazuli).map_or("-".into(), shown),
                figures.median(Column::Smbd).map_or("-".into(), shown),
                figures.times(Column::Smbd).map_or("-".into(), |times| format!("{times:.2}x")),
            ]);
        }
        text += &aligned(&rows, &[0, 1]);
    }
    for figures in all {
        if let (Some(at_ten), Some(share)) = (figures.median(Column::AtTen), figures.share(Column::AtTen)) {
            text += &format!("\n{}: {} of the {}/s at 10 messages\n", figures.title, percent(share), shown(at_ten));
        }
        if let (Some(disk), Some(share)) = (figures.median(Column::Disk), figures.share(Column::Disk)) {
            text += &format!(
                "\n{}: {} of the disk's own {} MB/s (as many bytes written and synced once); its floor above is the loopback's own\n",
                figures.title,
                percent(share),
                shown(disk)
            );
        }
    }
    text
}

pub fn json(all: &[Figures], options: &Options) -> Value {
    let rows: Vec<Value> = all
        .iter()
        .map(|figures| {
            let columns: serde_json::Map<String, Value> = figures
                .samples
                .iter()
                .map(|(column, samples)| {
                    let values: Vec<f64> = samples.iter().map(|sample| sample.value).collect();
                    let latencies: Vec<_> = samples.iter().filter_map(|sample| sample.latency_us).collect();
                    let name = format!("{column:?}").to_lowercase();
                    (
                        name,
                        json!({ "median": figures.median(*column), "rounds": values, "latency_us_p50_p99": latencies }),
                    )
                })
                .collect();
            let goals: Vec<Value> = figures
                .workload
                .goals
                .iter()
                .map(|goal| json!({ "goal": words(goal, figures.unit()), "met": figures.met(goal) }))
                .collect();
            json!({
                "name": figures.workload.name, "title": figures.title, "unit": figures.unit(), "figures": columns,
                "times_azurite": figures.times(Column::Azurite), "of_floor": figures.share(Column::Floor),
                "of_append_alone": figures.share(Column::AppendAlone), "of_ten_messages": figures.share(Column::AtTen),
                "of_disk": figures.share(Column::Disk), "of_smbd": figures.share(Column::Smbd), "goals": goals,
            })
        })
        .collect();
    json!({
        "date": request::today(), "seconds": options.seconds, "rounds": options.rounds, "machine": machine(), "workloads": rows,
    })
}

/// What the figures were taken on, without naming it.
pub fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, |cores| cores.get());
    let cpu = std::fs::read_to_string("/proc/cpuinfo").ok();
    let model = cpu
        .as_deref()
        .and_then(|text| text.lines().find(|line| line.starts_with("model name")))
        .and_then(|line| line.split(':').nth(1))
        .unwrap_or("unknown processor");
    format!("{cores} cores, {}", model.trim())
}

fn words(goal: &Goal, unit: &str) -> String {
    match goal {
        Goal::TimesAzurite(times) => format!("{times}x Azurite"),
        Goal::OfFloor(share) => format!("{} of floor", percent(*share)),
        Goal::Below(limit) => format!("below {limit} {unit}"),
        Goal::AtLeast(limit) => format!("{limit}{unit}"),
        Goal::OfTen(share) => format!("{} of that at 10", percent(*share)),
        Goal::OfSmbd(share) => format!("{} of smbd", percent(*share)),
    }
}

pub fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

fn shown(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.1}");
    }
    grouped(value.round() as u64)
}

/// Digits in groups of three.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Columns to the right, except those named.
pub fn aligned<const N: usize>(rows: &[[String; N]], left: &[usize]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = width(column);
            if left.contains(&column) {
                let _ = write!(line, "{cell:<width$}  ");
            } else {
                let _ = write!(line, "{cell:>width$}  ");
            }
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}
