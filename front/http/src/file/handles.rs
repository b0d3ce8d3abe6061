//! List Handles and Force Close Handles on the wire: those of SMB clients, on a file, a directory, or everything below it.

use contract::operations::Operation;
use contract::{Refusal, limits};
use partition::file::handle::kept;
use partition::file::opens::{Closed, Handle, HandleId, Scope};
use partition::file::{read as model, removal, share};
use partition::{Failure, Shell};

use crate::listing::listing;
use crate::request::Request;
use crate::respond::document;
use crate::wire::Response;
use crate::xml::XmlWriter;

/// Which handles a request means.
async fn scope(shell: &Shell, request: &Request<'_>) -> Result<(share::Found, Scope), Failure> {
    let (path, is_recursive) = (request.file_path()?, request.flag("x-ms-recursive")?);
    let share = super::read::share(shell, request).await?;
    let found = share.settle(shell, model::find(shell, &share, &path).await).await?;
    Ok((share, Scope { file: found.node.id, is_recursive }))
}

pub async fn list(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let (after, results_max) = (after(request)?, listing(request, String::new(), None)?.results_max);
    let (share, scope) = scope(shell, request).await?;
    let page = shell.open_files.list(share.group(), scope, after, results_max);
    let mut xml = XmlWriter::new();
    xml.open("EnumerationResults");
    match page.handles.is_empty() {
        true => drop(xml.element("Entries", "")),
        false => {
            xml.open("Entries");
            page.handles.iter().for_each(|handle| put_handle(&mut xml, handle));
            xml.close("Entries");
        }
    }
    let next = page.next.map(|HandleId(id)| id.to_string()).unwrap_or_default();
    xml.element("NextMarker", &next).close("EnumerationResults");
    Ok(document(request, row, xml.finish()))
}

pub async fn force_close(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    const ID: &str = "x-ms-handle-id";
    let given = request.header(ID).ok_or_else(|| Refusal::missing_header(ID))?;
    let one = match given {
        "*" => None,
        text => Some(HandleId(text.parse().map_err(|_| Refusal::bad_header(ID, text))?)),
    };
    let after = after(request)?;
    let (share, scope) = scope(shell, request).await?;
    let (closed, next) = match one {
        Some(handle) => (shell.open_files.force_close(share.group(), scope, handle).into_iter().collect(), None),
        None => shell.open_files.force_close_all(share.group(), scope, after, limits::LIST_RESULTS_MAX),
    };
    let mut response = Response::new(row.status);
    response.header("x-ms-number-of-handles-closed", closed.len().to_string());
    response.header("x-ms-number-of-handles-failed", "0");
    if let Some(HandleId(next)) = next {
        response.header("x-ms-marker", next.to_string());
    }
    // What clients write by way of them is done before anybody hears that they are closed, or is not done.
    for Closed { handle, .. } in &closed {
        while let Some(wait) = shell.open_files.still_at_work(share.group(), handle) {
            wait.over().await;
        }
    }
    kept::forget_closed(shell, &request.account.name, &closed).await?;
    for closed in closed {
        removal::after_close(shell, share.group(), &share.head, closed).await?;
    }
    Ok(response)
}

/// The handle to go on behind.
fn after(request: &Request<'_>) -> Result<Option<HandleId>, Refusal> {
    let Some(text) = request.query.get("marker") else { return Ok(None) };
    let bad = |_| Refusal::bad_query("marker", text, "Not a marker of this service.");
    Ok(Some(HandleId(text.parse().map_err(bad)?)))
}

fn put_handle(xml: &mut XmlWriter, handle: &Handle) {
    let opening = &handle.opening;
    xml.open("Handle").element("HandleId", &handle.id.0.to_string()).name("Path", &opening.path);
    xml.element("FileId", &opening.file.0.to_string()).element("ParentId", &opening.parent().0.to_string());
    xml.element("SessionId", &opening.session.to_string()).element("ClientIp", &opening.client_address);
    xml.element("ClientName", &opening.client_name).element("OpenTime", &opening.opened.http_date());
    xml.optional("LastReconnectTime", opening.reconnected.map(|moment| moment.http_date()).as_deref());
    let access = opening.claim.access;
    let rights = [(access.read, "Read"), (access.write, "Write"), (access.delete, "Delete")];
    if rights.iter().any(|(is_granted, _)| *is_granted) {
        xml.open("AccessRightList");
        for (_, name) in rights.iter().filter(|(is_granted, _)| *is_granted) {
            xml.element("AccessRight", name);
        }
        xml.close("AccessRightList");
    }
    xml.close("Handle");
}
