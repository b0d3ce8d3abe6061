//! Shares: create, read, change, lease and delete; found, as they are or as a snapshot saw them. What all named things share is in
//! `directory`, what is special about snapshots in `snapshot`.

use bytes::Bytes;
use contract::limits::SHARE_QUOTA_GIB_DEFAULT;
use contract::names::{AccountName, Metadata, ShareName};
use contract::{ErrorCode, Refusal, Service};
use engine::{Fault, GroupId, PartitionId, View, Write};
use env::{Id, Timestamp};

use super::handle::kept;
use super::opens::Scope;
use super::snapshot::{load_all, load_snapshot, put_snapshot, take_away_snapshot};
use super::tree;
use super::versions::At;
use crate::checks::Expectation;
use crate::condition::Current;
use crate::directory::{self, Named, load, put};
use crate::etag::ETag;
use crate::execute::{Command, Failure, MayMove, Moment, Reader, Shell};
use crate::gate::Held;
use crate::kept::{Keepable, set_aside};
use crate::key;
use crate::lease::{self, Acted, LeaseAction, LeaseState};
use crate::record::share::{Protocol, RootSquash, ShareTier};
use crate::record::{FileId, ShareHead, ShareSnapshot, StoredPolicy};

impl ShareHead {
    pub fn current(&self) -> Current<'_> {
        Current {
            etag: self.etag,
            last_modified: self.last_modified,
            lease: self.lease.as_ref(),
            tags: &[],
            held: Held::default(),
        }
    }
}

impl Named for ShareHead {
    const SERVICE: Service = Service::File;
    const NOT_FOUND: ErrorCode = ErrorCode::ShareNotFound;

    fn incarnation(&self) -> Id {
        self.incarnation
    }

    fn encode(&self) -> Bytes {
        self.encode()
    }

    fn decode(value: &[u8]) -> Result<Self, Fault> {
        Self::decode(value)
    }
}

impl Keepable for ShareHead {
    const ALREADY_EXISTS: ErrorCode = ErrorCode::ShareAlreadyExists;

    fn release(&mut self) {
        self.lease = None;
    }

    async fn take_along(reader: &Reader<'_>, incarnation: Id) -> Result<Vec<Write>, Fault> {
        let snapshots = load_all(reader, incarnation).await?;
        Ok(snapshots.iter().map(|(taken, _)| take_away_snapshot(incarnation, *taken)).collect())
    }
}

/// A share as a request found it. Every operation on what is in it begins here.
pub struct Found {
    named: directory::Found<ShareHead>,
    /// The share, or the snapshot of it.
    pub head: ShareHead,
    /// Which state of its tree is asked for.
    pub at: At,
}

impl Found {
    /// Where its tree is.
    pub fn group(&self) -> &GroupId {
        &self.named.group
    }

    pub fn tree(&self) -> PartitionId {
        key::tree_partition(self.group())
    }

    /// Reads the tree, again if it changed meanwhile: `Shell::steadily`.
    pub async fn steadily<T, E: MayMove, F>(&self, shell: &Shell, read: impl Fn() -> F) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>>,
    {
        shell.steadily(&self.tree(), read).await
    }

    /// The same of what may be refused for what others have open.
    pub async fn let_in<T, F>(&self, shell: &Shell, read: impl Fn() -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        shell.let_in(&self.tree(), read).await
    }

    /// The tree in one state. One that the snapshot has been deleted from may lack what the snapshot alone saw.
    pub async fn view(&self, shell: &Shell) -> Result<Box<dyn View>, Failure> {
        let view = shell.engine.view(&self.tree()).await?;
        match self.at {
            At::Generation(asked) if !sees(view.as_ref(), asked).await? => Err(ErrorCode::ShareSnapshotNotFound.into()),
            _ => Ok(view),
        }
    }

    /// A refusal counts only if the share is still the one that was found.
    pub async fn settle<T>(&self, shell: &Shell, result: Result<T, Failure>) -> Result<T, Failure> {
        self.named.settle(shell, result).await
    }

    /// The same for answers that are made of what was not found.
    pub async fn still_there(&self, shell: &Shell) -> Result<(), Failure> {
        self.named.still_there(shell).await
    }
}

/// Does a snapshot see this generation of the tree? If not, what it was may be gone in part.
pub async fn sees(view: &dyn View, generation: u64) -> Result<bool, Fault> {
    let state = tree::state(&Reader::committed(view)).await?;
    Ok(state.snapshots.iter().any(|snapshot| snapshot.generation == generation))
}

/// The share, or the snapshot of it that was taken at this moment.
pub async fn find(
    shell: &Shell,
    account: &AccountName,
    name: &ShareName,
    snapshot: Option<Timestamp>,
) -> Result<Found, Failure> {
    let named: directory::Found<ShareHead> = directory::find(shell, account, name.as_str()).await?;
    let Some(taken) = snapshot else {
        return Ok(Found { head: named.head.clone(), named, at: At::Now });
    };
    let view = shell.engine.view(&partition(account, name)).await?;
    let snapshot = load_snapshot(&Reader::committed(view.as_ref()), named.head.incarnation, taken).await?;
    let ShareSnapshot { head, generation } = snapshot.ok_or(ErrorCode::ShareSnapshotNotFound)?;
    Ok(Found { head, named, at: At::Generation(generation) })
}

pub(super) fn partition(account: &AccountName, name: &ShareName) -> PartitionId {
    key::named_partition(Service::File, account, name.as_str())
}

/// Get Share Properties, Metadata and ACL: the share, or a snapshot of it.
pub async fn read(
    shell: &Shell,
    account: &AccountName,
    name: &ShareName,
    snapshot: Option<Timestamp>,
    expectation: &Expectation,
) -> Result<ShareHead, Failure> {
    let head = find(shell, account, name, snapshot).await?.head;
    expectation.judge(Some(head.current()), shell.clock.now())?;
    Ok(head)
}

/// Get Share Stats: the share, and the sizes of its files together.
pub async fn stats(
    shell: &Shell,
    account: &AccountName,
    name: &ShareName,
    expectation: &Expectation,
) -> Result<(ShareHead, u64), Failure> {
    let found = find(shell, account, name, None).await?;
    expectation.judge(Some(found.head.current()), shell.clock.now())?;
    let used_bytes = used_bytes(shell, found.group()).await?;
    // One that was deleted meanwhile looks empty.
    found.still_there(shell).await?;
    Ok((found.head, used_bytes))
}

async fn used_bytes(shell: &Shell, group: &GroupId) -> Result<u64, Fault> {
    let view = shell.engine.view(&key::tree_partition(group)).await?;
    Ok(tree::state(&Reader::committed(view.as_ref())).await?.used_bytes)
}

/// What Create Share and Set Share Properties set; what is not given stays as it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ShareProperties {
    pub quota_gib: Option<u32>,
    pub tier: Option<ShareTier>,
    pub root_squash: Option<RootSquash>,
    pub snapshot_directory: Option<bool>,
}

impl ShareProperties {
    /// What is about mounts by NFS alone is refused elsewhere.
    fn check(&self, protocol: Protocol) -> Result<(), Refusal> {
        match (protocol, self.root_squash, self.snapshot_directory) {
            (Protocol::Smb, Some(squash), _) => Err(Refusal::bad_header("x-ms-root-squash", squash.name())),
            (Protocol::Smb, None, Some(shown)) => {
                Err(Refusal::bad_header("x-ms-enable-snapshot-virtual-directory-access", shown.to_string()))
            }
            _ => Ok(()),
        }
    }

    fn apply(&self, head: &mut ShareHead, now: Timestamp) {
        if let Some(tier) = self.tier.filter(|tier| *tier != head.tier) {
            head.tier = tier;
            head.tier_changed = Some(now);
        }
        head.quota_gib = self.quota_gib.unwrap_or(head.quota_gib);
        head.root_squash = self.root_squash.unwrap_or(head.root_squash);
        head.snapshot_directory = self.snapshot_directory.unwrap_or(head.snapshot_directory);
    }
}

pub struct CreateShare {
    partition: PartitionId,
    metadata: Metadata,
    protocol: Protocol,
    properties: ShareProperties,
}

impl CreateShare {
    pub fn new(
        account: &AccountName,
        name: &ShareName,
        metadata: Metadata,
        protocol: Protocol,
        properties: ShareProperties,
    ) -> Self {
        CreateShare { partition: partition(account, name), metadata, protocol, properties }
    }
}

impl Command for CreateShare {
    type Records = Option<ShareHead>;
    type Outcome = ShareHead;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        load(reader).await
    }

    fn check(&self, head: &Self::Records, _now: Timestamp) -> Result<(), Refusal> {
        self.properties.check(self.protocol)?;
        if head.is_some() { Err(ErrorCode::ShareAlreadyExists.into()) } else { Ok(()) }
    }

    fn decide(&self, head: Self::Records, moment: Moment) -> Result<(Vec<Write>, ShareHead), Refusal> {
        self.check(&head, moment.now)?;
        let mut head = ShareHead {
            incarnation: moment.id,
            etag: ETag::next(None, moment.tick),
            last_modified: moment.now,
            created: moment.now,
            metadata: self.metadata.clone(),
            quota_gib: SHARE_QUOTA_GIB_DEFAULT,
            tier: ShareTier::default(),
            tier_changed: None,
            protocol: self.protocol,
            root_squash: RootSquash::default(),
            // As the service has it where nobody says otherwise.
            snapshot_directory: self.protocol == Protocol::Nfs,
            policies: Vec::new(),
            lease: None,
            snapshots: 0,
        };
        self.properties.apply(&mut head, moment.now);
        Ok((vec![put(&head)], head))
    }
}

/// What Set Share Metadata, Set Share ACL and Set Share Properties change; the first two replace all there was.
pub enum Change {
    Metadata(Metadata),
    Policies(Vec<StoredPolicy>),
    Properties(ShareProperties),
}

pub struct ChangeShare {
    partition: PartitionId,
    expectation: Expectation,
    change: Change,
}

impl ChangeShare {
    pub fn new(account: &AccountName, name: &ShareName, expectation: Expectation, change: Change) -> Self {
        ChangeShare { partition: partition(account, name), expectation, change }
    }
}

impl Command for ChangeShare {
    type Records = Option<ShareHead>;
    type Outcome = ShareHead;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        load(reader).await
    }

    fn check(&self, head: &Self::Records, now: Timestamp) -> Result<(), Refusal> {
        self.expectation.judge(head.as_ref().map(ShareHead::current), now)?;
        match (&self.change, head) {
            (Change::Properties(properties), Some(head)) => properties.check(head.protocol),
            _ => Ok(()),
        }
    }

    fn decide(&self, head: Self::Records, moment: Moment) -> Result<(Vec<Write>, ShareHead), Refusal> {
        self.check(&head, moment.now)?;
        let mut head = head.ok_or(ErrorCode::ShareNotFound)?;
        head.etag = ETag::next(Some(head.etag), moment.tick);
        head.last_modified = moment.now;
        match &self.change {
            Change::Metadata(metadata) => head.metadata = metadata.clone(),
            Change::Policies(policies) => head.policies = policies.clone(),
            Change::Properties(properties) => properties.apply(&mut head, moment.now),
        }
        Ok((vec![put(&head)], head))
    }
}

/// The share a command is about, or the snapshot of it.
pub struct Subject {
    taken: Option<Timestamp>,
    pub head: Option<ShareHead>,
    pub snapshot: Option<ShareSnapshot>,
}

impl Subject {
    pub async fn load(reader: &Reader<'_>, taken: Option<Timestamp>) -> Result<Subject, Fault> {
        let head: Option<ShareHead> = load(reader).await?;
        let snapshot = match (&head, taken) {
            (Some(head), Some(taken)) => load_snapshot(reader, head.incarnation, taken).await?,
            _ => None,
        };
        Ok(Subject { taken, head, snapshot })
    }

    /// Each has a lease of its own.
    pub fn judge(&self, expectation: &Expectation, now: Timestamp) -> Result<(), Refusal> {
        let head = match (self.taken, &self.head, &self.snapshot) {
            (Some(_), Some(_), None) => return Err(ErrorCode::ShareSnapshotNotFound.into()),
            (Some(_), Some(_), Some(snapshot)) => Some(&snapshot.head),
            (_, head, _) => head.as_ref(),
        };
        expectation.judge(head.map(ShareHead::current), now)
    }
}

/// A lease operation on a share or on a snapshot of it. The ETag stays.
pub struct LeaseShare {
    partition: PartitionId,
    taken: Option<Timestamp>,
    expectation: Expectation,
    action: LeaseAction,
}

impl LeaseShare {
    pub fn new(
        account: &AccountName,
        name: &ShareName,
        taken: Option<Timestamp>,
        expectation: Expectation,
        action: LeaseAction,
    ) -> Self {
        LeaseShare { partition: partition(account, name), taken, expectation, action }
    }
}

impl Command for LeaseShare {
    type Records = Subject;
    type Outcome = (ShareHead, Acted);

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Subject, Fault> {
        Subject::load(reader, self.taken).await
    }

    fn check(&self, subject: &Subject, now: Timestamp) -> Result<(), Refusal> {
        subject.judge(&self.expectation, now)
    }

    fn decide(&self, subject: Subject, moment: Moment) -> Result<(Vec<Write>, Self::Outcome), Refusal> {
        self.check(&subject, moment.now)?;
        let act = |head: ShareHead| {
            let acted = lease::act(head.lease.as_ref(), &self.action, moment.now, moment.id)?;
            Ok::<_, Refusal>((ShareHead { lease: acted.lease.clone(), ..head }, acted))
        };
        match (self.taken, subject.snapshot) {
            (Some(taken), Some(snapshot)) => {
                let (head, acted) = act(snapshot.head)?;
                let snapshot = ShareSnapshot { head, generation: snapshot.generation };
                Ok((vec![put_snapshot(taken, &snapshot)], (snapshot.head, acted)))
            }
            _ => {
                let (head, acted) = act(subject.head.ok_or(ErrorCode::ShareNotFound)?)?;
                Ok((vec![put(&head)], (head, acted)))
            }
        }
    }
}

/// What Delete Share does about the share's snapshots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WithSnapshots {
    /// There must be none.
    #[default]
    Refused,
    /// They go, too, unless one of them is leased.
    Unleased,
    /// They go, whoever leases them.
    All,
}

impl WithSnapshots {
    fn judge<'a>(self, mut snapshots: impl Iterator<Item = &'a ShareHead>, now: Timestamp) -> Result<(), Refusal> {
        let is_leased = |head: &ShareHead| LeaseState::of(head.lease.as_ref(), now).is_locked();
        match self {
            WithSnapshots::Refused if snapshots.next().is_some() => Err(ErrorCode::ShareHasSnapshots.into()),
            WithSnapshots::Unleased if snapshots.any(is_leased) => Err(ErrorCode::DeleteShareWhenSnapshotLeased.into()),
            _ => Ok(()),
        }
    }
}

/// Takes a share away with its snapshots, or keeps it for a while: then they stay where they are.
struct DeleteShare {
    partition: PartitionId,
    expectation: Expectation,
    with: WithSnapshots,
    kept_days: Option<u16>,
}

impl Command for DeleteShare {
    type Records = (Option<ShareHead>, Vec<(Timestamp, ShareSnapshot)>);
    type Outcome = Id;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        let head: Option<ShareHead> = load(reader).await?;
        let snapshots = match &head {
            Some(head) if head.snapshots > 0 => load_all(reader, head.incarnation).await?,
            _ => Vec::new(),
        };
        Ok((head, snapshots))
    }

    fn check(&self, (head, snapshots): &Self::Records, now: Timestamp) -> Result<(), Refusal> {
        self.expectation.judge(head.as_ref().map(ShareHead::current), now)?;
        self.with.judge(snapshots.iter().map(|(_, snapshot)| &snapshot.head), now)
    }

    fn decide(&self, records: Self::Records, moment: Moment) -> Result<(Vec<Write>, Id), Refusal> {
        self.check(&records, moment.now)?;
        let (head, snapshots) = records;
        let head = head.ok_or(ErrorCode::ShareNotFound)?;
        let incarnation = head.incarnation;
        if let Some(days) = self.kept_days {
            return Ok((set_aside(head, days, &moment), incarnation));
        }
        let mut writes = vec![directory::take_away(), directory::tombstone(incarnation)];
        writes.extend(snapshots.iter().map(|(taken, _)| take_away_snapshot(incarnation, *taken)));
        Ok((writes, incarnation))
    }
}

/// Delete Share; `kept_days` says for how long deleted ones can be restored. When it returns the name is free, and nothing in it is open
/// any more. Tells the sizes of its files together, if it is kept.
pub async fn delete(
    shell: &Shell,
    account: &AccountName,
    name: &ShareName,
    expectation: Expectation,
    with: WithSnapshots,
    kept_days: Option<u16>,
) -> Result<Option<u64>, Failure> {
    let command = DeleteShare { partition: partition(account, name), expectation, with, kept_days };
    let incarnation = shell.execute(&command).await?;
    let group = key::contents_group(Service::File, account, incarnation);
    let everything = Scope { file: FileId::ROOT, is_recursive: true };
    let (closed, _) = shell.open_files.force_close_all(&group, everything, None, usize::MAX);
    kept::forget_closed(shell, account, &closed).await?;
    if kept_days.is_some() {
        return Ok(Some(used_bytes(shell, &group).await?));
    }
    directory::finish_deletion(shell, Service::File, account, command.partition, incarnation).await?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Lease;
    use contract::names::LeaseId;

    fn head(protocol: Protocol) -> ShareHead {
        ShareHead {
            incarnation: Id(1),
            etag: ETag(1),
            last_modified: Timestamp::from_ticks(1),
            created: Timestamp::from_ticks(1),
            metadata: Metadata::default(),
            quota_gib: 5,
            tier: ShareTier::Hot,
            tier_changed: None,
            protocol,
            root_squash: RootSquash::default(),
            snapshot_directory: false,
            policies: Vec::new(),
            lease: None,
            snapshots: 0,
        }
    }

    #[test]
    fn properties_that_are_not_given_stay() {
        let now = Timestamp::from_ticks(9);
        let mut share = head(Protocol::Nfs);
        ShareProperties::default().apply(&mut share, now);
        assert_eq!(share, head(Protocol::Nfs));
        let same = ShareProperties { tier: Some(ShareTier::Hot), ..ShareProperties::default() };
        same.apply(&mut share, now);
        assert_eq!(share.tier_changed, None, "it is the same tier");
        let all = ShareProperties {
            quota_gib: Some(6),
            tier: Some(ShareTier::Cool),
            root_squash: Some(RootSquash::AllSquash),
            snapshot_directory: Some(true),
        };
        all.apply(&mut share, now);
        assert_eq!((share.quota_gib, share.tier, share.tier_changed), (6, ShareTier::Cool, Some(now)));
        assert_eq!((share.root_squash, share.snapshot_directory), (RootSquash::AllSquash, true));
    }

    #[test]
    fn what_is_about_nfs_is_refused_elsewhere() {
        let squash = ShareProperties { root_squash: Some(RootSquash::NoRootSquash), ..ShareProperties::default() };
        let shown = ShareProperties { snapshot_directory: Some(false), ..ShareProperties::default() };
        for properties in [squash, shown] {
            assert!(properties.check(Protocol::Nfs).is_ok());
            assert_eq!(properties.check(Protocol::Smb).map_err(|it| it.code), Err(ErrorCode::InvalidHeaderValue));
        }
        assert!(ShareProperties { quota_gib: Some(1), ..ShareProperties::default() }.check(Protocol::Smb).is_ok());
    }

    #[test]
    fn snapshots_that_are_in_the_way() {
        use WithSnapshots::{All, Refused, Unleased};
        let now = Timestamp::from_ticks(9);
        let free = head(Protocol::Smb);
        let lease = Lease { id: LeaseId::from_id(1), seconds: None, expires: None, breaks: None };
        let broken = ShareHead { lease: Some(Lease { breaks: Some(now), ..lease.clone() }), ..free.clone() };
        let leased = ShareHead { lease: Some(lease), ..free.clone() };
        for (with, snapshots, expected) in [
            (Refused, vec![], None),
            (Refused, vec![&free], Some(ErrorCode::ShareHasSnapshots)),
            (Unleased, vec![], None),
            (Unleased, vec![&free, &broken], None),
            (Unleased, vec![&free, &leased], Some(ErrorCode::DeleteShareWhenSnapshotLeased)),
            (All, vec![&free, &leased], None),
        ] {
            let judged = with.judge(snapshots.iter().copied(), now);
            assert_eq!(judged.err().map(|refusal| refusal.code), expected, "{with:?} {}", snapshots.len());
        }
    }
}
