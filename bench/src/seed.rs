//! Fills a data directory with many blobs in little time: through the rules and the engine as they are, without HTTP, and
//! synced once at the end instead of with every put. What it leaves is what as many Put Blob requests would have left.

use std::{ops::Range, path::Path, sync::Arc};

use bytes::Bytes;
use contract::{
    ApiVersion, ErrorCode, OperationId, Service,
    names::{AccountName, BlobName, ContainerName, Metadata},
};
use embedded::{Durability, Embedded};
use env::{SystemClock, SystemIds};
use partition::{
    Conditions, Content, Failure as Undone, Shell,
    blob::{
        block::PutBlob,
        container::{self, CreateContainer},
        state::{Attributes, Keeping},
    },
    checks::Expectation,
    record::{BlobKind, PublicAccess},
};
use tokio::task::JoinSet;

use crate::load::Failure;
use crate::request::ACCOUNT;

pub const CONTAINER: &str = "seeded";
/// Most blobs have this many bytes, which are kept with their records.
pub const SMALL_BYTES: usize = 256;
/// One blob of so many has a body in a segment file.
const LARGE_EVERY: u64 = 100;
pub const LARGE_BYTES: usize = 16 * 1024;
/// Puts in flight: as many as share a commit.
const TASKS: u64 = 256;

/// Puts the blobs of these numbers into a directory that no server has open.
pub async fn blobs(directory: &Path, numbers: Range<u64>) -> Result<(), Failure> {
    let options = embedded::Options { durability: Durability::Relaxed, ..embedded::Options::new(directory) };
    let engine = tokio::task::spawn_blocking(|| Embedded::open(options)).await??;
    let shell = Arc::new(Shell::open(engine.clone(), Arc::new(SystemClock), Arc::new(SystemIds::new())).await?);
    let account = AccountName::parse(ACCOUNT).ok_or("the account's name is well formed")?;
    let name = ContainerName::parse(CONTAINER).map_err(said)?;
    let create = CreateContainer::new(&account, &name, Metadata::default(), PublicAccess::Nobody);
    match shell.execute(&create).await {
        Ok(_) => {}
        Err(Undone::Refused(refusal)) if refusal.code == ErrorCode::ContainerAlreadyExists => {}
        Err(failure) => return Err(said(failure)),
    }
    let group = container::find(&shell, &account, &name).await.map_err(said)?.group;

    let mut tasks = JoinSet::new();
    for first in 0..TASKS {
        let (shell, group, numbers) = (shell.clone(), group.clone(), numbers.clone());
        tasks.spawn(async move {
            for number in numbers.skip(first as usize).step_by(TASKS as usize) {
                let blob = BlobName::parse(&name_of(number)).map_err(said)?;
                let mut put = PutBlob::new(
                    &group,
                    &blob,
                    unconditional(),
                    BlobKind::Block,
                    Attributes::default(),
                    Keeping::default(),
                    true,
                );
                put.content = content(&shell, number).await?;
                shell.execute(&put).await.map_err(said)?;
            }
            Ok::<_, Failure>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    drop(shell);
    tokio::task::spawn_blocking(move || engine.close()).await??;
    Ok(())
}

/// In the order of their numbers: what comes in order need not be merged again and again.
pub fn name_of(number: u64) -> String {
    format!("blob-{number:09}")
}

pub fn bytes_of(number: u64) -> usize {
    if number.is_multiple_of(LARGE_EVERY) { LARGE_BYTES } else { SMALL_BYTES }
}

async fn content(shell: &Shell, number: u64) -> Result<Content, Failure> {
    let body = Content::Inline(Bytes::from(vec![b'x'; bytes_of(number)]));
    Content::receive(shell.engine.as_ref(), &mut body.reader(&shell.engine)).await.map_err(said)
}

fn unconditional() -> Expectation {
    let row = Service::Blob.rows().iter().find(|row| row.id == OperationId::PutBlockBlob).expect("Put Blob is a row");
    Expectation {
        operation: row,
        version: ApiVersion::NEWEST_KNOWN,
        conditions: Conditions::default(),
        lease_id: None,
        keeps_versions: false,
    }
}

fn said(error: impl std::fmt::Debug) -> Failure {
    format!("seeding: {error:?}").into()
}
