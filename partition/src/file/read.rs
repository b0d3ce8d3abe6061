//! Reads of files and directories: one committed version, to its last byte (promise E2).

use contract::names::FilePath;
use contract::{ErrorCode, Refusal};
use engine::View;

use super::body::Rest;
use super::share;
use super::target::Target;
use super::tree::{Found, find_at};
use crate::blob::read::{Part, Range};
use crate::checks::Expectation;
use crate::content::ContentReader;
use crate::execute::{Failure, Shell};
use crate::key;
use crate::record::NodeKind;

/// Something as a request that only looks at it found it.
pub struct Looked {
    pub view: Box<dyn View>,
    pub found: Found,
}

/// Get Properties and Get Metadata, and the beginning of every other read.
pub async fn look(
    shell: &Shell,
    share: &share::Found,
    path: &FilePath,
    expectation: &Expectation,
) -> Result<Looked, Failure> {
    let view = shell.engine.view(&key::tree_partition(share.group())).await?;
    let place = find_at(view.as_ref(), share.at, &share.head, path).await?;
    let target = Target::new(share, path.clone(), expectation.clone());
    target.judge(&place, shell.clock.now())?;
    let found = place.found().ok_or(ErrorCode::ResourceNotFound)?;
    Ok(Looked { view, found })
}

/// Get File: the file and its content, of the same version.
pub async fn content(
    shell: &Shell,
    share: &share::Found,
    path: &FilePath,
    expectation: &Expectation,
    range: Option<Range>,
) -> Result<(Found, Option<Part>, ContentReader), Failure> {
    let Looked { view, found } = look(shell, share, path, expectation).await?;
    let NodeKind::File { bytes, body } = found.node.kind else {
        return Err(Refusal::from(ErrorCode::ResourceNotFound).into());
    };
    let part = range.map(|range| range.within(bytes)).transpose()?;
    let (first, count) = part.map_or((0, bytes), |part| (part.first, part.bytes()));
    let rest = Rest::new(share.at, body, first, count);
    let reader = ContentReader::of_runs(&shell.engine, view, Box::new(rest)).await?;
    Ok((found, part, reader))
}
