//! Create Permission and Get Permission on the wire: security descriptors in JSON.

use contract::operations::Operation;
use contract::{ErrorCode, Refusal};
use partition::file::permission as model;
use partition::file::security::PermissionKey;
use partition::{Failure, Shell};
use serde::{Deserialize, Serialize};

use super::headers::{Format, PERMISSION_KEY};
use crate::body::receive;
use crate::request::Request;
use crate::wire::{Body, Response, ResponseBody};

/// The document of both.
#[derive(Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Document {
    permission: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<String>,
}

pub async fn create(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    body: &mut Body<'_>,
) -> Result<Response, Failure> {
    let name = request.share()?;
    request.refuse_share_snapshot()?;
    let invalid = |why: String| Refusal::from(ErrorCode::InvalidInput).saying(why);
    let sent: Document = serde_json::from_slice(&receive(body).await?)
        .map_err(|error| invalid(format!("The body is not a permission in JSON: {error}")))?;
    let format = match &sent.format {
        None => Format::default(),
        Some(text) => Format::parse(text).ok_or_else(|| invalid(format!("There is no format {text}.")))?,
    };
    let descriptor = format.read(&sent.permission)?.as_set();
    let key = model::create(shell, &request.account.name, &name, descriptor).await?;
    Ok(Response::new(row.status).with_header(PERMISSION_KEY, key.to_string()))
}

pub async fn get(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let name = request.share()?;
    request.refuse_share_snapshot()?;
    let format = Format::asked(request)?;
    let text = request.header(PERMISSION_KEY).ok_or_else(|| Refusal::missing_header(PERMISSION_KEY))?;
    let key = PermissionKey::parse(text).ok_or_else(|| Refusal::bad_header(PERMISSION_KEY, text))?;
    let descriptor = model::read(shell, &request.account.name, &name, key).await?;
    let format = format.unwrap_or_default();
    let document = Document { permission: format.write(&descriptor), format: Some(format.name().to_string()) };
    let mut response = Response::new(row.status).with_header("Content-Type", "application/json");
    let json = serde_json::to_vec(&document).map_err(|_| Refusal::from(ErrorCode::InternalError))?;
    response.body = ResponseBody::Bytes(json.into());
    Ok(response)
}
