//! The source of a request, found and authorized: what reading it as a request of its own would be allowed, copying it is.

use std::sync::Arc;

use contract::names::{BlobName, ContainerName, FilePath, ShareName};
use contract::operations::{Operation, OperationId};
use contract::{ErrorCode, Refusal, Service, limits};
use env::Timestamp;
use partition::Failure;
use partition::blob::Which;
use partition::blob::copy::SourceExpectation;
use partition::checks::Expectation;
use partition::copying::of_source;

use super::SourceUrl;
use crate::account::Account;
use crate::app::App;
use crate::auth::{self, Credential};
use crate::request::Request;
use crate::route::route;
use crate::wire::Head;

const AUTHORIZATION: &str = "x-ms-copy-source-authorization";
const IF_TAGS: &str = "x-ms-source-if-tags";

/// Where a source is.
pub enum Origin {
    Blob(OwnBlob),
    File(OwnFile),
    Outside(OutsideSource),
}

impl Origin {
    /// What a reader of the copy is shown: where it is from, not how to read it.
    pub fn shown(&self) -> String {
        match self {
            Origin::Blob(OwnBlob { url, .. }) => url.shown(&["snapshot", "versionid"]),
            Origin::File(OwnFile { url, .. }) => url.shown(&["sharesnapshot"]),
            Origin::Outside(OutsideSource { url, .. }) => url.shown(&[]),
        }
    }
}

/// A blob of this server that the request may read.
pub struct OwnBlob {
    pub account: Arc<Account>,
    pub container: ContainerName,
    pub blob: BlobName,
    pub which: Which,
    pub url: SourceUrl,
}

impl OwnBlob {
    /// Is it a state of the blob that the request writes to?
    pub fn is_of(&self, request: &Request<'_>, container: &ContainerName, blob: &BlobName) -> bool {
        self.account.name == request.account.name && self.container == *container && self.blob == *blob
    }
}

/// A file of this server that the request may read.
pub struct OwnFile {
    pub account: Arc<Account>,
    pub share: ShareName,
    pub path: FilePath,
    /// The snapshot of the share, by when it was taken.
    pub snapshot: Option<Timestamp>,
    /// Of the request that getting it would be.
    pub expectation: Expectation,
    url: SourceUrl,
}

/// Something that the list has not been asked about yet.
pub struct OutsideSource {
    pub url: SourceUrl,
    /// `Bearer …`, to be sent along.
    pub authorization: Option<String>,
}

/// Finds what `x-ms-copy-source` names. `own` is the request's own credential, where that is enough for what its own account has in the
/// same service.
pub async fn find(app: &App, request: &Request<'_>, own: Option<&Credential>) -> Result<Origin, Failure> {
    let url = request.header(SourceUrl::HEADER).ok_or_else(|| Refusal::missing_header(SourceUrl::HEADER))?;
    let url = SourceUrl::parse(url)?;
    let authorization = authorization(request)?;
    let host = request.head.header("host").unwrap_or_default();
    match url.own(request.service, host, &app.listening()) {
        None => Ok(Origin::Outside(OutsideSource { url, authorization })),
        Some(service @ (Service::Blob | Service::File)) => {
            let own = own.filter(|_| service == request.service);
            read_as_request(app, request, service, &url, authorization.as_deref(), own).await.map_err(unreadable)
        }
        // Nobody copies messages and entities.
        Some(_) => Err(Refusal::bad_header(SourceUrl::HEADER, url.as_str()).into()),
    }
}

fn authorization(request: &Request<'_>) -> Result<Option<String>, Refusal> {
    match request.header(AUTHORIZATION) {
        None => Ok(None),
        Some(value) if value.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer ")) => {
            Ok(Some(format!("Bearer {}", value[7..].trim())))
        }
        // A secret is not repeated.
        Some(_) => Err(Refusal::bad_header(AUTHORIZATION, "only Bearer is taken")),
    }
}

/// The GET that reading the source would be, through the same stages.
async fn read_as_request(
    app: &App,
    request: &Request<'_>,
    service: Service,
    url: &SourceUrl,
    authorization: Option<&str>,
    own: Option<&Credential>,
) -> Result<Origin, Failure> {
    let mut text = format!("GET {} HTTP/1.1\r\nHost: {}\r\n", url.target(), url.authority());
    text.push_str(&format!("x-ms-version: {}\r\n", request.version));
    if let Some(authorization) = authorization {
        text.push_str(&format!("Authorization: {authorization}\r\n"));
    }
    // Asking about tags takes the right to read them.
    let copies_tags =
        request.header("x-ms-copy-source-tag-option").is_some_and(|value| value.eq_ignore_ascii_case("copy"));
    if copies_tags || request.header(IF_TAGS).is_some() {
        text.push_str("x-ms-if-tags: a = 'a'\r\n");
    }
    if request.flag("x-ms-source-allow-trailing-dot")? {
        text.push_str("x-ms-allow-trailing-dot: true\r\n");
    }
    if let Some(intent) = request.header("x-ms-file-request-intent") {
        text.push_str(&format!("x-ms-file-request-intent: {intent}\r\n"));
    }
    text.push_str("\r\n");
    let bad = || Refusal::bad_header(SourceUrl::HEADER, url.as_str());
    let (head, _) = Head::parse(text.as_bytes()).ok().flatten().ok_or_else(bad)?;
    // A token came the way the request came; a SAS is as good as the address it stands in.
    let tls = request.tls || authorization.is_none() && url.https;
    let (address, query, account) = app.address(service, tls, &head)?;
    let source = Request {
        service,
        head: &head,
        address,
        query,
        account,
        settings: request.settings.clone(),
        version: request.version,
        client: request.client,
        tls,
        is_forwarded: request.is_forwarded,
        id: request.id,
        now: request.now,
    };
    let row = route(&source)?;
    if !matches!(row.id, OperationId::GetBlob | OperationId::GetFile) {
        return Err(bad().into());
    }
    let tokens = app.tokens();
    let tokens = tokens.as_deref();
    let brought = auth::authenticate(&app.shell, tokens, &source).await?;
    let own = own.filter(|own| source.account.name == request.account.name && own.reaches_beyond());
    let allowed = auth::authorize(&app.shell, tokens, &source, row, &brought).await;
    match (allowed, own) {
        // Nothing was brought for the source, and it is not public.
        (Err(_), Some(own)) if matches!(brought, Credential::Anonymous) => {
            auth::authorize(&app.shell, tokens, &source, row, own).await?
        }
        (allowed, _) => allowed?,
    };
    let (account, url) = (source.account.clone(), url.clone());
    if service == Service::File {
        let (share, path, snapshot) = (source.share()?, source.file_path()?, source.share_snapshot()?);
        let expectation = source.expectation(row)?;
        return Ok(Origin::File(OwnFile { account, share, path, snapshot, expectation, url }));
    }
    let (container, blob, which) = (source.container()?, source.blob()?, source.which()?);
    Ok(Origin::Blob(OwnBlob { account, container, blob, which, url }))
}

/// What kept the source from being read, as the copy's own refusal: the source's status, and its code in a header.
pub fn unreadable(failure: Failure) -> Failure {
    match failure {
        Failure::Refused(refusal) if is_the_copys(refusal.code) => refusal.into(),
        Failure::Refused(refusal) => of_source(&refusal).into(),
        Failure::Gone => of_source(&ErrorCode::ContainerNotFound.into()).into(),
        fault => fault,
    }
}

/// Refusals that were worded for the copy already.
fn is_the_copys(code: ErrorCode) -> bool {
    use ErrorCode::*;
    matches!(
        code,
        InvalidHeaderValue
            | CannotVerifyCopySource
            | SourceConditionNotMet
            | RequestBodyTooLarge
            | InvalidSourceBlobType
            | UnsatisfiableCondition
    )
}

/// The File service judges no conditions on sources, so none is taken.
pub fn expectation_of_file(request: &Request<'_>, row: &'static Operation) -> Result<SourceExpectation, Refusal> {
    let expectation = expectation(request, row)?;
    match expectation.conditions.is_empty() {
        true => Ok(SourceExpectation { bytes_max: limits::FILE_BYTES_MAX, ..expectation }),
        false => Err(ErrorCode::ConditionHeadersNotSupported.into()),
    }
}

/// `x-ms-source-if-…`.
pub fn expectation(request: &Request<'_>, row: &'static Operation) -> Result<SourceExpectation, Refusal> {
    let judges_tags = matches!(row.id, OperationId::CopyBlob | OperationId::PutBlobFromUrl);
    if request.header(IF_TAGS).is_some() && !judges_tags {
        return Err(Refusal::from(ErrorCode::ConditionHeadersNotSupported).with("HeaderName", IF_TAGS));
    }
    let names = [
        "x-ms-source-if-match",
        "x-ms-source-if-none-match",
        "x-ms-source-if-modified-since",
        "x-ms-source-if-unmodified-since",
    ];
    let conditions = request.conditions_named(Some(names), IF_TAGS)?;
    Ok(SourceExpectation {
        operation: row,
        version: request.version,
        conditions,
        takes_archived: false,
        only_blocks: false,
        bytes_max: u64::MAX,
        seen: None,
    })
}
