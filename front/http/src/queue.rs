//! The Queue service on the wire: queues here, their messages in `messages`.

pub mod messages;
mod parameters;

use contract::operations::Operation;
use contract::{ErrorCode, Refusal};
use partition::list::Entry;
use partition::queue::message::{self, Queue};
use partition::queue::{self as model, CreateQueue, Created, ReplaceInQueue, Replacement};
use partition::{Failure, Shell};

use crate::body::receive;
use crate::listing::{includes, listing, put_metadata, put_parameters};
use crate::policies;
use crate::request::Request;
use crate::respond::{self, document};
use crate::wire::{Body, Response, ResponseBody};
use crate::xml::XmlWriter;

/// What is read is true now and need not be in a minute.
fn uncached(response: Response) -> Response {
    response.with_header("Cache-Control", "no-cache")
}

pub async fn list(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let with_metadata = includes(request, &["metadata"])?;
    let account = &request.account.name;
    // As the service writes it: the account and the name to go on from.
    let before_name = format!("/{}/", account.as_str());
    let start = match request.query.get("marker") {
        None => "",
        Some(marker) => marker
            .strip_prefix(&before_name)
            .ok_or_else(|| Refusal::from(ErrorCode::InvalidMarker).with("QueryParameterValue", marker))?,
    };
    let listing = listing(request, start.to_string(), None)?;
    let listed = model::list(shell, account, &listing).await?;

    let mut xml = XmlWriter::new();
    xml.open_with("EnumerationResults", &[("ServiceEndpoint", &request.address.endpoint)]);
    put_parameters(&mut xml, request);
    if listed.entries.is_empty() {
        xml.element("Queues", "");
    } else {
        xml.open("Queues");
        for entry in &listed.entries {
            if let Entry::Item { name, head } = entry {
                xml.open("Queue").element("Name", name);
                if with_metadata {
                    put_metadata(&mut xml, &head.metadata);
                }
                xml.close("Queue");
            }
        }
        xml.close("Queues");
    }
    let next = listed.next.map(|next| before_name + &next).unwrap_or_default();
    xml.element("NextMarker", &next).close("EnumerationResults");
    Ok(uncached(document(request, row, xml.finish())))
}

pub async fn create(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let command = CreateQueue::new(&request.account.name, &request.queue()?, request.metadata()?);
    Ok(Response::new(match shell.execute(&command).await? {
        Created::Now => row.status,
        Created::Before => 204,
    }))
}

pub async fn delete(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    model::delete(shell, &request.account.name, &request.queue()?).await?;
    Ok(Response::new(row.status))
}

pub async fn metadata(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let name = request.queue()?;
    let (head, count) = message::read(shell, Queue { account: &request.account.name, name: &name }).await?;
    let mut response = uncached(Response::new(row.status));
    respond::put_metadata(&mut response, &head.metadata);
    response.header("x-ms-approximate-messages-count", count.to_string());
    if request.head.method() == "HEAD" {
        response.body = ResponseBody::Head { bytes: Some(0) };
    }
    Ok(response)
}

pub async fn set_metadata(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let replacement = Replacement::Metadata(request.metadata()?);
    replace(shell, request, row, replacement).await
}

pub async fn acl(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let found = model::find(shell, &request.account.name, &request.queue()?).await?;
    Ok(uncached(document(request, row, policies::render(&found.head.policies))))
}

pub async fn set_acl(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    body: &mut Body<'_>,
) -> Result<Response, Failure> {
    request.queue()?;
    let replacement = Replacement::Policies(policies::parse(&receive(body).await?)?);
    replace(shell, request, row, replacement).await
}

async fn replace(
    shell: &Shell,
    request: &Request<'_>,
    row: &Operation,
    replacement: Replacement,
) -> Result<Response, Failure> {
    let command = ReplaceInQueue::new(&request.account.name, &request.queue()?, replacement);
    shell.execute(&command).await?;
    Ok(Response::new(row.status))
}
