//! Shares on the wire.

use contract::operations::Operation;
use contract::{ApiVersion, Refusal, limits};
use partition::file::share::{
    self as model, Change, ChangeShare, CreateShare, LeaseShare, ShareProperties, WithSnapshots,
};
use partition::file::snapshot;
use partition::kept::Restore;
use partition::record::ShareHead;
use partition::record::share::{Protocol, RootSquash, ShareTier};
use partition::{Failure, Shell};

use super::headers::refuse_sent;
use crate::body::receive;
use crate::kept::asked_version;
use crate::lease::{action, answer, put_lease};
use crate::policies;
use crate::request::Request;
use crate::respond::{document, put_metadata, stamp};
use crate::wire::{Body, Response};
use crate::xml::XmlWriter;

const QUOTA: &str = "x-ms-share-quota";
const TIER: &str = "x-ms-access-tier";
const PROTOCOLS: &str = "x-ms-enabled-protocols";
const ROOT_SQUASH: &str = "x-ms-root-squash";
const SNAPSHOT_DIRECTORY: &str = "x-ms-enable-snapshot-virtual-directory-access";

/// Nothing is provisioned or billed here, and no SMB client leases a directory.
const WITHOUT_EFFECT: [&str; 6] = [
    "x-ms-share-provisioned-iops",
    "x-ms-share-provisioned-bandwidth-mibps",
    "x-ms-share-paid-bursting-enabled",
    "x-ms-share-paid-bursting-max-iops",
    "x-ms-share-paid-bursting-max-bandwidth-mibps",
    "x-ms-enable-smb-directory-lease",
];

pub async fn create(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let (name, metadata, properties) = (request.share()?, request.metadata()?, given_properties(request)?);
    request.refuse_share_snapshot()?;
    let command = CreateShare::new(&request.account.name, &name, metadata, protocol(request)?, properties);
    let head = shell.execute(&command).await?;
    Ok(stamped(row, &head))
}

fn protocol(request: &Request<'_>) -> Result<Protocol, Refusal> {
    match request.header(PROTOCOLS) {
        None => Ok(Protocol::default()),
        Some(text) => [Protocol::Smb, Protocol::Nfs]
            .into_iter()
            .find(|protocol| protocol.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| Refusal::bad_header(PROTOCOLS, text)),
    }
}

/// What Create Share and Set Share Properties may say.
fn given_properties(request: &Request<'_>) -> Result<ShareProperties, Refusal> {
    refuse_sent(request, &WITHOUT_EFFECT)?;
    let quota = |text: &str| match text.parse() {
        Ok(gib) if (1..=limits::SHARE_QUOTA_GIB_MAX).contains(&gib) => Ok(gib),
        _ => Err(Refusal::bad_header(QUOTA, text)),
    };
    let tier = |text: &str| {
        let tier = ShareTier::ALL.into_iter().find(|tier| tier.name().eq_ignore_ascii_case(text));
        tier.ok_or_else(|| Refusal::bad_header(TIER, text))
    };
    let squash = |text: &str| {
        let squash = RootSquash::ALL.into_iter().find(|squash| squash.name().eq_ignore_ascii_case(text));
        squash.ok_or_else(|| Refusal::bad_header(ROOT_SQUASH, text))
    };
    Ok(ShareProperties {
        quota_gib: request.header(QUOTA).map(quota).transpose()?,
        tier: request.header(TIER).map(tier).transpose()?,
        root_squash: request.header(ROOT_SQUASH).map(squash).transpose()?,
        snapshot_directory: request.header(SNAPSHOT_DIRECTORY).map(|_| request.flag(SNAPSHOT_DIRECTORY)).transpose()?,
    })
}

pub async fn properties(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let head = read(shell, request, row).await?;
    let mut response = stamped(row, &head);
    put_metadata(&mut response, &head.metadata);
    response.header(QUOTA, head.quota_gib.to_string());
    response.header("x-ms-has-immutability-policy", "false").header("x-ms-has-legal-hold", "false");
    if request.version >= ApiVersion::SHARE_TIERS {
        response.header(TIER, head.tier.name());
        response.header("x-ms-access-tier-change-time", head.tier_changed.unwrap_or(head.created).http_date());
        response.header(PROTOCOLS, head.protocol.name());
    }
    if head.protocol == Protocol::Nfs {
        response.header(ROOT_SQUASH, head.root_squash.name());
        response.header(SNAPSHOT_DIRECTORY, head.snapshot_directory.to_string());
    }
    if request.version >= ApiVersion::SHARE_LEASES {
        put_lease(&mut response, head.lease.as_ref(), request.now);
    }
    Ok(response)
}

pub async fn metadata(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let head = read(shell, request, row).await?;
    let mut response = stamped(row, &head);
    put_metadata(&mut response, &head.metadata);
    Ok(response)
}

/// The share, or the snapshot that the request names.
async fn read(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<ShareHead, Failure> {
    let (name, snapshot, expectation) = (request.share()?, request.share_snapshot()?, request.expectation(row)?);
    model::read(shell, &request.account.name, &name, snapshot, &expectation).await
}

pub async fn set_properties(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
) -> Result<Response, Failure> {
    change(shell, request, row, Change::Properties(given_properties(request)?)).await
}

pub async fn set_metadata(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    change(shell, request, row, Change::Metadata(request.metadata()?)).await
}

pub async fn acl(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    request.refuse_share_snapshot()?;
    let head = read(shell, request, row).await?;
    let mut response = document(request, row, policies::render(&head.policies));
    stamp(&mut response, head.etag, head.last_modified);
    Ok(response)
}

pub async fn set_acl(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    body: &mut Body<'_>,
) -> Result<Response, Failure> {
    request.share()?;
    let policies = policies::parse(&receive(body).await?)?;
    change(shell, request, row, Change::Policies(policies)).await
}

async fn change(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    change: Change,
) -> Result<Response, Failure> {
    request.refuse_share_snapshot()?;
    let (name, expectation) = (request.share()?, request.expectation(row)?);
    let head = shell.execute(&ChangeShare::new(&request.account.name, &name, expectation, change)).await?;
    Ok(stamped(row, &head))
}

pub async fn stats(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    request.refuse_share_snapshot()?;
    let (name, expectation) = (request.share()?, request.expectation(row)?);
    let (head, used_bytes) = model::stats(shell, &request.account.name, &name, &expectation).await?;
    let mut xml = XmlWriter::new();
    xml.open("ShareStats").element("ShareUsageBytes", &used_bytes.to_string()).close("ShareStats");
    let mut response = document(request, row, xml.finish());
    stamp(&mut response, head.etag, head.last_modified);
    Ok(response)
}

pub async fn lease(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let (name, snapshot) = (request.share()?, request.share_snapshot()?);
    let (action, expectation) = (action(request, row)?, request.expectation(row)?);
    let command = LeaseShare::new(&request.account.name, &name, snapshot, expectation, action);
    let (head, acted) = shell.execute(&command).await?;
    Ok(answer(row, Some((head.etag, head.last_modified)), &acted))
}

/// Without metadata of its own a snapshot has the share's.
pub async fn take_snapshot(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    request.refuse_share_snapshot()?;
    let (name, metadata) = (request.share()?, request.metadata()?);
    let metadata = Some(metadata).filter(|metadata| !metadata.is_empty());
    let (head, taken) = snapshot::take(shell, &request.account.name, &name, metadata).await?;
    Ok(stamped(row, &head).with_header("x-ms-snapshot", taken.iso8601()))
}

/// A share with or without its snapshots, or one snapshot.
pub async fn delete(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    const SNAPSHOTS: &str = "x-ms-delete-snapshots";
    let (account, name, expectation) = (&request.account.name, request.share()?, request.expectation(row)?);
    let with = match (request.share_snapshot()?, request.header(SNAPSHOTS)) {
        (Some(taken), None) => {
            snapshot::delete(shell, account, &name, taken, expectation).await?;
            return Ok(Response::new(row.status));
        }
        (None, None) => WithSnapshots::Refused,
        (None, Some(text)) if text.eq_ignore_ascii_case("include") => WithSnapshots::Unleased,
        (None, Some(text)) if text.eq_ignore_ascii_case("include-leased") => WithSnapshots::All,
        (_, Some(text)) => return Err(Refusal::bad_header(SNAPSHOTS, text).into()),
    };
    let kept_days = request.account.file.share_retention_days;
    let used_bytes = model::delete(shell, account, &name, expectation, with, kept_days).await?;
    let mut response = Response::new(row.status);
    if let Some(bytes) = used_bytes {
        response.header("x-ms-file-share-usage-bytes", bytes.to_string());
    }
    Ok(response)
}

pub async fn restore(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    request.refuse_share_snapshot()?;
    let name = request.share()?;
    let version = asked_version(request, ["x-ms-deleted-share-name", "x-ms-deleted-share-version"], name.as_str())?;
    let command = Restore::<ShareHead>::new(&request.account.name, name.as_str(), version);
    Ok(stamped(row, &shell.execute(&command).await?))
}

fn stamped(row: &Operation, head: &ShareHead) -> Response {
    let mut response = Response::new(row.status);
    stamp(&mut response, head.etag, head.last_modified);
    response
}
