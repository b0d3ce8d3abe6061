//! TREE_CONNECT, TREE_DISCONNECT, LOGOFF.

use std::sync::Arc;

use contract::names::ShareName;
use contract::rights as right;
use partition::execute::Failure;
use partition::file::share;
use partition::record::share::Protocol;

use crate::chain::{Reply, Request};
use crate::session::{ConnectedTo, Share};
use crate::status::Status;
use crate::wire::session::{TreeResponse, empty_response, tree_connect_request};

/// Opens of it may be promised to survive.
const CONTINUOUSLY_AVAILABLE: u32 = 0x10;
/// Its clients must not cache on their own account.
const NO_CACHING: u32 = 0x30;

pub async fn connect(request: &Request) -> Result<Reply, Status> {
    let name = tree_connect_request(&request.message).ok_or(Status::INVALID_PARAMETER)?;
    let session = request.session()?;
    if name.eq_ignore_ascii_case("IPC$") {
        let tree = session.connect(ConnectedTo::Server, None).ok_or(Status::INSUFFICIENT_RESOURCES)?;
        let response =
            TreeResponse { is_pipe: true, flags: NO_CACHING, capabilities: 0, maximal_access: right::READ_ATTRIBUTES };
        return Ok(Reply { tree: Some(tree.id), ..Reply::of(response.encode()) });
    }
    // Clients write names as they like; the service has them in lower case.
    let parsed = ShareName::parse(&name.to_lowercase()).map_err(|_| Status::BAD_NETWORK_NAME)?;
    let shell = &request.connection.server.shell;
    let found = share::find(shell, &session.account, &parsed, None).await.map_err(|failure| match failure {
        Failure::Fault(fault) => Status::from(partition::file::handle::Error::Fault(fault)),
        _ => Status::BAD_NETWORK_NAME,
    })?;
    if found.head.protocol == Protocol::Nfs {
        return Err(Status::BAD_NETWORK_NAME);
    }
    let claim = request.connection.server.take(&session.account, &parsed, &found).await?;
    let share = Share { account: session.account.clone(), name: parsed, found };
    let tree = session.connect(ConnectedTo::Share(Arc::new(share)), claim).ok_or(Status::INSUFFICIENT_RESOURCES)?;
    let capabilities = if session.agreed.is_3() { CONTINUOUSLY_AVAILABLE } else { 0 };
    let response = TreeResponse { is_pipe: false, flags: 0, capabilities, maximal_access: right::ALL };
    Ok(Reply { tree: Some(tree.id), ..Reply::of(response.encode()) })
}

pub async fn disconnect(request: &Request) -> Result<Reply, Status> {
    let (session, tree) = (request.session()?, request.tree()?);
    for open in session.disconnect(tree.id) {
        open.close(&request.connection.server).await;
    }
    Ok(Reply::of(empty_response()))
}

pub async fn logoff(request: &Request) -> Result<Reply, Status> {
    request.connection.server.end_session(request.session()?).await;
    Ok(Reply::of(empty_response()))
}
