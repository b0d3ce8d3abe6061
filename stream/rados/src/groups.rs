//! Which groups there are and how many shards each has: data, so that a group keeps the number it was made with.
//!
//! 1. A group is entered in the registry before its first commit, a shard object is made before the first commit to it.
//! 2. A fence is entered in the registry first and then set on every shard, made for that if need be. So a process that knows the
//!    group from before finds the fence on the shard, and one that makes a shard either makes it before the fence reaches it or
//!    finds it made.
//! 3. A fenced group stays in the registry, and its shards stay as empty objects, far longer than an operation can be under way.
//!    Whoever comes later finds nothing that would let it make the group again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use engine::{Fault, GroupId, PartitionId};
use librados::{Look, OpError, Order, Pool, Step};

use crate::shard::Shard;
use crate::value::Group;
use crate::{Core, fault, key};

/// The attribute of a shard that every commit is guarded by.
pub const GENERATION: &str = "gen";
pub const LIVE: Bytes = Bytes::from_static(b"live");
pub const FENCED: Bytes = Bytes::from_static(b"fenced");

/// Lists the fenced groups that are not swept yet.
pub const FENCED_GROUPS: &str = "fenced";
/// Lists those that are, until they are forgotten.
pub const SWEPT_GROUPS: &str = "swept";

/// How many groups are remembered, and how many shards.
const KNOWN_MAX: usize = 100_000;

#[derive(Default)]
pub struct Known {
    groups: Mutex<HashMap<GroupId, u16>>,
    shards: Mutex<HashMap<String, Arc<Shard>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Core {
    /// What the registry says of a group.
    pub async fn find_group(&self, id: &GroupId) -> Result<Option<Group>, Fault> {
        if let Some(shards) = lock(&self.known.groups).get(id) {
            return Ok(Some(Group { shards: *shards, fenced: None }));
        }
        let found = self.read_group(id).await?;
        if let Some(Group { shards, fenced: None }) = found {
            let mut known = lock(&self.known.groups);
            if known.len() >= KNOWN_MAX {
                known.clear();
            }
            known.insert(id.clone(), shards);
        }
        Ok(found)
    }

    /// The same, straight from the cluster.
    async fn read_group(&self, id: &GroupId) -> Result<Option<Group>, Fault> {
        let stored = self.entry(&key::registry_of(id), key::group(id)).await?;
        stored.map(|stored| Group::decode(&stored).ok_or_else(|| corrupt_group(id))).transpose()
    }

    /// One entry of an object, if both are there.
    pub async fn entry(&self, object: &str, key: Bytes) -> Result<Option<Bytes>, Fault> {
        match self.objects.read(Pool::Records, object, vec![Look::Keys(vec![key])]).await {
            Ok(seen) => Ok(crate::entries(seen, 0)?.pop().map(|(_, value)| value)),
            Err(OpError::Missing) => Ok(None),
            Err(error) => Err(fault(format!("reading {object}"), error)),
        }
    }

    /// The group as it is entered, entering it if it is new.
    pub async fn enter_group(&self, id: &GroupId) -> Result<Group, Fault> {
        if let Some(found) = self.find_group(id).await? {
            return Ok(found);
        }
        let shards = (self.options.shards)(id).max(1);
        self.exchange_group(id, None, Group { shards, fenced: None }).await?;
        // Whoever was first is right.
        self.find_group(id).await?.ok_or_else(|| corrupt_group(id))
    }

    /// Replaces what the registry says, if it still says what is expected. Whether it did must be read.
    async fn exchange_group(&self, id: &GroupId, expected: Option<Group>, new: Group) -> Result<(), Fault> {
        let (object, key) = (key::registry_of(id), key::group(id));
        let value = expected.map_or(Bytes::new(), Group::encode);
        let steps =
            vec![Step::Compare { key: key.clone(), order: Order::Equal, value }, Step::Put(vec![(key, new.encode())])];
        loop {
            match self.write_surely(Pool::Records, &object, steps.clone()).await {
                Ok(_) | Err(OpError::Guard) => return Ok(()),
                Err(OpError::Missing) => self.make_object(&object).await?,
                Err(error) => return Err(fault("entering a group", error)),
            }
        }
    }

    pub async fn make_object(&self, object: &str) -> Result<(), Fault> {
        let made = self.write_surely(Pool::Records, object, vec![Step::Create { exclusive: false }]).await;
        made.map(drop).map_err(|error| fault(format!("making {object}"), error))
    }

    /// Makes a shard of a group that is not fenced. False if it is fenced.
    pub async fn make_shard(&self, shard: &Shard) -> Result<bool, Fault> {
        let found = self.read_group(&shard.group).await?;
        if found.is_none_or(|group| group.fenced.is_some()) {
            return Ok(false);
        }
        let steps = vec![Step::Create { exclusive: true }, Step::SetAttribute { name: GENERATION.into(), value: LIVE }];
        match self.write_surely(Pool::Records, &shard.object, steps).await {
            Ok(_) | Err(OpError::Exists) => Ok(true),
            Err(error) => Err(fault("making a shard", error)),
        }
    }

    /// The shard of a partition in a group of so many.
    pub fn shard(&self, partition: &PartitionId, shards: u16) -> Arc<Shard> {
        let object = key::shard_object(&partition.group, key::shard_of(&partition.key, shards));
        let mut known = lock(&self.known.shards);
        if known.len() >= KNOWN_MAX {
            known.retain(|_, shard| Arc::strong_count(shard) > 1);
        }
        let shard =
            known.entry(object.clone()).or_insert_with(|| Arc::new(Shard::new(partition.group.clone(), object)));
        Arc::clone(shard)
    }

    pub async fn fence(&self, id: &GroupId) -> Result<(), Fault> {
        let now = self.now();
        // First on the list of what is to be swept, so that a crash on the way leaves nothing behind.
        self.put_listed(FENCED_GROUPS, vec![(key::group(id), crate::value::number(now))]).await?;
        let group = loop {
            match self.read_group(id).await? {
                Some(group) if group.fenced.is_some() => break group,
                found => {
                    let shards = found.map_or_else(|| (self.options.shards)(id).max(1), |group| group.shards);
                    self.exchange_group(id, found, Group { shards, fenced: Some(now.max(1)) }).await?;
                }
            }
        };
        lock(&self.known.groups).remove(id);
        self.fence_shards(id, group.shards).await
    }

    /// Sets the fence on every shard of a group that is fenced by the registry.
    pub async fn fence_shards(&self, id: &GroupId, shards: u16) -> Result<(), Fault> {
        for shard in 0..shards {
            let steps =
                vec![Step::Create { exclusive: false }, Step::SetAttribute { name: GENERATION.into(), value: FENCED }];
            let set = self.write_surely(Pool::Records, &key::shard_object(id, shard), steps).await;
            set.map_err(|error| fault("fencing a shard", error))?;
        }
        Ok(())
    }

    /// Puts entries into an object that is only a list, making it if need be.
    pub async fn put_listed(&self, object: &str, entries: Vec<(Bytes, Bytes)>) -> Result<(), Fault> {
        let steps = vec![Step::Create { exclusive: false }, Step::Put(entries)];
        let put = self.write_surely(Pool::Records, object, steps).await;
        put.map(drop).map_err(|error| fault(format!("adding to {object}"), error))
    }

    /// A write that may be applied twice: tried again for as long as nobody knows what became of it.
    pub async fn write_surely(&self, pool: Pool, object: &str, steps: Vec<Step>) -> Result<u64, OpError> {
        let deadline = tokio::time::Instant::now() + self.options.deadline;
        loop {
            match self.objects.write(pool, object, steps.clone()).await {
                Err(OpError::Unknown { .. }) if tokio::time::Instant::now() < deadline => {
                    tokio::time::sleep(crate::RETRY_PAUSE).await;
                }
                outcome => return outcome,
            }
        }
    }
}

fn corrupt_group(id: &GroupId) -> Fault {
    Fault::Corrupt { what: format!("the registry's entry of group {id:?}") }
}
