//! The workloads in which one request is very large: a list of many blocks committed, and one very large Put Blob.
//!
//! Each round is on a blob of its own. What the peer left unsynced is synced after its round, outside of its time, so
//! that it does not fall on the next one's.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use tempfile::TempDir;

use crate::{
    Options, floor,
    load::{self, Failure, Supply, Traffic, Until},
    measure::{Column, Figures, say},
    request::Signer,
    subject::{Kind, Places, Subject},
    workload::{CONTAINER, KIB, MIB, Measure, Workload},
};

const STAGERS: u64 = 32;
/// The peer takes the longer for a block the more there are: minutes for more than these.
const AZURITE_BLOCKS_MAX: u64 = 5_000;
/// The body is this piece again and again.
const PIECE_BYTES: usize = 256 * KIB;

struct Running {
    subject: Subject,
    directory: TempDir,
}

pub async fn run(
    options: &Options,
    places: &Places,
    kinds: &[Kind],
    chosen: &[&'static Workload],
) -> Result<Vec<Figures>, Failure> {
    let large = |workload: &&&Workload| matches!(workload.measure, Measure::Commit | Measure::Large);
    let chosen: Vec<&'static Workload> = chosen.iter().filter(large).copied().collect();
    if chosen.is_empty() {
        return Ok(Vec::new());
    }
    let mut running = Vec::new();
    for kind in kinds {
        let directory = places.directory()?;
        let subject = Subject::start(*kind, places, directory.path()).await?;
        if *kind != Kind::Floor {
            let create = Signer::new(subject.port).create_container(CONTAINER);
            load::once(subject.port, &create, &[], 201).await?;
        }
        running.push(Running { subject, directory });
    }
    let mut all = Vec::new();
    for workload in chosen {
        all.push(match workload.measure {
            Measure::Commit => commits(options, workload, &running).await?,
            _ => puts(options, places, workload, &running).await?,
        });
    }
    for one in running {
        one.subject.kill().await?;
    }
    Ok(all)
}

async fn commits(options: &Options, workload: &'static Workload, running: &[Running]) -> Result<Figures, Failure> {
    let mut figures = Figures::counted(workload, options.blocks);
    let list = Arc::new(block_list(options.blocks));
    for number in 0..options.rounds {
        for one in running {
            let kind = one.subject.kind;
            if kind == Kind::Azurite && options.blocks > AZURITE_BLOCKS_MAX {
                continue;
            }
            let path = format!("{CONTAINER}/commit/{number}");
            if kind != Kind::Floor {
                stage(&one.subject, &path, options.blocks).await?;
            }
            let head = Signer::new(one.subject.port).put_block_list(&path, list.len());
            let traffic = vec![Traffic::Repeat { head, body: Arc::clone(&list) }];
            let tally = load::run(one.subject.port, traffic, Until::Count(1), 201).await?;
            settle(kind, one.directory.path())?;
            let milliseconds = tally.elapsed.as_secs_f64() * 1000.0;
            say(options, workload, number, kind.into(), milliseconds);
            figures.add(kind.into(), milliseconds, None);
        }
    }
    Ok(figures)
}

async fn stage(subject: &Subject, path: &str, blocks: u64) -> Result<(), Failure> {
    let (signer, path) = (Signer::new(subject.port), path.to_owned());
    // Some connections stage one block more than others; that one is staged again and not listed twice.
    let make: Arc<dyn Fn(u64) -> Vec<u8> + Send + Sync> =
        Arc::new(move |number| signer.put_block(&path, &block_id(number % blocks), KIB));
    let body = Arc::new(vec![b'x'; KIB]);
    let traffic = (0..STAGERS).map(|n| Traffic::Distinct {
        supply: Supply::numbered(n, STAGERS, 0, Arc::clone(&make)),
        body: Arc::clone(&body),
    });
    load::run(subject.port, traffic.collect(), Until::Count(blocks.div_ceil(STAGERS)), 201).await?;
    Ok(())
}

fn block_id(number: u64) -> String {
    BASE64.encode(format!("block-{number:06}"))
}

fn block_list(blocks: u64) -> Vec<u8> {
    let lines: String = (0..blocks).map(|number| format!("<Latest>{}</Latest>", block_id(number))).collect();
    format!("<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>{lines}</BlockList>").into_bytes()
}

async fn puts(
    options: &Options,
    places: &Places,
    workload: &'static Workload,
    running: &[Running],
) -> Result<Figures, Failure> {
    let bytes = options.large_bytes;
    let mut figures = Figures::counted(workload, bytes / MIB as u64);
    let piece = vec![b'x'; PIECE_BYTES];
    for number in 0..options.rounds {
        let mut took = Vec::new();
        for one in running {
            let kind = one.subject.kind;
            let head = match kind {
                Kind::Floor => {
                    let path = floor::SWALLOW_PATH;
                    format!("PUT {path} HTTP/1.1\r\nHost: floor\r\nContent-Length: {bytes}\r\n\r\n").into_bytes()
                }
                _ => {
                    let path = format!("{CONTAINER}/large/{number}");
                    Signer::new(one.subject.port).put_blob(&path, "", bytes as usize)
                }
            };
            let time = load::stream(one.subject.port, &head, &piece, bytes, 201)
                .await
                .map_err(|error| format!("{kind:?}: {error}"))?;
            settle(kind, one.directory.path())?;
            took.push((Column::from(kind), time));
        }
        let directory = places.directory()?;
        took.push((Column::Disk, write_alone(&directory.path().join("disk"), &piece, bytes)?));
        for (column, time) in took {
            let rate = bytes as f64 / 1e6 / time.as_secs_f64();
            say(options, workload, number, column, rate);
            figures.add(column, rate, None);
        }
    }
    Ok(figures)
}

/// The disk's own rate: as many bytes, one after the other, and one sync.
pub fn write_alone(file: &Path, piece: &[u8], bytes: u64) -> io::Result<Duration> {
    let start = Instant::now();
    let mut file = File::create(file)?;
    let mut left = bytes;
    while left > 0 {
        let next = left.min(piece.len() as u64);
        file.write_all(&piece[..next as usize])?;
        left -= next;
    }
    file.sync_data()?;
    Ok(start.elapsed())
}

fn settle(kind: Kind, directory: &Path) -> io::Result<()> {
    if kind != Kind::Azurite {
        return Ok(()); // what it was told to keep is synced already
    }
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            settle(kind, &path)?;
        } else if let Ok(file) = File::open(&path) {
            file.sync_all()?; // a file that has gone meanwhile needs none
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_ids_are_of_one_length() {
        let ids: Vec<String> = [0, 7, 49_999].map(block_id).to_vec();
        assert!(ids.iter().all(|id| id.len() == ids[0].len()));
        assert_eq!(block_list(2).iter().filter(|byte| **byte == b'/').count(), 3);
    }
}
