//! Opening a directory: the lock, the format, the journal that must not have lost anything, the segments that must be
//! there. Whatever is wrong is said in words and nothing is opened.
//!
//! Order on creation: `CREATING`, everything else, `FORMAT`, then `CREATING` goes. A directory with `CREATING` and without
//! `FORMAT` was never used and is made anew.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use fjall::config::{BlockSizePolicy, BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry, HashRatioPolicy};
use fjall::{CompressionType, Database, KeyspaceCreateOptions, Readable};
use rustix::fs::FlockOperation;

use crate::key;
use crate::note::{Note, Noted};
use crate::segments::Segments;
use crate::store::Store;
use crate::{Durability, Options, disk, extents, lineage};

mod batches;
mod journals;

use journals::Journals;
pub use journals::end_of_content;

pub const FORMAT: &str = "lazuli embedded 1\n";
pub const FORMAT_FILE: &str = "FORMAT";
pub const LOCK_FILE: &str = "LOCK";
const CREATING_FILE: &str = "CREATING";
pub const RESTORING_FILE: &str = "RESTORING";
const DAMAGED_FILE: &str = "DAMAGED";
pub const NOTE_FILE: &str = "durable";
pub const FJALL_DIRECTORY: &str = "fjall";
pub const SEGMENTS_DIRECTORY: &str = "segments";

const KEYSPACES: [&str; 4] = ["records", "refs", "fences", "meta"];

const MIB: u64 = 1024 * 1024;

/// Why a directory was not opened.
#[derive(Debug)]
pub enum OpenError {
    /// Another process has it.
    Locked { dir: PathBuf },
    /// It is not ours, or of another version.
    Format { words: String },
    /// Acknowledged data is missing or damaged.
    Damaged { words: String },
    /// There is no room to work in.
    Full { dir: PathBuf, free_bytes: u64, needed_bytes: u64 },
    /// The operating system refused.
    Io { doing: String, source: io::Error },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Locked { dir } => {
                write!(f, "{} is in use by another process; one process at a time may open it", dir.display())
            }
            OpenError::Format { words } => write!(f, "{words}"),
            OpenError::Damaged { words } => write!(f, "{words}"),
            OpenError::Full { dir, free_bytes, needed_bytes } => write!(
                f,
                "the disk of {} has {} MiB free; at least {} MiB are needed to start safely: make room and start again",
                dir.display(),
                free_bytes / MIB,
                needed_bytes.div_ceil(MIB),
            ),
            OpenError::Io { doing, source } => write!(f, "{doing}: {source}"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Whether it is one of ours, as far as its name for it tells.
pub fn is_data_directory(dir: &Path) -> bool {
    dir.join(FORMAT_FILE).exists()
}

/// A directory that was found in order.
pub struct Opened {
    pub store: Store,
    pub note: Note,
    pub number: u64,
    /// Whether a power cut may have taken bodies that records name: then their reads fail, and the start does not.
    pub may_lack_bodies: bool,
    /// Held as long as the directory is in use.
    pub lock: File,
}

pub fn open(options: &Options) -> Result<Opened, OpenError> {
    let dir = options.dir.as_path();
    let io = |doing: &str| {
        let doing = format!("{doing} {}", dir.display());
        move |source| OpenError::Io { doing, source }
    };
    disk::make_private(dir).map_err(io("making the directory"))?;
    let lock = lock(dir)?;
    let format = dir.join(FORMAT_FILE);
    let found = match std::fs::read(&format) {
        Ok(found) => Some(found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(source) => return Err(reading(&format)(source)),
    };
    let note_path = dir.join(NOTE_FILE);
    let Some(found) = found else {
        prepare(dir)?;
        let store = open_store(options, Opening::Creating)?;
        draw_identity(dir, &store)?;
        let relaxed = options.durability == Durability::Relaxed;
        let note = Note::create(&note_path, relaxed).map_err(io("writing the durable note in"))?;
        write_durably(&format, FORMAT.as_bytes()).map_err(io("writing FORMAT in"))?;
        std::fs::remove_file(dir.join(CREATING_FILE)).map_err(io("removing CREATING in"))?;
        sync_directory(dir).map_err(io("syncing"))?;
        return Ok(Opened { store, note, number: 0, may_lack_bodies: false, lock });
    };
    check_format(&format, &found)?;
    check_damaged(dir)?;
    let mut note = match Note::open(&note_path) {
        Ok(Some(note)) => note,
        Ok(None) => return Err(damaged(format!("{} cannot be read; {RESTORE}", note_path.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(damaged(format!("{} is missing; {RESTORE}", note_path.display())));
        }
        Err(source) => return Err(OpenError::Io { doing: format!("reading {}", note_path.display()), source }),
    };
    check_keyspaces(&dir.join(FJALL_DIRECTORY))?;
    let (store, number) = open_existing(options, note.last, Opening::Existing)?;
    draw_identity(dir, &store)?;
    let may_lack_bodies = note.last.relaxed;
    let relaxed = may_lack_bodies || options.durability == Durability::Relaxed;
    note.write(Noted { number, closed: false, relaxed }).map_err(io("writing the durable note in"))?;
    Ok(Opened { store, note, number, may_lack_bodies, lock })
}

/// Opens the records of a directory and makes sure that nothing acknowledged is missing.
pub fn open_existing(options: &Options, noted: Noted, opening: Opening) -> Result<(Store, u64), OpenError> {
    let dir = options.dir.as_path();
    let doing = format!("reading the journals in {}", dir.display());
    let journals = Journals::read(&dir.join(FJALL_DIRECTORY)).map_err(|source| OpenError::Io { doing, source })?;
    // The records are closed by then: what opening them cut off is put back, so that a refusal leaves everything as it was.
    open_uncut(options, &journals, noted, opening).map_err(|refusal| journals.put_back(dir, refusal))
}

fn open_uncut(
    options: &Options,
    journals: &Journals,
    noted: Noted,
    opening: Opening,
) -> Result<(Store, u64), OpenError> {
    let dir = options.dir.as_path();
    journals.check_order()?;
    let store = open_store(options, opening)?;
    journals.check_uncut(noted)?;
    let number = store
        .number_in(&store.db.snapshot())
        .map_err(|fault| damaged(format!("{}: {fault}; {RESTORE}", dir.display())))?;
    if number < noted.number {
        return Err(damaged(format!(
            "{}: commit {} was acknowledged, but the journal {} ends with commit {number}: it is damaged, and starting would \
             silently lose data; {RESTORE}",
            dir.display(),
            noted.number,
            journals.newest(),
        )));
    }
    Ok((store, number))
}

fn draw_identity(dir: &Path, store: &Store) -> Result<(), OpenError> {
    lineage::ensure_identity(store).map_err(|fault| damaged(format!("{}: {fault}; {RESTORE}", dir.display())))
}

pub const RESTORE: &str = "restore the directory from a backup";

pub fn damaged(words: String) -> OpenError {
    OpenError::Damaged { words }
}

pub fn lock(dir: &Path) -> Result<File, OpenError> {
    let path = dir.join(LOCK_FILE);
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(|source| OpenError::Io { doing: format!("opening {}", path.display()), source })?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(OpenError::Locked { dir: dir.to_owned() }),
        Err(error) => Err(OpenError::Io { doing: format!("locking {}", path.display()), source: error.into() }),
    }
}

/// Makes sure that a directory is one of ours, and whole as far as its files of one line tell.
pub fn check_usable(dir: &Path) -> Result<(), OpenError> {
    let format = dir.join(FORMAT_FILE);
    match std::fs::read(&format) {
        Ok(found) => check_format(&format, &found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let why = match dir.join(RESTORING_FILE).exists() {
                true => "a restore into it did not come to its end",
                false => "there is no FORMAT in it",
            };
            Err(OpenError::Format { words: format!("{} is no data directory: {why}", dir.display()) })
        }
        Err(source) => Err(reading(&format)(source)),
    }
}

/// Makes sure that a directory without FORMAT is ours to fill.
fn prepare(dir: &Path) -> Result<(), OpenError> {
    let io = |doing: &str| {
        let doing = format!("{doing} {}", dir.display());
        move |source| OpenError::Io { doing, source }
    };
    let creating = dir.join(CREATING_FILE);
    if creating.try_exists().map_err(io("reading"))? {
        // An earlier creation was cut off. Nothing was ever committed here.
        let half_made = dir.join(FJALL_DIRECTORY);
        if half_made.try_exists().map_err(io("reading"))? {
            std::fs::remove_dir_all(&half_made).map_err(io("removing what was half made in"))?;
        }
        return Ok(());
    }
    if dir.join(RESTORING_FILE).try_exists().map_err(io("reading"))? {
        let words = format!("a restore into {} did not come to its end: empty it and restore again", dir.display());
        return Err(OpenError::Format { words });
    }
    for entry in std::fs::read_dir(dir).map_err(io("reading"))? {
        let name = entry.map_err(io("reading"))?.file_name();
        if name != LOCK_FILE && name != "lost+found" {
            return Err(OpenError::Format {
                words: format!(
                    "{} is not empty and has no {FORMAT_FILE} file, so it is not a data directory of ours (it has {}): \
                     name an empty directory, or restore {FORMAT_FILE} from a backup",
                    dir.display(),
                    Path::new(&name).display(),
                ),
            });
        }
    }
    write_durably(&creating, b"").map_err(io("writing CREATING in"))?;
    sync_directory(dir).map_err(io("syncing"))
}

pub fn check_format(path: &Path, found: &[u8]) -> Result<(), OpenError> {
    if found == FORMAT.as_bytes() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(found);
    let version = text.strip_prefix("lazuli embedded ").and_then(|version| version.trim().parse::<u64>().ok());
    let words = match version {
        Some(version) => format!(
            "{} says format {version}; this program knows format 1: use the newer program that wrote the directory",
            path.display()
        ),
        None => format!("{} is not a format this program knows: name another directory", path.display()),
    };
    Err(OpenError::Format { words })
}

/// An earlier start found damage that it could not leave in place for the next one to see.
pub fn check_damaged(dir: &Path) -> Result<(), OpenError> {
    match std::fs::read_to_string(dir.join(DAMAGED_FILE)) {
        Ok(words) => Err(damaged(words)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(OpenError::Io { doing: format!("reading {}", dir.join(DAMAGED_FILE).display()), source }),
    }
}

pub fn write_durably(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(text)?;
    file.sync_all()
}

pub fn sync_directory(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// A keyspace says in `current` which of its versions is the newest: its number (8 bytes), the xxh3 of its file (16 bytes), both little
/// endian, and a zero. fjall takes a keyspace without `current` for half made and removes it; it takes the number for true without
/// looking at the hash, so that a wrong one opens an old version, and removes all others. So they are verified before fjall is let
/// near them.
fn check_keyspaces(fjall: &Path) -> Result<(), OpenError> {
    let keyspaces = fjall.join("keyspaces");
    for entry in std::fs::read_dir(&keyspaces).map_err(reading(&keyspaces))? {
        check_keyspace(&entry.map_err(reading(&keyspaces))?.path())?;
    }
    Ok(())
}

fn reading(path: &Path) -> impl Fn(io::Error) -> OpenError + use<> {
    let doing = format!("reading {}", path.display());
    move |source| OpenError::Io { doing: doing.clone(), source }
}

/// Gives the newest version, as its file has it.
pub fn check_keyspace(keyspace: &Path) -> Result<Vec<u8>, OpenError> {
    let current = keyspace.join("current");
    let noted = match std::fs::read(&current) {
        Ok(noted) => noted,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(damaged(format!("{} is missing; {RESTORE}", current.display())));
        }
        Err(source) => return Err(reading(&current)(source)),
    };
    let (Some((number, rest)), 25) = (noted.split_first_chunk::<8>(), noted.len()) else {
        return Err(damaged(format!("{} has {} bytes instead of 25; {RESTORE}", current.display(), noted.len())));
    };
    let version = keyspace.join(format!("v{}", u64::from_le_bytes(*number)));
    let content = match std::fs::read(&version) {
        Ok(content) => Some(content),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(source) => return Err(reading(&version)(source)),
    };
    let matches = |content: &Vec<u8>| rest[..16] == xxhash_rust::xxh3::xxh3_128(content).to_le_bytes() && rest[16] == 0;
    content.filter(matches).ok_or_else(|| {
        let (current, version) = (current.display(), version.display());
        damaged(format!("{current} and {version}, which it names, do not belong together; {RESTORE}"))
    })
}

/// What fjall is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// Its keyspaces may be missing.
    Creating,
    Existing,
    /// In a scratch directory, where nothing is worth flushing or compacting.
    Looking,
}

/// Opens fjall.
pub fn open_store(options: &Options, opening: Opening) -> Result<Store, OpenError> {
    let path = options.dir.join(FJALL_DIRECTORY);
    let open = || -> fjall::Result<Store> {
        let db = Database::builder(&path)
            .cache_size(options.cache_bytes)
            // Values are small or already compressed by their owner: not worth the time of the commit thread.
            .journal_compression(CompressionType::None)
            .max_journaling_size(128 * MIB)
            // The first of them only flushes, and passes compactions on: with one other, which may be busy, to itself, without a pause.
            .worker_threads_unchecked(if opening == Opening::Looking { 0 } else { 3 })
            .max_cached_files(Some(256))
            .open()?;
        // fjall would make a keyspace whose directory is gone anew, and empty.
        if opening != Opening::Creating && !KEYSPACES.iter().all(|name| db.keyspace_exists(name)) {
            return Err(fjall::Error::Unrecoverable);
        }
        let records = db.keyspace(KEYSPACES[0], || keyspace_options(16 * MIB, 0.75))?;
        let refs = db.keyspace(KEYSPACES[1], || keyspace_options(8 * MIB, 0.0))?;
        let fences = db.keyspace(KEYSPACES[2], || keyspace_options(MIB, 0.75))?;
        let meta = db.keyspace(KEYSPACES[3], || keyspace_options(MIB, 0.0))?;
        Ok(Store { db, records, refs, fences, meta })
    };
    // fjall panics on some kinds of damage (a stray name, a missing setting); at start that is a refusal like any other.
    match std::panic::catch_unwind(AssertUnwindSafe(open)) {
        Ok(Ok(store)) => Ok(store),
        Ok(Err(fjall::Error::Io(source))) => {
            Err(OpenError::Io { doing: format!("opening the records in {}", path.display()), source })
        }
        Ok(Err(fjall::Error::Locked)) => Err(OpenError::Locked { dir: options.dir.clone() }),
        Ok(Err(error)) => {
            Err(damaged(format!("the records in {} cannot be read ({error}); {RESTORE}", path.display())))
        }
        Err(_) => Err(damaged(format!("the records in {} cannot be read; {RESTORE}", path.display()))),
    }
}

/// Memtables are kept small: they are memory that an idle server holds, and what a restart has to read again.
fn keyspace_options(memtable_bytes: u64, hash_ratio: f32) -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(memtable_bytes)
        .data_block_size_policy(BlockSizePolicy::all(4096))
        .data_block_hash_ratio_policy(HashRatioPolicy::all(hash_ratio))
        .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(10.0))))
}

/// Checks that every segment some record names is there and long enough, without reading every reference: the last one
/// of each segment tells its length.
pub fn check_segments(store: &Store, segments: &Segments) -> Result<(), OpenError> {
    let corrupt = |error: fjall::Error| damaged(format!("the references cannot be read ({error}); {RESTORE}"));
    let snapshot = store.db.snapshot();
    let mut from = 0;
    loop {
        let Some(row) = snapshot.range::<Vec<u8>, _>(&store.refs, u64::to_be_bytes(from).to_vec()..).next() else {
            return Ok(());
        };
        let key = row.key().map_err(corrupt)?;
        let Some(number) = key::u64_at(&key, 0) else {
            return Err(damaged(format!("a reference cannot be read; {RESTORE}")));
        };
        let last = snapshot.prefix(&store.refs, number.to_be_bytes()).next_back();
        let last = last.map(|row| row.into_inner()).transpose().map_err(corrupt)?;
        if let Some((key, value)) = last {
            let needed = key::decode_ref_key(&key).zip(key::decode_ref(&value));
            let Some(((address, _), (bytes, _))) = needed else {
                return Err(damaged(format!("a reference cannot be read; {RESTORE}")));
            };
            let needed = u64::from(address.offset) + extents::stored_bytes(u64::from(bytes));
            let path = segments.path(number);
            match segments.used_bytes(number) {
                None => return Err(damaged(format!("{path} is missing, and records name it; {RESTORE}"))),
                Some(found) if found < needed => {
                    let words = format!("{path} has {found} bytes, and records name {needed}; {RESTORE}");
                    return Err(damaged(words));
                }
                Some(_) => {}
            }
        }
        match number.checked_add(1) {
            Some(next) => from = next,
            None => return Ok(()),
        }
    }
}
