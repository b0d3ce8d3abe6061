//! IOCTL: what is asked of a server or a file in numbers of its own (MS-SMB2 3.3.5.15, MS-FSCC 2.3).

use contract::rights as right;
use engine::Fault;
use partition::file::handle::{Error, look, set};
use partition::file::opens::{Io, RangeUse};
use partition::file::snapshot;

use super::create::format_gmt;
use super::io::{break_caches, tell_changed, use_range, write_bytes};
use crate::chain::{Reply, Request};
use crate::connection::lock;
use crate::negotiate;
use crate::notify::filter;
use crate::open::Open;
use crate::status::Status;
use crate::wire::header::HEADER_BYTES;
use crate::wire::io::{CopyRequest, IoctlRequest, RESUME_KEY_BYTES, ioctl_response};
use crate::wire::{Cursor, Put, utf16};

mod code {
    pub const DFS_GET_REFERRALS: u32 = 0x0006_0194;
    pub const DFS_GET_REFERRALS_EX: u32 = 0x0006_01B0;
    pub const QUERY_ALLOCATED_RANGES: u32 = 0x0009_40CF;
    pub const SET_ZERO_DATA: u32 = 0x0009_80C8;
    pub const REQUEST_RESUME_KEY: u32 = 0x0014_0078;
    pub const QUERY_NETWORK_INTERFACE_INFO: u32 = 0x0014_01FC;
    pub const VALIDATE_NEGOTIATE_INFO: u32 = 0x0014_0204;
    pub const ENUMERATE_SNAPSHOTS: u32 = 0x0014_4064;
    pub const COPY_CHUNK: u32 = 0x0014_40F2;
    pub const COPY_CHUNK_WRITE: u32 = 0x0014_80F2;
}

pub async fn ioctl(request: &Request) -> Result<Reply, Status> {
    let asked = IoctlRequest::decode(&request.message).ok_or(Status::INVALID_PARAMETER)?;
    if !asked.is_fsctl {
        return Err(Status::NOT_SUPPORTED);
    }
    request.pays_for(asked.output_max.max(asked.input.len() as u32))?;
    let (status, output) = match asked.code {
        code::VALIDATE_NEGOTIATE_INFO => (Status::SUCCESS, negotiate::validate(&request.connection, asked.input)?),
        code::DFS_GET_REFERRALS | code::DFS_GET_REFERRALS_EX => return Err(Status::NOT_FOUND),
        // One address is all it has, and clients have found it.
        code::QUERY_NETWORK_INTERFACE_INFO => return Err(Status::NOT_SUPPORTED),
        _ => on_file(request, &asked).await?,
    };
    if output.len() > asked.output_max as usize {
        return Err(Status::BUFFER_TOO_SMALL);
    }
    Ok(Reply { status, ..Reply::of(ioctl_response(asked.code, asked.file, &output)) })
}

/// What a request works with: a copy has a chunk at a time, in pieces and in one.
pub fn work_kib(message: &[u8]) -> u32 {
    let code = Cursor::at(message, HEADER_BYTES + 4).and_then(|mut cursor| cursor.u32());
    match code {
        Some(code::COPY_CHUNK | code::COPY_CHUNK_WRITE) => (2 * CHUNK_BYTES_MAX) >> 10,
        _ => 0,
    }
}

async fn on_file(request: &Request, asked: &IoctlRequest<'_>) -> Result<(Status, Vec<u8>), Status> {
    let open = request.find_open(asked.file)?;
    open.still_open(&request.connection.server)?;
    let is_replay = request.header.has(crate::wire::header::flag::REPLAY);
    if request.session()?.agreed.is_3()
        && let Some(counted) = open.begin(request.header.channel_sequence(), request.row.changes, is_replay)?
    {
        open.end(counted);
    }
    let done = |output| (Status::SUCCESS, output);
    match asked.code {
        code::ENUMERATE_SNAPSHOTS => snapshots(request, &open, asked.output_max).await.map(done),
        code::REQUEST_RESUME_KEY => Ok(done(resume_key(&open))),
        code::COPY_CHUNK | code::COPY_CHUNK_WRITE => copy(request, &open, asked).await,
        code::SET_ZERO_DATA => zero(request, &open, asked.input).await.map(done),
        code::QUERY_ALLOCATED_RANGES => allocated(request, &open, asked).await,
        // Sparse files, compression, object ids, reparse points and the rest: a share has none of it.
        _ => Err(Status::INVALID_DEVICE_REQUEST),
    }
}

async fn snapshots(request: &Request, open: &Open, output_max: u32) -> Result<Vec<u8>, Status> {
    // Not even what tells how much there is.
    if output_max < 16 {
        return Err(Status::INVALID_PARAMETER);
    }
    let shell = &request.connection.server.shell;
    let taken = snapshot::taken_at(shell, &open.share.account, &open.share.name).await;
    let mut taken = taken.map_err(|failure| Status::from(Error::from(failure)))?;
    // The newest first.
    taken.reverse();
    let mut names: Vec<String> = taken.into_iter().map(format_gmt).collect();
    names.dedup();
    let mut list: Vec<u8> = names.iter().flat_map(|name| utf16(&format!("{name}\0"))).collect();
    list.put_u16(0);
    let fits = 12 + list.len() <= output_max as usize;
    let mut out = Vec::with_capacity(12 + list.len());
    out.put_u32(names.len() as u32);
    out.put_u32(if fits { names.len() as u32 } else { 0 });
    out.put_u32(list.len() as u32);
    out.put(if fits { &list } else { &[0; 4] });
    Ok(out)
}

/// Names an open to a copy: only to the session that has it.
fn resume_key(open: &Open) -> Vec<u8> {
    let mut out = Vec::with_capacity(32);
    open.id.encode(&mut out);
    out.put_zeros(RESUME_KEY_BYTES - 16);
    out.put_u32(0);
    out.put_u32(0);
    out
}

const CHUNKS_MAX: u32 = 256;
const CHUNK_BYTES_MAX: u32 = 1 << 20;
const COPY_BYTES_MAX: u64 = 16 << 20;

fn copied(chunks: u32, chunk_bytes: u32, bytes: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(12);
    out.put_u32(chunks);
    out.put_u32(chunk_bytes);
    out.put_u32(bytes);
    out
}

async fn copy(request: &Request, open: &Open, asked: &IoctlRequest<'_>) -> Result<(Status, Vec<u8>), Status> {
    let server = &request.connection.server;
    let wanted = CopyRequest::decode(asked.input).ok_or(Status::INVALID_PARAMETER)?;
    if asked.output_max < 12 {
        return Err(Status::INVALID_PARAMETER);
    }
    // What is too much is refused with what would not be.
    let limits = (Status::INVALID_PARAMETER, copied(CHUNKS_MAX, CHUNK_BYTES_MAX, COPY_BYTES_MAX as u32));
    if wanted.count > CHUNKS_MAX {
        return Ok(limits);
    }
    let chunks = wanted.chunks().ok_or(Status::INVALID_PARAMETER)?;
    let total: u64 = chunks.iter().map(|chunk| u64::from(chunk.bytes)).sum();
    if total > COPY_BYTES_MAX || chunks.iter().any(|chunk| chunk.bytes == 0 || chunk.bytes > CHUNK_BYTES_MAX) {
        return Ok(limits);
    }
    let source = request.session()?.open(wanted.source).ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
    if source.is_directory || open.is_directory {
        return Err(Status::INVALID_DEVICE_REQUEST);
    }
    source.needs(right::READ_DATA | right::EXECUTE)?;
    open.needs(right::WRITE_DATA | right::APPEND_DATA)?;
    if asked.code == code::COPY_CHUNK {
        open.needs(right::READ_DATA)?;
    }
    for (at, chunk) in chunks.iter().enumerate() {
        let length = u64::from(chunk.bytes);
        let done = async {
            let reads = use_range(server, &source, RangeUse::Read, chunk.from, length).await?;
            let pieces = look::read(&server.shell, &source.share.found, source.file, chunk.from, length).await?;
            drop(reads);
            let data = bytes::Bytes::from(pieces.concat());
            if (data.len() as u64) < length {
                return Err(Status::INVALID_VIEW_SIZE);
            }
            let writes = use_range(server, open, RangeUse::Write, chunk.to, length).await?;
            break_caches(server, open, Io::Write)?;
            let written = write_bytes(server, open, chunk.to, data, open.is_through).await;
            drop(writes);
            written
        };
        if let Err(status) = done.await {
            // Whatever it was, and if it was the first: the client is told how far it came (MS-SMB2 3.3.5.15.6).
            let before: u32 = chunks[..at].iter().map(|chunk| chunk.bytes).sum();
            return Ok((status, copied(at as u32, 0, before)));
        }
    }
    tell_changed(server, open, filter::SIZE | filter::LAST_WRITE);
    Ok((Status::SUCCESS, copied(wanted.count, 0, total as u32)))
}

async fn zero(request: &Request, open: &Open, input: &[u8]) -> Result<Vec<u8>, Status> {
    let server = &request.connection.server;
    let mut cursor = Cursor::new(input);
    let (Some(from), Some(to)) = (cursor.u64(), cursor.u64()) else { return Err(Status::INVALID_PARAMETER) };
    open.needs(right::WRITE_DATA)?;
    if from > to || to > i64::MAX as u64 || open.is_directory {
        return Err(Status::INVALID_PARAMETER);
    }
    let in_use = use_range(server, open, RangeUse::Write, from, to - from).await?;
    break_caches(server, open, Io::Write)?;
    let zeros = set::Zeros { from, to, keeps_write_time: lock(&open.state).keeps_write_time };
    let done = set::clear(&server.shell, &open.share.found, open.file, zeros).await;
    drop(in_use);
    done?;
    tell_changed(server, open, filter::LAST_WRITE);
    Ok(Vec::new())
}

async fn allocated(request: &Request, open: &Open, asked: &IoctlRequest<'_>) -> Result<(Status, Vec<u8>), Status> {
    let mut cursor = Cursor::new(asked.input);
    let (Some(from), Some(length)) = (cursor.u64(), cursor.u64()) else { return Err(Status::INVALID_PARAMETER) };
    open.needs(right::READ_DATA)?;
    let to = from.checked_add(length).filter(|to| *to <= i64::MAX as u64).ok_or(Status::INVALID_PARAMETER)?;
    let count = asked.output_max as usize / 16;
    let server = &request.connection.server;
    let found = look::allocated(&server.shell, &open.share.found, open.file, from, to, count).await;
    let (found, is_more) = found?;
    if is_more && count == 0 {
        return Err(Status::BUFFER_TOO_SMALL);
    }
    let mut out = Vec::with_capacity(found.len() * 16);
    for (begin, end) in found {
        out.put_u64(begin);
        out.put_u64(end - begin);
    }
    Ok((if is_more { Status::BUFFER_OVERFLOW } else { Status::SUCCESS }, out))
}

impl From<Fault> for Status {
    fn from(fault: Fault) -> Status {
        Error::Fault(fault).into()
    }
}
