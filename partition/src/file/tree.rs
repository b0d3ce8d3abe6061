//! Finding things in a share's tree: names, directories, what they name.

use bytes::{BufMut, Bytes, BytesMut};
use contract::attributes::FileAttributes;
use contract::names::{FileName, FilePath, Metadata};
use engine::{Fault, View};

use super::versions::{At, Edit, Versioned, get, get_at};
use crate::execute::Reader;
use crate::key::share;
use crate::record::blob::ContentProperties;
use crate::record::node::Posix;
use crate::record::share::Protocol;
use crate::record::{Entry, FileId, Node, NodeKind, ShareHead, ShareState};

pub fn entry_key(directory: FileId, name: &FileName) -> Bytes {
    let mut key = BytesMut::with_capacity(8 + name.folded().len());
    key.put_u64(directory.0);
    key.put_slice(name.folded().as_bytes());
    key.freeze()
}

pub fn node_key(id: FileId) -> Bytes {
    Bytes::copy_from_slice(&id.0.to_be_bytes())
}

/// What a path leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// A directory on the way is missing, or is no directory.
    NoParent,
    /// The directory is there and the name is not. Every directory on the way, the root first.
    Free {
        above: Vec<FileId>,
    },
    Taken(Box<Found>),
}

/// Something that is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The directory it is in; for the root, itself.
    pub parent: FileId,
    /// Every directory on the way, the root first.
    pub above: Vec<FileId>,
    pub node: Node,
    /// As they are stored; `None` for the root, and for one that was never changed.
    entry: Option<(Bytes, Versioned)>,
    stored: Option<Versioned>,
}

impl Found {
    /// Found under the same name in the same directory?
    pub fn is_same_name(&self, other: &Found) -> bool {
        self.entry.as_ref().map(|(key, _)| key) == other.entry.as_ref().map(|(key, _)| key)
    }
}

impl Place {
    pub fn found(self) -> Option<Found> {
        match self {
            Place::Taken(found) => Some(*found),
            _ => None,
        }
    }

    /// The directory that something new at this place would be in.
    pub fn new_in(&self) -> Option<FileId> {
        match self {
            Place::Free { above } => Some(parent(above)),
            _ => None,
        }
    }

    pub fn node(&self) -> Option<&Node> {
        match self {
            Place::Taken(found) => Some(&found.node),
            _ => None,
        }
    }
}

/// A path as its names are stored, whatever a client's letters were; as far as there is something.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Spelled(String);

impl Spelled {
    fn push(&mut self, name: &str) {
        if !self.0.is_empty() {
            self.0.push('/');
        }
        self.0.push_str(name);
    }

    /// Of what was found at a place, or is given this name there.
    pub fn of(mut self, place: &Place, new_name: Option<&FileName>) -> String {
        if let (Place::Taken(_), Some(_)) = (place, new_name) {
            let parent_bytes = self.0.rfind('/').unwrap_or(0);
            self.0.truncate(parent_bytes);
        }
        new_name.into_iter().for_each(|name| self.push(name.as_str()));
        self.0
    }
}

/// Reads records as a command or as a request that only looks.
enum Source<'a, 'r> {
    Command(&'a Reader<'r>),
    View(&'a dyn View, At),
}

impl Source<'_, '_> {
    async fn get(&self, family: engine::Family, key: &[u8]) -> Result<Option<Versioned>, Fault> {
        match self {
            Source::Command(reader) => get(reader, family, key).await,
            Source::View(view, at) => get_at(*view, *at, family, key).await,
        }
    }

    /// Spells what it finds on the way as it is stored.
    async fn find(&self, share: &ShareHead, path: &FilePath, spelled: &mut Spelled) -> Result<Place, Fault> {
        let mut above = Vec::with_capacity(path.names().len());
        let (mut id, mut entry) = (FileId::ROOT, None);
        for (at, name) in path.names().iter().enumerate() {
            let key = entry_key(id, name);
            above.push(id);
            let is_last = at + 1 == path.names().len();
            match self.get(share::ENTRY, &key).await? {
                None if is_last => return Ok(Place::Free { above }),
                None => return Ok(Place::NoParent),
                Some(stored) => {
                    let named = Entry::decode(&stored.value)?;
                    if !is_last && !named.is_directory {
                        return Ok(Place::NoParent);
                    }
                    id = named.id;
                    spelled.push(&named.name);
                    entry = Some((key, stored));
                }
            }
        }
        self.taken(share, above, id, entry).await
    }

    /// What a name in a directory names, or the root.
    async fn taken(
        &self,
        share: &ShareHead,
        above: Vec<FileId>,
        id: FileId,
        entry: Option<(Bytes, Versioned)>,
    ) -> Result<Place, Fault> {
        let stored = self.get(share::NODE, &node_key(id)).await?;
        let node = match &stored {
            Some(stored) => Node::decode(&stored.value)?,
            None if id == FileId::ROOT => untouched_root(share),
            // A name without what it names is damage: no writer leaves one.
            None => return Err(crate::record::corrupt("a name that names nothing", &node_key(id))),
        };
        let parent = parent(&above);
        Ok(Place::Taken(Box::new(Found { parent, above, node, entry, stored })))
    }
}

/// The last of the directories on the way.
pub fn parent(above: &[FileId]) -> FileId {
    above.last().copied().unwrap_or(FileId::ROOT)
}

/// The root of a share that nobody changed.
pub fn untouched_root(share: &ShareHead) -> Node {
    Node {
        id: FileId::ROOT,
        kind: NodeKind::Directory,
        etag: share.etag,
        last_modified: share.last_modified,
        attributes: FileAttributes::DIRECTORY,
        created: share.created,
        written: share.created,
        changed: share.created,
        accessed: None,
        permission: None,
        properties: ContentProperties::default(),
        metadata: Metadata::default(),
        lease: None,
        copy: None,
        posix: (share.protocol == Protocol::Nfs).then_some(Posix::DIRECTORY),
    }
}

/// What is at a path now, for a command.
pub async fn find(reader: &Reader<'_>, share: &ShareHead, path: &FilePath) -> Result<Place, Fault> {
    Source::Command(reader).find(share, path, &mut Spelled::default()).await
}

/// The same, and how it is spelled.
pub async fn find_spelled(reader: &Reader<'_>, share: &ShareHead, path: &FilePath) -> Result<(Place, Spelled), Fault> {
    let mut spelled = Spelled::default();
    let place = Source::Command(reader).find(share, path, &mut spelled).await?;
    Ok((place, spelled))
}

/// What has a name in the last of these directories, for a command.
pub async fn find_in(
    reader: &Reader<'_>,
    share: &ShareHead,
    above: &[FileId],
    name: &FileName,
) -> Result<Place, Fault> {
    let source = Source::Command(reader);
    let (key, above) = (entry_key(parent(above), name), above.to_vec());
    match source.get(share::ENTRY, &key).await? {
        None => Ok(Place::Free { above }),
        Some(stored) => {
            let id = Entry::decode(&stored.value)?.id;
            source.taken(share, above, id, Some((key, stored))).await
        }
    }
}

/// What is or was at a path, for a request that only looks.
pub async fn find_at(view: &dyn View, at: At, share: &ShareHead, path: &FilePath) -> Result<Place, Fault> {
    Source::View(view, at).find(share, path, &mut Spelled::default()).await
}

/// The same, and how it is or was spelled.
pub async fn find_spelled_at(
    view: &dyn View,
    at: At,
    share: &ShareHead,
    path: &FilePath,
) -> Result<(Place, Spelled), Fault> {
    let mut spelled = Spelled::default();
    let place = Source::View(view, at).find(share, path, &mut spelled).await?;
    Ok((place, spelled))
}

/// Something that is there, by its id alone.
pub async fn find_node(reader: &Reader<'_>, id: FileId) -> Result<Option<(Node, Versioned)>, Fault> {
    let stored = get(reader, share::NODE, &node_key(id)).await?;
    stored.map(|stored| Ok((Node::decode(&stored.value)?, stored))).transpose()
}

pub async fn state(reader: &Reader<'_>) -> Result<ShareState, Fault> {
    let record = reader.get(share::STATE, &[]).await?;
    Ok(record.map(|record| ShareState::decode(&record.value)).transpose()?.unwrap_or_default())
}

impl Edit<'_> {
    /// Gives a name to something new, which is written too.
    pub fn add(&mut self, parent: FileId, name: &FileName, node: &Node) {
        self.name(parent, name, node, None);
        self.put(share::NODE, node_key(node.id), None, node.encode(), Vec::new());
    }

    /// Gives a name to something that is there.
    pub fn name(&mut self, parent: FileId, name: &FileName, node: &Node, old: Option<&Versioned>) {
        let entry = Entry { name: name.as_str().to_string(), id: node.id, is_directory: node.is_directory() };
        self.put(share::ENTRY, entry_key(parent, name), old, entry.encode(), Vec::new());
    }

    /// Gives the name that something was found under to something else.
    pub fn rename(&mut self, found: &Found, name: &FileName, node: &Node) {
        let old = found.entry.as_ref().map(|(_, stored)| stored);
        self.name(found.parent, name, node, old);
    }

    /// Writes what was found anew.
    pub fn change(&mut self, found: &Found, node: &Node) {
        self.change_node(node, found.stored.as_ref());
    }

    /// Writes something anew that was stored like this.
    pub fn change_node(&mut self, node: &Node, stored: Option<&Versioned>) {
        self.put(share::NODE, node_key(node.id), stored, node.encode(), Vec::new());
    }

    /// Takes the name away.
    pub fn unname(&mut self, found: &Found) {
        if let Some((key, stored)) = &found.entry {
            self.delete(share::ENTRY, key.clone(), stored);
        }
    }

    /// Takes away what was found; its content is the caller's.
    pub fn remove(&mut self, found: &Found) {
        if let Some(stored) = &found.stored {
            self.delete(share::NODE, node_key(found.node.id), stored);
        }
    }

    pub fn put_state(&mut self, state: &ShareState) {
        self.put_plain(share::STATE, Bytes::new(), state.encode());
    }
}
