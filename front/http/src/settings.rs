//! The properties of a service as every request needs them: at hand where this process alone changes them, and read with every request
//! where others serve the same accounts. What is set there must hold here at once: a retention policy decides what is gone for good.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use contract::Service;
use contract::names::AccountName;
use engine::Fault;
use env::Timestamp;
use partition::record::service::ServiceProperties;
use partition::{Shell, service};

/// So long they are kept. What this process changes holds at once.
const FRESH_SECONDS: u64 = 5;

#[derive(Default)]
pub struct Settings {
    slots: RwLock<HashMap<String, [Option<Slot>; 4]>>,
    /// Counts what was forgotten, so that nobody puts back what was read before it changed.
    forgotten: AtomicU64,
}

#[derive(Clone)]
struct Slot {
    read_at: Timestamp,
    properties: Arc<ServiceProperties>,
}

impl Settings {
    pub async fn of(
        &self,
        shell: &Shell,
        account: &AccountName,
        service: Service,
        now: Timestamp,
    ) -> Result<Arc<ServiceProperties>, Fault> {
        if shell.tenures().is_some() {
            return service::properties(shell, account, service).await.map(Arc::new);
        }
        if let Some(slot) = self.slot(account, service)
            && slot.read_at <= now
            && now < slot.read_at.plus_seconds(FRESH_SECONDS)
        {
            return Ok(slot.properties);
        }
        let forgotten = self.forgotten.load(Ordering::SeqCst);
        let properties = Arc::new(service::properties(shell, account, service).await?);
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        if self.forgotten.load(Ordering::SeqCst) == forgotten {
            let slot = Slot { read_at: now, properties: properties.clone() };
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
}
