//! Shares that other gateways serve as well: what this one brings back when it becomes the owner of a share, and forgets when it is that
//! no more. docs/decisions/0021.

use std::sync::Arc;

use contract::names::{AccountName, ShareName};
use engine::{BoxFuture, Fault, GroupId};
use partition::file::handle::Error;
use partition::file::share;
use partition::file::tenure::{Claim, Keeper, Taken};

use crate::server::Server;
use crate::status::Status;

impl Server {
    /// Makes a share this gateway's for a client that connects to it. Nothing to keep where all shares are.
    pub async fn take(
        &self,
        account: &AccountName,
        name: &ShareName,
        share: &share::Found,
    ) -> Result<Option<Claim>, Status> {
        let Some(tenures) = self.shell.tenures() else { return Ok(None) };
        match tenures.take(account, name, share).await.map_err(Error::Fault)? {
            Taken::Ours(claim) => Ok(Some(claim)),
            Taken::Theirs { address } => {
                let (account, share) = (account.as_str(), name.as_str());
                tracing::warn!(account, share, owner = address, "a client is refused: another gateway needs the share");
                Err(Status::SHARE_UNAVAILABLE)
            }
        }
    }
}

impl Keeper for Server {
    fn restore<'a>(
        &'a self,
        account: &'a AccountName,
        name: &'a ShareName,
        share: &'a share::Found,
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            let Some(own) = self.this() else { return Ok(()) };
            let restored = own.restore_share(account, share.head.incarnation).await?;
            if restored > 0 {
                tracing::info!(share = name.as_str(), restored, "handles wait for their SMB clients");
            }
            Ok(())
        })
    }

    /// Whoever is connected has claimed it. Persistent opens that wait for their clients are records, and found again elsewhere.
    fn is_needed(&self, group: &GroupId) -> bool {
        self.durables.of_share(group).iter().any(|open| !open.is_persistent())
    }

    fn drop_share(&self, group: &GroupId) {
        let opens = self.sessions().into_iter().flat_map(|session| session.leave_share(group));
        let opens: Vec<Arc<_>> = opens.chain(self.durables.of_share(group)).collect();
        opens.iter().for_each(|open| open.vanish(self));
    }
}
