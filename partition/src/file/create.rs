//! Create Directory and Create File.

use contract::attributes::FileAttributes;
use contract::names::Metadata;
use contract::{ErrorCode, Refusal};
use engine::{Fault, PartitionId, Write};
use env::Timestamp;

use super::body::{self, Met};
use super::settings::{Known, Settings, refuse_read_only};
use super::target::{Around, Target, judge_lease};
use super::tree::{Place, parent};
use super::versions::Edit;
use crate::content::Content;
use crate::etag::ETag;
use crate::execute::{Command, Moment, Reader};
use crate::lease::after_write;
use crate::record::blob::ContentProperties;
use crate::record::node::Posix;
use crate::record::share::Protocol;
use crate::record::{FileId, Node, NodeKind};

/// What a command made or changed, and where it is.
pub struct Made {
    pub node: Node,
    /// Every directory on the way, the root first.
    pub above: Vec<FileId>,
}

impl Made {
    pub fn parent(&self) -> FileId {
        parent(&self.above)
    }
}

pub struct CreateDirectory {
    pub target: Target,
    pub settings: Settings,
    pub metadata: Metadata,
}

/// Something new.
pub fn new_node(target: &Target, kind: NodeKind, moment: Moment) -> Node {
    let is_directory = kind == NodeKind::Directory;
    let attributes = if is_directory { FileAttributes::DIRECTORY } else { FileAttributes::ARCHIVE };
    let posix = if is_directory { Posix::DIRECTORY } else { Posix::FILE };
    Node {
        id: FileId(moment.tick),
        kind,
        etag: ETag::next(None, moment.tick),
        last_modified: moment.now,
        attributes,
        created: moment.now,
        written: moment.now,
        changed: moment.now,
        permission: None,
        properties: ContentProperties::default(),
        metadata: Metadata::default(),
        lease: None,
        copy: None,
        posix: (target.share().protocol == Protocol::Nfs).then_some(posix),
    }
}

impl Command for CreateDirectory {
    type Records = (Around, Known);
    type Outcome = Made;

    fn partition(&self) -> &PartitionId {
        self.target.partition()
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        let around = self.target.load(reader).await?;
        let known = self.settings.load(reader, around.place.new_in()).await?;
        Ok((around, known))
    }

    fn check(&self, (around, known): &Self::Records, _now: Timestamp) -> Result<(), Refusal> {
        match around.place {
            Place::NoParent => Err(ErrorCode::ParentNotFound.into()),
            Place::Taken(_) => Err(ErrorCode::ResourceAlreadyExists.into()),
            Place::Free { .. } => {
                around.judge_opened()?;
                self.settings.check(known)
            }
        }
    }

    fn decide(&self, records: Self::Records, moment: Moment) -> Result<(Vec<Write>, Made), Refusal> {
        self.check(&records, moment.now)?;
        let (Around { state, place, .. }, known) = records;
        let (Place::Free { above }, Some(name)) = (place, self.target.path.names().last()) else {
            return Err(ErrorCode::ResourceAlreadyExists.into());
        };
        let mut node = new_node(&self.target, NodeKind::Directory, moment);
        node.metadata = self.metadata.clone();
        let mut edit = Edit::new(&state);
        self.settings.apply_to_new(&mut node, moment.now, &known, &mut edit);
        edit.add(parent(&above), name, &node);
        Ok((edit.finish(), Made { node, above }))
    }
}

/// Create File: in the place of one that is there, if there is one.
pub struct CreateFile {
    pub target: Target,
    pub settings: Settings,
    pub properties: ContentProperties,
    pub metadata: Metadata,
    pub bytes: u64,
    /// Its first bytes, if they came with it.
    pub content: Option<Content>,
    /// May a file that is there be replaced?
    pub may_overwrite: bool,
}

impl Command for CreateFile {
    type Records = (Around, Known, Option<Vec<Met>>);
    type Outcome = Made;

    fn partition(&self) -> &PartitionId {
        self.target.partition()
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        let around = self.target.load(reader).await?;
        let known = self.settings.load(reader, around.place.new_in()).await?;
        let runs = body::load_few(reader, around.place.node()).await?;
        Ok((around, known, runs))
    }

    fn check(&self, (around, known, _): &Self::Records, now: Timestamp) -> Result<(), Refusal> {
        let old = match &around.place {
            Place::NoParent => return Err(ErrorCode::ParentNotFound.into()),
            Place::Free { .. } => {
                around.judge_opened()?;
                judge_lease(&self.target.expectation, None, now)?;
                0
            }
            Place::Taken(_) => {
                let found = self.target.judge(around, now)?;
                refuse_read_only(&found.node)?;
                if !self.may_overwrite {
                    return Err(ErrorCode::AuthorizationPermissionMismatch.into());
                }
                found.node.bytes()
            }
        };
        self.target.resized(&around.state, old, self.bytes)?;
        self.settings.check(known)
    }

    fn decide(&self, records: Self::Records, moment: Moment) -> Result<(Vec<Write>, Made), Refusal> {
        self.check(&records, moment.now)?;
        let (Around { state, place, .. }, known, runs) = records;
        let kind = NodeKind::File { bytes: self.bytes, body: moment.tick };
        let mut node = new_node(&self.target, kind, moment);
        (node.properties, node.metadata) = (self.properties.clone(), self.metadata.clone());
        let mut edit = Edit::new(&state);
        self.settings.apply_to_new(&mut node, moment.now, &known, &mut edit);
        let (above, old) = match place {
            Place::NoParent => return Err(ErrorCode::ParentNotFound.into()),
            Place::Free { above } => {
                let name = self.target.path.names().last().ok_or(ErrorCode::ResourceTypeMismatch)?;
                edit.add(parent(&above), name, &node);
                (above, 0)
            }
            Place::Taken(found) => {
                // It stays the file it was for those who have it open.
                node.id = found.node.id;
                node.etag = ETag::next(Some(found.node.etag), moment.tick);
                node.lease = after_write(found.node.lease.clone(), moment.now);
                edit.drop_content(&found.node, runs);
                edit.change(&found, &node);
                let bytes = found.node.bytes();
                (found.above, bytes)
            }
        };
        if let Some(content) = self.content.as_ref().filter(|content| content.bytes() > 0) {
            edit.write_run(moment.tick, 0, content.bytes(), content.stored());
        }
        if old != self.bytes {
            edit.put_state(&self.target.resized(&state, old, self.bytes)?);
        }
        Ok((edit.finish(), Made { node, above }))
    }
}
