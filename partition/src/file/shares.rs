//! List Shares: those that are there, and if they are asked for their snapshots and those that are kept after their deletion.

use contract::Service;
use contract::names::AccountName;
use engine::Fault;
use env::Timestamp;

use super::snapshot::load_all;
use crate::directory;
use crate::execute::{Failure, Reader, Shell};
use crate::kept::{self, Deletion, KeptVersion, ListedHead};
use crate::key;
use crate::list::Listing;
use crate::record::{ShareHead, ShareSnapshot};

/// What is listed beside the shares that are there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Beside {
    pub snapshots: bool,
    pub deleted: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedShare {
    pub name: String,
    pub head: ShareHead,
    pub what: What,
}

/// What an entry is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    Share,
    /// And when it was taken.
    Snapshot(Timestamp),
    Deleted(Deletion),
}

/// Where in a listing something stands: by name, those that were deleted first, then the snapshots, and what is there last.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    pub name: String,
    pub version: KeptVersion,
    /// When it was taken; after all snapshots for the share itself.
    pub snapshot: Timestamp,
}

/// After every snapshot.
const SHARE: Timestamp = Timestamp::from_ticks(u64::MAX);

impl Place {
    /// Before everything of this name.
    pub fn first(name: String) -> Place {
        Place { name, version: KeptVersion(0), snapshot: Timestamp::from_ticks(0) }
    }
}

impl ListedShare {
    fn place(&self) -> Place {
        let (version, snapshot) = match self.what {
            What::Share => (KeptVersion::THERE, SHARE),
            What::Snapshot(taken) => (KeptVersion::THERE, taken),
            What::Deleted(deletion) => (deletion.version, SHARE),
        };
        Place { name: self.name.clone(), version, snapshot }
    }
}

/// Shares from `from` on, and where to go on.
pub async fn list(
    shell: &Shell,
    account: &AccountName,
    listing: &Listing,
    from: &Place,
    beside: Beside,
) -> Result<(Vec<ListedShare>, Option<Place>), Failure> {
    let listing = Listing { start: from.name.clone(), ..listing.clone() };
    let (heads, next) = kept::list::<ShareHead>(shell, account, &listing, from.version, beside.deleted).await?;
    let mut shares: Vec<ListedShare> = Vec::new();
    for one in heads {
        let with_snapshots = with_snapshots(shell, account, one, beside.snapshots).await?;
        shares.extend(with_snapshots.into_iter().filter(|share| share.place() >= *from));
        if let Some(cut) = shares.get(listing.results_max).map(ListedShare::place) {
            shares.truncate(listing.results_max);
            return Ok((shares, Some(cut)));
        }
    }
    let next = next.map(|(name, version)| Place { version, ..Place::first(name) });
    Ok((shares, next))
}

/// The share, after its snapshots if they are asked for: all of it as it was at one moment.
async fn with_snapshots(
    shell: &Shell,
    account: &AccountName,
    one: ListedHead<ShareHead>,
    is_asked: bool,
) -> Result<Vec<ListedShare>, Failure> {
    let ListedHead { name, head, deletion } = one;
    if let Some(deletion) = deletion {
        return Ok(vec![ListedShare { name, head, what: What::Deleted(deletion) }]);
    }
    if !is_asked || head.snapshots == 0 {
        return Ok(vec![ListedShare { name, head, what: What::Share }]);
    }
    let partition = key::named_partition(Service::File, account, &name);
    let read = || async {
        let view = shell.engine.view(&partition).await?;
        let reader = Reader::committed(view.as_ref());
        let Some(head) = directory::load::<ShareHead>(&reader).await? else { return Ok::<_, Fault>(None) };
        let snapshots = load_all(&reader, head.incarnation).await?;
        Ok(Some((head, snapshots)))
    };
    // Deleted meanwhile.
    let Some((head, snapshots)) = shell.steadily(&partition, read).await? else { return Ok(Vec::new()) };
    let listed =
        |(taken, ShareSnapshot { head, .. })| ListedShare { name: name.clone(), head, what: What::Snapshot(taken) };
    let mut all: Vec<ListedShare> = snapshots.into_iter().map(listed).collect();
    all.push(ListedShare { name, head, what: What::Share });
    Ok(all)
}
