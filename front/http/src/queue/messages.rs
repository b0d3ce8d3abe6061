//! Messages on the wire.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use contract::operations::Operation;
use contract::{ApiVersion, ErrorCode, Refusal, limits};
use env::{Id, Timestamp};
use partition::queue::message::{self as model, Queue, Received};
use partition::record::Message;
use partition::{Failure, Shell};

use super::{parameters, uncached};
use crate::body::{receive, too_large};
use crate::request::Request;
use crate::respond::document;
use crate::wire::{Body, BodyKind, Response};
use crate::xml::XmlWriter;
use crate::xml::read::{self, invalid};

pub async fn put(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    body: &mut Body<'_>,
) -> Result<Response, Failure> {
    let name = request.queue()?;
    let queue = Queue { account: &request.account.name, name: &name };
    let (visibility_seconds, time_to_live) = parameters::put_times(
        request.query.get("visibilitytimeout"),
        request.query.get("messagettl"),
        request.version,
    )?;
    let text = parse_text(&sent(request, body).await?, request.version)?;
    let (message, next_visible) = model::put(shell, queue, text, visibility_seconds, time_to_live).await?;
    if request.version < ApiVersion::PUT_MESSAGE_ANSWERS {
        return Ok(Response::new(row.status));
    }
    let mut xml = XmlWriter::new();
    xml.open("QueueMessagesList").open("QueueMessage");
    put_times(&mut xml, &message);
    put_receipt(&mut xml, &message, next_visible);
    xml.close("QueueMessage").close("QueueMessagesList");
    Ok(document(request, row, xml.finish()))
}

pub async fn get(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let name = request.queue()?;
    let queue = Queue { account: &request.account.name, name: &name };
    let wanted = parameters::messages_wanted(request.query.get("numofmessages"))?;
    let visibility = request.query.get("visibilitytimeout");
    let visibility_seconds = parameters::get_visibility(visibility, request.version)?;
    let received = model::get(shell, queue, wanted, visibility_seconds).await?;
    Ok(messages(request, row, &received, true))
}

pub async fn peek(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let name = request.queue()?;
    let queue = Queue { account: &request.account.name, name: &name };
    let wanted = parameters::messages_wanted(request.query.get("numofmessages"))?;
    let seen = model::peek(shell, queue, wanted).await?;
    Ok(messages(request, row, &seen, false))
}

pub async fn clear(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    partition::queue::clear(shell, &request.account.name, &request.queue()?).await?;
    Ok(Response::new(row.status))
}

pub async fn update(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    body: &mut Body<'_>,
) -> Result<Response, Failure> {
    let name = request.queue()?;
    let queue = Queue { account: &request.account.name, name: &name };
    let message = (message_id(request)?, receipt(request)?);
    let visibility_seconds = parameters::update_visibility(request.query.get("visibilitytimeout"))?;
    // Without a document the text stays as it is.
    let document = sent(request, body).await?;
    let text = if document.is_empty() { None } else { Some(parse_text(&document, request.version)?) };
    let (message, next_visible) = model::update(shell, queue, message, visibility_seconds, text).await?;
    let mut response = Response::new(row.status);
    response.header("x-ms-popreceipt", write_receipt(message.receipt));
    response.header("x-ms-time-next-visible", next_visible.http_date());
    Ok(response)
}

pub async fn delete(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let name = request.queue()?;
    let queue = Queue { account: &request.account.name, name: &name };
    model::delete(shell, queue, (message_id(request)?, receipt(request)?)).await?;
    Ok(Response::new(row.status))
}

async fn sent(request: &Request<'_>, body: &mut Body<'_>) -> Result<Vec<u8>, Failure> {
    match request.head.body {
        BodyKind::Absent => Err(ErrorCode::MissingContentLengthHeader.into()),
        BodyKind::Length(bytes) if bytes > body.bytes_max => Err(too_large(body.bytes_max).into()),
        BodyKind::Length(_) | BodyKind::Chunked => receive(body).await,
    }
}

/// `<QueueMessage><MessageText>…</MessageText></QueueMessage>`; the text as it was sent, to the last blank.
fn parse_text(document: &[u8], version: ApiVersion) -> Result<Bytes, Refusal> {
    let root = read::parse(document)?;
    if root.name != "QueueMessage" {
        return Err(invalid("The root element is not QueueMessage."));
    }
    let [element] = root.children.as_slice() else {
        return Err(invalid("A QueueMessage has one MessageText and nothing else."));
    };
    if element.name != "MessageText" {
        return Err(invalid("A QueueMessage has one MessageText and nothing else."));
    }
    if !element.children.is_empty() {
        return Err(invalid("Markup in a MessageText has to be escaped."));
    }
    let bytes_max = match version >= ApiVersion::LARGE_MESSAGES {
        true => limits::QUEUE_MESSAGE_TEXT_BYTES_MAX,
        false => limits::QUEUE_MESSAGE_TEXT_BYTES_MAX_BEFORE_2011_08_18,
    };
    if element.text.len() as u64 > bytes_max {
        return Err(too_large(bytes_max));
    }
    Ok(Bytes::copy_from_slice(element.text.as_bytes()))
}

/// The end of `/queue/messages/id`. What is no id of ours names no message.
fn message_id(request: &Request<'_>) -> Result<Id, Refusal> {
    let rest = request.address.rest.as_deref().unwrap_or_default();
    let text = rest.strip_prefix("messages/").ok_or(ErrorCode::InvalidUri)?;
    parse_id(text).ok_or_else(|| ErrorCode::MessageNotFound.into())
}

fn parse_id(text: &str) -> Option<Id> {
    let right = text.len() == 36
        && text.bytes().enumerate().all(|(at, b)| match at {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_hexdigit(),
        });
    right.then(|| u128::from_str_radix(&text.replace('-', ""), 16).ok().map(Id))?
}

fn receipt(request: &Request<'_>) -> Result<Id, Refusal> {
    let text = request.query.get("popreceipt").ok_or_else(|| Refusal::missing_query("popreceipt"))?;
    read_receipt(text).ok_or_else(|| Refusal::bad_query("popreceipt", text, "Not a pop receipt of this service."))
}

fn write_receipt(receipt: Id) -> String {
    STANDARD.encode(receipt.0.to_be_bytes())
}

fn read_receipt(text: &str) -> Option<Id> {
    let bytes: [u8; 16] = STANDARD.decode(text).ok()?.try_into().ok()?;
    Some(Id(u128::from_be_bytes(bytes)))
}

fn messages(request: &Request<'_>, row: &Operation, messages: &[Received], with_receipts: bool) -> Response {
    let mut xml = XmlWriter::new();
    if messages.is_empty() {
        xml.element("QueueMessagesList", "");
        return uncached(document(request, row, xml.finish()));
    }
    xml.open("QueueMessagesList");
    for received in messages {
        xml.open("QueueMessage");
        put_times(&mut xml, &received.message);
        if with_receipts {
            put_receipt(&mut xml, &received.message, received.next_visible);
        }
        xml.element("DequeueCount", &received.message.dequeue_count.to_string());
        xml.element("MessageText", &String::from_utf8_lossy(&received.text)); // it was text when it was stored
        xml.close("QueueMessage");
    }
    xml.close("QueueMessagesList");
    uncached(document(request, row, xml.finish()))
}

fn put_times(xml: &mut XmlWriter, message: &Message) {
    xml.element("MessageId", &message.id.to_string());
    xml.element("InsertionTime", &message.inserted.http_date());
    xml.element("ExpirationTime", &message.expiry.http_date());
}

fn put_receipt(xml: &mut XmlWriter, message: &Message, next_visible: Timestamp) {
    xml.element("PopReceipt", &write_receipt(message.receipt));
    xml.element("TimeNextVisible", &next_visible.http_date());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let of = |inner: &str| format!("<?xml version='1.0'?>\n<QueueMessage>\n {inner}\n</QueueMessage>");
        let parse = |text: &str| parse_text(text.as_bytes(), ApiVersion::NEWEST_KNOWN);
        for (inner, expected) in [
            ("<MessageText>a</MessageText>", "a"),
            ("<MessageText />", ""),
            ("<MessageText></MessageText>", ""),
            ("<MessageText> \r\n\ta &lt;b&gt; &amp;&#xD; </MessageText>", " \r\n\ta <b> &\r "),
            ("<MessageText><![CDATA[<x>]]></MessageText>", "<x>"),
            ("<MessageText>\u{1f600}\u{85}\u{7f}</MessageText>", "\u{1f600}\u{85}\u{7f}"),
        ] {
            assert_eq!(parse(&of(inner)).as_deref(), Ok(expected.as_bytes()), "{inner}");
        }
        for inner in [
            "",
            "text",
            "<messagetext>a</messagetext>",
            "<MessageText>a</MessageText><MessageText>b</MessageText>",
            "<MessageText><b>a</b></MessageText>",
            "<MessageText>\u{1}</MessageText>",
            "<MessageText>&#2;</MessageText>",
            "<MessageText>",
        ] {
            let refusal = parse(&of(inner)).expect_err(inner);
            assert_eq!(refusal.code, ErrorCode::InvalidXmlDocument, "{inner}");
        }
        assert!(parse("<Message><MessageText>a</MessageText></Message>").is_err());
        assert!(parse("").is_err());
        // Counted as it is stored, not as it was escaped.
        let sized = |text: String| of(&format!("<MessageText>{text}</MessageText>"));
        assert_eq!(parse(&sized("&#97;".repeat(65_536))).map(|text| text.len()), Ok(65_536));
        assert_eq!(parse(&sized("\u{e9}".repeat(32_768))).map(|text| text.len()), Ok(65_536));
        let long = parse(&sized("a".repeat(65_537))).expect_err("too long");
        assert_eq!((long.code, long.detail), (ErrorCode::RequestBodyTooLarge, vec![("MaxLimit", "65536".to_string())]));
        let old = ApiVersion::parse("2009-09-19").expect("a version");
        assert!(parse_text(sized("a".repeat(8193)).as_bytes(), old).is_err());
    }

    #[test]
    fn ids_and_receipts() {
        let id = Id(0x0123456789abcdef0123456789abcdef);
        assert_eq!(parse_id(&id.to_string()), Some(id));
        assert_eq!(parse_id(&id.to_string().to_uppercase()), Some(id));
        for text in ["", "1", "0123456789abcdef0123456789abcdef", "01234567-89ab-cdef-0123-456789abcdeg", "\u{e9}"] {
            assert_eq!(parse_id(text), None, "{text}");
        }
        assert_eq!(read_receipt(&write_receipt(id)), Some(id));
        for text in ["", "abc", "AAAA", "*", "AAAAAAAAAAAAAAAAAAAAAAAAAAAA"] {
            assert_eq!(read_receipt(text), None, "{text}");
        }
    }
}
