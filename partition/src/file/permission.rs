//! Permissions that a share knows: security descriptors, each kept once and named by its key, for as long as the share is there.

use contract::names::{AccountName, ShareName};
use contract::{ErrorCode, Refusal};
use engine::{Fault, PartitionId, Write};
use env::Timestamp;

use super::security::{PermissionKey, SecurityDescriptor};
use super::settings::{default_permission, permission_key};
use super::share::{self, Found};
use super::versions::Edit;
use crate::execute::{Command, Failure, Moment, Reader, Shell};
use crate::key;
use crate::record::share::Protocol;
use crate::record::{Node, ShareState, corrupt};

/// Create Permission: the key of the descriptor, which the share knows from here on.
pub async fn create(
    shell: &Shell,
    account: &AccountName,
    name: &ShareName,
    descriptor: SecurityDescriptor,
) -> Result<PermissionKey, Failure> {
    let share = find(shell, account, name).await?;
    let command = CreatePermission { partition: key::tree_partition(share.group()), descriptor };
    share.settle(shell, shell.execute(&command).await).await
}

/// Get Permission.
pub async fn read(
    shell: &Shell,
    account: &AccountName,
    name: &ShareName,
    key: PermissionKey,
) -> Result<SecurityDescriptor, Failure> {
    let share = find(shell, account, name).await?;
    match descriptor(shell, &share, key).await? {
        Some(descriptor) => Ok(descriptor),
        None => share.settle(shell, Err(ErrorCode::FileInvalidPermissionKey.into())).await,
    }
}

/// What something in a share has.
pub async fn of(shell: &Shell, share: &Found, node: &Node) -> Result<SecurityDescriptor, Failure> {
    let key = node.permission.unwrap_or(default_permission(node.is_directory()).0);
    let descriptor = descriptor(shell, share, key).await?;
    Ok(descriptor.ok_or_else(|| corrupt("a permission that its share does not know", key.to_string().as_bytes()))?)
}

async fn descriptor(shell: &Shell, share: &Found, key: PermissionKey) -> Result<Option<SecurityDescriptor>, Failure> {
    let defaults = [false, true].map(default_permission);
    if let Some((_, descriptor)) = defaults.into_iter().find(|(known, _)| *known == key) {
        return Ok(Some(descriptor.clone()));
    }
    let read = || async {
        let view = share.view(shell).await?;
        Ok::<_, Failure>(view.get(key::share::PERMISSION, &permission_key(key)).await?)
    };
    let Some(record) = share.steadily(shell, read).await? else { return Ok(None) };
    let descriptor = SecurityDescriptor::parse_binary(&record.value);
    Ok(Some(descriptor.ok_or_else(|| corrupt("a security descriptor", &record.value))?))
}

/// Files of NFS shares have owners and modes instead.
async fn find(shell: &Shell, account: &AccountName, name: &ShareName) -> Result<Found, Failure> {
    let share = share::find(shell, account, name, None).await?;
    match share.head.protocol {
        Protocol::Smb => Ok(share),
        Protocol::Nfs => Err(ErrorCode::UnsupportedShareProtocol.into()),
    }
}

struct CreatePermission {
    partition: PartitionId,
    descriptor: SecurityDescriptor,
}

impl Command for CreatePermission {
    /// Is it known already?
    type Records = bool;
    type Outcome = PermissionKey;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<bool, Fault> {
        Ok(reader.get(key::share::PERMISSION, &permission_key(self.descriptor.key())).await?.is_some())
    }

    fn check(&self, _is_known: &bool, _now: Timestamp) -> Result<(), Refusal> {
        Ok(())
    }

    fn decide(&self, is_known: bool, _moment: Moment) -> Result<(Vec<Write>, PermissionKey), Refusal> {
        if is_known {
            return Ok((Vec::new(), self.descriptor.key()));
        }
        // A permission has no past: what it is made in does not matter.
        let state = ShareState::default();
        let mut edit = Edit::new(&state);
        let key = edit.put_permission(&self.descriptor);
        Ok((edit.finish(), key))
    }
}
