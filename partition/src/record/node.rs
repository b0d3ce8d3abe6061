//! What is stored of a share's tree: the names in a directory, and what they name.

use bytes::Bytes;
use contract::attributes::FileAttributes;
use contract::names::Metadata;
use engine::Fault;
use env::Timestamp;

use super::blob::{ContentProperties, CopyState, read_copy_field, read_property, write_copy, write_properties};
use super::container::{decode_lease, encode_lease};
use super::{FieldReader, FieldWriter, corrupt, read_pair, read_text, read_u64};
use crate::etag::ETag;
use crate::file::security::PermissionKey;
use crate::lease::Lease;

const NODE_SHAPE: u8 = 0x33;
const ENTRY_SHAPE: u8 = 0x34;

/// A file or directory, whatever its name is: the same as long as it is there, and never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileId(pub u64);

impl FileId {
    /// The directory that every share has.
    pub const ROOT: FileId = FileId(0);
}

/// A name in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// As it was written.
    pub name: String,
    pub id: FileId,
    pub is_directory: bool,
}

mod entry_tag {
    pub const NAME: u8 = 1;
    pub const ID: u8 = 2;
    pub const IS_DIRECTORY: u8 = 3;
}

impl Entry {
    pub fn encode(&self) -> Bytes {
        let mut fields = FieldWriter::new(ENTRY_SHAPE);
        fields.text(entry_tag::NAME, Some(&self.name));
        fields.u64(entry_tag::ID, self.id.0);
        if self.is_directory {
            fields.bytes(entry_tag::IS_DIRECTORY, &[]);
        }
        fields.finish()
    }

    pub fn decode(value: &[u8]) -> Result<Entry, Fault> {
        Self::read(value).ok_or_else(|| corrupt("a name in a share", value))
    }

    fn read(value: &[u8]) -> Option<Entry> {
        let mut fields = FieldReader::new(ENTRY_SHAPE, value)?;
        let (mut name, mut id, mut is_directory) = (None, None, false);
        while let Some((tag, value)) = fields.next()? {
            match tag {
                entry_tag::NAME => name = Some(read_text(value)?),
                entry_tag::ID => id = Some(FileId(read_u64(value)?)),
                entry_tag::IS_DIRECTORY => is_directory = true,
                _ => return None,
            }
        }
        Some(Entry { name: name?, id: id?, is_directory })
    }
}

/// What a name names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeKind {
    Directory,
    File {
        bytes: u64,
        /// Names its content: another one when all of it is replaced.
        body: u64,
    },
    /// Of NFS shares alone: what it points at, as it was written.
    SymbolicLink {
        target: String,
    },
}

/// A file or directory, without its name and its content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    pub id: FileId,
    pub kind: NodeKind,
    pub etag: ETag,
    pub last_modified: Timestamp,
    pub attributes: FileAttributes,
    pub created: Timestamp,
    pub written: Timestamp,
    pub changed: Timestamp,
    /// When it was last read, if a client said so; otherwise when it was last written.
    pub accessed: Option<Timestamp>,
    /// Names its security descriptor; `None` for the one that everything has.
    pub permission: Option<PermissionKey>,
    pub properties: ContentProperties,
    pub metadata: Metadata,
    pub lease: Option<Lease>,
    pub copy: Option<CopyState>,
    /// Of NFS shares alone.
    pub posix: Option<Posix>,
}

/// What NFS knows of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Posix {
    pub owner: u32,
    pub group: u32,
    pub mode: u16,
    /// How many names it has.
    pub links: u32,
}

impl Posix {
    /// Of a directory that nobody said more about.
    pub const DIRECTORY: Posix = Posix { owner: 0, group: 0, mode: 0o755, links: 1 };
    pub const FILE: Posix = Posix { owner: 0, group: 0, mode: 0o664, links: 1 };
}

impl Node {
    pub fn is_directory(&self) -> bool {
        self.kind == NodeKind::Directory
    }

    /// What names the content of a file; nothing else has one.
    pub fn body(&self) -> Option<u64> {
        match self.kind {
            NodeKind::File { body, .. } => Some(body),
            _ => None,
        }
    }

    /// The size of a file; nothing else has one.
    pub fn bytes(&self) -> u64 {
        match self.kind {
            NodeKind::File { bytes, .. } => bytes,
            _ => 0,
        }
    }
}

mod node_tag {
    pub const ID: u8 = 1;
    /// Absent for a directory.
    pub const FILE: u8 = 2;
    pub const SYMBOLIC_LINK: u8 = 3;
    pub const ETAG: u8 = 4;
    pub const LAST_MODIFIED: u8 = 5;
    pub const ATTRIBUTES: u8 = 6;
    /// Created, written, changed.
    pub const TIMES: u8 = 7;
    pub const PERMISSION: u8 = 8;
    pub const METADATA: u8 = 9;
    pub const LEASE: u8 = 10;
    pub const POSIX: u8 = 11;
    pub const ACCESSED: u8 = 12;
    /// This one and the five after it.
    pub const PROPERTIES: u8 = 20;
    pub const PROPERTIES_END: u8 = 25;
    /// This one and the four after it.
    pub const COPY: u8 = 30;
    pub const COPY_END: u8 = 34;
}

impl Node {
    pub fn encode(&self) -> Bytes {
        use node_tag::*;
        let mut fields = FieldWriter::new(NODE_SHAPE);
        fields.u64(ID, self.id.0);
        match &self.kind {
            NodeKind::Directory => {}
            NodeKind::File { bytes, body } => fields.bytes(FILE, &words(&[*bytes, *body])),
            NodeKind::SymbolicLink { target } => fields.text(SYMBOLIC_LINK, Some(target)),
        }
        fields.u64(ETAG, self.etag.0);
        fields.u64(LAST_MODIFIED, self.last_modified.ticks());
        fields.bytes(ATTRIBUTES, &self.attributes.bits().to_be_bytes());
        fields.bytes(TIMES, &words(&[self.created.ticks(), self.written.ticks(), self.changed.ticks()]));
        if let Some(accessed) = self.accessed {
            fields.u64(ACCESSED, accessed.ticks());
        }
        if let Some(PermissionKey(a, b)) = self.permission {
            fields.bytes(PERMISSION, &words(&[a, b]));
        }
        self.metadata.iter().for_each(|(name, value)| fields.pair(METADATA, name, value));
        if let Some(lease) = &self.lease {
            fields.bytes(LEASE, &encode_lease(lease));
        }
        if let Some(Posix { owner, group, mode, links }) = self.posix {
            fields.bytes(POSIX, &words(&[owner.into(), group.into(), mode.into(), links.into()]));
        }
        write_properties(&mut fields, PROPERTIES, &self.properties);
        if let Some(copy) = &self.copy {
            write_copy(&mut fields, COPY, copy);
        }
        fields.finish()
    }

    pub fn decode(value: &[u8]) -> Result<Node, Fault> {
        Self::read(value).ok_or_else(|| corrupt("a file or directory", value))
    }

    fn read(value: &[u8]) -> Option<Node> {
        use node_tag::*;
        let mut fields = FieldReader::new(NODE_SHAPE, value)?;
        let (mut id, mut kind, mut etag, mut last_modified) = (None, NodeKind::Directory, None, None);
        let (mut attributes, mut times, mut permission) = (None, None, None);
        let (mut properties, mut metadata) = (ContentProperties::default(), Vec::new());
        let (mut lease, mut copy, mut posix, mut accessed) = (None, None, None, None);
        while let Some((tag, value)) = fields.next()? {
            match tag {
                ID => id = Some(FileId(read_u64(value)?)),
                FILE => {
                    let [bytes, body] = read_words(value)?;
                    kind = NodeKind::File { bytes, body };
                }
                SYMBOLIC_LINK => kind = NodeKind::SymbolicLink { target: read_text(value)? },
                ETAG => etag = Some(ETag(read_u64(value)?)),
                LAST_MODIFIED => last_modified = Some(Timestamp::from_ticks(read_u64(value)?)),
                ATTRIBUTES => attributes = Some(FileAttributes::from_bits(u32::from_be_bytes(value.try_into().ok()?))?),
                TIMES => times = Some(read_words::<3>(value)?.map(Timestamp::from_ticks)),
                PERMISSION => {
                    let [a, b] = read_words(value)?;
                    permission = Some(PermissionKey(a, b));
                }
                ACCESSED => accessed = Some(Timestamp::from_ticks(read_u64(value)?)),
                METADATA => metadata.push(read_pair(value)?),
                LEASE => lease = Some(decode_lease(value)?),
                POSIX => {
                    let [owner, group, mode, links] = read_words(value)?;
                    posix = Some(Posix {
                        owner: owner.try_into().ok()?,
                        group: group.try_into().ok()?,
                        mode: mode.try_into().ok()?,
                        links: links.try_into().ok()?,
                    });
                }
                PROPERTIES..=PROPERTIES_END => read_property(&mut properties, tag - PROPERTIES, value)?,
                COPY..=COPY_END => read_copy_field(&mut copy, tag - COPY, value)?,
                _ => return None,
            }
        }
        let [created, written, changed] = times?;
        Some(Node {
            id: id?,
            kind,
            etag: etag?,
            last_modified: last_modified?,
            attributes: attributes?,
            created,
            written,
            changed,
            accessed,
            permission,
            properties,
            metadata: Metadata::from_stored(metadata),
            lease,
            copy,
            posix,
        })
    }
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn read_words<const N: usize>(value: &[u8]) -> Option<[u64; N]> {
    let (words, []) = value.as_chunks::<8>() else { return None };
    let words: &[[u8; 8]; N] = words.try_into().ok()?;
    Some(words.map(u64::from_be_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::blob::tests::full;

    #[test]
    fn shapes_round_trip() {
        let blob = full();
        let moment = Timestamp::from_ticks;
        let file = Node {
            id: FileId(u64::MAX),
            kind: NodeKind::File { bytes: 1 << 42, body: 5 },
            etag: ETag(1),
            last_modified: moment(2),
            attributes: FileAttributes::READ_ONLY,
            created: moment(3),
            written: moment(4),
            changed: moment(5),
            accessed: Some(moment(6)),
            permission: Some(PermissionKey(1, u64::MAX)),
            properties: blob.properties,
            metadata: blob.metadata,
            lease: blob.lease,
            copy: blob.copy,
            posix: Some(Posix { owner: 1, group: u32::MAX, mode: 0o7777, links: 2 }),
        };
        let link = Node { kind: NodeKind::SymbolicLink { target: "../x".into() }, ..file.clone() };
        let directory = Node {
            kind: NodeKind::Directory,
            permission: None,
            properties: ContentProperties::default(),
            metadata: Metadata::default(),
            lease: None,
            copy: None,
            posix: None,
            ..file.clone()
        };
        for node in [file, link, directory] {
            assert_eq!(Node::decode(&node.encode()).expect("what was written"), node);
        }
        for is_directory in [true, false] {
            let entry = Entry { name: "Na\u{ef}ve.txt".into(), id: FileId(9), is_directory };
            assert_eq!(Entry::decode(&entry.encode()).expect("what was written"), entry);
        }
    }
}
