//! Create Directory and Create File.

use contract::attributes::FileAttributes;
use contract::names::Metadata;
use contract::{ErrorCode, Refusal};
use engine::{Fault, PartitionId, Write};
use env::Timestamp;

use super::body::{self, Met};
use super::range::refuse_pending;
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
use crate::record::{FileId, Node, NodeKind, ShareHead};

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
pub fn new_node(share: &ShareHead, kind: NodeKind, moment: Moment) -> Node {
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
        accessed: None,
        permission: None,
        properties: ContentProperties::default(),
        metadata: Metadata::default(),
        lease: None,
        copy: None,
        posix: (share.protocol == Protocol::Nfs).then_some(posix),
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
        let mut node = new_node(self.target.share(), NodeKind::Directory, moment);
        node.metadata = self.metadata.clone();
        let mut edit = Edit::new(&state);
        self.settings.apply_to_new(&mut node, moment.now, &known, &mut edit);
        edit.add(parent(&above), name, &node);
        Ok((edit.finish(), Made { node, above }))
    }
}

/// A file to be made, in the place of one that is there if there is one.
pub struct NewFile {
    pub target: Target,
    pub settings: Settings,
    /// May a file that is there be replaced?
    pub may_overwrite: bool,
    /// Also one that is read-only?
    pub ignores_read_only: bool,
}

/// What there is to know before it is made.
pub struct Site {
    pub around: Around,
    known: Known,
    /// Of what is replaced.
    runs: Option<Vec<Met>>,
}

impl NewFile {
    pub async fn load(&self, reader: &Reader<'_>) -> Result<Site, Fault> {
        let around = self.target.load(reader).await?;
        let known = self.settings.load(reader, around.place.new_in()).await?;
        let runs = body::load_few(reader, around.place.node()).await?;
        Ok(Site { around, known, runs })
    }

    /// May a file of so many bytes be made?
    pub fn check(&self, Site { around, known, .. }: &Site, bytes: u64, now: Timestamp) -> Result<(), Refusal> {
        let old = match &around.place {
            Place::NoParent => return Err(ErrorCode::ParentNotFound.into()),
            Place::Free { .. } => {
                around.judge_opened()?;
                judge_lease(&self.target.expectation, None, now)?;
                0
            }
            Place::Taken(_) => {
                let node = &self.target.judge(around, now)?.node;
                if !self.ignores_read_only {
                    refuse_read_only(node)?;
                }
                refuse_pending(node)?;
                if !self.may_overwrite {
                    return Err(ErrorCode::AuthorizationPermissionMismatch.into());
                }
                node.bytes()
            }
        };
        self.target.resized(&around.state, old, bytes)?;
        self.settings.check(known)
    }

    /// Makes the file, empty until `fill` says what it is. Its content is named by the moment's tick, unless `fill` names another.
    pub fn make(
        &self,
        site: Site,
        moment: Moment,
        fill: impl FnOnce(&mut Node, &mut Edit<'_>),
    ) -> Result<(Vec<Write>, Made), Refusal> {
        let Site { around: Around { state, place, .. }, known, runs } = site;
        let mut edit = Edit::new(&state);
        let mut node = new_node(self.target.share(), NodeKind::File { bytes: 0, body: moment.tick }, moment);
        if let Some(old) = place.node() {
            // It stays the file it was for those who have it open, and under its other names.
            node.id = old.id;
            node.etag = ETag::next(Some(old.etag), moment.tick);
            node.lease = after_write(old.lease.clone(), moment.now);
            if let (Some(posix), Some(old)) = (&mut node.posix, old.posix) {
                posix.links = old.links;
            }
        }
        self.settings.apply_to_new(&mut node, moment.now, &known, &mut edit);
        fill(&mut node, &mut edit);
        let old = place.node().map_or(0, Node::bytes);
        let above = match place {
            Place::NoParent => return Err(ErrorCode::ParentNotFound.into()),
            Place::Free { above } => {
                let name = self.target.path.names().last().ok_or(ErrorCode::ResourceTypeMismatch)?;
                edit.add(parent(&above), name, &node);
                above
            }
            Place::Taken(found) => {
                if found.node.body() != node.body() {
                    edit.drop_content(&found.node, runs);
                }
                edit.change(&found, &node);
                found.above
            }
        };
        if old != node.bytes() {
            edit.put_state(&self.target.resized(&state, old, node.bytes())?);
        }
        Ok((edit.finish(), Made { node, above }))
    }
}

/// Create File.
pub struct CreateFile {
    pub file: NewFile,
    pub properties: ContentProperties,
    pub metadata: Metadata,
    pub bytes: u64,
    /// Its first bytes, if they came with it.
    pub content: Option<Content>,
}

impl Command for CreateFile {
    type Records = Site;
    type Outcome = Made;

    fn partition(&self) -> &PartitionId {
        self.file.target.partition()
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Site, Fault> {
        self.file.load(reader).await
    }

    fn check(&self, site: &Site, now: Timestamp) -> Result<(), Refusal> {
        self.file.check(site, self.bytes, now)
    }

    fn decide(&self, site: Site, moment: Moment) -> Result<(Vec<Write>, Made), Refusal> {
        self.check(&site, moment.now)?;
        self.file.make(site, moment, |node, edit| {
            node.kind = NodeKind::File { bytes: self.bytes, body: moment.tick };
            (node.properties, node.metadata) = (self.properties.clone(), self.metadata.clone());
            if let Some(content) = &self.content {
                edit.write_content(moment.tick, 0, content);
            }
        })
    }
}
