//! Copy File and Abort Copy File on the wire.

use contract::limits;
use contract::names::Metadata;
use contract::operations::Operation;
use engine::GroupId;
use partition::blob::copy::SourceExpectation;
use partition::file::copy::{self as model, CopySettings, Source};
use partition::file::create::{Made, NewFile};
use partition::file::pending::{AbortCopy, StartCopy};
use partition::file::settings::Settings;
use partition::file::target::Target;
use partition::file::versions::At;
use partition::file::{permission, share};
use partition::record::blob::CopyState;
use partition::record::{ContentProperties, FileId};
use partition::{Failure, Shell};

use super::create::target;
use super::headers::{copy_settings, refuse_content_properties, refuse_source};
use super::wait::{Waiting, admit, execute};
use crate::app::App;
use crate::auth::{Credential, Grant};
use crate::body::{refuse_body, too_large};
use crate::copied;
use crate::copies;
use crate::request::Request;
use crate::respond::stamp;
use crate::source::content::{Read, ReadFile, read_blob, read_file};
use crate::source::origin::{self, Origin, OutsideSource, unreadable};
use crate::wire::Response;

/// Copy File: of our own at once, from outside in the background.
pub async fn copy(
    app: &App,
    request: &Request<'_>,
    row: &'static Operation,
    credential: &Credential,
    grant: Grant,
) -> Result<Response, Failure> {
    let shell = &app.shell;
    refuse_body(request)?;
    refuse_content_properties(request)?;
    let (expectation, metadata) = (origin::expectation_of_file(request, row)?, request.metadata()?);
    let ignores_read_only = request.flag("x-ms-file-copy-ignore-readonly")?;
    let (share, target) = target(shell, request, row).await?;
    let copying = Copying {
        app,
        request,
        settings: copy_settings(request, &share.head)?,
        metadata: Some(metadata).filter(|metadata| *metadata != Metadata::default()),
        may_overwrite: grant.may_overwrite,
        ignores_read_only,
        share,
    };
    let origin = origin::find(app, request, Some(credential)).await?;
    let shown = origin.shown();
    let made = match &origin {
        Origin::Blob(source) => {
            refuse_source(request, None)?;
            let read = read_blob(shell, source, &expectation, None).await?;
            let settings = copying.settings.clone();
            copying.of_own(target, settings, read, None, shown).await?
        }
        Origin::File(source) => {
            let ReadFile { read, share, node } = read_file(shell, request, source, &expectation, None).await?;
            refuse_source(request, Some(&node))?;
            let permission = match copying.settings.inherited.permission {
                true => Some(permission::of(shell, &share, &node).await.map_err(unreadable)?),
                false => None,
            };
            let settings = copying.settings.clone().of(&node, permission);
            let file = (share.at == At::Now).then(|| (share.group().clone(), node.id));
            copying.of_own(target, settings, read, file, shown).await?
        }
        Origin::Outside(outside) => copying.start(target, outside, &expectation, shown).await?,
    };
    let mut response = Response::new(row.status);
    stamp(&mut response, made.node.etag, made.node.last_modified);
    copied::put_begun(&mut response, made.node.copy.as_ref());
    Ok(response)
}

/// A copy on its way from request to command.
struct Copying<'a> {
    app: &'a App,
    request: &'a Request<'a>,
    share: share::Found,
    settings: CopySettings,
    /// If it is not the source's.
    metadata: Option<Metadata>,
    may_overwrite: bool,
    ignores_read_only: bool,
}

impl Copying<'_> {
    fn file(&self, target: Target, settings: Settings) -> NewFile {
        let (may_overwrite, ignores_read_only) = (self.may_overwrite, self.ignores_read_only);
        NewFile { target, settings, may_overwrite, ignores_read_only }
    }

    /// A source of ours, at once.
    async fn of_own(
        self,
        target: Target,
        settings: CopySettings,
        Read { reader, bytes, of }: Read,
        file: Option<(GroupId, FileId)>,
        shown: String,
    ) -> Result<Made, Failure> {
        let shell = &self.app.shell;
        let source = Source { reader, bytes, properties: of.properties, metadata: of.metadata, file };
        let file = self.file(target, settings.settings());
        let patience = Waiting::new(shell, self.request);
        let copied = model::copy(shell, file, self.metadata, shown, source, &patience).await;
        self.share.settle(shell, copied).await
    }

    /// A source outside, in the background: looked at, noted, begun.
    async fn start(
        self,
        target: Target,
        outside: &OutsideSource,
        expectation: &SourceExpectation,
        shown: String,
    ) -> Result<Made, Failure> {
        let (app, shell, request) = (self.app, &self.app.shell, self.request);
        refuse_source(request, None)?;
        let file = self.file(target, self.settings.clone().settings());
        let id = shell.ids.next();
        let mut command = StartCopy {
            file,
            properties: ContentProperties::default(),
            metadata: Metadata::default(),
            copy: CopyState::pending(id, shown, 0),
        };
        admit(shell, request, &self.share, &command).await?;
        let looked = copies::look(app, request, outside, expectation).await?;
        if looked.bytes > limits::FILE_BYTES_MAX {
            return Err(too_large(limits::FILE_BYTES_MAX).into());
        }
        let note = looked.note(self.share.group().clone(), None, request.now);
        command.copy.bytes = looked.bytes;
        command.properties = looked.of.properties;
        command.metadata = self.metadata.unwrap_or(looked.of.metadata);
        let begun = async { execute(shell, request, &self.share, &command).await };
        copies::start(app, request, outside, id, note, begun).await
    }
}

/// Abort Copy File.
pub async fn abort(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let id = copied::aborted(request)?;
    let (share, target) = target(shell, request, row).await?;
    execute(shell, request, &share, &AbortCopy { target, id }).await?;
    // The one who copies notices by itself.
    Ok(Response::new(row.status))
}
