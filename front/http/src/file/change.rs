//! Set Properties and Set Metadata on the wire, of files and of directories.

use contract::operations::Operation;
use partition::file::change::{Change, ChangeNode};
use partition::{Failure, Shell};

use super::create::target;
use super::headers::{About, content_properties, made, settings, size};
use super::wait::execute;
use crate::request::Request;
use crate::wire::Response;

pub async fn properties_of_directory(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
) -> Result<Response, Failure> {
    let (share, target) = target(shell, request, row).await?;
    let change = Change { settings: settings(request, &share.head, About::Old)?, ..Change::default() };
    let outcome = execute(shell, request, &share, &ChangeNode { target, change }).await?;
    Ok(made(row, &outcome))
}

/// Also resizes.
pub async fn properties_of_file(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
) -> Result<Response, Failure> {
    let (bytes, properties) = (size(request)?, content_properties(request)?);
    let (share, target) = target(shell, request, row).await?;
    let change = Change { settings: settings(request, &share.head, About::Old)?, properties, bytes, metadata: None };
    let outcome = execute(shell, request, &share, &ChangeNode { target, change }).await?;
    Ok(made(row, &outcome))
}

pub async fn metadata(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let metadata = request.metadata()?;
    let (share, target) = target(shell, request, row).await?;
    let change = Change { metadata: Some(metadata), ..Change::default() };
    let outcome = execute(shell, request, &share, &ChangeNode { target, change }).await?;
    Ok(made(row, &outcome))
}
