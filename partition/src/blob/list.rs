//! List Containers and List Blobs, flat and by hierarchy.

use contract::names::AccountName;
use env::Timestamp;

use super::container::Found;
use super::kept::{self, Kept, KeptVersion};
use crate::directory;
use crate::execute::{Failure, Shell};
use crate::key::container as family;
use crate::list::walk;
pub use crate::list::{Entry, Listed, Listing};
use crate::record::{BlobHead, ContainerHead, KeptContainer};

/// A container in a listing: there, or deleted and kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedContainer {
    pub name: String,
    pub head: ContainerHead,
    pub deletion: Option<Deletion>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deletion {
    pub version: KeptVersion,
    pub deleted: Timestamp,
    pub expires: Timestamp,
}

/// Where in a listing of containers something stands: those of one name by their deletions, the one that is there last.
pub type Place = (String, KeptVersion);

const THERE: KeptVersion = KeptVersion(u64::MAX);

impl ListedContainer {
    fn place(&self) -> Place {
        (self.name.clone(), self.deletion.map_or(THERE, |deletion| deletion.version))
    }
}

/// Containers from `start` on, and where to go on.
pub async fn containers(
    shell: &Shell,
    account: &AccountName,
    listing: &Listing,
    start: KeptVersion,
    with_deleted: bool,
) -> Result<(Vec<ListedContainer>, Option<Place>), Failure> {
    let there: Listed<ContainerHead> = directory::list(shell, account, listing).await?;
    // After the others: one that is deleted meanwhile shows up twice, and then as deleted, instead of not at all.
    let kept = if with_deleted { kept::list(shell, account, listing, start).await? } else { Vec::new() };
    let there_next = there.next.map(|name| (name, THERE));
    let there = there.entries.into_iter().filter_map(|entry| match entry {
        Entry::Item { name, head } => Some(ListedContainer { name, head, deletion: None }),
        Entry::Prefix(_) => None,
    });
    let there = there.filter(|one| kept.iter().all(|kept| kept.container.head.incarnation != one.head.incarnation));
    let mut all: Vec<ListedContainer> = there.collect();
    all.extend(kept.into_iter().map(|Kept { name, version, container: KeptContainer { head, deleted, expires } }| {
        ListedContainer { name, head, deletion: Some(Deletion { version, deleted, expires }) }
    }));
    all.sort_by_cached_key(ListedContainer::place);
    let cut = all.get(listing.results_max).map(ListedContainer::place);
    all.truncate(listing.results_max);
    Ok((all, cut.into_iter().chain(there_next).min()))
}

pub async fn blobs(shell: &Shell, container: &Found, listing: &Listing) -> Result<Listed<BlobHead>, Failure> {
    let listed = walk(shell.engine.as_ref(), &container.group, family::HEAD, listing, BlobHead::decode).await?;
    container.still_there(shell).await?;
    Ok(listed)
}
