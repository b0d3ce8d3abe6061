//! List Shares on the wire.

use contract::operations::Operation;
use contract::{ApiVersion, Refusal};
use env::Timestamp;
use partition::file::shares::{self as model, Beside, ListedShare, Place, What};
use partition::record::share::Protocol;
use partition::{Failure, Shell};

use crate::kept::{list_deletion, parse_version, version_text};
use crate::lease::list_lease;
use crate::listing::{includes, listing, put_metadata, put_parameters};
use crate::request::Request;
use crate::respond::document;
use crate::wire::Response;
use crate::xml::XmlWriter;

pub async fn list(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let with_metadata = includes(request, &["metadata", "snapshots", "deleted"])?;
    let asks = |word: &str| request.query.words("include").any(|given| given == word);
    let beside = Beside { snapshots: asks("snapshots"), deleted: asks("deleted") };
    let from = decode_marker(request.query.get("marker").unwrap_or_default())?;
    let listing = listing(request, String::new(), None)?;
    let (shares, next) = model::list(shell, &request.account.name, &listing, &from, beside).await?;
    let next = next.map(|next| if beside == Beside::default() { next.name } else { encode_marker(&next) });

    let mut xml = XmlWriter::new();
    xml.open_with("EnumerationResults", &[("ServiceEndpoint", &request.address.endpoint)]);
    put_parameters(&mut xml, request);
    if shares.is_empty() {
        xml.element("Shares", "");
    } else {
        xml.open("Shares");
        shares.iter().for_each(|share| put_share(&mut xml, request, share, with_metadata));
        xml.close("Shares");
    }
    xml.element("NextMarker", next.as_deref().unwrap_or_default()).close("EnumerationResults");
    Ok(document(request, row, xml.finish()))
}

fn put_share(xml: &mut XmlWriter, request: &Request<'_>, share: &ListedShare, with_metadata: bool) {
    let ListedShare { name, head, what } = share;
    xml.open("Share").element("Name", name);
    let deletion = match what {
        What::Share => None,
        What::Snapshot(taken) => {
            xml.element("Snapshot", &taken.iso8601());
            None
        }
        What::Deleted(deletion) => {
            xml.element("Deleted", "true").element("Version", &version_text(deletion.version));
            Some(deletion)
        }
    };
    xml.open("Properties");
    xml.element("Last-Modified", &head.last_modified.http_date()).element("Etag", &head.etag.quoted());
    if request.version >= ApiVersion::SHARE_LEASES {
        list_lease(xml, head.lease.as_ref(), request.now);
    }
    xml.element("Quota", &head.quota_gib.to_string());
    if request.version >= ApiVersion::SHARE_TIERS {
        xml.element("AccessTier", head.tier.name());
        xml.element("AccessTierChangeTime", &head.tier_changed.unwrap_or(head.created).http_date());
        xml.element("EnabledProtocols", head.protocol.name());
    }
    if head.protocol == Protocol::Nfs {
        xml.element("RootSquash", head.root_squash.name());
        xml.element("EnableSnapshotVirtualDirectoryAccess", if head.snapshot_directory { "true" } else { "false" });
    }
    list_deletion(xml, deletion, request.now);
    xml.close("Properties");
    if with_metadata {
        put_metadata(xml, &head.metadata);
    }
    xml.close("Share");
}

/// The name to go on from; behind it, where a page ends among the snapshots or deletions of one name, which of them.
fn encode_marker(place: &Place) -> String {
    format!("{}!{}!{:016X}", place.name, version_text(place.version), place.snapshot.ticks())
}

fn decode_marker(marker: &str) -> Result<Place, Refusal> {
    let decode = || match *marker.split('!').collect::<Vec<_>>() {
        [name] => Some(Place::first(name.to_string())),
        [name, version, snapshot] => Some(Place {
            name: name.to_string(),
            version: parse_version(version)?,
            snapshot: Timestamp::from_ticks(u64::from_str_radix(snapshot, 16).ok()?),
        }),
        _ => None,
    };
    decode().ok_or_else(|| Refusal::bad_query("marker", marker, "Not a marker of this service."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use partition::kept::KeptVersion;

    #[test]
    fn markers() {
        let place = |version, ticks| Place {
            name: "a-share".into(),
            version: KeptVersion(version),
            snapshot: Timestamp::from_ticks(ticks),
        };
        for place in [place(0, 0), place(u64::MAX, 7), place(5, u64::MAX)] {
            assert_eq!(decode_marker(&encode_marker(&place)), Ok(place));
        }
        assert_eq!(decode_marker("a-share"), Ok(place(0, 0)));
        for marker in ["a!", "a!0", "a!0000000000000000", "a!0000000000000000!x", "a!0!0!0", "a!0!0"] {
            assert!(decode_marker(marker).is_err(), "{marker}");
        }
    }
}
