//! Copies of what is outside this server to files: begun, under way for a while, and finished, failed or aborted (`copying.rs`).
//!
//! The one who copies knows the destination by the copy's id alone: its path may change meanwhile, when a directory above it is renamed.

use bytes::Bytes;
use contract::names::Metadata;
use contract::{ErrorCode, Refusal};
use engine::{Fault, GroupId, PartitionId, Write};
use env::{Id, Timestamp};

use super::create::{Made, NewFile, Site};
use super::settings::stamp;
use super::target::{Around, Target, resized};
use super::tree;
use super::versions::{Edit, Versioned};
use crate::copying::{Step, must_be_pending};
use crate::execute::{Command, Failure, Moment, Reader, Shell};
use crate::key::{self, share};
use crate::record::blob::{ContentProperties, CopyState};
use crate::record::note::Copying;
use crate::record::{Node, NodeKind, ShareState};

fn copying_key(id: Id) -> Bytes {
    Bytes::copy_from_slice(&id.0.to_be_bytes())
}

/// Begins a copy: the destination is there, empty, with all that is known of it.
pub struct StartCopy {
    pub file: NewFile,
    pub properties: ContentProperties,
    pub metadata: Metadata,
    pub copy: CopyState,
}

impl Command for StartCopy {
    type Records = Site;
    type Outcome = Made;

    fn partition(&self) -> &PartitionId {
        self.file.target.partition()
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Site, Fault> {
        self.file.load(reader).await
    }

    fn check(&self, site: &Site, now: Timestamp) -> Result<(), Refusal> {
        self.file.check(site, self.copy.bytes, now)
    }

    fn decide(&self, site: Site, moment: Moment) -> Result<(Vec<Write>, Made), Refusal> {
        self.check(&site, moment.now)?;
        let quota_gib = self.file.target.share().quota_gib;
        self.file.make(site, moment, |node, edit| {
            (node.properties, node.metadata) = (self.properties.clone(), self.metadata.clone());
            node.copy = Some(self.copy.clone());
            let copying = Copying { file: node.id, quota_gib };
            edit.put_plain(share::COPYING, copying_key(self.copy.id), copying.encode());
        })
    }
}

/// A file that goes away takes the copy that is made to it along.
pub fn forget(edit: &mut Edit<'_>, node: &Node) {
    if let Some(copy) = node.copy.as_ref().filter(|copy| copy.is_pending()) {
        edit.delete_plain(share::COPYING, copying_key(copy.id));
    }
}

/// Moves the copy to a file on. What cannot be finished has failed.
fn settle(
    edit: &mut Edit<'_>,
    state: &ShareState,
    quota_gib: u32,
    mut node: Node,
    step: &Step,
    moment: Moment,
) -> Node {
    let Some(copy) = node.copy.take() else { return node };
    let id = copy.id;
    let mut failed = None;
    if let Step::Finished { content, md5 } = step {
        match resized(state, quota_gib, node.bytes(), content.bytes()) {
            Ok(state) => {
                edit.put_state(&state);
                edit.write_content(moment.tick, 0, content);
                node.kind = NodeKind::File { bytes: content.bytes(), body: moment.tick };
                node.properties.content_md5 = Some(*md5);
            }
            Err(refusal) => {
                let (code, words) = (refusal.code.name(), refusal.message());
                failed = Some(Step::Failed(format!("{} {code} \"{words}\"", refusal.status)));
            }
        }
    }
    let copy = copy.after(failed.as_ref().unwrap_or(step), moment.now);
    if !copy.is_pending() {
        edit.delete_plain(share::COPYING, copying_key(id));
        stamp(&mut node, moment);
    }
    node.copy = Some(copy);
    node
}

/// What the one who copies reports.
pub struct SettleCopy {
    partition: PartitionId,
    id: Id,
    step: Step,
}

impl SettleCopy {
    pub fn new(group: &GroupId, id: Id, step: Step) -> Self {
        SettleCopy { partition: key::tree_partition(group), id, step }
    }
}

/// The file that a copy is made to, if it is there.
async fn load_destination(reader: &Reader<'_>, id: Id) -> Result<Option<(Copying, Node, Versioned)>, Fault> {
    let Some(record) = reader.get(share::COPYING, &copying_key(id)).await? else { return Ok(None) };
    let copying = Copying::decode(&record.value)?;
    Ok(tree::find_node(reader, copying.file).await?.map(|(node, stored)| (copying, node, stored)))
}

impl Command for SettleCopy {
    type Records = (ShareState, Option<(Copying, Node, Versioned)>);
    type Outcome = ();

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        Ok((tree::state(reader).await?, load_destination(reader, self.id).await?))
    }

    fn check(&self, (_, destination): &Self::Records, _now: Timestamp) -> Result<(), Refusal> {
        let copy = destination.as_ref().and_then(|(_, node, _)| node.copy.as_ref());
        must_be_pending(copy, self.id).map(|_| ())
    }

    fn decide(&self, records: Self::Records, moment: Moment) -> Result<(Vec<Write>, ()), Refusal> {
        self.check(&records, moment.now)?;
        let (state, destination) = records;
        let (copying, node, stored) = destination.ok_or(ErrorCode::NoPendingCopyOperation)?;
        let mut edit = Edit::new(&state);
        let node = settle(&mut edit, &state, copying.quota_gib, node, &self.step, moment);
        edit.change_node(&node, Some(&stored));
        Ok((edit.finish(), ()))
    }
}

/// Abort Copy File.
pub struct AbortCopy {
    pub target: Target,
    pub id: Id,
}

impl Command for AbortCopy {
    type Records = Around;
    type Outcome = ();

    fn partition(&self) -> &PartitionId {
        self.target.partition()
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Around, Fault> {
        self.target.load(reader).await
    }

    fn check(&self, around: &Around, now: Timestamp) -> Result<(), Refusal> {
        let node = &self.target.judge(around, now)?.node;
        must_be_pending(node.copy.as_ref(), self.id).map(|_| ())
    }

    fn decide(&self, around: Around, moment: Moment) -> Result<(Vec<Write>, ()), Refusal> {
        self.check(&around, moment.now)?;
        let Around { state, place, .. } = around;
        let found = place.found().ok_or(ErrorCode::ResourceNotFound)?;
        let mut edit = Edit::new(&state);
        let quota_gib = self.target.share().quota_gib;
        let node = settle(&mut edit, &state, quota_gib, found.node.clone(), &Step::Aborted, moment);
        edit.change(&found, &node);
        Ok((edit.finish(), ()))
    }
}

/// Is the copy still wanted?
pub async fn is_pending(shell: &Shell, group: &GroupId, id: Id) -> Result<bool, Failure> {
    let partition = key::tree_partition(group);
    let find = || async {
        let view = shell.engine.view(&partition).await?;
        load_destination(&Reader::committed(view.as_ref()), id).await
    };
    let destination = shell.steadily(&partition, find).await?;
    Ok(must_be_pending(destination.and_then(|(_, node, _)| node.copy).as_ref(), id).is_ok())
}
