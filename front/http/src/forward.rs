//! Requests on shares go to the gateway that owns the share: docs/decisions/0021.

use contract::operations::{Operation, Resource};
use contract::{ErrorCode, Refusal};
use engine::{Fault, GroupId, Tenure};
use partition::Failure;
use partition::file::share;

use crate::app::App;
use crate::body::refused;
use crate::peers::{Client, OWNER, Peers};
use crate::request::Request;
use crate::wire::link::{Answered, NotAnswered, Rest};
use crate::wire::{Body, Pieces, Response, ResponseBody};

/// Is the operation about a share, or about something in one?
fn is_about_share(row: &Operation) -> bool {
    matches!(row.on, Resource::Share | Resource::Directory | Resource::File)
}

/// The owner's answer to a request on a share that another gateway owns; `None` if it is this one's to do. What names no share that is
/// there can be done anywhere.
pub async fn to_owner(
    app: &App,
    request: &Request<'_>,
    row: &Operation,
    body: &mut Body<'_>,
) -> Result<Option<Response>, Failure> {
    let (Some(peers), Some(tenures)) = (app.peers(), app.shell.tenures()) else { return Ok(None) };
    let Some(name) = request.share().ok().filter(|_| is_about_share(row)) else { return Ok(None) };
    let account = &request.account.name;
    let found = match share::find(&app.shell, account, &name, None).await {
        Ok(found) => found,
        Err(Failure::Refused(_)) => return Ok(None),
        Err(failure) => return Err(failure),
    };
    match tenures.own(account, &name, &found).await? {
        Tenure::Ours => Ok(None),
        // Never twice: the gateway that passed it on may ask there itself.
        Tenure::Theirs { address } if request.is_forwarded => {
            Err(Refusal::from(ErrorCode::ServerBusy).header(OWNER, address).into())
        }
        Tenure::Theirs { address } => forward(peers, request, &address, body).await.map(Some),
    }
}

/// A second gateway is asked if the first one knows better, and the client's body is still to come.
async fn forward(
    peers: &Peers,
    request: &Request<'_>,
    address: &str,
    body: &mut Body<'_>,
) -> Result<Response, Failure> {
    let client = Client { address: request.client, tls: request.tls };
    let mut asked = address.to_string();
    let mut forwarded = peers.forward(&asked, client, request.head, body).await;
    if let Ok((answered, _)) = &forwarded
        && let (503, Some(owner), false) = (answered.status, answered.header(OWNER), body.is_begun())
    {
        asked = owner.to_string();
        forwarded = peers.forward(&asked, client, request.head, body).await;
    }
    let unreachable = |error: std::io::Error| {
        tracing::warn!(request = %request.id, owner = asked, %error, "the owner of a share did not answer");
        unanswered(request.head.method(), error)
    };
    match forwarded {
        Ok((answered, rest)) => {
            tracing::debug!(request = %request.id, owner = asked, status = answered.status, "forwarded");
            relayed(request.head.method(), answered, rest).await.map_err(unreachable)
        }
        Err(NotAnswered::Client(error)) => Err(refused(&error).into()),
        Err(NotAnswered::Peer(error)) => Err(unreachable(error)),
    }
}

/// Whoever is told to come again would find what it did itself: that is said only where the owner cannot have done anything.
fn unanswered(method: &str, error: std::io::Error) -> Failure {
    use std::io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    let is_unsent = matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable);
    if is_unsent || matches!(method, "GET" | "HEAD") {
        return ErrorCode::ServerBusy.into();
    }
    let detail = format!("the owner of the share did not answer, and the outcome is not known: {error}");
    Fault::Other { doing: "forwarding a request".into(), detail }.into()
}

/// The owner's answer, as it was made.
async fn relayed(method: &str, answered: Answered, mut rest: Rest) -> std::io::Result<Response> {
    let body = match rest.left() {
        _ if method == "HEAD" => ResponseBody::Head { bytes: answered.content_bytes },
        0 => ResponseBody::Empty,
        bytes => {
            let first = rest.next().await.map_err(std::io::Error::other)?.unwrap_or_default();
            ResponseBody::Content { first, pieces: Box::new(Pieces::Relayed(rest)), bytes }
        }
    };
    let mut response = Response::relayed(answered.status, answered.reason, body);
    for (name, value) in answered.headers.into_iter().filter(|(name, _)| !name.eq_ignore_ascii_case(OWNER)) {
        response.header(name, value);
    }
    Ok(response)
}

/// Another gateway asks for a share: 200 if it is let go, 409 if somebody here needs it.
pub async fn let_go(app: &App, group: &GroupId) -> Result<u16, Failure> {
    let Some(tenures) = app.shell.tenures() else { return Ok(409) };
    Ok(if tenures.let_go(group).await? { 200 } else { 409 })
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;

    #[test]
    fn only_what_was_not_done_is_to_be_sent_again() {
        for (method, kind, is_known) in [
            ("PUT", ErrorKind::ConnectionRefused, true),
            ("PUT", ErrorKind::HostUnreachable, true),
            ("PUT", ErrorKind::ConnectionReset, false),
            ("DELETE", ErrorKind::UnexpectedEof, false),
            ("PUT", ErrorKind::TimedOut, false),
            ("GET", ErrorKind::ConnectionReset, true),
        ] {
            let failure = unanswered(method, Error::from(kind));
            assert_eq!(matches!(failure, Failure::Refused(_)), is_known, "{method} {kind:?}");
        }
    }
}
