//! Tags on the wire: `x-ms-tags`, the document of Get and Set Blob Tags, and Find Blobs by Tags.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::limits::TAGS_HEADER_BYTES_MAX;
use contract::operations::{Operation, Resource};
use contract::{ErrorCode, Refusal};
use partition::blob::attribute::{Attribute, SetAttribute};
use partition::blob::find::{self as model, Hit, Position, Search};
use partition::blob::{container, read as blob_model};
use partition::tags::{self, Dialect, TagExpression, Tags};
use partition::{Failure, Shell};

use super::moment;
use crate::body::receive;
use crate::hash::{Actual, Expected};
use crate::listing::{includes, listing};
use crate::query::query_decode;
use crate::request::Request;
use crate::respond::document;
use crate::wire::{Body, Response};
use crate::xml::XmlWriter;
use crate::xml::read::{self, invalid};

pub async fn get(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let (name, blob, which) = (request.container()?, request.blob()?, request.which()?);
    let expectation = request.expectation(row)?;
    let container = container::find(shell, &request.account.name, &name).await?;
    let read = blob_model::properties(shell, &container.group, &blob, which, &expectation).await;
    let head = container.settle(shell, read).await?.head;
    let mut xml = XmlWriter::new();
    put_tags(&mut xml, head.tags.iter());
    Ok(document(request, row, xml.finish()))
}

pub async fn set(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    body: &mut Body<'_>,
) -> Result<Response, Failure> {
    let (name, blob, which) = (request.container()?, request.blob()?, request.which()?);
    if let Some(text) = request.query.get("snapshot") {
        return Err(Refusal::bad_query("snapshot", text, "Snapshots cannot be changed.").into());
    }
    let (expected, expectation) = (Expected::parse(request)?, request.expectation(row)?);
    let document = receive(body).await?;
    expected.check(&Actual::of(&document))?;
    let attribute = Attribute::Tags(parse_document(&document)?);
    let container = container::find(shell, &request.account.name, &name).await?;
    let command = SetAttribute::new(&container.group, &blob, which, expectation, attribute);
    container.settle(shell, shell.execute(&command).await).await?;
    Ok(Response::new(row.status))
}

/// Find Blobs by Tags, in the account or in one container.
pub async fn find(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let dialect = match row.on {
        Resource::Account => Dialect::WhereInAccount,
        _ => Dialect::WhereInContainer,
    };
    let text = request.query.get("where").ok_or_else(|| Refusal::missing_query("where"))?;
    let parsed = TagExpression::parse(text, dialect);
    let expression = parsed.map_err(|reason| Refusal::bad_query("where", text, reason))?;
    let start = request.query.get("marker").map_or(Ok(Position::default()), decode_marker)?;
    includes(request, &["none", "versions"])?;
    let versions = request.query.words("include").any(|word| word == "versions");
    let results_max = listing(request, String::new(), None)?.results_max;
    let search = Search { expression, start, results_max, versions };
    let found = match dialect {
        Dialect::WhereInAccount => model::in_account(shell, &request.account.name, &search).await?,
        _ => {
            let name = request.container()?;
            let container = container::find(shell, &request.account.name, &name).await?;
            model::in_container(shell, &container, &name, &search).await?
        }
    };
    let mut xml = XmlWriter::new();
    xml.open_with("EnumerationResults", &[("ServiceEndpoint", &request.address.endpoint)]);
    xml.element("Where", text).open("Blobs");
    found.hits.iter().for_each(|hit| put_hit(&mut xml, hit, versions));
    let next = found.next.as_ref().map(encode_marker).unwrap_or_default();
    xml.close("Blobs").element("NextMarker", &next).close("EnumerationResults");
    Ok(document(request, row, xml.finish()))
}

fn put_hit(xml: &mut XmlWriter, hit: &Hit, versions: bool) {
    xml.open("Blob").element("Name", &hit.blob).element("ContainerName", &hit.container);
    if let Some(version) = hit.version.filter(|_| versions) {
        xml.element("VersionId", &moment(version));
        if hit.is_current {
            xml.element("IsCurrentVersion", "true");
        }
    }
    put_tags(xml, hit.tags.iter());
    xml.close("Blob");
}

/// Where to go on, wrapped so that nobody takes it for a name. No container has a slash.
fn encode_marker(position: &Position) -> String {
    STANDARD.encode(format!("{}/{}/{}", position.version, position.container, position.blob))
}

fn decode_marker(marker: &str) -> Result<Position, Refusal> {
    let decode = || {
        let text = String::from_utf8(STANDARD.decode(marker).ok()?).ok()?;
        let (version, rest) = text.split_once('/')?;
        let (container, blob) = rest.split_once('/')?;
        Some(Position { container: container.to_string(), blob: blob.to_string(), version: version.parse().ok()? })
    };
    decode().ok_or_else(|| Refusal::bad_query("marker", marker, "Not a marker of this service."))
}

/// `x-ms-tags`: what a blob is made with.
pub fn sent(request: &Request<'_>) -> Result<Tags, Refusal> {
    request.header("x-ms-tags").map_or(Ok(Tags::new()), parse_header)
}

/// `k1=v1&k2=v2`, each of them URL-encoded as a query: .NET and Go write a blank as `+`, and a plus, which a tag may have, as `%2B`.
fn parse_header(text: &str) -> Result<Tags, Refusal> {
    if text.len() > TAGS_HEADER_BYTES_MAX {
        return Err(ErrorCode::TagsTooLarge.into());
    }
    let pair = |part: &str| {
        let (key, value) = part.split_once('=')?;
        Some((query_decode(key)?, query_decode(value)?))
    };
    let pairs: Option<Tags> = text.split('&').map(pair).collect();
    tags::check(pairs.ok_or(ErrorCode::InvalidTag)?)
}

/// `<Tags><TagSet><Tag><Key>…</Key><Value>…</Value></Tag></TagSet></Tags>`; an empty set has no tags.
fn parse_document(document: &[u8]) -> Result<Tags, Refusal> {
    let root = read::parse(document)?;
    if root.name != "Tags" {
        return Err(invalid("The root element is not Tags."));
    }
    let [set] = root.children.as_slice() else { return Err(invalid("Tags holds one TagSet.")) };
    if set.name != "TagSet" {
        return Err(invalid("Tags holds something that is not a TagSet."));
    }
    let tag = |element: &read::Element| {
        let key = element.child("Key").filter(|_| element.name == "Tag");
        match (key, element.child("Value")) {
            (Some(key), Some(value)) if element.children.len() == 2 => Ok((key.text.clone(), value.text.clone())),
            _ => Err(invalid("A TagSet holds elements Tag, each with a Key and a Value.")),
        }
    };
    tags::check(set.children.iter().map(tag).collect::<Result<Tags, Refusal>>()?)
}

/// The element that Get Blob Tags answers with, and that listings show.
pub fn put_tags<'a>(xml: &mut XmlWriter, tags: impl Iterator<Item = &'a (String, String)>) {
    xml.open("Tags").open("TagSet");
    for (key, value) in tags {
        xml.open("Tag").element("Key", key).element("Value", value).close("Tag");
    }
    xml.close("TagSet").close("Tags");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(tags: Result<Tags, Refusal>) -> String {
        match tags {
            Ok(tags) => tags.iter().map(|(key, value)| format!("[{key}={value}]")).collect(),
            Err(refusal) => refusal.code.name().to_string(),
        }
    }

    #[test]
    fn markers() {
        for (version, container, blob) in [(0, "box", ""), (u64::MAX, "$root", "a/b c"), (7, "box", "/\u{1f600}")] {
            let position = Position { container: container.into(), blob: blob.into(), version };
            assert_eq!(decode_marker(&encode_marker(&position)), Ok(position));
        }
        for text in ["", "a", "1/box", "x/box/b", "-1/box/b", "99999999999999999999/box/b"] {
            assert!(decode_marker(&STANDARD.encode(text)).is_err(), "{text}");
        }
        assert!(decode_marker("***").is_err() && decode_marker("/w==").is_err());
    }

    #[test]
    fn headers() {
        let long = format!("a={}", "%20".repeat(700));
        for (text, expected) in [
            ("a=1", "[a=1]"),
            ("b=2&a=1", "[a=1][b=2]"),
            ("a=", "[a=]"),
            ("a%20b=c%2Bd+e", "[a b=c+d e]"),
            ("Project+Name=Contoso+Ltd", "[Project Name=Contoso Ltd]"),
            ("a%3Db=c%3Dd", "[a=b=c=d]"),
            ("a=b=c", "[a=b=c]"),
            ("a", "InvalidTag"),
            ("a=1&", "InvalidTag"),
            ("&a=1", "InvalidTag"),
            ("a=%", "InvalidTag"),
            ("a=%ff", "InvalidTag"),
            ("a=%26", "InvalidTag"),
            ("a=<", "InvalidTag"),
            ("=1", "EmptyTagName"),
            ("a=1&a=2", "DuplicateTagNames"),
            (long.as_str(), "TagsTooLarge"),
            ("a=1&b=1&c=1&d=1&e=1&f=1&g=1&h=1&i=1&j=1&k=1", "TagsTooLarge"),
        ] {
            assert_eq!(shown(parse_header(text)), expected, "{text:.60}");
        }
    }

    #[test]
    fn documents() {
        for (text, expected) in [
            ("<Tags><TagSet></TagSet></Tags>", ""),
            ("<Tags><TagSet /></Tags>", ""),
            (
                "<Tags><TagSet><Tag><Key>b</Key><Value> x y</Value></Tag>\n<Tag><Key>a</Key><Value/></Tag></TagSet></Tags>",
                "[a=][b= x y]",
            ),
            ("<?xml version=\"1.0\"?><Tags><TagSet><Tag><Value>1</Value><Key>a</Key></Tag></TagSet></Tags>", "[a=1]"),
            ("<Tags><TagSet><Tag><Key>a</Key><Value>&lt;</Value></Tag></TagSet></Tags>", "InvalidTag"),
            ("<Tags><TagSet><Tag><Key></Key><Value>1</Value></Tag></TagSet></Tags>", "EmptyTagName"),
            ("<Tags />", "InvalidXmlDocument"),
            ("<TagSet />", "InvalidXmlDocument"),
            ("<Tags><TagSet><Tag><Key>a</Key></Tag></TagSet></Tags>", "InvalidXmlDocument"),
            ("<Tags><TagSet><Tag><Key>a</Key><Value>1</Value><More/></Tag></TagSet></Tags>", "InvalidXmlDocument"),
            ("<Tags><TagSet><Label><Key>a</Key><Value>1</Value></Label></TagSet></Tags>", "InvalidXmlDocument"),
            ("<Tags><TagSet /><TagSet /></Tags>", "InvalidXmlDocument"),
            ("<Tags><TagSet>", "InvalidXmlDocument"),
            ("", "InvalidXmlDocument"),
        ] {
            assert_eq!(shown(parse_document(text.as_bytes())), expected, "{text}");
        }
    }
}
