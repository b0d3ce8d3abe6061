//! The first shapes of what is stored. A later shape gets its own file and a migration from this one.

use bytes::Bytes;
use contract::names::{LeaseId, Metadata};
use engine::Fault;
use env::{Id, Timestamp};

use super::{FieldReader, FieldWriter, corrupt, read_pair, read_text, read_u64};
use crate::etag::ETag;
use crate::lease::Lease;

const CONTAINER_SHAPE: u8 = 1;
const BLOB_SHAPE: u8 = 2;

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
fn encode_lease(lease: &Lease) -> Vec<u8> {
    let ticks = |moment: Option<Timestamp>| moment.map_or(0, Timestamp::ticks).to_be_bytes();
    let seconds = lease.seconds.unwrap_or(0).to_be_bytes();
    [&seconds[..], &ticks(lease.expires), &ticks(lease.breaks), lease.id.as_str().as_bytes()].concat()
}

fn decode_lease(value: &[u8]) -> Option<Lease> {
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

/// What the client said about the content; stored and given back, never judged.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ContentProperties {
    pub content_type: Option<String>,
    pub content_encoding: Option<String>,
    pub content_language: Option<String>,
    pub content_disposition: Option<String>,
    pub cache_control: Option<String>,
    pub content_md5: Option<[u8; 16]>,
}

/// What can be done to a blob's content.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BlobKind {
    #[default]
    Block,
    Append {
        blocks: u32,
        sealed: bool,
    },
}

impl BlobKind {
    pub fn is_block(self) -> bool {
        self == BlobKind::Block
    }
}

/// A blob, without its content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlobHead {
    pub etag: ETag,
    pub last_modified: Timestamp,
    pub created: Timestamp,
    pub content_bytes: u64,
    pub kind: BlobKind,
    /// The body is in runs, see `blob/body.rs`.
    pub in_runs: bool,
    pub properties: ContentProperties,
    pub metadata: Metadata,
    pub lease: Option<Lease>,
}

mod blob_tag {
    pub const ETAG: u8 = 1;
    pub const LAST_MODIFIED: u8 = 2;
    pub const CREATED: u8 = 3;
    pub const CONTENT_BYTES: u8 = 4;
    pub const CONTENT_TYPE: u8 = 5;
    pub const CONTENT_ENCODING: u8 = 6;
    pub const CONTENT_LANGUAGE: u8 = 7;
    pub const CONTENT_DISPOSITION: u8 = 8;
    pub const CACHE_CONTROL: u8 = 9;
    pub const CONTENT_MD5: u8 = 10;
    pub const METADATA: u8 = 11;
    pub const LEASE: u8 = 12;
    pub const IN_RUNS: u8 = 13;
    /// Absent for a block blob.
    pub const APPEND: u8 = 14;
}

impl BlobHead {
    pub fn encode(&self) -> Bytes {
        use blob_tag::*;
        let mut fields = FieldWriter::new(BLOB_SHAPE);
        fields.u64(ETAG, self.etag.0);
        fields.u64(LAST_MODIFIED, self.last_modified.ticks());
        fields.u64(CREATED, self.created.ticks());
        fields.u64(CONTENT_BYTES, self.content_bytes);
        fields.text(CONTENT_TYPE, self.properties.content_type.as_deref());
        fields.text(CONTENT_ENCODING, self.properties.content_encoding.as_deref());
        fields.text(CONTENT_LANGUAGE, self.properties.content_language.as_deref());
        fields.text(CONTENT_DISPOSITION, self.properties.content_disposition.as_deref());
        fields.text(CACHE_CONTROL, self.properties.cache_control.as_deref());
        if let Some(md5) = &self.properties.content_md5 {
            fields.bytes(CONTENT_MD5, md5);
        }
        self.metadata.iter().for_each(|(name, value)| fields.pair(METADATA, name, value));
        if let Some(lease) = &self.lease {
            fields.bytes(LEASE, &encode_lease(lease));
        }
        if self.in_runs {
            fields.bytes(IN_RUNS, &[]);
        }
        match self.kind {
            BlobKind::Block => {}
            BlobKind::Append { blocks, sealed } => {
                fields.bytes(APPEND, &[&blocks.to_be_bytes()[..], &[u8::from(sealed)]].concat());
            }
        }
        fields.finish()
    }

    pub fn decode(value: &[u8]) -> Result<BlobHead, Fault> {
        Self::read(value).ok_or_else(|| corrupt("a blob", value))
    }

    fn read(value: &[u8]) -> Option<BlobHead> {
        use blob_tag::*;
        let mut fields = FieldReader::new(BLOB_SHAPE, value)?;
        let (mut etag, mut last_modified, mut created, mut content_bytes) = (None, None, None, None);
        let mut properties = ContentProperties::default();
        let (mut lease, mut in_runs, mut kind) = (None, false, BlobKind::Block);
        let mut metadata = Vec::new();
        while let Some((tag, value)) = fields.next()? {
            match tag {
                ETAG => etag = Some(ETag(read_u64(value)?)),
                LAST_MODIFIED => last_modified = Some(Timestamp::from_ticks(read_u64(value)?)),
                CREATED => created = Some(Timestamp::from_ticks(read_u64(value)?)),
                CONTENT_BYTES => content_bytes = Some(read_u64(value)?),
                CONTENT_TYPE => properties.content_type = Some(read_text(value)?),
                CONTENT_ENCODING => properties.content_encoding = Some(read_text(value)?),
                CONTENT_LANGUAGE => properties.content_language = Some(read_text(value)?),
                CONTENT_DISPOSITION => properties.content_disposition = Some(read_text(value)?),
                CACHE_CONTROL => properties.cache_control = Some(read_text(value)?),
                CONTENT_MD5 => properties.content_md5 = Some(value.try_into().ok()?),
                METADATA => metadata.push(read_pair(value)?),
                LEASE => lease = Some(decode_lease(value)?),
                IN_RUNS => in_runs = true,
                APPEND => {
                    let [blocks @ .., sealed] = value else { return None };
                    let blocks = u32::from_be_bytes(blocks.try_into().ok()?);
                    kind = BlobKind::Append { blocks, sealed: *sealed == 1 };
                }
                _ => return None,
            }
        }
        Some(BlobHead {
            etag: etag?,
            last_modified: last_modified?,
            created: created?,
            content_bytes: content_bytes?,
            kind,
            in_runs,
            properties,
            metadata: Metadata::from_stored(metadata),
            lease,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob() -> BlobHead {
        BlobHead {
            etag: ETag(0x8D6D418B6C08663),
            last_modified: Timestamp::from_ticks(12),
            created: Timestamp::from_ticks(11),
            content_bytes: u64::MAX,
            kind: BlobKind::Append { blocks: 50_000, sealed: true },
            in_runs: true,
            properties: ContentProperties {
                content_type: Some("text/plain".into()),
                content_encoding: Some(String::new()),
                content_language: None,
                content_disposition: Some("x".repeat(300)),
                cache_control: Some("no-store".into()),
                content_md5: Some([7; 16]),
            },
            metadata: Metadata::from_stored(vec![("Hello".into(), "World".into()), ("empty".into(), String::new())]),
            lease: Some(Lease {
                id: LeaseId::from_id(5),
                seconds: Some(15),
                expires: Some(Timestamp::from_ticks(13)),
                breaks: Some(Timestamp::from_ticks(14)),
            }),
        }
    }

    /// As a plain put makes it.
    fn plain() -> BlobHead {
        BlobHead {
            kind: BlobKind::Block,
            in_runs: false,
            properties: Default::default(),
            metadata: Default::default(),
            lease: None,
            ..blob()
        }
    }

    #[test]
    fn shapes_round_trip() {
        let bare = BlobHead { kind: BlobKind::Block, ..plain() };
        for head in [blob(), bare] {
            assert_eq!(BlobHead::decode(&head.encode()).expect("what was written"), head);
        }
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
        let whole = blob().encode();
        for end in 0..whole.len() {
            let _ = BlobHead::decode(&whole[..end]);
        }
        for at in 0..whole.len() {
            let mut bytes = whole.to_vec();
            bytes[at] ^= 0x80;
            let _ = BlobHead::decode(&bytes);
            let _ = ContainerHead::decode(&bytes);
        }
        assert!(BlobHead::decode(b"").is_err());
        assert!(ContainerHead::decode(&whole).is_err());
    }

    /// The bytes of shape 1 never change: what was written by the first release is read by every later one.
    #[test]
    fn shape_is_frozen() {
        let head = plain();
        let expected: &[u8] = &[
            2, 1, 8, 0x08, 0xD6, 0xD4, 0x18, 0xB6, 0xC0, 0x86, 0x63, 2, 8, 0, 0, 0, 0, 0, 0, 0, 12, 3, 8, 0, 0, 0, 0,
            0, 0, 0, 11, 4, 8, 255, 255, 255, 255, 255, 255, 255, 255,
        ];
        assert_eq!(head.encode().as_ref(), expected);
    }
}
