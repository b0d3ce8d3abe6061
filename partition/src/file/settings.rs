//! What a request says about a file or directory beside its content: attributes, times, permissions, and what NFS knows of it.

use std::sync::LazyLock;

use bytes::Bytes;
use contract::attributes::FileAttributes;
use contract::{ErrorCode, Refusal};
use engine::Fault;
use env::Timestamp;

use super::security::{Heir, PermissionKey, SecurityDescriptor, default_descriptor};
use super::tree::node_key;
use super::versions::{Edit, get};
use crate::etag::ETag;
use crate::execute::{Moment, Reader};
use crate::key::share;
use crate::lease::after_write;
use crate::record::node::Posix;
use crate::record::{FileId, Node};

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

/// Who may do what.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Permission {
    /// What something new inherits, and what is there keeps.
    #[default]
    Unsaid,
    /// The one with this key, which the share knows.
    Known(PermissionKey),
    Given(SecurityDescriptor),
}

/// What is inherited from a root that nobody gave a permission, and its key: what everything has that does not say otherwise.
pub fn default_permission(is_directory: bool) -> &'static (PermissionKey, SecurityDescriptor) {
    static DEFAULTS: LazyLock<[(PermissionKey, SecurityDescriptor); 2]> = LazyLock::new(|| {
        let of_file = default_descriptor().inherited(Heir::File);
        [of_file, default_descriptor().clone()].map(|descriptor| (descriptor.key(), descriptor))
    });
    &DEFAULTS[usize::from(is_directory)]
}

pub fn permission_key(PermissionKey(a, b): PermissionKey) -> Bytes {
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

/// What a share knows of the permissions that a command is about.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Known {
    /// Of the key that is named: does the share know it?
    is_known: bool,
    /// What something new inherits from.
    parent: Option<Bytes>,
}

impl Settings {
    /// For something new in a directory, or for something that is there.
    pub async fn load(&self, reader: &Reader<'_>, parent: Option<FileId>) -> Result<Known, Fault> {
        let descriptor = async |key| reader.get(share::PERMISSION, &permission_key(key)).await;
        match (&self.permission, parent) {
            (Permission::Known(key), _) => {
                let is_known = [false, true].iter().any(|is_directory| default_permission(*is_directory).0 == *key);
                Ok(Known { is_known: is_known || descriptor(*key).await?.is_some(), parent: None })
            }
            (Permission::Unsaid, Some(parent)) => {
                let parent = get(reader, share::NODE, &node_key(parent)).await?;
                let parent = parent.map(|stored| Node::decode(&stored.value)).transpose()?;
                match parent.and_then(|parent| parent.permission) {
                    Some(key) => {
                        Ok(Known { is_known: true, parent: descriptor(key).await?.map(|record| record.value) })
                    }
                    None => Ok(Known::default()),
                }
            }
            _ => Ok(Known::default()),
        }
    }

    pub fn check(&self, known: &Known) -> Result<(), Refusal> {
        match &self.permission {
            Permission::Known(_) if !known.is_known => Err(ErrorCode::FileInvalidPermissionKey.into()),
            _ => Ok(()),
        }
    }

    /// To something new, whose times are all now.
    pub fn apply_to_new(&self, node: &mut Node, now: Timestamp, known: &Known, edit: &mut Edit<'_>) {
        self.apply(node, now, now, edit);
        let parent = known.parent.as_ref().and_then(|bytes| SecurityDescriptor::parse_binary(bytes));
        if let (Permission::Unsaid, Some(parent)) = (&self.permission, parent) {
            let heir = if node.is_directory() { Heir::Directory } else { Heir::File };
            node.permission = Some(edit.put_permission(&parent.inherited(heir)));
        }
    }

    /// To something that is there: what is not said stays, but for the time of the change.
    pub fn apply_to_old(&self, node: &mut Node, now: Timestamp, edit: &mut Edit<'_>) {
        self.apply(node, node.written, now, edit);
    }

    fn apply(&self, node: &mut Node, written: Timestamp, now: Timestamp, edit: &mut Edit<'_>) {
        if let Some(attributes) = self.attributes {
            node.attributes = match node.is_directory() {
                true => attributes.with(FileAttributes::DIRECTORY),
                false => attributes.without(FileAttributes::DIRECTORY),
            };
        }
        node.created = self.created.or(node.created, node.created, now);
        node.written = self.written.or(written, node.written, now);
        node.changed = self.changed.or(now, node.changed, now);
        match &self.permission {
            Permission::Unsaid => {}
            Permission::Known(key) => node.permission = Some(*key),
            Permission::Given(descriptor) => node.permission = Some(edit.put_permission(descriptor)),
        }
        if let Some(Posix { owner, group, mode, .. }) = &mut node.posix {
            *owner = self.owner.unwrap_or(*owner);
            *group = self.group.unwrap_or(*group);
            *mode = self.mode.unwrap_or(*mode);
        }
    }
}

impl Edit<'_> {
    /// Keeps a descriptor under its key: one record, however often it is given.
    pub fn put_permission(&mut self, descriptor: &SecurityDescriptor) -> PermissionKey {
        let key = descriptor.key();
        self.put_plain(share::PERMISSION, permission_key(key), descriptor.to_binary().into());
        key
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
