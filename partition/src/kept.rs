//! Containers and shares that were deleted and are kept for a while: set aside, listed, restored, and at last let go.
//!
//! What is kept is the head, moved to another family of the same partition in the commit that frees the name. It still names its
//! group, which is fenced only when the kept head is gone (`directory.rs`). Restoring moves the head back: the same incarnation, the same
//! group. What becomes of writes that were under way when it was deleted: docs/decisions/0012-kept-containers.md.

use std::marker::PhantomData;

use bytes::Bytes;
use contract::names::AccountName;
use contract::{ErrorCode, Refusal};
use engine::{BoxFuture, Family, Fault, GroupRange, PartitionId, ScanStart, Write};
use env::{Id, Timestamp};

use crate::directory::{self, Named, finish_deletion, load, put, take_away, tombstone};
use crate::execute::{Command, Failure, Moment, Reader, Shell};
use crate::housekeeping::RowChore;
use crate::key;
use crate::list::{Entry, Listed, Listing};
use crate::record::{KeptHead, corrupt};

const DAY_SECONDS: u64 = 24 * 3600;

/// What can be kept after its deletion.
pub trait Keepable: Named {
    /// Restored where its name is taken.
    const ALREADY_EXISTS: ErrorCode;

    /// Restored where nothing of this version is kept.
    fn not_kept() -> Refusal {
        Self::NOT_FOUND.into()
    }

    /// What comes back is free.
    fn release(&mut self);

    /// Takes away what lies beside the head in its partition and goes when the head is gone for good.
    fn take_along(_reader: &Reader<'_>, _incarnation: Id) -> impl Future<Output = Result<Vec<Write>, Fault>> + Send {
        async { Ok(Vec::new()) }
    }
}

/// Names one deletion: its tick, so no two have the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct KeptVersion(pub u64);

impl KeptVersion {
    /// Of what is there: after every deletion of the same name.
    pub const THERE: KeptVersion = KeptVersion(u64::MAX);

    fn key(self) -> Bytes {
        Bytes::copy_from_slice(&self.0.to_be_bytes())
    }

    fn of_key(key: &[u8]) -> Result<KeptVersion, Fault> {
        let bytes = key.try_into().map_err(|_| corrupt("the key of something that is kept", key))?;
        Ok(KeptVersion(u64::from_be_bytes(bytes)))
    }
}

/// Frees the name and keeps the head for so many days.
pub fn set_aside<H: Named>(head: H, days: u16, moment: &Moment) -> Vec<Write> {
    let expires = moment.now.plus_seconds(u64::from(days) * DAY_SECONDS);
    let value = KeptHead { head, deleted: moment.now, expires }.encode();
    let (family, key) = (key::directory::KEPT, KeptVersion(moment.tick).key());
    vec![take_away(), Write::Put { family, key, value, slices: Vec::new() }]
}

/// Restore Container and Restore Share.
pub struct Restore<H> {
    partition: PartitionId,
    version: KeptVersion,
    of: PhantomData<fn() -> H>,
}

impl<H: Keepable> Restore<H> {
    pub fn new(account: &AccountName, name: &str, version: KeptVersion) -> Self {
        Restore { partition: key::named_partition(H::SERVICE, account, name), version, of: PhantomData }
    }
}

impl<H: Keepable> Command for Restore<H> {
    type Records = (Option<H>, Option<KeptHead<H>>);
    type Outcome = H;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        Ok((load(reader).await?, load_kept(reader, self.version).await?))
    }

    fn check(&self, (head, kept): &Self::Records, now: Timestamp) -> Result<(), Refusal> {
        if head.is_some() {
            return Err(H::ALREADY_EXISTS.into());
        }
        match kept {
            Some(kept) if !kept.is_expired(now) => Ok(()),
            _ => Err(H::not_kept()),
        }
    }

    fn decide(&self, records: Self::Records, moment: Moment) -> Result<(Vec<Write>, H), Refusal> {
        self.check(&records, moment.now)?;
        let mut head = records.1.ok_or_else(H::not_kept)?.head;
        head.release();
        Ok((vec![put(&head), Write::Delete { family: key::directory::KEPT, key: self.version.key() }], head))
    }
}

async fn load_kept<H: Named>(reader: &Reader<'_>, version: KeptVersion) -> Result<Option<KeptHead<H>>, Fault> {
    let record = reader.get(key::directory::KEPT, &version.key()).await?;
    record.map(|record| KeptHead::decode(&record.value)).transpose()
}

/// Lets go of a kept head whose time is over; nothing if it was restored meanwhile.
struct Expire<H> {
    partition: PartitionId,
    version: KeptVersion,
    of: PhantomData<fn() -> H>,
}

impl<H: Keepable> Command for Expire<H> {
    type Records = Option<(KeptHead<H>, Vec<Write>)>;
    type Outcome = Option<Id>;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        let Some(kept) = load_kept::<H>(reader, self.version).await? else { return Ok(None) };
        let along = H::take_along(reader, kept.head.incarnation()).await?;
        Ok(Some((kept, along)))
    }

    fn check(&self, _kept: &Self::Records, _now: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, kept: Self::Records, moment: Moment) -> Result<(Vec<Write>, Option<Id>), Refusal> {
        let Some((kept, mut writes)) = kept.filter(|(kept, _)| kept.is_expired(moment.now)) else {
            return Ok((Vec::new(), None));
        };
        let incarnation = kept.head.incarnation();
        writes.push(Write::Delete { family: key::directory::KEPT, key: self.version.key() });
        writes.push(tombstone(incarnation));
        Ok((writes, Some(incarnation)))
    }
}

/// Kept heads whose time is over: their groups are fenced, and the engine sweeps them.
pub(crate) struct Overdue<H>(PhantomData<fn() -> H>);

impl<H> Overdue<H> {
    pub const fn new() -> Self {
        Overdue(PhantomData)
    }
}

impl<H: Keepable> RowChore for Overdue<H> {
    fn family(&self) -> Family {
        key::directory::KEPT
    }

    fn is_due(&self, _key: &[u8], value: &[u8], now: Timestamp) -> Result<bool, Fault> {
        Ok(KeptHead::<H>::decode(value)?.is_expired(now))
    }

    fn clear<'a>(
        &'a self,
        shell: &'a Shell,
        account: &'a AccountName,
        partition: &'a PartitionId,
        key: &'a Bytes,
    ) -> BoxFuture<'a, Result<bool, Failure>> {
        Box::pin(async move {
            let (partition, version) = (partition.clone(), KeptVersion::of_key(key)?);
            let command = Expire::<H> { partition, version, of: PhantomData };
            if let Some(incarnation) = shell.execute(&command).await? {
                finish_deletion(shell, H::SERVICE, account, command.partition, incarnation).await?;
            }
            Ok(false)
        })
    }
}

/// Something in a listing: there, or deleted and kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedHead<H> {
    pub name: String,
    pub head: H,
    pub deletion: Option<Deletion>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deletion {
    pub version: KeptVersion,
    pub deleted: Timestamp,
    pub expires: Timestamp,
}

/// Where in a listing something stands: those of one name by their deletions, the one that is there last.
pub type Place = (String, KeptVersion);

impl<H> ListedHead<H> {
    fn place(&self) -> Place {
        (self.name.clone(), self.deletion.map_or(KeptVersion::THERE, |deletion| deletion.version))
    }
}

/// What is there, and what is kept if it is asked for, from `start` on, and where to go on.
pub async fn list<H: Keepable>(
    shell: &Shell,
    account: &AccountName,
    listing: &Listing,
    start: KeptVersion,
    with_deleted: bool,
) -> Result<(Vec<ListedHead<H>>, Option<Place>), Failure> {
    let there: Listed<H> = directory::list(shell, account, listing).await?;
    // After the others: one that is deleted meanwhile shows up twice, and then as deleted, instead of not at all.
    let kept = if with_deleted { list_kept::<H>(shell, account, listing, start).await? } else { Vec::new() };
    let there_next = there.next.map(|name| (name, KeptVersion::THERE));
    let there = there.entries.into_iter().filter_map(|entry| match entry {
        Entry::Item { name, head } => Some(ListedHead { name, head, deletion: None }),
        Entry::Prefix(_) => None,
    });
    let is_there = |one: &ListedHead<H>| kept.iter().all(|kept| kept.head.incarnation() != one.head.incarnation());
    let mut all: Vec<ListedHead<H>> = there.filter(is_there).collect();
    all.extend(kept);
    all.sort_by_cached_key(ListedHead::place);
    let cut = all.get(listing.results_max).map(ListedHead::place);
    all.truncate(listing.results_max);
    Ok((all, cut.into_iter().chain(there_next).min()))
}

/// Rows asked of the engine at once.
const ROWS_AT_ONCE: usize = 1000;

/// Kept heads in the order of their names and deletions, from `after` on; one more than the listing shows, if there is one.
async fn list_kept<H: Named>(
    shell: &Shell,
    account: &AccountName,
    listing: &Listing,
    after: KeptVersion,
) -> Result<Vec<ListedHead<H>>, Fault> {
    let first = listing.start.as_str().max(listing.prefix.as_str());
    let mut start = ScanStart::AtPartition(Bytes::copy_from_slice(first.as_bytes()));
    let (now, mut found) = (shell.clock.now(), Vec::new());
    loop {
        let range = GroupRange {
            group: key::directory_group(H::SERVICE, account),
            family: key::directory::KEPT,
            start,
            before_partition: key::after_prefix(listing.prefix.as_bytes()),
        };
        let page = shell.engine.scan(&range, ROWS_AT_ONCE).await?;
        let last = page.rows.last().map(|row| (row.partition.clone(), row.key.clone()));
        for row in page.rows {
            let name = String::from_utf8(row.partition.to_vec()).map_err(|_| corrupt("a name", &row.partition))?;
            let (version, kept) = (KeptVersion::of_key(&row.key)?, KeptHead::<H>::decode(&row.record.value)?);
            let is_before = name == listing.start && version < after;
            if !is_before && !kept.is_expired(now) {
                let deletion = Some(Deletion { version, deleted: kept.deleted, expires: kept.expires });
                found.push(ListedHead { name, head: kept.head, deletion });
            }
            if found.len() > listing.results_max {
                return Ok(found);
            }
        }
        match last {
            Some((partition, key)) if page.more => start = ScanStart::After { partition, key },
            _ => return Ok(found),
        }
    }
}
