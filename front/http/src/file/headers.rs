//! What is said of files and directories in headers: attributes, times, permissions, and what NFS knows of them.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::attributes::FileAttributes;
use contract::operations::Operation;
use contract::{ErrorCode, Refusal, limits};
use env::Timestamp;
use partition::file::copy::{CopySettings, Inherited};
use partition::file::create::Made;
use partition::file::security::{PermissionKey, SecurityDescriptor};
use partition::file::settings::{Permission, Settings, When, default_permission};
use partition::record::share::Protocol;
use partition::record::{ContentProperties, FileId, Node, NodeKind, ShareHead};

use crate::hash::parse_md5;
use crate::request::Request;
use crate::respond::stamp;
use crate::wire::Response;

const ATTRIBUTES: &str = "x-ms-file-attributes";
const PERMISSION: &str = "x-ms-file-permission";
pub const PERMISSION_KEY: &str = "x-ms-file-permission-key";
const FORMAT: &str = "x-ms-file-permission-format";
const CREATED: &str = "x-ms-file-creation-time";
const WRITTEN: &str = "x-ms-file-last-write-time";
const CHANGED: &str = "x-ms-file-change-time";
const SEMANTICS: &str = "x-ms-file-property-semantics";
const PERMISSION_COPY: &str = "x-ms-file-permission-copy-mode";
const OWNER_COPY: &str = "x-ms-file-owner-copy-mode";
const MODE_COPY: &str = "x-ms-file-mode-copy-mode";
const SET_ARCHIVE: &str = "x-ms-file-copy-set-archive";
const OWNER: &str = "x-ms-owner";
const GROUP: &str = "x-ms-group";
const MODE: &str = "x-ms-mode";

/// Are the headers about something new, or about something that is there?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum About {
    NewFile,
    NewDirectory,
    /// A new file, too, of which what is said to be the source's is not said.
    Copy,
    Old,
}

impl About {
    fn is_new(self) -> bool {
        self != About::Old
    }
}

pub fn settings(request: &Request<'_>, share: &ShareHead, about: About) -> Result<Settings, Refusal> {
    let mut settings = Settings::default();
    match share.protocol {
        Protocol::Smb => {
            refuse_sent(request, &[OWNER, GROUP, MODE])?;
            settings.attributes = attributes(request, about)?;
            settings.permission = permission(request, about)?;
        }
        Protocol::Nfs => {
            // Clients send what leaves everything as it is, whatever the share.
            refuse_unless(request, ATTRIBUTES, &["none", "preserve"])?;
            refuse_unless(request, PERMISSION, &["inherit", "preserve"])?;
            refuse_sent(request, &[PERMISSION_KEY])?;
            settings.owner = request.header(OWNER).map(|text| number(OWNER, text)).transpose()?;
            settings.group = request.header(GROUP).map(|text| number(GROUP, text)).transpose()?;
            settings.mode = request.header(MODE).map(mode).transpose()?;
        }
    }
    settings.created = when(request, CREATED, about)?;
    settings.written = when(request, WRITTEN, about)?;
    settings.changed = when(request, CHANGED, about)?;
    Ok(settings)
}

/// What is said of a copy; what is to be the source's is known only with the source.
pub fn copy_settings(request: &Request<'_>, share: &ShareHead) -> Result<CopySettings, Refusal> {
    match share.protocol {
        Protocol::Smb => refuse_sent(request, &[OWNER_COPY, MODE_COPY])?,
        Protocol::Nfs => refuse_sent(request, &[PERMISSION_COPY, SET_ARCHIVE])?,
    }
    refuse_sent(request, &[SEMANTICS])?;
    Ok(CopySettings {
        given: settings(request, share, About::Copy)?,
        inherited: Inherited {
            attributes: says_source(request, ATTRIBUTES),
            created: says_source(request, CREATED),
            written: says_source(request, WRITTEN),
            changed: says_source(request, CHANGED),
            permission: copies(request, PERMISSION_COPY, &[PERMISSION, PERMISSION_KEY])?,
            owner: copies(request, OWNER_COPY, &[OWNER, GROUP])?,
            mode: copies(request, MODE_COPY, &[MODE])?,
        },
        sets_archive: request.flag(SET_ARCHIVE)?,
    })
}

fn says_source(request: &Request<'_>, name: &str) -> bool {
    request.header(name).is_some_and(|text| text.eq_ignore_ascii_case("source"))
}

/// Is it the source's, or one of the others, which must be there then?
fn copies(request: &Request<'_>, mode: &'static str, others: &[&'static str]) -> Result<bool, Refusal> {
    let is_given = others.iter().any(|name| request.header(name).is_some());
    match request.header(mode) {
        None => Ok(false),
        Some(text) if text.eq_ignore_ascii_case("source") && !is_given => Ok(true),
        Some(text) if text.eq_ignore_ascii_case("override") && is_given => Ok(false),
        Some(text) if text.eq_ignore_ascii_case("override") => Err(Refusal::missing_header(others[0])),
        Some(text) => Err(Refusal::bad_header(mode, text)),
    }
}

/// What only a file has, and of the last two only one of an NFS share, cannot be taken from another source.
pub fn refuse_source(request: &Request<'_>, source: Option<&Node>) -> Result<(), Refusal> {
    let names = [OWNER_COPY, MODE_COPY, ATTRIBUTES, CREATED, WRITTEN, CHANGED, PERMISSION_COPY];
    let unknown = match source {
        None => &names[..],
        Some(node) if node.posix.is_none() => &names[..2],
        Some(_) => &[],
    };
    match unknown.iter().find(|name| says_source(request, name)) {
        Some(name) => Err(Refusal::bad_header(name, "source")),
        None => Ok(()),
    }
}

/// What would have no effect is refused by name, never silently left undone.
pub fn refuse_sent(request: &Request<'_>, names: &[&'static str]) -> Result<(), Refusal> {
    match names.iter().find(|name| request.header(name).is_some()) {
        Some(name) => Err(Refusal::from(ErrorCode::UnsupportedHeader).with("HeaderName", *name)),
        None => Ok(()),
    }
}

fn refuse_unless(request: &Request<'_>, name: &'static str, harmless: &[&str]) -> Result<(), Refusal> {
    match request.header(name) {
        Some(text) if !harmless.iter().any(|known| known.eq_ignore_ascii_case(text)) => refuse_sent(request, &[name]),
        _ => Ok(()),
    }
}

fn attributes(request: &Request<'_>, about: About) -> Result<Option<FileAttributes>, Refusal> {
    let restores = match request.header(SEMANTICS) {
        None => false,
        Some(text) if text.eq_ignore_ascii_case("new") => false,
        Some(text) if text.eq_ignore_ascii_case("restore") => true,
        Some(text) => return Err(Refusal::bad_header(SEMANTICS, text)),
    };
    let Some(text) = request.header(ATTRIBUTES) else { return Ok(None) };
    if !about.is_new() && text.eq_ignore_ascii_case("preserve")
        || about == About::Copy && says_source(request, ATTRIBUTES)
    {
        return Ok(None);
    }
    let bad = || Refusal::bad_header(ATTRIBUTES, text);
    let given = FileAttributes::parse(text).ok_or_else(bad)?;
    match about {
        About::NewFile | About::Copy if given.has(FileAttributes::DIRECTORY) => Err(bad()),
        // What is new is to be archived, unless it comes from an archive.
        About::NewFile if !restores => Ok(Some(given.with(FileAttributes::ARCHIVE))),
        _ => Ok(Some(given)),
    }
}

fn when(request: &Request<'_>, name: &'static str, about: About) -> Result<When, Refusal> {
    let Some(text) = request.header(name) else { return Ok(When::Unsaid) };
    if text.eq_ignore_ascii_case("now") {
        return Ok(When::Now);
    }
    if text.eq_ignore_ascii_case("preserve") && !about.is_new() {
        return Ok(When::Preserve);
    }
    if about == About::Copy && says_source(request, name) {
        return Ok(When::Unsaid);
    }
    Timestamp::parse_iso8601(text).map(When::At).ok_or_else(|| Refusal::bad_header(name, text))
}

fn permission(request: &Request<'_>, about: About) -> Result<Permission, Refusal> {
    let usual = if about.is_new() { "inherit" } else { "preserve" };
    match (request.header(PERMISSION), request.header(PERMISSION_KEY)) {
        (None, None) => Ok(Permission::Unsaid),
        (Some(text), None) if text.eq_ignore_ascii_case(usual) => Ok(Permission::Unsaid),
        (None, Some(text)) if text.eq_ignore_ascii_case(usual) => Ok(Permission::Unsaid),
        (None, Some(text)) => {
            let key = PermissionKey::parse(text).ok_or_else(|| Refusal::bad_header(PERMISSION_KEY, text))?;
            Ok(Permission::Known(key))
        }
        (Some(text), None) => {
            if text.len() > limits::FILE_PERMISSION_HEADER_BYTES_MAX {
                return Err(ErrorCode::FileInvalidPermission.into());
            }
            let descriptor = Format::asked(request)?.unwrap_or_default().read(text)?;
            let descriptor = if about.is_new() { descriptor.as_created() } else { descriptor.as_set() };
            Ok(Permission::Given(descriptor))
        }
        (Some(_), Some(text)) => Err(Refusal::bad_header(PERMISSION_KEY, text)),
    }
}

/// How a security descriptor is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Format {
    #[default]
    Sddl,
    /// Base64 of its bytes.
    Binary,
}

impl Format {
    pub const fn name(self) -> &'static str {
        match self {
            Format::Sddl => "sddl",
            Format::Binary => "binary",
        }
    }

    pub fn parse(text: &str) -> Option<Format> {
        [Format::Sddl, Format::Binary].into_iter().find(|format| format.name().eq_ignore_ascii_case(text))
    }

    /// The one that the header names.
    pub fn asked(request: &Request<'_>) -> Result<Option<Format>, Refusal> {
        let parse = |text: &str| Format::parse(text).ok_or_else(|| Refusal::bad_header(FORMAT, text));
        request.header(FORMAT).map(parse).transpose()
    }

    pub fn read(self, text: &str) -> Result<SecurityDescriptor, Refusal> {
        let descriptor = match self {
            Format::Sddl => SecurityDescriptor::parse_sddl(text),
            Format::Binary => STANDARD.decode(text).ok().and_then(|bytes| SecurityDescriptor::parse_binary(&bytes)),
        };
        descriptor.ok_or_else(|| ErrorCode::FileInvalidPermission.into())
    }

    pub fn write(self, descriptor: &SecurityDescriptor) -> String {
        match self {
            Format::Sddl => descriptor.to_sddl(),
            Format::Binary => STANDARD.encode(descriptor.to_binary()),
        }
    }
}

fn number(name: &'static str, text: &str) -> Result<u32, Refusal> {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_digits).ok_or_else(|| Refusal::bad_header(name, text))
}

/// Four octal digits.
fn mode(text: &str) -> Result<u16, Refusal> {
    let is_octal = (3..=4).contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
    let mode = u16::from_str_radix(text, 8).ok().filter(|_| is_octal);
    mode.ok_or_else(|| Refusal::bad_header(MODE, text))
}

/// What is stored about a file's content. `None` if none of it is sent: then what is there stays.
pub fn content_properties(request: &Request<'_>) -> Result<Option<ContentProperties>, Refusal> {
    let text = |name: &str| request.header(name).map(str::to_string);
    let properties = ContentProperties {
        content_type: text("x-ms-content-type"),
        content_encoding: text("x-ms-content-encoding"),
        content_language: text("x-ms-content-language"),
        content_disposition: text("x-ms-content-disposition"),
        cache_control: text("x-ms-cache-control"),
        content_md5: request.header("x-ms-content-md5").map(parse_md5).transpose()?,
    };
    Ok(Some(properties).filter(|properties| *properties != ContentProperties::default()))
}

/// A copy has what its source has.
pub fn refuse_content_properties(request: &Request<'_>) -> Result<(), Refusal> {
    refuse_sent(
        request,
        &[
            "x-ms-content-type",
            "x-ms-content-encoding",
            "x-ms-content-language",
            "x-ms-content-disposition",
            "x-ms-cache-control",
            "x-ms-content-md5",
        ],
    )
}

/// `x-ms-content-length`: how large a file is to be.
pub fn size(request: &Request<'_>) -> Result<Option<u64>, Refusal> {
    const NAME: &str = "x-ms-content-length";
    let parse = |text: &str| match text.parse::<u64>() {
        Ok(bytes) if bytes <= limits::FILE_BYTES_MAX => Ok(bytes),
        Ok(_) => Err(Refusal::from(ErrorCode::OutOfRangeInput).with("HeaderName", NAME).with("HeaderValue", text)),
        Err(_) => Err(Refusal::bad_header(NAME, text)),
    };
    request.header(NAME).map(parse).transpose()
}

/// The stamps and settings of what was made or changed.
pub fn made(row: &Operation, made: &Made) -> Response {
    let mut response = Response::new(row.status);
    stamp(&mut response, made.node.etag, made.node.last_modified);
    put_settings(&mut response, &made.node, made.parent());
    response.header("x-ms-request-server-encrypted", "true");
    response
}

pub fn put_settings(response: &mut Response, node: &Node, parent: FileId) {
    match &node.posix {
        None => {
            response.header(PERMISSION_KEY, permission_text(node)).header(ATTRIBUTES, node.attributes.to_string());
        }
        Some(posix) => {
            response.header(OWNER, posix.owner.to_string()).header(GROUP, posix.group.to_string());
            response.header(MODE, format!("{:04o}", posix.mode)).header("x-ms-link-count", posix.links.to_string());
            response.header("x-ms-file-file-type", file_type(node));
        }
    }
    response.header(CREATED, node.created.iso8601()).header(WRITTEN, node.written.iso8601());
    response.header(CHANGED, node.changed.iso8601());
    response.header("x-ms-file-id", node.id.0.to_string()).header("x-ms-file-parent-id", parent.0.to_string());
}

fn file_type(node: &Node) -> &'static str {
    match node.kind {
        NodeKind::Directory => "Directory",
        NodeKind::File { .. } => "Regular",
        NodeKind::SymbolicLink { .. } => "SymLink",
    }
}

/// The key of a node's permission.
pub fn permission_text(node: &Node) -> String {
    static DEFAULTS: LazyLock<[String; 2]> =
        LazyLock::new(|| [false, true].map(|is_directory| default_permission(is_directory).0.to_string()));
    match node.permission {
        Some(key) => key.to_string(),
        None => DEFAULTS[usize::from(node.is_directory())].clone(),
    }
}
