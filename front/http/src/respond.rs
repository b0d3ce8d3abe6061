//! What every answer has: the common headers, and the one way from a refusal to bytes.

use std::sync::Arc;

use contract::names::Metadata;
use contract::operations::{Operation, OperationId};
use contract::{ApiVersion, ErrorCode, Refusal, Service};
use env::{Id, Timestamp};
use partition::{ETag, Failure};

use crate::account::Account;
use crate::request::Request;
use crate::wire::{Head, Response, ResponseBody};
use crate::xml::XmlWriter;

/// An answer that is a document of XML; to HEAD only its length.
pub fn document(request: &Request<'_>, row: &Operation, xml: String) -> Response {
    let mut response = Response::new(row.status).with_header("Content-Type", "application/xml");
    response.body = match request.head.method() {
        "HEAD" => ResponseBody::Head { bytes: Some(xml.len() as u64) },
        _ => ResponseBody::Bytes(xml.into()),
    };
    response
}

/// What is known of a request however early it failed.
pub struct Context<'a> {
    pub service: Service,
    pub head: Option<&'a Head>,
    pub id: Id,
    pub now: Timestamp,
    /// `None` until the request has been authenticated: such answers do not tell the service's name or version.
    pub version: Option<ApiVersion>,
    /// For whoever looks at the server, as far as it is known.
    pub account: Option<Arc<Account>>,
    pub operation: Option<OperationId>,
    pub string_to_sign: Option<String>,
}

impl<'a> Context<'a> {
    pub fn new(service: Service, head: Option<&'a Head>, id: Id, now: Timestamp) -> Context<'a> {
        Context { service, head, id, now, version: None, account: None, operation: None, string_to_sign: None }
    }

    /// Adds the common headers to an answer.
    pub fn finish(&self, mut response: Response) -> Response {
        if response.is_relayed {
            return response;
        }
        match self.version {
            Some(version) => {
                response.header("Server", self.service.server_header());
                // What the client sent is what it gets back, also when it is newer than we know.
                let sent = self.head.and_then(|head| head.header("x-ms-version"));
                response.header("x-ms-version", sent.map_or_else(|| version.to_string(), str::to_string));
            }
            None => {
                response.header("Server", "Microsoft-HTTPAPI/2.0");
            }
        }
        response.header("x-ms-request-id", self.id.to_string());
        let client_id = self.head.and_then(|head| head.header("x-ms-client-request-id"));
        let echoes = self.version.is_none_or(|version| version >= ApiVersion::CLIENT_REQUEST_ID_ECHOED);
        if let Some(client_id) = client_id.filter(|_| echoes) {
            let fits = client_id.len() <= contract::limits::CLIENT_REQUEST_ID_CHARS_MAX
                && client_id.bytes().all(|b| (0x21..=0x7e).contains(&b));
            if fits {
                response.header("x-ms-client-request-id", client_id.to_string());
            }
        }
        response.header("Date", self.now.http_date());
        response
    }

    /// A failure as the service words it. Faults are logged with the request's id and tell the client nothing else.
    pub fn failure(&self, failure: Failure) -> Response {
        match failure {
            Failure::Refused(refusal) => self.refusal(refusal),
            Failure::Gone => self.refusal(ErrorCode::ResourceNotFound.into()),
            // Nobody had the patience.
            Failure::Waits(_) => self.refusal(ErrorCode::ClientCacheFlushDelay.into()),
            Failure::Fault(engine::Fault::Full) => {
                tracing::error!(request = %self.id, "refused a write: the disk is full");
                self.refusal(ErrorCode::ServerBusy.into())
            }
            // Nothing is wrong, and nothing was done: others were faster every time.
            Failure::Fault(engine::Fault::Moved) => {
                tracing::warn!(request = %self.id, "gave up: the partition changes all the time");
                self.refusal(ErrorCode::ServerBusy.into())
            }
            // Another gateway has the share since a moment ago, or nobody.
            Failure::Fault(engine::Fault::Elsewhere) => {
                tracing::warn!(request = %self.id, "gave up: another gateway owns the share");
                self.refusal(ErrorCode::ServerBusy.into())
            }
            Failure::Fault(fault) => {
                tracing::error!(request = %self.id, %fault, "storage failed");
                self.refusal(ErrorCode::InternalError.into())
            }
        }
    }

    pub fn refusal(&self, refusal: Refusal) -> Response {
        let mut response = Response::new(refusal.status);
        if refusal.status != 304 {
            response.reason = refusal.code.message().into();
        }
        if self.version.is_none_or(|version| version >= ApiVersion::ERROR_CODE_HEADER) {
            response.header("x-ms-error-code", refusal.code.name());
        }
        for (name, value) in &refusal.headers {
            response.header(*name, value.clone());
        }
        let is_head = self.head.is_some_and(|head| head.method() == "HEAD");
        if is_head {
            response.body = ResponseBody::Head { bytes: None };
        } else if let (Service::Table, Some(head)) = (self.service, self.head)
            && crate::table::speaks_odata(head)
        {
            let (content_type, body) = crate::table::error(head, &refusal, self.id, self.now);
            response.header("Content-Type", content_type);
            response.body = ResponseBody::Bytes(body.into());
        } else if refusal.status != 304 {
            let mut xml = XmlWriter::new();
            let text = format!("{}\nRequestId:{}\nTime:{}", refusal.message(), self.id, self.now.iso8601());
            xml.open("Error").element("Code", refusal.code.name()).element("Message", &text);
            for (name, value) in &refusal.detail {
                xml.element(name, value);
            }
            xml.close("Error");
            response.header("Content-Type", "application/xml");
            response.body = ResponseBody::Bytes(xml.finish().into());
        }
        response.refusal = Some(Box::new(refusal));
        self.finish(response)
    }
}

/// ETag and Last-Modified.
pub fn stamp(response: &mut Response, etag: ETag, last_modified: Timestamp) {
    response.header("ETag", etag.quoted()).header("Last-Modified", last_modified.http_date());
}

/// `x-ms-meta-*`, names as they were given.
pub fn put_metadata(response: &mut Response, metadata: &Metadata) {
    for (name, value) in metadata.iter() {
        response.header(format!("x-ms-meta-{name}"), value.to_string());
    }
}
