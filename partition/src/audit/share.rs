//! Shares: names and what they name, files and their bytes, and what snapshots still see of both.

use bytes::Bytes;
use contract::names::fold;
use engine::{Fault, GroupId, PartitionId, Record};

use super::Audit;
use super::cursor::Cursor;
use super::rules::{self, Tree};
use crate::file::body::Run;
use crate::file::security::SecurityDescriptor;
use crate::file::settings::{default_permission, permission_key};
use crate::file::tree::node_key;
use crate::file::versions::{Versioned, split_past_key};
use crate::key::{self, share};
use crate::record::note::Copying;
use crate::record::{Entry, FileId, Node, ShareState, corrupt};

/// A share that is looked through.
struct Looking<'a> {
    group: &'a GroupId,
    partition: PartitionId,
    state: ShareState,
    tree: Tree,
}

impl Audit<'_> {
    pub(super) fn share(&mut self, group: &GroupId) -> Result<(), Fault> {
        self.counted.shares += 1;
        let partition = key::tree_partition(group);
        let state = self.records.get(&partition, share::STATE, b"")?;
        let state = match state.map(|state| ShareState::decode(&state.value)).transpose() {
            Ok(state) => state.unwrap_or_default(),
            Err(fault) => {
                self.tell(group, None, fault.to_string());
                return Ok(());
            }
        };
        let mut looking = Looking { group, partition, state, tree: Tree::default() };
        self.names(&mut looking)?;
        self.nodes(&mut looking)?;
        for family in [share::ORPHAN, share::STAGED] {
            self.contents(&mut looking, family)?;
        }
        let mut runs = Cursor::new(self.records, group, share::RUN);
        while runs.next()?.is_some() {
            looking.tree.runs += 1;
        }
        self.past(&looking)?;
        self.plain(&looking)?;
        self.tell_all(group, None, rules::tree(&looking.state, &looking.tree));
        Ok(())
    }

    /// A name is where its folded form says, in a directory that is there, and names something that is there.
    fn names(&mut self, looking: &mut Looking<'_>) -> Result<(), Fault> {
        let mut entries = Cursor::new(self.records, looking.group, share::ENTRY);
        while let Some(row) = entries.next()? {
            looking.tree.names += 1;
            match self.name(looking, &row.key, row.record) {
                Ok(words) => self.tell_all(looking.group, None, words),
                Err(Fault::Corrupt { what }) => self.tell(looking.group, None, what),
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }

    fn name(&self, looking: &Looking<'_>, key: &Bytes, record: Record) -> Result<Vec<String>, Fault> {
        let stored = Versioned::read(record)?;
        let entry = Entry::decode(&stored.value)?;
        let mut words: Vec<String> = rules::since(&looking.state, stored.since).into_iter().collect();
        let (parent, folded) = split_entry_key(key)?;
        if folded != fold(&entry.name).as_bytes() {
            words.push(format!("the name '{}' is stored under another", entry.name));
        }
        let is_directory = |id| Ok::<_, Fault>(self.node(looking, id)?.map(|node| node.is_directory()));
        if parent != FileId::ROOT && is_directory(parent)? != Some(true) {
            words.push(format!("the name '{}' is in a directory that is not there", entry.name));
        }
        match is_directory(entry.id)? {
            None => words.push(format!("the name '{}' names nothing", entry.name)),
            Some(found) if found != entry.is_directory => {
                words.push(format!("the name '{}' is of a file or a directory, and names the other", entry.name));
            }
            Some(_) => {}
        }
        Ok(words)
    }

    fn node(&self, looking: &Looking<'_>, id: FileId) -> Result<Option<Node>, Fault> {
        let record = self.records.get(&looking.partition, share::NODE, &node_key(id))?;
        record.map(|record| Node::decode(&Versioned::read(record)?.value)).transpose()
    }

    fn nodes(&mut self, looking: &mut Looking<'_>) -> Result<(), Fault> {
        let mut nodes = Cursor::new(self.records, looking.group, share::NODE);
        while let Some(row) = nodes.next()? {
            self.counted.files += 1;
            self.to.progress(&self.counted);
            let read = Versioned::read(row.record).and_then(|stored| Ok((stored.since, Node::decode(&stored.value)?)));
            let (since, node) = match read {
                Ok(read) => read,
                Err(fault) => {
                    self.tell(looking.group, None, fault.to_string());
                    continue;
                }
            };
            let mut words: Vec<String> = rules::since(&looking.state, since).into_iter().collect();
            if row.key != node_key(node.id) {
                words.push(format!("file {} is stored under another id", node.id.0));
            }
            if node.id != FileId::ROOT {
                looking.tree.links += node.posix.map_or(1, |posix| u64::from(posix.links));
            }
            looking.tree.used_bytes += node.bytes();
            words.extend(self.permission(looking, &node)?);
            if let Some(body) = node.body() {
                words.extend(self.runs(looking, body, Some(node.bytes()))?);
            }
            let which = |words: String| format!("file {}: {words}", node.id.0);
            self.tell_all(looking.group, None, words.into_iter().map(which));
        }
        Ok(())
    }

    /// The share knows the security descriptors of what is in it.
    fn permission(&self, looking: &Looking<'_>, node: &Node) -> Result<Option<String>, Fault> {
        let Some(key) = node.permission else { return Ok(None) };
        let is_default = [false, true].into_iter().any(|is_directory| default_permission(is_directory).0 == key);
        let is_known =
            is_default || self.records.get(&looking.partition, share::PERMISSION, &permission_key(key))?.is_some();
        Ok((!is_known).then(|| "the share does not know its permission".to_owned()))
    }

    /// The runs of one content. `bytes` is the size of the file that has it.
    fn runs(&self, looking: &mut Looking<'_>, body: u64, bytes: Option<u64>) -> Result<Vec<String>, Fault> {
        let prefix = body.to_be_bytes();
        let mut runs = Cursor::new(self.records, looking.group, share::RUN).from(Bytes::new(), &prefix);
        let (mut words, mut before) = (Vec::new(), None);
        while let Some(row) = runs.next_if(|row| row.key.starts_with(&prefix))? {
            looking.tree.owned_runs += 1;
            let read = Versioned::read(row.record).and_then(|stored| Ok((stored.since, Run::read(&row.key, &stored)?)));
            match read {
                Ok((since, run)) => {
                    words.extend(rules::since(&looking.state, since));
                    words.extend(rules::runs(before, run.begin, run.end, bytes));
                    before = Some(run.end);
                }
                Err(fault) => words.push(fault.to_string()),
            }
        }
        Ok(words)
    }

    /// Contents that no file has: those that are swept, and those that are being put together.
    fn contents(&mut self, looking: &mut Looking<'_>, family: engine::Family) -> Result<(), Fault> {
        let mut contents = Cursor::new(self.records, looking.group, family);
        while let Some(row) = contents.next()? {
            let (Ok(body), 8) = (row.key.as_ref().try_into().map(u64::from_be_bytes), row.record.value.len()) else {
                self.tell(looking.group, None, "a content that no file has cannot be read".to_owned());
                continue;
            };
            let words = self.runs(looking, body, None)?;
            self.tell_all(looking.group, None, words);
        }
        Ok(())
    }

    fn past(&mut self, looking: &Looking<'_>) -> Result<(), Fault> {
        for family in [share::PAST_ENTRY, share::PAST_NODE, share::PAST_RUN] {
            let mut rows = Cursor::new(self.records, looking.group, family);
            while let Some(row) = rows.next()? {
                let read = || {
                    let (key, until) = split_past_key(&row.key)?;
                    let stored = Versioned::read(row.record.clone())?;
                    match family {
                        share::PAST_ENTRY => Entry::decode(&stored.value).map(drop),
                        share::PAST_NODE => Node::decode(&stored.value).map(drop),
                        _ => Run::read(&key, &stored).map(drop),
                    }?;
                    Ok::<_, Fault>(rules::past_of_share(&looking.state, stored.since, until))
                };
                let words = read().unwrap_or_else(|fault| Some(fault.to_string()));
                self.tell_all(looking.group, None, words);
            }
        }
        Ok(())
    }

    /// Records that no other speaks of.
    fn plain(&mut self, looking: &Looking<'_>) -> Result<(), Fault> {
        let mut permissions = Cursor::new(self.records, looking.group, share::PERMISSION);
        while let Some(row) = permissions.next()? {
            let descriptor = SecurityDescriptor::parse_binary(&row.record.value);
            if descriptor.is_none_or(|descriptor| permission_key(descriptor.key()) != row.key) {
                self.tell(looking.group, None, "a permission is not what its key says".to_owned());
            }
        }
        let mut copies = Cursor::new(self.records, looking.group, share::COPYING);
        while let Some(row) = copies.next()? {
            let copying = Copying::decode(&row.record.value).ok().filter(|_| row.key.len() == 16);
            if copying.is_none() {
                self.tell(looking.group, None, "a copy to a file cannot be read".to_owned());
            }
        }
        Ok(())
    }
}

fn split_entry_key(key: &[u8]) -> Result<(FileId, &[u8]), Fault> {
    let (parent, folded) = key.split_first_chunk::<8>().ok_or_else(|| corrupt("the key of a name", key))?;
    Ok((FileId(u64::from_be_bytes(*parent)), folded))
}
