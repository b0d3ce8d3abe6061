//! Get and Set Table ACL on the wire: stored access policies, in XML.

use contract::operations::Operation;
use partition::table::tables::{self as model, SetTablePolicies};
use partition::{Failure, Shell};

use super::address::parse_entities;
use super::segment;
use crate::body::receive;
use crate::policies;
use crate::request::Request;
use crate::respond::document;
use crate::wire::{Body, Response};

pub async fn get(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let name = parse_entities(segment(request)?)?;
    let found = model::find(shell, &request.account.name, &name).await?;
    Ok(document(request, row, policies::render(&found.head.policies)))
}

pub async fn set(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    body: &mut Body<'_>,
) -> Result<Response, Failure> {
    let name = parse_entities(segment(request)?)?;
    let policies = policies::parse(&receive(body).await?)?;
    shell.execute(&SetTablePolicies::new(&request.account.name, &name, policies)).await?;
    Ok(Response::new(row.status))
}
