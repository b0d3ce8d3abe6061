//! Entities on the wire: one read, one write, a page of a query.

use contract::names::TableName;
use contract::operations::{Operation, OperationId};
use contract::{ErrorCode, Refusal};
use partition::record::StoredEntity;
use partition::table::entity::{self as model, Action, Change, Expected, Refused, Transaction};
use partition::table::plan::Keys;
use partition::table::query::{self, Query};
use partition::table::tables;
use partition::table::value::EntityKey;
use partition::{Failure, Shell};

use super::address::{entity_link, parse_entities, parse_entity};
use super::json::{self, Writer};
use super::media::check_body;
use super::options::{Options, write_token};
use super::{Echo, answer, json_answer, segment, version};
use crate::auth::{Credential, failed};
use crate::body::receive;
use crate::request::Request;
use crate::wire::{Body, Response};

/// The keys of a table that a credential reaches.
fn reach(credential: &Credential, table: &TableName) -> Result<Keys, Refusal> {
    match credential.table_scope() {
        None => Ok(Keys::all()),
        Some(scope) if scope.name == *table => Ok(scope.keys.clone()),
        Some(_) => Err(failed("The token is for another table.")),
    }
}

pub async fn get(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    credential: &Credential,
) -> Result<Response, Failure> {
    let options = Options::parse(request)?;
    let (name, partition_key, row_key) = parse_entity(segment(request)?)?;
    let reach = reach(credential, &name)?;
    let table = tables::find(shell, &request.account.name, &name).await?;
    // What lies outside of a token's keys is not there, as in queries.
    if !reach.contains(partition_key.as_str(), row_key.as_str()) {
        return Err(ErrorCode::ResourceNotFound.into());
    }
    let entity = model::get(shell, &table, &partition_key, &row_key).await?;
    let body = writer(request, &options).entity(&table.head.name, partition_key.as_str(), row_key.as_str(), &entity);
    let mut response = json_answer(row.status, options.level, body);
    response.header("ETag", json::etag(entity.timestamp()));
    Ok(response)
}

pub async fn query(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    credential: &Credential,
) -> Result<Response, Failure> {
    let options = Options::parse(request)?;
    let name = parse_entities(segment(request)?)?;
    let mut within = reach(credential, &name)?;
    match (&options.next_partition_key, &options.next_row_key) {
        (Some(partition_key), row_key) => {
            within = within.and(&Keys::from(partition_key, row_key.as_deref().unwrap_or_default()));
        }
        (None, Some(row_key)) => {
            return Err(Refusal::bad_query("NextRowKey", row_key, "NextPartitionKey is missing.").into());
        }
        (None, None) => {}
    }
    let table = tables::find(shell, &request.account.name, &name).await?;
    let asked = Query { filter: options.filter.clone(), within, results_max: options.results_max };
    let page = query::query(shell, &table, &asked).await?;
    let entities =
        page.entities.iter().map(|entity| (entity.partition_key.as_str(), entity.row_key.as_str(), &entity.stored));
    let body = writer(request, &options).entities(&table.head.name, entities);
    let mut response = json_answer(row.status, options.level, body);
    if let Some((partition_key, row_key)) = page.next {
        response.header("x-ms-continuation-NextPartitionKey", write_token(&partition_key));
        response.header("x-ms-continuation-NextRowKey", write_token(&row_key));
    }
    Ok(response)
}

/// A write as a request asks for it: of its own, or as a part of a batch.
pub struct Asked {
    pub table: TableName,
    pub partition_key: EntityKey,
    pub change: Change,
    options: Options,
    echo: Echo,
}

impl Asked {
    pub fn parse(
        request: &Request<'_>,
        row: &Operation,
        credential: &Credential,
        body: &[u8],
    ) -> Result<Asked, Refusal> {
        let options = Options::parse(request)?;
        let (table, partition_key, row_key, sent) = match row.id {
            OperationId::InsertEntity => {
                let table = parse_entities(segment(request)?)?;
                check_body(request.header("content-type"), version(request))?;
                let sent = json::read_entity(body)?;
                let keys = sent.partition_key.clone().zip(sent.row_key.clone());
                let (partition_key, row_key) = keys.ok_or(ErrorCode::PropertiesNeedValue)?;
                (table, partition_key, row_key, sent)
            }
            OperationId::DeleteEntity => {
                let (table, partition_key, row_key) = parse_entity(segment(request)?)?;
                (table, partition_key, row_key, json::SentEntity::default())
            }
            _ => {
                let (table, partition_key, row_key) = parse_entity(segment(request)?)?;
                check_body(request.header("content-type"), version(request))?;
                let sent = json::read_entity(body)?;
                let same = |sent: &Option<EntityKey>, addressed| sent.as_ref().is_none_or(|sent| sent == addressed);
                if !same(&sent.partition_key, &partition_key) || !same(&sent.row_key, &row_key) {
                    let what = "PartitionKey and RowKey of the body are not those of the address.";
                    return Err(Refusal::from(ErrorCode::InvalidInput).saying(what));
                }
                (table, partition_key, row_key, sent)
            }
        };
        if !reach(credential, &table)?.contains(partition_key.as_str(), row_key.as_str()) {
            return Err(ErrorCode::AuthorizationFailure.into());
        }
        let action = match row.id {
            OperationId::InsertEntity => Action::Insert,
            OperationId::UpdateEntity => Action::Replace(expected(request)?),
            OperationId::MergeEntity => Action::Merge(expected(request)?),
            OperationId::DeleteEntity => Action::Delete(expected(request)?),
            OperationId::InsertOrReplaceEntity => Action::InsertOrReplace,
            OperationId::InsertOrMergeEntity => Action::InsertOrMerge,
            _ => return Err(ErrorCode::InvalidInput.into()),
        };
        let change = Change { row_key, action, properties: sent.properties };
        Ok(Asked { table, partition_key, change, options, echo: Echo::of(request) })
    }

    /// The answer to what was done.
    pub fn answer(
        &self,
        request: &Request<'_>,
        row: &Operation,
        table: &str,
        entity: Option<&StoredEntity>,
    ) -> Response {
        let (partition_key, row_key) = (self.partition_key.as_str(), self.change.row_key.as_str());
        let mut response = match (self.change.action, entity) {
            (Action::Insert, Some(entity)) => {
                let link = format!("{}{}", request.address.endpoint, entity_link(table, partition_key, row_key));
                let mut response = match self.echo {
                    Echo::Nothing => answer(204, "3.0;").with_header("DataServiceId", link.clone()),
                    Echo::Unsaid | Echo::Content => {
                        let body = writer(request, &self.options).entity(table, partition_key, row_key, entity);
                        json_answer(row.status, self.options.level, body)
                    }
                };
                response.header("Location", link);
                if let Some(applied) = self.echo.applied() {
                    response.header("Preference-Applied", applied);
                }
                response
            }
            _ => answer(row.status, "1.0;"),
        };
        if let Some(entity) = entity {
            response.header("ETag", json::etag(entity.timestamp()));
        }
        response
    }

    pub fn refused(&self, refusal: Refusal) -> Refusal {
        if self.change.action == Action::Insert { self.echo.say(refusal) } else { refusal }
    }
}

/// If-Match, which stands here or the operation would be another one.
fn expected(request: &Request<'_>) -> Result<Expected, Refusal> {
    let mut values = request.head.headers("if-match").filter(|value| !value.is_empty());
    let (value, other) = (values.next().ok_or(Refusal::missing_header("If-Match"))?, values.next());
    let value = value.trim();
    let is_etag = value.strip_prefix("W/").unwrap_or(value).len() >= 2
        && value.strip_prefix("W/").unwrap_or(value).starts_with('"')
        && value.ends_with('"');
    match value {
        _ if other.is_some() => Err(ErrorCode::InvalidInput.into()),
        "*" => Ok(Expected::Any),
        etag if is_etag => Ok(Expected::At(json::parse_etag(etag))),
        _ => Err(Refusal::from(ErrorCode::InvalidInput).saying(format!("If-Match is no ETag: {value}"))),
    }
}

pub async fn change(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    credential: &Credential,
    body: &mut Body<'_>,
) -> Result<Response, Failure> {
    // What the head alone refuses is refused before the body is asked for.
    if row.id == OperationId::DeleteEntity {
        expected(request)?;
    }
    let asked = Asked::parse(request, row, credential, &receive(body).await?)?;
    let table = tables::find(shell, &request.account.name, &asked.table).await?;
    let transaction = Transaction::new(&table, asked.partition_key.clone(), vec![asked.change.clone()]);
    let refused = |refused: Refused| Failure::Refused(asked.refused(refused.refusal));
    let done = model::transact(shell, &table, &transaction.map_err(refused)?).await?.map_err(refused)?;
    Ok(asked.answer(request, row, &table.head.name, done.first().and_then(Option::as_ref)))
}

fn writer<'a>(request: &'a Request<'_>, options: &'a Options) -> Writer<'a> {
    let (endpoint, account) = (request.address.endpoint.as_str(), request.account.name.as_str());
    Writer { level: options.level, endpoint, account, select: options.select.as_ref() }
}
