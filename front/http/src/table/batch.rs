//! Entity group transactions on the wire, and the single query in a batch.
//!
//! Each part is made a request of its own, so that everything that reads a request reads a part. It has the credential of the batch, and
//! is authorized like a request on its own: a token that may not update may not update in a batch.

use contract::limits::TABLE_BATCH_OPERATIONS_MAX;
use contract::operations::{Operation, OperationId, Resource};
use contract::{ErrorCode, Refusal};
use partition::Failure;
use partition::table::entity::{Refused, Transaction, transact};
use partition::table::tables;

use super::entities::{self, Asked};
use super::multipart::{self, Batch, Part};
use super::{answer, json, media, segment};
use crate::app::App;
use crate::auth::{self, Credential};
use crate::body::receive;
use crate::dispatch::refuse_unsupported_conditions;
use crate::multipart::{head, inner_request};
use crate::request::Request;
use crate::route::route;
use crate::wire::{Body, Head, Response, ResponseBody};

pub async fn submit(
    app: &App,
    request: &Request<'_>,
    row: &'static Operation,
    credential: &Credential,
    body: &mut Body<'_>,
) -> Result<Response, Failure> {
    segment(request)?;
    let content_type = request.header("content-type").ok_or(Refusal::missing_header("Content-Type"))?;
    let body = receive(body).await?;
    let (batch, changeset) = (app.shell.ids.next().to_string(), app.shell.ids.next().to_string());
    let mut refusal = None;
    let rendered = match multipart::parse(content_type, &body)? {
        Batch::Changes(parts) => {
            let mut answers = change(app, request, credential, &parts).await?;
            refusal = answers.iter_mut().find_map(|(_, answer)| answer.refusal.take());
            multipart::render_changes(&batch, &changeset, &answers)
        }
        Batch::Query(part) => {
            let id = part.header("content-id");
            let answered = query(app, request, credential, &part).await;
            let response = answered.or_else(|failure| refused(request, &part, 0, failure))?;
            multipart::render_query(&batch, id, &response)
        }
    };
    let mut response = answer(row.status, "3.0;");
    response.header("Content-Type", format!("multipart/mixed; boundary=batchresponse_{batch}"));
    response.body = ResponseBody::Bytes(rendered.into());
    response.refusal = refusal;
    Ok(response)
}

/// Every part's answer; or that of the first part that was refused, and then nothing was done.
async fn change(
    app: &App,
    request: &Request<'_>,
    credential: &Credential,
    parts: &[Part<'_>],
) -> Result<Vec<(Option<String>, Response)>, Failure> {
    let id = |at: usize| parts[at].header("content-id").map(str::to_string);
    let only = |at: usize, failure: Failure| Ok(vec![(id(at), refused(request, &parts[at], at, failure)?)]);
    if parts.len() > TABLE_BATCH_OPERATIONS_MAX {
        let what = "The batch request operation exceeds the maximum 100 changes per change set.";
        return only(TABLE_BATCH_OPERATIONS_MAX - 1, Refusal::from(ErrorCode::InvalidInput).saying(what).into());
    }
    let mut heads = Vec::with_capacity(parts.len());
    for (at, part) in parts.iter().enumerate() {
        match head(request, part) {
            Ok(head) => heads.push(head),
            Err(refusal) => return only(at, refusal.into()),
        }
    }
    let mut asked: Vec<(Request<'_>, &'static Operation, Asked)> = Vec::with_capacity(parts.len());
    for (at, (part, head)) in parts.iter().zip(&heads).enumerate() {
        match ask(app, request, credential, part, head).await {
            Ok(one) => asked.push(one),
            Err(failure) => return only(at, failure),
        }
        let (first, last) = (&asked[0].2, &asked[at].2);
        if first.table != last.table {
            let what = "All commands in a batch must operate on the same table.";
            return only(at, Refusal::from(ErrorCode::InvalidInput).saying(what).into());
        }
        if first.partition_key != last.partition_key {
            return only(at, ErrorCode::CommandsInBatchActOnDifferentPartitions.into());
        }
    }
    let Some((_, _, first)) = asked.first() else { return Err(ErrorCode::InvalidInput.into()) };
    let table = match tables::find(&app.shell, &request.account.name, &first.table).await {
        Ok(table) => table,
        Err(failure) => return only(0, failure),
    };
    let changes = asked.iter().map(|(_, _, asked)| asked.change.clone()).collect();
    let transaction = match Transaction::new(&table, first.partition_key.clone(), changes) {
        Ok(transaction) => transaction,
        Err(Refused { index, refusal }) => return only(index, refusal.into()),
    };
    match transact(&app.shell, &table, &transaction).await {
        Ok(Ok(entities)) => {
            let answers = asked.iter().zip(&entities).enumerate().map(|(at, ((request, row, asked), entity))| {
                (id(at), asked.answer(request, row, &table.head.name, entity.as_ref()))
            });
            Ok(answers.collect())
        }
        Ok(Err(Refused { index, refusal })) => only(index, asked[index].2.refused(refusal).into()),
        Err(failure) => only(0, failure),
    }
}

/// A part as the write it asks for.
async fn ask<'h>(
    app: &App,
    request: &Request<'_>,
    credential: &Credential,
    part: &Part<'_>,
    head: &'h Head,
) -> Result<(Request<'h>, &'static Operation, Asked), Failure> {
    let (inner, row) = authorized(app, request, credential, head).await?;
    if !matches!(row.on, Resource::Entity | Resource::Entities)
        || matches!(row.id, OperationId::GetEntity | OperationId::QueryEntities)
    {
        let what = "A changeset has writes of entities alone.";
        return Err(Refusal::from(ErrorCode::InvalidInput).saying(what).into());
    }
    let asked = Asked::parse(&inner, row, credential, part.body)?;
    Ok((inner, row, asked))
}

/// The single query.
async fn query(
    app: &App,
    request: &Request<'_>,
    credential: &Credential,
    part: &Part<'_>,
) -> Result<Response, Failure> {
    let head = head(request, part)?;
    let (inner, row) = authorized(app, request, credential, &head).await?;
    match row.id {
        OperationId::GetEntity => entities::get(&app.shell, &inner, row, credential).await,
        OperationId::QueryEntities => entities::query(&app.shell, &inner, row, credential).await,
        _ => {
            let what = "A batch without a changeset has one query of entities.";
            Err(Refusal::from(ErrorCode::InvalidInput).saying(what).into())
        }
    }
}

async fn authorized<'h>(
    app: &App,
    request: &Request<'_>,
    credential: &Credential,
    head: &'h Head,
) -> Result<(Request<'h>, &'static Operation), Failure> {
    let inner = inner_request(request, head)?;
    let row = route(&inner)?;
    auth::authorize(&app.shell, app.tokens().as_deref(), &inner, row, credential).await?;
    refuse_unsupported_conditions(&inner, row)?;
    Ok((inner, row))
}

/// The answer to a part that was refused, its number before the words. What is not the client's doing fails the batch as a whole, and so
/// does what the credential does not allow.
fn refused(request: &Request<'_>, part: &Part<'_>, index: usize, failure: Failure) -> Result<Response, Failure> {
    let Failure::Refused(refusal) = failure else { return Err(failure) };
    if matches!(refusal.status, 401 | 403) {
        return Err(refusal.into());
    }
    let level = media::answer_level(None, part.header("accept"), None).unwrap_or(media::Level::Minimal);
    let mut response = answer(refusal.status, "3.0;");
    response.header("Content-Type", level.content_type());
    for (name, value) in &refusal.headers {
        response.header(*name, value.clone());
    }
    let message = format!("{index}:{}", refusal.message());
    let refusal = refusal.saying(message);
    let body = json::error(&refusal, request.id, request.now);
    response.body = ResponseBody::Bytes(body.into());
    response.refusal = Some(Box::new(refusal));
    Ok(response)
}
