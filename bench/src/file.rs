//! The workloads of the File service: small files made and deleted, ranges written here and there, a large file read, a large directory
//! listed. The peer has no File service, so there is only the floor to stand beside.

use std::sync::Arc;

use crate::{
    Options,
    large::write_alone,
    load::{self, Failure, Supply, Tally, Traffic, Until},
    measure::{Column, Figures, say},
    request::{Ask, Signer},
    subject::{Kind, Places, Serves, Subject},
    workload::{KIB, MIB, Measure, Workload},
};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    Create,
    Delete,
    /// 4 KiB at random places of a file of 1 GiB.
    Write4k,
    /// 4 MiB, one behind the other.
    Write4m,
    /// A file of 64 MiB.
    Read64m,
    /// A page of 5,000 of a large directory.
    List,
}

const FILE_BYTES: u64 = 1 << 30;
const LARGE_BYTES: u64 = 64 * MIB as u64;
/// Files that are there to be deleted in one round.
const DELETED: u64 = 3200;
/// How much is written to know the disk's own rate.
const DISK_BYTES: u64 = 256 * MIB as u64;
const FILLERS: u64 = 32;

impl Deed {
    fn connections(self) -> u64 {
        match self {
            Deed::Create | Deed::Delete => 32,
            Deed::Write4k => 16,
            Deed::Write4m | Deed::List => 4,
            Deed::Read64m => 2,
        }
    }

    fn expect(self) -> u16 {
        match self {
            Deed::Create | Deed::Write4k | Deed::Write4m => 201,
            Deed::Delete => 202,
            Deed::Read64m | Deed::List => 200,
        }
    }

    fn body_bytes(self) -> usize {
        match self {
            Deed::Write4k => 4 * KIB,
            Deed::Write4m => 4 * MIB,
            _ => 0,
        }
    }

    /// Of what moves much, how much each request moves: then bytes are counted, not requests.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Deed::Write4m => Some(4 * MIB as u64),
            Deed::Read64m => Some(LARGE_BYTES),
            _ => None,
        }
    }

    fn has_floor(self) -> bool {
        !matches!(self, Deed::Delete | Deed::List)
    }

    fn request(self, signer: &Signer, number: u64) -> Vec<u8> {
        match self {
            Deed::Create => create(signer, &format!("/bench/small/{number:09}"), 0),
            Deed::Delete => {
                let path = format!("/bench/small/{number:09}");
                signer.head(&Ask { method: "DELETE", path: &path, ..Ask::default() })
            }
            // A multiplier that is odd visits every place before it comes to one again.
            Deed::Write4k => {
                let places = FILE_BYTES / 4096;
                write(signer, "/bench/random", number.wrapping_mul(40_503) % places * 4096, 4 * KIB)
            }
            Deed::Write4m => {
                let places = FILE_BYTES / (4 * MIB as u64);
                write(signer, "/bench/large", number % places * 4 * MIB as u64, 4 * MIB)
            }
            Deed::Read64m => signer.get_blob("/bench/get-64m"),
            Deed::List => {
                let query = [("comp", "list"), ("restype", "directory")];
                signer.head(&Ask { path: "/bench/listed", query: &query, ..Ask::default() })
            }
        }
    }
}

fn create(signer: &Signer, path: &str, bytes: u64) -> Vec<u8> {
    let bytes = bytes.to_string();
    let headers = [("x-ms-content-length", bytes.as_str()), ("x-ms-type", "file")];
    signer.head(&Ask { method: "PUT", path, headers: &headers, ..Ask::default() })
}

fn write(signer: &Signer, path: &str, first: u64, body_bytes: usize) -> Vec<u8> {
    let range = format!("bytes={first}-{}", first + body_bytes as u64 - 1);
    let headers = [("x-ms-range", range.as_str()), ("x-ms-write", "update")];
    signer.head(&Ask {
        method: "PUT",
        path,
        query: &[("comp", "range")],
        headers: &headers,
        body_bytes,
        ..Ask::default()
    })
}

fn create_directory(signer: &Signer, path: &str) -> Vec<u8> {
    signer.head(&Ask { method: "PUT", path, query: &[("restype", "directory")], ..Ask::default() })
}

struct Running {
    subject: Subject,
    used: u64,
    rate: f64,
    _directory: tempfile::TempDir,
}

pub async fn loads(
    options: &Options,
    places: &Places,
    kinds: &[Kind],
    chosen: &[&'static Workload],
) -> Result<Vec<Figures>, Failure> {
    let deeds: Vec<(&'static Workload, Deed)> = chosen
        .iter()
        .filter_map(|workload| match workload.measure {
            Measure::File(deed) => Some((*workload, deed)),
            _ => None,
        })
        .collect();
    if deeds.is_empty() {
        return Ok(Vec::new());
    }
    let listed = deeds.iter().any(|(_, deed)| *deed == Deed::List).then_some(options.listed_files);
    let mut running = Vec::new();
    for kind in kinds.iter().filter(|kind| **kind != Kind::Azurite) {
        let directory = places.directory()?;
        let subject = Subject::start_serving(Serves::File, *kind, places, directory.path()).await?;
        if *kind == Kind::Lazuli {
            prepare(&subject, listed).await?;
        }
        running.push(Running { subject, used: 0, rate: 0.0, _directory: directory });
    }
    let mut all = Vec::new();
    for (workload, deed) in deeds {
        let mut figures = Figures::counted(workload, options.listed_files);
        running.iter_mut().for_each(|one| one.rate = 0.0);
        for number in 0..options.rounds {
            for one in running.iter_mut().filter(|one| one.subject.kind == Kind::Lazuli || deed.has_floor()) {
                let tally = round(one, deed, options).await?;
                one.rate = tally.per_second();
                let value = deed.bytes().map_or(one.rate, |bytes| one.rate * bytes as f64 / 1e6);
                say(options, workload, number, one.subject.kind.into(), value);
                let latency = (tally.percentile_us(50), tally.percentile_us(99));
                figures.add(one.subject.kind.into(), value, Some(latency));
            }
            if deed == Deed::Write4m {
                let directory = places.directory()?;
                let time = write_alone(&directory.path().join("disk"), &vec![b'x'; 4 * MIB], DISK_BYTES)?;
                figures.add(Column::Disk, DISK_BYTES as f64 / 1e6 / time.as_secs_f64(), None);
            }
        }
        all.push(figures);
    }
    for one in running {
        one.subject.kill().await?;
    }
    Ok(all)
}

async fn prepare(subject: &Subject, listed: Option<u64>) -> Result<(), Failure> {
    let (port, signer) = (subject.port, Signer::new(subject.port));
    let share = signer.head(&Ask { method: "PUT", path: "/bench", query: &[("restype", "share")], ..Ask::default() });
    load::once(port, &share, &[], 201).await?;
    for directory in ["/bench/small", "/bench/listed"] {
        load::once(port, &create_directory(&signer, directory), &[], 201).await?;
    }
    for (path, bytes) in [("/bench/random", FILE_BYTES), ("/bench/large", FILE_BYTES), ("/bench/get-64m", LARGE_BYTES)]
    {
        load::once(port, &create(&signer, path, bytes), &[], 201).await?;
    }
    let piece = vec![b'x'; 4 * MIB];
    for number in 0..LARGE_BYTES / piece.len() as u64 {
        let head = write(&signer, "/bench/get-64m", number * piece.len() as u64, piece.len());
        load::once(port, &head, &piece, 201).await?;
    }
    if let Some(listed) = listed {
        let make = move |number: u64| create(&signer, &format!("/bench/listed/{:09}", number % listed), 0);
        send(port, Arc::new(make), 0, listed.div_ceil(FILLERS), 201).await?;
    }
    Ok(())
}

type Make = Arc<dyn Fn(u64) -> Vec<u8> + Send + Sync>;

/// Numbered requests without bodies, `each` on every connection.
async fn send(port: u16, make: Make, first: u64, each: u64, expect: u16) -> Result<Tally, Failure> {
    let traffic = (0..FILLERS).map(|n| Traffic::Distinct {
        supply: Supply::numbered(first + n, FILLERS, each as usize, Arc::clone(&make)),
        body: Arc::new(Vec::new()),
    });
    load::run(port, traffic.collect(), Until::Count(each), expect).await
}

async fn round(one: &mut Running, deed: Deed, options: &Options) -> Result<Tally, Failure> {
    let signer = Signer::new(one.subject.port);
    let make: Make = Arc::new(move |number| deed.request(&signer, number));
    if deed == Deed::Delete {
        // Made first, outside of the time that is taken.
        let (signer, first, each) = (Signer::new(one.subject.port), one.used, DELETED / FILLERS);
        let made: Make = Arc::new(move |number| Deed::Create.request(&signer, number));
        send(one.subject.port, made, first, each, 201).await?;
        let tally = send(one.subject.port, make, first, each, 202).await?;
        one.used += DELETED;
        return Ok(tally);
    }
    let connections = deed.connections();
    let ahead = (one.rate * options.seconds * 1.3 / connections as f64) as usize;
    let body = Arc::new(vec![b'x'; deed.body_bytes()]);
    let traffic = (0..connections).map(|n| Traffic::Distinct {
        supply: Supply::numbered(one.used + n, connections, ahead, Arc::clone(&make)),
        body: Arc::clone(&body),
    });
    let tally = load::run(one.subject.port, traffic.collect(), Until::Time(options.time()), deed.expect()).await?;
    // Connections do not keep step; the fastest one cannot have used more numbers than all answers together.
    one.used += (tally.requests + connections) * connections;
    Ok(tally)
}
