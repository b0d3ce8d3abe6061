//! A session: who a client is, on one or more connections, and what it has open.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use contract::names::{AccountName, ShareName};
use engine::GroupId;
use partition::Shell;
use partition::execute::Failure;
use partition::file::handle::Error;
use partition::file::share;
use partition::file::tenure::Claim;

use crate::connection::{Connection, lock};
use crate::negotiate::Negotiated;
use crate::open::Open;
use crate::security::kdf::{self, PreauthHash};
use crate::security::seal::Cipher;
use crate::security::sign::Signer;
use crate::status::Status;
use crate::wire::create::FileId;
use crate::wire::header::Sealed;

/// Connections of one session.
pub const CHANNELS_MAX: usize = 32;
const TREES_MAX: usize = 4096;
const OPENS_MAX: usize = 65_536;

/// One connection of a session: each signs with a key of its own.
pub struct Channel {
    pub signer: Arc<Signer>,
    pub connection: Weak<Connection>,
}

pub struct Session {
    pub id: u64,
    pub account: AccountName,
    pub agreed: Negotiated,
    /// That it began with. Every connection signs with a key of its own, but one that is about to become one of its own signs with
    /// this (MS-SMB2 3.3.5.2.4), whichever of the others are left.
    pub signer: Arc<Signer>,
    seal: Option<Cipher>,
    unseal: Option<Cipher>,
    /// Nothing is taken or given in the clear.
    pub encrypts: bool,
    nonce: AtomicU64,
    channels: Mutex<BTreeMap<u64, Channel>>,
    trees: Mutex<BTreeMap<u32, Arc<Tree>>>,
    last_tree: AtomicU32,
    /// By the changing half of their ids.
    opens: Mutex<BTreeMap<u64, Arc<Open>>>,
    is_over: AtomicBool,
}

/// A share that a session is connected to.
pub struct Tree {
    pub id: u32,
    pub to: ConnectedTo,
    /// Keeps the share this gateway's.
    _claim: Option<Claim>,
}

pub enum ConnectedTo {
    Share(Arc<Share>),
    /// IPC$, which has no pipes: there is only the server to ask about.
    Server,
}

/// A share as it was when a client connected to it, or opened something in it.
pub struct Share {
    pub account: AccountName,
    pub name: ShareName,
    pub found: share::Found,
}

impl Share {
    /// As it is now, if it is still the one that was found: its quota may be another.
    pub async fn now(&self, shell: &Shell) -> Result<Share, Error> {
        let found = match share::find(shell, &self.account, &self.name, None).await {
            Ok(found) if found.group() == self.found.group() => found,
            Err(Failure::Fault(fault)) => return Err(fault.into()),
            _ => return Err(Error::Gone),
        };
        Ok(Share { account: self.account.clone(), name: self.name.clone(), found })
    }
}

impl Session {
    pub fn new(
        id: u64,
        account: AccountName,
        agreed: &Negotiated,
        key: [u8; 16],
        preauth: &PreauthHash,
        wants_encryption: bool,
    ) -> Session {
        let keys = kdf::derive(agreed.dialect, &key, preauth, agreed.cipher);
        let cipher = |key: &[u8]| agreed.cipher.and_then(|kind| Cipher::new(kind, key));
        Session {
            id,
            account,
            agreed: agreed.clone(),
            signer: Arc::new(Signer::new(agreed.signing, &keys.signing)),
            seal: cipher(&keys.encryption),
            unseal: cipher(&keys.decryption),
            encrypts: wants_encryption && agreed.cipher.is_some(),
            nonce: AtomicU64::new(0),
            channels: Mutex::default(),
            trees: Mutex::default(),
            last_tree: AtomicU32::new(0),
            opens: Mutex::default(),
            is_over: AtomicBool::new(false),
        }
    }

    pub fn has_opens(&self) -> bool {
        !lock(&self.opens).is_empty()
    }

    /// The signer of a channel whose client proved who it is with this key.
    pub fn signer(agreed: &Negotiated, key: &[u8; 16], preauth: &PreauthHash) -> Signer {
        let keys = kdf::derive(agreed.dialect, key, preauth, agreed.cipher);
        Signer::new(agreed.signing, &keys.signing)
    }

    pub fn seal(&self, bytes: &mut [u8]) -> Option<Sealed> {
        let cipher = self.seal.as_ref()?;
        let mut sealed = Sealed { tag: [0; 16], nonce: [0; 16], bytes: bytes.len() as u32, session_id: self.id };
        // Never twice under one key.
        let number = self.nonce.fetch_add(1, Ordering::Relaxed);
        sealed.nonce[..8].copy_from_slice(&number.to_le_bytes());
        let mut header = Vec::new();
        sealed.encode(&mut header);
        sealed.tag = cipher.seal(&sealed.nonce, &header[crate::wire::header::SEALED_OPEN], bytes);
        Some(sealed)
    }

    pub fn unseal(&self, sealed: &Sealed, open: &[u8], bytes: &mut [u8]) -> bool {
        self.unseal.as_ref().is_some_and(|cipher| cipher.open(&sealed.nonce, open, bytes, &sealed.tag).is_ok())
    }

    pub fn add_channel(&self, connection: &Arc<Connection>, signer: Arc<Signer>) -> bool {
        let mut channels = lock(&self.channels);
        if channels.len() >= CHANNELS_MAX || self.is_over() {
            return false;
        }
        let channel = Channel { signer, connection: Arc::downgrade(connection) };
        channels.insert(connection.id, channel);
        lock(&connection.sessions).insert(self.id);
        true
    }

    pub fn has_channel(&self, connection: u64) -> bool {
        lock(&self.channels).contains_key(&connection)
    }

    /// True if it was the last.
    pub fn remove_channel(&self, connection: u64) -> bool {
        let mut channels = lock(&self.channels);
        channels.remove(&connection);
        channels.is_empty()
    }

    pub fn signer_on(&self, connection: u64) -> Option<Arc<Signer>> {
        lock(&self.channels).get(&connection).map(|channel| channel.signer.clone())
    }

    /// The connections it can be told something on.
    pub fn connections(&self) -> Vec<Arc<Connection>> {
        let channels = lock(&self.channels);
        let live = channels.values().filter_map(|channel| channel.connection.upgrade());
        let mut live: Vec<_> = live.filter(|connection| connection.is_open()).collect();
        live.sort_by_key(|connection| connection.id);
        live
    }

    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Ends it: tells what was open, once and in order.
    pub fn end(&self) -> Vec<Arc<Open>> {
        self.is_over.store(true, Ordering::Release);
        lock(&self.trees).clear();
        std::mem::take(&mut *lock(&self.opens)).into_values().collect()
    }

    pub fn connect(&self, to: ConnectedTo, claim: Option<Claim>) -> Option<Arc<Tree>> {
        let mut trees = lock(&self.trees);
        if trees.len() >= TREES_MAX {
            return None;
        }
        let tree = Arc::new(Tree { id: self.last_tree.fetch_add(1, Ordering::Relaxed) + 1, to, _claim: claim });
        trees.insert(tree.id, tree.clone());
        Some(tree)
    }

    pub fn tree(&self, id: u32) -> Option<Arc<Tree>> {
        lock(&self.trees).get(&id).cloned()
    }

    /// What was open by way of a tree that is left.
    pub fn disconnect(&self, tree: u32) -> Vec<Arc<Open>> {
        lock(&self.trees).remove(&tree);
        let mut opens = lock(&self.opens);
        let left: Vec<_> = opens.values().filter(|open| open.tree() == tree).cloned().collect();
        left.iter().for_each(|open| {
            opens.remove(&open.id.volatile);
        });
        left
    }

    /// The share is another gateway's: it is not connected to any more. Tells what was open in it.
    pub fn leave_share(&self, group: &GroupId) -> Vec<Arc<Open>> {
        let is_of_share = |tree: &Tree| matches!(&tree.to, ConnectedTo::Share(share) if share.found.group() == group);
        lock(&self.trees).retain(|_, tree| !is_of_share(tree));
        let mut opens = lock(&self.opens);
        let is_left = |(_, open): &(u64, Arc<Open>)| open.share.found.group() == group;
        let (left, kept): (BTreeMap<_, _>, _) = std::mem::take(&mut *opens).into_iter().partition(is_left);
        *opens = kept;
        left.into_values().collect()
    }

    /// Refused if the session or its connection to the share has ended meanwhile, or it has too many.
    pub fn add_open(&self, open: &Arc<Open>) -> Result<(), Status> {
        let mut opens = lock(&self.opens);
        if self.is_over() {
            return Err(Status::USER_SESSION_DELETED);
        }
        if self.tree(open.tree()).is_none() {
            return Err(Status::NETWORK_NAME_DELETED);
        }
        if opens.len() >= OPENS_MAX {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        opens.insert(open.id.volatile, open.clone());
        Ok(())
    }

    pub fn open(&self, id: FileId) -> Option<Arc<Open>> {
        let open = lock(&self.opens).get(&id.volatile).cloned();
        open.filter(|open| open.id == id)
    }

    pub fn remove_open(&self, open: &Open) {
        lock(&self.opens).remove(&open.id.volatile);
    }
}
