//! The workloads of the Table service: inserts, point reads, merges, transactions, a query inside a partition, a page of a scan.

use std::sync::Arc;

use crate::{
    Options,
    load::{self, Failure, Supply, Tally, Traffic, Until},
    measure::{Figures, say},
    request::Signer,
    subject::{Kind, Places, Serves, Subject},
    workload::{Measure, Workload},
};

/// What is asked of a table; a figure is how often it is answered in a second.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    Insert,
    Get,
    Merge,
    /// A hundred inserts in one.
    Transact,
    /// Ten of a partition's thousand entities, by a property.
    Query,
    /// Five hundred of them.
    Half,
    /// A page of the whole table.
    Scan,
}

/// Entities that are there to be read and merged: ten partitions of a thousand.
const PARTITIONS: u64 = 10;
const ROWS: u64 = 1000;
const JSON: &str = "application/json";

impl Deed {
    fn connections(self) -> u64 {
        match self {
            Deed::Insert | Deed::Get | Deed::Merge => 32,
            Deed::Transact => 8,
            Deed::Query | Deed::Half | Deed::Scan => 4,
        }
    }

    fn expect(self) -> u16 {
        match self {
            Deed::Insert | Deed::Merge => 204,
            Deed::Transact => 202,
            Deed::Get | Deed::Query | Deed::Half | Deed::Scan => 200,
        }
    }

    fn request(self, signer: &Signer, number: u64) -> Vec<u8> {
        let entity = || {
            let (partition, row) = (number % PARTITIONS, number / PARTITIONS % ROWS);
            format!("/bench(PartitionKey='p{partition}',RowKey='{row:05}')")
        };
        match self {
            Deed::Insert => {
                let body = body("new", &format!("{number:09}"), number);
                signer.table("POST", "/bench", "", "Prefer: return-no-content\r\n", JSON, &body)
            }
            Deed::Get => signer.table("GET", &entity(), "", "", "", ""),
            Deed::Merge => {
                let body = format!("{{\"Visits\":{}}}", number % 1_000_000);
                signer.table("MERGE", &entity(), "", "If-Match: *\r\n", JSON, &body)
            }
            Deed::Transact => transaction(signer, number),
            Deed::Query => filtered(signer, number, &format!("eq%20{}", number % 100)),
            Deed::Half => filtered(signer, number, "lt%2050"),
            Deed::Scan => signer.table("GET", "/bench()", "?$top=1000", "", "", ""),
        }
    }
}

/// Of one partition, those whose group is as told; ten of its thousand entities are in each of a hundred groups.
fn filtered(signer: &Signer, number: u64, group: &str) -> Vec<u8> {
    let partition = number % PARTITIONS;
    let query = format!("?$filter=PartitionKey%20eq%20'p{partition}'%20and%20Group%20{group}");
    signer.table("GET", "/bench()", &query, "", "", "")
}

/// An entity of half a KiB with six properties.
fn body(partition: &str, row: &str, number: u64) -> String {
    format!(
        "{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\",\"Email\":\"someone{number}@example.org\",\"Group\":{},\
         \"Visits\":0,\"Since@odata.type\":\"Edm.DateTime\",\"Since\":\"2020-01-02T03:04:05Z\",\
         \"Id@odata.type\":\"Edm.Guid\",\"Id\":\"01234567-89ab-cdef-0123-456789abcdef\",\"Notes\":\"{}\"}}",
        number / PARTITIONS % 100,
        "x".repeat(200)
    )
}

fn transaction(signer: &Signer, number: u64) -> Vec<u8> {
    // The peer knows a boundary by its looks.
    const ID: &str = "01234567-89ab-cdef-0123-456789abcdef";
    let mut parts = format!("--batch_{ID}\r\nContent-Type: multipart/mixed; boundary=changeset_{ID}\r\n\r\n");
    for row in 0..100 {
        let entity = body(&format!("batch{number}"), &format!("{row:03}"), row);
        parts += &format!("--changeset_{ID}\r\nContent-Type: application/http\r\n");
        parts += "Content-Transfer-Encoding: binary\r\n\r\n";
        parts += &format!("POST http://{}/{}/bench HTTP/1.1\r\n", signer.host, crate::request::ACCOUNT);
        parts += &format!("Content-Type: {JSON}\r\nContent-Length: {}\r\n", entity.len());
        parts += &format!("Accept: {JSON};odata=nometadata\r\nPrefer: return-no-content\r\n");
        parts += &format!("DataServiceVersion: 3.0;\r\n\r\n{entity}\r\n");
    }
    parts += &format!("--changeset_{ID}--\r\n--batch_{ID}--\r\n");
    signer.table("POST", "/$batch", "", "", &format!("multipart/mixed; boundary=batch_{ID}"), &parts)
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
            Measure::Table(deed) => Some((*workload, deed)),
            _ => None,
        })
        .collect();
    if deeds.is_empty() {
        return Ok(Vec::new());
    }
    let mut running = Vec::new();
    for kind in kinds.iter().filter(|kind| **kind != Kind::Floor) {
        let directory = places.directory()?;
        let subject = Subject::start_serving(Serves::Table, *kind, places, directory.path()).await?;
        prepare(&subject).await?;
        running.push(Running { subject, used: 0, rate: 0.0, _directory: directory });
    }
    let mut all = Vec::new();
    for (workload, deed) in deeds {
        let mut figures = Figures::new(workload, workload.title.into());
        running.iter_mut().for_each(|one| one.rate = 0.0);
        for number in 0..options.rounds {
            for one in &mut running {
                let tally = round(one, deed, Until::Time(options.time()), options.seconds).await?;
                one.rate = tally.per_second();
                say(options, workload, number, one.subject.kind.into(), one.rate);
                let latency = (tally.percentile_us(50), tally.percentile_us(99));
                figures.add(one.subject.kind.into(), one.rate, Some(latency));
            }
        }
        all.push(figures);
    }
    for one in running {
        one.subject.kill().await?;
    }
    Ok(all)
}

async fn create(subject: &Subject) -> Result<(), Failure> {
    let signer = Signer::new(subject.port);
    let create =
        signer.table("POST", "/Tables", "", "Prefer: return-no-content\r\n", JSON, "{\"TableName\":\"bench\"}");
    load::once(subject.port, &create, &[], 204).await.map(drop)
}

/// Puts the numbered entity in its place.
fn place(signer: &Signer, number: u64) -> Vec<u8> {
    let (partition, row) = (number % PARTITIONS, number / PARTITIONS);
    let body = body(&format!("p{partition}"), &format!("{row:05}"), number);
    signer.table("POST", "/bench", "", "Prefer: return-no-content\r\n", JSON, &body)
}

/// A table with the one entity that `point_get` asks for.
pub async fn prepare_one(subject: &Subject) -> Result<(), Failure> {
    create(subject).await?;
    load::once(subject.port, &place(&Signer::new(subject.port), 0), &[], 204).await.map(drop)
}

pub fn point_get(signer: &Signer) -> Vec<u8> {
    Deed::Get.request(signer, 0)
}

async fn prepare(subject: &Subject) -> Result<(), Failure> {
    create(subject).await?;
    let (port, signer) = (subject.port, Signer::new(subject.port));
    let make: Arc<dyn Fn(u64) -> Vec<u8> + Send + Sync> = Arc::new(move |number| place(&signer, number));
    let fillers = PARTITIONS;
    let traffic = (0..fillers).map(|n| distinct(Supply::numbered(n, fillers, 0, Arc::clone(&make)))).collect();
    load::run(port, traffic, Until::Count(ROWS), 204).await?;
    Ok(())
}

/// Every request brings its own body, as part of what is sent.
fn distinct(supply: Supply) -> Traffic {
    Traffic::Distinct { supply, body: Arc::new(Vec::new()) }
}

async fn round(one: &mut Running, deed: Deed, until: Until, seconds: f64) -> Result<Tally, Failure> {
    let signer = Signer::new(one.subject.port);
    let make: Arc<dyn Fn(u64) -> Vec<u8> + Send + Sync> = Arc::new(move |number| deed.request(&signer, number));
    let connections = deed.connections();
    let ahead = (one.rate * seconds * 1.3 / connections as f64) as usize;
    let supplies = (0..connections).map(|n| Supply::numbered(one.used + n, connections, ahead, Arc::clone(&make)));
    let traffic: Vec<Traffic> = supplies.map(distinct).collect();
    let tally = load::run(one.subject.port, traffic, until, deed.expect()).await?;
    // Connections finish at different numbers; none may meet another's in the next round.
    one.used += (tally.requests / connections + 2) * connections * 4;
    Ok(tally)
}
