//! List Containers and List Blobs on the wire.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::operations::Operation;
use contract::{ApiVersion, Refusal};
use env::Timestamp;
use partition::blob::container;
use partition::blob::list::{self as model, Beside, Entry, ListedBlob, Position, What};
use partition::kept::{self, KeptVersion, ListedHead};
use partition::record::{BlobKind, ContainerHead, PublicAccess};
use partition::{Failure, Shell};

use super::tags::put_tags;
use super::{immutability, kind_name, moment, refuse_unbuilt, tier};
use crate::content::DEFAULT_CONTENT_TYPE;
use crate::copied::list_copy;
use crate::kept::{list_deletion, parse_version, version_text};
use crate::lease::list_lease;
use crate::listing::{includes, listing, put_metadata, put_parameters};
use crate::request::Request;
use crate::respond::document;
use crate::wire::Response;
use crate::xml::XmlWriter;

const CONTAINER_INCLUDES: [&str; 3] = ["metadata", "deleted", "system"];
const BLOB_INCLUDES: [&str; 11] = [
    "snapshots",
    "metadata",
    "uncommittedblobs",
    "copy",
    "deleted",
    "tags",
    "versions",
    "deletedwithversions",
    "immutabilitypolicy",
    "legalhold",
    "permissions",
];

pub async fn containers(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let with_metadata = includes(request, &CONTAINER_INCLUDES)?;
    let asks = |word: &str| request.query.words("include").any(|given| given == word);
    let (name, version) = container_start(request.query.get("marker").unwrap_or_default())?;
    let listing = listing(request, name, None)?;
    let (containers, next) = kept::list(shell, &request.account.name, &listing, version, asks("deleted")).await?;
    let next = next.map(|place| if asks("deleted") { container_marker(&place) } else { place.0 });

    let mut xml = XmlWriter::new();
    xml.open_with("EnumerationResults", &[("ServiceEndpoint", &request.address.endpoint)]);
    put_parameters(&mut xml, request);
    xml.open("Containers");
    for container in containers.iter().filter(|container| asks("system") || !is_system(&container.name)) {
        put_container(&mut xml, request, container, with_metadata);
    }
    xml.close("Containers").element("NextMarker", next.as_deref().unwrap_or_default());
    xml.close("EnumerationResults");
    Ok(document(request, row, xml.finish()))
}

pub async fn blobs(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let name = request.container()?;
    refuse_unbuilt(request, &[], &["showonly", "endbefore"])?;
    includes(request, &BLOB_INCLUDES)?;
    let include = Include::parse(request);
    let delimiter = request.query.get("delimiter").map(str::to_string);
    if delimiter.is_some() && include.beside.snapshots {
        return Err(Refusal::bad_query("include", "snapshots", "Snapshots cannot be listed by hierarchy.").into());
    }
    let from = request.query.get("marker").map(decode_marker).transpose()?.unwrap_or_default();
    let start = request.query.get("startfrom").unwrap_or_default().to_string();
    let listing = listing(request, start, delimiter)?;
    let expectation = request.expectation(row)?;
    let container = container::find(shell, &request.account.name, &name).await?;
    expectation.judge(Some(container.head.current()), request.now)?;
    let listed = model::blobs(shell, &container, &listing, &from, include.beside).await?;

    let mut xml = XmlWriter::new();
    let attributes = [("ServiceEndpoint", request.address.endpoint.as_str()), ("ContainerName", name.as_str())];
    xml.open_with("EnumerationResults", &attributes);
    put_parameters(&mut xml, request);
    xml.open("Blobs");
    for entry in &listed.entries {
        match entry {
            // One whose time has run out is not there.
            Entry::Item { head: ListedBlob { what: What::Current, head: Some(head), .. }, .. }
                if !head.is_there(request.now) => {}
            Entry::Item { name, head } => put_blob(&mut xml, request, name, head, include),
            Entry::Prefix(prefix) => {
                xml.open("BlobPrefix").name("Name", prefix).close("BlobPrefix");
            }
        }
    }
    let next = listed.next.map(|next| encode_marker(&next)).unwrap_or_default();
    xml.close("Blobs").element("NextMarker", &next).close("EnumerationResults");
    Ok(document(request, row, xml.finish()))
}

/// The words of `include` of a listing of blobs.
#[derive(Clone, Copy, Debug)]
struct Include {
    metadata: bool,
    beside: Beside,
}

impl Include {
    fn parse(request: &Request<'_>) -> Include {
        let asks = |word: &str| request.query.words("include").any(|given| given == word);
        let beside = Beside {
            snapshots: asks("snapshots"),
            versions: asks("versions"),
            deleted: asks("deleted"),
            versions_only: asks("deletedwithversions"),
            uncommitted: asks("uncommittedblobs"),
        };
        Include { metadata: asks("metadata"), beside }
    }
}

/// The service's own containers; `$root` and `$web` are their owner's.
fn is_system(name: &str) -> bool {
    ["$logs", "$blobchangefeed"].contains(&name)
}

/// The name to go on from; behind it, where a page ends among deleted containers of one name, which of them.
fn container_marker((name, version): &kept::Place) -> String {
    format!("{name}!{}", version_text(*version))
}

fn container_start(marker: &str) -> Result<kept::Place, Refusal> {
    let bad = || Refusal::bad_query("marker", marker, "Not a marker of this service.");
    match marker.split_once('!') {
        None => Ok((marker.to_string(), KeptVersion(0))),
        Some((name, version)) => Ok((name.to_string(), parse_version(version).ok_or_else(bad)?)),
    }
}

fn put_container(
    xml: &mut XmlWriter,
    request: &Request<'_>,
    container: &ListedHead<ContainerHead>,
    with_metadata: bool,
) {
    let ListedHead { name, head, deletion } = container;
    xml.open("Container").element("Name", name);
    if let Some(deletion) = deletion {
        xml.element("Version", &version_text(deletion.version)).element("Deleted", "true");
    }
    xml.open("Properties");
    xml.element("Last-Modified", &head.last_modified.http_date()).element("Etag", &head.etag.quoted());
    list_lease(xml, head.lease.as_ref(), request.now);
    match head.public_access {
        PublicAccess::Nobody => {}
        PublicAccess::Blob => drop(xml.element("PublicAccess", "blob")),
        PublicAccess::Container => drop(xml.element("PublicAccess", "container")),
    }
    xml.element("DefaultEncryptionScope", "$account-encryption-key").element("DenyEncryptionScopeOverride", "false");
    xml.element("HasImmutabilityPolicy", "false").element("HasLegalHold", "false");
    let immutable = if request.account.blob.immutable_storage { "true" } else { "false" };
    xml.element("ImmutableStorageWithVersioningEnabled", immutable);
    list_deletion(xml, deletion.as_ref(), request.now);
    xml.close("Properties");
    if with_metadata {
        put_metadata(xml, &head.metadata);
    }
    xml.close("Container");
}

fn put_blob(xml: &mut XmlWriter, request: &Request<'_>, name: &str, blob: &ListedBlob, include: Include) {
    xml.open("Blob").name("Name", name);
    let Some(head) = &blob.head else {
        put_uncommitted(xml);
        return;
    };
    let is_current = blob.what == What::Current && blob.deleted.is_none();
    match blob.what {
        What::Snapshot(ticks) => drop(xml.element("Snapshot", &moment(ticks))),
        What::Version(ticks) => drop(xml.element("VersionId", &moment(ticks))),
        What::Current if include.beside.versions => {
            if let Some(version) = head.version {
                xml.element("VersionId", &moment(version));
            }
            if is_current {
                xml.element("IsCurrentVersion", "true");
            }
        }
        What::Current | What::VersionsOnly | What::Uncommitted => {}
    }
    if blob.deleted.is_some() {
        xml.element("Deleted", "true");
    }
    xml.open("Properties");
    if request.version >= ApiVersion::CREATION_TIME {
        xml.element("Creation-Time", &head.created.http_date());
    }
    let properties = &head.properties;
    let md5 = properties.content_md5.map(|md5| STANDARD.encode(md5));
    xml.element("Last-Modified", &head.last_modified.http_date())
        .element("Etag", &head.etag.to_string())
        .element("Content-Length", &head.content_bytes.to_string())
        .element("Content-Type", properties.content_type.as_deref().unwrap_or(DEFAULT_CONTENT_TYPE))
        .element("Content-Encoding", properties.content_encoding.as_deref().unwrap_or_default())
        .element("Content-Language", properties.content_language.as_deref().unwrap_or_default())
        .element("Content-MD5", md5.as_deref().unwrap_or_default())
        .element("Cache-Control", properties.cache_control.as_deref().unwrap_or_default())
        .element("Content-Disposition", properties.content_disposition.as_deref().unwrap_or_default());
    if let BlobKind::Page { sequence, .. } = head.kind {
        xml.element("x-ms-blob-sequence-number", &sequence.to_string());
    }
    xml.element("BlobType", kind_name(head.kind));
    let has_tier = !matches!(blob.what, What::Snapshot(_)) && blob.deleted.is_none();
    let tier = tier::shown(head, request.now).filter(|_| has_tier);
    if let Some(tier) = &tier {
        xml.element("AccessTier", tier.tier);
        if tier.inferred {
            xml.element("AccessTierInferred", "true");
        }
        xml.optional("AccessTierChangeTime", tier.changed.map(Timestamp::http_date).as_deref());
        xml.optional("ArchiveStatus", tier.archive_status).optional("SmartAccessTier", tier.smart);
    }
    if is_current {
        list_lease(xml, head.lease.as_ref(), request.now);
    }
    if request.query.words("include").any(|word| word == "copy") {
        list_copy(xml, head.copy.as_ref());
    }
    xml.element("ServerEncrypted", "true");
    if !head.tags.is_empty() {
        xml.element("TagCount", &head.tags.len().to_string());
    }
    if let Some(deleted) = &blob.deleted {
        let days = deleted.until.days_since(request.now);
        xml.element("DeletedTime", &deleted.at.http_date()).element("RemainingRetentionDays", &days.to_string());
    }
    xml.optional("RehydratePriority", tier.and_then(|tier| tier.priority));
    if matches!(head.kind, BlobKind::Append { sealed: true, .. }) {
        xml.element("Sealed", "true");
    }
    if request.account.blob.track_last_access {
        xml.element("LastAccessTime", &head.last_access().http_date());
    }
    xml.optional("Expiry-Time", head.expires.map(Timestamp::http_date).as_deref());
    let asks = |wanted: &str| request.query.words("include").any(|word| word == wanted);
    if let Some(policy) = head.immutability.filter(|_| asks("immutabilitypolicy")) {
        xml.element("ImmutabilityPolicyUntilDate", &policy.until.http_date());
        xml.element("ImmutabilityPolicyMode", immutability::mode(policy));
    }
    if head.legal_hold && asks("legalhold") {
        xml.element("LegalHold", "true");
    }
    xml.close("Properties");
    if include.metadata {
        put_metadata(xml, &head.metadata);
    }
    if !head.tags.is_empty() && asks("tags") {
        put_tags(xml, head.tags.iter());
    }
    if blob.what == What::VersionsOnly {
        xml.element("HasVersionsOnly", "true");
    }
    xml.element("OrMetadata", "").close("Blob");
}

/// Of what is not committed there is a name, and nothing else.
fn put_uncommitted(xml: &mut XmlWriter) {
    xml.open("Properties").element("Content-Length", "0").element("BlobType", "BlockBlob");
    xml.element("AccessTier", "Hot").element("AccessTierInferred", "true");
    xml.element("LeaseStatus", "unlocked").element("LeaseState", "available").element("ServerEncrypted", "false");
    xml.close("Properties").close("Blob");
}

/// The name to go on from, and where among its states, wrapped so that nobody takes it for a name. Names have no NUL in them.
fn encode_marker(position: &Position) -> String {
    let mut bytes = position.name.clone().into_bytes();
    if !position.state.is_empty() {
        bytes.push(0);
        bytes.extend_from_slice(&position.state);
    }
    let encoded = STANDARD.encode(bytes);
    format!("2!{}!{encoded}", encoded.len())
}

fn decode_marker(marker: &str) -> Result<Position, Refusal> {
    let decode = || {
        let (length, encoded) = marker.strip_prefix("2!")?.split_once('!')?;
        let whole = length.parse() == Ok(encoded.len());
        let bytes = STANDARD.decode(encoded).ok().filter(|_| whole)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        let state = bytes.get(end + 1..).unwrap_or_default().to_vec().into();
        Some(Position { name: String::from_utf8(bytes[..end].to_vec()).ok()?, state })
    };
    decode().ok_or_else(|| Refusal::bad_query("marker", marker, "Not a marker of this service."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn markers() {
        for (name, state) in [("a", &b""[..]), ("dir/b c", &[0; 9]), ("\u{1f600}", &[0xFF; 9]), ("", b"")] {
            let position = Position { name: name.into(), state: Bytes::from_static(state) };
            assert_eq!(decode_marker(&encode_marker(&position)), Ok(position));
        }
        for marker in ["", "a", "2!", "2!4!", "2!3!YQ==", "2!4!****", "1!4!YQ==", "2!x!YQ==", "2!4!/w=="] {
            assert!(decode_marker(marker).is_err(), "{marker}");
        }
    }
}
