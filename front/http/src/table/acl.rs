//! Get and Set Table ACL on the wire: stored access policies, in XML.

use contract::operations::Operation;
use partition::table::tables::{self as model, SetTablePolicies};
use partition::{Failure, Shell};

use super::address::parse_entities;
use super::segment;
use crate::body::receive;
use crate::policies;
use crate::request::Request;
use crate::wire::{Body, Response, ResponseBody};

pub async fn get(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let name = parse_entities(segment(request)?)?;
    let found = model::find(shell, &request.account.name, &name).await?;
    let mut response = Response::new(row.status).with_header("Content-Type", "application/xml");
    let xml = policies::render(&found.head.policies);
    response.body = match request.head.method() {
        "HEAD" => ResponseBody::Head { bytes: Some(xml.len() as u64) },
        _ => ResponseBody::Bytes(xml.into()),
    };
    Ok(response)
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
