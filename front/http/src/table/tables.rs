//! Tables on the wire.

use contract::names::TableName;
use contract::operations::Operation;
use contract::{ErrorCode, Refusal};
use partition::table::tables::{self as model, CreateTable};
use partition::{Failure, Shell};

use super::address::parse_table;
use super::json::{self, Writer};
use super::media::check_body;
use super::options::{Options, write_token};
use super::{Echo, answer, json_answer, segment, version};
use crate::body::receive;
use crate::request::Request;
use crate::wire::{Body, Response};

pub async fn query(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    segment(request)?;
    let options = Options::parse(request)?;
    let start = options.next_table.clone().unwrap_or_default();
    let (names, next) =
        model::list(shell, &request.account.name, options.filter.as_ref(), start, options.results_max).await?;
    let mut response = json_answer(row.status, options.level, writer(request, &options).tables(&names));
    if let Some(next) = next {
        response.header("x-ms-continuation-NextTableName", write_token(&next));
    }
    Ok(response)
}

pub async fn create(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    body: &mut Body<'_>,
) -> Result<Response, Failure> {
    segment(request)?;
    let (options, echo) = (Options::parse(request)?, Echo::of(request));
    check_body(request.header("content-type"), version(request))?;
    let name = TableName::parse(&json::read_table_name(&receive(body).await?)?)?;
    shell.execute(&CreateTable::new(&request.account.name, &name)).await.map_err(|failure| match failure {
        Failure::Refused(refusal) => Failure::Refused(echo.say(refusal)),
        other => other,
    })?;
    let link = format!("{}Tables('{}')", request.address.endpoint, name.as_str());
    let mut response = match echo {
        Echo::Nothing => answer(204, "3.0;").with_header("DataServiceId", link.clone()),
        _ => json_answer(row.status, options.level, writer(request, &options).table(name.as_str())),
    };
    response.header("Location", link);
    if let Some(applied) = echo.applied() {
        response.header("Preference-Applied", applied);
    }
    Ok(response)
}

pub async fn get(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let options = Options::parse(request)?;
    let name = parse_table(segment(request)?)?;
    let found = model::find(shell, &request.account.name, &name).await.map_err(as_itself)?;
    Ok(json_answer(row.status, options.level, writer(request, &options).table(&found.head.name)))
}

pub async fn delete(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let name = parse_table(segment(request)?)?;
    model::delete(shell, &request.account.name, &name).await?;
    Ok(answer(row.status, "1.0;"))
}

/// Addressed as itself, a table that is missing is a resource that is missing.
fn as_itself(failure: Failure) -> Failure {
    match failure {
        Failure::Refused(Refusal { code: ErrorCode::TableNotFound, .. }) => ErrorCode::ResourceNotFound.into(),
        other => other,
    }
}

fn writer<'a>(request: &'a Request<'_>, options: &Options) -> Writer<'a> {
    let (endpoint, account) = (request.address.endpoint.as_str(), request.account.name.as_str());
    Writer { level: options.level, endpoint, account, select: None }
}
