//! CLOSE, FLUSH, READ, WRITE.

use bytes::Bytes;
use contract::rights as right;
use engine::{BoxFuture, SourceError};
use partition::content::Content;
use partition::file::handle::write::{self, Written};
use partition::file::handle::{Error, look};
use partition::file::opens::{ByteRange, Conflict, InUse, Io, RangeUse};

use super::info::facts;
use crate::chain::{Reply, Request};
use crate::connection::lock;
use crate::notify::{action, filter};
use crate::open::Open;
use crate::server::Server;
use crate::status::Status;
use crate::wire::io::{ReadRequest, WriteRequest, close_request, close_response, read_response, write_response};
use crate::wire::session::empty_response;

pub async fn close(request: &Request) -> Result<Reply, Status> {
    let wants_facts = close_request(&request.message).ok_or(Status::INVALID_PARAMETER)?;
    let (open, server) = (request.open()?.clone(), &request.connection.server);
    // What was asked before is done before.
    if let Some(arrival) = &request.arrival {
        arrival.is_first().await;
    }
    request.session()?.remove_open(&open);
    if open.is_closed() {
        return Err(Status::FILE_CLOSED);
    }
    let still_open = open.still_open(server);
    let node = match wants_facts && still_open.is_ok() {
        true => look::node(&server.shell, &open.share.found, open.file).await.ok(),
        false => None,
    };
    let closed = open.close_asked(server).await;
    still_open?;
    closed?;
    Ok(Reply::of(close_response(node.as_ref().map(facts).as_ref())))
}

pub async fn flush(request: &Request) -> Result<Reply, Status> {
    let (open, server) = (request.open()?, &request.connection.server);
    open.needs(right::WRITE_DATA | right::APPEND_DATA)?;
    open.still_open(server)?;
    write::flush(&server.shell).await?;
    Ok(Reply::of(empty_response()))
}

/// Begins to use a range: REST operations that are at work on it are waited for.
pub async fn use_range(
    server: &Server,
    open: &Open,
    usage: RangeUse,
    offset: u64,
    length: u64,
) -> Result<Option<InUse>, Status> {
    let Some(handle) = open.handle else { return Ok(None) };
    let range = ByteRange { offset, length };
    if length == 0 {
        return open.still_open(server).map(|()| None);
    }
    loop {
        match server.shell.open_files.use_range(open.share.found.group(), handle, usage, range) {
            Ok(in_use) => return Ok(Some(in_use)),
            Err(Conflict::WithShortOpen(wait)) => wait.over().await,
            Err(conflict) => return Err(conflict.into()),
        }
    }
}

/// At work by way of a handle, with no bytes in particular: whoever closes it by force waits for that.
pub fn at_work(server: &Server, open: &Open) -> Result<InUse, Status> {
    let handle = open.handle.ok_or(Status::MEDIA_WRITE_PROTECTED)?;
    let nothing = ByteRange { offset: 0, length: 0 };
    Ok(server.shell.open_files.use_range(open.share.found.group(), handle, RangeUse::Read, nothing)?)
}

/// An offset that a signed number of 64 bits holds, and so does the end.
fn is_valid_range(offset: u64, length: u64) -> bool {
    offset.checked_add(length).is_some_and(|end| end <= i64::MAX as u64)
}

pub async fn read(request: &Request) -> Result<Reply, Status> {
    let asked = ReadRequest::decode(&request.message).ok_or(Status::INVALID_PARAMETER)?;
    let (open, server) = (request.open()?, &request.connection.server);
    if open.is_directory {
        return Err(Status::INVALID_DEVICE_REQUEST);
    }
    open.needs(right::READ_DATA | right::EXECUTE)?;
    let length = u64::from(asked.length);
    request.pays_for(asked.length)?;
    if !is_valid_range(asked.offset, length) {
        return Err(Status::INVALID_PARAMETER);
    }
    let in_use = use_range(server, open, RangeUse::Read, asked.offset, length).await?;
    let payload = look::read(&server.shell, &open.share.found, open.file, asked.offset, length).await;
    drop(in_use);
    let payload = payload?;
    let count = payload.iter().map(Bytes::len).sum::<usize>() as u32;
    if count == 0 && asked.length > 0 || count < asked.at_least {
        return Err(Status::END_OF_FILE);
    }
    lock(&open.state).position = asked.offset + u64::from(count);
    Ok(Reply { payload, ..Reply::of(read_response(count)) })
}

/// Bytes that are there already.
struct Given(Option<Bytes>);

impl engine::Source for Given {
    fn next(&mut self, bytes_max: usize) -> BoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async move {
            let Some(bytes) = &mut self.0 else { return Ok(None) };
            let next = bytes.split_to(bytes.len().min(bytes_max));
            if bytes.is_empty() {
                self.0 = None;
            }
            Ok(Some(next).filter(|next| !next.is_empty()))
        })
    }
}

/// Writes to a file, of which the range is in use.
pub async fn write_bytes(
    server: &Server,
    open: &Open,
    offset: u64,
    data: Bytes,
    is_through: bool,
) -> Result<(), Status> {
    let shell = &server.shell;
    let mut given = Given(Some(data).filter(|data| !data.is_empty()));
    let content = match is_through {
        true => Content::receive(shell.engine.as_ref(), &mut given).await,
        false => Content::receive_buffered(shell.engine.as_ref(), &mut given, offset).await,
    };
    let content = content.map_err(|error| match error {
        engine::ExtentError::Fault(fault) => Status::from(Error::Fault(fault)),
        engine::ExtentError::Source(_) => Status::UNEXPECTED_IO_ERROR,
    })?;
    let keeps_write_time = lock(&open.state).keeps_write_time;
    let only_appends = !open.has(right::WRITE_DATA);
    let written = Written { file: open.file, offset, content, keeps_write_time, only_appends, is_through };
    write::write(shell, &open.share.found, written).await?;
    Ok(())
}

pub async fn write(request: &Request) -> Result<Reply, Status> {
    let asked = WriteRequest::decode(&request.message).ok_or(Status::INVALID_PARAMETER)?;
    let (open, server) = (request.open()?, &request.connection.server);
    if open.is_directory {
        return Err(Status::INVALID_DEVICE_REQUEST);
    }
    open.needs(right::WRITE_DATA | right::APPEND_DATA)?;
    let count = asked.data.len() as u32;
    request.pays_for(count)?;
    if !is_valid_range(asked.offset, u64::from(count)) {
        return Err(Status::INVALID_PARAMETER);
    }
    let in_use = use_range(server, open, RangeUse::Write, asked.offset, u64::from(count)).await?;
    break_caches(server, open, Io::Write)?;
    let is_through = asked.is_through || open.is_through;
    let written = write_bytes(server, open, asked.offset, asked.data, is_through).await;
    drop(in_use);
    written?;
    lock(&open.state).position = asked.offset + u64::from(count);
    tell_changed(server, open, filter::SIZE | filter::LAST_WRITE);
    Ok(Reply::of(write_response(count)))
}

/// What others have cached of a file is not true any more. They are told, and not waited for.
pub fn break_caches(server: &Server, open: &Open, io: Io) -> Result<(), Status> {
    let Some(handle) = open.handle else { return Err(Status::MEDIA_WRITE_PROTECTED) };
    let now = server.shell.clock.now();
    match server.shell.open_files.break_for(open.share.found.group(), handle, io, now) {
        Ok(()) | Err(Conflict::Breaking(_)) => Ok(()),
        Err(conflict) => Err(conflict.into()),
    }
}

/// Tells those who watch that a file was changed.
pub fn tell_changed(server: &Server, open: &Open, what: u32) {
    if server.watches.is_any(open.share.found.group())
        && let Ok(path) = open.path(server)
    {
        server.watches.tell(open.share.found.group(), &path, action::MODIFIED, what);
    }
}
