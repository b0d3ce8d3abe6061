//! Blob Batch on the wire: many deletions, or many changes of tier, in one request.
//!
//! A batch as a whole is right or wrong; its parts are requests of their own. Each brings its own credential, is authorized on its own
//! and has its own answer, and none knows of the others: they run side by side, so that they share commits.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use bytes::BytesMut;
use contract::Refusal;
use contract::limits::BATCH_PARTS_MAX;
use contract::operations::{Operation, OperationId, Resource};
use engine::BoxFuture;
use partition::Failure;

use crate::app::App;
use crate::body::receive;
use crate::multipart::{self, Part, invalid, put};
use crate::request::Request;
use crate::respond::Context;
use crate::route::route;
use crate::wire::{Body, BodyKind, Head, Response, ResponseBody};

pub async fn submit(
    app: &App,
    request: &Request<'_>,
    row: &'static Operation,
    body: &mut Body<'_>,
) -> Result<Response, Failure> {
    let content_type = request.header("content-type").ok_or(Refusal::missing_header("Content-Type"))?;
    let boundary = multipart::boundary(content_type);
    let boundary = boundary.ok_or_else(|| Refusal::bad_header("Content-Type", content_type))?;
    let body = receive(body).await?;
    let parts = parse(&body, &boundary)?;
    let heads: Vec<Head> =
        parts.iter().map(|(_, part)| multipart::head(request, part)).collect::<Result<_, Refusal>>()?;
    let mut asked = Vec::with_capacity(parts.len());
    for head in &heads {
        asked.push(Request { id: app.shell.ids.next(), ..multipart::inner_request(request, head)? });
    }
    judge(request, row, &asked)?;

    let answers = all(asked.iter().map(|part| answer(app, part)).collect()).await;
    let id = app.shell.ids.next().to_string();
    let mut out = Vec::new();
    for ((content_id, _), response) in parts.iter().zip(&answers) {
        put_answer(&mut out, &id, *content_id, response);
    }
    put(&mut out, &format!("--batchresponse_{id}--\r\n"));
    let content_type = format!("multipart/mixed; boundary=batchresponse_{id}");
    let mut response = Response::new(row.status).with_header("Content-Type", content_type);
    response.body = ResponseBody::Bytes(out.into());
    Ok(response)
}

/// The requests in a batch, each with its Content-ID.
fn parse<'a>(body: &'a [u8], boundary: &str) -> Result<Vec<(Option<&'a str>, Part<'a>)>, Refusal> {
    let sections = multipart::sections(body, boundary);
    if sections.is_empty() || sections.len() > BATCH_PARTS_MAX {
        return Err(invalid("A batch has 1 to 256 parts."));
    }
    let part = |section: &&'a [u8]| {
        let (headers, content) = multipart::headers(section)?;
        let content_type = multipart::find(&headers, "content-type").unwrap_or_default();
        if multipart::media_type(content_type) != "application/http" {
            return Err(invalid("A part of a batch is application/http."));
        }
        Ok((multipart::find(&headers, "content-id"), multipart::part(content)?))
    };
    sections.iter().map(part).collect()
}

/// All parts ask for the same, one of the two operations that come in batches, and stay in the container if the batch is one's.
fn judge(request: &Request<'_>, row: &Operation, parts: &[Request<'_>]) -> Result<(), Refusal> {
    let mut first = None;
    for part in parts {
        let id = route(part).map_err(|_| invalid("A part of the batch is no operation on a blob."))?.id;
        if !matches!(id, OperationId::DeleteBlob | OperationId::SetBlobTier) {
            return Err(invalid("A batch deletes blobs or sets their tiers."));
        }
        if *first.get_or_insert(id) != id {
            return Err(invalid("All parts of a batch ask for the same operation."));
        }
        if row.on == Resource::Container && part.container()? != request.container()? {
            return Err(invalid("A part of the batch is outside of its container."));
        }
    }
    Ok(())
}

/// Not an async function: a batch is dispatched, and dispatches its parts.
fn answer<'a>(app: &'a App, part: &'a Request<'_>) -> BoxFuture<'a, Response> {
    Box::pin(async move {
        let (service, id, now) = (part.service, part.id, part.now);
        let mut context = Context::new(service, Some(part.head), id, now);
        context.account = Some(part.account.clone());
        let (mut nothing, mut buffer) = (tokio::io::empty(), BytesMut::new());
        let mut body = Body::new(&mut nothing, &mut buffer, BodyKind::Absent, false, Duration::ZERO);
        let response = match app.operate(part, &mut context, &mut body).await {
            Ok(response) => context.finish(response),
            Err(failure) => context.failure(failure),
        };
        app.observe(&context, Some(part.client), 0, &response);
        response
    })
}

/// All of them at once, answers in the order of the parts.
async fn all<T: Unpin>(mut futures: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    let mut done: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut is_pending = false;
        for (future, done) in futures.iter_mut().zip(&mut done).filter(|(_, done)| done.is_none()) {
            match future.as_mut().poll(context) {
                Poll::Ready(answer) => *done = Some(answer),
                Poll::Pending => is_pending = true,
            }
        }
        if is_pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    done.into_iter().flatten().collect()
}

fn put_answer(out: &mut Vec<u8>, batch: &str, content_id: Option<&str>, response: &Response) {
    put(out, &format!("--batchresponse_{batch}\r\nContent-Type: application/http\r\n"));
    // What a client sent may not break the line it is echoed in.
    if let Some(id) = content_id.filter(|id| id.bytes().all(|b| b.is_ascii_graphic() || b == b' ')) {
        put(out, &format!("Content-ID: {id}\r\n"));
    }
    put(out, &format!("\r\nHTTP/1.1 {} {}\r\n", response.status, response.reason));
    for (name, value) in &response.headers {
        put(out, &format!("{name}: {value}\r\n"));
    }
    if let ResponseBody::Bytes(body) = &response.body {
        put(out, &format!("Content-Length: {}\r\n\r\n", body.len()));
        out.extend_from_slice(body);
    } else {
        put(out, "\r\n");
    }
    put(out, "\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::ErrorCode;

    #[test]
    fn what_clients_send() {
        let python = "--batch_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: 0\r\n\r\nDELETE /dev/c/a%20b? HTTP/1.1\r\nx-ms-date: Fri, 02 Jan 2026 03:04:05 GMT\r\nAuthorization: SharedKey dev:x\r\nContent-Length: 0\r\n\r\n\r\n--batch_1\r\nContent-Type: application/http\r\nContent-ID: 1\r\n\r\nDELETE /dev/c/b HTTP/1.1\r\n\r\n--batch_1--\r\n";
        let parts = parse(python.as_bytes(), "batch_1").expect("right");
        let shown: Vec<_> = parts.iter().map(|(id, part)| (*id, part.method, part.target)).collect();
        assert_eq!(shown, [(Some("0"), "DELETE", "/dev/c/a%20b?"), (Some("1"), "DELETE", "/dev/c/b")]);
        assert_eq!(parts[0].1.header("authorization"), Some("SharedKey dev:x"));

        let part = "--b\r\nContent-Type: application/http\r\n\r\nDELETE /c/b HTTP/1.1\r\n\r\n";
        assert_eq!(parse(format!("{}--b--", part.repeat(256)).as_bytes(), "b").map(|parts| parts.len()), Ok(256));
        for body in [
            "".to_string(),
            "--b--\r\n".into(),
            format!("{}--b--", part.repeat(257)),
            "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c--\r\n--b--".into(),
            "--b\r\nContent-Type: application/http\r\n\r\nnonsense\r\n--b--".into(),
            "--b\r\n\r\nDELETE /c/b HTTP/1.1\r\n\r\n--b--".into(),
        ] {
            let refused = parse(body.as_bytes(), "b").err().map(|refusal| refusal.code);
            assert_eq!(refused, Some(ErrorCode::InvalidInput), "{body:.80}");
        }
    }
}
