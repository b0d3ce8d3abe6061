//! Copy Blob, Copy Blob From URL, Put Blob From URL and Abort Copy Blob on the wire.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use contract::names::{BlobName, ContainerName, Metadata};
use contract::operations::Operation;
use contract::{ErrorCode, Refusal, limits};
use env::Id;
use partition::blob::container::{self, Found};
use partition::blob::copy::{CopyBlob, From, Making, SourceExpectation, Taken, condition_failed, open, take};
use partition::blob::incremental::IncrementalCopy;
use partition::blob::pending::{NoteCopy, SettleCopy, StartCopy, Step};
use partition::blob::{Attributes, Which};
use partition::checks::Expectation;
use partition::record::blob::{CopyState, CopyStatus, Tier};
use partition::record::note::PendingCopy;
use partition::record::{BlobHead, ContentProperties};
use partition::{Content, Failure};

use super::block::{attributes, named_properties};
use super::from_url::{refuse_body, refuse_unbuilt_on_copy};
use super::stamp_made;
use crate::app::App;
use crate::auth::{Credential, Grant};
use crate::copies::Job;
use crate::hash::Expected;
use crate::request::Request;
use crate::source::content::{self, Described, Wanted, answered, condition_headers, fetch, not_opened, source_headers};
use crate::source::origin::{self, Origin, OutsideSource, OwnSource, unreadable};
use crate::source::outside;
use crate::wire::Response;
use crate::xml::XmlWriter;

/// Copy Blob: of our own at once, from outside in the background.
pub async fn copy(
    app: &App,
    request: &Request<'_>,
    row: &'static Operation,
    credential: &Credential,
    grant: Grant,
) -> Result<Response, Failure> {
    let mut copying = Copying::parse(app, request, row, grant, ContentProperties::default())?;
    copying.making.sealed = boolean(request, "x-ms-seal-blob")?;
    copying.source.takes_archived = copying.making.tier.is_some_and(|tier| tier != Tier::Archive);
    let head = match origin::find(app, request, Some(credential)).await? {
        Origin::Own(own) => copying.of_own(&own, Some(own.url.shown_as_own()), &Expected::default()).await?,
        Origin::Outside(outside) => copying.start(outside).await?,
    };
    Ok(copied(row, &head))
}

/// Copy Blob From URL: small block blobs, while the caller waits.
pub async fn copy_from_url(
    app: &App,
    request: &Request<'_>,
    row: &'static Operation,
    grant: Grant,
) -> Result<Response, Failure> {
    let mut copying = Copying::parse(app, request, row, grant, ContentProperties::default())?;
    copying.source.bytes_max = limits::COPY_FROM_URL_BYTES_MAX;
    copying.source.only_blocks = true;
    let expected = content::expected(request)?;
    let head = match origin::find(app, request, None).await? {
        Origin::Own(own) => copying.of_own(&own, Some(own.url.shown_as_own()), &expected).await?,
        Origin::Outside(outside) => {
            let shown = outside.url.shown(&[]);
            copying.of_outside(outside, Some(shown), expected).await?
        }
    };
    let mut response = copied(row, &head);
    put_md5(&mut response, &head);
    Ok(response)
}

/// Put Blob From URL: any source becomes a block blob of one piece.
pub async fn put_from_url(
    app: &App,
    request: &Request<'_>,
    row: &'static Operation,
    grant: Grant,
) -> Result<Response, Failure> {
    if let Some(value) = request.header("x-ms-blob-content-length") {
        return Err(Refusal::bad_header("x-ms-blob-content-length", value).into());
    }
    let mut copying = Copying::parse(app, request, row, grant, named_properties(request)?)?;
    copying.source.bytes_max = limits::PUT_BLOB_BYTES_MAX;
    copying.making.leaves_properties = boolean(request, "x-ms-copy-source-blob-properties")? == Some(false);
    copying.making.is_put = true;
    let expected = content::expected(request)?;
    let head = match origin::find(app, request, None).await? {
        Origin::Own(own) => copying.of_own(&own, None, &expected).await?,
        Origin::Outside(outside) => copying.of_outside(outside, None, expected).await?,
    };
    let mut response = Response::new(row.status);
    stamp_made(&mut response, &head);
    put_md5(&mut response, &head);
    response.header("x-ms-request-server-encrypted", "true");
    Ok(response)
}

fn put_md5(response: &mut Response, head: &BlobHead) {
    if let Some(md5) = head.properties.content_md5 {
        response.header("Content-MD5", STANDARD.encode(md5));
    }
}

/// A copy on its way from request to command.
struct Copying<'a> {
    app: &'a App,
    request: &'a Request<'a>,
    name: ContainerName,
    blob: BlobName,
    expectation: Expectation,
    source: SourceExpectation,
    making: Making,
    grant: Grant,
}

impl<'a> Copying<'a> {
    fn parse(
        app: &'a App,
        request: &'a Request<'a>,
        row: &'static Operation,
        grant: Grant,
        properties: ContentProperties,
    ) -> Result<Copying<'a>, Refusal> {
        let (name, blob) = (request.container()?, request.blob()?);
        refuse_unbuilt_on_copy(request)?;
        refuse_body(request)?;
        let (expectation, source) = (request.expectation(row)?, origin::expectation(request, row)?);
        let making = making(request, properties)?;
        Ok(Copying { app, request, name, blob, expectation, source, making, grant })
    }

    /// A source of ours: its extents are named, and only where its hash is to be compared is it read.
    async fn of_own(
        mut self,
        own: &OwnSource,
        shown: Option<String>,
        expected: &Expected,
    ) -> Result<BlobHead, Failure> {
        let shell = &self.app.shell;
        let destination = self.destination().await?;
        let found = container::find(shell, &own.account.name, &own.container).await.map_err(unreadable)?;
        let (group, compares) = (&found.group, *expected != Expected::default());
        self.making.source = shown;
        let from = if own.is_of(self.request, &self.name, &self.blob) {
            if compares {
                let opened = open(shell, group, &own.blob, own.which, &self.source, None).await;
                let (head, _, reader) = found.settle(shell, opened).await.map_err(unreadable)?;
                expected.check(&content::hash(reader).await?)?;
                self.source.seen = Some(head.etag);
            }
            From::Itself(own.which)
        } else {
            let taken = take(shell, group, &own.blob, own.which, &self.source, self.making.is_put).await;
            let taken = found.settle(shell, taken).await.map_err(unreadable)?;
            if compares {
                expected.check(&content::hash(taken.reader(&shell.engine)).await?)?;
            }
            From::Elsewhere(Box::new(taken))
        };
        let command = self.command(&destination, from);
        destination.settle(shell, shell.execute(&command).await).await
    }

    /// A source outside, while the caller waits.
    async fn of_outside(
        mut self,
        outside: OutsideSource,
        shown: Option<String>,
        expected: Expected,
    ) -> Result<BlobHead, Failure> {
        let shell = &self.app.shell;
        self.refuse_unknowable()?;
        let destination = self.destination().await?;
        self.making.source = shown;
        let nothing = Taken::received(&Content::Inline(Bytes::new()), Attributes::default(), self.request.now);
        let (app, request, source) = (self.app, self.request, self.source.clone());
        let mut command = self.command(&destination, From::Elsewhere(Box::new(nothing)));
        destination.settle(shell, shell.admit(&command).await).await?;
        let wanted =
            Wanted { range: None, bytes_max: source.bytes_max, extents: false, expected, expectation: &source };
        let fetched = fetch(app, request, &Origin::Outside(outside), &wanted).await?;
        let mut attributes = match &fetched.of {
            Described::Outside(headers) => described(headers, source.only_blocks)?,
            Described::Own(_) => Attributes::default(),
        };
        attributes.properties.content_md5 = fetched.actual.map(|actual| actual.md5);
        command.from = From::Elsewhere(Box::new(Taken::received(&fetched.content, attributes, request.now)));
        destination.settle(shell, shell.execute(&command).await).await
    }

    /// A source outside, in the background: looked at, noted, begun.
    async fn start(self, outside: OutsideSource) -> Result<BlobHead, Failure> {
        let (app, shell, request) = (self.app, &self.app.shell, self.request);
        self.refuse_unknowable()?;
        let destination = self.destination().await?;
        let (row, keeping, id) = (self.expectation.operation, request.keeping(), shell.ids.next());
        let begin = |attributes: Attributes, bytes: u64| {
            let copy = CopyState {
                id,
                source: outside.url.shown(&[]),
                status: CopyStatus::Pending,
                bytes_done: 0,
                bytes,
                completed: None,
                description: None,
                incremental: None,
            };
            let (expectation, may) = (self.expectation.clone(), (keeping, self.grant.may_overwrite));
            StartCopy::new(&destination.group, &self.blob, expectation, attributes, may, copy)
        };
        destination.settle(shell, shell.admit(&begin(Attributes::default(), 0)).await).await?;

        let mut headers = source_headers(request, &outside);
        headers.extend(condition_headers(&self.source.conditions));
        let opened = outside::open(&app.copy_sources(), &outside.url, &headers).await.map_err(not_opened)?;
        if let (304 | 412, false) = (opened.status, self.source.conditions.is_empty()) {
            return Err(condition_failed(row, opened.status).into());
        }
        answered(&opened, false)?;
        let headers: Vec<_> = opened.headers().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        // What other types need beside their bytes is not asked for.
        let attributes = self.making.attributes(&described(&headers, true)?);
        let note = PendingCopy {
            group: destination.group.clone(),
            blob: self.blob.as_str().to_string(),
            source: outside.url.as_str().to_string(),
            etag: opened.header("etag").map(str::to_string),
            started: request.now,
        };
        let command = begin(attributes, opened.bytes().unwrap_or_default());
        drop(opened);
        let account = &request.account.name;
        shell.execute(&NoteCopy::put(account, id, note.clone())).await?;
        match destination.settle(shell, shell.execute(&command).await).await {
            Ok(head) => {
                let headers = source_headers(request, &outside);
                let headers = headers.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
                app.copies.begin(Job { account: account.clone(), id, note, headers });
                Ok(head)
            }
            Err(failure) => {
                shell.execute(&NoteCopy::remove(account, id)).await?;
                Err(failure)
            }
        }
    }

    async fn destination(&self) -> Result<Found, Failure> {
        container::find(&self.app.shell, &self.request.account.name, &self.name).await
    }

    /// What only a source of ours can be asked.
    fn refuse_unknowable(&self) -> Result<(), Refusal> {
        let of_tags = if self.source.conditions.if_tags.is_some() {
            Some("x-ms-source-if-tags")
        } else {
            self.making.tags.is_none().then_some("x-ms-copy-source-tag-option")
        };
        match of_tags {
            Some(name) => Err(Refusal::from(ErrorCode::UnsupportedHeader).with("HeaderName", name)),
            None => Ok(()),
        }
    }

    fn command(self, destination: &Found, from: From) -> CopyBlob {
        let (keeping, may_overwrite) = (self.request.keeping(), self.grant.may_overwrite);
        let expectations = (self.expectation, self.source);
        CopyBlob::new(&destination.group, &self.blob, expectations, from, self.making, keeping, may_overwrite)
    }
}

/// What an answer from outside says of its content.
fn described(headers: &[(String, String)], only_blocks: bool) -> Result<Attributes, Refusal> {
    let header = |name: &str| headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone());
    if only_blocks && header("x-ms-blob-type").is_some_and(|kind| kind != "BlockBlob") {
        return Err(ErrorCode::InvalidSourceBlobType.into());
    }
    let metadata = headers.iter().filter_map(|(name, value)| Some((name.strip_prefix("x-ms-meta-")?, value.as_str())));
    Ok(Attributes {
        properties: ContentProperties {
            content_type: header("content-type"),
            content_encoding: header("content-encoding"),
            content_language: header("content-language"),
            content_disposition: header("content-disposition"),
            cache_control: header("cache-control"),
            content_md5: None,
        },
        // What is no metadata here is not worth failing for.
        metadata: Metadata::parse(metadata).unwrap_or_default(),
        ..Attributes::default()
    })
}

/// Abort Copy Blob.
pub async fn abort(app: &App, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    const ACTION: &str = "x-ms-copy-action";
    let (name, blob, shell) = (request.container()?, request.blob()?, &app.shell);
    match request.header(ACTION) {
        Some(action) if action.eq_ignore_ascii_case("abort") => {}
        Some(other) => return Err(Refusal::bad_header(ACTION, other).into()),
        None => return Err(Refusal::missing_header(ACTION).into()),
    }
    let text = request.query.get("copyid").ok_or_else(|| Refusal::missing_query("copyid"))?;
    let id = copy_id(text).ok_or_else(|| Refusal::bad_query("copyid", text, "Not a GUID."))?;
    let expectation = request.expectation(row)?;
    let container = container::find(shell, &request.account.name, &name).await?;
    let command = SettleCopy::new(&container.group, &blob, id, Step::Aborted(Box::new(expectation)));
    container.settle(shell, shell.execute(&command).await).await?;
    // The one who copies notices by itself.
    Ok(Response::new(row.status))
}

/// Incremental Copy Blob: the next snapshot of a page blob that the destination follows.
pub async fn incremental(
    app: &App,
    request: &Request<'_>,
    row: &'static Operation,
    credential: &Credential,
    grant: Grant,
) -> Result<Response, Failure> {
    let (name, blob, shell) = (request.container()?, request.blob()?, &app.shell);
    refuse_unbuilt_on_copy(request)?;
    refuse_body(request)?;
    let (expectation, source) = (request.expectation(row)?, origin::expectation(request, row)?);
    let Origin::Own(own) = origin::find(app, request, Some(credential)).await? else {
        return Err(ErrorCode::InvalidSourceBlobUrl.into());
    };
    let Which::Snapshot(snapshot) = own.which else {
        return Err(ErrorCode::IncrementalCopySourceMustBeSnapshot.into());
    };
    let destination = container::find(shell, &request.account.name, &name).await?;
    let found = container::find(shell, &own.account.name, &own.container).await.map_err(unreadable)?;
    let taken = take(shell, &found.group, &own.blob, own.which, &source, false).await;
    let taken = found.settle(shell, taken).await.map_err(unreadable)?;
    if !taken.head.kind.is_page() {
        return Err(ErrorCode::InvalidSourceBlobType.into());
    }
    let (of, may_overwrite) = ((taken, snapshot), grant.may_overwrite);
    let command = IncrementalCopy::new(&destination.group, &blob, expectation, of, own.url.shown(&[]), may_overwrite);
    let head = destination.settle(shell, shell.execute(&command).await).await?;
    Ok(copied(row, &head))
}

fn copy_id(text: &str) -> Option<Id> {
    let is_hyphen = |(at, byte): (usize, u8)| [8, 13, 18, 23].contains(&at) == (byte == b'-');
    if text.len() != 36 || !text.bytes().enumerate().all(is_hyphen) {
        return None;
    }
    u128::from_str_radix(&text.replace('-', ""), 16).ok().map(Id)
}

fn copied(row: &Operation, head: &BlobHead) -> Response {
    let mut response = Response::new(row.status);
    stamp_made(&mut response, head);
    if let Some(copy) = &head.copy {
        response.header("x-ms-copy-id", copy.id.to_string()).header("x-ms-copy-status", status_name(copy.status));
    }
    response
}

pub fn status_name(status: CopyStatus) -> &'static str {
    match status {
        CopyStatus::Pending => "pending",
        CopyStatus::Success => "success",
        CopyStatus::Aborted => "aborted",
        CopyStatus::Failed => "failed",
    }
}

/// What a blob shows of the copy that made it, or is making it.
pub fn put_copy(response: &mut Response, copy: Option<&CopyState>) {
    let Some(copy) = copy else { return };
    response.header("x-ms-copy-id", copy.id.to_string());
    response.header("x-ms-copy-source", copy.source.clone());
    response.header("x-ms-copy-status", status_name(copy.status));
    response.header("x-ms-copy-progress", format!("{}/{}", copy.bytes_done, copy.bytes));
    if let Some(completed) = copy.completed {
        response.header("x-ms-copy-completion-time", completed.http_date());
    }
    if let Some(description) = &copy.description {
        response.header("x-ms-copy-status-description", description.clone());
    }
    if let Some(incremental) = copy.incremental {
        response.header("x-ms-incremental-copy", "true");
        response.header("x-ms-copy-destination-snapshot", super::moment(incremental.snapshot));
    }
}

/// The same in a listing.
pub fn list_copy(xml: &mut XmlWriter, copy: Option<&CopyState>) {
    let Some(copy) = copy else { return };
    xml.element("CopyId", &copy.id.to_string()).element("CopySource", &copy.source);
    xml.element("CopyStatus", status_name(copy.status));
    xml.element("CopyProgress", &format!("{}/{}", copy.bytes_done, copy.bytes));
    xml.optional("CopyCompletionTime", copy.completed.map(|completed| completed.http_date()).as_deref());
    xml.optional("CopyStatusDescription", copy.description.as_deref());
    if let Some(incremental) = copy.incremental {
        xml.element("IncrementalCopy", "true");
        xml.element("CopyDestinationSnapshot", &super::moment(incremental.snapshot));
    }
}

/// What the request says of the blob to be made; what it does not say is the source's.
fn making(request: &Request<'_>, properties: ContentProperties) -> Result<Making, Refusal> {
    let Attributes { properties, metadata, tags, tier, immutability, legal_hold } = attributes(request, properties)?;
    const OPTION: &str = "x-ms-copy-source-tag-option";
    let tags = match request.header(OPTION) {
        None => Some(tags),
        Some(option) if option.eq_ignore_ascii_case("replace") => Some(tags),
        Some(option) if !option.eq_ignore_ascii_case("copy") || request.header("x-ms-tags").is_some() => {
            return Err(Refusal::bad_header(OPTION, option));
        }
        Some(_) => None,
    };
    let metadata = Some(metadata).filter(|metadata| *metadata != Metadata::default());
    Ok(Making { properties, metadata, tags, tier, immutability, legal_hold, ..Making::default() })
}

fn boolean(request: &Request<'_>, name: &'static str) -> Result<Option<bool>, Refusal> {
    match request.header(name) {
        None => Ok(None),
        Some(value) if value.eq_ignore_ascii_case("true") => Ok(Some(true)),
        Some(value) if value.eq_ignore_ascii_case("false") => Ok(Some(false)),
        Some(value) => Err(Refusal::bad_header(name, value)),
    }
}
