//! What tells the history of one directory from that of another, so that a copy of an extent can be known by its address.
//!
//! 1. A directory has an identity of its own, drawn when it is made. One that was restored draws another: from there on the
//!    two go different ways.
//! 2. The number of a segment that a commit ever named is never given out again, also when nothing names it any more and its
//!    file is gone. So within one identity an address names the same bytes for all time.

use engine::Fault;
use env::{Id, Ids, SystemIds};
use fjall::{PersistMode, Readable};

use crate::store::Store;
use crate::{fault, key};

/// In `meta`.
pub const IDENTITY_KEY: &[u8] = b"identity";
/// The highest segment that a commit ever named, in `meta`.
pub const SEGMENT_KEY: &[u8] = b"segment";

/// The identity of the directory, drawn now if it has none. Before anything else writes to the store.
pub fn ensure_identity(store: &Store) -> Result<(), Fault> {
    if identity(store)?.is_some() {
        return Ok(());
    }
    let drawn = SystemIds::new().next();
    let written = store.meta.insert(IDENTITY_KEY, drawn.0.to_be_bytes());
    written.map_err(|error| fault("writing the identity", error))?;
    store.db.persist(PersistMode::SyncAll).map_err(|error| fault("syncing the journal", error))
}

pub fn identity(store: &Store) -> Result<Option<Id>, Fault> {
    let stored = store.db.snapshot().get(&store.meta, IDENTITY_KEY);
    let stored = stored.map_err(|error| fault("reading the identity", error))?;
    let decode = |stored: &[u8]| Some(Id(u128::from_be_bytes(stored.try_into().ok()?)));
    let unreadable = || Fault::Corrupt { what: "the identity of the directory".to_owned() };
    stored.map(|stored| decode(&stored).ok_or_else(unreadable)).transpose()
}

/// The highest segment that any record names, or ever did.
pub fn highest_segment(store: &Store) -> Result<Option<u64>, Fault> {
    let snapshot = store.db.snapshot();
    let noted = snapshot.get(&store.meta, SEGMENT_KEY).map_err(|error| fault("reading the highest segment", error))?;
    let noted =
        noted.map(|noted| key::u64_at(&noted, 0).ok_or(Fault::Corrupt { what: "the highest segment".to_owned() }));
    let named = match snapshot.last_key_value(&store.refs) {
        None => None,
        Some(row) => key::u64_at(&row.key().map_err(|error| fault("reading references", error))?, 0),
    };
    Ok(noted.transpose()?.max(named))
}
