//! A cluster in memory that keeps what `librados` says of the real one, and does on demand what a real one does on bad days:
//! operations that are lost, applied without an answer, or applied long after everybody stopped waiting.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use librados::{BoxFuture, Found, Look, Objects, OpError, Order, Pool, Seen, Step};

#[derive(Clone, Default)]
struct Object {
    version: u64,
    bytes: Bytes,
    attributes: BTreeMap<String, Bytes>,
    entries: BTreeMap<Bytes, Bytes>,
}

type Holds = Box<dyn FnMut(&str) -> bool + Send>;
type Fates = Box<dyn FnMut(&str, &[Step]) -> Fate + Send>;

#[derive(Default)]
struct State {
    objects: HashMap<(Pool, String), Object>,
    version: u64,
    /// Decides what becomes of each write.
    fate: Option<Fates>,
    /// Decides which reads wait until `release_reads` is called.
    hold: Option<Holds>,
    /// Writes that are applied when `deliver` is called.
    late: Vec<(Pool, String, Vec<Step>)>,
    writes: u64,
    reads: u64,
}

/// What becomes of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    Applied,
    /// Applied, and the answer is lost.
    Unanswered,
    /// Neither applied nor answered.
    Lost,
    /// Not answered, and applied when `deliver` is called.
    Late,
    Full,
}

/// Entries that one scan gives at most, as a cluster has such a limit.
const RANGE_ENTRIES_MAX: u64 = 1024;

#[derive(Clone, Default)]
pub struct Fake(Arc<Mutex<State>>);

impl Fake {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn set_fate(&self, fate: impl FnMut(&str, &[Step]) -> Fate + Send + 'static) {
        self.state().fate = Some(Box::new(fate));
    }

    pub fn clear_fate(&self) {
        self.state().fate = None;
    }

    pub fn hold_reads(&self, hold: impl FnMut(&str) -> bool + Send + 'static) {
        self.state().hold = Some(Box::new(hold));
    }

    pub fn release_reads(&self) {
        self.state().hold = None;
    }

    /// Applies what was late, as far as its guards still hold.
    pub fn deliver(&self) {
        let mut state = self.state();
        for (pool, object, steps) in std::mem::take(&mut state.late) {
            let _ = state.apply(pool, &object, &steps);
        }
    }

    /// How many operations were asked for: writes and reads.
    pub fn operations(&self) -> (u64, u64) {
        let state = self.state();
        (state.writes, state.reads)
    }

    /// The names of all objects that begin so.
    pub fn names(&self, prefix: &str) -> Vec<String> {
        let mut names: Vec<_> = self
            .state()
            .objects
            .keys()
            .filter(|(_, name)| name.starts_with(prefix))
            .map(|(_, name)| name.clone())
            .collect();
        names.sort();
        names
    }

    /// The keys with this first byte, in all objects whose names begin so.
    pub fn entries(&self, prefix: &str, first: u8) -> Vec<Bytes> {
        let state = self.state();
        let objects = state.objects.iter().filter(|((_, name), _)| name.starts_with(prefix)).map(|(_, object)| object);
        let keys = objects.flat_map(|object| object.entries.keys());
        keys.filter(|key| key.first() == Some(&first)).cloned().collect()
    }

    /// Changes stored bytes behind everybody's back.
    pub fn damage(&self, object: &str, at: usize) {
        let mut state = self.state();
        let found = state.objects.iter_mut().find(|((_, name), _)| name == object).expect("the object is there").1;
        let mut bytes = found.bytes.to_vec();
        bytes[at] ^= 1;
        found.bytes = bytes.into();
    }
}

impl State {
    fn apply(&mut self, pool: Pool, name: &str, steps: &[Step]) -> Result<u64, OpError> {
        let id = (pool, name.to_string());
        let before = self.objects.get(&id);
        for step in steps {
            judge(before, step)?;
        }
        let mut object = before.cloned().unwrap_or_default();
        self.version += 1;
        object.version = self.version;
        let mut removed = false;
        for step in steps {
            removed |= matches!(step, Step::Remove);
            change(&mut object, step);
        }
        if removed {
            self.objects.remove(&id);
        } else {
            self.objects.insert(id, object);
        }
        Ok(self.version)
    }
}

fn judge(before: Option<&Object>, step: &Step) -> Result<(), OpError> {
    let holds = match step {
        Step::Exists | Step::Remove => return before.map(|_| ()).ok_or(OpError::Missing),
        Step::Create { exclusive: true } if before.is_some() => return Err(OpError::Exists),
        Step::Version(version) => before.ok_or(OpError::Missing)?.version == *version,
        Step::AttributeIs { name, value } => {
            before.ok_or(OpError::Missing)?.attributes.get(*name).map_or(b"".as_slice(), |found| found) == value
        }
        Step::Compare { key, order, value } => {
            let is_ordered = *order == Order::Equal || value.iter().all(|byte| *byte < 0x80);
            assert!(is_ordered, "OSDs take bytes above 0x7f for negative when they compare by order");
            let found = before.ok_or(OpError::Missing)?.entries.get(key).map_or(b"".as_slice(), |found| found);
            match order {
                Order::Equal => found == value,
                Order::Less => found < value.as_ref(),
                Order::Greater => found > value.as_ref(),
            }
        }
        _ => true,
    };
    if holds { Ok(()) } else { Err(OpError::Guard) }
}

fn change(object: &mut Object, step: &Step) {
    match step {
        Step::SetAttribute { name, value } => drop(object.attributes.insert(name.clone(), value.clone())),
        Step::RemoveAttribute { name } => drop(object.attributes.remove(name)),
        Step::Put(entries) => {
            for (key, value) in entries {
                assert!(!key.contains(&0), "keys hold no zero byte");
                object.entries.insert(key.clone(), value.clone());
            }
        }
        Step::Delete(keys) => keys.iter().for_each(|key| drop(object.entries.remove(key))),
        Step::WriteAll(bytes) => object.bytes = bytes.clone(),
        _ => {}
    }
}

fn look(object: &Object, step: &Look) -> Found {
    match step {
        Look::Keys(keys) => Found::Entries(
            keys.iter().filter_map(|key| Some((key.clone(), object.entries.get(key)?.clone()))).collect(),
        ),
        Look::Range { after, prefix, limit } => {
            let limit = (*limit).min(RANGE_ENTRIES_MAX) as usize;
            let mut rest = object
                .entries
                .range::<Bytes, _>((std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded))
                .skip_while(|(key, _)| key < &prefix)
                .take_while(|(key, _)| key.starts_with(prefix));
            let entries = rest.by_ref().take(limit).map(|(key, value)| (key.clone(), value.clone())).collect();
            Found::Page { entries, more: rest.next().is_some() }
        }
        Look::Bytes { offset, bytes } => {
            let start = (*offset as usize).min(object.bytes.len());
            Found::Bytes(object.bytes.slice(start..(start + bytes).min(object.bytes.len())))
        }
        Look::Attributes => Found::Attributes(object.attributes.clone().into_iter().collect()),
    }
}

impl Objects for Fake {
    fn write(&self, pool: Pool, object: &str, steps: Vec<Step>) -> BoxFuture<'static, Result<u64, OpError>> {
        let (fake, object) = (self.clone(), object.to_string());
        Box::pin(async move {
            // Others come between, as they do on the way to a cluster.
            tokio::task::yield_now().await;
            let mut state = fake.state();
            state.writes += 1;
            let fate = state.fate.as_mut().map_or(Fate::Applied, |fate| fate(&object, &steps));
            let unknown = || OpError::Unknown { why: "no answer came".into() };
            match fate {
                Fate::Applied => state.apply(pool, &object, &steps),
                Fate::Unanswered => {
                    let _ = state.apply(pool, &object, &steps);
                    Err(unknown())
                }
                Fate::Lost => Err(unknown()),
                Fate::Late => {
                    state.late.push((pool, object, steps));
                    Err(unknown())
                }
                Fate::Full => Err(OpError::Full),
            }
        })
    }

    fn read(&self, pool: Pool, object: &str, steps: Vec<Look>) -> BoxFuture<'static, Result<Seen, OpError>> {
        let (fake, id) = (self.clone(), (pool, object.to_string()));
        Box::pin(async move {
            tokio::task::yield_now().await;
            let is_held = fake.state().hold.as_mut().is_some_and(|hold| hold(&id.1));
            while is_held && fake.state().hold.is_some() {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            let mut state = fake.state();
            state.reads += 1;
            let object = state.objects.get(&id).ok_or(OpError::Missing)?;
            Ok(Seen { version: object.version, found: steps.iter().map(|step| look(object, step)).collect() })
        })
    }
}
