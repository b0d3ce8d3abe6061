//! The seam between the partition layer and storage.
//!
//! An engine knows no rule of Azure; the partition layer knows no disk. What passes between them:
//!
//! * A **record** lives in a *group* (a container's blobs, a table, a queue, a share, an account's directory), in a
//!   *partition* of it, in a *family* of that, under a key. A partition is the unit of atomicity and is never split.
//!   Families keep unlike records apart, so that a listing walks only what it lists.
//! * An **extent** holds bytes that are too many for a record: immutable, checksummed, alive while a record points at
//!   it or somebody pins it.
//!
//! Invariants every engine keeps, and `suite.rs` checks:
//!
//! 1. A commit is all or nothing: every guard holds and every write is applied, or nothing changed.
//! 2. A `Synced` commit returns `Ok` only when the batch, every extent its records point at, and every commit before it, of
//!    any partition, is durable. A `Buffered` one may return before: it is durable with the next synced commit, with `sync`,
//!    or by itself about a second later. Of buffered commits a crash leaves those up to one point in the order they were
//!    made, each whole and with its extents, and nothing of the rest.
//! 3. Nothing of a synced batch is visible to any view or scan before it is durable. After `commit` returned the batch is
//!    visible to every view opened later, buffered or not.
//! 4. A view is one committed state: what it shows never changes while it is open. An engine that cannot show that state any more
//!    answers `Moved`, and never another state. The first read of a view never answers it.
//! 5. A batch that started never stops half way because its future was dropped: it commits or fails as a whole.
//! 6. Every record names the slices of extents it needs. An extent is alive while a record names it, while it is pinned,
//!    or while a view is open in which a record names it; so a pin taken under such a view always holds. An extent that
//!    is not alive gives its space back. Naming an extent that is no longer alive is `Conflict`.
//! 7. After `fence(group)` returned no commit to that group succeeds, ever (also after a restart), and the group's
//!    records are removed in the background. Group ids are never used again.
//! 8. Bytes read from an extent are the bytes written, or the read is a `Fault`.

use std::fmt;
use std::future::Future;
use std::ops::Bound;
use std::pin::Pin as StdPin;
use std::sync::Arc;

use bytes::Bytes;

pub mod around;
pub mod measure;
pub mod memory;
#[cfg(feature = "suite")]
pub mod suite;

pub type BoxFuture<'a, T> = StdPin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The longest group id, partition key and record key, in bytes.
pub const GROUP_BYTES_MAX: usize = 255;
pub const KEY_BYTES_MAX: usize = 8 * 1024;

/// The longest extent. Longer bodies are several extents.
pub const EXTENT_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Names a group. 1 to 255 bytes, unique for all time: a recreated container is another group.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId(pub Bytes);

/// Names a partition: the group and the partition's key in it (which may be empty).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PartitionId {
    pub group: GroupId,
    pub key: Bytes,
}

/// One kind of record in a group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Family(pub u8);

/// Grows with every commit of a partition. A record's revision is that of the commit that wrote it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Revision(pub u64);

/// An immutable run of bytes kept by the engine. The id means something to its engine alone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Extent {
    pub id: u128,
    pub bytes: u64,
}

/// A part of an extent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ExtentSlice {
    pub extent: Extent,
    pub offset: u64,
    pub bytes: u64,
}

impl ExtentSlice {
    pub fn whole(extent: Extent) -> Self {
        ExtentSlice { extent, offset: 0, bytes: extent.bytes }
    }
}

/// A stored record. The value speaks of its slices by their place in the list, so that the engine may move an extent
/// (which changes `slices` and leaves value and revision alone).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    pub revision: Revision,
    pub value: Bytes,
    pub slices: Vec<ExtentSlice>,
}

/// What must still be true when a batch commits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Guard {
    /// The record is there with this revision.
    At { family: Family, key: Bytes, revision: Revision },
    /// There is no such record.
    Absent { family: Family, key: Bytes },
    /// No commit to the partition came after the view of this revision. For batches that judged a range or an
    /// emptiness. An engine may refuse this guard although nothing changed (and then the caller judges again); it never
    /// lets it pass when something did.
    Unchanged(Revision),
    /// Always holds. The records that the other guards name were read in views of this revision or later: an engine that knows of no
    /// later commit to the partition need not look at them again.
    ReadAt(Revision),
}

/// One change of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Write {
    Put { family: Family, key: Bytes, value: Bytes, slices: Vec<ExtentSlice> },
    Delete { family: Family, key: Bytes },
}

/// Guards and writes of one partition. At most one write per (family, key).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Batch {
    pub guards: Vec<Guard>,
    pub writes: Vec<Write>,
}

/// When a commit is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// When it is durable.
    Synced,
    /// When it can be seen. A crash may take it, and with it whatever came after it and was not synced either.
    Buffered,
}

/// Where in a group's family to scan: ordered by partition key, then record key, both by bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupRange {
    pub group: GroupId,
    pub family: Family,
    pub start: ScanStart,
    /// Partition keys from this one on are outside.
    pub before_partition: Option<Bytes>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScanStart {
    /// The first record of the first partition whose key is not less than this.
    AtPartition(Bytes),
    /// The first record after this one.
    After { partition: Bytes, key: Bytes },
}

/// One row of a group scan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    pub partition: Bytes,
    pub key: Bytes,
    pub record: Record,
}

/// A page of a group scan. `more` says that rows may follow; an engine may end a page early to bound its memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    pub rows: Vec<Row>,
    pub more: bool,
}

/// A range of record keys in one family of one partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyRange {
    pub start: Bound<Bytes>,
    pub end: Bound<Bytes>,
}

/// One committed state of one partition. Held only while a request loads what it needs: an open view holds back the
/// engine's cleaning.
pub trait View: Send + Sync {
    /// The newest commit this view shows; for `Guard::Unchanged`. Asked after a read: an engine may choose the state with the first
    /// one, and before it answers what refuses the guard.
    fn revision(&self) -> Revision;
    fn get<'a>(&'a self, family: Family, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Record>, Fault>>;
    /// At most `limit` records in key order.
    fn scan<'a>(
        &'a self,
        family: Family,
        range: &'a KeyRange,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<(Bytes, Record)>, Fault>>;
}

/// Where the bytes of a new extent come from. Each call gives between 1 and `bytes_max` bytes; `Ok(None)` is the end. The
/// engine asks again only after it has taken the bytes it was given, so memory per body is bounded by one call's worth.
pub trait Source: Send {
    fn next(&mut self, bytes_max: usize) -> BoxFuture<'_, Result<Option<Bytes>, SourceError>>;
}

/// The source could not give what it promised: the client went away, or the body was not what it claimed. The engine
/// drops what it had written and hands the error back.
#[derive(Debug)]
pub struct SourceError(pub Box<dyn std::error::Error + Send + Sync>);

/// Keeps an extent alive while it exists.
#[derive(Clone)]
pub struct Pin {
    extent: Extent,
    _alive: Arc<dyn std::any::Any + Send + Sync>,
}

impl Pin {
    /// `alive` is the engine's: dropping the last clone lets the extent go.
    pub fn new(extent: Extent, alive: Arc<dyn std::any::Any + Send + Sync>) -> Self {
        Pin { extent, _alive: alive }
    }

    pub fn extent(&self) -> Extent {
        self.extent
    }
}

/// Which process may keep things about a group in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Tenure {
    /// This one.
    Ours,
    /// Another, which is reached there.
    Theirs { address: String },
}

pub trait Engine: Send + Sync {
    /// One committed state of a partition, at least as new as every commit acknowledged before the call.
    fn view<'a>(&'a self, partition: &'a PartitionId) -> BoxFuture<'a, Result<Box<dyn View>, Fault>>;

    /// At most `limit` rows of a group's family, in order. Each row is committed. The rows that a page shows of one partition are of one
    /// moment; those of two partitions may be of two.
    fn scan<'a>(&'a self, range: &'a GroupRange, limit: usize) -> BoxFuture<'a, Result<Page, Fault>>;

    /// Applies the batch if all its guards hold, and returns when it is durable or, buffered, when it can be seen.
    fn commit<'a>(
        &'a self,
        partition: &'a PartitionId,
        batch: Batch,
        durability: Durability,
    ) -> BoxFuture<'a, Result<Revision, CommitError>>;

    /// Is a buffered commit over at once, so that nothing is won by joining several? Otherwise it costs what a synced one does.
    fn buffers(&self) -> bool {
        false
    }

    /// Is it worth deciding over a commit that is still in flight? Not where other processes commit, too: they would refute it. Those who
    /// do so guard what they decide all the same.
    fn chains(&self) -> bool {
        false
    }

    /// Returns when every commit acknowledged before the call is durable.
    fn sync(&self) -> BoxFuture<'_, Result<(), Fault>>;

    /// Takes bytes from `source` until it ends or `bytes_max` (at most `EXTENT_BYTES_MAX`) have been taken; what the source
    /// still has is the next extent's. Immutable from here on, and durable when a commit that names it is. `None` if the
    /// source was at its end already.
    fn write_extent<'a>(
        &'a self,
        source: &'a mut dyn Source,
        bytes_max: u64,
    ) -> BoxFuture<'a, Result<Option<Pin>, ExtentError>>;

    /// The slice's first bytes: at least one (unless the slice is empty) and at most as many as it has, verified.
    /// The caller holds a pin and asks again for the rest.
    fn read_extent(&self, slice: ExtentSlice) -> BoxFuture<'_, Result<Bytes, Fault>>;

    /// Keeps the extent alive. Taken while the view that named it is open (or while another pin is held).
    fn pin(&self, extent: Extent) -> Pin;

    /// Makes this process the one that keeps things about a group in memory, unless another does. While one process owns a group the
    /// commits of others to it fail with `Fault::Elsewhere`. An engine that no other process shares owns everything.
    fn own<'a>(&'a self, _group: &'a GroupId) -> BoxFuture<'a, Result<Tenure, Fault>> {
        Box::pin(std::future::ready(Ok(Tenure::Ours)))
    }

    /// Lets others own the group, if it is this process's; and if it is not, forgets whose it was: the next `own` looks again.
    fn disown<'a>(&'a self, _group: &'a GroupId) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// After this returned no commit to the group succeeds. Durable. Idempotent.
    fn fence<'a>(&'a self, group: &'a GroupId) -> BoxFuture<'a, Result<(), Fault>>;

    /// An engine that several processes share draws ticks itself (100 ns, `now` is what the clock says): greater than every revision
    /// this process has seen or made, and smaller than every one it makes later. The revisions of such an engine are ticks, too.
    /// So what is made in a partition is marked later than all that was ever there, whichever process made that, by whatever clock.
    fn draw_tick(&self, now: u64) -> Option<u64> {
        let _ = now;
        None
    }
}

/// Storage could not do its work. Never the client's doing; the detail goes to the log, not to the client.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The operating system refused: what was tried, and its error.
    Io { doing: String, source: Arc<std::io::Error> },
    /// Stored bytes are not what was written.
    Corrupt { what: String },
    /// There is no room left to write in safely.
    Full,
    /// An earlier failure left the outcome of writes in doubt: nothing is accepted until the engine is opened again.
    Stopped { why: String },
    /// The partition changed while a view of it was open, and the engine cannot show the old state any more. Nothing is wrong: begin
    /// again with a new view.
    Moved,
    /// Another process owns the group. Nothing changed.
    Elsewhere,
    /// Another library's error, in its words.
    Other { doing: String, detail: String },
}

impl Fault {
    pub fn io(doing: impl Into<String>, source: std::io::Error) -> Self {
        Fault::Io { doing: doing.into(), source: Arc::new(source) }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Io { doing, source } => write!(f, "{doing}: {source}"),
            Fault::Corrupt { what } => write!(f, "stored data is damaged: {what}"),
            Fault::Full => write!(f, "the disk is full"),
            Fault::Stopped { why } => {
                write!(f, "writes stopped after an earlier failure ({why}): the program has to be started again")
            }
            Fault::Moved => write!(f, "the partition changed while it was read, again and again"),
            Fault::Elsewhere => write!(f, "another process owns the group"),
            Fault::Other { doing, detail } => write!(f, "{doing}: {detail}"),
        }
    }
}

impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Fault::Io { source, .. } => Some(source.as_ref()),
            _ => None,
        }
    }
}

/// Why a commit did not happen.
#[derive(Clone, Debug)]
pub enum CommitError {
    /// A guard did not hold, or a named extent is no longer alive. Nothing changed; load and judge again.
    Conflict,
    /// The group is fenced. Nothing changed.
    Fenced,
    /// The batch may or may not have happened.
    Fault(Fault),
}

impl From<Fault> for CommitError {
    fn from(fault: Fault) -> Self {
        CommitError::Fault(fault)
    }
}

/// Why an extent was not written.
#[derive(Debug)]
pub enum ExtentError {
    Source(SourceError),
    Fault(Fault),
}

impl fmt::Debug for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pin({:?})", self.extent)
    }
}
