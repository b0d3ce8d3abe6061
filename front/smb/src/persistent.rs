//! Persistent opens across a restart: written down while they are open, entered again before anybody is served.

use std::sync::Arc;

use contract::names::{AccountName, FilePath, ShareName};
use contract::rights as right;
use engine::Fault;
use env::Id;
use partition::file::handle::open::{Done, Kind, Wish};
use partition::file::handle::{Error, kept, open};
use partition::file::opens::{ByteRange, CachingWanted, LeaseKey, LockKind, Oplock, ShareMode};
use partition::file::share;
use partition::record::handle::{KeptCaching, KeptHandle, KeptLock};

use crate::connection::lock;
use crate::durable::{Durable, Lost};
use crate::handlers::oplock::{rights, state};
use crate::open::{NewOpen, Open};
use crate::server::Server;
use crate::session::Share;
use crate::status::Status;
use crate::wire::create::FileId;

impl Open {
    /// Writes down what it is like now, if it was promised to be found again after a restart.
    pub async fn write_down(&self, server: &Server) -> Result<(), Status> {
        let Some(durable) = lock(&self.durable).clone().filter(Durable::is_persistent) else { return Ok(()) };
        let handle = self.handle(server)?;
        let opening = &handle.opening;
        let held = server.shell.open_files.caching(self.share.found.group(), handle.id).unwrap_or_default();
        let caching = match opening.caching {
            CachingWanted::Nothing => KeptCaching::Nothing,
            CachingWanted::Oplock(_) => KeptCaching::Oplock { rights: state(held.rights) as u8 },
            CachingWanted::Lease { key, epoch, .. } => {
                KeptCaching::Lease { key: key.key, rights: state(held.rights) as u8, epoch: epoch.map(|_| held.epoch) }
            }
        };
        let bit = |is_shared, bit| if is_shared { bit } else { 0 };
        let shared = opening.claim.share;
        let kept = KeptHandle {
            share: self.share.name.as_str().to_owned(),
            incarnation: self.share.found.head.incarnation,
            path: opening.path.clone(),
            file: self.file,
            mask: self.mask,
            shares: bit(shared.read, 1) | bit(shared.write, 2) | bit(shared.delete, 4),
            deletes_on_close: opening.deletes_on_close,
            mode: self.mode,
            is_through: self.is_through,
            client: durable.client,
            create: durable.create(),
            kept_milliseconds: durable.kept_milliseconds(),
            caching,
            locks: server
                .shell
                .open_files
                .locks_of(self.share.found.group(), handle.id)
                .into_iter()
                .map(note)
                .collect(),
        };
        kept::keep(&server.shell, &self.share.account, self.id.persistent, &kept).await?;
        if self.is_closed() {
            // A lock that was waited for may be given while its handle is closed: what that crossed out is not to be there again.
            self.cross_out(server).await;
        }
        Ok(())
    }

    /// Nobody is to find it again.
    pub async fn cross_out(&self, server: &Server) {
        if self.is_persistent()
            && let Err(error) = kept::forget(&server.shell, &self.share.account, self.id.persistent).await
        {
            tracing::error!(?error, "a closed handle could not be crossed out");
        }
    }
}

fn note((range, kind): (ByteRange, LockKind)) -> KeptLock {
    KeptLock { offset: range.offset, length: range.length, is_exclusive: kind == LockKind::Exclusive }
}

impl Server {
    /// Enters the opens again that were promised to outlive the program. To be called before anybody is served.
    pub async fn restore(self: &Arc<Server>, account: &AccountName) -> Result<usize, Fault> {
        self.restore_those(account, |_| true).await
    }

    /// The same in one share that has become this gateway's.
    pub async fn restore_share(self: &Arc<Server>, account: &AccountName, incarnation: Id) -> Result<usize, Fault> {
        self.restore_those(account, |handle| handle.incarnation == incarnation).await
    }

    async fn restore_those(
        self: &Arc<Server>,
        account: &AccountName,
        is_meant: impl Fn(&KeptHandle) -> bool,
    ) -> Result<usize, Fault> {
        let mut count = 0;
        for (id, handle) in kept::all(&self.shell, account).await?.iter().filter(|(_, handle)| is_meant(handle)) {
            match self.restore_one(account, *id, handle).await {
                Ok(()) => count += 1,
                Err(Error::Fault(fault)) => return Err(fault),
                // The file or the share is gone, or was given another name by somebody else.
                Err(_) => kept::forget(&self.shell, account, *id).await?,
            }
        }
        Ok(count)
    }

    async fn restore_one(self: &Arc<Server>, account: &AccountName, id: u64, kept: &KeptHandle) -> Result<(), Error> {
        use partition::file::handle::Refused;
        let invalid = || Error::from(Refused::Invalid);
        let name = ShareName::parse(&kept.share).map_err(|_| invalid())?;
        let found = share::find(&self.shell, account, &name, None).await?;
        if found.head.incarnation != kept.incarnation {
            return Err(Error::Gone);
        }
        let share = Arc::new(Share { account: account.clone(), name, found });
        let listener = Arc::new(Lost::default());
        let caching = match kept.caching {
            KeptCaching::Nothing => CachingWanted::Nothing,
            KeptCaching::Oplock { rights: held } => CachingWanted::Oplock(Oplock::of(rights(held.into()))),
            KeptCaching::Lease { key, rights: held, epoch } => CachingWanted::Lease {
                key: LeaseKey::new(account, kept.client, key),
                rights: rights(held.into()),
                // Granting it counts once more.
                epoch: epoch.map(|epoch| epoch.wrapping_sub(1)),
            },
        };
        let wish = Wish {
            path: FilePath::parse(&kept.path, true).map_err(|_| invalid())?,
            disposition: open::Disposition::Open,
            kind: Kind::Any,
            mask: kept.mask,
            wants_maximum: false,
            share: ShareMode { read: kept.shares & 1 != 0, write: kept.shares & 2 != 0, delete: kept.shares & 4 != 0 },
            attributes: Default::default(),
            descriptor: None,
            deletes_on_close: kept.deletes_on_close,
            caching,
            session: 0,
            client_address: String::new(),
            client_name: String::new(),
            listener: listener.clone(),
            kept_as: Some(id),
        };
        let opened = open::open(&self.shell, &share.found, wish).await?;
        let (files, group) = (&self.shell.open_files, share.found.group());
        let kind = |is_exclusive| if is_exclusive { LockKind::Exclusive } else { LockKind::Shared };
        let locks: Vec<_> = kept
            .locks
            .iter()
            .map(|lock| (ByteRange { offset: lock.offset, length: lock.length }, kind(lock.is_exclusive)))
            .collect();
        let locked = if locks.is_empty() { Ok(()) } else { files.lock(group, opened.handle.id, &locks) };
        if opened.node.id != kept.file || locked.is_err() {
            files.abandon(group, opened.handle.id);
            return Err(invalid());
        }
        let lease = match kept.caching {
            KeptCaching::Lease { key, .. } => Some(key),
            _ => None,
        };
        let open = Arc::new(Open::new(NewOpen {
            id: FileId { persistent: id, volatile: self.shell.ids.next().0 as u64 },
            share,
            handle: Some(opened.handle.id),
            file: opened.node.id,
            is_directory: opened.node.is_directory(),
            mask: kept.mask & (right::ALL | crate::handlers::info::SYSTEM_SECURITY),
            mode: kept.mode,
            is_through: kept.is_through,
            path: String::new(),
            lease,
            tree: 0,
            session: 0,
            channel_sequence: 0,
            done: Done::Opened,
            create: None,
        }));
        *lock(&open.durable) =
            Some(Durable::second(account.clone(), kept.client, kept.create, true, kept.kept_milliseconds));
        listener.hear_for(self, &open);
        if !self.durables.keep(self, &open) {
            open.close(self).await;
        }
        Ok(())
    }
}
