//! What is stored of shares: the share itself, its snapshots, and what its tree keeps of itself.

use bytes::Bytes;
use contract::limits::SHARE_QUOTA_GIB_DEFAULT;
use contract::names::Metadata;
use engine::Fault;
use env::{Id, Timestamp};

use super::blob::{read_two, two};
use super::container::{StoredPolicy, decode_lease, encode_lease, read_policy_field, write_policies};
use super::{FieldReader, FieldWriter, corrupt, read_pair, read_u64};
use crate::etag::ETag;
use crate::lease::Lease;

const SHARE_SHAPE: u8 = 0x30;
const SNAPSHOT_SHAPE: u8 = 0x31;
const STATE_SHAPE: u8 = 0x32;

/// A share, without its files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShareHead {
    pub incarnation: Id,
    pub etag: ETag,
    pub last_modified: Timestamp,
    pub created: Timestamp,
    pub metadata: Metadata,
    pub quota_gib: u32,
    pub tier: ShareTier,
    /// When another tier was asked for last.
    pub tier_changed: Option<Timestamp>,
    pub protocol: Protocol,
    pub root_squash: RootSquash,
    /// Are snapshots to be found in `.snapshots`? Of NFS shares alone.
    pub snapshot_directory: bool,
    pub policies: Vec<StoredPolicy>,
    pub lease: Option<Lease>,
    /// How many snapshots it has.
    pub snapshots: u32,
}

/// How a share is to be kept; said back, nothing more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ShareTier {
    #[default]
    TransactionOptimized,
    Hot,
    Cool,
    Premium,
}

impl ShareTier {
    pub const ALL: [ShareTier; 4] =
        [ShareTier::TransactionOptimized, ShareTier::Hot, ShareTier::Cool, ShareTier::Premium];

    pub const fn name(self) -> &'static str {
        match self {
            ShareTier::TransactionOptimized => "TransactionOptimized",
            ShareTier::Hot => "Hot",
            ShareTier::Cool => "Cool",
            ShareTier::Premium => "Premium",
        }
    }
}

/// How a share is mounted, and so what its files can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocol {
    #[default]
    Smb,
    /// Owner, group and mode instead of attributes and permissions; hard and symbolic links.
    Nfs,
}

impl Protocol {
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Smb => "SMB",
            Protocol::Nfs => "NFS",
        }
    }
}

/// Who is nobody on an NFS mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RootSquash {
    #[default]
    NoRootSquash,
    RootSquash,
    AllSquash,
}

impl RootSquash {
    pub const ALL: [RootSquash; 3] = [RootSquash::NoRootSquash, RootSquash::RootSquash, RootSquash::AllSquash];

    pub const fn name(self) -> &'static str {
        match self {
            RootSquash::NoRootSquash => "NoRootSquash",
            RootSquash::RootSquash => "RootSquash",
            RootSquash::AllSquash => "AllSquash",
        }
    }
}

mod share_tag {
    pub const INCARNATION: u8 = 1;
    pub const ETAG: u8 = 2;
    pub const LAST_MODIFIED: u8 = 3;
    pub const CREATED: u8 = 4;
    pub const METADATA: u8 = 5;
    pub const QUOTA: u8 = 6;
    pub const TIER: u8 = 7;
    pub const TIER_CHANGED: u8 = 8;
    pub const NFS: u8 = 9;
    pub const ROOT_SQUASH: u8 = 10;
    pub const SNAPSHOT_DIRECTORY: u8 = 11;
    pub const LEASE: u8 = 12;
    pub const SNAPSHOTS: u8 = 13;
    /// This one and the three after it.
    pub const POLICIES: u8 = 20;
}

impl ShareHead {
    pub fn encode(&self) -> Bytes {
        use share_tag::*;
        let mut fields = FieldWriter::new(SHARE_SHAPE);
        fields.bytes(INCARNATION, &self.incarnation.0.to_be_bytes());
        fields.u64(ETAG, self.etag.0);
        fields.u64(LAST_MODIFIED, self.last_modified.ticks());
        fields.u64(CREATED, self.created.ticks());
        self.metadata.iter().for_each(|(name, value)| fields.pair(METADATA, name, value));
        fields.u64(QUOTA, self.quota_gib.into());
        fields.bytes(TIER, &[self.tier as u8]);
        if let Some(changed) = self.tier_changed {
            fields.u64(TIER_CHANGED, changed.ticks());
        }
        if self.protocol == Protocol::Nfs {
            fields.bytes(NFS, &[]);
            fields.bytes(ROOT_SQUASH, &[self.root_squash as u8]);
        }
        if self.snapshot_directory {
            fields.bytes(SNAPSHOT_DIRECTORY, &[]);
        }
        if let Some(lease) = &self.lease {
            fields.bytes(LEASE, &encode_lease(lease));
        }
        if self.snapshots > 0 {
            fields.u64(SNAPSHOTS, self.snapshots.into());
        }
        write_policies(&mut fields, POLICIES, &self.policies);
        fields.finish()
    }

    pub fn decode(value: &[u8]) -> Result<ShareHead, Fault> {
        Self::read(value).ok_or_else(|| corrupt("a share", value))
    }

    fn read(value: &[u8]) -> Option<ShareHead> {
        use share_tag::*;
        let mut fields = FieldReader::new(SHARE_SHAPE, value)?;
        let (mut incarnation, mut etag, mut last_modified, mut created) = (None, None, None, None);
        let (mut metadata, mut policies, mut lease) = (Vec::new(), Vec::new(), None);
        let (mut quota_gib, mut tier, mut tier_changed) = (SHARE_QUOTA_GIB_DEFAULT, ShareTier::default(), None);
        let (mut protocol, mut root_squash) = (Protocol::Smb, RootSquash::default());
        let (mut snapshot_directory, mut snapshots) = (false, 0);
        while let Some((tag, value)) = fields.next()? {
            match tag {
                INCARNATION => incarnation = Some(Id(u128::from_be_bytes(value.try_into().ok()?))),
                ETAG => etag = Some(ETag(read_u64(value)?)),
                LAST_MODIFIED => last_modified = Some(Timestamp::from_ticks(read_u64(value)?)),
                CREATED => created = Some(Timestamp::from_ticks(read_u64(value)?)),
                METADATA => metadata.push(read_pair(value)?),
                QUOTA => quota_gib = read_u64(value)?.try_into().ok()?,
                TIER => tier = ShareTier::ALL.into_iter().find(|known| [*known as u8] == value)?,
                TIER_CHANGED => tier_changed = Some(Timestamp::from_ticks(read_u64(value)?)),
                NFS => protocol = Protocol::Nfs,
                ROOT_SQUASH => root_squash = RootSquash::ALL.into_iter().find(|known| [*known as u8] == value)?,
                SNAPSHOT_DIRECTORY => snapshot_directory = true,
                LEASE => lease = Some(decode_lease(value)?),
                SNAPSHOTS => snapshots = read_u64(value)?.try_into().ok()?,
                _ => read_policy_field(&mut policies, tag.checked_sub(POLICIES)?, value)?,
            }
        }
        Some(ShareHead {
            incarnation: incarnation?,
            etag: etag?,
            last_modified: last_modified?,
            created: created?,
            metadata: Metadata::from_stored(metadata),
            quota_gib,
            tier,
            tier_changed,
            protocol,
            root_squash,
            snapshot_directory,
            policies,
            lease,
            snapshots,
        })
    }
}

/// A snapshot of a share: the share as it was, and which state of the tree it sees.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShareSnapshot {
    /// The lease is the snapshot's own.
    pub head: ShareHead,
    pub generation: u64,
}

mod snapshot_tag {
    pub const HEAD: u8 = 1;
    pub const GENERATION: u8 = 2;
}

impl ShareSnapshot {
    pub fn encode(&self) -> Bytes {
        let mut fields = FieldWriter::new(SNAPSHOT_SHAPE);
        fields.bytes(snapshot_tag::HEAD, &self.head.encode());
        fields.u64(snapshot_tag::GENERATION, self.generation);
        fields.finish()
    }

    pub fn decode(value: &[u8]) -> Result<ShareSnapshot, Fault> {
        Self::read(value).ok_or_else(|| corrupt("a share's snapshot", value))
    }

    fn read(value: &[u8]) -> Option<ShareSnapshot> {
        let mut fields = FieldReader::new(SNAPSHOT_SHAPE, value)?;
        let (mut head, mut generation) = (None, None);
        while let Some((tag, value)) = fields.next()? {
            match tag {
                snapshot_tag::HEAD => head = Some(ShareHead::decode(value).ok()?),
                snapshot_tag::GENERATION => generation = Some(read_u64(value)?),
                _ => return None,
            }
        }
        Some(ShareSnapshot { head: head?, generation: generation? })
    }
}

/// What a tree keeps of itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ShareState {
    /// What is written now belongs to this one. Each snapshot begins a new one.
    pub generation: u64,
    /// Snapshots that see earlier generations, oldest first.
    pub snapshots: Vec<SeenBy>,
    /// The sizes of all files together.
    pub used_bytes: u64,
    /// The newest snapshot there ever was, for no two have the same id.
    pub last_snapshot: Option<Timestamp>,
}

/// A snapshot, as the tree knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeenBy {
    /// The last generation it sees.
    pub generation: u64,
    /// Its id: when it was taken.
    pub taken: Timestamp,
}

mod state_tag {
    pub const GENERATION: u8 = 1;
    pub const SNAPSHOT: u8 = 2;
    pub const USED_BYTES: u8 = 3;
    pub const LAST_SNAPSHOT: u8 = 4;
}

impl ShareState {
    pub fn encode(&self) -> Bytes {
        use state_tag::*;
        let mut fields = FieldWriter::new(STATE_SHAPE);
        fields.u64(GENERATION, self.generation);
        for snapshot in &self.snapshots {
            fields.bytes(SNAPSHOT, &two(snapshot.generation, snapshot.taken.ticks()));
        }
        fields.u64(USED_BYTES, self.used_bytes);
        if let Some(last) = self.last_snapshot {
            fields.u64(LAST_SNAPSHOT, last.ticks());
        }
        fields.finish()
    }

    pub fn decode(value: &[u8]) -> Result<ShareState, Fault> {
        Self::read(value).ok_or_else(|| corrupt("the state of a share", value))
    }

    fn read(value: &[u8]) -> Option<ShareState> {
        use state_tag::*;
        let mut fields = FieldReader::new(STATE_SHAPE, value)?;
        let mut state = ShareState::default();
        while let Some((tag, value)) = fields.next()? {
            match tag {
                GENERATION => state.generation = read_u64(value)?,
                SNAPSHOT => {
                    let (generation, taken) = read_two(value)?;
                    state.snapshots.push(SeenBy { generation, taken: Timestamp::from_ticks(taken) });
                }
                USED_BYTES => state.used_bytes = read_u64(value)?,
                LAST_SNAPSHOT => state.last_snapshot = Some(Timestamp::from_ticks(read_u64(value)?)),
                _ => return None,
            }
        }
        Some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::names::LeaseId;

    #[test]
    fn shapes_round_trip() {
        let moment = Timestamp::from_ticks;
        let full = ShareHead {
            incarnation: Id(7),
            etag: ETag(1),
            last_modified: moment(2),
            created: moment(3),
            metadata: Metadata::from_stored(vec![("a".into(), "b".into())]),
            quota_gib: 17,
            tier: ShareTier::Cool,
            tier_changed: Some(moment(4)),
            protocol: Protocol::Nfs,
            root_squash: RootSquash::AllSquash,
            snapshot_directory: true,
            policies: vec![StoredPolicy { id: "x".into(), permissions: Some("r".into()), ..StoredPolicy::default() }],
            lease: Some(Lease { id: LeaseId::from_id(6), seconds: None, expires: None, breaks: None }),
            snapshots: 200,
        };
        let plain = ShareHead {
            metadata: Metadata::default(),
            tier_changed: None,
            protocol: Protocol::Smb,
            root_squash: RootSquash::NoRootSquash,
            snapshot_directory: false,
            policies: Vec::new(),
            lease: None,
            snapshots: 0,
            ..full.clone()
        };
        for head in [full, plain] {
            assert_eq!(ShareHead::decode(&head.encode()).expect("what was written"), head);
            let snapshot = ShareSnapshot { head, generation: u64::MAX };
            assert_eq!(ShareSnapshot::decode(&snapshot.encode()).expect("what was written"), snapshot);
        }
        let seen_by = |generation, ticks| SeenBy { generation, taken: moment(ticks) };
        let snapshots = vec![seen_by(1, 10), seen_by(5, 20)];
        let state = ShareState { generation: 6, snapshots, used_bytes: 1 << 42, last_snapshot: Some(moment(30)) };
        assert_eq!(ShareState::decode(&state.encode()).expect("what was written"), state);
    }
}
