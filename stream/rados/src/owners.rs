//! Groups that one process owns at a time, for what it keeps in memory about them: docs/decisions/0021.
//!
//! 1. Who owns a group stands in an entry of its one shard, and is written by the operation that also sets the shard's `gen` to the
//!    owner's token. Commits are guarded by `gen`, so from then on none of an earlier owner succeeds, however late it comes.
//! 2. An owner renews its entry. It takes itself for the owner for less time after a renewal began than others wait: theirs is counted
//!    by the cluster's clock from the same moment, its own by a clock that cannot be set.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use engine::{Fault, GroupId, PartitionId, Tenure};
use librados::{Found, Look, OpError, Pool, Step};
use tokio::time::Instant;

use crate::groups::{FENCED, GENERATION, LIVE};
use crate::shard::{Compare, Shard};
use crate::{Core, RETRY_PAUSE, fault, key, ticks};

const RENEWAL: Duration = Duration::from_secs(5);
/// An owner believes itself for so long after its last renewal.
const BELIEF: Duration = Duration::from_secs(15);
/// Others let an owner be for so long after its last renewal.
const TENURE: Duration = Duration::from_secs(20);
/// What was read of another owner is believed for so long.
const HEARSAY: Duration = Duration::from_secs(1);

/// The entry of an owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    process: u64,
    /// By the cluster's clock, in ticks.
    until: u64,
    address: String,
}

impl Owner {
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(16 + self.address.len());
        out.put_u64(self.process);
        out.put_u64(self.until);
        out.put_slice(self.address.as_bytes());
        out.freeze()
    }

    pub fn decode(mut stored: Bytes) -> Option<Owner> {
        let (process, until) = (stored.try_get_u64().ok()?, stored.try_get_u64().ok()?);
        Some(Owner { process, until, address: String::from_utf8(stored.into()).ok()? })
    }
}

/// Told of groups that this process owned and does not any more.
pub type OnLoss = Arc<dyn Fn(GroupId) + Send + Sync>;

#[derive(Default)]
pub struct Owners {
    state: Mutex<State>,
    /// Held while a group is taken: of two tokens of one process the one remembered must be the one that was set last. One for each
    /// group, for a shard that does not answer must not keep the others waiting.
    taking: Mutex<HashMap<GroupId, Arc<tokio::sync::Mutex<()>>>>,
}

#[derive(Default)]
struct State {
    /// How others reach this process; without it nothing can be owned.
    address: Option<String>,
    on_loss: Option<OnLoss>,
    owned: HashMap<GroupId, Owned>,
    others: HashMap<GroupId, (String, Instant)>,
}

struct Owned {
    token: Bytes,
    entry: Bytes,
    renewed: Instant,
}

impl Owned {
    fn is_believed(&self) -> bool {
        self.renewed + BELIEF > Instant::now()
    }
}

impl Owners {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn introduce(&self, address: String, on_loss: OnLoss) {
        let mut state = self.state();
        state.address = Some(address);
        state.on_loss = Some(on_loss);
    }

    /// What `gen` must be for this process's commits to a group.
    pub fn generation(&self, group: &GroupId) -> Bytes {
        self.state().owned.get(group).map_or(LIVE, |owned| owned.token.clone())
    }

    fn known(&self, group: &GroupId) -> Option<Tenure> {
        let state = self.state();
        if state.owned.get(group).is_some_and(Owned::is_believed) {
            return Some(Tenure::Ours);
        }
        let (address, heard) = state.others.get(group)?;
        (*heard + HEARSAY > Instant::now()).then(|| Tenure::Theirs { address: address.clone() })
    }

    /// The lock under which a group is taken. Those that nobody holds are not kept.
    fn taking(&self, group: &GroupId) -> Arc<tokio::sync::Mutex<()>> {
        let mut taking = self.taking.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        taking.retain(|_, lock| Arc::strong_count(lock) > 1);
        Arc::clone(taking.entry(group.clone()).or_default())
    }

    /// Ends a tenure, unless another has begun since.
    fn lose(&self, group: &GroupId, token: &Bytes) {
        self.lose_if(group, |owned| owned.token == *token);
    }

    /// Until when a tenure is believed; none if it is over.
    fn believed_until(&self, group: &GroupId, token: &Bytes) -> Option<Instant> {
        let state = self.state();
        state.owned.get(group).filter(|owned| owned.token == *token).map(|owned| owned.renewed + BELIEF)
    }

    fn lose_if(&self, group: &GroupId, is_lost: impl FnOnce(&Owned) -> bool) {
        let mut state = self.state();
        let is_lost = state.owned.get(group).is_some_and(is_lost);
        let (owned, on_loss) = (is_lost.then(|| state.owned.remove(group)).flatten(), state.on_loss.clone());
        drop(state);
        if let (Some(_), Some(on_loss)) = (owned, on_loss) {
            tracing::warn!(?group, "this process does not own the group any more");
            on_loss(group.clone());
        }
    }
}

/// What a shard says of its owner.
struct Standing {
    generation: Bytes,
    entry: Bytes,
    owner: Option<Owner>,
}

impl Core {
    fn owned_shard(&self, group: &GroupId) -> Arc<Shard> {
        // A group that is owned has one shard.
        self.shard(&PartitionId { group: group.clone(), key: Bytes::new() }, 1)
    }

    pub async fn own(self: &Arc<Self>, group: &GroupId) -> Result<Tenure, Fault> {
        if let Some(tenure) = self.owners.known(group) {
            return Ok(tenure);
        }
        // Whoever had it since then may have given it back already: what is remembered from before is not true any more.
        self.owners.lose_if(group, |owned| !owned.is_believed());
        let entered = self.enter_group(group).await?;
        if entered.fenced.is_some() {
            return Ok(Tenure::Ours); // nothing can be written to it any more
        }
        let Some(address) = self.owners.state().address.clone().filter(|_| entered.shards == 1) else {
            let detail = "only a group of one shard can be owned, by a process that others can reach".into();
            return Err(Fault::Other { doing: "owning a group".into(), detail });
        };
        let shard = self.owned_shard(group);
        let taking = self.owners.taking(group);
        let Ok(_one_at_a_time) = tokio::time::timeout(self.options.deadline, taking.lock()).await else {
            let detail = "others waited for it already; nothing was done".into();
            return Err(Fault::Other { doing: "owning a group".into(), detail });
        };
        if let Some(tenure) = self.owners.known(group) {
            return Ok(tenure);
        }
        loop {
            let Some(standing) = self.standing(&shard).await? else { return Ok(Tenure::Ours) };
            if let Some(owner) = &standing.owner
                && owner.process != self.process
                && owner.until > self.now()
            {
                let address = owner.address.clone();
                self.owners.state().others.insert(group.clone(), (address.clone(), Instant::now()));
                return Ok(Tenure::Theirs { address });
            }
            if self.take(&shard, standing, &address).await? {
                return Ok(Tenure::Ours);
            }
        }
    }

    /// None if the shard is fenced.
    async fn standing(&self, shard: &Shard) -> Result<Option<Standing>, Fault> {
        loop {
            let looks = vec![Look::Attributes, Look::Keys(vec![key::owner()])];
            let seen = match self.objects.read(Pool::Records, &shard.object, looks).await {
                Ok(seen) => seen,
                Err(OpError::Missing) => match self.make_shard(shard).await? {
                    true => continue,
                    false => return Ok(None),
                },
                Err(error) => return Err(fault("reading a shard", error)),
            };
            let corrupt = || Fault::Corrupt { what: format!("the owner of {}", shard.object) };
            let [Found::Attributes(attributes), Found::Entries(entries)] = &seen.found[..] else {
                return Err(corrupt());
            };
            let generation = attributes.iter().find(|(name, _)| name == GENERATION).map(|(_, value)| value.clone());
            let generation = generation.ok_or_else(corrupt)?;
            if generation == FENCED {
                return Ok(None);
            }
            let entry = entries.first().map_or(Bytes::new(), |(_, stored)| stored.clone());
            let owner = if entry.is_empty() { None } else { Some(Owner::decode(entry.clone()).ok_or_else(corrupt)?) };
            return Ok(Some(Standing { generation, entry, owner }));
        }
    }

    fn new_entry(&self, address: &str) -> Bytes {
        Owner { process: self.process, until: self.now() + ticks(TENURE), address: address.to_owned() }.encode()
    }

    /// True if the group is this process's now; false if it must be looked at again.
    async fn take(self: &Arc<Self>, shard: &Arc<Shard>, standing: Standing, address: &str) -> Result<bool, Fault> {
        let (renewed, entry) = (Instant::now(), self.new_entry(address));
        // Never used before, by this process or any other.
        let token = Bytes::from(format!("owner-{:016x}-{}", self.process, self.hlc.draw(self.now())));
        let steps = vec![
            Step::AttributeIs { name: GENERATION, value: standing.generation },
            Compare::equal(key::owner(), standing.entry).step(),
            Step::Put(vec![(key::owner(), entry.clone())]),
            Step::SetAttribute { name: GENERATION.into(), value: token.clone() },
        ];
        match self.objects.write(Pool::Records, &shard.object, steps).await {
            Ok(_) => {}
            Err(OpError::Guard) => return Ok(false),
            Err(error) => return Err(fault("owning a group", error)),
        }
        if renewed + BELIEF <= Instant::now() {
            return Ok(false); // it took so long that others may have it again
        }
        let mut state = self.owners.state();
        state.others.remove(&shard.group);
        state.owned.insert(shard.group.clone(), Owned { token: token.clone(), entry, renewed });
        drop(state);
        tracing::info!(group = ?shard.group, "this process owns the group");
        let (core, shard) = (Arc::downgrade(self), Arc::clone(shard));
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(RENEWAL).await;
                let Some(core) = core.upgrade() else { return };
                let Some(until) = core.owners.believed_until(&shard.group, &token) else { return };
                // Whatever it waits for: it is over in time, before others take the group.
                match tokio::time::timeout_at(until, core.renew(&shard, &token)).await {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(_) => return core.owners.lose(&shard.group, &token),
                }
            }
        });
        Ok(true)
    }

    /// Renews a tenure once; false when it is over.
    async fn renew(&self, shard: &Shard, token: &Bytes) -> bool {
        loop {
            let (before, address, is_believed) = {
                let state = self.owners.state();
                let Some(owned) = state.owned.get(&shard.group).filter(|owned| owned.token == *token) else {
                    return false;
                };
                (owned.entry.clone(), state.address.clone().unwrap_or_default(), owned.is_believed())
            };
            if !is_believed {
                self.owners.lose(&shard.group, token);
                return false;
            }
            let (renewed, entry) = (Instant::now(), self.new_entry(&address));
            let steps =
                vec![Compare::equal(key::owner(), before).step(), Step::Put(vec![(key::owner(), entry.clone())])];
            match tokio::time::timeout(RENEWAL, self.objects.write(Pool::Records, &shard.object, steps)).await {
                Ok(Ok(_)) => {
                    if let Some(owned) = self.owners.state().owned.get_mut(&shard.group) {
                        (owned.entry, owned.renewed) = (entry, renewed);
                    }
                    return true;
                }
                // Another's entry, or our own of a renewal that was not answered.
                Ok(Err(OpError::Guard)) => match self.standing(shard).await {
                    Ok(Some(Standing { entry, owner: Some(owner), .. })) if owner.process == self.process => {
                        if let Some(owned) = self.owners.state().owned.get_mut(&shard.group) {
                            owned.entry = entry;
                        }
                    }
                    Ok(_) => {
                        self.owners.lose(&shard.group, token);
                        return false;
                    }
                    Err(_) => tokio::time::sleep(RETRY_PAUSE).await,
                },
                Ok(Err(OpError::Missing)) => {
                    self.owners.lose(&shard.group, token);
                    return false;
                }
                Ok(Err(_)) | Err(_) => tokio::time::sleep(RETRY_PAUSE).await,
            }
        }
    }

    /// Gives a group back, for others to take at once.
    pub async fn disown(&self, group: &GroupId) -> Result<(), Fault> {
        let owned = {
            let mut state = self.owners.state();
            state.others.remove(group);
            state.owned.remove(group)
        };
        let Some(owned) = owned else { return Ok(()) };
        let steps = vec![Compare::equal(key::owner(), owned.entry).step(), Step::Delete(vec![key::owner()])];
        match self.write_surely(Pool::Records, &self.owned_shard(group).object, steps).await {
            // Otherwise a renewal was under way: it runs out by itself.
            Ok(_) | Err(OpError::Guard | OpError::Missing) => Ok(()),
            Err(error) => Err(fault("giving a group back", error)),
        }
    }

    pub fn owned_groups(&self) -> Vec<GroupId> {
        self.owners.state().owned.keys().cloned().collect()
    }
}
