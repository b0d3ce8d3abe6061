//! QUERY_INFO: what a file, its permission or its volume is like (MS-SMB2 3.3.5.20).

use contract::rights as right;
use partition::file::handle::look;
use partition::file::permission;
use partition::file::security::part;
use partition::record::{Node, ShareHead};

use crate::chain::{Reply, Request};
use crate::connection::lock;
use crate::open::Open;
use crate::server::Server;
use crate::status::Status;
use crate::wire::Put;
use crate::wire::create::Facts;
use crate::wire::info::{Answer, FileInfo, UNIT_BYTES, VolumeInfo, class, is_directory_class, of_file, of_volume};
use crate::wire::io::output_response;
use crate::wire::query::{QueryRequest, info_type};

const NORMAL: u32 = 0x80;

/// What several answers carry about a file.
pub fn facts(node: &Node) -> Facts {
    let attributes = node.attributes.bits();
    Facts {
        created: node.created.filetime(),
        accessed: node.accessed.unwrap_or(node.written).filetime(),
        written: node.written.filetime(),
        changed: node.changed.filetime(),
        allocated: node.bytes().next_multiple_of(UNIT_BYTES),
        bytes: node.bytes(),
        attributes: if attributes == 0 { NORMAL } else { attributes },
    }
}

pub async fn query(request: &Request) -> Result<Reply, Status> {
    let asked = QueryRequest::decode(&request.message).ok_or(Status::INVALID_PARAMETER)?;
    let (open, server) = (request.open()?, &request.connection.server);
    open.still_open(server)?;
    request.pays_for(asked.output_max)?;
    match asked.kind {
        info_type::FILE => {
            let answer = file(server, open, asked.class).await?;
            fit(answer, asked.output_max)
        }
        info_type::FILE_SYSTEM => {
            let answer = volume(server, open, asked.class).await?;
            fit(answer, asked.output_max)
        }
        info_type::SECURITY => security(server, open, asked.additional, asked.output_max).await,
        info_type::QUOTA => Err(Status::NOT_SUPPORTED),
        _ => Err(Status::INVALID_PARAMETER),
    }
}

/// What does not fit is cut, unless not even its fixed part fits.
fn fit(answer: Answer, bytes_max: u32) -> Result<Reply, Status> {
    let Answer { mut bytes, fixed_bytes } = answer;
    let bytes_max = bytes_max as usize;
    if bytes_max < fixed_bytes.min(bytes.len()) {
        return Err(Status::INFO_LENGTH_MISMATCH);
    }
    let is_cut = bytes.len() > bytes_max;
    bytes.truncate(bytes_max);
    let status = if is_cut { Status::BUFFER_OVERFLOW } else { Status::SUCCESS };
    Ok(Reply { status, ..Reply::of(output_response(&bytes)) })
}

async fn file(server: &Server, open: &Open, asked: u8) -> Result<Answer, Status> {
    if is_directory_class(asked) {
        return Err(Status::INVALID_INFO_CLASS);
    }
    if asked == class::ALTERNATE_NAME {
        return Err(Status::OBJECT_NAME_NOT_FOUND);
    }
    if matches!(asked, class::BASIC | class::ALL | class::NETWORK_OPEN | class::ATTRIBUTE_TAG) {
        open.needs(right::READ_ATTRIBUTES)?;
    }
    let (shell, share) = (&server.shell, &open.share.found);
    let node = look::node(shell, share, open.file).await?;
    let is_delete_pending = open.handle.is_some() && shell.open_files.is_delete_pending(share.group(), open.file);
    let info = FileInfo {
        facts: facts(&node),
        volume: u64::from(serial(&share.head)),
        id: node.id.0,
        // A name that is to go does not count.
        links: u32::from(!is_delete_pending),
        is_delete_pending,
        is_directory: node.is_directory(),
        mask: open.mask,
        position: lock(&open.state).position,
        mode: open.mode,
        path: open.path(server)?.replace('/', "\\"),
    };
    of_file(asked, &info).ok_or(Status::INVALID_INFO_CLASS)
}

fn serial(share: &ShareHead) -> u32 {
    share.incarnation.0 as u32
}

async fn volume(server: &Server, open: &Open, asked: u8) -> Result<Answer, Status> {
    let share = open.share.now(&server.shell).await?;
    let head = &share.found.head;
    let bytes = u64::from(head.quota_gib) << 30;
    let used = look::used_bytes(&server.shell, &share.found).await?;
    let info = VolumeInfo {
        created: head.created.filetime(),
        serial: serial(head),
        label: share.name.as_str().to_owned(),
        bytes,
        free_bytes: bytes.saturating_sub(used),
    };
    of_volume(asked, &info).ok_or(Status::INVALID_INFO_CLASS)
}

pub const SYSTEM_SECURITY: u32 = 0x0100_0000;

async fn security(server: &Server, open: &Open, parts: u32, bytes_max: u32) -> Result<Reply, Status> {
    if parts & (part::OWNER | part::GROUP | part::DACL) != 0 {
        open.needs(right::READ_CONTROL)?;
    }
    if parts & part::SACL != 0 {
        open.needs(SYSTEM_SECURITY)?;
    }
    let node = look::node(&server.shell, &open.share.found, open.file).await?;
    let whole = permission::of(&server.shell, &open.share.found, &node).await;
    let whole = whole.map_err(|failure| Status::from(partition::file::handle::Error::from(failure)))?;
    let bytes = whole.parts(parts).to_binary();
    if bytes.len() > bytes_max as usize {
        let mut needed = Vec::new();
        needed.put_u32(bytes.len() as u32);
        return Ok(Reply::error_with(Status::BUFFER_TOO_SMALL, &needed));
    }
    Ok(Reply::of(output_response(&bytes)))
}
