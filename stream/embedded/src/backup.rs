//! Copies of a directory: taken of one moment while the engine goes on, kept beside earlier ones, brought back.
//!
//! 1. `CopyOut` is one state of everything: records and references of one fjall snapshot, and a view that keeps every extent
//!    they name. It is handed on in blocks (`block`), to a process that may be another.
//! 2. Whoever receives them (`copy`) writes them to a file and copies the extents that they name, verified, from the segments.
//!    The manifest is written last: without it there is no backup, and with it everything it names is on the disk.
//! 3. An extent that the backup before has is not copied again. That rests on `lineage`: the same address of the same
//!    identity is the same bytes.
//! 4. `restore` makes a directory of it. `FORMAT` is written last: without it nothing opens the directory.

pub mod block;
mod bodies;
mod copy;
mod manifest;
mod restore;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use engine::Fault;
use fjall::{Iter, Keyspace, Readable, Snapshot};

use crate::alive::ViewHold;
use crate::key::{self, Address};
use crate::store::Store;
use crate::{Embedded, fault, lineage};
use block::{BlockWriter, Head, Part};

pub use copy::{Copied, Source, Stream, copy};
pub use restore::{Restored, restore};

/// One state of everything, while it is held.
pub struct CopyOut {
    store: Arc<Store>,
    snapshot: Snapshot,
    /// Keeps the extents that the snapshot names.
    _hold: ViewHold,
    head: Option<Head>,
    parts: std::slice::Iter<'static, Part>,
    rows: Option<(Part, Iter)>,
    counts: [u64; Part::ALL.len()],
    is_over: bool,
}

impl Embedded {
    /// Everything that was acknowledged before, and nothing torn: what is buffered is synced first.
    pub async fn copy_out(&self) -> Result<CopyOut, Fault> {
        self.sync_buffered().await?;
        // In this order, as with a view. The number is that of what fjall has and not of what is shown: what is buffered is
        // not in the snapshot, and what it takes away must stay.
        let number = self.numbers.applied.load(Ordering::Acquire);
        let hold = self.alive.open_view(number);
        let snapshot = self.store.db.snapshot();
        let identity = lineage::identity(&self.store)?;
        let identity = identity.ok_or(Fault::Corrupt { what: "the identity of the directory".to_owned() })?;
        Ok(CopyOut {
            store: Arc::clone(&self.store),
            snapshot,
            _hold: hold,
            head: Some(Head { identity, commit: number }),
            parts: Part::ALL.iter(),
            rows: None,
            counts: [0; Part::ALL.len()],
            is_over: false,
        })
    }
}

impl CopyOut {
    /// The next block, with its checksum; `None` after the last.
    pub fn next_block(&mut self) -> Result<Option<Bytes>, Fault> {
        if let Some(head) = self.head.take() {
            return Ok(Some(head.encode()));
        }
        loop {
            if let Some((part, rows)) = &mut self.rows {
                let mut block = BlockWriter::new(*part);
                for row in rows.by_ref() {
                    let (key, value) = row.into_inner().map_err(|error| fault("reading records", error))?;
                    self.counts[*part as usize] += 1;
                    block.push(&key, &value);
                    if block.is_full() {
                        break;
                    }
                }
                if let Some(block) = block.finish() {
                    return Ok(Some(block));
                }
            }
            let Some(part) = self.parts.next() else { break };
            let rows = self.snapshot.range::<&[u8], _>(keyspace(&self.store, *part), ..);
            self.rows = Some((*part, rows));
        }
        self.rows = None;
        if std::mem::replace(&mut self.is_over, true) {
            return Ok(None);
        }
        Ok(Some(block::encode_end(&self.counts)))
    }
}

/// Where the rows of a part are.
fn keyspace(store: &Store, part: Part) -> &Keyspace {
    match part {
        Part::Meta => &store.meta,
        Part::Fences => &store.fences,
        Part::Records => &store.records,
        Part::Refs => &store.refs,
    }
}

/// Extents from rows of references, each once.
#[derive(Default)]
struct Distinct(Option<(Address, u32)>);

impl Distinct {
    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<Option<(Address, u32)>, BackupError> {
        let row = key::decode_ref_key(key).zip(key::decode_ref(value));
        let Some(((address, _), (bytes, _))) = row else {
            return Err(BackupError::damaged("a reference cannot be read"));
        };
        if self.0.is_some_and(|(last, _)| last == address) {
            return Ok(None);
        }
        self.0 = Some((address, bytes));
        Ok(self.0)
    }
}

/// Why there is no backup, or no directory made of it.
#[derive(Debug)]
pub enum BackupError {
    /// What was asked for is not done.
    Refused { words: String },
    /// Something is not what was written.
    Damaged { words: String },
    /// The operating system refused.
    Io { doing: String, source: io::Error },
}

impl BackupError {
    pub fn io(doing: impl Into<String>, source: io::Error) -> Self {
        BackupError::Io { doing: doing.into(), source }
    }

    fn damaged(words: &str) -> Self {
        BackupError::Damaged { words: words.to_owned() }
    }
}

impl fmt::Display for BackupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackupError::Refused { words } | BackupError::Damaged { words } => write!(f, "{words}"),
            BackupError::Io { doing, source } => write!(f, "{doing}: {source}"),
        }
    }
}

impl std::error::Error for BackupError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BackupError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
