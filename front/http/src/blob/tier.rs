//! Access tiers on the wire: Set Blob Tier, `x-ms-access-tier` on writes, and how a tier is shown.

use contract::operations::Operation;
use contract::{ApiVersion, Refusal};
use env::Timestamp;
use partition::blob::attribute::{Attribute, SetAttribute};
use partition::blob::container;
use partition::record::BlobHead;
use partition::record::blob::Tier;
use partition::tier::TierChange;
use partition::{Failure, Shell};

use crate::request::Request;
use crate::wire::Response;

const HEADER: &str = "x-ms-access-tier";

pub async fn set(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let (name, blob, which) = (request.container()?, request.blob()?, request.which()?);
    let to = sent(request)?.ok_or_else(|| Refusal::missing_header(HEADER))?;
    let high_priority = high_priority(request)?.unwrap_or(false);
    let rehydration_seconds = request.account.blob.rehydration_seconds;
    let change = TierChange { to, high_priority, rehydration_seconds };
    let expectation = request.expectation(row)?;
    let container = container::find(shell, &request.account.name, &name).await?;
    let command = SetAttribute::new(&container.group, &blob, which, expectation, Attribute::Tier(change));
    let head = container.settle(shell, shell.execute(&command).await).await?;
    // Accepted, not done: it takes a while to leave the archive.
    let is_on_its_way = head.tier.is_some_and(|tier| tier.rehydrating.is_some());
    Ok(Response::new(if is_on_its_way { 202 } else { row.status }))
}

/// The tier that a request asks for. Those of premium accounts are no tiers here.
pub fn sent(request: &Request<'_>) -> Result<Option<Tier>, Refusal> {
    let Some(text) = request.header(HEADER) else { return Ok(None) };
    let known = |tier: &Tier| *tier != Tier::Smart || request.version >= ApiVersion::SMART_TIER;
    let tier = Tier::ALL.into_iter().find(|tier| tier.name().eq_ignore_ascii_case(text)).filter(known);
    tier.map(Some).ok_or_else(|| Refusal::bad_header(HEADER, text))
}

/// Only block blobs have tiers.
pub fn refuse(request: &Request<'_>) -> Result<(), Refusal> {
    request.header(HEADER).map_or(Ok(()), |value| Err(Refusal::bad_header(HEADER, value)))
}

fn high_priority(request: &Request<'_>) -> Result<Option<bool>, Refusal> {
    const NAME: &str = "x-ms-rehydrate-priority";
    match request.header(NAME) {
        None => Ok(None),
        Some(text) if text.eq_ignore_ascii_case("standard") => Ok(Some(false)),
        Some(text) if text.eq_ignore_ascii_case("high") => Ok(Some(true)),
        Some(text) => Err(Refusal::bad_header(NAME, text)),
    }
}

/// A tier in words.
pub struct Shown {
    pub tier: &'static str,
    /// Nobody ever asked for it.
    pub inferred: bool,
    pub changed: Option<Timestamp>,
    pub archive_status: Option<&'static str>,
    pub priority: Option<&'static str>,
    /// What the service chose for one that is left to it.
    pub smart: Option<&'static str>,
}

/// Only block blobs have one.
pub fn shown(head: &BlobHead, now: Timestamp) -> Option<Shown> {
    let hot = Shown { tier: "Hot", inferred: true, changed: None, archive_status: None, priority: None, smart: None };
    if !head.kind.is_block() {
        return None;
    }
    let Some(stored) = head.tier else { return Some(hot) };
    let stored = stored.at(now);
    Some(Shown {
        tier: stored.level.name(),
        inferred: false,
        changed: Some(stored.since),
        archive_status: stored.rehydrating.map(|way| match way.to {
            Tier::Cool => "rehydrate-pending-to-cool",
            Tier::Cold => "rehydrate-pending-to-cold",
            Tier::Smart => "rehydrate-pending-to-smart",
            Tier::Hot | Tier::Archive => "rehydrate-pending-to-hot",
        }),
        priority: stored.rehydrating.map(|way| if way.high_priority { "High" } else { "Standard" }),
        smart: (stored.level == Tier::Smart).then_some("Hot"),
    })
}

pub fn put_tier(response: &mut Response, head: &BlobHead, now: Timestamp) {
    let Some(shown) = shown(head, now) else { return };
    response.header(HEADER, shown.tier);
    if shown.inferred {
        response.header("x-ms-access-tier-inferred", "true");
    }
    if let Some(changed) = shown.changed {
        response.header("x-ms-access-tier-change-time", changed.http_date());
    }
    for (name, value) in [
        ("x-ms-archive-status", shown.archive_status),
        ("x-ms-rehydrate-priority", shown.priority),
        ("x-ms-smart-access-tier", shown.smart),
    ] {
        if let Some(value) = value {
            response.header(name, value);
        }
    }
}
