//! Reads by way of a handle: what the file is like, its bytes, the names in a directory.

use bytes::Bytes;
use engine::View;

use super::{Error, Refused};
use crate::content::ContentReader;
use crate::execute::Reader;
use crate::execute::Shell;
use crate::file::body::{Body, Rest};
use crate::file::delete::is_empty;
use crate::file::list::{Listing, Names};
use crate::file::share;
use crate::file::tree::{Place, find_spelled_at, node_key, state, untouched_root};
use crate::file::versions::{Versioned, get_at};
use crate::key;
use crate::record::{FileId, Node};
use contract::names::FilePath;

/// What a file or directory is like, now or as a snapshot saw it.
pub async fn node(shell: &Shell, share: &share::Found, file: FileId) -> Result<Node, Error> {
    let stored = share.steadily(shell, || async { Ok::<_, Error>(stored(shell, share, file).await?.1) }).await?;
    match stored {
        Some(stored) => Ok(Node::decode(&stored.value)?),
        None if file == FileId::ROOT => Ok(untouched_root(&share.head)),
        None => Err(Refused::NotFound.into()),
    }
}

/// A file's record, and the state of the tree it was found in.
async fn stored(
    shell: &Shell,
    share: &share::Found,
    file: FileId,
) -> Result<(Box<dyn View>, Option<Versioned>), Error> {
    let view = share.view(shell).await?;
    let stored = get_at(view.as_ref(), share.at, key::share::NODE, &node_key(file)).await?;
    Ok((view, stored))
}

/// A file's content and how many bytes it has, and the state of the tree it was found in.
async fn body(shell: &Shell, share: &share::Found, file: FileId) -> Result<(Box<dyn View>, Body, u64), Error> {
    let (view, stored) = stored(shell, share, file).await?;
    let node = Node::decode(&stored.ok_or(Refused::NotFound)?.value)?;
    let (body, bytes) = Body::of(share.at, &node).ok_or(Refused::IsDirectory)?;
    Ok((view, body, bytes))
}

/// What is at a path, and the path as its names are stored, for those who open it in a snapshot.
pub async fn find(shell: &Shell, share: &share::Found, path: &FilePath) -> Result<(Node, String), Error> {
    let find = || async {
        let view = share.view(shell).await?;
        Ok::<_, Error>(find_spelled_at(view.as_ref(), share.at, &share.head, path).await?)
    };
    let (place, spelled) = share.steadily(shell, find).await?;
    let path = spelled.of(&place, None);
    match place {
        Place::NoParent => Err(Refused::NoPath.into()),
        Place::Free { .. } => Err(Refused::NotFound.into()),
        Place::Taken(found) => Ok((found.node, path)),
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
    let read = || async {
        let (view, body, bytes) = body(shell, share, file).await?;
        let count = count.min(bytes.saturating_sub(offset));
        let mut found = Vec::new();
        if count > 0 {
            let rest = Box::new(Rest::new(body, offset, count));
            let mut reader = ContentReader::of_runs(&shell.engine, &share.tree(), view, rest).await?;
            while let Some(piece) = reader.next().await? {
                found.push(piece);
            }
        }
        Ok(found)
    };
    share.steadily(shell, read).await
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
    share.steadily(shell, || allocated_once(shell, share, file, from, to, count)).await
}

async fn allocated_once(
    shell: &Shell,
    share: &share::Found,
    file: FileId,
    from: u64,
    to: u64,
    count: usize,
) -> Result<(Vec<(u64, u64)>, bool), Error> {
    let (view, body, bytes) = body(shell, share, file).await?;
    let end = to.min(bytes);
    let mut found: Vec<(u64, u64)> = Vec::new();
    if from >= end {
        return Ok((found, false));
    }
    let mut walk = body.runs(from, end - 1);
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
    let listing = Listing { prefix, start, results_max };
    let read = || async {
        let view = share.view(shell).await?;
        Ok(crate::file::list::names(view.as_ref(), share.at, directory, &listing, |_| true).await?)
    };
    share.steadily(shell, read).await
}

/// Is there nothing in a directory?
pub async fn has_nothing_in_it(shell: &Shell, share: &share::Found, directory: FileId) -> Result<bool, Error> {
    let read = || async {
        let view = share.view(shell).await?;
        Ok(is_empty(&Reader::committed(view.as_ref()), directory).await?)
    };
    share.steadily(shell, read).await
}

/// How many bytes a share holds.
pub async fn used_bytes(shell: &Shell, share: &share::Found) -> Result<u64, Error> {
    let read = || async {
        let view = share.view(shell).await?;
        Ok(state(&Reader::committed(view.as_ref())).await?.used_bytes)
    };
    share.steadily(shell, read).await
}
