//! List Directories and Files: one level, in the order of the names whatever their case. What is to go with its last handle is left out
//! (promise F4).

use bytes::{BufMut, Bytes, BytesMut};
use contract::ErrorCode;
use contract::names::{FilePath, fold};
use engine::{Fault, View};

use super::read::{Looked, begin};
use super::share;
use super::tree::node_key;
use super::versions::{At, Walk, get_at};
use crate::checks::Expectation;
use crate::execute::{Failure, Shell};
use crate::key;
use crate::record::{Entry, FileId, Node, corrupt};

/// What to list, and where to go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listing {
    pub prefix: String,
    /// The name to go on from, in upper case.
    pub start: String,
    pub results_max: usize,
}

pub struct Listed {
    pub directory: Node,
    pub parent: FileId,
    /// Names as they were written, and what they name.
    pub entries: Vec<(String, Node)>,
    /// The name to go on from, in upper case.
    pub next: Option<String>,
}

pub async fn list(
    shell: &Shell,
    share: &share::Found,
    path: &FilePath,
    expectation: &Expectation,
    listing: &Listing,
) -> Result<Listed, Failure> {
    share.let_in(shell, || list_once(shell, share, path, expectation, listing)).await
}

async fn list_once(
    shell: &Shell,
    share: &share::Found,
    path: &FilePath,
    expectation: &Expectation,
    listing: &Listing,
) -> Result<Listed, Failure> {
    let pending_before = shell.open_files.pending_changes(share.group());
    let Looked { view, found } = begin(shell, share, path, expectation).await?;
    let directory = found.node;
    if !directory.is_directory() {
        return Err(ErrorCode::ResourceNotFound.into());
    }
    let is_shown = |file| share.at != At::Now || !shell.open_files.is_delete_pending(share.group(), file);
    let Names { entries, next } = names(view.as_ref(), share.at, directory.id, listing, is_shown).await?;
    // What was pending when the tree was looked at may have gone since, and what is pending now may not have been then.
    if share.at == At::Now && shell.open_files.pending_changes(share.group()) != pending_before {
        return Err(Fault::Moved.into());
    }
    Ok(Listed { directory, parent: found.parent, entries, next })
}

/// Some of the names in a directory.
#[derive(Debug)]
pub struct Names {
    /// As they were written, and what they name.
    pub entries: Vec<(String, Node)>,
    /// The name to go on from, in upper case.
    pub next: Option<String>,
}

pub async fn names(
    view: &dyn View,
    at: At,
    directory: FileId,
    listing: &Listing,
    is_shown: impl Fn(FileId) -> bool,
) -> Result<Names, Fault> {
    let prefix = fold(&listing.prefix);
    let start = child_key(directory, listing.start.as_str().max(prefix.as_str()));
    let mut walk = Walk::new(at, key::share::ENTRY, start, &child_key(directory, &prefix));
    let mut entries = Vec::new();
    // One more than is shown, to know the name to go on from.
    while let Some((key, stored)) = walk.next(view, listing.results_max + 1 - entries.len()).await? {
        if entries.len() == listing.results_max {
            let next = key.get(8..).and_then(|name| std::str::from_utf8(name).ok());
            let next = next.ok_or_else(|| corrupt("the key of a name", &key))?.to_string();
            return Ok(Names { entries, next: Some(next) });
        }
        let entry = Entry::decode(&stored.value)?;
        if !is_shown(entry.id) {
            continue;
        }
        let node = get_at(view, at, key::share::NODE, &node_key(entry.id)).await?;
        let node = node.ok_or_else(|| named_nothing(&entry))?;
        entries.push((entry.name, Node::decode(&node.value)?));
    }
    Ok(Names { entries, next: None })
}

fn named_nothing(entry: &Entry) -> Fault {
    corrupt("a name that names nothing", entry.name.as_bytes())
}

fn child_key(directory: FileId, folded: &str) -> Bytes {
    let mut key = BytesMut::with_capacity(8 + folded.len());
    key.put_u64(directory.0);
    key.put_slice(folded.as_bytes());
    key.freeze()
}
