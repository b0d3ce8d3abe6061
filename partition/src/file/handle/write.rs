//! WRITE by way of a handle: bytes anywhere, the file grows as it must.

use contract::Refusal;
use contract::attributes::FileAttributes;
use contract::limits::FILE_BYTES_MAX;
use engine::{Durability, Fault, PartitionId, Write};
use env::Timestamp;

use super::{Error, Refused, settled};
use crate::content::Content;
use crate::execute::{Command, Moment, Reader, Shell};
use crate::file::body::{self, Met};
use crate::file::settings::stamp;
use crate::file::share;
use crate::file::target::resized;
use crate::file::tree;
use crate::file::versions::{Edit, Versioned};
use crate::key;
use crate::record::{FileId, Node, NodeKind, ShareState};

/// What is written.
pub struct Written {
    pub file: FileId,
    pub offset: u64,
    pub content: Content,
    /// Its time of last write was set by this handle, and stays.
    pub keeps_write_time: bool,
    /// Its handle may add bytes and change none.
    pub only_appends: bool,
    /// On disk before it is answered.
    pub is_through: bool,
}

/// Writes, and tells what the file is like now.
pub async fn write(shell: &Shell, share: &share::Found, written: Written) -> Result<Node, Error> {
    let command = WriteFile { partition: key::tree_partition(share.group()), quota_gib: share.head.quota_gib, written };
    Ok(shell.execute(&command).await??)
}

/// Returns when everything written so far is on disk.
pub async fn flush(shell: &Shell) -> Result<(), Error> {
    Ok(shell.sync().await?)
}

struct WriteFile {
    partition: PartitionId,
    quota_gib: u32,
    written: Written,
}

struct Before {
    state: ShareState,
    found: Option<(Node, Versioned)>,
    runs: Vec<Met>,
}

impl WriteFile {
    fn end(&self) -> u64 {
        self.written.offset.saturating_add(self.written.content.bytes())
    }

    fn make(&self, before: Before, moment: Moment) -> Result<(Vec<Write>, Node), Refused> {
        let Before { state, found, runs } = before;
        let (mut node, stored) = found.ok_or(Refused::NotFound)?;
        let NodeKind::File { bytes, body } = node.kind else { return Err(Refused::IsDirectory) };
        if self.written.content.bytes() == 0 {
            return Ok((Vec::new(), node));
        }
        if self.written.only_appends && self.written.offset < bytes {
            return Err(Refused::Denied);
        }
        if self.end() > FILE_BYTES_MAX {
            return Err(Refused::TooLarge);
        }
        let mut edit = Edit::new(&state);
        edit.carve(body, &runs, self.written.offset, self.end() - 1);
        edit.write_content(body, self.written.offset, &self.written.content);
        if self.end() > bytes {
            let grown = resized(&state, self.quota_gib, bytes, self.end()).map_err(|_| Refused::Full)?;
            edit.put_state(&grown);
            node.kind = NodeKind::File { bytes: self.end(), body };
        }
        node.attributes = node.attributes.with(FileAttributes::ARCHIVE);
        stamp(&mut node, moment);
        node.changed = moment.now;
        if !self.written.keeps_write_time {
            node.written = moment.now;
        }
        edit.change_node(&node, Some(&stored));
        Ok((edit.finish(), node))
    }
}

impl Command for WriteFile {
    type Records = Before;
    type Outcome = Result<Node, Refused>;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    fn durability(&self) -> Durability {
        if self.written.is_through { Durability::Synced } else { Durability::Buffered }
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Before, Fault> {
        let (state, found) = (tree::state(reader).await?, tree::find_node(reader, self.written.file).await?);
        let runs = match found.as_ref().map(|(node, _)| &node.kind) {
            // Behind its end a file has no runs.
            Some(NodeKind::File { bytes, body })
                if self.written.content.bytes() > 0 && self.written.offset < *bytes =>
            {
                body::overlapping(reader, &state, *body, self.written.offset, self.end() - 1).await?
            }
            _ => Vec::new(),
        };
        Ok(Before { state, found, runs })
    }

    fn check(&self, _: &Before, _: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, before: Before, moment: Moment) -> Result<(Vec<Write>, Self::Outcome), Refusal> {
        Ok(settled(self.make(before, moment)))
    }
}
