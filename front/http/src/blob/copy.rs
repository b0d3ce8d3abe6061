//! Copy Blob, Copy Blob From URL, Put Blob From URL and Abort Copy Blob on the wire.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use contract::names::{BlobName, ContainerName, Metadata};
use contract::operations::Operation;
use contract::{ErrorCode, Refusal, limits};
use partition::blob::container::{self, Found};
use partition::blob::copy::{CopyBlob, From, Making, SourceExpectation, Taken, open, take};
use partition::blob::incremental::IncrementalCopy;
use partition::blob::pending::{SettleCopy, StartCopy};
use partition::blob::{Attributes, Which};
use partition::checks::Expectation;
use partition::record::blob::{CopyState, Tier};
use partition::record::event::Api;
use partition::record::{BlobHead, ContentProperties};
use partition::{Content, Failure};

use super::block::{attributes, named_properties};
use super::from_url::refuse_unbuilt_on_copy;
use super::stamp_made;
use crate::app::App;
use crate::auth::{Credential, Grant};
use crate::body::refuse_body;
use crate::copied;
use crate::copies;
use crate::hash::Expected;
use crate::request::Request;
use crate::source::content::{self, Fetched, Wanted, fetch};
use crate::source::origin::{self, Origin, OutsideSource, OwnBlob, unreadable};
use crate::wire::Response;

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
    let origin = origin::find(app, request, Some(credential)).await?;
    copying.making.source = Some(origin.shown());
    let head = match origin {
        Origin::Blob(source) => copying.of_blob(&source, &Expected::default()).await?,
        Origin::File(_) => copying.of_content(&origin, Expected::default()).await?,
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
    let origin = origin::find(app, request, None).await?;
    copying.making.source = Some(origin.shown());
    let head = copying.at_once(origin, expected).await?;
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
    let head = copying.at_once(origin::find(app, request, None).await?, expected).await?;
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

    /// Any source, while the caller waits.
    async fn at_once(self, origin: Origin, expected: Expected) -> Result<BlobHead, Failure> {
        match origin {
            Origin::Blob(source) => self.of_blob(&source, &expected).await,
            Origin::File(_) | Origin::Outside(_) => self.of_content(&origin, expected).await,
        }
    }

    /// A blob of ours: its extents are named, and only where its hash is to be compared is it read.
    async fn of_blob(mut self, own: &OwnBlob, expected: &Expected) -> Result<BlobHead, Failure> {
        let shell = &self.app.shell;
        let destination = self.destination().await?;
        let found = container::find(shell, &own.account.name, &own.container).await.map_err(unreadable)?;
        let (group, compares) = (&found.group, *expected != Expected::default());
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

    /// What is no blob of ours, and becomes a block blob: a file, whose extents are named, or a source outside, which is read.
    async fn of_content(self, origin: &Origin, expected: Expected) -> Result<BlobHead, Failure> {
        let shell = &self.app.shell;
        self.refuse_unknowable()?;
        let destination = self.destination().await?;
        let nothing = Taken::received(&Content::Inline(Bytes::new()), Attributes::default(), self.request.now);
        let (app, request, source) = (self.app, self.request, self.source.clone());
        let mut command = self.command(&destination, From::Elsewhere(Box::new(nothing)));
        destination.settle(shell, shell.admit(&command).await).await?;
        let wanted =
            Wanted { range: None, bytes_max: source.bytes_max, extents: false, expected, expectation: &source };
        let Fetched { content, actual, mut of } = fetch(app, request, origin, &wanted).await?;
        of.properties.content_md5 = actual.map(|actual| actual.md5).or(of.properties.content_md5);
        command.from = From::Elsewhere(Box::new(Taken::received(&content, of, request.now)));
        destination.settle(shell, shell.execute(&command).await).await
    }

    /// A source outside, in the background: looked at, noted, begun.
    async fn start(self, outside: OutsideSource) -> Result<BlobHead, Failure> {
        let (app, shell, request) = (self.app, &self.app.shell, self.request);
        self.refuse_unknowable()?;
        let destination = self.destination().await?;
        let (keeping, id) = (request.keeping(), shell.ids.next());
        let begin = |attributes: Attributes, bytes: u64| {
            let copy = CopyState::pending(id, outside.url.shown(&[]), bytes);
            let (expectation, may) = (self.expectation.clone(), (keeping, self.grant.may_overwrite));
            StartCopy::new(&destination.group, &self.blob, expectation, attributes, may, copy)
        };
        destination.settle(shell, shell.admit(&begin(Attributes::default(), 0)).await).await?;

        // What other types need beside their bytes is not asked for.
        let source = SourceExpectation { only_blocks: true, ..self.source.clone() };
        let looked = copies::look(app, request, &outside, &source).await?;
        let (group, blob) = (destination.group.clone(), Some(self.blob.as_str().to_string()));
        let command = begin(self.making.attributes(&looked.of), looked.bytes);
        let begun = async { destination.settle(shell, shell.execute(&command).await).await };
        let mut note = looked.note(group, blob, request.now);
        note.asked = Some(request.asked(self.name.as_str()));
        copies::start(app, request, &outside, id, note, begun).await
    }

    async fn destination(&self) -> Result<Found, Failure> {
        container::find(&self.app.shell, &self.request.account.name, &self.name).await
    }

    /// What only a blob of ours can be asked.
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
        let api = if self.making.is_put { Api::PutBlob } else { Api::CopyBlob };
        let announcement = self.request.announcement(&self.app.shell, &self.name, &self.blob, api);
        let mut command =
            CopyBlob::new(&destination.group, &self.blob, expectations, from, self.making, keeping, may_overwrite);
        command.announcement = announcement;
        command
    }
}

/// Abort Copy Blob.
pub async fn abort(app: &App, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let (name, blob, shell) = (request.container()?, request.blob()?, &app.shell);
    let (id, expectation) = (copied::aborted(request)?, request.expectation(row)?);
    let container = container::find(shell, &request.account.name, &name).await?;
    let command = SettleCopy::abort(&container.group, &blob, id, expectation);
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
    let origin = origin::find(app, request, Some(credential)).await?;
    let Origin::Blob(own) = &origin else {
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
    let mut command =
        IncrementalCopy::new(&destination.group, &blob, expectation, of, own.url.shown(&[]), may_overwrite);
    command.announcement = request.announcement(shell, &name, &blob, Api::CopyBlob);
    let head = destination.settle(shell, shell.execute(&command).await).await?;
    Ok(copied(row, &head))
}

fn copied(row: &Operation, head: &BlobHead) -> Response {
    let mut response = Response::new(row.status);
    stamp_made(&mut response, head);
    copied::put_begun(&mut response, head.copy.as_ref());
    response
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
