//! `lazuli-bench restart`: how long Lazuli takes to be back after kill -9, by how many blobs it holds. One directory grows from
//! size to size (`seed`); at each size a server takes full-durability puts until it is killed in the middle of them, and is
//! then started again a few times over. A start that reads what is stored would grow with it, and shows here.

use std::{path::Path, sync::Arc, time::Duration};

use crate::{
    Options,
    load::{self, Failure, Supply, Traffic, Until},
    report::{self, grouped},
    request::{self, Signer},
    seed,
    subject::{Kind, Places, Subject},
};

pub const BLOBS: [u64; 3] = [10_000, 1_000_000, 10_000_000];
const CONNECTIONS: u64 = 32;
/// Long enough that the journals hold what they may hold before they are written out.
const LOAD: Duration = Duration::from_secs(4);
/// The most a restart at any size may take over one at the smallest: what is stored must not count.
const GROWTH_MS_MAX: f64 = 1000.0;

/// One size, and what was seen at it: medians of the starts.
struct Row {
    blobs: u64,
    stored_bytes: u64,
    seeded: Duration,
    ready_ms: f64,
    first_answer_ms: f64,
    slowest_ms: f64,
}

pub async fn run(options: &Options, places: &Places, sizes: &[u64]) -> Result<(), Failure> {
    places.build_lazuli().await?;
    let directory = places.directory()?;
    let mut rows: Vec<Row> = Vec::new();
    for blobs in sizes {
        let began = std::time::Instant::now();
        let there = rows.last().map_or(0, |row| row.blobs);
        seed::blobs(directory.path(), there..*blobs).await?;
        let seeded = began.elapsed();
        if !options.quiet {
            eprintln!("{} blobs after {:.0} s of seeding", grouped(*blobs), seeded.as_secs_f64());
        }
        kill_under_load(places, directory.path(), *blobs).await?;
        let mut starts = Vec::new();
        for _ in 0..options.rounds {
            let subject = Subject::start(Kind::Lazuli, places, directory.path()).await?;
            check(subject.port, *blobs).await?;
            starts.push((subject.ready.as_secs_f64() * 1000.0, subject.first_answer.as_secs_f64() * 1000.0));
            subject.kill().await?;
        }
        rows.push(Row {
            blobs: *blobs,
            stored_bytes: stored_bytes(directory.path())?,
            seeded,
            ready_ms: median(starts.iter().map(|(ready, _)| *ready)),
            first_answer_ms: median(starts.iter().map(|(_, answer)| *answer)),
            slowest_ms: starts.iter().map(|(_, answer)| *answer).fold(0.0, f64::max),
        });
    }
    let table = table(&rows);
    println!("\n{}: {} starts at each size\n\n{table}", report::machine(), options.rounds);
    if options.record {
        let path = places.root.join(format!("docs/results/{}-restart.md", request::today()));
        let text = format!(
            "# Restart after kill -9, {}\n\n{}; `lazuli-bench restart`: killed under {CONNECTIONS} connections of puts with \
             full durability, medians of {} starts.\n\n```\n{table}```\n",
            request::today(),
            report::machine(),
            options.rounds,
        );
        std::fs::write(path, text)?;
    }
    let answers: Vec<f64> = rows.iter().map(|row| row.first_answer_ms).collect();
    if is_bounded(&answers) { Ok(()) } else { Err("restarts take longer the more is stored".into()) }
}

/// Whether no figure is much above the first.
fn is_bounded(milliseconds: &[f64]) -> bool {
    milliseconds.first().is_none_or(|first| milliseconds.iter().all(|one| *one <= first + GROWTH_MS_MAX))
}

/// Overwrites blobs until the server is killed in the middle of it.
async fn kill_under_load(places: &Places, directory: &Path, blobs: u64) -> Result<(), Failure> {
    let subject = Subject::start(Kind::Lazuli, places, directory).await?;
    let (port, signer) = (subject.port, Signer::new(subject.port));
    // Spread over all there are, by a step that shares no divisor with any of the sizes.
    let make = move |number: u64| {
        let name = seed::name_of(number.wrapping_mul(7919) % blobs);
        signer.put_blob(&format!("/{}/{name}", seed::CONTAINER), "", seed::SMALL_BYTES)
    };
    let (make, body) = (Arc::new(make), Arc::new(vec![b'y'; seed::SMALL_BYTES]));
    let traffic = (0..CONNECTIONS)
        .map(|n| Traffic::Distinct {
            supply: Supply::numbered(n, CONNECTIONS, 0, make.clone()),
            body: Arc::clone(&body),
        })
        .collect();
    let load = tokio::spawn(load::run(port, traffic, Until::Time(LOAD * 10), 201));
    tokio::time::sleep(LOAD).await;
    if load.is_finished() {
        load.await??;
        return Err("the load ended before the server was killed".into());
    }
    subject.kill().await?;
    let _ = load.await; // it lost its server, which was meant
    Ok(())
}

/// That the directory is what it should be: the first and the last blob are there.
async fn check(port: u16, blobs: u64) -> Result<(), Failure> {
    let signer = Signer::new(port);
    for number in [0, blobs - 1] {
        let path = format!("/{}/{}", seed::CONTAINER, seed::name_of(number));
        load::once(port, &signer.get_blob(&path), &[], 200).await?;
    }
    Ok(())
}

fn stored_bytes(directory: &Path) -> std::io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory)? {
        let (path, metadata) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)))?;
        bytes += if metadata.is_dir() { stored_bytes(&path)? } else { metadata.blocks() * 512 };
    }
    Ok(bytes)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn table(rows: &[Row]) -> String {
    let mut cells =
        vec![["blobs", "on disk MiB", "seeded in s", "ready ms", "first answer ms", "slowest ms"].map(str::to_string)];
    for row in rows {
        cells.push([
            grouped(row.blobs),
            grouped(row.stored_bytes >> 20),
            grouped(row.seeded.as_secs()),
            grouped(row.ready_ms.round() as u64),
            grouped(row.first_answer_ms.round() as u64),
            grouped(row.slowest_ms.round() as u64),
        ]);
    }
    report::aligned(&cells, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_may_wobble_and_not_grow() {
        for (milliseconds, bounded) in [
            (&[][..], true),
            (&[80.0], true),
            (&[80.0, 700.0, 600.0], true),
            (&[900.0, 100.0, 80.0], true),
            (&[80.0, 300.0, 1200.0], false),
            (&[80.0, 5000.0, 90.0], false),
        ] {
            assert_eq!(is_bounded(milliseconds), bounded, "{milliseconds:?}");
        }
    }

    #[test]
    fn the_middle_one() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([5.0].into_iter()), 5.0);
        assert!(median(std::iter::empty()).is_nan());
    }
}
