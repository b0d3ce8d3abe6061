//! Reads by way of a handle: what the file is like, its bytes, the names in a directory.

use bytes::Bytes;

use super::{Error, Refused};
use crate::content::ContentReader;
use crate::execute::Reader;
use crate::execute::Shell;
use crate::file::body::{Rest, RunWalk};
use crate::file::delete::is_empty;
use crate::file::list::{Listing, Names};
use crate::file::share;
use crate::file::tree::{find_at, node_key, state, untouched_root};
use crate::file::versions::get_at;
use crate::key;
use crate::record::{FileId, Node, NodeKind};
use contract::names::FilePath;

/// What a file or directory is like, now or as a snapshot saw it.
pub async fn node(shell: &Shell, share: &share::Found, file: FileId) -> Result<Node, Error> {
    let view = share.view(shell).await?;
    let stored = get_at(view.as_ref(), share.at, key::share::NODE, &node_key(file)).await?;
    match stored {
        Some(stored) => Ok(Node::decode(&stored.value)?),
        None if file == FileId::ROOT => Ok(untouched_root(&share.head)),
        None => Err(Refused::NotFound.into()),
    }
}

/// What is at a path, for those who open it in a snapshot.
pub async fn find(shell: &Shell, share: &share::Found, path: &FilePath) -> Result<Node, Error> {
    let view = share.view(shell).await?;
    match find_at(view.as_ref(), share.at, &share.head, path).await? {
        crate::file::tree::Place::NoParent => Err(Refused::NoPath.into()),
        crate::file::tree::Place::Free { .. } => Err(Refused::NotFound.into()),
        crate::file::tree::Place::Taken(found) => Ok(found.node),
    }
}

/// At most `count` bytes from `offset`, of one version: fewer at the end of the file, none behind it.
pub async fn read(
    shell: &Shell,
    share: &share::Found,
    file: FileId,
    offset: u64,
    count: u64,
) -> Result<Vec<Bytes>, Error> {
    let view = share.view(shell).await?;
    let stored = get_at(view.as_ref(), share.at, key::share::NODE, &node_key(file)).await?;
    let node = Node::decode(&stored.ok_or(Refused::NotFound)?.value)?;
    let NodeKind::File { bytes, body } = node.kind else { return Err(Refused::IsDirectory.into()) };
    let count = count.min(bytes.saturating_sub(offset));
    let mut found = Vec::new();
    if count > 0 {
        let rest = Rest::new(share.at, body, offset, count);
        let mut reader = ContentReader::of_runs(&shell.engine, view, Box::new(rest)).await?;
        while let Some(piece) = reader.next().await? {
            found.push(piece);
        }
    }
    Ok(found)
}

/// Where something was written between two offsets, in order, neighbours joined; at most `count` stretches.
pub async fn allocated(
    shell: &Shell,
    share: &share::Found,
    file: FileId,
    from: u64,
    to: u64,
    count: usize,
) -> Result<(Vec<(u64, u64)>, bool), Error> {
    let view = share.view(shell).await?;
    let stored = get_at(view.as_ref(), share.at, key::share::NODE, &node_key(file)).await?;
    let node = Node::decode(&stored.ok_or(Refused::NotFound)?.value)?;
    let NodeKind::File { bytes, body } = node.kind else { return Err(Refused::IsDirectory.into()) };
    let end = to.min(bytes);
    let mut found: Vec<(u64, u64)> = Vec::new();
    if from >= end {
        return Ok((found, false));
    }
    let mut walk = RunWalk::new(share.at, body, from, end - 1);
    while let Some(run) = walk.next(view.as_ref()).await? {
        let (begin, behind) = (run.begin.max(from), (run.end + 1).min(end));
        let is_full = found.len() == count;
        match found.last_mut() {
            Some(last) if last.1 == begin => last.1 = behind,
            _ if is_full => return Ok((found, true)),
            _ => found.push((begin, behind)),
        }
    }
    Ok((found, false))
}

/// Names in a directory that begin like this, and what they name, in their order, from one on.
pub async fn names(
    shell: &Shell,
    share: &share::Found,
    directory: FileId,
    prefix: String,
    start: String,
    results_max: usize,
) -> Result<Names, Error> {
    let view = share.view(shell).await?;
    let listing = Listing { prefix, start, results_max };
    Ok(crate::file::list::names(view.as_ref(), share.at, directory, &listing, |_| true).await?)
}

/// Is there nothing in a directory?
pub async fn has_nothing_in_it(shell: &Shell, share: &share::Found, directory: FileId) -> Result<bool, Error> {
    let view = share.view(shell).await?;
    Ok(is_empty(&Reader::committed(view.as_ref()), directory).await?)
}

/// How many bytes a share holds.
pub async fn used_bytes(shell: &Shell, share: &share::Found) -> Result<u64, Error> {
    let view = share.view(shell).await?;
    Ok(state(&Reader::committed(view.as_ref())).await?.used_bytes)
}
