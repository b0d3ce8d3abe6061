//! Rename File and Rename Directory on the wire. The request goes to where it shall be; a header names where it is.

use contract::names::FilePath;
use contract::operations::Operation;
use contract::{ErrorCode, Refusal};
use partition::file::rename::Rename;
use partition::{Failure, Shell};

use super::create::target;
use super::headers::{About, made, settings};
use super::wait::execute;
use crate::address::Address;
use crate::request::Request;
use crate::wire::Response;

const SOURCE: &str = "x-ms-file-rename-source";

pub async fn rename(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let source = source(request)?;
    let replaces = request.flag("x-ms-file-rename-replace-if-exists")?;
    let ignores_read_only = request.flag("x-ms-file-rename-ignore-readonly")?;
    let source_lease = request.lease_id("x-ms-source-lease-id")?;
    let destination_lease = request.lease_id("x-ms-destination-lease-id")?;
    let metadata = Some(request.metadata()?).filter(|metadata| !metadata.is_empty());
    let content_type = request.header("x-ms-content-type").map(str::to_string);
    let (share, target) = target(shell, request, row).await?;
    let settings = settings(request, &share.head, About::Old)?;
    let command = Rename {
        target,
        source,
        source_lease,
        destination_lease,
        replaces,
        ignores_read_only,
        settings,
        metadata,
        content_type,
    };
    let outcome = execute(shell, request, &share, &command).await?;
    command.target.moved(&outcome.path, &outcome.made.above);
    Ok(made(row, &outcome.made))
}

/// The path that the source's URL names, in the same share.
fn source(request: &Request<'_>) -> Result<FilePath, Refusal> {
    let text = request.header(SOURCE).ok_or_else(|| Refusal::missing_header(SOURCE))?;
    let bad = || Refusal::bad_header(SOURCE, text);
    let (scheme, rest) = text.split_once("://").ok_or_else(bad)?;
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    let is_own = |name: &str| name == request.account.name.as_str();
    let is_tls = scheme.eq_ignore_ascii_case("https");
    let (address, _) = Address::parse(request.service, text, host, is_tls, is_own).map_err(|_| bad())?;
    if !is_own(&address.account) || address.first != request.address.first {
        return Err(ErrorCode::InvalidInput.into());
    }
    let keeps_dots = request.flag("x-ms-source-allow-trailing-dot")?;
    FilePath::parse(address.rest.as_deref().unwrap_or_default(), keeps_dots)
}
