//! List Containers and List Blobs, flat and by hierarchy.

use contract::names::AccountName;

use super::container::Found;
use crate::directory;
use crate::execute::{Failure, Shell};
use crate::key::container as family;
use crate::list::walk;
pub use crate::list::{Entry, Listed, Listing};
use crate::record::{BlobHead, ContainerHead};

pub async fn containers(
    shell: &Shell,
    account: &AccountName,
    listing: &Listing,
) -> Result<Listed<ContainerHead>, Failure> {
    directory::list(shell, account, listing).await
}

pub async fn blobs(shell: &Shell, container: &Found, listing: &Listing) -> Result<Listed<BlobHead>, Failure> {
    let listed = walk(shell.engine.as_ref(), &container.group, family::HEAD, listing, BlobHead::decode).await?;
    container.still_there(shell).await?;
    Ok(listed)
}
