//! Blobs as they are stored, without their content.

use bytes::Bytes;
use contract::names::Metadata;
use engine::Fault;
use env::{Id, Timestamp};

use super::container::{decode_lease, encode_lease};
use super::{FieldReader, FieldWriter, corrupt, read_pair, read_text, read_u64};
use crate::etag::ETag;
use crate::lease::Lease;

const SHAPE: u8 = 2;

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
    Page {
        sequence: u64,
        /// The tick at which its content began to be: two states with the same one can be compared page by page.
        made: u64,
    },
}

impl BlobKind {
    pub fn is_block(self) -> bool {
        self == BlobKind::Block
    }

    pub fn is_page(self) -> bool {
        matches!(self, BlobKind::Page { .. })
    }

    /// Of the same type, whatever else they are.
    pub fn is_like(self, other: BlobKind) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

/// How a block blob is to be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tier {
    Hot,
    Cool,
    Cold,
    Archive,
    Smart,
}

impl Tier {
    pub const ALL: [Tier; 5] = [Tier::Hot, Tier::Cool, Tier::Cold, Tier::Archive, Tier::Smart];

    pub const fn name(self) -> &'static str {
        match self {
            Tier::Hot => "Hot",
            Tier::Cool => "Cool",
            Tier::Cold => "Cold",
            Tier::Archive => "Archive",
            Tier::Smart => "Smart",
        }
    }
}

/// The tier that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredTier {
    pub level: Tier,
    pub since: Timestamp,
    /// On its way out of the archive.
    pub rehydrating: Option<Rehydration>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rehydration {
    pub to: Tier,
    pub high_priority: bool,
    /// When it is over: from then on the blob is in the other tier.
    pub done: Timestamp,
}

/// Until when a blob can neither be changed nor deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Immutability {
    pub until: Timestamp,
    /// Can only be extended.
    pub locked: bool,
}

/// The copy that made a blob, or is making it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopyState {
    pub id: Id,
    pub source: String,
    pub status: CopyStatus,
    pub bytes_done: u64,
    pub bytes: u64,
    pub completed: Option<Timestamp>,
    pub description: Option<String>,
    /// Of an incremental copy: the snapshot of the destination it made last.
    pub incremental: Option<Incremental>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Incremental {
    /// The source's snapshot that was copied last, in ticks.
    pub source: u64,
    /// The snapshot of this blob that holds it, in ticks.
    pub snapshot: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyStatus {
    Pending,
    Success,
    Aborted,
    Failed,
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
    /// The id of this version in ticks, if it was written while versions were kept.
    pub version: Option<u64>,
    /// In the order of their keys.
    pub tags: Vec<(String, String)>,
    /// `None` if no tier was ever asked for.
    pub tier: Option<StoredTier>,
    pub immutability: Option<Immutability>,
    pub legal_hold: bool,
    pub expires: Option<Timestamp>,
    /// When its content was read last, to a day; only where that is tracked.
    pub accessed: Option<Timestamp>,
    pub copy: Option<CopyState>,
}

mod tag {
    pub const ETAG: u8 = 1;
    pub const LAST_MODIFIED: u8 = 2;
    pub const CREATED: u8 = 3;
    pub const CONTENT_BYTES: u8 = 4;
    /// This one and the five after it.
    pub const PROPERTIES: u8 = 5;
    pub const PROPERTIES_END: u8 = 10;
    pub const METADATA: u8 = 11;
    pub const LEASE: u8 = 12;
    pub const IN_RUNS: u8 = 13;
    /// Absent for a block blob.
    pub const APPEND: u8 = 14;
    pub const PAGE: u8 = 15;
    pub const VERSION: u8 = 16;
    pub const TAG: u8 = 17;
    pub const TIER: u8 = 18;
    pub const REHYDRATION: u8 = 19;
    pub const IMMUTABILITY: u8 = 20;
    pub const LEGAL_HOLD: u8 = 21;
    pub const EXPIRES: u8 = 22;
    /// This one and the four after it.
    pub const COPY: u8 = 23;
    pub const COPY_END: u8 = 27;
    pub const ACCESSED: u8 = 28;
}

impl BlobHead {
    pub fn encode(&self) -> Bytes {
        use tag::*;
        let mut fields = FieldWriter::new(SHAPE);
        fields.u64(ETAG, self.etag.0);
        fields.u64(LAST_MODIFIED, self.last_modified.ticks());
        fields.u64(CREATED, self.created.ticks());
        fields.u64(CONTENT_BYTES, self.content_bytes);
        write_properties(&mut fields, PROPERTIES, &self.properties);
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
            BlobKind::Page { sequence, made } => fields.bytes(PAGE, &two(sequence, made)),
        }
        if let Some(version) = self.version {
            fields.u64(VERSION, version);
        }
        self.tags.iter().for_each(|(key, value)| fields.pair(TAG, key, value));
        if let Some(tier) = &self.tier {
            fields.bytes(TIER, &numbered(tier.level as u8, tier.since));
            if let Some(Rehydration { to, high_priority, done }) = tier.rehydrating {
                fields.bytes(REHYDRATION, &[&numbered(to as u8, done)[..], &[u8::from(high_priority)]].concat());
            }
        }
        if let Some(Immutability { until, locked }) = self.immutability {
            fields.bytes(IMMUTABILITY, &numbered(u8::from(locked), until));
        }
        if self.legal_hold {
            fields.bytes(LEGAL_HOLD, &[]);
        }
        if let Some(accessed) = self.accessed {
            fields.u64(ACCESSED, accessed.ticks());
        }
        if let Some(expires) = self.expires {
            fields.u64(EXPIRES, expires.ticks());
        }
        if let Some(copy) = &self.copy {
            write_copy(&mut fields, COPY, copy);
        }
        fields.finish()
    }

    pub fn decode(value: &[u8]) -> Result<BlobHead, Fault> {
        Self::read(value).ok_or_else(|| corrupt("a blob", value))
    }

    fn read(value: &[u8]) -> Option<BlobHead> {
        use tag::*;
        let mut fields = FieldReader::new(SHAPE, value)?;
        let (mut etag, mut last_modified, mut created, mut content_bytes) = (None, None, None, None);
        let (mut metadata, mut legal_hold, mut expires, mut accessed) = (Vec::new(), false, None, None);
        let mut properties = ContentProperties::default();
        let (mut lease, mut in_runs, mut kind, mut version) = (None, false, BlobKind::Block, None);
        let (mut tags, mut tier, mut immutability, mut copy): (_, Option<StoredTier>, _, Option<CopyState>) =
            (Vec::new(), None, None, None);
        while let Some((tag, value)) = fields.next()? {
            match tag {
                ETAG => etag = Some(ETag(read_u64(value)?)),
                LAST_MODIFIED => last_modified = Some(Timestamp::from_ticks(read_u64(value)?)),
                CREATED => created = Some(Timestamp::from_ticks(read_u64(value)?)),
                CONTENT_BYTES => content_bytes = Some(read_u64(value)?),
                PROPERTIES..=PROPERTIES_END => read_property(&mut properties, tag - PROPERTIES, value)?,
                METADATA => metadata.push(read_pair(value)?),
                LEASE => lease = Some(decode_lease(value)?),
                IN_RUNS => in_runs = true,
                APPEND => {
                    let [blocks @ .., sealed] = value else { return None };
                    let blocks = u32::from_be_bytes(blocks.try_into().ok()?);
                    kind = BlobKind::Append { blocks, sealed: *sealed == 1 };
                }
                PAGE => {
                    let (sequence, made) = read_two(value)?;
                    kind = BlobKind::Page { sequence, made };
                }
                VERSION => version = Some(read_u64(value)?),
                TAG => tags.push(read_pair(value)?),
                TIER => {
                    let (level, since) = read_numbered(value)?;
                    tier = Some(StoredTier { level: read_tier(level)?, since, rehydrating: None });
                }
                REHYDRATION => {
                    let [numbered @ .., high_priority] = value else { return None };
                    let (to, done) = read_numbered(numbered)?;
                    let rehydration = Rehydration { to: read_tier(to)?, high_priority: *high_priority == 1, done };
                    tier.as_mut()?.rehydrating = Some(rehydration);
                }
                IMMUTABILITY => {
                    let (locked, until) = read_numbered(value)?;
                    immutability = Some(Immutability { until, locked: locked == 1 });
                }
                LEGAL_HOLD => legal_hold = true,
                ACCESSED => accessed = Some(Timestamp::from_ticks(read_u64(value)?)),
                EXPIRES => expires = Some(Timestamp::from_ticks(read_u64(value)?)),
                COPY..=COPY_END => read_copy_field(&mut copy, tag - COPY, value)?,
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
            version,
            tags,
            tier,
            immutability,
            legal_hold,
            expires,
            accessed,
            copy,
        })
    }
}

/// Six tags from `first` on.
pub(super) fn write_properties(fields: &mut FieldWriter, first: u8, properties: &ContentProperties) {
    fields.text(first, properties.content_type.as_deref());
    fields.text(first + 1, properties.content_encoding.as_deref());
    fields.text(first + 2, properties.content_language.as_deref());
    fields.text(first + 3, properties.content_disposition.as_deref());
    fields.text(first + 4, properties.cache_control.as_deref());
    if let Some(md5) = &properties.content_md5 {
        fields.bytes(first + 5, md5);
    }
}

/// `offset` is the tag's place among the six.
pub(super) fn read_property(properties: &mut ContentProperties, offset: u8, value: &[u8]) -> Option<()> {
    match offset {
        0 => properties.content_type = Some(read_text(value)?),
        1 => properties.content_encoding = Some(read_text(value)?),
        2 => properties.content_language = Some(read_text(value)?),
        3 => properties.content_disposition = Some(read_text(value)?),
        4 => properties.cache_control = Some(read_text(value)?),
        5 => properties.content_md5 = Some(value.try_into().ok()?),
        _ => return None,
    }
    Some(())
}

/// Five tags from `first` on; the first of them begins the copy.
pub(super) fn write_copy(fields: &mut FieldWriter, first: u8, copy: &CopyState) {
    let id = copy.id.0.to_be_bytes();
    fields.bytes(first, &[&[copy.status as u8], &id[..], &two(copy.bytes_done, copy.bytes)].concat());
    fields.bytes(first + 1, copy.source.as_bytes());
    if let Some(completed) = copy.completed {
        fields.u64(first + 2, completed.ticks());
    }
    fields.text(first + 3, copy.description.as_deref());
    if let Some(Incremental { source, snapshot }) = copy.incremental {
        fields.bytes(first + 4, &two(source, snapshot));
    }
}

/// `offset` is the tag's place among the five.
pub(super) fn read_copy_field(copy: &mut Option<CopyState>, offset: u8, value: &[u8]) -> Option<()> {
    match offset {
        0 => *copy = Some(read_copy(value)?),
        1 => copy.as_mut()?.source = read_text(value)?,
        2 => copy.as_mut()?.completed = Some(Timestamp::from_ticks(read_u64(value)?)),
        3 => copy.as_mut()?.description = Some(read_text(value)?),
        4 => {
            let (source, snapshot) = read_two(value)?;
            copy.as_mut()?.incremental = Some(Incremental { source, snapshot });
        }
        _ => return None,
    }
    Some(())
}

pub(super) fn two(a: u64, b: u64) -> [u8; 16] {
    (u128::from(a) << 64 | u128::from(b)).to_be_bytes()
}

pub(super) fn read_two(value: &[u8]) -> Option<(u64, u64)> {
    let (a, b) = value.split_at_checked(8)?;
    Some((read_u64(a)?, read_u64(b)?))
}

/// A small number and a moment.
fn numbered(number: u8, moment: Timestamp) -> Vec<u8> {
    [&[number][..], &moment.ticks().to_be_bytes()].concat()
}

fn read_numbered(value: &[u8]) -> Option<(u8, Timestamp)> {
    let (number, ticks) = value.split_first()?;
    Some((*number, Timestamp::from_ticks(read_u64(ticks)?)))
}

fn read_tier(number: u8) -> Option<Tier> {
    Tier::ALL.into_iter().find(|tier| *tier as u8 == number)
}

fn read_copy(value: &[u8]) -> Option<CopyState> {
    let (status, rest) = value.split_first()?;
    let (id, numbers) = rest.split_at_checked(16)?;
    let (bytes_done, bytes) = read_two(numbers)?;
    use CopyStatus::*;
    Some(CopyState {
        id: Id(u128::from_be_bytes(id.try_into().ok()?)),
        source: String::new(),
        status: [Pending, Success, Aborted, Failed].into_iter().find(|known| *known as u8 == *status)?,
        bytes_done,
        bytes,
        completed: None,
        description: None,
        incremental: None,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use contract::names::LeaseId;

    /// Everything a head can have.
    pub(crate) fn full() -> BlobHead {
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
            version: Some(15),
            tags: vec![("a".into(), "b".into()), ("c".into(), String::new())],
            tier: Some(StoredTier {
                level: Tier::Archive,
                since: Timestamp::from_ticks(16),
                rehydrating: Some(Rehydration {
                    to: Tier::Smart,
                    high_priority: true,
                    done: Timestamp::from_ticks(17),
                }),
            }),
            immutability: Some(Immutability { until: Timestamp::from_ticks(18), locked: true }),
            legal_hold: true,
            expires: Some(Timestamp::from_ticks(19)),
            accessed: Some(Timestamp::from_ticks(26)),
            copy: Some(CopyState {
                id: Id(20),
                source: "http://there/box/b".into(),
                status: CopyStatus::Failed,
                bytes_done: 21,
                bytes: 22,
                completed: Some(Timestamp::from_ticks(23)),
                description: Some("why".into()),
                incremental: Some(Incremental { source: 24, snapshot: 25 }),
            }),
        }
    }

    /// As a plain put makes it.
    pub(crate) fn plain() -> BlobHead {
        BlobHead {
            kind: BlobKind::Block,
            in_runs: false,
            properties: Default::default(),
            metadata: Default::default(),
            lease: None,
            version: None,
            tags: Vec::new(),
            tier: None,
            immutability: None,
            legal_hold: false,
            expires: None,
            accessed: None,
            copy: None,
            ..full()
        }
    }

    #[test]
    fn shapes_round_trip() {
        let page = BlobHead { kind: BlobKind::Page { sequence: u64::MAX, made: 7 }, ..plain() };
        for head in [full(), plain(), page] {
            assert_eq!(BlobHead::decode(&head.encode()).expect("what was written"), head);
        }
    }

    #[test]
    fn damage_is_a_fault_and_never_a_panic() {
        let whole = full().encode();
        for end in 0..whole.len() {
            let _ = BlobHead::decode(&whole[..end]);
        }
        for at in 0..whole.len() {
            let mut bytes = whole.to_vec();
            bytes[at] ^= 0x80;
            let _ = BlobHead::decode(&bytes);
        }
        assert!(BlobHead::decode(b"").is_err());
    }

    /// The bytes of a shape never change: what was written by the first release is read by every later one.
    #[test]
    fn shape_is_frozen() {
        let expected: &[u8] = &[
            2, 1, 8, 0x08, 0xD6, 0xD4, 0x18, 0xB6, 0xC0, 0x86, 0x63, 2, 8, 0, 0, 0, 0, 0, 0, 0, 12, 3, 8, 0, 0, 0, 0,
            0, 0, 0, 11, 4, 8, 255, 255, 255, 255, 255, 255, 255, 255,
        ];
        assert_eq!(plain().encode().as_ref(), expected);
    }
}
