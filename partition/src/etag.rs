//! ETags and the ticks they are made of.
//!
//! Last-Modified has whole seconds, so it cannot tell two writes of one second apart; an ETag must. An ETag is a number of
//! 100 ns ticks that only grows: a write takes `max(tick drawn, old tick + 1)`, and ticks drawn by one process never repeat and
//! never go back, across restarts and clock jumps as well. For that a ceiling is kept in the engine, always ahead of every tick
//! handed out; a restart begins at the ceiling. An engine that several processes share draws ticks itself, by the partitions'
//! revisions, and no ceiling is kept.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use engine::{Batch, CommitError, Durability, Engine, Family, Fault, Guard, PartitionId, Write};
use env::{TICKS_PER_SECOND, Timestamp};

use crate::key;
use crate::record::corrupt;

/// The version of a stored object, printed as the services do: `0x8D6D418B6C08663`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ETag(pub u64);

impl ETag {
    /// The ETag of a write: newer than the one it replaces, even when the clock says otherwise.
    pub fn next(old: Option<ETag>, drawn_tick: u64) -> ETag {
        ETag(old.map_or(drawn_tick, |old| drawn_tick.max(old.0 + 1)))
    }

    /// As it stands in the `ETag` header.
    pub fn quoted(self) -> String {
        let digits = (64 - self.0.leading_zeros()).div_ceil(4).max(1);
        let mut text = String::with_capacity(20);
        text.push_str("\"0x");
        text.extend((0..digits).rev().map(|place| b"0123456789ABCDEF"[(self.0 >> (4 * place)) as usize & 0xf] as char));
        text.push('"');
        text
    }
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:X}", self.0)
    }
}

/// How far ahead of the ticks in use the ceiling is kept. A crash skips at most this many ticks.
const AHEAD_TICKS: u64 = 60 * TICKS_PER_SECOND;

/// Hands out ticks.
pub(crate) enum Ticks {
    /// The engine draws them.
    Engine,
    Kept(KeptTicks),
}

impl Ticks {
    pub async fn open(engine: &dyn Engine, now: Timestamp) -> Result<Ticks, Fault> {
        match engine.draw_tick(now.ticks()) {
            Some(_) => Ok(Ticks::Engine),
            None => Ok(Ticks::Kept(KeptTicks::open(engine, now).await?)),
        }
    }

    /// A tick no smaller than `now` and greater than every one drawn before.
    pub async fn draw(&self, engine: &dyn Engine, now: Timestamp) -> Result<u64, Fault> {
        match self {
            Ticks::Engine => engine.draw_tick(now.ticks()).ok_or_else(|| Fault::Other {
                doing: "drawing a tick".into(),
                detail: "the engine did so before and does not any more".into(),
            }),
            Ticks::Kept(kept) => kept.draw(engine, now).await,
        }
    }
}

/// Ticks under a ceiling.
pub(crate) struct KeptTicks {
    last: AtomicU64,
    ceiling: AtomicU64,
    raising: tokio::sync::Mutex<()>,
}

impl KeptTicks {
    const FAMILY: Family = key::system::CEILING;

    fn partition() -> PartitionId {
        PartitionId { group: key::system_group(), key: Bytes::from_static(b"ticks") }
    }

    async fn open(engine: &dyn Engine, now: Timestamp) -> Result<KeptTicks, Fault> {
        let (ceiling, _) = Self::stored(engine).await?;
        let start = now.ticks().max(ceiling);
        let ticks =
            KeptTicks { last: AtomicU64::new(start), ceiling: AtomicU64::new(ceiling), raising: Default::default() };
        ticks.raise(engine, start).await?;
        Ok(ticks)
    }

    async fn draw(&self, engine: &dyn Engine, now: Timestamp) -> Result<u64, Fault> {
        let next = |last: u64| now.ticks().max(last + 1);
        let before = self.last.fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| Some(next(last)));
        let tick = next(before.unwrap_or_else(|last| last));
        if tick >= self.ceiling.load(Ordering::Acquire) {
            self.raise(engine, tick).await?;
        }
        Ok(tick)
    }

    async fn raise(&self, engine: &dyn Engine, tick: u64) -> Result<(), Fault> {
        let _one_at_a_time = self.raising.lock().await;
        if tick < self.ceiling.load(Ordering::Acquire) {
            return Ok(());
        }
        // Another process may have raised it meanwhile: it never goes down.
        loop {
            let (stored, guard) = Self::stored(engine).await?;
            let ceiling = stored.max(tick + AHEAD_TICKS);
            let value = Bytes::copy_from_slice(&ceiling.to_be_bytes());
            let write = Write::Put { family: Self::FAMILY, key: Bytes::new(), value, slices: Vec::new() };
            match engine
                .commit(&Self::partition(), Batch { guards: vec![guard], writes: vec![write] }, Durability::Synced)
                .await
            {
                Ok(_) => {
                    self.ceiling.fetch_max(ceiling, Ordering::AcqRel);
                    return Ok(());
                }
                Err(CommitError::Conflict) => {}
                Err(CommitError::Fault(fault)) => return Err(fault),
                Err(CommitError::Fenced) => return Err(Fault::Corrupt { what: "the system group is fenced".into() }),
            }
        }
    }

    async fn stored(engine: &dyn Engine) -> Result<(u64, Guard), Fault> {
        let (family, key) = (Self::FAMILY, Bytes::new());
        match engine.view(&Self::partition()).await?.get(family, &key).await? {
            None => Ok((0, Guard::Absent { family, key })),
            Some(record) => {
                let bytes: [u8; 8] =
                    record.value.as_ref().try_into().map_err(|_| corrupt("the ceiling of ticks", &record.value))?;
                Ok((u64::from_be_bytes(bytes), Guard::At { family, key, revision: record.revision }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_with_every_write() {
        assert_eq!(ETag::next(None, 100), ETag(100));
        assert_eq!(ETag::next(Some(ETag(7)), 100), ETag(100));
        assert_eq!(ETag::next(Some(ETag(100)), 100), ETag(101));
        assert_eq!(ETag::next(Some(ETag(5000)), 100), ETag(5001));
    }

    #[test]
    fn prints_as_the_service_does() {
        assert_eq!(ETag(0x8D6D418B6C08663).quoted(), "\"0x8D6D418B6C08663\"");
    }
}
