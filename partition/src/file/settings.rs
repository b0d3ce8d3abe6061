//! What a request says about a file or directory beside its content: attributes, times, permissions, and what NFS knows of it.

use bytes::Bytes;
use contract::attributes::FileAttributes;
use contract::{ErrorCode, Refusal};
use engine::Fault;
use env::Timestamp;

use super::versions::Edit;
use crate::etag::ETag;
use crate::execute::{Moment, Reader};
use crate::key::share;
use crate::lease::after_write;
use crate::record::Node;
use crate::record::node::Posix;

/// One of the times of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum When {
    /// Whatever is usual.
    #[default]
    Unsaid,
    Now,
    /// As it is.
    Preserve,
    At(Timestamp),
}

impl When {
    fn or(self, usual: Timestamp, old: Timestamp, now: Timestamp) -> Timestamp {
        match self {
            When::Unsaid => usual,
            When::Now => now,
            When::Preserve => old,
            When::At(moment) => moment,
        }
    }
}

/// Who may do what, as a security descriptor.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Permission {
    /// What something new has, and what is there keeps.
    #[default]
    Unsaid,
    /// The one with this key, which the share knows.
    Known([u64; 2]),
    /// One that the share may not know yet, and its key.
    Given { key: [u64; 2], descriptor: Bytes },
}

impl Permission {
    fn key(&self) -> Option<[u64; 2]> {
        match self {
            Permission::Unsaid => None,
            Permission::Known(key) | Permission::Given { key, .. } => Some(*key),
        }
    }
}

pub fn permission_key([a, b]: [u64; 2]) -> Bytes {
    Bytes::copy_from_slice(&(u128::from(a) << 64 | u128::from(b)).to_be_bytes())
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    pub attributes: Option<FileAttributes>,
    pub created: When,
    pub written: When,
    pub changed: When,
    pub permission: Permission,
    pub owner: Option<u32>,
    pub group: Option<u32>,
    pub mode: Option<u16>,
}

/// Is the permission that a command names known to the share?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known(bool);

impl Settings {
    pub async fn load(&self, reader: &Reader<'_>) -> Result<Known, Fault> {
        match self.permission.key() {
            None => Ok(Known(true)),
            Some(key) => Ok(Known(reader.get(share::PERMISSION, &permission_key(key)).await?.is_some())),
        }
    }

    pub fn check(&self, known: Known) -> Result<(), Refusal> {
        match &self.permission {
            Permission::Known([a, b]) if !known.0 => {
                Err(Refusal::bad_header("x-ms-file-permission-key", format!("{a}*{b}")))
            }
            _ => Ok(()),
        }
    }

    /// Writes the permission if the share has not got it.
    pub fn write(&self, edit: &mut Edit<'_>, known: Known) {
        if let (Permission::Given { key, descriptor }, Known(false)) = (&self.permission, known) {
            edit.put_plain(share::PERMISSION, permission_key(*key), descriptor.clone());
        }
    }

    /// To something new, whose times are all now.
    pub fn apply_to_new(&self, node: &mut Node, now: Timestamp) {
        self.apply(node, now, now);
    }

    /// To something that is there: what is not said stays, but for the time of the change.
    pub fn apply_to_old(&self, node: &mut Node, now: Timestamp) {
        self.apply(node, node.written, now);
    }

    fn apply(&self, node: &mut Node, written: Timestamp, now: Timestamp) {
        if let Some(attributes) = self.attributes {
            node.attributes = match node.is_directory() {
                true => attributes.with(FileAttributes::DIRECTORY),
                false => attributes.without(FileAttributes::DIRECTORY),
            };
        }
        node.created = self.created.or(node.created, node.created, now);
        node.written = self.written.or(written, node.written, now);
        node.changed = self.changed.or(now, node.changed, now);
        node.permission = self.permission.key().or(node.permission);
        if let Some(Posix { owner, group, mode, .. }) = &mut node.posix {
            *owner = self.owner.unwrap_or(*owner);
            *group = self.group.unwrap_or(*group);
            *mode = self.mode.unwrap_or(*mode);
        }
    }
}

/// The stamps that every write moves.
pub fn stamp(node: &mut Node, moment: Moment) {
    node.etag = ETag::next(Some(node.etag), moment.tick);
    node.last_modified = moment.now;
    node.lease = after_write(node.lease.take(), moment.now);
}

/// What is read-only can be read, and nothing else.
pub fn refuse_read_only(node: &Node) -> Result<(), Refusal> {
    match node.attributes.has(FileAttributes::READ_ONLY) {
        true => Err(ErrorCode::ReadOnlyAttribute.into()),
        false => Ok(()),
    }
}
