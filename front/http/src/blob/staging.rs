//! Put Block, Put Block List and Get Block List on the wire.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use contract::operations::Operation;
use contract::{ApiVersion, ErrorCode, Refusal, limits};
use partition::blob::container;
use partition::blob::staging::{self as model, Among, PutBlock, PutBlockList};
use partition::record::blocks::Block;
use partition::record::event::Api;
use partition::{Content, Failure, Shell};

use super::block::{UNBUILT_ON_WRITE, attributes, named_properties};
use super::{refuse_unbuilt, stamp_made};
use crate::auth::Grant;
use crate::body::receive;
use crate::body::{limit_body, not_received, put_framing, put_hash};
use crate::hash::{Actual, Expected, HashedBody};
use crate::request::Request;
use crate::respond::document;
use crate::respond::stamp;
use crate::wire::{Body, BodyKind, Response};
use crate::xml::XmlWriter;
use crate::xml::read::{self, invalid};

pub async fn put_block(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    grant: Grant,
    body: &mut Body<'_>,
) -> Result<Response, Failure> {
    let (name, blob) = (request.container()?, request.blob()?);
    refuse_unbuilt(request, &UNBUILT_ON_WRITE, &[])?;
    request.refuse_past()?;
    let id = parse_block_id(request)?;
    let framing = limit_body(request, body, block_bytes_max(request.version))?;
    if request.head.body == BodyKind::Length(0) {
        return Err(Refusal::bad_header("Content-Length", "0").into());
    }
    let expected = Expected::parse(request)?;
    let expectation = request.expectation(row)?;
    let container = container::find(shell, &request.account.name, &name).await?;
    let mut command = PutBlock::new(&container.group, &blob, expectation, id, grant.may_overwrite, request.now);
    container.settle(shell, shell.admit(&command).await).await?;

    let mut source = HashedBody::new(body, framing.as_ref());
    command.content = Content::receive_extents(shell.engine.as_ref(), &mut source).await.map_err(not_received)?;
    let actual = source.finish().await?;
    expected.check(&actual)?;
    if command.content.bytes() == 0 {
        return Err(Refusal::bad_header("Content-Length", "0").into());
    }
    container.settle(shell, shell.execute(&command).await).await?;
    let mut response = Response::new(row.status);
    put_hash(&mut response, request.version, &expected, &actual);
    put_framing(&mut response, framing.as_ref());
    response.header("x-ms-request-server-encrypted", "true");
    Ok(response)
}

pub async fn put_block_list(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
    grant: Grant,
    body: &mut Body<'_>,
) -> Result<Response, Failure> {
    let (name, blob) = (request.container()?, request.blob()?);
    refuse_unbuilt(request, &UNBUILT_ON_WRITE, &[])?;
    request.refuse_past()?;
    let (expected, attributes) = (Expected::parse(request)?, attributes(request, named_properties(request)?)?);
    let (expectation, keeping) = (request.expectation(row)?, request.keeping());
    let document = receive(body).await?;
    let actual = Actual::of(&document);
    expected.check(&actual)?;
    let list = block_list(&document)?;
    let container = container::find(shell, &request.account.name, &name).await?;
    let mut command =
        PutBlockList::new(&container.group, &blob, expectation, attributes, keeping, grant.may_overwrite, list);
    command.announcement = request.announcement(shell, &name, &blob, Api::PutBlockList);
    let head = container.settle(shell, shell.execute(&command).await).await?;
    let mut response = Response::new(row.status);
    stamp_made(&mut response, &head);
    put_hash(&mut response, request.version, &expected, &actual);
    response.header("x-ms-request-server-encrypted", "true");
    Ok(response)
}

pub async fn get_block_list(
    shell: &Shell,
    request: &Request<'_>,
    row: &'static Operation,
) -> Result<Response, Failure> {
    let (name, blob) = (request.container()?, request.blob()?);

    let which = request.which()?;
    let (committed, uncommitted) = match request.query.get("blocklisttype") {
        None | Some("committed") => (true, false),
        Some("uncommitted") => (false, true),
        Some("all") => (true, true),
        Some(other) => return Err(Refusal::bad_query("blocklisttype", other, "Unknown value.").into()),
    };
    let expectation = request.expectation(row)?;
    let container = container::find(shell, &request.account.name, &name).await?;
    let read = model::blocks(shell, &container.group, &blob, which, &expectation).await;
    let blocks = container.settle(shell, read).await?;
    let mut xml = XmlWriter::new();
    xml.open("BlockList");
    if committed {
        put_blocks(&mut xml, "CommittedBlocks", &blocks.committed);
    }
    if uncommitted {
        put_blocks(&mut xml, "UncommittedBlocks", &blocks.uncommitted);
    }
    xml.close("BlockList");
    let mut response = document(request, row, xml.finish());
    if let Some(head) = &blocks.head {
        stamp(&mut response, head.etag, head.last_modified);
        response.header("x-ms-blob-content-length", head.content_bytes.to_string());
    }
    Ok(response)
}

fn put_blocks(xml: &mut XmlWriter, name: &str, blocks: &[Block]) {
    if blocks.is_empty() {
        xml.element(name, "");
        return;
    }
    xml.open(name);
    for block in blocks {
        xml.open("Block").element("Name", &STANDARD.encode(&block.id));
        xml.element("Size", &block.bytes.to_string()).close("Block");
    }
    xml.close(name);
}

fn block_bytes_max(version: ApiVersion) -> u64 {
    if version >= ApiVersion::PUT_BLOB_5000_MIB {
        limits::BLOCK_BYTES_MAX
    } else if version >= ApiVersion::PUT_BLOB_256_MIB {
        limits::BLOCK_BYTES_MAX_BEFORE_2019_12_12
    } else {
        limits::BLOCK_BYTES_MAX_BEFORE_2016_05_31
    }
}

pub fn parse_block_id(request: &Request<'_>) -> Result<Bytes, Refusal> {
    let text = request.query.get("blockid").ok_or_else(|| Refusal::missing_query("blockid"))?;
    block_id(text)
        .ok_or_else(|| Refusal::bad_query("blockid", text, "Not a valid base64 string, or longer than 64 bytes."))
}

/// 1 to 64 bytes in Base64.
fn block_id(text: &str) -> Option<Bytes> {
    let id = STANDARD.decode(text).ok()?;
    (1..=limits::BLOCK_ID_BYTES_MAX).contains(&id.len()).then(|| id.into())
}

/// `<BlockList>` of `<Latest>`, `<Committed>` and `<Uncommitted>`.
fn block_list(document: &[u8]) -> Result<Vec<(Among, Bytes)>, Refusal> {
    let root = read::parse(document)?;
    if root.name != "BlockList" {
        return Err(invalid("The root element is not BlockList."));
    }
    if root.children.len() > limits::BLOCKS_MAX {
        return Err(ErrorCode::BlockListTooLong.into());
    }
    let entry = |element: &read::Element| {
        let among = match element.name.as_str() {
            "Latest" => Among::Latest,
            "Committed" => Among::Committed,
            "Uncommitted" => Among::Uncommitted,
            _ => return Err(invalid("An element is neither Latest nor Committed nor Uncommitted.")),
        };
        Ok((among, block_id(element.text.trim()).ok_or(ErrorCode::InvalidBlockId)?))
    };
    root.children.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_lists() {
        let right = b"\xef\xbb\xbf<?xml version=\"1.0\"?><BlockList><Latest>YQ==</Latest>\n<Committed>Yg==</Committed><Uncommitted> Yw== </Uncommitted></BlockList>";
        let id = |text: &'static str| Bytes::from_static(text.as_bytes());
        let expected = [(Among::Latest, id("a")), (Among::Committed, id("b")), (Among::Uncommitted, id("c"))];
        assert_eq!(block_list(right), Ok(expected.to_vec()));
        assert_eq!(block_list(b"<BlockList />"), Ok(Vec::new()));
        let long = format!("<BlockList><Latest>{}</Latest></BlockList>", STANDARD.encode([0; 65]));
        let many = format!("<BlockList>{}</BlockList>", "<Latest>YQ==</Latest>".repeat(50_001));
        for (text, code) in [
            ("<Blocks />", ErrorCode::InvalidXmlDocument),
            ("<BlockList><Last>YQ==</Last></BlockList>", ErrorCode::InvalidXmlDocument),
            ("<BlockList>", ErrorCode::InvalidXmlDocument),
            ("<BlockList><Latest>***</Latest></BlockList>", ErrorCode::InvalidBlockId),
            ("<BlockList><Latest></Latest></BlockList>", ErrorCode::InvalidBlockId),
            (long.as_str(), ErrorCode::InvalidBlockId),
            (many.as_str(), ErrorCode::BlockListTooLong),
        ] {
            assert_eq!(block_list(text.as_bytes()).err().map(|refusal| refusal.code), Some(code), "{:.60}", text);
        }
    }
}
