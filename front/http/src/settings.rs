//! The properties of a service as every request needs them, at hand.
//!
//! Where others serve the same accounts, what is set there must hold here at once: a retention policy decides what is gone for good.
//!
//! 1. What is at hand is used for `FRESH` from before it was read, and no longer.
//! 2. Who changes properties commits, then rings, and answers when all who listen have forgotten theirs, or when `FRESH` is over and
//!    nobody can use any that are older.
//! 3. Who may have missed the bell uses nothing that is at hand, for nobody waits for them.
//! 4. What was read before something was forgotten is not put back after it.
//!
//! So nobody goes by what was before a change that was acknowledged. docs/decisions/0026 has the cases.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use contract::Service;
use contract::names::AccountName;
use engine::{BoxFuture, Fault};
use env::Timestamp;
use partition::record::service::ServiceProperties;
use partition::{Shell, service};
use tokio::time::{Instant, sleep};

/// So long they are kept. What this process changes holds at once.
const FRESH: Duration = Duration::from_secs(5);
/// So long whoever did not answer the bell is waited for: `FRESH`, by a clock that may be faster than theirs.
const RUN_OUT: Duration = Duration::from_secs(6);

/// How processes that serve the same accounts tell each other that properties changed.
pub trait Bell: Send + Sync {
    /// Is it possible that it rang, from now on or before, and is not heard here?
    fn is_missed(&self) -> bool;

    /// Returns when all who listen have forgotten what they had. An error, in words, if some may not have.
    fn ring(&self) -> BoxFuture<'_, Result<(), String>>;
}

#[derive(Default)]
pub struct Settings {
    slots: RwLock<HashMap<String, [Option<Slot>; 4]>>,
    /// Counts what was forgotten, so that nobody puts back what was read before it changed.
    forgotten: AtomicU64,
    /// Not set where no other process changes them.
    bell: OnceLock<Arc<dyn Bell>>,
}

#[derive(Clone)]
struct Slot {
    /// By the clock that requests are judged by, which may stand still.
    read_at: Timestamp,
    /// By a steady one, which others count on.
    begun: Instant,
    properties: Arc<ServiceProperties>,
}

impl Settings {
    /// From here on others are told of changes, and heard. Set once.
    pub fn set_bell(&self, bell: Arc<dyn Bell>) {
        let _ = self.bell.set(bell); // the first one stays
    }

    pub async fn of(
        &self,
        shell: &Shell,
        account: &AccountName,
        service: Service,
        now: Timestamp,
    ) -> Result<Arc<ServiceProperties>, Fault> {
        let is_kept = match self.bell.get() {
            Some(bell) => !bell.is_missed(),
            // Others whom nobody hears of.
            None => shell.tenures().is_none(),
        };
        if !is_kept {
            return service::properties(shell, account, service).await.map(Arc::new);
        }
        let begun = Instant::now();
        if let Some(slot) = self.slot(account, service)
            && slot.read_at <= now
            && now < slot.read_at.plus_seconds(FRESH.as_secs())
            && (self.bell.get().is_none() || begun - slot.begun < FRESH)
        {
            return Ok(slot.properties);
        }
        let forgotten = self.forgotten.load(Ordering::SeqCst);
        let properties = Arc::new(service::properties(shell, account, service).await?);
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        if self.forgotten.load(Ordering::SeqCst) == forgotten {
            let slot = Slot { read_at: now, begun, properties: properties.clone() };
            slots.entry(account.as_str().to_string()).or_default()[service as usize] = Some(slot);
        }
        Ok(properties)
    }

    fn slot(&self, account: &AccountName, service: Service) -> Option<Slot> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        slots.get(account.as_str())?[service as usize].clone()
    }

    /// They changed: whoever asks from here on reads anew.
    pub fn forget(&self) {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        slots.clear();
    }

    /// The change is committed. Returns when nobody goes by what was before.
    pub async fn announce(&self) {
        self.forget();
        let Some(bell) = self.bell.get() else { return };
        let mut run_out = std::pin::pin!(sleep(RUN_OUT));
        tokio::select! {
            rung = bell.ring() => {
                if let Err(error) = rung {
                    tracing::warn!(%error, "waiting until properties that were at hand there are not used any more");
                    run_out.await;
                }
            }
            () = &mut run_out => tracing::warn!("not all gateways answered that properties changed; theirs have run out by now"),
        }
    }
}

#[cfg(test)]
mod tests;
