//! Get File, Get Properties and Get Metadata on the wire, of files and of directories.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::operations::Operation;
use partition::file::read as model;
use partition::file::share;
use partition::file::tree::Found;
use partition::{Failure, Shell};

use super::headers::put_settings;
use super::wait::settle;
use crate::auth::Grant;
use crate::content::{Wanted, put_properties};
use crate::copied::put_copy;
use crate::lease::put_lease;
use crate::request::Request;
use crate::respond::{put_metadata, stamp};
use crate::wire::{Response, ResponseBody};

/// The share that is asked for, as it is or as a snapshot saw it.
pub async fn share(shell: &Shell, request: &Request<'_>) -> Result<share::Found, Failure> {
    share::find(shell, &request.account.name, &request.share()?, request.share_snapshot()?).await
}

pub async fn get(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    grant: Grant,
) -> Result<Response, Failure> {
    let (path, expectation, wanted) = (request.file_path()?, request.expectation(row)?, Wanted::parse(request)?);
    let share = share(shell, request).await?;
    let read = || model::content(shell, &share, &path, &expectation, wanted.range);
    let (found, part, reader) = settle(shell, request, &share, read).await?;
    let mut response = Response::new(if part.is_some() { 206 } else { row.status });
    put_file(&mut response, request, grant, &found);
    let stored_md5 = found.node.properties.content_md5.map(|md5| STANDARD.encode(md5));
    let bytes = match part {
        None => {
            if let Some(md5) = stored_md5 {
                response.header("Content-MD5", md5);
            }
            found.node.bytes()
        }
        Some(part) => {
            response.header("Content-Range", format!("bytes {}-{}/{}", part.first, part.last, found.node.bytes()));
            if let Some(md5) = stored_md5 {
                response.header("x-ms-content-md5", md5);
            }
            part.bytes()
        }
    };
    wanted.answer(&mut response, reader, part, bytes).await?;
    Ok(response)
}

pub async fn properties_of_file(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    grant: Grant,
) -> Result<Response, Failure> {
    let found = look(shell, request, row).await?;
    let mut response = Response::new(row.status);
    put_file(&mut response, request, grant, &found);
    if let Some(md5) = found.node.properties.content_md5 {
        response.header("Content-MD5", STANDARD.encode(md5));
    }
    response.body = ResponseBody::Head { bytes: Some(found.node.bytes()) };
    Ok(response)
}

pub async fn properties_of_directory(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
) -> Result<Response, Failure> {
    let found = look(shell, request, row).await?;
    let mut response = Response::new(row.status);
    stamp(&mut response, found.node.etag, found.node.last_modified);
    put_metadata(&mut response, &found.node.metadata);
    put_settings(&mut response, &found.node, found.parent);
    response.header("x-ms-server-encrypted", "true");
    Ok(response)
}

pub async fn metadata(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let found = look(shell, request, row).await?;
    let mut response = Response::new(row.status);
    stamp(&mut response, found.node.etag, found.node.last_modified);
    put_metadata(&mut response, &found.node.metadata);
    Ok(response)
}

async fn look(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Found, Failure> {
    let (path, expectation) = (request.file_path()?, request.expectation(row)?);
    let share = share(shell, request).await?;
    settle(shell, request, &share, || model::look(shell, &share, &path, &expectation)).await
}

fn put_file(response: &mut Response, request: &Request<'_>, grant: Grant, found: &Found) {
    let node = &found.node;
    stamp(response, node.etag, node.last_modified);
    response.header("Accept-Ranges", "bytes").header("x-ms-type", "File");
    put_properties(response, request, grant, &node.properties);
    put_metadata(response, &node.metadata);
    put_settings(response, node, found.parent);
    put_copy(response, node.copy.as_ref());
    if request.query.get("sharesnapshot").is_none() {
        put_lease(response, node.lease.as_ref(), request.now);
    }
    response.header("x-ms-server-encrypted", "true");
}
