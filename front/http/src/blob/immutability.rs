//! Immutability policies and legal holds on the wire.

use contract::operations::{Operation, OperationId};
use contract::{ErrorCode, Refusal};
use env::Timestamp;
use partition::blob::attribute::{Attribute, SetAttribute};
use partition::blob::container;
use partition::record::BlobHead;
use partition::record::blob::Immutability;
use partition::{Failure, Shell};

use crate::request::Request;
use crate::wire::Response;

const UNTIL: &str = "x-ms-immutability-policy-until-date";
const MODE: &str = "x-ms-immutability-policy-mode";
const HOLD: &str = "x-ms-legal-hold";

/// Set and Delete Blob Immutability Policy, Set Blob Legal Hold.
pub async fn set(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let (name, blob, which) = (request.container()?, request.blob()?, request.which()?);
    let attribute = match row.id {
        OperationId::SetBlobLegalHold => {
            Attribute::LegalHold(sent_hold(request)?.ok_or_else(|| Refusal::missing_header(HOLD))?)
        }
        OperationId::SetBlobImmutabilityPolicy => {
            Attribute::Immutability(Some(sent_policy(request)?.ok_or_else(|| Refusal::missing_header(UNTIL))?))
        }
        _ => Attribute::Immutability(None),
    };
    refuse_without_immutable_storage(request)?;
    let is_hold = matches!(attribute, Attribute::LegalHold(_));
    let expectation = request.expectation(row)?;
    let container = container::find(shell, &request.account.name, &name).await?;
    let command = SetAttribute::new(&container.group, &blob, which, expectation, attribute);
    let head = container.settle(shell, shell.execute(&command).await).await?;
    let mut response = Response::new(row.status);
    if is_hold {
        response.header(HOLD, head.legal_hold.to_string());
    } else {
        put_policy(&mut response, head.immutability);
    }
    Ok(response)
}

/// What a write brings along for the blob it makes.
pub fn sent(request: &Request<'_>) -> Result<(Option<Immutability>, bool), Refusal> {
    let (policy, hold) = (sent_policy(request)?, sent_hold(request)?);
    if policy.is_some() || hold.is_some() {
        refuse_without_immutable_storage(request)?;
    }
    Ok((policy, hold.unwrap_or(false)))
}

fn sent_policy(request: &Request<'_>) -> Result<Option<Immutability>, Refusal> {
    let locked = match request.header(MODE) {
        None => false,
        Some(text) if text.eq_ignore_ascii_case("unlocked") => false,
        Some(text) if text.eq_ignore_ascii_case("locked") => true,
        Some(text) => return Err(Refusal::bad_header(MODE, text)),
    };
    let Some(text) = request.header(UNTIL) else {
        return if request.header(MODE).is_some() { Err(Refusal::missing_header(UNTIL)) } else { Ok(None) };
    };
    let until = Timestamp::parse_http_date(text).filter(|until| *until > request.now);
    until.map(|until| Some(Immutability { until, locked })).ok_or_else(|| Refusal::bad_header(UNTIL, text))
}

fn sent_hold(request: &Request<'_>) -> Result<Option<bool>, Refusal> {
    match request.header(HOLD) {
        None => Ok(None),
        Some(text) if text.eq_ignore_ascii_case("true") => Ok(Some(true)),
        Some(text) if text.eq_ignore_ascii_case("false") => Ok(Some(false)),
        Some(text) => Err(Refusal::bad_header(HOLD, text)),
    }
}

/// It takes an account whose containers may hold what nobody can delete.
fn refuse_without_immutable_storage(request: &Request<'_>) -> Result<(), Refusal> {
    match request.account.blob.immutable_storage {
        true => Ok(()),
        false => Err(ErrorCode::ImmutableStorageNotEnabled.into()),
    }
}

pub fn put(response: &mut Response, head: &BlobHead) {
    put_policy(response, head.immutability);
    if head.legal_hold {
        response.header(HOLD, "true");
    }
}

fn put_policy(response: &mut Response, policy: Option<Immutability>) {
    if let Some(policy) = policy {
        response.header(UNTIL, policy.until.http_date()).header(MODE, mode(policy));
    }
}

pub fn mode(policy: Immutability) -> &'static str {
    if policy.locked { "locked" } else { "unlocked" }
}
