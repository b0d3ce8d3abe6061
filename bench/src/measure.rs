//! One run: starts the servers, fills them, and takes every workload in interleaved rounds (A, B, C, A, B, C, …), so
//! that whatever else the machine does falls on all alike. A figure is the median of its rounds.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use tempfile::TempDir;

use crate::{
    Options, file, floor, large,
    load::{self, Failure, Supply, Tally, Traffic, Until},
    queue,
    report::grouped,
    request::Signer,
    smb,
    subject::{Kind, Places, Subject},
    table,
    workload::{self, CONTAINER, KIB, LEASED, LISTED, Load, MIB, Measure, WORKLOADS, What, Workload},
};

/// Connections used to fill a server.
const FILLERS: usize = 32;
/// How long a freshly started server is left alone before its memory counts as idle memory.
const SETTLE: Duration = Duration::from_millis(500);
/// Shortest time in which a rate can be guessed, to make requests in advance.
const WARM_UP: Duration = Duration::from_millis(200);

/// Which column a figure belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Column {
    Lazuli,
    Azurite,
    /// The floor that goals are judged against: bare hyper, for writes with a group-committed append behind it.
    Floor,
    /// The group-committed append alone, without HTTP.
    AppendAlone,
    /// Lazuli, on a queue of ten messages.
    AtTen,
    /// As many bytes written to a file and synced once, without a server.
    Disk,
    /// Samba's server, asked the same by the same client.
    Smbd,
}

impl From<Kind> for Column {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Lazuli => Column::Lazuli,
            Kind::Azurite => Column::Azurite,
            Kind::Floor => Column::Floor,
        }
    }
}

/// One round of one workload on one server.
#[derive(Clone, Copy)]
pub struct Sample {
    pub value: f64,
    /// Median and 99th percentile latency in microseconds; only where requests were counted.
    pub latency_us: Option<(u32, u32)>,
}

pub struct Figures {
    pub workload: &'static Workload,
    pub title: String,
    pub samples: BTreeMap<Column, Vec<Sample>>,
}

impl Figures {
    pub fn new(workload: &'static Workload, title: String) -> Self {
        Figures { workload, title, samples: BTreeMap::new() }
    }

    /// The title with a number where it says `many`.
    pub fn counted(workload: &'static Workload, many: u64) -> Self {
        Self::new(workload, workload.title.replace("many", &grouped(many)))
    }

    pub fn add(&mut self, column: Column, value: f64, latency_us: Option<(u32, u32)>) {
        self.samples.entry(column).or_default().push(Sample { value, latency_us });
    }

    pub fn median(&self, column: Column) -> Option<f64> {
        let mut values: Vec<f64> = self.samples.get(&column)?.iter().map(|sample| sample.value).collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        Some(if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 })
    }
}

/// A server with the directory it works in; the process goes before the directory does.
struct Running {
    subject: Subject,
    _directory: TempDir,
    /// Requests per second last seen, to know how many to make in advance.
    rate: f64,
    /// Numbers used so far: every name is new.
    used: u64,
}

pub async fn run(options: &Options, places: &Places) -> Result<Vec<Figures>, Failure> {
    let mut kinds = Vec::new();
    if !options.no_lazuli {
        places.build_lazuli().await?;
        kinds.push(Kind::Lazuli);
    }
    if !options.no_azurite {
        places.install_azurite().await?;
        kinds.push(Kind::Azurite);
    }
    kinds.push(Kind::Floor);

    let wanted =
        |workload: &&Workload| options.only.is_empty() || options.only.iter().any(|name| workload.is_named(name));
    let chosen: Vec<&'static Workload> = WORKLOADS.iter().filter(wanted).collect();
    let mut all = loads(options, places, &kinds, &chosen).await?;
    all.extend(large::run(options, places, &kinds, &chosen).await?);
    all.extend(queue::loads(options, places, &kinds, &chosen).await?);
    all.extend(table::loads(options, places, &kinds, &chosen).await?);
    all.extend(file::loads(options, places, &kinds, &chosen).await?);
    all.extend(smb::loads(options, places, &kinds, &chosen).await?);
    all.extend(starts(options, places, &kinds, &chosen).await?);
    if let Some(workload) = chosen.iter().find(|workload| matches!(workload.measure, Measure::Restart)) {
        all.push(restarts(options, places, &kinds, workload).await?);
    }
    Ok(all)
}

async fn loads(
    options: &Options,
    places: &Places,
    kinds: &[Kind],
    chosen: &[&'static Workload],
) -> Result<Vec<Figures>, Failure> {
    let loads: Vec<(&'static Workload, Load)> = chosen
        .iter()
        .filter_map(|workload| match workload.measure {
            Measure::Load(load) => Some((*workload, load)),
            _ => None,
        })
        .collect();
    if loads.is_empty() {
        return Ok(Vec::new());
    }
    let listed = loads.iter().any(|(workload, _)| workload.name == "list").then_some(options.listed_blobs);
    let mut running = Vec::new();
    for kind in kinds {
        let directory = places.directory()?;
        let subject = Subject::start(*kind, places, directory.path()).await?;
        prepare(&subject, listed).await?;
        running.push(Running { subject, _directory: directory, rate: 0.0, used: 0 });
    }
    if listed.is_some() {
        share_listing(&running).await?;
    }

    let mut all = Vec::new();
    for (workload, load) in loads {
        let mut figures = Figures::counted(workload, options.listed_blobs);
        for one in &mut running {
            let warm = round(one, load, WARM_UP).await?;
            one.rate = warm.per_second();
        }
        for number in 0..options.rounds {
            for one in &mut running {
                let tally = round(one, load, options.time()).await?;
                one.rate = tally.per_second();
                let latency = (tally.percentile_us(50), tally.percentile_us(99));
                say(options, workload, number, one.subject.kind.into(), one.rate);
                figures.add(one.subject.kind.into(), one.rate, Some(latency));
            }
            if load.appends {
                let directory = places.directory()?;
                let tally =
                    floor::append_alone(directory.path(), load.connections, load.body_bytes, options.time()).await?;
                say(options, workload, number, Column::AppendAlone, tally.per_second());
                figures.add(Column::AppendAlone, tally.per_second(), None);
            }
        }
        all.push(figures);
    }
    for one in running {
        one.subject.kill().await?;
    }
    Ok(all)
}

/// What the workloads expect to find: a container with two blobs to read and some that are leased, and one with many to list.
async fn prepare(subject: &Subject, listed: Option<u64>) -> Result<(), Failure> {
    if subject.kind == Kind::Floor {
        return Ok(()); // it holds what it is asked for
    }
    let (port, signer) = (subject.port, Signer::new(subject.port));
    load::once(port, &signer.create_container(CONTAINER), &[], 201).await?;
    for (path, bytes) in [("/bench/get-1k", KIB), ("/bench/get-1m", MIB)] {
        load::once(port, &signer.put_blob(path, "", bytes), &vec![b'x'; bytes], 201).await?;
    }
    for number in 0..LEASED {
        let (path, acquire) = workload::leased(&signer, number);
        load::once(port, &signer.put_blob(&path, "", KIB), &[b'x'; KIB], 201).await?;
        load::once(port, &acquire, &[], 201).await?;
    }
    if let Some(blobs) = listed {
        fill(port, LISTED, blobs).await?;
    }
    Ok(())
}

async fn fill(port: u16, container: &'static str, blobs: u64) -> Result<(), Failure> {
    let signer = Signer::new(port);
    load::once(port, &signer.create_container(container), &[], 201).await?;
    let make = workload::fill(signer, container);
    let body = Arc::new(vec![b'x'; KIB]);
    let each = blobs.div_ceil(FILLERS as u64);
    let traffic = (0..FILLERS as u64)
        .map(|n| Traffic::Distinct {
            supply: Supply::numbered(n, FILLERS as u64, 0, Arc::clone(&make)),
            body: Arc::clone(&body),
        })
        .collect();
    load::run(port, traffic, Until::Count(each), 201).await?;
    Ok(())
}

/// The floor answers a listing with the bytes of Lazuli's own (or Azurite's, if there is no Lazuli).
async fn share_listing(running: &[Running]) -> Result<(), Failure> {
    let Some(first) = running.iter().find(|one| one.subject.kind != Kind::Floor) else {
        return Ok(());
    };
    let port = first.subject.port;
    let listing = load::once(port, &Signer::new(port).list_blobs(LISTED, "1000"), &[], 200).await?;
    for one in running.iter().filter(|one| one.subject.kind == Kind::Floor) {
        let head =
            format!("PUT {} HTTP/1.1\r\nHost: floor\r\nContent-Length: {}\r\n\r\n", floor::LISTING_PATH, listing.len());
        load::once(one.subject.port, head.as_bytes(), &listing, 201).await?;
    }
    Ok(())
}

async fn round(one: &mut Running, load: Load, time: Duration) -> Result<Tally, Failure> {
    let signer = Signer::new(one.subject.port);
    let body = Arc::new(vec![b'x'; load.body_bytes]);
    let connections = load.connections as u64;
    let traffic: Vec<Traffic> = match load.traffic {
        What::Repeat(make) => {
            let head = make(&signer);
            (0..connections).map(|_| Traffic::Repeat { head: head.clone(), body: Arc::clone(&body) }).collect()
        }
        What::Distinct(make) => {
            let make: Arc<dyn Fn(u64) -> Vec<u8> + Send + Sync> = Arc::new(move |number| make(&signer, number));
            let ahead = (one.rate * time.as_secs_f64() * 1.3 / load.connections as f64) as usize;
            let first = one.used;
            (0..connections)
                .map(|n| Traffic::Distinct {
                    supply: Supply::numbered(first + n, connections, ahead, Arc::clone(&make)),
                    body: Arc::clone(&body),
                })
                .collect()
        }
    };
    let tally = load::run(one.subject.port, traffic, Until::Time(time), load.expect)
        .await
        .map_err(|error| format!("{:?}: {error}", one.subject.kind))?;
    // Connections do not keep step; the fastest one cannot have used more numbers than all answers together.
    one.used += (tally.requests + connections) * connections;
    Ok(tally)
}

async fn starts(
    options: &Options,
    places: &Places,
    kinds: &[Kind],
    chosen: &[&'static Workload],
) -> Result<Vec<Figures>, Failure> {
    let mut all: Vec<Figures> = chosen
        .iter()
        .filter(|workload| matches!(workload.measure, Measure::Start | Measure::Memory))
        .map(|workload| Figures::new(workload, workload.title.into()))
        .collect();
    if all.is_empty() {
        return Ok(all);
    }
    for number in 0..options.rounds {
        for kind in kinds {
            let directory = places.directory()?;
            let subject = Subject::start(*kind, places, directory.path()).await?;
            tokio::time::sleep(SETTLE).await; // idle is a stretch of time, not an event to wait for
            let memory = subject.memory()? as f64 / MIB as f64;
            let start = subject.first_answer.as_secs_f64() * 1000.0;
            for figures in &mut all {
                let value = if matches!(figures.workload.measure, Measure::Start) { start } else { memory };
                say(options, figures.workload, number, (*kind).into(), value);
                figures.add((*kind).into(), value, None);
            }
            subject.kill().await?;
        }
    }
    Ok(all)
}

/// Fills a server, kills it, and starts it again on what it left; a few times over.
async fn restarts(
    options: &Options,
    places: &Places,
    kinds: &[Kind],
    workload: &'static Workload,
) -> Result<Figures, Failure> {
    let mut figures = Figures::counted(workload, options.restart_blobs);
    for kind in kinds {
        if *kind == Kind::Floor || (*kind == Kind::Azurite && !options.azurite_restart) {
            continue;
        }
        let directory = places.directory()?;
        let subject = Subject::start(*kind, places, directory.path()).await?;
        fill(subject.port, CONTAINER, options.restart_blobs).await?;
        subject.kill().await?;
        for number in 0..options.rounds {
            let milliseconds = restart(*kind, places, directory.path()).await?;
            say(options, workload, number, (*kind).into(), milliseconds);
            figures.add((*kind).into(), milliseconds, None);
        }
    }
    Ok(figures)
}

async fn restart(kind: Kind, places: &Places, directory: &Path) -> Result<f64, Failure> {
    let subject = Subject::start(kind, places, directory).await?;
    let milliseconds = subject.first_answer.as_secs_f64() * 1000.0;
    subject.kill().await?;
    Ok(milliseconds)
}

pub fn say(options: &Options, workload: &Workload, round: usize, column: Column, value: f64) {
    if !options.quiet {
        eprintln!("{:<10} round {} {column:<12?} {value:>12.1}", workload.name, round + 1);
    }
}
