//! The checksums of fjall's tables. fjall notes one of every table as a whole and verifies those of blocks alone, and of these only what it
//! reads: a scan reads no filter.
//!
//! The newest version of a keyspace lists its tables in an archive, in the section `tables`: u8 levels, for each u8 runs, for each u32
//! tables, for each u64 id, u8 kind of checksum (0), u128 xxh3 of the file, u64 sequence number; little endian.

use std::fs::{self, File};
use std::io::{self, Cursor, Read};
use std::path::Path;

use bytes::Buf;
use xxhash_rust::xxh3::Xxh3;

use crate::recover::{FJALL_DIRECTORY, OpenError, check_keyspace};

/// Tells what is damaged, and whether the records can be read for all that.
pub fn look(dir: &Path, tell: &mut dyn FnMut(String)) -> Result<bool, OpenError> {
    let keyspaces = dir.join(FJALL_DIRECTORY).join("keyspaces");
    let mut is_readable = true;
    let entries = match fs::read_dir(&keyspaces) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            tell(format!("{} is missing", keyspaces.display()));
            return Ok(false);
        }
        other => other.map_err(|source| OpenError::Io { doing: format!("reading {}", keyspaces.display()), source })?,
    };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>();
    if let Ok(paths) = &mut paths {
        paths.sort();
    }
    for keyspace in
        paths.map_err(|source| OpenError::Io { doing: format!("reading {}", keyspaces.display()), source })?
    {
        let version = match check_keyspace(&keyspace) {
            Ok(version) => version,
            Err(OpenError::Damaged { words }) => {
                tell(words);
                is_readable = false;
                continue;
            }
            Err(other) => return Err(other),
        };
        let Some(tables) = read_tables(&version) else {
            tell(format!("the tables of {} cannot be read", keyspace.display()));
            is_readable = false;
            continue;
        };
        for (id, expected) in tables {
            let path = keyspace.join("tables").join(id.to_string());
            match sum(&path) {
                Ok(found) if found == expected => {}
                Ok(_) => tell(format!("{} is damaged: its checksum does not match", path.display())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => tell(format!("{} is missing", path.display())),
                Err(source) => return Err(OpenError::Io { doing: format!("reading {}", path.display()), source }),
            }
        }
    }
    Ok(is_readable)
}

/// Ids and checksums of the tables of a version.
fn read_tables(version: &[u8]) -> Option<Vec<(u64, u128)>> {
    let archive = sfa::Reader::from_reader(&mut Cursor::new(version)).ok()?;
    let section = archive.toc().section(b"tables")?;
    let start = usize::try_from(section.pos()).ok()?;
    let mut rest = version.get(start..start.checked_add(usize::try_from(section.len()).ok()?)?)?;
    let mut tables = Vec::new();
    for _ in 0..rest.try_get_u8().ok()? {
        for _ in 0..rest.try_get_u8().ok()? {
            for _ in 0..rest.try_get_u32_le().ok()? {
                let id = rest.try_get_u64_le().ok()?;
                let kind = rest.try_get_u8().ok()?;
                let sum = rest.try_get_u128_le().ok()?;
                let _sequence = rest.try_get_u64_le().ok()?;
                if kind != 0 {
                    return None;
                }
                tables.push((id, sum));
            }
        }
    }
    Some(tables)
}

fn sum(path: &Path) -> io::Result<u128> {
    let mut file = File::open(path)?;
    let (mut hash, mut buffer) = (Xxh3::new(), vec![0; 1024 * 1024]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash.digest128()),
            read => hash.update(&buffer[..read]),
        }
    }
}
