//! Opens that survive their connection: kept for a while, found again by the client that has them, closed when nobody
//! comes (MS-SMB2 3.3.5.9.6 to 3.3.5.9.12, 3.3.7.1).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use contract::names::AccountName;
use engine::GroupId;
use partition::file::opens::{BreakNotice, Listener};

use crate::connection::lock;
use crate::open::Open;
use crate::server::Server;
use crate::status::Status;
use crate::wire::create::FileId;

/// How long an open is kept whose client did not say, and the longest a client may say.
const KEPT_DEFAULT: Duration = Duration::from_secs(60);
const KEPT_MAX: Duration = Duration::from_secs(300);
/// Opens of version 1 say nothing about it.
const KEPT_FIRST: Duration = Duration::from_secs(16 * 60);

/// What was promised about an open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Durable {
    pub version: Version,
    pub account: AccountName,
    pub client: [u8; 16],
    kept: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    First,
    /// The client's own name for the creation of the open.
    Second {
        create: [u8; 16],
        is_persistent: bool,
    },
}

impl Durable {
    pub fn first(account: AccountName, client: [u8; 16]) -> Durable {
        Durable { version: Version::First, account, client, kept: KEPT_FIRST }
    }

    pub fn second(
        account: AccountName,
        client: [u8; 16],
        create: [u8; 16],
        is_persistent: bool,
        asked_milliseconds: u32,
    ) -> Durable {
        let kept = match asked_milliseconds {
            0 => KEPT_DEFAULT,
            asked => Duration::from_millis(asked.into()).min(KEPT_MAX),
        };
        Durable { version: Version::Second { create, is_persistent }, account, client, kept }
    }

    pub fn kept_milliseconds(&self) -> u32 {
        self.kept.as_millis() as u32
    }

    /// The client's name for it; nothing for one of version 1.
    pub fn create(&self) -> [u8; 16] {
        match self.version {
            Version::First => [0; 16],
            Version::Second { create, .. } => create,
        }
    }

    pub fn is_persistent(&self) -> bool {
        matches!(self.version, Version::Second { is_persistent: true, .. })
    }
}

/// A client, and its name for a creation. The account is proved; the rest others can say as well.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CreateName {
    pub account: AccountName,
    pub client: [u8; 16],
    pub create: [u8; 16],
}

/// Those that wait for their clients, and all that a client named.
#[derive(Default)]
pub struct Durables(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// By the lasting half of their ids; and which loss it was, for one may be lost again.
    lost: BTreeMap<u64, (Arc<Open>, u64)>,
    losses: u64,
    /// Opens, and creations under way (`None`), by the client and its name for them.
    created: HashMap<CreateName, Option<Arc<Open>>>,
}

/// What a client's name for a creation stands for.
pub enum Named {
    /// Nothing so far.
    New,
    /// A creation that is under way.
    UnderWay,
    Open(Arc<Open>),
}

impl Durables {
    /// A creation begins under a name. `Named::New` enters it.
    pub fn begin(&self, named: &CreateName) -> Named {
        let mut kept = lock(&self.0);
        match kept.created.get(named) {
            None => {
                kept.created.insert(named.clone(), None);
                Named::New
            }
            Some(None) => Named::UnderWay,
            Some(Some(open)) => Named::Open(open.clone()),
        }
    }

    /// It came to something, or to nothing.
    pub fn end(&self, named: &CreateName, open: Option<&Arc<Open>>) {
        let mut kept = lock(&self.0);
        match open.filter(|open| !open.is_closed()) {
            Some(open) => kept.created.insert(named.clone(), Some(open.clone())),
            None => kept.created.remove(named),
        };
    }

    /// Its client has used it: it knows what became of the creation.
    pub fn used(&self, open: &Open) {
        if let Some(named) = lock(&open.create).take() {
            lock(&self.0).created.remove(&named);
        }
    }

    /// Keeps an open whose client is gone, if that was promised.
    pub fn keep(&self, server: &Server, open: &Arc<Open>) -> bool {
        let Some(durable) = lock(&open.durable).clone() else { return false };
        let Some(handle) = open.handle else { return false };
        let Some(own) = server.this() else { return false };
        let loss = self.lose(open.clone());
        let listener = Arc::new(Lost::default());
        listener.hear_for(&own, open);
        let files = &server.shell.open_files;
        let address = String::new();
        if files.set_listener(open.share.found.group(), handle, open.session(), address, listener, None).is_err() {
            self.forget(open);
            return false;
        }
        // Who was told to make way before it was gone will not answer.
        let is_in_the_way = files.caching(open.share.found.group(), handle).is_some_and(|caching| caching.is_breaking);
        if is_in_the_way && !durable.is_persistent() {
            self.forget(open);
            return false;
        }
        let (weak, kept) = (Arc::downgrade(open), durable.kept);
        server.spawn(async move {
            tokio::time::sleep(kept).await;
            if let Some(open) = weak.upgrade() {
                own.durables.give_up(&own, &open, Some(loss)).await;
            }
        });
        true
    }

    fn lose(&self, open: Arc<Open>) -> u64 {
        let mut kept = lock(&self.0);
        kept.losses += 1;
        let loss = kept.losses;
        kept.lost.insert(open.id.persistent, (open, loss));
        loss
    }

    /// Closes one that nobody came back for, after this loss or whichever.
    async fn give_up(&self, server: &Server, open: &Arc<Open>, after: Option<u64>) {
        let given_up = {
            let mut kept = lock(&self.0);
            let is_meant = |(_, loss): &(Arc<Open>, u64)| after.is_none_or(|after| after == *loss);
            let is_lost = kept.lost.get(&open.id.persistent).is_some_and(is_meant);
            if is_lost { kept.lost.remove(&open.id.persistent) } else { None }
        };
        if given_up.is_some() {
            open.close(server).await;
        }
    }

    /// Takes one that waits for its client, if whoever asks may have it.
    pub fn claim(&self, file: FileId, judge: impl FnOnce(&Open) -> Result<(), Status>) -> Result<Arc<Open>, Status> {
        let mut kept = lock(&self.0);
        let missing = Status::OBJECT_NAME_NOT_FOUND;
        let (open, _) = kept.lost.get(&file.persistent).ok_or(missing)?;
        judge(open)?;
        kept.lost.remove(&file.persistent).map(|(open, _)| open).ok_or(missing)
    }

    /// Those in a share that wait for their clients.
    pub fn of_share(&self, group: &GroupId) -> Vec<Arc<Open>> {
        let kept = lock(&self.0);
        let opens = kept.lost.values().map(|(open, _)| open);
        opens.filter(|open| open.share.found.group() == group).cloned().collect()
    }

    pub fn forget(&self, open: &Open) {
        let mut kept = lock(&self.0);
        kept.lost.remove(&open.id.persistent);
        if let Some(named) = lock(&open.create).take() {
            kept.created.remove(&named);
        }
    }
}

/// Hears for an open whose client is gone: who is in the way of others is closed.
#[derive(Default)]
pub struct Lost(OnceLock<(Weak<Server>, Weak<Open>)>);

impl Lost {
    /// Once there is an open to hear for.
    pub fn hear_for(&self, server: &Arc<Server>, open: &Arc<Open>) {
        // Whoever set it first set the same.
        let _ = self.0.set((Arc::downgrade(server), Arc::downgrade(open)));
    }
}

impl Listener for Lost {
    fn broken(&self, notice: BreakNotice) {
        let Some((server, open)) = self.0.get() else { return };
        let (Some(server), Some(open)) = (server.upgrade(), open.upgrade()) else { return };
        if !notice.needs_answer || lock(&open.durable).as_ref().is_some_and(Durable::is_persistent) {
            return;
        }
        let own = server.clone();
        server.spawn(async move { own.durables.give_up(&own, &open, None).await });
    }
}
