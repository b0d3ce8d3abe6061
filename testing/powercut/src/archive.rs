//! Keeps a recording and its history in a directory, because a workload of several connections never runs the same way
//! twice: a finding is looked at again from here, not from the seed alone.
//!
//! `disk`: the number of blocks of the disk, then blocks (each content once), the image at the start and the events as
//! references to them, all numbers little-endian. `history`: a line of tab-separated fields for each operation.

use crate::disk::{BLOCK_BYTES, Block, Content, Event, Image, Piece, Recording};
use crate::history::{Deed, History, NEVER, Operation, Outcome};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Error, Read, Result, Write};
use std::path::Path;
use std::sync::Arc;

pub fn save(directory: &Path, recording: &Recording, history: &History) -> Result<()> {
    fs::create_dir_all(directory)?;
    save_disk(&mut BufWriter::new(File::create(directory.join("disk"))?), recording)?;
    save_history(&mut BufWriter::new(File::create(directory.join("history"))?), history)
}

pub fn load(directory: &Path) -> Result<(Recording, History)> {
    let recording = load_disk(&mut BufReader::new(File::open(directory.join("disk"))?))?;
    Ok((recording, load_history(&fs::read_to_string(directory.join("history"))?)?))
}

fn put(to: &mut impl Write, number: usize) -> Result<()> {
    to.write_all(&(number as u64).to_le_bytes())
}

fn take(from: &mut impl Read) -> Result<usize> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes) as usize)
}

fn save_disk(to: &mut impl Write, recording: &Recording) -> Result<()> {
    let pieces = recording.events.iter().flat_map(|event| match event {
        Event::Write(pieces) => pieces.as_slice(),
        Event::Flush => &[],
    });
    let mut numbers: HashMap<*const Block, usize> = HashMap::new();
    let mut contents: Vec<&Arc<Block>> = Vec::new();
    for content in recording.start.blocks().iter().chain(pieces.map(|p| &p.content)).flatten() {
        numbers.entry(Arc::as_ptr(content)).or_insert_with(|| {
            contents.push(content);
            contents.len() // zero stands for a block of zeros
        });
    }
    let number = |content: &Content| content.as_ref().map_or(0, |content| numbers[&Arc::as_ptr(content)]);

    put(to, contents.len())?;
    for content in contents {
        to.write_all(&content[..])?;
    }
    put(to, recording.start.blocks().len())?;
    for content in recording.start.blocks() {
        put(to, number(content))?;
    }
    put(to, recording.events.len())?;
    for event in &recording.events {
        match event {
            Event::Flush => put(to, 0)?,
            Event::Write(pieces) => {
                put(to, pieces.len())?;
                for piece in pieces {
                    put(to, piece.block as usize)?;
                    put(to, piece.sectors as usize)?;
                    put(to, number(&piece.content))?;
                }
            }
        }
    }
    to.flush()
}

fn load_disk(from: &mut impl Read) -> Result<Recording> {
    let mut contents: Vec<Content> = vec![None];
    for _ in 0..take(from)? {
        let mut block = [0; BLOCK_BYTES];
        from.read_exact(&mut block)?;
        contents.push(Some(Arc::new(block)));
    }
    let content = |number: usize| contents.get(number).cloned().ok_or_else(|| Error::other("a reference to no block"));
    let mut blocks = Vec::new();
    for _ in 0..take(from)? {
        blocks.push(content(take(from)?)?);
    }
    let mut events = Vec::new();
    for _ in 0..take(from)? {
        let count = take(from)?;
        let mut pieces = Vec::new();
        for _ in 0..count {
            pieces.push(Piece {
                block: take(from)? as u32,
                sectors: take(from)? as u8,
                content: content(take(from)?)?,
            });
        }
        events.push(if count == 0 { Event::Flush } else { Event::Write(pieces) });
    }
    Ok(Recording { start: Image::from_blocks(blocks), events })
}

fn save_history(to: &mut impl Write, history: &History) -> Result<()> {
    for op in &history.operations {
        let deed = match &op.deed {
            Deed::CreateContainer => "create\t\t0".to_string(),
            Deed::DeleteContainer => "drop\t\t0".to_string(),
            Deed::Put { name, bytes } => format!("put\t{name}\t{bytes}"),
            Deed::Delete { name } => format!("delete\t{name}\t0"),
            Deed::Snapshot { name, of } => format!("snapshot\t{name}\t{of}"),
        };
        let outcome = match &op.outcome {
            Outcome::Done { etag } => format!("done\t{etag}"),
            Outcome::NoEffect => "refused\t".to_string(),
            Outcome::Unknown => "unknown\t".to_string(),
        };
        let never = |n: usize| if n == NEVER { "never".to_string() } else { n.to_string() };
        let (begun, answered, durable) = (op.begun_position, never(op.answered_tick), never(op.durable_position));
        let acknowledged = never(op.acknowledged_position);
        writeln!(
            to,
            "{}\t{deed}\t{}\t{begun}\t{answered}\t{acknowledged}\t{durable}\t{outcome}",
            op.container, op.begun_tick
        )?;
    }
    to.flush()
}

fn load_history(text: &str) -> Result<History> {
    let mut history = History::default();
    for line in text.lines() {
        let bad = || Error::other(format!("history line {line:?}"));
        let fields: Vec<&str> = line.split('\t').collect();
        let [container, deed, name, bytes, tick, position, answered, acknowledged, durable, outcome, etag] = fields[..]
        else {
            return Err(bad());
        };
        let number = |text: &str| if text == "never" { Ok(NEVER) } else { text.parse().map_err(|_| bad()) };
        let name = name.to_string();
        let deed = match deed {
            "create" => Deed::CreateContainer,
            "drop" => Deed::DeleteContainer,
            "put" => Deed::Put { name, bytes: number(bytes)? },
            "delete" => Deed::Delete { name },
            "snapshot" => Deed::Snapshot { name, of: number(bytes)? },
            _ => return Err(bad()),
        };
        let mut op = Operation::new(container, deed, number(tick)?, number(position)?);
        op.answered_tick = number(answered)?;
        op.acknowledged_position = number(acknowledged)?;
        op.durable_position = number(durable)?;
        op.outcome = match outcome {
            "done" => Outcome::Done { etag: etag.to_string() },
            "refused" => Outcome::NoEffect,
            "unknown" => Outcome::Unknown,
            _ => return Err(bad()),
        };
        history.operations.push(op);
    }
    Ok(history)
}
