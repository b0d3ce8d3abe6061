//! Reads of files and directories: one committed version, to its last byte (promise E2).

use contract::ErrorCode;
use contract::names::FilePath;
use engine::{Fault, View};

use super::body::{Body, Rest};
use super::opens::{ByteRange, RestAccess};
use super::share;
use super::target::{access, judge_kind, judge_lease, must_be_there};
use super::tree::{Found, find_at};
use super::versions::At;
use crate::blob::read::{Part, Range};
use crate::checks::Expectation;
use crate::content::ContentReader;
use crate::execute::{Failure, Shell};
use crate::record::Node;

/// Something as a request that only looks at it found it.
pub(super) struct Looked {
    pub view: Box<dyn View>,
    pub found: Found,
}

/// Get Properties and Get Metadata.
pub async fn look(
    shell: &Shell,
    share: &share::Found,
    path: &FilePath,
    expectation: &Expectation,
) -> Result<Found, Failure> {
    share.let_in(shell, || async { Ok(begin(shell, share, path, expectation).await?.found) }).await
}

/// The beginning of every other read.
pub(super) async fn begin(
    shell: &Shell,
    share: &share::Found,
    path: &FilePath,
    expectation: &Expectation,
) -> Result<Looked, Failure> {
    look_as(shell, share, path, expectation, |node| access(expectation.operation.effect, node)).await
}

async fn look_as(
    shell: &Shell,
    share: &share::Found,
    path: &FilePath,
    expectation: &Expectation,
    as_what: impl Fn(&Node) -> RestAccess,
) -> Result<Looked, Failure> {
    let given_back = shell.open_files.given_back(share.group());
    let mut view = share.view(shell).await?;
    let mut place = find_at(view.as_ref(), share.at, &share.head, path).await?;
    let node = &must_be_there(&place)?.node;
    judge_kind(expectation, node)?;
    // Whoever opens it later comes later: a view of it is taken.
    if share.at == At::Now {
        let (now, id) = (shell.clock.now(), node.id);
        let let_in = shell.open_files.short_open(share.group(), id, as_what(node), now)?;
        // What stood in the way when the view was taken may be gone by now, and what it hid as well. So it is looked at again, let in.
        if shell.open_files.given_back(share.group()) != given_back {
            view = share.view(shell).await?;
            place = find_at(view.as_ref(), share.at, &share.head, path).await?;
            let is_same = place.node().is_some_and(|node| node.id == id);
            if !is_same || shell.open_files.is_delete_pending(share.group(), id) {
                return Err(Fault::Moved.into());
            }
        }
        drop(let_in);
        judge_lease(expectation, must_be_there(&place)?.node.lease.as_ref(), now)?;
    }
    let found = place.found().ok_or(ErrorCode::ResourceNotFound)?;
    Ok(Looked { view, found })
}

/// What is at a path, whatever it is and whoever has it open.
pub async fn find(shell: &Shell, share: &share::Found, path: &FilePath) -> Result<Found, Failure> {
    let find = || async {
        let view = share.view(shell).await?;
        let place = find_at(view.as_ref(), share.at, &share.head, path).await?;
        must_be_there(&place)?;
        Ok(place.found().ok_or(ErrorCode::ResourceNotFound)?)
    };
    share.steadily(shell, find).await
}

/// Get File: the file and its content, of the same version.
pub async fn content(
    shell: &Shell,
    share: &share::Found,
    path: &FilePath,
    expectation: &Expectation,
    range: Option<Range>,
) -> Result<(Found, Option<Part>, ContentReader), Failure> {
    let read = range.map_or(ByteRange::ALL, |range| ByteRange {
        offset: range.first,
        length: range.last.map_or(u64::MAX - range.first, |last| (last - range.first).saturating_add(1)),
    });
    let open = || async {
        let Looked { view, found } = look_as(shell, share, path, expectation, |_| RestAccess::Read(read)).await?;
        let (body, bytes) = Body::of(share.at, &found.node).ok_or(ErrorCode::ResourceNotFound)?;
        let part = range.map(|range| range.within(bytes)).transpose()?;
        let (first, count) = part.map_or((0, bytes), |part| (part.first, part.bytes()));
        let rest = Box::new(Rest::new(body, first, count));
        let reader = ContentReader::of_runs(&shell.engine, &share.tree(), view, rest).await?;
        Ok((found, part, reader))
    };
    share.let_in(shell, open).await
}
