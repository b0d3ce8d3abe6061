//! Shares: found, as they are or as a snapshot saw them. What all named things share is in `directory`.

use bytes::{BufMut, Bytes, BytesMut};
use contract::names::{AccountName, ShareName};
use contract::{ErrorCode, Service};
use engine::{Fault, GroupId};
use env::{Id, Timestamp};

use super::versions::At;
use crate::directory::{self, Named};
use crate::execute::{Failure, Shell};
use crate::key;
use crate::record::{ShareHead, ShareSnapshot};

impl Named for ShareHead {
    const SERVICE: Service = Service::File;
    const NOT_FOUND: ErrorCode = ErrorCode::ShareNotFound;

    fn incarnation(&self) -> Id {
        self.incarnation
    }

    fn encode(&self) -> Bytes {
        self.encode()
    }

    fn decode(value: &[u8]) -> Result<Self, Fault> {
        Self::decode(value)
    }
}

/// A share as a request found it. Every operation on what is in it begins here.
pub struct Found {
    named: directory::Found<ShareHead>,
    /// The share, or the snapshot of it.
    pub head: ShareHead,
    /// Which state of its tree is asked for.
    pub at: At,
}

impl Found {
    /// Where its tree is.
    pub fn group(&self) -> &GroupId {
        &self.named.group
    }

    /// A refusal counts only if the share is still the one that was found.
    pub async fn settle<T>(&self, shell: &Shell, result: Result<T, Failure>) -> Result<T, Failure> {
        self.named.settle(shell, result).await
    }
}

/// The share, or the snapshot of it that was taken at this moment.
pub async fn find(
    shell: &Shell,
    account: &AccountName,
    name: &ShareName,
    snapshot: Option<Timestamp>,
) -> Result<Found, Failure> {
    let named: directory::Found<ShareHead> = directory::find(shell, account, name.as_str()).await?;
    let Some(taken) = snapshot else {
        return Ok(Found { head: named.head.clone(), named, at: At::Now });
    };
    let partition = key::named_partition(Service::File, account, name.as_str());
    let key = snapshot_key(named.head.incarnation, taken);
    let record = shell.engine.view(&partition).await?.get(key::directory::SNAPSHOT, &key).await?;
    let record = record.ok_or(ErrorCode::ShareSnapshotNotFound)?;
    let ShareSnapshot { head, generation } = ShareSnapshot::decode(&record.value)?;
    Ok(Found { head, named, at: At::Generation(generation) })
}

pub fn snapshot_key(incarnation: Id, taken: Timestamp) -> Bytes {
    let mut key = BytesMut::with_capacity(24);
    key.put_u128(incarnation.0);
    key.put_u64(taken.ticks());
    key.freeze()
}
