//! SET_INFO: times, attributes, size, permission, name, and whether a file is to go (MS-SMB2 3.3.5.21).

use contract::attributes::FileAttributes;
use contract::rights as right;
use env::Timestamp;
use partition::file::handle::rename;
use partition::file::handle::set::{self, Change};
use partition::file::handle::{Error, Refused, look, mark};
use partition::file::opens::{Conflict, Io, RangeUse};
use partition::file::permission;
use partition::file::security::{DescriptorParts, part};
use partition::file::settings::{Permission, Settings, When};

use super::create::{path, wait_for};
use super::info::SYSTEM_SECURITY;
use super::io::{at_work, break_caches, tell_changed, use_range};
use crate::chain::{Reply, Request};
use crate::connection::lock;
use crate::notify::{action, filter};
use crate::open::Open;
use crate::server::Server;
use crate::status::Status;
use crate::wire::Cursor;
use crate::wire::info::{Basic, class};
use crate::wire::query::{Rename, SetRequest, info_type};

pub async fn set(request: &Request) -> Result<Reply, Status> {
    let asked = SetRequest::decode(&request.message).ok_or(Status::INVALID_PARAMETER)?;
    let (open, server) = (request.open()?, &request.connection.server);
    open.handle(server)?;
    match (asked.kind, asked.class) {
        (info_type::FILE, class::BASIC) => basic(server, open, asked.input).await?,
        (info_type::FILE, class::RENAME) => rename_to(request, server, open, asked.input).await?,
        (info_type::FILE, class::LINK) => return Err(Status::NOT_SUPPORTED),
        (info_type::FILE, class::DISPOSITION) => {
            let wanted = *asked.input.first().ok_or(Status::INFO_LENGTH_MISMATCH)? != 0;
            disposition(server, open, wanted, false).await?;
        }
        (info_type::FILE, class::DISPOSITION_EX) => {
            let flags = Cursor::new(asked.input).u32().ok_or(Status::INFO_LENGTH_MISMATCH)?;
            disposition_ex(server, open, flags).await?;
        }
        (info_type::FILE, class::POSITION) => {
            let position = Cursor::new(asked.input).u64().ok_or(Status::INFO_LENGTH_MISMATCH)?;
            lock(&open.state).position = position;
        }
        // An open stays what it was opened as.
        (info_type::FILE, class::MODE) => return Err(Status::NOT_SUPPORTED),
        (info_type::FILE, class::FULL_EA) => return Err(Status::EAS_NOT_SUPPORTED),
        (info_type::FILE, class::ALLOCATION) => resize(server, open, asked.input, true).await?,
        (info_type::FILE, class::END_OF_FILE) => resize(server, open, asked.input, false).await?,
        (info_type::FILE, _) => return Err(Status::INVALID_INFO_CLASS),
        (info_type::SECURITY, _) => security(server, open, asked.additional, asked.input).await?,
        (info_type::FILE_SYSTEM | info_type::QUOTA, _) => return Err(Status::NOT_SUPPORTED),
        _ => return Err(Status::INVALID_PARAMETER),
    }
    Ok(Reply::of(vec![2, 0]))
}

/// What a number says about a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Said {
    Nothing,
    /// From here on it stays as it is.
    Stop,
    Resume,
    At(Timestamp),
}

fn said(filetime: u64) -> Option<Said> {
    match filetime {
        0 => Some(Said::Nothing),
        u64::MAX => Some(Said::Stop),
        n if n == u64::MAX - 1 => Some(Said::Resume),
        n if n > i64::MAX as u64 => None,
        n => Some(Said::At(Timestamp::from_filetime(n))),
    }
}

fn when(said: Said) -> When {
    match said {
        Said::At(moment) => When::At(moment),
        Said::Nothing | Said::Stop | Said::Resume => When::Unsaid,
    }
}

const DIRECTORY: u32 = 0x10;
const NORMAL: u32 = 0x80;
const TEMPORARY: u32 = 0x100;

/// Attributes as clients give them; `None` if they contradict what it is.
pub fn attributes(bits: u32, is_directory: bool) -> Option<FileAttributes> {
    if is_directory && bits & TEMPORARY != 0 || !is_directory && bits & DIRECTORY != 0 {
        return None;
    }
    let kept = FileAttributes::from_known_bits(bits & !NORMAL);
    Some(if is_directory { kept.with(FileAttributes::DIRECTORY) } else { kept.without(FileAttributes::DIRECTORY) })
}

async fn basic(server: &Server, open: &Open, input: &[u8]) -> Result<(), Status> {
    open.needs(right::WRITE_ATTRIBUTES)?;
    let basic = Basic::decode(input).ok_or(Status::INFO_LENGTH_MISMATCH)?;
    let times = [basic.created, basic.accessed, basic.written, basic.changed];
    let [created, accessed, written, changed] = times.map(said);
    let valid = Status::INVALID_PARAMETER;
    let (created, accessed) = (created.ok_or(valid)?, accessed.ok_or(valid)?);
    let (written, changed) = (written.ok_or(valid)?, changed.ok_or(valid)?);
    let attributes = match basic.attributes {
        0 => None,
        bits => Some(attributes(bits, open.is_directory).ok_or(valid)?),
    };
    {
        let mut state = lock(&open.state);
        match written {
            Said::Stop | Said::At(_) => state.keeps_write_time = true,
            Said::Resume => state.keeps_write_time = false,
            Said::Nothing => {}
        }
        match changed {
            Said::Stop => state.keeps_change_time = true,
            Said::Resume => state.keeps_change_time = false,
            Said::Nothing | Said::At(_) => {}
        }
    }
    let changed = match (changed, lock(&open.state).keeps_change_time) {
        (Said::At(moment), _) => When::At(moment),
        (_, true) => When::Preserve,
        _ => When::Unsaid,
    };
    let settings =
        Settings { attributes, created: when(created), written: when(written), changed, ..Settings::default() };
    let accessed = match accessed {
        Said::At(moment) => Some(moment),
        _ => None,
    };
    if settings != Settings::default() || accessed.is_some() {
        let change = Change { settings, accessed, ..Change::default() };
        let _at_work = at_work(server, open)?;
        set::set(&server.shell, &open.share.found, open.file, change).await?;
        tell_changed(server, open, filter::ATTRIBUTES | filter::LAST_WRITE | filter::CREATION);
    }
    Ok(())
}

/// What is cut off or added, from where and how much: that others must not have locked. To allocate more adds nothing.
fn moved_bytes(before: u64, after: u64, is_allocation: bool) -> (u64, u64) {
    match after >= before {
        true if is_allocation => (after, 0),
        true => (before, after - before),
        false => (after, before - after),
    }
}

async fn resize(server: &Server, open: &Open, input: &[u8], is_allocation: bool) -> Result<(), Status> {
    open.needs(right::WRITE_DATA)?;
    let bytes = Cursor::new(input).u64().ok_or(Status::INFO_LENGTH_MISMATCH)?;
    if bytes > i64::MAX as u64 {
        return Err(Status::INVALID_PARAMETER);
    }
    if open.is_directory {
        return Err(Status::INVALID_PARAMETER);
    }
    let _at_work = at_work(server, open)?;
    loop {
        let before = look::node(&server.shell, &open.share.found, open.file).await?.bytes();
        let (from, length) = moved_bytes(before, bytes, is_allocation);
        let in_use = use_range(server, open, RangeUse::Write, from, length).await?;
        break_caches(server, open, Io::Resize)?;
        let keeps_write_time = lock(&open.state).keeps_write_time;
        let change = Change {
            bytes: Some(bytes),
            bytes_before: Some(before),
            only_shrinks: is_allocation,
            keeps_write_time,
            ..Change::default()
        };
        let done = set::set(&server.shell, &open.share.found, open.file, change).await;
        drop(in_use);
        match done {
            Err(Error::Refused(Refused::Resized)) => {}
            done => {
                done?;
                break;
            }
        }
    }
    tell_changed(server, open, filter::SIZE);
    Ok(())
}

async fn disposition(server: &Server, open: &Open, is_wanted: bool, ignores_read_only: bool) -> Result<(), Status> {
    open.needs(right::DELETE)?;
    let (shell, share) = (&server.shell, &open.share.found);
    let handle = open.handle.ok_or(Status::MEDIA_WRITE_PROTECTED)?;
    loop {
        let marked = match is_wanted {
            true => mark::mark(shell, share, handle, open.file, ignores_read_only).await,
            false => shell.open_files.set_delete_pending(share.group(), handle, false).map_err(Error::from),
        };
        match marked {
            Ok(()) => break,
            Err(Error::Refused(Refused::Opened(Conflict::WithShortOpen(wait)))) => wait.over().await,
            Err(error) => return Err(error.into()),
        }
    }
    if is_wanted {
        break_caches(server, open, Io::SetDelete)?;
    }
    if is_wanted && open.is_directory {
        server.watches.wake(share.group(), open.file);
    }
    Ok(())
}

mod disposition_flag {
    pub const DELETE: u32 = 1;
    pub const POSIX: u32 = 2;
    pub const ON_CLOSE: u32 = 8;
    pub const IGNORE_READ_ONLY: u32 = 0x10;
}

async fn disposition_ex(server: &Server, open: &Open, flags: u32) -> Result<(), Status> {
    use disposition_flag::{DELETE, IGNORE_READ_ONLY, ON_CLOSE, POSIX};
    // A name that goes while handles stay, and taking back what was said at creation, are not done. No source tells what the service does.
    if flags & (POSIX | ON_CLOSE) != 0 {
        return Err(Status::NOT_SUPPORTED);
    }
    disposition(server, open, flags & DELETE != 0, flags & IGNORE_READ_ONLY != 0).await
}

async fn rename_to(request: &Request, server: &Server, open: &Open, input: &[u8]) -> Result<(), Status> {
    open.needs(right::DELETE)?;
    let asked = Rename::decode(input).ok_or(Status::INFO_LENGTH_MISMATCH)?;
    if asked.name.is_empty() || asked.name.starts_with('\\') {
        return Err(Status::OBJECT_NAME_INVALID);
    }
    // By the rules of CREATE, so that it can be opened again. What was cannot be changed, so nothing is moved there.
    let (to, snapshot) = path(&asked.name)?;
    if snapshot.is_some() {
        return Err(Status::OBJECT_NAME_INVALID);
    }
    let share = &open.share.found;
    let mut waited = None;
    let (from, to, node) = loop {
        let handle = open.handle(server)?;
        let from = handle.opening.path.clone();
        let at_work = at_work(server, open)?;
        let renamed = rename::rename(&server.shell, share, handle, to.clone(), asked.replaces).await;
        drop(at_work);
        match renamed {
            Ok((node, to)) => break (from, to, node),
            Err(Error::Refused(Refused::Opened(conflict))) => {
                // Others have it open in a way that does not let it go.
                let is_shared = matches!(conflict, Conflict::Sharing);
                if is_shared {
                    return Err(if open.is_directory { Status::ACCESS_DENIED } else { Status::SHARING_VIOLATION });
                }
                wait_for(request, conflict, &mut waited).await?;
            }
            Err(error) => return Err(error.into()),
        }
    };
    open.write_down(server).await?;
    let what = if node.is_directory() { filter::DIRECTORY_NAME } else { filter::FILE_NAME };
    server.watches.moved(share.group(), node.id, &to);
    let parent = |path: &str| path.rsplit_once('/').map_or(String::new(), |(parent, _)| contract::names::fold(parent));
    let is_same_directory = parent(&from) == parent(&to);
    let (gone, here) = match is_same_directory {
        true => (action::RENAMED_FROM, action::RENAMED_TO),
        false => (action::REMOVED, action::ADDED),
    };
    server.watches.tell_together(share.group(), &[(&from, gone), (&to, here)], what);
    Ok(())
}

async fn security(server: &Server, open: &Open, parts: u32, input: &[u8]) -> Result<(), Status> {
    let needed = [
        (part::OWNER | part::GROUP, right::WRITE_OWNER),
        (part::DACL, right::WRITE_DAC),
        (part::SACL, SYSTEM_SECURITY),
    ];
    for (parts_of, right) in needed {
        if parts & parts_of != 0 {
            open.needs(right)?;
        }
    }
    // Labels, attributes, scopes: lists of their own that nobody keeps here.
    if parts & (part::OWNER | part::GROUP | part::DACL | part::SACL) == 0 {
        return Err(Status::NOT_SUPPORTED);
    }
    let given = DescriptorParts::parse(input).ok_or(Status::INVALID_PARAMETER)?;
    let (shell, share) = (&server.shell, &open.share.found);
    let node = look::node(shell, share, open.file).await?;
    let old = permission::of(shell, share, &node).await;
    let old = old.map_err(|failure| Status::from(Error::from(failure)))?;
    let descriptor = old.with_parts(given, parts).ok_or(Status::INVALID_PARAMETER)?;
    let settings = Settings { permission: Permission::Given(descriptor), ..Settings::default() };
    let change = Change { settings, ..Change::default() };
    let _at_work = at_work(server, open)?;
    set::set(shell, share, open.file, change).await?;
    tell_changed(server, open, filter::SECURITY);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bytes_that_go_or_come_must_be_free() {
        for (before, after, is_allocation, expected) in [
            (100, 40, false, (40, 60)),
            (100, 160, false, (100, 60)),
            (100, 100, false, (100, 0)),
            (100, 40, true, (40, 60)),
            (100, 160, true, (160, 0)),
            (100, 100, true, (100, 0)),
        ] {
            assert_eq!(moved_bytes(before, after, is_allocation), expected, "{before} to {after}");
        }
    }
}
