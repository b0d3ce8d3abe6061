//! SET_INFO by way of a handle: times, attributes, size, permission; and bytes made zero.

use contract::Refusal;
use contract::attributes::FileAttributes;
use contract::limits::FILE_BYTES_MAX;
use engine::{Fault, PartitionId, Write};
use env::Timestamp;

use super::{Error, Refused, settled};
use crate::execute::{Command, Moment, Reader, Shell};
use crate::file::body::{self, Met};
use crate::file::settings::{Settings, stamp};
use crate::file::share;
use crate::file::target::resized;
use crate::file::tree::{self, untouched_root};
use crate::file::versions::{Edit, Versioned};
use crate::key;
use crate::lease::LeaseState;
use crate::record::{FileId, Node, NodeKind, ShareHead, ShareState};

/// What is set. What is not said stays.
#[derive(Clone, Debug, Default)]
pub struct Change {
    pub settings: Settings,
    /// When it was last read.
    pub accessed: Option<Timestamp>,
    pub bytes: Option<u64>,
    /// Its size when it was judged which bytes go or come.
    pub bytes_before: Option<u64>,
    /// Only if it is larger than that.
    pub only_shrinks: bool,
    pub keeps_write_time: bool,
}

pub async fn set(shell: &Shell, share: &share::Found, file: FileId, change: Change) -> Result<Node, Error> {
    let (partition, head) = (key::tree_partition(share.group()), share.head.clone());
    Ok(shell.execute(&SetFile { partition, head, file, change }).await??)
}

struct SetFile {
    partition: PartitionId,
    head: ShareHead,
    file: FileId,
    change: Change,
}

struct Before {
    state: ShareState,
    found: Option<(Node, Option<Versioned>)>,
    /// What lies behind a new end.
    cut: Option<Vec<Met>>,
}

impl SetFile {
    /// Is it told how long it is? Then it counts as written to, even if it was as long before.
    fn sets_size(&self, node: &Node) -> bool {
        self.change.bytes.is_some() && !self.change.only_shrinks || self.size(node).is_some()
    }

    /// The size it gets, if it gets another.
    fn size(&self, node: &Node) -> Option<u64> {
        let new = self.change.bytes?;
        let changes = if self.change.only_shrinks { new < node.bytes() } else { new != node.bytes() };
        changes.then_some(new)
    }

    fn make(&self, before: Before, moment: Moment) -> Result<(Vec<Write>, Node), Refused> {
        let Before { state, found, cut } = before;
        let (mut node, stored) = found.ok_or(Refused::NotFound)?;
        let mut edit = Edit::new(&state);
        if self.change.bytes.is_some() && node.is_directory() {
            return Err(Refused::Invalid);
        }
        // Like Set File Properties without the lease's id. A handle that writes attributes alone may be open beside a lease.
        if LeaseState::of(node.lease.as_ref(), moment.now).is_locked() {
            return Err(Refused::HeldByRest);
        }
        if self.change.bytes_before.is_some_and(|before| before != node.bytes()) {
            return Err(Refused::Resized);
        }
        if self.sets_size(&node) && !self.change.keeps_write_time {
            node.written = moment.now;
        }
        if let Some(new) = self.size(&node) {
            if new > FILE_BYTES_MAX {
                return Err(Refused::TooLarge);
            }
            let old = node.bytes();
            edit.resize(&mut node, new, cut, moment.tick);
            let resized = resized(&state, self.head.quota_gib, old, new).map_err(|_| Refused::Full)?;
            edit.put_state(&resized);
            node.attributes = node.attributes.with(FileAttributes::ARCHIVE);
        }
        self.change.settings.apply_to_old(&mut node, moment.now, &mut edit);
        if let Some(accessed) = self.change.accessed {
            node.accessed = Some(accessed);
        }
        stamp(&mut node, moment);
        edit.change_node(&node, stored.as_ref());
        Ok((edit.finish(), node))
    }
}

impl Command for SetFile {
    type Records = Before;
    type Outcome = Result<Node, Refused>;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Before, Fault> {
        let state = tree::state(reader).await?;
        let found = match tree::find_node(reader, self.file).await? {
            Some((node, stored)) => Some((node, Some(stored))),
            None if self.file == FileId::ROOT => Some((untouched_root(&self.head), None)),
            None => None,
        };
        let cut = match found.as_ref().and_then(|(node, _)| Some((node, self.size(node)?))) {
            Some((node, new)) => body::beyond(reader, &state, node, new).await?,
            None => None,
        };
        Ok(Before { state, found, cut })
    }

    fn check(&self, _: &Before, _: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, before: Before, moment: Moment) -> Result<(Vec<Write>, Self::Outcome), Refusal> {
        Ok(settled(self.make(before, moment)))
    }
}

/// A range that is made zero, as far as the file goes.
pub struct Zeros {
    pub from: u64,
    /// Behind the last byte.
    pub to: u64,
    pub keeps_write_time: bool,
}

pub async fn clear(shell: &Shell, share: &share::Found, file: FileId, zeros: Zeros) -> Result<Node, Error> {
    let partition = key::tree_partition(share.group());
    Ok(shell.execute(&Clear { partition, file, zeros }).await??)
}

struct Clear {
    partition: PartitionId,
    file: FileId,
    zeros: Zeros,
}

struct Cleared {
    state: ShareState,
    found: Option<(Node, Versioned)>,
    runs: Vec<Met>,
}

impl Clear {
    fn end(&self, node: &Node) -> u64 {
        self.zeros.to.min(node.bytes())
    }

    fn make(&self, before: Cleared, moment: Moment) -> Result<(Vec<Write>, Node), Refused> {
        let Cleared { state, found, runs } = before;
        let (mut node, stored) = found.ok_or(Refused::NotFound)?;
        let NodeKind::File { body, .. } = node.kind else { return Err(Refused::IsDirectory) };
        if self.end(&node) <= self.zeros.from {
            return Ok((Vec::new(), node));
        }
        let mut edit = Edit::new(&state);
        edit.carve(body, &runs, self.zeros.from, self.end(&node) - 1);
        stamp(&mut node, moment);
        node.attributes = node.attributes.with(FileAttributes::ARCHIVE);
        node.changed = moment.now;
        if !self.zeros.keeps_write_time {
            node.written = moment.now;
        }
        edit.change_node(&node, Some(&stored));
        Ok((edit.finish(), node))
    }
}

impl Command for Clear {
    type Records = Cleared;
    type Outcome = Result<Node, Refused>;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Cleared, Fault> {
        let (state, found) = (tree::state(reader).await?, tree::find_node(reader, self.file).await?);
        let runs = match &found {
            Some((node, _)) if self.end(node) > self.zeros.from => match node.body() {
                Some(body) => body::overlapping(reader, &state, body, self.zeros.from, self.end(node) - 1).await?,
                None => Vec::new(),
            },
            _ => Vec::new(),
        };
        Ok(Cleared { state, found, runs })
    }

    fn check(&self, _: &Cleared, _: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, before: Cleared, moment: Moment) -> Result<(Vec<Write>, Self::Outcome), Refusal> {
        Ok(settled(self.make(before, moment)))
    }
}
