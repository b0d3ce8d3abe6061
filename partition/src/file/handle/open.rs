//! CREATE: finds or makes a file or directory and gives a handle on it, in one turn (MS-FSA 2.1.5.1).

use std::sync::{Arc, Mutex};

use contract::Refusal;
use contract::attributes::FileAttributes;
use contract::names::FilePath;
use contract::rights as right;
use engine::{Fault, GroupId, PartitionId, Write};
use env::Timestamp;

use super::{Error, Refused, settled};
use crate::etag::ETag;
use crate::execute::{Command, Moment, Reader, Shell};
use crate::file::body::{self, Met};
use crate::file::create::new_node;
use crate::file::delete::is_empty;
use crate::file::opens::{
    Access, CachingGranted, CachingWanted, Claim, Conflict, Handle, Listener, OpenFiles, Opened, Opening, ShareMode,
};
use crate::file::range::refuse_pending;
use crate::file::security::SecurityDescriptor;
use crate::file::settings::{Known, Permission, Settings};
use crate::file::share;
use crate::file::target::resized;
use crate::file::tree::{self, Place, parent};
use crate::file::versions::Edit;
use crate::key;
use crate::lease::{LeaseState, after_write};
use crate::record::{FileId, Node, NodeKind, ShareHead, ShareState};
use crate::turns::lock;

/// What becomes of what is there, and of what is not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disposition {
    Supersede,
    Open,
    Create,
    OpenIf,
    Overwrite,
    OverwriteIf,
}

impl Disposition {
    pub fn overwrites(self) -> bool {
        matches!(self, Disposition::Supersede | Disposition::Overwrite | Disposition::OverwriteIf)
    }
}

/// What a client will have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Any,
    File,
    Directory,
}

/// What a client asks for.
#[derive(Clone)]
pub struct Wish {
    pub path: FilePath,
    pub disposition: Disposition,
    pub kind: Kind,
    /// Rights it must have.
    pub mask: u32,
    /// And every other it can get.
    pub wants_maximum: bool,
    pub share: ShareMode,
    /// Of something new, or overwritten.
    pub attributes: FileAttributes,
    pub descriptor: Option<SecurityDescriptor>,
    pub deletes_on_close: bool,
    pub caching: CachingWanted,
    pub session: u64,
    pub client_address: String,
    pub client_name: String,
    pub listener: Arc<dyn Listener>,
    /// Under what it may be written down.
    pub kept_as: Option<u64>,
}

/// What was done for a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Done {
    Superseded,
    Opened,
    Created,
    Overwritten,
}

pub struct OpenedFile {
    pub handle: Arc<Handle>,
    pub caching: CachingGranted,
    pub node: Node,
    pub mask: u32,
    pub done: Done,
}

/// Opens a file or directory. Waits for nobody: who is in the way is told by the refusal.
pub async fn open(shell: &Shell, share: &share::Found, wish: Wish) -> Result<OpenedFile, Error> {
    let settings = Settings {
        attributes: Some(wish.attributes),
        permission: wish.descriptor.clone().map_or(Permission::Unsaid, Permission::Given),
        ..Settings::default()
    };
    let command = Open {
        partition: key::tree_partition(share.group()),
        group: share.group().clone(),
        head: share.head.clone(),
        settings,
        wish,
        opens: shell.open_files.clone(),
        entered: Mutex::default(),
    };
    let outcome = shell.execute(&command).await;
    if !matches!(outcome, Ok(Ok(_))) {
        command.let_go();
    }
    Ok(outcome??)
}

struct Open {
    partition: PartitionId,
    group: GroupId,
    head: ShareHead,
    wish: Wish,
    settings: Settings,
    opens: OpenFiles,
    /// The handle of an earlier attempt.
    entered: Mutex<Option<Arc<Handle>>>,
}

struct Site {
    state: ShareState,
    place: Place,
    /// The path as it is stored, or will be.
    path: String,
    /// Of a directory that is to go: is there nothing in it?
    is_empty: bool,
    known: Known,
    /// Of what may be overwritten.
    runs: Option<Vec<Met>>,
}

/// The rights a client gets on what it opens.
pub fn granted(mask: u32, wants_maximum: bool, is_read_only: bool) -> u32 {
    let unwritable = right::WRITE_DATA | right::APPEND_DATA;
    match (wants_maximum, is_read_only) {
        (false, _) => mask,
        (true, false) => mask | right::ALL,
        (true, true) => mask | right::ALL & !unwritable,
    }
}

/// What share modes are about.
pub fn access(mask: u32) -> Access {
    Access {
        read: mask & (right::READ_DATA | right::EXECUTE) != 0,
        write: mask & (right::WRITE_DATA | right::APPEND_DATA) != 0,
        delete: mask & right::DELETE != 0,
    }
}

/// May something new be made?
fn judge_new(wish: &Wish) -> Result<(), Refused> {
    match wish.disposition {
        Disposition::Open | Disposition::Overwrite => Err(Refused::NotFound),
        _ if wish.deletes_on_close && wish.attributes.has(FileAttributes::READ_ONLY) => Err(Refused::CannotDelete),
        _ => Ok(()),
    }
}

/// Bits that an overwrite must bring again if they are there.
const KEPT: [FileAttributes; 2] = [FileAttributes::HIDDEN, FileAttributes::SYSTEM];

/// May what is there be opened?
fn judge_old(wish: &Wish, node: &Node) -> Result<(), Refused> {
    let overwrites = wish.disposition.overwrites();
    let is_read_only = !node.is_directory() && node.attributes.has(FileAttributes::READ_ONLY);
    let access = access(wish.mask);
    if wish.disposition == Disposition::Create {
        return Err(Refused::AlreadyThere);
    }
    match (wish.kind, node.is_directory()) {
        (Kind::File, true) => return Err(Refused::IsDirectory),
        (Kind::Directory, false) => return Err(Refused::IsNotDirectory),
        (_, true) if overwrites => return Err(Refused::IsDirectory),
        _ => {}
    }
    if is_read_only && (access.write || overwrites) {
        return Err(Refused::Denied);
    }
    if overwrites && KEPT.iter().any(|kept| node.attributes.has(*kept) && !wish.attributes.has(*kept)) {
        return Err(Refused::Denied);
    }
    if wish.deletes_on_close && node.attributes.has(FileAttributes::READ_ONLY) {
        return Err(Refused::CannotDelete);
    }
    if wish.deletes_on_close && node.id == FileId::ROOT {
        return Err(Refused::Denied);
    }
    if (access.write || access.delete || overwrites) && refuse_pending(node).is_err() {
        return Err(Refused::HeldByRest);
    }
    Ok(())
}

impl Open {
    fn let_go(&self) {
        if let Some(handle) = lock(&self.entered).take() {
            // A handle that was never given out: nothing was done with it.
            self.opens.abandon(&self.group, handle.id);
        }
    }

    fn enter(
        &self,
        node: &Node,
        above: &[FileId],
        path: String,
        is_new: bool,
        now: Timestamp,
    ) -> Result<(Opened, u32), Refused> {
        let wish = &self.wish;
        let is_read_only = !node.is_directory() && node.attributes.has(FileAttributes::READ_ONLY);
        let mask = granted(wish.mask, wish.wants_maximum, is_read_only);
        let opening = Opening {
            session: wish.session,
            client_address: wish.client_address.clone(),
            client_name: wish.client_name.clone(),
            path,
            file: node.id,
            above: above.to_vec(),
            claim: Claim { access: access(mask), share: wish.share },
            opened: now,
            reconnected: None,
            kept_as: wish.kept_as,
            mask,
            caching: if node.is_directory() { CachingWanted::Nothing } else { wish.caching },
            is_new,
            overwrites: !is_new && wish.disposition.overwrites(),
            deletes_on_close: wish.deletes_on_close,
            is_directory: node.is_directory(),
            is_leased: LeaseState::of(node.lease.as_ref(), now).is_locked(),
            listener: wish.listener.clone(),
        };
        // A key that is in use is refused for whatever else is opened with it, for a directory, too (MS-SMB2 3.3.5.9.8), though that
        // would be given no lease.
        if node.is_directory() && wish.caching.lease().is_some_and(|key| self.opens.is_leased_by(&key)) {
            return Err(Conflict::LeaseOfAnother.into());
        }
        let opened = self.opens.open(&self.group, opening, now)?;
        *lock(&self.entered) = Some(opened.handle.clone());
        Ok((opened, mask))
    }

    fn make(&self, site: Site, moment: Moment) -> Result<(Vec<Write>, OpenedFile), Refused> {
        let Site { state, place, path, is_empty, known, runs } = site;
        match place {
            Place::NoParent => Err(Refused::NoPath),
            Place::Free { above } => {
                judge_new(&self.wish)?;
                let kind = match self.wish.kind {
                    Kind::Directory => NodeKind::Directory,
                    _ => NodeKind::File { bytes: 0, body: moment.tick },
                };
                let mut node = new_node(&self.head, kind, moment);
                let mut edit = Edit::new(&state);
                self.settings.apply_to_new(&mut node, moment.now, &known, &mut edit);
                let name = self.wish.path.names().last().ok_or(Refused::Invalid)?;
                edit.add(parent(&above), name, &node);
                let (Opened { handle, caching }, mask) = self.enter(&node, &above, path, true, moment.now)?;
                Ok((edit.finish(), OpenedFile { handle, caching, node, mask, done: Done::Created }))
            }
            Place::Taken(found) => {
                // Its name is not free, and it is nobody's to open.
                if self.opens.is_delete_pending(&self.group, found.node.id) {
                    return Err(Conflict::DeletePending.into());
                }
                judge_old(&self.wish, &found.node)?;
                if !is_empty {
                    return Err(Refused::NotEmpty);
                }
                let overwrites = self.wish.disposition.overwrites();
                let (Opened { handle, caching }, mask) =
                    self.enter(&found.node, &found.above, path, false, moment.now)?;
                if !overwrites {
                    let node = found.node;
                    return Ok((Vec::new(), OpenedFile { handle, caching, node, mask, done: Done::Opened }));
                }
                let (mut node, mut edit) = (found.node.clone(), Edit::new(&state));
                edit.drop_content(&found.node, runs);
                node.kind = NodeKind::File { bytes: 0, body: moment.tick };
                node.attributes = self.wish.attributes;
                node.etag = ETag::next(Some(node.etag), moment.tick);
                node.lease = after_write(node.lease.take(), moment.now);
                (node.last_modified, node.written, node.changed) = (moment.now, moment.now, moment.now);
                let supersedes = self.wish.disposition == Disposition::Supersede;
                if supersedes {
                    node.created = moment.now;
                }
                edit.change(&found, &node);
                let old = found.node.bytes();
                if old > 0 {
                    let shrunk = resized(&state, self.head.quota_gib, old, 0).map_err(|_| Refused::Full)?;
                    edit.put_state(&shrunk);
                }
                let done = if supersedes { Done::Superseded } else { Done::Overwritten };
                Ok((edit.finish(), OpenedFile { handle, caching, node, mask, done }))
            }
        }
    }
}

impl Command for Open {
    type Records = Site;
    type Outcome = Result<OpenedFile, Refused>;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Site, Fault> {
        let (place, spelled) = tree::find_spelled(reader, &self.head, &self.wish.path).await?;
        let new_name = self.wish.path.names().last().filter(|_| place.new_in().is_some());
        let path = spelled.of(&place, new_name);
        let known = self.settings.load(reader, place.new_in()).await?;
        let runs = match self.wish.disposition.overwrites() {
            true => body::load_few(reader, place.node()).await?,
            false => None,
        };
        let is_empty = match place.node().filter(|node| node.is_directory() && self.wish.deletes_on_close) {
            Some(node) => is_empty(reader, node.id).await?,
            None => true,
        };
        Ok(Site { state: tree::state(reader).await?, place, path, is_empty, known, runs })
    }

    fn check(&self, _: &Site, _: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    /// Enters the handle as well: in the turn, so that nothing comes between it and what was judged.
    fn decide(&self, site: Site, moment: Moment) -> Result<(Vec<Write>, Self::Outcome), Refusal> {
        self.let_go();
        Ok(settled(self.make(site, moment)))
    }
}
