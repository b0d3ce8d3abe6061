//! Whose a share is, where several processes serve the same ones: docs/decisions/0021.
//!
//! What is open in a share, and what SMB clients keep of it, is one process's memory. The engine says whose (`Engine::own`); here is what
//! follows from it:
//!
//! 1. Nobody is served from a share that has just become this process's before its persistent handles are entered again.
//! 2. A share whose tree somebody is connected to is not let go. Whoever connects claims it first and asks whose it is then.
//! 3. A share that is not this process's any more has nothing open, and nobody is connected to it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use bytes::Bytes;
use contract::Refusal;
use contract::names::{AccountName, ShareName};
use engine::{BoxFuture, Engine, Fault, GroupId, PartitionId, Tenure, Write};
use env::Timestamp;

use super::opens::{OpenFiles, Scope};
use super::share;
use crate::execute::{Command, Failure, Moment, Reader, Shell};
use crate::key;
use crate::record::{FileId, corrupt};
use crate::turns::lock;

/// Who keeps something about shares beside the table of open files: the SMB server.
pub trait Keeper: Send + Sync {
    /// Enters again what was written down to outlive a process.
    fn restore<'a>(
        &'a self,
        account: &'a AccountName,
        name: &'a ShareName,
        share: &'a share::Found,
    ) -> BoxFuture<'a, Result<(), Fault>>;

    /// Does a client count on something that letting the share go would lose?
    fn is_needed(&self, group: &GroupId) -> bool;

    /// Forgets everything about a share, and writes nothing.
    fn drop_share(&self, group: &GroupId);
}

/// How another process is asked for a share.
pub trait Neighbours: Send + Sync {
    /// True if it let the share go.
    fn ask<'a>(&'a self, address: &'a str, group: &'a GroupId) -> BoxFuture<'a, bool>;
}

/// The shares of this process, as far as they are known.
pub struct Tenures {
    engine: Arc<dyn Engine>,
    open_files: OpenFiles,
    neighbours: Arc<dyn Neighbours>,
    keeper: OnceLock<Weak<dyn Keeper>>,
    places: Mutex<HashMap<GroupId, Arc<Place>>>,
}

#[derive(Default)]
struct Place {
    /// Held while the share is taken, and while it is let go.
    gate: tokio::sync::Mutex<()>,
    /// Its handles have been entered again since it is this process's.
    is_ready: AtomicBool,
    claims: AtomicUsize,
    losses: AtomicUsize,
}

/// Keeps a share from being let go while it is held.
pub struct Claim(Arc<Place>);

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.claims.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What came of asking for a share.
pub enum Taken {
    Ours(Claim),
    /// Its owner needs it.
    Theirs {
        address: String,
    },
}

impl Tenures {
    pub fn new(engine: Arc<dyn Engine>, open_files: OpenFiles, neighbours: Arc<dyn Neighbours>) -> Tenures {
        Tenures { engine, open_files, neighbours, keeper: OnceLock::new(), places: Mutex::default() }
    }

    /// To be called once, before anybody is served.
    pub fn set_keeper(&self, keeper: Weak<dyn Keeper>) {
        // Whoever came first stays.
        let _ = self.keeper.set(keeper);
    }

    fn keeper(&self) -> Option<Arc<dyn Keeper>> {
        self.keeper.get()?.upgrade()
    }

    fn place(&self, group: &GroupId) -> Arc<Place> {
        lock(&self.places).entry(group.clone()).or_default().clone()
    }

    /// A share that nobody asks about here takes no memory.
    fn leave(&self, group: &GroupId, place: Arc<Place>) {
        let mut places = lock(&self.places);
        drop(place);
        let is_unused = |place: &Arc<Place>| Arc::strong_count(place) == 1 && !place.is_ready.load(Ordering::Acquire);
        if places.get(group).is_some_and(is_unused) {
            places.remove(group);
        }
    }

    /// Makes the share this process's, unless another has it.
    pub async fn own(&self, account: &AccountName, name: &ShareName, share: &share::Found) -> Result<Tenure, Fault> {
        let place = self.place(share.group());
        let tenure = self.own_at(&place, account, name, share).await;
        self.leave(share.group(), place);
        tenure
    }

    async fn own_at(
        &self,
        place: &Place,
        account: &AccountName,
        name: &ShareName,
        share: &share::Found,
    ) -> Result<Tenure, Fault> {
        let _gate = place.gate.lock().await;
        let tenure = self.engine.own(share.group()).await?;
        if tenure != Tenure::Ours || place.is_ready.load(Ordering::Acquire) {
            return Ok(tenure);
        }
        let losses = place.losses.load(Ordering::Acquire);
        if let Some(keeper) = self.keeper() {
            keeper.restore(account, name, share).await?;
        }
        place.is_ready.store(true, Ordering::Release);
        if place.losses.load(Ordering::Acquire) != losses {
            // Lost meanwhile: what was entered after that is nobody's.
            self.lost(share.group());
            return Err(Fault::Elsewhere);
        }
        Ok(tenure)
    }

    /// The same, and another that has it is asked to let it go. What is taken stays this process's while the claim is held, unless
    /// the cluster takes it away.
    pub async fn take(&self, account: &AccountName, name: &ShareName, share: &share::Found) -> Result<Taken, Fault> {
        let place = self.place(share.group());
        place.claims.fetch_add(1, Ordering::AcqRel);
        let claim = Claim(place);
        let Tenure::Theirs { address } = self.own_at(&claim.0, account, name, share).await? else {
            return Ok(Taken::Ours(claim));
        };
        if !self.neighbours.ask(&address, share.group()).await {
            return Ok(Taken::Theirs { address });
        }
        {
            // Whose it was is not to be believed any more; unless it became this process's meanwhile, for another who connects.
            let _gate = claim.0.gate.lock().await;
            if !claim.0.is_ready.load(Ordering::Acquire) {
                self.engine.disown(share.group()).await?;
            }
        }
        match self.own_at(&claim.0, account, name, share).await? {
            Tenure::Ours => Ok(Taken::Ours(claim)),
            Tenure::Theirs { address } => Ok(Taken::Theirs { address }),
        }
    }

    /// Another asks for it: lets it go, unless somebody here needs it.
    pub async fn let_go(&self, group: &GroupId) -> Result<bool, Fault> {
        let place = self.place(group);
        let _gate = place.gate.lock().await;
        let is_needed = || self.keeper().is_some_and(|keeper| keeper.is_needed(group));
        if place.claims.load(Ordering::Acquire) > 0 || is_needed() {
            return Ok(false);
        }
        self.lost(group);
        self.engine.disown(group).await?;
        Ok(true)
    }

    /// The share is not this process's any more: nothing of it is open, and nothing is written about that.
    pub fn lost(&self, group: &GroupId) {
        let place = self.place(group);
        place.losses.fetch_add(1, Ordering::AcqRel);
        place.is_ready.store(false, Ordering::Release);
        if let Some(keeper) = self.keeper() {
            keeper.drop_share(group);
        }
        let everything = Scope { file: FileId::ROOT, is_recursive: true };
        self.open_files.force_close_all(group, everything, None, usize::MAX);
        self.leave(group, place);
    }
}

/// By what gateways know each other: made by the first of them, and the same for all from then on.
pub async fn secret(shell: &Shell) -> Result<[u8; 32], Failure> {
    let drawn = [shell.ids.next().0.to_be_bytes(), shell.ids.next().0.to_be_bytes()].concat();
    let secret = shell.execute(&MakeSecret { partition: key::peers_partition(), drawn: drawn.into() }).await?;
    secret.as_ref().try_into().map_err(|_| corrupt("the secret of the gateways", &secret).into())
}

struct MakeSecret {
    partition: PartitionId,
    drawn: Bytes,
}

impl Command for MakeSecret {
    type Records = Option<Bytes>;
    type Outcome = Bytes;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        Ok(reader.get(key::system::SECRET, b"").await?.map(|record| record.value))
    }

    fn check(&self, _: &Self::Records, _: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, made: Self::Records, _: Moment) -> Result<(Vec<Write>, Bytes), Refusal> {
        let value = self.drawn.clone();
        let put =
            Write::Put { family: key::system::SECRET, key: Bytes::new(), value: value.clone(), slices: Vec::new() };
        Ok(made.map_or((vec![put], value), |made| (Vec::new(), made)))
    }
}
