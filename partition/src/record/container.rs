//! Containers as they are stored, and what they share with other heads: access policies, leases.

use bytes::Bytes;
use contract::names::{LeaseId, Metadata};
use engine::Fault;
use env::{Id, Timestamp};

use super::{FieldReader, FieldWriter, corrupt, read_pair, read_text, read_u64};
use crate::etag::ETag;
use crate::lease::Lease;

const CONTAINER_SHAPE: u8 = 1;

/// A container, without its blobs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContainerHead {
    pub incarnation: Id,
    pub etag: ETag,
    pub last_modified: Timestamp,
    pub metadata: Metadata,
    pub public_access: PublicAccess,
    pub policies: Vec<StoredPolicy>,
    pub lease: Option<Lease>,
}

/// Who may read a container without a credential.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PublicAccess {
    #[default]
    Nobody,
    /// Its blobs, by name.
    Blob,
    /// Its blobs, its properties and its listing.
    Container,
}

/// A stored access policy: what tokens that name it leave to it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StoredPolicy {
    pub id: String,
    pub start: Option<Timestamp>,
    pub expiry: Option<Timestamp>,
    pub permissions: Option<String>,
}

/// Four tags from `first` on: the id, which begins a policy, then its start, expiry and permissions where they are given.
pub(super) fn write_policies(fields: &mut FieldWriter, first: u8, policies: &[StoredPolicy]) {
    for policy in policies {
        fields.bytes(first, policy.id.as_bytes());
        if let Some(start) = policy.start {
            fields.u64(first + 1, start.ticks());
        }
        if let Some(expiry) = policy.expiry {
            fields.u64(first + 2, expiry.ticks());
        }
        fields.text(first + 3, policy.permissions.as_deref());
    }
}

/// `offset` is the tag's place among the four.
pub(super) fn read_policy_field(policies: &mut Vec<StoredPolicy>, offset: u8, value: &[u8]) -> Option<()> {
    match offset {
        0 => policies.push(StoredPolicy { id: read_text(value)?, ..StoredPolicy::default() }),
        1 => policies.last_mut()?.start = Some(Timestamp::from_ticks(read_u64(value)?)),
        2 => policies.last_mut()?.expiry = Some(Timestamp::from_ticks(read_u64(value)?)),
        3 => policies.last_mut()?.permissions = Some(read_text(value)?),
        _ => return None,
    }
    Some(())
}

mod container_tag {
    pub const INCARNATION: u8 = 1;
    pub const ETAG: u8 = 2;
    pub const LAST_MODIFIED: u8 = 3;
    pub const METADATA: u8 = 4;
    pub const PUBLIC_ACCESS: u8 = 5;
    /// This one and the three after it.
    pub const POLICIES: u8 = 6;
    pub const LEASE: u8 = 10;
}

impl ContainerHead {
    pub fn encode(&self) -> Bytes {
        use container_tag::*;
        let mut fields = FieldWriter::new(CONTAINER_SHAPE);
        fields.bytes(INCARNATION, &self.incarnation.0.to_be_bytes());
        fields.u64(ETAG, self.etag.0);
        fields.u64(LAST_MODIFIED, self.last_modified.ticks());
        self.metadata.iter().for_each(|(name, value)| fields.pair(METADATA, name, value));
        match self.public_access {
            PublicAccess::Nobody => {}
            PublicAccess::Blob => fields.bytes(PUBLIC_ACCESS, &[1]),
            PublicAccess::Container => fields.bytes(PUBLIC_ACCESS, &[2]),
        }
        write_policies(&mut fields, POLICIES, &self.policies);
        if let Some(lease) = &self.lease {
            fields.bytes(LEASE, &encode_lease(lease));
        }
        fields.finish()
    }

    pub fn decode(value: &[u8]) -> Result<ContainerHead, Fault> {
        Self::read(value).ok_or_else(|| corrupt("a container", value))
    }

    fn read(value: &[u8]) -> Option<ContainerHead> {
        use container_tag::*;
        let mut fields = FieldReader::new(CONTAINER_SHAPE, value)?;
        let (mut incarnation, mut etag, mut last_modified) = (None, None, None);
        let mut metadata = Vec::new();
        let mut public_access = PublicAccess::Nobody;
        let mut policies: Vec<StoredPolicy> = Vec::new();
        let mut lease = None;
        while let Some((tag, value)) = fields.next()? {
            match tag {
                INCARNATION => incarnation = Some(Id(u128::from_be_bytes(value.try_into().ok()?))),
                ETAG => etag = Some(ETag(read_u64(value)?)),
                LAST_MODIFIED => last_modified = Some(Timestamp::from_ticks(read_u64(value)?)),
                METADATA => metadata.push(read_pair(value)?),
                PUBLIC_ACCESS => {
                    public_access = match value {
                        [1] => PublicAccess::Blob,
                        [2] => PublicAccess::Container,
                        _ => return None,
                    }
                }
                LEASE => lease = Some(decode_lease(value)?),
                _ => read_policy_field(&mut policies, tag.checked_sub(POLICIES)?, value)?,
            }
        }
        Some(ContainerHead {
            incarnation: incarnation?,
            etag: etag?,
            last_modified: last_modified?,
            metadata: Metadata::from_stored(metadata),
            public_access,
            policies,
            lease,
        })
    }
}

/// Seconds of a fixed lease (0: without end), when it ends, when it breaks (0: not), and its id as text.
pub(super) fn encode_lease(lease: &Lease) -> Vec<u8> {
    let ticks = |moment: Option<Timestamp>| moment.map_or(0, Timestamp::ticks).to_be_bytes();
    let seconds = lease.seconds.unwrap_or(0).to_be_bytes();
    [&seconds[..], &ticks(lease.expires), &ticks(lease.breaks), lease.id.as_str().as_bytes()].concat()
}

pub(super) fn decode_lease(value: &[u8]) -> Option<Lease> {
    let (seconds, rest) = value.split_at_checked(4)?;
    let (expires, rest) = rest.split_at_checked(8)?;
    let (breaks, id) = rest.split_at_checked(8)?;
    let seconds = u32::from_be_bytes(seconds.try_into().ok()?);
    let moment = |value: &[u8]| Some(Some(read_u64(value)?).filter(|ticks| *ticks != 0).map(Timestamp::from_ticks));
    Some(Lease {
        id: LeaseId::parse(std::str::from_utf8(id).ok()?)?,
        seconds: (seconds != 0).then_some(seconds),
        expires: moment(expires)?,
        breaks: moment(breaks)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_round_trip() {
        let container = ContainerHead {
            incarnation: Id(u128::MAX - 1),
            etag: ETag(1),
            last_modified: Timestamp::from_ticks(2),
            metadata: Metadata::from_stored(vec![("a".into(), "b".into())]),
            public_access: PublicAccess::Container,
            policies: vec![
                StoredPolicy { id: "empty".into(), ..StoredPolicy::default() },
                StoredPolicy {
                    id: "full".into(),
                    start: Some(Timestamp::from_ticks(1)),
                    expiry: Some(Timestamp::from_ticks(2)),
                    permissions: Some("rl".into()),
                },
            ],
            lease: Some(Lease { id: LeaseId::from_id(6), seconds: None, expires: None, breaks: None }),
        };
        let private = ContainerHead {
            public_access: PublicAccess::Nobody,
            policies: Vec::new(),
            lease: None,
            ..container.clone()
        };
        for container in [container, private] {
            assert_eq!(ContainerHead::decode(&container.encode()).expect("what was written"), container);
        }
    }

    #[test]
    fn damage_is_a_fault_and_never_a_panic() {
        assert!(ContainerHead::decode(b"").is_err());
        for at in 0..64 {
            let _ = ContainerHead::decode(&[[CONTAINER_SHAPE, 10, at].as_slice(), &vec![at; usize::from(at)]].concat());
        }
    }
}
