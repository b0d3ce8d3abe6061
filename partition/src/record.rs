//! What is stored in records: the current shapes, and how fields are laid out.
//!
//! A record is a byte naming its shape, then fields: a tag, a length (LEB128) and that many bytes. Absent fields cost
//! nothing; a new optional field is a new tag. An unknown tag or shape is damage, because the format version of the store
//! refuses to open what a newer program wrote.

pub mod account;
pub mod blob;
pub mod blocks;
pub mod container;
pub mod event;
pub mod handle;
pub mod kept;
pub mod node;
pub mod note;
pub mod past;
pub mod queue;
pub mod service;
pub mod share;
pub mod table;
pub mod tags;

pub use blob::{BlobHead, BlobKind, ContentProperties};
pub use container::{ContainerHead, PublicAccess, StoredPolicy};
pub use kept::KeptHead;
pub use node::{Entry, FileId, Node, NodeKind};
pub use queue::{Message, Place, QueueHead, QueueState};
pub use share::{ShareHead, ShareSnapshot, ShareState};
pub use table::{StoredEntity, TableHead};

use engine::Fault;

/// What a reader says when stored bytes are not what it wrote.
pub fn corrupt(what: &str, value: &[u8]) -> Fault {
    Fault::Corrupt { what: format!("{what}: a record of {} bytes cannot be read", value.len()) }
}

/// Writes fields one after another.
pub(crate) struct FieldWriter(Vec<u8>);

impl FieldWriter {
    pub fn new(shape: u8) -> Self {
        let mut bytes = Vec::with_capacity(128);
        bytes.push(shape);
        FieldWriter(bytes)
    }

    pub fn bytes(&mut self, tag: u8, value: &[u8]) {
        self.0.push(tag);
        put_length(&mut self.0, value.len());
        self.0.extend_from_slice(value);
    }

    pub fn u64(&mut self, tag: u8, value: u64) {
        self.bytes(tag, &value.to_be_bytes());
    }

    pub fn text(&mut self, tag: u8, value: Option<&str>) {
        if let Some(value) = value {
            self.bytes(tag, value.as_bytes());
        }
    }

    /// A name and a value in one field.
    pub fn pair(&mut self, tag: u8, name: &str, value: &str) {
        let mut both = Vec::with_capacity(name.len() + value.len() + 2);
        put_length(&mut both, name.len());
        both.extend_from_slice(name.as_bytes());
        both.extend_from_slice(value.as_bytes());
        self.bytes(tag, &both);
    }

    pub fn finish(self) -> bytes::Bytes {
        self.0.into()
    }
}

/// Reads them back. Every method is `None` on damage.
pub(crate) struct FieldReader<'a>(&'a [u8]);

impl<'a> FieldReader<'a> {
    pub fn new(shape: u8, value: &'a [u8]) -> Option<Self> {
        let (first, rest) = value.split_first()?;
        (*first == shape).then_some(FieldReader(rest))
    }

    /// The next field; `Some(None)` at the end.
    pub fn next(&mut self) -> Option<Option<(u8, &'a [u8])>> {
        let Some((tag, rest)) = self.0.split_first() else { return Some(None) };
        let (length, rest) = take_length(rest)?;
        if length > rest.len() {
            return None;
        }
        let (value, rest) = rest.split_at(length);
        self.0 = rest;
        Some(Some((*tag, value)))
    }
}

pub(crate) fn read_u64(value: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(value.try_into().ok()?))
}

pub(crate) fn read_text(value: &[u8]) -> Option<String> {
    String::from_utf8(value.to_vec()).ok()
}

pub(crate) fn read_pair(value: &[u8]) -> Option<(String, String)> {
    let (length, rest) = take_length(value)?;
    if length > rest.len() {
        return None;
    }
    let (name, value) = rest.split_at(length);
    Some((read_text(name)?, read_text(value)?))
}

pub(crate) fn put_length(into: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        into.push(length as u8 | 0x80);
        length >>= 7;
    }
    into.push(length as u8);
}

pub(crate) fn take_length(from: &[u8]) -> Option<(usize, &[u8])> {
    let mut length = 0usize;
    for (i, byte) in from.iter().enumerate().take(5) {
        length |= usize::from(byte & 0x7F) << (7 * i);
        if byte & 0x80 == 0 {
            return Some((length, &from[i + 1..]));
        }
    }
    None
}
