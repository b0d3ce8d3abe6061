//! Persistent handles: kept as records, so that a client finds its own again after the program was started anew.

use bytes::Bytes;
use contract::names::AccountName;
use engine::{Fault, KeyRange, PartitionId, Write};

use super::Error;
use crate::execute::{Blind, Failure, Shell};
use crate::file::opens::Closed;
use crate::key;
use crate::record::handle::KeptHandle;

/// Handles read at once.
const AT_ONCE: usize = 256;

/// Writes a handle down, under the lasting half of its id.
pub async fn keep(shell: &Shell, account: &AccountName, id: u64, handle: &KeptHandle) -> Result<(), Error> {
    let (family, value, slices) = (key::HANDLE, handle.encode(), Vec::new());
    Ok(note(shell, account, Write::Put { family, key: handle_key(id), value, slices }).await?)
}

/// It is closed, or cannot be found again.
pub async fn forget(shell: &Shell, account: &AccountName, id: u64) -> Result<(), Fault> {
    note(shell, account, crossed_out(id)).await
}

/// The same for handles that others than their clients closed.
pub async fn forget_closed(shell: &Shell, account: &AccountName, closed: &[Closed]) -> Result<(), Failure> {
    for id in closed.iter().filter_map(|closed| closed.handle.opening.kept_as) {
        note(shell, account, crossed_out(id)).await?;
    }
    Ok(())
}

/// All that an account's clients may come back to.
pub async fn all(shell: &Shell, account: &AccountName) -> Result<Vec<(u64, KeptHandle)>, Fault> {
    let partition = key::handles_partition(account);
    shell.steadily(&partition, || all_in(shell, &partition)).await
}

async fn all_in(shell: &Shell, partition: &PartitionId) -> Result<Vec<(u64, KeptHandle)>, Fault> {
    let view = shell.engine.view(partition).await?;
    let mut found = Vec::new();
    let mut range = KeyRange { start: std::ops::Bound::Unbounded, end: std::ops::Bound::Unbounded };
    loop {
        let page = view.scan(key::HANDLE, &range, AT_ONCE).await?;
        let Some((last, _)) = page.last() else { return Ok(found) };
        range.start = std::ops::Bound::Excluded(last.clone());
        for (key, record) in page {
            let id = key.as_ref().try_into().map(u64::from_be_bytes);
            let id = id.map_err(|_| crate::record::corrupt("the key of a handle", &key))?;
            found.push((id, KeptHandle::decode(&record.value)?));
        }
    }
}

fn handle_key(id: u64) -> Bytes {
    Bytes::copy_from_slice(&id.to_be_bytes())
}

fn crossed_out(id: u64) -> Write {
    Write::Delete { family: key::HANDLE, key: handle_key(id) }
}

/// Nothing refuses it; an account that is gone has nothing to be noted.
async fn note(shell: &Shell, account: &AccountName, write: Write) -> Result<(), Fault> {
    match shell.execute(&Blind { partition: key::handles_partition(account), writes: vec![write] }).await {
        Err(Failure::Fault(fault)) => Err(fault),
        _ => Ok(()),
    }
}
