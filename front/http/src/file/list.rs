//! List Directories and Files on the wire.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::Refusal;
use contract::operations::Operation;
use partition::file::list::{self as model, Listing};
use partition::record::Node;
use partition::{Failure, Shell};

use super::headers::permission_text;
use super::read::share;
use crate::listing::{listing, put_parameters};
use crate::request::Request;
use crate::respond::document;
use crate::wire::Response;
use crate::xml::{self, XmlWriter};

/// What is shown of each entry beside its name and, of files, its size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Include {
    times: bool,
    etag: bool,
    attributes: bool,
    permission: bool,
    ids: bool,
}

impl Include {
    fn parse(request: &Request<'_>) -> Result<Include, Refusal> {
        let mut include = Include { ids: request.flag("x-ms-file-extended-info")?, ..Include::default() };
        for word in request.query.words("include") {
            let part = match word.to_ascii_lowercase().as_str() {
                "timestamps" => &mut include.times,
                "etag" => &mut include.etag,
                "attributes" => &mut include.attributes,
                "permissionkey" => &mut include.permission,
                _ => return Err(Refusal::bad_query("include", word, "Unknown value.")),
            };
            *part = true;
            include.ids = true;
        }
        Ok(include)
    }
}

pub async fn directory(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let (path, expectation, include) = (request.file_path()?, request.expectation(row)?, Include::parse(request)?);
    let start = request.query.get("marker").map(decode_marker).transpose()?.unwrap_or_default();
    let shared = listing(request, start, None)?;
    let listing = Listing { prefix: shared.prefix, start: shared.start, results_max: shared.results_max };
    let share = share(shell, request).await?;
    let listed = model::list(shell, &share, &path, &expectation, &listing).await;
    let listed = share.settle(shell, listed).await?;

    let (name, path) = (request.share()?, path.to_string());
    let mut about = vec![("ServiceEndpoint", request.address.endpoint.as_str()), ("ShareName", name.as_str())];
    if let Some(snapshot) = request.query.get("sharesnapshot") {
        about.push(("ShareSnapshot", snapshot));
    }
    let encoded = xml::encoded(&path);
    about.push(("DirectoryPath", encoded.as_deref().unwrap_or(&path)));
    about.extend(encoded.is_some().then_some(xml::ENCODED));
    let mut xml = XmlWriter::new();
    xml.open_with("EnumerationResults", &about);
    put_parameters(&mut xml, request);
    if include.ids {
        xml.element("DirectoryId", &listed.directory.id.0.to_string());
    }
    match listed.entries.is_empty() {
        true => drop(xml.element("Entries", "")),
        false => {
            xml.open("Entries");
            listed.entries.iter().for_each(|(name, node)| put_entry(&mut xml, name, node, include));
            xml.close("Entries");
        }
    }
    let next = listed.next.map(|next| STANDARD.encode(next)).unwrap_or_default();
    xml.element("NextMarker", &next).close("EnumerationResults");
    Ok(document(request, row, xml.finish()))
}

fn put_entry(xml: &mut XmlWriter, name: &str, node: &Node, include: Include) {
    let kind = if node.is_directory() { "Directory" } else { "File" };
    xml.open(kind).name("Name", name);
    if include.ids {
        xml.element("FileId", &node.id.0.to_string());
    }
    if node.is_directory() && !include.times && !include.etag {
        xml.element("Properties", "");
    } else {
        xml.open("Properties");
        if !node.is_directory() {
            xml.element("Content-Length", &node.bytes().to_string());
        }
        if include.times {
            // When something was read is not kept: the last that is known to have happened to it is that it was written.
            xml.element("CreationTime", &node.created.iso8601()).element("LastAccessTime", &node.written.iso8601());
            xml.element("LastWriteTime", &node.written.iso8601()).element("ChangeTime", &node.changed.iso8601());
            xml.element("Last-Modified", &node.last_modified.http_date());
        }
        if include.etag {
            xml.element("Etag", &node.etag.quoted());
        }
        xml.close("Properties");
    }
    if include.attributes {
        xml.element("Attributes", &node.attributes.to_string());
    }
    if include.permission && node.posix.is_none() {
        xml.element("PermissionKey", &permission_text(node));
    }
    xml.close(kind);
}

/// The name to go on from, wrapped so that nobody takes it for a name.
fn decode_marker(marker: &str) -> Result<String, Refusal> {
    let name = STANDARD.decode(marker).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    name.ok_or_else(|| Refusal::bad_query("marker", marker, "Not a marker of this service."))
}
