//! CREATE: opens or makes a file or directory (MS-SMB2 3.3.5.9).

use std::sync::Arc;
use std::time::Duration;

use contract::names::FilePath;
use contract::rights as right;
use env::Timestamp;
use partition::execute::Failure;
use partition::file::handle::open::{self, Disposition, Done, Kind, OpenedFile, Wish};
use partition::file::handle::{Error, Refused, look};
use partition::file::opens::{
    BREAK_SECONDS, CachingGranted, CachingWanted, Conflict, LeaseKey, Oplock, Rights, ShareMode,
};
use partition::file::security::{DescriptorParts, real_rights};
use partition::file::{share, snapshot};
use partition::record::Node;

use super::info::facts;
use super::oplock::{Client, level, number, rights, state};
use super::set::attributes;
use crate::chain::{Reply, Request};
use crate::connection::lock;
use crate::durable::{CreateName, Durable, Named, Version};
use crate::notify::{action, filter};
use crate::open::{NewOpen, Open};
use crate::server::Server;
use crate::session::{Session, Share};
use crate::status::Status;
use crate::wire::create::{self as wire, FileId, disposition, oplock, option};
use crate::wire::{Put, text};

/// What a request asks for, once it makes sense.
struct Asked<'a> {
    request: wire::Request<'a>,
    disposition: Disposition,
    kind: Kind,
    mask: u32,
    wants_maximum: bool,
    path: FilePath,
    snapshot: Option<Timestamp>,
}

const MAXIMUM_ALLOWED: u32 = 0x0200_0000;
/// Every bit that means something.
const KNOWN_RIGHTS: u32 = 0xF300_0000 | right::ALL;

/// The rights a mask means, and whether every other is wanted, too.
fn mask(asked: u32) -> Result<(u32, bool), Status> {
    if asked & KNOWN_RIGHTS == 0 || asked & !KNOWN_RIGHTS != 0 {
        return Err(Status::ACCESS_DENIED);
    }
    Ok((real_rights(asked & !MAXIMUM_ALLOWED), asked & MAXIMUM_ALLOWED != 0))
}

fn disposition(number: u32) -> Option<Disposition> {
    match number {
        disposition::SUPERSEDE => Some(Disposition::Supersede),
        disposition::OPEN => Some(Disposition::Open),
        disposition::CREATE => Some(Disposition::Create),
        disposition::OPEN_IF => Some(Disposition::OpenIf),
        disposition::OVERWRITE => Some(Disposition::Overwrite),
        disposition::OVERWRITE_IF => Some(Disposition::OverwriteIf),
        _ => None,
    }
}

/// What options say it must be.
fn kind(options: u32, disposition: Disposition) -> Result<Kind, Status> {
    const REFUSED: u32 =
        option::CREATE_TREE_CONNECTION | option::OPEN_BY_FILE_ID | option::RESERVE_OPFILTER | option::UNKNOWN;
    if options & option::UNKNOWN != 0 {
        return Err(Status::INVALID_PARAMETER);
    }
    if options & REFUSED != 0 {
        return Err(Status::NOT_SUPPORTED);
    }
    match (options & option::DIRECTORY != 0, options & option::NON_DIRECTORY != 0) {
        (true, true) => Err(Status::INVALID_PARAMETER),
        (true, false) if disposition.overwrites() => Err(Status::INVALID_PARAMETER),
        (true, false) => Ok(Kind::Directory),
        (false, true) => Ok(Kind::File),
        (false, false) => Ok(Kind::Any),
    }
}

/// A path as clients write it, and the moment a previous version of it is of.
pub fn path(name: &str) -> Result<(FilePath, Option<Timestamp>), Status> {
    if name.starts_with('\\') {
        return Err(Status::INVALID_PARAMETER);
    }
    let (name, snapshot) = match name.split_once('\\').unwrap_or((name, "")) {
        (first, rest) if first.starts_with("@GMT-") => {
            (rest, Some(parse_gmt(first).ok_or(Status::OBJECT_NAME_INVALID)?))
        }
        _ => (name, None),
    };
    if name.split('\\').any(|part| part == "..") {
        return Err(Status::OBJECT_PATH_SYNTAX_BAD);
    }
    if name.contains('/') || name.ends_with('\\') {
        return Err(Status::OBJECT_NAME_INVALID);
    }
    let path = FilePath::parse(&name.replace('\\', "/"), true).map_err(|_| Status::OBJECT_NAME_INVALID)?;
    Ok((path, snapshot))
}

/// `@GMT-YYYY.MM.DD-HH.MM.SS`
pub fn parse_gmt(token: &str) -> Option<Timestamp> {
    let (date, time) = token.strip_prefix("@GMT-")?.split_once('-')?;
    Timestamp::parse_iso8601(&format!("{}T{}Z", date.replace('.', "-"), time.replace('.', ":")))
}

pub fn format_gmt(moment: Timestamp) -> String {
    let iso = moment.iso8601();
    let (date, time) = iso.split_at(10);
    format!("@GMT-{}-{}", date.replace('-', "."), time[1..9].replace(':', "."))
}

impl<'a> Asked<'a> {
    fn parse(request: wire::Request<'a>) -> Result<Asked<'a>, Status> {
        const IMPERSONATION_MAX: u32 = 3;
        if request.impersonation > IMPERSONATION_MAX {
            return Err(Status::BAD_IMPERSONATION_LEVEL);
        }
        let disposition = disposition(request.disposition).ok_or(Status::INVALID_PARAMETER)?;
        if request.share & !7 != 0 {
            return Err(Status::INVALID_PARAMETER);
        }
        let kind = kind(request.options, disposition)?;
        let (mask, wants_maximum) = mask(request.access)?;
        let deletes = request.options & option::DELETE_ON_CLOSE != 0;
        if deletes && mask & right::DELETE == 0 && !wants_maximum {
            return Err(Status::INVALID_PARAMETER);
        }
        if request.contexts.has_attributes {
            return Err(Status::EAS_NOT_SUPPORTED);
        }
        let name = text(request.name).ok_or(Status::OBJECT_NAME_INVALID)?;
        let (path, named) = path(&name)?;
        let snapshot = request.contexts.snapshot.map(Timestamp::from_filetime).or(named);
        Ok(Asked { request, disposition, kind, mask, wants_maximum, path, snapshot })
    }
}

pub async fn create(request: &Request) -> Result<Reply, Status> {
    let share = request.share().map_err(|status| match status {
        // There are no pipes.
        Status::ACCESS_DENIED => Status::OBJECT_NAME_NOT_FOUND,
        status => status,
    })?;
    let decoded = wire::Request::decode(&request.message).ok_or(Status::INVALID_PARAMETER)?;
    // Both versions at once make no sense, nor does asking for the second and coming back for it.
    let contexts = &decoded.contexts;
    let is_first = contexts.durable || contexts.durable_reconnect.is_some();
    let (asks, returns) = (contexts.durable_2.is_some(), contexts.durable_2_reconnect.is_some());
    if is_first && (asks || returns) || asks && returns {
        return Err(Status::INVALID_PARAMETER);
    }
    if let Some(file) =
        decoded.contexts.durable_2_reconnect.map(|again| again.file).or(decoded.contexts.durable_reconnect)
    {
        return reconnect(request, &decoded, file).await;
    }
    let asked = Asked::parse(decoded)?;
    if asked.snapshot.is_some() {
        return in_snapshot(request, share, &asked).await;
    }
    let Some(named) = create_name(request.session()?, &asked) else {
        let (open, opened) = open_now(request, share, &asked).await?;
        return Ok(answer(&asked, &open, &opened.node, opened.done, Some(opened.caching), durable_context(&open)));
    };
    // A client that does not know whether it was heard asks again under the same name, before it uses what it was given.
    let is_replay = request.header.has(crate::wire::header::flag::REPLAY);
    let durables = &request.connection.server.durables;
    match durables.begin(&named) {
        Named::New => {}
        Named::UnderWay => return Err(Status::FILE_NOT_AVAILABLE),
        Named::Open(open) if is_replay => return replayed(request, &asked, &open).await,
        Named::Open(_) => return Err(Status::DUPLICATE_OBJECTID),
    }
    let outcome = open_now(request, share, &asked).await;
    durables.end(&named, outcome.as_ref().ok().map(|(open, _)| open));
    let (open, opened) = outcome?;
    Ok(answer(&asked, &open, &opened.node, opened.done, Some(opened.caching), durable_context(&open)))
}

/// What a client calls a creation that it may ask for again.
fn create_name(session: &Session, asked: &Asked<'_>) -> Option<CreateName> {
    let durable = asked.request.contexts.durable_2?;
    Some(CreateName { account: session.account.clone(), client: session.agreed.client, create: durable.create })
}

/// Waits for whoever is in the way, as long as that may take; an error if nobody is to be waited for.
pub async fn wait_for(
    request: &Request,
    conflict: Conflict,
    since: &mut Option<tokio::time::Instant>,
) -> Result<(), Status> {
    let limit = Duration::from_secs(BREAK_SECONDS);
    match conflict {
        Conflict::WithShortOpen(wait) => {
            wait.over().await;
            Ok(())
        }
        Conflict::Breaking(wait) => {
            let begun = *since.get_or_insert_with(tokio::time::Instant::now);
            // Somewhat longer, so that its time is over when it is looked at again.
            let until = begun + limit + Duration::from_millis(100);
            if request.wait(tokio::time::timeout_at(until, wait.over())).await?.is_err() {
                *since = None;
            }
            Ok(())
        }
        conflict => Err(conflict.into()),
    }
}

/// Opens, however long others take to make way.
async fn open_now(request: &Request, share: &Arc<Share>, asked: &Asked<'_>) -> Result<(Arc<Open>, OpenedFile), Status> {
    let (session, server) = (request.session()?, &request.connection.server);
    let share = &Arc::new(share.now(&server.shell).await?);
    let own = server.this().ok_or(Status::USER_SESSION_DELETED)?;
    let id = server.new_file_id();
    let listener = Arc::new(Client { server: Arc::downgrade(&own), session: session.id, file: id });
    let caching = caching(request, asked)?;
    let attributes = attributes_of(asked)?;
    let descriptor = match asked.request.contexts.descriptor {
        Some(bytes) => Some(DescriptorParts::parse(bytes).ok_or(Status::INVALID_PARAMETER)?.completed()),
        None => None,
    };
    let wish = Wish {
        path: asked.path.clone(),
        disposition: asked.disposition,
        kind: asked.kind,
        mask: asked.mask,
        wants_maximum: asked.wants_maximum,
        share: share_mode(asked.request.share),
        attributes,
        descriptor,
        deletes_on_close: asked.request.options & option::DELETE_ON_CLOSE != 0,
        caching,
        session: session.id,
        client_address: request.connection.client.to_string(),
        client_name: String::new(),
        listener,
        kept_as: asked.request.contexts.durable_2.filter(|wanted| wanted.is_persistent).map(|_| id.persistent),
    };
    let mut since = None;
    let opened = loop {
        match open::open(&server.shell, &share.found, wish.clone()).await {
            Ok(opened) => break opened,
            Err(Error::Refused(Refused::Opened(conflict))) => {
                wait_for(request, conflict, &mut since).await?;
            }
            Err(error) => return Err(error.into()),
        }
    };
    // A share that was deleted meanwhile had its handles closed, perhaps before this one was there.
    if let Err(failure) = share.found.still_there(&server.shell).await {
        server.shell.open_files.abandon(share.found.group(), opened.handle.id);
        return Err(Error::from(failure).into());
    }
    let open = Arc::new(Open::new(NewOpen {
        id,
        share: share.clone(),
        handle: Some(opened.handle.id),
        file: opened.node.id,
        is_directory: opened.node.is_directory(),
        mask: opened.mask,
        mode: mode(asked.request.options),
        is_through: asked.request.options & option::WRITE_THROUGH != 0,
        path: String::new(),
        lease: wish.caching.lease().filter(|_| !opened.node.is_directory()).map(|lease| lease.key),
        tree: request.tree()?.id,
        session: session.id,
        channel_sequence: request.header.channel_sequence(),
        done: opened.done,
        create: create_name(session, asked),
    }));
    promise(request, asked, &open, opened.caching.rights);
    if let Err(status) = open.write_down(server).await {
        open.close(server).await;
        return Err(status);
    }
    if let Err(status) = session.add_open(&open) {
        open.close(server).await;
        return Err(status);
    }
    tell_watchers(server, share, &opened);
    Ok((open, opened))
}

fn tell_watchers(server: &Server, share: &Share, opened: &OpenedFile) {
    let (path, group) = (&opened.handle.opening.path, share.found.group());
    let name = if opened.node.is_directory() { filter::DIRECTORY_NAME } else { filter::FILE_NAME };
    match opened.done {
        Done::Created => server.watches.tell(group, path, action::ADDED, name),
        Done::Superseded | Done::Overwritten => {
            let what = filter::ATTRIBUTES | filter::SIZE | filter::LAST_WRITE;
            server.watches.tell(group, path, action::MODIFIED, what);
        }
        Done::Opened => {}
    }
}

/// What FileModeInformation tells of the options.
fn mode(options: u32) -> u32 {
    options
        & (option::WRITE_THROUGH
            | option::NO_INTERMEDIATE_BUFFERING
            | option::SYNCHRONOUS_ALERT
            | option::SYNCHRONOUS_NONALERT
            | option::DELETE_ON_CLOSE)
}

fn share_mode(bits: u32) -> ShareMode {
    ShareMode { read: bits & 1 != 0, write: bits & 2 != 0, delete: bits & 4 != 0 }
}

fn attributes_of(asked: &Asked<'_>) -> Result<contract::attributes::FileAttributes, Status> {
    use contract::attributes::FileAttributes;
    const DIRECTORY: u32 = 0x10;
    let is_directory = asked.kind == Kind::Directory;
    let attributes =
        attributes(asked.request.attributes & !DIRECTORY, is_directory).ok_or(Status::INVALID_PARAMETER)?;
    Ok(if is_directory { attributes } else { attributes.with(FileAttributes::ARCHIVE) })
}

/// What the client would like to cache.
fn caching(request: &Request, asked: &Asked<'_>) -> Result<CachingWanted, Status> {
    if asked.request.oplock != oplock::LEASE {
        return Ok(match level(asked.request.oplock) {
            None | Some(Oplock::None) => CachingWanted::Nothing,
            Some(level) => CachingWanted::Oplock(level),
        });
    }
    let Some(lease) = asked.request.contexts.lease else { return Ok(CachingWanted::Nothing) };
    let session = request.session()?;
    let agreed = &session.agreed;
    // Version 2 is of 3.x.
    let epoch = lease.second.filter(|_| agreed.is_3()).map(|(_, epoch)| epoch);
    Ok(CachingWanted::Lease {
        key: LeaseKey::new(&session.account, agreed.client, lease.key),
        rights: rights(lease.state),
        epoch,
    })
}

/// Promises that an open survives its connection, if the client asked and can keep its side.
fn promise(request: &Request, asked: &Asked<'_>, open: &Open, held: Rights) {
    let Ok(session) = request.session() else { return };
    let contexts = &asked.request.contexts;
    // Version 1 and 2 alike: who would not hear of others that want the file cannot keep it.
    let is_heard = held.handle && !open.is_directory;
    let (account, client) = (session.account.clone(), session.agreed.client);
    let durable = match contexts.durable_2 {
        Some(wanted) if session.agreed.is_3() => {
            let is_persistent = wanted.is_persistent;
            (is_heard || is_persistent && !open.is_directory)
                .then(|| Durable::second(account, client, wanted.create, is_persistent, wanted.timeout))
        }
        _ => (contexts.durable && is_heard).then(|| Durable::first(account, client)),
    };
    *lock(&open.durable) = durable;
}

fn answer(
    asked: &Asked<'_>,
    open: &Open,
    node: &Node,
    done: Done,
    caching: Option<CachingGranted>,
    promised: Option<(&'static [u8; 4], Vec<u8>)>,
) -> Reply {
    let contexts = &asked.request.contexts;
    let mut given: Vec<(&'static [u8; 4], Vec<u8>)> = Vec::new();
    if contexts.maximal_access.is_some() {
        let mut data = Vec::new();
        data.put_u32(0);
        data.put_u32(right::ALL);
        given.push((b"MxAc", data));
    }
    if contexts.wants_id {
        let mut data = Vec::new();
        data.put_u64(node.id.0);
        data.put_u64(open.share.found.head.incarnation.0 as u64);
        data.put_zeros(16);
        given.push((b"QFid", data));
    }
    given.extend(promised);
    let caching = caching.unwrap_or_default();
    let oplock = match (open.lease, contexts.lease) {
        (Some(_), Some(lease)) => {
            given.push((b"RqLs", lease_context(&lease, caching)));
            oplock::LEASE
        }
        _ => number(Oplock::of(caching.rights)),
    };
    let action = match done {
        Done::Superseded => wire::action::SUPERSEDED,
        Done::Opened => wire::action::OPENED,
        Done::Created => wire::action::CREATED,
        Done::Overwritten => wire::action::OVERWRITTEN,
    };
    let response = wire::Response { oplock, action, facts: facts(node), file: open.id, contexts: given };
    Reply { file: Some(open.id), ..Reply::of(response.encode()) }
}

fn lease_context(lease: &wire::Lease, caching: CachingGranted) -> Vec<u8> {
    let flags = if caching.is_breaking { wire::lease::BREAK_IN_PROGRESS } else { 0 };
    let parent = lease.second.and_then(|(parent, _)| parent);
    let second = caching.is_version_2.then_some((parent, caching.epoch));
    wire::Lease { key: lease.key, state: state(caching.rights), second }.encode(flags)
}

fn durable_context(open: &Open) -> Option<(&'static [u8; 4], Vec<u8>)> {
    let durable = lock(&open.durable).clone()?;
    let mut data = Vec::new();
    match durable.version {
        Version::First => {
            data.put_u64(0);
            Some((b"DHnQ", data))
        }
        Version::Second { is_persistent, .. } => {
            data.put_u32(durable.kept_milliseconds());
            data.put_u32(if is_persistent { 2 } else { 0 });
            Some((b"DH2Q", data))
        }
    }
}

/// The same creation, asked for again: the same open.
async fn replayed(request: &Request, asked: &Asked<'_>, open: &Arc<Open>) -> Result<Reply, Status> {
    let (session, server) = (request.session()?, &request.connection.server);
    if open.session() != session.id {
        return Err(Status::DUPLICATE_OBJECTID);
    }
    // Whoever asks differently does not mean the same.
    let asked_lease = asked.request.contexts.lease.filter(|_| asked.request.oplock == oplock::LEASE);
    if open.lease != asked_lease.map(|lease| lease.key) {
        return Err(Status::ACCESS_DENIED);
    }
    let node = look::node(&server.shell, &open.share.found, open.file).await?;
    let handle = open.handle.ok_or(Status::FILE_CLOSED)?;
    let mut caching = server.shell.open_files.caching(open.share.found.group(), handle);
    let mut promised = durable_context(open);
    // A plain oplock is told as it was asked for this time, and promised is what could be with it.
    if let (None, Some(level), Some(held)) = (open.lease, level(asked.request.oplock), &mut caching) {
        held.rights = level.rights();
        promised = promised.filter(|_| level == Oplock::Batch || is_persistent(open));
    }
    Ok(answer(asked, open, &node, open.done, caching, promised))
}

fn is_persistent(open: &Open) -> bool {
    lock(&open.durable).as_ref().is_some_and(Durable::is_persistent)
}

/// A client comes back for an open that survived its connection.
async fn reconnect(request: &Request, decoded: &wire::Request<'_>, file: FileId) -> Result<Reply, Status> {
    let (session, server) = (request.session()?, &request.connection.server);
    let contexts = &decoded.contexts;
    let missing = Status::OBJECT_NAME_NOT_FOUND;
    let group = request.share()?.found.group().clone();
    let name = text(decoded.name).ok_or(Status::OBJECT_NAME_INVALID)?.replace('\\', "/");
    let judge = |open: &Open| {
        let durable = lock(&open.durable).clone().ok_or(missing)?;
        // Clients come back by either version to either.
        let is_named = contexts.durable_2_reconnect.is_none_or(|again| again.create == durable.create());
        let lease = contexts.lease.filter(|_| decoded.oplock == oplock::LEASE || open.lease.is_some());
        let is_same_lease = open.lease == lease.map(|lease| lease.key);
        let is_same_client = open.lease.is_none() || durable.client == session.agreed.client;
        let is_here = *open.share.found.group() == group && durable.account == session.account;
        if !(is_named && is_same_lease && is_same_client && is_here) {
            return Err(missing);
        }
        // A lease is of a file under its name: whoever comes back must know it.
        let is_called_so = |path: String| contract::names::fold(&name) == contract::names::fold(&path);
        match open.lease.is_none() || is_called_so(open.path(server)?) {
            true => Ok(()),
            false => Err(Status::INVALID_PARAMETER),
        }
    };
    let open = server.durables.claim(file, judge)?;
    let (own, handle) = (server.this().ok_or(missing)?, open.handle.ok_or(missing)?);
    let listener = Arc::new(Client { server: Arc::downgrade(&own), session: session.id, file: open.id });
    let files = &server.shell.open_files;
    let now = server.shell.clock.now();
    let address = request.connection.client.to_string();
    if files.set_listener(&group, handle, session.id, address, listener, Some(now)).is_err() {
        open.close(server).await;
        return Err(missing);
    }
    open.move_to(session.id, request.tree()?.id);
    if let Err(status) = session.add_open(&open) {
        open.close(server).await;
        return Err(status);
    }
    let node = look::node(&server.shell, &open.share.found, open.file).await?;
    let caching = files.caching(&group, handle);
    let asked = Asked {
        request: decoded.clone(),
        disposition: Disposition::Open,
        kind: Kind::Any,
        mask: open.mask,
        wants_maximum: false,
        path: FilePath::ROOT,
        snapshot: None,
    };
    Ok(answer(&asked, &open, &node, Done::Opened, caching, None))
}

/// Opens what was, to be looked at.
async fn in_snapshot(request: &Request, share: &Arc<Share>, asked: &Asked<'_>) -> Result<Reply, Status> {
    let (session, server) = (request.session()?, &request.connection.server);
    const WRITES: u32 = right::WRITE_DATA
        | right::APPEND_DATA
        | right::WRITE_ATTRIBUTES
        | right::DELETE
        | right::WRITE_DAC
        | right::WRITE_OWNER;
    let creates = !matches!(asked.disposition, Disposition::Open | Disposition::OpenIf);
    if creates || asked.mask & WRITES != 0 {
        return Err(Status::MEDIA_WRITE_PROTECTED);
    }
    let failed = |failure: Failure| Status::from(Error::from(failure));
    let share = share.now(&server.shell).await?;
    let wanted = asked.snapshot.ok_or(Status::INVALID_PARAMETER)?;
    let taken = snapshot::taken_at(&server.shell, &share.account, &share.name).await.map_err(failed)?;
    let taken = taken.into_iter().find(|taken| taken.seconds() == wanted.seconds());
    let taken = taken.ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
    let found = share::find(&server.shell, &share.account, &share.name, Some(taken)).await.map_err(failed)?;
    let (node, path) = look::find(&server.shell, &found, &asked.path).await?;
    match (asked.kind, node.is_directory()) {
        (Kind::File, true) => return Err(Status::FILE_IS_A_DIRECTORY),
        (Kind::Directory, false) => return Err(Status::NOT_A_DIRECTORY),
        _ => {}
    }
    let of_snapshot = Share { account: share.account.clone(), name: share.name.clone(), found };
    let mask = if asked.wants_maximum { asked.mask | right::ALL & !WRITES } else { asked.mask };
    let open = Arc::new(Open::new(NewOpen {
        id: server.new_file_id(),
        share: Arc::new(of_snapshot),
        handle: None,
        file: node.id,
        is_directory: node.is_directory(),
        mask,
        mode: mode(asked.request.options),
        is_through: false,
        path,
        lease: None,
        tree: request.tree()?.id,
        session: session.id,
        channel_sequence: request.header.channel_sequence(),
        done: Done::Opened,
        create: None,
    }));
    session.add_open(&open)?;
    Ok(answer(asked, &open, &node, Done::Opened, None, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_spelled_out() {
        for (asked, expected) in [
            (0, Err(Status::ACCESS_DENIED)),
            (0x0400_0000, Err(Status::ACCESS_DENIED)),
            (0x8000_0000, Ok((0x0012_0089, false))),
            (0x1000_0000, Ok((right::ALL, false))),
            (MAXIMUM_ALLOWED, Ok((0, true))),
            (MAXIMUM_ALLOWED | 1, Ok((1, true))),
            (0x3, Ok((0x3, false))),
        ] {
            assert_eq!(mask(asked), expected, "{asked:08x}");
        }
    }

    #[test]
    fn names_are_paths_from_the_root() {
        let shown = |name: &str| path(name).map(|(path, moment)| (path.to_string(), moment.map(format_gmt)));
        for (name, expected) in [
            ("", Ok(("", None))),
            ("a\\b", Ok(("a/b", None))),
            ("\\a", Err(Status::INVALID_PARAMETER)),
            ("a\\", Err(Status::OBJECT_NAME_INVALID)),
            ("a/b", Err(Status::OBJECT_NAME_INVALID)),
            ("a:stream", Err(Status::OBJECT_NAME_INVALID)),
            ("..\\a", Err(Status::OBJECT_PATH_SYNTAX_BAD)),
            ("a*", Err(Status::OBJECT_NAME_INVALID)),
            ("@GMT-2026.11.16-01.02.03\\a", Ok(("a", Some("@GMT-2026.11.16-01.02.03")))),
            ("@GMT-2026.11.16-01.02.03", Ok(("", Some("@GMT-2026.11.16-01.02.03")))),
            ("@GMT-2026\\a", Err(Status::OBJECT_NAME_INVALID)),
        ] {
            let expected = expected.map(|(path, moment)| (path.to_owned(), moment.map(str::to_owned)));
            assert_eq!(shown(name), expected, "{name}");
        }
    }
}
